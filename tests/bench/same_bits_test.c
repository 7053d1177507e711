/* SPDX-License-Identifier: Apache-2.0 */
/* The bench graphs named on the command line give the same bits with 1, 2, 3 and 8 threads. */
#include "graphs.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

static char **names; /* NULL ends them */

static rlx_status run_graph(const rlx_bench_graph *row, rlx_device *device, rlx_exec **out_exec) {
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    rlx_status status = row->build(&graph);
    if (status == RLX_OK) status = rlx_session_create(NULL, graph, &session);
    if (status != RLX_OK) rlx_graph_destroy(graph); /* consumed on success only */
    if (status == RLX_OK) status = rlx_session_compile(session, device, NULL, NULL, &program);
    if (status == RLX_OK) status = rlx_exec_create(program, NULL, out_exec);
    rlx_program_release(program);
    rlx_session_destroy(session);
    return status;
}

static rlx_status fill_inputs(rlx_exec *exec) {
    rlx_entry_info entry;
    rlx_status status = rlx_plan_entry_at(rlx_program_plan(rlx_exec_program(exec)), 0, &entry);
    for (uint32_t i = 0; status == RLX_OK && i < entry.input_count; i++) {
        rlx_port_info port;
        status = rlx_program_input(rlx_exec_program(exec), 0, i, &port);
        if (status != RLX_OK) return status;
        float *values = malloc((size_t)port.elements * sizeof *values + 1);
        if (values == NULL) return RLX_OUT_OF_MEMORY;
        for (uint64_t at = 0; at < port.elements; at++) /* integers are positions */
            values[at] =
                port.dtype == RLX_DTYPE_F32 ? (float)(at * 7919 % 1000) * 0.002f - 1.0f : (float)at;
        status = rlx_exec_set_input_f32(exec, 0, i, values, port.elements);
        free(values);
    }
    return status;
}

/* FNV-1a of the first output. */
static rlx_status hash_output(rlx_exec *exec, uint64_t *out_hash) {
    rlx_port_info port;
    const void *memory = NULL;
    rlx_status status = rlx_program_output(rlx_exec_program(exec), 0, 0, &port);
    if (status == RLX_OK) status = rlx_exec_output_address(exec, 0, 0, &memory);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; status == RLX_OK && i < port.elements * sizeof(float); i++)
        hash = (hash ^ ((const uint8_t *)memory)[i]) * UINT64_C(0x100000001b3);
    *out_hash = hash;
    return status;
}

static rlx_status hash_of(const rlx_bench_graph *row, uint32_t threads, uint64_t *out_hash) {
    rlx_device_options options = {.size = sizeof options, .threads = threads};
    rlx_device *device = NULL;
    rlx_exec *exec = NULL;
    rlx_status status = rlx_device_open("cpu", &options, &device);
    if (status == RLX_OK) status = run_graph(row, device, &exec);
    if (status == RLX_OK) status = fill_inputs(exec);
    if (status == RLX_OK) status = rlx_exec_run(exec, 0);
    if (status == RLX_OK) status = hash_output(exec, out_hash);
    rlx_exec_destroy(exec);
    rlx_device_release(device);
    return status;
}

static const rlx_bench_graph *find_graph(const char *name) {
    for (uint32_t i = 0; i < rlx_bench_graph_count; i++) {
        if (strcmp(rlx_bench_graphs[i].name, name) == 0) return &rlx_bench_graphs[i];
    }
    return NULL;
}

static void any_number_of_threads_gives_the_same_bits(void **state) {
    static const uint32_t threads[] = {2, 3, 8};
    (void)state;
    for (char **name = names; *name != NULL; name++) {
        const rlx_bench_graph *row = find_graph(*name);
        uint64_t alone = 0, shared = 0;
        assert_non_null(row);
        assert_ok(hash_of(row, 1, &alone));
        for (int i = 0; i < 3; i++) {
            assert_ok(hash_of(row, threads[i], &shared));
            if (shared != alone) print_error("%s with %u threads\n", row->name, threads[i]);
            assert_int_equal(shared, alone);
        }
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
    };
    names = argv + (argc > 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
