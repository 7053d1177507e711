/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of attention ops that op_attention.c has and op_decoder.c builds on. */
#ifndef RLX_IMPORT_ONNX_ATTENTION_H
#define RLX_IMPORT_ONNX_ATTENTION_H

#include "import/onnx/ops.h"

/* [B][S][N H] as [B][N][S][H]. */
rlx_value_id ox_heads(ox *o, rlx_value_id x, int64_t heads);
/* attention of heads, with an additive mask or RLX_NONE, as [B][S][N H]. */
rlx_value_id ox_attend(ox *o, const rlx_attention_attrs *attrs, rlx_value_id q, rlx_value_id k,
                       rlx_value_id v, rlx_value_id mask);
/* The sum of two masks, either of which may be RLX_NONE. */
rlx_value_id ox_add_masks(ox *o, rlx_value_id a, rlx_value_id b);
/* 0 where `keeps`, else `low`. */
rlx_value_id ox_mask_of(ox *o, rlx_value_id keeps, rlx_dtype dtype, double low);

#endif
