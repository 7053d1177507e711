/* SPDX-License-Identifier: Apache-2.0 */
/* A run allocates nothing: of every compiled graph here, 1,000 runs on one and on three threads,
 * inputs and outputs included, while all allocations of all threads are counted. */
#include "session/stream_model.h"
#include "session/subject.h"

#include "support/counted_memory.h"

#include <stdlib.h>

enum { RUNS = 1000, OUTPUT_BYTES = 1 << 20 };

typedef struct tally {
    rlx_device *device;
    bool poison;
    unsigned bad;
} tally;

static unsigned char output[OUTPUT_BYTES];

/* The calls of one run; returns false when one fails. Nothing here may allocate either. */
static bool run_once(const subject *self, rlx_exec *exec, uint32_t output_count) {
    rlx_status status = rlx_exec_reset_state(exec);
    for (uint32_t i = 0; i < self->input_count && status == RLX_OK; i++)
        status = rlx_exec_set_input(exec, 0, i, self->inputs[0][i].data, self->inputs[0][i].bytes);
    if (status == RLX_OK) status = rlx_exec_run(exec, 0);
    for (uint32_t i = 0; i < output_count && status == RLX_OK; i++)
        status = rlx_exec_read_output(exec, 0, i, output, sizeof output, NULL);
    return status == RLX_OK;
}

static void check(subject *self, void *user) {
    tally *all = user;
    rlx_entry_spec entry = {.bindings = self->bindings, .binding_count = self->binding_count};
    rlx_compile_options options = {.size = sizeof options, .entries = &entry, .entry_count = 1};
    rlx_exec_options how = {.size = sizeof how, .poison = all->poison, .profile = all->poison};
    uint32_t failures = 0, output_count = rlx_graph_output_count(self->graph);
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    assert_ok(rlx_session_compile(self->session, all->device, &options, NULL, &program));
    assert_ok(rlx_exec_create(program, &how, &exec));
    uint64_t calls = counted_calls(), maps = counted_maps();
    for (uint32_t i = 0; i < RUNS; i++)
        failures += !run_once(self, exec, output_count);
    calls = counted_calls() - calls;
    bool is_mapped = counted_maps() != maps;
    if (calls != 0 || is_mapped || failures != 0) {
        print_error("%s: %u calls, maps %s, %u failures in %u runs: %s\n", self->name,
                    (unsigned)calls, is_mapped ? "changed" : "as before", failures, RUNS,
                    rlx_last_error());
        all->bad++;
    }
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

static void check_all(uint32_t threads, bool poison) {
    tally all = {.device = subject_device("cpu", threads), .poison = poison};
    subject_for_each_graph(check, &all);
    rlx_device_release(all.device);
    assert_int_equal(all.bad, 0);
}

static void a_thousand_runs_on_one_thread_allocate_nothing(void **state) {
    (void)state;
    check_all(1, false);
}

static void a_thousand_runs_on_three_threads_allocate_nothing(void **state) {
    (void)state;
    check_all(3, false);
}

static void poison_and_profiles_allocate_nothing(void **state) {
    (void)state;
    check_all(1, true);
}

static void a_run_that_fails_allocates_nothing(void **state) {
    subject self;
    rlx_device *device = subject_device("cpu", 2);
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    const int32_t a = 5, b = 0;
    uint32_t faults = 0;
    (void)state;
    subject_open_text(&self, "division",
                      "rlx 1\ninput a : i32[]\ninput b : i32[]\nq = div(a, b)\noutput q\n");
    assert_ok(rlx_session_compile(self.session, device, NULL, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    uint64_t calls = counted_calls(), maps = counted_maps();
    for (uint32_t i = 0; i < RUNS; i++) {
        faults += rlx_exec_set(exec, 0, "a", &a, sizeof a) == RLX_OK &&
                  rlx_exec_set(exec, 0, "b", &b, sizeof b) == RLX_OK &&
                  rlx_exec_run(exec, 0) == RLX_FAULT;
    }
    assert_int_equal(counted_calls() - calls, 0);
    assert_true(counted_maps() == maps);
    assert_int_equal(faults, RUNS);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
    subject_close(&self);
}

/* Reads by the kernel's ring or by threads, tokens, waits: everything was made beforehand. */
static void runs_that_stream_weights_allocate_nothing(void **state) {
    rlx_device *device = subject_device("cpu", 2);
    rlx_program_options budget = {.size = sizeof budget, .weights_budget = 70000};
    rlx_exec_options how = {.size = sizeof how, .profile = true};
    char *text = stream_model(3);
    rlx_test_folder folder;
    rlx_program *program = NULL, *loaded = NULL;
    rlx_exec *exec = NULL;
    subject self;
    uint32_t failures = 0;
    (void)state;
    rlx_test_folder_create(&folder);
    subject_open_text(&self, "streamed", text);
    assert_ok(rlx_session_compile(self.session, device, NULL, NULL, &program));
    assert_ok(rlx_program_save(program, rlx_test_path(&folder, "p")));
    assert_ok(rlx_program_load(device, rlx_test_path(&folder, "p"), &budget, &loaded));
    rlx_stream_info info;
    assert_ok(rlx_plan_stream_info(rlx_program_plan(loaded), &info));
    assert_true(info.tile_count > 1);
    assert_ok(rlx_exec_create(loaded, &how, &exec));
    uint64_t calls = counted_calls(), maps = counted_maps();
    for (uint32_t i = 0; i < RUNS / 5; i++)
        failures += !run_once(&self, exec, 1);
    assert_int_equal(counted_calls() - calls, 0);
    assert_true(counted_maps() == maps);
    assert_int_equal(failures, 0);
    rlx_exec_destroy(exec);
    rlx_program_release(loaded);
    rlx_program_release(program);
    subject_close(&self);
    free(text);
    rlx_test_folder_remove(&folder);
    rlx_device_release(device);
}

/* A hook over static memory: whoever calls malloc itself is seen. */
typedef struct pool {
    size_t used, live;
} pool;
static _Alignas(4096) unsigned char pool_memory[64 << 20];

static void *pool_allocate(void *user, size_t bytes, size_t alignment) {
    pool *self = user;
    size_t at = (self->used + alignment - 1) / alignment * alignment;
    if (at > sizeof pool_memory || bytes > sizeof pool_memory - at) return NULL;
    self->used = at + bytes;
    self->live++;
    return pool_memory + at;
}

static void pool_release(void *user, void *memory) {
    (void)memory;
    ((pool *)user)->live--;
}

static rlx_status use_everything(const subject *self, rlx_device *device,
                                 const rlx_allocator *hook) {
    rlx_entry_spec entry = {.bindings = self->bindings, .binding_count = self->binding_count};
    rlx_compile_options options = {.size = sizeof options, .entries = &entry, .entry_count = 1};
    rlx_program_options memory = {.size = sizeof memory, .allocator = hook};
    rlx_exec_options how = {.size = sizeof how, .allocator = hook};
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL, *twin = NULL;
    rlx_status status = rlx_session_open(hook, self->name, &session);
    if (status == RLX_OK)
        status = rlx_session_compile(session, device, &options, &memory, &program);
    if (status == RLX_OK) status = rlx_exec_create(program, &how, &exec);
    if (status == RLX_OK) status = rlx_exec_clone(exec, 0, &twin);
    if (status == RLX_OK && !run_once(self, twin, rlx_graph_output_count(self->graph)))
        status = RLX_DIFFERS;
    rlx_exec_destroy(twin);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_session_destroy(session);
    return status;
}

static void check_hook(subject *self, void *user) {
    tally *all = user;
    pool memory = {0};
    rlx_allocator hook = {pool_allocate, pool_release, &memory};
    uint64_t calls = counted_calls();
    rlx_status status = use_everything(self, all->device, &hook);
    calls = counted_calls() - calls;
    if (status == RLX_OK && calls <= 8 && memory.live == 0) return;
    print_error("%s: %u calls beside the hook, %zu blocks left: %s\n", self->name, (unsigned)calls,
                memory.live, status == RLX_OK ? "" : rlx_last_error());
    all->bad++;
}

/* Mapping the model's files (twice each, once to look and once to read) is not an allocation of
 * ours; nothing else may pass by. */
static void sessions_programs_and_executables_use_only_the_hook(void **state) {
    tally all = {.device = subject_device("cpu", 2)};
    (void)state;
    subject_for_each_graph(check_hook, &all);
    rlx_device_release(all.device);
    assert_int_equal(all.bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_runs_on_one_thread_allocate_nothing),
        cmocka_unit_test(a_thousand_runs_on_three_threads_allocate_nothing),
        cmocka_unit_test(poison_and_profiles_allocate_nothing),
        cmocka_unit_test(a_run_that_fails_allocates_nothing),
        cmocka_unit_test(runs_that_stream_weights_allocate_nothing),
        cmocka_unit_test(sessions_programs_and_executables_use_only_the_hook),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
