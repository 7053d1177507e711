/* SPDX-License-Identifier: Apache-2.0 */
/* What people see of a plan: the text form against golden files, and the picture. */
#include "build.h"
#include "support/support.h"

#include <stdlib.h>

static void check_golden(const rlx_plan *plan, const char *path) {
    size_t bytes = 0;
    char *text = NULL, *golden = rlx_test_read_file(path, &bytes);
    assert_ok(rlx_plan_print(plan, &text));
    assert_string_equal(golden, text);
    rlx_string_free(NULL, text);
    free(golden);
}

static void plans_print_as_their_golden_files(void **state) {
    (void)state;
    rlx_plan *plan = NULL;
    assert_ok(build_two_entries(NULL, &plan));
    check_golden(plan, "../golden/plan/two_entries.txt");
    rlx_plan_destroy(plan);
    assert_ok(build_loop(NULL, &plan));
    check_golden(plan, "../golden/plan/loop.txt");
    rlx_plan_destroy(plan);
}

static void views_and_odd_names_are_shown(void **state) {
    (void)state;
    rlx_plan *plan = NULL;
    char *text = NULL;
    assert_ok(build_two_entries(NULL, &plan));
    plan->slots.items[S_H].name = "a \"b\"\n";
    plan->slots.items[S_H].strides[0] = 8;
    plan->steps.items[T_MATMUL].reason = "line\nbreak";
    plan->operands.items[1] = 99; /* a broken plan prints too */
    assert_ok(rlx_plan_print(plan, &text));
    assert_text_has(text, "\"a \\\"b\\\"\\n\"");
    assert_text_has(text, "strides [8, 1]");
    assert_text_has(text, "line?break");
    assert_text_has(text, "?99 = copy of w_raw");
    rlx_string_free(NULL, text);
    rlx_plan_destroy(plan);
}

static void the_picture_has_every_buffer_and_escapes_names(void **state) {
    (void)state;
    rlx_plan *plan = NULL;
    char *html = NULL;
    assert_ok(build_two_entries(NULL, &plan));
    plan->slots.items[S_H].name = "<script>alert('x')</script>&\"\x01\xff\xc3\xa9";
    assert_ok(rlx_plan_html(plan, "</title><b>", &html));
    assert_text_has(html, "&#60;script&#62;alert(&#39;x&#39;)&#60;/script&#62;&#38;&#34;"
                          "\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9");
    assert_null(strstr(html, "<script>alert"));
    assert_null(strstr(html, "</title><b>"));
    assert_text_has(html, "entry prefill (S=2)");
    assert_text_has(html, "entry decode (S=1)");
    assert_text_has(html, "64 bytes at 64, steps 1 to 1");
    assert_text_has(html, "workspace of step 1");
    assert_text_has(html, "class=\"bound\"");
    assert_text_has(html, "class=\"live\"");
    size_t rects = 0;
    for (const char *at = html; (at = strstr(at, "<rect ")) != NULL; at++)
        rects++;
    assert_int_equal(rects, 6 + 2 + 2); /* buffers of both entries, and a fault record each */
    rlx_string_free(NULL, html);
    rlx_plan_destroy(plan);
}

/* A plan without entries, one whose entry has no steps, and a large one. */
static void plans_of_any_size_can_be_drawn(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 5, 300, 2000};
    char *html = NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        rlx_plan *plan = NULL;
        assert_ok(build_network(NULL, sizes[i], &plan));
        assert_ok(rlx_plan_html(plan, "network", &html));
        rlx_string_free(NULL, html);
        rlx_plan_destroy(plan);
    }
    plan_builder builder;
    builder_begin(&builder, NULL);
    rlx_plan_hash_state(builder.plan);
    assert_ok(rlx_plan_html(builder.plan, "empty", &html));
    rlx_string_free(NULL, html);
    builder.plan->segment_bytes[RLX_SEGMENT_SCRATCH] = 128;
    uint32_t buffer = builder_buffer(&builder, RLX_SEGMENT_SCRATCH, 0, 64, 8, 0, 0);
    builder_slot(&builder, "x", RLX_VALUE_INPUT, buffer, 0, RLX_DTYPE_F32, DIMS(2));
    builder_port(&builder, "x", 0, true);
    builder_port(&builder, "y", 0, false);
    assert_ok(rlx_vec_push(NULL, &builder.plan->entries,
                           ((rlx_plan_entry){.name = "main",
                                             .bindings = "",
                                             .placed_by = "",
                                             .input_count = 1,
                                             .outputs_at = 1,
                                             .output_count = 1,
                                             .scratch_bytes = 128})));
    assert_ok(rlx_plan_verify(builder.plan));
    assert_ok(rlx_plan_html(builder.plan, "no steps", &html));
    rlx_string_free(NULL, html);
    rlx_plan_destroy(builder.plan);
}

static void queries_answer_and_refuse(void **state) {
    (void)state;
    rlx_plan *plan = NULL;
    rlx_slot_info slot;
    rlx_entry_info entry;
    uint32_t index;
    assert_ok(build_two_entries(NULL, &plan));
    assert_string_equal(rlx_plan_target(plan), "cpu/scalar");
    assert_int_equal(rlx_plan_arena_bytes(plan), 192 + 64 + 448);
    assert_int_equal(rlx_plan_segment_bytes(plan, RLX_SEGMENT_SOURCE), 128);
    assert_int_equal(rlx_plan_segment_bytes(plan, (rlx_segment)9), 0);
    assert_ok(rlx_plan_slot_at(plan, S_H, &slot));
    assert_string_equal(slot.name, "h");
    assert_int_equal(slot.offset, 128);
    assert_int_equal(slot.bytes, 32);
    assert_true(slot.is_plain);
    assert_status(RLX_NOT_FOUND, rlx_plan_slot_at(plan, S_COUNT, &slot));
    assert_error_has("slot 12 of 12");
    assert_ok(rlx_plan_find_slot(plan, "probabilities", &index)); /* by the output's name */
    assert_int_equal(index, S_Y);
    assert_ok(rlx_plan_find_slot(plan, "length", &index)); /* by the slot's own */
    assert_int_equal(index, S_LENGTH);
    assert_status(RLX_NOT_FOUND, rlx_plan_find_slot(plan, "nobody", &index));
    assert_error_has("no slot 'nobody'");
    assert_ok(rlx_plan_entry_at(plan, 1, &entry));
    assert_string_equal(entry.name, "decode");
    assert_status(RLX_NOT_FOUND, rlx_plan_entry_at(plan, 2, &entry));
    assert_int_equal(rlx_plan_input(plan, 0, 1), S_POSITION);
    assert_int_equal(rlx_plan_output(plan, 1, 0), S_Y1);
    assert_int_equal(rlx_plan_output(plan, 1, 1), RLX_NONE);
    assert_string_equal(rlx_plan_output_name(plan, 0, 0), "probabilities");
    assert_null(rlx_plan_output_name(plan, 5, 0));
    rlx_plan_destroy(plan);
}

static rlx_status print_and_draw(const rlx_allocator *allocator, void *argument) {
    rlx_plan *plan = NULL;
    char *text = NULL;
    (void)argument;
    RLX_TRY(build_two_entries(allocator, &plan));
    rlx_status status = rlx_plan_print(plan, &text);
    if (status == RLX_OK) {
        rlx_string_free(allocator, text);
        status = rlx_plan_html(plan, "plan", &text);
    }
    if (status == RLX_OK) rlx_string_free(allocator, text);
    rlx_plan_destroy(plan);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    assert_true(rlx_test_every_allocation_fails(print_and_draw, NULL) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_print_as_their_golden_files),
        cmocka_unit_test(views_and_odd_names_are_shown),
        cmocka_unit_test(the_picture_has_every_buffer_and_escapes_names),
        cmocka_unit_test(plans_of_any_size_can_be_drawn),
        cmocka_unit_test(queries_answer_and_refuse),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
