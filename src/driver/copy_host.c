/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of jobs of a host copy engine (see copy_host.h).
 *
 * A job is cut into chunks. Its claim word holds the low half of its sequence and how many chunks
 * nobody has taken; taking one is a compare-and-swap, so that a late claimer finds another sequence
 * and goes away. Whoever finishes the last chunk ends the job. A place in the ring is used again
 * only when its job has ended: so `done` of the place answers for every sequence it ever held, and
 * only failures need memory of their own.
 *
 * A waiter without a timeout claims chunks too (from memory only: reads may block), so that issue
 * and wait together never cost more than the copy. */
#include "driver/copy_host.h"

#include "driver/copy_uring.h"

#include <string.h>

enum {
    SPIN_NS = 20000,     /* how long a thread looks out before it sleeps */
    SPINS_PER_LOOK = 32, /* pauses between two looks at the clock */
    MEMORY_CHUNK = 256 << 10,
    FILE_CHUNK = 4 << 20,
    DEPTH_DEFAULT = 64,
    DEPTH_MOST = 4096,
    THREADS_MOST = 64
};

#define CLAIM_HELP  (UINT64_C(1) << 31) /* waiters may take chunks */
#define CLAIM_COUNT (CLAIM_HELP - 1)

static uint64_t claim_word(uint64_t sequence, bool may_help, uint32_t chunks) {
    return sequence << 32 | (may_help ? CLAIM_HELP : 0) | chunks;
}

static rlx_copy_job *job_of(rlx_copy_host *host, uint64_t sequence) {
    return &host->jobs[sequence % host->depth];
}

static bool is_done(rlx_copy_host *host, uint64_t sequence) {
    return atomic_load(&job_of(host, sequence)->done) >= sequence;
}

/* Takes a chunk of this sequence; false when none is left, or (for helpers) none may be taken. */
static bool claim(rlx_copy_host *host, uint64_t sequence, bool is_helper, rlx_copy_chunk *out) {
    rlx_copy_job *job = job_of(host, sequence);
    uint64_t word = atomic_load_explicit(&job->claim, memory_order_acquire);
    for (;;) {
        if (word >> 32 != (sequence & UINT32_MAX) || (word & CLAIM_COUNT) == 0) return false;
        if (is_helper && (word & CLAIM_HELP) == 0) return false;
        if (atomic_compare_exchange_weak_explicit(&job->claim, &word, word - 1,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            break;
        }
    }
    out->job = job;
    out->sequence = sequence;
    out->first = (job->chunk_count - (word & CLAIM_COUNT)) * job->chunk_bytes;
    out->bytes = job->request.bytes - out->first;
    if (out->bytes > job->chunk_bytes) out->bytes = job->chunk_bytes;
    return true;
}

bool rlx_copy_host_claim_next(rlx_copy_host *host, rlx_copy_chunk *out_chunk) {
    for (;;) {
        uint64_t published = atomic_load(&host->published);
        uint64_t sequence = atomic_load(&host->cursor);
        uint64_t oldest = published > host->depth ? published - host->depth + 1 : 1;
        uint64_t next = sequence + 1 > oldest ? sequence + 1 : oldest;
        if (sequence > published) return false;
        if (host->hooks.gate != NULL) host->hooks.gate(host->hooks.user);
        if (claim(host, sequence, false, out_chunk)) return true;
        /* Another worker may have moved it on already. */
        (void)atomic_compare_exchange_strong(&host->cursor, &sequence, next);
    }
}

static bool has_work(rlx_copy_host *host) {
    return atomic_load(&host->cursor) <= atomic_load(&host->published);
}

bool rlx_copy_host_idle(rlx_copy_host *host) {
    uint64_t start = rlx_now_ns();
    while (!has_work(host) && atomic_load(&host->stop) == 0) {
        for (uint32_t i = 0; i < SPINS_PER_LOOK && !has_work(host); ++i) {
            rlx_cpu_relax();
        }
        if (rlx_now_ns() - start > SPIN_NS) {
            uint32_t seen = atomic_load(&host->bell);
            atomic_fetch_add(&host->sleepers, 1);
            /* Looked at again after announcing the sleep: no ring is lost. */
            if (!has_work(host) && atomic_load(&host->stop) == 0) {
                rlx_futex_wait(&host->bell, seen, UINT64_MAX);
            }
            atomic_fetch_sub(&host->sleepers, 1);
        }
    }
    return has_work(host);
}

static void ring_bell(rlx_copy_host *host, uint32_t count) {
    atomic_fetch_add(&host->bell, 1);
    if (atomic_load(&host->sleepers) != 0) rlx_futex_wake(&host->bell, count);
}

static void end_job(rlx_copy_host *host, rlx_copy_job *job, uint64_t sequence) {
    atomic_store(&job->done, sequence);
    atomic_fetch_add(&host->ended, 1);
    if (atomic_load(&host->waiters) != 0) rlx_futex_wake(&host->ended, UINT32_MAX);
}

void rlx_copy_host_finish(rlx_copy_host *host, const rlx_copy_chunk *chunk, rlx_status status) {
    if (status != RLX_OK) rlx_copy_failures_add(&host->failures, chunk->sequence, status);
    if (atomic_fetch_sub_explicit(&chunk->job->unfinished, 1, memory_order_acq_rel) == 1) {
        end_job(host, chunk->job, chunk->sequence);
    }
}

rlx_copy_read rlx_copy_host_read(rlx_copy_host *host, const rlx_copy_chunk *chunk,
                                 uint8_t *bounce) {
    const rlx_copy_request *request = &chunk->job->request;
    return (rlx_copy_read){.file = request->source.file,
                           .hooks = &host->hooks,
                           .bounce = bounce,
                           .destination = (uint8_t *)request->destination + chunk->first,
                           .offset = request->source.offset + chunk->first,
                           .remaining = chunk->bytes,
                           .may_direct = host->may_direct};
}

static rlx_status move_chunk(rlx_copy_host *host, const rlx_copy_chunk *chunk, uint8_t *bounce) {
    const rlx_copy_request *request = &chunk->job->request;
    rlx_copy_read read;
    if (request->source.file == NULL) {
        memcpy((uint8_t *)request->destination + chunk->first,
               (const uint8_t *)request->source.memory + chunk->first, (size_t)chunk->bytes);
        return RLX_OK;
    }
    read = rlx_copy_host_read(host, chunk, bounce);
    RLX_TRY(rlx_copy_read_all(&read));
    if (host->forgets && read.is_cached)
        rlx_copy_read_forget(read.file, read.offset - chunk->bytes, chunk->bytes);
    return RLX_OK;
}

void rlx_copy_host_run(rlx_copy_host *host, const rlx_copy_chunk *chunk, uint8_t *bounce) {
    rlx_copy_host_finish(host, chunk, move_chunk(host, chunk, bounce));
}

static void *worker_body(void *argument) {
    rlx_copy_worker *worker = argument;
    rlx_copy_chunk chunk;
    do {
        while (rlx_copy_host_claim_next(worker->host, &chunk)) {
            rlx_copy_host_run(worker->host, &chunk, worker->bounce);
        }
    } while (rlx_copy_host_idle(worker->host));
    return NULL;
}

static rlx_status check_room(rlx_copy_host *host, const rlx_copy_job *job, uint64_t sequence) {
    RLX_TRY(rlx_copy_failures_check(&host->failures));
    if (sequence > host->depth && atomic_load(&job->done) < sequence - host->depth) {
        return RLX_FAIL(RLX_BUSY, "copy %" PRIu64 " is pending, %" PRIu32 " issued since",
                        sequence - host->depth, host->depth);
    }
    return RLX_OK;
}

/* Without workers, or not worth handing over: done by the caller. */
static void run_inline(rlx_copy_host *host, rlx_copy_job *job) {
    rlx_copy_chunk chunk = {job, job->request.sequence, 0, job->request.bytes};
    if (chunk.bytes != 0) {
        rlx_status status = move_chunk(host, &chunk, NULL);
        if (status != RLX_OK) rlx_copy_failures_add(&host->failures, chunk.sequence, status);
    }
    atomic_store(&host->published, chunk.sequence);
    end_job(host, job, chunk.sequence);
}

static rlx_status host_issue(rlx_copy_engine *base, const rlx_copy_request *request) {
    rlx_copy_host *host = (rlx_copy_host *)base;
    rlx_copy_job *job = job_of(host, request->sequence);
    bool is_memory = request->source.file == NULL;
    uint64_t chunk_bytes = is_memory ? MEMORY_CHUNK : FILE_CHUNK;
    uint64_t chunks = request->bytes / chunk_bytes + (request->bytes % chunk_bytes != 0);
    RLX_TRY(check_room(host, job, request->sequence));
    if (chunks > CLAIM_COUNT) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "%" PRIu64 " bytes are too many", request->bytes);
    }
    job->request = *request;
    job->chunk_bytes = chunk_bytes;
    job->chunk_count = (uint32_t)chunks;
    if (chunks == 0 || host->worker_count == 0 ||
        (is_memory && request->bytes <= host->inline_bytes)) {
        run_inline(host, job);
        return RLX_OK;
    }
    atomic_store_explicit(&job->unfinished, (uint32_t)chunks, memory_order_relaxed);
    atomic_store_explicit(&job->claim, claim_word(request->sequence, is_memory, (uint32_t)chunks),
                          memory_order_release);
    atomic_store(&host->published, request->sequence);
    ring_bell(host, (uint32_t)chunks);
    return RLX_OK;
}

/* Takes part in the work, as long as there is some. */
static void help(rlx_copy_host *host, uint64_t sequence) {
    rlx_copy_chunk chunk;
    while (claim(host, sequence, true, &chunk)) {
        rlx_copy_host_run(host, &chunk, NULL);
    }
}

/* True when done before the deadline and before it is time to sleep. */
static bool spin_until_done(rlx_copy_host *host, uint64_t sequence, uint64_t deadline) {
    uint64_t start = rlx_now_ns();
    for (;;) {
        uint64_t now;
        for (uint32_t i = 0; i < SPINS_PER_LOOK; ++i) {
            if (is_done(host, sequence)) return true;
            rlx_cpu_relax();
        }
        now = rlx_now_ns();
        if (now - start > SPIN_NS || now >= deadline) return false;
    }
}

static bool sleep_until_done(rlx_copy_host *host, uint64_t sequence, uint64_t deadline) {
    bool done;
    atomic_fetch_add(&host->waiters, 1);
    for (;;) {
        uint32_t seen = atomic_load(&host->ended);
        uint64_t now = rlx_now_ns();
        done = is_done(host, sequence);
        if (done || now >= deadline) break;
        rlx_futex_wait(&host->ended, seen, deadline == UINT64_MAX ? UINT64_MAX : deadline - now);
    }
    atomic_fetch_sub(&host->waiters, 1);
    return done;
}

static rlx_status host_wait(rlx_copy_engine *base, uint64_t sequence, uint64_t timeout_ns) {
    rlx_copy_host *host = (rlx_copy_host *)base;
    uint64_t deadline = UINT64_MAX;
    if (is_done(host, sequence)) return rlx_copy_failures_outcome(&host->failures, sequence);
    if (timeout_ns == UINT64_MAX) {
        help(host, sequence);
    } else {
        uint64_t now = rlx_now_ns();
        if (timeout_ns < UINT64_MAX - now) deadline = now + timeout_ns;
    }
    if (!spin_until_done(host, sequence, deadline) && !sleep_until_done(host, sequence, deadline)) {
        return RLX_TIMEOUT;
    }
    return rlx_copy_failures_outcome(&host->failures, sequence);
}

static bool host_is_done(rlx_copy_engine *base, uint64_t sequence) {
    return is_done((rlx_copy_host *)base, sequence);
}

static void host_set_hooks(rlx_copy_engine *base, const rlx_copy_hooks *hooks) {
    ((rlx_copy_host *)base)->hooks = *hooks;
}

/* Workers leave when nothing is left to claim, and finish what they claimed. */
static void host_destroy(rlx_copy_engine *base) {
    rlx_copy_host *host = (rlx_copy_host *)base;
    rlx_allocator allocator = base->allocator;
    atomic_store(&host->stop, 1);
    ring_bell(host, UINT32_MAX);
    for (uint32_t i = 0; i < host->started; ++i) {
        pthread_join(host->workers[i].thread, NULL);
    }
    for (uint32_t i = 0; host->workers != NULL && i < host->worker_count; ++i) {
        rlx_free(&allocator, host->workers[i].bounce);
    }
    rlx_copy_uring_destroy(&allocator, host->uring);
    rlx_free(&allocator, host->workers);
    rlx_free(&allocator, host->jobs);
    rlx_copy_failures_free(&allocator, &host->failures);
    pthread_mutex_destroy(&base->lock);
    rlx_free(&allocator, host);
}

static const rlx_copy_ops host_ops = {
    .destroy = host_destroy,
    .issue = host_issue,
    .wait = host_wait,
    .is_done = host_is_done,
    .set_hooks = host_set_hooks,
};

static rlx_status start_worker(rlx_copy_host *host, bool needs_bounce) {
    rlx_copy_worker *worker = &host->workers[host->started];
    worker->host = host;
    if (needs_bounce) {
        RLX_TRY(rlx_alloc_aligned(&host->base.allocator, RLX_COPY_BOUNCE_BYTES, RLX_COPY_PAGE,
                                  (void **)&worker->bounce));
    }
    RLX_TRY(rlx_thread_start(&worker->thread,
                             host->uring != NULL ? rlx_copy_uring_body : worker_body, worker));
    host->started++;
    return RLX_OK;
}

static rlx_status allocate_jobs(rlx_copy_host *host) {
    const rlx_allocator *allocator = &host->base.allocator;
    void *memory = NULL;
    RLX_TRY(rlx_alloc_aligned(allocator, host->depth * sizeof *host->jobs, 64, &memory));
    memset(memory, 0, host->depth * sizeof *host->jobs);
    host->jobs = memory;
    return rlx_copy_failures_reserve(allocator, &host->failures, host->depth);
}

/* One thread drives the ring of the kernel; without one, threads read. */
static rlx_status start_workers(rlx_copy_host *host, const rlx_copy_host_config *config) {
    const rlx_allocator *allocator = &host->base.allocator;
    bool needs_bounce = host->may_direct;
    host->worker_count = config->threads;
    if (config->wants_uring) RLX_TRY(rlx_copy_uring_create(allocator, &host->uring));
    if (host->uring != NULL) {
        host->base.name = "file (io_uring)";
        host->worker_count = 1;
        needs_bounce = false; /* it has one per read in flight */
    }
    RLX_TRY(rlx_alloc_array(allocator, host->worker_count, sizeof *host->workers,
                            (void **)&host->workers));
    while (host->started < host->worker_count) {
        RLX_TRY(start_worker(host, needs_bounce));
    }
    return RLX_OK;
}

static rlx_status check_options(const rlx_copy_options *options) {
    if (options->threads > THREADS_MOST || options->depth > DEPTH_MOST) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "copy engine: %" PRIu32 " threads (most %d), depth %" PRIu32 " (most %d)",
                        options->threads, THREADS_MOST, options->depth, DEPTH_MOST);
    }
    if ((options->flags & ~(uint32_t)(RLX_COPY_BUFFERED | RLX_COPY_THREADS)) != 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "copy engine: unknown flags 0x%" PRIx32,
                        options->flags);
    }
    return RLX_OK;
}

rlx_status rlx_copy_host_create(const rlx_allocator *allocator, const rlx_copy_host_config *config,
                                rlx_copy_engine **out_engine) {
    const rlx_copy_options *options = &config->options;
    rlx_copy_host *host = NULL;
    void *memory = NULL;
    rlx_status status;
    if (out_engine == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "copy engine: result is null");
    RLX_TRY(check_options(options));
    RLX_TRY(rlx_alloc_aligned(allocator, sizeof *host, _Alignof(rlx_copy_host), &memory));
    memset(memory, 0, sizeof *host);
    host = memory;
    rlx_copy_engine_init(&host->base, &host_ops, config->name, allocator);
    rlx_copy_failures_init(&host->failures);
    atomic_init(&host->cursor, 1);
    host->depth = options->depth != 0 ? options->depth : DEPTH_DEFAULT;
    host->inline_bytes = config->inline_bytes;
    host->may_direct = config->reads_past_cache && (options->flags & RLX_COPY_BUFFERED) == 0;
    host->forgets = config->reads_past_cache;
    status = allocate_jobs(host);
    if (status == RLX_OK) status = start_workers(host, config);
    if (status != RLX_OK) {
        host_destroy(&host->base);
        return status;
    }
    *out_engine = &host->base;
    return RLX_OK;
}
