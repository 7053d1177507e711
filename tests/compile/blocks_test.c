/* SPDX-License-Identifier: Apache-2.0 */
/* Placed buffers on a device with blocks: none lies across a border, none that live together
 * overlap, and nothing is moved that need not be. */
#include "compile/emit.h"
#include "support/support.h"

#include <stdlib.h>

enum { MOST = 40000, ALIGNMENT = 64, FIRST = 64 };

static rlx_place_item items[MOST];
static uint64_t offsets[MOST], placed[MOST];

static uint64_t next_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static rlx_block_items make(uint32_t count, uint64_t block_bytes) {
    return (rlx_block_items){items, offsets, count, block_bytes, ALIGNMENT, FIRST, false};
}

/* Random buffers, placed; returns their peak. */
static uint64_t place(uint32_t count, uint32_t times, uint64_t most_bytes, uint64_t seed) {
    const rlx_place_options options = {.size = sizeof options, .alignment = ALIGNMENT};
    rlx_place_report report;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t lower = next_random(&seed) % times;
        items[i] = (rlx_place_item){lower, lower + 1 + next_random(&seed) % (times - lower),
                                    next_random(&seed) % most_bytes};
    }
    assert_ok(rlx_place(NULL, items, count, &options, offsets, &report));
    for (uint32_t i = 0; i < count; i++)
        placed[i] = offsets[i] += FIRST;
    return report.peak + FIRST;
}

static void check(uint32_t count, uint64_t block_bytes, uint64_t peak) {
    assert_ok(rlx_place_verify(NULL, items, count, offsets, ALIGNMENT, peak));
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].bytes == 0) continue;
        uint64_t last = offsets[i] + items[i].bytes - 1;
        assert_int_equal(offsets[i] / block_bytes, last / block_bytes);
        assert_true(offsets[i] >= FIRST && last < peak);
    }
}

static void nothing_lies_across_a_border(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) {
        uint64_t peak = place(120, 30, 1000, seed);
        const rlx_block_items blocks = make(120, 1024 + 64 * (seed % 7));
        rlx_scratch scratch = {0};
        assert_ok(rlx_blocks_keep(&blocks, &scratch, &peak));
        check(120, blocks.block_bytes, peak);
        rlx_scratch_reset(&scratch);
    }
}

/* The rule spelled out: each stands on what stood below it and lives with it. */
static void each_stands_on_what_stood_below_it(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) {
        uint64_t peak = place(60, 20, 500, seed);
        const rlx_block_items blocks = make(60, 640);
        rlx_scratch scratch = {0};
        assert_ok(rlx_blocks_keep(&blocks, &scratch, &peak));
        for (uint32_t i = 0; i < 60; i++) {
            uint64_t expected = FIRST;
            if (items[i].bytes == 0) continue;
            for (uint32_t k = 0; k < 60; k++) {
                bool is_below = placed[k] < placed[i] || (placed[k] == placed[i] && k < i);
                uint64_t end =
                    (offsets[k] + items[k].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
                bool is_with = items[k].lower < items[i].upper && items[i].lower < items[k].upper;
                if (is_below && is_with && items[k].bytes != 0 && end > expected) expected = end;
            }
            assert_ok(rlx_blocks_fit(640, items[i].bytes, &expected));
            assert_int_equal(offsets[i], expected);
        }
        rlx_scratch_reset(&scratch);
    }
}

static void memory_that_is_not_reused_is_a_row(void **state) {
    (void)state;
    rlx_scratch scratch = {0};
    uint64_t peak = FIRST;
    for (uint32_t i = 0; i < 100; i++) {
        items[i] = (rlx_place_item){i, i + 1, 100};
        offsets[i] = peak;
        peak += 128;
    }
    rlx_block_items blocks = make(100, 1024);
    blocks.is_shared_by_none = true;
    assert_ok(rlx_blocks_keep(&blocks, &scratch, &peak));
    for (uint32_t i = 1; i < 100; i++)
        assert_true(offsets[i] >= offsets[i - 1] + 100);
    check(100, 1024, peak);
    rlx_scratch_reset(&scratch);
}

/* Each against each would be 1.6 billion looks. */
static void forty_thousand_buffers_take_no_time(void **state) {
    (void)state;
    rlx_scratch scratch = {0};
    uint64_t peak = FIRST;
    for (uint32_t i = 0; i < MOST; i++) {
        items[i] = (rlx_place_item){i, i + 3, 640};
        offsets[i] = FIRST + 640 * (uint64_t)(i % 3);
    }
    peak = FIRST + 3 * 640;
    const rlx_block_items blocks = make(MOST, 1024);
    assert_ok(rlx_blocks_keep(&blocks, &scratch, &peak));
    check(MOST, 1024, peak);
    rlx_scratch_reset(&scratch);
}

static void sizes_past_64_bits_are_refused(void **state) {
    (void)state;
    const uint64_t half = UINT64_MAX / 2 + 1; /* the second block ends where numbers do */
    rlx_scratch scratch = {0};
    for (uint32_t i = 0; i < 3; i++) {
        items[i] = (rlx_place_item){0, 1, half - 128};
        offsets[i] = FIRST + i;
    }
    uint64_t peak = UINT64_MAX;
    rlx_block_items blocks = make(3, half);
    assert_status(RLX_OUT_OF_BOUNDS, rlx_blocks_keep(&blocks, &scratch, &peak));
    assert_error_has("2^64");
    blocks.count = 1;
    items[0].bytes = UINT64_MAX - 32; /* from 64 on it wraps */
    blocks.block_bytes = UINT64_MAX - 31;
    assert_status(RLX_OUT_OF_BOUNDS, rlx_blocks_keep(&blocks, &scratch, &peak));
    rlx_scratch_reset(&scratch);
}

static void a_buffer_larger_than_a_block_is_refused(void **state) {
    (void)state;
    rlx_scratch scratch = {0};
    items[0] = (rlx_place_item){0, 1, 2000};
    offsets[0] = FIRST;
    uint64_t peak = 2064;
    const rlx_block_items blocks = make(1, 1024);
    assert_status(RLX_DOES_NOT_FIT, rlx_blocks_keep(&blocks, &scratch, &peak));
    assert_error_has("2000 bytes");
    rlx_scratch_reset(&scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_lies_across_a_border),
        cmocka_unit_test(each_stands_on_what_stood_below_it),
        cmocka_unit_test(memory_that_is_not_reused_is_a_row),
        cmocka_unit_test(forty_thousand_buffers_take_no_time),
        cmocka_unit_test(sizes_past_64_bits_are_refused),
        cmocka_unit_test(a_buffer_larger_than_a_block_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
