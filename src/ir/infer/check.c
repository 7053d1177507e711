/* SPDX-License-Identifier: Apache-2.0 */
/* Checks shared by shape rules: dtypes, broadcasts, numbers. They read types and write nothing. */
#include "ir/infer/check.h"

#include <math.h>

enum { TEXT_BYTES = 128 };

rlx_status rlx_check_float(const rlx_infer *infer, uint32_t input, const char *name) {
    if (rlx_dtype_is_float(infer->in[input]->dtype)) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s is %s, needs a float dtype", name,
                    rlx_dtype_name(infer->in[input]->dtype));
}

rlx_status rlx_check_dtype(const rlx_infer *infer, uint32_t input, const char *name,
                           rlx_dtype dtype, bool or_f32) {
    if (!rlx_infer_has(infer, input)) return RLX_OK;
    rlx_dtype got = infer->in[input]->dtype;
    if (got == dtype || (or_f32 && got == RLX_DTYPE_F32)) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s is %s, needs %s%s", name, rlx_dtype_name(got),
                    rlx_dtype_name(dtype), or_f32 && dtype != RLX_DTYPE_F32 ? " or f32" : "");
}

rlx_status rlx_check_broadcasts_to(const rlx_infer *infer, uint32_t input, const char *name,
                                   const rlx_type *to) {
    char from_text[TEXT_BYTES], to_text[TEXT_BYTES];
    if (!rlx_infer_has(infer, input)) return RLX_OK;
    const rlx_type *from = infer->in[input];
    bool fits = from->shape.rank <= to->shape.rank;
    for (uint32_t i = 0; fits && i < from->shape.rank; i++) {
        uint32_t at = from->shape.rank - 1 - i, into = to->shape.rank - 1 - i;
        if (from->shape.dims[at] == 1 && from->extents[at] == RLX_NONE) continue;
        fits = from->shape.dims[at] == to->shape.dims[into];
        if (fits && from->extents[at] != to->extents[into]) {
            return RLX_FAIL(RLX_UNSUPPORTED,
                            "dim %u of %s and of what it is added to are known only at run time "
                            "and come from different values",
                            at, name);
        }
    }
    if (fits) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s %s does not broadcast to %s", name,
                    rlx_type_text(infer->graph, from, from_text, sizeof from_text),
                    rlx_type_text(infer->graph, to, to_text, sizeof to_text));
}

rlx_status rlx_check_vector(const rlx_infer *infer, uint32_t input, const char *name,
                            int64_t count) {
    char text[TEXT_BYTES];
    if (!rlx_infer_has(infer, input)) return RLX_OK;
    const rlx_type *type = infer->in[input];
    if (type->shape.rank != 1 || type->shape.dims[0] != count) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s is %s, needs [%" PRId64 "]", name,
                        rlx_type_text(infer->graph, type, text, sizeof text), count);
    }
    return rlx_infer_no_extent(infer, input);
}

rlx_status rlx_check_exact_dim(const rlx_infer *infer, uint32_t input, uint32_t axis) {
    if (infer->in[input]->extents[axis] == RLX_NONE) return RLX_OK;
    return RLX_FAIL(RLX_UNSUPPORTED,
                    "%s cannot take input %u whose dim %u is known only at run time",
                    rlx_op_name(infer->op), input, axis);
}

rlx_status rlx_check_number(const char *name, double value, bool not_negative) {
    if (!isnan(value) && !(not_negative && value < 0)) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s is %g", name, value);
}

rlx_status rlx_check_activation(const rlx_activation *activation, rlx_dtype dtype) {
    if (activation->op == RLX_OP_NONE) return RLX_OK;
    if (activation->op < RLX_OP_ABS || activation->op > RLX_OP_CLIP) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s cannot be an activation",
                        rlx_op_name(activation->op));
    }
    if (!rlx_dtype_is_float(dtype)) {
        return RLX_FAIL(RLX_UNSUPPORTED, "no activation on %s", rlx_dtype_name(dtype));
    }
    return RLX_OK;
}
