/* SPDX-License-Identifier: Apache-2.0 */
/* The ends of each dtype's range. */
#include "ref/order.h"

#include <math.h>

void rlx_ref_store_limit(const rlx_tensor *tensor, int64_t offset, bool largest) {
    const rlx_dtype_row *row = rlx_dtype_row_of(tensor->dtype);
    uint32_t bits = row->block_bytes * 8 / row->block_elements;
    switch (row->class_) {
    case RLX_CLASS_SIGNED: {
        int64_t most = (int64_t)(UINT64_MAX >> (65 - bits));
        rlx_store_i64(tensor->dtype, tensor->data, offset, largest ? most : -most - 1);
        break;
    }
    case RLX_CLASS_UNSIGNED:
        rlx_store_i64(tensor->dtype, tensor->data, offset, largest ? -1 : 0);
        break;
    case RLX_CLASS_BOOL:
        rlx_store_i64(tensor->dtype, tensor->data, offset, largest ? 1 : 0);
        break;
    default:
        rlx_store_f64(tensor->dtype, tensor->data, offset, largest ? INFINITY : -INFINITY);
        break;
    }
}
