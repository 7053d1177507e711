/* SPDX-License-Identifier: Apache-2.0 */
/* gather_sum of whole rows of f32: an image resized along an axis that is not its last. A row of
 * the result is a few rows of the input, each times its weight; up to four are read at once. Rows
 * that are not one after the other in memory are left to scalar C. */
#include "backend/cpu/vec/rows.h"
#include "ref/strided.h"

enum { TAPS = 4 /* rows that are read at once */, NUMBERS = 8192 /* of an item, or one row */ };

/* Rows that are read at once: where they lie in a plane, and how much each counts. */
typedef struct row_taps {
    int64_t count, at[TAPS];
    float parts[TAPS];
} row_taps;

/* An item is `some` rows of each of `group` planes. */
typedef struct row_sums {
    const rlx_tensor *x, *index, *weights, *y;
    int64_t row; /* its length */
    int64_t some, group, blocks, groups;
} row_sums;

static row_sums sums_of(const rlx_kernel_args *args) {
    row_sums self = {
        .x = &args->in[0], .index = &args->in[1], .weights = &args->in[2], .y = &args->out[0]};
    const int64_t *dims = self.y->dims;
    self.row = dims[3];
    self.some = rlx_ref_least(dims[2], NUMBERS / (dims[3] < 1 ? 1 : dims[3]));
    if (self.some < 1) self.some = 1;
    self.group = NUMBERS / rlx_ref_cost(self.some, dims[3] < 1 ? 1 : dims[3]);
    if (self.group < 1) self.group = 1;
    self.blocks = rlx_ref_divide_up(dims[2], self.some);
    self.groups = rlx_ref_divide_up(dims[1], self.group);
    return self;
}

static bool fits(const rlx_kernel_args *args) {
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    return x->rank == 4 && x->dtype == RLX_DTYPE_F32 && (x->strides[3] == 1 || x->dims[3] == 1) &&
           (y->strides[3] == 1 || y->dims[3] == 1);
}

/* The end of a row, which fills no vector. `adds` to what is there already; -0 is nothing that
 * could be added. */
static __attribute__((noinline)) void sum_end(const row_taps *taps, int64_t first, int64_t count,
                                              const float *plane, int64_t lanes, float *to,
                                              bool adds) {
    vf sum = adds ? vf_load_n(to, lanes) : vf_set(-0.0f);
    for (int64_t k = first; k < first + count; k++)
        sum = vf_fma(vf_load_n(plane + taps->at[k], lanes), vf_set(taps->parts[k]), sum);
    vf_store_n(to, sum, lanes);
}
/* `count` is a constant. */
VEC_INLINE void sum_taps(const int count, const row_taps *taps, int64_t first, const float *plane,
                         int64_t row, float *to, bool adds) {
    const float *from[TAPS];
    vf parts[TAPS];
    int64_t i = 0;
    VEC_UNROLLED for (int k = 0; k < count; k++) {
        from[k] = plane + taps->at[first + k];
        parts[k] = vf_set(taps->parts[first + k]);
    }
    for (; i + VF <= row; i += VF) {
        vf sum = adds ? vf_load(to + i) : vf_set(-0.0f);
        VEC_UNROLLED for (int k = 0; k < count; k++) sum =
            vf_fma(vf_load(from[k] + i), parts[k], sum);
        vf_store(to + i, sum);
    }
    if (i < row) sum_end(taps, first, count, plane + i, row - i, to + i, adds);
}

/* One row of the result from the taps that were found. */
static void put_row(const row_taps *taps, const float *plane, int64_t row, float *to, bool adds) {
    int64_t k = 0;
    if (taps->count == 4 && !adds) {
        sum_taps(4, taps, 0, plane, row, to, false);
        return;
    }
    if (taps->count >= 2 && !adds) {
        sum_taps(2, taps, 0, plane, row, to, false);
        k = 2;
    }
    for (; k < taps->count; k++)
        sum_taps(1, taps, k, plane, row, to, adds || k > 0);
}

/* As many taps of row p as are read at once, from *k on. */
static void find_taps(const row_sums *self, int64_t n, int64_t p, int64_t *k, row_taps *out) {
    const rlx_tensor *x = self->x, *index = self->index, *w = self->weights;
    const float *parts = (const float *)w->data + n * w->strides[0] + p * w->strides[2];
    int64_t from = n * index->strides[0] + p * index->strides[2];
    out->count = 0;
    for (; *k < index->dims[1] && out->count < TAPS; ++*k) {
        int64_t at = rlx_index_at(index->dtype, index->data, from + *k * index->strides[1]);
        if (at < 0 || at >= x->dims[2]) continue;
        out->at[out->count] = at * x->strides[2];
        out->parts[out->count++] = parts[*k * w->strides[1]];
    }
}

/* Row p of planes [c, end) of x[n]. */
static void sum_rows(const row_sums *self, int64_t n, int64_t p, int64_t c, int64_t end) {
    const rlx_tensor *x = self->x, *y = self->y;
    const float *plane = (const float *)x->data + n * x->strides[0];
    float *to = (float *)y->data + n * y->strides[0] + p * y->strides[2];
    const int64_t x_step = x->strides[1], y_step = y->strides[1], row = self->row;
    bool is_there = false;
    row_taps taps;
    for (int64_t k = 0; k < self->index->dims[1];) {
        find_taps(self, n, p, &k, &taps);
        if (taps.count == 0) break;
        for (int64_t i = c; i < end; i++)
            put_row(&taps, plane + i * x_step, row, to + i * y_step, is_there);
        is_there = true;
    }
    for (int64_t i = c; i < end && !is_there; i++)
        memset(to + i * y_step, 0, (size_t)row * sizeof *to);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    if (!fits(args)) {
        vec_scalar_run(args, begin, end);
        return;
    }
    const row_sums self = sums_of(args);
    for (int64_t item = begin; item < end; item++) {
        int64_t p = item % self.blocks * self.some, rest = item / self.blocks;
        int64_t c = rest % self.groups * self.group, n = rest / self.groups;
        int64_t last = rlx_ref_least(p + self.some, self.y->dims[2]);
        int64_t planes = rlx_ref_least(c + self.group, self.y->dims[1]);
        for (; p < last; p++)
            sum_rows(&self, n, p, c, planes);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    if (!fits(args)) return vec_scalar_items(args);
    const row_sums self = sums_of(args);
    return self.row == 0 ? 0 : self.y->dims[0] * self.groups * self.blocks;
}

static int64_t cost(const rlx_kernel_args *args) {
    const row_sums self = sums_of(args);
    int64_t count = self.index->dims[1], rows = self.some * self.group;
    if (!fits(args)) return rlx_ref_cost(count, rlx_ref_cost(self.y->dims[2], self.row));
    return rlx_ref_cost(rows, 16 + rlx_ref_cost(count, self.row) / 8);
}

static bool takes(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    return fits(&args);
}

const rlx_cpu_override VEC_SYMBOL(sum_rows)[] = {
    {RLX_OP_GATHER_SUM, 0, takes, {VEC_NAME("sum_rows"), run, items, cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
