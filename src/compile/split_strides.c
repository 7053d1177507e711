/* SPDX-License-Identifier: Apache-2.0 */
/* Split strides: a conv_transpose is a conv. With stride s, output o lies in phase r of step q:
 * o + begin = q s + r, and gets tap k = j s + r of input q - j, for every j. So all phases together
 * are one conv with J = ceil(K / s) taps, turned around, and s times the outputs, which are woven
 * together afterwards. The kernels are turned once, as weights are prepared. Without strides there
 * is nothing to weave, and taps may be apart (dilations). */
#include "compile/rewrite.h"
#include "ir/infer.h"
#include "ir/window.h"

#include <string.h>

/* One conv_transpose. */
typedef struct split {
    rlx_rewrite *rewrite;
    rlx_node_id root;
    rlx_windows windows;
    int64_t groups, inputs, outputs; /* channels: of a group, of all groups */
    bool is_strided;
} split;

/* A single input may go any distance to the next: every tap is a phase of its own, and none is
 * multiplied with the padding around it. */
static void spread_one(rlx_window *axis) {
    if (axis->in == 1 && axis->dilation == 1 && axis->begin >= 0 &&
        axis->begin + axis->out <= axis->kernel)
        axis->stride = axis->kernel;
}

static bool read_split(rlx_rewrite *rewrite, rlx_node_id root, split *out) {
    const rlx_conv_attrs *attrs = rlx_rewrite_attrs(rewrite, root);
    const rlx_value_id w = rlx_rewrite_input(rewrite, root, 1);
    const rlx_type *x = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 0));
    const rlx_shape *kernel = &rlx_rewrite_type(rewrite, w)->shape;
    uint32_t count = x->shape.rank - 2;
    *out = (split){.rewrite = rewrite, .root = root};
    if (attrs->activation.op != RLX_OP_NONE || rlx_rewrite_has_extent(x) ||
        !rlx_dtype_is_float(x->dtype) || rlx_rewrite_has_extent(rlx_rewrite_type(rewrite, w)) ||
        rlx_windows_conv_transpose(attrs, count, x->shape.dims + 2, kernel->dims + 2,
                                   &out->windows) != RLX_OK) {
        return false;
    }
    out->groups = attrs->groups == 0 ? 1 : attrs->groups;
    out->inputs = kernel->dims[0] / out->groups;
    out->outputs = kernel->dims[1] * out->groups;
    if (out->inputs == 0 || out->outputs == 0) return false;
    for (uint32_t i = 0; i < count; i++) {
        rlx_window *axis = &out->windows.axes[i];
        if (axis->in == 0 || axis->out == 0) return false;
        spread_one(axis);
        out->is_strided |= axis->stride != 1;
    }
    return true;
}

/* Of all axes; `fits` has bounded the strides. */
static int64_t phases_of(const split *self) {
    int64_t phases = 1;
    for (uint32_t i = 0; i < self->windows.count; i++)
        phases *= self->windows.axes[i].stride;
    return phases;
}

/* Phases stand in front of the channels, so that a phase is made of whole blocks of them where the
 * output is (block_moves.c weaves those); channels of a group have to stay together. */
static bool has_phases_first(const split *self) {
    return self->groups == 1;
}

static int64_t taps(const rlx_window *axis) { /* of one phase */
    return (axis->kernel + axis->stride - 1) / axis->stride;
}

/* Where outputs are cut out of the woven steps; dims of at most the rank that there is; and strides
 * that a kernel fills to some degree: what is between its taps is zeros that are multiplied. */
enum { MOST_STRIDE_OF_KERNEL = 4 };
static bool fits(const split *self) {
    if (self->windows.count * 2 + (self->groups > 1 ? 3 : 2) > RLX_MAX_RANK) return false;
    for (uint32_t i = 0; i < self->windows.count; i++) {
        const rlx_window *axis = &self->windows.axes[i];
        if (axis->stride / MOST_STRIDE_OF_KERNEL > axis->kernel) return false;
        int64_t steps = axis->in + taps(axis) - 1, reach = (axis->kernel - 1) * axis->dilation;
        if (self->is_strided) {
            if (axis->dilation != 1 || axis->begin < 0 ||
                axis->begin + axis->out > steps * axis->stride)
                return false;
        } else if (axis->begin > reach || axis->out + axis->begin < axis->in) {
            return false;
        }
    }
    return true;
}

static rlx_status put(const split *self, rlx_op op, const void *attrs, rlx_value_id *value) {
    return rlx_rewrite_insert(self->rewrite, self->root, op, attrs, value, 1, value);
}
static rlx_status reshape(const split *self, const int64_t *dims, uint32_t rank,
                          rlx_value_id *value) {
    return rlx_rewrite_reshaped(self->rewrite, self->root, *value, dims, rank, value);
}

/* Taps up to a multiple of the stride: [C][M / g][K..] to [C][M / g][J s..]. */
static rlx_status pad_taps(const split *self, rlx_value_id *w) {
    uint32_t rank = self->windows.count + 2;
    rlx_pad_attrs attrs = {.pads = {.count = 2 * rank}};
    bool is_whole = true;
    for (uint32_t i = 0; i < self->windows.count; i++) {
        const rlx_window *axis = &self->windows.axes[i];
        attrs.pads.items[rank + 2 + i] = taps(axis) * axis->stride - axis->kernel;
        is_whole &= attrs.pads.items[rank + 2 + i] == 0;
    }
    return is_whole ? RLX_OK : put(self, RLX_OP_PAD, &attrs, w);
}

/* [g][C / g][M / g][J][s].. with each J turned around, to [g][M / g][s..][C / g][J..]; of one
 * group [C][M][J][s].. to [s..][M][C][J..]. */
static rlx_status turn_kernel(const split *self, rlx_value_id *w) {
    uint32_t count = self->windows.count, in = self->groups > 1, tap = in + 2;
    uint32_t rank = tap + 2 * count;
    int64_t dims[RLX_MAX_RANK] = {self->groups};
    rlx_slice_attrs slice = {.starts = {.count = count},
                             .ends = {.count = count},
                             .axes = {.count = count},
                             .steps = {.count = count}};
    rlx_transpose_attrs transpose = {.perm = {.count = rank}};
    RLX_TRY(pad_taps(self, w));
    dims[in] = self->inputs, dims[in + 1] = self->outputs / self->groups;
    const uint32_t phase = has_phases_first(self) ? 0 : in + 1;
    transpose.perm.items[has_phases_first(self) ? count : in] = in + 1;
    transpose.perm.items[in + 1 + count] = in;
    for (uint32_t i = 0; i < count; i++) {
        const rlx_window *axis = &self->windows.axes[i];
        dims[tap + 2 * i] = taps(axis), dims[tap + 1 + 2 * i] = axis->stride;
        slice.axes.items[i] = tap + 2 * i;
        slice.starts.items[i] = -1, slice.ends.items[i] = INT64_MIN, slice.steps.items[i] = -1;
        transpose.perm.items[phase + i] = tap + 1 + 2 * i;
        transpose.perm.items[in + 2 + count + i] = tap + 2 * i;
    }
    RLX_TRY(reshape(self, dims, rank, w));
    RLX_TRY(put(self, RLX_OP_SLICE, &slice, w));
    RLX_TRY(put(self, RLX_OP_TRANSPOSE, &transpose, w));
    int64_t flat[RLX_MAX_RANK] = {self->outputs * phases_of(self), self->inputs};
    for (uint32_t i = 0; i < count; i++)
        flat[2 + i] = taps(&self->windows.axes[i]);
    return reshape(self, flat, 2 + count, w);
}

/* A bias for every phase. */
static rlx_status repeat_bias(const split *self, rlx_value_id *bias) {
    const int channel = has_phases_first(self);
    int64_t one[2] = {1, 1}, flat = self->outputs * phases_of(self);
    rlx_reshape_attrs all = {.shape = {.count = 2, .items = {phases_of(self), phases_of(self)}}};
    if (*bias == RLX_NONE || phases_of(self) == 1) return RLX_OK;
    one[channel] = all.shape.items[channel] = self->outputs;
    RLX_TRY(reshape(self, one, 2, bias));
    RLX_TRY(put(self, RLX_OP_EXPAND, &all, bias));
    return reshape(self, &flat, 1, bias);
}

static rlx_conv_attrs conv_attrs(const split *self) {
    uint32_t count = self->windows.count;
    rlx_conv_attrs attrs = {.groups = self->groups, .pads = {.count = 2 * count}};
    attrs.dilations.count = self->is_strided ? 0 : count;
    for (uint32_t i = 0; i < count; i++) {
        const rlx_window *axis = &self->windows.axes[i];
        int64_t reach = (axis->kernel - 1) * axis->dilation;
        attrs.dilations.items[i] = axis->dilation;
        attrs.pads.items[i] = self->is_strided ? taps(axis) - 1 : reach - axis->begin;
        attrs.pads.items[count + i] =
            self->is_strided ? taps(axis) - 1 : axis->out - axis->in + axis->begin;
    }
    return attrs;
}

/* [N][M][s..][Q..], or [N][s..][M][Q..], to [N][M][Q s..]; the root cuts the outputs out of that.
 */
static rlx_status weave(const split *self, rlx_value_id y) {
    uint32_t count = self->windows.count, rank = 2 + 2 * count;
    rlx_value_id output = rlx_rewrite_output(self->rewrite, self->root);
    int64_t batch = rlx_rewrite_type(self->rewrite, output)->shape.dims[0];
    const uint32_t channel = has_phases_first(self) ? 1 + count : 1;
    const uint32_t phase = has_phases_first(self) ? 1 : 2;
    int64_t apart[RLX_MAX_RANK] = {batch}, woven[RLX_MAX_RANK] = {batch, self->outputs};
    rlx_transpose_attrs transpose = {.perm = {.count = rank, .items = {0, channel}}};
    rlx_slice_attrs slice = {
        .starts = {.count = count}, .ends = {.count = count}, .axes = {.count = count}};
    for (uint32_t i = 0; i < count; i++) {
        const rlx_window *axis = &self->windows.axes[i];
        int64_t steps = axis->in + taps(axis) - 1;
        apart[phase + i] = axis->stride, apart[2 + count + i] = steps;
        woven[2 + i] = steps * axis->stride;
        transpose.perm.items[2 + 2 * i] = 2 + count + i;
        transpose.perm.items[3 + 2 * i] = phase + i;
        slice.axes.items[i] = 2 + i;
        slice.starts.items[i] = axis->begin, slice.ends.items[i] = axis->begin + axis->out;
    }
    apart[channel] = self->outputs;
    RLX_TRY(reshape(self, apart, rank, &y));
    RLX_TRY(put(self, RLX_OP_TRANSPOSE, &transpose, &y));
    RLX_TRY(reshape(self, woven, 2 + count, &y));
    return rlx_rewrite_node(self->rewrite, self->root, RLX_OP_SLICE, &slice, &y, 1, NULL);
}

/* One conv for all phases computes J - 1 steps that no output of some phases comes of. Where images
 * are small a conv for each phase is less work: outputs q s + t are those of phase (t + begin) % s
 * from step (t + begin) / s on. */
enum { MOST_CONVS = 4, LEAST_OUTPUTS = 16, WASTE_PERCENT = 10 };
static bool is_apart(const split *self) {
    int64_t steps = 1, wanted = 1; /* of a phase */
    if (!self->is_strided || !has_phases_first(self) || phases_of(self) > MOST_CONVS ||
        self->outputs % LEAST_OUTPUTS != 0) {
        return false;
    }
    for (uint32_t i = 0; i < self->windows.count; i++) {
        const rlx_window *axis = &self->windows.axes[i];
        const int64_t last = axis->stride - 1 + axis->begin;
        if (axis->out % axis->stride != 0 || last / axis->stride > taps(axis) - 1 ||
            axis->out / axis->stride + axis->begin / axis->stride < axis->in) {
            return false;
        }
        steps *= axis->in + taps(axis) - 1;
        wanted *= axis->out / axis->stride;
    }
    return steps - wanted > wanted / (100 / WASTE_PERCENT);
}

/* Outputs of remainder t along each axis, from the turned kernels of all phases. */
static rlx_status put_phase(const split *self, int64_t t, const rlx_value_id *inputs,
                            uint32_t input_count, rlx_value_id *y) {
    uint32_t count = self->windows.count;
    int64_t phase = 0, size = 1;
    rlx_conv_attrs attrs = {.groups = 1, .pads = {.count = 2 * count}};
    rlx_value_id own[3] = {inputs[0], inputs[1], inputs[2]};
    for (uint32_t i = count; i-- > 0;) {
        const rlx_window *axis = &self->windows.axes[i];
        const int64_t from = t % axis->stride + axis->begin, step = from / axis->stride;
        attrs.pads.items[i] = taps(axis) - 1 - step;
        attrs.pads.items[count + i] = step + axis->out / axis->stride - axis->in;
        phase += from % axis->stride * size;
        size *= axis->stride, t /= axis->stride;
    }
    rlx_slice_attrs slice = {.axes = {1, {0}},
                             .starts = {1, {phase * self->outputs}},
                             .ends = {1, {(phase + 1) * self->outputs}}};
    RLX_TRY(put(self, RLX_OP_SLICE, &slice, &own[1]));
    return rlx_rewrite_insert(self->rewrite, self->root, RLX_OP_CONV, &attrs, own, input_count, y);
}

static rlx_status put_phases(const split *self, const rlx_value_id *inputs, uint32_t input_count) {
    const rlx_axis_attrs channels = {.axis = 1};
    rlx_value_id parts[MOST_CONVS], y;
    split woven = *self;
    for (int64_t t = 0; t < phases_of(self); t++)
        RLX_TRY(put_phase(self, t, inputs, input_count, &parts[t]));
    RLX_TRY(rlx_rewrite_insert(self->rewrite, self->root, RLX_OP_CONCAT, &channels, parts,
                               (uint32_t)phases_of(self), &y));
    for (uint32_t i = 0; i < woven.windows.count; i++) { /* what is left has one tap */
        rlx_window *axis = &woven.windows.axes[i];
        axis->in = axis->out / axis->stride, axis->kernel = axis->stride, axis->begin = 0;
    }
    return weave(&woven, y);
}

static rlx_status visit(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    split self;
    (void)user;
    if (rlx_rewrite_op(rewrite, root) != RLX_OP_CONV_TRANSPOSE) return RLX_OK;
    if (!read_split(rewrite, root, &self) || !fits(&self)) return RLX_OK;
    rlx_value_id inputs[3], y;
    for (uint32_t i = 0; i < 3; i++)
        inputs[i] = rlx_rewrite_input(rewrite, root, i);
    uint32_t input_count = inputs[2] == RLX_NONE ? 2 : 3;
    rlx_conv_attrs attrs = conv_attrs(&self);
    RLX_TRY(turn_kernel(&self, &inputs[1]));
    if (is_apart(&self)) return put_phases(&self, inputs, input_count);
    RLX_TRY(repeat_bias(&self, &inputs[2]));
    if (!self.is_strided)
        return rlx_rewrite_node(rewrite, root, RLX_OP_CONV, &attrs, inputs, input_count, NULL);
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_CONV, &attrs, inputs, input_count, &y));
    return weave(&self, y);
}

rlx_status rlx_pass_split_strides(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_rewrite_walk(&rewrite, visit, NULL));
    return rlx_rewrite_finish(&rewrite);
}
