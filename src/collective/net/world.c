/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank does for the others while it is inside a call: takes their requests, answers them,
 * waits with patience, and writes down the first failure. Requests never wait here: what is not
 * done at once is looked at again in the next round. */
#include "collective/net/net.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { SPIN_ROUNDS = 2000, LOOKS_PER_ROUND = 8, YIELD_NS = 1000000 };
static const uint64_t left_grace_ns = 250000000; /* for messages that a leaving rank sent before */
static const uint64_t gone_grace_ns = 100000000; /* for its note that it leaves */
static const uint64_t watch_every_ns = 50000000;
static const long first_nap_ns = 50000, longest_nap_ns = 1000000;

rlx_status rlx_net_failure(const rlx_net_world *world) {
    return world->failure == 0 ? RLX_OK : rlx_failure_explain(world->failure, world->rank_count);
}

static void send_note(rlx_net_world *world, uint32_t to, rlx_net_kind kind, uint64_t value) {
    const rlx_net_head head = {.kind = kind, .value = value};
    const rlx_messenger *messenger = world->messenger;
    (void)messenger->note(messenger->context, &head, sizeof head, to,
                          world->tag_base + RLX_NET_TAG_REQUEST);
}

/* The first failure stays, and everybody is told. */
static rlx_status fail(rlx_net_world *world, rlx_failure_kind kind, uint32_t rank, uint32_t call) {
    if (world->failure == 0) {
        world->failure = rlx_failure_pack(kind, world->rank, rank, call);
        world->messenger->mark_failed(world->messenger->context);
        for (uint32_t i = 0; i < world->rank_count; ++i) {
            if (i != world->rank) send_note(world, i, RLX_NET_FAILED, world->failure);
        }
    }
    return rlx_net_failure(world);
}

rlx_status rlx_net_judge(rlx_net_world *world, int code, uint32_t peer, uint32_t call) {
    char text[160];
    rlx_status status;
    if (code == 0) return RLX_OK;
    world->messenger->text(world->messenger->context, code, text, sizeof text);
    status = fail(world, RLX_FAILURE_GONE, peer, call);
    return rlx_fail_context(status, "%s: %s", world->messenger->library, text);
}

static int post_room(rlx_net_world *world, uint32_t index) {
    const rlx_messenger *messenger = world->messenger;
    return messenger->receive(messenger->context, rlx_net_room(world->rooms, index),
                              RLX_NET_ROOM_BYTES, RLX_MESSENGER_ANY,
                              world->tag_base + RLX_NET_TAG_REQUEST, &world->receives[index]);
}

rlx_status rlx_net_listen(rlx_net_world *world) {
    for (uint32_t i = 0; i < RLX_NET_ROOMS; ++i)
        RLX_TRY(rlx_net_judge(world, post_room(world, i), world->rank, RLX_CALL_BARRIER));
    return RLX_OK;
}

void rlx_net_leave(rlx_net_world *world) {
    const rlx_messenger *messenger = world->messenger;
    for (uint32_t i = 0; i < RLX_NET_ROOMS; ++i)
        messenger->cancel(messenger->context, &world->receives[i]);
    for (uint32_t i = 0; world->peers != NULL && i < world->rank_count; ++i) {
        if (i == world->rank) continue;
        send_note(world, i, RLX_NET_LEFT, 0);
        messenger->cancel(messenger->context, &world->peers[i].incoming);
        messenger->cancel(messenger->context, &world->peers[i].outgoing);
        messenger->cancel(messenger->context, &world->peers[i].answer);
    }
}

/* requests of others ------------------------------------------------------------------------- */

/* The asker has its last answer, or it would not ask again: the room is free at once. */
static rlx_status answer(rlx_net_world *world, uint32_t to, uint64_t number, uint64_t value,
                         const void *data, uint64_t bytes) {
    const rlx_net_head head = {
        .kind = RLX_NET_ANSWER, .number = number, .value = value, .bytes = bytes};
    const rlx_messenger *messenger = world->messenger;
    rlx_net_peer *peer = &world->peers[to];
    bool is_done = false;
    while (!is_done) {
        int code = messenger->test(messenger->context, &peer->answer, &is_done, NULL, NULL);
        RLX_TRY(rlx_net_judge(world, code, to, RLX_CALL_BARRIER));
    }
    memcpy(peer->answer_room, &head, sizeof head);
    if (bytes != 0) memcpy(peer->answer_room + sizeof head, data, bytes);
    return rlx_net_judge(world,
                         messenger->send(messenger->context, peer->answer_room, sizeof head + bytes,
                                         to, world->tag_base + RLX_NET_TAG_REQUEST, &peer->answer),
                         to, RLX_CALL_BARRIER);
}

/* Nothing from outside is trusted: a range that is not in the heap is another program's. */
static bool is_inside(const rlx_net_world *world, uint64_t offset, uint64_t bytes) {
    return bytes <= world->heap_bytes && offset <= world->heap_bytes - bytes;
}

static bool is_sound(const rlx_net_world *world, const rlx_net_head *head) {
    if (!is_inside(world, head->offset, head->bytes)) return false;
    return head->atomic == 0 || (is_inside(world, head->word_offset, 8) &&
                                 head->word_offset % 8 == 0 && head->atomic <= 1 + RLX_ATOMIC_SWAP);
}

static uint64_t apply_word(rlx_net_world *world, const rlx_net_head *head) {
    _Atomic uint64_t *word = (_Atomic uint64_t *)(void *)(world->heap + head->word_offset);
    uint64_t before = head->expected;
    switch ((rlx_atomic_kind)(head->atomic - 1)) {
    case RLX_ATOMIC_SET:
        return atomic_exchange(word, head->value);
    case RLX_ATOMIC_ADD:
        return atomic_fetch_add(word, head->value);
    default:
        atomic_compare_exchange_strong(word, &before, head->value);
        return before;
    }
}

static rlx_status finish_put(rlx_net_world *world, uint32_t from, const rlx_net_head *head) {
    if (head->atomic != 0) (void)apply_word(world, head);
    return answer(world, from, head->number, 0, NULL, 0);
}

static rlx_status take_put(rlx_net_world *world, uint32_t from, const rlx_net_head *head,
                           const uint8_t *data) {
    const rlx_messenger *messenger = world->messenger;
    rlx_net_peer *peer = &world->peers[from];
    if (head->bytes <= RLX_NET_INLINE_BYTES) {
        if (head->bytes != 0) memcpy(world->heap + head->offset, data, head->bytes);
        return finish_put(world, from, head);
    }
    peer->put_head = *head;
    world->busy++;
    return rlx_net_judge(world,
                         messenger->receive(messenger->context, world->heap + head->offset,
                                            head->bytes, from, world->tag_base + RLX_NET_TAG_PUT,
                                            &peer->incoming),
                         from, RLX_CALL_BARRIER);
}

/* Large data goes out of the heap as it is: the asker waits for it, and nobody promised more. */
static rlx_status take_get(rlx_net_world *world, uint32_t from, const rlx_net_head *head) {
    const rlx_messenger *messenger = world->messenger;
    rlx_net_peer *peer = &world->peers[from];
    bool is_done = false;
    if (head->bytes <= RLX_NET_INLINE_BYTES) {
        return answer(world, from, head->number, 0, world->heap + head->offset, head->bytes);
    }
    while (peer->outgoing.words[1] != 0 && !is_done) { /* its last one, which it has received */
        int code = messenger->test(messenger->context, &peer->outgoing, &is_done, NULL, NULL);
        RLX_TRY(rlx_net_judge(world, code, from, RLX_CALL_BARRIER));
        if (is_done) world->busy--;
    }
    world->busy++;
    return rlx_net_judge(world,
                         messenger->send(messenger->context, world->heap + head->offset,
                                         head->bytes, from, world->tag_base + RLX_NET_TAG_GET,
                                         &peer->outgoing),
                         from, RLX_CALL_BARRIER);
}

static void take_answer(rlx_net_world *world, const rlx_net_head *head, const uint8_t *data) {
    if (head->number != world->number || world->is_answered) return;
    if (head->bytes != world->answer_bytes) return;
    if (head->bytes != 0) memcpy(world->answer_data, data, head->bytes);
    world->answer_value = head->value;
    world->is_answered = true;
}

static rlx_status take_request(rlx_net_world *world, uint32_t from, const uint8_t *room,
                               uint64_t bytes) {
    const uint8_t *data = room + sizeof(rlx_net_head);
    rlx_net_head head;
    if (bytes < sizeof head) return RLX_OK;
    memcpy(&head, room, sizeof head);
    if (head.kind <= RLX_NET_ATOMIC && !is_sound(world, &head)) return RLX_OK;
    switch ((rlx_net_kind)head.kind) {
    case RLX_NET_PUT:
        return take_put(world, from, &head, data);
    case RLX_NET_GET:
        return take_get(world, from, &head);
    case RLX_NET_ATOMIC:
        return answer(world, from, head.number, apply_word(world, &head), NULL, 0);
    case RLX_NET_ANSWER:
        take_answer(world, &head, data);
        break;
    case RLX_NET_LEFT:
        world->peers[from].has_left = true;
        world->peers[from].left_ns = rlx_now_ns();
        break;
    case RLX_NET_FAILED:
        if (head.value >> 48 < RLX_FAILURE_GONE || head.value >> 48 > RLX_FAILURE_REFUSED) break;
        if (world->failure == 0) world->failure = head.value;
        world->messenger->mark_failed(world->messenger->context);
        break;
    default:
        break;
    }
    return RLX_OK;
}

/* Large data that is under way for others. */
static rlx_status look_at_busy(rlx_net_world *world) {
    const rlx_messenger *messenger = world->messenger;
    for (uint32_t i = 0; world->busy != 0 && i < world->rank_count; ++i) {
        rlx_net_peer *peer = &world->peers[i];
        bool is_done = false;
        if (peer->incoming.words[1] != 0) {
            int code = messenger->test(messenger->context, &peer->incoming, &is_done, NULL, NULL);
            RLX_TRY(rlx_net_judge(world, code, i, RLX_CALL_BARRIER));
            if (is_done) {
                world->busy--;
                RLX_TRY(finish_put(world, i, &peer->put_head));
            }
        }
        if (peer->outgoing.words[1] != 0) {
            int code = messenger->test(messenger->context, &peer->outgoing, &is_done, NULL, NULL);
            RLX_TRY(rlx_net_judge(world, code, i, RLX_CALL_BARRIER));
            if (is_done) world->busy--;
        }
    }
    return RLX_OK;
}

rlx_status rlx_net_progress(rlx_net_world *world) {
    const rlx_messenger *messenger = world->messenger;
    for (;;) {
        uint32_t index = world->next_room, from = 0;
        uint64_t bytes = 0;
        bool is_done = false;
        int code =
            messenger->test(messenger->context, &world->receives[index], &is_done, &from, &bytes);
        RLX_TRY(rlx_net_judge(world, code, world->rank, RLX_CALL_BARRIER));
        if (!is_done) break;
        if (from < world->rank_count) {
            RLX_TRY(take_request(world, from, rlx_net_room(world->rooms, index), bytes));
        }
        RLX_TRY(rlx_net_judge(world, post_room(world, index), from, RLX_CALL_BARRIER));
        world->next_room = (index + 1) % RLX_NET_ROOMS;
    }
    if (world->busy != 0) RLX_TRY(look_at_busy(world));
    return rlx_net_failure(world);
}

/* waiting -------------------------------------------------------------------------------------- */

static void nap(uint32_t rounds) {
    struct timespec time = {.tv_nsec = first_nap_ns};
    for (; rounds > 0 && time.tv_nsec < longest_nap_ns; --rounds)
        time.tv_nsec *= 2;
    if (time.tv_nsec > longest_nap_ns) time.tv_nsec = longest_nap_ns;
    nanosleep(&time, NULL);
}

/* Who ended without a word has died. Those who wait look now and then, and tell the others. */
static rlx_status check_alive(rlx_net_world *world, uint64_t now, uint32_t call) {
    if (now - world->watched_ns < watch_every_ns) return RLX_OK;
    world->watched_ns = now;
    for (uint32_t i = 0; i < world->rank_count; ++i) {
        rlx_net_peer *peer = &world->peers[i];
        if (peer->process == 0 || peer->has_left) continue;
        if (!rlx_watch_is_gone(&peer->watch, peer->process)) continue;
        if (peer->gone_ns == 0) peer->gone_ns = now;
        if (now - peer->gone_ns >= gone_grace_ns) return fail(world, RLX_FAILURE_GONE, i, call);
    }
    return RLX_OK;
}

rlx_status rlx_net_be_patient(rlx_net_world *world, rlx_net_patience *patience, uint64_t timeout_ns,
                              uint32_t peer, uint32_t call) {
    uint32_t round = patience->rounds++;
    uint64_t now, waited;
    RLX_TRY(rlx_net_progress(world));
    if (round == 0) patience->start_ns = rlx_now_ns();
    if (round < SPIN_ROUNDS && !world->shares_processors) return RLX_OK;
    now = rlx_now_ns();
    waited = now - patience->start_ns;
    if (peer < world->rank_count && world->peers[peer].has_left &&
        now - world->peers[peer].left_ns >= left_grace_ns) {
        return fail(world, RLX_FAILURE_LEFT, peer, call);
    }
    if (waited >= timeout_ns) {
        return peer < world->rank_count ? fail(world, RLX_FAILURE_LATE, peer, call) : RLX_TIMEOUT;
    }
    if (waited < YIELD_NS) {
        sched_yield();
    } else {
        RLX_TRY(check_alive(world, now, call));
        nap((uint32_t)((waited - YIELD_NS) / YIELD_NS));
    }
    return RLX_OK;
}

rlx_status rlx_net_await(rlx_net_world *world, rlx_message *message, uint64_t timeout_ns,
                         uint32_t peer, uint32_t call) {
    const rlx_messenger *messenger = world->messenger;
    rlx_net_patience patience = {0};
    for (uint32_t look = 1;; ++look) {
        bool is_done = false;
        int code = messenger->test(messenger->context, message, &is_done, NULL, NULL);
        RLX_TRY(rlx_net_judge(world, code, peer, call));
        if (is_done) return RLX_OK;
        /* A look at requests costs as much as one at the message: at first it is the rarer one. */
        if (!world->shares_processors && look < SPIN_ROUNDS && look % LOOKS_PER_ROUND != 0)
            continue;
        RLX_TRY(rlx_net_be_patient(world, &patience, timeout_ns, peer, call));
    }
}
