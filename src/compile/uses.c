/* SPDX-License-Identifier: Apache-2.0 */
/* Where each value is defined and last used, in numbers of lowered steps. Loops and views are
 * followed: what lives across a back edge lives to its end, and a value lives as long as its views.
 */
#include "compile/lower.h"

#include <string.h>

/* One past the last step: outputs are read after the run. */
static uint32_t after_all(const rlx_lowered *self) {
    return self->steps.count;
}

static void use(rlx_lowered *self, rlx_value_id value, uint32_t step) {
    if (value == RLX_NONE) return;
    if (self->last_use[value] == UINT32_MAX || self->last_use[value] < step) {
        self->last_use[value] = step;
    }
    const rlx_type *type = &self->graph->values.items[value].type;
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        rlx_value_id extent = type->extents[i];
        if (extent == RLX_NONE) continue;
        if (self->last_use[extent] == UINT32_MAX || self->last_use[extent] < step) {
            self->last_use[extent] = step;
        }
    }
}

static void note_step(rlx_lowered *self, uint32_t s) {
    const rlx_lowered_step *step = &self->steps.items[s];
    for (uint32_t i = 0; i < step->input_count; i++)
        use(self, step->inputs[i], s);
    use(self, step->condition, s);
    use(self, step->value, s);
    for (uint32_t i = 0; i < step->output_count; i++) {
        rlx_value_id value = step->outputs[i];
        if (value == RLX_NONE) continue;
        if (self->definition[value] == UINT32_MAX) self->definition[value] = s;
        use(self, value, s); /* and its extents */
    }
}

/* Inner loops come before outer ones in the list, so one walk is enough. */
static void extend_over_loops(rlx_lowered *self) {
    for (uint32_t l = 0; l < self->loops.count; l++) {
        rlx_lowered_loop loop = self->loops.items[l];
        for (uint32_t v = 0; v < self->value_count; v++) {
            bool is_before = self->definition[v] == UINT32_MAX || self->definition[v] < loop.first;
            uint32_t last = self->last_use[v];
            if (is_before && last != UINT32_MAX && last >= loop.first && last < loop.last) {
                self->last_use[v] = loop.last;
            }
        }
    }
}

/* Views come after what they see, so a walk from the end is enough. */
static void follow_views(rlx_lowered *self) {
    for (uint32_t s = self->steps.count; s-- > 0;) {
        const rlx_lowered_step *step = &self->steps.items[s];
        if (step->kind == RLX_STEP_JUMP || step->input_count == 0) continue;
        bool is_view =
            (rlx_op_info_of(step->op)->flags & RLX_OPF_VIEW) != 0 || step->op == RLX_OP_STATE_WRITE;
        uint32_t outputs = step->op == RLX_OP_STATE_WRITE ? 1 : step->output_count;
        for (uint32_t i = 0; is_view && i < outputs; i++) {
            if (step->outputs[i] == RLX_NONE) continue;
            uint32_t *seen = &self->family_use[step->inputs[0]];
            uint32_t last = self->family_use[step->outputs[i]];
            if (last > *seen) *seen = last;
        }
    }
}

rlx_status rlx_lower_uses(rlx_lowered *self) {
    const rlx_graph *graph = self->graph;
    self->value_count = graph->values.count;
    uint64_t values = self->value_count + 1u;
    RLX_TRY(rlx_scratch_array(self->scratch, values, sizeof(uint32_t), (void **)&self->last_use));
    RLX_TRY(rlx_scratch_array(self->scratch, values, sizeof(uint32_t), (void **)&self->definition));
    RLX_TRY(rlx_scratch_array(self->scratch, values, sizeof(uint32_t), (void **)&self->family_use));
    memset(self->last_use, 0xFF, values * sizeof(uint32_t));
    memset(self->definition, 0xFF, values * sizeof(uint32_t));
    for (uint32_t s = 0; s < self->steps.count; s++)
        note_step(self, s);
    for (uint32_t v = 0; v < self->value_count; v++) {
        rlx_value_kind kind = graph->values.items[v].kind;
        if (kind == RLX_VALUE_INPUT && self->options->keep_inputs) use(self, v, after_all(self));
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        use(self, graph->outputs.items[i].value, after_all(self));
    }
    extend_over_loops(self);
    for (uint32_t v = 0; v < self->value_count; v++) { /* 0 stands for never, too */
        self->family_use[v] = self->last_use[v] == UINT32_MAX ? 0 : self->last_use[v];
    }
    follow_views(self);
    return RLX_OK;
}
