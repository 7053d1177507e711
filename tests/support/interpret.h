/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a graph with the scalar kernels, node by node, every value in plain memory of its own: no
 * compiler, no plan, no runtime. What the truth is checked with, and what compiled programs can be
 * compared with. */
#ifndef RLX_TESTS_INTERPRET_H
#define RLX_TESTS_INTERPRET_H

#include "ir/graph.h"
#include "ref/kernel.h"

typedef struct rlx_test_interpreter {
    rlx_graph *graph; /* borrowed; every dim is known */
    void **data;      /* owned, per value: its memory, once it has any */
    bool *is_alias;   /* per value: the memory is another value's (a written state) */
    uint32_t value_count;
    rlx_fault fault; /* of the last run */
} rlx_test_interpreter;

/* Infers the graph, and gives states (zeros), constants and parameters their memory. Every failure
 * of the interpreter itself fails the test. */
void rlx_test_interpreter_init(rlx_test_interpreter *self, rlx_graph *graph);
void rlx_test_interpreter_free(rlx_test_interpreter *self);

/* Memory of a value, of at least its planned bytes, zero at first; to fill inputs with. */
void *rlx_test_interpreter_data(rlx_test_interpreter *self, rlx_value_id value);

/* Runs all nodes once. Stops after a node that raised a fault. */
rlx_fault_code rlx_test_interpret(rlx_test_interpreter *self);

/* The value as the last run left it: true dims, planned strides. */
rlx_tensor rlx_test_interpreter_tensor(const rlx_test_interpreter *self, rlx_value_id value);

#endif
