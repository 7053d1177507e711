/* SPDX-License-Identifier: Apache-2.0 */
/* Fold depth: for targets with kernels for planes alone, a conv over three axes is one over two.
 * Each position along the first axis becomes an image of its own; the taps that it meets there lie
 * side by side as channels: [N][C][D][H][W] to [N D'][K C][H][W], by as many slices as there are
 * taps. Channels on their own (depthwise) have nothing to put side by side: one conv per tap there,
 * each adding to the one before it. Where no window is larger than 1 in depth and height, these two
 * are one axis. Kernels that are weights are turned once, as they are prepared. */
#include "compile/rewrite.h"
#include "ir/infer.h"
#include "ir/window.h"

#include <string.h>

enum { DEPTH = 2, RANK = 5, MOST_TAPS = 16 };

/* One conv. */
typedef struct folding {
    rlx_rewrite *rewrite;
    rlx_node_id root;
    rlx_window depth;
    bool is_flat;                           /* depth and height are one axis */
    int64_t batch, groups, inputs, outputs; /* channels: of a group, of all groups */
} folding;

/* Every position is one of the input. */
static bool is_still(const rlx_window *axis) {
    return axis->kernel == 1 && axis->stride == 1 && axis->begin == 0 && axis->end == 0;
}

static bool read_folding(rlx_rewrite *rewrite, rlx_node_id root, folding *out) {
    const rlx_conv_attrs *attrs = rlx_rewrite_attrs(rewrite, root);
    const rlx_value_id w = rlx_rewrite_input(rewrite, root, 1);
    const rlx_type *x = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 0));
    const rlx_shape *kernel = &rlx_rewrite_type(rewrite, w)->shape;
    rlx_windows windows;
    if (x->shape.rank != RANK || attrs->channel_block != 0 || rlx_rewrite_has_extent(x) ||
        !rlx_dtype_is_float(x->dtype) || rlx_rewrite_has_extent(rlx_rewrite_type(rewrite, w)) ||
        rlx_windows_conv(attrs, RANK - 2, x->shape.dims + 2, kernel->dims + 2, &windows) !=
            RLX_OK) {
        return false;
    }
    *out = (folding){.rewrite = rewrite,
                     .root = root,
                     .depth = windows.axes[0],
                     .is_flat = is_still(&windows.axes[0]) && is_still(&windows.axes[1]),
                     .batch = x->shape.dims[0],
                     .groups = attrs->groups == 0 ? 1 : attrs->groups,
                     .inputs = kernel->dims[1],
                     .outputs = kernel->dims[0]};
    for (uint32_t i = 0; i < windows.count; i++) {
        if (windows.axes[i].in == 0 || windows.axes[i].out == 0) return false;
    }
    return out->depth.kernel > 0 && out->depth.kernel <= MOST_TAPS && out->inputs > 0 &&
           out->batch > 0 && 2 * out->outputs >= rewrite->context->target->channel_block;
}

static rlx_status put(const folding *self, rlx_op op, const void *attrs, rlx_value_id *value) {
    return rlx_rewrite_insert(self->rewrite, self->root, op, attrs, value, 1, value);
}
static rlx_status reshape(const folding *self, const int64_t *dims, uint32_t rank,
                          rlx_value_id *value) {
    return rlx_rewrite_reshaped(self->rewrite, self->root, *value, dims, rank, value);
}

/* Channels behind depth, and back. */
static rlx_status swap(const folding *self, rlx_value_id *value) {
    const rlx_transpose_attrs attrs = {.perm = {.count = RANK, .items = {0, 2, 1, 3, 4}}};
    return put(self, RLX_OP_TRANSPOSE, &attrs, value);
}

/* [N][C][D].. to images, [N D][C]..; `value` may be absent. */
static rlx_status to_images(const folding *self, rlx_value_id *value) {
    if (*value == RLX_NONE) return RLX_OK;
    const rlx_shape shape = rlx_rewrite_type(self->rewrite, *value)->shape;
    const int64_t dims[] = {shape.dims[0] * shape.dims[DEPTH], shape.dims[1], shape.dims[3],
                            shape.dims[4]};
    RLX_TRY(swap(self, value));
    return reshape(self, dims, RANK - 1, value);
}

/* Zeros in front of and behind axis 1, where windows reach outside. */
static rlx_status pad_depth(const folding *self, rlx_value_id *value) {
    const rlx_window *depth = &self->depth;
    int64_t reach = (depth->out - 1) * depth->stride + (depth->kernel - 1) * depth->dilation + 1;
    int64_t behind = reach - depth->begin - depth->in;
    rlx_pad_attrs attrs = {.pads = {.count = 2 * RANK}};
    attrs.pads.items[1] = depth->begin;
    attrs.pads.items[RANK + 1] = behind > 0 ? behind : 0;
    if (depth->begin <= 0 && behind <= 0) return RLX_OK;
    return put(self, RLX_OP_PAD, &attrs, value);
}

/* Every tap's inputs, [N][D'][g][C / g][H][W] each, side by side along C / g. */
static rlx_status gather_taps(const folding *self, rlx_value_id *value) {
    const rlx_window *depth = &self->depth;
    rlx_value_id taps[MOST_TAPS];
    rlx_axis_attrs concat = {.axis = 3};
    rlx_slice_attrs slice = {.starts = {.count = 1},
                             .ends = {.count = 1},
                             .axes = {.count = 1, .items = {1}},
                             .steps = {.count = 1, .items = {depth->stride}}};
    const rlx_shape shape = rlx_rewrite_type(self->rewrite, *value)->shape;
    const int64_t dims[] = {shape.dims[0], shape.dims[1], self->groups,
                            self->inputs,  shape.dims[3], shape.dims[4]};
    const int64_t flat[] = {self->batch * depth->out, self->groups * self->inputs * depth->kernel,
                            shape.dims[3], shape.dims[4]};
    RLX_TRY(reshape(self, dims, 6, value));
    for (int64_t i = 0; i < depth->kernel; i++) {
        taps[i] = *value;
        slice.starts.items[0] = i * depth->dilation;
        slice.ends.items[0] = i * depth->dilation + (depth->out - 1) * depth->stride + 1;
        RLX_TRY(put(self, RLX_OP_SLICE, &slice, &taps[i]));
    }
    *value = taps[0];
    if (depth->kernel > 1)
        RLX_TRY(rlx_rewrite_insert(self->rewrite, self->root, RLX_OP_CONCAT, &concat, taps,
                                   (uint32_t)depth->kernel, value));
    return reshape(self, flat, RANK - 1, value);
}

static rlx_status turn_kernel(const folding *self, rlx_value_id *w) {
    const rlx_shape shape = rlx_rewrite_type(self->rewrite, *w)->shape;
    const int64_t dims[] = {self->outputs, self->depth.kernel * self->inputs, shape.dims[3],
                            shape.dims[4]};
    RLX_TRY(swap(self, w));
    return reshape(self, dims, RANK - 1, w);
}

/* What is there for three axes, without the first. */
static void drop_first(rlx_ints *ints) {
    uint32_t sides = ints->count == 6 ? 2 : ints->count == 3 ? 1 : 0;
    for (uint32_t i = 0; i < 2 * sides; i++)
        ints->items[i] = ints->items[1 + i + i / 2];
    ints->count = 2 * sides;
}

static rlx_conv_attrs flat_attrs(const folding *self) {
    rlx_conv_attrs attrs = *(const rlx_conv_attrs *)rlx_rewrite_attrs(self->rewrite, self->root);
    drop_first(&attrs.pads);
    drop_first(&attrs.strides);
    drop_first(&attrs.dilations);
    return attrs;
}

/* Depth and height as one axis, of what has three; `value` may be absent. */
static rlx_status flatten(const folding *self, rlx_value_id *value) {
    if (*value == RLX_NONE) return RLX_OK;
    const rlx_shape shape = rlx_rewrite_type(self->rewrite, *value)->shape;
    const int64_t dims[] = {shape.dims[0], shape.dims[1], shape.dims[2] * shape.dims[3],
                            shape.dims[4]};
    return reshape(self, dims, RANK - 1, value);
}

static rlx_status fold_flat(const folding *self, rlx_value_id *inputs, uint32_t count) {
    const rlx_conv_attrs attrs = flat_attrs(self);
    const rlx_shape out =
        rlx_rewrite_type(self->rewrite, rlx_rewrite_output(self->rewrite, self->root))->shape;
    rlx_reshape_attrs back = {.shape = {.count = RANK}};
    rlx_value_id y;
    memcpy(back.shape.items, out.dims, RANK * sizeof *out.dims);
    RLX_TRY(flatten(self, &inputs[0]));
    RLX_TRY(flatten(self, &inputs[1]));
    RLX_TRY(flatten(self, &inputs[3]));
    RLX_TRY(rlx_rewrite_insert(self->rewrite, self->root, RLX_OP_CONV, &attrs, inputs, count, &y));
    return rlx_rewrite_node(self->rewrite, self->root, RLX_OP_RESHAPE, &back, &y, 1, NULL);
}

/* One tap of x, [N][D][C][H][W], as images; and of the kernels, [K][C][1][H][W]. */
static rlx_status take_tap(const folding *self, int64_t tap, rlx_value_id *x, rlx_value_id *w) {
    const rlx_window *depth = &self->depth;
    const rlx_shape shape = rlx_rewrite_type(self->rewrite, *x)->shape,
                    kernel = rlx_rewrite_type(self->rewrite, *w)->shape;
    const int64_t images[] = {self->batch * depth->out, shape.dims[2], shape.dims[3],
                              shape.dims[4]};
    rlx_slice_attrs slice = {
        .starts = {1, {tap * depth->dilation}},
        .ends = {1, {tap * depth->dilation + (depth->out - 1) * depth->stride + 1}},
        .axes = {1, {1}},
        .steps = {1, {depth->stride}}};
    RLX_TRY(put(self, RLX_OP_SLICE, &slice, x));
    RLX_TRY(reshape(self, images, RANK - 1, x));
    slice = (rlx_slice_attrs){.starts = {1, {tap}}, .ends = {1, {tap + 1}}, .axes = {1, {0}}};
    RLX_TRY(put(self, RLX_OP_SLICE, &slice, w));
    return reshape(self, kernel.dims + 1, RANK - 1, w);
}

/* The first tap has the bias, the last one the activation; the residual comes before all. */
static rlx_status sum_taps(const folding *self, rlx_value_id *inputs, rlx_value_id *out_y) {
    const rlx_transpose_attrs taps_first = {.perm = {.count = RANK, .items = {2, 0, 1, 3, 4}}};
    const rlx_conv_attrs last = flat_attrs(self);
    rlx_value_id sum = inputs[3];
    RLX_TRY(put(self, RLX_OP_TRANSPOSE, &taps_first, &inputs[1]));
    for (int64_t tap = 0; tap < self->depth.kernel; tap++) {
        rlx_value_id taken[4] = {inputs[0], inputs[1], tap == 0 ? inputs[2] : RLX_NONE, sum};
        rlx_conv_attrs attrs = last;
        if (tap + 1 < self->depth.kernel) attrs.activation = (rlx_activation){0};
        RLX_TRY(take_tap(self, tap, &taken[0], &taken[1]));
        RLX_TRY(rlx_rewrite_insert(self->rewrite, self->root, RLX_OP_CONV, &attrs, taken,
                                   sum != RLX_NONE        ? 4
                                   : taken[2] != RLX_NONE ? 3
                                                          : 2,
                                   &sum));
    }
    *out_y = sum;
    return RLX_OK;
}

static rlx_status fold(const folding *self, rlx_value_id *inputs, uint32_t count) {
    const rlx_conv_attrs attrs = flat_attrs(self);
    const rlx_shape out =
        rlx_rewrite_type(self->rewrite, rlx_rewrite_output(self->rewrite, self->root))->shape;
    const int64_t apart[] = {self->batch, self->depth.out, self->outputs, out.dims[3], out.dims[4]};
    const rlx_transpose_attrs back = {.perm = {.count = RANK, .items = {0, 2, 1, 3, 4}}};
    rlx_dtype dtype = rlx_rewrite_type(self->rewrite, inputs[0])->dtype;
    /* Sums of 16 bits would be rounded from tap to tap. */
    bool is_depthwise =
        self->inputs == 1 && self->groups > 1 && (dtype == RLX_DTYPE_F32 || dtype == RLX_DTYPE_F64);
    rlx_value_id y;
    RLX_TRY(swap(self, &inputs[0]));
    RLX_TRY(pad_depth(self, &inputs[0]));
    RLX_TRY(to_images(self, &inputs[3]));
    if (is_depthwise) {
        RLX_TRY(sum_taps(self, inputs, &y));
    } else {
        RLX_TRY(gather_taps(self, &inputs[0]));
        RLX_TRY(turn_kernel(self, &inputs[1]));
        RLX_TRY(
            rlx_rewrite_insert(self->rewrite, self->root, RLX_OP_CONV, &attrs, inputs, count, &y));
    }
    RLX_TRY(reshape(self, apart, RANK, &y));
    return rlx_rewrite_node(self->rewrite, self->root, RLX_OP_TRANSPOSE, &back, &y, 1, NULL);
}

static rlx_status visit(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    folding self;
    (void)user;
    if (rlx_rewrite_op(rewrite, root) != RLX_OP_CONV) return RLX_OK;
    if (!read_folding(rewrite, root, &self)) return RLX_OK;
    rlx_value_id inputs[4];
    uint32_t count = rewrite->graph->nodes.items[root].input_count;
    for (uint32_t i = 0; i < 4; i++)
        inputs[i] = rlx_rewrite_input(rewrite, root, i);
    return (self.is_flat ? fold_flat : fold)(&self, inputs, count);
}

rlx_status rlx_pass_fold_depth(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    if (context->target == NULL || context->target->channel_block == 0) return RLX_OK;
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_rewrite_walk(&rewrite, visit, NULL));
    return rlx_rewrite_finish(&rewrite);
}
