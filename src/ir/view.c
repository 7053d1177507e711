/* SPDX-License-Identifier: Apache-2.0 */
/* Strides of views: slice, split, transpose, expand, and the reshape family. Pure arithmetic on
 * dims that a shape rule has accepted; stands between the shape rules and whoever aliases or
 * copies. */
#include "ir/view.h"

#include <string.h>

static rlx_status resolve_axis(int64_t start, int64_t end, int64_t step, int64_t dim,
                               rlx_slice_axis *out) {
    if (step == 0) return RLX_FAIL(RLX_INVALID_GRAPH, "slice step is 0");
    int64_t least = step > 0 ? 0 : -1, most = step > 0 ? dim : dim - 1;
    if (start < 0) start += dim;
    if (end < 0) end += dim;
    if (start < 0) start = 0;
    if (start > most) start = most; /* last: of an empty axis, most may be -1 */
    end = end < least ? least : end > most ? most : end;
    uint64_t span = 0, stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    if (step > 0 && end > start) span = (uint64_t)(end - start);
    if (step < 0 && start > end) span = (uint64_t)(start - end);
    out->size = (int64_t)(span / stride + (span % stride != 0));
    out->start = out->size == 0 ? 0 : start;
    out->step = out->size <= 1 ? 1 : step;
    return RLX_OK;
}

rlx_status rlx_slice_resolve(const rlx_slice_attrs *attrs, uint32_t rank, const int64_t *dims,
                             rlx_slice_axis *out_axes) {
    uint32_t count = attrs->starts.count;
    bool is_cut[RLX_MAX_RANK] = {false};
    if (count > rank || attrs->ends.count != count ||
        (attrs->axes.count != 0 && attrs->axes.count != count) ||
        (attrs->steps.count != 0 && attrs->steps.count != count)) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "slice of rank %u has %u starts, %u ends, %u axes, %u steps", rank, count,
                        attrs->ends.count, attrs->axes.count, attrs->steps.count);
    }
    for (uint32_t i = 0; i < rank; i++)
        out_axes[i] = (rlx_slice_axis){0, 1, dims[i]};
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = attrs->axes.count != 0 ? attrs->axes.items[i] : (int64_t)i;
        if (axis < -(int64_t)rank || axis >= (int64_t)rank) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "slice axis %" PRId64 " of rank %u", axis, rank);
        }
        uint32_t at = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
        if (is_cut[at]) return RLX_FAIL(RLX_INVALID_GRAPH, "slice names axis %u twice", at);
        is_cut[at] = true;
        RLX_TRY(resolve_axis(attrs->starts.items[i], attrs->ends.items[i],
                             attrs->steps.count != 0 ? attrs->steps.items[i] : 1, dims[at],
                             &out_axes[at]));
    }
    return RLX_OK;
}

int64_t rlx_split_size(const rlx_split_attrs *attrs, int64_t dim, uint32_t count, uint32_t output) {
    if (attrs->sizes.count != 0) return attrs->sizes.items[output];
    int64_t part = dim / count + (dim % count != 0);
    return output + 1 < count ? part : dim - part * ((int64_t)count - 1);
}

static bool view_slice(const rlx_slice_attrs *attrs, const rlx_tensor *in, rlx_tensor *out,
                       int64_t *out_offset) {
    rlx_slice_axis axes[RLX_MAX_RANK];
    if (rlx_slice_resolve(attrs, in->rank, in->dims, axes) != RLX_OK) return false;
    *out_offset = 0;
    for (uint32_t i = 0; i < in->rank; i++) {
        out->strides[i] = in->strides[i] * axes[i].step;
        *out_offset += in->strides[i] * axes[i].start;
    }
    return true;
}

static bool view_split(const rlx_split_attrs *attrs, uint32_t output, uint32_t count,
                       const rlx_tensor *in, rlx_tensor *out, int64_t *out_offset) {
    uint32_t axis = (uint32_t)(attrs->axis < 0 ? attrs->axis + (int64_t)in->rank : attrs->axis);
    int64_t start = 0;
    for (uint32_t i = 0; i < output; i++)
        start += rlx_split_size(attrs, in->dims[axis], count, i);
    for (uint32_t i = 0; i < in->rank; i++)
        out->strides[i] = in->strides[i];
    *out_offset = start * in->strides[axis];
    return true;
}

static bool view_transpose(const rlx_transpose_attrs *attrs, const rlx_tensor *in,
                           rlx_tensor *out) {
    for (uint32_t i = 0; i < in->rank; i++) {
        int64_t from = attrs->perm.count != 0 ? attrs->perm.items[i] : (int64_t)(in->rank - 1 - i);
        out->strides[i] = in->strides[from];
    }
    return true;
}

static bool view_expand(const rlx_tensor *in, rlx_tensor *out) {
    uint32_t added = out->rank - in->rank;
    for (uint32_t i = 0; i < out->rank; i++) {
        bool is_repeated = i < added || (in->dims[i - added] == 1 && out->dims[i] != 1);
        out->strides[i] = is_repeated ? 0 : in->strides[i - added];
    }
    return true;
}

static void plain_strides(rlx_tensor *out) {
    int64_t stride = 1;
    for (uint32_t i = out->rank; i-- > 0;) {
        out->strides[i] = stride;
        stride *= out->dims[i];
    }
}

/* Walks both shapes from the last dim, in groups of equal product; the input dims of one group must
 * follow each other without holes. Dims of 1 take the stride that a plain layout would give them.
 */
static bool view_reshape(const rlx_tensor *in, rlx_tensor *out) {
    int64_t dims[RLX_MAX_RANK], strides[RLX_MAX_RANK];
    uint32_t left = 0, at = out->rank;
    if (rlx_tensor_elements(in) == 0) return plain_strides(out), true;
    for (uint32_t i = 0; i < in->rank; i++) {
        if (in->dims[i] == 1) continue;
        dims[left] = in->dims[i];
        strides[left++] = in->strides[i];
    }
    int64_t stride = 1;
    while (left > 0) {
        int64_t group = dims[--left], filled = 1;
        stride = strides[left];
        while (filled < group || (at > 0 && out->dims[at - 1] == 1)) {
            if (at == 0) return false;
            int64_t dim = out->dims[--at];
            out->strides[at] = stride;
            stride *= dim;
            filled *= dim;
            while (filled > group) { /* a bigger output dim swallows the next input dim */
                if (left == 0 || strides[left - 1] != strides[left] * dims[left]) return false;
                group *= dims[--left];
            }
        }
    }
    while (at > 0)
        out->strides[--at] = stride;
    return true;
}

bool rlx_view_map(rlx_op op, const void *attrs, uint32_t output, uint32_t output_count,
                  const rlx_tensor *in, rlx_tensor *out, int64_t *out_offset) {
    *out_offset = 0;
    switch (op) {
    case RLX_OP_SLICE:
        return view_slice(attrs, in, out, out_offset);
    case RLX_OP_SPLIT:
        return view_split(attrs, output, output_count, in, out, out_offset);
    case RLX_OP_TRANSPOSE:
        return view_transpose(attrs, in, out);
    case RLX_OP_EXPAND:
        return view_expand(in, out);
    case RLX_OP_LIMIT:
        memcpy(out->strides, in->strides, sizeof out->strides);
        return true;
    case RLX_OP_IDENTITY:
    case RLX_OP_RESHAPE:
    case RLX_OP_SQUEEZE:
    case RLX_OP_UNSQUEEZE:
    case RLX_OP_FLATTEN:
        return view_reshape(in, out);
    default:
        return false;
    }
}

bool rlx_view_of(rlx_op op, const void *attrs, uint32_t output, uint32_t output_count,
                 const rlx_tensor *in, rlx_tensor *out, int64_t *out_offset) {
    int64_t block = (int64_t)rlx_dtype_block_elements(in->dtype);
    if (!rlx_view_map(op, attrs, output, output_count, in, out, out_offset)) return false;
    if (block == 1) return true;
    for (uint32_t i = 0; i < out->rank; i++) {
        if (out->strides[i] < 0) return false;
    }
    return *out_offset % block == 0;
}
