/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled model held against a limit of the machine that is measured beside it: the two
 * alternate, at least 9 trials; best against best, and the median of the pairs. What the topics of
 * arithmetic have in common. */
#ifndef RLX_BENCH_AGAINST_H
#define RLX_BENCH_AGAINST_H

#include "bench.h"
#include "probe.h"
#include "ready.h"

/* What a pass over memory reads: more than a core's own caches hold many times, and mostly more
 * than all; where a last cache is larger, a virtual machine has a part of it. */
#define AGAINST_READ_BYTES ((size_t)256 << 20)

typedef struct against {
    rlx_bench_report report;
    const probe_kernels *kernels;
    uint8_t *memory; /* AGAINST_READ_BYTES of it; owned */
    double amount;   /* of what is measured now: limits of arithmetic do as much */
} against;

/* Says how busy the machine is and prints the head. False with a message; end it in any case. */
bool against_begin(against *self, FILE *out, bool json);
/* The exit code of the topic. */
int against_end(against *self, bool is_done);

/* Limits, for `rlx_bench_rates` with an `against` as user: multiply-adds of f32 and of bytes in
 * registers, reading from memory. */
double against_multiply_add(void *user, uint32_t thread, uint32_t threads);
double against_multiply_bytes(void *user, uint32_t thread, uint32_t threads);
double against_read(void *user, uint32_t thread, uint32_t threads);

/* What is measured: a model, how much it does, and what limits it. */
typedef struct subject {
    const char *name;
    uint32_t threads;
    double amount; /* operations or bytes of one run */
    rlx_bench_work limit;
    const char *unit;
    double bar; /* 0: none */
} subject;

/* How often a run of so many operations is repeated in a trial: short ones drown in the clock. */
uint32_t against_repeats(double amount);
/* The least time of so many runs in ns; negative with a message. */
double against_best_run(ready *model, uint32_t runs);
/* Prints two rows: best against best, and the median of the pairs. */
bool against_measure(against *self, const subject *what, ready *model);

#endif
