/* SPDX-License-Identifier: Apache-2.0 */
/* softmax and log_softmax of f32, f16 and bf16. Along the last axis an item is one row; along
 * another axis lines lie side by side and an item is a strip of them; axes between, in any order,
 * only say where strips begin. Exponentials are kept where they are read again: in a buffer, or in
 * the result itself. */
#include "backend/cpu/vec/softmax_turned.h"

#include <math.h>

enum { KEPT_LOG = 1 << 16 };

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
VEC_INLINE float row_most(rlx_dtype dtype, const void *x, int64_t n) {
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

OUTLINE float row_max(rlx_dtype dtype, const void *x, int64_t n) {
    float most = 0;
    VEC_BY_DTYPE(dtype, most = row_most, x, n);
    return most;
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
    row_sum found = {row_max(dtype, x, n), 0};
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
OUTLINE void row_again(rlx_dtype dtype, const void *x, void *y, int64_t n, float most,
                       float factor) {
    for (int64_t i = 0; i < n; i += VF) {
        int64_t count = rlx_ref_least(VF, n - i);
        put_few(dtype, y, i, exp_biased(get_few(dtype, x, i, count) - most) * factor, count);
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

/* Short rows of f32, all as far apart, of which there are enough to fill lanes. What is turned does
 * not leave past the caches. */
static bool can_turn(const lines *all, const vec_index *from, const vec_index *to, bool leaves) {
    return all->length > 0 && all->length <= (leaves ? 2 * TURN : LONGEST_TURNED) &&
           from->rank <= 1 && to->rank <= 1 && rlx_tensor_elements(all->y) > TURN / 2 * all->length;
}
OUTLINE void run_turned(const lines *all, const vec_index *from, const vec_index *to, bool is_log,
                        int64_t begin, int64_t end) {
    turned_rows rows = {.x_step = from->rank == 0 ? 0 : from->strides[0],
                        .y_step = to->rank == 0 ? 0 : to->strides[0],
                        .n = all->length};
    for (; begin < end; begin += rows.count) {
        rows.count = rlx_ref_least(STRIP, end - begin);
        rows.x = (const float *)all->x->data + begin * rows.x_step;
        rows.y = (float *)all->y->data + begin * rows.y_step;
        do_turned(&rows, is_log);
    }
}

VEC_INLINE void run_rows(rlx_dtype dtype, const rlx_kernel_args *args, int64_t begin, int64_t end) {
    float room[KEPT];
    lines all = lines_of(args);
    vec_index from = vec_index_without(all.x, all.axis, all.axis + 1);
    vec_index to = vec_index_without(all.y, all.axis, all.axis + 1);
    bool streams = rlx_tensor_elements(all.y) >= VEC_STREAM_BYTES / 4;
    bool is_log = args->op == RLX_OP_LOG_SOFTMAX;
    bool leaves = dtype == RLX_DTYPE_F32 && can_leave(&all, is_log ? KEPT_LOG : KEPT);
    if (dtype == RLX_DTYPE_F32 && can_turn(&all, &from, &to, leaves)) {
        run_turned(&all, &from, &to, is_log, begin, end);
        return;
    }
    if (leaves) {
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
