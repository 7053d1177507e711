/* SPDX-License-Identifier: Apache-2.0 */
/* Ops whose results are as many as a run finds (nonzero, nms, unique), and those that read between
 * pixels (roi_align, gather_sum). The layouts of their records stand at the top of the shaders. How
 * many there are is an i64 of their own, which those who come after read as an extent. */
#include "backend/vulkan/lower.h"
#include "ir/dtype.h"

enum { OUTPUT = 10, COUNT = 9, MOST_BOXES = 32768 /* nms.comp has a bit for each */ };

static bool is_there(const rlx_vk_lowering *self, uint32_t operand) {
    uint32_t count = self->query->in_count + self->query->out_count;
    return operand < count && rlx_vk_operand(self, operand)->data != NULL;
}

/* Base at `word`, strides of all axes behind it; bound where it stands. */
static void set_operand(rlx_vk_lowering *self, uint32_t word, uint32_t binding, uint32_t operand) {
    const rlx_tensor *tensor;
    if (!is_there(self, operand)) return;
    tensor = rlx_vk_operand(self, operand);
    rlx_vk_set_base(self, word, operand, 0);
    rlx_vk_set_all(self, word + 1, tensor->strides, tensor->rank);
    rlx_vk_bind(self, binding, operand, operand >= self->query->in_count);
    rlx_vk_cover(self, operand);
}

/* The bits of an element of which one is set where it is not 0: all but the sign of a float. */
static uint64_t value_bits(rlx_dtype dtype) {
    uint64_t all = UINT64_MAX >> (64 - 8 * rlx_dtype_block_bytes(dtype));
    bool has_two_zeros = dtype != RLX_DTYPE_F8E4M3FNUZ && dtype != RLX_DTYPE_F8E5M2FNUZ;
    bool is_float = rlx_dtype_row_of(dtype)->class_ == RLX_CLASS_FLOAT;
    return is_float && has_two_zeros ? all >> 1 : all;
}

void rlx_vk_lower_nonzero(rlx_vk_lowering *self) {
    const rlx_tensor *x = &self->query->in[0];
    uint64_t bits = value_bits(x->dtype);
    rlx_vk_begin(self, RLX_VK_NONZERO);
    rlx_vk_set(self, 1, x->rank);
    set_operand(self, 10, 1, 0);
    for (uint32_t i = 0; i < x->rank; i++)
        rlx_vk_set_dim(self, 2 + i, 0, i);
    set_operand(self, 19, OUTPUT, 1);
    set_operand(self, 22, COUNT, 2);
    rlx_vk_set(self, 23, 1);
    self->now.constants[0] = (uint32_t)bits;
    self->now.constants[1] = (uint32_t)(bits >> 32);
    self->now.constants[2] = is_there(self, 1) | (uint32_t)is_there(self, 2) << 1;
    rlx_vk_limit_rounds(self, (rlx_tensor_elements(x) / RLX_VK_LANES + 1) * 2 * (2 + x->rank));
    rlx_vk_emit(self, 1);
}

static void set_nms(rlx_vk_lowering *self, int64_t per_class) {
    const rlx_target_query *query = self->query;
    for (uint32_t i = 0; i < 3; i++)
        rlx_vk_set_dim(self, 1 + i, 1, i);
    rlx_vk_set(self, 4, per_class);
    set_operand(self, 16, OUTPUT, query->in_count);
    set_operand(self, 19, COUNT, query->in_count + 1);
}

void rlx_vk_lower_nms(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_nms_attrs *attrs = query->attrs;
    const rlx_tensor *scores = &query->in[1];
    int64_t boxes = scores->dims[2], classes = scores->dims[0] * scores->dims[1];
    int64_t per_class = attrs->bound != 0 && attrs->bound < boxes ? attrs->bound : boxes;
    if (!is_there(self, query->in_count)) RLX_VK_REFUSE(self, "no shader without boxes");
    if (boxes > MOST_BOXES) RLX_VK_REFUSE(self, "no shader for more than 32768 boxes");
    rlx_vk_begin(self, RLX_VK_NMS);
    set_operand(self, 5, 1, 0);
    set_operand(self, 9, 2, 1);
    for (uint32_t i = 2; i < 5; i++) {
        if (!is_there(self, i) || i >= query->in_count) continue;
        rlx_vk_set_base(self, 11 + i, i, 0);
        rlx_vk_bind(self, 1 + i, i, false);
        self->now.constants[0] |= 1u << (i - 1);
    }
    if (attrs->center_point) self->now.constants[0] |= 1;
    set_nms(self, per_class);
    self->now.operands[COUNT] = RLX_NONE;
    self->now.written &= ~(1u << COUNT);
    rlx_vk_limit_rounds(self, (per_class + 1) * (boxes / RLX_VK_LANES + 10));
    rlx_vk_emit(self, (uint64_t)classes);
    rlx_vk_begin(self, RLX_VK_NMS_JOIN);
    set_nms(self, per_class);
    rlx_vk_set(self, 22, 1);
    self->now.constants[0] = is_there(self, query->in_count + 1);
    rlx_vk_limit_rounds(self, (classes * per_class / RLX_VK_LANES + 1) * 10);
    rlx_vk_emit(self, 1);
}

/* The slices of x or of the values: how far they are apart, and what one of them is. */
static void set_slices(rlx_vk_lowering *self, uint32_t word, uint32_t binding, uint32_t operand,
                       uint32_t axis, bool by_axis) {
    const rlx_tensor *x;
    uint32_t n = 0;
    if (!is_there(self, operand)) return;
    x = rlx_vk_operand(self, operand);
    rlx_vk_set_base(self, word, operand, 0);
    if (by_axis || operand != 0) rlx_vk_set(self, word + 1, x->strides[axis]);
    for (uint32_t i = 0; by_axis && i < x->rank; i++) {
        if (i == axis) continue;
        rlx_vk_set(self, 3 + n, self->query->in[0].dims[i]);
        rlx_vk_set(self, word + 2 + n++, x->strides[i]);
    }
    if (operand == 0) rlx_vk_set(self, 1, n);
    rlx_vk_bind(self, binding, operand, operand != 0);
    rlx_vk_cover(self, operand);
}

static void set_unique(rlx_vk_lowering *self, uint32_t stage, int64_t slices) {
    const rlx_unique_attrs *attrs = self->query->attrs;
    const rlx_tensor *x = &self->query->in[0];
    uint32_t axis = 0;
    if (attrs->by_axis) {
        axis = (uint32_t)(attrs->axis < 0 ? attrs->axis + (int64_t)x->rank : attrs->axis);
    }
    rlx_vk_begin(self, RLX_VK_UNIQUE);
    rlx_vk_set(self, 2, slices);
    set_slices(self, 11, 1, 0, axis, attrs->by_axis);
    rlx_vk_set(self, 39, x->rank);
    rlx_vk_set_all(self, 40, x->dims, x->rank);
    rlx_vk_set_all(self, 48, x->strides, x->rank);
    rlx_vk_bind(self, 5, RLX_VK_WORKSPACE, true);
    self->now.constants[0] = stage;
    self->now.constants[1] = attrs->unsorted;
    self->now.constants[2] = !attrs->by_axis;
    for (uint32_t i = 0; i < 5; i++) {
        bool is_last = i == 2 || i == 4; /* written in the last stage */
        if (!is_there(self, 1 + i) || stage == 0 || is_last != (stage == 2)) continue;
        self->now.constants[3] |= 1u << i;
        if (i == 0) set_slices(self, 21, OUTPUT, 1, axis, attrs->by_axis);
        if (i != 0) set_operand(self, 29 + 2 * i, OUTPUT - i, 1 + i);
    }
}

void rlx_vk_lower_unique(rlx_vk_lowering *self) {
    const rlx_unique_attrs *attrs = self->query->attrs;
    const rlx_tensor *x = &self->query->in[0];
    int64_t elements = rlx_tensor_elements(x), slices = elements;
    if (attrs->by_axis) {
        slices = x->dims[attrs->axis < 0 ? attrs->axis + (int64_t)x->rank : attrs->axis];
    }
    if (elements == 0 || elements > INT32_MAX / 8) {
        RLX_VK_REFUSE(self, "no shader for nothing, or so much");
    }
    rlx_vk_limit_rounds(self, (slices + elements) * (3 + x->rank));
    self->workspace_bytes = (uint64_t)slices * 8;
    for (uint32_t i = 1; i < 6; i++)
        rlx_vk_cover(self, i);
    for (uint32_t stage = 0; stage < 3; stage++) {
        set_unique(self, stage, slices);
        rlx_vk_emit(self, rlx_vk_groups(slices));
    }
}

void rlx_vk_lower_roi_align(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_roi_align_attrs *attrs = query->attrs;
    if (!rlx_vk_is_float(query->in[0].dtype)) RLX_VK_REFUSE(self, "no shader for this dtype");
    rlx_vk_begin(self, RLX_VK_ROI_ALIGN);
    set_operand(self, 8, 1, 0);
    set_operand(self, 13, 2, 1);
    set_operand(self, 16, 3, 2);
    set_operand(self, 18, OUTPUT, 3);
    for (uint32_t i = 0; i < 4; i++)
        rlx_vk_set_dim(self, 1 + i, 3, i);
    rlx_vk_set_dim(self, 5, 0, 0);
    rlx_vk_set_dim(self, 6, 0, 2);
    rlx_vk_set_dim(self, 7, 0, 3);
    rlx_vk_set(self, 23, attrs->samples);
    rlx_vk_set_float(self, 24, attrs->scale == 0 ? 1 : attrs->scale);
    self->now.constants[0] = attrs->half_pixel;
    self->now.constants[1] = attrs->largest;
    self->now.faults = true;
    /* How many points a bin has where it has as many as pixels, only a run knows. */
    rlx_vk_limit_rounds(self, attrs->samples == 0       ? 4096 * 4096
                              : attrs->samples > 100000 ? INT64_MAX
                                                        : attrs->samples * attrs->samples);
    rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(&query->out[0])));
}

/* One batch of rows is as many batches as it has planes, which share places and weights, and the
 * elements of a row are its channels. */
static void set_row_sums(rlx_vk_lowering *self) {
    const rlx_tensor *x = rlx_vk_operand(self, 0), *y = rlx_vk_operand(self, 3);
    const int64_t x_strides[] = {x->strides[1], x->strides[3], x->strides[2]};
    const int64_t y_strides[] = {y->strides[1], y->strides[3], y->strides[2]}, shared[] = {0};
    rlx_vk_set_dim(self, 1, 3, 1);
    rlx_vk_set_dim(self, 2, 3, 3);
    rlx_vk_set_dim(self, 3, 3, 2);
    rlx_vk_set_all(self, 7, x_strides, 3);
    rlx_vk_set_all(self, 11, shared, 1);
    rlx_vk_set_all(self, 15, shared, 1);
    rlx_vk_set_all(self, 19, y_strides, 3);
}

void rlx_vk_lower_gather_sum(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const bool has_rows = query->in[0].rank == 4;
    if (!rlx_vk_is_float(query->in[0].dtype)) RLX_VK_REFUSE(self, "no shader for this dtype");
    if (has_rows && query->in[0].dims[0] != 1) RLX_VK_REFUSE(self, "no shader for batches of rows");
    rlx_vk_begin(self, RLX_VK_GATHER_SUM);
    for (uint32_t i = 0; i < 3 && !has_rows; i++)
        rlx_vk_set_dim(self, 1 + i, 3, i);
    rlx_vk_set_dim(self, 4, 1, 1);
    rlx_vk_set_dim(self, 5, 0, 2);
    set_operand(self, 6, 1, 0);
    set_operand(self, 10, 2, 1);
    set_operand(self, 14, 3, 2);
    set_operand(self, 18, OUTPUT, 3);
    if (has_rows) set_row_sums(self);
    rlx_vk_limit_rounds(self, query->in[1].dims[1]);
    rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(&query->out[0])));
}
