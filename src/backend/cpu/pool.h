/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool of a CPU device. Workers persist and sleep when idle; the caller works too. Work
 * is cut by shape, never by the number of threads, and chunks are claimed by an atomic counter, so
 * any number of threads gives the same bits.
 *
 * One job has the workers at a time. A second executable that comes meanwhile does its step alone
 * on its own thread instead of waiting: executables run side by side and the machine is never
 * overbooked. Where others want the processors too, the caller works alone for a while (pool.c). */
#ifndef RLX_BACKEND_CPU_POOL_H
#define RLX_BACKEND_CPU_POOL_H

#include "base/alloc.h"

typedef struct rlx_pool rlx_pool;

/* Does items [begin, end) as worker `worker` (0: the caller). */
typedef void (*rlx_pool_fn)(void *context, uint32_t worker, int64_t begin, int64_t end);

typedef struct rlx_pool_job {
    rlx_pool_fn run;
    void *context;
    int64_t items, chunk; /* chunk >= 1 */
    uint32_t workers;     /* at most so many take part, the caller included; at least 1 */
} rlx_pool_job;

/* Threads of the caller's own: calls part(context, i) once for every i < count, on any threads and
 * in any order, and returns when all those calls have returned. */
typedef struct rlx_pool_crew {
    void (*run)(void *user, uint32_t count, void (*part)(void *context, uint32_t index),
                void *context);
    void *user;
} rlx_pool_crew;

/* A pool that makes no threads: shared work goes to the crew, `threads` parts at most. */
RLX_WARN_UNUSED rlx_status rlx_pool_create_crew(const rlx_allocator *allocator, uint32_t threads,
                                                const rlx_pool_crew *crew, rlx_pool **out_pool);

/* `threads` counts the caller: 1 makes a pool without workers. */
RLX_WARN_UNUSED rlx_status rlx_pool_create(const rlx_allocator *allocator, uint32_t threads,
                                           rlx_pool **out_pool);
void rlx_pool_destroy(rlx_pool *pool); /* NULL is fine; no job may be running */
uint32_t rlx_pool_threads(const rlx_pool *pool);

/* Runs every chunk and returns when all are done. Workers run with the default floating-point mode;
 * the caller's mode is its own affair. RLX_BUSY from inside a job: no nesting. Allocates nothing.
 */
RLX_WARN_UNUSED rlx_status rlx_pool_run(rlx_pool *pool, const rlx_pool_job *job);

/* Around a run of several jobs with little between them: meanwhile workers look out for the next
 * job a little longer before they sleep. */
void rlx_pool_begin(rlx_pool *pool);
void rlx_pool_end(rlx_pool *pool);

/* How many items make a chunk when one item costs about `item_cost` elementary operations. */
int64_t rlx_pool_chunk(int64_t items, int64_t item_cost);
/* Whether `items` of that cost are worth waking anybody. */
bool rlx_pool_is_worth(int64_t items, int64_t item_cost);

#endif
