/* SPDX-License-Identifier: Apache-2.0 */
/* In which layout each level's kernels want the weights of a step. One row per op that wants any;
 * an answer depends on the op, its attributes and the operand alone (plan/target.h). */
#include "backend/cpu/table.h"

typedef struct wants_row {
    rlx_op op;
    void (*wants)(const rlx_cpu_level *level, const rlx_target_query *query,
                  rlx_layout *in_layouts);
} wants_row;

static const wants_row rows[] = {
    {RLX_OP_NONE, NULL},
};

void rlx_cpu_wanted_layouts(const rlx_cpu_level *level, const rlx_target_query *query,
                            rlx_layout *in_layouts) {
    for (const wants_row *row = rows; row->op != RLX_OP_NONE; row++) {
        if (row->op == query->op) row->wants(level, query, in_layouts);
    }
}
