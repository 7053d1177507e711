/* SPDX-License-Identifier: Apache-2.0 */
/* Hand-made plans that the runtime tests share, and short ways to run them. */
#ifndef RLX_TESTS_RUNTIME_PLANS_H
#define RLX_TESTS_RUNTIME_PLANS_H

#include "runtime/exec.h"
#include "support/hand_plan.h"
#include "support/support.h"

/* y = relu(x w) over [2][2]; w = transpose of a constant, by a prepare step. Slots by name: x, w,
 * h, y. h dies with the relu, and x with the matmul. */
rlx_plan *plan_mlp(void);
/* Doubles x (f32 [4]) n times (i64): a loop with a guard of at most 10 iterations. */
rlx_plan *plan_loop(void);
/* y (f32 [8], extent n) = relu(x [8]); n is an input. */
rlx_plan *plan_extent(void);
/* Places (i64 [2][n of 6]) of the elements of x (f32 [2][3]) that are not zero, and their count. */
rlx_plan *plan_nonzero(void);
/* y = gather(x [4], i [2]). */
rlx_plan *plan_gather(void);
/* Two entries over a state k [4][2]: "append" writes rows [1][2] at an i64 position and gives the
 * length; "sum" adds up the state times a surviving input s [1] into total []. */
rlx_plan *plan_state(void);
/* A larger net whose steps are shared with the pool: matmuls, softmax, a reduction, a host step. */
rlx_plan *plan_large(void);

/* A program of the plan on the device (NULL: a CPU of two threads). The plan is consumed. */
rlx_program *program_of(rlx_device *device, rlx_plan *plan);
rlx_device *cpu_of(uint32_t threads);
/* An executable of the plan on a CPU of two threads; owns everything below it. */
rlx_exec *exec_of(rlx_plan *plan, const rlx_exec_options *options);
uint32_t slot_of(const rlx_exec *exec, const char *name);

#endif
