/* SPDX-License-Identifier: Apache-2.0 */
/* The windows of conv, conv_transpose and pools along each spatial axis: sizes from attributes,
 * checked. Shape rules ask for the output's dims, kernels for strides and pads; both get the same
 * answer. */
#ifndef RLX_IR_WINDOW_H
#define RLX_IR_WINDOW_H

#include "base/status.h"

#include <rlx/ops.h>

enum { RLX_MAX_SPATIAL = 3 };

/* Window position o covers the inputs o * stride - begin + t * dilation for t in [0, kernel). Of
 * conv_transpose input and output change places. */
typedef struct rlx_window {
    int64_t in, out; /* along this axis */
    int64_t kernel, stride, dilation;
    int64_t begin, end; /* padding, resolved */
} rlx_window;

typedef struct rlx_windows {
    uint32_t count; /* spatial axes, 1 to RLX_MAX_SPATIAL */
    rlx_window axes[RLX_MAX_SPATIAL];
} rlx_windows;

/* `in` and `kernel` have `count` dims each. RLX_INVALID_GRAPH with the numbers when an attribute
 * has the wrong length or sign, or the window does not fit; RLX_OUT_OF_BOUNDS when a size wraps. */
RLX_WARN_UNUSED rlx_status rlx_windows_conv(const rlx_conv_attrs *attrs, uint32_t count,
                                            const int64_t *in, const int64_t *kernel,
                                            rlx_windows *out_windows);
RLX_WARN_UNUSED rlx_status rlx_windows_conv_transpose(const rlx_conv_attrs *attrs, uint32_t count,
                                                      const int64_t *in, const int64_t *kernel,
                                                      rlx_windows *out_windows);
RLX_WARN_UNUSED rlx_status rlx_windows_pool(const rlx_pool_attrs *attrs, uint32_t count,
                                            const int64_t *in, rlx_windows *out_windows);

/* Whether strides or dilations do nothing: all are 1, or none are given. */
bool rlx_ints_are_one(const rlx_ints *ints);

#endif
