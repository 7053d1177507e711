/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar kernels. */
#include "ref/kernel.h"

const rlx_ref_row rlx_ref_gather_rows[1] = {{RLX_OP_NONE, {0}}};
const uint32_t rlx_ref_gather_count = 0;
