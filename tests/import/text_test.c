/* SPDX-License-Identifier: Apache-2.0 */
/* .rlx files with weights beside them. */
#include "import/import.h"
#include "ir/source.h"
#include "support/support.h"

#include <rlx/npy.h>

#include <stdio.h>

typedef struct fixture {
    rlx_test_folder folder;
    char model[300];
} fixture;

static fixture shared;

static int make(void **state) {
    const float weights[6] = {1, 2, 3, 4, 5, 6};
    rlx_shape shape = {.rank = 2, .dims = {2, 3}};
    rlx_test_folder_create(&shared.folder);
    snprintf(shared.model, sizeof shared.model, "%s", rlx_test_path(&shared.folder, "m.rlx"));
    *state = &shared;
    if (rlx_npy_write(rlx_test_path(&shared.folder, "w.npy"), RLX_DTYPE_F32, &shape, weights,
                      sizeof weights) != RLX_OK)
        return 1;
    rlx_test_write_file(rlx_test_path(&shared.folder, "u.bin"), weights, sizeof weights);
    return 0;
}

static int clear(void **state) {
    (void)state;
    rlx_test_folder_remove(&shared.folder);
    return 0;
}

static rlx_status import_graph(const rlx_allocator *allocator, const char *path,
                               rlx_graph **out_graph) {
    rlx_model *model = NULL;
    return rlx_import(allocator, path, out_graph, &model);
}

static rlx_status import(const char *text, rlx_graph **out_graph) {
    rlx_test_write_file(shared.model, text, strlen(text));
    return import_graph(NULL, shared.model, out_graph);
}

#define MODEL                                       \
    "rlx 1\nparam w : f32[2, 3] = npy(\"w.npy\")\n" \
    "param u : f32[2, 2] = file(\"u.bin\", 8)\noutput w\n"

static void weights_are_ranges_of_files(void **state) {
    (void)state;
    rlx_graph *graph = NULL;
    float data[6];
    assert_ok(import(MODEL, &graph));
    const rlx_source *source = &graph->values.items[0].weight->source;
    assert_int_equal(RLX_SOURCE_FILE, source->kind);
    assert_string_equal(rlx_test_path(&shared.folder, "w.npy"), source->path);
    assert_ok(rlx_source_read(source, RLX_DTYPE_F32, 0, 6, data));
    assert_true(data[0] == 1 && data[5] == 6);
    assert_ok(rlx_source_read(&graph->values.items[1].weight->source, RLX_DTYPE_F32, 1, 3, data));
    assert_true(data[0] == 4 && data[2] == 6);
    rlx_graph_destroy(graph);
}

static void resolved_sources_print_and_parse_back(void **state) {
    (void)state;
    rlx_graph *graph = NULL, *again = NULL;
    char *first = NULL, *second = NULL;
    assert_ok(import(MODEL, &graph));
    assert_ok(rlx_graph_print(graph, &first));
    assert_text_has(first, "/w.npy\", 128)");
    assert_ok(rlx_graph_parse(NULL, first, strlen(first), &again));
    assert_ok(rlx_graph_print(again, &second));
    assert_string_equal(first, second);
    rlx_string_free(NULL, first);
    rlx_string_free(NULL, second);
    rlx_graph_destroy(graph);
    rlx_graph_destroy(again);
}

static void wrong_files_are_said_with_line_and_numbers(void **state) {
    (void)state;
    rlx_graph *graph = NULL;
    assert_status(RLX_MISMATCH, import("rlx 1\n\nparam w : f32[6] = npy(\"w.npy\")\n", &graph));
    assert_error_has("m.rlx: line 3: 'w': ");
    assert_error_has("w.npy: expected f32[6] (24 bytes), the file has f32[2, 3]");
    assert_int_equal(3, rlx_last_error_detail()->line);
    assert_status(RLX_IO, import("rlx 1\nparam w : f32[6] = npy(\"no.npy\")\n", &graph));
    assert_error_has("no.npy: cannot open");
    assert_status(RLX_OUT_OF_BOUNDS,
                  import("rlx 1\nparam u : f32[6] = file(\"u.bin\", 1)\n", &graph));
    assert_error_has("u.bin: offset 1 + bytes 24 > file 24");
    assert_status(
        RLX_OUT_OF_BOUNDS,
        import("rlx 1\nparam u : f32[6] = file(\"u.bin\", 18446744073709551615)\n", &graph));
    assert_status(RLX_PARSE, import("rlx 1\nparam w : f32[6] = npy(\"u.bin\")\n", &graph));
    assert_status(RLX_PARSE, import("rlx 1\nparam w : f32[6] = npy(\"\")\n", &graph));
    assert_status(RLX_PARSE, import("rlx 1\nbogus\n", &graph));
    assert_error_has("m.rlx: line 2, column 6: expected '=', found the end of the line");
}

static void unknown_formats_list_what_is_known(void **state) {
    (void)state;
    rlx_graph *graph = NULL;
    const char *path = rlx_test_path(&shared.folder, "model.bin");
    rlx_test_write_file(path, "what", 4);
    assert_status(RLX_UNSUPPORTED, import_graph(NULL, path, &graph));
    assert_error_has("no known model format; known are: rlx text (.rlx)");
    assert_status(RLX_IO, import_graph(NULL, "/nowhere/m.rlx", &graph));
}

static void content_decides_before_the_extension(void **state) {
    (void)state;
    rlx_graph *graph = NULL;
    const char *path = rlx_test_path(&shared.folder, "model.txt");
    rlx_test_write_file(path, "# c\n\n  rlx 1\n", 13);
    assert_ok(import_graph(NULL, path, &graph));
    rlx_graph_destroy(graph);
    rlx_test_write_file(shared.model, "", 0);
    assert_status(RLX_PARSE, import_graph(NULL, shared.model, &graph));
}

static rlx_status import_body(const rlx_allocator *allocator, void *argument) {
    rlx_graph *graph = NULL;
    RLX_TRY(import_graph(allocator, argument, &graph));
    rlx_graph_destroy(graph);
    return RLX_OK;
}

static void import_survives_every_failed_allocation(void **state) {
    (void)state;
    rlx_test_write_file(shared.model, MODEL, strlen(MODEL));
    assert_true(rlx_test_every_allocation_fails(import_body, shared.model) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_ranges_of_files),
        cmocka_unit_test(resolved_sources_print_and_parse_back),
        cmocka_unit_test(wrong_files_are_said_with_line_and_numbers),
        cmocka_unit_test(unknown_formats_list_what_is_known),
        cmocka_unit_test(content_decides_before_the_extension),
        cmocka_unit_test(import_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, make, clear);
}
