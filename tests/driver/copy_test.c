/* SPDX-License-Identifier: Apache-2.0 */
/* The host's copy engines: the conformance suite for each way they can work. */
#include "copy_makers.h"
#include "support/support.h"

#include <linux/io_uring.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void check_name(uint32_t flags, const char *expected) {
    rlx_copy_options options = {.size = sizeof options, .flags = flags};
    rlx_copy_engine *engine = NULL;
    assert_ok(rlx_copy_engine_create_file(NULL, &options, &engine));
    assert_string_equal(rlx_copy_engine_name(engine), expected);
    rlx_copy_engine_destroy(engine);
}

static void the_file_engine_says_how_it_reads(void **state) {
    struct io_uring_params params = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 4, &params);
    (void)state;
    check_name(RLX_COPY_THREADS, "file (threads)");
    check_name(0, ring >= 0 ? "file (io_uring)" : "file (threads)");
    if (ring >= 0) close(ring);
    assert_string_equal(rlx_copy_engine_name(NULL), "");
}

static void what_is_not_a_regular_file_is_refused(void **state) {
    rlx_copy_file *file = NULL;
    rlx_test_folder folder;
    (void)state;
    rlx_test_folder_create(&folder);
    assert_status(RLX_IO, rlx_copy_file_open(NULL, rlx_test_path(&folder, "none"), &file));
    assert_error_has("none: cannot open");
    assert_status(RLX_IO, rlx_copy_file_open(NULL, folder.path, &file));
    assert_error_has("is a directory");
    assert_int_equal(mkfifo(rlx_test_path(&folder, "pipe"), 0600), 0);
    assert_status(RLX_IO, rlx_copy_file_open(NULL, rlx_test_path(&folder, "pipe"), &file));
    assert_error_has("not a regular file");
    assert_status(RLX_INVALID_ARGUMENT, rlx_copy_file_open(NULL, NULL, &file));
    assert_null(file);
    assert_int_equal(rlx_copy_file_bytes(NULL), 0);
    rlx_copy_file_close(NULL);
    rlx_test_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_engine_says_how_it_reads),
        cmocka_unit_test(what_is_not_a_regular_file_is_refused),
    };
    int failed = cmocka_run_group_tests_name("files as sources", tests, NULL, NULL);
    for (int i = 0; i < COPY_MAKER_COUNT; ++i) {
        failed += copy_suite_run(&copy_makers[i]);
    }
    return failed;
}
