/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise conv of f32 with channels in blocks: x, y and residual are [N][C / BLOCK][H][W][BLOCK],
 * weights [C / BLOCK][taps][BLOCK]. Any kernel, stride, dilation and padding. An item is one row of
 * outputs of one block of channels, done in tiles of positions that keep their sums in registers.
 * Kernels of 3 and 5 columns with strides of 1 and 2, and of 7 with 1, have tiles of their own:
 * they load each input once per row, and leave out what is padding without leaving the tile. 3 x 3
 * kernels of stride 1 go by several rows at once where they can, and an item is so many: two
 * (conv_depthwise_two.h), with 32 registers three or four (conv_depthwise_roll.h), or two by fewer
 * products (conv_depthwise_pair.h). These may write over their input: an item is a plane then, and
 * what the next rows still need of it is kept aside.
 */
#include "backend/cpu/vec/conv_depthwise_pair.h"
#include "backend/cpu/vec/conv_depthwise_two.h"
#include "ref/access.h"

#include <string.h>

/* A run of tiles of one size in a row; a tile is positions side by side, one vector of channels. */
typedef struct depthwise_tile {
    const conv_view *view;
    const float *x;        /* first row that the window meets, its column 0, lane of this vector */
    const float *w;        /* the tap of that row */
    const float *residual; /* of the next tile's first position; NULL: none */
    float *y;
    vf bias, low, high;     /* what is added before, and the bounds of the result */
    int64_t rows;           /* kernel rows that meet the input */
    int64_t start;          /* the column of its first position's first tap; may be outside */
    int64_t row_stride;     /* between rows of x that follow each other in the kernel */
    bool has_more;          /* an activation that is not bounds */
    depthwise_rows several; /* of a plane whose rows go by several */
    float *room;            /* ROOM_ROWS rows of inputs; the one at ROOM_ZEROS is of zeros */
} depthwise_tile;

enum {
    TILE = 8,
    ROOM_ZEROS = PAIR_KEPT,
    ROOM_ROWS,
    ROOM_APART = 1024 /* bytes between the rooms of two workers: seen, not understood */
};

/* Activations that are not bounds. */
static __attribute__((noinline)) void finish(const depthwise_tile *tile, int count) {
    const int64_t step = tile->view->y.column;
    vf values[TILE];
    for (int p = 0; p < count; p++)
        values[p] = vf_load(tile->y + p * step);
    VEC_SYMBOL(activation)(&tile->view->activation, values, count);
    for (int p = 0; p < count; p++)
        vf_store(tile->y + p * step, values[p]);
}

/* The first `count` of P sums; P is a constant. */
VEC_INLINE void store_sums(const depthwise_tile *tile, vf *sums, int64_t count, const int P) {
    const int64_t step = tile->view->y.column, residual_step = tile->view->residual.column;
    const float *residual = tile->residual;
    const vf low = tile->low, high = tile->high;
    float *y = tile->y;
    if (residual != NULL) {
        VEC_UNROLLED for (int p = 0; p < P; p++) {
            if (p < count) sums[p] += vf_load(residual + p * residual_step);
        }
    }
    VEC_UNROLLED for (int p = 0; p < P; p++) {
        if (p < count) vf_store(y + p * step, vf_min(high, vf_max(low, sums[p])));
    }
    if (tile->has_more) finish(tile, (int)count);
}

/* One row of taps for P positions: each input is loaded once and goes to the sums that it meets.
 * Columns [0, left) and from `right` on are padding; there are fewer than K of either. */
VEC_INLINE void add_row(vf *sums, const float *x, const float *w, int64_t left, int64_t right,
                        const int P, const int K, const int S) {
    const int columns = (P - 1) * S + K;
    vf weights[7];
    VEC_UNROLLED for (int t = 0; t < K; t++) weights[t] = vf_load(w + t * BLOCK);
    VEC_UNROLLED_MORE for (int c = 0; c < columns; c++) {
        if (c < K - 1 && c < left) continue;
        if (c > columns - K && c >= right) continue;
        vf value = vf_load(x + c * BLOCK);
        VEC_UNROLLED for (int t = 0; t < K; t++) {
            int p = c - t;
            if (p >= 0 && p % S == 0 && p / S < P) vf_add_product(&sums[p / S], value, weights[t]);
        }
    }
}

VEC_INLINE void run_tile(const depthwise_tile *tile, const int P, const int K, const int S) {
    const int64_t left = -tile->start, right = tile->view->w.in - tile->start;
    const float *x = tile->x + tile->start * BLOCK, *w = tile->w;
    vf sums[TILE];
    VEC_UNROLLED for (int p = 0; p < P; p++) sums[p] = tile->bias;
    for (int64_t row = 0; row < tile->rows; row++, x += tile->row_stride, w += K * BLOCK)
        add_row(sums, x, w, left, right, P, K, S);
    store_sums(tile, sums, P, P);
}

/* Any window, for TILE positions whose taps all lie in the input. */
VEC_INLINE void run_inner(const depthwise_tile *tile) {
    enum { P = TILE };
    const conv_view *view = tile->view;
    const rlx_window *window = &view->w;
    const int64_t step = window->stride * view->x.column;
    const int64_t dilation = window->dilation * view->x.column;
    const float *w = tile->w, *line = tile->x + tile->start * view->x.column;
    vf sums[TILE];
    VEC_UNROLLED for (int p = 0; p < P; p++) sums[p] = tile->bias;
    for (int64_t row = 0; row < tile->rows; row++, line += tile->row_stride) {
        const float *x = line;
        for (int64_t tap = 0; tap < window->kernel; tap++, x += dilation, w += BLOCK) {
            vf weight = vf_load(w);
            VEC_UNROLLED for (int p = 0; p < P; p++)
                vf_add_product(&sums[p], vf_load(x + p * step), weight);
        }
    }
    store_sums(tile, sums, P, P);
}

/* Any window, up to TILE positions, wherever their taps lie: those of padding are left out. Several
 * positions at once, since the sum of one waits for itself; who has a tap is the same in all rows.
 */
static void run_edge(const depthwise_tile *tile, int64_t count) {
    const conv_view *view = tile->view;
    const rlx_window *window = &view->w;
    const int64_t step = window->stride * view->x.column, taps = window->kernel;
    int64_t at = tile->start;
    vf sums[TILE];
    VEC_UNROLLED for (int p = 0; p < TILE; p++) sums[p] = tile->bias;
    for (int64_t tap = 0; tap < taps; tap++, at += window->dilation) {
        const float *w = tile->w + tap * BLOCK, *x = tile->x + at * view->x.column;
        unsigned met = 0; /* a bit for each position */
        for (int64_t p = 0, column = at; p < count; p++, column += window->stride)
            met |= (unsigned)(column >= 0 && column < window->in) << p;
        for (int64_t row = 0; row < tile->rows; row++, x += tile->row_stride, w += taps * BLOCK) {
            const vf weight = vf_load(w);
            VEC_UNROLLED for (int p = 0; p < TILE; p++) {
                if ((met >> p & 1) != 0) vf_add_product(&sums[p], vf_load(x + p * step), weight);
            }
        }
    }
    store_sums(tile, sums, count, TILE);
}

/* To the next tile of the row, P positions on. */
VEC_INLINE void advance(depthwise_tile *tile, int64_t P) {
    const conv_view *view = tile->view;
    tile->start += P * view->w.stride;
    tile->y += P * view->y.column;
    if (tile->residual != NULL) tile->residual += P * view->residual.column;
}

/* Any window, `count` positions side by side. */
static void run_any(depthwise_tile *tile, int64_t count) {
    const rlx_window *window = &tile->view->w;
    const int64_t reach = conv_reach(window, TILE);
    for (; count > 0; count -= TILE, advance(tile, TILE)) {
        if (count >= TILE && tile->start >= 0 && tile->start + reach <= window->in) {
            run_inner(tile);
        } else {
            run_edge(tile, conv_least(count, TILE));
        }
    }
}

/* So many tiles side by side of one kind of window. */
typedef void (*tiles_fn)(depthwise_tile *tile, int64_t count);
typedef struct tile_kind {
    int64_t kernel, stride;
    tiles_fn run[2]; /* of TILE positions, and of TILE - 1 */
} tile_kind;

/* clang-format off */
#define RUN(K, S, P)                                                                             \
    static void k##K##s##S##_##P(depthwise_tile *tile, int64_t count) {                          \
        for (; count > 0; count--, advance(tile, P))                                             \
            run_tile(tile, P, K, S);                                                             \
    }
#define DEFINE(K, S) RUN(K, S, 8) RUN(K, S, 7)
DEFINE(3, 1) DEFINE(3, 2) DEFINE(5, 1) DEFINE(5, 2) DEFINE(7, 1)
#undef DEFINE
#undef RUN

#define KIND(K, S) {K, S, {k##K##s##S##_8, k##K##s##S##_7}},
static const tile_kind kinds[] = {KIND(3, 1) KIND(3, 2) KIND(5, 1) KIND(5, 2) KIND(7, 1)};
#undef KIND
/* clang-format on */

/* NULL: none, it takes run_any. */
static const tile_kind *kind_of(const conv_view *view) {
    const rlx_window *w = &view->w;
    int64_t past = (w->out - 1) * w->stride + w->kernel - w->begin - w->in; /* padding behind */
    if (view->x.column != BLOCK || w->dilation != 1 || w->begin >= w->kernel || past >= w->kernel ||
        w->in < w->kernel || w->out < TILE - 1) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].kernel == w->kernel && kinds[i].stride == w->stride) return &kinds[i];
    }
    return NULL;
}

/* The kernel rows that meet the input at output row `row`: from *first on, so many. */
static int64_t rows_met(const rlx_window *h, int64_t row, int64_t *first) {
    int64_t start = row * h->stride - h->begin;
    *first = 0;
    if (start >= 0 && start + (h->kernel - 1) * h->dilation < h->in) return h->kernel;
    if (start < 0) *first = conv_least(h->kernel, conv_divide_up(-start, h->dilation));
    if (start >= h->in) return 0;
    int64_t end = conv_least(h->kernel, (h->in - 1 - start) / h->dilation + 1);
    return end > *first ? end - *first : 0;
}

static vf lane_bias(const conv_view *view, int64_t channel) {
    vec_parts bias = {{0}};
    if (view->bias != NULL && view->bias_stride == 1 && channel + VF <= view->groups)
        return vf_load(view->bias + channel);
    for (int64_t i = 0; view->bias != NULL && i < VF; i++) {
        if (channel + i < view->groups) bias.f[i] = view->bias[(channel + i) * view->bias_stride];
    }
    return bias.v;
}

/* The rows of a plane go in blocks: the first `split` of them in blocks of `first`, then of
 * `second`. */
typedef struct depthwise_blocks {
    int64_t split, first, second;
    bool has_pairs; /* the second ones are those of conv_depthwise_pair.h */
} depthwise_blocks;

/* How a row is cut into tiles: all of one size, and the last one may overlap the one before. */
typedef struct depthwise_plan {
    const conv_view *view;
    tiles_fn run; /* NULL: run_any */
    int64_t size, count, rest;
    bool is_joined;   /* rows go by several */
    bool is_in_place; /* y lies in x */
    depthwise_blocks blocks;
} depthwise_plan;

/* Whether the window is that of the kernels for several rows. */
static bool is_plain_three(const rlx_window *w) {
    return w->kernel == 3 && w->stride == 1 && w->dilation == 1 && w->begin == 1 && w->out == w->in;
}

/* Fewer products, where sums have units of their own. Weights cost more, so not in small images if
 * these can go in blocks of four and three. */
static bool has_pairs(const conv_view *view) {
    const int64_t height = view->h.in;
    return vec_adds_beside() && height >= 2 &&
           (roll_threes(height) < 0 || height * view->w.in >= 100);
}

static bool may_join(const conv_view *view) {
    return is_plain_three(&view->h) && is_plain_three(&view->w) && view->residual.data == NULL &&
           view->x.column == BLOCK && view->y.column == BLOCK && view->w.in >= 1;
}

static bool is_joined(const conv_view *view) {
    const int64_t height = view->h.in;
    if (!may_join(view)) return false;
    if (HAS_TWOS) return height >= 3 && view->w.in >= 2;
    return has_pairs(view) || roll_threes(height) >= 0;
}

static depthwise_blocks blocks_of(const conv_view *view) {
    const int64_t height = view->h.out;
    if (!is_joined(view)) return (depthwise_blocks){.first = 1, .second = 1};
    if (HAS_TWOS) return (depthwise_blocks){.split = height - height % 2, .first = 2, .second = 1};
    if (has_pairs(view))
        return (depthwise_blocks){height % 2 == 0 ? 0 : 3, 3, 2, .has_pairs = true};
    return (depthwise_blocks){.split = height - 3 * roll_threes(height), .first = 4, .second = 3};
}

/* Of rows that go by two, one without a partner would come too late. What a plan may hold for
 * every processor of this level hangs on shapes alone. */
static bool may_overwrite(const conv_view *view) {
    const int64_t height = view->h.in;
    return is_joined(view) && (HAS_TWOS ? height % 2 == 0 : roll_threes(height) >= 0);
}

static depthwise_plan plan_of(const conv_view *view) {
    depthwise_plan plan = {.view = view, .size = TILE, .blocks = blocks_of(view)};
    const tile_kind *kind = kind_of(view);
    const int64_t out = view->w.out, less = TILE - 1;
    bool is_less =
        out < TILE || conv_divide_up(out, less) * less < conv_divide_up(out, TILE) * TILE;
    if (is_less) plan.size = less;
    if (kind != NULL) plan.run = kind->run[is_less];
    plan.count = out / plan.size, plan.rest = out % plan.size;
    plan.is_joined = is_joined(view);
    plan.is_in_place = may_overwrite(view) && view->x.data == view->y.data;
    return plan;
}

/* The tiles of a row. Outputs that overlap are the same twice, unless what is added to them lies in
 * their place. */
static void run_tiles(const depthwise_plan *plan, depthwise_tile *tile) {
    if (plan->run == NULL) {
        run_any(tile, plan->view->w.out);
        return;
    }
    plan->run(tile, plan->count);
    if (plan->rest == 0) return;
    if (tile->residual != NULL) {
        run_edge(tile, plan->rest);
        return;
    }
    advance(tile, plan->rest - plan->size);
    plan->run(tile, 1);
}

/* One row; `tile` says where its plane is. */
static void run_row(const depthwise_plan *plan, depthwise_tile *tile, const float *weights,
                    int64_t row) {
    const conv_view *view = plan->view;
    const float *plane = tile->x, *residual = tile->residual;
    float *y = tile->y;
    int64_t first;
    tile->rows = rows_met(&view->h, row, &first);
    if (tile->rows > 0)
        tile->x += (row * view->h.stride - view->h.begin + first * view->h.dilation) * view->x.row;
    tile->w = weights + first * view->w.kernel * BLOCK;
    tile->start = -view->w.begin;
    tile->y += row * view->y.row;
    if (residual != NULL) tile->residual += row * view->residual.row;
    run_tiles(plan, tile);
    tile->x = plane, tile->residual = residual, tile->y = y;
}

/* Activations that are not bounds, of a whole row. */
static void finish_row(depthwise_tile *tile, float *y, int64_t width) {
    float *plane = tile->y;
    for (int64_t column = 0; column < width; column += TILE) {
        tile->y = y + column * BLOCK;
        finish(tile, (int)conv_least(TILE, width - column));
    }
    tile->y = plane;
}

/* Rows [begin, end) of one plane, both even, by two. */
static void run_twos_of(const depthwise_plan *plan, depthwise_tile *tile, const float *weights,
                        int64_t begin, int64_t end) {
    depthwise_rows *rows = &tile->several;
    rows->x = tile->x, rows->w = weights, rows->y = tile->y, rows->bias = tile->bias;
    rows->kept = tile->room;
    rows->above = plan->is_in_place ? tile->room : NULL;
    run_twos(rows, begin, end);
    for (int64_t row = begin; tile->has_more && row < end; row++)
        finish_row(tile, tile->y + row * rows->y_row, rows->width);
}

/* Rows [begin, end) of one plane in blocks of four and three, or of three and two; in place all of
 * them. */
static void run_rolls(const depthwise_plan *plan, depthwise_tile *tile, const float *weights,
                      int64_t begin, int64_t end) {
    const depthwise_blocks *blocks = &plan->blocks;
    depthwise_rows *several = &tile->several;
    const int64_t row_floats = several->width * BLOCK, x_row = several->x_row;
    several->w = weights, several->bias = tile->bias;
    several->kept = plan->is_in_place ? tile->room + (PAIR_KEPT - 1) * row_floats : NULL;
    for (int64_t row = begin, rows; row < end; row += rows) {
        const bool is_paired = blocks->has_pairs && row >= blocks->split;
        rows = is_paired ? end - row : row < blocks->split ? blocks->first : blocks->second;
        several->x = tile->x + row * x_row;
        several->y = tile->y + row * several->y_row;
        several->above = row == 0 ? NULL : plan->is_in_place ? several->kept : several->x - x_row;
        several->has_last = row + rows < several->height;
        if (is_paired) {
            const float *zeros = tile->room + ROOM_ZEROS * row_floats;
            (plan->is_in_place ? run_pairs_kept : run_pairs_apart)(several, rows / 2, tile->room,
                                                                   zeros);
        } else {
            run_roll(several, rows);
        }
        for (int64_t r = 0; tile->has_more && r < rows; r++)
            finish_row(tile, several->y + r * several->y_row, several->width);
    }
}

/* Rows [begin, end) of one plane; where they go by two, begin is even and end is, or the last. */
static void run_rows(const depthwise_plan *plan, depthwise_tile *tile, const float *weights,
                     int64_t begin, int64_t end) {
    if (!HAS_TWOS && plan->is_joined) {
        run_rolls(plan, tile, weights, begin, end);
        return;
    }
    if (plan->is_joined) {
        run_twos_of(plan, tile, weights, begin, end - end % 2);
        begin = end - end % 2;
    }
    for (int64_t row = begin; row < end; row++)
        run_row(plan, tile, weights, row);
}

/* What the tiles of all planes share. */
static depthwise_tile tile_of(const conv_view *view) {
    const rlx_activation *activation = &view->activation;
    bool is_relu = activation->op == RLX_OP_RELU, is_clip = activation->op == RLX_OP_CLIP;
    depthwise_rows several = {.x_row = view->x.row,
                              .y_row = view->y.row,
                              .height = view->h.in,
                              .width = view->w.in,
                              .low = vf_set(is_relu   ? 0.0f
                                            : is_clip ? (float)activation->alpha
                                                      : -VEC_INFINITY),
                              .high = vf_set(is_clip ? (float)activation->beta : VEC_INFINITY),
                              .has_high = is_clip};
    return (depthwise_tile){.view = view,
                            .row_stride = view->h.dilation * view->x.row,
                            .low = several.low,
                            .high = several.high,
                            .has_more = activation->op != RLX_OP_NONE && !is_relu && !is_clip,
                            .several = several};
}

/* Rows [begin, end) of one block of channels of image n, a vector of channels after the other. */
static void run_plane(const depthwise_plan *plan, depthwise_tile *tile, const float *weights,
                      int64_t n, int64_t block, int64_t begin, int64_t end) {
    const conv_view *view = plan->view;
    weights += block * view->h.kernel * view->w.kernel * BLOCK;
    for (int64_t lane = 0; lane < BLOCK; lane += VF) {
        tile->bias = lane_bias(view, block * BLOCK + lane);
        tile->x = view->x.data + n * view->x.n + block * view->x.block + lane;
        tile->y = view->y.data + n * view->y.n + block * view->y.block + lane;
        if (view->residual.data != NULL)
            tile->residual =
                view->residual.data + n * view->residual.n + block * view->residual.block + lane;
        run_rows(plan, tile, weights + lane, begin, end);
    }
}

/* Items of a plane: rows, or blocks of them; in place, all of it. */
static int64_t plane_items(const depthwise_plan *plan) {
    const depthwise_blocks *blocks = &plan->blocks;
    if (plan->is_in_place) return 1;
    return blocks->split / blocks->first +
           conv_divide_up(plan->view->h.out - blocks->split, blocks->second);
}

static int64_t first_row(const depthwise_plan *plan, int64_t item) {
    const depthwise_blocks *blocks = &plan->blocks;
    const int64_t firsts = blocks->split / blocks->first;
    if (plan->is_in_place) return item == 0 ? 0 : plan->view->h.out;
    return item <= firsts ? item * blocks->first : blocks->split + (item - firsts) * blocks->second;
}

/* What is worked out once per step: as much as a plane of 7 x 7 costs. Not to be moved. */
typedef struct depthwise_work {
    conv_view view;
    depthwise_plan plan;
    depthwise_tile tile;
} depthwise_work;

static void make_work(const rlx_kernel_args *args, void *memory) {
    depthwise_work *work = memory;
    work->view = conv_view_of(args);
    work->plan = plan_of(&work->view);
    work->tile = tile_of(&work->view);
}

static void run_items(const depthwise_work *work, const float *weights, float *room, int64_t begin,
                      int64_t end) {
    const conv_view *view = &work->view;
    const depthwise_plan *plan = &work->plan;
    depthwise_tile tile = work->tile;
    int64_t count = plane_items(plan), blocks = conv_divide_up(view->groups, BLOCK);
    if (begin >= end) return;
    tile.room = room;
    if (plan->blocks.has_pairs)
        memset(room + ROOM_ZEROS * view->w.in * BLOCK, 0,
               (size_t)view->w.in * BLOCK * sizeof *room);
    int64_t block = begin / count, item = begin % count, n = block / blocks;
    block %= blocks;
    for (int64_t left = end - begin; left > 0; item = 0) {
        int64_t last = conv_least(count, item + left);
        run_plane(plan, &tile, weights, n, block, first_row(plan, item), first_row(plan, last));
        left -= last - item;
        if (++block == blocks) block = 0, n++;
    }
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    depthwise_work work;
    if (args->prepared == NULL) make_work(args, &work);
    run_items(args->prepared == NULL ? &work : args->prepared, args->in[1].data, args->workspace,
              begin, end);
}

static int64_t planes(const conv_view *view) {
    return view->batch * conv_divide_up(view->groups, BLOCK);
}

static int64_t overwrites(const rlx_kernel_args *args) {
    conv_view view = conv_view_of(args);
    return may_overwrite(&view) ? planes(&view) : 0;
}

const rlx_cpu_preparation VEC_SYMBOL(conv_depthwise_preparation) = {
    .run = run, .size = sizeof(depthwise_work), .make = make_work, .overwrites = overwrites};

static int64_t items(const rlx_kernel_args *args) {
    conv_view view = conv_view_of(args);
    depthwise_plan plan = plan_of(&view);
    return planes(&view) * plane_items(&plan);
}

/* In steps of a vector. */
static int64_t item_cost(const rlx_kernel_args *args) {
    conv_view view = conv_view_of(args);
    depthwise_plan plan = plan_of(&view);
    int64_t items = plane_items(&plan);
    int64_t rows = items == 0 ? 0 : conv_divide_up(view.h.out, items);
    return rlx_ref_cost(rows * view.w.out * (BLOCK / VF), view.h.kernel * view.w.kernel);
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    conv_view view = conv_view_of(args);
    if (!may_join(&view)) return 0;
    return (uint64_t)((HAS_TWOS ? 1 : ROOM_ROWS) * view.w.in * BLOCK) * sizeof(float) + ROOM_APART;
}

static bool takes(const rlx_target_query *query) {
    const rlx_tensor *w = &query->in[1];
    const rlx_conv_attrs *attrs = query->attrs;
    uint32_t spatial = w->rank - 2;
    if (spatial > 2 || attrs->channel_block != BLOCK || w->dtype != RLX_DTYPE_F32) return false;
    if (w->layout != (BLOCK == 8 ? RLX_LAYOUT_DEPTHWISE8 : RLX_LAYOUT_DEPTHWISE16)) return false;
    if (attrs->groups != w->dims[0] || w->dims[1] != 1) return false;
    if (query->in[0].rank == w->rank || !conv_is_blocked(&query->in[0], spatial)) return false;
    if (query->in_count > 2 && query->in[2].data != NULL && query->in[2].dtype != RLX_DTYPE_F32) {
        return false;
    }
    if (query->in_count > 3 && !conv_is_blocked(&query->in[3], spatial)) return false;
    return conv_is_blocked(&query->out[0], spatial);
}

const rlx_cpu_override VEC_SYMBOL(conv_depthwise)[] = {
    {RLX_OP_CONV, 0, takes, {VEC_NAME("conv_depthwise"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
