/* SPDX-License-Identifier: Apache-2.0 */
/* max_pool of u8 and i8 over one or two spatial axes, without indices, plain or with channels in
 * blocks of any width. An item is one row of outputs of a channel or of a block of them. The rows
 * of inputs that its windows meet are joined to columns, between their padding in the workspace;
 * then neighbouring columns are joined: loops over bytes side by side that the compiler turns into
 * vectors. i8 is compared as u8 with its sign flipped. */
#include "backend/cpu/vec/conv_view.h"
#include "backend/cpu/vec/rows.h"

#include <string.h>

typedef struct pool {
    const rlx_tensor *x, *y;
    rlx_window h, w;
    uint32_t row_axis; /* of x and y, if there are rows */
    int64_t inner;     /* bytes of a position */
    int64_t wide;      /* bytes of a row before it is thinned out by the stride */
    int64_t span;      /* bytes of a padded row */
    uint8_t flip;      /* what makes bytes unsigned */
} pool;

static pool pool_of(const rlx_kernel_args *args) {
    const rlx_pool_attrs *attrs = args->attrs;
    pool self = {.x = &args->in[0], .y = &args->out[0], .row_axis = 2, .inner = 1};
    rlx_windows windows = {0};
    rlx_status status = rlx_windows_pool(attrs, attrs->kernel.count, self.x->dims + 2, &windows);
    RLX_ASSERT(status == RLX_OK); /* the shape rule asked the same */
    (void)status;
    conv_set_axes(&windows, &self.h, &self.w);
    if (attrs->is_blocked) self.inner = self.x->dims[self.x->rank - 1];
    if (self.x->dtype == RLX_DTYPE_I8) self.flip = 0x80;
    self.wide = self.w.out > 0 ? ((self.w.out - 1) * self.w.stride + 1) * self.inner : 0;
    self.span = self.wide + (self.w.kernel - 1) * self.w.dilation * self.inner;
    return self;
}

static void join(uint8_t *restrict column, const uint8_t *restrict from, int64_t count,
                 uint8_t flip) {
    for (int64_t i = 0; i < count; i++) {
        uint8_t x = from[i] ^ flip;
        column[i] = x > column[i] ? x : column[i];
    }
}

/* Every stride-th position moves to the front. The widths that are common are constants. */
VEC_INLINE void thin_out_by(uint8_t *row, int64_t count, int64_t stride, int64_t inner) {
    for (int64_t i = 1; i < count; i++)
        memmove(row + i * inner, row + i * stride * inner, (size_t)inner);
}

static void thin_out(uint8_t *row, int64_t count, int64_t stride, int64_t inner) {
    if (stride == 1) return;
    if (inner == 1) {
        thin_out_by(row, count, stride, 1);
    } else if (inner == 8) {
        thin_out_by(row, count, stride, 8);
    } else {
        thin_out_by(row, count, stride, inner);
    }
}

/* The rows of inputs under the windows of row `at`: the first, and how many. */
static int64_t rows_of(const rlx_window *h, int64_t at, int64_t *out_first) {
    int64_t start = at * h->stride - h->begin, skipped = 0;
    if (start < 0) skipped = conv_divide_up(-start, h->dilation);
    *out_first = start + skipped * h->dilation;
    if (skipped >= h->kernel || *out_first >= h->in) return 0;
    return conv_least(h->kernel - skipped, (h->in - 1 - *out_first) / h->dilation + 1);
}

static void pool_row(const pool *self, const uint8_t *x, uint8_t *y, int64_t row, uint8_t *columns,
                     uint8_t *joined) {
    const rlx_window *w = &self->w;
    int64_t lead = conv_least(w->begin * self->inner, self->span), first;
    int64_t count = conv_least(w->in * self->inner, self->span - lead);
    int64_t rows = rows_of(&self->h, row, &first), stride = self->x->strides[self->row_axis];
    memset(columns, 0, (size_t)self->span);
    for (int64_t i = 0; i < rows; i++)
        join(columns + lead, x + (first + i * self->h.dilation) * stride, count, self->flip);
    memcpy(joined, columns, (size_t)self->wide);
    for (int64_t k = 1; k < w->kernel; k++)
        join(joined, columns + k * w->dilation * self->inner, self->wide, 0);
    thin_out(joined, w->out, w->stride, self->inner);
    for (int64_t i = 0; i < w->out * self->inner; i++)
        y[i] = joined[i] ^ self->flip;
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    pool self = pool_of(args);
    uint8_t *columns = args->workspace, *joined = columns + self.span;
    const rlx_tensor *x = self.x, *y = self.y;
    bool has_rows = ((const rlx_pool_attrs *)args->attrs)->kernel.count == 2;
    for (int64_t item = begin; item < end; item++) {
        int64_t row = item % self.h.out, plane = item / self.h.out;
        int64_t n = plane / y->dims[1], c = plane % y->dims[1];
        uint8_t *to = (uint8_t *)y->data + n * y->strides[0] + c * y->strides[1];
        if (has_rows) to += row * y->strides[self.row_axis];
        pool_row(&self, (const uint8_t *)x->data + n * x->strides[0] + c * x->strides[1], to, row,
                 columns, joined);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    pool self = pool_of(args);
    return self.y->dims[0] * self.y->dims[1] * self.h.out;
}

static int64_t item_cost(const rlx_kernel_args *args) {
    pool self = pool_of(args);
    int64_t rows = conv_least(self.h.kernel, self.h.in) + self.w.kernel;
    return rlx_ref_cost(self.span / 16 + 1, rows) + 16;
}

static uint64_t workspace(const rlx_kernel_args *args) {
    pool self = pool_of(args);
    return rlx_ref_bytes((uint64_t)(self.span + self.wide), 1);
}

static bool are_bytes_side_by_side(const rlx_tensor *tensor, const rlx_pool_attrs *attrs) {
    uint32_t last = tensor->rank - 1;
    if (tensor->strides[last] != 1) return false;
    return !attrs->is_blocked || tensor->strides[last - 1] == tensor->dims[last];
}

/* Rows that a worker can keep near; a window far wider than its input is none of ours. */
static bool takes(const rlx_target_query *query) {
    enum { MOST = 1 << 16 };
    const rlx_pool_attrs *attrs = query->attrs;
    const rlx_tensor *x = &query->in[0], *y = &query->out[0];
    rlx_kernel_args args = vec_args_of(query);
    uint32_t spatial = attrs->kernel.count;
    if ((x->dtype != RLX_DTYPE_U8 && x->dtype != RLX_DTYPE_I8) || y->dtype != x->dtype)
        return false;
    if (spatial < 1 || spatial > 2 || x->rank != spatial + 2 + attrs->is_blocked) return false;
    if (args.out_count > 1 && args.out[1].data != NULL) return false;
    if (!are_bytes_side_by_side(x, attrs) || !are_bytes_side_by_side(y, attrs)) return false;
    pool self = pool_of(&args);
    return self.w.kernel < MOST && self.w.dilation < MOST && self.span < MOST;
}

const rlx_cpu_override VEC_SYMBOL(pool_bytes)[] = {
    {RLX_OP_MAX_POOL, 0, takes, {VEC_NAME("max_pool_bytes"), run, items, item_cost, workspace}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
