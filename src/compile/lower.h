/* SPDX-License-Identifier: Apache-2.0 */
/* From a graph that the passes are done with to the steps, slots and offsets of one entry:
 *   linearise: nodes become steps in order, control flow becomes jumps;
 *   alias: which value lives in whose memory (views, in place, state, concat in place);
 *   live: first and last step of every piece of memory;
 *   emit: placement, and the plan's tables. */
#ifndef RLX_COMPILE_LOWER_H
#define RLX_COMPILE_LOWER_H

#include "compile/compile.h"

typedef struct rlx_lowered_step {
    uint32_t kind; /* rlx_step_kind */
    rlx_op op;
    const void *attrs;
    rlx_value_id *inputs, *outputs;
    uint32_t input_count, output_count;
    rlx_node_id node; /* where it comes from */
    bool is_prepare;
    bool is_elided;  /* a view or a concat in place: nothing to do at run time */
    bool must_alias; /* a view even when views are switched off */
    uint32_t label;  /* jump: number of the label it goes to */
    rlx_value_id condition, value;
    bool jump_if;
    uint32_t fault_code;
    rlx_target_choice choice;
} rlx_lowered_step;

/* Steps [first, last] run again and again; last is the jump back. */
typedef struct rlx_lowered_loop {
    uint32_t first, last;
} rlx_lowered_loop;

/* Where a value lives: in the memory of `root` (itself, or the value whose view it is). */
typedef struct rlx_storage {
    rlx_value_id root; /* RLX_NONE: nowhere (fused away, not computed) */
    int64_t byte_offset;
    int64_t strides[RLX_MAX_RANK]; /* in elements */
} rlx_storage;

/* A piece of memory, at the index of its root value. Steps are numbers of run steps. */
typedef struct rlx_root {
    uint64_t bytes;
    uint32_t segment;
    uint32_t first, last; /* inclusive, of the steps that are emitted; of scratch only */
    bool is_used;
} rlx_root;

typedef struct rlx_lowered {
    rlx_graph *graph; /* borrowed; grows by the values that loops need */
    const rlx_target *target;
    const rlx_compile_options *options;
    rlx_scratch *scratch; /* borrowed; everything below lives there or in its allocator */
    bool concat_in_place;
    RLX_VEC(rlx_lowered_step) steps;
    RLX_VEC(uint32_t) labels; /* step number of each label */
    RLX_VEC(rlx_lowered_loop) loops;
    uint8_t *is_prepared; /* per value of the first prepared_count: known once weights are */
    uint32_t prepared_count;
    uint32_t value_count;  /* values of the graph when this was lowered: later tries add more */
    rlx_storage *storages; /* per value */
    rlx_root *roots;       /* per value */
    uint32_t *last_use;    /* per value; UINT32_MAX: never */
    uint32_t *family_use;  /* per value: of it and of all that may be views of it */
    uint32_t *definition;  /* per value; UINT32_MAX: before all steps */
    uint32_t *emitted;     /* per step: how many run steps that are not elided come before it */
    uint64_t lower_bound;  /* of scratch */
} rlx_lowered;

/* Marks the values that are known once the weights are: parameters, constants, and what nodes of
 * the main block compute from them alone. `is_prepared` has one zeroed byte per value. */
void rlx_mark_prepared(const rlx_graph *graph, const rlx_node_id *order, uint32_t count,
                       uint8_t *is_prepared);
/* The same for one node; false: it is none that prepares. */
bool rlx_mark_if_prepared(const rlx_graph *graph, rlx_node_id node, uint8_t *is_prepared);
/* The value whose memory a chain of views and state writes comes down to. */
rlx_value_id rlx_view_root(const rlx_graph *graph, rlx_value_id value);
bool rlx_is_prepare_node(const rlx_graph *graph, rlx_node_id node, const uint8_t *is_prepared);

/* `order` lists the live nodes of the main block; other blocks keep theirs. */
RLX_WARN_UNUSED rlx_status rlx_lower_linearise(rlx_lowered *lowered, const rlx_node_id *order,
                                               uint32_t count);
RLX_WARN_UNUSED rlx_status rlx_lower_choose(rlx_lowered *lowered);
/* First part of alias: decides which parts of concats are computed in the whole. `out_planned` has
 * their storage, per value. */
RLX_WARN_UNUSED rlx_status rlx_lower_concats(rlx_lowered *lowered, rlx_storage **out_planned,
                                             uint32_t *out_count);
/* Fills definition, last_use and family_use. */
RLX_WARN_UNUSED rlx_status rlx_lower_uses(rlx_lowered *lowered);
RLX_WARN_UNUSED rlx_status rlx_lower_alias(rlx_lowered *lowered);
RLX_WARN_UNUSED rlx_status rlx_lower_lives(rlx_lowered *lowered);
void rlx_lower_free(rlx_lowered *lowered);

/* Row-major strides. */
void rlx_plain_strides(const rlx_shape *shape, int64_t *out_strides);
bool rlx_strides_are_plain(const rlx_shape *shape, const int64_t *strides);

/* Orders of the main block to try: fills `out_order` (node count long) for candidate `index`; false
 * when there are no more. */
RLX_WARN_UNUSED rlx_status rlx_order_candidate(rlx_pass_context *context, uint32_t index,
                                               rlx_node_id *out_order, uint32_t *out_count,
                                               bool *out_exists);

/* Appends the lowered entry to the plan. Weights and states that an earlier entry has made are
 * found again by key. */
typedef struct rlx_emitter rlx_emitter;
RLX_WARN_UNUSED rlx_status rlx_emitter_create(rlx_plan *plan, const rlx_target *target,
                                              const rlx_compile_options *options,
                                              rlx_emitter **out_emitter);
void rlx_emitter_destroy(rlx_emitter *emitter);
RLX_WARN_UNUSED rlx_status rlx_emit_entry(rlx_emitter *emitter, rlx_lowered *lowered,
                                          const rlx_entry_spec *entry);
/* Lays out the shared segments and puts the prepare steps in front. */
RLX_WARN_UNUSED rlx_status rlx_emit_finish(rlx_emitter *emitter);

#endif
