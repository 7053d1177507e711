/* SPDX-License-Identifier: Apache-2.0 */
/* The double buffer and the ring, on engines that are held back where it matters. */
#include "driver/copy.h"
#include "support/hand_plan.h"
#include "support/support.h"

#include "driver/arena.h"

#include <errno.h>

enum { TILE = 300000, TILES = 9, TAIL = 1234, DATA = (TILES - 1) * TILE + TAIL };

static uint8_t data[DATA];
static uint8_t memory[4][TILE];
static _Atomic uint32_t gate_open;

static int fill_data(void **state) {
    rlx_test_random random = rlx_test_seed(3);
    (void)state;
    for (size_t i = 0; i < DATA; ++i) {
        data[i] = (uint8_t)rlx_test_next(&random);
    }
    return 0;
}

static void stand_at_gate(void *user) {
    (void)user;
    while (atomic_load(&gate_open) == 0) {
        rlx_futex_wait(&gate_open, 0, UINT64_MAX);
    }
}

static rlx_copy_engine *make_engine(bool is_held) {
    rlx_copy_options options = {.size = sizeof options, .inline_bytes = 1};
    rlx_copy_engine *engine = NULL;
    assert_ok(rlx_copy_engine_create_thread(NULL, &options, &engine));
    atomic_store(&gate_open, !is_held);
    rlx_copy_set_hooks(engine, &(rlx_copy_hooks){.gate = stand_at_gate});
    return engine;
}

static void open_gate(void) {
    atomic_store(&gate_open, 1);
    rlx_futex_wake(&gate_open, UINT32_MAX);
}

static rlx_copy_source tile_source(uint64_t tile) {
    return (rlx_copy_source){.memory = data + tile * TILE};
}

static uint64_t tile_bytes(uint64_t tile) {
    return tile == TILES - 1 ? TAIL : TILE;
}

static void sides_change_places_and_the_pair_does_not(void **state) {
    rlx_double_buffer buffer;
    rlx_buffer_thing thing, pair[2];
    (void)state;
    rlx_double_buffer_init(&buffer, NULL, (rlx_buffer_thing){.slot = 7},
                           (rlx_buffer_thing){.slot = 8});
    assert_ok(rlx_double_buffer_current(&buffer, &thing));
    assert_int_equal(thing.slot, 7);
    assert_int_equal(rlx_double_buffer_next(&buffer).slot, 8);
    rlx_double_buffer_swap(&buffer);
    assert_ok(rlx_double_buffer_wait(&buffer, 0));
    assert_ok(rlx_double_buffer_current(&buffer, &thing));
    assert_int_equal(thing.slot, 8);
    assert_int_equal(rlx_double_buffer_next(&buffer).slot, 7);
    rlx_double_buffer_pair(&buffer, pair);
    assert_int_equal(pair[0].slot, 7);
    assert_int_equal(pair[1].slot, 8);
}

static void current_is_refused_while_its_copy_is_pending(void **state) {
    rlx_copy_engine *engine = make_engine(true);
    rlx_double_buffer buffer;
    rlx_buffer_thing thing = {.pointer = NULL};
    rlx_copy_token token;
    (void)state;
    rlx_double_buffer_init(&buffer, engine, (rlx_buffer_thing){.pointer = memory[0]},
                           (rlx_buffer_thing){.pointer = memory[1]});
    assert_ok(rlx_copy_issue(engine, tile_source(0), rlx_double_buffer_next(&buffer).pointer, TILE,
                             &token));
    rlx_double_buffer_record(&buffer, RLX_BUFFER_NEXT, token);
    assert_ok(rlx_double_buffer_current(&buffer, &thing)); /* the other side is free */
    rlx_double_buffer_swap(&buffer);                       /* does not wait */
    assert_status(RLX_BUSY, rlx_double_buffer_current(&buffer, &thing));
    assert_error_has("still pending");
    assert_ptr_equal(thing.pointer, memory[0]);
    assert_status(RLX_TIMEOUT, rlx_double_buffer_wait(&buffer, 1000));
    open_gate();
    assert_ok(rlx_double_buffer_wait(&buffer, UINT64_MAX));
    assert_ok(rlx_double_buffer_current(&buffer, &thing));
    assert_ptr_equal(thing.pointer, memory[1]);
    assert_memory_equal(thing.pointer, data, TILE);
    rlx_copy_engine_destroy(engine);
}

static int64_t always_fail(void *user, uint64_t offset, uint64_t bytes, int64_t result) {
    (void)user, (void)offset, (void)bytes, (void)result;
    return -EIO;
}

static rlx_copy_engine *make_failing_engine(rlx_test_folder *folder, rlx_copy_file **out_file) {
    rlx_copy_engine *engine = NULL;
    rlx_test_folder_create(folder);
    rlx_test_write_file(rlx_test_path(folder, "tiles"), data, DATA);
    assert_ok(rlx_copy_file_open(NULL, rlx_test_path(folder, "tiles"), out_file));
    assert_ok(rlx_copy_engine_create_thread(NULL, NULL, &engine));
    rlx_copy_set_hooks(engine, &(rlx_copy_hooks){.result = always_fail});
    return engine;
}

static void current_is_refused_when_its_copy_failed(void **state) {
    rlx_test_folder folder;
    rlx_copy_file *file = NULL;
    rlx_copy_engine *engine = make_failing_engine(&folder, &file);
    rlx_double_buffer buffer;
    rlx_buffer_thing thing;
    rlx_copy_token token;
    (void)state;
    rlx_double_buffer_init(&buffer, engine, (rlx_buffer_thing){.pointer = memory[0]},
                           (rlx_buffer_thing){.pointer = memory[1]});
    assert_ok(rlx_copy_issue(engine, (rlx_copy_source){.file = file}, memory[0], TILE, &token));
    rlx_double_buffer_record(&buffer, RLX_BUFFER_CURRENT, token);
    assert_status(RLX_IO, rlx_double_buffer_wait(&buffer, UINT64_MAX));
    assert_status(RLX_IO, rlx_double_buffer_current(&buffer, &thing));
    assert_error_has("cannot read");
    rlx_double_buffer_record(&buffer, RLX_BUFFER_CURRENT, (rlx_copy_token){0});
    assert_ok(rlx_double_buffer_current(&buffer, &thing));
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
    rlx_test_folder_remove(&folder);
}

/* Issue tile k + 1, compute on tile k, swap, wait: primed through `current`. */
static void the_pipelined_pattern_never_sees_garbage(void **state) {
    rlx_copy_engine *engine = make_engine(false);
    rlx_double_buffer buffer;
    rlx_buffer_thing thing;
    rlx_copy_token token;
    (void)state;
    rlx_double_buffer_init(&buffer, engine, (rlx_buffer_thing){.pointer = memory[0]},
                           (rlx_buffer_thing){.pointer = memory[1]});
    assert_ok(rlx_double_buffer_current(&buffer, &thing));
    memcpy(thing.pointer, data, TILE);
    for (uint64_t tile = 0; tile < TILES; ++tile) {
        if (tile + 1 < TILES) {
            assert_ok(rlx_copy_issue(engine, tile_source(tile + 1),
                                     rlx_double_buffer_next(&buffer).pointer, tile_bytes(tile + 1),
                                     &token));
            rlx_double_buffer_record(&buffer, RLX_BUFFER_NEXT, token);
        }
        assert_ok(rlx_double_buffer_current(&buffer, &thing));
        assert_memory_equal(thing.pointer, data + tile * TILE, tile_bytes(tile));
        rlx_double_buffer_swap(&buffer);
        assert_ok(rlx_double_buffer_wait(&buffer, UINT64_MAX));
    }
    rlx_copy_engine_destroy(engine);
}

static rlx_ring *make_ring(rlx_copy_engine *engine, uint32_t count) {
    void *stages[4] = {memory[0], memory[1], memory[2], memory[3]};
    rlx_ring *ring = NULL;
    assert_ok(rlx_ring_create(NULL, engine, stages, count, TILE, &ring));
    return ring;
}

static void fill_stage(rlx_ring *ring, uint64_t tile) {
    uint64_t half = tile_bytes(tile) / 2;
    rlx_copy_source second = {.memory = data + tile * TILE + half};
    assert_ok(rlx_ring_acquire(ring));
    assert_ok(rlx_ring_issue(ring, tile_source(tile), half));
    assert_ok(rlx_ring_issue(ring, second, tile_bytes(tile) - half));
    assert_ok(rlx_ring_commit(ring));
}

static void a_ring_of_any_depth_hands_out_tiles_in_order(void **state) {
    rlx_copy_engine *engine = make_engine(false);
    (void)state;
    for (uint32_t depth = 1; depth <= 4; ++depth) {
        rlx_ring *ring = make_ring(engine, depth);
        uint64_t filled = 0;
        for (uint64_t tile = 0; tile < TILES; ++tile) {
            rlx_ring_tile got;
            while (filled < TILES && filled < tile + depth) {
                fill_stage(ring, filled++);
            }
            assert_ok(rlx_ring_wait(ring, UINT64_MAX, &got));
            assert_int_equal(got.index, tile);
            assert_int_equal(got.stage, tile % depth);
            assert_int_equal(got.bytes, tile_bytes(tile));
            assert_memory_equal(got.data, data + tile * TILE, got.bytes);
            assert_ok(rlx_ring_release(ring));
        }
        rlx_ring_destroy(ring);
    }
    rlx_copy_engine_destroy(engine);
}

static void a_ring_out_of_order_is_refused_and_never_hangs(void **state) {
    rlx_copy_engine *engine = make_engine(false);
    rlx_ring *ring = make_ring(engine, 2);
    rlx_ring_tile tile;
    (void)state;
    assert_status(RLX_INVALID_ARGUMENT, rlx_ring_wait(ring, UINT64_MAX, &tile));
    assert_status(RLX_INVALID_ARGUMENT, rlx_ring_release(ring));
    assert_status(RLX_INVALID_ARGUMENT, rlx_ring_commit(ring));
    assert_status(RLX_INVALID_ARGUMENT, rlx_ring_issue(ring, tile_source(0), 1));
    assert_ok(rlx_ring_acquire(ring));
    assert_status(RLX_BUSY, rlx_ring_acquire(ring));
    assert_status(RLX_OUT_OF_BOUNDS, rlx_ring_issue(ring, tile_source(0), TILE + 1));
    assert_ok(rlx_ring_issue(ring, tile_source(0), TILE));
    assert_status(RLX_OUT_OF_BOUNDS, rlx_ring_issue(ring, tile_source(1), 1));
    assert_status(RLX_INVALID_ARGUMENT, rlx_ring_wait(ring, UINT64_MAX, &tile));
    assert_ok(rlx_ring_commit(ring));
    fill_stage(ring, 1);
    assert_status(RLX_BUSY, rlx_ring_acquire(ring));
    assert_error_has("all 2 stages");
    assert_ok(rlx_ring_wait(ring, UINT64_MAX, &tile));
    assert_status(RLX_BUSY, rlx_ring_acquire(ring)); /* handed out is still in use */
    assert_ok(rlx_ring_release(ring));
    assert_ok(rlx_ring_acquire(ring)); /* an empty tile */
    assert_ok(rlx_ring_commit(ring));
    assert_ok(rlx_ring_wait(ring, UINT64_MAX, &tile));
    assert_ok(rlx_ring_wait(ring, UINT64_MAX, &tile));
    assert_int_equal(tile.bytes, 0);
    rlx_ring_destroy(ring);
    rlx_copy_engine_destroy(engine);
}

static void a_ring_waits_no_longer_than_asked_and_drains(void **state) {
    rlx_copy_engine *engine = make_engine(true);
    rlx_ring *ring = make_ring(engine, 3);
    rlx_ring_tile tile;
    (void)state;
    fill_stage(ring, 0);
    fill_stage(ring, 1);
    assert_status(RLX_TIMEOUT, rlx_ring_wait(ring, 1000, &tile));
    open_gate();
    assert_ok(rlx_ring_wait(ring, UINT64_MAX, &tile));
    assert_int_equal(tile.index, 0);
    assert_ok(rlx_ring_drain(ring));
    assert_memory_equal(memory[1], data + TILE, TILE);
    for (uint64_t i = 0; i < 3; ++i) {
        fill_stage(ring, i); /* all free again */
    }
    rlx_ring_destroy(ring);
    rlx_copy_engine_destroy(engine);
}

static void a_failed_tile_is_reported_and_the_ring_goes_on(void **state) {
    rlx_test_folder folder;
    rlx_copy_file *file = NULL;
    rlx_copy_engine *engine = make_failing_engine(&folder, &file);
    rlx_ring *ring = make_ring(engine, 2);
    rlx_ring_tile tile;
    (void)state;
    assert_ok(rlx_ring_acquire(ring));
    assert_ok(rlx_ring_issue(ring, (rlx_copy_source){.file = file}, TILE));
    assert_ok(rlx_ring_commit(ring));
    fill_stage(ring, 1);
    assert_status(RLX_IO, rlx_ring_wait(ring, UINT64_MAX, &tile));
    assert_error_has("tile 0: ");
    assert_ok(rlx_ring_release(ring));
    assert_ok(rlx_ring_wait(ring, UINT64_MAX, &tile));
    assert_int_equal(tile.index, 1);
    assert_memory_equal(tile.data, data + TILE, TILE);
    assert_ok(rlx_ring_acquire(ring));
    assert_ok(rlx_ring_issue(ring, (rlx_copy_source){.file = file}, TILE));
    assert_status(RLX_IO, rlx_ring_drain(ring));
    rlx_ring_destroy(ring);
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
    rlx_test_folder_remove(&folder);
}

static void a_ring_over_arena_slots_fills_them(void **state) {
    rlx_copy_engine *engine = make_engine(false);
    hand_plan hand;
    uint32_t slots[3];
    rlx_plan *plan;
    rlx_arena *arena = NULL;
    rlx_ring *ring = NULL;
    rlx_ring_tile tile;
    (void)state;
    hand_begin(&hand, 1);
    slots[0] =
        hand_slot(&hand, RLX_SEGMENT_STATE, RLX_VALUE_STATE, "a", RLX_DTYPE_F32, HAND_DIMS(1000));
    slots[1] =
        hand_slot(&hand, RLX_SEGMENT_STATE, RLX_VALUE_STATE, "b", RLX_DTYPE_F32, HAND_DIMS(900));
    slots[2] = 99;
    plan = hand_finish(&hand);
    assert_ok(rlx_arena_create_host(&(rlx_arena_request){.plan = plan}, "test", &arena));
    assert_status(RLX_NOT_FOUND, rlx_ring_create_slots(NULL, engine, arena, slots, 3, &ring));
    assert_error_has("slot 99");
    assert_ok(rlx_ring_create_slots(NULL, engine, arena, slots, 2, &ring));
    assert_ok(rlx_ring_acquire(ring));
    assert_status(RLX_OUT_OF_BOUNDS, rlx_ring_issue(ring, tile_source(0), 3601));
    assert_ok(rlx_ring_issue(ring, tile_source(0), 3600));
    assert_ok(rlx_ring_commit(ring));
    assert_ok(rlx_ring_wait(ring, UINT64_MAX, &tile));
    assert_ptr_equal(tile.data, rlx_arena_address(arena, slots[0]));
    assert_memory_equal(tile.data, data, 3600);
    rlx_ring_destroy(ring);
    rlx_arena_destroy(arena);
    rlx_plan_destroy(plan);
    rlx_copy_engine_destroy(engine);
}

/* From acquire until the end of the copy was seen, at wait or at drain. */
static void host_access_to_a_slot_waits_for_its_copy(void **state) {
    rlx_copy_engine *engine = make_engine(true);
    hand_plan hand;
    uint32_t slots[2];
    rlx_plan *plan;
    rlx_arena *arena = NULL;
    rlx_ring *ring = NULL;
    rlx_ring_tile tile;
    float out[2];
    (void)state;
    hand_begin(&hand, 1);
    for (int i = 0; i < 2; ++i) {
        slots[i] = hand_slot(&hand, RLX_SEGMENT_STATE, RLX_VALUE_STATE, i == 0 ? "a" : "b",
                             RLX_DTYPE_F32, HAND_DIMS(1000));
    }
    plan = hand_finish(&hand);
    assert_ok(rlx_arena_create_host(&(rlx_arena_request){.plan = plan}, "test", &arena));
    assert_ok(rlx_ring_create_slots(NULL, engine, arena, slots, 2, &ring));
    assert_ok(rlx_arena_read_f32(arena, slots[0], 0, out, 2, 0, NULL));
    assert_ok(rlx_ring_acquire(ring));
    assert_ok(rlx_ring_issue(ring, tile_source(0), 4000));
    assert_ok(rlx_ring_commit(ring));
    assert_status(RLX_BUSY, rlx_arena_read_f32(arena, slots[0], 0, out, 2, 0, NULL));
    assert_error_has("slot 'a': a copy is filling 4000 bytes");
    assert_ok(rlx_arena_write_f32(arena, slots[1], 0, out, 2, 0, NULL));
    assert_status(RLX_TIMEOUT, rlx_ring_wait(ring, 1000, &tile));
    assert_status(RLX_BUSY, rlx_arena_write_f32(arena, slots[0], 0, out, 2, 0, NULL));
    open_gate();
    assert_ok(rlx_ring_wait(ring, UINT64_MAX, &tile));
    assert_ok(rlx_arena_read_bytes(arena, slots[0], 0, out, sizeof out, 0, NULL));
    assert_memory_equal(out, data, sizeof out);
    assert_ok(rlx_ring_acquire(ring));
    assert_status(RLX_BUSY, rlx_arena_read_f32(arena, slots[1], 0, out, 2, 0, NULL));
    rlx_ring_destroy(ring);
    assert_ok(rlx_arena_read_f32(arena, slots[1], 0, out, 2, 0, NULL));
    rlx_arena_destroy(arena);
    rlx_plan_destroy(plan);
    rlx_copy_engine_destroy(engine);
}

static rlx_status create_ring(const rlx_allocator *allocator, void *argument) {
    void *stages[2] = {memory[0], memory[1]};
    rlx_ring *ring = NULL;
    rlx_status status = rlx_ring_create(allocator, argument, stages, 2, TILE, &ring);
    rlx_ring_destroy(ring);
    return status;
}

static void impossible_rings_are_refused(void **state) {
    rlx_copy_engine *engine = make_engine(false);
    void *stages[2] = {memory[0], NULL};
    rlx_ring *ring = NULL;
    (void)state;
    assert_status(RLX_INVALID_ARGUMENT, rlx_ring_create(NULL, engine, stages, 0, TILE, &ring));
    assert_status(RLX_INVALID_ARGUMENT, rlx_ring_create(NULL, engine, stages, 2, TILE, &ring));
    assert_status(RLX_INVALID_ARGUMENT, rlx_ring_create(NULL, NULL, stages, 1, TILE, &ring));
    assert_status(RLX_INVALID_ARGUMENT, rlx_ring_create(NULL, engine, NULL, 1, TILE, &ring));
    assert_int_equal(rlx_test_every_allocation_fails(create_ring, engine), 1);
    rlx_ring_destroy(NULL);
    rlx_copy_engine_destroy(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sides_change_places_and_the_pair_does_not),
        cmocka_unit_test(current_is_refused_while_its_copy_is_pending),
        cmocka_unit_test(current_is_refused_when_its_copy_failed),
        cmocka_unit_test(the_pipelined_pattern_never_sees_garbage),
        cmocka_unit_test(a_ring_of_any_depth_hands_out_tiles_in_order),
        cmocka_unit_test(a_ring_out_of_order_is_refused_and_never_hangs),
        cmocka_unit_test(a_ring_waits_no_longer_than_asked_and_drains),
        cmocka_unit_test(a_failed_tile_is_reported_and_the_ring_goes_on),
        cmocka_unit_test(a_ring_over_arena_slots_fills_them),
        cmocka_unit_test(host_access_to_a_slot_waits_for_its_copy),
        cmocka_unit_test(impossible_rings_are_refused),
    };
    return cmocka_run_group_tests_name("double buffer and ring", tests, fill_data, NULL);
}
