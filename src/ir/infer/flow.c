/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of control flow and of writes to state: what yields must look like, how many rows a
 * loop can stack, and which value becomes the extent of another output. */
#include "ir/graph.h"
#include "ir/infer/movement.h"

/* The rows of a write lie inside the state on every axis but `axis`, where they must fit. */
static rlx_status check_rows(const rlx_infer *infer, uint32_t axis) {
    const rlx_type *state = infer->in[0], *rows = infer->in[1];
    if (rows->shape.rank != state->shape.rank) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "state_write: state has rank %u, rows %u",
                        state->shape.rank, rows->shape.rank);
    }
    for (uint32_t i = 0; i < state->shape.rank; i++) {
        int64_t have = rows->shape.dims[i], room = state->shape.dims[i];
        if (i == axis ? have > room : have != room) {
            return RLX_FAIL(RLX_INVALID_GRAPH,
                            "state_write: axis %u of the state has %" PRId64
                            ", of the rows %" PRId64,
                            i, room, have);
        }
        if (i == axis) continue;
        if (state->extents[i] != RLX_NONE) return rlx_infer_lost_extent(infer, 0, i);
        if (rows->extents[i] != RLX_NONE) return rlx_infer_lost_extent(infer, 1, i);
    }
    return RLX_OK;
}

rlx_status rlx_infer_state_write(rlx_infer *infer) {
    const rlx_state_write_attrs *attrs = infer->attrs;
    const rlx_type *state = infer->in[0], *rows = infer->in[1], *position = infer->in[2];
    uint32_t axis;
    RLX_TRY(rlx_infer_no_block(infer, 0));
    if (state->dtype != rows->dtype &&
        (!rlx_dtype_is_float(state->dtype) || !rlx_dtype_is_float(rows->dtype))) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "state_write of %s rows into a %s state",
                        rlx_dtype_name(rows->dtype), rlx_dtype_name(state->dtype));
    }
    if (position->dtype != RLX_DTYPE_I64 || position->shape.rank != 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "state_write wants its position as i64[], got %s rank %u",
                        rlx_dtype_name(position->dtype), position->shape.rank);
    }
    RLX_TRY(rlx_infer_axis(attrs->axis, state->shape.rank, &axis));
    RLX_TRY(check_rows(infer, axis));
    if (infer->out_ids[1] == RLX_NONE) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "state_write without its length output");
    }
    infer->out[0] = *state;
    infer->out[0].extents[axis] = attrs->wrap ? RLX_NONE : infer->out_ids[1];
    infer->out[1] = rlx_type_make(RLX_DTYPE_I64, NULL, 0);
    return RLX_OK;
}

static const rlx_type *type_of(const rlx_infer *infer, rlx_value_id value) {
    return &infer->graph->values.items[value].type;
}

static bool same_shape(const rlx_type *a, const rlx_type *b) {
    return a->dtype == b->dtype && rlx_shape_equal(&a->shape, &b->shape);
}

static rlx_status shapes_differ(const rlx_infer *infer, const char *what, uint32_t number,
                                const rlx_type *a, const rlx_type *b) {
    char a_text[96], b_text[96];
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s: %s %u is %s on one side and %s on the other",
                    rlx_op_name(infer->op), what, number,
                    rlx_type_text(infer->graph, a, a_text, sizeof a_text),
                    rlx_type_text(infer->graph, b, b_text, sizeof b_text));
}

/* A bool or i64 that steers: one element, known size. */
static rlx_status check_scalar(const rlx_infer *infer, const char *what, const rlx_type *type,
                               rlx_dtype dtype) {
    uint64_t elements;
    RLX_TRY(rlx_shape_elements(&type->shape, &elements));
    bool has_extent = false;
    for (uint32_t i = 0; i < type->shape.rank; i++)
        has_extent = has_extent || type->extents[i] != RLX_NONE;
    if (type->dtype == dtype && elements == 1 && !has_extent) return RLX_OK;
    char text[96];
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s: %s is %s, wanted one %s", rlx_op_name(infer->op), what,
                    rlx_type_text(infer->graph, type, text, sizeof text), rlx_dtype_name(dtype));
}

/* If. */

/* Extents that the two branches give one output dim: the same value from outside, or values that
 * both branches yield at the same place, so that the node's own output there holds the size. */
static rlx_status join_extents(const rlx_infer *infer, const rlx_block *then_block,
                               const rlx_block *else_block, rlx_value_id then_extent,
                               rlx_value_id else_extent, rlx_value_id *out_extent) {
    rlx_block_id then_id = infer->node->blocks[0], else_id = infer->node->blocks[1];
    *out_extent = RLX_NONE;
    if (then_extent == RLX_NONE && else_extent == RLX_NONE) return RLX_OK;
    for (uint32_t i = 0; i < then_block->yield_count; i++) {
        if (then_block->yields[i] != then_extent || else_block->yields[i] != else_extent) continue;
        *out_extent = infer->out_ids[i];
        if (*out_extent != RLX_NONE) return RLX_OK;
    }
    if (then_extent == else_extent) {
        rlx_block_id home = infer->graph->values.items[then_extent].block;
        *out_extent = then_extent;
        if (home != then_id && home != else_id) return RLX_OK;
    }
    return RLX_FAIL(RLX_UNSUPPORTED,
                    "if: the run-time sizes of the two branches are not yielded with them");
}

static rlx_status infer_if(rlx_infer *infer) {
    const rlx_block *blocks = infer->graph->blocks.items;
    const rlx_block *then_block = &blocks[infer->node->blocks[0]];
    const rlx_block *else_block = &blocks[infer->node->blocks[1]];
    if (!rlx_infer_has(infer, 0)) return RLX_FAIL(RLX_INVALID_GRAPH, "if has no condition");
    RLX_TRY(check_scalar(infer, "the condition", infer->in[0], RLX_DTYPE_BOOL));
    if (then_block->yield_count != infer->out_count ||
        else_block->yield_count != infer->out_count) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "if has %u outputs, the branches yield %u and %u",
                        infer->out_count, then_block->yield_count, else_block->yield_count);
    }
    for (uint32_t i = 0; i < infer->out_count; i++) {
        const rlx_type *a = type_of(infer, then_block->yields[i]);
        const rlx_type *b = type_of(infer, else_block->yields[i]);
        if (!same_shape(a, b)) return shapes_differ(infer, "yield", i, a, b);
        infer->out[i] = *a;
        for (uint32_t d = 0; d < a->shape.rank; d++) {
            RLX_TRY(join_extents(infer, then_block, else_block, a->extents[d], b->extents[d],
                                 &infer->out[i].extents[d]));
        }
    }
    return RLX_OK;
}

/* Loop. */

/* What an i64 or bool constant holds; false: it is no constant. */
static bool constant_of(const rlx_infer *infer, rlx_value_id id, int64_t *out_number) {
    if (id == RLX_NONE) return false;
    const rlx_value *value = &infer->graph->values.items[id];
    if (value->kind != RLX_VALUE_CONSTANT || value->data == NULL || value->data_bytes == 0)
        return false;
    *out_number = rlx_load_i64(value->type.dtype, value->data, 0);
    return true;
}

/* The most iterations there can be: the attribute, a constant trip count, or the smaller. */
static rlx_status loop_bound(const rlx_infer *infer, int64_t *out_bound) {
    const rlx_loop_attrs *attrs = infer->attrs;
    int64_t trips;
    if (attrs->bound < 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "loop has bound %" PRId64, attrs->bound);
    }
    *out_bound = attrs->bound;
    if (constant_of(infer, infer->node->inputs[0], &trips)) {
        if (trips < 0) trips = 0;
        if (attrs->bound == 0 || trips < attrs->bound) *out_bound = trips;
    } else if (attrs->bound == 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "loop has no bound: neither the attribute nor a constant trip count");
    }
    return RLX_OK;
}

/* A condition that is true in every iteration, as far as constants tell. */
static bool is_always_true(const rlx_infer *infer, rlx_value_id id) {
    int64_t number;
    for (uint32_t depth = 0; depth < 8; depth++) {
        if (constant_of(infer, id, &number)) return number != 0;
        const rlx_value *value = &infer->graph->values.items[id];
        if (value->producer == RLX_NONE) return false;
        const rlx_node *node = &infer->graph->nodes.items[value->producer];
        if (node->op != RLX_OP_IDENTITY) return false;
        id = node->inputs[0];
    }
    return false;
}

/* Exactly `bound` iterations, every time. */
static bool runs_to_bound(const rlx_infer *infer, const rlx_block *body, int64_t bound) {
    int64_t trips;
    rlx_value_id condition = infer->node->inputs[1];
    return constant_of(infer, infer->node->inputs[0], &trips) && (trips < 0 ? 0 : trips) == bound &&
           is_always_true(infer, body->yields[0]) &&
           (condition == RLX_NONE || is_always_true(infer, condition));
}

/* A carried value keeps its type: as input of the node, as input of the body, as yield. Its
 * run-time sizes must be values from outside that stay the same. */
static rlx_status check_carried(const rlx_infer *infer, const rlx_block *body, uint32_t number) {
    const rlx_type *in = infer->in[2 + number];
    if (in == NULL) return RLX_FAIL(RLX_INVALID_GRAPH, "loop: carried value %u is absent", number);
    const rlx_type *inside = type_of(infer, body->inputs[1 + number]);
    const rlx_type *yield = type_of(infer, body->yields[1 + number]);
    if (!same_shape(in, inside)) return shapes_differ(infer, "carried value", number, in, inside);
    if (!same_shape(in, yield)) return shapes_differ(infer, "carried value", number, in, yield);
    for (uint32_t i = 0; i < in->shape.rank; i++) {
        if (in->extents[i] != inside->extents[i] || in->extents[i] != yield->extents[i]) {
            return RLX_FAIL(RLX_UNSUPPORTED,
                            "loop: the run-time size of axis %u of carried value %u changes", i,
                            number);
        }
    }
    return RLX_OK;
}

/* [bound][yield..], axis 0 as long as there were iterations. */
static rlx_status set_scanned(rlx_infer *infer, uint32_t output, const rlx_type *yield,
                              int64_t bound, rlx_value_id count) {
    int64_t dims[RLX_MAX_RANK] = {0};
    uint32_t rank = yield->shape.rank;
    if (rank >= RLX_MAX_RANK) {
        return RLX_FAIL(RLX_UNSUPPORTED, "loop: output %u would have rank %u (most is %d)", output,
                        rank + 1, RLX_MAX_RANK);
    }
    dims[0] = bound;
    for (uint32_t i = 0; i < rank; i++) {
        dims[i + 1] = yield->shape.dims[i];
        if (yield->extents[i] != RLX_NONE) {
            return RLX_FAIL(RLX_UNSUPPORTED,
                            "loop: rows of output %u have a run-time size on axis %u", output, i);
        }
    }
    if (rlx_dtype_is_block(yield->dtype)) {
        return RLX_FAIL(RLX_UNSUPPORTED, "loop: output %u stacks %s", output,
                        rlx_dtype_name(yield->dtype));
    }
    RLX_TRY(rlx_infer_set(infer, output, yield->dtype, dims, rank + 1));
    infer->out[output].extents[0] = count;
    return RLX_OK;
}

/* Counts of inputs, yields and outputs fit each other; the count output is optional. */
static rlx_status loop_counts(const rlx_infer *infer, const rlx_block *body, uint32_t *out_carried,
                              uint32_t *out_scanned, bool *out_has_count) {
    uint32_t carried = infer->in_count - 2;
    if (body->input_count != carried + 1 || body->yield_count < carried + 1) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "loop carries %u values, its body takes %u and yields %u", carried,
                        body->input_count, body->yield_count);
    }
    uint32_t scanned = body->yield_count - 1 - carried, values = carried + scanned;
    if (infer->out_count != values && infer->out_count - 1 != values) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "loop has %u outputs; carried %u, scanned %u, and perhaps the count",
                        infer->out_count, carried, scanned);
    }
    *out_carried = carried;
    *out_scanned = scanned;
    *out_has_count = infer->out_count != values;
    return RLX_OK;
}

static rlx_status check_steering(const rlx_infer *infer, const rlx_block *body) {
    if (rlx_infer_has(infer, 0)) {
        RLX_TRY(check_scalar(infer, "the trip count", infer->in[0], RLX_DTYPE_I64));
    }
    if (rlx_infer_has(infer, 1)) {
        RLX_TRY(check_scalar(infer, "the condition", infer->in[1], RLX_DTYPE_BOOL));
    }
    return check_scalar(infer, "yield 0", type_of(infer, body->yields[0]), RLX_DTYPE_BOOL);
}

static rlx_status infer_loop(rlx_infer *infer) {
    const rlx_block *body = &infer->graph->blocks.items[infer->node->blocks[0]];
    uint32_t carried = 0, scanned = 0;
    rlx_value_id count = RLX_NONE;
    bool has_count = false;
    int64_t bound = 0;
    RLX_TRY(loop_counts(infer, body, &carried, &scanned, &has_count));
    RLX_TRY(check_steering(infer, body));
    RLX_TRY(loop_bound(infer, &bound));
    if (has_count) {
        count = infer->out_ids[carried + scanned];
        infer->out[carried + scanned] = rlx_type_make(RLX_DTYPE_I64, NULL, 0);
    }
    for (uint32_t i = 0; i < carried; i++) {
        RLX_TRY(check_carried(infer, body, i));
        infer->out[i] = *infer->in[2 + i];
    }
    if (scanned != 0 && count == RLX_NONE && !runs_to_bound(infer, body, bound)) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "loop stacks %u outputs and may stop early, but has no output for the "
                        "number of iterations",
                        scanned);
    }
    for (uint32_t i = carried; i < carried + scanned; i++) {
        RLX_TRY(set_scanned(infer, i, type_of(infer, body->yields[1 + i]), bound, count));
    }
    return RLX_OK;
}

rlx_status rlx_infer_flow(rlx_infer *infer) {
    return infer->op == RLX_OP_IF ? infer_if(infer) : infer_loop(infer);
}
