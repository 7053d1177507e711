/* SPDX-License-Identifier: Apache-2.0 */
/* max_pool and average_pool of f32 with channels in blocks, [N][C / BLOCK][H][W][BLOCK]. An item is
 * one row of outputs of one block of channels, done in tiles of positions whose windows lie in the
 * input, and one by one at the borders. */
#include "backend/cpu/vec/conv_view.h"
#include "ref/access.h"

#include <math.h>

typedef struct pool_view {
    conv_image x, y;
    rlx_window h, w;
    int64_t batch, blocks;
    bool is_max, counts_pad;
} pool_view;

static pool_view view_of(const rlx_kernel_args *args) {
    const rlx_pool_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    uint32_t spatial = attrs->kernel.count;
    rlx_windows windows = {0};
    pool_view view = {.x = conv_image_of(x, spatial),
                      .y = conv_image_of(y, spatial),
                      .batch = y->dims[0],
                      .blocks = y->dims[1],
                      .is_max = args->op == RLX_OP_MAX_POOL,
                      .counts_pad = attrs->count_include_pad};
    rlx_status status = rlx_windows_pool(attrs, spatial, x->dims + 2, &windows);
    RLX_ASSERT(status == RLX_OK); /* the shape rule asked the same */
    (void)status;
    conv_set_axes(&windows, &view.h, &view.w);
    return view;
}

/* The taps [*first, result) of a window at `at` that lie in [low, high) of the input's axis. */
static int64_t taps_in(const rlx_window *window, int64_t at, int64_t low, int64_t high,
                       int64_t *first) {
    int64_t start = at * window->stride - window->begin;
    *first = start < low ? conv_divide_up(low - start, window->dilation) : 0;
    if (start >= high) return *first;
    int64_t end = conv_least(window->kernel, (high - 1 - start) / window->dilation + 1);
    return end > *first ? end : *first;
}

/* NaN is largest, and stays. */
VEC_INLINE vf larger(vf most, vf x) {
    return vf_select((x > most) | (x != x), x, most);
}

static int64_t padded_taps(const rlx_window *window, int64_t at) {
    int64_t first, end = taps_in(window, at, -window->begin, window->in + window->end, &first);
    return end - first;
}

/* One position; `x` is the row of the window's first tap that counts. */
static vf pool_one(const pool_view *view, const float *x, int64_t rows, int64_t rows_padded,
                   int64_t column) {
    int64_t first, end = taps_in(&view->w, column, 0, view->w.in, &first);
    int64_t left = column * view->w.stride - view->w.begin,
            step = view->w.dilation * view->x.column;
    int64_t row_step = view->h.dilation * view->x.row;
    vf result = vf_set(view->is_max ? -INFINITY : 0.0f);
    for (int64_t row = 0; row < rows; row++, x += row_step) {
        const float *at = x + left * view->x.column + first * step;
        for (int64_t tap = first; tap < end; tap++, at += step)
            result = view->is_max ? larger(result, vf_load(at)) : result + vf_load(at);
    }
    if (view->is_max) return result;
    int64_t count =
        view->counts_pad ? rows_padded * padded_taps(&view->w, column) : rows * (end - first);
    return count == 0 ? vf_set(0.0f) : result / vf_set((float)count);
}

enum { TILE = 4 };

/* Positions [*first, *end) have all their taps in the input. */
static void inner_range(const rlx_window *w, int64_t *first, int64_t *end) {
    int64_t last = w->in - 1 - (w->kernel - 1) * w->dilation + w->begin;
    *first = conv_least(w->out, w->begin > 0 ? conv_divide_up(w->begin, w->stride) : 0);
    *end = last < 0 ? 0 : conv_least(w->out, last / w->stride + 1);
}

/* TILE positions from `column` on with all their taps; `x` as in pool_one. */
VEC_INLINE void pool_tile(const pool_view *view, const float *x, int64_t rows, int64_t column,
                          const bool is_max, vf *results) {
    int64_t position = view->w.stride * view->x.column, step = view->w.dilation * view->x.column;
    int64_t row_step = view->h.dilation * view->x.row;
    x += column * position - view->w.begin * view->x.column;
    VEC_UNROLLED for (int p = 0; p < TILE; p++) results[p] = vf_set(is_max ? -INFINITY : 0.0f);
    for (int64_t row = 0; row < rows; row++, x += row_step) {
        const float *at = x;
        for (int64_t tap = 0; tap < view->w.kernel; tap++, at += step) {
            VEC_UNROLLED for (int p = 0; p < TILE; p++) {
                vf value = vf_load(at + p * position);
                results[p] = is_max ? larger(results[p], value) : results[p] + value;
            }
        }
    }
}

static void run_tile(const pool_view *view, const float *x, int64_t rows, int64_t rows_padded,
                     int64_t column, float *y) {
    vf results[TILE], count = vf_set(1.0f);
    if (view->is_max) {
        pool_tile(view, x, rows, column, true, results);
    } else {
        pool_tile(view, x, rows, column, false, results);
        count = vf_set((float)((view->counts_pad ? rows_padded : rows) * view->w.kernel));
    }
    VEC_UNROLLED for (int p = 0; p < TILE; p++)
        vf_store(y + p * view->y.column, view->is_max ? results[p] : results[p] / count);
}

static void run_row(const pool_view *view, int64_t n, int64_t block, int64_t row, int64_t lane) {
    int64_t first, end = taps_in(&view->h, row, 0, view->h.in, &first), inner, inner_end;
    int64_t padded = view->counts_pad ? padded_taps(&view->h, row) : 0;
    const float *x = view->x.data + n * view->x.n + block * view->x.block + lane;
    float *y = view->y.data + n * view->y.n + block * view->y.block + row * view->y.row + lane;
    inner_range(&view->w, &inner, &inner_end);
    if (end > first) {
        x += (row * view->h.stride - view->h.begin + first * view->h.dilation) * view->x.row;
    } else {
        inner_end = 0; /* nothing to read */
    }
    for (int64_t column = 0; column < view->w.out;) {
        float *to = y + column * view->y.column;
        if (column >= inner && column + TILE <= inner_end) {
            run_tile(view, x, end - first, padded, column, to);
            column += TILE;
        } else {
            vf_store(to, pool_one(view, x, end - first, padded, column++));
        }
    }
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    pool_view view = view_of(args);
    for (int64_t item = begin; item < end; item++) {
        int64_t row = item % view.h.out, block = item / view.h.out % view.blocks;
        for (int64_t lane = 0; lane < BLOCK; lane += VF)
            run_row(&view, item / view.h.out / view.blocks, block, row, lane);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    pool_view view = view_of(args);
    return view.batch * view.blocks * view.h.out;
}

/* In steps of a vector. */
static int64_t item_cost(const rlx_kernel_args *args) {
    pool_view view = view_of(args);
    int64_t taps = conv_least(view.h.kernel, view.h.in) * conv_least(view.w.kernel, view.w.in);
    return rlx_ref_cost(view.w.out * (BLOCK / VF), 2 * taps);
}

static bool takes(const rlx_target_query *query) {
    const rlx_pool_attrs *attrs = query->attrs;
    uint32_t spatial = attrs->kernel.count;
    return attrs->is_blocked && (spatial == 1 || spatial == 2) &&
           conv_is_blocked(&query->in[0], spatial) && conv_is_blocked(&query->out[0], spatial);
}

const rlx_cpu_override VEC_SYMBOL(pool)[] = {
    {RLX_OP_MAX_POOL, 0, takes, {VEC_NAME("max_pool"), run, items, item_cost, NULL}},
    {RLX_OP_AVERAGE_POOL, 0, takes, {VEC_NAME("average_pool"), run, items, item_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
