/* SPDX-License-Identifier: Apache-2.0 */
/* In which layout each level's kernels want the weights of a step. One row per op that wants any;
 * an answer depends on the op, its attributes and the operand alone (plan/target.h). */
#include "backend/cpu/matmul_operands.h"
#include "backend/cpu/table.h"
#include "base/cpu.h"

typedef struct wants_row {
    rlx_op op;
    void (*wants)(const rlx_cpu_level *level, const rlx_target_query *query,
                  rlx_layout *in_layouts);
} wants_row;

/* Panels for channels in blocks; a first layer has few channels, a depthwise conv one per output,
 * and a conv to few channels has its lanes along the inputs. */
static void conv_wants(const rlx_cpu_level *level, const rlx_target_query *query,
                       rlx_layout *in_layouts) {
    const rlx_conv_attrs *attrs = query->attrs;
    const rlx_tensor *w = &query->in[1];
    int64_t block = attrs->channel_block, groups = attrs->groups == 0 ? 1 : attrs->groups;
    (void)level;
    if (block != 8 && block != 16) return;
    if (attrs->winograd != 0) {
        in_layouts[1] = block == 8 ? RLX_LAYOUT_TAPS16 : RLX_LAYOUT_TAPS32;
        return;
    }
    bool is_narrow = query->op == RLX_OP_CONV &&
                     rlx_conv_is_narrow(block, w->dims[1], w->dims[0] / groups, groups);
    if (groups > 1 && groups == w->dims[0] && w->dims[1] == 1) {
        in_layouts[1] = block == 8 ? RLX_LAYOUT_DEPTHWISE8 : RLX_LAYOUT_DEPTHWISE16;
    } else if (groups == 1 && 2 * w->dims[0] < block && query->op == RLX_OP_CONV &&
               query->in[0].rank > w->rank) {
        in_layouts[1] = block == 8 ? RLX_LAYOUT_CHANNELS8 : RLX_LAYOUT_CHANNELS16;
    } else if (is_narrow || (groups == 1 && w->dims[1] < block)) {
        in_layouts[1] = block == 8 ? RLX_LAYOUT_TAPS16 : RLX_LAYOUT_TAPS32;
    } else if (groups == 1 || (w->dims[1] % block == 0 && w->dims[0] / groups % (2 * block) == 0)) {
        in_layouts[1] = block == 8 ? RLX_LAYOUT_PANELS8X16 : RLX_LAYOUT_PANELS16X32;
    }
}

/* The same for weights of 16 bits, with channels in pairs where they are summed. */
static void conv_quantised_wants(const rlx_cpu_level *level, const rlx_target_query *query,
                                 rlx_layout *in_layouts) {
    const rlx_conv_quantised_attrs *attrs = query->attrs;
    rlx_target_query dense = *query;
    dense.attrs = &attrs->conv;
    conv_wants(level, &dense, in_layouts);
    switch (in_layouts[1]) {
    case RLX_LAYOUT_PANELS8X16:
        in_layouts[1] = RLX_LAYOUT_PANELS8X16X2;
        break;
    case RLX_LAYOUT_PANELS16X32:
        in_layouts[1] = RLX_LAYOUT_PANELS16X32X2;
        break;
    case RLX_LAYOUT_TAPS16:
        in_layouts[1] = RLX_LAYOUT_TAPS16X2;
        break;
    case RLX_LAYOUT_TAPS32:
        in_layouts[1] = RLX_LAYOUT_TAPS32X2;
        break;
    default:
        break;
    }
}

static bool is_small_float(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F32 || dtype == RLX_DTYPE_F16 || dtype == RLX_DTYPE_BF16;
}

static bool is_byte(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_I8 || dtype == RLX_DTYPE_U8;
}

/* What matmul_narrow of the vector levels takes: few columns, side by side each. One column lies so
 * anyway. Six to eight are half a panel of AVX2, which is faster where there are rows enough,
 * unless those lie a multiple of 4 KiB apart: a tall tile has more of them than the first cache has
 * ways. How many rows there are has no say: entries with few and with many share their weights. */
static bool is_narrow_matmul(const rlx_target_query *query, bool is_wide) {
    enum { FEW_COLUMNS = 5, BAD_DEPTH = 1024 };
    const rlx_matmul_attrs *attrs = query->attrs;
    const rlx_tensor *a = &query->in[0], *b = &query->in[1];
    if (attrs->transpose_a || attrs->has_to || a->rank < 2) return false;
    int64_t n = b->dims[b->rank - (attrs->transpose_b ? 2 : 1)], k = a->dims[a->rank - 1];
    if (n > MATMUL_NARROW_COLUMNS || k < MATMUL_NARROW_DEPTH * n) return false;
    return is_wide || n <= FEW_COLUMNS || k % BAD_DEPTH == 0;
}

/* b in panels as wide as two vectors; of bytes with k in pairs, or in fours for VNNI, unless more
 * than a quarter of it would be padding. [transposed][wide][in pairs] */
static void matmul_wants(const rlx_cpu_level *level, const rlx_target_query *query,
                         rlx_layout *in_layouts) {
    static const rlx_layout panels[2][2][2] = {
        {{RLX_LAYOUT_COLUMNS16, RLX_LAYOUT_COLUMNS16X2},
         {RLX_LAYOUT_COLUMNS32, RLX_LAYOUT_COLUMNS32X4}},
        {{RLX_LAYOUT_ROWS16, RLX_LAYOUT_ROWS16X2}, {RLX_LAYOUT_ROWS32, RLX_LAYOUT_ROWS32X4}}};
    const rlx_matmul_attrs *attrs = query->attrs;
    const rlx_tensor *a = &query->in[0], *b = &query->in[1];
    bool is_float = is_small_float(a->dtype) && is_small_float(b->dtype);
    bool is_pair = query->op == RLX_OP_MATMUL_QUANTISED ||
                   (is_byte(a->dtype) && is_byte(b->dtype) && attrs->has_to && !attrs->gated &&
                    (attrs->to == RLX_DTYPE_I32 || attrs->to == RLX_DTYPE_U32));
    /* Products of bytes without VNNI are NARROW (families.def). */
    bool is_wide = (level->flags & (is_pair ? RLX_CPU_VNNI : RLX_CPU_AVX512)) != 0;
    if ((level->flags & RLX_CPU_AVX2) == 0 || b->rank < 2 || !(is_float || is_pair)) return;
    int64_t n = b->dims[b->rank - (attrs->transpose_b ? 2 : 1)], width = is_wide ? 32 : 16;
    if (is_float && is_narrow_matmul(query, is_wide)) {
        if (n > 1 && !attrs->transpose_b) in_layouts[1] = RLX_LAYOUT_TURNED;
        return;
    }
    if (n < 1 || (is_pair && width - 1 - (n - 1) % width > n / 4)) return;
    in_layouts[1] = panels[attrs->transpose_b][is_wide][is_pair];
}

static bool is_vector_gate(rlx_gate_kind kind) {
    return kind == RLX_GATE_DEFAULT || kind == RLX_GATE_SIGMOID || kind == RLX_GATE_TANH ||
           kind == RLX_GATE_RELU;
}

/* w and r in panels of as many rows as two vectors have numbers, for the gates that are computed by
 * vectors. */
static void recurrent_wants(const rlx_cpu_level *level, const rlx_target_query *query,
                            rlx_layout *in_layouts) {
    const rlx_recurrent_attrs *attrs = query->attrs;
    bool is_wide = (level->flags & RLX_CPU_AVX512) != 0;
    const rlx_gate_kind kinds[] = {attrs->f.kind,      attrs->g.kind,      attrs->h.kind,
                                   attrs->back_f.kind, attrs->back_g.kind, attrs->back_h.kind};
    if ((level->flags & RLX_CPU_AVX2) == 0 || query->in[0].dtype == RLX_DTYPE_F64) return;
    for (uint32_t i = 0; i < 6; i++) {
        if (!is_vector_gate(kinds[i])) return;
    }
    if (query->in[1].dtype != RLX_DTYPE_F32 || query->in[2].dtype != RLX_DTYPE_F32) return;
    int64_t rows = query->in[2].dims[1], width = is_wide ? 32 : 16;
    if (rows < 1 || width - 1 - (rows - 1) % width > rows / 4) return;
    in_layouts[1] = in_layouts[2] = is_wide ? RLX_LAYOUT_ROWS32 : RLX_LAYOUT_ROWS16;
}

static const wants_row rows[] = {
    {RLX_OP_CONV, conv_wants},      {RLX_OP_CONV_QUANTISED, conv_quantised_wants},
    {RLX_OP_MATMUL, matmul_wants},  {RLX_OP_MATMUL_QUANTISED, matmul_wants},
    {RLX_OP_RNN, recurrent_wants},  {RLX_OP_GRU, recurrent_wants},
    {RLX_OP_LSTM, recurrent_wants}, {RLX_OP_NONE, NULL},
};

void rlx_cpu_wanted_layouts(const rlx_cpu_level *level, const rlx_target_query *query,
                            rlx_layout *in_layouts) {
    for (const wants_row *row = rows; row->op != RLX_OP_NONE; row++) {
        if (row->op == query->op) row->wants(level, query, in_layouts);
    }
}
