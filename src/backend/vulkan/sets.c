/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor sets: written once, when a stretch is prepared or a pipeline warmed up. */
#include "backend/vulkan/stream.h"

rlx_status rlx_vk_create_sets(rlx_vk_device *device, uint32_t count, VkDescriptorPool *out_pool) {
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, count * RLX_VK_BINDINGS};
    VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = count,
                                       .poolSizeCount = 1,
                                       .pPoolSizes = &size};
    return rlx_vk_check(device,
                        device->vk.CreateDescriptorPool(device->handle, &info, NULL, out_pool),
                        "vkCreateDescriptorPool");
}

rlx_status rlx_vk_write_set(rlx_vk_device *device, VkDescriptorPool pool, uint32_t layout,
                            const rlx_vk_range *ranges, VkDescriptorSet *out_set) {
    VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorPool = pool,
                                        .descriptorSetCount = 1,
                                        .pSetLayouts = &device->layouts[layout].set};
    VkDescriptorBufferInfo buffers[RLX_VK_BINDINGS];
    VkWriteDescriptorSet writes[RLX_VK_BINDINGS];
    uint32_t count = 0;
    RLX_TRY(rlx_vk_check(device, device->vk.AllocateDescriptorSets(device->handle, &info, out_set),
                         "vkAllocateDescriptorSets"));
    for (uint32_t i = 0; i < RLX_VK_BINDINGS; i++) {
        const rlx_vk_range *range = ranges[i].buffer == VK_NULL_HANDLE ? ranges : &ranges[i];
        if ((rlx_vk_layout_bindings(layout) >> i & 1) == 0) continue;
        buffers[i] = (VkDescriptorBufferInfo){range->buffer, range->offset, range->bytes};
        writes[count++] =
            (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                   .dstSet = *out_set,
                                   .dstBinding = i,
                                   .descriptorCount = 1,
                                   .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                   .pBufferInfo = &buffers[i]};
    }
    device->vk.UpdateDescriptorSets(device->handle, count, writes, 0, NULL);
    return RLX_OK;
}
