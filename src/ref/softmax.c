/* SPDX-License-Identifier: Apache-2.0 */
/* softmax and log_softmax along one axis; one item is one line. Sums and exponentials in f64. A
 * line of minus infinities gives NaN, as in ONNX. */
#include "ref/kernel.h"
#include "ref/lines.h"

#include <math.h>

enum { CHUNK = 256, KEPT = 2048 };

static const rlx_axis_attrs *axis_of(const rlx_kernel_args *args) {
    return args->attrs;
}

static double line_max(const rlx_tensor *x, int64_t offset, const rlx_ref_lines *line) {
    double chunk[CHUNK], most = -INFINITY;
    for (int64_t i = 0; i < line->length; i += CHUNK) {
        int64_t count = rlx_ref_least(CHUNK, line->length - i);
        rlx_ref_read_f64(x, offset + i * line->stride, line->stride, count, chunk);
        for (int64_t j = 0; j < count; j++)
            most = chunk[j] > most ? chunk[j] : most;
    }
    return most;
}

/* The sum of the exponentials; the first KEPT of them are kept. */
static double line_sum(const rlx_tensor *x, int64_t offset, const rlx_ref_lines *line, double most,
                       double *kept) {
    double chunk[CHUNK], sum = 0;
    for (int64_t i = 0; i < line->length; i += CHUNK) {
        int64_t count = rlx_ref_least(CHUNK, line->length - i);
        rlx_ref_read_f64(x, offset + i * line->stride, line->stride, count, chunk);
        for (int64_t j = 0; j < count; j++) {
            chunk[j] = exp(chunk[j] - most);
            sum += chunk[j];
        }
        if (i < KEPT) memcpy(kept + i, chunk, (size_t)count * sizeof *chunk);
    }
    return sum;
}

static void finish_softmax(double *chunk, int64_t count, double most, double sum,
                           const double *kept) {
    for (int64_t i = 0; i < count; i++)
        chunk[i] = (kept != NULL ? kept[i] : exp(chunk[i] - most)) / sum;
}

static void finish_log_softmax(double *chunk, int64_t count, double most, double log_sum) {
    for (int64_t i = 0; i < count; i++)
        chunk[i] = chunk[i] - most - log_sum;
}

static void run_softmax(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    rlx_ref_lines from = rlx_ref_lines_of(x, axis_of(args)->axis);
    rlx_ref_lines to = rlx_ref_lines_of(y, axis_of(args)->axis);
    double chunk[CHUNK], kept[KEPT];
    for (int64_t item = begin; item < end; item++) {
        int64_t in = rlx_ref_line_offset(&from, item), out = rlx_ref_line_offset(&to, item);
        double most = line_max(x, in, &from), sum = line_sum(x, in, &from, most, kept);
        double log_sum = log(sum);
        for (int64_t i = 0; i < from.length; i += CHUNK) {
            int64_t count = rlx_ref_least(CHUNK, from.length - i);
            rlx_ref_read_f64(x, in + i * from.stride, from.stride, count, chunk);
            if (args->op == RLX_OP_SOFTMAX) {
                finish_softmax(chunk, count, most, sum, i < KEPT ? kept + i : NULL);
            } else {
                finish_log_softmax(chunk, count, most, log_sum);
            }
            rlx_ref_write_f64(y, out + i * to.stride, to.stride, count, chunk);
        }
    }
}

static int64_t softmax_items(const rlx_kernel_args *args) {
    return rlx_ref_lines_of(&args->out[0], axis_of(args)->axis).count;
}

static int64_t softmax_item_cost(const rlx_kernel_args *args) {
    return rlx_ref_cost(rlx_ref_lines_of(&args->out[0], axis_of(args)->axis).length, 32);
}

const rlx_ref_row rlx_ref_softmax_rows[] = {
    {RLX_OP_SOFTMAX, {"softmax_scalar", run_softmax, softmax_items, softmax_item_cost, NULL}},
    {RLX_OP_LOG_SOFTMAX,
     {"log_softmax_scalar", run_softmax, softmax_items, softmax_item_cost, NULL}},
};
const uint32_t rlx_ref_softmax_count = 2;
