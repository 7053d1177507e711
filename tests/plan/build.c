/* SPDX-License-Identifier: Apache-2.0 */
/* Plans made by hand; see build.h. */
#include "build.h"

#define PUSH(vec, ...)                                                                    \
    do {                                                                                  \
        if (builder->status == RLX_OK) {                                                  \
            builder->status = rlx_vec_push(builder->plan->allocator, (vec), __VA_ARGS__); \
        }                                                                                 \
    } while (0)

void builder_begin(plan_builder *builder, const rlx_allocator *allocator) {
    builder->plan = NULL;
    builder->status = rlx_plan_create(allocator, &builder->plan);
    if (builder->status == RLX_OK) builder->plan->target = "cpu/scalar";
}

uint32_t builder_buffer(plan_builder *builder, uint32_t segment, uint32_t entry, uint64_t offset,
                        uint64_t bytes, uint32_t first_step, uint32_t last_step) {
    if (builder->status != RLX_OK) return 0;
    PUSH(&builder->plan->buffers,
         ((rlx_plan_buffer){segment, entry, offset, bytes, first_step, last_step}));
    return builder->plan->buffers.count - 1;
}

uint32_t builder_slot(plan_builder *builder, const char *name, uint32_t kind, uint32_t buffer,
                      uint64_t byte_offset, rlx_dtype dtype, const int64_t *dims) {
    rlx_plan_slot slot = {
        .name = name, .kind = kind, .buffer = buffer, .byte_offset = byte_offset, .dtype = dtype};
    int64_t stride = 1;
    if (builder->status != RLX_OK) return 0;
    while (dims[slot.rank] >= 0) {
        slot.dims[slot.rank] = dims[slot.rank];
        slot.rank++;
    }
    for (uint32_t i = slot.rank; i-- > 0;) {
        slot.strides[i] = stride;
        stride *= slot.dims[i];
    }
    for (uint32_t i = 0; i < RLX_MAX_RANK; i++)
        slot.extents[i] = RLX_NONE;
    PUSH(&builder->plan->slots, slot);
    return builder->plan->slots.count - 1;
}

uint32_t builder_step(plan_builder *builder, uint32_t kind, rlx_op op, const char *name,
                      const void *attrs, const uint32_t *inputs, uint32_t input_count,
                      const uint32_t *outputs, uint32_t output_count) {
    if (builder->status != RLX_OK) return 0;
    rlx_plan_step step = {.kind = kind,
                          .op = op,
                          .name = name,
                          .kernel = "",
                          .reason = "",
                          .operands_at = builder->plan->operands.count,
                          .input_count = input_count,
                          .output_count = output_count,
                          .workspace = RLX_NONE,
                          .condition = RLX_NONE,
                          .value = RLX_NONE};
    for (uint32_t i = 0; i < input_count; i++)
        PUSH(&builder->plan->operands, inputs[i]);
    for (uint32_t i = 0; i < output_count; i++)
        PUSH(&builder->plan->operands, outputs[i]);
    if (op != RLX_OP_NONE && builder->status == RLX_OK) {
        step.kernel = "scalar";
        step.reason = "the only kernel";
        builder->status = rlx_plan_copy_attrs(builder->plan, op, attrs, &step.attrs);
    }
    PUSH(&builder->plan->steps, step);
    return builder->plan->steps.count - 1;
}

uint32_t builder_jump(plan_builder *builder, uint32_t target, uint32_t condition,
                      uint32_t jump_if) {
    uint32_t index =
        builder_step(builder, RLX_STEP_JUMP, RLX_OP_NONE, "again", NULL, NULL, 0, NULL, 0);
    if (builder->status != RLX_OK) return 0;
    rlx_plan_step *step = &builder->plan->steps.items[index];
    step->target = target;
    step->condition = condition;
    step->jump_if = jump_if;
    return index;
}

void builder_stretch(plan_builder *builder, uint32_t first_step, uint32_t step_count) {
    PUSH(&builder->plan->stretches, ((rlx_plan_stretch){first_step, step_count}));
}

uint32_t builder_port(plan_builder *builder, const char *name, uint32_t slot, bool survives) {
    if (builder->status != RLX_OK) return 0;
    PUSH(&builder->plan->ports, ((rlx_plan_port){name, slot, survives}));
    return builder->plan->ports.count - 1;
}

void builder_source(plan_builder *builder, uint32_t slot, rlx_source source, bool is_constant) {
    PUSH(&builder->plan->sources,
         ((rlx_plan_source){.slot = slot, .source = source, .is_constant = is_constant}));
}

static rlx_status finish(plan_builder *builder, rlx_plan **out_plan) {
    if (builder->status != RLX_OK) {
        rlx_plan_destroy(builder->plan);
        return builder->status;
    }
    rlx_plan_hash_state(builder->plan);
    *out_plan = builder->plan;
    return RLX_OK;
}

static void add_entry(plan_builder *builder, rlx_plan_entry entry) {
    entry.placed_by = "size/first-fit";
    PUSH(&builder->plan->entries, entry);
}

/* Scratch, offsets up and steps to the right (entry 0: steps 1 .. 3, entry 1: step 4):
 *
 *     x 64 [1, 1]   h 128 [1, 2]   y 192 [2, 3]   workspace 256 [1, 1]   position 320, length 384
 *     x1 64 [4, 4]  y1 128 [4, 4] */
static void two_entries_memory(plan_builder *b) {
    static const float constant[2] = {1, 2};
    builder_buffer(b, RLX_SEGMENT_SOURCE, RLX_PLAN_PREPARE, 0, 128, 0, 0);
    builder_buffer(b, RLX_SEGMENT_WEIGHTS, RLX_NONE, 0, 128, 0, 0);
    builder_buffer(b, RLX_SEGMENT_STATE, RLX_NONE, 0, 64, 0, 0);
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 64, 64, 1, 1);
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 128, 32, 1, 2);
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 192, 32, 2, 3);
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 256, 64, 1, 1);
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 320, 8, 1, 3);
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 384, 8, 3, 3);
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 1, 64, 32, 4, 4);
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 1, 128, 32, 4, 4);
    builder_buffer(b, RLX_SEGMENT_WEIGHTS, RLX_NONE, 128, 8, 0, 0);

    builder_slot(b, "w_raw", RLX_VALUE_PARAMETER, B_RAW, 0, RLX_DTYPE_F32, DIMS(8, 4));
    builder_slot(b, "w", RLX_VALUE_PARAMETER, B_W, 0, RLX_DTYPE_F32, DIMS(8, 4));
    builder_slot(b, "k", RLX_VALUE_STATE, B_K, 0, RLX_DTYPE_F32, DIMS(4, 4));
    builder_slot(b, "x", RLX_VALUE_INPUT, B_X, 0, RLX_DTYPE_F32, DIMS(2, 8));
    builder_slot(b, "h", RLX_VALUE_TEMPORARY, B_H, 0, RLX_DTYPE_F32, DIMS(2, 4));
    builder_slot(b, "y", RLX_VALUE_TEMPORARY, B_Y, 0, RLX_DTYPE_F32, DIMS(2, 4));
    builder_slot(b, "position", RLX_VALUE_INPUT, B_POSITION, 0, RLX_DTYPE_I64, SCALAR);
    builder_slot(b, "length", RLX_VALUE_TEMPORARY, B_LENGTH, 0, RLX_DTYPE_I64, SCALAR);
    uint32_t after =
        builder_slot(b, "k_after", RLX_VALUE_TEMPORARY, B_K, 0, RLX_DTYPE_F32, DIMS(4, 4));
    if (b->status == RLX_OK) b->plan->slots.items[after].extents[0] = S_LENGTH;
    builder_slot(b, "x", RLX_VALUE_INPUT, B_X1, 0, RLX_DTYPE_F32, DIMS(1, 8));
    builder_slot(b, "y", RLX_VALUE_TEMPORARY, B_Y1, 0, RLX_DTYPE_F32, DIMS(1, 4));
    builder_slot(b, "c", RLX_VALUE_CONSTANT, B_CONSTANT, 0, RLX_DTYPE_F32, DIMS(2));
    builder_source(b, S_RAW, (rlx_source){.kind = RLX_SOURCE_SEEDED, .seed = 7, .scale = 0.5},
                   false);
    builder_source(b, S_CONSTANT,
                   (rlx_source){.kind = RLX_SOURCE_MEMORY, .memory = constant, .bytes = 8}, true);
}

static void two_entries_steps(plan_builder *b) {
    rlx_matmul_attrs relu = {.activation = {.op = RLX_OP_RELU}};
    rlx_axis_attrs axis = {.axis = -1};
    rlx_state_write_attrs write = {.axis = 0};
    builder_step(b, RLX_STEP_COPY, RLX_OP_NONE, "w", NULL, (uint32_t[]){S_RAW}, 1,
                 (uint32_t[]){S_W}, 1);
    uint32_t matmul = builder_step(b, RLX_STEP_KERNEL, RLX_OP_MATMUL, "h", &relu,
                                   (uint32_t[]){S_X, S_W}, 2, (uint32_t[]){S_H}, 1);
    if (b->status == RLX_OK) {
        b->plan->steps.items[matmul].workspace = B_WORK;
        b->plan->steps.items[matmul].workspace_bytes = 32;
        b->plan->steps.items[matmul].flops = 128;
        b->plan->steps.items[matmul].bytes = 224;
    }
    builder_step(b, RLX_STEP_KERNEL, RLX_OP_SOFTMAX, "y", &axis, (uint32_t[]){S_H}, 1,
                 (uint32_t[]){S_Y}, 1);
    builder_step(b, RLX_STEP_HOST, RLX_OP_STATE_WRITE, "k_after", &write,
                 (uint32_t[]){S_K, S_Y, S_POSITION}, 3, (uint32_t[]){S_K_AFTER, S_LENGTH}, 2);
    builder_step(b, RLX_STEP_KERNEL, RLX_OP_MATMUL, "y", NULL, (uint32_t[]){S_X1, S_W}, 2,
                 (uint32_t[]){S_Y1}, 1);
    builder_stretch(b, 0, 1);
    builder_stretch(b, 1, 2);
    builder_stretch(b, 4, 1);
    builder_port(b, "x", S_X, false);
    builder_port(b, "position", S_POSITION, true);
    builder_port(b, "probabilities", S_Y, false);
    builder_port(b, "k", S_K_AFTER, false);
    builder_port(b, "x", S_X1, false);
    builder_port(b, "y", S_Y1, false);
}

rlx_status build_two_entries(const rlx_allocator *allocator, rlx_plan **out_plan) {
    plan_builder builder, *b = &builder;
    builder_begin(b, allocator);
    if (b->status != RLX_OK) return b->status;
    rlx_plan *plan = b->plan;
    plan->workers = 2;
    plan->segment_bytes[RLX_SEGMENT_WEIGHTS] = 192;
    plan->segment_bytes[RLX_SEGMENT_STATE] = 64;
    plan->segment_bytes[RLX_SEGMENT_SCRATCH] = 448;
    plan->segment_bytes[RLX_SEGMENT_SOURCE] = 128;
    two_entries_memory(b);
    two_entries_steps(b);
    plan->prepare_count = plan->prepare_stretch_count = 1;
    add_entry(b, (rlx_plan_entry){.name = "prefill",
                                  .bindings = "S=2",
                                  .first_step = 1,
                                  .step_count = 3,
                                  .first_stretch = 1,
                                  .stretch_count = 1,
                                  .inputs_at = 0,
                                  .input_count = 2,
                                  .outputs_at = 2,
                                  .output_count = 2,
                                  .scratch_bytes = 448,
                                  .lower_bound = 256,
                                  .sum_bytes = 320});
    add_entry(b, (rlx_plan_entry){.name = "decode",
                                  .bindings = "S=1",
                                  .first_step = 4,
                                  .step_count = 1,
                                  .first_stretch = 2,
                                  .stretch_count = 1,
                                  .inputs_at = 4,
                                  .input_count = 1,
                                  .outputs_at = 5,
                                  .output_count = 1,
                                  .scratch_bytes = 160,
                                  .lower_bound = 160,
                                  .sum_bytes = 128});
    return finish(b, out_plan);
}

/* Steps: 0 copy x -> h, 1 matmul h w -> g, 2 softmax g -> h, 3 jump to 1 if c, 4 copy h -> y. */
rlx_status build_loop(const rlx_allocator *allocator, rlx_plan **out_plan) {
    plan_builder builder, *b = &builder;
    rlx_axis_attrs axis = {.axis = -1};
    builder_begin(b, allocator);
    if (b->status != RLX_OK) return b->status;
    b->plan->segment_bytes[RLX_SEGMENT_WEIGHTS] = 64;
    b->plan->segment_bytes[RLX_SEGMENT_SCRATCH] = 384;
    builder_buffer(b, RLX_SEGMENT_WEIGHTS, RLX_NONE, 0, 64, 0, 0);
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 64, 32, 0, 0);  /* x */
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 128, 32, 0, 4); /* h */
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 192, 32, 1, 2); /* g */
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 256, 1, 0, 3);  /* c */
    builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 320, 32, 4, 4); /* y */
    builder_slot(b, "w", RLX_VALUE_PARAMETER, 0, 0, RLX_DTYPE_F32, DIMS(4, 4));
    builder_slot(b, "x", RLX_VALUE_INPUT, 1, 0, RLX_DTYPE_F32, DIMS(2, 4));
    builder_slot(b, "h", RLX_VALUE_TEMPORARY, 2, 0, RLX_DTYPE_F32, DIMS(2, 4));
    builder_slot(b, "g", RLX_VALUE_TEMPORARY, 3, 0, RLX_DTYPE_F32, DIMS(2, 4));
    builder_slot(b, "c", RLX_VALUE_INPUT, 4, 0, RLX_DTYPE_BOOL, SCALAR);
    builder_slot(b, "y", RLX_VALUE_TEMPORARY, 5, 0, RLX_DTYPE_F32, DIMS(2, 4));
    builder_step(b, RLX_STEP_COPY, RLX_OP_NONE, "x", NULL, (uint32_t[]){1}, 1, (uint32_t[]){2}, 1);
    builder_step(b, RLX_STEP_KERNEL, RLX_OP_MATMUL, "g", NULL, (uint32_t[]){2, 0}, 2,
                 (uint32_t[]){3}, 1);
    builder_step(b, RLX_STEP_KERNEL, RLX_OP_SOFTMAX, "h", &axis, (uint32_t[]){3}, 1,
                 (uint32_t[]){2}, 1);
    builder_jump(b, 1, 4, 1);
    builder_step(b, RLX_STEP_COPY, RLX_OP_NONE, "y", NULL, (uint32_t[]){2}, 1, (uint32_t[]){5}, 1);
    builder_stretch(b, 0, 1);
    builder_stretch(b, 1, 2);
    builder_stretch(b, 4, 1);
    builder_port(b, "x", 1, false);
    builder_port(b, "c", 4, false);
    builder_port(b, "y", 5, false);
    builder_source(b, 0, (rlx_source){.kind = RLX_SOURCE_FILE, .path = "w.bin", .bytes = 64},
                   false);
    add_entry(b, (rlx_plan_entry){.name = "main",
                                  .bindings = "",
                                  .step_count = 5,
                                  .stretch_count = 3,
                                  .input_count = 2,
                                  .outputs_at = 2,
                                  .output_count = 1,
                                  .scratch_bytes = 384});
    return finish(b, out_plan);
}

static const char *made_name(plan_builder *b, uint32_t number) {
    const char *name = "";
    if (b->status == RLX_OK) {
        b->status = rlx_scratch_printf(&b->plan->memory, &name, "block.%u.out", number);
    }
    return name;
}

rlx_status build_chain(const rlx_allocator *allocator, uint32_t count, rlx_plan **out_plan) {
    plan_builder builder, *b = &builder;
    builder_begin(b, allocator);
    if (b->status != RLX_OK) return b->status;
    b->plan->segment_bytes[RLX_SEGMENT_SCRATCH] = 64 + 2 * 4096;
    for (uint32_t i = 0; i <= count && b->status == RLX_OK; i++) {
        uint32_t last = i < count ? i : count - 1;
        uint32_t buffer = builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 64 + 4096 * (uint64_t)(i % 2),
                                         4096, i == 0 ? 0 : i - 1, last);
        uint32_t kind = i == 0 ? RLX_VALUE_INPUT : RLX_VALUE_TEMPORARY;
        builder_slot(b, made_name(b, i), kind, buffer, 0, RLX_DTYPE_F32, DIMS(1024));
        if (i == 0) continue;
        builder_step(b, RLX_STEP_COPY, RLX_OP_NONE, made_name(b, i), NULL, (uint32_t[]){i - 1}, 1,
                     (uint32_t[]){i}, 1);
    }
    builder_stretch(b, 0, count);
    builder_port(b, "x", 0, false);
    builder_port(b, "y", count, false);
    add_entry(b, (rlx_plan_entry){.name = "main",
                                  .bindings = "",
                                  .step_count = count,
                                  .stretch_count = 1,
                                  .input_count = 1,
                                  .outputs_at = 1,
                                  .output_count = 1,
                                  .scratch_bytes = 64 + 2 * 4096,
                                  .lower_bound = 64 + 2 * 4096,
                                  .sum_bytes = 4096 * ((uint64_t)count + 1)});
    return finish(b, out_plan);
}
