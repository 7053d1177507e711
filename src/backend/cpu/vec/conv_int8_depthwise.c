/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise conv_quantised with channels in blocks: x, y and residual are [N][C / BLOCK][H][W]
 * [BLOCK], weights [C / BLOCK][taps][BLOCK] of 16 bits. An item is some rows of outputs of one
 * block of channels. The inputs under them are copied to the workspace as unsigned bytes, with the
 * zero point as padding; what that adds to every sum is taken out before the first product. */
#include "backend/cpu/vec/conv_int8.h"

enum { POSITIONS = 256, TILE = 4 };

typedef struct depthwise {
    int8_conv conv;
    const int16_t *weights;
    int64_t blocks, taps, rows, row_items; /* rows of an item */
    int64_t stage_rows, stage_columns;
} depthwise;

static depthwise make(const rlx_kernel_args *args) {
    depthwise self = {.conv = int8_conv_of(args), .weights = args->in[1].data};
    const conv_view *view = &self.conv.view;
    self.blocks = conv_divide_up(view->groups, BLOCK);
    self.taps = view->h.kernel * view->w.kernel;
    self.rows = POSITIONS / view->w.out > 1 ? POSITIONS / view->w.out : 1;
    self.row_items = conv_divide_up(view->h.out, self.rows);
    self.rows = conv_divide_up(view->h.out, self.row_items);
    self.stage_rows = conv_reach(&view->h, self.rows);
    self.stage_columns = conv_reach(&view->w, view->w.out);
    return self;
}

/* [rows][stage columns][BLOCK]. */
static void stage(const depthwise *self, const uint8_t *from, int64_t top, int64_t rows,
                  uint8_t *to) {
    const conv_view *view = &self->conv.view;
    int64_t count = self->stage_columns, left = view->w.begin;
    int64_t first = conv_least(left, count), end = conv_least(count, view->w.in + left);
    if (end < first) end = first;
    for (int64_t r = 0; r < rows; r++, to += count * BLOCK) {
        bool is_inside = top + r >= 0 && top + r < view->h.in;
        if (!is_inside || end - first < count) memset(to, self->conv.zero, (size_t)(count * BLOCK));
        if (!is_inside) continue;
        const uint8_t *row = from + (top + r) * view->x.row + (first - left) * view->x.column;
        for (int64_t i = first; i < end; i++, row += view->x.column) {
            for (int64_t c = 0; c < BLOCK; c++)
                to[i * BLOCK + c] = row[c] ^ self->conv.flip;
        }
    }
}

/* The sums of P positions side by side, one vector of channels, from `start` on. */
VEC_INLINE void add_taps(const depthwise *self, const uint8_t *x, const int16_t *w, vi start,
                         int32_t *sums, const int P) {
    const conv_view *view = &self->conv.view;
    int64_t step = view->w.stride * BLOCK, dilation = view->w.dilation * BLOCK;
    vi sum[TILE];
    VEC_UNROLLED for (int p = 0; p < P; p++) sum[p] = start;
    for (int64_t row = 0; row < view->h.kernel; row++) {
        const uint8_t *at = x + row * view->h.dilation * self->stage_columns * BLOCK;
        for (int64_t tap = 0; tap < view->w.kernel; tap++, at += dilation, w += BLOCK) {
            vi weight = vi_of_shorts(w);
            VEC_UNROLLED for (int p = 0; p < P; p++) sum[p] +=
                vi_pair_products(vi_of_bytes(at + p * step), weight);
        }
    }
    VEC_UNROLLED for (int p = 0; p < P; p++) vi_store(sums + p * VF, sum[p]);
}

/* One row of outputs, one vector of channels; `x` is the staged row of the first tap. */
static void run_row(const depthwise *self, const uint8_t *x, const int16_t *w, vi start,
                    int32_t *sums) {
    const rlx_window *window = &self->conv.view.w;
    int64_t column = 0, step = window->stride * BLOCK;
    for (; column + TILE <= window->out; column += TILE)
        add_taps(self, x + column * step, w, start, sums + column * VF, TILE);
    for (; column < window->out; column++)
        add_taps(self, x + column * step, w, start, sums + column * VF, 1);
}

static void run_item(const depthwise *self, int64_t item, int32_t *sums, uint8_t *staged) {
    const conv_view *view = &self->conv.view;
    const conv_image *y = &view->y, *residual = &view->residual;
    int64_t row = item % self->row_items * self->rows, plane = item / self->row_items;
    int64_t rows = conv_least(self->rows, view->h.out - row);
    int64_t n = plane / self->blocks, block = plane % self->blocks;
    const int16_t *w = self->weights + block * self->taps * BLOCK;
    float scale[BLOCK], bias[BLOCK];
    stage(self, (const uint8_t *)(const void *)view->x.data + n * view->x.n + block * view->x.block,
          row * view->h.stride - view->h.begin, conv_reach(&view->h, rows), staged);
    int8_factors(&self->conv, block * BLOCK, BLOCK, view->groups, scale, bias);
    for (int64_t lane = 0; lane < BLOCK; lane += VF) {
        vi start = {0};
        for (int64_t tap = 0; tap < self->taps; tap++)
            start -= vi_of_shorts(w + tap * BLOCK + lane) * self->conv.zero;
        for (int64_t r = 0; r < rows; r++) {
            run_row(self, staged + r * view->h.stride * self->stage_columns * BLOCK + lane,
                    w + lane, start, sums);
            int8_finish(&self->conv, sums, VF, view->w.out, scale + lane, bias + lane,
                        n * residual->n + block * residual->block + (row + r) * residual->row +
                            lane,
                        n * y->n + block * y->block + (row + r) * y->row + lane);
        }
    }
}

static uint64_t sums_room(const depthwise *self) {
    return (uint64_t)self->conv.view.w.out * VF;
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    depthwise self = make(args);
    int32_t *sums = args->workspace;
    for (int64_t item = begin; item < end; item++)
        run_item(&self, item, sums, (uint8_t *)(sums + sums_room(&self)));
}

static int64_t items(const rlx_kernel_args *args) {
    depthwise self = make(args);
    return self.conv.view.batch * self.blocks * self.row_items;
}

/* In steps of a vector. */
static int64_t item_cost(const rlx_kernel_args *args) {
    depthwise self = make(args);
    return rlx_ref_cost(self.rows * self.conv.view.w.out * (BLOCK / VF), 2 * self.taps);
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    depthwise self = make(args);
    return sums_room(&self) * sizeof(int32_t) +
           (uint64_t)(self.stage_rows * self.stage_columns * BLOCK);
}

static bool takes(const rlx_target_query *query) {
    const rlx_tensor *x = &query->in[0], *w = &query->in[1];
    const rlx_conv_quantised_attrs *attrs = query->attrs;
    if (!int8_takes(query) || attrs->conv.groups != w->dims[0] || w->dims[1] != 1) return false;
    if (w->layout != (BLOCK == 8 ? RLX_LAYOUT_DEPTHWISE8 : RLX_LAYOUT_DEPTHWISE16)) return false;
    return x->rank > w->rank && int8_is_blocked(x, w->rank - 2);
}

const rlx_cpu_override VEC_SYMBOL(conv_int8_depthwise)[] = {
    {RLX_OP_CONV_QUANTISED,
     0,
     takes,
     {VEC_NAME("conv_int8_depthwise"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
