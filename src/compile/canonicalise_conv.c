/* SPDX-License-Identifier: Apache-2.0 */
/* Zeros around an image that a conv reads are the conv's own padding. */
#include "compile/canonicalise.h"

#include "ir/infer.h"
#include "ir/window.h"

/* A pad with zeros along spatial axes alone. */
static bool is_border(const rlx_rewrite *rewrite, rlx_node_id pad) {
    const rlx_pad_attrs *attrs = rlx_rewrite_attrs(rewrite, pad);
    uint32_t rank = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, pad, 0))->shape.rank;
    if (attrs->mode != RLX_PAD_CONSTANT || attrs->value != 0 || attrs->pads.count != 2 * rank)
        return false;
    for (uint32_t i = 0; i < 2 * rank; i++) {
        if (attrs->pads.items[i] < 0 || (i % rank < 2 && attrs->pads.items[i] != 0)) return false;
    }
    return true;
}

rlx_status rlx_canonicalise_conv(rlx_rewrite *rewrite, rlx_node_id root) {
    if (rlx_rewrite_op(rewrite, root) != RLX_OP_CONV) return RLX_OK;
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0), inputs[4];
    rlx_node_id pad = rlx_rewrite_inner(rewrite, root, x, RLX_OP_PAD);
    rlx_conv_attrs attrs = *(const rlx_conv_attrs *)rlx_rewrite_attrs(rewrite, root);
    const rlx_type *type = rlx_rewrite_type(rewrite, x);
    const rlx_shape *kernel =
        &rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 1))->shape;
    uint32_t count = type->shape.rank - 2,
             input_count = rewrite->graph->nodes.items[root].input_count;
    rlx_windows windows;
    if (pad == RLX_NONE || attrs.channel_block != 0 || rlx_rewrite_has_extent(type) ||
        !rlx_dtype_is_float(type->dtype) || !is_border(rewrite, pad) ||
        rlx_windows_conv(&attrs, count, type->shape.dims + 2, kernel->dims + 2, &windows) !=
            RLX_OK) {
        return RLX_OK;
    }
    const rlx_pad_attrs *border = rlx_rewrite_attrs(rewrite, pad);
    attrs.auto_pad = RLX_AUTO_PAD_EXPLICIT;
    attrs.pads.count = 2 * count;
    for (uint32_t i = 0; i < count; i++) {
        attrs.pads.items[i] = windows.axes[i].begin + border->pads.items[2 + i];
        attrs.pads.items[count + i] = windows.axes[i].end + border->pads.items[count + 4 + i];
    }
    for (uint32_t i = 0; i < input_count; i++)
        inputs[i] = rlx_rewrite_input(rewrite, root, i);
    inputs[0] = rlx_rewrite_input(rewrite, pad, 0);
    return rlx_rewrite_node(rewrite, root, RLX_OP_CONV, &attrs, inputs, input_count, NULL);
}
