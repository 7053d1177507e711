/* SPDX-License-Identifier: Apache-2.0 */
/* layer_norm and rms_norm over rows without holes, in f32, f16 and bf16, with the residual's
 * addition. One item is one row. A row is read once from memory: sum and squares are taken in one
 * pass, less the mean of its first elements, so that a large common offset costs no digits; where
 * that guess was bad the squares are summed again. The sums of the next row are taken while this
 * one is written, so that memory is read and written at the same time. Rows of x and of the
 * residual that have holes (channels of an image, turned) are put side by side first, a few at a
 * time. Scale and bias are rows as well, or have one number for each run of a row (for each channel
 * of a row of channels and time). */
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

/* One row. `from` is x, or x + residual once that is written down. */
typedef struct row {
    const void *from, *residual;
    void *sum, *y; /* sum NULL: nobody wants it */
    int64_t n;
} row;

/* Elements i .. i + count of x + residual, rounded to the dtype. */
VEC_INLINE vf row_get(rlx_dtype dtype, const row *r, int64_t i, int64_t count) {
    vf x = count == VF ? vec_get(dtype, r->from, i) : vec_get_n(dtype, r->from, i, count);
    if (r->residual == NULL) return x;
    x += count == VF ? vec_get(dtype, r->residual, i) : vec_get_n(dtype, r->residual, i, count);
    if (dtype == RLX_DTYPE_F16) x = vf_of_f16(f16_of_vf(x));
    if (dtype == RLX_DTYPE_BF16) x = vf_of_bf16(bf16_of_vf(x));
    return x;
}

typedef struct moments {
    float shift, mean; /* the mean is shift + mean */
    float factor;
} moments;

/* A guess at the mean: exact for rows that are shorter than a vector. */
VEC_INLINE float guess_mean(rlx_dtype dtype, const row *r) {
    int64_t count = rlx_ref_least(VF, r->n);
    float mean = vf_sum(vec_lanes_or(row_get(dtype, r, 0, count), count, 0)) / (float)count;
    return isfinite(mean) ? mean : 0;
}

/* Sums of x - shift and of its squares, each in LANES vectors, which are added up in a fixed order.
 */
enum { LANES = 4 };
typedef struct sums {
    float shift;
    vf sum[LANES], squares[LANES];
} sums;

OUTLINE float first_shift(rlx_dtype dtype, const norm *self, const row *r) {
    float shift = 0;
    if (!self->is_rms) VEC_BY_DTYPE(dtype, shift = guess_mean, r);
    return shift;
}
/* Vector by vector: to clear it as a whole takes longer. */
VEC_INLINE sums sums_none(float shift) {
    sums s;
    s.shift = shift;
    VEC_UNROLLED for (int k = 0; k < LANES; k++) s.sum[k] = s.squares[k] = vf_set(0);
    return s;
}
/* LANES vectors from i on. */
VEC_INLINE void sums_add(rlx_dtype dtype, const row *r, int64_t i, sums *s) {
    VEC_UNROLLED for (int k = 0; k < LANES; k++) {
        vf x = row_get(dtype, r, i + k * VF, VF) - s->shift;
        s->sum[k] += x;
        s->squares[k] = vf_fma(x, x, s->squares[k]);
    }
}
/* The rest of the row. */
VEC_INLINE void sums_rest(rlx_dtype dtype, const row *r, int64_t i, sums *s) {
    for (; i < r->n; i += VF) {
        int64_t count = rlx_ref_least(VF, r->n - i);
        vf x = vec_lanes_or(row_get(dtype, r, i, count) - s->shift, count, 0);
        s->sum[0] += x;
        s->squares[0] = vf_fma(x, x, s->squares[0]);
    }
}
VEC_INLINE void sums_row(rlx_dtype dtype, const row *r, float shift, sums *s) {
    sums now = sums_none(shift);
    for (int64_t i = 0; i + LANES * VF <= r->n; i += LANES * VF)
        sums_add(dtype, r, i, &now);
    *s = now;
}

/* Moments that f32 cannot hold: numbers beyond its range, or so small that their squares vanish. */
static moments moments_in_f64(rlx_dtype dtype, const norm *self, const row *r) {
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
    return (moments){(float)mean, (float)(mean - (float)mean),
                     (float)(1 / sqrt(squares / n + self->epsilon))};
}

/* From the sums of whole LANES. */
OUTLINE moments row_moments(rlx_dtype dtype, const norm *self, const row *r, sums *s) {
    const float least = self->epsilon > 1e-20 ? -1 : 1e-30f, most = 1e36f, n = (float)r->n;
    for (bool is_again = false;; is_again = true) {
        VEC_BY_DTYPE(dtype, sums_rest, r, r->n / (LANES * VF) * (LANES * VF), s);
        float sum = vf_sum((s->sum[0] + s->sum[1]) + (s->sum[2] + s->sum[3]));
        float squares = vf_sum((s->squares[0] + s->squares[1]) + (s->squares[2] + s->squares[3]));
        float mean = self->is_rms ? 0 : sum / n;
        double square = squares / n, variance = square - (double)mean * mean;
        if (is_again || self->is_rms || !(variance < 0.25 * square)) {
            if (!(squares < most && squares > least)) return moments_in_f64(dtype, self, r);
            if (variance < 0) variance = 0;
            return (moments){s->shift, mean, (float)(1 / sqrt(variance + self->epsilon))};
        }
        /* Once more, with a better guess: little is left to take away. */
        VEC_BY_DTYPE(dtype, sums_row, r, s->shift + mean, s);
    }
}

/* Reads a row for its moments alone. */
OUTLINE moments first_moments(rlx_dtype dtype, const norm *self, const row *r) {
    sums s;
    VEC_BY_DTYPE(dtype, sums_row, r, first_shift(dtype, self, r), &s);
    return row_moments(dtype, self, r, &s);
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

/* 16 bits take no harm from a product that is rounded before the sum, so they are spared two
 * instructions. */
VEC_INLINE vf finish_half(rlx_dtype dtype, affine w, moments m, vf x, int64_t i, int64_t count) {
    vf y = vf_fma(x - m.shift, vf_set(m.factor), vf_set(-m.mean * m.factor));
    vf bias = vf_set(-0.0f); /* x + -0 is x */
    if (w.bias != NULL) bias = weight_get(dtype, w.bias, w.bias_is_f32, i, count);
    if (w.scale == NULL) return y + bias;
    return vf_fma(y, weight_get(dtype, w.scale, w.scale_is_f32, i, count), bias);
}

VEC_INLINE vf finish(rlx_dtype dtype, affine w, moments m, vf x, int64_t i, int64_t count) {
    if (dtype != RLX_DTYPE_F32) return finish_half(dtype, w, m, x, i, count);
    vf y = (x - m.shift - m.mean) * m.factor;
    if (w.scale != NULL) y *= weight_get(dtype, w.scale, w.scale_is_f32, i, count);
    if (w.bias != NULL) y += weight_get(dtype, w.bias, w.bias_is_f32, i, count);
    return y;
}

/* LANES vectors of a row, whatever there is. */
VEC_INLINE void write_lanes(rlx_dtype dtype, affine w, const row *r, moments m, bool streams,
                            int64_t i) {
    vf y[LANES];
    VEC_UNROLLED for (int k = 0; k < LANES; k++) {
        int64_t at = i + k * VF;
        vf x = row_get(dtype, r, at, VF);
        if (r->sum != NULL) vec_put(dtype, r->sum, at, x);
        y[k] = finish(dtype, w, m, x, at, VF);
        if (streams) vf_stream((float *)r->y + at, y[k]);
    }
    if (!streams) vec_put_all(dtype, r->y, i, y, LANES);
}

/* A row from i on. */
VEC_INLINE void write_from(rlx_dtype dtype, affine w, const row *r, moments m, bool streams,
                           int64_t i) {
    for (; i + LANES * VF <= r->n; i += LANES * VF)
        write_lanes(dtype, w, r, m, dtype == RLX_DTYPE_F32 && streams, i);
    for (; i < r->n; i += VF) {
        int64_t count = rlx_ref_least(VF, r->n - i);
        vf x = row_get(dtype, r, i, count);
        if (r->sum != NULL) vec_put_n(dtype, r->sum, i, x, count);
        vec_put_n(dtype, r->y, i, finish(dtype, w, m, x, i, count), count);
    }
}
OUTLINE void write_rest(rlx_dtype dtype, affine w, const row *r, moments m, bool streams,
                        int64_t i) {
    VEC_BY_DTYPE(dtype, write_from, w, r, m, streams, i);
}

/* The whole LANES of a plain row, and the sums of the next one. What is absent and how it is
 * written are constants here: a loop without questions. */
VEC_INLINE void write_loop(rlx_dtype dtype, affine w, row r, moments m, bool streams, row next,
                           float shift, sums *s) {
    sums now = sums_none(shift); /* in registers, whoever looks at them later */
    r.residual = next.residual = NULL;
    r.sum = NULL;
    for (int64_t i = 0; i + LANES * VF <= r.n; i += LANES * VF) {
        sums_add(dtype, &next, i, &now);
        VEC_UNROLLED for (int k = 0; k < LANES * VF * vec_bytes(dtype); k += 64)
            __builtin_prefetch((const char *)next.from + (r.n + i) * vec_bytes(dtype) + k);
        write_lanes(dtype, w, &r, m, streams, i);
    }
    *s = now;
}

/* The common cases have loops of their own: weights of f32, or all of the dtype of x. False: none
 * of them. */
VEC_INLINE bool write_common(rlx_dtype dtype, affine w, const row *r, moments m, bool streams,
                             const row *next, float shift, sums *s) {
    bool has_bias = w.bias != NULL;
    if (w.scale == NULL || (has_bias && w.scale_is_f32 != w.bias_is_f32)) return false;
    if (dtype == RLX_DTYPE_F32 ? streams : w.scale_is_f32) {
        w.scale_is_f32 = w.bias_is_f32 = true;
        if (has_bias) {
            write_loop(dtype, w, *r, m, dtype == RLX_DTYPE_F32, *next, shift, s);
        } else {
            w.bias = NULL;
            write_loop(dtype, w, *r, m, dtype == RLX_DTYPE_F32, *next, shift, s);
        }
    } else {
        w.scale_is_f32 = w.bias_is_f32 = false;
        if (has_bias) {
            write_loop(dtype, w, *r, m, false, *next, shift, s);
        } else {
            w.bias = NULL;
            write_loop(dtype, w, *r, m, false, *next, shift, s);
        }
    }
    return true;
}

/* Elements i .. i + count of a run, all with the same weights. */
VEC_INLINE void write_alike(rlx_dtype dtype, const row *r, moments m, float scale, float bias,
                            int64_t i, int64_t count) {
    vf x = row_get(dtype, r, i, count), y = (x - m.shift - m.mean) * m.factor * scale + bias;
    if (count == VF) {
        if (r->sum != NULL) vec_put(dtype, r->sum, i, x);
        vec_put(dtype, r->y, i, y);
    } else {
        if (r->sum != NULL) vec_put_n(dtype, r->sum, i, x, count);
        vec_put_n(dtype, r->y, i, y, count);
    }
}

/* A row whose weights have one number for each `run` elements. */
VEC_INLINE void write_runs(rlx_dtype dtype, affine w, const row *r, moments m, int64_t run) {
    for (int64_t at = 0, number = 0; at < r->n; at += run, number++) {
        float scale = ((const float *)w.scale)[number];
        float bias = w.bias == NULL ? -0.0f : ((const float *)w.bias)[number]; /* x + -0 is x */
        int64_t i = at, end = at + run;
        for (; i + VF <= end; i += VF)
            write_alike(dtype, r, m, scale, bias, i, VF);
        if (i < end) write_alike(dtype, r, m, scale, bias, i, end - i);
    }
}

VEC_INLINE row row_at(rlx_dtype dtype, const ready *from, const turned *by, int64_t item) {
    const norm *self = &from->self;
    int64_t bytes = vec_bytes(dtype), at = (item - by->first) * self->length * bytes;
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

VEC_INLINE void run_rows(rlx_dtype dtype, const ready *from, const turned *by, int64_t begin,
                         int64_t end) {
    const norm *self = &from->self;
    affine w = {self->scale->data, self->bias->data, self->scale->dtype == RLX_DTYPE_F32,
                self->bias->dtype == RLX_DTYPE_F32};
    bool is_plain = self->residual->data == NULL && self->sum->data == NULL, is_known = false;
    moments m = {0, 0, 0};
    for (int64_t item = begin; self->length > 0 && item < end; item++) {
        row r = row_at(dtype, from, by, item), next = r;
        if (from->run != 0) {
            m = first_moments(dtype, self, &r);
            write_runs(dtype, w, &r, m, from->run);
            continue;
        }
        bool streams = self->streams && (uintptr_t)r.y % RLX_VEC_BYTES == 0;
        if (!is_known) m = first_moments(dtype, self, &r);
        is_known = is_plain && item + 1 < end;
        if (is_known) {
            next = row_at(dtype, from, by, item + 1);
            float shift = first_shift(dtype, self, &next);
            sums s = sums_none(shift);
            is_known = write_common(dtype, w, &r, m, streams, &next, shift, &s);
            write_rest(dtype, w, &r, m, streams, is_known ? r.n / (LANES * VF) * (LANES * VF) : 0);
            if (is_known) m = row_moments(dtype, self, &next, &s);
        } else {
            write_rest(dtype, w, &r, m, streams, 0);
        }
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
        VEC_SYMBOL(transpose)
        (unit, room, length * unit, vec_at(x, unit, first), stride * unit, rows, length,
         VEC_TURN_NEAR);
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

static uint64_t ready_bytes(const rlx_kernel_args *args) {
    (void)args;
    return sizeof(ready);
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
        VEC_BY_DTYPE(self->x->dtype, run_rows, from, &by, at, next);
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
const rlx_cpu_preparation VEC_SYMBOL(norm_preparation) = {run, ready_bytes, make, NULL};
