/* SPDX-License-Identifier: Apache-2.0 */
/* The SPIR-V of a chain: shaders/chain.comp with its evaluate() replaced by calls. */
#ifndef RLX_BACKEND_VULKAN_CHAIN_H
#define RLX_BACKEND_VULKAN_CHAIN_H

#include "base/vec.h"
#include "ir/chain.h"

enum { RLX_VK_CHAIN_MOST = 64 };

typedef RLX_VEC(uint32_t) rlx_vk_code;

/* Why a chain over inputs of these dtypes has no shader; NULL: it has. f64 where the device has. */
const char *rlx_vk_chain_check(const rlx_chain_instruction *code, uint32_t count,
                               const rlx_dtype *inputs, bool has_f64);
/* Whether it can raise a fault. */
bool rlx_vk_chain_faults(const rlx_chain_instruction *code, uint32_t count,
                         const rlx_dtype *inputs);
/* The module. `library` is chain.comp as it was compiled. */
RLX_WARN_UNUSED rlx_status rlx_vk_chain_assemble(const rlx_allocator *allocator,
                                                 const uint32_t *library, uint32_t words,
                                                 const rlx_chain_instruction *code, uint32_t count,
                                                 const rlx_dtype *inputs, rlx_vk_code *out_code);

#endif
