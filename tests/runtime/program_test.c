/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: weights from sources, prepare steps, files, and what is refused. */
#include "plans.h"

#include <stdlib.h>

static void run_mlp(rlx_program *program) {
    rlx_exec *exec = NULL;
    float y[4];
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(rlx_exec_set_f32(exec, 0, "x", (float[]){1, 2, 3, 4}, 4));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 4, NULL));
    assert_memory_equal(y, ((float[]){5, 0, 11, 0}), sizeof y);
    rlx_exec_destroy(exec);
}

static void ports_are_found_and_described(void **state) {
    rlx_program *program = program_of(NULL, plan_state());
    uint32_t entry = 9, index = 9;
    rlx_port_info info;
    (void)state;
    assert_ok(rlx_program_find_entry(program, "sum", &entry));
    assert_int_equal(entry, 1);
    assert_ok(rlx_program_find_entry(program, NULL, &entry));
    assert_int_equal(entry, 0);
    assert_status(RLX_NOT_FOUND, rlx_program_find_entry(program, "main", &entry));
    assert_error_has("there are: append, ");
    assert_ok(rlx_program_find_input(program, 0, "at", &index));
    assert_int_equal(index, 1);
    assert_ok(rlx_program_find_output(program, 0, "length", &index));
    assert_int_equal(index, 1);
    assert_status(RLX_NOT_FOUND, rlx_program_find_output(program, 0, "rows", &index));
    assert_error_has("it has: k_after, length");
    assert_ok(rlx_program_input(program, 0, 0, &info));
    assert_string_equal(info.name, "rows");
    assert_int_equal(info.bytes, 8);
    assert_false(info.survives);
    assert_ok(rlx_program_input(program, 1, 0, &info));
    assert_true(info.survives);
    assert_ok(rlx_program_output(program, 0, 0, &info));
    assert_int_equal(info.shape.dims[0], 4);
    assert_status(RLX_NOT_FOUND, rlx_program_output(program, 0, 2, &info));
    rlx_program_release(program);
}

static void a_saved_program_runs_from_its_file(void **state) {
    rlx_device *device = cpu_of(2);
    rlx_program *program = program_of(device, plan_mlp()), *loaded = NULL;
    rlx_test_folder folder;
    (void)state;
    rlx_test_folder_create(&folder);
    const char *path = rlx_test_path(&folder, "mlp.rlxp");
    assert_ok(rlx_program_save(program, path));
    rlx_program_release(program);
    assert_ok(rlx_program_load(device, path, NULL, &loaded));
    assert_true(rlx_program_is_mapped(loaded));
    assert_int_equal(rlx_program_weights_bytes(loaded), 64);
    run_mlp(loaded);
    assert_ok(rlx_program_save(loaded, rlx_test_path(&folder, "again.rlxp")));
    rlx_program_release(loaded);
    assert_ok(rlx_program_load(device, rlx_test_path(&folder, "again.rlxp"), NULL, &loaded));
    run_mlp(loaded);
    rlx_program_release(loaded);
    rlx_test_folder_remove(&folder);
    rlx_device_release(device);
}

static void a_clone_of_a_mapped_program_may_own_its_weights(void **state) {
    rlx_device *device = cpu_of(1);
    rlx_program *program = program_of(device, plan_mlp()), *loaded = NULL;
    rlx_exec *exec = NULL, *twin = NULL;
    rlx_test_folder folder;
    (void)state;
    rlx_test_folder_create(&folder);
    assert_ok(rlx_program_save(program, rlx_test_path(&folder, "p")));
    assert_ok(rlx_program_load(device, rlx_test_path(&folder, "p"), NULL, &loaded));
    assert_ok(rlx_exec_create(loaded, NULL, &exec));
    assert_ok(rlx_exec_clone(exec, RLX_CLONE_OWN_ALL, &twin));
    assert_ok(rlx_arena_write_f32(twin->arena, slot_of(twin, "w"), 0, (float[]){9}, 1, 0, NULL));
    assert_status(RLX_INVALID_ARGUMENT, rlx_arena_write_f32(exec->arena, slot_of(exec, "w"), 0,
                                                            (float[]){9}, 1, 0, NULL));
    rlx_exec_destroy(twin);
    rlx_exec_destroy(exec);
    rlx_program_release(loaded);
    rlx_program_release(program);
    rlx_test_folder_remove(&folder);
    rlx_device_release(device);
}

static void broken_and_foreign_files_are_refused(void **state) {
    rlx_device *device = cpu_of(1);
    rlx_program *program = program_of(device, plan_mlp()), *loaded = NULL;
    rlx_test_folder folder;
    size_t bytes = 0;
    (void)state;
    rlx_test_folder_create(&folder);
    const char *path = rlx_test_path(&folder, "p");
    assert_status(RLX_IO,
                  rlx_program_load(device, rlx_test_path(&folder, "absent"), NULL, &loaded));
    assert_error_has("absent");
    assert_ok(rlx_program_save(program, path));
    char *whole = rlx_test_read_file(path, &bytes);
    rlx_test_write_file(path, whole, bytes / 2);
    assert_int_not_equal(rlx_program_load(device, path, NULL, &loaded), RLX_OK);
    rlx_test_write_file(path, "hello", 5);
    assert_status(RLX_PARSE, rlx_program_load(device, path, NULL, &loaded));
    assert_null(loaded);
    free(whole);
    rlx_program_release(program);
    rlx_test_folder_remove(&folder);
    rlx_device_release(device);
}

static void a_plan_for_another_target_is_refused(void **state) {
    rlx_device *device = cpu_of(1);
    rlx_plan *plan = plan_mlp();
    rlx_program *program = NULL;
    (void)state;
    plan->target = "vulkan/generic";
    assert_status(RLX_MISMATCH, rlx_program_create(device, plan, NULL, &program));
    assert_error_has("'vulkan/generic'");
    assert_error_has("'cpu/");
    plan->target = "cpu/whatever"; /* scalar C runs every plan of its kind */
    assert_ok(rlx_program_create(device, plan, NULL, &program));
    run_mlp(program);
    rlx_program_release(program);
    rlx_device_release(device);
}

static void an_invalid_plan_is_refused_and_stays_the_callers(void **state) {
    rlx_device *device = cpu_of(1);
    rlx_plan *plan = plan_mlp();
    rlx_program *program = NULL;
    (void)state;
    plan->buffers.items[2].offset += 1;
    assert_status(RLX_INVALID_PLAN, rlx_program_create(device, plan, NULL, &program));
    assert_null(program);
    rlx_plan_destroy(plan);
    rlx_device_release(device);
}

static void a_parameter_without_data_is_named(void **state) {
    rlx_device *device = cpu_of(1);
    rlx_plan *plan = plan_mlp();
    rlx_program *program = NULL;
    (void)state;
    plan->sources.items[0].is_constant = false;
    plan->sources.items[0].source = (rlx_source){.kind = RLX_SOURCE_NONE};
    assert_status(RLX_NOT_FOUND, rlx_program_create(device, plan, NULL, &program));
    assert_error_has("parameter 'raw' has no data");
    plan->sources.items[0].source =
        (rlx_source){.kind = RLX_SOURCE_FILE, .path = "/no/such/weights.bin", .bytes = 16};
    assert_status(RLX_IO, rlx_program_create(device, plan, NULL, &program));
    assert_error_has("parameter 'raw'");
    assert_error_has("/no/such/weights.bin");
    rlx_plan_destroy(plan);
    rlx_device_release(device);
}

static bool refuse(void *user, uint64_t done_bytes, uint64_t total_bytes) {
    *(uint64_t *)user = total_bytes;
    return done_bytes == total_bytes;
}

static void creating_a_program_can_be_cancelled(void **state) {
    rlx_device *device = cpu_of(1);
    rlx_plan *plan = plan_mlp();
    rlx_program *program = NULL;
    uint64_t total = 0;
    rlx_program_options options = {.size = sizeof options, .progress = refuse, .user = &total};
    (void)state;
    assert_status(RLX_CANCELLED, rlx_program_create(device, plan, &options, &program));
    assert_int_equal(total, 16);
    rlx_plan_destroy(plan);
    rlx_device_release(device);
}

static void saving_can_be_cancelled_and_leaves_nothing(void **state) {
    rlx_device *device = cpu_of(1);
    rlx_program *program = program_of(device, plan_mlp());
    uint64_t total = 0;
    rlx_program_options options = {.size = sizeof options, .progress = refuse, .user = &total};
    rlx_test_folder folder;
    (void)state;
    rlx_test_folder_create(&folder);
    assert_status(RLX_CANCELLED,
                  rlx_program_save_watched(program, rlx_test_path(&folder, "p"), &options));
    assert_int_equal(total, rlx_program_weights_bytes(program));
    assert_int_equal(rlx_test_entry_count(folder.path), 0);
    rlx_test_folder_remove(&folder);
    rlx_program_release(program);
    rlx_device_release(device);
}

typedef struct load_request {
    rlx_device *device;
    const char *path;
} load_request;

static rlx_status load_and_release(const rlx_allocator *allocator, void *argument) {
    load_request *request = argument;
    rlx_program_options options = {.size = sizeof options, .allocator = allocator};
    rlx_program *program = NULL;
    RLX_TRY(rlx_program_load(request->device, request->path, &options, &program));
    rlx_program_release(program);
    return RLX_OK;
}

static void loading_survives_every_failed_allocation(void **state) {
    load_request request = {.device = cpu_of(1)};
    rlx_program *program = program_of(request.device, plan_loop());
    rlx_test_folder folder;
    (void)state;
    rlx_test_folder_create(&folder);
    request.path = rlx_test_path(&folder, "p");
    assert_ok(rlx_program_save(program, request.path));
    assert_true(rlx_test_every_allocation_fails(load_and_release, &request) > 3);
    rlx_program_release(program);
    rlx_test_folder_remove(&folder);
    rlx_device_release(request.device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ports_are_found_and_described),
        cmocka_unit_test(a_saved_program_runs_from_its_file),
        cmocka_unit_test(a_clone_of_a_mapped_program_may_own_its_weights),
        cmocka_unit_test(broken_and_foreign_files_are_refused),
        cmocka_unit_test(a_plan_for_another_target_is_refused),
        cmocka_unit_test(an_invalid_plan_is_refused_and_stays_the_callers),
        cmocka_unit_test(a_parameter_without_data_is_named),
        cmocka_unit_test(creating_a_program_can_be_cancelled),
        cmocka_unit_test(saving_can_be_cancelled_and_leaves_nothing),
        cmocka_unit_test(loading_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
