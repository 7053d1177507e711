/* SPDX-License-Identifier: Apache-2.0 */
/* Small checks that the rules of algebra, reductions and norms share. Each states its fact. */
#ifndef RLX_IR_INFER_CHECK_H
#define RLX_IR_INFER_CHECK_H

#include "ir/infer.h"

/* Input `input` (called `name` in messages) has a float dtype. */
RLX_WARN_UNUSED rlx_status rlx_check_float(const rlx_infer *infer, uint32_t input,
                                           const char *name);
/* If present, it has `dtype`, or f32 where `or_f32`. */
RLX_WARN_UNUSED rlx_status rlx_check_dtype(const rlx_infer *infer, uint32_t input, const char *name,
                                           rlx_dtype dtype, bool or_f32);
/* If present, it broadcasts to `to` without making it larger; a dim that is not 1 has the same
 * extent as that of `to`. */
RLX_WARN_UNUSED rlx_status rlx_check_broadcasts_to(const rlx_infer *infer, uint32_t input,
                                                   const char *name, const rlx_type *to);
/* If present, it is a vector of `count` without extent. */
RLX_WARN_UNUSED rlx_status rlx_check_vector(const rlx_infer *infer, uint32_t input,
                                            const char *name, int64_t count);
/* Fails with RLX_UNSUPPORTED when dim `axis` of the input has an extent. */
RLX_WARN_UNUSED rlx_status rlx_check_exact_dim(const rlx_infer *infer, uint32_t input,
                                               uint32_t axis);
/* A number attribute is not NaN and, where `not_negative`, at least 0. */
RLX_WARN_UNUSED rlx_status rlx_check_number(const char *name, double value, bool not_negative);
/* An activation that a float epilogue can apply: NONE, or abs .. clip of ops.def. */
RLX_WARN_UNUSED rlx_status rlx_check_activation(const rlx_activation *activation, rlx_dtype dtype);

#endif
