/* SPDX-License-Identifier: Apache-2.0 */
/* The float unary ops (identity .. clip of ops.def) on f32 or f64 values. Their one definition is
 * in elementwise_float.inc: the elementwise kernels, chains and the activations of matmul and conv
 * all run it, so fusing changes no bit. */
#ifndef RLX_REF_UNARY_H
#define RLX_REF_UNARY_H

#include <rlx/ops.h>

/* In place. */
void rlx_ref_unary_run_f32(rlx_op op, float *values, int64_t count, double alpha, double beta);
void rlx_ref_unary_run_f64(rlx_op op, double *values, int64_t count, double alpha, double beta);
/* One value. */
float rlx_ref_unary_f32(rlx_op op, float x, double alpha, double beta);

#endif
