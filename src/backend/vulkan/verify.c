/* SPDX-License-Identifier: Apache-2.0 */
/* Derives hazards again from the list of commands: every pair that has no barrier between it is
 * compared byte range by byte range. */
#include "backend/vulkan/record.h"

static const char *const hazards[2][2] = {{"", "write after read"},
                                          {"read after write", "write after write"}};

static rlx_status check_pair(const rlx_vk_command *first, const rlx_vk_command *second) {
    for (const rlx_vk_range *a = first->ranges; a < first->ranges + RLX_VK_BINDINGS; a++) {
        uint64_t a_end = a->offset + a->bytes;
        if (a->buffer == VK_NULL_HANDLE) continue;
        for (const rlx_vk_range *b = second->ranges; b < second->ranges + RLX_VK_BINDINGS; b++) {
            uint64_t b_end = b->offset + b->bytes;
            bool is_shared = b->buffer == a->buffer && a->offset < b_end && b->offset < a_end;
            if (!is_shared || !(a->is_written || b->is_written)) continue;
            return RLX_FAIL(RLX_INVALID_PLAN,
                            "%s without a barrier: step %u at %" PRIu64 " + %" PRIu64
                            ", step %u at %" PRIu64 " + %" PRIu64,
                            hazards[a->is_written][b->is_written], first->step, a->offset, a->bytes,
                            second->step, b->offset, b->bytes);
        }
    }
    return RLX_OK;
}

rlx_status rlx_vk_commands_verify(const rlx_vk_commands *commands) {
    const rlx_vk_command *items = commands->list.items;
    for (uint32_t i = 0; i < commands->list.count; i++) {
        if (items[i].kind == RLX_VK_BARRIER) continue;
        for (uint32_t k = i + 1; k < commands->list.count; k++) {
            if (items[k].kind == RLX_VK_BARRIER) break;
            RLX_TRY(check_pair(&items[i], &items[k]));
        }
    }
    return RLX_OK;
}
