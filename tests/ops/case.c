/* SPDX-License-Identifier: Apache-2.0 */
/* Reading op cases and comparing arrays. */
#include "ops/case.h"

#include "base/file.h"
#include "import/import.h"
#include "import/npy.h"
#include "ir/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void path_of(const rlx_case *self, const char *name, char *out, size_t bytes) {
    snprintf(out, bytes, "%s/%s", self->folder, name);
}

/* A small text file without its last newline; false when there is none. */
static bool read_line(const rlx_case *self, const char *name, char *out, size_t bytes) {
    char path[640];
    path_of(self, name, path, sizeof path);
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    size_t length = fread(out, 1, bytes - 1, file);
    fclose(file);
    while (length > 0 && (out[length - 1] == '\n' || out[length - 1] == ' '))
        length--;
    out[length] = 0;
    return true;
}

rlx_status rlx_case_open(const char *folder, rlx_case *out_case) {
    char path[640], line[128];
    rlx_case self = {0};
    snprintf(self.folder, sizeof self.folder, "%s", folder);
    (void)read_line(&self, "error", self.error, sizeof self.error);
    if (read_line(&self, "tolerance", line, sizeof line)) {
        self.has_tolerance = sscanf(line, "%lf %lf", &self.relative, &self.absolute) == 2;
        if (!self.has_tolerance)
            return RLX_FAIL(RLX_PARSE, "%s/tolerance: expected two numbers", folder);
    }
    path_of(&self, "data.rlx", path, sizeof path);
    if (access(path, R_OK) == 0) RLX_TRY(rlx_import_text(NULL, path, &self.data));
    path_of(&self, "model.rlx", path, sizeof path);
    rlx_status status = rlx_import_text(NULL, path, &self.model);
    /* A model that cannot be built may be what the case is about. */
    if (status != RLX_OK && self.error[0] == 0) {
        rlx_graph_destroy(self.data);
        return status;
    }
    *out_case = self;
    return RLX_OK;
}

void rlx_case_close(rlx_case *self) {
    rlx_graph_destroy(self->model);
    rlx_graph_destroy(self->data);
    *self = (rlx_case){0};
}

static rlx_status array_make(const rlx_type *type, rlx_test_array *out_array) {
    rlx_test_array array = {.dtype = type->dtype, .shape = type->shape};
    RLX_TRY(rlx_type_bytes(type, &array.bytes));
    array.data = calloc(1, (size_t)array.bytes + 1);
    if (array.data == NULL) return RLX_FAIL(RLX_OUT_OF_MEMORY, "array");
    *out_array = array;
    return RLX_OK;
}

static rlx_status read_npy(const char *path, const rlx_type *like, rlx_test_array *out_array) {
    rlx_npy_info info;
    if (access(path, R_OK) != 0) return RLX_FAIL(RLX_NOT_FOUND, "%s: not there", path);
    RLX_TRY(rlx_npy_read_header(path, &info));
    rlx_type type = rlx_type_make(like->dtype, info.shape.dims, info.shape.rank);
    if (rlx_dtype_block_elements(like->dtype) > 1) type.shape = like->shape;
    RLX_TRY_WITH(rlx_npy_holds(&info, &type), "%s", path);
    RLX_TRY(array_make(&type, out_array));
    rlx_status status = rlx_file_read_range(path, info.offset, info.bytes, out_array->data);
    if (status != RLX_OK) rlx_test_array_free(out_array);
    return status;
}

static rlx_status read_constant(const rlx_graph *data, const char *name,
                                rlx_test_array *out_array) {
    rlx_value_id id;
    RLX_TRY(rlx_graph_find(data, name, &id));
    const rlx_value *value = &data->values.items[id];
    RLX_TRY(array_make(&value->type, out_array));
    if (out_array->bytes > 0 && value->data != NULL)
        memcpy(out_array->data, value->data, (size_t)out_array->bytes);
    return RLX_OK;
}

rlx_status rlx_case_arrays(const rlx_case *self, bool is_input, uint32_t run, const rlx_type *types,
                           uint32_t count, rlx_test_array *out_arrays) {
    for (uint32_t i = 0; i < count; i++) {
        char name[64], path[640];
        rlx_status status;
        if (run == 0) {
            snprintf(name, sizeof name, "%s_%u", is_input ? "in" : "out", i);
        } else {
            snprintf(name, sizeof name, "%s_%u.%u", is_input ? "in" : "out", i, run);
        }
        snprintf(path, sizeof path, "%s/%s.npy", self->folder, name);
        status = self->data != NULL ? read_constant(self->data, name, &out_arrays[i])
                                    : read_npy(path, &types[i], &out_arrays[i]);
        if (status != RLX_OK) {
            rlx_case_free_arrays(out_arrays, i);
            return status;
        }
    }
    return RLX_OK;
}

void rlx_case_free_arrays(rlx_test_array *arrays, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        rlx_test_array_free(&arrays[i]);
}

static void tolerance_of(const rlx_case *self, rlx_dtype dtype, double *out_relative,
                         double *out_absolute) {
    double relative = 0.13, absolute = 0.02; /* f8 */
    if (dtype == RLX_DTYPE_F64) {
        relative = 1e-9;
        absolute = 1e-12;
    } else if (dtype == RLX_DTYPE_F32) {
        relative = 1e-4;
        absolute = 1e-5;
    } else if (dtype == RLX_DTYPE_F16) {
        relative = 2e-3;
        absolute = 1e-3;
    } else if (dtype == RLX_DTYPE_BF16) {
        relative = 1.6e-2;
        absolute = 1e-2;
    }
    *out_relative = self->has_tolerance ? self->relative : relative;
    *out_absolute = self->has_tolerance ? self->absolute : absolute;
}

static bool is_close(double expected, double actual, double relative, double absolute) {
    if (isnan(expected) || isnan(actual)) return isnan(expected) && isnan(actual);
    if (isinf(expected) || isinf(actual)) return expected == actual;
    return fabs(expected - actual) <= absolute + relative * fabs(expected);
}

static rlx_status compare_real(const rlx_case *self, const rlx_test_array *expected,
                               const rlx_test_array *actual, uint64_t count) {
    double relative, absolute;
    tolerance_of(self, expected->dtype, &relative, &absolute);
    for (uint64_t i = 0; i < count; i++) {
        double wanted = rlx_load_f64(expected->dtype, expected->data, (int64_t)i);
        double got = rlx_load_f64(actual->dtype, actual->data, (int64_t)i);
        if (!is_close(wanted, got, relative, absolute))
            return RLX_FAIL(RLX_DIFFERS, "element %" PRIu64 ": expected %.9g, got %.9g", i, wanted,
                            got);
    }
    return RLX_OK;
}

static rlx_status compare_exact(const rlx_test_array *expected, const rlx_test_array *actual,
                                uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        int64_t wanted = rlx_load_i64(expected->dtype, expected->data, (int64_t)i);
        int64_t got = rlx_load_i64(actual->dtype, actual->data, (int64_t)i);
        if (wanted != got)
            return RLX_FAIL(RLX_DIFFERS, "element %" PRIu64 ": expected %" PRId64 ", got %" PRId64,
                            i, wanted, got);
    }
    return RLX_OK;
}

rlx_status rlx_case_compare(const rlx_case *self, const rlx_test_array *expected,
                            const rlx_test_array *actual) {
    uint64_t count = 0;
    if (expected->dtype != actual->dtype || !rlx_shape_equal(&expected->shape, &actual->shape)) {
        char wanted[128], got[128];
        rlx_type a = rlx_type_make(expected->dtype, expected->shape.dims, expected->shape.rank);
        rlx_type b = rlx_type_make(actual->dtype, actual->shape.dims, actual->shape.rank);
        return RLX_FAIL(RLX_DIFFERS, "expected %s, got %s",
                        rlx_type_text(NULL, &a, wanted, sizeof wanted),
                        rlx_type_text(NULL, &b, got, sizeof got));
    }
    RLX_TRY(rlx_shape_elements(&expected->shape, &count));
    const rlx_dtype_row *row = rlx_dtype_row_of(expected->dtype);
    bool is_real = row->class_ == RLX_CLASS_FLOAT || row->class_ == RLX_CLASS_BLOCK;
    return is_real ? compare_real(self, expected, actual, count)
                   : compare_exact(expected, actual, count);
}
