/* SPDX-License-Identifier: Apache-2.0 */
/* GridSample, DeformConv and AffineGrid: places are computed, pixels fetched by gather, weighted
 * and summed. */
#include "import/onnx/ops.h"

#include <string.h>

typedef enum padding { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION } padding;

typedef struct grid {
    rlx_value_id pixels; /* [N][C][H W] */
    int64_t n, c, h, w, points;
    padding pad;
    bool align;
    rlx_dtype dtype; /* of the grid: places are computed in it */
} grid;

static rlx_value_id number(ox *o, const grid *self, double value) {
    return ox_scalar(o, self->dtype, value);
}

static rlx_value_id add(ox *o, rlx_value_id a, rlx_value_id b) {
    return ox_binary(o, RLX_OP_ADD, a, b);
}

static rlx_value_id mul(ox *o, rlx_value_id a, rlx_value_id b) {
    return ox_binary(o, RLX_OP_MUL, a, b);
}

static rlx_value_id sub(ox *o, rlx_value_id a, rlx_value_id b) {
    return ox_binary(o, RLX_OP_SUB, a, b);
}

static rlx_value_id clip(ox *o, rlx_value_id x, double least, double most) {
    const rlx_unary_attrs attrs = {least, most};
    return ox_node(o, RLX_OP_CLIP, &attrs, &x, 1);
}

/* Folds a place back between the two mirrors. */
static rlx_value_id reflect(ox *o, const grid *self, rlx_value_id x, int64_t size) {
    double least = self->align ? 0 : -0.5, span = self->align ? (double)size - 1 : (double)size;
    if (span <= 0) return mul(o, x, number(o, self, 0));
    rlx_value_id zero = number(o, self, 0), reach = number(o, self, span);
    rlx_value_id from = ox_unary(o, RLX_OP_ABS, sub(o, x, number(o, self, least)));
    rlx_value_id turns = ox_unary(o, RLX_OP_FLOOR, ox_binary(o, RLX_OP_DIV, from, reach));
    rlx_value_id rest = sub(o, from, mul(o, turns, reach));
    rlx_value_id odd = ox_binary(o, RLX_OP_FMOD, turns, number(o, self, 2));
    rlx_value_id back = sub(o, reach, rest);
    rlx_value_id is_even = ox_binary(o, RLX_OP_EQUAL, odd, zero);
    return add(o, ox_where(o, is_even, rest, back), number(o, self, least));
}

/* Pixel (column x, row y), both whole numbers as floats [N][1][P]. */
static rlx_value_id pixel(ox *o, const grid *self, rlx_value_id x, rlx_value_id y) {
    const rlx_axis_attrs axis = {2};
    const int64_t dims[] = {self->n, self->c, self->points};
    double right = (double)(self->w - 1), bottom = (double)(self->h - 1);
    if (self->pad == PAD_REFLECTION) {
        x = reflect(o, self, x, self->w);
        y = reflect(o, self, y, self->h);
    }
    rlx_value_id near_x = clip(o, x, 0, right), near_y = clip(o, y, 0, bottom);
    rlx_dtype places = self->h * self->w <= INT32_MAX ? RLX_DTYPE_I32 : RLX_DTYPE_I64;
    rlx_value_id index =
        add(o, mul(o, ox_cast(o, near_y, places), ox_scalar(o, places, (double)self->w)),
            ox_cast(o, near_x, places));
    const rlx_value_id inputs[] = {self->pixels, ox_expand(o, index, dims, 3)};
    rlx_value_id found = ox_node(o, RLX_OP_GATHER_ELEMENTS, &axis, inputs, 2);
    if (self->pad != PAD_ZEROS) return found;
    rlx_value_id inside = ox_binary(o, RLX_OP_AND, ox_binary(o, RLX_OP_EQUAL, x, near_x),
                                    ox_binary(o, RLX_OP_EQUAL, y, near_y));
    return ox_where(o, inside, found, ox_scalar(o, ox_dtype(o, found), 0));
}

/* Coordinate `part` of the grid in pixels, [N][1][P]. */
static rlx_value_id coordinate(ox *o, const grid *self, rlx_value_id points, int64_t part,
                               int64_t size) {
    const int64_t dims[] = {self->n, 1, self->points};
    rlx_value_id x = ox_reshape(o, ox_slice(o, points, 3, part, part + 1, 1), dims, 3);
    double most = (double)size;
    x = add(o, x, number(o, self, 1));
    if (self->align) {
        x = mul(o, x, number(o, self, (most - 1) / 2));
    } else {
        x = mul(o, sub(o, mul(o, x, number(o, self, most)), number(o, self, 1)),
                number(o, self, 0.5));
    }
    if (self->pad == PAD_BORDER) return clip(o, x, 0, most - 1);
    return self->pad == PAD_REFLECTION ? reflect(o, self, x, size) : x;
}

static rlx_value_id weighted(ox *o, const grid *self, rlx_value_id x, rlx_value_id y,
                             rlx_value_id weight) {
    rlx_value_id found = pixel(o, self, x, y);
    return mul(o, found, ox_cast(o, weight, ox_dtype(o, found)));
}

static rlx_value_id bilinear(ox *o, const grid *self, rlx_value_id x, rlx_value_id y) {
    rlx_value_id one = number(o, self, 1);
    rlx_value_id left = ox_unary(o, RLX_OP_FLOOR, x), top = ox_unary(o, RLX_OP_FLOOR, y);
    rlx_value_id right = add(o, left, one), bottom = add(o, top, one);
    rlx_value_id dx = sub(o, x, left), dy = sub(o, y, top);
    rlx_value_id ex = sub(o, one, dx), ey = sub(o, one, dy);
    rlx_value_id upper = add(o, weighted(o, self, left, top, mul(o, ex, ey)),
                             weighted(o, self, right, top, mul(o, dx, ey)));
    rlx_value_id lower = add(o, weighted(o, self, left, bottom, mul(o, ex, dy)),
                             weighted(o, self, right, bottom, mul(o, dx, dy)));
    return add(o, upper, lower);
}

/* c3 d^3 + c2 d^2 + c1 d + c0 */
static rlx_value_id cubic(ox *o, const grid *self, rlx_value_id d, const double *c) {
    rlx_value_id sum = number(o, self, c[3]);
    for (uint32_t i = 3; i-- > 0;)
        sum = add(o, mul(o, sum, d), number(o, self, c[i]));
    return sum;
}

/* The weights of four neighbours at distances d + 1, d, 1 - d, 2 - d; a = -0.75. */
static void cubic_weights(ox *o, const grid *self, rlx_value_id d, rlx_value_id *weights) {
    static const double near_terms[] = {1, 0, -2.25, 1.25}; /* 1 - (a + 3) d^2 + (a + 2) d^3 */
    static const double far_terms[] = {3, -6, 3.75, -0.75}; /* a (d^3 - 5 d^2 + 8 d - 4) */
    rlx_value_id one = number(o, self, 1), rest = sub(o, one, d);
    weights[0] = cubic(o, self, add(o, d, one), far_terms);
    weights[1] = cubic(o, self, d, near_terms);
    weights[2] = cubic(o, self, rest, near_terms);
    weights[3] = cubic(o, self, add(o, rest, one), far_terms);
}

static rlx_value_id bicubic(ox *o, const grid *self, rlx_value_id x, rlx_value_id y) {
    rlx_value_id left = ox_unary(o, RLX_OP_FLOOR, x), top = ox_unary(o, RLX_OP_FLOOR, y);
    rlx_value_id across[4], down[4], sum = RLX_NONE;
    cubic_weights(o, self, sub(o, x, left), across);
    cubic_weights(o, self, sub(o, y, top), down);
    for (uint32_t i = 0; i < 16 && ox_ok(o); i++) {
        rlx_value_id column = add(o, left, number(o, self, (double)(i % 4) - 1));
        rlx_value_id row = add(o, top, number(o, self, (double)(i / 4) - 1));
        rlx_value_id part = weighted(o, self, column, row, mul(o, across[i % 4], down[i / 4]));
        sum = sum == RLX_NONE ? part : add(o, sum, part);
    }
    return sum;
}

void rlx_ox_grid_sample(ox *o) {
    rlx_value_id x = ox_in(o, 0), points = ox_in(o, 1);
    const char *mode = ox_text(o, "mode", o->since < 20 ? "bilinear" : "linear");
    const char *pad = ox_text(o, "padding_mode", "zeros");
    grid self = {.align = ox_int(o, "align_corners", 0) != 0, .dtype = ox_dtype(o, points)};
    if (ox_ok(o) && (ox_rank(o, x) != 4 || ox_rank(o, points) != 4))
        ox_unsupported(o, "inputs of rank %u", ox_rank(o, x));
    if (!ox_ok(o)) return;
    self.pad = strcmp(pad, "border") == 0       ? PAD_BORDER
               : strcmp(pad, "reflection") == 0 ? PAD_REFLECTION
                                                : PAD_ZEROS;
    self.n = ox_dim(o, x, 0);
    self.c = ox_dim(o, x, 1);
    self.h = ox_dim(o, x, 2);
    self.w = ox_dim(o, x, 3);
    self.points = ox_times(o, ox_dim(o, points, 1), ox_dim(o, points, 2));
    const int64_t flat[] = {self.n, self.c, ox_times(o, self.h, self.w)};
    const int64_t result[] = {self.n, self.c, ox_dim(o, points, 1), ox_dim(o, points, 2)};
    self.pixels = ox_reshape(o, x, flat, 3);
    rlx_value_id column = coordinate(o, &self, points, 0, self.w);
    rlx_value_id row = coordinate(o, &self, points, 1, self.h);
    rlx_value_id y;
    if (strcmp(mode, "nearest") == 0) {
        y = pixel(o, &self, ox_unary(o, RLX_OP_ROUND, column), ox_unary(o, RLX_OP_ROUND, row));
    } else if (strcmp(mode, "bicubic") == 0 || strcmp(mode, "cubic") == 0) {
        y = bicubic(o, &self, column, row);
    } else {
        y = bilinear(o, &self, column, row);
    }
    ox_give(o, 0, ox_reshape(o, y, result, 4));
}

/* Where the kernel of a DeformConv would read along one axis, moved by the offsets `moved`
 * [N groups][kernel][points]; `is_row` says which axis. Gives [N groups][1][kernel points]. */
static rlx_value_id deformed(ox *o, const grid *self, const rlx_conv_attrs *conv,
                             rlx_value_id moved, const int64_t *kernel, const int64_t *out,
                             bool is_row) {
    uint32_t axis = is_row ? 0 : 1;
    int64_t taps = ox_times(o, kernel[0], kernel[1]), points = ox_times(o, out[0], out[1]);
    int64_t stride = conv->strides.count > axis ? conv->strides.items[axis] : 1;
    int64_t far = conv->dilations.count > axis ? conv->dilations.items[axis] : 1;
    int64_t pad = conv->pads.count > axis ? conv->pads.items[axis] : 0;
    const int64_t tap_dims[] = {1, taps, 1}, point_dims[] = {1, 1, points};
    const int64_t dims[] = {self->n, 1, self->points};
    double *by_tap = ox_memory(o, (uint64_t)taps, sizeof *by_tap);
    double *by_point = ox_memory(o, (uint64_t)points, sizeof *by_point);
    if (!ox_ok(o)) return RLX_NONE;
    for (int64_t i = 0; i < taps; i++)
        by_tap[i] = (double)((is_row ? i / kernel[1] : i % kernel[1]) * far - pad);
    for (int64_t i = 0; i < points; i++)
        by_point[i] = (double)((is_row ? i / out[1] : i % out[1]) * stride);
    moved = add(o, moved, ox_doubles(o, self->dtype, by_tap, tap_dims, 3));
    moved = add(o, moved, ox_doubles(o, self->dtype, by_point, point_dims, 3));
    return ox_reshape(o, moved, dims, 3);
}

/* Whether x, w and the offsets of a DeformConv go together. */
static bool fits_deform(ox *o, rlx_value_id x, rlx_value_id w, rlx_value_id offset, int64_t parts,
                        int64_t groups) {
    if (!ox_ok(o)) return false;
    if (ox_rank(o, x) != 4 || ox_rank(o, w) != 4 || ox_rank(o, offset) != 4) {
        ox_unsupported(o, "images of rank %u", ox_rank(o, x));
        return false;
    }
    int64_t taps = ox_times(o, ox_dim(o, w, 2), ox_dim(o, w, 3)), channels = ox_dim(o, x, 1);
    if (ox_ok(o) && (parts < 1 || groups < 1 || channels % parts != 0 || channels % groups != 0 ||
                     ox_dim(o, w, 0) % groups != 0 || ox_dim(o, w, 1) != channels / groups ||
                     ox_dim(o, offset, 1) != ox_times(o, 2 * parts, taps)))
        ox_invalid(o, "%" PRId64 " channels, %" PRId64 " offsets", channels, ox_dim(o, offset, 1));
    int64_t points = ox_times(o, ox_dim(o, offset, 2), ox_dim(o, offset, 3));
    if (ox_ok(o) && (points > OX_MOST_NUMBERS || taps > OX_MOST_NUMBERS))
        ox_unsupported(o, "%" PRId64 " points", points);
    return ox_ok(o);
}

/* Each element of the kernel reads x where its offset says, between pixels and nothing outside; the
 * rest is a product with what was read. */
void rlx_ox_deform_conv(ox *o) {
    rlx_conv_attrs conv = {0};
    rlx_value_id x = ox_in(o, 0), w = ox_in(o, 1), offset = ox_in(o, 2);
    rlx_value_id bias = ox_maybe(o, 3), mask = ox_maybe(o, 4);
    int64_t parts = ox_int(o, "offset_group", 1);
    ox_conv_attrs(o, w, &conv);
    if (!fits_deform(o, x, w, offset, parts, conv.groups)) return;
    const int64_t n = ox_dim(o, x, 0), c = ox_dim(o, x, 1), outputs = ox_dim(o, w, 0);
    const int64_t kernel[] = {ox_dim(o, w, 2), ox_dim(o, w, 3)};
    const int64_t out[] = {ox_dim(o, offset, 2), ox_dim(o, offset, 3)};
    const int64_t taps = kernel[0] * kernel[1], points = out[0] * out[1];
    grid self = {.n = ox_times(o, n, parts), .c = c / parts, .h = ox_dim(o, x, 2)};
    self.w = ox_dim(o, x, 3);
    self.points = ox_times(o, taps, points);
    self.dtype = ox_dtype(o, offset);
    const int64_t pixels[] = {self.n, self.c, ox_times(o, self.h, self.w)};
    const int64_t pairs[] = {self.n, taps, 2, points}, one[] = {self.n, taps, points};
    self.pixels = ox_reshape(o, x, pixels, 3);
    offset = ox_reshape(o, offset, pairs, 4);
    rlx_value_id rows = ox_reshape(o, ox_slice(o, offset, 2, 0, 1, 1), one, 3);
    rlx_value_id across = ox_reshape(o, ox_slice(o, offset, 2, 1, 2, 1), one, 3);
    rows = deformed(o, &self, &conv, rows, kernel, out, true);
    across = deformed(o, &self, &conv, across, kernel, out, false);
    rlx_value_id read = bilinear(o, &self, across, rows);
    const int64_t single[] = {self.n, 1, self.points};
    if (mask != RLX_NONE) read = mul(o, read, ox_reshape(o, mask, single, 3));
    const int64_t depth = ox_times(o, c / conv.groups, taps);
    const int64_t columns[] = {n, conv.groups, depth, points};
    const int64_t weights[] = {1, conv.groups, outputs / conv.groups, depth};
    const int64_t result[] = {n, outputs, out[0], out[1]}, channel[] = {1, outputs, 1, 1};
    rlx_value_id y = ox_matmul(o, ox_reshape(o, w, weights, 4), ox_reshape(o, read, columns, 4));
    y = ox_reshape(o, y, result, 4);
    if (bias != RLX_NONE) y = add(o, y, ox_reshape(o, bias, channel, 4));
    ox_give(o, 0, y);
}

/* The points of an image of `sizes` [rank] from -1 to 1, the last axis first, and a 1 at the end:
 * [points][rank + 1]. */
static rlx_value_id all_points(ox *o, rlx_dtype dtype, const int64_t *sizes, uint32_t rank,
                               bool align, int64_t count) {
    const int64_t dims[] = {count, rank + 1};
    double *items = ox_memory(o, (uint64_t)count * (rank + 1), sizeof *items);
    for (int64_t i = 0; i < count && ox_ok(o); i++) {
        int64_t rest = i;
        double *point = items + i * (rank + 1);
        for (uint32_t k = 0; k < rank; k++) {
            int64_t size = sizes[rank - 1 - k];
            double at = (double)(rest % size), most = (double)(size - 1);
            point[k] = !align ? (2 * at + 1) / (double)size - 1 : most == 0 ? 0 : 2 * at / most - 1;
            rest /= size;
        }
        point[rank] = 1;
    }
    return ox_doubles(o, dtype, items, dims, 2);
}

void rlx_ox_affine_grid(ox *o) {
    rlx_value_id theta = ox_in(o, 0);
    bool align = ox_int(o, "align_corners", 0) != 0;
    rlx_ints size = {0};
    int64_t count = 1, dims[RLX_MAX_RANK];
    if (!ox_need_ints(o, ox_in(o, 1), &size)) return;
    uint32_t spatial = size.count - 2;
    if (size.count != 4 && size.count != 5) ox_invalid(o, "a size of %u numbers", size.count);
    if (ox_ok(o) && (ox_rank(o, theta) != 3 || ox_dim(o, theta, 1) != spatial ||
                     ox_dim(o, theta, 2) != spatial + 1))
        ox_invalid(o, "theta does not fit an image of %u axes", spatial);
    for (uint32_t i = 0; i < spatial && ox_ok(o); i++) {
        if (size.items[i + 2] < 1) ox_invalid(o, "size %" PRId64, size.items[i + 2]);
        count = ox_times(o, count, size.items[i + 2]);
        dims[i + 1] = size.items[i + 2];
    }
    if (ox_ok(o) && count > OX_MOST_NUMBERS / 4) ox_unsupported(o, "%" PRId64 " points", count);
    if (!ox_ok(o)) return;
    dims[0] = ox_dim(o, theta, 0);
    dims[spatial + 1] = spatial;
    const rlx_matmul_attrs attrs = {.transpose_b = true};
    const rlx_value_id inputs[] = {
        all_points(o, ox_dtype(o, theta), size.items + 2, spatial, align, count), theta};
    rlx_value_id y = ox_node(o, RLX_OP_MATMUL, &attrs, inputs, 2);
    ox_give(o, 0, ox_reshape(o, y, dims, spatial + 2));
}
