/* SPDX-License-Identifier: Apache-2.0 */
/* max_pool and average_pool over 1 to 3 spatial axes. One item is one row of outputs of a channel.
 * A window that covers nothing but padding gives the least value and index -1, or the average 0.
 * Channels may lie in blocks, [N][C / b][spatial..][b]. */
#include "ir/window.h"
#include "ref/kernel.h"
#include "ref/order.h"

enum { X = RLX_MAX_SPATIAL - 1, CHUNK = 64 };

/* Spatial axes are always 3; missing ones in front are 1 wide. */
typedef struct pool {
    const rlx_tensor *x, *y, *indices; /* indices: NULL when nobody wants them */
    rlx_window axes[RLX_MAX_SPATIAL];
    int64_t x_strides[RLX_MAX_SPATIAL];
    bool is_max, counts_pad, is_blocked;
    int64_t block; /* channels per position, side by side: 1, or those of a block */
} pool;

/* The taps of a window that meet inputs, per axis, and where the first lies. */
typedef struct window_cover {
    int64_t first[RLX_MAX_SPATIAL]; /* input index of the first tap that meets one */
    int64_t count[RLX_MAX_SPATIAL];
    int64_t padded[RLX_MAX_SPATIAL]; /* taps that lie in the input or its declared padding */
} window_cover;

static pool make_pool(const rlx_kernel_args *args) {
    const rlx_pool_attrs *attrs = args->attrs;
    pool pl = {.x = &args->in[0],
               .y = &args->out[0],
               .is_max = args->op == RLX_OP_MAX_POOL,
               .counts_pad = attrs->count_include_pad,
               .is_blocked = attrs->is_blocked};
    if (args->out_count > 1 && args->out[1].data != NULL) pl.indices = &args->out[1];
    uint32_t count = pl.x->rank - (attrs->is_blocked ? 3 : 2), missing = RLX_MAX_SPATIAL - count;
    rlx_windows windows = {0};
    pl.block = attrs->is_blocked ? pl.x->dims[pl.x->rank - 1] : 1;
    rlx_status status = rlx_windows_pool(attrs, count, pl.x->dims + 2, &windows);
    RLX_ASSERT(status == RLX_OK); /* the shape rule asked the same */
    (void)status;
    for (uint32_t i = 0; i < RLX_MAX_SPATIAL; i++) {
        bool is_real = i >= missing;
        pl.axes[i] = is_real
                         ? windows.axes[i - missing]
                         : (rlx_window){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
        pl.x_strides[i] = is_real ? pl.x->strides[2 + i - missing] : 0;
    }
    return pl;
}

/* Division that knows the common divisor. */
static int64_t divide(int64_t a, int64_t b) {
    return b == 1 ? a : a / b;
}

/* How many of the taps start, start + dilation, ... lie in [0, limit) from `*first` on. */
static int64_t taps_within(const rlx_window *window, int64_t start, int64_t limit, int64_t *first) {
    int64_t skipped = start < 0 ? divide(-start + window->dilation - 1, window->dilation) : 0;
    *first = start + skipped * window->dilation;
    if (skipped >= window->kernel || *first >= limit) return 0;
    return rlx_ref_least(window->kernel - skipped,
                         divide(limit - 1 - *first, window->dilation) + 1);
}

static void cover_axis(const pool *pl, int axis, int64_t at, window_cover *cover) {
    const rlx_window *window = &pl->axes[axis];
    int64_t unused, start = at * window->stride;
    cover->count[axis] =
        taps_within(window, start - window->begin, window->in, &cover->first[axis]);
    if (!pl->counts_pad) return;
    cover->padded[axis] =
        taps_within(window, start, window->begin + window->in + window->end, &unused);
}

/* The sum along one row of taps. */
static double sum_row(const pool *pl, int64_t offset, int64_t count) {
    int64_t stride = pl->axes[X].dilation * pl->x_strides[X];
    double chunk[CHUNK], sum = 0;
    for (int64_t i = 0; i < count; i += CHUNK) {
        int64_t some = rlx_ref_least(CHUNK, count - i);
        rlx_ref_read_f64(pl->x, offset + i * stride, stride, some, chunk);
        for (int64_t j = 0; j < some; j++)
            sum += chunk[j];
    }
    return sum;
}

static double average(const pool *pl, int64_t base, const window_cover *cover) {
    int64_t taken = cover->count[0] * cover->count[1] * cover->count[X];
    double sum = 0;
    for (int64_t z = 0; z < cover->count[0]; z++) {
        int64_t iz = cover->first[0] + z * pl->axes[0].dilation;
        for (int64_t y = 0; y < cover->count[1]; y++) {
            int64_t iy = cover->first[1] + y * pl->axes[1].dilation;
            int64_t row = base + iz * pl->x_strides[0] + iy * pl->x_strides[1];
            sum += sum_row(pl, row + cover->first[X] * pl->x_strides[X], cover->count[X]);
        }
    }
    int64_t padded = cover->padded[0] * cover->padded[1] * cover->padded[X];
    int64_t count = pl->counts_pad ? padded : taken;
    return count == 0 ? 0 : sum / (double)count;
}

/* The best element so far. */
typedef struct largest {
    uint64_t key;
    int64_t index;  /* in the plane; -1: none */
    int64_t offset; /* in x */
} largest;

static void look_at_row(const pool *pl, int64_t row, int64_t row_index, const window_cover *cover,
                        largest *best) {
    int64_t step = pl->axes[X].dilation, stride = pl->x_strides[X];
    int64_t ix = cover->first[X], end = ix + cover->count[X] * step;
    for (; ix < end; ix += step) {
        uint64_t key = rlx_ref_key(pl->x, row + ix * stride, UINT64_MAX);
        if (best->index >= 0 && key <= best->key) continue;
        *best = (largest){key, row_index + ix, row + ix * stride};
    }
}

/* The first of the largest elements; NaN is largest. */
static largest find_largest(const pool *pl, int64_t base, const window_cover *cover) {
    largest best = {0, -1, 0};
    for (int64_t z = 0; z < cover->count[0]; z++) {
        int64_t iz = cover->first[0] + z * pl->axes[0].dilation;
        for (int64_t y = 0; y < cover->count[1]; y++) {
            int64_t iy = cover->first[1] + y * pl->axes[1].dilation;
            look_at_row(pl, base + iz * pl->x_strides[0] + iy * pl->x_strides[1],
                        (iz * pl->axes[1].in + iy) * pl->axes[X].in, cover, &best);
        }
    }
    return best;
}

/* One output: `plane` numbers (n, c), `base` is its offset in x, `out` the offset in y. */
static void pool_one(const pool *pl, int64_t plane, int64_t base, const window_cover *cover,
                     int64_t out, int64_t index_out) {
    if (!pl->is_max) {
        double value = average(pl, base, cover);
        rlx_ref_write_f64(pl->y, out, 1, 1, &value);
        return;
    }
    largest best = find_largest(pl, base, cover);
    if (best.index < 0) {
        rlx_ref_store_limit(pl->y, out, false);
    } else {
        rlx_ref_copy_element(pl->y, out, pl->x, best.offset);
        best.index += plane * pl->axes[0].in * pl->axes[1].in * pl->axes[X].in;
    }
    if (pl->indices != NULL) ((int64_t *)pl->indices->data)[index_out] = best.index;
}

/* One row of outputs, of one channel. */
static void pool_row(const pool *pl, int64_t plane, int64_t base, window_cover *cover, int64_t out,
                     int64_t index_out) {
    uint32_t axis = pl->y->rank - (pl->is_blocked ? 2 : 1);
    for (int64_t ox = 0; ox < pl->axes[X].out; ox++) {
        cover_axis(pl, X, ox, cover);
        pool_one(pl, plane, base, cover, out, index_out);
        out += pl->y->strides[axis];
        if (pl->indices != NULL) index_out += pl->indices->strides[axis];
    }
}

static void run_pool(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    pool pl = make_pool(args);
    const rlx_tensor *y = pl.y;
    uint32_t rows = y->rank - (pl.is_blocked ? 2 : 1); /* axes that number the rows */
    uint32_t lane_axis = y->rank - 1;
    for (int64_t item = begin; item < end; item++) {
        int64_t lane = item % pl.block, row = item / pl.block;
        int64_t oy = row % pl.axes[1].out, oz = row / pl.axes[1].out % pl.axes[0].out;
        int64_t plane = row / pl.axes[1].out / pl.axes[0].out;
        int64_t n = plane / y->dims[1], c = plane % y->dims[1];
        int64_t base = n * pl.x->strides[0] + c * pl.x->strides[1];
        int64_t out = rlx_ref_offset(rows, y->dims, y->strides, row), index_out = 0;
        window_cover cover = {0};
        if (pl.is_blocked)
            base += lane * pl.x->strides[lane_axis], out += lane * y->strides[lane_axis];
        if (pl.indices != NULL) index_out = rlx_ref_offset(rows, y->dims, pl.indices->strides, row);
        cover_axis(&pl, 0, oz, &cover);
        cover_axis(&pl, 1, oy, &cover);
        pool_row(&pl, plane, base, &cover, out, index_out);
    }
}

static int64_t pool_items(const rlx_kernel_args *args) {
    const rlx_pool_attrs *attrs = args->attrs;
    const rlx_tensor *y = &args->out[0];
    uint32_t row_axis = y->rank - (attrs->is_blocked ? 2 : 1);
    int64_t items = 1;
    for (uint32_t i = 0; i < y->rank; i++)
        items *= i == row_axis ? 1 : y->dims[i];
    return items;
}

static int64_t pool_item_cost(const rlx_kernel_args *args) {
    const rlx_pool_attrs *attrs = args->attrs;
    const rlx_tensor *y = &args->out[0];
    int64_t taps = 1;
    for (uint32_t i = 0; i < attrs->kernel.count && i < RLX_MAX_SPATIAL; i++)
        taps *= rlx_ref_least(attrs->kernel.items[i], args->in[0].dims[2 + i]);
    return rlx_ref_cost(y->dims[y->rank - (attrs->is_blocked ? 2 : 1)], taps * 4);
}

const rlx_ref_row rlx_ref_pool_rows[] = {
    {RLX_OP_MAX_POOL, {"max_pool_scalar", run_pool, pool_items, pool_item_cost, NULL}},
    {RLX_OP_AVERAGE_POOL, {"average_pool_scalar", run_pool, pool_items, pool_item_cost, NULL}},
};
const uint32_t rlx_ref_pool_count = 2;
