/* SPDX-License-Identifier: Apache-2.0 */
#include <rlx/rlx.h>
#include <stdio.h>
#include <stdlib.h>

static void check(rlx_status status) {
    if (status != RLX_OK) exit(fprintf(stderr, "%s\n", rlx_last_error()) != 0);
}

int main(void) {
    rlx_graph *graph; /* y = softmax(x w), with weights from a seed */
    rlx_value_id x, w, y;
    rlx_source seeded = {.kind = RLX_SOURCE_SEEDED, .seed = 7, .scale = 0.5};
    check(rlx_graph_create(NULL, &graph));
    check(rlx_graph_add_input(graph, "x", RLX_DTYPE_F32, (rlx_shape){2, {2, 8}}, &x));
    check(rlx_graph_add_parameter(graph, "w", RLX_DTYPE_F32, (rlx_shape){2, {8, 4}}, &seeded, &w));
    check(rlx_graph_add_matmul(graph, x, w, &y));
    check(rlx_graph_add_softmax(graph, y, -1, &y));
    check(rlx_graph_add_output(graph, y, "y"));
    rlx_session *session; /* owns the graph from now on */
    rlx_device *device;   /* "cpu" would take the best of this machine */
    rlx_program *program; /* one plan: every byte is known before it runs */
    check(rlx_session_create(NULL, graph, &session));
    check(rlx_device_open("cpu:scalar", NULL, &device));
    check(rlx_session_compile(session, device, NULL, NULL, &program));
    printf("%u bytes\n", (unsigned)rlx_plan_arena_bytes(rlx_program_plan(program)));
    rlx_exec *exec; /* an arena of that size: runs allocate nothing */
    float in[16] = {1, 2, 3, 4}, out[8];
    check(rlx_exec_create(program, NULL, &exec));
    check(rlx_exec_set_f32(exec, 0, "x", in, 16));
    check(rlx_exec_run(exec, 0));
    check(rlx_exec_read_f32(exec, 0, "y", out, 8, NULL));
    printf("%.4f %.4f %.4f %.4f\n", out[0], out[1], out[2], out[3]);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
    rlx_session_destroy(session);
}
