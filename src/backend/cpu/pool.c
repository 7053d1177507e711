/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool: see pool.h.
 *
 * A job is open or closed. A worker joins by adding one to the joined count of `state` while the
 * open bit is set, and leaves by taking it back; the caller closes the job when no chunk is left
 * and waits until nobody is joined. So the job's fields change only while nobody can look at them,
 * and a worker that wakes up late finds the door closed and goes back to sleep.
 *
 * Chunks lie in parts, one per thread. Everybody starts with the same part in every job, so that
 * what a thread has written is still in its cache when the next job reads it, and helps the others
 * when its own is done.
 *
 * Crowding. When somebody else wants the processors too, a worker may be put aside in the middle of
 * a chunk, and everybody waits for it: two threads are then slower than one. A thread is put aside
 * when its share of time is used up, so a worker that has run for a while leaves the job between
 * two chunks, lets others run, and comes back with a fresh share; nobody waits for it meanwhile.
 * When one that let the caller wait was put aside all the same, the caller works alone for several
 * times as long as that cost (a housekeeper takes microseconds, somebody who computes takes
 * milliseconds), and twice as long each time that it happens again. A worker that wakes up on the
 * caller's processor moves to another one. Who does the work changes no bit.
 *
 * Sleep. Whom the system puts to sleep it wakes in 5 to 50 us, on a virtual machine in more: as
 * long as a small step takes. So inside a run threads look out for longer than one such step before
 * they sleep, and behind one if the run before it followed as closely; else, and while the caller
 * works alone, only briefly. */
#include "backend/cpu/pool.h"

#include "base/thread.h"

#include <sched.h>

enum {
    SPIN_NS = 20000,           /* how long a thread looks out before it sleeps */
    RUN_SPIN_NS = 100000,      /* the same inside a run */
    ALONE_TIMES = 8,           /* how long the caller works alone after crowding: times its cost */
    ALONE_MOST_NS = 128000000, /* and at most */
    FRESH_NS = 700000,         /* how long a worker works before it lets others run */
    BESIDE_NS = 500000,        /* what a worker on the caller's processor costs, about */
    SPINS_PER_LOOK = 32,       /* pauses between two looks at the clock */
    CHUNKS = 64,               /* of a large job, about */
    PATIENCE = 16,             /* pauses before a thread takes chunks of another */
    FEW_CHUNKS = 8,            /* fewer of them per thread are not cut evenly */
    LEAST_CHUNK_COST = 16384,  /* elementary operations that make a chunk at least */
    MOST_CHUNK_COST = 32768,   /* and at most, where items are that small */
    SHARE_COST = 32768         /* less than this stays on the caller */
};

#define STATE_OPEN    (1u << 31)
#define STATE_WAITING (1u << 30) /* the caller sleeps until the last worker leaves */
#define STATE_JOINED  (STATE_WAITING - 1)

/* Items [next, end) that nobody has claimed. On a cache line of its own. */
typedef struct pool_part {
    _Alignas(64) _Atomic int64_t next;
    int64_t end, chunk;
} pool_part;

struct rlx_pool {
    rlx_allocator allocator;
    uint32_t threads;       /* the caller included */
    pthread_t *workers;     /* owned; threads - 1 */
    uint32_t started;       /* workers that really run */
    _Atomic uint32_t taken; /* 1 while some caller has the workers */
    rlx_pool_crew crew;     /* run != NULL: the caller's own threads instead of workers */

    /* Crowding; written by the caller that has the workers. */
    uint64_t alone_until_ns; /* 0: shared work is allowed */
    uint64_t alone_ns;       /* how long it was alone last */
    uint64_t shared_from_ns; /* when that ended */

    /* Written by the caller while nobody is joined. One cache line. */
    _Alignas(64) rlx_pool_job job;
    uint64_t serial;     /* of the job */
    pool_part *parts;    /* owned; one per thread */
    uint32_t part_count; /* of this job */

    _Alignas(64) _Atomic uint32_t state;
    _Atomic uint32_t numbers;           /* worker numbers handed out in this job */
    _Alignas(64) _Atomic uint32_t bell; /* +1 per job; workers sleep on it */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t stop;
    _Atomic uint32_t runs;    /* that have begun and not ended */
    _Atomic uint32_t steady;  /* 1: they follow each other so closely that nobody need sleep */
    _Atomic uint64_t idle_ns; /* since when there is none */
    _Atomic uint32_t apart;   /* 1 while the caller works alone */
    _Atomic int caller_cpu;   /* where the caller was when the job began */
    _Atomic uint64_t crowded; /* somebody else wants a processor: what that cost, in ns; 0: no */
};

/* True on a thread that is running chunks of some pool. */
static _Thread_local bool is_inside;

/* A worker's own affairs. */
typedef struct worker_state {
    rlx_pool *pool;
    uint64_t put_aside;   /* how often it had lost its processor when it last looked */
    uint64_t fresh_until; /* it lets others run when this is over */
    uint64_t serial;      /* of the job that `number` is of */
    uint32_t number;
} worker_state;

static bool is_fresh(const worker_state *self) {
    return self == NULL || rlx_now_ns() < self->fresh_until;
}

/* units * part / parts, without a product that could be too large. */
static int64_t units_of(int64_t units, int64_t part, int64_t parts) {
    return units / parts * part + units % parts * part / parts;
}

/* Cuts the items into parts of whole chunks. Where chunks are few, five for two threads would let
 * one of them wait for a sixth of the job: parts are equal then, and so are the chunks of
 * a part, none smaller than asked for: every call of a kernel costs as much as hundreds of
 * operations. */
static void open_parts(rlx_pool *pool, const rlx_pool_job *job, uint32_t count) {
    int64_t chunks = (job->items - 1) / job->chunk + 1, begin = 0;
    bool are_few = chunks < FEW_CHUNKS * (int64_t)count;
    int64_t units = are_few ? job->items : chunks, unit = are_few ? 1 : job->chunk;
    pool->part_count = count;
    for (uint32_t i = 0; i < count; i++) {
        pool_part *part = &pool->parts[i];
        int64_t end = i + 1 == count ? job->items : units_of(units, i + 1, count) * unit;
        int64_t whole = are_few ? (end - begin) / job->chunk : 0;
        atomic_store_explicit(&part->next, begin, memory_order_relaxed);
        part->chunk = whole > 0 ? (end - begin - 1) / whole + 1 : job->chunk;
        part->end = begin = end;
    }
}

static bool is_empty(const pool_part *part) {
    return atomic_load_explicit(&part->next, memory_order_relaxed) >= part->end;
}

/* The data of another thread's chunks lies in the cache of its processor: to fetch it, and to fetch
 * it back for the next job, takes longer than a small chunk. So where threads are at work the owner
 * gets a moment to claim what is left. */
static void let_owner_claim(const rlx_pool *pool, const pool_part *part) {
    if ((atomic_load_explicit(&pool->state, memory_order_relaxed) & STATE_JOINED) == 0) return;
    for (uint32_t i = 0; i < PATIENCE && !is_empty(part); i++)
        rlx_cpu_relax();
}

/* The next chunk for a worker, of its own part or of another; false: none is left. `turn` is the
 * part that it is at, counted from its own. */
static bool claim(rlx_pool *pool, uint32_t worker, uint32_t *turn, int64_t *out_begin,
                  int64_t *out_end) {
    while (*turn < pool->part_count) {
        pool_part *part = &pool->parts[(worker + *turn) % pool->part_count];
        int64_t begin = part->end;
        if (!is_empty(part))
            begin = atomic_fetch_add_explicit(&part->next, part->chunk, memory_order_relaxed);
        if (begin < part->end) {
            *out_begin = begin;
            *out_end = part->end - begin < part->chunk ? part->end : begin + part->chunk;
            return true;
        }
        if (++*turn < pool->part_count)
            let_owner_claim(pool, &pool->parts[(worker + *turn) % pool->part_count]);
    }
    return false;
}

/* Claims and runs chunks until none is left, or until `self` (NULL: the caller) is no longer fresh:
 * false. A look at the clock is a tenth of a small chunk, so there is none at the end of a part. */
static bool run_chunks(rlx_pool *pool, const rlx_pool_job *job, uint32_t worker,
                       const worker_state *self) {
    const pool_part *own = &pool->parts[worker % pool->part_count];
    int64_t begin, end;
    uint32_t turn = 0;
    bool is_done = false;
    is_inside = true;
    do {
        is_done = !claim(pool, worker, &turn, &begin, &end);
        if (!is_done) job->run(job->context, worker, begin, end);
    } while (!is_done && ((turn == 0 && is_empty(own)) || is_fresh(self)));
    is_inside = false;
    return is_done;
}

static bool join(rlx_pool *pool) {
    uint32_t state = atomic_load_explicit(&pool->state, memory_order_relaxed);
    while ((state & STATE_OPEN) != 0) {
        if (atomic_compare_exchange_weak_explicit(&pool->state, &state, state + 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/* Two that happen at once need not add up. */
static void note_crowding(rlx_pool *pool, uint64_t cost_ns) {
    if (cost_ns > atomic_load_explicit(&pool->crowded, memory_order_relaxed))
        atomic_store_explicit(&pool->crowded, cost_ns, memory_order_relaxed);
}

static void leave(worker_state *self) {
    rlx_pool *pool = self->pool;
    uint32_t before;
    if ((atomic_load_explicit(&pool->state, memory_order_relaxed) & STATE_WAITING) != 0) {
        uint64_t now = rlx_thread_put_aside();
        if (now != self->put_aside) note_crowding(pool, 1); /* the caller knows how long it waits */
        self->put_aside = now;
    }
    before = atomic_fetch_sub_explicit(&pool->state, 1, memory_order_release);
    if ((before & STATE_JOINED) == 1 && (before & STATE_WAITING) != 0) {
        rlx_futex_wake(&pool->state, 1);
    }
}

/* Lets others run where this thread has run for long. It holds no chunk now. */
static void refresh(worker_state *self) {
    if (is_fresh(self)) return;
    sched_yield();
    self->fresh_until = rlx_now_ns() + FRESH_NS;
    self->put_aside = rlx_thread_put_aside();
}

/* Moves off the caller's processor, where a worker only takes time from it: the system wakes it
 * there now and then, and would move it only after it had stood in the way for long. False: it has
 * to stay. */
static bool keep_clear_of_the_caller(rlx_pool *pool) {
    int here = sched_getcpu();
    if (here < 0 || here != atomic_load_explicit(&pool->caller_cpu, memory_order_relaxed))
        return true;
    if (rlx_thread_leave_cpu(here)) return true;
    note_crowding(pool, BESIDE_NS);
    return false;
}

/* What the caller has just written, line by line: a worker needs one after the other, so it asks
 * for all of them at once. */
static void fetch_job(const worker_state *self) {
    const rlx_pool *pool = self->pool;
    __builtin_prefetch(&pool->state, 1);
    __builtin_prefetch(&pool->job);
    __builtin_prefetch(&pool->parts[self->number], 1);
}

/* Takes part until nothing is left; with pauses, in which the job may end and another one begin. */
static void work(worker_state *self) {
    rlx_pool *pool = self->pool;
    bool is_done = true;
    fetch_job(self);
    do {
        if (!is_done) refresh(self);
        if (!keep_clear_of_the_caller(pool) || !join(pool)) return;
        if (pool->serial != self->serial) {
            self->serial = pool->serial;
            self->number = atomic_fetch_add_explicit(&pool->numbers, 1, memory_order_relaxed);
        }
        is_done = true;
        if (self->number < pool->job.workers) {
            rlx_fp_mode saved = rlx_fp_mode_enter();
            is_done = run_chunks(pool, &pool->job, self->number, self);
            rlx_fp_mode_leave(saved);
        }
        leave(self);
    } while (!is_done);
}

/* How long to look out now. */
static uint64_t lookout_ns(const rlx_pool *pool) {
    bool is_run = atomic_load_explicit(&pool->runs, memory_order_relaxed) != 0 ||
                  atomic_load_explicit(&pool->steady, memory_order_relaxed) != 0;
    return is_run && atomic_load_explicit(&pool->apart, memory_order_relaxed) == 0 ? RUN_SPIN_NS
                                                                                   : SPIN_NS;
}

/* Returns when *word is no longer `seen`, or when it is time to sleep (false). */
static bool spin_while(const rlx_pool *pool, const _Atomic uint32_t *word, uint32_t mask,
                       uint32_t seen) {
    uint64_t start = 0;
    for (;;) {
        for (uint32_t i = 0; i < SPINS_PER_LOOK; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) & mask) != seen) return true;
            rlx_cpu_relax();
        }
        if (start == 0) {
            start = rlx_now_ns();
        } else if (rlx_now_ns() - start > lookout_ns(pool)) {
            return false;
        }
    }
}

static void *worker_body(void *argument) {
    rlx_pool *pool = argument;
    worker_state self = {.pool = pool};
    uint32_t seen = 0;
    while (atomic_load_explicit(&pool->stop, memory_order_acquire) == 0) {
        if (!spin_while(pool, &pool->bell, UINT32_MAX, seen)) {
            atomic_fetch_add(&pool->sleepers, 1);
            /* The bell is looked at once more by the kernel, so no ring is lost. */
            rlx_futex_wait(&pool->bell, seen, UINT64_MAX);
            atomic_fetch_sub(&pool->sleepers, 1);
            self.put_aside = rlx_thread_put_aside();
            self.fresh_until = rlx_now_ns() + FRESH_NS;
        }
        if (atomic_load_explicit(&pool->bell, memory_order_acquire) == seen) continue;
        seen = atomic_load_explicit(&pool->bell, memory_order_acquire);
        work(&self);
    }
    return NULL;
}

static void ring(rlx_pool *pool, uint32_t count) {
    atomic_fetch_add(&pool->bell, 1);
    if (atomic_load(&pool->sleepers) != 0) rlx_futex_wake(&pool->bell, count);
}

/* Closes the job and waits until nobody is joined. */
static void close_job(rlx_pool *pool) {
    uint32_t state = atomic_fetch_and_explicit(&pool->state, ~STATE_OPEN, memory_order_acquire);
    uint32_t joined = state & STATE_JOINED;
    while (joined != 0 && spin_while(pool, &pool->state, STATE_JOINED, joined)) {
        joined = atomic_load_explicit(&pool->state, memory_order_acquire) & STATE_JOINED;
    }
    if (joined == 0) return;
    uint64_t start = rlx_now_ns();
    state = atomic_fetch_or_explicit(&pool->state, STATE_WAITING, memory_order_acquire);
    while ((state & STATE_JOINED) != 0) {
        rlx_futex_wait(&pool->state, state | STATE_WAITING, UINT64_MAX);
        state = atomic_load_explicit(&pool->state, memory_order_acquire);
    }
    atomic_store_explicit(&pool->state, 0, memory_order_relaxed);
    if (atomic_load_explicit(&pool->crowded, memory_order_relaxed) != 0)
        note_crowding(pool, rlx_now_ns() - start);
}

static void run_alone(const rlx_pool_job *job) {
    is_inside = true;
    job->run(job->context, 0, 0, job->items);
    is_inside = false;
}

/* Somebody else wants a processor: longer if the last time was not long ago. */
static void be_alone(rlx_pool *pool) {
    uint64_t now = rlx_now_ns(), cost = atomic_load_explicit(&pool->crowded, memory_order_relaxed);
    bool is_again = now - pool->shared_from_ns < 4 * pool->alone_ns;
    pool->alone_ns = is_again ? 2 * pool->alone_ns : 0;
    if (pool->alone_ns < ALONE_TIMES * cost) pool->alone_ns = ALONE_TIMES * cost;
    if (pool->alone_ns > ALONE_MOST_NS) pool->alone_ns = ALONE_MOST_NS;
    pool->alone_until_ns = pool->shared_from_ns = now + pool->alone_ns;
    atomic_store_explicit(&pool->crowded, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->apart, 1, memory_order_relaxed);
}

/* Still to be alone? The first shared job after that is a trial. */
static bool is_alone(rlx_pool *pool) {
    if (atomic_load_explicit(&pool->crowded, memory_order_relaxed) != 0) be_alone(pool);
    if (pool->alone_until_ns == 0) return false;
    if (rlx_now_ns() < pool->alone_until_ns) return true;
    pool->alone_until_ns = 0;
    atomic_store_explicit(&pool->apart, 0, memory_order_relaxed);
    return false;
}

static void run_shared(rlx_pool *pool, const rlx_pool_job *job) {
    int64_t chunks = (job->items - 1) / job->chunk + 1;
    uint32_t helpers = job->workers - 1 < pool->started ? job->workers - 1 : pool->started;
    if (chunks - 1 < (int64_t)helpers) helpers = (uint32_t)(chunks - 1);
    pool->job = *job;
    pool->serial++;
    open_parts(pool, job, helpers + 1);
    atomic_store_explicit(&pool->caller_cpu, sched_getcpu(), memory_order_relaxed);
    atomic_store_explicit(&pool->numbers, 1, memory_order_relaxed);
    atomic_store_explicit(&pool->state, STATE_OPEN, memory_order_release);
    ring(pool, helpers);
    (void)run_chunks(pool, job, 0, NULL);
    close_job(pool);
}

/* One of the caller's threads; part i is worker i. */
static void crew_part(void *context, uint32_t index) {
    rlx_pool *pool = context;
    rlx_fp_mode saved = rlx_fp_mode_enter();
    (void)run_chunks(pool, &pool->job, index, NULL);
    rlx_fp_mode_leave(saved);
}

static void run_crew(rlx_pool *pool, const rlx_pool_job *job) {
    int64_t chunks = (job->items - 1) / job->chunk + 1;
    uint32_t parts = job->workers < pool->threads ? job->workers : pool->threads;
    if (chunks < (int64_t)parts) parts = (uint32_t)chunks;
    pool->job = *job;
    open_parts(pool, job, parts);
    pool->crew.run(pool->crew.user, parts, crew_part, pool);
    (void)run_chunks(pool, job, 0, NULL); /* what a crew that ran only some parts has left */
}

void rlx_pool_begin(rlx_pool *pool) {
    if (pool->threads == 1) return;
    uint64_t idle = rlx_now_ns() - atomic_load_explicit(&pool->idle_ns, memory_order_relaxed);
    atomic_store_explicit(&pool->steady, idle < RUN_SPIN_NS, memory_order_relaxed);
    atomic_fetch_add_explicit(&pool->runs, 1, memory_order_relaxed);
}

void rlx_pool_end(rlx_pool *pool) {
    if (pool->threads == 1) return;
    atomic_store_explicit(&pool->idle_ns, rlx_now_ns(), memory_order_relaxed);
    atomic_fetch_sub_explicit(&pool->runs, 1, memory_order_relaxed);
}

rlx_status rlx_pool_run(rlx_pool *pool, const rlx_pool_job *job) {
    uint32_t free = 0;
    if (is_inside) return RLX_FAIL(RLX_BUSY, "the thread pool is used from inside a kernel");
    if (job->items <= 0) return RLX_OK;
    if (pool->threads == 1 || job->workers <= 1 || job->items <= job->chunk ||
        !atomic_compare_exchange_strong_explicit(&pool->taken, &free, 1, memory_order_acquire,
                                                 memory_order_relaxed)) {
        run_alone(job);
        return RLX_OK;
    }
    if (pool->crew.run != NULL) {
        run_crew(pool, job);
    } else if (is_alone(pool)) {
        run_alone(job);
    } else {
        run_shared(pool, job);
    }
    atomic_store_explicit(&pool->taken, 0, memory_order_release);
    return RLX_OK;
}

static rlx_status make_pool(const rlx_allocator *allocator, uint32_t threads, rlx_pool **out_pool) {
    void *memory = NULL;
    if (allocator == NULL) allocator = rlx_default_allocator();
    RLX_TRY(rlx_alloc_aligned(allocator, sizeof **out_pool, _Alignof(rlx_pool), &memory));
    rlx_pool *pool = memory;
    *pool = (rlx_pool){.allocator = *allocator, .threads = threads == 0 ? 1 : threads};
    rlx_status status = rlx_alloc_aligned(allocator, pool->threads * sizeof *pool->parts,
                                          _Alignof(pool_part), &memory);
    if (status != RLX_OK) {
        rlx_free(allocator, pool);
        return status;
    }
    pool->parts = memory;
    *out_pool = pool;
    return RLX_OK;
}

rlx_status rlx_pool_create_crew(const rlx_allocator *allocator, uint32_t threads,
                                const rlx_pool_crew *crew, rlx_pool **out_pool) {
    RLX_TRY(make_pool(allocator, threads, out_pool));
    (*out_pool)->crew = *crew;
    return RLX_OK;
}

rlx_status rlx_pool_create(const rlx_allocator *allocator, uint32_t threads, rlx_pool **out_pool) {
    rlx_pool *pool = NULL;
    rlx_status status;
    if (allocator == NULL) allocator = rlx_default_allocator();
    RLX_TRY(make_pool(allocator, threads, &pool));
    status = rlx_alloc_array(allocator, pool->threads - 1, sizeof *pool->workers,
                             (void **)&pool->workers);
    while (status == RLX_OK && pool->started < pool->threads - 1) {
        status = rlx_thread_start(&pool->workers[pool->started], worker_body, pool);
        if (status == RLX_OK) pool->started++;
    }
    if (status != RLX_OK) {
        rlx_pool_destroy(pool);
        return status;
    }
    *out_pool = pool;
    return RLX_OK;
}

void rlx_pool_destroy(rlx_pool *pool) {
    rlx_allocator allocator;
    if (pool == NULL) return;
    allocator = pool->allocator;
    atomic_store_explicit(&pool->stop, 1, memory_order_release);
    atomic_fetch_add(&pool->bell, 1);
    rlx_futex_wake(&pool->bell, UINT32_MAX);
    for (uint32_t i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i], NULL);
    rlx_free(&allocator, pool->workers);
    rlx_free(&allocator, pool->parts);
    rlx_free(&allocator, pool);
}

uint32_t rlx_pool_threads(const rlx_pool *pool) {
    return pool->threads;
}

int64_t rlx_pool_chunk(int64_t items, int64_t item_cost) {
    int64_t cost = item_cost < 1 ? 1 : item_cost;
    int64_t all = items > INT64_MAX / cost ? INT64_MAX : items * cost, piece = all / CHUNKS;
    if (piece < LEAST_CHUNK_COST) piece = LEAST_CHUNK_COST;
    if (piece > MOST_CHUNK_COST) piece = MOST_CHUNK_COST;
    int64_t chunk = piece / cost < 1 ? 1 : piece / cost;
    return chunk < items ? chunk : (items < 1 ? 1 : items);
}

bool rlx_pool_is_worth(int64_t items, int64_t item_cost) {
    if (items < 2) return false;
    return item_cost > SHARE_COST || items > SHARE_COST / (item_cost < 1 ? 1 : item_cost);
}
