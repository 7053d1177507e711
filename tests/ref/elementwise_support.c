/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/elementwise_support.h"

#include <math.h>

rlx_tensor elementwise_plain(rlx_dtype dtype, uint32_t rank, const int64_t *dims) {
    rlx_tensor tensor = {.dtype = dtype, .rank = rank};
    int64_t stride = 1;
    uint64_t bytes = 0;
    for (uint32_t i = rank; i-- > 0;) {
        tensor.dims[i] = dims[i];
        tensor.strides[i] = stride;
        stride *= dims[i];
    }
    assert_ok(rlx_dtype_bytes(dtype, (uint64_t)stride, &bytes));
    tensor.data = rlx_test_guarded(bytes);
    memset(tensor.data, 0, bytes);
    return tensor;
}

rlx_tensor elementwise_odd(rlx_test_random *random, rlx_dtype dtype, uint32_t rank,
                           const int64_t *dims) {
    rlx_tensor tensor = {.dtype = dtype, .rank = rank};
    uint32_t order[RLX_MAX_RANK];
    int64_t stride = (int64_t)rlx_test_below(random, 2) + 1;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < rank; i++)
        order[i] = rank - 1 - i;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t other = (uint32_t)rlx_test_below(random, rank), kept = order[i];
        if (rlx_test_below(random, 3) == 0) continue; /* often left row-major */
        order[i] = order[other];
        order[other] = kept;
    }
    for (uint32_t i = 0; i < rank; i++) {
        tensor.dims[order[i]] = dims[order[i]];
        tensor.strides[order[i]] = stride;
        stride *= dims[order[i]] + (int64_t)(rlx_test_below(random, 4) == 0);
    }
    assert_ok(rlx_dtype_bytes(dtype, (uint64_t)stride, &bytes));
    tensor.data = rlx_test_guarded(bytes);
    memset(tensor.data, 0, bytes);
    return tensor;
}

void elementwise_free(rlx_tensor *tensor) {
    rlx_test_guarded_free(tensor->data);
    tensor->data = NULL;
}

int64_t elementwise_index(const rlx_tensor *tensor, const rlx_tensor *out, int64_t index) {
    int64_t place = 0;
    for (uint32_t i = out->rank; i-- > 0;) {
        int64_t at = index % out->dims[i];
        index /= out->dims[i];
        if (i < out->rank - tensor->rank) continue;
        uint32_t axis = i - (out->rank - tensor->rank);
        if (tensor->dims[axis] != 1) place += at * tensor->strides[axis];
    }
    return place;
}

void elementwise_fill(rlx_test_random *random, rlx_tensor *tensor) {
    int64_t count = rlx_tensor_elements(tensor);
    for (int64_t i = 0; i < count; i++) {
        int64_t place = elementwise_index(tensor, tensor, i);
        rlx_dtype_class class_ = rlx_dtype_row_of(tensor->dtype)->class_;
        if (class_ == RLX_CLASS_FLOAT) {
            rlx_store_f64(tensor->dtype, tensor->data, place,
                          (double)rlx_test_uniform(random, -6, 6));
        } else if (class_ == RLX_CLASS_BOOL) {
            rlx_store_i64(tensor->dtype, tensor->data, place, (int64_t)rlx_test_below(random, 2));
        } else {
            int64_t value = (int64_t)(rlx_test_next(random) >> rlx_test_below(random, 64));
            rlx_store_i64(tensor->dtype, tensor->data, place, value);
        }
    }
}

uint32_t elementwise_run(rlx_op op, const void *attrs, const rlx_tensor *in, uint32_t in_count,
                         const rlx_tensor *out) {
    rlx_fault fault = {0};
    rlx_kernel_args args = {.op = op,
                            .attrs = attrs,
                            .in = in,
                            .out = out,
                            .in_count = in_count,
                            .out_count = 1,
                            .fault = &fault};
    const rlx_kernel *kernel = rlx_ref_kernel(op);
    assert_non_null(kernel);
    kernel->run(&args, 0, kernel->items(&args));
    return fault.code;
}

void elementwise_assert_equal(const rlx_tensor *a, const rlx_tensor *b, const char *what) {
    int64_t count = rlx_tensor_elements(a);
    bool is_float = rlx_dtype_row_of(a->dtype)->class_ == RLX_CLASS_FLOAT;
    assert_int_equal(a->dtype, b->dtype);
    for (int64_t i = 0; i < count; i++) {
        int64_t x = elementwise_index(a, a, i), y = elementwise_index(b, b, i);
        if (is_float) {
            double expected = rlx_load_f64(a->dtype, a->data, x);
            double actual = rlx_load_f64(b->dtype, b->data, y);
            bool is_same = (isnan(expected) && isnan(actual)) ||
                           (expected == actual && signbit(expected) == signbit(actual));
            if (!is_same)
                fail_msg("%s (%s): element %lld: expected %a, got %a", what,
                         rlx_dtype_name(a->dtype), (long long)i, expected, actual);
        } else if (rlx_load_i64(a->dtype, a->data, x) != rlx_load_i64(b->dtype, b->data, y)) {
            fail_msg("%s (%s): element %lld: expected %lld, got %lld", what,
                     rlx_dtype_name(a->dtype), (long long)i,
                     (long long)rlx_load_i64(a->dtype, a->data, x),
                     (long long)rlx_load_i64(b->dtype, b->data, y));
        }
    }
}
