/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs through everything: compiled for the CPU, run, and compared with the oracle, which
 * knows no pass, no plan and no arena. With any pass left out, without reuse of memory and with
 * dead memory overwritten the results are the same. `test_compile_whole FIRST LAST` takes other
 * seeds than 1 to 100. */
#include "support/agree.h"
#include "support/random_graph.h"
#include "support/support.h"

#include <rlx/exec.h>
#include <rlx/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_OUTPUT = 1024 };

static uint64_t first_seed = 1, last_seed = 100;

typedef struct results {
    float outputs[8][MOST_OUTPUT];
    uint64_t counts[8];
    uint32_t count;
} results;

typedef struct fixture {
    rlx_device *device;
} fixture;

static void run(rlx_device *device, const rlx_graph *graph, const rlx_compile_options *options,
                bool poison, uint64_t seed, results *out) {
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    rlx_graph *copy = NULL;
    rlx_exec_options exec_options = {.size = sizeof exec_options, .poison = poison};
    uint32_t input_count;
    rlx_test_array *inputs = rlx_test_inputs(graph, seed, &input_count);
    assert_ok(rlx_graph_clone(graph, NULL, &copy));
    assert_ok(rlx_session_create(NULL, copy, &session));
    assert_ok(rlx_session_compile(session, device, options, NULL, &program));
    assert_ok(rlx_exec_create(program, &exec_options, &exec));
    for (uint32_t i = 0; i < input_count; i++) {
        assert_ok(rlx_exec_set_input(exec, 0, i, inputs[i].data, inputs[i].bytes));
    }
    assert_ok(rlx_exec_run(exec, 0));
    out->count = graph->outputs.count;
    assert_true(out->count <= 8);
    for (uint32_t i = 0; i < out->count; i++) {
        assert_ok(
            rlx_exec_read_output_f32(exec, 0, i, out->outputs[i], MOST_OUTPUT, &out->counts[i]));
    }
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_session_destroy(session);
    rlx_test_inputs_free(inputs, input_count);
}

/* The same from the oracle; every output of a random graph is f32. */
static void expect(const rlx_graph *graph, uint64_t seed, results *out) {
    rlx_test_oracle *oracle = NULL;
    rlx_test_array outputs[8] = {0};
    uint32_t input_count;
    rlx_test_array *inputs = rlx_test_inputs(graph, seed, &input_count);
    assert_ok(rlx_test_oracle_create(graph, inputs, input_count, &oracle));
    assert_ok(rlx_test_oracle_run(oracle, inputs, input_count, outputs));
    out->count = graph->outputs.count;
    for (uint32_t i = 0; i < out->count; i++) {
        assert_int_equal(outputs[i].dtype, RLX_DTYPE_F32);
        assert_true(outputs[i].bytes <= sizeof out->outputs[i]);
        memcpy(out->outputs[i], outputs[i].data, outputs[i].bytes);
        out->counts[i] = outputs[i].bytes / sizeof(float);
        rlx_test_array_free(&outputs[i]);
    }
    rlx_test_oracle_destroy(oracle);
    rlx_test_inputs_free(inputs, input_count);
}

static void assert_close(const results *expected, const results *actual, uint64_t seed,
                         const char *what) {
    assert_int_equal(expected->count, actual->count);
    for (uint32_t i = 0; i < expected->count; i++) {
        assert_int_equal(expected->counts[i], actual->counts[i]);
        for (uint64_t n = 0; n < expected->counts[i]; n++) {
            double a = (double)expected->outputs[i][n], b = (double)actual->outputs[i][n];
            if (fabs(a - b) <= 2e-4 * (1 + fabs(a)) || (isnan(a) && isnan(b)) || a == b) continue;
            fail_msg("graph %u, %s: output %u, element %u: expected %g, got %g", (unsigned)seed,
                     what, i, (unsigned)n, a, b);
        }
    }
}

static void assert_same_bits(const results *expected, const results *actual, uint64_t seed) {
    assert_int_equal(expected->count, actual->count);
    for (uint32_t i = 0; i < expected->count; i++) {
        uint64_t bytes = expected->counts[i] * sizeof(float);
        assert_int_equal(expected->counts[i], actual->counts[i]);
        if (memcmp(expected->outputs[i], actual->outputs[i], bytes) != 0) {
            fail_msg("graph %u: output %u has other bits", (unsigned)seed, i);
        }
    }
}

static void compiled_graphs_give_what_the_oracle_gives(void **state) {
    fixture *self = *state;
    results *expected = calloc(2, sizeof *expected), *actual = expected + 1;
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        rlx_graph *graph = rlx_test_random_graph(seed);
        expect(graph, seed, expected);
        run(self->device, graph, NULL, false, seed, actual);
        assert_close(expected, actual, seed, "all passes");
        rlx_graph_destroy(graph);
    }
    free(expected);
}

static void any_pass_may_be_left_out(void **state) {
    fixture *self = *state;
    results *expected = calloc(2, sizeof *expected), *actual = expected + 1;
    uint32_t passes = rlx_pass_count();
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        rlx_graph *graph = rlx_test_random_graph(seed);
        rlx_compile_options options = {.size = sizeof options,
                                       .disabled_passes = UINT64_C(1) << (seed % passes)};
        expect(graph, seed, expected);
        run(self->device, graph, &options, false, seed, actual);
        assert_close(expected, actual, seed, rlx_pass_name((uint32_t)(seed % passes)));
        options.disabled_passes = (UINT64_C(1) << passes) - 1;
        run(self->device, graph, &options, false, seed, actual);
        assert_close(expected, actual, seed, "no passes");
        rlx_graph_destroy(graph);
    }
    free(expected);
}

static void reuse_and_poison_change_no_bit(void **state) {
    fixture *self = *state;
    results *first = calloc(2, sizeof *first), *second = first + 1;
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        rlx_graph *graph = rlx_test_random_graph(seed);
        rlx_compile_options apart = {.size = sizeof apart, .without_reuse = true};
        run(self->device, graph, &apart, false, seed, first);
        run(self->device, graph, NULL, true, seed, second);
        assert_same_bits(first, second, seed);
        rlx_graph_destroy(graph);
    }
    free(first);
}

static int open_device(void **state) {
    static fixture self;
    *state = &self;
    return rlx_device_open("cpu", NULL, &self.device) == RLX_OK ? 0 : -1;
}

static int close_device(void **state) {
    fixture *self = *state;
    rlx_device_release(self->device);
    return 0;
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled_graphs_give_what_the_oracle_gives),
        cmocka_unit_test(any_pass_may_be_left_out),
        cmocka_unit_test(reuse_and_poison_change_no_bit),
    };
    if (count > 2) {
        first_seed = strtoull(arguments[1], NULL, 10);
        last_seed = strtoull(arguments[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, open_device, close_device);
}
