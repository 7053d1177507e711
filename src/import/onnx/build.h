/* SPDX-License-Identifier: Apache-2.0 */
/* Turning ONNX nodes into graph nodes. A build is one specialisation: every size is a number, so
 * handlers see types, and values that follow from constants are constants at once.
 *
 * The helpers (ox_*) stick: after a failure they do nothing and give RLX_NONE, and the handler's
 * caller finds the status in `ox.status`. So handlers read like formulae:
 *
 *     ox_give(o, 0, ox_binary(o, RLX_OP_MUL, x, ox_unary(o, RLX_OP_SIGMOID, x)));
 */
#ifndef RLX_IMPORT_ONNX_BUILD_H
#define RLX_IMPORT_ONNX_BUILD_H

#include "base/text.h"
#include "import/import.h"
#include "import/onnx/proto.h"
#include "ir/graph.h"

/* What an ONNX name stands for. Sequences and optionals exist only here. */
typedef enum ox_kind {
    OX_UNKNOWN = 0, /* of a node that is not supported: nothing more is said about it */
    OX_NONE,        /* an absent optional input */
    OX_TENSOR,
    OX_STRINGS,  /* a tensor of strings: u8 [..][bytes], each filled up with zeros */
    OX_SEQUENCE, /* `count` items */
    OX_EMPTY     /* an optional that holds nothing */
} ox_kind;

typedef struct ox_item {
    ox_kind kind;
    rlx_value_id value;
    const struct ox_item *items;
    uint32_t count;
} ox_item;

/* A name in scope; a later one hides it. */
typedef struct ox_name {
    const char *name;
    ox_item item;
    uint32_t next; /* in the same cell, or RLX_NONE */
    uint32_t cell;
} ox_name;

/* The attributes of a function call, for references from its body. */
typedef struct ox_call {
    const rlx_onnx_node *node;
    const rlx_onnx_function *function;
    const struct ox_call *outer;
} ox_call;

/* The domain of ONNX Runtime's own ops. */
#define OX_MICROSOFT "com.microsoft"

/* OX_MOST_NUMBERS: of a constant that an op makes from sizes alone. */
enum { OX_CELLS = 4096, OX_MOST_NUMBERS = 1 << 24 };

typedef struct ox {
    const rlx_onnx_model *model;
    rlx_onnx_model *lasting; /* the same, for what is made once for all builds */
    const rlx_import_options *options;
    rlx_graph *graph; /* being built */
    rlx_scratch memory;
    RLX_VEC(ox_name) names;
    uint32_t cells[OX_CELLS];
    bool *is_bound;     /* per model input: its value is a constant of this build */
    bool *has_value;    /* per model input: the caller offers one */
    bool lends_memory;  /* a weight lies in the decoded model, not in the file */
    bool wants_restart; /* a value that decides shapes was asked for: build again with it */
    int64_t *symbol_values;
    const char **symbols;
    uint32_t symbol_count;
    rlx_text problems; /* one line per unsupported node */
    uint32_t problem_count;
    struct ox_growth *growth;   /* inputs that became states; NULL: nothing grows (growth.h) */
    struct ox_cut_places *cuts; /* what run-time slices have counted so far (extent.c) */
    uint32_t depth;
    bool is_placed;   /* the failure says in which node */
    uint32_t base;    /* where the names of the innermost body begin */
    uint32_t inlined; /* nodes so far, functions and unrolled bodies included */
    rlx_status status;
    /* the node being mapped */
    const rlx_onnx_node *node;
    const ox_call *call;
    const rlx_onnx_opset *opsets;
    uint32_t opset_count;
    int64_t opset, since; /* of the node's domain in the model; of the op's row that fits it */
    rlx_op op;            /* third column of map.def */
    ox_item *in, *out;
    uint32_t in_count, out_count;
} ox;

typedef void (*ox_handler)(ox *o);

/* Failures. The first one stays. */
void ox_fail(ox *o, rlx_status status);
void ox_unsupported(ox *o, const char *format, ...) RLX_PRINTF(2, 3);
void ox_invalid(ox *o, const char *format, ...) RLX_PRINTF(2, 3);
static inline bool ox_ok(const ox *o) {
    return o->status == RLX_OK;
}

/* Inputs and outputs of the node. */
bool ox_has(const ox *o, uint32_t index);
rlx_value_id ox_in(ox *o, uint32_t index);      /* a tensor that must be there */
rlx_value_id ox_maybe(ox *o, uint32_t index);   /* RLX_NONE when absent */
rlx_value_id ox_strings(ox *o, uint32_t index); /* the bytes of a tensor of strings */
bool ox_wants(const ox *o, uint32_t index);     /* whether output `index` has a name */
void ox_give(ox *o, uint32_t index, rlx_value_id value);
void ox_give_item(ox *o, uint32_t index, ox_item item);

/* Attributes, with defaults. A wrong type is invalid. */
const rlx_onnx_attr *ox_attr(ox *o, const char *name);
int64_t ox_int(ox *o, const char *name, int64_t otherwise);
double ox_float(ox *o, const char *name, double otherwise);
const char *ox_text(ox *o, const char *name, const char *otherwise);
bool ox_ints(ox *o, const char *name, rlx_ints *out_ints); /* false: not there */
/* Attributes that only one value is understood of; what else is unsupported, by name. */
void ox_only_int(ox *o, const char *name, int64_t only);

/* What is known of a value. */
rlx_type ox_type(const ox *o, rlx_value_id value);
uint32_t ox_rank(const ox *o, rlx_value_id value);
int64_t ox_dim(const ox *o, rlx_value_id value, uint32_t axis); /* axis within the rank */
rlx_dtype ox_dtype(const ox *o, rlx_value_id value);
int64_t ox_elements(ox *o, rlx_value_id value);
bool ox_is_float(const ox *o, rlx_value_id value);
bool ox_has_extent(const ox *o, rlx_value_id value);
bool ox_is_constant(const ox *o, rlx_value_id value);
uint32_t ox_axis(ox *o, int64_t axis, uint32_t rank); /* negative from the end; else invalid */

/* Checked arithmetic on sizes: past 64 bits is invalid, and gives 0. */
int64_t ox_times(ox *o, int64_t a, int64_t b);
int64_t ox_plus(ox *o, int64_t a, int64_t b);

/* The numbers of a value that decides shapes. What is computed from model inputs asks for those
 * inputs' values and makes the build begin again; what only a run knows is unsupported. */
bool ox_need(ox *o, rlx_value_id value);
bool ox_is_run_time(ox *o, rlx_value_id value); /* no input's value would make it known */
bool ox_need_ints(ox *o, rlx_value_id value, rlx_ints *out_ints);
bool ox_need_list(ox *o, rlx_value_id value, int64_t **out_items, uint32_t *out_count);
bool ox_need_doubles(ox *o, rlx_value_id value, double **out_items, uint32_t *out_count);
int64_t ox_need_int(ox *o, rlx_value_id value); /* of one element */
double ox_need_double(ox *o, rlx_value_id value);
/* An element of a constant: integers exactly, floats cut off and clamped (NaN: the least). */
int64_t ox_number_at(const ox *o, rlx_value_id value, int64_t index);

/* Makes a weight of integers that are places (indices of ScatterND) a constant, so that passes may
 * look at them; a large one stays a weight. */
void ox_see_indices(ox *o, rlx_value_id value);

/* Nodes. Attributes may be NULL; absent inputs are RLX_NONE. */
void ox_nodes(ox *o, rlx_op op, const void *attrs, const rlx_value_id *inputs, uint32_t input_count,
              rlx_value_id *out_values, uint32_t output_count);
rlx_value_id ox_node(ox *o, rlx_op op, const void *attrs, const rlx_value_id *inputs,
                     uint32_t input_count);
rlx_value_id ox_unary(ox *o, rlx_op op, rlx_value_id x);
rlx_value_id ox_binary(ox *o, rlx_op op, rlx_value_id a, rlx_value_id b);
rlx_value_id ox_where(ox *o, rlx_value_id condition, rlx_value_id a, rlx_value_id b);
rlx_value_id ox_cast(ox *o, rlx_value_id x, rlx_dtype to); /* nothing when it is that already */
rlx_value_id ox_reshape(ox *o, rlx_value_id x, const int64_t *dims, uint32_t rank);
rlx_value_id ox_reshape_like(ox *o, rlx_value_id x, rlx_value_id like);
rlx_value_id ox_transpose(ox *o, rlx_value_id x, const int64_t *perm, uint32_t rank);
rlx_value_id ox_unsqueeze(ox *o, rlx_value_id x, int64_t axis);
rlx_value_id ox_squeeze(ox *o, rlx_value_id x, int64_t axis);
rlx_value_id ox_slice(ox *o, rlx_value_id x, int64_t axis, int64_t start, int64_t end,
                      int64_t step);
rlx_value_id ox_concat(ox *o, const rlx_value_id *parts, uint32_t count, int64_t axis);
rlx_value_id ox_expand(ox *o, rlx_value_id x, const int64_t *dims, uint32_t rank);
rlx_value_id ox_gather(ox *o, rlx_value_id x, rlx_value_id indices, int64_t axis);
rlx_value_id ox_reduce(ox *o, rlx_op op, rlx_value_id x, const int64_t *axes, uint32_t count,
                       bool keep_dims);
rlx_value_id ox_matmul(ox *o, rlx_value_id a, rlx_value_id b);
rlx_value_id ox_scaled(ox *o, rlx_value_id x, double factor);
/* Parts of the given sizes along an axis. */
void ox_split(ox *o, rlx_value_id x, int64_t axis, const int64_t *sizes, uint32_t count,
              rlx_value_id *out_parts);

/* Constants. ox_scalar has rank 0 and rounds the number to the dtype. */
rlx_value_id ox_constant(ox *o, rlx_dtype dtype, const int64_t *dims, uint32_t rank,
                         const void *data, uint64_t bytes);
rlx_value_id ox_scalar(ox *o, rlx_dtype dtype, double number);
rlx_value_id ox_i64s(ox *o, const int64_t *items, uint32_t count);
rlx_value_id ox_doubles(ox *o, rlx_dtype dtype, const double *items, const int64_t *dims,
                        uint32_t rank);
rlx_value_id ox_range(ox *o, rlx_dtype dtype, int64_t count); /* 0 .. count - 1 */
rlx_value_id ox_tensor(ox *o, const rlx_onnx_tensor *tensor, const char *name);
ox_item ox_tensor_item(ox *o, const rlx_onnx_tensor *tensor, const char *name); /* or strings */

/* Memory that lives as long as the build. NULL after a failure. */
void *ox_memory(ox *o, uint64_t count, uint64_t item_bytes);

/* Names and bodies, for control flow. */
uint32_t ox_scope(const ox *o); /* to be handed to ox_leave */
void ox_leave(ox *o, uint32_t scope);
void ox_define(ox *o, const char *name, ox_item item);
bool ox_find(const ox *o, const char *name, ox_item *out_item);
/* Maps the nodes of a graph whose inputs are defined, in a scope of its own; its outputs go to
 * `out`. */
void ox_body(ox *o, const rlx_onnx_graph *graph, const ox_item *inputs, uint32_t input_count,
             ox_item *out);
/* The nodes of a graph in an order in which each comes after what it needs; a cycle is invalid. */
uint32_t *ox_order(ox *o, const rlx_onnx_graph *graph, uint32_t *out_count);
static inline ox_item ox_item_of(rlx_value_id value) {
    return (ox_item){.kind = OX_TENSOR, .value = value};
}

/* The table of ops (map.def). NULL: none. */
ox_handler ox_find_handler(const char *domain, const char *op, int64_t opset, int64_t *out_since,
                           rlx_op *out_op, const char **out_reason);

#endif
