/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of a plan, for people and for golden files: the segments, then what is shared, then
 * entry by entry its memory and its steps. The same plan always gives the same text. It is not read
 * back: that is what program files are for. */
#include "base/text.h"
#include "ir/layout.h"
#include "ir/text_number.h"
#include "ir/text_print.h"
#include "plan/plan.h"

static const char *const segment_names[RLX_SEGMENT_COUNT] = {"weights", "state", "scratch",
                                                             "source", "tiles"};
static const char *const kind_names[] = {"input", "parameter", "constant", "state", "temporary"};

typedef struct plan_printer {
    const rlx_plan *plan;
    rlx_printer printer; /* the graph's, for names and attributes; its graph stays NULL */
} plan_printer;

#define PRINT(p, ...) rlx_text_printf(&(p)->printer.text, __VA_ARGS__)

static void print_slot_name(plan_printer *p, uint32_t slot) {
    if (slot == RLX_NONE) {
        PRINT(p, "_");
    } else if (slot >= p->plan->slots.count) {
        PRINT(p, "?%u", slot); /* a broken plan can be printed too */
    } else {
        rlx_print_name(&p->printer.text, p->plan->slots.items[slot].name);
    }
}

/* A text that is no name, with control characters made visible. */
static void print_words(plan_printer *p, const char *words) {
    for (const char *at = words; *at != 0; at++) {
        char shown = (unsigned char)*at < 32 || *at == 127 ? '?' : *at;
        rlx_text_append(&p->printer.text, &shown, 1);
    }
}

/* "f32[2, length<=8]" */
static void print_type(plan_printer *p, const rlx_plan_slot *slot) {
    PRINT(p, "%s[", rlx_dtype_name(slot->dtype));
    for (uint32_t i = 0; i < slot->rank && i < RLX_MAX_RANK; i++) {
        if (i != 0) PRINT(p, ", ");
        if (slot->extents[i] != RLX_NONE) {
            print_slot_name(p, slot->extents[i]);
            PRINT(p, "<=");
        }
        PRINT(p, "%" PRId64, slot->dims[i]);
    }
    PRINT(p, "]");
}

static void print_place(plan_printer *p, const rlx_plan_buffer *buffer, uint64_t byte_offset) {
    const char *segment =
        buffer->segment < RLX_SEGMENT_COUNT ? segment_names[buffer->segment] : "?";
    PRINT(p, "%s+%" PRIu64, segment, buffer->offset + byte_offset);
}

static void print_slot(plan_printer *p, const rlx_plan_slot *slot) {
    const rlx_plan_buffer *buffer = &p->plan->buffers.items[slot->buffer];
    rlx_tensor tensor = rlx_plan_tensor(slot);
    uint64_t bytes = 0;
    PRINT(p, "  ");
    rlx_print_name(&p->printer.text, slot->name);
    PRINT(p, ": %s ",
          slot->kind < sizeof kind_names / sizeof *kind_names ? kind_names[slot->kind] : "?");
    print_type(p, slot);
    PRINT(p, " at ");
    print_place(p, buffer, slot->byte_offset);
    if (rlx_plan_slot_bytes(slot, &bytes) == RLX_OK) PRINT(p, ", %" PRIu64 " bytes", bytes);
    if (buffer->entry != RLX_NONE)
        PRINT(p, ", steps %u..%u", buffer->first_step, buffer->last_step);
    if (bytes != buffer->bytes) PRINT(p, ", in buffer %u of %" PRIu64, slot->buffer, buffer->bytes);
    if (slot->layout != RLX_LAYOUT_PLAIN) {
        PRINT(p, ", layout %s", rlx_layout_name(slot->layout));
    } else if (!rlx_tensor_is_plain(&tensor)) {
        PRINT(p, ", strides ");
        rlx_print_list(&p->printer, slot->strides, slot->rank);
    }
    PRINT(p, "\n");
}

/* The slots whose buffers belong to `entry` (RLX_NONE: shared). */
static void print_slots(plan_printer *p, uint32_t entry) {
    const rlx_plan *plan = p->plan;
    for (uint32_t i = 0; i < plan->slots.count; i++) {
        const rlx_plan_slot *slot = &plan->slots.items[i];
        if (slot->buffer < plan->buffers.count &&
            plan->buffers.items[slot->buffer].entry == entry) {
            print_slot(p, slot);
        }
    }
}

static void print_operands(plan_printer *p, uint32_t at, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (i != 0) PRINT(p, ", ");
        print_slot_name(p, p->plan->operands.items[at + i]);
    }
}

static void print_jump(plan_printer *p, const rlx_plan_step *step) {
    if (step->fault_code != 0) {
        PRINT(p, "fault %u", step->fault_code);
        if (step->value != RLX_NONE) {
            PRINT(p, " with ");
            print_slot_name(p, step->value);
        }
    } else {
        PRINT(p, "jump to %u", step->target);
    }
    if (step->condition == RLX_NONE) return;
    PRINT(p, step->jump_if != 0 ? " if " : " unless ");
    print_slot_name(p, step->condition);
}

static void print_stream(plan_printer *p, const rlx_plan_step *step) {
    print_operands(p, step->operands_at, 1);
    if (step->input_count != 0 || step->target >= p->plan->stream.tiles.count) {
        PRINT(p, " is there");
        return;
    }
    const rlx_plan_tile *tile = &p->plan->stream.tiles.items[step->target];
    PRINT(p, " = read of %" PRIu64 " bytes at %" PRIu64 " of the file's weights", tile->bytes,
          tile->source_offset);
}

static void print_op(plan_printer *p, const rlx_plan_step *step) {
    print_operands(p, step->operands_at + step->input_count, step->output_count);
    if (step->kind == RLX_STEP_COPY) {
        PRINT(p, " = copy of ");
        print_operands(p, step->operands_at, step->input_count);
        return;
    }
    PRINT(p, " = %s(", rlx_op_name(step->op));
    print_operands(p, step->operands_at, step->input_count);
    PRINT(p, ")");
    if (step->attrs != NULL && rlx_op_info_of(step->op) != NULL)
        rlx_print_attrs(&p->printer, step->op, step->attrs);
}

static void print_workspace(plan_printer *p, const rlx_plan_step *step) {
    if (step->workspace >= p->plan->buffers.count) return;
    const rlx_plan_buffer *buffer = &p->plan->buffers.items[step->workspace];
    PRINT(p, "; workspace ");
    print_place(p, buffer, 0);
    PRINT(p, ", %" PRIu64 " bytes, %" PRIu64 " each", buffer->bytes, step->workspace_bytes);
}

static void print_step(plan_printer *p, uint32_t index) {
    const rlx_plan_step *step = &p->plan->steps.items[index];
    PRINT(p, "  %u ", index);
    if (step->kind == RLX_STEP_JUMP) {
        print_jump(p, step);
    } else if (step->kind == RLX_STEP_STREAM) {
        print_stream(p, step);
    } else {
        print_op(p, step);
    }
    if (step->kernel[0] != 0 || step->reason[0] != 0) {
        PRINT(p, "  # ");
        print_words(p, step->kernel);
        if (step->kernel[0] != 0 && step->reason[0] != 0) PRINT(p, ": ");
        print_words(p, step->reason);
    }
    print_workspace(p, step);
    PRINT(p, "\n");
}

/* Steps in order; a line before each stretch and before each step outside one. */
static void print_steps(plan_printer *p, uint32_t step, uint32_t step_count, uint32_t stretch,
                        uint32_t stretch_count) {
    const rlx_plan *plan = p->plan;
    uint32_t end = step + step_count, stretch_end = stretch + stretch_count, left = 0;
    for (; step < end && step < plan->steps.count; step++) {
        uint32_t kind = plan->steps.items[step].kind;
        if (left == 0 && stretch < stretch_end && stretch < plan->stretches.count &&
            plan->stretches.items[stretch].first_step == step) {
            left = plan->stretches.items[stretch].step_count;
            PRINT(p, " stretch %u\n", stretch++);
        } else if (left == 0) {
            PRINT(p, kind == RLX_STEP_HOST         ? " host\n"
                     : kind == RLX_STEP_JUMP       ? " control\n"
                     : kind == RLX_STEP_STREAM     ? " stream\n"
                     : kind == RLX_STEP_COLLECTIVE ? " collective\n"
                                                   : " other\n");
        }
        print_step(p, step);
        if (left != 0) left--;
    }
}

static void print_ports(plan_printer *p, const char *what, uint32_t at, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const rlx_plan_port *port = &p->plan->ports.items[at + i];
        PRINT(p, " %s ", what);
        rlx_print_name(&p->printer.text, port->name);
        PRINT(p, " in ");
        print_slot_name(p, port->slot);
        PRINT(p, port->survives ? " survives\n" : "\n");
    }
}

static void print_entry(plan_printer *p, uint32_t index) {
    const rlx_plan_entry *entry = &p->plan->entries.items[index];
    PRINT(p, "\nentry ");
    rlx_print_name(&p->printer.text, entry->name);
    if (entry->bindings[0] != 0) {
        PRINT(p, " (");
        print_words(p, entry->bindings);
        PRINT(p, ")");
    }
    PRINT(p, ": scratch %" PRIu64 ", lower bound %" PRIu64, entry->scratch_bytes,
          entry->lower_bound);
    if (entry->lower_bound != 0) {
        /* Digits by hand: the text must not depend on the locale. */
        double ratio = (double)entry->scratch_bytes / (double)entry->lower_bound;
        uint64_t thousandths = ratio < 1e15 ? (uint64_t)(ratio * 1000 + 0.5) : UINT64_MAX;
        PRINT(p, ", ratio %" PRIu64 ".%03u", thousandths / 1000, (unsigned)(thousandths % 1000));
    }
    PRINT(p, ", without reuse %" PRIu64, entry->sum_bytes);
    if (entry->placed_by[0] != 0) {
        PRINT(p, ", by ");
        print_words(p, entry->placed_by);
    }
    PRINT(p, "\n");
    print_ports(p, "input", entry->inputs_at, entry->input_count);
    print_ports(p, "output", entry->outputs_at, entry->output_count);
    PRINT(p, " memory\n");
    print_slots(p, index);
    print_steps(p, entry->first_step, entry->step_count, entry->first_stretch,
                entry->stretch_count);
}

static void print_source(plan_printer *p, const rlx_plan_source *source) {
    const rlx_source *from = &source->source;
    char mean[RLX_NUMBER_BYTES], scale[RLX_NUMBER_BYTES];
    PRINT(p, "  ");
    print_slot_name(p, source->slot);
    switch (from->kind) {
    case RLX_SOURCE_MEMORY:
        PRINT(p, ": %s of %" PRIu64 " bytes\n", source->is_constant ? "constant" : "memory",
              from->bytes);
        break;
    case RLX_SOURCE_FILE:
        PRINT(p, ": file ");
        rlx_print_name(&p->printer.text, from->path);
        PRINT(p, " at %" PRIu64 ", %" PRIu64 " bytes\n", from->offset, from->bytes);
        break;
    case RLX_SOURCE_SEEDED:
        rlx_number_print_f64(from->mean, mean);
        rlx_number_print_f64(from->scale, scale);
        PRINT(p, ": seed %" PRIu64 ", mean %s, scale %s\n", from->seed, mean, scale);
        break;
    default:
        PRINT(p, ": not given yet\n");
    }
}

static void print_plan(plan_printer *p) {
    const rlx_plan *plan = p->plan;
    PRINT(p, "plan for ");
    print_words(p, plan->target);
    PRINT(p, ": %u worker%s, aligned to %" PRIu64 "\n", plan->workers,
          plan->workers == 1 ? "" : "s", plan->alignment);
    if (plan->rank_count > 1) PRINT(p, " rank %u of %u\n", plan->rank, plan->rank_count);
    for (uint32_t i = 0; i < RLX_SEGMENT_COUNT; i++) {
        if (i == RLX_SEGMENT_TILES && !rlx_plan_is_streamed(plan)) continue;
        PRINT(p, "%s%s %" PRIu64, i == 0 ? " " : ", ", segment_names[i], plan->segment_bytes[i]);
    }
    PRINT(p, "\n shared\n");
    print_slots(p, RLX_NONE);
    if (plan->sources.count != 0) PRINT(p, " sources\n");
    for (uint32_t i = 0; i < plan->sources.count; i++)
        print_source(p, &plan->sources.items[i]);
    if (plan->prepare_count != 0) {
        PRINT(p, "\nprepare\n memory\n");
        print_slots(p, RLX_PLAN_PREPARE);
        print_steps(p, 0, plan->prepare_count, 0, plan->prepare_stretch_count);
    }
    for (uint32_t i = 0; i < plan->entries.count; i++)
        print_entry(p, i);
}

rlx_status rlx_plan_print(const rlx_plan *plan, char **out_text) {
    if (plan == NULL || out_text == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    plan_printer p = {.plan = plan, .printer = {.text = {.allocator = plan->allocator}}};
    print_plan(&p);
    return rlx_text_finish(&p.printer.text, out_text);
}
