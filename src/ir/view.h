/* SPDX-License-Identifier: Apache-2.0 */
/* How the ops with the VIEW flag see their input's memory: the same data through other strides. The
 * planner uses it to alias, the scalar kernels to copy. Knows nothing of slots or graphs. */
#ifndef RLX_IR_VIEW_H
#define RLX_IR_VIEW_H

#include "base/status.h"
#include "ir/tensor.h"

/* What a slice keeps of one axis: elements start, start + step, .. (size of them). */
typedef struct rlx_slice_axis {
    int64_t start, step, size;
} rlx_slice_axis;

/* Cuts starts and ends to `dims` as ONNX does; out_axes has `rank` entries, untouched axes whole. A
 * step that is never taken (size 0 or 1) comes out as 1. RLX_INVALID_GRAPH with the numbers. */
RLX_WARN_UNUSED rlx_status rlx_slice_resolve(const rlx_slice_attrs *attrs, uint32_t rank,
                                             const int64_t *dims, rlx_slice_axis *out_axes);

/* The size of part `output` of a split of `dim` into `count` parts (shape rule checked). */
int64_t rlx_split_size(const rlx_split_attrs *attrs, int64_t dim, uint32_t count, uint32_t output);

/* The strides through which output number `output` (of `output_count`) of a view op reads its
 * input. `in` has dims and strides; `out` has rank and dims and receives strides; *out_offset is
 * its first element, counted from the input's first. Strides may be 0 (expand) or negative (slice).
 * False: no strides describe it (a reshape across holes), or the op is no view. */
bool rlx_view_map(rlx_op op, const void *attrs, uint32_t output, uint32_t output_count,
                  const rlx_tensor *in, rlx_tensor *out, int64_t *out_offset);

/* The same, and also false when the view would begin inside a block (two 4-bit elements share a
 * byte) or run through blocks backwards, so that out_offset always gives an address. */
bool rlx_view_of(rlx_op op, const void *attrs, uint32_t output, uint32_t output_count,
                 const rlx_tensor *in, rlx_tensor *out, int64_t *out_offset);

#endif
