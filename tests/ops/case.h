/* SPDX-License-Identifier: Apache-2.0 */
/* Op cases: a folder with a model and what it must give.
 *
 * - model.rlx
 * - in_0.npy, out_0.npy, ..: inputs and outputs by number, in the order of the model. Of a second
 *   run in_0.1.npy, out_0.1.npy, and so on: states keep what they hold.
 * - data.rlx: the same as constants of those names ("in_0", "out_0.1").
 * - tolerance: "relative absolute", instead of those of the dtype.
 * - error: a part of the message with which building or running must fail. */
#ifndef RLX_TESTS_OPS_CASE_H
#define RLX_TESTS_OPS_CASE_H

#include "support/oracle.h"

enum { RLX_CASE_MAX_ARRAYS = 32 };

typedef struct rlx_case {
    char folder[512];
    rlx_graph *model;
    rlx_graph *data; /* NULL: .npy files */
    char error[256]; /* "": it must work */
    double relative, absolute;
    bool has_tolerance;
} rlx_case;

RLX_WARN_UNUSED rlx_status rlx_case_open(const char *folder, rlx_case *out_case);
void rlx_case_close(rlx_case *self);

/* The inputs or outputs of run `run`, as many as there are; RLX_NOT_FOUND when there is no such
 * run. `types` (one per array) tell what a file of raw bytes means: the dtype of bf16 and f8, the
 * shape too of packed types. */
RLX_WARN_UNUSED rlx_status rlx_case_arrays(const rlx_case *self, bool is_input, uint32_t run,
                                           const rlx_type *types, uint32_t count,
                                           rlx_test_array *out_arrays);
void rlx_case_free_arrays(rlx_test_array *arrays, uint32_t count);

/* RLX_DIFFERS with the first element that is outside the tolerance. Integers and bool are exact,
 * NaN equals NaN. */
RLX_WARN_UNUSED rlx_status rlx_case_compare(const rlx_case *self, const rlx_test_array *expected,
                                            const rlx_test_array *actual);

#endif
