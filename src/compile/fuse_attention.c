/* SPDX-License-Identifier: Apache-2.0 */
/* Fuse attention: softmax(scale q k^T + mask) v becomes one node, which never holds the scores. A
 * mask may also choose between scores and a very low number. q, k and v have rank 4 [B][H][S][D],
 * or 2 or 3 with dims of 1 in between; k may come transposed, k and v repeated for groups of heads,
 * the scale at q, k or the scores, and the softmax in a wider float. */
#include "compile/canonicalise.h"
#include "ir/infer.h"

#include <math.h>
#include <string.h>

typedef struct parts {
    rlx_rewrite *rewrite;
    rlx_node_id root; /* the product with v */
    rlx_value_id q, k, v, mask;
    bool k_is_transposed, v_is_transposed; /* [..][D][T] instead of [..][T][D] */
    uint32_t rank;
    double scale;
    rlx_value_id condition; /* where(condition, scores, low), or with scores last if `is_hidden` */
    double low;
    bool is_hidden;
} parts;

static const rlx_type *type_of(const parts *self, rlx_value_id value) {
    return rlx_rewrite_type(self->rewrite, value);
}

static rlx_node_id inner(const parts *self, rlx_value_id value, rlx_op op) {
    return rlx_rewrite_inner(self->rewrite, self->root, value, op);
}

/* A matmul without bias, residual and activation, into the dtype of its first operand. */
static bool is_plain_product(const parts *self, rlx_node_id id) {
    const rlx_matmul_attrs *attrs = rlx_rewrite_attrs(self->rewrite, id);
    return !attrs->transpose_a && !attrs->has_to && attrs->activation.op == RLX_OP_NONE &&
           rlx_rewrite_input(self->rewrite, id, 2) == RLX_NONE &&
           rlx_rewrite_input(self->rewrite, id, 3) == RLX_NONE;
}

/* The value before casts between floats up to f32: the kernel computes in f32 all the same. */
static rlx_value_id before_casts(const parts *self, rlx_value_id value) {
    for (;;) {
        rlx_node_id cast = inner(self, value, RLX_OP_CAST);
        if (cast == RLX_NONE || !rlx_dtype_is_float(type_of(self, value)->dtype)) return value;
        rlx_value_id from = rlx_rewrite_input(self->rewrite, cast, 0);
        if (!rlx_dtype_is_float(type_of(self, from)->dtype) ||
            type_of(self, value)->dtype == RLX_DTYPE_F64 ||
            type_of(self, from)->dtype == RLX_DTYPE_F64) {
            return value;
        }
        value = from;
    }
}

/* The value before casts and scalar factors, which go into the scale. */
static rlx_value_id before_factors(parts *self, rlx_value_id value, bool or_casts) {
    for (;;) {
        rlx_value_id other;
        double factor;
        if (or_casts) value = before_casts(self, value);
        rlx_node_id id = inner(self, value, RLX_OP_NONE);
        if (id == RLX_NONE || !rlx_match_factor(self->rewrite, id, &other, &factor) ||
            !rlx_rewrite_same_type(self->rewrite, type_of(self, other), type_of(self, value))) {
            return value;
        }
        self->scale *= factor;
        value = other;
    }
}

/* The product q k^T behind a value, with its scale. */
static bool find_scores(parts *self, rlx_value_id value) {
    rlx_node_id product = inner(self, before_factors(self, value, true), RLX_OP_MATMUL);
    if (product == RLX_NONE || !is_plain_product(self, product)) return false;
    const rlx_matmul_attrs *attrs = rlx_rewrite_attrs(self->rewrite, product);
    if (attrs->alpha != 0) self->scale *= attrs->alpha;
    self->k_is_transposed = !attrs->transpose_b;
    self->q = before_factors(self, rlx_rewrite_input(self->rewrite, product, 0), false);
    self->k = before_factors(self, rlx_rewrite_input(self->rewrite, product, 1), false);
    return self->scale != 0 && isfinite(self->scale);
}

/* Whether a constant condition leaves something to see in every row. */
static bool sees_something(const parts *self) {
    const rlx_value *info = &self->rewrite->graph->values.items[self->condition];
    const rlx_shape *shape = &info->type.shape;
    uint64_t elements = 0;
    if (info->kind != RLX_VALUE_CONSTANT || info->data == NULL || shape->rank == 0 ||
        rlx_shape_elements(shape, &elements) != RLX_OK || elements == 0) {
        return false;
    }
    uint64_t columns = (uint64_t)shape->dims[shape->rank - 1];
    for (uint64_t row = 0; row < elements; row += columns) {
        uint64_t i = 0;
        while (i < columns && (((const uint8_t *)info->data)[row + i] != 0) == self->is_hidden)
            i++;
        if (i == columns) return false;
    }
    return true;
}

/* Scores that a condition replaces by a number so low that it counts as nothing. In a row that is
 * hidden as a whole all scores are that number; adding it gives the same only if it swallows them.
 */
static bool find_chosen_scores(parts *self, rlx_node_id where, rlx_value_id value) {
    for (uint32_t i = 1; i < 3; i++) {
        rlx_value_id scores = rlx_rewrite_input(self->rewrite, where, i);
        rlx_value_id low = rlx_rewrite_input(self->rewrite, where, 3 - i);
        self->scale = 1;
        if (!rlx_rewrite_scalar(self->rewrite, low, &self->low) ||
            !rlx_rewrite_same_type(self->rewrite, type_of(self, scores), type_of(self, value)) ||
            !find_scores(self, scores)) {
            continue;
        }
        self->condition = rlx_rewrite_input(self->rewrite, where, 0);
        self->is_hidden = i == 2;
        return self->low <= -1e9 || (self->low <= -1e4 && sees_something(self));
    }
    return false;
}

/* Scores, or scores + mask where the mask does not make them larger. */
static bool find_masked_scores(parts *self, rlx_value_id value) {
    value = before_casts(self, value);
    rlx_node_id where = inner(self, value, RLX_OP_WHERE);
    if (where != RLX_NONE) return find_chosen_scores(self, where, value);
    rlx_node_id sum = inner(self, value, RLX_OP_ADD);
    if (sum == RLX_NONE) return find_scores(self, value);
    for (uint32_t i = 0; i < 2; i++) {
        rlx_value_id scores = rlx_rewrite_input(self->rewrite, sum, i);
        self->scale = 1;
        if (!rlx_rewrite_same_type(self->rewrite, type_of(self, scores), type_of(self, value)) ||
            !find_scores(self, scores)) {
            continue;
        }
        self->mask = rlx_rewrite_input(self->rewrite, sum, 1 - i);
        return true;
    }
    return false;
}

static bool find_softmax(parts *self, rlx_value_id value) {
    rlx_node_id softmax = inner(self, before_casts(self, value), RLX_OP_SOFTMAX);
    uint32_t axis;
    if (softmax == RLX_NONE) return false;
    const rlx_axis_attrs *attrs = rlx_rewrite_attrs(self->rewrite, softmax);
    if (rlx_infer_axis(attrs->axis, self->rank, &axis) != RLX_OK || axis + 1 != self->rank) {
        return false;
    }
    return find_masked_scores(self, rlx_rewrite_input(self->rewrite, softmax, 0));
}

/* A view that may be looked through at the root. */
static rlx_node_id view_of(const parts *self, rlx_value_id value, rlx_op op) {
    rlx_node_id id = rlx_rewrite_producer(self->rewrite, value, op);
    return id != RLX_NONE && rlx_rewrite_may_move(self->rewrite, id, self->root) ? id : RLX_NONE;
}

/* value[.., T, D] where *value is [.., D, T]: one transpose, on what it is a transpose of. */
static rlx_status turn(parts *self, rlx_value_id *value) {
    rlx_transpose_attrs attrs = {.perm = {.count = self->rank}};
    rlx_value_id from = *value;
    int64_t perm[RLX_MAX_RANK];
    bool is_identity = true;
    for (uint32_t i = 0; i < self->rank; i++)
        perm[i] = i;
    rlx_node_id before = view_of(self, *value, RLX_OP_TRANSPOSE);
    if (before != RLX_NONE) {
        const rlx_transpose_attrs *old = rlx_rewrite_attrs(self->rewrite, before);
        from = rlx_rewrite_input(self->rewrite, before, 0);
        for (uint32_t i = 0; i < self->rank; i++) {
            int64_t axis =
                old->perm.count == 0 ? (int64_t)(self->rank - 1 - i) : old->perm.items[i];
            perm[i] = axis < 0 ? axis + (int64_t)self->rank : axis;
        }
    }
    for (uint32_t i = 0; i < self->rank; i++) {
        bool is_swapped = i + 2 >= self->rank;
        attrs.perm.items[i] = perm[!is_swapped ? i : i + 1 == self->rank ? i - 1 : i + 1];
        is_identity = is_identity && attrs.perm.items[i] == (int64_t)i;
    }
    *value = from;
    if (is_identity) return RLX_OK;
    return rlx_rewrite_insert(self->rewrite, self->root, RLX_OP_TRANSPOSE, &attrs, &from, 1, value);
}

/* The [B][Hk][T][D] of which `value` [B][Hk n][T][D] repeats each head n times, by way of
 * [B][Hk][1][T][D] expanded to [B][Hk][n][T][D]; `value` itself if it is not of that kind. */
static rlx_value_id before_repeat(const parts *self, rlx_value_id value) {
    if (self->rank != 4) return value;
    rlx_node_id merge = view_of(self, value, RLX_OP_RESHAPE);
    if (merge == RLX_NONE) return value;
    rlx_value_id wide = rlx_rewrite_input(self->rewrite, merge, 0);
    rlx_node_id expand = view_of(self, wide, RLX_OP_EXPAND);
    if (expand == RLX_NONE) return value;
    rlx_value_id narrow = rlx_rewrite_input(self->rewrite, expand, 0);
    rlx_node_id split = view_of(self, narrow, RLX_OP_NONE);
    if (split == RLX_NONE || (rlx_rewrite_op(self->rewrite, split) != RLX_OP_RESHAPE &&
                              rlx_rewrite_op(self->rewrite, split) != RLX_OP_UNSQUEEZE)) {
        return value;
    }
    rlx_value_id k = rlx_rewrite_input(self->rewrite, split, 0);
    const rlx_shape *shape = &type_of(self, k)->shape;
    const int64_t *d = shape->dims;
    const rlx_shape *repeated = &type_of(self, wide)->shape;
    if (shape->rank != 4 || repeated->rank != 5) return value;
    int64_t n = repeated->dims[2];
    rlx_shape one = {5, {d[0], d[1], 1, d[2], d[3]}}, many = {5, {d[0], d[1], n, d[2], d[3]}};
    rlx_shape merged = {4, {d[0], d[1] * n, d[2], d[3]}};
    bool is_repeat = rlx_shape_equal(&type_of(self, narrow)->shape, &one) &&
                     rlx_shape_equal(repeated, &many) &&
                     rlx_shape_equal(&type_of(self, value)->shape, &merged);
    return is_repeat ? k : value;
}

/* Heads of k and v are as many as those of q, or one for all, or repeated in groups. */
static bool heads_fit(const parts *self) {
    const int64_t *q = type_of(self, self->q)->shape.dims;
    const int64_t *k = type_of(self, self->k)->shape.dims;
    const int64_t *v = type_of(self, self->v)->shape.dims;
    for (uint32_t i = 0; i + 2 < self->rank; i++) {
        bool is_head = self->rank == 4 && i == 1;
        if (k[i] != v[i] || (k[i] != q[i] && !(is_head && k[i] == 1))) return false;
    }
    return true;
}

/* A float of the rank, with sizes that are all known and not 0; f64 only with q in f64. */
static bool operand_fits(const parts *self, rlx_value_id value) {
    const rlx_type *type = type_of(self, value);
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (type->shape.dims[i] == 0) return false;
        if (type->extents[i] != RLX_NONE && self->rank != 4) return false;
    }
    return rlx_dtype_is_float(type->dtype) &&
           (type->dtype == RLX_DTYPE_F64) == (type_of(self, self->q)->dtype == RLX_DTYPE_F64);
}

static bool operands_fit(const parts *self) {
    const rlx_value_id values[3] = {self->q, self->k, self->v};
    const rlx_type *out = type_of(self, rlx_rewrite_output(self->rewrite, self->root));
    for (uint32_t i = 0; i < 3; i++) {
        if (type_of(self, values[i])->shape.rank != self->rank) return false;
        if (!operand_fits(self, values[i])) return false;
    }
    if (self->mask != RLX_NONE && !operand_fits(self, self->mask)) return false;
    if (self->condition != RLX_NONE && rlx_rewrite_has_extent(type_of(self, self->condition)))
        return false;
    return out->dtype == type_of(self, self->q)->dtype && heads_fit(self);
}

static bool match(parts *self) {
    const rlx_matmul_attrs *attrs = rlx_rewrite_attrs(self->rewrite, self->root);
    self->rank = type_of(self, rlx_rewrite_output(self->rewrite, self->root))->shape.rank;
    if (self->rank < 2 || self->rank > 4 || !is_plain_product(self, self->root) ||
        (attrs->alpha != 0 && attrs->alpha != 1)) {
        return false;
    }
    self->v = rlx_rewrite_input(self->rewrite, self->root, 1);
    self->v_is_transposed = attrs->transpose_b;
    return find_softmax(self, rlx_rewrite_input(self->rewrite, self->root, 0)) &&
           operands_fit(self);
}

/* Rank 2 and 3 to 4: [S][D] to [1][1][S][D], [B][S][D] to [B][1][S][D]. */
static rlx_status widen(parts *self, rlx_value_id *value) {
    if (*value == RLX_NONE) return RLX_OK;
    rlx_shape shape = type_of(self, *value)->shape;
    if (shape.rank < 2 || shape.rank < self->rank || self->rank == 4) return RLX_OK;
    int64_t dims[4] = {shape.rank == 3 ? shape.dims[0] : 1, 1, shape.dims[shape.rank - 2],
                       shape.dims[shape.rank - 1]};
    return rlx_rewrite_reshaped(self->rewrite, self->root, *value, dims, 4, value);
}

/* The mask to add where a condition chose. */
static rlx_status make_mask(parts *self) {
    rlx_dtype dtype =
        type_of(self, self->q)->dtype == RLX_DTYPE_F64 ? RLX_DTYPE_F64 : RLX_DTYPE_F32;
    rlx_value_id inputs[3] = {self->condition};
    RLX_TRY(rlx_rewrite_constant(self->rewrite, dtype, 0, &inputs[self->is_hidden ? 2 : 1]));
    RLX_TRY(
        rlx_rewrite_constant(self->rewrite, dtype, self->low, &inputs[self->is_hidden ? 1 : 2]));
    return rlx_rewrite_insert(self->rewrite, self->root, RLX_OP_WHERE, NULL, inputs, 3,
                              &self->mask);
}

static rlx_status replace(parts *self) {
    rlx_rewrite *rewrite = self->rewrite;
    rlx_attention_attrs attrs = {.scale = self->scale};
    const rlx_shape shape = type_of(self, rlx_rewrite_output(rewrite, self->root))->shape;
    if (self->condition != RLX_NONE) RLX_TRY(make_mask(self));
    uint32_t count = self->mask == RLX_NONE ? 3 : 4;
    if (self->k_is_transposed) RLX_TRY(turn(self, &self->k));
    if (self->v_is_transposed) RLX_TRY(turn(self, &self->v));
    rlx_value_id k = before_repeat(self, self->k), v = before_repeat(self, self->v);
    if (k != self->k && v != self->v &&
        type_of(self, k)->shape.dims[1] == type_of(self, v)->shape.dims[1]) {
        self->k = k, self->v = v;
    }
    rlx_value_id inputs[4] = {self->q, self->k, self->v, self->mask};
    for (uint32_t i = 0; i < 4; i++)
        RLX_TRY(widen(self, &inputs[i]));
    if (self->rank == 4) {
        return rlx_rewrite_node(rewrite, self->root, RLX_OP_ATTENTION, &attrs, inputs, count, NULL);
    }
    rlx_reshape_attrs narrow = {.shape = {.count = shape.rank}};
    rlx_value_id wide;
    memcpy(narrow.shape.items, shape.dims, shape.rank * sizeof *shape.dims);
    RLX_TRY(
        rlx_rewrite_insert(rewrite, self->root, RLX_OP_ATTENTION, &attrs, inputs, count, &wide));
    return rlx_rewrite_node(rewrite, self->root, RLX_OP_RESHAPE, &narrow, &wide, 1, NULL);
}

static rlx_status visit(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    parts self = {
        .rewrite = rewrite, .root = root, .mask = RLX_NONE, .condition = RLX_NONE, .scale = 1};
    (void)user;
    if (rlx_rewrite_op(rewrite, root) != RLX_OP_MATMUL || !match(&self)) return RLX_OK;
    return replace(&self);
}

rlx_status rlx_pass_fuse_attention(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_rewrite_walk(&rewrite, visit, NULL));
    return rlx_rewrite_finish(&rewrite);
}
