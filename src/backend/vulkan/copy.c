/* SPDX-License-Identifier: Apache-2.0 */
/* The copy engine of memory that is not mapped. A thread has the bytes brought into stages by the
 * host's `file` engine and hands the stages to the transfer queue (one of its own family where the
 * device has it). Copies end in the order of their issue: the sequence of a token is the value of
 * a timeline semaphore. While one stage is copied the next is being read. */
#include "backend/vulkan/device.h"

#include "base/options.h"
#include "driver/copy_failures.h"

#include <string.h>

enum { DEPTH_DEFAULT = 64 };

typedef struct vk_job {
    rlx_copy_request request;
    _Atomic uint64_t ended; /* the last sequence in this place that ended without the timeline */
} vk_job;

/* What a stage is being filled with, and the value of `stages_done` that frees it. */
typedef struct vk_piece {
    rlx_copy_token token;
    uint64_t first, bytes, busy_until;
} vk_piece;

typedef struct vk_copy {
    rlx_copy_engine base;
    rlx_vk_device *device; /* borrowed, like the arena */
    rlx_vk_arena *arena;
    rlx_copy_engine *reader; /* owned: brings bytes to the host's side */
    rlx_copy_options options;
    rlx_copy_hooks hooks;
    uint32_t depth;
    vk_job *jobs; /* owned; sequence s is in jobs[s % depth] */
    rlx_copy_failures failures;

    VkCommandPool pool;
    VkSemaphore done, stages_done; /* timelines: of tokens, and of stages */
    rlx_vk_ring ring;
    vk_piece pieces[RLX_VK_STAGES];
    uint64_t filled, used, stage_value; /* pieces begun and handed over; the newest value */

    pthread_t thread;
    bool is_started;
    _Atomic uint64_t published, handed; /* newest sequences: issued; on the queue or ended */
    _Atomic uint32_t bell, progress, stop;
} vk_copy;

static vk_job *job_of(vk_copy *self, uint64_t sequence) {
    return &self->jobs[sequence % self->depth];
}

static bool is_on_device(const vk_copy *self, const void *destination) {
    const uint8_t *first = self->arena->base.stand_in[RLX_SEGMENT_TILES], *at = destination;
    return first != NULL && at >= first && at < first + self->arena->base.bytes[RLX_SEGMENT_TILES];
}

static rlx_status wait_value(vk_copy *self, VkSemaphore timeline, uint64_t value,
                             uint64_t timeout_ns) {
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &timeline,
                                .pValues = &value};
    VkResult result = self->device->vk.WaitSemaphores(self->device->handle, &info, timeout_ns);
    if (result == VK_TIMEOUT) return RLX_TIMEOUT;
    return rlx_vk_check(self->device, result, "vkWaitSemaphores");
}

/* The next piece of a copy begins to fill a stage, as soon as the queue is done with that. */
static rlx_status begin_piece(vk_copy *self, const rlx_copy_request *request, uint64_t first) {
    uint32_t at = self->filled % RLX_VK_STAGES;
    const rlx_vk_buffer *stage = &self->ring.stages[at];
    uint64_t offset = (uint64_t)((const uint8_t *)request->destination -
                                 (const uint8_t *)self->arena->base.stand_in[RLX_SEGMENT_TILES]);
    uint64_t inside, left = request->bytes - first;
    rlx_copy_source source = request->source;
    vk_piece *piece = &self->pieces[at];
    if (left > stage->bytes) left = stage->bytes;
    (void)rlx_vk_block_at(&self->arena->blocks[RLX_SEGMENT_TILES], offset + first, left, &inside,
                          &left);
    if (source.file != NULL) {
        source.offset += first;
    } else {
        source.memory = (const uint8_t *)source.memory + first;
    }
    RLX_TRY(wait_value(self, self->stages_done, piece->busy_until, UINT64_MAX));
    RLX_TRY(rlx_copy_issue(self->reader, source, stage->mapped, left, &piece->token));
    piece->first = first;
    piece->bytes = left;
    self->filled++;
    return RLX_OK;
}

static rlx_status record_piece(vk_copy *self, const rlx_copy_request *request,
                               const vk_piece *piece, VkCommandBuffer commands, VkBuffer from) {
    const rlx_vk_functions *vk = &self->device->vk;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT};
    uint64_t offset = (uint64_t)((const uint8_t *)request->destination -
                                 (const uint8_t *)self->arena->base.stand_in[RLX_SEGMENT_TILES]);
    uint64_t inside, bytes;
    const rlx_vk_buffer *to = rlx_vk_block_at(&self->arena->blocks[RLX_SEGMENT_TILES],
                                              offset + piece->first, piece->bytes, &inside, &bytes);
    VkBufferCopy region = {0, inside, piece->bytes};
    RLX_TRY(rlx_vk_check(self->device, vk->BeginCommandBuffer(commands, &begin),
                         "vkBeginCommandBuffer"));
    vk->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
                           0, 1, &all, 0, NULL, 0, NULL);
    vk->CmdCopyBuffer(commands, from, to->handle, 1, &region);
    return rlx_vk_check(self->device, vk->EndCommandBuffer(commands), "vkEndCommandBuffer");
}

/* The last piece of a copy also raises the timeline of tokens to its sequence. */
static rlx_status submit_piece(vk_copy *self, VkCommandBuffer commands, uint64_t token_value) {
    rlx_vk_device *device = self->device;
    const uint64_t values[] = {self->stage_value + 1, token_value};
    const VkSemaphore timelines[] = {self->stages_done, self->done};
    const uint32_t count = token_value == 0 ? 1 : 2;
    bool is_shared = device->copy_queue == device->queue;
    VkTimelineSemaphoreSubmitInfo timeline = {.sType =
                                                  VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                              .signalSemaphoreValueCount = count,
                                              .pSignalSemaphoreValues = values};
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                         .pNext = &timeline,
                         .commandBufferCount = 1,
                         .pCommandBuffers = &commands,
                         .signalSemaphoreCount = count,
                         .pSignalSemaphores = timelines};
    VkResult result;
    if (atomic_load(&device->is_lost) != 0) {
        return RLX_FAIL(RLX_DEVICE, "device '%s' was lost: open it again", device->name);
    }
    pthread_mutex_lock(is_shared ? &device->lock : &device->copy_lock);
    result = device->vk.QueueSubmit(device->copy_queue, 1, &info, VK_NULL_HANDLE);
    pthread_mutex_unlock(is_shared ? &device->lock : &device->copy_lock);
    RLX_TRY(rlx_vk_check(device, result, "vkQueueSubmit"));
    self->stage_value++;
    atomic_fetch_add(&device->submits, 1);
    return RLX_OK;
}

/* The oldest stage that is being filled goes to the queue when it is full. */
static rlx_status hand_over(vk_copy *self, const rlx_copy_request *request, uint64_t *out_end) {
    uint32_t at = self->used % RLX_VK_STAGES;
    const rlx_vk_buffer *stage = &self->ring.stages[at];
    vk_piece *piece = &self->pieces[at];
    bool is_last = piece->first + piece->bytes == request->bytes;
    self->used++;
    RLX_TRY(rlx_copy_wait(self->reader, piece->token));
    RLX_TRY(rlx_vk_flush(self->device, stage, 0, piece->bytes));
    RLX_TRY(record_piece(self, request, piece, self->ring.commands[at], stage->handle));
    RLX_TRY(submit_piece(self, self->ring.commands[at], is_last ? request->sequence : 0));
    piece->busy_until = self->stage_value;
    atomic_fetch_add(&self->device->upload_bytes, piece->bytes);
    *out_end = piece->first + piece->bytes;
    return RLX_OK;
}

/* Whether the next piece can begin now: a full stage goes to the queue before anybody waits for an
 * empty one. */
static bool may_begin(vk_copy *self) {
    uint64_t value = 0;
    if (self->filled == self->used) return true;
    return self->filled - self->used < RLX_VK_STAGES &&
           self->device->vk.GetSemaphoreCounterValue(self->device->handle, self->stages_done,
                                                     &value) == VK_SUCCESS &&
           value >= self->pieces[self->filled % RLX_VK_STAGES].busy_until;
}

static rlx_status copy_to_device(vk_copy *self, const rlx_copy_request *request) {
    uint64_t begun = 0, sent = 0;
    while (sent < request->bytes) {
        while (begun < request->bytes && may_begin(self)) {
            uint32_t at = self->filled % RLX_VK_STAGES;
            RLX_TRY(begin_piece(self, request, begun));
            begun += self->pieces[at].bytes;
        }
        RLX_TRY(hand_over(self, request, &sent));
    }
    return RLX_OK;
}

/* Stages that a failed copy was filling. */
static void drain_pieces(vk_copy *self) {
    for (; self->used != self->filled; self->used++) {
        if (rlx_copy_wait(self->reader, self->pieces[self->used % RLX_VK_STAGES].token) != RLX_OK) {
            /* Failed too: the first cause is the one to tell. */
        }
    }
}

static rlx_status copy_to_host(vk_copy *self, const rlx_copy_request *request) {
    rlx_copy_token token;
    RLX_TRY(rlx_copy_issue(self->reader, request->source, request->destination, request->bytes,
                           &token));
    return rlx_copy_wait(self->reader, token);
}

static void pass_hooks(vk_copy *self) {
    rlx_copy_hooks result = {.result = self->hooks.result, .user = self->hooks.user};
    rlx_copy_set_hooks(self->reader, &result);
}

/* A reader remembers each failure, and refuses work after some of them: ours are counted here. */
static void replace_reader(vk_copy *self) {
    rlx_copy_engine *fresh = NULL;
    if (rlx_copy_engine_create_file(&self->base.allocator, &self->options, &fresh) != RLX_OK) {
        return; /* the old one goes on */
    }
    rlx_copy_engine_destroy(self->reader);
    self->reader = fresh;
    pass_hooks(self);
}

static void run_job(vk_copy *self, vk_job *job) {
    const rlx_copy_request *request = &job->request;
    bool is_device = is_on_device(self, request->destination);
    rlx_status status = is_device ? copy_to_device(self, request) : copy_to_host(self, request);
    if (status != RLX_OK) {
        rlx_copy_failures_add(&self->failures, request->sequence, status);
        drain_pieces(self);
        replace_reader(self);
    }
    if (status != RLX_OK || !is_device) atomic_store(&job->ended, request->sequence);
}

static void *work(void *argument) {
    vk_copy *self = argument;
    for (;;) {
        uint64_t next = atomic_load(&self->handed) + 1;
        uint32_t seen = atomic_load(&self->bell);
        if (atomic_load(&self->published) < next) {
            if (atomic_load(&self->stop) != 0) return NULL;
            rlx_futex_wait(&self->bell, seen, UINT64_MAX);
            continue;
        }
        if (self->hooks.gate != NULL) self->hooks.gate(self->hooks.user);
        if (atomic_load(&job_of(self, next)->ended) < next) run_job(self, job_of(self, next));
        atomic_store(&self->handed, next);
        atomic_fetch_add(&self->progress, 1);
        rlx_futex_wake(&self->progress, UINT32_MAX);
    }
}

/* A lost device finishes nothing any more: wait has the words. */
static bool is_done(vk_copy *self, uint64_t sequence) {
    uint64_t value = 0;
    if (atomic_load(&job_of(self, sequence)->ended) >= sequence) return true;
    if (atomic_load(&self->handed) < sequence) return false;
    return self->device->vk.GetSemaphoreCounterValue(self->device->handle, self->done, &value) !=
               VK_SUCCESS ||
           value >= sequence;
}

static rlx_status check_room(vk_copy *self, uint64_t sequence) {
    RLX_TRY(rlx_copy_failures_check(&self->failures));
    if (sequence > self->depth && !is_done(self, sequence - self->depth)) {
        return RLX_FAIL(RLX_BUSY, "copy %" PRIu64 " is pending, %" PRIu32 " issued since",
                        sequence - self->depth, self->depth);
    }
    return RLX_OK;
}

static rlx_status vk_issue(rlx_copy_engine *base, const rlx_copy_request *request) {
    vk_copy *self = (vk_copy *)base;
    vk_job *job = job_of(self, request->sequence);
    const uint8_t *last = request->bytes == 0
                              ? request->destination
                              : (const uint8_t *)request->destination + request->bytes - 1;
    RLX_TRY(check_room(self, request->sequence));
    if (request->bytes != 0 &&
        is_on_device(self, request->destination) != is_on_device(self, last)) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "%" PRIu64 " bytes reach past the device's memory",
                        request->bytes);
    }
    job->request = *request;
    if (request->bytes == 0) atomic_store(&job->ended, request->sequence);
    atomic_store(&self->published, request->sequence);
    atomic_fetch_add(&self->bell, 1);
    rlx_futex_wake(&self->bell, 1);
    return RLX_OK;
}

/* Until the worker is through with it; false: the deadline came first. */
static bool wait_handed(vk_copy *self, uint64_t sequence, uint64_t deadline) {
    for (;;) {
        uint32_t seen = atomic_load(&self->progress);
        uint64_t now = rlx_now_ns();
        if (atomic_load(&self->handed) >= sequence) return true;
        if (now >= deadline) return false;
        rlx_futex_wait(&self->progress, seen, deadline == UINT64_MAX ? UINT64_MAX : deadline - now);
    }
}

static rlx_status vk_wait(rlx_copy_engine *base, uint64_t sequence, uint64_t timeout_ns) {
    vk_copy *self = (vk_copy *)base;
    uint64_t start = rlx_now_ns(), deadline = UINT64_MAX, now;
    if (timeout_ns < UINT64_MAX - start) deadline = start + timeout_ns;
    if (atomic_load(&job_of(self, sequence)->ended) < sequence) {
        if (!wait_handed(self, sequence, deadline)) return RLX_TIMEOUT;
        now = rlx_now_ns();
        if (atomic_load(&job_of(self, sequence)->ended) < sequence) {
            RLX_TRY(wait_value(self, self->done, sequence,
                               deadline == UINT64_MAX ? UINT64_MAX
                               : now >= deadline      ? 0
                                                      : deadline - now));
        }
    }
    return rlx_copy_failures_outcome(&self->failures, sequence);
}

static bool vk_is_done(rlx_copy_engine *base, uint64_t sequence) {
    return is_done((vk_copy *)base, sequence);
}

static void vk_set_hooks(rlx_copy_engine *base, const rlx_copy_hooks *hooks) {
    vk_copy *self = (vk_copy *)base;
    self->hooks = *hooks;
    pass_hooks(self);
}

static void destroy_objects(vk_copy *self) {
    const rlx_vk_functions *vk = &self->device->vk;
    VkDevice handle = self->device->handle;
    if (self->stage_value != 0 &&
        wait_value(self, self->stages_done, self->stage_value, UINT64_MAX) != RLX_OK) {
        (void)vk->DeviceWaitIdle(handle); /* lost: nothing of ours is in use any more */
    }
    rlx_vk_ring_destroy(self->device, &self->ring);
    if (self->pool != VK_NULL_HANDLE) vk->DestroyCommandPool(handle, self->pool, NULL);
    if (self->done != VK_NULL_HANDLE) vk->DestroySemaphore(handle, self->done, NULL);
    if (self->stages_done != VK_NULL_HANDLE) vk->DestroySemaphore(handle, self->stages_done, NULL);
}

static void vk_destroy(rlx_copy_engine *base) {
    vk_copy *self = (vk_copy *)base;
    rlx_allocator allocator = base->allocator;
    atomic_store(&self->stop, 1);
    atomic_fetch_add(&self->bell, 1);
    rlx_futex_wake(&self->bell, 1);
    if (self->is_started) pthread_join(self->thread, NULL);
    rlx_copy_engine_destroy(self->reader);
    destroy_objects(self);
    rlx_free(&allocator, self->jobs);
    rlx_copy_failures_free(&allocator, &self->failures);
    pthread_mutex_destroy(&base->lock);
    rlx_free(&allocator, self);
}

static const rlx_copy_ops vk_copy_ops = {.destroy = vk_destroy,
                                         .issue = vk_issue,
                                         .wait = vk_wait,
                                         .is_done = vk_is_done,
                                         .set_hooks = vk_set_hooks};

static rlx_status create_timeline(rlx_vk_device *device, VkSemaphore *out_timeline) {
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    return rlx_vk_check(device,
                        device->vk.CreateSemaphore(device->handle, &info, NULL, out_timeline),
                        "vkCreateSemaphore");
}

static rlx_status create_objects(vk_copy *self) {
    rlx_vk_device *device = self->device;
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = device->caps.transfer_family};
    RLX_TRY(create_timeline(device, &self->done));
    RLX_TRY(create_timeline(device, &self->stages_done));
    RLX_TRY(rlx_vk_check(device,
                         device->vk.CreateCommandPool(device->handle, &pool, NULL, &self->pool),
                         "vkCreateCommandPool"));
    return rlx_vk_ring_create(device, self->pool, RLX_VK_UPLOAD, &self->ring);
}

static rlx_status fill(vk_copy *self, const rlx_copy_options *options) {
    const rlx_allocator *allocator = &self->base.allocator;
    self->options.size = sizeof self->options;
    RLX_TRY(rlx_copy_engine_create_file(allocator, options, &self->reader));
    RLX_TRY(rlx_options_read(options, sizeof self->options, "copy engine", &self->options));
    self->depth = self->options.depth != 0 ? self->options.depth : DEPTH_DEFAULT;
    RLX_TRY(rlx_alloc_array(allocator, self->depth, sizeof *self->jobs, (void **)&self->jobs));
    RLX_TRY(rlx_copy_failures_reserve(allocator, &self->failures, self->depth));
    RLX_TRY(create_objects(self));
    RLX_TRY(rlx_thread_start(&self->thread, work, self));
    self->is_started = true;
    return RLX_OK;
}

rlx_status rlx_vk_create_copy_engine(rlx_device *base, rlx_arena *arena,
                                     const rlx_allocator *allocator,
                                     const rlx_copy_options *options,
                                     rlx_copy_engine **out_engine) {
    vk_copy *self = NULL;
    rlx_status status;
    if (!rlx_vk_is_arena(arena) || arena->stand_in[RLX_SEGMENT_TILES] == NULL) {
        return rlx_copy_engine_create_file(allocator, options, out_engine);
    }
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *self, (void **)&self));
    rlx_copy_engine_init(&self->base, &vk_copy_ops, "vulkan", allocator);
    rlx_copy_failures_init(&self->failures);
    self->device = (rlx_vk_device *)base;
    self->arena = (rlx_vk_arena *)arena;
    status = fill(self, options);
    if (status != RLX_OK) {
        vk_destroy(&self->base);
        return status;
    }
    *out_engine = &self->base;
    return RLX_OK;
}
