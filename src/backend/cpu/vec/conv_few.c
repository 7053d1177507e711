/* SPDX-License-Identifier: Apache-2.0 */
/* Conv of f32 to fewer channels than half a block has (the heads of networks that paint images),
 * with channels in blocks: x, y and residual are [N][C / BLOCK][H][W][BLOCK], weights [M][C /
 * BLOCK] [taps][BLOCK]. Lanes are input channels, so a product costs one multiply-add per block and
 * tap, not one per channel; lanes are added up at the end. An item is a row of outputs, done in
 * tiles of POSITIONS where all taps lie in the input, and one by one elsewhere. */
#include "backend/cpu/vec/conv_view.h"
#include "backend/cpu/vec/sum_four.h"
#include "ref/access.h"

/* CHANNELS go together, with half as many positions; inputs of AHEAD positions further are asked
 * for: a tile reads a little of every block and row. */
enum { POSITIONS = 8, CHANNELS = 3, AHEAD = 16, RUN = 64, MOST = BLOCK / 2 };

/* Positions side by side, of which all taps of columns [tap, tap_end) lie in the input. */
typedef struct few_tile {
    const conv_view *view;
    const float *x; /* the first position's tap 0, in the first row that is met; may be outside */
    const float *w; /* of output channel 0, at that row */
    int64_t w_channel; /* between output channels */
    int64_t rows;      /* kernel rows that meet the input */
    int64_t tap, tap_end;
    int64_t blocks;
} few_tile;

/* The sums of P positions for output channels [m, m + C), [channel][RUN]; both are constants. */
VEC_INLINE void sum_tile(const few_tile *tile, int64_t m, float *to, const int P, const int C) {
    const conv_view *view = tile->view;
    const int64_t step = view->w.stride * view->x.column;
    const int64_t taps = view->h.kernel * view->w.kernel * BLOCK;
    vf sums[CHANNELS * POSITIONS / 2];
    VEC_UNROLLED_MORE for (int i = 0; i < P * C; i++) sums[i] = vf_set(0.0f);
    for (int64_t b = 0; b < tile->blocks; b++) {
        const float *w = tile->w + m * tile->w_channel + b * taps;
        const float *line = tile->x + b * view->x.block;
        for (int64_t r = 0; r < tile->rows; r++) {
            for (int p = 0; p < P; p += 64 / 4 / BLOCK)
                __builtin_prefetch(line + (AHEAD + p) * step);
            for (int64_t t = tile->tap; t < tile->tap_end; t++) {
                const float *x = line + t * view->w.dilation * view->x.column;
                for (int v = 0; v < BLOCK; v += VF) {
                    vf one[CHANNELS];
                    VEC_UNROLLED for (int c = 0; c < C; c++) one[c] =
                        vf_load(w + c * tile->w_channel + t * BLOCK + v);
                    VEC_UNROLLED for (int p = 0; p < P; p++) {
                        vf here = vf_load(x + p * step + v);
                        VEC_UNROLLED for (int c = 0; c < C; c++)
                            vf_add_product(&sums[c * P + p], here, one[c]);
                    }
                }
            }
            line += view->h.dilation * view->x.row;
            w += view->w.kernel * BLOCK;
        }
    }
    VEC_UNROLLED for (int c = 0; c < C; c++) {
        if (P == 1) to[c * RUN] = vf_sum(sums[c]);
        VEC_UNROLLED for (int p = 0; p + 4 <= P; p += 4)
            sum_four(sums + c * P + p, to + c * RUN + p);
    }
}

/* As many sums as registers hold: eight positions of one channel, or four of two or three. */
static void sum_one_channel(const few_tile *tile, int64_t m, float *to) {
    sum_tile(tile, m, to, POSITIONS, 1);
}
static void sum_two_channels(const few_tile *tile, int64_t m, float *to) {
    sum_tile(tile, m, to, POSITIONS / 2, 2);
}
static void sum_three_channels(const few_tile *tile, int64_t m, float *to) {
    sum_tile(tile, m, to, POSITIONS / 2, CHANNELS);
}
static void sum_position(const few_tile *tile, int64_t m, float *to) {
    sum_tile(tile, m, to, 1, 1);
}

/* POSITIONS of them, all channels. */
static void sum_many(const few_tile *tile, int64_t channels, float *to) {
    const int64_t half = POSITIONS / 2;
    few_tile rest = *tile;
    rest.x += half * tile->view->w.stride * tile->view->x.column;
    for (int64_t m = 0, count; m < channels; m += count) {
        count = conv_least(CHANNELS, channels - m);
        if (count == 1) {
            sum_one_channel(tile, m, to + m * RUN);
        } else {
            (count == 2 ? sum_two_channels : sum_three_channels)(tile, m, to + m * RUN);
            (count == 2 ? sum_two_channels : sum_three_channels)(&rest, m, to + m * RUN + half);
        }
    }
}

/* A row under way. */
typedef struct few_row {
    const conv_view *view;
    few_tile tile;         /* of its first position */
    const float *x;        /* of the first row that is met, at column 0 */
    const float *residual; /* NULL: none */
    float *y;
    int64_t inner, inner_end; /* positions with all taps in the input */
} few_row;

/* Positions [*first, *end) have all their taps in the input. */
static void inner_range(const rlx_window *w, int64_t *first, int64_t *end) {
    int64_t last = w->in - 1 - (w->kernel - 1) * w->dilation + w->begin;
    *first = conv_least(w->out, w->begin > 0 ? conv_divide_up(w->begin, w->stride) : 0);
    *end = last < 0 ? 0 : conv_least(w->out, last / w->stride + 1);
    if (*end < *first) *end = *first;
}

/* Taps of a window that starts at `start` and lie in the input: from *first on, up to the result.
 */
static int64_t taps_met(const rlx_window *w, int64_t start, int64_t *first) {
    *first = start < 0 ? conv_least(w->kernel, conv_divide_up(-start, w->dilation)) : 0;
    int64_t end = start >= w->in ? 0 : (w->in - 1 - start) / w->dilation + 1;
    end = conv_least(end, w->kernel);
    return end > *first ? end : *first;
}

/* Bias, residual and activation on a run of positions, [channel][RUN], which then goes to its
 * lanes. Lanes past the last channel are sums of zero. */
static void store(const few_row *row, float *sums, int64_t column, int64_t count) {
    const conv_view *view = row->view;
    const vf rest = vf_activation(&view->activation, vf_set(0.0f));
    float *y = row->y + column * view->y.column;
    for (int64_t p = 0; p < count && row->residual == NULL; p++) {
        for (int v = 0; v < BLOCK; v += VF)
            vf_store(y + p * view->y.column + v, rest);
    }
    for (int64_t m = 0; m < BLOCK; m++) {
        if (m >= view->out_channels && row->residual == NULL) return;
        float *line = sums + (m < view->out_channels ? m : MOST) * RUN;
        float bias =
            m < view->out_channels && view->bias != NULL ? view->bias[m * view->bias_stride] : 0.0f;
        for (int64_t p = 0; p < count; p++) {
            line[p] = m < view->out_channels ? line[p] + bias : 0.0f;
            if (row->residual != NULL)
                line[p] += row->residual[(column + p) * view->residual.column + m];
        }
        vec_activation_run(&view->activation, line, count);
        for (int64_t p = 0; p < count; p++)
            y[p * view->y.column + m] = line[p];
    }
}

/* Positions [column, column + count) of a row. */
static void run_positions(const few_row *row, int64_t column, int64_t count) {
    const conv_view *view = row->view;
    const rlx_window *w = &view->w;
    float sums[(MOST + 1) * RUN];
    for (int64_t p = 0, now; p < count; p += now) {
        few_tile tile = row->tile;
        bool is_many = column + p >= row->inner &&
                       conv_least(row->inner_end, column + count) - column - p >= POSITIONS;
        int64_t start = (column + p) * w->stride - w->begin;
        now = is_many ? POSITIONS : 1;
        tile.tap_end = taps_met(w, start, &tile.tap);
        tile.x = row->x + start * view->x.column;
        if (is_many) sum_many(&tile, view->out_channels, sums + p);
        for (int64_t m = 0; m < view->out_channels && !is_many; m++)
            sum_position(&tile, m, sums + m * RUN + p);
    }
    store(row, sums, column, count);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    conv_view view = conv_view_of(args);
    const rlx_window *h = &view.h;
    few_row row = {.view = &view};
    int64_t blocks = conv_divide_up(view.in_channels, BLOCK);
    inner_range(&view.w, &row.inner, &row.inner_end);
    row.tile = (few_tile){
        .view = &view, .blocks = blocks, .w_channel = blocks * h->kernel * view.w.kernel * BLOCK};
    for (; begin < end; begin++) {
        int64_t at = begin % h->out, n = begin / h->out, first, start = at * h->stride - h->begin;
        row.tile.rows = taps_met(h, start, &first) - first;
        row.tile.w = (const float *)args->in[1].data + first * view.w.kernel * BLOCK;
        row.x = view.x.data + n * view.x.n;
        if (row.tile.rows > 0) row.x += (start + first * h->dilation) * view.x.row;
        row.y = view.y.data + n * view.y.n + at * view.y.row;
        if (view.residual.data != NULL)
            row.residual = view.residual.data + n * view.residual.n + at * view.residual.row;
        for (int64_t column = 0; column < view.w.out; column += RUN)
            run_positions(&row, column, conv_least(RUN, view.w.out - column));
    }
}

static int64_t items(const rlx_kernel_args *args) {
    conv_view view = conv_view_of(args);
    return view.out_channels == 0 ? 0 : view.batch * view.h.out; /* no block to write to */
}

/* In steps of a vector. */
static int64_t item_cost(const rlx_kernel_args *args) {
    conv_view view = conv_view_of(args);
    int64_t depth = conv_divide_up(view.in_channels, VF) * view.h.kernel * view.w.kernel;
    return rlx_ref_cost(rlx_ref_cost(view.w.out, view.out_channels), depth + 8);
}

static bool takes(const rlx_target_query *query) {
    const rlx_tensor *w = &query->in[1];
    const rlx_conv_attrs *attrs = query->attrs;
    uint32_t spatial = w->rank - 2;
    if (spatial < 1 || spatial > 2 || attrs->channel_block != BLOCK || attrs->groups > 1 ||
        attrs->winograd != 0 || attrs->merged > 1) {
        return false;
    }
    if (w->dtype != RLX_DTYPE_F32 ||
        w->layout != (BLOCK == 8 ? RLX_LAYOUT_CHANNELS8 : RLX_LAYOUT_CHANNELS16)) {
        return false;
    }
    if (w->dims[0] > MOST || query->in[0].rank == w->rank ||
        !conv_is_blocked(&query->in[0], spatial)) {
        return false;
    }
    if (query->in_count > 2 && query->in[2].data != NULL && query->in[2].dtype != RLX_DTYPE_F32) {
        return false;
    }
    if (query->in_count > 3 && !conv_is_blocked(&query->in[3], spatial)) return false;
    return conv_is_blocked(&query->out[0], spatial);
}

const rlx_cpu_override VEC_SYMBOL(conv_few)[] = {
    {RLX_OP_CONV, 0, takes, {VEC_NAME("conv_few"), run, items, item_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
