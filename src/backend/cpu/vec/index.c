/* SPDX-License-Identifier: Apache-2.0 */
/* Elements chosen by an index, one by one: gather along the last axis, and gather_elements. Where
 * the index of a gather chooses neighbours, as it does when an image is enlarged, eight results
 * come from one vector of inputs by a permutation that is the same for every row. Rows of several
 * elements are copied whole; other shapes are left to scalar C. An index outside gives zeros and a
 * fault. */
#include "backend/cpu/vec/stream.h"

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

/* Rows of several elements, without holes on both sides. They are cut as scalar C cuts them. */
enum { SHORT_ROW = 1024, ROWS_AHEAD = 6, LEAST_ROW = 64 /* bytes */ };

typedef struct rows {
    const rlx_kernel_args *args;
    const rlx_tensor *in, *index;
    uint32_t axis;
    int64_t count;         /* of indices */
    int64_t units, bytes;  /* of a row */
    int64_t step, element; /* from row to row of `in`, of an element: bytes */
    int64_t ahead, asked;  /* how far in front rows are asked for, and how much of each */
    bool streams;
} rows;

static rows rows_of(const rlx_kernel_args *args) {
    const rlx_axis_attrs *attrs = args->attrs;
    const rlx_tensor *out = &args->out[0];
    rows self = {.args = args, .in = &args->in[0], .index = &args->in[1]};
    self.axis = vec_axis(attrs->axis, self.in->rank);
    self.count = rlx_tensor_elements(self.index);
    self.units = vec_product(out->dims, self.axis + self.index->rank, out->rank);
    self.element = rlx_dtype_row_of(self.in->dtype)->block_bytes;
    self.bytes = self.units * self.element;
    self.step = self.in->strides[self.axis] * self.element;
    self.ahead = self.bytes <= SHORT_ROW ? ROWS_AHEAD : 1;
    self.asked = rlx_ref_least(self.bytes, SHORT_ROW);
    self.streams = rlx_tensor_elements(out) >= VEC_STREAM_BYTES / self.element &&
                   ((uintptr_t)out->data | (uintptr_t)self.bytes) % 64 == 0;
    return self;
}

static bool fits_rows(const rlx_kernel_args *args, const rows *self) {
    return self->in->dtype == args->out[0].dtype &&
           rlx_dtype_row_of(self->in->dtype)->block_elements == 1 && self->units > 0 &&
           vec_is_dense(&args->out[0], 0) && vec_is_dense(self->index, 0) &&
           vec_is_dense(self->in, self->axis + 1);
}

/* Asks for the row of index i, if there is one. */
static void ask_row(const rows *self, const uint8_t *from, int64_t i) {
    if (i >= self->count) return;
    int64_t dim = self->in->dims[self->axis];
    int64_t at = rlx_index_at(self->index->dtype, self->index->data, i);
    if (at < 0) at += dim;
    if (at < 0 || at >= dim) return;
    for (int64_t k = 0; k < self->asked; k += 64)
        __builtin_prefetch(from + at * self->step + k);
}

static void copy_row(const rows *self, uint8_t *to, const uint8_t *from, int64_t i) {
    int64_t wanted = rlx_index_at(self->index->dtype, self->index->data, i);
    int64_t at = rlx_index_check(self->args, wanted, self->in->dims[self->axis]);
    if (at < 0) {
        memset(to, 0, (size_t)self->bytes);
    } else if (self->streams) {
        vec_stream_lines(to, from + at * self->step, self->bytes);
    } else {
        memcpy(to, from + at * self->step, (size_t)self->bytes);
    }
}

static void run_rows(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[0];
    rows self = rows_of(args);
    int64_t first, last;
    if (!fits_rows(args, &self)) {
        vec_scalar_run(args, begin, end);
        return;
    }
    rlx_item_rows(out->dtype, vec_product(out->dims, 0, self.axis + self.index->rank), self.units,
                  begin, end, &first, &last);
    uint8_t *to = (uint8_t *)out->data + first * self.bytes;
    for (int64_t row = first; row < last;) {
        int64_t place = rlx_ref_offset(self.axis, in->dims, in->strides, row / self.count);
        const uint8_t *from = (const uint8_t *)in->data + place * self.element;
        for (int64_t i = row % self.count; i < self.count && row < last; i++, row++) {
            ask_row(&self, from, i + self.ahead);
            copy_row(&self, to, from, i);
            to += self.bytes;
        }
    }
    if (self.streams) vec_stream_end();
}

static bool takes_rows(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    if (query->in[0].rank == 0 || rlx_dtype_row_of(query->in[0].dtype)->block_elements != 1)
        return false;
    rows self = rows_of(&args);
    return self.bytes >= LEAST_ROW && fits_rows(&args, &self);
}

/* gather_elements: out[i][j] = in[index[i][j]][j] for axis 0. An item is a row along the last axis.
 * An index becomes places first, PLACES at a time; where rows share it more at a time, so
 * that what one of them reads stays near. */
enum { PLACES = 512, SHARED_PLACES = 1024 };

typedef struct picks {
    const rlx_kernel_args *args;
    const rlx_tensor *in, *index, *out;
    int64_t dim, axis_stride, step; /* of in: the axis, and along the row */
    int64_t count;                  /* of a row */
    uint32_t outer;                 /* axes before it */
    int64_t strides[RLX_MAX_RANK];  /* of in, 0 along the axis */
} picks;

static picks picks_of(const rlx_kernel_args *args) {
    const rlx_axis_attrs *attrs = args->attrs;
    picks self = {.args = args, .in = &args->in[0], .index = &args->in[1], .out = &args->out[0]};
    uint32_t last = self.in->rank - 1, axis = vec_axis(attrs->axis, self.in->rank);
    self.dim = self.in->dims[axis];
    self.axis_stride = self.in->strides[axis];
    self.step = axis == last ? 0 : self.in->strides[last];
    self.count = self.out->dims[last];
    self.outer = last;
    for (uint32_t i = 0; i < last; i++)
        self.strides[i] = i == axis ? 0 : self.in->strides[i];
    return self;
}

/* The same for i64 and i32; `dtype` is a constant. Returns whether all are inside. */
VEC_INLINE bool read_places(const picks *self, rlx_dtype dtype, int64_t pick, int64_t step,
                            int64_t count, int64_t *places) {
    const uint64_t dim = (uint64_t)self->dim;
    uint64_t outside = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = rlx_index_at(dtype, self->index->data, pick + i * step);
        uint64_t place = (uint64_t)at + (at < 0 ? dim : 0);
        outside |= (uint64_t)(place >= dim);
        places[i] = (int64_t)place;
    }
    return outside == 0;
}

/* Where elements [first, first + count) of a row come from, in elements of the row of `in`; -1:
 * from outside. */
static bool find_places(const picks *self, int64_t pick, int64_t first, int64_t count,
                        int64_t *places) {
    const int64_t step = self->index->strides[self->outer];
    bool is_inside;
    pick += first * step;
    if (self->index->dtype == RLX_DTYPE_I32) {
        is_inside = read_places(self, RLX_DTYPE_I32, pick, step, count, places);
    } else if (step == 1) {
        is_inside = read_places(self, RLX_DTYPE_I64, pick, 1, count, places);
    } else {
        is_inside = read_places(self, RLX_DTYPE_I64, pick, step, count, places);
    }
    for (int64_t i = 0; i < count && !is_inside; i++) {
        int64_t wanted = rlx_index_at(self->index->dtype, self->index->data, pick + i * step);
        places[i] = rlx_index_check(self->args, wanted, self->dim);
    }
    for (int64_t i = 0; i < count && (self->axis_stride != 1 || self->step != 0); i++) {
        if (places[i] >= 0) places[i] = places[i] * self->axis_stride + (first + i) * self->step;
    }
    return is_inside;
}

/* `bytes` is a constant; offsets are those of the first element. */
VEC_INLINE void pick_places(const picks *self, int64_t bytes, int64_t from, int64_t to,
                            int64_t count, const int64_t *places, bool is_inside) {
    const int64_t step = self->out->strides[self->outer] * bytes;
    const char *in = (const char *)self->in->data + from * bytes;
    char *out = (char *)self->out->data + to * bytes;
    if (is_inside && step == bytes) {
        for (int64_t i = 0; i < count; i++)
            memcpy(out + i * bytes, in + places[i] * bytes, (size_t)bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        if (places[i] >= 0) {
            memcpy(out + i * step, in + places[i] * bytes, (size_t)bytes);
        } else {
            memset(out + i * step, 0, (size_t)bytes);
        }
    }
}

static void pick_row(const picks *self, int64_t item, int64_t first, int64_t count,
                     const int64_t *places, bool is_inside) {
    int64_t bytes = rlx_dtype_row_of(self->in->dtype)->block_bytes;
    int64_t from = rlx_ref_offset(self->outer, self->out->dims, self->strides, item);
    int64_t to = rlx_ref_offset(self->outer, self->out->dims, self->out->strides, item) +
                 first * self->out->strides[self->outer];
    if (bytes == 4) pick_places(self, 4, from, to, count, places, is_inside);
    if (bytes == 8) pick_places(self, 8, from, to, count, places, is_inside);
    if (bytes == 2) pick_places(self, 2, from, to, count, places, is_inside);
    if (bytes == 1) pick_places(self, 1, from, to, count, places, is_inside);
}

static int64_t pick_of(const picks *self, int64_t item) {
    return rlx_ref_offset(self->outer, self->out->dims, self->index->strides, item);
}

/* One index for a whole row, as sequences that are turned round have. */
static bool is_whole_row(const picks *self) {
    return self->count > 1 && self->index->strides[self->outer] == 0 && self->step == 1 &&
           self->out->strides[self->outer] == 1;
}

static void pick_whole_row(const picks *self, int64_t from, int64_t to, int64_t pick) {
    size_t bytes = rlx_dtype_row_of(self->in->dtype)->block_bytes;
    int64_t wanted = rlx_index_at(self->index->dtype, self->index->data, pick);
    int64_t at = rlx_index_check(self->args, wanted, self->dim);
    char *out = (char *)self->out->data + to * (int64_t)bytes;
    from += at * self->axis_stride;
    if (at >= 0) {
        memcpy(out, (const char *)self->in->data + from * (int64_t)bytes,
               (size_t)self->count * bytes);
    } else {
        memset(out, 0, (size_t)self->count * bytes);
    }
}

/* Offsets go along with the rows: dividing for each takes longer than moving a short one. */
static void pick_whole_rows(const picks *self, int64_t begin, int64_t end) {
    const int64_t *dims = self->out->dims, *steps = self->out->strides;
    int64_t from = rlx_ref_offset(self->outer, dims, self->strides, begin), at[RLX_MAX_RANK];
    int64_t to = rlx_ref_offset(self->outer, dims, steps, begin), pick = pick_of(self, begin);
    int64_t rest = begin;
    for (uint32_t i = self->outer; i-- > 0 && begin < end; rest /= dims[i])
        at[i] = rest % dims[i];
    for (int64_t item = begin; item < end; item++) {
        pick_whole_row(self, from, to, pick);
        for (uint32_t i = self->outer; i-- > 0;) {
            bool is_last = ++at[i] == dims[i];
            int64_t moved = is_last ? 1 - dims[i] : 1;
            from += moved * self->strides[i], to += moved * steps[i];
            pick += moved * self->index->strides[i];
            if (!is_last) break;
            at[i] = 0;
        }
    }
}

static void run_elements(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    picks self = picks_of(args);
    int64_t places[SHARED_PLACES];
    if (is_whole_row(&self)) {
        pick_whole_rows(&self, begin, end);
        return;
    }
    for (int64_t item = begin, next; item < end; item = next) {
        int64_t pick = pick_of(&self, item);
        for (next = item + 1; next < end && pick_of(&self, next) == pick;)
            next++;
        int64_t most = next - item > 1 ? SHARED_PLACES : PLACES;
        for (int64_t first = 0; first < self.count; first += most) {
            int64_t count = rlx_ref_least(most, self.count - first);
            bool is_inside = find_places(&self, pick, first, count, places);
            for (int64_t row = item; row < next; row++)
                pick_row(&self, row, first, count, places, is_inside);
        }
    }
}

static int64_t elements_items(const rlx_kernel_args *args) {
    return vec_product(args->out[0].dims, 0, args->out[0].rank - 1);
}
static int64_t elements_cost(const rlx_kernel_args *args) {
    const rlx_tensor *out = &args->out[0];
    return rlx_ref_cost(out->dims[out->rank - 1], 2) + 16;
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
    {RLX_OP_GATHER,
     0,
     takes_rows,
     {VEC_NAME("gather_rows"), run_rows, vec_scalar_items, NULL, NULL}},
    {RLX_OP_GATHER_ELEMENTS,
     0,
     takes_elements,
     {VEC_NAME("gather_elements"), run_elements, elements_items, elements_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
