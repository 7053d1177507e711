/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks for tests: as threads over `local`, or as processes over `shm`. */
#ifndef RLX_TESTS_RANKS_H
#define RLX_TESTS_RANKS_H

#include "conformance/transport_suite.h"

typedef void (*rank_body)(transport_view *view);

/* Runs `body` on `count` ranks with heaps of `heap_bytes`; fails the test with what a rank saw. */
void run_local(rank_body body, uint32_t count, uint64_t heap_bytes);
void run_shm(rank_body body, uint32_t count, uint64_t heap_bytes);

#endif
