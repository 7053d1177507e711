/* SPDX-License-Identifier: Apache-2.0 */
/* matmul of few rows with a b that is no weight and has its columns side by side (what a query
 * takes from values): to pack b would take longer than to multiply it. Rows of b are read along,
 * four at a time, and added to sums that stay in the first cache. Of a b that is small itself,
 * which may also lie turned, sums stay in registers. An item is a strip of columns with all of k;
 * each sum runs over k in index order. */
#include "backend/cpu/vec/matmul.h"
#include "backend/cpu/vec/rows.h"
#include "backend/cpu/vec/transpose.h"

enum {
    MOST_ROWS = 8,    /* with more, b is packed for them */
    STRIP = 512,      /* columns of an item, whole vectors */
    LEAST_STRIP = 64, /* where there would be few items */
    TILE_ROWS = 4,
    SMALL = 8192 /* numbers of a b that the first cache holds */
};

/* sums[count] += a[0] b[0] + .. of `rows` rows of b; those after them are asked for. `rows` is a
 * constant. */
VEC_INLINE void add_rows(const int rows, bool asks, float *sums, const float *a, int64_t a_k,
                         const float *b, int64_t b_k, int64_t count) {
    vf factor[4];
    int64_t n = 0;
    for (int i = 0; i < rows; i++)
        factor[i] = vf_set(a[i * a_k]);
    for (; n + VF <= count; n += VF) {
        vf sum = vf_load(sums + n);
        for (int i = 0; i < rows; i++) {
            if (asks) __builtin_prefetch(b + (rows + i) * b_k + n, 0, 2);
            vf_add_product(&sum, factor[i], vf_load(b + i * b_k + n));
        }
        vf_store(sums + n, sum);
    }
    if (n == count) return;
    vf sum = vf_load(sums + n); /* sums are whole vectors */
    for (int i = 0; i < rows; i++)
        vf_add_product(&sum, factor[i], vf_load_n(b + i * b_k + n, count - n));
    vf_store(sums + n, sum);
}

/* Bias, residual and activation once for all who store. */
static __attribute__((noinline)) void store(const matmul *mm, const matmul_batch *at, int64_t m,
                                            int64_t n, vf x, vf y, int64_t count) {
    matmul_store(mm, at, m, n, x, y, count);
}

/* Rows [first, first + rows) of a times columns [n, n + count) of b. */
static void run_strip(const matmul *mm, const matmul_batch *at, int64_t first, int64_t rows,
                      int64_t n, int64_t count) {
    float sums[MOST_ROWS][STRIP];
    const float *a = (const float *)mm->a->data + at->a + first * mm->a_m;
    const float *b = (const float *)mm->b->data + at->b + n;
    int64_t k = 0;
    for (int64_t m = 0; m < rows; m++)
        memset(sums[m], 0, (size_t)(matmul_up(count, VF) * VF) * sizeof(float));
    for (; k + 4 <= mm->k; k += 4, a += 4 * mm->a_k, b += 4 * mm->b_k) {
        add_rows(4, true, sums[0], a, mm->a_k, b, mm->b_k, count);
        for (int64_t m = 1; m < rows; m++)
            add_rows(4, false, sums[m], a + m * mm->a_m, mm->a_k, b, mm->b_k, count);
    }
    for (; k < mm->k; k++, a += mm->a_k, b += mm->b_k) {
        for (int64_t m = 0; m < rows; m++)
            add_rows(1, false, sums[m], a + m * mm->a_m, 0, b, 0, count);
    }
    for (int64_t m = 0; m < rows; m++) {
        for (int64_t i = 0; i < count; i += MATMUL_COLUMNS)
            store(mm, at, first + m, n + i, vf_load(sums[m] + i), vf_load(sums[m] + i + VF),
                  count - i);
    }
}

/* `rows` rows of a, which is a constant, times up to two vectors of columns of b. */
VEC_INLINE void run_tile(const matmul *mm, const matmul_batch *at, const int rows, int64_t first,
                         int64_t n, const float *b, int64_t b_k, int64_t count) {
    const float *a = (const float *)mm->a->data + at->a + first * mm->a_m;
    vf sums[TILE_ROWS][2] = {{{0}}};
    for (int64_t k = 0; k < mm->k; k++, a += mm->a_k, b += b_k) {
        vf low, high = {0};
        if (count >= 2 * VF) {
            low = vf_load(b), high = vf_load(b + VF);
        } else if (count > VF) {
            low = vf_load(b), high = vf_load_n(b + VF, count - VF);
        } else {
            low = vf_load_n(b, count);
        }
        VEC_UNROLLED for (int i = 0; i < rows; i++) {
            vf factor = vf_set(a[i * mm->a_m]);
            vf_add_product(&sums[i][0], factor, low);
            vf_add_product(&sums[i][1], factor, high);
        }
    }
    float *to = (float *)mm->out->data + at->out + first * mm->out_m + n;
    VEC_UNROLLED for (int i = 0; i < rows; i++, to += mm->out_m) {
        if (mm->is_bare && count >= 2 * VF) {
            vf_store(to, sums[i][0]);
            vf_store(to + VF, sums[i][1]);
        } else {
            store(mm, at, first + i, n, sums[i][0], sums[i][1], count);
        }
    }
}

/* All rows times columns [n, n + count) of a small b. */
static void run_small(const matmul *mm, const matmul_batch *at, int64_t n, int64_t count) {
    const float *b = (const float *)mm->b->data + at->b + n * mm->b_n;
    int64_t b_k = mm->b_k;
    _Alignas(64) float room[SMALL];
    if (mm->b_n != 1 && mm->k > 0) {
        vec_transpose(4, (uint8_t *)room, count * 4, (const uint8_t *)b, mm->b_n * 4, mm->k, count,
                      VEC_TURN_NEAR);
        b = room, b_k = count;
    }
    for (int64_t i = 0; i < count; i += 2 * VF) {
        int64_t m = 0, left = matmul_least(2 * VF, count - i);
        for (; m + TILE_ROWS <= mm->m; m += TILE_ROWS)
            run_tile(mm, at, TILE_ROWS, m, n + i, b + i, b_k, left);
        for (; m < mm->m; m++)
            run_tile(mm, at, 1, m, n + i, b + i, b_k, left);
    }
}

/* Columns of a strip: whole ones where that leaves items enough for several threads. */
static int64_t strip_of(const matmul *mm) {
    enum { WANTED_ITEMS = 4 };
    int64_t strip = STRIP;
    while (strip > LEAST_STRIP && mm->batches * matmul_up(mm->n, strip) < WANTED_ITEMS)
        strip /= 2;
    return strip;
}

static bool is_small(int64_t k, int64_t n) {
    return n <= SMALL && k * n <= SMALL;
}

/* What hangs on shapes alone: a small product takes as long. */
typedef struct ready {
    matmul mm;
    int64_t strip;
    bool is_small;
} ready;

static void make(const rlx_kernel_args *args, void *memory) {
    ready *self = memory;
    self->mm = matmul_make(args);
    self->strip = strip_of(&self->mm);
    self->is_small = is_small(self->mm.k, self->mm.n);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    ready now;
    const ready *self = args->prepared;
    if (self == NULL) make(args, &now), self = &now;
    const matmul *mm = &self->mm;
    int64_t per_batch = matmul_up(mm->n, self->strip);
    for (int64_t item = begin; item < end; item++) {
        matmul_batch at = rlx_cpu_matmul_batch_at(mm, item / per_batch);
        int64_t n = item % per_batch * self->strip;
        if (self->is_small) {
            run_small(mm, &at, n, matmul_least(self->strip, mm->n - n));
            continue;
        }
        for (int64_t m = 0; m < mm->m; m += MOST_ROWS) /* b may have fewer batches than planned */
            run_strip(mm, &at, m, matmul_least(MOST_ROWS, mm->m - m), n,
                      matmul_least(self->strip, mm->n - n));
    }
}

static int64_t items(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    return mm.m == 0 || mm.n == 0 ? 0 : mm.batches * matmul_up(mm.n, strip_of(&mm));
}

/* Vectors of multiply-adds; reading b is what takes time. */
static int64_t item_cost(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    return rlx_ref_cost(matmul_least(mm.n, strip_of(&mm)) * (1 + mm.m) / 8, mm.k);
}

static bool takes(const rlx_target_query *query) {
    const rlx_matmul_attrs *attrs = query->attrs;
    const rlx_tensor *a = &query->in[0], *b = &query->in[1], *out = &query->out[0];
    if (a->dtype != RLX_DTYPE_F32 || b->dtype != RLX_DTYPE_F32 || !vec_is_float(out->dtype) ||
        a->layout != RLX_LAYOUT_PLAIN || b->layout != RLX_LAYOUT_PLAIN || a->rank < 2 ||
        b->rank < 2) {
        return false;
    }
    const uint32_t k = b->rank - (attrs->transpose_b ? 1 : 2), n = 2 * b->rank - 3 - k;
    bool is_turned = b->strides[k] == 1 && b->strides[n] > 1 && is_small(b->dims[k], b->dims[n]);
    if (b->strides[n] != 1 && !is_turned) return false;
    return rlx_cpu_matmul_rows_per_b(query) <= MOST_ROWS;
}

const rlx_cpu_override VEC_SYMBOL(matmul_rows)[] = {
    {RLX_OP_MATMUL, 0, takes, {VEC_NAME("matmul_rows"), run, items, item_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
const rlx_cpu_preparation VEC_SYMBOL(matmul_rows_preparation) = {
    .run = run, .size = sizeof(ready), .make = make};
