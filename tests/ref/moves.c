/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and runs for the tests of movement kernels. */
#include "ref/moves.h"

#include "ir/dtype.h"

#include <stdlib.h>

const rlx_dtype case_dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F16, RLX_DTYPE_F64, RLX_DTYPE_U8,
                                 RLX_DTYPE_I64, RLX_DTYPE_I4,  RLX_DTYPE_BOOL};
const unsigned case_dtype_count = sizeof case_dtypes / sizeof case_dtypes[0];

static bool is_nibble(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_I4 || dtype == RLX_DTYPE_U4;
}

/* Gives each axis, in random order, a stride beyond all before it. */
static void random_strides(rlx_test_random *random, rlx_tensor *tensor) {
    uint32_t order[RLX_MAX_RANK];
    int64_t stride = pick(random, 1, 3);
    for (uint32_t i = 0; i < tensor->rank; i++)
        order[i] = i;
    for (uint32_t i = tensor->rank; i > 1; i--) {
        uint32_t j = (uint32_t)rlx_test_below(random, i), axis = order[j];
        order[j] = order[i - 1];
        order[i - 1] = axis;
    }
    for (uint32_t i = 0; i < tensor->rank; i++) {
        int64_t dim = tensor->dims[order[i]];
        tensor->strides[order[i]] = stride;
        stride = stride * (dim > 0 ? dim : 1) + pick(random, 0, 2);
    }
}

static void plain_strides(rlx_tensor *tensor) {
    int64_t stride = 1;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        tensor->strides[i] = stride;
        stride *= tensor->dims[i];
    }
}

/* Memory for the elements that the strides reach, and the address of the first one. */
static void place_in_memory(case_tensor *self, rlx_test_random *random) {
    rlx_tensor *tensor = &self->tensor;
    int64_t low = 0, high = 0;
    int64_t unit = is_nibble(tensor->dtype) ? 1 : rlx_dtype_block_bytes(tensor->dtype);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        int64_t reach = tensor->dims[i] > 0 ? (tensor->dims[i] - 1) * tensor->strides[i] : 0;
        if (reach < 0) low += reach;
        if (reach > 0) high += reach;
    }
    self->bytes = (size_t)((high - low + 1) * unit);
    if (is_nibble(tensor->dtype)) self->bytes = (size_t)((high + 2) / 2);
    if (case_is_empty(tensor->rank, tensor->dims)) self->bytes = 0;
    self->memory = rlx_test_guarded(self->bytes + 1);
    for (size_t i = 0; i < self->bytes; i++)
        self->memory[i] = (uint8_t)rlx_test_next(random);
    tensor->data = self->memory - low * unit;
}

static void make(case_tensor *self, rlx_test_random *random, rlx_dtype dtype, uint32_t rank,
                 const int64_t *dims, bool is_odd) {
    *self = (case_tensor){.tensor = {.dtype = dtype, .rank = rank}};
    for (uint32_t i = 0; i < rank; i++)
        self->tensor.dims[i] = dims[i];
    plain_strides(&self->tensor);
    if (is_odd) random_strides(random, &self->tensor);
}

void case_input(case_tensor *self, rlx_test_random *random, rlx_dtype dtype, uint32_t rank,
                const int64_t *dims, bool is_odd) {
    make(self, random, dtype, rank, dims, is_odd);
    for (uint32_t i = 0; i < rank && is_odd && !is_nibble(dtype); i++) {
        uint64_t dice = rlx_test_below(random, 8);
        if (dice == 0) self->tensor.strides[i] = 0;
        if (dice == 1) self->tensor.strides[i] = -self->tensor.strides[i];
    }
    place_in_memory(self, random);
    for (size_t i = 0; i < self->bytes && dtype == RLX_DTYPE_BOOL; i++)
        self->memory[i] &= 1;
}

void case_output(case_tensor *self, rlx_test_random *random, rlx_dtype dtype, uint32_t rank,
                 const int64_t *dims, bool is_odd) {
    make(self, random, dtype, rank, dims, is_odd);
    place_in_memory(self, random);
    self->want = malloc(self->bytes + 1);
    self->start = malloc(self->bytes + 1);
    assert_non_null(self->want);
    assert_non_null(self->start);
    memcpy(self->want, self->memory, self->bytes);
    memcpy(self->start, self->memory, self->bytes);
    self->expected = self->tensor;
    self->expected.data = self->want;
}

void case_free(case_tensor *self) {
    rlx_test_guarded_free(self->memory);
    free(self->want);
    free(self->start);
}

static int64_t offset_of(const rlx_tensor *tensor, const place *at) {
    int64_t offset = 0;
    for (uint32_t i = 0; i < tensor->rank; i++)
        offset += at->at[i] * tensor->strides[i];
    return offset;
}

uint64_t case_get(const rlx_tensor *tensor, const place *at) {
    const uint8_t *data = tensor->data;
    int64_t offset = offset_of(tensor, at), bytes = rlx_dtype_block_bytes(tensor->dtype);
    uint64_t bits = 0;
    if (is_nibble(tensor->dtype)) return ((unsigned)data[offset / 2] >> (offset % 2 * 4)) & 15u;
    memcpy(&bits, data + offset * bytes, (size_t)bytes);
    return bits;
}

void case_set(rlx_tensor *tensor, const place *at, uint64_t bits) {
    uint8_t *data = tensor->data;
    int64_t offset = offset_of(tensor, at), bytes = rlx_dtype_block_bytes(tensor->dtype);
    if (is_nibble(tensor->dtype)) {
        unsigned shift = (unsigned)(offset % 2 * 4), mask = 15u << shift;
        data[offset / 2] = (uint8_t)((data[offset / 2] & ~mask) | ((unsigned)bits << shift));
        return;
    }
    memcpy(data + offset * bytes, &bits, (size_t)bytes);
}

void case_set_number(rlx_tensor *tensor, const place *at, double number) {
    rlx_store_f64(tensor->dtype, tensor->data, offset_of(tensor, at), number);
}

double case_number(const rlx_tensor *tensor, const place *at) {
    return rlx_load_f64(tensor->dtype, tensor->data, offset_of(tensor, at));
}

bool case_is_empty(uint32_t rank, const int64_t *dims) {
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] == 0) return true;
    }
    return false;
}

bool case_next(uint32_t rank, const int64_t *dims, place *at) {
    for (uint32_t i = rank; i-- > 0;) {
        if (++at->at[i] < dims[i]) return true;
        at->at[i] = 0;
    }
    return false;
}

void case_dims(rlx_test_random *random, uint32_t rank, int64_t *out_dims) {
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t dice = rlx_test_below(random, 20);
        out_dims[i] = dice == 0 ? 0 : dice < 4 ? 1 : pick(random, 2, rank > 4 ? 3 : 7);
        if (rank == 1 && dice > 16) out_dims[i] = pick(random, 4000, 13000);
        if (rank == 2 && i == 1 && dice > 16) out_dims[i] = pick(random, 1000, 5000);
    }
}

enum { MOST_TENSORS = 16 };

/* Runs [0, items) in random pieces, the last pieces first. */
static void run_pieces(rlx_test_random *random, const rlx_kernel *kernel,
                       const rlx_kernel_args *args, int64_t begin, int64_t end) {
    if (end - begin <= 1) {
        if (begin < end) kernel->run(args, begin, end);
        return;
    }
    int64_t middle = pick(random, begin, end);
    if (middle == begin || middle == end || rlx_test_below(random, 4) == 0) {
        kernel->run(args, middle, end);
        kernel->run(args, begin, middle);
        return;
    }
    run_pieces(random, kernel, args, middle, end);
    run_pieces(random, kernel, args, begin, middle);
}

static void compare(const case_tensor *outputs, uint32_t count, const char *how) {
    for (uint32_t k = 0; k < count; k++) {
        if (memcmp(outputs[k].memory, outputs[k].want, outputs[k].bytes) != 0) {
            fail_msg("output %u differs after the %s run", k, how);
        }
    }
}

rlx_fault case_run(rlx_test_random *random, rlx_op op, const void *attrs, const case_tensor *inputs,
                   uint32_t input_count, case_tensor *outputs, uint32_t output_count) {
    const rlx_kernel *kernel = rlx_ref_kernel(op);
    rlx_tensor in[MOST_TENSORS], out[MOST_TENSORS];
    rlx_fault fault = {0}, again = {0};
    assert_non_null(kernel);
    for (uint32_t i = 0; i < input_count; i++)
        in[i] = inputs[i].tensor;
    for (uint32_t i = 0; i < output_count; i++)
        out[i] = outputs[i].tensor;
    rlx_kernel_args args = {.op = op,
                            .step = 7,
                            .attrs = attrs,
                            .in = in,
                            .out = out,
                            .in_count = input_count,
                            .out_count = output_count,
                            .fault = &fault};
    int64_t items = kernel->items(&args);
    if (items > 0) kernel->run(&args, 0, items);
    compare(outputs, output_count, "whole");
    for (uint32_t i = 0; i < output_count; i++)
        memcpy(outputs[i].memory, outputs[i].start, outputs[i].bytes);
    args.fault = &again;
    run_pieces(random, kernel, &args, 0, items);
    compare(outputs, output_count, "split");
    assert_int_equal(fault.code, again.code);
    return fault;
}

void case_check_rule(rlx_op op, const void *attrs, const case_tensor *inputs, uint32_t input_count,
                     const case_tensor *outputs, uint32_t output_count) {
    rlx_graph *graph = NULL;
    rlx_value_id in[MOST_TENSORS], out[MOST_TENSORS];
    assert_ok(rlx_graph_create(NULL, &graph));
    for (uint32_t i = 0; i < input_count; i++) {
        const rlx_tensor *tensor = &inputs[i].tensor;
        rlx_shape shape = {.rank = tensor->rank};
        memcpy(shape.dims, tensor->dims, sizeof shape.dims);
        assert_ok(rlx_graph_add_input(graph, NULL, tensor->dtype, shape, &in[i]));
    }
    assert_ok(rlx_graph_add_node(graph, op, attrs, in, input_count, output_count, out));
    for (uint32_t i = 0; i < output_count; i++) {
        const rlx_tensor *tensor = &outputs[i].tensor;
        rlx_value_info info;
        assert_ok(rlx_graph_value(graph, out[i], &info));
        assert_true(info.is_typed);
        assert_int_equal(tensor->dtype, info.dtype);
        assert_int_equal(tensor->rank, info.shape.rank);
        for (uint32_t d = 0; d < tensor->rank; d++)
            assert_int_equal(tensor->dims[d], info.shape.dims[d]);
    }
    rlx_graph_destroy(graph);
}
