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
    uint32_t flags;        /* for the options */
    bool has_workers;      /* issue returns before the bytes have moved */
    bool helps;            /* a wait without timeout moves bytes from memory itself */
    bool reads_past_cache; /* of files, unless RLX_COPY_BUFFERED */
    uint32_t sequences;    /* of the random check */
    /* Where destinations lie, when that is not host memory: room for `bytes` bytes, freed with the
     * next call with 0 bytes; what lies there; bytes put there. NULL: host memory. */
    void *(*room)(size_t bytes);
    void (*look)(const void *room, void *bytes_there, size_t bytes);
    void (*put)(void *room, const void *source, size_t bytes);
} copy_maker;

/* Room for destinations of an engine, and whether what arrived is what was expected. */
void *copy_room(const copy_maker *maker, size_t bytes);
void copy_room_free(const copy_maker *maker, void *room);
void copy_room_fill(const copy_maker *maker, void *room, uint8_t value, size_t bytes);
bool copy_room_holds(const copy_maker *maker, const void *room, const void *expected, size_t bytes);

/* Runs all checks; returns how many failed. */
int copy_suite_run(const copy_maker *maker);

/* `count` random sequences against a model: an engine is created, copies are issued, waited for and
 * polled, some reads fail or end early, the engine is destroyed with work in flight or without.
 * Returns how many copies were checked. Fails the test on a difference. */
uint64_t copy_suite_random(const copy_maker *maker, uint64_t seed, uint64_t count);

#endif
