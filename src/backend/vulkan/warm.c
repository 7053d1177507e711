/* SPDX-License-Identifier: Apache-2.0 */
/* Warming up: some drivers compile a pipeline when it is first dispatched, not when it is made.
 * Each pipeline of a stretch is dispatched once over a little memory of its own, with a record that
 * says there is nothing to do: rank 1, and 0 elements. Nothing of the arena is touched. */
#include "backend/vulkan/stream.h"

#include <string.h>

enum { RECORD_BYTES = RLX_VK_WORDS * 4 };

/* What the dispatches look at instead of operands. */
typedef struct vk_nothing {
    rlx_vk_buffer memory;
    VkDescriptorPool pool;
    VkDescriptorSet sets[RLX_VK_LAYOUTS];
} vk_nothing;

static rlx_status create_nothing(rlx_vk_device *device, vk_nothing *self) {
    rlx_vk_range ranges[RLX_VK_BINDINGS] = {0};
    int32_t *record;
    RLX_TRY(rlx_vk_buffer_create(device, RLX_VK_UPLOAD, RECORD_BYTES, &self->memory));
    record = self->memory.mapped;
    memset(record, 0, RECORD_BYTES);
    record[1] = 1;
    RLX_TRY(rlx_vk_flush(device, &self->memory, 0, RECORD_BYTES));
    ranges[0] = (rlx_vk_range){self->memory.handle, 0, RECORD_BYTES, false};
    RLX_TRY(rlx_vk_create_sets(device, RLX_VK_LAYOUTS, &self->pool));
    for (uint32_t i = 0; i < RLX_VK_LAYOUTS; i++)
        RLX_TRY(rlx_vk_write_set(device, self->pool, i, ranges, &self->sets[i]));
    return RLX_OK;
}

static void destroy_nothing(rlx_vk_device *device, vk_nothing *self) {
    if (self->pool != VK_NULL_HANDLE) {
        device->vk.DestroyDescriptorPool(device->handle, self->pool, NULL);
    }
    rlx_vk_buffer_destroy(device, &self->memory);
}

/* The device's row of a pipeline, unless it was dispatched before. */
static rlx_vk_pipeline *find_cold(rlx_vk_device *device, const rlx_vk_command *command) {
    if (command->kind != RLX_VK_DISPATCH) return NULL;
    for (uint32_t i = 0; i < device->pipelines.count; i++) {
        rlx_vk_pipeline *row = &device->pipelines.items[i];
        if (row->handle == command->pipeline) return row->is_warm ? NULL : row;
    }
    return NULL;
}

static void record_dispatch(rlx_vk_device *device, const vk_nothing *nothing,
                            const rlx_vk_pipeline *row) {
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    device->vk.CmdPipelineBarrier(device->transfer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                  VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &all, 0, NULL, 0,
                                  NULL);
    device->vk.CmdBindPipeline(device->transfer, VK_PIPELINE_BIND_POINT_COMPUTE, row->handle);
    device->vk.CmdBindDescriptorSets(device->transfer, VK_PIPELINE_BIND_POINT_COMPUTE,
                                     device->layouts[row->layout].pipeline, 0, 1,
                                     &nothing->sets[row->layout], 0, NULL);
    device->vk.CmdDispatch(device->transfer, 1, 1, 1);
}

static rlx_status dispatch_cold(rlx_vk_device *device, const rlx_vk_commands *commands,
                                const vk_nothing *nothing) {
    RLX_TRY(rlx_vk_begin_transfer(device));
    for (uint32_t i = 0; i < commands->list.count; i++) {
        rlx_vk_pipeline *row = find_cold(device, &commands->list.items[i]);
        if (row == NULL) continue;
        record_dispatch(device, nothing, row);
        row->is_warm = true;
    }
    return rlx_vk_finish_transfer(device);
}

rlx_status rlx_vk_warm_up(rlx_stream *base, rlx_stretch *stretch) {
    rlx_vk_device *device = ((rlx_vk_stream *)base)->device;
    const rlx_vk_commands *commands = &((rlx_vk_stretch *)stretch)->commands;
    vk_nothing nothing = {0};
    rlx_status status = RLX_OK;
    bool is_cold = false;
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < commands->list.count && !is_cold; i++)
        is_cold = find_cold(device, &commands->list.items[i]) != NULL;
    if (is_cold) status = create_nothing(device, &nothing);
    if (is_cold && status == RLX_OK) status = dispatch_cold(device, commands, &nothing);
    destroy_nothing(device, &nothing);
    pthread_mutex_unlock(&device->lock);
    return status;
}
