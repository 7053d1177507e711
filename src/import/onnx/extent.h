/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that only a run knows (extents), for ops that want numbers: see extent.c. */
#ifndef RLX_IMPORT_ONNX_EXTENT_H
#define RLX_IMPORT_ONNX_EXTENT_H

#include "import/onnx/follow.h"

/* x with the first rows of an axis, as many as a run-time size says, in the same memory. */
rlx_value_id ox_limit(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id extent);
/* x repeated to a shape with run-time sizes. */
rlx_value_id ox_spread(ox *o, rlx_value_id x, const ox_sizes *sizes);
/* 0 .. n - 1, n being a run-time size. */
rlx_value_id ox_places(ox *o, rlx_value_id extent);
/* x with an axis as long as its bound, zeros behind its end (ox_limit goes back), or `filler`. */
rlx_value_id ox_to_bound(ox *o, rlx_value_id x, uint32_t axis);
rlx_value_id ox_to_bound_with(ox *o, rlx_value_id x, uint32_t axis, double filler);
/* A concat along an axis of run-time size. */
rlx_value_id ox_join(ox *o, const rlx_value_id *parts, uint32_t count, uint32_t axis);
/* A slice along an axis whose limits or size only a run knows. */
rlx_value_id ox_cut(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id start, rlx_value_id end,
                    int64_t step);

/* An axis with as many elements before and after it (each one number) as only a run knows, all of
 * them `filler`. How many there can be at most must follow from sizes. */
rlx_value_id ox_widen(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id before, rlx_value_id after,
                      rlx_value_id filler);

#endif
