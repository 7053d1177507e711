/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that move elements: views that must be made plain, concat, tile, pad, gather, scatter,
 * state_write. The layouts of their records stand at the top of the shaders. */
#include "backend/vulkan/lower.h"
#include "ir/dtype.h"
#include "ir/view.h"

#include <string.h>

enum { OUTPUT = 10, SECOND_OUTPUT = 9, BY_STRIDES = 0, RESHAPE = 1, REPEAT = 2 };

static uint32_t axis_of(int64_t axis, uint32_t rank) {
    return (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
}

/* A copy over the dims of operand `walk`, with `out` and `in` by these strides. */
static void begin_copy(rlx_vk_lowering *self, uint32_t walk, uint32_t out, int64_t out_first,
                       const int64_t *out_strides, uint32_t in, int64_t in_first,
                       const int64_t *in_strides) {
    uint32_t rank = rlx_vk_operand(self, walk)->rank;
    rlx_vk_begin(self, RLX_VK_COPY);
    self->now.constants[0] = rank;
    for (uint32_t i = 0; i < rank; i++)
        rlx_vk_set_dim(self, 1 + i, walk, i);
    rlx_vk_set_base(self, 9, out, out_first);
    rlx_vk_set_all(self, 10, out_strides, rank);
    rlx_vk_set_base(self, 18, in, in_first);
    rlx_vk_set_all(self, 19, in_strides, rank);
    rlx_vk_bind(self, 1, in, false);
    rlx_vk_bind(self, OUTPUT, out, true);
}

static bool is_dynamic(const rlx_vk_lowering *self, uint32_t operand) {
    return self->query->extents != NULL && self->query->extents[operand] != 0;
}

/* One output of a view op, copied. */
static void copy_view(rlx_vk_lowering *self, uint32_t output) {
    const rlx_target_query *query = self->query;
    const rlx_tensor *x = &query->in[0];
    rlx_tensor seen = query->out[output];
    uint32_t operand = query->in_count + output;
    int64_t first = 0;
    if (seen.data == NULL) return;
    if (query->op == RLX_OP_COPY || query->op == RLX_OP_IDENTITY) {
        memcpy(seen.strides, x->strides, sizeof seen.strides);
    } else if (!rlx_view_map(query->op, query->attrs, output, query->out_count, x, &seen, &first)) {
        if (is_dynamic(self, 0)) return;
        begin_copy(self, operand, operand, 0, query->out[output].strides, 0, 0, x->strides);
        self->now.constants[1] = RESHAPE;
        rlx_vk_set_all(self, 19, x->strides, x->rank);
        rlx_vk_set_all(self, 27, x->dims, x->rank);
        rlx_vk_set(self, 35, x->rank);
        rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(&seen)));
        return;
    }
    begin_copy(self, operand, operand, 0, query->out[output].strides, 0, first, seen.strides);
    rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(&seen)));
}

void rlx_vk_lower_view(rlx_vk_lowering *self) {
    /* Where a size of the input is known in a run alone, the output has it too: it is what is
     * walked. Slices that count from a true end are left to the host. */
    bool is_plain = self->query->op != RLX_OP_SLICE && self->query->op != RLX_OP_SPLIT;
    for (uint32_t i = 0; i < self->query->out_count; i++)
        copy_view(self, i);
    if (is_plain && is_dynamic(self, self->query->in_count)) rlx_vk_cover(self, 0);
}

void rlx_vk_lower_concat(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_axis_attrs *attrs = query->attrs;
    const rlx_tensor *y = &query->out[0];
    uint32_t axis = axis_of(attrs->axis, y->rank), output = query->in_count;
    int64_t at = 0;
    for (uint32_t i = 0; i < query->in_count; i++) {
        const rlx_tensor *x = &query->in[i];
        if (query->extents != NULL && (query->extents[i] >> axis & 1) != 0 &&
            i + 1 < query->in_count) {
            RLX_VK_REFUSE(self, "its shader needs sizes that are known before a run");
        }
        if (rlx_tensor_elements(x) != 0) {
            begin_copy(self, i, output, at * y->strides[axis], y->strides, i, 0, x->strides);
            rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(x)));
        }
        at += x->dims[axis];
    }
    rlx_vk_cover(self, output);
}

void rlx_vk_lower_tile(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_tensor *x = &query->in[0], *y = &query->out[0];
    if (x->rank != y->rank) RLX_VK_REFUSE(self, "no shader for this number of repeats");
    begin_copy(self, 1, 1, 0, y->strides, 0, 0, x->strides);
    self->now.constants[1] = REPEAT;
    for (uint32_t i = 0; i < x->rank; i++)
        rlx_vk_set_dim(self, 27 + i, 0, i);
    rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(y)));
}

/* The raw bits of a number in a dtype. */
static uint64_t raw_bits(rlx_dtype dtype, double value) {
    uint64_t bits = 0;
    switch (rlx_dtype_row_of(dtype)->class_) {
    case RLX_CLASS_FLOAT:
    case RLX_CLASS_BLOCK:
        rlx_store_f64(dtype, &bits, 0, value);
        break;
    case RLX_CLASS_BOOL:
        bits = value != 0;
        break;
    default:
        rlx_store_i64(dtype, &bits, 0,
                      value != value                    ? 0
                      : value >= 9223372036854775808.0  ? INT64_MAX
                      : value <= -9223372036854775808.0 ? INT64_MIN
                                                        : (int64_t)value);
    }
    return bits;
}

void rlx_vk_lower_pad(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_pad_attrs *attrs = query->attrs;
    const rlx_tensor *x = &query->in[0], *y = &query->out[0];
    uint64_t outside = raw_bits(x->dtype, attrs->value);
    int64_t first = 0;
    rlx_vk_begin(self, RLX_VK_PAD);
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t begin = attrs->pads.items[i], end = attrs->pads.items[x->rank + i], left;
        left = x->dims[i] + (begin < 0 ? begin : 0) + (end < 0 ? end : 0);
        if (begin < 0) first -= begin * x->strides[i];
        if (left < 1 && attrs->mode != RLX_PAD_CONSTANT && y->dims[i] != 0) {
            RLX_VK_REFUSE(self, "no shader for padding of nothing");
        }
        rlx_vk_set(self, 1 + i, y->dims[i]);
        rlx_vk_set(self, 27 + i, left < 0 ? 0 : left);
        rlx_vk_set(self, 35 + i, begin < 0 ? 0 : begin);
    }
    rlx_vk_set_base(self, 9, 1, 0);
    rlx_vk_set_all(self, 10, y->strides, y->rank);
    rlx_vk_set_base(self, 18, 0, first);
    rlx_vk_set_all(self, 19, x->strides, x->rank);
    rlx_vk_set(self, 43, (int32_t)(uint32_t)outside);
    rlx_vk_set(self, 44, (int32_t)(uint32_t)(outside >> 32));
    self->now.constants[0] = x->rank;
    self->now.constants[1] = (uint32_t)attrs->mode;
    rlx_vk_bind(self, 1, 0, false);
    rlx_vk_bind(self, OUTPUT, 1, true);
    rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(y)));
}

/* Strides of data and indices along the axes of the output; and the k axes that indices count in.
 */
typedef struct gather_job {
    int64_t data[RLX_MAX_RANK], index[RLX_MAX_RANK];
    uint32_t k, axes[RLX_MAX_RANK];
    int64_t apart; /* the k indices */
} gather_job;

static void plan_gather(const rlx_target_query *query, gather_job *job) {
    const rlx_tensor *x = &query->in[0], *at = &query->in[1];
    const rlx_axis_attrs *attrs = query->attrs;
    uint32_t axis = axis_of(attrs->axis, x->rank), to = 0;
    job->k = 1;
    job->axes[0] = axis;
    for (uint32_t i = 0; i < axis; i++)
        job->data[to++] = x->strides[i];
    for (uint32_t i = 0; i < at->rank; i++)
        job->index[to++] = at->strides[i];
    for (uint32_t i = axis + 1; i < x->rank; i++)
        job->data[to++] = x->strides[i];
}

static void plan_gather_elements(const rlx_target_query *query, gather_job *job) {
    const rlx_tensor *x = &query->in[0], *at = &query->in[1];
    const rlx_axis_attrs *attrs = query->attrs;
    uint32_t axis = axis_of(attrs->axis, x->rank);
    job->k = 1;
    job->axes[0] = axis;
    for (uint32_t i = 0; i < x->rank; i++) {
        job->data[i] = i == axis ? 0 : x->strides[i];
        job->index[i] = at->strides[i];
    }
}

static void plan_gather_nd(const rlx_target_query *query, gather_job *job) {
    const rlx_tensor *x = &query->in[0], *at = &query->in[1];
    const rlx_gather_nd_attrs *attrs = query->attrs;
    uint32_t batch = (uint32_t)attrs->batch_dims, to = 0;
    job->k = (uint32_t)at->dims[at->rank - 1];
    job->apart = at->strides[at->rank - 1];
    for (uint32_t i = 0; i < job->k; i++)
        job->axes[i] = batch + i;
    for (; to < batch; to++) {
        job->data[to] = x->strides[to];
        job->index[to] = at->strides[to];
    }
    for (uint32_t i = batch; i + 1 < at->rank; i++)
        job->index[to++] = at->strides[i];
    for (uint32_t i = batch + job->k; i < x->rank; i++)
        job->data[to++] = x->strides[i];
}

void rlx_vk_lower_gather(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_tensor *x = &query->in[0], *y = &query->out[0];
    gather_job job = {0};
    if (x->dtype != y->dtype) RLX_VK_REFUSE(self, "no shader that decodes blocks");
    if (query->op == RLX_OP_GATHER) plan_gather(query, &job);
    if (query->op == RLX_OP_GATHER_ELEMENTS) plan_gather_elements(query, &job);
    if (query->op == RLX_OP_GATHER_ND) plan_gather_nd(query, &job);
    rlx_vk_begin(self, RLX_VK_GATHER);
    self->now.constants[0] = y->rank;
    for (uint32_t i = 0; i < y->rank; i++)
        rlx_vk_set_dim(self, 1 + i, 2, i);
    rlx_vk_set_base(self, 9, 2, 0);
    rlx_vk_set_all(self, 10, y->strides, y->rank);
    rlx_vk_set_base(self, 18, 0, 0);
    rlx_vk_set_all(self, 19, job.data, y->rank);
    rlx_vk_set_base(self, 27, 1, 0);
    rlx_vk_set_all(self, 28, job.index, y->rank);
    rlx_vk_set(self, 36, job.k);
    rlx_vk_set(self, 37, job.apart);
    for (uint32_t i = 0; i < job.k; i++) {
        rlx_vk_set_dim(self, 38 + 2 * i, 0, job.axes[i]);
        rlx_vk_set(self, 39 + 2 * i, x->strides[job.axes[i]]);
    }
    self->now.faults = true;
    rlx_vk_bind(self, 1, 0, false);
    rlx_vk_bind(self, 2, 1, false);
    rlx_vk_bind(self, OUTPUT, 2, true);
    rlx_vk_cover(self, 0);
    rlx_vk_cover(self, 1);
    rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(y)));
}

static void set_scatter_elements(rlx_vk_lowering *self, int64_t *out_lines) {
    const rlx_target_query *query = self->query;
    const rlx_scatter_attrs *attrs = query->attrs;
    const rlx_tensor *at = &query->in[1], *updates = &query->in[2], *y = &query->out[0];
    uint32_t axis = axis_of(attrs->axis, y->rank), n = 0;
    for (uint32_t i = 0; i < y->rank; i++) {
        if (i == axis) continue;
        rlx_vk_set(self, 2 + n, at->dims[i]);
        rlx_vk_set(self, 11 + n, y->strides[i]);
        rlx_vk_set(self, 20 + n, updates->strides[i]);
        rlx_vk_set(self, 29 + n, at->strides[i]);
        *out_lines *= at->dims[i];
        n++;
    }
    rlx_vk_set(self, 1, n);
    rlx_vk_set(self, 37, 1);
    rlx_vk_set(self, 38, at->dims[axis]);
    rlx_vk_set(self, 46, updates->strides[axis]);
    rlx_vk_set(self, 54, at->strides[axis]);
    rlx_vk_set(self, 62, 1);
    rlx_vk_set(self, 64, y->dims[axis]);
    rlx_vk_set(self, 65, y->strides[axis]);
}

static void set_scatter_nd(rlx_vk_lowering *self, int64_t *out_lines) {
    const rlx_target_query *query = self->query;
    const rlx_tensor *at = &query->in[1], *updates = &query->in[2], *y = &query->out[0];
    uint32_t k = (uint32_t)at->dims[at->rank - 1], outer = at->rank - 1, n = 0;
    for (uint32_t i = k; i < y->rank; i++, n++) {
        rlx_vk_set(self, 2 + n, y->dims[i]);
        rlx_vk_set(self, 11 + n, y->strides[i]);
        rlx_vk_set(self, 20 + n, updates->strides[outer + n]);
        *out_lines *= y->dims[i];
    }
    rlx_vk_set(self, 1, n);
    rlx_vk_set(self, 37, outer);
    for (uint32_t i = 0; i < outer; i++) {
        rlx_vk_set(self, 38 + i, at->dims[i]);
        rlx_vk_set(self, 46 + i, updates->strides[i]);
        rlx_vk_set(self, 54 + i, at->strides[i]);
    }
    rlx_vk_set(self, 62, k);
    rlx_vk_set(self, 63, at->strides[outer]);
    for (uint32_t i = 0; i < k; i++) {
        rlx_vk_set(self, 64 + 2 * i, y->dims[i]);
        rlx_vk_set(self, 65 + 2 * i, y->strides[i]);
    }
}

void rlx_vk_lower_scatter(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_scatter_attrs *attrs = query->attrs;
    const rlx_tensor *x = &query->in[0], *y = &query->out[0];
    int64_t lines = 1, count = 1, most;
    begin_copy(self, 3, 3, 0, y->strides, 0, 0, x->strides);
    rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(y)));
    rlx_vk_begin(self, RLX_VK_SCATTER);
    if (query->op == RLX_OP_SCATTER_ELEMENTS) {
        set_scatter_elements(self, &lines);
    } else {
        set_scatter_nd(self, &lines);
    }
    for (int32_t i = 0; i < self->now.words[37]; i++)
        count *= self->now.words[38 + i];
    most = rlx_vk_most_rounds(self) /
           (5 + self->now.words[62] + 2 * self->now.words[37]); /* leaving a loop is one too */
    if (most > count) most = count;
    rlx_vk_set_base(self, 10, 3, 0);
    rlx_vk_set_base(self, 19, 2, 0);
    rlx_vk_set_base(self, 28, 1, 0);
    self->now.constants[0] = (uint32_t)attrs->mode;
    self->now.faults = true;
    rlx_vk_bind(self, 2, 1, false);
    rlx_vk_bind(self, 3, 2, false);
    rlx_vk_bind(self, OUTPUT, 3, true);
    /* Update after update, in as many dispatches as the device's loops need. */
    for (int64_t at = 0; at < count && self->why == NULL; at += most) {
        rlx_vk_set(self, 80, at);
        rlx_vk_set(self, 81, count - at < most ? count : at + most);
        rlx_vk_emit(self, rlx_vk_groups(lines));
    }
}

void rlx_vk_lower_state_write(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_state_write_attrs *attrs = query->attrs;
    const rlx_tensor *rows = &query->in[1], *state = &query->out[0];
    bool has_length = query->out_count > 1 && query->out[1].data != NULL;
    uint32_t axis = axis_of(attrs->axis, state->rank);
    if (rows->dtype != state->dtype &&
        (!rlx_vk_is_float(rows->dtype) || !rlx_vk_is_float(state->dtype) ||
         rows->dtype == RLX_DTYPE_F64 || state->dtype == RLX_DTYPE_F64)) {
        RLX_VK_REFUSE(self, "no shader that converts these rows");
    }
    rlx_vk_begin(self, RLX_VK_STATE_WRITE);
    rlx_vk_set(self, 1, rows->rank);
    for (uint32_t i = 0; i < rows->rank; i++)
        rlx_vk_set_dim(self, 2 + i, 1, i);
    rlx_vk_set_base(self, 10, 3, 0);
    rlx_vk_set_all(self, 11, state->strides, state->rank);
    rlx_vk_set_base(self, 19, 1, 0);
    rlx_vk_set_all(self, 20, rows->strides, rows->rank);
    rlx_vk_set(self, 28, axis);
    rlx_vk_set(self, 29, state->dims[axis]);
    rlx_vk_set_base(self, 30, 2, 0);
    if (has_length) rlx_vk_set_base(self, 31, 4, 0);
    self->now.constants[0] = attrs->wrap;
    self->now.constants[1] = has_length;
    self->now.faults = true;
    rlx_vk_bind(self, 1, 1, false);
    rlx_vk_bind(self, 2, 2, false);
    rlx_vk_bind(self, OUTPUT, 3, true);
    if (has_length) rlx_vk_bind(self, SECOND_OUTPUT, 4, true);
    rlx_vk_cover(self, 0);
    rlx_vk_cover(self, 3);
    rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(rows)));
}
