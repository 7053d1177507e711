/* SPDX-License-Identifier: Apache-2.0 */
/* Runs an ONNX model once: its first input holds zeros, its first output is summed up.
 * usage: onnx MODEL.onnx [SYMBOL SIZE] */
#include <rlx/rlx.h>
#include <stdio.h>
#include <stdlib.h>

static void check(rlx_status status) {
    if (status != RLX_OK) exit(fprintf(stderr, "%s\n", rlx_last_error()) != 0);
}

int main(int argc, char **argv) {
    rlx_session *session;
    rlx_device *device;
    rlx_program *program;
    rlx_exec *exec;
    rlx_port_info in, out;
    if (argc < 2) return 2;
    rlx_binding size = {argc > 3 ? argv[2] : "", argc > 3 ? atol(argv[3]) : 0};
    rlx_entry_spec entry = {.bindings = &size, .binding_count = argc > 3};
    rlx_compile_options options = {.size = sizeof options, .entries = &entry, .entry_count = 1};
    check(rlx_session_open(NULL, argv[1], &session)); /* weights stay in the file */
    check(rlx_device_open("cpu", NULL, &device));
    check(rlx_session_compile(session, device, &options, NULL, &program));
    check(rlx_program_input(program, 0, 0, &in));
    check(rlx_program_output(program, 0, 0, &out));
    float *x = calloc(in.elements, sizeof *x), *y = calloc(out.elements, sizeof *y), sum = 0;
    check(rlx_exec_create(program, NULL, &exec)); /* one arena; runs allocate nothing */
    check(rlx_exec_set_input_f32(exec, 0, 0, x, in.elements));
    check(rlx_exec_run(exec, 0));
    check(rlx_exec_read_output_f32(exec, 0, 0, y, out.elements, NULL));
    for (uint64_t i = 0; i < out.elements; i++)
        sum += y[i];
    printf("%s -> %s: sum %g\n", in.name, out.name, (double)sum);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
    rlx_session_destroy(session);
}
