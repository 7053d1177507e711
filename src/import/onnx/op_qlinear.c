/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised ops of com.microsoft. Each is what it says: dequantise, the op, quantise; the compiler
 * joins them with the convolution before them, or into one step. Products of bytes are exact. */
#include "import/onnx/quant.h"

#include <string.h>

/* Inputs `first` .. `first` + 2: bytes, scale, perhaps a zero point. */
static rlx_value_id dequantized_input(ox *o, uint32_t first) {
    return ox_dequantized(o, ox_in(o, first), ox_in(o, first + 1), ox_maybe(o, first + 2), 1);
}

/* Quantises with the scale in input `first` and the zero point behind it, to the dtype of `like`.
 */
static void give_quantized(ox *o, rlx_value_id y, uint32_t first, rlx_value_id like) {
    rlx_value_id scale = ox_in(o, first), zero = ox_maybe(o, first + 1);
    ox_give(o, 0, ox_quantized(o, y, scale, zero, 1, ox_dtype(o, like)));
}

void rlx_ox_qlinear_binary(ox *o) {
    rlx_value_id a = dequantized_input(o, 0), b = dequantized_input(o, 3);
    give_quantized(o, ox_binary(o, o->op, a, b), 6, ox_in(o, 0));
}

void rlx_ox_qlinear_unary(ox *o) {
    const rlx_unary_attrs attrs = {ox_float(o, "alpha", 0.01F), 0};
    rlx_value_id x = dequantized_input(o, 0);
    give_quantized(o, ox_node(o, o->op, &attrs, &x, 1), 3, ox_in(o, 0));
}

void rlx_ox_qlinear_where(ox *o) {
    rlx_value_id a = dequantized_input(o, 1), b = dequantized_input(o, 4);
    give_quantized(o, ox_where(o, ox_in(o, 0), a, b), 7, ox_in(o, 1));
}

/* Before opset 13 the axes from `axis` on were one. */
void rlx_ox_qlinear_softmax(ox *o) {
    int64_t opset = ox_int(o, "opset", 13);
    const rlx_axis_attrs attrs = {ox_int(o, "axis", opset < 13 ? 1 : -1)};
    rlx_value_id x = dequantized_input(o, 0), y = x;
    uint32_t rank = ox_rank(o, x), axis = ox_axis(o, attrs.axis, rank);
    if (!ox_ok(o)) return;
    if (opset < 13) {
        const rlx_axis_attrs rows = {axis}, last = {1};
        y = ox_node(o, RLX_OP_FLATTEN, &rows, &x, 1);
        y = ox_node(o, RLX_OP_SOFTMAX, &last, &y, 1);
        y = ox_reshape_like(o, y, x);
    } else {
        y = ox_node(o, RLX_OP_SOFTMAX, &attrs, &x, 1);
    }
    give_quantized(o, y, 3, ox_in(o, 0));
}

static bool is_same_number(ox *o, rlx_value_id a, rlx_value_id b) {
    if (a == b) return true;
    if (a == RLX_NONE || b == RLX_NONE || !ox_is_constant(o, a) || !ox_is_constant(o, b))
        return false;
    if (ox_elements(o, a) != 1 || ox_elements(o, b) != 1) return false;
    return ox_need_double(o, a) == ox_need_double(o, b);
}

/* Parts that are quantised as the result is stay as they are. */
void rlx_ox_qlinear_concat(ox *o) {
    rlx_value_id scale = ox_in(o, 0), zero = ox_in(o, 1);
    uint32_t count = o->in_count < 2 ? 0 : (o->in_count - 2) / 3;
    rlx_value_id *parts = ox_memory(o, count, sizeof *parts);
    const rlx_onnx_attr *axis = ox_attr(o, "axis");
    if (ox_ok(o) && (count == 0 || o->in_count != 2 + 3 * count))
        ox_invalid(o, "%u inputs are no list of bytes, scales and zero points", o->in_count);
    if (axis == NULL) ox_invalid(o, "axis is missing");
    for (uint32_t i = 0; i < count && ox_ok(o); i++) {
        uint32_t at = 2 + 3 * i;
        parts[i] = ox_in(o, at);
        if (is_same_number(o, ox_in(o, at + 1), scale) && is_same_number(o, ox_in(o, at + 2), zero))
            continue;
        parts[i] = ox_quantized(o, dequantized_input(o, at), scale, zero, 1, ox_dtype(o, parts[i]));
    }
    if (ox_ok(o)) ox_give(o, 0, ox_concat(o, parts, count, ox_int(o, "axis", 0)));
}

/* The mean of the bytes less the zero point: the same, and a smaller tensor to scale. */
static void give_mean(ox *o, rlx_value_id mean, bool is_last) {
    rlx_value_id zero = ox_maybe(o, 2);
    if (zero != RLX_NONE) {
        zero = ox_cast(o, ox_reshape(o, zero, NULL, 0), RLX_DTYPE_F32);
        mean = ox_binary(o, RLX_OP_SUB, mean, zero);
    }
    mean = ox_binary(o, RLX_OP_MUL, mean, ox_reshape(o, ox_in(o, 1), NULL, 0));
    if (is_last) mean = ox_channels_last(o, mean);
    give_quantized(o, mean, 3, ox_in(o, 0));
}

void rlx_ox_qlinear_global_pool(ox *o) {
    rlx_pool_attrs attrs = {0};
    bool is_last = ox_int(o, "channels_last", 0) != 0;
    rlx_value_id x = ox_cast(o, ox_in(o, 0), RLX_DTYPE_F32);
    if (is_last) x = ox_channels_first(o, x);
    uint32_t rank = ox_rank(o, x);
    if (ox_ok(o) && rank < 3) ox_invalid(o, "it needs a spatial axis");
    if (!ox_ok(o)) return;
    attrs.kernel.count = rank - 2;
    for (uint32_t i = 2; i < rank; i++)
        attrs.kernel.items[i - 2] = ox_dim(o, x, i);
    give_mean(o, ox_node(o, RLX_OP_AVERAGE_POOL, &attrs, &x, 1), is_last);
}

void rlx_ox_qlinear_mean(ox *o) {
    rlx_ints axes = {0};
    rlx_value_id x = ox_cast(o, ox_in(o, 0), RLX_DTYPE_F32);
    ox_ints(o, "axes", &axes);
    x = ox_reduce(o, RLX_OP_REDUCE_MEAN, x, axes.items, axes.count, ox_int(o, "keepdims", 1) != 0);
    give_mean(o, x, false);
}

/* Padding is the number 0, which is the zero point among the bytes: these are dequantised first. */
void rlx_ox_qlinear_pool(ox *o) {
    rlx_pool_attrs attrs = {0};
    bool is_last = ox_int(o, "channels_last", 0) != 0;
    rlx_value_id x = dequantized_input(o, 0);
    ox_pool_attrs(o, &attrs);
    if (is_last) x = ox_channels_first(o, x);
    x = ox_node(o, RLX_OP_AVERAGE_POOL, &attrs, &x, 1);
    give_quantized(o, is_last ? ox_channels_last(o, x) : x, 3, ox_in(o, 0));
}

static rlx_value_id transposed(ox *o, rlx_value_id x) {
    static const int64_t perm[] = {1, 0};
    return ox_transpose(o, x, perm, 2);
}

/* The last axis of a product has a scale, or the product has one. */
static rlx_value_id product_scale(ox *o, rlx_value_id a_scale, rlx_value_id b_scale) {
    return ox_binary(o, RLX_OP_MUL, ox_cast(o, a_scale, RLX_DTYPE_F32),
                     ox_cast(o, b_scale, RLX_DTYPE_F32));
}

void rlx_ox_qgemm(ox *o) {
    rlx_value_id a = ox_in(o, 0), b = ox_in(o, 3), c = ox_maybe(o, 6), y_scale = ox_maybe(o, 7);
    rlx_value_id y_zero = ox_maybe(o, 8);
    if (ox_ok(o) && (ox_rank(o, a) != 2 || ox_rank(o, b) != 2))
        ox_invalid(o, "it multiplies matrices");
    if (ox_int(o, "transA", 0) != 0) a = transposed(o, a);
    if (ox_int(o, "transB", 0) != 0) b = transposed(o, b);
    rlx_value_id sum = ox_integer_product(o, a, ox_maybe(o, 2), b, ox_maybe(o, 5));
    if (c != RLX_NONE) sum = ox_binary(o, RLX_OP_ADD, sum, c);
    rlx_value_id scale = product_scale(o, ox_reshape(o, ox_in(o, 1), NULL, 0), ox_in(o, 4));
    scale = ox_scaled(o, scale, ox_float(o, "alpha", 1));
    if (!ox_ok(o)) return;
    if (y_scale == RLX_NONE) {
        ox_give(o, 0, ox_binary(o, RLX_OP_MUL, ox_cast(o, sum, RLX_DTYPE_F32), scale));
        return;
    }
    if (y_zero == RLX_NONE) y_zero = ox_scalar(o, ox_dtype(o, a), 0);
    y_zero = ox_reshape(o, y_zero, NULL, 0);
    ox_give(o, 0, ox_requantized(o, sum, scale, ox_reshape(o, y_scale, NULL, 0), y_zero));
}

/* A product of bytes times the scales, plus a bias. */
static void give_float_product(ox *o, const ox_quantised *a, rlx_value_id b, rlx_value_id b_scale,
                               rlx_value_id b_zero, rlx_value_id bias) {
    rlx_value_id sum = ox_integer_product(o, a->bytes, a->zero, b, b_zero);
    rlx_value_id scale = product_scale(o, a->scale, b_scale);
    rlx_value_id y = ox_binary(o, RLX_OP_MUL, ox_cast(o, sum, RLX_DTYPE_F32), scale);
    if (bias != RLX_NONE) y = ox_binary(o, RLX_OP_ADD, y, ox_cast(o, bias, RLX_DTYPE_F32));
    ox_give(o, 0, y);
}

void rlx_ox_matmul_integer_to_float(ox *o) {
    rlx_value_id b = ox_in(o, 1);
    const ox_quantised a = {ox_in(o, 0), ox_in(o, 2), ox_maybe(o, 4)};
    if (ox_ok(o) && ox_elements(o, a.scale) != 1) ox_unsupported(o, "a scale per row of input 0");
    give_float_product(o, &a, b, ox_in(o, 3), ox_maybe(o, 5), ox_maybe(o, 6));
}

void rlx_ox_dynamic_quantize_matmul(ox *o) {
    rlx_value_id b = ox_in(o, 1);
    const ox_quantised a = ox_quantise(o, ox_in(o, 0));
    give_float_product(o, &a, b, ox_in(o, 2), ox_maybe(o, 3), ox_maybe(o, 4));
}

/* Weights [D][in][4 H] of bytes, with a scale per direction or per output, as ONNX has them. */
static rlx_value_id lstm_weights(ox *o, uint32_t weights, uint32_t scale_input) {
    static const int64_t perm[] = {0, 2, 1};
    rlx_value_id w = ox_in(o, weights), scale = ox_in(o, scale_input);
    rlx_value_id zero = ox_maybe(o, scale_input + 1);
    if (ox_ok(o) && ox_rank(o, w) != 3)
        ox_invalid(o, "input %u has rank %u", weights, ox_rank(o, w));
    if (!ox_ok(o)) return RLX_NONE;
    int64_t outputs = ox_rank(o, scale) == 2 ? ox_dim(o, scale, 1) : 1;
    const int64_t dims[] = {ox_dim(o, scale, 0), 1, outputs};
    rlx_value_id y = ox_cast(o, w, RLX_DTYPE_F32);
    if (zero != RLX_NONE) {
        zero = ox_cast(o, zero, RLX_DTYPE_F32);
        if (ox_elements(o, zero) != 1) zero = ox_reshape(o, zero, dims, 3);
        y = ox_binary(o, RLX_OP_SUB, y, zero);
    }
    y = ox_binary(o, RLX_OP_MUL, y, ox_reshape(o, scale, dims, 3));
    return ox_transpose(o, y, perm, 3);
}

/* Only the weights are bytes: inputs and states stay floats, which is more exact than asked for. */
void rlx_ox_dynamic_quantize_lstm(ox *o) {
    rlx_value_id in[8] = {ox_in(o, 0), lstm_weights(o, 1, 8), lstm_weights(o, 2, 10)};
    for (uint32_t i = 3; i < 8; i++)
        in[i] = ox_maybe(o, i);
    if (ox_ok(o)) ox_recurrent(o, in);
}
