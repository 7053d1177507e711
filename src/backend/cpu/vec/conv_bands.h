/* SPDX-License-Identifier: Apache-2.0 */
/* Bands of rows of the outputs of a conv on planes, and the inputs under them: copied to the
 * workspace with the padding written out, and by what the strides leave of their row and column,
 * [input][row phase][column phase][rows][pitch]. There each tap is a fixed distance for all
 * outputs, row after row, so a band is one long row; what lies between two rows of it is computed
 * and left behind. Where rows of the kernel overlap, two rows of outputs may be one of pairs, twice
 * as far from the next: an input that is loaded meets both. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_BANDS_H
#define RLX_BACKEND_CPU_VEC_CONV_BANDS_H

#include "backend/cpu/vec/rows.h"
#include "ir/window.h"

enum {
    SUMS = 8,  /* vectors of positions at a time, at most, */
    PAIRS = 6, /* or of pairs: of high kernels, or of images where an odd row is little */
    MANY_TAPS = 5,
    MANY_ROWS = 16,
    MOST_TAPS = 256,  /* of a kernel */
    NEAR = 1536,      /* floats of a band, about: stays in the first cache, */
    NEAR_GROUP = 4608 /* and of one of several inputs */
};

typedef struct conv_bands {
    const float *x, *w, *bias, *residual;
    float *y;
    int64_t x_n, x_channel, x_row, x_column, y_n, y_channel, residual_n, residual_channel;
    int64_t w_out, w_in, w_row, w_column, bias_stride;
    rlx_window h, v;                /* along columns and along rows, or pairs of them */
    int64_t pair, height, kernel;   /* rows of outputs in a row of v; all of them; of taps */
    int64_t batch, groups, in, out; /* channels of a group */
    int64_t merged;                 /* groups that share rows of w, side by side */
    int64_t taps;
    bool is_turned;      /* taps of w do not lie side by side, as in a transposed conv */
    int64_t rows, bands; /* of the largest band */
    int64_t pitch, phase_rows, phase,
        plane; /* floats of a staged row; rows and floats of a phase; floats of an input */
    int64_t offsets[2 * MOST_TAPS];
} conv_bands;

static int64_t divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

/* How far the last tap is from the first, in outputs. */
static int64_t reach(const rlx_window *window) {
    return (window->kernel - 1) * window->dilation / window->stride;
}

/* Rows so that a band stays near. */
static void set_bands(conv_bands *self) {
    const int64_t phases = self->h.stride * self->v.stride;
    self->pitch = self->h.out + reach(&self->h);
    int64_t rows = (self->in == 1 ? NEAR : NEAR_GROUP) / (self->in * phases * self->pitch);
    rows -= reach(&self->v);
    if (rows < 1) rows = 1;
    self->bands = self->v.out > 0 ? divide_up(self->v.out, rows) : 1;
    self->rows = divide_up(self->v.out, self->bands);
    self->phase = (self->rows + reach(&self->v)) * self->pitch;
    self->plane = phases * self->phase;
}

static int64_t stage_floats(const conv_bands *self) {
    return self->in * self->plane + SUMS * VF;
}

/* Of one output, and one row of a pair. */
static int64_t sum_floats(const conv_bands *self) {
    return self->rows * self->pitch + SUMS * VF;
}

/* The first row of outputs of a pair meets all rows of inputs that the kernel has, the second one
 * more: a window of its own. Several outputs share what is loaded anyway. */
static void set_pairs(conv_bands *self) {
    rlx_window *v = &self->v;
    self->height = v->out, self->kernel = v->kernel;
    bool is_many = v->kernel >= MANY_TAPS || (v->kernel > 1 && v->out >= MANY_ROWS);
    self->pair = is_many && v->stride == 1 && v->dilation == 1 && self->out == 1 ? 2 : 1;
    if (self->pair == 1) return;
    v->kernel++;
    v->stride = 2;
    v->out = divide_up(v->out, 2);
}

static void set_offsets(conv_bands *self) {
    const rlx_window *h = &self->h, *v = &self->v;
    for (int64_t r = 0; r < v->kernel; r++) {
        int64_t row = r * v->dilation;
        for (int64_t c = 0; c < h->kernel; c++) {
            int64_t column = c * h->dilation;
            self->offsets[r * h->kernel + c] =
                (row % v->stride * h->stride + column % h->stride) * self->phase +
                row / v->stride * self->pitch + column / h->stride;
        }
    }
}

static void set_views(conv_bands *self, const rlx_kernel_args *args) {
    const rlx_tensor *x = &args->in[0], *w = &args->in[1], *y = &args->out[0];
    uint32_t last = x->rank - 1;
    self->x = x->data, self->w = w->data, self->y = y->data;
    self->x_n = x->strides[0], self->x_channel = x->strides[1];
    self->x_row = x->strides[last - 1], self->x_column = x->strides[last];
    self->y_n = y->strides[0], self->y_channel = y->strides[1];
    self->w_out = w->strides[0], self->w_in = w->strides[1];
    self->w_row = w->strides[last - 1], self->w_column = w->strides[last];
    self->is_turned = (self->h.kernel > 1 && self->w_column != 1) ||
                      (self->kernel > 1 && self->w_row != self->h.kernel) ||
                      (self->in > 1 && self->w_in != self->taps);
    if (args->in_count > 2 && args->in[2].data != NULL) {
        self->bias = args->in[2].data;
        self->bias_stride = args->in[2].strides[0];
    }
    if (args->in_count > 3 && args->in[3].data != NULL) {
        self->residual = args->in[3].data;
        self->residual_n = args->in[3].strides[0];
        self->residual_channel = args->in[3].strides[1];
    }
}

static void bands_of(const rlx_kernel_args *args, conv_bands *self) {
    const rlx_tensor *x = &args->in[0], *w = &args->in[1];
    const rlx_conv_attrs *attrs = args->attrs;
    uint32_t spatial = w->rank - 2;
    rlx_windows windows = {0};
    rlx_status status = rlx_windows_conv(attrs, spatial, x->dims + 2, w->dims + 2, &windows);
    RLX_ASSERT(status == RLX_OK); /* the shape rule asked the same */
    (void)status;
    memset(self, 0, offsetof(conv_bands, offsets));
    self->v = (rlx_window){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
    if (spatial == 2) self->v = windows.axes[0];
    self->h = windows.axes[spatial - 1];
    self->batch = x->dims[0];
    self->merged = attrs->merged == 0 ? 1 : attrs->merged;
    self->groups = (attrs->groups == 0 ? 1 : attrs->groups) * self->merged;
    self->in = w->dims[1] / self->merged;
    self->out = w->dims[0] / self->groups;
    set_pairs(self);
    self->taps = self->h.kernel * self->kernel;
    set_views(self, args);
    set_bands(self);
}

/* An item under way, and the buffers that it goes through. */
typedef struct band_at {
    int64_t n, group, band, row, rows;
    float *stage, *sums;
} band_at;

/* Divisions that know the common divisor. */
static int64_t divide(int64_t a, int64_t b) {
    return b == 1 ? a : a / b;
}

/* Numbers first, first + 1, .. up to *end of an axis of a phase lie in the input. */
static int64_t phase_range(const rlx_window *window, int64_t phase, int64_t *end) {
    int64_t before = window->begin - phase, last = window->in - 1 + before;
    *end = rlx_ref_least(*end, last < 0 ? 0 : divide(last, window->stride) + 1);
    return before > 0 ? divide(before + window->stride - 1, window->stride) : 0;
}

static bool is_met(const rlx_window *window, int64_t phase) {
    if (window->dilation == 1 || window->stride == 1) return phase < window->kernel;
    for (int64_t t = 0; t < window->kernel; t++) {
        if (t * window->dilation % window->stride == phase) return true;
    }
    return false;
}

/* Every second number of two vectors. */
VEC_INLINE vf vf_evens(vf a, vf b) {
#if RLX_VEC_BYTES == 32
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#else
    return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
}

/* `count` inputs, `step` apart, and `gap` zeros behind them, up to the next row's inputs: rows are
 * staged in order, so what a vector writes past the gap is overwritten by the next. `is_last`:
 * nothing may be read past the row. */
static void stage_row(const float *from, int64_t step, int64_t count, int64_t gap, bool is_last,
                      float *to) {
    if (step == 1 && !is_last) {
        for (int64_t i = 0; i < count; i += VF)
            vf_store(to + i, vf_load(from + i));
    } else if (step == 1) {
        for (int64_t i = 0; i < count; i += VF)
            vf_store(to + i, count - i >= VF ? vf_load(from + i) : vf_load_n(from + i, count - i));
    } else {
        int64_t i = 0;
        for (; step == 2 && i + VF < count; i += VF)
            vf_store(to + i, vf_evens(vf_load(from + 2 * i), vf_load(from + 2 * i + VF)));
        for (; i < count; i++)
            to[i] = from[i * step];
    }
    to += count;
    do {
        vf_store(to, vf_set(0.0f));
        to += VF, gap -= VF;
    } while (gap > 0);
}

/* One phase of the inputs under output rows [row, row + rows). */
static void stage_phase(const conv_bands *self, const float *plane, int64_t row, int64_t rows,
                        int64_t row_phase, int64_t column_phase, float *to) {
    const rlx_window *h = &self->h, *v = &self->v;
    int64_t all = rows + reach(v), above, below = row + all, first, end = self->pitch;
    int64_t step = h->stride * self->x_column, pitch = self->pitch;
    first = phase_range(h, column_phase, &end);
    above = phase_range(v, row_phase, &below);
    above = above > row ? rlx_ref_least(above - row, all) : 0;
    below = end > first && below > row ? below - row : 0;
    int64_t top = (row + above) * v->stride + row_phase - v->begin;
    const float *from =
        plane + top * self->x_row + (first * h->stride + column_phase - h->begin) * self->x_column;
    /* What a vector reads past the end of a row is still in the plane, but not of the last rows. */
    int64_t safe = (v->in - top) * h->in - (first + VF) * h->stride - end * h->stride;
    memset(to, 0, (size_t)(above * pitch + first) * sizeof *to);
    to += above * pitch + first;
    for (int64_t r = above; r < below; r++, to += pitch) {
        /* Behind the last row the padding ends with it: the next phase has its own. */
        int64_t gap = pitch - end + (r + 1 < below ? first : 0);
        stage_row(from, step, end - first, gap, safe < (r - above) * v->stride * h->in, to);
        from += v->stride * self->x_row;
    }
    int64_t done = below > above ? below : above;
    if (all > done) memset(to - first, 0, (size_t)((all - done) * pitch) * sizeof *to);
}

/* One input of a band. */
static void stage_input(const conv_bands *self, const float *plane, const band_at *at, float *to) {
    const rlx_window *h = &self->h, *v = &self->v;
    for (int64_t r = 0; r < v->stride; r++) {
        if (!is_met(v, r)) continue;
        for (int64_t c = 0; c < h->stride; c++) {
            if (!is_met(h, c)) continue;
            stage_phase(self, plane, at->row, at->rows, r, c,
                        to + (r * h->stride + c) * self->phase);
        }
    }
}

static void stage_band(const conv_bands *self, band_at *at) {
    at->row = divide(self->v.out * at->band, self->bands);
    at->rows = divide(self->v.out * (at->band + 1), self->bands) - at->row;
    const float *x = self->x + at->n * self->x_n + at->group * self->in * self->x_channel;
    for (int64_t c = 0; c < self->in; c++, x += self->x_channel)
        stage_input(self, x, at, at->stage + c * self->plane);
}

#endif
