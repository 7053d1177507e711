/* SPDX-License-Identifier: Apache-2.0 */
/* A plan of any size that looks like a network's: softmaxes and pads in a row, some results with
 * long lives, placed by the real placer. */
#include "build.h"

#include <rlx/place.h>

/* Value i is made by step i - 1 from value i - 1; value 0 is the input. Sizes go round. */
typedef struct network {
    plan_builder *b;
    uint32_t count; /* steps */
    rlx_place_item *items;
    uint64_t *offsets;
} network;

static uint64_t rows_of(uint32_t value) {
    return 1 + (value / 7 * 37 % 11) * 16;
}

static void plan_lives(network *n) {
    for (uint32_t i = 0; i <= n->count; i++) {
        uint64_t end = i < n->count ? i + 1 : n->count;
        if (i % 9 == 4) end = i + 6 < n->count ? i + 6 : n->count;
        n->items[i] = (rlx_place_item){i == 0 ? 0 : i - 1, end, rows_of(i) * 64 * 4};
    }
}

static void add_value(network *n, uint32_t i) {
    plan_builder *b = n->b;
    static const char *const parts[] = {"attn.q", "attn.k",  "attn.scores", "attn.out",
                                        "mlp.up", "mlp.act", "mlp.down"};
    const char *name = "input";
    if (i != 0 && b->status == RLX_OK) {
        b->status = rlx_scratch_printf(&b->plan->memory, &name, "layer.%u.%s", i / 7, parts[i % 7]);
    }
    uint32_t buffer =
        builder_buffer(b, RLX_SEGMENT_SCRATCH, 0, 64 + n->offsets[i], n->items[i].bytes,
                       (uint32_t)n->items[i].lower, (uint32_t)n->items[i].upper - 1);
    builder_slot(b, name, i == 0 ? RLX_VALUE_INPUT : RLX_VALUE_TEMPORARY, buffer, 0, RLX_DTYPE_F32,
                 DIMS((int64_t)rows_of(i), 64));
    if (i == 0) return;
    rlx_axis_attrs axis = {.axis = -1};
    uint32_t in = i - 1, out = i;
    if (rows_of(in) == rows_of(out) && i % 2 == 0) {
        builder_step(b, RLX_STEP_KERNEL, RLX_OP_SOFTMAX, name, &axis, &in, 1, &out, 1);
    } else {
        /* Other sizes without a weight for each: rows are added, or taken away. */
        rlx_pad_attrs pad = {.pads = {4, {0, 0, (int64_t)rows_of(out) - (int64_t)rows_of(in), 0}}};
        builder_step(b, RLX_STEP_KERNEL, RLX_OP_PAD, name, &pad, &in, 1, &out, 1);
    }
}

static void add_network(network *n) {
    plan_builder *b = n->b;
    rlx_place_options options = {.alignment = 64};
    rlx_place_report report = {0};
    plan_lives(n);
    b->status = rlx_place(NULL, n->items, n->count + 1, &options, n->offsets, &report);
    if (b->status != RLX_OK) return;
    for (uint32_t i = 0; i <= n->count; i++)
        add_value(n, i);
    for (uint32_t at = 0; at < n->count; at += 50)
        builder_stretch(b, at, n->count - at < 50 ? n->count - at : 50);
    builder_port(b, "input", 0, false);
    builder_port(b, "logits", n->count, false);
    rlx_plan *plan = b->plan;
    uint64_t scratch = (64 + report.peak + 63) / 64 * 64;
    plan->segment_bytes[RLX_SEGMENT_SCRATCH] = scratch;
    rlx_plan_entry entry = {.name = "main",
                            .bindings = "S=64, B=1",
                            .step_count = n->count,
                            .stretch_count = (n->count + 49) / 50,
                            .input_count = 1,
                            .outputs_at = 1,
                            .output_count = 1,
                            .scratch_bytes = scratch,
                            .lower_bound = 64 + report.lower_bound,
                            .sum_bytes = report.sum_bytes,
                            .placed_by = report.method};
    if (b->status == RLX_OK) b->status = rlx_vec_push(plan->allocator, &plan->entries, entry);
}

rlx_status build_network(const rlx_allocator *allocator, uint32_t count, rlx_plan **out_plan) {
    plan_builder builder;
    network n = {.b = &builder, .count = count};
    builder_begin(&builder, allocator);
    if (builder.status != RLX_OK) return builder.status;
    rlx_scratch *memory = &builder.plan->memory;
    builder.status =
        rlx_scratch_array(memory, (uint64_t)count + 1, sizeof *n.items, (void **)&n.items);
    if (builder.status == RLX_OK) {
        builder.status =
            rlx_scratch_array(memory, (uint64_t)count + 1, sizeof *n.offsets, (void **)&n.offsets);
    }
    if (builder.status == RLX_OK) add_network(&n);
    if (builder.status != RLX_OK) {
        rlx_plan_destroy(builder.plan);
        return builder.status;
    }
    rlx_plan_hash_state(builder.plan);
    *out_plan = builder.plan;
    return RLX_OK;
}
