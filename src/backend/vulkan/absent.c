/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of the Vulkan backend where it was not built: says so. */
#include "backend/vulkan/vulkan.h"

static const char why[] = "this build has none: glslc or the Vulkan headers were missing "
                          "(scripts/install-deps.sh build)";

static uint32_t absent_count(void) {
    return 1;
}

static void absent_at(uint32_t index, rlx_device_info *out_info) {
    (void)index;
    *out_info = (rlx_device_info){
        .name = "vulkan", .kind = "vulkan", .description = "", .target = "", .missing = why};
}

static rlx_status absent_target(const char *name, uint32_t threads, rlx_target *out_target) {
    (void)threads;
    (void)out_target;
    return RLX_FAIL(RLX_UNSUPPORTED, "device '%s': %s", name, why);
}

static rlx_status absent_open(const char *name, const rlx_device_options *options,
                              rlx_device **out_device) {
    (void)options;
    (void)out_device;
    return RLX_FAIL(RLX_UNSUPPORTED, "device '%s': %s", name, why);
}

const rlx_backend rlx_vulkan_backend = {"vulkan", absent_count, absent_at, absent_target,
                                        absent_open};
