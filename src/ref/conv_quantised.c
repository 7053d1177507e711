/* SPDX-License-Identifier: Apache-2.0 */
/* conv_quantised over 1 to 3 spatial axes, one output after the other: what the op means. One item
 * is one output channel of one image. */
#include "ir/layout.h"
#include "ir/window.h"
#include "ref/access.h"
#include "ref/kernel.h"

#include <math.h>

typedef struct conv {
    const rlx_conv_quantised_attrs *attrs;
    const rlx_tensor *x, *w, *scale, *bias, *zero, *residual, *y;
    rlx_layout_map w_map;
    rlx_windows windows;
    int64_t block;             /* channels of a block; 0: channels are an axis */
    int64_t x_block;           /* the same of x */
    int64_t group_in;          /* channels per group */
    int64_t group_out, blocks; /* of y: channels, or what the blocks hold */
} conv;

static const rlx_tensor absent = {0};

static const rlx_tensor *input(const rlx_kernel_args *args, uint32_t index) {
    return index < args->in_count ? &args->in[index] : &absent;
}

static conv make_conv(const rlx_kernel_args *args) {
    const rlx_conv_quantised_attrs *attrs = args->attrs;
    conv cv = {.attrs = attrs,
               .x = input(args, 0),
               .w = input(args, 1),
               .scale = input(args, 2),
               .bias = input(args, 3),
               .zero = input(args, 4),
               .residual = input(args, 5),
               .y = &args->out[0],
               .block = attrs->conv.channel_block};
    int64_t groups = attrs->conv.groups == 0 ? 1 : attrs->conv.groups;
    rlx_status status =
        rlx_windows_conv(&attrs->conv, cv.w->rank - 2, cv.x->dims + 2, cv.w->dims + 2, &cv.windows);
    RLX_ASSERT(status == RLX_OK); /* the shape rule asked the same */
    (void)status;
    cv.w_map = rlx_layout_map_of(cv.w);
    cv.x_block = cv.x->rank > cv.w->rank ? cv.block : 0;
    cv.group_in = cv.w->dims[1];
    cv.group_out = cv.w->dims[0] / groups;
    cv.blocks = cv.block == 0 ? cv.y->dims[1] : cv.y->dims[1] * cv.block;
    return cv;
}

/* Of a byte of either kind. */
static int32_t byte_at(const rlx_tensor *tensor, int64_t offset) {
    if (tensor->dtype == RLX_DTYPE_I8) return ((const int8_t *)tensor->data)[offset];
    return ((const uint8_t *)tensor->data)[offset];
}

static float factor_at(const rlx_tensor *tensor, int64_t channel, float otherwise) {
    if (tensor->data == NULL) return otherwise;
    return ((const float *)tensor->data)[tensor->rank == 0 ? 0 : channel * tensor->strides[0]];
}

static int64_t offset_of(const rlx_tensor *tensor, int64_t block, int64_t n, int64_t channel,
                         const int64_t *at, uint32_t count) {
    int64_t offset = n * tensor->strides[0];
    offset += block == 0 ? channel * tensor->strides[1]
                         : channel / block * tensor->strides[1] +
                               channel % block * tensor->strides[2 + count];
    for (uint32_t i = 0; i < count; i++)
        offset += at[i] * tensor->strides[2 + i];
    return offset;
}

/* Counts `at` up in row-major order; false after the last. */
static bool step(int64_t *at, uint32_t count, const rlx_windows *windows, bool is_kernel) {
    for (uint32_t i = count; i-- > 0;) {
        int64_t end = is_kernel ? windows->axes[i].kernel : windows->axes[i].out;
        if (++at[i] < end) return true;
        at[i] = 0;
    }
    return false;
}

/* The sum at output position `at` of channel m. */
static int32_t sum_at(const conv *cv, int64_t n, int64_t m, const int64_t *at) {
    int32_t zero = cv->zero->data == NULL ? 0 : byte_at(cv->zero, 0);
    int64_t tap[RLX_MAX_SPATIAL] = {0}, place[RLX_MAX_SPATIAL];
    uint32_t sum = 0;
    do {
        bool is_inside = true;
        for (uint32_t i = 0; i < cv->windows.count; i++) {
            const rlx_window *window = &cv->windows.axes[i];
            place[i] = at[i] * window->stride - window->begin + tap[i] * window->dilation;
            is_inside = is_inside && place[i] >= 0 && place[i] < window->in;
        }
        for (int64_t c = 0; is_inside && c < cv->group_in; c++) {
            int64_t index[RLX_MAX_RANK] = {m, c}, channel = m / cv->group_out * cv->group_in + c;
            for (uint32_t i = 0; i < cv->windows.count; i++)
                index[2 + i] = tap[i];
            int32_t w = ((const int16_t *)cv->w->data)[rlx_layout_offset(&cv->w_map, index)];
            int32_t x =
                byte_at(cv->x, offset_of(cv->x, cv->x_block, n, channel, place, cv->windows.count));
            sum += (uint32_t)((x - zero) * w);
        }
    } while (step(tap, cv->windows.count, &cv->windows, true));
    return (int32_t)sum;
}

static float bounded(float value, double least, double most) {
    value = value > (float)least ? value : (float)least;
    return value < (float)most ? value : (float)most;
}

static void finish(const conv *cv, int64_t m, int32_t sum, int64_t residual_at, int64_t y_at) {
    const rlx_conv_quantised_attrs *attrs = cv->attrs;
    bool is_real = m < cv->w->dims[0], is_float = attrs->to == RLX_DTYPE_F32;
    if (attrs->to == RLX_DTYPE_I32) {
        ((int32_t *)cv->y->data)[y_at] = sum;
        return;
    }
    float v = fmaf((float)sum, is_real ? factor_at(cv->scale, m, 1) : 0,
                   is_real ? factor_at(cv->bias, m, 0) : 0);
    bool has_residual = cv->residual->data != NULL;
    if (has_residual || !is_float) v = rintf(v);
    v = bounded(v, attrs->least, attrs->most);
    if (has_residual) {
        float r = (float)(byte_at(cv->residual, residual_at) - attrs->residual_zero);
        v = v * (float)attrs->inner_scale + r * (float)attrs->residual_scale;
        if (!is_float) v = rintf(v / (float)attrs->y_scale);
        v = bounded(v, attrs->y_least, attrs->y_most);
    }
    if (is_float) {
        ((float *)cv->y->data)[y_at] = v;
    } else {
        ((uint8_t *)cv->y->data)[y_at] = (uint8_t)((int32_t)v + (int32_t)attrs->y_zero);
    }
}

static void run_conv(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    conv cv = make_conv(args);
    uint32_t count = cv.windows.count;
    for (int64_t item = begin; item < end; item++) {
        int64_t n = item / cv.blocks, m = item % cv.blocks, at[RLX_MAX_SPATIAL] = {0};
        do {
            int32_t sum = m < cv.w->dims[0] ? sum_at(&cv, n, m, at) : 0;
            int64_t residual =
                cv.residual->data == NULL ? 0 : offset_of(cv.residual, cv.block, n, m, at, count);
            finish(&cv, m, sum, residual, offset_of(cv.y, cv.block, n, m, at, count));
        } while (step(at, count, &cv.windows, false));
    }
}

static int64_t conv_items(const rlx_kernel_args *args) {
    conv cv = make_conv(args);
    for (uint32_t i = 0; i < cv.windows.count; i++) {
        if (cv.windows.axes[i].out == 0) return 0;
    }
    return cv.y->dims[0] * cv.blocks;
}

static int64_t conv_item_cost(const rlx_kernel_args *args) {
    conv cv = make_conv(args);
    int64_t cost = 8 * cv.group_in;
    for (uint32_t i = 0; i < cv.windows.count; i++)
        cost = rlx_ref_cost(cost, rlx_ref_cost(cv.windows.axes[i].out, cv.windows.axes[i].kernel));
    return cost;
}

const rlx_ref_row rlx_ref_conv_quantised_rows[] = {
    {RLX_OP_CONV_QUANTISED, {"conv_quantised_scalar", run_conv, conv_items, conv_item_cost, NULL}},
};
const uint32_t rlx_ref_conv_quantised_count = 1;
