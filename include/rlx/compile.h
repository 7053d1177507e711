/* SPDX-License-Identifier: Apache-2.0 */
/* How a model is compiled: which sizes, which passes, how hard to search. */
#ifndef RLX_COMPILE_H
#define RLX_COMPILE_H

#include <rlx/plan.h>

RLX_BEGIN_DECLS

/* One symbolic size ("S", 128). */
typedef struct rlx_binding {
    const char *symbol;
    int64_t value;
} rlx_binding;

/* A value that is offered for a model input while compiling. Its shape binds symbolic sizes. Its
 * data becomes a constant only where the input decides shapes (the shape input of an ONNX Reshape);
 * such an input is then no input of the program any more. All others stay inputs. `data` may be
 * NULL: then only the shape is offered. Of an ONNX input that is a sequence, "name.length" (an i64)
 * offers its length and "name.0", "name.1".. its elements; of an optional, "name.empty" says that
 * nothing is there. */
typedef struct rlx_given_value {
    const char *name;
    rlx_dtype dtype;
    rlx_shape shape;
    const void *data;
    uint64_t bytes;
} rlx_given_value;

/* One specialisation of the model, with its own steps; weights and state are shared by all. */
typedef struct rlx_entry_spec {
    const char *name; /* NULL: "main" */
    const rlx_binding *bindings;
    uint32_t binding_count;
    const rlx_given_value *given;
    uint32_t given_count;
    /* Of an ONNX model: sizes that grow from run to run, and the most rows that they can have.
     * Inputs of such a size that the model gives back with more rows (keys and values of a decoder)
     * become states, which are neither set nor read: each run appends to them. docs/onnx.md. */
    const rlx_binding *growing;
    uint32_t growing_count;
} rlx_entry_spec;

/* Zeroed but for `size`, it compiles one entry "main" without bindings and with every pass on.
 * Borrowed for the call. */
typedef struct rlx_compile_options {
    size_t size; /* sizeof(rlx_compile_options) */
    const rlx_entry_spec *entries;
    uint32_t entry_count;     /* 0: one entry "main" */
    uint64_t disabled_passes; /* bit i: pass i (rlx_pass_name) is left out */
    bool without_reuse;       /* every scratch buffer has memory of its own: to find planner bugs */
    bool keep_inputs;   /* inputs survive a run (plans of one entry) and need not be set again */
    uint64_t search_ns; /* time limit of the exact placement search; 0: greedy orders only */
    /* One model on several ranks: the plan of rank `rank` of `rank_count` (0 and 1: alone; at most
     * RLX_RANKS_MOST of rlx/transport.h). Steps, state and scratch are the same on every rank; the
     * weights are its own part (docs/collectives.md). */
    uint32_t rank, rank_count;
} rlx_compile_options;

/* Passes in the order in which they run; the last ones lower the graph to steps. */
RLX_API uint32_t rlx_pass_count(void);
RLX_API const char *rlx_pass_name(uint32_t index); /* NULL past the end */

RLX_END_DECLS

#endif
