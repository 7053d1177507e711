/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules. */
#include "ir/infer.h"

rlx_status rlx_infer_norm(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_channel_norm(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_attention(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}

rlx_status rlx_infer_rope(rlx_infer *infer) {
    return RLX_FAIL(RLX_UNSUPPORTED, "%s has no shape rule", rlx_op_name(infer->op));
}
