/* SPDX-License-Identifier: Apache-2.0 */
/* Fuse residual and norm: layer_norm(a + b) and rms_norm(a + b) read a and b, and give the sum as
 * their second output where it is used elsewhere too. */
#include "compile/rewrite.h"

/* How far before the norm its sum may stand, when others use it: those must come behind the norm.
 */
enum { MOST_BETWEEN = 64 };

static bool node_uses(const rlx_rewrite *rewrite, rlx_node_id id, rlx_value_id value) {
    const rlx_node *node = &rewrite->graph->nodes.items[id];
    if (node->blocks[0] != RLX_NONE) return true; /* who knows what its blocks read */
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (rlx_rewrite_input(rewrite, id, i) == value) return true;
    }
    return false;
}

/* Whether nothing between the sum and the norm reads the sum. */
static bool is_unused_between(const rlx_rewrite *rewrite, rlx_node_id sum, rlx_node_id norm) {
    const rlx_graph *graph = rewrite->graph;
    const rlx_block *block = &graph->blocks.items[graph->nodes.items[norm].block];
    uint32_t from = rewrite->positions[sum], to = rewrite->positions[norm];
    if (to - from > MOST_BETWEEN) return false;
    for (uint32_t i = from + 1; i < to; i++) {
        rlx_node_id id = block->nodes.items[i];
        if (!graph->nodes.items[id].is_dead &&
            node_uses(rewrite, id, rlx_rewrite_output(rewrite, sum))) {
            return false;
        }
    }
    return true;
}

static bool is_plain_norm(const rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_node *node = &rewrite->graph->nodes.items[root];
    return (node->op == RLX_OP_LAYER_NORM || node->op == RLX_OP_RMS_NORM) &&
           rlx_rewrite_input(rewrite, root, 3) == RLX_NONE && node->output_count == 1;
}

/* The add in front of the norm, of two operands like the sum. */
static rlx_node_id find_sum(const rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0);
    rlx_node_id sum = rlx_rewrite_producer(rewrite, x, RLX_OP_ADD);
    if (sum == RLX_NONE || !rlx_rewrite_may_move(rewrite, sum, root)) return RLX_NONE;
    if (rlx_rewrite_fact(rewrite, x)->is_prepared) return RLX_NONE;
    for (uint32_t i = 0; i < 2; i++) {
        rlx_value_id operand = rlx_rewrite_input(rewrite, sum, i);
        if (!rlx_rewrite_same_type(rewrite, rlx_rewrite_type(rewrite, operand),
                                   rlx_rewrite_type(rewrite, x))) {
            return RLX_NONE;
        }
    }
    return sum;
}

static rlx_status visit(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    (void)user;
    if (!is_plain_norm(rewrite, root)) return RLX_OK;
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0);
    rlx_node_id sum = find_sum(rewrite, root);
    if (sum == RLX_NONE) return RLX_OK;
    bool is_shared = rlx_rewrite_fact(rewrite, x)->uses > 1, is_done;
    if (is_shared && !is_unused_between(rewrite, sum, root)) return RLX_OK;
    rlx_value_id inputs[4] = {
        rlx_rewrite_input(rewrite, sum, 0), rlx_rewrite_input(rewrite, root, 1),
        rlx_rewrite_input(rewrite, root, 2), rlx_rewrite_input(rewrite, sum, 1)};
    RLX_TRY(rlx_rewrite_node(rewrite, root, rlx_rewrite_op(rewrite, root),
                             rlx_rewrite_attrs(rewrite, root), inputs, 4, &is_done));
    return is_done && is_shared ? rlx_rewrite_take_output(rewrite, root, x) : RLX_OK;
}

rlx_status rlx_pass_fuse_norm(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_rewrite_walk(&rewrite, visit, NULL));
    return rlx_rewrite_finish(&rewrite);
}
