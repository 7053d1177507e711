/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, compiling, saving, loading and running models of some size while the n-th allocation
 * fails, for every n: a status with a text, nothing lost, nothing half-written. Everything that
 * sessions and programs keep comes through the allocator hook, of which they keep a copy. */
#include "session/subject.h"

#include <stdlib.h>

typedef struct work {
    const char *path;
    rlx_device *device;
    rlx_test_folder folder;
    rlx_program *program; /* for those that start with one */
} work;

static const rlx_binding many = {"S", 8}, single = {"S", 1};
static const rlx_entry_spec entries[] = {
    {.name = "prefill", .bindings = &many, .binding_count = 1},
    {.name = "decode", .bindings = &single, .binding_count = 1}};

static rlx_status compile(const work *self, const rlx_allocator *allocator,
                          rlx_program **out_program) {
    rlx_compile_options options = {.size = sizeof options};
    rlx_program_options memory = {.size = sizeof memory, .allocator = allocator};
    rlx_session *session = NULL;
    if (strstr(self->path, "decoder") != NULL) {
        options.entries = entries;
        options.entry_count = 2;
    }
    RLX_TRY(rlx_session_open(allocator, self->path, &session));
    rlx_status status = rlx_session_compile(session, self->device, &options, &memory, out_program);
    rlx_session_destroy(session);
    return status;
}

static rlx_status open_and_compile(const rlx_allocator *allocator, void *argument) {
    rlx_program *program = NULL;
    RLX_TRY(compile(argument, allocator, &program));
    rlx_program_release(program);
    return RLX_OK;
}

/* The second compile of a session finds the first one's program. */
static rlx_status compile_twice(const rlx_allocator *allocator, void *argument) {
    const work *self = argument;
    rlx_session *session = NULL;
    rlx_program *programs[2] = {NULL, NULL};
    rlx_program_options memory = {.size = sizeof memory, .allocator = allocator};
    RLX_TRY(rlx_session_open(allocator, self->path, &session));
    rlx_status status = RLX_OK;
    for (uint32_t i = 0; i < 2 && status == RLX_OK; i++)
        status = rlx_session_compile(session, self->device, NULL, &memory, &programs[i]);
    if (status == RLX_OK && programs[0] != programs[1])
        status = RLX_FAIL(RLX_DIFFERS, "compiled again");
    rlx_program_release(programs[0]);
    rlx_program_release(programs[1]);
    rlx_session_destroy(session);
    return status;
}

static rlx_status plan_and_print(const rlx_allocator *allocator, void *argument) {
    const work *self = argument;
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    char *text = NULL, *html = NULL;
    RLX_TRY(rlx_session_open(allocator, self->path, &session));
    rlx_status status = rlx_session_plan(session, "cpu:scalar", 2, NULL, &plan);
    if (status == RLX_OK) status = rlx_plan_print(plan, &text);
    if (status == RLX_OK) status = rlx_plan_html(plan, "title", &html);
    rlx_string_free(allocator, text);
    rlx_string_free(allocator, html);
    rlx_plan_destroy(plan);
    rlx_session_destroy(session);
    return status;
}

static rlx_status save_and_load(const rlx_allocator *allocator, void *argument) {
    const work *self = argument;
    rlx_program_options memory = {.size = sizeof memory, .allocator = allocator};
    const char *path = rlx_test_path(&self->folder, "model.rlxp");
    rlx_program *program = NULL, *loaded = NULL;
    RLX_TRY(compile(self, allocator, &program));
    rlx_status status = rlx_program_save(program, path);
    if (status != RLX_OK && rlx_test_entry_count(self->folder.path) > 1) {
        status = RLX_FAIL(RLX_DIFFERS, "something half-written was left behind");
    }
    if (status == RLX_OK) status = rlx_program_load(self->device, path, &memory, &loaded);
    rlx_program_release(loaded);
    rlx_program_release(program);
    return status;
}

static rlx_status run_entries(rlx_exec *exec) {
    for (uint32_t entry = 0; entry < 2; entry++) {
        const int64_t tokens[8] = {1, 2, 3}, position = entry == 0 ? 0 : 8;
        RLX_TRY(rlx_exec_set(exec, entry, "tokens", tokens, (entry == 0 ? 8 : 1) * sizeof *tokens));
        RLX_TRY(rlx_exec_set(exec, entry, "position", &position, sizeof position));
        RLX_TRY(rlx_exec_run(exec, entry));
    }
    return RLX_OK;
}

static rlx_status execute(const rlx_allocator *allocator, void *argument) {
    const work *self = argument;
    rlx_exec_options options = {
        .size = sizeof options, .allocator = allocator, .poison = true, .profile = true};
    const char *path = rlx_test_path(&self->folder, "state");
    rlx_exec *exec = NULL, *twin = NULL;
    char *trace = NULL;
    RLX_TRY(rlx_exec_create(self->program, &options, &exec));
    rlx_status status = run_entries(exec);
    if (status == RLX_OK) status = rlx_exec_clone(exec, RLX_CLONE_OWN_ALL, &twin);
    if (status == RLX_OK) status = run_entries(twin);
    if (status == RLX_OK) status = rlx_exec_save_state(twin, path);
    if (status == RLX_OK) status = rlx_exec_restore_state(exec, path);
    if (status == RLX_OK) status = rlx_exec_trace(exec, &trace);
    rlx_string_free(allocator, trace);
    rlx_exec_destroy(twin);
    rlx_exec_destroy(exec);
    return status;
}

static rlx_status open_device(const rlx_allocator *allocator, void *argument) {
    rlx_device_options options = {.size = sizeof options, .allocator = allocator, .threads = 3};
    rlx_device *device = NULL;
    (void)argument;
    RLX_TRY(rlx_device_open("cpu", &options, &device));
    rlx_device_release(device);
    return RLX_OK;
}

static void check(rlx_test_body body, const char *path, uint64_t least) {
    work self = {.path = path, .device = subject_device("cpu", 2)};
    rlx_test_folder_create(&self.folder);
    if (body == execute) assert_ok(compile(&self, NULL, &self.program));
    uint64_t count = rlx_test_every_allocation_fails(body, &self);
    if (count < least) fail_msg("%s: only %u allocations", path, (unsigned)count);
    rlx_program_release(self.program);
    rlx_test_folder_remove(&self.folder);
    rlx_device_release(self.device);
}

static void any_allocation_of_open_and_compile_may_fail(void **state) {
    (void)state;
    check(open_and_compile, "graphs/decoder.rlx", 50);
    check(open_and_compile, "graphs/flow.rlx", 50);
    check(open_and_compile, "graphs/bug_state_view_kept.rlx", 50);
    check(open_and_compile, "graphs/views.rlx", 50);
    check(compile_twice, "graphs/encoder_f16.rlx", 50);
}

static void any_allocation_of_plans_and_their_texts_may_fail(void **state) {
    (void)state;
    check(plan_and_print, "graphs/recurrent.rlx", 50);
}

static void any_allocation_of_save_and_load_may_fail(void **state) {
    (void)state;
    check(save_and_load, "graphs/decoder.rlx", 50);
}

static void any_allocation_of_executables_may_fail(void **state) {
    (void)state;
    check(execute, "graphs/decoder.rlx", 20);
}

static void any_allocation_of_a_device_may_fail(void **state) {
    (void)state;
    check(open_device, "", 1);
}

/* The caller's struct is gone right after each call. */
static void the_allocator_is_copied(void **state) {
    rlx_test_failing_allocator counting;
    rlx_device *device = subject_device("cpu", 2);
    rlx_session *session = NULL;
    rlx_graph *graph = NULL;
    rlx_plan *plan = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    rlx_value_id x, y;
    (void)state;
    rlx_test_failing_allocator_init(&counting, UINT64_MAX);
    rlx_allocator hook = counting.allocator;
#define CALL(call)                                     \
    do {                                               \
        hook = counting.allocator;                     \
        assert_ok(call);                               \
        hook = (rlx_allocator){NULL, NULL, &counting}; \
    } while (0)
    rlx_program_options memory = {.size = sizeof memory, .allocator = &hook};
    rlx_exec_options options = {.size = sizeof options, .allocator = &hook};
    CALL(rlx_session_open(&hook, "graphs/views.rlx", &session));
    CALL(rlx_session_compile(session, device, NULL, &memory, &program));
    CALL(rlx_exec_create(program, &options, &exec));
    assert_ok(rlx_session_plan(session, NULL, 1, NULL, &plan));
    rlx_session_destroy(session);
    rlx_plan_destroy(plan);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    CALL(rlx_graph_create(&hook, &graph));
    assert_ok(rlx_graph_add_input(graph, "x", RLX_DTYPE_F32, (rlx_shape){1, {4}}, &x));
    assert_ok(rlx_graph_add_unary(graph, RLX_OP_RELU, x, &y));
    assert_ok(rlx_graph_add_output(graph, y, NULL));
    CALL(rlx_session_create(&hook, graph, &session));
    assert_ok(rlx_session_compile(session, device, NULL, NULL, &program));
    rlx_session_destroy(session);
    rlx_program_release(program); /* its plan came from the session's memory */
#undef CALL
    assert_int_equal(counting.live_count, 0);
    rlx_device_release(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_allocation_of_open_and_compile_may_fail),
        cmocka_unit_test(any_allocation_of_plans_and_their_texts_may_fail),
        cmocka_unit_test(any_allocation_of_save_and_load_may_fail),
        cmocka_unit_test(any_allocation_of_executables_may_fail),
        cmocka_unit_test(any_allocation_of_a_device_may_fail),
        cmocka_unit_test(the_allocator_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
