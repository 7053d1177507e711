/* SPDX-License-Identifier: Apache-2.0 */
/* The reads of an executable whose weights are split by a budget. */
#ifndef RLX_RUNTIME_STREAMS_H
#define RLX_RUNTIME_STREAMS_H

#include "driver/copy.h"
#include "runtime/exec.h"

enum { RLX_STREAMS_NOTED = 64 }; /* at least as many as are read at once */

/* A read under way, for the profile. Written by the run, `done_ns` by copy threads. */
typedef struct rlx_noted_read {
    _Atomic uint64_t begin, end; /* bytes of the file */
    _Atomic uint64_t done_ns;
    uint64_t issued_ns;
} rlx_noted_read;

/* Tiles are issued and waited for in the order of their numbers (plan/budget_tiles.c), so those
 * under way are a range. */
typedef struct rlx_exec_streams {
    rlx_copy_engine *engine; /* owned */
    rlx_copy_hooks hooks;
    rlx_copy_token *tokens; /* per tile */
    uint32_t first, count;  /* tiles under way */
    uint64_t issued;        /* reads so far */
    bool is_worn;           /* a read failed: the next run begins with a new engine */
    rlx_noted_read *noted;  /* read n is in noted[n % RLX_STREAMS_NOTED]; NULL without profile */
    uint64_t last_done_ns;
} rlx_exec_streams;

/* Before the next run; for tests, which let reads fail. */
RLX_WARN_UNUSED rlx_status rlx_exec_set_stream_hooks(rlx_exec *exec, const rlx_copy_hooks *hooks);

#endif
