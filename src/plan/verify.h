/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the plan verifier. A plan may come from a hostile file, so nothing in it
 * is trusted before its check has passed; the order of the checks is in rlx_plan_verify. */
#ifndef RLX_PLAN_VERIFY_H
#define RLX_PLAN_VERIFY_H

#include "plan/plan.h"

typedef struct plan_check {
    const rlx_plan *plan;
    rlx_scratch memory;   /* owned: everything below */
    uint8_t *is_inside;   /* per step: in a stretch, but not its first */
    uint8_t *is_used;     /* per buffer: a step uses it */
    uint8_t *is_carried;  /* per buffer: its first use is a read, or the caller fills it */
    uint8_t *is_written;  /* per buffer: a step writes it */
    uint32_t *loop_ends;  /* per step + 1: the last jump back to it, or 0 */
    uint32_t *loop_heads; /* per step: where it jumps back to, or RLX_NONE */
    uint32_t *tile_of;    /* per buffer: the tile that it is, or RLX_NONE */
    bool has_loops;
    struct rlx_type *types; /* room for the types of one step's operands */
    const struct rlx_type **inputs;
    uint32_t *ids;
} plan_check;

/* A range of steps: prepare (entry RLX_PLAN_PREPARE) or one entry. */
typedef struct step_range {
    uint32_t entry, first, end; /* steps [first, end) */
} step_range;

/* "slot 3 'x'": names are cut so that the fact after them is kept. */
#define SLOT_FORMAT       "slot %u '%.80s'"
#define SLOT_ARGS(p, i)   (i), (p)->slots.items[i].name
#define INVALID_PLAN(...) RLX_FAIL(RLX_INVALID_PLAN, __VA_ARGS__)

/* verify_memory.c: buffers, slots, and that nothing overlaps. */
RLX_WARN_UNUSED rlx_status plan_check_buffers(plan_check *check);
RLX_WARN_UNUSED rlx_status plan_check_slots(plan_check *check);
RLX_WARN_UNUSED rlx_status plan_check_overlap(plan_check *check);
/* Both slots lie in one buffer: no byte is part of both. May say false for strides it cannot see
 * through. */
bool plan_slots_disjoint(const rlx_plan_slot *a, const rlx_plan_slot *b);
bool plan_slot_is_plain(const rlx_plan_slot *slot);
bool plan_slot_is_scalar(const rlx_plan_slot *slot, rlx_dtype dtype); /* one element */

/* verify_step.c: one step, and what it does to the lives of buffers. */
RLX_WARN_UNUSED rlx_status plan_check_step(plan_check *check, const step_range *range,
                                           uint32_t step);

/* verify_life.c */
RLX_WARN_UNUSED rlx_status plan_use_slot(plan_check *check, const step_range *range, uint32_t step,
                                         uint32_t slot, bool is_write);
RLX_WARN_UNUSED rlx_status plan_use_extents(plan_check *check, const step_range *range,
                                            uint32_t step, uint32_t slot); /* reads them */
RLX_WARN_UNUSED rlx_status plan_use_buffer(plan_check *check, const step_range *range,
                                           uint32_t step, uint32_t buffer, bool is_write);
RLX_WARN_UNUSED rlx_status plan_check_ports(plan_check *check, const step_range *range);
/* After every step was seen: what lives across a jump back lives through the whole loop. */
RLX_WARN_UNUSED rlx_status plan_check_loops(plan_check *check);

/* verify_stream.c: tiles of weights that are read during a run. First the tables, then each stream
 * step, each use of a tile, and at last what jumps may do to their order. */
RLX_WARN_UNUSED rlx_status plan_check_tiles(plan_check *check);
RLX_WARN_UNUSED rlx_status plan_check_stream_step(plan_check *check, const step_range *range,
                                                  const rlx_plan_step *step, uint32_t index,
                                                  const uint32_t *operands);
RLX_WARN_UNUSED rlx_status plan_check_tile_use(const plan_check *check, uint32_t buffer,
                                               uint32_t step);
RLX_WARN_UNUSED rlx_status plan_check_stream_order(plan_check *check);

#endif
