/* SPDX-License-Identifier: Apache-2.0 */
/* The io_uring side of the `file` engine: a worker body that keeps several reads in flight. By raw
 * system calls; nobody else knows the kernel's rings. */
#ifndef RLX_DRIVER_COPY_URING_H
#define RLX_DRIVER_COPY_URING_H

#include "driver/copy_host.h"

typedef struct rlx_copy_uring rlx_copy_uring;

/* *out_uring is NULL, and the status RLX_OK, where the kernel has no io_uring or forbids it. */
RLX_WARN_UNUSED rlx_status rlx_copy_uring_create(const rlx_allocator *allocator,
                                                 rlx_copy_uring **out_uring);
void rlx_copy_uring_destroy(const rlx_allocator *allocator, rlx_copy_uring *uring); /* NULL: fine */

/* The body of the engine's one worker; `argument` is its rlx_copy_worker. */
void *rlx_copy_uring_body(void *argument);

#endif
