/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of matmul, the convolutions and the pools. */
#include "ir/dtype.h"
#include "ir/infer/check.h"
#include "ir/layout.h"
#include "ir/window.h"

#include "base/size.h"

enum { TEXT_BYTES = 128 };

/* Which operand dtypes go together, and what comes out. */
static rlx_status float_matmul_dtype(const rlx_infer *infer, const rlx_matmul_attrs *attrs,
                                     rlx_dtype *out_dtype) {
    rlx_dtype a = infer->in[0]->dtype, b = infer->in[1]->dtype;
    rlx_dtype to = attrs->has_to ? attrs->to : a;
    bool is_wide = a == RLX_DTYPE_F64;
    bool b_is_narrow = (rlx_dtype_is_float(b) && b != RLX_DTYPE_F64) ||
                       rlx_dtype_row_of(b)->class_ == RLX_CLASS_BLOCK;
    if (is_wide ? b != RLX_DTYPE_F64 : !b_is_narrow) {
        return RLX_FAIL(RLX_UNSUPPORTED, "matmul of %s and %s", rlx_dtype_name(a),
                        rlx_dtype_name(b));
    }
    if (!rlx_dtype_is_float(to) || is_wide != (to == RLX_DTYPE_F64)) {
        return RLX_FAIL(RLX_UNSUPPORTED, "matmul of %s and %s to %s", rlx_dtype_name(a),
                        rlx_dtype_name(b), rlx_dtype_name(to));
    }
    *out_dtype = to;
    return RLX_OK;
}

static bool is_byte(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_I8 || dtype == RLX_DTYPE_U8;
}

static rlx_status integer_matmul_dtype(const rlx_infer *infer, const rlx_matmul_attrs *attrs,
                                       rlx_dtype *out_dtype) {
    rlx_dtype a = infer->in[0]->dtype, b = infer->in[1]->dtype;
    rlx_dtype to = attrs->has_to ? attrs->to : a;
    bool is_pair = a == b || (is_byte(a) && is_byte(b) && attrs->has_to);
    bool is_wide = rlx_dtype_is_integer(to) && rlx_dtype_block_bytes(to) >= 4;
    if (!rlx_dtype_is_integer(a) || rlx_dtype_block_elements(a) != 1 || !is_pair ||
        (to != a && !is_wide)) {
        return RLX_FAIL(RLX_UNSUPPORTED, "matmul of %s and %s to %s", rlx_dtype_name(a),
                        rlx_dtype_name(b), rlx_dtype_name(to));
    }
    if (attrs->alpha != 0 && attrs->alpha != 1) {
        return RLX_FAIL(RLX_UNSUPPORTED, "alpha is %g in a matmul of integers", attrs->alpha);
    }
    *out_dtype = to;
    return RLX_OK;
}

/* 8-bit operands to numbers, or to 8 bits again. */
static rlx_status quantised_matmul_dtype(const rlx_infer *infer, const rlx_matmul_attrs *attrs,
                                         rlx_dtype *out_dtype) {
    rlx_dtype a = infer->in[0]->dtype, b = infer->in[1]->dtype;
    rlx_dtype to = attrs->has_to ? attrs->to : RLX_DTYPE_F32;
    int64_t least = to == RLX_DTYPE_I8 ? -128 : 0;
    int64_t most = to == RLX_DTYPE_F32 ? 0 : least + 255;
    if (!is_byte(a) || !is_byte(b) || (to != RLX_DTYPE_F32 && !is_byte(to))) {
        return RLX_FAIL(RLX_UNSUPPORTED, "matmul_quantised of %s and %s to %s", rlx_dtype_name(a),
                        rlx_dtype_name(b), rlx_dtype_name(to));
    }
    if ((attrs->alpha != 0 && attrs->alpha != 1) || attrs->zero < least || attrs->zero > most) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "matmul_quantised to %s with alpha %g and zero %" PRId64,
                        rlx_dtype_name(to), attrs->alpha, attrs->zero);
    }
    *out_dtype = to;
    return RLX_OK;
}

static rlx_status matmul_dtype(const rlx_infer *infer, const rlx_matmul_attrs *attrs,
                               rlx_dtype *out_dtype) {
    if (infer->op == RLX_OP_MATMUL_QUANTISED)
        return quantised_matmul_dtype(infer, attrs, out_dtype);
    if (attrs->zero != 0) return RLX_FAIL(RLX_INVALID_GRAPH, "zero is %" PRId64, attrs->zero);
    return rlx_dtype_is_float(infer->in[0]->dtype) ? float_matmul_dtype(infer, attrs, out_dtype)
                                                   : integer_matmul_dtype(infer, attrs, out_dtype);
}

/* bias, residual and, of matmul_quantised, scale and offset. */
static rlx_status check_addends(const rlx_infer *infer, const rlx_matmul_attrs *attrs,
                                const rlx_type *out) {
    static const char *const names[] = {NULL, NULL, "bias", "residual", "scale", "offset"};
    bool is_quantised = infer->op == RLX_OP_MATMUL_QUANTISED;
    rlx_dtype dtype = is_quantised ? RLX_DTYPE_F32 : out->dtype;
    bool takes_f32 = rlx_dtype_is_float(dtype) && dtype != RLX_DTYPE_F64;
    if (attrs->gated && !rlx_infer_has(infer, 3))
        return RLX_FAIL(RLX_INVALID_GRAPH, "a gated matmul without a residual");
    for (uint32_t i = 2; i < infer->in_count; i++) {
        RLX_TRY(rlx_check_dtype(infer, i, names[i], i == 5 ? RLX_DTYPE_I32 : dtype,
                                i == 2 && takes_f32));
        RLX_TRY(rlx_check_broadcasts_to(infer, i, names[i], out));
    }
    return rlx_check_activation(&attrs->activation, dtype);
}

static rlx_status check_blocks(const rlx_infer *infer, const rlx_matmul_attrs *attrs) {
    const rlx_type *b = infer->in[1];
    uint32_t block = rlx_dtype_block_elements(b->dtype);
    if (block == 1) return RLX_OK;
    if (b->shape.rank > 1 && !attrs->transpose_b) {
        return RLX_FAIL(RLX_UNSUPPORTED,
                        "b is %s: its blocks must run along k, which needs transpose_b",
                        rlx_dtype_name(b->dtype));
    }
    if (b->shape.dims[b->shape.rank - 1] % block != 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "k is %" PRId64 ", needs a multiple of %u for %s",
                        b->shape.dims[b->shape.rank - 1], block, rlx_dtype_name(b->dtype));
    }
    return rlx_infer_no_extent(infer, 1);
}

/* Panels run along n: over columns, or over rows of a transposed b. */
static rlx_status check_panels(const rlx_infer *infer, const rlx_matmul_attrs *attrs) {
    rlx_layout layout = infer->in[1]->layout;
    if (layout == RLX_LAYOUT_PLAIN) return RLX_OK;
    bool is_rows = layout >= RLX_LAYOUT_ROWS16 && layout <= RLX_LAYOUT_ROWS32X4;
    if (is_rows == attrs->transpose_b) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "b in layout %s with transpose_b %s",
                    rlx_layout_name(layout), attrs->transpose_b ? "true" : "false");
}

/* The axes of an operand: `outer` is m or n, absent (UINT32_MAX) in a vector. */
typedef struct operand_axes {
    uint32_t outer, inner;
} operand_axes;

static rlx_status find_axes(const rlx_type *type, const char *name, bool inner_is_last,
                            bool transpose, operand_axes *out_axes) {
    uint32_t rank = type->shape.rank;
    if (rank == 0) return RLX_FAIL(RLX_INVALID_GRAPH, "%s is a scalar", name);
    if (rank == 1 && transpose) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s is a vector and cannot be transposed", name);
    }
    if (rank == 1) {
        *out_axes = (operand_axes){UINT32_MAX, 0};
    } else if (inner_is_last != transpose) {
        *out_axes = (operand_axes){rank - 2, rank - 1};
    } else {
        *out_axes = (operand_axes){rank - 1, rank - 2};
    }
    return RLX_OK;
}

/* The leading axes alone, as a type of their own. */
static rlx_type batch_of(const rlx_type *type) {
    rlx_type batch = *type;
    batch.shape.rank = type->shape.rank > 2 ? type->shape.rank - 2 : 0;
    return batch;
}

static rlx_status check_inner(const rlx_type *a, uint32_t a_axis, const rlx_type *b,
                              uint32_t b_axis) {
    if (a->shape.dims[a_axis] != b->shape.dims[b_axis]) {
        char a_text[TEXT_BYTES], b_text[TEXT_BYTES];
        return RLX_FAIL(RLX_INVALID_GRAPH, "a %s has k %" PRId64 ", b %s has k %" PRId64,
                        rlx_type_text(NULL, a, a_text, sizeof a_text), a->shape.dims[a_axis],
                        rlx_type_text(NULL, b, b_text, sizeof b_text), b->shape.dims[b_axis]);
    }
    if (a->extents[a_axis] != b->extents[b_axis]) {
        return RLX_FAIL(RLX_UNSUPPORTED,
                        "k of a and b is known only at run time and comes from different values");
    }
    return RLX_OK;
}

static void push_dim(rlx_type *type, const rlx_type *from, uint32_t axis) {
    if (axis == UINT32_MAX) return;
    type->shape.dims[type->shape.rank] = from->shape.dims[axis];
    type->extents[type->shape.rank++] = from->extents[axis];
}

rlx_status rlx_infer_matmul(rlx_infer *infer) {
    const rlx_matmul_attrs *attrs = infer->attrs;
    const rlx_type *a = infer->in[0], *b = infer->in[1];
    operand_axes a_axes = {0}, b_axes = {0};
    rlx_dtype dtype = a->dtype;
    RLX_TRY(find_axes(a, "a", true, attrs->transpose_a, &a_axes));
    RLX_TRY(find_axes(b, "b", false, attrs->transpose_b, &b_axes));
    RLX_TRY(matmul_dtype(infer, attrs, &dtype));
    RLX_TRY(check_blocks(infer, attrs));
    RLX_TRY(check_panels(infer, attrs));
    RLX_TRY(rlx_check_number("alpha", attrs->alpha, false));
    RLX_TRY(check_inner(a, a_axes.inner, b, b_axes.inner));

    rlx_type a_batch = batch_of(a), b_batch = batch_of(b), out;
    RLX_TRY_WITH(rlx_infer_broadcast(&a_batch, &b_batch, &out), "batch axes");
    push_dim(&out, a, a_axes.outer);
    push_dim(&out, b, b_axes.outer);
    out.dtype = dtype;
    RLX_TRY(check_addends(infer, attrs, &out));
    infer->out[0] = out;
    return RLX_OK;
}

/* Whether the channels of x are in blocks: [N][blocks][spatial..][channel_block]. */
static bool has_blocked_x(const rlx_infer *infer, const rlx_conv_attrs *attrs) {
    const rlx_shape *x = &infer->in[0]->shape, *w = &infer->in[1]->shape;
    return attrs->channel_block != 0 && x->rank == w->rank + 1 &&
           x->dims[x->rank - 1] == attrs->channel_block;
}

static int64_t count_blocks(int64_t channels, int64_t block) {
    return channels / block + (channels % block != 0);
}

static rlx_status check_channel_block(const rlx_infer *infer, const rlx_conv_attrs *attrs) {
    const rlx_shape *x = &infer->in[0]->shape, *w = &infer->in[1]->shape;
    int64_t block = attrs->channel_block;
    if (block == 0) return RLX_OK;
    if (infer->op == RLX_OP_CONV_TRANSPOSE || block < 0 || block > INT32_MAX) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s with channel_block %" PRId64, rlx_op_name(infer->op),
                        block);
    }
    if (!rlx_shape_is_known(x) || !rlx_shape_is_known(w)) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "channel_block with a dim that is not known");
    }
    return RLX_OK;
}

/* Points of tiles: of conv with x in blocks, 3 x 3 taps, stride 1, one group. */
static rlx_status check_winograd(const rlx_infer *infer, const rlx_conv_attrs *attrs) {
    const rlx_type *w = infer->in[1];
    int64_t edge = attrs->winograd;
    if (edge == 0) return RLX_OK;
    if (infer->op != RLX_OP_CONV || (edge != 2 && edge != 4) || !has_blocked_x(infer, attrs)) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s with winograd %" PRId64, rlx_op_name(infer->op),
                        edge);
    }
    if (w->dtype != RLX_DTYPE_F32 || w->shape.rank != 4 || w->shape.dims[2] != edge + 2 ||
        w->shape.dims[3] != edge + 2 || attrs->groups > 1 || !rlx_ints_are_one(&attrs->strides) ||
        !rlx_ints_are_one(&attrs->dilations)) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "winograd %" PRId64 " needs stride 1, one group and points of f32", edge);
    }
    return RLX_OK;
}

/* Narrow groups in a group: the channels of both sides are cut evenly. */
static rlx_status check_merged(const rlx_infer *infer, const rlx_conv_attrs *attrs) {
    const rlx_shape *w = &infer->in[1]->shape;
    int64_t merged = attrs->merged, all;
    if (merged == 0) return RLX_OK;
    if (infer->op != RLX_OP_CONV || merged < 0 || w->rank < 2 || !rlx_shape_is_known(w) ||
        !rlx_mul_i64(merged, attrs->groups == 0 ? 1 : attrs->groups, &all) || all < 1 ||
        w->dims[0] % all != 0 || w->dims[1] % merged != 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s with %" PRId64 " merged groups",
                        rlx_op_name(infer->op), merged);
    }
    return RLX_OK;
}

static rlx_status check_conv_dtypes(const rlx_infer *infer) {
    rlx_dtype x = infer->in[0]->dtype, w = infer->in[1]->dtype;
    bool is_known = infer->op == RLX_OP_CONV_QUANTISED
                        ? is_byte(x) && w == RLX_DTYPE_I16
                        : (x == RLX_DTYPE_F64) == (w == RLX_DTYPE_F64);
    if (infer->op != RLX_OP_CONV_QUANTISED) {
        RLX_TRY(rlx_check_float(infer, 0, "x"));
        RLX_TRY(rlx_check_float(infer, 1, "w"));
    }
    if (is_known) return RLX_OK;
    return RLX_FAIL(RLX_UNSUPPORTED, "%s of %s and %s", rlx_op_name(infer->op), rlx_dtype_name(x),
                    rlx_dtype_name(w));
}

/* x and w of the convolutions: dtypes, ranks, groups. */
static rlx_status check_conv(const rlx_infer *infer, const rlx_conv_attrs *attrs,
                             int64_t *out_groups) {
    const rlx_type *x = infer->in[0], *w = infer->in[1];
    int64_t groups = attrs->groups == 0 ? 1 : attrs->groups;
    RLX_TRY(check_conv_dtypes(infer));
    RLX_TRY(check_channel_block(infer, attrs));
    RLX_TRY(check_winograd(infer, attrs));
    RLX_TRY(check_merged(infer, attrs));
    uint32_t rank = has_blocked_x(infer, attrs) ? x->shape.rank - 1 : x->shape.rank;
    if (rank < 3 || rank > 2 + RLX_MAX_SPATIAL || w->shape.rank != rank) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "x has rank %u and w rank %u, needs the same of 3 to %d",
                        x->shape.rank, w->shape.rank, 2 + RLX_MAX_SPATIAL);
    }
    for (uint32_t i = 0; i < infer->in_count; i++)
        RLX_TRY(rlx_infer_no_extent(infer, i));
    if (groups < 1 || (rank == x->shape.rank && x->shape.dims[1] % groups != 0)) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%" PRId64 " channels in %" PRId64 " groups",
                        x->shape.dims[1], attrs->groups);
    }
    *out_groups = groups;
    return RLX_OK;
}

/* The number of output channels; also that w's other channel dim fits x. */
static rlx_status conv_channels(const rlx_infer *infer, int64_t groups, int64_t *out_channels) {
    const int64_t *x = infer->in[0]->shape.dims, *w = infer->in[1]->shape.dims;
    if (infer->op == RLX_OP_CONV_TRANSPOSE) {
        if (w[0] != x[1]) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "x has %" PRId64 " channels, w takes %" PRId64, x[1],
                            w[0]);
        }
        if (!rlx_mul_i64(w[1], groups, out_channels)) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "%" PRId64 " x %" PRId64 " output channels", w[1],
                            groups);
        }
        return RLX_OK;
    }
    if (has_blocked_x(infer, infer->attrs)) {
        int64_t block = ((const rlx_conv_attrs *)infer->attrs)->channel_block, channels;
        if (!rlx_mul_i64(w[1], groups, &channels) || count_blocks(channels, block) != x[1]) {
            return RLX_FAIL(RLX_INVALID_GRAPH,
                            "x has %" PRId64 " blocks of %" PRId64 " channels, w takes %" PRId64
                            " in %" PRId64 " groups",
                            x[1], block, w[1], groups);
        }
    } else if (w[1] != x[1] / groups) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "x has %" PRId64 " channels in %" PRId64 " groups, w takes %" PRId64
                        " per group",
                        x[1], groups, w[1]);
    }
    if (w[0] % groups != 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%" PRId64 " output channels in %" PRId64 " groups",
                        w[0], groups);
    }
    *out_channels = w[0];
    return RLX_OK;
}

/* The type of y, of dtype `dtype`. */
static rlx_status conv_output(const rlx_infer *infer, const rlx_conv_attrs *attrs, rlx_dtype dtype,
                              int64_t *out_channels, rlx_type *out_type) {
    const rlx_type *x = infer->in[0], *w = infer->in[1];
    bool is_transposed = infer->op == RLX_OP_CONV_TRANSPOSE;
    rlx_windows windows;
    int64_t groups = 1;
    RLX_TRY(check_conv(infer, attrs, &groups));
    RLX_TRY(conv_channels(infer, groups, out_channels));
    if (!is_transposed && attrs->output_padding.count != 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s has no output_padding", rlx_op_name(infer->op));
    }
    RLX_TRY((is_transposed ? rlx_windows_conv_transpose : rlx_windows_conv)(
        attrs, w->shape.rank - 2, x->shape.dims + 2, w->shape.dims + 2, &windows));

    rlx_type out = rlx_type_make(dtype, x->shape.dims, w->shape.rank);
    out.shape.dims[1] = *out_channels;
    for (uint32_t i = 0; i < windows.count; i++)
        out.shape.dims[2 + i] = windows.axes[i].out;
    if (attrs->channel_block != 0) {
        out.shape.dims[1] = count_blocks(*out_channels, attrs->channel_block);
        out.shape.dims[out.shape.rank] = attrs->channel_block;
        out.extents[out.shape.rank++] = RLX_NONE;
    }
    *out_type = out;
    return RLX_OK;
}

static rlx_status check_residual(const rlx_infer *infer, uint32_t input, const rlx_type *out) {
    char got[TEXT_BYTES], needed[TEXT_BYTES];
    if (!rlx_infer_has(infer, input) || rlx_shape_equal(&infer->in[input]->shape, &out->shape)) {
        return RLX_OK;
    }
    return RLX_FAIL(RLX_INVALID_GRAPH, "residual is %s, needs %s",
                    rlx_type_text(NULL, infer->in[input], got, sizeof got),
                    rlx_type_text(NULL, out, needed, sizeof needed));
}

rlx_status rlx_infer_conv(rlx_infer *infer) {
    const rlx_conv_attrs *attrs = infer->attrs;
    rlx_dtype dtype = infer->in[0]->dtype;
    rlx_type out;
    int64_t channels = 0;
    RLX_TRY(conv_output(infer, attrs, dtype, &channels, &out));
    RLX_TRY(rlx_check_vector(infer, 2, "bias", channels));
    RLX_TRY(rlx_check_dtype(infer, 2, "bias", dtype, dtype != RLX_DTYPE_F64));
    RLX_TRY(rlx_check_dtype(infer, 3, "residual", dtype, false));
    RLX_TRY(check_residual(infer, 3, &out));
    RLX_TRY(rlx_check_activation(&attrs->activation, dtype));
    infer->out[0] = out;
    return RLX_OK;
}

/* scale, bias and zero: one number, or (but for zero) one per channel. */
static rlx_status check_factor(const rlx_infer *infer, uint32_t input, const char *name,
                               rlx_dtype dtype, int64_t channels) {
    RLX_TRY(rlx_check_dtype(infer, input, name, dtype, false));
    if (!rlx_infer_has(infer, input) || infer->in[input]->shape.rank == 0) return RLX_OK;
    return rlx_check_vector(infer, input, name, channels);
}

static rlx_status check_quantised_numbers(const rlx_conv_quantised_attrs *attrs) {
    RLX_TRY(rlx_check_number("least", attrs->least, false));
    RLX_TRY(rlx_check_number("most", attrs->most, false));
    RLX_TRY(rlx_check_number("inner_scale", attrs->inner_scale, false));
    RLX_TRY(rlx_check_number("residual_scale", attrs->residual_scale, false));
    RLX_TRY(rlx_check_number("y_scale", attrs->y_scale, false));
    RLX_TRY(rlx_check_number("y_least", attrs->y_least, false));
    RLX_TRY(rlx_check_number("y_most", attrs->y_most, false));
    if (attrs->y_zero >= -128 && attrs->y_zero <= 255 && attrs->residual_zero >= -128 &&
        attrs->residual_zero <= 255) {
        return RLX_OK;
    }
    return RLX_FAIL(RLX_INVALID_GRAPH, "zero points %" PRId64 " and %" PRId64 " of 8 bits",
                    attrs->y_zero, attrs->residual_zero);
}

/* What is rounded fits y: integers with 8 bits next to y_zero. */
static rlx_status check_quantised_range(const rlx_infer *infer,
                                        const rlx_conv_quantised_attrs *attrs) {
    bool has_residual = rlx_infer_has(infer, 5);
    double zero = (double)attrs->y_zero, least = has_residual ? attrs->y_least : attrs->least;
    double most = has_residual ? attrs->y_most : attrs->most;
    double low = attrs->to == RLX_DTYPE_U8 ? 0 : -128, high = attrs->to == RLX_DTYPE_U8 ? 255 : 127;
    if (has_residual && !(attrs->least >= -512 && attrs->most <= 512)) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%g .. %g are no 8 bits", attrs->least, attrs->most);
    }
    if (!is_byte(attrs->to)) return RLX_OK;
    if (least + zero >= low && most + zero <= high && least <= most) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "%g .. %g about %g does not fit %s", least, most, zero,
                    rlx_dtype_name(attrs->to));
}

rlx_status rlx_infer_conv_quantised(rlx_infer *infer) {
    const rlx_conv_quantised_attrs *attrs = infer->attrs;
    rlx_type out;
    int64_t channels = 0;
    if (!is_byte(attrs->to) && attrs->to != RLX_DTYPE_F32 && attrs->to != RLX_DTYPE_I32) {
        return RLX_FAIL(RLX_UNSUPPORTED, "conv_quantised to %s", rlx_dtype_name(attrs->to));
    }
    RLX_TRY(conv_output(infer, &attrs->conv, attrs->to, &channels, &out));
    RLX_TRY(check_factor(infer, 2, "scale", RLX_DTYPE_F32, channels));
    RLX_TRY(check_factor(infer, 3, "bias", RLX_DTYPE_F32, channels));
    RLX_TRY(check_factor(infer, 4, "zero", infer->in[0]->dtype, 1));
    RLX_TRY(check_quantised_numbers(attrs));
    RLX_TRY(check_quantised_range(infer, attrs));
    if (rlx_infer_has(infer, 5) && (!is_byte(infer->in[5]->dtype) || attrs->to == RLX_DTYPE_I32)) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "residual is %s beside %s",
                        rlx_dtype_name(infer->in[5]->dtype), rlx_dtype_name(attrs->to));
    }
    RLX_TRY(check_residual(infer, 5, &out));
    infer->out[0] = out;
    return RLX_OK;
}

rlx_status rlx_infer_pool(rlx_infer *infer) {
    const rlx_pool_attrs *attrs = infer->attrs;
    const rlx_type *x = infer->in[0];
    bool is_max = infer->op == RLX_OP_MAX_POOL;
    rlx_windows windows;
    if (!rlx_dtype_is_float(x->dtype) && !(is_max && rlx_dtype_is_integer(x->dtype))) {
        return RLX_FAIL(RLX_UNSUPPORTED, "%s of %s", rlx_op_name(infer->op),
                        rlx_dtype_name(x->dtype));
    }
    if (rlx_dtype_block_elements(x->dtype) != 1) {
        return RLX_FAIL(RLX_UNSUPPORTED, "%s of %s", rlx_op_name(infer->op),
                        rlx_dtype_name(x->dtype));
    }
    if (x->shape.rank < 3) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "x has rank %u, needs 3 to %d", x->shape.rank,
                        2 + RLX_MAX_SPATIAL);
    }
    RLX_TRY(rlx_infer_no_extent(infer, 0));
    if (attrs->is_blocked && infer->out_count > 1) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "indices of channels in blocks");
    }
    RLX_TRY(rlx_windows_pool(attrs, x->shape.rank - (attrs->is_blocked ? 3 : 2), x->shape.dims + 2,
                             &windows));
    rlx_type out = rlx_type_make(x->dtype, x->shape.dims, x->shape.rank);
    for (uint32_t i = 0; i < windows.count; i++)
        out.shape.dims[2 + i] = windows.axes[i].out;
    infer->out[0] = out;
    if (infer->out_count > 1) {
        infer->out[1] = out;
        infer->out[1].dtype = RLX_DTYPE_I64;
    }
    return RLX_OK;
}
