/* SPDX-License-Identifier: Apache-2.0 */
/* The Vulkan loader, opened at run time, and its functions in tables. Nothing is linked: without a
 * loader or a driver there is a status that says so. The tables are also where tests stand between
 * us and a driver. */
#ifndef RLX_BACKEND_VULKAN_LOADER_H
#define RLX_BACKEND_VULKAN_LOADER_H

#include "base/alloc.h"

#define VK_NO_PROTOTYPES 1
#include <vulkan/vulkan_core.h>

typedef struct rlx_vk_instance {
    void *library;
    PFN_vkGetInstanceProcAddr get;
    VkInstance handle;
#define VK_GLOBAL(name)   PFN_vk##name name;
#define VK_INSTANCE(name) PFN_vk##name name;
#define VK_DEVICE(name)
#include "backend/vulkan/entry.def"
#undef VK_GLOBAL
#undef VK_INSTANCE
#undef VK_DEVICE
} rlx_vk_instance;

typedef struct rlx_vk_functions {
#define VK_GLOBAL(name)
#define VK_INSTANCE(name)
#define VK_DEVICE(name) PFN_vk##name name;
#include "backend/vulkan/entry.def"
#undef VK_GLOBAL
#undef VK_INSTANCE
#undef VK_DEVICE
} rlx_vk_functions;

/* Opens the loader and makes an instance. RLX_UNSUPPORTED says what is missing. */
RLX_WARN_UNUSED rlx_status rlx_vk_instance_open(rlx_vk_instance *out_instance);
void rlx_vk_instance_close(rlx_vk_instance *instance); /* zeroed is fine */

/* Fills the table of a device; RLX_UNSUPPORTED names a function that the driver lacks. */
RLX_WARN_UNUSED rlx_status rlx_vk_load_device(const rlx_vk_instance *instance, VkDevice device,
                                              rlx_vk_functions *out_functions);

/* Tests put themselves between us and the driver: called with each freshly filled table. NULL: no
 * one. Not for use while devices are being opened. */
typedef void (*rlx_vk_shim)(rlx_vk_instance *instance, rlx_vk_functions *functions);
void rlx_vk_set_shim(rlx_vk_shim shim);

/* Turns a VkResult into a status; `what` is the call. */
RLX_WARN_UNUSED rlx_status rlx_vk_fail(VkResult result, const char *what);

#endif
