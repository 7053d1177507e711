/* SPDX-License-Identifier: Apache-2.0 */
/* Verifier, part two: every buffer aligned and inside its segment, every slot inside its buffer,
 * and no two buffers that are alive together on the same bytes. */
#include "plan/verify.h"

#include "base/size.h"
#include "ir/dtype.h"
#include "ir/layout.h"

/* Products of dims stay below this, so that no later sum of a few of them can wrap. */
static const int64_t most_elements = INT64_MAX / 1024;

static rlx_status check_owner(const rlx_plan *plan, const rlx_plan_buffer *buffer) {
    bool is_shared = buffer->entry == RLX_NONE;
    bool is_prepare = buffer->entry == RLX_PLAN_PREPARE;
    if (!is_shared && !is_prepare && buffer->entry >= plan->entries.count) {
        return INVALID_PLAN("entry %u of %u", buffer->entry, plan->entries.count);
    }
    switch ((rlx_segment)buffer->segment) {
    case RLX_SEGMENT_WEIGHTS:
    case RLX_SEGMENT_STATE:
        if (!is_shared) return INVALID_PLAN("weights and state are shared, not of one entry");
        break;
    case RLX_SEGMENT_SCRATCH:
        if (is_prepare) return INVALID_PLAN("prepare steps have no scratch");
        break;
    case RLX_SEGMENT_TILES:
        if (is_shared || is_prepare) return INVALID_PLAN("a tile belongs to an entry");
        break;
    default:
        if (!is_shared && !is_prepare) return INVALID_PLAN("an entry has no source segment");
    }
    return RLX_OK;
}

static rlx_status check_life(const rlx_plan *plan, const rlx_plan_buffer *buffer) {
    uint32_t first = 0, count = plan->prepare_count;
    if (buffer->entry == RLX_NONE) return RLX_OK;
    if (buffer->entry != RLX_PLAN_PREPARE) {
        first = plan->entries.items[buffer->entry].first_step;
        count = plan->entries.items[buffer->entry].step_count;
    }
    uint32_t last = count == 0 ? first : first + count - 1;
    if (buffer->first_step < first || buffer->first_step > buffer->last_step ||
        buffer->last_step > last) {
        return INVALID_PLAN("life [%u, %u] is not inside its entry's steps [%u, %u]",
                            buffer->first_step, buffer->last_step, first, last);
    }
    return RLX_OK;
}

static rlx_status check_buffer(const rlx_plan *plan, const rlx_plan_buffer *buffer) {
    if (buffer->segment >= RLX_SEGMENT_COUNT) return INVALID_PLAN("segment %u", buffer->segment);
    RLX_TRY(check_owner(plan, buffer));
    RLX_TRY(check_life(plan, buffer));
    if (buffer->offset % plan->alignment != 0) {
        return INVALID_PLAN("offset %" PRIu64 " is not aligned to %" PRIu64, buffer->offset,
                            plan->alignment);
    }
    uint64_t limit = plan->segment_bytes[buffer->segment];
    bool is_scratch = buffer->segment == RLX_SEGMENT_SCRATCH;
    if (is_scratch && buffer->entry != RLX_NONE) {
        limit = plan->entries.items[buffer->entry].scratch_bytes;
    }
    if (buffer->bytes > limit || buffer->offset > limit - buffer->bytes) {
        return INVALID_PLAN("offset %" PRIu64 " + bytes %" PRIu64 " > segment %" PRIu64,
                            buffer->offset, buffer->bytes, limit);
    }
    if (is_scratch && buffer->bytes != 0 && buffer->offset < RLX_FAULT_BYTES) {
        return INVALID_PLAN("offset %" PRIu64 " lies in the fault record [0, %u)", buffer->offset,
                            RLX_FAULT_BYTES);
    }
    return RLX_OK;
}

rlx_status plan_check_buffers(plan_check *check) {
    const rlx_plan *plan = check->plan;
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        RLX_TRY_WITH(check_buffer(plan, &plan->buffers.items[i]), "buffer %u", i);
    return RLX_OK;
}

static rlx_status check_shape(const rlx_plan_slot *slot) {
    int64_t elements = 1;
    if (slot->rank > RLX_MAX_RANK) {
        return INVALID_PLAN("rank %u, allowed are 0 to %u", slot->rank, RLX_MAX_RANK);
    }
    for (uint32_t i = 0; i < slot->rank; i++) {
        if (slot->dims[i] < 0) return INVALID_PLAN("dim %u is %" PRId64, i, slot->dims[i]);
        int64_t dim = slot->dims[i] == 0 ? 1 : slot->dims[i];
        if (!rlx_mul_i64(elements, dim, &elements) || elements > most_elements) {
            return INVALID_PLAN("its dims give more than 2^53 elements");
        }
    }
    return RLX_OK;
}

/* Elements of block types fall on block boundaries and run forward along the last axis; of two
 * 4-bit elements in a byte any may be meant, but none before the slot's address. */
static rlx_status check_strides(const rlx_plan_slot *slot, const rlx_dtype_row *row) {
    for (uint32_t i = 0; i < slot->rank; i++) {
        int64_t stride = slot->strides[i];
        if (slot->dims[i] <= 1 || row->block_elements == 1) continue;
        if (stride < 0) return INVALID_PLAN("%s with stride %" PRId64, row->name, stride);
        if (row->class_ != RLX_CLASS_BLOCK) continue;
        bool is_last = i + 1 == slot->rank;
        if (is_last ? stride != 1 : stride % row->block_elements != 0) {
            return INVALID_PLAN("%s with stride %" PRId64 " on axis %u of %u", row->name, stride, i,
                                slot->rank);
        }
    }
    return RLX_OK;
}

static rlx_status check_extents(const rlx_plan *plan, const rlx_plan_slot *slot) {
    for (uint32_t i = 0; i < slot->rank; i++) {
        uint32_t extent = slot->extents[i];
        if (extent == RLX_NONE) continue;
        if (extent >= plan->slots.count) {
            return INVALID_PLAN("extent of axis %u is slot %u of %u", i, extent, plan->slots.count);
        }
        if (!plan_slot_is_scalar(&plan->slots.items[extent], RLX_DTYPE_I64)) {
            return INVALID_PLAN("extent of axis %u: " SLOT_FORMAT " is no i64 scalar", i,
                                SLOT_ARGS(plan, extent));
        }
    }
    return RLX_OK;
}

/* A packed slot is the whole of a temporary: no view, no extents, no strides. In a tile it lies
 * where it lies in the file, and weights are packed slice by slice. */
static rlx_status check_layout(const rlx_plan *plan, const rlx_plan_slot *slot) {
    if (slot->layout == RLX_LAYOUT_PLAIN) return RLX_OK;
    if ((uint32_t)slot->layout >= RLX_LAYOUT_COUNT) {
        return INVALID_PLAN("layout %u, this build knows %u", (unsigned)slot->layout,
                            RLX_LAYOUT_COUNT);
    }
    uint32_t segment = plan->buffers.items[slot->buffer].segment;
    bool may_be_part = segment == RLX_SEGMENT_TILES || segment == RLX_SEGMENT_WEIGHTS;
    uint64_t wrong = may_be_part ? slot->byte_offset % plan->alignment : slot->byte_offset;
    if (slot->kind != RLX_VALUE_TEMPORARY || wrong != 0) {
        return INVALID_PLAN("layout %s of kind %u at byte %" PRIu64 " of its buffer",
                            rlx_layout_name(slot->layout), slot->kind, slot->byte_offset);
    }
    for (uint32_t i = 0; i < slot->rank; i++) {
        if (slot->strides[i] == 0 && slot->extents[i] == RLX_NONE) continue;
        return INVALID_PLAN("layout %s with a stride or extent on axis %u",
                            rlx_layout_name(slot->layout), i);
    }
    return RLX_OK;
}

static rlx_status check_slot(const rlx_plan *plan, const rlx_plan_slot *slot) {
    int64_t low, high, at;
    if (slot->kind > RLX_VALUE_TEMPORARY) return INVALID_PLAN("kind %u", slot->kind);
    if (slot->buffer >= plan->buffers.count) {
        return INVALID_PLAN("buffer %u of %u", slot->buffer, plan->buffers.count);
    }
    const rlx_dtype_row *row = rlx_dtype_row_of(slot->dtype);
    if (row == NULL) return INVALID_PLAN("dtype %u is none", (unsigned)slot->dtype);
    RLX_TRY(check_shape(slot));
    RLX_TRY(check_layout(plan, slot));
    RLX_TRY(check_strides(slot, row));
    RLX_TRY(check_extents(plan, slot));
    RLX_TRY(rlx_plan_slot_span(slot, &low, &high));
    uint64_t bytes = plan->buffers.items[slot->buffer].bytes; /* < 2^63: inside its segment */
    if (slot->byte_offset > bytes || !rlx_add_i64((int64_t)slot->byte_offset, low, &at) || at < 0 ||
        !rlx_add_i64((int64_t)slot->byte_offset, high, &at) || (uint64_t)at > bytes) {
        return INVALID_PLAN("bytes %" PRIu64 " + [%" PRId64 ", %" PRId64
                            ") are not inside buffer %u of %" PRIu64,
                            slot->byte_offset, low, high, slot->buffer, bytes);
    }
    if (slot->byte_offset % row->block_bytes != 0) {
        return INVALID_PLAN("byte offset %" PRIu64 " is no multiple of %u (%s)", slot->byte_offset,
                            row->block_bytes, row->name);
    }
    return RLX_OK;
}

rlx_status plan_check_slots(plan_check *check) {
    const rlx_plan *plan = check->plan;
    for (uint32_t i = 0; i < plan->slots.count; i++) {
        if (plan->slots.items[i].name == NULL) return INVALID_PLAN("slot %u has no name", i);
    }
    for (uint32_t i = 0; i < plan->slots.count; i++) {
        rlx_status status = check_slot(plan, &plan->slots.items[i]);
        if (status != RLX_OK) {
            return rlx_fail_context(RLX_INVALID_PLAN, SLOT_FORMAT, SLOT_ARGS(plan, i));
        }
    }
    return RLX_OK;
}

bool plan_slot_is_plain(const rlx_plan_slot *slot) {
    rlx_tensor tensor = rlx_plan_tensor(slot);
    return rlx_tensor_is_plain(&tensor);
}

bool plan_slot_is_scalar(const rlx_plan_slot *slot, rlx_dtype dtype) {
    if (slot->dtype != dtype || slot->layout != RLX_LAYOUT_PLAIN || slot->rank > RLX_MAX_RANK)
        return false;
    for (uint32_t i = 0; i < slot->rank; i++) {
        if (slot->dims[i] != 1 || slot->extents[i] != RLX_NONE) return false;
    }
    return true;
}

/* Where the slot's bytes lie modulo `period`: true when all of them fall into
 * [*out_start, *out_start + *out_bytes) of some period, none wrapping into the next. */
static bool residues(const rlx_plan_slot *slot, int64_t period, int64_t *out_start,
                     int64_t *out_bytes) {
    int64_t element = rlx_dtype_block_bytes(slot->dtype), low = 0, high = element;
    for (uint32_t i = 0; i < slot->rank; i++) {
        if (slot->dims[i] <= 1) continue;
        int64_t stride = slot->strides[i] * element; /* fits: the slot is inside its buffer */
        if (stride <= -period || stride >= period) {
            if (stride % period != 0) return false;
            continue;
        }
        int64_t reach = (slot->dims[i] - 1) * stride;
        if (reach < 0) low += reach;
        if (reach > 0) high += reach;
    }
    *out_start = ((int64_t)slot->byte_offset + low) % period;
    *out_bytes = high - low;
    return *out_start + *out_bytes <= period;
}

/* Both are columns (or other residues) of one grid, and different ones. */
static bool disjoint_modulo(const rlx_plan_slot *a, const rlx_plan_slot *b, int64_t period) {
    int64_t a_start, a_bytes, b_start, b_bytes;
    if (period <= 0 || !residues(a, period, &a_start, &a_bytes)) return false;
    if (!residues(b, period, &b_start, &b_bytes)) return false;
    return a_start + a_bytes <= b_start || b_start + b_bytes <= a_start;
}

static bool disjoint_by_strides(const rlx_plan_slot *a, const rlx_plan_slot *b,
                                const rlx_plan_slot *of) {
    for (uint32_t i = 0; i < of->rank; i++) {
        if (of->dims[i] <= 1) continue;
        int64_t stride = of->strides[i] * (int64_t)rlx_dtype_block_bytes(of->dtype);
        if (disjoint_modulo(a, b, stride < 0 ? -stride : stride)) return true;
    }
    return false;
}

bool plan_slots_disjoint(const rlx_plan_slot *a, const rlx_plan_slot *b) {
    int64_t a_low, a_high, b_low, b_high;
    if (rlx_plan_slot_span(a, &a_low, &a_high) != RLX_OK) return false;
    if (rlx_plan_slot_span(b, &b_low, &b_high) != RLX_OK) return false;
    if (a_low == a_high || b_low == b_high) return true;
    int64_t a_at = (int64_t)a->byte_offset, b_at = (int64_t)b->byte_offset;
    if (a_at + a_high <= b_at + b_low || b_at + b_high <= a_at + a_low) return true;
    if (a->layout != RLX_LAYOUT_PLAIN || b->layout != RLX_LAYOUT_PLAIN) return false;
    if (rlx_dtype_block_elements(a->dtype) != 1) return false;
    if (rlx_dtype_block_elements(b->dtype) != 1) return false;
    return disjoint_by_strides(a, b, a) || disjoint_by_strides(a, b, b);
}

/* The sweep over time. A buffer is inserted when its life begins and removed when it has ended;
 * those alive are kept in the order of their place. As long as none overlap, a new one can only
 * overlap its two neighbours. */
typedef struct key {
    uint64_t major, minor;
    uint32_t index;
} key;

static bool key_less(const key *a, const key *b) {
    if (a->major != b->major) return a->major < b->major;
    if (a->minor != b->minor) return a->minor < b->minor;
    return a->index < b->index;
}

static void sift_down(key *keys, size_t at, size_t count) {
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && key_less(&keys[child], &keys[child + 1])) child++;
        if (!key_less(&keys[at], &keys[child])) return;
        key swap = keys[at];
        keys[at] = keys[child];
        keys[child] = swap;
        at = child;
    }
}

/* Heapsort: in place, and n log n for the worst input too. */
static void sort_keys(key *keys, size_t count) {
    for (size_t i = count / 2; i-- > 0;)
        sift_down(keys, i, count);
    for (size_t i = count; i-- > 1;) {
        key swap = keys[0];
        keys[0] = keys[i];
        keys[i] = swap;
        sift_down(keys, 0, i);
    }
}

/* A set of numbers below 64^LEVELS: bit i of a level says that word i of the level below is not
 * zero, so the nearest member on each side is found in a few steps. */
enum { LEVELS = 6 };
typedef struct number_set {
    uint64_t *words[LEVELS];
    uint32_t counts[LEVELS];
} number_set;

static rlx_status make_set(rlx_scratch *memory, uint32_t limit, number_set *set) {
    uint32_t count = limit;
    for (uint32_t level = 0; level < LEVELS; level++) {
        count = count / 64 + 1;
        set->counts[level] = count;
        RLX_TRY(rlx_scratch_array(memory, count, sizeof(uint64_t), (void **)&set->words[level]));
    }
    return RLX_OK;
}

static void set_insert(number_set *set, uint32_t number) {
    for (uint32_t level = 0; level < LEVELS; level++, number /= 64)
        set->words[level][number / 64] |= UINT64_C(1) << (number % 64);
}

static void set_remove(number_set *set, uint32_t number) {
    for (uint32_t level = 0; level < LEVELS; level++, number /= 64) {
        set->words[level][number / 64] &= ~(UINT64_C(1) << (number % 64));
        if (set->words[level][number / 64] != 0) return;
    }
}

/* The largest member below `number`, or the smallest above it; RLX_NONE. */
static uint32_t set_neighbour(const number_set *set, uint32_t number, bool is_above) {
    for (uint32_t level = 0; level < LEVELS; level++, number /= 64) {
        uint32_t bit = number % 64;
        uint64_t word = set->words[level][number / 64];
        uint64_t mask =
            is_above ? (bit == 63 ? 0 : UINT64_MAX << (bit + 1)) : (UINT64_C(1) << bit) - 1;
        word &= mask;
        if (word == 0) continue;
        number = number / 64 * 64;
        number += (uint32_t)(is_above ? __builtin_ctzll(word) : 63 - __builtin_clzll(word));
        while (level-- > 0) {
            word = set->words[level][number];
            number *= 64;
            number += (uint32_t)(is_above ? __builtin_ctzll(word) : 63 - __builtin_clzll(word));
        }
        return number;
    }
    return RLX_NONE;
}

/* Time as a count over the whole plan: each entry begins with a moment of its own, so that entries
 * without steps have one too. */
static void life_of(const rlx_plan *plan, const rlx_plan_buffer *buffer, uint64_t *out_begin,
                    uint64_t *out_end) {
    uint64_t shift = buffer->entry == RLX_PLAN_PREPARE ? 0 : (uint64_t)buffer->entry + 1;
    *out_begin = buffer->first_step + shift;
    *out_end = buffer->last_step + shift + 1;
    if (buffer->entry != RLX_NONE) return;
    *out_begin = 0;
    *out_end = (uint64_t)plan->steps.count + plan->entries.count + 2;
}

static rlx_status check_pair(const rlx_plan *plan, uint32_t low, uint32_t high) {
    const rlx_plan_buffer *a = &plan->buffers.items[low], *b = &plan->buffers.items[high];
    if (a->segment != b->segment || a->offset + a->bytes <= b->offset) return RLX_OK;
    return INVALID_PLAN("buffers %u and %u overlap in segment %u: [%" PRIu64 ", %" PRIu64
                        ") life [%u, %u] and [%" PRIu64 ", %" PRIu64 ") life [%u, %u]",
                        low, high, a->segment, a->offset, a->offset + a->bytes, a->first_step,
                        a->last_step, b->offset, b->offset + b->bytes, b->first_step, b->last_step);
}

static rlx_status insert_buffer(const rlx_plan *plan, const key *places, number_set *alive,
                                uint32_t rank) {
    uint32_t below = set_neighbour(alive, rank, false), above = set_neighbour(alive, rank, true);
    if (below != RLX_NONE) RLX_TRY(check_pair(plan, places[below].index, places[rank].index));
    if (above != RLX_NONE) RLX_TRY(check_pair(plan, places[rank].index, places[above].index));
    set_insert(alive, rank);
    return RLX_OK;
}

rlx_status plan_check_overlap(plan_check *check) {
    const rlx_plan *plan = check->plan;
    key *places = NULL, *events = NULL;
    uint32_t count = 0;
    number_set alive;
    RLX_TRY(
        rlx_scratch_array(&check->memory, plan->buffers.count, sizeof *places, (void **)&places));
    RLX_TRY(rlx_scratch_array(&check->memory, 2 * (uint64_t)plan->buffers.count, sizeof *events,
                              (void **)&events));
    RLX_TRY(make_set(&check->memory, plan->buffers.count, &alive));
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const rlx_plan_buffer *buffer = &plan->buffers.items[i];
        if (buffer->bytes != 0) places[count++] = (key){buffer->segment, buffer->offset, i};
    }
    sort_keys(places, count);
    for (uint32_t rank = 0; rank < count; rank++) {
        uint64_t begin, end;
        life_of(plan, &plan->buffers.items[places[rank].index], &begin, &end);
        events[2 * (size_t)rank] = (key){begin, 1, rank}; /* ends come before begins */
        events[2 * (size_t)rank + 1] = (key){end, 0, rank};
    }
    sort_keys(events, 2 * (size_t)count);
    for (size_t i = 0; i < 2 * (size_t)count; i++) {
        if (events[i].minor == 0) {
            set_remove(&alive, events[i].index);
        } else {
            RLX_TRY(insert_buffer(plan, places, &alive, events[i].index));
        }
    }
    return RLX_OK;
}
