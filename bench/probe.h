/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops that find a machine's limits, for the best instruction set it has. */
#ifndef RLX_BENCH_PROBE_H
#define RLX_BENCH_PROBE_H

#include <stddef.h>
#include <stdint.h>

typedef struct probe_kernels {
    const char *isa;
    uint32_t lanes; /* f32 numbers in a register */
    /* Units that can start a multiply-add each cycle on the cores that have this instruction set;
     * 0: that differs too much to tell. */
    uint32_t pipes;
    /* Independent multiply-adds in registers. Returns how many f32 operations were done. */
    double (*multiply_add)(uint64_t rounds);
    /* The same of 8-bit integers into 32-bit sums, exact, by the best instructions that this
     * processor has for it, which `bytes_by` names. NULL: not known. */
    const char *bytes_by;
    double (*multiply_bytes)(uint64_t rounds);
    /* Reads all bytes once (a multiple of 512, aligned to 64). The result hangs on every one. */
    uint64_t (*read)(const void *from, size_t bytes);
    /* Copies with stores that pass the caches by, same sizes; NULL: there are none. */
    void (*stream)(void *to, const void *from, size_t bytes);
} probe_kernels;

/* The best for this processor, asked at run time. */
const probe_kernels *probe_best(void);

/* For processors of a kind; NULL when this one is not of it. */
const probe_kernels *probe_x86(void);

/* Rounds of a loop until about `amount` operations are done, and so many at least that clocks do
 * not matter. A limit does as much as what is held against it: beside others who take a core now
 * and then, the best of short looks is what nothing long can reach. Returns how many were done. */
double probe_amount(double (*loop)(uint64_t rounds), double amount);

/* Steps that hang on each other and take one cycle each. Returns how many were done. */
double probe_chain(uint64_t steps);

#endif
