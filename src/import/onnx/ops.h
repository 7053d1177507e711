/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of map.def. */
#ifndef RLX_IMPORT_ONNX_OPS_H
#define RLX_IMPORT_ONNX_OPS_H

#include "import/onnx/build.h"

#define ONNX_OP(name, handler, op, ...) void rlx_ox_##handler(ox *o);
#include "import/onnx/map.def"
#undef ONNX_OP

/* The names in map.def, for tables. */
uint32_t rlx_onnx_op_count(void);
const char *rlx_onnx_op_name(uint32_t index);
uint32_t rlx_onnx_op_since(uint32_t index, uint32_t nth); /* 0: past the last version */

#endif
