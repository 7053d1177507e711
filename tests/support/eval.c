/* SPDX-License-Identifier: Apache-2.0 */
/* A graph evaluated in the plainest way. */
#include "support/eval.h"

#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/source.h"
#include "ref/kernel.h"

#include <math.h>
#include <stdlib.h>

bool rlx_test_eval_can_run(const rlx_graph *graph) {
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        if (!graph->nodes.items[n].is_dead && graph->nodes.items[n].op == RLX_OP_LOOP) return false;
    }
    return true;
}

static void *allocate(const rlx_type *type) {
    uint64_t bytes;
    assert_ok(rlx_type_bytes(type, &bytes));
    void *data = calloc(1, bytes + 16);
    assert_non_null(data);
    return data;
}

static uint64_t hash_name(const char *name, uint64_t seed) {
    uint64_t hash = seed * 0x9E3779B97F4A7C15u + 1469598103934665603u;
    for (; *name != 0; name++)
        hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return hash;
}

static void fill_input(const rlx_value *value, uint64_t seed, void *data) {
    uint64_t elements;
    bool is_float = rlx_dtype_is_float(value->type.dtype);
    assert_ok(rlx_shape_elements(&value->type.shape, &elements));
    assert_ok(rlx_source_fill_seeded(hash_name(value->name, seed), is_float ? 0 : 2, 2,
                                     value->type.dtype, 0, elements, data));
}

static void fill_leaf(rlx_test_eval *eval, uint32_t id, uint64_t seed) {
    const rlx_value *value = &eval->graph->values.items[id];
    uint64_t elements;
    if (value->kind == RLX_VALUE_TEMPORARY) return;
    eval->data[id] = allocate(&value->type);
    assert_ok(rlx_shape_elements(&value->type.shape, &elements));
    if (value->kind == RLX_VALUE_CONSTANT) {
        if (value->data_bytes != 0) memcpy(eval->data[id], value->data, value->data_bytes);
    } else if (value->kind == RLX_VALUE_PARAMETER && value->source.kind != RLX_SOURCE_NONE) {
        assert_ok(rlx_source_read(&value->source, value->type.dtype, 0, elements, eval->data[id]));
    } else if (value->kind != RLX_VALUE_STATE) {
        fill_input(value, seed, eval->data[id]);
    }
}

static rlx_tensor tensor_of(const rlx_test_eval *eval, rlx_value_id id) {
    rlx_tensor tensor = {0};
    if (id == RLX_NONE) return tensor;
    const rlx_type *type = &eval->graph->values.items[id].type;
    int64_t stride = 1;
    tensor.data = eval->data[id];
    tensor.dtype = type->dtype;
    tensor.rank = type->shape.rank;
    for (uint32_t i = type->shape.rank; i-- > 0;) {
        tensor.strides[i] = stride;
        stride *= type->shape.dims[i];
        tensor.dims[i] = type->shape.dims[i];
        if (type->extents[i] != RLX_NONE && eval->data[type->extents[i]] != NULL) {
            memcpy(&tensor.dims[i], eval->data[type->extents[i]], sizeof tensor.dims[i]);
        }
    }
    return tensor;
}

static void run_block(rlx_test_eval *eval, rlx_block_id block);

static void run_if(rlx_test_eval *eval, const rlx_node *node) {
    bool is_true = *(const uint8_t *)eval->data[node->inputs[0]] != 0;
    rlx_block_id block = node->blocks[is_true ? 0 : 1];
    run_block(eval, block);
    for (uint32_t i = 0; i < node->output_count; i++) {
        uint64_t bytes;
        if (node->outputs[i] == RLX_NONE) continue;
        rlx_value_id from = eval->graph->blocks.items[block].yields[i];
        const rlx_type *type = &eval->graph->values.items[node->outputs[i]].type;
        eval->data[node->outputs[i]] = allocate(type);
        assert_ok(rlx_type_bytes(type, &bytes));
        memcpy(eval->data[node->outputs[i]], eval->data[from], bytes);
    }
}

static void run_kernel(rlx_test_eval *eval, const rlx_node *node) {
    const rlx_kernel *kernel = rlx_ref_kernel(node->op);
    rlx_tensor *in = calloc(node->input_count + 1u, sizeof *in);
    rlx_tensor *out = calloc(node->output_count + 1u, sizeof *out);
    rlx_fault fault = {0};
    rlx_kernel_args args = {.op = node->op,
                            .attrs = node->attrs,
                            .in = in,
                            .out = out,
                            .in_count = node->input_count,
                            .out_count = node->output_count,
                            .fault = &fault};
    if (kernel == NULL) fail_msg("no kernel of %s", rlx_op_name(node->op));
    assert_true(in != NULL && out != NULL);
    for (uint32_t i = 0; i < node->input_count; i++)
        in[i] = tensor_of(eval, node->inputs[i]);
    for (uint32_t i = 0; i < node->output_count; i++) {
        rlx_value_id id = node->outputs[i];
        if (id == RLX_NONE) continue;
        eval->data[id] = node->op == RLX_OP_STATE_WRITE && i == 0
                             ? eval->data[node->inputs[0]]
                             : allocate(&eval->graph->values.items[id].type);
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        out[i] = tensor_of(eval, node->outputs[i]);
        for (uint32_t d = 0; node->outputs[i] != RLX_NONE && d < out[i].rank; d++) {
            const rlx_type *type = &eval->graph->values.items[node->outputs[i]].type;
            for (uint32_t o = 0; o < node->output_count; o++) { /* its own extents: the bound */
                if (type->extents[d] != RLX_NONE && type->extents[d] == node->outputs[o]) {
                    out[i].dims[d] = type->shape.dims[d];
                }
            }
        }
    }
    if (kernel->workspace_bytes != NULL) {
        args.workspace = calloc(1, kernel->workspace_bytes(&args) + 64);
    }
    kernel->run(&args, 0, kernel->items(&args));
    if (eval->fault == 0) eval->fault = fault.code;
    free(args.workspace);
    free(in);
    free(out);
}

static void run_block(rlx_test_eval *eval, rlx_block_id id) {
    const rlx_block *block = &eval->graph->blocks.items[id];
    for (uint32_t i = 0; i < block->nodes.count; i++) {
        const rlx_node *node = &eval->graph->nodes.items[block->nodes.items[i]];
        if (node->is_dead) continue;
        if (node->op == RLX_OP_IF) {
            run_if(eval, node);
        } else {
            run_kernel(eval, node);
        }
    }
}

void rlx_test_eval_run(const rlx_graph *graph, uint64_t seed, rlx_test_eval *out_eval) {
    rlx_test_eval eval = {.graph = graph,
                          .data = calloc(graph->values.count + 1u, sizeof *eval.data)};
    assert_non_null(eval.data);
    for (uint32_t v = 0; v < graph->values.count; v++)
        fill_leaf(&eval, v, seed);
    run_block(&eval, 0);
    *out_eval = eval;
}

void rlx_test_eval_free(rlx_test_eval *eval) {
    const rlx_graph *graph = eval->graph;
    for (uint32_t v = 0; v < graph->values.count; v++) {
        rlx_node_id producer = graph->values.items[v].producer;
        bool is_borrowed = producer != RLX_NONE &&
                           graph->nodes.items[producer].op == RLX_OP_STATE_WRITE &&
                           graph->values.items[v].producer_output == 0;
        if (!is_borrowed) free(eval->data[v]);
    }
    free(eval->data);
    eval->data = NULL;
}

static int64_t offset_of(const rlx_tensor *tensor, int64_t index) {
    int64_t offset = 0;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        offset += index % tensor->dims[i] * tensor->strides[i];
        index /= tensor->dims[i];
    }
    return offset;
}

static double element_difference(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? 0 : INFINITY;
    if (isinf(a) || isinf(b)) return a == b ? 0 : INFINITY;
    return fabs(a - b) / (1 + fabs(a));
}

static double output_difference(const rlx_tensor *a, const rlx_tensor *b) {
    double worst = 0;
    if (a->data == NULL || b->data == NULL) return INFINITY;
    if (a->dtype != b->dtype || a->rank != b->rank ||
        memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) != 0) {
        return INFINITY;
    }
    for (int64_t i = 0; i < rlx_tensor_elements(a); i++) {
        double one = element_difference(rlx_load_f64(a->dtype, a->data, offset_of(a, i)),
                                        rlx_load_f64(b->dtype, b->data, offset_of(b, i)));
        if (one > worst) worst = one;
    }
    return worst;
}

double rlx_test_eval_difference(const rlx_test_eval *a, const rlx_test_eval *b,
                                uint32_t *out_index) {
    double worst = a->fault == b->fault ? 0 : INFINITY;
    *out_index = 0;
    if (a->graph->outputs.count != b->graph->outputs.count) return INFINITY;
    for (uint32_t i = 0; i < a->graph->outputs.count; i++) {
        rlx_tensor first = tensor_of(a, a->graph->outputs.items[i].value);
        rlx_tensor second = tensor_of(b, b->graph->outputs.items[i].value);
        double one = output_difference(&first, &second);
        if (one > worst) worst = one, *out_index = i;
    }
    return worst;
}
