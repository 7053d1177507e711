/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes that a plan prints are the bytes that are mapped: executables live in memory of exactly
 * that size with forbidden pages around it, and what the passes do to a plan makes it no larger. */
#include "session/subject.h"

#include <stdio.h>
#include <stdlib.h>

#include <sys/mman.h>
#include <unistd.h>

/* Memory between two forbidden pages: it ends at the second, or begins at the first. */
typedef struct fence {
    unsigned char *map, *memory;
    uint64_t map_bytes, bytes, slack; /* slack: what alignment leaves free at the end */
} fence;

enum { CANARY = 0xC5, ALIGNMENT = 64 };

static void fence_build(fence *self, uint64_t bytes, bool at_end) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page;
    *self = (fence){.map_bytes = (pages + 2) * page, .bytes = bytes};
    self->map = mmap(NULL, self->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(self->map != MAP_FAILED);
    if (pages != 0)
        assert_int_equal(mprotect(self->map + page, pages * page, PROT_READ | PROT_WRITE), 0);
    self->memory = self->map + page;
    self->slack = pages * page - bytes;
    if (at_end) {
        self->slack %= ALIGNMENT;
        self->memory += pages * page - bytes - self->slack;
    }
    memset(self->map + page, CANARY, pages * page);
}

/* False when a byte before or behind the memory was changed. */
static bool fence_is_whole(const fence *self) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const unsigned char *end = self->memory + self->bytes + self->slack;
    for (const unsigned char *at = self->map + page; at < end; at++) {
        bool is_inside = at >= self->memory && at < self->memory + self->bytes;
        if (!is_inside && *at != CANARY) return false;
    }
    return true;
}

static void fence_remove(fence *self) {
    munmap(self->map, self->map_bytes);
}

typedef struct fences {
    fence state, scratch;
    bool at_end;
} fences;

static void put_in_fences(void *user, const rlx_program *program, rlx_exec_options *options) {
    fences *self = user;
    const rlx_plan *plan = rlx_program_plan(program);
    fence_build(&self->state, rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE), self->at_end);
    fence_build(&self->scratch, rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH), self->at_end);
    options->state_memory = self->state.memory;
    options->state_bytes = self->state.bytes;
    options->scratch_memory = self->scratch.memory;
    options->scratch_bytes = self->scratch.bytes;
}

typedef struct tally {
    rlx_device *device;
    unsigned count, bad;
} tally;

static void check_fences(subject *self, void *user) {
    tally *all = user;
    outcome expected, actual;
    bool is_good = true;
    subject_run(self, &(manner){.device = all->device}, &expected);
    for (uint32_t at_end = 0; at_end < 2; at_end++) {
        fences around = {.at_end = at_end == 1};
        manner how = {.device = all->device, .prepare = put_in_fences, .user = &around};
        subject_run(self, &how, &actual);
        is_good &= outcomes_equal(self, &expected, &actual, "between forbidden pages");
        if (around.state.map != NULL) {
            is_good &= fence_is_whole(&around.state) && fence_is_whole(&around.scratch);
            fence_remove(&around.state);
            fence_remove(&around.scratch);
        }
        outcome_free(&actual);
    }
    outcome_free(&expected);
    all->count++;
    all->bad += !is_good;
}

static void memory_of_exactly_the_planned_size_is_enough(void **state) {
    tally all = {.device = subject_device("cpu", 3)};
    (void)state;
    subject_for_each(check_fences, &all);
    rlx_device_release(all.device);
    if (all.bad != 0) fail_msg("%u of %u graphs", all.bad, all.count);
    assert_true(all.count > 600);
}

/* The numbers of a line of the printed plan. */
static uint64_t printed(const char *text, const char *name) {
    const char *line = strstr(text, "\n weights "), *found;
    assert_non_null(line);
    found = strstr(line, name);
    assert_non_null(found);
    return strtoull(found + strlen(name), NULL, 10);
}

static void check_bytes(subject *self, void *user) {
    tally *all = user;
    rlx_entry_spec entry = {.bindings = self->bindings, .binding_count = self->binding_count};
    rlx_compile_options options = {.size = sizeof options, .entries = &entry, .entry_count = 1};
    rlx_plan *plan = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    char *text = NULL;
    assert_ok(rlx_session_plan(self->session, "cpu", 3, &options, &plan));
    assert_ok(rlx_plan_print(plan, &text));
    assert_ok(rlx_session_compile(self->session, all->device, &options, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    const rlx_arena *arena = rlx_exec_arena(exec);
    assert_int_equal(rlx_arena_segment_bytes(arena, RLX_SEGMENT_WEIGHTS),
                     printed(text, " weights "));
    assert_int_equal(rlx_arena_segment_bytes(arena, RLX_SEGMENT_STATE), printed(text, " state "));
    assert_int_equal(rlx_arena_segment_bytes(arena, RLX_SEGMENT_SCRATCH),
                     printed(text, " scratch "));
    assert_int_equal(rlx_arena_bytes(arena), rlx_plan_arena_bytes(plan));
    assert_int_equal(rlx_program_weights_bytes(program),
                     rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS));
    rlx_string_free(NULL, text);
    rlx_plan_destroy(plan);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

static void printed_bytes_are_mapped_bytes(void **state) {
    tally all = {.device = subject_device("cpu", 3)};
    (void)state;
    subject_for_each_graph(check_bytes, &all);
    rlx_device_release(all.device);
}

/* A hook that notes large blocks, in which the segments must be found with their exact sizes. */
typedef struct notes {
    uint64_t bytes[4096];
    uint32_t count;
} notes;

static void *note_allocate(void *user, size_t bytes, size_t alignment) {
    notes *self = user;
    if (self->count < sizeof self->bytes / sizeof *self->bytes) self->bytes[self->count++] = bytes;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void note_release(void *user, void *memory) {
    (void)user;
    free(memory);
}

static bool was_asked_for(const notes *self, uint64_t bytes) {
    for (uint32_t i = 0; i < self->count; i++) {
        if (self->bytes[i] == bytes) return true;
    }
    return bytes == 0;
}

static void the_segments_are_allocated_with_these_sizes(void **state) {
    subject self;
    notes seen = {.count = 0};
    rlx_allocator hook = {note_allocate, note_release, &seen};
    rlx_device *device = subject_device("cpu", 2);
    rlx_program_options memory = {.size = sizeof memory, .allocator = &hook};
    rlx_exec_options options = {.size = sizeof options, .allocator = &hook};
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    (void)state;
    subject_open_file(&self, "graphs/wide.rlx");
    assert_ok(rlx_session_compile(self.session, device, NULL, &memory, &program));
    const rlx_plan *plan = rlx_program_plan(program);
    assert_true(was_asked_for(&seen, rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS)));
    seen.count = 0;
    assert_ok(rlx_exec_create(program, &options, &exec));
    assert_true(was_asked_for(&seen, rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE)));
    assert_true(was_asked_for(&seen, rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH)));
    uint64_t others = 0; /* tables of the executable: small beside the arena */
    for (uint32_t i = 0; i < seen.count; i++)
        others += seen.bytes[i];
    others -= rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE);
    others -= rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH);
    assert_true(others < 256 * 1024);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
    subject_close(&self);
}

static void too_little_or_crooked_memory_is_refused(void **state) {
    static _Alignas(64) unsigned char memory[1 << 20];
    subject self;
    rlx_device *device = subject_device("cpu", 2);
    rlx_exec_options options = {.size = sizeof options, .scratch_memory = memory};
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    (void)state;
    subject_open_file(&self, "graphs/views.rlx");
    assert_ok(rlx_session_compile(self.session, device, NULL, NULL, &program));
    uint64_t bytes = rlx_plan_segment_bytes(rlx_program_plan(program), RLX_SEGMENT_SCRATCH);
    assert_true(bytes < sizeof memory - 1);
    memset(memory, CANARY, sizeof memory);
    options.scratch_bytes = bytes - 1;
    assert_status(RLX_DOES_NOT_FIT, rlx_exec_create(program, &options, &exec));
    assert_error_has("scratch");
    assert_int_equal(rlx_last_error_detail()->expected, bytes);
    assert_int_equal(rlx_last_error_detail()->got, bytes - 1);
    options.scratch_bytes = bytes;
    options.scratch_memory = memory + 1;
    assert_status(RLX_DOES_NOT_FIT, rlx_exec_create(program, &options, &exec));
    assert_error_has("aligned to 64");
    for (size_t i = 0; i < sizeof memory; i++)
        assert_int_equal(memory[i], CANARY);
    rlx_program_release(program);
    rlx_device_release(device);
    subject_close(&self);
}

/* On scalar kernels: vector levels pay for speed with workspace and blocks of channels. */
static uint64_t scratch_of(subject *self, uint64_t disabled, bool without_reuse,
                           uint64_t *out_bound) {
    rlx_entry_spec entry = {.bindings = self->bindings, .binding_count = self->binding_count};
    rlx_compile_options options = {.size = sizeof options,
                                   .entries = &entry,
                                   .entry_count = 1,
                                   .disabled_passes = disabled,
                                   .without_reuse = without_reuse};
    rlx_plan *plan = NULL;
    rlx_entry_info info;
    assert_ok(rlx_session_plan(self->session, "cpu:scalar", 2, &options, &plan));
    assert_ok(rlx_plan_entry_at(plan, 0, &info));
    assert_int_equal(info.scratch_bytes, rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH));
    rlx_plan_destroy(plan);
    if (out_bound != NULL) *out_bound = info.lower_bound;
    return info.scratch_bytes;
}

/* Others may cost a little in one graph: a view makes its whole live longer, a fused step may want
 * a workspace. */
static bool is_tried_both_ways(const char *pass) {
    return strcmp(pass, "reorder") == 0 || strcmp(pass, "in_place") == 0 ||
           strcmp(pass, "concat_in_place") == 0;
}

static void check_scratch(subject *self, void *user) {
    tally *all = user;
    uint64_t bound, scratch = scratch_of(self, 0, false, &bound);
    assert_true(bound <= scratch);
    uint64_t plain = scratch_of(self, subject_all_passes(), false, NULL);
    uint64_t apart = scratch_of(self, 0, true, NULL);
    if (scratch > plain || scratch > apart) {
        print_error("%s: %u bytes of scratch; %u without passes, %u without reuse\n", self->name,
                    (unsigned)scratch, (unsigned)plain, (unsigned)apart);
        all->bad++;
    }
    for (uint32_t pass = 0; pass < rlx_pass_count(); pass++) {
        if (!is_tried_both_ways(rlx_pass_name(pass))) continue;
        uint64_t without = scratch_of(self, UINT64_C(1) << pass, false, NULL);
        if (scratch <= without) continue;
        print_error("%s: %u bytes of scratch, %u without %s\n", self->name, (unsigned)scratch,
                    (unsigned)without, rlx_pass_name(pass));
        all->bad++;
    }
}

static void passes_make_no_plan_larger(void **state) {
    tally all = {0};
    (void)state;
    subject_for_each_graph(check_scratch, &all);
    assert_int_equal(all.bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_exactly_the_planned_size_is_enough),
        cmocka_unit_test(printed_bytes_are_mapped_bytes),
        cmocka_unit_test(the_segments_are_allocated_with_these_sizes),
        cmocka_unit_test(too_little_or_crooked_memory_is_refused),
        cmocka_unit_test(passes_make_no_plan_larger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
