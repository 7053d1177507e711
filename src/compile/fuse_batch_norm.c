/* SPDX-License-Identifier: Apache-2.0 */
/* Fuse batch norms whose numbers are weights: y = x s + t per channel, with s = scale /
 * sqrt(variance
 * + epsilon) and t = bias - mean s. After a conv or matmul with known weights they become w s and
 * b s + t; elsewhere a mul and an add, which join chains. A mul or an add by weights per channel
 * behind such a product, as exporters spell norms and biases, goes the same way. What is done to
 * weights are ordinary nodes that lowering turns into prepare steps. */
#include "compile/rewrite.h"
#include "ir/infer.h"

enum { X, SCALE, SHIFT, MEAN, VARIANCE, INPUTS };

typedef struct folder {
    rlx_rewrite *rewrite;
    rlx_node_id root;
    rlx_dtype wide;            /* in which weights are computed */
    rlx_value_id scale, shift; /* s and t: [C], wide */
} folder;

static rlx_status binary(folder *self, rlx_op op, rlx_value_id a, rlx_value_id b,
                         rlx_value_id *out_value) {
    rlx_value_id inputs[2] = {a, b};
    return rlx_rewrite_insert(self->rewrite, self->root, op, NULL, inputs, 2, out_value);
}

/* s and t from the four vectors. */
static rlx_status make_vectors(folder *self) {
    rlx_rewrite *rewrite = self->rewrite;
    double epsilon = ((const rlx_norm_attrs *)rlx_rewrite_attrs(rewrite, self->root))->epsilon;
    rlx_value_id in[INPUTS], value;
    for (uint32_t i = SCALE; i < INPUTS; i++) {
        RLX_TRY(rlx_rewrite_cast(rewrite, self->root, rlx_rewrite_input(rewrite, self->root, i),
                                 self->wide, &in[i]));
    }
    RLX_TRY(rlx_rewrite_constant(rewrite, self->wide, epsilon, &value));
    RLX_TRY(binary(self, RLX_OP_ADD, in[VARIANCE], value, &value));
    RLX_TRY(rlx_rewrite_insert(rewrite, self->root, RLX_OP_RSQRT, NULL, &value, 1, &value));
    RLX_TRY(binary(self, RLX_OP_MUL, in[SCALE], value, &self->scale));
    RLX_TRY(binary(self, RLX_OP_MUL, in[MEAN], self->scale, &value));
    return binary(self, RLX_OP_SUB, in[SHIFT], value, &self->shift);
}

/* w times s along its output channels; w may be seen with its groups as an axis of their own. */
static rlx_status scale_weight(folder *self, rlx_node_id product, rlx_value_id *weight) {
    rlx_rewrite *rewrite = self->rewrite;
    rlx_type type = *rlx_rewrite_type(rewrite, *weight);
    rlx_op op = rlx_rewrite_op(rewrite, product);
    const void *attrs = rlx_rewrite_attrs(rewrite, product);
    int64_t seen[RLX_MAX_RANK], along[RLX_MAX_RANK];
    uint32_t rank = 0;
    rlx_value_id scale, wide;
    if (op == RLX_OP_CONV_TRANSPOSE) {
        /* [C][M / groups][..]: channel m belongs to group m / (M / groups). */
        int64_t groups = ((const rlx_conv_attrs *)attrs)->groups;
        if (groups == 0) groups = 1;
        along[rank] = seen[rank] = groups, rank++;
        along[rank] = 1, seen[rank] = type.shape.dims[0] / groups, rank++;
        along[rank] = seen[rank] = type.shape.dims[1], rank++;
        for (uint32_t i = 2; i < type.shape.rank; i++)
            along[rank] = 1, seen[rank] = type.shape.dims[i], rank++;
    } else {
        uint32_t axis = op == RLX_OP_CONV || ((const rlx_matmul_attrs *)attrs)->transpose_b ? 0 : 1;
        for (; rank < type.shape.rank; rank++) {
            seen[rank] = type.shape.dims[rank];
            along[rank] = rank == axis ? seen[rank] : 1;
        }
    }
    RLX_TRY(rlx_rewrite_reshaped(rewrite, self->root, self->scale, along, rank, &scale));
    RLX_TRY(rlx_rewrite_reshaped(rewrite, self->root, *weight, seen, rank, &wide));
    RLX_TRY(rlx_rewrite_cast(rewrite, self->root, wide, self->wide, &wide));
    RLX_TRY(binary(self, RLX_OP_MUL, wide, scale, &wide));
    RLX_TRY(rlx_rewrite_cast(rewrite, self->root, wide, type.dtype, &wide));
    return rlx_rewrite_reshaped(rewrite, self->root, wide, type.shape.dims, type.shape.rank,
                                weight);
}

/* An 8-bit weight would lose too much by being scaled and rounded again. */
static bool keeps_precision(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F64 || dtype == RLX_DTYPE_F32 || dtype == RLX_DTYPE_F16 ||
           dtype == RLX_DTYPE_BF16;
}

/* A conv, conv_transpose or matrix product on a known weight, with nothing yet behind its bias. */
static bool can_fold(const rlx_rewrite *rewrite, rlx_node_id id) {
    rlx_op op = rlx_rewrite_op(rewrite, id);
    const void *attrs = rlx_rewrite_attrs(rewrite, id);
    rlx_value_id weight = rlx_rewrite_input(rewrite, id, 1);
    rlx_value_id bias = rlx_rewrite_input(rewrite, id, 2);
    rlx_op activation;
    if (op == RLX_OP_MATMUL) {
        const rlx_type *type = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, id));
        activation = ((const rlx_matmul_attrs *)attrs)->activation.op;
        if (type->shape.rank != 2 || rlx_rewrite_type(rewrite, weight)->shape.rank != 2) {
            return false; /* the channel axis must be that of the columns */
        }
        if (bias != RLX_NONE && rlx_rewrite_type(rewrite, bias)->shape.rank != 1) return false;
    } else if (op == RLX_OP_CONV || op == RLX_OP_CONV_TRANSPOSE) {
        activation = ((const rlx_conv_attrs *)attrs)->activation.op;
    } else {
        return false;
    }
    return activation == RLX_OP_NONE && rlx_rewrite_input(rewrite, id, 3) == RLX_NONE &&
           rlx_rewrite_fact(rewrite, weight)->is_prepared &&
           keeps_precision(rlx_rewrite_type(rewrite, weight)->dtype) &&
           (bias == RLX_NONE || rlx_rewrite_fact(rewrite, bias)->is_prepared);
}

static rlx_status fold_into(folder *self, rlx_node_id product) {
    rlx_rewrite *rewrite = self->rewrite;
    rlx_value_id inputs[3], bias = rlx_rewrite_input(rewrite, product, 2);
    RLX_TRY(make_vectors(self));
    inputs[0] = rlx_rewrite_input(rewrite, product, 0);
    inputs[1] = rlx_rewrite_input(rewrite, product, 1);
    inputs[2] = self->shift;
    RLX_TRY(scale_weight(self, product, &inputs[1]));
    if (bias != RLX_NONE) {
        RLX_TRY(rlx_rewrite_cast(rewrite, self->root, bias, self->wide, &bias));
        RLX_TRY(binary(self, RLX_OP_MUL, bias, self->scale, &bias));
        RLX_TRY(binary(self, RLX_OP_ADD, bias, self->shift, &inputs[2]));
    }
    return rlx_rewrite_node(rewrite, self->root, rlx_rewrite_op(rewrite, product),
                            rlx_rewrite_attrs(rewrite, product), inputs, 3, NULL);
}

static rlx_status become_mul_add(folder *self) {
    rlx_rewrite *rewrite = self->rewrite;
    rlx_value_id x = rlx_rewrite_input(rewrite, self->root, X), inputs[2];
    const rlx_shape *shape = &rlx_rewrite_type(rewrite, x)->shape;
    int64_t dims[RLX_MAX_RANK] = {shape->dims[1]};
    uint32_t rank = shape->rank - 1;
    for (uint32_t i = 1; i < rank; i++)
        dims[i] = 1;
    RLX_TRY(make_vectors(self));
    RLX_TRY(rlx_rewrite_reshaped(rewrite, self->root, self->scale, dims, rank, &self->scale));
    RLX_TRY(rlx_rewrite_reshaped(rewrite, self->root, self->shift, dims, rank, &self->shift));
    RLX_TRY(binary(self, RLX_OP_MUL, x, self->scale, &inputs[0]));
    inputs[1] = self->shift;
    return rlx_rewrite_node(rewrite, self->root, RLX_OP_ADD, NULL, inputs, 2, NULL);
}

/* One number per channel (axis 1), or one for all. */
static bool is_per_channel(const rlx_type *type, const rlx_type *product) {
    uint32_t rank = product->shape.rank, missing = rank - type->shape.rank;
    if (type->dtype != product->dtype || type->shape.rank > rank) return false;
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        bool is_channel = i + missing == 1 && type->shape.dims[i] == product->shape.dims[1];
        if ((type->shape.dims[i] != 1 && !is_channel) || type->extents[i] != RLX_NONE) return false;
    }
    return product->extents[1] == RLX_NONE;
}

/* `value` as [C], wide. */
static rlx_status make_vector(folder *self, rlx_value_id value, int64_t channels,
                              rlx_value_id *out_value) {
    uint64_t elements = 0;
    RLX_TRY(rlx_shape_elements(&rlx_rewrite_type(self->rewrite, value)->shape, &elements));
    RLX_TRY(rlx_rewrite_reshaped(self->rewrite, self->root, value, &(int64_t){(int64_t)elements}, 1,
                                 &value));
    RLX_TRY(rlx_rewrite_cast(self->rewrite, self->root, value, self->wide, &value));
    if ((int64_t)elements != channels) {
        const rlx_reshape_attrs attrs = {{1, {channels}}};
        RLX_TRY(rlx_rewrite_insert(self->rewrite, self->root, RLX_OP_EXPAND, &attrs, &value, 1,
                                   &value));
    }
    *out_value = value;
    return RLX_OK;
}

/* root = product * vector, or product + vector. */
static rlx_status fold_vector(folder *self, rlx_node_id product, rlx_value_id vector) {
    rlx_rewrite *rewrite = self->rewrite;
    bool is_mul = rlx_rewrite_op(rewrite, self->root) == RLX_OP_MUL;
    rlx_value_id inputs[3], bias = rlx_rewrite_input(rewrite, product, 2);
    int64_t channels =
        rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, product))->shape.dims[1];
    RLX_TRY(make_vector(self, vector, channels, &vector));
    inputs[0] = rlx_rewrite_input(rewrite, product, 0);
    inputs[1] = rlx_rewrite_input(rewrite, product, 1);
    inputs[2] = is_mul ? RLX_NONE : vector;
    if (is_mul) {
        self->scale = vector;
        RLX_TRY(scale_weight(self, product, &inputs[1]));
    }
    if (bias != RLX_NONE) {
        RLX_TRY(rlx_rewrite_cast(rewrite, self->root, bias, self->wide, &bias));
        RLX_TRY(binary(self, is_mul ? RLX_OP_MUL : RLX_OP_ADD, bias, vector, &inputs[2]));
    }
    return rlx_rewrite_node(rewrite, self->root, rlx_rewrite_op(rewrite, product),
                            rlx_rewrite_attrs(rewrite, product), inputs,
                            bias != RLX_NONE || !is_mul ? 3 : 2, NULL);
}

/* A mul or add of a product's result and weights. */
static rlx_status visit_vector(folder *self) {
    rlx_rewrite *rewrite = self->rewrite;
    const rlx_type *type = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, self->root));
    if (!rlx_dtype_is_float(type->dtype) || type->shape.rank < 2) return RLX_OK;
    self->wide = type->dtype == RLX_DTYPE_F64 ? RLX_DTYPE_F64 : RLX_DTYPE_F32;
    for (uint32_t i = 0; i < 2; i++) {
        rlx_value_id value = rlx_rewrite_input(rewrite, self->root, i);
        rlx_value_id vector = rlx_rewrite_input(rewrite, self->root, 1 - i);
        rlx_node_id product = rlx_rewrite_inner(rewrite, self->root, value, RLX_OP_NONE);
        if (product == RLX_NONE || !rlx_rewrite_fact(rewrite, vector)->is_prepared ||
            !can_fold(rewrite, product) ||
            !rlx_rewrite_same_type(rewrite, rlx_rewrite_type(rewrite, value), type) ||
            !is_per_channel(rlx_rewrite_type(rewrite, vector), type)) {
            continue;
        }
        return fold_vector(self, product, vector);
    }
    return RLX_OK;
}

static rlx_status visit(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    folder self = {.rewrite = rewrite, .root = root};
    rlx_op op = rlx_rewrite_op(rewrite, root);
    (void)user;
    if ((op == RLX_OP_MUL || op == RLX_OP_ADD) && rewrite->graph->nodes.items[root].block == 0)
        return visit_vector(&self);
    if (rlx_rewrite_op(rewrite, root) != RLX_OP_BATCH_NORM) return RLX_OK;
    /* Inside a branch or loop nothing is prepared. */
    if (rewrite->graph->nodes.items[root].block != 0) return RLX_OK;
    for (uint32_t i = SCALE; i < INPUTS; i++) {
        if (!rlx_rewrite_fact(rewrite, rlx_rewrite_input(rewrite, root, i))->is_prepared) {
            return RLX_OK;
        }
    }
    rlx_value_id x = rlx_rewrite_input(rewrite, root, X);
    rlx_dtype dtype = rlx_rewrite_type(rewrite, x)->dtype;
    self.wide = dtype == RLX_DTYPE_F64 ? RLX_DTYPE_F64 : RLX_DTYPE_F32;
    rlx_node_id product = rlx_rewrite_inner(rewrite, root, x, RLX_OP_NONE);
    if (product != RLX_NONE && can_fold(rewrite, product)) return fold_into(&self, product);
    /* Narrow floats stay: the kernel computes in f32, a mul and an add would round in between. */
    return dtype == self.wide ? become_mul_add(&self) : RLX_OK;
}

rlx_status rlx_pass_fuse_batch_norm(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_rewrite_walk(&rewrite, visit, NULL));
    return rlx_rewrite_finish(&rewrite);
}
