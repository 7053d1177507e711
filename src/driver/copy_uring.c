/* SPDX-License-Identifier: Apache-2.0 */
/* Reads through io_uring, see copy_uring.h. The decisions of each read are those of copy_read.c;
 * here are the two rings shared with the kernel and the table of reads in flight. Where the kernel
 * refuses to take a read, the worker does it itself. */
#include "driver/copy_uring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { IN_FLIGHT = 4 }; /* more gains nothing: docs/decisions/0010-copy-engines.md */

typedef struct flight {
    rlx_copy_chunk chunk;
    rlx_copy_read read;
    uint8_t *bounce; /* owned */
    bool is_busy;
} flight;

struct rlx_copy_uring {
    int descriptor;
    void *rings; /* both rings in one map */
    size_t ring_bytes;
    struct io_uring_sqe *entries;
    size_t entry_bytes;
    _Atomic uint32_t *sq_head, *sq_tail, *cq_head, *cq_tail;
    uint32_t *sq_array;
    struct io_uring_cqe *cqes;
    uint32_t sq_mask, cq_mask;
    uint32_t busy; /* flights */
    flight flights[IN_FLIGHT];
};

static bool map_rings(rlx_copy_uring *uring, const struct io_uring_params *params) {
    size_t sq_bytes = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
    size_t cq_bytes = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    uint8_t *rings;
    uring->ring_bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
    uring->rings = mmap(NULL, uring->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                        uring->descriptor, IORING_OFF_SQ_RING);
    if (uring->rings == MAP_FAILED) return false;
    uring->entry_bytes = params->sq_entries * sizeof(struct io_uring_sqe);
    uring->entries = mmap(NULL, uring->entry_bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_POPULATE, uring->descriptor, IORING_OFF_SQES);
    if (uring->entries == MAP_FAILED) return false;
    rings = uring->rings;
    uring->sq_head = (_Atomic uint32_t *)(void *)(rings + params->sq_off.head);
    uring->sq_tail = (_Atomic uint32_t *)(void *)(rings + params->sq_off.tail);
    uring->cq_head = (_Atomic uint32_t *)(void *)(rings + params->cq_off.head);
    uring->cq_tail = (_Atomic uint32_t *)(void *)(rings + params->cq_off.tail);
    uring->sq_array = (uint32_t *)(void *)(rings + params->sq_off.array);
    uring->cqes = (struct io_uring_cqe *)(void *)(rings + params->cq_off.cqes);
    memcpy(&uring->sq_mask, rings + params->sq_off.ring_mask, sizeof uring->sq_mask);
    memcpy(&uring->cq_mask, rings + params->cq_off.ring_mask, sizeof uring->cq_mask);
    return true;
}

/* False where the kernel does not have what is needed: one map, and reads without vectors (which
 * came just before fast poll). */
static bool open_rings(rlx_copy_uring *uring) {
    struct io_uring_params params = {0};
    uint32_t needs = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_FAST_POLL;
    uring->descriptor = (int)syscall(SYS_io_uring_setup, IN_FLIGHT, &params);
    if (uring->descriptor < 0) return false;
    return (params.features & needs) == needs && map_rings(uring, &params);
}

rlx_status rlx_copy_uring_create(const rlx_allocator *allocator, rlx_copy_uring **out_uring) {
    rlx_copy_uring *uring = NULL;
    rlx_status status = RLX_OK;
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *uring, (void **)&uring));
    uring->rings = MAP_FAILED;
    uring->entries = MAP_FAILED;
    if (!open_rings(uring)) {
        rlx_copy_uring_destroy(allocator, uring);
        return RLX_OK;
    }
    for (uint32_t i = 0; i < IN_FLIGHT && status == RLX_OK; ++i) {
        status = rlx_alloc_aligned(allocator, RLX_COPY_BOUNCE_BYTES, RLX_COPY_PAGE,
                                   (void **)&uring->flights[i].bounce);
    }
    if (status != RLX_OK) {
        rlx_copy_uring_destroy(allocator, uring);
        return status;
    }
    *out_uring = uring;
    return RLX_OK;
}

void rlx_copy_uring_destroy(const rlx_allocator *allocator, rlx_copy_uring *uring) {
    if (uring == NULL) return;
    if (uring->entries != MAP_FAILED) munmap(uring->entries, uring->entry_bytes);
    if (uring->rings != MAP_FAILED) munmap(uring->rings, uring->ring_bytes);
    if (uring->descriptor >= 0) close(uring->descriptor);
    for (uint32_t i = 0; i < IN_FLIGHT; ++i) {
        rlx_free(allocator, uring->flights[i].bounce);
    }
    rlx_free(allocator, uring);
}

/* Puts the flight's next read into the submission ring; the kernel sees it at the next enter. There
 * is always room: a flight has one read at a time. */
static void push(rlx_copy_uring *uring, uint32_t index) {
    rlx_copy_read *read = &uring->flights[index].read;
    uint32_t tail = atomic_load_explicit(uring->sq_tail, memory_order_relaxed);
    uint32_t place = tail & uring->sq_mask;
    rlx_copy_read_next(read);
    uring->entries[place] = (struct io_uring_sqe){.opcode = IORING_OP_READ,
                                                  .fd = read->descriptor,
                                                  .off = read->at,
                                                  .addr = (uint64_t)(uintptr_t)read->address,
                                                  .len = (uint32_t)read->bytes,
                                                  .user_data = index};
    uring->sq_array[place] = place;
    atomic_store_explicit(uring->sq_tail, tail + 1, memory_order_release);
}

static void land(rlx_copy_host *host, rlx_copy_uring *uring, uint32_t index, rlx_status status) {
    flight *flown = &uring->flights[index];
    if (status == RLX_OK && host->forgets && flown->read.is_cached) {
        rlx_copy_read_forget(flown->read.file, flown->read.offset - flown->chunk.bytes,
                             flown->chunk.bytes);
    }
    flown->is_busy = false;
    uring->busy--;
    rlx_copy_host_finish(host, &flown->chunk, status);
}

static void reap(rlx_copy_host *host, rlx_copy_uring *uring) {
    uint32_t head = atomic_load_explicit(uring->cq_head, memory_order_relaxed);
    while (head != atomic_load_explicit(uring->cq_tail, memory_order_acquire)) {
        const struct io_uring_cqe *cqe = &uring->cqes[head & uring->cq_mask];
        uint32_t index = (uint32_t)cqe->user_data;
        int64_t result = cqe->res;
        rlx_status status;
        atomic_store_explicit(uring->cq_head, ++head, memory_order_release);
        status = rlx_copy_read_took(&uring->flights[index].read, result);
        if (status == RLX_OK && uring->flights[index].read.remaining != 0) {
            push(uring, index);
        } else {
            land(host, uring, index, status);
        }
    }
}

/* The kernel took less than it was given: the rest is read here, and what it has is looked for
 * again a little later. */
static void help_out(rlx_copy_host *host, rlx_copy_uring *uring) {
    uint32_t head = atomic_load_explicit(uring->sq_head, memory_order_acquire);
    uint32_t tail = atomic_load_explicit(uring->sq_tail, memory_order_relaxed);
    struct timespec moment = {.tv_nsec = 100000};
    uint32_t left[IN_FLIGHT];
    uint32_t count = 0;
    for (uint32_t at = head; at != tail && count < IN_FLIGHT; ++at) {
        left[count++] = (uint32_t)uring->entries[at & uring->sq_mask].user_data;
    }
    atomic_store_explicit(uring->sq_tail, head, memory_order_release);
    for (uint32_t i = 0; i < count; ++i) {
        land(host, uring, left[i], rlx_copy_read_all(&uring->flights[left[i]].read));
    }
    if (count == 0) nanosleep(&moment, NULL);
}

static void submit_and_wait(rlx_copy_host *host, rlx_copy_uring *uring) {
    uint32_t waiting = atomic_load_explicit(uring->sq_tail, memory_order_relaxed) -
                       atomic_load_explicit(uring->sq_head, memory_order_acquire);
    long code =
        syscall(SYS_io_uring_enter, uring->descriptor, waiting, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    if (code < 0 && errno != EINTR) help_out(host, uring);
    reap(host, uring);
}

/* Takes one chunk that is due; false when there is none, or no place for it. */
static bool take_off(rlx_copy_host *host, rlx_copy_uring *uring) {
    rlx_copy_chunk chunk;
    uint32_t index = 0;
    if (uring->busy == IN_FLIGHT || !rlx_copy_host_claim_next(host, &chunk)) return false;
    if (chunk.job->request.source.file == NULL) {
        rlx_copy_host_run(host, &chunk, NULL);
        return true;
    }
    while (uring->flights[index].is_busy) {
        index++;
    }
    uring->flights[index].chunk = chunk;
    uring->flights[index].read = rlx_copy_host_read(host, &chunk, uring->flights[index].bounce);
    uring->flights[index].is_busy = true;
    uring->busy++;
    push(uring, index);
    return true;
}

void *rlx_copy_uring_body(void *argument) {
    rlx_copy_host *host = ((rlx_copy_worker *)argument)->host;
    rlx_copy_uring *uring = host->uring;
    do {
        while (take_off(host, uring)) {
        }
        while (uring->busy != 0) {
            submit_and_wait(host, uring);
            while (take_off(host, uring)) {
            }
        }
    } while (rlx_copy_host_idle(host));
    return NULL;
}
