/* SPDX-License-Identifier: Apache-2.0 */
/* Layout rows: every element has a place of its own, the rest is padding, and hand-counted places
 * of the rows that kernels are written for. */
#include "support/support.h"

#include "ir/layout.h"
#include "ir/type.h"

#include <stdlib.h>

#define I64S(...) ((int64_t[]){__VA_ARGS__})

static int64_t place_in(rlx_layout layout, uint32_t rank, const int64_t *dims,
                        const int64_t *index) {
    rlx_layout_map map;
    assert_ok(rlx_layout_map_make(layout, rank, dims, &map));
    return rlx_layout_offset(&map, index);
}

static bool next_index(uint32_t rank, const int64_t *dims, int64_t *index) {
    for (uint32_t i = rank; i-- > 0;) {
        if (++index[i] < dims[i]) return true;
        index[i] = 0;
    }
    return false;
}

/* Visits every element; `seen` has one byte per place. */
static int64_t visit(const rlx_layout_map *map, uint8_t *seen) {
    int64_t index[RLX_MAX_RANK] = {0}, back[RLX_MAX_RANK], count = 0;
    do {
        int64_t at = rlx_layout_offset(map, index);
        assert_true(at >= 0 && at < map->elements);
        assert_int_equal(seen[at], 0);
        seen[at] = 1;
        assert_true(rlx_layout_index(map, at, back));
        assert_memory_equal(index, back, map->rank * sizeof *index);
        count++;
    } while (next_index(map->rank, map->dims, index));
    return count;
}

static void every_element_has_a_place_and_the_rest_is_padding(void **state) {
    (void)state;
    for (uint32_t layout = 0; layout < RLX_LAYOUT_COUNT; layout++) {
        const int64_t shapes[][4] = {{1, 1, 1, 1}, {2, 3, 5, 7}, {3, 16, 8, 32}, {2, 17, 33, 9}};
        for (uint32_t s = 0; s < 4; s++) {
            for (uint32_t rank = 2; rank <= 4; rank++) {
                rlx_layout_map map;
                int64_t back[RLX_MAX_RANK], padding = 0;
                rlx_status status = rlx_layout_map_make((rlx_layout)layout, rank, shapes[s], &map);
                if (status == RLX_UNSUPPORTED) continue;
                assert_ok(status);
                uint8_t *seen = calloc((size_t)map.elements, 1);
                assert_non_null(seen);
                int64_t count = visit(&map, seen);
                for (int64_t at = 0; at < map.elements; at++) {
                    assert_int_equal(seen[at], rlx_layout_index(&map, at, back));
                    padding += !seen[at];
                }
                assert_int_equal(count + padding, map.elements);
                free(seen);
            }
        }
    }
}

static void places_are_as_kernels_read_them(void **state) {
    (void)state;
    /* [K][N] = [5][20]: panel n / 16, then k, then n % 16. */
    assert_int_equal(place_in(RLX_LAYOUT_COLUMNS16, 2, I64S(5, 20), I64S(3, 18)), 80 + 3 * 16 + 2);
    /* [N][K] transposed, k in pairs: 3 pairs of 5. */
    assert_int_equal(place_in(RLX_LAYOUT_ROWS16X2, 2, I64S(20, 5), I64S(18, 3)),
                     16 * 6 + 1 * 32 + 2 * 2 + 1);
    /* Batches one after the other. */
    assert_int_equal(place_in(RLX_LAYOUT_COLUMNS32X4, 3, I64S(2, 6, 40), I64S(1, 5, 33)),
                     64 * 8 + 32 * 8 + 1 * 128 + 1 * 4 + 1);
    /* [B][K][N] = [2][5][3]: column by column. */
    assert_int_equal(place_in(RLX_LAYOUT_TURNED, 3, I64S(2, 5, 3), I64S(1, 4, 2)), 15 + 2 * 5 + 4);
    /* [N][C][H][W] = [2][11][3][4]: 2 blocks of 8. */
    assert_int_equal(place_in(RLX_LAYOUT_CHANNELS8, 4, I64S(2, 11, 3, 4), I64S(1, 9, 2, 1)),
                     2 * 12 * 8 + 12 * 8 + 9 * 8 + 1);
}

static void bytes_count_padding(void **state) {
    uint64_t bytes;
    (void)state;
    assert_ok(rlx_layout_bytes(RLX_LAYOUT_COLUMNS16, RLX_DTYPE_F32, 2, I64S(5, 20), &bytes));
    assert_int_equal(bytes, 5 * 32 * 4);
    assert_ok(rlx_layout_bytes(RLX_LAYOUT_COLUMNS16, RLX_DTYPE_F32, 2, I64S(0, 20), &bytes));
    assert_int_equal(bytes, 0);
    rlx_type type = rlx_type_make(RLX_DTYPE_I8, I64S(20, 5), 2);
    type.layout = RLX_LAYOUT_ROWS16X2;
    assert_ok(rlx_type_bytes(&type, &bytes));
    assert_int_equal(bytes, 32 * 6);
}

static void what_does_not_fit_is_refused(void **state) {
    uint64_t bytes;
    int64_t huge[] = {INT64_C(1) << 32, INT64_C(1) << 31};
    (void)state;
    assert_status(RLX_UNSUPPORTED,
                  rlx_layout_bytes(RLX_LAYOUT_COLUMNS16, RLX_DTYPE_F32, 1, I64S(5), &bytes));
    assert_error_has("layout columns16 does not fit a rank of 1");
    assert_status(RLX_UNSUPPORTED,
                  rlx_layout_bytes((rlx_layout)99, RLX_DTYPE_F32, 2, I64S(5, 5), &bytes));
    assert_status(RLX_UNSUPPORTED,
                  rlx_layout_bytes(RLX_LAYOUT_ROWS16, RLX_DTYPE_Q4_0, 2, I64S(32, 32), &bytes));
    assert_status(RLX_OUT_OF_BOUNDS,
                  rlx_layout_bytes(RLX_LAYOUT_COLUMNS16, RLX_DTYPE_F32, 2, huge, &bytes));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_has_a_place_and_the_rest_is_padding),
        cmocka_unit_test(places_are_as_kernels_read_them),
        cmocka_unit_test(bytes_count_padding),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
