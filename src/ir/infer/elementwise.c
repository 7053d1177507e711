/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules. */
#include "ir/infer.h"

rlx_status rlx_infer_unary(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_logical_unary(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_predicate(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_cast(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_binary(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_power(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_logical(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_compare(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_where(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_chain(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}
