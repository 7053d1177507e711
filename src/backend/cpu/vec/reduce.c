/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of f32, f16 and bf16. The axes of x, merged, are kept or reduced; the innermost lies
 * side by side. Where it is reduced an item is one result, summed along its runs; where it is kept
 * an item is a strip of results, summed row by row. Sums and products are taken in f64, in lanes
 * that are joined in a fixed order; maxima and minima in f32, NaN wins. The loops are those of f32;
 * elements of 16 bits are converted a piece at a time, in the first cache. */
#include "backend/cpu/vec/convert.h"
#include "backend/cpu/vec/rows.h"
#include "backend/cpu/vec/vec_double.h"
#include "backend/cpu/vec/vec_math.h"

#include <math.h>

enum {
    STRIP = 32 * VF,     /* at most: rows up to that are read one after the other */
    PART = STRIP / 2,    /* of longer rows, so that threads have something to share */
    ROWS = 8,            /* of a strip in one step */
    ROOM = ROWS * STRIP, /* elements that are converted at a time */
    VD = VF / 2
};

/* VF elements as f64. By halves from memory: a half of a register has to be moved first. */
VEC_INLINE void widen(const float *x, vd_half *low, vd_half *high) {
#if defined(__AVX2__) && RLX_VEC_BYTES == 32
    *low = (vd_half)_mm256_cvtps_pd(_mm_loadu_ps(x));
    *high = (vd_half)_mm256_cvtps_pd(_mm_loadu_ps(x + VD));
#else
    vd both = vd_of(vf_load(x));
    *low = both.low, *high = both.high;
#endif
}

typedef struct reduction {
    const rlx_tensor *x, *y;
    rlx_op op;
    vec_index kept, results, reduced; /* of x, of y, of x */
    int64_t count, length;            /* runs, and the elements of one: what a result stands for */
    int64_t stride;                   /* from one element of a run to the next */
    int64_t outputs, inner, strip;    /* all; side by side; and at a time (strips) */
    int64_t terms;                    /* of a result */
    int64_t fold, tail;               /* rows that are one, and those that are left then */
    bool has_rows, has_strips;
} reduction;

static uint32_t reduced_axes(const rlx_reduce_attrs *attrs, uint32_t rank) {
    uint32_t bits = 0;
    if (attrs->axes.count == 0) return (1u << rank) - 1;
    for (uint32_t i = 0; i < attrs->axes.count; i++)
        bits |= 1u << vec_axis(attrs->axes.items[i], rank);
    return bits;
}

/* A kept dim, merged where it merges in x and in y. */
static void push_kept(reduction *red, int64_t dim, int64_t x_stride, int64_t y_stride) {
    vec_index *kept = &red->kept, *results = &red->results;
    uint32_t last = kept->rank - 1;
    if (dim == 1) return;
    if (kept->rank > 0 && kept->strides[last] == dim * x_stride &&
        results->strides[last] == dim * y_stride) {
        kept->dims[last] *= dim, results->dims[last] *= dim;
        kept->strides[last] = x_stride, results->strides[last] = y_stride;
        return;
    }
    kept->dims[kept->rank] = results->dims[kept->rank] = dim;
    kept->strides[kept->rank++] = x_stride;
    results->strides[results->rank++] = y_stride;
}

/* The last dim of an index leaves it. */
static int64_t take_last(vec_index *index, int64_t *out_stride) {
    if (index->rank == 0) {
        *out_stride = 1;
        return 1;
    }
    *out_stride = index->strides[--index->rank];
    return index->dims[index->rank];
}

VEC_INLINE bool is_extreme(rlx_op op) {
    return op == RLX_OP_REDUCE_MAX || op == RLX_OP_REDUCE_MIN;
}

/* Few results side by side, and many rows of them without holes: VF rows are one, and their sums
 * are joined in the end. Extremes are not: of equals the first would be another. */
static void fold_rows(reduction *red) {
    if (red->inner < 1 || red->inner >= VF || red->stride != red->inner || red->count != 1 ||
        red->length < 4 * VF || is_extreme(red->op))
        return;
    red->has_strips = true;
    red->fold = VF;
    red->tail = red->length % VF;
    red->length /= VF;
    red->stride *= VF;
    red->inner *= VF;
}

static reduction reduction_of(const rlx_kernel_args *args) {
    const rlx_reduce_attrs *attrs = args->attrs;
    reduction red = {.x = &args->in[0], .y = &args->out[0], .op = args->op};
    uint32_t rank = red.x->rank, bits = reduced_axes(attrs, rank), y_axis = 0;
    int64_t elements = 1, y_stride = 1, x_stride;
    red.outputs = red.fold = 1;
    for (uint32_t i = 0; i < rank; i++) {
        bool is_reduced = bits >> i & 1;
        if (is_reduced) {
            vec_index_push(&red.reduced, red.x->dims[i], red.x->strides[i]);
            elements *= red.x->dims[i];
        } else {
            push_kept(&red, red.x->dims[i], red.x->strides[i], red.y->strides[y_axis]);
            red.outputs *= red.x->dims[i];
        }
        if (!is_reduced || attrs->keep_dims) y_axis++;
    }
    red.terms = elements;
    red.length = take_last(&red.reduced, &red.stride);
    red.count = red.length == 0 ? 0 : elements / red.length;
    red.has_rows = red.stride == 1;
    if (red.has_rows || red.kept.rank == 0) return red;
    /* Results side by side: the last kept dims of x and y agree and have no gaps. */
    vec_index kept = red.kept, results = red.results;
    red.inner = take_last(&kept, &x_stride);
    (void)take_last(&results, &y_stride);
    red.has_strips = x_stride == 1 && y_stride == 1 && red.inner >= VF;
    if (x_stride == 1 && y_stride == 1) fold_rows(&red);
    red.strip = red.inner <= STRIP ? red.inner : PART;
    if (!red.has_strips) return red;
    red.kept = kept;
    red.results = results;
    return red;
}

/* Joins x to the extreme so far: NaN wins, and of equals the first stays. */
VEC_INLINE vf join_extreme(rlx_op op, vf best, vf x) {
    vi better = op == RLX_OP_REDUCE_MAX ? x > best : x < best;
    return vf_select((better | (x != x)) & (best == best), x, best);
}

/* What is summed: the element, its magnitude, or its square in f64. */
VEC_INLINE vd_half join_sum(rlx_op op, vd_half sum, vd_half x) {
    if (op == RLX_OP_REDUCE_PROD) return sum * x;
    if (op == RLX_OP_REDUCE_L2 || op == RLX_OP_REDUCE_SUM_SQUARE) return sum + x * x;
    if (op == RLX_OP_REDUCE_L1) return sum + (vd_half)((vl_half)x & INT64_MAX);
    return sum + x;
}

static __attribute__((noinline)) double finish(const reduction *red, double sum) {
    switch (red->op) {
    case RLX_OP_REDUCE_MEAN:
        return sum / (double)red->terms;
    case RLX_OP_REDUCE_L2:
        return sqrt(sum);
    case RLX_OP_REDUCE_LOG_SUM:
        return log(sum);
    default:
        return sum;
    }
}

/* n elements side by side as f32: those in memory, or in `room` (at most ROOM). */
static const float *elements(const reduction *red, int64_t offset, int64_t n, float *room) {
    if (red->x->dtype == RLX_DTYPE_F32) return (const float *)red->x->data + offset;
    vec_read_f32(red->x, offset, 1, n, room);
    return room;
}

/* Elements of a run that are taken at a time. */
static int64_t piece_of(const reduction *red) {
    return red->x->dtype == RLX_DTYPE_F32 ? red->length : ROOM;
}

/* The terms of VF elements; `most` is that of all, for log_sum_exp. */
VEC_INLINE void terms(rlx_op op, const float *x, float most, vd_half *low, vd_half *high) {
    if (op != RLX_OP_REDUCE_LOG_SUM_EXP) {
        widen(x, low, high);
        return;
    }
    vd both = vd_of(vf_exp(vf_load(x) - most));
    *low = both.low, *high = both.high;
}

/* What changes no sum. */
VEC_INLINE float nothing(rlx_op op) {
    return op == RLX_OP_REDUCE_PROD ? 1 : op == RLX_OP_REDUCE_LOG_SUM_EXP ? -INFINITY : 0;
}

/* VF elements, or fewer and nothing behind them. */
VEC_INLINE const float *padded(rlx_op op, const float *x, int64_t left, float *room) {
    if (left >= VF) return x;
    vf some = vf_load_n(x, left);
    vf_store(room, nothing(op) == 0 ? some : vec_lanes_or(some, left, nothing(op)));
    return room;
}

/* Sums of a piece, joined to four vectors. */
VEC_INLINE void sum_piece(rlx_op op, const float *x, int64_t n, float most, vd_half sums[4]) {
    vd_half a = sums[0], b = sums[1], c = sums[2], d = sums[3], low, high;
    float room[VF];
    int64_t i = 0;
    for (; i + 2 * VF <= n; i += 2 * VF) {
        terms(op, x + i, most, &low, &high);
        a = join_sum(op, a, low), b = join_sum(op, b, high);
        terms(op, x + i + VF, most, &low, &high);
        c = join_sum(op, c, low), d = join_sum(op, d, high);
    }
    for (; i < n; i += VF) {
        terms(op, padded(op, x + i, n - i, room), most, &low, &high);
        a = join_sum(op, a, low), b = join_sum(op, b, high);
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
}

/* All lanes of four vectors, in a fixed order. */
VEC_INLINE double sum_lanes(rlx_op op, const vd_half sums[4]) {
    bool is_product = op == RLX_OP_REDUCE_PROD;
    vd_half all = is_product ? (sums[0] * sums[1]) * (sums[2] * sums[3])
                             : (sums[0] + sums[1]) + (sums[2] + sums[3]);
    double result[2] = {all[0], all[1]};
    for (int i = 2; i < VD; i++)
        result[i % 2] = is_product ? result[i % 2] * all[i] : result[i % 2] + all[i];
    return is_product ? result[0] * result[1] : result[0] + result[1];
}

VEC_INLINE double sum_all(rlx_op op, const reduction *red, int64_t base, float most, float *room) {
    bool is_product = op == RLX_OP_REDUCE_PROD;
    vd_half none = (vd_half){0} + (is_product ? 1.0 : 0.0), sums[4] = {none, none, none, none};
    int64_t piece = piece_of(red);
    for (int64_t run = 0; run < red->count; run++) {
        int64_t offset = base + vec_index_at(&red->reduced, run);
        for (int64_t i = 0; i < red->length; i += piece) {
            int64_t n = rlx_ref_least(piece, red->length - i);
            sum_piece(op, elements(red, offset + i, n, room), n, most, sums);
        }
    }
    return sum_lanes(op, sums);
}

VEC_INLINE void extreme_piece(rlx_op op, const float *x, int64_t n, float none, vf best[4]) {
    int64_t i = 0;
    for (; i + 4 * VF <= n; i += 4 * VF) {
        VEC_UNROLLED for (int k = 0; k < 4; k++) best[k] =
            join_extreme(op, best[k], vf_load(x + i + k * VF));
    }
    for (; i < n; i += VF) {
        int64_t some = rlx_ref_least(VF, n - i);
        best[0] = join_extreme(op, best[0], vec_lanes_or(vf_load_n(x + i, some), some, none));
    }
}

VEC_INLINE float extreme_all(rlx_op op, const reduction *red, int64_t base, float *room) {
    float none = op == RLX_OP_REDUCE_MAX ? -INFINITY : INFINITY;
    vf best[4] = {vf_set(none), vf_set(none), vf_set(none), vf_set(none)};
    int64_t piece = piece_of(red);
    for (int64_t run = 0; run < red->count; run++) {
        int64_t offset = base + vec_index_at(&red->reduced, run);
        for (int64_t i = 0; i < red->length; i += piece) {
            int64_t n = rlx_ref_least(piece, red->length - i);
            extreme_piece(op, elements(red, offset + i, n, room), n, none, best);
        }
    }
    vf all =
        join_extreme(op, join_extreme(op, best[0], best[1]), join_extreme(op, best[2], best[3]));
    if (vi_all(all == all)) return op == RLX_OP_REDUCE_MAX ? vf_highest(all) : vf_lowest(all);
    int i = 0;
    while (all[i] == all[i])
        i++;
    return all[i];
}

/* The first of the zeros, since -0 and +0 are equal. */
static float first_zero(const reduction *red, int64_t base) {
    for (int64_t run = 0; run < red->count; run++) {
        int64_t offset = base + vec_index_at(&red->reduced, run);
        for (int64_t i = 0; i < red->length; i++) {
            float x;
            rlx_ref_read_f32(red->x, offset + i * red->stride, 1, 1, &x);
            if (x == 0) return x;
        }
    }
    return 0;
}

/* Rows that a vector would not fill: element by element, in order. */
static bool is_short(const reduction *red) {
    return red->count == 1 && red->length > 0 && red->length <= VF &&
           red->op != RLX_OP_REDUCE_LOG_SUM_EXP && red->x->dtype == RLX_DTYPE_F32;
}
VEC_INLINE float short_extreme(rlx_op op, const float *x, int64_t n) {
    float best = x[0];
    for (int64_t i = 1; i < n; i++) {
        bool is_better = op == RLX_OP_REDUCE_MAX ? x[i] > best : x[i] < best;
        bool is_next = (best == best) & (is_better | (x[i] != x[i]));
        best = is_next ? x[i] : best; /* no branch: it would be guessed */
    }
    return best;
}
VEC_INLINE double short_sum(rlx_op op, const float *x, int64_t n) {
    double sum = op == RLX_OP_REDUCE_PROD ? 1 : 0;
    for (int64_t i = 0; i < n; i++) {
        double value = x[i];
        if (op == RLX_OP_REDUCE_PROD) {
            sum *= value;
        } else if (op == RLX_OP_REDUCE_L2) {
            sum += value * value;
        } else {
            sum += op == RLX_OP_REDUCE_L1 ? fabs(value) : value;
        }
    }
    return sum;
}
VEC_INLINE void run_short(rlx_op op, const reduction *red, int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; item++) {
        const float *x = (const float *)red->x->data + vec_index_at(&red->kept, item);
        float *y = (float *)red->y->data + vec_index_at(&red->results, item);
        *y = is_extreme(op) ? short_extreme(op, x, red->length)
                            : (float)finish(red, short_sum(op, x, red->length));
    }
}

/* Sums and means of rows of f32 that are one run each: nothing is asked beside the row. */
static bool is_single(const reduction *red) {
    return red->count == 1 && red->x->dtype == RLX_DTYPE_F32 && red->kept.rank <= 1;
}
static void run_single(const reduction *red, int64_t begin, int64_t end) {
    const int64_t step = red->kept.rank == 0 ? 0 : red->kept.strides[0];
    const int64_t y_step = red->kept.rank == 0 ? 0 : red->results.strides[0];
    for (int64_t item = begin; item < end; item++) {
        vd_half sums[4] = {{0}, {0}, {0}, {0}};
        sum_piece(RLX_OP_REDUCE_SUM, (const float *)red->x->data + item * step, red->length, 0,
                  sums);
        ((float *)red->y->data)[item * y_step] =
            (float)finish(red, sum_lanes(RLX_OP_REDUCE_SUM, sums));
    }
}

VEC_INLINE void run_rows(rlx_op op, const reduction *red, int64_t begin, int64_t end) {
    float room[ROOM];
    if (op != RLX_OP_REDUCE_LOG_SUM_EXP && is_short(red)) {
        run_short(op, red, begin, end);
        return;
    }
    if (op == RLX_OP_REDUCE_SUM && is_single(red)) {
        run_single(red, begin, end);
        return;
    }
    for (int64_t item = begin; item < end; item++) {
        int64_t base = vec_index_at(&red->kept, item), out = vec_index_at(&red->results, item);
        double value;
        if (is_extreme(op)) {
            value = extreme_all(op, red, base, room);
            if (value == 0) value = first_zero(red, base);
        } else if (op == RLX_OP_REDUCE_LOG_SUM_EXP) {
            float most = extreme_all(RLX_OP_REDUCE_MAX, red, base, room);
            value = most;
            if (isfinite(most)) value += log(sum_all(op, red, base, most, room));
        } else {
            value = finish(red, sum_all(op, red, base, 0, room));
        }
        if (red->y->dtype == RLX_DTYPE_F32) {
            ((float *)red->y->data)[out] = (float)value; /* no call */
        } else {
            rlx_ref_write_f64(red->y, out, 1, 1, &value);
        }
    }
}

/* ROWS rows of a strip; those of 16 bits side by side in the room. Rows that are far apart are
 * asked for before their turn. */
enum { ROWS_AHEAD = 8, FAR = 2048 };
static const float *some_rows(const reduction *red, int64_t offset, int64_t width, float *room,
                              int64_t *out_step) {
    int64_t bytes = vec_bytes(red->x->dtype), step = red->stride * bytes;
    const char *x = vec_at(red->x, bytes, offset);
    for (int64_t line = 0; step > FAR && line < width * bytes; line += 64) {
        for (int r = 0; r < ROWS; r++)
            __builtin_prefetch(x + (ROWS_AHEAD + r) * step + line);
    }
    *out_step = red->stride;
    if (red->x->dtype == RLX_DTYPE_F32) return (const float *)red->x->data + offset;
    *out_step = width;
    if (red->stride == width) return elements(red, offset, ROWS * width, room);
    for (int r = 0; r < ROWS; r++)
        vec_read_f32(red->x, offset + r * red->stride, 1, width, room + r * width);
    return room;
}

/* Vectors from `first` on of some rows, for every op: ends of strips and the last rows. */
static void join_some(rlx_op op, const float *x, int64_t step, int64_t rows, int64_t first,
                      int64_t width, vd_half sums[2 * STRIP / VF]) {
    float tail[VF];
    vd_half low, high;
    for (int64_t r = 0; r < rows; r++, x += step) {
        for (int64_t k = first; k * VF < width; k++) {
            widen(padded(op, x + k * VF, width - k * VF, tail), &low, &high);
            sums[2 * k] = join_sum(op, sums[2 * k], low);
            sums[2 * k + 1] = join_sum(op, sums[2 * k + 1], high);
        }
    }
}

/* One after the other to sums that are loaded and stored once. */
VEC_INLINE void strip_rows(rlx_op op, const float *x, int64_t step, int64_t width,
                           vd_half sums[2 * STRIP / VF]) {
    vd_half low, high;
    for (int64_t k = 0; k < width / VF; k++) {
        vd_half a = sums[2 * k], b = sums[2 * k + 1];
        VEC_UNROLLED for (int r = 0; r < ROWS; r++) {
            widen(x + r * step + k * VF, &low, &high);
            a = join_sum(op, a, low), b = join_sum(op, b, high);
        }
        sums[2 * k] = a, sums[2 * k + 1] = b;
    }
    if (width % VF != 0) join_some(op, x, step, ROWS, width / VF, width, sums);
}

VEC_INLINE vf part_of_row(const float *x, int k, int64_t width) {
    int64_t left = width - k * VF;
    return left >= VF ? vf_load(x + k * VF) : vf_load_n(x + k * VF, left);
}

/* One strip: `width` results side by side, at most STRIP. Lanes beyond the width are not used. */
VEC_INLINE void strip_sums(rlx_op op, const reduction *red, int64_t base, int64_t width,
                           vd_half sums[2 * STRIP / VF]) {
    vd_half none = (vd_half){0} + (double)nothing(op);
    float room[ROOM];
    for (int k = 0; k < 2 * STRIP / VF; k++)
        sums[k] = none;
    for (int64_t run = 0; run < red->count; run++) {
        int64_t offset = base + vec_index_at(&red->reduced, run), i = 0, step;
        for (; i + ROWS <= red->length; i += ROWS) {
            const float *x = some_rows(red, offset + i * red->stride, width, room, &step);
            strip_rows(op, x, step, width, sums);
        }
        for (; i < red->length; i++) {
            const float *x = elements(red, offset + i * red->stride, width, room);
            join_some(op, x, 0, 1, 0, width, sums);
        }
    }
}

VEC_INLINE void strip_extremes(rlx_op op, const reduction *red, int64_t base, int64_t width,
                               vf best[STRIP / VF]) {
    int vectors = (int)rlx_ref_divide_up(width, VF);
    float room[STRIP];
    for (int k = 0; k < STRIP / VF; k++)
        best[k] = vf_set(op == RLX_OP_REDUCE_MAX ? -INFINITY : INFINITY);
    for (int64_t run = 0; run < red->count; run++) {
        int64_t offset = base + vec_index_at(&red->reduced, run);
        for (int64_t i = 0; i < red->length; i++) {
            const float *x = elements(red, offset + i * red->stride, width, room);
            for (int k = 0; k < vectors; k++)
                best[k] = join_extreme(op, best[k], part_of_row(x, k, width));
        }
    }
}

/* Sums of rows that were one, and of those that are left. */
static void unfold(const reduction *red, int64_t base, const vd_half *sums, double *values) {
    const int64_t inner = red->inner / red->fold;
    float room[VF * VF];
    const float *rest = elements(red, base + red->length * red->stride, red->tail * inner, room);
    for (int64_t i = 0; i < red->inner + red->tail * inner; i++) {
        bool is_sum = i < red->inner;
        double x = is_sum ? sums[i / VD][i % VD] : (double)rest[i - red->inner];
        double *to = &values[i % inner];
        if (!is_sum && red->op == RLX_OP_REDUCE_L1) x = fabs(x);
        if (!is_sum && (red->op == RLX_OP_REDUCE_L2 || red->op == RLX_OP_REDUCE_SUM_SQUARE)) x *= x;
        *to = i < inner ? x : red->op == RLX_OP_REDUCE_PROD ? *to * x : *to + x;
    }
    for (int64_t i = 0; i < inner; i++)
        values[i] = finish(red, values[i]);
}

/* Vector k of a strip's results, all of them f32. */
static void store_part(const reduction *red, int64_t out, int64_t k, int64_t width, vf x) {
    float *to = (float *)red->y->data + out + k * VF;
    vf_store_n(to, x, rlx_ref_least(VF, width - k * VF));
}

static void store_extremes(const reduction *red, int64_t out, int64_t width, const vf *best) {
    double values[STRIP];
    bool is_f32 = red->y->dtype == RLX_DTYPE_F32;
    for (int64_t k = 0; is_f32 && k * VF < width; k++)
        store_part(red, out, k, width, best[k]);
    if (is_f32) return;
    for (int64_t i = 0; i < width; i++)
        values[i] = best[i / VF][i % VF];
    rlx_ref_write_f64(red->y, out, 1, width, values);
}

static void store_sums(const reduction *red, int64_t base, int64_t out, int64_t width,
                       const vd_half *sums) {
    double values[STRIP];
    bool is_mean = red->op == RLX_OP_REDUCE_MEAN,
         needs_one_by_one = red->op == RLX_OP_REDUCE_L2 || red->op == RLX_OP_REDUCE_LOG_SUM;
    if (red->fold > 1) {
        unfold(red, base, sums, values);
    } else if (red->y->dtype == RLX_DTYPE_F32 && !needs_one_by_one) {
        vd_half terms = vd_set((double)red->terms);
        for (int64_t k = 0; k * VF < width; k++) {
            vd x = {sums[2 * k], sums[2 * k + 1]};
            if (is_mean) x = (vd){x.low / terms, x.high / terms};
            store_part(red, out, k, width, vf_of_vd(x));
        }
        return;
    } else {
        for (int64_t i = 0; i < width; i++)
            values[i] = finish(red, sums[i / VD][i % VD]);
    }
    rlx_ref_write_f64(red->y, out, 1, width / red->fold, values);
}

VEC_INLINE void do_strip(rlx_op op, const reduction *red, int64_t base, int64_t out,
                         int64_t width) {
    if (is_extreme(op)) {
        vf best[STRIP / VF];
        strip_extremes(op, red, base, width, best);
        store_extremes(red, out, width, best);
        return;
    }
    vd_half sums[2 * STRIP / VF];
    strip_sums(op, red, base, width, sums);
    store_sums(red, base, out, width, sums);
}

VEC_INLINE void run_strips(rlx_op op, const reduction *red, int64_t begin, int64_t end) {
    int64_t strips = rlx_ref_divide_up(red->inner, red->strip);
    for (int64_t item = begin; item < end; item++) {
        int64_t outer = item / strips, first = item % strips * red->strip;
        int64_t base = vec_index_at(&red->kept, outer) + first;
        int64_t out = vec_index_at(&red->results, outer) + first;
        int64_t width = rlx_ref_least(red->strip, red->inner - first);
        do_strip(op, red, base, out, width);
    }
}

/* Loops of their own for the ops whose terms differ; mean and log_sum are sums until the end. */
static void run_op(const reduction *red, int64_t begin, int64_t end) {
#define RUN(op) (red->has_rows ? run_rows(op, red, begin, end) : run_strips(op, red, begin, end))
    switch (red->op) {
    case RLX_OP_REDUCE_MAX:
        RUN(RLX_OP_REDUCE_MAX);
        break;
    case RLX_OP_REDUCE_MIN:
        RUN(RLX_OP_REDUCE_MIN);
        break;
    case RLX_OP_REDUCE_PROD:
    case RLX_OP_REDUCE_L1:
        RUN(red->op); /* seldom: one set of loops that ask */
        break;
    case RLX_OP_REDUCE_L2:
    case RLX_OP_REDUCE_SUM_SQUARE:
        RUN(RLX_OP_REDUCE_L2);
        break;
    case RLX_OP_REDUCE_LOG_SUM_EXP:
        run_rows(RLX_OP_REDUCE_LOG_SUM_EXP, red, begin, end);
        break;
    default:
        RUN(RLX_OP_REDUCE_SUM);
        break;
    }
#undef RUN
}

static bool fits(const reduction *red) {
    bool has_strips = red->has_strips && red->op != RLX_OP_REDUCE_LOG_SUM_EXP;
    return vec_is_float(red->x->dtype) && (red->has_rows || has_strips);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    reduction red = reduction_of(args);
    if (!fits(&red)) {
        vec_scalar_run(args, begin, end);
        return;
    }
    run_op(&red, begin, end);
}

static int64_t items(const rlx_kernel_args *args) {
    reduction red = reduction_of(args);
    if (red.has_rows || !fits(&red)) return vec_scalar_items(args);
    return red.outputs / (red.inner / red.fold) * rlx_ref_divide_up(red.inner, red.strip);
}

static int64_t item_cost(const rlx_kernel_args *args) {
    reduction red = reduction_of(args);
    int64_t wide = red.has_strips ? red.strip : 1;
    return rlx_ref_cost(rlx_ref_cost(red.count, red.length), wide);
}

static bool takes(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    reduction red = reduction_of(&args);
    return fits(&red);
}

#define ROW(upper, lower) \
    {RLX_OP_REDUCE_##upper, 0, takes, {VEC_NAME("reduce_" #lower), run, items, item_cost, NULL}},
/* clang-format off */
const rlx_cpu_override VEC_SYMBOL(reduce)[] = {
    ROW(SUM, sum)
    ROW(MEAN, mean)
    ROW(MAX, max)
    ROW(MIN, min)
    ROW(PROD, prod)
    ROW(L1, l1)
    ROW(L2, l2)
    ROW(LOG_SUM, log_sum)
    ROW(LOG_SUM_EXP, log_sum_exp)
    ROW(SUM_SQUARE, sum_square)
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
/* clang-format on */
