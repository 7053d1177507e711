/* SPDX-License-Identifier: Apache-2.0 */
/* The machine inside the host's copy engines: a ring of jobs, cut into chunks that workers (and
 * waiters) claim. `sync` has no workers, `thread` and `file` have some; see copy_host.c. */
#ifndef RLX_DRIVER_COPY_HOST_H
#define RLX_DRIVER_COPY_HOST_H

#include "driver/copy_failures.h"
#include "driver/copy_read.h"

/* One job. Plain fields are written by issue while nobody can claim, and read by whoever has a
 * claim. */
typedef struct rlx_copy_job {
    _Alignas(64) _Atomic uint64_t claim; /* sequence, kind and chunks that nobody took yet */
    _Atomic uint32_t unfinished;         /* chunks */
    _Atomic uint64_t done;               /* the last sequence that ended in this place */
    rlx_copy_request request;
    uint64_t chunk_bytes;
    uint32_t chunk_count;
} rlx_copy_job;

typedef struct rlx_copy_host rlx_copy_host;

/* One copy thread. */
typedef struct rlx_copy_worker {
    rlx_copy_host *host;
    pthread_t thread;
    uint8_t *bounce; /* owned; NULL: none */
} rlx_copy_worker;

struct rlx_copy_host {
    rlx_copy_engine base;
    rlx_copy_hooks hooks;
    uint32_t depth;
    uint64_t inline_bytes;
    bool may_direct, forgets; /* how files are read */
    rlx_copy_job *jobs;       /* owned; sequence s is in jobs[s % depth] */

    rlx_copy_worker *workers; /* owned */
    uint32_t worker_count, started;
    struct rlx_copy_uring *uring; /* owned; NULL: workers use blocking reads */

    _Alignas(64) _Atomic uint64_t published; /* the newest sequence workers may look at */
    _Atomic uint32_t bell, sleepers, stop;   /* where workers sleep */
    _Alignas(64) _Atomic uint64_t cursor;    /* the oldest sequence that may have chunks left */
    _Alignas(64) _Atomic uint32_t ended, waiters; /* where waiters sleep */

    rlx_copy_failures failures;
};

typedef struct rlx_copy_host_config {
    const char *name;
    uint32_t threads;
    uint64_t inline_bytes;
    bool reads_past_cache; /* direct reads with a bounce buffer; buffered ones forget behind */
    bool wants_uring;
    rlx_copy_options options;
} rlx_copy_host_config;

RLX_WARN_UNUSED rlx_status rlx_copy_host_create(const rlx_allocator *allocator,
                                                const rlx_copy_host_config *config,
                                                rlx_copy_engine **out_engine);

/* A claimed piece of a job. */
typedef struct rlx_copy_chunk {
    rlx_copy_job *job;
    uint64_t sequence, first, bytes; /* from byte `first` of the request */
} rlx_copy_chunk;

/* For worker bodies. Claims the next chunk that is due; false when there is none now. */
bool rlx_copy_host_claim_next(rlx_copy_host *host, rlx_copy_chunk *out_chunk);
/* Sleeps until there may be one; false: the engine ends and nothing is left. */
bool rlx_copy_host_idle(rlx_copy_host *host);
/* Moves the chunk's bytes and finishes it. */
void rlx_copy_host_run(rlx_copy_host *host, const rlx_copy_chunk *chunk, uint8_t *bounce);
/* The chunk is a read of a file. */
rlx_copy_read rlx_copy_host_read(rlx_copy_host *host, const rlx_copy_chunk *chunk, uint8_t *bounce);
/* The chunk is over; on failure the thread's error record says why. */
void rlx_copy_host_finish(rlx_copy_host *host, const rlx_copy_chunk *chunk, rlx_status status);

#endif
