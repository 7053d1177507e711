/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite of arenas: see arena_suite.h. */
#include "conformance/arena_suite.h"

#include "base/log.h"
#include "base/thread.h"
#include "ir/dtype.h"
#include "support/hand_plan.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>

static const arena_maker *maker;

enum { DTYPE_ELEMENTS = 512, FLAT = 4096 };

/* The plan of the suite and an arena of it. */
typedef struct fixture {
    rlx_plan *plan;
    rlx_arena *arena;
    uint32_t w, k, x, x_columns, x_backwards, nibbles, nibbles_backwards, other, one, empty;
    uint32_t dtypes[RLX_DTYPE_COUNT];
    float weights[4];
} fixture;

static uint32_t scratch(hand_plan *hand, const char *name, rlx_dtype dtype, const int64_t *dims) {
    return hand_slot(hand, RLX_SEGMENT_SCRATCH, RLX_VALUE_TEMPORARY, name, dtype, dims);
}

static void make_plan(fixture *f) {
    hand_plan hand;
    hand_begin(&hand, 1);
    f->w = hand_slot(&hand, RLX_SEGMENT_WEIGHTS, RLX_VALUE_PARAMETER, "w", RLX_DTYPE_F32,
                     HAND_DIMS(4));
    f->k = hand_slot(&hand, RLX_SEGMENT_STATE, RLX_VALUE_STATE, "k", RLX_DTYPE_F16, HAND_DIMS(8));
    hand_end_prepare(&hand);
    f->x = scratch(&hand, "x", RLX_DTYPE_F32, HAND_DIMS(3, 4));
    f->x_columns = hand_view(&hand, f->x, "x_columns", 0, HAND_DIMS(4, 3), (const int64_t[]){1, 4});
    f->x_backwards =
        hand_view(&hand, f->x, "x_backwards", 44, HAND_DIMS(12), (const int64_t[]){-1});
    f->nibbles = scratch(&hand, "nibbles", RLX_DTYPE_I4, HAND_DIMS(9));
    f->nibbles_backwards =
        hand_view(&hand, f->nibbles, "nibbles_backwards", 4, HAND_DIMS(9), (const int64_t[]){-1});
    f->other = scratch(&hand, "other", RLX_DTYPE_F32, HAND_DIMS(20));
    f->one = scratch(&hand, "one", RLX_DTYPE_F64, HAND_SCALAR);
    f->empty = scratch(&hand, "empty", RLX_DTYPE_F32, HAND_DIMS(0, 7));
    for (uint32_t i = 0; i < RLX_DTYPE_COUNT; i++)
        f->dtypes[i] = scratch(&hand, "typed", (rlx_dtype)i, HAND_DIMS(DTYPE_ELEMENTS));
    hand_end_entry(&hand, "main", HAND_NO_PORTS, NULL, HAND_NO_PORTS);
    f->plan = hand_finish_unchecked(&hand);
}

static rlx_arena *make_arena(fixture *f, bool owns_weights) {
    rlx_arena_request request = {.plan = f->plan};
    rlx_arena *arena = NULL;
    if (!owns_weights) {
        request.memory[RLX_SEGMENT_WEIGHTS] =
            (rlx_arena_memory){f->weights, f->plan->segment_bytes[RLX_SEGMENT_WEIGHTS]};
    }
    assert_ok(maker->create(maker->user, &request, &arena));
    return arena;
}

static int setup(void **state) {
    fixture *f = test_calloc(1, sizeof *f);
    make_plan(f);
    f->arena = make_arena(f, true);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    rlx_arena_destroy(f->arena);
    rlx_plan_destroy(f->plan);
    test_free(f);
    return 0;
}

static float *numbers(uint64_t count) {
    static float list[FLAT];
    assert_true(count <= FLAT);
    for (uint64_t i = 0; i < count; i++)
        list[i] = (float)i + 1;
    return list;
}

static void a_fresh_arena_is_zero(void **state) {
    fixture *f = *state;
    for (uint32_t segment = 0; segment < RLX_SEGMENT_SOURCE; segment++) {
        uint8_t bytes[64];
        memset(bytes, 1, sizeof bytes);
        assert_ok(rlx_arena_read_segment(f->arena, (rlx_segment)segment, 0, bytes, sizeof bytes));
        for (uint32_t i = 0; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], 0);
    }
}

static void queries_about_unknown_slots_never_fail(void **state) {
    fixture *f = *state;
    const uint32_t unknown[] = {f->plan->slots.count, RLX_NONE, RLX_NONE - 1};
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(rlx_arena_has_slot(f->arena, unknown[i]));
        assert_true(rlx_arena_offset(f->arena, unknown[i]) == RLX_NO_OFFSET);
        assert_true(rlx_arena_element_offset(f->arena, unknown[i]) == RLX_NO_OFFSET);
        assert_int_equal(rlx_arena_slot_bytes(f->arena, unknown[i]), 0);
        assert_int_equal(rlx_arena_slot_elements(f->arena, unknown[i]), 0);
        assert_null(rlx_arena_address(f->arena, unknown[i]));
    }
    assert_int_equal(rlx_arena_segment_bytes(f->arena, RLX_SEGMENT_COUNT), 0);
    assert_ptr_equal(rlx_arena_plan(f->arena), f->plan);
    assert_null(rlx_arena_plan(NULL));
    assert_false(rlx_arena_has_slot(NULL, 0));
    assert_true(rlx_arena_offset(NULL, 0) == RLX_NO_OFFSET);
    assert_int_equal(rlx_arena_bytes(NULL), 0);
    assert_null(rlx_arena_address(NULL, 0));
}

static void slots_have_one_offset_space(void **state) {
    fixture *f = *state;
    uint64_t weights = rlx_arena_segment_bytes(f->arena, RLX_SEGMENT_WEIGHTS);
    uint64_t states = rlx_arena_segment_bytes(f->arena, RLX_SEGMENT_STATE);
    assert_int_equal(rlx_arena_offset(f->arena, f->w), 0);
    assert_int_equal(rlx_arena_offset(f->arena, f->k), weights);
    assert_int_equal(rlx_arena_offset(f->arena, f->x), weights + states + RLX_FAULT_BYTES);
    assert_int_equal(rlx_arena_element_offset(f->arena, f->k), weights / 2);
    assert_int_equal(rlx_arena_element_offset(f->arena, f->nibbles),
                     rlx_arena_offset(f->arena, f->nibbles) * 2);
    assert_int_equal(rlx_arena_bytes(f->arena), rlx_plan_arena_bytes(f->plan));
}

static void capacities_count_bytes_and_elements(void **state) {
    fixture *f = *state;
    assert_int_equal(rlx_arena_slot_elements(f->arena, f->x), 12);
    assert_int_equal(rlx_arena_slot_bytes(f->arena, f->x), 48);
    assert_int_equal(rlx_arena_slot_bytes(f->arena, f->x_columns), 48);
    assert_int_equal(rlx_arena_slot_elements(f->arena, f->nibbles), 9);
    assert_int_equal(rlx_arena_slot_bytes(f->arena, f->nibbles), 5);
    assert_int_equal(rlx_arena_slot_elements(f->arena, f->one), 1);
    assert_int_equal(rlx_arena_slot_elements(f->arena, f->empty), 0);
    assert_true(rlx_arena_has_slot(f->arena, f->empty));
    assert_int_equal(rlx_arena_slot_bytes(f->arena, f->dtypes[RLX_DTYPE_Q8_0]), 544);
}

/* What a dtype makes of a number is what the public conversions make of it. */
static void every_dtype_is_written_and_read_as_f32(void **state) {
    fixture *f = *state;
    for (uint32_t i = 0; i < RLX_DTYPE_COUNT; i++) {
        float in[DTYPE_ELEMENTS], out[DTYPE_ELEMENTS], expected[DTYPE_ELEMENTS];
        uint8_t raw[DTYPE_ELEMENTS * 8] = {0}, got[DTYPE_ELEMENTS * 8];
        uint64_t bytes = rlx_arena_slot_bytes(f->arena, f->dtypes[i]);
        for (uint32_t k = 0; k < DTYPE_ELEMENTS; k++)
            in[k] = (float)((int)k - 200) * 0.37f;
        assert_ok(rlx_convert_from_f32((rlx_dtype)i, raw, in, DTYPE_ELEMENTS));
        assert_ok(rlx_convert_to_f32((rlx_dtype)i, expected, raw, DTYPE_ELEMENTS));
        assert_ok(rlx_arena_write_f32(f->arena, f->dtypes[i], 0, in, DTYPE_ELEMENTS, 0, NULL));
        assert_ok(rlx_arena_read_f32(f->arena, f->dtypes[i], 0, out, DTYPE_ELEMENTS, 0, NULL));
        assert_memory_equal(out, expected, sizeof out);
        assert_ok(rlx_arena_read_bytes(f->arena, f->dtypes[i], 0, got, bytes, 0, NULL));
        assert_memory_equal(got, raw, bytes);
    }
}

static void special_numbers_follow_the_rules(void **state) {
    fixture *f = *state;
    const float in[4] = {NAN, 1e9f, -1e9f, 2.5f};
    float out[4];
    assert_ok(rlx_arena_write_f32(f->arena, f->dtypes[RLX_DTYPE_F16], 0, in, 4, 0, NULL));
    assert_ok(rlx_arena_read_f32(f->arena, f->dtypes[RLX_DTYPE_F16], 0, out, 4, 0, NULL));
    assert_true(isnan(out[0]) && isinf(out[1]) && out[1] > 0 && isinf(out[2]) && out[2] < 0);
    assert_ok(rlx_arena_write_f32(f->arena, f->dtypes[RLX_DTYPE_I8], 0, in, 4, 0, NULL));
    assert_ok(rlx_arena_read_f32(f->arena, f->dtypes[RLX_DTYPE_I8], 0, out, 4, 0, NULL));
    assert_true(out[0] == 0 && out[1] == 127 && out[2] == -128 && out[3] == 2);
    assert_ok(rlx_arena_write_f32(f->arena, f->dtypes[RLX_DTYPE_BOOL], 0, in + 1, 3, 0, NULL));
    assert_ok(rlx_arena_read_f32(f->arena, f->dtypes[RLX_DTYPE_BOOL], 0, out, 4, 0, NULL));
    assert_true(out[0] == 1 && out[1] == 1 && out[2] == 1 && out[3] == 0);
}

static void a_short_write_leaves_the_rest(void **state) {
    fixture *f = *state;
    float out[12];
    uint64_t count = 99;
    assert_ok(rlx_arena_write_f32(f->arena, f->x, 0, numbers(12), 12, 0, NULL));
    assert_ok(rlx_arena_write_f32(f->arena, f->x, 2, (float[]){-1, -2}, 2, 0, &count));
    assert_int_equal(count, 2);
    assert_ok(rlx_arena_read_f32(f->arena, f->x, 0, out, 12, 0, NULL));
    assert_true(out[1] == 2 && out[2] == -1 && out[3] == -2 && out[4] == 5 && out[11] == 12);
    assert_ok(rlx_arena_write_bytes(f->arena, f->x, 4, (float[]){7}, 4, 0, NULL));
    assert_ok(rlx_arena_read_f32(f->arena, f->x, 1, out, 2, 0, NULL));
    assert_true(out[0] == 7 && out[1] == -1);
}

static void nothing_is_a_legal_amount(void **state) {
    fixture *f = *state;
    uint64_t count = 9;
    assert_ok(rlx_arena_write_f32(f->arena, f->x, 0, NULL, 0, 0, &count));
    assert_int_equal(count, 0);
    assert_ok(rlx_arena_read_f32(f->arena, f->x, 12, NULL, 0, 0, NULL));
    assert_ok(rlx_arena_write_bytes(f->arena, f->x, 48, NULL, 0, 0, NULL));
    assert_ok(rlx_arena_read_bytes(f->arena, f->empty, 0, NULL, 0, 0, NULL));
    assert_ok(rlx_arena_copy(f->arena, f->x, 12, f->other, 20, 0));
    assert_ok(rlx_arena_write_f32(f->arena, f->empty, 0, NULL, 0, 0, NULL));
    assert_status(RLX_INVALID_ARGUMENT, rlx_arena_write_f32(f->arena, f->x, 0, NULL, 1, 0, NULL));
}

static void too_much_is_refused_and_nothing_written(void **state) {
    fixture *f = *state;
    float out[12];
    assert_ok(rlx_arena_write_f32(f->arena, f->x, 0, numbers(12), 12, 0, NULL));
    assert_status(RLX_OUT_OF_BOUNDS,
                  rlx_arena_write_f32(f->arena, f->x, 10, (float[3]){0}, 3, 0, NULL));
    assert_error_has("slot 'x': element 10 + 3 > capacity 12");
    assert_int_equal(rlx_last_error_detail()->limit, 12);
    assert_status(RLX_OUT_OF_BOUNDS,
                  rlx_arena_write_f32(f->arena, f->x, UINT64_MAX, numbers(2), 2, 0, NULL));
    assert_status(RLX_OUT_OF_BOUNDS,
                  rlx_arena_write_bytes(f->arena, f->x, 40, numbers(3), 12, 0, NULL));
    assert_error_has("slot 'x': byte 40 + 12 > capacity 48");
    assert_status(RLX_OUT_OF_BOUNDS, rlx_arena_read_f32(f->arena, f->x, 0, out, 13, 0, NULL));
    assert_status(RLX_NOT_FOUND, rlx_arena_write_f32(f->arena, 9999, 0, numbers(1), 1, 0, NULL));
    assert_error_has("slot 9999");
    assert_ok(rlx_arena_read_f32(f->arena, f->x, 0, out, 12, 0, NULL));
    assert_memory_equal(out, numbers(12), sizeof out);
}

static void truncation_happens_only_by_flag(void **state) {
    fixture *f = *state;
    uint64_t count = 0;
    float out[20] = {0};
    assert_ok(rlx_arena_write_f32(f->arena, f->x, 10, numbers(5), 5, RLX_ARENA_TRUNCATE, &count));
    assert_int_equal(count, 2);
    assert_ok(rlx_arena_read_f32(f->arena, f->x, 9, out, 20, RLX_ARENA_TRUNCATE, &count));
    assert_int_equal(count, 3);
    assert_true(out[0] == 0 && out[1] == 1 && out[2] == 2 && out[3] == 0);
    assert_ok(rlx_arena_write_bytes(f->arena, f->x, 99, numbers(1), 4, RLX_ARENA_TRUNCATE, &count));
    assert_int_equal(count, 0);
}

static void strided_slots_are_in_logical_order(void **state) {
    fixture *f = *state;
    float out[12], columns[12] = {1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12};
    uint8_t raw[48];
    assert_ok(rlx_arena_write_f32(f->arena, f->x, 0, numbers(12), 12, 0, NULL));
    assert_ok(rlx_arena_read_f32(f->arena, f->x_columns, 0, out, 12, 0, NULL));
    assert_memory_equal(out, columns, sizeof out);
    assert_ok(rlx_arena_read_f32(f->arena, f->x_columns, 4, out, 5, 0, NULL));
    assert_memory_equal(out, columns + 4, 5 * sizeof *out);
    assert_ok(rlx_arena_read_bytes(f->arena, f->x_columns, 0, raw, sizeof raw, 0, NULL));
    assert_memory_equal(raw, columns, sizeof raw);
    assert_ok(rlx_arena_write_bytes(f->arena, f->x_columns, 4, (float[]){-5, -9}, 8, 0, NULL));
    assert_ok(rlx_arena_read_f32(f->arena, f->x, 0, out, 12, 0, NULL));
    assert_true(out[3] == 4 && out[4] == -5 && out[8] == -9);
    assert_status(RLX_INVALID_ARGUMENT,
                  rlx_arena_read_bytes(f->arena, f->x_columns, 2, raw, 4, 0, NULL));
    assert_ok(rlx_arena_read_f32(f->arena, f->x_backwards, 1, out, 3, 0, NULL));
    assert_true(out[0] == 11 && out[1] == 10 && out[2] == -9);
}

static void four_bit_elements_go_one_by_one(void **state) {
    fixture *f = *state;
    float out[9];
    uint8_t raw[5];
    const float in[9] = {-8, 7, -1, 2, 3, 4, 5, 6, -7};
    assert_ok(rlx_arena_write_f32(f->arena, f->nibbles, 0, in, 9, 0, NULL));
    assert_ok(rlx_arena_write_f32(f->arena, f->nibbles, 3, (float[]){-2, -3}, 2, 0, NULL));
    assert_ok(rlx_arena_read_f32(f->arena, f->nibbles, 1, out, 8, 0, NULL));
    assert_memory_equal(out, ((float[]){7, -1, -2, -3, 4, 5, 6, -7}), 8 * sizeof *out);
    assert_ok(rlx_arena_read_bytes(f->arena, f->nibbles, 0, raw, 5, 0, NULL));
    assert_int_equal(rlx_load_i64(RLX_DTYPE_I4, raw, 3), -2);
    assert_ok(rlx_arena_copy(f->arena, f->nibbles, 0, f->nibbles, 1, 7));
    assert_ok(rlx_arena_read_f32(f->arena, f->nibbles, 0, out, 9, 0, NULL));
    assert_memory_equal(out, ((float[]){-8, -8, 7, -1, -2, -3, 4, 5, -7}), sizeof out);
}

static void block_types_move_in_whole_blocks(void **state) {
    fixture *f = *state;
    uint32_t slot = f->dtypes[RLX_DTYPE_Q8_0];
    float out[64];
    assert_ok(rlx_arena_write_f32(f->arena, slot, 32, numbers(64), 64, 0, NULL));
    assert_ok(rlx_arena_read_f32(f->arena, slot, 64, out, 32, 0, NULL));
    assert_close_f32(numbers(64) + 32, out, 32, 0.5, 0);
    assert_status(RLX_INVALID_ARGUMENT,
                  rlx_arena_write_f32(f->arena, slot, 16, numbers(32), 32, 0, NULL));
    assert_error_has("whole blocks of 32");
    assert_status(RLX_INVALID_ARGUMENT, rlx_arena_read_f32(f->arena, slot, 0, out, 20, 0, NULL));
}

static void copies_inside_the_arena_behave_like_memmove(void **state) {
    fixture *f = *state;
    float out[20];
    assert_ok(rlx_arena_write_f32(f->arena, f->x, 0, numbers(12), 12, 0, NULL));
    assert_ok(rlx_arena_copy(f->arena, f->x, 0, f->other, 0, 12)); /* a prefix */
    assert_ok(rlx_arena_copy(f->arena, f->other, 0, f->other, 3, 10));
    assert_ok(rlx_arena_read_f32(f->arena, f->other, 0, out, 20, 0, NULL));
    assert_true(out[2] == 3 && out[3] == 1 && out[12] == 10 && out[13] == 0);
    assert_ok(rlx_arena_copy(f->arena, f->other, 3, f->other, 0, 10));
    assert_ok(rlx_arena_copy(f->arena, f->other, 4, f->other, 4, 16)); /* onto itself */
    assert_ok(rlx_arena_read_f32(f->arena, f->other, 0, out, 20, 0, NULL));
    assert_true(out[0] == 1 && out[9] == 10 && out[10] == 8);
}

static void wrong_copies_are_refused(void **state) {
    fixture *f = *state;
    assert_status(RLX_MISMATCH, rlx_arena_copy(f->arena, f->x, 0, f->k, 0, 4));
    assert_error_has("'x' (f32) -> 'k' (f16)");
    assert_status(RLX_OUT_OF_BOUNDS, rlx_arena_copy(f->arena, f->x, 10, f->other, 0, 3));
    assert_error_has("'x': element 10 + 3 > capacity 12");
    assert_status(RLX_OUT_OF_BOUNDS, rlx_arena_copy(f->arena, f->x, 0, f->other, 12, 12));
    assert_status(RLX_OUT_OF_BOUNDS,
                  rlx_arena_copy(f->arena, f->x, UINT64_MAX, f->other, 0, UINT64_MAX));
    assert_status(RLX_NOT_FOUND, rlx_arena_copy(f->arena, f->x, 0, 9999, 0, 1));
    assert_status(RLX_UNSUPPORTED, rlx_arena_copy(f->arena, f->x_columns, 0, f->x, 0, 3));
    assert_error_has("'x_columns' -> 'x': they share memory, and one has strides");
    assert_status(RLX_INVALID_ARGUMENT, rlx_arena_copy(f->arena, f->dtypes[RLX_DTYPE_Q8_0], 32,
                                                       f->dtypes[RLX_DTYPE_Q8_0], 16, 32));
    assert_error_has("whole blocks of 32");
}

static void copies_of_strided_slots_follow_the_logical_order(void **state) {
    fixture *f = *state;
    float out[20], nibbles[9] = {-8, 7, -1, 2, 3, 4, 5, 6, -7};
    uint32_t i4 = f->dtypes[RLX_DTYPE_I4];
    assert_ok(rlx_arena_write_f32(f->arena, f->x, 0, numbers(12), 12, 0, NULL));
    assert_ok(rlx_arena_copy(f->arena, f->x_columns, 1, f->other, 5, 4));
    assert_ok(rlx_arena_read_f32(f->arena, f->other, 4, out, 6, 0, NULL));
    assert_memory_equal(out, ((float[]){0, 5, 9, 2, 6, 0}), 6 * sizeof *out);
    assert_ok(rlx_arena_copy(f->arena, f->other, 5, f->x_backwards, 0, 3));
    assert_ok(rlx_arena_read_f32(f->arena, f->x, 8, out, 4, 0, NULL));
    assert_memory_equal(out, ((float[]){9, 2, 9, 5}), 4 * sizeof *out);
    assert_ok(rlx_arena_copy(f->arena, f->x_columns, 2, f->x_columns, 2, 9)); /* onto itself */
    assert_ok(rlx_arena_write_f32(f->arena, f->nibbles, 0, nibbles, 9, 0, NULL));
    assert_ok(rlx_arena_copy(f->arena, f->nibbles_backwards, 1, i4, 2, 7));
    assert_ok(rlx_arena_read_f32(f->arena, i4, 1, out, 9, 0, NULL));
    assert_memory_equal(out, ((float[]){0, 6, 5, 4, 3, 2, -1, 7, 0}), 9 * sizeof *out);
}

static void packed_slots_show_their_bytes_and_are_not_copied(void **state) {
    fixture *f = *state;
    rlx_plan_slot *slot = &f->plan->slots.items[f->other];
    uint8_t bytes[80], back[80];
    slot->layout = (rlx_layout)(RLX_LAYOUT_PLAIN + 1);
    for (uint8_t i = 0; i < sizeof bytes; i++)
        bytes[i] = i;
    assert_ok(rlx_arena_write_bytes(f->arena, f->other, 0, bytes, sizeof bytes, 0, NULL));
    assert_ok(rlx_arena_read_bytes(f->arena, f->other, 3, back, 70, 0, NULL));
    assert_memory_equal(back, bytes + 3, 70);
    assert_status(RLX_UNSUPPORTED, rlx_arena_copy(f->arena, f->x, 0, f->other, 0, 4));
    assert_error_has("'other' is packed");
    slot->layout = RLX_LAYOUT_PLAIN;
}

typedef struct visit {
    fixture *f;
    rlx_status wrote, read;
    float out[12];
} visit;

static void *use_elsewhere(void *argument) {
    visit *self = argument;
    rlx_arena *arena = self->f->arena;
    self->read = rlx_arena_read_f32(arena, self->f->x, 0, self->out, 12, 0, NULL);
    self->wrote = rlx_arena_write_f32(arena, self->f->x, 0, (float[]){-1}, 1, 0, NULL);
    return NULL;
}

static void an_arena_moves_between_threads(void **state) {
    visit self = {.f = *state};
    pthread_t thread;
    float out[1];
    assert_ok(rlx_arena_write_f32(self.f->arena, self.f->x, 0, numbers(12), 12, 0, NULL));
    assert_ok(rlx_thread_start(&thread, use_elsewhere, &self));
    pthread_join(thread, NULL);
    assert_int_equal(self.read, RLX_OK);
    assert_int_equal(self.wrote, RLX_OK);
    assert_memory_equal(self.out, numbers(12), sizeof self.out);
    assert_ok(rlx_arena_read_f32(self.f->arena, self.f->x, 0, out, 1, 0, NULL));
    assert_true(out[0] == -1);
}

static void the_twin_gets_everything(void **state) {
    fixture *f = *state;
    rlx_arena *twin = make_arena(f, true);
    float out[4];
    assert_ok(rlx_arena_write_f32(f->arena, f->w, 0, numbers(4), 4, 0, NULL));
    assert_ok(rlx_arena_write_f32(f->arena, f->k, 0, numbers(8), 8, 0, NULL));
    assert_ok(rlx_arena_write_f32(f->arena, f->x, 4, numbers(4), 4, 0, NULL));
    assert_ok(rlx_arena_copy_to(f->arena, twin));
    assert_ok(rlx_arena_read_f32(twin, f->w, 0, out, 4, 0, NULL));
    assert_memory_equal(out, numbers(4), sizeof out);
    assert_ok(rlx_arena_read_f32(twin, f->k, 4, out, 4, 0, NULL));
    assert_true(out[0] == 5 && out[3] == 8);
    assert_ok(rlx_arena_read_f32(twin, f->x, 4, out, 4, 0, NULL));
    assert_memory_equal(out, numbers(4), sizeof out);
    rlx_arena_destroy(twin);
}

static void an_arena_of_another_plan_is_no_twin(void **state) {
    fixture *f = *state;
    fixture other = {0};
    make_plan(&other);
    other.plan->slots.items[other.x].dims[0] = 2;
    other.arena = make_arena(&other, true);
    assert_status(RLX_MISMATCH, rlx_arena_copy_to(f->arena, other.arena));
    assert_error_has("different plans");
    other.plan->slots.items[other.x].dims[0] = 3; /* now it is an equal plan in another place */
    assert_ok(rlx_arena_copy_to(f->arena, other.arena));
    rlx_arena_destroy(other.arena);
    rlx_plan_destroy(other.plan);
}

static void shared_weights_are_read_only(void **state) {
    fixture *f = *state;
    _Alignas(64) float weights[16] = {3, 4, 5, 6};
    rlx_arena_request request = {.plan = f->plan};
    rlx_arena *arena = NULL;
    float out[4];
    request.memory[RLX_SEGMENT_WEIGHTS] = (rlx_arena_memory){weights, sizeof weights};
    assert_ok(maker->create(maker->user, &request, &arena));
    assert_ok(rlx_arena_read_f32(arena, f->w, 0, out, 4, 0, NULL));
    assert_memory_equal(out, weights, sizeof out);
    assert_status(RLX_INVALID_ARGUMENT,
                  rlx_arena_write_f32(arena, f->w, 0, numbers(1), 1, 0, NULL));
    assert_error_has("'w' lies in shared weights");
    assert_status(RLX_INVALID_ARGUMENT, rlx_arena_copy(arena, f->x, 0, f->w, 0, 1));
    assert_status(RLX_MISMATCH, rlx_arena_copy_to(f->arena, arena));
    assert_true(weights[0] == 3);
    rlx_arena_destroy(arena);
}

static void reads_anywhere_cross_segments(void **state) {
    fixture *f = *state;
    uint64_t weights = rlx_arena_segment_bytes(f->arena, RLX_SEGMENT_WEIGHTS);
    uint64_t total = rlx_arena_bytes(f->arena);
    float out[FLAT];
    assert_ok(rlx_arena_write_f32(f->arena, f->w, 0, numbers(4), 4, 0, NULL));
    assert_ok(rlx_arena_write_f32(f->arena, f->k, 0, (float[]){1.5f}, 1, 0, NULL));
    assert_ok(rlx_arena_read_any_f32(f->arena, RLX_DTYPE_F32, 1, out, 3));
    assert_memory_equal(out, numbers(4) + 1, 3 * sizeof *out);
    assert_ok(rlx_arena_read_any_f32(f->arena, RLX_DTYPE_F16, weights / 2 - 2, out, 4));
    assert_true(out[0] == 0 && out[2] == 1.5f && out[3] == 0);
    assert_ok(rlx_arena_read_any_f32(f->arena, RLX_DTYPE_U8, total - 1, out, 1));
    assert_ok(rlx_arena_read_any_f32(f->arena, RLX_DTYPE_F32, 0, out, 2000));
    assert_ok(rlx_arena_read_any_f32(f->arena, RLX_DTYPE_F32, total / 4, NULL, 0));
    assert_status(RLX_OUT_OF_BOUNDS,
                  rlx_arena_read_any_f32(f->arena, RLX_DTYPE_U8, total - 1, out, 2));
    assert_error_has("u8 elements");
    assert_status(RLX_OUT_OF_BOUNDS,
                  rlx_arena_read_any_f32(f->arena, RLX_DTYPE_F64, UINT64_MAX - 1, out, 2));
    assert_status(RLX_INVALID_ARGUMENT,
                  rlx_arena_read_any_f32(f->arena, RLX_DTYPE_Q8_0, 1, out, 32));
    assert_status(RLX_INVALID_ARGUMENT,
                  rlx_arena_read_any_f32(f->arena, RLX_DTYPE_COUNT, 0, out, 1));
}

static void true_sizes_are_read_row_by_row(void **state) {
    fixture *f = *state;
    float out[6];
    assert_ok(rlx_arena_write_f32(f->arena, f->x, 0, numbers(12), 12, 0, NULL));
    assert_ok(rlx_arena_read_dims_f32(f->arena, f->x, (const int64_t[]){3, 2}, out));
    assert_memory_equal(out, ((float[]){1, 2, 5, 6, 9, 10}), sizeof out);
    assert_ok(rlx_arena_read_dims_bytes(f->arena, f->x, (const int64_t[]){1, 4}, out));
    assert_ok(rlx_arena_read_dims_f32(f->arena, f->x, (const int64_t[]){3, 0}, NULL));
    assert_status(RLX_OUT_OF_BOUNDS,
                  rlx_arena_read_dims_f32(f->arena, f->x, (const int64_t[]){4, 2}, out));
}

static void a_plan_of_zero_bytes_is_legal(void **state) {
    hand_plan hand;
    rlx_arena *arena = NULL, *twin = NULL;
    rlx_arena_request request = {0};
    (void)state;
    hand_begin(&hand, 1);
    hand.used[RLX_SEGMENT_SCRATCH] = 0;
    uint32_t slot = scratch(&hand, "nothing", RLX_DTYPE_F32, HAND_DIMS(0));
    hand_end_entry(&hand, "main", HAND_NO_PORTS, NULL, HAND_NO_PORTS);
    request.plan = hand_finish_unchecked(&hand);
    assert_ok(maker->create(maker->user, &request, &arena));
    assert_ok(maker->create(maker->user, &request, &twin));
    assert_int_equal(rlx_arena_bytes(arena), 0);
    assert_true(rlx_arena_has_slot(arena, slot));
    assert_ok(rlx_arena_write_f32(arena, slot, 0, NULL, 0, 0, NULL));
    assert_ok(rlx_arena_copy_to(arena, twin));
    assert_ok(rlx_arena_read_any_f32(arena, RLX_DTYPE_F32, 0, NULL, 0));
    rlx_arena_destroy(arena);
    rlx_arena_destroy(twin);
    rlx_plan_destroy(hand.plan);
}

static void host_access_while_the_device_works_is_refused(void **state) {
    fixture *f = *state;
    float out[1];
    atomic_fetch_add(&f->arena->pending, 1);
    assert_status(RLX_BUSY, rlx_arena_read_f32(f->arena, f->x, 0, out, 1, 0, NULL));
    assert_status(RLX_BUSY, rlx_arena_write_f32(f->arena, f->x, 0, numbers(1), 1, 0, NULL));
    assert_status(RLX_BUSY, rlx_arena_copy(f->arena, f->x, 0, f->other, 0, 1));
    assert_status(RLX_BUSY, rlx_arena_copy_to(f->arena, f->arena));
    assert_status(RLX_BUSY, rlx_arena_read_any_f32(f->arena, RLX_DTYPE_F32, 0, out, 1));
    assert_int_equal(rlx_arena_slot_elements(f->arena, f->x), 12); /* queries still answer */
    atomic_fetch_sub(&f->arena->pending, 1);
    assert_ok(rlx_arena_read_f32(f->arena, f->x, 0, out, 1, 0, NULL));
}

/* As a copy engine fills a slot: what shares bytes with it waits, everything else goes on. */
static void a_slot_that_is_being_filled_is_refused_and_no_other(void **state) {
    fixture *f = *state;
    rlx_arena_hold hold = {0}, second = {0};
    uint64_t at = rlx_arena_offset(f->arena, f->x) / 4;
    float out[12];
    rlx_arena_hold_slot(f->arena, f->x, &hold);
    rlx_arena_hold_slot(f->arena, f->k, &second);
    assert_status(RLX_BUSY, rlx_arena_read_f32(f->arena, f->x, 0, out, 1, 0, NULL));
    assert_error_has("slot 'x': a copy is filling 48 bytes");
    assert_status(RLX_BUSY, rlx_arena_write_f32(f->arena, f->x_backwards, 0, out, 0, 0, NULL));
    assert_status(RLX_BUSY, rlx_arena_read_bytes(f->arena, f->x_columns, 0, out, 4, 0, NULL));
    assert_status(RLX_BUSY, rlx_arena_copy(f->arena, f->other, 0, f->x, 0, 1));
    assert_status(RLX_BUSY, rlx_arena_copy_to(f->arena, f->arena));
    assert_status(RLX_BUSY, rlx_arena_read_any_f32(f->arena, RLX_DTYPE_F32, at - 3, out, 4));
    assert_ok(rlx_arena_read_any_f32(f->arena, RLX_DTYPE_F32, at - 3, out, 3));
    assert_ok(rlx_arena_write_f32(f->arena, f->other, 0, numbers(3), 3, 0, NULL));
    assert_ok(rlx_arena_copy(f->arena, f->other, 0, f->other, 5, 3));
    rlx_arena_let_go(f->arena, &hold);
    rlx_arena_let_go(f->arena, &hold); /* once more does no harm */
    assert_ok(rlx_arena_read_f32(f->arena, f->x, 0, out, 12, 0, NULL));
    assert_status(RLX_BUSY, rlx_arena_read_f32(f->arena, f->k, 0, out, 1, 0, NULL));
    rlx_arena_let_go(f->arena, &second);
    assert_ok(rlx_arena_read_f32(f->arena, f->k, 0, out, 1, 0, NULL));
    rlx_arena_hold_slot(f->arena, 9999, &hold);
    assert_ok(rlx_arena_copy_to(f->arena, f->arena));
}

static char last_message[256];

static void keep_message(void *user, rlx_log_level level, const char *message) {
    (void)user;
    if (level == RLX_LOG_INFO && strstr(message, "arena") != NULL) {
        strncpy(last_message, message, sizeof last_message - 1);
    }
}

static void creating_one_logs_bytes_per_segment(void **state) {
    fixture *f = *state;
    char weights[64], scratch_text[64];
    last_message[0] = 0;
    rlx_log_set(keep_message, NULL, RLX_LOG_INFO);
    rlx_arena *arena = make_arena(f, true);
    rlx_log_set(NULL, NULL, RLX_LOG_ERROR);
    snprintf(weights, sizeof weights, "weights %" PRIu64,
             f->plan->segment_bytes[RLX_SEGMENT_WEIGHTS]);
    snprintf(scratch_text, sizeof scratch_text, "scratch %" PRIu64,
             f->plan->segment_bytes[RLX_SEGMENT_SCRATCH]);
    assert_text_has(last_message, weights);
    assert_text_has(last_message, scratch_text);
    rlx_arena_destroy(arena);
}

static rlx_status make_and_destroy(const rlx_allocator *allocator, void *argument) {
    fixture *f = argument;
    rlx_arena_request request = {.plan = f->plan, .allocator = allocator};
    rlx_arena *arena = NULL;
    RLX_TRY(maker->create(maker->user, &request, &arena));
    rlx_arena_destroy(arena);
    return RLX_OK;
}

static void creation_survives_every_failed_allocation(void **state) {
    assert_true(rlx_test_every_allocation_fails(make_and_destroy, *state) > 0);
}

int arena_suite_run(const arena_maker *under_test) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_fresh_arena_is_zero),
        CASE(queries_about_unknown_slots_never_fail),
        CASE(slots_have_one_offset_space),
        CASE(capacities_count_bytes_and_elements),
        CASE(every_dtype_is_written_and_read_as_f32),
        CASE(special_numbers_follow_the_rules),
        CASE(a_short_write_leaves_the_rest),
        CASE(nothing_is_a_legal_amount),
        CASE(too_much_is_refused_and_nothing_written),
        CASE(truncation_happens_only_by_flag),
        CASE(strided_slots_are_in_logical_order),
        CASE(four_bit_elements_go_one_by_one),
        CASE(block_types_move_in_whole_blocks),
        CASE(copies_inside_the_arena_behave_like_memmove),
        CASE(wrong_copies_are_refused),
        CASE(copies_of_strided_slots_follow_the_logical_order),
        CASE(packed_slots_show_their_bytes_and_are_not_copied),
        CASE(an_arena_moves_between_threads),
        CASE(the_twin_gets_everything),
        CASE(an_arena_of_another_plan_is_no_twin),
        CASE(shared_weights_are_read_only),
        CASE(reads_anywhere_cross_segments),
        CASE(true_sizes_are_read_row_by_row),
        CASE(a_plan_of_zero_bytes_is_legal),
        CASE(host_access_while_the_device_works_is_refused),
        CASE(a_slot_that_is_being_filled_is_refused_and_no_other),
        CASE(creating_one_logs_bytes_per_segment),
        CASE(creation_survives_every_failed_allocation),
    };
    maker = under_test;
    return cmocka_run_group_tests_name(under_test->name, tests, NULL, NULL);
}
