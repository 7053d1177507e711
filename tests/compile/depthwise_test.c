/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolutions over their own input: when the compiler plans them so, and that every
 * kernel that may run such a plan gives what it gives with memory of its own. */
#include "backend/cpu/cpu.h"
#include "base/cpu.h"
#include "compile/compile.h"
#include "support/support.h"

#include <rlx/exec.h>
#include <rlx/program.h>
#include <rlx/session.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LARGEST = 2 * 40 * 20 * 33 };

/* Levels whose kernels write over their input, here or not, as far as they were built. */
static const char *const level_names[] = {"cpu:avx2", "cpu:avx512", "cpu:neon"};
enum { LEVELS = sizeof level_names / sizeof *level_names };

static rlx_plan *plan_of(const char *text, const rlx_cpu_level *level, uint32_t threads,
                         bool in_place) {
    rlx_graph *graph = NULL;
    rlx_plan *plan = NULL;
    rlx_compile_options options = {.size = sizeof options};
    rlx_target target = rlx_cpu_target(level, threads);
    for (uint32_t i = 0; !in_place && i < rlx_pass_count(); i++) {
        if (strcmp(rlx_pass_name(i), "in_place") == 0) options.disabled_passes |= 1u << i;
    }
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_ok(rlx_compile(graph, &target, &options, NULL, &plan));
    rlx_graph_destroy(graph);
    assert_ok(rlx_plan_verify(plan));
    return plan;
}

static rlx_plan_step *depthwise_of(const rlx_plan *plan) {
    rlx_plan_step *found = NULL;
    for (uint32_t i = plan->prepare_count; i < plan->steps.count; i++) {
        rlx_plan_step *step = &plan->steps.items[i];
        if (step->op == RLX_OP_CONV && strstr(step->kernel, "depthwise") != NULL) found = step;
    }
    assert_non_null(found);
    return found;
}

static bool is_in_place(const rlx_plan *plan) {
    const rlx_plan_step *step = depthwise_of(plan);
    const uint32_t *operands = &plan->operands.items[step->operands_at];
    const rlx_plan_slot *x = &plan->slots.items[operands[0]];
    const rlx_plan_slot *y = &plan->slots.items[operands[step->input_count]];
    return x->buffer == y->buffer && x->byte_offset == y->byte_offset;
}

/* Consumes the plan. */
static uint64_t run(rlx_plan *plan, const char *device_name, float out[LARGEST]) {
    static float x[LARGEST];
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    rlx_port_info port;
    uint64_t got;
    assert_ok(rlx_device_open(device_name, NULL, &device));
    assert_ok(rlx_program_create(device, plan, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(rlx_program_input(program, 0, 0, &port));
    for (uint64_t i = 0; i < port.elements; i++)
        x[i] = (float)(i % 23) * 0.1f - 1;
    x[port.elements / 2] = (float)INFINITY; /* stays with its neighbours */
    assert_ok(rlx_exec_set_input_f32(exec, 0, 0, x, port.elements));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_output_f32(exec, 0, 0, out, LARGEST, &got));
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
    return got;
}

static void write_net(char *text, size_t bytes, int n, int channels, int height, int width,
                      const char *activation) {
    snprintf(text, bytes,
             "rlx 1\ninput x : f32[%d, %d, %d, %d]\nparam w : f32[%d, 1, 3, 3] = seeded(1, 0.3)\n"
             "param b : f32[%d] = seeded(2, 0.3)\nparam v : f32[%d, %d, 1, 1] = seeded(3, 0.1)\n"
             "h = abs(x)\nc = conv(h, w, b) pads=[1, 1, 1, 1] groups=%d%s\n"
             "y = conv(c, v)\noutput y\n",
             n, channels, height, width, channels, channels, channels, channels, channels,
             activation);
}

static bool is_same(float a, float b) {
    if (!isfinite(a) || !isfinite(b)) return !isfinite(a) && !isfinite(b);
    return fabsf(a - b) <= 1e-4f * (1 + fabsf(a));
}

static void check_kernels(const rlx_cpu_level *level, const char *text, bool is_odd) {
    static float apart[LARGEST], in_place[LARGEST], native[LARGEST];
    rlx_plan *plan = plan_of(text, level, 1, true);
    /* Kernels that take two rows at a time need a partner for each. */
    assert_int_equal(is_in_place(plan), !is_odd || strcmp(level->name, "avx2") != 0);
    uint64_t count = run(plan, "cpu:scalar", in_place);
    plan = plan_of(text, level, 1, false);
    assert_false(is_in_place(plan));
    assert_int_equal(run(plan, "cpu:scalar", apart), count);
    for (uint64_t i = 0; i < count; i++)
        assert_true(is_same(apart[i], in_place[i]));
    if ((level->flags & ~rlx_cpu_flags()) != 0) return; /* this machine cannot run it */
    run(plan_of(text, level, 1, true), level->device, native);
    for (uint64_t i = 0; i < count; i++)
        assert_true(is_same(apart[i], native[i]));
    run(plan_of(text, level, 1, false), level->device, apart);
    assert_memory_equal(apart, native, count * sizeof *native);
}

static void kernels_agree_in_place_and_apart(void **state) {
    static const char *const activations[] = {
        "", " activation=relu", " activation=silu",
        " activation=clip activation_alpha=-0.5 activation_beta=0.75"};
    static const int sizes[][4] = {{1, 40, 14, 14}, {2, 32, 7, 7},  {1, 16, 19, 20}, {1, 32, 9, 13},
                                   {2, 40, 12, 33}, {1, 24, 7, 40}, {1, 16, 4, 64},  {1, 17, 3, 5},
                                   {1, 32, 15, 8},  {1, 16, 3, 2},  {1, 16, 13, 9}};
    (void)state;
    for (uint32_t i = 0; i < LEVELS * sizeof sizes / sizeof *sizes; i++) {
        const rlx_cpu_level *level = rlx_cpu_find_level(level_names[i % LEVELS]);
        const int *size = sizes[i / LEVELS];
        char text[512];
        write_net(text, sizeof text, size[0], size[1], size[2], size[3],
                  activations[i / LEVELS % 4]);
        if (level != NULL) check_kernels(level, text, size[2] % 2 != 0);
    }
}

/* In place a plane is one item: where threads have nothing like equal shares of those, the output
 * has memory of its own. */
static void threads_get_equal_shares(void **state) {
    static const bool expected[] = {false, true, false, true, false};
    (void)state;
    for (uint32_t i = 0; i < LEVELS; i++) {
        const rlx_cpu_level *level = rlx_cpu_find_level(level_names[i]);
        char text[512];
        if (level == NULL) continue;
        write_net(text, sizeof text, 1, 3 * (int)level->channel_block, 14, 14, "");
        for (uint32_t threads = 1; threads < 5; threads++) {
            rlx_plan *plan = plan_of(text, level, threads, true);
            assert_int_equal(is_in_place(plan), expected[threads]);
            rlx_plan_destroy(plan);
        }
    }
}

static void inputs_that_others_read_stay(void **state) {
    (void)state;
    for (uint32_t i = 0; i < LEVELS; i++) {
        const rlx_cpu_level *level = rlx_cpu_find_level(level_names[i]);
        if (level == NULL) continue;
        rlx_plan *plan = plan_of("rlx 1\ninput x : f32[1, 32, 14, 14]\n"
                                 "param w : f32[32, 1, 3, 3] = seeded(1, 0.3)\n"
                                 "param v : f32[32, 32, 1, 1] = seeded(3, 0.1)\n"
                                 "h = conv(x, v)\nc = conv(h, w) pads=[1, 1, 1, 1] groups=32\n"
                                 "y = conv(c, v, _, h)\noutput y\n",
                                 level, 1, true);
        assert_false(is_in_place(plan));
        rlx_plan_destroy(plan);
    }
}

/* 2e38 in a corner meets weights of 0 and 4: sums of two such numbers are none, the result is. */
static void large_numbers_stay_with_their_neighbours(void **state) {
    enum { SIDE = 14, MOST = 16 };
    static float x[SIDE * SIDE * MOST], w[MOST * 9], y[SIDE * SIDE * MOST];
    const int block = (int)rlx_cpu_best_level()->channel_block;
    char text[320];
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    uint64_t count;
    (void)state;
    if (block == 0) skip();
    snprintf(text, sizeof text,
             "rlx 1\ninput x : f32[1, 1, 14, 14, %d]\ninput w : f32[%d, 1, 3, 3]\n"
             "p = pack(w) layout=depthwise%d\n"
             "y = conv(x, p) pads=[1, 1, 1, 1] groups=%d channel_block=%d\noutput y\n",
             block, block, block, block, block);
    for (int c = 0; c < block; c++) {
        x[c] = 2e38f;
        w[c * 9 + 7] = 4; /* of the row below an output */
    }
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_ok(rlx_session_create(NULL, graph, &session));
    assert_ok(rlx_device_open("cpu", NULL, &device));
    assert_ok(rlx_session_compile(session, device, NULL, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(rlx_exec_set_input_f32(exec, 0, 0, x, (uint64_t)(SIDE * SIDE * block)));
    assert_ok(rlx_exec_set_input_f32(exec, 0, 1, w, (uint64_t)(9 * block)));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_output_f32(exec, 0, 0, y, sizeof y / sizeof *y, &count));
    for (uint64_t i = 0; i < count; i++)
        assert_true(y[i] == 0.0f); /* assert_float_equal lets NaN pass */
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
    rlx_session_destroy(session);
}

static void only_kernels_of_the_cpu_may_be_in_place(void **state) {
    const rlx_cpu_level *level = rlx_cpu_find_level("cpu:avx2");
    char text[512];
    (void)state;
    if (level == NULL) level = rlx_cpu_find_level("cpu:neon");
    if (level == NULL) skip();
    write_net(text, sizeof text, 1, 32, 14, 14, "");
    rlx_plan *plan = plan_of(text, level, 1, true);
    plan->target = "vulkan/generic";
    assert_status(RLX_INVALID_PLAN, rlx_plan_verify(plan));
    assert_error_has("overlaps input 0");
    rlx_plan_destroy(plan);
}

static void a_plan_that_no_kernel_can_run_in_place_is_refused(void **state) {
    (void)state;
    for (uint32_t i = 0; i < LEVELS; i++) {
        const rlx_cpu_level *level = rlx_cpu_find_level(level_names[i]);
        rlx_device *device = NULL;
        rlx_program *program = NULL;
        rlx_exec *exec = NULL;
        char text[512];
        if (level == NULL) continue;
        write_net(text, sizeof text, 1, 32, 14, 14, "");
        rlx_plan *plan = plan_of(text, level, 1, true);
        depthwise_of(plan)->workspace_bytes = 4; /* too few for rows that are kept */
        assert_ok(rlx_device_open("cpu:scalar", NULL, &device));
        assert_ok(rlx_program_create(device, plan, NULL, &program));
        assert_status(RLX_MISMATCH, rlx_exec_create(program, NULL, &exec));
        assert_error_has("'conv_scalar' cannot write over its input");
        rlx_program_release(program);
        rlx_device_release(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree_in_place_and_apart),
        cmocka_unit_test(threads_get_equal_shares),
        cmocka_unit_test(inputs_that_others_read_stay),
        cmocka_unit_test(large_numbers_stay_with_their_neighbours),
        cmocka_unit_test(only_kernels_of_the_cpu_may_be_in_place),
        cmocka_unit_test(a_plan_that_no_kernel_can_run_in_place_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
