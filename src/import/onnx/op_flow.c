/* SPDX-License-Identifier: Apache-2.0 */
/* If, Loop and Scan. What is known while building is resolved: a known condition takes its branch,
 * a loop whose body needs the iteration as a number, or that carries sequences, is written out. The
 * rest becomes control flow of the graph. */
#include "import/onnx/ops.h"

#include <stdio.h>
#include <string.h>

enum { MOST_UNROLLED = 256, MOST_CARRIED = 256 };

static const rlx_onnx_graph *body_of(ox *o, const char *name) {
    const rlx_onnx_attr *attr = ox_attr(o, name);
    if (attr == NULL || attr->graph == NULL) ox_invalid(o, "it has no '%s'", name);
    return ox_ok(o) ? attr->graph : NULL;
}

static bool is_known(const ox_item *items, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].kind == OX_UNKNOWN) return false;
        if (items[i].kind == OX_SEQUENCE && !is_known(items[i].items, items[i].count)) return false;
    }
    return true;
}

/* Where the graph stood, to take back a body that cannot stay. */
typedef struct mark {
    uint32_t values, nodes, blocks, problems;
    size_t problem_text;
    rlx_block_id current;
    bool is_placed;
} mark;

static mark take_mark(const ox *o) {
    return (mark){o->graph->values.count,
                  o->graph->nodes.count,
                  o->graph->blocks.count,
                  o->problem_count,
                  o->problems.length,
                  o->graph->current,
                  o->is_placed};
}

static void rewind_to(ox *o, const mark *from) {
    rlx_graph *graph = o->graph;
    o->status = RLX_OK;
    o->is_placed = from->is_placed;
    graph->current = from->current;
    o->cuts = NULL;
    while (graph->blocks.count > from->blocks) {
        rlx_block *last = &graph->blocks.items[--graph->blocks.count];
        rlx_vec_free(graph->allocator, &last->nodes);
    }
    graph->nodes.count = from->nodes;
    rlx_graph_drop_values(graph, from->values);
    o->problem_count = from->problems;
    o->problems.length = from->problem_text;
    if (o->problems.data != NULL) o->problems.data[from->problem_text] = 0;
}

/* Tensors of an item, one after the other. */
static void flatten(ox *o, const ox_item *item, rlx_value_id *out, uint32_t *count) {
    if (item->kind == OX_TENSOR || item->kind == OX_STRINGS) {
        if (*count == MOST_CARRIED) {
            ox_unsupported(o, "more than %d values", MOST_CARRIED);
        } else {
            out[(*count)++] = item->value;
        }
    }
    for (uint32_t i = 0; item->kind == OX_SEQUENCE && i < item->count && ox_ok(o); i++)
        flatten(o, &item->items[i], out, count);
}

/* The same item with other tensors. */
static ox_item refill(ox *o, const ox_item *like, const rlx_value_id *values, uint32_t *at) {
    if (like->kind == OX_TENSOR || like->kind == OX_STRINGS)
        return (ox_item){.kind = like->kind, .value = values[(*at)++]};
    if (like->kind != OX_SEQUENCE) return *like;
    ox_item *items = ox_memory(o, like->count, sizeof *items);
    for (uint32_t i = 0; i < like->count && ox_ok(o); i++)
        items[i] = refill(o, &like->items[i], values, at);
    return (ox_item){.kind = OX_SEQUENCE, .items = items, .count = like->count};
}

static bool same_form(const ox *o, const ox_item *a, const ox_item *b) {
    if (a->kind != b->kind) return false;
    if (a->kind == OX_TENSOR || a->kind == OX_STRINGS) {
        rlx_type x = ox_type(o, a->value), y = ox_type(o, b->value);
        return x.dtype == y.dtype && rlx_shape_equal(&x.shape, &y.shape) &&
               !ox_has_extent(o, a->value) && !ox_has_extent(o, b->value);
    }
    if (a->kind == OX_SEQUENCE && a->count != b->count) return false;
    for (uint32_t i = 0; a->kind == OX_SEQUENCE && i < a->count; i++) {
        if (!same_form(o, &a->items[i], &b->items[i])) return false;
    }
    return true;
}

static rlx_block_id build_branch(ox *o, const rlx_onnx_graph *graph, ox_item *out,
                                 rlx_value_id *yields, uint32_t *yield_count) {
    rlx_block_id block = RLX_NONE;
    if (ox_ok(o)) ox_fail(o, rlx_graph_begin_block(o->graph, NULL, 0, NULL, &block));
    ox_body(o, graph, NULL, 0, out);
    *yield_count = 0;
    for (uint32_t i = 0; i < graph->output_count && ox_ok(o); i++)
        flatten(o, &out[i], yields, yield_count);
    if (ox_ok(o)) ox_fail(o, rlx_graph_end_block(o->graph, block, yields, *yield_count));
    return block;
}

static void take_branch(ox *o, const rlx_onnx_graph *graph) {
    ox_item *out = ox_memory(o, graph->output_count, sizeof *out);
    uint32_t count = o->out_count;
    ox_body(o, graph, NULL, 0, out);
    for (uint32_t i = 0; i < count && i < graph->output_count && ox_ok(o); i++)
        ox_give_item(o, i, out[i]);
}

/* Both branches, where they yield the same form. False: they do not. */
static bool build_if(ox *o, rlx_value_id condition, const rlx_onnx_graph *const *branches) {
    ox_item *out[2];
    rlx_value_id *yields[2], *values = ox_memory(o, MOST_CARRIED, sizeof *values);
    rlx_block_id blocks[2];
    uint32_t counts[2] = {0, 0}, at = 0, outputs = o->out_count;
    for (uint32_t b = 0; b < 2; b++) {
        out[b] = ox_memory(o, branches[b]->output_count, sizeof *out[b]);
        yields[b] = ox_memory(o, MOST_CARRIED, sizeof *yields[b]);
        if (ox_ok(o)) blocks[b] = build_branch(o, branches[b], out[b], yields[b], &counts[b]);
    }
    if (!ox_ok(o)) return true;
    if (branches[0]->output_count != outputs || branches[1]->output_count != outputs) {
        ox_invalid(o, "%u outputs, the branches have %u and %u", outputs, branches[0]->output_count,
                   branches[1]->output_count);
        return true;
    }
    for (uint32_t i = 0; i < outputs; i++) {
        if (!is_known(&out[0][i], 1) || !is_known(&out[1][i], 1)) return true; /* already said */
        if (!same_form(o, &out[0][i], &out[1][i])) return false;
    }
    ox_fail(o, rlx_graph_add_flow(o->graph, RLX_OP_IF, NULL, &condition, 1, blocks, 2, counts[0],
                                  values));
    for (uint32_t i = 0; i < outputs && ox_ok(o); i++)
        ox_give_item(o, i, refill(o, &out[0][i], values, &at));
    return true;
}

/* The shapes hang on the condition, or a branch cannot be: it is for other shapes than these, and
 * no run takes it. Where the condition's value cannot be had the branch's failure stands. */
static bool need_condition(ox *o, rlx_value_id condition, const mark *start) {
    rlx_status status = o->status;
    bool was_placed = o->is_placed;
    char reason[512];
    snprintf(reason, sizeof reason, "%s", status == RLX_OK ? "" : rlx_last_error());
    rewind_to(o, start);
    bool is_known = ox_need(o, condition);
    if (status != RLX_OK && o->status == RLX_UNSUPPORTED) {
        o->status = RLX_FAIL(status, "%s", reason);
        o->is_placed = was_placed;
    }
    return is_known;
}

void rlx_ox_if(ox *o) {
    rlx_value_id condition = ox_in(o, 0);
    const rlx_onnx_graph *branches[] = {body_of(o, "then_branch"), body_of(o, "else_branch")};
    if (!ox_ok(o)) return;
    /* Caches are written in the main block: a branch for models without a past is none of a run's.
     */
    if (o->growth != NULL && !ox_is_run_time(o, condition) && !ox_need(o, condition)) return;
    if (!ox_is_constant(o, condition)) {
        mark start = take_mark(o);
        bool same = build_if(o, condition, branches);
        if (o->status == RLX_OUT_OF_MEMORY || (same && ox_ok(o))) return;
        if (!need_condition(o, condition, &start)) return;
    }
    take_branch(o, branches[ox_need_int(o, condition) != 0 ? 0 : 1]);
}

/* The parts of a Loop node, or of a Scan that is made one. */
typedef struct loop {
    const rlx_onnx_graph *body;
    const ox_item *carried;
    uint32_t carried_count, scanned_count;
    rlx_value_id trips, condition; /* RLX_NONE: none */
    ox_item *out;                  /* carried, then scanned */
} loop;

static rlx_value_id true_value(ox *o) {
    return ox_scalar(o, RLX_DTYPE_BOOL, 1);
}

static bool is_true(ox *o, rlx_value_id value) {
    return ox_is_constant(o, value) && ox_need_int(o, value) != 0;
}

/* Iterations one after the other, each with its number as a constant. */
static void unroll(ox *o, loop *self) {
    uint32_t carried = self->carried_count, outputs = 1 + carried + self->scanned_count;
    ox_item *in = ox_memory(o, 2 + carried, sizeof *in), *out = ox_memory(o, outputs, sizeof *out);
    int64_t trips = self->trips == RLX_NONE ? MOST_UNROLLED + 1 : ox_need_int(o, self->trips);
    bool goes_on = self->condition == RLX_NONE || ox_need_int(o, self->condition) != 0;
    if (!ox_ok(o)) return;
    rlx_value_id **rows = ox_memory(o, self->scanned_count, sizeof *rows);
    for (uint32_t i = 0; i < self->scanned_count && ox_ok(o); i++)
        rows[i] = ox_memory(o, MOST_UNROLLED, sizeof **rows);
    for (uint32_t i = 0; i < carried && ox_ok(o); i++)
        in[2 + i] = self->carried[i];
    uint32_t done = 0;
    for (; ox_ok(o) && goes_on && done < trips; done++) {
        if (done == MOST_UNROLLED) ox_unsupported(o, "more than %d iterations", MOST_UNROLLED);
        in[0] = ox_item_of(ox_scalar(o, RLX_DTYPE_I64, done));
        in[1] = ox_item_of(true_value(o));
        ox_body(o, self->body, in, 2 + carried, out);
        if (!ox_ok(o) || !is_known(out, outputs)) {
            for (uint32_t i = 0; i + 1 < outputs; i++)
                self->out[i] = (ox_item){.kind = OX_UNKNOWN};
            return;
        }
        goes_on = ox_need_int(o, out[0].value) != 0;
        for (uint32_t i = 0; i < carried; i++)
            in[2 + i] = out[1 + i];
        for (uint32_t i = 0; i < self->scanned_count && ox_ok(o); i++) {
            if (out[1 + carried + i].kind != OX_TENSOR) ox_invalid(o, "a scanned sequence");
            if (ox_ok(o)) rows[i][done] = ox_unsqueeze(o, out[1 + carried + i].value, 0);
        }
    }
    for (uint32_t i = 0; i < carried && ox_ok(o); i++)
        self->out[i] = in[2 + i];
    for (uint32_t i = 0; i < self->scanned_count && ox_ok(o); i++) {
        if (done == 0) ox_unsupported(o, "a scanned output of no iteration");
        if (ox_ok(o)) self->out[carried + i] = ox_item_of(ox_concat(o, rows[i], done, 0));
    }
}

/* The body as a block. False: it cannot be one; the graph holds what is to be rewound. */
static bool build_block(ox *o, loop *self, rlx_value_id *inputs, rlx_value_id *yields,
                        rlx_block_id *out_block, bool *out_is_fixed) {
    uint32_t carried = self->carried_count, outputs = 1 + carried + self->scanned_count;
    uint32_t problems = o->problem_count;
    rlx_value_id *inner = ox_memory(o, 1 + carried, sizeof *inner);
    ox_item *in = ox_memory(o, 2 + carried, sizeof *in), *out = ox_memory(o, outputs, sizeof *out);
    if (!ox_ok(o)) return true;
    rlx_value_id *like = inputs + 1; /* the condition's place stands for the iteration */
    rlx_value_id condition = like[0];
    like[0] = RLX_NONE;
    ox_fail(o, rlx_graph_begin_block(o->graph, like, 1 + carried, inner, out_block));
    like[0] = condition;
    if (!ox_ok(o)) return true;
    in[0] = ox_item_of(inner[0]);
    in[1] = ox_item_of(true_value(o)); /* inside the loop it holds */
    for (uint32_t i = 0; i < carried; i++)
        in[2 + i] = ox_item_of(inner[1 + i]);
    ox_body(o, self->body, in, 2 + carried, out);
    if (!ox_ok(o)) return o->status != RLX_UNSUPPORTED;
    if (o->problem_count != problems || o->wants_restart || !is_known(out, outputs)) return false;
    for (uint32_t i = 0; i < outputs; i++) {
        if (out[i].kind != OX_TENSOR) return false;
        if (i >= 1 && i <= carried && !same_form(o, &out[i], &self->carried[i - 1])) return false;
        yields[i] = out[i].value;
    }
    *out_is_fixed = is_true(o, yields[0]);
    ox_fail(o, rlx_graph_end_block(o->graph, *out_block, yields, outputs));
    return true;
}

static bool build_loop(ox *o, loop *self) {
    uint32_t carried = self->carried_count, outputs = carried + self->scanned_count;
    rlx_value_id *inputs = ox_memory(o, 2 + carried, sizeof *inputs);
    rlx_value_id *yields = ox_memory(o, 1 + outputs, sizeof *yields);
    rlx_value_id *values = ox_memory(o, 1 + outputs, sizeof *values);
    rlx_loop_attrs attrs = {0};
    rlx_block_id block = RLX_NONE;
    bool is_fixed = false;
    if (!ox_ok(o)) return true;
    if (self->trips == RLX_NONE) return false;
    inputs[0] = self->trips;
    inputs[1] = self->condition;
    for (uint32_t i = 0; i < carried; i++) {
        if (self->carried[i].kind != OX_TENSOR) return false;
        inputs[2 + i] = self->carried[i].value;
    }
    if (!build_block(o, self, inputs, yields, &block, &is_fixed)) return false;
    if (!ox_ok(o)) return true;
    is_fixed = is_fixed && (self->condition == RLX_NONE || is_true(o, self->condition));
    uint32_t count = self->scanned_count != 0 && !is_fixed ? outputs + 1 : outputs;
    ox_fail(o, rlx_graph_add_flow(o->graph, RLX_OP_LOOP, &attrs, inputs, 2 + carried, &block, 1,
                                  count, values));
    for (uint32_t i = 0; i < outputs && ox_ok(o); i++)
        self->out[i] = ox_item_of(values[i]);
    return true;
}

static void run_loop(ox *o, loop *self) {
    mark start = take_mark(o);
    bool restarts = o->wants_restart;
    if (self->trips != RLX_NONE) ox_need(o, self->trips);
    if (!ox_ok(o)) return;
    if (build_loop(o, self)) return;
    if (o->wants_restart != restarts) return; /* the next build knows more */
    rewind_to(o, &start);
    unroll(o, self);
}

void rlx_ox_loop(ox *o) {
    loop self = {.trips = ox_maybe(o, 0), .condition = ox_maybe(o, 1)};
    self.body = body_of(o, "body");
    uint32_t out_count = o->out_count;
    ox_item *given = o->out;
    if (ox_ok(o) && o->in_count < 2) ox_invalid(o, "%u inputs", o->in_count);
    if (!ox_ok(o)) return;
    self.carried = o->in + 2;
    self.carried_count = o->in_count - 2;
    if (self.body->output_count < 1 + self.carried_count)
        ox_invalid(o, "its body has %u outputs", self.body->output_count);
    if (!ox_ok(o)) return;
    self.scanned_count = self.body->output_count - 1 - self.carried_count;
    self.out = ox_memory(o, self.body->output_count, sizeof *self.out);
    if (self.condition != RLX_NONE && ox_is_constant(o, self.condition) &&
        is_true(o, self.condition))
        self.condition = RLX_NONE;
    run_loop(o, &self);
    for (uint32_t i = 0; i < out_count && i + 1 < self.body->output_count && ox_ok(o); i++)
        given[i] = self.out[i];
}

/* One Scan without batch. */
typedef struct scan {
    const rlx_onnx_graph *body;
    const rlx_value_id *states, *inputs;
    uint32_t state_count, input_count;
    rlx_ints axes, directions, output_axes, output_directions;
} scan;

static int64_t item_of(const rlx_ints *list, uint32_t index) {
    return index < list->count ? list->items[index] : 0;
}

static int64_t scan_length(ox *o, const scan *self) {
    int64_t length = -1;
    for (uint32_t i = 0; i < self->input_count && ox_ok(o); i++) {
        uint32_t axis = ox_axis(o, item_of(&self->axes, i), ox_rank(o, self->inputs[i]));
        int64_t dim = ox_ok(o) ? ox_dim(o, self->inputs[i], axis) : 0;
        if (ox_has_extent(o, self->inputs[i])) ox_unsupported(o, "a run-time length");
        if (length >= 0 && length != dim)
            ox_invalid(o, "lengths of %" PRId64 " and %" PRId64, length, dim);
        length = dim;
    }
    return length;
}

/* Row `iteration` of a scanned input, from the end where it runs backwards. */
static rlx_value_id scan_row(ox *o, const scan *self, uint32_t i, rlx_value_id iteration,
                             int64_t length) {
    uint32_t axis = ox_axis(o, item_of(&self->axes, i), ox_rank(o, self->inputs[i]));
    if (item_of(&self->directions, i) != 0)
        iteration =
            ox_binary(o, RLX_OP_SUB, ox_scalar(o, RLX_DTYPE_I64, (double)(length - 1)), iteration);
    return ox_gather(o, self->inputs[i], iteration, axis);
}

/* A stacked output with its axis and direction as asked for. */
static rlx_value_id scan_output(ox *o, const scan *self, uint32_t i, rlx_value_id y) {
    int64_t perm[RLX_MAX_RANK];
    uint32_t rank = ox_rank(o, y), used = 0;
    if (item_of(&self->output_directions, i) != 0) y = ox_slice(o, y, 0, -1, INT64_MIN, -1);
    uint32_t axis = ox_axis(o, item_of(&self->output_axes, i), rank);
    for (uint32_t d = 0; d < rank; d++)
        perm[d] = d == axis ? 0 : (int64_t)++used;
    return ox_transpose(o, y, perm, rank);
}

static void run_scan(ox *o, const scan *self, rlx_value_id *out) {
    uint32_t states = self->state_count, outputs = self->body->output_count;
    int64_t length = scan_length(o, self);
    rlx_value_id *loop_in = ox_memory(o, 2 + states, sizeof *loop_in),
                 *like = ox_memory(o, 1 + states, sizeof *like),
                 *inner = ox_memory(o, 1 + states, sizeof *inner),
                 *yields = ox_memory(o, 1 + outputs, sizeof *yields);
    ox_item *in = ox_memory(o, states + self->input_count, sizeof *in),
            *items = ox_memory(o, outputs, sizeof *items);
    rlx_block_id block = RLX_NONE;
    const rlx_loop_attrs attrs = {0};
    if (ox_ok(o) && outputs < states) ox_invalid(o, "its body has %u outputs", outputs);
    if (!ox_ok(o)) return;
    loop_in[0] = ox_scalar(o, RLX_DTYPE_I64, (double)length);
    loop_in[1] = RLX_NONE;
    like[0] = RLX_NONE;
    for (uint32_t i = 0; i < states; i++)
        loop_in[2 + i] = like[1 + i] = self->states[i];
    ox_fail(o, rlx_graph_begin_block(o->graph, like, 1 + states, inner, &block));
    for (uint32_t i = 0; i < states && ox_ok(o); i++)
        in[i] = ox_item_of(inner[1 + i]);
    for (uint32_t i = 0; i < self->input_count && ox_ok(o); i++)
        in[states + i] = ox_item_of(scan_row(o, self, i, inner[0], length));
    ox_body(o, self->body, in, states + self->input_count, items);
    if (!ox_ok(o) || !is_known(items, outputs)) return;
    yields[0] = true_value(o);
    for (uint32_t i = 0; i < outputs && ox_ok(o); i++) {
        if (items[i].kind != OX_TENSOR) ox_unsupported(o, "a sequence as output");
        yields[1 + i] = items[i].value;
    }
    if (ox_ok(o)) ox_fail(o, rlx_graph_end_block(o->graph, block, yields, 1 + outputs));
    if (ox_ok(o))
        ox_fail(o, rlx_graph_add_flow(o->graph, RLX_OP_LOOP, &attrs, loop_in, 2 + states, &block, 1,
                                      outputs, out));
    for (uint32_t i = states; i < outputs && ox_ok(o); i++)
        out[i] = scan_output(o, self, i - states, out[i]);
}

/* Version 8 has a batch axis in front: one scan per element, stacked again. */
static void run_batched(ox *o, scan *self, rlx_value_id *out) {
    uint32_t count = self->state_count + self->input_count, outputs = self->body->output_count;
    const rlx_value_id *whole = self->states;
    int64_t batch = ox_dim(o, whole[0], 0);
    rlx_value_id *part = ox_memory(o, count, sizeof *part), **rows = NULL;
    rows = ox_memory(o, outputs, sizeof *rows);
    if (ox_ok(o) && (batch <= 0 || batch > MOST_UNROLLED))
        ox_unsupported(o, "a batch of %" PRId64, batch);
    for (uint32_t i = 0; i < outputs && ox_ok(o); i++)
        rows[i] = ox_memory(o, (uint64_t)batch, sizeof **rows);
    for (int64_t b = 0; b < batch && ox_ok(o); b++) {
        rlx_value_id *one = ox_memory(o, outputs, sizeof *one);
        for (uint32_t i = 0; i < count && ox_ok(o); i++)
            part[i] = ox_squeeze(o, ox_slice(o, whole[i], 0, b, b + 1, 1), 0);
        self->states = part;
        self->inputs = part + self->state_count;
        if (ox_ok(o)) run_scan(o, self, one);
        for (uint32_t i = 0; i < outputs && ox_ok(o); i++)
            rows[i][b] = ox_unsqueeze(o, one[i], 0);
    }
    for (uint32_t i = 0; i < outputs && ox_ok(o); i++)
        out[i] = ox_concat(o, rows[i], (uint32_t)batch, 0);
}

void rlx_ox_scan(ox *o) {
    scan self = {.body = body_of(o, "body")};
    int64_t scanned = ox_int(o, "num_scan_inputs", 0);
    uint32_t first = o->since == 8 ? 1 : 0, count = o->in_count - first;
    ox_item *given = o->out;
    uint32_t out_count = o->out_count;
    if (ox_ok(o) && (o->in_count < first || scanned <= 0 || scanned > (int64_t)count))
        ox_invalid(o, "num_scan_inputs is %" PRId64, scanned);
    if (ox_ok(o) && first == 1 && ox_has(o, 0)) ox_unsupported(o, "sequence_lens");
    if (!ox_ok(o)) return;
    rlx_value_id *values = ox_memory(o, count, sizeof *values);
    rlx_value_id *out = ox_memory(o, self.body->output_count, sizeof *out);
    for (uint32_t i = 0; i < count && ox_ok(o); i++)
        values[i] = ox_in(o, first + i);
    self.state_count = count - (uint32_t)scanned;
    self.input_count = (uint32_t)scanned;
    self.states = values;
    self.inputs = values + self.state_count;
    ox_ints(o, "scan_input_axes", &self.axes);
    ox_ints(o, first == 1 ? "directions" : "scan_input_directions", &self.directions);
    ox_ints(o, "scan_output_axes", &self.output_axes);
    ox_ints(o, "scan_output_directions", &self.output_directions);
    for (uint32_t i = 0; i < self.body->output_count && ox_ok(o); i++)
        out[i] = RLX_NONE;
    if (!ox_ok(o)) return;
    if (first == 1) {
        run_batched(o, &self, out);
    } else {
        run_scan(o, &self, out);
    }
    for (uint32_t i = 0; i < out_count && i < self.body->output_count && ox_ok(o); i++) {
        if (out[i] != RLX_NONE) given[i] = ox_item_of(out[i]);
    }
}
