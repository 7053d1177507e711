/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives by the book, one element at a time, from inputs that every rank can compute. */
#include "conformance/transport_suite.h"

#include "ir/dtype.h"

#include <stdlib.h>
#include <string.h>

static const rlx_dtype dtypes_of_double[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_F16,
                                             RLX_DTYPE_BF16};

static bool is_float(rlx_dtype dtype) {
    for (size_t i = 0; i < sizeof dtypes_of_double / sizeof *dtypes_of_double; ++i) {
        if (dtypes_of_double[i] == dtype) return true;
    }
    return false;
}

static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

void transport_fill(void *out, rlx_dtype dtype, uint64_t count, uint32_t rank, uint64_t seed) {
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t bits = mix(seed ^ mix(i + ((uint64_t)rank << 40)));
        if (is_float(dtype)) {
            rlx_store_f64(dtype, out, (int64_t)i, (double)(int64_t)(bits % 2001) / 256.0 - 3.9);
        } else {
            rlx_store_i64(dtype, out, (int64_t)i, (int64_t)bits);
        }
    }
}

static double fold_float(double a, double b, rlx_reduction reduction, rlx_dtype dtype) {
    double folded;
    switch (reduction) {
    case RLX_REDUCTION_PRODUCT:
        folded = a * b;
        break;
    case RLX_REDUCTION_MIN:
        return a <= b || a != a ? a : b;
    case RLX_REDUCTION_MAX:
        return a >= b || a != a ? a : b;
    default:
        folded = a + b;
    }
    return dtype == RLX_DTYPE_F64 ? folded : (double)(float)folded;
}

static int64_t fold_integer(int64_t a, int64_t b, rlx_reduction reduction) {
    switch (reduction) {
    case RLX_REDUCTION_PRODUCT:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case RLX_REDUCTION_MIN:
        return a <= b ? a : b;
    case RLX_REDUCTION_MAX:
        return a >= b ? a : b;
    default:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

/* Element `index` of all inputs, folded in rank order, to out[at]. The product of two f32 is exact
 * in double, so rounding once more to f32 is what f32 arithmetic does. */
static void fold_element(const rlx_collective_request *request, uint8_t *const *inputs,
                         uint32_t rank_count, int64_t index, void *out, int64_t at) {
    rlx_dtype dtype = request->dtype;
    bool is_mean = request->reduction == RLX_REDUCTION_MEAN;
    if (is_float(dtype)) {
        double sum = rlx_load_f64(dtype, inputs[0], index);
        for (uint32_t r = 1; r < rank_count; ++r)
            sum = fold_float(sum, rlx_load_f64(dtype, inputs[r], index), request->reduction, dtype);
        if (is_mean && dtype == RLX_DTYPE_F64) sum = sum / rank_count;
        if (is_mean && dtype != RLX_DTYPE_F64) sum = (double)((float)sum / (float)rank_count);
        rlx_store_f64(dtype, out, at, sum);
    } else {
        int64_t sum = rlx_load_i64(dtype, inputs[0], index);
        for (uint32_t r = 1; r < rank_count; ++r)
            sum = fold_integer(sum, rlx_load_i64(dtype, inputs[r], index), request->reduction);
        if (is_mean) sum = sum / (int64_t)rank_count;
        rlx_store_i64(dtype, out, at, sum);
    }
}

uint64_t transport_input_count(const rlx_collective_request *request, uint32_t rank_count) {
    if (request->kind == RLX_COLLECTIVE_ALL_TO_ALL) return request->count * rank_count;
    return request->count;
}

uint64_t transport_output_count(const rlx_collective_request *request, uint32_t rank,
                                uint32_t rank_count) {
    uint64_t first, count;
    switch (request->kind) {
    case RLX_COLLECTIVE_ALL_GATHER:
    case RLX_COLLECTIVE_ALL_TO_ALL:
        return request->count * rank_count;
    case RLX_COLLECTIVE_REDUCE_SCATTER:
        rlx_collective_part(request->count, rank_count, rank, &first, &count);
        return count;
    default:
        return request->count;
    }
}

static void compute(const rlx_collective_request *request, uint8_t *const *inputs, uint32_t rank,
                    uint32_t rank_count, uint8_t *out) {
    uint64_t bytes = request->count * rlx_dtype_block_bytes(request->dtype), first = 0, count;
    switch (request->kind) {
    case RLX_COLLECTIVE_ALL_GATHER:
    case RLX_COLLECTIVE_ALL_TO_ALL:
        for (uint32_t r = 0; r < rank_count && bytes != 0; ++r) {
            const uint8_t *from = inputs[r];
            if (request->kind == RLX_COLLECTIVE_ALL_TO_ALL) from += rank * bytes;
            memcpy(out + r * bytes, from, bytes);
        }
        return;
    case RLX_COLLECTIVE_BROADCAST:
        if (bytes != 0) memcpy(out, inputs[request->root], bytes);
        return;
    default:
        count = request->count;
        if (request->kind == RLX_COLLECTIVE_REDUCE_SCATTER) {
            rlx_collective_part(request->count, rank_count, rank, &first, &count);
        }
        for (uint64_t i = 0; i < count; ++i)
            fold_element(request, inputs, rank_count, (int64_t)(first + i), out, (int64_t)i);
    }
}

void *transport_expected(const rlx_collective_request *request, uint32_t rank, uint32_t rank_count,
                         uint64_t seed, uint64_t *out_bytes) {
    uint32_t element = rlx_dtype_block_bytes(request->dtype);
    uint64_t in_bytes = transport_input_count(request, rank_count) * element;
    uint8_t *inputs[RLX_RANKS_MOST] = {0}, *room, *out;
    *out_bytes = transport_output_count(request, rank, rank_count) * element;
    room = calloc(in_bytes * rank_count + 1, 1);
    out = calloc(*out_bytes + 1, 1);
    for (uint32_t r = 0; r < rank_count && room != NULL; ++r) {
        inputs[r] = room + r * in_bytes;
        transport_fill(inputs[r], request->dtype, in_bytes / element, r, seed);
    }
    if (room != NULL && out != NULL) compute(request, inputs, rank, rank_count, out);
    free(room);
    return out;
}
