/* SPDX-License-Identifier: Apache-2.0 */
/* The float unary ops (abs .. clip of ops.def) on one value. This is their one definition: the
 * elementwise kernels, chains and the activations of matmul and conv all call it, so fusing changes
 * no bit. The f32 form computes in f64 and rounds once. */
#ifndef RLX_REF_UNARY_H
#define RLX_REF_UNARY_H

#include <rlx/ops.h>

/* An op that is not among them gives x back. */
double rlx_ref_unary_f64(rlx_op op, double x, double alpha, double beta);
float rlx_ref_unary_f32(rlx_op op, float x, double alpha, double beta);

#endif
