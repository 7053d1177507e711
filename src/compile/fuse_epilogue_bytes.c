/* SPDX-License-Identifier: Apache-2.0 */
/* Fuse epilogues, products of 8-bit integers: f32(a b + offset) becomes a matmul_quantised, which
 * then takes a scale, like every product a bias, a residual and an activation (fuse_epilogue.c),
 * and at last what makes 8 bits of the result. So MatMulInteger with what follows it, QLinearMatMul
 * and their kin of ONNX are one step. The arithmetic stays the same, operation by operation. */
#include "compile/fuse_epilogue.h"

enum { SCALE = 4, OFFSET = 5, INPUTS = 6, MOST_OFFSETS = 4 };

static bool is_byte(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_U8 || dtype == RLX_DTYPE_I8;
}

/* One number, or one per column (of `rows`: per row) of `type`. */
static bool is_narrow(const rlx_rewrite *rewrite, rlx_value_id value, const rlx_type *type,
                      bool or_rows) {
    const rlx_type *other = rlx_rewrite_type(rewrite, value);
    uint32_t wide = 0;
    if (other->shape.rank > type->shape.rank || rlx_rewrite_has_extent(other)) return false;
    for (uint32_t i = 1; i <= other->shape.rank; i++) {
        int64_t dim = other->shape.dims[other->shape.rank - i];
        if (dim == 1) continue;
        if (i > (or_rows ? 2u : 1u) || dim != type->shape.dims[type->shape.rank - i]) return false;
        wide++;
    }
    return wide <= 1;
}

/* A product of bytes on its way to i32, and the addends on the way from it to the root. */
typedef struct found_sum {
    rlx_node_id product;
    rlx_value_id addends[MOST_OFFSETS];
    bool is_minus[MOST_OFFSETS];
    uint32_t count;
} found_sum;

static bool is_product_of_bytes(const rlx_rewrite *rewrite, rlx_node_id node) {
    const rlx_matmul_attrs *attrs = rlx_rewrite_attrs(rewrite, node);
    rlx_value_id a = rlx_rewrite_input(rewrite, node, 0), b = rlx_rewrite_input(rewrite, node, 1);
    return attrs->to == RLX_DTYPE_I32 && attrs->has_to && !attrs->gated &&
           is_byte(rlx_rewrite_type(rewrite, a)->dtype) &&
           is_byte(rlx_rewrite_type(rewrite, b)->dtype) &&
           rlx_rewrite_type(rewrite, b)->shape.rank >= 2 &&
           rlx_rewrite_fact(rewrite, b)->is_prepared &&
           rlx_rewrite_input(rewrite, node, 2) == RLX_NONE &&
           rlx_rewrite_input(rewrite, node, 3) == RLX_NONE;
}

/* Which input of `node`, an add or sub, leads on to the product: the one of full size. */
static bool take_offset(const rlx_rewrite *rewrite, rlx_node_id node, const rlx_type *type,
                        found_sum *found, rlx_value_id *value) {
    bool is_minus = rlx_rewrite_op(rewrite, node) == RLX_OP_SUB;
    if (found->count == MOST_OFFSETS || (!is_minus && rlx_rewrite_op(rewrite, node) != RLX_OP_ADD))
        return false;
    for (uint32_t i = 0; i < (is_minus ? 1u : 2u); i++) {
        rlx_value_id whole = rlx_rewrite_input(rewrite, node, i);
        rlx_value_id addend = rlx_rewrite_input(rewrite, node, 1 - i);
        if (!is_narrow(rewrite, addend, type, false) ||
            !rlx_rewrite_same_type(rewrite, rlx_rewrite_type(rewrite, whole), type)) {
            continue;
        }
        found->addends[found->count] = addend;
        found->is_minus[found->count++] = is_minus;
        *value = whole;
        return true;
    }
    return false;
}

static bool find_sum(const rlx_rewrite *rewrite, rlx_node_id root, found_sum *out) {
    rlx_value_id value = rlx_rewrite_input(rewrite, root, 0);
    const rlx_type *type = rlx_rewrite_type(rewrite, value);
    *out = (found_sum){.count = 0};
    if (type->dtype != RLX_DTYPE_I32) return false;
    for (;;) {
        rlx_node_id node = rlx_rewrite_inner(rewrite, root, value, RLX_OP_NONE);
        if (node == RLX_NONE) return false;
        if (rlx_rewrite_op(rewrite, node) == RLX_OP_MATMUL) {
            out->product = node;
            return is_product_of_bytes(rewrite, node);
        }
        if (!take_offset(rewrite, node, type, out, &value)) return false;
    }
}

/* All addends as one; modulo 2^32 their order is free. */
static rlx_status join_offsets(rlx_rewrite *rewrite, rlx_node_id root, const found_sum *found,
                               rlx_value_id *out_offset) {
    *out_offset = RLX_NONE;
    for (uint32_t i = 0; i < found->count; i++) {
        const rlx_value_id pair[] = {*out_offset, found->addends[i]};
        if (*out_offset == RLX_NONE && !found->is_minus[i]) {
            *out_offset = found->addends[i];
        } else if (*out_offset == RLX_NONE) {
            RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_NEG, NULL, pair + 1, 1, out_offset));
        } else {
            RLX_TRY(rlx_rewrite_insert(rewrite, root, found->is_minus[i] ? RLX_OP_SUB : RLX_OP_ADD,
                                       NULL, pair, 2, out_offset));
        }
    }
    return RLX_OK;
}

static rlx_status visit_numbers(rlx_rewrite *rewrite, rlx_node_id root) {
    found_sum found;
    if (!find_sum(rewrite, root, &found)) return RLX_OK;
    rlx_matmul_attrs attrs = *(const rlx_matmul_attrs *)rlx_rewrite_attrs(rewrite, found.product);
    rlx_value_id inputs[INPUTS] = {rlx_rewrite_input(rewrite, found.product, 0),
                                   rlx_rewrite_input(rewrite, found.product, 1),
                                   RLX_NONE,
                                   RLX_NONE,
                                   RLX_NONE,
                                   RLX_NONE};
    RLX_TRY(join_offsets(rewrite, root, &found, &inputs[OFFSET]));
    attrs.has_to = false;
    attrs.to = (rlx_dtype)0;
    return rlx_rewrite_node(rewrite, root, RLX_OP_MATMUL_QUANTISED, &attrs, inputs,
                            inputs[OFFSET] == RLX_NONE ? 2 : INPUTS, NULL);
}

/* What makes 8 bits of a value that is rounded: clip(value + zero) to the range of the dtype. */
static rlx_value_id match_quantiser(const rlx_rewrite *rewrite, rlx_node_id root, rlx_dtype dtype,
                                    double *out_zero) {
    const double least = dtype == RLX_DTYPE_I8 ? -128 : 0;
    rlx_node_id node =
        rlx_rewrite_inner(rewrite, root, rlx_rewrite_input(rewrite, root, 0), RLX_OP_CLIP);
    if (node == RLX_NONE) return RLX_NONE;
    const rlx_unary_attrs *range = rlx_rewrite_attrs(rewrite, node);
    if (range->alpha != least || range->beta != least + 255) return RLX_NONE;
    rlx_value_id value = rlx_rewrite_input(rewrite, node, 0);
    node = rlx_rewrite_inner(rewrite, root, value, RLX_OP_ADD);
    *out_zero = 0;
    if (node != RLX_NONE) {
        uint32_t at = rlx_rewrite_scalar(rewrite, rlx_rewrite_input(rewrite, node, 1), out_zero);
        if (at == 0 && !rlx_rewrite_scalar(rewrite, rlx_rewrite_input(rewrite, node, 0), out_zero))
            return RLX_NONE;
        value = rlx_rewrite_input(rewrite, node, 1 - at);
    }
    bool is_whole =
        *out_zero >= least && *out_zero <= least + 255 && *out_zero == (double)(int64_t)*out_zero;
    return is_whole ? value : RLX_NONE;
}

/* round(v) of a product: as a node, or as the activation that it has become. */
static rlx_node_id match_rounded(const rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id value,
                                 rlx_matmul_attrs *out_attrs) {
    rlx_node_id round = rlx_rewrite_inner(rewrite, root, value, RLX_OP_ROUND);
    if (round != RLX_NONE) value = rlx_rewrite_input(rewrite, round, 0);
    rlx_node_id node = rlx_rewrite_inner(rewrite, root, value, RLX_OP_MATMUL_QUANTISED);
    if (node == RLX_NONE) return RLX_NONE;
    *out_attrs = *(const rlx_matmul_attrs *)rlx_rewrite_attrs(rewrite, node);
    if (round != RLX_NONE) return node;
    if (out_attrs->activation.op != RLX_OP_ROUND || out_attrs->gated) return RLX_NONE;
    out_attrs->activation = (rlx_activation){.op = RLX_OP_NONE};
    return node;
}

static rlx_status visit_bytes(rlx_rewrite *rewrite, rlx_node_id root, rlx_dtype dtype) {
    double zero;
    rlx_matmul_attrs attrs;
    rlx_value_id inputs[INPUTS], value = match_quantiser(rewrite, root, dtype, &zero);
    if (value == RLX_NONE) return RLX_OK;
    rlx_node_id node = match_rounded(rewrite, root, value, &attrs);
    if (node == RLX_NONE) return RLX_OK;
    uint32_t count = rewrite->graph->nodes.items[node].input_count;
    for (uint32_t i = 0; i < count; i++)
        inputs[i] = rlx_rewrite_input(rewrite, node, i);
    attrs.has_to = true;
    attrs.to = dtype;
    attrs.zero = (int64_t)zero;
    return rlx_rewrite_node(rewrite, root, RLX_OP_MATMUL_QUANTISED, &attrs, inputs, count, NULL);
}

rlx_status rlx_epilogue_take_cast(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_dtype dtype = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root))->dtype;
    const rlx_target *target = rewrite->context->target;
    /* Other targets have no kernel for it, but for its parts. */
    if (target == NULL || target->channel_block == 0) return RLX_OK;
    if (dtype == RLX_DTYPE_F32) return visit_numbers(rewrite, root);
    return is_byte(dtype) ? visit_bytes(rewrite, root, dtype) : RLX_OK;
}

/* root = the bare numbers of a matmul_quantised times one number, or one per row or column. */
rlx_status rlx_epilogue_take_scale(rlx_rewrite *rewrite, rlx_node_id root, bool *out_done) {
    const rlx_type *type = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root));
    *out_done = false;
    for (uint32_t i = 0; i < 2; i++) {
        rlx_value_id value = rlx_rewrite_input(rewrite, root, i);
        rlx_value_id scale = rlx_rewrite_input(rewrite, root, 1 - i);
        rlx_node_id node = rlx_rewrite_inner(rewrite, root, value, RLX_OP_MATMUL_QUANTISED);
        if (node == RLX_NONE || !is_narrow(rewrite, scale, type, true)) continue;
        rlx_matmul_attrs attrs = *(const rlx_matmul_attrs *)rlx_rewrite_attrs(rewrite, node);
        rlx_value_id inputs[INPUTS];
        bool is_bare = attrs.activation.op == RLX_OP_NONE;
        for (uint32_t k = 0; k < INPUTS; k++) {
            inputs[k] = rlx_rewrite_input(rewrite, node, k);
            is_bare = is_bare && (k < 2 || k == OFFSET || inputs[k] == RLX_NONE);
        }
        if (!is_bare) continue;
        inputs[SCALE] = scale;
        return rlx_rewrite_node(rewrite, root, RLX_OP_MATMUL_QUANTISED, &attrs, inputs,
                                inputs[OFFSET] == RLX_NONE ? OFFSET : INPUTS, out_done);
    }
    return RLX_OK;
}
