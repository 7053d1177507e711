/* SPDX-License-Identifier: Apache-2.0 */
/* Canonicalise: one spelling for what can be written in several ways, so that the fusions behind it
 * have one thing to look for. Nodes are visited in order: what a rule sees in front of its node is
 * canonical already. */
#include "compile/canonicalise.h"

#include "ir/infer.h"

#include <math.h>

bool rlx_match_scalar(const rlx_rewrite *rewrite, rlx_node_id node, rlx_value_id *out_other,
                      double *out_number, bool *out_is_right) {
    for (uint32_t i = 0; i < 2; i++) {
        if (!rlx_rewrite_scalar(rewrite, rlx_rewrite_input(rewrite, node, 1 - i), out_number)) {
            continue;
        }
        *out_other = rlx_rewrite_input(rewrite, node, i);
        *out_is_right = i == 0;
        return true;
    }
    return false;
}

bool rlx_match_factor(const rlx_rewrite *rewrite, rlx_node_id node, rlx_value_id *out_other,
                      double *out_factor) {
    rlx_op op = rlx_rewrite_op(rewrite, node);
    double number;
    bool is_right;
    if (op != RLX_OP_MUL && op != RLX_OP_DIV) return false;
    if (!rlx_match_scalar(rewrite, node, out_other, &number, &is_right)) return false;
    if (!isfinite(number) || number == 0 || (op == RLX_OP_DIV && !is_right)) return false;
    *out_factor = op == RLX_OP_MUL ? number : 1 / number;
    return true;
}

/* x op c = x, to the last bit: x * 1, x / 1, x ^ 1, x - 0, x + (-0); for integers also x + 0. */
static bool is_neutral(rlx_op op, double number, bool is_right, bool is_float) {
    switch (op) {
    case RLX_OP_MUL:
        return number == 1;
    case RLX_OP_DIV:
    case RLX_OP_POW:
        return number == 1 && is_right;
    case RLX_OP_SUB:
        return number == 0 && is_right && !signbit(number);
    case RLX_OP_ADD:
        return number == 0 && (!is_float || signbit(number)); /* -0 + 0 is 0 */
    default:
        return false;
    }
}

static rlx_status rewrite_unary(rlx_rewrite *rewrite, rlx_node_id root, rlx_op op, rlx_value_id x) {
    rlx_unary_attrs attrs = {0};
    return rlx_rewrite_node(rewrite, root, op, &attrs, &x, 1, NULL);
}

/* Ops with a constant operand. */
static rlx_status simplify_constant(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_op op = rlx_rewrite_op(rewrite, root);
    const rlx_type *type = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root));
    bool is_float = rlx_dtype_is_float(type->dtype), is_right;
    rlx_value_id x;
    double number;
    if (!rlx_match_scalar(rewrite, root, &x, &number, &is_right)) return RLX_OK;
    bool is_same = rlx_rewrite_same_type(rewrite, type, rlx_rewrite_type(rewrite, x));
    if (is_same && is_neutral(op, number, is_right, is_float)) {
        rlx_rewrite_bypass(rewrite, root, x);
        return RLX_OK;
    }
    if (!is_float) return RLX_OK;
    if (op == RLX_OP_POW && is_right && number == 2) {
        return rewrite_unary(rewrite, root, RLX_OP_SQUARE, x);
    }
    if (op == RLX_OP_POW && is_right && number == 3 && is_same) {
        const rlx_unary_attrs attrs = {0};
        rlx_value_id factors[2] = {x};
        RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_SQUARE, &attrs, &x, 1, &factors[1]));
        return rlx_rewrite_node(rewrite, root, RLX_OP_MUL, NULL, factors, 2, NULL);
    }
    if (op == RLX_OP_DIV && !is_right && number == 1) {
        rlx_node_id inner = rlx_rewrite_inner(rewrite, root, x, RLX_OP_SQRT);
        if (inner == RLX_NONE) return rewrite_unary(rewrite, root, RLX_OP_RECIPROCAL, x);
        return rewrite_unary(rewrite, root, RLX_OP_RSQRT, rlx_rewrite_input(rewrite, inner, 0));
    }
    return RLX_OK;
}

rlx_status rlx_canonicalise_arithmetic(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_op op = rlx_rewrite_op(rewrite, root);
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0);
    switch (op) {
    case RLX_OP_MUL:
        if (x == rlx_rewrite_input(rewrite, root, 1) &&
            rlx_dtype_is_float(rlx_rewrite_type(rewrite, x)->dtype)) {
            return rewrite_unary(rewrite, root, RLX_OP_SQUARE, x);
        }
        return simplify_constant(rewrite, root);
    case RLX_OP_ADD:
    case RLX_OP_SUB:
    case RLX_OP_DIV:
    case RLX_OP_POW:
        return simplify_constant(rewrite, root);
    case RLX_OP_RECIPROCAL: {
        rlx_node_id inner = rlx_rewrite_inner(rewrite, root, x, RLX_OP_SQRT);
        if (inner == RLX_NONE) return RLX_OK;
        return rewrite_unary(rewrite, root, RLX_OP_RSQRT, rlx_rewrite_input(rewrite, inner, 0));
    }
    default:
        return RLX_OK;
    }
}

static rlx_status visit(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    static rlx_status (*const rules[])(rlx_rewrite *, rlx_node_id) = {
        rlx_canonicalise_index,  rlx_canonicalise_view,       rlx_canonicalise_arithmetic,
        rlx_canonicalise_matmul, rlx_canonicalise_activation, rlx_canonicalise_norm,
        rlx_canonicalise_pool,   rlx_canonicalise_conv,
    };
    (void)user;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rewrite->graph->nodes.items[root].is_dead) break;
        RLX_TRY(rules[i](rewrite, root));
    }
    return RLX_OK;
}

rlx_status rlx_pass_canonicalise(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_rewrite_walk(&rewrite, visit, NULL));
    return rlx_rewrite_finish(&rewrite);
}
