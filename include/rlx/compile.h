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

/* One specialisation of the model, with its own steps; weights and state are shared by all. */
typedef struct rlx_entry_spec {
    const char *name; /* NULL: "main" */
    const rlx_binding *bindings;
    uint32_t binding_count;
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
} rlx_compile_options;

/* Passes in the order in which they run; the last ones lower the graph to steps. */
RLX_API uint32_t rlx_pass_count(void);
RLX_API const char *rlx_pass_name(uint32_t index); /* NULL past the end */

RLX_END_DECLS

#endif
