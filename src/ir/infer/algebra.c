/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules. */
#include "ir/infer.h"

rlx_status rlx_infer_matmul(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_conv(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_pool(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}
