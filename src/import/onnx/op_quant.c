/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised ops as integer and float formulae. Sums of products of 8-bit numbers are exact: as i32,
 * or as floats where they fit. */
#include "import/onnx/quant.h"

#include <string.h>

/* A scale or zero point: one number, one per element of an axis, or of a shape that fits x. */
static rlx_value_id along(ox *o, rlx_value_id x, rlx_value_id parameter, int64_t axis) {
    int64_t dims[RLX_MAX_RANK];
    uint32_t rank = ox_rank(o, x);
    if (!ox_ok(o) || parameter == RLX_NONE) return parameter;
    if (ox_rank(o, parameter) == 0) return parameter;
    if (ox_rank(o, parameter) != 1) {
        if (ox_rank(o, parameter) == rank) return parameter;
        ox_unsupported(o, "scales of rank %u for data of rank %u", ox_rank(o, parameter), rank);
        return RLX_NONE;
    }
    if (ox_dim(o, parameter, 0) == 1) return ox_reshape(o, parameter, NULL, 0);
    uint32_t at = ox_axis(o, axis, rank);
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i == at ? ox_dim(o, parameter, 0) : 1;
    return ox_reshape(o, parameter, dims, rank);
}

/* Bytes as numbers. Weights stay bytes: a node on them is not folded here, so that the compiler
 * sees that they were quantised. */
static rlx_value_id widened(ox *o, rlx_value_id x, rlx_dtype dtype) {
    const rlx_cast_attrs attrs = {.to = dtype};
    rlx_value_id value = RLX_NONE;
    rlx_dtype from = ox_dtype(o, x);
    if (!ox_is_constant(o, x) || ox_rank(o, x) < 2 ||
        (from != RLX_DTYPE_U8 && from != RLX_DTYPE_I8)) {
        return ox_cast(o, x, dtype);
    }
    if (ox_ok(o)) ox_fail(o, rlx_graph_add_node(o->graph, RLX_OP_CAST, &attrs, &x, 1, 1, &value));
    return value;
}

static void range_of(ox *o, rlx_dtype dtype, double *least, double *most) {
    switch (dtype) {
    case RLX_DTYPE_U8:
        *least = 0;
        *most = 255;
        return;
    case RLX_DTYPE_I8:
        *least = -128;
        *most = 127;
        return;
    case RLX_DTYPE_U16:
        *least = 0;
        *most = 65535;
        return;
    case RLX_DTYPE_I16:
        *least = -32768;
        *most = 32767;
        return;
    case RLX_DTYPE_U4:
        *least = 0;
        *most = 15;
        return;
    case RLX_DTYPE_I4:
        *least = -8;
        *most = 7;
        return;
    default:
        ox_unsupported(o, "quantised to %s", rlx_dtype_name(dtype));
        *least = *most = 0;
    }
}

/* clip(round(x) + zero), in f32, as `dtype`. */
static rlx_value_id saturate(ox *o, rlx_value_id x, rlx_value_id zero, rlx_dtype dtype) {
    rlx_unary_attrs range = {0};
    range_of(o, dtype, &range.alpha, &range.beta);
    x = ox_unary(o, RLX_OP_ROUND, x);
    if (zero != RLX_NONE) x = ox_binary(o, RLX_OP_ADD, x, ox_cast(o, zero, ox_dtype(o, x)));
    x = ox_node(o, RLX_OP_CLIP, &range, &x, 1);
    return ox_cast(o, x, dtype);
}

rlx_value_id ox_quantized(ox *o, rlx_value_id x, rlx_value_id scale, rlx_value_id zero,
                          int64_t axis, rlx_dtype dtype) {
    scale = along(o, x, scale, axis);
    zero = along(o, x, zero, axis);
    if (ox_ok(o) && !ox_is_float(o, x)) x = ox_cast(o, x, RLX_DTYPE_F32);
    if (ox_ok(o) && ox_dtype(o, scale) != ox_dtype(o, x)) {
        x = ox_cast(o, x, RLX_DTYPE_F32);
        scale = ox_cast(o, scale, RLX_DTYPE_F32);
    }
    x = ox_binary(o, RLX_OP_DIV, x, scale);
    return saturate(o, ox_cast(o, x, RLX_DTYPE_F32), zero, dtype);
}

/* Blocks along an axis (version 21): x with an axis of its own for the places in a block, filled up
 * with zeros, and scales or zero points with 1 there. */
typedef struct blocks {
    uint32_t axis;
    int64_t size, count; /* of a block; of blocks */
} blocks;

static rlx_value_id in_blocks(ox *o, rlx_value_id x, const blocks *by, int64_t size) {
    int64_t dims[RLX_MAX_RANK];
    uint32_t at = by->axis;
    if (!ox_ok(o) || x == RLX_NONE) return RLX_NONE;
    uint32_t rank = ox_rank(o, x);
    if (rank <= at || ox_dim(o, x, at) > ox_times(o, by->count, size))
        ox_invalid(o, "zero points are not as many as scales");
    if (!ox_ok(o)) return RLX_NONE;
    rlx_pad_attrs more = {.pads = {.count = 2 * rank}};
    more.pads.items[rank + at] = ox_times(o, by->count, size) - ox_dim(o, x, at);
    if (more.pads.items[rank + at] != 0) x = ox_node(o, RLX_OP_PAD, &more, &x, 1);
    for (uint32_t i = 0; i < rank; i++)
        dims[i < at ? i : i + 1] = ox_dim(o, x, i);
    dims[at] = by->count;
    dims[at + 1] = size;
    return ox_reshape(o, x, dims, rank + 1);
}

static rlx_value_id out_of_blocks(ox *o, rlx_value_id y, const blocks *by, rlx_value_id like) {
    int64_t dims[RLX_MAX_RANK];
    if (!ox_ok(o)) return RLX_NONE;
    rlx_type type = ox_type(o, like);
    memcpy(dims, type.shape.dims, sizeof dims);
    dims[by->axis] = ox_times(o, by->count, by->size);
    y = ox_reshape(o, y, dims, type.shape.rank);
    if (dims[by->axis] == type.shape.dims[by->axis]) return y;
    return ox_slice(o, y, by->axis, 0, type.shape.dims[by->axis], 1);
}

/* False: the node has no blocks, or they do not fit. */
static bool read_blocks(ox *o, rlx_value_id x, rlx_value_id scale, int64_t axis, blocks *out) {
    int64_t size = ox_int(o, "block_size", 0);
    if (size == 0 || !ox_ok(o)) return false;
    uint32_t rank = ox_rank(o, x);
    *out = (blocks){.axis = ox_axis(o, axis, rank), .size = size};
    if (ox_ok(o) && (size < 0 || ox_rank(o, scale) != rank))
        ox_invalid(o, "blocks of %" PRId64 " with scales of rank %u", size, ox_rank(o, scale));
    if (ox_ok(o) && rank == RLX_MAX_RANK) ox_unsupported(o, "blocks of %u axes", rank);
    if (!ox_ok(o)) return false;
    int64_t dim = ox_dim(o, x, out->axis);
    out->count = dim / size + (dim % size != 0);
    if (ox_dim(o, scale, out->axis) != out->count)
        ox_invalid(o, "%" PRId64 " scales along an axis of %" PRId64 " blocks",
                   ox_dim(o, scale, out->axis), out->count);
    return ox_ok(o);
}

void rlx_ox_quantize(ox *o) {
    rlx_value_id x = ox_in(o, 0), scale = ox_in(o, 1), zero = ox_maybe(o, 2);
    int64_t axis = ox_int(o, "axis", 1);
    rlx_dtype dtype = zero == RLX_NONE ? RLX_DTYPE_U8 : ox_dtype(o, zero);
    if (zero == RLX_NONE && ox_int(o, "output_dtype", 0) != 0)
        rlx_onnx_dtype(ox_int(o, "output_dtype", 0), &dtype);
    blocks by;
    if (read_blocks(o, x, scale, axis, &by)) {
        rlx_value_id y = ox_quantized(o, in_blocks(o, x, &by, by.size), in_blocks(o, scale, &by, 1),
                                      in_blocks(o, zero, &by, 1), axis, dtype);
        ox_give(o, 0, out_of_blocks(o, y, &by, x));
        return;
    }
    ox_give(o, 0, ox_quantized(o, x, scale, zero, axis, dtype));
}

rlx_value_id ox_dequantized(ox *o, rlx_value_id x, rlx_value_id scale, rlx_value_id zero,
                            int64_t axis) {
    rlx_dtype dtype = ox_dtype(o, scale);
    bool is_wide = ox_dtype(o, x) == RLX_DTYPE_I32; /* biases: more digits than f32 has */
    scale = along(o, x, scale, axis);
    zero = along(o, x, zero, axis);
    if (is_wide && zero != RLX_NONE) {
        x = ox_binary(o, RLX_OP_SUB, x, zero);
        zero = RLX_NONE;
    }
    rlx_value_id y = widened(o, x, RLX_DTYPE_F32);
    if (zero != RLX_NONE) y = ox_binary(o, RLX_OP_SUB, y, ox_cast(o, zero, RLX_DTYPE_F32));
    y = ox_binary(o, RLX_OP_MUL, y, ox_cast(o, scale, RLX_DTYPE_F32));
    return ox_cast(o, y, dtype);
}

void rlx_ox_dequantize(ox *o) {
    rlx_value_id x = ox_in(o, 0), scale = ox_in(o, 1), zero = ox_maybe(o, 2);
    int64_t axis = ox_int(o, "axis", 1);
    blocks by;
    if (read_blocks(o, x, scale, axis, &by)) {
        rlx_value_id y =
            ox_dequantized(o, in_blocks(o, x, &by, by.size), in_blocks(o, scale, &by, 1),
                           in_blocks(o, zero, &by, 1), axis);
        ox_give(o, 0, out_of_blocks(o, y, &by, x));
        return;
    }
    ox_give(o, 0, ox_dequantized(o, x, scale, zero, axis));
}

/* Scale and zero point from the range of the data, which always holds 0. */
ox_quantised ox_quantise(ox *o, rlx_value_id x) {
    rlx_value_id zero = ox_scalar(o, RLX_DTYPE_F32, 0);
    rlx_value_id steps = ox_scalar(o, RLX_DTYPE_F32, 255);
    rlx_value_id most =
        ox_binary(o, RLX_OP_MAX, ox_reduce(o, RLX_OP_REDUCE_MAX, x, NULL, 0, false), zero);
    rlx_value_id least =
        ox_binary(o, RLX_OP_MIN, ox_reduce(o, RLX_OP_REDUCE_MIN, x, NULL, 0, false), zero);
    rlx_value_id scale = ox_binary(o, RLX_OP_DIV, ox_binary(o, RLX_OP_SUB, most, least), steps);
    rlx_value_id first = ox_binary(o, RLX_OP_SUB, zero, ox_binary(o, RLX_OP_DIV, least, scale));
    const rlx_unary_attrs range = {0, 255};
    first = ox_node(o, RLX_OP_CLIP, &range, &first, 1);
    rlx_value_id point = ox_cast(o, ox_unary(o, RLX_OP_ROUND, first), RLX_DTYPE_U8);
    x = saturate(o, ox_binary(o, RLX_OP_DIV, x, scale), point, RLX_DTYPE_U8);
    return (ox_quantised){x, scale, point};
}

void rlx_ox_dynamic_quantize(ox *o) {
    ox_quantised made = ox_quantise(o, ox_in(o, 0));
    ox_give(o, 0, made.bytes);
    ox_give(o, 1, made.scale);
    ox_give(o, 2, made.zero);
}

/* An 8-bit operand minus its zero point, as i32. `axis` is where a vector of zero points goes. */
static rlx_value_id centred(ox *o, rlx_value_id x, rlx_value_id zero, int64_t axis,
                            rlx_dtype dtype) {
    rlx_value_id wide = widened(o, x, dtype);
    if (zero == RLX_NONE) return wide;
    return ox_binary(o, RLX_OP_SUB, wide, ox_cast(o, along(o, x, zero, axis), dtype));
}

/* Every one of them: quantisers write a zero point per column, all of them 0. */
static bool is_zero(ox *o, rlx_value_id zero) {
    double *items;
    uint32_t count;
    if (zero == RLX_NONE) return true;
    if (!ox_is_constant(o, zero) || !ox_need_doubles(o, zero, &items, &count)) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (items[i] != 0) return false;
    }
    return true;
}

/* zero (the sum of x along the axis -1 - `back`), as i32: what the other operand's zero point adds
 * to a product of bytes. Sums of so few bytes are exact in f32. */
static rlx_value_id zero_times_sum(ox *o, rlx_value_id zero, rlx_value_id x, uint32_t back) {
    const int64_t axis = -1 - (int64_t)back;
    bool is_short = ox_ok(o) && ox_dim(o, x, ox_rank(o, x) - 1 - back) <= 65536;
    rlx_value_id wide = widened(o, x, is_short ? RLX_DTYPE_F32 : RLX_DTYPE_I32);
    rlx_value_id sum = ox_reduce(o, RLX_OP_REDUCE_SUM, wide, &axis, 1, true);
    return ox_binary(o, RLX_OP_MUL, ox_cast(o, sum, RLX_DTYPE_I32),
                     ox_cast(o, zero, RLX_DTYPE_I32));
}

/* sum (a - a_zero)(b - b_zero) as i32: the product of the bytes, less what the zero points add. All
 * of it modulo 2^32, as the result is. */
rlx_value_id ox_integer_product(ox *o, rlx_value_id a, rlx_value_id a_zero, rlx_value_id b,
                                rlx_value_id b_zero) {
    const rlx_matmul_attrs attrs = {.to = RLX_DTYPE_I32, .has_to = true};
    const rlx_value_id inputs[] = {a, b};
    bool has_a = !is_zero(o, a_zero), has_b = !is_zero(o, b_zero);
    if (!ox_ok(o)) return RLX_NONE;
    if ((has_a || has_b) && (ox_rank(o, a) < 2 || ox_rank(o, b) < 2))
        return ox_matmul(o, centred(o, a, a_zero, -2, RLX_DTYPE_I32),
                         centred(o, b, b_zero, -1, RLX_DTYPE_I32));
    rlx_value_id y = ox_node(o, RLX_OP_MATMUL, &attrs, inputs, 2);
    int64_t depth = ox_ok(o) ? ox_dim(o, a, ox_rank(o, a) - 1) : 0;
    a_zero = along(o, a, a_zero, -2);
    b_zero = along(o, b, b_zero, -1);
    if (has_b) y = ox_binary(o, RLX_OP_SUB, y, zero_times_sum(o, b_zero, a, 0));
    if (has_a) y = ox_binary(o, RLX_OP_SUB, y, zero_times_sum(o, a_zero, b, 1));
    if (!has_a || !has_b) return y;
    rlx_value_id zeros = ox_binary(o, RLX_OP_MUL, ox_cast(o, a_zero, RLX_DTYPE_I32),
                                   ox_cast(o, b_zero, RLX_DTYPE_I32));
    rlx_value_id count = ox_scalar(o, RLX_DTYPE_I32, (double)depth);
    return ox_binary(o, RLX_OP_ADD, y, ox_binary(o, RLX_OP_MUL, zeros, count));
}

void rlx_ox_matmul_integer(ox *o) {
    ox_give(o, 0, ox_integer_product(o, ox_in(o, 0), ox_maybe(o, 2), ox_in(o, 1), ox_maybe(o, 3)));
}

/* An exact sum times the scales, saturated: the end of both QLinear ops. */
rlx_value_id ox_requantized(ox *o, rlx_value_id sum, rlx_value_id scale, rlx_value_id y_scale,
                            rlx_value_id y_zero) {
    rlx_value_id ratio = ox_binary(o, RLX_OP_DIV, scale, y_scale);
    sum = ox_binary(o, RLX_OP_MUL, ox_cast(o, sum, RLX_DTYPE_F32), ratio);
    return saturate(o, sum, y_zero, ox_dtype(o, y_zero));
}

void rlx_ox_qlinear_matmul(ox *o) {
    rlx_value_id in[8];
    for (uint32_t i = 0; i < 8; i++)
        in[i] = ox_in(o, i);
    rlx_value_id a_scale = along(o, in[0], in[1], -2), b_scale = along(o, in[3], in[4], -1);
    rlx_value_id sum = ox_integer_product(o, in[0], in[2], in[3], in[5]);
    rlx_value_id scale = ox_binary(o, RLX_OP_MUL, ox_cast(o, a_scale, RLX_DTYPE_F32),
                                   ox_cast(o, b_scale, RLX_DTYPE_F32));
    rlx_value_id y_scale = ox_cast(o, along(o, sum, in[6], -2), RLX_DTYPE_F32);
    rlx_value_id y_zero = along(o, sum, in[7], -2);
    ox_give(o, 0, ox_requantized(o, sum, scale, y_scale, y_zero));
}

/* A convolution of integers in floats: f32 while every sum is below 2^24, else f64. */
static rlx_value_id integer_conv(ox *o, rlx_value_id x, rlx_value_id x_zero, rlx_value_id w,
                                 rlx_value_id w_zero, rlx_value_id bias) {
    rlx_conv_attrs attrs = {0};
    rlx_ints kernel = {0};
    int64_t rows = ox_dim(o, w, 0);
    if (!ox_ok(o)) return RLX_NONE;
    int64_t terms = rows == 0 ? 0 : ox_elements(o, w) / rows;
    rlx_dtype dtype = bias == RLX_NONE && terms <= 256 ? RLX_DTYPE_F32 : RLX_DTYPE_F64;
    const char *mode = ox_text(o, "auto_pad", "NOTSET");
    attrs.auto_pad = mode[0] == 'V'   ? RLX_AUTO_PAD_VALID
                     : mode[0] == 'N' ? RLX_AUTO_PAD_EXPLICIT
                     : mode[5] == 'U' ? RLX_AUTO_PAD_SAME_UPPER
                                      : RLX_AUTO_PAD_SAME_LOWER;
    ox_ints(o, "strides", &attrs.strides);
    ox_ints(o, "dilations", &attrs.dilations);
    ox_ints(o, "pads", &attrs.pads);
    ox_ints(o, "kernel_shape", &kernel);
    attrs.groups = ox_int(o, "group", 1);
    const rlx_value_id inputs[] = {centred(o, x, x_zero, 1, dtype), centred(o, w, w_zero, 0, dtype),
                                   bias == RLX_NONE ? RLX_NONE : ox_cast(o, bias, dtype)};
    rlx_value_id y = ox_node(o, RLX_OP_CONV, &attrs, inputs, bias == RLX_NONE ? 2 : 3);
    return ox_cast(o, y, RLX_DTYPE_I32);
}

void rlx_ox_conv_integer(ox *o) {
    ox_give(o, 0,
            integer_conv(o, ox_in(o, 0), ox_maybe(o, 2), ox_in(o, 1), ox_maybe(o, 3), RLX_NONE));
}

void rlx_ox_qlinear_conv(ox *o) {
    rlx_value_id in[8];
    for (uint32_t i = 0; i < 8; i++)
        in[i] = ox_in(o, i);
    bool is_last = ox_int(o, "channels_last", 0) != 0; /* com.microsoft */
    if (is_last) in[0] = ox_channels_first(o, in[0]);
    rlx_value_id sum = integer_conv(o, in[0], in[2], in[3], in[5], ox_maybe(o, 8));
    rlx_value_id scale = ox_binary(o, RLX_OP_MUL, along(o, sum, in[1], 1), along(o, sum, in[4], 1));
    rlx_value_id y =
        ox_requantized(o, sum, scale, along(o, sum, in[6], 1), along(o, sum, in[7], 1));
    ox_give(o, 0, is_last ? ox_channels_last(o, y) : y);
}
