/* SPDX-License-Identifier: Apache-2.0 */
/* The search against the true optimum of small problems, found by trying every order: some order,
 * placed at the lowest offset each, is optimal. Also against problems whose optimum is known. */
#include "instances.h"

enum { SMALL = 7, SEARCH_NS = 2000000000 };

typedef struct brute_force {
    const rlx_place_item *items;
    uint32_t count;
    uint64_t alignment;
    uint64_t offsets[SMALL];
    bool is_placed[SMALL];
    uint64_t best;
} brute_force;

static bool clash(const brute_force *self, uint32_t a, uint64_t offset, uint32_t b) {
    const rlx_place_item *x = &self->items[a], *y = &self->items[b];
    return self->is_placed[b] && x->lower < y->upper && y->lower < x->upper &&
           offset < self->offsets[b] + y->bytes && self->offsets[b] < offset + x->bytes;
}

static uint64_t lowest_offset(const brute_force *self, uint32_t item) {
    uint64_t offset = 0;
    for (uint32_t other = 0; other < self->count;) {
        if (clash(self, item, offset, other)) {
            uint64_t end = self->offsets[other] + self->items[other].bytes;
            offset = (end + self->alignment - 1) & ~(self->alignment - 1);
            other = 0;
        } else {
            ++other;
        }
    }
    return offset;
}

static void try_orders(brute_force *self, uint32_t placed, uint64_t peak) {
    if (peak >= self->best) return;
    if (placed == self->count) self->best = peak;
    for (uint32_t item = 0; item < self->count; ++item) {
        if (self->is_placed[item]) continue;
        uint64_t offset = lowest_offset(self, item);
        uint64_t end = offset + self->items[item].bytes;
        self->offsets[item] = offset;
        self->is_placed[item] = true;
        try_orders(self, placed + 1, end > peak ? end : peak);
        self->is_placed[item] = false;
    }
}

static uint64_t optimum(const rlx_place_item *items, uint32_t count, uint64_t alignment) {
    brute_force self = {.items = items, .count = count, .alignment = alignment, .best = UINT64_MAX};
    try_orders(&self, 0, 0);
    return self.best;
}

static void check_small(rlx_test_random *random, uint64_t alignment, uint64_t largest) {
    rlx_place_item items[SMALL];
    uint64_t offsets[SMALL];
    rlx_place_report report;
    uint32_t count = 1 + (uint32_t)rlx_test_below(random, SMALL);
    rlx_place_options options = {
        .size = sizeof options, .alignment = alignment, .search_ns = SEARCH_NS};
    random_items(random, items, count, 8, 6, largest);
    uint64_t best = optimum(items, count, alignment);

    assert_ok(rlx_place(NULL, items, count, &options, offsets, &report));
    assert_ok(rlx_place_verify(NULL, items, count, offsets, alignment, report.peak));
    assert_int_equal(best, report.peak);
    assert_true(report.is_optimal);
    assert_true(report.lower_bound <= best);

    options.capacity = best;
    assert_ok(rlx_place(NULL, items, count, &options, offsets, &report));
    assert_ok(rlx_place_verify(NULL, items, count, offsets, alignment, best));
    if (best == 1) return;
    options.capacity = best - 1;
    assert_status(RLX_DOES_NOT_FIT, rlx_place(NULL, items, count, &options, offsets, &report));
    assert_error_has("no plan can fit");
    assert_int_equal(best, report.peak);
}

static void the_search_finds_and_proves_the_optimum(void **state) {
    (void)state;
    rlx_test_random random = rlx_test_seed(1);
    for (uint32_t round = 0; round < 1500; ++round)
        check_small(&random, 1, 9);
}

static void alignment_does_not_cost_the_optimum(void **state) {
    (void)state;
    rlx_test_random random = rlx_test_seed(2);
    for (uint32_t round = 0; round < 700; ++round) {
        check_small(&random, (uint64_t)2 << rlx_test_below(&random, 4), 40);
    }
}

static void a_plan_without_holes_is_found(void **state) {
    (void)state;
    enum { COUNT = 60, SIDE = 1024 };
    rlx_place_item items[COUNT];
    uint64_t offsets[COUNT];
    rlx_place_report report;
    rlx_test_random random = rlx_test_seed(3);
    /* More time than any machine needs; the search ends when it fits. */
    rlx_place_options options = {.capacity = SIDE, .search_ns = 100u * (uint64_t)SEARCH_NS};
    for (uint32_t round = 0; round < 20; ++round) {
        cut_items(&random, items, COUNT, SIDE);
        assert_ok(rlx_place(NULL, items, COUNT, &options, offsets, &report));
        assert_ok(rlx_place_verify(NULL, items, COUNT, offsets, 1, SIDE));
        assert_true(report.fits && report.peak <= SIDE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_search_finds_and_proves_the_optimum),
        cmocka_unit_test(alignment_does_not_cost_the_optimum),
        cmocka_unit_test(a_plan_without_holes_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
