/* SPDX-License-Identifier: Apache-2.0 */
/* A stretch from inside, for the stream and for tests that look at what was recorded. */
#ifndef RLX_BACKEND_VULKAN_STREAM_H
#define RLX_BACKEND_VULKAN_STREAM_H

#include "backend/vulkan/device.h"
#include "backend/vulkan/record.h"

typedef struct rlx_vk_stretch {
    rlx_stretch base;
    rlx_vk_commands commands;
    rlx_vk_buffer records; /* one per dispatch, at multiples of RLX_VK_ALIGNMENT */
    VkDescriptorPool sets;
    VkCommandPool pool;
    VkCommandBuffer plain, timed; /* timed is recorded when times are first asked for */
    VkQueryPool queries;
} rlx_vk_stretch;

typedef struct rlx_vk_stream {
    rlx_stream base;
    rlx_vk_device *device; /* borrowed */
    uint64_t value;        /* of the timeline: the last submit */
    rlx_vk_stretch *last;
    rlx_step_time *times; /* of the last submit; NULL: not wanted */
    uint64_t submit_ns;
} rlx_vk_stream;

/* sets.c: room for sets; and one of them, in which each binding of a layout shows exactly its
 * range. What has no bytes shows the range of binding 0, which is never read through it. */
RLX_WARN_UNUSED rlx_status rlx_vk_create_sets(rlx_vk_device *device, uint32_t count,
                                              VkDescriptorPool *out_pool);
RLX_WARN_UNUSED rlx_status rlx_vk_write_set(rlx_vk_device *device, VkDescriptorPool pool,
                                            uint32_t layout, const rlx_vk_range *ranges,
                                            VkDescriptorSet *out_set);

/* prepare.c: lowers the steps and fills commands, records and sets. */
RLX_WARN_UNUSED rlx_status rlx_vk_stretch_fill(rlx_vk_stream *stream, rlx_vk_stretch *stretch);

/* warm.c: dispatches each pipeline of the stretch that was not yet, over nothing. */
RLX_WARN_UNUSED rlx_status rlx_vk_warm_up(rlx_stream *base, rlx_stretch *stretch);

#endif
