/* SPDX-License-Identifier: Apache-2.0 */
/* A shim between the Vulkan backend and its driver, and a decoder to run on it: for tests of what
 * is recorded and submitted, of calls that fail, and of devices that are not there. */
#ifndef RLX_TESTS_BACKEND_VULKAN_SHIM_H
#define RLX_TESTS_BACKEND_VULKAN_SHIM_H

#include "backend/vulkan/caps.h"
#include "support/support.h"

#include <rlx/rlx.h>

enum { TOKENS = 6, VOCABULARY = 32, SKIPPED = 77 };

#define SOFTWARE "vulkan:llvmpipe"

typedef struct vulkan_shim {
    uint64_t calls, fail_at; /* of calls that can fail */
    VkResult failure;
    uint64_t records, submits, dispatches, copied_bytes, pipelines, flushes;
    bool pretends_discrete;
    bool validates; /* modules, by spirv-val */
    uint32_t modules, wrong_modules;
    uint64_t allocation_bytes; /* lowered maxMemoryAllocationSize; 0: as it is */
    uint64_t largest_allocation;
    bool has_least_limits;     /* what every device of Vulkan has */
    VkDeviceMemory hidden[64]; /* not mappable */
    uint64_t hidden_bytes[64];
    uint32_t hidden_count;
    uint64_t heap_bytes, heap_used; /* of a discrete GPU; 0: as large as the driver's */
} vulkan_shim;
extern vulkan_shim shim;

/* Puts the shim in; false, with a word on why, where there is no driver: exit with SKIPPED. */
bool shim_install(void);
/* Before each test: the driver as it is. */
int shim_begin(void **state);

/* A decoder with K/V on a device, token by token. */
typedef struct decoder {
    rlx_device *device;
    rlx_session *session;
    rlx_program *program;
    rlx_exec *exec;
    float logits[TOKENS][VOCABULARY];
} decoder;

/* What was opened is closed by decoder_close, also after a failure. */
rlx_status decoder_open(decoder *self, const char *device, rlx_device_memory memory);
rlx_status decoder_step(decoder *self, rlx_exec *exec, int64_t position);
rlx_status decoder_run(decoder *self); /* all tokens */
void decoder_close(decoder *self);

#endif
