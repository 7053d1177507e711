/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, convolutions and pools. */
#include "import/onnx/extent.h"
#include "import/onnx/ops.h"

#include <string.h>

void rlx_ox_matmul(ox *o) {
    ox_give(o, 0, ox_matmul(o, ox_in(o, 0), ox_in(o, 1)));
}

rlx_value_id ox_gemm(ox *o) {
    rlx_matmul_attrs attrs = {.transpose_a = ox_int(o, "transA", 0) != 0,
                              .transpose_b = ox_int(o, "transB", 0) != 0,
                              .alpha = ox_float(o, "alpha", 1)};
    double beta = ox_float(o, "beta", 1);
    rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1), ox_maybe(o, 2)};
    bool is_float = ox_is_float(o, inputs[0]);
    if (ox_ok(o) && (ox_rank(o, inputs[0]) != 2 || ox_rank(o, inputs[1]) != 2))
        ox_invalid(o, "it multiplies matrices");
    if (ox_ok(o) && !is_float && (attrs.alpha != 1 || beta != 1))
        ox_unsupported(o, "alpha and beta of integers");
    if (!ox_ok(o)) return RLX_NONE;
    double alpha = attrs.alpha;
    if (!is_float || alpha == 0) attrs.alpha = 1; /* 0 in the struct means 1 */
    if (inputs[2] != RLX_NONE && beta != 1)
        inputs[2] = ox_binary(o, RLX_OP_MUL, inputs[2], ox_scalar(o, ox_dtype(o, inputs[2]), beta));
    if (alpha == 0) {
        rlx_value_id product = ox_node(o, RLX_OP_MATMUL, &attrs, inputs, 2);
        rlx_value_id zero = ox_scalar(o, ox_dtype(o, product), 0);
        product = ox_binary(o, RLX_OP_MUL, product, zero);
        if (inputs[2] != RLX_NONE) product = ox_binary(o, RLX_OP_ADD, product, inputs[2]);
        return product;
    }
    return ox_node(o, RLX_OP_MATMUL, &attrs, inputs, inputs[2] == RLX_NONE ? 2 : 3);
}

void rlx_ox_gemm(ox *o) {
    ox_give(o, 0, ox_gemm(o));
}

/* Moves the channels behind the batch, or to the end. */
static rlx_value_id move_channels(ox *o, rlx_value_id x, bool to_end) {
    int64_t perm[RLX_MAX_RANK];
    uint32_t rank = ox_rank(o, x);
    if (ox_ok(o) && rank < 3) ox_invalid(o, "it needs a spatial axis");
    if (!ox_ok(o)) return RLX_NONE;
    for (uint32_t i = 1; i < rank; i++)
        perm[i] = to_end ? (i + 1 < rank ? i + 1 : 1) : (i == 1 ? rank - 1 : i - 1);
    perm[0] = 0;
    return ox_transpose(o, x, perm, rank);
}

rlx_value_id ox_channels_first(ox *o, rlx_value_id x) {
    return move_channels(o, x, false);
}

rlx_value_id ox_channels_last(ox *o, rlx_value_id x) {
    return move_channels(o, x, true);
}

static rlx_auto_pad auto_pad(ox *o) {
    const char *mode = ox_text(o, "auto_pad", "NOTSET");
    if (strcmp(mode, "SAME_UPPER") == 0) return RLX_AUTO_PAD_SAME_UPPER;
    if (strcmp(mode, "SAME_LOWER") == 0) return RLX_AUTO_PAD_SAME_LOWER;
    if (strcmp(mode, "VALID") == 0) return RLX_AUTO_PAD_VALID;
    if (strcmp(mode, "NOTSET") != 0) ox_invalid(o, "auto_pad '%s' is not known", mode);
    return RLX_AUTO_PAD_EXPLICIT;
}

void ox_conv_attrs(ox *o, rlx_value_id w, rlx_conv_attrs *attrs) {
    rlx_ints kernel = {0};
    uint32_t rank = ox_rank(o, w);
    ox_ints(o, "strides", &attrs->strides);
    ox_ints(o, "dilations", &attrs->dilations);
    ox_ints(o, "pads", &attrs->pads);
    attrs->groups = ox_int(o, "group", 1);
    attrs->auto_pad = auto_pad(o);
    if (!ox_ints(o, "kernel_shape", &kernel) || !ox_ok(o)) return;
    for (uint32_t i = 0; i < kernel.count && i + 2 < rank; i++) {
        if (kernel.items[i] != ox_dim(o, w, i + 2))
            ox_invalid(o, "kernel_shape says %" PRId64 ", the weights have %" PRId64,
                       kernel.items[i], ox_dim(o, w, i + 2));
    }
}

/* As many images as only a run knows are convolved as if there were as many as there can be. */
static void give_images(ox *o, rlx_op op, const rlx_conv_attrs *attrs, rlx_value_id *inputs) {
    if (!ox_ok(o)) return;
    rlx_type type = ox_type(o, inputs[0]);
    rlx_value_id extent = type.shape.rank == 0 ? RLX_NONE : type.extents[0];
    if (extent != RLX_NONE) inputs[0] = ox_to_bound(o, inputs[0], 0);
    rlx_value_id y = ox_node(o, op, attrs, inputs, inputs[2] == RLX_NONE ? 2 : 3);
    ox_give(o, 0, ox_limit(o, y, 0, extent));
}

void rlx_ox_conv(ox *o) {
    rlx_conv_attrs attrs = {0};
    rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1), ox_maybe(o, 2)};
    ox_conv_attrs(o, inputs[1], &attrs);
    give_images(o, RLX_OP_CONV, &attrs, inputs);
}

static int64_t item_or(const rlx_ints *list, uint32_t index, int64_t otherwise) {
    return index < list->count ? list->items[index] : otherwise;
}

/* An output_shape decides the pads: the total is split, the odd one as auto_pad says. */
static void pads_from_shape(ox *o, const rlx_value_id *inputs, const rlx_ints *shape,
                            rlx_conv_attrs *attrs) {
    uint32_t spatial = ox_rank(o, inputs[0]) - 2, skip = shape->count - spatial;
    rlx_ints pads = {.count = 2 * spatial}, extra = {.count = spatial};
    bool is_upper = attrs->auto_pad == RLX_AUTO_PAD_SAME_UPPER;
    for (uint32_t i = 0; i < spatial; i++) {
        int64_t kernel = ox_dim(o, inputs[1], i + 2);
        int64_t reach = ox_times(o, kernel - 1, item_or(&attrs->dilations, i, 1));
        int64_t more = item_or(&attrs->output_padding, i, 0);
        int64_t total =
            ox_times(o, item_or(&attrs->strides, i, 1), ox_dim(o, inputs[0], i + 2) - 1);
        total = ox_plus(o, ox_plus(o, total, more), ox_plus(o, reach, 1));
        if (shape->items[skip + i] < 0) ox_invalid(o, "output_shape is negative");
        total = ox_ok(o) ? ox_plus(o, total, -shape->items[skip + i]) : 0;
        extra.items[i] = ox_plus(o, more, total < 0 && ox_ok(o) ? -total : 0);
        if (total < 0) total = 0;
        pads.items[i] = is_upper ? total / 2 : total - total / 2;
        pads.items[spatial + i] = total - pads.items[i];
    }
    attrs->pads = pads;
    attrs->output_padding = extra;
    attrs->auto_pad = RLX_AUTO_PAD_EXPLICIT;
}

void rlx_ox_conv_transpose(ox *o) {
    rlx_conv_attrs attrs = {0};
    rlx_ints shape = {0};
    rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1), ox_maybe(o, 2)};
    ox_conv_attrs(o, inputs[1], &attrs);
    ox_ints(o, "output_padding", &attrs.output_padding);
    bool has_shape = ox_ints(o, "output_shape", &shape);
    if (ox_ok(o) && ox_rank(o, inputs[0]) < 3) ox_invalid(o, "it needs a spatial axis");
    if (ox_ok(o) && has_shape && shape.count + 2 < ox_rank(o, inputs[0]))
        ox_invalid(o, "output_shape has %u sizes", shape.count);
    if (!ox_ok(o)) return;
    if (has_shape) pads_from_shape(o, inputs, &shape, &attrs);
    if (!ox_ok(o)) return;
    give_images(o, RLX_OP_CONV_TRANSPOSE, &attrs, inputs);
}

void ox_pool_attrs(ox *o, rlx_pool_attrs *attrs) {
    if (!ox_ints(o, "kernel_shape", &attrs->kernel)) ox_invalid(o, "kernel_shape is missing");
    ox_ints(o, "strides", &attrs->strides);
    ox_ints(o, "dilations", &attrs->dilations);
    ox_ints(o, "pads", &attrs->pads);
    attrs->auto_pad = auto_pad(o);
    attrs->ceil_mode = ox_int(o, "ceil_mode", 0) != 0;
    attrs->count_include_pad = ox_int(o, "count_include_pad", 0) != 0;
}

/* Indices count rows first; storage_order 1 wants the last two spatial axes the other way round. */
static rlx_value_id column_major(ox *o, rlx_value_id x, rlx_value_id indices) {
    uint32_t rank = ox_rank(o, x);
    if (rank != 4) ox_unsupported(o, "storage_order 1 with %u dims", rank);
    if (!ox_ok(o)) return RLX_NONE;
    int64_t h = ox_dim(o, x, 2), w = ox_dim(o, x, 3);
    rlx_value_id plane = ox_scalar(o, RLX_DTYPE_I64, (double)ox_times(o, h, w));
    rlx_value_id width = ox_scalar(o, RLX_DTYPE_I64, (double)w);
    rlx_value_id inner = ox_binary(o, RLX_OP_MOD, indices, plane);
    rlx_value_id base = ox_binary(o, RLX_OP_SUB, indices, inner);
    rlx_value_id row = ox_binary(o, RLX_OP_DIV, inner, width);
    rlx_value_id column = ox_binary(o, RLX_OP_MOD, inner, width);
    column = ox_binary(o, RLX_OP_MUL, column, ox_scalar(o, RLX_DTYPE_I64, (double)h));
    return ox_binary(o, RLX_OP_ADD, base, ox_binary(o, RLX_OP_ADD, row, column));
}

void rlx_ox_max_pool(ox *o) {
    rlx_pool_attrs attrs = {0};
    rlx_value_id x = ox_in(o, 0), out[2] = {RLX_NONE, RLX_NONE};
    ox_pool_attrs(o, &attrs);
    ox_nodes(o, RLX_OP_MAX_POOL, &attrs, &x, 1, out, ox_wants(o, 1) ? 2 : 1);
    ox_give(o, 0, out[0]);
    if (!ox_wants(o, 1)) return;
    bool is_column = ox_int(o, "storage_order", 0) != 0;
    ox_give(o, 1, is_column ? column_major(o, x, out[1]) : out[1]);
}

void rlx_ox_average_pool(ox *o) {
    rlx_pool_attrs attrs = {0};
    rlx_value_id x = ox_in(o, 0);
    ox_pool_attrs(o, &attrs);
    ox_give(o, 0, ox_node(o, RLX_OP_AVERAGE_POOL, &attrs, &x, 1));
}

void rlx_ox_global_pool(ox *o) {
    rlx_pool_attrs attrs = {0};
    rlx_value_id x = ox_in(o, 0);
    uint32_t rank = ox_rank(o, x);
    if (ox_ok(o) && rank < 3) {
        ox_give(o, 0, x);
        return;
    }
    attrs.kernel.count = rank - 2;
    for (uint32_t i = 2; i < rank; i++)
        attrs.kernel.items[i - 2] = ox_dim(o, x, i);
    ox_give(o, 0, ox_node(o, o->op, &attrs, &x, 1));
}

/* (sum |x|^p)^(1/p): an average pool of the powers, times the size of the window. */
void rlx_ox_lp_pool(ox *o) {
    rlx_pool_attrs attrs = {.count_include_pad = true};
    rlx_value_id x = ox_in(o, 0);
    double p = o->since < 2 ? ox_float(o, "p", 2) : (double)ox_int(o, "p", 2), size = 1;
    rlx_dtype dtype = ox_dtype(o, x);
    if (strcmp(o->node->op, "GlobalLpPool") == 0) {
        attrs.kernel.count = ox_rank(o, x) < 3 ? 0 : ox_rank(o, x) - 2;
        for (uint32_t i = 0; i < attrs.kernel.count; i++)
            attrs.kernel.items[i] = ox_dim(o, x, i + 2);
    } else {
        ox_pool_attrs(o, &attrs);
        attrs.count_include_pad = true;
    }
    if (ox_ok(o) && attrs.ceil_mode) ox_unsupported(o, "ceil_mode of LpPool");
    for (uint32_t i = 0; i < attrs.kernel.count; i++)
        size *= (double)attrs.kernel.items[i];
    x = ox_binary(o, RLX_OP_POW, ox_unary(o, RLX_OP_ABS, x), ox_scalar(o, dtype, p));
    x = ox_node(o, RLX_OP_AVERAGE_POOL, &attrs, &x, 1);
    x = ox_binary(o, RLX_OP_MUL, x, ox_scalar(o, dtype, size));
    ox_give(o, 0, ox_binary(o, RLX_OP_POW, x, ox_scalar(o, dtype, 1 / p)));
}

/* Size of the pooled input, if nothing says otherwise. */
static void unpooled_shape(ox *o, rlx_value_id x, rlx_ints *shape) {
    rlx_ints kernel = {0}, strides = {0}, pads = {0};
    uint32_t rank = ox_rank(o, x), spatial = rank < 2 ? 0 : rank - 2;
    ox_ints(o, "kernel_shape", &kernel);
    ox_ints(o, "strides", &strides);
    ox_ints(o, "pads", &pads);
    shape->count = rank;
    for (uint32_t i = 0; i < rank; i++) {
        shape->items[i] = ox_dim(o, x, i);
        if (i < 2) continue;
        uint32_t s = i - 2;
        int64_t size = ox_times(o, shape->items[i] - 1, item_or(&strides, s, 1));
        size = ox_plus(o, size, item_or(&kernel, s, 1));
        if (item_or(&pads, s, 0) < 0 || item_or(&pads, s + spatial, 0) < 0)
            ox_invalid(o, "negative pads");
        if (!ox_ok(o)) return;
        size = ox_plus(o, size, -item_or(&pads, s, 0));
        shape->items[i] = ox_plus(o, size, -item_or(&pads, s + spatial, 0));
    }
}

/* Indices count in the input of the pool, whose shape may differ from the output's: the values are
 * scattered there, and the result is padded. */
void rlx_ox_max_unpool(ox *o) {
    rlx_ints shape = {0}, wanted = {0};
    rlx_value_id x = ox_in(o, 0), indices = ox_in(o, 1);
    const int64_t flat[] = {-1};
    rlx_scatter_attrs attrs = {0};
    unpooled_shape(o, x, &shape);
    wanted = shape;
    if (ox_has(o, 2)) ox_need_ints(o, ox_in(o, 2), &wanted);
    if (!ox_ok(o)) return;
    rlx_value_id target = ox_scalar(o, ox_dtype(o, x), 0);
    int64_t elements = 1;
    for (uint32_t i = 0; i < shape.count; i++)
        elements = ox_times(o, elements, shape.items[i]);
    target = ox_expand(o, target, &elements, 1);
    const rlx_value_id inputs[] = {target, ox_reshape(o, indices, flat, 1),
                                   ox_reshape(o, x, flat, 1)};
    target = ox_node(o, RLX_OP_SCATTER_ELEMENTS, &attrs, inputs, 3);
    target = ox_reshape(o, target, shape.items, shape.count);
    rlx_pad_attrs pad = {.pads.count = 2 * shape.count};
    for (uint32_t i = 0; i < shape.count && i < wanted.count; i++)
        pad.pads.items[shape.count + i] =
            wanted.items[i] < 0 ? -1 : ox_plus(o, wanted.items[i], -shape.items[i]);
    ox_give(o, 0, ox_node(o, RLX_OP_PAD, &pad, &target, 1));
}

/* Columns back to images: the sum of what was copied from each place. */
typedef struct columns {
    rlx_ints image, block, strides, dilations, pads;
    int64_t padded[RLX_MAX_RANK], steps[RLX_MAX_RANK]; /* sizes with pads; places of a block */
    int64_t places, block_count, step_count;           /* products of padded, block, steps */
} columns;

static void read_columns(ox *o, columns *self) {
    if (!ox_need_ints(o, ox_in(o, 1), &self->image) || !ox_need_ints(o, ox_in(o, 2), &self->block))
        return;
    ox_ints(o, "strides", &self->strides);
    ox_ints(o, "dilations", &self->dilations);
    ox_ints(o, "pads", &self->pads);
    uint32_t spatial = self->image.count;
    if (ox_ok(o) && (spatial == 0 || spatial > RLX_MAX_RANK - 2 || self->block.count != spatial))
        ox_invalid(o, "images of %u axes, blocks of %u", spatial, self->block.count);
    self->places = self->block_count = self->step_count = 1;
    for (uint32_t i = 0; i < spatial && ox_ok(o); i++) {
        int64_t stride = item_or(&self->strides, i, 1), far = item_or(&self->dilations, i, 1);
        int64_t pads = ox_plus(o, item_or(&self->pads, i, 0), item_or(&self->pads, i + spatial, 0));
        if (item_or(&self->pads, i, 0) < 0 || pads < item_or(&self->pads, i, 0) || stride < 1 ||
            far < 1 || self->image.items[i] < 1 || self->block.items[i] < 1)
            ox_invalid(o, "axis %u of the image", i);
        self->padded[i] = ox_plus(o, self->image.items[i], pads);
        int64_t rest = ox_plus(o, self->padded[i], -ox_times(o, far, self->block.items[i] - 1) - 1);
        if (rest < 0) ox_invalid(o, "a block does not fit axis %u", i);
        self->steps[i] = rest / stride + 1;
        self->places = ox_times(o, self->places, self->padded[i]);
        self->block_count = ox_times(o, self->block_count, self->block.items[i]);
        self->step_count = ox_times(o, self->step_count, self->steps[i]);
    }
}

/* The place in the padded image of element `at` of the block at step `step`. */
static int64_t place_in_image(const columns *self, int64_t at, int64_t step) {
    int64_t place = 0, scale = 1;
    for (uint32_t i = self->image.count; i-- > 0;) {
        int64_t from = step % self->steps[i] * item_or(&self->strides, i, 1) +
                       at % self->block.items[i] * item_or(&self->dilations, i, 1);
        place += from * scale;
        scale *= self->padded[i];
        at /= self->block.items[i];
        step /= self->steps[i];
    }
    return place;
}

static rlx_value_id column_places(ox *o, const columns *self) {
    int64_t count = ox_times(o, self->block_count, self->step_count);
    const int64_t dims[] = {count, 1};
    if (ox_ok(o) && count > OX_MOST_NUMBERS) ox_unsupported(o, "%" PRId64 " columns", count);
    int64_t *items = ox_memory(o, (uint64_t)count, sizeof *items);
    for (int64_t i = 0; i < count && ox_ok(o); i++)
        items[i] = place_in_image(self, i / self->step_count, i % self->step_count);
    return ox_constant(o, RLX_DTYPE_I64, dims, 2, items, (uint64_t)count * sizeof *items);
}

/* x: [N][C blocks][steps]. Rows of the scatter are places, so that one place is added up at once.
 */
void rlx_ox_col2im(ox *o) {
    static const int64_t turn[] = {1, 0};
    const rlx_scatter_attrs add = {.mode = RLX_SCATTER_ADD};
    columns self = {0};
    rlx_value_id x = ox_in(o, 0);
    read_columns(o, &self);
    if (ox_ok(o) && (ox_rank(o, x) != 3 || ox_dim(o, x, 1) % self.block_count != 0 ||
                     ox_dim(o, x, 2) != self.step_count))
        ox_invalid(o, "the columns do not fit: %" PRId64 " in a block, %" PRId64 " blocks",
                   self.block_count, self.step_count);
    if (!ox_ok(o)) return;
    int64_t n = ox_dim(o, x, 0), c = ox_dim(o, x, 1) / self.block_count, rows = ox_times(o, n, c);
    const int64_t flat[] = {rows, ox_times(o, self.block_count, self.step_count)};
    const int64_t empty[] = {self.places, rows};
    rlx_value_id zeros = ox_expand(o, ox_scalar(o, ox_dtype(o, x), 0), empty, 2);
    const rlx_value_id inputs[] = {zeros, column_places(o, &self),
                                   ox_transpose(o, ox_reshape(o, x, flat, 2), turn, 2)};
    rlx_value_id y = ox_transpose(o, ox_node(o, RLX_OP_SCATTER_ND, &add, inputs, 3), turn, 2);
    int64_t dims[RLX_MAX_RANK] = {n, c};
    memcpy(dims + 2, self.padded, self.image.count * sizeof *dims);
    y = ox_reshape(o, y, dims, self.image.count + 2);
    for (uint32_t i = 0; i < self.image.count; i++) {
        int64_t first = item_or(&self.pads, i, 0);
        if (self.padded[i] != self.image.items[i])
            y = ox_slice(o, y, i + 2, first, first + self.image.items[i], 1);
    }
    ox_give(o, 0, y);
}
