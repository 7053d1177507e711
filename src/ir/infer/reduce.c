/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules. */
#include "ir/infer.h"

rlx_status rlx_infer_reduce(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_arg(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_top_k(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_cumsum(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_softmax(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}
