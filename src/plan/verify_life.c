/* SPDX-License-Identifier: Apache-2.0 */
/* Verifier, part four: lives. Every use of a buffer falls into its life; what an entry is given or
 * gives back is alive at its start or end; what is alive across a jump back is alive through the
 * whole loop, so that the next round finds it. */
#include "plan/verify.h"

rlx_status plan_use_buffer(plan_check *check, const step_range *range, uint32_t step,
                           uint32_t buffer, bool is_write) {
    const rlx_plan_buffer *used = &check->plan->buffers.items[buffer];
    if (used->entry != RLX_NONE && used->entry != range->entry) {
        return INVALID_PLAN("buffer %u belongs to entry %d", buffer, (int)used->entry);
    }
    if (used->entry != RLX_NONE && (step < used->first_step || step > used->last_step)) {
        return INVALID_PLAN("buffer %u lives [%u, %u], not at step %u", buffer, used->first_step,
                            used->last_step, step);
    }
    RLX_TRY(plan_check_tile_use(check, buffer, step));
    if (!check->is_used[buffer]) {
        check->is_used[buffer] = 1;
        if (!is_write) check->is_carried[buffer] = 1;
    }
    if (is_write) check->is_written[buffer] = 1;
    return RLX_OK;
}

rlx_status plan_use_slot(plan_check *check, const step_range *range, uint32_t step, uint32_t slot,
                         bool is_write) {
    uint32_t buffer = check->plan->slots.items[slot].buffer;
    RLX_TRY_WITH(plan_use_buffer(check, range, step, buffer, is_write), SLOT_FORMAT,
                 SLOT_ARGS(check->plan, slot));
    return RLX_OK;
}

rlx_status plan_use_extents(plan_check *check, const step_range *range, uint32_t step,
                            uint32_t slot) {
    const rlx_plan_slot *used = &check->plan->slots.items[slot];
    for (uint32_t i = 0; i < used->rank; i++) {
        uint32_t extent = used->extents[i];
        if (extent == RLX_NONE) continue;
        RLX_TRY_WITH(plan_use_slot(check, range, step, extent, false),
                     SLOT_FORMAT ": extent of axis %u", SLOT_ARGS(check->plan, slot), i);
    }
    return RLX_OK;
}

/* A port's slot, alive at the start (inputs) or end (outputs) of the entry. */
static rlx_status check_alive(const plan_check *check, const step_range *range, uint32_t buffer,
                              bool at_start, bool at_end) {
    const rlx_plan_buffer *used = &check->plan->buffers.items[buffer];
    uint32_t last = range->end == range->first ? range->first : range->end - 1;
    if (used->entry == RLX_NONE) return RLX_OK;
    if (used->entry != range->entry) {
        return INVALID_PLAN("buffer %u belongs to entry %d", buffer, (int)used->entry);
    }
    if ((at_start && used->first_step != range->first) || (at_end && used->last_step != last)) {
        return INVALID_PLAN("buffer %u lives [%u, %u], not at the entry's %s %u", buffer,
                            used->first_step, used->last_step, at_start ? "start" : "end",
                            at_start ? range->first : last);
    }
    return RLX_OK;
}

static rlx_status check_port(plan_check *check, const step_range *range, const rlx_plan_port *port,
                             bool is_input) {
    const rlx_plan_slot *slot = &check->plan->slots.items[port->slot];
    uint32_t segment = check->plan->buffers.items[slot->buffer].segment;
    if (!plan_slot_is_plain(slot)) return INVALID_PLAN("it is not plain");
    if (segment == RLX_SEGMENT_SOURCE || segment == RLX_SEGMENT_TILES ||
        (is_input && segment == RLX_SEGMENT_WEIGHTS)) {
        return INVALID_PLAN("it lies in segment %u", segment);
    }
    RLX_TRY(check_alive(check, range, slot->buffer, is_input, !is_input));
    if (port->survives) {
        RLX_TRY_WITH(check_alive(check, range, slot->buffer, false, true), "it should survive");
        if (check->is_written[slot->buffer]) {
            return INVALID_PLAN("it should survive, but a step writes buffer %u", slot->buffer);
        }
    }
    for (uint32_t i = 0; i < slot->rank; i++) {
        if (slot->extents[i] == RLX_NONE) continue;
        uint32_t buffer = check->plan->slots.items[slot->extents[i]].buffer;
        RLX_TRY_WITH(check_alive(check, range, buffer, is_input, !is_input), "extent of axis %u",
                     i);
    }
    if (is_input) check->is_carried[slot->buffer] = 1;
    return RLX_OK;
}

static rlx_status check_port_list(plan_check *check, const step_range *range, uint32_t at,
                                  uint32_t count, bool is_input) {
    const rlx_plan *plan = check->plan;
    const char *what = is_input ? "input" : "output";
    for (uint32_t i = 0; i < count; i++) {
        const rlx_plan_port *port = &plan->ports.items[at + i];
        if (port->name == NULL) return INVALID_PLAN("%s %u has no name", what, i);
        if (port->slot >= plan->slots.count) {
            return INVALID_PLAN("%s %u '%.80s': slot %u of %u", what, i, port->name, port->slot,
                                plan->slots.count);
        }
        RLX_TRY_WITH(check_port(check, range, port, is_input), "%s %u '%.80s': " SLOT_FORMAT, what,
                     i, port->name, SLOT_ARGS(plan, port->slot));
    }
    return RLX_OK;
}

rlx_status plan_check_ports(plan_check *check, const step_range *range) {
    const rlx_plan_entry *entry = &check->plan->entries.items[range->entry];
    RLX_TRY(check_port_list(check, range, entry->inputs_at, entry->input_count, true));
    return check_port_list(check, range, entry->outputs_at, entry->output_count, false);
}

/* A tree over an array that answers "largest of items [from, to)" in log n. */
typedef struct largest {
    uint32_t *items; /* 2 * count: the tree, then the array */
    uint32_t count;
} largest;

static rlx_status make_largest(rlx_scratch *memory, uint32_t count, largest *out) {
    out->count = count;
    return rlx_scratch_array(memory, 2 * (uint64_t)count, sizeof *out->items, (void **)&out->items);
}

static void build_largest(largest *tree) {
    for (size_t i = tree->count; i-- > 1;) {
        uint32_t a = tree->items[2 * i], b = tree->items[2 * i + 1];
        tree->items[i] = a > b ? a : b;
    }
}

static uint32_t largest_of(const largest *tree, uint32_t from, uint32_t to) {
    uint32_t best = 0;
    size_t low = (size_t)from + tree->count, high = (size_t)to + tree->count;
    for (; low < high; low /= 2, high /= 2) {
        if ((low & 1) != 0 && tree->items[low] > best) best = tree->items[low];
        low += low & 1;
        if ((high & 1) != 0) {
            high--;
            if (tree->items[high] > best) best = tree->items[high];
        }
    }
    return best;
}

/* Loops are [head, end] with a jump at `end` back to `head`. `ends` has end + 1 per head, `heads`
 * has count - head per end, `reach` the largest end + 1 of all heads up to a step. */
typedef struct loop_table {
    largest ends, heads;
    uint32_t *reach;
} loop_table;

static rlx_status make_loops(plan_check *check, loop_table *loops) {
    uint32_t count = check->plan->steps.count, reach = 0;
    RLX_TRY(make_largest(&check->memory, count, &loops->ends));
    RLX_TRY(make_largest(&check->memory, count, &loops->heads));
    RLX_TRY(rlx_scratch_array(&check->memory, count, sizeof reach, (void **)&loops->reach));
    for (uint32_t i = 0; i < count; i++) {
        loops->ends.items[count + i] = check->loop_ends[i];
        if (check->loop_heads[i] != RLX_NONE) {
            loops->heads.items[count + i] = count - check->loop_heads[i];
        }
        if (check->loop_ends[i] > reach) reach = check->loop_ends[i];
        loops->reach[i] = reach;
    }
    build_largest(&loops->ends);
    build_largest(&loops->heads);
    return RLX_OK;
}

static rlx_status check_buffer_loops(const plan_check *check, const loop_table *loops,
                                     uint32_t index) {
    const rlx_plan_buffer *buffer = &check->plan->buffers.items[index];
    uint32_t first = buffer->first_step, last = buffer->last_step;
    uint32_t count = check->plan->steps.count;
    if (buffer->entry == RLX_NONE || first >= count) return RLX_OK;
    uint32_t end = largest_of(&loops->ends, first + 1, last + 1);
    if (end > last + 1) {
        return INVALID_PLAN("buffer %u lives [%u, %u], from before a loop that ends at step %u, "
                            "but not to its end",
                            index, first, last, end - 1);
    }
    uint32_t head = largest_of(&loops->heads, first, last);
    if (head > count - first) {
        return INVALID_PLAN("buffer %u lives [%u, %u], past a loop that starts at step %u, but not "
                            "from its start",
                            index, first, last, count - head);
    }
    if (!check->is_carried[index]) return RLX_OK;
    bool is_inside = loops->reach[first] > last + 1 ||              /* a loop that ends later, */
                     (first > 0 && loops->reach[first - 1] > last); /* or begins earlier */
    if (!is_inside) return RLX_OK;
    return INVALID_PLAN("buffer %u lives [%u, %u] and is read before it is written, inside a loop "
                        "that ends at step %u",
                        index, first, last, loops->reach[first] - 1);
}

rlx_status plan_check_loops(plan_check *check) {
    loop_table loops;
    if (!check->has_loops) return RLX_OK;
    RLX_TRY(make_loops(check, &loops));
    for (uint32_t i = 0; i < check->plan->buffers.count; i++)
        RLX_TRY(check_buffer_loops(check, &loops, i));
    return RLX_OK;
}
