/* SPDX-License-Identifier: Apache-2.0 */
/* Two graphs that should mean the same, on the same numbers: before and after a pass. */
#ifndef RLX_TESTS_AGREE_H
#define RLX_TESTS_AGREE_H

#include "support/interpret.h"

/* Fills every input from the seed and its name: floats in [-2, 2), integers in 0 .. 4, bool. */
void rlx_test_fill_inputs(rlx_test_interpreter *self, uint64_t seed);

/* Runs both on inputs of the same names. The largest |a - b| / (1 + |a|) over all outputs; infinity
 * when a size or the fault differs, or only one is NaN. *out_index: the output that differs most.
 */
double rlx_test_difference(rlx_graph *a, rlx_graph *b, uint64_t seed, uint32_t *out_index);

#endif
