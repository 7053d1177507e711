/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise conv that writes over its input, channel by channel and row by row: of what is
 * overwritten, the row above is still needed and is kept in the workspace, beside a row's own
 * inputs. */
#include "ref/conv_place.h"

#include "ir/layout.h"
#include "ir/window.h"
#include "ref/tile.h"

enum { TAPS = 3 };

static bool is_three(const rlx_window *w) {
    return w->kernel == TAPS && w->stride == 1 && w->dilation == 1 && w->begin == 1 &&
           w->in == w->out && w->in > 0;
}

bool rlx_ref_conv_overwrites(const rlx_kernel_args *args) {
    const rlx_tensor *x = &args->in[0], *w = &args->in[1], *y = &args->out[0];
    const rlx_conv_attrs *attrs = args->attrs;
    rlx_windows windows = {0};
    if (args->op != RLX_OP_CONV || x->dtype != RLX_DTYPE_F32 || y->dtype != RLX_DTYPE_F32 ||
        x->rank != 5 || y->rank != 5 || w->rank != 4 || w->dims[1] != 1 || attrs->winograd != 0 ||
        attrs->groups != w->dims[0] || attrs->merged > 1 || attrs->channel_block <= 0) {
        return false;
    }
    if (args->in_count > 3 && args->in[3].data != NULL) return false;
    if (x->dims[4] != attrs->channel_block || x->dims[1] != y->dims[1]) return false;
    return rlx_windows_conv(attrs, 2, x->dims + 2, w->dims + 2, &windows) == RLX_OK &&
           is_three(&windows.axes[0]) && is_three(&windows.axes[1]) &&
           args->workspace_bytes / (2 * sizeof(float)) >= (uint64_t)x->dims[3];
}

bool rlx_ref_conv_is_in_place(const rlx_kernel_args *args) {
    return args->in[0].data == args->out[0].data && rlx_ref_conv_overwrites(args);
}

int64_t rlx_ref_conv_place_items(const rlx_kernel_args *args) {
    const rlx_tensor *y = &args->out[0];
    return y->dims[0] * y->dims[1] * y->dims[4];
}

/* One channel of one batch entry. */
typedef struct plane {
    const rlx_kernel_args *args;
    const rlx_tensor *x;
    int64_t channel, at; /* of its first element */
    float taps[TAPS * TAPS];
} plane;

static plane plane_of(const rlx_kernel_args *args, int64_t item) {
    const rlx_tensor *x = &args->in[0], *w = &args->in[1];
    const int64_t block = x->dims[4], channels = x->dims[1] * block, channel = item % channels;
    plane self = {.args = args, .x = x, .channel = channel};
    self.at = item / channels * x->strides[0] + channel / block * x->strides[1] +
              channel % block * x->strides[4];
    if (channel >= w->dims[0]) return self;
    rlx_layout_map map = {0};
    if (w->layout != RLX_LAYOUT_PLAIN) map = rlx_layout_map_of(w);
    for (int64_t i = 0; i < TAPS * TAPS; i++) {
        int64_t index[RLX_MAX_RANK] = {channel, 0, i / TAPS, i % TAPS}, offset = 0;
        for (uint32_t axis = 0; w->layout == RLX_LAYOUT_PLAIN && axis < w->rank; axis++)
            offset += index[axis] * w->strides[axis];
        if (w->layout != RLX_LAYOUT_PLAIN) offset = rlx_layout_offset(&map, index);
        rlx_ref_read_f32(w, offset, 1, 1, &self.taps[i]);
    }
    return self;
}

/* Adds a row of taps and inputs, x[-1] being the input left of the first position. */
static void add_row(float *sums, const float *x, const float *taps, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        for (int64_t tap = 0; tap < TAPS; tap++)
            sums[i] += taps[tap] * x[i + tap - 1];
    }
}

/* Columns [first, first + count) of a row of inputs with a neighbour on either side, 0 outside. */
static void read_around(const plane *self, const float *kept, int64_t row, int64_t first,
                        int64_t count, float *out) {
    const rlx_tensor *x = self->x;
    for (int64_t i = 0; i < count + 2; i++) {
        int64_t column = first + i - 1;
        out[i] = 0;
        if (column < 0 || column >= x->dims[3]) continue;
        if (kept != NULL) {
            out[i] = kept[column];
        } else {
            rlx_ref_read_f32(x, self->at + row * x->strides[2] + column * x->strides[3], 1, 1,
                             &out[i]);
        }
    }
}

/* Positions [first, first + count) of a row. `above` and `own` are inputs as they were. */
static void do_part(const plane *self, int64_t row, int64_t first, int64_t count,
                    const float *above, const float *own) {
    static const rlx_tensor absent = {0};
    const rlx_kernel_args *args = self->args;
    const rlx_conv_attrs *attrs = args->attrs;
    const rlx_tensor *bias = args->in_count > 2 ? &args->in[2] : &absent, *y = &args->out[0];
    const bool is_there = self->channel < args->in[1].dims[0];
    float sums[RLX_TILE_COLUMNS] = {0}, inputs[RLX_TILE_COLUMNS + 2];
    for (int64_t tap = 0; tap < TAPS; tap++) {
        if (row + tap < 1 || row + tap > self->x->dims[2]) continue;
        read_around(self,
                    tap == 0   ? above
                    : tap == 1 ? own
                               : NULL,
                    row + tap - 1, first, count, inputs);
        add_row(sums, inputs + 1, self->taps + tap * TAPS, count);
    }
    /* Channels past the last are 0, whatever the inputs are. */
    for (int64_t i = 0; i < count && !is_there; i++)
        sums[i] = 0;
    rlx_ref_addend addend = {is_there ? bias : &absent, self->channel * bias->strides[0], 0};
    rlx_ref_finish_f32(sums, count, addend, (rlx_ref_addend){&absent, 0, 0}, &attrs->activation);
    rlx_ref_write_f32(y, self->at + row * y->strides[2] + first * y->strides[3], y->strides[3],
                      count, sums);
}

void rlx_ref_conv_place_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const int64_t height = args->in[0].dims[2], width = args->in[0].dims[3];
    for (int64_t item = begin; item < end; item++) {
        const plane self = plane_of(args, item);
        float *above = args->workspace, *own = above + width;
        for (int64_t row = 0; row < height; row++) {
            rlx_ref_read_f32(self.x, self.at + row * self.x->strides[2], self.x->strides[3], width,
                             own);
            for (int64_t first = 0; first < width; first += RLX_TILE_COLUMNS)
                do_part(&self, row, first, rlx_ref_least(RLX_TILE_COLUMNS, width - first), above,
                        own);
            float *kept = own;
            own = above;
            above = kept;
        }
    }
}
