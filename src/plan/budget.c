/* SPDX-License-Identifier: Apache-2.0 */
/* rlx_plan_stream_weights: which weights stay resident under a budget. Stands between loading a
 * plan and running it; works on the plan alone.
 *
 * Tiles need memory for the largest of them twice, so that one is read while another is used. The
 * rest of the budget keeps weights resident: first those that would be read more than once per run,
 * then layers, spread evenly over the run from its first on, so that reading never stops for long
 * while resident ones compute. A few very large tensors (an output head) may be better off
 * resident, because tiles can then be small: several numbers of them are tried, and what reads the
 * fewest bytes per run wins. */
#include "plan/budget.h"

#include "base/size.h"
#include "plan/file.h"

#include <stdlib.h>

static const uint64_t tile_bytes = UINT64_C(4) << 20;
static const uint64_t space_wanted = UINT64_C(16) << 20;

static uint32_t operand_count(const rlx_plan_step *step) {
    return step->input_count + step->output_count;
}

static bool is_weight(const rlx_plan *plan, uint32_t slot) {
    if (slot == RLX_NONE) return false;
    const rlx_plan_buffer *buffer = &plan->buffers.items[plan->slots.items[slot].buffer];
    return buffer->segment == RLX_SEGMENT_WEIGHTS && buffer->bytes != 0;
}

/* The weight of a slot that is one; a new row where there is none yet. */
static uint32_t find_weight(budget *self, uint32_t slot) {
    uint32_t buffer = self->plan->slots.items[slot].buffer;
    const rlx_plan_buffer *row = &self->plan->buffers.items[buffer];
    if (self->weight_of[buffer] == RLX_NONE) {
        self->weight_of[buffer] = self->weight_count;
        self->weights[self->weight_count++] =
            (budget_weight){row->offset, row->bytes, .buffer = buffer, .slot = slot};
    }
    return self->weight_of[buffer];
}

/* Every use of a weight by a step, each once. */
static rlx_status find_uses(budget *self) {
    const rlx_plan *plan = self->plan;
    RLX_TRY(rlx_scratch_array(&self->memory, plan->operands.count, sizeof *self->uses,
                              (void **)&self->uses));
    RLX_TRY(rlx_scratch_array(&self->memory, plan->buffers.count, sizeof *self->weights,
                              (void **)&self->weights));
    RLX_TRY(rlx_scratch_array(&self->memory, plan->buffers.count, sizeof *self->weight_of,
                              (void **)&self->weight_of));
    RLX_TRY(rlx_scratch_array(&self->memory, (uint64_t)plan->steps.count + 1, sizeof *self->uses_at,
                              (void **)&self->uses_at));
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        self->weight_of[i] = RLX_NONE;
    for (uint32_t s = 0; s < plan->steps.count; s++) {
        const rlx_plan_step *step = &plan->steps.items[s];
        self->uses_at[s] = self->use_count;
        for (uint32_t i = 0; s >= plan->prepare_count && i < operand_count(step); i++) {
            uint32_t slot = plan->operands.items[step->operands_at + i];
            if (!is_weight(plan, slot)) continue;
            uint32_t index = find_weight(self, slot);
            budget_weight *weight = &self->weights[index];
            if (weight->use_count != 0 && weight->seen_step == s) continue; /* twice in a step */
            weight->seen_step = s;
            weight->use_count++;
            self->uses[self->use_count++] = (budget_use){index, s, RLX_NONE, false};
        }
    }
    self->uses_at[plan->steps.count] = self->use_count;
    return RLX_OK;
}

/* What the host reads by itself stays resident: sizes, conditions, outputs. */
static void keep_slot(budget *self, uint32_t slot) {
    if (is_weight(self->plan, slot)) self->weights[find_weight(self, slot)].must_stay = true;
}

static void keep_host_weights(budget *self) {
    const rlx_plan *plan = self->plan;
    for (uint32_t i = 0; i < plan->slots.count; i++) {
        const rlx_plan_slot *slot = &plan->slots.items[i];
        for (uint32_t axis = 0; axis < slot->rank; axis++)
            keep_slot(self, slot->extents[axis]);
    }
    for (uint32_t i = 0; i < plan->ports.count; i++)
        keep_slot(self, plan->ports.items[i].slot);
    for (uint32_t s = plan->prepare_count; s < plan->steps.count; s++) {
        if (plan->steps.items[s].kind != RLX_STEP_JUMP) continue;
        keep_slot(self, plan->steps.items[s].condition);
        keep_slot(self, plan->steps.items[s].value);
    }
}

/* Runs of steps that are entered at their first and left after their last. */
static rlx_status find_blocks(budget *self) {
    const rlx_plan *plan = self->plan;
    uint32_t steps = plan->steps.count, block = 0, loop_end = 0;
    uint32_t *loop_ends = NULL; /* per step + 1: past the last jump back to it */
    uint8_t *begins = NULL;
    RLX_TRY(rlx_scratch_array(&self->memory, (uint64_t)steps + 1, sizeof *loop_ends,
                              (void **)&loop_ends));
    RLX_TRY(rlx_scratch_array(&self->memory, (uint64_t)steps + 1, 1, (void **)&begins));
    RLX_TRY(rlx_scratch_array(&self->memory, steps, 1, (void **)&self->in_loop));
    RLX_TRY(rlx_scratch_array(&self->memory, steps, sizeof *self->block, (void **)&self->block));
    for (uint32_t i = 0; i < plan->entries.count; i++)
        begins[plan->entries.items[i].first_step] = 1;
    for (uint32_t s = plan->prepare_count; s < steps; s++) {
        const rlx_plan_step *step = &plan->steps.items[s];
        if (step->kind != RLX_STEP_JUMP) continue;
        begins[s + 1] = 1;
        if (step->fault_code != 0) continue;
        begins[step->target] = 1;
        if (step->target <= s) loop_ends[step->target] = s + 1;
    }
    for (uint32_t s = 0; s < steps; s++) {
        block += begins[s];
        self->block[s] = block;
        if (loop_ends[s] > loop_end) loop_end = loop_ends[s];
        self->in_loop[s] = s < loop_end;
    }
    return RLX_OK;
}

/* How often a run of the entry with these uses reads each weight when nothing is resident. */
static void count_reads(budget *self, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; i++) {
        budget_weight *weight = &self->weights[self->uses[i].weight];
        weight->reads_here = 0;
        weight->worth_here = 0;
    }
    for (uint32_t i = begin; i < end; i++) {
        budget_weight *weight = &self->weights[self->uses[i].weight];
        if (!self->uses[i].is_read) continue;
        weight->reads_here++;
        weight->worth_here += self->in_loop[self->uses[i].step] ? BUDGET_LOOP_ROUNDS : 1;
        if (weight->reads_here > weight->read_count) weight->read_count = weight->reads_here;
        if (weight->worth_here > weight->worth) weight->worth = weight->worth_here;
    }
}

void budget_count_reads(budget *self) {
    for (uint32_t i = 0; i < self->weight_count; i++)
        self->weights[i].read_count = 0;
    for (uint32_t e = 0; e < self->plan->entries.count; e++) {
        const rlx_plan_entry *entry = &self->plan->entries.items[e];
        count_reads(self, self->uses_at[entry->first_step],
                    self->uses_at[entry->first_step + entry->step_count]);
    }
}

/* The array that the comparisons below look into: qsort has no room for it. */
static _Thread_local const budget_weight *sorted_weights;

static int by_number(uint32_t a, uint32_t b) {
    return a < b ? -1 : a > b;
}

static int compare_offset(const void *a, const void *b) {
    const budget_weight *x = &sorted_weights[*(const uint32_t *)a];
    const budget_weight *y = &sorted_weights[*(const uint32_t *)b];
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int compare_use(const void *a, const void *b) {
    const budget_use *x = a, *y = b;
    if (x->step != y->step) return by_number(x->step, y->step);
    return compare_offset(&x->weight, &y->weight);
}

static int compare_worth(const void *a, const void *b) {
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const budget_weight *x = &sorted_weights[i], *y = &sorted_weights[k];
    if (x->must_stay != y->must_stay) return x->must_stay ? -1 : 1;
    if (x->worth != y->worth) return x->worth > y->worth ? -1 : 1;
    if (x->worth <= 1 && x->turn != y->turn) return by_number(x->turn, y->turn);
    return by_number(i, k);
}

static int compare_size(const void *a, const void *b) {
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const budget_weight *x = &sorted_weights[i], *y = &sorted_weights[k];
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return by_number(i, k);
}

static rlx_status sort_weights(budget *self, int (*compare)(const void *, const void *),
                               uint32_t **out_order) {
    RLX_TRY(rlx_scratch_array(&self->memory, self->weight_count, sizeof **out_order,
                              (void **)out_order));
    for (uint32_t i = 0; i < self->weight_count; i++)
        (*out_order)[i] = i;
    sorted_weights = self->weights;
    if (self->weight_count > 1) qsort(*out_order, self->weight_count, sizeof **out_order, compare);
    return RLX_OK;
}

static uint32_t reverse_bits(uint32_t number) {
    uint32_t reversed = 0;
    for (uint32_t i = 0; i < 32; i++)
        reversed |= (number >> i & 1) << (31 - i);
    return reversed;
}

/* Layers are what would be one tile. Taken in the order of their bit-reversed numbers, any number
 * of them is spread evenly, and the first is among them. */
static void find_turns(budget *self) {
    uint64_t target = self->bytes / 8;
    budget_build_tiles(self, (budget_level){target < tile_bytes ? target : tile_bytes, true});
    for (uint32_t i = self->use_count; i-- > 0;) /* the first use says it */
        self->weights[self->uses[i].weight].turn = reverse_bits(self->uses[i].tile);
}

static rlx_status analyse(budget *self) {
    uint32_t steps = self->plan->steps.count;
    RLX_TRY(find_uses(self));
    keep_host_weights(self);
    sorted_weights = self->weights;
    if (self->use_count > 1) qsort(self->uses, self->use_count, sizeof *self->uses, compare_use);
    RLX_TRY(find_blocks(self));
    RLX_TRY(rlx_scratch_array(&self->memory, self->use_count, sizeof *self->tiles,
                              (void **)&self->tiles));
    RLX_TRY(rlx_scratch_array(&self->memory, (uint64_t)steps + 1, sizeof *self->live,
                              (void **)&self->live));
    find_turns(self);
    budget_count_reads(self);
    RLX_TRY(sort_weights(self, compare_offset, &self->by_offset));
    RLX_TRY(sort_weights(self, compare_worth, &self->by_worth));
    return sort_weights(self, compare_size, &self->by_size);
}

rlx_status budget_resident(const budget *self, rlx_plan_stream *pieces, uint64_t *out_bytes) {
    uint64_t limit = self->plan->segment_bytes[RLX_SEGMENT_WEIGHTS];
    uint64_t begin = 0, end = 0, sum = 0;
    for (uint32_t i = 0; i <= self->weight_count; i++) {
        const budget_weight *weight =
            i == self->weight_count ? NULL : &self->weights[self->by_offset[i]];
        uint64_t from = UINT64_MAX, to = UINT64_MAX;
        if (weight != NULL && !weight->is_resident) continue;
        if (weight != NULL) {
            from = weight->offset / RLX_FILE_PAGE_BYTES * RLX_FILE_PAGE_BYTES;
            if (!rlx_align_u64(weight->offset + weight->bytes, RLX_FILE_PAGE_BYTES, &to) ||
                to > limit) {
                to = limit;
            }
        }
        if (from <= end && end != 0) {
            if (to > end) end = to;
            continue;
        }
        if (end != begin && pieces != NULL) {
            rlx_plan_piece piece = {begin, sum, end - begin};
            RLX_TRY(rlx_vec_push(self->plan->allocator, &pieces->pieces, piece));
        }
        sum += end - begin;
        begin = from;
        end = to;
    }
    *out_bytes = sum;
    return RLX_OK;
}

/* Resident: what must be, the `largest` largest, and `more` of the most worthy. */
static void set_resident(budget *self, uint32_t largest, uint32_t more) {
    for (uint32_t i = 0; i < self->weight_count; i++)
        self->weights[i].is_resident = self->weights[i].must_stay;
    for (uint32_t i = 0; i < largest; i++)
        self->weights[self->by_size[i]].is_resident = true;
    for (uint32_t i = 0; i < more; i++)
        self->weights[self->by_worth[i]].is_resident = true;
}

static uint64_t resident_bytes(const budget *self) {
    uint64_t bytes = 0;
    return budget_resident(self, NULL, &bytes) == RLX_OK ? bytes : UINT64_MAX;
}

/* As many of the most worthy as fit into `bytes`. */
static uint32_t most_resident(budget *self, uint32_t largest, uint64_t bytes) {
    uint32_t low = 0, high = self->weight_count;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        set_resident(self, largest, middle);
        if (resident_bytes(self) <= bytes) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

static uint64_t bytes_read(const budget *self) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < self->tile_count; i++) {
        uint64_t rounds = self->in_loop[self->tiles[i].first] ? BUDGET_LOOP_ROUNDS : 1;
        sum += (self->tiles[i].end - self->tiles[i].begin) * rounds;
    }
    return sum;
}

/* Finds the resident set that reads least, with room for `buffers` times the largest tile. */
static bool choose_resident(budget *self, budget_level level, uint32_t buffers) {
    static const uint32_t counts[] = {0, 1, 2, 3, 4, 6, 8, 12, 16};
    uint64_t least = UINT64_MAX;
    uint32_t best_largest = 0, best_more = 0;
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint64_t space, fixed;
        if (counts[i] > self->weight_count) break;
        set_resident(self, counts[i], 0);
        fixed = resident_bytes(self);
        budget_build_tiles(self, level);
        if (!rlx_mul_u64(budget_least_space(self, NULL), buffers, &space)) continue;
        if (buffers > 1 && space < space_wanted) {
            uint64_t share = self->bytes / 4;
            share = share < space_wanted ? share : space_wanted;
            if (space < share) space = share;
        }
        if (fixed > self->bytes || space > self->bytes - fixed) continue;
        uint32_t more = most_resident(self, counts[i], self->bytes - space);
        set_resident(self, counts[i], more);
        budget_build_tiles(self, level);
        if (bytes_read(self) >= least) continue;
        least = bytes_read(self);
        best_largest = counts[i];
        best_more = more;
    }
    if (least == UINT64_MAX) return false;
    set_resident(self, best_largest, best_more);
    budget_build_tiles(self, level);
    return true;
}

static rlx_status try_split(budget *self, budget_level level, uint32_t buffers, bool *out_fits) {
    *out_fits = false;
    if (!choose_resident(self, level, buffers)) return RLX_OK;
    uint64_t space = self->bytes - resident_bytes(self);
    return budget_place_tiles(self, space / self->page * self->page, out_fits);
}

/* From the best for overlap to the smallest memory. The last always fits if anything does: every
 * step then reads its own weights, and tiles of two steps are never there together. */
static rlx_status split(budget *self, bool *out_fits) {
    const budget_level levels[] = {{tile_bytes, true},
                                   {tile_bytes / 4, true},
                                   {tile_bytes / 16, true},
                                   {tile_bytes / 64, true},
                                   {0, true}};
    *out_fits = false;
    for (uint32_t buffers = 2; buffers > 0; buffers--) {
        for (uint32_t i = 0; i < sizeof levels / sizeof *levels && !*out_fits; i++)
            RLX_TRY(try_split(self, levels[i], buffers, out_fits));
        if (*out_fits) return RLX_OK;
    }
    return try_split(self, (budget_level){0, false}, 1, out_fits);
}

/* Most bytes that have to be there at once, what the host reads included. */
static uint64_t largest_need(budget *self, uint32_t *out_step) {
    set_resident(self, 0, 0);
    budget_build_tiles(self, (budget_level){0, false});
    return budget_least_space(self, out_step) + resident_bytes(self);
}

static rlx_status refuse(budget *self) {
    uint32_t step = 0;
    uint64_t need = largest_need(self, &step);
    const char *name = step < self->plan->steps.count ? self->plan->steps.items[step].name : "";
    rlx_status status = RLX_FAIL(RLX_DOES_NOT_FIT,
                                 "weights budget of %" PRIu64
                                 " bytes: the largest tile, for step %u ('%.80s'), has %" PRIu64,
                                 self->bytes, step, name, need);
    rlx_error_detail_edit()->bytes = need;
    rlx_error_detail_edit()->limit = self->bytes;
    rlx_error_detail_edit()->rank = step;
    return status;
}

static rlx_status run(budget *self) {
    bool fits;
    uint64_t largest;
    if (rlx_plan_is_streamed(self->plan)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "the plan's weights are split already, for %" PRIu64 " bytes",
                        self->plan->stream.budget);
    }
    if (self->plan->segment_bytes[RLX_SEGMENT_WEIGHTS] <= self->bytes) return RLX_OK;
    RLX_TRY(analyse(self));
    largest = largest_need(self, NULL);
    if (largest > self->bytes) return refuse(self);
    RLX_TRY(split(self, &fits));
    if (!fits) return refuse(self);
    return budget_apply(self, largest);
}

rlx_status rlx_plan_stream_weights(rlx_plan *plan, uint64_t budget_bytes) {
    if (plan == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "plan is NULL");
    budget self = {.plan = plan,
                   .bytes = budget_bytes,
                   .page = plan->alignment < BUDGET_PAGE ? BUDGET_PAGE : plan->alignment,
                   .memory = {.allocator = plan->allocator}};
    rlx_status status = run(&self);
    rlx_scratch_reset(&self.memory);
    return status;
}
