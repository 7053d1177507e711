/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that work along axes: softmax, norms, reductions, sorting, attention, rope. The layouts of
 * their records stand at the top of the shaders. */
#include "backend/vulkan/lower.h"
#include "ir/dtype.h"

#include <math.h>
#include <string.h>

enum { OUTPUT = 10, SECOND_OUTPUT = 9 };

static uint32_t axis_of(int64_t axis, uint32_t rank) {
    return (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
}

/* Dims of the axes outside `mask` of an operand, from `word` on; their number. */
static uint32_t set_axes(rlx_vk_lowering *self, uint32_t word, uint32_t operand, uint32_t mask) {
    const rlx_tensor *tensor = rlx_vk_operand(self, operand);
    uint32_t count = 0;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if ((mask >> i & 1) == 0) rlx_vk_set_dim(self, word + count++, operand, i);
    }
    return count;
}

static void set_strides(rlx_vk_lowering *self, uint32_t word, const int64_t *strides, uint32_t rank,
                        uint32_t mask) {
    for (uint32_t i = 0, count = 0; i < rank; i++) {
        if ((mask >> i & 1) == 0) rlx_vk_set(self, word + count++, strides[i]);
    }
}

static int64_t count_axes(const rlx_tensor *tensor, uint32_t mask) {
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if ((mask >> i & 1) == 0) count *= tensor->dims[i];
    }
    return count;
}

/* A reduced tensor has its axes removed or kept as 1; here they are back, with stride 0. */
static void full_strides(const rlx_tensor *reduced, const rlx_tensor *x, uint32_t mask,
                         int64_t *strides) {
    for (uint32_t i = 0, at = 0; i < x->rank; i++) {
        bool is_reduced = (mask >> i & 1) != 0;
        strides[i] = is_reduced ? 0 : reduced->strides[reduced->rank == x->rank ? i : at];
        at += !is_reduced;
    }
}

void rlx_vk_lower_softmax(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_axis_attrs *attrs = query->attrs;
    const rlx_tensor *x = &query->in[0], *y = &query->out[0];
    uint32_t axis = axis_of(attrs->axis, x->rank), mask = 1u << axis;
    if (!rlx_vk_is_float(x->dtype)) RLX_VK_REFUSE(self, "no shader for this dtype");
    if (x->rank == 0) RLX_VK_REFUSE(self, "no shader for a scalar");
    rlx_vk_begin(self, RLX_VK_SOFTMAX);
    rlx_vk_set(self, 1, set_axes(self, 2, 0, mask));
    rlx_vk_set_base(self, 10, 0, 0);
    set_strides(self, 11, x->strides, x->rank, mask);
    rlx_vk_set_base(self, 19, 1, 0);
    set_strides(self, 20, y->strides, y->rank, mask);
    rlx_vk_set_dim(self, 28, 0, axis);
    rlx_vk_set(self, 29, x->strides[axis]);
    rlx_vk_set(self, 30, y->strides[axis]);
    self->now.constants[0] = query->op == RLX_OP_LOG_SOFTMAX;
    rlx_vk_bind(self, 1, 0, false);
    rlx_vk_bind(self, OUTPUT, 1, true);
    rlx_vk_cover(self, 1);
    rlx_vk_limit_rounds(self, x->dims[axis] / RLX_VK_LANES * 3 + 100);
    rlx_vk_emit(self, (uint64_t)count_axes(x, mask));
}

/* The row of a norm: axes of x as outer and inner ones. A group is an axis of its own. */
typedef struct norm_axes {
    uint32_t outer, inner;
} norm_axes;

static void set_norm_operand(rlx_vk_lowering *self, uint32_t number, uint32_t binding,
                             uint32_t operand, const int64_t *outer, const int64_t *inner,
                             const norm_axes *axes, bool is_written) {
    uint32_t at = 17 + 13 * number;
    rlx_vk_set_base(self, at, operand, 0);
    rlx_vk_set_all(self, at + 1, outer, axes->outer);
    rlx_vk_set_all(self, at + 5, inner, axes->inner);
    rlx_vk_bind(self, binding, operand, is_written);
}

static void set_row_operand(rlx_vk_lowering *self, uint32_t number, uint32_t binding,
                            uint32_t operand, const norm_axes *axes, bool is_written) {
    int64_t strides[RLX_MAX_RANK];
    rlx_vk_broadcast(rlx_vk_operand(self, operand), axes->outer + axes->inner, strides);
    set_norm_operand(self, number, binding, operand, strides, strides + axes->outer, axes,
                     is_written);
    rlx_vk_cover(self, operand);
}

static bool has_input(const rlx_target_query *query, uint32_t input) {
    return input < query->in_count && query->in[input].data != NULL;
}

static void lower_row_norm(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_norm_attrs *attrs = query->attrs;
    const rlx_tensor *x = &query->in[0];
    uint32_t axis = axis_of(attrs->axis, x->rank), output = query->in_count;
    norm_axes axes = {axis, x->rank - axis};
    if (axis > 4) RLX_VK_REFUSE(self, "no shader for norms behind more than 4 axes");
    for (uint32_t i = 0; i < axis; i++)
        rlx_vk_set_dim(self, 2 + i, 0, i);
    for (uint32_t i = axis; i < x->rank; i++)
        rlx_vk_set_dim(self, 7 + i - axis, 0, i);
    rlx_vk_set(self, 1, axes.outer);
    rlx_vk_set(self, 6, axes.inner);
    set_row_operand(self, 0, 1, 0, &axes, false);
    if (has_input(query, 3)) set_row_operand(self, 1, 2, 3, &axes, false);
    if (has_input(query, 1)) set_row_operand(self, 2, 3, 1, &axes, false);
    if (has_input(query, 2)) set_row_operand(self, 3, 4, 2, &axes, false);
    set_row_operand(self, 4, OUTPUT, output, &axes, true);
    bool has_sum = query->out_count > 1 && query->out[1].data != NULL;
    if (has_sum) set_row_operand(self, 5, SECOND_OUTPUT, output + 1, &axes, true);
    self->now.constants[0] = query->op == RLX_OP_RMS_NORM;
    self->now.constants[1] = (uint32_t)has_input(query, 3) | (uint32_t)has_input(query, 1) << 1 |
                             (uint32_t)has_input(query, 2) << 2 | (uint32_t)has_sum << 3;
    rlx_vk_emit(self, (uint64_t)count_axes(x, ~0u << axis));
}

/* Channels in groups: rows are (n, group), elements (channel of the group, spatial..). */
static void lower_channel_norm(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_norm_attrs *attrs = query->attrs;
    const rlx_tensor *x = &query->in[0], *y = &query->out[0];
    int64_t groups = query->op == RLX_OP_INSTANCE_NORM ? x->dims[1]
                     : attrs->groups == 0              ? 1
                                                       : attrs->groups;
    int64_t channels = groups == 0 ? 0 : x->dims[1] / groups;
    norm_axes axes = {2, x->rank - 1};
    rlx_vk_set(self, 1, 2);
    rlx_vk_set(self, 2, x->dims[0]);
    rlx_vk_set(self, 3, groups);
    rlx_vk_set(self, 6, axes.inner);
    rlx_vk_set(self, 7, channels);
    rlx_vk_set_all(self, 8, x->dims + 2, x->rank - 2);
    set_norm_operand(self, 0, 1, 0, (int64_t[]){x->strides[0], x->strides[1] * channels},
                     x->strides + 1, &axes, false);
    for (uint32_t i = 1; i < 3; i++) {
        int64_t stride = query->in[i].strides[0], inner[RLX_MAX_RANK] = {stride};
        set_norm_operand(self, 1 + i, 2 + i, i, (int64_t[]){0, stride * channels}, inner, &axes,
                         false);
    }
    set_norm_operand(self, 4, OUTPUT, query->in_count,
                     (int64_t[]){y->strides[0], y->strides[1] * channels}, y->strides + 1, &axes,
                     true);
    self->now.constants[1] = 2 | 4;
    rlx_vk_emit(self, (uint64_t)(x->dims[0] * groups));
}

void rlx_vk_lower_norm(rlx_vk_lowering *self) {
    const rlx_norm_attrs *attrs = self->query->attrs;
    if (!rlx_vk_is_float(self->query->in[0].dtype)) RLX_VK_REFUSE(self, "no shader for this dtype");
    rlx_vk_begin(self, RLX_VK_NORM);
    rlx_vk_set_float(self, 16, attrs->epsilon);
    rlx_vk_set_double(self, 95, attrs->epsilon);
    if (self->query->op == RLX_OP_LAYER_NORM || self->query->op == RLX_OP_RMS_NORM) {
        lower_row_norm(self);
    } else {
        lower_channel_norm(self);
    }
}

void rlx_vk_lower_batch_norm(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_norm_attrs *attrs = query->attrs;
    const rlx_tensor *x = &query->in[0], *y = &query->out[0];
    if (!rlx_vk_is_float(x->dtype)) RLX_VK_REFUSE(self, "no shader for this dtype");
    rlx_vk_begin(self, RLX_VK_BATCH_NORM);
    rlx_vk_set(self, 1, x->rank);
    rlx_vk_set_all(self, 2, x->dims, x->rank);
    rlx_vk_set_base(self, 10, query->in_count, 0);
    rlx_vk_set_all(self, 11, y->strides, y->rank);
    rlx_vk_set_base(self, 19, 0, 0);
    rlx_vk_set_all(self, 20, x->strides, x->rank);
    rlx_vk_set_float(self, 28, attrs->epsilon);
    for (uint32_t i = 1; i < 5; i++) {
        rlx_vk_set_base(self, 27 + 2 * i, i, 0);
        rlx_vk_set(self, 28 + 2 * i, query->in[i].strides[0]);
        rlx_vk_bind(self, 1 + i, i, false);
    }
    rlx_vk_bind(self, 1, 0, false);
    rlx_vk_bind(self, OUTPUT, query->in_count, true);
    rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(x)));
}

void rlx_vk_lower_reduce(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_reduce_attrs *attrs = query->attrs;
    const rlx_tensor *x = &query->in[0], *y = &query->out[0];
    uint32_t reduced = 0, all = (1u << x->rank) - 1;
    int64_t strides[RLX_MAX_RANK];
    bool is_float = rlx_vk_is_float(x->dtype);
    for (uint32_t i = 0; i < attrs->axes.count; i++)
        reduced |= 1u << axis_of(attrs->axes.items[i], x->rank);
    if (attrs->axes.count == 0) reduced = all;
    if (!is_float && (query->op == RLX_OP_REDUCE_L2 || query->op == RLX_OP_REDUCE_LOG_SUM ||
                      query->op == RLX_OP_REDUCE_LOG_SUM_EXP)) {
        RLX_VK_REFUSE(self, "no shader for this op on integers");
    }
    full_strides(y, x, reduced, strides);
    rlx_vk_begin(self, RLX_VK_REDUCE);
    rlx_vk_set(self, 1, set_axes(self, 2, 0, reduced));
    rlx_vk_set(self, 10, set_axes(self, 11, 0, ~reduced));
    rlx_vk_set_base(self, 19, 1, 0);
    set_strides(self, 20, strides, x->rank, reduced);
    rlx_vk_set_base(self, 28, 0, 0);
    set_strides(self, 29, x->strides, x->rank, reduced);
    set_strides(self, 37, x->strides, x->rank, ~reduced);
    self->now.constants[0] = (uint32_t)query->op - RLX_OP_REDUCE_SUM;
    rlx_vk_bind(self, 1, 0, false);
    rlx_vk_bind(self, OUTPUT, 1, true);
    rlx_vk_cover(self, 1);
    /* An offset takes a round per axis. */
    rlx_vk_limit_rounds(self, count_axes(x, ~reduced) / RLX_VK_LANES * 2 * (2 + x->rank) + 100);
    rlx_vk_emit(self, (uint64_t)count_axes(x, reduced));
}

/* A lane per line of x along an axis. */
typedef struct line_job {
    uint32_t axis, values, indices; /* outputs; RLX_NONE: none */
    uint32_t kind, flags;
    int64_t k;
} line_job;

static void set_line_output(rlx_vk_lowering *self, const line_job *job, uint32_t word,
                            uint32_t stride_word, uint32_t binding, uint32_t operand) {
    const rlx_tensor *x = &self->query->in[0], *y;
    int64_t strides[RLX_MAX_RANK];
    if (operand == RLX_NONE) return;
    y = rlx_vk_operand(self, operand);
    full_strides(y, x, 1u << job->axis, strides);
    rlx_vk_set_base(self, word, operand, 0);
    set_strides(self, word + 1, strides, x->rank, 1u << job->axis);
    rlx_vk_set(self, stride_word, y->rank == x->rank ? y->strides[job->axis] : 0);
    rlx_vk_bind(self, binding, operand, true);
    rlx_vk_cover(self, operand);
}

static line_job line_of(const rlx_target_query *query) {
    const rlx_tensor *x = &query->in[0];
    if (query->op == RLX_OP_CUMSUM) {
        const rlx_cumsum_attrs *attrs = query->attrs;
        return (line_job){axis_of(attrs->axis, x->rank),
                          1,
                          RLX_NONE,
                          2,
                          (uint32_t)attrs->exclusive | (uint32_t)attrs->reverse << 1,
                          0};
    }
    if (query->op == RLX_OP_TOP_K) {
        const rlx_top_k_attrs *attrs = query->attrs;
        return (line_job){axis_of(attrs->axis, x->rank), 1, 2, 3, attrs->smallest, attrs->k};
    }
    const rlx_arg_attrs *attrs = query->attrs;
    return (line_job){axis_of(attrs->axis, x->rank), RLX_NONE,           1,
                      query->op == RLX_OP_ARG_MIN,   attrs->select_last, 0};
}

void rlx_vk_lower_line(rlx_vk_lowering *self) {
    const rlx_tensor *x = &self->query->in[0];
    line_job job;
    if (x->rank == 0) RLX_VK_REFUSE(self, "no shader for a scalar");
    job = line_of(self->query);
    for (uint32_t i = 0; i < self->query->out_count; i++) {
        if (self->query->out[i].data == NULL) RLX_VK_REFUSE(self, "no shader without all outputs");
    }
    if (x->dims[job.axis] == 0) RLX_VK_REFUSE(self, "no shader for empty lines");
    rlx_vk_begin(self, RLX_VK_LINE);
    rlx_vk_set(self, 1, set_axes(self, 2, 0, 1u << job.axis));
    rlx_vk_set_base(self, 10, 0, 0);
    set_strides(self, 11, x->strides, x->rank, 1u << job.axis);
    set_line_output(self, &job, 19, 39, OUTPUT, job.values);
    set_line_output(self, &job, 28, 40, SECOND_OUTPUT, job.indices);
    rlx_vk_set_dim(self, 37, 0, job.axis);
    rlx_vk_set(self, 38, x->strides[job.axis]);
    rlx_vk_set(self, 41, job.k);
    self->now.constants[0] = job.kind;
    self->now.constants[1] = job.flags;
    rlx_vk_bind(self, 1, 0, false);
    rlx_vk_limit_rounds(self, x->dims[job.axis] * (job.k > 1 ? job.k : 1) + 100);
    rlx_vk_emit(self, rlx_vk_groups(count_axes(x, 1u << job.axis)));
}

static void set_heads(rlx_vk_lowering *self, uint32_t word, uint32_t operand,
                      const int64_t *strides) {
    rlx_vk_set_base(self, word, operand, 0);
    rlx_vk_set_all(self, word + 1, strides, 4);
}

void rlx_vk_lower_attention(rlx_vk_lowering *self) {
    enum { MOST_COLUMNS = 8 }; /* per lane: attention.comp */
    const rlx_target_query *query = self->query;
    const rlx_attention_attrs *attrs = query->attrs;
    const rlx_tensor *q = &query->in[0], *k = &query->in[1], *v = &query->in[2];
    int64_t mask_strides[4], columns = (v->dims[3] + RLX_VK_LANES - 1) / RLX_VK_LANES;
    if (!rlx_vk_is_float(q->dtype) || !rlx_vk_is_float(k->dtype)) {
        RLX_VK_REFUSE(self, "no shader for this dtype");
    }
    if (columns > MOST_COLUMNS) RLX_VK_REFUSE(self, "no shader for values wider than 512");
    if (k->dims[1] == 0) RLX_VK_REFUSE(self, "no shader without heads");
    rlx_vk_begin(self, RLX_VK_ATTENTION);
    rlx_vk_set(self, 1, q->dims[0]);
    rlx_vk_set(self, 2, q->dims[1]);
    rlx_vk_set_dim(self, 3, 0, 2);
    rlx_vk_set(self, 4, q->dims[3]);
    rlx_vk_set(self, 5, k->dims[1]);
    rlx_vk_set_dim(self, 6, 1, 2);
    rlx_vk_set_dim(self, 7, 2, 2);
    rlx_vk_set(self, 8, v->dims[3]);
    rlx_vk_set_float(self, 9,
                     attrs->scale != 0 ? attrs->scale
                     : q->dims[3] > 0  ? 1 / sqrt((double)q->dims[3])
                                       : 1);
    rlx_vk_set_float(self, 10, attrs->softcap);
    rlx_vk_set(self, 11, attrs->window);
    set_heads(self, 12, 0, q->strides);
    set_heads(self, 17, 1, k->strides);
    set_heads(self, 22, 2, v->strides);
    for (uint32_t i = 0; i < 3; i++)
        rlx_vk_bind(self, 1 + i, i, false);
    if (has_input(query, 3)) {
        rlx_vk_broadcast(&query->in[3], 4, mask_strides);
        set_heads(self, 27, 3, mask_strides);
        rlx_vk_bind(self, 4, 3, false);
        rlx_vk_cover(self, 3);
    }
    set_heads(self, 32, query->in_count, query->out[0].strides);
    rlx_vk_bind(self, OUTPUT, query->in_count, true);
    rlx_vk_cover(self, query->in_count);
    self->now.constants[0] = attrs->causal;
    self->now.constants[1] = has_input(query, 3);
    self->now.constants[2] = (uint32_t)columns;
    rlx_vk_limit_rounds(self, (k->dims[2] / RLX_VK_LANES + 1) *
                                  (q->dims[3] + RLX_VK_LANES * columns + 20));
    rlx_vk_emit(self, (uint64_t)(q->dims[0] * q->dims[1] * q->dims[2]));
}

/* theta^(-2 i / rotary) / (2 pi), as a fraction of 2^64: turns per position. */
static uint64_t turns(double theta, int64_t i, int64_t rotary) {
    const long double two_pi = 6.283185307179586476925286766559L;
    long double frequency = powl((long double)theta, -2.0L * (long double)i / (long double)rotary);
    long double turn = frequency / two_pi;
    return (uint64_t)((turn - floorl(turn)) * 18446744073709551615.0L);
}

void rlx_vk_lower_rope(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_rope_attrs *attrs = query->attrs;
    const rlx_tensor *x = &query->in[0], *at = &query->in[1];
    int64_t rotary = attrs->rotary_dim == 0 ? x->dims[3] : attrs->rotary_dim;
    int64_t per_row = rotary / 2 + x->dims[3] - rotary;
    if (!rlx_vk_is_float(x->dtype)) RLX_VK_REFUSE(self, "no shader for this dtype");
    rlx_vk_begin(self, RLX_VK_ROPE);
    rlx_vk_set(self, 1, x->dims[0]);
    rlx_vk_set(self, 2, x->dims[1]);
    rlx_vk_set_dim(self, 3, 0, 2);
    rlx_vk_set(self, 4, x->dims[3]);
    rlx_vk_set(self, 5, rotary);
    rlx_vk_set(self, 6, attrs->interleaved ? 2 : 1);
    rlx_vk_set(self, 7, attrs->interleaved ? 1 : rotary / 2);
    set_heads(self, 8, 0, x->strides);
    set_heads(self, 13, 2, query->out[0].strides);
    rlx_vk_set_base(self, 18, 1, 0);
    rlx_vk_set(self, 19, at->rank > 1 && at->dims[0] != 1 ? at->strides[0] : 0);
    rlx_vk_set(self, 20, at->strides[at->rank - 1]);
    for (int64_t i = 0; i < rotary / 2; i++) {
        uint64_t turn = turns(attrs->theta == 0 ? 10000 : attrs->theta, i, rotary);
        rlx_vk_set(self, 21 + 2 * (uint32_t)i, (int32_t)(uint32_t)turn);
        rlx_vk_set(self, 22 + 2 * (uint32_t)i, (int32_t)(uint32_t)(turn >> 32));
    }
    rlx_vk_bind(self, 1, 0, false);
    rlx_vk_bind(self, 2, 1, false);
    rlx_vk_bind(self, OUTPUT, 2, true);
    rlx_vk_cover(self, 1);
    rlx_vk_cover(self, 2);
    rlx_vk_emit(self, rlx_vk_groups(x->dims[0] * x->dims[1] * x->dims[2] * per_row));
}
