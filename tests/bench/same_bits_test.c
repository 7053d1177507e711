/* SPDX-License-Identifier: Apache-2.0 */
/* The bench graphs named on the command line give the same bits with 1, 2, 3 and 8 threads; and the
 * kinds of steps that the topics of `rlx bench` time, at sizes that give several threads work. */
#include "graphs.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

static char **names; /* NULL ends them */

/* A network, or a graph in text form. */
typedef struct same_graph {
    const char *name;
    const rlx_bench_graph *network; /* NULL: the text */
    const char *text;
} same_graph;

#define TEXT(name, inputs, node) \
    { name, NULL, "rlx 1\n" inputs "\ny = " node "\noutput y\n" }
#define PAIR "input x : f32[512, 1024]\ninput r : f32[512, 1024]\ninput s : f32[1024]"
#define HEADS(s, t)                                                                             \
    "input q : f32[1, 8, " #s ", 64]\ninput k : f32[1, 8, " #t ", 64]\ninput v : f32[1, 8, " #t \
    ", 64]"
static const same_graph topics[] = {
    TEXT("matmul", "input x : f32[190, 512]\nparam w : f32[512, 500] = seeded(1, 1)",
         "matmul(x, w)"),
    TEXT("matmul, one row", "input x : f32[1, 2048]\nparam w : f32[2048, 1000] = seeded(1, 1)",
         "matmul(x, w)"),
    TEXT("matmul of bytes", "input x : u8[100, 512]\nparam w : i8[512, 500] = seeded(1, 100)",
         "matmul(x, w) to=i32"),
    TEXT("conv 3x3", "input x : f32[1, 64, 56, 56]\nparam w : f32[70, 64, 3, 3] = seeded(1, 0.1)",
         "conv(x, w) pads=[1, 1, 1, 1]"),
    TEXT("conv 1x1", "input x : f32[1, 256, 28, 28]\nparam w : f32[128, 256, 1, 1] = seeded(1, 1)",
         "conv(x, w)"),
    TEXT("conv 7x7", "input x : f32[1, 3, 112, 112]\nparam w : f32[64, 3, 7, 7] = seeded(1, 0.1)",
         "conv(x, w) strides=[2, 2] pads=[3, 3, 3, 3]"),
    TEXT("conv in groups",
         "input x : f32[2, 58, 28, 28]\nparam w : f32[58, 29, 3, 3] = seeded(1, 1)",
         "conv(x, w) groups=2 pads=[1, 1, 1, 1]"),
    TEXT("depthwise", "input x : f32[1, 64, 56, 56]\nparam w : f32[64, 1, 3, 3] = seeded(1, 1)",
         "conv(x, w) groups=64 pads=[1, 1, 1, 1]"),
    TEXT("chain of six",
         PAIR "\na = mul(x, s)\nb = add(a, s)\nc = sigmoid(b)\nd = mul(c, x)\n"
              "e = clip(d) alpha=-1 beta=1",
         "add(e, r)"),
    TEXT("gelu", PAIR, "gelu(x)"),
    TEXT("softmax", PAIR, "softmax(x) axis=-1"),
    TEXT("softmax, lines", "input x : f32[16, 64, 512]", "softmax(x) axis=1"),
    TEXT("layer_norm", PAIR, "layer_norm(x, s, s) axis=-1 epsilon=1e-5"),
    TEXT("rms_norm", PAIR, "rms_norm(x, s) axis=-1 epsilon=1e-5"),
    TEXT("transpose", PAIR, "transpose(x) perm=[1, 0]"),
    TEXT("sums of rows", PAIR, "reduce_sum(x) axes=[1]"),
    TEXT("sums of columns", PAIR, "reduce_sum(x) axes=[0]"),
    TEXT("sum of all", PAIR, "reduce_sum(x)"),
    TEXT("attention", HEADS(200, 300), "attention(q, k, v)"),
    TEXT("causal attention", HEADS(300, 300), "attention(q, k, v) causal=true"),
    TEXT("attention, one query", HEADS(1, 3000), "attention(q, k, v)"),
};

static rlx_status run_graph(const same_graph *row, rlx_device *device, rlx_exec **out_exec) {
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    rlx_status status = row->network != NULL
                            ? row->network->build(&graph)
                            : rlx_graph_parse(NULL, row->text, strlen(row->text), &graph);
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
    for (uint64_t i = 0; status == RLX_OK && i < port.bytes; i++)
        hash = (hash ^ ((const uint8_t *)memory)[i]) * UINT64_C(0x100000001b3);
    *out_hash = hash;
    return status;
}

static rlx_status hash_of(const same_graph *row, uint32_t threads, uint64_t *out_hash) {
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

static void check_graph(const same_graph *row) {
    static const uint32_t threads[] = {2, 3, 8};
    uint64_t alone = 0, shared = 0;
    assert_ok(hash_of(row, 1, &alone));
    for (int i = 0; i < 3; i++) {
        assert_ok(hash_of(row, threads[i], &shared));
        if (shared != alone) print_error("%s with %u threads\n", row->name, threads[i]);
        assert_int_equal(shared, alone);
    }
}

static void any_number_of_threads_gives_the_same_bits(void **state) {
    (void)state;
    for (char **name = names; *name != NULL; name++) {
        same_graph row = {*name, find_graph(*name), NULL};
        assert_non_null(row.network);
        check_graph(&row);
    }
}

static void steps_of_the_topics_have_the_same_bits_too(void **state) {
    (void)state;
    for (uint32_t i = 0; i < sizeof topics / sizeof *topics; i++)
        check_graph(&topics[i]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(steps_of_the_topics_have_the_same_bits_too),
    };
    names = argv + (argc > 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
