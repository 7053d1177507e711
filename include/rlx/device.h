/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: what a program runs on. Names are stable: "cpu" is this machine's processor with its
 * best instruction set; "cpu:scalar", "cpu:avx2" and "cpu:avx512" force a level. "vulkan" is the
 * best GPU; "vulkan:0", "vulkan:PART OF ITS NAME" and "vulkan:UUID" name one, also a software
 * driver, which is never taken unasked. */
#ifndef RLX_DEVICE_H
#define RLX_DEVICE_H

#include <rlx/base.h>

RLX_BEGIN_DECLS

/* How the memory of a GPU is used. Direct: the host maps it. Staged: it does not, and everything
 * goes through a staging buffer. */
typedef enum rlx_device_memory {
    RLX_DEVICE_MEMORY_AUTO = 0, /* direct where memory is shared, staged where it is not */
    RLX_DEVICE_MEMORY_DIRECT,
    RLX_DEVICE_MEMORY_STAGED
} rlx_device_memory;

/* For comparisons and for finding faults of drivers; Vulkan. */
enum {
    RLX_DEVICE_PLAIN_SHADERS = 1, /* of several variants of a shader the simplest one */
    RLX_DEVICE_RECORD_ALWAYS = 2, /* every run records its commands anew instead of replaying */
    RLX_DEVICE_GPU_SHADERS = 4    /* on a software driver the variants for GPUs */
};

/* Retained: programs keep their device. May be used by several threads. */
typedef struct rlx_device rlx_device;

typedef struct rlx_device_options {
    size_t size;                    /* sizeof(rlx_device_options) */
    const rlx_allocator *allocator; /* NULL: the default; copied */
    uint32_t threads;               /* CPU threads, the caller included; 0: as many as the process
                                     * may use */
    /* CPU: the program's own threads instead of ours. Calls part(context, i) once for every
     * i < count (at most `threads`), on any threads and in any order, and returns when all those
     * calls have returned; it may be called from several threads at once, never from inside a
     * part. NULL: the device makes its own threads. */
    void (*run_parts)(void *user, uint32_t count, void (*part)(void *context, uint32_t index),
                      void *context);
    void *run_parts_user;
    rlx_device_memory memory; /* Vulkan */
    uint32_t flags;           /* RLX_DEVICE_* */
    /* Vulkan: compiled shaders are kept in a file of this folder, which exists; copied. One that is
     * broken or of another driver is ignored. NULL: they are not kept. */
    const char *cache_folder;
} rlx_device_options;

typedef struct rlx_device_info {
    const char *name;        /* "cpu", "cpu:scalar" */
    const char *kind;        /* "cpu" */
    const char *description; /* "8 threads, avx2 f16c avx512" */
    const char *target;      /* what plans are made for: "cpu/avx512"; "" when not available */
    const char *missing;     /* why it cannot be opened; "" when it can */
    bool is_available;
    uint32_t threads;
    uint64_t memory_bytes; /* of the whole device; 0: not known */
    uint64_t alignment;    /* of buffers */
} rlx_device_info;

/* Every device name that this build knows, available or not, by index. The texts are borrowed and
 * live as long as the process. RLX_NOT_FOUND past the end. */
RLX_API uint32_t rlx_device_count(void);
RLX_CALL rlx_status rlx_device_at(uint32_t index, rlx_device_info *out_info);

/* Opens a device by name (NULL: "cpu"); `options` may be NULL. RLX_NOT_FOUND for a name that no
 * backend knows, RLX_UNSUPPORTED for hardware that is not there (the text says what is missing). */
RLX_CALL rlx_status rlx_device_open(const char *name, const rlx_device_options *options,
                                    rlx_device **out_device);
RLX_API rlx_device *rlx_device_retain(rlx_device *device);
RLX_API void rlx_device_release(rlx_device *device); /* NULL is allowed */

/* The texts are borrowed as long as the device lives. */
RLX_CALL rlx_status rlx_device_describe(const rlx_device *device, rlx_device_info *out_info);

/* What a device has done since it was opened. A device that counts nothing has zeros. */
typedef struct rlx_device_work {
    uint64_t recordings; /* lists of commands that were recorded */
    uint64_t submits;
    uint64_t pipelines;                    /* shaders that were compiled */
    uint64_t upload_bytes, download_bytes; /* through staging: mapped memory needs none */
} rlx_device_work;
RLX_CALL rlx_status rlx_device_read_work(rlx_device *device, rlx_device_work *out_work);

RLX_END_DECLS

#endif
