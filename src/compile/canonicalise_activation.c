/* SPDX-License-Identifier: Apache-2.0 */
/* Activations that are spelled out as a product of x and a function of x. The product is taken
 * apart into a number and its factors first, so that the order in which a model multiplies does not
 * matter. */
#include "compile/canonicalise.h"

#include "ir/infer.h"

#include <math.h>

enum { MOST_FACTORS = 4, MOST_DEPTH = 8 };

/* number * factors[0] * factors[1] .. */
typedef struct product {
    double number;
    rlx_value_id factors[MOST_FACTORS];
    uint32_t count;
} product;

typedef struct matcher {
    const rlx_rewrite *rewrite;
    rlx_node_id root;
    double tolerance; /* relative, of constants: as precise as the dtype holds them */
} matcher;

static bool is_near(const matcher *self, double number, double wanted) {
    return fabs(number - wanted) <= self->tolerance * fabs(wanted);
}

static bool add_value(const matcher *self, rlx_value_id value, uint32_t depth, product *out);

static bool add_power(const matcher *self, rlx_value_id x, uint32_t power, product *out) {
    (void)self;
    if (out->count + power > MOST_FACTORS) return false;
    for (uint32_t i = 0; i < power; i++)
        out->factors[out->count++] = x;
    return true;
}

/* Multiplies `out` by what a node computes, if it is a product or a power. */
static bool add_node(const matcher *self, rlx_node_id id, uint32_t depth, product *out,
                     bool *out_is_product) {
    const rlx_rewrite *rewrite = self->rewrite;
    rlx_value_id x = rlx_rewrite_input(rewrite, id, 0);
    double number;
    bool is_right;
    *out_is_product = true;
    if (rlx_match_factor(rewrite, id, &x, &number)) {
        out->number *= number;
        return add_value(self, x, depth, out);
    }
    switch (rlx_rewrite_op(rewrite, id)) {
    case RLX_OP_MUL:
        return add_value(self, x, depth, out) &&
               add_value(self, rlx_rewrite_input(rewrite, id, 1), depth, out);
    case RLX_OP_SQUARE:
        return add_power(self, x, 2, out);
    case RLX_OP_POW:
        if (rlx_match_scalar(rewrite, id, &x, &number, &is_right) && is_right && number == 3) {
            return add_power(self, x, 3, out);
        }
        break;
    default:
        break;
    }
    *out_is_product = false;
    return true;
}

static bool add_value(const matcher *self, rlx_value_id value, uint32_t depth, product *out) {
    rlx_node_id id = rlx_rewrite_inner(self->rewrite, self->root, value, RLX_OP_NONE);
    bool is_product = false;
    if (id != RLX_NONE && depth < MOST_DEPTH) {
        if (!add_node(self, id, depth + 1, out, &is_product)) return false;
        if (is_product) return true;
    }
    return add_power(self, value, 1, out);
}

static bool read_product(const matcher *self, rlx_value_id value, product *out) {
    *out = (product){.number = 1};
    return add_value(self, value, 0, out);
}

/* The value is number * x ^ power. */
static bool is_power(const matcher *self, rlx_value_id value, double number, rlx_value_id x,
                     uint32_t power) {
    product found;
    if (!read_product(self, value, &found) || found.count != power ||
        !is_near(self, found.number, number)) {
        return false;
    }
    for (uint32_t i = 0; i < power; i++) {
        if (found.factors[i] != x) return false;
    }
    return true;
}

static bool inner_input(const matcher *self, rlx_value_id value, rlx_op op, rlx_value_id *out_x) {
    rlx_node_id id = rlx_rewrite_inner(self->rewrite, self->root, value, op);
    if (id == RLX_NONE) return false;
    *out_x = rlx_rewrite_input(self->rewrite, id, 0);
    return true;
}

/* value = other + number. */
static bool is_sum(const matcher *self, rlx_value_id value, double number,
                   rlx_value_id *out_other) {
    rlx_node_id id = rlx_rewrite_inner(self->rewrite, self->root, value, RLX_OP_ADD);
    double found;
    bool is_right;
    return id != RLX_NONE && rlx_match_scalar(self->rewrite, id, out_other, &found, &is_right) &&
           is_near(self, found, number);
}

/* sqrt(2 / pi) (x + 0.044715 x^3), also as a product with x. */
static bool is_gelu_tanh_argument(const matcher *self, rlx_value_id value, rlx_value_id x) {
    const rlx_rewrite *rewrite = self->rewrite;
    product found;
    rlx_value_id cubic;
    if (!read_product(self, value, &found) || !is_near(self, found.number, 0.7978845608028654)) {
        return false;
    }
    if (found.count == 1) {
        rlx_node_id sum = rlx_rewrite_inner(rewrite, self->root, found.factors[0], RLX_OP_ADD);
        if (sum == RLX_NONE) return false;
        uint32_t at = rlx_rewrite_input(rewrite, sum, 0) == x ? 0 : 1;
        return rlx_rewrite_input(rewrite, sum, at) == x &&
               is_power(self, rlx_rewrite_input(rewrite, sum, 1 - at), 0.044715, x, 3);
    }
    if (found.count != 2) return false;
    uint32_t at = found.factors[0] == x ? 0 : 1;
    return found.factors[at] == x && is_sum(self, found.factors[1 - at], 1, &cubic) &&
           is_power(self, cubic, 0.044715, x, 2);
}

static bool is_clip_of_sum(const matcher *self, rlx_value_id value, rlx_value_id x) {
    rlx_node_id clip = rlx_rewrite_inner(self->rewrite, self->root, value, RLX_OP_CLIP);
    rlx_value_id other;
    if (clip == RLX_NONE) return false;
    const rlx_unary_attrs *attrs = rlx_rewrite_attrs(self->rewrite, clip);
    return attrs->alpha == 0 && attrs->beta == 6 &&
           is_sum(self, rlx_rewrite_input(self->rewrite, clip, 0), 3, &other) && other == x;
}

static bool is_hard_sigmoid(const matcher *self, rlx_value_id value, rlx_value_id x) {
    rlx_node_id id = rlx_rewrite_inner(self->rewrite, self->root, value, RLX_OP_HARD_SIGMOID);
    if (id == RLX_NONE || rlx_rewrite_input(self->rewrite, id, 0) != x) return false;
    const rlx_unary_attrs *attrs = rlx_rewrite_attrs(self->rewrite, id);
    return is_near(self, attrs->alpha, 1.0 / 6) && is_near(self, attrs->beta, 0.5);
}

/* The activation that is number * x * factor; RLX_OP_NONE: none that we know. */
static rlx_op match_activation(const matcher *self, double number, rlx_value_id x,
                               rlx_value_id factor) {
    rlx_value_id y, z;
    if (number == 1) {
        if (inner_input(self, factor, RLX_OP_SIGMOID, &y) && y == x) return RLX_OP_SILU;
        if (is_hard_sigmoid(self, factor, x)) return RLX_OP_HARD_SWISH;
        if (inner_input(self, factor, RLX_OP_TANH, &y) &&
            inner_input(self, y, RLX_OP_SOFTPLUS, &z) && z == x) {
            return RLX_OP_MISH;
        }
    }
    if (is_near(self, number, 1.0 / 6) && is_clip_of_sum(self, factor, x)) {
        return RLX_OP_HARD_SWISH;
    }
    if (is_near(self, number, 0.5) && is_sum(self, factor, 1, &y)) {
        if (inner_input(self, y, RLX_OP_ERF, &z) && is_power(self, z, 0.7071067811865476, x, 1)) {
            return RLX_OP_GELU;
        }
        if (inner_input(self, y, RLX_OP_TANH, &z) && is_gelu_tanh_argument(self, z, x)) {
            return RLX_OP_GELU_TANH;
        }
    }
    return RLX_OP_NONE;
}

rlx_status rlx_canonicalise_activation(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_op op = rlx_rewrite_op(rewrite, root), found_op = RLX_OP_NONE;
    if (op != RLX_OP_MUL && op != RLX_OP_DIV) return RLX_OK; /* others may have no first output */
    rlx_dtype dtype = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root))->dtype;
    bool is_wide = dtype == RLX_DTYPE_F32 || dtype == RLX_DTYPE_F64, is_product;
    matcher self = {rewrite, root, is_wide ? 1e-4 : 2e-3};
    product found = {.number = 1};
    rlx_unary_attrs attrs = {0};
    if (!rlx_dtype_is_float(dtype)) return RLX_OK;
    if (!add_node(&self, root, 0, &found, &is_product) || !is_product || found.count != 2) {
        return RLX_OK;
    }
    for (uint32_t i = 0; i < 2 && found_op == RLX_OP_NONE; i++) {
        found_op = match_activation(&self, found.number, found.factors[i], found.factors[1 - i]);
        if (found_op == RLX_OP_NONE) continue;
        return rlx_rewrite_node(rewrite, root, found_op, &attrs, &found.factors[i], 1, NULL);
    }
    return RLX_OK;
}
