/* SPDX-License-Identifier: Apache-2.0 */
/* One graph with every choice of sizes that only a run knows. */
#ifndef RLX_TESTS_KERNELS_EXTENTS_H
#define RLX_TESTS_KERNELS_EXTENTS_H

#include "support/oracle.h"

enum { EXTENTS_GROUPS = 6, EXTENTS_RUNS = 27 };

/* A graph and the sizes of its runs: in run r the extents that were added are sizes[r]; they are
 * its last inputs. Without extents there is one run. */
typedef struct extents_graph {
    const rlx_graph *graph;
    const rlx_test_array *inputs; /* without the sizes */
    uint32_t input_count, size_count, run_count;
    int64_t sizes[EXTENTS_RUNS][EXTENTS_GROUPS];
} extents_graph;

typedef struct extents_visitor {
    void (*visit)(void *user, const extents_graph *made);
    void *user;
} extents_visitor;

/* `inputs` have the sizes of the graph, which become bounds. */
void extents_for_each(const extents_visitor *visitor, const rlx_graph *graph,
                      const rlx_test_array *inputs, uint32_t input_count);

/* The inputs of a run, sizes included: they point into `made`. free() alone releases them. */
rlx_test_array *extents_inputs(const extents_graph *made, uint32_t run);

#endif
