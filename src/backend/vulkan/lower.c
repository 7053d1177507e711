/* SPDX-License-Identifier: Apache-2.0 */
/* Which family lowers which op, and what the families share. See lower.h. */
#include "backend/vulkan/lower.h"

#include "ir/dtype.h"
#include "ir/op.h"

#include <math.h>
#include <string.h>

typedef void (*lower_fn)(rlx_vk_lowering *self);

static lower_fn family_of(rlx_op op) {
    switch (op) {
    case RLX_OP_MATMUL:
        return rlx_vk_lower_matmul;
    case RLX_OP_CONV:
    case RLX_OP_CONV_TRANSPOSE:
        return rlx_vk_lower_conv;
    case RLX_OP_MAX_POOL:
    case RLX_OP_AVERAGE_POOL:
        return rlx_vk_lower_pool;
    case RLX_OP_ATTENTION:
        return rlx_vk_lower_attention;
    case RLX_OP_ROPE:
        return rlx_vk_lower_rope;
    case RLX_OP_RNN:
    case RLX_OP_GRU:
    case RLX_OP_LSTM:
        return rlx_vk_lower_recurrent;
    case RLX_OP_SOFTMAX:
    case RLX_OP_LOG_SOFTMAX:
        return rlx_vk_lower_softmax;
    case RLX_OP_LAYER_NORM:
    case RLX_OP_RMS_NORM:
    case RLX_OP_GROUP_NORM:
    case RLX_OP_INSTANCE_NORM:
        return rlx_vk_lower_norm;
    case RLX_OP_BATCH_NORM:
        return rlx_vk_lower_batch_norm;
    case RLX_OP_ARG_MAX:
    case RLX_OP_ARG_MIN:
    case RLX_OP_TOP_K:
    case RLX_OP_CUMSUM:
        return rlx_vk_lower_line;
    case RLX_OP_CONCAT:
        return rlx_vk_lower_concat;
    case RLX_OP_TILE:
        return rlx_vk_lower_tile;
    case RLX_OP_PAD:
        return rlx_vk_lower_pad;
    case RLX_OP_GATHER:
    case RLX_OP_GATHER_ELEMENTS:
    case RLX_OP_GATHER_ND:
        return rlx_vk_lower_gather;
    case RLX_OP_SCATTER_ELEMENTS:
    case RLX_OP_SCATTER_ND:
        return rlx_vk_lower_scatter;
    case RLX_OP_STATE_WRITE:
        return rlx_vk_lower_state_write;
    case RLX_OP_NONZERO:
        return rlx_vk_lower_nonzero;
    case RLX_OP_NMS:
        return rlx_vk_lower_nms;
    case RLX_OP_UNIQUE:
        return rlx_vk_lower_unique;
    case RLX_OP_ROI_ALIGN:
        return rlx_vk_lower_roi_align;
    case RLX_OP_GATHER_SUM:
        return rlx_vk_lower_gather_sum;
    default:
        if (op >= RLX_OP_REDUCE_SUM && op <= RLX_OP_REDUCE_SUM_SQUARE) return rlx_vk_lower_reduce;
        if (op == RLX_OP_COPY || op == RLX_OP_IDENTITY ||
            (rlx_op_info_of(op)->flags & RLX_OPF_VIEW) != 0) {
            return rlx_vk_lower_view;
        }
        if ((rlx_op_info_of(op)->flags & RLX_OPF_ELEMENTWISE) != 0) {
            return rlx_vk_lower_elementwise;
        }
        return NULL;
    }
}

static uint32_t operand_count(const rlx_vk_lowering *self) {
    return self->query->in_count + self->query->out_count;
}

/* Dtypes that most shaders move and do not compute with: f64 and the floats of 8 bits. */
static bool is_opaque(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F64 || (dtype >= RLX_DTYPE_F8E4M3FN && dtype <= RLX_DTYPE_F8E5M2FNUZ);
}

rlx_dtype rlx_vk_shader_dtype(rlx_dtype dtype) {
    if (!is_opaque(dtype)) return dtype;
    return dtype == RLX_DTYPE_F64 ? RLX_DTYPE_U64 : RLX_DTYPE_U8;
}

/* Ops whose shaders copy bits, whatever they mean. */
static bool only_moves(const rlx_target_query *query, lower_fn family) {
    if (family == rlx_vk_lower_scatter) {
        return ((const rlx_scatter_attrs *)query->attrs)->mode == RLX_SCATTER_SET;
    }
    return family == rlx_vk_lower_view || family == rlx_vk_lower_concat ||
           family == rlx_vk_lower_tile || family == rlx_vk_lower_pad ||
           family == rlx_vk_lower_gather || family == rlx_vk_lower_state_write ||
           family == rlx_vk_lower_nonzero;
}

/* The same shader in f64, where there is one. */
static rlx_vk_shader f64_variant(rlx_vk_shader shader) {
    switch (shader) {
    case RLX_VK_LINE:
        return RLX_VK_LINE_F64;
    case RLX_VK_MATMUL:
        return RLX_VK_MATMUL_F64;
    case RLX_VK_NORM:
        return RLX_VK_NORM_F64;
    case RLX_VK_REDUCE:
        return RLX_VK_REDUCE_F64;
    case RLX_VK_SOFTMAX:
        return RLX_VK_SOFTMAX_F64;
    default:
        return shader;
    }
}

/* Whether a family computes with the dtype. Where it is f64, all floats of the step are. */
static bool computes(const rlx_vk_lowering *self, lower_fn family, rlx_dtype dtype) {
    const rlx_target_query *query = self->query;
    if (family == rlx_vk_lower_elementwise || only_moves(query, family)) return true;
    if (query->in[0].dtype != RLX_DTYPE_F64) return !is_opaque(dtype);
    return self->caps->has_f64 && (dtype == RLX_DTYPE_F64 || dtype >= RLX_DTYPE_I8) &&
           (family == rlx_vk_lower_line || family == rlx_vk_lower_matmul ||
            family == rlx_vk_lower_norm || family == rlx_vk_lower_reduce ||
            family == rlx_vk_lower_softmax);
}

/* Shaders count elements of an operand in 32 bits, and see as much of it as the device binds. */
static const char *check_operand(const rlx_vk_lowering *self, const rlx_tensor *tensor,
                                 lower_fn family) {
    int64_t last = 0;
    uint64_t bytes = rlx_dtype_block_bytes(tensor->dtype);
    if (tensor->data == NULL) return NULL;
    if (tensor->dtype > RLX_DTYPE_BOOL || !computes(self, family, tensor->dtype)) {
        return "no shader for this dtype";
    }
    if (tensor->layout != RLX_LAYOUT_PLAIN) return "no shader for packed operands";
    for (uint32_t i = 0; i < tensor->rank; i++) {
        int64_t stride = tensor->strides[i] < 0 ? -tensor->strides[i] : tensor->strides[i], most;
        if (tensor->dims[i] > INT32_MAX || stride > INT32_MAX) return "an operand is too large";
        most = tensor->dims[i] < 2 ? 0 : (tensor->dims[i] - 1) * stride;
        if (last > INT32_MAX - most) return "an operand is too large";
        last += most;
    }
    if (((uint64_t)last + 1) * bytes + RLX_VK_ALIGNMENT > self->caps->storage_range) {
        return "an operand is larger than the device binds";
    }
    return rlx_tensor_elements(tensor) > INT32_MAX ? "an operand is too large" : NULL;
}

/* Every dim that only a run knows is read from the record by a shader. */
static void check_extents(rlx_vk_lowering *self) {
    if (self->query->extents == NULL || self->why != NULL) return;
    for (uint32_t i = 0; i < operand_count(self); i++) {
        uint8_t wanted = self->query->extents[i];
        if (wanted == 0) continue;
        if (i >= RLX_VK_OPERANDS || (wanted & ~self->covered[i]) != 0) {
            self->why = "its shader needs sizes that are known before a run";
        }
    }
}

void rlx_vk_lower(rlx_vk_lowering *self) {
    lower_fn family = family_of(self->query->op);
    self->why = NULL;
    self->workspace_bytes = 0;
    self->status = RLX_OK;
    memset(self->covered, 0, sizeof self->covered);
    if (family == NULL) {
        self->why = "no shader for this op";
        return;
    }
    for (uint32_t i = 0; i < operand_count(self) && self->why == NULL; i++)
        self->why = check_operand(self, rlx_vk_operand(self, i), family);
    if (self->why == NULL) family(self);
    check_extents(self);
}

const rlx_tensor *rlx_vk_operand(const rlx_vk_lowering *self, uint32_t operand) {
    const rlx_target_query *query = self->query;
    return operand < query->in_count ? &query->in[operand] : &query->out[operand - query->in_count];
}

void rlx_vk_begin(rlx_vk_lowering *self, rlx_vk_shader shader) {
    rlx_vk_dispatch *now = &self->now;
    now->shader = self->query->in[0].dtype == RLX_DTYPE_F64 ? f64_variant(shader) : shader;
    now->code = NULL;
    now->code_count = 0;
    for (uint32_t i = 0; i < RLX_VK_BINDINGS; i++)
        now->operands[i] = RLX_NONE;
    now->written = 0;
    now->faults = false;
    memset(now->constants, 0, sizeof now->constants);
    now->word_count = now->base_count = now->dim_count = 0;
    memset(now->words, 0, sizeof now->words);
    rlx_vk_set(self, 0, self->step);
}

void rlx_vk_emit(rlx_vk_lowering *self, uint64_t groups) {
    uint64_t most = (uint64_t)self->caps->group_count * self->caps->group_count;
    if (groups > most) RLX_VK_REFUSE(self, "more groups than the device runs at once");
    self->now.groups = groups == 0 ? 1 : groups;
    if (self->status == RLX_OK && self->why == NULL && self->emit != NULL) {
        self->status = self->emit(self->user, &self->now);
    }
}

int64_t rlx_vk_most_rounds(const rlx_vk_lowering *self) {
    return self->caps->type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 60000 : INT64_MAX;
}

void rlx_vk_limit_rounds(rlx_vk_lowering *self, int64_t rounds) {
    if (rounds > rlx_vk_most_rounds(self)) {
        RLX_VK_REFUSE(self, "a software driver ends loops after 65535 rounds");
    }
}

void rlx_vk_bind(rlx_vk_lowering *self, uint32_t binding, uint32_t operand, bool is_written) {
    self->now.operands[binding] = operand;
    if (is_written) self->now.written |= 1u << binding;
}

void rlx_vk_set(rlx_vk_lowering *self, uint32_t word, int64_t value) {
    if (word >= RLX_VK_WORDS) RLX_VK_REFUSE(self, "its record would be too long");
    self->now.words[word] = (int32_t)value;
    if (word >= self->now.word_count) self->now.word_count = word + 1;
}

void rlx_vk_set_float(rlx_vk_lowering *self, uint32_t word, double value) {
    float narrow = (float)value;
    int32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    rlx_vk_set(self, word, bits);
}

void rlx_vk_set_double(rlx_vk_lowering *self, uint32_t word, double value) {
    int32_t bits[2];
    memcpy(bits, &value, sizeof bits);
    rlx_vk_set(self, word, bits[0]);
    rlx_vk_set(self, word + 1, bits[1]);
}

void rlx_vk_set_base(rlx_vk_lowering *self, uint32_t word, uint32_t operand, int64_t elements) {
    rlx_vk_set(self, word, elements);
    if (self->now.base_count == RLX_VK_BINDINGS) RLX_VK_REFUSE(self, "too many operands");
    self->now.bases[self->now.base_count++] = (rlx_vk_base){word, operand};
}

void rlx_vk_set_dim(rlx_vk_lowering *self, uint32_t word, uint32_t operand, uint32_t axis) {
    rlx_vk_set(self, word, rlx_vk_operand(self, operand)->dims[axis]);
    if (operand >= RLX_VK_OPERANDS) return;
    self->covered[operand] |= (uint8_t)(1u << axis);
    if (self->query->extents == NULL || (self->query->extents[operand] >> axis & 1) == 0) return;
    if (self->now.dim_count == RLX_VK_PATCHES) RLX_VK_REFUSE(self, "too many sizes of a run");
    self->now.dims[self->now.dim_count++] = (rlx_vk_dim){word, operand, axis};
}

void rlx_vk_cover(rlx_vk_lowering *self, uint32_t operand) {
    if (operand < RLX_VK_OPERANDS) self->covered[operand] = UINT8_MAX;
}

void rlx_vk_set_all(rlx_vk_lowering *self, uint32_t word, const int64_t *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        rlx_vk_set(self, word + i, values[i]);
}

void rlx_vk_broadcast(const rlx_tensor *tensor, uint32_t rank, int64_t *strides) {
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t missing = rank - tensor->rank;
        bool is_there = tensor->data != NULL && i >= missing && tensor->dims[i - missing] != 1;
        strides[i] = is_there ? tensor->strides[i - missing] : 0;
    }
}

uint64_t rlx_vk_groups(int64_t items) {
    return ((uint64_t)items + RLX_VK_LANES - 1) / RLX_VK_LANES;
}

bool rlx_vk_is_float(rlx_dtype dtype) {
    return dtype <= RLX_DTYPE_BF16;
}

bool rlx_vk_set_activation(rlx_vk_lowering *self, const rlx_activation *activation,
                           uint32_t alpha_word) {
    enum { NO_ACTIVATION = 99 }; /* math.glsl */
    self->now.constants[0] = NO_ACTIVATION;
    if (activation->op == RLX_OP_NONE || activation->op == RLX_OP_IDENTITY) return true;
    if (activation->op < RLX_OP_ABS || activation->op > RLX_OP_CLIP) return false;
    self->now.constants[0] = (uint32_t)activation->op - RLX_OP_ABS;
    rlx_vk_set_float(self, alpha_word, activation->alpha);
    rlx_vk_set_float(self, alpha_word + 1, activation->beta);
    return true;
}
_Static_assert(RLX_OP_CLIP - RLX_OP_ABS == 41, "math.glsl numbers the activations");
