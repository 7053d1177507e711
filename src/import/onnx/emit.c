/* SPDX-License-Identifier: Apache-2.0 */
/* The helpers that add nodes and constants. Every node is offered to the folder at once, so that
 * shape arithmetic is numbers by the time that a shape needs it. */
#include "base/size.h"
#include "import/onnx/build.h"
#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/source.h"

#include <stdarg.h>
#include <stdio.h>

void ox_fail(ox *o, rlx_status status) {
    if (o->status == RLX_OK) o->status = status;
}

static void fail_with(ox *o, rlx_status status, const char *format, va_list list) {
    char text[256];
    if (!ox_ok(o)) return;
    vsnprintf(text, sizeof text, format, list);
    ox_fail(o, RLX_FAIL(status, "%s", text));
}

void ox_unsupported(ox *o, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fail_with(o, RLX_UNSUPPORTED, format, list);
    va_end(list);
}

void ox_invalid(ox *o, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fail_with(o, RLX_INVALID_GRAPH, format, list);
    va_end(list);
}

void *ox_memory(ox *o, uint64_t count, uint64_t item_bytes) {
    void *memory = NULL;
    if (ox_ok(o)) ox_fail(o, rlx_scratch_array(&o->memory, count + 1, item_bytes, &memory));
    return memory;
}

rlx_type ox_type(const ox *o, rlx_value_id value) {
    if (value >= o->graph->values.count) return rlx_type_make(RLX_DTYPE_F32, NULL, 0);
    return o->graph->values.items[value].type;
}

uint32_t ox_rank(const ox *o, rlx_value_id value) {
    return ox_type(o, value).shape.rank;
}

int64_t ox_dim(const ox *o, rlx_value_id value, uint32_t axis) {
    rlx_type type = ox_type(o, value);
    return axis < type.shape.rank ? type.shape.dims[axis] : 1;
}

rlx_dtype ox_dtype(const ox *o, rlx_value_id value) {
    return ox_type(o, value).dtype;
}

bool ox_is_float(const ox *o, rlx_value_id value) {
    return rlx_dtype_is_float(ox_dtype(o, value));
}

int64_t ox_elements(ox *o, rlx_value_id value) {
    rlx_type type = ox_type(o, value);
    uint64_t elements = 0;
    ox_fail(o, rlx_shape_elements(&type.shape, &elements));
    if (elements > INT64_MAX) ox_invalid(o, "%" PRIu64 " elements", elements);
    return (int64_t)elements;
}

bool ox_has_extent(const ox *o, rlx_value_id value) {
    rlx_type type = ox_type(o, value);
    for (uint32_t i = 0; i < type.shape.rank; i++) {
        if (type.extents[i] != RLX_NONE) return true;
    }
    return false;
}

bool ox_is_constant(const ox *o, rlx_value_id value) {
    return value < o->graph->values.count &&
           o->graph->values.items[value].kind == RLX_VALUE_CONSTANT;
}

uint32_t ox_axis(ox *o, int64_t axis, uint32_t rank) {
    uint32_t result = 0;
    if (ox_ok(o)) ox_fail(o, rlx_infer_axis(axis, rank, &result));
    return ox_ok(o) ? result : 0;
}

int64_t ox_times(ox *o, int64_t a, int64_t b) {
    int64_t product = 0;
    if (!rlx_mul_i64(a, b, &product)) ox_invalid(o, "%" PRId64 " x %" PRId64 " is too much", a, b);
    return product;
}

int64_t ox_plus(ox *o, int64_t a, int64_t b) {
    int64_t sum = 0;
    if (!rlx_add_i64(a, b, &sum)) ox_invalid(o, "%" PRId64 " + %" PRId64 " is too much", a, b);
    return sum;
}

/* Takes back a node that became constants; it is the newest one of its block. */
static void drop_node(rlx_graph *graph, rlx_node_id node) {
    rlx_block *home = &graph->blocks.items[graph->nodes.items[node].block];
    RLX_ASSERT(node + 1 == graph->nodes.count && home->nodes.count > 0);
    home->nodes.count--;
    graph->nodes.count--;
}

static bool is_all_constant(const ox *o, const rlx_value_id *inputs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (inputs[i] != RLX_NONE && !ox_is_constant(o, inputs[i])) return false;
    }
    return true;
}

static void fold(ox *o) {
    rlx_node_id node = o->graph->nodes.count - 1;
    bool is_done = false;
    ox_fail(o, o->options->fold(o->graph, node, &is_done));
    if (ox_ok(o) && is_done) drop_node(o->graph, node);
}

void ox_nodes(ox *o, rlx_op op, const void *attrs, const rlx_value_id *inputs, uint32_t input_count,
              rlx_value_id *out_values, uint32_t output_count) {
    for (uint32_t i = 0; i < output_count; i++)
        out_values[i] = RLX_NONE;
    if (!ox_ok(o)) return;
    ox_fail(o,
            rlx_graph_add_node(o->graph, op, attrs, inputs, input_count, output_count, out_values));
    if (ox_ok(o) && o->options->fold != NULL && is_all_constant(o, inputs, input_count)) fold(o);
}

rlx_value_id ox_node(ox *o, rlx_op op, const void *attrs, const rlx_value_id *inputs,
                     uint32_t input_count) {
    rlx_value_id value = RLX_NONE;
    ox_nodes(o, op, attrs, inputs, input_count, &value, 1);
    return value;
}

rlx_value_id ox_unary(ox *o, rlx_op op, rlx_value_id x) {
    return ox_node(o, op, NULL, &x, 1);
}

rlx_value_id ox_binary(ox *o, rlx_op op, rlx_value_id a, rlx_value_id b) {
    const rlx_value_id inputs[] = {a, b};
    return ox_node(o, op, NULL, inputs, 2);
}

rlx_value_id ox_where(ox *o, rlx_value_id condition, rlx_value_id a, rlx_value_id b) {
    const rlx_value_id inputs[] = {condition, a, b};
    return ox_node(o, RLX_OP_WHERE, NULL, inputs, 3);
}

rlx_value_id ox_cast(ox *o, rlx_value_id x, rlx_dtype to) {
    const rlx_cast_attrs attrs = {to};
    if (!ox_ok(o) || ox_dtype(o, x) == to) return x;
    return ox_node(o, RLX_OP_CAST, &attrs, &x, 1);
}

/* False, and a failure, for more dims than a tensor has. */
static bool fill_ints(ox *o, const int64_t *items, uint32_t count, rlx_ints *out_ints) {
    if (count > RLX_MAX_INTS) ox_unsupported(o, "%u dims are more than %d", count, RLX_MAX_RANK);
    if (!ox_ok(o)) return false;
    out_ints->count = count;
    for (uint32_t i = 0; i < count; i++)
        out_ints->items[i] = items[i];
    return true;
}

rlx_value_id ox_reshape(ox *o, rlx_value_id x, const int64_t *dims, uint32_t rank) {
    rlx_reshape_attrs attrs = {0};
    rlx_type type = ox_type(o, x);
    bool is_same = type.shape.rank == rank;
    for (uint32_t i = 0; i < rank && is_same; i++)
        is_same = type.shape.dims[i] == dims[i];
    if (is_same || !fill_ints(o, dims, rank, &attrs.shape)) return x;
    return ox_node(o, RLX_OP_RESHAPE, &attrs, &x, 1);
}

rlx_value_id ox_reshape_like(ox *o, rlx_value_id x, rlx_value_id like) {
    rlx_type type = ox_type(o, like);
    return ox_reshape(o, x, type.shape.dims, type.shape.rank);
}

rlx_value_id ox_transpose(ox *o, rlx_value_id x, const int64_t *perm, uint32_t rank) {
    rlx_transpose_attrs attrs = {0};
    bool is_same = true;
    for (uint32_t i = 0; i < rank; i++)
        is_same = is_same && perm[i] == (int64_t)i;
    if (is_same || !fill_ints(o, perm, rank, &attrs.perm)) return x;
    return ox_node(o, RLX_OP_TRANSPOSE, &attrs, &x, 1);
}

rlx_value_id ox_unsqueeze(ox *o, rlx_value_id x, int64_t axis) {
    const rlx_axes_attrs attrs = {{1, {axis}}};
    return ox_node(o, RLX_OP_UNSQUEEZE, &attrs, &x, 1);
}

rlx_value_id ox_squeeze(ox *o, rlx_value_id x, int64_t axis) {
    const rlx_axes_attrs attrs = {{1, {axis}}};
    return ox_node(o, RLX_OP_SQUEEZE, &attrs, &x, 1);
}

rlx_value_id ox_slice(ox *o, rlx_value_id x, int64_t axis, int64_t start, int64_t end,
                      int64_t step) {
    const rlx_slice_attrs attrs = {{1, {start}}, {1, {end}}, {1, {axis}}, {1, {step}}};
    return ox_node(o, RLX_OP_SLICE, &attrs, &x, 1);
}

rlx_value_id ox_concat(ox *o, const rlx_value_id *parts, uint32_t count, int64_t axis) {
    const rlx_axis_attrs attrs = {axis};
    if (count == 1) return parts[0];
    return ox_node(o, RLX_OP_CONCAT, &attrs, parts, count);
}

rlx_value_id ox_expand(ox *o, rlx_value_id x, const int64_t *dims, uint32_t rank) {
    rlx_reshape_attrs attrs = {0};
    if (!fill_ints(o, dims, rank, &attrs.shape)) return x;
    return ox_node(o, RLX_OP_EXPAND, &attrs, &x, 1);
}

rlx_value_id ox_gather(ox *o, rlx_value_id x, rlx_value_id indices, int64_t axis) {
    const rlx_axis_attrs attrs = {axis};
    const rlx_value_id inputs[] = {x, indices};
    return ox_node(o, RLX_OP_GATHER, &attrs, inputs, 2);
}

rlx_value_id ox_reduce(ox *o, rlx_op op, rlx_value_id x, const int64_t *axes, uint32_t count,
                       bool keep_dims) {
    rlx_reduce_attrs attrs = {.keep_dims = keep_dims};
    if (!fill_ints(o, axes, count, &attrs.axes)) return x;
    return ox_node(o, op, &attrs, &x, 1);
}

rlx_value_id ox_matmul(ox *o, rlx_value_id a, rlx_value_id b) {
    return ox_binary(o, RLX_OP_MATMUL, a, b);
}

rlx_value_id ox_scaled(ox *o, rlx_value_id x, double factor) {
    if (factor == 1) return x;
    return ox_binary(o, RLX_OP_MUL, x, ox_scalar(o, ox_dtype(o, x), factor));
}

void ox_split(ox *o, rlx_value_id x, int64_t axis, const int64_t *sizes, uint32_t count,
              rlx_value_id *out_parts) {
    const rlx_split_attrs attrs = {axis, {count, sizes}};
    ox_nodes(o, RLX_OP_SPLIT, &attrs, &x, 1, out_parts, count);
}

rlx_value_id ox_constant(ox *o, rlx_dtype dtype, const int64_t *dims, uint32_t rank,
                         const void *data, uint64_t bytes) {
    rlx_value_id value = RLX_NONE;
    rlx_shape shape = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        shape.dims[i] = dims[i];
    if (ox_ok(o))
        ox_fail(o, rlx_graph_add_constant(o->graph, NULL, dtype, shape, data, bytes, &value));
    return value;
}

rlx_value_id ox_doubles(ox *o, rlx_dtype dtype, const double *items, const int64_t *dims,
                        uint32_t rank) {
    rlx_type type = rlx_type_make(dtype, dims, rank);
    uint64_t bytes = 0, count = 0;
    ox_fail(o, rlx_type_bytes(&type, &bytes));
    ox_fail(o, rlx_shape_elements(&type.shape, &count));
    void *data = ox_memory(o, bytes, 1);
    if (!ox_ok(o)) return RLX_NONE;
    for (uint64_t i = 0; i < count; i++)
        rlx_store_f64(dtype, data, (int64_t)i, items[i]);
    return ox_constant(o, dtype, dims, rank, data, bytes);
}

rlx_value_id ox_scalar(ox *o, rlx_dtype dtype, double number) {
    return ox_doubles(o, dtype, &number, NULL, 0);
}

rlx_value_id ox_i64s(ox *o, const int64_t *items, uint32_t count) {
    const int64_t dims[] = {count};
    return ox_constant(o, RLX_DTYPE_I64, dims, 1, items, count * sizeof *items);
}

rlx_value_id ox_range(ox *o, rlx_dtype dtype, int64_t count) {
    const int64_t dims[] = {count};
    double *items = NULL;
    if (count < 0 || count > OX_MOST_NUMBERS) ox_unsupported(o, "a range of %" PRId64, count);
    if (ox_ok(o)) items = ox_memory(o, (uint64_t)count, sizeof *items);
    if (!ox_ok(o)) return RLX_NONE;
    for (int64_t i = 0; i < count; i++)
        items[i] = (double)i;
    return ox_doubles(o, dtype, items, dims, 1);
}

enum { CONSTANT_BYTES = 1024, INTEGER_CONSTANT_BYTES = 64 * 1024 };

/* Small tensors are constants, so that shapes can be computed from them; the rest are weights that
 * stay in their file. */
rlx_value_id ox_tensor(ox *o, const rlx_onnx_tensor *tensor, const char *name) {
    rlx_value_id value = RLX_NONE;
    rlx_source source = {0};
    if (!ox_ok(o)) return RLX_NONE;
    if (!tensor->is_known)
        ox_unsupported(o, "tensor '%s' has type %s", tensor->name,
                       rlx_onnx_type_name(tensor->data_type));
    if (!ox_ok(o)) return RLX_NONE;
    uint64_t most = rlx_dtype_is_float(tensor->dtype) ? CONSTANT_BYTES : INTEGER_CONSTANT_BYTES;
    if (tensor->bytes <= most && tensor->location == NULL) {
        ox_fail(o, rlx_graph_add_constant(o->graph, name, tensor->dtype, tensor->shape,
                                          tensor->data, tensor->bytes, &value));
        return value;
    }
    ox_fail(o, rlx_onnx_tensor_source(o->model, tensor, &o->memory, &source));
    o->lends_memory |= source.kind == RLX_SOURCE_MEMORY;
    if (ox_ok(o) && tensor->bytes <= most) {
        void *data = ox_memory(o, tensor->bytes, 1);
        uint64_t elements = 0;
        ox_fail(o, rlx_shape_elements(&tensor->shape, &elements));
        if (ox_ok(o)) ox_fail(o, rlx_source_read(&source, tensor->dtype, 0, elements, data));
        if (ox_ok(o))
            ox_fail(o, rlx_graph_add_constant(o->graph, name, tensor->dtype, tensor->shape, data,
                                              tensor->bytes, &value));
        return value;
    }
    if (ox_ok(o))
        ox_fail(o, rlx_graph_add_parameter(o->graph, name, tensor->dtype, tensor->shape, &source,
                                           &value));
    return value;
}

ox_item ox_tensor_item(ox *o, const rlx_onnx_tensor *tensor, const char *name) {
    ox_item item = ox_item_of(ox_tensor(o, tensor, name));
    if (tensor->is_string) item.kind = OX_STRINGS;
    return item;
}
