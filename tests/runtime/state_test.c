/* SPDX-License-Identifier: Apache-2.0 */
/* State across runs, entries, clones and files. */
#include "plans.h"

#include <stdlib.h>

static rlx_status append(rlx_exec *exec, int64_t at, float a, float b) {
    RLX_TRY(rlx_exec_set_f32(exec, 0, "rows", (float[]){a, b}, 2));
    RLX_TRY(rlx_exec_set(exec, 0, "at", &at, sizeof at));
    return rlx_exec_run(exec, 0);
}

static float sum(rlx_exec *exec) {
    float total = -1;
    assert_ok(rlx_exec_set_f32(exec, 1, "s", (float[]){1}, 1));
    assert_ok(rlx_exec_run(exec, 1));
    assert_ok(rlx_exec_read_f32(exec, 1, "total", &total, 1, NULL));
    return total;
}

static void state_lives_across_runs_and_entries(void **state) {
    rlx_exec *exec = exec_of(plan_state(), NULL);
    rlx_output_info info;
    float k[8];
    (void)state;
    assert_true(sum(exec) == 0); /* never written: zeros */
    assert_ok(append(exec, 0, 1, 2));
    assert_ok(append(exec, 1, 3, 4));
    assert_ok(rlx_exec_output(exec, 0, 0, &info));
    assert_int_equal(info.shape.dims[0], 2);
    assert_ok(rlx_exec_read_output_f32(exec, 0, 0, k, 8, NULL));
    assert_true(k[0] == 1 && k[3] == 4);
    assert_true(sum(exec) == 10);
    assert_ok(rlx_exec_reset_state(exec));
    assert_true(sum(exec) == 0);
    rlx_exec_destroy(exec);
}

static void a_state_past_its_end_is_a_fault(void **state) {
    rlx_exec *exec = exec_of(plan_state(), NULL);
    (void)state;
    assert_ok(append(exec, 3, 1, 2));
    assert_status(RLX_FAULT, append(exec, 4, 5, 6));
    assert_error_has("node 'k_after' (state_write): state written past its end, position: 4");
    assert_true(sum(exec) == 3);
    rlx_exec_destroy(exec);
}

static void entries_forget_each_others_inputs(void **state) {
    rlx_exec *exec = exec_of(plan_state(), NULL);
    float total;
    (void)state;
    assert_ok(rlx_exec_set_f32(exec, 1, "s", (float[]){2}, 1));
    assert_ok(append(exec, 0, 1, 2));
    assert_status(RLX_INVALID_ARGUMENT, rlx_exec_run(exec, 1));
    assert_error_has("input 's' of entry 'sum'");
    assert_ok(rlx_exec_set_f32(exec, 1, "s", (float[]){2}, 1));
    assert_ok(rlx_exec_run(exec, 1));
    assert_ok(rlx_exec_run(exec, 1)); /* s survives its own entry */
    assert_ok(rlx_exec_read_f32(exec, 1, "total", &total, 1, NULL));
    assert_true(total == 6);
    assert_status(RLX_INVALID_ARGUMENT, rlx_exec_output(exec, 0, 0, &(rlx_output_info){0}));
    rlx_exec_destroy(exec);
}

static void a_clone_copies_the_state_and_shares_the_weights(void **state) {
    rlx_exec *exec = exec_of(plan_state(), NULL), *twin = NULL;
    (void)state;
    assert_ok(append(exec, 0, 1, 2));
    assert_ok(rlx_exec_clone(exec, 0, &twin));
    assert_true(sum(twin) == 3);
    assert_ok(append(twin, 1, 10, 10));
    assert_true(sum(twin) == 23);
    assert_true(sum(exec) == 3);
    rlx_exec_destroy(exec);
    assert_true(sum(twin) == 23); /* outlives the original */
    rlx_exec_destroy(twin);
    exec = exec_of(plan_mlp(), NULL);
    assert_ok(rlx_exec_clone(exec, 0, &twin));
    assert_ptr_equal(rlx_arena_address(exec->arena, slot_of(exec, "w")),
                     rlx_arena_address(twin->arena, slot_of(twin, "w")));
    rlx_exec_destroy(twin);
    rlx_exec_destroy(exec);
}

static void a_clone_may_own_everything(void **state) {
    rlx_exec *exec = exec_of(plan_mlp(), NULL), *twin = NULL;
    const float x[4] = {1, 2, 3, 4};
    float y[4];
    (void)state;
    assert_ok(rlx_exec_set_f32(exec, 0, "x", x, 4)); /* inputs are copied, too */
    assert_ok(rlx_exec_clone(exec, RLX_CLONE_OWN_ALL, &twin));
    assert_ptr_not_equal(rlx_arena_address(exec->arena, slot_of(exec, "w")),
                         rlx_arena_address(twin->arena, slot_of(twin, "w")));
    assert_ok(
        rlx_arena_write_f32(twin->arena, slot_of(twin, "w"), 0, (float[]){3, 0, 0, 3}, 4, 0, NULL));
    assert_ok(rlx_exec_run(twin, 0));
    assert_ok(rlx_exec_read_f32(twin, 0, "y", y, 4, NULL));
    assert_true(y[0] == 3 && y[3] == 12);
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 4, NULL));
    assert_true(y[0] == 5 && y[3] == 0);
    rlx_exec_destroy(twin);
    rlx_exec_destroy(exec);
}

static void state_goes_to_a_file_and_back(void **state) {
    rlx_exec *exec = exec_of(plan_state(), NULL), *other = exec_of(plan_state(), NULL);
    rlx_test_folder folder;
    (void)state;
    rlx_test_folder_create(&folder);
    assert_ok(append(exec, 0, 1, 2));
    assert_ok(rlx_exec_save_state(exec, rlx_test_path(&folder, "k")));
    assert_int_equal(rlx_test_entry_count(folder.path), 1);
    assert_ok(append(exec, 1, 5, 5));
    assert_ok(rlx_exec_restore_state(exec, rlx_test_path(&folder, "k")));
    assert_true(sum(exec) == 3);
    assert_ok(rlx_exec_restore_state(other, rlx_test_path(&folder, "k")));
    assert_true(sum(other) == 3);
    assert_status(RLX_IO, rlx_exec_save_state(exec, rlx_test_path(&folder, "no/such/k")));
    rlx_test_folder_remove(&folder);
    rlx_exec_destroy(other);
    rlx_exec_destroy(exec);
}

static void a_foreign_state_file_changes_nothing(void **state) {
    rlx_exec *exec = exec_of(plan_state(), NULL), *other = exec_of(plan_mlp(), NULL);
    rlx_test_folder folder;
    size_t bytes = 0;
    (void)state;
    rlx_test_folder_create(&folder);
    const char *path = rlx_test_path(&folder, "k");
    assert_ok(append(exec, 0, 1, 2));
    assert_ok(rlx_exec_save_state(exec, path));
    char *whole = rlx_test_read_file(path, &bytes);
    for (size_t cut = 0; cut < bytes; cut++) { /* every shorter file */
        rlx_test_write_file(path, whole, cut);
        assert_int_not_equal(rlx_exec_restore_state(exec, path), RLX_OK);
    }
    whole[20] ^= 1; /* another layout */
    rlx_test_write_file(path, whole, bytes);
    assert_status(RLX_MISMATCH, rlx_exec_restore_state(exec, path));
    assert_error_has("state layout");
    whole[20] ^= 1;
    rlx_test_write_file(path, whole, bytes);
    assert_status(RLX_MISMATCH, rlx_exec_restore_state(other, path));
    assert_status(RLX_IO, rlx_exec_restore_state(exec, rlx_test_path(&folder, "absent")));
    assert_true(sum(exec) == 3);
    free(whole);
    rlx_test_folder_remove(&folder);
    rlx_exec_destroy(other);
    rlx_exec_destroy(exec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_lives_across_runs_and_entries),
        cmocka_unit_test(a_state_past_its_end_is_a_fault),
        cmocka_unit_test(entries_forget_each_others_inputs),
        cmocka_unit_test(a_clone_copies_the_state_and_shares_the_weights),
        cmocka_unit_test(a_clone_may_own_everything),
        cmocka_unit_test(state_goes_to_a_file_and_back),
        cmocka_unit_test(a_foreign_state_file_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
