/* SPDX-License-Identifier: Apache-2.0 */
/* Ops and their attribute structs. A zeroed struct has the defaults that are written here; an unset
 * number that must not be 0 (a stride, a group count) means 1. What each op does is in ops.def, and
 * as a table in docs/ops.md. Negative axes count from the end, everywhere. */
#ifndef RLX_OPS_H
#define RLX_OPS_H

#include <rlx/dtype.h>

RLX_BEGIN_DECLS

/* How a value lies in memory: in rows (strides), or packed for a kernel. rlx/layouts.def. */
typedef enum rlx_layout {
#define RLX_LAYOUT(upper, lower, order) RLX_LAYOUT_##upper,
#include <rlx/layouts.def>
#undef RLX_LAYOUT
    RLX_LAYOUT_COUNT
} rlx_layout;

/* Dims of a tensor, and items of an rlx_ints, at most. */
enum { RLX_MAX_RANK = 8, RLX_MAX_INTS = 16 };

typedef enum rlx_op {
    RLX_OP_NONE = 0,
#define RLX_OP(upper, lower, family, in_least, in_most, out_least, out_most, attrs, flags) \
    RLX_OP_##upper,
#include <rlx/ops.def>
#undef RLX_OP
    RLX_OP_COUNT
} rlx_op;

/* "matmul", or "?" for a number that is no op; and back, RLX_NOT_FOUND for no op's name. */
RLX_API const char *rlx_op_name(rlx_op op);
RLX_CALL rlx_status rlx_op_from_name(const char *name, rlx_op *out_op);

/* What an op takes and gives, in words, for tables and help. RLX_NOT_FOUND: no op. */
typedef struct rlx_op_description {
    const char *name;
    char inputs[24], outputs[24]; /* "2", "1 to 4", "1 or more" */
    char attributes[256];         /* "axis, keep_dims" */
} rlx_op_description;
RLX_CALL rlx_status rlx_op_describe(rlx_op op, rlx_op_description *out_description);

/* A short list of integers: axes, pads, a permutation. */
typedef struct rlx_ints {
    uint32_t count;
    int64_t items[RLX_MAX_INTS];
} rlx_ints;

/* A list of any length; the graph keeps its own copy. */
typedef struct rlx_list {
    uint32_t count;
    const int64_t *items;
} rlx_list;

/* What a matmul or conv applies before it stores: a unary op with its alpha and beta, or NONE. */
typedef struct rlx_activation {
    rlx_op op;
    double alpha, beta;
} rlx_activation;

/* How a conv or pool is padded. */
typedef enum rlx_auto_pad {
    RLX_AUTO_PAD_EXPLICIT = 0, /* the pads attribute */
    RLX_AUTO_PAD_SAME_UPPER,   /* the odd pad at the end; how many outputs: see ops.def */
    RLX_AUTO_PAD_SAME_LOWER,   /* the same, the odd pad at the beginning */
    RLX_AUTO_PAD_VALID         /* none */
} rlx_auto_pad;

/* What stands outside the tensor: a number, or elements of it. Of a b c d: */
typedef enum rlx_pad_mode {
    RLX_PAD_CONSTANT = 0,
    RLX_PAD_REFLECT, /* c b | a b c d | c b */
    RLX_PAD_EDGE,    /* a a | a b c d | d d */
    RLX_PAD_WRAP     /* c d | a b c d | a b */
} rlx_pad_mode;

/* What an update does to the element that it meets. */
typedef enum rlx_scatter_mode {
    RLX_SCATTER_SET = 0, /* replaces it; of several the last */
    RLX_SCATTER_ADD,
    RLX_SCATTER_MUL,
    RLX_SCATTER_MIN,
    RLX_SCATTER_MAX
} rlx_scatter_mode;

/* Which way a recurrent layer walks its sequence. */
typedef enum rlx_direction {
    RLX_DIRECTION_FORWARD = 0,
    RLX_DIRECTION_REVERSE,      /* from the last element to the first */
    RLX_DIRECTION_BIDIRECTIONAL /* one layer each way */
} rlx_direction;

/* What a gate of a recurrent layer applies. */
typedef enum rlx_gate_kind {
    RLX_GATE_DEFAULT = 0, /* sigmoid for the gates (f of lstm and gru), else tanh */
    RLX_GATE_SIGMOID,
    RLX_GATE_TANH,
    RLX_GATE_RELU,
    RLX_GATE_AFFINE, /* alpha x + beta */
    RLX_GATE_LEAKY_RELU,
    RLX_GATE_THRESHOLDED_RELU,
    RLX_GATE_SCALED_TANH, /* alpha tanh(beta x) */
    RLX_GATE_HARD_SIGMOID,
    RLX_GATE_ELU,
    RLX_GATE_SOFTSIGN,
    RLX_GATE_SOFTPLUS
} rlx_gate_kind;

typedef struct rlx_gate {
    rlx_gate_kind kind;
    double alpha, beta; /* meaning per kind, as of the unary ops; no defaults are implied */
} rlx_gate;

typedef struct rlx_none_attrs {
    uint8_t unused;
} rlx_none_attrs;

typedef struct rlx_unary_attrs {
    double alpha, beta; /* meaning per op: see ops.def; no defaults are implied */
} rlx_unary_attrs;

typedef struct rlx_cast_attrs {
    rlx_dtype to; /* float to integer truncates towards zero, saturates, NaN gives 0 */
} rlx_cast_attrs;

typedef struct rlx_chain_attrs {
    rlx_list code; /* src/ir/chain.h */
} rlx_chain_attrs;

typedef struct rlx_matmul_attrs {
    bool transpose_a, transpose_b; /* the last two axes */
    bool gated;                    /* the residual multiplies: act(alpha a b + bias) * residual */
    double alpha;                  /* 0 means 1 */
    rlx_dtype to; /* output dtype when has_to (i32 for 8-bit operands); else that of a, or f32 */
    bool has_to;
    int64_t zero; /* matmul_quantised to 8 bits: what is added to them */
    rlx_activation activation;
} rlx_matmul_attrs;

/* Lists have one item per spatial axis (pads: all begins, then all ends); empty means default. */
typedef struct rlx_conv_attrs {
    rlx_ints strides, dilations, pads, output_padding;
    int64_t groups; /* 0 means 1 */
    rlx_auto_pad auto_pad;
    rlx_activation activation;
    int64_t channel_block; /* conv: channels of y lie in blocks of so many; 0: they do not */
    int64_t winograd;      /* conv: w is for tiles of so many outputs per axis (2 or 4); 0: taps */
    int64_t merged;        /* conv: a group is so many that do not see each other; 0 means 1 */
} rlx_conv_attrs;

typedef struct rlx_conv_quantised_attrs {
    rlx_conv_attrs conv; /* without output_padding and activation */
    rlx_dtype to;        /* of y: u8, i8, f32 or i32 */
    double least, most;  /* of v */
    int64_t y_zero;
    double inner_scale, residual_scale, y_scale; /* these are of the residual alone */
    int64_t residual_zero;
    double y_least, y_most;
} rlx_conv_quantised_attrs;

typedef struct rlx_pool_attrs {
    rlx_ints kernel, strides, dilations, pads;
    rlx_auto_pad auto_pad;
    bool ceil_mode;         /* sizes are rounded up: also a last window that is cut */
    bool count_include_pad; /* average: padding counts as zeros */
    bool is_blocked;        /* x is [N][C / b][spatial..][b], see conv; no indices then */
} rlx_pool_attrs;

typedef struct rlx_reduce_attrs {
    rlx_ints axes;  /* empty: all */
    bool keep_dims; /* reduced dims stay as 1 */
} rlx_reduce_attrs;

typedef struct rlx_arg_attrs {
    int64_t axis;
    bool keep_dims;
    bool select_last; /* of equal ones; else the first */
} rlx_arg_attrs;

typedef struct rlx_top_k_attrs {
    int64_t k, axis;
    bool smallest, unsorted; /* unsorted: order is free (we sort all the same) */
} rlx_top_k_attrs;

typedef struct rlx_cumsum_attrs {
    int64_t axis;
    bool exclusive; /* without the element itself: begins with 0 */
    bool reverse;   /* from the end */
} rlx_cumsum_attrs;

typedef struct rlx_axis_attrs {
    int64_t axis; /* negative counts from the end */
} rlx_axis_attrs;

typedef struct rlx_axes_attrs {
    rlx_ints axes;
} rlx_axes_attrs;

typedef struct rlx_norm_attrs {
    int64_t axis;   /* layer, rms: first normalised axis */
    int64_t groups; /* group norm */
    double epsilon;
} rlx_norm_attrs;

typedef struct rlx_attention_attrs {
    double scale;   /* 0 means 1 / sqrt(D) */
    double softcap; /* 0: none; else s -> softcap tanh(s / softcap) */
    int64_t window; /* 0: none */
    bool causal;
} rlx_attention_attrs;

typedef struct rlx_rope_attrs {
    double theta;       /* base of the frequencies; 0 means 10000 */
    int64_t rotary_dim; /* 0 means D; the rest passes through */
    bool interleaved;   /* pairs (2i, 2i + 1) instead of (i, i + rotary_dim / 2) */
} rlx_rope_attrs;

typedef struct rlx_gather_nd_attrs {
    int64_t batch_dims;
} rlx_gather_nd_attrs;

typedef struct rlx_scatter_attrs {
    int64_t axis; /* scatter_elements */
    rlx_scatter_mode mode;
} rlx_scatter_attrs;

/* Empty axes: the first axes; empty steps: 1. Out-of-range starts and ends are cut as in ONNX. */
typedef struct rlx_slice_attrs {
    rlx_ints starts, ends, axes, steps;
} rlx_slice_attrs;

typedef struct rlx_split_attrs {
    int64_t axis;
    rlx_list sizes; /* empty: equal parts, the last may be smaller */
} rlx_split_attrs;

typedef struct rlx_pad_attrs {
    rlx_ints pads; /* all begins, then all ends; negative removes */
    rlx_pad_mode mode;
    double value;
} rlx_pad_attrs;

typedef struct rlx_transpose_attrs {
    rlx_ints perm; /* empty: reversed */
} rlx_transpose_attrs;

typedef struct rlx_pack_attrs {
    rlx_layout layout; /* of the output */
} rlx_pack_attrs;

typedef struct rlx_reshape_attrs {
    rlx_ints shape;
} rlx_reshape_attrs;

typedef struct rlx_state_write_attrs {
    int64_t axis;
    bool wrap; /* position modulo the capacity instead of a fault */
} rlx_state_write_attrs;

/* f, g and h of ONNX: lstm has three (gates, candidate, output), gru two (gates, candidate), rnn
 * one; back_*: those of the second direction of a bidirectional layer. */
typedef struct rlx_recurrent_attrs {
    rlx_direction direction;
    bool batch_first;         /* layout 1 of ONNX */
    bool linear_before_reset; /* gru: the reset gate multiplies after the product with r */
    bool input_forget;        /* lstm: the forget gate is 1 - the input gate */
    double clip;              /* 0: none; else what goes into f, g, h is cut to -clip .. clip */
    rlx_gate f, g, h, back_f, back_g, back_h;
} rlx_recurrent_attrs;

/* How ranks' values become one. The numbers are those of rlx_reduction (rlx/collective.h). */
typedef enum rlx_combine {
    RLX_COMBINE_SUM = 0,
    RLX_COMBINE_MEAN,
    RLX_COMBINE_PRODUCT,
    RLX_COMBINE_MIN,
    RLX_COMBINE_MAX
} rlx_combine;

typedef struct rlx_collective_attrs {
    rlx_combine reduction; /* all_reduce, reduce_scatter */
    int64_t root;          /* broadcast */
    int64_t ranks;         /* how many there are: see ops.def */
} rlx_collective_attrs;

typedef struct rlx_loop_attrs {
    int64_t bound; /* most iterations; 0: taken from a constant trip count */
} rlx_loop_attrs;

typedef struct rlx_nms_attrs {
    bool center_point; /* boxes are x, y, width, height instead of two corners */
    int64_t bound;     /* most per class that are planned for; 0: all boxes */
} rlx_nms_attrs;

typedef struct rlx_roi_align_attrs {
    int64_t height, width; /* of the result; 0 means 1 */
    int64_t samples;       /* per bin and axis; 0: as many as it has pixels, at least 1 */
    double scale;          /* of the regions' coordinates; 0 means 1 */
    bool half_pixel;       /* pixel centers are at 0.5; else sides are at least 1 long */
    bool largest;          /* the largest sample instead of the mean */
} rlx_roi_align_attrs;

typedef struct rlx_unique_attrs {
    bool by_axis; /* slices along `axis`; else elements */
    int64_t axis;
    bool unsorted; /* in the order of first occurrence */
} rlx_unique_attrs;

RLX_END_DECLS

#endif
