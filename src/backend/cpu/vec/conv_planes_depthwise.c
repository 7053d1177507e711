/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise conv of f32 with channels in planes, [N][C][H][W]; any kernel, stride, dilation and
 * padding, and several outputs per channel. An item is a band of rows of one output plane.
 *
 * The inputs under a band are copied to the workspace with the padding written out, and by what the
 * strides leave of their row and column: [row phase][column phase][rows][pitch]. There each tap is
 * a fixed distance for all outputs, row after row, so the band is one long row of sums; what lies
 * between two rows of it is computed and left behind. Where rows of the kernel overlap, two rows of
 * outputs are one of pairs, twice as far from the next: an input that is loaded meets both. */
#include "backend/cpu/vec/activation.h"
#include "backend/cpu/vec/rows.h"
#include "ir/window.h"

enum {
    SUMS = 8,  /* vectors of positions at a time, */
    PAIRS = 6, /* or of pairs: of high kernels, or of images where an odd row is little */
    MANY_TAPS = 5,
    MANY_ROWS = 16,
    MOST_TAPS = 256,      /* of a kernel, */
    MOST_STAGE = 1 << 20, /* floats of a staged row */
    NEAR = 1536           /* floats of a band, about: stays in the first cache */
};

typedef struct depthwise {
    const float *x, *w, *bias, *residual;
    float *y;
    int64_t x_n, x_channel, x_row, x_column, y_n, y_channel, residual_n, residual_channel;
    int64_t w_channel, w_row, w_column, bias_stride;
    rlx_window h, v;                    /* along columns and along rows, or pairs of them */
    int64_t pair, height, kernel;       /* rows of outputs in a row of v; all of them; of taps */
    int64_t batch, channels, per_input; /* of outputs; how many have the same input */
    int64_t rows, bands;                /* of the largest band */
    int64_t pitch, phase_rows, phase;   /* floats of a staged row; rows and floats of a phase */
    int64_t offsets[2 * MOST_TAPS];
} depthwise;

static int64_t divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

/* How far the last tap is from the first, in outputs. */
static int64_t reach(const rlx_window *window) {
    return (window->kernel - 1) * window->dilation / window->stride;
}

static void set_bands(depthwise *self) {
    int64_t phases = self->h.stride * self->v.stride;
    self->pitch = self->h.out + reach(&self->h);
    int64_t rows = NEAR / (phases * self->pitch) - reach(&self->v);
    if (rows < 1) rows = 1;
    self->bands = self->v.out > 0 ? divide_up(self->v.out, rows) : 1;
    self->rows = divide_up(self->v.out, self->bands);
    self->phase_rows = self->rows + reach(&self->v);
    self->phase = self->phase_rows * self->pitch;
}

static int64_t stage_floats(const depthwise *self) {
    return self->h.stride * self->v.stride * self->phase + SUMS * VF;
}

/* Of one row of a pair. */
static int64_t sum_floats(const depthwise *self) {
    return self->rows * self->pitch + SUMS * VF;
}

/* The first row of outputs of a pair meets all rows of inputs that the kernel has, the second one
 * more: a window of its own. */
static void set_pairs(depthwise *self) {
    rlx_window *v = &self->v;
    self->height = v->out, self->kernel = v->kernel;
    bool is_many = v->kernel >= MANY_TAPS || (v->kernel > 1 && v->out >= MANY_ROWS);
    self->pair = is_many && v->stride == 1 && v->dilation == 1 ? 2 : 1;
    if (self->pair == 1) return;
    v->kernel++;
    v->stride = 2;
    v->out = divide_up(v->out, 2);
}

static void set_offsets(depthwise *self) {
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

static void set_views(depthwise *self, const rlx_kernel_args *args) {
    const rlx_tensor *x = &args->in[0], *w = &args->in[1], *y = &args->out[0];
    uint32_t last = x->rank - 1;
    self->x = x->data, self->w = w->data, self->y = y->data;
    self->x_n = x->strides[0], self->x_channel = x->strides[1];
    self->x_row = x->strides[last - 1], self->x_column = x->strides[last];
    self->y_n = y->strides[0], self->y_channel = y->strides[1];
    self->w_channel = w->strides[0];
    self->w_row = w->strides[last - 1], self->w_column = w->strides[last];
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

static void depthwise_of(const rlx_kernel_args *args, depthwise *self) {
    const rlx_tensor *x = &args->in[0], *w = &args->in[1];
    uint32_t spatial = w->rank - 2;
    rlx_windows windows = {0};
    rlx_status status = rlx_windows_conv(args->attrs, spatial, x->dims + 2, w->dims + 2, &windows);
    RLX_ASSERT(status == RLX_OK); /* the shape rule asked the same */
    (void)status;
    memset(self, 0, sizeof *self);
    self->v = (rlx_window){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
    if (spatial == 2) self->v = windows.axes[0];
    self->h = windows.axes[spatial - 1];
    self->batch = x->dims[0];
    self->channels = w->dims[0];
    self->per_input = w->dims[0] / (x->dims[1] < 1 ? 1 : x->dims[1]);
    if (self->per_input < 1) self->per_input = 1;
    set_pairs(self);
    set_views(self, args);
    set_bands(self);
}

/* An item under way, and the buffers that it goes through. */
typedef struct band_at {
    int64_t n, channel, band, row, rows;
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
    } else if (step == 2) {
        for (int64_t i = 0; i < count; i++)
            to[i] = from[2 * i];
    } else {
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i * step];
    }
    to += count;
    do {
        vf_store(to, vf_set(0.0f));
        to += VF, gap -= VF;
    } while (gap > 0);
}

/* One phase of the inputs under output rows [row, row + rows). */
static void stage_phase(const depthwise *self, const float *plane, int64_t row, int64_t rows,
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

static void stage(const depthwise *self, const float *plane, const band_at *at) {
    const rlx_window *h = &self->h, *v = &self->v;
    for (int64_t r = 0; r < v->stride; r++) {
        if (!is_met(v, r)) continue;
        for (int64_t c = 0; c < h->stride; c++) {
            if (!is_met(h, c)) continue;
            stage_phase(self, plane, at->row, at->rows, r, c,
                        at->stage + (r * h->stride + c) * self->phase);
        }
    }
}

/* N vectors of positions; a constant. */
VEC_INLINE void sum_positions(const depthwise *self, const float *w, int64_t taps, float bias,
                              const float *from, float *to, const int N) {
    const int64_t *offsets = self->offsets;
    vf sums[SUMS];
    VEC_UNROLLED for (int i = 0; i < N; i++) sums[i] = vf_set(bias);
    for (int64_t t = 0; t < taps; t++) {
        const float *x = from + offsets[t];
        vf one = vf_set(w[t]);
        VEC_UNROLLED for (int i = 0; i < N; i++) vf_add_product(&sums[i], vf_load(x + i * VF), one);
    }
    VEC_UNROLLED for (int i = 0; i < N; i++) vf_store(to + i * VF, sums[i]);
}

/* N vectors of pairs. */
VEC_INLINE void sum_pairs(const depthwise *self, const float *w, int64_t taps, float bias,
                          const float *from, float *to, const int N) {
    const int64_t *offsets = self->offsets, row = self->h.kernel;
    float *second = to + sum_floats(self);
    vf a[PAIRS], b[PAIRS];
    VEC_UNROLLED for (int i = 0; i < N; i++) a[i] = b[i] = vf_set(bias);
    for (int64_t t = 0; t < row; t++) {
        const float *x = from + offsets[t];
        const vf one = vf_set(w[t]);
        VEC_UNROLLED for (int i = 0; i < N; i++) vf_add_product(&a[i], vf_load(x + i * VF), one);
    }
    for (int64_t t = row; t < taps; t++) {
        const float *x = from + offsets[t];
        const vf one = vf_set(w[t]), other = vf_set(w[t - row]);
        VEC_UNROLLED for (int i = 0; i < N; i++) {
            const vf value = vf_load(x + i * VF);
            vf_add_product(&a[i], value, one);
            vf_add_product(&b[i], value, other);
        }
    }
    for (int64_t t = taps; t < taps + row; t++) {
        const float *x = from + offsets[t];
        const vf one = vf_set(w[t - row]);
        VEC_UNROLLED for (int i = 0; i < N; i++) vf_add_product(&b[i], vf_load(x + i * VF), one);
    }
    VEC_UNROLLED for (int i = 0; i < N; i++) {
        vf_store(to + i * VF, a[i]);
        vf_store(second + i * VF, b[i]);
    }
}

static void sum_band(const depthwise *self, const band_at *at) {
    const float *from = self->w + at->channel * self->w_channel;
    const float bias = self->bias == NULL ? 0.0f : self->bias[at->channel * self->bias_stride];
    int64_t taps = self->h.kernel * self->kernel;
    int64_t count = (at->rows - 1) * self->pitch + self->h.out, i = 0;
    float w[MOST_TAPS]; /* side by side; those of a transposed conv are turned around */
    for (int64_t t = 0; t < taps; t++)
        w[t] = from[t / self->h.kernel * self->w_row + t % self->h.kernel * self->w_column];
    if (self->pair == 2) {
        for (; count - i > PAIRS / 2 * VF; i += PAIRS * VF)
            sum_pairs(self, w, taps, bias, at->stage + i, at->sums + i, PAIRS);
        if (i < count) sum_pairs(self, w, taps, bias, at->stage + i, at->sums + i, PAIRS / 2);
        return;
    }
    for (; count - i > SUMS / 2 * VF; i += SUMS * VF)
        sum_positions(self, w, taps, bias, at->stage + i, at->sums + i, SUMS);
    if (i < count) sum_positions(self, w, taps, bias, at->stage + i, at->sums + i, SUMS / 2);
}

/* Rows of outputs of a band. */
static int64_t output_rows(const depthwise *self, const band_at *at) {
    return rlx_ref_least(at->rows * self->pair, self->height - at->row * self->pair);
}

static float *row_of_sums(const depthwise *self, const band_at *at, int64_t row) {
    if (self->pair == 1) return at->sums + row * self->pitch;
    return at->sums + row % 2 * sum_floats(self) + row / 2 * self->pitch;
}

/* Rows of sums that nothing is added to: a vector may write past the end of a row, which the next
 * row then overwrites, but not past the band. */
static void store_rows(const depthwise *self, vf low, vf high, float *y, const band_at *at) {
    const int64_t width = self->h.out, rows = output_rows(self, at);
    for (int64_t r = 0, left = rows * width; r < rows; r++, left -= width, y += width) {
        const float *from = row_of_sums(self, at, r);
        int64_t i = 0;
        for (; i < width && left - i >= VF; i += VF)
            vf_store(y + i, vf_min(high, vf_max(low, vf_load(from + i))));
        if (i < width) vf_store_n(y + i, vf_min(high, vf_max(low, vf_load(from + i))), width - i);
    }
}

static void add_residual(const depthwise *self, const float *residual, const band_at *at) {
    const int64_t width = self->h.out;
    for (int64_t r = 0; r < output_rows(self, at); r++, residual += width) {
        float *sums = row_of_sums(self, at, r);
        for (int64_t i = 0; i < width; i++)
            sums[i] += residual[i];
    }
}

static void stage_band(const depthwise *self, band_at *at) {
    at->row = divide(self->v.out * at->band, self->bands);
    at->rows = divide(self->v.out * (at->band + 1), self->bands) - at->row;
    stage(self,
          self->x + at->n * self->x_n + divide(at->channel, self->per_input) * self->x_channel, at);
}

static void store_band(const depthwise *self, const rlx_activation *activation, const band_at *at) {
    bool is_relu = activation->op == RLX_OP_RELU, is_clip = activation->op == RLX_OP_CLIP;
    const vf low = vf_set(is_relu ? 0.0f : is_clip ? (float)activation->alpha : -VEC_INFINITY);
    const vf high = vf_set(is_clip ? (float)activation->beta : VEC_INFINITY);
    const int64_t start = at->row * self->pair * self->h.out;
    float *y = self->y + at->n * self->y_n + at->channel * self->y_channel + start;
    if (self->residual != NULL) {
        add_residual(self,
                     self->residual + at->n * self->residual_n +
                         at->channel * self->residual_channel + start,
                     at);
    }
    store_rows(self, low, high, y, at);
    if (!is_relu && !is_clip)
        vec_activation_run(activation, y, output_rows(self, at) * self->h.out);
}

static void step(const depthwise *self, const band_at *from, band_at *to) {
    to->n = from->n, to->channel = from->channel, to->band = from->band;
    if (++to->band < self->bands) return;
    to->band = 0;
    if (++to->channel < self->channels) return;
    to->channel = 0, to->n++;
}

/* The next item is staged before the sums of this one are made, and the one before is stored after
 * that: loads that meet two stores wait until these have left for the cache. */
static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_conv_attrs *attrs = args->attrs;
    depthwise self;
    band_at items[2];
    depthwise_of(args, &self);
    set_offsets(&self);
    for (int i = 0; i < 2; i++) {
        items[i].stage = (float *)args->workspace + i * stage_floats(&self);
        items[i].sums =
            (float *)args->workspace + 2 * stage_floats(&self) + i * self.pair * sum_floats(&self);
    }
    band_at *now = &items[0], *other = &items[1];
    int64_t plane = begin / self.bands;
    now->n = plane / self.channels, now->channel = plane % self.channels;
    now->band = begin % self.bands;
    stage_band(&self, now);
    for (int64_t item = begin; item < end; item++) {
        /* `other` still has the sums of the item before. */
        band_at before = *other;
        if (item + 1 < end) {
            step(&self, now, other);
            stage_band(&self, other);
        }
        sum_band(&self, now);
        if (item > begin) store_band(&self, &attrs->activation, &before);
        band_at *swap = now;
        now = other, other = swap;
    }
    store_band(&self, &attrs->activation, other);
}

static int64_t items(const rlx_kernel_args *args) {
    depthwise self;
    depthwise_of(args, &self);
    return self.v.out == 0 || self.h.out == 0 ? 0 : self.batch * self.channels * self.bands;
}

/* In steps of a vector: taps, and two to copy inputs and outputs. */
static int64_t item_cost(const rlx_kernel_args *args) {
    depthwise self;
    depthwise_of(args, &self);
    int64_t vectors = divide_up(self.rows * self.pair * self.pitch, VF);
    return rlx_ref_cost(vectors, self.h.kernel * self.kernel + 2) + 16;
}

/* Also enough for smaller dims, whose bands may have more rows. */
static uint64_t workspace(const rlx_kernel_args *args) {
    depthwise self;
    depthwise_of(args, &self);
    int64_t rows = self.v.out + reach(&self.v), phases = self.h.stride * self.v.stride;
    int64_t most = rlx_ref_least(NEAR, phases * rows * self.pitch) + self.pair * SUMS * VF;
    int64_t stage = stage_floats(&self), sums = self.pair * sum_floats(&self);
    return 2 * (uint64_t)((stage > most ? stage : most) + (sums > most ? sums : most)) *
           sizeof(float);
}

static bool has_sizes(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    const rlx_tensor *w = &query->in[1];
    int64_t taps = 1;
    for (uint32_t i = 2; i < w->rank; i++) {
        if (w->dims[i] < 1 || w->dims[i] > MOST_TAPS) return false;
        taps *= w->dims[i];
    }
    if (taps > MOST_TAPS) return false;
    depthwise self;
    depthwise_of(&args, &self);
    const int64_t sizes[] = {self.h.stride, self.v.stride, self.h.dilation, self.v.dilation};
    for (int i = 0; i < 4; i++) {
        if (sizes[i] > MOST_TAPS) return false;
    }
    return self.pitch < MOST_STAGE && stage_floats(&self) < 4 * MOST_STAGE;
}

static bool takes(const rlx_target_query *query) {
    const rlx_tensor *x = &query->in[0], *w = &query->in[1];
    const rlx_conv_attrs *attrs = query->attrs;
    if (attrs->channel_block != 0 || attrs->groups < 2 || w->rank < 3 || w->rank > 4) return false;
    if (x->dtype != RLX_DTYPE_F32 || x->layout != RLX_LAYOUT_PLAIN || x->rank != w->rank) {
        return false;
    }
    if (w->dims[1] != 1 || w->dtype != RLX_DTYPE_F32 || w->layout != RLX_LAYOUT_PLAIN) return false;
    if (query->in_count > 2 && query->in[2].data != NULL && query->in[2].dtype != RLX_DTYPE_F32) {
        return false;
    }
    if (query->in_count > 3 && !vec_is_plane(&query->in[3], w->rank)) return false;
    return vec_is_plane(&query->out[0], w->rank) && has_sizes(query);
}

const rlx_cpu_override VEC_SYMBOL(conv_planes_depthwise)[] = {
    {RLX_OP_CONV, 0, takes, {VEC_NAME("conv_planes_depthwise"), run, items, item_cost, workspace}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
