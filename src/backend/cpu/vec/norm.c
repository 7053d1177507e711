/* SPDX-License-Identifier: Apache-2.0 */
/* layer_norm and rms_norm over rows without holes, in f32, f16 and bf16, with the residual's
 * addition. One item is one row. A row is read once from memory: sum and squares are taken in one
 * pass, less the mean of its first elements, so that a large common offset costs no digits; where
 * that guess was bad the squares are summed again. Up to eight rows are summed before the first is
 * written, since what comes between takes as long for all of them. Rows of x and of the
 * residual that have holes (channels of an image, turned) are put side by side first, a few at a
 * time. Scale and bias are rows as well, or have one number for each run of a row (for each channel
 * of a row of channels and time). */
#include "backend/cpu/vec/sum_four.h"
#include "backend/cpu/vec/transpose.h"

#include <math.h>

typedef struct norm {
    const rlx_tensor *x, *scale, *bias, *residual, *y, *sum; /* data NULL: absent */
    uint32_t axis;
    int64_t length;
    double epsilon;
    bool is_rms, streams;
} norm;

/* Rows of x and of the residual from `first` on, side by side; NULL: as they lie. */
typedef struct turned {
    const void *x, *residual;
    int64_t first;
} turned;

/* What hangs on shapes alone: found once, since a short row takes as long. */
typedef struct ready {
    norm self;
    bool fits, turns_x, turns_residual;
    int64_t run;                   /* common_run, where scale and bias are no rows; else 0 */
    vec_index x, residual, y, sum; /* the dims before the normalised ones */
} ready;

/* Rows that are put side by side at a time: a line of memory has as many f32. Longer rows than
 * these are left to scalar C. */
enum { TURN_ROWS = 16, MOST_TURNED = 1 << 16 };

/* Vectors at a time, and rows at a time where so many bytes hold them. */
enum { LANES = 4, BLOCK = 8, BLOCK_BYTES = 8 << 10 };

/* One copy, whoever calls it. */
#define OUTLINE static __attribute__((noinline))

static const rlx_tensor absent = {0};

static const rlx_tensor *input_or_absent(const rlx_kernel_args *args, uint32_t input) {
    return input < args->in_count ? &args->in[input] : &absent;
}

static norm norm_of(const rlx_kernel_args *args) {
    const rlx_norm_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0];
    norm self = {.x = x,
                 .scale = input_or_absent(args, 1),
                 .bias = input_or_absent(args, 2),
                 .residual = input_or_absent(args, 3),
                 .y = &args->out[0],
                 .sum = args->out_count > 1 ? &args->out[1] : &absent,
                 .axis = vec_axis(attrs->axis, x->rank),
                 .epsilon = attrs->epsilon,
                 .is_rms = args->op == RLX_OP_RMS_NORM};
    self.length = vec_product(x->dims, self.axis, x->rank);
    self.streams = x->dtype == RLX_DTYPE_F32 && rlx_tensor_elements(x) >= VEC_STREAM_BYTES / 4;
    return self;
}

/* Scale or bias: one plain row, in the dtype of x or in f32. */
static bool is_row(const norm *self, const rlx_tensor *tensor) {
    if (tensor->data == NULL) return true;
    return (tensor->dtype == self->x->dtype || tensor->dtype == RLX_DTYPE_F32) &&
           vec_is_dense(tensor, 0) && rlx_tensor_elements(tensor) == self->length;
}
/* How many elements in a row have the same number of `tensor`, which is one plain row of such
 * numbers; 0: it is not. */
static int64_t run_of(const norm *self, const rlx_tensor *tensor) {
    uint32_t last = self->x->rank, shift = self->x->rank - tensor->rank;
    if (tensor->rank > self->x->rank - self->axis) return 0;
    while (last > shift && tensor->dims[last - 1 - shift] == 1)
        last--;
    int64_t run = vec_product(self->x->dims, last, self->x->rank);
    bool is_whole = run > 0 && rlx_tensor_elements(tensor) == self->length / run;
    return is_whole && vec_is_dense(tensor, 0) ? run : 0;
}
/* Scale and bias both have a number for each run of so many elements, in f32; 0: they have not. */
static int64_t common_run(const norm *self) {
    const rlx_tensor *scale = self->scale, *bias = self->bias;
    if (scale->data == NULL || scale->dtype != RLX_DTYPE_F32) return 0;
    int64_t run = run_of(self, scale);
    if (run < 2 * VF || bias->data == NULL) return run < 2 * VF ? 0 : run;
    return bias->dtype == RLX_DTYPE_F32 && run_of(self, bias) == run ? run : 0;
}
static bool has_rows(const norm *self, const rlx_tensor *tensor) {
    if (tensor->data == NULL) return true;
    return tensor->dtype == self->x->dtype && tensor->rank == self->x->rank &&
           vec_is_dense(tensor, self->axis);
}
/* One axis with holes. */
static bool is_turned(const norm *self, const rlx_tensor *tensor) {
    return tensor->data != NULL && tensor->dtype == self->x->dtype &&
           tensor->rank == self->x->rank && self->axis + 1 == tensor->rank &&
           !vec_is_dense(tensor, self->axis) && self->length <= MOST_TURNED;
}
/* A residual that is broadcast is none of ours. */
static bool is_like_x(const norm *self, const rlx_tensor *tensor) {
    if (tensor->data != NULL && tensor->rank != self->x->rank) return false;
    for (uint32_t i = 0; tensor->data != NULL && i < tensor->rank; i++) {
        if (tensor->dims[i] != self->x->dims[i]) return false;
    }
    return has_rows(self, tensor) || is_turned(self, tensor);
}
static bool fits(const norm *self) {
    return vec_is_float(self->x->dtype) && is_like_x(self, self->x) && has_rows(self, self->y) &&
           has_rows(self, self->sum) && is_like_x(self, self->residual) &&
           ((is_row(self, self->scale) && is_row(self, self->bias)) || common_run(self) != 0);
}

/* One row. */
typedef struct row {
    const void *from, *residual;
    void *sum, *y; /* sum NULL: nobody wants it */
    int64_t n;
} row;

/* Numbers rounded to the dtype. */
VEC_INLINE vf rounded_to(rlx_dtype dtype, vf x) {
    if (dtype == RLX_DTYPE_F16) return vf_of_f16(f16_of_vf(x));
    return dtype == RLX_DTYPE_BF16 ? vf_of_bf16(bf16_of_vf(x)) : x;
}
/* Elements i .. i + count of x + residual, rounded to the dtype. */
VEC_INLINE vf row_get(rlx_dtype dtype, const row *r, int64_t i, int64_t count) {
    vf x = count == VF ? vec_get(dtype, r->from, i) : vec_get_n(dtype, r->from, i, count);
    if (r->residual == NULL) return x;
    x += count == VF ? vec_get(dtype, r->residual, i) : vec_get_n(dtype, r->residual, i, count);
    return rounded_to(dtype, x);
}
/* LANES vectors of it, with one question for all. */
VEC_INLINE void row_get_lanes(rlx_dtype dtype, const row *r, int64_t i, vf *x) {
    VEC_UNROLLED for (int k = 0; k < LANES; k++) x[k] = vec_get(dtype, r->from, i + k * VF);
    if (__builtin_expect(r->residual == NULL, 1)) return;
    VEC_UNROLLED for (int k = 0; k < LANES; k++) x[k] =
        rounded_to(dtype, x[k] + vec_get(dtype, r->residual, i + k * VF));
}

/* Lines of rows to come. While a block is gone through twice, those of the next are asked for once:
 * half as many bytes each time, so that memory is read all the while. */
VEC_INLINE void ask_ahead(const row *r, int64_t ahead) {
    __builtin_prefetch((const char *)r->from + ahead);
    if (__builtin_expect(r->residual != NULL, 0))
        __builtin_prefetch((const char *)r->residual + ahead);
}

/* Of the rows of a block: mean and mean square of x - shift (sums, at first), and what makes of it
 * (x - shift) * factor + offset. */
typedef struct moments {
    float shift[BLOCK], mean[BLOCK], square[BLOCK], factor[BLOCK], offset[BLOCK];
} moments;

/* Sums of x - shift and of its squares over a row, lanes apart. */
VEC_INLINE void sums_row(rlx_dtype dtype, row r, float shift, int64_t ahead, vf *out_sum,
                         vf *out_squares) {
    vf sum[LANES], squares[LANES], x[LANES];
    int64_t i = 0;
    VEC_UNROLLED for (int k = 0; k < LANES; k++) sum[k] = squares[k] = vf_set(0);
    for (; i + LANES * VF <= r.n; i += LANES * VF) {
        ask_ahead(&r, ahead + i * (vec_bytes(dtype) / 2));
        row_get_lanes(dtype, &r, i, x);
        VEC_UNROLLED for (int k = 0; k < LANES; k++) {
            x[k] -= shift;
            sum[k] += x[k];
            squares[k] = vf_fma(x[k], x[k], squares[k]);
        }
    }
    for (; i < r.n; i += VF) {
        int64_t count = rlx_ref_least(VF, r.n - i);
        vf rest = row_get(dtype, &r, i, count) - shift;
        if (count < VF) rest = vec_lanes_or(rest, count, 0);
        sum[0] += rest;
        squares[0] = vf_fma(rest, rest, squares[0]);
    }
    *out_sum = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    *out_squares = (squares[0] + squares[1]) + (squares[2] + squares[3]);
}

/* Rows that are worked on together: sums across lanes and what comes of them take as long for
 * eight as for one. */
typedef struct block {
    row first;
    int64_t from, residual, sum, y; /* bytes from row to row */
    int64_t count, bytes;           /* rows, and bytes of one */
} block;

VEC_INLINE row row_of(const block *b, int64_t k) {
    row r = b->first;
    r.from = (const char *)r.from + k * b->from;
    r.residual = r.residual == NULL ? NULL : (const char *)r.residual + k * b->residual;
    r.sum = r.sum == NULL ? NULL : (char *)r.sum + k * b->sum;
    r.y = (char *)r.y + k * b->y;
    return r;
}

/* A guess at the mean: exact for rows that are shorter than a vector. */
VEC_INLINE float guess_mean(rlx_dtype dtype, const row *r, int64_t count, float inverse) {
    float mean = vf_sum(row_get(dtype, r, 0, count)) * inverse;
    return mean - mean == 0 ? mean : 0; /* not for infinities and NaN */
}

VEC_INLINE void sums_block(rlx_dtype dtype, const norm *self, const block *b, moments *m) {
    vf sum[BLOCK], squares[BLOCK];
    int64_t count = rlx_ref_least(VF, b->first.n);
    float inverse = 1 / (float)count;
    VEC_UNROLLED for (int k = 0; k < BLOCK; k++) sum[k] = squares[k] = vf_set(0);
    for (int64_t k = 0; k < b->count; k++) {
        row r = row_of(b, k);
        float shift = self->is_rms ? 0 : guess_mean(dtype, &r, count, inverse);
        m->shift[k] = shift;
        sums_row(dtype, r, shift, (b->bytes * (2 * b->count - k)) >> 1, &sum[k], &squares[k]);
    }
    sum_eight(sum, m->mean);
    sum_eight(squares, m->square);
}

/* Moments that f32 cannot hold: numbers beyond its range, or so small that their squares vanish. */
static void moments_in_f64(rlx_dtype dtype, const norm *self, const row *r, int64_t k, moments *m) {
    double sum = 0, squares = 0, mean = 0, n = (double)r->n;
    for (int pass = self->is_rms; pass < 2; pass++) {
        for (int64_t i = 0; i < r->n; i++) {
            vf x = {0};
            VEC_BY_DTYPE(dtype, x = row_get, r, i, 1);
            sum += pass == 0 ? x[0] : 0;
            squares += pass == 0 ? 0 : (x[0] - mean) * (x[0] - mean);
        }
        if (pass == 0) mean = sum / n;
    }
    double factor = 1 / sqrt(squares / n + self->epsilon);
    m->shift[k] = (float)mean;
    m->factor[k] = (float)factor;
    m->offset[k] = (float)(-(mean - (float)mean) * factor);
}

/* Between these f32 can hold the sum of squares. */
VEC_INLINE float least_squares(const norm *self) {
    return self->epsilon > 1e-20 ? -1 : 1e-30f;
}
#define MOST_SQUARES 1e36f

/* One row once more, with a better guess: little is left to take away. */
OUTLINE void moments_again(rlx_dtype dtype, const norm *self, const row *r, int64_t k, moments *m) {
    float least = least_squares(self), n = (float)r->n, shift = m->shift[k] + m->mean[k];
    float squares = m->square[k] * n;
    if (squares > least && squares < MOST_SQUARES) {
        vf sums, all_squares;
        VEC_BY_DTYPE(dtype, sums_row, *r, shift, 0, &sums, &all_squares);
        squares = vf_sum(all_squares);
        if (squares > least && squares < MOST_SQUARES) {
            double mean = self->is_rms ? 0 : vf_sum(sums) / n, variance = squares / n - mean * mean;
            double factor = 1 / sqrt((variance < 0 ? 0 : variance) + self->epsilon);
            m->shift[k] = shift;
            m->factor[k] = (float)factor;
            m->offset[k] = (float)(-mean * factor);
            return;
        }
    }
    moments_in_f64(dtype, self, r, k, m);
}

/* From sums to what is done to each element. */
OUTLINE void moments_of_sums(rlx_dtype dtype, const norm *self, const block *b, moments *m) {
    float n = (float)b->first.n, least = least_squares(self), epsilon = (float)self->epsilon;
    int32_t are_good[BLOCK];
    bool are_all_good = true;
    for (int k = 0; k < BLOCK; k += VF) {
        vf squares = vf_load(m->square + k), square = squares / n, mean = vf_load(m->mean + k) / n;
        if (self->is_rms) mean = vf_set(0);
        vf variance = vf_fnma(mean, mean, square);
        vf factor = 1.0f / vf_sqrt(variance + epsilon);
        vi good = (variance >= 0.25f * square) & (squares > least) & (squares < MOST_SQUARES);
        memcpy(are_good + k, &good, sizeof good);
        are_all_good = are_all_good && vi_all(good);
        vf_store(m->square + k, square);
        vf_store(m->mean + k, mean);
        vf_store(m->factor + k, factor);
        vf_store(m->offset + k, -mean * factor);
    }
    for (int64_t k = 0; !are_all_good && k < b->count; k++) {
        row r = row_of(b, k);
        if (!are_good[k]) moments_again(dtype, self, &r, k, m);
    }
}

/* Scale and bias of a row; NULL: absent. `is_f32`: beside 16-bit rows. */
typedef struct affine {
    const void *scale, *bias;
    bool scale_is_f32, bias_is_f32;
} affine;

VEC_INLINE vf weight_get(rlx_dtype dtype, const void *weight, bool is_f32, int64_t i,
                         int64_t count) {
    if (dtype == RLX_DTYPE_F32 || is_f32) {
        const float *from = weight;
        return count == VF ? vf_load(from + i) : vf_load_n(from + i, count);
    }
    return count == VF ? vec_get(dtype, weight, i) : vec_get_n(dtype, weight, i, count);
}
VEC_INLINE void weight_get_lanes(rlx_dtype dtype, const void *weight, bool is_f32, int64_t i,
                                 vf *out) {
    if (dtype == RLX_DTYPE_F32 || is_f32) {
        VEC_UNROLLED for (int k = 0; k < LANES; k++) out[k] =
            vf_load((const float *)weight + i + k * VF);
    } else {
        VEC_UNROLLED for (int k = 0; k < LANES; k++) out[k] = vec_get(dtype, weight, i + k * VF);
    }
}

/* What is done to the elements of a row. */
typedef struct change {
    vf shift, factor, offset;
} change;
VEC_INLINE vf changed(change c, vf x) {
    return vf_fma(x - c.shift, c.factor, c.offset);
}

/* LANES vectors of a row, whatever there is: one question for all four is next to nothing. */
VEC_INLINE void write_lanes(rlx_dtype dtype, const affine *w, const row *r, change c, bool streams,
                            int64_t i) {
    vf y[LANES], scale[LANES], bias[LANES];
    row_get_lanes(dtype, r, i, y);
    if (r->sum != NULL) {
        VEC_UNROLLED for (int k = 0; k < LANES; k++) vec_put(dtype, r->sum, i + k * VF, y[k]);
    }
    VEC_UNROLLED for (int k = 0; k < LANES; k++) y[k] = changed(c, y[k]);
    if (w->scale != NULL) weight_get_lanes(dtype, w->scale, w->scale_is_f32, i, scale);
    if (w->bias != NULL) weight_get_lanes(dtype, w->bias, w->bias_is_f32, i, bias);
    VEC_UNROLLED for (int k = 0; k < LANES; k++) {
        if (w->scale != NULL && w->bias != NULL) {
            y[k] = vf_fma(y[k], scale[k], bias[k]);
        } else {
            if (w->scale != NULL) y[k] *= scale[k];
            if (w->bias != NULL) y[k] += bias[k];
        }
    }
    if (streams) {
        VEC_UNROLLED for (int k = 0; k < LANES; k++) vf_stream((float *)r->y + i + k * VF, y[k]);
    } else {
        vec_put_all(dtype, r->y, i, y, LANES);
    }
}

/* The whole LANES of a row. What is absent and how it is written are constants where this is
 * called, as far as they count: every jump costs a cycle. */
VEC_INLINE void write_all_lanes(rlx_dtype dtype, const affine *w, const row *r, change c,
                                bool streams, int64_t ahead) {
    for (int64_t i = 0; i + LANES * VF <= r->n; i += LANES * VF) {
        ask_ahead(r, ahead + i * (vec_bytes(dtype) / 2));
        write_lanes(dtype, w, r, c, dtype == RLX_DTYPE_F32 && streams, i);
    }
}

VEC_INLINE void write_row(rlx_dtype dtype, affine w, row r, change c, bool streams, int64_t ahead) {
    const row plain = {.from = r.from, .y = r.y, .n = r.n};
    const affine alone = {.scale = w.scale, .scale_is_f32 = w.scale_is_f32};
    if (r.residual != NULL || r.sum != NULL || w.scale == NULL) {
        write_all_lanes(dtype, &w, &r, c, streams, ahead);
    } else if (w.bias == NULL) {
        write_all_lanes(dtype, &alone, &plain, c, streams, ahead);
    } else if (streams) {
        write_all_lanes(dtype, &w, &plain, c, true, ahead);
    } else {
        write_all_lanes(dtype, &w, &plain, c, false, ahead);
    }
    for (int64_t i = r.n / (LANES * VF) * (LANES * VF); i < r.n; i += VF) {
        int64_t count = rlx_ref_least(VF, r.n - i);
        vf x = row_get(dtype, &r, i, count), y = changed(c, x);
        if (w.scale != NULL) y *= weight_get(dtype, w.scale, w.scale_is_f32, i, count);
        if (w.bias != NULL) y += weight_get(dtype, w.bias, w.bias_is_f32, i, count);
        if (r.sum != NULL) vec_put_n(dtype, r.sum, i, x, count);
        if (dtype == RLX_DTYPE_F32 && streams && count == VF) {
            vf_stream((float *)r.y + i, y);
        } else {
            vec_put_n(dtype, r.y, i, y, count);
        }
    }
}

/* Elements i .. i + count of a run, all with the same weights. */
VEC_INLINE void write_alike(rlx_dtype dtype, const row *r, change c, float scale, float bias,
                            int64_t i, int64_t count) {
    vf x = row_get(dtype, r, i, count), y = changed(c, x) * scale + bias;
    if (count == VF) {
        if (r->sum != NULL) vec_put(dtype, r->sum, i, x);
        vec_put(dtype, r->y, i, y);
    } else {
        if (r->sum != NULL) vec_put_n(dtype, r->sum, i, x, count);
        vec_put_n(dtype, r->y, i, y, count);
    }
}

/* A row whose weights have one number for each `run` elements. */
VEC_INLINE void write_runs(rlx_dtype dtype, const affine *w, const row *r, change c, int64_t run) {
    for (int64_t at = 0, number = 0; at < r->n; at += run, number++) {
        float scale = ((const float *)w->scale)[number];
        float bias = w->bias == NULL ? -0.0f : ((const float *)w->bias)[number]; /* x + -0 is x */
        int64_t i = at, end = at + run;
        for (; i + VF <= end; i += VF)
            write_alike(dtype, r, c, scale, bias, i, VF);
        if (i < end) write_alike(dtype, r, c, scale, bias, i, end - i);
    }
}

VEC_INLINE row row_at(int64_t bytes, const ready *from, const turned *by, int64_t item) {
    const norm *self = &from->self;
    int64_t at = (item - by->first) * self->length * bytes;
    row r = {.from = vec_at(self->x, bytes, vec_index_at(&from->x, item)),
             .y = vec_to(self->y, bytes, vec_index_at(&from->y, item)),
             .n = self->length};
    if (by->x != NULL) r.from = (const char *)by->x + at;
    if (self->residual->data != NULL)
        r.residual = vec_at(self->residual, bytes, vec_index_at(&from->residual, item));
    if (by->residual != NULL) r.residual = (const char *)by->residual + at;
    if (self->sum->data != NULL) r.sum = vec_to(self->sum, bytes, vec_index_at(&from->sum, item));
    return r;
}

VEC_INLINE void run_block(rlx_dtype dtype, const ready *from, const affine *w, const block *b) {
    const norm *self = &from->self;
    moments m;
    sums_block(dtype, self, b, &m);
    moments_of_sums(dtype, self, b, &m);
    for (int64_t k = 0; k < b->count; k++) {
        row r = row_of(b, k);
        change c = {vf_set(m.shift[k]), vf_set(m.factor[k]), vf_set(m.offset[k])};
        if (from->run != 0) {
            write_runs(dtype, w, &r, c, from->run);
        } else {
            bool streams =
                self->streams && ((uint64_t)(uintptr_t)r.y | (uint64_t)b->y) % RLX_VEC_BYTES == 0;
            write_row(dtype, *w, r, c, streams, (b->bytes * (3 * b->count - k)) >> 1);
        }
    }
}

/* Bytes from row to row, where that is always the same. */
static int64_t row_step(const ready *from, const vec_index *index, const void *beside) {
    int64_t unit = vec_bytes(from->self.x->dtype);
    if (beside != NULL) return from->self.length * unit;
    return index->rank == 0 ? 0 : index->strides[0] * unit;
}

static void run_rows(const ready *from, const turned *by, int64_t begin, int64_t end) {
    const norm *self = &from->self;
    const affine w = {self->scale->data, self->bias->data, self->scale->dtype == RLX_DTYPE_F32,
                      self->bias->dtype == RLX_DTYPE_F32};
    int64_t unit = vec_bytes(self->x->dtype), most = 1;
    block b = {.from = row_step(from, &from->x, by->x),
               .residual = row_step(from, &from->residual, by->residual),
               .sum = row_step(from, &from->sum, NULL),
               .y = row_step(from, &from->y, NULL),
               .bytes = self->length * unit};
    if (b.bytes == 0) return;
    bool is_even = (from->x.rank <= 1 || by->x != NULL) && from->y.rank <= 1 &&
                   (from->residual.rank <= 1 || by->residual != NULL) && from->sum.rank <= 1;
    if (is_even && b.bytes <= BLOCK_BYTES) most = rlx_ref_least(BLOCK_BYTES / b.bytes, BLOCK);
    for (; begin < end; begin += b.count) {
        b.count = rlx_ref_least(most, end - begin);
        b.first = row_at(unit, from, by, begin);
        VEC_BY_DTYPE(self->x->dtype, run_block, from, &w, &b);
    }
    if (self->streams) vec_stream_end();
}

/* Rows [begin, end) of a tensor that has holes, side by side in `room`. */
static const void *turn_rows(const norm *self, const rlx_tensor *x, int64_t begin, int64_t end,
                             void *room) {
    const vec_index outer = vec_index_without(x, self->axis, x->rank);
    int64_t stride = x->strides[self->axis], length = self->length, unit = vec_bytes(x->dtype);
    int64_t rows = end - begin, first = vec_index_at(&outer, begin), at[TURN_ROWS];
    float *wide = room;
    uint16_t *narrow = room;
    bool is_plane = true;
    for (int64_t i = 0; i < rows; i++) {
        at[i] = vec_index_at(&outer, begin + i);
        is_plane = is_plane && at[i] == first + i;
    }
    if (is_plane) {
        vec_transpose(unit, room, length * unit, vec_at(x, unit, first), stride * unit, rows,
                      length, VEC_TURN_NEAR);
        return room;
    }
    for (int64_t j = 0; j < length; j++) {
        for (int64_t i = 0; i < rows; i++) {
            int64_t from = at[i] + j * stride;
            if (x->dtype == RLX_DTYPE_F32) {
                wide[i * length + j] = ((const float *)x->data)[from];
            } else {
                narrow[i * length + j] = ((const uint16_t *)x->data)[from];
            }
        }
    }
    return room;
}

/* Bytes of the rows that are put side by side at a time. */
static int64_t turned_bytes(const norm *self) {
    return TURN_ROWS * self->length * vec_bytes(self->x->dtype);
}

static void make(const rlx_kernel_args *args, void *memory) {
    ready *made = memory;
    *made = (ready){.self = norm_of(args)};
    const norm *self = &made->self;
    made->fits = fits(self);
    if (!made->fits) return;
    made->turns_x = is_turned(self, self->x);
    made->turns_residual = is_turned(self, self->residual);
    made->run = is_row(self, self->scale) && is_row(self, self->bias) ? 0 : common_run(self);
    made->x = vec_index_without(self->x, self->axis, self->x->rank);
    made->residual = vec_index_without(self->residual, self->axis, self->residual->rank);
    made->y = vec_index_without(self->y, self->axis, self->y->rank);
    made->sum = vec_index_without(self->sum, self->axis, self->sum->rank);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    ready now;
    const ready *from = args->prepared;
    if (from == NULL) make(args, &now), from = &now;
    if (!from->fits) {
        vec_scalar_run(args, begin, end);
        return;
    }
    const norm *self = &from->self;
    char *room = args->workspace;
    for (int64_t at = begin, next; at < end; at = next) {
        turned by = {.first = at};
        next = from->turns_x || from->turns_residual ? rlx_ref_least(at + TURN_ROWS, end) : end;
        if (from->turns_x) by.x = turn_rows(self, self->x, at, next, room);
        if (from->turns_residual)
            by.residual = turn_rows(self, self->residual, at, next,
                                    room + (from->turns_x ? turned_bytes(self) : 0));
        run_rows(from, &by, at, next);
    }
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    norm self = norm_of(args);
    if (!fits(&self)) return 0;
    return (uint64_t)turned_bytes(&self) *
           (is_turned(&self, self.x) + is_turned(&self, self.residual));
}

static int64_t item_cost(const rlx_kernel_args *args) {
    return norm_of(args).length;
}

static bool takes(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    norm self = norm_of(&args);
    return fits(&self);
}

const rlx_cpu_override VEC_SYMBOL(norm)[] = {
    {RLX_OP_LAYER_NORM,
     0,
     takes,
     {VEC_NAME("layer_norm"), run, vec_scalar_items, item_cost, workspace_bytes}},
    {RLX_OP_RMS_NORM,
     0,
     takes,
     {VEC_NAME("rms_norm"), run, vec_scalar_items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
const rlx_cpu_preparation VEC_SYMBOL(norm_preparation) = {
    .run = run, .size = sizeof(ready), .make = make};
