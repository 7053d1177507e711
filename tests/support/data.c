/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded numbers, comparison of floats, and memory between guard bytes. */
#include "support/support.h"

#include <math.h>
#include <stdlib.h>

rlx_test_random rlx_test_seed(uint64_t seed) {
    return (rlx_test_random){seed};
}

/* A counter through a mixing function: any seed is as good as any other. */
uint64_t rlx_test_next(rlx_test_random *random) {
    uint64_t x = random->state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t rlx_test_below(rlx_test_random *random, uint64_t limit) {
    return rlx_test_next(random) % limit;
}

float rlx_test_uniform(rlx_test_random *random, float low, float high) {
    float unit = (float)(rlx_test_next(random) >> 40) * 0x1p-24f;
    return low + (high - low) * unit;
}

void rlx_test_fill_f32(rlx_test_random *random, float *out, size_t count, float low, float high) {
    for (size_t i = 0; i < count; ++i)
        out[i] = rlx_test_uniform(random, low, high);
}

/* Sign and magnitude to a line of integers on which neighbours differ by 1. */
static int64_t line_f32(float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & INT32_MAX) : bits;
}

static int64_t line_f64(double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? -(bits & INT64_MAX) : bits;
}

static uint64_t distance(int64_t a, int64_t b) {
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

uint64_t rlx_test_ulp_f32(float a, float b) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? 0 : UINT64_MAX;
    return distance(line_f32(a), line_f32(b));
}

uint64_t rlx_test_ulp_f64(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? 0 : UINT64_MAX;
    return distance(line_f64(a), line_f64(b));
}

/* How far beyond the tolerance: at most 0 is fine. */
static double excess(double expected, double actual, double absolute, double relative) {
    if (isnan(expected) || isnan(actual)) return isnan(expected) && isnan(actual) ? 0 : INFINITY;
    if (expected == actual) return 0;
    if (isinf(expected) || isinf(actual)) return INFINITY;
    return fabs(expected - actual) - (absolute + relative * fabs(expected));
}

void rlx_test_assert_close_f32(const float *expected, const float *actual, size_t count,
                               double absolute, double relative, const char *file, int line) {
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < count; ++i) {
        double e = excess((double)expected[i], (double)actual[i], absolute, relative);
        if (e > worst) worst = e, at = i;
    }
    if (worst <= 0) return;
    print_error("element %zu of %zu: expected %.9g, got %.9g (allowed: %g + %g relative)\n", at,
                count, (double)expected[at], (double)actual[at], absolute, relative);
    _fail(file, line);
}

void rlx_test_assert_ulp_f32(const float *expected, const float *actual, size_t count,
                             uint64_t ulps, const char *file, int line) {
    for (size_t i = 0; i < count; ++i) {
        uint64_t steps = rlx_test_ulp_f32(expected[i], actual[i]);
        if (steps <= ulps) continue;
        print_error("element %zu of %zu: expected %.9g, got %.9g: %" PRIu64 " ulp > %" PRIu64 "\n",
                    i, count, (double)expected[i], (double)actual[i], steps, ulps);
        _fail(file, line);
    }
}

enum { GUARD_BYTES = 64, GUARD = 0x5a, FRESH = 0xcd };

/* Layout: [size, padded to GUARD_BYTES][guards][memory][guards]. */
void *rlx_test_guarded(size_t bytes) {
    size_t total = bytes + 3 * GUARD_BYTES;
    unsigned char *start = aligned_alloc(GUARD_BYTES, (total + GUARD_BYTES - 1) & ~(size_t)63);
    if (start == NULL) abort();
    memcpy(start, &bytes, sizeof bytes);
    memset(start + GUARD_BYTES, GUARD, GUARD_BYTES);
    memset(start + 2 * GUARD_BYTES, FRESH, bytes);
    memset(start + 2 * GUARD_BYTES + bytes, GUARD, GUARD_BYTES);
    return start + 2 * GUARD_BYTES;
}

bool rlx_test_guards_intact(const void *memory) {
    const unsigned char *data = memory, *before = data - GUARD_BYTES;
    size_t bytes;
    memcpy(&bytes, before - GUARD_BYTES, sizeof bytes);
    for (size_t i = 0; i < GUARD_BYTES; ++i) {
        if (before[i] != GUARD || data[bytes + i] != GUARD) return false;
    }
    return true;
}

void rlx_test_guarded_release(void *memory, const char *file, int line) {
    bool intact;
    if (memory == NULL) return;
    intact = rlx_test_guards_intact(memory);
    free((unsigned char *)memory - 2 * GUARD_BYTES);
    if (intact) return;
    print_error("guard bytes around a buffer were overwritten\n");
    _fail(file, line);
}
