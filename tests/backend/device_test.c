/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU device: names, levels, target, and a stretch on a stream by hand. */
#include "backend/cpu/cpu.h"
#include "base/cpu.h"
#include "base/thread.h"
#include "support/hand_plan.h"
#include "support/support.h"

static void both_cpu_names_are_listed_and_open(void **state) {
    const char *names[] = {"cpu", "cpu:scalar"};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        rlx_device_info info;
        rlx_device *device = NULL;
        assert_ok(rlx_device_at(i, &info));
        assert_string_equal(info.name, names[i]);
        assert_true(info.is_available);
        assert_ok(rlx_device_open(names[i], NULL, &device));
        assert_ok(rlx_device_describe(device, &info));
        assert_string_equal(info.name, names[i]);
        assert_int_equal(info.threads, rlx_cpu_count());
        assert_true(info.memory_bytes > 0);
        rlx_device_release(device);
    }
    assert_status(RLX_NOT_FOUND, rlx_device_at(rlx_device_count(), &(rlx_device_info){0}));
}

static void a_forced_level_names_its_target(void **state) {
    rlx_device *device = NULL;
    (void)state;
    assert_ok(rlx_device_open(
        "cpu:scalar", &(rlx_device_options){.size = sizeof(rlx_device_options), .threads = 3},
        &device));
    assert_string_equal(rlx_device_target(device)->name, "cpu/scalar");
    assert_int_equal(rlx_device_target(device)->workers, 3);
    rlx_device_release(device);
}

static void a_level_that_the_processor_lacks_is_refused(void **state) {
    (void)state;
    for (uint32_t i = 0; i < rlx_cpu_level_count; i++) {
        rlx_device *device = NULL;
        bool has = (rlx_cpu_levels[i].flags & ~rlx_cpu_flags()) == 0;
        rlx_status status = rlx_device_open(rlx_cpu_levels[i].device, NULL, &device);
        assert_int_equal(status, has ? RLX_OK : RLX_UNSUPPORTED);
        if (!has) assert_error_has("the processor");
        rlx_device_release(device);
        rlx_target target; /* a plan can be made for it all the same */
        assert_ok(rlx_target_of_device(rlx_cpu_levels[i].device, 4, &target));
        assert_string_equal(target.name, rlx_cpu_levels[i].target);
    }
}

static void unknown_names_are_not_found(void **state) {
    rlx_device *device = NULL;
    const char *names[] = {"gpu", "cpu:", "cpu:mmx", "cp", "cpux", ""};
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        assert_status(RLX_NOT_FOUND, rlx_device_open(names[i], NULL, &device));
        assert_error_has("unknown device");
    }
    assert_status(
        RLX_INVALID_ARGUMENT,
        rlx_device_open("cpu",
                        &(rlx_device_options){.size = sizeof(rlx_device_options), .threads = 5000},
                        &device));
    assert_error_has("5000 threads (at most 1024)");
}

static rlx_tensor tensor_of(rlx_dtype dtype, const int64_t *dims, uint32_t rank) {
    static char nowhere;
    rlx_tensor tensor = {.data = &nowhere, .dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (uint32_t i = rank; i-- > 0;) {
        tensor.dims[i] = dims[i];
        tensor.strides[i] = stride;
        stride *= dims[i];
    }
    return tensor;
}

static void the_target_counts_operations(void **state) {
    rlx_target target;
    rlx_matmul_attrs attrs = {.transpose_a = true};
    rlx_conv_attrs conv = {0};
    rlx_tensor in[2] = {tensor_of(RLX_DTYPE_F32, (const int64_t[]){5, 3}, 2),
                        tensor_of(RLX_DTYPE_F32, (const int64_t[]){5, 7}, 2)};
    rlx_tensor out = tensor_of(RLX_DTYPE_F32, (const int64_t[]){3, 7}, 2);
    rlx_target_query query = {RLX_OP_MATMUL, &attrs, in, &out, 2, 1, NULL};
    (void)state;
    assert_ok(rlx_target_of_device("cpu:scalar", 2, &target));
    rlx_target_choice choice = target.choose(&target, &query);
    assert_int_equal(choice.placement, RLX_PLACED_NATIVE);
    assert_int_equal(choice.flops, 2 * 3 * 7 * 5);
    assert_string_equal(choice.reason, "scalar C");
    rlx_tensor conv_in[2] = {tensor_of(RLX_DTYPE_F32, (const int64_t[]){1, 4, 8, 8}, 4),
                             tensor_of(RLX_DTYPE_F32, (const int64_t[]){6, 4, 3, 3}, 4)};
    rlx_tensor conv_out = tensor_of(RLX_DTYPE_F32, (const int64_t[]){1, 6, 6, 6}, 4);
    query = (rlx_target_query){RLX_OP_CONV, &conv, conv_in, &conv_out, 2, 1, NULL};
    assert_int_equal(target.choose(&target, &query).flops, 2 * 6 * 36 * 36);
    query.op = RLX_OP_LOOP;
    assert_int_equal(target.choose(&target, &query).placement, RLX_PLACED_UNSUPPORTED);
}

/* y = relu(x w): the thin path, without a runtime. */
static void a_stretch_runs_on_a_stream(void **state) {
    hand_plan hand;
    rlx_device *device = NULL;
    rlx_arena *arena = NULL;
    rlx_stream *stream = NULL, *other = NULL;
    rlx_stretch *stretch = NULL;
    rlx_step_time times[2];
    float out[4];
    (void)state;
    hand_begin(&hand, 1);
    hand_end_prepare(&hand);
    uint32_t x =
        hand_slot(&hand, RLX_SEGMENT_SCRATCH, RLX_VALUE_INPUT, "x", RLX_DTYPE_F32, HAND_DIMS(2, 2));
    uint32_t w =
        hand_slot(&hand, RLX_SEGMENT_SCRATCH, RLX_VALUE_INPUT, "w", RLX_DTYPE_F32, HAND_DIMS(2, 2));
    uint32_t h = hand_slot(&hand, RLX_SEGMENT_SCRATCH, RLX_VALUE_TEMPORARY, "h", RLX_DTYPE_F32,
                           HAND_DIMS(2, 2));
    uint32_t y = hand_slot(&hand, RLX_SEGMENT_SCRATCH, RLX_VALUE_TEMPORARY, "y", RLX_DTYPE_F32,
                           HAND_DIMS(2, 2));
    hand_op(&hand, RLX_OP_MATMUL, "h", HAND_SLOTS(x, w), HAND_SLOTS(h));
    hand_op(&hand, RLX_OP_RELU, "y", HAND_SLOTS(h), HAND_SLOTS(y));
    hand_end_entry(&hand, "main", HAND_PORTS(x, w), NULL, HAND_PORTS(y));
    rlx_plan *plan = hand_finish(&hand);
    assert_ok(rlx_device_open("cpu", NULL, &device));
    assert_ok(rlx_device_create_arena(device, &(rlx_arena_request){.plan = plan}, &arena));
    assert_ok(rlx_device_create_stream(device, NULL, arena, &stream));
    assert_ok(rlx_device_create_stream(device, NULL, arena, &other));
    assert_ok(rlx_stream_prepare(stream, 0, 2, &stretch));
    assert_ok(rlx_arena_write_f32(arena, x, 0, (float[]){1, 2, 3, 4}, 4, 0, NULL));
    assert_ok(rlx_arena_write_f32(arena, w, 0, (float[]){1, -1, 2, -2}, 4, 0, NULL));
    assert_ok(rlx_stream_submit(stream, stretch, times));
    assert_status(RLX_BUSY, rlx_arena_read_f32(arena, y, 0, out, 4, 0, NULL));
    assert_ok(rlx_stream_wait(stream));
    assert_ok(rlx_arena_read_f32(arena, y, 0, out, 4, 0, NULL));
    assert_memory_equal(out, ((float[]){5, 0, 11, 0}), sizeof out);
    assert_true(times[1].end_ns >= times[0].start_ns && times[0].start_ns != 0);
    assert_status(RLX_INVALID_ARGUMENT, rlx_stream_submit(other, stretch, NULL));
    assert_status(RLX_OUT_OF_BOUNDS, rlx_stream_prepare(stream, 1, 2, &stretch));
    rlx_stream_release(stream, stretch);
    rlx_stream_destroy(other);
    rlx_stream_destroy(stream);
    rlx_arena_destroy(arena);
    rlx_device_release(device);
    rlx_plan_destroy(plan);
}

static rlx_status open_and_release(const rlx_allocator *allocator, void *argument) {
    rlx_device *device = NULL;
    rlx_device_options options = {.size = sizeof options, .allocator = allocator, .threads = 2};
    (void)argument;
    RLX_TRY(rlx_device_open("cpu", &options, &device));
    rlx_device_release(device);
    return RLX_OK;
}

static void opening_survives_every_failed_allocation(void **state) {
    (void)state;
    assert_true(rlx_test_every_allocation_fails(open_and_release, NULL) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_cpu_names_are_listed_and_open),
        cmocka_unit_test(a_forced_level_names_its_target),
        cmocka_unit_test(a_level_that_the_processor_lacks_is_refused),
        cmocka_unit_test(unknown_names_are_not_found),
        cmocka_unit_test(the_target_counts_operations),
        cmocka_unit_test(a_stretch_runs_on_a_stream),
        cmocka_unit_test(opening_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
