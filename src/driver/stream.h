/* SPDX-License-Identifier: Apache-2.0 */
/* What a command stream implements: a stretch of kernel and copy steps is prepared once, then
 * submitted and waited for in each run. On the CPU submit does the work and wait has nothing left
 * to do. A stream is used by one thread at a time. */
#ifndef RLX_DRIVER_STREAM_H
#define RLX_DRIVER_STREAM_H

#include "driver/arena.h"

typedef struct rlx_stream rlx_stream;
typedef struct rlx_stretch rlx_stretch;

/* When one step of a stretch ran, by rlx_now_ns. */
typedef struct rlx_step_time {
    uint64_t start_ns, end_ns;
} rlx_step_time;

typedef struct rlx_stream_ops {
    void (*destroy)(rlx_stream *base);
    rlx_status (*prepare)(rlx_stream *base, uint32_t first_step, uint32_t step_count,
                          rlx_stretch **out_stretch);
    void (*release)(rlx_stream *base, rlx_stretch *stretch);
    /* `times` is NULL or has one row per step, filled before wait returns. */
    rlx_status (*submit)(rlx_stream *base, rlx_stretch *stretch, rlx_step_time *times);
    rlx_status (*wait)(rlx_stream *base); /* optional: NULL when submit() completes on return */
    /* Optional: what the first submit would otherwise pay for. Nothing is pending. */
    rlx_status (*warm_up)(rlx_stream *base, rlx_stretch *stretch);
} rlx_stream_ops;

struct rlx_stream { /* first member of every implementation */
    const rlx_stream_ops *ops;
    rlx_allocator allocator;
    rlx_arena *arena; /* borrowed; its `pending` counts what was submitted and not waited for */
    uint32_t submitted;
    void *fault; /* borrowed record of RLX_FAULT_BYTES; NULL: the first bytes of scratch. Set it
                    before the first prepare. */
};

struct rlx_stretch { /* first member of every implementation */
    rlx_stream *stream;
    uint32_t first_step, step_count;
};

/* Kernel and copy steps [first_step, first_step + step_count) of the arena's plan. Everything that
 * can be refused is refused here: unknown kernels, workspace that is too small, operands without
 * memory. */
RLX_WARN_UNUSED rlx_status rlx_stream_prepare(rlx_stream *stream, uint32_t first_step,
                                              uint32_t step_count, rlx_stretch **out_stretch);
void rlx_stream_release(rlx_stream *stream, rlx_stretch *stretch); /* NULL is fine */
RLX_WARN_UNUSED rlx_status rlx_stream_submit(rlx_stream *stream, rlx_stretch *stretch,
                                             rlx_step_time *times);
RLX_WARN_UNUSED rlx_status rlx_stream_wait(rlx_stream *stream);
/* Has the device compile what the stretch uses; computes nothing. */
RLX_WARN_UNUSED rlx_status rlx_stream_warm_up(rlx_stream *stream, rlx_stretch *stretch);
void rlx_stream_destroy(rlx_stream *stream); /* waits first; NULL is fine */

#endif
