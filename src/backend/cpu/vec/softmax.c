/* SPDX-License-Identifier: Apache-2.0 */
/* softmax and log_softmax of f32, f16 and bf16. Along the last axis an item is one row; along
 * another axis lines lie side by side and an item is a strip of them; axes between, in any order,
 * only say where strips begin. Exponentials are kept where they are read again: in a buffer, or in
 * the result itself. */
#include "backend/cpu/vec/rows.h"
#include "backend/cpu/vec/vec_exp.h"

#include <math.h>

enum {
    KEPT = 4096,
    KEPT_LOG = 1 << 16,
    STRIP = 4 * VF,
    WIDE_STRIP = 16 * VF,
    GROUP = 4,
    EXP_BIAS = 24
};

/* One copy, whoever calls it. */
#define OUTLINE static __attribute__((noinline))

/* e^x 2^24: the bias keeps subnormal results whole until they are divided by the sum. Below -104 it
 * is as good as nothing. */
VEC_INLINE exp_parts biased_begin(vf x) {
    return exp_begin(x, -104.0f, EXP_BIAS);
}
VEC_INLINE vf exp_biased(vf x) {
    exp_parts parts = biased_begin(x);
    return exp_end(parts.r, parts.scale);
}

/* The largest of 16-bit floats, as integers: of those that are not negative the one of the most
 * bits, else the one of the fewest. A NaN may count; it spoils the sum anyway. Returns how many of
 * the row it has seen, whole pairs of vectors. */
#if defined(__AVX2__) && RLX_VEC_BYTES == 32
VEC_INLINE int64_t most_of_halves(rlx_dtype dtype, const uint16_t *x, int64_t n, vf *most) {
    __m256i above = _mm256_set1_epi16(INT16_MIN), below = _mm256_set1_epi16(-1);
    int64_t i = 0;
    for (; i + 2 * VF <= n; i += 2 * VF) {
        __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
        above = _mm256_max_epi16(above, bits);
        below = _mm256_min_epu16(below, bits);
    }
    __m128i half = _mm_max_epi16(_mm256_castsi256_si128(above), _mm256_extracti128_si256(above, 1));
    vf first = vec_get(dtype, &half, 0);
    half = _mm_min_epu16(_mm256_castsi256_si128(below), _mm256_extracti128_si256(below, 1));
    *most = vf_max(first, vec_get(dtype, &half, 0));
    return i;
}
#else
VEC_INLINE int64_t most_of_halves(rlx_dtype dtype, const uint16_t *x, int64_t n, vf *most) {
    (void)dtype, (void)x, (void)n, (void)most;
    return 0;
}
#endif

/* The largest number of a row. NaN does not count in f32. */
VEC_INLINE float row_max(rlx_dtype dtype, const void *x, int64_t n) {
    vf a = vf_set(-INFINITY), b = a, c = a, d = a;
    int64_t i = 0;
    if (dtype != RLX_DTYPE_F32 && n >= 2 * VF) i = most_of_halves(dtype, x, n, &a);
    for (; i + 4 * VF <= n; i += 4 * VF) {
        a = vf_max(vec_get(dtype, x, i), a);
        b = vf_max(vec_get(dtype, x, i + VF), b);
        c = vf_max(vec_get(dtype, x, i + 2 * VF), c);
        d = vf_max(vec_get(dtype, x, i + 3 * VF), d);
    }
    for (; i + VF <= n; i += VF)
        a = vf_max(vec_get(dtype, x, i), a);
    if (i < n) b = vf_max(vec_lanes_or(vec_get_n(dtype, x, i, n - i), n - i, -INFINITY), b);
    return vf_highest(vf_max(vf_max(a, b), vf_max(c, d)));
}

/* GROUP vectors of exponentials from `at` on: begun, */
VEC_INLINE void begin_group(rlx_dtype dtype, const void *x, int64_t at, int64_t n, float most,
                            int k, exp_parts *part) {
    int64_t here = (at + k * VF) * vec_bytes(dtype);
    *part = biased_begin(vec_get(dtype, x, at + k * VF) - most);
    if (k * VF * vec_bytes(dtype) % 64 == 0)
        __builtin_prefetch((const char *)x + n * vec_bytes(dtype) + here); /* the next row */
}
/* and brought to their ends. */
VEC_INLINE vf end_group(float *kept, int64_t at, int k, const exp_parts *part) {
    vf e = exp_end(part->r, part->scale);
    if (kept != NULL) vf_store(kept + at + k * VF, e);
    return e;
}

/* A row whose sum is known, on its way past the caches: of its exponentials, or for log_softmax of
 * itself. */
typedef struct leaving {
    const float *kept;
    float *y;
    vf factor, most, log_sum; /* the last two of log_softmax */
    bool is_log;
} leaving;

VEC_INLINE vf left_over(leaving row, vf x) {
    return row.is_log ? x - row.most - row.log_sum : x * row.factor;
}
VEC_INLINE void let_leave(leaving row, int64_t at) {
    vf_stream(row.y + at, left_over(row, vf_load(row.kept + at)));
}

/* The sum of the exponentials of a row less `most`; `kept` NULL: they are not kept. Meanwhile
 * another row of n leaves (NULL: none): written all at once it would have to wait for memory. */
VEC_INLINE float row_exp(rlx_dtype dtype, const void *x, float *kept, int64_t n, float most,
                         const leaving *other) {
    vf sum = {0};
    leaving row = other != NULL ? *other : (leaving){0};
    exp_parts part[GROUP];
    int64_t i = 0;
    /* Instructions of one exponential wait for each other, and the processor looks only so far
     * ahead: while one group is brought to its end the next one begins. */
    if (n >= GROUP * VF) {
        VEC_UNROLLED for (int k = 0; k < GROUP; k++) begin_group(dtype, x, 0, n, most, k, &part[k]);
        for (; i + 2 * GROUP * VF <= n; i += GROUP * VF) {
            VEC_UNROLLED for (int k = 0; k < GROUP; k++) {
                sum += end_group(kept, i, k, &part[k]);
                if (other != NULL) let_leave(row, i + k * VF);
                begin_group(dtype, x, i + GROUP * VF, n, most, k, &part[k]);
            }
        }
        VEC_UNROLLED for (int k = 0; k < GROUP; k++) {
            sum += end_group(kept, i, k, &part[k]);
            if (other != NULL) let_leave(row, i + k * VF);
        }
        i += GROUP * VF;
    }
    for (; i + VF <= n; i += VF) {
        vf e = exp_biased(vec_get(dtype, x, i) - most);
        if (kept != NULL) vf_store(kept + i, e);
        if (other != NULL) let_leave(row, i);
        sum += e;
    }
    if (i < n) {
        vf e = exp_biased(vec_get_n(dtype, x, i, n - i) - most);
        if (kept != NULL) vf_store_n(kept + i, e, n - i);
        if (other != NULL)
            vf_store_n(row.y + i, left_over(row, vf_load_n(row.kept + i, n - i)), n - i);
        sum += vec_lanes_or(e, n - i, 0);
    }
    return vf_sum(sum);
}

/* On their own: there are just enough registers for the loop. */
#define ROW_EXP(name, dtype)                                                \
    OUTLINE float name(const void *x, float *kept, int64_t n, float most) { \
        return row_exp(dtype, x, kept, n, most, NULL);                      \
    }
ROW_EXP(exp_f32, RLX_DTYPE_F32)
ROW_EXP(exp_f16, RLX_DTYPE_F16)
ROW_EXP(exp_bf16, RLX_DTYPE_BF16)
OUTLINE float exp_and_leave(const float *x, float *kept, int64_t n, float most,
                            const leaving *row) {
    leaving other = *row;
    other.is_log = false;
    return row_exp(RLX_DTYPE_F32, x, kept, n, most, &other);
}
OUTLINE float exp_and_leave_log(const float *x, int64_t n, float most, const leaving *row) {
    leaving other = *row;
    other.is_log = true;
    return row_exp(RLX_DTYPE_F32, x, NULL, n, most, &other);
}
VEC_INLINE float exp_of(rlx_dtype dtype, const void *x, float *kept, int64_t n, float most) {
    return (dtype == RLX_DTYPE_F32   ? exp_f32
            : dtype == RLX_DTYPE_F16 ? exp_f16
                                     : exp_bf16)(x, kept, n, most);
}

/* The largest number of a row, and the sum of exponentials that nobody keeps. */
typedef struct row_sum {
    float most, sum;
} row_sum;
OUTLINE row_sum sum_row(rlx_dtype dtype, const void *x, int64_t n) {
    row_sum found = {0, 0};
    VEC_BY_DTYPE(dtype, found.most = row_max, x, n);
    found.sum = exp_of(dtype, x, NULL, n, found.most);
    return found;
}

/* y = kept * factor. */
VEC_INLINE void row_scale(rlx_dtype dtype, const float *kept, void *y, int64_t n, float factor) {
    int64_t i = 0;
    for (; i + 4 * VF <= n; i += 4 * VF) {
        vf x[4];
        VEC_UNROLLED for (int k = 0; k < 4; k++) x[k] = vf_load(kept + i + k * VF) * factor;
        vec_put_all(dtype, y, i, x, 4);
    }
    for (; i < n; i += VF) {
        int64_t count = rlx_ref_least(VF, n - i);
        vec_put_n(dtype, y, i, vf_load_n(kept + i, count) * factor, count);
    }
}

/* Rows too long to be kept, in a dtype that cannot keep them: exponentials are computed twice. */
VEC_INLINE void row_again(rlx_dtype dtype, const void *x, void *y, int64_t n, float most,
                          float factor) {
    for (int64_t i = 0; i < n; i += VF) {
        int64_t count = rlx_ref_least(VF, n - i);
        vec_put_n(dtype, y, i, exp_biased(vec_get_n(dtype, x, i, count) - most) * factor, count);
    }
}

VEC_INLINE void row_log(rlx_dtype dtype, const void *x, void *y, int64_t n, float most,
                        float log_sum, bool streams) {
    int64_t i = 0;
    for (; streams && i + 2 * VF <= n; i += 2 * VF) {
        vf_stream((float *)y + i, vec_get(dtype, x, i) - most - log_sum);
        vf_stream((float *)y + i + VF, vec_get(dtype, x, i + VF) - most - log_sum);
    }
    for (; i + VF <= n; i += VF)
        vec_put(dtype, y, i, vec_get(dtype, x, i) - most - log_sum);
    if (i < n) vec_put_n(dtype, y, i, vec_get_n(dtype, x, i, n - i) - most - log_sum, n - i);
}

static float log_of(float biased_sum) {
    return (float)log((double)biased_sum * (1.0 / (1 << EXP_BIAS)));
}

VEC_INLINE void softmax_row(rlx_dtype dtype, const void *x, void *y, int64_t n, float *room) {
    if (n > KEPT && dtype != RLX_DTYPE_F32) {
        row_sum found = sum_row(dtype, x, n);
        row_again(dtype, x, y, n, found.most, 1 / found.sum);
        return;
    }
    float *kept = dtype == RLX_DTYPE_F32 ? y : room;
    float most = row_max(dtype, x, n), sum = exp_of(dtype, x, kept, n, most);
    row_scale(dtype, kept, y, n, 1 / sum);
}

typedef struct lines {
    const rlx_tensor *x, *y;
    uint32_t axis, tail;   /* lines lie side by side along the axes [tail, rank) */
    int64_t length, inner; /* of a line, and lines side by side */
} lines;

static lines lines_of(const rlx_kernel_args *args) {
    const rlx_axis_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0];
    uint32_t axis = vec_axis(attrs->axis, x->rank), tail = axis + 1;
    while (tail + 1 < x->rank && (!vec_is_dense(x, tail) || !vec_is_dense(&args->out[0], tail)))
        tail++;
    return (lines){x,    &args->out[0], axis,
                   tail, x->dims[axis], vec_product(x->dims, tail, x->rank)};
}

/* Rows of results that go past the caches: each leaves while the next one is computed. Those of
 * log_softmax stay in the second cache until they do. */
OUTLINE void run_leaving(const lines *all, bool is_log, int64_t begin, int64_t end) {
    float room[2][KEPT];
    int64_t n = all->length;
    vec_index from = vec_index_without(all->x, all->axis, all->axis + 1);
    vec_index to = vec_index_without(all->y, all->axis, all->axis + 1);
    leaving row = {0};
    for (int64_t item = begin; item < end; item++) {
        const float *x = vec_at(all->x, 4, vec_index_at(&from, item));
        float *kept = is_log ? NULL : room[item % 2], most = row_max(RLX_DTYPE_F32, x, n);
        float sum = item == begin ? exp_f32(x, kept, n, most)
                    : is_log      ? exp_and_leave_log(x, n, most, &row)
                                  : exp_and_leave(x, kept, n, most, &row);
        row = (leaving){.kept = is_log ? x : kept,
                        .y = vec_to(all->y, 4, vec_index_at(&to, item)),
                        .factor = vf_set(1 / sum),
                        .most = vf_set(most),
                        .log_sum = vf_set(is_log ? log_of(sum) : 0),
                        .is_log = is_log};
    }
    for (int64_t i = 0; begin < end && i < n; i += VF) {
        int64_t count = rlx_ref_least(VF, n - i);
        vf_store_n(row.y + i, left_over(row, vf_load_n(row.kept + i, count)), count);
    }
    vec_stream_end();
}

/* Whether rows of so many elements at most can leave whole: every one of them is aligned. */
static bool can_leave(const lines *all, int64_t longest) {
    uint64_t strides = (uint64_t)(uintptr_t)all->y->data;
    for (uint32_t i = 0; i < all->y->rank; i++) {
        if (i != all->axis && all->y->dims[i] != 1) strides |= (uint64_t)all->y->strides[i] * 4;
    }
    return all->y->dtype == RLX_DTYPE_F32 && all->length <= longest &&
           strides % RLX_VEC_BYTES == 0 && rlx_tensor_elements(all->y) >= VEC_STREAM_BYTES / 4;
}

VEC_INLINE void run_rows(rlx_dtype dtype, const rlx_kernel_args *args, int64_t begin, int64_t end) {
    float room[KEPT];
    lines all = lines_of(args);
    vec_index from = vec_index_without(all.x, all.axis, all.axis + 1);
    vec_index to = vec_index_without(all.y, all.axis, all.axis + 1);
    bool streams = rlx_tensor_elements(all.y) >= VEC_STREAM_BYTES / 4;
    bool is_log = args->op == RLX_OP_LOG_SOFTMAX;
    if (dtype == RLX_DTYPE_F32 && can_leave(&all, is_log ? KEPT_LOG : KEPT)) {
        run_leaving(&all, is_log, begin, end);
        return;
    }
    for (int64_t item = begin; item < end; item++) {
        const void *x = vec_at(all.x, vec_bytes(dtype), vec_index_at(&from, item));
        void *y = vec_to(all.y, vec_bytes(dtype), vec_index_at(&to, item));
        if (!is_log) {
            softmax_row(dtype, x, y, all.length, room);
        } else {
            row_sum found = sum_row(dtype, x, all.length);
            bool is_aligned = dtype == RLX_DTYPE_F32 && (uintptr_t)y % RLX_VEC_BYTES == 0;
            row_log(dtype, x, y, all.length, found.most, log_of(found.sum), streams && is_aligned);
        }
    }
    if (streams) vec_stream_end();
}

/* How many lines side by side are an item. Lines whose exponentials fit into the buffer go as far
 * to the side as it allows: longer pieces of memory at a time. */
static int64_t strip_width(int64_t length) {
    int64_t width = length < 1 ? STRIP : KEPT / length / STRIP * STRIP;
    return width < STRIP ? STRIP : width > WIDE_STRIP ? WIDE_STRIP : width;
}

/* Lines side by side: `width` of them, `step` bytes from one element of a line to the next. */
typedef struct strip {
    rlx_dtype dtype;
    const char *x;
    char *y;
    int64_t length, x_step, y_step, width;
    bool streams; /* whole lines of the cache, past it */
} strip;

/* Fewer lanes than a vector has. */
OUTLINE vf get_few(rlx_dtype dtype, const void *from, int64_t at, int64_t n) {
    return vec_get_n(dtype, from, at, n);
}
OUTLINE void put_few(rlx_dtype dtype, void *to, int64_t at, vf x, int64_t n) {
    vec_put_n(dtype, to, at, x, n);
}

/* The vector number v of a strip at x (or y); lanes beyond the width are 0. */
VEC_INLINE vf strip_get(rlx_dtype dtype, const void *from, int64_t v, int64_t width) {
    int64_t left = width - v * VF;
    return left >= VF ? vec_get(dtype, from, v * VF) : get_few(dtype, from, v * VF, left);
}
VEC_INLINE void strip_put(rlx_dtype dtype, void *to, int64_t v, int64_t width, vf value) {
    int64_t left = width - v * VF;
    if (left >= VF) {
        vec_put(dtype, to, v * VF, value);
    } else {
        put_few(dtype, to, v * VF, value, left);
    }
}

/* `count` vectors of a strip (a constant), from `v` on: their maxima, sums and results.
 * Exponentials are computed twice rather than kept: that is cheaper than a round through memory. */
VEC_INLINE void strip_vectors(rlx_dtype dtype, const strip *s, int64_t v, const int count,
                              bool is_log) {
    vf most[STRIP / VF], sum[STRIP / VF], factor[STRIP / VF];
    VEC_UNROLLED for (int k = 0; k < count; k++) most[k] = vf_set(-INFINITY), sum[k] = (vf){0};
    for (int64_t i = 0; i < s->length; i++) {
        VEC_UNROLLED for (int k = 0; k < count; k++) most[k] =
            vf_max(strip_get(dtype, s->x + i * s->x_step, v + k, s->width), most[k]);
    }
    for (int64_t i = 0; i < s->length; i++) {
        VEC_UNROLLED for (int k = 0; k < count; k++) sum[k] +=
            exp_biased(strip_get(dtype, s->x + i * s->x_step, v + k, s->width) - most[k]);
    }
    VEC_UNROLLED for (int k = 0; k < count; k++) {
        factor[k] = 1.0f / sum[k];
        for (int lane = 0; is_log && lane < VF; lane++)
            sum[k][lane] = log_of(sum[k][lane]);
    }
    for (int64_t i = 0; i < s->length; i++) {
        VEC_UNROLLED for (int k = 0; k < count; k++) {
            vf x = strip_get(dtype, s->x + i * s->x_step, v + k, s->width) - most[k];
            strip_put(dtype, s->y + i * s->y_step, v + k, s->width,
                      is_log ? x - sum[k] : exp_biased(x) * factor[k]);
        }
    }
}

/* A long strip; the dtype is looked at for every vector, which exponentials hide. */
OUTLINE void do_long_strip(const strip *s, bool is_log) {
    int64_t v = 0;
    for (; (v + STRIP / VF) * VF <= s->width; v += STRIP / VF)
        strip_vectors(s->dtype, s, v, STRIP / VF, is_log);
    for (; v * VF < s->width; v++)
        strip_vectors(s->dtype, s, v, 1, is_log);
}

/* Whole strips whose exponentials fit into the buffer. Lines are often a page apart, so that all of
 * a strip falls into few sets of the first-level cache; in the buffer it stays there. `count`
 * vectors (a constant) of every line at a time: what is kept for them stays in registers. */
VEC_INLINE void take_some(rlx_dtype dtype, const strip *s, float *room, const int count, int64_t at,
                          vf *out_most) {
    vf most[GROUP];
    VEC_UNROLLED for (int k = 0; k < count; k++) most[k] = vf_set(-INFINITY);
    for (int64_t i = 0; i < s->length; i++) {
        const char *x = s->x + i * s->x_step;
        VEC_UNROLLED for (int k = 0; k < count; k++) {
            vf value = vec_get(dtype, x, at + k * VF);
            vf_store(room + i * s->width + at + k * VF, value);
            most[k] = vf_max(value, most[k]);
        }
    }
    VEC_UNROLLED for (int k = 0; k < count; k++) out_most[k] = most[k];
}
VEC_INLINE void take_strip(rlx_dtype dtype, const strip *s, float *room, vf *most) {
    int64_t at = 0;
    for (; at + GROUP * VF <= s->width; at += GROUP * VF)
        take_some(dtype, s, room, GROUP, at, most + at / VF);
    for (; at < s->width; at += VF)
        take_some(dtype, s, room, 1, at, most + at / VF);
}

/* Exponentials of `count` vectors of every line of a strip (a constant), from `at` on. While one
 * line is brought to its end the next one begins, as in row_exp. */
VEC_INLINE void strip_exp_some(const strip *s, float *room, const int count, int64_t at,
                               const vf *most, vf *sum) {
    exp_parts part[GROUP];
    int64_t bytes = vec_bytes(s->dtype), width = s->width;
    const char *next = s->x + (at + width) * bytes; /* the next strip */
    for (int k = 0; k < count; k++) {
        part[k] = biased_begin(vf_load(room + at + k * VF) - most[k]);
        sum[k] = (vf){0};
    }
    for (int64_t i = 0; i < s->length; i++) {
        float *kept = room + i * width + at, *more = kept + (i + 1 < s->length ? width : 0);
        __builtin_prefetch(next + i * s->x_step);
        __builtin_prefetch(next + i * s->x_step + (count * VF * bytes - 1) / 64 * 64);
        VEC_UNROLLED for (int k = 0; k < count; k++) {
            vf e = exp_end(part[k].r, part[k].scale);
            part[k] = biased_begin(vf_load(more + k * VF) - most[k]);
            vf_store(kept + k * VF, e);
            sum[k] += e;
        }
    }
}
OUTLINE void strip_exp(const strip *s, float *room, const vf *most, vf *sum) {
    int64_t at = 0;
    for (; at + GROUP * VF <= s->width; at += GROUP * VF)
        strip_exp_some(s, room, GROUP, at, most + at / VF, sum + at / VF);
    for (; at < s->width; at += VF)
        strip_exp_some(s, room, 1, at, most + at / VF, sum + at / VF);
}

VEC_INLINE void put_strip(rlx_dtype dtype, const strip *s, const float *room, const vf *sum) {
    vf factor[WIDE_STRIP / VF];
    int vectors = (int)(s->width / VF);
    for (int k = 0; k < vectors; k++)
        factor[k] = 1.0f / sum[k];
    for (int64_t i = 0; i < s->length; i++) {
        char *y = s->y + i * s->y_step;
        for (int k = 0; k < vectors; k++) {
            vf value = vf_load(room + i * s->width + k * VF) * factor[k];
            if (dtype == RLX_DTYPE_F32 && s->streams) {
                vf_stream((float *)(void *)y + k * VF, value);
            } else {
                vec_put(dtype, y, k * VF, value);
            }
        }
    }
}

static void do_strip(const strip *s, bool is_log, float *room) {
    vf most[WIDE_STRIP / VF], sum[WIDE_STRIP / VF];
    if (is_log || s->width % VF != 0 || s->width * s->length > KEPT) {
        do_long_strip(s, is_log);
        return;
    }
    VEC_BY_DTYPE(s->dtype, take_strip, s, room, most);
    strip_exp(s, room, most, sum);
    VEC_BY_DTYPE(s->dtype, put_strip, s, room, sum);
}

/* All axes but the one of the lines and those along which they lie side by side. */
static vec_index outer_of(const lines *all, const rlx_tensor *tensor) {
    vec_index index = {.rank = 0};
    for (uint32_t i = 0; i < all->tail; i++) {
        if (i != all->axis) vec_index_push(&index, tensor->dims[i], tensor->strides[i]);
    }
    return index;
}

static void run_strips(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    float room[KEPT];
    lines all = lines_of(args);
    vec_index from = outer_of(&all, all.x), to = outer_of(&all, all.y);
    int64_t width = strip_width(all.length), bytes = vec_bytes(all.x->dtype);
    int64_t strips = (all.inner - 1) / width + 1;
    bool is_large = rlx_tensor_elements(all.y) >= VEC_STREAM_BYTES / 4;
    for (int64_t item = begin; item < end; item++) {
        int64_t outer = item / strips, first = item % strips * width;
        strip s = {.dtype = all.x->dtype,
                   .x = vec_at(all.x, bytes, vec_index_at(&from, outer) + first),
                   .y = vec_to(all.y, bytes, vec_index_at(&to, outer) + first),
                   .length = all.length,
                   .x_step = all.x->strides[all.axis] * bytes,
                   .y_step = all.y->strides[all.axis] * bytes,
                   .width = rlx_ref_least(width, all.inner - first)};
        s.streams =
            is_large && ((uintptr_t)s.y | (uint64_t)s.y_step | (uint64_t)s.width * 4) % 64 == 0;
        do_strip(&s, args->op == RLX_OP_LOG_SOFTMAX, room);
    }
    if (is_large) vec_stream_end();
}

/* Lines of elements side by side, or whole lines side by side. */
static bool has_rows(const lines *all) {
    return all->x->strides[all->axis] == 1 && all->y->strides[all->axis] == 1;
}
static bool has_strips(const lines *all) {
    return vec_is_dense(all->x, all->tail) && vec_is_dense(all->y, all->tail);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    lines all = lines_of(args);
    if (has_rows(&all)) {
        VEC_BY_DTYPE(all.x->dtype, run_rows, args, begin, end);
    } else if (has_strips(&all)) {
        run_strips(args, begin, end);
    } else {
        vec_scalar_run(args, begin, end);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    lines all = lines_of(args);
    if (has_rows(&all) || !has_strips(&all)) return vec_scalar_items(args);
    if (all.inner == 0) return 0;
    return vec_product(all.x->dims, 0, all.axis) *
           vec_product(all.x->dims, all.axis + 1, all.tail) *
           ((all.inner - 1) / strip_width(all.length) + 1);
}

static int64_t item_cost(const rlx_kernel_args *args) {
    lines all = lines_of(args);
    int64_t wide = has_rows(&all) ? 1 : rlx_ref_least(strip_width(all.length), all.inner);
    return rlx_ref_cost(rlx_ref_cost(all.length, wide), 2);
}

static bool takes(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    if (query->in[0].rank == 0 || !vec_is_float(query->in[0].dtype)) return false;
    lines all = lines_of(&args);
    return has_rows(&all) || has_strips(&all);
}

const rlx_cpu_override VEC_SYMBOL(softmax)[] = {
    {RLX_OP_SOFTMAX, 0, takes, {VEC_NAME("softmax"), run, items, item_cost, NULL}},
    {RLX_OP_LOG_SOFTMAX, 0, takes, {VEC_NAME("log_softmax"), run, items, item_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
