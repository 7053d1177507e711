/* SPDX-License-Identifier: Apache-2.0 */
/* Counts allocations of every kind on every thread: a program that lists counted_memory.c among its
 * files has the malloc family, mmap and brk replaced. Not for builds with sanitizers, which replace
 * them too. */
#ifndef RLX_TESTS_COUNTED_MEMORY_H
#define RLX_TESTS_COUNTED_MEMORY_H

#include <stdint.h>

/* Calls so far, releases included. */
uint64_t counted_calls(void);

/* A number that changes when the process maps or unmaps anything by any way, libc's own calls
 * included. Stacks that grow do not count. Allocates nothing itself. */
uint64_t counted_maps(void);

#endif
