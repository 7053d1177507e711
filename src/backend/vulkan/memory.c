/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers with memory behind them. Each has an allocation of its own: an arena has few. */
#include "backend/vulkan/device.h"

#include "base/size.h"

static uint32_t memory_type(const rlx_vk_device *device, rlx_vk_use use) {
    if (use == RLX_VK_ARENA) return device->policy.arena_type;
    return use == RLX_VK_UPLOAD ? device->policy.upload_type : device->policy.readback_type;
}

static rlx_status create_handle(rlx_vk_device *device, rlx_vk_buffer *buffer) {
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = buffer->bytes,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                               .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    const uint32_t families[] = {device->caps.compute_family, device->caps.transfer_family};
    if (families[0] != families[1]) { /* the copy engine writes what the other queue reads */
        info.sharingMode = VK_SHARING_MODE_CONCURRENT;
        info.queueFamilyIndexCount = 2;
        info.pQueueFamilyIndices = families;
    }
    return rlx_vk_check(device,
                        device->vk.CreateBuffer(device->handle, &info, NULL, &buffer->handle),
                        "vkCreateBuffer");
}

static rlx_status allocate(rlx_vk_device *device, rlx_vk_use use, rlx_vk_buffer *buffer) {
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .memoryTypeIndex = memory_type(device, use)};
    VkMemoryRequirements needs;
    device->vk.GetBufferMemoryRequirements(device->handle, buffer->handle, &needs);
    info.allocationSize = needs.size;
    if ((needs.memoryTypeBits >> info.memoryTypeIndex & 1) == 0) {
        return RLX_FAIL(RLX_UNSUPPORTED, "device '%s': buffers do not go into memory of type %u",
                        device->name, info.memoryTypeIndex);
    }
    RLX_TRY(rlx_vk_check(device,
                         device->vk.AllocateMemory(device->handle, &info, NULL, &buffer->memory),
                         "vkAllocateMemory"));
    return rlx_vk_check(
        device, device->vk.BindBufferMemory(device->handle, buffer->handle, buffer->memory, 0),
        "vkBindBufferMemory");
}

static rlx_status fill(rlx_vk_device *device, rlx_vk_use use, rlx_vk_buffer *buffer) {
    VkMemoryPropertyFlags flags =
        device->caps.memory.memoryTypes[memory_type(device, use)].propertyFlags;
    RLX_TRY(create_handle(device, buffer));
    RLX_TRY(allocate(device, use, buffer));
    buffer->is_coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
    if (use == RLX_VK_ARENA && device->policy.is_staged) return RLX_OK;
    return rlx_vk_check(
        device,
        device->vk.MapMemory(device->handle, buffer->memory, 0, VK_WHOLE_SIZE, 0, &buffer->mapped),
        "vkMapMemory");
}

rlx_status rlx_vk_buffer_create(rlx_vk_device *device, rlx_vk_use use, uint64_t bytes,
                                rlx_vk_buffer *out_buffer) {
    rlx_vk_buffer buffer = {.bytes = bytes};
    rlx_status status;
    if (!rlx_align_u64(bytes, RLX_VK_ALIGNMENT, &buffer.bytes) ||
        buffer.bytes > device->policy.block_bytes) {
        return RLX_FAIL(RLX_DOES_NOT_FIT,
                        "device '%s': %" PRIu64 " bytes in one buffer, it takes %" PRIu64,
                        device->name, bytes, device->policy.block_bytes);
    }
    status = fill(device, use, &buffer);
    if (status != RLX_OK) {
        rlx_vk_buffer_destroy(device, &buffer);
        return rlx_fail_context(status, "device '%s', buffer of %" PRIu64 " bytes", device->name,
                                bytes);
    }
    *out_buffer = buffer;
    return RLX_OK;
}

void rlx_vk_buffer_destroy(rlx_vk_device *device, rlx_vk_buffer *buffer) {
    if (buffer->handle != VK_NULL_HANDLE) {
        device->vk.DestroyBuffer(device->handle, buffer->handle, NULL);
    }
    if (buffer->memory != VK_NULL_HANDLE) {
        device->vk.FreeMemory(device->handle, buffer->memory, NULL);
    }
    *buffer = (rlx_vk_buffer){0};
}

static rlx_status fill_blocks(rlx_vk_device *device, rlx_vk_blocks *blocks) {
    for (uint64_t at = 0; at < blocks->bytes; at += blocks->block_bytes) {
        uint64_t left = blocks->bytes - at;
        RLX_TRY(rlx_vk_buffer_create(device, RLX_VK_ARENA,
                                     left < blocks->block_bytes ? left : blocks->block_bytes,
                                     &blocks->items[blocks->count]));
        blocks->count++;
    }
    return RLX_OK;
}

rlx_status rlx_vk_blocks_create(rlx_vk_device *device, uint64_t bytes, rlx_vk_blocks *out_blocks) {
    uint64_t block = device->policy.block_bytes, count = (bytes + block - 1) / block;
    rlx_vk_blocks blocks = {.block_bytes = block, .bytes = bytes};
    const VkPhysicalDeviceMemoryProperties *memory = &device->caps.memory;
    uint64_t heap =
        memory->memoryHeaps[memory->memoryTypes[device->policy.arena_type].heapIndex].size;
    rlx_status status;
    if (bytes > heap || bytes > UINT64_MAX - block || count > UINT32_MAX) {
        return RLX_FAIL(RLX_DOES_NOT_FIT,
                        "device '%s': %" PRIu64 " bytes of memory, its heap has %" PRIu64,
                        device->name, bytes, heap);
    }
    RLX_TRY(rlx_alloc_array(&device->base.allocator, count, sizeof *blocks.items,
                            (void **)&blocks.items));
    status = fill_blocks(device, &blocks);
    if (status != RLX_OK) {
        rlx_vk_blocks_destroy(device, &blocks);
        return status;
    }
    *out_blocks = blocks;
    return RLX_OK;
}

void rlx_vk_blocks_destroy(rlx_vk_device *device, rlx_vk_blocks *blocks) {
    for (uint32_t i = 0; i < blocks->count; i++)
        rlx_vk_buffer_destroy(device, &blocks->items[i]);
    rlx_free(&device->base.allocator, blocks->items);
    *blocks = (rlx_vk_blocks){0};
}

const rlx_vk_buffer *rlx_vk_block_at(const rlx_vk_blocks *blocks, uint64_t offset, uint64_t bytes,
                                     uint64_t *out_inside, uint64_t *out_bytes) {
    uint64_t inside = offset % blocks->block_bytes, left = blocks->block_bytes - inside;
    *out_inside = inside;
    *out_bytes = bytes < left ? bytes : left;
    return &blocks->items[offset / blocks->block_bytes];
}

/* Whole atoms around a range. */
static VkMappedMemoryRange range_of(const rlx_vk_device *device, const rlx_vk_buffer *buffer,
                                    uint64_t offset, uint64_t bytes) {
    uint64_t atom = device->caps.atom_bytes == 0 ? 1 : device->caps.atom_bytes;
    uint64_t start = offset - offset % atom, end = (offset + bytes + atom - 1) / atom * atom;
    return (VkMappedMemoryRange){.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
                                 .memory = buffer->memory,
                                 .offset = start,
                                 .size = end >= buffer->bytes ? VK_WHOLE_SIZE : end - start};
}

rlx_status rlx_vk_flush(rlx_vk_device *device, const rlx_vk_buffer *buffer, uint64_t offset,
                        uint64_t bytes) {
    VkMappedMemoryRange range = range_of(device, buffer, offset, bytes);
    if (buffer->is_coherent) return RLX_OK;
    return rlx_vk_check(device, device->vk.FlushMappedMemoryRanges(device->handle, 1, &range),
                        "vkFlushMappedMemoryRanges");
}

rlx_status rlx_vk_invalidate(rlx_vk_device *device, const rlx_vk_buffer *buffer, uint64_t offset,
                             uint64_t bytes) {
    VkMappedMemoryRange range = range_of(device, buffer, offset, bytes);
    if (buffer->is_coherent) return RLX_OK;
    return rlx_vk_check(device, device->vk.InvalidateMappedMemoryRanges(device->handle, 1, &range),
                        "vkInvalidateMappedMemoryRanges");
}
