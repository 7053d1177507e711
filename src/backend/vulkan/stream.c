/* SPDX-License-Identifier: Apache-2.0 */
/* The Vulkan stream: a stretch is recorded once and submitted as it is in every run. */
#include "backend/vulkan/stream.h"

#include "base/log.h"

#include <string.h>

/* Between dispatches and copies of one recording. */
static void record_barrier(rlx_vk_device *device, VkCommandBuffer to) {
    const VkPipelineStageFlags stages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkMemoryBarrier all = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
    device->vk.CmdPipelineBarrier(to, stages, stages, 0, 1, &all, 0, NULL, 0, NULL);
}

static void record_end(rlx_vk_device *device, VkCommandBuffer to) {
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask =
                               VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT};
    device->vk.CmdPipelineBarrier(
        to, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
        VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0, NULL, 0, NULL);
}

/* *bound is the pipeline that is bound already. */
static void record_dispatch(rlx_vk_device *device, VkCommandBuffer to,
                            const rlx_vk_command *command, VkPipeline *bound) {
    uint64_t most = device->caps.group_count;
    uint64_t x = command->groups < most ? command->groups : most;
    uint64_t y = (command->groups + x - 1) / x;
    if (*bound != command->pipeline) {
        device->vk.CmdBindPipeline(to, VK_PIPELINE_BIND_POINT_COMPUTE, command->pipeline);
        *bound = command->pipeline;
    }
    device->vk.CmdBindDescriptorSets(to, VK_PIPELINE_BIND_POINT_COMPUTE,
                                     device->layouts[command->layout].pipeline, 0, 1, &command->set,
                                     0, NULL);
    device->vk.CmdDispatch(to, (uint32_t)x, (uint32_t)y, 1);
}

static void record_command(rlx_vk_device *device, VkCommandBuffer to, const rlx_vk_command *command,
                           VkPipeline *bound) {
    if (command->kind == RLX_VK_BARRIER) record_barrier(device, to);
    if (command->kind == RLX_VK_DISPATCH) record_dispatch(device, to, command, bound);
    if (command->kind == RLX_VK_COPY_BYTES) {
        VkBufferCopy region = {command->ranges[0].offset, command->ranges[1].offset,
                               command->ranges[1].bytes};
        device->vk.CmdCopyBuffer(to, command->ranges[0].buffer, command->ranges[1].buffer, 1,
                                 &region);
    }
}

/* Timestamps stand before and after each step; a step without commands has both in one place. */
static void record_timed(rlx_vk_device *device, VkCommandBuffer to, const rlx_vk_stretch *self) {
    const rlx_vk_commands *commands = &self->commands;
    VkPipeline bound = VK_NULL_HANDLE;
    uint32_t at = 0;
    device->vk.CmdResetQueryPool(to, self->queries, 0, 2 * self->base.step_count);
    for (uint32_t i = 0; i < self->base.step_count; i++) {
        device->vk.CmdWriteTimestamp(to, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, self->queries,
                                     2 * i);
        for (; at < commands->list.count &&
               commands->list.items[at].step == self->base.first_step + i;
             at++) {
            record_command(device, to, &commands->list.items[at], &bound);
        }
        device->vk.CmdWriteTimestamp(to, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, self->queries,
                                     2 * i + 1);
    }
}

static rlx_status allocate(rlx_vk_device *device, rlx_vk_stretch *self,
                           VkCommandBuffer *out_commands) {
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = self->pool,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    return rlx_vk_check(device,
                        device->vk.AllocateCommandBuffers(device->handle, &info, out_commands),
                        "vkAllocateCommandBuffers");
}

/* Records into *commands, which is made when it is NULL. */
static rlx_status record(rlx_vk_device *device, rlx_vk_stretch *self, bool is_timed,
                         VkCommandBuffer *commands) {
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkCommandBuffer to = *commands;
    if (to == NULL) RLX_TRY(allocate(device, self, &to));
    atomic_fetch_add(&device->recordings, 1);
    RLX_TRY(
        rlx_vk_check(device, device->vk.BeginCommandBuffer(to, &begin), "vkBeginCommandBuffer"));
    record_barrier(device, to); /* what other submits wrote */
    if (is_timed) {
        record_timed(device, to, self);
    } else {
        VkPipeline bound = VK_NULL_HANDLE;
        for (uint32_t i = 0; i < self->commands.list.count; i++)
            record_command(device, to, &self->commands.list.items[i], &bound);
    }
    record_end(device, to);
    RLX_TRY(rlx_vk_check(device, device->vk.EndCommandBuffer(to), "vkEndCommandBuffer"));
    *commands = to;
    return RLX_OK;
}

static void release_stretch(rlx_vk_device *device, rlx_vk_stretch *self) {
    const rlx_vk_functions *vk = &device->vk;
    if (self->queries != VK_NULL_HANDLE) vk->DestroyQueryPool(device->handle, self->queries, NULL);
    if (self->pool != VK_NULL_HANDLE) vk->DestroyCommandPool(device->handle, self->pool, NULL);
    if (self->sets != VK_NULL_HANDLE) vk->DestroyDescriptorPool(device->handle, self->sets, NULL);
    rlx_vk_buffer_destroy(device, &self->records);
    rlx_vec_free(&self->base.stream->allocator, &self->commands.list);
    rlx_free(&self->base.stream->allocator, self);
}

static void vk_release(rlx_stream *base, rlx_stretch *stretch) {
    rlx_vk_stream *stream = (rlx_vk_stream *)base;
    if (rlx_stream_wait(base) != RLX_OK) {
        /* Lost, and said so already: its objects may go. */
    }
    if (stream->last == (rlx_vk_stretch *)stretch) stream->last = NULL;
    release_stretch(stream->device, (rlx_vk_stretch *)stretch);
}

static rlx_status create_pool(rlx_vk_device *device, rlx_vk_stretch *self) {
    VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .queueFamilyIndex = device->caps.compute_family};
    if (device->records_always) info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    return rlx_vk_check(device,
                        device->vk.CreateCommandPool(device->handle, &info, NULL, &self->pool),
                        "vkCreateCommandPool");
}

static rlx_status fill_stretch(rlx_vk_stream *stream, rlx_vk_stretch *self) {
    RLX_TRY(rlx_vk_stretch_fill(stream, self));
#ifdef RLX_ENABLE_ASSERT
    RLX_TRY(rlx_vk_commands_verify(&self->commands));
#endif
    RLX_TRY(create_pool(stream->device, self));
    return record(stream->device, self, false, &self->plain);
}

static rlx_status vk_prepare(rlx_stream *base, uint32_t first_step, uint32_t step_count,
                             rlx_stretch **out_stretch) {
    rlx_vk_stream *stream = (rlx_vk_stream *)base;
    rlx_vk_stretch *self = NULL;
    rlx_status status;
    RLX_TRY(rlx_alloc_zero(&base->allocator, sizeof *self, (void **)&self));
    self->base = (rlx_stretch){base, first_step, step_count};
    status = fill_stretch(stream, self);
    if (status != RLX_OK) {
        release_stretch(stream->device, self);
        return status;
    }
    *out_stretch = &self->base;
    return RLX_OK;
}

static rlx_status prepare_times(rlx_vk_device *device, rlx_vk_stretch *self) {
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                  .queryCount = 2 * self->base.step_count};
    if (self->timed != NULL) return RLX_OK;
    if (self->queries == VK_NULL_HANDLE) {
        RLX_TRY(rlx_vk_check(
            device, device->vk.CreateQueryPool(device->handle, &info, NULL, &self->queries),
            "vkCreateQueryPool"));
    }
    return record(device, self, true, &self->timed);
}

static rlx_status vk_submit(rlx_stream *base, rlx_stretch *stretch, rlx_step_time *times) {
    rlx_vk_stream *stream = (rlx_vk_stream *)base;
    rlx_vk_stretch *self = (rlx_vk_stretch *)stretch;
    bool is_timed = times != NULL && stream->device->caps.timestamp_ns != 0;
    if (is_timed) RLX_TRY(prepare_times(stream->device, self));
    if (stream->device->records_always && !is_timed) {
        if (stream->value != 0) RLX_TRY(rlx_vk_wait(stream->device, stream->value));
        RLX_TRY(record(stream->device, self, false, &self->plain));
    }
    stream->submit_ns = rlx_now_ns();
    stream->times = times;
    stream->last = self;
    RLX_TRY_WITH(
        rlx_vk_submit(stream->device, is_timed ? self->timed : self->plain, &stream->value),
        "steps %u to %u", stretch->first_step, stretch->first_step + stretch->step_count - 1);
    return RLX_OK;
}

/* Device ticks, laid so that the first is the moment of the submit. */
static rlx_status read_times(rlx_vk_stream *stream) {
    rlx_vk_device *device = stream->device;
    rlx_vk_stretch *self = stream->last;
    uint64_t first = 0;
    for (uint32_t i = 0; i < self->base.step_count; i++) {
        uint64_t ticks[2] = {0};
        RLX_TRY(rlx_vk_check(
            device,
            device->vk.GetQueryPoolResults(device->handle, self->queries, 2 * i, 2, sizeof ticks,
                                           ticks, sizeof ticks[0],
                                           VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
            "vkGetQueryPoolResults"));
        if (i == 0) first = ticks[0];
        stream->times[i] = (rlx_step_time){
            stream->submit_ns + (uint64_t)((double)(ticks[0] - first) * device->caps.timestamp_ns),
            stream->submit_ns + (uint64_t)((double)(ticks[1] - first) * device->caps.timestamp_ns)};
    }
    return RLX_OK;
}

static rlx_status vk_wait(rlx_stream *base) {
    rlx_vk_stream *stream = (rlx_vk_stream *)base;
    rlx_vk_stretch *self = stream->last;
    rlx_status status = rlx_vk_wait(stream->device, stream->value);
    if (status != RLX_OK && self != NULL) {
        return rlx_fail_context(status, "steps %u to %u", self->base.first_step,
                                self->base.first_step + self->base.step_count - 1);
    }
    if (status != RLX_OK || stream->times == NULL || self == NULL) return status;
    if (self->timed != NULL) return read_times(stream);
    for (uint32_t i = 0; i < self->base.step_count; i++)
        stream->times[i] = (rlx_step_time){stream->submit_ns, rlx_now_ns()};
    return RLX_OK;
}

static void vk_destroy(rlx_stream *base) {
    rlx_allocator allocator = base->allocator;
    rlx_free(&allocator, base);
}

static const rlx_stream_ops vk_stream_ops = {vk_destroy, vk_prepare, vk_release,
                                             vk_submit,  vk_wait,    rlx_vk_warm_up};

rlx_status rlx_vk_create_stream(rlx_device *base, const rlx_allocator *allocator, rlx_arena *arena,
                                rlx_stream **out_stream) {
    rlx_vk_stream *self = NULL;
    if (allocator == NULL) allocator = rlx_default_allocator();
    if (!rlx_vk_is_arena(arena)) return rlx_vk_create_host_stream(allocator, arena, out_stream);
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *self, (void **)&self));
    self->base.ops = &vk_stream_ops;
    self->base.allocator = *allocator;
    self->base.arena = arena;
    self->device = (rlx_vk_device *)base;
    *out_stream = &self->base;
    return RLX_OK;
}
