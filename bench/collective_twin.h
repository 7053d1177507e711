/* SPDX-License-Identifier: Apache-2.0 */
/* The twin of `rlx bench collective`: two ranks of an MPI in processes of their own. */
#ifndef RLX_BENCH_COLLECTIVE_TWIN_H
#define RLX_BENCH_COLLECTIVE_TWIN_H

#include "bench.h"

#include <sys/types.h>

typedef struct bench_twin {
    FILE *to, *from; /* NULL: not running */
    pid_t process;
} bench_twin;

/* Starts rlx-bench-KIND under its mpirun with `mode`; false where it is not installed.
 * `is_loopback` keeps the MPI from everything but TCP. */
bool bench_twin_start(bench_twin *self, const char *kind, const char *mode, bool is_loopback);
/* The time of one trial of that size in ns; negative: it has died. */
double bench_twin_ask(bench_twin *self, uint64_t bytes);
void bench_twin_stop(bench_twin *self);

#endif
