/* SPDX-License-Identifier: Apache-2.0 */
/* One graph with every choice of sizes that only a run knows. */
#ifndef RLX_TESTS_KERNELS_EXTENTS_H
#define RLX_TESTS_KERNELS_EXTENTS_H

#include "support/oracle.h"

/* `sizes` are those of the extents that were added, which are the last inputs. */
typedef struct extents_visitor {
    void (*visit)(void *user, const rlx_graph *graph, const rlx_test_array *inputs,
                  uint32_t input_count, const int64_t *sizes, uint32_t size_count);
    void *user;
} extents_visitor;

/* `inputs` have the sizes of the graph, which become bounds. */
void extents_for_each(const extents_visitor *visitor, const rlx_graph *graph,
                      const rlx_test_array *inputs, uint32_t input_count);

#endif
