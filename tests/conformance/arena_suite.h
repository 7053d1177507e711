/* SPDX-License-Identifier: Apache-2.0 */
/* What every arena must do (DESIGN §5). A device's test program calls arena_suite_run with a way to
 * make its arenas; the checks are the same for all. */
#ifndef RLX_TESTS_ARENA_SUITE_H
#define RLX_TESTS_ARENA_SUITE_H

#include "driver/arena.h"

typedef struct arena_maker {
    const char *name;
    /* Makes an arena on the device under test. */
    rlx_status (*create)(void *user, const rlx_arena_request *request, rlx_arena **out_arena);
    void *user;
} arena_maker;

/* Runs all checks; returns how many failed. */
int arena_suite_run(const arena_maker *maker);

#endif
