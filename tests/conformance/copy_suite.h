/* SPDX-License-Identifier: Apache-2.0 */
/* What every copy engine must do (DESIGN §6). An engine's test program calls copy_suite_run with a
 * way to make it; the checks are the same for all. */
#ifndef RLX_TESTS_COPY_SUITE_H
#define RLX_TESTS_COPY_SUITE_H

#include "driver/copy.h"

typedef struct copy_maker {
    const char *name;
    rlx_status (*create)(const rlx_allocator *allocator, const rlx_copy_options *options,
                         rlx_copy_engine **out_engine);
    uint32_t flags;   /* for the options */
    bool has_workers; /* issue returns before the bytes have moved */
    bool helps;       /* a wait without timeout moves bytes from memory itself */
} copy_maker;

/* Runs all checks; returns how many failed. */
int copy_suite_run(const copy_maker *maker);

/* `count` random sequences against a model: an engine is created, copies are issued, waited for and
 * polled, some reads fail or end early, the engine is destroyed with work in flight or without.
 * Returns how many copies were checked. Fails the test on a difference. */
uint64_t copy_suite_random(const copy_maker *maker, uint64_t seed, uint64_t count);

#endif
