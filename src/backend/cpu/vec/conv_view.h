/* SPDX-License-Identifier: Apache-2.0 */
/* The operands of a convolution or pool as the vector kernels walk them: two spatial axes (a
 * missing one in front is 1 wide), channels in blocks or, of an input, in planes. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_VIEW_H
#define RLX_BACKEND_CPU_VEC_CONV_VIEW_H

#include "backend/cpu/vec/conv_tile.h"
#include "ir/window.h"

/* An activation. Strides in elements; of blocks, or of channels where they are not in blocks. */
typedef struct conv_image {
    float *data; /* NULL: absent */
    int64_t n, block, row, column;
} conv_image;

typedef struct conv_view {
    conv_image x, y, residual;
    const float *bias; /* NULL: none */
    int64_t bias_stride;
    bool is_blocked;                                  /* x has channels in blocks */
    int64_t batch, groups, in_channels, out_channels; /* channels per group */
    rlx_window h, w;
    rlx_activation activation;
} conv_view;

/* [N][blocks][spatial..][BLOCK], or [N][channels][spatial..], with one or two spatial axes. */
static inline conv_image conv_image_of(const rlx_tensor *tensor, uint32_t spatial) {
    conv_image image = {.data = tensor->data, .n = tensor->strides[0], .block = tensor->strides[1]};
    image.column = tensor->strides[1 + spatial];
    image.row = spatial == 2 ? tensor->strides[2] : 0;
    return image;
}

static inline void conv_set_axes(const rlx_windows *windows, rlx_window *h, rlx_window *w) {
    *h = (rlx_window){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
    if (windows->count == 2) *h = windows->axes[0];
    *w = windows->axes[windows->count - 1];
}

static inline conv_view conv_view_of(const rlx_kernel_args *args) {
    const rlx_conv_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0], *w = &args->in[1], *y = &args->out[0];
    uint32_t spatial = w->rank - 2;
    rlx_windows windows = {0};
    conv_view view = {.batch = y->dims[0],
                      .groups = attrs->groups == 0 ? 1 : attrs->groups,
                      .is_blocked = x->rank > w->rank,
                      .in_channels = w->dims[1],
                      .activation = attrs->activation};
    rlx_status status = rlx_windows_conv(attrs, spatial, x->dims + 2, w->dims + 2, &windows);
    RLX_ASSERT(status == RLX_OK); /* the shape rule asked the same */
    (void)status;
    view.out_channels = w->dims[0] / view.groups;
    conv_set_axes(&windows, &view.h, &view.w);
    view.x = conv_image_of(x, spatial);
    view.y = conv_image_of(y, spatial);
    if (args->in_count > 2 && args->in[2].data != NULL) {
        view.bias = args->in[2].data;
        view.bias_stride = args->in[2].strides[0];
    }
    if (args->in_count > 3 && args->in[3].data != NULL) {
        view.residual = conv_image_of(&args->in[3], spatial);
    }
    return view;
}

/* One operand as these kernels can walk it: absent, or f32 [..][BLOCK] with the block side by side.
 */
static inline bool conv_is_blocked(const rlx_tensor *tensor, uint32_t spatial) {
    uint32_t last = 2 + spatial;
    if (tensor->data == NULL) return true;
    return tensor->dtype == RLX_DTYPE_F32 && tensor->layout == RLX_LAYOUT_PLAIN &&
           tensor->rank == last + 1 && tensor->dims[last] == BLOCK && tensor->strides[last] == 1;
}

static inline int64_t conv_divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}
static inline int64_t conv_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Inputs under `count` outputs that follow each other. */
static inline int64_t conv_reach(const rlx_window *window, int64_t count) {
    return (count - 1) * window->stride + (window->kernel - 1) * window->dilation + 1;
}

static inline bool conv_is_padded(const rlx_window *window) {
    return window->begin != 0 || conv_reach(window, window->out) > window->in;
}

/* Planes of a 1 x 1 kernel are one long row, where all rows touch. */
static inline void conv_join_rows(conv_view *view) {
    const conv_image *images[] = {&view->x, &view->y, &view->residual};
    rlx_window *h = &view->h, *w = &view->w;
    if (h->kernel != 1 || w->kernel != 1 || h->stride != 1 || w->stride != 1) return;
    if (conv_is_padded(h) || conv_is_padded(w) || h->in != h->out || w->in != w->out) return;
    for (int i = 0; i < 3; i++) {
        if (images[i]->data != NULL && images[i]->row != w->in * images[i]->column) return;
    }
    w->in = w->out = h->in * w->in;
    h->in = h->out = 1;
}

#endif
