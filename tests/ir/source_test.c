/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of parameters, the seeded ones above all: same bits everywhere, any part alone. */
#include "ir/dtype.h"
#include "ir/source.h"
#include "support/support.h"

#include <rlx/graph.h>

#include <math.h>

static void seeded_values_are_the_same_on_every_machine(void **state) {
    (void)state;
    double values[4];
    const double expected[4] = {0x1.c5a614bbf55e4p-2, 0x1.32982fe99c764p-2, 0x1.947976d94c620p-4,
                                0x1.aaf21d8296e18p-3};
    assert_ok(rlx_source_fill_seeded(7, 0, 1, RLX_DTYPE_F64, 0, 4, values));
    assert_memory_equal(expected, values, sizeof expected);
}

static void any_part_can_be_made_alone(void **state) {
    (void)state;
    for (uint32_t dtype = 0; dtype < RLX_DTYPE_COUNT; dtype++) {
        const rlx_dtype_row *row = rlx_dtype_row_of((rlx_dtype)dtype);
        uint8_t whole[8 * 1024] = {0}, part[8 * 1024] = {0};
        uint64_t first = 256, count = 512;
        size_t begin = (size_t)(first / row->block_elements * row->block_bytes);
        size_t bytes = (size_t)(count / row->block_elements * row->block_bytes);
        assert_ok(rlx_source_fill_seeded(3, 0, 100, (rlx_dtype)dtype, 0, 1024, whole));
        assert_ok(rlx_source_fill_seeded(3, 0, 100, (rlx_dtype)dtype, first, count, part));
        assert_memory_equal(whole + begin, part, bytes);
    }
}

static void seeded_values_have_their_mean_and_scale(void **state) {
    (void)state;
    static float values[100000];
    double sum = 0, low = 1e9, high = -1e9;
    assert_ok(rlx_source_fill_seeded(1, 5, 2, RLX_DTYPE_F32, 0, 100000, values));
    for (uint32_t i = 0; i < 100000; i++) {
        sum += (double)values[i];
        low = fmin(low, (double)values[i]);
        high = fmax(high, (double)values[i]);
    }
    assert_true(low >= 3 && low < 3.01 && high <= 7 && high > 6.99);
    assert_true(fabs(sum / 100000 - 5) < 0.02);
}

static void seeds_differ(void **state) {
    (void)state;
    double a[64], b[64];
    assert_ok(rlx_source_fill_seeded(1, 0, 1, RLX_DTYPE_F64, 0, 64, a));
    assert_ok(rlx_source_fill_seeded(2, 0, 1, RLX_DTYPE_F64, 0, 64, b));
    for (uint32_t i = 0; i < 64; i++)
        for (uint32_t j = 0; j < 64; j++)
            assert_true(a[i] != b[j]);
}

static void memory_is_read_by_range(void **state) {
    (void)state;
    const int16_t data[4] = {1, 2, 3, 4};
    int16_t out[4] = {0};
    rlx_source source = {.kind = RLX_SOURCE_MEMORY, .memory = data, .bytes = sizeof data};
    assert_ok(rlx_source_read(&source, RLX_DTYPE_I16, 1, 2, out));
    assert_true(out[0] == 2 && out[1] == 3 && out[2] == 0);
    assert_ok(rlx_source_read(&source, RLX_DTYPE_I16, 4, 0, out));
    assert_status(RLX_OUT_OF_BOUNDS, rlx_source_read(&source, RLX_DTYPE_I16, 3, 2, out));
    assert_error_has("offset 6 + bytes 4 > source 8");
    assert_status(RLX_OUT_OF_BOUNDS,
                  rlx_source_read(&source, RLX_DTYPE_I16, UINT64_MAX / 2, 2, out));
}

static void odd_ranges_and_empty_sources_are_refused(void **state) {
    (void)state;
    uint8_t out[64];
    rlx_source none = {.kind = RLX_SOURCE_NONE};
    rlx_source seeded = {.kind = RLX_SOURCE_SEEDED, .scale = 1};
    assert_status(RLX_INVALID_ARGUMENT, rlx_source_read(&none, RLX_DTYPE_F32, 0, 1, out));
    assert_status(RLX_INVALID_ARGUMENT, rlx_source_read(&seeded, RLX_DTYPE_Q8_0, 1, 32, out));
    assert_status(RLX_INVALID_ARGUMENT, rlx_source_read(&seeded, RLX_DTYPE_I4, 1, 2, out));
    assert_ok(rlx_source_read(&seeded, RLX_DTYPE_I4, 2, 3, out));
}

static void a_file_is_read_by_range(void **state) {
    (void)state;
    rlx_test_folder folder;
    float out[2];
    const float data[4] = {1, 2, 3, 4};
    rlx_test_folder_create(&folder);
    const char *path = rlx_test_path(&folder, "a.bin");
    rlx_test_write_file(path, data, sizeof data);
    rlx_source source = {.kind = RLX_SOURCE_FILE, .path = path, .offset = 4, .bytes = 12};
    assert_ok(rlx_source_read(&source, RLX_DTYPE_F32, 1, 2, out));
    assert_true(out[0] == 3 && out[1] == 4);
    source.bytes = 100;
    assert_status(RLX_IO, rlx_source_read(&source, RLX_DTYPE_F32, 2, 2, out));
    rlx_test_folder_remove(&folder);
}

static void a_graph_tells_the_source_of_a_parameter(void **state) {
    rlx_graph *graph = NULL;
    rlx_shape shape = {.rank = 1, .dims = {4}};
    rlx_source seeded = {.kind = RLX_SOURCE_SEEDED, .seed = 7, .scale = 0.5}, source;
    rlx_value_id x, w;
    (void)state;
    assert_ok(rlx_graph_create(NULL, &graph));
    assert_ok(rlx_graph_add_input(graph, "x", RLX_DTYPE_F32, shape, &x));
    assert_ok(rlx_graph_add_parameter(graph, "w", RLX_DTYPE_F32, shape, &seeded, &w));
    assert_ok(rlx_graph_parameter_source(graph, w, &source));
    assert_int_equal(source.kind, RLX_SOURCE_SEEDED);
    assert_int_equal(source.seed, 7);
    assert_status(RLX_INVALID_ARGUMENT, rlx_graph_parameter_source(graph, x, &source));
    assert_error_has("'x' is no parameter");
    assert_status(RLX_NOT_FOUND, rlx_graph_parameter_source(graph, 9, &source));
    rlx_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeded_values_are_the_same_on_every_machine),
        cmocka_unit_test(any_part_can_be_made_alone),
        cmocka_unit_test(seeded_values_have_their_mean_and_scale),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(memory_is_read_by_range),
        cmocka_unit_test(odd_ranges_and_empty_sources_are_refused),
        cmocka_unit_test(a_file_is_read_by_range),
        cmocka_unit_test(a_graph_tells_the_source_of_a_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
