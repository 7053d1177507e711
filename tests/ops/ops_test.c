/* SPDX-License-Identifier: Apache-2.0 */
/* The truth against values from elsewhere: every folder cases/<family>/<case> has model.rlx, its
 * inputs in_N.npy and what the outputs must be, out_N.npy. Here the scalar kernels run node by
 * node, without a compiler. Integers and bools must be equal; floats within a tolerance per dtype,
 * or that of the file `tolerance` ("absolute relative"). usage: test_ops [CASES [NAME]]: another
 * folder; only cases whose name has NAME in it. */
#include "support/interpret.h"
#include "support/support.h"

#include "import/import.h"
#include "ir/dtype.h"

#include <rlx/npy.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATH_BYTES = 512, MOST_CASES = 4096 };

typedef struct tolerance {
    double absolute, relative;
} tolerance;

static tolerance tolerance_of(const char *folder, rlx_dtype dtype) {
    char path[PATH_BYTES];
    tolerance result = {1e-6, 1e-5};
    if (dtype == RLX_DTYPE_F64) result = (tolerance){1e-12, 1e-12};
    if (dtype == RLX_DTYPE_F16) result = (tolerance){1e-4, 1e-3};
    if (!rlx_dtype_row_of(dtype) || rlx_dtype_row_of(dtype)->class_ != RLX_CLASS_FLOAT)
        return (tolerance){0, 0};
    snprintf(path, sizeof path, "%s/tolerance", folder);
    FILE *file = fopen(path, "r");
    if (file == NULL) return result;
    assert_int_equal(2, fscanf(file, "%lf %lf", &result.absolute, &result.relative));
    fclose(file);
    return result;
}

/* A whole array; owned, released with free(). Types that numpy lacks stand as raw bytes. */
static uint8_t *read_npy(const char *path, rlx_npy_info *out_info) {
    size_t bytes;
    assert_ok(rlx_npy_read_header(path, out_info));
    char *file = rlx_test_read_file(path, &bytes);
    assert_true(bytes >= out_info->offset + out_info->bytes);
    memmove(file, file + out_info->offset, out_info->bytes);
    return (uint8_t *)file;
}

static void set_inputs(rlx_test_interpreter *run, const char *folder) {
    uint32_t number = 0;
    for (uint32_t i = 0; i < run->graph->values.count; i++) {
        const rlx_value *value = &run->graph->values.items[i];
        char path[PATH_BYTES];
        rlx_npy_info info;
        uint64_t bytes;
        if (value->kind != RLX_VALUE_INPUT) continue;
        snprintf(path, sizeof path, "%s/in_%u.npy", folder, number++);
        uint8_t *data = read_npy(path, &info);
        assert_ok(rlx_type_bytes(&value->type, &bytes));
        assert_int_equal(bytes, info.bytes);
        memcpy(rlx_test_interpreter_data(run, i), data, bytes);
        free(data);
    }
}

static bool is_close(double expected, double actual, tolerance allowed) {
    if (isnan(expected) || isnan(actual)) return isnan(expected) && isnan(actual);
    if (expected == actual) return true;
    if (isinf(expected) || isinf(actual)) return false;
    return fabs(expected - actual) <= allowed.absolute + allowed.relative * fabs(expected);
}

static int64_t offset_of(const rlx_tensor *tensor, int64_t index) {
    int64_t offset = 0;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        offset += index % tensor->dims[i] * tensor->strides[i];
        index /= tensor->dims[i];
    }
    return offset;
}

/* Element `index` in row-major order against the same of the file. */
static void check_element(const rlx_tensor *tensor, const void *expected, uint32_t number,
                          int64_t index, tolerance allowed) {
    int64_t offset = offset_of(tensor, index);
    double want = rlx_load_f64(tensor->dtype, expected, index);
    double have = rlx_load_f64(tensor->dtype, tensor->data, offset);
    bool agrees;
    if (rlx_dtype_row_of(tensor->dtype)->class_ == RLX_CLASS_FLOAT) {
        agrees = is_close(want, have, allowed);
    } else {
        agrees = rlx_load_i64(tensor->dtype, tensor->data, offset) ==
                 rlx_load_i64(tensor->dtype, expected, index);
    }
    if (agrees) return;
    fail_msg("output %u, element %lld: expected %.17g, got %.17g", number, (long long)index, want,
             have);
}

static void check_output(rlx_test_interpreter *run, const char *folder, uint32_t number) {
    rlx_tensor tensor = rlx_test_interpreter_tensor(run, rlx_graph_output(run->graph, number));
    tolerance allowed = tolerance_of(folder, tensor.dtype);
    char path[PATH_BYTES];
    rlx_npy_info info;
    snprintf(path, sizeof path, "%s/out_%u.npy", folder, number);
    uint8_t *expected = read_npy(path, &info);
    if (rlx_dtype_block_elements(tensor.dtype) == 1) {
        assert_int_equal(info.shape.rank, tensor.rank);
        for (uint32_t i = 0; i < tensor.rank; i++)
            assert_int_equal(info.shape.dims[i], tensor.dims[i]);
    }
    uint64_t bytes;
    assert_ok(rlx_dtype_bytes(tensor.dtype, (uint64_t)rlx_tensor_elements(&tensor), &bytes));
    assert_int_equal(info.bytes, bytes);
    for (int64_t i = 0; i < rlx_tensor_elements(&tensor); i++)
        check_element(&tensor, expected, number, i, allowed);
    free(expected);
}

static void run_case(void **state) {
    const char *folder = *state;
    char path[PATH_BYTES];
    rlx_graph *graph = NULL;
    rlx_test_interpreter run;
    snprintf(path, sizeof path, "%s/model.rlx", folder);
    assert_ok(rlx_import_text(NULL, path, &graph));
    rlx_test_interpreter_init(&run, graph);
    set_inputs(&run, folder);
    assert_int_equal(RLX_FAULT_NONE, rlx_test_interpret(&run));
    assert_true(rlx_graph_output_count(graph) > 0);
    for (uint32_t i = 0; i < rlx_graph_output_count(graph); i++)
        check_output(&run, folder, i);
    rlx_test_interpreter_free(&run);
    rlx_graph_destroy(graph);
}

static struct CMUnitTest tests[MOST_CASES];
static size_t test_count;

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct CMUnitTest *)a)->name, ((const struct CMUnitTest *)b)->name);
}

/* Adds a test for each folder with a model, two levels down. */
static void find_cases(const char *folder, const char *wanted, int depth) {
    DIR *directory = opendir(folder);
    struct dirent *entry;
    if (directory == NULL) return;
    while ((entry = readdir(directory)) != NULL) {
        char *path = malloc(PATH_BYTES);
        if (path == NULL || entry->d_name[0] == '.') {
            free(path);
            continue;
        }
        snprintf(path, PATH_BYTES, "%s/%s", folder, entry->d_name);
        if (depth > 0) {
            find_cases(path, wanted, depth - 1);
            free(path);
        } else if (strstr(path, wanted) != NULL && test_count < MOST_CASES) {
            tests[test_count++] =
                (struct CMUnitTest){path, run_case, NULL, NULL, path}; /* lives to the end */
        } else {
            free(path);
        }
    }
    closedir(directory);
}

int main(int argc, char **argv) {
    find_cases(argc > 1 ? argv[1] : "cases", argc > 2 ? argv[2] : "", 1);
    qsort(tests, test_count, sizeof *tests, by_name);
    if (test_count == 0) {
        fprintf(stderr, "no cases found\n");
        return 1;
    }
    int failures = _cmocka_run_group_tests("ops", tests, test_count, NULL, NULL);
    for (size_t i = 0; i < test_count; i++)
        free(tests[i].initial_state);
    return failures;
}
