/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules. */
#include "ir/infer.h"

rlx_status rlx_infer_slice(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_concat(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_split(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_pad(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_transpose(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_reshape(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_squeeze(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_expand(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_tile(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_nonzero(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}
