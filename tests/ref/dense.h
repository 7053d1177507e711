/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a scalar kernel on operands given as numbers, in every way that must not matter: plain and
 * strided memory, all items at once and in pieces, with guard bytes around everything. The tests
 * then compare the result with a naive computation of their own. */
#ifndef RLX_TESTS_REF_DENSE_H
#define RLX_TESTS_REF_DENSE_H

#include "ir/infer.h"
#include "ref/kernel.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>

/* Values in row-major order; what the dtype cannot hold was rounded. dtype COUNT: absent. */
typedef struct operand {
    rlx_dtype dtype;
    uint32_t rank;
    int64_t dims[RLX_MAX_RANK];
    int64_t count;
    double *values;
} operand;

/* Random values in [low, high), integers for integer dtypes. */
operand operand_random(rlx_test_random *random, rlx_dtype dtype, uint32_t rank, const int64_t *dims,
                       double low, double high);
operand operand_of(rlx_dtype dtype, uint32_t rank, const int64_t *dims, const double *values);
operand operand_absent(void);
void operand_free(operand *item);
void operands_free(operand *items, uint32_t count);

/* Makes a node, asks the shape rule for the outputs and runs the kernel in all ways; the results
 * of all ways have the same bits. Results are owned. */
void run_dense(rlx_op op, const void *attrs, const operand *inputs, uint32_t input_count,
               operand *results, uint32_t result_count);

/* Same, but an output without interest (wanted[i] false) has no memory. */
void run_dense_wanted(rlx_op op, const void *attrs, const operand *inputs, uint32_t input_count,
                      operand *results, uint32_t result_count, const bool *wanted);

/* |expected - actual| <= absolute + relative |expected|; NaN matches NaN. */
void assert_near(const double *expected, const operand *actual, double absolute, double relative);
void assert_dims(const operand *actual, uint32_t rank, const int64_t *dims);

/* How near results of a dtype must be: about one rounding. */
double tolerance_of(rlx_dtype dtype);

/* Types a node in a fresh graph: the status of the rule, and the type of its first output. */
rlx_status infer_dense(rlx_op op, const void *attrs, const operand *inputs, uint32_t input_count,
                       uint32_t output_count, rlx_type *out_types);

#endif
