/* SPDX-License-Identifier: Apache-2.0 */
/* Split groups: a conv of one tap with several groups and a batch of 1 is a product per group,
 * [M / g][C / g] times [C / g][pixels]. Groups that fill blocks of channels stay a conv, whose
 * kernels have them in blocks; so do depthwise convs, and those of f32 where the target has kernels
 * for planes, and groups that kernels take as they are (rlx_conv_is_narrow, conv_planes_groups.c).
 * Two groups may be merged where that leaves less to multiply: each output then multiplies the
 * inputs of its neighbour with zeros. How many were merged is written down: zero times infinity is
 * none, so kernels see to it that no group sees another. Bias, residual and activation go along. */
#include "compile/rewrite.h"
#include "ir/infer.h"

#include <string.h>

/* Below this a group has too little to multiply; kernels want whole blocks of this many. */
enum { LEAST_CHANNELS = 4, BLOCK = 16, LEAST_PIXELS = 32, PLANES_BLOCK = 8 };

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
    if (attrs->groups < 2 || attrs->channel_block != 0 || !all_are(&attrs->strides, 1) ||
        !all_are(&attrs->pads, 0)) {
        return false;
    }
    if (rlx_rewrite_has_extent(x) || !rlx_dtype_is_float(x->dtype) || x->shape.dims[0] != 1) {
        return false;
    }
    for (uint32_t i = 2; i < x->shape.rank; i++) {
        if (w->shape.dims[i] != 1 || x->shape.dims[i] == 0) return false;
    }
    int64_t in = w->shape.dims[1], out = w->shape.dims[0] / attrs->groups;
    bool is_blocked = in % BLOCK == 0 && out % (2 * BLOCK) == 0;
    return in >= LEAST_CHANNELS && out >= LEAST_CHANNELS && !is_blocked;
}

/* Products of f32 that are wide enough for a kernel whose lanes are pixels; vectors of 64 bytes
 * have kernels for products alone. */
static bool is_for_planes(const rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_target *target = rewrite->context->target;
    const rlx_type *x = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 0));
    int64_t pixels = 1;
    for (uint32_t i = 2; i < x->shape.rank; i++)
        pixels *= x->shape.dims[i];
    return target != NULL && target->channel_block == PLANES_BLOCK && x->dtype == RLX_DTYPE_F32 &&
           pixels >= LEAST_PIXELS;
}

static rlx_status split(rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_conv_attrs *conv = rlx_rewrite_attrs(rewrite, root);
    const rlx_shape out = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root))->shape;
    const rlx_shape weight = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 1))->shape;
    const rlx_matmul_attrs product = {.activation = conv->activation};
    rlx_reshape_attrs back = {.shape = {.count = out.rank}};
    int64_t groups = conv->groups, rows = weight.dims[0] / groups, pixels = 1;
    memcpy(back.shape.items, out.dims, out.rank * sizeof *out.dims);
    for (uint32_t i = 2; i < out.rank; i++)
        pixels *= out.dims[i];
    const int64_t dims[4][3] = {{groups, weight.dims[1], pixels},
                                {groups, rows, weight.dims[1]},
                                {groups, rows, 1},
                                {groups, rows, pixels}};
    rlx_value_id operands[4] = {RLX_NONE, RLX_NONE, RLX_NONE, RLX_NONE};
    uint32_t count = 2;
    for (uint32_t i = 0; i < 4; i++) {
        rlx_value_id input = rlx_rewrite_input(rewrite, root, i);
        if (input == RLX_NONE) continue;
        RLX_TRY(rlx_rewrite_reshaped(rewrite, root, input, dims[i], 3, &operands[i]));
        if (i >= count) count = i + 1;
    }
    rlx_value_id x = operands[0];
    operands[0] = operands[1], operands[1] = x; /* weights times x */
    RLX_TRY(
        rlx_rewrite_insert(rewrite, root, RLX_OP_MATMUL, &product, operands, count, &operands[0]));
    return rlx_rewrite_node(rewrite, root, RLX_OP_RESHAPE, &back, operands, 1, NULL);
}

/* Two groups whose conv Winograd's filtering then takes (winograd.c): it leaves a third of the
 * products, and the zeros double them; others do better on planes. */
static bool is_for_merging(const rlx_rewrite *rewrite, rlx_node_id root) {
    enum { GROUPS = 2, LEAST_INPUTS = 16, SIDE = 3 };
    const rlx_conv_attrs *attrs = rlx_rewrite_attrs(rewrite, root);
    const rlx_target *target = rewrite->context->target;
    rlx_value_id w = rlx_rewrite_input(rewrite, root, 1);
    const rlx_type *x = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 0));
    const rlx_shape *shape = &rlx_rewrite_type(rewrite, w)->shape;
    if (attrs->groups != GROUPS || target == NULL || target->channel_block == 0 ||
        x->dtype != RLX_DTYPE_F32 || shape->rank != 4 ||
        rlx_rewrite_has_extent(rlx_rewrite_type(rewrite, w))) {
        return false;
    }
    int64_t in = shape->dims[1], out = shape->dims[0] / GROUPS;
    int64_t block = (int64_t)target->channel_block;
    if (in < LEAST_INPUTS || shape->dims[2] != SIDE || shape->dims[3] != SIDE) return false;
    if (!all_are(&attrs->strides, 1) || 2 * GROUPS * out < block) return false;
    bool is_whole = in % block == 0 && out % (2 * block) == 0;
    return !is_whole && !rlx_conv_is_narrow(block, in, out, GROUPS);
}

static rlx_status put(rlx_rewrite *rewrite, rlx_node_id root, rlx_op op, const void *attrs,
                      rlx_value_id *value) {
    return rlx_rewrite_insert(rewrite, root, op, attrs, value, 1, value);
}

/* Of n groups the weights [M / g][row] each come to stand side by side in rows n times as long: a
 * row that is filled up to n + 1 times its length begins one row further than the row before it. */
static rlx_status widen_rows(rlx_rewrite *rewrite, rlx_node_id root, int64_t n, int64_t groups,
                             rlx_value_id *w) {
    const rlx_shape shape = rlx_rewrite_type(rewrite, *w)->shape;
    int64_t out = shape.dims[0] / groups, row = 1;
    rlx_transpose_attrs swap = {.perm = {4, {0, 2, 1, 3}}};
    rlx_pad_attrs fill = {.pads = {.count = 8}};
    rlx_slice_attrs cut = {.axes = {1, {2}}, .starts = {1, {0}}};
    for (uint32_t i = 1; i < shape.rank; i++)
        row *= shape.dims[i];
    fill.pads.items[7] = n * row;
    cut.ends = (rlx_ints){1, {n * n * row}};
    const int64_t apart[4] = {groups / n, n, out, row};
    const int64_t flat[3] = {groups / n, out, n * (n + 1) * row};
    const int64_t wide[4] = {groups / n, out, n, n * row};
    int64_t back[RLX_MAX_RANK];
    memcpy(back, shape.dims, sizeof back);
    back[1] *= n;
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, *w, apart, 4, w));
    RLX_TRY(put(rewrite, root, RLX_OP_TRANSPOSE, &swap, w));
    RLX_TRY(put(rewrite, root, RLX_OP_PAD, &fill, w));
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, *w, flat, 3, w));
    RLX_TRY(put(rewrite, root, RLX_OP_SLICE, &cut, w));
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, *w, wide, 4, w));
    RLX_TRY(put(rewrite, root, RLX_OP_TRANSPOSE, &swap, w));
    return rlx_rewrite_reshaped(rewrite, root, *w, back, shape.rank, w);
}

static rlx_status merge(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_conv_attrs attrs = *(const rlx_conv_attrs *)rlx_rewrite_attrs(rewrite, root);
    const int64_t n = attrs.groups;
    uint32_t input_count = rewrite->graph->nodes.items[root].input_count;
    rlx_value_id inputs[4];
    for (uint32_t i = 0; i < input_count; i++)
        inputs[i] = rlx_rewrite_input(rewrite, root, i);
    RLX_TRY(widen_rows(rewrite, root, n, attrs.groups, &inputs[1]));
    attrs.groups /= n;
    attrs.merged = n;
    return rlx_rewrite_node(rewrite, root, RLX_OP_CONV, &attrs, inputs, input_count, NULL);
}

static rlx_status visit(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    (void)user;
    if (rlx_rewrite_op(rewrite, root) != RLX_OP_CONV) return RLX_OK;
    if (((const rlx_conv_attrs *)rlx_rewrite_attrs(rewrite, root))->merged > 1) return RLX_OK;
    if (is_product(rewrite, root)) {
        return is_for_planes(rewrite, root) ? RLX_OK : split(rewrite, root);
    }
    return is_for_merging(rewrite, root) ? merge(rewrite, root) : RLX_OK;
}

rlx_status rlx_pass_split_groups(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_rewrite_walk(&rewrite, visit, NULL));
    return rlx_rewrite_finish(&rewrite);
}
