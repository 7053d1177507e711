/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of emission share: emit.c drives, emit_memory.c makes buffers, slots and sources,
 * emit_steps.c the steps and stretches. */
#ifndef RLX_COMPILE_EMIT_H
#define RLX_COMPILE_EMIT_H

#include "compile/lower.h"

#include <rlx/place.h>

/* 128 bits that name what a piece of weights memory holds: a parameter, constant bytes, or a
 * prepare op of such. Equal keys in two entries are the same memory. */
typedef struct rlx_weight_key {
    uint64_t high, low;
} rlx_weight_key;

typedef struct rlx_shared_buffer {
    rlx_weight_key key;
    uint32_t buffer;
} rlx_shared_buffer;

struct rlx_emitter {
    rlx_plan *plan;
    const rlx_target *target;
    const rlx_compile_options *options;
    RLX_VEC(rlx_shared_buffer) shared; /* weights, source and state buffers of all entries */
    RLX_VEC(uint32_t) cells;           /* open hash over `shared` by key; RLX_NONE: free */
    RLX_VEC(rlx_plan_step) prepare;    /* put in front at the end */
};

/* One entry on its way into the plan. */
typedef struct rlx_entry_emission {
    rlx_emitter *emitter;
    rlx_lowered *lowered;
    rlx_plan *plan;
    uint32_t entry;        /* its number */
    uint32_t first_step;   /* among run steps, before prepare steps are put in front */
    uint32_t *buffers;     /* per root value: plan buffer, RLX_NONE: none yet */
    uint32_t *slots;       /* per value: plan slot, RLX_NONE: none yet */
    uint32_t *workspaces;  /* per lowered step */
    rlx_weight_key *keys;  /* per value that is prepared */
    uint32_t *maker;       /* per value: the prepare step that computes it, RLX_NONE: none */
    uint8_t *is_needed;    /* per lowered step, of prepare steps */
    rlx_plan_entry report; /* bytes and bound of the placement */
} rlx_entry_emission;

RLX_WARN_UNUSED rlx_status rlx_emit_keys(rlx_entry_emission *emission);
RLX_WARN_UNUSED rlx_status rlx_emit_scratch(rlx_entry_emission *emission);
/* The plan's slot of a value; made on first use, with its buffer. */
RLX_WARN_UNUSED rlx_status rlx_emit_slot(rlx_entry_emission *emission, rlx_value_id value,
                                         uint32_t *out_slot);
RLX_WARN_UNUSED rlx_status rlx_emit_steps(rlx_entry_emission *emission);
RLX_WARN_UNUSED rlx_status rlx_emit_ports(rlx_entry_emission *emission);
RLX_WARN_UNUSED rlx_status rlx_emit_stretches(rlx_emitter *emitter);
/* Cuts the packing of large weights into slices. */
RLX_WARN_UNUSED rlx_status rlx_emit_slices(rlx_emitter *emitter);
/* Which prepare steps come first. */
RLX_WARN_UNUSED rlx_status rlx_emit_order_prepare(rlx_emitter *emitter);
/* Lives and places of what only prepare steps need; sources in the order in which they are due. */
RLX_WARN_UNUSED rlx_status rlx_emit_sources(rlx_emitter *emitter);
RLX_WARN_UNUSED rlx_status rlx_plan_text(rlx_plan *plan, const char *text, const char **out_text);

/* blocks.c. Moves an offset to the next block when `bytes` would not fit into its own.
 * RLX_DOES_NOT_FIT: no block holds them. */
RLX_WARN_UNUSED rlx_status rlx_blocks_fit(uint64_t block_bytes, uint64_t bytes, uint64_t *offset);
/* Placed buffers: none of them lies across a border afterwards, and none that live together
 * overlap. Changes `offsets` and `*peak` only where the plan is larger than a block. */
typedef struct rlx_block_items {
    const rlx_place_item *items;
    uint64_t *offsets;
    uint32_t count;
    uint64_t block_bytes, alignment, first; /* nothing lies below `first` */
    bool is_shared_by_none;                 /* no memory is used twice */
} rlx_block_items;
RLX_WARN_UNUSED rlx_status rlx_blocks_keep(const rlx_block_items *self, rlx_scratch *scratch,
                                           uint64_t *peak);

#endif
