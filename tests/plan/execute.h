/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a verified plan's steps on the scalar kernels, each buffer in a block of its own, so that
 * the address sanitizer sees a step that leaves its buffers. The promise behind it: no plan that
 * passes the verifier can reach outside the arena. */
#ifndef RLX_TESTS_PLAN_EXECUTE_H
#define RLX_TESTS_PLAN_EXECUTE_H

#include "plan/plan.h"

/* Every step once, in order; jumps are not followed. Steps that would take long, and plans of more
 * than a MiB, are left out. Returns how many steps have run. */
uint32_t execute_plan(const rlx_plan *plan, uint64_t seed);

#endif
