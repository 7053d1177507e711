/* SPDX-License-Identifier: Apache-2.0 */
/* The placer from outside: results, reports, errors, limits, allocation failures. */
#include "instances.h"

enum { MANY = 400 };

static void nothing_takes_no_memory(void **state) {
    (void)state;
    const rlx_place_item items[] = {{3, 3, 10}, {7, 2, 10}, {0, 9, 0}};
    uint64_t offsets[] = {1, 1, 1};
    rlx_place_report report;
    assert_ok(rlx_place(NULL, NULL, 0, NULL, NULL, &report));
    assert_true(report.peak == 0 && report.fits && report.is_optimal);
    assert_ok(rlx_place(NULL, items, 3, NULL, offsets, &report));
    assert_true(offsets[0] == 0 && offsets[1] == 0 && offsets[2] == 0 && report.peak == 0);
}

static void buffers_of_other_times_share_memory(void **state) {
    (void)state;
    const rlx_place_item items[] = {{0, 5, 100}, {5, 9, 70}, {2, 7, 30}, {0, 0, 5}};
    uint64_t offsets[4], bound = 0, time = 0;
    rlx_place_report report;
    assert_ok(rlx_place(NULL, items, 4, NULL, offsets, &report));
    assert_ok(rlx_place_verify(NULL, items, 4, offsets, 1, 130));
    assert_int_equal(130, report.peak);
    assert_int_equal(200, report.sum_bytes);
    assert_int_equal(2, report.peak_time);
    assert_true(report.is_optimal && report.fits);
    assert_ok(rlx_place_lower_bound(NULL, items, 4, 0, &bound, &time));
    assert_int_equal(130, bound);
    assert_int_equal(2, time);
}

static void the_top_buffer_needs_no_padding(void **state) {
    (void)state;
    const rlx_place_item items[] = {{0, 5, 65}, {0, 5, 10}, {3, 9, 1}};
    rlx_place_options options = {.alignment = 64};
    uint64_t offsets[3], bound = 0;
    rlx_place_report report;
    assert_ok(rlx_place_lower_bound(NULL, items, 3, 64, &bound, NULL));
    assert_int_equal(128 + 64 + 1, bound);
    assert_ok(rlx_place(NULL, items, 3, &options, offsets, &report));
    assert_ok(rlx_place_verify(NULL, items, 3, offsets, 64, bound));
    assert_int_equal(bound, report.peak);
}

static uint64_t slow_lower_bound(const rlx_place_item *items, uint32_t count, uint64_t alignment) {
    uint64_t best = 0;
    for (uint32_t at = 0; at < count; ++at) {
        uint64_t sum = 0, padding = 0;
        for (uint32_t i = 0; i < count; ++i) {
            if (items[i].lower > items[at].lower || items[i].upper <= items[at].lower) continue;
            uint64_t padded = (items[i].bytes + alignment - 1) / alignment * alignment;
            sum += padded;
            if (padded - items[i].bytes > padding) padding = padded - items[i].bytes;
        }
        if (sum - padding > best) best = sum - padding;
    }
    return best;
}

static void plans_are_valid_and_reports_true(void **state) {
    (void)state;
    static rlx_place_item items[MANY];
    static uint64_t offsets[MANY];
    rlx_test_random random = rlx_test_seed(11);
    for (uint32_t round = 0; round < 60; ++round) {
        uint32_t count = 1 + (uint32_t)rlx_test_below(&random, round < 50 ? 60 : MANY);
        rlx_place_options options = {.alignment = (uint64_t)1 << rlx_test_below(&random, 8)};
        rlx_place_report report;
        uint64_t longest = 1 + rlx_test_below(&random, 200);
        random_items(&random, items, count, 1 + rlx_test_below(&random, 300), longest, 5000);
        assert_ok(rlx_place(NULL, items, count, &options, offsets, &report));
        assert_ok(rlx_place_verify(NULL, items, count, offsets, options.alignment, report.peak));
        assert_int_equal(peak_of(items, count, offsets), report.peak);
        assert_int_equal(slow_lower_bound(items, count, options.alignment), report.lower_bound);
        assert_true(report.peak >= report.lower_bound && report.method[0] != 0);
    }
}

static void the_same_input_gives_the_same_offsets(void **state) {
    (void)state;
    static rlx_place_item items[MANY];
    static uint64_t first[MANY], second[MANY];
    rlx_test_random random = rlx_test_seed(12);
    for (uint32_t round = 0; round < 4; ++round) {
        random_items(&random, items, MANY, 200, 60, 1 << 16);
        assert_ok(rlx_place(NULL, items, MANY, NULL, first, NULL));
        assert_ok(rlx_place(NULL, items, MANY, NULL, second, NULL));
        assert_memory_equal(first, second, sizeof first);
    }
}

static void a_missed_capacity_says_by_how_much_and_when(void **state) {
    (void)state;
    const rlx_place_item items[] = {{0, 5, 100}, {5, 9, 70}, {2, 7, 30}};
    rlx_place_options options = {.capacity = 129};
    uint64_t offsets[3] = {9, 9, 9};
    rlx_place_report report;
    assert_status(RLX_DOES_NOT_FIT, rlx_place(NULL, items, 3, &options, offsets, &report));
    assert_error_has("no plan can fit: peak 130 is 1 bytes over the capacity 129");
    assert_error_has("time 2");
    assert_int_equal(130, rlx_last_error_detail()->got);
    assert_int_equal(129, rlx_last_error_detail()->limit);
    assert_int_equal(1, rlx_last_error_detail()->bytes);
    assert_false(report.fits);
    assert_ok(rlx_place_verify(NULL, items, 3, offsets, 1, report.peak));
    options.capacity = 130;
    assert_ok(rlx_place(NULL, items, 3, &options, offsets, &report));
    assert_true(report.fits);
}

static void sizes_past_63_bits_are_refused(void **state) {
    (void)state;
    const uint64_t half = (uint64_t)1 << 62;
    rlx_place_item items[] = {{0, 5, half}, {7, 9, half - 1}, {1, 2, 1}};
    rlx_place_options options = {.alignment = (uint64_t)1 << 63};
    uint64_t offsets[3] = {5, 5, 5}, bound = 0;
    assert_status(RLX_OUT_OF_BOUNDS, rlx_place(NULL, items, 3, NULL, offsets, NULL));
    assert_error_has("buffer 2");
    assert_true(offsets[0] == 5 && offsets[2] == 5);
    assert_status(RLX_OUT_OF_BOUNDS, rlx_place_lower_bound(NULL, items, 3, 1, &bound, NULL));
    assert_ok(rlx_place(NULL, items, 2, NULL, offsets, NULL));
    assert_status(RLX_OUT_OF_BOUNDS, rlx_place(NULL, items, 2, &options, offsets, NULL));
    items[0].bytes = UINT64_MAX;
    options.alignment = 64;
    assert_status(RLX_OUT_OF_BOUNDS, rlx_place(NULL, items, 1, &options, offsets, NULL));
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    const rlx_place_item items[] = {{0, 5, 100}};
    rlx_place_options options = {.alignment = 3};
    uint64_t offsets[1];
    assert_status(RLX_INVALID_ARGUMENT, rlx_place(NULL, items, 1, &options, offsets, NULL));
    assert_error_has("alignment 3");
    assert_status(RLX_INVALID_ARGUMENT, rlx_place(NULL, NULL, 1, NULL, offsets, NULL));
    assert_status(RLX_INVALID_ARGUMENT, rlx_place(NULL, items, 1, NULL, NULL, NULL));
    options = (rlx_place_options){.size = 8};
    assert_status(RLX_INVALID_ARGUMENT, rlx_place(NULL, items, 1, &options, offsets, NULL));
    assert_status(RLX_INVALID_ARGUMENT, rlx_place_lower_bound(NULL, items, 1, 1, NULL, NULL));
}

static void times_may_be_huge(void **state) {
    (void)state;
    const rlx_place_item items[] = {
        {0, UINT64_MAX, 10}, {UINT64_MAX - 1, UINT64_MAX, 7}, {0, 1, 7}, {5, UINT64_MAX - 1, 7}};
    uint64_t offsets[4];
    rlx_place_report report;
    assert_ok(rlx_place(NULL, items, 4, NULL, offsets, &report));
    assert_ok(rlx_place_verify(NULL, items, 4, offsets, 1, 17));
    assert_int_equal(17, report.peak);
}

typedef struct watch {
    uint32_t stop_calls, progress_calls;
    uint64_t last_peak;
    bool was_worse; /* a later report had a larger peak */
} watch;

static bool stop_soon(void *user) {
    watch *self = user;
    return ++self->stop_calls > 20;
}

static void note_progress(void *user, uint64_t best_peak, double seconds) {
    watch *self = user;
    if (self->progress_calls++ != 0 && best_peak > self->last_peak) self->was_worse = true;
    if (seconds < 0.0) self->was_worse = true;
    self->last_peak = best_peak;
}

static void a_search_can_be_stopped_and_reports_progress(void **state) {
    (void)state;
    static rlx_place_item items[MANY];
    static uint64_t offsets[MANY];
    watch seen = {0};
    rlx_place_report report;
    rlx_place_options options = {
        .search_ns = UINT64_MAX, .stop = stop_soon, .progress = note_progress, .user = &seen};
    rlx_test_random random = rlx_test_seed(13);
    cut_items(&random, items, MANY, 100000);
    items[0].bytes += 1; /* no plan without holes any more */
    assert_ok(rlx_place(NULL, items, MANY, &options, offsets, &report));
    assert_ok(rlx_place_verify(NULL, items, MANY, offsets, 1, report.peak));
    assert_true(report.is_optimal || seen.stop_calls > 20);
    assert_false(seen.was_worse);
}

static rlx_status place_cut(const rlx_allocator *allocator, void *argument) {
    enum { COUNT = 150 };
    rlx_place_item items[COUNT];
    uint64_t offsets[COUNT];
    watch seen = {0};
    rlx_place_options options = {
        .search_ns = *(const uint64_t *)argument, .stop = stop_soon, .user = &seen};
    rlx_test_random random = rlx_test_seed(14);
    rlx_place_report report;
    cut_items(&random, items, COUNT, 4096);
    return rlx_place(allocator, items, COUNT, &options, offsets, &report);
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    uint64_t search_ns[] = {0, UINT64_MAX};
    assert_true(rlx_test_every_allocation_fails(place_cut, &search_ns[0]) > 10);
    assert_true(rlx_test_every_allocation_fails(place_cut, &search_ns[1]) > 10);
}

/* Proofs near the best plan cost nothing: rounds of them once went on for ever. */
static void a_capacity_that_is_nearly_possible_is_given_up(void **state) {
    (void)state;
    const rlx_place_item items[] = {
        {0, 24, 4214784},    {0, 32, 2109440},    {0, 56, 4214784},    {0, 64, 2109440},
        {0, 88, 4214784},    {24, 96, 2109440},   {32, 120, 4214784},  {56, 128, 2109440},
        {64, 152, 4214784},  {88, 160, 2109440},  {96, 184, 4214784},  {120, 192, 2109440},
        {128, 216, 4214784}, {152, 224, 2109440}, {160, 244, 4210688}, {184, 256, 3162112}};
    enum { COUNT = sizeof items / sizeof *items };
    rlx_place_options options = {.alignment = 4096, .capacity = 17039360};
    uint64_t offsets[COUNT];
    rlx_place_report report;
    assert_status(RLX_DOES_NOT_FIT, rlx_place(NULL, items, COUNT, &options, offsets, &report));
    assert_ok(rlx_place_verify(NULL, items, COUNT, offsets, 4096, report.peak));
    options.search_ns = 50000000;
    assert_status(RLX_DOES_NOT_FIT, rlx_place(NULL, items, COUNT, &options, offsets, &report));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_takes_no_memory),
        cmocka_unit_test(buffers_of_other_times_share_memory),
        cmocka_unit_test(the_top_buffer_needs_no_padding),
        cmocka_unit_test(plans_are_valid_and_reports_true),
        cmocka_unit_test(the_same_input_gives_the_same_offsets),
        cmocka_unit_test(a_missed_capacity_says_by_how_much_and_when),
        cmocka_unit_test(sizes_past_63_bits_are_refused),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(times_may_be_huge),
        cmocka_unit_test(a_capacity_that_is_nearly_possible_is_given_up),
        cmocka_unit_test(a_search_can_be_stopped_and_reports_progress),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
