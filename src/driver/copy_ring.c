/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: N stages that are filled by copies and handed out in order.
 *
 * Four counters say it all, each the number of stages that ever got that far:
 * released <= handed <= committed <= acquired <= released + N. Stage k is at stages[k % N]. */
#include "driver/copy.h"

#include "driver/arena.h"

typedef struct ring_stage {
    uint8_t *data; /* borrowed */
    uint32_t slot; /* of the arena, if there is one */
    rlx_arena_hold hold;
    uint64_t bytes;
    uint32_t piece_count, waited; /* pieces issued, and those that are known to be over */
    rlx_copy_token pieces[RLX_RING_PIECES];
} ring_stage;

struct rlx_ring {
    rlx_allocator allocator;
    rlx_copy_engine *engine; /* borrowed */
    rlx_arena *arena;        /* borrowed; NULL: over caller memory */
    uint64_t stage_bytes;
    uint32_t count;
    uint64_t acquired, committed, handed, released;
    ring_stage stages[];
};

static ring_stage *stage_at(rlx_ring *ring, uint64_t index) {
    return &ring->stages[index % ring->count];
}

static rlx_status create_empty(const rlx_allocator *allocator, rlx_copy_engine *engine,
                               uint32_t count, rlx_ring **out_ring) {
    rlx_ring *ring = NULL;
    if (engine == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "ring: engine is null");
    if (count == 0 || count > RLX_RING_STAGES_MOST) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "ring: %" PRIu32 " stages, not 1 to %d", count,
                        RLX_RING_STAGES_MOST);
    }
    if (allocator == NULL) allocator = rlx_default_allocator();
    RLX_TRY(
        rlx_alloc_zero(allocator, sizeof *ring + count * sizeof ring->stages[0], (void **)&ring));
    ring->allocator = *allocator;
    ring->engine = engine;
    ring->count = count;
    *out_ring = ring;
    return RLX_OK;
}

rlx_status rlx_ring_create(const rlx_allocator *allocator, rlx_copy_engine *engine,
                           void *const *stages, uint32_t count, uint64_t stage_bytes,
                           rlx_ring **out_ring) {
    rlx_ring *ring = NULL;
    if (stages == NULL || out_ring == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "ring: stages or result is null");
    }
    for (uint32_t i = 0; i < count && i < RLX_RING_STAGES_MOST; ++i) {
        if (stages[i] == NULL && stage_bytes != 0) {
            return RLX_FAIL(RLX_INVALID_ARGUMENT, "ring: stage %" PRIu32 " is null", i);
        }
    }
    RLX_TRY(create_empty(allocator, engine, count, &ring));
    ring->stage_bytes = stage_bytes;
    for (uint32_t i = 0; i < count; ++i) {
        ring->stages[i].data = stages[i];
    }
    *out_ring = ring;
    return RLX_OK;
}

static rlx_status take_slot(rlx_ring *ring, rlx_arena *arena, uint32_t stage, uint32_t slot) {
    uint64_t bytes = rlx_arena_slot_bytes(arena, slot);
    ring->stages[stage].slot = slot;
    if (!rlx_arena_has_slot(arena, slot)) {
        return RLX_FAIL(RLX_NOT_FOUND, "ring: slot %" PRIu32 " has no memory in the arena", slot);
    }
    ring->stages[stage].data = rlx_arena_address(arena, slot);
    if (ring->stages[stage].data == NULL && bytes != 0) {
        return RLX_FAIL(RLX_UNSUPPORTED, "ring: slot %" PRIu32 " has no host address", slot);
    }
    if (bytes < ring->stage_bytes) ring->stage_bytes = bytes;
    return RLX_OK;
}

rlx_status rlx_ring_create_slots(const rlx_allocator *allocator, rlx_copy_engine *engine,
                                 rlx_arena *arena, const uint32_t *slots, uint32_t count,
                                 rlx_ring **out_ring) {
    rlx_ring *ring = NULL;
    rlx_status status = RLX_OK;
    if (arena == NULL || slots == NULL || out_ring == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "ring: arena, slots or result is null");
    }
    RLX_TRY(create_empty(allocator, engine, count, &ring));
    ring->arena = arena;
    ring->stage_bytes = UINT64_MAX;
    for (uint32_t i = 0; i < count && status == RLX_OK; ++i) {
        status = take_slot(ring, arena, i, slots[i]);
    }
    if (status != RLX_OK) {
        rlx_ring_destroy(ring);
        return status;
    }
    *out_ring = ring;
    return RLX_OK;
}

void rlx_ring_destroy(rlx_ring *ring) {
    rlx_allocator allocator;
    rlx_error_record record;
    if (ring == NULL) return;
    rlx_error_save(&record); /* what failed before is what the caller wants to know */
    if (rlx_ring_drain(ring) != RLX_OK) rlx_error_restore(&record);
    allocator = ring->allocator;
    rlx_free(&allocator, ring);
}

rlx_status rlx_ring_acquire(rlx_ring *ring) {
    ring_stage *stage;
    if (ring->acquired != ring->committed) {
        return RLX_FAIL(RLX_BUSY, "ring: stage %" PRIu64 " is being filled", ring->committed);
    }
    if (ring->acquired - ring->released == ring->count) {
        return RLX_FAIL(RLX_BUSY, "ring: all %" PRIu32 " stages are in use", ring->count);
    }
    stage = stage_at(ring, ring->acquired++);
    stage->bytes = 0;
    stage->piece_count = stage->waited = 0;
    if (ring->arena != NULL) rlx_arena_hold_slot(ring->arena, stage->slot, &stage->hold);
    return RLX_OK;
}

static rlx_status check_filling(const rlx_ring *ring, const char *what) {
    if (ring->acquired != ring->committed) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_ARGUMENT, "ring: %s without an acquired stage", what);
}

rlx_status rlx_ring_issue(rlx_ring *ring, rlx_copy_source source, uint64_t bytes) {
    ring_stage *stage;
    RLX_TRY(check_filling(ring, "issue"));
    stage = stage_at(ring, ring->committed);
    if (bytes > ring->stage_bytes - stage->bytes) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS,
                        "ring: %" PRIu64 " + %" PRIu64 " bytes > stage of %" PRIu64, stage->bytes,
                        bytes, ring->stage_bytes);
    }
    if (stage->piece_count == RLX_RING_PIECES) {
        return RLX_FAIL(RLX_BUSY, "ring: %d pieces in one stage", RLX_RING_PIECES);
    }
    RLX_TRY(rlx_copy_issue(ring->engine, source, bytes != 0 ? stage->data + stage->bytes : NULL,
                           bytes, &stage->pieces[stage->piece_count]));
    stage->piece_count++;
    stage->bytes += bytes;
    return RLX_OK;
}

rlx_status rlx_ring_commit(rlx_ring *ring) {
    RLX_TRY(check_filling(ring, "commit"));
    ring->committed++;
    return RLX_OK;
}

/* Waits for all pieces, also past a failure (the memory is busy until the last is over);
 * RLX_TIMEOUT leaves the rest for the next call. */
static rlx_status wait_stage(rlx_ring *ring, ring_stage *stage, uint64_t timeout_ns) {
    uint64_t start = rlx_now_ns();
    rlx_status first = RLX_OK;
    rlx_error_record record;
    for (uint32_t i = stage->waited; i < stage->piece_count; ++i) {
        uint64_t gone = timeout_ns == UINT64_MAX ? 0 : rlx_now_ns() - start;
        rlx_status status = rlx_copy_wait_for(ring->engine, stage->pieces[i],
                                              timeout_ns > gone ? timeout_ns - gone : 0);
        if (status == RLX_TIMEOUT) return status; /* failures before it are met again */
        if (status == RLX_OK && first == RLX_OK) stage->waited = i + 1;
        if (status != RLX_OK && first == RLX_OK) {
            first = status;
            rlx_error_save(&record);
        }
    }
    if (ring->arena != NULL) rlx_arena_let_go(ring->arena, &stage->hold);
    if (first != RLX_OK) rlx_error_restore(&record);
    return first;
}

rlx_status rlx_ring_wait(rlx_ring *ring, uint64_t timeout_ns, rlx_ring_tile *out_tile) {
    ring_stage *stage;
    rlx_status status;
    if (ring->handed == ring->committed) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "ring: wait, but nothing is committed");
    }
    stage = stage_at(ring, ring->handed);
    status = wait_stage(ring, stage, timeout_ns);
    if (status == RLX_TIMEOUT) return status;
    ring->handed++;
    if (status != RLX_OK) return rlx_fail_context(status, "tile %" PRIu64, ring->handed - 1);
    *out_tile = (rlx_ring_tile){.data = stage->data,
                                .bytes = stage->bytes,
                                .index = ring->handed - 1,
                                .stage = (uint32_t)((ring->handed - 1) % ring->count)};
    return RLX_OK;
}

rlx_status rlx_ring_release(rlx_ring *ring) {
    if (ring->released == ring->handed) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "ring: release, but nothing was handed out");
    }
    ring->released++;
    return RLX_OK;
}

rlx_status rlx_ring_drain(rlx_ring *ring) {
    rlx_status first = RLX_OK;
    rlx_error_record record;
    for (uint64_t i = ring->handed; i < ring->acquired; ++i) {
        rlx_status status = wait_stage(ring, stage_at(ring, i), UINT64_MAX);
        if (status != RLX_OK && first == RLX_OK) {
            first = status;
            rlx_error_save(&record);
        }
    }
    ring->committed = ring->handed = ring->released = ring->acquired;
    if (first != RLX_OK) rlx_error_restore(&record);
    return first;
}
