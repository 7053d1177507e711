/* SPDX-License-Identifier: Apache-2.0 */
/* Maps, ranges, and writers that leave a whole file or nothing. */
#include "support/support.h"

#include "base/file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static rlx_test_folder folder;

static int make_folder(void **state) {
    (void)state;
    rlx_test_folder_create(&folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    rlx_test_folder_remove(&folder);
    return 0;
}

static void a_map_shows_the_whole_file(void **state) {
    const char *path = rlx_test_path(&folder, "model");
    rlx_file_map map = {0};
    (void)state;
    rlx_test_write_file(path, "0123456789", 10);
    assert_ok(rlx_file_map_open(path, &map));
    assert_int_equal(map.bytes, 10);
    assert_memory_equal(map.data, "0123456789", 10);
    rlx_file_map_close(&map);
    assert_null(map.data);
    rlx_file_map_close(&map);
}

static void an_empty_file_maps_to_nothing(void **state) {
    const char *path = rlx_test_path(&folder, "empty");
    rlx_file_map map = {(const uint8_t *)"x", 1};
    (void)state;
    rlx_test_write_file(path, "", 0);
    assert_ok(rlx_file_map_open(path, &map));
    assert_null(map.data);
    assert_int_equal(map.bytes, 0);
    rlx_file_map_close(&map);
}

static void what_is_not_a_regular_file_is_refused_without_waiting(void **state) {
    const char *pipe_path = rlx_test_path(&folder, "pipe");
    rlx_file_map map = {0};
    char byte;
    (void)state;
    assert_status(RLX_IO, rlx_file_map_open(rlx_test_path(&folder, "absent"), &map));
    assert_error_has("absent: cannot open: No such file");
    assert_int_equal(rlx_last_error_detail()->os_error, ENOENT);
    assert_status(RLX_IO, rlx_file_map_open(folder.path, &map));
    assert_error_has("is a directory");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_status(RLX_IO, rlx_file_map_open(pipe_path, &map));
    assert_error_has("not a regular file");
    assert_status(RLX_IO, rlx_file_read_range("/dev/zero", 0, 1, &byte));
    assert_null(map.data);
}

static void a_range_is_read_exactly(void **state) {
    const char *path = rlx_test_path(&folder, "model");
    char out[5] = "....";
    (void)state;
    rlx_test_write_file(path, "0123456789", 10);
    assert_ok(rlx_file_read_range(path, 6, 4, out));
    assert_string_equal(out, "6789");
    assert_ok(rlx_file_read_range(path, 10, 0, NULL));
}

static void a_range_past_the_end_is_refused(void **state) {
    const char *path = rlx_test_path(&folder, "model");
    char out[16];
    (void)state;
    rlx_test_write_file(path, "0123456789", 10);
    assert_status(RLX_IO, rlx_file_read_range(path, 7, 4, out));
    assert_error_has("offset 7 + bytes 4 > file 10");
    assert_int_equal(rlx_last_error_detail()->limit, 10);
    assert_status(RLX_IO, rlx_file_read_range(path, UINT64_MAX, 2, out));
    assert_status(RLX_IO, rlx_file_read_range(path, 2, UINT64_MAX, out));
}

static void a_committed_file_replaces_the_old_one(void **state) {
    const char *path = rlx_test_path(&folder, "program");
    rlx_file_writer *writer = NULL;
    size_t bytes = 0;
    char *text;
    (void)state;
    rlx_test_write_file(path, "old", 3);
    assert_ok(rlx_file_writer_open(NULL, path, &writer));
    assert_ok(rlx_file_writer_append(writer, "new ", 4));
    assert_ok(rlx_file_writer_append(writer, NULL, 0));
    assert_ok(rlx_file_writer_append(writer, "text", 4));
    assert_int_equal(rlx_file_writer_offset(writer), 8);
    text = rlx_test_read_file(path, &bytes);
    assert_string_equal(text, "old"); /* untouched until commit */
    free(text);
    assert_ok(rlx_file_writer_commit(writer));
    text = rlx_test_read_file(path, &bytes);
    assert_string_equal(text, "new text");
    free(text);
    assert_int_equal(rlx_test_entry_count(folder.path), 1);
}

static void pieces_of_every_size_arrive_in_order(void **state) {
    const char *path = rlx_test_path(&folder, "program");
    rlx_test_random random = rlx_test_seed(7);
    enum { TOTAL = 700000 };
    unsigned char *data = malloc(TOTAL);
    rlx_file_writer *writer = NULL;
    size_t bytes = 0;
    char *text;
    (void)state;
    assert_non_null(data);
    for (size_t i = 0; i < TOTAL; ++i)
        data[i] = (unsigned char)rlx_test_next(&random);
    assert_ok(rlx_file_writer_open(NULL, path, &writer));
    for (size_t at = 0; at < TOTAL;) {
        size_t piece = rlx_test_below(&random, 1u << rlx_test_below(&random, 19));
        if (piece > TOTAL - at) piece = TOTAL - at;
        assert_ok(rlx_file_writer_append(writer, data + at, piece));
        at += piece;
    }
    assert_ok(rlx_file_writer_commit(writer));
    text = rlx_test_read_file(path, &bytes);
    assert_int_equal(bytes, TOTAL);
    assert_memory_equal(text, data, TOTAL);
    free(text);
    free(data);
}

static void an_abandoned_file_leaves_nothing(void **state) {
    rlx_file_writer *writer = NULL, *second = NULL;
    const char *path = rlx_test_path(&folder, "program");
    (void)state;
    assert_ok(rlx_file_writer_open(NULL, path, &writer));
    assert_ok(rlx_file_writer_open(NULL, path, &second)); /* two at once do not collide */
    assert_int_equal(rlx_test_entry_count(folder.path), 2);
    assert_ok(rlx_file_writer_append(writer, "x", 1));
    rlx_file_writer_abandon(writer);
    rlx_file_writer_abandon(second);
    rlx_file_writer_abandon(NULL);
    assert_int_equal(rlx_test_entry_count(folder.path), 0);
}

/* A file-size limit stands in for a full disk. */
static void a_disk_that_fills_up_leaves_nothing(void **state) {
    struct rlimit saved, small;
    rlx_file_writer *writer = NULL;
    char block[1000] = {0};
    rlx_status status = RLX_OK;
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &saved);
    small = (struct rlimit){.rlim_cur = 100000, .rlim_max = saved.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    assert_ok(rlx_file_writer_open(NULL, rlx_test_path(&folder, "program"), &writer));
    for (int i = 0; i < 101 && status == RLX_OK; ++i) {
        status = rlx_file_writer_append(writer, block, sizeof block);
    }
    if (status == RLX_OK) {
        status = rlx_file_writer_commit(writer);
    } else {
        rlx_file_writer_abandon(writer);
    }
    setrlimit(RLIMIT_FSIZE, &saved);
    signal(SIGXFSZ, SIG_DFL);
    assert_status(RLX_IO, status);
    assert_error_has("program: cannot write: File too large");
    assert_int_equal(rlx_last_error_detail()->os_error, EFBIG);
    assert_int_equal(rlx_test_entry_count(folder.path), 0);
}

static void targets_that_cannot_be_replaced_are_refused(void **state) {
    rlx_file_writer *writer = NULL;
    (void)state;
    assert_status(RLX_IO, rlx_file_writer_open(NULL, "/dev/null", &writer));
    assert_error_has("/dev/null: exists and is a device");
    assert_status(RLX_IO, rlx_file_writer_open(NULL, folder.path, &writer));
    assert_error_has("is a directory");
    assert_status(RLX_IO, rlx_file_writer_open(NULL, rlx_test_path(&folder, "no/where"), &writer));
    assert_error_has("no/where: cannot create: No such file");
    assert_null(writer);
}

static rlx_status write_body(const rlx_allocator *allocator, void *argument) {
    rlx_file_writer *writer = NULL;
    RLX_TRY(rlx_file_writer_open(allocator, argument, &writer));
    return rlx_file_writer_commit(writer);
}

static void writing_survives_every_failing_allocation(void **state) {
    char path[512];
    (void)state;
    (void)strcpy(path, rlx_test_path(&folder, "program"));
    assert_int_equal(rlx_test_every_allocation_fails(write_body, path), 2);
    assert_int_equal(rlx_test_entry_count(folder.path), 1);
}

#define FOLDER_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(a_map_shows_the_whole_file),
        FOLDER_TEST(an_empty_file_maps_to_nothing),
        FOLDER_TEST(what_is_not_a_regular_file_is_refused_without_waiting),
        FOLDER_TEST(a_range_is_read_exactly),
        FOLDER_TEST(a_range_past_the_end_is_refused),
        FOLDER_TEST(a_committed_file_replaces_the_old_one),
        FOLDER_TEST(pieces_of_every_size_arrive_in_order),
        FOLDER_TEST(an_abandoned_file_leaves_nothing),
        FOLDER_TEST(a_disk_that_fills_up_leaves_nothing),
        FOLDER_TEST(targets_that_cannot_be_replaced_are_refused),
        FOLDER_TEST(writing_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests_name("base/file", tests, NULL, NULL);
}
