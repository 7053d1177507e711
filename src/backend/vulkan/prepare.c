/* SPDX-License-Identifier: Apache-2.0 */
/* A stretch of plan steps becomes a list of commands with records and descriptor sets. Done once;
 * a run reads none of it again. */
#include "backend/vulkan/stream.h"

#include "base/size.h"

#include <string.h>

/* Words of all records; each begins at a multiple of RLX_VK_ALIGNMENT. */
typedef struct preparation {
    rlx_vk_stream *stream;
    rlx_vk_stretch *stretch;
    const rlx_allocator *allocator;
    RLX_VEC(int32_t) words;
    uint32_t step;
    const rlx_plan_step *row;
} preparation;

static rlx_vk_arena *arena_of(const preparation *self) {
    return (rlx_vk_arena *)self->stream->base.arena;
}

static uint32_t slot_of(const preparation *self, uint32_t operand) {
    return arena_of(self)->base.plan->operands.items[self->row->operands_at + operand];
}

/* The bytes that an operand's binding shows: from an aligned offset to past its last element, in
 * whole words. *out_first is its first element, counted from there. An empty one shows nothing. */
static rlx_status resolve(const preparation *self, uint32_t slot, rlx_vk_range *out_range,
                          int64_t *out_first) {
    const rlx_plan *plan = arena_of(self)->base.plan;
    const rlx_plan_slot *row = &plan->slots.items[slot];
    uint32_t segment = plan->buffers.items[row->buffer].segment;
    const rlx_vk_blocks *blocks = &arena_of(self)->blocks[segment];
    const rlx_vk_buffer *buffer;
    uint64_t offset = rlx_plan_slot_offset(plan, row), start, end, inside, now;
    uint32_t size = rlx_dtype_block_bytes(row->dtype);
    int64_t low = 0, high = 0;
    RLX_TRY(rlx_plan_slot_span(row, &low, &high));
    *out_range = (rlx_vk_range){0};
    *out_first = 0;
    if (high <= low) return RLX_OK;
    start = (offset + (uint64_t)low) / RLX_VK_ALIGNMENT * RLX_VK_ALIGNMENT;
    end = (offset + (uint64_t)high + 3) / 4 * 4;
    if (blocks->count == 0 || offset + (uint64_t)high > blocks->bytes) {
        return RLX_FAIL(RLX_INVALID_PLAN, "operand '%s' has no memory here", row->name);
    }
    buffer = rlx_vk_block_at(blocks, start, end - start, &inside, &now);
    if (now != end - start || inside + now > buffer->bytes) {
        return RLX_FAIL(RLX_DOES_NOT_FIT,
                        "operand '%s' lies across two blocks of device '%s': the plan is for "
                        "larger ones",
                        row->name, self->stream->device->name);
    }
    if (end - start > self->stream->device->caps.storage_range) {
        return RLX_FAIL(RLX_DOES_NOT_FIT,
                        "operand '%s' has %" PRIu64 " bytes, device '%s' binds %" PRIu64, row->name,
                        end - start, self->stream->device->name,
                        self->stream->device->caps.storage_range);
    }
    if ((offset - start) % size != 0) {
        return RLX_FAIL(RLX_INVALID_PLAN, "operand '%s' does not begin at an element", row->name);
    }
    *out_range = (rlx_vk_range){buffer->handle, inside, end - start, false};
    *out_first = (int64_t)((offset - start) / size);
    return RLX_OK;
}

/* Written and read by the dispatches of one step. */
static rlx_status workspace_range(const preparation *self, rlx_vk_range *out_range) {
    const rlx_plan *plan = arena_of(self)->base.plan;
    const rlx_plan_buffer *row;
    uint64_t inside, now;
    if (self->row->workspace >= plan->buffers.count) {
        return RLX_FAIL(RLX_INVALID_PLAN, "a step without its workspace");
    }
    row = &plan->buffers.items[self->row->workspace];
    const rlx_vk_buffer *buffer = rlx_vk_block_at(&arena_of(self)->blocks[row->segment],
                                                  row->offset, row->bytes, &inside, &now);
    if (now != row->bytes || row->bytes > self->stream->device->caps.storage_range) {
        return RLX_FAIL(RLX_DOES_NOT_FIT, "a workspace of %" PRIu64 " bytes on device '%s'",
                        row->bytes, self->stream->device->name);
    }
    *out_range = (rlx_vk_range){buffer->handle, inside, row->bytes, true};
    return RLX_OK;
}

static rlx_vk_range fault_range(const preparation *self) {
    const rlx_vk_blocks *scratch = &arena_of(self)->blocks[RLX_SEGMENT_SCRATCH];
    return (rlx_vk_range){scratch->items[0].handle, 0, RLX_FAULT_BYTES, true};
}

/* Room for a record; where it begins, in words. */
static rlx_status add_record(preparation *self, const int32_t *words, uint32_t count,
                             uint32_t *out_at) {
    const uint32_t whole = RLX_VK_ALIGNMENT / sizeof(int32_t);
    uint32_t at = self->words.count, rounded = (count + whole - 1) / whole * whole;
    RLX_TRY(rlx_vec_reserve(self->allocator, &self->words, at + rounded));
    memset(self->words.items + at, 0, rounded * sizeof(int32_t));
    memcpy(self->words.items + at, words, count * sizeof(int32_t));
    self->words.count += rounded;
    *out_at = at;
    return RLX_OK;
}

/* The records buffer is made last: until then its range has no handle. */
static rlx_vk_range record_range(uint32_t at, uint32_t words, bool is_written) {
    return (rlx_vk_range){VK_NULL_HANDLE, at * sizeof(int32_t), words * sizeof(int32_t),
                          is_written};
}

static rlx_status add_command(preparation *self, rlx_vk_command *command, uint32_t record_at,
                              uint32_t record_words) {
    command->kind = RLX_VK_DISPATCH;
    command->step = self->step;
    command->ranges[0] = record_range(record_at, record_words, false);
    /* A buffer of its own stands for the records while conflicts are looked for. */
    command->ranges[0].buffer = self->stretch->records.handle;
    return rlx_vk_commands_add(self->allocator, &self->stretch->commands, command);
}

typedef struct extent_job {
    uint32_t count, binding_count;
    uint32_t slots[8];
    int32_t words[2 + 4 * RLX_VK_PATCHES];
} extent_job;

static bool is_own_output(const preparation *self, uint32_t slot) {
    for (uint32_t i = 0; i < self->row->output_count; i++) {
        if (slot_of(self, self->row->input_count + i) == slot) return true;
    }
    return false;
}

static rlx_status add_extent(const preparation *self, extent_job *job, const rlx_vk_dim *dim,
                             int32_t bound) {
    const rlx_plan *plan = arena_of(self)->base.plan;
    uint32_t slot = plan->slots.items[slot_of(self, dim->operand)].extents[dim->axis];
    uint32_t binding = 0;
    rlx_vk_range range;
    int64_t first;
    if (slot == RLX_NONE || is_own_output(self, slot)) return RLX_OK;
    while (binding < job->binding_count && job->slots[binding] != slot)
        binding++;
    if (binding == 8) return RLX_FAIL(RLX_UNSUPPORTED, "more than 8 sizes of a run in one step");
    job->slots[binding] = slot;
    if (binding == job->binding_count) job->binding_count++;
    RLX_TRY(resolve(self, slot, &range, &first));
    job->words[2 + 4 * job->count] = (int32_t)dim->word;
    job->words[3 + 4 * job->count] = bound;
    job->words[4 + 4 * job->count] = (int32_t)first;
    job->words[5 + 4 * job->count] = (int32_t)binding + 1;
    job->count++;
    return RLX_OK;
}

/* The dispatch that reads sizes of this run into the record of the next one. */
static rlx_status add_extents(preparation *self, const rlx_vk_dispatch *dispatch,
                              uint32_t record_at, uint32_t record_words) {
    extent_job job = {0};
    rlx_vk_command command = {.groups = 1};
    rlx_vk_dispatch reader = {.shader = RLX_VK_EXTENTS};
    rlx_dtype dtypes[RLX_VK_BINDINGS];
    uint32_t at;
    for (uint32_t i = 0; i < dispatch->dim_count; i++) {
        RLX_TRY(
            add_extent(self, &job, &dispatch->dims[i], dispatch->words[dispatch->dims[i].word]));
    }
    if (job.count == 0) return RLX_OK;
    job.words[0] = (int32_t)self->step;
    job.words[1] = (int32_t)job.count;
    for (uint32_t i = 0; i < RLX_VK_BINDINGS; i++) {
        int64_t first;
        dtypes[i] = i >= 1 && i <= 8 ? RLX_DTYPE_I64 : RLX_DTYPE_U32;
        if (i < 1 || i > 8) continue;
        /* Every binding of the shader is bound: those too many to the first. */
        RLX_TRY(resolve(self, job.slots[i - 1 < job.binding_count ? i - 1 : 0], &command.ranges[i],
                        &first));
    }
    command.ranges[10] = record_range(record_at, record_words, true);
    command.ranges[10].buffer = self->stretch->records.handle;
    command.ranges[RLX_VK_FAULT_BINDING] = fault_range(self);
    RLX_TRY(add_record(self, job.words, 2 + 4 * job.count, &at));
    RLX_TRY(rlx_vk_find_pipeline(self->stream->device, &reader, dtypes, &command.pipeline,
                                 &command.layout));
    return add_command(self, &command, at, 2 + 4 * job.count);
}

static rlx_status add_dispatch(void *user, const rlx_vk_dispatch *dispatch) {
    preparation *self = user;
    rlx_vk_command command = {.groups = dispatch->groups};
    rlx_dtype dtypes[RLX_VK_BINDINGS];
    uint32_t at;
    RLX_TRY(add_record(self, dispatch->words, dispatch->word_count, &at));
    for (uint32_t i = 0; i < RLX_VK_BINDINGS; i++) {
        int64_t first;
        dtypes[i] = RLX_DTYPE_F32;
        if (dispatch->operands[i] == RLX_NONE) continue;
        if (dispatch->operands[i] == RLX_VK_WORKSPACE) {
            RLX_TRY(workspace_range(self, &command.ranges[i]));
            continue;
        }
        uint32_t slot = slot_of(self, dispatch->operands[i]);
        RLX_TRY(resolve(self, slot, &command.ranges[i], &first));
        command.ranges[i].is_written = (dispatch->written >> i & 1) != 0;
        dtypes[i] = arena_of(self)->base.plan->slots.items[slot].dtype;
        if (dispatch->code == NULL) dtypes[i] = rlx_vk_shader_dtype(dtypes[i]);
    }
    for (uint32_t i = 0; i < dispatch->base_count; i++) {
        rlx_vk_range range;
        int64_t first;
        RLX_TRY(resolve(self, slot_of(self, dispatch->bases[i].operand), &range, &first));
        self->words.items[at + dispatch->bases[i].word] += (int32_t)first;
    }
    if (dispatch->faults) command.ranges[RLX_VK_FAULT_BINDING] = fault_range(self);
    RLX_TRY(rlx_vk_find_pipeline(self->stream->device, dispatch, dtypes, &command.pipeline,
                                 &command.layout));
    if (dispatch->dim_count != 0) {
        RLX_TRY(add_extents(self, dispatch, at, dispatch->word_count));
    }
    return add_command(self, &command, at, dispatch->word_count);
}

static rlx_status add_copy(preparation *self) {
    rlx_vk_command command = {.kind = RLX_VK_COPY_BYTES, .step = self->step};
    const rlx_plan *plan = arena_of(self)->base.plan;
    uint64_t bytes[2] = {0, 0};
    for (uint32_t i = 0; i < 2; i++) {
        const rlx_plan_slot *row = &plan->slots.items[slot_of(self, i)];
        uint32_t segment = plan->buffers.items[row->buffer].segment;
        RLX_TRY(rlx_plan_slot_bytes(row, &bytes[i]));
        const rlx_vk_blocks *blocks = &arena_of(self)->blocks[segment];
        uint64_t inside, now;
        if (bytes[i] == 0) continue;
        const rlx_vk_buffer *buffer =
            rlx_vk_block_at(blocks, rlx_plan_slot_offset(plan, row), bytes[i], &inside, &now);
        if (now != bytes[i]) {
            return RLX_FAIL(RLX_DOES_NOT_FIT, "'%s' lies across two blocks of device '%s'",
                            row->name, self->stream->device->name);
        }
        command.ranges[i] = (rlx_vk_range){buffer->handle, inside, bytes[i], i == 1};
    }
    if (bytes[0] != bytes[1]) {
        return RLX_FAIL(RLX_INVALID_PLAN, "a copy of %" PRIu64 " bytes into %" PRIu64, bytes[0],
                        bytes[1]);
    }
    if (bytes[0] == 0 || (command.ranges[0].buffer == command.ranges[1].buffer &&
                          command.ranges[0].offset == command.ranges[1].offset)) {
        return RLX_OK;
    }
    return rlx_vk_commands_add(self->allocator, &self->stretch->commands, &command);
}

static rlx_status add_kernel(preparation *self) {
    const rlx_plan *plan = arena_of(self)->base.plan;
    uint32_t count = self->row->input_count + self->row->output_count;
    rlx_scratch memory = {.allocator = self->allocator};
    rlx_tensor *tensors = NULL;
    uint8_t *extents = NULL;
    static char present;
    uint64_t unaligned = 0;
    rlx_vk_lowering *lowering = NULL;
    rlx_target_query query = {.op = self->row->op, .attrs = self->row->attrs};
    rlx_status status = rlx_scratch_array(&memory, count + 1u, sizeof *tensors, (void **)&tensors);
    if (status == RLX_OK) status = rlx_scratch_array(&memory, count + 1u, 1, (void **)&extents);
    if (status == RLX_OK) status = rlx_scratch_alloc(&memory, sizeof *lowering, (void **)&lowering);
    for (uint32_t i = 0; status == RLX_OK && i < count; i++) {
        uint32_t slot = slot_of(self, i);
        if (slot == RLX_NONE) continue;
        tensors[i] = rlx_plan_tensor(&plan->slots.items[slot]);
        tensors[i].data = &present;
        if (i < 64 && rlx_plan_slot_offset(plan, &plan->slots.items[slot]) % 16 != 0) {
            unaligned |= UINT64_C(1) << i;
        }
        for (uint32_t k = 0; k < tensors[i].rank; k++) {
            uint32_t extent = plan->slots.items[slot].extents[k];
            if (extent != RLX_NONE && !is_own_output(self, extent)) {
                extents[i] |= (uint8_t)(1u << k);
            }
        }
    }
    if (status == RLX_OK) {
        query.in = tensors;
        query.in_count = self->row->input_count;
        query.out = tensors + self->row->input_count;
        query.out_count = self->row->output_count;
        query.extents = extents;
        lowering->caps = &self->stream->device->caps;
        lowering->query = &query;
        lowering->step = self->step;
        lowering->unaligned = unaligned;
        lowering->emit = add_dispatch;
        lowering->user = self;
        rlx_vk_lower(lowering);
        status = lowering->status;
        if (status == RLX_OK && lowering->why != NULL) {
            status =
                RLX_FAIL(RLX_UNSUPPORTED, "op '%s' on device '%s': %s", rlx_op_name(self->row->op),
                         self->stream->device->name, lowering->why);
        }
    }
    rlx_scratch_reset(&memory);
    return status;
}

static rlx_status add_steps(preparation *self) {
    const rlx_plan *plan = arena_of(self)->base.plan;
    for (uint32_t i = 0; i < self->stretch->base.step_count; i++) {
        self->step = self->stretch->base.first_step + i;
        self->row = &plan->steps.items[self->step];
        RLX_TRY_WITH(self->row->kind == RLX_STEP_COPY ? add_copy(self) : add_kernel(self),
                     "prepare step %u ('%s')", self->step, self->row->name);
    }
    return RLX_OK;
}

/* The records get their buffer; ranges that named it by a stand-in get its handle. */
static rlx_status place_records(preparation *self) {
    rlx_vk_stretch *stretch = self->stretch;
    rlx_vk_device *device = self->stream->device;
    VkBuffer stand_in = stretch->records.handle;
    uint64_t bytes = self->words.count * sizeof(int32_t);
    uint32_t dispatches = 0;
    stretch->records = (rlx_vk_buffer){0};
    if (bytes == 0) return RLX_OK;
    RLX_TRY(rlx_vk_buffer_create(device, RLX_VK_UPLOAD, bytes, &stretch->records));
    memcpy(stretch->records.mapped, self->words.items, bytes);
    RLX_TRY(rlx_vk_flush(device, &stretch->records, 0, bytes));
    for (uint32_t i = 0; i < stretch->commands.list.count; i++) {
        rlx_vk_command *command = &stretch->commands.list.items[i];
        for (uint32_t k = 0; k < RLX_VK_BINDINGS; k++) {
            if (command->ranges[k].buffer == stand_in) {
                command->ranges[k].buffer = stretch->records.handle;
            }
        }
        dispatches += command->kind == RLX_VK_DISPATCH;
    }
    RLX_TRY(rlx_vk_create_sets(device, dispatches, &stretch->sets));
    for (uint32_t i = 0; i < stretch->commands.list.count; i++) {
        rlx_vk_command *command = &stretch->commands.list.items[i];
        if (command->kind != RLX_VK_DISPATCH) continue;
        RLX_TRY(rlx_vk_write_set(device, stretch->sets, command->layout, command->ranges,
                                 &command->set));
    }
    return RLX_OK;
}

rlx_status rlx_vk_stretch_fill(rlx_vk_stream *stream, rlx_vk_stretch *stretch) {
    preparation self = {.stream = stream, .stretch = stretch, .allocator = &stream->base.allocator};
    rlx_status status;
    /* No buffer of Vulkan has this handle: it is the address of the stretch. */
    memcpy(&stretch->records.handle, &stretch, sizeof stretch);
    status = add_steps(&self);
    if (status == RLX_OK) {
        status = place_records(&self);
    } else {
        stretch->records.handle = VK_NULL_HANDLE;
    }
    rlx_vec_free(self.allocator, &self.words);
    return status;
}
