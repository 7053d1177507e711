/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU backend: what the registry takes from it, and what its files share. */
#ifndef RLX_BACKEND_CPU_CPU_H
#define RLX_BACKEND_CPU_CPU_H

#include "backend/cpu/pool.h"
#include "backend/cpu/table.h"
#include "driver/device.h"

extern const rlx_backend rlx_cpu_backend;

typedef struct rlx_cpu_device {
    rlx_device base;
    const rlx_cpu_level *level;
    rlx_pool *pool; /* owned; shared by every stream of the device */
    char name[32];
    char description[96];
} rlx_cpu_device;

/* The target of a level for so many threads. */
rlx_target rlx_cpu_target(const rlx_cpu_level *level, uint32_t threads);

/* A stream over a mapped arena. */
RLX_WARN_UNUSED rlx_status rlx_cpu_create_stream(rlx_device *base, const rlx_allocator *allocator,
                                                 rlx_arena *arena, rlx_stream **out_stream);

#endif
