/* SPDX-License-Identifier: Apache-2.0 */
/* Following the elements of shapes back to what they are made of: see follow.c. */
#ifndef RLX_IMPORT_ONNX_FOLLOW_H
#define RLX_IMPORT_ONNX_FOLLOW_H

#include "import/onnx/build.h"

/* One element of a value that is followed back to a constant or a run-time size. */
typedef struct ox_element {
    rlx_value_id value;
    int64_t index;
} ox_element;

enum { OX_MOST_STEPS = 64 }; /* from a shape back to the sizes that it is made of */

/* Indices of a model may point anywhere. */
bool ox_is_within(const ox *o, const ox_element *at);
/* Through an op that keeps the order of elements, or picks by constants. False: no further. */
bool ox_step_back(ox *o, ox_element *at);
/* A value that has `extent` as its only run-time size, in the same block; RLX_NONE: none has. */
rlx_value_id ox_find_witness(const ox *o, rlx_value_id extent, uint32_t *out_axis);

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

/* Between which numbers a value of one element lies that only a run knows: run-time sizes and what
 * is counted from them. Beyond +-2^40: not known. */
typedef struct ox_bounds {
    int64_t low, high;
} ox_bounds;
ox_bounds ox_bounds_of(ox *o, rlx_value_id value);
/* to - from, where it is a number although neither is. */
bool ox_distance(ox *o, rlx_value_id from, rlx_value_id to, int64_t *out_distance);

#endif
