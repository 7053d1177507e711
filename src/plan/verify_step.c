/* SPDX-License-Identifier: Apache-2.0 */
/* Verifier, part three: one step. Its op exists, its operands and attributes are what the op table
 * says, the op's own shape rule gives exactly the types of its output slots, no output lies on
 * memory that the step still reads, and it writes only where its place in the plan allows. */
#include "plan/verify.h"

#include "base/size.h"
#include "ir/dtype.h"
#include "ir/infer.h"

#include <string.h>

/* Attribute numbers beyond this mean nothing, except in slices, where "to the end" is INT64_MAX. */
static const int64_t most_number = INT64_C(1) << 48;

static const rlx_plan_slot *slot_at(const plan_check *check, uint32_t slot) {
    return &check->plan->slots.items[slot];
}

static rlx_status check_numbers(const rlx_field *field, const int64_t *items, uint32_t count,
                                rlx_op op) {
    for (uint32_t i = 0; i < count && op != RLX_OP_SLICE; i++) {
        if (items[i] < -most_number || items[i] > most_number) {
            return INVALID_PLAN("attribute %s: %" PRId64 " is out of range", field->name, items[i]);
        }
    }
    return RLX_OK;
}

static rlx_status check_enum(const rlx_field *field, uint32_t value) {
    uint32_t limit = 0;
    bool is_valid = false;
    if (field->kind == RLX_FIELD_DTYPE) {
        is_valid = rlx_dtype_row_of((rlx_dtype)value) != NULL;
    } else if (field->kind == RLX_FIELD_OP) {
        const rlx_op_info *info = rlx_op_info_of((rlx_op)value);
        is_valid = value == RLX_OP_NONE || (info != NULL && strcmp(info->family, "unary") == 0);
    } else {
        is_valid = rlx_field_names(field->kind, &limit) != NULL && value < limit;
    }
    if (is_valid) return RLX_OK;
    return INVALID_PLAN("attribute %s has no value %u", field->name, value);
}

static rlx_status check_field(const rlx_field *field, const char *at, rlx_op op) {
    uint32_t number;
    uint8_t flag;
    int64_t wide;
    rlx_ints ints;
    rlx_list list;
    switch (field->kind) {
    case RLX_FIELD_BOOL:
        memcpy(&flag, at, sizeof flag);
        if (flag <= 1) return RLX_OK;
        return INVALID_PLAN("attribute %s is %u, not a bool", field->name, flag);
    case RLX_FIELD_I64:
        memcpy(&wide, at, sizeof wide);
        return check_numbers(field, &wide, 1, op);
    case RLX_FIELD_F64:
        return RLX_OK;
    case RLX_FIELD_INTS:
        memcpy(&ints, at, sizeof ints);
        if (ints.count <= RLX_MAX_INTS) return check_numbers(field, ints.items, ints.count, op);
        return INVALID_PLAN("attribute %s has %u items, at most %u", field->name, ints.count,
                            RLX_MAX_INTS);
    case RLX_FIELD_LIST:
        memcpy(&list, at, sizeof list);
        if (list.count == 0 || list.items != NULL) return RLX_OK;
        return INVALID_PLAN("attribute %s has no items", field->name);
    default:
        memcpy(&number, at, sizeof number);
        return check_enum(field, number);
    }
}

static rlx_status check_attrs(const rlx_op_info *info, const rlx_plan_step *step) {
    if (step->attrs == NULL) return INVALID_PLAN("it has no attributes");
    for (uint32_t i = 0; i < info->field_count; i++) {
        const rlx_field *field = &info->fields[i];
        RLX_TRY(check_field(field, (const char *)step->attrs + field->offset, step->op));
    }
    return RLX_OK;
}

/* Counts as in the op table; what is not optional is there. Of an op with any number of inputs
 * (concat, chain) none may be missing. */
static rlx_status check_arity(const rlx_op_info *info, const rlx_plan_step *step,
                              const uint32_t *operands) {
    if (step->input_count < info->in_least || step->input_count > info->in_most ||
        step->output_count < info->out_least || step->output_count > info->out_most) {
        return INVALID_PLAN("%u inputs and %u outputs, the op has %u .. %u and %u .. %u",
                            step->input_count, step->output_count, info->in_least, info->in_most,
                            info->out_least, info->out_most);
    }
    uint32_t inputs = info->in_most == RLX_OP_MANY ? step->input_count : info->in_least;
    uint32_t outputs = info->out_most == RLX_OP_MANY ? step->output_count : info->out_least;
    for (uint32_t i = 0; i < inputs; i++) {
        if (operands[i] == RLX_NONE) return INVALID_PLAN("input %u is missing", i);
    }
    for (uint32_t i = 0; i < outputs; i++) {
        if (operands[step->input_count + i] == RLX_NONE) {
            return INVALID_PLAN("output %u is missing", i);
        }
    }
    return RLX_OK;
}

static rlx_type type_of(const rlx_plan_slot *slot) {
    rlx_type type = {.dtype = slot->dtype, .layout = slot->layout, .shape = {.rank = slot->rank}};
    for (uint32_t i = 0; i < RLX_MAX_RANK; i++) {
        type.shape.dims[i] = i < slot->rank ? slot->dims[i] : 0;
        type.extents[i] = i < slot->rank ? slot->extents[i] : RLX_NONE;
    }
    return type;
}

static rlx_status compare_type(const plan_check *check, uint32_t slot, const rlx_type *rule) {
    rlx_type have = type_of(slot_at(check, slot));
    char a[128], b[128];
    if (have.dtype != rule->dtype || have.layout != rule->layout ||
        !rlx_shape_equal(&have.shape, &rule->shape)) {
        return INVALID_PLAN(SLOT_FORMAT " is %s, the rule of the op gives %s",
                            SLOT_ARGS(check->plan, slot), rlx_type_text(NULL, &have, a, sizeof a),
                            rlx_type_text(NULL, rule, b, sizeof b));
    }
    for (uint32_t i = 0; i < have.shape.rank; i++) {
        if (have.extents[i] == rule->extents[i]) continue;
        return INVALID_PLAN(
            SLOT_FORMAT ": the extent of axis %u is slot %d, the rule of the op gives %d",
            SLOT_ARGS(check->plan, slot), i, (int)have.extents[i], (int)rule->extents[i]);
    }
    return RLX_OK;
}

/* Runs the op's shape rule on the slots, as if slot numbers were value ids. */
static rlx_status check_types(plan_check *check, const rlx_plan_step *step,
                              const uint32_t *operands) {
    uint32_t in_count = step->input_count, out_count = step->output_count;
    rlx_type *outputs = check->types + in_count;
    for (uint32_t i = 0; i < in_count + out_count; i++) {
        check->ids[i] = operands[i];
        check->types[i] = rlx_type_make(RLX_DTYPE_F32, NULL, 0);
        if (i < in_count && operands[i] != RLX_NONE) {
            check->types[i] = type_of(slot_at(check, operands[i]));
        }
        check->inputs[i] = operands[i] == RLX_NONE ? NULL : &check->types[i];
    }
    rlx_infer infer = {.in_ids = check->ids,
                       .out_ids = check->ids + in_count,
                       .op = step->op,
                       .attrs = step->attrs,
                       .in_count = in_count,
                       .out_count = out_count,
                       .in = check->inputs,
                       .out = outputs};
    RLX_TRY(rlx_infer_types(&infer));
    for (uint32_t i = 0; i < out_count; i++) {
        uint32_t slot = operands[in_count + i];
        if (slot != RLX_NONE) RLX_TRY(compare_type(check, slot, &outputs[i]));
    }
    return RLX_OK;
}

/* Same address, same element size, and the same dims and strides once dims of 1 are dropped. */
static bool is_same_place(const rlx_plan_slot *a, const rlx_plan_slot *b) {
    const rlx_dtype_row *a_row = rlx_dtype_row_of(a->dtype), *b_row = rlx_dtype_row_of(b->dtype);
    uint32_t i = 0, k = 0;
    if (a->layout != b->layout || a->byte_offset != b->byte_offset ||
        a_row->block_bytes != b_row->block_bytes ||
        a_row->block_elements != b_row->block_elements) {
        return false;
    }
    if (a->layout != RLX_LAYOUT_PLAIN && a->rank != b->rank) return false;
    for (;; i++, k++) {
        while (i < a->rank && a->dims[i] == 1)
            i++;
        while (k < b->rank && b->dims[k] == 1)
            k++;
        if (i == a->rank || k == b->rank) return i == a->rank && k == b->rank;
        if (a->dims[i] != b->dims[k] || a->strides[i] != b->strides[k]) return false;
    }
}

/* Whether output `out` may have the very memory of input `in`. Some kernels of conv on the CPU
 * allow it for the first one; whether this one does, the backend asks when it prepares the step. */
static bool may_be_in_place(const rlx_plan *plan, const rlx_plan_step *step, uint32_t in,
                            uint32_t out) {
    if (step->op == RLX_OP_CONV && in == 0 && out == 0)
        return step->kind == RLX_STEP_KERNEL && strncmp(plan->target, "cpu/", 4) == 0;
    if (step->kind == RLX_STEP_COPY || step->op == RLX_OP_COPY) return true;
    if (step->op == RLX_OP_STATE_WRITE) return in == 0 && out == 0;
    return out == 0 && rlx_op_may_overwrite(step->op, in);
}

static rlx_status check_alias(const plan_check *check, const rlx_plan_step *step,
                              const uint32_t *operands, uint32_t input, uint32_t output) {
    uint32_t in = operands[input], out = operands[step->input_count + output];
    if (in == RLX_NONE || out == RLX_NONE) return RLX_OK;
    const rlx_plan_slot *a = slot_at(check, in), *b = slot_at(check, out);
    if (a->buffer != b->buffer || plan_slots_disjoint(a, b)) return RLX_OK;
    if (may_be_in_place(check->plan, step, input, output) && is_same_place(a, b)) return RLX_OK;
    return INVALID_PLAN(
        "output %u (" SLOT_FORMAT ") overlaps input %u (" SLOT_FORMAT ") in buffer %u", output,
        SLOT_ARGS(check->plan, out), input, SLOT_ARGS(check->plan, in), a->buffer);
}

/* No two elements of an output share memory: in the order of their size, each stride steps over
 * everything that the smaller ones reach. */
static bool is_spread(const rlx_plan_slot *slot) {
    bool is_done[RLX_MAX_RANK] = {false};
    int64_t span = 0;
    if (slot->layout != RLX_LAYOUT_PLAIN) return true;
    for (uint32_t i = 0; i < slot->rank; i++) {
        if (slot->dims[i] == 0) return true; /* before any stride is looked at: they may be 0 */
    }
    for (uint32_t n = 0; n < slot->rank; n++) {
        uint32_t least = RLX_MAX_RANK;
        int64_t least_stride = INT64_MAX;
        for (uint32_t i = 0; i < slot->rank; i++) {
            if (slot->dims[i] <= 1 || is_done[i]) continue;
            int64_t stride = slot->strides[i] < 0 ? -slot->strides[i] : slot->strides[i];
            if (least == RLX_MAX_RANK || stride < least_stride) {
                least = i;
                least_stride = stride;
            }
        }
        if (least == RLX_MAX_RANK) continue;
        if (least_stride <= span) return false;
        is_done[least] = true;
        span += (slot->dims[least] - 1) * least_stride;
    }
    return true;
}

static rlx_status check_outputs(const plan_check *check, const rlx_plan_step *step,
                                const uint32_t *operands) {
    const uint32_t *outputs = operands + step->input_count;
    for (uint32_t i = 0; i < step->output_count; i++) {
        if (outputs[i] == RLX_NONE) continue;
        const rlx_plan_slot *slot = slot_at(check, outputs[i]);
        if (!is_spread(slot)) {
            return INVALID_PLAN("output %u (" SLOT_FORMAT ") has strides that meet themselves", i,
                                SLOT_ARGS(check->plan, outputs[i]));
        }
        for (uint32_t k = 0; k < step->input_count; k++)
            RLX_TRY(check_alias(check, step, operands, k, i));
        for (uint32_t k = 0; k < i; k++) {
            if (outputs[k] == RLX_NONE) continue;
            const rlx_plan_slot *other = slot_at(check, outputs[k]);
            if (other->buffer == slot->buffer && !plan_slots_disjoint(other, slot)) {
                return INVALID_PLAN("outputs %u and %u overlap in buffer %u", k, i, slot->buffer);
            }
        }
    }
    return RLX_OK;
}

/* Which segments the operands may lie in. */
static rlx_status check_segment(const plan_check *check, const step_range *range,
                                const rlx_plan_step *step, uint32_t slot, bool is_output) {
    uint32_t segment = check->plan->buffers.items[slot_at(check, slot)->buffer].segment;
    bool is_allowed;
    if (range->entry == RLX_PLAN_PREPARE) {
        is_allowed = segment == RLX_SEGMENT_WEIGHTS || segment == RLX_SEGMENT_SOURCE;
    } else if (step->kind == RLX_STEP_STREAM) {
        is_allowed = segment == RLX_SEGMENT_TILES;
    } else if (is_output) {
        bool writes_state = step->kind == RLX_STEP_COPY || step->op == RLX_OP_STATE_WRITE;
        is_allowed =
            segment == RLX_SEGMENT_SCRATCH || (segment == RLX_SEGMENT_STATE && writes_state);
    } else {
        is_allowed = segment != RLX_SEGMENT_SOURCE;
    }
    if (is_allowed) return RLX_OK;
    return INVALID_PLAN("%s " SLOT_FORMAT " in segment %u",
                        is_output ? "must not write" : "must not read",
                        SLOT_ARGS(check->plan, slot), segment);
}

static rlx_status check_workspace(const plan_check *check, const step_range *range,
                                  const rlx_plan_step *step) {
    uint64_t bytes;
    if (step->workspace == RLX_NONE) {
        if (step->workspace_bytes == 0) return RLX_OK;
        return INVALID_PLAN("workspace of %" PRIu64 " bytes without a buffer",
                            step->workspace_bytes);
    }
    if (step->workspace >= check->plan->buffers.count) {
        return INVALID_PLAN("workspace is buffer %u of %u", step->workspace,
                            check->plan->buffers.count);
    }
    const rlx_plan_buffer *buffer = &check->plan->buffers.items[step->workspace];
    uint32_t wanted = range->entry == RLX_PLAN_PREPARE ? RLX_SEGMENT_SOURCE : RLX_SEGMENT_SCRATCH;
    if (buffer->segment != wanted) {
        return INVALID_PLAN("workspace in segment %u, expected %u", buffer->segment, wanted);
    }
    if (!rlx_mul_u64(step->workspace_bytes, check->plan->workers, &bytes) ||
        bytes > buffer->bytes) {
        return INVALID_PLAN("workspace of %" PRIu64 " bytes for %u workers > buffer %u of %" PRIu64,
                            step->workspace_bytes, check->plan->workers, step->workspace,
                            buffer->bytes);
    }
    return RLX_OK;
}

static rlx_status check_op(plan_check *check, const rlx_plan_step *step, const uint32_t *operands) {
    const rlx_op_info *info = rlx_op_info_of(step->op);
    if (info == NULL) return INVALID_PLAN("op %u is none", (unsigned)step->op);
    if ((info->flags & RLX_OPF_FLOW) != 0) return INVALID_PLAN("control flow is no step");
    RLX_TRY(check_attrs(info, step));
    RLX_TRY(check_arity(info, step, operands));
    RLX_TRY(check_types(check, step, operands));
    RLX_TRY(check_outputs(check, step, operands));
    if (step->op == RLX_OP_STATE_WRITE) {
        const rlx_plan_slot *before = slot_at(check, operands[0]);
        const rlx_plan_slot *after = slot_at(check, operands[step->input_count]);
        if (before->buffer != after->buffer || !is_same_place(before, after)) {
            return INVALID_PLAN("output 0 is not the memory of the state");
        }
    }
    return RLX_OK;
}

/* What ranks exchange is plain, in memory that has the same offset on all of them. */
static rlx_status check_sent(const plan_check *check, uint32_t slot) {
    const rlx_plan_slot *row = slot_at(check, slot);
    uint32_t segment = check->plan->buffers.items[row->buffer].segment;
    if (!plan_slot_is_plain(row)) {
        return INVALID_PLAN(SLOT_FORMAT " is not plain", SLOT_ARGS(check->plan, slot));
    }
    if (segment == RLX_SEGMENT_SCRATCH || segment == RLX_SEGMENT_STATE) return RLX_OK;
    return INVALID_PLAN(SLOT_FORMAT " in segment %u, which no other rank reaches",
                        SLOT_ARGS(check->plan, slot), segment);
}

/* A collective of one rank is a kernel (a copy), of several a step of its own kind. */
static rlx_status check_ranks(const plan_check *check, const rlx_plan_step *step,
                              const uint32_t *operands) {
    const rlx_op_info *info = rlx_op_info_of(step->op);
    const rlx_collective_attrs *attrs = step->attrs;
    uint32_t ranks = check->plan->rank_count;
    bool is_collective = (info->flags & RLX_OPF_COLLECTIVE) != 0;
    if (!is_collective && step->kind != RLX_STEP_COLLECTIVE) return RLX_OK;
    if (!is_collective) return INVALID_PLAN("%s is no collective", info->name);
    if ((step->kind == RLX_STEP_COLLECTIVE) != (ranks > 1)) {
        return INVALID_PLAN("a step of kind %u in a plan of %u ranks", step->kind, ranks);
    }
    if (attrs == NULL) return INVALID_PLAN("a collective without attributes");
    if ((attrs->ranks != 0 && attrs->ranks != (int64_t)ranks) || attrs->root >= (int64_t)ranks) {
        return INVALID_PLAN("%" PRId64 " ranks, root %" PRId64 " in a plan of %u ranks",
                            attrs->ranks, attrs->root, ranks);
    }
    if (step->kind != RLX_STEP_COLLECTIVE) return RLX_OK;
    RLX_TRY(check_sent(check, operands[0]));
    return check_sent(check, operands[1]);
}

static rlx_status check_copy(plan_check *check, const rlx_plan_step *step,
                             const uint32_t *operands) {
    uint64_t in_bytes, out_bytes;
    if (step->input_count != 1 || step->output_count != 1 || operands[0] == RLX_NONE ||
        operands[1] == RLX_NONE) {
        return INVALID_PLAN("a copy has one input and one output");
    }
    const rlx_plan_slot *in = slot_at(check, operands[0]), *out = slot_at(check, operands[1]);
    RLX_TRY(rlx_plan_slot_bytes(in, &in_bytes));
    RLX_TRY(rlx_plan_slot_bytes(out, &out_bytes));
    if (in->dtype != out->dtype || in_bytes != out_bytes || !plan_slot_is_plain(in) ||
        !plan_slot_is_plain(out)) {
        return INVALID_PLAN(
            "a copy from %s of %" PRIu64 " bytes to %s of %" PRIu64 ": not plain and alike",
            rlx_dtype_name(in->dtype), in_bytes, rlx_dtype_name(out->dtype), out_bytes);
    }
    return check_outputs(check, step, operands);
}

static rlx_status check_jump(plan_check *check, const step_range *range, const rlx_plan_step *step,
                             uint32_t index) {
    const rlx_plan *plan = check->plan;
    if (range->entry == RLX_PLAN_PREPARE) return INVALID_PLAN("prepare steps do not jump");
    if (step->input_count != 0 || step->output_count != 0) {
        return INVALID_PLAN("a jump has no operands");
    }
    if (step->jump_if > 1) return INVALID_PLAN("jump_if is %u", step->jump_if);
    if (step->condition != RLX_NONE) {
        if (step->condition >= plan->slots.count ||
            !plan_slot_is_scalar(slot_at(check, step->condition), RLX_DTYPE_BOOL)) {
            return INVALID_PLAN("condition: slot %u is no bool scalar", step->condition);
        }
        RLX_TRY(plan_use_slot(check, range, index, step->condition, false));
    }
    if (step->fault_code != 0) {
        if (step->fault_code >= RLX_PLAN_FAULT_CODES) {
            return INVALID_PLAN("fault code %u of %u", step->fault_code, RLX_PLAN_FAULT_CODES);
        }
        if (step->value == RLX_NONE) return RLX_OK;
        if (step->value >= plan->slots.count ||
            !plan_slot_is_scalar(slot_at(check, step->value), RLX_DTYPE_I64)) {
            return INVALID_PLAN("fault value: slot %u is no i64 scalar", step->value);
        }
        return plan_use_slot(check, range, index, step->value, false);
    }
    if (step->target < range->first || step->target > range->end) {
        return INVALID_PLAN("jump to step %u, its entry has [%u, %u]", step->target, range->first,
                            range->end);
    }
    if (step->target < range->end && check->is_inside[step->target]) {
        return INVALID_PLAN("jump to step %u, which is inside a stretch", step->target);
    }
    if (step->target > index) return RLX_OK;
    check->has_loops = true;
    check->loop_heads[index] = step->target;
    if (check->loop_ends[step->target] < index + 1) check->loop_ends[step->target] = index + 1;
    return RLX_OK;
}

static rlx_status check_uses(plan_check *check, const step_range *range, uint32_t index,
                             const uint32_t *operands) {
    const rlx_plan_step *step = &check->plan->steps.items[index];
    for (uint32_t i = 0; i < step->input_count + step->output_count; i++) {
        bool is_output = i >= step->input_count;
        if (operands[i] == RLX_NONE) continue;
        RLX_TRY(check_segment(check, range, step, operands[i], is_output));
        RLX_TRY(plan_use_slot(check, range, index, operands[i], is_output));
        if (!is_output) RLX_TRY(plan_use_extents(check, range, index, operands[i]));
        if (step->workspace == slot_at(check, operands[i])->buffer) {
            return INVALID_PLAN("the workspace is the buffer of " SLOT_FORMAT,
                                SLOT_ARGS(check->plan, operands[i]));
        }
    }
    /* Last, because an extent of an output may be another output of the same step. */
    for (uint32_t i = 0; i < step->output_count; i++) {
        uint32_t slot = operands[step->input_count + i];
        if (slot != RLX_NONE) RLX_TRY(plan_use_extents(check, range, index, slot));
    }
    if (step->workspace == RLX_NONE) return RLX_OK;
    return plan_use_buffer(check, range, index, step->workspace, true);
}

static rlx_status check_step(plan_check *check, const step_range *range, uint32_t index) {
    const rlx_plan *plan = check->plan;
    const rlx_plan_step *step = &plan->steps.items[index];
    uint32_t none = 0;
    const uint32_t *operands =
        plan->operands.count == 0 ? &none : plan->operands.items + step->operands_at;
    for (uint32_t i = 0; i < step->input_count + step->output_count; i++) {
        if (operands[i] != RLX_NONE && operands[i] >= plan->slots.count) {
            return INVALID_PLAN("operand %u is slot %u of %u", i, operands[i], plan->slots.count);
        }
    }
    RLX_TRY(check_workspace(check, range, step));
    switch ((rlx_step_kind)step->kind) {
    case RLX_STEP_COLLECTIVE:
        if (range->entry == RLX_PLAN_PREPARE) return INVALID_PLAN("prepare steps are of one rank");
        /* fall through */
    case RLX_STEP_KERNEL:
    case RLX_STEP_HOST:
        RLX_TRY(check_op(check, step, operands));
        RLX_TRY(check_ranks(check, step, operands));
        break;
    case RLX_STEP_COPY:
        RLX_TRY(check_copy(check, step, operands));
        break;
    case RLX_STEP_JUMP:
        RLX_TRY(check_jump(check, range, step, index));
        break;
    case RLX_STEP_STREAM:
        RLX_TRY(plan_check_stream_step(check, range, step, index, operands));
        break;
    default:
        return INVALID_PLAN("steps of kind %u are not known", step->kind);
    }
    return check_uses(check, range, index, operands);
}

rlx_status plan_check_step(plan_check *check, const step_range *range, uint32_t index) {
    const rlx_plan_step *step = &check->plan->steps.items[index];
    if (step->name == NULL || step->kernel == NULL || step->reason == NULL) {
        return INVALID_PLAN("step %u: a text is missing", index);
    }
    rlx_status status = check_step(check, range, index);
    if (status == RLX_OK || status == RLX_OUT_OF_MEMORY) return status;
    bool has_op = step->kind == RLX_STEP_KERNEL || step->kind == RLX_STEP_HOST ||
                  step->kind == RLX_STEP_COLLECTIVE;
    return rlx_fail_context(RLX_INVALID_PLAN, "step %u '%.80s' (%s)", index, step->name,
                            has_op ? rlx_op_name(step->op) : "no op");
}
