/* SPDX-License-Identifier: Apache-2.0 */
/* pack of matrices into panels of rows or of columns, which products want: runs are copied where
 * the numbers of a panel's line lie side by side, and planes are transposed where those of k do. An
 * item is a panel. And of the kernels of convolutions into panels of outputs, whose planes are
 * transposed and lines put where they belong: an item is a block of inputs of a panel. It is most
 * of what making a program costs. Other layouts, and the way back, are left to scalar C. */
#include "backend/cpu/vec/transpose.h"

#include "ref/strided.h"

/* A matrix in lines of `width` along n, one for each k; strides in bytes. */
typedef struct panels {
    int64_t width, n, k, n_step, k_step, unit;
    int64_t count; /* of one matrix */
} panels;

static bool panels_of(const rlx_kernel_args *args, panels *out_panels) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[0];
    rlx_layout layout = out->layout;
    bool is_rows = layout == RLX_LAYOUT_ROWS16 || layout == RLX_LAYOUT_ROWS32;
    bool is_columns = layout == RLX_LAYOUT_COLUMNS16 || layout == RLX_LAYOUT_COLUMNS32;
    if (!(is_rows || is_columns) || in->layout != RLX_LAYOUT_PLAIN || in->rank < 2 ||
        in->dtype != out->dtype || rlx_unit_bytes(in->dtype) == 0 ||
        rlx_unit_elements(in->dtype) != 1)
        return false;
    uint32_t n = in->rank - (is_rows ? 2 : 1), k = in->rank - (is_rows ? 1 : 2);
    bool is_wide = layout == RLX_LAYOUT_ROWS32 || layout == RLX_LAYOUT_COLUMNS32;
    panels self = {.width = is_wide ? 32 : 16, .n = in->dims[n], .k = in->dims[k]};
    self.unit = rlx_unit_bytes(in->dtype);
    self.n_step = in->strides[n] * self.unit;
    self.k_step = in->strides[k] * self.unit;
    self.count = rlx_ref_divide_up(self.n, self.width);
    *out_panels = self;
    return self.n_step == self.unit || self.k_step == self.unit;
}

static void fill_panel(const panels *self, const uint8_t *from, int64_t lines, uint8_t *to) {
    const int64_t line = self->width * self->unit, bytes = lines * self->unit;
    if (self->n_step != self->unit) {
        vec_transpose(self->unit, to, line, from, self->n_step, self->k, lines, VEC_TURN_NEAR);
    }
    for (int64_t k = 0; k < self->k; k++, to += line) {
        if (self->n_step == self->unit) memcpy(to, from + k * self->k_step, (size_t)bytes);
        if (bytes < line) memset(to + bytes, 0, (size_t)(line - bytes));
    }
}

static void run_panels(const rlx_kernel_args *args, const panels *self, int64_t begin,
                       int64_t end) {
    const rlx_tensor *in = &args->in[0];
    for (int64_t item = begin; item < end; item++) {
        int64_t panel = item % self->count, first = panel * self->width;
        int64_t matrix = rlx_ref_offset(in->rank - 2, in->dims, in->strides, item / self->count);
        fill_panel(self, (const uint8_t *)in->data + matrix * self->unit + first * self->n_step,
                   rlx_ref_least(self->width, self->n - first),
                   (uint8_t *)args->out[0].data + item * self->k * self->width * self->unit);
    }
}

/* Kernels [outputs][inputs][taps] in lines of `width` outputs, for each tap one per input of a
 * block. */
typedef struct kernels {
    int64_t width, block, blocks, outputs, inputs, taps, unit;
    int64_t step; /* bytes from output to output */
} kernels;

static const struct kernel_order {
    rlx_layout layout;
    int64_t width, block; /* 0: all inputs are one */
} kernel_orders[] = {{RLX_LAYOUT_PANELS8X16, 16, 8},
                     {RLX_LAYOUT_PANELS16X32, 32, 16},
                     {RLX_LAYOUT_TAPS16, 16, 0},
                     {RLX_LAYOUT_TAPS32, 32, 0}};

static bool kernels_of(const rlx_kernel_args *args, kernels *out_kernels) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[0];
    kernels self = {.unit = rlx_unit_bytes(in->dtype)};
    if (in->layout != RLX_LAYOUT_PLAIN || in->rank < 2 || in->dtype != out->dtype ||
        self.unit == 0 || rlx_unit_elements(in->dtype) != 1 || !vec_is_dense(in, 1)) {
        return false;
    }
    for (size_t i = 0; i < sizeof kernel_orders / sizeof *kernel_orders; i++) {
        if (kernel_orders[i].layout != out->layout) continue;
        self.width = kernel_orders[i].width;
        self.block = kernel_orders[i].block;
    }
    self.outputs = in->dims[0], self.inputs = in->dims[1];
    self.taps = vec_product(in->dims, 2, in->rank);
    self.step = in->strides[0] * self.unit;
    if (self.block == 0) self.block = self.inputs;
    *out_kernels = self;
    if (self.width == 0 || self.outputs == 0 || self.inputs == 0 || self.taps == 0) return false;
    out_kernels->blocks = rlx_ref_divide_up(self.inputs, self.block);
    return true;
}

/* Columns of a plane of kernels that are turned at a time. */
enum { COLUMNS = 64, MOST_LINE = 32 * 8 };

static void fill_block(const kernels *self, const uint8_t *from, int64_t outputs, int64_t inputs,
                       uint8_t *to) {
    _Alignas(64) uint8_t turned[COLUMNS * MOST_LINE];
    const int64_t line = self->width * self->unit, bytes = outputs * self->unit;
    int64_t input = 0, tap = 0;
    if (bytes < line) memset(turned, 0, sizeof turned);
    for (int64_t at = 0, count; at < inputs * self->taps; at += count) {
        count = rlx_ref_least(COLUMNS, inputs * self->taps - at);
        vec_transpose(self->unit, turned, line, from + at * self->unit, self->step, count, outputs,
                      VEC_TURN_NEAR);
        for (int64_t i = 0; i < count; i++) {
            memcpy(to + (tap * self->block + input) * line, turned + i * line, (size_t)line);
            if (++tap == self->taps) tap = 0, input++;
        }
    }
    for (tap = 0; tap < self->taps && inputs < self->block; tap++)
        memset(to + (tap * self->block + inputs) * line, 0,
               (size_t)((self->block - inputs) * line));
}

static void run_kernels(const rlx_kernel_args *args, const kernels *self, int64_t begin,
                        int64_t end) {
    const int64_t bytes = self->taps * self->block * self->width * self->unit;
    for (int64_t item = begin; item < end; item++) {
        int64_t output = item / self->blocks * self->width,
                input = item % self->blocks * self->block;
        fill_block(self,
                   (const uint8_t *)args->in[0].data + output * self->step +
                       input * self->taps * self->unit,
                   rlx_ref_least(self->width, self->outputs - output),
                   rlx_ref_least(self->block, self->inputs - input),
                   (uint8_t *)args->out[0].data + item * bytes);
    }
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    panels matrix;
    kernels conv;
    if (panels_of(args, &matrix)) {
        run_panels(args, &matrix, begin, end);
    } else if (kernels_of(args, &conv)) {
        run_kernels(args, &conv, begin, end);
    } else {
        vec_scalar_run(args, begin, end);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    panels matrix;
    kernels conv;
    if (panels_of(args, &matrix))
        return vec_product(args->in[0].dims, 0, args->in[0].rank - 2) * matrix.count;
    if (kernels_of(args, &conv)) return rlx_ref_divide_up(conv.outputs, conv.width) * conv.blocks;
    return vec_scalar_items(args);
}

static bool takes(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    panels matrix;
    kernels conv;
    return panels_of(&args, &matrix) || kernels_of(&args, &conv);
}

const rlx_cpu_override VEC_SYMBOL(pack)[] = {
    {RLX_OP_PACK, 0, takes, {VEC_NAME("pack"), run, items, NULL, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
