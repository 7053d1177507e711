/* SPDX-License-Identifier: Apache-2.0 */
/* A plan step as dispatches: which shader, which operands at which binding, and the record of
 * numbers it reads. A pure function of op, attributes and dims, asked twice: by the target, which
 * only wants to know whether there is a shader, and by the stream, which records what comes out. */
#ifndef RLX_BACKEND_VULKAN_LOWER_H
#define RLX_BACKEND_VULKAN_LOWER_H

#include "backend/vulkan/caps.h"
#include "ir/chain.h"
#include "plan/target.h"

#include <rlx/value.h>

typedef enum rlx_vk_shader {
#define RLX_VK_SHADER(upper, lower) RLX_VK_##upper,
#include "backend/vulkan/pipelines.def"
#undef RLX_VK_SHADER
    RLX_VK_SHADER_COUNT
} rlx_vk_shader;

enum {
    RLX_VK_BINDINGS = 12, /* 0 is the record, 11 the fault record */
    RLX_VK_FAULT_BINDING = 11,
    RLX_VK_CONSTANTS = 6,
    RLX_VK_WORDS = 2112,
    RLX_VK_PATCHES = 64,
    RLX_VK_OPERANDS = 64, /* whose dims may be known in a run alone */
    RLX_VK_LANES = 64     /* of a group */
};
/* Stands for the workspace of a step where an operand is bound. */
#define RLX_VK_WORKSPACE (RLX_NONE - 1)

/* A word of the record that is a dim; and one that is counted from an operand's first element. */
typedef struct rlx_vk_dim {
    uint32_t word, operand, axis;
} rlx_vk_dim;
typedef struct rlx_vk_base {
    uint32_t word, operand;
} rlx_vk_base;

typedef struct rlx_vk_dispatch {
    rlx_vk_shader shader;
    const rlx_chain_instruction *code; /* of a chain; borrowed for the call */
    uint32_t code_count;
    uint32_t operands[RLX_VK_BINDINGS]; /* number among inputs, then outputs; RLX_NONE: unbound */
    uint32_t written;                   /* bit per binding */
    bool faults;
    uint32_t constants[RLX_VK_CONSTANTS];
    uint32_t word_count, base_count, dim_count;
    int32_t words[RLX_VK_WORDS];
    rlx_vk_base bases[RLX_VK_BINDINGS];
    rlx_vk_dim dims[RLX_VK_PATCHES];
    uint64_t groups;
} rlx_vk_dispatch;

typedef struct rlx_vk_lowering rlx_vk_lowering;
struct rlx_vk_lowering {
    const rlx_vk_caps *caps;
    const rlx_target_query *query;
    uint32_t step;
    uint64_t unaligned; /* bit per operand: its first element is not at a multiple of 16 bytes */
    /* Called for each dispatch, in order; one that reads what another of the step wrote comes after
     * it. */
    rlx_status (*emit)(void *user, const rlx_vk_dispatch *dispatch);
    void *user;
    /* Results. */
    const char *why; /* why there is no shader for this; NULL: there is one */
    uint64_t workspace_bytes;
    rlx_status status;
    /* Inside. */
    uint8_t covered[RLX_VK_OPERANDS]; /* bit per axis: a dim that a shader reads */
    rlx_vk_dispatch now;
};

/* Emits the dispatches of a step, or says why not. */
void rlx_vk_lower(rlx_vk_lowering *self);

/* For the families (lower_*.c). */
#define RLX_VK_REFUSE(self, text)                      \
    do {                                               \
        if ((self)->why == NULL) (self)->why = (text); \
        return;                                        \
    } while (0)
void rlx_vk_begin(rlx_vk_lowering *self, rlx_vk_shader shader);
void rlx_vk_emit(rlx_vk_lowering *self, uint64_t groups);
/* Refuses a shader whose lanes go through more rounds of loops, all loops together, than the device
 * does: Mesa's software driver leaves every loop after 65535 and says nothing. */
void rlx_vk_limit_rounds(rlx_vk_lowering *self, int64_t rounds);
/* The limit; INT64_MAX: none. */
int64_t rlx_vk_most_rounds(const rlx_vk_lowering *self);
const rlx_tensor *rlx_vk_operand(const rlx_vk_lowering *self, uint32_t operand);
/* The operand at a binding. */
void rlx_vk_bind(rlx_vk_lowering *self, uint32_t binding, uint32_t operand, bool is_written);
/* words[word] = elements past the first of an operand. */
void rlx_vk_set_base(rlx_vk_lowering *self, uint32_t word, uint32_t operand, int64_t elements);
void rlx_vk_set(rlx_vk_lowering *self, uint32_t word, int64_t value);
void rlx_vk_set_float(rlx_vk_lowering *self, uint32_t word, double value);
void rlx_vk_set_double(rlx_vk_lowering *self, uint32_t word, double value); /* and the word after */
/* words[word] = a dim, which may only be known in a run. */
void rlx_vk_set_dim(rlx_vk_lowering *self, uint32_t word, uint32_t operand, uint32_t axis);
/* Dims of this operand follow from those of others. */
void rlx_vk_cover(rlx_vk_lowering *self, uint32_t operand);
/* `values` from `word` on. */
void rlx_vk_set_all(rlx_vk_lowering *self, uint32_t word, const int64_t *values, uint32_t count);
/* Strides of an operand broadcast to `rank` axes. */
void rlx_vk_broadcast(const rlx_tensor *tensor, uint32_t rank, int64_t *strides);
uint64_t rlx_vk_groups(int64_t items); /* of RLX_VK_LANES */
bool rlx_vk_is_float(rlx_dtype dtype); /* one that shaders know */
/* What a shader takes a dtype for: one of the same size, where it only moves elements. */
rlx_dtype rlx_vk_shader_dtype(rlx_dtype dtype);
/* Activation as a constant; false: none of ours. */
bool rlx_vk_set_activation(rlx_vk_lowering *self, const rlx_activation *activation,
                           uint32_t alpha_word);

void rlx_vk_lower_elementwise(rlx_vk_lowering *self);
void rlx_vk_lower_matmul(rlx_vk_lowering *self);
void rlx_vk_lower_conv(rlx_vk_lowering *self);
void rlx_vk_lower_pool(rlx_vk_lowering *self);
void rlx_vk_lower_attention(rlx_vk_lowering *self);
void rlx_vk_lower_recurrent(rlx_vk_lowering *self);
void rlx_vk_lower_rope(rlx_vk_lowering *self);
void rlx_vk_lower_softmax(rlx_vk_lowering *self);
void rlx_vk_lower_norm(rlx_vk_lowering *self);
void rlx_vk_lower_batch_norm(rlx_vk_lowering *self);
void rlx_vk_lower_reduce(rlx_vk_lowering *self);
void rlx_vk_lower_line(rlx_vk_lowering *self);
void rlx_vk_lower_view(rlx_vk_lowering *self);
void rlx_vk_lower_concat(rlx_vk_lowering *self);
void rlx_vk_lower_tile(rlx_vk_lowering *self);
void rlx_vk_lower_pad(rlx_vk_lowering *self);
void rlx_vk_lower_gather(rlx_vk_lowering *self);
void rlx_vk_lower_scatter(rlx_vk_lowering *self);
void rlx_vk_lower_state_write(rlx_vk_lowering *self);
void rlx_vk_lower_nonzero(rlx_vk_lowering *self);
void rlx_vk_lower_nms(rlx_vk_lowering *self);
void rlx_vk_lower_unique(rlx_vk_lowering *self);
void rlx_vk_lower_roi_align(rlx_vk_lowering *self);
void rlx_vk_lower_gather_sum(rlx_vk_lowering *self);

#endif
