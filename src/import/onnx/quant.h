/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of quantised ops that op_quant.c has and others build on. Zero points may be RLX_NONE; a
 * scale or zero point is one number, or one per element of `axis`. */
#ifndef RLX_IMPORT_ONNX_QUANT_H
#define RLX_IMPORT_ONNX_QUANT_H

#include "import/onnx/ops.h"

typedef struct ox_quantised {
    rlx_value_id bytes, scale, zero;
} ox_quantised;

/* (x - zero) scale, and clip(round(x / scale) + zero) as `dtype`. */
rlx_value_id ox_dequantized(ox *o, rlx_value_id x, rlx_value_id scale, rlx_value_id zero,
                            int64_t axis);
rlx_value_id ox_quantized(ox *o, rlx_value_id x, rlx_value_id scale, rlx_value_id zero,
                          int64_t axis, rlx_dtype dtype);
/* DynamicQuantizeLinear: scale and zero point of the data's own range. */
ox_quantised ox_quantise(ox *o, rlx_value_id x);
/* sum (a - a_zero)(b - b_zero), exact, as i32. */
rlx_value_id ox_integer_product(ox *o, rlx_value_id a, rlx_value_id a_zero, rlx_value_id b,
                                rlx_value_id b_zero);
/* An exact sum times scale / y_scale, as bytes. */
rlx_value_id ox_requantized(ox *o, rlx_value_id sum, rlx_value_id scale, rlx_value_id y_scale,
                            rlx_value_id y_zero);

#endif
