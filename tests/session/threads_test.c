/* SPDX-License-Identifier: Apache-2.0 */
/* The same bits for any number of threads, and whatever the caller has done to its floating-point
 * mode, on every test graph; programs side by side. Threads return what they saw; the test thread
 * checks. */
#include "session/subject.h"

#include "base/thread.h"

#include <fenv.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { DEVICES = 4 };

typedef struct tally {
    rlx_device *devices[DEVICES];
    unsigned count, bad;
} tally;

static const uint32_t thread_counts[DEVICES] = {1, 2, 3, 8};

#if defined(__x86_64__)
static unsigned saved_mode;
#endif

/* Rounding up, subnormal results and operands taken as zero. */
static void change_mode(void) {
    fesetround(FE_UPWARD);
#if defined(__x86_64__)
    saved_mode = _mm_getcsr();
    _mm_setcsr(saved_mode | 0x8040u);
#endif
}

static bool is_mode_kept = true;

static void restore_mode(void) {
#if defined(__x86_64__)
    is_mode_kept &= (_mm_getcsr() & 0x8040u) == 0x8040u;
    _mm_setcsr(saved_mode & ~0x8040u);
#endif
    is_mode_kept &= fegetround() == FE_UPWARD;
    fesetround(FE_TONEAREST);
}

static bool agrees(subject *self, const outcome *expected, const manner *how, const char *what) {
    outcome actual;
    subject_run(self, how, &actual);
    bool is_good = outcomes_equal(self, expected, &actual, what);
    outcome_free(&actual);
    return is_good;
}

static void check_threads(subject *self, void *user) {
    static const char *const names[DEVICES] = {"1 thread", "2 threads", "3 threads", "8 threads"};
    tally *all = user;
    manner how = {.device = all->devices[0]};
    outcome expected;
    subject_run(self, &how, &expected);
    bool is_good = true;
    for (uint32_t i = 1; i < DEVICES; i++) {
        how.device = all->devices[i];
        is_good &= agrees(self, &expected, &how, names[i]);
    }
    how = (manner){.device = all->devices[1], .before_run = change_mode, .after_run = restore_mode};
    is_good &= agrees(self, &expected, &how, "another floating-point mode");
    outcome_free(&expected);
    all->count++;
    all->bad += !is_good;
}

static void any_number_of_threads_gives_the_same_bits(void **state) {
    tally all = {0};
    (void)state;
    for (uint32_t i = 0; i < DEVICES; i++)
        all.devices[i] = subject_device("cpu", thread_counts[i]);
    subject_for_each(check_threads, &all);
    for (uint32_t i = 0; i < DEVICES; i++)
        rlx_device_release(all.devices[i]);
    if (all.bad != 0) fail_msg("%u of %u graphs", all.bad, all.count);
    assert_true(all.count > 600);
    assert_true(is_mode_kept);
}

/* Not only the run: reading the file, compiling, preparing weights and setting inputs too. */
static void check_mode_of_all(subject *self, void *user) {
    tally *all = user;
    manner how = {.device = all->devices[0]};
    outcome expected, actual;
    subject fresh;
    subject_run(self, &how, &expected);
    subject_open_file(&fresh, self->name);
    rlx_session_destroy(fresh.session);
    change_mode();
    rlx_status status = rlx_session_open(NULL, self->name, &fresh.session);
    if (status == RLX_OK) subject_run(&fresh, &how, &actual);
    restore_mode();
    assert_ok(status);
    all->bad += !outcomes_equal(self, &expected, &actual, "everything in another mode");
    all->count++;
    outcome_free(&expected);
    outcome_free(&actual);
    subject_close(&fresh);
}

static void the_mode_does_not_matter_to_a_compile_either(void **state) {
    tally all = {.devices = {subject_device("cpu", 2)}};
    (void)state;
    subject_for_each_graph(check_mode_of_all, &all);
    rlx_device_release(all.devices[0]);
    if (all.bad != 0) fail_msg("%u of %u graphs", all.bad, all.count);
    assert_true(is_mode_kept);
}

/* Inputs and outputs are converted to nearest even; texts are read and printed likewise. */
static void the_mode_does_not_matter_to_conversions_and_texts(void **state) {
    static const char text[] = "rlx 1\nconst c : f32[2] = [0.1, 1e-40]\noutput c\n";
    const rlx_dtype dtypes[] = {RLX_DTYPE_F16, RLX_DTYPE_BF16, RLX_DTYPE_F8E4M3FN, RLX_DTYPE_Q8_0,
                                RLX_DTYPE_I8,  RLX_DTYPE_F64,  RLX_DTYPE_Q4_0};
    enum { COUNT = 64 };
    float x[COUNT], back[2][COUNT];
    unsigned char bytes[2][COUNT * 8];
    rlx_test_random random = rlx_test_seed(1);
    (void)state;
    rlx_test_fill_f32(&random, x, COUNT, -3, 3);
    x[5] = 0x1p-140f;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        rlx_status status = RLX_OK;
        memset(bytes, 0, sizeof bytes);
        for (uint32_t mode = 0; mode < 2; mode++) {
            if (mode == 1) change_mode();
            rlx_status encoded = rlx_convert_from_f32(dtypes[i], bytes[mode], x, COUNT);
            rlx_status decoded = rlx_convert_to_f32(dtypes[i], back[mode], bytes[0], COUNT);
            if (mode == 1) restore_mode();
            if (encoded != RLX_OK || decoded != RLX_OK) status = RLX_INTERNAL;
        }
        assert_ok(status);
        assert_memory_equal(bytes[0], bytes[1], sizeof bytes[0]);
        assert_memory_equal(back[0], back[1], sizeof back[0]);
    }
    char *texts[2] = {NULL, NULL};
    for (uint32_t mode = 0; mode < 2; mode++) {
        rlx_graph *graph = NULL;
        if (mode == 1) change_mode();
        rlx_status status = rlx_graph_parse(NULL, text, strlen(text), &graph);
        if (status == RLX_OK) status = rlx_graph_print(graph, &texts[mode]);
        if (mode == 1) restore_mode();
        assert_ok(status);
        rlx_graph_destroy(graph);
    }
    assert_string_equal(texts[0], texts[1]);
    rlx_string_free(NULL, texts[0]);
    rlx_string_free(NULL, texts[1]);
    assert_true(is_mode_kept);
}

/* One thread that compiles and runs a model of its own again and again. */
typedef struct runner {
    const char *path;
    rlx_device *device;
    rlx_test_array inputs[SUBJECT_ARRAYS];
    uint32_t input_count;
    void *expected;
    uint64_t bytes;
    uint32_t failures, differences;
    rlx_exec *exec;
} runner;

enum { RUNS = 30 };

static void *run_often(void *argument) {
    runner *self = argument;
    char *got = malloc(self->bytes + 1);
    for (uint32_t k = 0; k < RUNS && got != NULL; k++) {
        rlx_status status = rlx_exec_reset_state(self->exec);
        for (uint32_t i = 0; i < self->input_count && status == RLX_OK; i++)
            status =
                rlx_exec_set_input(self->exec, 0, i, self->inputs[i].data, self->inputs[i].bytes);
        if (status == RLX_OK) status = rlx_exec_run(self->exec, 0);
        if (status == RLX_OK)
            status = rlx_exec_read_output(self->exec, 0, 0, got, self->bytes, NULL);
        self->failures += status != RLX_OK;
        self->differences += status == RLX_OK && memcmp(got, self->expected, self->bytes) != 0;
    }
    self->failures += got == NULL;
    free(got);
    return NULL;
}

/* What output 0 of the first run must be. */
static void prepare_runner(runner *self, subject *model) {
    rlx_entry_spec entry = {.bindings = model->bindings, .binding_count = model->binding_count};
    rlx_compile_options options = {.size = sizeof options, .entries = &entry, .entry_count = 1};
    manner how = {.device = self->device};
    rlx_program *program = NULL;
    outcome expected;
    subject_run(model, &how, &expected);
    assert_ok(expected.status);
    self->bytes = expected.outputs[0][0].bytes;
    self->expected = expected.outputs[0][0].data;
    expected.outputs[0][0].data = NULL;
    outcome_free(&expected);
    memcpy(self->inputs, model->inputs[0], sizeof self->inputs);
    self->input_count = model->input_count;
    assert_ok(rlx_session_compile(model->session, self->device, &options, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &self->exec));
    rlx_program_release(program);
}

static void executables_of_two_models_run_in_two_threads_at_once(void **state) {
    static runner runners[3] = {
        {.path = "graphs/wide.rlx"}, {.path = "graphs/cnn.rlx"}, {.path = "graphs/wide.rlx"}};
    subject models[3];
    pthread_t threads[3];
    rlx_device *device = subject_device("cpu", 2);
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        subject_open_file(&models[i], runners[i].path);
        runners[i].device = device;
        prepare_runner(&runners[i], &models[i]);
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(rlx_thread_start(&threads[i], run_often, &runners[i]));
    for (uint32_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(runners[i].failures, 0);
        assert_int_equal(runners[i].differences, 0);
        rlx_exec_destroy(runners[i].exec);
        free(runners[i].expected);
        subject_close(&models[i]);
    }
    rlx_device_release(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(the_mode_does_not_matter_to_a_compile_either),
        cmocka_unit_test(the_mode_does_not_matter_to_conversions_and_texts),
        cmocka_unit_test(executables_of_two_models_run_in_two_threads_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
