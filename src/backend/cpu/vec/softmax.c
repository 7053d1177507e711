/* SPDX-License-Identifier: Apache-2.0 */
/* softmax of f32 along the last axis, where rows lie side by side. One item is one row. */
#include "backend/cpu/vec/vec_math.h"
#include "ref/lines.h"

#include <math.h>

static float row_max(const float *x, int64_t n) {
    vf most = vf_set(-INFINITY);
    int64_t i = 0;
    for (; i + VF <= n; i += VF)
        most = vf_max(vf_load(x + i), most);
    float result = vf_highest(most);
    for (; i < n; i++)
        result = x[i] > result ? x[i] : result;
    return result;
}

/* y = e^(x - most); returns the sum. */
static float row_exp(const float *x, float *y, int64_t n, float most) {
    vf sum = {0};
    int64_t i = 0;
    for (; i + VF <= n; i += VF) {
        vf e = vf_exp(vf_load(x + i) - most);
        vf_store(y + i, e);
        sum += e;
    }
    if (i < n) {
        vf e = vf_exp(vf_load_n(x + i, n - i) - most);
        vf_store_n(y + i, e, n - i);
        for (int64_t lane = 0; lane < n - i; lane++)
            sum[0] += e[lane];
    }
    return vf_sum(sum);
}

static void row_divide(float *y, int64_t n, float sum) {
    int64_t i = 0;
    for (; i + VF <= n; i += VF)
        vf_store(y + i, vf_load(y + i) / sum);
    for (; i < n; i++)
        y[i] /= sum;
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    rlx_ref_lines from = rlx_ref_lines_of(x, (int64_t)x->rank - 1);
    rlx_ref_lines to = rlx_ref_lines_of(y, (int64_t)x->rank - 1);
    for (int64_t item = begin; item < end; item++) {
        const float *in = (const float *)x->data + rlx_ref_line_offset(&from, item);
        float *out = (float *)y->data + rlx_ref_line_offset(&to, item);
        float sum = row_exp(in, out, from.length, row_max(in, from.length));
        row_divide(out, from.length, sum);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    return rlx_ref_lines_of(&args->out[0], (int64_t)args->out[0].rank - 1).count;
}

static int64_t item_cost(const rlx_kernel_args *args) {
    return args->out[0].dims[args->out[0].rank - 1];
}

static bool takes(const rlx_target_query *query) {
    const rlx_tensor *x = &query->in[0], *y = &query->out[0];
    const rlx_axis_attrs *attrs = query->attrs;
    uint32_t last = x->rank - 1;
    return x->rank > 0 && x->dtype == RLX_DTYPE_F32 && y->dtype == RLX_DTYPE_F32 &&
           (attrs->axis == -1 || attrs->axis == (int64_t)last) && x->strides[last] == 1 &&
           y->strides[last] == 1;
}

const rlx_cpu_override VEC_SYMBOL(softmax)[] = {
    {RLX_OP_SOFTMAX, 0, takes, {VEC_NAME("softmax"), run, items, item_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
