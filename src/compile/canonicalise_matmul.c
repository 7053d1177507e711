/* SPDX-License-Identifier: Apache-2.0 */
/* What stands around a matmul and is an attribute of it: transposes of the last two axes of its
 * operands, a scalar factor before or behind it. */
#include "compile/canonicalise.h"

static rlx_status rewrite_matmul(rlx_rewrite *rewrite, rlx_node_id root, rlx_node_id matmul,
                                 const rlx_matmul_attrs *attrs, uint32_t input,
                                 rlx_value_id replaced_by, bool *out_done) {
    const rlx_node *node = &rewrite->graph->nodes.items[matmul];
    rlx_value_id inputs[4];
    for (uint32_t i = 0; i < node->input_count; i++)
        inputs[i] = i == input ? replaced_by : rlx_rewrite_input(rewrite, matmul, i);
    return rlx_rewrite_node(rewrite, root, RLX_OP_MATMUL, attrs, inputs, node->input_count,
                            out_done);
}

/* Swaps the last two axes and leaves the others. */
static bool swaps_last_two(const rlx_rewrite *rewrite, rlx_node_id transpose) {
    const rlx_transpose_attrs *attrs = rlx_rewrite_attrs(rewrite, transpose);
    uint32_t rank = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, transpose))->shape.rank;
    if (rank < 2) return false;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t wanted = i + 2 < rank ? i : (i + 1 == rank ? rank - 2 : rank - 1);
        int64_t axis = attrs->perm.count == 0 ? (int64_t)(rank - 1 - i) : attrs->perm.items[i];
        if (axis < 0) axis += (int64_t)rank;
        if (axis != (int64_t)wanted) return false;
    }
    return true;
}

static rlx_status take_transpose(rlx_rewrite *rewrite, rlx_node_id root, uint32_t input) {
    rlx_node_id transpose =
        rlx_rewrite_producer(rewrite, rlx_rewrite_input(rewrite, root, input), RLX_OP_TRANSPOSE);
    if (transpose == RLX_NONE || !swaps_last_two(rewrite, transpose) ||
        !rlx_rewrite_may_move(rewrite, transpose, root)) {
        return RLX_OK;
    }
    rlx_matmul_attrs attrs = *(const rlx_matmul_attrs *)rlx_rewrite_attrs(rewrite, root);
    bool *is_transposed = input == 0 ? &attrs.transpose_a : &attrs.transpose_b;
    *is_transposed = !*is_transposed;
    return rewrite_matmul(rewrite, root, root, &attrs, input,
                          rlx_rewrite_input(rewrite, transpose, 0), NULL);
}

static bool is_f32(const rlx_rewrite *rewrite, rlx_node_id node) {
    return rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, node))->dtype == RLX_DTYPE_F32;
}

static double alpha_of(const rlx_matmul_attrs *attrs) {
    return attrs->alpha == 0 ? 1 : attrs->alpha;
}

/* matmul(a c, b) = c matmul(a, b). */
static rlx_status take_factor_before(rlx_rewrite *rewrite, rlx_node_id root, uint32_t input) {
    rlx_value_id value = rlx_rewrite_input(rewrite, root, input), x;
    rlx_node_id scaled = rlx_rewrite_inner(rewrite, root, value, RLX_OP_NONE);
    rlx_matmul_attrs attrs = *(const rlx_matmul_attrs *)rlx_rewrite_attrs(rewrite, root);
    double factor;
    if (scaled == RLX_NONE || !is_f32(rewrite, root) || !is_f32(rewrite, scaled) ||
        !rlx_match_factor(rewrite, scaled, &x, &factor) ||
        !rlx_rewrite_same_type(rewrite, rlx_rewrite_type(rewrite, x),
                               rlx_rewrite_type(rewrite, value))) {
        return RLX_OK;
    }
    attrs.alpha = alpha_of(&attrs) * factor;
    return rewrite_matmul(rewrite, root, root, &attrs, input, x, NULL);
}

/* root = c matmul(a, b). */
static rlx_status take_factor_behind(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_value_id product;
    double factor;
    if (!is_f32(rewrite, root) || !rlx_match_factor(rewrite, root, &product, &factor)) {
        return RLX_OK;
    }
    rlx_node_id matmul = rlx_rewrite_inner(rewrite, root, product, RLX_OP_MATMUL);
    if (matmul == RLX_NONE) return RLX_OK;
    rlx_matmul_attrs attrs = *(const rlx_matmul_attrs *)rlx_rewrite_attrs(rewrite, matmul);
    if (attrs.activation.op != RLX_OP_NONE || rlx_rewrite_input(rewrite, matmul, 2) != RLX_NONE ||
        rlx_rewrite_input(rewrite, matmul, 3) != RLX_NONE) {
        return RLX_OK;
    }
    attrs.alpha = alpha_of(&attrs) * factor;
    return rewrite_matmul(rewrite, root, matmul, &attrs, UINT32_MAX, RLX_NONE, NULL);
}

rlx_status rlx_canonicalise_matmul(rlx_rewrite *rewrite, rlx_node_id root) {
    switch (rlx_rewrite_op(rewrite, root)) {
    case RLX_OP_MATMUL:
        for (uint32_t i = 0; i < 2; i++) {
            RLX_TRY(take_factor_before(rewrite, root, i));
            RLX_TRY(take_transpose(rewrite, root, i));
            RLX_TRY(take_factor_before(rewrite, root, i)); /* it may stand before the transpose */
        }
        return RLX_OK;
    case RLX_OP_MUL:
    case RLX_OP_DIV:
        return take_factor_behind(rewrite, root);
    default:
        return RLX_OK;
    }
}
