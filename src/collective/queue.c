/* SPDX-License-Identifier: Apache-2.0 */
/* Started collectives: see queue.h. */
#include "collective/queue.h"

rlx_status rlx_queue_create(const rlx_allocator *allocator, const rlx_queue_steps *steps,
                            rlx_call_queue *out_queue) {
    out_queue->steps = steps;
    return rlx_alloc_array(allocator, RLX_PENDING_MOST, sizeof *out_queue->items,
                           (void **)&out_queue->items);
}

void rlx_queue_release(const rlx_allocator *allocator, rlx_call_queue *queue) {
    rlx_free(allocator, queue->items);
}

static rlx_pending *item_at(const rlx_call_queue *queue, uint32_t index) {
    return &queue->items[(queue->first + index) % RLX_PENDING_MOST];
}

static void finish_item(rlx_call_queue *queue, rlx_transport *base, rlx_pending *item) {
    if (!queue->is_posted) queue->steps->post(base, &item->call);
    item->status = queue->steps->finish(base, &item->call);
    item->is_done = true;
    if (item->status != RLX_OK) rlx_error_save(&item->record);
}

void rlx_queue_drain(rlx_call_queue *queue, rlx_transport *base, uint64_t token) {
    for (uint32_t i = 0; i < queue->count; ++i) {
        rlx_pending *item = item_at(queue, i);
        if (item->token > token) return;
        if (!item->is_done) finish_item(queue, base, item);
    }
}

static void post_next(rlx_call_queue *queue, rlx_transport *base) {
    for (uint32_t i = 0; i < queue->count && !queue->is_posted; ++i) {
        rlx_pending *item = item_at(queue, i);
        if (!item->is_done) queue->steps->post(base, &item->call);
    }
}

rlx_status rlx_queue_start(rlx_call_queue *queue, rlx_transport *base,
                           const rlx_collective_call *call, uint64_t *out_token) {
    rlx_pending *item;
    if (queue->count == RLX_PENDING_MOST) {
        return RLX_FAIL(RLX_BUSY, "%d collectives are under way and were not waited for",
                        RLX_PENDING_MOST);
    }
    item = item_at(queue, queue->count++);
    item->call = *call;
    item->is_done = false;
    item->token = *out_token = ++queue->tokens;
    post_next(queue, base);
    return RLX_OK;
}

/* Takes an item out; those before it move up. */
static void forget(rlx_call_queue *queue, uint32_t index) {
    for (; index > 0; --index)
        *item_at(queue, index) = *item_at(queue, index - 1);
    queue->first = (queue->first + 1) % RLX_PENDING_MOST;
    queue->count--;
}

rlx_status rlx_queue_wait(rlx_call_queue *queue, rlx_transport *base, uint64_t token) {
    for (uint32_t i = 0; i < queue->count; ++i) {
        rlx_pending *item = item_at(queue, i);
        rlx_status status;
        if (item->token != token) continue;
        rlx_queue_drain(queue, base, token);
        status = item->status;
        if (status != RLX_OK) rlx_error_restore(&item->record);
        forget(queue, i);
        if (status == RLX_OK || status == RLX_MISMATCH) post_next(queue, base);
        return status;
    }
    return RLX_FAIL(RLX_NOT_FOUND, "collective %" PRIu64 " was never started, or waited for before",
                    token);
}
