/* SPDX-License-Identifier: Apache-2.0 */
/* The graph after sharding: weights and states become this rank's part, sizes in attributes follow,
 * and a product that sums over the split axis gets an all_reduce, with its bias, residual and
 * activation behind it, so that they count once. Also the report. */
#include "compile/shard.h"

#include "base/text.h"

/* Inserts nodes behind each other, from one position of the main block on. */
typedef struct tail {
    rlx_sharder *self;
    uint32_t position;
} tail;

static uint32_t position_of(const rlx_graph *graph, rlx_node_id id) {
    const rlx_block *block = &graph->blocks.items[0];
    uint32_t position = 0;
    while (position < block->nodes.count && block->nodes.items[position] != id)
        position++;
    return position;
}

static rlx_status append_to(tail *t, rlx_op op, const void *attrs, const rlx_value_id *inputs,
                            uint32_t count, rlx_value_id output) {
    rlx_node_id node;
    return rlx_graph_insert_node(t->self->graph, 0, t->position++, op, attrs, inputs, count,
                                 &output, 1, &node);
}

static rlx_status append(tail *t, rlx_op op, const void *attrs, const rlx_value_id *inputs,
                         uint32_t count, rlx_value_id *out_value) {
    rlx_value_id made; /* out_value may be where an input stands */
    RLX_TRY(rlx_graph_new_value(t->self->graph, NULL, RLX_VALUE_TEMPORARY, &made));
    RLX_TRY(append_to(t, op, attrs, inputs, count, made));
    *out_value = made;
    return RLX_OK;
}

/* x op y, where y may be f32 beside a smaller x. */
static rlx_status append_binary(tail *t, rlx_op op, rlx_dtype dtype, rlx_value_id y,
                                rlx_value_id *x) {
    rlx_value_id inputs[2] = {*x, y};
    if (rlx_shard_type(t->self, y)->dtype != dtype) {
        rlx_cast_attrs cast = {dtype};
        RLX_TRY(append(t, RLX_OP_CAST, &cast, &y, 1, &inputs[1]));
    }
    return append(t, op, NULL, inputs, 2, x);
}

/* Sums `part` over all ranks and does what the product did behind its sum. `y` is its output. */
static rlx_status append_sum(tail *t, const rlx_matmul_attrs *attrs, const rlx_value_id *epilogue,
                             rlx_value_id part, rlx_value_id y) {
    rlx_collective_attrs all = {.ranks = (int64_t)t->self->rank_count};
    rlx_unary_attrs unary = {attrs->activation.alpha, attrs->activation.beta};
    rlx_dtype dtype = rlx_shard_type(t->self, y)->dtype;
    rlx_value_id x;
    RLX_TRY(append(t, RLX_OP_ALL_REDUCE, &all, &part, 1, &x));
    if (epilogue[0] != RLX_NONE) {
        RLX_TRY(append_binary(t, RLX_OP_ADD, dtype, epilogue[0], &x));
    }
    if (epilogue[1] != RLX_NONE && !attrs->gated) {
        RLX_TRY(append_binary(t, RLX_OP_ADD, dtype, epilogue[1], &x));
    }
    if (attrs->activation.op != RLX_OP_NONE) {
        RLX_TRY(append(t, attrs->activation.op, &unary, &x, 1, &x));
    }
    if (epilogue[1] != RLX_NONE && attrs->gated) {
        RLX_TRY(append_binary(t, RLX_OP_MUL, dtype, epilogue[1], &x));
    }
    /* The last node gives the output under its own name. */
    rlx_graph *graph = t->self->graph;
    rlx_node *last = &graph->nodes.items[graph->values.items[x].producer];
    last->outputs[0] = y;
    graph->values.items[y].producer = graph->values.items[x].producer;
    graph->values.items[y].producer_output = 0;
    graph->values.items[x].producer = RLX_NONE;
    return RLX_OK;
}

static rlx_status finish_sink(rlx_sharder *self, rlx_node_id id) {
    rlx_graph *graph = self->graph;
    rlx_node *node = &graph->nodes.items[id];
    rlx_matmul_attrs attrs = *(const rlx_matmul_attrs *)node->attrs, bare = attrs;
    rlx_value_id epilogue[2] = {RLX_NONE, RLX_NONE}, part, y = node->outputs[0];
    for (uint32_t i = 2; i < node->input_count; i++)
        epilogue[i - 2] = node->inputs[i];
    bare.activation = (rlx_activation){0};
    bare.gated = false;
    RLX_TRY(rlx_graph_copy_attrs(graph, RLX_OP_MATMUL, &bare, &node->attrs));
    RLX_TRY(rlx_graph_new_value(graph, NULL, RLX_VALUE_TEMPORARY, &part));
    node = &graph->nodes.items[id];
    node->input_count = 2;
    node->outputs[0] = part;
    graph->values.items[part].producer = id;
    graph->values.items[part].type = graph->values.items[y].type;
    graph->values.items[part].is_typed = true;
    tail t = {self, position_of(graph, id) + 1};
    return append_sum(&t, &attrs, epilogue, part, y);
}

static rlx_status apply_node(rlx_sharder *self, rlx_node_id id, bool *out_is_sink) {
    const rlx_shard_group *group = &self->groups.items[self->node_group[id]];
    rlx_shard_node labels;
    if (!rlx_shard_rule(self, id, &labels)) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "sharding: %s", self->reason);
    }
    *out_is_sink = labels.is_sink;
    RLX_TRY(rlx_shard_attrs(self, id, &labels, group));
    for (uint32_t i = 0; i < self->graph->nodes.items[id].input_count; i++) {
        rlx_value_id input = self->graph->nodes.items[id].inputs[i];
        if (input == RLX_NONE || input >= self->value_count || !self->is_prepared[input] ||
            labels.in[i].axis == RLX_NONE) {
            continue;
        }
        RLX_TRY(rlx_shard_weight(self, input, &labels.in[i], group, &input));
        self->graph->nodes.items[id].inputs[i] = input;
    }
    return RLX_OK;
}

static void resize_states(rlx_sharder *self) {
    for (uint32_t v = 0; v < self->value_count; v++) {
        rlx_value *value = &self->graph->values.items[v];
        const rlx_shard_label *label = &self->labels[v];
        if (value->kind != RLX_VALUE_STATE || label->axis == RLX_NONE) continue;
        value->type.shape.dims[label->axis] =
            rlx_shard_extent(label, &self->groups.items[self->value_group[v]]);
    }
}

rlx_status rlx_shard_apply(rlx_sharder *self) {
    uint8_t *is_sink = NULL;
    bool sums = false;
    if (self->groups.count == 0) return RLX_OK;
    RLX_TRY(rlx_scratch_array(self->context->scratch, self->node_count + 1u, 1, (void **)&is_sink));
    /* Rules look at types, so all of them are asked before any type changes. */
    for (uint32_t n = 0; n < self->node_count; n++) {
        if (self->node_group[n] == RLX_NONE) continue;
        RLX_TRY(apply_node(self, n, &sums));
        is_sink[n] = sums;
    }
    for (uint32_t n = 0; n < self->node_count; n++) {
        if (is_sink[n]) RLX_TRY(finish_sink(self, n));
    }
    resize_states(self);
    RLX_TRY(rlx_graph_infer(self->graph));
    /* Masks have the size of a part, which is known only now. */
    for (uint32_t n = 0; n < self->node_count; n++) {
        if (!is_sink[n] || !self->groups.items[self->node_group[n]].is_masked) continue;
        RLX_TRY(rlx_shard_mask(self, n, position_of(self->graph, n)));
    }
    return RLX_OK;
}

static uint64_t bytes_of(const rlx_sharder *self, rlx_value_id value) {
    uint64_t bytes = 0;
    return rlx_type_bytes(rlx_shard_type(self, value), &bytes) == RLX_OK ? bytes : 0;
}

static rlx_status push_split(rlx_sharder *self, rlx_text *text, rlx_plan_split *row,
                             const char *name) {
    rlx_plan *plan = self->context->plan;
    rlx_status status = text->status;
    row->entry = plan->entries.count;
    if (status == RLX_OK) {
        status = rlx_scratch_text(&plan->memory, text->data, text->length, &row->text);
    }
    rlx_text_free(text);
    RLX_TRY(status);
    RLX_TRY(rlx_scratch_printf(&plan->memory, &row->name, "%s", name));
    return rlx_vec_push(plan->allocator, &plan->splits, *row);
}

/* "8 heads or columns of 16: 3, 3, 2". */
static rlx_status report_group(rlx_sharder *self, const rlx_shard_group *group) {
    const rlx_node *seed = &self->graph->nodes.items[group->seed];
    int64_t unit = self->labels[seed->inputs[0]].segments[0] / group->units, left = group->units;
    rlx_text text = {.allocator = self->graph->allocator};
    rlx_plan_split row = {.is_split = true,
                          .whole_bytes = group->weight_bytes,
                          .own_bytes =
                              group->weight_bytes / (uint64_t)group->units * (uint64_t)group->most};
    int64_t pieces = (group->units + group->granule - 1) / group->granule;
    int64_t ranks = (int64_t)self->rank_count;
    rlx_text_printf(&text, "%" PRId64 " units of %" PRId64 " column%s, by rank ", group->units,
                    unit, unit == 1 ? "" : "s");
    for (int64_t r = 0; r < ranks; r++) {
        int64_t mine = (pieces / ranks + (r < pieces % ranks)) * group->granule;
        mine = mine < left ? mine : left;
        left -= mine;
        rlx_text_printf(&text, "%s%" PRId64, r == 0 ? "" : " + ", mine);
    }
    rlx_text_printf(&text, ", %u sum%s", group->sinks, group->sinks == 1 ? "" : "s");
    return push_split(self, &text, &row, self->graph->values.items[seed->outputs[0]].name);
}

rlx_status rlx_shard_report(rlx_sharder *self, char *const *reasons) {
    if (self->context->plan == NULL) return RLX_OK;
    for (uint32_t i = 0; i < self->groups.count; i++)
        RLX_TRY(report_group(self, &self->groups.items[i]));
    for (uint32_t n = 0; n < self->node_count; n++) {
        const rlx_node *node = &self->graph->nodes.items[n];
        if (reasons[n] == NULL || self->node_group[n] != RLX_NONE) continue;
        rlx_text text = {.allocator = self->graph->allocator};
        rlx_plan_split row = {.whole_bytes = bytes_of(self, node->inputs[1])};
        row.own_bytes = row.whole_bytes;
        rlx_text_printf(&text, "%s", reasons[n][0] == 0 ? "nothing to split" : reasons[n]);
        RLX_TRY(push_split(self, &text, &row, self->graph->values.items[node->outputs[0]].name));
    }
    return RLX_OK;
}
