/* SPDX-License-Identifier: Apache-2.0 */
#include <rlx/rlx.h>
#include <stdio.h>
#include <stdlib.h>

static void check(rlx_status status) {
    if (status != RLX_OK) exit(fprintf(stderr, "%s\n", rlx_last_error()) != 0);
}

int main(void) {
    /* The model: y = softmax(x w + b), with weights from a seed. */
    rlx_graph *graph;
    rlx_value_id x, w, b, y;
    rlx_source seeded = {.kind = RLX_SOURCE_SEEDED, .seed = 7, .scale = 0.5};
    check(rlx_graph_create(NULL, &graph));
    check(rlx_graph_add_input(graph, "x", RLX_DTYPE_F32, (rlx_shape){2, {2, 8}}, &x));
    check(rlx_graph_add_parameter(graph, "w", RLX_DTYPE_F32, (rlx_shape){2, {8, 4}}, &seeded, &w));
    check(rlx_graph_add_parameter(graph, "b", RLX_DTYPE_F32, (rlx_shape){1, {4}}, &seeded, &b));
    check(rlx_graph_add_matmul(graph, x, w, &y));
    check(rlx_graph_add_binary(graph, RLX_OP_ADD, y, b, &y));
    check(rlx_graph_add_softmax(graph, y, -1, &y));
    check(rlx_graph_add_output(graph, y, "y"));

    /* Its plan: every byte is known before it runs. "cpu" would take the best of this machine. */
    rlx_session *session;
    rlx_device *device;
    rlx_program *program;
    check(rlx_session_create(NULL, graph, &session)); /* owns the graph from now on */
    check(rlx_device_open("cpu:scalar", NULL, &device));
    check(rlx_session_compile(session, device, NULL, NULL, &program));
    const rlx_plan *plan = rlx_program_plan(program);
    unsigned long long weights = rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS);
    unsigned long long scratch = rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH);
    printf("weights %llu, scratch %llu bytes\n", weights, scratch);

    /* A run, in one arena of that size; it allocates nothing. */
    rlx_exec *exec;
    float in[16] = {1, 2, 3, 4}, out[8];
    check(rlx_exec_create(program, NULL, &exec));
    check(rlx_exec_set_f32(exec, 0, "x", in, 16));
    check(rlx_exec_run(exec, 0));
    check(rlx_exec_read_f32(exec, 0, "y", out, 8, NULL));
    for (int i = 0; i < 8; i++)
        printf("%.4f%c", out[i], i % 4 == 3 ? '\n' : ' ');

    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
    rlx_session_destroy(session);
    return 0;
}
