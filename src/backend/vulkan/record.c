/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers where bytes conflict. See record.h. */
#include "backend/vulkan/record.h"

static bool conflict(const rlx_vk_range *a, const rlx_vk_range *b) {
    if (a->buffer == VK_NULL_HANDLE || a->buffer != b->buffer) return false;
    if (!a->is_written && !b->is_written) return false;
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static bool commands_conflict(const rlx_vk_command *a, const rlx_vk_command *b) {
    for (uint32_t i = 0; i < RLX_VK_BINDINGS; i++) {
        for (uint32_t k = 0; k < RLX_VK_BINDINGS; k++) {
            if (conflict(&a->ranges[i], &b->ranges[k])) return true;
        }
    }
    return false;
}

rlx_status rlx_vk_commands_add(const rlx_allocator *allocator, rlx_vk_commands *commands,
                               const rlx_vk_command *command) {
    for (uint32_t i = commands->since; i < commands->list.count; i++) {
        if (!commands_conflict(&commands->list.items[i], command)) continue;
        rlx_vk_command barrier = {.kind = RLX_VK_BARRIER, .step = command->step};
        RLX_TRY(rlx_vec_push(allocator, &commands->list, barrier));
        commands->since = commands->list.count;
        break;
    }
    return rlx_vec_push(allocator, &commands->list, *command);
}
