/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of a physical device, and the policy for its memory. See caps.h. */
#include "backend/vulkan/caps.h"

#include <string.h>

/* The first family that computes; one of its own for transfers if there is one. */
static void query_queues(const rlx_vk_instance *instance, VkPhysicalDevice device,
                         rlx_vk_caps *caps) {
    enum { MOST = 16 };
    VkQueueFamilyProperties families[MOST];
    uint32_t count = MOST;
    caps->compute_family = caps->transfer_family = RLX_NO_FAMILY;
    instance->GetPhysicalDeviceQueueFamilyProperties(device, &count, families);
    for (uint32_t i = 0; i < count; i++) {
        VkQueueFlags flags = families[i].queueFlags;
        if (families[i].queueCount == 0) continue;
        if ((flags & VK_QUEUE_COMPUTE_BIT) != 0 && caps->compute_family == RLX_NO_FAMILY) {
            caps->compute_family = i;
            if (families[i].timestampValidBits == 0) caps->timestamp_ns = 0;
        }
        if ((flags & VK_QUEUE_TRANSFER_BIT) != 0 &&
            (flags & (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT)) == 0) {
            caps->transfer_family = i;
        }
    }
    if (caps->transfer_family == RLX_NO_FAMILY) caps->transfer_family = caps->compute_family;
}

static void take_limits(const VkPhysicalDeviceLimits *limits, rlx_vk_caps *caps) {
    caps->storage_range = limits->maxStorageBufferRange;
    caps->offset_alignment = limits->minStorageBufferOffsetAlignment;
    caps->atom_bytes = limits->nonCoherentAtomSize;
    caps->group_count = limits->maxComputeWorkGroupCount[0];
    if (limits->maxComputeWorkGroupCount[1] < caps->group_count) {
        caps->group_count = limits->maxComputeWorkGroupCount[1];
    }
    caps->invocations = limits->maxComputeWorkGroupInvocations;
    if (limits->maxComputeWorkGroupSize[0] < caps->invocations) {
        caps->invocations = limits->maxComputeWorkGroupSize[0];
    }
    caps->descriptors = limits->maxPerStageDescriptorStorageBuffers;
    if (limits->maxDescriptorSetStorageBuffers < caps->descriptors) {
        caps->descriptors = limits->maxDescriptorSetStorageBuffers;
    }
    caps->shared_bytes = limits->maxComputeSharedMemorySize;
    caps->timestamp_ns = (double)limits->timestampPeriod;
}

void rlx_vk_query(const rlx_vk_instance *instance, VkPhysicalDevice device, rlx_vk_caps *out_caps) {
    VkPhysicalDeviceSubgroupProperties subgroup = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceMaintenance3Properties sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, .pNext = &subgroup};
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES,
                                       .pNext = &sizes};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                       .pNext = &id};
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &timeline};
    rlx_vk_caps caps = {0};
    instance->GetPhysicalDeviceProperties2(device, &all);
    instance->GetPhysicalDeviceFeatures2(device, &features);
    instance->GetPhysicalDeviceMemoryProperties(device, &caps.memory);
    memcpy(caps.name, all.properties.deviceName, sizeof caps.name);
    caps.name[sizeof caps.name - 1] = 0;
    memcpy(caps.uuid, id.deviceUUID, sizeof caps.uuid);
    memcpy(caps.cache_uuid, all.properties.pipelineCacheUUID, sizeof caps.cache_uuid);
    caps.api_version = all.properties.apiVersion;
    caps.driver_version = all.properties.driverVersion;
    caps.vendor = all.properties.vendorID;
    caps.device = all.properties.deviceID;
    caps.type = all.properties.deviceType;
    caps.allocation_bytes = sizes.maxMemoryAllocationSize;
    caps.buffer_bytes = sizes.maxMemoryAllocationSize; /* maxBufferSize is newer than Vulkan 1.2 */
    caps.subgroup_lanes = subgroup.subgroupSize;
    caps.has_broadcast = (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
                         (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_BALLOT_BIT) != 0;
    caps.has_f64 = features.features.shaderFloat64 == VK_TRUE;
    caps.has_timeline = timeline.timelineSemaphore == VK_TRUE;
    caps.is_software = caps.type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    take_limits(&all.properties.limits, &caps);
    query_queues(instance, device, &caps);
    *out_caps = caps;
}

const char *rlx_vk_missing(const rlx_vk_caps *caps) {
    if (caps->api_version < VK_API_VERSION_1_2) return "the driver has no Vulkan 1.2";
    if (!caps->has_timeline) return "the driver has no timeline semaphores";
    if (caps->compute_family == RLX_NO_FAMILY) return "the device has no queue that computes";
    if (caps->memory.memoryTypeCount == 0) return "the device has no memory";
    if (caps->descriptors < 12) return "the device binds fewer than 12 buffers at once";
    if (caps->invocations < 64) return "the device runs fewer than 64 lanes together";
    return "";
}

/* The type with all `wanted` flags and most of `liked`, on the largest heap. */
static uint32_t find_type(const rlx_vk_caps *caps, VkMemoryPropertyFlags wanted,
                          VkMemoryPropertyFlags liked, VkMemoryPropertyFlags unwanted) {
    uint32_t best = RLX_NO_FAMILY;
    uint64_t best_score = 0;
    for (uint32_t i = 0; i < caps->memory.memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = caps->memory.memoryTypes[i].propertyFlags;
        uint64_t heap = caps->memory.memoryHeaps[caps->memory.memoryTypes[i].heapIndex].size;
        uint64_t score;
        if ((flags & wanted) != wanted || (flags & unwanted) != 0) continue;
        score = ((uint64_t)__builtin_popcount(flags & liked) << 56) + (heap >> 8) + 1;
        if (score > best_score) {
            best_score = score;
            best = i;
        }
    }
    return best;
}

static uint64_t heap_bytes(const rlx_vk_caps *caps, uint32_t type) {
    return caps->memory.memoryHeaps[caps->memory.memoryTypes[type].heapIndex].size;
}

uint64_t rlx_vk_block_bytes(const rlx_vk_caps *caps) {
    uint64_t bytes =
        caps->allocation_bytes < caps->buffer_bytes ? caps->allocation_bytes : caps->buffer_bytes;
    return bytes - bytes % RLX_VK_ALIGNMENT;
}

rlx_status rlx_vk_policy_of(const rlx_vk_caps *caps, rlx_device_memory mode,
                            rlx_vk_policy *out_policy) {
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
                                coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                                cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    uint32_t mapped = find_type(caps, local | visible, coherent | cached, 0);
    uint32_t device = find_type(caps, local, 0, visible);
    bool is_unified = caps->type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                      caps->type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    rlx_vk_policy policy = {.upload_type = find_type(caps, visible, coherent, 0),
                            .readback_type = find_type(caps, visible, cached | coherent, 0)};
    if (device == RLX_NO_FAMILY) device = find_type(caps, local, 0, 0);
    if (device == RLX_NO_FAMILY) device = find_type(caps, 0, 0, 0);
    /* A window as large as the memory behind it is no window. */
    policy.is_staged = mapped == RLX_NO_FAMILY ||
                       (!is_unified && heap_bytes(caps, mapped) < heap_bytes(caps, device));
    if (mode == RLX_DEVICE_MEMORY_STAGED) policy.is_staged = true;
    if (mode == RLX_DEVICE_MEMORY_DIRECT) {
        if (mapped == RLX_NO_FAMILY) mapped = policy.upload_type;
        policy.is_staged = false;
    }
    if (policy.upload_type == RLX_NO_FAMILY || (!policy.is_staged && mapped == RLX_NO_FAMILY)) {
        return RLX_FAIL(RLX_UNSUPPORTED, "device '%s' has no memory that the host can map",
                        caps->name);
    }
    policy.arena_type = policy.is_staged ? device : mapped;
    policy.block_bytes = rlx_vk_block_bytes(caps);
    *out_policy = policy;
    return RLX_OK;
}
