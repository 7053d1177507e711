/* SPDX-License-Identifier: Apache-2.0 */
/* Graph to plan. pipeline.c is the list of passes; a graph pass is one function over a pass
 * context; lower.h has what follows them. Opens no device and reads no weight. */
#ifndef RLX_COMPILE_COMPILE_H
#define RLX_COMPILE_COMPILE_H

#include "ir/graph.h"
#include "plan/plan.h"
#include "plan/target.h"

#include <rlx/compile.h>

/* What a graph pass works on. The graph is the compile's own copy. */
typedef struct rlx_pass_context {
    rlx_graph *graph;
    const rlx_target *target; /* NULL: none in mind, nothing is chosen for it */
    const rlx_compile_options *options;
    const rlx_entry_spec *entry;
    rlx_scratch *scratch; /* freed after each pass */
    rlx_plan *plan;       /* that is being made, for reports; may be NULL */
} rlx_pass_context;

/* Each keeps the graph valid and the meaning of its outputs and states. */
RLX_WARN_UNUSED rlx_status rlx_pass_bind(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_fold(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_remove_dead(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_compact(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_merge_duplicates(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_canonicalise(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_fuse_batch_norm(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_split_groups(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_split_strides(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_fold_depth(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_widen_conv(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_winograd(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_fuse_attention(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_shard(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_fuse_epilogue(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_fuse_norm(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_fuse_quantised(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_fuse_chain(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_hoist(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_own_outputs(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_block_channels(rlx_pass_context *context);
RLX_WARN_UNUSED rlx_status rlx_pass_pack_weights(rlx_pass_context *context);

/* Refuses a model that reads a state as it was before a write of it; the text names both. */
RLX_WARN_UNUSED rlx_status rlx_check_states(const rlx_graph *graph, const rlx_allocator *allocator);

/* Runs the graph passes that are on, in order. */
RLX_WARN_UNUSED rlx_status rlx_run_passes(rlx_pass_context *context);

/* The plan of a graph for a target. On failure the text lists every node that is in the way. */
RLX_WARN_UNUSED rlx_status rlx_compile(const rlx_graph *graph, const rlx_target *target,
                                       const rlx_compile_options *options,
                                       const rlx_allocator *allocator, rlx_plan **out_plan);

/* Where the graph of an entry comes from: a copy of `graph`, or else `make` builds it. */
typedef struct rlx_graph_maker {
    const rlx_graph *graph;
    rlx_status (*make)(void *user, const rlx_entry_spec *entry, const rlx_allocator *allocator,
                       rlx_graph **out_graph);
    void *user;
} rlx_graph_maker;
/* The same with a graph per entry. */
RLX_WARN_UNUSED rlx_status rlx_compile_made(const rlx_graph_maker *maker, const rlx_target *target,
                                            const rlx_compile_options *options,
                                            const rlx_allocator *allocator, rlx_plan **out_plan);
/* Computes one node now, if its inputs are constants and its outputs small: they become constants.
 * The node itself stays; the caller takes it out. */
RLX_WARN_UNUSED rlx_status rlx_fold_node(rlx_graph *graph, rlx_node_id node, bool *out_done);

/* Options with defaults for what an older caller's struct does not have; refuses nonsense. */
RLX_WARN_UNUSED rlx_status rlx_compile_options_read(const rlx_compile_options *options,
                                                    rlx_compile_options *out_options);
bool rlx_pass_is_on(const rlx_compile_options *options, const char *name);

/* A replacement of values that is applied to the whole graph at once: passes note pairs and call
 * apply once, so that many rewrites stay linear. */
typedef struct rlx_remap {
    rlx_value_id *to; /* per value; RLX_NONE: itself */
    uint32_t count;
    bool is_used;
} rlx_remap;
RLX_WARN_UNUSED rlx_status rlx_remap_begin(rlx_pass_context *context, rlx_remap *out_remap);
/* `from` will become `to` (followed through further replacements). */
void rlx_remap_set(rlx_remap *remap, rlx_value_id from, rlx_value_id to);
/* What a value stands for by now. */
rlx_value_id rlx_remap_get(const rlx_remap *remap, rlx_value_id value);
void rlx_remap_apply(rlx_pass_context *context, rlx_remap *remap);

#endif
