/* SPDX-License-Identifier: Apache-2.0 */
/* The segment of every piece of memory and, for scratch, the first and last step that needs it, in
 * numbers of the steps that will be emitted; and the lower bound that follows. */
#include "compile/lower.h"

#include "base/size.h"

#include <string.h>

static bool is_prepared(const rlx_lowered *self, rlx_value_id value) {
    if (self->graph->values.items[value].kind == RLX_VALUE_CONSTANT) return true;
    return value < self->prepared_count && self->is_prepared[value];
}

static void count_emitted(rlx_lowered *self) {
    uint32_t emitted = 0;
    for (uint32_t s = 0; s < self->steps.count; s++) {
        self->emitted[s] = emitted;
        if (!self->steps.items[s].is_elided && !self->steps.items[s].is_prepare) emitted++;
    }
    self->emitted[self->steps.count] = emitted;
}

/* Weights are what a run reads; what only prepare steps read is gone after them. */
static void find_segments(rlx_lowered *self) {
    const rlx_graph *graph = self->graph;
    for (uint32_t v = 0; v < self->value_count; v++) {
        if (!self->roots[v].is_used) continue;
        rlx_value_kind kind = graph->values.items[v].kind;
        self->roots[v].segment = kind == RLX_VALUE_STATE ? RLX_SEGMENT_STATE
                                 : is_prepared(self, v)  ? RLX_SEGMENT_SOURCE
                                                         : RLX_SEGMENT_SCRATCH;
    }
    for (uint32_t s = 0; s < self->steps.count; s++) {
        const rlx_lowered_step *step = &self->steps.items[s];
        if (step->is_prepare || step->is_elided) continue;
        for (uint32_t i = 0; i < step->input_count + 2; i++) {
            rlx_value_id value = i < step->input_count    ? step->inputs[i]
                                 : i == step->input_count ? step->condition
                                                          : step->value;
            if (value == RLX_NONE) continue;
            rlx_root *root = &self->roots[self->storages[value].root];
            if (root->segment == RLX_SEGMENT_SOURCE) root->segment = RLX_SEGMENT_WEIGHTS;
        }
    }
}

static void find_lives(rlx_lowered *self) {
    uint32_t end = self->emitted[self->steps.count];
    for (uint32_t v = 0; v < self->value_count; v++) {
        self->roots[v].first = UINT32_MAX;
        self->roots[v].last = 0;
    }
    for (uint32_t v = 0; v < self->value_count; v++) {
        if (self->storages[v].root == RLX_NONE) continue;
        rlx_root *root = &self->roots[self->storages[v].root];
        uint32_t definition = self->definition[v], last = self->last_use[v];
        uint32_t first = definition == UINT32_MAX ? 0 : self->emitted[definition];
        if (first < root->first) root->first = first;
        if (last == UINT32_MAX) continue;
        /* The last emitted step at or before `last`. */
        uint32_t until = last >= self->steps.count ? end : self->emitted[last + 1];
        if (until != 0 && until - 1 > root->last) root->last = until - 1;
    }
    for (uint32_t v = 0; v < self->value_count; v++) {
        rlx_root *root = &self->roots[v];
        if (!root->is_used) continue;
        if (end != 0 && root->first >= end) root->first = end - 1;
        if (root->last < root->first) root->last = root->first;
    }
}

/* The largest sum of live bytes, workspaces included. */
static rlx_status find_lower_bound(rlx_lowered *self) {
    uint32_t end = self->emitted[self->steps.count];
    uint64_t *starts = NULL, *stops = NULL, live = 0, most = 0;
    RLX_TRY(rlx_scratch_array(self->scratch, end + 2u, sizeof *starts, (void **)&starts));
    RLX_TRY(rlx_scratch_array(self->scratch, end + 2u, sizeof *stops, (void **)&stops));
    for (uint32_t v = 0; v < self->value_count; v++) {
        const rlx_root *root = &self->roots[v];
        uint64_t bytes;
        if (!root->is_used || root->segment != RLX_SEGMENT_SCRATCH) continue;
        if (!rlx_align_u64(root->bytes, self->target->alignment, &bytes) ||
            !rlx_add_u64(starts[root->first], bytes, &starts[root->first])) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the model needs more than 2^64 bytes");
        }
        stops[root->last + 1] += bytes;
    }
    for (uint32_t s = 0; s < self->steps.count; s++) {
        const rlx_lowered_step *step = &self->steps.items[s];
        if (step->is_elided || step->is_prepare || step->kind == RLX_STEP_JUMP) continue;
        uint64_t bytes, *start = &starts[self->emitted[s]];
        if (!rlx_mul_u64(step->choice.workspace_bytes, self->target->workers, &bytes) ||
            !rlx_add_u64(*start, bytes, start)) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the model needs more than 2^64 bytes");
        }
        stops[self->emitted[s] + 1] += bytes;
    }
    for (uint32_t s = 0; s <= end; s++) {
        live -= stops[s];
        if (!rlx_add_u64(live, starts[s], &live)) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the model needs more than 2^64 bytes");
        }
        if (live > most) most = live;
    }
    self->lower_bound = most;
    return RLX_OK;
}

rlx_status rlx_lower_lives(rlx_lowered *self) {
    RLX_TRY(rlx_scratch_array(self->scratch, self->steps.count + 1u, sizeof *self->emitted,
                              (void **)&self->emitted));
    count_emitted(self);
    find_segments(self);
    find_lives(self);
    return find_lower_bound(self);
}
