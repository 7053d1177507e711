/* SPDX-License-Identifier: Apache-2.0 */
/* Checked wrappers of the device contract, and finding a device by name among the backends. Knows
 * no backend by name: the table is src/backend/registry.c. */
#include "driver/device.h"

#include "base/options.h"

#include <string.h>

uint32_t rlx_device_count(void) {
    uint32_t count = 0;
    for (uint32_t i = 0; rlx_backends[i] != NULL; i++)
        count += rlx_backends[i]->count();
    return count;
}

rlx_status rlx_device_at(uint32_t index, rlx_device_info *out_info) {
    uint32_t at = index;
    if (out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "out_info is NULL");
    for (uint32_t i = 0; rlx_backends[i] != NULL; i++) {
        uint32_t count = rlx_backends[i]->count();
        if (at < count) {
            rlx_device_info info = {0};
            rlx_backends[i]->at(at, &info);
            *out_info = info;
            return RLX_OK;
        }
        at -= count;
    }
    return RLX_FAIL(RLX_NOT_FOUND, "no device %u (have %u)", index, rlx_device_count());
}

/* The backend whose kind is `name` up to the colon. */
static rlx_status find_backend(const char *name, const rlx_backend **out_backend) {
    size_t length = strcspn(name, ":");
    for (uint32_t i = 0; rlx_backends[i] != NULL; i++) {
        const char *kind = rlx_backends[i]->kind;
        if (strlen(kind) == length && memcmp(kind, name, length) == 0) {
            *out_backend = rlx_backends[i];
            return RLX_OK;
        }
    }
    return RLX_FAIL(RLX_NOT_FOUND, "unknown device '%s'", name);
}

rlx_status rlx_device_open(const char *name, const rlx_device_options *options,
                           rlx_device **out_device) {
    const rlx_backend *backend = NULL;
    rlx_device_options full = {.size = sizeof full};
    if (out_device == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "out_device is NULL");
    if (name == NULL) name = "cpu";
    RLX_TRY(rlx_options_read(options, sizeof full, "device", &full));
    RLX_TRY(find_backend(name, &backend));
    return backend->open(name, &full, out_device);
}

rlx_status rlx_target_of_device(const char *name, uint32_t threads, rlx_target *out_target) {
    const rlx_backend *backend = NULL;
    if (out_target == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "out_target is NULL");
    if (name == NULL) name = "cpu";
    RLX_TRY(find_backend(name, &backend));
    return backend->target(name, threads, out_target);
}

rlx_device *rlx_device_retain(rlx_device *device) {
    if (device != NULL) atomic_fetch_add_explicit(&device->owners, 1, memory_order_relaxed);
    return device;
}

void rlx_device_release(rlx_device *device) {
    if (device == NULL) return;
    if (atomic_fetch_sub_explicit(&device->owners, 1, memory_order_acq_rel) == 1) {
        device->ops->destroy(device);
    }
}

rlx_status rlx_device_describe(const rlx_device *device, rlx_device_info *out_info) {
    rlx_device_info info = {0};
    if (device == NULL || out_info == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "device or out_info is NULL");
    }
    device->ops->describe(device, &info);
    *out_info = info;
    return RLX_OK;
}

rlx_status rlx_device_read_work(rlx_device *device, rlx_device_work *out_work) {
    rlx_device_work work = {0};
    if (device == NULL || out_work == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "device or out_work is NULL");
    }
    if (device->ops->read_work != NULL) device->ops->read_work(device, &work);
    *out_work = work;
    return RLX_OK;
}

const rlx_target *rlx_device_target(const rlx_device *device) {
    return &device->target;
}

rlx_status rlx_device_create_arena(rlx_device *device, const rlx_arena_request *request,
                                   rlx_arena **out_arena) {
    if (device == NULL || request == NULL || request->plan == NULL || out_arena == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "device, plan or out_arena is NULL");
    }
    return device->ops->create_arena(device, request, out_arena);
}

rlx_status rlx_device_create_stream(rlx_device *device, const rlx_allocator *allocator,
                                    rlx_arena *arena, rlx_stream **out_stream) {
    if (device == NULL || arena == NULL || out_stream == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "device, arena or out_stream is NULL");
    }
    return device->ops->create_stream(device, allocator, arena, out_stream);
}

rlx_status rlx_device_create_copy_engine(rlx_device *device, rlx_arena *arena,
                                         const rlx_allocator *allocator,
                                         const rlx_copy_options *options,
                                         rlx_copy_engine **out_engine) {
    if (device == NULL || arena == NULL || out_engine == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "device, arena or out_engine is NULL");
    }
    if (device->ops->create_copy_engine == NULL) {
        return rlx_copy_engine_create_file(allocator, options, out_engine);
    }
    return device->ops->create_copy_engine(device, arena, allocator, options, out_engine);
}
