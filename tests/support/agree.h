/* SPDX-License-Identifier: Apache-2.0 */
/* Two graphs that should mean the same, on the same numbers: before and after a pass. */
#ifndef RLX_TESTS_AGREE_H
#define RLX_TESTS_AGREE_H

#include "support/oracle.h"

/* Data for an array whose dtype and shape are set, from the seed: floats in [-2, 2), integers 0 to
 * 4, bool. */
void rlx_test_fill(rlx_test_array *array, uint64_t seed);

/* Some elements of floats become infinite, no number, subnormal or -0. */
void rlx_test_make_special(rlx_test_array *array, uint64_t seed);
/* All floats become subnormal numbers. */
void rlx_test_make_tiny(rlx_test_array *arrays, uint32_t count);

/* One filled array per input of a bound graph. The list is released with rlx_test_inputs_free. */
rlx_test_array *rlx_test_inputs(const rlx_graph *graph, uint64_t seed, uint32_t *out_count);
void rlx_test_inputs_free(rlx_test_array *inputs, uint32_t count);

/* Runs both on the same inputs. The largest |a - b| / (1 + |a|) over all outputs; infinity when a
 * size or the fault differs, or only one is NaN. *out_index: the output that differs most. */
double rlx_test_difference(const rlx_graph *a, const rlx_graph *b, uint64_t seed,
                           uint32_t *out_index);

#endif
