/* SPDX-License-Identifier: Apache-2.0 */
/* conv and conv_transpose over 1 to 3 spatial axes as a product of weights [channels][depth] and
 * patches [depth][positions], depth being (input channel, tap) in that order. Patches are copied to
 * a small tile on the stack, never to memory. One item is one (batch, group, channel tile, position
 * tile). */
#include "ir/layout.h"
#include "ir/window.h"
#include "ir/winograd.h"
#include "ref/conv_place.h"
#include "ref/tile.h"

#include <math.h>
#include <string.h>

enum {
    X = RLX_MAX_SPATIAL - 1, /* the innermost spatial axis */
    MEETINGS = 128           /* (tap, segment) pairs that are looked up instead of found again */
};

/* Spatial axes are always 3; missing ones in front are 1 wide. */
typedef struct conv {
    const rlx_tensor *x, *w, *bias, *residual, *y;
    bool is_transposed;
    int64_t x_block, y_block; /* channels of a block; 0: channels are an axis */
    int64_t y_extra;          /* channels that blocks of y have past the last */
    rlx_layout_map w_map;     /* of packed weights */
    int64_t winograd;         /* outputs of a tile per axis, of weights at points; 0: taps */
    rlx_window axes[RLX_MAX_SPATIAL];
    int64_t x_strides[RLX_MAX_SPATIAL], w_strides[RLX_MAX_SPATIAL];
    int64_t y_strides[RLX_MAX_SPATIAL], residual_strides[RLX_MAX_SPATIAL];
    int64_t groups, group_in, group_out; /* channels per group */
    int64_t merged; /* groups that share rows of w; the narrow ones are meant */
    int64_t taps, depth, positions;
    int64_t contiguous_weights; /* elements of w that lie side by side: a row, the taps, or 1 */
    int64_t tile_rows;
    rlx_activation activation;
} conv;

/* Neighbouring output positions of one row: columns [column, column + count) of the tile. */
typedef struct segment {
    int64_t column, count;
    int64_t at[RLX_MAX_SPATIAL]; /* of the first */
} segment;

typedef struct conv_place {
    int64_t n, group, m, rows;
    int64_t extra; /* channels after the group's last, without weights */
    int64_t x;     /* offset of the batch entry */
    int64_t segment_count;
    segment segments[RLX_TILE_COLUMNS];
} conv_place;

typedef struct kernel_tap {
    int64_t at[RLX_MAX_SPATIAL];
} kernel_tap;

/* Which positions of a segment a tap meets with inputs: number first, first + step, ... */
typedef struct meeting {
    int64_t first, step, count;
    int64_t offset, stride; /* of the inputs, in elements, within a channel */
} meeting;

static kernel_tap tap_of(const conv *cv, int64_t index) {
    kernel_tap tap;
    for (int i = X; i >= 0; i--) {
        tap.at[i] = index % cv->axes[i].kernel;
        index /= cv->axes[i].kernel;
    }
    return tap;
}

/* The next tap in row-major order; after the last the first. */
static void step_tap(const conv *cv, kernel_tap *tap) {
    for (int i = X; i >= 0; i--) {
        if (++tap->at[i] < cv->axes[i].kernel) return;
        tap->at[i] = 0;
    }
}

/* Division that knows the common divisor. */
static int64_t divide(int64_t a, int64_t b) {
    return b == 1 ? a : a / b;
}

/* The input index that tap meets at output position `o`; -1 for none. */
static int64_t input_at(const conv *cv, int axis, int64_t o, int64_t tap) {
    const rlx_window *window = &cv->axes[axis];
    int64_t i;
    if (cv->is_transposed) {
        i = o + window->begin - tap * window->dilation;
        if (i < 0 || i % window->stride != 0) return -1;
        i /= window->stride;
    } else {
        i = o * window->stride - window->begin + tap * window->dilation;
    }
    return i >= 0 && i < window->in ? i : -1;
}

/* Along a row of conv: position j meets input start + j * stride. */
static meeting meet_row(const rlx_window *window, int64_t start, int64_t count) {
    int64_t first = start < 0 ? divide(-start + window->stride - 1, window->stride) : 0;
    int64_t end = start >= window->in
                      ? 0
                      : rlx_ref_least(count, divide(window->in - 1 - start, window->stride) + 1);
    meeting met = {.first = first, .step = 1, .count = end > first ? end - first : 0};
    met.offset = start + first * window->stride;
    met.stride = window->stride;
    return met;
}

/* Along a row of conv_transpose: every stride-th position meets the next input. */
static meeting meet_row_transposed(const rlx_window *window, int64_t start, int64_t count) {
    int64_t rest = start < 0 ? 0 : start % window->stride;
    int64_t first = start < 0 ? -start : rest == 0 ? 0 : window->stride - rest;
    int64_t input = (start + first) / window->stride;
    meeting met = {.first = first, .step = window->stride, .offset = input, .stride = 1};
    if (first < count && input < window->in) {
        met.count = rlx_ref_least((count - 1 - first) / window->stride + 1, window->in - input);
    }
    return met;
}

static meeting meet(const conv *cv, const segment *part, const kernel_tap *tap) {
    const rlx_window *row = &cv->axes[X];
    meeting none = {0}, met;
    int64_t offset = 0;
    for (int i = 0; i < X; i++) {
        int64_t input = input_at(cv, i, part->at[i], tap->at[i]);
        if (input < 0) return none;
        offset += input * cv->x_strides[i];
    }
    if (cv->is_transposed) {
        met = meet_row_transposed(row, part->at[X] + row->begin - tap->at[X] * row->dilation,
                                  part->count);
    } else {
        met = meet_row(row, part->at[X] * row->stride - row->begin + tap->at[X] * row->dilation,
                       part->count);
    }
    met.offset = offset + met.offset * cv->x_strides[X];
    met.stride *= cv->x_strides[X];
    return met;
}

/* The meetings of `count` taps from `first` on with every segment, [tap][segment]. Returns `out`.
 */
static const meeting *meet_all(const conv *cv, const conv_place *at, int64_t first, int64_t count,
                               meeting *out) {
    kernel_tap tap = {{0}};
    if (first != 0) tap = tap_of(cv, first);
    for (int64_t i = 0; i < count; i++, step_tap(cv, &tap)) {
        for (int64_t j = 0; j < at->segment_count; j++)
            out[i * at->segment_count + j] = meet(cv, &at->segments[j], &tap);
    }
    return out;
}

/* How many weights from depth step k on lie side by side. */
static int64_t weight_run(const conv *cv, int64_t k) {
    return cv->contiguous_weights - k % cv->contiguous_weights;
}

/* Points of an axis that make a tap, with their factors. */
static int points_of(const conv *cv, int64_t tap, int64_t points[2], double factors[2]) {
    double second = rlx_winograd_second(cv->winograd);
    points[0] = tap == 2 ? cv->winograd + 1 : tap, points[1] = 2;
    factors[0] = tap == 0 ? rlx_winograd_first(cv->winograd) : tap == 1 ? second : 1;
    factors[1] = -second;
    return tap == 1 ? 2 : 1;
}

static int64_t packed_offset(const conv *cv, int64_t m, int64_t c, const kernel_tap *tap) {
    int64_t index[RLX_MAX_RANK] = {m, c};
    uint32_t spatial = cv->w->rank - 2;
    for (uint32_t i = 0; i < spatial; i++)
        index[2 + i] = tap->at[RLX_MAX_SPATIAL - spatial + i];
    return rlx_layout_offset(&cv->w_map, index);
}

/* Where the inputs of a group begin in its rows of w. */
static int64_t first_in_row(const conv *cv, int64_t group) {
    return cv->merged == 1 ? 0 : group % cv->merged * cv->group_in;
}

static int64_t weight_offset(const conv *cv, int64_t group, int64_t m, int64_t k) {
    int64_t c = first_in_row(cv, group) + k / cv->taps, offset = 0;
    kernel_tap tap = tap_of(cv, k % cv->taps);
    if (cv->w->layout != RLX_LAYOUT_PLAIN) {
        return packed_offset(cv, group * cv->group_out + m, c, &tap);
    }
    for (int i = 0; i < RLX_MAX_SPATIAL; i++)
        offset += tap.at[i] * cv->w_strides[i];
    if (cv->is_transposed) {
        return offset + (group * cv->group_in + c) * cv->w->strides[0] + m * cv->w->strides[1];
    }
    return offset + (group * cv->group_out + m) * cv->w->strides[0] + c * cv->w->strides[1];
}

/* One point of an input channel's kernel. */
static double point_of(const conv *cv, int64_t m, int64_t c, int64_t row, int64_t column) {
    const kernel_tap at = {{0, row, column}};
    int64_t offset = cv->w->layout != RLX_LAYOUT_PLAIN
                         ? packed_offset(cv, m, c, &at)
                         : m * cv->w->strides[0] + c * cv->w->strides[1] +
                               row * cv->w_strides[X - 1] + column * cv->w_strides[X];
    float point;
    rlx_ref_read_f32(cv->w, offset, 1, 1, &point);
    return (double)point;
}

/* The tap that weights at points were made of; it is there itself where the last point is NaN. */
static double weight_of_points(const conv *cv, int64_t group, int64_t row, int64_t k) {
    const int64_t m = group * cv->group_out + row, c = first_in_row(cv, group) + k / cv->taps;
    const kernel_tap tap = tap_of(cv, k % cv->taps);
    const int64_t last = cv->winograd + 1;
    int64_t rows[2], columns[2];
    double sum = 0, row_factors[2], column_factors[2];
    int row_count = points_of(cv, tap.at[X - 1], rows, row_factors);
    int column_count = points_of(cv, tap.at[X], columns, column_factors);
    if (isnan(point_of(cv, m, c, last, last))) return point_of(cv, m, c, tap.at[X - 1], tap.at[X]);
    for (int i = 0; i < row_count; i++) {
        for (int j = 0; j < column_count; j++)
            sum += row_factors[i] * column_factors[j] * point_of(cv, m, c, rows[i], columns[j]);
    }
    return sum;
}

static int64_t channel_offset(const rlx_tensor *tensor, int64_t block, int64_t channel) {
    if (tensor->data == NULL) return 0;
    if (block == 0) return channel * tensor->strides[1];
    return channel / block * tensor->strides[1] +
           channel % block * tensor->strides[tensor->rank - 1];
}

static int64_t output_offset(const conv *cv, const rlx_tensor *tensor, const int64_t *strides,
                             int64_t n, int64_t channel, const segment *part) {
    int64_t offset = n * tensor->strides[0] + channel_offset(tensor, cv->y_block, channel);
    for (int i = 0; i < RLX_MAX_SPATIAL; i++)
        offset += part->at[i] * strides[i];
    return offset;
}

#define TYPE   float
#define SUFFIX f32
#define ROWS   RLX_TILE_ROWS
#include "ref/conv_body.h"

#define TYPE   double
#define SUFFIX f64
#define ROWS   RLX_TILE_ROWS_WIDE
#include "ref/conv_body.h"

static void spatial_strides(const rlx_tensor *tensor, bool is_blocked, int64_t *strides) {
    uint32_t rank = is_blocked && tensor->rank > 0 ? tensor->rank - 1 : tensor->rank;
    for (uint32_t i = 0; i < RLX_MAX_SPATIAL; i++) {
        uint32_t from_end = RLX_MAX_SPATIAL - i;
        strides[i] = rank >= 2 + from_end ? tensor->strides[rank - from_end] : 0;
    }
}

static bool rows_touch(const rlx_window *axes, const int64_t *strides, bool is_output) {
    for (int i = 0; i < X; i++) {
        int64_t inner = strides[X];
        for (int j = i + 1; j < RLX_MAX_SPATIAL; j++)
            inner *= is_output ? axes[j].out : axes[j].in;
        if (axes[i].in != 1 && strides[i] != inner) return false;
    }
    return true;
}

/* A 1 x 1 kernel over whole planes is one long row. */
static void join_rows(conv *cv) {
    for (int i = 0; i < RLX_MAX_SPATIAL; i++) {
        const rlx_window *window = &cv->axes[i];
        if (window->kernel != 1 || window->stride != 1 || window->in != window->out ||
            window->begin != 0)
            return;
    }
    if (!rows_touch(cv->axes, cv->x_strides, false) || !rows_touch(cv->axes, cv->y_strides, true))
        return;
    if (cv->residual->data != NULL && !rows_touch(cv->axes, cv->residual_strides, true)) return;
    for (int i = 0; i < X; i++) {
        cv->axes[X].in *= cv->axes[i].in;
        cv->axes[i].in = cv->axes[i].out = 1;
    }
    cv->axes[X].out = cv->axes[X].in;
}

static int64_t find_contiguous_weights(const conv *cv) {
    int64_t side = 1;
    if (cv->w->layout != RLX_LAYOUT_PLAIN || cv->winograd != 0) return 1;
    for (int i = X; i >= 0; i--) {
        if (cv->axes[i].kernel != 1 && cv->w_strides[i] != side) return 1;
        side *= cv->axes[i].kernel;
    }
    if (cv->is_transposed || (cv->group_in != 1 && cv->w->strides[1] != side)) return side;
    return side * cv->group_in;
}

static void set_axes(conv *cv, const rlx_conv_attrs *attrs) {
    uint32_t count = cv->w->rank - 2, missing = RLX_MAX_SPATIAL - count;
    rlx_windows windows = {0};
    rlx_status status = (cv->is_transposed ? rlx_windows_conv_transpose : rlx_windows_conv)(
        attrs, count, cv->x->dims + 2, cv->w->dims + 2, &windows);
    RLX_ASSERT(status == RLX_OK); /* the shape rule asked the same */
    (void)status;
    for (uint32_t i = 0; i < RLX_MAX_SPATIAL; i++) {
        cv->axes[i] = i < missing
                          ? (rlx_window){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1}
                          : windows.axes[i - missing];
    }
}

static void set_channels(conv *cv, const rlx_conv_attrs *attrs) {
    cv->y_block = attrs->channel_block;
    cv->x_block = cv->x->rank > cv->w->rank ? attrs->channel_block : 0;
    cv->merged = attrs->merged == 0 ? 1 : attrs->merged;
    cv->groups *= cv->merged;
    cv->group_in = cv->is_transposed ? cv->w->dims[0] / cv->groups : cv->w->dims[1] / cv->merged;
    cv->group_out = cv->is_transposed ? cv->w->dims[1] : cv->w->dims[0] / cv->groups;
    if (cv->y_block != 0) cv->y_extra = cv->y->dims[1] * cv->y_block - cv->w->dims[0];
    if (cv->w->layout != RLX_LAYOUT_PLAIN) cv->w_map = rlx_layout_map_of(cv->w);
}

static conv make_conv(const rlx_kernel_args *args) {
    static const rlx_tensor absent = {0};
    const rlx_conv_attrs *attrs = args->attrs;
    conv cv = {.x = &args->in[0],
               .w = &args->in[1],
               .bias = args->in_count > 2 ? &args->in[2] : &absent,
               .residual = args->in_count > 3 ? &args->in[3] : &absent,
               .y = &args->out[0],
               .is_transposed = args->op == RLX_OP_CONV_TRANSPOSE,
               .winograd = attrs->winograd,
               .groups = attrs->groups == 0 ? 1 : attrs->groups,
               .activation = attrs->activation};
    set_channels(&cv, attrs);
    set_axes(&cv, attrs);
    spatial_strides(cv.x, cv.x_block != 0, cv.x_strides);
    spatial_strides(cv.w, false, cv.w_strides);
    spatial_strides(cv.y, cv.y_block != 0, cv.y_strides);
    spatial_strides(cv.residual, cv.y_block != 0, cv.residual_strides);
    join_rows(&cv);
    cv.taps = cv.positions = 1;
    for (int i = 0; i < RLX_MAX_SPATIAL; i++) {
        cv.taps *= cv.axes[i].kernel;
        cv.positions *= cv.axes[i].out;
    }
    cv.depth = cv.taps * cv.group_in;
    cv.contiguous_weights = find_contiguous_weights(&cv);
    cv.tile_rows = cv.x->dtype == RLX_DTYPE_F64 ? RLX_TILE_ROWS_WIDE : RLX_TILE_ROWS;
    return cv;
}

/* Cuts positions [p, p + count) into segments of rows. */
static void cut_segments(const conv *cv, int64_t p, int64_t count, conv_place *at) {
    at->segment_count = 0;
    for (int64_t column = 0; column < count;) {
        segment *part = &at->segments[at->segment_count++];
        int64_t index = p + column;
        for (int i = X; i >= 0; i--) {
            part->at[i] = index % cv->axes[i].out;
            index /= cv->axes[i].out;
        }
        part->column = column;
        part->count = rlx_ref_least(count - column, cv->axes[X].out - part->at[X]);
        column += part->count;
    }
}

static void run_conv(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    if (rlx_ref_conv_is_in_place(args)) {
        rlx_ref_conv_place_run(args, begin, end);
        return;
    }
    conv cv = make_conv(args);
    int64_t tiles = rlx_ref_divide_up(cv.positions, RLX_TILE_COLUMNS);
    int64_t row_tiles = rlx_ref_divide_up(cv.group_out + cv.y_extra, cv.tile_rows);
    for (int64_t item = begin; item < end; item++) {
        conv_place at;
        int64_t p = item % tiles * RLX_TILE_COLUMNS, rest = item / tiles;
        at.m = rest % row_tiles * cv.tile_rows;
        at.group = rest / row_tiles % cv.groups;
        at.n = rest / row_tiles / cv.groups;
        at.extra = at.group + 1 == cv.groups ? cv.y_extra : 0;
        at.rows = rlx_ref_least(cv.tile_rows, cv.group_out + at.extra - at.m);
        if (at.rows <= 0) continue;
        at.x = at.n * cv.x->strides[0];
        cut_segments(&cv, p, rlx_ref_least(RLX_TILE_COLUMNS, cv.positions - p), &at);
        if (cv.x->dtype == RLX_DTYPE_F64) {
            tile_f64(&cv, &at);
        } else {
            tile_f32(&cv, &at);
        }
    }
}

static int64_t conv_items(const rlx_kernel_args *args) {
    if (rlx_ref_conv_is_in_place(args)) return rlx_ref_conv_place_items(args);
    conv cv = make_conv(args);
    return cv.y->dims[0] * cv.groups * rlx_ref_divide_up(cv.group_out + cv.y_extra, cv.tile_rows) *
           rlx_ref_divide_up(cv.positions, RLX_TILE_COLUMNS);
}

static int64_t conv_item_cost(const rlx_kernel_args *args) {
    conv cv = make_conv(args);
    return rlx_ref_cost((rlx_ref_least(cv.group_out, cv.tile_rows) + 1) *
                            rlx_ref_least(cv.positions, RLX_TILE_COLUMNS),
                        cv.depth);
}

const rlx_ref_row rlx_ref_conv_rows[] = {
    {RLX_OP_CONV, {"conv_scalar", run_conv, conv_items, conv_item_cost, NULL}},
    {RLX_OP_CONV_TRANSPOSE, {"conv_transpose_scalar", run_conv, conv_items, conv_item_cost, NULL}},
};
const uint32_t rlx_ref_conv_count = 2;
