/* SPDX-License-Identifier: Apache-2.0 */
/* Which value lives in whose memory: views of another value, elementwise results over a dying
 * input, writes of a state in the state itself, parts of a concat in the whole; all others get
 * memory of their own. */
#include "compile/lower.h"

#include "ir/dtype.h"
#include "ir/view.h"

#include <string.h>

void rlx_plain_strides(const rlx_shape *shape, int64_t *out_strides) {
    int64_t stride = 1;
    for (uint32_t i = shape->rank; i-- > 0;) {
        out_strides[i] = stride;
        stride *= shape->dims[i];
    }
}

bool rlx_strides_are_plain(const rlx_shape *shape, const int64_t *strides) {
    int64_t expected = 1;
    for (uint32_t i = shape->rank; i-- > 0;) {
        if (shape->dims[i] != 1 && strides[i] != expected) return false;
        expected *= shape->dims[i];
    }
    return true;
}

typedef struct aliaser {
    rlx_lowered *self;
    rlx_graph *graph;
    rlx_storage *planned; /* parts of concats */
    uint32_t planned_count;
    uint32_t *root_last;   /* per root: last use of all who live there */
    uint8_t *needs_plain;  /* per value: a consumer takes no strides, or it is an output */
    uint32_t *write_steps; /* all that write states */
    rlx_value_id *written; /* the state of each of them */
    uint32_t write_count;
    bool has_views, has_in_place;
} aliaser;

static const rlx_type *type_of(const aliaser *self, rlx_value_id value) {
    return &self->graph->values.items[value].type;
}

static void attach(aliaser *self, rlx_value_id value, const rlx_storage *storage) {
    uint32_t last = self->self->family_use[value];
    self->self->storages[value] = *storage;
    if (last > self->root_last[storage->root]) self->root_last[storage->root] = last;
}

/* Of memory of its own; packed values have none. */
static void own_strides(const rlx_type *type, int64_t *strides) {
    if (type->layout == RLX_LAYOUT_PLAIN) {
        rlx_plain_strides(&type->shape, strides);
    } else {
        memset(strides, 0, RLX_MAX_RANK * sizeof *strides);
    }
}

static rlx_status own_memory(aliaser *self, rlx_value_id value) {
    rlx_storage storage = {.root = value};
    rlx_root *root = &self->self->roots[value];
    own_strides(type_of(self, value), storage.strides);
    RLX_TRY(rlx_type_bytes(type_of(self, value), &root->bytes));
    root->is_used = true;
    attach(self, value, &storage);
    return RLX_OK;
}

static rlx_status find_writes(aliaser *self) {
    const rlx_lowered *lowered = self->self;
    uint64_t steps = lowered->steps.count + 1u;
    RLX_TRY(rlx_scratch_array(lowered->scratch, steps, sizeof *self->write_steps,
                              (void **)&self->write_steps));
    RLX_TRY(
        rlx_scratch_array(lowered->scratch, steps, sizeof *self->written, (void **)&self->written));
    for (uint32_t s = 0; s < lowered->steps.count; s++) {
        const rlx_lowered_step *step = &lowered->steps.items[s];
        if (step->kind == RLX_STEP_JUMP || step->op != RLX_OP_STATE_WRITE) continue;
        self->write_steps[self->write_count] = s;
        self->written[self->write_count++] = rlx_view_root(self->graph, step->inputs[0]);
    }
    return RLX_OK;
}

/* Whether a state changes while a view of it, made at step s, is still looked at. */
static bool changes_under(const aliaser *self, rlx_value_id state, uint32_t s, rlx_value_id view) {
    if (self->graph->values.items[state].kind != RLX_VALUE_STATE) return false;
    for (uint32_t i = 0; i < self->write_count; i++) {
        uint32_t at = self->write_steps[i];
        if (self->written[i] == state && at > s && at <= self->self->family_use[view]) return true;
    }
    return false;
}

/* The view through which output `output` of step s sees its input, if it may be one. */
static bool try_view(aliaser *self, uint32_t s, uint32_t output) {
    const rlx_lowered_step *step = &self->self->steps.items[s];
    rlx_value_id from = step->inputs[0], to = step->outputs[output];
    const rlx_storage *source = &self->self->storages[from];
    const rlx_type *in_type = type_of(self, from), *out_type = type_of(self, to);
    rlx_tensor in = {.dtype = in_type->dtype, .rank = in_type->shape.rank};
    rlx_tensor out = {.dtype = out_type->dtype, .rank = out_type->shape.rank};
    rlx_storage storage = {.root = source->root};
    const rlx_dtype_row *row = rlx_dtype_row_of(in_type->dtype);
    int64_t offset = 0;
    if ((!self->has_views && !step->must_alias) || in_type->dtype != out_type->dtype) return false;
    if (in_type->layout != RLX_LAYOUT_PLAIN) return false;
    if (changes_under(self, source->root, s, to)) return false;
    memcpy(in.dims, in_type->shape.dims, sizeof in.dims);
    memcpy(in.strides, source->strides, sizeof in.strides);
    memcpy(out.dims, out_type->shape.dims, sizeof out.dims);
    if (step->op == RLX_OP_IDENTITY) {
        memcpy(out.strides, in.strides, sizeof out.strides);
    } else if (!rlx_view_of(step->op, step->attrs, output, step->output_count, &in, &out,
                            &offset)) {
        return false;
    }
    if (self->needs_plain[to] && !rlx_strides_are_plain(&out_type->shape, out.strides)) {
        return false;
    }
    if (rlx_tensor_elements(&out) == 0) offset = 0; /* nothing lies at it, and it may be outside */
    /* Blocks: rlx_view_of gives only offsets that fall on them. */
    storage.byte_offset =
        source->byte_offset + offset / (int64_t)row->block_elements * (int64_t)row->block_bytes;
    memcpy(storage.strides, out.strides, sizeof storage.strides);
    attach(self, to, &storage);
    return true;
}

/* Two values that see the same elements in the same order: a part of the other one is not enough,
 * though its strides may be equal. */
static bool same_place(const aliaser *self, rlx_value_id a, rlx_value_id b) {
    const rlx_storage *first = &self->self->storages[a], *second = &self->self->storages[b];
    const rlx_shape *shape = &type_of(self, a)->shape;
    if (first->root != second->root || first->byte_offset != second->byte_offset) return false;
    return rlx_shape_equal(shape, &type_of(self, b)->shape) &&
           memcmp(first->strides, second->strides, shape->rank * sizeof *first->strides) == 0;
}

/* Whether the op, or this kernel of it, reads each element of the input for the last time before it
 * writes that element. */
static bool reads_first(const rlx_lowered_step *step, uint32_t index) {
    return rlx_op_may_overwrite(step->op, index) || (index == 0 && step->choice.overwrites_first);
}

/* Whether the output may be written over input `index`: it dies here, has the same elements in
 * plain order and fills its memory, and nothing else in the step sees that memory otherwise. */
static bool can_overwrite(const aliaser *self, const rlx_lowered_step *step, uint32_t s,
                          uint32_t index) {
    rlx_value_id input = step->inputs[index], output = step->outputs[0];
    if (input == RLX_NONE || !reads_first(step, index)) return false;
    const rlx_storage *storage = &self->self->storages[input];
    const rlx_type *in = type_of(self, input), *out = type_of(self, output);
    rlx_value_kind kind = self->graph->values.items[storage->root].kind;
    uint64_t out_bytes;
    if (storage->root < self->self->prepared_count && self->self->is_prepared[storage->root]) {
        return false;
    }
    if (kind != RLX_VALUE_TEMPORARY && kind != RLX_VALUE_INPUT) return false;
    if (self->root_last[storage->root] > s || storage->byte_offset != 0) return false;
    if (!rlx_shape_equal(&in->shape, &out->shape)) return false;
    if (rlx_dtype_block_bytes(in->dtype) != rlx_dtype_block_bytes(out->dtype) ||
        rlx_dtype_block_elements(in->dtype) != rlx_dtype_block_elements(out->dtype)) {
        return false;
    }
    if (in->layout != out->layout) return false;
    if (in->layout == RLX_LAYOUT_PLAIN && !rlx_strides_are_plain(&in->shape, storage->strides)) {
        return false;
    }
    if (rlx_type_bytes(out, &out_bytes) != RLX_OK ||
        out_bytes != self->self->roots[storage->root].bytes) {
        return false;
    }
    for (uint32_t i = 0; i < step->input_count; i++) {
        if (i == index || step->inputs[i] == RLX_NONE) continue;
        const rlx_storage *other = &self->self->storages[step->inputs[i]];
        if (other->root == storage->root &&
            !(rlx_op_may_overwrite(step->op, i) && same_place(self, step->inputs[i], input))) {
            return false;
        }
    }
    return true;
}

static bool try_in_place(aliaser *self, const rlx_lowered_step *step, uint32_t s) {
    if (!self->has_in_place || step->is_prepare || step->output_count != 1) return false;
    for (uint32_t i = 0; i < step->input_count; i++) {
        if (!can_overwrite(self, step, s, i)) continue;
        rlx_storage storage = self->self->storages[step->inputs[i]];
        own_strides(type_of(self, step->outputs[0]), storage.strides);
        attach(self, step->outputs[0], &storage);
        return true;
    }
    return false;
}

static rlx_status place_state_write(aliaser *self, const rlx_lowered_step *step) {
    rlx_value_id state = step->inputs[0], written = step->outputs[0];
    if (written != RLX_NONE && written != state) {
        rlx_storage storage = self->self->storages[state];
        attach(self, written, &storage);
    }
    if (step->output_count > 1 && step->outputs[1] != RLX_NONE) {
        RLX_TRY(own_memory(self, step->outputs[1]));
    }
    return RLX_OK;
}

static rlx_status place_output(aliaser *self, rlx_lowered_step *step, uint32_t s, uint32_t output) {
    rlx_value_id value = step->outputs[output];
    if (value == RLX_NONE || self->self->storages[value].root != RLX_NONE) return RLX_OK;
    if (value < self->planned_count && self->planned[value].root != RLX_NONE) {
        const rlx_storage *storage = &self->planned[value];
        if (storage->root != value) {
            if (self->self->storages[storage->root].root == RLX_NONE) {
                RLX_TRY(own_memory(self, storage->root)); /* the whole begins with its first part */
            }
            attach(self, value, storage);
            return RLX_OK;
        }
        return own_memory(self, value);
    }
    if (try_in_place(self, step, s)) return RLX_OK;
    return own_memory(self, value);
}

/* View ops: elided when all wanted outputs are views; else the op runs and copies. */
static bool elide_view(aliaser *self, uint32_t s) {
    rlx_lowered_step *step = &self->self->steps.items[s];
    if ((rlx_op_info_of(step->op)->flags & RLX_OPF_VIEW) == 0) return false;
    for (uint32_t i = 0; i < step->output_count; i++) {
        if (step->outputs[i] == RLX_NONE) continue;
        if (step->outputs[i] < self->planned_count &&
            self->planned[step->outputs[i]].root != RLX_NONE) {
            return false;
        }
        if (!try_view(self, s, i)) {
            for (uint32_t k = 0; k < i; k++) { /* take the others back */
                if (step->outputs[k] != RLX_NONE) {
                    self->self->storages[step->outputs[k]].root = RLX_NONE;
                }
            }
            return false;
        }
    }
    step->is_elided = true;
    return true;
}

static rlx_status place_step(aliaser *self, uint32_t s) {
    rlx_lowered_step *step = &self->self->steps.items[s];
    if (step->kind == RLX_STEP_JUMP) return RLX_OK;
    if (step->op == RLX_OP_STATE_WRITE) return place_state_write(self, step);
    if (elide_view(self, s)) return RLX_OK;
    for (uint32_t i = 0; i < step->output_count; i++)
        RLX_TRY(place_output(self, step, s, i));
    return RLX_OK;
}

static void find_plain_needs(aliaser *self) {
    const rlx_lowered *lowered = self->self;
    for (uint32_t s = 0; s < lowered->steps.count; s++) {
        const rlx_lowered_step *step = &lowered->steps.items[s];
        for (uint32_t i = 0; i < step->input_count && i < 32; i++) {
            if (step->inputs[i] != RLX_NONE && (step->choice.plain_inputs >> i & 1) != 0) {
                self->needs_plain[step->inputs[i]] = 1;
            }
        }
    }
    for (uint32_t i = 0; i < self->graph->outputs.count; i++) {
        self->needs_plain[self->graph->outputs.items[i].value] = 1;
    }
}

/* Inputs, parameters, constants and states have memory before any step. */
static rlx_status place_leaves(aliaser *self) {
    for (uint32_t v = 0; v < self->self->value_count; v++) {
        const rlx_value *value = &self->graph->values.items[v];
        bool is_wanted = self->self->last_use[v] != UINT32_MAX || value->kind == RLX_VALUE_INPUT;
        if (value->kind != RLX_VALUE_TEMPORARY && is_wanted) RLX_TRY(own_memory(self, v));
    }
    return RLX_OK;
}

rlx_status rlx_lower_alias(rlx_lowered *lowered) {
    aliaser self = {.self = lowered,
                    .graph = lowered->graph,
                    .has_views = rlx_pass_is_on(lowered->options, "views"),
                    .has_in_place = rlx_pass_is_on(lowered->options, "in_place")};
    RLX_TRY(rlx_lower_concats(lowered, &self.planned, &self.planned_count));
    RLX_TRY(rlx_lower_uses(lowered));
    uint64_t values = lowered->value_count + 1u;
    rlx_scratch *scratch = lowered->scratch;
    RLX_TRY(
        rlx_scratch_array(scratch, values, sizeof *lowered->storages, (void **)&lowered->storages));
    RLX_TRY(rlx_scratch_array(scratch, values, sizeof *lowered->roots, (void **)&lowered->roots));
    RLX_TRY(rlx_scratch_array(scratch, values, sizeof(uint32_t), (void **)&self.root_last));
    RLX_TRY(rlx_scratch_array(scratch, values, 1, (void **)&self.needs_plain));
    for (uint32_t v = 0; v < values; v++)
        lowered->storages[v].root = RLX_NONE;
    find_plain_needs(&self);
    RLX_TRY(find_writes(&self));
    RLX_TRY(place_leaves(&self));
    for (uint32_t s = 0; s < lowered->steps.count; s++)
        RLX_TRY(place_step(&self, s));
    return RLX_OK;
}
