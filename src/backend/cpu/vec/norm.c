/* SPDX-License-Identifier: Apache-2.0 */
/* layer_norm and rms_norm over rows without holes, in f32, f16 and bf16, with the residual's
 * addition. One item is one row. A row is read once from memory: sum and squares are taken in one
 * pass, less the mean of its first elements, so that a large common offset costs no digits; where
 * that guess was bad the squares are summed again. */
#include "backend/cpu/vec/rows.h"

#include <math.h>

typedef struct norm {
    const rlx_tensor *x, *scale, *bias, *residual, *y, *sum; /* data NULL: absent */
    uint32_t axis;
    int64_t length;
    double epsilon;
    bool is_rms, streams;
} norm;

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
static bool has_rows(const norm *self, const rlx_tensor *tensor) {
    if (tensor->data == NULL) return true;
    return tensor->dtype == self->x->dtype && tensor->rank == self->x->rank &&
           vec_is_dense(tensor, self->axis);
}
/* A residual that is broadcast is none of ours. */
static bool is_like_x(const norm *self, const rlx_tensor *tensor) {
    for (uint32_t i = 0; tensor->data != NULL && i < tensor->rank; i++) {
        if (tensor->dims[i] != self->x->dims[i]) return false;
    }
    return has_rows(self, tensor);
}
static bool fits(const norm *self) {
    return vec_is_float(self->x->dtype) && has_rows(self, self->x) && has_rows(self, self->y) &&
           has_rows(self, self->sum) && is_like_x(self, self->residual) &&
           is_row(self, self->scale) && is_row(self, self->bias);
}

/* One row. `from` is x, or x + residual once that is written down. */
typedef struct row {
    const void *from, *residual, *next;
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

/* Sums of x - shift and of its squares, each in LANES vectors. */
enum { LANES = 4 };
VEC_INLINE void row_sums(rlx_dtype dtype, row r, float shift, float *sum, float *squares) {
    vf s[LANES] = {{0}}, q[LANES] = {{0}};
    int64_t i = 0;
    for (; i + LANES * VF <= r.n; i += LANES * VF) {
        VEC_UNROLLED for (int k = 0; k < LANES; k++) {
            vf x = row_get(dtype, &r, i + k * VF, VF) - shift;
            s[k] += x;
            q[k] = vf_fma(x, x, q[k]);
        }
    }
    for (; i < r.n; i += VF) {
        int64_t count = rlx_ref_least(VF, r.n - i);
        vf x = vec_lanes_or(row_get(dtype, &r, i, count) - shift, count, 0);
        s[0] += x;
        q[0] = vf_fma(x, x, q[0]);
    }
    *sum = vf_sum((s[0] + s[1]) + (s[2] + s[3]));
    *squares = vf_sum((q[0] + q[1]) + (q[2] + q[3]));
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

VEC_INLINE moments row_moments(rlx_dtype dtype, const norm *self, const row *r) {
    const float least = self->epsilon > 1e-20 ? -1 : 1e-30f, most = 1e36f, n = (float)r->n;
    moments m = {0, 0, 0};
    float sum, squares;
    if (!self->is_rms) m.shift = guess_mean(dtype, r);
    row_sums(dtype, *r, m.shift, &sum, &squares);
    double variance = squares / n;
    if (!self->is_rms) {
        m.mean = sum / n;
        variance -= (double)m.mean * m.mean;
        if (variance < 0.25 * squares / n) {
            /* Once more, with a better guess: little is left to take away. */
            m.shift += m.mean;
            row_sums(dtype, *r, m.shift, &sum, &squares);
            m.mean = sum / n;
            variance = squares / n - (double)m.mean * m.mean;
        }
        if (variance < 0) variance = 0;
    }
    if (!(squares < most && squares > least)) return moments_in_f64(dtype, self, r);
    m.factor = (float)(1 / sqrt(variance + self->epsilon));
    return m;
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

VEC_INLINE vf finish(rlx_dtype dtype, affine w, moments m, vf x, int64_t i, int64_t count) {
    vf y = (x - m.shift - m.mean) * m.factor;
    if (w.scale != NULL) y *= weight_get(dtype, w.scale, w.scale_is_f32, i, count);
    if (w.bias != NULL) y += weight_get(dtype, w.bias, w.bias_is_f32, i, count);
    return y;
}

VEC_INLINE void put(rlx_dtype dtype, void *y, int64_t i, vf value, bool streams) {
    if (streams) {
        vf_stream((float *)y + i, value);
    } else {
        vec_put(dtype, y, i, value);
    }
}

/* `streams` and what is absent are constants here. */
VEC_INLINE void write_row(rlx_dtype dtype, affine w, row r, moments m, bool streams) {
    int64_t i = 0;
    for (; i + 2 * VF <= r.n; i += 2 * VF) {
        vf a = row_get(dtype, &r, i, VF), b = row_get(dtype, &r, i + VF, VF);
        __builtin_prefetch((const char *)r.next + i * vec_bytes(dtype));
        if (r.sum != NULL) vec_put(dtype, r.sum, i, a), vec_put(dtype, r.sum, i + VF, b);
        put(dtype, r.y, i, finish(dtype, w, m, a, i, VF), streams);
        put(dtype, r.y, i + VF, finish(dtype, w, m, b, i + VF, VF), streams);
    }
    for (; i < r.n; i += VF) {
        int64_t count = rlx_ref_least(VF, r.n - i);
        vf x = row_get(dtype, &r, i, count);
        if (r.sum != NULL) vec_put_n(dtype, r.sum, i, x, count);
        vec_put_n(dtype, r.y, i, finish(dtype, w, m, x, i, count), count);
    }
}

/* The common cases on their own: a loop without questions. */
VEC_INLINE void write_case(rlx_dtype dtype, affine w, row r, moments m, bool streams) {
    bool is_plain = r.residual == NULL && r.sum == NULL;
    bool has_f32 = w.scale_is_f32 && (w.bias_is_f32 || w.bias == NULL);
    if (is_plain && dtype != RLX_DTYPE_F32 && has_f32 && w.scale != NULL && w.bias != NULL) {
        r.residual = r.sum = NULL;
        w.scale_is_f32 = w.bias_is_f32 = true;
        write_row(dtype, w, r, m, streams);
    } else if (is_plain && w.scale != NULL && w.bias != NULL) {
        r.residual = r.sum = NULL;
        write_row(dtype, w, r, m, streams);
    } else if (is_plain && w.scale != NULL) {
        r.residual = r.sum = NULL;
        w.bias = NULL;
        write_row(dtype, w, r, m, streams);
    } else {
        write_row(dtype, w, r, m, streams);
    }
}

VEC_INLINE void norm_row(rlx_dtype dtype, const norm *self, const row *r) {
    moments m = row_moments(dtype, self, r);
    affine w = {self->scale->data, self->bias->data, self->scale->dtype == RLX_DTYPE_F32,
                self->bias->dtype == RLX_DTYPE_F32};
    if (self->streams && dtype == RLX_DTYPE_F32 && (uintptr_t)r->y % RLX_VEC_BYTES == 0) {
        write_case(dtype, w, *r, m, true);
    } else {
        write_case(dtype, w, *r, m, false);
    }
}

VEC_INLINE void run_rows(rlx_dtype dtype, const norm *self, int64_t begin, int64_t end) {
    int64_t bytes = vec_bytes(dtype);
    vec_index x = vec_index_without(self->x, self->axis, self->x->rank);
    vec_index residual = vec_index_without(self->residual, self->axis, self->residual->rank);
    vec_index y = vec_index_without(self->y, self->axis, self->y->rank);
    vec_index sum = vec_index_without(self->sum, self->axis, self->sum->rank);
    for (int64_t item = begin; item < end; item++) {
        row r = {.from = vec_at(self->x, bytes, vec_index_at(&x, item)),
                 .y = vec_to(self->y, bytes, vec_index_at(&y, item)),
                 .n = self->length};
        r.next = (const char *)r.from + r.n * bytes;
        if (self->residual->data != NULL)
            r.residual = vec_at(self->residual, bytes, vec_index_at(&residual, item));
        if (self->sum->data != NULL) r.sum = vec_to(self->sum, bytes, vec_index_at(&sum, item));
        if (r.n > 0) norm_row(dtype, self, &r);
    }
    if (self->streams) vec_stream_end();
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    norm self = norm_of(args);
    if (!fits(&self)) {
        vec_scalar_run(args, begin, end);
        return;
    }
    VEC_BY_DTYPE(self.x->dtype, run_rows, &self, begin, end);
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
    {RLX_OP_LAYER_NORM, 0, takes, {VEC_NAME("layer_norm"), run, vec_scalar_items, item_cost, NULL}},
    {RLX_OP_RMS_NORM, 0, takes, {VEC_NAME("rms_norm"), run, vec_scalar_items, item_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
