/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints over messages: what they own, and sub-groups. */
#include "collective/net/net.h"

#include "base/size.h"
#include "collective/fold.h"

#include <string.h>

enum { PAGE_BYTES = 4096 };

static void release_world(rlx_net_world *world) {
    rlx_allocator allocator = world->allocator;
    for (uint32_t i = 0; world->peers != NULL && i < world->rank_count; ++i)
        rlx_watch_close(&world->peers[i].watch);
    rlx_free(&allocator, world->heap);
    rlx_free(&allocator, world->peers);
    rlx_free(&allocator, world->answer_rooms);
    rlx_free(&allocator, world->rooms);
    rlx_free(&allocator, world->request_room);
    rlx_free(&allocator, world);
}

static void release_endpoint(rlx_net *self) {
    rlx_allocator allocator = self->base.allocator;
    rlx_net_forget(self);
    rlx_free(&allocator, self->members);
    rlx_free(&allocator, self->post_rooms);
    rlx_free(&allocator, self->send_rooms);
    rlx_free(&allocator, self->posts);
    rlx_free(&allocator, self->sends);
    rlx_free(&allocator, self->flights);
    rlx_free(&allocator, self->staging);
    rlx_free(&allocator, (void *)(uintptr_t)self->sources);
    rlx_queue_release(&allocator, &self->queue);
    rlx_transport_finish(&self->base);
    rlx_free(&allocator, self);
}

/* 0 bytes of heap have an address, too. */
static rlx_status make_heap(rlx_net_world *world) {
    uint64_t bytes = 0;
    if (!rlx_align_u64(world->heap_bytes + (world->heap_bytes == 0), PAGE_BYTES, &bytes)) {
        return RLX_FAIL(RLX_OUT_OF_MEMORY, "a heap of %" PRIu64 " bytes", world->heap_bytes);
    }
    RLX_TRY_WITH(rlx_alloc_aligned(&world->allocator, bytes, PAGE_BYTES, (void **)&world->heap),
                 "a heap of %" PRIu64 " bytes", world->heap_bytes);
    rlx_prefer_large_pages(world->heap, bytes);
    memset(world->heap, 0, (size_t)bytes);
    return RLX_OK;
}

static rlx_status fill_world(rlx_net_world *world) {
    const rlx_allocator *allocator = &world->allocator;
    uint32_t n = world->rank_count;
    RLX_TRY(make_heap(world));
    RLX_TRY(rlx_alloc_array(allocator, n, sizeof *world->peers, (void **)&world->peers));
    RLX_TRY(rlx_alloc_array(allocator, n, RLX_NET_ROOM_BYTES, (void **)&world->answer_rooms));
    RLX_TRY(rlx_alloc_array(allocator, RLX_NET_ROOMS, RLX_NET_ROOM_BYTES, (void **)&world->rooms));
    RLX_TRY(rlx_alloc_zero(allocator, RLX_NET_ROOM_BYTES, (void **)&world->request_room));
    for (uint32_t i = 0; i < n; ++i) {
        world->peers[i].answer_room = rlx_net_room(world->answer_rooms, i);
        world->peers[i].watch = RLX_WATCH_NONE;
    }
    return RLX_OK;
}

static rlx_status fill_endpoint(rlx_net *self, uint32_t n) {
    const rlx_allocator *allocator = &self->base.allocator;
    RLX_TRY(rlx_alloc_array(allocator, n, sizeof *self->members, (void **)&self->members));
    RLX_TRY(rlx_alloc_array(allocator, n, RLX_NET_ROOM_BYTES, (void **)&self->post_rooms));
    RLX_TRY(rlx_alloc_array(allocator, n, RLX_NET_ROOM_BYTES, (void **)&self->send_rooms));
    RLX_TRY(rlx_alloc_array(allocator, n, sizeof *self->posts, (void **)&self->posts));
    RLX_TRY(rlx_alloc_array(allocator, n, sizeof *self->sends, (void **)&self->sends));
    RLX_TRY(rlx_alloc_array(allocator, (uint64_t)n * RLX_NET_FLIGHTS, sizeof *self->flights,
                            (void **)&self->flights));
    RLX_TRY(rlx_alloc_array(allocator, 2, RLX_NET_STAGING_BYTES, (void **)&self->staging));
    RLX_TRY(rlx_alloc_array(allocator, n, sizeof *self->sources, (void **)&self->sources));
    return rlx_queue_create(allocator, &rlx_net_steps, &self->queue);
}

/* An endpoint of `count` members; their list is still to be filled in. */
static rlx_status make_endpoint(const rlx_transport *like, rlx_net_world *world, uint32_t group,
                                uint32_t count, rlx_net **out_self) {
    rlx_net *self = NULL;
    rlx_status status;
    RLX_TRY(rlx_alloc_zero(&like->allocator, sizeof *self, (void **)&self));
    rlx_endpoint_begin(&self->base, like, group, count);
    self->world = world;
    self->group = group;
    self->folds = rlx_fold_best();
    status = fill_endpoint(self, count);
    if (status != RLX_OK) {
        release_endpoint(self);
        return status;
    }
    *out_self = self;
    return RLX_OK;
}

static void set_member(rlx_net *self, uint32_t index, uint32_t rank) {
    self->members[index] = rank;
    if (rank == self->world->rank) self->base.rank = index;
}

static rlx_status make_all(rlx_transport like, rlx_net_world *world, rlx_net **out_self) {
    RLX_TRY(fill_world(world));
    like.heap = world->heap;
    RLX_TRY(make_endpoint(&like, world, 0, world->rank_count, out_self));
    for (uint32_t i = 0; i < world->rank_count; ++i)
        set_member(*out_self, i, i);
    return rlx_net_listen(world);
}

rlx_status rlx_net_create(const rlx_transport_ops *ops, const rlx_allocator *allocator,
                          const rlx_messenger *messenger, uint64_t heap_bytes,
                          const rlx_transport_options *options, uint32_t transport_number,
                          bool shares_processors, rlx_transport **out_transport) {
    const uint32_t bases = RLX_MESSENGER_TAGS_LEAST / RLX_NET_TAGS;
    const rlx_transport like = {.ops = ops,
                                .allocator =
                                    allocator != NULL ? *allocator : *rlx_default_allocator(),
                                .timeout_ns = options->timeout_ns,
                                .heap_bytes = heap_bytes};
    rlx_net_world *world = NULL;
    rlx_net *self = NULL;
    rlx_status status;
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *world, (void **)&world));
    world->allocator = like.allocator;
    world->messenger = messenger;
    world->rank = messenger->rank;
    world->rank_count = messenger->rank_count;
    world->group_count = options->groups + 1;
    world->groups_used = 1;
    /* Tags below belong to whoever makes transports. */
    world->tag_base = RLX_NET_TAGS + transport_number % (bases - 1) * RLX_NET_TAGS;
    world->shares_processors = shares_processors;
    world->heap_bytes = heap_bytes;
    status = make_all(like, world, &self);
    if (status != RLX_OK) {
        rlx_net_leave(world);
        if (self != NULL) release_endpoint(self);
        release_world(world);
        return status;
    }
    *out_transport = &self->base;
    return RLX_OK;
}

void rlx_net_watch(rlx_transport *base, uint32_t rank, int32_t process) {
    ((rlx_net *)base)->world->peers[rank].process = process;
}

void rlx_net_destroy(rlx_transport *base) {
    rlx_net *self = (rlx_net *)base;
    rlx_net_world *world = self->world;
    uint32_t group = self->group;
    release_endpoint(self);
    world->groups_used &= ~(UINT32_C(1) << group);
    if (group != 0) return;
    rlx_net_leave(world);
    release_world(world);
}

void *rlx_net_address(const rlx_transport *base, uint32_t rank) {
    return rank == base->rank ? base->heap : NULL;
}

rlx_status rlx_net_check(rlx_transport *base) {
    return rlx_net_progress(((rlx_net *)base)->world);
}

static rlx_status make_group(rlx_transport *parent, uint32_t group, uint32_t count,
                             rlx_transport **out_made) {
    rlx_net *made = NULL;
    RLX_TRY(make_endpoint(parent, ((rlx_net *)parent)->world, group, count, &made));
    *out_made = &made->base;
    return RLX_OK;
}

static void take_member(rlx_transport *made, uint32_t index, const rlx_transport *parent,
                        uint32_t parent_index) {
    set_member((rlx_net *)made, index, ((const rlx_net *)parent)->members[parent_index]);
}

static void release_group(rlx_transport *made) {
    release_endpoint((rlx_net *)made);
}

rlx_status rlx_net_split(rlx_transport *base, uint32_t colour, uint32_t key,
                         rlx_transport **out_transport) {
    static const rlx_split_steps steps = {make_group, take_member, NULL, release_group};
    rlx_net_world *world = ((rlx_net *)base)->world;
    return rlx_split(base, &steps, world->group_count, &world->groups_used, colour, key,
                     out_transport);
}
