/* SPDX-License-Identifier: Apache-2.0 */
/* A model file as an rlx_model: decoded, and built once per specialisation. A graph that was built
 * needs nothing of what was decoded, so that is given back (unless a weight is written as single
 * numbers, which is no range of the file); the next build decodes again. Inputs
 * get their sizes from bindings and from the values that the caller offers; of those, only what
 * decides shapes becomes a constant. */
#include "import/onnx/growth.h"
#include "import/onnx/import_onnx.h"

#include "base/log.h"
#include "base/size.h"

#include <string.h>

typedef struct onnx_model {
    rlx_model base;
    rlx_allocator hook;
    rlx_onnx_model proto;
    bool is_decoded;
    bool is_lent; /* a graph has weights in what was decoded: it stays */
    char path[];
} onnx_model;

/* All but the mapped file and its path. */
static void forget_decoded(onnx_model *self) {
    rlx_onnx_model *proto = &self->proto;
    rlx_scratch_reset(&proto->memory);
    *proto = (rlx_onnx_model){.allocator = proto->allocator,
                              .path = proto->path,
                              .map = proto->map,
                              .memory.allocator = proto->allocator};
    self->is_decoded = false;
}

static rlx_status decode(onnx_model *self) {
    if (self->is_decoded) return RLX_OK;
    rlx_status status = rlx_onnx_decode(&self->proto);
    if (status != RLX_OK) {
        forget_decoded(self);
        return status;
    }
    rlx_file_map_forget(&self->proto.map);
    self->is_decoded = true;
    return RLX_OK;
}

/* The value that the caller offers under a name; NULL: none. */
static const rlx_given_value *find_given(const ox *o, const char *name) {
    const rlx_entry_spec *entry = o->options->entry;
    for (uint32_t i = 0; entry != NULL && i < entry->given_count; i++) {
        if (strcmp(entry->given[i].name, name) == 0) return &entry->given[i];
    }
    return NULL;
}

static bool is_initializer(const rlx_onnx_graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->initializer_count; i++) {
        if (strcmp(graph->initializers[i].name, name) == 0) return true;
    }
    return false;
}

/* The symbol of a dim: its own name, or one made of the input's. */
static const char *symbol_name(ox *o, const char *input, const rlx_onnx_type *type, uint32_t axis) {
    const char *name = type->symbols[axis];
    if (name == NULL && ox_ok(o))
        ox_fail(o, rlx_scratch_printf(&o->memory, &name, "%s.dim%u", input, axis));
    return name;
}

static bool find_binding(const ox *o, const char *symbol, int64_t *out_value) {
    const rlx_entry_spec *entry = o->options->entry;
    for (uint32_t i = 0; entry != NULL && i < entry->binding_count; i++) {
        if (strcmp(entry->bindings[i].symbol, symbol) != 0) continue;
        *out_value = entry->bindings[i].value;
        return true;
    }
    for (uint32_t i = 0; i < o->symbol_count; i++) {
        if (strcmp(o->symbols[i], symbol) != 0) continue;
        *out_value = o->symbol_values[i];
        return true;
    }
    return false;
}

static void learn_symbol(ox *o, const char *symbol, int64_t value) {
    const char **symbols = ox_memory(o, o->symbol_count + 1u, sizeof *symbols);
    int64_t *values = ox_memory(o, o->symbol_count + 1u, sizeof *values);
    if (!ox_ok(o)) return;
    if (o->symbol_count != 0) {
        memcpy(symbols, o->symbols, o->symbol_count * sizeof *symbols);
        memcpy(values, o->symbol_values, o->symbol_count * sizeof *values);
    }
    symbols[o->symbol_count] = symbol;
    values[o->symbol_count++] = value;
    o->symbols = symbols;
    o->symbol_values = values;
}

/* A type of strings as what stands for it: bytes in one more axis, whose size is the symbol
 * NAME.bytes. Any other type stays. */
static rlx_onnx_type bytes_type(ox *o, const char *name, const rlx_onnx_type *type) {
    rlx_onnx_type bytes = *type;
    if (type->kind != RLX_ONNX_TYPE_TENSOR || !rlx_onnx_is_string(type->data_type)) return bytes;
    bytes.data_type = RLX_ONNX_DATA_BYTE;
    if (!type->has_shape || !ox_ok(o)) return bytes;
    if (type->rank == RLX_MAX_RANK)
        ox_fail(o,
                RLX_FAIL(RLX_UNSUPPORTED, "input '%s' has strings in %u dims", name, type->rank));
    if (!ox_ok(o)) return bytes;
    bytes.dims[bytes.rank] = -1;
    ox_fail(o, rlx_scratch_printf(&o->memory, &bytes.symbols[bytes.rank++], "%s.bytes", name));
    return bytes;
}

/* Sizes of symbols from the shapes of offered values. */
static void learn_symbols(ox *o, const char *name, const rlx_onnx_type *declared) {
    const rlx_onnx_type held = bytes_type(o, name, declared), *type = &held;
    const rlx_given_value *given = find_given(o, name);
    int64_t known;
    if (given == NULL || !type->has_shape) return;
    if (given->shape.rank != type->rank) {
        ox_fail(o, RLX_FAIL(RLX_MISMATCH, "input '%s' has rank %u, %u was given", name, type->rank,
                            given->shape.rank));
        return;
    }
    for (uint32_t i = 0; i < type->rank && ox_ok(o); i++) {
        if (type->dims[i] >= 0) continue;
        const char *symbol = symbol_name(o, name, type, i);
        if (ox_ok(o) && !find_binding(o, symbol, &known) && !ox_grows(o, symbol, &known))
            learn_symbol(o, symbol, given->shape.dims[i]);
    }
}

/* The axis of an input that grows, if one does. */
typedef struct input_growth {
    bool is_there;
    uint32_t axis;
    int64_t plus;
} input_growth;

static bool find_growth(ox *o, const char *name, const char *symbol, uint32_t axis,
                        int64_t *out_dim, input_growth *out_growth) {
    int64_t plus;
    if (!ox_grows(o, symbol, &plus)) return false;
    if (out_growth->is_there)
        ox_fail(o, RLX_FAIL(RLX_UNSUPPORTED, "input '%s' has two sizes that grow", name));
    *out_growth = (input_growth){true, axis, plus};
    *out_dim = o->growth->most;
    return true;
}

/* The shape of an input: numbers, or symbols where `is_outline`. */
static void find_shape(ox *o, const char *name, const rlx_onnx_type *type, bool is_outline,
                       rlx_shape *out_shape, input_growth *out_growth) {
    const rlx_given_value *given = find_given(o, name);
    rlx_shape shape = {.rank = type->rank};
    if (!type->has_shape) {
        if (given != NULL) {
            *out_shape = given->shape;
            return;
        }
        if (is_outline) return;
        ox_fail(o, RLX_FAIL(RLX_INVALID_ARGUMENT,
                            "input '%s' has no shape in the model: its value must be given", name));
        return;
    }
    for (uint32_t i = 0; i < type->rank && ox_ok(o); i++) {
        const char *symbol = NULL;
        int64_t symbol_dim = 0;
        shape.dims[i] = type->dims[i];
        if (type->dims[i] >= 0) continue;
        symbol = symbol_name(o, name, type, i);
        if (ox_ok(o)) ox_fail(o, rlx_graph_symbol(o->graph, symbol, &symbol_dim));
        if (!ox_ok(o)) return;
        shape.dims[i] = symbol_dim;
        if (is_outline || find_binding(o, symbol, &shape.dims[i])) continue;
        if (find_growth(o, name, symbol, i, &shape.dims[i], out_growth)) continue;
        if (given != NULL && i < given->shape.rank) { /* an element of a sequence */
            shape.dims[i] = given->shape.dims[i];
            continue;
        }
        ox_fail(o, RLX_FAIL(RLX_INVALID_ARGUMENT, "the size of symbol '%s' is not bound", symbol));
    }
    *out_shape = shape;
}

static void check_given(ox *o, const char *name, rlx_dtype dtype, const rlx_shape *shape) {
    const rlx_given_value *given = find_given(o, name);
    if (given == NULL || !ox_ok(o)) return;
    /* .npy files have no bf16 and f8: their bits stand there as u16 and u8. */
    bool is_raw = (dtype == RLX_DTYPE_BF16 && given->dtype == RLX_DTYPE_U16) ||
                  (dtype >= RLX_DTYPE_F8E4M3FN && dtype <= RLX_DTYPE_F8E5M2FNUZ &&
                   given->dtype == RLX_DTYPE_U8);
    if ((given->dtype == dtype || is_raw) && rlx_shape_equal(&given->shape, shape)) return;
    char expected[128], got[128];
    rlx_type type = rlx_type_make(dtype, shape->dims, shape->rank);
    rlx_type other = rlx_type_make(given->dtype, given->shape.dims, given->shape.rank);
    ox_fail(o, RLX_FAIL(RLX_MISMATCH, "input '%s' is %s, %s was given", name,
                        rlx_type_text(o->graph, &type, expected, sizeof expected),
                        rlx_type_text(NULL, &other, got, sizeof got)));
}

static ox_item tensor_input(ox *o, const char *name, const rlx_onnx_type *declared, bool is_bound,
                            bool is_outline) {
    const rlx_onnx_type held = bytes_type(o, name, declared), *type = &held;
    rlx_dtype dtype = RLX_DTYPE_F32;
    rlx_shape shape = {0};
    input_growth growth = {0};
    rlx_value_id value = RLX_NONE;
    if (!rlx_onnx_dtype(type->data_type, &dtype)) {
        ox_fail(o, RLX_FAIL(RLX_UNSUPPORTED, "input '%s' has type %s", name,
                            rlx_onnx_type_name(type->data_type)));
        return (ox_item){.kind = OX_UNKNOWN};
    }
    find_shape(o, name, type, is_outline, &shape, &growth);
    if (ox_ok(o) && rlx_onnx_is_string(declared->data_type) && shape.rank == 0 && !is_outline)
        ox_fail(o, RLX_FAIL(RLX_INVALID_ARGUMENT,
                            "input '%s' holds strings: bytes in one more axis are wanted", name));
    if (!is_outline) check_given(o, name, dtype, &shape);
    if (!ox_ok(o)) return (ox_item){.kind = OX_UNKNOWN};
    if (growth.is_there) {
        value = ox_growing_input(o, name, dtype, &shape, growth.axis, growth.plus);
    } else if (is_bound) {
        const rlx_given_value *given = find_given(o, name);
        ox_fail(o, rlx_graph_add_constant(o->graph, name, dtype, shape, given->data, given->bytes,
                                          &value));
    } else {
        ox_fail(o, rlx_graph_add_input(o->graph, name, dtype, shape, &value));
    }
    ox_item item = ox_item_of(value);
    if (rlx_onnx_is_string(declared->data_type)) item.kind = OX_STRINGS;
    return item;
}

static ox_item make_input(ox *o, const char *name, const rlx_onnx_type *type, bool is_bound,
                          bool is_outline);

/* "name.length" says how many elements there are; they are the inputs "name.0", "name.1".. */
static ox_item sequence_input(ox *o, const char *name, const rlx_onnx_type *type, bool is_outline) {
    const char *text = NULL;
    const rlx_given_value *given = NULL;
    int64_t count = 0;
    ox_item *items = NULL;
    ox_fail(o, rlx_scratch_printf(&o->memory, &text, "%s.length", name));
    if (ox_ok(o)) given = find_given(o, text);
    if (ox_ok(o) && given == NULL && !is_outline)
        ox_fail(o, RLX_FAIL(RLX_INVALID_ARGUMENT,
                            "sequence '%s' needs its length: give '%s' as an i64", name, text));
    if (given != NULL && given->bytes == sizeof count) memcpy(&count, given->data, sizeof count);
    if (count < 0 || count > RLX_ONNX_MOST_ITEMS || type->element == NULL)
        ox_fail(o, RLX_FAIL(RLX_INVALID_ARGUMENT, "sequence '%s' has a length of %" PRId64, name,
                            count));
    if (ox_ok(o)) items = ox_memory(o, (uint64_t)count, sizeof *items);
    for (int64_t i = 0; i < count && ox_ok(o); i++) {
        ox_fail(o, rlx_scratch_printf(&o->memory, &text, "%s.%" PRId64, name, i));
        if (ox_ok(o)) items[i] = make_input(o, text, type->element, false, is_outline);
    }
    return (ox_item){.kind = OX_SEQUENCE, .items = items, .count = (uint32_t)count};
}

/* Absent exactly when the caller offers "name.empty". */
static ox_item optional_input(ox *o, const char *name, const rlx_onnx_type *type, bool is_outline) {
    const char *text = NULL;
    ox_fail(o, rlx_scratch_printf(&o->memory, &text, "%s.empty", name));
    if (!ox_ok(o) || type->element == NULL || find_given(o, text) != NULL)
        return (ox_item){.kind = OX_EMPTY};
    return make_input(o, name, type->element, false, is_outline);
}

static ox_item make_input(ox *o, const char *name, const rlx_onnx_type *type, bool is_bound,
                          bool is_outline) {
    if (type->kind == RLX_ONNX_TYPE_TENSOR)
        return tensor_input(o, name, type, is_bound, is_outline);
    if (type->kind == RLX_ONNX_TYPE_SEQUENCE) return sequence_input(o, name, type, is_outline);
    if (type->kind == RLX_ONNX_TYPE_OPTIONAL) return optional_input(o, name, type, is_outline);
    ox_fail(o,
            RLX_FAIL(RLX_UNSUPPORTED, "input '%s' is neither tensor, sequence nor optional", name));
    return (ox_item){.kind = OX_UNKNOWN};
}

static void define_inputs(ox *o, bool is_outline) {
    const rlx_onnx_graph *graph = &o->model->graph;
    for (uint32_t i = 0; i < graph->input_count && ox_ok(o); i++)
        learn_symbols(o, graph->inputs[i].name, &graph->inputs[i].type);
    for (uint32_t i = 0; i < graph->input_count && ox_ok(o); i++) {
        const rlx_onnx_value_info *info = &graph->inputs[i];
        if (is_initializer(graph, info->name)) continue; /* a default that nobody changes */
        o->has_value[i] = find_given(o, info->name) != NULL && info->name[0] != 0 &&
                          find_given(o, info->name)->data != NULL;
        ox_define(o, info->name,
                  make_input(o, info->name, &info->type, o->is_bound[i], is_outline));
    }
}

static void add_output(ox *o, const char *name, ox_item item) {
    const char *text = NULL;
    if (item.kind == OX_TENSOR || item.kind == OX_STRINGS) {
        ox_fail(o, rlx_graph_add_output(o->graph, item.value, name));
    } else if (item.kind == OX_SEQUENCE) {
        for (uint32_t i = 0; i < item.count && ox_ok(o); i++) {
            ox_fail(o, rlx_scratch_printf(&o->memory, &text, "%s.%u", name, i));
            if (ox_ok(o)) add_output(o, text, item.items[i]);
        }
    }
}

/* Bindings must name symbols that exist; those that no input has are a caller's mistake that bind
 * reports, so every known symbol is declared, used or not. */
static void build_graph(ox *o) {
    const rlx_onnx_graph *graph = &o->model->graph;
    ox_item *outputs = ox_memory(o, graph->output_count, sizeof *outputs);
    for (uint32_t i = 0; i < OX_CELLS; i++)
        o->cells[i] = RLX_NONE;
    o->opsets = o->model->opsets;
    o->opset_count = o->model->opset_count;
    ox_growth_begin(o);
    define_inputs(o, false);
    rlx_onnx_graph body = *graph;
    body.input_count = 0; /* defined above */
    ox_body(o, &body, NULL, 0, outputs);
    if (o->wants_restart || o->problem_count != 0) return;
    for (uint32_t i = 0; i < graph->output_count && ox_ok(o); i++) {
        bool is_tensor = outputs[i].kind == OX_TENSOR;
        if (is_tensor && ox_give_back(o, outputs[i].value)) continue;
        add_output(o, graph->outputs[i].name, outputs[i]);
    }
    ox_growth_end(o);
}

/* The error text holds as many nodes as fit; each is also a message of its own. */
static rlx_status report(ox *o) {
    if (o->problems.status != RLX_OK) return o->problems.status;
    for (const char *at = o->problems.data; at != NULL;) {
        const char *end = strstr(at, "\n  ");
        int length = end == NULL ? (int)strlen(at) : (int)(end - at);
        rlx_log(RLX_LOG_ERROR, "unsupported: %.*s", length, at);
        at = end == NULL ? NULL : end + 3;
    }
    return RLX_FAIL(RLX_UNSUPPORTED, "%u %s not supported:\n  %s", o->problem_count,
                    o->problem_count == 1 ? "node is" : "nodes are", o->problems.data);
}

static rlx_status check_opsets(const rlx_onnx_model *model) {
    for (uint32_t i = 0; i < model->opset_count; i++) {
        const char *domain = model->opsets[i].domain;
        bool is_main = domain[0] == 0 || strcmp(domain, "ai.onnx") == 0;
        if (!is_main || model->opsets[i].version <= RLX_ONNX_NEWEST_OPSET) continue;
        return RLX_FAIL(RLX_UNSUPPORTED, "opset %" PRId64 "; this version knows 1 to %d",
                        model->opsets[i].version, RLX_ONNX_NEWEST_OPSET);
    }
    return RLX_OK;
}

/* One try. *out_graph stays NULL when more inputs must be bound. */
static rlx_status try_build(onnx_model *self, const rlx_import_options *options, bool *is_bound,
                            rlx_graph **out_graph, bool *out_again) {
    ox o = {
        .model = &self->proto, .lasting = &self->proto, .options = options, .is_bound = is_bound};
    o.memory.allocator = options->allocator;
    o.problems.allocator = options->allocator;
    o.status = rlx_graph_create(options->allocator, &o.graph);
    o.has_value = ox_memory(&o, self->proto.graph.input_count, sizeof *o.has_value);
    if (ox_ok(&o)) build_graph(&o);
    self->is_lent |= o.lends_memory;
    *out_again = ox_ok(&o) && o.wants_restart;
    rlx_status status = o.status;
    if (status == RLX_OK && !*out_again && o.problem_count != 0) status = report(&o);
    if (status == RLX_OK && !*out_again) {
        *out_graph = o.graph;
    } else {
        rlx_graph_destroy(o.graph);
    }
    rlx_text_free(&o.problems);
    rlx_vec_free(options->allocator, &o.names);
    rlx_scratch_reset(&o.memory);
    return status;
}

static rlx_status build(rlx_model *base, const rlx_import_options *options, rlx_graph **out_graph) {
    onnx_model *self = (onnx_model *)base;
    bool *is_bound = NULL, is_again = true;
    RLX_TRY(decode(self));
    uint32_t inputs = self->proto.graph.input_count;
    RLX_TRY(check_opsets(&self->proto));
    RLX_TRY(rlx_alloc_array(options->allocator, inputs + 1u, sizeof *is_bound, (void **)&is_bound));
    rlx_status status = RLX_OK;
    for (uint32_t tries = 0; status == RLX_OK && is_again && tries <= inputs; tries++)
        status = try_build(self, options, is_bound, out_graph, &is_again);
    rlx_free(options->allocator, is_bound);
    rlx_file_map_forget(&self->proto.map);
    if (status == RLX_OK && is_again) status = RLX_FAIL(RLX_INTERNAL, "inputs are never bound");
    if (status == RLX_OK && !self->is_lent) forget_decoded(self);
    return status;
}

/* Inputs with symbols and outputs without types: what a file says before sizes are bound. */
static void outline_graph(ox *o) {
    const rlx_onnx_graph *graph = &o->model->graph;
    for (uint32_t i = 0; i < OX_CELLS; i++)
        o->cells[i] = RLX_NONE;
    define_inputs(o, true);
    for (uint32_t i = 0; i < graph->initializer_count && ox_ok(o); i++)
        ox_tensor(o, &graph->initializers[i], graph->initializers[i].name);
    for (uint32_t i = 0; i < graph->output_count && ox_ok(o); i++) {
        rlx_value_id value = RLX_NONE;
        if (rlx_graph_find(o->graph, graph->outputs[i].name, &value) != RLX_OK)
            ox_fail(o, rlx_graph_new_value(o->graph, graph->outputs[i].name, RLX_VALUE_TEMPORARY,
                                           &value));
        if (ox_ok(o)) ox_fail(o, rlx_graph_add_output(o->graph, value, graph->outputs[i].name));
    }
}

static rlx_status outline(rlx_model *base, const rlx_import_options *options,
                          rlx_graph **out_graph) {
    onnx_model *self = (onnx_model *)base;
    ox o = {.model = &self->proto, .lasting = &self->proto, .options = options};
    RLX_TRY(decode(self));
    o.memory.allocator = options->allocator;
    o.status = rlx_graph_create(options->allocator, &o.graph);
    o.has_value = ox_memory(&o, self->proto.graph.input_count, sizeof *o.has_value);
    o.is_bound = ox_memory(&o, self->proto.graph.input_count, sizeof *o.is_bound);
    if (ox_ok(&o)) outline_graph(&o);
    self->is_lent |= o.lends_memory;
    if (o.status == RLX_OK) {
        *out_graph = o.graph;
    } else {
        rlx_graph_destroy(o.graph);
    }
    rlx_vec_free(options->allocator, &o.names);
    rlx_scratch_reset(&o.memory);
    return o.status;
}

static void destroy(rlx_model *base) {
    onnx_model *self = (onnx_model *)base;
    const rlx_allocator hook = self->hook;
    forget_decoded(self);
    rlx_file_map_close(&self->proto.map);
    rlx_free(&hook, self);
}

static const rlx_model_ops onnx_ops = {destroy, build, outline};

bool rlx_probe_onnx(const uint8_t *head, uint64_t bytes) {
    return bytes > 2 && head[0] == 0x08 && head[1] >= 1 && head[1] < 32;
}

rlx_status rlx_open_onnx(const rlx_allocator *allocator, const char *path, rlx_model **out_model) {
    onnx_model *self = NULL;
    if (allocator == NULL) allocator = rlx_default_allocator();
    uint64_t length = strlen(path) + 1;
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *self + length, (void **)&self));
    self->base.ops = &onnx_ops;
    self->hook = *allocator;
    self->proto.allocator = &self->hook;
    self->proto.memory.allocator = &self->hook;
    self->proto.path = memcpy(self->path, path, length);
    rlx_status status = rlx_file_map_open(path, &self->proto.map);
    if (status == RLX_OK) status = decode(self);
    if (status != RLX_OK) {
        destroy(&self->base);
        return rlx_fail_context(status, "%s", path);
    }
    *out_model = &self->base;
    return RLX_OK;
}
