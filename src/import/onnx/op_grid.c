/* SPDX-License-Identifier: Apache-2.0 */
/* GridSample, DeformConv and AffineGrid: where the neighbours of a point lie and how much each
 * counts is computed, axis by axis; gather_sum reads them. */
#include "import/onnx/ops.h"

#include <string.h>

typedef enum padding { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION } padding;
enum { MOST_AXES = 3, MOST_NEIGHBOURS = 4 };

/* Coordinates are [N][1] (one per axis) [P]. */
typedef struct grid {
    rlx_value_id pixels; /* [N][C][product of sizes] */
    int64_t n, c, points;
    int64_t sizes[MOST_AXES];
    uint32_t axes;
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

/* As many dims as coordinates have: `neighbours` along an axis, `points`, 1 elsewhere. */
static void dims_of(const grid *self, uint32_t axis, int64_t neighbours, int64_t n, int64_t points,
                    int64_t *dims) {
    dims[0] = n;
    for (uint32_t i = 0; i < self->axes; i++)
        dims[1 + i] = i == axis ? neighbours : 1;
    dims[1 + self->axes] = points;
}

/* Numbers along an axis. */
static rlx_value_id along(ox *o, const grid *self, uint32_t axis, const double *items,
                          int64_t count) {
    int64_t dims[RLX_MAX_RANK];
    dims_of(self, axis, count, 1, 1, dims);
    return ox_doubles(o, self->dtype, items, dims, self->axes + 2);
}

static rlx_value_id flat(ox *o, const grid *self, rlx_value_id x, int64_t neighbours) {
    const int64_t dims[] = {self->n, neighbours, self->points};
    return ox_reshape(o, x, dims, 3);
}

/* Where pixels lie, from whole numbers per axis, and (zeros) whether they are inside. */
static rlx_value_id places(ox *o, const grid *self, const rlx_value_id *whole,
                           rlx_value_id *out_inside) {
    int64_t pixels = 1;
    rlx_value_id sum = RLX_NONE, inside = RLX_NONE;
    for (uint32_t i = 0; i < self->axes; i++)
        pixels = ox_times(o, pixels, self->sizes[i]);
    rlx_dtype dtype = pixels <= INT32_MAX ? RLX_DTYPE_I32 : RLX_DTYPE_I64;
    for (uint32_t i = 0; i < self->axes && ox_ok(o); i++) {
        rlx_value_id x = whole[i];
        if (self->pad == PAD_REFLECTION) x = reflect(o, self, x, self->sizes[i]);
        rlx_value_id near = clip(o, x, 0, (double)(self->sizes[i] - 1));
        rlx_value_id place = ox_cast(o, near, dtype), fits = ox_binary(o, RLX_OP_EQUAL, x, near);
        rlx_value_id size = ox_scalar(o, dtype, (double)self->sizes[i]);
        sum = i == 0 ? place : add(o, mul(o, sum, size), place);
        inside = i == 0 ? fits : ox_binary(o, RLX_OP_AND, inside, fits);
    }
    *out_inside = self->pad == PAD_ZEROS ? inside : RLX_NONE;
    return sum;
}

/* The pixel at whole numbers, whatever its dtype. */
static rlx_value_id nearest(ox *o, const grid *self, const rlx_value_id *whole) {
    const rlx_axis_attrs axis = {2};
    const int64_t dims[] = {self->n, self->c, self->points};
    rlx_value_id inside, index = flat(o, self, places(o, self, whole, &inside), 1);
    const rlx_value_id inputs[] = {self->pixels, ox_expand(o, index, dims, 3)};
    rlx_value_id found = ox_node(o, RLX_OP_GATHER_ELEMENTS, &axis, inputs, 2);
    if (inside == RLX_NONE) return found;
    return ox_where(o, flat(o, self, inside, 1), found, ox_scalar(o, ox_dtype(o, found), 0));
}

/* Coordinate `axis` of the grid in pixels. */
static rlx_value_id coordinate(ox *o, const grid *self, rlx_value_id points, uint32_t axis) {
    int64_t dims[RLX_MAX_RANK], part = self->axes - 1 - axis, size = self->sizes[axis];
    double most = (double)size;
    dims_of(self, axis, 1, self->n, self->points, dims);
    rlx_value_id x = ox_slice(o, points, self->axes + 1, part, part + 1, 1);
    x = add(o, ox_reshape(o, x, dims, self->axes + 2), number(o, self, 1));
    if (self->align) {
        x = mul(o, x, number(o, self, (most - 1) / 2));
    } else {
        x = mul(o, sub(o, mul(o, x, number(o, self, most)), number(o, self, 1)),
                number(o, self, 0.5));
    }
    if (self->pad == PAD_BORDER) return clip(o, x, 0, most - 1);
    return self->pad == PAD_REFLECTION ? reflect(o, self, x, size) : x;
}

/* c3 d^3 + c2 d^2 + c1 d + c0 */
static rlx_value_id cubic(ox *o, const grid *self, rlx_value_id d, const double *c) {
    rlx_value_id sum = number(o, self, c[3]);
    for (uint32_t i = 3; i-- > 0;)
        sum = add(o, mul(o, sum, d), number(o, self, c[i]));
    return sum;
}

/* The weights of four neighbours at distances d + 1, d, 1 - d, 2 - d; a = -0.75. */
static rlx_value_id cubic_weights(ox *o, const grid *self, uint32_t axis, rlx_value_id d) {
    static const double near_terms[] = {1, 0, -2.25, 1.25}; /* 1 - (a + 3) d^2 + (a + 2) d^3 */
    static const double far_terms[] = {3, -6, 3.75, -0.75}; /* a (d^3 - 5 d^2 + 8 d - 4) */
    rlx_value_id one = number(o, self, 1), rest = sub(o, one, d);
    const rlx_value_id weights[] = {cubic(o, self, add(o, d, one), far_terms),
                                    cubic(o, self, d, near_terms), cubic(o, self, rest, near_terms),
                                    cubic(o, self, add(o, rest, one), far_terms)};
    return ox_concat(o, weights, 4, 1 + axis);
}

/* Pixels between which a point lies, weighted: two along each axis, or four. `at` has a coordinate
 * per axis. */
static rlx_value_id between(ox *o, const grid *self, const rlx_value_id *at, bool is_cubic) {
    static const double offsets[MOST_NEIGHBOURS] = {-1, 0, 1, 2}, ends[2] = {1, 0};
    const int64_t neighbours = is_cubic ? 4 : 2;
    rlx_value_id whole[MOST_AXES], weights = RLX_NONE, inside;
    int64_t all = 1;
    for (uint32_t i = 0; i < self->axes && ox_ok(o); i++) {
        rlx_value_id first = ox_unary(o, RLX_OP_FLOOR, at[i]), d = sub(o, at[i], first), part;
        whole[i] = add(o, first, along(o, self, i, offsets + (is_cubic ? 0 : 1), neighbours));
        part = is_cubic ? cubic_weights(o, self, i, d)
                        : ox_unary(o, RLX_OP_ABS, sub(o, d, along(o, self, i, ends, 2)));
        weights = i == 0 ? part : mul(o, weights, part);
        all *= neighbours;
    }
    if (!ox_ok(o)) return RLX_NONE;
    rlx_value_id index = places(o, self, whole, &inside);
    if (inside != RLX_NONE)
        index = ox_where(o, inside, index, ox_scalar(o, ox_dtype(o, index), -1));
    weights = ox_cast(o, flat(o, self, weights, all), ox_dtype(o, self->pixels));
    const rlx_value_id inputs[] = {self->pixels, flat(o, self, index, all), weights};
    return ox_node(o, RLX_OP_GATHER_SUM, NULL, inputs, 3);
}

void rlx_ox_grid_sample(ox *o) {
    rlx_value_id x = ox_in(o, 0), points = ox_in(o, 1), at[MOST_AXES], y;
    const char *mode = ox_text(o, "mode", o->since < 20 ? "bilinear" : "linear");
    const char *pad = ox_text(o, "padding_mode", "zeros");
    grid self = {.align = ox_int(o, "align_corners", 0) != 0, .dtype = ox_dtype(o, points)};
    int64_t result[RLX_MAX_RANK], pixels = 1;
    uint32_t rank = ox_ok(o) ? ox_rank(o, x) : 4;
    if (ox_ok(o) && (rank < 3 || rank > MOST_AXES + 2 || ox_rank(o, points) != rank))
        ox_unsupported(o, "inputs of rank %u", rank);
    if (!ox_ok(o)) return;
    self.pad = strcmp(pad, "border") == 0       ? PAD_BORDER
               : strcmp(pad, "reflection") == 0 ? PAD_REFLECTION
                                                : PAD_ZEROS;
    self.axes = rank - 2;
    self.n = result[0] = ox_dim(o, x, 0);
    self.c = result[1] = ox_dim(o, x, 1);
    self.points = 1;
    for (uint32_t i = 0; i < self.axes; i++) {
        self.sizes[i] = ox_dim(o, x, 2 + i);
        pixels = ox_times(o, pixels, self.sizes[i]);
        result[2 + i] = ox_dim(o, points, 1 + i);
        self.points = ox_times(o, self.points, result[2 + i]);
    }
    const int64_t planes[] = {self.n, self.c, pixels};
    self.pixels = ox_reshape(o, x, planes, 3);
    bool is_nearest = strcmp(mode, "nearest") == 0;
    for (uint32_t i = 0; i < self.axes && ox_ok(o); i++) {
        at[i] = coordinate(o, &self, points, i);
        if (is_nearest) at[i] = ox_unary(o, RLX_OP_ROUND, at[i]);
    }
    if (!ox_ok(o)) return;
    y = is_nearest
            ? nearest(o, &self, at)
            : between(o, &self, at, strcmp(mode, "bicubic") == 0 || strcmp(mode, "cubic") == 0);
    ox_give(o, 0, ox_reshape(o, y, result, rank));
}

/* Where the kernel of a DeformConv would read along one axis, moved by the offsets `moved`
 * [N groups][kernel][points]; `is_row` says which axis. Gives [N groups][1][1][kernel points]. */
static rlx_value_id deformed(ox *o, const grid *self, const rlx_conv_attrs *conv,
                             rlx_value_id moved, const int64_t *kernel, const int64_t *out,
                             bool is_row) {
    uint32_t axis = is_row ? 0 : 1;
    int64_t taps = ox_times(o, kernel[0], kernel[1]), points = ox_times(o, out[0], out[1]);
    int64_t stride = conv->strides.count > axis ? conv->strides.items[axis] : 1;
    int64_t far = conv->dilations.count > axis ? conv->dilations.items[axis] : 1;
    int64_t pad = conv->pads.count > axis ? conv->pads.items[axis] : 0;
    const int64_t tap_dims[] = {1, taps, 1}, point_dims[] = {1, 1, points};
    const int64_t dims[] = {self->n, 1, 1, self->points};
    double *by_tap = ox_memory(o, (uint64_t)taps, sizeof *by_tap);
    double *by_point = ox_memory(o, (uint64_t)points, sizeof *by_point);
    if (!ox_ok(o)) return RLX_NONE;
    for (int64_t i = 0; i < taps; i++)
        by_tap[i] = (double)((is_row ? i / kernel[1] : i % kernel[1]) * far - pad);
    for (int64_t i = 0; i < points; i++)
        by_point[i] = (double)((is_row ? i / out[1] : i % out[1]) * stride);
    moved = add(o, moved, ox_doubles(o, self->dtype, by_tap, tap_dims, 3));
    moved = add(o, moved, ox_doubles(o, self->dtype, by_point, point_dims, 3));
    return ox_reshape(o, moved, dims, 4);
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
    grid self = {.n = ox_times(o, n, parts), .c = c / parts, .axes = 2};
    self.sizes[0] = ox_dim(o, x, 2), self.sizes[1] = ox_dim(o, x, 3);
    self.points = ox_times(o, taps, points);
    self.dtype = ox_dtype(o, offset);
    const int64_t pixels[] = {self.n, self.c, ox_times(o, self.sizes[0], self.sizes[1])};
    const int64_t pairs[] = {self.n, taps, 2, points}, one[] = {self.n, taps, points};
    self.pixels = ox_reshape(o, x, pixels, 3);
    offset = ox_reshape(o, offset, pairs, 4);
    rlx_value_id rows = ox_reshape(o, ox_slice(o, offset, 2, 0, 1, 1), one, 3);
    rlx_value_id across = ox_reshape(o, ox_slice(o, offset, 2, 1, 2, 1), one, 3);
    const rlx_value_id at[] = {deformed(o, &self, &conv, rows, kernel, out, true),
                               deformed(o, &self, &conv, across, kernel, out, false)};
    rlx_value_id read = between(o, &self, at, false);
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
