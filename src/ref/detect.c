/* SPDX-License-Identifier: Apache-2.0 */
/* What detectors end with: non-maximum suppression, and regions of a feature map cut to one size
 * (roi_align). Nms is one item, because where a box goes depends on all before it. */
#include "ref/access.h"
#include "ref/kernel.h"
#include "ref/lines.h"
#include "ref/region.h"

#include <math.h>

typedef struct box {
    float x0, y0, x1, y1, area;
} box;

typedef struct candidate {
    float score;
    int64_t index;
} candidate;

static float load_f32(const rlx_tensor *x, int64_t offset) {
    return ((const float *)x->data)[offset];
}

/* Without a call, which fminf is because of NaN; a box with NaN overlaps nothing. */
static inline float lesser(float a, float b) {
    return a < b ? a : b;
}
static inline float larger(float a, float b) {
    return a > b ? a : b;
}

static box box_of(float x0, float y0, float x1, float y1) {
    return (box){x0, y0, x1, y1, (x1 - x0) * (y1 - y0)};
}

static box load_box(const rlx_tensor *boxes, int64_t batch, int64_t index, bool center_point) {
    int64_t at = batch * boxes->strides[0] + index * boxes->strides[1], step = boxes->strides[2];
    float a = load_f32(boxes, at), b = load_f32(boxes, at + step),
          c = load_f32(boxes, at + 2 * step), d = load_f32(boxes, at + 3 * step);
    if (center_point) return box_of(a - c / 2, b - d / 2, a + c / 2, b + d / 2);
    return box_of(lesser(b, d), lesser(a, c), larger(b, d), larger(a, c));
}

static bool is_overlapping(const box *a, const box *b, float most) {
    float width = lesser(a->x1, b->x1) - larger(a->x0, b->x0);
    float height = lesser(a->y1, b->y1) - larger(a->y0, b->y0);
    if (!(width > 0 && height > 0)) return false;
    float common = width * height, all = a->area + b->area - common;
    return all > 0 && common / all > most;
}

static bool is_better(candidate a, candidate b) {
    return a.score != b.score ? a.score > b.score : a.index < b.index;
}

static void sift_down(candidate *heap, int64_t count, int64_t at) {
    candidate item = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_better(heap[child + 1], heap[child])) child++;
        if (!is_better(heap[child], item)) break;
        heap[at] = heap[child];
    }
    heap[at] = item;
}

typedef struct nms_job {
    const rlx_tensor *boxes, *scores, *out;
    candidate *heap;
    box *taken; /* of this class */
    bool center_point, has_least;
    float overlap, least;
    int64_t most, found;
} nms_job;

/* The boxes of one class that may be taken, as a heap with the best at its root. */
static int64_t collect(const nms_job *job, int64_t batch, int64_t class_) {
    const rlx_tensor *scores = job->scores;
    int64_t count = 0, at = batch * scores->strides[0] + class_ * scores->strides[1];
    for (int64_t i = 0; i < scores->dims[2]; i++) {
        float score = load_f32(scores, at + i * scores->strides[2]);
        if (score != score || (job->has_least && !(score > job->least))) continue;
        job->heap[count++] = (candidate){score, i};
    }
    for (int64_t i = count / 2; i-- > 0;)
        sift_down(job->heap, count, i);
    return count;
}

static void put_row(nms_job *job, int64_t batch, int64_t class_, int64_t index) {
    const int64_t row[] = {batch, class_, index};
    for (uint32_t i = 0; i < 3 && job->out->data != NULL; i++)
        rlx_store_i64(RLX_DTYPE_I64, job->out->data,
                      job->found * job->out->strides[0] + i * job->out->strides[1], row[i]);
    job->found++;
}

static void suppress(nms_job *job, int64_t batch, int64_t class_) {
    int64_t taken = 0;
    for (int64_t left = collect(job, batch, class_); left > 0 && taken < job->most; left--) {
        int64_t best = job->heap[0].index;
        box mine = load_box(job->boxes, batch, best, job->center_point);
        bool is_free = true;
        job->heap[0] = job->heap[left - 1];
        sift_down(job->heap, left - 1, 0);
        for (int64_t i = 0; i < taken && is_free; i++)
            is_free = !is_overlapping(&mine, &job->taken[i], job->overlap);
        if (!is_free) continue;
        job->taken[taken++] = mine;
        put_row(job, batch, class_, best);
    }
}

static bool has_input(const rlx_kernel_args *args, uint32_t input) {
    return input < args->in_count && args->in[input].data != NULL;
}

static void run_nms(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_nms_attrs *attrs = args->attrs;
    nms_job job = {.boxes = &args->in[0],
                   .scores = &args->in[1],
                   .out = &args->out[0],
                   .heap = args->workspace,
                   .taken = (box *)((candidate *)args->workspace + args->in[1].dims[2]),
                   .center_point = attrs->center_point,
                   .has_least = has_input(args, 4)};
    if (begin >= end) return;
    if (has_input(args, 2)) job.most = rlx_load_i64(RLX_DTYPE_I64, args->in[2].data, 0);
    if (has_input(args, 3)) job.overlap = load_f32(&args->in[3], 0);
    if (job.has_least) job.least = load_f32(&args->in[4], 0);
    if (attrs->bound != 0 && job.most > attrs->bound) job.most = attrs->bound;
    for (int64_t b = 0; b < job.scores->dims[0]; b++) {
        for (int64_t c = 0; c < job.scores->dims[1] && job.scores->dims[2] != 0; c++)
            suppress(&job, b, c);
    }
    if (args->out[1].data != NULL) rlx_store_i64(RLX_DTYPE_I64, args->out[1].data, 0, job.found);
}

static int64_t one_item(const rlx_kernel_args *args) {
    (void)args;
    return 1;
}

static int64_t nms_cost(const rlx_kernel_args *args) {
    return rlx_ref_cost(rlx_tensor_elements(&args->in[1]), 4);
}

static uint64_t nms_workspace(const rlx_kernel_args *args) {
    return rlx_ref_bytes((uint64_t)args->in[1].dims[2], sizeof(candidate) + sizeof(box));
}

/* More points than this in one direction of a bin are a fault: coordinates that mean nothing would
 * keep a run busy for ever. */
enum { MOST_POINTS = 4096 };

static int64_t count_points(const rlx_kernel_args *args, int64_t samples, double pixels) {
    double count = ceil(pixels);
    if (samples > 0) return samples;
    if (count <= MOST_POINTS) return count < 0 ? 0 : (int64_t)count;
    rlx_fault_raise(args, RLX_FAULT_BOUND, count < 1e18 ? (int64_t)count : INT64_MAX);
    return 0;
}

rlx_ref_region rlx_ref_region_load(const rlx_kernel_args *args, int64_t index) {
    const rlx_roi_align_attrs *attrs = args->attrs;
    const rlx_tensor *regions = &args->in[1], *batches = &args->in[2], *out = &args->out[0];
    double scale = attrs->scale == 0 ? 1 : attrs->scale, shift = attrs->half_pixel ? 0.5 : 0;
    double at[4];
    for (uint32_t i = 0; i < 4; i++)
        at[i] = rlx_load_f64(regions->dtype, regions->data,
                             index * regions->strides[0] + i * regions->strides[1]) *
                    scale -
                shift;
    double width = at[2] - at[0], height = at[3] - at[1];
    if (!attrs->half_pixel) {
        width = width < 1 ? 1 : width;
        height = height < 1 ? 1 : height;
    }
    rlx_ref_region r = {.x0 = at[0],
                        .y0 = at[1],
                        .bin_width = width / (double)out->dims[3],
                        .bin_height = height / (double)out->dims[2]};
    r.columns = count_points(args, attrs->samples, r.bin_width);
    r.rows = count_points(args, attrs->samples, r.bin_height);
    r.batch = rlx_load_i64(RLX_DTYPE_I64, batches->data, index * batches->strides[0]);
    if (r.batch >= 0 && r.batch < args->in[0].dims[0]) return r;
    rlx_fault_raise(args, RLX_FAULT_INDEX, r.batch);
    r.batch = -1;
    return r;
}

bool rlx_ref_region_side(double at, int64_t length, rlx_ref_side *out_side) {
    if (!(at >= -1 && at <= (double)length)) return false;
    if (at < 0) at = 0;
    int64_t low = (int64_t)at, high = low + 1;
    if (low >= length - 1) {
        low = high = length - 1;
        at = (double)low;
    }
    *out_side = (rlx_ref_side){low, high, 1 - (at - (double)low), at - (double)low};
    return true;
}

/* Corners around a point, and how much each counts: the same for every channel. */
typedef struct point {
    int64_t at[4];
    double parts[4];
} point;
enum { POINTS = 32, CHANNELS = 64 /* that are done together */ };

/* Points [first, first + count) of a bin that lie inside; how many. */
static int64_t find_points(const rlx_tensor *x, const rlx_ref_region *r, double top, double left,
                           int64_t first, int64_t count, point *points) {
    int64_t rows = x->strides[2], columns = x->strides[3], found = 0;
    int64_t row = first / r->columns, column = first % r->columns;
    bool is_inside = false;
    rlx_ref_side y, z;
    for (int64_t i = 0; i < count; i++, column++) {
        if (column == r->columns) column = 0, row++;
        double down = ((double)row + 0.5) / (double)r->rows * r->bin_height;
        double along = ((double)column + 0.5) / (double)r->columns * r->bin_width;
        if (i == 0 || column == 0) is_inside = rlx_ref_region_side(top + down, x->dims[2], &y);
        if (!is_inside || !rlx_ref_region_side(left + along, x->dims[3], &z)) continue;
        points[found++] =
            (point){{y.low * rows + z.low * columns, y.low * rows + z.high * columns,
                     y.high * rows + z.low * columns, y.high * rows + z.high * columns},
                    {y.low_part * z.low_part, y.low_part * z.high_part, y.high_part * z.low_part,
                     y.high_part * z.high_part}};
    }
    return found;
}

static inline double load(const rlx_tensor *x, bool is_f32, int64_t offset) {
    return is_f32 ? (double)((const float *)x->data)[offset]
                  : rlx_load_f64(x->dtype, x->data, offset);
}

/* The sum of some points of one channel, or the largest weighted corner, from `value` on. */
static inline double join_points(const rlx_tensor *x, bool is_f32, int64_t base,
                                 const point *points, int64_t count, bool largest, double value) {
    for (int64_t i = 0; i < count; i++) {
        const point *p = &points[i];
        double a = p->parts[0] * load(x, is_f32, base + p->at[0]);
        double b = p->parts[1] * load(x, is_f32, base + p->at[1]);
        double c = p->parts[2] * load(x, is_f32, base + p->at[2]);
        double d = p->parts[3] * load(x, is_f32, base + p->at[3]);
        value = largest ? fmax(value, fmax(fmax(a, b), fmax(c, d))) : value + (a + b + c + d);
    }
    return value;
}

/* The mean, or the largest weighted corner, of the points of one bin, for some channels from
 * `base` on. A point outside counts as 0. */
static void pool_bin(const rlx_tensor *x, int64_t base, int64_t channels, const rlx_ref_region *r,
                     double top, double left, bool largest, double *values) {
    int64_t count = r->rows * r->columns;
    point points[POINTS];
    for (int64_t c = 0; c < channels; c++)
        values[c] = largest && count > 0 ? -INFINITY : 0;
    for (int64_t first = 0; first < count; first += POINTS) {
        int64_t some = rlx_ref_least(POINTS, count - first);
        int64_t inside = find_points(x, r, top, left, first, some, points);
        for (int64_t c = 0; c < channels; c++) {
            if (largest && inside < some) values[c] = fmax(values[c], 0);
            int64_t from = base + c * x->strides[1];
            values[c] = x->dtype == RLX_DTYPE_F32 && !largest
                            ? join_points(x, true, from, points, inside, false, values[c])
                            : join_points(x, false, from, points, inside, largest, values[c]);
        }
    }
    for (int64_t c = 0; !largest && count > 0 && c < channels; c++)
        values[c] /= (double)count;
}

/* Some channels of one region. */
static void align_region(const rlx_kernel_args *args, const rlx_ref_region *r, int64_t index,
                         int64_t channel, int64_t channels) {
    const rlx_roi_align_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    bool is_empty = r->batch < 0 || x->dims[2] == 0 || x->dims[3] == 0;
    int64_t base = r->batch * x->strides[0] + channel * x->strides[1];
    int64_t to = index * y->strides[0] + channel * y->strides[1];
    double values[CHANNELS] = {0};
    for (int64_t i = 0; i < y->dims[2] * y->dims[3]; i++) {
        int64_t row = i / y->dims[3], column = i % y->dims[3];
        if (!is_empty) {
            pool_bin(x, base, channels, r, r->y0 + (double)row * r->bin_height,
                     r->x0 + (double)column * r->bin_width, attrs->largest, values);
        }
        for (int64_t c = 0; c < channels; c++) {
            int64_t place = to + c * y->strides[1] + row * y->strides[2] + column * y->strides[3];
            rlx_store_f64(y->dtype, y->data, place, values[c]);
        }
    }
}

/* One item is one channel of one region. */
static void run_roi_align(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    int64_t all = args->out[0].dims[1];
    while (begin < end) {
        int64_t index = begin / all, channel = begin % all;
        int64_t channels = rlx_ref_least(rlx_ref_least(all - channel, end - begin), CHANNELS);
        rlx_ref_region r = rlx_ref_region_load(args, index);
        align_region(args, &r, index, channel, channels);
        begin += channels;
    }
}

static int64_t roi_items(const rlx_kernel_args *args) {
    return rlx_tensor_elements(&args->out[0]) == 0 ? 0
                                                   : args->out[0].dims[0] * args->out[0].dims[1];
}

static int64_t roi_cost(const rlx_kernel_args *args) {
    return rlx_ref_cost(rlx_ref_cost(args->out[0].dims[2], args->out[0].dims[3]), 64);
}

const rlx_ref_row rlx_ref_detect_rows[] = {
    {RLX_OP_NMS, {"nms_scalar", run_nms, one_item, nms_cost, nms_workspace}},
    {RLX_OP_ROI_ALIGN, {"roi_align_scalar", run_roi_align, roi_items, roi_cost, NULL}},
};
const uint32_t rlx_ref_detect_count = sizeof rlx_ref_detect_rows / sizeof rlx_ref_detect_rows[0];
