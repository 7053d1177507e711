/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites a plan for the split that budget.c chose: stream steps go in front of the steps they are
 * for, operands that were weights become views of tiles, resident weights move together, and what
 * only prepare steps needed is dropped. New tables are built beside the old ones and put in place
 * at the end. */
#include "plan/budget.h"

typedef struct rewriting {
    budget *from;
    rlx_plan *plan;
    rlx_plan next;             /* the plan to be, but for its memory, which stays plan->memory */
    uint32_t *buffers, *slots; /* per old: new number, RLX_NONE: dropped */
    uint32_t *starts;          /* per old step + 1: its stream steps begin here, then it follows */
    uint32_t *tile_slots;      /* per old slot: its view of tile tile_of[slot] */
    uint32_t *tile_of;
    uint32_t
        *reads_at; /* per old step + 1: where the tiles that are issued there start, in `reads` */
    uint32_t *reads;
    uint8_t *begins_stretch; /* per old step */
} rewriting;

static rlx_status make_tables(rewriting *self) {
    rlx_scratch *memory = &self->from->memory;
    const rlx_plan *plan = self->plan;
    uint64_t steps = (uint64_t)plan->steps.count + 1;
    RLX_TRY(rlx_scratch_array(memory, plan->buffers.count, 4, (void **)&self->buffers));
    RLX_TRY(rlx_scratch_array(memory, plan->slots.count, 4, (void **)&self->slots));
    RLX_TRY(rlx_scratch_array(memory, plan->slots.count, 4, (void **)&self->tile_slots));
    RLX_TRY(rlx_scratch_array(memory, plan->slots.count, 4, (void **)&self->tile_of));
    RLX_TRY(rlx_scratch_array(memory, steps, 4, (void **)&self->starts));
    RLX_TRY(rlx_scratch_array(memory, steps, 1, (void **)&self->begins_stretch));
    for (uint32_t i = 0; i < plan->slots.count; i++)
        self->tile_of[i] = RLX_NONE;
    for (uint32_t i = 0; i < plan->stretches.count; i++)
        self->begins_stretch[plan->stretches.items[i].first_step] = 1;
    return RLX_OK;
}

/* Where a byte of the weights lies among the resident pieces. */
static uint64_t resident_offset(const rlx_plan_stream *stream, uint64_t offset) {
    uint32_t low = 0, high = stream->pieces.count;
    while (low + 1 < high) {
        uint32_t middle = low + (high - low) / 2;
        if (stream->pieces.items[middle].source_offset <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const rlx_plan_piece *piece = &stream->pieces.items[low];
    return piece->offset + (offset - piece->source_offset);
}

/* Buffers that stay; weights only if they are resident. Empty ones lie at 0. */
static bool keep_buffer(const rewriting *self, uint32_t index, rlx_plan_buffer *buffer) {
    if (buffer->segment == RLX_SEGMENT_SOURCE || buffer->entry == RLX_PLAN_PREPARE) return false;
    if (buffer->segment != RLX_SEGMENT_WEIGHTS) return true;
    uint32_t weight = self->from->weight_of[index];
    if (buffer->bytes == 0) {
        buffer->offset = 0;
        return true;
    }
    if (weight == RLX_NONE || !self->from->weights[weight].is_resident) return false;
    buffer->offset = resident_offset(&self->next.stream, buffer->offset);
    return true;
}

static rlx_status copy_buffers(rewriting *self) {
    const rlx_plan *plan = self->plan;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        rlx_plan_buffer buffer = plan->buffers.items[i];
        self->buffers[i] = RLX_NONE;
        if (!keep_buffer(self, i, &buffer)) continue;
        self->buffers[i] = self->next.buffers.count;
        RLX_TRY(rlx_vec_push(plan->allocator, &self->next.buffers, buffer));
    }
    return RLX_OK;
}

static rlx_status copy_slots(rewriting *self) {
    const rlx_plan *plan = self->plan;
    for (uint32_t i = 0; i < plan->slots.count; i++) {
        rlx_plan_slot slot = plan->slots.items[i];
        self->slots[i] = RLX_NONE;
        if (self->buffers[slot.buffer] == RLX_NONE) continue;
        slot.buffer = self->buffers[slot.buffer];
        self->slots[i] = self->next.slots.count;
        RLX_TRY(rlx_vec_push(plan->allocator, &self->next.slots, slot));
    }
    return RLX_OK;
}

static uint32_t entry_of(const rlx_plan *plan, uint32_t step) {
    uint32_t entry = 0;
    while (step - plan->entries.items[entry].first_step >= plan->entries.items[entry].step_count)
        entry++;
    return entry;
}

/* The tile's buffer and the slot that is the whole of it; lives are filled in with the steps. */
static rlx_status add_tile(rewriting *self, uint32_t index) {
    const budget_tile *from = &self->from->tiles[index];
    const budget_weight *weight = &self->from->weights[from->weight];
    rlx_plan *plan = self->plan;
    uint64_t bytes = from->end - from->begin;
    rlx_plan_buffer buffer = {.segment = RLX_SEGMENT_TILES,
                              .entry = entry_of(plan, from->first),
                              .offset = from->offset,
                              .bytes = bytes};
    rlx_plan_slot slot = {.kind = RLX_VALUE_PARAMETER,
                          .buffer = self->next.buffers.count,
                          .dtype = RLX_DTYPE_U8,
                          .rank = 1,
                          .dims = {(int64_t)bytes},
                          .strides = {1}};
    rlx_plan_tile tile = {
        .slot = self->next.slots.count, .source_offset = from->begin, .bytes = bytes};
    for (uint32_t i = 0; i < RLX_MAX_RANK; i++)
        slot.extents[i] = RLX_NONE;
    const char *name = plan->slots.items[weight->slot].name;
    if (from->weight_count == 1) {
        RLX_TRY(rlx_scratch_printf(&plan->memory, &slot.name, "%%tile %s", name));
    } else {
        RLX_TRY(rlx_scratch_printf(&plan->memory, &slot.name, "%%tile %s +%u", name,
                                   from->weight_count - 1));
    }
    RLX_TRY(rlx_vec_push(plan->allocator, &self->next.buffers, buffer));
    RLX_TRY(rlx_vec_push(plan->allocator, &self->next.slots, slot));
    return rlx_vec_push(plan->allocator, &self->next.stream.tiles, tile);
}

/* Tiles by the step that they are issued at; their order in each stays. */
static rlx_status sort_reads(rewriting *self) {
    const budget *from = self->from;
    rlx_scratch *memory = &self->from->memory;
    uint32_t steps = self->plan->steps.count;
    RLX_TRY(rlx_scratch_array(memory, (uint64_t)steps + 2, 4, (void **)&self->reads_at));
    RLX_TRY(rlx_scratch_array(memory, from->tile_count, 4, (void **)&self->reads));
    for (uint32_t i = 0; i < from->tile_count; i++)
        self->reads_at[from->tiles[i].issue + 2]++;
    for (uint32_t i = 2; i < steps + 2; i++)
        self->reads_at[i] += self->reads_at[i - 1];
    for (uint32_t i = 0; i < from->tile_count; i++)
        self->reads[self->reads_at[from->tiles[i].issue + 1]++] = i;
    return RLX_OK;
}

static rlx_status push_stream_step(rewriting *self, uint32_t index, bool is_wait) {
    rlx_plan_tile *tile = &self->next.stream.tiles.items[index];
    const char *name = self->next.slots.items[tile->slot].name + strlen("%tile ");
    rlx_plan_step step = {.kind = RLX_STEP_STREAM,
                          .op = RLX_OP_NONE,
                          .kernel = "",
                          .reason = "",
                          .operands_at = self->next.operands.count,
                          .input_count = is_wait,
                          .output_count = !is_wait,
                          .workspace = RLX_NONE,
                          .target = index,
                          .condition = RLX_NONE,
                          .value = RLX_NONE,
                          .bytes = is_wait ? 0 : tile->bytes};
    RLX_TRY(rlx_scratch_printf(&self->plan->memory, &step.name, "%s %s",
                               is_wait ? "wait for" : "read", name));
    *(is_wait ? &tile->wait_step : &tile->read_step) = self->next.steps.count;
    if (!is_wait) {
        self->next.buffers.items[self->next.slots.items[tile->slot].buffer].first_step =
            self->next.steps.count;
    }
    RLX_TRY(rlx_vec_push(self->plan->allocator, &self->next.operands, tile->slot));
    return rlx_vec_push(self->plan->allocator, &self->next.steps, step);
}

/* The operand's bytes in the tile that has them for this step. */
static rlx_status view_of_tile(rewriting *self, uint32_t old, uint32_t tile, uint32_t *out_slot) {
    if (self->tile_of[old] == tile) {
        *out_slot = self->tile_slots[old];
        return RLX_OK;
    }
    rlx_plan_slot slot = self->plan->slots.items[old];
    const rlx_plan_tile *row = &self->next.stream.tiles.items[tile];
    slot.byte_offset += self->plan->buffers.items[slot.buffer].offset - row->source_offset;
    slot.buffer = self->next.slots.items[row->slot].buffer;
    for (uint32_t i = 0; i < slot.rank; i++) {
        if (slot.extents[i] != RLX_NONE) slot.extents[i] = self->slots[slot.extents[i]];
    }
    self->tile_of[old] = tile;
    self->tile_slots[old] = *out_slot = self->next.slots.count;
    return rlx_vec_push(self->plan->allocator, &self->next.slots, slot);
}

/* The uses of a step are in order of their offsets. */
static uint32_t tile_at(const budget *from, uint32_t step, uint64_t offset) {
    uint32_t low = from->uses_at[step], high = from->uses_at[step + 1];
    while (low + 1 < high) {
        uint32_t middle = low + (high - low) / 2;
        if (from->weights[from->uses[middle].weight].offset <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return from->uses[low].tile;
}

static rlx_status push_operand(rewriting *self, uint32_t step, uint32_t old) {
    uint32_t slot = RLX_NONE;
    if (old != RLX_NONE) {
        slot = self->slots[old];
        if (slot == RLX_NONE) {
            uint32_t buffer = self->plan->slots.items[old].buffer;
            uint64_t offset = self->plan->buffers.items[buffer].offset;
            RLX_TRY(view_of_tile(self, old, tile_at(self->from, step, offset), &slot));
        }
    }
    return rlx_vec_push(self->plan->allocator, &self->next.operands, slot);
}

static rlx_status push_step(rewriting *self, uint32_t index) {
    rlx_plan_step step = self->plan->steps.items[index];
    uint32_t count = step.input_count + step.output_count, at = step.operands_at;
    step.operands_at = self->next.operands.count;
    for (uint32_t i = 0; i < count; i++)
        RLX_TRY(push_operand(self, index, self->plan->operands.items[at + i]));
    if (step.workspace != RLX_NONE) step.workspace = self->buffers[step.workspace];
    if (step.kind == RLX_STEP_JUMP) {
        if (step.condition != RLX_NONE) step.condition = self->slots[step.condition];
        if (step.value != RLX_NONE) step.value = self->slots[step.value];
    }
    return rlx_vec_push(self->plan->allocator, &self->next.steps, step);
}

/* Reads that are issued before the step, waits for the tiles it is the first to use, the step. */
static rlx_status push_steps(rewriting *self) {
    const budget *from = self->from;
    const rlx_plan *plan = self->plan;
    uint32_t wait = 0;
    for (uint32_t s = plan->prepare_count; s < plan->steps.count; s++) {
        self->starts[s] = self->next.steps.count;
        for (uint32_t i = self->reads_at[s]; i < self->reads_at[s + 1]; i++)
            RLX_TRY(push_stream_step(self, self->reads[i], false));
        for (; wait < from->tile_count && from->tiles[wait].first == s; wait++)
            RLX_TRY(push_stream_step(self, wait, true));
        RLX_TRY(push_step(self, s));
    }
    self->starts[plan->steps.count] = self->next.steps.count;
    return RLX_OK;
}

/* The new number of the old step itself, behind its stream steps. */
static uint32_t itself(const rewriting *self, uint32_t old) {
    return self->starts[old + 1] - 1;
}

static void move_lives(rewriting *self) {
    const rlx_plan *plan = self->plan;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        if (self->buffers[i] == RLX_NONE) continue;
        rlx_plan_buffer *buffer = &self->next.buffers.items[self->buffers[i]];
        if (buffer->entry == RLX_NONE) continue;
        const rlx_plan_entry *entry = &plan->entries.items[buffer->entry];
        buffer->first_step = self->starts[buffer->first_step];
        buffer->last_step =
            entry->step_count == 0 ? buffer->first_step : itself(self, buffer->last_step);
    }
    for (uint32_t i = 0; i < self->from->tile_count; i++) {
        uint32_t slot = self->next.stream.tiles.items[i].slot;
        self->next.buffers.items[self->next.slots.items[slot].buffer].last_step =
            itself(self, self->from->tiles[i].last);
    }
    for (uint32_t i = 0; i < self->next.steps.count; i++) {
        rlx_plan_step *step = &self->next.steps.items[i];
        if (step->kind == RLX_STEP_JUMP && step->fault_code == 0) {
            step->target = self->starts[step->target];
        }
    }
}

static rlx_status cut_stretches(rewriting *self, uint32_t first, uint32_t end) {
    rlx_plan_stretch stretch = {0, 0};
    for (uint32_t s = first; s < end; s++) {
        uint32_t kind = self->plan->steps.items[s].kind;
        bool is_device = kind == RLX_STEP_KERNEL || kind == RLX_STEP_COPY;
        bool has_streams = self->starts[s] != itself(self, s);
        if (stretch.step_count != 0 &&
            (!is_device || has_streams || self->begins_stretch[s] != 0)) {
            RLX_TRY(rlx_vec_push(self->plan->allocator, &self->next.stretches, stretch));
            stretch.step_count = 0;
        }
        if (!is_device) continue;
        if (stretch.step_count == 0) stretch.first_step = itself(self, s);
        stretch.step_count++;
    }
    if (stretch.step_count == 0) return RLX_OK;
    return rlx_vec_push(self->plan->allocator, &self->next.stretches, stretch);
}

static rlx_status move_entries(rewriting *self) {
    const rlx_plan *plan = self->plan;
    for (uint32_t i = 0; i < plan->entries.count; i++) {
        rlx_plan_entry entry = plan->entries.items[i];
        uint32_t first = entry.first_step, end = first + entry.step_count;
        entry.first_step = self->starts[first];
        entry.step_count = self->starts[end] - self->starts[first];
        entry.first_stretch = self->next.stretches.count;
        RLX_TRY(cut_stretches(self, first, end));
        entry.stretch_count = self->next.stretches.count - entry.first_stretch;
        RLX_TRY(rlx_vec_push(plan->allocator, &self->next.entries, entry));
    }
    for (uint32_t i = 0; i < plan->ports.count; i++) {
        rlx_plan_port port = plan->ports.items[i];
        port.slot = self->slots[port.slot];
        RLX_TRY(rlx_vec_push(plan->allocator, &self->next.ports, port));
    }
    for (uint32_t i = 0; i < self->next.slots.count; i++) {
        rlx_plan_slot *slot = &self->next.slots.items[i];
        if (self->next.buffers.items[slot->buffer].segment == RLX_SEGMENT_TILES) continue;
        for (uint32_t axis = 0; axis < slot->rank; axis++) {
            if (slot->extents[axis] != RLX_NONE) {
                slot->extents[axis] = self->slots[slot->extents[axis]];
            }
        }
    }
    return RLX_OK;
}

static rlx_status list_weights(rewriting *self) {
    const budget *from = self->from;
    for (uint32_t i = 0; i < from->weight_count; i++) {
        const budget_weight *weight = &from->weights[i];
        rlx_plan_weight row = {.name = self->plan->slots.items[weight->slot].name,
                               .bytes = weight->bytes,
                               .use_count = weight->use_count,
                               .read_count = weight->is_resident ? 0 : weight->read_count,
                               .is_pinned = weight->is_resident && weight->worth > 1};
        RLX_TRY(rlx_vec_push(self->plan->allocator, &self->next.stream.weights, row));
    }
    return RLX_OK;
}

static rlx_status rewrite(rewriting *self) {
    RLX_TRY(make_tables(self));
    RLX_TRY(budget_resident(self->from, &self->next.stream,
                            &self->next.segment_bytes[RLX_SEGMENT_WEIGHTS]));
    RLX_TRY(copy_buffers(self));
    RLX_TRY(copy_slots(self));
    for (uint32_t i = 0; i < self->from->tile_count; i++)
        RLX_TRY(add_tile(self, i));
    RLX_TRY(sort_reads(self));
    RLX_TRY(push_steps(self));
    move_lives(self);
    RLX_TRY(move_entries(self));
    return list_weights(self);
}

static void forget_tables(rlx_plan *plan) {
    memset(&plan->buffers, 0, sizeof plan->buffers);
    memset(&plan->slots, 0, sizeof plan->slots);
    memset(&plan->operands, 0, sizeof plan->operands);
    memset(&plan->steps, 0, sizeof plan->steps);
    memset(&plan->stretches, 0, sizeof plan->stretches);
    memset(&plan->ports, 0, sizeof plan->ports);
    memset(&plan->entries, 0, sizeof plan->entries);
    memset(&plan->sources, 0, sizeof plan->sources);
    memset(&plan->stream, 0, sizeof plan->stream);
}

static void free_tables(rlx_plan *plan) {
    rlx_vec_free(plan->allocator, &plan->buffers);
    rlx_vec_free(plan->allocator, &plan->slots);
    rlx_vec_free(plan->allocator, &plan->operands);
    rlx_vec_free(plan->allocator, &plan->steps);
    rlx_vec_free(plan->allocator, &plan->stretches);
    rlx_vec_free(plan->allocator, &plan->ports);
    rlx_vec_free(plan->allocator, &plan->entries);
    rlx_vec_free(plan->allocator, &plan->sources);
    rlx_vec_free(plan->allocator, &plan->stream.tiles);
    rlx_vec_free(plan->allocator, &plan->stream.pieces);
    rlx_vec_free(plan->allocator, &plan->stream.weights);
}

/* The plan takes over the new tables; `next` is left with the old ones. */
static void exchange(rewriting *self, uint64_t largest_tile) {
    rlx_plan old = *self->plan;
    rlx_plan *plan = self->plan;
    *plan = self->next;
    plan->memory = old.memory;
    plan->prepare_count = plan->prepare_stretch_count = 0;
    plan->segment_bytes[RLX_SEGMENT_SOURCE] = 0;
    plan->segment_bytes[RLX_SEGMENT_TILES] = self->from->tile_space;
    plan->stream.budget = self->from->bytes;
    plan->stream.source_bytes = old.segment_bytes[RLX_SEGMENT_WEIGHTS];
    plan->stream.largest_tile = largest_tile;
    self->next = old;
}

rlx_status budget_apply(budget *from, uint64_t largest_tile) {
    rewriting self = {.from = from, .plan = from->plan, .next = *from->plan};
    forget_tables(&self.next);
    budget_count_reads(from);
    rlx_status status = rewrite(&self);
    if (status == RLX_OK) exchange(&self, largest_tile);
    free_tables(&self.next);
    return status;
}
