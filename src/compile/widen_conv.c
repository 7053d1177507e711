/* SPDX-License-Identifier: Apache-2.0 */
/* Widen conv: where a target's fast convolutions are of f32, those of f16 and bf16 are computed in
 * f32 between two casts. Sums are in f32 either way and are rounded once, so the results are the
 * same; weights are cast when they are prepared, and take twice the memory. */
#include "compile/rewrite.h"

static bool is_half(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F16 || dtype == RLX_DTYPE_BF16;
}

static rlx_status visit(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    const rlx_target *target = rewrite->context->target;
    (void)user;
    if (rlx_rewrite_op(rewrite, root) != RLX_OP_CONV) return RLX_OK;
    rlx_value_id w = rlx_rewrite_input(rewrite, root, 1), inputs[4], y;
    const rlx_type type = *rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root));
    const rlx_conv_attrs attrs = *(const rlx_conv_attrs *)rlx_rewrite_attrs(rewrite, root);
    uint32_t input_count = rewrite->graph->nodes.items[root].input_count;
    if (target == NULL || target->channel_block == 0 || !is_half(type.dtype) ||
        rlx_rewrite_has_extent(&type) || rlx_rewrite_has_extent(rlx_rewrite_type(rewrite, w))) {
        return RLX_OK;
    }
    for (uint32_t i = 0; i < input_count; i++) {
        inputs[i] = rlx_rewrite_input(rewrite, root, i);
        if (inputs[i] == RLX_NONE) continue;
        RLX_TRY(rlx_rewrite_cast(rewrite, root, inputs[i], RLX_DTYPE_F32, &inputs[i]));
    }
    const rlx_cast_attrs back = {.to = type.dtype};
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_CONV, &attrs, inputs, input_count, &y));
    return rlx_rewrite_node(rewrite, root, RLX_OP_CAST, &back, &y, 1, NULL);
}

rlx_status rlx_pass_widen_conv(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_rewrite_walk(&rewrite, visit, NULL));
    return rlx_rewrite_finish(&rewrite);
}
