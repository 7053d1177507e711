/* SPDX-License-Identifier: Apache-2.0 */
/* Fuse epilogues: a matmul or conv takes over the bias, residual and activation that follow it:
 * act(alpha a b + bias + residual); or, of matmul, a factor: act(alpha a b + bias) * factor. Nodes
 * are visited in order, so each add or activation finds what those before it have made of the
 * product. */
#include "compile/fuse_epilogue.h"
#include "ir/infer.h"

#include <string.h>

enum { BIAS = 2, RESIDUAL = 3, INPUTS = 6 };

/* A matmul or conv that `root` could become. */
typedef struct product {
    rlx_node_id node;
    rlx_op op;
    rlx_value_id inputs[INPUTS];
    const rlx_type *type;
} product;

static bool is_matmul(const product *found) {
    return found->op == RLX_OP_MATMUL || found->op == RLX_OP_MATMUL_QUANTISED;
}

static bool is_gated(const rlx_rewrite *rewrite, const product *found) {
    const rlx_matmul_attrs *attrs = rlx_rewrite_attrs(rewrite, found->node);
    return is_matmul(found) && attrs->gated;
}

static bool has_activation(const rlx_rewrite *rewrite, const product *found) {
    const void *attrs = rlx_rewrite_attrs(rewrite, found->node);
    const rlx_activation *activation = is_matmul(found)
                                           ? &((const rlx_matmul_attrs *)attrs)->activation
                                           : &((const rlx_conv_attrs *)attrs)->activation;
    return activation->op != RLX_OP_NONE;
}

static bool find_product(const rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id value,
                         product *out_product) {
    rlx_node_id id = rlx_rewrite_inner(rewrite, root, value, RLX_OP_NONE);
    if (id == RLX_NONE) return false;
    product found = {
        .node = id, .op = rlx_rewrite_op(rewrite, id), .type = rlx_rewrite_type(rewrite, value)};
    if (!is_matmul(&found) && found.op != RLX_OP_CONV && found.op != RLX_OP_CONV_TRANSPOSE) {
        return false;
    }
    for (uint32_t i = 0; i < INPUTS; i++)
        found.inputs[i] = rlx_rewrite_input(rewrite, id, i);
    *out_product = found;
    return rlx_dtype_is_float(found.type->dtype) && !is_gated(rewrite, &found) &&
           rlx_rewrite_same_type(rewrite, found.type,
                                 rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root)));
}

/* Every dim but the one that meets `axis` of `type` is 1, and that one is whole. */
static bool is_vector_along(const rlx_type *addend, const rlx_type *type, uint32_t axis) {
    uint32_t missing = type->shape.rank - addend->shape.rank;
    if (addend->shape.rank > type->shape.rank || axis < missing) return false;
    for (uint32_t i = 0; i < addend->shape.rank; i++) {
        int64_t wanted = i + missing == axis ? type->shape.dims[axis] : 1;
        if (addend->shape.dims[i] != wanted || addend->extents[i] != RLX_NONE) return false;
    }
    return type->extents[axis] == RLX_NONE;
}

/* The axis of the product along which its bias runs; for matmul also rows (an addend [M, 1]). */
static bool find_bias_axis(const rlx_rewrite *rewrite, const product *found, rlx_value_id addend,
                           uint32_t *out_axis) {
    const rlx_type *type = rlx_rewrite_type(rewrite, addend);
    uint32_t rank = found->type->shape.rank;
    *out_axis = is_matmul(found) ? rank - 1 : 1;
    if (rank == 0 || found->inputs[BIAS] != RLX_NONE) return false;
    if (is_vector_along(type, found->type, *out_axis)) return true;
    if (!is_matmul(found) || rank < 2) return false;
    *out_axis = rank - 2;
    return is_vector_along(type, found->type, *out_axis);
}

/* The bias as the kernel takes it: [C], or [M, 1] for the rows of a matmul. */
static rlx_status shape_bias(rlx_rewrite *rewrite, rlx_node_id root, const product *found,
                             uint32_t axis, rlx_value_id *bias) {
    bool is_rows = is_matmul(found) && axis + 2 == found->type->shape.rank;
    int64_t dims[2] = {found->type->shape.dims[axis], 1};
    return rlx_rewrite_reshaped(rewrite, root, *bias, dims, is_rows ? 2 : 1, bias);
}

static bool takes_residual(const rlx_rewrite *rewrite, const product *found, rlx_value_id addend) {
    return found->op != RLX_OP_CONV_TRANSPOSE && found->inputs[RESIDUAL] == RLX_NONE &&
           rlx_rewrite_same_type(rewrite, found->type, rlx_rewrite_type(rewrite, addend));
}

static rlx_status become(rlx_rewrite *rewrite, rlx_node_id root, const product *found,
                         const void *attrs) {
    uint32_t count = INPUTS;
    while (found->inputs[count - 1] == RLX_NONE)
        count--;
    return rlx_rewrite_node(rewrite, root, found->op, attrs, found->inputs, count, NULL);
}

/* root = found + addend. */
static rlx_status take_addend(rlx_rewrite *rewrite, rlx_node_id root, product *found,
                              rlx_value_id addend, bool *out_done) {
    uint32_t axis;
    *out_done = true;
    if (find_bias_axis(rewrite, found, addend, &axis)) {
        found->inputs[BIAS] = addend;
        RLX_TRY(shape_bias(rewrite, root, found, axis, &found->inputs[BIAS]));
    } else if (takes_residual(rewrite, found, addend)) {
        found->inputs[RESIDUAL] = addend;
    } else {
        *out_done = false;
        return RLX_OK;
    }
    return become(rewrite, root, found, rlx_rewrite_attrs(rewrite, found->node));
}

/* Of two products the later one takes the other as its residual: nothing then lives longer. */
static uint32_t later_product(const rlx_rewrite *rewrite, const product *found,
                              const bool *is_found) {
    if (!is_found[0] || !is_found[1]) return is_found[0] ? 0 : 1;
    return rewrite->positions[found[1].node] > rewrite->positions[found[0].node] ? 1 : 0;
}

static rlx_status visit_add(rlx_rewrite *rewrite, rlx_node_id root) {
    product found[2];
    bool is_found[2], is_done = false;
    for (uint32_t i = 0; i < 2; i++) {
        rlx_value_id value = rlx_rewrite_input(rewrite, root, i);
        is_found[i] =
            find_product(rewrite, root, value, &found[i]) && !has_activation(rewrite, &found[i]);
    }
    uint32_t first = later_product(rewrite, found, is_found);
    for (uint32_t i = 0; i < 2 && !is_done; i++) {
        uint32_t at = i == 0 ? first : 1 - first;
        if (!is_found[at]) continue;
        rlx_value_id addend = rlx_rewrite_input(rewrite, root, 1 - at);
        RLX_TRY(take_addend(rewrite, root, &found[at], addend, &is_done));
    }
    return RLX_OK;
}

/* act(a b + bias) * other: a gate, as in the hidden layers of most decoders. */
static rlx_status visit_mul(rlx_rewrite *rewrite, rlx_node_id root) {
    product found[2];
    bool is_found[2], is_scale;
    RLX_TRY(rlx_epilogue_take_scale(rewrite, root, &is_scale));
    if (is_scale) return RLX_OK;
    for (uint32_t i = 0; i < 2; i++) {
        rlx_value_id value = rlx_rewrite_input(rewrite, root, i);
        rlx_value_id other = rlx_rewrite_input(rewrite, root, 1 - i);
        is_found[i] = find_product(rewrite, root, value, &found[i]) && is_matmul(&found[i]) &&
                      takes_residual(rewrite, &found[i], other);
    }
    uint32_t at = later_product(rewrite, found, is_found);
    if (!is_found[at]) return RLX_OK;
    rlx_matmul_attrs attrs = *(const rlx_matmul_attrs *)rlx_rewrite_attrs(rewrite, found[at].node);
    attrs.gated = true;
    found[at].inputs[RESIDUAL] = rlx_rewrite_input(rewrite, root, 1 - at);
    return become(rewrite, root, &found[at], &attrs);
}

static rlx_status visit_activation(rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_unary_attrs *unary = rlx_rewrite_attrs(rewrite, root);
    rlx_activation activation = {rlx_rewrite_op(rewrite, root), unary->alpha, unary->beta};
    product found;
    if (!find_product(rewrite, root, rlx_rewrite_input(rewrite, root, 0), &found)) return RLX_OK;
    if (has_activation(rewrite, &found)) return RLX_OK;
    if (is_matmul(&found)) {
        rlx_matmul_attrs attrs = *(const rlx_matmul_attrs *)rlx_rewrite_attrs(rewrite, found.node);
        attrs.activation = activation;
        return become(rewrite, root, &found, &attrs);
    }
    rlx_conv_attrs attrs = *(const rlx_conv_attrs *)rlx_rewrite_attrs(rewrite, found.node);
    attrs.activation = activation;
    return become(rewrite, root, &found, &attrs);
}

static rlx_status visit(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    rlx_op op = rlx_rewrite_op(rewrite, root);
    (void)user;
    if (op == RLX_OP_ADD) return visit_add(rewrite, root);
    if (op == RLX_OP_MUL) return visit_mul(rewrite, root);
    if (op == RLX_OP_CAST) return rlx_epilogue_take_cast(rewrite, root);
    if (op >= RLX_OP_ABS && op <= RLX_OP_CLIP) return visit_activation(rewrite, root);
    return RLX_OK;
}

rlx_status rlx_pass_fuse_epilogue(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_rewrite_walk(&rewrite, visit, NULL));
    return rlx_rewrite_finish(&rewrite);
}
