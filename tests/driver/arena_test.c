/* SPDX-License-Identifier: Apache-2.0 */
/* The host arena: the conformance suite, three times (own memory, through the CPU device, and with
 * an arena that hides its addresses so that the staged paths run), and memory of the caller. */
#include "conformance/arena_suite.h"
#include "driver/device.h"
#include "support/hand_plan.h"
#include "support/support.h"

static rlx_status create_host(void *user, const rlx_arena_request *request, rlx_arena **out_arena) {
    return rlx_arena_create_host(request, user, out_arena);
}

static rlx_status create_on_device(void *user, const rlx_arena_request *request,
                                   rlx_arena **out_arena) {
    return rlx_device_create_arena(user, request, out_arena);
}

/* A device without mapped memory, as the wrappers see it: the addresses are there, but only its own
 * methods know them. */
typedef struct hidden_arena {
    rlx_arena base;
    rlx_arena *host;
} hidden_arena;

static rlx_status hidden_read(rlx_arena *base, rlx_segment segment, uint64_t offset,
                              void *destination, uint64_t bytes) {
    rlx_arena *host = ((hidden_arena *)base)->host;
    return host->ops->read(host, segment, offset, destination, bytes);
}

static rlx_status hidden_write(rlx_arena *base, rlx_segment segment, uint64_t offset,
                               const void *source, uint64_t bytes) {
    rlx_arena *host = ((hidden_arena *)base)->host;
    return host->ops->write(host, segment, offset, source, bytes);
}

static rlx_status hidden_copy(rlx_arena *base, rlx_segment from, uint64_t from_offset,
                              rlx_segment to, uint64_t to_offset, uint64_t bytes) {
    rlx_arena *host = ((hidden_arena *)base)->host;
    return host->ops->copy(host, from, from_offset, to, to_offset, bytes);
}

static rlx_status hidden_fill(rlx_arena *base, rlx_segment segment, uint64_t offset, uint64_t bytes,
                              uint8_t value) {
    rlx_arena *host = ((hidden_arena *)base)->host;
    return host->ops->fill(host, segment, offset, bytes, value);
}

static void hidden_destroy(rlx_arena *base) {
    rlx_allocator allocator = base->allocator;
    rlx_arena_destroy(((hidden_arena *)base)->host);
    rlx_free(&allocator, base);
}

static const rlx_arena_ops hidden_ops = {"hidden",     hidden_destroy, hidden_read,
                                         hidden_write, hidden_copy,    hidden_fill};

static rlx_status create_hidden(void *user, const rlx_arena_request *request,
                                rlx_arena **out_arena) {
    hidden_arena *self = NULL;
    rlx_status status;
    RLX_TRY(rlx_alloc_zero(request->allocator, sizeof *self, (void **)&self));
    status = rlx_arena_create_host(request, user, &self->host);
    if (status != RLX_OK) {
        rlx_free(request->allocator, self);
        return status;
    }
    memcpy(&self->base, self->host, sizeof self->base);
    self->base.ops = &hidden_ops;
    memset(self->base.address, 0, sizeof self->base.address);
    *out_arena = &self->base;
    return RLX_OK;
}

static rlx_plan *small_plan(void) {
    hand_plan hand;
    hand_begin(&hand, 1);
    hand_slot(&hand, RLX_SEGMENT_STATE, RLX_VALUE_STATE, "k", RLX_DTYPE_F32, HAND_DIMS(16));
    hand_end_prepare(&hand);
    hand_end_entry(&hand, "main", HAND_NO_PORTS, NULL, HAND_NO_PORTS);
    return hand_finish(&hand);
}

static void memory_of_the_caller_is_used_and_zeroed(void **state) {
    _Alignas(64) uint8_t memory[64];
    rlx_arena_request request = {.plan = small_plan()};
    rlx_arena *arena = NULL;
    (void)state;
    memset(memory, 7, sizeof memory);
    request.memory[RLX_SEGMENT_STATE] = (rlx_arena_memory){memory, sizeof memory};
    assert_ok(rlx_arena_create_host(&request, "test", &arena));
    assert_ptr_equal(rlx_arena_address(arena, 0), memory);
    assert_int_equal(memory[63], 0);
    assert_ok(rlx_arena_write_f32(arena, 0, 0, (float[]){1}, 1, 0, NULL));
    assert_true(*(float *)(void *)memory == 1);
    rlx_arena_destroy(arena);
    assert_true(*(float *)(void *)memory == 1); /* still the caller's */
    union {
        const rlx_plan *in;
        rlx_plan *out;
    } plan = {.in = request.plan};
    rlx_plan_destroy(plan.out);
}

static void memory_that_does_not_fit_is_refused(void **state) {
    _Alignas(64) uint8_t memory[128];
    rlx_plan *plan = small_plan();
    rlx_arena_request request = {.plan = plan};
    rlx_arena *arena = NULL;
    (void)state;
    request.memory[RLX_SEGMENT_STATE] = (rlx_arena_memory){memory, 63};
    assert_status(RLX_DOES_NOT_FIT, rlx_arena_create_host(&request, "test", &arena));
    assert_error_has("state memory: 63 bytes given, 64 needed");
    request.memory[RLX_SEGMENT_STATE] = (rlx_arena_memory){memory + 8, 120};
    assert_status(RLX_DOES_NOT_FIT, rlx_arena_create_host(&request, "test", &arena));
    assert_error_has("not aligned to 64");
    assert_null(arena);
    rlx_plan_destroy(plan);
}

static void an_unmapped_arena_has_no_addresses(void **state) {
    rlx_plan *plan = small_plan();
    rlx_arena_request request = {.plan = plan};
    rlx_arena *arena = NULL;
    (void)state;
    assert_ok(create_hidden("test", &request, &arena));
    assert_null(rlx_arena_address(arena, 0));
    assert_null(rlx_arena_tensor(arena, 0).data);
    rlx_arena_destroy(arena);
    rlx_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_the_caller_is_used_and_zeroed),
        cmocka_unit_test(memory_that_does_not_fit_is_refused),
        cmocka_unit_test(an_unmapped_arena_has_no_addresses),
    };
    char name[] = "test";
    rlx_device *device = NULL;
    int failed;
    if (rlx_device_open("cpu", NULL, &device) != RLX_OK) return 1;
    failed = arena_suite_run(&(arena_maker){"host arena", create_host, name});
    failed += arena_suite_run(&(arena_maker){"arena of the cpu device", create_on_device, device});
    failed += arena_suite_run(&(arena_maker){"arena without addresses", create_hidden, name});
    failed += cmocka_run_group_tests_name("memory of the caller", tests, NULL, NULL);
    rlx_device_release(device);
    return failed;
}
