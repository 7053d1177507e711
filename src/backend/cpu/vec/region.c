/* SPDX-License-Identifier: Apache-2.0 */
/* Planes of f32 read between their pixels: means of roi_align, and gather_sum. A lane is a bin or a
 * point: where the pixels it reads lie and how much they count is worked out once for all channels
 * of an item; then they are read plane by plane, two neighbours at once.
 *
 * roi_align: the largest of corners is left to scalar C, and planes whose rows have holes. Scalar C
 * adds a corner that counts nothing too, and 0 times infinity is none: channels with a result that
 * is not finite are done again there. */
#include "ref/region.h"
#include "backend/cpu/vec/finite.h"
#include "backend/cpu/vec/rows.h"
#include "ref/strided.h"

enum { CHANNELS = 64 /* of an item */, POINTS = 8 /* of a bin at a time */, ROWS = 2 };

/* Two neighbours as one number. */
typedef uint64_t vec_pairs __attribute__((vector_size(RLX_VEC_BYTES)));
enum { PAIRS = VF / 2 };

/* Two neighbours for each of VF lanes: where the first lies in a plane, which of them are meant
 * (all bits, or none) and how much they count. */
typedef struct pixels {
    int32_t at[VF];
    int32_t meant[2 * VF];
    float parts[2 * VF];
} pixels;

/* What an item does. */
typedef struct align {
    const rlx_tensor *x, *y;
    rlx_ref_region region;
    const float *plane; /* the first channel of the item */
    int64_t channels;
} align;

static void put_pixels(pixels *p, int64_t lane, int64_t at, const int32_t *meant,
                       const float *parts) {
    p->at[lane] = (int32_t)at;
    memcpy(&p->meant[2 * lane], meant, 2 * sizeof *meant);
    memcpy(&p->parts[2 * lane], parts, 2 * sizeof *parts);
}

/* One row of a point: `part` for all of it, `z` along it. */
static void put_row(pixels *p, int64_t lane, const rlx_tensor *x, int64_t at, double part,
                    const rlx_ref_side *z) {
    bool is_last = z->low == z->high; /* the last column is a second one */
    const int32_t meant[] = {is_last ? 0 : -1, -1};
    const float parts[] = {is_last ? 0 : (float)(part * z->low_part),
                           (float)(part * (is_last ? 1 : z->high_part))};
    put_pixels(p, lane, at * x->strides[2] + z->low - is_last, meant, parts);
}

/* One point of one lane, its two rows; outside it counts nothing. */
static void put_point(pixels p[ROWS], int64_t lane, const rlx_tensor *x, double down,
                      double along) {
    static const int32_t none[2];
    static const float nothing[2];
    rlx_ref_side y = {0}, z = {0};
    if (rlx_ref_region_side(down, x->dims[2], &y) && rlx_ref_region_side(along, x->dims[3], &z)) {
        put_row(&p[0], lane, x, y.low, y.low_part, &z);
        put_row(&p[1], lane, x, y.high, y.high_part, &z);
        return;
    }
    for (int row = 0; row < ROWS; row++)
        put_pixels(&p[row], lane, 0, none, nothing);
}

/* Points [first, first + count) of the bins from `bin` on; lanes beyond the last bin repeat it. */
static void find_points(const align *self, int64_t bin, int64_t first, int64_t count, pixels *p) {
    const rlx_ref_region *r = &self->region;
    int64_t columns = self->y->dims[3], last = self->y->dims[2] * columns - 1;
    for (int64_t lane = 0; lane < VF; lane++) {
        int64_t here = rlx_ref_least(bin + lane, last);
        double top = r->y0 + (double)(here / columns) * r->bin_height;
        double left = r->x0 + (double)(here % columns) * r->bin_width;
        for (int64_t k = 0; k < count; k++) {
            int64_t row = (first + k) / r->columns, column = (first + k) % r->columns;
            put_point(p + ROWS * k, lane, self->x,
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

/* Sums of VF lanes, in two halves of pairs. */
typedef struct halves {
    vf half[2];
} halves;

VEC_INLINE vf join(const float *plane, const pixels *p, int h, vf sum) {
    vi meant;
    memcpy(&meant, &p->meant[h * VF], sizeof meant);
    vf value = (vf)(gather(plane, &p->at[h * PAIRS]) & meant);
    return vf_fma(vf_load(&p->parts[h * VF]), value, sum);
}

static halves join_points(const float *plane, const pixels *p, int64_t count, halves sum) {
    for (int64_t k = 0; k < count; k++) {
        VEC_UNROLLED for (int h = 0; h < 2; h++) sum.half[h] = join(plane, p + k, h, sum.half[h]);
    }
    return sum;
}

VEC_INLINE void put_means(const halves *sum, float factor, float *to, int64_t count) {
#if RLX_VEC_BYTES == 32
    __m256 joined = _mm256_hadd_ps((__m256)sum->half[0], (__m256)sum->half[1]);
    vf all = (vf)_mm256_permute4x64_pd((__m256d)joined, 0xd8) * factor;
    if (count == VF) {
        vf_store(to, all);
    } else {
        vf_store_n(to, all, count);
    }
#else
    float pairs[2 * VF];
    vf_store(pairs, sum->half[0]);
    vf_store(pairs + VF, sum->half[1]);
    for (int64_t i = 0; i < count; i++)
        to[i] = (pairs[2 * i] + pairs[2 * i + 1]) * factor;
#endif
}

/* VF bins of all channels of an item, from `bin` on. */
static void pool_bins(const align *self, int64_t bin, float *to) {
    int64_t count = self->region.rows * self->region.columns;
    int64_t bins = self->y->dims[2] * self->y->dims[3];
    halves sums[CHANNELS];
    pixels p[POINTS * ROWS];
    for (int64_t c = 0; c < self->channels; c++)
        sums[c].half[0] = sums[c].half[1] = vf_set(0);
    for (int64_t first = 0; first < count; first += POINTS) {
        int64_t some = rlx_ref_least(POINTS, count - first);
        find_points(self, bin, first, some, p);
        for (int64_t c = 0; c < self->channels; c++)
            sums[c] = join_points(self->plane + c * self->x->strides[1], p, ROWS * some, sums[c]);
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

/* gather_sum. An item is some points of some planes. Taps 2 k and 2 k + 1 of a point are mostly
 * neighbours; where those of some of VF points are not, each tap is a pair of its own. Where a
 * channel has few points, as a row of an image does, several channels that follow one another are
 * one plane, so that its points are whole vectors. */
enum {
    TAPS = 256,         /* of VF points each, at a time */
    PLANES = 32,        /* of an item at least */
    RESULTS = 8192,     /* of an item, where it has few points */
    FEW_POINTS = 8 * VF /* of a channel that is put together with others */
};

/* The workspace: what VF points read has room for all taps of a point. */
typedef struct tap_room {
    int32_t counts[TAPS]; /* of pairs */
    pixels pairs[TAPS];
} tap_room;

typedef struct point_sums {
    const rlx_tensor *x, *index, *weights, *y;
    tap_room *room;
    int64_t taps;             /* of a point */
    int64_t fold;             /* channels of a plane */
    int64_t n, first, points; /* of the item */
} point_sums;

static bool fits_sum(const rlx_kernel_args *args) {
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    return x->rank == 3 && x->dtype == RLX_DTYPE_F32 && x->strides[2] == 1 && y->strides[2] == 1 &&
           x->dims[2] > 1 && x->dims[2] <= INT32_MAX && args->in[1].dims[1] <= TAPS;
}

/* Channels of a plane. */
static int64_t fold_of(const rlx_kernel_args *args) {
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    const int64_t points = y->dims[2];
    int64_t fold = VF;
    while (fold > 1 && points * (fold / 2) % VF == 0)
        fold /= 2;
    return points >= FEW_POINTS || x->strides[1] != x->dims[2] || y->strides[1] != points ||
                   y->dims[1] < fold || x->dims[2] > INT32_MAX / VF
               ? 1
               : fold;
}

/* How the results are cut: planes, how many of them an item has, and blocks of their points. */
typedef struct sum_cut {
    int64_t fold, planes, group, block, groups, blocks;
} sum_cut;

static sum_cut cut_of(const rlx_kernel_args *args) {
    const int64_t taps = args->in[1].dims[1], *dims = args->out[0].dims;
    sum_cut cut = {.fold = fold_of(args), .block = TAPS / (taps < 1 ? 1 : taps) * VF};
    int64_t points = rlx_ref_least(dims[2] * cut.fold, cut.block);
    cut.group = RESULTS / (points < 1 ? 1 : points);
    if (cut.group < PLANES) cut.group = PLANES;
    cut.planes = rlx_ref_divide_up(dims[1], cut.fold);
    cut.groups = rlx_ref_divide_up(cut.planes, cut.group);
    cut.blocks = rlx_ref_divide_up(dims[2] * cut.fold, cut.block);
    return cut;
}

/* Where the channels begin whose points are VF from `first` on; lanes beyond the last have its own.
 */
static vi channels_at(const point_sums *self, int64_t first) {
    int32_t at[VF];
    vi all = {0};
    if (self->fold == 1) return all;
    for (int64_t lane = 0; lane < VF; lane++) {
        int64_t point = self->first + rlx_ref_least(first + lane, self->points - 1);
        at[lane] = (int32_t)(point / self->y->dims[2] * self->x->dims[2]);
    }
    memcpy(&all, at, sizeof all);
    return all;
}

/* Where a tap of VF points from `first` on lies in its channel and how much it counts; lanes beyond
 * the last point have its own. */
static void load_tap(const point_sums *self, int64_t first, int64_t tap, int32_t at[VF],
                     float parts[VF]) {
    const rlx_tensor *index = self->index, *w = self->weights;
    int64_t from = self->n * index->strides[0] + tap * index->strides[1];
    const float *weights = (const float *)w->data + self->n * w->strides[0] + tap * w->strides[1];
    if (index->dtype == RLX_DTYPE_I32 && index->strides[2] == 1 && w->strides[2] == 1 &&
        first + VF <= self->points && self->fold == 1) {
        memcpy(at, (const int32_t *)index->data + from + self->first + first, VF * sizeof *at);
        memcpy(parts, weights + self->first + first, VF * sizeof *parts);
        return;
    }
    for (int64_t lane = 0; lane < VF; lane++) {
        int64_t point = self->first + rlx_ref_least(first + lane, self->points - 1);
        if (self->fold > 1) point %= self->y->dims[2];
        int64_t place = rlx_index_at(index->dtype, index->data, from + point * index->strides[2]);
        at[lane] = place < 0 || place > INT32_MAX ? -1 : (int32_t)place;
        parts[lane] = weights[point * w->strides[2]];
    }
}

/* Lanes of a and b in turn. */
VEC_INLINE void put_turns(void *to, vf a, vf b) {
#if RLX_VEC_BYTES == 32
    __m256 low = _mm256_unpacklo_ps((__m256)a, (__m256)b);
    __m256 high = _mm256_unpackhi_ps((__m256)a, (__m256)b);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps((float *)to + VF, _mm256_permute2f128_ps(low, high, 0x31));
#else
    float both[2 * VF];
    for (int i = 0; i < VF; i++)
        both[2 * i] = a[i], both[2 * i + 1] = b[i];
    memcpy(to, both, sizeof both);
#endif
}

/* Taps `tap` and, with count 2, tap + 1 of VF points as two neighbours. False: they are not. */
static bool put_taps(const point_sums *self, pixels *p, int64_t first, int64_t tap, int64_t count,
                     vi channel) {
    const int32_t length = (int32_t)self->x->dims[2];
    int32_t at[2][VF];
    float parts[2][VF];
    vi a, b = (vi){0} - 1, begin;
    vf part, next = vf_set(0);
    load_tap(self, first, tap, at[0], parts[0]);
    memcpy(&a, at[0], sizeof a);
    if (count == 2) {
        load_tap(self, first, tap + 1, at[1], parts[1]);
        memcpy(&b, at[1], sizeof b);
        next = vf_load(parts[1]);
    }
    vi has_a = (a >= 0) & (a < length), has_b = (b >= 0) & (b < length);
    if (!vi_all(~(has_a & has_b) | (b == a + 1))) return false;
    begin = (a & has_a) | (b & has_b & ~has_a);
    begin += (begin == length - 1); /* one less: a pair ends with the plane */
    vi a_first = has_a & (a == begin), a_second = has_a & ~a_first;
    vi b_first = has_b & (b == begin), b_second = has_b & ~b_first;
    part = vf_load(parts[0]);
    begin += channel;
    memcpy(p->at, &begin, sizeof begin);
    put_turns(p->meant, (vf)(a_first | b_first), (vf)(a_second | b_second));
    put_turns(p->parts, (vf)(((vi)part & a_first) | ((vi)next & b_first)),
              (vf)(((vi)part & a_second) | ((vi)next & b_second)));
    return true;
}

/* All taps of VF points from `first` on, `step` of them as a pair. */
static bool find_taps(const point_sums *self, int64_t first, int64_t step) {
    pixels *p = self->room->pairs + first / VF * self->taps;
    vi channel = channels_at(self, first);
    int32_t count = 0;
    for (int64_t k = 0; k < self->taps; k += step) {
        if (!put_taps(self, p + count++, first, k, rlx_ref_least(step, self->taps - k), channel))
            return false;
    }
    self->room->counts[first / VF] = count;
    return true;
}

/* Two planes beside each other: what pixels are read is loaded once. */
static void sum_planes(const point_sums *self, const float *a, const float *b, float *to_a,
                       float *to_b) {
    for (int64_t i = 0; i < self->points; i += VF) {
        const pixels *p = self->room->pairs + i / VF * self->taps;
        halves x = {{vf_set(0), vf_set(0)}}, y = x;
        for (int64_t k = 0; k < self->room->counts[i / VF]; k++) {
            VEC_UNROLLED for (int h = 0; h < 2; h++) {
                x.half[h] = join(a, p + k, h, x.half[h]);
                y.half[h] = join(b, p + k, h, y.half[h]);
            }
        }
        put_means(&x, 1, to_a + i, rlx_ref_least(VF, self->points - i));
        put_means(&y, 1, to_b + i, rlx_ref_least(VF, self->points - i));
    }
}

/* The planes [c, end) of an item. */
static void sum_channels(const point_sums *self, int64_t c, int64_t end) {
    const float *x = (const float *)self->x->data + self->n * self->x->strides[0];
    float *y = (float *)self->y->data + self->n * self->y->strides[0] + self->first;
    const int64_t from = self->x->strides[1] * self->fold, to = self->y->strides[1] * self->fold;
    if (c >= end) return;
    for (int64_t i = 0; i < self->points; i += VF) {
        if (!find_taps(self, i, 2)) (void)find_taps(self, i, 1);
    }
    for (; c < end; c += 2) {
        int64_t d = rlx_ref_least(c + 1, end - 1); /* the last one may be there twice */
        sum_planes(self, x + c * from, x + d * from, y + c * to, y + d * to);
    }
}

/* Planes [c, end) from point `first` on. The last one may have fewer channels. */
static void sum_item(point_sums *self, const sum_cut *cut, int64_t c, int64_t end) {
    const int64_t channels = self->y->dims[1], points = self->y->dims[2];
    int64_t whole = rlx_ref_least(end, channels / cut->fold);
    self->points = rlx_ref_least(cut->block, points * cut->fold - self->first);
    sum_channels(self, c, whole);
    if (whole >= end) return;
    self->points = rlx_ref_least(cut->block, points * (channels - whole * cut->fold) - self->first);
    if (self->points > 0) sum_channels(self, whole, end);
}

static void run_sum(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    point_sums self = {.x = &args->in[0],
                       .index = &args->in[1],
                       .weights = &args->in[2],
                       .y = &args->out[0],
                       .room = args->workspace,
                       .taps = args->in[1].dims[1]};
    if (!fits_sum(args)) {
        vec_scalar_run(args, begin, end);
        return;
    }
    const sum_cut cut = cut_of(args);
    self.fold = cut.fold;
    for (int64_t item = begin; item < end; item++) {
        int64_t plane = item / cut.blocks % cut.groups * cut.group;
        self.n = item / cut.blocks / cut.groups;
        self.first = item % cut.blocks * cut.block;
        sum_item(&self, &cut, plane, rlx_ref_least(cut.planes, plane + cut.group));
    }
}

static int64_t sum_items(const rlx_kernel_args *args) {
    if (!fits_sum(args)) return vec_scalar_items(args);
    if (rlx_tensor_elements(&args->out[0]) == 0) return 0;
    const sum_cut cut = cut_of(args);
    return args->out[0].dims[0] * cut.groups * cut.blocks;
}

static int64_t sum_cost(const rlx_kernel_args *args) {
    int64_t taps = rlx_ref_cost(args->in[1].dims[1], args->in[1].dims[2]);
    if (!fits_sum(args)) return taps;
    const sum_cut cut = cut_of(args);
    return rlx_ref_least(rlx_ref_cost(taps, cut.fold), TAPS * VF) *
           (4 + rlx_ref_least(cut.planes, cut.group) / 4);
}

static uint64_t sum_workspace(const rlx_kernel_args *args) {
    (void)args;
    return sizeof(tap_room);
}

static bool takes_sum(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    return fits_sum(&args);
}

const rlx_cpu_override VEC_SYMBOL(region)[] = {
    {RLX_OP_ROI_ALIGN, 0, takes, {VEC_NAME("roi_align"), run, items, item_cost, NULL}},
    {RLX_OP_GATHER_SUM,
     0,
     takes_sum,
     {VEC_NAME("gather_sum"), run_sum, sum_items, sum_cost, sum_workspace}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
