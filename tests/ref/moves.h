/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of movement kernels share: tensors with random layouts between guard bytes, access
 * to single elements by their coordinates, and the run of a kernel against an expectation, whole
 * and in pieces. Shares no code with the kernels. */
#ifndef RLX_TESTS_REF_MOVES_H
#define RLX_TESTS_REF_MOVES_H

#include "support/support.h"

#include "ref/kernel.h"

#include <rlx/graph.h>

/* A tensor in memory of its own. An output has a second copy of the memory: `expected`, into which
 * the test writes what it expects; gaps keep the bytes that were there at the start. */
typedef struct case_tensor {
    rlx_tensor tensor, expected;
    uint8_t *memory;       /* guarded, owned */
    uint8_t *want, *start; /* owned, outputs only */
    size_t bytes;
} case_tensor;

typedef struct place {
    int64_t at[RLX_MAX_RANK];
} place;

/* Dtypes of every element size, 4-bit ones included. */
extern const rlx_dtype case_dtypes[];
extern const unsigned case_dtype_count;

/* `is_odd` allows permuted strides and gaps, and of inputs also strides that are 0 or negative. The
 * elements are random bits. */
void case_input(case_tensor *self, rlx_test_random *random, rlx_dtype dtype, uint32_t rank,
                const int64_t *dims, bool is_odd);
void case_output(case_tensor *self, rlx_test_random *random, rlx_dtype dtype, uint32_t rank,
                 const int64_t *dims, bool is_odd);
void case_free(case_tensor *self);

/* The bits of one element. */
uint64_t case_get(const rlx_tensor *tensor, const place *at);
void case_set(rlx_tensor *tensor, const place *at, uint64_t bits);
/* As a number, for index and float tensors. */
void case_set_number(rlx_tensor *tensor, const place *at, double number);
double case_number(const rlx_tensor *tensor, const place *at);

/* Walks all coordinates in row-major order:
 *     place p = {0};
 *     for (bool more = !case_is_empty(rank, dims); more; more = case_next(rank, dims, &p)) */
bool case_is_empty(uint32_t rank, const int64_t *dims);
bool case_next(uint32_t rank, const int64_t *dims, place *at);

/* Random dims: most are small, some are 1, a few are 0. */
void case_dims(rlx_test_random *random, uint32_t rank, int64_t *out_dims);

/* Runs the op's kernel over all items and compares whole memories with the expectations; then again
 * in random pieces in random order. Returns the fault record of the first run. */
rlx_fault case_run(rlx_test_random *random, rlx_op op, const void *attrs, const case_tensor *inputs,
                   uint32_t input_count, case_tensor *outputs, uint32_t output_count);

/* The shape rule gives the dtypes and dims of these outputs. */
void case_check_rule(rlx_op op, const void *attrs, const case_tensor *inputs, uint32_t input_count,
                     const case_tensor *outputs, uint32_t output_count);

/* Draws of the random tests: a number from low to high, a dtype, heads or tails. */
static inline int64_t pick(rlx_test_random *random, int64_t low, int64_t high) {
    return low + (int64_t)rlx_test_below(random, (uint64_t)(high - low + 1));
}

static inline rlx_dtype any_dtype(rlx_test_random *random) {
    return case_dtypes[rlx_test_below(random, case_dtype_count)];
}

static inline bool coin(rlx_test_random *random) {
    return rlx_test_below(random, 2) == 0;
}

#endif
