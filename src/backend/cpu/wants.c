/* SPDX-License-Identifier: Apache-2.0 */
/* In which layout each level's kernels want the weights of a step. One row per op that wants any;
 * an answer depends on the op, its attributes and the operand alone (plan/target.h). */
#include "backend/cpu/table.h"

typedef struct wants_row {
    rlx_op op;
    void (*wants)(const rlx_cpu_level *level, const rlx_target_query *query,
                  rlx_layout *in_layouts);
} wants_row;

/* Panels for channels in blocks; a first layer has few channels, a depthwise conv one per output.
 */
static void conv_wants(const rlx_cpu_level *level, const rlx_target_query *query,
                       rlx_layout *in_layouts) {
    const rlx_conv_attrs *attrs = query->attrs;
    const rlx_tensor *w = &query->in[1];
    int64_t block = attrs->channel_block, groups = attrs->groups == 0 ? 1 : attrs->groups;
    (void)level;
    if (block != 8 && block != 16) return;
    if (groups > 1 && groups == w->dims[0] && w->dims[1] == 1) {
        in_layouts[1] = block == 8 ? RLX_LAYOUT_DEPTHWISE8 : RLX_LAYOUT_DEPTHWISE16;
    } else if (groups == 1 && w->dims[1] < block) {
        in_layouts[1] = block == 8 ? RLX_LAYOUT_TAPS16 : RLX_LAYOUT_TAPS32;
    } else if (groups == 1 || (w->dims[1] % block == 0 && w->dims[0] / groups % (2 * block) == 0)) {
        in_layouts[1] = block == 8 ? RLX_LAYOUT_PANELS8X16 : RLX_LAYOUT_PANELS16X32;
    }
}

static const wants_row rows[] = {
    {RLX_OP_CONV, conv_wants},
    {RLX_OP_NONE, NULL},
};

void rlx_cpu_wanted_layouts(const rlx_cpu_level *level, const rlx_target_query *query,
                            rlx_layout *in_layouts) {
    for (const wants_row *row = rows; row->op != RLX_OP_NONE; row++) {
        if (row->op == query->op) row->wants(level, query, in_layouts);
    }
}
