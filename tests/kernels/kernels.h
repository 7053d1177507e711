/* SPDX-License-Identifier: Apache-2.0 */
/* Compares every instruction-set level with scalar C, kernel by kernel. A graph is evaluated by the
 * oracle; at each node every level that has a kernel for it runs it too, on copies: plain, with
 * strides, over an operand where the op allows that; items in pieces and out of order, guard bytes
 * around everything written, and in the holes that strides and small sizes leave. A kernel is
 * chosen and gets its workspace at the bounds of its operands, as a compile would have it. */
#ifndef RLX_TESTS_KERNELS_H
#define RLX_TESTS_KERNELS_H

#include "backend/cpu/table.h"
#include "support/oracle.h"

/* Inputs of floats: numbers in [-2, 2); some of them infinite, no number, subnormal or -0; all of
 * them subnormal, where results are compared without the 1 in the tolerance. */
typedef enum kernel_values { VALUES_PLAIN, VALUES_SPECIAL, VALUES_TINY } kernel_values;

typedef struct kernel_checker {
    const char *where; /* for messages: family and case */
    double tolerance;  /* |a - b| <= tolerance * (1 + |b|); of 16-bit results at least one step */
    uint64_t seed;     /* of the splits */
    uint32_t compared; /* kernel runs that were compared */
    uint32_t failed;
    kernel_values values; /* what inputs of floats are filled with */
    bool is_timed;        /* print what each kernel takes instead */
    /* Not 0: every so manieth graph, with sizes that only a run knows (extents.h). */
    uint32_t extents_step;
    uint32_t graphs, extents_runs; /* seen, and run with extents */
} kernel_checker;

/* A runner for rlx_test_oracle_watch; `user` is a kernel_checker. Prints what differs. */
rlx_status kernel_check(void *user, rlx_kernel_args *args, const rlx_kernel_args *planned);

/* A family of cases: graphs in text form from a seed. */
typedef struct kernel_family {
    const char *name;
    double tolerance;
    uint32_t count;                                            /* cases in `make test` */
    void (*write)(uint32_t index, char *text, uint32_t bytes); /* case `index` as graph text */
    const char *const *timed;                                  /* graphs for --bench; NULL ends */
} kernel_family;

/* A number in [low, high] from (index, what): the same for the same arguments. */
int64_t kernel_pick(uint32_t index, uint32_t what, int64_t low, int64_t high);

#endif
