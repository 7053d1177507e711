/* SPDX-License-Identifier: Apache-2.0 */
/* How copies that failed ended: what an engine remembers of them until somebody waits. Kept by the
 * engines that work on other threads; knows no engine. */
#ifndef RLX_DRIVER_COPY_FAILURES_H
#define RLX_DRIVER_COPY_FAILURES_H

#include "base/status.h"
#include "base/thread.h"

#include <rlx/base.h>

enum { RLX_COPY_FAILURES_KEPT = 32 };

typedef struct rlx_copy_failure {
    uint64_t sequence;
    rlx_status status;
    rlx_error_record record;
} rlx_copy_failure;

typedef struct rlx_copy_failures {
    pthread_mutex_t lock;
    rlx_copy_failure *items; /* owned; RLX_COPY_FAILURES_KEPT + depth */
    _Atomic uint32_t count;
} rlx_copy_failures;

/* Zeroed before; room for every job in flight is made apart. */
void rlx_copy_failures_init(rlx_copy_failures *failures);
RLX_WARN_UNUSED rlx_status rlx_copy_failures_reserve(const rlx_allocator *allocator,
                                                     rlx_copy_failures *failures, uint32_t depth);
void rlx_copy_failures_free(const rlx_allocator *allocator, rlx_copy_failures *failures);
/* Notes this thread's error, once per sequence: the first cause stays. */
void rlx_copy_failures_add(rlx_copy_failures *failures, uint64_t sequence, rlx_status status);
/* How a finished sequence ended; its cause becomes this thread's error. */
RLX_WARN_UNUSED rlx_status rlx_copy_failures_outcome(rlx_copy_failures *failures,
                                                     uint64_t sequence);
/* RLX_OK while another copy may be issued; else the first failure. */
RLX_WARN_UNUSED rlx_status rlx_copy_failures_check(rlx_copy_failures *failures);

#endif
