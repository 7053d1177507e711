/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a device: submits, waits, and transfers through staging. One timeline counts
 * everything that was submitted. */
#include "backend/vulkan/device.h"

#include <string.h>

/* Longer than any submit should take; software may share its processors with anybody. */
static uint64_t wait_ns(const rlx_vk_device *device) {
    uint64_t minute = UINT64_C(60000000000);
    return device->caps.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 20 * minute : minute;
}

rlx_status rlx_vk_check(rlx_vk_device *device, VkResult result, const char *what) {
    if (result == VK_SUCCESS) return RLX_OK;
    if (result == VK_ERROR_DEVICE_LOST) atomic_store(&device->is_lost, 1);
    return rlx_vk_fail(result, what);
}

static rlx_status check_alive(rlx_vk_device *device) {
    if (atomic_load(&device->is_lost) == 0) return RLX_OK;
    return RLX_FAIL(RLX_DEVICE, "device '%s' was lost: open it again", device->name);
}

static rlx_status submit_locked(rlx_vk_device *device, VkCommandBuffer commands,
                                uint64_t *out_value) {
    uint64_t value = device->submitted + 1;
    VkTimelineSemaphoreSubmitInfo timeline = {.sType =
                                                  VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                              .signalSemaphoreValueCount = 1,
                                              .pSignalSemaphoreValues = &value};
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                         .pNext = &timeline,
                         .commandBufferCount = 1,
                         .pCommandBuffers = &commands,
                         .signalSemaphoreCount = 1,
                         .pSignalSemaphores = &device->timeline};
    RLX_TRY(check_alive(device));
    RLX_TRY(rlx_vk_check(device, device->vk.QueueSubmit(device->queue, 1, &info, VK_NULL_HANDLE),
                         "vkQueueSubmit"));
    device->submitted = value;
    atomic_fetch_add(&device->submits, 1);
    *out_value = value;
    return RLX_OK;
}

rlx_status rlx_vk_submit(rlx_vk_device *device, VkCommandBuffer commands, uint64_t *out_value) {
    rlx_status status;
    pthread_mutex_lock(&device->lock);
    status = submit_locked(device, commands, out_value);
    pthread_mutex_unlock(&device->lock);
    return status;
}

rlx_status rlx_vk_wait(rlx_vk_device *device, uint64_t value) {
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &device->timeline,
                                .pValues = &value};
    VkResult result;
    RLX_TRY(check_alive(device));
    result = device->vk.WaitSemaphores(device->handle, &info, wait_ns(device));
    /* Whoever fails here destroys what the device may still use: it must be idle before. */
    if (result != VK_SUCCESS) (void)device->vk.DeviceWaitIdle(device->handle);
    return rlx_vk_check(device, result, "vkWaitSemaphores");
}

/* What came before on this queue is visible to a transfer, and the transfer to what comes. */
static void barrier(rlx_vk_device *device, VkCommandBuffer commands) {
    VkMemoryBarrier all = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
    device->vk.CmdPipelineBarrier(
        commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
        VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &all, 0, NULL, 0, NULL);
}

static void barrier_to_host(rlx_vk_device *device, VkCommandBuffer commands) {
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                  VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0, NULL, 0, NULL);
}

/* Between begin and submit a caller records a transfer. */
static rlx_status begin(rlx_vk_device *device, VkCommandBuffer commands) {
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    RLX_TRY(check_alive(device));
    RLX_TRY(rlx_vk_check(device, device->vk.BeginCommandBuffer(commands, &info),
                         "vkBeginCommandBuffer"));
    barrier(device, commands);
    return RLX_OK;
}

static rlx_status end(rlx_vk_device *device, VkCommandBuffer commands, uint64_t *out_value) {
    barrier_to_host(device, commands);
    RLX_TRY(rlx_vk_check(device, device->vk.EndCommandBuffer(commands), "vkEndCommandBuffer"));
    return submit_locked(device, commands, out_value);
}

static rlx_status start_copy(rlx_vk_device *device, VkCommandBuffer commands, VkBuffer from,
                             VkBuffer to, VkBufferCopy region, uint64_t *out_value) {
    RLX_TRY(begin(device, commands));
    device->vk.CmdCopyBuffer(commands, from, to, 1, &region);
    return end(device, commands, out_value);
}

static rlx_status copy_locked(rlx_vk_device *device, const rlx_vk_buffer *from,
                              uint64_t from_offset, const rlx_vk_buffer *to, uint64_t to_offset,
                              uint64_t bytes) {
    uint64_t value = 0;
    RLX_TRY(start_copy(device, device->transfer, from->handle, to->handle,
                       (VkBufferCopy){from_offset, to_offset, bytes}, &value));
    return rlx_vk_wait(device, value);
}

rlx_status rlx_vk_begin_transfer(rlx_vk_device *device) {
    return begin(device, device->transfer);
}

rlx_status rlx_vk_finish_transfer(rlx_vk_device *device) {
    uint64_t value = 0;
    RLX_TRY(end(device, device->transfer, &value));
    return rlx_vk_wait(device, value);
}

rlx_status rlx_vk_ring_create(rlx_vk_device *device, VkCommandPool pool, rlx_vk_use use,
                              rlx_vk_ring *out_ring) {
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = pool,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    uint64_t bytes = device->policy.block_bytes;
    if (bytes > RLX_VK_STAGE_BYTES) bytes = RLX_VK_STAGE_BYTES;
    for (uint32_t i = 0; i < RLX_VK_STAGES; i++) {
        RLX_TRY(rlx_vk_buffer_create(device, use, bytes, &out_ring->stages[i]));
        RLX_TRY(rlx_vk_check(
            device,
            device->vk.AllocateCommandBuffers(device->handle, &info, &out_ring->commands[i]),
            "vkAllocateCommandBuffers"));
    }
    return RLX_OK;
}

void rlx_vk_ring_destroy(rlx_vk_device *device, rlx_vk_ring *ring) {
    for (uint32_t i = 0; i < RLX_VK_STAGES; i++)
        rlx_vk_buffer_destroy(device, &ring->stages[i]);
}

/* One piece goes up, or comes down, through a stage. */
typedef struct passage {
    const rlx_vk_buffer *device; /* the device's side */
    uint64_t offset, bytes;      /* all of it */
    uint64_t piece;              /* bytes of a stage */
    uint64_t values[RLX_VK_STAGES];
} passage;

static uint64_t piece_bytes(const passage *self, uint64_t number) {
    uint64_t left = self->bytes - number * self->piece;
    return left < self->piece ? left : self->piece;
}

static rlx_status send_piece(rlx_vk_device *device, passage *self, uint64_t number,
                             const uint8_t *source) {
    uint32_t at = number % RLX_VK_STAGES;
    const rlx_vk_buffer *stage = &device->up.stages[at];
    uint64_t bytes = piece_bytes(self, number), first = number * self->piece;
    if (self->values[at] != 0) RLX_TRY(rlx_vk_wait(device, self->values[at]));
    memcpy(stage->mapped, source + first, (size_t)bytes);
    RLX_TRY(rlx_vk_flush(device, stage, 0, bytes));
    return start_copy(device, device->up.commands[at], stage->handle, self->device->handle,
                      (VkBufferCopy){0, self->offset + first, bytes}, &self->values[at]);
}

static rlx_status ask_piece(rlx_vk_device *device, passage *self, uint64_t number) {
    uint32_t at = number % RLX_VK_STAGES;
    return start_copy(
        device, device->down.commands[at], self->device->handle, device->down.stages[at].handle,
        (VkBufferCopy){self->offset + number * self->piece, 0, piece_bytes(self, number)},
        &self->values[at]);
}

static rlx_status take_piece(rlx_vk_device *device, passage *self, uint64_t number,
                             uint8_t *destination) {
    uint32_t at = number % RLX_VK_STAGES;
    const rlx_vk_buffer *stage = &device->down.stages[at];
    uint64_t bytes = piece_bytes(self, number);
    RLX_TRY(rlx_vk_wait(device, self->values[at]));
    RLX_TRY(rlx_vk_invalidate(device, stage, 0, bytes));
    memcpy(destination + number * self->piece, stage->mapped, (size_t)bytes);
    return RLX_OK;
}

/* Waits for what is under way; the first failure stays. */
static rlx_status settle(rlx_vk_device *device, const passage *self, rlx_status status) {
    rlx_error_record record;
    uint64_t last = 0;
    for (uint32_t i = 0; i < RLX_VK_STAGES; i++) {
        if (self->values[i] > last) last = self->values[i];
    }
    if (status == RLX_OK) return rlx_vk_wait(device, last);
    rlx_error_save(&record);
    if (rlx_vk_wait(device, last) != RLX_OK) {
        /* Nothing is under way on a device that cannot be waited for. */
    }
    rlx_error_restore(&record);
    return status;
}

static rlx_status write_locked(rlx_vk_device *device, const rlx_vk_buffer *to, uint64_t offset,
                               const uint8_t *source, uint64_t bytes) {
    passage self = {
        .device = to, .offset = offset, .bytes = bytes, .piece = device->up.stages[0].bytes};
    rlx_status status = RLX_OK;
    for (uint64_t i = 0; i * self.piece < bytes && status == RLX_OK; i++)
        status = send_piece(device, &self, i, source);
    RLX_TRY(settle(device, &self, status));
    atomic_fetch_add(&device->upload_bytes, bytes);
    return RLX_OK;
}

/* The next piece is on its way while the host takes the last one. */
static rlx_status read_locked(rlx_vk_device *device, const rlx_vk_buffer *from, uint64_t offset,
                              uint8_t *destination, uint64_t bytes) {
    passage self = {
        .device = from, .offset = offset, .bytes = bytes, .piece = device->down.stages[0].bytes};
    uint64_t count = (bytes + self.piece - 1) / self.piece;
    rlx_status status = ask_piece(device, &self, 0);
    for (uint64_t i = 0; i < count && status == RLX_OK; i++) {
        if (i + 1 < count) status = ask_piece(device, &self, i + 1);
        if (status == RLX_OK) status = take_piece(device, &self, i, destination);
    }
    if (status != RLX_OK) return settle(device, &self, status);
    atomic_fetch_add(&device->download_bytes, bytes);
    return RLX_OK;
}

rlx_status rlx_vk_write(rlx_vk_device *device, const rlx_vk_buffer *to, uint64_t offset,
                        const void *source, uint64_t bytes) {
    rlx_status status;
    pthread_mutex_lock(&device->lock);
    status = write_locked(device, to, offset, source, bytes);
    pthread_mutex_unlock(&device->lock);
    return status;
}

rlx_status rlx_vk_read(rlx_vk_device *device, const rlx_vk_buffer *from, uint64_t offset,
                       void *destination, uint64_t bytes) {
    rlx_status status;
    pthread_mutex_lock(&device->lock);
    status = read_locked(device, from, offset, destination, bytes);
    pthread_mutex_unlock(&device->lock);
    return status;
}

rlx_status rlx_vk_copy(rlx_vk_device *device, const rlx_vk_buffer *from, uint64_t from_offset,
                       const rlx_vk_buffer *to, uint64_t to_offset, uint64_t bytes) {
    rlx_status status;
    pthread_mutex_lock(&device->lock);
    status = copy_locked(device, from, from_offset, to, to_offset, bytes);
    pthread_mutex_unlock(&device->lock);
    return status;
}

rlx_status rlx_vk_fill(rlx_vk_device *device, const rlx_vk_buffer *to, uint64_t offset,
                       uint64_t bytes, uint32_t word) {
    rlx_status status;
    pthread_mutex_lock(&device->lock);
    status = rlx_vk_begin_transfer(device);
    if (status == RLX_OK) {
        device->vk.CmdFillBuffer(device->transfer, to->handle, offset, bytes, word);
        status = rlx_vk_finish_transfer(device);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
