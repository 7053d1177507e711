/* SPDX-License-Identifier: Apache-2.0 */
/* Adding nodes and blocks. A failed call leaves the graph as it was. */
#include "ir/graph.h"
#include "ir/infer.h"

#include <string.h>

/* Copies the struct; the lists that it points to are copied behind it. */
rlx_status rlx_graph_copy_attrs(rlx_graph *graph, rlx_op op, const void *attrs,
                                const void **out_attrs) {
    const rlx_op_info *info = rlx_op_info_of(op);
    char *copy = NULL;
    RLX_TRY(rlx_scratch_alloc(&graph->memory, info->attrs_bytes, (void **)&copy));
    if (attrs != NULL) memcpy(copy, attrs, info->attrs_bytes);
    for (uint32_t i = 0; i < info->field_count; i++) {
        if (info->fields[i].kind != RLX_FIELD_LIST) continue;
        rlx_list *list = (rlx_list *)(void *)(copy + info->fields[i].offset);
        int64_t *items = NULL;
        if (list->count != 0 && list->items == NULL) {
            return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s: attribute '%s' is null", info->name,
                            info->fields[i].name);
        }
        RLX_TRY(rlx_scratch_array(&graph->memory, list->count, sizeof *items, (void **)&items));
        if (list->count != 0) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
    }
    *out_attrs = copy;
    return RLX_OK;
}

/* Attributes that come from outside hold what their kinds allow. */
static rlx_status check_attrs(const rlx_op_info *info, const void *attrs) {
    for (uint32_t i = 0; i < info->field_count; i++) {
        const rlx_field *field = &info->fields[i];
        const char *at = (const char *)attrs + field->offset;
        uint32_t most = 0, value = 0;
        if (field->kind == RLX_FIELD_INTS) {
            most = RLX_MAX_INTS + 1;
            memcpy(&value, at + offsetof(rlx_ints, count), sizeof value);
        } else if (field->kind == RLX_FIELD_DTYPE) {
            most = RLX_DTYPE_COUNT;
            memcpy(&value, at, sizeof value);
        } else if (field->kind == RLX_FIELD_OP) {
            most = RLX_OP_COUNT;
            memcpy(&value, at, sizeof value);
        } else if (rlx_field_names(field->kind, &most) != NULL) {
            memcpy(&value, at, sizeof value);
        }
        if (most != 0 && value >= most) {
            return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s: attribute '%s' has no value %u", info->name,
                            field->name, value);
        }
    }
    return RLX_OK;
}

/* A value may be used in its own block and in the blocks inside it. */
static bool is_visible(const rlx_graph *graph, rlx_value_id value, rlx_block_id block) {
    rlx_block_id home = graph->values.items[value].block;
    while (block != home && block != RLX_NONE)
        block = graph->blocks.items[block].parent;
    return block == home;
}

static rlx_status check_arity(const rlx_op_info *info, uint32_t input_count,
                              uint32_t output_count) {
    if (input_count < info->in_least || input_count > info->in_most) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s takes %u%s inputs, got %u", info->name,
                        info->in_least, info->in_most > info->in_least ? " or more" : "",
                        input_count);
    }
    if (output_count < info->out_least || output_count > info->out_most) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s gives %u%s outputs, asked for %u", info->name,
                        info->out_least, info->out_most > info->out_least ? " or more" : "",
                        output_count);
    }
    return RLX_OK;
}

static rlx_status check_inputs(const rlx_graph *graph, const rlx_op_info *info, rlx_block_id block,
                               const rlx_value_id *inputs, uint32_t input_count) {
    if (inputs == NULL && input_count != 0) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    for (uint32_t i = 0; i < input_count; i++) {
        bool is_optional = i >= info->in_least || (info->flags & RLX_OPF_FLOW) != 0;
        if (inputs[i] == RLX_NONE) {
            if (is_optional) continue;
            return RLX_FAIL(RLX_INVALID_GRAPH, "%s needs input %u", info->name, i);
        }
        if (inputs[i] >= graph->values.count) {
            return RLX_FAIL(RLX_NOT_FOUND, "%s: input %u is no value (%u)", info->name, i,
                            inputs[i]);
        }
        if (!is_visible(graph, inputs[i], block)) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "%s: input %u ('%s') belongs to another block",
                            info->name, i, graph->values.items[inputs[i]].name);
        }
    }
    return RLX_OK;
}

/* A node ready to be put into its block: everything that it points to is the graph's. */
typedef struct new_node {
    rlx_op op;
    const void *attrs;
    const rlx_value_id *inputs, *outputs;
    const rlx_block_id *blocks;
    uint32_t input_count, output_count, block_count;
} new_node;

static rlx_status make_node(rlx_graph *graph, const new_node *from, rlx_node *out_node) {
    rlx_node node = {.op = from->op,
                     .input_count = from->input_count,
                     .output_count = from->output_count,
                     .blocks = {RLX_NONE, RLX_NONE}};
    for (uint32_t i = 0; i < from->block_count; i++)
        node.blocks[i] = from->blocks[i];
    RLX_TRY(rlx_graph_copy_attrs(graph, from->op, from->attrs, &node.attrs));
    RLX_TRY(rlx_scratch_array(&graph->memory, from->input_count, sizeof *node.inputs,
                              (void **)&node.inputs));
    RLX_TRY(rlx_scratch_array(&graph->memory, from->output_count, sizeof *node.outputs,
                              (void **)&node.outputs));
    for (uint32_t i = 0; i < from->input_count; i++)
        node.inputs[i] = from->inputs[i];
    for (uint32_t i = 0; i < from->output_count; i++)
        node.outputs[i] = from->outputs[i];
    *out_node = node;
    return RLX_OK;
}

static rlx_status insert(rlx_graph *graph, rlx_block_id block, uint32_t before,
                         const new_node *from, rlx_node_id *out_node) {
    rlx_node node;
    rlx_block *home = &graph->blocks.items[block];
    rlx_node_id id = graph->nodes.count;
    RLX_TRY(make_node(graph, from, &node));
    node.block = block;
    RLX_TRY(rlx_vec_reserve(graph->allocator, &home->nodes, home->nodes.count + 1));
    RLX_TRY(rlx_vec_push(graph->allocator, &graph->nodes, node));
    rlx_status status = rlx_graph_infer_node(graph, id);
    if (status != RLX_OK) {
        graph->nodes.count--;
        return status;
    }
    if (before > home->nodes.count) before = home->nodes.count;
    if (before < home->nodes.count) {
        memmove(home->nodes.items + before + 1, home->nodes.items + before,
                (home->nodes.count - before) * sizeof *home->nodes.items);
    }
    home->nodes.items[before] = id;
    home->nodes.count++;
    for (uint32_t i = 0; i < node.output_count; i++) {
        if (node.outputs[i] == RLX_NONE) continue;
        graph->values.items[node.outputs[i]].producer = id;
        graph->values.items[node.outputs[i]].producer_output = i;
    }
    for (uint32_t i = 0; i < from->block_count; i++) {
        graph->blocks.items[from->blocks[i]].owner = id;
    }
    *out_node = id;
    return RLX_OK;
}

static rlx_status check_blocks(const rlx_graph *graph, const rlx_op_info *info,
                               const new_node *from) {
    uint32_t expected = from->op == RLX_OP_IF ? 2 : from->op == RLX_OP_LOOP ? 1 : 0;
    if (from->block_count != expected) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s has %u blocks, got %u", info->name, expected,
                        from->block_count);
    }
    for (uint32_t i = 0; i < from->block_count; i++) {
        const rlx_block *block = from->blocks[i] < graph->blocks.count && from->blocks[i] != 0
                                     ? &graph->blocks.items[from->blocks[i]]
                                     : NULL;
        if (block == NULL || block->is_open || block->owner != RLX_NONE ||
            block->parent != graph->current) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "%s: block %u is not a finished block of this place",
                            info->name, from->blocks[i]);
        }
    }
    return RLX_OK;
}

static rlx_status check_node(const rlx_graph *graph, rlx_block_id block, const new_node *from) {
    const rlx_op_info *info = rlx_op_info_of(from->op);
    if (info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "%d is no op", (int)from->op);
    RLX_TRY(check_arity(info, from->input_count, from->output_count));
    RLX_TRY(check_inputs(graph, info, block, from->inputs, from->input_count));
    for (uint32_t i = 0; from->outputs != NULL && i < info->out_least; i++) {
        if (from->outputs[i] != RLX_NONE) continue;
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s always has output %u", info->name, i);
    }
    if (from->attrs != NULL) RLX_TRY(check_attrs(info, from->attrs));
    return check_blocks(graph, info, from);
}

rlx_status rlx_graph_insert_node(rlx_graph *graph, rlx_block_id block, uint32_t before, rlx_op op,
                                 const void *attrs, const rlx_value_id *inputs,
                                 uint32_t input_count, const rlx_value_id *outputs,
                                 uint32_t output_count, rlx_node_id *out_node) {
    new_node from = {.op = op,
                     .attrs = attrs,
                     .inputs = inputs,
                     .outputs = outputs,
                     .input_count = input_count,
                     .output_count = output_count};
    RLX_TRY(check_node(graph, block, &from));
    return insert(graph, block, before, &from, out_node);
}

rlx_status rlx_graph_insert_flow(rlx_graph *graph, rlx_op op, const void *attrs,
                                 const rlx_value_id *inputs, uint32_t input_count,
                                 const rlx_block_id *blocks, uint32_t block_count,
                                 const rlx_value_id *outputs, uint32_t output_count,
                                 rlx_node_id *out_node) {
    new_node from = {op, attrs, inputs, outputs, blocks, input_count, output_count, block_count};
    RLX_TRY(check_node(graph, graph->current, &from));
    return insert(graph, graph->current, UINT32_MAX, &from, out_node);
}

/* Makes the output values, then the node; a failure takes the values back. */
static rlx_status add_node(rlx_graph *graph, new_node *from, rlx_value_id *out_values) {
    rlx_value_id *outputs = NULL;
    uint32_t first_value;
    rlx_node_id node;
    if (graph == NULL || (out_values == NULL && from->output_count != 0)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    }
    RLX_TRY(check_node(graph, graph->current, from));
    RLX_TRY(
        rlx_scratch_array(&graph->memory, from->output_count, sizeof *outputs, (void **)&outputs));
    first_value = graph->values.count;
    rlx_status status = RLX_OK;
    for (uint32_t i = 0; i < from->output_count && status == RLX_OK; i++) {
        status = rlx_graph_new_value(graph, NULL, RLX_VALUE_TEMPORARY, &outputs[i]);
    }
    from->outputs = outputs;
    if (status == RLX_OK) status = insert(graph, graph->current, UINT32_MAX, from, &node);
    if (status != RLX_OK) {
        rlx_graph_drop_values(graph, first_value);
        return status;
    }
    for (uint32_t i = 0; i < from->output_count; i++)
        out_values[i] = outputs[i];
    return RLX_OK;
}

rlx_status rlx_graph_add_node(rlx_graph *graph, rlx_op op, const void *attrs,
                              const rlx_value_id *inputs, uint32_t input_count,
                              uint32_t output_count, rlx_value_id *out_values) {
    new_node from = {.op = op,
                     .attrs = attrs,
                     .inputs = inputs,
                     .input_count = input_count,
                     .output_count = output_count};
    return add_node(graph, &from, out_values);
}

rlx_status rlx_graph_add_flow(rlx_graph *graph, rlx_op op, const void *attrs,
                              const rlx_value_id *inputs, uint32_t input_count,
                              const rlx_block_id *blocks, uint32_t block_count,
                              uint32_t output_count, rlx_value_id *out_values) {
    new_node from = {op, attrs, inputs, NULL, blocks, input_count, output_count, block_count};
    if (blocks == NULL && block_count != 0) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    return add_node(graph, &from, out_values);
}

rlx_status rlx_graph_begin_block(rlx_graph *graph, const rlx_value_id *like, uint32_t input_count,
                                 rlx_value_id *out_inputs, rlx_block_id *out_block) {
    rlx_block block = {.owner = RLX_NONE, .input_count = input_count, .is_open = true};
    rlx_status status = RLX_OK;
    if (graph == NULL || out_block == NULL ||
        (input_count != 0 && (like == NULL || out_inputs == NULL))) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    }
    for (uint32_t i = 0; i < input_count; i++) {
        if (like[i] != RLX_NONE && like[i] >= graph->values.count) {
            return RLX_FAIL(RLX_NOT_FOUND, "block input %u: no value %u", i, like[i]);
        }
    }
    block.parent = graph->current;
    RLX_TRY(rlx_scratch_array(&graph->memory, input_count, sizeof *block.inputs,
                              (void **)&block.inputs));
    RLX_TRY(rlx_vec_push(graph->allocator, &graph->blocks, block));
    uint32_t first_value = graph->values.count;
    graph->current = graph->blocks.count - 1;
    for (uint32_t i = 0; i < input_count && status == RLX_OK; i++) {
        status = rlx_graph_new_value(graph, NULL, RLX_VALUE_TEMPORARY, &block.inputs[i]);
        if (status != RLX_OK) break;
        rlx_value *value = &graph->values.items[block.inputs[i]];
        if (like[i] == RLX_NONE) { /* a loop's iteration number */
            value->type = rlx_type_make(RLX_DTYPE_I64, NULL, 0);
            value->is_typed = true;
        } else {
            value->type = graph->values.items[like[i]].type;
            value->is_typed = graph->values.items[like[i]].is_typed;
        }
    }
    if (status != RLX_OK) {
        graph->current = block.parent;
        graph->blocks.count--;
        rlx_graph_drop_values(graph, first_value);
        return status;
    }
    for (uint32_t i = 0; i < input_count; i++)
        out_inputs[i] = block.inputs[i];
    *out_block = graph->current;
    return RLX_OK;
}

rlx_status rlx_graph_end_block(rlx_graph *graph, rlx_block_id id, const rlx_value_id *yields,
                               uint32_t yield_count) {
    rlx_value_id *copy = NULL;
    if (graph == NULL || (yields == NULL && yield_count != 0)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    }
    if (id == 0 || id != graph->current) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "block %u is not the open one (%u)", id, graph->current);
    }
    for (uint32_t i = 0; i < yield_count; i++) {
        if (yields[i] >= graph->values.count || !is_visible(graph, yields[i], id)) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "block %u yields value %u, which it cannot see", id,
                            yields[i]);
        }
    }
    RLX_TRY(rlx_scratch_array(&graph->memory, yield_count, sizeof *copy, (void **)&copy));
    if (yield_count != 0) memcpy(copy, yields, yield_count * sizeof *copy);
    rlx_block *block = &graph->blocks.items[id];
    block->yields = copy;
    block->yield_count = yield_count;
    block->is_open = false;
    graph->current = block->parent;
    return RLX_OK;
}
