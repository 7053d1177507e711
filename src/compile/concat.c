/* SPDX-License-Identifier: Apache-2.0 */
/* Concat in place: the parts are computed right where the whole will stand. Rewrites each concat
 * into copies of the parts that cannot be, and an elided step that stands for the finished whole;
 * notes the storage of the parts for alias.c. May raise the peak (the whole lives longer), so
 * lowering is tried both ways. */
#include "compile/lower.h"

#include "ir/dtype.h"

#include <string.h>

typedef struct planner {
    rlx_lowered *self;
    rlx_storage *planned; /* per value; grows with the values that copies need */
    uint32_t planned_count;
    uint32_t *maker; /* per value of the beginning: step, UINT32_MAX: none or several */
    uint32_t maker_count;
    uint8_t *is_sent; /* per value of the beginning: ranks exchange it, so it stays plain */
} planner;

static bool has_extents(const rlx_type *type) {
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (type->extents[i] != RLX_NONE) return true;
    }
    return false;
}

static bool is_concat(const rlx_lowered *self, const rlx_lowered_step *step) {
    if (step->kind == RLX_STEP_JUMP || step->op != RLX_OP_CONCAT || step->is_prepare) return false;
    const rlx_type *type = &self->graph->values.items[step->outputs[0]].type;
    return rlx_dtype_block_elements(type->dtype) == 1 && !has_extents(type) &&
           !step->choice.plain_outputs;
}

static bool is_output(const rlx_graph *graph, rlx_value_id value) {
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        if (graph->outputs.items[i].value == value) return true;
    }
    return false;
}

/* Whether the value can be computed inside the whole. */
static bool can_move(const planner *plan, rlx_value_id value, rlx_block_id block) {
    const rlx_lowered *self = plan->self;
    if (value >= plan->maker_count || plan->maker[value] == UINT32_MAX) return false;
    if (plan->planned[value].root != RLX_NONE || is_output(self->graph, value)) return false;
    if (plan->is_sent[value]) return false;
    const rlx_lowered_step *maker = &self->steps.items[plan->maker[value]];
    if (maker->is_prepare || maker->node == RLX_NONE || maker->choice.plain_outputs) return false;
    if (self->graph->nodes.items[maker->node].block != block) return false;
    if ((rlx_op_info_of(maker->op)->flags & RLX_OPF_VIEW) != 0) return false;
    return maker->op != RLX_OP_STATE_WRITE && !has_extents(&self->graph->values.items[value].type);
}

/* The storage of the part that begins at `position` of the axis. */
static rlx_storage part_of(const rlx_lowered *self, const rlx_storage *whole, rlx_value_id output,
                           uint32_t axis, int64_t position) {
    rlx_storage part = *whole;
    const rlx_type *type = &self->graph->values.items[output].type;
    part.byte_offset +=
        position * whole->strides[axis] * (int64_t)rlx_dtype_block_bytes(type->dtype);
    return part;
}

static rlx_status grow_planned(planner *plan) {
    rlx_storage *grown = NULL;
    uint32_t count = plan->self->graph->values.count;
    if (count <= plan->planned_count) return RLX_OK;
    count += plan->planned_count == 0 ? 64 : count / 4; /* copies are few */
    RLX_TRY(rlx_scratch_array(plan->self->scratch, count, sizeof *grown, (void **)&grown));
    if (plan->planned_count != 0) memcpy(grown, plan->planned, plan->planned_count * sizeof *grown);
    for (uint32_t i = plan->planned_count; i < count; i++)
        grown[i].root = RLX_NONE;
    plan->planned = grown;
    plan->planned_count = count;
    return RLX_OK;
}

/* Plans the parts of one concat; parts that cannot move get a value of their own to be copied into,
 * which replaces them among the step's inputs; `copies` notes the original. */
static rlx_status plan_concat(planner *plan, rlx_lowered_step *step, rlx_value_id *copies) {
    rlx_lowered *self = plan->self;
    rlx_value_id output = step->outputs[0];
    const rlx_axis_attrs *attrs = step->attrs;
    const rlx_type *type = &self->graph->values.items[output].type;
    uint32_t rank = type->shape.rank;
    uint32_t axis = (uint32_t)(attrs->axis < 0 ? attrs->axis + rank : attrs->axis);
    rlx_storage whole = plan->planned[output];
    int64_t position = 0;
    if (whole.root == RLX_NONE) {
        whole = (rlx_storage){.root = output};
        rlx_plain_strides(&type->shape, whole.strides);
        plan->planned[output] = whole;
    }
    for (uint32_t i = 0; i < step->input_count; i++) {
        rlx_value_id input = step->inputs[i];
        rlx_storage part = part_of(self, &whole, output, axis, position);
        position += self->graph->values.items[input].type.shape.dims[axis];
        copies[i] = RLX_NONE;
        if (!can_move(plan, input, self->graph->nodes.items[step->node].block)) {
            copies[i] = input;
            RLX_TRY(rlx_graph_new_value(self->graph, NULL, RLX_VALUE_TEMPORARY, &input));
            self->graph->values.items[input].type = self->graph->values.items[copies[i]].type;
            self->graph->values.items[input].is_typed = true;
            step->inputs[i] = input;
            RLX_TRY(grow_planned(plan));
        }
        plan->planned[input] = part;
    }
    step->is_elided = true;
    return RLX_OK;
}

static void find_makers(planner *plan) {
    rlx_lowered *self = plan->self;
    for (uint32_t s = 0; s < self->steps.count; s++) {
        const rlx_lowered_step *step = &self->steps.items[s];
        if (step->kind == RLX_STEP_COLLECTIVE && step->inputs[0] < plan->maker_count) {
            plan->is_sent[step->inputs[0]] = 1;
        }
        for (uint32_t i = 0; i < step->output_count; i++) {
            rlx_value_id value = step->outputs[i];
            if (value == RLX_NONE || value >= plan->maker_count) continue;
            plan->maker[value] = plan->maker[value] == UINT32_MAX ? s : UINT32_MAX - 1;
        }
    }
    for (uint32_t v = 0; v < plan->maker_count; v++) {
        if (plan->maker[v] == UINT32_MAX - 1) plan->maker[v] = UINT32_MAX; /* several */
    }
}

/* The steps again, with the copies before each concat; labels and loops follow. */
static rlx_status insert_copies(rlx_lowered *self, rlx_value_id **copies) {
    static const rlx_none_attrs none = {0};
    const rlx_allocator *allocator = self->graph->allocator;
    uint32_t *moved = NULL, count = self->steps.count;
    RLX_VEC(rlx_lowered_step) steps = {0};
    rlx_status status =
        rlx_scratch_array(self->scratch, count + 1u, sizeof *moved, (void **)&moved);
    for (uint32_t s = 0; s < count && status == RLX_OK; s++) {
        const rlx_lowered_step *step = &self->steps.items[s];
        moved[s] = steps.count;
        for (uint32_t i = 0; copies[s] != NULL && i < step->input_count; i++) {
            if (copies[s][i] == RLX_NONE || status != RLX_OK) continue;
            rlx_lowered_step copy = {.kind = RLX_STEP_KERNEL,
                                     .op = RLX_OP_COPY,
                                     .attrs = &none,
                                     .inputs = &copies[s][i],
                                     .outputs = &step->inputs[i],
                                     .input_count = 1,
                                     .output_count = 1,
                                     .node = step->node,
                                     .label = UINT32_MAX,
                                     .condition = RLX_NONE,
                                     .value = RLX_NONE};
            status = rlx_vec_push(allocator, &steps, copy);
        }
        if (status == RLX_OK) status = rlx_vec_push(allocator, &steps, *step);
    }
    if (status != RLX_OK) {
        rlx_vec_free(allocator, &steps);
        return status;
    }
    moved[count] = steps.count;
    for (uint32_t i = 0; i < self->labels.count; i++) {
        self->labels.items[i] = moved[self->labels.items[i]];
    }
    for (uint32_t i = 0; i < self->loops.count; i++) {
        self->loops.items[i].first = moved[self->loops.items[i].first];
        self->loops.items[i].last = moved[self->loops.items[i].last];
    }
    rlx_vec_free(allocator, &self->steps);
    memcpy(&self->steps, &steps, sizeof steps);
    return RLX_OK;
}

rlx_status rlx_lower_concats(rlx_lowered *self, rlx_storage **out_planned, uint32_t *out_count) {
    planner plan = {.self = self, .maker_count = self->graph->values.count};
    rlx_value_id **copies = NULL;
    RLX_TRY(grow_planned(&plan));
    if (self->concat_in_place) {
        RLX_TRY(rlx_scratch_array(self->scratch, plan.maker_count + 1u, sizeof *plan.maker,
                                  (void **)&plan.maker));
        RLX_TRY(rlx_scratch_array(self->scratch, plan.maker_count + 1u, 1, (void **)&plan.is_sent));
        memset(plan.maker, 0xFF, plan.maker_count * sizeof *plan.maker);
        RLX_TRY(rlx_scratch_array(self->scratch, self->steps.count + 1u, sizeof *copies,
                                  (void **)&copies));
        find_makers(&plan);
        for (uint32_t s = self->steps.count; s-- > 0;) { /* outer concats before inner ones */
            rlx_lowered_step *step = &self->steps.items[s];
            if (!is_concat(self, step)) continue;
            RLX_TRY(rlx_scratch_array(self->scratch, step->input_count + 1u, sizeof **copies,
                                      (void **)&copies[s]));
            RLX_TRY(plan_concat(&plan, step, copies[s]));
        }
        RLX_TRY(insert_copies(self, copies));
    }
    *out_planned = plan.planned;
    *out_count = plan.planned_count;
    return RLX_OK;
}
