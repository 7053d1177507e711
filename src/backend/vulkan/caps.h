/* SPDX-License-Identifier: Apache-2.0 */
/* What a physical device can do, as plain data from queries, and the policy that follows from it: a
 * pure function, tested without a device. */
#ifndef RLX_BACKEND_VULKAN_CAPS_H
#define RLX_BACKEND_VULKAN_CAPS_H

#include "backend/vulkan/loader.h"

#include <rlx/device.h>

typedef struct rlx_vk_caps {
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    uint8_t uuid[VK_UUID_SIZE], cache_uuid[VK_UUID_SIZE];
    uint32_t api_version, driver_version, vendor, device;
    VkPhysicalDeviceType type;
    uint64_t storage_range; /* most bytes of one operand */
    uint64_t allocation_bytes, buffer_bytes;
    uint64_t offset_alignment, atom_bytes;
    uint32_t group_count, invocations, descriptors, shared_bytes, subgroup_lanes;
    double timestamp_ns; /* of one tick; 0: there are no timestamps */
    bool has_timeline;
    bool has_f64;
    bool has_broadcast; /* lanes of a subgroup hand values to each other in compute shaders */
    bool is_plain;      /* asked for: no variants of shaders */
    bool is_software;   /* runs the variants for software */
    uint32_t compute_family, transfer_family; /* RLX_NO_FAMILY: none; equal: one for both */
    VkPhysicalDeviceMemoryProperties memory;
} rlx_vk_caps;

#define RLX_NO_FAMILY UINT32_MAX

/* How memory is used. */
typedef struct rlx_vk_policy {
    bool is_staged;      /* the arena is not mapped: host access goes through staging */
    uint32_t arena_type; /* memory types */
    uint32_t upload_type, readback_type;
    uint64_t block_bytes; /* most bytes of one buffer */
} rlx_vk_policy;

enum {
    RLX_VK_ALIGNMENT = 256
}; /* of every buffer of a plan: the most that Vulkan lets a device ask
      for as minStorageBufferOffsetAlignment */

void rlx_vk_query(const rlx_vk_instance *instance, VkPhysicalDevice device, rlx_vk_caps *out_caps);
/* Why the device cannot be used at all; "" when it can. Static text. */
const char *rlx_vk_missing(const rlx_vk_caps *caps);
/* Most bytes of one buffer of an arena. */
uint64_t rlx_vk_block_bytes(const rlx_vk_caps *caps);
/* RLX_UNSUPPORTED: a forced mode that the device cannot do. */
RLX_WARN_UNUSED rlx_status rlx_vk_policy_of(const rlx_vk_caps *caps, rlx_device_memory mode,
                                            rlx_vk_policy *out_policy);

#endif
