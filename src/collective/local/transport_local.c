/* SPDX-License-Identifier: Apache-2.0 */
/* `local`: ranks are threads of one process, and the heaps are one piece of its memory. The
 * smallest transport, and the template for others. */
#include "collective/mapped.h"

#include <string.h>

static const rlx_transport_ops local_ops = RLX_MAPPED_OPS("local", NULL);
enum { PAGE_BYTES = 4096 };

/* What all endpoints hold; the last one frees it. */
typedef struct local_heap {
    rlx_allocator allocator;
    _Atomic uint32_t holders;
    void *memory;
} local_heap;

typedef struct local_world {
    rlx_mapped_world base;
    local_heap *heap; /* retained */
} local_world;

static void release_heap(local_heap *heap) {
    rlx_allocator allocator = heap->allocator;
    if (atomic_fetch_sub(&heap->holders, 1) != 1) return;
    rlx_free(&allocator, heap->memory);
    rlx_free(&allocator, heap);
}

static void release_world(rlx_mapped_world *base) {
    local_world *world = (local_world *)base;
    rlx_allocator allocator = world->heap->allocator;
    release_heap(world->heap);
    rlx_free(&allocator, world);
}

/* A rank's thread has ended, and no other took the rank over within a moment. */
static bool is_gone(rlx_mapped_world *world, uint32_t rank) {
    static const uint64_t grace_ns = 250000000;
    int32_t thread = atomic_load(&world->lines[rank].thread);
    uint64_t now;
    if (thread == 0 || !rlx_thread_has_ended(thread)) {
        world->gone_since_ns[rank] = 0;
        return false;
    }
    now = rlx_now_ns();
    if (world->gone_since_ns[rank] == 0) world->gone_since_ns[rank] = now;
    return now - world->gone_since_ns[rank] >= grace_ns;
}

static rlx_status make_heap(const rlx_allocator *allocator, uint64_t bytes, local_heap **out_heap) {
    local_heap *heap = NULL;
    rlx_status status;
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *heap, (void **)&heap));
    heap->allocator = allocator != NULL ? *allocator : *rlx_default_allocator();
    atomic_init(&heap->holders, 1);
    status = rlx_alloc_aligned(allocator, bytes, PAGE_BYTES, &heap->memory);
    if (status != RLX_OK) {
        rlx_free(allocator, heap);
        return status;
    }
    rlx_prefer_large_pages(heap->memory, bytes);
    memset(heap->memory, 0, (size_t)bytes);
    *out_heap = heap;
    return RLX_OK;
}

static rlx_status make_endpoint(const rlx_transport_options *options,
                                const rlx_mapped_layout *layout, local_heap *heap, uint32_t rank,
                                rlx_transport **out_transport) {
    local_world *world = NULL;
    RLX_TRY(rlx_alloc_zero(&heap->allocator, sizeof *world, (void **)&world));
    rlx_mapped_world_init(&world->base, layout, heap->memory, rank);
    world->base.is_gone = is_gone;
    world->base.release = release_world;
    world->heap = heap;
    atomic_fetch_add(&heap->holders, 1);
    return rlx_mapped_create(&local_ops, &heap->allocator, options, &world->base, out_transport);
}

rlx_status rlx_transport_create_local(const rlx_allocator *allocator, uint32_t rank_count,
                                      uint64_t heap_bytes, const rlx_transport_options *options,
                                      rlx_transport **out_endpoints) {
    rlx_transport *made[RLX_RANKS_MOST] = {0};
    rlx_transport_options full;
    rlx_mapped_layout layout;
    local_heap *heap = NULL;
    rlx_status status = RLX_OK;
    if (out_endpoints == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "nowhere to put endpoints");
    RLX_TRY(rlx_transport_read_options(options, &full));
    RLX_TRY(rlx_mapped_layout_make(rank_count, full.groups + 1, heap_bytes, &layout));
    RLX_TRY_WITH(make_heap(allocator, layout.total_bytes, &heap), "%u heaps of %" PRIu64 " bytes",
                 rank_count, heap_bytes);
    for (uint32_t i = 0; i < rank_count && status == RLX_OK; ++i)
        status = make_endpoint(&full, &layout, heap, i, &made[i]);
    for (uint32_t i = 0; i < rank_count; ++i) {
        if (status == RLX_OK) {
            out_endpoints[i] = made[i];
        } else {
            rlx_transport_destroy(made[i]);
        }
    }
    release_heap(heap);
    return status;
}
