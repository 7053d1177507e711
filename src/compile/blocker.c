/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions to blocks of channels and back, and nodes on values in blocks. Blocks are an ordinary
 * axis: all that is written are reshapes, transposes, pads and slices. */
#include "compile/blocker.h"
#include "ir/infer.h"

#include <stdio.h>
#include <string.h>

rlx_value_id rlx_blocker_twin(const rlx_blocker *self, rlx_value_id value) {
    rlx_value_id found = value < self->count ? self->blocked[value] : RLX_NONE;
    if (found == RLX_NONE) return RLX_NONE;
    rlx_node_id producer = self->graph->values.items[found].producer;
    return self->graph->nodes.items[producer].block == self->body ? found : RLX_NONE;
}

static int64_t blocks_of(const rlx_blocker *self, int64_t channels) {
    return channels / self->block + (channels % self->block != 0);
}

bool rlx_blocker_is_exact(const rlx_type *type) {
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (type->extents[i] != RLX_NONE || type->shape.dims[i] <= 0) return false;
    }
    return true;
}

bool rlx_blocker_is_pixel(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F32 || dtype == RLX_DTYPE_U8 || dtype == RLX_DTYPE_I8 ||
           dtype == RLX_DTYPE_I32 || rlx_blocker_is_half(dtype);
}

bool rlx_blocker_is_image(const rlx_blocker *self, rlx_value_id value) {
    const rlx_type *type = rlx_blocker_type(self, value);
    return rlx_blocker_is_pixel(type->dtype) && type->layout == RLX_LAYOUT_PLAIN &&
           (type->shape.rank == 3 || type->shape.rank == 4) && rlx_blocker_is_exact(type);
}

rlx_status rlx_blocker_put(rlx_blocker *self, rlx_op op, const void *attrs,
                           const rlx_value_id *inputs, uint32_t input_count, const char *name,
                           rlx_value_id *out_value) {
    rlx_value_id value;
    rlx_node_id node;
    RLX_TRY(rlx_graph_new_value(self->graph, name, RLX_VALUE_TEMPORARY, &value));
    RLX_TRY(rlx_graph_insert_node(self->graph, self->body, self->at++, op, attrs, inputs,
                                  input_count, &value, 1, &node));
    *out_value = value;
    return RLX_OK;
}

rlx_status rlx_blocker_reshape(rlx_blocker *self, rlx_value_id value, const int64_t *dims,
                               uint32_t rank, rlx_value_id *out_value) {
    rlx_reshape_attrs attrs = {.shape = {.count = rank}};
    memcpy(attrs.shape.items, dims, rank * sizeof *dims);
    return rlx_blocker_put(self, RLX_OP_RESHAPE, &attrs, &value, 1, NULL, out_value);
}

/* Zeros up to a whole number of blocks. */
static rlx_status put_padding(rlx_blocker *self, rlx_value_id *value) {
    const rlx_shape shape = rlx_blocker_type(self, *value)->shape;
    rlx_pad_attrs attrs = {.pads = {.count = 2 * shape.rank}};
    attrs.pads.items[shape.rank + 1] = blocks_of(self, shape.dims[1]) * self->block - shape.dims[1];
    if (attrs.pads.items[shape.rank + 1] == 0) return RLX_OK;
    return rlx_blocker_put(self, RLX_OP_PAD, &attrs, value, 1, NULL, value);
}

rlx_status rlx_blocker_convert(rlx_blocker *self, rlx_value_id value, rlx_value_id *out_value) {
    const rlx_shape shape = rlx_blocker_type(self, value)->shape;
    int64_t dims[RLX_MAX_RANK] = {shape.dims[0], blocks_of(self, shape.dims[1]), self->block};
    rlx_transpose_attrs order = {.perm = {shape.rank + 1, {0, 1}}};
    rlx_value_id now = value;
    if (rlx_blocker_twin(self, value) != RLX_NONE) {
        *out_value = rlx_blocker_twin(self, value);
        return RLX_OK;
    }
    for (uint32_t i = 2; i < shape.rank; i++) {
        dims[i + 1] = shape.dims[i];
        order.perm.items[i] = i + 1;
    }
    order.perm.items[shape.rank] = 2;
    RLX_TRY(put_padding(self, &now));
    RLX_TRY(rlx_blocker_reshape(self, now, dims, shape.rank + 1, &now));
    RLX_TRY(rlx_blocker_put(self, RLX_OP_TRANSPOSE, &order, &now, 1, NULL, &now));
    RLX_TRY(rlx_blocker_put(self, RLX_OP_COPY, NULL, &now, 1, NULL, out_value));
    if (value < self->count) self->blocked[value] = *out_value;
    return RLX_OK;
}

rlx_status rlx_blocker_take_over(rlx_blocker *self, rlx_node_id node, rlx_op op, const void *attrs,
                                 rlx_value_id input) {
    rlx_value_id output = self->graph->nodes.items[node].outputs[0];
    rlx_node_id made;
    self->graph->nodes.items[node].is_dead = true;
    return rlx_graph_insert_node(self->graph, self->body, self->at++, op, attrs, &input, 1, &output,
                                 1, &made);
}

rlx_status rlx_blocker_replace(rlx_blocker *self, rlx_node_id node, rlx_value_id blocked) {
    rlx_value_id output = self->graph->nodes.items[node].outputs[0], now = blocked;
    const rlx_shape shape = rlx_blocker_type(self, output)->shape;
    int64_t dims[RLX_MAX_RANK];
    rlx_transpose_attrs order = {.perm = {shape.rank + 1, {0, 1, shape.rank}}};
    rlx_reshape_attrs whole = {.shape = {.count = shape.rank}};
    memcpy(dims, shape.dims, sizeof dims);
    dims[1] = blocks_of(self, shape.dims[1]) * self->block;
    memcpy(whole.shape.items, dims, shape.rank * sizeof *dims);
    for (uint32_t i = 2; i < shape.rank; i++)
        order.perm.items[i + 1] = i;
    RLX_TRY(rlx_blocker_put(self, RLX_OP_TRANSPOSE, &order, &now, 1, NULL, &now));
    if (output < self->count) self->blocked[output] = blocked;
    if (dims[1] == shape.dims[1])
        return rlx_blocker_take_over(self, node, RLX_OP_RESHAPE, &whole, now);
    rlx_slice_attrs slice = {.axes = {1, {1}}, .starts = {1, {0}}, .ends = {1, {shape.dims[1]}}};
    RLX_TRY(rlx_blocker_reshape(self, now, dims, shape.rank, &now));
    return rlx_blocker_take_over(self, node, RLX_OP_SLICE, &slice, now);
}

const char *rlx_blocker_name(const rlx_blocker *self, rlx_node_id node, char *buffer,
                             size_t bytes) {
    rlx_value_id output = self->graph->nodes.items[node].outputs[0], found;
    (void)snprintf(buffer, bytes, "%s.b", self->graph->values.items[output].name);
    return rlx_graph_find(self->graph, buffer, &found) == RLX_OK ? NULL : buffer;
}

rlx_status rlx_blocker_put_like(rlx_blocker *self, rlx_node_id node, const void *attrs,
                                const rlx_value_id *inputs, uint32_t count) {
    char name[96];
    rlx_op op = self->graph->nodes.items[node].op;
    rlx_value_id blocked = RLX_NONE;
    RLX_TRY(rlx_blocker_put(self, op, attrs, inputs, count,
                            rlx_blocker_name(self, node, name, sizeof name), &blocked));
    return rlx_blocker_replace(self, node, blocked);
}
