/* SPDX-License-Identifier: Apache-2.0 */
/* The graph interpreter of the tests. */
#include "support/interpret.h"

#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/source.h"
#include "support/support.h"

#include <stdlib.h>

static uint64_t bytes_of(const rlx_type *type) {
    uint64_t bytes;
    assert_ok(rlx_type_bytes(type, &bytes));
    return bytes;
}

static const rlx_type *type_of(const rlx_test_interpreter *self, rlx_value_id value) {
    assert_true(self->graph->values.items[value].is_typed);
    return &self->graph->values.items[value].type;
}

void *rlx_test_interpreter_data(rlx_test_interpreter *self, rlx_value_id value) {
    if (self->data[value] == NULL) {
        self->data[value] = calloc(1, bytes_of(type_of(self, value)) + 16);
        assert_non_null(self->data[value]);
    }
    return self->data[value];
}

static void load_parameter(rlx_test_interpreter *self, rlx_value_id id) {
    const rlx_value *value = &self->graph->values.items[id];
    uint64_t elements;
    assert_ok(rlx_shape_elements(&value->type.shape, &elements));
    assert_ok(rlx_source_read(&value->source, value->type.dtype, 0, elements,
                              rlx_test_interpreter_data(self, id)));
}

void rlx_test_interpreter_init(rlx_test_interpreter *self, rlx_graph *graph) {
    assert_ok(rlx_graph_infer(graph));
    assert_ok(rlx_graph_verify(graph));
    *self = (rlx_test_interpreter){.graph = graph, .value_count = graph->values.count};
    self->data = calloc(self->value_count + 1u, sizeof *self->data);
    self->is_alias = calloc(self->value_count + 1u, sizeof *self->is_alias);
    assert_non_null(self->data);
    assert_non_null(self->is_alias);
    for (uint32_t i = 0; i < self->value_count; i++) {
        const rlx_value *value = &graph->values.items[i];
        if (value->kind == RLX_VALUE_TEMPORARY) continue;
        void *data = rlx_test_interpreter_data(self, i);
        if (value->kind == RLX_VALUE_CONSTANT && value->data_bytes != 0)
            memcpy(data, value->data, value->data_bytes);
        if (value->kind == RLX_VALUE_PARAMETER) load_parameter(self, i);
    }
}

void rlx_test_interpreter_free(rlx_test_interpreter *self) {
    for (uint32_t i = 0; i < self->value_count; i++) {
        if (!self->is_alias[i]) free(self->data[i]);
    }
    free(self->data);
    free(self->is_alias);
}

/* Dims that have an extent take it, unless `node` itself computes it. */
static rlx_tensor tensor_of(const rlx_test_interpreter *self, rlx_value_id id,
                            const rlx_node *node) {
    rlx_tensor tensor = {0};
    if (id == RLX_NONE) return tensor;
    const rlx_type *type = type_of(self, id);
    int64_t stride = 1;
    tensor.data = self->data[id];
    tensor.dtype = type->dtype;
    tensor.rank = type->shape.rank;
    for (uint32_t i = tensor.rank; i-- > 0;) {
        rlx_value_id extent = type->extents[i];
        bool is_own = false;
        tensor.strides[i] = stride;
        stride *= type->shape.dims[i];
        tensor.dims[i] = type->shape.dims[i];
        for (uint32_t o = 0; node != NULL && o < node->output_count; o++)
            is_own = is_own || node->outputs[o] == extent;
        if (extent == RLX_NONE || is_own) continue;
        memcpy(&tensor.dims[i], self->data[extent], sizeof tensor.dims[i]);
        assert_in_range(tensor.dims[i], 0, type->shape.dims[i]);
    }
    return tensor;
}

rlx_tensor rlx_test_interpreter_tensor(const rlx_test_interpreter *self, rlx_value_id value) {
    return tensor_of(self, value, NULL);
}

static void run_kernel(rlx_test_interpreter *self, const rlx_node *node) {
    const rlx_kernel *kernel = rlx_ref_kernel(node->op);
    rlx_tensor *in = calloc(node->input_count + 1u, sizeof *in);
    rlx_tensor *out = calloc(node->output_count + 1u, sizeof *out);
    if (kernel == NULL) fail_msg("%s has no scalar kernel", rlx_op_name(node->op));
    assert_non_null(in);
    assert_non_null(out);
    for (uint32_t i = 0; i < node->input_count; i++)
        in[i] = tensor_of(self, node->inputs[i], node);
    for (uint32_t i = 0; i < node->output_count; i++) {
        rlx_value_id value = node->outputs[i];
        if (value == RLX_NONE) continue;
        if (node->op == RLX_OP_STATE_WRITE && i == 0) {
            self->data[value] = self->data[node->inputs[0]];
            self->is_alias[value] = true;
        }
        (void)rlx_test_interpreter_data(self, value);
        out[i] = tensor_of(self, value, node);
    }
    rlx_kernel_args args = {.op = node->op,
                            .attrs = node->attrs,
                            .in = in,
                            .out = out,
                            .in_count = node->input_count,
                            .out_count = node->output_count,
                            .fault = &self->fault};
    if (kernel->workspace_bytes != NULL)
        args.workspace = aligned_alloc(64, (kernel->workspace_bytes(&args) + 127) & ~(uint64_t)63);
    int64_t items = kernel->items(&args);
    if (items > 0) kernel->run(&args, 0, items);
    free(args.workspace);
    free(in);
    free(out);
}

static void copy_value(rlx_test_interpreter *self, rlx_value_id to, rlx_value_id from) {
    if (to == RLX_NONE || to == from) return;
    memcpy(rlx_test_interpreter_data(self, to), self->data[from], bytes_of(type_of(self, from)));
}

static void run_block(rlx_test_interpreter *self, rlx_block_id id);

static void run_if(rlx_test_interpreter *self, const rlx_node *node) {
    bool is_true = *(const uint8_t *)self->data[node->inputs[0]] != 0;
    rlx_block_id block = node->blocks[is_true ? 0 : 1];
    run_block(self, block);
    for (uint32_t i = 0; i < node->output_count && self->fault.code == 0; i++)
        copy_value(self, node->outputs[i], self->graph->blocks.items[block].yields[i]);
}

/* All yields are read before any body input is written: they may be each other. */
static void carry(rlx_test_interpreter *self, const rlx_block *body, uint32_t carried) {
    void **held = calloc(carried + 1u, sizeof *held);
    assert_non_null(held);
    for (uint32_t i = 0; i < carried; i++) {
        uint64_t bytes = bytes_of(type_of(self, body->yields[1 + i]));
        held[i] = malloc(bytes + 1);
        assert_non_null(held[i]);
        memcpy(held[i], self->data[body->yields[1 + i]], bytes);
    }
    for (uint32_t i = 0; i < carried; i++) {
        memcpy(rlx_test_interpreter_data(self, body->inputs[1 + i]), held[i],
               bytes_of(type_of(self, body->yields[1 + i])));
        free(held[i]);
    }
    free(held);
}

static void stack(rlx_test_interpreter *self, const rlx_node *node, const rlx_block *body,
                  uint32_t carried, int64_t row) {
    for (uint32_t i = carried; i + 1 < body->yield_count; i++) {
        uint64_t bytes = bytes_of(type_of(self, body->yields[1 + i]));
        if (node->outputs[i] == RLX_NONE) continue;
        uint8_t *rows = rlx_test_interpreter_data(self, node->outputs[i]);
        memcpy(rows + (uint64_t)row * bytes, self->data[body->yields[1 + i]], bytes);
    }
}

static void run_loop(rlx_test_interpreter *self, const rlx_node *node) {
    const rlx_block *body = &self->graph->blocks.items[node->blocks[0]];
    const rlx_loop_attrs *attrs = node->attrs;
    uint32_t carried = node->input_count - 2, values = body->yield_count - 1;
    int64_t trips = INT64_MAX, done = 0;
    uint8_t go_on = 1;
    if (node->inputs[0] != RLX_NONE) memcpy(&trips, self->data[node->inputs[0]], sizeof trips);
    if (node->inputs[1] != RLX_NONE) memcpy(&go_on, self->data[node->inputs[1]], 1);
    for (uint32_t i = 0; i < carried; i++)
        copy_value(self, body->inputs[1 + i], node->inputs[2 + i]);
    for (; go_on && done < trips && self->fault.code == 0; done++) {
        if (attrs->bound != 0 && done >= attrs->bound) {
            self->fault = (rlx_fault){.code = RLX_FAULT_BOUND, .value = done};
            return;
        }
        memcpy(rlx_test_interpreter_data(self, body->inputs[0]), &done, sizeof done);
        run_block(self, node->blocks[0]);
        if (self->fault.code != 0) return;
        memcpy(&go_on, self->data[body->yields[0]], 1);
        stack(self, node, body, carried, done);
        carry(self, body, carried);
    }
    for (uint32_t i = 0; i < carried; i++)
        copy_value(self, node->outputs[i], body->inputs[1 + i]);
    for (uint32_t i = carried; i < node->output_count; i++) {
        if (node->outputs[i] != RLX_NONE) (void)rlx_test_interpreter_data(self, node->outputs[i]);
    }
    if (node->output_count > values && node->outputs[values] != RLX_NONE)
        memcpy(self->data[node->outputs[values]], &done, sizeof done);
}

static void run_block(rlx_test_interpreter *self, rlx_block_id id) {
    const rlx_block *block = &self->graph->blocks.items[id];
    for (uint32_t i = 0; i < block->nodes.count && self->fault.code == 0; i++) {
        const rlx_node *node = &self->graph->nodes.items[block->nodes.items[i]];
        if (node->is_dead) continue;
        if (node->op == RLX_OP_IF) {
            run_if(self, node);
        } else if (node->op == RLX_OP_LOOP) {
            run_loop(self, node);
        } else {
            run_kernel(self, node);
        }
    }
}

rlx_fault_code rlx_test_interpret(rlx_test_interpreter *self) {
    self->fault = (rlx_fault){0};
    run_block(self, 0);
    return (rlx_fault_code)self->fault.code;
}
