/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing what two graphs compute. */
#include "support/agree.h"

#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/source.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>

void rlx_test_fill(rlx_test_array *array, uint64_t seed) {
    rlx_type type = rlx_type_make(array->dtype, array->shape.dims, array->shape.rank);
    bool is_float = rlx_dtype_is_float(array->dtype);
    uint64_t elements;
    assert_ok(rlx_type_bytes(&type, &array->bytes));
    assert_ok(rlx_shape_elements(&array->shape, &elements));
    array->data = calloc(1, array->bytes + 16);
    assert_non_null(array->data);
    if (array->dtype == RLX_DTYPE_BOOL) {
        rlx_test_random random = rlx_test_seed(seed);
        for (uint64_t i = 0; i < elements; i++)
            ((uint8_t *)array->data)[i] = (uint8_t)rlx_test_below(&random, 2);
        return;
    }
    assert_ok(
        rlx_source_fill_seeded(seed, is_float ? 0 : 2, 2, array->dtype, 0, elements, array->data));
}

static uint64_t single_floats(const rlx_test_array *array) {
    uint64_t elements = 0;
    bool is_float = rlx_dtype_is_float(array->dtype);
    if (!is_float || rlx_dtype_block_elements(array->dtype) != 1) return 0;
    return rlx_shape_elements(&array->shape, &elements) == RLX_OK ? elements : 0;
}

void rlx_test_make_special(rlx_test_array *array, uint64_t seed) {
    static const double special[] = {NAN, INFINITY, -INFINITY, 0x1p-140, -0x1p-149, -0.0};
    rlx_test_random random = rlx_test_seed(seed);
    uint64_t elements = single_floats(array);
    for (uint64_t i = 0; i < elements; i++) {
        uint64_t pick = rlx_test_below(&random, 600);
        if (pick < 6) rlx_store_f64(array->dtype, array->data, (int64_t)i, special[pick]);
    }
}

void rlx_test_make_tiny(rlx_test_array *arrays, uint32_t count) {
    for (uint32_t n = 0; n < count; n++) {
        uint64_t elements = single_floats(&arrays[n]);
        for (int64_t i = 0; i < (int64_t)elements; i++) {
            double value = rlx_load_f64(arrays[n].dtype, arrays[n].data, i);
            rlx_store_f64(arrays[n].dtype, arrays[n].data, i, value * 0x1p-128);
        }
    }
}

rlx_test_array *rlx_test_inputs(const rlx_graph *graph, uint64_t seed, uint32_t *out_count) {
    rlx_test_array *inputs = calloc(graph->values.count + 1u, sizeof *inputs);
    uint32_t count = 0;
    assert_non_null(inputs);
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const rlx_value *value = &graph->values.items[v];
        if (value->kind != RLX_VALUE_INPUT) continue;
        inputs[count].dtype = value->type.dtype;
        inputs[count].shape = value->type.shape;
        rlx_test_fill(&inputs[count], seed * 1000 + count);
        count++;
    }
    *out_count = count;
    return inputs;
}

void rlx_test_inputs_free(rlx_test_array *inputs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        rlx_test_array_free(&inputs[i]);
    free(inputs);
}

static double element_difference(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? 0 : INFINITY;
    if (isinf(a) || isinf(b)) return a == b ? 0 : INFINITY;
    return fabs(a - b) / (1 + fabs(a));
}

static double array_difference(const rlx_test_array *a, const rlx_test_array *b) {
    uint64_t elements;
    double worst = 0;
    if (a->dtype != b->dtype || !rlx_shape_equal(&a->shape, &b->shape)) return INFINITY;
    assert_ok(rlx_shape_elements(&a->shape, &elements));
    for (uint64_t i = 0; i < elements; i++) {
        double one = element_difference(rlx_load_f64(a->dtype, a->data, (int64_t)i),
                                        rlx_load_f64(b->dtype, b->data, (int64_t)i));
        if (one > worst) worst = one;
    }
    return worst;
}

static rlx_status run(const rlx_graph *graph, const rlx_test_array *inputs, uint32_t count,
                      rlx_test_array **out_outputs) {
    rlx_test_oracle *oracle = NULL;
    *out_outputs = calloc(graph->outputs.count + 1u, sizeof **out_outputs);
    assert_non_null(*out_outputs);
    assert_ok(rlx_test_oracle_create(graph, inputs, count, &oracle));
    rlx_status status = rlx_test_oracle_run(oracle, inputs, count, *out_outputs);
    rlx_test_oracle_destroy(oracle);
    return status;
}

double rlx_test_difference(const rlx_graph *a, const rlx_graph *b, uint64_t seed,
                           uint32_t *out_index) {
    rlx_test_array *first, *second;
    uint32_t input_count, output_count = a->outputs.count;
    rlx_test_array *inputs = rlx_test_inputs(a, seed, &input_count);
    double worst = 0;
    *out_index = 0;
    assert_int_equal(output_count, b->outputs.count);
    rlx_status status = run(a, inputs, input_count, &first);
    if (run(b, inputs, input_count, &second) != status) worst = INFINITY;
    for (uint32_t i = 0; i < output_count && !isinf(worst) && status == RLX_OK; i++) {
        double one = array_difference(&first[i], &second[i]);
        if (one > worst) worst = one, *out_index = i;
    }
    rlx_test_inputs_free(inputs, input_count);
    rlx_test_inputs_free(first, output_count);
    rlx_test_inputs_free(second, output_count);
    return worst;
}
