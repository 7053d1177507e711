/* SPDX-License-Identifier: Apache-2.0 */
/* Graph to plan: for each entry a copy of the graph goes through the passes, is lowered in the node
 * order that needs the least memory, and is appended to the plan. */
#include "compile/lower.h"

#include "base/thread.h"

static rlx_status check_graph(const rlx_graph *graph, const rlx_allocator *allocator) {
    RLX_TRY(rlx_graph_verify(graph));
    if (graph->outputs.count == 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "the graph has no outputs, so there is nothing to run");
    }
    return rlx_check_states(graph, allocator);
}

/* Lowers with one node order, with concats in place or not, in memory of its own. */
static rlx_status lower_once(rlx_pass_context *context, const rlx_node_id *order, uint32_t count,
                             bool concat_in_place, rlx_scratch *memory, rlx_lowered *out_lowered) {
    rlx_lowered lowered = {.graph = context->graph,
                           .target = context->target,
                           .options = context->options,
                           .scratch = memory,
                           .concat_in_place = concat_in_place};
    rlx_status status = rlx_lower_linearise(&lowered, order, count);
    if (status == RLX_OK) status = rlx_lower_choose(&lowered);
    if (status == RLX_OK) status = rlx_lower_alias(&lowered);
    if (status == RLX_OK) status = rlx_lower_choose(&lowered); /* again: now with strides */
    if (status == RLX_OK) status = rlx_lower_lives(&lowered);
    if (status != RLX_OK) {
        rlx_lower_free(&lowered);
        return status;
    }
    *out_lowered = lowered;
    return RLX_OK;
}

static void forget(rlx_lowered *lowered) {
    rlx_lower_free(lowered);
    if (lowered->scratch != NULL) rlx_scratch_reset(lowered->scratch);
}

/* Every part of every concat lies side by side in the whole: kernels write it as they would write
 * memory of its own. */
static bool has_whole_parts(const rlx_graph *graph) {
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rlx_node *node = &graph->nodes.items[n];
        if (node->is_dead || node->op != RLX_OP_CONCAT) continue;
        const rlx_shape *shape = &graph->values.items[node->outputs[0]].type.shape;
        int64_t axis = ((const rlx_axis_attrs *)node->attrs)->axis;
        if (axis < 0) axis += shape->rank;
        for (int64_t i = 0; i < axis; i++) {
            if (shape->dims[i] != 1) return false;
        }
    }
    return true;
}

/* A lower bound, or the same without copies of concats. */
static bool is_better(const rlx_lowered *tried, const rlx_lowered *best) {
    if (best->graph == NULL || tried->lower_bound != best->lower_bound) {
        return best->graph == NULL || tried->lower_bound < best->lower_bound;
    }
    return tried->concat_in_place && !best->concat_in_place && has_whole_parts(tried->graph);
}

/* Tries the node orders, each with and without concat in place, and keeps the lowest bound. The
 * best so far is in one of the two memories, the next try in the other. */
static rlx_status lower_best(rlx_pass_context *context, rlx_scratch memories[2],
                             rlx_lowered *out_best) {
    rlx_lowered best = {0};
    rlx_node_id *order = NULL;
    bool exists = true;
    rlx_status status = rlx_scratch_array(context->scratch, context->graph->nodes.count + 1u,
                                          sizeof *order, (void **)&order);
    for (uint32_t candidate = 0; status == RLX_OK && exists; candidate++) {
        uint32_t count = 0;
        status = rlx_order_candidate(context, candidate, order, &count, &exists);
        for (uint32_t in_place = 0; status == RLX_OK && exists && in_place < 2; in_place++) {
            rlx_lowered tried;
            if (in_place == 1 && !rlx_pass_is_on(context->options, "concat_in_place")) break;
            rlx_scratch *memory = &memories[best.scratch == &memories[0]];
            status = lower_once(context, order, count, in_place == 1, memory, &tried);
            if (status != RLX_OK) break;
            bool is_kept = is_better(&tried, &best);
            forget(is_kept ? &best : &tried);
            if (is_kept) best = tried;
        }
    }
    if (status != RLX_OK) {
        rlx_lower_free(&best);
        return status;
    }
    *out_best = best;
    return RLX_OK;
}

/* The compile's own graph of an entry: a copy, or what the model builds for it. */
static rlx_status make_graph(const rlx_graph_maker *maker, const rlx_entry_spec *entry,
                             const rlx_allocator *allocator, rlx_graph **out_graph) {
    rlx_graph *graph = NULL;
    if (maker->graph != NULL && entry->growing_count != 0) {
        return RLX_FAIL(RLX_UNSUPPORTED, "'%s' cannot grow: only sizes of ONNX models can",
                        entry->growing[0].symbol);
    }
    if (maker->graph != NULL) return rlx_graph_share(maker->graph, allocator, out_graph);
    RLX_TRY(maker->make(maker->user, entry, allocator, &graph));
    rlx_status status = check_graph(graph, allocator);
    if (status != RLX_OK) {
        rlx_graph_destroy(graph);
        return status;
    }
    *out_graph = graph;
    return RLX_OK;
}

static rlx_status compile_entry(const rlx_graph_maker *maker, const rlx_target *target,
                                const rlx_compile_options *options, const rlx_entry_spec *entry,
                                const rlx_allocator *allocator, rlx_plan *plan,
                                rlx_emitter *emitter) {
    rlx_graph *copy = NULL;
    rlx_lowered lowered = {0};
    RLX_TRY(make_graph(maker, entry, allocator, &copy));
    rlx_scratch scratch = {.allocator = allocator};
    rlx_scratch memories[2] = {{.allocator = allocator}, {.allocator = allocator}};
    rlx_pass_context context = {copy, target, options, entry, &scratch, plan};
    rlx_status status = rlx_run_passes(&context);
    if (status == RLX_OK) status = lower_best(&context, memories, &lowered);
    if (status == RLX_OK) status = rlx_emit_entry(emitter, &lowered, entry);
    rlx_lower_free(&lowered);
    rlx_scratch_reset(&memories[0]);
    rlx_scratch_reset(&memories[1]);
    rlx_scratch_reset(&scratch);
    rlx_graph_destroy(copy);
    return status;
}

static rlx_status compile_into(const rlx_graph_maker *maker, const rlx_target *target,
                               const rlx_compile_options *options, const rlx_allocator *allocator,
                               rlx_plan *plan) {
    static const rlx_entry_spec main_entry = {.name = "main"};
    const rlx_entry_spec *entries = options->entry_count == 0 ? &main_entry : options->entries;
    uint32_t entry_count = options->entry_count == 0 ? 1 : options->entry_count;
    rlx_emitter *emitter = NULL;
    RLX_TRY(rlx_emitter_create(plan, target, options, &emitter));
    rlx_status status = RLX_OK;
    for (uint32_t i = 0; i < entry_count && status == RLX_OK; i++) {
        status = compile_entry(maker, target, options, &entries[i], allocator, plan, emitter);
        if (status != RLX_OK && entry_count > 1) {
            rlx_fail_context(status, "entry '%s'", entries[i].name ? entries[i].name : "main");
        }
    }
    if (status == RLX_OK) status = rlx_emit_finish(emitter);
    rlx_emitter_destroy(emitter);
    return status;
}

rlx_status rlx_compile(const rlx_graph *graph, const rlx_target *target,
                       const rlx_compile_options *options, const rlx_allocator *allocator,
                       rlx_plan **out_plan) {
    const rlx_graph_maker maker = {.graph = graph};
    if (graph == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    return rlx_compile_made(&maker, target, options, allocator, out_plan);
}

rlx_status rlx_compile_made(const rlx_graph_maker *maker, const rlx_target *target,
                            const rlx_compile_options *options, const rlx_allocator *allocator,
                            rlx_plan **out_plan) {
    rlx_compile_options read;
    rlx_plan *plan = NULL;
    if (target == NULL || out_plan == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (allocator == NULL) allocator = rlx_default_allocator();
    RLX_TRY(rlx_compile_options_read(options, &read));
    if (maker->graph != NULL) RLX_TRY(check_graph(maker->graph, allocator));
    RLX_TRY(rlx_plan_create(allocator, &plan));
    rlx_fp_mode saved = rlx_fp_mode_enter(); /* constants are folded as a run would compute them */
    rlx_status status = compile_into(maker, target, &read, allocator, plan);
    rlx_fp_mode_leave(saved);
    if (status == RLX_OK) status = rlx_plan_verify(plan);
    if (status != RLX_OK) {
        rlx_plan_destroy(plan);
        return status;
    }
    *out_plan = plan;
    return RLX_OK;
}
