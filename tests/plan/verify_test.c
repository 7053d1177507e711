/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier: good plans pass; a plan with one thing broken is refused, and the text says which
 * rule. One row per rule. */
#include "build.h"
#include "support/support.h"

#include "base/thread.h"
#include "ref/kernel.h"

_Static_assert((int)RLX_PLAN_FAULT_CODES == (int)RLX_FAULT_CODES, "plan.h repeats the number");

typedef rlx_status (*build_fn)(const rlx_allocator *allocator, rlx_plan **out_plan);

typedef struct mutation {
    const char *name;
    const char *text; /* part of the refusal */
    build_fn build;
    void (*apply)(rlx_plan *plan);
} mutation;

static void good_plans_pass(void **state) {
    (void)state;
    static const build_fn builds[] = {build_two_entries, build_loop};
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++) {
        rlx_plan *plan = NULL;
        assert_ok(builds[i](NULL, &plan));
        assert_ok(rlx_plan_verify(plan));
        rlx_plan_destroy(plan);
    }
}

static void an_empty_plan_passes(void **state) {
    (void)state;
    plan_builder builder;
    builder_begin(&builder, NULL);
    rlx_plan_hash_state(builder.plan);
    assert_ok(rlx_plan_verify(builder.plan));
    rlx_plan_destroy(builder.plan);
    assert_status(RLX_INVALID_ARGUMENT, rlx_plan_verify(NULL));
}

#define MUTATION(name, build, text, code)      \
    static void apply_##name(rlx_plan *plan) { \
        code;                                  \
    }
#include "mutations.def"
#undef MUTATION

static const mutation mutations[] = {
#define MUTATION(name, build, text, code) {#name, text, build, apply_##name},
#include "mutations.def"
#undef MUTATION
};

static void a_broken_rule_is_named(void **state) {
    (void)state;
    uint32_t wrong = 0;
    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
        rlx_plan *plan = NULL;
        assert_ok(mutations[i].build(NULL, &plan));
        mutations[i].apply(plan);
        rlx_status status = rlx_plan_verify(plan);
        if (status != RLX_INVALID_PLAN || strstr(rlx_last_error(), mutations[i].text) == NULL) {
            print_error("%s: expected '%s', got status %d '%s'\n", mutations[i].name,
                        mutations[i].text, (int)status, status == RLX_OK ? "" : rlx_last_error());
            wrong++;
        }
        rlx_plan_destroy(plan);
    }
    assert_int_equal(wrong, 0);
}

/* Column blocks of one buffer, negative strides, a step in place: all legal. */
static void views_that_do_not_meet_are_allowed(void **state) {
    (void)state;
    rlx_plan *plan = NULL;
    assert_ok(build_two_entries(NULL, &plan));
    rlx_plan_slot *h = &plan->slots.items[S_H], *y = &plan->slots.items[S_Y];
    plan->buffers.items[B_H].bytes = 64;
    plan->buffers.items[B_H].last_step = 3;
    h->strides[0] = y->strides[0] = 8;
    y->buffer = B_H;
    y->byte_offset = 16;
    plan->entries.items[0].output_count = 0; /* y is not plain now */
    assert_ok(rlx_plan_verify(plan));
    y->strides[1] = -1; /* from the right end of its columns */
    y->byte_offset = 28;
    assert_ok(rlx_plan_verify(plan));
    y->byte_offset = 24; /* one column too far to the left */
    assert_status(RLX_INVALID_PLAN, rlx_plan_verify(plan));
    assert_error_has("overlaps input 0");
    rlx_plan_destroy(plan);
}

static void fifty_thousand_buffers_are_checked_quickly(void **state) {
    (void)state;
    rlx_plan *plan = NULL;
    assert_ok(build_chain(NULL, 50000, &plan));
    assert_ok(rlx_plan_verify(plan)); /* a quadratic check would run into the test's timeout */
    plan->buffers.items[30000].offset = 64 + 4096;
    assert_status(RLX_INVALID_PLAN, rlx_plan_verify(plan));
    assert_error_has("overlap in segment 2");
    rlx_plan_destroy(plan);
}

/* Random lives and places: the sweep agrees with a look at every pair. */
static void the_sweep_agrees_with_all_pairs(void **state) {
    (void)state;
    rlx_test_random random = rlx_test_seed(5);
    uint32_t refused = 0;
    for (uint32_t trial = 0; trial < 500; trial++) {
        plan_builder builder, *b = &builder;
        uint32_t count = 2 + (uint32_t)rlx_test_below(&random, 12), steps = 20;
        bool meet = false;
        builder_begin(b, NULL);
        for (uint32_t i = 0; i < steps; i++)
            builder_jump(b, steps, RLX_NONE, 0);
        assert_ok(rlx_vec_push(NULL, &b->plan->entries,
                               ((rlx_plan_entry){.name = "main",
                                                 .bindings = "",
                                                 .placed_by = "",
                                                 .step_count = steps,
                                                 .scratch_bytes = 1 << 20})));
        b->plan->segment_bytes[RLX_SEGMENT_SCRATCH] = 1 << 20;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t first = (uint32_t)rlx_test_below(&random, steps);
            uint32_t last = first + (uint32_t)rlx_test_below(&random, steps - first);
            builder_buffer(b, RLX_SEGMENT_SCRATCH, rlx_test_below(&random, 8) == 0 ? RLX_NONE : 0,
                           64 * (1 + rlx_test_below(&random, 80)), rlx_test_below(&random, 400),
                           first, last);
        }
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t k = 0; k < i; k++) {
                rlx_plan_buffer *p = &b->plan->buffers.items[i], *q = &b->plan->buffers.items[k];
                bool alive = p->entry == RLX_NONE || q->entry == RLX_NONE ||
                             (p->first_step <= q->last_step && q->first_step <= p->last_step);
                meet =
                    meet || (alive && p->bytes != 0 && q->bytes != 0 &&
                             p->offset < q->offset + q->bytes && q->offset < p->offset + p->bytes);
            }
        }
        assert_ok(b->status);
        rlx_plan_hash_state(b->plan);
        refused += meet;
        assert_status(meet ? RLX_INVALID_PLAN : RLX_OK, rlx_plan_verify(b->plan));
        rlx_plan_destroy(b->plan);
    }
    assert_in_range(refused, 100, 400);
}

static rlx_status build_and_verify(const rlx_allocator *allocator, void *argument) {
    rlx_plan *plan = NULL;
    (void)argument;
    RLX_TRY(build_two_entries(allocator, &plan));
    rlx_status status = rlx_plan_verify(plan);
    rlx_plan_destroy(plan);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    assert_true(rlx_test_every_allocation_fails(build_and_verify, NULL) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_plans_pass),
        cmocka_unit_test(an_empty_plan_passes),
        cmocka_unit_test(a_broken_rule_is_named),
        cmocka_unit_test(views_that_do_not_meet_are_allowed),
        cmocka_unit_test(fifty_thousand_buffers_are_checked_quickly),
        cmocka_unit_test(the_sweep_agrees_with_all_pairs),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
