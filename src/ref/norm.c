/* SPDX-License-Identifier: Apache-2.0 */
/* Norms. layer and rms: one item is one row of normalised elements; the sum x + residual is rounded
 * to x's dtype before it is normalised, so fusing the addition changes nothing. Channel norms: one
 * item is one (batch, channel or group). Moments in f64, two passes. */
#include "ref/kernel.h"
#include "ref/lines.h"

#include <math.h>

enum { CHUNK = 256 };

static const rlx_tensor absent = {0};

static const rlx_tensor *input_or_absent(const rlx_kernel_args *args, uint32_t input) {
    return input < args->in_count ? &args->in[input] : &absent;
}

/* A row of layer_norm or rms_norm: where it starts in every operand. */
typedef struct row_norm {
    const rlx_tensor *x, *scale, *bias, *residual, *y, *sum;
    uint32_t axis, rank;
    const int64_t *dims;
    rlx_ref_runs runs;
    int64_t scale_strides[RLX_MAX_RANK], bias_strides[RLX_MAX_RANK];
    int64_t residual_strides[RLX_MAX_RANK];
    int64_t x_at, residual_at, y_at, sum_at;
} row_norm;

static row_norm make_row_norm(const rlx_kernel_args *args) {
    const rlx_norm_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0];
    row_norm norm = {.x = x,
                     .scale = input_or_absent(args, 1),
                     .bias = input_or_absent(args, 2),
                     .residual = input_or_absent(args, 3),
                     .y = &args->out[0],
                     .sum = args->out_count > 1 ? &args->out[1] : &absent,
                     .rank = x->rank,
                     .dims = x->dims};
    norm.axis = (uint32_t)(attrs->axis < 0 ? attrs->axis + x->rank : attrs->axis);
    norm.runs = rlx_ref_runs_of(x->rank, x->dims, norm.axis);
    rlx_ref_broadcast_strides(norm.scale, x->rank, norm.scale_strides);
    rlx_ref_broadcast_strides(norm.bias, x->rank, norm.bias_strides);
    rlx_ref_broadcast_strides(norm.residual, x->rank, norm.residual_strides);
    return norm;
}

/* `count` elements of run `run`, from element `i` of it on. */
static void read_run(const row_norm *norm, const rlx_tensor *tensor, const int64_t *strides,
                     int64_t base, int64_t run, int64_t i, int64_t count, double *out) {
    int64_t stride = strides[norm->rank - 1];
    int64_t offset = base + rlx_ref_run_offset(&norm->runs, norm->dims, strides, run);
    rlx_ref_read_f64(tensor, offset + i * stride, stride, count, out);
}

/* x + residual, rounded to x's dtype. */
static void read_sum(const row_norm *norm, int64_t run, int64_t i, int64_t count, double *out) {
    double more[CHUNK];
    read_run(norm, norm->x, norm->x->strides, norm->x_at, run, i, count, out);
    if (norm->residual->data == NULL) return;
    read_run(norm, norm->residual, norm->residual_strides, norm->residual_at, run, i, count, more);
    for (int64_t j = 0; j < count; j++)
        out[j] = rlx_ref_round_to(norm->x->dtype, out[j] + more[j]);
}

static void write_run(const row_norm *norm, const rlx_tensor *tensor, int64_t base, int64_t run,
                      int64_t i, int64_t count, const double *values) {
    int64_t stride = tensor->strides[norm->rank - 1];
    int64_t offset = base + rlx_ref_run_offset(&norm->runs, norm->dims, tensor->strides, run);
    rlx_ref_write_f64(tensor, offset + i * stride, stride, count, values);
}

/* The sum over the row of (value - shift), or of its square. */
static double row_sum(const row_norm *norm, double shift, bool square) {
    double chunk[CHUNK], sum = 0;
    for (int64_t run = 0; run < norm->runs.count; run++) {
        for (int64_t i = 0; i < norm->runs.length; i += CHUNK) {
            int64_t count = rlx_ref_least(CHUNK, norm->runs.length - i);
            read_sum(norm, run, i, count, chunk);
            for (int64_t j = 0; j < count; j++) {
                double value = chunk[j] - shift;
                sum += square ? value * value : value;
            }
        }
    }
    return sum;
}

static void finish_chunk(const row_norm *norm, int64_t run, int64_t i, int64_t count, double *chunk,
                         double mean, double factor) {
    double more[CHUNK];
    for (int64_t j = 0; j < count; j++)
        chunk[j] = (chunk[j] - mean) * factor;
    if (norm->scale->data != NULL) {
        read_run(norm, norm->scale, norm->scale_strides, 0, run, i, count, more);
        for (int64_t j = 0; j < count; j++)
            chunk[j] *= more[j];
    }
    if (norm->bias->data != NULL) {
        read_run(norm, norm->bias, norm->bias_strides, 0, run, i, count, more);
        for (int64_t j = 0; j < count; j++)
            chunk[j] += more[j];
    }
}

static void norm_row(const row_norm *norm, bool is_rms, double epsilon) {
    double chunk[CHUNK];
    double elements = (double)(norm->runs.count * norm->runs.length);
    double mean = is_rms ? 0 : row_sum(norm, 0, false) / elements;
    double factor = 1 / sqrt(row_sum(norm, mean, true) / elements + epsilon);
    for (int64_t run = 0; run < norm->runs.count; run++) {
        for (int64_t i = 0; i < norm->runs.length; i += CHUNK) {
            int64_t count = rlx_ref_least(CHUNK, norm->runs.length - i);
            read_sum(norm, run, i, count, chunk);
            if (norm->sum->data != NULL)
                write_run(norm, norm->sum, norm->sum_at, run, i, count, chunk);
            finish_chunk(norm, run, i, count, chunk, mean, factor);
            write_run(norm, norm->y, norm->y_at, run, i, count, chunk);
        }
    }
}

static void run_row_norm(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_norm_attrs *attrs = args->attrs;
    row_norm norm = make_row_norm(args);
    for (int64_t item = begin; item < end; item++) {
        norm.x_at = rlx_ref_offset(norm.axis, norm.dims, norm.x->strides, item);
        norm.residual_at = rlx_ref_offset(norm.axis, norm.dims, norm.residual_strides, item);
        norm.y_at = rlx_ref_offset(norm.axis, norm.dims, norm.y->strides, item);
        norm.sum_at = rlx_ref_offset(norm.axis, norm.dims, norm.sum->strides, item);
        norm_row(&norm, args->op == RLX_OP_RMS_NORM, attrs->epsilon);
    }
}

static int64_t row_norm_items(const rlx_kernel_args *args) {
    row_norm norm = make_row_norm(args);
    int64_t items = 1;
    for (uint32_t i = 0; i < norm.axis; i++)
        items *= norm.dims[i];
    return items;
}

/* Batch, group and instance norm: x [N][C][spatial..]. */
typedef struct channel_norm {
    const rlx_tensor *x, *y;
    rlx_ref_runs runs; /* of one plane */
    int64_t channels;  /* per item */
    int64_t blocks;    /* items per batch entry: C / channels */
    double epsilon;
} channel_norm;

static channel_norm make_channel_norm(const rlx_kernel_args *args) {
    const rlx_norm_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0];
    channel_norm norm = {.x = x, .y = &args->out[0], .channels = 1, .epsilon = attrs->epsilon};
    norm.blocks = x->dims[1];
    if (args->op == RLX_OP_GROUP_NORM) {
        norm.blocks = attrs->groups == 0 ? 1 : attrs->groups;
        norm.channels = x->dims[1] / norm.blocks;
    }
    norm.runs = rlx_ref_runs_of(x->rank, x->dims, 2);
    return norm;
}

/* Where run `run` of the plane (n, c) starts, and the step along it. */
static int64_t plane_run(const channel_norm *norm, const rlx_tensor *tensor, int64_t n, int64_t c,
                         int64_t run, int64_t *out_stride) {
    *out_stride = tensor->rank > 2 ? tensor->strides[tensor->rank - 1] : 1;
    return n * tensor->strides[0] + c * tensor->strides[1] +
           rlx_ref_run_offset(&norm->runs, tensor->dims, tensor->strides, run);
}

static double plane_sum(const channel_norm *norm, int64_t n, int64_t c, double shift, bool square) {
    double chunk[CHUNK], sum = 0;
    for (int64_t run = 0; run < norm->runs.count; run++) {
        int64_t stride, at = plane_run(norm, norm->x, n, c, run, &stride);
        for (int64_t i = 0; i < norm->runs.length; i += CHUNK) {
            int64_t count = rlx_ref_least(CHUNK, norm->runs.length - i);
            rlx_ref_read_f64(norm->x, at + i * stride, stride, count, chunk);
            for (int64_t j = 0; j < count; j++) {
                double value = chunk[j] - shift;
                sum += square ? value * value : value;
            }
        }
    }
    return sum;
}

/* y = (x - mean) * factor + bias over one plane. */
static void scale_plane(const channel_norm *norm, int64_t n, int64_t c, double mean, double factor,
                        double bias) {
    double chunk[CHUNK];
    for (int64_t run = 0; run < norm->runs.count; run++) {
        int64_t x_stride, y_stride;
        int64_t x_at = plane_run(norm, norm->x, n, c, run, &x_stride);
        int64_t y_at = plane_run(norm, norm->y, n, c, run, &y_stride);
        for (int64_t i = 0; i < norm->runs.length; i += CHUNK) {
            int64_t count = rlx_ref_least(CHUNK, norm->runs.length - i);
            rlx_ref_read_f64(norm->x, x_at + i * x_stride, x_stride, count, chunk);
            for (int64_t j = 0; j < count; j++)
                chunk[j] = (chunk[j] - mean) * factor + bias;
            rlx_ref_write_f64(norm->y, y_at + i * y_stride, y_stride, count, chunk);
        }
    }
}

static double per_channel(const rlx_tensor *tensor, int64_t c) {
    return rlx_load_f64(tensor->dtype, tensor->data, c * tensor->strides[0]);
}

static void group_moments(const channel_norm *norm, int64_t n, int64_t first, double *out_mean,
                          double *out_variance) {
    double elements = (double)(norm->channels * norm->runs.count * norm->runs.length);
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < norm->channels; c++)
        sum += plane_sum(norm, n, first + c, 0, false);
    *out_mean = sum / elements;
    for (int64_t c = 0; c < norm->channels; c++)
        squares += plane_sum(norm, n, first + c, *out_mean, true);
    *out_variance = squares / elements;
}

static void run_channel_norm(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    channel_norm norm = make_channel_norm(args);
    for (int64_t item = begin; item < end; item++) {
        int64_t n = item / norm.blocks, first = item % norm.blocks * norm.channels;
        double mean, variance;
        if (args->op == RLX_OP_BATCH_NORM) {
            mean = per_channel(&args->in[3], first);
            variance = per_channel(&args->in[4], first);
        } else {
            group_moments(&norm, n, first, &mean, &variance);
        }
        for (int64_t c = first; c < first + norm.channels; c++) {
            double factor = per_channel(&args->in[1], c) / sqrt(variance + norm.epsilon);
            scale_plane(&norm, n, c, mean, factor, per_channel(&args->in[2], c));
        }
    }
}

static int64_t channel_norm_items(const rlx_kernel_args *args) {
    return args->in[0].dims[0] * make_channel_norm(args).blocks;
}

const rlx_ref_row rlx_ref_norm_rows[] = {
    {RLX_OP_LAYER_NORM, {"layer_norm_scalar", run_row_norm, row_norm_items, NULL, NULL}},
    {RLX_OP_RMS_NORM, {"rms_norm_scalar", run_row_norm, row_norm_items, NULL, NULL}},
    {RLX_OP_BATCH_NORM, {"batch_norm_scalar", run_channel_norm, channel_norm_items, NULL, NULL}},
    {RLX_OP_GROUP_NORM, {"group_norm_scalar", run_channel_norm, channel_norm_items, NULL, NULL}},
    {RLX_OP_INSTANCE_NORM,
     {"instance_norm_scalar", run_channel_norm, channel_norm_items, NULL, NULL}},
};
const uint32_t rlx_ref_norm_count = 5;
