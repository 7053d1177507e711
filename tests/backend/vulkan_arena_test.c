/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite of arenas on a software Vulkan device: mapped memory, and staged. Skipped
 * with a word where there is no driver. */
#include "conformance/arena_suite.h"
#include "driver/device.h"
#include "support/support.h"

#include <stdio.h>

static rlx_status create_on_device(void *user, const rlx_arena_request *request,
                                   rlx_arena **out_arena) {
    return rlx_device_create_arena(user, request, out_arena);
}

static int run_suite(const char *name, rlx_device_memory memory) {
    rlx_device_options options = {.size = sizeof options, .memory = memory};
    rlx_device *device = NULL;
    int failed;
    if (rlx_device_open("vulkan:llvmpipe", &options, &device) != RLX_OK) return -1;
    failed = arena_suite_run(&(arena_maker){name, create_on_device, device});
    rlx_device_release(device);
    return failed;
}

int main(void) {
    enum { SKIPPED = 77 };
    int direct = run_suite("arena of a vulkan device, direct", RLX_DEVICE_MEMORY_DIRECT);
    if (direct < 0) {
        printf("skipped: %s\n", rlx_last_error());
        return SKIPPED;
    }
    return direct + run_suite("arena of a vulkan device, staged", RLX_DEVICE_MEMORY_STAGED);
}
