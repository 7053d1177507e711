/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise ops and chains of them: one dispatch, whose code chain.c makes. A single op is a
 * chain of one. */
#include "backend/vulkan/chain.h"
#include "backend/vulkan/lower.h"
#include "ir/op.h"

enum { MOST_INPUTS = 9, OUTPUT = 10, STRIDES = RLX_MAX_RANK };

/* The walk over the output, with axes put together where every operand allows it. */
typedef struct walk {
    uint32_t rank, operand_count; /* inputs, then the output */
    int64_t dims[RLX_MAX_RANK];
    uint32_t axis[RLX_MAX_RANK]; /* of the output, where a dim is known in a run alone */
    int64_t strides[MOST_INPUTS + 1][RLX_MAX_RANK];
} walk;

static bool joins(const walk *self, uint32_t inner, const int64_t (*strides)[RLX_MAX_RANK],
                  uint32_t axis) {
    for (uint32_t i = 0; i < self->operand_count; i++) {
        if (strides[i][axis] != self->strides[i][inner] * self->dims[inner]) return false;
    }
    return true;
}

/* From the last axis to the first; `walk` has them in that order until it is turned round. */
static void make_walk(const rlx_vk_lowering *self, walk *out) {
    const rlx_target_query *query = self->query;
    const rlx_tensor *y = &query->out[0];
    uint8_t extents = query->extents == NULL ? 0 : query->extents[query->in_count];
    int64_t strides[MOST_INPUTS + 1][RLX_MAX_RANK];
    bool was_free = false;
    out->rank = 0;
    out->operand_count = query->in_count + 1;
    for (uint32_t i = 0; i < out->operand_count; i++)
        rlx_vk_broadcast(rlx_vk_operand(self, i), y->rank, strides[i]);
    for (uint32_t axis = y->rank; axis-- > 0;) {
        bool is_free = (extents >> axis & 1) == 0;
        if (is_free && y->dims[axis] == 1) continue;
        if (is_free && was_free &&
            joins(out, out->rank - 1, (const int64_t(*)[RLX_MAX_RANK])strides, axis)) {
            out->dims[out->rank - 1] *= y->dims[axis];
            continue;
        }
        out->dims[out->rank] = y->dims[axis];
        out->axis[out->rank] = is_free ? RLX_NONE : axis;
        for (uint32_t i = 0; i < out->operand_count; i++)
            out->strides[i][out->rank] = strides[i][axis];
        out->rank++;
        was_free = is_free;
    }
}

static void set_walk(rlx_vk_lowering *self, const walk *w) {
    uint32_t output = self->query->in_count;
    self->now.constants[0] = w->rank;
    for (uint32_t i = 0; i < w->rank; i++) {
        uint32_t from = w->rank - 1 - i;
        if (w->axis[from] == RLX_NONE) {
            rlx_vk_set(self, 1 + i, w->dims[from]);
        } else {
            rlx_vk_set_dim(self, 1 + i, output, w->axis[from]);
        }
        rlx_vk_set(self, 10 + i, w->strides[output][from]);
        for (uint32_t k = 0; k < output; k++)
            rlx_vk_set(self, 18 + 9 * k + 1 + i, w->strides[k][from]);
    }
    rlx_vk_set_base(self, 9, output, 0);
    rlx_vk_bind(self, OUTPUT, output, true);
    for (uint32_t k = 0; k < output; k++) {
        rlx_vk_set_base(self, 18 + 9 * k, k, 0);
        rlx_vk_bind(self, 1 + k, k, false);
        rlx_vk_cover(self, k);
    }
}

static void emit_code(rlx_vk_lowering *self, const rlx_chain_instruction *code, uint32_t count) {
    rlx_dtype dtypes[MOST_INPUTS];
    walk w;
    const char *why;
    for (uint32_t i = 0; i < self->query->in_count; i++)
        dtypes[i] = self->query->in[i].dtype;
    why = rlx_vk_chain_check(code, count, dtypes, self->caps->has_f64);
    if (why != NULL) RLX_VK_REFUSE(self, why);
    make_walk(self, &w);
    rlx_vk_begin(self, RLX_VK_CHAIN);
    self->now.code = code;
    self->now.code_count = count;
    self->now.faults = rlx_vk_chain_faults(code, count, dtypes);
    set_walk(self, &w);
    rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(&self->query->out[0])));
}

static void emit_one(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    rlx_chain_instruction one = {.op = query->op,
                                 .dtype = query->out[0].dtype,
                                 .operands = {RLX_CHAIN_NONE, RLX_CHAIN_NONE, RLX_CHAIN_NONE}};
    for (uint32_t i = 0; i < query->in_count && i < 3; i++)
        one.operands[i] = (int64_t)i;
    if (query->in_count == 1 && query->op != RLX_OP_CAST && query->attrs != NULL) {
        const rlx_unary_attrs *attrs = query->attrs;
        one.alpha = attrs->alpha;
        one.beta = attrs->beta;
    }
    emit_code(self, &one, 1);
}

void rlx_vk_lower_elementwise(rlx_vk_lowering *self) {
    const rlx_chain_attrs *attrs = self->query->attrs;
    rlx_chain_instruction code[RLX_VK_CHAIN_MOST];
    uint32_t count;
    if (self->query->in_count > MOST_INPUTS) RLX_VK_REFUSE(self, "more than 9 inputs");
    if (self->query->op != RLX_OP_CHAIN) {
        emit_one(self);
        return;
    }
    count = rlx_chain_count(attrs->code);
    if (count > RLX_VK_CHAIN_MOST) RLX_VK_REFUSE(self, "a chain of more than 64 ops");
    for (uint32_t i = 0; i < count; i++)
        code[i] = rlx_chain_at(attrs->code, i);
    emit_code(self, code, count);
}
