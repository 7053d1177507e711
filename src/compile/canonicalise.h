/* SPDX-License-Identifier: Apache-2.0 */
/* The rule sets of the canonicalise pass. Each looks at one node as the last of a group and
 * rewrites it if a rule fits. */
#ifndef RLX_COMPILE_CANONICALISE_H
#define RLX_COMPILE_CANONICALISE_H

#include "compile/rewrite.h"

/* A gather or scatter_nd whose indices are known and regular becomes slices and a concat; a gather
 * of what is made of narrower weights gathers those. */
RLX_WARN_UNUSED rlx_status rlx_canonicalise_index(rlx_rewrite *rewrite, rlx_node_id root);
/* Views become reshapes, transposes and expands in one step; what changes nothing goes. */
RLX_WARN_UNUSED rlx_status rlx_canonicalise_view(rlx_rewrite *rewrite, rlx_node_id root);
/* Neutral constants, squares, reciprocal roots. */
RLX_WARN_UNUSED rlx_status rlx_canonicalise_arithmetic(rlx_rewrite *rewrite, rlx_node_id root);
/* Transposes and scalar factors around a matmul become its attributes. */
RLX_WARN_UNUSED rlx_status rlx_canonicalise_matmul(rlx_rewrite *rewrite, rlx_node_id root);
/* silu, gelu, gelu_tanh, hard_swish and mish that are spelled out. */
RLX_WARN_UNUSED rlx_status rlx_canonicalise_activation(rlx_rewrite *rewrite, rlx_node_id root);
/* layer_norm and rms_norm that are spelled out, and their scale and bias. */
RLX_WARN_UNUSED rlx_status rlx_canonicalise_norm(rlx_rewrite *rewrite, rlx_node_id root);
/* Zeros in front of a conv become its padding. */
RLX_WARN_UNUSED rlx_status rlx_canonicalise_conv(rlx_rewrite *rewrite, rlx_node_id root);
/* A pool over all of an image becomes a reduction. */
RLX_WARN_UNUSED rlx_status rlx_canonicalise_pool(rlx_rewrite *rewrite, rlx_node_id root);

/* A binary node with a scalar constant: its number, and the other operand. *out_is_right: the
 * constant is the second operand. */
bool rlx_match_scalar(const rlx_rewrite *rewrite, rlx_node_id node, rlx_value_id *out_other,
                      double *out_number, bool *out_is_right);
/* `node` is other * number, or other / (1 / number). */
bool rlx_match_factor(const rlx_rewrite *rewrite, rlx_node_id node, rlx_value_id *out_other,
                      double *out_factor);

#endif
