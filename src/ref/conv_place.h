/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise conv that writes over its input, as plans for vector kernels want it now and then. */
#ifndef RLX_REF_CONV_PLACE_H
#define RLX_REF_CONV_PLACE_H

#include "ref/kernel.h"

/* Whether a conv with these operands can be done where out[0] lies in the memory of in[0]: 3 x 3,
 * depthwise, f32 in blocks, stride 1 and padding of one all around, and a workspace of two rows. */
bool rlx_ref_conv_overwrites(const rlx_kernel_args *args);
/* Whether it is to be done so. */
bool rlx_ref_conv_is_in_place(const rlx_kernel_args *args);
/* Items are channels of the batch. */
int64_t rlx_ref_conv_place_items(const rlx_kernel_args *args);
void rlx_ref_conv_place_run(const rlx_kernel_args *args, int64_t begin, int64_t end);

#endif
