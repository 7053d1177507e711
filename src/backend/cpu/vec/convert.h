/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a tensor as f32 and back, as rlx_ref_read_f32 and rlx_ref_write_f32 do it, but f16 and
 * bf16 side by side in vectors. */
#ifndef RLX_BACKEND_CPU_VEC_CONVERT_H
#define RLX_BACKEND_CPU_VEC_CONVERT_H

#include "backend/cpu/vec/vec.h"
#include "ir/tensor.h"

void VEC_SYMBOL(read_f32)(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                          float *out);
void VEC_SYMBOL(write_f32)(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                           const float *values);

#define vec_read_f32  VEC_SYMBOL(read_f32)
#define vec_write_f32 VEC_SYMBOL(write_f32)

#endif
