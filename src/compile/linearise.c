/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes become steps. Prepare steps come first; control flow becomes copies and jumps:
 *   if:   jump else; then..; outputs = yields; jump end; else: ..; outputs = yields; end:
 *   loop: carried = inits; top: leave unless (i < trip and go on); body; scanned rows stored;
 *         carried = yields; i = i + 1; jump top; end:
 * Copies here are cheap to spell; alias.c removes none of them. */
#include "compile/lower.h"

#include "ir/infer.h"
#include "ref/kernel.h"

#include <string.h>

static rlx_status push_step(rlx_lowered *self, const rlx_lowered_step *step) {
    return rlx_vec_push(self->graph->allocator, &self->steps, *step);
}

static rlx_status new_label(rlx_lowered *self, uint32_t *out_label) {
    *out_label = self->labels.count;
    return rlx_vec_push(self->graph->allocator, &self->labels, UINT32_MAX);
}

static void set_label(rlx_lowered *self, uint32_t label) {
    self->labels.items[label] = self->steps.count;
}

/* A step of a made-up node: its attributes are static or the graph's. */
static rlx_status push_op(rlx_lowered *self, rlx_node_id node, rlx_op op, const void *attrs,
                          const rlx_value_id *inputs, uint32_t input_count,
                          const rlx_value_id *outputs, uint32_t output_count) {
    rlx_lowered_step step = {.kind = RLX_STEP_KERNEL,
                             .op = op,
                             .attrs = attrs,
                             .input_count = input_count,
                             .output_count = output_count,
                             .node = node,
                             .label = UINT32_MAX,
                             .condition = RLX_NONE,
                             .value = RLX_NONE};
    RLX_TRY(rlx_scratch_array(self->scratch, input_count + 1u, sizeof *step.inputs,
                              (void **)&step.inputs));
    RLX_TRY(rlx_scratch_array(self->scratch, output_count + 1u, sizeof *step.outputs,
                              (void **)&step.outputs));
    for (uint32_t i = 0; i < input_count; i++)
        step.inputs[i] = inputs[i];
    for (uint32_t i = 0; i < output_count; i++)
        step.outputs[i] = outputs[i];
    return push_step(self, &step);
}

static rlx_status push_copy(rlx_lowered *self, rlx_node_id node, rlx_value_id from,
                            rlx_value_id to) {
    static const rlx_none_attrs none = {0};
    return push_op(self, node, RLX_OP_COPY, &none, &from, 1, &to, 1);
}

static rlx_status push_jump(rlx_lowered *self, rlx_node_id node, uint32_t label,
                            rlx_value_id condition, bool jump_if) {
    rlx_lowered_step step = {.kind = RLX_STEP_JUMP,
                             .node = node,
                             .label = label,
                             .condition = condition,
                             .value = RLX_NONE,
                             .jump_if = jump_if};
    return push_step(self, &step);
}

static rlx_status new_temporary(rlx_lowered *self, rlx_type type, rlx_value_id *out_value) {
    RLX_TRY(rlx_graph_new_value(self->graph, NULL, RLX_VALUE_TEMPORARY, out_value));
    self->graph->values.items[*out_value].type = type;
    self->graph->values.items[*out_value].is_typed = true;
    return RLX_OK;
}

static rlx_status new_constant_i64(rlx_lowered *self, int64_t number, rlx_value_id *out_value) {
    return rlx_graph_add_constant(self->graph, NULL, RLX_DTYPE_I64, (rlx_shape){0}, &number,
                                  sizeof number, out_value);
}

static rlx_status lower_block(rlx_lowered *self, rlx_block_id block);

static rlx_status lower_branch(rlx_lowered *self, rlx_node_id id, uint32_t branch) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_block_id block_id = node->blocks[branch];
    RLX_TRY(lower_block(self, block_id));
    for (uint32_t i = 0; i < self->graph->nodes.items[id].output_count; i++) {
        rlx_value_id output = self->graph->nodes.items[id].outputs[i];
        if (output == RLX_NONE) continue;
        RLX_TRY(push_copy(self, id, self->graph->blocks.items[block_id].yields[i], output));
    }
    return RLX_OK;
}

static rlx_status lower_if(rlx_lowered *self, rlx_node_id id) {
    uint32_t otherwise, end;
    rlx_value_id condition = self->graph->nodes.items[id].inputs[0];
    RLX_TRY(new_label(self, &otherwise));
    RLX_TRY(new_label(self, &end));
    RLX_TRY(push_jump(self, id, otherwise, condition, false));
    RLX_TRY(lower_branch(self, id, 0));
    RLX_TRY(push_jump(self, id, end, RLX_NONE, false));
    set_label(self, otherwise);
    RLX_TRY(lower_branch(self, id, 1));
    set_label(self, end);
    return RLX_OK;
}

/* The values that steer a loop. */
typedef struct loop_parts {
    rlx_node_id node;
    rlx_value_id iteration, go_on;       /* live through the loop */
    rlx_value_id trip, bound, one, test; /* trip RLX_NONE: only the condition ends it */
    uint32_t carried, scanned;
    rlx_value_id *rows; /* memory of each scanned output */
    int64_t most;       /* iterations */
    bool is_checked;    /* the bound needs a check at run time */
} loop_parts;

/* The bound of a loop as the shape rule found it: attribute, or a constant trip count. */
static rlx_status read_bound(const rlx_lowered *self, const rlx_node *node, loop_parts *parts) {
    const rlx_loop_attrs *attrs = node->attrs;
    int64_t trip = -1;
    parts->trip = node->inputs[0];
    if (parts->trip != RLX_NONE) {
        const rlx_value *value = &self->graph->values.items[parts->trip];
        if (value->kind == RLX_VALUE_CONSTANT && value->data_bytes == sizeof trip) {
            memcpy(&trip, value->data, sizeof trip);
            if (trip < 0) trip = 0;
        }
    }
    parts->most = attrs->bound != 0 ? attrs->bound : trip;
    parts->is_checked = trip < 0 || trip > parts->most;
    if (parts->most >= 0) return RLX_OK;
    char text[160];
    return RLX_FAIL(RLX_UNSUPPORTED, "%s: a loop without a constant trip count needs a bound",
                    rlx_node_text(self->graph, parts->node, text, sizeof text));
}

/* The rows of a scanned output, all of them: zero before its first row, since a loop may end early.
 * The output itself is this memory with the true number of rows. */
static rlx_status clear_scanned(rlx_lowered *self, const loop_parts *parts, rlx_value_id output,
                                rlx_value_id *out_rows) {
    rlx_type type = self->graph->values.items[output].type;
    rlx_reshape_attrs shape = {.shape = {.count = type.shape.rank}};
    const void *attrs = NULL;
    static const uint8_t zeros[512] = {0};
    uint64_t bytes;
    rlx_value_id zero, wide;
    for (uint32_t i = 0; i < type.shape.rank; i++) {
        shape.shape.items[i] = type.shape.dims[i];
        type.extents[i] = RLX_NONE;
    }
    rlx_type one = rlx_type_make(type.dtype, NULL, 0);
    RLX_TRY(rlx_type_bytes(&one, &bytes));
    RLX_TRY(
        rlx_graph_add_constant(self->graph, NULL, type.dtype, (rlx_shape){0}, zeros, bytes, &zero));
    RLX_TRY(rlx_graph_copy_attrs(self->graph, RLX_OP_EXPAND, &shape, &attrs));
    RLX_TRY(new_temporary(self, type, &wide));
    RLX_TRY(new_temporary(self, type, out_rows));
    RLX_TRY(push_op(self, parts->node, RLX_OP_EXPAND, attrs, &zero, 1, &wide, 1));
    return push_copy(self, parts->node, wide, *out_rows);
}

static rlx_status start_loop(rlx_lowered *self, loop_parts *parts) {
    const rlx_node *node = &self->graph->nodes.items[parts->node];
    rlx_block_id body = node->blocks[0];
    rlx_value_id condition = node->inputs[1], zero;
    rlx_type flag = rlx_type_make(RLX_DTYPE_BOOL, NULL, 0);
    RLX_TRY(new_constant_i64(self, 0, &zero));
    RLX_TRY(new_constant_i64(self, 1, &parts->one));
    RLX_TRY(new_constant_i64(self, parts->most, &parts->bound));
    RLX_TRY(new_temporary(self, flag, &parts->go_on));
    RLX_TRY(new_temporary(self, flag, &parts->test));
    parts->iteration = self->graph->blocks.items[body].inputs[0];
    RLX_TRY(push_copy(self, parts->node, zero, parts->iteration));
    if (condition == RLX_NONE) {
        const uint8_t yes = 1;
        RLX_TRY(rlx_graph_add_constant(self->graph, NULL, RLX_DTYPE_BOOL, (rlx_shape){0}, &yes, 1,
                                       &condition));
    }
    RLX_TRY(push_copy(self, parts->node, condition, parts->go_on));
    for (uint32_t i = 0; i < parts->carried; i++) {
        RLX_TRY(push_copy(self, parts->node, self->graph->nodes.items[parts->node].inputs[2 + i],
                          self->graph->blocks.items[body].inputs[1 + i]));
    }
    for (uint32_t i = 0; i < parts->scanned; i++) {
        rlx_value_id output = self->graph->nodes.items[parts->node].outputs[parts->carried + i];
        parts->rows[i] = RLX_NONE;
        if (output != RLX_NONE) RLX_TRY(clear_scanned(self, parts, output, &parts->rows[i]));
    }
    return RLX_OK;
}

static rlx_status push_less(rlx_lowered *self, const loop_parts *parts, rlx_value_id limit) {
    static const rlx_none_attrs none = {0};
    const rlx_value_id inputs[] = {parts->iteration, limit};
    return push_op(self, parts->node, RLX_OP_LESS, &none, inputs, 2, &parts->test, 1);
}

/* At the top: leave when the trip count or the condition says so; fault past the bound. */
static rlx_status test_loop(rlx_lowered *self, const loop_parts *parts, uint32_t end) {
    if (parts->trip != RLX_NONE) {
        RLX_TRY(push_less(self, parts, parts->trip));
        RLX_TRY(push_jump(self, parts->node, end, parts->test, false));
    }
    RLX_TRY(push_jump(self, parts->node, end, parts->go_on, false));
    if (!parts->is_checked) return RLX_OK;
    RLX_TRY(push_less(self, parts, parts->bound));
    rlx_lowered_step fault = {.kind = RLX_STEP_JUMP,
                              .node = parts->node,
                              .label = end,
                              .condition = parts->test,
                              .jump_if = false,
                              .fault_code = RLX_FAULT_BOUND,
                              .value = parts->iteration};
    return push_step(self, &fault);
}

/* Stores this iteration's row of a scanned output, like a state write at position i. */
static rlx_status store_row(rlx_lowered *self, const loop_parts *parts, rlx_value_id row,
                            rlx_value_id output) {
    static const rlx_state_write_attrs along_first = {.axis = 0, .wrap = true}; /* no extent */
    const rlx_type *type = &self->graph->values.items[row].type;
    rlx_type wide = rlx_type_make(type->dtype, NULL, 0);
    rlx_value_id rows;
    wide.shape.rank = type->shape.rank + 1;
    wide.shape.dims[0] = 1;
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        wide.shape.dims[i + 1] = type->shape.dims[i];
        wide.extents[i + 1] = type->extents[i];
    }
    rlx_axes_attrs axes = {.axes = {.count = 1}};
    const void *attrs = NULL;
    RLX_TRY(rlx_graph_copy_attrs(self->graph, RLX_OP_UNSQUEEZE, &axes, &attrs));
    RLX_TRY(new_temporary(self, wide, &rows));
    RLX_TRY(push_op(self, parts->node, RLX_OP_UNSQUEEZE, attrs, &row, 1, &rows, 1));
    const rlx_value_id inputs[] = {output, rows, parts->iteration};
    rlx_value_id length;
    RLX_TRY(new_temporary(self, rlx_type_make(RLX_DTYPE_I64, NULL, 0), &length));
    const rlx_value_id outputs[] = {output, length};
    return push_op(self, parts->node, RLX_OP_STATE_WRITE, &along_first, inputs, 3, outputs, 2);
}

/* carried = yields. A yield that is a carried input, or a view of one, is saved first, so that
 * swaps work. */
static rlx_status carry_over(rlx_lowered *self, const loop_parts *parts) {
    rlx_block_id body = self->graph->nodes.items[parts->node].blocks[0];
    rlx_value_id *from = NULL;
    RLX_TRY(rlx_scratch_array(self->scratch, parts->carried + 1u, sizeof *from, (void **)&from));
    for (uint32_t i = 0; i < parts->carried; i++) {
        from[i] = self->graph->blocks.items[body].yields[1 + i];
        const rlx_value *value = &self->graph->values.items[from[i]];
        bool is_own = from[i] == self->graph->blocks.items[body].inputs[1 + i];
        const rlx_value *root = &self->graph->values.items[rlx_view_root(self->graph, from[i])];
        if (is_own || root->producer != RLX_NONE || root->block != body) continue;
        rlx_value_id saved;
        RLX_TRY(new_temporary(self, value->type, &saved));
        RLX_TRY(push_copy(self, parts->node, from[i], saved));
        from[i] = saved;
    }
    for (uint32_t i = 0; i < parts->carried; i++) {
        rlx_value_id to = self->graph->blocks.items[body].inputs[1 + i];
        if (from[i] != to) RLX_TRY(push_copy(self, parts->node, from[i], to));
    }
    return RLX_OK;
}

static rlx_status end_iteration(rlx_lowered *self, const loop_parts *parts) {
    static const rlx_none_attrs none = {0};
    rlx_block_id body = self->graph->nodes.items[parts->node].blocks[0];
    const rlx_value_id inputs[] = {parts->iteration, parts->one};
    for (uint32_t i = 0; i < parts->scanned; i++) {
        rlx_value_id row = self->graph->blocks.items[body].yields[1 + parts->carried + i];
        rlx_value_id rows = parts->rows[i];
        if (rows == RLX_NONE || self->graph->values.items[rows].type.shape.dims[0] == 0) continue;
        RLX_TRY(store_row(self, parts, row, rows)); /* of 0 iterations there is no row */
    }
    RLX_TRY(push_copy(self, parts->node, self->graph->blocks.items[body].yields[0], parts->go_on));
    RLX_TRY(carry_over(self, parts));
    return push_op(self, parts->node, RLX_OP_ADD, &none, inputs, 2, &parts->iteration, 1);
}

/* Outputs are what was carried last; the optional last one is the number of iterations. */
static rlx_status finish_loop(rlx_lowered *self, const loop_parts *parts) {
    const rlx_node *node = &self->graph->nodes.items[parts->node];
    rlx_block_id body = node->blocks[0];
    uint32_t output_count = node->output_count;
    for (uint32_t i = 0; i < output_count; i++) {
        rlx_value_id output = self->graph->nodes.items[parts->node].outputs[i];
        if (output == RLX_NONE) continue;
        if (i >= parts->carried && i < parts->carried + parts->scanned) {
            static const rlx_none_attrs none = {0};
            rlx_value_id rows = parts->rows[i - parts->carried];
            RLX_TRY(push_op(self, parts->node, RLX_OP_IDENTITY, &none, &rows, 1, &output, 1));
            self->steps.items[self->steps.count - 1].must_alias = true;
            continue;
        }
        rlx_value_id from =
            i < parts->carried ? self->graph->blocks.items[body].inputs[1 + i] : parts->iteration;
        RLX_TRY(push_copy(self, parts->node, from, output));
    }
    return RLX_OK;
}

static rlx_status lower_loop(rlx_lowered *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    loop_parts parts = {.node = id, .carried = node->input_count - 2};
    uint32_t top, end;
    parts.scanned = self->graph->blocks.items[node->blocks[0]].yield_count - 1 - parts.carried;
    RLX_TRY(rlx_scratch_array(self->scratch, parts.scanned + 1u, sizeof *parts.rows,
                              (void **)&parts.rows));
    RLX_TRY(read_bound(self, node, &parts));
    RLX_TRY(start_loop(self, &parts));
    RLX_TRY(new_label(self, &top));
    RLX_TRY(new_label(self, &end));
    set_label(self, top);
    rlx_lowered_loop loop = {.first = self->steps.count};
    RLX_TRY(test_loop(self, &parts, end));
    RLX_TRY(lower_block(self, self->graph->nodes.items[id].blocks[0]));
    RLX_TRY(end_iteration(self, &parts));
    loop.last = self->steps.count;
    RLX_TRY(push_jump(self, id, top, RLX_NONE, false));
    RLX_TRY(rlx_vec_push(self->graph->allocator, &self->loops, loop));
    set_label(self, end);
    return finish_loop(self, &parts);
}

/* Rows that are a view of the very state they go to are copied first. */
static rlx_status lower_state_write(rlx_lowered *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_value_id inputs[] = {node->inputs[0], node->inputs[1], node->inputs[2]}, rows;
    const rlx_value_id *outputs = node->outputs;
    const void *attrs = node->attrs;
    uint32_t output_count = node->output_count;
    if (rlx_view_root(self->graph, inputs[1]) == rlx_view_root(self->graph, inputs[0])) {
        RLX_TRY(new_temporary(self, self->graph->values.items[inputs[1]].type, &rows));
        RLX_TRY(push_copy(self, id, inputs[1], rows));
        inputs[1] = rows;
    }
    return push_op(self, id, RLX_OP_STATE_WRITE, attrs, inputs, 3, outputs, output_count);
}

/* What ranks exchange lies where they reach it: of weights, and of inputs that are views of them, a
 * copy is sent. */
static rlx_status lower_collective(rlx_lowered *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_value_id input = node->inputs[0], root = rlx_view_root(self->graph, input), copy;
    rlx_value_id output = node->outputs[0];
    rlx_op op = node->op;
    const void *attrs = node->attrs;
    bool is_weight = self->graph->values.items[root].kind == RLX_VALUE_CONSTANT ||
                     (root < self->prepared_count && self->is_prepared[root]);
    if (is_weight) {
        RLX_TRY(new_temporary(self, self->graph->values.items[input].type, &copy));
        RLX_TRY(push_copy(self, id, input, copy));
        input = copy;
    }
    return push_op(self, id, op, attrs, &input, 1, &output, 1);
}

static rlx_status lower_node(rlx_lowered *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    if ((rlx_op_info_of(node->op)->flags & RLX_OPF_COLLECTIVE) != 0) {
        return lower_collective(self, id);
    }
    if (node->op == RLX_OP_STATE_WRITE) return lower_state_write(self, id);
    if (node->op == RLX_OP_IF) return lower_if(self, id);
    if (node->op == RLX_OP_LOOP) return lower_loop(self, id);
    return push_op(self, id, node->op, node->attrs, node->inputs, node->input_count, node->outputs,
                   node->output_count);
}

static rlx_status lower_block(rlx_lowered *self, rlx_block_id block) {
    for (uint32_t i = 0; i < self->graph->blocks.items[block].nodes.count; i++) {
        rlx_node_id id = self->graph->blocks.items[block].nodes.items[i];
        if (!self->graph->nodes.items[id].is_dead) RLX_TRY(lower_node(self, id));
    }
    return RLX_OK;
}

/* Marks what is known once the weights are, and emits the steps that compute it. */
static rlx_status lower_prepare(rlx_lowered *self, const rlx_node_id *order, uint32_t count) {
    self->prepared_count = self->graph->values.count;
    RLX_TRY(rlx_scratch_array(self->scratch, self->prepared_count + 1u, 1,
                              (void **)&self->is_prepared));
    rlx_mark_prepared(self->graph, order, count, self->is_prepared);
    for (uint32_t i = 0; i < count; i++) {
        if (!rlx_is_prepare_node(self->graph, order[i], self->is_prepared)) continue;
        RLX_TRY(lower_node(self, order[i]));
        self->steps.items[self->steps.count - 1].is_prepare = true;
    }
    return RLX_OK;
}

rlx_status rlx_lower_linearise(rlx_lowered *self, const rlx_node_id *order, uint32_t count) {
    RLX_TRY(lower_prepare(self, order, count));
    for (uint32_t i = 0; i < count; i++) {
        if (rlx_is_prepare_node(self->graph, order[i], self->is_prepared)) continue;
        RLX_TRY(lower_node(self, order[i]));
    }
    return RLX_OK;
}

void rlx_lower_free(rlx_lowered *self) {
    if (self->graph == NULL) return;
    rlx_vec_free(self->graph->allocator, &self->steps);
    rlx_vec_free(self->graph->allocator, &self->labels);
    rlx_vec_free(self->graph->allocator, &self->loops);
    self->graph = NULL;
}
