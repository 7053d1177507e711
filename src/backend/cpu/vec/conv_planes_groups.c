/* SPDX-License-Identifier: Apache-2.0 */
/* Conv of f32 with channels in planes, [N][C][H][W], and groups of few channels, depthwise ones
 * among them; any kernel, stride, dilation and padding, and any number of outputs per input. An
 * item is a band of rows of all outputs of a group (conv_bands.h): each input is copied once, for
 * all taps and outputs. */
#include "backend/cpu/vec/activation.h"
#include "backend/cpu/vec/conv_bands.h"

enum {
    OUTPUTS = 4,           /* of a tile, at most */
    MOST_STAGE = 1 << 20,  /* floats of a staged row */
    MOST_WEIGHTS = 1 << 18 /* of a group */
};

/* Outputs of a group that are done together. */
typedef struct band_tile {
    const float *w; /* [outputs][inputs][taps], */
    int64_t w_out;  /* so far from one output to the next */
    float bias[OUTPUTS];
    const float *from;
    float *to;
    int64_t to_plane; /* from the sums of one output to those of the next */
} band_tile;

/* Sums are variables, as in conv_tile.h: output o has a (the first vector of positions) to h. */
/* clang-format off */
#define EACH_OUTPUT(M) M(0) M(1) M(2) M(3)
#define EACH_VECTOR(M) M(0, a) M(1, b) M(2, c) M(3, d) M(4, e) M(5, f) M(6, g) M(7, h)
/* clang-format on */
#define START(o)                                                                        \
    vf a##o = vf_set(tile->bias[O > o ? o : 0]), b##o = a##o, c##o = a##o, d##o = a##o, \
       e##o = a##o, f##o = a##o, g##o = a##o, h##o = a##o;
/* One vector of inputs for all outputs, */
#define ONE(o) const vf one##o = vf_set(w[(O > o ? o : 0) * w_out + t]);
#define STEP_VECTOR(i, v)                              \
    if (N > i) {                                       \
        const vf value = vf_load(x + i * VF);          \
        vf_add_product(&v##0, value, one0);            \
        if (O > 1) vf_add_product(&v##1, value, one1); \
        if (O > 2) vf_add_product(&v##2, value, one2); \
        if (O > 3) vf_add_product(&v##3, value, one3); \
    }
/* or one output for all vectors, of which there are fewer. */
#define STEP_OUTPUT(o)                                 \
    if (O > o) {                                       \
        const vf one = vf_set(w[o * w_out + t]);       \
        vf_add_product(&a##o, value0, one);            \
        if (N > 1) vf_add_product(&b##o, value1, one); \
        if (N > 2) vf_add_product(&c##o, value2, one); \
    }
#define PUT_VECTOR(i, v)                                             \
    if (N > i) {                                                     \
        vf_store(to + i * VF, v##0);                                 \
        if (O > 1) vf_store(to + tile->to_plane + i * VF, v##1);     \
        if (O > 2) vf_store(to + 2 * tile->to_plane + i * VF, v##2); \
        if (O > 3) vf_store(to + 3 * tile->to_plane + i * VF, v##3); \
    }

/* O outputs x N vectors of positions; constants. */
VEC_INLINE void sum_positions(const conv_bands *self, const band_tile *tile, int64_t at,
                              const int O, const int N) {
    const int64_t *offsets = self->offsets, taps = self->taps, w_out = tile->w_out;
    const float *w = tile->w, *from = tile->from + at;
    float *to = tile->to + at;
    EACH_OUTPUT(START)
    for (int64_t c = self->in; c > 0; c--, from += self->plane, w += taps) {
        for (int64_t t = 0; t < taps; t++) {
            const float *x = from + offsets[t];
            if (O > N) {
                const vf value0 = vf_load(x), value1 = vf_load(x + (N > 1 ? VF : 0)),
                         value2 = vf_load(x + (N > 2 ? 2 * VF : 0));
                EACH_OUTPUT(STEP_OUTPUT)
                (void)value1, (void)value2;
            } else {
                EACH_OUTPUT(ONE)
                EACH_VECTOR(STEP_VECTOR)
                (void)one1, (void)one2, (void)one3;
            }
        }
    }
    EACH_VECTOR(PUT_VECTOR)
}

/* N vectors of pairs of one output. */
VEC_INLINE void sum_pairs(const conv_bands *self, const band_tile *tile, int64_t at, const int N) {
    const int64_t *offsets = self->offsets, row = self->h.kernel, taps = self->taps;
    const float *w = tile->w, *from = tile->from + at;
    float *to = tile->to + at, *second = to + sum_floats(self);
    vf a[PAIRS], b[PAIRS];
    VEC_UNROLLED for (int i = 0; i < N; i++) a[i] = b[i] = vf_set(tile->bias[0]);
    for (int64_t c = self->in; c > 0; c--, from += self->plane, w += taps) {
        for (int64_t t = 0; t < row; t++) {
            const float *x = from + offsets[t];
            const vf one = vf_set(w[t]);
            VEC_UNROLLED for (int i = 0; i < N; i++)
                vf_add_product(&a[i], vf_load(x + i * VF), one);
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
            VEC_UNROLLED for (int i = 0; i < N; i++)
                vf_add_product(&b[i], vf_load(x + i * VF), one);
        }
    }
    VEC_UNROLLED for (int i = 0; i < N; i++) {
        vf_store(to + i * VF, a[i]);
        vf_store(second + i * VF, b[i]);
    }
}

/* All positions of a band: whole steps of N vectors, and of one output a half of one behind them.
 */
VEC_INLINE void sum_outputs(const conv_bands *self, const band_tile *tile, int64_t count,
                            const int O, const int N) {
    int64_t i = 0;
    for (; count - i > (O == 1 ? N / 2 * VF : 0); i += N * VF)
        sum_positions(self, tile, i, O, N);
    if (O == 1 && i < count) sum_positions(self, tile, i, O, N / 2);
}

/* clang-format off */
#define EACH_TILE(M) M(1, 8) M(2, 6) M(3, 4) M(4, 3)
/* clang-format on */
#define DEFINE(O, N)                                                                    \
    static void sum_##O(const conv_bands *self, const band_tile *tile, int64_t count) { \
        sum_outputs(self, tile, count, O, N);                                           \
    }
EACH_TILE(DEFINE)
#define NAME(O, N) sum_##O,
static void (*const sum_tiles[OUTPUTS])(const conv_bands *self, const band_tile *tile,
                                        int64_t count) = {EACH_TILE(NAME)};

static void sum_pair(const conv_bands *self, const band_tile *tile, int64_t count) {
    int64_t i = 0;
    for (; count - i > PAIRS / 2 * VF; i += PAIRS * VF)
        sum_pairs(self, tile, i, PAIRS);
    if (i < count) sum_pairs(self, tile, i, PAIRS / 2);
}

/* The weights of a group, side by side. */
static void turn_weights(const conv_bands *self, const float *from, float *to) {
    const int64_t width = self->h.kernel;
    for (int64_t o = 0; o < self->out; o++) {
        for (int64_t c = 0; c < self->in; c++) {
            const float *kernel = from + o * self->w_out + c * self->w_in;
            for (int64_t t = 0; t < self->taps; t++)
                *to++ = kernel[t / width * self->w_row + t % width * self->w_column];
        }
    }
}

static int buffers_of(const conv_bands *self) {
    return self->in > 1 ? 1 : 2;
}

/* Sums of an output, of both rows of a pair. */
static int64_t output_floats(const conv_bands *self) {
    return self->pair * sum_floats(self);
}

static void sum_band(const conv_bands *self, const band_at *at, float *turned) {
    const int64_t tiles = divide_up(self->out, OUTPUTS), first = at->group * self->out;
    const int64_t count = (at->rows - 1) * self->pitch + self->h.out;
    const float *w =
        self->w + first * self->w_out + at->group % self->merged * self->in * self->w_in;
    band_tile tile = {.w_out = self->w_out, .from = at->stage, .to_plane = output_floats(self)};
    if (self->is_turned) {
        turn_weights(self, w, turned);
        w = turned, tile.w_out = self->in * self->taps;
    }
    for (int64_t t = 0, o = 0; t < tiles; t++) {
        const int64_t outputs = self->out / tiles + (t < self->out % tiles);
        tile.w = w + o * tile.w_out;
        tile.to = at->sums + o * tile.to_plane;
        for (int64_t i = 0; i < outputs; i++)
            tile.bias[i] =
                self->bias == NULL ? 0.0f : self->bias[(first + o + i) * self->bias_stride];
        (self->pair == 2 ? sum_pair : sum_tiles[outputs - 1])(self, &tile, count);
        o += outputs;
    }
}

/* Rows of outputs of a band. */
static int64_t output_rows(const conv_bands *self, const band_at *at) {
    return rlx_ref_least(at->rows * self->pair, self->height - at->row * self->pair);
}

static float *row_of_sums(const conv_bands *self, float *sums, int64_t row) {
    if (self->pair == 1) return sums + row * self->pitch;
    return sums + row % 2 * sum_floats(self) + row / 2 * self->pitch;
}

/* Rows of sums that nothing is added to: a vector may write past the end of a row, which the next
 * row then overwrites, but not past the band. */
static void store_rows(const conv_bands *self, vf low, vf high, float *sums, int64_t rows,
                       float *y) {
    const int64_t width = self->h.out;
    for (int64_t r = 0, left = rows * width; r < rows; r++, left -= width, y += width) {
        const float *from = row_of_sums(self, sums, r);
        int64_t i = 0;
        for (; i < width && left - i >= VF; i += VF)
            vf_store(y + i, vf_min(high, vf_max(low, vf_load(from + i))));
        if (i < width) vf_store_n(y + i, vf_min(high, vf_max(low, vf_load(from + i))), width - i);
    }
}

static void add_residual(const conv_bands *self, const float *residual, float *sums, int64_t rows) {
    const int64_t width = self->h.out;
    for (int64_t r = 0; r < rows; r++, residual += width) {
        float *to = row_of_sums(self, sums, r);
        int64_t i = 0;
        for (; i + VF <= width; i += VF)
            vf_store(to + i, vf_load(to + i) + vf_load(residual + i));
        for (; i < width; i++)
            to[i] += residual[i];
    }
}

static void store_band(const conv_bands *self, const rlx_activation *activation,
                       const band_at *at) {
    const bool is_relu = activation->op == RLX_OP_RELU, is_clip = activation->op == RLX_OP_CLIP;
    const vf low = vf_set(is_relu ? 0.0f : is_clip ? (float)activation->alpha : -VEC_INFINITY);
    const vf high = vf_set(is_clip ? (float)activation->beta : VEC_INFINITY);
    const int64_t start = at->row * self->pair * self->h.out, rows = output_rows(self, at);
    const int64_t channel = at->group * self->out;
    float *y = self->y + at->n * self->y_n + channel * self->y_channel + start;
    const float *residual =
        self->residual + at->n * self->residual_n + channel * self->residual_channel + start;
    float *sums = at->sums;
    for (int64_t o = 0; o < self->out; o++, sums += output_floats(self), y += self->y_channel) {
        if (self->residual != NULL)
            add_residual(self, residual + o * self->residual_channel, sums, rows);
        store_rows(self, low, high, sums, rows, y);
        if (!is_relu && !is_clip) vec_activation_run(activation, y, rows * self->h.out);
    }
}

static void step(const conv_bands *self, const band_at *from, band_at *to) {
    to->n = from->n, to->group = from->group, to->band = from->band;
    if (++to->band < self->bands) return;
    to->band = 0;
    if (++to->group < self->groups) return;
    to->group = 0, to->n++;
}

/* Items of several inputs go through one buffer, which is far longer than what waits to be stored.
 */
static void run_groups(const conv_bands *self, const rlx_activation *activation, band_at *at,
                       int64_t count, float *turned) {
    for (; count > 0; count--) {
        stage_band(self, at);
        sum_band(self, at, turned);
        store_band(self, activation, at);
        step(self, at, at);
    }
}

/* The next item is staged before the sums of this one are made, and the one before is stored after
 * that: loads that meet two stores wait until these have left for the cache. */
static void run_channels(const conv_bands *self, const rlx_activation *activation, band_at *items,
                         int64_t count, float *turned) {
    band_at *now = &items[0], *other = &items[1];
    stage_band(self, now);
    for (int64_t i = 0; i < count; i++) {
        /* `other` still has the sums of the item before. */
        band_at before = *other;
        if (i + 1 < count) {
            step(self, now, other);
            stage_band(self, other);
        }
        sum_band(self, now, turned);
        if (i > 0) store_band(self, activation, &before);
        band_at *swap = now;
        now = other, other = swap;
    }
    store_band(self, activation, other);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_conv_attrs *attrs = args->attrs;
    conv_bands self;
    float *room = args->workspace;
    bands_of(args, &self);
    set_offsets(&self);
    const int64_t first = begin / self.bands;
    band_at items[2] = {
        {.n = first / self.groups, .group = first % self.groups, .band = begin % self.bands}};
    for (int i = 0; i < buffers_of(&self); i++)
        items[i].stage = room, room += stage_floats(&self);
    for (int i = 0; i < buffers_of(&self); i++)
        items[i].sums = room, room += self.out * output_floats(&self);
    (self.in > 1 ? run_groups : run_channels)(&self, &attrs->activation, items, end - begin, room);
}

static int64_t items(const rlx_kernel_args *args) {
    conv_bands self;
    bands_of(args, &self);
    if (self.v.out == 0 || self.h.out == 0 || self.out == 0) return 0;
    return self.batch * self.groups * self.bands;
}

/* In steps of a vector: taps, and two to copy inputs and outputs. */
static int64_t item_cost(const rlx_kernel_args *args) {
    conv_bands self;
    bands_of(args, &self);
    int64_t vectors = divide_up(self.rows * self.pair * self.pitch, VF);
    int64_t each = rlx_ref_cost(self.in * self.out, self.taps) + self.in + self.out;
    return rlx_ref_cost(vectors, each) + 16;
}

/* Also enough for smaller dims, whose bands may have more rows. */
static uint64_t workspace(const rlx_kernel_args *args) {
    conv_bands self;
    bands_of(args, &self);
    const int64_t planes = self.in * self.h.stride * self.v.stride, slack = SUMS * VF;
    const int64_t rows = self.v.out + reach(&self.v);
    const int64_t near = self.in == 1 ? NEAR : NEAR_GROUP;
    const int64_t most = rlx_ref_least(near, planes * rows * self.pitch);
    int64_t stage = stage_floats(&self), sums = sum_floats(&self);
    if (stage < most + slack) stage = most + slack;
    if (sums < most / planes + slack) sums = most / planes + slack;
    int64_t floats = buffers_of(&self) * (stage + self.out * self.pair * sums);
    if (self.is_turned) floats += self.out * self.in * self.taps;
    return (uint64_t)floats * sizeof(float);
}

static bool has_sizes(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    const rlx_tensor *w = &query->in[1];
    int64_t taps = 1;
    for (uint32_t i = 0; i < w->rank; i++) {
        if (w->dims[i] < 1 || w->dims[i] > MOST_STAGE) return false;
        if (i > 1 && (taps *= w->dims[i]) > MOST_TAPS) return false;
    }
    conv_bands self;
    bands_of(&args, &self);
    const int64_t sizes[] = {self.h.stride, self.v.stride, self.h.dilation, self.v.dilation};
    for (int i = 0; i < 4; i++) {
        if (sizes[i] > MOST_TAPS) return false;
    }
    if (self.in * self.taps > MOST_WEIGHTS / self.out || self.pitch >= MOST_STAGE) return false;
    return self.plane < 4 * MOST_STAGE && stage_floats(&self) < 4 * MOST_STAGE;
}

/* Inputs of one tap that lie as the outputs do are read where they are (conv_planes.c). */
static bool is_copied(const rlx_target_query *query) {
    const rlx_tensor *x = &query->in[0], *w = &query->in[1], *y = &query->out[0];
    for (uint32_t i = 2; i < w->rank; i++) {
        if (w->dims[i] != 1 || x->dims[i] != y->dims[i]) return true;
    }
    return w->dims[1] == 1;
}

static bool takes(const rlx_target_query *query) {
    const rlx_tensor *x = &query->in[0], *w = &query->in[1];
    const rlx_conv_attrs *attrs = query->attrs;
    if (attrs->channel_block != 0 || attrs->groups < 2 || w->rank < 3 || w->rank > 4) return false;
    if (x->dtype != RLX_DTYPE_F32 || x->layout != RLX_LAYOUT_PLAIN || x->rank != w->rank) {
        return false;
    }
    if (w->dtype != RLX_DTYPE_F32 || w->layout != RLX_LAYOUT_PLAIN) return false;
    if (query->in_count > 2 && query->in[2].data != NULL && query->in[2].dtype != RLX_DTYPE_F32) {
        return false;
    }
    if (query->in_count > 3 && !vec_is_plane(&query->in[3], w->rank)) return false;
    return vec_is_plane(&query->out[0], w->rank) && is_copied(query) && has_sizes(query);
}

const rlx_cpu_override VEC_SYMBOL(conv_planes_groups)[] = {
    {RLX_OP_CONV, 0, takes, {VEC_NAME("conv_planes_groups"), run, items, item_cost, workspace}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
