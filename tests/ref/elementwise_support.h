/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors with odd strides for the elementwise tests, and a plain loop over their elements. */
#ifndef RLX_TESTS_REF_ELEMENTWISE_SUPPORT_H
#define RLX_TESTS_REF_ELEMENTWISE_SUPPORT_H

#include "support/support.h"

#include "ir/dtype.h"
#include "ref/kernel.h"

/* Row-major, with guard bytes, zeroed. */
rlx_tensor elementwise_plain(rlx_dtype dtype, uint32_t rank, const int64_t *dims);
/* The dims of `like` in a shuffled memory order with gaps; strides in elements. */
rlx_tensor elementwise_odd(rlx_test_random *random, rlx_dtype dtype, uint32_t rank,
                           const int64_t *dims);
void elementwise_free(rlx_tensor *tensor);
/* Small values that suit the dtype: integers of both signs, floats with fractions, few zeros. */
void elementwise_fill(rlx_test_random *random, rlx_tensor *tensor);

/* Memory index of the element with flat output index `index`, broadcast by dims of 1. */
int64_t elementwise_index(const rlx_tensor *tensor, const rlx_tensor *out, int64_t index);

/* Runs the kernel over all its items; returns the fault code. */
uint32_t elementwise_run(rlx_op op, const void *attrs, const rlx_tensor *in, uint32_t in_count,
                         const rlx_tensor *out);

/* Every element of a equals that of b as a number or as NaN, by flat index. */
void elementwise_assert_equal(const rlx_tensor *a, const rlx_tensor *b, const char *what);

#endif
