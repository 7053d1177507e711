/* SPDX-License-Identifier: Apache-2.0 */
/* Elements chosen by an index, one by one: gather along the last axis, and gather_elements. Where
 * the index of a gather chooses neighbours, as it does when an image is enlarged, eight results
 * come from one vector of inputs by a permutation that is the same for every row. Rows of several
 * elements and other shapes are left to scalar C. An index outside gives zeros and a fault. */
#include "backend/cpu/vec/rows.h"

#include "ref/strided.h"

enum { LANES = 8, MOST_INDICES = 1 << 16 };

/* Eight results: lanes of the inputs from `first` on, or (first < 0) places in the row; a place of
 * -1 is outside. */
typedef struct octet {
    int32_t first;
    int32_t at[LANES];
} octet;

static bool is_unit(rlx_dtype dtype) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    return row->block_elements == 1 && (row->block_bytes == 1 || row->block_bytes == 2 ||
                                        row->block_bytes == 4 || row->block_bytes == 8);
}

/* Rows of 4-byte elements that lie side by side, and an index that is not long. */
static bool fits_gather(const rlx_kernel_args *args) {
    const rlx_axis_attrs *attrs = args->attrs;
    const rlx_tensor *in = &args->in[0], *index = &args->in[1], *out = &args->out[0];
    uint32_t last = in->rank - 1;
    return vec_axis(attrs->axis, in->rank) == last && in->dtype == out->dtype &&
           rlx_dtype_row_of(in->dtype)->block_elements == 1 &&
           rlx_dtype_row_of(in->dtype)->block_bytes == 4 && in->strides[last] == 1 &&
           in->dims[last] <= INT32_MAX && vec_is_dense(out, 0) && vec_is_dense(index, 0) &&
           rlx_tensor_elements(index) <= MOST_INDICES;
}

static void make_octet(const rlx_kernel_args *args, int64_t from, int64_t count, octet *out) {
    const rlx_tensor *in = &args->in[0], *index = &args->in[1];
    int64_t dim = in->dims[in->rank - 1];
    int32_t least = INT32_MAX, most = -1;
    for (int64_t i = 0; i < LANES; i++) {
        int64_t n =
            from + rlx_ref_least(i, count - 1); /* lanes that are not stored repeat the last */
        out->at[i] =
            (int32_t)rlx_index_check(args, rlx_index_at(index->dtype, index->data, n), dim);
        if (out->at[i] < least) least = out->at[i];
        if (out->at[i] > most) most = out->at[i];
    }
    out->first = -1;
    if (least < 0 || most - least >= LANES || dim < LANES || count < LANES) return;
    out->first = rlx_ref_least(least, dim - LANES);
    for (int64_t i = 0; i < LANES; i++)
        out->at[i] -= out->first;
}

static void gather_octet(const octet *self, const uint32_t *row, int64_t count, uint32_t *to) {
#if defined(__AVX2__)
    if (self->first >= 0) {
        __m256i lanes = _mm256_loadu_si256((const __m256i *)(const void *)self->at);
        __m256i from = _mm256_loadu_si256((const __m256i *)(const void *)(row + self->first));
        _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permutevar8x32_epi32(from, lanes));
        return;
    }
#endif
    int32_t base = self->first < 0 ? 0 : self->first;
    for (int64_t i = 0; i < count; i++)
        to[i] = self->at[i] < 0 ? 0 : row[base + self->at[i]];
}

static void run_gather(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *in = &args->in[0];
    int64_t count = rlx_tensor_elements(&args->in[1]);
    octet *octets = args->workspace;
    if (!fits_gather(args)) {
        vec_scalar_run(args, begin, end);
        return;
    }
    for (int64_t i = 0; begin < end && i < count; i += LANES)
        make_octet(args, i, rlx_ref_least(LANES, count - i), &octets[i / LANES]);
    for (int64_t item = begin; item < end; item++) {
        const uint32_t *row =
            (const uint32_t *)in->data + rlx_ref_offset(in->rank - 1, in->dims, in->strides, item);
        uint32_t *to = (uint32_t *)args->out[0].data + item * count;
        for (int64_t i = 0; i < count; i += LANES)
            gather_octet(&octets[i / LANES], row, rlx_ref_least(LANES, count - i), to + i);
    }
}

static int64_t gather_items(const rlx_kernel_args *args) {
    const rlx_tensor *in = &args->in[0];
    if (!fits_gather(args)) return vec_scalar_items(args);
    return vec_product(in->dims, 0, in->rank - 1);
}
static int64_t gather_cost(const rlx_kernel_args *args) {
    return rlx_tensor_elements(&args->in[1]) / 2 + 8;
}
static uint64_t gather_workspace(const rlx_kernel_args *args) {
    int64_t count = rlx_tensor_elements(&args->in[1]);
    return rlx_ref_bytes((uint64_t)(count / LANES + 1), sizeof(octet));
}
/* The index is looked at once per thread: a few rows make up for that. */
static bool takes_gather(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    return query->in[0].rank > 0 && fits_gather(&args) && gather_items(&args) >= 16;
}

/* gather_elements: out[i][j] = in[index[i][j]][j] for axis 0. An item is a row along the last axis.
 */
typedef struct picks {
    const rlx_kernel_args *args;
    const rlx_tensor *in, *index, *out;
    int64_t dim, axis_stride, step; /* of in: the axis, and along the row */
    int64_t count;                  /* of a row */
} picks;

static picks picks_of(const rlx_kernel_args *args) {
    const rlx_axis_attrs *attrs = args->attrs;
    picks self = {.args = args, .in = &args->in[0], .index = &args->in[1], .out = &args->out[0]};
    uint32_t last = self.in->rank - 1, axis = vec_axis(attrs->axis, self.in->rank);
    self.dim = self.in->dims[axis];
    self.axis_stride = self.in->strides[axis];
    self.step = axis == last ? 0 : self.in->strides[last];
    self.count = self.out->dims[last];
    return self;
}

/* `bytes` is a constant. Offsets are those of the row's first elements. */
VEC_INLINE void pick_row(const picks *self, int64_t bytes, int64_t from, int64_t pick, int64_t to) {
    uint32_t last = self->in->rank - 1;
    int64_t pick_step = self->index->strides[last], to_step = self->out->strides[last];
    const char *in = (const char *)self->in->data + from * bytes;
    char *out = (char *)self->out->data + to * bytes;
    for (int64_t i = 0; i < self->count; i++) {
        int64_t wanted = rlx_index_at(self->index->dtype, self->index->data, pick + i * pick_step);
        int64_t at = rlx_index_check(self->args, wanted, self->dim);
        if (at >= 0) {
            memcpy(out + i * to_step * bytes,
                   in + (i * self->step + at * self->axis_stride) * bytes, (size_t)bytes);
        } else {
            memset(out + i * to_step * bytes, 0, (size_t)bytes);
        }
    }
}

static void run_elements(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_axis_attrs *attrs = args->attrs;
    picks self = picks_of(args);
    uint32_t outer = self.in->rank - 1, axis = vec_axis(attrs->axis, self.in->rank);
    int64_t strides[RLX_MAX_RANK], bytes = rlx_dtype_row_of(self.in->dtype)->block_bytes;
    for (uint32_t i = 0; i < outer; i++)
        strides[i] = i == axis ? 0 : self.in->strides[i];
    for (int64_t item = begin; item < end; item++) {
        int64_t from = rlx_ref_offset(outer, self.out->dims, strides, item);
        int64_t pick = rlx_ref_offset(outer, self.out->dims, self.index->strides, item);
        int64_t to = rlx_ref_offset(outer, self.out->dims, self.out->strides, item);
        if (bytes == 4) {
            pick_row(&self, 4, from, pick, to);
        } else if (bytes == 8) {
            pick_row(&self, 8, from, pick, to);
        } else if (bytes == 2) {
            pick_row(&self, 2, from, pick, to);
        } else {
            pick_row(&self, 1, from, pick, to);
        }
    }
}

static int64_t elements_items(const rlx_kernel_args *args) {
    return vec_product(args->out[0].dims, 0, args->out[0].rank - 1);
}
static int64_t elements_cost(const rlx_kernel_args *args) {
    const rlx_tensor *out = &args->out[0];
    return rlx_ref_cost(out->dims[out->rank - 1], 4) + 16;
}
static bool takes_elements(const rlx_target_query *query) {
    return query->in[0].rank > 0 && query->in[0].dtype == query->out[0].dtype &&
           is_unit(query->in[0].dtype);
}

const rlx_cpu_override VEC_SYMBOL(index)[] = {
    {RLX_OP_GATHER,
     0,
     takes_gather,
     {VEC_NAME("gather"), run_gather, gather_items, gather_cost, gather_workspace}},
    {RLX_OP_GATHER_ELEMENTS,
     0,
     takes_elements,
     {VEC_NAME("gather_elements"), run_elements, elements_items, elements_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
