/* SPDX-License-Identifier: Apache-2.0 */
/* Texts and rules that all transports share: see agree.h. Knows no memory and no messages. */
#include "collective/agree.h"

#include <stdio.h>

static uint32_t kind_of(const rlx_descriptor *item) {
    return item->what & 0xff;
}

static rlx_status poisoned(uint32_t rank, const rlx_descriptor *item, uint32_t count) {
    rlx_status cause = (rlx_status)(item->what >> 32);
    rlx_fail(RLX_MISMATCH, "rank %u called with wrong arguments (%s)", rank,
             rlx_status_text(cause));
    *rlx_error_detail_edit() = (rlx_error_detail){.rank = rank, .rank_count = count};
    return RLX_MISMATCH;
}

static const char *offset_text(uint64_t offset, char text[32]) {
    if (offset == RLX_OFFSET_PRIVATE) return "a private address";
    if (offset == RLX_OFFSET_IN_PLACE) return "the place of the other operand";
    snprintf(text, 32, "offset %" PRIu64, offset);
    return text;
}

static void describe_place(const char *name, uint32_t rank, const rlx_descriptor *a,
                           const rlx_descriptor *b) {
    char left[32], right[32];
    bool is_input = a->input_offset != b->input_offset;
    rlx_fail(RLX_MISMATCH, "%s: rank %u has its %s at %s, rank 0 at %s", name, rank,
             is_input ? "input" : "output",
             offset_text(is_input ? b->input_offset : b->output_offset, right),
             offset_text(is_input ? a->input_offset : a->output_offset, left));
}

/* Says the first thing that rank `rank` has other than rank 0. */
static void describe(uint32_t rank, const rlx_descriptor *a, const rlx_descriptor *b) {
    const char *name = rlx_call_name(kind_of(a));
    rlx_dtype dtype_a = (rlx_dtype)(a->what >> 16 & 0xffff);
    rlx_dtype dtype_b = (rlx_dtype)(b->what >> 16 & 0xffff);
    rlx_reduction reduction_a = (rlx_reduction)(a->what >> 8 & 0xff);
    rlx_reduction reduction_b = (rlx_reduction)(b->what >> 8 & 0xff);
    if (kind_of(a) != kind_of(b)) {
        rlx_fail(RLX_MISMATCH, "rank %u calls %s, rank 0 %s", rank, rlx_call_name(kind_of(b)),
                 name);
    } else if (dtype_a != dtype_b) {
        rlx_fail(RLX_MISMATCH, "%s: rank %u has dtype %s, rank 0 %s", name, rank,
                 rlx_dtype_name(dtype_b), rlx_dtype_name(dtype_a));
    } else if (reduction_a != reduction_b) {
        rlx_fail(RLX_MISMATCH, "%s: rank %u takes the %s, rank 0 the %s", name, rank,
                 rlx_reduction_name(reduction_b), rlx_reduction_name(reduction_a));
    } else if (a->what != b->what) {
        rlx_fail(RLX_MISMATCH, "%s: rank %u has root %u, rank 0 %u", name, rank,
                 (uint32_t)(b->what >> 32), (uint32_t)(a->what >> 32));
    } else if (a->count != b->count) {
        rlx_fail(RLX_MISMATCH, "%s: rank %u has count %" PRIu64 ", rank 0 %" PRIu64, name, rank,
                 b->count, a->count);
    } else {
        describe_place(name, rank, a, b);
    }
}

rlx_status rlx_disagree(const rlx_descriptor *all, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        if (kind_of(&all[i]) == RLX_CALL_POISON) return poisoned(i, &all[i], count);
    }
    for (uint32_t i = 1; i < count; ++i) {
        if (rlx_descriptor_is_same(&all[0], &all[i])) continue;
        describe(i, &all[0], &all[i]);
        *rlx_error_detail_edit() = (rlx_error_detail){
            .rank = i, .rank_count = count, .expected = all[0].count, .got = all[i].count};
        break;
    }
    return RLX_MISMATCH;
}

rlx_status rlx_failure_explain(uint64_t failure, uint32_t rank_count) {
    static const char *const what[] = {[RLX_FAILURE_GONE] = "has died",
                                       [RLX_FAILURE_LEFT] = "has left",
                                       [RLX_FAILURE_LATE] = "did not come"};
    uint32_t rank = (uint32_t)(failure >> 16) & 0xffff, by = (uint32_t)(failure >> 32) & 0xffff;
    const char *call = rlx_call_name((uint32_t)(failure & 0xffff));
    rlx_failure_kind kind = (rlx_failure_kind)(failure >> 48);
    rlx_status status = kind == RLX_FAILURE_LATE ? RLX_TIMEOUT : RLX_TRANSPORT;
    if (kind == RLX_FAILURE_REFUSED) {
        rlx_fail(RLX_TRANSPORT, "rank %u could not join: %s", rank,
                 rlx_status_text((rlx_status)(failure & 0xffff)));
    } else {
        rlx_fail(status, "rank %u %s; rank %u waited for it in %s", rank, what[kind], by, call);
    }
    *rlx_error_detail_edit() = (rlx_error_detail){.rank = rank, .rank_count = rank_count};
    return status;
}

rlx_status rlx_wait_until_timeout(const rlx_transport *base, uint64_t offset, uint64_t seen) {
    return RLX_FAIL(RLX_TIMEOUT,
                    "wait_until on rank %u: the word at %" PRIu64 " is still %" PRIu64
                    " after %" PRIu64 " ms",
                    base->rank, offset, seen, base->timeout_ns / 1000000);
}

void rlx_endpoint_begin(rlx_transport *out_base, const rlx_transport *like, uint32_t group,
                        uint32_t count) {
    *out_base = *like;
    out_base->rank_count = count;
    out_base->is_sub_group = group != 0;
    out_base->blocks = NULL;
    out_base->block_count = out_base->block_capacity = 0;
}

/* What each rank brings to a split, as four i32. */
typedef struct split_row {
    int32_t colour, key, groups_used, pad;
} split_row;

/* How many ranks have my colour, and the first group that is free on all ranks. */
static rlx_status count_members(const split_row *rows, uint32_t row_count, uint32_t group_count,
                                uint32_t colour, uint32_t *out_group, uint32_t *out_members) {
    uint32_t members = 0, used = 0, group = 1;
    for (uint32_t i = 0; i < row_count; ++i) {
        members += (uint32_t)rows[i].colour == colour;
        used |= (uint32_t)rows[i].groups_used;
    }
    while (group < group_count && (used >> group & 1) != 0)
        group++;
    if (group >= group_count) {
        return RLX_FAIL(RLX_BUSY, "split: %u sub-groups exist already", group_count - 1);
    }
    *out_group = group;
    *out_members = members;
    return RLX_OK;
}

/* The place of row `index` among those of its colour, in the order of (key, old rank). */
static uint32_t place_of(const split_row *rows, uint32_t row_count, uint32_t index) {
    uint32_t place = 0;
    for (uint32_t j = 0; j < row_count; ++j) {
        uint32_t a = (uint32_t)rows[j].key, b = (uint32_t)rows[index].key;
        if (rows[j].colour != rows[index].colour) continue;
        if (a < b || (a == b && j < index)) place++;
    }
    return place;
}

/* Tells the others that this rank cannot do its part, and keeps the reason. */
static rlx_status give_up(rlx_transport *base, rlx_status cause) {
    const rlx_collective_call poison = {.kind = RLX_CALL_POISON, .root = (uint32_t)cause};
    rlx_error_record record;
    rlx_error_save(&record);
    (void)!base->ops->run(base, &poison);
    rlx_error_restore(&record);
    return cause;
}

static rlx_status make_group(rlx_transport *base, const rlx_split_steps *steps,
                             const split_row *rows, uint32_t group_count, uint32_t colour,
                             uint32_t *out_group, rlx_transport **out_made) {
    uint32_t count = 0, n = base->rank_count;
    RLX_TRY(count_members(rows, n, group_count, colour, out_group, &count));
    if (colour == RLX_COLOUR_NONE) return RLX_OK;
    RLX_TRY(steps->make(base, *out_group, count, out_made));
    for (uint32_t i = 0; i < n; ++i) {
        if ((uint32_t)rows[i].colour != colour) continue;
        steps->set_member(*out_made, place_of(rows, n, i), base, i);
    }
    if (steps->clear != NULL) steps->clear(*out_made);
    return RLX_OK;
}

static rlx_status gather_and_make(rlx_transport *base, const rlx_split_steps *steps,
                                  const split_row *mine, split_row *rows, uint32_t group_count,
                                  uint32_t *out_group, rlx_transport **out_made) {
    rlx_status status;
    RLX_TRY(rlx_all_gather(base, mine, rows, sizeof *mine / sizeof(int32_t), RLX_DTYPE_I32));
    status =
        make_group(base, steps, rows, group_count, (uint32_t)mine->colour, out_group, out_made);
    return status == RLX_OUT_OF_MEMORY ? give_up(base, status) : status;
}

rlx_status rlx_split(rlx_transport *base, const rlx_split_steps *steps, uint32_t group_count,
                     uint32_t *groups_used, uint32_t colour, uint32_t key,
                     rlx_transport **out_transport) {
    static const rlx_collective_call meet = {.kind = RLX_CALL_SPLIT};
    const split_row mine = {
        .colour = (int32_t)colour, .key = (int32_t)key, .groups_used = (int32_t)*groups_used};
    rlx_transport *made = NULL;
    split_row *rows = NULL;
    uint32_t group = 0;
    rlx_status status =
        rlx_alloc_array(&base->allocator, base->rank_count, sizeof *rows, (void **)&rows);
    if (status != RLX_OK) return give_up(base, status);
    status = gather_and_make(base, steps, &mine, rows, group_count, &group, &made);
    rlx_free(&base->allocator, rows);
    RLX_TRY(status);
    status = base->ops->run(base, &meet); /* everybody has made its part */
    if (made == NULL) return status;
    if (status != RLX_OK) {
        steps->release(made);
        return status;
    }
    *groups_used |= UINT32_C(1) << group;
    *out_transport = made;
    return RLX_OK;
}
