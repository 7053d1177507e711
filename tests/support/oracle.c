/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator of tests: one buffer per value, one scalar kernel per node, in the graph's order.
 */
#include "support/oracle.h"

#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/source.h"

#include <stdlib.h>

struct rlx_test_oracle {
    rlx_graph *graph;       /* owned: a copy with every symbol bound */
    void **data;            /* per value; row-major at the bounds of its type */
    rlx_test_runner runner; /* NULL: the scalar kernel */
    void *runner_user;
    bool *is_owned; /* per value: false for state after a write, which is the state's memory */
};

void rlx_test_array_free(rlx_test_array *array) {
    free(array->data);
    *array = (rlx_test_array){0};
}

static const rlx_value *value_of(const rlx_test_oracle *oracle, rlx_value_id id) {
    return &oracle->graph->values.items[id];
}

/* One element of a one-element value that steers: a count, an extent, a condition. */
static int64_t scalar_of(const rlx_test_oracle *oracle, rlx_value_id id) {
    return rlx_load_i64(value_of(oracle, id)->type.dtype, oracle->data[id], 0);
}

/* Symbols: each takes the size that an input has in its place. */
static rlx_status bind_input(rlx_graph *graph, const rlx_test_array *input, rlx_value *value,
                             int64_t *sizes) {
    rlx_shape *shape = &value->type.shape;
    if (input->dtype != value->type.dtype || input->shape.rank != shape->rank)
        return RLX_FAIL(RLX_MISMATCH, "input '%s' wants %s of rank %u, got %s of rank %u",
                        value->name, rlx_dtype_name(value->type.dtype), shape->rank,
                        rlx_dtype_name(input->dtype), input->shape.rank);
    for (uint32_t i = 0; i < shape->rank; i++) {
        int64_t dim = input->shape.dims[i];
        if (rlx_dim_is_symbol(shape->dims[i])) {
            uint32_t symbol = rlx_dim_symbol(shape->dims[i]);
            if (sizes[symbol] >= 0 && sizes[symbol] != dim)
                return RLX_FAIL(RLX_MISMATCH, "symbol '%s' is %" PRId64 " and %" PRId64,
                                graph->symbols.items[symbol], sizes[symbol], dim);
            sizes[symbol] = dim;
        } else if (dim != shape->dims[i]) {
            return RLX_FAIL(RLX_MISMATCH, "input '%s': dim %u is %" PRId64 ", expected %" PRId64,
                            value->name, i, dim, shape->dims[i]);
        }
    }
    return RLX_OK;
}

static rlx_status bind_all(rlx_graph *graph, const rlx_test_array *inputs, uint32_t count,
                           int64_t *sizes) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        rlx_value *value = &graph->values.items[i];
        if (value->kind != RLX_VALUE_INPUT) continue;
        if (next == count) return RLX_FAIL(RLX_INVALID_ARGUMENT, "too few inputs (%u)", count);
        RLX_TRY(bind_input(graph, &inputs[next++], value, sizes));
    }
    if (next != count)
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%u inputs for a graph of %u", count, next);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        rlx_value *value = &graph->values.items[i];
        for (uint32_t d = 0; value->kind != RLX_VALUE_TEMPORARY && d < value->type.shape.rank;
             d++) {
            int64_t *dim = &value->type.shape.dims[d];
            if (rlx_dim_is_symbol(*dim)) *dim = sizes[rlx_dim_symbol(*dim)];
        }
    }
    return RLX_OK;
}

static rlx_status bind(rlx_graph *graph, const rlx_test_array *inputs, uint32_t count) {
    int64_t *sizes = malloc((graph->symbols.count + 1) * sizeof *sizes);
    if (sizes == NULL) return RLX_FAIL(RLX_OUT_OF_MEMORY, "symbols");
    for (uint32_t i = 0; i < graph->symbols.count; i++)
        sizes[i] = -1;
    rlx_status status = bind_all(graph, inputs, count, sizes);
    free(sizes);
    return status == RLX_OK ? rlx_graph_infer(graph) : status;
}

/* Not what dead nodes made, nor a name that nothing came of. */
static bool is_used(const rlx_graph *graph, const rlx_value *value) {
    if (value->producer == RLX_NONE) return value->kind != RLX_VALUE_TEMPORARY || value->is_typed;
    return !graph->nodes.items[value->producer].is_dead;
}

/* Memory of its own for one value; parameters and constants with their data. */
static rlx_status give_memory(rlx_test_oracle *oracle, rlx_value_id id) {
    const rlx_value *value = value_of(oracle, id);
    uint64_t bytes = 0, elements = 0;
    if (!is_used(oracle->graph, value)) return RLX_OK;
    if (!value->is_typed)
        return RLX_FAIL(RLX_INVALID_GRAPH, "the type of '%s' cannot be told", value->name);
    RLX_TRY(rlx_type_bytes(&value->type, &bytes));
    RLX_TRY(rlx_shape_elements(&value->type.shape, &elements));
    oracle->data[id] = calloc(1, (size_t)bytes + 1);
    oracle->is_owned[id] = true;
    if (oracle->data[id] == NULL) return RLX_FAIL(RLX_OUT_OF_MEMORY, "'%s'", value->name);
    if (value->kind == RLX_VALUE_CONSTANT && bytes > 0)
        memcpy(oracle->data[id], value->data, (size_t)bytes);
    if (value->kind != RLX_VALUE_PARAMETER) return RLX_OK;
    RLX_TRY_WITH(
        rlx_source_read(&value->weight->source, value->type.dtype, 0, elements, oracle->data[id]),
        "'%s'", value->name);
    return RLX_OK;
}

static rlx_status fill(rlx_test_oracle *oracle, const rlx_graph *graph,
                       const rlx_test_array *inputs, uint32_t input_count) {
    RLX_TRY(rlx_graph_clone(graph, NULL, &oracle->graph));
    oracle->data = calloc(graph->values.count + 1u, sizeof *oracle->data);
    oracle->is_owned = calloc(graph->values.count + 1u, sizeof *oracle->is_owned);
    if (oracle->data == NULL || oracle->is_owned == NULL)
        return RLX_FAIL(RLX_OUT_OF_MEMORY, "values");
    RLX_TRY(bind(oracle->graph, inputs, input_count));
    RLX_TRY(rlx_graph_verify(oracle->graph));
    for (uint32_t i = 0; i < oracle->graph->values.count; i++)
        RLX_TRY(give_memory(oracle, i));
    return RLX_OK;
}

rlx_status rlx_test_oracle_create(const rlx_graph *graph, const rlx_test_array *inputs,
                                  uint32_t input_count, rlx_test_oracle **out_oracle) {
    rlx_test_oracle *oracle = calloc(1, sizeof *oracle);
    if (oracle == NULL) return RLX_FAIL(RLX_OUT_OF_MEMORY, "evaluator");
    rlx_status status = fill(oracle, graph, inputs, input_count);
    if (status == RLX_OK) {
        *out_oracle = oracle;
    } else {
        rlx_test_oracle_destroy(oracle);
    }
    return status;
}

void rlx_test_oracle_destroy(rlx_test_oracle *oracle) {
    if (oracle == NULL) return;
    for (uint32_t i = 0; oracle->data != NULL && oracle->is_owned != NULL &&
                         oracle->graph != NULL && i < oracle->graph->values.count;
         i++) {
        if (oracle->is_owned[i]) free(oracle->data[i]);
    }
    free(oracle->data);
    free(oracle->is_owned);
    rlx_graph_destroy(oracle->graph);
    free(oracle);
}

/* The tensor of a value: strides of its bounds, dims of this run. An extent that `maker` is about
 * to compute is not known yet: there the bound stands. */
static rlx_status tensor_of(const rlx_test_oracle *oracle, rlx_value_id id, rlx_node_id maker,
                            rlx_tensor *out_tensor) {
    *out_tensor = (rlx_tensor){0};
    if (id == RLX_NONE) return RLX_OK;
    const rlx_value *value = value_of(oracle, id);
    const rlx_type *type = &value->type;
    rlx_tensor tensor = {.data = oracle->data[id],
                         .dtype = type->dtype,
                         .layout = type->layout,
                         .rank = type->shape.rank};
    int64_t stride = 1;
    for (uint32_t i = tensor.rank; i-- > 0;) {
        tensor.strides[i] = tensor.layout == RLX_LAYOUT_PLAIN ? stride : 0;
        stride *= type->shape.dims[i];
        tensor.dims[i] = type->shape.dims[i];
        rlx_value_id extent = type->extents[i];
        if (extent == RLX_NONE) continue;
        if (maker != RLX_NONE && value_of(oracle, extent)->producer == maker) continue;
        tensor.dims[i] = scalar_of(oracle, extent);
        if (tensor.dims[i] < 0 || tensor.dims[i] > type->shape.dims[i])
            return RLX_FAIL(RLX_FAULT, "'%s': the extent of dim %u is %" PRId64 " of %" PRId64,
                            value->name, i, tensor.dims[i], type->shape.dims[i]);
    }
    *out_tensor = tensor;
    return RLX_OK;
}

void rlx_test_oracle_watch(rlx_test_oracle *oracle, rlx_test_runner runner, void *user) {
    oracle->runner = runner;
    oracle->runner_user = user;
}

rlx_status rlx_test_run_kernel(const rlx_kernel *kernel, rlx_kernel_args *args) {
    static const char *const codes[] = {
        "no fault", "index out of range", "integer division by zero, dividend",
        "state written past its end, position", "size or count past its bound"};
    rlx_fault fault = {0};
    args->fault = &fault;
    uint64_t bytes = kernel->workspace_bytes != NULL ? kernel->workspace_bytes(args) : 0;
    args->workspace = aligned_alloc(64, ((size_t)bytes + 127) & ~(size_t)63);
    if (args->workspace == NULL) return RLX_FAIL(RLX_OUT_OF_MEMORY, "workspace");
    int64_t items = kernel->items(args);
    if (items > 0) kernel->run(args, 0, items);
    free(args->workspace);
    if (fault.claim == 0) return RLX_OK;
    return RLX_FAIL(RLX_FAULT, "%s: %" PRId64, codes[fault.code], fault.value);
}

static size_t bytes_of(const rlx_test_oracle *oracle, rlx_value_id id) {
    uint64_t bytes = 0;
    return rlx_type_bytes(&value_of(oracle, id)->type, &bytes) == RLX_OK ? (size_t)bytes : 0;
}

/* The operands again, with the dims of their types. */
static rlx_status run_watched(rlx_test_oracle *oracle, const rlx_node *node,
                              rlx_kernel_args *args) {
    uint32_t count = node->input_count + node->output_count;
    rlx_tensor *bounds = calloc(count + 1u, sizeof *bounds);
    if (bounds == NULL) return RLX_FAIL(RLX_OUT_OF_MEMORY, "tensors");
    for (uint32_t i = 0; i < count; i++) {
        bool is_input = i < node->input_count;
        rlx_value_id id = is_input ? node->inputs[i] : node->outputs[i - node->input_count];
        bounds[i] = is_input ? args->in[i] : args->out[i - node->input_count];
        if (id == RLX_NONE) continue;
        memcpy(bounds[i].dims, value_of(oracle, id)->type.shape.dims, sizeof bounds[i].dims);
    }
    rlx_kernel_args planned = *args;
    planned.in = bounds, planned.out = bounds + node->input_count;
    rlx_status status = oracle->runner(oracle->runner_user, args, &planned);
    free(bounds);
    return status;
}

static rlx_status run_plain(rlx_test_oracle *oracle, rlx_node_id id, const rlx_node *node) {
    const rlx_kernel *kernel = rlx_ref_kernel(node->op);
    rlx_tensor *tensors = calloc(node->input_count + node->output_count + 1u, sizeof *tensors);
    rlx_status status = RLX_OK;
    if (tensors == NULL) return RLX_FAIL(RLX_OUT_OF_MEMORY, "tensors");
    if (kernel == NULL) status = RLX_FAIL(RLX_UNSUPPORTED, "there is no scalar kernel");
    for (uint32_t i = 0; i < node->input_count && status == RLX_OK; i++)
        status = tensor_of(oracle, node->inputs[i], RLX_NONE, &tensors[i]);
    for (uint32_t i = 0; i < node->output_count && status == RLX_OK; i++)
        status = tensor_of(oracle, node->outputs[i], id, &tensors[node->input_count + i]);
    void *rows = NULL; /* rows that are the state itself, as they were before the write */
    if (status == RLX_OK && node->op == RLX_OP_STATE_WRITE && tensors[1].data == tensors[0].data) {
        rows = malloc(bytes_of(oracle, node->inputs[1]) + 1);
        if (rows == NULL) status = RLX_FAIL(RLX_OUT_OF_MEMORY, "rows");
        if (rows != NULL) memcpy(rows, tensors[1].data, bytes_of(oracle, node->inputs[1]));
        tensors[1].data = rows;
    }
    if (status == RLX_OK) {
        rlx_kernel_args args = {.op = node->op,
                                .step = id,
                                .attrs = node->attrs,
                                .in = tensors,
                                .out = tensors + node->input_count,
                                .in_count = node->input_count,
                                .out_count = node->output_count};
        status = oracle->runner != NULL ? run_watched(oracle, node, &args)
                                        : rlx_test_run_kernel(kernel, &args);
    }
    free(rows);
    free(tensors);
    return status;
}

/* The state's memory goes on under the name of the first output. */
static void pass_state(rlx_test_oracle *oracle, const rlx_node *node) {
    rlx_value_id out = node->outputs[0];
    if (out == RLX_NONE) return;
    if (oracle->is_owned[out]) free(oracle->data[out]);
    oracle->is_owned[out] = false;
    oracle->data[out] = oracle->data[node->inputs[0]];
}

static void copy_value(rlx_test_oracle *oracle, rlx_value_id to, rlx_value_id from) {
    if (to != RLX_NONE && to != from && oracle->data[to] != oracle->data[from])
        memcpy(oracle->data[to], oracle->data[from], bytes_of(oracle, from));
}

static rlx_status run_block(rlx_test_oracle *oracle, rlx_block_id id);

static rlx_status run_if(rlx_test_oracle *oracle, const rlx_node *node) {
    rlx_block_id id = node->blocks[scalar_of(oracle, node->inputs[0]) != 0 ? 0 : 1];
    RLX_TRY(run_block(oracle, id));
    const rlx_block *block = &oracle->graph->blocks.items[id];
    for (uint32_t i = 0; i < node->output_count; i++)
        copy_value(oracle, node->outputs[i], block->yields[i]);
    return RLX_OK;
}

/* What was yielded becomes what is carried; through copies, because a block may swap its inputs. */
static rlx_status carry(rlx_test_oracle *oracle, const rlx_block *body, uint32_t carried) {
    void **copies = calloc(carried + 1u, sizeof *copies);
    rlx_status status = copies == NULL ? RLX_FAIL(RLX_OUT_OF_MEMORY, "loop") : RLX_OK;
    for (uint32_t i = 0; i < carried && status == RLX_OK; i++) {
        size_t bytes = bytes_of(oracle, body->yields[1 + i]);
        copies[i] = malloc(bytes + 1);
        if (copies[i] == NULL) status = RLX_FAIL(RLX_OUT_OF_MEMORY, "loop");
        if (copies[i] != NULL) memcpy(copies[i], oracle->data[body->yields[1 + i]], bytes);
    }
    for (uint32_t i = 0; i < carried && copies != NULL; i++) {
        if (status == RLX_OK)
            memcpy(oracle->data[body->inputs[1 + i]], copies[i],
                   bytes_of(oracle, body->inputs[1 + i]));
        free(copies[i]);
    }
    free(copies);
    return status;
}

/* Row `row` of a stacked output. */
static void stack_row(rlx_test_oracle *oracle, rlx_value_id to, rlx_value_id from, int64_t row) {
    uint64_t elements = 0;
    const rlx_type *type = &value_of(oracle, from)->type;
    if (to == RLX_NONE || rlx_shape_elements(&type->shape, &elements) != RLX_OK) return;
    if (rlx_dtype_block_elements(type->dtype) == 1) {
        size_t bytes = bytes_of(oracle, from);
        memcpy((char *)oracle->data[to] + (size_t)row * bytes, oracle->data[from], bytes);
        return;
    }
    for (uint64_t i = 0; i < elements; i++)
        rlx_store_i64(type->dtype, oracle->data[to], row * (int64_t)elements + (int64_t)i,
                      rlx_load_i64(type->dtype, oracle->data[from], (int64_t)i));
}

static rlx_status run_loop(rlx_test_oracle *oracle, const rlx_node *node) {
    const rlx_loop_attrs *attrs = node->attrs;
    const rlx_block *body = &oracle->graph->blocks.items[node->blocks[0]];
    uint32_t carried = node->input_count - 2, values = body->yield_count - 1;
    int64_t trips = node->inputs[0] != RLX_NONE ? scalar_of(oracle, node->inputs[0]) : INT64_MAX;
    bool goes_on = node->inputs[1] == RLX_NONE || scalar_of(oracle, node->inputs[1]) != 0;
    int64_t count = 0;
    for (uint32_t i = 0; i < carried; i++)
        copy_value(oracle, body->inputs[1 + i], node->inputs[2 + i]);
    for (; count < trips && goes_on; count++) {
        if (attrs->bound > 0 && count == attrs->bound)
            return RLX_FAIL(RLX_FAULT, "size or count past its bound: %" PRId64, attrs->bound);
        memcpy(oracle->data[body->inputs[0]], &count, sizeof count);
        RLX_TRY(run_block(oracle, node->blocks[0]));
        goes_on = scalar_of(oracle, body->yields[0]) != 0;
        for (uint32_t i = carried; i < values; i++)
            stack_row(oracle, node->outputs[i], body->yields[1 + i], count);
        RLX_TRY(carry(oracle, body, carried));
    }
    for (uint32_t i = 0; i < carried; i++)
        copy_value(oracle, node->outputs[i], body->inputs[1 + i]);
    if (node->output_count > values && node->outputs[values] != RLX_NONE)
        memcpy(oracle->data[node->outputs[values]], &count, sizeof count);
    return RLX_OK;
}

static rlx_status run_node(rlx_test_oracle *oracle, rlx_node_id id) {
    const rlx_node *node = &oracle->graph->nodes.items[id];
    if (node->op == RLX_OP_IF) return run_if(oracle, node);
    if (node->op == RLX_OP_LOOP) return run_loop(oracle, node);
    if (node->op == RLX_OP_STATE_WRITE) pass_state(oracle, node);
    return run_plain(oracle, id, node);
}

static rlx_status run_block(rlx_test_oracle *oracle, rlx_block_id id) {
    char text[160];
    const rlx_block *block = &oracle->graph->blocks.items[id];
    for (uint32_t i = 0; i < block->nodes.count; i++) {
        rlx_node_id node = block->nodes.items[i];
        if (oracle->graph->nodes.items[node].is_dead) continue;
        RLX_TRY_WITH(run_node(oracle, node), "%s",
                     rlx_node_text(oracle->graph, node, text, sizeof text));
    }
    return RLX_OK;
}

/* A copy without holes, with the dims of this run. */
static rlx_status read_value(const rlx_test_oracle *oracle, rlx_value_id id, rlx_test_array *out) {
    rlx_tensor tensor;
    RLX_TRY(tensor_of(oracle, id, RLX_NONE, &tensor));
    rlx_type type = rlx_type_make(tensor.dtype, tensor.dims, tensor.rank);
    rlx_test_array array = {.dtype = tensor.dtype, .shape = type.shape};
    uint64_t elements = 0;
    RLX_TRY(rlx_type_bytes(&type, &array.bytes));
    RLX_TRY(rlx_shape_elements(&type.shape, &elements));
    array.data = calloc(1, (size_t)array.bytes + 1);
    if (array.data == NULL) return RLX_FAIL(RLX_OUT_OF_MEMORY, "array");
    if (rlx_tensor_is_plain(&tensor)) {
        memcpy(array.data, tensor.data, (size_t)array.bytes);
        elements = 0;
    }
    for (uint64_t i = 0; i < elements; i++) {
        int64_t left = (int64_t)i, at = 0;
        for (uint32_t d = tensor.rank; d-- > 0; left /= tensor.dims[d])
            at += left % tensor.dims[d] * tensor.strides[d];
        if (rlx_dtype_is_float(tensor.dtype)) {
            rlx_store_f64(tensor.dtype, array.data, (int64_t)i,
                          rlx_load_f64(tensor.dtype, tensor.data, at));
        } else {
            rlx_store_i64(tensor.dtype, array.data, (int64_t)i,
                          rlx_load_i64(tensor.dtype, tensor.data, at));
        }
    }
    *out = array;
    return RLX_OK;
}

static rlx_status take_inputs(rlx_test_oracle *oracle, const rlx_test_array *inputs,
                              uint32_t input_count) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < oracle->graph->values.count; i++) {
        if (value_of(oracle, i)->kind != RLX_VALUE_INPUT) continue;
        if (next == input_count || inputs[next].bytes != bytes_of(oracle, i) ||
            inputs[next].dtype != value_of(oracle, i)->type.dtype)
            return RLX_FAIL(RLX_MISMATCH, "input '%s' is missing or of another size",
                            value_of(oracle, i)->name);
        memcpy(oracle->data[i], inputs[next].data, (size_t)inputs[next].bytes);
        next++;
    }
    return RLX_OK;
}

rlx_status rlx_test_oracle_run(rlx_test_oracle *oracle, const rlx_test_array *inputs,
                               uint32_t input_count, rlx_test_array *outputs) {
    RLX_TRY(take_inputs(oracle, inputs, input_count));
    RLX_TRY(run_block(oracle, 0));
    for (uint32_t i = 0; i < oracle->graph->outputs.count; i++) {
        rlx_status status = read_value(oracle, oracle->graph->outputs.items[i].value, &outputs[i]);
        if (status == RLX_OK) continue;
        while (i > 0)
            rlx_test_array_free(&outputs[--i]);
        return status;
    }
    return RLX_OK;
}

rlx_status rlx_test_oracle_read(const rlx_test_oracle *oracle, const char *name,
                                rlx_test_array *out_array) {
    rlx_value_id value;
    RLX_TRY(rlx_graph_find(oracle->graph, name, &value));
    return read_value(oracle, value, out_array);
}
