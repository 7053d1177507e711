/* SPDX-License-Identifier: Apache-2.0 */
/* Fuse attention: softmax(scale q k^T + masks) v becomes one node, which never holds the scores. A
 * mask may also choose between scores and a very low number. q, k and v have rank 4 [B][H][S][D],
 * or 2 or 3 with dims of 1 in between, or 3 with heads in the batch that the masks see apart; k may
 * come transposed, k and v repeated for groups of heads, the scale at q, k or the scores, a softcap
 * behind it, the softmax in a wider float and with zeros for rows that see nothing. */
#include "compile/canonicalise.h"
#include "ir/infer.h"

#include <math.h>
#include <string.h>

enum { MOST_MASKS = 4 };

/* scores + value; or where(value, scores, low), with scores last if `is_hidden`. */
typedef struct mask {
    rlx_value_id value;
    bool is_choice, is_hidden;
    double low;
} mask;

typedef struct parts {
    rlx_rewrite *rewrite;
    rlx_node_id root; /* the product with v */
    rlx_value_id q, k, v;
    bool k_is_transposed, v_is_transposed; /* [..][D][T] instead of [..][T][D] */
    uint32_t rank;
    double scale, softcap; /* softcap 0: none */
    rlx_shape apart;       /* [B][H][S][T] where the product has [B H][S][T]; rank 0: nowhere */
    mask masks[MOST_MASKS];
    uint32_t mask_count, mask_rank; /* the rank of the scores where masks came in */
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

/* The value before a reshape between [B][H][S][T] and [B H][S][T]. */
static rlx_value_id before_reshape(parts *self, rlx_value_id value) {
    rlx_node_id id = self->rank == 3 ? inner(self, value, RLX_OP_RESHAPE) : RLX_NONE;
    if (id == RLX_NONE) return value;
    rlx_value_id from = rlx_rewrite_input(self->rewrite, id, 0);
    const rlx_type *a = type_of(self, value), *b = type_of(self, from);
    uint32_t n = a->shape.rank, m = b->shape.rank;
    if (n + m != 7 || (n != 3 && n != 4) || rlx_rewrite_has_extent(a) ||
        rlx_rewrite_has_extent(b) || a->shape.dims[n - 1] != b->shape.dims[m - 1] ||
        a->shape.dims[n - 2] != b->shape.dims[m - 2]) {
        return value;
    }
    const rlx_shape *apart = n == 4 ? &a->shape : &b->shape;
    if (self->apart.rank != 0 && !rlx_shape_equal(apart, &self->apart)) return value;
    self->apart = *apart;
    return from;
}

/* The product q k^T behind a value, with its scale and softcap. */
static bool find_scores(parts *self, rlx_value_id value) {
    rlx_node_id product = RLX_NONE;
    while (product == RLX_NONE) {
        rlx_value_id before = before_reshape(self, before_factors(self, value, true));
        rlx_node_id cap = inner(self, before, RLX_OP_TANH);
        product = inner(self, before, RLX_OP_MATMUL);
        if (cap != RLX_NONE && self->softcap == 0 && self->scale > 0) {
            self->softcap = self->scale;
            self->scale = 1;
            before = rlx_rewrite_input(self->rewrite, cap, 0);
        }
        if (before == value && product == RLX_NONE) return false;
        value = before;
    }
    if (!is_plain_product(self, product)) return false;
    const rlx_matmul_attrs *attrs = rlx_rewrite_attrs(self->rewrite, product);
    if (attrs->alpha != 0) self->scale *= attrs->alpha;
    self->k_is_transposed = !attrs->transpose_b;
    self->q = before_factors(self, rlx_rewrite_input(self->rewrite, product, 0), false);
    self->k = before_factors(self, rlx_rewrite_input(self->rewrite, product, 1), false);
    if (self->softcap != 0) self->scale *= self->softcap;
    return self->scale != 0 && isfinite(self->scale);
}

/* Whether a constant condition leaves something to see in every row. */
static bool sees_something(const parts *self, const mask *choice) {
    const rlx_value *info = &self->rewrite->graph->values.items[choice->value];
    const rlx_shape *shape = &info->type.shape;
    uint64_t elements = 0;
    if (info->kind != RLX_VALUE_CONSTANT || info->data == NULL || shape->rank == 0 ||
        rlx_shape_elements(shape, &elements) != RLX_OK || elements == 0) {
        return false;
    }
    uint64_t columns = (uint64_t)shape->dims[shape->rank - 1];
    for (uint64_t row = 0; row < elements; row += columns) {
        uint64_t i = 0;
        while (i < columns && (((const uint8_t *)info->data)[row + i] != 0) == choice->is_hidden)
            i++;
        if (i == columns) return false;
    }
    return true;
}

static bool find_masked_scores(parts *self, rlx_value_id value);

/* Scores behind `scores`, of the type of `value`, with one more mask; else all stays as it was. */
static bool find_behind(parts *self, rlx_value_id value, rlx_value_id scores, const mask *more) {
    const parts before = *self;
    uint32_t rank = type_of(self, value)->shape.rank;
    if (self->mask_count == MOST_MASKS ||
        !rlx_rewrite_same_type(self->rewrite, type_of(self, scores), type_of(self, value)) ||
        (self->mask_count != 0 && rank != self->mask_rank)) {
        return false;
    }
    self->masks[self->mask_count++] = *more;
    self->mask_rank = rank;
    if (find_masked_scores(self, scores)) return true;
    *self = before;
    return false;
}

/* Scores that a condition replaces by a number so low that it counts as nothing. In a row that is
 * hidden as a whole all scores are that number; adding it gives the same only if it swallows them.
 */
static bool find_chosen_scores(parts *self, rlx_node_id where, rlx_value_id value) {
    for (uint32_t i = 1; i < 3; i++) {
        mask choice = {rlx_rewrite_input(self->rewrite, where, 0), true, i == 2, 0};
        rlx_value_id low = rlx_rewrite_input(self->rewrite, where, 3 - i);
        if (rlx_rewrite_scalar(self->rewrite, low, &choice.low) &&
            (choice.low <= -1e9 ||
             (choice.low <= -1e4 && self->mask_count == 0 && sees_something(self, &choice))) &&
            find_behind(self, value, rlx_rewrite_input(self->rewrite, where, i), &choice)) {
            return true;
        }
    }
    return false;
}

/* Scores, or scores + mask where the mask does not make them larger. */
static bool find_masked_scores(parts *self, rlx_value_id value) {
    value = before_reshape(self, before_casts(self, value));
    rlx_node_id where = inner(self, value, RLX_OP_WHERE);
    if (where != RLX_NONE) return find_chosen_scores(self, where, value);
    rlx_node_id sum = inner(self, value, RLX_OP_ADD);
    if (sum == RLX_NONE) return find_scores(self, value);
    for (uint32_t i = 0; i < 2; i++) {
        const mask added = {.value = rlx_rewrite_input(self->rewrite, sum, 1 - i)};
        if (find_behind(self, value, rlx_rewrite_input(self->rewrite, sum, i), &added)) return true;
    }
    return false;
}

/* p of where(isnan(p), 0, p): rows that see nothing, which attention makes zero as well. */
static rlx_value_id before_zeros(const parts *self, rlx_value_id value, uint32_t *out_uses) {
    rlx_node_id where = inner(self, value, RLX_OP_WHERE);
    double zero = 1;
    *out_uses = 1;
    if (where == RLX_NONE) return value;
    rlx_value_id p = rlx_rewrite_input(self->rewrite, where, 2);
    rlx_node_id test = inner(self, rlx_rewrite_input(self->rewrite, where, 0), RLX_OP_IS_NAN);
    if (test == RLX_NONE || rlx_rewrite_input(self->rewrite, test, 0) != p ||
        !rlx_rewrite_scalar(self->rewrite, rlx_rewrite_input(self->rewrite, where, 1), &zero) ||
        zero != 0) {
        return value;
    }
    *out_uses = 2;
    return p;
}

static bool find_softmax(parts *self, rlx_value_id value) {
    uint32_t axis, uses;
    value = before_zeros(self, before_reshape(self, before_casts(self, value)), &uses);
    rlx_node_id softmax = rlx_rewrite_producer(self->rewrite, value, RLX_OP_SOFTMAX);
    if (softmax == RLX_NONE || rlx_rewrite_fact(self->rewrite, value)->uses != uses ||
        !rlx_rewrite_may_move(self->rewrite, softmax, self->root)) {
        return false;
    }
    const rlx_axis_attrs *attrs = rlx_rewrite_attrs(self->rewrite, softmax);
    uint32_t rank = type_of(self, value)->shape.rank;
    if (rlx_infer_axis(attrs->axis, rank, &axis) != RLX_OK || axis + 1 != rank) return false;
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

/* Masks that are added are floats of one dtype; they came in where the heads are seen. */
static bool masks_fit(const parts *self) {
    rlx_value_id first = RLX_NONE;
    for (uint32_t i = 0; i < self->mask_count; i++) {
        const rlx_type *type = type_of(self, self->masks[i].value);
        if (self->masks[i].is_choice) {
            if (rlx_rewrite_has_extent(type)) return false;
            continue;
        }
        if (first == RLX_NONE) first = self->masks[i].value;
        if (!operand_fits(self, self->masks[i].value) ||
            type->dtype != type_of(self, first)->dtype) {
            return false;
        }
    }
    return self->mask_count == 0 || self->mask_rank == (self->apart.rank != 0 ? 4 : self->rank);
}

static bool operands_fit(const parts *self) {
    const rlx_value_id values[3] = {self->q, self->k, self->v};
    const rlx_type *out = type_of(self, rlx_rewrite_output(self->rewrite, self->root));
    for (uint32_t i = 0; i < 3; i++) {
        if (type_of(self, values[i])->shape.rank != self->rank) return false;
        if (!operand_fits(self, values[i])) return false;
    }
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
           operands_fit(self) && masks_fit(self);
}

/* Rank 2 and 3 to 4: [S][D] to [1][1][S][D], [B][S][D] to [B][1][S][D], or with heads apart. */
static rlx_status widen(parts *self, rlx_value_id *value, bool is_mask) {
    if (*value == RLX_NONE) return RLX_OK;
    rlx_shape shape = type_of(self, *value)->shape;
    if (shape.rank < 2 || shape.rank < self->rank || self->rank == 4 ||
        (is_mask && self->apart.rank != 0)) {
        return RLX_OK;
    }
    int64_t dims[4] = {shape.rank == 3 ? shape.dims[0] : 1, 1, shape.dims[shape.rank - 2],
                       shape.dims[shape.rank - 1]};
    if (self->apart.rank != 0) memcpy(dims, self->apart.dims, 2 * sizeof *dims);
    return rlx_rewrite_reshaped(self->rewrite, self->root, *value, dims, 4, value);
}

/* The mask to add where a condition chose. */
static rlx_status make_mask(parts *self, const mask *choice, rlx_dtype dtype,
                            rlx_value_id *out_mask) {
    rlx_value_id inputs[3] = {choice->value};
    RLX_TRY(rlx_rewrite_constant(self->rewrite, dtype, 0, &inputs[choice->is_hidden ? 2 : 1]));
    RLX_TRY(rlx_rewrite_constant(self->rewrite, dtype, choice->low,
                                 &inputs[choice->is_hidden ? 1 : 2]));
    return rlx_rewrite_insert(self->rewrite, self->root, RLX_OP_WHERE, NULL, inputs, 3, out_mask);
}

/* The sum of all masks; RLX_NONE without any. */
static rlx_status sum_masks(parts *self, rlx_value_id *out_sum) {
    bool is_wide = type_of(self, self->q)->dtype == RLX_DTYPE_F64;
    rlx_dtype dtype = is_wide ? RLX_DTYPE_F64 : RLX_DTYPE_F32;
    *out_sum = RLX_NONE;
    for (uint32_t i = 0; i < self->mask_count; i++) {
        if (!self->masks[i].is_choice) dtype = type_of(self, self->masks[i].value)->dtype;
    }
    for (uint32_t i = 0; i < self->mask_count; i++) {
        rlx_value_id both[2] = {*out_sum, self->masks[i].value};
        if (self->masks[i].is_choice) RLX_TRY(make_mask(self, &self->masks[i], dtype, &both[1]));
        *out_sum = both[1];
        if (both[0] != RLX_NONE)
            RLX_TRY(
                rlx_rewrite_insert(self->rewrite, self->root, RLX_OP_ADD, NULL, both, 2, out_sum));
    }
    return RLX_OK;
}

static rlx_status replace(parts *self) {
    rlx_rewrite *rewrite = self->rewrite;
    rlx_attention_attrs attrs = {.scale = self->scale, .softcap = self->softcap};
    rlx_value_id sum;
    const rlx_shape shape = type_of(self, rlx_rewrite_output(rewrite, self->root))->shape;
    RLX_TRY(sum_masks(self, &sum));
    uint32_t count = sum == RLX_NONE ? 3 : 4;
    if (self->k_is_transposed) RLX_TRY(turn(self, &self->k));
    if (self->v_is_transposed) RLX_TRY(turn(self, &self->v));
    rlx_value_id k = before_repeat(self, self->k), v = before_repeat(self, self->v);
    if (k != self->k && v != self->v &&
        type_of(self, k)->shape.dims[1] == type_of(self, v)->shape.dims[1]) {
        self->k = k, self->v = v;
    }
    rlx_value_id inputs[4] = {self->q, self->k, self->v, sum};
    for (uint32_t i = 0; i < 4; i++)
        RLX_TRY(widen(self, &inputs[i], i == 3));
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
    parts self = {.rewrite = rewrite, .root = root, .scale = 1};
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
