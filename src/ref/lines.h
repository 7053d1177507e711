/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor as lines along one axis (softmax, top_k, cumsum), and the tail of its axes as runs of
 * the last one (norms, reductions). Offsets and strides in elements. */
#ifndef RLX_REF_LINES_H
#define RLX_REF_LINES_H

#include "ref/access.h"

typedef struct rlx_ref_lines {
    uint32_t rank; /* axes other than the line's */
    int64_t dims[RLX_MAX_RANK];
    int64_t strides[RLX_MAX_RANK];
    int64_t length, stride; /* of the line */
    int64_t count;          /* lines */
} rlx_ref_lines;

/* `axis` may be negative; it was checked by the shape rule. A scalar is one line of one. */
static inline rlx_ref_lines rlx_ref_lines_of(const rlx_tensor *tensor, int64_t axis) {
    rlx_ref_lines lines = {.length = 1, .stride = 0, .count = 1};
    if (axis < 0) axis += tensor->rank;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if ((int64_t)i == axis) {
            lines.length = tensor->dims[i];
            lines.stride = tensor->strides[i];
            continue;
        }
        lines.dims[lines.rank] = tensor->dims[i];
        lines.strides[lines.rank++] = tensor->strides[i];
        lines.count *= tensor->dims[i];
    }
    return lines;
}

static inline int64_t rlx_ref_line_offset(const rlx_ref_lines *lines, int64_t index) {
    return rlx_ref_offset(lines->rank, lines->dims, lines->strides, index);
}

/* The axes [from, rank) of dims: `count` runs of `length` elements. */
typedef struct rlx_ref_runs {
    uint32_t from, rank; /* axes [from, rank) number the runs */
    int64_t count, length;
} rlx_ref_runs;

static inline rlx_ref_runs rlx_ref_runs_of(uint32_t rank, const int64_t *dims, uint32_t from) {
    rlx_ref_runs runs = {
        .from = from, .rank = rank > from ? rank - 1 : from, .count = 1, .length = 1};
    if (rank > from) runs.length = dims[rank - 1];
    for (uint32_t i = from; i < runs.rank; i++)
        runs.count *= dims[i];
    return runs;
}

static inline int64_t rlx_ref_run_offset(const rlx_ref_runs *runs, const int64_t *dims,
                                         const int64_t *strides, int64_t index) {
    return rlx_ref_offset(runs->rank - runs->from, dims + runs->from, strides + runs->from, index);
}

#endif
