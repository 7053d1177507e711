/* SPDX-License-Identifier: Apache-2.0 */
/* One plan per family of ops, each op once on small operands; output types come from the shape
 * rules. What the tests damage and run, and the corpus of the program fuzzer. */
#include "build.h"

#include "base/size.h"
#include "ir/chain.h"
#include "ir/infer.h"
#include "ref/kernel.h"

typedef struct family {
    plan_builder b;
    uint64_t scratch; /* next free offset */
} family;

static uint32_t new_buffer(family *f, uint64_t bytes) {
    uint32_t buffer = builder_buffer(&f->b, RLX_SEGMENT_SCRATCH, 0, f->scratch, bytes, 0, 0);
    f->scratch += (bytes + 63) / 64 * 64;
    return buffer;
}

static uint32_t new_value(family *f, rlx_dtype dtype, const int64_t *dims, uint32_t kind) {
    int64_t elements = 1;
    uint64_t bytes = 0;
    for (uint32_t i = 0; dims[i] >= 0; i++)
        elements *= dims[i];
    if (f->b.status == RLX_OK) f->b.status = rlx_dtype_bytes(dtype, (uint64_t)elements, &bytes);
    return builder_slot(&f->b, "v", kind, new_buffer(f, bytes), 0, dtype, dims);
}

static uint32_t input(family *f, rlx_dtype dtype, const int64_t *dims) {
    return new_value(f, dtype, dims, RLX_VALUE_INPUT);
}

static rlx_type type_of(const rlx_plan_slot *slot) {
    rlx_type type = rlx_type_make(slot->dtype, slot->dims, slot->rank);
    memcpy(type.extents, slot->extents, sizeof type.extents);
    return type;
}

enum { MOST = 8 };

/* The step's kernel may want workspace. */
static void add_workspace(family *f, uint32_t index) {
    rlx_plan *plan = f->b.plan;
    rlx_plan_step *step = &plan->steps.items[index];
    const rlx_kernel *kernel = rlx_ref_kernel(step->op);
    static uint8_t present;
    rlx_tensor tensors[2 * MOST];
    if (kernel == NULL || kernel->workspace_bytes == NULL) return;
    for (uint32_t i = 0; i < step->input_count + step->output_count; i++) {
        uint32_t slot = plan->operands.items[step->operands_at + i];
        tensors[i] = (rlx_tensor){0};
        if (slot == RLX_NONE) continue;
        tensors[i] = rlx_plan_tensor(&plan->slots.items[slot]);
        tensors[i].data = &present;
    }
    rlx_kernel_args args = {.op = step->op,
                            .attrs = step->attrs,
                            .in = tensors,
                            .out = tensors + step->input_count,
                            .in_count = step->input_count,
                            .out_count = step->output_count};
    step->workspace_bytes = kernel->workspace_bytes(&args);
    if (step->workspace_bytes != 0) step->workspace = new_buffer(f, step->workspace_bytes);
}

/* Adds a step of `op`; its outputs are new values, or `in_place` for the first. */
static uint32_t op_into(family *f, rlx_op op, const void *attrs, const uint32_t *inputs,
                        uint32_t count, uint32_t out_count, uint32_t in_place) {
    rlx_type types[MOST], out[MOST];
    const rlx_type *in[MOST];
    static const uint8_t no_attrs[1024];
    uint32_t outputs[MOST], ids[MOST];
    if (f->b.status != RLX_OK) return 0;
    for (uint32_t i = 0; i < count; i++) {
        in[i] = inputs[i] == RLX_NONE ? NULL : &types[i];
        if (in[i] != NULL) types[i] = type_of(&f->b.plan->slots.items[inputs[i]]);
    }
    for (uint32_t i = 0; i < out_count; i++) {
        out[i] = rlx_type_make(RLX_DTYPE_F32, NULL, 0);
        ids[i] = f->b.plan->slots.count + i;
    }
    rlx_infer infer = {.in_ids = inputs,
                       .out_ids = ids,
                       .op = op,
                       .attrs = attrs == NULL ? no_attrs : attrs,
                       .in_count = count,
                       .out_count = out_count,
                       .in = in,
                       .out = out};
    f->b.status = rlx_op_info_of(op)->infer(&infer);
    for (uint32_t i = 0; i < out_count && f->b.status == RLX_OK; i++) {
        int64_t dims[RLX_MAX_RANK + 1];
        memcpy(dims, out[i].shape.dims, sizeof out[i].shape.dims);
        dims[out[i].shape.rank] = -1;
        if (i == 0 && in_place != RLX_NONE) {
            outputs[i] =
                builder_slot(&f->b, "p", RLX_VALUE_TEMPORARY,
                             f->b.plan->slots.items[in_place].buffer, 0, out[i].dtype, dims);
        } else {
            outputs[i] = new_value(f, out[i].dtype, dims, RLX_VALUE_TEMPORARY);
        }
        memcpy(f->b.plan->slots.items[outputs[i]].extents, out[i].extents, sizeof out[i].extents);
    }
    uint32_t step = builder_step(&f->b, RLX_STEP_KERNEL, op, rlx_op_name(op), attrs, inputs, count,
                                 outputs, out_count);
    if (f->b.status != RLX_OK) return 0;
    add_workspace(f, step);
    return outputs[0];
}

#define OP(f, op, attrs, ...)                                                                    \
    op_into((f), (op), (attrs), (uint32_t[]){__VA_ARGS__},                                       \
            sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), rlx_op_info_of(op)->out_least, \
            RLX_NONE)

static void elementwise_ops(family *f) {
    uint32_t x = input(f, RLX_DTYPE_F32, DIMS(2, 3)), y = input(f, RLX_DTYPE_F32, DIMS(3));
    uint32_t i = input(f, RLX_DTYPE_I32, DIMS(2, 3)), k = input(f, RLX_DTYPE_I32, DIMS(1, 3));
    uint32_t h = input(f, RLX_DTYPE_F16, DIMS(4)), n = input(f, RLX_DTYPE_I4, DIMS(3, 3));
    for (uint32_t op = RLX_OP_IDENTITY; op <= RLX_OP_CLIP; op++)
        OP(f, (rlx_op)op, NULL, op % 3 == 0 ? h : x);
    OP(f, RLX_OP_BIT_NOT, NULL, i);
    OP(f, RLX_OP_IS_NAN, NULL, x);
    rlx_cast_attrs cast = {RLX_DTYPE_I4};
    OP(f, RLX_OP_CAST, &cast, x);
    cast.to = RLX_DTYPE_F32;
    OP(f, RLX_OP_CAST, &cast, n);
    for (uint32_t op = RLX_OP_ADD; op <= RLX_OP_PRELU; op++)
        OP(f, (rlx_op)op, NULL, op % 2 == 0 ? x : i, op % 2 == 0 ? y : k);
    for (uint32_t op = RLX_OP_BIT_AND; op <= RLX_OP_BIT_XOR; op++)
        OP(f, (rlx_op)op, NULL, i, k);
    uint32_t c = OP(f, RLX_OP_LESS, NULL, x, y);
    OP(f, RLX_OP_WHERE, NULL, c, x, y);
    OP(f, RLX_OP_AND, NULL, c, c);
    op_into(f, RLX_OP_RELU, NULL, &x, 1, 1, x); /* in place */
    rlx_chain_instruction code[2] = {
        {RLX_OP_ADD, RLX_DTYPE_F32, {0, 1, RLX_CHAIN_NONE}, 0, 0},
        {RLX_OP_RELU, RLX_DTYPE_F32, {-1, RLX_CHAIN_NONE, RLX_CHAIN_NONE}, 0, 0}};
    int64_t words[2 * RLX_CHAIN_WORDS];
    rlx_chain_encode(&code[0], words);
    rlx_chain_encode(&code[1], words + RLX_CHAIN_WORDS);
    rlx_chain_attrs chain = {{2 * RLX_CHAIN_WORDS, words}};
    OP(f, RLX_OP_CHAIN, &chain, x, y);
}

static void algebra_ops(family *f) {
    uint32_t a = input(f, RLX_DTYPE_F32, DIMS(2, 3, 4)), b = input(f, RLX_DTYPE_F32, DIMS(4, 5));
    uint32_t bias = input(f, RLX_DTYPE_F32, DIMS(5)),
             residual = input(f, RLX_DTYPE_F32, DIMS(2, 3, 5));
    rlx_matmul_attrs relu = {.activation = {.op = RLX_OP_RELU}};
    OP(f, RLX_OP_MATMUL, &relu, a, b, bias, residual);
    rlx_matmul_attrs transposed = {.transpose_b = true};
    uint32_t q = input(f, RLX_DTYPE_Q8_0, DIMS(3, 32)), wide = input(f, RLX_DTYPE_F32, DIMS(2, 32));
    OP(f, RLX_OP_MATMUL, &transposed, wide, q);
    uint32_t x = input(f, RLX_DTYPE_F32, DIMS(1, 4, 5, 5)),
             w = input(f, RLX_DTYPE_F32, DIMS(6, 2, 3, 3));
    uint32_t m = input(f, RLX_DTYPE_F32, DIMS(6)), wt = input(f, RLX_DTYPE_F32, DIMS(4, 3, 2, 2));
    rlx_conv_attrs conv = {.groups = 2, .pads = {4, {1, 1, 1, 1}}, .strides = {2, {2, 2}}};
    OP(f, RLX_OP_CONV, &conv, x, w, m);
    rlx_conv_attrs up = {.strides = {2, {2, 2}}};
    OP(f, RLX_OP_CONV_TRANSPOSE, &up, x, wt);
    rlx_pool_attrs pool = {
        .kernel = {2, {2, 3}}, .pads = {4, {1, 1, 0, 1}}, .strides = {2, {2, 1}}};
    uint32_t none = RLX_NONE;
    op_into(f, RLX_OP_MAX_POOL, &pool, &x, 1, 2, none);
    OP(f, RLX_OP_AVERAGE_POOL, &pool, x);
}

static void reduce_ops(family *f) {
    uint32_t x = input(f, RLX_DTYPE_F32, DIMS(2, 3, 4)), s = input(f, RLX_DTYPE_F32, DIMS(4));
    rlx_reduce_attrs reduce = {.axes = {2, {0, -1}}};
    for (uint32_t op = RLX_OP_REDUCE_SUM; op <= RLX_OP_REDUCE_SUM_SQUARE; op++)
        OP(f, (rlx_op)op, &reduce, x);
    rlx_arg_attrs arg = {.axis = 1};
    OP(f, RLX_OP_ARG_MAX, &arg, x);
    OP(f, RLX_OP_ARG_MIN, &arg, x);
    rlx_top_k_attrs top = {.k = 2, .axis = -1};
    OP(f, RLX_OP_TOP_K, &top, x);
    rlx_cumsum_attrs sum = {.axis = 1, .reverse = true};
    OP(f, RLX_OP_CUMSUM, &sum, x);
    rlx_axis_attrs axis = {.axis = 1};
    OP(f, RLX_OP_SOFTMAX, &axis, x);
    OP(f, RLX_OP_LOG_SOFTMAX, &axis, x);
    rlx_norm_attrs norm = {.axis = -1, .groups = 1, .epsilon = 1e-5};
    op_into(f, RLX_OP_LAYER_NORM, &norm, (uint32_t[]){x, s, s, x}, 4, 2, RLX_NONE);
    OP(f, RLX_OP_RMS_NORM, &norm, x, s);
    uint32_t c = input(f, RLX_DTYPE_F32, DIMS(3));
    OP(f, RLX_OP_BATCH_NORM, &norm, x, c, c, c, c);
    OP(f, RLX_OP_GROUP_NORM, &norm, x, c, c);
    OP(f, RLX_OP_INSTANCE_NORM, &norm, x, c, c);
    uint32_t q = input(f, RLX_DTYPE_F32, DIMS(1, 4, 2, 4)),
             k = input(f, RLX_DTYPE_F32, DIMS(1, 2, 5, 4));
    uint32_t mask = input(f, RLX_DTYPE_F32, DIMS(2, 5)), p = input(f, RLX_DTYPE_I64, DIMS(2));
    rlx_attention_attrs causal = {.causal = true, .window = 3};
    OP(f, RLX_OP_ATTENTION, &causal, q, k, k, mask);
    rlx_rope_attrs rope = {.rotary_dim = 2};
    OP(f, RLX_OP_ROPE, &rope, q, p);
}

static void gather_ops(family *f) {
    uint32_t x = input(f, RLX_DTYPE_F32, DIMS(3, 4)), i = input(f, RLX_DTYPE_I64, DIMS(2, 2));
    uint32_t e = input(f, RLX_DTYPE_I64, DIMS(2, 4)), n = input(f, RLX_DTYPE_I64, DIMS(2, 1));
    uint32_t u = input(f, RLX_DTYPE_F32, DIMS(2, 4)), q = input(f, RLX_DTYPE_Q4_0, DIMS(3, 32));
    rlx_axis_attrs axis = {.axis = 0};
    rlx_scatter_attrs scatter = {.axis = 0, .mode = RLX_SCATTER_ADD};
    rlx_gather_nd_attrs nd = {0};
    OP(f, RLX_OP_GATHER, &axis, x, i);
    OP(f, RLX_OP_GATHER, &axis, q, i);
    OP(f, RLX_OP_GATHER_ELEMENTS, &axis, x, e);
    OP(f, RLX_OP_GATHER_ND, &nd, x, n);
    OP(f, RLX_OP_SCATTER_ELEMENTS, &scatter, x, e, u);
    OP(f, RLX_OP_SCATTER_ND, &scatter, x, n, u);
    uint32_t planes = input(f, RLX_DTYPE_F32, DIMS(2, 3, 5));
    uint32_t taps = input(f, RLX_DTYPE_I32, DIMS(2, 4, 3));
    uint32_t parts = input(f, RLX_DTYPE_F32, DIMS(2, 4, 3));
    OP(f, RLX_OP_GATHER_SUM, NULL, planes, taps, parts);
}

static void move_ops(family *f) {
    uint32_t x = input(f, RLX_DTYPE_F32, DIMS(2, 3, 4)), b = input(f, RLX_DTYPE_I4, DIMS(2, 3));
    rlx_slice_attrs slice = {.starts = {2, {-1, 0}},
                             .ends = {2, {INT64_MIN, 2}},
                             .axes = {2, {2, 1}},
                             .steps = {2, {-2, 1}}};
    OP(f, RLX_OP_SLICE, &slice, x);
    rlx_axis_attrs axis = {.axis = 1};
    OP(f, RLX_OP_CONCAT, &axis, x, x);
    rlx_split_attrs split = {.axis = 2, .sizes = {2, (const int64_t[]){1, 3}}};
    op_into(f, RLX_OP_SPLIT, &split, &x, 1, 2, RLX_NONE);
    rlx_pad_attrs pad = {.pads = {6, {0, 1, 2, 0, 1, -1}}, .mode = RLX_PAD_REFLECT};
    OP(f, RLX_OP_PAD, &pad, x);
    rlx_transpose_attrs perm = {.perm = {3, {2, 0, 1}}};
    OP(f, RLX_OP_TRANSPOSE, &perm, x);
    OP(f, RLX_OP_TRANSPOSE, NULL, b);
    rlx_reshape_attrs shape = {.shape = {2, {-1, 6}}};
    OP(f, RLX_OP_RESHAPE, &shape, x);
    rlx_axes_attrs axes = {.axes = {1, {0}}};
    OP(f, RLX_OP_UNSQUEEZE, &axes, x);
    OP(f, RLX_OP_FLATTEN, &axis, x);
    rlx_reshape_attrs expand = {.shape = {4, {2, 1, 3, 4}}};
    OP(f, RLX_OP_EXPAND, &expand, x);
    rlx_reshape_attrs tile = {.shape = {3, {2, 1, 2}}};
    OP(f, RLX_OP_TILE, &tile, x);
    OP(f, RLX_OP_COPY, NULL, x);
}

/* Sizes that are known only when it runs. */
static void extent_ops(family *f) {
    uint32_t x = input(f, RLX_DTYPE_F32, DIMS(2, 3)),
             rows = input(f, RLX_DTYPE_F32, DIMS(1, 2, 1, 4));
    uint32_t state = input(f, RLX_DTYPE_F32, DIMS(1, 2, 6, 4)),
             at = input(f, RLX_DTYPE_I64, SCALAR);
    uint32_t q = input(f, RLX_DTYPE_F32, DIMS(1, 2, 1, 4));
    rlx_state_write_attrs write = {.axis = 2};
    uint32_t k = op_into(f, RLX_OP_STATE_WRITE, &write, (uint32_t[]){state, rows, at}, 3, 2, state);
    rlx_attention_attrs causal = {.causal = true};
    OP(f, RLX_OP_ATTENTION, &causal, q, k, k);
    OP(f, RLX_OP_ABS, NULL, k);
    rlx_reduce_attrs reduce = {.axes = {1, {2}}};
    OP(f, RLX_OP_REDUCE_SUM, &reduce, k);
    uint32_t places = OP(f, RLX_OP_NONZERO, NULL, x);
    OP(f, RLX_OP_ADD, NULL, places, at);
    rlx_axis_attrs first = {0};
    OP(f, RLX_OP_LIMIT, &first, x, at);
    uint32_t go = input(f, RLX_DTYPE_BOOL, SCALAR);
    builder_jump(&f->b, 0, go, 1);
}

static void recurrent_ops(family *f) {
    uint32_t x = input(f, RLX_DTYPE_F32, DIMS(3, 2, 4)), n = input(f, RLX_DTYPE_I32, DIMS(2));
    uint32_t h = input(f, RLX_DTYPE_F32, DIMS(2, 2, 3)), p = input(f, RLX_DTYPE_F16, DIMS(2, 9));
    static const rlx_op ops[] = {RLX_OP_RNN, RLX_OP_GRU, RLX_OP_LSTM};
    rlx_recurrent_attrs attrs = {.direction = RLX_DIRECTION_BIDIRECTIONAL, .clip = 2};
    for (uint32_t i = 0; i < 3; i++) {
        int64_t rows = 3 * (i == 0 ? 1 : i + 2);
        uint32_t w = input(f, RLX_DTYPE_F32, DIMS(2, rows, 4));
        uint32_t r = input(f, RLX_DTYPE_F32, DIMS(2, rows, 3));
        uint32_t b = input(f, RLX_DTYPE_F16, DIMS(2, 2 * rows));
        op_into(f, ops[i], &attrs, (uint32_t[]){x, w, r, b, n, h, h, p}, i == 2 ? 8 : 6,
                i == 2 ? 3 : 2, RLX_NONE);
    }
}

static void detect_ops(family *f) {
    uint32_t boxes = input(f, RLX_DTYPE_F32, DIMS(1, 5, 4)),
             scores = input(f, RLX_DTYPE_F32, DIMS(1, 2, 5));
    uint32_t most = input(f, RLX_DTYPE_I64, SCALAR), least = input(f, RLX_DTYPE_F32, SCALAR);
    rlx_nms_attrs nms = {.bound = 3};
    op_into(f, RLX_OP_NMS, &nms, (uint32_t[]){boxes, scores, most, least, least}, 5, 2, RLX_NONE);
    uint32_t x = input(f, RLX_DTYPE_F16, DIMS(2, 3, 4, 5)),
             regions = input(f, RLX_DTYPE_F16, DIMS(6, 4)),
             batch = input(f, RLX_DTYPE_I64, DIMS(6));
    rlx_roi_align_attrs align = {.height = 2, .width = 3, .samples = 2};
    OP(f, RLX_OP_ROI_ALIGN, &align, x, regions, batch);
    rlx_unique_attrs unique = {.by_axis = true, .axis = 1};
    op_into(f, RLX_OP_UNIQUE, &unique, &x, 1, 5, RLX_NONE);
}

static void (*const families[])(family *f) = {elementwise_ops, algebra_ops, reduce_ops,
                                              gather_ops,      move_ops,    extent_ops,
                                              recurrent_ops,   detect_ops};

uint32_t family_count(void) {
    return sizeof families / sizeof *families;
}

/* Everything lives from the first step to the last. */
static void finish(family *f) {
    rlx_plan *plan = f->b.plan;
    uint32_t steps = plan->steps.count;
    uint32_t stretch = steps - (steps != 0 && plan->steps.items[steps - 1].kind == RLX_STEP_JUMP);
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        plan->buffers.items[i].last_step = steps - 1;
    builder_stretch(&f->b, 0, stretch);
    builder_port(&f->b, "x", 0, false);
    builder_port(&f->b, "y", plan->slots.count - 1, false);
    plan->segment_bytes[RLX_SEGMENT_SCRATCH] = f->scratch;
    rlx_plan_entry entry = {.name = "main",
                            .bindings = "",
                            .placed_by = "",
                            .step_count = steps,
                            .stretch_count = 1,
                            .input_count = 1,
                            .outputs_at = 1,
                            .output_count = 1,
                            .scratch_bytes = f->scratch};
    if (f->b.status == RLX_OK) {
        f->b.status = rlx_vec_push(plan->allocator, &plan->entries, entry);
    }
    rlx_plan_hash_state(plan);
}

rlx_status build_family(const rlx_allocator *allocator, uint32_t index, rlx_plan **out_plan) {
    family f = {.scratch = 64};
    builder_begin(&f.b, allocator);
    if (f.b.status != RLX_OK) return f.b.status;
    families[index](&f);
    if (f.b.status == RLX_OK) finish(&f);
    if (f.b.status != RLX_OK) {
        rlx_plan_destroy(f.b.plan);
        return f.b.status;
    }
    *out_plan = f.b.plan;
    return RLX_OK;
}
