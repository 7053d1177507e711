/* SPDX-License-Identifier: Apache-2.0 */
/* An executable of several ranks: the comparison before its first run, its memory in the symmetric
 * heap, and its collective steps. Ranks run the same steps on memory with the same offsets, so a
 * collective works on the operands where they are. Knows the transport only by its public calls. */
#include "runtime/exec.h"

#include "base/size.h"

#include <rlx/base.h>

_Static_assert((int)RLX_COMBINE_SUM == (int)RLX_REDUCTION_SUM &&
                   (int)RLX_COMBINE_MEAN == (int)RLX_REDUCTION_MEAN &&
                   (int)RLX_COMBINE_PRODUCT == (int)RLX_REDUCTION_PRODUCT &&
                   (int)RLX_COMBINE_MIN == (int)RLX_REDUCTION_MIN &&
                   (int)RLX_COMBINE_MAX == (int)RLX_REDUCTION_MAX,
               "a graph and a transport number reductions alike");

/* What ranks compare before they run together. */
enum {
    FACT_BUILD,
    FACT_TARGET,
    FACT_RANK,
    FACT_RANK_COUNT,
    FACT_STATE,
    FACT_STATE_LAYOUT,
    FACT_SCRATCH,
    FACT_COLLECTIVES,
    FACT_SEQUENCE,
    FACT_COUNT
};
static const char *const fact_names[FACT_COUNT] = {"build of the library",
                                                   "target",
                                                   "rank",
                                                   "rank count",
                                                   "bytes of state",
                                                   "layout of the state",
                                                   "bytes of scratch",
                                                   "number of collectives",
                                                   "sequence of collectives"};

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t mix_text(uint64_t hash, const char *text) {
    for (; *text != 0; text++)
        hash = mix(hash, (uint8_t)*text);
    return hash;
}

static uint64_t mix_slot(uint64_t hash, const rlx_plan *plan, uint32_t index) {
    const rlx_plan_slot *slot = &plan->slots.items[index];
    hash = mix(hash, plan->buffers.items[slot->buffer].segment);
    hash = mix(hash, rlx_plan_slot_offset(plan, slot));
    hash = mix(hash, slot->dtype);
    for (uint32_t i = 0; i < slot->rank; i++)
        hash = mix(hash, (uint64_t)slot->dims[i]);
    return hash;
}

static void gather_facts(const rlx_plan *plan, int64_t *facts) {
    uint64_t sequence = 1, count = 0;
    for (uint32_t s = 0; s < plan->steps.count; s++) {
        const rlx_plan_step *step = &plan->steps.items[s];
        if (step->kind != RLX_STEP_COLLECTIVE) continue;
        sequence = mix(mix(sequence, step->op), rlx_attrs_hash(step->op, step->attrs));
        for (uint32_t i = 0; i < 2; i++)
            sequence = mix_slot(sequence, plan, plan->operands.items[step->operands_at + i]);
        count++;
    }
    facts[FACT_BUILD] = (int64_t)(mix_text(1, rlx_version()) >> 1);
    facts[FACT_TARGET] = (int64_t)(mix_text(1, plan->target) >> 1);
    facts[FACT_RANK] = plan->rank;
    facts[FACT_RANK_COUNT] = plan->rank_count;
    facts[FACT_STATE] = (int64_t)plan->segment_bytes[RLX_SEGMENT_STATE];
    facts[FACT_STATE_LAYOUT] = (int64_t)(plan->state_hash >> 1);
    facts[FACT_SCRATCH] = (int64_t)plan->segment_bytes[RLX_SEGMENT_SCRATCH];
    facts[FACT_COLLECTIVES] = (int64_t)count;
    facts[FACT_SEQUENCE] = (int64_t)(sequence >> 1);
}

static rlx_status fail_fact(uint32_t rank, uint32_t fact, int64_t got, int64_t wanted) {
    bool is_number = fact != FACT_BUILD && fact != FACT_TARGET && fact != FACT_STATE_LAYOUT &&
                     fact != FACT_SEQUENCE;
    rlx_status status = is_number
                            ? RLX_FAIL(RLX_MISMATCH,
                                       "ranks do not fit together: rank %u has another %s (%" PRId64
                                       ", expected %" PRId64 ")",
                                       rank, fact_names[fact], got, wanted)
                            : RLX_FAIL(RLX_MISMATCH,
                                       "ranks do not fit together: rank %u has another %s than "
                                       "rank 0",
                                       rank, fact_names[fact]);
    rlx_error_detail_edit()->rank = rank;
    return status;
}

/* Everybody looks at everybody, so all come to the same end. */
static rlx_status compare_facts(const rlx_transport *transport, const int64_t *facts) {
    uint32_t ranks = rlx_transport_rank_count(transport);
    for (uint32_t fact = 0; fact < FACT_COUNT; fact++) {
        for (uint32_t r = 0; r < ranks; r++) {
            int64_t wanted = fact == FACT_RANK         ? (int64_t)r
                             : fact == FACT_RANK_COUNT ? (int64_t)ranks
                                                       : facts[fact];
            int64_t got = facts[r * FACT_COUNT + fact];
            if (got != wanted) return fail_fact(r, fact, got, wanted);
        }
    }
    return RLX_OK;
}

static rlx_status preflight(rlx_exec *exec) {
    rlx_transport *transport = exec->options.transport;
    uint32_t ranks = rlx_transport_rank_count(transport);
    int64_t own[FACT_COUNT], *all = NULL;
    gather_facts(exec->program->plan, own);
    RLX_TRY(rlx_scratch_array(&exec->memory, ranks, sizeof own, (void **)&all));
    RLX_TRY_WITH(rlx_all_gather(transport, own, all, FACT_COUNT, RLX_DTYPE_I64),
                 "comparing executables");
    return compare_facts(transport, all);
}

/* State, then scratch, at one offset for everybody. */
static rlx_status take_memory(rlx_exec *exec) {
    const rlx_plan *plan = exec->program->plan;
    rlx_transport *transport = exec->options.transport;
    uint64_t state = 0, bytes = 0, offset = 0;
    if (!rlx_align_u64(plan->segment_bytes[RLX_SEGMENT_STATE], plan->alignment, &state) ||
        !rlx_add_u64(state, plan->segment_bytes[RLX_SEGMENT_SCRATCH], &bytes)) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "state and scratch exceed 2^64 bytes");
    }
    RLX_TRY_WITH(rlx_symmetric_allocate(transport, bytes, plan->alignment, &offset),
                 "state and scratch");
    uint8_t *heap = rlx_transport_address(transport, rlx_transport_rank(transport));
    exec->heap_offset = offset;
    exec->options.state_memory = heap + offset;
    exec->options.state_bytes = plan->segment_bytes[RLX_SEGMENT_STATE];
    exec->options.scratch_memory = heap + offset + state;
    exec->options.scratch_bytes = plan->segment_bytes[RLX_SEGMENT_SCRATCH];
    return RLX_OK;
}

rlx_status rlx_exec_join_ranks(rlx_exec *exec) {
    uint32_t ranks = exec->program->plan->rank_count;
    if (exec->options.transport == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "the program is for %u ranks: the executable needs a transport", ranks);
    }
    if (exec->options.state_memory != NULL || exec->options.scratch_memory != NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "state and scratch of a program for %u ranks lie in the heap, not in "
                        "memory of the caller",
                        ranks);
    }
    RLX_TRY(preflight(exec));
    return take_memory(exec);
}

/* An arena elsewhere (a device's own memory) would not be what the peers see. */
static rlx_status check_arena(const rlx_exec *exec) {
    const void *there = exec->options.scratch_memory;
    if (exec->arena->address[RLX_SEGMENT_SCRATCH] == there) return RLX_OK;
    return RLX_FAIL(RLX_UNSUPPORTED, "the device's memory cannot lie in the symmetric heap");
}

rlx_status rlx_exec_agree(rlx_exec *exec, rlx_status status) {
    rlx_transport *transport = exec->options.transport;
    uint32_t ranks = rlx_transport_rank_count(transport);
    int64_t own, *all = NULL;
    rlx_status posted;
    if (status == RLX_OK) status = check_arena(exec);
    own = (int64_t)status;
    posted = rlx_scratch_array(&exec->memory, ranks, sizeof *all, (void **)&all);
    if (posted == RLX_OK) {
        rlx_error_record record;
        rlx_error_save(&record);
        posted = rlx_all_gather(transport, &own, all, 1, RLX_DTYPE_I64);
        if (status != RLX_OK) rlx_error_restore(&record);
    }
    if (status != RLX_OK) return status;
    RLX_TRY(posted);
    for (uint32_t r = 0; r < ranks; r++) {
        if (all[r] == (int64_t)RLX_OK) continue;
        status = RLX_FAIL(RLX_MISMATCH, "rank %u could not create its executable (%s)", r,
                          rlx_status_text((rlx_status)all[r]));
        rlx_error_detail_edit()->rank = r;
        return status;
    }
    return RLX_OK;
}

void rlx_exec_leave_ranks(rlx_exec *exec) {
    rlx_error_record record;
    if (exec->heap_offset == RLX_NO_OFFSET) return;
    rlx_error_save(&record);
    /* Where a peer is gone the memory goes with the heap. */
    (void)!rlx_symmetric_free(exec->options.transport, exec->heap_offset);
    rlx_error_restore(&record);
    exec->heap_offset = RLX_NO_OFFSET;
}

static rlx_collective_kind kind_of(rlx_op op) {
    switch (op) {
    case RLX_OP_ALL_GATHER:
        return RLX_COLLECTIVE_ALL_GATHER;
    case RLX_OP_REDUCE_SCATTER:
        return RLX_COLLECTIVE_REDUCE_SCATTER;
    case RLX_OP_BROADCAST:
        return RLX_COLLECTIVE_BROADCAST;
    case RLX_OP_ALL_TO_ALL:
        return RLX_COLLECTIVE_ALL_TO_ALL;
    default:
        return RLX_COLLECTIVE_ALL_REDUCE;
    }
}

/* What is only moved travels as bytes, whatever its dtype. */
rlx_status rlx_collective_step_prepare(rlx_exec *exec, uint32_t step,
                                       rlx_collective_request **out_request) {
    const rlx_plan *plan = exec->program->plan;
    const rlx_plan_step *row = &plan->steps.items[step];
    const rlx_collective_attrs *attrs = row->attrs;
    const uint32_t *operands = &plan->operands.items[row->operands_at];
    rlx_tensor in = rlx_arena_tensor(exec->arena, operands[0]);
    rlx_tensor out = rlx_arena_tensor(exec->arena, operands[1]);
    rlx_collective_request *request = NULL;
    uint64_t count = (uint64_t)rlx_tensor_elements(&in);
    bool reduces = row->op == RLX_OP_ALL_REDUCE || row->op == RLX_OP_REDUCE_SCATTER;
    if (in.data == NULL || out.data == NULL) {
        return RLX_FAIL(RLX_UNSUPPORTED, "step %u ('%s'): its memory is not mapped", step,
                        row->name);
    }
    if (row->op == RLX_OP_ALL_TO_ALL) count /= plan->rank_count;
    if (!reduces) count *= rlx_dtype_block_bytes(in.dtype);
    RLX_TRY(rlx_scratch_alloc(&exec->memory, sizeof *request, (void **)&request));
    *request = (rlx_collective_request){.kind = kind_of(row->op),
                                        .reduction = (rlx_reduction)attrs->reduction,
                                        .dtype = reduces ? in.dtype : RLX_DTYPE_U8,
                                        .root = (uint32_t)attrs->root,
                                        .count = count,
                                        .input = in.data,
                                        .output = out.data};
    *out_request = request;
    return RLX_OK;
}

/* A request that cannot be one: the transport hands it to the peers as this rank's failure. Only
 * where a collective would have come, for else nobody waits. */
void rlx_exec_abandon_run(rlx_exec *exec, uint32_t entry, uint32_t item) {
    const rlx_plan_entry *row = &exec->program->plan->entries.items[entry];
    uint32_t end = exec->item_of_step[row->first_step + row->step_count];
    rlx_collective_request broken = {.kind = RLX_COLLECTIVE_KIND_COUNT};
    rlx_error_record record;
    for (; item < end; item++) {
        if (exec->items[item].kind != RLX_STEP_COLLECTIVE) continue;
        rlx_error_save(&record);
        (void)!rlx_collective_run(exec->options.transport, &broken);
        rlx_error_restore(&record);
        return;
    }
}
