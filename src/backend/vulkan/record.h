/* SPDX-License-Identifier: Apache-2.0 */
/* What a stretch does on the device, as a list: dispatches, copies, and the barriers between them.
 * A barrier stands exactly where bytes conflict. The list is what is recorded, and what the
 * verifier reads. Knows no plan. */
#ifndef RLX_BACKEND_VULKAN_RECORD_H
#define RLX_BACKEND_VULKAN_RECORD_H

#include "backend/vulkan/lower.h"
#include "base/vec.h"

typedef struct rlx_vk_range {
    VkBuffer buffer; /* VK_NULL_HANDLE: nothing is bound */
    uint64_t offset, bytes;
    bool is_written;
} rlx_vk_range;

typedef enum rlx_vk_kind { RLX_VK_DISPATCH, RLX_VK_COPY_BYTES, RLX_VK_BARRIER } rlx_vk_kind;

typedef struct rlx_vk_command {
    rlx_vk_kind kind;
    uint32_t step; /* of the plan */
    VkPipeline pipeline;
    uint32_t layout; /* of the device */
    VkDescriptorSet set;
    uint64_t groups;
    /* By binding; of a copy 0 is the source and 1 the destination. */
    rlx_vk_range ranges[RLX_VK_BINDINGS];
} rlx_vk_command;

typedef struct rlx_vk_commands {
    RLX_VEC(rlx_vk_command) list;
    uint32_t since; /* the first command behind the last barrier */
} rlx_vk_commands;

/* Appends a dispatch or copy, with a barrier before it if it conflicts with one since the last
 * barrier. */
RLX_WARN_UNUSED rlx_status rlx_vk_commands_add(const rlx_allocator *allocator,
                                               rlx_vk_commands *commands,
                                               const rlx_vk_command *command);

/* Finds two commands without a barrier between them of which one writes bytes that the other
 * touches. Shares nothing with what placed the barriers. RLX_INVALID_PLAN names both steps. */
RLX_WARN_UNUSED rlx_status rlx_vk_commands_verify(const rlx_vk_commands *commands);

#endif
