/* SPDX-License-Identifier: Apache-2.0 */
/* Building a model: a graph of values (tensors) and nodes (ops).
 *
 *     rlx_graph_create(NULL, &graph);
 *     rlx_graph_add_input(graph, "x", RLX_DTYPE_F32, (rlx_shape){2, {1, 8}}, &x);
 *     rlx_graph_add_unary(graph, RLX_OP_RELU, x, &y);
 *     rlx_graph_add_output(graph, y, "y");
 *     rlx_session_create(NULL, graph, &session);
 *
 * A graph is used by one thread at a time. Ids are dense integers of one graph. An `add` call
 * checks arity, attributes and, once all input shapes are known numbers, dtypes and shapes; what
 * hangs on a symbolic dim is checked when a compile has bound it. A failed call leaves the graph as
 * it was. Errors, unless a function says more: RLX_INVALID_ARGUMENT (a null pointer, a number that
 * is no dtype, op or attribute value), RLX_NOT_FOUND (an id or name that the graph does not have),
 * RLX_INVALID_GRAPH (a rule is broken: the text names the node, the rule and the types),
 * RLX_UNSUPPORTED (correct, but not in this version), RLX_OUT_OF_MEMORY. */
#ifndef RLX_GRAPH_H
#define RLX_GRAPH_H

#include <rlx/ops.h>
#include <rlx/value.h>

RLX_BEGIN_DECLS

typedef struct rlx_graph rlx_graph;
typedef uint32_t rlx_node_id;

/* `allocator` may be NULL (the default), else it outlives the graph. The graph is owned by the
 * caller, until rlx_session_create consumes it. */
RLX_CALL rlx_status rlx_graph_create(const rlx_allocator *allocator, rlx_graph **out_graph);
RLX_API void rlx_graph_destroy(rlx_graph *graph); /* NULL is allowed */

/* The dim that stands for a named size ("batch"); the same name gives the same dim. It goes into a
 * shape like a number, and gets its value when the model is compiled (rlx_binding). */
RLX_CALL rlx_status rlx_graph_symbol(rlx_graph *graph, const char *name, int64_t *out_dim);

/* Values that no node computes: inputs, parameters, constants, states. Names are copied. A name
 * must be new in the graph; NULL or "" gives a made-up one ("%12").
 *
 * A parameter's `source` may be NULL: enough for a plan, not for a program. Its size must be that
 * of the value (RLX_LENGTH_MISMATCH). Memory is borrowed until a program was created; files are
 * opened then. */
RLX_CALL rlx_status rlx_graph_add_input(rlx_graph *graph, const char *name, rlx_dtype dtype,
                                        rlx_shape shape, rlx_value_id *out_value);
RLX_CALL rlx_status rlx_graph_add_parameter(rlx_graph *graph, const char *name, rlx_dtype dtype,
                                            rlx_shape shape, const rlx_source *source,
                                            rlx_value_id *out_value);
/* `data` has `bytes` bytes and is copied; the size must fit dtype and shape. */
RLX_CALL rlx_status rlx_graph_add_constant(rlx_graph *graph, const char *name, rlx_dtype dtype,
                                           rlx_shape shape, const void *data, uint64_t bytes,
                                           rlx_value_id *out_value);
RLX_CALL rlx_status rlx_graph_add_state(rlx_graph *graph, const char *name, rlx_dtype dtype,
                                        rlx_shape shape, rlx_value_id *out_value);

/* Gives a value another name, for messages, plans and lookups. RLX_INVALID_GRAPH: it is taken. */
RLX_CALL rlx_status rlx_graph_rename(rlx_graph *graph, rlx_value_id value, const char *name);

/* Makes a value an output of the model under `name` (NULL: the value's own name). One value may be
 * several outputs. A state gives what the run left in it; one that a state_write of the main block
 * wrote is an output as the value that the write gave, and refused at compile under older names.
 * RLX_INVALID_GRAPH: the value belongs to a block, or the name is taken. */
RLX_CALL rlx_status rlx_graph_add_output(rlx_graph *graph, rlx_value_id value, const char *name);

/* The general form of every op. `attrs` is the op's struct (NULL: all zero) and is copied.
 * `inputs` may hold RLX_NONE where the op allows an absent input. out_values receives
 * `output_count` ids. For ops with blocks see rlx_graph_begin_block. */
RLX_CALL rlx_status rlx_graph_add_node(rlx_graph *graph, rlx_op op, const void *attrs,
                                       const rlx_value_id *inputs, uint32_t input_count,
                                       uint32_t output_count, rlx_value_id *out_values);

/* Short forms; each adds one node with one output and the op's default attributes, or those given.
 * An output may go to the variable that held an input. */
RLX_CALL rlx_status rlx_graph_add_unary(rlx_graph *graph, rlx_op op, rlx_value_id x,
                                        rlx_value_id *out_y);
RLX_CALL rlx_status rlx_graph_add_binary(rlx_graph *graph, rlx_op op, rlx_value_id a,
                                         rlx_value_id b, rlx_value_id *out_y);
RLX_CALL rlx_status rlx_graph_add_matmul(rlx_graph *graph, rlx_value_id a, rlx_value_id b,
                                         rlx_value_id *out_y);
RLX_CALL rlx_status rlx_graph_add_conv(rlx_graph *graph, rlx_value_id x, rlx_value_id w,
                                       rlx_value_id bias, const rlx_conv_attrs *attrs,
                                       rlx_value_id *out_y);
RLX_CALL rlx_status rlx_graph_add_softmax(rlx_graph *graph, rlx_value_id x, int64_t axis,
                                          rlx_value_id *out_y);
RLX_CALL rlx_status rlx_graph_add_reshape(rlx_graph *graph, rlx_value_id x, rlx_shape shape,
                                          rlx_value_id *out_y);
RLX_CALL rlx_status rlx_graph_add_transpose(rlx_graph *graph, rlx_value_id x, const int64_t *perm,
                                            uint32_t rank, rlx_value_id *out_y);
RLX_CALL rlx_status rlx_graph_add_concat(rlx_graph *graph, const rlx_value_id *inputs,
                                         uint32_t count, int64_t axis, rlx_value_id *out_y);

/* Blocks of `if` and `loop`. Between begin and end, nodes are added to the block and may use values
 * from outside it. begin returns the block's input values (`loop`: i64 iteration, then one per
 * carried value, typed like them); end gives what it yields. Then rlx_graph_add_flow adds the node
 * with its finished blocks: (then, else) or (body). */
typedef uint32_t rlx_block_id;
RLX_CALL rlx_status rlx_graph_begin_block(rlx_graph *graph, const rlx_value_id *like,
                                          uint32_t input_count, rlx_value_id *out_inputs,
                                          rlx_block_id *out_block);
RLX_CALL rlx_status rlx_graph_end_block(rlx_graph *graph, rlx_block_id block,
                                        const rlx_value_id *yields, uint32_t yield_count);
RLX_CALL rlx_status rlx_graph_add_flow(rlx_graph *graph, rlx_op op, const void *attrs,
                                       const rlx_value_id *inputs, uint32_t input_count,
                                       const rlx_block_id *blocks, uint32_t block_count,
                                       uint32_t output_count, rlx_value_id *out_values);

/* Looking around. Counts and names by index are for walks over the whole graph: values and nodes
 * have the ids 0 .. count - 1. Texts are borrowed from the graph. */
typedef struct rlx_value_info {
    const char *name; /* borrowed from the graph */
    rlx_value_kind kind;
    bool is_typed; /* dtype and shape below are known (dims may be symbols) */
    rlx_dtype dtype;
    rlx_shape shape;
} rlx_value_info;
RLX_CALL rlx_status rlx_graph_value(const rlx_graph *graph, rlx_value_id value,
                                    rlx_value_info *out_info);
RLX_CALL rlx_status rlx_graph_find(const rlx_graph *graph, const char *name,
                                   rlx_value_id *out_value);
/* Where a parameter's bytes come from; its path is borrowed from the graph. RLX_INVALID_ARGUMENT
 * for a value that is no parameter. */
RLX_CALL rlx_status rlx_graph_parameter_source(const rlx_graph *graph, rlx_value_id value,
                                               rlx_source *out_source);
/* Looks at a node. Nodes of blocks are among them; a node's inputs come before it in its block. */
typedef struct rlx_node_info {
    rlx_op op;
    uint32_t input_count, output_count;
    const rlx_value_id *inputs, *outputs; /* borrowed until the graph changes */
} rlx_node_info;
RLX_CALL rlx_status rlx_graph_node(const rlx_graph *graph, rlx_node_id node,
                                   rlx_node_info *out_info);
RLX_API uint32_t rlx_graph_value_count(const rlx_graph *graph);
RLX_API uint32_t rlx_graph_node_count(const rlx_graph *graph);
RLX_API uint32_t rlx_graph_output_count(const rlx_graph *graph);
/* The name under which output `index` is known; NULL past the end. */
RLX_API const char *rlx_graph_output_name(const rlx_graph *graph, uint32_t index);
RLX_API uint32_t rlx_graph_symbol_count(const rlx_graph *graph);
RLX_API const char *rlx_graph_symbol_name(const rlx_graph *graph, uint32_t index); /* or NULL */
/* The name of a symbolic dim; NULL for a number. */
RLX_API const char *rlx_graph_dim_symbol(const rlx_graph *graph, int64_t dim);
RLX_API rlx_value_id rlx_graph_output(const rlx_graph *graph,
                                      uint32_t index); /* RLX_NONE past the end */

/* Accepts, or names the node, the rule and the values that break it (RLX_INVALID_GRAPH). A compile
 * calls it first. */
RLX_CALL rlx_status rlx_graph_verify(const rlx_graph *graph);

/* The text form (docs/text-format.md); parsing it gives the same graph. The string is owned:
 * rlx_string_free. Parameters whose data stands in the text borrow it from the parsed graph, which
 * must live until a program is created. Errors name line and column; detail.line has the line. */
RLX_CALL rlx_status rlx_graph_print(const rlx_graph *graph, char **out_text);
RLX_CALL rlx_status rlx_graph_parse(const rlx_allocator *allocator, const char *text,
                                    uint64_t bytes, rlx_graph **out_graph);

RLX_END_DECLS

#endif
