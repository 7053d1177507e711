/* SPDX-License-Identifier: Apache-2.0 */
/* Static memory placement: gives every buffer that lives for a known stretch of time an offset in
 * one arena, so that no two buffers that are alive together overlap. The compiler's memory pass and
 * `rlx place` stand on it; it knows nothing of graphs, plans or devices. */
#ifndef RLX_PLACE_H
#define RLX_PLACE_H

#include <rlx/base.h>

RLX_BEGIN_DECLS

/* A buffer of `bytes` bytes, alive at the times lower <= t < upper. With bytes 0 or an empty time
 * range it takes no memory and gets offset 0. */
typedef struct rlx_place_item {
    uint64_t lower;
    uint64_t upper;
    uint64_t bytes;
} rlx_place_item;

/* A zeroed struct, or NULL in its place, asks for the default: the best of many greedy orders plus
 * a small repair search, bounded by work done and not by the clock, so the same input always gives
 * the same offsets. */
typedef struct rlx_place_options {
    uint64_t size;      /* sizeof(rlx_place_options); 0 stands for it */
    uint64_t alignment; /* every offset is a multiple of it: a power of two; 0 means 1 */
    uint64_t capacity;  /* 0: make the peak small. Else: stop at the first plan that fits in it */
    uint64_t search_ns; /* time limit of the exact search after the default has run; 0: no search.
                         * Offsets found under a time limit may differ from run to run. */
    /* Asked every few milliseconds while searching; true ends the search with the best plan so far.
     * May be NULL. */
    bool (*stop)(void *user);
    /* Told about each better plan, and a few times a second while searching. May be NULL. */
    void (*progress)(void *user, uint64_t best_peak, double seconds);
    void *user;
} rlx_place_options;

typedef struct rlx_place_report {
    uint64_t peak;        /* bytes the arena needs: largest offset + bytes */
    uint64_t lower_bound; /* no plan has a smaller peak than this */
    uint64_t sum_bytes;   /* without any reuse */
    uint64_t peak_time;   /* first time at which the most bytes are alive */
    uint64_t elapsed_ns;
    const char *method; /* what found the plan, "size/first-fit", "search"; static text */
    bool is_optimal; /* the peak is proven minimal (it equals lower_bound, or the search ended) */
    bool fits;       /* peak <= capacity, or no capacity was given */
} rlx_place_report;

/* Writes `count` offsets. `items` is borrowed for the call; `out_report` may be NULL. Runs on the
 * calling thread; any number of threads may place at once.
 *
 * RLX_INVALID_ARGUMENT: alignment is no power of two, a required pointer is NULL;
 * RLX_OUT_OF_BOUNDS: the aligned sizes of all buffers together do not fit in 63 bits;
 * RLX_OUT_OF_MEMORY. On these nothing is written. RLX_DOES_NOT_FIT: no plan within the capacity was
 * found in the given time. Offsets and report of the best plan are written all the same; the text
 * says by how much it misses and at which time the peak is, and whether no plan can exist; detail:
 * got = peak, limit = capacity, expected = lower bound, bytes = how many too many. */
RLX_CALL rlx_status rlx_place(const rlx_allocator *allocator, const rlx_place_item *items,
                              uint32_t count, const rlx_place_options *options,
                              uint64_t *out_offsets, rlx_place_report *out_report);

/* Proves a plan: offsets aligned, no wrap, everything below `capacity` (0: no limit), no two live
 * buffers overlap. Shares no code with rlx_place. alignment 0 means 1.
 * RLX_INVALID_ARGUMENT, RLX_OUT_OF_MEMORY, RLX_OUT_OF_BOUNDS (wraps or ends past the capacity),
 * RLX_INVALID_PLAN (unaligned or overlapping); the text names the buffers by index. */
RLX_CALL rlx_status rlx_place_verify(const rlx_allocator *allocator, const rlx_place_item *items,
                                     uint32_t count, const uint64_t *offsets, uint64_t alignment,
                                     uint64_t capacity);

/* The largest sum of bytes alive at one time, each buffer rounded up so that its neighbour can be
 * aligned (the one on top is not rounded), and the first time at which it is reached.
 * `out_peak_time` may be NULL. RLX_INVALID_ARGUMENT, RLX_OUT_OF_BOUNDS, RLX_OUT_OF_MEMORY. */
RLX_CALL rlx_status rlx_place_lower_bound(const rlx_allocator *allocator,
                                          const rlx_place_item *items, uint32_t count,
                                          uint64_t alignment, uint64_t *out_bytes,
                                          uint64_t *out_peak_time);

RLX_END_DECLS

#endif
