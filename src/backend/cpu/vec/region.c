/* SPDX-License-Identifier: Apache-2.0 */
/* roi_align of f32, means. A lane is a bin: where the corners of its points lie and how much they
 * count is worked out once for all channels of an item; then corners are read plane by plane, two
 * neighbours of a row at once. The largest of corners is left to scalar C, and planes whose rows
 * have holes. Scalar C adds a corner that counts nothing too, and 0 times infinity is none:
 * channels with a result that is not finite are done again there. */
#include "ref/region.h"
#include "backend/cpu/vec/finite.h"
#include "backend/cpu/vec/rows.h"

enum { CHANNELS = 64 /* of an item */, POINTS = 8 /* of a bin at a time */, ROWS = 2 };

/* Two neighbours as one number. */
typedef uint64_t vec_pairs __attribute__((vector_size(RLX_VEC_BYTES)));
enum { PAIRS = VF / 2 };

/* Points of VF bins: for each of the two rows of a point where two neighbours lie in a plane, which
 * of them are meant (all bits, or none) and how much they count. */
typedef struct points {
    int32_t at[POINTS][ROWS][VF];
    int32_t meant[POINTS][ROWS][2 * VF];
    float parts[POINTS][ROWS][2 * VF];
} points;

/* What an item does. */
typedef struct align {
    const rlx_tensor *x, *y;
    rlx_ref_region region;
    const float *plane; /* the first channel of the item */
    int64_t channels;
} align;

/* One row of a point: `part` for all of it, `z` along it. */
static void put_row(points *p, int64_t k, int row, int64_t lane, const rlx_tensor *x, int64_t at,
                    double part, const rlx_ref_side *z) {
    int64_t first = z->low < z->high ? z->low : z->low - 1; /* the last column is a second one */
    bool is_last = z->low == z->high;
    int32_t *meant = &p->meant[k][row][2 * lane];
    float *parts = &p->parts[k][row][2 * lane];
    p->at[k][row][lane] = (int32_t)(at * x->strides[2] + first);
    meant[0] = is_last ? 0 : -1;
    meant[1] = -1;
    parts[0] = is_last ? 0 : (float)(part * z->low_part);
    parts[1] = (float)(part * (is_last ? 1 : z->high_part));
}

/* One point of one lane; outside it counts nothing. */
static void put_point(points *p, int64_t k, int64_t lane, const rlx_tensor *x, double down,
                      double along) {
    rlx_ref_side y = {0}, z = {0};
    if (rlx_ref_region_side(down, x->dims[2], &y) && rlx_ref_region_side(along, x->dims[3], &z)) {
        put_row(p, k, 0, lane, x, y.low, y.low_part, &z);
        put_row(p, k, 1, lane, x, y.high, y.high_part, &z);
        return;
    }
    for (int row = 0; row < ROWS; row++) {
        p->at[k][row][lane] = 0;
        for (int64_t i = 2 * lane; i < 2 * lane + 2; i++)
            p->meant[k][row][i] = 0, p->parts[k][row][i] = 0;
    }
}

/* Points [first, first + count) of the bins from `bin` on; lanes beyond the last bin repeat it. */
static void find_points(const align *self, int64_t bin, int64_t first, int64_t count, points *p) {
    const rlx_ref_region *r = &self->region;
    int64_t columns = self->y->dims[3], last = self->y->dims[2] * columns - 1;
    for (int64_t lane = 0; lane < VF; lane++) {
        int64_t here = rlx_ref_least(bin + lane, last);
        double top = r->y0 + (double)(here / columns) * r->bin_height;
        double left = r->x0 + (double)(here % columns) * r->bin_width;
        for (int64_t k = 0; k < count; k++) {
            int64_t row = (first + k) / r->columns, column = (first + k) % r->columns;
            put_point(p, k, lane, self->x,
                      top + ((double)row + 0.5) / (double)r->rows * r->bin_height,
                      left + ((double)column + 0.5) / (double)r->columns * r->bin_width);
        }
    }
}

VEC_INLINE uint64_t two(const float *from) {
    uint64_t pair;
    memcpy(&pair, from, sizeof pair);
    return pair;
}
/* Two neighbours for each of PAIRS bins. */
VEC_INLINE vi gather(const float *plane, const int32_t *at) {
#if RLX_VEC_BYTES == 32
    vec_pairs pairs = {two(plane + at[0]), two(plane + at[1]), two(plane + at[2]),
                       two(plane + at[3])};
#else
    vec_pairs pairs = {0};
    for (int i = 0; i < PAIRS; i++)
        pairs[i] = two(plane + at[i]);
#endif
    return (vi)pairs;
}

/* Sums of VF bins, in two halves of pairs. */
typedef struct halves {
    vf half[2];
} halves;

static halves join_points(const float *plane, const points *p, int64_t count, halves sum) {
    for (int64_t k = 0; k < count; k++) {
        VEC_UNROLLED for (int h = 0; h < 2; h++) {
            VEC_UNROLLED for (int row = 0; row < ROWS; row++) {
                vi meant;
                memcpy(&meant, &p->meant[k][row][h * VF], sizeof meant);
                vf value = (vf)(gather(plane, &p->at[k][row][h * PAIRS]) & meant);
                sum.half[h] = vf_fma(vf_load(&p->parts[k][row][h * VF]), value, sum.half[h]);
            }
        }
    }
    return sum;
}

static void put_means(const halves *sum, float factor, float *to, int64_t count) {
    float pairs[2 * VF];
    vf_store(pairs, sum->half[0]);
    vf_store(pairs + VF, sum->half[1]);
    for (int64_t i = 0; i < count; i++)
        to[i] = (pairs[2 * i] + pairs[2 * i + 1]) * factor;
}

/* VF bins of all channels of an item, from `bin` on. */
static void pool_bins(const align *self, int64_t bin, float *to) {
    int64_t count = self->region.rows * self->region.columns;
    int64_t bins = self->y->dims[2] * self->y->dims[3];
    halves sums[CHANNELS];
    points p;
    for (int64_t c = 0; c < self->channels; c++)
        sums[c].half[0] = sums[c].half[1] = vf_set(0);
    for (int64_t first = 0; first < count; first += POINTS) {
        int64_t some = rlx_ref_least(POINTS, count - first);
        find_points(self, bin, first, some, &p);
        for (int64_t c = 0; c < self->channels; c++)
            sums[c] = join_points(self->plane + c * self->x->strides[1], &p, some, sums[c]);
    }
    for (int64_t c = 0; c < self->channels; c++)
        put_means(&sums[c], count > 0 ? 1 / (float)count : 0, to + c * self->y->strides[1] + bin,
                  rlx_ref_least(VF, bins - bin));
}

static bool fits(const rlx_kernel_args *args) {
    const rlx_roi_align_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    if (attrs->largest || x->dtype != RLX_DTYPE_F32 || y->dtype != RLX_DTYPE_F32 ||
        x->dims[2] < 1 || x->dims[3] < 2 || !vec_is_dense(y, 2))
        return false;
    return x->strides[3] == 1 && x->strides[2] >= 0 && x->dims[3] < INT32_MAX / 2 &&
           x->strides[2] <= INT32_MAX / 2 / x->dims[2];
}

/* Channels of an item, from `channel` on, whose results are not all finite. */
static void redo_channels(const rlx_kernel_args *args, const float *y, int64_t index,
                          int64_t channel, int64_t channels) {
    const int64_t bins = args->out[0].dims[2] * args->out[0].dims[3],
                  step = args->out[0].strides[1];
    for (int64_t c = 0; c < channels; c++) {
        int64_t item = index * args->out[0].dims[1] + channel + c;
        if (!vec_is_finite(y + c * step, bins)) vec_scalar_run(args, item, item + 1);
    }
}

static int64_t parts_of(const rlx_kernel_args *args) {
    return (args->out[0].dims[1] + CHANNELS - 1) / CHANNELS;
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    if (!fits(args)) {
        vec_scalar_run(args, begin, end);
        return;
    }
    for (int64_t item = begin; item < end; item++) {
        int64_t index = item / parts_of(args), channel = item % parts_of(args) * CHANNELS;
        align self = {.x = x, .y = y, .region = rlx_ref_region_load(args, index)};
        float *to = (float *)y->data + index * y->strides[0] + channel * y->strides[1];
        int64_t batch = self.region.batch;
        self.channels = rlx_ref_least(CHANNELS, y->dims[1] - channel);
        if (batch < 0) self.region.rows = batch = 0; /* no points: zeros */
        self.plane = (const float *)x->data + batch * x->strides[0] + channel * x->strides[1];
        for (int64_t bin = 0; bin < y->dims[2] * y->dims[3]; bin += VF)
            pool_bins(&self, bin, to);
        redo_channels(args, to, index, channel, self.channels);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    if (!fits(args)) return vec_scalar_items(args);
    return rlx_tensor_elements(&args->out[0]) == 0 ? 0 : args->out[0].dims[0] * parts_of(args);
}

static int64_t item_cost(const rlx_kernel_args *args) {
    int64_t bins = rlx_ref_cost(args->out[0].dims[2], args->out[0].dims[3]);
    return rlx_ref_cost(bins, fits(args) ? 8 * CHANNELS : 64);
}

static bool takes(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    return fits(&args);
}

const rlx_cpu_override VEC_SYMBOL(region)[] = {
    {RLX_OP_ROI_ALIGN, 0, takes, {VEC_NAME("roi_align"), run, items, item_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
