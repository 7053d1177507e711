/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical views: squeeze, unsqueeze, flatten and a transpose that moves no data are reshapes with
 * all dims written out; two in a row are one; one that changes nothing goes. */
#include "compile/canonicalise.h"

#include "ir/view.h"

#include <string.h>

/* perm of a transpose as indices; empty means reversed. */
static void read_perm(const rlx_transpose_attrs *attrs, uint32_t rank, uint32_t *out_perm) {
    for (uint32_t i = 0; i < rank; i++) {
        int64_t axis = attrs->perm.count == 0 ? (int64_t)(rank - 1 - i) : attrs->perm.items[i];
        out_perm[i] = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
    }
}

static uint32_t rank_of(const rlx_rewrite *rewrite, rlx_value_id value) {
    return rlx_rewrite_type(rewrite, value)->shape.rank;
}

/* Axes of more than one element keep their order. */
static bool moves_nothing(const rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0);
    const rlx_type *type = rlx_rewrite_type(rewrite, x);
    uint32_t perm[RLX_MAX_RANK], last = 0;
    read_perm(rlx_rewrite_attrs(rewrite, root), type->shape.rank, perm);
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (type->shape.dims[perm[i]] == 1 && type->extents[perm[i]] == RLX_NONE) continue;
        if (perm[i] < last) return false;
        last = perm[i];
    }
    return true;
}

/* A reshape to the shape that the output has. A dim of 0 cannot be written: 0 copies one. */
static rlx_status become_reshape(rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id x) {
    const rlx_shape *shape = &rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root))->shape;
    rlx_reshape_attrs attrs = {.shape = {.count = shape->rank}};
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == 0) return RLX_OK;
        attrs.shape.items[i] = shape->dims[i];
    }
    const rlx_node *node = &rewrite->graph->nodes.items[root];
    if (node->op == RLX_OP_RESHAPE && x == rlx_rewrite_input(rewrite, root, 0) &&
        rlx_attrs_equal(RLX_OP_RESHAPE, node->attrs, &attrs)) {
        return RLX_OK;
    }
    return rlx_rewrite_node(rewrite, root, RLX_OP_RESHAPE, &attrs, &x, 1, NULL);
}

/* The node in front, if this one may read what that one reads. */
static rlx_node_id view_before(const rlx_rewrite *rewrite, rlx_node_id root, rlx_op op) {
    rlx_node_id id = rlx_rewrite_producer(rewrite, rlx_rewrite_input(rewrite, root, 0), op);
    return id != RLX_NONE && rlx_rewrite_may_move(rewrite, id, root) ? id : RLX_NONE;
}

static rlx_status canonicalise_reshape(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_node_id before = view_before(rewrite, root, RLX_OP_RESHAPE);
    if (before != RLX_NONE) {
        return become_reshape(rewrite, root, rlx_rewrite_input(rewrite, before, 0));
    }
    return become_reshape(rewrite, root, rlx_rewrite_input(rewrite, root, 0));
}

static rlx_status canonicalise_transpose(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_node_id before = view_before(rewrite, root, RLX_OP_TRANSPOSE);
    if (before != RLX_NONE) {
        rlx_value_id x = rlx_rewrite_input(rewrite, before, 0);
        uint32_t rank = rank_of(rewrite, x), first[RLX_MAX_RANK], second[RLX_MAX_RANK];
        rlx_transpose_attrs attrs = {.perm = {.count = rank}};
        read_perm(rlx_rewrite_attrs(rewrite, before), rank, first);
        read_perm(rlx_rewrite_attrs(rewrite, root), rank, second);
        for (uint32_t i = 0; i < rank; i++)
            attrs.perm.items[i] = first[second[i]];
        RLX_TRY(rlx_rewrite_node(rewrite, root, RLX_OP_TRANSPOSE, &attrs, &x, 1, NULL));
    }
    if (!moves_nothing(rewrite, root)) return RLX_OK;
    return become_reshape(rewrite, root, rlx_rewrite_input(rewrite, root, 0));
}

static bool slice_keeps_all(const rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_shape *shape = &rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 0))->shape;
    rlx_slice_axis axes[RLX_MAX_RANK];
    if (rlx_slice_resolve(rlx_rewrite_attrs(rewrite, root), shape->rank, shape->dims, axes) !=
        RLX_OK) {
        return false;
    }
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (axes[i].step != 1 || axes[i].size != shape->dims[i]) return false;
    }
    return true;
}

static bool pads_nothing(const rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_pad_attrs *attrs = rlx_rewrite_attrs(rewrite, root);
    for (uint32_t i = 0; i < attrs->pads.count; i++) {
        if (attrs->pads.items[i] != 0) return false;
    }
    return true;
}

/* Of a node whose output has its input's type. */
static bool keeps_content(const rlx_rewrite *rewrite, rlx_node_id root) {
    switch (rlx_rewrite_op(rewrite, root)) {
    case RLX_OP_TRANSPOSE:
        return moves_nothing(rewrite, root);
    case RLX_OP_SLICE:
        return slice_keeps_all(rewrite, root);
    case RLX_OP_PAD:
        return pads_nothing(rewrite, root);
    default:
        return true;
    }
}

static bool changes_nothing(const rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_node *node = &rewrite->graph->nodes.items[root];
    switch (node->op) {
    case RLX_OP_IDENTITY:
    case RLX_OP_RESHAPE: /* also what squeeze, unsqueeze and flatten have become */
    case RLX_OP_SQUEEZE:
    case RLX_OP_UNSQUEEZE:
    case RLX_OP_FLATTEN:
    case RLX_OP_EXPAND:
    case RLX_OP_TILE:
    case RLX_OP_CAST:
    case RLX_OP_CONCAT:
    case RLX_OP_SPLIT:
    case RLX_OP_TRANSPOSE:
    case RLX_OP_SLICE:
    case RLX_OP_PAD:
        break;
    default:
        return false;
    }
    if (node->input_count != 1 || node->output_count != 1) return false;
    const rlx_type *out = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root));
    const rlx_type *in = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 0));
    return rlx_rewrite_same_type(rewrite, out, in) && keeps_content(rewrite, root);
}

rlx_status rlx_canonicalise_view(rlx_rewrite *rewrite, rlx_node_id root) {
    switch (rlx_rewrite_op(rewrite, root)) {
    case RLX_OP_RESHAPE:
    case RLX_OP_SQUEEZE:
    case RLX_OP_UNSQUEEZE:
    case RLX_OP_FLATTEN:
        RLX_TRY(canonicalise_reshape(rewrite, root));
        break;
    case RLX_OP_TRANSPOSE:
        RLX_TRY(canonicalise_transpose(rewrite, root));
        break;
    default:
        break;
    }
    if (rlx_rewrite_op(rewrite, root) == RLX_OP_RESHAPE) {
        RLX_TRY(canonicalise_reshape(rewrite, root)); /* a transpose may have become one */
    }
    if (changes_nothing(rewrite, root)) {
        rlx_rewrite_bypass(rewrite, root, rlx_rewrite_input(rewrite, root, 0));
    }
    return RLX_OK;
}
