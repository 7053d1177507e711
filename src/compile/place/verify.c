/* SPDX-License-Identifier: Apache-2.0 */
/* Proves a plan, and shares no code with what makes plans: a sweep over time keeps the live buffers
 * in a search tree by offset, where a new buffer only has to be compared with its two neighbours.
 */
#include <rlx/place.h>

#include "base/alloc.h"
#include "base/size.h"

/* A treap: a binary search tree by offset, a heap by priority. Index 0 is "none". */
typedef struct live_node {
    uint64_t offset, end;
    uint32_t left, right;
    uint32_t priority;
} live_node;

/* A buffer appears (is_start) or goes away. */
typedef struct event {
    uint64_t time;
    uint32_t item;
    bool is_start;
} event;

typedef struct sweep {
    const rlx_place_item *items;
    live_node *nodes; /* [count + 1]; node i + 1 is item i */
    uint32_t root;
} sweep;

/* At equal times ends come first: lives are half-open. */
static int compare_events(const event *a, const event *b) {
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    if (a->is_start != b->is_start) return a->is_start ? 1 : -1;
    return a->item < b->item ? -1 : a->item > b->item;
}

/* Heap sort: no memory, no recursion. */
static void sort_events(event *events, uint64_t count) {
    for (uint64_t pass = count / 2 + count; pass-- > 0;) {
        uint64_t length = count, at = pass - count;
        if (pass < count) {
            event last = events[pass];
            events[pass] = events[0];
            events[0] = last;
            length = pass;
            at = 0;
        }
        for (uint64_t child; (child = 2 * at + 1) < length; at = child) {
            if (child + 1 < length && compare_events(&events[child], &events[child + 1]) < 0)
                ++child;
            if (compare_events(&events[at], &events[child]) >= 0) break;
            event swap = events[at];
            events[at] = events[child];
            events[child] = swap;
        }
    }
}

/* Splits the tree into offsets below `offset` and the rest. */
static void split(live_node *nodes, uint32_t root, uint64_t offset, uint32_t *low, uint32_t *high) {
    while (root != 0) {
        if (nodes[root].offset < offset) {
            *low = root;
            low = &nodes[root].right;
            root = *low;
        } else {
            *high = root;
            high = &nodes[root].left;
            root = *high;
        }
    }
    *low = *high = 0;
}

static uint32_t join(live_node *nodes, uint32_t low, uint32_t high) {
    uint32_t root = 0, *link = &root;
    while (low != 0 && high != 0) {
        if (nodes[low].priority > nodes[high].priority) {
            *link = low;
            link = &nodes[low].right;
            low = *link;
        } else {
            *link = high;
            link = &nodes[high].left;
            high = *link;
        }
    }
    *link = low != 0 ? low : high;
    return root;
}

static rlx_status overlap(const sweep *self, uint32_t a, uint32_t b, uint64_t time) {
    const live_node *x = &self->nodes[a], *y = &self->nodes[b];
    return RLX_FAIL(RLX_INVALID_PLAN,
                    "buffers %" PRIu32 " at [%" PRIu64 ", %" PRIu64 ") and %" PRIu32 " at [%" PRIu64
                    ", %" PRIu64 ") overlap at time %" PRIu64,
                    a - 1, x->offset, x->end, b - 1, y->offset, y->end, time);
}

/* Adds a buffer unless it meets the one below or the one above. */
static rlx_status add_live(sweep *self, uint32_t node, uint64_t time) {
    live_node *nodes = self->nodes, *added = &nodes[node];
    uint32_t low = 0, high = 0, below, above;
    split(nodes, self->root, added->offset, &low, &high);
    for (below = low; below != 0 && nodes[below].right != 0;)
        below = nodes[below].right;
    for (above = high; above != 0 && nodes[above].left != 0;)
        above = nodes[above].left;
    if (below != 0 && nodes[below].end > added->offset) return overlap(self, below, node, time);
    if (above != 0 && nodes[above].offset < added->end) return overlap(self, node, above, time);
    added->left = added->right = 0;
    self->root = join(nodes, join(nodes, low, node), high);
    return RLX_OK;
}

static void remove_live(sweep *self, uint32_t node) {
    uint32_t *link = &self->root;
    while (*link != node) {
        live_node *at = &self->nodes[*link];
        link = self->nodes[node].offset < at->offset ? &at->left : &at->right;
    }
    *link = join(self->nodes, self->nodes[node].left, self->nodes[node].right);
}

static rlx_status check_bounds(const rlx_place_item *item, uint32_t index, uint64_t offset,
                               uint64_t alignment, uint64_t capacity) {
    uint64_t end = 0;
    if ((offset & (alignment - 1)) != 0) {
        return RLX_FAIL(RLX_INVALID_PLAN,
                        "buffer %" PRIu32 ": offset %" PRIu64 " is no multiple of %" PRIu64, index,
                        offset, alignment);
    }
    if (!rlx_add_u64(offset, item->bytes, &end)) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS,
                        "buffer %" PRIu32 ": offset %" PRIu64 " + bytes %" PRIu64 " wraps", index,
                        offset, item->bytes);
    }
    if (capacity != 0 && end > capacity) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS,
                        "buffer %" PRIu32 ": offset %" PRIu64 " + bytes %" PRIu64
                        " > capacity %" PRIu64,
                        index, offset, item->bytes, capacity);
    }
    return RLX_OK;
}

static rlx_status collect(sweep *self, uint32_t count, const uint64_t *offsets, uint64_t alignment,
                          uint64_t capacity, event *events, uint64_t *out_event_count) {
    uint64_t event_count = 0;
    uint32_t priority = 1;
    for (uint32_t i = 0; i < count; ++i) {
        const rlx_place_item *item = &self->items[i];
        if (item->bytes == 0 || item->lower >= item->upper) continue;
        RLX_TRY(check_bounds(item, i, offsets[i], alignment, capacity));
        priority = priority * 1664525u + 1013904223u;
        self->nodes[i + 1] = (live_node){
            .offset = offsets[i], .end = offsets[i] + item->bytes, .priority = priority};
        events[event_count++] = (event){item->lower, i, true};
        events[event_count++] = (event){item->upper, i, false};
    }
    *out_event_count = event_count;
    return RLX_OK;
}

static rlx_status run_sweep(sweep *self, const event *events, uint64_t event_count) {
    for (uint64_t k = 0; k < event_count; ++k) {
        if (events[k].is_start) {
            RLX_TRY(add_live(self, events[k].item + 1, events[k].time));
        } else {
            remove_live(self, events[k].item + 1);
        }
    }
    return RLX_OK;
}

rlx_status rlx_place_verify(const rlx_allocator *allocator, const rlx_place_item *items,
                            uint32_t count, const uint64_t *offsets, uint64_t alignment,
                            uint64_t capacity) {
    rlx_status status = RLX_OK;
    sweep self = {.items = items};
    event *events = NULL;
    uint64_t event_count = 0;

    if (count != 0 && (items == NULL || offsets == NULL)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "items or offsets are NULL");
    }
    if (alignment == 0) alignment = 1;
    if ((alignment & (alignment - 1)) != 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "alignment %" PRIu64 " is no power of two",
                        alignment);
    }
    status =
        rlx_alloc_array(allocator, (uint64_t)count + 1, sizeof *self.nodes, (void **)&self.nodes);
    if (status == RLX_OK) {
        status = rlx_alloc_array(allocator, 2 * (uint64_t)count, sizeof *events, (void **)&events);
    }
    if (status == RLX_OK) {
        status = collect(&self, count, offsets, alignment, capacity, events, &event_count);
    }
    if (status == RLX_OK) {
        sort_events(events, event_count);
        status = run_sweep(&self, events, event_count);
    }
    rlx_free(allocator, events);
    rlx_free(allocator, self.nodes);
    return status;
}
