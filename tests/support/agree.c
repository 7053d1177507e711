/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing what two graphs compute. */
#include "support/agree.h"

#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/source.h"
#include "support/support.h"

#include <math.h>

static uint64_t hash_name(const char *name, uint64_t seed) {
    uint64_t hash = seed * 0x9E3779B97F4A7C15u + 1469598103934665603u;
    for (; *name != 0; name++)
        hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return hash;
}

void rlx_test_fill_inputs(rlx_test_interpreter *self, uint64_t seed) {
    for (uint32_t i = 0; i < self->value_count; i++) {
        const rlx_value *value = &self->graph->values.items[i];
        bool is_float = rlx_dtype_is_float(value->type.dtype);
        uint64_t elements;
        if (value->kind != RLX_VALUE_INPUT) continue;
        assert_ok(rlx_shape_elements(&value->type.shape, &elements));
        assert_ok(rlx_source_fill_seeded(hash_name(value->name, seed), is_float ? 0 : 2, 2,
                                         value->type.dtype, 0, elements,
                                         rlx_test_interpreter_data(self, i)));
    }
}

static int64_t offset_of(const rlx_tensor *tensor, int64_t index) {
    int64_t offset = 0;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        offset += index % tensor->dims[i] * tensor->strides[i];
        index /= tensor->dims[i];
    }
    return offset;
}

static double element_difference(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? 0 : INFINITY;
    if (isinf(a) || isinf(b)) return a == b ? 0 : INFINITY;
    return fabs(a - b) / (1 + fabs(a));
}

static double tensor_difference(const rlx_tensor *a, const rlx_tensor *b) {
    double worst = 0;
    if (a->data == NULL || b->data == NULL || a->dtype != b->dtype || a->rank != b->rank ||
        memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) != 0) {
        return INFINITY;
    }
    for (int64_t i = 0; i < rlx_tensor_elements(a); i++) {
        double one = element_difference(rlx_load_f64(a->dtype, a->data, offset_of(a, i)),
                                        rlx_load_f64(b->dtype, b->data, offset_of(b, i)));
        if (one > worst) worst = one;
    }
    return worst;
}

static double outputs_difference(const rlx_test_interpreter *a, const rlx_test_interpreter *b,
                                 uint32_t *out_index) {
    double worst = 0;
    if (a->fault.code != b->fault.code) return INFINITY;
    if (a->fault.code != RLX_FAULT_NONE) return 0;
    for (uint32_t i = 0; i < a->graph->outputs.count; i++) {
        rlx_tensor first = rlx_test_interpreter_tensor(a, a->graph->outputs.items[i].value);
        rlx_tensor second = rlx_test_interpreter_tensor(b, b->graph->outputs.items[i].value);
        double one = tensor_difference(&first, &second);
        if (one > worst) worst = one, *out_index = i;
    }
    return worst;
}

double rlx_test_difference(rlx_graph *a, rlx_graph *b, uint64_t seed, uint32_t *out_index) {
    rlx_test_interpreter first, second;
    *out_index = 0;
    if (a->outputs.count != b->outputs.count) return INFINITY;
    rlx_test_interpreter_init(&first, a);
    rlx_test_interpreter_init(&second, b);
    rlx_test_fill_inputs(&first, seed);
    rlx_test_fill_inputs(&second, seed);
    (void)rlx_test_interpret(&first);
    (void)rlx_test_interpret(&second);
    double difference = outputs_difference(&first, &second, out_index);
    rlx_test_interpreter_free(&first);
    rlx_test_interpreter_free(&second);
    return difference;
}
