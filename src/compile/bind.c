/* SPDX-License-Identifier: Apache-2.0 */
/* Bind: every symbolic dim becomes the number that the caller gave, then all values are typed. */
#include "base/text.h"
#include "compile/compile.h"
#include "ir/infer.h"

#include <string.h>

/* The number of each symbol, or a message that lists what is missing. */
static rlx_status read_bindings(rlx_pass_context *context, int64_t *sizes, uint8_t *is_needed) {
    const rlx_graph *graph = context->graph;
    const rlx_entry_spec *entry = context->entry;
    rlx_text missing = {.allocator = graph->allocator};
    rlx_status status = RLX_OK;
    for (uint32_t i = 0; i < graph->symbols.count; i++)
        sizes[i] = -1;
    for (uint32_t b = 0; b < entry->binding_count; b++) {
        uint32_t s = 0;
        const char *name = entry->bindings[b].symbol;
        if (name == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "binding %u has no symbol", b);
        while (s < graph->symbols.count && strcmp(graph->symbols.items[s], name) != 0)
            s++;
        if (s == graph->symbols.count) {
            return RLX_FAIL(RLX_NOT_FOUND, "the model has no symbol '%s' to bind", name);
        }
        if (entry->bindings[b].value < 0) {
            return RLX_FAIL(RLX_INVALID_ARGUMENT, "symbol '%s' cannot be %" PRId64, name,
                            entry->bindings[b].value);
        }
        if (sizes[s] >= 0 && sizes[s] != entry->bindings[b].value) {
            return RLX_FAIL(RLX_INVALID_ARGUMENT,
                            "symbol '%s' is bound to %" PRId64 " and %" PRId64, name, sizes[s],
                            entry->bindings[b].value);
        }
        sizes[s] = entry->bindings[b].value;
    }
    for (uint32_t s = 0; s < graph->symbols.count; s++) {
        if (sizes[s] >= 0 || !is_needed[s]) continue;
        rlx_text_printf(&missing, "%s'%s'", missing.length == 0 ? "" : ", ",
                        graph->symbols.items[s]);
    }
    if (missing.length != 0) {
        status = RLX_FAIL(RLX_INVALID_ARGUMENT, "sizes of these symbols are not bound: %s",
                          missing.data);
    }
    if (status == RLX_OK) status = missing.status;
    rlx_text_free(&missing);
    return status;
}

rlx_status rlx_pass_bind(rlx_pass_context *context) {
    rlx_graph *graph = context->graph;
    int64_t *sizes = NULL;
    uint8_t *is_needed = NULL;
    RLX_TRY(rlx_scratch_array(context->scratch, graph->symbols.count + 1u, sizeof *sizes,
                              (void **)&sizes));
    RLX_TRY(rlx_scratch_array(context->scratch, graph->symbols.count + 1u, 1, (void **)&is_needed));
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const rlx_shape *shape = &graph->values.items[v].type.shape;
        for (uint32_t i = 0; i < shape->rank; i++) {
            if (rlx_dim_is_symbol(shape->dims[i])) is_needed[rlx_dim_symbol(shape->dims[i])] = 1;
        }
    }
    RLX_TRY(read_bindings(context, sizes, is_needed));
    for (uint32_t v = 0; v < graph->values.count; v++) {
        rlx_value *value = &graph->values.items[v];
        uint64_t bytes;
        if (value->kind == RLX_VALUE_TEMPORARY) continue; /* typed anew below */
        for (uint32_t i = 0; i < value->type.shape.rank; i++) {
            int64_t *dim = &value->type.shape.dims[i];
            if (rlx_dim_is_symbol(*dim)) *dim = sizes[rlx_dim_symbol(*dim)];
        }
        RLX_TRY_WITH(rlx_type_bytes(&value->type, &bytes), "'%s'", value->name);
    }
    RLX_TRY(rlx_graph_infer(graph));
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rlx_node *node = &graph->nodes.items[n];
        for (uint32_t i = 0; i < node->output_count && !node->is_dead; i++) {
            if (node->outputs[i] == RLX_NONE || graph->values.items[node->outputs[i]].is_typed) {
                continue;
            }
            char text[160];
            return RLX_FAIL(RLX_INVALID_GRAPH, "%s: the shape of output %u cannot be found",
                            rlx_node_text(graph, n, text, sizeof text), i);
        }
    }
    return RLX_OK;
}
