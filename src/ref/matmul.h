/* SPDX-License-Identifier: Apache-2.0 */
/* How the operands of a product lie beside its output: for every kernel of matmul. */
#ifndef RLX_REF_MATMUL_H
#define RLX_REF_MATMUL_H

#include "ref/kernel.h"

/* The strides of the batch axes of a or b, broadcast to the output's. */
void rlx_ref_batch_strides(const rlx_tensor *tensor, uint32_t batch_rank, int64_t *strides);
/* Those of something broadcast to the output, split into batch, row and column. */
void rlx_ref_output_strides(const rlx_tensor *tensor, const rlx_tensor *out, bool has_m, bool has_n,
                            int64_t *batch, int64_t *m, int64_t *n);

#endif
