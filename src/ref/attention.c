/* SPDX-License-Identifier: Apache-2.0 */
/* attention with a running softmax (the scores of a whole row are never stored), and rope. An item
 * of attention is a block of query rows that share one head of k and v, so that each key is read
 * once per block. Sums in f32, or f64 for f64. */
#include "ref/attention.h"

#include "ref/dot.h"

#include <math.h>
#include <string.h>

enum { ROWS = 8, KEYS = 32 };

#define TYPE   float
#define SUFFIX f32
#define NATIVE RLX_DTYPE_F32
#define EXP    expf
#define TANH   tanhf
#include "ref/attention_body.h"

#define TYPE   double
#define SUFFIX f64
#define NATIVE RLX_DTYPE_F64
#define EXP    exp
#define TANH   tanh
#include "ref/attention_body.h"

rlx_attention rlx_ref_attention(const rlx_kernel_args *args) {
    static const rlx_tensor absent = {0};
    const rlx_attention_attrs *attrs = args->attrs;
    rlx_attention at = {.q = &args->in[0],
                        .k = &args->in[1],
                        .v = &args->in[2],
                        .mask = args->in_count > 3 ? &args->in[3] : &absent,
                        .y = &args->out[0],
                        .softcap = attrs->softcap,
                        .window = attrs->window,
                        .is_causal = attrs->causal};
    at.group = at.k->dims[1] == 0 ? 0 : at.q->dims[1] / at.k->dims[1];
    at.queries = at.q->dims[2];
    at.keys = rlx_ref_least(at.k->dims[2], at.v->dims[2]); /* two extents may differ */
    at.depth = at.q->dims[3];
    at.width = at.v->dims[3];
    at.row_count = at.group * at.queries;
    at.scale = attrs->scale != 0 ? attrs->scale : at.depth > 0 ? 1 / sqrt((double)at.depth) : 1;
    rlx_ref_broadcast_strides(at.mask, 4, at.mask_strides);
    return at;
}

rlx_query_row rlx_ref_query_row(const rlx_attention *at, int64_t b, int64_t head, int64_t index) {
    int64_t h = head * at->group + index / at->queries, s = index % at->queries;
    rlx_query_row row = {.first = 0, .end = at->keys};
    row.q = b * at->q->strides[0] + h * at->q->strides[1] + s * at->q->strides[2];
    row.y = b * at->y->strides[0] + h * at->y->strides[1] + s * at->y->strides[2];
    row.mask = b * at->mask_strides[0] + h * at->mask_strides[1] + s * at->mask_strides[2];
    if (at->is_causal) row.end = at->keys - at->queries + s + 1;
    if (row.end < 0) row.end = 0;
    if (at->window > 0 && row.end > at->window) row.first = row.end - at->window;
    return row;
}

static void run_attention(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    rlx_attention at = rlx_ref_attention(args);
    int64_t blocks = rlx_ref_divide_up(at.row_count, ROWS);
    for (int64_t item = begin; item < end; item++) {
        rlx_query_row rows[ROWS];
        int64_t block = item % blocks, head = item / blocks % at.k->dims[1];
        int64_t b = item / blocks / at.k->dims[1];
        int64_t count = rlx_ref_least(ROWS, at.row_count - block * ROWS);
        for (int64_t r = 0; r < count; r++)
            rows[r] = rlx_ref_query_row(&at, b, head, block * ROWS + r);
        if (at.q->dtype == RLX_DTYPE_F64) {
            block_f64(&at, rows, count, b, head, args->workspace);
        } else {
            block_f32(&at, rows, count, b, head, args->workspace);
        }
    }
}

static int64_t attention_items(const rlx_kernel_args *args) {
    rlx_attention at = rlx_ref_attention(args);
    return at.k->dims[0] * at.k->dims[1] * rlx_ref_divide_up(at.row_count, ROWS);
}

static int64_t attention_item_cost(const rlx_kernel_args *args) {
    rlx_attention at = rlx_ref_attention(args);
    int64_t per_key = rlx_ref_least(ROWS, at.row_count) * (rlx_ref_least(at.depth, INT32_MAX) +
                                                           rlx_ref_least(at.width, INT32_MAX) + 16);
    return rlx_ref_cost(per_key, at.keys);
}

static uint64_t attention_workspace(const rlx_kernel_args *args) {
    rlx_attention at = rlx_ref_attention(args);
    uint64_t bytes = at.q->dtype == RLX_DTYPE_F64 ? sizeof(double) : sizeof(float);
    if (attention_items(args) == 0) return 0;
    return rlx_ref_bytes((uint64_t)at.depth + (uint64_t)at.width, (ROWS + 1) * bytes);
}

/* A rotation of the pairs of one position. */
typedef struct rope {
    const rlx_tensor *x, *positions, *y;
    int64_t heads, depth, rotary;
    int64_t first_step, second; /* pair i is (i * first_step, i * first_step + second) */
    double theta;
} rope;

static rope make_rope(const rlx_kernel_args *args) {
    const rlx_rope_attrs *attrs = args->attrs;
    rope rp = {.x = &args->in[0], .positions = &args->in[1], .y = &args->out[0]};
    rp.heads = rp.x->dims[1];
    rp.depth = rp.x->dims[3];
    rp.rotary = attrs->rotary_dim == 0 ? rp.depth : attrs->rotary_dim;
    rp.theta = attrs->theta == 0 ? 10000 : attrs->theta;
    rp.first_step = attrs->interleaved ? 2 : 1;
    rp.second = attrs->interleaved ? 1 : rp.rotary / 2;
    return rp;
}

static int64_t head_offset(const rlx_tensor *tensor, int64_t b, int64_t h, int64_t s) {
    return b * tensor->strides[0] + h * tensor->strides[1] + s * tensor->strides[2];
}

static void turn_pair(const rope *rp, int64_t b, int64_t s, int64_t d, double cosine, double sine) {
    int64_t x_step = rp->second * rp->x->strides[3], y_step = rp->second * rp->y->strides[3];
    for (int64_t h = 0; h < rp->heads; h++) {
        double in[2], out[2];
        rlx_ref_read_f64(rp->x, head_offset(rp->x, b, h, s) + d * rp->x->strides[3], x_step, 2, in);
        out[0] = in[0] * cosine - in[1] * sine;
        out[1] = in[1] * cosine + in[0] * sine;
        rlx_ref_write_f64(rp->y, head_offset(rp->y, b, h, s) + d * rp->y->strides[3], y_step, 2,
                          out);
    }
}

static void pass_rest(const rope *rp, int64_t b, int64_t s) {
    for (int64_t h = 0; h < rp->heads; h++) {
        for (int64_t d = rp->rotary; d < rp->depth; d++) {
            double value;
            rlx_ref_read_f64(rp->x, head_offset(rp->x, b, h, s) + d * rp->x->strides[3], 1, 1,
                             &value);
            rlx_ref_write_f64(rp->y, head_offset(rp->y, b, h, s) + d * rp->y->strides[3], 1, 1,
                              &value);
        }
    }
}

static void run_rope(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    rope rp = make_rope(args);
    const rlx_tensor *positions = rp.positions;
    for (int64_t item = begin; item < end; item++) {
        int64_t b = item / rp.x->dims[2], s = item % rp.x->dims[2];
        int64_t at = s * positions->strides[positions->rank - 1];
        if (positions->rank == 2) at += b * positions->strides[0];
        double position = (double)((const int64_t *)positions->data)[at];
        for (int64_t i = 0; i < rp.rotary / 2; i++) {
            double angle = position * pow(rp.theta, -2.0 * (double)i / (double)rp.rotary);
            turn_pair(&rp, b, s, i * rp.first_step, cos(angle), sin(angle));
        }
        pass_rest(&rp, b, s);
    }
}

static int64_t rope_items(const rlx_kernel_args *args) {
    return args->in[0].dims[0] * args->in[0].dims[2];
}

static int64_t rope_item_cost(const rlx_kernel_args *args) {
    rope rp = make_rope(args);
    return rlx_ref_cost(rp.depth, 32 + 2 * rlx_ref_least(rp.heads, INT32_MAX));
}

const rlx_ref_row rlx_ref_attention_rows[] = {
    {RLX_OP_ATTENTION,
     {"attention_scalar", run_attention, attention_items, attention_item_cost,
      attention_workspace}},
    {RLX_OP_ROPE, {"rope_scalar", run_rope, rope_items, rope_item_cost, NULL}},
};
const uint32_t rlx_ref_attention_count = 2;
