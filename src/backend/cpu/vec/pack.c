/* SPDX-License-Identifier: Apache-2.0 */
/* pack of matrices into panels of rows or of columns, which products want: runs are copied where
 * the numbers of a panel's line lie side by side, and planes are transposed where those of k do. An
 * item is a panel. It is most of what making a program costs. Other layouts, and the way back, are
 * left to scalar C. */
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
        VEC_SYMBOL(transpose)
        (self->unit, to, line, from, self->n_step, self->k, lines, VEC_TURN_NEAR);
    }
    for (int64_t k = 0; k < self->k; k++, to += line) {
        if (self->n_step == self->unit) memcpy(to, from + k * self->k_step, (size_t)bytes);
        if (bytes < line) memset(to + bytes, 0, (size_t)(line - bytes));
    }
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *in = &args->in[0];
    panels self;
    if (!panels_of(args, &self)) {
        vec_scalar_run(args, begin, end);
        return;
    }
    for (int64_t item = begin; item < end; item++) {
        int64_t panel = item % self.count, first = panel * self.width;
        int64_t matrix = rlx_ref_offset(in->rank - 2, in->dims, in->strides, item / self.count);
        fill_panel(&self, (const uint8_t *)in->data + matrix * self.unit + first * self.n_step,
                   rlx_ref_least(self.width, self.n - first),
                   (uint8_t *)args->out[0].data + item * self.k * self.width * self.unit);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    panels self;
    if (!panels_of(args, &self)) return vec_scalar_items(args);
    return vec_product(args->in[0].dims, 0, args->in[0].rank - 2) * self.count;
}

static bool takes(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    panels self;
    return panels_of(&args, &self);
}

const rlx_cpu_override VEC_SYMBOL(pack)[] = {
    {RLX_OP_PACK, 0, takes, {VEC_NAME("pack"), run, items, NULL, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
