/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that names the backends. The order is the order of `rlx devices`. */
#include "backend/cpu/cpu.h"
#include "backend/vulkan/vulkan.h"

const rlx_backend *const rlx_backends[] = {&rlx_cpu_backend, &rlx_vulkan_backend, NULL};
