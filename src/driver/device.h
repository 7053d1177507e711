/* SPDX-License-Identifier: Apache-2.0 */
/* What a device implements, and the table of backends that rlx_device_open walks. The wrappers in
 * device.c have checked the arguments. Knows plans and targets; knows no graph. */
#ifndef RLX_DRIVER_DEVICE_H
#define RLX_DRIVER_DEVICE_H

#include "driver/arena.h"
#include "driver/copy.h"
#include "driver/stream.h"
#include "plan/target.h"

#include <rlx/device.h>

#include <stdatomic.h>

typedef struct rlx_device_ops {
    const char *kind; /* "cpu" */
    void (*destroy)(rlx_device *base);
    void (*describe)(const rlx_device *base, rlx_device_info *out_info);
    rlx_status (*create_arena)(rlx_device *base, const rlx_arena_request *request,
                               rlx_arena **out_arena);
    rlx_status (*create_stream)(rlx_device *base, const rlx_allocator *allocator, rlx_arena *arena,
                                rlx_stream **out_stream);
    void (*read_work)(rlx_device *base, rlx_device_work *out_work); /* optional */
    /* Fills memory of one of its arenas. Optional; NULL: the `file` engine, on mapped memory. */
    rlx_status (*create_copy_engine)(rlx_device *base, rlx_arena *arena,
                                     const rlx_allocator *allocator,
                                     const rlx_copy_options *options, rlx_copy_engine **out_engine);
} rlx_device_ops;

struct rlx_device { /* first member of every implementation */
    const rlx_device_ops *ops;
    rlx_allocator allocator;
    _Atomic uint32_t owners;
    rlx_target target;
};

/* What a compile for this device needs. Borrowed. */
const rlx_target *rlx_device_target(const rlx_device *device);

RLX_WARN_UNUSED rlx_status rlx_device_create_arena(rlx_device *device,
                                                   const rlx_arena_request *request,
                                                   rlx_arena **out_arena);
/* A stream of the device over one of its arenas; both outlive it. */
RLX_WARN_UNUSED rlx_status rlx_device_create_stream(rlx_device *device,
                                                    const rlx_allocator *allocator,
                                                    rlx_arena *arena, rlx_stream **out_stream);

/* An engine whose destinations are host memory and what rlx_arena_copy_address says of the arena;
 * device and arena outlive it. Allocator and options as for other engines. */
RLX_WARN_UNUSED rlx_status rlx_device_create_copy_engine(rlx_device *device, rlx_arena *arena,
                                                         const rlx_allocator *allocator,
                                                         const rlx_copy_options *options,
                                                         rlx_copy_engine **out_engine);

/* One row per backend; the table itself is src/backend/registry.c. Names are the backend's whole
 * device names ("cpu", "cpu:scalar"). */
typedef struct rlx_backend {
    const char *kind;
    uint32_t (*count)(void);
    void (*at)(uint32_t index, rlx_device_info *out_info);
    /* The target of a device name, without opening anything: also for hardware that is not there.
     * `threads` 0: default. RLX_NOT_FOUND: not a name of this backend. */
    rlx_status (*target)(const char *name, uint32_t threads, rlx_target *out_target);
    rlx_status (*open)(const char *name, const rlx_device_options *options,
                       rlx_device **out_device);
} rlx_backend;
extern const rlx_backend *const rlx_backends[]; /* NULL-terminated */

/* The target of a device name (NULL: "cpu") without opening the device, for planning. */
RLX_WARN_UNUSED rlx_status rlx_target_of_device(const char *name, uint32_t threads,
                                                rlx_target *out_target);

#endif
