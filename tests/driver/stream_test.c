/* SPDX-License-Identifier: Apache-2.0 */
/* The wrappers of a command stream, over a device that takes its time: from submit to wait the host
 * keeps out of the arena. */
#include "driver/stream.h"
#include "support/hand_plan.h"
#include "support/support.h"

/* What a slow device was asked to do. */
typedef struct slow_stream {
    rlx_stream base;
    uint32_t submits, waits;
    rlx_status answer; /* of submit */
    bool is_destroyed;
} slow_stream;

static rlx_status slow_prepare(rlx_stream *base, uint32_t first_step, uint32_t step_count,
                               rlx_stretch **out_stretch) {
    rlx_stretch *stretch = test_calloc(1, sizeof *stretch);
    *stretch = (rlx_stretch){base, first_step, step_count};
    *out_stretch = stretch;
    return RLX_OK;
}

static void slow_release(rlx_stream *base, rlx_stretch *stretch) {
    (void)base;
    test_free(stretch);
}

static rlx_status slow_submit(rlx_stream *base, rlx_stretch *stretch, rlx_step_time *times) {
    slow_stream *self = (slow_stream *)base;
    (void)stretch, (void)times;
    self->submits++;
    return self->answer == RLX_OK ? RLX_OK : RLX_FAIL(self->answer, "no");
}

static rlx_status slow_wait(rlx_stream *base) {
    ((slow_stream *)base)->waits++;
    return RLX_OK;
}

static void slow_destroy(rlx_stream *base) {
    ((slow_stream *)base)->is_destroyed = true;
}

static const rlx_stream_ops slow_ops = {slow_destroy, slow_prepare, slow_release,
                                        slow_submit,  slow_wait,    NULL};

typedef struct fixture {
    rlx_plan *plan;
    rlx_arena *arena;
    slow_stream stream;
    rlx_stretch *stretch;
} fixture;

static int setup(void **state) {
    fixture *f = test_calloc(1, sizeof *f);
    hand_plan hand;
    hand_begin(&hand, 1);
    hand_slot(&hand, RLX_SEGMENT_STATE, RLX_VALUE_STATE, "k", RLX_DTYPE_F32, HAND_DIMS(16));
    hand_end_prepare(&hand);
    hand_end_entry(&hand, "main", HAND_NO_PORTS, NULL, HAND_NO_PORTS);
    f->plan = hand_finish(&hand);
    assert_ok(rlx_arena_create_host(&(rlx_arena_request){.plan = f->plan}, "test", &f->arena));
    f->stream.base = (rlx_stream){.ops = &slow_ops, .arena = f->arena};
    assert_ok(rlx_stream_prepare(&f->stream.base, 0, 0, &f->stretch));
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    rlx_stream_release(&f->stream.base, f->stretch);
    rlx_arena_destroy(f->arena);
    rlx_plan_destroy(f->plan);
    test_free(f);
    return 0;
}

static rlx_status read_slot(fixture *f) {
    float out[1];
    return rlx_arena_read_f32(f->arena, 0, 0, out, 1, 0, NULL);
}

static void a_pending_stretch_keeps_the_host_out(void **state) {
    fixture *f = *state;
    assert_ok(read_slot(f));
    assert_ok(rlx_stream_submit(&f->stream.base, f->stretch, NULL));
    assert_ok(rlx_stream_submit(&f->stream.base, f->stretch, NULL));
    assert_status(RLX_BUSY, read_slot(f));
    assert_error_has("wait for it first");
    assert_status(RLX_BUSY, rlx_arena_write_bytes(f->arena, 0, 0, "abcd", 4, 0, NULL));
    assert_ok(rlx_stream_wait(&f->stream.base));
    assert_int_equal(f->stream.waits, 1);
    assert_ok(read_slot(f));
    assert_ok(rlx_stream_wait(&f->stream.base)); /* nothing to wait for */
    assert_int_equal(f->stream.waits, 1);
}

static void a_stretch_that_was_refused_is_not_pending(void **state) {
    fixture *f = *state;
    f->stream.answer = RLX_DEVICE;
    assert_status(RLX_DEVICE, rlx_stream_submit(&f->stream.base, f->stretch, NULL));
    assert_ok(read_slot(f));
}

static void destroying_a_stream_waits_first(void **state) {
    fixture *f = *state;
    assert_ok(rlx_stream_submit(&f->stream.base, f->stretch, NULL));
    rlx_stream_destroy(&f->stream.base);
    assert_int_equal(f->stream.waits, 1);
    assert_true(f->stream.is_destroyed);
    assert_ok(read_slot(f));
    rlx_stream_destroy(NULL);
}

static void foreign_stretches_and_steps_are_refused(void **state) {
    fixture *f = *state;
    slow_stream other = {.base = {.ops = &slow_ops, .arena = f->arena}};
    rlx_stretch *stretch = NULL;
    assert_status(RLX_INVALID_ARGUMENT, rlx_stream_submit(&other.base, f->stretch, NULL));
    assert_error_has("another stream");
    assert_status(RLX_OUT_OF_BOUNDS, rlx_stream_prepare(&other.base, 0, 9, &stretch));
    assert_status(RLX_OUT_OF_BOUNDS, rlx_stream_prepare(&other.base, UINT32_MAX, 2, &stretch));
    assert_null(stretch);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_pending_stretch_keeps_the_host_out),
        CASE(a_stretch_that_was_refused_is_not_pending),
        CASE(destroying_a_stream_waits_first),
        CASE(foreign_stretches_and_steps_are_refused),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
