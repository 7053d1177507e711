/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a bound graph node by node with the scalar kernels, every value in memory of its own: what a
 * graph means, without passes, plans or arenas. Parameters come from their sources, inputs from a
 * seed and their names, states start as zeros. Knows no loops. */
#ifndef RLX_TESTS_EVAL_H
#define RLX_TESTS_EVAL_H

#include "ir/graph.h"
#include "support/support.h"

typedef struct rlx_test_eval {
    const rlx_graph *graph; /* borrowed */
    void **data;            /* per value; NULL: not computed */
    uint32_t fault;         /* rlx_fault_code */
} rlx_test_eval;

/* False when the graph has a loop. Fails the test when it is not bound. */
bool rlx_test_eval_can_run(const rlx_graph *graph);
void rlx_test_eval_run(const rlx_graph *graph, uint64_t seed, rlx_test_eval *out_eval);
void rlx_test_eval_free(rlx_test_eval *eval);

/* The largest difference between the outputs of two runs, |a - b| / (1 + |a|); infinity when sizes
 * or faults differ, or only one is NaN. *out_index: of the output that differs most. */
double rlx_test_eval_difference(const rlx_test_eval *a, const rlx_test_eval *b,
                                uint32_t *out_index);

#endif
