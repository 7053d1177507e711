/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the nodes of a model in order and hands each to its row of map.def. Names, scopes, function
 * calls and the list of what is not supported are here; what an op means is in the op_*.c files. */
#include "import/onnx/build.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NODES = 1 << 20, MOST_CALLS = 64, FEW_PORTS = 12 };

static uint32_t hash_text(const char *text) {
    uint32_t hash = 2166136261u;
    for (; *text != 0; text++)
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    return hash;
}

uint32_t ox_scope(const ox *o) {
    return o->names.count;
}

void ox_leave(ox *o, uint32_t scope) {
    while (o->names.count > scope) {
        const ox_name *last = &o->names.items[--o->names.count];
        o->cells[last->cell] = last->next;
    }
}

void ox_define(ox *o, const char *name, ox_item item) {
    ox_name row = {.name = name, .item = item, .cell = hash_text(name) % OX_CELLS};
    if (!ox_ok(o) || name[0] == 0) return;
    row.next = o->cells[row.cell];
    ox_fail(o, rlx_vec_push(o->options->allocator, &o->names, row));
    if (ox_ok(o)) o->cells[row.cell] = o->names.count - 1;
}

static uint32_t find_name(const ox *o, const char *name) {
    uint32_t at = o->cells[hash_text(name) % OX_CELLS];
    while (at != RLX_NONE && strcmp(o->names.items[at].name, name) != 0)
        at = o->names.items[at].next;
    return at;
}

bool ox_find(const ox *o, const char *name, ox_item *out_item) {
    uint32_t at = find_name(o, name);
    if (at != RLX_NONE) *out_item = o->names.items[at].item;
    return at != RLX_NONE;
}

bool ox_has(const ox *o, uint32_t index) {
    return index < o->in_count && o->in[index].kind != OX_NONE;
}

rlx_value_id ox_maybe(ox *o, uint32_t index) {
    if (!ox_ok(o) || !ox_has(o, index)) return RLX_NONE;
    if (o->in[index].kind == OX_TENSOR) return o->in[index].value;
    if (o->in[index].kind == OX_STRINGS) ox_unsupported(o, "input %u holds strings", index);
    ox_invalid(o, "input %u is no tensor", index);
    return RLX_NONE;
}

rlx_value_id ox_strings(ox *o, uint32_t index) {
    if (!ox_ok(o)) return RLX_NONE;
    if (ox_has(o, index) && o->in[index].kind == OX_STRINGS) return o->in[index].value;
    ox_invalid(o, "input %u holds no strings", index);
    return RLX_NONE;
}

rlx_value_id ox_in(ox *o, uint32_t index) {
    rlx_value_id value = ox_maybe(o, index);
    if (value == RLX_NONE) ox_invalid(o, "input %u is missing", index);
    return value;
}

bool ox_wants(const ox *o, uint32_t index) {
    return index < o->out_count && o->node->outputs[index][0] != 0;
}

void ox_give_item(ox *o, uint32_t index, ox_item item) {
    if (index < o->out_count) o->out[index] = item;
}

void ox_give(ox *o, uint32_t index, rlx_value_id value) {
    if (value != RLX_NONE) ox_give_item(o, index, ox_item_of(value));
}

/* An attribute of the node; inside a function it may stand for one of the call. */
static const rlx_onnx_attr *find_attr(const rlx_onnx_attr *attrs, uint32_t count,
                                      const char *name) {
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(attrs[i].name, name) == 0) return &attrs[i];
    }
    return NULL;
}

const rlx_onnx_attr *ox_attr(ox *o, const char *name) {
    const rlx_onnx_attr *attr = find_attr(o->node->attrs, o->node->attr_count, name);
    const ox_call *call = o->call;
    while (attr != NULL && attr->reference != NULL && attr->reference[0] != 0) {
        if (call == NULL) {
            ox_invalid(o, "attribute '%s' refers to '%s' outside a function", name,
                       attr->reference);
            return NULL;
        }
        const char *wanted = attr->reference;
        attr = find_attr(call->node->attrs, call->node->attr_count, wanted);
        if (attr == NULL)
            attr = find_attr(call->function->attrs, call->function->attr_count, wanted);
        call = call->outer;
    }
    return attr;
}

static bool check_attr(ox *o, const rlx_onnx_attr *attr, rlx_onnx_attr_type type) {
    if (attr == NULL) return false;
    if (attr->type == type) return true;
    ox_invalid(o, "attribute '%s' has type %d instead of %d", attr->name, (int)attr->type,
               (int)type);
    return false;
}

int64_t ox_int(ox *o, const char *name, int64_t otherwise) {
    const rlx_onnx_attr *attr = ox_attr(o, name);
    return check_attr(o, attr, RLX_ONNX_INT) ? attr->i : otherwise;
}

double ox_float(ox *o, const char *name, double otherwise) {
    const rlx_onnx_attr *attr = ox_attr(o, name);
    return check_attr(o, attr, RLX_ONNX_FLOAT) ? (double)attr->f : otherwise;
}

const char *ox_text(ox *o, const char *name, const char *otherwise) {
    const rlx_onnx_attr *attr = ox_attr(o, name);
    return check_attr(o, attr, RLX_ONNX_STRING) ? attr->s.data : otherwise;
}

bool ox_ints(ox *o, const char *name, rlx_ints *out_ints) {
    const rlx_onnx_attr *attr = ox_attr(o, name);
    if (!check_attr(o, attr, RLX_ONNX_INTS)) return false;
    if (attr->count > RLX_MAX_INTS) {
        ox_unsupported(o, "attribute '%s' has %u items; at most %d", name, attr->count,
                       RLX_MAX_INTS);
        return false;
    }
    out_ints->count = attr->count;
    for (uint32_t i = 0; i < attr->count; i++)
        out_ints->items[i] = attr->ints[i];
    return true;
}

void ox_only_int(ox *o, const char *name, int64_t only) {
    int64_t found = ox_int(o, name, only);
    if (found != only) ox_unsupported(o, "%s = %" PRId64, name, found);
}

/* "node 'conv1' (Conv-11)" */
static const char *node_text(const ox *o, char *buffer, size_t bytes) {
    const char *name = o->node->name;
    if (name[0] == 0 && o->node->output_count != 0) name = o->node->outputs[0];
    if (o->since != 0 && strcmp(o->node->domain, OX_MICROSOFT) != 0) {
        snprintf(buffer, bytes, "node '%s' (%s-%" PRId64 ")", name, o->node->op, o->since);
    } else {
        snprintf(buffer, bytes, "node '%s' (%s%s%s)", name, o->node->domain,
                 o->node->domain[0] == 0 ? "" : ".", o->node->op);
    }
    return buffer;
}

static void note_problem(ox *o, const char *reason) {
    char text[256];
    rlx_text_printf(&o->problems, "%s%s: %s", o->problem_count == 0 ? "" : "\n  ",
                    node_text(o, text, sizeof text), reason);
    o->problem_count++;
}

/* What the node's handler left: an unsupported one is noted and the walk goes on, to find all. */
static void settle(ox *o) {
    char text[256];
    if (o->status == RLX_OK) return;
    if (o->wants_restart && o->status == RLX_INVALID_ARGUMENT) {
        o->status = RLX_OK;
    } else if (o->status == RLX_UNSUPPORTED) {
        note_problem(o, rlx_last_error());
        o->status = o->problems.status;
    } else if (o->status != RLX_OUT_OF_MEMORY && (!o->is_placed || o->depth <= 2)) {
        /* The innermost node and the outer two: a deep chain of calls would hide the reason. */
        rlx_fail_context(o->status, "%s", node_text(o, text, sizeof text));
        o->is_placed = true;
    }
    for (uint32_t i = 0; i < o->out_count; i++)
        o->out[i] = (ox_item){.kind = OX_UNKNOWN};
}

static bool find_inputs(ox *o) {
    bool is_known = true;
    for (uint32_t i = 0; i < o->in_count; i++) {
        const char *name = o->node->inputs[i];
        if (name[0] == 0) {
            o->in[i].kind = OX_NONE;
        } else if (!ox_find(o, name, &o->in[i])) {
            ox_invalid(o, "input %u, '%s', is not defined", i, name);
            return false;
        }
        is_known = is_known && o->in[i].kind != OX_UNKNOWN;
    }
    return is_known;
}

static int64_t opset_of(const ox *o, const char *domain) {
    bool is_main = strcmp(domain, "ai.onnx") == 0 || domain[0] == 0;
    for (uint32_t i = 0; i < o->opset_count; i++) {
        const char *given = o->opsets[i].domain;
        bool given_main = strcmp(given, "ai.onnx") == 0 || given[0] == 0;
        if (is_main ? given_main : strcmp(given, domain) == 0) return o->opsets[i].version;
    }
    return is_main ? 1 : 0;
}

static const rlx_onnx_function *find_function(const ox *o) {
    for (uint32_t i = 0; i < o->model->function_count; i++) {
        const rlx_onnx_function *function = &o->model->functions[i];
        if (strcmp(function->name, o->node->op) == 0 &&
            strcmp(function->domain, o->node->domain) == 0)
            return function;
    }
    return NULL;
}

static void map_node(ox *o, const rlx_onnx_node *node);

/* Expands a call: the body sees the call's inputs and nothing else. */
static void call_function(ox *o, const rlx_onnx_function *function) {
    const rlx_onnx_node *node = o->node;
    ox_call call = {node, function, o->call};
    const rlx_onnx_opset *opsets = o->opsets;
    uint32_t opset_count = o->opset_count, scope = ox_scope(o), base = o->base;
    ox_item *in = o->in, *out = o->out;
    uint32_t in_count = o->in_count, out_count = o->out_count;
    if (in_count > function->input_count || out_count > function->output_count)
        ox_invalid(o, "function '%s' has %u inputs and %u outputs", function->name,
                   function->input_count, function->output_count);
    for (uint32_t i = 0; i < function->input_count && ox_ok(o); i++)
        ox_define(o, function->inputs[i], i < in_count ? in[i] : (ox_item){.kind = OX_NONE});
    o->call = &call;
    o->base = scope;
    if (function->opset_count != 0) {
        o->opsets = function->opsets;
        o->opset_count = function->opset_count;
    }
    for (uint32_t i = 0; i < function->node_count && ox_ok(o); i++)
        map_node(o, &function->nodes[i]);
    o->call = call.outer;
    o->opsets = opsets;
    o->opset_count = opset_count;
    o->node = node;
    o->since = 0;
    for (uint32_t i = 0; i < out_count && ox_ok(o); i++) {
        if (!ox_find(o, function->outputs[i], &out[i]))
            ox_invalid(o, "function '%s' does not define '%s'", function->name,
                       function->outputs[i]);
    }
    ox_leave(o, scope);
    o->base = base;
    o->in = in;
    o->out = out;
    o->in_count = in_count;
    o->out_count = out_count;
}

static void run_handler(ox *o) {
    const char *reason = NULL;
    const rlx_onnx_function *function = find_function(o);
    ox_handler handler = NULL;
    o->opset = opset_of(o, o->node->domain);
    if (function == NULL) {
        handler =
            ox_find_handler(o->node->domain, o->node->op, o->opset, &o->since, &o->op, &reason);
        if (handler == NULL) {
            ox_unsupported(o, "%s", reason);
            return;
        }
    }
    if (!find_inputs(o)) return;
    if (function != NULL) {
        call_function(o, function);
    } else {
        handler(o);
    }
}

/* The graph's value gets the ONNX name, so that plans and messages speak the model's language. */
static void name_value(ox *o, const char *name, ox_item item) {
    rlx_value_id other;
    bool is_tensor = item.kind == OX_TENSOR || item.kind == OX_STRINGS;
    if (!is_tensor || item.value >= o->graph->values.count) return;
    if (o->graph->values.items[item.value].name[0] != '%') return;
    if (rlx_graph_find(o->graph, name, &other) == RLX_OK) return;
    ox_fail(o, rlx_graph_rename(o->graph, item.value, name));
}

static void define_outputs(ox *o) {
    for (uint32_t i = 0; i < o->out_count && ox_ok(o); i++) {
        const char *name = o->node->outputs[i];
        uint32_t known = find_name(o, name);
        if (name[0] == 0) continue;
        if (known != RLX_NONE && known >= o->base) {
            char text[256];
            ox_invalid(o, "%s: '%s' is defined twice", node_text(o, text, sizeof text), name);
            return;
        }
        name_value(o, name, o->out[i]);
        ox_define(o, name, o->out[i]);
    }
}

static void map_node(ox *o, const rlx_onnx_node *node) {
    ox_item few[FEW_PORTS] = {{0}}; /* no memory of the build for nodes of usual size */
    const rlx_onnx_node *outer = o->node;
    ox_item *in = o->in, *out = o->out;
    uint32_t in_count = o->in_count, out_count = o->out_count;
    int64_t since = o->since, opset = o->opset;
    if (++o->inlined > MOST_NODES)
        ox_fail(o, RLX_FAIL(RLX_UNSUPPORTED, "more than %d nodes", MOST_NODES));
    if (o->depth > MOST_CALLS)
        ox_fail(o, RLX_FAIL(RLX_INVALID_GRAPH, "bodies are nested more than %d deep", MOST_CALLS));
    if (!ox_ok(o)) return;
    o->depth++;
    o->node = node;
    o->since = 0;
    o->in_count = node->input_count;
    o->out_count = node->output_count;
    o->in = few;
    if (node->input_count > FEW_PORTS || node->output_count > FEW_PORTS - node->input_count)
        o->in = ox_memory(o, (uint64_t)node->input_count + node->output_count, sizeof *o->in);
    o->out = o->in + node->input_count;
    if (ox_ok(o)) {
        rlx_block_id block = o->graph->current;
        run_handler(o);
        settle(o);
        o->graph->current = block; /* a body that failed half way left its block open */
        o->node = node;
        define_outputs(o);
    }
    o->depth--;
    o->node = outer;
    o->in = in;
    o->out = out;
    o->in_count = in_count;
    o->out_count = out_count;
    o->since = since;
    o->opset = opset;
}

static void define_initializers(ox *o, const rlx_onnx_graph *graph) {
    if (graph->sparse_count != 0)
        ox_fail(o, RLX_FAIL(RLX_UNSUPPORTED, "the graph has %u sparse initializers",
                            graph->sparse_count));
    for (uint32_t i = 0; i < graph->initializer_count && ox_ok(o); i++) {
        const rlx_onnx_tensor *tensor = &graph->initializers[i];
        rlx_value_id other;
        bool is_free = rlx_graph_find(o->graph, tensor->name, &other) != RLX_OK;
        uint32_t known = find_name(o, tensor->name);
        if (known != RLX_NONE && known >= o->base)
            ox_invalid(o, "initializer '%s' is defined twice", tensor->name);
        ox_define(o, tensor->name, ox_tensor_item(o, tensor, is_free ? tensor->name : NULL));
    }
}

void ox_body(ox *o, const rlx_onnx_graph *graph, const ox_item *inputs, uint32_t input_count,
             ox_item *out) {
    uint32_t scope = ox_scope(o), base = o->base;
    if (!ox_ok(o)) return;
    o->base = scope;
    if (input_count != graph->input_count)
        ox_invalid(o, "its body has %u inputs instead of %u", graph->input_count, input_count);
    for (uint32_t i = 0; i < graph->input_count && ox_ok(o); i++)
        ox_define(o, graph->inputs[i].name, inputs[i]);
    define_initializers(o, graph);
    uint32_t count = 0;
    const uint32_t *order = ox_order(o, graph, &count);
    for (uint32_t i = 0; i < count && ox_ok(o); i++)
        map_node(o, &graph->nodes[order[i]]);
    for (uint32_t i = 0; i < graph->output_count && ox_ok(o); i++) {
        if (!ox_find(o, graph->outputs[i].name, &out[i]))
            ox_invalid(o, "its body does not define its output '%s'", graph->outputs[i].name);
        if (ox_ok(o) && out[i].kind == OX_UNKNOWN && !o->wants_restart && o->problem_count == 0)
            ox_invalid(o, "its body's output '%s' is unknown", graph->outputs[i].name);
    }
    ox_leave(o, scope);
    o->base = base;
}
