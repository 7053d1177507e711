/* SPDX-License-Identifier: Apache-2.0 */
/* Probes in plain C with vector types, for any processor; NEON's fused form where it is there. */
#include "probe.h"

#include <stdatomic.h>

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef float vec4 __attribute__((vector_size(16)));
typedef uint64_t words __attribute__((vector_size(32)));

/* The empty statements keep the compiler from adding up what it could foresee. An exclusive or of
 * two registers takes one cycle everywhere; additions of small constants do not. */
double probe_chain(uint64_t steps) {
    uint64_t value = steps, other = 0x9E3779B97F4A7C15u;
#define STEP        \
    value ^= other; \
    __asm__ volatile("" : "+r"(value));
    for (uint64_t i = 0; i < steps; i += 8) {
        STEP STEP STEP STEP STEP STEP STEP STEP
    }
#undef STEP
    return (double)((steps + 7) / 8 * 8);
}

double probe_amount(double (*loop)(uint64_t rounds), double amount) {
    enum { ROUNDS = 300000 };
    double done = loop(ROUNDS);
    while (done < amount)
        done += loop(ROUNDS);
    return done;
}

static vec4 multiply_add(vec4 sum, vec4 x, vec4 y) {
#if defined(__aarch64__)
    return (vec4)vfmaq_f32((float32x4_t)y, (float32x4_t)sum, (float32x4_t)x);
#else
    return sum * x + y;
#endif
}

static double plain_multiply_add(uint64_t rounds) {
    vec4 sums[12];
    vec4 x = {0.999F, 0.999F, 0.999F, 0.999F}, y = {1e-6F, 1e-6F, 1e-6F, 1e-6F};
    volatile float sink;
    for (int j = 0; j < 12; j++) /* different, or the compiler would keep only one */
        sums[j] = (vec4){(float)j, (float)j, (float)j, (float)j};
    for (uint64_t i = 0; i < rounds; i++) {
        for (int j = 0; j < 12; j++)
            sums[j] = multiply_add(sums[j], x, y);
    }
    for (int j = 1; j < 12; j++)
        sums[0] += sums[j];
    sink = sums[0][0];
    (void)sink;
    return (double)rounds * 12 * 4 * 2;
}

static uint64_t plain_read(const void *from, size_t bytes) {
    const words *at = from;
    words all[4] = {{0}};
    for (size_t i = 0; i < bytes / sizeof *at; i += 4) {
        for (int j = 0; j < 4; j++)
            all[j] ^= at[i + (size_t)j];
    }
    all[0] ^= all[1] ^ all[2] ^ all[3];
    return all[0][0] ^ all[0][1] ^ all[0][2] ^ all[0][3];
}

static const probe_kernels plain = {"plain", 4,    0,          plain_multiply_add,
                                    NULL,    NULL, plain_read, NULL};

/* Asked once: in a virtual machine the question takes 10 us, and callers have a clock running. */
const probe_kernels *probe_best(void) {
    static const probe_kernels *_Atomic found;
    const probe_kernels *best = found;
    if (best == NULL) {
        best = probe_x86();
        if (best == NULL) best = &plain;
        found = best;
    }
    return best;
}
