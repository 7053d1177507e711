/* SPDX-License-Identifier: Apache-2.0 */
/* Split groups: a conv of one tap with several groups and a batch of 1 is a product per group,
 * [M / g][C / g] times [C / g][pixels]. Groups that fill blocks of channels stay a conv, whose
 * kernels have them in blocks; so do depthwise convs. */
#include "compile/rewrite.h"
#include "ir/infer.h"

#include <string.h>

/* Below this a group has too little to multiply; kernels want whole blocks of this many. */
enum { LEAST_CHANNELS = 4, BLOCK = 16 };

static bool all_are(const rlx_ints *list, int64_t number) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->items[i] != number) return false;
    }
    return true;
}

static bool is_product(const rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_conv_attrs *attrs = rlx_rewrite_attrs(rewrite, root);
    const rlx_type *x = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 0));
    const rlx_type *w = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 1));
    if (attrs->groups < 2 || attrs->activation.op != RLX_OP_NONE || attrs->channel_block != 0 ||
        !all_are(&attrs->strides, 1) || !all_are(&attrs->pads, 0)) {
        return false;
    }
    if (rlx_rewrite_has_extent(x) || !rlx_dtype_is_float(x->dtype) || x->shape.dims[0] != 1 ||
        rlx_rewrite_input(rewrite, root, 3) != RLX_NONE) {
        return false;
    }
    for (uint32_t i = 2; i < x->shape.rank; i++) {
        if (w->shape.dims[i] != 1 || x->shape.dims[i] == 0) return false;
    }
    int64_t in = w->shape.dims[1], out = w->shape.dims[0] / attrs->groups;
    bool is_blocked = in % BLOCK == 0 && out % (2 * BLOCK) == 0;
    return in >= LEAST_CHANNELS && out >= LEAST_CHANNELS && !is_blocked;
}

static rlx_status split(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    (void)user;
    if (rlx_rewrite_op(rewrite, root) != RLX_OP_CONV || !is_product(rewrite, root)) return RLX_OK;
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0), w = rlx_rewrite_input(rewrite, root, 1);
    rlx_value_id bias = rlx_rewrite_input(rewrite, root, 2), operands[2];
    const rlx_shape out = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root))->shape;
    const rlx_shape weight = rlx_rewrite_type(rewrite, w)->shape;
    int64_t groups = ((const rlx_conv_attrs *)rlx_rewrite_attrs(rewrite, root))->groups, pixels = 1;
    const rlx_matmul_attrs product = {0};
    rlx_reshape_attrs back = {.shape = {.count = out.rank}};
    memcpy(back.shape.items, out.dims, out.rank * sizeof *out.dims);
    for (uint32_t i = 2; i < out.rank; i++)
        pixels *= out.dims[i];
    const int64_t w_dims[3] = {groups, weight.dims[0] / groups, weight.dims[1]};
    const int64_t x_dims[3] = {groups, weight.dims[1], pixels};
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, w, w_dims, 3, &operands[0]));
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, x, x_dims, 3, &operands[1]));
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_MATMUL, &product, operands, 2, &operands[0]));
    if (bias == RLX_NONE)
        return rlx_rewrite_node(rewrite, root, RLX_OP_RESHAPE, &back, operands, 1, NULL);
    int64_t bias_dims[RLX_MAX_RANK] = {1, weight.dims[0]};
    for (uint32_t i = 2; i < out.rank; i++)
        bias_dims[i] = 1;
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_RESHAPE, &back, operands, 1, &operands[0]));
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, bias, bias_dims, out.rank, &operands[1]));
    return rlx_rewrite_node(rewrite, root, RLX_OP_ADD, NULL, operands, 2, NULL);
}

rlx_status rlx_pass_split_groups(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_rewrite_walk(&rewrite, split, NULL));
    return rlx_rewrite_finish(&rewrite);
}
