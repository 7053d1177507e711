/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of several entries: a prompt and then token by token over resident keys and values gives
 * what one pass over everything gives; a conversation goes on to the bit after it was saved,
 * restored, cloned, or loaded from a program file. */
#include "session/subject.h"

#include <math.h>
#include <stdlib.h>

enum { PROMPT = 8, STEPS = 6, LENGTH = PROMPT + STEPS, VOCABULARY = 32 };
enum { PREFILL, DECODE, WHOLE };

static const rlx_binding sizes[] = {{"S", PROMPT}, {"S", 1}, {"S", LENGTH}};
static const rlx_entry_spec entries[] = {
    {.name = "prefill", .bindings = &sizes[PREFILL], .binding_count = 1},
    {.name = "decode", .bindings = &sizes[DECODE], .binding_count = 1},
    {.name = "whole", .bindings = &sizes[WHOLE], .binding_count = 1}};

typedef struct fixture {
    rlx_device *device;
    rlx_session *session;
    rlx_program *program;
    int64_t tokens[LENGTH];
    float whole[LENGTH][VOCABULARY]; /* logits of one pass over all tokens */
} fixture;

static rlx_status run(rlx_exec *exec, uint32_t entry, const int64_t *tokens, uint32_t count,
                      int64_t position, float *out_logits) {
    RLX_TRY(rlx_exec_set(exec, entry, "tokens", tokens, count * sizeof *tokens));
    RLX_TRY(rlx_exec_set(exec, entry, "position", &position, sizeof position));
    RLX_TRY(rlx_exec_run(exec, entry));
    return rlx_exec_read_f32(exec, entry, "logits", out_logits, count * VOCABULARY, NULL);
}

static rlx_program *compile(fixture *self, uint64_t disabled) {
    rlx_compile_options options = {
        .size = sizeof options, .entries = entries, .entry_count = 3, .disabled_passes = disabled};
    rlx_program *program = NULL;
    assert_ok(rlx_session_compile(self->session, self->device, &options, NULL, &program));
    return program;
}

static int set_up(void **state) {
    static fixture self;
    rlx_exec *exec = NULL;
    self.device = subject_device("cpu", 2);
    assert_ok(rlx_session_open(NULL, "graphs/decoder.rlx", &self.session));
    self.program = compile(&self, 0);
    for (uint32_t i = 0; i < LENGTH; i++)
        self.tokens[i] = (i * 7 + 3) % VOCABULARY;
    assert_ok(rlx_exec_create(self.program, NULL, &exec));
    assert_ok(run(exec, WHOLE, self.tokens, LENGTH, 0, self.whole[0]));
    rlx_exec_destroy(exec);
    *state = &self;
    return 0;
}

static int tear_down(void **state) {
    fixture *self = *state;
    rlx_program_release(self->program);
    rlx_session_destroy(self->session);
    rlx_device_release(self->device);
    return 0;
}

/* Decodes tokens [first, last) into their rows. */
static void decode(const fixture *self, rlx_exec *exec, uint32_t first, uint32_t last,
                   float logits[LENGTH][VOCABULARY]) {
    for (uint32_t i = first; i < last; i++)
        assert_ok(run(exec, DECODE, &self->tokens[i], 1, i, logits[i]));
}

static void check_against_whole(fixture *self, rlx_program *program, bool poison) {
    rlx_exec_options options = {.size = sizeof options, .poison = poison};
    float logits[LENGTH][VOCABULARY];
    rlx_exec *exec = NULL;
    assert_ok(rlx_exec_create(program, &options, &exec));
    assert_ok(run(exec, PREFILL, self->tokens, PROMPT, 0, logits[0]));
    decode(self, exec, PROMPT, LENGTH, logits);
    assert_close_f32(self->whole[0], logits[0], LENGTH * VOCABULARY, 1e-5, 1e-4);
    /* From the first token on, one by one, in the same executable after a reset. */
    assert_ok(rlx_exec_reset_state(exec));
    decode(self, exec, 0, LENGTH, logits);
    assert_close_f32(self->whole[0], logits[0], LENGTH * VOCABULARY, 1e-5, 1e-4);
    rlx_exec_destroy(exec);
}

static void prefill_and_decode_equal_one_whole_pass(void **state) {
    fixture *self = *state;
    check_against_whole(self, self->program, false);
    check_against_whole(self, self->program, true);
}

static void the_passes_do_not_matter_to_entries(void **state) {
    fixture *self = *state;
    for (uint32_t pass = 0; pass <= rlx_pass_count(); pass++) {
        uint64_t disabled = pass == rlx_pass_count() ? subject_all_passes() : UINT64_C(1) << pass;
        rlx_program *program = compile(self, disabled);
        check_against_whole(self, program, true);
        rlx_program_release(program);
    }
}

/* The whole pass against scalar kernels without fusion, views, reuse. */
static void the_whole_pass_equals_the_oracle(void **state) {
    fixture *self = *state;
    rlx_device *device = subject_device("cpu:scalar", 1);
    rlx_compile_options options = {.size = sizeof options,
                                   .entries = &entries[WHOLE],
                                   .entry_count = 1,
                                   .disabled_passes = subject_all_passes(),
                                   .without_reuse = true};
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    float logits[LENGTH][VOCABULARY];
    assert_ok(rlx_session_compile(self->session, device, &options, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(run(exec, 0, self->tokens, LENGTH, 0, logits[0]));
    assert_close_f32(logits[0], self->whole[0], LENGTH * VOCABULARY, 1e-5, 1e-4);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
}

/* Decodes the rest and compares with `expected` to the bit. */
static void assert_goes_on(const fixture *self, rlx_exec *exec, uint32_t from,
                           float expected[LENGTH][VOCABULARY]) {
    float logits[LENGTH][VOCABULARY];
    decode(self, exec, from, LENGTH, logits);
    assert_memory_equal(logits[from], expected[from], (LENGTH - from) * sizeof logits[0]);
}

static void saved_restored_and_cloned_state_goes_on_to_the_bit(void **state) {
    fixture *self = *state;
    enum { BREAK = PROMPT + 2 };
    float expected[LENGTH][VOCABULARY], other[LENGTH][VOCABULARY];
    rlx_exec *exec = NULL, *twin = NULL, *own = NULL, *fresh = NULL;
    rlx_test_folder folder;
    rlx_test_folder_create(&folder);
    assert_ok(rlx_exec_create(self->program, NULL, &exec));
    assert_ok(run(exec, PREFILL, self->tokens, PROMPT, 0, expected[0]));
    decode(self, exec, PROMPT, BREAK, expected);
    assert_ok(rlx_exec_save_state(exec, rlx_test_path(&folder, "state")));
    assert_ok(rlx_exec_clone(exec, 0, &twin));
    assert_ok(rlx_exec_clone(exec, RLX_CLONE_OWN_ALL, &own));
    decode(self, exec, BREAK, LENGTH, expected);
    assert_goes_on(self, twin, BREAK, expected);
    assert_goes_on(self, own, BREAK, expected);
    /* Into an executable that has just begun another conversation. */
    assert_ok(rlx_exec_create(self->program, NULL, &fresh));
    decode(self, fresh, 0, 3, other);
    assert_ok(rlx_exec_restore_state(fresh, rlx_test_path(&folder, "state")));
    assert_goes_on(self, fresh, BREAK, expected);
    /* Back in time, in the executable that has gone on. */
    assert_ok(rlx_exec_restore_state(exec, rlx_test_path(&folder, "state")));
    assert_goes_on(self, exec, BREAK, expected);
    rlx_exec_destroy(exec);
    rlx_exec_destroy(twin);
    rlx_exec_destroy(own);
    rlx_exec_destroy(fresh);
    rlx_test_folder_remove(&folder);
}

static void a_loaded_program_gives_the_same_bits(void **state) {
    fixture *self = *state;
    rlx_program *loaded = NULL;
    rlx_exec *exec = NULL, *original = NULL;
    float expected[LENGTH][VOCABULARY], logits[LENGTH][VOCABULARY];
    rlx_test_folder folder;
    uint32_t entry;
    rlx_test_folder_create(&folder);
    assert_ok(rlx_program_save(self->program, rlx_test_path(&folder, "decoder.rlxp")));
    assert_ok(
        rlx_program_load(self->device, rlx_test_path(&folder, "decoder.rlxp"), NULL, &loaded));
    assert_true(rlx_program_is_mapped(loaded));
    assert_ok(rlx_program_find_entry(loaded, "decode", &entry));
    assert_int_equal(entry, DECODE);
    assert_ok(rlx_exec_create(self->program, NULL, &original));
    assert_ok(rlx_exec_create(loaded, NULL, &exec));
    assert_ok(run(original, PREFILL, self->tokens, PROMPT, 0, expected[0]));
    decode(self, original, PROMPT, LENGTH, expected);
    assert_ok(run(exec, PREFILL, self->tokens, PROMPT, 0, logits[0]));
    assert_memory_equal(logits, expected, PROMPT * sizeof logits[0]);
    assert_goes_on(self, exec, PROMPT, expected);
    /* State moves between a program and its saved twin. */
    assert_ok(rlx_exec_save_state(original, rlx_test_path(&folder, "state")));
    assert_ok(rlx_exec_restore_state(exec, rlx_test_path(&folder, "state")));
    rlx_exec_destroy(exec);
    rlx_exec_destroy(original);
    rlx_program_release(loaded);
    rlx_test_folder_remove(&folder);
}

static void the_plan_of_one_entry_is_the_scratch_of_the_largest(void **state) {
    fixture *self = *state;
    const rlx_plan *plan = rlx_program_plan(self->program);
    uint64_t most = 0;
    assert_int_equal(rlx_plan_entry_count(plan), 3);
    for (uint32_t i = 0; i < 3; i++) {
        rlx_entry_info info;
        assert_ok(rlx_plan_entry_at(plan, i, &info));
        if (info.scratch_bytes > most) most = info.scratch_bytes;
    }
    assert_int_equal(rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH), most);
    /* Weights and states once: as much as a program of one entry has. */
    rlx_compile_options options = {
        .size = sizeof options, .entries = &entries[DECODE], .entry_count = 1};
    rlx_plan *single = NULL;
    assert_ok(rlx_session_plan(self->session, NULL, 2, &options, &single));
    assert_int_equal(rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS),
                     rlx_plan_segment_bytes(single, RLX_SEGMENT_WEIGHTS));
    assert_int_equal(rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE),
                     rlx_plan_segment_bytes(single, RLX_SEGMENT_STATE));
    rlx_plan_destroy(single);
}

static void past_the_end_of_the_states_is_a_fault_and_one_can_go_back(void **state) {
    fixture *self = *state;
    float expected[LENGTH][VOCABULARY], logits[PROMPT * VOCABULARY];
    rlx_exec *exec = NULL;
    assert_ok(rlx_exec_create(self->program, NULL, &exec));
    assert_ok(run(exec, PREFILL, self->tokens, PROMPT, 0, expected[0]));
    decode(self, exec, PROMPT, LENGTH, expected);
    assert_status(RLX_FAULT, run(exec, DECODE, self->tokens, 1, 16, logits));
    assert_error_has("state written past its end");
    assert_status(RLX_FAULT, run(exec, PREFILL, self->tokens, PROMPT, 9, logits));
    assert_goes_on(self, exec, PROMPT + 1, expected); /* rows behind are not looked at */
    rlx_exec_destroy(exec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefill_and_decode_equal_one_whole_pass),
        cmocka_unit_test(the_passes_do_not_matter_to_entries),
        cmocka_unit_test(the_whole_pass_equals_the_oracle),
        cmocka_unit_test(saved_restored_and_cloned_state_goes_on_to_the_bit),
        cmocka_unit_test(a_loaded_program_gives_the_same_bits),
        cmocka_unit_test(the_plan_of_one_entry_is_the_scratch_of_the_largest),
        cmocka_unit_test(past_the_end_of_the_states_is_a_fault_and_one_can_go_back),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
