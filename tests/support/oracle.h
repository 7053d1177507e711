/* SPDX-License-Identifier: Apache-2.0 */
/* An evaluator of graphs for tests: types the values, then runs the scalar kernel of each node in
 * order, every value in memory of its own. No planner, no fusion, no aliasing, so that it can say
 * what a compiled program should give. */
#ifndef RLX_TESTS_ORACLE_H
#define RLX_TESTS_ORACLE_H

#include "ir/graph.h"
#include "ref/kernel.h"

/* A plain row-major array. `data` is owned: rlx_test_array_free. */
typedef struct rlx_test_array {
    rlx_dtype dtype;
    rlx_shape shape;
    uint64_t bytes;
    void *data;
} rlx_test_array;

void rlx_test_array_free(rlx_test_array *array); /* zeroed is fine */

typedef struct rlx_test_oracle rlx_test_oracle;

/* Copies the graph. The shapes of `inputs` (one per input value, in the order of their ids) bind
 * its symbols; parameters are read, states are zero. */
RLX_WARN_UNUSED rlx_status rlx_test_oracle_create(const rlx_graph *graph,
                                                  const rlx_test_array *inputs,
                                                  uint32_t input_count,
                                                  rlx_test_oracle **out_oracle);
void rlx_test_oracle_destroy(rlx_test_oracle *oracle);

/* Called instead of the scalar kernel of each node that has one; it must leave in args->out what
 * the scalar kernel would (rlx_test_run_kernel does). `planned` are the same operands with every
 * dim at its bound: what a compile sees. */
typedef rlx_status (*rlx_test_runner)(void *user, rlx_kernel_args *args,
                                      const rlx_kernel_args *planned);
void rlx_test_oracle_watch(rlx_test_oracle *oracle, rlx_test_runner runner, void *user);
/* Runs all items of a kernel with workspace and a fault record of its own; RLX_FAULT says what. */
RLX_WARN_UNUSED rlx_status rlx_test_run_kernel(const rlx_kernel *kernel, rlx_kernel_args *args);

/* One run; states keep what it wrote. `outputs` receives one array per output of the graph, with
 * the true sizes of this run. RLX_FAULT names the node. */
RLX_WARN_UNUSED rlx_status rlx_test_oracle_run(rlx_test_oracle *oracle,
                                               const rlx_test_array *inputs, uint32_t input_count,
                                               rlx_test_array *outputs);

/* What a value held after the last run. */
RLX_WARN_UNUSED rlx_status rlx_test_oracle_read(const rlx_test_oracle *oracle, const char *name,
                                                rlx_test_array *out_array);

#endif
