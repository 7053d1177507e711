/* SPDX-License-Identifier: Apache-2.0 */
/* What the passes that match a group of nodes and put another in its place share. A group is
 * matched from its last node (the root) backwards over producers; the root is then rewritten where
 * it stands and keeps its outputs, so names, order and users stay as they are; the rest dies with
 * its last use. Every step is constant or linear in the group, whatever the size of the graph. */
#ifndef RLX_COMPILE_REWRITE_H
#define RLX_COMPILE_REWRITE_H

#include "compile/compile.h"

typedef struct rlx_value_fact {
    uint32_t uses;      /* inputs, yields, outputs, extents */
    rlx_value_id state; /* the state whose memory it is (a read or a view of it); RLX_NONE: none */
    bool is_prepared;   /* made of parameters and constants alone, once for all runs */
    bool is_output;     /* of the model */
} rlx_value_fact;

/* A node that may write a state: its place, and which one (RLX_NONE: any). */
typedef struct rlx_state_effect {
    rlx_block_id block;
    uint32_t position;
    rlx_value_id state;
} rlx_state_effect;

typedef struct rlx_rewrite {
    rlx_pass_context *context;
    rlx_graph *graph;
    rlx_remap remap; /* values that another one stands for from now on */
    rlx_value_fact *facts;
    uint32_t fact_count, fact_capacity;
    uint32_t *positions; /* per node: its place in its block */
    uint32_t position_count, position_capacity;
    rlx_state_effect *effects;
    uint32_t effect_count;
    struct rlx_insertion *insertions;
    uint32_t insertion_count, insertion_capacity;
} rlx_rewrite;

/* Everything lives in the context's scratch memory. */
RLX_WARN_UNUSED rlx_status rlx_rewrite_begin(rlx_pass_context *context, rlx_rewrite *out_rewrite);
/* Applies what is pending: replaced values, inserted nodes. */
RLX_WARN_UNUSED rlx_status rlx_rewrite_finish(rlx_rewrite *rewrite);

/* Calls `visit` for the live nodes of every block that have a first output, in block order. Nodes
 * that it inserts are not visited. */
typedef rlx_status (*rlx_rewrite_visit)(rlx_rewrite *rewrite, rlx_node_id node, void *user);
RLX_WARN_UNUSED rlx_status rlx_rewrite_walk(rlx_rewrite *rewrite, rlx_rewrite_visit visit,
                                            void *user);

/* Input `index` by the id that stands for it now; RLX_NONE when absent or past the end. */
rlx_value_id rlx_rewrite_input(const rlx_rewrite *rewrite, rlx_node_id node, uint32_t index);
static inline const rlx_value_fact *rlx_rewrite_fact(const rlx_rewrite *rewrite,
                                                     rlx_value_id value) {
    return &rewrite->facts[value];
}
static inline const rlx_type *rlx_rewrite_type(const rlx_rewrite *rewrite, rlx_value_id value) {
    return &rewrite->graph->values.items[value].type;
}
static inline rlx_op rlx_rewrite_op(const rlx_rewrite *rewrite, rlx_node_id node) {
    return rewrite->graph->nodes.items[node].op;
}
static inline const void *rlx_rewrite_attrs(const rlx_rewrite *rewrite, rlx_node_id node) {
    return rewrite->graph->nodes.items[node].attrs;
}
/* The first output. Every op has one but control flow. */
static inline rlx_value_id rlx_rewrite_output(const rlx_rewrite *rewrite, rlx_node_id node) {
    return rewrite->graph->nodes.items[node].outputs[0];
}
bool rlx_rewrite_same_type(const rlx_rewrite *rewrite, const rlx_type *a, const rlx_type *b);
bool rlx_rewrite_has_extent(const rlx_type *type);

/* The live node that makes `value` with op `op` (RLX_OP_NONE: any op); RLX_NONE otherwise. */
rlx_node_id rlx_rewrite_producer(const rlx_rewrite *rewrite, rlx_value_id value, rlx_op op);
/* Whether what `node` computes may be computed where `root` stands instead: the same block, and no
 * state that it reads is written in between. */
bool rlx_rewrite_may_move(const rlx_rewrite *rewrite, rlx_node_id node, rlx_node_id root);
/* The producer of `value` if it can become a part of `root`: used once, may move there, and does
 * not turn a computation on weights into one of each run. */
rlx_node_id rlx_rewrite_inner(const rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id value,
                              rlx_op op);
/* The number in a constant of one element (any number dtype). */
bool rlx_rewrite_scalar(const rlx_rewrite *rewrite, rlx_value_id value, double *out_number);

/* Turns a node into another one with the same outputs. If the types of the outputs would change (or
 * the new node is not valid) it stays as it was and *out_done is false. out_done may be NULL. */
RLX_WARN_UNUSED rlx_status rlx_rewrite_node(rlx_rewrite *rewrite, rlx_node_id node, rlx_op op,
                                            const void *attrs, const rlx_value_id *inputs,
                                            uint32_t input_count, bool *out_done);
/* A new node with one new output, right before `anchor` (a node that was there at the start). */
RLX_WARN_UNUSED rlx_status rlx_rewrite_insert(rlx_rewrite *rewrite, rlx_node_id anchor, rlx_op op,
                                              const void *attrs, const rlx_value_id *inputs,
                                              uint32_t input_count, rlx_value_id *out_value);
/* `value` reshaped to `dims`, right before `anchor`; itself when it has that shape. */
RLX_WARN_UNUSED rlx_status rlx_rewrite_reshaped(rlx_rewrite *rewrite, rlx_node_id anchor,
                                                rlx_value_id value, const int64_t *dims,
                                                uint32_t rank, rlx_value_id *out_value);
/* A scalar constant; `dtype` is a float. */
RLX_WARN_UNUSED rlx_status rlx_rewrite_constant(rlx_rewrite *rewrite, rlx_dtype dtype,
                                                double number, rlx_value_id *out_value);
/* An f32 constant [rows][columns]. */
RLX_WARN_UNUSED rlx_status rlx_rewrite_matrix(rlx_rewrite *rewrite, const float *numbers,
                                              int64_t rows, int64_t columns,
                                              rlx_value_id *out_value);
/* `value` cast to `to`, right before `anchor`; itself when it has that dtype. */
RLX_WARN_UNUSED rlx_status rlx_rewrite_cast(rlx_rewrite *rewrite, rlx_node_id anchor,
                                            rlx_value_id value, rlx_dtype to,
                                            rlx_value_id *out_value);
/* Gives `node` another output, number 1: `value`, so far the only output of a node of the same
 * block and in use, is computed by `node` from now on, and its old producer dies. The caller has
 * checked that nothing before `node` uses it. */
RLX_WARN_UNUSED rlx_status rlx_rewrite_take_output(rlx_rewrite *rewrite, rlx_node_id node,
                                                   rlx_value_id value);
/* Removes a node with one output that equals `by` in type and content. Where the output's name must
 * live on (a model output), `by`'s producer takes the output over; where neither works the node
 * stays. */
void rlx_rewrite_bypass(rlx_rewrite *rewrite, rlx_node_id node, rlx_value_id by);

#endif
