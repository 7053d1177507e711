/* SPDX-License-Identifier: Apache-2.0 */
/* What may go wrong with the Vulkan backend: calls that fail, lost devices, broken files, devices
 * that are not there; and modules that a driver would not take. */
#include "backend/vulkan_shim.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_whole; /* every call fails once, not a sample */

static void every_call_may_fail(void **state) {
    uint64_t n;
    (void)state;
    for (n = 0; n < 10000; n++) {
        decoder d;
        shim.calls = 0;
        shim.fail_at = n;
        rlx_status status = decoder_open(&d, SOFTWARE, RLX_DEVICE_MEMORY_STAGED);
        if (status == RLX_OK) status = rlx_exec_warm_up(d.exec);
        if (status == RLX_OK) status = decoder_step(&d, d.exec, 0);
        bool was_reached = shim.calls > n;
        decoder_close(&d);
        if (!was_reached) {
            assert_int_equal(status, RLX_OK);
            break;
        }
        assert_int_not_equal(status, RLX_OK);
        assert_true(strlen(rlx_last_error()) > 0);
        if (n > 24 && !is_whole) n += 16; /* the calls repeat themselves */
    }
    assert_true(n > 100);
}

static void a_lost_device_is_lost_and_can_be_opened_again(void **state) {
    decoder d, other;
    (void)state;
    assert_ok(decoder_open(&other, SOFTWARE, RLX_DEVICE_MEMORY_DIRECT));
    assert_ok(decoder_open(&d, SOFTWARE, RLX_DEVICE_MEMORY_DIRECT));
    assert_ok(decoder_step(&d, d.exec, 0));
    shim.failure = VK_ERROR_DEVICE_LOST;
    shim.fail_at = shim.calls; /* the next submit */
    assert_status(RLX_DEVICE, decoder_step(&d, d.exec, 1));
    assert_error_has("steps 0 to");
    assert_status(RLX_DEVICE, decoder_step(&d, d.exec, 1)); /* every later call too */
    assert_error_has("was lost");
    assert_ok(decoder_step(&other, other.exec, 0)); /* no other device is */
    decoder_close(&d);
    assert_ok(decoder_open(&d, SOFTWARE, RLX_DEVICE_MEMORY_DIRECT));
    assert_ok(decoder_run(&d));
    decoder_close(&d);
    decoder_close(&other);
}

/* A cache of a broken, a foreign and a good file: never in the way. */
static void pipelines_are_kept_in_a_file_that_may_be_broken(void **state) {
    char folder[] = "/tmp/rlx-cache-XXXXXX", command[460];
    rlx_device_options options = {.size = sizeof options};
    (void)state;
    assert_non_null(mkdtemp(folder));
    options.cache_folder = folder;
    for (uint32_t round = 0; round < 4; round++) {
        decoder d = {0};
        rlx_binding binding = {"S", 1};
        rlx_entry_spec entry = {.bindings = &binding, .binding_count = 1};
        rlx_compile_options how = {.size = sizeof how, .entries = &entry, .entry_count = 1};
        assert_ok(rlx_device_open(SOFTWARE, &options, &d.device));
        assert_ok(rlx_session_open(NULL, "../session/graphs/decoder.rlx", &d.session));
        assert_ok(rlx_session_compile(d.session, d.device, &how, NULL, &d.program));
        assert_ok(rlx_exec_create(d.program, NULL, &d.exec));
        assert_ok(decoder_step(&d, d.exec, 0));
        decoder_close(&d);
        snprintf(command, sizeof command, "ls %s/vulkan-* >/dev/null 2>&1", folder);
        assert_int_equal(system(command), 0); /* there is one file, and only one */
        const char *spoil[] = {"truncate -s 20", "truncate -s 0", "tee", "true"};
        snprintf(command, sizeof command, "for f in %s/*; do echo 1 | %s \"$f\" >/dev/null; done",
                 folder, spoil[round]);
        assert_int_equal(system(command), 0);
    }
    snprintf(command, sizeof command, "test $(ls %s | wc -l) = 1 && rm -r %s", folder, folder);
    assert_int_equal(system(command), 0);
}

static void every_module_is_valid_spir_v(void **state) {
    static const struct {
        const char *path;
        rlx_binding binding;
    } graphs[] = {{"../session/graphs/decoder.rlx", {"S", 3}},
                  {"../session/graphs/doubles.rlx", {NULL, 0}},
                  {"../session/graphs/integers.rlx", {NULL, 0}}};
    (void)state;
    if (system("spirv-val --version >/dev/null 2>&1") != 0) skip();
    shim.validates = true;
    for (uint32_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        rlx_entry_spec entry = {.bindings = &graphs[i].binding,
                                .binding_count = graphs[i].binding.symbol != NULL};
        rlx_compile_options how = {.size = sizeof how, .entries = &entry, .entry_count = 1};
        rlx_device *device = NULL;
        rlx_session *session = NULL;
        rlx_program *program = NULL;
        rlx_exec *exec = NULL;
        assert_ok(rlx_device_open(SOFTWARE, NULL, &device));
        assert_ok(rlx_session_open(NULL, graphs[i].path, &session));
        assert_ok(rlx_session_compile(session, device, &how, NULL, &program));
        assert_ok(rlx_exec_create(program, NULL, &exec)); /* records, and so makes its modules */
        rlx_exec_destroy(exec);
        rlx_program_release(program);
        rlx_session_destroy(session);
        rlx_device_release(device);
    }
    assert_true(shim.modules > 10);
    assert_int_equal(shim.wrong_modules, 0);
}

static void software_is_never_taken_unasked(void **state) {
    rlx_device *device = NULL;
    (void)state;
    assert_status(RLX_UNSUPPORTED, rlx_device_open("vulkan", NULL, &device));
    assert_error_has("only software");
    assert_status(RLX_NOT_FOUND, rlx_device_open("vulkan:99", NULL, &device));
    assert_status(RLX_NOT_FOUND, rlx_device_open("vulkan:no such name", NULL, &device));
    assert_ok(rlx_device_open("vulkan:0", NULL, &device));
    rlx_device_release(device);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_call_may_fail, shim_begin),
        cmocka_unit_test_setup(a_lost_device_is_lost_and_can_be_opened_again, shim_begin),
        cmocka_unit_test_setup(pipelines_are_kept_in_a_file_that_may_be_broken, shim_begin),
        cmocka_unit_test_setup(every_module_is_valid_spir_v, shim_begin),
        cmocka_unit_test_setup(software_is_never_taken_unasked, shim_begin),
    };
    is_whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    if (is_whole) cmocka_set_test_filter("every_call_may_fail");
    if (argc > 1 && !is_whole) cmocka_set_test_filter(argv[1]); /* one test, or a pattern */
    if (!shim_install()) return SKIPPED;
    return cmocka_run_group_tests_name("vulkan_failing", tests, NULL, NULL);
}
