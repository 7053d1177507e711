/* SPDX-License-Identifier: Apache-2.0 */
/* The first waist from inside: what importers fill and passes rewrite. Everything that a graph
 * points to lives in its own scratch memory (or in that of the graph that it shares it with), so
 * removing a node is marking it. Knows nothing of
 * plans, devices or files. */
#ifndef RLX_IR_GRAPH_H
#define RLX_IR_GRAPH_H

#include "base/vec.h"
#include "ir/op.h"
#include "ir/source.h"
#include "ir/type.h"

#include <rlx/graph.h>

/* Where the bytes of a parameter are. */
typedef struct rlx_weight {
    rlx_source source;
    rlx_source_window window; /* the part of the source that it is; rows 0: all of it */
} rlx_weight;

/* Models have many values, so what few of them need is out of line. */
typedef struct rlx_value {
    const char *name; /* never NULL, unique */
    rlx_type type;
    const void *data; /* constants: row-major bytes */
    uint64_t data_bytes;
    const rlx_weight *weight; /* parameters: never NULL; replace, do not edit */
    rlx_value_kind kind;
    rlx_node_id producer; /* RLX_NONE for inputs, parameters, constants, states, block inputs */
    uint32_t producer_output;
    rlx_block_id block; /* where it is defined; 0 is the main block */
    bool is_typed;
} rlx_value;

typedef struct rlx_node {
    rlx_op op;
    bool is_dead; /* removed by a pass */
    rlx_block_id block;
    const void *attrs; /* the op's struct; never NULL; replace, do not edit */
    rlx_value_id *inputs;
    rlx_value_id *outputs; /* RLX_NONE: an optional output that nobody wants */
    uint32_t input_count, output_count;
    rlx_block_id blocks[2]; /* of control flow; RLX_NONE otherwise */
} rlx_node;

/* Nodes run in the order of the list. Block inputs are TEMPORARY values without producer. */
typedef struct rlx_block {
    RLX_VEC(rlx_node_id) nodes;
    rlx_value_id *inputs;
    rlx_value_id *yields;
    uint32_t input_count, yield_count;
    rlx_block_id parent;
    rlx_node_id owner; /* the flow node; RLX_NONE for main and for blocks not yet attached */
    bool is_open;
} rlx_block;

typedef struct rlx_output {
    rlx_value_id value;
    const char *name;
} rlx_output;

struct rlx_graph {
    rlx_allocator hook;             /* a copy of the caller's */
    const rlx_allocator *allocator; /* &hook */
    rlx_scratch memory;             /* owned: names, attributes, lists, constant data */
    RLX_VEC(rlx_value) values;
    RLX_VEC(rlx_node) nodes;
    RLX_VEC(rlx_block) blocks; /* 0 is main */
    RLX_VEC(const char *) symbols;
    RLX_VEC(rlx_output) outputs;
    RLX_VEC(uint32_t) names; /* open hash of value ids by name; used while building only */
    uint32_t renamed;        /* cells of `names` that hold a name no longer in use */
    uint32_t made;           /* made-up names have been numbered up to here */
    rlx_block_id current;    /* where new nodes go */
    const char *path;        /* of the last weight in a file; NULL: none yet */
};

/* Symbols as dims: symbol s is the dim -1 - s. */
static inline bool rlx_dim_is_symbol(int64_t dim) {
    return dim < 0 && dim != RLX_DIM_UNKNOWN;
}
static inline uint32_t rlx_dim_symbol(int64_t dim) {
    return (uint32_t)(-1 - dim);
}
static inline int64_t rlx_symbol_dim(uint32_t symbol) {
    return -1 - (int64_t)symbol;
}

/* Building blocks for importers and passes beyond the public API. */
RLX_WARN_UNUSED rlx_status rlx_graph_new_value(rlx_graph *graph, const char *name,
                                               rlx_value_kind kind, rlx_value_id *out_value);
/* Adds a node with given (already made) output values, in `block`, before position `before` of its
 * list (UINT32_MAX: at the end). Infers the output types when it can. */
RLX_WARN_UNUSED rlx_status rlx_graph_insert_node(rlx_graph *graph, rlx_block_id block,
                                                 uint32_t before, rlx_op op, const void *attrs,
                                                 const rlx_value_id *inputs, uint32_t input_count,
                                                 const rlx_value_id *outputs, uint32_t output_count,
                                                 rlx_node_id *out_node);
/* The same for control flow, at the end of the open block, with finished blocks. */
RLX_WARN_UNUSED rlx_status rlx_graph_insert_flow(rlx_graph *graph, rlx_op op, const void *attrs,
                                                 const rlx_value_id *inputs, uint32_t input_count,
                                                 const rlx_block_id *blocks, uint32_t block_count,
                                                 const rlx_value_id *outputs, uint32_t output_count,
                                                 rlx_node_id *out_node);
/* Forgets the values from `first` on: for a call that failed half way. */
void rlx_graph_drop_values(rlx_graph *graph, uint32_t first);
/* Fills the table of names anew, and makes it smaller where it is far too large. */
void rlx_graph_rehash(rlx_graph *graph);
/* Copies an attribute struct (and its lists) into the graph's memory. */
RLX_WARN_UNUSED rlx_status rlx_graph_copy_attrs(rlx_graph *graph, rlx_op op, const void *attrs,
                                                const void **out_attrs);
/* A deep copy, dead nodes left out of the block lists; ids stay the same. */
RLX_WARN_UNUSED rlx_status rlx_graph_clone(const rlx_graph *graph, const rlx_allocator *allocator,
                                           rlx_graph **out_graph);
/* The same, but names, attributes, sources and data stay where they are: `graph` must outlive the
 * copy. None of them is ever edited, so either may be changed. */
RLX_WARN_UNUSED rlx_status rlx_graph_share(const rlx_graph *graph, const rlx_allocator *allocator,
                                           rlx_graph **out_graph);
/* Leaves out dead nodes, and values that no node, block or output names; inputs and states stay.
 * Ids change, their order does not. */
RLX_WARN_UNUSED rlx_status rlx_graph_compact(rlx_graph *graph);
/* A copy of a path in the graph's memory. Most weights of a model lie in one file: the same one
 * again is kept once. */
RLX_WARN_UNUSED rlx_status rlx_graph_keep_path(rlx_graph *graph, const char *path,
                                               const char **out_path);
/* A copy of `weight` in the graph's memory; its path is taken as it is. */
RLX_WARN_UNUSED rlx_status rlx_graph_keep_weight(rlx_graph *graph, const rlx_weight *weight,
                                                 const rlx_weight **out_weight);
/* How often each value is used as an input, yield or output; `counts` has value_count entries. */
void rlx_graph_count_uses(const rlx_graph *graph, uint32_t *counts);
/* "node 'y' (matmul)": for messages; named by its first output. */
const char *rlx_node_text(const rlx_graph *graph, rlx_node_id node, char *buffer, size_t bytes);

/* Types one node from its inputs; RLX_OK without doing anything when an input is untyped or has an
 * unknown or symbolic dim. Errors name the node. */
RLX_WARN_UNUSED rlx_status rlx_graph_infer_node(rlx_graph *graph, rlx_node_id node);
/* Types all values in block order, blocks of flow nodes included. */
RLX_WARN_UNUSED rlx_status rlx_graph_infer(rlx_graph *graph);

#endif
