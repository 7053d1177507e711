/* SPDX-License-Identifier: Apache-2.0 */
/* The symmetric allocator: first fit over the sorted list of what is taken. Every rank keeps the
 * same list, because every rank is asked the same, which the call itself compares. */
#include "driver/transport.h"

#include "base/size.h"

#include <string.h>

enum { ALIGNMENT = 64, FIRST_CAPACITY = 16 };

/* All ranks have the same numbers, or all fail. */
static rlx_status agree(rlx_transport *transport, uint32_t kind, uint64_t a, uint64_t b) {
    const rlx_collective_call call = {
        .kind = kind, .count = a, .input_offset = b, .output_offset = RLX_OFFSET_PRIVATE};
    return transport->ops->run(transport, &call);
}

static uint64_t end_of(const rlx_transport *transport, uint32_t index) {
    const rlx_symmetric_block *block = &transport->blocks[index];
    return block->offset + block->bytes;
}

/* The first gap that holds it; the index is where the block goes into the list. */
static bool find_gap(const rlx_transport *transport, uint64_t bytes, uint64_t alignment,
                     uint32_t *out_index, uint64_t *out_offset, uint64_t *out_largest) {
    *out_largest = 0;
    for (uint32_t i = 0; i <= transport->block_count; ++i) {
        uint64_t begin = i == 0 ? 0 : end_of(transport, i - 1), aligned;
        uint64_t end =
            i < transport->block_count ? transport->blocks[i].offset : transport->heap_bytes;
        if (!rlx_align_u64(begin, alignment, &aligned) || aligned > end) continue;
        if (end - aligned > *out_largest) *out_largest = end - aligned;
        if (end - aligned < bytes) continue;
        *out_index = i;
        *out_offset = aligned;
        return true;
    }
    return false;
}

static rlx_status make_room(rlx_transport *transport) {
    uint32_t capacity = transport->block_capacity;
    rlx_symmetric_block *grown = NULL;
    if (transport->block_count < capacity) return RLX_OK;
    capacity = capacity == 0 ? FIRST_CAPACITY : 2 * capacity;
    RLX_TRY(rlx_alloc_array(&transport->allocator, capacity, sizeof *grown, (void **)&grown));
    if (transport->block_count != 0) {
        memcpy(grown, transport->blocks, transport->block_count * sizeof *grown);
    }
    rlx_free(&transport->allocator, transport->blocks);
    transport->blocks = grown;
    transport->block_capacity = capacity;
    return RLX_OK;
}

static rlx_status check_world(const rlx_transport *transport, const char *what) {
    if (transport == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s: transport is null", what);
    if (transport->is_sub_group) {
        return RLX_FAIL(RLX_UNSUPPORTED, "%s on a sub-group: the heap belongs to all ranks", what);
    }
    return RLX_OK;
}

/* A rank that cannot take part says so, instead of leaving the others waiting. */
static void poison(rlx_transport *transport, rlx_status cause) {
    const rlx_collective_call call = {.kind = RLX_CALL_POISON, .root = (uint32_t)cause};
    rlx_error_record record;
    rlx_error_save(&record);
    (void)!transport->ops->run(transport, &call);
    rlx_error_restore(&record);
}

static rlx_status check_alignment(uint64_t *alignment, const uint64_t *out_offset) {
    if (*alignment == 0) *alignment = ALIGNMENT;
    if (out_offset == NULL || (*alignment & (*alignment - 1)) != 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "symmetric_allocate: alignment %" PRIu64 "%s",
                        *alignment, out_offset == NULL ? ", and nowhere to put the offset" : "");
    }
    return RLX_OK;
}

rlx_status rlx_symmetric_allocate(rlx_transport *transport, uint64_t bytes, uint64_t alignment,
                                  uint64_t *out_offset) {
    uint32_t index = 0;
    uint64_t offset = 0, largest = 0;
    rlx_status status;
    RLX_TRY(check_world(transport, "symmetric_allocate"));
    status = check_alignment(&alignment, out_offset);
    if (status == RLX_OK) status = make_room(transport);
    if (status != RLX_OK) {
        poison(transport, status);
        return status;
    }
    RLX_TRY(agree(transport, RLX_CALL_ALLOCATE, bytes, alignment));
    /* 0 bytes take one, so that every offset is given once. */
    if (!find_gap(transport, bytes != 0 ? bytes : 1, alignment, &index, &offset, &largest)) {
        status = RLX_FAIL(RLX_DOES_NOT_FIT,
                          "symmetric_allocate: %" PRIu64 " bytes, the largest gap in the heap of "
                          "%" PRIu64 " has %" PRIu64,
                          bytes, transport->heap_bytes, largest);
        *rlx_error_detail_edit() = (rlx_error_detail){.bytes = bytes, .limit = largest};
        return status;
    }
    memmove(transport->blocks + index + 1, transport->blocks + index,
            (transport->block_count - index) * sizeof *transport->blocks);
    transport->blocks[index] = (rlx_symmetric_block){offset, bytes != 0 ? bytes : 1};
    transport->block_count++;
    *out_offset = offset;
    return RLX_OK;
}

rlx_status rlx_symmetric_free(rlx_transport *transport, uint64_t offset) {
    RLX_TRY(check_world(transport, "symmetric_free"));
    RLX_TRY(agree(transport, RLX_CALL_FREE, offset, 0));
    for (uint32_t i = 0; i < transport->block_count; ++i) {
        if (transport->blocks[i].offset != offset) continue;
        memmove(transport->blocks + i, transport->blocks + i + 1,
                (transport->block_count - i - 1) * sizeof *transport->blocks);
        transport->block_count--;
        return RLX_OK;
    }
    return RLX_FAIL(RLX_NOT_FOUND, "symmetric_free: nothing was allocated at %" PRIu64, offset);
}
