/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of map.def. */
#ifndef RLX_IMPORT_ONNX_OPS_H
#define RLX_IMPORT_ONNX_OPS_H

#include "import/onnx/build.h"

#define ONNX_OP(name, handler, op, ...)   void rlx_ox_##handler(ox *o);
#define MS_OP(name, handler, op, version) void rlx_ox_##handler(ox *o);
#include "import/onnx/map.def"
#undef ONNX_OP
#undef MS_OP

/* The names in map.def, for tables. */
const char *rlx_onnx_op_name(uint32_t index);             /* NULL past the last */
uint32_t rlx_onnx_op_since(uint32_t index, uint32_t nth); /* 0: past the last version */

/* What handlers of several files have in common. */
void ox_pool_attrs(ox *o, rlx_pool_attrs *attrs);
void ox_conv_attrs(ox *o, rlx_value_id w, rlx_conv_attrs *attrs);
rlx_value_id ox_gemm(ox *o); /* Gemm of the node's inputs */
/* Outputs 1 and 2 of a norm from `axis` on: the mean and 1 / deviation (from 0 without has_mean).
 */
void ox_give_statistics(ox *o, rlx_value_id x, uint32_t axis, double epsilon, bool has_mean);
void ox_recurrent(ox *o, const rlx_value_id *inputs);
rlx_value_id ox_channels_first(ox *o, rlx_value_id x); /* [N][spatial..][C] to [N][C][spatial..] */
rlx_value_id ox_channels_last(ox *o, rlx_value_id x);

#endif
