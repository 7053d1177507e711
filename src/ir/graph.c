/* SPDX-License-Identifier: Apache-2.0 */
/* The graph's tables: values, their names and symbols, outputs, and looking things up. Adding nodes
 * is in build.c, rewriting in edit.c. */
#include "ir/graph.h"

#include "base/hash.h"
#include "base/size.h"
#include "ir/dtype.h"

#include <stdio.h>
#include <string.h>

rlx_status rlx_graph_create(const rlx_allocator *allocator, rlx_graph **out_graph) {
    rlx_graph *graph = NULL;
    if (out_graph == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (allocator == NULL) allocator = rlx_default_allocator();
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *graph, (void **)&graph));
    graph->hook = *allocator;
    graph->allocator = &graph->hook;
    graph->memory.allocator = graph->allocator;
    rlx_block main_block = {.parent = RLX_NONE, .owner = RLX_NONE, .is_open = true};
    rlx_status status = rlx_vec_push(graph->allocator, &graph->blocks, main_block);
    if (status != RLX_OK) {
        rlx_graph_destroy(graph);
        return status;
    }
    *out_graph = graph;
    return RLX_OK;
}

void rlx_graph_destroy(rlx_graph *graph) {
    if (graph == NULL) return;
    const rlx_allocator hook = graph->hook, *allocator = &hook;
    for (uint32_t i = 0; i < graph->blocks.count; i++) {
        rlx_vec_free(allocator, &graph->blocks.items[i].nodes);
    }
    rlx_vec_free(allocator, &graph->values);
    rlx_vec_free(allocator, &graph->nodes);
    rlx_vec_free(allocator, &graph->blocks);
    rlx_vec_free(allocator, &graph->symbols);
    rlx_vec_free(allocator, &graph->outputs);
    rlx_vec_free(allocator, &graph->names);
    rlx_scratch_reset(&graph->memory);
    rlx_free(allocator, graph);
}

static uint64_t hash_text(const char *text) {
    uint64_t hash = rlx_hash(RLX_HASH_SEED, text, strlen(text));
    return hash ^ (hash >> 29);
}

/* Where `name` is, or where it would go; the table is never full. */
static uint32_t name_cell(const rlx_graph *graph, const char *name) {
    uint32_t mask = graph->names.count - 1;
    uint32_t cell = (uint32_t)hash_text(name) & mask;
    while (graph->names.items[cell] != RLX_NONE &&
           strcmp(graph->values.items[graph->names.items[cell]].name, name) != 0) {
        cell = (cell + 1) & mask;
    }
    return cell;
}

void rlx_graph_rehash(rlx_graph *graph) {
    while (graph->names.count > 64 && graph->names.count / 4 > graph->values.count)
        graph->names.count /= 2;
    if (graph->names.count == 0) return;
    memset(graph->names.items, 0xFF, graph->names.count * sizeof *graph->names.items);
    graph->renamed = 0;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        graph->names.items[name_cell(graph, graph->values.items[i].name)] = i;
    }
}

/* Keeps the table at most half full, cells of former names included. */
static rlx_status reserve_name(rlx_graph *graph) {
    uint32_t wanted = graph->names.count == 0 ? 64 : graph->names.count;
    if (graph->values.count >= UINT32_MAX / 8) {
        return RLX_FAIL(RLX_UNSUPPORTED, "a graph has at most 2^29 values");
    }
    while (wanted < 2 * (graph->values.count + graph->renamed + 1))
        wanted *= 2;
    if (wanted == graph->names.count) return RLX_OK;
    RLX_TRY(rlx_vec_reserve(graph->allocator, &graph->names, wanted));
    graph->names.count = wanted;
    rlx_graph_rehash(graph);
    return RLX_OK;
}

void rlx_graph_drop_values(rlx_graph *graph, uint32_t first) {
    if (first == graph->values.count) return;
    graph->values.count = first;
    rlx_graph_rehash(graph);
}

rlx_status rlx_graph_rename(rlx_graph *graph, rlx_value_id id, const char *name) {
    const char *copy = NULL;
    if (graph == NULL || name == NULL || name[0] == 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "a value needs a name");
    }
    if (id >= graph->values.count) return RLX_FAIL(RLX_NOT_FOUND, "no value %u", id);
    graph->renamed++;
    RLX_TRY(reserve_name(graph));
    rlx_value_id holder = graph->names.items[name_cell(graph, name)];
    if (holder == id) return RLX_OK;
    if (holder != RLX_NONE) return RLX_FAIL(RLX_INVALID_GRAPH, "the name '%s' is taken", name);
    RLX_TRY(rlx_scratch_text(&graph->memory, name, strlen(name), &copy));
    uint32_t cell = name_cell(graph, copy);
    graph->values.items[id].name =
        copy; /* its old cell stays as a tombstone until the next rehash */
    graph->names.items[cell] = id;
    return RLX_OK;
}

rlx_status rlx_graph_new_value(rlx_graph *graph, const char *name, rlx_value_kind kind,
                               rlx_value_id *out_value) {
    rlx_value value = {.kind = kind, .producer = RLX_NONE, .block = graph->current};
    uint32_t id = graph->values.count;
    char made_up[16];
    value.type = rlx_type_make(RLX_DTYPE_F32, NULL, 0);
    RLX_TRY(reserve_name(graph));
    if (name == NULL || name[0] == 0) {
        if (graph->made < id) graph->made = id;
        do {
            snprintf(made_up, sizeof made_up, "%%%u", graph->made++);
        } while (graph->names.items[name_cell(graph, made_up)] != RLX_NONE);
        name = made_up;
    } else if (graph->names.items[name_cell(graph, name)] != RLX_NONE) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "the name '%s' is taken", name);
    }
    RLX_TRY(rlx_scratch_text(&graph->memory, name, strlen(name), &value.name));
    uint32_t cell = name_cell(graph, value.name);
    RLX_TRY(rlx_vec_push(graph->allocator, &graph->values, value));
    graph->names.items[cell] = id;
    *out_value = id;
    return RLX_OK;
}

rlx_status rlx_graph_symbol(rlx_graph *graph, const char *name, int64_t *out_dim) {
    const char *copy = NULL;
    if (graph == NULL || out_dim == NULL || name == NULL || name[0] == 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "a symbol needs a graph and a name");
    }
    for (uint32_t i = 0; i < graph->symbols.count; i++) {
        if (strcmp(graph->symbols.items[i], name) == 0) {
            *out_dim = rlx_symbol_dim(i);
            return RLX_OK;
        }
    }
    RLX_TRY(rlx_scratch_text(&graph->memory, name, strlen(name), &copy));
    RLX_TRY(rlx_vec_push(graph->allocator, &graph->symbols, copy));
    *out_dim = rlx_symbol_dim(graph->symbols.count - 1);
    return RLX_OK;
}

/* A type from outside: a dtype, a rank in range, dims that are numbers or known symbols. */
static rlx_status check_type(const rlx_graph *graph, const char *name, rlx_dtype dtype,
                             const rlx_shape *shape) {
    uint64_t bytes;
    if (name == NULL) name = "";
    if (rlx_dtype_row_of(dtype) == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "'%s': %d is no dtype", name, (int)dtype);
    }
    if (shape->rank > RLX_MAX_RANK) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "'%s': rank %u is more than %d", name, shape->rank,
                        RLX_MAX_RANK);
    }
    for (uint32_t i = 0; i < shape->rank; i++) {
        int64_t dim = shape->dims[i];
        if (dim == RLX_DIM_UNKNOWN ||
            (rlx_dim_is_symbol(dim) && rlx_dim_symbol(dim) >= graph->symbols.count)) {
            return RLX_FAIL(RLX_INVALID_ARGUMENT, "'%s': dim %u (%" PRId64 ") is no symbol", name,
                            i, dim);
        }
    }
    if (!rlx_shape_is_known(shape)) return RLX_OK;
    rlx_type type = rlx_type_make(dtype, shape->dims, shape->rank);
    RLX_TRY_WITH(rlx_type_bytes(&type, &bytes), "'%s'", name);
    return RLX_OK;
}

static rlx_status add_leaf(rlx_graph *graph, const char *name, rlx_value_kind kind, rlx_dtype dtype,
                           const rlx_shape *shape, rlx_value_id *out_value) {
    if (graph == NULL || out_value == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    RLX_TRY(check_type(graph, name, dtype, shape));
    rlx_value_id id;
    rlx_block_id current = graph->current;
    graph->current = 0; /* leaves belong to the whole model */
    rlx_status status = rlx_graph_new_value(graph, name, kind, &id);
    graph->current = current;
    if (status != RLX_OK) return status;
    graph->values.items[id].type = rlx_type_make(dtype, shape->dims, shape->rank);
    graph->values.items[id].is_typed = true;
    *out_value = id;
    return RLX_OK;
}

rlx_status rlx_graph_add_input(rlx_graph *graph, const char *name, rlx_dtype dtype, rlx_shape shape,
                               rlx_value_id *out_value) {
    return add_leaf(graph, name, RLX_VALUE_INPUT, dtype, &shape, out_value);
}

rlx_status rlx_graph_add_state(rlx_graph *graph, const char *name, rlx_dtype dtype, rlx_shape shape,
                               rlx_value_id *out_value) {
    return add_leaf(graph, name, RLX_VALUE_STATE, dtype, &shape, out_value);
}

rlx_status rlx_graph_keep_path(rlx_graph *graph, const char *path, const char **out_path) {
    if (graph->path == NULL || strcmp(graph->path, path) != 0)
        RLX_TRY(rlx_scratch_text(&graph->memory, path, strlen(path), &graph->path));
    *out_path = graph->path;
    return RLX_OK;
}

/* The source's size must be the value's; its path is copied. */
static rlx_status take_source(rlx_graph *graph, const char *name, rlx_dtype dtype,
                              const rlx_shape *shape, const rlx_source *source,
                              rlx_source *out_source) {
    rlx_source copy = *source;
    rlx_type type = rlx_type_make(dtype, shape->dims, shape->rank);
    uint64_t bytes;
    if ((uint32_t)source->kind > RLX_SOURCE_SEEDED) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "'%s': unknown source kind", name);
    }
    if (source->kind == RLX_SOURCE_MEMORY || source->kind == RLX_SOURCE_FILE) {
        RLX_TRY_WITH(rlx_type_bytes(&type, &bytes), "'%s'", name);
        if (bytes != source->bytes) {
            rlx_fail(RLX_LENGTH_MISMATCH,
                     "'%s': the source has %" PRIu64 " bytes, the value needs %" PRIu64, name,
                     source->bytes, bytes);
            rlx_error_detail_edit()->expected = bytes;
            rlx_error_detail_edit()->got = source->bytes;
            return RLX_LENGTH_MISMATCH;
        }
        if (source->kind == RLX_SOURCE_MEMORY && source->memory == NULL && bytes != 0) {
            return RLX_FAIL(RLX_INVALID_ARGUMENT, "'%s': the source memory is null", name);
        }
    }
    if (source->kind == RLX_SOURCE_FILE) {
        if (source->path == NULL) {
            return RLX_FAIL(RLX_INVALID_ARGUMENT, "'%s': the source has no path", name);
        }
        RLX_TRY(rlx_graph_keep_path(graph, source->path, &copy.path));
    }
    *out_source = copy;
    return RLX_OK;
}

rlx_status rlx_graph_add_parameter(rlx_graph *graph, const char *name, rlx_dtype dtype,
                                   rlx_shape shape, const rlx_source *source,
                                   rlx_value_id *out_value) {
    rlx_weight weight = {.source = {.kind = RLX_SOURCE_NONE}};
    if (graph == NULL || out_value == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    RLX_TRY(check_type(graph, name, dtype, &shape));
    if (source != NULL) {
        RLX_TRY(
            take_source(graph, name == NULL ? "" : name, dtype, &shape, source, &weight.source));
    }
    const rlx_weight *kept = NULL;
    RLX_TRY(rlx_graph_keep_weight(graph, &weight, &kept));
    RLX_TRY(add_leaf(graph, name, RLX_VALUE_PARAMETER, dtype, &shape, out_value));
    graph->values.items[*out_value].weight = kept;
    return RLX_OK;
}

rlx_status rlx_graph_add_constant(rlx_graph *graph, const char *name, rlx_dtype dtype,
                                  rlx_shape shape, const void *data, uint64_t bytes,
                                  rlx_value_id *out_value) {
    void *copy = NULL;
    uint64_t expected;
    if (graph == NULL || out_value == NULL || (data == NULL && bytes != 0)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    }
    RLX_TRY(check_type(graph, name, dtype, &shape));
    rlx_type type = rlx_type_make(dtype, shape.dims, shape.rank);
    RLX_TRY_WITH(rlx_type_bytes(&type, &expected), "constant '%s'", name == NULL ? "" : name);
    if (bytes != expected) {
        return RLX_FAIL(RLX_LENGTH_MISMATCH,
                        "constant '%s': expected %" PRIu64 " bytes, got %" PRIu64,
                        name == NULL ? "" : name, expected, bytes);
    }
    RLX_TRY(rlx_scratch_alloc(&graph->memory, bytes, &copy));
    if (bytes != 0) memcpy(copy, data, bytes);
    RLX_TRY(add_leaf(graph, name, RLX_VALUE_CONSTANT, dtype, &shape, out_value));
    graph->values.items[*out_value].data = copy;
    graph->values.items[*out_value].data_bytes = bytes;
    return RLX_OK;
}

rlx_status rlx_graph_add_output(rlx_graph *graph, rlx_value_id value, const char *name) {
    const char *copy = NULL;
    if (graph == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (value >= graph->values.count) return RLX_FAIL(RLX_NOT_FOUND, "no value %u", value);
    if (graph->values.items[value].block != 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "output '%s' is defined inside a block",
                        graph->values.items[value].name);
    }
    if (name == NULL) name = graph->values.items[value].name;
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        if (strcmp(graph->outputs.items[i].name, name) == 0) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "there is an output '%s' already", name);
        }
    }
    RLX_TRY(rlx_scratch_text(&graph->memory, name, strlen(name), &copy));
    rlx_output output = {value, copy};
    return rlx_vec_push(graph->allocator, &graph->outputs, output);
}

rlx_status rlx_graph_value(const rlx_graph *graph, rlx_value_id id, rlx_value_info *out_info) {
    if (graph == NULL || out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (id >= graph->values.count) {
        return RLX_FAIL(RLX_NOT_FOUND, "no value %u (have %u)", id, graph->values.count);
    }
    const rlx_value *value = &graph->values.items[id];
    *out_info = (rlx_value_info){value->name, value->kind, value->is_typed, value->type.dtype,
                                 value->type.shape};
    return RLX_OK;
}

rlx_status rlx_graph_keep_weight(rlx_graph *graph, const rlx_weight *weight,
                                 const rlx_weight **out_weight) {
    rlx_weight *copy = NULL;
    RLX_TRY(rlx_scratch_alloc(&graph->memory, sizeof *copy, (void **)&copy));
    *copy = *weight;
    *out_weight = copy;
    return RLX_OK;
}

rlx_status rlx_graph_parameter_source(const rlx_graph *graph, rlx_value_id id,
                                      rlx_source *out_source) {
    rlx_value_info info;
    if (out_source == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    RLX_TRY(rlx_graph_value(graph, id, &info));
    if (info.kind != RLX_VALUE_PARAMETER) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "'%s' is no parameter", info.name);
    }
    *out_source = graph->values.items[id].weight->source;
    return RLX_OK;
}

rlx_status rlx_graph_find(const rlx_graph *graph, const char *name, rlx_value_id *out_value) {
    if (graph == NULL || name == NULL || out_value == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    }
    rlx_value_id id =
        graph->names.count == 0 ? RLX_NONE : graph->names.items[name_cell(graph, name)];
    if (id == RLX_NONE) return RLX_FAIL(RLX_NOT_FOUND, "no value is called '%s'", name);
    *out_value = id;
    return RLX_OK;
}

uint32_t rlx_graph_value_count(const rlx_graph *graph) {
    return graph ? graph->values.count : 0;
}
uint32_t rlx_graph_node_count(const rlx_graph *graph) {
    return graph ? graph->nodes.count : 0;
}
uint32_t rlx_graph_output_count(const rlx_graph *graph) {
    return graph ? graph->outputs.count : 0;
}

rlx_value_id rlx_graph_output(const rlx_graph *graph, uint32_t index) {
    if (graph == NULL || index >= graph->outputs.count) return RLX_NONE;
    return graph->outputs.items[index].value;
}

const char *rlx_graph_output_name(const rlx_graph *graph, uint32_t index) {
    if (graph == NULL || index >= graph->outputs.count) return NULL;
    return graph->outputs.items[index].name;
}

uint32_t rlx_graph_symbol_count(const rlx_graph *graph) {
    return graph ? graph->symbols.count : 0;
}

const char *rlx_graph_symbol_name(const rlx_graph *graph, uint32_t index) {
    return graph != NULL && index < graph->symbols.count ? graph->symbols.items[index] : NULL;
}

const char *rlx_graph_dim_symbol(const rlx_graph *graph, int64_t dim) {
    return rlx_dim_is_symbol(dim) ? rlx_graph_symbol_name(graph, rlx_dim_symbol(dim)) : NULL;
}

rlx_status rlx_graph_node(const rlx_graph *graph, rlx_node_id id, rlx_node_info *out_info) {
    if (graph == NULL || out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (id >= graph->nodes.count) {
        return RLX_FAIL(RLX_NOT_FOUND, "no node %u (have %u)", id, graph->nodes.count);
    }
    const rlx_node *node = &graph->nodes.items[id];
    *out_info = (rlx_node_info){node->op, node->input_count, node->output_count, node->inputs,
                                node->outputs};
    return RLX_OK;
}
