/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, futex-style waiting, clocks and CPU facts; the only file pair that knows pthreads and
 * cgroups. Atomics are C11's. */
#ifndef RLX_BASE_THREAD_H
#define RLX_BASE_THREAD_H

#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>

/* A joinable thread with signals blocked. */
RLX_WARN_UNUSED rlx_status rlx_thread_start(pthread_t *out_thread, void *(*body)(void *),
                                            void *argument);

/* Sleeps while *word == expected, at most timeout_ns (UINT64_MAX: no limit). May wake early. */
void rlx_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns);
void rlx_futex_wake(_Atomic uint32_t *word, uint32_t count);
/* The same for a word that several processes have mapped. */
void rlx_futex_wait_shared(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns);
void rlx_futex_wake_shared(_Atomic uint32_t *word, uint32_t count);

/* The system's number of the calling thread, and whether the thread of this process that had a
 * number has ended. */
int32_t rlx_thread_number(void);
bool rlx_thread_has_ended(int32_t number);

void rlx_cpu_relax(void);
uint64_t rlx_now_ns(void); /* monotonic */

/* How many threads this process may really use: affinity mask, and the container's CPU quota
 * (cgroup v1 and v2) rounded down; at least 1. */
uint32_t rlx_cpu_count(void);

/* How often the system took the processor away from this thread while it wanted to go on. */
uint64_t rlx_thread_put_aside(void);

/* Moves a thread of this process (0: the calling one) to another processor than `cpu`, if its
 * affinity allows one; the affinity stays as it was. One that waits for a processor waits for
 * another one then. */
bool rlx_thread_leave_cpu(int32_t number, int cpu);

/* The floating-point environment: save, set the default (nearest, no flush to zero, no traps),
 * restore. */
typedef struct rlx_fp_mode {
    uint64_t bits;
} rlx_fp_mode;
rlx_fp_mode rlx_fp_mode_enter(void);
void rlx_fp_mode_leave(rlx_fp_mode saved);

#endif
