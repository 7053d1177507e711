/* SPDX-License-Identifier: Apache-2.0 */
/* A plan step with its operands resolved to addresses of one mapped arena: done once, when a
 * stretch is prepared. In each run only dims with extents are read again. Used by the CPU backend
 * and by host steps; knows no kernels. */
#ifndef RLX_DRIVER_BIND_H
#define RLX_DRIVER_BIND_H

#include "driver/arena.h"

/* A dim whose true size is an i64 in the arena. */
typedef struct rlx_bound_extent {
    int64_t *dim;           /* in a tensor below */
    int64_t bound;          /* the planned size */
    const int64_t *address; /* 8-byte aligned */
} rlx_bound_extent;

typedef struct rlx_bound_step {
    const rlx_plan_step *step;
    rlx_tensor *tensors; /* inputs, then outputs; data NULL: absent */
    rlx_bound_extent *extents;
    uint32_t extent_count;
    uint8_t *workspace; /* of worker 0; never NULL */
    uint64_t workspace_stride;
    uint32_t workers; /* for how many there is workspace; UINT32_MAX without workspace */
} rlx_bound_step;

/* How many tensors and (at most) extents a step needs room for. */
void rlx_bind_room(const rlx_plan *plan, uint32_t step, uint64_t *tensor_count,
                   uint64_t *extent_count);

/* Fills `out_bound`, taking tensors and extents from the arrays and moving both pointers on.
 * RLX_INVALID_PLAN: an operand without memory, an extent that is no aligned i64. */
RLX_WARN_UNUSED rlx_status rlx_bind_step(const rlx_arena *arena, uint32_t step,
                                         rlx_tensor **tensors, rlx_bound_extent **extents,
                                         rlx_bound_step *out_bound);

/* Reads the extents into the dims. False when one is negative or past its bound: *out_value is that
 * one, and its dim has been set to the bound. */
bool rlx_bound_refresh(const rlx_bound_step *bound, int64_t *out_value);

#endif
