/* SPDX-License-Identifier: Apache-2.0 */
/* Moves along spatial axes of values in blocks: slices, pads, pixels that are repeated, and phases
 * that are woven together. */
#include "compile/blocker.h"

#include <string.h>

/* Whole blocks that a conv wants at the end; a value that leaves them is better moved plain. */
static bool is_moved_in_blocks(const rlx_blocker *self, rlx_value_id x, rlx_value_id y) {
    return rlx_blocker_twin(self, x) != RLX_NONE && self->is_wanted[y] &&
           rlx_blocker_is_image(self, y) && rlx_blocker_has_whole(self, x) &&
           rlx_blocker_has_whole(self, y);
}

/* A slice of channels is one of blocks where it begins and ends with one. */
static rlx_status visit_slice(rlx_blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_slice_attrs attrs = *(const rlx_slice_attrs *)node->attrs;
    rlx_value_id x = rlx_blocker_twin(self, node->inputs[0]);
    if (!is_moved_in_blocks(self, node->inputs[0], node->outputs[0])) return RLX_OK;
    const rlx_shape *shape = &rlx_blocker_type(self, node->inputs[0])->shape;
    for (uint32_t i = 0; i < attrs.starts.count; i++) {
        int64_t axis = attrs.axes.count == 0 ? i : attrs.axes.items[i];
        if (axis < 0) axis += shape->rank;
        if (attrs.axes.count != 0) attrs.axes.items[i] = axis;
        if (axis != 1) continue;
        int64_t start = attrs.starts.items[i], end = attrs.ends.items[i];
        if (end > shape->dims[1]) end = shape->dims[1];
        if (start < 0 || end < start || start % self->block != 0 || end % self->block != 0 ||
            (attrs.steps.count != 0 && attrs.steps.items[i] != 1)) {
            return RLX_OK;
        }
        attrs.starts.items[i] = start / self->block;
        attrs.ends.items[i] = end / self->block;
    }
    return rlx_blocker_put_like(self, id, &attrs, &x, 1);
}

static rlx_status visit_pad(rlx_blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_pad_attrs attrs = *(const rlx_pad_attrs *)node->attrs;
    const rlx_pad_attrs plain = attrs;
    rlx_value_id x = rlx_blocker_twin(self, node->inputs[0]);
    if (!is_moved_in_blocks(self, node->inputs[0], node->outputs[0])) return RLX_OK;
    uint32_t rank = rlx_blocker_type(self, node->inputs[0])->shape.rank;
    if (plain.pads.count != 2 * rank || plain.pads.items[1] != 0 ||
        plain.pads.items[rank + 1] != 0) {
        return RLX_OK;
    }
    attrs.pads = (rlx_ints){.count = 2 * rank + 2};
    for (uint32_t i = 0; i < rank; i++) {
        attrs.pads.items[i] = plain.pads.items[i];
        attrs.pads.items[rank + 1 + i] = plain.pads.items[rank + i];
    }
    return rlx_blocker_put_like(self, id, &attrs, &x, 1);
}

/* The node of this op that makes a value; NULL: another one does. */
static const rlx_node *maker(const rlx_blocker *self, rlx_value_id value, rlx_op op) {
    rlx_node_id producer = self->graph->values.items[value].producer;
    if (producer == RLX_NONE || self->graph->nodes.items[producer].op != op) return NULL;
    return &self->graph->nodes.items[producer];
}

/* A shape of [N][C][rest..] in blocks; false: it is another, or has too many axes. */
static bool blocked_dims(const rlx_blocker *self, rlx_value_id value, const rlx_shape *image,
                         int64_t *dims) {
    const rlx_shape *shape = &rlx_blocker_type(self, value)->shape;
    if (shape->rank < 3 || shape->rank >= RLX_MAX_RANK || shape->dims[0] != image->dims[0] ||
        shape->dims[1] != image->dims[1]) {
        return false;
    }
    memcpy(dims, shape->dims, shape->rank * sizeof *dims);
    dims[1] /= self->block;
    dims[shape->rank] = self->block;
    return true;
}

/* reshape(expand(reshape(x))): pixels that are repeated, as in a resize by whole factors. */
static rlx_status visit_repeat(rlx_blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    int64_t with[RLX_MAX_RANK], wide[RLX_MAX_RANK], result[RLX_MAX_RANK];
    char name[96];
    const rlx_node *expand = maker(self, node->inputs[0], RLX_OP_EXPAND);
    const rlx_node *first = expand ? maker(self, expand->inputs[0], RLX_OP_RESHAPE) : NULL;
    if (first == NULL || !is_moved_in_blocks(self, first->inputs[0], node->outputs[0])) {
        return RLX_OK;
    }
    const rlx_shape image = rlx_blocker_type(self, first->inputs[0])->shape;
    uint32_t rank = rlx_blocker_type(self, expand->inputs[0])->shape.rank;
    rlx_value_id x = rlx_blocker_twin(self, first->inputs[0]), y = node->outputs[0];
    if (!blocked_dims(self, expand->inputs[0], &image, with) ||
        !blocked_dims(self, node->inputs[0], &image, wide) ||
        !blocked_dims(self, y, &image, result) ||
        rlx_blocker_type(self, node->inputs[0])->shape.rank != rank) {
        return RLX_OK;
    }
    rlx_reshape_attrs attrs = {.shape = {.count = rank + 1}};
    memcpy(attrs.shape.items, wide, (rank + 1) * sizeof *wide);
    RLX_TRY(rlx_blocker_reshape(self, x, with, rank + 1, &x));
    RLX_TRY(rlx_blocker_put(self, RLX_OP_EXPAND, &attrs, &x, 1, NULL, &x));
    attrs.shape.count = rlx_blocker_type(self, y)->shape.rank + 1;
    memcpy(attrs.shape.items, result, attrs.shape.count * sizeof *result);
    RLX_TRY(rlx_blocker_put(self, RLX_OP_RESHAPE, &attrs, &x, 1,
                            rlx_blocker_name(self, id, name, sizeof name), &x));
    return rlx_blocker_replace(self, id, x);
}

/* The order that weaves [N][s..][C][Q..] to [N][C][Q][s].., with `count` axes of each. */
static rlx_ints woven_order(uint32_t count) {
    rlx_ints order = {.count = 2 + 2 * count, .items = {0, 1 + count}};
    for (uint32_t i = 0; i < count; i++)
        order.items[2 + 2 * i] = 2 + count + i, order.items[3 + 2 * i] = 1 + i;
    return order;
}

/* Whether x is [N][s.. C][Q..], its parts as `apart` has them, and y [N][C][Q s..]. */
static bool is_woven(const rlx_shape *x, const rlx_shape *apart, const rlx_ints *perm,
                     const rlx_shape *y) {
    const uint32_t count = x->rank - 2;
    const rlx_ints order = woven_order(count);
    if (y->rank != x->rank || apart->rank != 2 + 2 * count || perm->count != apart->rank ||
        memcmp(perm->items, order.items, order.count * sizeof *order.items) != 0 ||
        apart->dims[0] != x->dims[0] || y->dims[0] != x->dims[0] ||
        y->dims[1] != apart->dims[1 + count]) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (apart->dims[2 + count + i] != x->dims[2 + i] ||
            y->dims[2 + i] != x->dims[2 + i] * apart->dims[1 + i])
            return false;
    }
    return true;
}

/* reshape(transpose(reshape(x))) that weaves channels into pixels, as what a transposed conv leaves
 * and depth to space does: blocks of channels are moved as they are. */
static rlx_status visit_weave(rlx_blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    char name[96];
    const rlx_node *turn = maker(self, node->inputs[0], RLX_OP_TRANSPOSE);
    const rlx_node *first = turn ? maker(self, turn->inputs[0], RLX_OP_RESHAPE) : NULL;
    if (first == NULL || !rlx_blocker_is_image(self, first->inputs[0]) ||
        !is_moved_in_blocks(self, first->inputs[0], node->outputs[0])) {
        return RLX_OK;
    }
    const rlx_transpose_attrs *plain = turn->attrs;
    rlx_value_id x = rlx_blocker_twin(self, first->inputs[0]);
    const rlx_shape image = rlx_blocker_type(self, first->inputs[0])->shape;
    const rlx_shape y = rlx_blocker_type(self, node->outputs[0])->shape;
    rlx_shape apart = rlx_blocker_type(self, turn->inputs[0])->shape;
    if (!is_woven(&image, &apart, &plain->perm, &y)) return RLX_OK;
    rlx_transpose_attrs order = {.perm = woven_order(image.rank - 2)};
    rlx_reshape_attrs woven = {.shape = {.count = y.rank + 1}};
    order.perm.items[order.perm.count++] = apart.rank;
    apart.dims[image.rank - 1] /= self->block;
    apart.dims[apart.rank] = self->block;
    memcpy(woven.shape.items, y.dims, y.rank * sizeof *y.dims);
    woven.shape.items[1] /= self->block;
    woven.shape.items[y.rank] = self->block;
    RLX_TRY(rlx_blocker_reshape(self, x, apart.dims, apart.rank + 1, &x));
    RLX_TRY(rlx_blocker_put(self, RLX_OP_TRANSPOSE, &order, &x, 1, NULL, &x));
    RLX_TRY(rlx_blocker_put(self, RLX_OP_RESHAPE, &woven, &x, 1,
                            rlx_blocker_name(self, id, name, sizeof name), &x));
    return rlx_blocker_replace(self, id, x);
}

rlx_status rlx_blocker_move(rlx_blocker *self, rlx_node_id node) {
    const rlx_op op = self->graph->nodes.items[node].op;
    if (op == RLX_OP_SLICE) return visit_slice(self, node);
    if (op == RLX_OP_PAD) return visit_pad(self, node);
    if (maker(self, self->graph->nodes.items[node].inputs[0], RLX_OP_TRANSPOSE) != NULL)
        return visit_weave(self, node);
    return visit_repeat(self, node);
}
