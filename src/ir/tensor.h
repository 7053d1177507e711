/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor as a kernel sees it: an address with dims and strides. Dims are the true ones of this
 * run (extents are already applied); strides come from the planned bound. */
#ifndef RLX_IR_TENSOR_H
#define RLX_IR_TENSOR_H

#include <rlx/ops.h>

typedef struct rlx_tensor {
    void *data; /* NULL: an absent optional operand */
    rlx_dtype dtype;
    uint32_t rank;
    int64_t dims[RLX_MAX_RANK];
    int64_t strides[RLX_MAX_RANK]; /* in elements; 0 repeats; of block types the last is 1 */
    rlx_layout layout; /* not plain: strides are 0 and ir/layout.h says where elements are */
} rlx_tensor;

static inline int64_t rlx_tensor_elements(const rlx_tensor *tensor) {
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        count *= tensor->dims[i];
    return count;
}

/* Row-major without holes; of plain layout. */
static inline bool rlx_tensor_is_plain(const rlx_tensor *tensor) {
    int64_t expected = 1;
    if (tensor->layout != RLX_LAYOUT_PLAIN) return false;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        if (tensor->dims[i] != 1 && tensor->strides[i] != expected) return false;
        expected *= tensor->dims[i];
    }
    return true;
}

#endif
