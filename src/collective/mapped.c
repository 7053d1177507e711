/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints over mapped heaps: their memory, one-sided copies, words, and sub-groups. */
#include "collective/mapped.h"

#include "base/size.h"
#include "collective/fold.h"

#include <string.h>

enum { PAGE_BYTES = 4096, HUGE_BYTES = 2 << 20 };
static const uint64_t magic = UINT64_C(0x31706165682d6c78); /* "xl-heap1" */

static bool add_part(uint64_t *total, uint64_t bytes, uint64_t alignment, uint64_t *out_offset) {
    if (!rlx_align_u64(*total, alignment, out_offset)) return false;
    return rlx_add_u64(*out_offset, bytes, total);
}

rlx_status rlx_mapped_layout_make(uint32_t rank_count, uint32_t group_count, uint64_t heap_bytes,
                                  rlx_mapped_layout *out_layout) {
    rlx_mapped_layout layout = {
        .rank_count = rank_count, .group_count = group_count, .heap_bytes = heap_bytes};
    uint64_t total = sizeof(rlx_mapped_header), heaps = 0;
    uint64_t areas = (uint64_t)rank_count * group_count * sizeof(rlx_area);
    if (rank_count == 0 || rank_count > RLX_RANKS_MOST) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%u ranks; 1 to %d are possible", rank_count,
                        RLX_RANKS_MOST);
    }
    /* Large heaps start where a large page may. */
    uint64_t page = heap_bytes >= HUGE_BYTES ? HUGE_BYTES : PAGE_BYTES;
    if (!rlx_align_u64(heap_bytes, page, &layout.heap_stride) ||
        !rlx_mul_u64(layout.heap_stride, rank_count, &heaps) ||
        !add_part(&total, rank_count * sizeof(rlx_rank_line), RLX_LINE_BYTES,
                  &layout.lines_offset) ||
        !add_part(&total, areas, PAGE_BYTES, &layout.areas_offset) ||
        !add_part(&total, heaps, page, &layout.heaps_offset) || total > PTRDIFF_MAX) {
        rlx_status status = RLX_FAIL(RLX_OUT_OF_MEMORY,
                                     "%u heaps of %" PRIu64 " bytes are more than memory can have",
                                     rank_count, heap_bytes);
        rlx_error_detail_edit()->bytes = heap_bytes;
        return status;
    }
    layout.total_bytes = total;
    *out_layout = layout;
    return RLX_OK;
}

void rlx_mapped_world_init(rlx_mapped_world *world, const rlx_mapped_layout *layout, void *memory,
                           uint32_t rank) {
    world->layout = *layout;
    world->memory = memory;
    world->header = memory;
    world->lines = (rlx_rank_line *)(void *)(world->memory + layout->lines_offset);
    world->rank = rank;
    world->groups_used = 1;
    /* Where ranks share processors, whoever spins keeps the one it waits for from running. */
    world->spins = layout->rank_count <= rlx_cpu_count() ? RLX_SPINS : 0;
}

static rlx_area *area_of(const rlx_mapped_world *world, uint32_t rank, uint32_t group) {
    uint64_t index = (uint64_t)rank * world->layout.group_count + group;
    return (rlx_area *)(void *)(world->memory + world->layout.areas_offset) + index;
}

static uint8_t *heap_of(const rlx_mapped_world *world, uint32_t rank) {
    return world->memory + world->layout.heaps_offset + rank * world->layout.heap_stride;
}

static void release_endpoint(rlx_mapped *self) {
    rlx_allocator allocator = self->base.allocator;
    rlx_free(&allocator, self->members);
    rlx_free(&allocator, self->areas);
    rlx_free(&allocator, self->slots[0]);
    rlx_free(&allocator, self->slots[1]);
    rlx_free(&allocator, self->heaps);
    rlx_free(&allocator, (void *)(uintptr_t)self->sources);
    rlx_free(&allocator, self->targets);
    rlx_queue_release(&allocator, &self->queue);
    rlx_transport_finish(&self->base);
    rlx_free(&allocator, self);
}

static rlx_status allocate_tables(rlx_mapped *self, uint32_t count) {
    const rlx_allocator *allocator = &self->base.allocator;
    RLX_TRY(rlx_alloc_array(allocator, count, sizeof *self->members, (void **)&self->members));
    RLX_TRY(rlx_alloc_array(allocator, count, sizeof *self->areas, (void **)&self->areas));
    for (uint32_t i = 0; i < 2; ++i) {
        RLX_TRY(
            rlx_alloc_array(allocator, count, sizeof *self->slots[i], (void **)&self->slots[i]));
    }
    RLX_TRY(rlx_alloc_array(allocator, count, sizeof *self->heaps, (void **)&self->heaps));
    RLX_TRY(rlx_alloc_array(allocator, count, sizeof *self->sources, (void **)&self->sources));
    RLX_TRY(rlx_alloc_array(allocator, count, sizeof *self->targets, (void **)&self->targets));
    return rlx_queue_create(allocator, &rlx_mapped_steps, &self->queue);
}

/* An endpoint of `count` members; their list is still to be filled in. */
static rlx_status make_endpoint(const rlx_transport *like, rlx_mapped_world *world, uint32_t group,
                                uint32_t count, rlx_mapped **out_self) {
    rlx_mapped *self = NULL;
    rlx_status status;
    RLX_TRY(rlx_alloc_zero(&like->allocator, sizeof *self, (void **)&self));
    rlx_endpoint_begin(&self->base, like, group, count);
    self->world = world;
    self->group = group;
    self->folds = rlx_fold_best();
    status = allocate_tables(self, count);
    if (status != RLX_OK) {
        release_endpoint(self);
        return status;
    }
    *out_self = self;
    return RLX_OK;
}

static void set_member(rlx_mapped *self, uint32_t index, uint32_t rank) {
    self->members[index] = rank;
    self->areas[index] = area_of(self->world, rank, self->group);
    for (uint32_t i = 0; i < 2; ++i)
        self->slots[i][index] = &self->areas[index]->slots[i];
    self->heaps[index] = heap_of(self->world, rank);
    if (rank == self->world->rank) self->base.rank = index;
}

rlx_status rlx_mapped_create(const rlx_transport_ops *ops, const rlx_allocator *allocator,
                             const rlx_transport_options *options, rlx_mapped_world *world,
                             rlx_transport **out_transport) {
    const rlx_transport like = {.ops = ops,
                                .allocator =
                                    allocator != NULL ? *allocator : *rlx_default_allocator(),
                                .timeout_ns = options->timeout_ns,
                                .heap_bytes = world->layout.heap_bytes,
                                .heap = heap_of(world, world->rank)};
    rlx_mapped *self = NULL;
    rlx_status status = make_endpoint(&like, world, 0, world->layout.rank_count, &self);
    if (status != RLX_OK) {
        rlx_mapped_refuse(world, status);
        world->release(world);
        return status;
    }
    for (uint32_t i = 0; i < world->layout.rank_count; ++i)
        set_member(self, i, i);
    world->header->magic = magic;
    rlx_mapped_enter(world);
    atomic_store(&world->lines[world->rank].state, RLX_RANK_JOINED);
    *out_transport = &self->base;
    return RLX_OK;
}

void rlx_mapped_destroy(rlx_transport *base) {
    rlx_mapped *self = (rlx_mapped *)base;
    rlx_mapped_world *world = self->world;
    uint32_t group = self->group;
    release_endpoint(self);
    world->groups_used &= ~(UINT32_C(1) << group);
    if (group != 0) return;
    atomic_store(&world->lines[world->rank].state, RLX_RANK_LEFT);
    rlx_mapped_ring_slow(world);
    world->release(world);
}

void *rlx_mapped_address(const rlx_transport *base, uint32_t rank) {
    return ((const rlx_mapped *)base)->heaps[rank];
}

rlx_status rlx_mapped_check(rlx_transport *base) {
    return rlx_mapped_failure((rlx_mapped *)base);
}

static inline void move_bytes(void *to, const void *from, uint64_t bytes) {
    if (bytes != 0) memmove(to, from, bytes);
}

rlx_status rlx_mapped_put(rlx_transport *base, rlx_symmetric_buffer dst, const void *src) {
    rlx_mapped *self = (rlx_mapped *)base;
    move_bytes(self->heaps[dst.rank] + dst.offset, src, dst.bytes);
    return RLX_OK;
}

rlx_status rlx_mapped_get(rlx_transport *base, rlx_symmetric_buffer src, void *dst) {
    rlx_mapped *self = (rlx_mapped *)base;
    move_bytes(dst, self->heaps[src.rank] + src.offset, src.bytes);
    return RLX_OK;
}

/* Copies are done when they return; what is left is their order. */
rlx_status rlx_mapped_order(rlx_transport *base) {
    (void)base;
#if !defined(__SANITIZE_THREAD__)
    atomic_thread_fence(memory_order_seq_cst);
#endif
    return RLX_OK;
}

static _Atomic uint64_t *word_at(const rlx_mapped *self, uint32_t rank, uint64_t offset) {
    return (_Atomic uint64_t *)(void *)(self->heaps[rank] + offset);
}

static __attribute__((noinline)) rlx_status put_signal(rlx_mapped *self,
                                                       const rlx_symmetric_buffer *dst,
                                                       const void *src, _Atomic uint64_t *word,
                                                       rlx_atomic_kind kind, uint64_t value) {
    move_bytes(self->heaps[dst->rank] + dst->offset, src, dst->bytes);
    if (kind == RLX_ATOMIC_SET) {
        atomic_store_explicit(word, value, memory_order_release);
    } else {
        atomic_fetch_add_explicit(word, value, memory_order_acq_rel);
    }
    rlx_mapped_ring(self->world);
    return RLX_OK;
}

rlx_status rlx_mapped_put_signal(rlx_transport *base, const rlx_symmetric_buffer *dst,
                                 const void *src, uint64_t signal_offset, rlx_atomic_kind kind,
                                 uint64_t value) {
    rlx_mapped *self = (rlx_mapped *)base;
    uint8_t *heap = self->heaps[dst->rank];
    _Atomic uint64_t *word = (_Atomic uint64_t *)(void *)(heap + signal_offset);
    /* One word and a number beside it: less work than the calls and choices above. */
    if (dst->bytes != 8 || kind != RLX_ATOMIC_SET) {
        return put_signal(self, dst, src, word, kind, value);
    }
    memcpy(heap + dst->offset, src, 8);
    atomic_store_explicit(word, value, memory_order_release);
    rlx_mapped_ring(self->world);
    return RLX_OK;
}

rlx_status rlx_mapped_atomic(rlx_transport *base, rlx_symmetric_buffer where,
                             const rlx_atomic_call *call, uint64_t *out_before) {
    rlx_mapped *self = (rlx_mapped *)base;
    _Atomic uint64_t *word = word_at(self, where.rank, where.offset);
    uint64_t before = call->expected;
    if (call->kind == RLX_ATOMIC_SWAP) {
        atomic_compare_exchange_strong(word, &before, call->value);
    } else {
        before = atomic_fetch_add(word, call->value);
    }
    *out_before = before;
    rlx_mapped_ring(self->world);
    return RLX_OK;
}

static rlx_status make_group(rlx_transport *parent, uint32_t group, uint32_t count,
                             rlx_transport **out_made) {
    rlx_mapped *made = NULL;
    RLX_TRY(make_endpoint(parent, ((rlx_mapped *)parent)->world, group, count, &made));
    *out_made = &made->base;
    return RLX_OK;
}

static void take_member(rlx_transport *made, uint32_t index, const rlx_transport *parent,
                        uint32_t parent_index) {
    set_member((rlx_mapped *)made, index, ((const rlx_mapped *)parent)->members[parent_index]);
}

/* A group starts from zero, also where another one was before. */
static void clear_area(rlx_transport *made) {
    rlx_area *area = ((rlx_mapped *)made)->areas[made->rank];
    atomic_store(&area->slots[0].word, 0);
    atomic_store(&area->slots[1].word, 0);
    atomic_store(&area->done, 0);
    atomic_store(&area->chunks, 0);
}

static void release_group(rlx_transport *made) {
    release_endpoint((rlx_mapped *)made);
}

rlx_status rlx_mapped_split(rlx_transport *base, uint32_t colour, uint32_t key,
                            rlx_transport **out_transport) {
    static const rlx_split_steps steps = {make_group, take_member, clear_area, release_group};
    rlx_mapped_world *world = ((rlx_mapped *)base)->world;
    return rlx_split(base, &steps, world->layout.group_count, &world->groups_used, colour, key,
                     out_transport);
}
