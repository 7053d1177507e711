/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers, slots and sources of an entry. Scratch is placed at once; weights and states are shared
 * between entries and found again by key. */
#include "compile/emit.h"

#include "base/size.h"

#include <rlx/place.h>

#include <string.h>

rlx_status rlx_plan_text(rlx_plan *plan, const char *text, const char **out_text) {
    return rlx_scratch_text(&plan->memory, text, strlen(text), out_text);
}

static rlx_weight_key mix(rlx_weight_key key, uint64_t word) {
    key.high = (key.high ^ word) * 0x9E3779B97F4A7C15u;
    key.high ^= key.high >> 31;
    key.low = (key.low + word) * 0xD6E8FEB86659FD93u;
    key.low ^= key.low >> 29;
    return key;
}

static rlx_weight_key mix_bytes(rlx_weight_key key, const void *data, uint64_t bytes) {
    const unsigned char *at = data;
    key = mix(key, bytes);
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        key = mix(key, word);
    }
    for (; bytes != 0; bytes--)
        key = mix(key, *at++);
    return key;
}

static rlx_weight_key leaf_key(const rlx_value *value) {
    rlx_weight_key key = mix((rlx_weight_key){1, 2}, value->kind);
    key = mix_bytes(key, value->type.shape.dims, value->type.shape.rank * sizeof(int64_t));
    key = mix(key, value->type.dtype);
    if (value->kind == RLX_VALUE_CONSTANT) return mix_bytes(key, value->data, value->data_bytes);
    if (value->kind == RLX_VALUE_PARAMETER)
        key = mix_bytes(key, &value->weight->window, sizeof value->weight->window);
    return mix_bytes(key, value->name, strlen(value->name));
}

/* Of prepare steps that compute the same, which share their memory, the first is the one to run:
 * others may read it before the second. */
static rlx_status find_first_makers(rlx_entry_emission *self) {
    const rlx_lowered *lowered = self->lowered;
    rlx_value_id *cells = NULL; /* open hash by key: the value of the first maker */
    uint32_t mask = 63;
    while (mask < 2 * lowered->value_count)
        mask = mask * 2 + 1;
    RLX_TRY(rlx_scratch_array(lowered->scratch, mask + 1u, sizeof *cells, (void **)&cells));
    memset(cells, 0xFF, (mask + 1u) * sizeof *cells);
    for (uint32_t s = 0; s < lowered->steps.count; s++) {
        const rlx_lowered_step *step = &lowered->steps.items[s];
        for (uint32_t i = 0; step->is_prepare && !step->is_elided && i < step->output_count; i++) {
            rlx_value_id value = step->outputs[i];
            if (value == RLX_NONE) continue;
            uint32_t cell = (uint32_t)self->keys[value].low & mask;
            while (cells[cell] != RLX_NONE &&
                   (self->keys[cells[cell]].low != self->keys[value].low ||
                    self->keys[cells[cell]].high != self->keys[value].high))
                cell = (cell + 1) & mask;
            if (cells[cell] == RLX_NONE) cells[cell] = value;
            self->maker[value] = self->maker[cells[cell]];
        }
    }
    return RLX_OK;
}

rlx_status rlx_emit_keys(rlx_entry_emission *self) {
    const rlx_lowered *lowered = self->lowered;
    const rlx_graph *graph = lowered->graph;
    for (uint32_t v = 0; v < self->lowered->value_count; v++) {
        self->maker[v] = RLX_NONE;
        if (graph->values.items[v].kind != RLX_VALUE_TEMPORARY) {
            self->keys[v] = leaf_key(&graph->values.items[v]);
        }
    }
    for (uint32_t s = 0; s < lowered->steps.count; s++) {
        const rlx_lowered_step *step = &lowered->steps.items[s];
        if (!step->is_prepare) continue;
        rlx_weight_key key = mix((rlx_weight_key){3, 4}, step->op);
        key = mix(key, rlx_attrs_hash(step->op, step->attrs));
        for (uint32_t i = 0; i < step->input_count; i++) {
            rlx_value_id input = step->inputs[i];
            key = input == RLX_NONE ? mix(key, RLX_NONE)
                                    : mix(mix(key, self->keys[input].high), self->keys[input].low);
        }
        for (uint32_t i = 0; i < step->output_count; i++) {
            if (step->outputs[i] == RLX_NONE) continue;
            self->keys[step->outputs[i]] = mix(key, i);
            self->maker[step->outputs[i]] = s;
        }
    }
    return find_first_makers(self);
}

/* Collects what needs scratch: roots, then workspaces. */
static rlx_status scratch_items(rlx_entry_emission *self, rlx_place_item *items, uint32_t *owners,
                                uint32_t *out_count) {
    const rlx_lowered *lowered = self->lowered;
    uint32_t count = 0;
    for (uint32_t v = 0; v < lowered->value_count; v++) {
        const rlx_root *root = &lowered->roots[v];
        if (!root->is_used || root->segment != RLX_SEGMENT_SCRATCH) continue;
        owners[count] = v;
        items[count++] = (rlx_place_item){root->first, (uint64_t)root->last + 1, root->bytes};
    }
    for (uint32_t s = 0; s < lowered->steps.count; s++) {
        const rlx_lowered_step *step = &lowered->steps.items[s];
        uint64_t each, bytes;
        if (step->is_elided || step->is_prepare || step->kind == RLX_STEP_JUMP) continue;
        if (step->choice.workspace_bytes == 0) continue;
        if (!rlx_align_u64(step->choice.workspace_bytes, self->plan->alignment, &each) ||
            !rlx_mul_u64(each, self->plan->workers, &bytes)) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the workspace of a step wraps");
        }
        uint32_t at = lowered->emitted[s];
        owners[count] = s;
        items[count++] = (rlx_place_item){at, (uint64_t)at + 1, bytes};
    }
    *out_count = count;
    return RLX_OK;
}

static rlx_status without_reuse(const rlx_place_item *items, uint32_t count, uint64_t alignment,
                                uint64_t *offsets, uint64_t *out_peak) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        offsets[i] = at;
        if (!rlx_add_u64(at, items[i].bytes, &at) || !rlx_align_u64(at, alignment, &at)) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the model needs more than 2^64 bytes");
        }
    }
    *out_peak = at;
    return RLX_OK;
}

static rlx_status place_items(rlx_entry_emission *self, const rlx_place_item *items, uint32_t count,
                              uint64_t *offsets) {
    rlx_place_report report = {0};
    rlx_place_options options = {.size = sizeof options,
                                 .alignment = self->plan->alignment,
                                 .search_ns = self->emitter->options->search_ns};
    uint64_t base = 0, sum = 0;
    (void)rlx_align_u64(RLX_FAULT_BYTES, self->plan->alignment, &base); /* both are small */
    RLX_TRY(without_reuse(items, count, self->plan->alignment, offsets, &sum));
    if (self->emitter->options->without_reuse) {
        RLX_TRY(rlx_place_lower_bound(self->plan->allocator, items, count, self->plan->alignment,
                                      &report.lower_bound, NULL));
        report.peak = sum;
        report.method = "without reuse";
    } else {
        RLX_TRY(rlx_place(self->plan->allocator, items, count, &options, offsets, &report));
    }
    for (uint32_t i = 0; i < count; i++)
        offsets[i] += base; /* after the fault record */
    rlx_block_items blocks = {items,
                              offsets,
                              count,
                              self->emitter->target->block_bytes,
                              self->plan->alignment,
                              base,
                              self->emitter->options->without_reuse};
    report.peak += base;
    RLX_TRY(rlx_blocks_keep(&blocks, self->lowered->scratch, &report.peak));
    self->report.scratch_bytes = report.peak;
    self->report.lower_bound = report.lower_bound + base;
    self->report.sum_bytes = sum + base;
    self->report.placed_by = report.method;
    if (self->plan->segment_bytes[RLX_SEGMENT_SCRATCH] < self->report.scratch_bytes) {
        self->plan->segment_bytes[RLX_SEGMENT_SCRATCH] = self->report.scratch_bytes;
    }
    return RLX_OK;
}

rlx_status rlx_emit_scratch(rlx_entry_emission *self) {
    rlx_lowered *lowered = self->lowered;
    uint64_t most = (uint64_t)lowered->value_count + lowered->steps.count + 1;
    rlx_place_item *items = NULL;
    uint32_t *owners = NULL, count = 0;
    uint64_t *offsets = NULL;
    RLX_TRY(rlx_scratch_array(lowered->scratch, most, sizeof *items, (void **)&items));
    RLX_TRY(rlx_scratch_array(lowered->scratch, most, sizeof *owners, (void **)&owners));
    RLX_TRY(rlx_scratch_array(lowered->scratch, most, sizeof *offsets, (void **)&offsets));
    RLX_TRY(scratch_items(self, items, owners, &count));
    RLX_TRY(place_items(self, items, count, offsets));
    uint32_t roots = 0; /* roots come first among the items */
    for (uint32_t v = 0; v < lowered->value_count; v++) {
        roots += lowered->roots[v].is_used && lowered->roots[v].segment == RLX_SEGMENT_SCRATCH;
    }
    for (uint32_t i = 0; i < count; i++) {
        rlx_plan_buffer buffer = {.segment = RLX_SEGMENT_SCRATCH,
                                  .entry = self->entry,
                                  .offset = offsets[i],
                                  .bytes = items[i].bytes,
                                  .first_step = self->first_step + (uint32_t)items[i].lower,
                                  .last_step = self->first_step + (uint32_t)items[i].upper - 1};
        (i < roots ? self->buffers : self->workspaces)[owners[i]] = self->plan->buffers.count;
        RLX_TRY(rlx_vec_push(self->plan->allocator, &self->plan->buffers, buffer));
    }
    return RLX_OK;
}

/* A shared buffer with this key that serves: weights for everybody, source for prepare steps. */
static uint32_t find_shared(const rlx_entry_emission *self, rlx_weight_key key, uint32_t segment) {
    const rlx_emitter *emitter = self->emitter;
    uint32_t mask = emitter->cells.count - 1;
    if (emitter->cells.count == 0) return RLX_NONE;
    for (uint32_t cell = (uint32_t)key.low & mask; emitter->cells.items[cell] != RLX_NONE;
         cell = (cell + 1) & mask) {
        const rlx_shared_buffer *shared = &emitter->shared.items[emitter->cells.items[cell]];
        if (shared->key.high != key.high || shared->key.low != key.low) continue;
        uint32_t found = self->plan->buffers.items[shared->buffer].segment;
        if (found == segment || found == RLX_SEGMENT_WEIGHTS) return shared->buffer;
    }
    return RLX_NONE;
}

static void hash_shared(rlx_emitter *emitter, uint32_t index) {
    uint32_t mask = emitter->cells.count - 1;
    uint32_t cell = (uint32_t)emitter->shared.items[index].key.low & mask;
    while (emitter->cells.items[cell] != RLX_NONE)
        cell = (cell + 1) & mask;
    emitter->cells.items[cell] = index;
}

/* The table stays at most half full. */
static rlx_status add_shared(rlx_entry_emission *self, rlx_weight_key key, uint32_t buffer) {
    rlx_emitter *emitter = self->emitter;
    const rlx_allocator *allocator = self->plan->allocator;
    rlx_shared_buffer shared = {key, buffer};
    RLX_TRY(rlx_vec_push(allocator, &emitter->shared, shared));
    if (2 * emitter->shared.count <= emitter->cells.count) {
        hash_shared(emitter, emitter->shared.count - 1);
        return RLX_OK;
    }
    uint32_t wanted = emitter->cells.count == 0 ? 64 : 2 * emitter->cells.count;
    RLX_TRY(rlx_vec_reserve(allocator, &emitter->cells, wanted));
    emitter->cells.count = wanted;
    memset(emitter->cells.items, 0xFF, wanted * sizeof *emitter->cells.items);
    for (uint32_t i = 0; i < emitter->shared.count; i++)
        hash_shared(emitter, i);
    return RLX_OK;
}

/* Notes where the bytes of a parameter or constant come from. */
static rlx_status add_source(rlx_entry_emission *self, rlx_value_id root, uint32_t slot) {
    const rlx_value *value = &self->lowered->graph->values.items[root];
    rlx_plan_source source = {.slot = slot};
    if (value->kind == RLX_VALUE_CONSTANT) {
        void *copy = NULL;
        RLX_TRY(rlx_scratch_alloc(&self->plan->memory, value->data_bytes, &copy));
        if (value->data_bytes != 0) memcpy(copy, value->data, value->data_bytes);
        source.is_constant = true;
        source.source =
            (rlx_source){.kind = RLX_SOURCE_MEMORY, .memory = copy, .bytes = value->data_bytes};
    } else {
        source.source = value->weight->source;
        source.window = value->weight->window;
        if (source.source.path != NULL)
            RLX_TRY(rlx_plan_text(self->plan, source.source.path, &source.source.path));
    }
    return rlx_vec_push(self->plan->allocator, &self->plan->sources, source);
}

/* The buffer of a weights, source or state root; `*out_is_new` when no entry had it. */
static rlx_status shared_buffer(rlx_entry_emission *self, rlx_value_id root, bool *out_is_new) {
    const rlx_root *info = &self->lowered->roots[root];
    rlx_weight_key key = self->keys[root];
    uint32_t found = find_shared(self, key, info->segment);
    *out_is_new = found == RLX_NONE;
    if (found == RLX_NONE) {
        rlx_plan_buffer buffer = {.segment = info->segment,
                                  .entry = RLX_NONE,
                                  .bytes = info->bytes,
                                  .last_step = UINT32_MAX};
        found = self->plan->buffers.count;
        RLX_TRY(rlx_vec_push(self->plan->allocator, &self->plan->buffers, buffer));
        RLX_TRY(add_shared(self, key, found));
    }
    self->buffers[root] = found;
    return RLX_OK;
}

static rlx_status push_slot(rlx_entry_emission *self, rlx_value_id id, uint32_t *out_slot) {
    const rlx_value *value = &self->lowered->graph->values.items[id];
    const rlx_storage *storage = &self->lowered->storages[id];
    rlx_plan_slot slot = {.kind = (uint32_t)value->kind,
                          .buffer = self->buffers[storage->root],
                          .byte_offset = (uint64_t)storage->byte_offset,
                          .dtype = value->type.dtype,
                          .layout = value->type.layout,
                          .rank = value->type.shape.rank};
    for (uint32_t i = 0; i < RLX_MAX_RANK; i++) {
        slot.extents[i] = RLX_NONE;
        if (i >= slot.rank) continue;
        slot.dims[i] = value->type.shape.dims[i];
        slot.strides[i] = storage->strides[i];
        if (value->type.extents[i] != RLX_NONE) {
            RLX_TRY(rlx_emit_slot(self, value->type.extents[i], &slot.extents[i]));
        }
    }
    RLX_TRY(rlx_plan_text(self->plan, value->name, &slot.name));
    *out_slot = self->plan->slots.count;
    return rlx_vec_push(self->plan->allocator, &self->plan->slots, slot);
}

/* States of one name must have one shape in all entries, because they are one memory. */
static rlx_status check_state(const rlx_entry_emission *self, rlx_value_id id, uint32_t slot) {
    const rlx_plan_slot *mine = &self->plan->slots.items[slot];
    if (mine->kind != RLX_VALUE_STATE) return RLX_OK;
    for (uint32_t i = 0; i < slot; i++) {
        const rlx_plan_slot *other = &self->plan->slots.items[i];
        if (other->kind != RLX_VALUE_STATE || strcmp(other->name, mine->name) != 0) continue;
        if (other->buffer == mine->buffer) return RLX_OK;
        return RLX_FAIL(RLX_INVALID_GRAPH, "state '%s' has another shape in another entry",
                        self->lowered->graph->values.items[id].name);
    }
    return RLX_OK;
}

rlx_status rlx_emit_slot(rlx_entry_emission *self, rlx_value_id value, uint32_t *out_slot) {
    bool is_new = false;
    if (self->slots[value] != RLX_NONE) {
        *out_slot = self->slots[value];
        return RLX_OK;
    }
    rlx_value_id root = self->lowered->storages[value].root;
    RLX_ASSERT(root != RLX_NONE);
    if (self->buffers[root] == RLX_NONE) RLX_TRY(shared_buffer(self, root, &is_new));
    RLX_TRY(push_slot(self, value, &self->slots[value]));
    RLX_TRY(check_state(self, value, self->slots[value]));
    *out_slot = self->slots[value];
    if (!is_new || self->lowered->roots[root].segment == RLX_SEGMENT_STATE) return RLX_OK;
    if (self->maker[root] != RLX_NONE) {
        self->is_needed[self->maker[root]] = 1;
        return RLX_OK;
    }
    uint32_t root_slot;
    RLX_TRY(rlx_emit_slot(self, root, &root_slot));
    return add_source(self, root, root_slot);
}
