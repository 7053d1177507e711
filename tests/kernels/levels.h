/* SPDX-License-Identifier: Apache-2.0 */
/* The levels that this machine can run, `wide` (see backend/cpu/vec/vec.h) included. */
#ifndef RLX_TESTS_KERNELS_LEVELS_H
#define RLX_TESTS_KERNELS_LEVELS_H

#include "backend/cpu/table.h"

enum { KERNEL_LEVELS = 8 };
/* Fills `out` and returns how many there are; scalar is not among them. */
uint32_t kernel_levels(const rlx_cpu_level *out[KERNEL_LEVELS]);

#endif
