/* SPDX-License-Identifier: Apache-2.0 */
/* Program files: what is saved comes back the same; what is cut, damaged or foreign is refused in
 * words; nothing half-written stays. */
#include "build.h"
#include "support/support.h"

#include "plan/file.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

typedef struct fixture {
    rlx_test_folder folder;
    rlx_plan *plan;
    uint8_t weights[192];
    uint8_t *data; /* the saved file */
    size_t bytes;
} fixture;

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    rlx_test_folder_create(&f->folder);
    assert_ok(build_two_entries(NULL, &f->plan));
    for (size_t i = 0; i < sizeof f->weights; i++)
        f->weights[i] = (uint8_t)(i * 7);
    const char *path = rlx_test_path(&f->folder, "p.rlxp");
    assert_ok(rlx_plan_save(f->plan, f->weights, path));
    f->data = (uint8_t *)rlx_test_read_file(path, &f->bytes);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    rlx_plan_destroy(f->plan);
    rlx_test_folder_remove(&f->folder);
    free(f->data);
    free(f);
    return 0;
}

static rlx_status load(const uint8_t *data, size_t bytes, const char *target) {
    rlx_file_map map = {data, bytes};
    rlx_plan *plan = NULL;
    uint64_t at;
    rlx_status status = rlx_plan_load(NULL, &map, target, &plan, &at);
    if (status == RLX_OK) assert_true(at % RLX_FILE_PAGE_BYTES == 0 && at <= bytes);
    rlx_plan_destroy(plan);
    return status;
}

static void assert_same_plan(const rlx_plan *a, const rlx_plan *b) {
    rlx_text a_bytes = {0}, b_bytes = {0};
    rlx_plan_encode(a, &a_bytes);
    rlx_plan_encode(b, &b_bytes);
    assert_int_equal(a_bytes.length, b_bytes.length);
    assert_memory_equal(a_bytes.data, b_bytes.data, a_bytes.length);
    rlx_text_free(&a_bytes);
    rlx_text_free(&b_bytes);
}

static void what_is_saved_comes_back(void **state) {
    fixture *f = *state;
    rlx_file_map map;
    rlx_plan *plan = NULL;
    uint64_t at;
    assert_ok(rlx_file_map_open(rlx_test_path(&f->folder, "p.rlxp"), &map));
    assert_true(rlx_is_program_file(map.data, map.bytes));
    assert_ok(rlx_plan_load(NULL, &map, "cpu/scalar", &plan, &at));
    assert_int_equal(at, RLX_FILE_PAGE_BYTES);
    assert_int_equal(map.bytes, at + 192);
    assert_memory_equal(map.data + at, f->weights, 192);
    rlx_file_map_close(&map);
    assert_same_plan(f->plan, plan);
    assert_true(plan->is_loaded);
    assert_int_equal(plan->sources.count, 0);
    const rlx_matmul_attrs *attrs = plan->steps.items[T_MATMUL].attrs;
    assert_int_equal(attrs->activation.op, RLX_OP_RELU);
    assert_string_equal(plan->slots.items[S_POSITION].name, "position");
    rlx_plan_destroy(plan);
}

/* A split has a list of any length among its attributes. */
static void lists_come_back(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, INT64_MIN};
    rlx_split_attrs attrs = {.axis = 1, .sizes = {3, sizes}};
    plan_builder builder;
    rlx_plan *plan = NULL;
    rlx_text bytes = {0};
    builder_begin(&builder, NULL);
    builder_step(&builder, RLX_STEP_KERNEL, RLX_OP_SPLIT, "s", &attrs, NULL, 0, NULL, 0);
    assert_ok(builder.status);
    rlx_plan_encode(builder.plan, &bytes);
    assert_ok(rlx_plan_decode(NULL, (const uint8_t *)bytes.data, bytes.length, &plan));
    assert_same_plan(builder.plan, plan);
    const rlx_split_attrs *back = plan->steps.items[0].attrs;
    assert_int_equal(back->sizes.count, 3);
    assert_int_equal(back->sizes.items[2], INT64_MIN);
    rlx_plan_destroy(plan);
    rlx_plan_destroy(builder.plan);
    rlx_text_free(&bytes);
}

static void a_file_that_is_cut_anywhere_is_refused(void **state) {
    fixture *f = *state;
    for (size_t bytes = 0; bytes < f->bytes; bytes++) {
        bool is_zeros = bytes > 8192 && bytes < RLX_FILE_PAGE_BYTES; /* the same all over */
        if (is_zeros && bytes % 4096 != 0) continue;
        uint8_t *cut = malloc(bytes + 1);
        memcpy(cut, f->data, bytes);
        cut = realloc(cut, bytes == 0 ? 1 : bytes); /* exact, for the address sanitizer */
        assert_status(RLX_PARSE, load(cut, bytes, NULL));
        free(cut);
    }
    assert_status(RLX_PARSE, load(f->data, 300, NULL));
    assert_error_has("cut short");
}

static void a_plan_section_that_is_cut_anywhere_is_refused(void **state) {
    fixture *f = *state;
    rlx_text section = {0};
    rlx_plan_encode(f->plan, &section);
    for (size_t bytes = 0; bytes < section.length; bytes++) {
        rlx_plan *plan = NULL;
        uint8_t *cut = malloc(bytes == 0 ? 1 : bytes);
        memcpy(cut, section.data, bytes);
        assert_status(RLX_PARSE, rlx_plan_decode(NULL, cut, bytes, &plan));
        free(cut);
    }
    rlx_text_free(&section);
}

static void trailing_bytes_are_refused(void **state) {
    fixture *f = *state;
    uint8_t *longer = malloc(f->bytes + 1);
    memcpy(longer, f->data, f->bytes);
    longer[f->bytes] = 0;
    assert_status(RLX_PARSE, load(longer, f->bytes + 1, NULL));
    assert_error_has("1 bytes after its end");
    free(longer);
}

static void every_flipped_byte_before_the_weights_is_noticed(void **state) {
    fixture *f = *state;
    rlx_file_header header;
    assert_ok(rlx_file_header_decode(f->data, f->bytes, &header));
    for (size_t i = 0; i < RLX_FILE_HEADER_BYTES + header.plan_bytes; i++) {
        f->data[i] ^= 0x10;
        assert_int_not_equal(load(f->data, f->bytes, NULL), RLX_OK);
        f->data[i] ^= 0x10;
    }
    assert_ok(load(f->data, f->bytes, NULL));
}

/* Damage that keeps its checksums, as an attacker would: refused, or a plan that verifies. */
static void damage_behind_the_checksum_is_refused_or_verified(void **state) {
    fixture *f = *state;
    rlx_text section = {0};
    rlx_test_random random = rlx_test_seed(11);
    uint32_t refused = 0, accepted = 0;
    rlx_plan_encode(f->plan, &section);
    uint8_t *copy = malloc(section.length);
    for (uint32_t trial = 0; trial < 20000; trial++) {
        rlx_plan *plan = NULL;
        memcpy(copy, section.data, section.length);
        for (uint64_t n = 1 + rlx_test_below(&random, 3); n > 0; n--) {
            size_t at = (size_t)rlx_test_below(&random, section.length);
            uint64_t how = rlx_test_below(&random, 3);
            if (how == 0) copy[at] = (uint8_t)rlx_test_next(&random);
            if (how == 1) copy[at]++;
            if (how == 2) copy[at] = (uint8_t)(copy[at] ^ (1u << rlx_test_below(&random, 8)));
        }
        rlx_status status = rlx_plan_decode(NULL, copy, section.length, &plan);
        if (status == RLX_OK) status = rlx_plan_verify(plan);
        if (status == RLX_OK) {
            accepted++;
        } else {
            refused++;
            assert_true(status == RLX_PARSE || status == RLX_INVALID_PLAN);
        }
        rlx_plan_destroy(plan);
    }
    assert_true(refused > 1000 && accepted > 100); /* names and figures may change freely */
    free(copy);
    rlx_text_free(&section);
}

/* Changes a header number and makes its checksum right again. */
static void patch_header(fixture *f, size_t at, uint8_t value) {
    f->data[at] = value;
    uint64_t sum = rlx_file_checksum(f->data, RLX_FILE_AT_CHECKSUM);
    for (uint32_t i = 0; i < 8; i++)
        f->data[RLX_FILE_AT_CHECKSUM + i] = (uint8_t)(sum >> (8 * i));
}

static void foreign_files_are_refused_with_both_sides_named(void **state) {
    fixture *f = *state;
    assert_status(RLX_MISMATCH, load(f->data, f->bytes, "cpu/avx512"));
    assert_error_has("made for target 'cpu/scalar', this is 'cpu/avx512'");

    patch_header(f, RLX_FILE_AT_VERSION, 2);
    assert_status(RLX_UNSUPPORTED, load(f->data, f->bytes, NULL));
    assert_error_has("format version 2, this build reads 1");
    patch_header(f, RLX_FILE_AT_VERSION, 1);

    patch_header(f, RLX_FILE_AT_ORDER, 4);
    assert_status(RLX_UNSUPPORTED, load(f->data, f->bytes, NULL));
    assert_error_has("byte order");
    patch_header(f, RLX_FILE_AT_ORDER, 1);

    patch_header(f, RLX_FILE_AT_PAGE + 1, 16);
    assert_status(RLX_UNSUPPORTED, load(f->data, f->bytes, NULL));
    assert_error_has("page size 69632, this build reads 65536");
    patch_header(f, RLX_FILE_AT_PAGE + 1, 0);

    patch_header(f, RLX_FILE_AT_PACKINGS, 1);
    patch_header(f, RLX_FILE_AT_PACKINGS + 4, 99);
    assert_status(RLX_UNSUPPORTED, load(f->data, f->bytes, NULL));
    assert_error_has("packed layout 99, this build knows 1 to");
    patch_header(f, RLX_FILE_AT_PACKINGS, 0);

    patch_header(f, RLX_FILE_AT_TARGET, 'k');
    assert_status(RLX_PARSE, load(f->data, f->bytes, NULL));
    assert_error_has("target 'kpu/scalar' in the header, 'cpu/scalar' in the plan");

    assert_status(RLX_PARSE, load((const uint8_t *)"hello, world", 12, NULL));
    assert_error_has("not a program file");
    assert_status(RLX_PARSE, load(NULL, 0, NULL));
}

static void a_bad_plan_is_not_saved(void **state) {
    fixture *f = *state;
    const char *path = rlx_test_path(&f->folder, "bad.rlxp");
    f->plan->buffers.items[B_H].bytes = 1000;
    assert_status(RLX_INVALID_PLAN, rlx_plan_save(f->plan, f->weights, path));
    assert_int_equal(rlx_test_entry_count(f->folder.path), 1);
}

static rlx_status fail_to_read(void *user, uint64_t offset, uint64_t bytes, void *out) {
    (void)user, (void)offset, (void)bytes, (void)out;
    return RLX_FAIL(RLX_IO, "the weights are gone");
}

static void a_save_that_fails_leaves_nothing(void **state) {
    fixture *f = *state;
    const char *path = rlx_test_path(&f->folder, "new.rlxp");
    assert_status(RLX_IO, rlx_plan_save_stream(f->plan, fail_to_read, NULL, path));
    assert_error_has("the weights are gone");
    assert_int_equal(rlx_test_entry_count(f->folder.path), 1);
    path = rlx_test_path(&f->folder, "nowhere/new.rlxp");
    assert_status(RLX_IO, rlx_plan_save(f->plan, f->weights, path));
    assert_error_has("nowhere/new.rlxp");
    assert_status(RLX_INVALID_ARGUMENT, rlx_plan_save(f->plan, NULL, path));
}

/* A limit on file sizes fails a write the way a full disk does. */
static void a_full_disk_is_reported_and_leaves_nothing(void **state) {
    fixture *f = *state;
    struct rlimit before, small;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 10000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rlx_status status = rlx_plan_save(f->plan, f->weights, rlx_test_path(&f->folder, "full.rlxp"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_status(RLX_IO, status);
    assert_error_has("full.rlxp");
    assert_int_equal(rlx_test_entry_count(f->folder.path), 1);
}

static rlx_status save_and_load(const rlx_allocator *allocator, void *argument) {
    fixture *f = argument;
    rlx_file_map map = {0};
    rlx_plan *plan = NULL, *loaded = NULL;
    uint64_t at;
    const char *path = rlx_test_path(&f->folder, "again.rlxp");
    RLX_TRY(build_two_entries(allocator, &plan));
    rlx_status status = rlx_plan_save(plan, f->weights, path);
    if (status == RLX_OK) status = rlx_file_map_open(path, &map);
    if (status == RLX_OK) status = rlx_plan_load(allocator, &map, NULL, &loaded, &at);
    rlx_plan_destroy(loaded);
    rlx_file_map_close(&map);
    rlx_plan_destroy(plan);
    return status;
}

static void every_allocation_may_fail(void **state) {
    assert_true(rlx_test_every_allocation_fails(save_and_load, *state) > 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_is_saved_comes_back),
        TEST(lists_come_back),
        TEST(a_file_that_is_cut_anywhere_is_refused),
        TEST(a_plan_section_that_is_cut_anywhere_is_refused),
        TEST(trailing_bytes_are_refused),
        TEST(every_flipped_byte_before_the_weights_is_noticed),
        TEST(damage_behind_the_checksum_is_refused_or_verified),
        TEST(foreign_files_are_refused_with_both_sides_named),
        TEST(a_bad_plan_is_not_saved),
        TEST(a_save_that_fails_leaves_nothing),
        TEST(a_full_disk_is_reported_and_leaves_nothing),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
