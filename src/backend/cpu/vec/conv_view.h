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
    int64_t merged;                                   /* narrow groups in a group */
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

/* Worked out once per step (conv_view.c). */
#define conv_view_of VEC_SYMBOL(conv_view_of)
conv_view conv_view_of(const rlx_kernel_args *args);

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
#define conv_join_rows VEC_SYMBOL(conv_join_rows)
void conv_join_rows(conv_view *view);

/* How the outputs are cut into items: rectangles of positions, and panels of channels. */
typedef struct conv_cut {
    int64_t panels, panel_items; /* per group */
    int64_t panel_unit;          /* panels that stay together */
    int64_t row_items, column_items;
    int64_t rows, columns, item_panels; /* of the largest item */
    int64_t stage_rows, stage_columns;  /* inputs under its rectangle */
} conv_cut;

enum { CONV_ITEMS = 16 }; /* channels are cut where there are fewer items than this */

/* Several parts are an even number of them, where they can: two threads then have equal shares. */
static inline int64_t conv_even(int64_t parts, int64_t most) {
    return parts > 1 && parts < most ? parts + parts % 2 : parts;
}

/* Rectangles of about `most` positions, at most a quarter more: whole rows, or parts of one. */
#define conv_cut_of VEC_SYMBOL(conv_cut_of)
conv_cut conv_cut_of(const conv_view *view, int64_t most, int64_t panel_unit);

static inline int64_t conv_items(const conv_view *view, const conv_cut *cut) {
    return view->batch * view->groups * cut->row_items * cut->column_items * cut->panel_items;
}

/* A rectangle of outputs and the panels that it is done for. */
typedef struct conv_place {
    int64_t n, group, panel, panel_end;
    int64_t row, rows, column, columns;
} conv_place;

/* Part `index` of `count` of [0, whole), all as equal as can be; returns its first, *size of it. */
static inline int64_t conv_part(int64_t whole, int64_t index, int64_t count, int64_t *size) {
    int64_t first = whole * index / count;
    *size = whole * (index + 1) / count - first;
    return first;
}

/* Items from *item on that share a rectangle are one place; *item moves behind them. */
static inline conv_place conv_next_place(const conv_view *view, const conv_cut *cut, int64_t *item,
                                         int64_t end) {
    conv_place at;
    int64_t size, index = *item / cut->panel_items, first = *item % cut->panel_items;
    int64_t count = conv_least(cut->panel_items - first, end - *item);
    int64_t unit = cut->panel_unit, units = conv_divide_up(cut->panels, unit);
    at.panel = conv_part(units, first, cut->panel_items, &size) * unit;
    at.panel_end = conv_part(units, first + count - 1, cut->panel_items, &size) * unit;
    at.panel_end = conv_least(cut->panels, at.panel_end + size * unit);
    at.column = conv_part(view->w.out, index % cut->column_items, cut->column_items, &at.columns);
    index /= cut->column_items;
    at.row = conv_part(view->h.out, index % cut->row_items, cut->row_items, &at.rows);
    index /= cut->row_items;
    at.group = index % view->groups;
    at.n = index / view->groups;
    *item += count;
    return at;
}

#endif
