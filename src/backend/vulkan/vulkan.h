/* SPDX-License-Identifier: Apache-2.0 */
/* The Vulkan backend: what the registry takes from it, and what its files share. */
#ifndef RLX_BACKEND_VULKAN_VULKAN_H
#define RLX_BACKEND_VULKAN_VULKAN_H

#include "driver/device.h"

extern const rlx_backend rlx_vulkan_backend;

#endif
