/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool: see pool.h.
 *
 * A line of memory that another processor has written takes 60 to 130 ns to come over, a small step
 * one or two thousand, so next to nothing is shared. The caller posts a job in one line, which
 * workers watch; every thread has a line for claims on its part of the chunks, and one where it
 * counts the items that it has done. Claims name their job and counts only grow: nothing is reset,
 * and a job that goes well moves two lines per worker. The caller returns when the counts say that
 * all items are done. A claim succeeds only in a job that is not done, so a worker that comes late,
 * with a job that it read long ago, gets nothing and harms nothing.
 *
 * Everybody has the same part in every job, so that what a thread has written is still in its cache
 * when the next job reads it, and helps the others when its own is done.
 *
 * Crowding. When somebody else wants the processors too, a worker may be put aside in the middle of
 * a chunk, and everybody waits for it: two threads are then slower than one. A thread is put aside
 * when its share of time is used up, so a worker that has run for a while stops between
 * two chunks, lets others run, and comes back with a fresh share; nobody waits for it meanwhile.
 * When one that let the caller wait was put aside all the same, the caller works alone for several
 * times as long as that cost (a housekeeper takes microseconds, somebody who computes takes
 * milliseconds), and twice as long each time that it happens again. A worker that wakes up on the
 * caller's processor moves to another one. Who does the work changes no bit.
 *
 * Sleep. Whom the system puts to sleep it wakes in 5 to 50 us, on a virtual machine in more: as
 * long as a small step takes. So inside a run threads look out for longer than one such step before
 * they sleep, and behind one if the run before it followed as closely; else, and while the caller
 * works alone, only briefly. A worker that has been woken and not come yet is not waited for; where
 * that takes long, it may be waiting for the caller's own processor, and is moved off it. */
#include "backend/cpu/pool.h"

#include "base/thread.h"

#include <sched.h>

enum {
    SPIN_NS = 20000,           /* how long a thread looks out before it sleeps */
    RUN_SPIN_NS = 100000,      /* the same inside a run */
    ALONE_TIMES = 8,           /* how long the caller works alone after crowding: times its cost */
    ALONE_MOST_NS = 128000000, /* and at most */
    FRESH_NS = 700000,         /* how long a worker works before it lets others run */
    LATE_NS = 30000,           /* how long a worker that is woken may take before it is moved */
    BESIDE_NS = 500000,        /* what a worker on the caller's processor costs, about */
    SPINS_PER_LOOK = 32,       /* pauses between two looks at the clock */
    CHUNKS = 64,               /* of a large job, about */
    PATIENCE = 64,             /* pauses before a thread takes chunks of another */
    FEW_CHUNKS = 8,            /* fewer of them per thread are not cut evenly */
    ONE_CALL = 4,              /* so many of several items each are one chunk */
    LEAST_CHUNK_COST = 16384,  /* elementary operations that make a chunk at least */
    MOST_CHUNK_COST = 32768,   /* and at most, where items are that small */
    SHARE_COST = 32768,        /* less than this stays on the caller */
    CLAIM_BITS = 16,           /* of a claim word: how many chunks; above them the job */
    MOST_CLAIMS = 60000,       /* chunks of a part */
    APART = 128                /* bytes: processors fetch two lines at a time */
};

/* A job and how it is cut. */
typedef struct pool_task {
    rlx_pool_fn run;
    void *context;
    uint64_t serial;
    int64_t items, chunk;
    int64_t part; /* items of a part; the last ones may have fewer */
    uint32_t parts;
    int caller_cpu; /* where the caller was when the job began */
} pool_task;

/* The same in one line for everybody to read, while the caller may be about to write the next. */
typedef struct pool_post {
    _Alignas(APART) _Atomic uint64_t serial; /* written last, */
    _Atomic uint64_t begun;                  /* and first */
    _Atomic(rlx_pool_fn) run;
    _Atomic(void *) context;
    _Atomic int64_t items, chunk, part;
    _Atomic uint32_t parts;
    _Atomic int caller_cpu;
} pool_post;

/* A thread; the first one is the caller. */
typedef struct pool_seat {
    _Alignas(APART) _Atomic uint64_t claims; /* on its part: the job, and how many chunks */
    _Alignas(APART) _Atomic int64_t done;    /* items that it has done, ever; not the caller's */
    _Alignas(APART) _Atomic uint32_t asleep; /* 1: it sleeps on this word, or is about to */
    _Atomic int32_t number;                  /* the system's, of a worker */
    int64_t counted;                         /* `done` after the last job; the caller's */
    uint64_t called_ns; /* since when it is awaited from its sleep; 0: it is there; the caller's */
    bool is_moved;      /* it took long, and was moved off the caller's processor */
    rlx_pool *pool;
    pthread_t thread;
} pool_seat;

struct rlx_pool {
    rlx_allocator allocator;
    uint32_t threads;   /* the caller included */
    uint32_t started;   /* workers that really run */
    pool_seat *seats;   /* owned; one per thread */
    rlx_pool_crew crew; /* run != NULL: the caller's own threads instead of workers */

    /* Written by the caller that has the workers. */
    _Alignas(APART) _Atomic uint32_t taken; /* 1 while there is one */
    uint64_t serial;                        /* of the last job */
    uint64_t alone_until_ns;                /* 0: shared work is allowed */
    uint64_t alone_ns;                      /* how long it was alone last */
    uint64_t shared_from_ns;                /* when that ended */

    pool_post post;

    _Alignas(APART) _Atomic uint32_t waiting; /* 1: the caller sleeps until workers are done */
    _Atomic uint32_t stop;
    _Atomic uint32_t runs;    /* that have begun and not ended */
    _Atomic uint32_t steady;  /* 1: they follow each other so closely that nobody need sleep */
    _Atomic uint64_t idle_ns; /* since when there is none */
    _Atomic uint32_t apart;   /* 1 while the caller works alone */
    _Atomic uint64_t crowded; /* somebody else wants a processor: what that cost, in ns; 0: no */
};

/* True on a thread that is running chunks of some pool. */
static _Thread_local bool is_inside;

/* A worker's own affairs. */
typedef struct worker_state {
    rlx_pool *pool;
    pool_seat *seat;
    uint32_t number;
    uint64_t put_aside;   /* how often it had lost its processor when it last looked */
    uint64_t fresh_until; /* it lets others run when this is over */
} worker_state;

static bool is_fresh(const worker_state *self) {
    return rlx_now_ns() < self->fresh_until;
}

/* Cuts the items into equal parts of whole chunks. Where chunks are few, five for two threads would
 * let one of them wait for a sixth of the job: parts are cut between items then, and into equal
 * chunks, none smaller than asked for: every call of a kernel costs as much as hundreds of
 * operations. A part that takes microseconds is one chunk: it is over before somebody could help.
 */
static pool_task cut(const rlx_pool_job *job, uint32_t most) {
    int64_t chunks = (job->items - 1) / job->chunk + 1, chunk = job->chunk, part;
    uint32_t parts = chunks < (int64_t)most ? (uint32_t)chunks : most;
    if (chunks < FEW_CHUNKS * (int64_t)parts) {
        part = (job->items - 1) / parts + 1;
        bool is_one = chunk > 1 && (part - 1) / ONE_CALL < chunk;
        chunk = is_one ? part : (part - 1) / (part / chunk) + 1;
    } else {
        part = ((chunks - 1) / parts + 1) * chunk;
        if (part / chunk > MOST_CLAIMS) chunk = part / MOST_CLAIMS + 1;
    }
    return (pool_task){.run = job->run,
                       .context = job->context,
                       .items = job->items,
                       .chunk = chunk,
                       .part = part,
                       .parts = parts};
}

static int64_t end_of(const pool_task *task, uint32_t part) {
    int64_t end = (part + 1) * task->part;
    return end < task->items ? end : task->items;
}

/* Claims the next chunk of a part; false: none is left, or the job is over. */
static bool claim(rlx_pool *pool, const pool_task *task, uint32_t part, int64_t *out_begin,
                  int64_t *out_end) {
    _Atomic uint64_t *claims = &pool->seats[part].claims;
    uint64_t seen = atomic_load_explicit(claims, memory_order_relaxed), none, next;
    int64_t first = part * task->part, end = end_of(task, part), begin;
    none = task->serial << CLAIM_BITS;
    do {
        next = seen < none ? none : seen; /* of an earlier job: nothing is claimed in this one */
        if (next >> CLAIM_BITS != task->serial) return false;
        begin = first + (int64_t)(next - none) * task->chunk;
        if (begin >= end) return false;
    } while (!atomic_compare_exchange_weak_explicit(claims, &seen, next + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    *out_begin = begin;
    *out_end = end - begin < task->chunk ? end : begin + task->chunk;
    return true;
}

static int64_t run_chunk(const pool_task *task, uint32_t worker, int64_t begin, int64_t end) {
    is_inside = true;
    task->run(task->context, worker, begin, end);
    is_inside = false;
    return end - begin;
}

/* Two that happen at once need not add up. */
static void note_crowding(rlx_pool *pool, uint64_t cost_ns) {
    if (cost_ns > atomic_load_explicit(&pool->crowded, memory_order_relaxed))
        atomic_store_explicit(&pool->crowded, cost_ns, memory_order_relaxed);
}

/* Tells the caller that so many items more are done. */
static void hand_in(worker_state *self, int64_t items) {
    rlx_pool *pool = self->pool;
    if (items == 0) return;
    if (atomic_load_explicit(&pool->waiting, memory_order_relaxed) != 0) {
        uint64_t now = rlx_thread_put_aside();
        if (now != self->put_aside) note_crowding(pool, 1); /* the caller knows how long it waits */
        self->put_aside = now;
    }
    items += atomic_load_explicit(&self->seat->done, memory_order_relaxed);
    atomic_store(&self->seat->done, items);
    if (atomic_load(&pool->waiting) != 0 && atomic_exchange(&pool->waiting, 0) != 0)
        rlx_futex_wake(&pool->waiting, 1);
}

/* Lets others run where this thread has run for long. It holds no chunk now. */
static void refresh(worker_state *self) {
    sched_yield();
    self->fresh_until = rlx_now_ns() + FRESH_NS;
    self->put_aside = rlx_thread_put_aside();
}

/* Moves off the caller's processor, where a worker only takes time from it: the system wakes it
 * there now and then, and would move it only after it had stood in the way for long. False: it has
 * to stay. */
static bool keep_clear_of_the_caller(rlx_pool *pool, int caller_cpu) {
    int here = sched_getcpu();
    if (here < 0 || here != caller_cpu) return true;
    if (rlx_thread_leave_cpu(0, here)) return true;
    note_crowding(pool, BESIDE_NS);
    return false;
}

/* Runs chunks of a part until none is left. A look at the clock is a tenth of a small chunk, so
 * there is none before the first and behind the last one. False: it should not go on. */
static bool work_on(worker_state *self, const pool_task *task, uint32_t part) {
    int64_t begin, end, done = 0;
    while (claim(self->pool, task, part, &begin, &end)) {
        done += run_chunk(task, self->number, begin, end);
        if ((part == self->number && end == end_of(task, part)) || is_fresh(self)) continue;
        hand_in(self, done);
        done = 0;
        refresh(self);
        if (!keep_clear_of_the_caller(self->pool, task->caller_cpu)) return false;
    }
    hand_in(self, done);
    return true;
}

static uint64_t serial_of(const rlx_pool *pool) {
    return atomic_load_explicit(&pool->post.serial, memory_order_acquire);
}

/* What is posted. It may be over already: then no claim succeeds. Where some of it is of the next
 * job, which says so before it writes anything else, there is nothing to do: parts of a job that
 * nobody has claimed from still have the claims of the one before. */
static pool_task read_post(const pool_post *post) {
    pool_task task = {.serial = atomic_load_explicit(&post->serial, memory_order_acquire)};
    task.run = atomic_load_explicit(&post->run, memory_order_acquire);
    task.context = atomic_load_explicit(&post->context, memory_order_acquire);
    task.items = atomic_load_explicit(&post->items, memory_order_acquire);
    task.chunk = atomic_load_explicit(&post->chunk, memory_order_acquire);
    task.part = atomic_load_explicit(&post->part, memory_order_acquire);
    task.parts = atomic_load_explicit(&post->parts, memory_order_acquire);
    task.caller_cpu = atomic_load_explicit(&post->caller_cpu, memory_order_acquire);
    if (atomic_load_explicit(&post->begun, memory_order_acquire) != task.serial) task.parts = 0;
    return task;
}

static void write_post(pool_post *post, const pool_task *task) {
    atomic_store_explicit(&post->begun, task->serial, memory_order_relaxed);
    atomic_store_explicit(&post->run, task->run, memory_order_release);
    atomic_store_explicit(&post->context, task->context, memory_order_release);
    atomic_store_explicit(&post->items, task->items, memory_order_release);
    atomic_store_explicit(&post->chunk, task->chunk, memory_order_release);
    atomic_store_explicit(&post->part, task->part, memory_order_release);
    atomic_store_explicit(&post->parts, task->parts, memory_order_release);
    atomic_store_explicit(&post->caller_cpu, task->caller_cpu, memory_order_release);
    atomic_store_explicit(&post->serial, task->serial, memory_order_release);
}

/* Takes part in the job that is posted, first with its own part. The data of another thread's
 * chunks lies in the cache of its processor: to fetch it, and to fetch it back for the next job,
 * takes longer than a small chunk. So the owner gets a moment to claim what is left; mostly the
 * next job comes meanwhile. */
static uint64_t work(worker_state *self) {
    rlx_pool *pool = self->pool;
    pool_task task = read_post(&pool->post);
    if (self->number >= task.parts || !keep_clear_of_the_caller(pool, task.caller_cpu))
        return task.serial;
    __builtin_prefetch(&self->seat->done, 1);
    for (uint32_t turn = 0; turn < task.parts; turn++) {
        for (uint32_t i = 0; turn == 1 && i < PATIENCE; i++) {
            if (serial_of(pool) != task.serial) return task.serial;
            rlx_cpu_relax();
        }
        if (!work_on(self, &task, (self->number + turn) % task.parts)) break;
    }
    return task.serial;
}

/* How long to look out now. */
static uint64_t lookout_ns(const rlx_pool *pool) {
    bool is_run = atomic_load_explicit(&pool->runs, memory_order_relaxed) != 0 ||
                  atomic_load_explicit(&pool->steady, memory_order_relaxed) != 0;
    return is_run && atomic_load_explicit(&pool->apart, memory_order_relaxed) == 0 ? RUN_SPIN_NS
                                                                                   : SPIN_NS;
}

/* A moment's pause between two looks at something; false: it is time to sleep. */
typedef struct lookout {
    uint64_t start_ns;
    uint32_t looks;
} lookout;
static bool look_on(const rlx_pool *pool, lookout *self) {
    rlx_cpu_relax();
    if (++self->looks % SPINS_PER_LOOK != 0) return true;
    uint64_t now = rlx_now_ns();
    if (self->start_ns == 0) self->start_ns = now;
    return now - self->start_ns <= lookout_ns(pool);
}

/* Sleeps until it is woken for another job than `seen`. Whoever comes second to the word `asleep`,
 * this thread or the caller, sees what the other one did before. */
static void sleep_on(worker_state *self, uint64_t seen) {
    _Atomic uint32_t *asleep = &self->seat->asleep;
    atomic_exchange_explicit(asleep, 1, memory_order_acq_rel);
    while (serial_of(self->pool) == seen && atomic_load_explicit(asleep, memory_order_acquire) != 0)
        rlx_futex_wait(asleep, 1, UINT64_MAX);
    atomic_exchange_explicit(asleep, 0, memory_order_acq_rel);
    self->put_aside = rlx_thread_put_aside();
    self->fresh_until = rlx_now_ns() + FRESH_NS;
}

static void *worker_body(void *argument) {
    pool_seat *seat = argument;
    rlx_pool *pool = seat->pool;
    worker_state self = {.pool = pool, .seat = seat, .number = (uint32_t)(seat - pool->seats)};
    uint64_t seen = 0;
    (void)rlx_fp_mode_enter();
    atomic_store_explicit(&seat->number, rlx_thread_number(), memory_order_relaxed);
    while (atomic_load_explicit(&pool->stop, memory_order_acquire) == 0) {
        lookout spin = {0};
        while (serial_of(pool) == seen && look_on(pool, &spin)) {
        }
        if (serial_of(pool) == seen) sleep_on(&self, seen);
        if (serial_of(pool) != seen) seen = work(&self);
    }
    return NULL;
}

static void wake(pool_seat *seat) {
    if (atomic_exchange_explicit(&seat->asleep, 0, memory_order_acq_rel) == 0) return;
    rlx_futex_wake(&seat->asleep, 1);
    seat->called_ns = rlx_now_ns();
    seat->is_moved = false;
}

/* Whether a worker has been woken and has done nothing yet. One that has not come for long may have
 * been put on the caller's own processor, where it waits until the caller sleeps. */
static bool is_awaited(pool_seat *seat) {
    if (seat->called_ns == 0) return false;
    if (!seat->is_moved && rlx_now_ns() - seat->called_ns > LATE_NS) {
        int32_t number = atomic_load_explicit(&seat->number, memory_order_relaxed);
        if (number != 0) (void)rlx_thread_leave_cpu(number, sched_getcpu());
        seat->is_moved = true;
    }
    return true;
}

/* Whether all items are done, `mine` of them by the caller. */
static bool is_done(const rlx_pool *pool, const pool_task *task, int64_t mine) {
    for (uint32_t i = 1; i < task->parts; i++)
        mine += atomic_load(&pool->seats[i].done) - pool->seats[i].counted;
    return mine == task->items;
}

/* Until all is done; nobody has chunks to claim any more. */
static void wait_for_workers(rlx_pool *pool, const pool_task *task, int64_t mine) {
    lookout spin = {0};
    while (!is_done(pool, task, mine)) {
        if (look_on(pool, &spin)) continue;
        uint64_t start = rlx_now_ns();
        for (atomic_store(&pool->waiting, 1); !is_done(pool, task, mine);
             atomic_store(&pool->waiting, 1))
            rlx_futex_wait(&pool->waiting, 1, UINT64_MAX);
        atomic_store(&pool->waiting, 0);
        if (atomic_load_explicit(&pool->crowded, memory_order_relaxed) != 0)
            note_crowding(pool, rlx_now_ns() - start);
    }
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

/* The caller's own part, whose first chunk it has. */
static int64_t run_own_part(rlx_pool *pool, const pool_task *task) {
    int64_t begin, end, done = run_chunk(task, 0, 0, task->chunk);
    /* Who fell asleep while the job was posted. */
    for (uint32_t i = 1; i < task->parts; i++)
        wake(&pool->seats[i]);
    while (claim(pool, task, 0, &begin, &end))
        done += run_chunk(task, 0, begin, end);
    return done;
}

/* What others have not claimed when they have had a moment for it, those who are there; returns how
 * many items. */
static int64_t help(rlx_pool *pool, const pool_task *task, int64_t mine) {
    int64_t begin, end, done = 0;
    uint32_t there = 0;
    for (uint32_t i = 1; i < task->parts; i++)
        there += !is_awaited(&pool->seats[i]);
    for (uint32_t i = 0; i < PATIENCE && there > 0; i++) {
        if (is_done(pool, task, mine)) return 0;
        rlx_cpu_relax();
    }
    for (uint32_t part = 1; part < task->parts; part++) {
        while (claim(pool, task, part, &begin, &end))
            done += run_chunk(task, 0, begin, end);
    }
    return done;
}

/* What a worker has done so far, at the end of a job. */
static void count(pool_seat *seat) {
    int64_t done = atomic_load_explicit(&seat->done, memory_order_relaxed);
    if (done != seat->counted) seat->called_ns = 0;
    seat->counted = done;
}

/* The caller has its first chunk before anybody knows of the job, and does not look whether all of
 * it is written before it begins with that one. */
static void run_shared(rlx_pool *pool, const rlx_pool_job *job) {
    uint32_t helpers = job->workers - 1 < pool->started ? job->workers - 1 : pool->started;
    pool_task task = cut(job, helpers + 1);
    task.serial = ++pool->serial;
    task.caller_cpu = sched_getcpu();
    atomic_store_explicit(&pool->seats->claims, (task.serial << CLAIM_BITS) + 1,
                          memory_order_relaxed);
    write_post(&pool->post, &task);
    for (uint32_t i = 1; i < task.parts; i++) {
        if (atomic_load_explicit(&pool->seats[i].asleep, memory_order_relaxed) != 0)
            wake(&pool->seats[i]);
    }
    int64_t mine = run_own_part(pool, &task);
    mine += help(pool, &task, mine);
    wait_for_workers(pool, &task, mine);
    for (uint32_t i = 1; i < task.parts; i++)
        count(&pool->seats[i]);
}

typedef struct crew_job {
    rlx_pool *pool;
    pool_task task;
} crew_job;

/* One of the caller's threads; part i is worker i. */
static void crew_part(void *context, uint32_t index) {
    const crew_job *self = context;
    int64_t begin, end;
    rlx_fp_mode saved = rlx_fp_mode_enter();
    for (uint32_t turn = 0; turn < self->task.parts; turn++) {
        while (claim(self->pool, &self->task, (index + turn) % self->task.parts, &begin, &end))
            (void)run_chunk(&self->task, index, begin, end);
    }
    rlx_fp_mode_leave(saved);
}

static void run_crew(rlx_pool *pool, const rlx_pool_job *job) {
    uint32_t most = job->workers < pool->threads ? job->workers : pool->threads;
    crew_job crew = {pool, cut(job, most)};
    crew.task.serial = ++pool->serial;
    pool->crew.run(pool->crew.user, crew.task.parts, crew_part, &crew);
    crew_part(&crew, 0); /* what a crew that ran only some parts has left */
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
    rlx_status status = rlx_alloc_aligned(allocator, pool->threads * sizeof *pool->seats,
                                          _Alignof(pool_seat), &memory);
    if (status != RLX_OK) {
        rlx_free(allocator, pool);
        return status;
    }
    pool->seats = memory;
    for (uint32_t i = 0; i < pool->threads; i++)
        pool->seats[i] = (pool_seat){.pool = pool};
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
    rlx_status status = RLX_OK;
    RLX_TRY(make_pool(allocator, threads, &pool));
    while (status == RLX_OK && pool->started < pool->threads - 1) {
        pool_seat *seat = &pool->seats[pool->started + 1];
        status = rlx_thread_start(&seat->thread, worker_body, seat);
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
    /* A job without parts. */
    write_post(&pool->post, &(pool_task){.serial = pool->serial + 1});
    for (uint32_t i = 1; i <= pool->started; i++) {
        wake(&pool->seats[i]);
        pthread_join(pool->seats[i].thread, NULL);
    }
    rlx_free(&allocator, pool->seats);
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
