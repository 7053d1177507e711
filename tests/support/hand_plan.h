/* SPDX-License-Identifier: Apache-2.0 */
/* Plans by hand for the tests of driver, backend and runtime: slots get memory one after the other,
 * live as long as their entry, and stretches are cut where they must be. The first failure sticks;
 * hand_finish reports it. */
#ifndef RLX_TESTS_HAND_PLAN_H
#define RLX_TESTS_HAND_PLAN_H

#include "plan/plan.h"

typedef struct hand_plan {
    rlx_plan *plan;
    rlx_status status;
    uint64_t used[RLX_SEGMENT_COUNT];
    uint32_t first_step, first_buffer; /* of the entry (or prepare) that is being made */
    bool is_prepare;
} hand_plan;

void hand_begin(hand_plan *hand, uint32_t workers);

#define HAND_DIMS(...) ((const int64_t[]){__VA_ARGS__, -1})
#define HAND_SCALAR    ((const int64_t[]){-1})
/* A plain slot in memory of its own. */
uint32_t hand_slot(hand_plan *hand, rlx_segment segment, rlx_value_kind kind, const char *name,
                   rlx_dtype dtype, const int64_t *dims);
/* Scratch at a given place for given steps of the entry (counted from its first). */
uint32_t hand_slot_at(hand_plan *hand, rlx_value_kind kind, const char *name, rlx_dtype dtype,
                      const int64_t *dims, uint64_t offset, uint32_t first_step,
                      uint32_t last_step);
/* Another look at a slot's memory. */
uint32_t hand_view(hand_plan *hand, uint32_t slot, const char *name, uint64_t byte_offset,
                   const int64_t *dims, const int64_t *strides);
void hand_extent(hand_plan *hand, uint32_t slot, uint32_t axis, uint32_t extent);
void hand_source(hand_plan *hand, uint32_t slot, const void *data, uint64_t bytes);

#define HAND_SLOTS(...)                \
    ((const uint32_t[]){__VA_ARGS__}), \
        (uint32_t)(sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))
uint32_t hand_step(hand_plan *hand, rlx_step_kind kind, rlx_op op, const void *attrs,
                   const char *name, const uint32_t *inputs, uint32_t input_count,
                   const uint32_t *outputs, uint32_t output_count);
/* A kernel step without attributes. */
#define hand_op(hand, op, name, inputs, outputs) \
    hand_step(hand, RLX_STEP_KERNEL, op, NULL, name, inputs, outputs)
/* Targets count from the entry's first step. */
uint32_t hand_jump(hand_plan *hand, uint32_t target, uint32_t condition, uint32_t jump_if);
uint32_t hand_fail_if(hand_plan *hand, uint32_t condition, uint32_t fault_code, uint32_t value);
void hand_workspace(hand_plan *hand, uint32_t step, uint64_t bytes_per_worker);

/* Ends the prepare steps. */
void hand_end_prepare(hand_plan *hand);
/* Ends the entry. Inputs survive where `survives` (NULL: none) says so. Lists end with RLX_NONE. */
void hand_end_entry(hand_plan *hand, const char *name, const uint32_t *inputs, const bool *survives,
                    const uint32_t *outputs);
#define HAND_PORTS(...) ((const uint32_t[]){__VA_ARGS__, RLX_NONE})
#define HAND_NO_PORTS   ((const uint32_t[]){RLX_NONE})

/* The finished plan; fails the test when anything went wrong or the verifier refuses it. */
rlx_plan *hand_finish(hand_plan *hand);
/* The same without the verifier, for plans that break a rule on purpose. */
rlx_plan *hand_finish_unchecked(hand_plan *hand);

#endif
