/* SPDX-License-Identifier: Apache-2.0 */
/* The pass that turns 3 x 3 kernels to points, with a target that has blocks of 8 and runs scalar
 * C: which convolutions it takes, what the weights become, and the same results. */
#include "backend/cpu/cpu.h"
#include "compile/compile.h"
#include "support/support.h"

#include <rlx/exec.h>
#include <rlx/program.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHANNELS = 24, SIDE = 19, OUTPUTS = CHANNELS * SIDE * SIDE, TEXT = 1024 };

static rlx_plan *plan_of(const char *text, const char *left_out) {
    rlx_graph *graph = NULL;
    rlx_plan *plan = NULL;
    rlx_compile_options options = {.size = sizeof options};
    rlx_target target = rlx_cpu_target(rlx_cpu_find_level("cpu:scalar"), 2);
    target.channel_block = 8;
    for (uint32_t i = 0; left_out != NULL && i < rlx_pass_count(); i++) {
        if (strcmp(rlx_pass_name(i), left_out) == 0) options.disabled_passes |= (uint64_t)1 << i;
    }
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_ok(rlx_compile(graph, &target, &options, NULL, &plan));
    rlx_graph_destroy(graph);
    assert_ok(rlx_plan_verify(plan));
    return plan;
}

/* Outputs of a tile of the last conv, per axis; 0: taps. */
static int64_t edge_of(const char *text) {
    rlx_plan *plan = plan_of(text, NULL);
    int64_t edge = -1;
    for (uint32_t i = plan->prepare_count; i < plan->steps.count; i++) {
        const rlx_plan_step *step = &plan->steps.items[i];
        if (step->op == RLX_OP_CONV) edge = ((const rlx_conv_attrs *)step->attrs)->winograd;
    }
    rlx_plan_destroy(plan);
    return edge;
}

/* How many convs are done on points. */
static uint32_t count_turned(const rlx_plan *plan) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->steps.count; i++) {
        const rlx_plan_step *step = &plan->steps.items[i];
        if (step->op == RLX_OP_CONV) count += ((const rlx_conv_attrs *)step->attrs)->winograd > 0;
    }
    return count;
}

/* A conv of `in` to `out` channels on a square image. */
static int64_t edge_of_conv(int in, int out, int side, const char *attrs) {
    char text[TEXT];
    (void)snprintf(text, sizeof text,
                   "rlx 1\ninput x : f32[1, %d, %d, %d]\nparam w : f32[%d, %d, 3, 3] = seeded(1, "
                   "0.1)\ny = conv(x, w) %s\noutput y\n",
                   in, side, side, out, in, attrs);
    return edge_of(text);
}

static void large_images_get_tiles_and_large_weights_do_not(void **state) {
    const char same[] = "pads=[1, 1, 1, 1]";
    (void)state;
    assert_int_equal(edge_of_conv(64, 64, 56, same), 4);
    assert_int_equal(edge_of_conv(128, 128, 28, same), 4);
    assert_int_equal(edge_of_conv(256, 256, 14, same), 2);
    assert_int_equal(edge_of_conv(512, 512, 7, same), 0);
}

static void strides_uneven_taps_and_groups_keep_their_taps(void **state) {
    (void)state;
    assert_int_equal(edge_of_conv(64, 64, 56, "pads=[1, 1, 1, 1] strides=[2, 2]"), 0);
    assert_int_equal(edge_of_conv(64, 64, 56, "pads=[2, 1, 2, 1] dilations=[2, 1]"), 0);
    assert_int_equal(edge_of("rlx 1\ninput x : f32[1, 64, 56, 56]\n"
                             "param w : f32[64, 32, 3, 3] = seeded(1, 0.1)\n"
                             "y = conv(x, w) groups=2\noutput y\n"),
                     0);
}

/* Both would be held. */
static void weights_that_others_read_keep_their_taps(void **state) {
    (void)state;
    assert_int_equal(edge_of("rlx 1\ninput x : f32[1, 64, 56, 56]\n"
                             "param w : f32[64, 64, 3, 3] = seeded(1, 0.1)\n"
                             "y = conv(x, w) pads=[1, 1, 1, 1] strides=[2, 2]\n"
                             "z = conv(x, w) pads=[1, 1, 1, 1]\noutput y\noutput z\n"),
                     0);
    assert_int_equal(edge_of("rlx 1\ninput x : f32[1, 64, 56, 56]\n"
                             "param w : f32[64, 64, 3, 3] = seeded(1, 0.1)\n"
                             "z = conv(x, w) pads=[1, 1, 1, 1]\noutput z\noutput w\n"),
                     0);
}

static void run(rlx_plan *plan, float *out) {
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    static float x[OUTPUTS];
    uint64_t got;
    for (int i = 0; i < OUTPUTS; i++)
        x[i] = (float)(i % 23) * 0.1f - 1;
    assert_ok(rlx_device_open("cpu:scalar", NULL, &device));
    assert_ok(rlx_program_create(device, plan, NULL, &program)); /* takes the plan over */
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(rlx_exec_set_input_f32(exec, 0, 0, x, OUTPUTS));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_output_f32(exec, 0, 0, out, OUTPUTS, &got));
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
}

static void results_are_those_of_taps(void **state) {
    static const char text[] = "rlx 1\ninput x : f32[1, 24, 19, 19]\n"
                               "param w : f32[24, 24, 3, 3] = seeded(1, 0.1)\n"
                               "param b : f32[24] = seeded(2, 0.1)\n"
                               "y = conv(x, w, b) pads=[1, 1, 1, 1] activation=relu\noutput y\n";
    static float taps[OUTPUTS], points[OUTPUTS];
    (void)state;
    assert_true(edge_of(text) > 0);
    run(plan_of(text, "winograd"), taps);
    run(plan_of(text, NULL), points);
    for (int i = 0; i < OUTPUTS; i++)
        assert_true(fabsf(taps[i] - points[i]) <= 1e-5f * (1 + fabsf(taps[i])));
}

/* As the heads of a detector do: one kernel, whose points are held once. What one conv alone would
 * not get, many may. */
static void convs_share_the_points_of_a_kernel(void **state) {
    static const char text[] = "rlx 1\ninput x : f32[1, 24, 19, 19]\n"
                               "param w : f32[24, 24, 3, 3] = seeded(1, 0.1)\n"
                               "y = conv(x, w) pads=[1, 1, 1, 1]\n"
                               "z = conv(y, w) pads=[1, 1, 1, 1] activation=relu\n"
                               "v = conv(z, w) pads=[1, 1, 1, 1]\noutput v\n";
    static float taps[OUTPUTS], points[OUTPUTS];
    (void)state;
    rlx_plan *plan = plan_of(text, NULL);
    uint32_t products = 0;
    for (uint32_t i = 0; i < plan->steps.count; i++)
        products += plan->steps.items[i].op == RLX_OP_MATMUL;
    assert_int_equal(count_turned(plan), 3);
    assert_int_equal(products, 2); /* to points, and whether they are finite */
    run(plan, points);
    run(plan_of(text, "winograd"), taps);
    for (int i = 0; i < OUTPUTS; i++)
        assert_true(fabsf(taps[i] - points[i]) <= 1e-4f * (1 + fabsf(taps[i])));
}

/* Taps that are apart: phases of the image, woven again; the residual goes with them. */
static void dilated_results_are_those_of_taps(void **state) {
    static const char text[] =
        "rlx 1\ninput x : f32[1, 6, 38, 38]\n"
        "param u : f32[24, 6, 1, 1] = seeded(3, 0.3)\n"
        "param w : f32[24, 24, 3, 3] = seeded(1, 0.1)\n"
        "param b : f32[24] = seeded(2, 0.1)\n"
        "a = conv(x, u)\n"
        "y = conv(a, w, b, a) pads=[2, 4, 2, 0] dilations=[2, 2] activation=relu\n"
        "z = slice(y) axes=[1] starts=[3] ends=[9]\noutput z\n";
    static float taps[OUTPUTS], points[OUTPUTS];
    (void)state;
    assert_int_equal(edge_of_conv(64, 64, 56, "pads=[2, 2, 2, 2] dilations=[2, 2]"), 4);
    assert_true(edge_of(text) > 0);
    run(plan_of(text, "winograd"), taps);
    run(plan_of(text, NULL), points);
    for (int i = 0; i < OUTPUTS; i++)
        assert_true(fabsf(taps[i] - points[i]) <= 1e-5f * (1 + fabsf(taps[i])));
}

/* Phases that are not equal, padding that is not whole: the image grows, and its output is cut. */
static void uneven_phases_are_padded(void **state) {
    static const char *const attrs[] = {
        "pads=[2, 2, 2, 2] dilations=[2, 2]", "pads=[3, 1, 1, 3] dilations=[2, 2]",
        "pads=[3, 0, 3, 6] dilations=[3, 3]", "auto_pad=same_lower dilations=[4, 4]"};
    (void)state;
    assert_int_equal(edge_of_conv(64, 64, 55, attrs[0]), 4);
    assert_int_equal(edge_of_conv(64, 64, 55, "dilations=[2, 2]"), 4);
    for (uint32_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
        static float taps[OUTPUTS], points[OUTPUTS];
        char text[TEXT];
        (void)snprintf(text, sizeof text,
                       "rlx 1\ninput x : f32[24, 19, 19]\nparam w : f32[128, 128, 3, 3] = "
                       "seeded(1, 0.1)\nparam u : f32[128, 24, 1, 1] = seeded(3, 0.3)\n"
                       "param v : f32[24, 128, 1, 1] = seeded(4, 0.3)\n"
                       "p = reshape(x) shape=[1, 24, 19, 19]\na = conv(p, u)\n"
                       "y = conv(a, w, _, a) %s activation=relu\nz = conv(y, v)\noutput z\n",
                       attrs[i]);
        rlx_plan *plan = plan_of(text, NULL);
        assert_int_equal(count_turned(plan), 1);
        run(plan, points);
        run(plan_of(text, "winograd"), taps);
        for (int k = 0; k < OUTPUTS; k++)
            assert_true(fabsf(taps[k] - points[k]) <= 1e-4f * (1 + fabsf(taps[k])));
    }
}

/* In three outputs a tap of one kernel is divided by 0. */
static void infinite_weights_are_those_of_taps(void **state) {
    static const char text[] =
        "rlx 1\ninput x : f32[1, 24, 19, 19]\n"
        "param w : f32[24, 24, 3, 3] = seeded(1, 0.1)\n"
        "const one : f32[1, 24, 1, 1] = [1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
        "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        "const tap : f32[3, 3] = [1, 1, 1, 1, 0, 1, 1, 1, 1]\n"
        "const some : f32[24, 1, 1, 1] = [1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, "
        "1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1]\n"
        "o = max(one, tap)\nd = max(o, some)\nv = div(w, d)\n"
        "y = conv(x, v) pads=[1, 1, 1, 1]\noutput y\n";
    static float taps[OUTPUTS], points[OUTPUTS];
    int infinite = 0;
    (void)state;
    assert_true(edge_of(text) > 0);
    run(plan_of(text, "winograd"), taps);
    run(plan_of(text, NULL), points);
    for (int i = 0; i < OUTPUTS; i++) {
        infinite += isinf(taps[i]);
        if (isfinite(taps[i])) {
            assert_true(fabsf(taps[i] - points[i]) <= 1e-5f * (1 + fabsf(taps[i])));
        } else {
            assert_true(isnan(taps[i]) ? isnan(points[i]) : taps[i] == points[i]);
        }
    }
    assert_true(infinite > 0);
}

/* A graph that says so itself is checked like any other. */
static void points_that_fit_no_tile_are_refused(void **state) {
    static const char *const attrs[] = {"winograd=3", "winograd=4", "winograd=2 strides=[2, 2]",
                                        "winograd=-2", "winograd=2 groups=2"};
    (void)state;
    for (uint32_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
        char text[TEXT];
        rlx_graph *graph = NULL;
        (void)snprintf(text, sizeof text,
                       "rlx 1\ninput x : f32[1, 2, 9, 9, 8]\nparam w : f32[16, 16, 4, 4] = "
                       "seeded(1, 0.1)\ny = conv(x, w) channel_block=8 %s\noutput y\n",
                       attrs[i]);
        assert_status(RLX_INVALID_GRAPH, rlx_graph_parse(NULL, text, strlen(text), &graph));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_images_get_tiles_and_large_weights_do_not),
        cmocka_unit_test(strides_uneven_taps_and_groups_keep_their_taps),
        cmocka_unit_test(weights_that_others_read_keep_their_taps),
        cmocka_unit_test(results_are_those_of_taps),
        cmocka_unit_test(convs_share_the_points_of_a_kernel),
        cmocka_unit_test(dilated_results_are_those_of_taps),
        cmocka_unit_test(uneven_phases_are_padded),
        cmocka_unit_test(infinite_weights_are_those_of_taps),
        cmocka_unit_test(points_that_fit_no_tile_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
