/* SPDX-License-Identifier: Apache-2.0 */
/* What can go wrong while weights are read during a run: errors of the disk, short reads, files
 * that shrink, runs that are cancelled with reads under way. Each gives a clear error, leaks
 * nothing, hangs nowhere, and the next run is right again. */
#include "runtime/streams.h"
#include "session/subject.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LAYERS = 12, WIDTH = 256, BUDGET = 1 << 20 }; /* 12 weights of 256 KiB */

typedef struct fixture {
    rlx_test_folder folder;
    char path[300];
    rlx_device *device;
    rlx_program *program; /* under the budget */
    float x[WIDTH], expected[WIDTH];
} fixture;

static rlx_status run(rlx_exec *exec, const float *x, float *y) {
    RLX_TRY(rlx_exec_set_f32(exec, 0, "x0", x, WIDTH));
    RLX_TRY(rlx_exec_run(exec, 0));
    return rlx_exec_read_output_f32(exec, 0, 0, y, WIDTH, NULL);
}

static void is_right(const fixture *f, rlx_exec *exec) {
    float y[WIDTH];
    assert_ok(run(exec, f->x, y));
    assert_memory_equal(y, f->expected, sizeof y);
}

static rlx_program *load(const fixture *f, uint64_t budget) {
    rlx_program_options options = {.size = sizeof options, .weights_budget = budget};
    rlx_program *program = NULL;
    assert_ok(rlx_program_load(f->device, f->path, &options, &program));
    return program;
}

static void save_model(fixture *f) {
    char text[8192];
    size_t at = (size_t)snprintf(text, sizeof text, "rlx 1\ninput x0 : f32[1, %d]\n", WIDTH);
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    for (int i = 0; i < LAYERS; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "param w%d : f32[%d, %d] = seeded(%d, 0.1)\n", i, WIDTH, WIDTH, i);
    }
    for (int i = 0; i < LAYERS; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "m%d = matmul(x%d, w%d)\nx%d = tanh(m%d)\n", i, i, i, i + 1, i);
    }
    snprintf(text + at, sizeof text - at, "output x%d\n", LAYERS);
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_ok(rlx_session_create(NULL, graph, &session));
    assert_ok(rlx_session_compile(session, f->device, NULL, NULL, &program));
    assert_ok(rlx_program_save(program, f->path));
    rlx_program_release(program);
    rlx_session_destroy(session);
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    rlx_test_random random = rlx_test_seed(11);
    rlx_program *resident;
    rlx_exec *exec = NULL;
    assert_non_null(f);
    rlx_test_folder_create(&f->folder);
    snprintf(f->path, sizeof f->path, "%s", rlx_test_path(&f->folder, "program"));
    f->device = subject_device("cpu", 2);
    rlx_test_fill_f32(&random, f->x, WIDTH, -1, 1);
    save_model(f);
    resident = load(f, 0);
    assert_ok(rlx_exec_create(resident, NULL, &exec));
    assert_ok(run(exec, f->x, f->expected));
    rlx_exec_destroy(exec);
    rlx_program_release(resident);
    f->program = load(f, BUDGET);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    rlx_program_release(f->program);
    rlx_device_release(f->device);
    rlx_test_folder_remove(&f->folder);
    free(f);
    return 0;
}

/* Reads whose results are changed: the n-th single read becomes `answer`. */
typedef struct fault {
    _Atomic uint32_t reads;
    uint32_t bad_read;
    int64_t answer;  /* -errno, or at most so many bytes */
    bool from_there; /* every read from there on */
} fault;

static int64_t change_result(void *user, uint64_t offset, uint64_t bytes, int64_t result) {
    fault *self = user;
    uint32_t number = atomic_fetch_add(&self->reads, 1);
    (void)offset;
    (void)bytes;
    if (number != self->bad_read && !(self->from_there && number > self->bad_read)) return result;
    return self->answer < 0 || self->answer < result ? self->answer : result;
}

static rlx_exec *exec_with(const fixture *f, fault *self) {
    rlx_copy_hooks hooks = {.result = change_result, .user = self};
    rlx_exec *exec = NULL;
    assert_ok(rlx_exec_create(f->program, NULL, &exec));
    assert_ok(rlx_exec_set_stream_hooks(exec, &hooks));
    return exec;
}

static void the_program_streams_most_of_its_weights(void **state) {
    fixture *f = *state;
    const rlx_plan *plan = rlx_program_plan(f->program);
    rlx_stream_info info;
    rlx_exec *exec = NULL;
    assert_ok(rlx_plan_stream_info(plan, &info));
    assert_int_equal(info.budget_bytes, BUDGET);
    assert_true(info.tile_count >= 6);
    assert_true(rlx_program_is_mapped(f->program));
    assert_int_equal(rlx_program_weights_bytes(f->program), info.resident_bytes);
    assert_ok(rlx_exec_create(f->program, NULL, &exec));
    assert_int_equal(rlx_arena_bytes(rlx_exec_arena(exec)), rlx_plan_arena_bytes(plan));
    for (int i = 0; i < 3; i++)
        is_right(f, exec);
    rlx_exec_destroy(exec);
}

static void a_failed_read_fails_the_run_and_the_next_is_right(void **state) {
    fixture *f = *state;
    for (uint32_t bad = 0; bad < 6; bad++) {
        fault self = {.bad_read = bad, .answer = -EIO};
        rlx_exec *exec = exec_with(f, &self);
        float y[WIDTH];
        assert_status(RLX_IO, run(exec, f->x, y));
        assert_error_has("streamed weights, step ");
        assert_error_has("Input/output error");
        assert_int_equal(rlx_last_error_detail()->os_error, EIO);
        assert_int_equal(exec->streams->count, 0);
        is_right(f, exec);
        rlx_exec_destroy(exec);
    }
}

static void a_disk_that_always_fails_never_hangs(void **state) {
    fixture *f = *state;
    fault self = {.answer = -EIO, .from_there = true};
    rlx_exec *exec = exec_with(f, &self);
    float y[WIDTH];
    for (int i = 0; i < 50; i++) { /* more failures than an engine takes */
        assert_status(RLX_IO, run(exec, f->x, y));
        assert_error_has("Input/output error");
    }
    self.bad_read = UINT32_MAX;
    is_right(f, exec);
    rlx_exec_destroy(exec);
}

static void short_reads_are_read_to_their_end(void **state) {
    fixture *f = *state;
    fault self = {.answer = 8192, .from_there = true};
    rlx_exec *exec = exec_with(f, &self);
    is_right(f, exec);
    assert_true(atomic_load(&self.reads) > 200);
    rlx_exec_destroy(exec);
}

static void an_interrupted_read_is_made_again(void **state) {
    fixture *f = *state;
    fault self = {.bad_read = 2, .answer = -EINTR};
    rlx_exec *exec = exec_with(f, &self);
    is_right(f, exec);
    rlx_exec_destroy(exec);
}

/* Cuts the program file in the middle of its weights; returns its length before. */
static off_t cut_file(const fixture *f) {
    rlx_copy_file *file = NULL;
    assert_ok(rlx_copy_file_open(NULL, f->path, &file));
    off_t bytes = (off_t)rlx_copy_file_bytes(file);
    rlx_copy_file_close(file);
    assert_int_equal(truncate(f->path, bytes / 2), 0);
    return bytes;
}

static void a_file_that_shrinks_under_a_read_is_an_error(void **state) {
    fixture own, *f = *state;
    rlx_exec *exec = NULL;
    rlx_program *program;
    float y[WIDTH];
    own = *f;
    snprintf(own.path, sizeof own.path, "%s", rlx_test_path(&f->folder, "shrinks"));
    save_model(&own);
    program = load(&own, BUDGET);
    assert_ok(rlx_exec_create(program, NULL, &exec));
    is_right(&own, exec);
    cut_file(&own);
    assert_status(RLX_IO, run(exec, f->x, y));
    assert_error_has("bytes early");
    assert_status(RLX_IO, run(exec, f->x, y));
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

static void a_file_cut_short_is_refused(void **state) {
    fixture own, *f = *state;
    rlx_program_options options = {.size = sizeof options, .weights_budget = BUDGET};
    rlx_program *program = NULL;
    own = *f;
    snprintf(own.path, sizeof own.path, "%s", rlx_test_path(&f->folder, "cut"));
    save_model(&own);
    cut_file(&own);
    assert_status(RLX_PARSE, rlx_program_load(f->device, own.path, &options, &program));
    assert_error_has("cut short");
    assert_int_equal(truncate(own.path, 0), 0);
    assert_status(RLX_PARSE, rlx_program_load(f->device, own.path, &options, &program));
    assert_int_equal(unlink(own.path), 0);
    assert_status(RLX_IO, rlx_program_load(f->device, own.path, &options, &program));
    assert_error_has(own.path);
}

/* The name may go, or stand for another file: the program keeps the one it opened. */
static void a_file_that_is_replaced_is_still_the_same(void **state) {
    fixture own, *f = *state;
    rlx_exec *exec = NULL;
    rlx_program *program;
    own = *f;
    snprintf(own.path, sizeof own.path, "%s", rlx_test_path(&f->folder, "replaced"));
    save_model(&own);
    program = load(&own, BUDGET);
    assert_int_equal(unlink(own.path), 0);
    rlx_test_write_file(own.path, "else", 4);
    assert_ok(rlx_exec_create(program, NULL, &exec));
    is_right(&own, exec);
    assert_ok(rlx_program_save(program, own.path)); /* all weights, not only the resident */
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    program = load(&own, 0);
    assert_ok(rlx_exec_create(program, NULL, &exec));
    is_right(&own, exec);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

static bool stop_late(void *user, const rlx_progress *progress) {
    uint32_t *left = user;
    (void)progress;
    return (*left)-- != 0;
}

static void a_cancelled_run_waits_for_its_reads(void **state) {
    fixture *f = *state;
    for (uint32_t at = 0; at < 10; at++) {
        uint32_t left = at;
        rlx_exec_options options = {.size = sizeof options, .progress = stop_late, .user = &left};
        rlx_exec *exec = NULL;
        float y[WIDTH];
        assert_ok(rlx_exec_create(f->program, &options, &exec));
        assert_status(RLX_CANCELLED, run(exec, f->x, y));
        assert_int_equal(exec->streams->count, 0);
        left = UINT32_MAX;
        is_right(f, exec);
        rlx_exec_destroy(exec);
    }
}

/* A disk that answers nothing until it is let go. */
typedef struct stuck {
    pthread_mutex_t lock;
    rlx_exec *exec;
    _Atomic uint32_t waiting;
} stuck;

static void hold(void *user) {
    stuck *self = user;
    atomic_fetch_add(&self->waiting, 1);
    pthread_mutex_lock(&self->lock);
    pthread_mutex_unlock(&self->lock);
}

/* Cancels while a read hangs, then lets it go: a drain needs the read to end. */
static void *cancel_and_let_go(void *user) {
    stuck *self = user;
    while (atomic_load(&self->waiting) == 0)
        usleep(1000);
    rlx_exec_cancel(self->exec);
    usleep(100000);
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static void *lock_then_cancel(void *user) {
    stuck *self = user;
    pthread_mutex_lock(&self->lock);
    atomic_store(&self->waiting, 0);
    return cancel_and_let_go(user);
}

static void a_run_that_waits_for_a_slow_disk_can_be_cancelled(void **state) {
    fixture *f = *state;
    stuck self = {.lock = PTHREAD_MUTEX_INITIALIZER};
    rlx_copy_hooks hooks = {.gate = hold, .user = &self};
    pthread_t thread;
    float y[WIDTH];
    assert_ok(rlx_exec_create(f->program, NULL, &self.exec));
    assert_ok(rlx_exec_set_stream_hooks(self.exec, &hooks));
    atomic_store(&self.waiting, 1);
    assert_int_equal(pthread_create(&thread, NULL, lock_then_cancel, &self), 0);
    while (atomic_load(&self.waiting) != 0) /* the disk is stuck from here on */
        usleep(100);
    rlx_status status = run(self.exec, f->x, y);
    pthread_join(thread, NULL);
    assert_status(RLX_CANCELLED, status);
    is_right(f, self.exec);
    rlx_exec_destroy(self.exec);
}

/* Destroyed with the engine idle, and one that never ran. */
static void executables_come_and_go(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 5; i++) {
        rlx_exec *exec = NULL, *twin = NULL, *own = NULL;
        assert_ok(rlx_exec_create(f->program, NULL, &exec));
        if (i % 2 == 0) is_right(f, exec);
        assert_ok(rlx_exec_clone(exec, 0, &twin));
        assert_ok(rlx_exec_clone(exec, RLX_CLONE_OWN_ALL, &own));
        is_right(f, twin);
        rlx_exec_destroy(exec);
        is_right(f, own);
        is_right(f, twin);
        rlx_exec_destroy(own);
        rlx_exec_destroy(twin);
    }
}

typedef struct runner {
    const fixture *f;
    rlx_exec *exec;
    uint32_t wrong;
} runner;

static void *run_often(void *user) {
    runner *self = user;
    float y[WIDTH];
    for (int i = 0; i < 20; i++) {
        bool is_good =
            run(self->exec, self->f->x, y) == RLX_OK && memcmp(y, self->f->expected, sizeof y) == 0;
        self->wrong += !is_good;
    }
    return NULL;
}

static void executables_of_one_program_stream_side_by_side(void **state) {
    fixture *f = *state;
    runner runners[3] = {{.f = f}, {.f = f}, {.f = f}};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        assert_ok(rlx_exec_create(f->program, NULL, &runners[i].exec));
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, &runners[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(runners[i].wrong, 0);
        rlx_exec_destroy(runners[i].exec);
    }
}

static void a_profile_has_reads_and_waits(void **state) {
    fixture *f = *state;
    rlx_exec_options options = {.size = sizeof options, .profile = true};
    rlx_exec *exec = NULL;
    uint32_t count = 0, reads = 0;
    char *trace = NULL;
    assert_ok(rlx_exec_create(f->program, &options, &exec));
    is_right(f, exec);
    is_right(f, exec);
    const rlx_step_profile *rows = rlx_exec_profile(exec, &count);
    for (uint32_t i = 0; i < count; i++) {
        rlx_step_info info;
        assert_ok(rlx_plan_step_at(rlx_program_plan(f->program), i, &info));
        assert_int_equal(rows[i].runs, 2);
        if (!info.is_stream || info.output_count == 0) continue;
        assert_true(rows[i].bytes >= 256 << 10);
        reads++;
    }
    assert_int_equal(reads, rlx_program_plan(f->program)->stream.tiles.count);
    assert_ok(rlx_exec_trace(exec, &trace));
    assert_text_has(trace, "\"cat\":\"read\"");
    assert_text_has(trace, "\"cat\":\"wait\"");
    rlx_string_free(NULL, trace);
    rlx_exec_destroy(exec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_streams_most_of_its_weights),
        cmocka_unit_test(a_failed_read_fails_the_run_and_the_next_is_right),
        cmocka_unit_test(a_disk_that_always_fails_never_hangs),
        cmocka_unit_test(short_reads_are_read_to_their_end),
        cmocka_unit_test(an_interrupted_read_is_made_again),
        cmocka_unit_test(a_file_that_shrinks_under_a_read_is_an_error),
        cmocka_unit_test(a_file_cut_short_is_refused),
        cmocka_unit_test(a_file_that_is_replaced_is_still_the_same),
        cmocka_unit_test(a_cancelled_run_waits_for_its_reads),
        cmocka_unit_test(a_run_that_waits_for_a_slow_disk_can_be_cancelled),
        cmocka_unit_test(executables_come_and_go),
        cmocka_unit_test(executables_of_one_program_stream_side_by_side),
        cmocka_unit_test(a_profile_has_reads_and_waits),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
