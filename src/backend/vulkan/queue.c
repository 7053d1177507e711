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
static void barrier(rlx_vk_device *device) {
    VkMemoryBarrier all = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
    device->vk.CmdPipelineBarrier(
        device->transfer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
        VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &all, 0, NULL, 0, NULL);
}

static void barrier_to_host(rlx_vk_device *device) {
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    device->vk.CmdPipelineBarrier(device->transfer, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                  VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0, NULL, 0, NULL);
}

/* Between these two a caller records on device->transfer. */
static rlx_status begin(rlx_vk_device *device) {
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    RLX_TRY(check_alive(device));
    RLX_TRY(rlx_vk_check(device, device->vk.BeginCommandBuffer(device->transfer, &info),
                         "vkBeginCommandBuffer"));
    barrier(device);
    return RLX_OK;
}

static rlx_status finish(rlx_vk_device *device) {
    uint64_t value;
    barrier_to_host(device);
    RLX_TRY(
        rlx_vk_check(device, device->vk.EndCommandBuffer(device->transfer), "vkEndCommandBuffer"));
    RLX_TRY(submit_locked(device, device->transfer, &value));
    return rlx_vk_wait(device, value);
}

static void record_copy(rlx_vk_device *device, const rlx_vk_buffer *from, uint64_t from_offset,
                        const rlx_vk_buffer *to, uint64_t to_offset, uint64_t bytes) {
    VkBufferCopy region = {from_offset, to_offset, bytes};
    device->vk.CmdCopyBuffer(device->transfer, from->handle, to->handle, 1, &region);
}

static rlx_status copy_locked(rlx_vk_device *device, const rlx_vk_buffer *from,
                              uint64_t from_offset, const rlx_vk_buffer *to, uint64_t to_offset,
                              uint64_t bytes) {
    RLX_TRY(begin(device));
    record_copy(device, from, from_offset, to, to_offset, bytes);
    return finish(device);
}

static rlx_status write_locked(rlx_vk_device *device, const rlx_vk_buffer *to, uint64_t offset,
                               const uint8_t *source, uint64_t bytes) {
    const rlx_vk_buffer *staging = &device->staging;
    for (uint64_t at = 0; at < bytes;) {
        uint64_t now = bytes - at < staging->bytes ? bytes - at : staging->bytes;
        memcpy(staging->mapped, source + at, (size_t)now);
        RLX_TRY(rlx_vk_flush(device, staging, 0, now));
        RLX_TRY(copy_locked(device, staging, 0, to, offset + at, now));
        at += now;
    }
    atomic_fetch_add(&device->upload_bytes, bytes);
    return RLX_OK;
}

static rlx_status read_locked(rlx_vk_device *device, const rlx_vk_buffer *from, uint64_t offset,
                              uint8_t *destination, uint64_t bytes) {
    const rlx_vk_buffer *staging = &device->staging;
    for (uint64_t at = 0; at < bytes;) {
        uint64_t now = bytes - at < staging->bytes ? bytes - at : staging->bytes;
        RLX_TRY(copy_locked(device, from, offset + at, staging, 0, now));
        RLX_TRY(rlx_vk_invalidate(device, staging, 0, now));
        memcpy(destination + at, staging->mapped, (size_t)now);
        at += now;
    }
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
    status = begin(device);
    if (status == RLX_OK) {
        device->vk.CmdFillBuffer(device->transfer, to->handle, offset, bytes, word);
        status = finish(device);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
