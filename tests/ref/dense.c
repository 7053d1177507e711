/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/dense.h"
#include "ir/graph.h"

#include "ir/dtype.h"

enum { MOST_OPERANDS = 8 };

static int64_t count_of(uint32_t rank, const int64_t *dims) {
    int64_t count = 1;
    for (uint32_t i = 0; i < rank; i++)
        count *= dims[i];
    return count;
}

static void *take(size_t bytes) {
    void *memory = malloc(bytes == 0 ? 1 : bytes);
    assert_non_null(memory);
    return memory;
}

static bool is_block(rlx_dtype dtype) {
    return rlx_dtype_row_of(dtype)->class_ == RLX_CLASS_BLOCK;
}

static bool holds_integers(rlx_dtype dtype) {
    rlx_dtype_class class_ = rlx_dtype_row_of(dtype)->class_;
    return class_ != RLX_CLASS_FLOAT && class_ != RLX_CLASS_BLOCK;
}

/* What remains of a value in a dtype. */
static double round_value(rlx_dtype dtype, double value) {
    double room = 0;
    if (holds_integers(dtype)) {
        rlx_store_i64(dtype, &room, 0, (int64_t)floor(value));
        int64_t back = rlx_load_i64(dtype, &room, 0);
        return dtype == RLX_DTYPE_U64 ? (double)(uint64_t)back : (double)back;
    }
    rlx_store_f64(dtype, &room, 0, value);
    return rlx_load_f64(dtype, &room, 0);
}

static void round_blocks(rlx_dtype dtype, double *values, int64_t count) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    float wide[256];
    unsigned char block[256];
    for (int64_t i = 0; i < count; i += row->block_elements) {
        for (uint32_t j = 0; j < row->block_elements; j++)
            wide[j] = (float)values[i + j];
        row->encode(block, wide, row->block_elements);
        row->decode(wide, block, row->block_elements);
        for (uint32_t j = 0; j < row->block_elements; j++)
            values[i + j] = (double)wide[j];
    }
}

operand operand_of(rlx_dtype dtype, uint32_t rank, const int64_t *dims, const double *values) {
    operand item = {.dtype = dtype, .rank = rank, .count = count_of(rank, dims)};
    for (uint32_t i = 0; i < rank; i++)
        item.dims[i] = dims[i];
    item.values = take((size_t)item.count * sizeof *item.values);
    for (int64_t i = 0; i < item.count; i++)
        item.values[i] = is_block(dtype) ? values[i] : round_value(dtype, values[i]);
    if (is_block(dtype)) round_blocks(dtype, item.values, item.count);
    return item;
}

operand operand_random(rlx_test_random *random, rlx_dtype dtype, uint32_t rank, const int64_t *dims,
                       double low, double high) {
    int64_t count = count_of(rank, dims);
    double *values = take((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (double)rlx_test_uniform(random, (float)low, (float)high);
    operand item = operand_of(dtype, rank, dims, values);
    free(values);
    return item;
}

operand operand_absent(void) {
    return (operand){.dtype = RLX_DTYPE_COUNT};
}

void operand_free(operand *item) {
    free(item->values);
    item->values = NULL;
}

void operands_free(operand *items, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        operand_free(&items[i]);
}

/* How the elements lie: row-major, or in another axis order with holes between them. */
typedef enum layout { PLAIN, STRIDED, LAYOUTS } layout;

static void set_strides(rlx_tensor *tensor, layout how, int64_t *out_span) {
    uint32_t block = rlx_dtype_block_elements(tensor->dtype);
    int64_t stride = how == STRIDED && block == 1 ? 2 : 1;
    *out_span = 0;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        /* Strided: the axes rotate, so that the last is not the innermost. Blocks keep theirs. */
        uint32_t axis = tensor->rank - 1 - i;
        if (how == STRIDED && block == 1) axis = (axis + 1) % tensor->rank;
        int64_t dim = tensor->dims[axis];
        tensor->strides[axis] = stride;
        stride *= dim == 0 ? 1 : dim;
        if (how == STRIDED) stride += block == 1 ? 3 : (int64_t)block;
    }
    *out_span = stride + block;
}

static int64_t offset_of(const rlx_tensor *tensor, int64_t index) {
    int64_t offset = 0;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        offset += index % tensor->dims[i] * tensor->strides[i];
        index /= tensor->dims[i];
    }
    return offset;
}

static rlx_tensor make_tensor(rlx_dtype dtype, uint32_t rank, const int64_t *dims, layout how) {
    rlx_tensor tensor = {.dtype = dtype, .rank = rank};
    int64_t span;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < rank; i++)
        tensor.dims[i] = dims[i];
    set_strides(&tensor, how, &span);
    assert_ok(rlx_dtype_bytes(dtype, (uint64_t)span, &bytes));
    tensor.data = rlx_test_guarded((size_t)bytes);
    return tensor;
}

static void fill_blocks(rlx_tensor *tensor, const operand *item) {
    const rlx_dtype_row *row = rlx_dtype_row_of(tensor->dtype);
    float wide[256];
    for (int64_t i = 0; i < item->count; i += row->block_elements) {
        for (uint32_t j = 0; j < row->block_elements; j++)
            wide[j] = (float)item->values[i + j];
        row->encode((char *)tensor->data +
                        offset_of(tensor, i) / row->block_elements * row->block_bytes,
                    wide, row->block_elements);
    }
}

static rlx_tensor fill_tensor(const operand *item, layout how) {
    if (item->dtype == RLX_DTYPE_COUNT) return (rlx_tensor){0};
    rlx_tensor tensor = make_tensor(item->dtype, item->rank, item->dims, how);
    if (is_block(item->dtype)) {
        fill_blocks(&tensor, item);
        return tensor;
    }
    for (int64_t i = 0; i < item->count; i++) {
        int64_t at = offset_of(&tensor, i);
        if (holds_integers(item->dtype)) {
            rlx_store_i64(item->dtype, tensor.data, at,
                          item->dtype == RLX_DTYPE_U64 ? (int64_t)(uint64_t)item->values[i]
                                                       : (int64_t)item->values[i]);
        } else {
            rlx_store_f64(item->dtype, tensor.data, at, item->values[i]);
        }
    }
    return tensor;
}

static double read_value(const rlx_tensor *tensor, int64_t index) {
    int64_t at = offset_of(tensor, index);
    if (!holds_integers(tensor->dtype)) return rlx_load_f64(tensor->dtype, tensor->data, at);
    int64_t value = rlx_load_i64(tensor->dtype, tensor->data, at);
    return tensor->dtype == RLX_DTYPE_U64 ? (double)(uint64_t)value : (double)value;
}

rlx_status infer_dense(rlx_op op, const void *attrs, const operand *inputs, uint32_t input_count,
                       uint32_t output_count, rlx_type *out_types) {
    rlx_graph *graph = NULL;
    rlx_value_id ids[MOST_OPERANDS], outs[MOST_OPERANDS];
    assert_ok(rlx_graph_create(NULL, &graph));
    for (uint32_t i = 0; i < input_count; i++) {
        rlx_shape shape = {.rank = inputs[i].rank};
        ids[i] = RLX_NONE;
        if (inputs[i].dtype == RLX_DTYPE_COUNT) continue;
        memcpy(shape.dims, inputs[i].dims, sizeof shape.dims);
        assert_ok(rlx_graph_add_input(graph, NULL, inputs[i].dtype, shape, &ids[i]));
    }
    rlx_status status = rlx_graph_add_node(graph, op, attrs, ids, input_count, output_count, outs);
    for (uint32_t i = 0; status == RLX_OK && out_types != NULL && i < output_count; i++)
        out_types[i] = graph->values.items[outs[i]].type;
    rlx_graph_destroy(graph);
    return status;
}

/* Runs items in pieces of `piece`, the last piece first. */
static void run_pieces(const rlx_kernel *kernel, const rlx_kernel_args *args, int64_t piece) {
    int64_t items = kernel->items(args);
    int64_t pieces = items / piece + (items % piece != 0);
    for (int64_t p = pieces; p-- > 0;) {
        int64_t end = (p + 1) * piece < items ? (p + 1) * piece : items;
        kernel->run(args, p * piece, end);
    }
}

static void run_once(rlx_op op, const void *attrs, const operand *inputs, uint32_t input_count,
                     const rlx_type *types, operand *results, uint32_t result_count,
                     const bool *wanted, layout how, int64_t piece) {
    rlx_tensor in[MOST_OPERANDS], out[MOST_OPERANDS];
    rlx_fault fault = {0};
    const rlx_kernel *kernel = rlx_ref_kernel(op);
    assert_non_null(kernel);
    for (uint32_t i = 0; i < input_count; i++)
        in[i] = fill_tensor(&inputs[i], how);
    for (uint32_t i = 0; i < result_count; i++) {
        out[i] = make_tensor(types[i].dtype, types[i].shape.rank, types[i].shape.dims, how);
        if (wanted != NULL && !wanted[i]) {
            rlx_test_guarded_free(out[i].data);
            out[i].data = NULL;
        }
    }
    rlx_kernel_args args = {.op = op,
                            .attrs = attrs,
                            .in = in,
                            .out = out,
                            .in_count = input_count,
                            .out_count = result_count,
                            .fault = &fault};
    uint64_t bytes = kernel->workspace_bytes == NULL ? 0 : kernel->workspace_bytes(&args);
    if (bytes != 0) args.workspace = rlx_test_guarded((size_t)bytes);
    assert_true(kernel->item_cost == NULL || kernel->item_cost(&args) >= 0);
    run_pieces(kernel, &args, piece);
    assert_int_equal(fault.claim, 0);
    for (uint32_t i = 0; i < result_count; i++) {
        if (out[i].data == NULL) continue;
        for (int64_t j = 0; j < results[i].count; j++)
            results[i].values[j] = read_value(&out[i], j);
        rlx_test_guarded_free(out[i].data);
    }
    for (uint32_t i = 0; i < input_count; i++) {
        if (in[i].data != NULL) rlx_test_guarded_free(in[i].data);
    }
    if (args.workspace != NULL) rlx_test_guarded_free(args.workspace);
}

static operand result_of(const rlx_type *type) {
    operand item = {.dtype = type->dtype, .rank = type->shape.rank};
    memcpy(item.dims, type->shape.dims, sizeof item.dims);
    item.count = count_of(item.rank, item.dims);
    item.values = calloc((size_t)item.count + 1, sizeof *item.values);
    assert_non_null(item.values);
    return item;
}

static void assert_same_bits(const operand *a, const operand *b, const char *how) {
    for (int64_t i = 0; i < a->count; i++) {
        if (isnan(a->values[i]) && isnan(b->values[i])) continue;
        if (memcmp(&a->values[i], &b->values[i], sizeof(double)) == 0) continue;
        fail_msg("element %lld: %.17g plain, %.17g %s", (long long)i, a->values[i], b->values[i],
                 how);
    }
}

void run_dense_wanted(rlx_op op, const void *attrs, const operand *inputs, uint32_t input_count,
                      operand *results, uint32_t result_count, const bool *wanted) {
    static const int64_t pieces[] = {INT64_MAX / 2, 1, 3};
    rlx_type types[MOST_OPERANDS];
    assert_ok(infer_dense(op, attrs, inputs, input_count, result_count, types));
    for (uint32_t i = 0; i < result_count; i++)
        results[i] = result_of(&types[i]);
    run_once(op, attrs, inputs, input_count, types, results, result_count, wanted, PLAIN,
             pieces[0]);
    for (uint32_t way = 1; way < LAYOUTS * 3; way++) {
        operand again[MOST_OPERANDS];
        layout how = way % LAYOUTS == 0 ? PLAIN : STRIDED;
        for (uint32_t i = 0; i < result_count; i++)
            again[i] = result_of(&types[i]);
        run_once(op, attrs, inputs, input_count, types, again, result_count, wanted, how,
                 pieces[way / LAYOUTS]);
        for (uint32_t i = 0; i < result_count; i++)
            assert_same_bits(&results[i], &again[i], how == PLAIN ? "in pieces" : "strided");
        operands_free(again, result_count);
    }
}

void run_dense(rlx_op op, const void *attrs, const operand *inputs, uint32_t input_count,
               operand *results, uint32_t result_count) {
    run_dense_wanted(op, attrs, inputs, input_count, results, result_count, NULL);
}

void assert_near(const double *expected, const operand *actual, double absolute, double relative) {
    for (int64_t i = 0; i < actual->count; i++) {
        double e = expected[i], a = actual->values[i];
        if (isnan(e) && isnan(a)) continue;
        if (e == a || fabs(e - a) <= absolute + relative * fabs(e)) continue;
        fail_msg("element %lld: expected %.9g, got %.9g (%s)", (long long)i, e, a,
                 rlx_dtype_name(actual->dtype));
    }
}

void assert_dims(const operand *actual, uint32_t rank, const int64_t *dims) {
    assert_int_equal(actual->rank, rank);
    for (uint32_t i = 0; i < rank; i++)
        assert_int_equal(actual->dims[i], dims[i]);
}

double tolerance_of(rlx_dtype dtype) {
    switch (dtype) {
    case RLX_DTYPE_F64:
        return 1e-13;
    case RLX_DTYPE_F32:
        return 1e-6;
    case RLX_DTYPE_F16:
        return 1e-3;
    case RLX_DTYPE_BF16:
        return 8e-3;
    case RLX_DTYPE_F8E4M3FN:
    case RLX_DTYPE_F8E4M3FNUZ:
        return 0.07;
    case RLX_DTYPE_F8E5M2:
    case RLX_DTYPE_F8E5M2FNUZ:
        return 0.13;
    default:
        return 0;
    }
}
