/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise conv of f32 with channels in blocks: x, y and residual are [N][C / BLOCK][H][W][BLOCK],
 * weights [C / BLOCK][taps][BLOCK]. Any kernel, stride, dilation and padding. An item is one row of
 * outputs of one block of channels, done in tiles of positions that keep their sums in registers.
 */
#include "backend/cpu/vec/conv_view.h"
#include "ref/access.h"

enum { TILE = 8 };

/* One tile: positions [column, column + count) of a row, one vector of channels. */
typedef struct depthwise_tile {
    const conv_view *view;
    const float *x;        /* the plane's first row that the window meets, lane of this vector */
    const float *w;        /* the tap of that row */
    const float *residual; /* of the tile's first position; NULL: none */
    float *y;
    vf bias;
    int64_t rows, column; /* kernel rows that meet the input; first position */
    int64_t row_stride;   /* between them */
} depthwise_tile;

/* clang-format off */
#define EACH_POSITION(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
/* clang-format on */

/* The end of `count` positions: residual and activation. */
static __attribute__((noinline)) void store_sums(const depthwise_tile *tile, const vf *sums,
                                                 int count) {
    const conv_view *view = tile->view;
    const rlx_activation activation = view->activation;
    const float *residual = tile->residual;
    float *y = tile->y;
    for (int p = 0; p < count; p++, y += view->y.column) {
        vf sum = sums[p];
        if (residual != NULL) sum += vf_load(residual + p * view->residual.column);
        vf_store(y, vf_activation(&activation, sum));
    }
}

/* Positions whose taps all lie in the input, so many that sums stay in registers. `step` is a
 * constant where it can be: addresses are then parts of the instructions. */
VEC_INLINE void run_tile(const depthwise_tile *tile, const int P, const int64_t step) {
    const conv_view *view = tile->view;
    const rlx_window *window = &view->w;
    int64_t dilation = window->dilation * view->x.column;
    vf s0 = tile->bias, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    const float *w = tile->w, *line = tile->x;
    line += (tile->column * window->stride - window->begin) * view->x.column;
    for (int64_t row = 0; row < tile->rows; row++, line += tile->row_stride) {
        const float *x = line;
        for (int64_t tap = 0; tap < window->kernel; tap++, x += dilation, w += BLOCK) {
            vf weight = vf_load(w);
#define ADD(p) \
    if (P > p) vf_add_product(&s##p, vf_load(x + p * step), weight);
            EACH_POSITION(ADD)
#undef ADD
        }
    }
    vf sums[TILE] = {s0, s1, s2, s3, s4, s5, s6, s7};
    store_sums(tile, sums, P);
}

/* One position, wherever its taps lie. */
static void run_edge(const depthwise_tile *tile) {
    const conv_view *view = tile->view;
    const rlx_window *window = &view->w;
    int64_t start = tile->column * window->stride - window->begin;
    const float *w = tile->w, *line = tile->x;
    vf sum = tile->bias;
    for (int64_t row = 0; row < tile->rows; row++, line += tile->row_stride) {
        int64_t at = start;
        for (int64_t tap = 0; tap < window->kernel; tap++, at += window->dilation, w += BLOCK) {
            if (at < 0 || at >= window->in) continue;
            vf_add_product(&sum, vf_load(line + at * view->x.column), vf_load(w));
        }
    }
    if (tile->residual != NULL) sum += vf_load(tile->residual);
    vf_store(tile->y, vf_activation(&view->activation, sum));
}

#define DEFINE(p)                                                           \
    static void dense_##p(const depthwise_tile *tile) {                     \
        run_tile(tile, p + 1, BLOCK);                                       \
    }                                                                       \
    static void tile_##p(const depthwise_tile *tile) {                      \
        run_tile(tile, p + 1, tile->view->w.stride * tile->view->x.column); \
    }
EACH_POSITION(DEFINE)
#undef DEFINE
#define DENSE(p) dense_##p,
#define ANY(p)   tile_##p,
static void (*const tiles[2][TILE])(const depthwise_tile *tile) = {{EACH_POSITION(ANY)},
                                                                   {EACH_POSITION(DENSE)}};
#undef DENSE
#undef ANY

/* Positions [*first, *end) have all their taps in the input. */
static void inner_range(const rlx_window *w, int64_t *first, int64_t *end) {
    int64_t reach = (w->kernel - 1) * w->dilation, last = w->in - 1 - reach + w->begin;
    *first = conv_least(w->out, w->begin > 0 ? conv_divide_up(w->begin, w->stride) : 0);
    *end = last < 0 ? 0 : conv_least(w->out, last / w->stride + 1);
    if (*end < *first) *end = *first;
}

/* The kernel rows that meet the input at output row `row`: from *first on, so many. */
static int64_t rows_met(const rlx_window *h, int64_t row, int64_t *first) {
    int64_t start = row * h->stride - h->begin;
    *first = start < 0 ? conv_least(h->kernel, conv_divide_up(-start, h->dilation)) : 0;
    if (start >= h->in) return 0;
    int64_t end = conv_least(h->kernel, (h->in - 1 - start) / h->dilation + 1);
    return end > *first ? end - *first : 0;
}

static vf lane_bias(const conv_view *view, int64_t channel) {
    vec_parts bias = {{0}};
    for (int64_t i = 0; view->bias != NULL && i < VF; i++) {
        if (channel + i < view->groups) bias.f[i] = view->bias[(channel + i) * view->bias_stride];
    }
    return bias.v;
}

/* One vector of channels, `lane` of its block, of one row. */
static void run_row(const conv_view *view, const float *weights, int64_t n, int64_t block,
                    int64_t row, int64_t lane) {
    int64_t first, rows = rows_met(&view->h, row, &first), width = view->w.out;
    int64_t input_row = row * view->h.stride - view->h.begin + first * view->h.dilation;
    int64_t inner, inner_end;
    bool is_dense = view->w.stride == 1 && view->x.column == BLOCK;
    depthwise_tile tile = {.view = view,
                           .rows = rows,
                           .row_stride = view->h.dilation * view->x.row,
                           .bias = lane_bias(view, block * BLOCK + lane)};
    float *y = view->y.data + n * view->y.n + block * view->y.block + row * view->y.row + lane;
    const float *residual = NULL;
    tile.x = view->x.data + n * view->x.n + block * view->x.block + lane;
    if (rows > 0) tile.x += input_row * view->x.row;
    tile.w = weights + (block * view->h.kernel + first) * view->w.kernel * BLOCK + lane;
    if (view->residual.data != NULL) {
        residual = view->residual.data + n * view->residual.n + block * view->residual.block +
                   row * view->residual.row + lane;
    }
    inner_range(&view->w, &inner, &inner_end);
    while (tile.column < width) {
        bool is_inner = tile.column >= inner && tile.column < inner_end;
        int64_t left = inner_end - tile.column;
        int64_t size = is_inner ? conv_divide_up(left, conv_divide_up(left, TILE)) : 1;
        tile.y = y + tile.column * view->y.column;
        if (residual != NULL) tile.residual = residual + tile.column * view->residual.column;
        if (is_inner) {
            tiles[is_dense][size - 1](&tile);
        } else {
            run_edge(&tile);
        }
        tile.column += size;
    }
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    conv_view view = conv_view_of(args);
    int64_t blocks = conv_divide_up(view.groups, BLOCK);
    for (int64_t item = begin; item < end; item++) {
        int64_t row = item % view.h.out, block = item / view.h.out % blocks;
        for (int64_t lane = 0; lane < BLOCK; lane += VF)
            run_row(&view, args->in[1].data, item / view.h.out / blocks, block, row, lane);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    conv_view view = conv_view_of(args);
    return view.batch * conv_divide_up(view.groups, BLOCK) * view.h.out;
}

/* In steps of a vector. */
static int64_t item_cost(const rlx_kernel_args *args) {
    conv_view view = conv_view_of(args);
    return rlx_ref_cost(view.w.out * (BLOCK / VF), view.h.kernel * view.w.kernel);
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
    {RLX_OP_CONV, 0, takes, {VEC_NAME("conv_depthwise"), run, items, item_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
