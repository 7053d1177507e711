/* SPDX-License-Identifier: Apache-2.0 */
/* The op table, built from ops.def, and the field lists of the attribute structs. */
#include "ir/op.h"

#include "base/hash.h"
#include "ir/infer.h"
#include "ir/layout.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define FIELD(kind, attrs, member) \
    { #member, RLX_FIELD_##kind, offsetof(rlx_##attrs##_attrs, member) }
#define ACTIVATION(attrs)                                                                       \
    {"activation", RLX_FIELD_OP, offsetof(rlx_##attrs##_attrs, activation.op)},                 \
        {"activation_alpha", RLX_FIELD_F64, offsetof(rlx_##attrs##_attrs, activation.alpha)}, { \
        "activation_beta", RLX_FIELD_F64, offsetof(rlx_##attrs##_attrs, activation.beta)        \
    }

/* A struct without fields still needs an element: its count is 0. */
static const rlx_field none_fields[] = {{"", RLX_FIELD_BOOL, 0}};
static const rlx_field unary_fields[] = {FIELD(F64, unary, alpha), FIELD(F64, unary, beta)};
static const rlx_field cast_fields[] = {FIELD(DTYPE, cast, to)};
static const rlx_field chain_fields[] = {FIELD(LIST, chain, code)};
static const rlx_field matmul_fields[] = {
    FIELD(BOOL, matmul, transpose_a), FIELD(BOOL, matmul, transpose_b),
    FIELD(BOOL, matmul, gated),       FIELD(F64, matmul, alpha),
    FIELD(BOOL, matmul, has_to),      FIELD(DTYPE, matmul, to),
    FIELD(I64, matmul, zero),         ACTIVATION(matmul)};
static const rlx_field conv_fields[] = {
    FIELD(INTS, conv, strides), FIELD(INTS, conv, dilations),
    FIELD(INTS, conv, pads),    FIELD(INTS, conv, output_padding),
    FIELD(I64, conv, groups),   FIELD(AUTO_PAD, conv, auto_pad),
    ACTIVATION(conv),           FIELD(I64, conv, channel_block),
    FIELD(I64, conv, winograd), FIELD(I64, conv, merged)};
#define CONV_FIELD(kind, member) \
    { #member, RLX_FIELD_##kind, offsetof(rlx_conv_quantised_attrs, conv.member) }
static const rlx_field conv_quantised_fields[] = {CONV_FIELD(INTS, strides),
                                                  CONV_FIELD(INTS, dilations),
                                                  CONV_FIELD(INTS, pads),
                                                  CONV_FIELD(I64, groups),
                                                  CONV_FIELD(AUTO_PAD, auto_pad),
                                                  CONV_FIELD(I64, channel_block),
                                                  FIELD(DTYPE, conv_quantised, to),
                                                  FIELD(F64, conv_quantised, least),
                                                  FIELD(F64, conv_quantised, most),
                                                  FIELD(I64, conv_quantised, y_zero),
                                                  FIELD(F64, conv_quantised, inner_scale),
                                                  FIELD(F64, conv_quantised, residual_scale),
                                                  FIELD(F64, conv_quantised, y_scale),
                                                  FIELD(I64, conv_quantised, residual_zero),
                                                  FIELD(F64, conv_quantised, y_least),
                                                  FIELD(F64, conv_quantised, y_most)};
static const rlx_field pool_fields[] = {FIELD(INTS, pool, kernel),
                                        FIELD(INTS, pool, strides),
                                        FIELD(INTS, pool, dilations),
                                        FIELD(INTS, pool, pads),
                                        FIELD(AUTO_PAD, pool, auto_pad),
                                        FIELD(BOOL, pool, ceil_mode),
                                        FIELD(BOOL, pool, count_include_pad),
                                        FIELD(BOOL, pool, is_blocked)};
static const rlx_field reduce_fields[] = {FIELD(INTS, reduce, axes),
                                          FIELD(BOOL, reduce, keep_dims)};
static const rlx_field arg_fields[] = {FIELD(I64, arg, axis), FIELD(BOOL, arg, keep_dims),
                                       FIELD(BOOL, arg, select_last)};
static const rlx_field top_k_fields[] = {FIELD(I64, top_k, k), FIELD(I64, top_k, axis),
                                         FIELD(BOOL, top_k, smallest),
                                         FIELD(BOOL, top_k, unsorted)};
static const rlx_field cumsum_fields[] = {FIELD(I64, cumsum, axis), FIELD(BOOL, cumsum, exclusive),
                                          FIELD(BOOL, cumsum, reverse)};
static const rlx_field axis_fields[] = {FIELD(I64, axis, axis)};
static const rlx_field axes_fields[] = {FIELD(INTS, axes, axes)};
static const rlx_field norm_fields[] = {FIELD(I64, norm, axis), FIELD(I64, norm, groups),
                                        FIELD(F64, norm, epsilon)};
static const rlx_field attention_fields[] = {
    FIELD(F64, attention, scale), FIELD(F64, attention, softcap), FIELD(I64, attention, window),
    FIELD(BOOL, attention, causal)};
static const rlx_field rope_fields[] = {FIELD(F64, rope, theta), FIELD(I64, rope, rotary_dim),
                                        FIELD(BOOL, rope, interleaved)};
static const rlx_field gather_nd_fields[] = {FIELD(I64, gather_nd, batch_dims)};
static const rlx_field scatter_fields[] = {FIELD(I64, scatter, axis),
                                           FIELD(SCATTER_MODE, scatter, mode)};
static const rlx_field slice_fields[] = {FIELD(INTS, slice, starts), FIELD(INTS, slice, ends),
                                         FIELD(INTS, slice, axes), FIELD(INTS, slice, steps)};
static const rlx_field split_fields[] = {FIELD(I64, split, axis), FIELD(LIST, split, sizes)};
static const rlx_field pad_fields[] = {FIELD(INTS, pad, pads), FIELD(PAD_MODE, pad, mode),
                                       FIELD(F64, pad, value)};
static const rlx_field transpose_fields[] = {FIELD(INTS, transpose, perm)};
static const rlx_field reshape_fields[] = {FIELD(INTS, reshape, shape)};
static const rlx_field pack_fields[] = {FIELD(LAYOUT, pack, layout)};
static const rlx_field state_write_fields[] = {FIELD(I64, state_write, axis),
                                               FIELD(BOOL, state_write, wrap)};
#define GATE(gate)                                                                    \
    {#gate, RLX_FIELD_GATE, offsetof(rlx_recurrent_attrs, gate.kind)},                \
        {#gate "_alpha", RLX_FIELD_F64, offsetof(rlx_recurrent_attrs, gate.alpha)}, { \
#gate "_beta", RLX_FIELD_F64, offsetof(rlx_recurrent_attrs, gate.beta)        \
    }
static const rlx_field recurrent_fields[] = {FIELD(DIRECTION, recurrent, direction),
                                             FIELD(BOOL, recurrent, batch_first),
                                             FIELD(BOOL, recurrent, linear_before_reset),
                                             FIELD(BOOL, recurrent, input_forget),
                                             FIELD(F64, recurrent, clip),
                                             GATE(f),
                                             GATE(g),
                                             GATE(h),
                                             GATE(back_f),
                                             GATE(back_g),
                                             GATE(back_h)};
static const rlx_field collective_fields[] = {FIELD(COMBINE, collective, reduction),
                                              FIELD(I64, collective, root),
                                              FIELD(I64, collective, ranks)};
static const rlx_field loop_fields[] = {FIELD(I64, loop, bound)};
static const rlx_field nms_fields[] = {FIELD(BOOL, nms, center_point), FIELD(I64, nms, bound)};
static const rlx_field roi_align_fields[] = {
    FIELD(I64, roi_align, height),      FIELD(I64, roi_align, width),
    FIELD(I64, roi_align, samples),     FIELD(F64, roi_align, scale),
    FIELD(BOOL, roi_align, half_pixel), FIELD(BOOL, roi_align, largest)};
static const rlx_field unique_fields[] = {FIELD(BOOL, unique, by_axis), FIELD(I64, unique, axis),
                                          FIELD(BOOL, unique, unsorted)};

/* The one empty list has a row of kind BOOL with no name. */
#define FIELD_COUNT(attrs)                                 \
    (uint32_t)(sizeof attrs##_fields / sizeof(rlx_field) - \
               (sizeof(rlx_##attrs##_attrs) == sizeof(rlx_none_attrs)))

#define MANY        RLX_OP_MANY
#define ELEMENTWISE RLX_OPF_ELEMENTWISE
#define VIEW        RLX_OPF_VIEW
#define FLOW        RLX_OPF_FLOW
#define STATEFUL    RLX_OPF_STATEFUL
#define COMMUTES    RLX_OPF_COMMUTES
#define FAULTS      RLX_OPF_FAULTS
#define COLLECTIVE  RLX_OPF_COLLECTIVE
static const rlx_op_info op_table[RLX_OP_COUNT] = {
#define RLX_OP(upper, lower, family, in_least, in_most, out_least, out_most, attrs, flags) \
    [RLX_OP_##upper] = {#lower,                                                            \
                        #family,                                                           \
                        in_least,                                                          \
                        in_most,                                                           \
                        out_least,                                                         \
                        out_most,                                                          \
                        flags,                                                             \
                        (uint32_t)sizeof(rlx_##attrs##_attrs),                             \
                        attrs##_fields,                                                    \
                        FIELD_COUNT(attrs),                                                \
                        rlx_infer_##family},
#include <rlx/ops.def>
#undef RLX_OP
};

const rlx_op_info *rlx_op_info_of(rlx_op op) {
    if ((uint32_t)op == RLX_OP_NONE || (uint32_t)op >= RLX_OP_COUNT) return NULL;
    return &op_table[op];
}

bool rlx_op_may_overwrite(rlx_op op, uint32_t input) {
    const rlx_op_info *info = rlx_op_info_of(op);
    if (info == NULL) return false;
    if ((info->flags & RLX_OPF_ELEMENTWISE) != 0) return true;
    if (op == RLX_OP_ALL_REDUCE || op == RLX_OP_BROADCAST) return true;
    return (op == RLX_OP_MATMUL || op == RLX_OP_MATMUL_QUANTISED || op == RLX_OP_CONV) &&
           input == 3; /* the residual */
}

const char *rlx_op_name(rlx_op op) {
    const rlx_op_info *info = rlx_op_info_of(op);
    return info == NULL ? "?" : info->name;
}

static void describe_count(char *text, size_t bytes, uint32_t least, uint32_t most) {
    if (most == RLX_OP_MANY) {
        snprintf(text, bytes, "%u or more", least);
    } else if (most != least) {
        snprintf(text, bytes, "%u to %u", least, most);
    } else {
        snprintf(text, bytes, "%u", least);
    }
}

rlx_status rlx_op_describe(rlx_op op, rlx_op_description *out_description) {
    const rlx_op_info *info = rlx_op_info_of(op);
    rlx_op_description about = {0};
    size_t at = 0;
    if (out_description == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (info == NULL) return RLX_FAIL(RLX_NOT_FOUND, "%d is no op", (int)op);
    about.name = info->name;
    describe_count(about.inputs, sizeof about.inputs, info->in_least, info->in_most);
    describe_count(about.outputs, sizeof about.outputs, info->out_least, info->out_most);
    for (uint32_t i = 0; i < info->field_count && at < sizeof about.attributes; i++) {
        int wrote = snprintf(about.attributes + at, sizeof about.attributes - at, "%s%s",
                             i == 0 ? "" : ", ", info->fields[i].name);
        at += wrote > 0 ? (size_t)wrote : 0;
    }
    *out_description = about;
    return RLX_OK;
}

rlx_status rlx_op_from_name(const char *name, rlx_op *out_op) {
    if (name == NULL || out_op == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    for (uint32_t op = 1; op < RLX_OP_COUNT; op++) {
        if (strcmp(op_table[op].name, name) == 0) {
            *out_op = (rlx_op)op;
            return RLX_OK;
        }
    }
    return RLX_FAIL(RLX_NOT_FOUND, "no op is called '%s'", name);
}

static const char *const auto_pad_names[] = {"explicit", "same_upper", "same_lower", "valid"};
static const char *const pad_mode_names[] = {"constant", "reflect", "edge", "wrap"};
static const char *const scatter_mode_names[] = {"set", "add", "mul", "min", "max"};
static const char *const direction_names[] = {"forward", "reverse", "bidirectional"};
static const char *const combine_names[] = {"sum", "mean", "product", "min", "max"};
static const char *const gate_names[] = {
    "default",          "sigmoid",     "tanh",         "relu", "affine",   "leaky_relu",
    "thresholded_relu", "scaled_tanh", "hard_sigmoid", "elu",  "softsign", "softplus"};

const char *const *rlx_field_names(rlx_field_kind kind, uint32_t *out_count) {
    *out_count = 0;
    if (kind == RLX_FIELD_AUTO_PAD) {
        *out_count = sizeof auto_pad_names / sizeof *auto_pad_names;
        return auto_pad_names;
    }
    if (kind == RLX_FIELD_PAD_MODE) {
        *out_count = sizeof pad_mode_names / sizeof *pad_mode_names;
        return pad_mode_names;
    }
    if (kind == RLX_FIELD_SCATTER_MODE) {
        *out_count = sizeof scatter_mode_names / sizeof *scatter_mode_names;
        return scatter_mode_names;
    }
    if (kind == RLX_FIELD_DIRECTION) {
        *out_count = sizeof direction_names / sizeof *direction_names;
        return direction_names;
    }
    if (kind == RLX_FIELD_GATE) {
        *out_count = sizeof gate_names / sizeof *gate_names;
        return gate_names;
    }
    if (kind == RLX_FIELD_COMBINE) {
        *out_count = sizeof combine_names / sizeof *combine_names;
        return combine_names;
    }
    if (kind == RLX_FIELD_LAYOUT) return rlx_layout_names(out_count);
    return NULL;
}

/* The bytes of a field that carry meaning: lists by content, the rest by value. */
static const void *field_bytes(const rlx_field *field, const void *attrs, size_t *out_bytes) {
    const char *at = (const char *)attrs + field->offset;
    switch (field->kind) {
    case RLX_FIELD_BOOL:
        *out_bytes = sizeof(bool);
        return at;
    case RLX_FIELD_I64:
    case RLX_FIELD_F64:
        *out_bytes = 8;
        return at;
    case RLX_FIELD_INTS: {
        const rlx_ints *ints = (const rlx_ints *)(const void *)at;
        *out_bytes = ints->count * sizeof(int64_t);
        return ints->items;
    }
    case RLX_FIELD_LIST: {
        const rlx_list *list = (const rlx_list *)(const void *)at;
        *out_bytes = list->count * sizeof(int64_t);
        return list->items;
    }
    default:
        *out_bytes = sizeof(uint32_t);
        return at;
    }
}

bool rlx_attrs_equal(rlx_op op, const void *a, const void *b) {
    const rlx_op_info *info = rlx_op_info_of(op);
    if (info == NULL) return false;
    for (uint32_t i = 0; i < info->field_count; i++) {
        size_t a_bytes, b_bytes;
        const void *a_data = field_bytes(&info->fields[i], a, &a_bytes);
        const void *b_data = field_bytes(&info->fields[i], b, &b_bytes);
        if (a_bytes != b_bytes) return false;
        if (a_bytes != 0 && memcmp(a_data, b_data, a_bytes) != 0) return false;
    }
    return true;
}

uint64_t rlx_attrs_hash(rlx_op op, const void *attrs) {
    const rlx_op_info *info = rlx_op_info_of(op);
    uint64_t hash = RLX_HASH_SEED ^ (uint64_t)op;
    if (info == NULL) return hash;
    for (uint32_t i = 0; i < info->field_count; i++) {
        size_t bytes;
        const void *data = field_bytes(&info->fields[i], attrs, &bytes);
        hash = rlx_hash(rlx_hash(hash, &bytes, sizeof bytes), data, bytes);
    }
    return hash;
}
