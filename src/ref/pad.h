/* SPDX-License-Identifier: Apache-2.0 */
/* Where the elements of a padded tensor come from, axis by axis: what every pad kernel shares. */
#ifndef RLX_REF_PAD_H
#define RLX_REF_PAD_H

#include "ir/dtype.h"
#include "ir/tensor.h"

typedef struct rlx_ref_pad {
    int64_t start, size; /* what is left of the input */
    int64_t lead;        /* added before it */
} rlx_ref_pad;

static inline rlx_ref_pad rlx_ref_pad_axis(const rlx_pad_attrs *attrs, uint32_t rank, uint32_t axis,
                                           int64_t dim) {
    int64_t before = attrs->pads.items[axis], after = attrs->pads.items[rank + axis];
    rlx_ref_pad result = {0, dim, 0};
    if (before < 0) result.start = -before;
    if (before > 0) result.lead = before;
    result.size -= result.start + (after < 0 ? -after : 0);
    return result;
}

static inline int64_t rlx_ref_modulo(int64_t value, int64_t divisor) {
    int64_t rest = value % divisor;
    return rest < 0 ? rest + divisor : rest;
}

/* Where output position `place` of an axis comes from; -1: the constant. */
static inline int64_t rlx_ref_pad_source(const rlx_ref_pad *axis, rlx_pad_mode mode,
                                         int64_t place) {
    int64_t at = place - axis->lead, size = axis->size;
    if (at < 0 || at >= size) {
        if (mode == RLX_PAD_CONSTANT) return -1;
        if (mode == RLX_PAD_EDGE) at = at < 0 ? 0 : size - 1;
        if (mode == RLX_PAD_WRAP) at = rlx_ref_modulo(at, size);
        if (mode == RLX_PAD_REFLECT) {
            int64_t period = 2 * (size - 1);
            at = period > 0 ? rlx_ref_modulo(at, period) : 0;
            if (at >= size) at = period - at;
        }
    }
    return axis->start + at;
}

/* The constant, as element 0. */
static inline void rlx_ref_pad_value(rlx_dtype dtype, double value, uint8_t out[8]) {
    if (dtype == RLX_DTYPE_BOOL) {
        rlx_store_i64(dtype, out, 0, value != 0);
    } else {
        rlx_store_f64(dtype, out, 0, value);
    }
}

#endif
