/* SPDX-License-Identifier: Apache-2.0 */
/* An open Vulkan device from inside: its queue, its one pipeline layout, its pipelines, and the
 * weights that its arenas share. */
#ifndef RLX_BACKEND_VULKAN_DEVICE_H
#define RLX_BACKEND_VULKAN_DEVICE_H

#include "backend/vulkan/caps.h"
#include "backend/vulkan/lower.h"
#include "base/thread.h"
#include "base/vec.h"
#include "driver/device.h"

typedef struct rlx_vk_buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    uint64_t bytes;
    void *mapped; /* NULL: not mapped */
    bool is_coherent;
} rlx_vk_buffer;

/* Memory larger than one buffer may be: all blocks but the last have `block_bytes`. */
typedef struct rlx_vk_blocks {
    rlx_vk_buffer *items; /* owned */
    uint32_t count;       /* 0: nothing */
    uint64_t block_bytes, bytes;
} rlx_vk_blocks;

/* Staging between host and device: while one stage is being copied by the queue, the host works on
 * another. */
enum { RLX_VK_STAGES = 2, RLX_VK_STAGE_BYTES = 4 << 20 };
typedef struct rlx_vk_ring {
    rlx_vk_buffer stages[RLX_VK_STAGES];
    VkCommandBuffer commands[RLX_VK_STAGES];
} rlx_vk_ring;

/* What a pipeline is made from: two with equal keys are one. */
typedef struct rlx_vk_key {
    uint32_t shader;
    uint64_t code; /* hash of a chain's SPIR-V; 0 for others */
    uint32_t dtypes[RLX_VK_BINDINGS];
    uint32_t constants[RLX_VK_CONSTANTS];
} rlx_vk_key;

/* Which bindings a pipeline has: the least of these that holds what its shader uses. Drivers look
 * at every binding of a set that is bound. */
enum { RLX_VK_LAYOUTS = 3 };
typedef struct rlx_vk_layout {
    VkDescriptorSetLayout set;
    VkPipelineLayout pipeline;
} rlx_vk_layout;
uint32_t rlx_vk_layout_bindings(uint32_t layout); /* bit per binding */

typedef struct rlx_vk_pipeline {
    rlx_vk_key key;
    VkPipeline handle;
    uint32_t layout;
    bool is_warm; /* was dispatched to be compiled */
} rlx_vk_pipeline;

/* Weights that several arenas read: one copy per program. */
typedef struct rlx_vk_weights {
    struct rlx_vk_weights *next;
    const void *source; /* the program's memory */
    uint32_t owners;
    rlx_vk_blocks blocks;
} rlx_vk_weights;

typedef struct rlx_vk_device {
    rlx_device base;
    rlx_vk_instance instance;
    rlx_vk_caps caps;
    rlx_vk_policy policy;
    rlx_vk_functions vk;
    VkDevice handle;
    VkQueue queue;
    VkQueue copy_queue;        /* of the transfer family; `queue` where that is the same */
    pthread_mutex_t lock;      /* of the queue, the commands below, pipelines and weights */
    pthread_mutex_t copy_lock; /* of copy_queue, where it is not `queue` */
    VkSemaphore timeline;
    uint64_t submitted; /* the newest value of the timeline */
    VkCommandPool pool; /* for transfers */
    VkCommandBuffer transfer;
    rlx_vk_ring up, down; /* of staged memory; empty where memory is mapped */
    rlx_vk_layout layouts[RLX_VK_LAYOUTS];
    VkPipelineCache cache;
    char cache_path[512]; /* "": not kept */
    RLX_VEC(rlx_vk_pipeline) pipelines;
    rlx_vk_weights *weights;
    _Atomic uint32_t is_lost;
    bool records_always; /* asked for: nothing is replayed */
    _Atomic uint64_t recordings, submits, pipelines_made, upload_bytes, download_bytes;
    char name[32];
    char description[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE + 64];
} rlx_vk_device;

/* memory.c */
typedef enum rlx_vk_use { RLX_VK_ARENA, RLX_VK_UPLOAD, RLX_VK_READBACK } rlx_vk_use;
RLX_WARN_UNUSED rlx_status rlx_vk_buffer_create(rlx_vk_device *device, rlx_vk_use use,
                                                uint64_t bytes, rlx_vk_buffer *out_buffer);
void rlx_vk_buffer_destroy(rlx_vk_device *device, rlx_vk_buffer *buffer); /* zeroed is fine */
/* Memory of an arena, in as many blocks as the device wants. */
RLX_WARN_UNUSED rlx_status rlx_vk_blocks_create(rlx_vk_device *device, uint64_t bytes,
                                                rlx_vk_blocks *out_blocks);
void rlx_vk_blocks_destroy(rlx_vk_device *device, rlx_vk_blocks *blocks); /* zeroed is fine */
/* The block of an offset, and how many bytes of `bytes` lie in it from there on. */
const rlx_vk_buffer *rlx_vk_block_at(const rlx_vk_blocks *blocks, uint64_t offset, uint64_t bytes,
                                     uint64_t *out_inside, uint64_t *out_bytes);
/* Before the device reads what the host wrote; before the host reads what the device wrote. */
RLX_WARN_UNUSED rlx_status rlx_vk_flush(rlx_vk_device *device, const rlx_vk_buffer *buffer,
                                        uint64_t offset, uint64_t bytes);
RLX_WARN_UNUSED rlx_status rlx_vk_invalidate(rlx_vk_device *device, const rlx_vk_buffer *buffer,
                                             uint64_t offset, uint64_t bytes);

/* queue.c: submits recorded commands; *out_value is what to wait for. */
RLX_WARN_UNUSED rlx_status rlx_vk_submit(rlx_vk_device *device, VkCommandBuffer commands,
                                         uint64_t *out_value);
RLX_WARN_UNUSED rlx_status rlx_vk_wait(rlx_vk_device *device, uint64_t value);
/* Notes a result; a lost device stays lost. */
RLX_WARN_UNUSED rlx_status rlx_vk_check(rlx_vk_device *device, VkResult result, const char *what);
/* Transfers that are done when they return. Host memory of any size; ranges of a copy do not
 * overlap. Offsets and bytes of a fill are multiples of 4. */
RLX_WARN_UNUSED rlx_status rlx_vk_write(rlx_vk_device *device, const rlx_vk_buffer *to,
                                        uint64_t offset, const void *source, uint64_t bytes);
RLX_WARN_UNUSED rlx_status rlx_vk_read(rlx_vk_device *device, const rlx_vk_buffer *from,
                                       uint64_t offset, void *destination, uint64_t bytes);
RLX_WARN_UNUSED rlx_status rlx_vk_copy(rlx_vk_device *device, const rlx_vk_buffer *from,
                                       uint64_t from_offset, const rlx_vk_buffer *to,
                                       uint64_t to_offset, uint64_t bytes);
RLX_WARN_UNUSED rlx_status rlx_vk_fill(rlx_vk_device *device, const rlx_vk_buffer *to,
                                       uint64_t offset, uint64_t bytes, uint32_t word);

/* cache.c: what is in the folder's file (NULL: no folder); and back into it, when there is more. */
RLX_WARN_UNUSED rlx_status rlx_vk_cache_create(rlx_vk_device *device, const char *folder);
void rlx_vk_cache_save(rlx_vk_device *device);

/* pipelines.c: of the SPIR-V of all shaders. */
uint64_t rlx_vk_shaders_hash(void);
/* made once, kept as long as the device. */
RLX_WARN_UNUSED rlx_status rlx_vk_find_pipeline(rlx_vk_device *device,
                                                const rlx_vk_dispatch *dispatch,
                                                const rlx_dtype *dtypes, VkPipeline *out_pipeline,
                                                uint32_t *out_layout);

/* queue.c: between these two the device's own commands are recorded on device->transfer, under its
 * lock; done when they return. */
RLX_WARN_UNUSED rlx_status rlx_vk_begin_transfer(rlx_vk_device *device);
RLX_WARN_UNUSED rlx_status rlx_vk_finish_transfer(rlx_vk_device *device);
/* Stages of `use` and the commands that copy them, from a pool; and back. */
RLX_WARN_UNUSED rlx_status rlx_vk_ring_create(rlx_vk_device *device, VkCommandPool pool,
                                              rlx_vk_use use, rlx_vk_ring *out_ring);
void rlx_vk_ring_destroy(rlx_vk_device *device, rlx_vk_ring *ring); /* zeroed is fine */

/* arena.c */
typedef struct rlx_vk_arena {
    rlx_arena base;
    rlx_vk_device *device;                   /* borrowed: the program has it */
    rlx_vk_blocks blocks[RLX_SEGMENT_COUNT]; /* owned, except shared weights */
    rlx_vk_weights *weights;                 /* counted; NULL: none shared */
} rlx_vk_arena;
RLX_WARN_UNUSED rlx_status rlx_vk_create_arena(rlx_device *base, const rlx_arena_request *request,
                                               rlx_arena **out_arena);
/* Whether an arena is one of ours (prepare steps have a host arena). */
bool rlx_vk_is_arena(const rlx_arena *arena);

/* stream.c, host_stream.c */
RLX_WARN_UNUSED rlx_status rlx_vk_create_stream(rlx_device *base, const rlx_allocator *allocator,
                                                rlx_arena *arena, rlx_stream **out_stream);
RLX_WARN_UNUSED rlx_status rlx_vk_create_host_stream(const rlx_allocator *allocator,
                                                     rlx_arena *arena, rlx_stream **out_stream);

/* copy.c: fills memory of the arena that is not mapped. */
RLX_WARN_UNUSED rlx_status rlx_vk_create_copy_engine(rlx_device *base, rlx_arena *arena,
                                                     const rlx_allocator *allocator,
                                                     const rlx_copy_options *options,
                                                     rlx_copy_engine **out_engine);

/* target.c */
rlx_target rlx_vk_target(const rlx_vk_caps *caps); /* borrows caps */

#endif
