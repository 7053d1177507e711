/* SPDX-License-Identifier: Apache-2.0 */
/* .npy files: headers as numpy writes them and as nobody should, and what we write ourselves. */
#include "import/npy.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

/* A file of format `version` with this dict and `data_bytes` zero bytes behind it. */
static size_t make_file(uint8_t *out, uint8_t version, const char *dict, size_t data_bytes) {
    size_t length = strlen(dict), begin = version == 1 ? 10 : 12;
    memset(out, 0, begin + length + data_bytes);
    memcpy(out, "\x93NUMPY", 6);
    out[6] = version;
    out[8] = (uint8_t)length;
    out[9] = (uint8_t)(length >> 8);
    memcpy(out + begin, dict, length);
    return begin + length + data_bytes;
}

static rlx_status parse(uint8_t version, const char *dict, size_t data_bytes, rlx_npy_info *info) {
    static uint8_t file[8192];
    size_t bytes = make_file(file, version, dict, data_bytes);
    return rlx_npy_parse(file, bytes, bytes, info);
}

static void headers_of_all_formats_are_read(void **state) {
    (void)state;
    const char *dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n";
    for (uint8_t version = 1; version <= 3; version++) {
        rlx_npy_info info;
        assert_ok(parse(version, dict, 24, &info));
        assert_int_equal(RLX_DTYPE_F32, info.dtype);
        assert_int_equal(2, info.shape.rank);
        assert_int_equal(3, info.shape.dims[1]);
        assert_int_equal(24, info.bytes);
        assert_int_equal((version == 1 ? 10 : 12) + strlen(dict), info.offset);
    }
}

static void strings_are_bytes_in_one_more_axis(void **state) {
    (void)state;
    rlx_npy_info info;
    assert_ok(parse(1, "{'descr': '|S9', 'fortran_order': False, 'shape': (2, 3), }", 54, &info));
    assert_int_equal(RLX_DTYPE_U8, info.dtype);
    assert_int_equal(3, info.shape.rank);
    assert_int_equal(9, info.shape.dims[2]);
    assert_int_equal(54, info.bytes);
    assert_status(RLX_PARSE,
                  parse(1, "{'descr':'|S','fortran_order':False,'shape':(2,)}", 2, &info));
    assert_status(RLX_PARSE,
                  parse(1, "{'descr':'|S2x','fortran_order':False,'shape':(2,)}", 4, &info));
    assert_status(RLX_IO,
                  parse(1, "{'descr':'|S9','fortran_order':False,'shape':(2,)}", 17, &info));
    assert_status(
        RLX_UNSUPPORTED,
        parse(1, "{'descr':'|S1','fortran_order':False,'shape':(1,1,1,1,1,1,1,1)}", 1, &info));
}

static void every_dtype_of_numpy_that_we_have_is_read(void **state) {
    (void)state;
    const struct {
        const char *descr;
        rlx_dtype dtype;
    } rows[] = {{"<f8", RLX_DTYPE_F64}, {"<f4", RLX_DTYPE_F32}, {"<f2", RLX_DTYPE_F16},
                {"|i1", RLX_DTYPE_I8},  {"<i2", RLX_DTYPE_I16}, {"<i4", RLX_DTYPE_I32},
                {"<i8", RLX_DTYPE_I64}, {"|u1", RLX_DTYPE_U8},  {"<u2", RLX_DTYPE_U16},
                {"=u4", RLX_DTYPE_U32}, {"<u8", RLX_DTYPE_U64}, {"|b1", RLX_DTYPE_BOOL},
                {">u1", RLX_DTYPE_U8},  {"<V2", RLX_DTYPE_U16}, {"|V1", RLX_DTYPE_U8}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char dict[128];
        rlx_npy_info info;
        snprintf(dict, sizeof dict, "{\"shape\":(5,),\"descr\":\"%s\",\"fortran_order\":False}",
                 rows[i].descr);
        assert_ok(parse(1, dict, 40, &info));
        assert_int_equal(rows[i].dtype, info.dtype);
    }
}

static void what_cannot_be_read_is_said(void **state) {
    (void)state;
    rlx_npy_info info;
#define DICT(descr, order, shape) \
    "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape "}"
    assert_status(RLX_UNSUPPORTED, parse(1, DICT(">f4", "False", "(2,)"), 8, &info));
    assert_error_has("dtype '>f4' is big-endian");
    assert_status(RLX_UNSUPPORTED, parse(1, DICT("<c8", "False", "(2,)"), 16, &info));
    assert_error_has("dtype '<c8' of a .npy file is not known");
    assert_status(RLX_UNSUPPORTED, parse(1, DICT("<f4", "True", "(2, 2)"), 16, &info));
    assert_error_has("column-major");
    assert_ok(parse(1, DICT("<f4", "True", "(1, 2)"), 8, &info));
    assert_status(RLX_UNSUPPORTED, parse(1, DICT("<f4", "False", "(1,1,1,1,1,1,1,1,1)"), 8, &info));
    assert_status(RLX_UNSUPPORTED, parse(4, DICT("<f4", "False", "(2,)"), 8, &info));
    assert_error_has("version 4");
    assert_status(RLX_IO, parse(1, DICT("<f4", "False", "(3,)"), 8, &info));
    assert_error_has("expected 12 bytes of data, got 8");
    assert_int_equal(12, rlx_last_error_detail()->expected);
}

static void hostile_headers_are_refused(void **state) {
    (void)state;
    rlx_npy_info info;
    const char *dicts[] = {
        "",
        "{",
        "{}",
        "{'descr'",
        "{'descr': }",
        "{'descr': '<f4",
        "{'descr': '<f4'}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,",
        "{'what': 1}",
        "{'descr': 'a very long string that nobody wants', 'fortran_order': False, 'shape': ()}",
    };
    for (size_t i = 0; i < sizeof dicts / sizeof dicts[0]; i++)
        assert_status(RLX_PARSE, parse(1, dicts[i], 64, &info));
    assert_status(RLX_OUT_OF_BOUNDS,
                  parse(1, DICT("<f4", "False", "(4294967296, 4294967296, 4)"), 0, &info));

    uint8_t file[256];
    size_t bytes = make_file(file, 1, DICT("<f4", "False", "(2,)"), 8);
    for (size_t cut = 0; cut < bytes; cut++)
        assert_true(rlx_npy_parse(file, cut, cut, &info) != RLX_OK);
    memcpy(file, "\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
    assert_status(RLX_PARSE, rlx_npy_parse(file, bytes, bytes, &info));
    assert_error_has("a .npy header of 4294967295 bytes");
}

static void what_is_written_reads_back(void **state) {
    (void)state;
    rlx_test_folder folder;
    rlx_test_folder_create(&folder);
    uint8_t data[210 * 64];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)i;
    for (uint32_t dtype = 0; dtype < RLX_DTYPE_COUNT; dtype++) {
        for (uint32_t rank = 0; rank < 4; rank++) {
            rlx_shape shape = {.rank = rank, .dims = {1, 2, 256}};
            if (rank > 0) shape.dims[rank - 1] = 256;
            rlx_type type = rlx_type_make((rlx_dtype)dtype, shape.dims, rank);
            if (rank == 0 && rlx_dtype_block_elements((rlx_dtype)dtype) > 2) continue;
            uint64_t bytes = 0;
            size_t file_bytes = 0;
            rlx_npy_info info;
            const char *path = rlx_test_path(&folder, "a.npy");
            assert_ok(rlx_type_bytes(&type, &bytes));
            assert_ok(rlx_npy_write(path, (rlx_dtype)dtype, &shape, data, bytes));
            assert_ok(rlx_npy_read_header(path, &info));
            assert_ok(rlx_npy_holds(&info, &type));
            assert_int_equal(0, info.offset % 64);
            char *file = rlx_test_read_file(path, &file_bytes);
            assert_int_equal(info.offset + bytes, file_bytes);
            assert_memory_equal(data, file + info.offset, bytes);
            free(file);
        }
    }
    assert_int_equal(1, rlx_test_entry_count(folder.path));
    rlx_test_folder_remove(&folder);
}

static void sizes_must_agree_when_writing(void **state) {
    (void)state;
    rlx_shape shape = {.rank = 1, .dims = {3}};
    assert_status(RLX_LENGTH_MISMATCH,
                  rlx_npy_write("/nowhere/a.npy", RLX_DTYPE_F32, &shape, "", 1));
    assert_error_has("/nowhere/a.npy: expected 12 bytes, got 1");
    assert_status(RLX_IO,
                  rlx_npy_write("/nowhere/a.npy", RLX_DTYPE_F32, &shape, "12345678901", 12));
    assert_status(RLX_INVALID_ARGUMENT, rlx_npy_write(NULL, RLX_DTYPE_F32, &shape, "", 1));
}

static void a_missing_file_is_named(void **state) {
    (void)state;
    rlx_npy_info info;
    assert_status(RLX_IO, rlx_npy_read_header("/nowhere/a.npy", &info));
    assert_error_has("/nowhere/a.npy");
}

static void a_type_that_differs_is_said_with_both(void **state) {
    (void)state;
    rlx_npy_info info = {RLX_DTYPE_F32, {2, {2, 3}}, 64, 24};
    const int64_t dims[] = {3, 2};
    rlx_type other = rlx_type_make(RLX_DTYPE_F32, dims, 2);
    assert_status(RLX_MISMATCH, rlx_npy_holds(&info, &other));
    assert_error_has("expected f32[3, 2] (24 bytes), the file has f32[2, 3]");
    other = rlx_type_make(RLX_DTYPE_I32, info.shape.dims, 2);
    assert_status(RLX_MISMATCH, rlx_npy_holds(&info, &other));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_of_all_formats_are_read),
        cmocka_unit_test(every_dtype_of_numpy_that_we_have_is_read),
        cmocka_unit_test(strings_are_bytes_in_one_more_axis),
        cmocka_unit_test(what_cannot_be_read_is_said),
        cmocka_unit_test(hostile_headers_are_refused),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(sizes_must_agree_when_writing),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(a_type_that_differs_is_said_with_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
