/* SPDX-License-Identifier: Apache-2.0 */
/* Window arithmetic. All numbers come from files, so each is bounded before it is used: inputs,
 * kernels, strides, dilations and pads below 2^31, which keeps every sum and product of two in
 * range. Knows nothing of tensors. */
#include "ir/window.h"

#include "base/size.h"

static const int64_t LARGEST = INT32_MAX;

/* Item `axis` of a list that is empty (default) or has one item per axis. 0 means `least`. */
static rlx_status read_item(const char *name, const rlx_ints *list, uint32_t count, uint32_t axis,
                            int64_t fallback, int64_t least, int64_t *out_value) {
    *out_value = fallback;
    if (list->count == 0) return RLX_OK;
    if (list->count != count) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s has %u items, needs %u", name, list->count, count);
    }
    int64_t value = list->items[axis];
    if (value == 0) value = fallback;
    if (value < least || value > LARGEST) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s[%u] is %" PRId64, name, axis, list->items[axis]);
    }
    *out_value = value;
    return RLX_OK;
}

bool rlx_ints_are_one(const rlx_ints *ints) {
    for (uint32_t i = 0; i < ints->count; i++) {
        if (ints->items[i] != 1) return false;
    }
    return true;
}

static rlx_status check_size(const char *name, int64_t size, int64_t least) {
    if (size >= least && size <= LARGEST) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "the %s is %" PRId64 " wide", name, size);
}

static rlx_status read_axis(const rlx_ints *strides, const rlx_ints *dilations,
                            const rlx_ints *pads, uint32_t count, uint32_t axis, int64_t in,
                            int64_t kernel, rlx_window *out_window) {
    rlx_window window = {.in = in, .kernel = kernel};
    RLX_TRY(check_size("input", in, 0));
    RLX_TRY(check_size("kernel", kernel, 1));
    RLX_TRY(read_item("strides", strides, count, axis, 1, 1, &window.stride));
    RLX_TRY(read_item("dilations", dilations, count, axis, 1, 1, &window.dilation));
    RLX_TRY(read_item("pads", pads, 2 * count, axis, 0, 0, &window.begin));
    RLX_TRY(read_item("pads", pads, 2 * count, axis + count, 0, 0, &window.end));
    *out_window = window;
    return RLX_OK;
}

/* What a dilated kernel spans. Below 2^62. */
static int64_t span(const rlx_window *window) {
    return (window->kernel - 1) * window->dilation + 1;
}

static int64_t divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static void split_pad(rlx_auto_pad mode, int64_t total, rlx_window *window) {
    if (total < 0) total = 0;
    window->begin = mode == RLX_AUTO_PAD_SAME_UPPER ? total / 2 : total - total / 2;
    window->end = total - window->begin;
}

static rlx_status check_mode(rlx_auto_pad mode) {
    if ((unsigned)mode <= RLX_AUTO_PAD_VALID) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "auto_pad is %u", (unsigned)mode);
}

/* The number of window positions of conv and pools, with the pads resolved. */
static rlx_status place(rlx_auto_pad mode, bool ceil_mode, rlx_window *window) {
    if (mode == RLX_AUTO_PAD_SAME_UPPER || mode == RLX_AUTO_PAD_SAME_LOWER) {
        window->out = divide_up(window->in, window->stride);
        split_pad(mode, (window->out - 1) * window->stride + span(window) - window->in, window);
        if (window->out == 0) window->begin = window->end = 0;
        return RLX_OK;
    }
    if (mode == RLX_AUTO_PAD_VALID) window->begin = window->end = 0;
    int64_t room = window->in + window->begin + window->end - span(window);
    if (room < 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "a kernel that spans %" PRId64 " does not fit an input of %" PRId64
                        " padded by %" PRId64 " and %" PRId64,
                        span(window), window->in, window->begin, window->end);
    }
    window->out = (ceil_mode ? divide_up(room, window->stride) : room / window->stride) + 1;
    /* The last window must start in the input or in the padding before it. */
    if (ceil_mode && (window->out - 1) * window->stride >= window->in + window->begin)
        window->out--;
    return RLX_OK;
}

/* Kernels of pools are attributes, with no tensor behind them that would bound their volume. */
static rlx_status check_volume(const rlx_windows *windows) {
    int64_t taps = 1;
    for (uint32_t i = 0; i < windows->count; i++) {
        if (!rlx_mul_i64(taps, windows->axes[i].kernel, &taps) || taps > LARGEST) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the kernel has more than 2^31 taps");
        }
    }
    return RLX_OK;
}

static rlx_status check_count(uint32_t count) {
    if (count >= 1 && count <= RLX_MAX_SPATIAL) return RLX_OK;
    return RLX_FAIL(RLX_UNSUPPORTED, "%u spatial axes (1 to %d are supported)", count,
                    RLX_MAX_SPATIAL);
}

rlx_status rlx_windows_conv(const rlx_conv_attrs *attrs, uint32_t count, const int64_t *in,
                            const int64_t *kernel, rlx_windows *out_windows) {
    rlx_windows windows = {.count = count};
    RLX_TRY(check_count(count));
    RLX_TRY(check_mode(attrs->auto_pad));
    for (uint32_t i = 0; i < count; i++) {
        int64_t size = attrs->winograd == 0 ? kernel[i] : kernel[i] - attrs->winograd + 1;
        RLX_TRY(read_axis(&attrs->strides, &attrs->dilations, &attrs->pads, count, i, in[i], size,
                          &windows.axes[i]));
        RLX_TRY_WITH(place(attrs->auto_pad, false, &windows.axes[i]), "spatial axis %u", i);
    }
    *out_windows = windows;
    return RLX_OK;
}

rlx_status rlx_windows_pool(const rlx_pool_attrs *attrs, uint32_t count, const int64_t *in,
                            rlx_windows *out_windows) {
    rlx_windows windows = {.count = count};
    RLX_TRY(check_count(count));
    RLX_TRY(check_mode(attrs->auto_pad));
    if (attrs->kernel.count != count) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "kernel has %u items, needs %u", attrs->kernel.count,
                        count);
    }
    for (uint32_t i = 0; i < count; i++) {
        RLX_TRY(read_axis(&attrs->strides, &attrs->dilations, &attrs->pads, count, i, in[i],
                          attrs->kernel.items[i], &windows.axes[i]));
        RLX_TRY_WITH(place(attrs->auto_pad, attrs->ceil_mode, &windows.axes[i]), "spatial axis %u",
                     i);
    }
    RLX_TRY(check_volume(&windows));
    *out_windows = windows;
    return RLX_OK;
}

/* out = (in - 1) * stride + output_padding + span - begin - end; SAME: in * stride. */
static rlx_status place_transposed(rlx_auto_pad mode, int64_t extra, rlx_window *window) {
    if (window->in == 0) {
        window->begin = window->end = window->out = 0;
        return RLX_OK;
    }
    int64_t whole = (window->in - 1) * window->stride, reach;
    if (!rlx_add_i64(whole, span(window), &reach) || !rlx_add_i64(reach, extra, &reach)) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "%" PRId64 " inputs at a stride of %" PRId64, window->in,
                        window->stride);
    }
    if (mode == RLX_AUTO_PAD_SAME_UPPER || mode == RLX_AUTO_PAD_SAME_LOWER) {
        window->out = window->in * window->stride;
        split_pad(mode, reach - window->out, window);
        return RLX_OK;
    }
    if (mode == RLX_AUTO_PAD_VALID) window->begin = window->end = 0;
    window->out = reach - window->begin - window->end;
    if (window->out < 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "pads of %" PRId64 " and %" PRId64 " leave nothing of %" PRId64 " outputs",
                        window->begin, window->end, reach);
    }
    return RLX_OK;
}

rlx_status rlx_windows_conv_transpose(const rlx_conv_attrs *attrs, uint32_t count,
                                      const int64_t *in, const int64_t *kernel,
                                      rlx_windows *out_windows) {
    rlx_windows windows = {.count = count};
    RLX_TRY(check_count(count));
    RLX_TRY(check_mode(attrs->auto_pad));
    for (uint32_t i = 0; i < count; i++) {
        int64_t extra;
        RLX_TRY(read_axis(&attrs->strides, &attrs->dilations, &attrs->pads, count, i, in[i],
                          kernel[i], &windows.axes[i]));
        RLX_TRY(read_item("output_padding", &attrs->output_padding, count, i, 0, 0, &extra));
        if (extra >= windows.axes[i].stride && extra >= windows.axes[i].dilation) {
            return RLX_FAIL(RLX_INVALID_GRAPH,
                            "output_padding[%u] is %" PRId64 ", needs less than the stride %" PRId64
                            " or the dilation %" PRId64,
                            i, extra, windows.axes[i].stride, windows.axes[i].dilation);
        }
        RLX_TRY_WITH(place_transposed(attrs->auto_pad, extra, &windows.axes[i]), "spatial axis %u",
                     i);
    }
    *out_windows = windows;
    return RLX_OK;
}
