/* SPDX-License-Identifier: Apache-2.0 */
/* Resize and Upsample: one axis after the other. The places and weights follow from sizes alone, so
 * they are constants; an axis becomes a gather_sum, or a gather where pixels are not mixed. */
#include "import/onnx/ops.h"

#include <math.h>
#include <string.h>

typedef enum coordinates {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_HALF_PIXEL,
    TF_CROP
} coordinates;

typedef enum resize_mode { NEAREST, LINEAR, CUBIC } resize_mode;

typedef struct resize {
    coordinates where;
    resize_mode mode;
    const char *nearest;
    double cubic_a, extrapolation;
    bool exclude_outside, antialias;
} resize;

/* One axis: sizes, the exact scale, and its part of the region of interest. */
typedef struct resize_axis {
    int64_t in, out;
    double scale, start, end;
} resize_axis;

static double place(const resize *self, const resize_axis *axis, int64_t i) {
    double x = (double)i, in = (double)axis->in, width = axis->scale * in;
    switch (self->where) {
    case HALF_PIXEL:
        return (x + 0.5) / axis->scale - 0.5;
    case HALF_PIXEL_SYMMETRIC: {
        double adjust = (double)axis->out / width, centre = in / 2;
        return centre * (1 - adjust) + (x + 0.5) / axis->scale - 0.5;
    }
    case PYTORCH_HALF_PIXEL:
        return axis->out == 1 ? -0.5 : (x + 0.5) / axis->scale - 0.5;
    case ALIGN_CORNERS:
        return axis->out == 1 ? 0 : x * (in - 1) / (width - 1);
    case ASYMMETRIC:
        return x / axis->scale;
    case TF_HALF_PIXEL:
        return (x + 0.5) / axis->scale;
    case TF_CROP:
        return axis->out == 1 ? (axis->end + axis->start) * (in - 1) / 2
                              : axis->start * (in - 1) + x * (axis->end - axis->start) * (in - 1) /
                                                             (double)(axis->out - 1);
    }
    return 0;
}

static double clamp(double x, double most) {
    return x < 0 ? 0 : x > most ? most : x;
}

/* "simple" is what version 10 means: down to the pixel, but up where an image shrinks. */
static double nearest_place(const resize *self, const resize_axis *axis, double x) {
    if (strcmp(self->nearest, "simple") == 0) return axis->scale < 1 ? ceil(x) : floor(x);
    if (strcmp(self->nearest, "floor") == 0) return floor(x);
    if (strcmp(self->nearest, "ceil") == 0) return ceil(x);
    if (strcmp(self->nearest, "round_prefer_ceil") == 0) return floor(x + 0.5);
    return ceil(x - 0.5);
}

static double cubic(double x, double a) {
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    return 0;
}

static double kernel(const resize *self, double x) {
    if (self->mode == CUBIC) return cubic(x, self->cubic_a);
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* How many elements one result reads. */
static uint32_t tap_count(const resize *self, const resize_axis *axis) {
    if (self->mode == NEAREST) return 1;
    double reach = self->mode == CUBIC ? 2 : 1;
    double shrink = self->antialias && axis->scale < 1 ? axis->scale : 1;
    return shrink < 1e-3 ? 8192 : 2 * (uint32_t)ceil(reach / shrink);
}

/* Places and weights of result i. */
static void find_taps(const resize *self, const resize_axis *axis, int64_t i, uint32_t taps,
                      double *places, double *weights) {
    double x = place(self, axis, i), most = (double)(axis->in - 1), sum = 0;
    double shrink = self->antialias && axis->scale < 1 ? axis->scale : 1;
    if (self->mode == NEAREST) {
        places[0] = clamp(nearest_place(self, axis, x), most);
        weights[0] = 1;
        return;
    }
    for (uint32_t k = 0; k < taps; k++) {
        double at = floor(x) + (double)k - (double)(taps / 2) + 1;
        weights[k] = kernel(self, (at - x) * shrink);
        if (self->exclude_outside && (at < 0 || at > most)) weights[k] = 0;
        places[k] = clamp(at, most);
        sum += weights[k];
    }
    for (uint32_t k = 0; k < taps && sum != 0; k++)
        weights[k] /= sum;
}

/* Results outside the input are a number of their own. */
static rlx_value_id extrapolate(ox *o, const resize *self, const resize_axis *axis, uint32_t at,
                                rlx_value_id y) {
    int64_t dims[RLX_MAX_RANK];
    uint32_t rank = ox_rank(o, y);
    double *outside = ox_memory(o, (uint64_t)axis->out, sizeof *outside);
    if (self->where != TF_CROP || !ox_ok(o)) return y;
    for (int64_t i = 0; i < axis->out; i++) {
        double x = place(self, axis, i);
        outside[i] = x < 0 || x > (double)(axis->in - 1);
    }
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i == at ? axis->out : 1;
    rlx_value_id mask = ox_doubles(o, RLX_DTYPE_BOOL, outside, dims, rank);
    return ox_where(o, mask, ox_scalar(o, ox_dtype(o, y), self->extrapolation), y);
}

/* Taps that read one element are one tap; the others read nothing, and neighbours stay side by
 * side. */
static void join_taps(uint32_t taps, double *places, double *weights) {
    for (uint32_t k = 1, kept = 0; k < taps; k++) {
        if (places[k] != places[kept]) {
            kept = k;
            continue;
        }
        weights[kept] += weights[k];
        weights[k] = 0;
        places[k] = -1;
    }
}

/* Where the result reads the input along one axis, and how much that counts: [1][taps][out]. Taps
 * that never count are left out. */
typedef struct axis_taps {
    uint32_t count;
    double *places, *weights;
} axis_taps;

static axis_taps taps_of(ox *o, const resize *self, const resize_axis *axis) {
    uint32_t taps = tap_count(self, axis);
    axis_taps all = {0};
    if (axis->in == 0 || axis->out > OX_MOST_NUMBERS / taps || taps > 4096)
        ox_unsupported(o, "from %" PRId64 " to %" PRId64, axis->in, axis->out);
    if (!ox_ok(o)) return all;
    all.places = ox_memory(o, (uint64_t)axis->out * taps, sizeof *all.places);
    all.weights = ox_memory(o, (uint64_t)axis->out * taps, sizeof *all.weights);
    double *row = ox_memory(o, 2 * taps, sizeof *row);
    for (int64_t i = 0; i < axis->out && ox_ok(o); i++) {
        find_taps(self, axis, i, taps, row, row + taps);
        if (self->mode != NEAREST) join_taps(taps, row, row + taps);
        for (uint32_t k = 0; k < taps; k++) {
            all.places[k * axis->out + i] = row[k];
            all.weights[k * axis->out + i] = row[taps + k];
        }
    }
    for (uint32_t k = 0; k < taps && ox_ok(o); k++) {
        double *from = all.weights + k * axis->out, *to = all.weights + all.count * axis->out;
        bool counts = all.count == 0 && k + 1 == taps;
        for (int64_t i = 0; i < axis->out; i++)
            counts |= from[i] != 0;
        if (!counts) continue;
        memmove(to, from, (size_t)axis->out * sizeof *to);
        memmove(all.places + all.count * axis->out, all.places + k * axis->out,
                (size_t)axis->out * sizeof *to);
        all.count++;
    }
    return all;
}

/* Weighted sums of elements, or of rows where axes follow. */
static rlx_value_id sum_along(ox *o, const resize_axis *axis, const axis_taps *taps, uint32_t at,
                              rlx_value_id x) {
    const int64_t listed[] = {1, taps->count, axis->out};
    int64_t dims[] = {1, 1, axis->in, 1}, result[RLX_MAX_RANK];
    const rlx_dtype dtype = ox_dtype(o, x);
    const rlx_dtype wide = dtype == RLX_DTYPE_F64 ? dtype : RLX_DTYPE_F32;
    for (uint32_t i = 0; i < ox_rank(o, x); i++) {
        result[i] = i == at ? axis->out : ox_dim(o, x, i);
        if (i != at) dims[i < at ? 1 : 3] = ox_times(o, dims[i < at ? 1 : 3], result[i]);
    }
    const rlx_value_id inputs[] = {ox_reshape(o, ox_cast(o, x, wide), dims, dims[3] == 1 ? 3 : 4),
                                   ox_doubles(o, RLX_DTYPE_I32, taps->places, listed, 3),
                                   ox_doubles(o, wide, taps->weights, listed, 3)};
    rlx_value_id y = ox_node(o, RLX_OP_GATHER_SUM, NULL, inputs, 3);
    return ox_cast(o, ox_reshape(o, y, result, ox_rank(o, x)), dtype);
}

static rlx_value_id resize_along(ox *o, const resize *self, const resize_axis *axis, uint32_t at,
                                 rlx_value_id x) {
    const axis_taps taps = taps_of(o, self, axis);
    if (!ox_ok(o)) return x;
    rlx_value_id y;
    if (self->mode == NEAREST) {
        rlx_value_id index = ox_doubles(o, RLX_DTYPE_I64, taps.places, &axis->out, 1);
        y = ox_gather(o, x, index, at);
    } else {
        y = sum_along(o, axis, &taps, at, x);
    }
    return extrapolate(o, self, axis, at, y);
}

/* How often each element of an axis is repeated, one after the other; 0: it is not so simple. */
static int64_t repeats_of(const resize *self, const resize_axis *axis) {
    if (axis->in == axis->out && axis->scale == 1) return 1;
    if (axis->in <= 0 || axis->out % axis->in != 0 || axis->out > OX_MOST_NUMBERS) return 0;
    int64_t times = axis->out / axis->in;
    for (int64_t i = 0; i < axis->out; i++) {
        double places[1], weights[1];
        find_taps(self, axis, i, 1, places, weights);
        if (places[0] != (double)(i / times)) return 0;
    }
    return times;
}

/* Images whose pixels are repeated are one move: every such axis gets another one behind it, along
 * which it is expanded. RLX_NONE: they are not, or there are too many axes. */
static rlx_value_id repeat(ox *o, const resize *self, rlx_value_id x, const resize_axis *axes) {
    int64_t with[RLX_MAX_RANK], wide[RLX_MAX_RANK], result[RLX_MAX_RANK];
    uint32_t rank = ox_rank(o, x), used = 0;
    if (self->mode != NEAREST || self->where == TF_CROP) return RLX_NONE;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t times = repeats_of(self, &axes[i]);
        if (times == 0 || used + (times > 1 ? 2 : 1) > RLX_MAX_RANK) return RLX_NONE;
        result[i] = axes[i].out;
        with[used] = wide[used] = axes[i].in;
        used++;
        if (times == 1) continue;
        with[used] = 1;
        wide[used++] = times;
    }
    x = ox_expand(o, ox_reshape(o, x, with, used), wide, used);
    return ox_reshape(o, x, result, rank);
}

static coordinates read_coordinates(ox *o) {
    static const char *const names[] = {
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
        "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
    const char *name = ox_text(o, "coordinate_transformation_mode", "half_pixel");
    for (uint32_t i = 0; i < 7; i++) {
        if (strcmp(names[i], name) == 0) return (coordinates)i;
    }
    ox_invalid(o, "coordinate_transformation_mode '%s' is not known", name);
    return HALF_PIXEL;
}

static resize_mode read_mode(ox *o) {
    const char *mode = ox_text(o, "mode", "nearest");
    if (strcmp(mode, "nearest") == 0) return NEAREST;
    if (strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0) return LINEAR;
    if (strcmp(mode, "cubic") != 0) ox_invalid(o, "mode '%s' is not known", mode);
    return CUBIC;
}

/* Whole numbers from scales, or scales from sizes. */
static void axes_from_scales(ox *o, const double *scales, uint32_t count, const uint32_t *axes,
                             resize_axis *out) {
    for (uint32_t i = 0; i < count; i++) {
        resize_axis *axis = &out[axes[i]];
        if (!(scales[i] > 0) || scales[i] > 1e6) ox_invalid(o, "scale %g", scales[i]);
        axis->scale = scales[i];
        if (!((double)axis->in * scales[i] < 1e9)) ox_invalid(o, "scale %g", scales[i]);
        if (!ox_ok(o)) return;
        axis->out = (int64_t)floor((double)axis->in * scales[i]);
    }
}

static void axes_from_sizes(ox *o, const int64_t *sizes, uint32_t count, const uint32_t *axes,
                            resize_axis *out) {
    const char *policy = ox_text(o, "keep_aspect_ratio_policy", "stretch");
    bool is_less = strcmp(policy, "not_larger") == 0, is_more = strcmp(policy, "not_smaller") == 0;
    double common = is_less ? INFINITY : 0;
    for (uint32_t i = 0; i < count; i++) {
        double scale = (double)sizes[i] / (double)out[axes[i]].in;
        if (sizes[i] < 0) ox_invalid(o, "size %" PRId64, sizes[i]);
        if (is_less ? scale < common : scale > common) common = scale;
        out[axes[i]].scale = scale;
        out[axes[i]].out = sizes[i];
    }
    for (uint32_t i = 0; i < count && (is_less || is_more); i++) {
        out[axes[i]].scale = common;
        double size = common * (double)out[axes[i]].in + 0.5;
        if (!(size >= 0 && size < 1e9)) ox_invalid(o, "a size of %g", size);
        if (!ox_ok(o)) return;
        out[axes[i]].out = (int64_t)floor(size);
    }
}

/* The axis of those that are left which shrinks most: the others have less to do then. Of two alike
 * the one further back, since reading between the elements of a row takes longest. */
static uint32_t next_axis(const resize *self, const resize_axis *axes, uint32_t rank,
                          uint32_t done) {
    uint32_t next = rank;
    double least = INFINITY;
    for (uint32_t i = 0; i < rank; i++) {
        double ratio = (double)axes[i].out / (double)(axes[i].in < 1 ? 1 : axes[i].in);
        bool is_same = axes[i].in == axes[i].out && axes[i].scale == 1 && self->where != TF_CROP;
        if ((done >> i & 1u) != 0 || is_same || ratio > least) continue;
        least = ratio;
        next = i;
    }
    return next;
}

static void resize_all(ox *o, const resize *self, rlx_value_id x, const resize_axis *axes) {
    uint32_t rank = ox_rank(o, x), done = 0;
    rlx_value_id y = x;
    if (ox_ok(o) && self->mode != NEAREST && !ox_is_float(o, x))
        ox_unsupported(o, "interpolated integers");
    rlx_value_id repeated = ox_ok(o) ? repeat(o, self, x, axes) : RLX_NONE;
    if (repeated != RLX_NONE) y = repeated;
    while (ox_ok(o) && repeated == RLX_NONE) {
        uint32_t next = next_axis(self, axes, rank, done);
        if (next == rank) break;
        y = resize_along(o, self, &axes[next], next, y);
        done |= 1u << next;
    }
    ox_give(o, 0, y);
}

static uint32_t listed_axes(ox *o, uint32_t rank, uint32_t *axes) {
    rlx_ints list = {0};
    if (!ox_ints(o, "axes", &list)) {
        for (uint32_t i = 0; i < rank; i++)
            axes[i] = i;
        return rank;
    }
    for (uint32_t i = 0; i < list.count && i < RLX_MAX_RANK; i++)
        axes[i] = ox_axis(o, list.items[i], rank);
    return list.count;
}

static void start_axes(ox *o, rlx_value_id x, resize_axis *axes) {
    for (uint32_t i = 0; i < ox_rank(o, x); i++)
        axes[i] = (resize_axis){ox_dim(o, x, i), ox_dim(o, x, i), 1, 0, 1};
}

/* The region of interest: all starts, then all ends. */
static void read_region(ox *o, uint32_t count, const uint32_t *listed, resize_axis *axes) {
    double *roi = NULL;
    uint32_t items = 0;
    if (!ox_need_doubles(o, ox_in(o, 1), &roi, &items)) return;
    if (items != 2 * count) ox_invalid(o, "a region of %u numbers for %u axes", items, count);
    for (uint32_t i = 0; i < count && ox_ok(o); i++) {
        axes[listed[i]].start = roi[i];
        axes[listed[i]].end = roi[count + i];
    }
}

void rlx_ox_resize(ox *o) {
    resize self = {.mode = read_mode(o), .where = ASYMMETRIC, .nearest = "simple"};
    rlx_value_id x = ox_in(o, 0);
    resize_axis axes[RLX_MAX_RANK];
    uint32_t listed[RLX_MAX_RANK], items = 0;
    double *scales = NULL;
    int64_t *sizes = NULL;
    start_axes(o, x, axes);
    uint32_t count = listed_axes(o, ox_rank(o, x), listed);
    if (o->since >= 11) {
        self.where = read_coordinates(o);
        self.nearest = ox_text(o, "nearest_mode", "round_prefer_floor");
        self.cubic_a = ox_float(o, "cubic_coeff_a", -0.75);
        self.exclude_outside = ox_int(o, "exclude_outside", 0) != 0;
        self.extrapolation = ox_float(o, "extrapolation_value", 0);
        self.antialias = ox_int(o, "antialias", 0) != 0;
        if (self.where == TF_CROP) read_region(o, count, listed, axes);
    }
    uint32_t scale_input = o->since >= 11 ? 2 : 1;
    bool has_sizes = o->since >= 11 && ox_has(o, 3);
    bool has_scales =
        ox_has(o, scale_input) && (!has_sizes || ox_elements(o, ox_in(o, scale_input)) != 0);
    if (has_scales) {
        ox_need_doubles(o, ox_in(o, scale_input), &scales, &items);
    } else {
        ox_need_list(o, ox_in(o, 3), &sizes, &items);
    }
    if (ox_ok(o) && items != count) ox_invalid(o, "%u sizes for %u axes", items, count);
    if (!ox_ok(o)) return;
    if (has_scales) {
        axes_from_scales(o, scales, count, listed, axes);
    } else {
        axes_from_sizes(o, sizes, count, listed, axes);
    }
    resize_all(o, &self, x, axes);
}

/* Version 1 has two attributes, 7 a list, 9 an input. */
void rlx_ox_upsample(ox *o) {
    resize self = {.mode = read_mode(o), .where = ASYMMETRIC, .nearest = "floor"};
    rlx_value_id x = ox_in(o, 0);
    resize_axis axes[RLX_MAX_RANK];
    uint32_t listed[RLX_MAX_RANK], items = 0, rank = ox_rank(o, x);
    double *scales = ox_memory(o, RLX_MAX_RANK, sizeof *scales);
    start_axes(o, x, axes);
    for (uint32_t i = 0; i < rank; i++)
        listed[i] = i;
    if (o->since >= 9) {
        ox_need_doubles(o, ox_in(o, 1), &scales, &items);
    } else if (o->since >= 7) {
        const rlx_onnx_attr *attr = ox_attr(o, "scales");
        items = attr == NULL || attr->floats == NULL ? 0 : attr->count;
        for (uint32_t i = 0; i < items && i < RLX_MAX_RANK && ox_ok(o); i++)
            scales[i] = (double)attr->floats[i];
    } else if (ox_ok(o)) {
        items = rank;
        for (uint32_t i = 0; i < rank; i++)
            scales[i] = 1;
        if (rank == 4) scales[2] = ox_float(o, "height_scale", 1);
        if (rank == 4) scales[3] = ox_float(o, "width_scale", 1);
    }
    if (ox_ok(o) && items != rank) ox_invalid(o, "%u scales for %u axes", items, rank);
    if (!ox_ok(o)) return;
    axes_from_scales(o, scales, rank, listed, axes);
    resize_all(o, &self, x, axes);
}
