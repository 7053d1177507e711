/* SPDX-License-Identifier: Apache-2.0 */
/* An executable from inside: its arena, its prepared work and what it remembers between calls. */
#ifndef RLX_RUNTIME_EXEC_H
#define RLX_RUNTIME_EXEC_H

#include "driver/bind.h"
#include "ref/kernel.h"
#include "runtime/program.h"

#include <rlx/collective.h>
#include <rlx/exec.h>

/* One thing to do: a stretch for the device, a host step, a jump, or a read of weights. In order of
 * the plan's steps; prepare steps have none. */
typedef struct rlx_exec_item {
    uint32_t kind; /* rlx_step_kind of its first step */
    uint32_t first_step, step_count;
    rlx_stretch *stretch;            /* owned; kernel and copy steps */
    struct rlx_host_step *host;      /* owned by exec->memory; host steps */
    rlx_collective_request *request; /* likewise; collectives */
} rlx_exec_item;

/* A step that scalar C does on mapped memory. */
typedef struct rlx_host_step {
    const rlx_kernel *kernel;
    rlx_kernel_args args;
    rlx_bound_step bound;
} rlx_host_step;

typedef struct rlx_trace_event {
    uint64_t start_ns, end_ns;
    uint32_t step;
} rlx_trace_event;

struct rlx_exec {
    rlx_allocator allocator;
    rlx_exec_options options;
    rlx_program *program; /* retained */
    rlx_arena *arena;     /* owned */
    rlx_stream *stream;   /* owned */
    rlx_scratch memory;   /* owned: every table below */
    uint64_t heap_offset; /* of state and scratch in the symmetric heap; RLX_NO_OFFSET: not there */
    rlx_arena *shadow;    /* in `memory`: what host steps see where the arena is not mapped */
    rlx_fault *fault;     /* in the arena; NULL: a plan without steps, or memory not mapped */

    rlx_exec_item *items;
    uint32_t item_count;
    uint32_t *item_of_step; /* per plan step + 1: the item that starts there */

    bool *is_set;         /* per port: an input that holds data */
    bool *is_lost;        /* per port: an output that was overwritten since the run */
    uint32_t input_entry; /* whose inputs are being set; RLX_NONE: nobody's yet */
    uint32_t ran_entry;   /* whose outputs are there; RLX_NONE: nobody's */

    struct rlx_exec_streams *streams; /* in `memory`; NULL: no weight is read during runs */

    uint32_t *poison_at; /* per plan step + 1: where its buffers start in poison_list */
    uint32_t *poison_list;

    rlx_step_time *times;      /* of the longest stretch; NULL without profile */
    rlx_step_profile *profile; /* per plan step */
    rlx_trace_event *events;
    uint64_t event_count, event_capacity, event_dropped;
    uint64_t run_event; /* the first of the last run */

    _Atomic uint32_t in_use;
    _Atomic uint32_t cancel;
};

/* One caller at a time: RLX_BUSY for the second. */
RLX_WARN_UNUSED rlx_status rlx_exec_enter(rlx_exec *exec);
void rlx_exec_leave(rlx_exec *exec);

/* walk.c: makes the items. */
RLX_WARN_UNUSED rlx_status rlx_exec_prepare_items(rlx_exec *exec);
/* host_step.c */
RLX_WARN_UNUSED rlx_status rlx_host_step_prepare(rlx_exec *exec, uint32_t step,
                                                 rlx_host_step **out_host);
RLX_WARN_UNUSED rlx_status rlx_host_step_run(rlx_exec *exec, rlx_host_step *host);
/* ranks.c: an executable of several ranks. Join compares the ranks and takes memory of the heap;
 * agree fails on all ranks where `status` is not RLX_OK on one; leave gives the memory back. */
RLX_WARN_UNUSED rlx_status rlx_exec_join_ranks(rlx_exec *exec);
RLX_WARN_UNUSED rlx_status rlx_exec_agree(rlx_exec *exec, rlx_status status);
void rlx_exec_leave_ranks(rlx_exec *exec);
RLX_WARN_UNUSED rlx_status rlx_collective_step_prepare(rlx_exec *exec, uint32_t step,
                                                       rlx_collective_request **out_request);
/* This rank's run has failed: peers that wait for its next collective get an error, too. */
void rlx_exec_abandon_run(rlx_exec *exec, uint32_t entry, uint32_t item);
/* ports.c: every input of the entry is set; and what a run does to inputs and outputs. */
RLX_WARN_UNUSED rlx_status rlx_exec_check_inputs(const rlx_exec *exec, uint32_t entry);
void rlx_exec_begin_run(rlx_exec *exec, uint32_t entry);
void rlx_exec_end_run(rlx_exec *exec, uint32_t entry, bool is_good);
/* poison.c: tables, and filling what died at a step. */
RLX_WARN_UNUSED rlx_status rlx_exec_prepare_poison(rlx_exec *exec);
RLX_WARN_UNUSED rlx_status rlx_exec_poison_step(rlx_exec *exec, uint32_t step);
/* profile.c: tables, and noting times. */
RLX_WARN_UNUSED rlx_status rlx_exec_prepare_profile(rlx_exec *exec);
void rlx_exec_note_times(rlx_exec *exec, const rlx_exec_item *item);
void rlx_exec_note_time(rlx_exec *exec, uint32_t step, rlx_step_time time);
/* streams.c: reads of weights during a run. Begin before the first step; a step that waits gives up
 * after `timeout_ns` with *out_done false; drain after a run that failed. */
RLX_WARN_UNUSED rlx_status rlx_exec_prepare_streams(rlx_exec *exec);
void rlx_exec_destroy_streams(rlx_exec *exec);
RLX_WARN_UNUSED rlx_status rlx_exec_begin_streams(rlx_exec *exec);
RLX_WARN_UNUSED rlx_status rlx_exec_stream_step(rlx_exec *exec, uint32_t step, uint64_t timeout_ns,
                                                bool *out_done);
void rlx_exec_drain_streams(rlx_exec *exec);

#endif
