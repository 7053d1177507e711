/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that only a run knows (extents), for ops that want numbers: see extent.c. */
#ifndef RLX_IMPORT_ONNX_EXTENT_H
#define RLX_IMPORT_ONNX_EXTENT_H

#include "import/onnx/build.h"

/* A shape: numbers, of which some are bounds of run-time sizes. */
typedef struct ox_sizes {
    rlx_ints dims;
    rlx_value_id extents[RLX_MAX_INTS]; /* per size; RLX_NONE: it is a number */
    bool has_extent;
} ox_sizes;

/* One size of a shape that is put together from sizes. False: it follows from something else. */
bool ox_size_at(ox *o, rlx_value_id value, int64_t index, int64_t *out_size,
                rlx_value_id *out_extent);
/* Like ox_need_ints, for a shape that may have run-time sizes. */
bool ox_need_sizes(ox *o, rlx_value_id value, ox_sizes *out);

/* A size as what caches held before the run (growth.h), if that is in it, plus a number. */
typedef struct ox_sum {
    bool has_held;
    int64_t plus;
} ox_sum;
/* One element of a value as such a sum. False: it is none, or nothing grows in this model. */
bool ox_sum_at(ox *o, rlx_value_id value, int64_t index, ox_sum *out);

/* x with the first rows of an axis, as many as a run-time size says, in the same memory. */
rlx_value_id ox_limit(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id extent);
/* x repeated to a shape with run-time sizes. */
rlx_value_id ox_spread(ox *o, rlx_value_id x, const ox_sizes *sizes);
/* 0 .. n - 1, n being a run-time size. */
rlx_value_id ox_places(ox *o, rlx_value_id extent);
/* x with an axis as long as its bound, zeros behind its end; and back to the run-time size. */
rlx_value_id ox_to_bound(ox *o, rlx_value_id x, uint32_t axis);
rlx_value_id ox_to_bound_with(ox *o, rlx_value_id x, uint32_t axis, double filler);
rlx_value_id ox_from_bound(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id extent);
/* A concat along an axis of run-time size. */
rlx_value_id ox_join(ox *o, const rlx_value_id *parts, uint32_t count, uint32_t axis);
/* A slice along an axis whose limits or size only a run knows. */
rlx_value_id ox_cut(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id start, rlx_value_id end,
                    int64_t step);

/* An axis with as many elements before and after it (each one number) as only a run knows, all of
 * them `filler`. How many there can be at most must follow from sizes. */
rlx_value_id ox_widen(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id before, rlx_value_id after,
                      rlx_value_id filler);
/* to - from, where it is a number although neither is. */
bool ox_distance(ox *o, rlx_value_id from, rlx_value_id to, int64_t *out_distance);

#endif
