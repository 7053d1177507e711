/* SPDX-License-Identifier: Apache-2.0 */
/* A call of all ranks: each sends every other a post (what the call is, and the first bytes of its
 * data), receives theirs, and compares. Only ranks that agree move the rest (move.c). */
#include "collective/net/net.h"

#include <string.h>

enum { TAG_POST = 0 };

static uint32_t tag_of(const rlx_net *self, uint32_t phase) {
    return self->world->tag_base + RLX_NET_TAG_GROUPS + 2 * self->group + phase;
}

static int send_post(rlx_net *self, const rlx_collective_call *call, uint32_t member) {
    const rlx_messenger *messenger = self->world->messenger;
    uint8_t *room = rlx_net_room(self->send_rooms, member);
    const void *data = NULL;
    uint64_t bytes = rlx_net_lead(self, call, member, &data);
    memcpy(room, &self->own, sizeof self->own);
    if (bytes != 0) memcpy(room + RLX_NET_HEAD_BYTES, data, bytes);
    return messenger->send(messenger->context, room, RLX_NET_HEAD_BYTES + bytes,
                           self->members[member], tag_of(self, TAG_POST), &self->sends[member]);
}

/* What fails here has failed the group, and finish says so. */
static void post(rlx_net *self, const rlx_collective_call *call) {
    rlx_net_world *world = self->world;
    const rlx_messenger *messenger = world->messenger;
    uint32_t n = self->base.rank_count;
    rlx_descriptor_set(&self->own, call);
    self->queue.is_posted = true;
    for (uint32_t step = 1; step < n; ++step) {
        uint32_t to = (self->base.rank + step) % n;
        uint32_t from = (self->base.rank + n - step) % n;
        int code = messenger->receive(messenger->context, rlx_net_room(self->post_rooms, from),
                                      RLX_NET_ROOM_BYTES, self->members[from],
                                      tag_of(self, TAG_POST), &self->posts[from]);
        if (code == 0) code = send_post(self, call, to);
        if (rlx_net_judge(world, code, self->members[to], call->kind) != RLX_OK) return;
    }
}

rlx_status rlx_net_finish_posts(rlx_net *self, uint32_t call) {
    for (uint32_t i = 0; i < self->base.rank_count; ++i) {
        if (i == self->base.rank) continue;
        RLX_TRY(rlx_net_await(self->world, &self->sends[i], self->base.timeout_ns, self->members[i],
                              call));
    }
    return RLX_OK;
}

void rlx_net_forget(rlx_net *self) {
    const rlx_messenger *messenger = self->world->messenger;
    uint32_t n = self->base.rank_count;
    for (uint32_t i = 0; i < n && self->posts != NULL && self->sends != NULL; ++i) {
        messenger->cancel(messenger->context, &self->posts[i]);
        messenger->cancel(messenger->context, &self->sends[i]);
    }
    for (uint32_t i = 0; i < n * RLX_NET_FLIGHTS && self->flights != NULL; ++i)
        messenger->cancel(messenger->context, &self->flights[i]);
}

/* Waits for everybody's post; whether all are the same. */
static rlx_status meet(rlx_net *self, uint32_t kind, bool *out_agrees) {
    bool agrees = true;
    RLX_TRY(rlx_net_failure(self->world));
    for (uint32_t i = 0; i < self->base.rank_count; ++i) {
        rlx_descriptor theirs;
        if (i == self->base.rank) continue;
        RLX_TRY(rlx_net_await(self->world, &self->posts[i], self->base.timeout_ns, self->members[i],
                              kind));
        memcpy(&theirs, rlx_net_room(self->post_rooms, i), sizeof theirs);
        agrees = agrees && rlx_descriptor_is_same(&self->own, &theirs);
    }
    self->queue.is_posted = false;
    *out_agrees = agrees;
    return RLX_OK;
}

static rlx_status disagree(const rlx_net *self) {
    rlx_descriptor all[RLX_RANKS_MOST];
    for (uint32_t i = 0; i < self->base.rank_count; ++i)
        memcpy(&all[i], rlx_net_room(self->post_rooms, i), sizeof all[i]);
    all[self->base.rank] = self->own;
    return rlx_disagree(all, self->base.rank_count);
}

static rlx_status finish(rlx_net *self, const rlx_collective_call *call) {
    bool agrees = false;
    rlx_status status = meet(self, call->kind, &agrees);
    if (status == RLX_OK && agrees) status = rlx_net_move(self, call);
    if (status == RLX_OK) status = rlx_net_finish_posts(self, call->kind);
    if (status != RLX_OK) {
        rlx_net_forget(self);
        return status;
    }
    return agrees ? RLX_OK : disagree(self);
}

static void post_step(rlx_transport *base, const rlx_collective_call *call) {
    post((rlx_net *)base, call);
}

static rlx_status finish_step(rlx_transport *base, const rlx_collective_call *call) {
    return finish((rlx_net *)base, call);
}

const rlx_queue_steps rlx_net_steps = {post_step, finish_step};

/* The peers of a poisoned call have to be met before the next one is posted. */
static rlx_status meet_poisoned(rlx_net *self) {
    bool agrees;
    RLX_TRY(meet(self, RLX_CALL_POISON, &agrees));
    RLX_TRY(rlx_net_finish_posts(self, RLX_CALL_POISON));
    self->queue.is_poisoned = false;
    return RLX_OK;
}

static rlx_status begin(rlx_net *self) {
    RLX_TRY(rlx_net_failure(self->world));
    return self->queue.is_poisoned ? meet_poisoned(self) : RLX_OK;
}

rlx_status rlx_net_run(rlx_transport *base, const rlx_collective_call *call) {
    rlx_net *self = (rlx_net *)base;
    RLX_TRY(begin(self));
    if (self->queue.count != 0) {
        rlx_queue_drain(&self->queue, base, UINT64_MAX);
        RLX_TRY(rlx_net_failure(self->world));
    }
    post(self, call);
    if (call->kind == RLX_CALL_POISON) {
        self->queue.is_poisoned = true;
        return RLX_OK;
    }
    return finish(self, call);
}

rlx_status rlx_net_start(rlx_transport *base, const rlx_collective_call *call,
                         uint64_t *out_token) {
    rlx_net *self = (rlx_net *)base;
    RLX_TRY(begin(self));
    return rlx_queue_start(&self->queue, base, call, out_token);
}

rlx_status rlx_net_wait(rlx_transport *base, uint64_t token) {
    rlx_net *self = (rlx_net *)base;
    return rlx_queue_wait(&self->queue, base, token);
}
