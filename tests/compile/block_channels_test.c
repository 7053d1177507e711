/* SPDX-License-Identifier: Apache-2.0 */
/* The pass that puts channels into blocks, with a target that has blocks of 8 or 16 and runs scalar
 * C: what is turned, what stays plain, and the same results. */
#include "backend/cpu/cpu.h"
#include "compile/compile.h"
#include "support/support.h"

#include <rlx/exec.h>
#include <rlx/program.h>

#include <math.h>
#include <string.h>

enum { OUTPUTS = 3, LARGEST = 34 * 81 };

/* A first layer, a pool, pointwise, depthwise and dense convolutions, a residual, a chain with a
 * factor per channel, a concat, channels that fill no block, and a global mean. */
static const char small_net[] =
    "rlx 1\n"
    "input x : f32[1, 3, 33, 35]\n"
    "param w1 : f32[64, 3, 7, 7] = seeded(1, 0.1)\n"
    "param b1 : f32[64] = seeded(2, 0.1)\n"
    "param w2 : f32[32, 64, 1, 1] = seeded(3, 0.1)\n"
    "param w3 : f32[32, 1, 3, 3] = seeded(4, 0.3)\n"
    "param w4 : f32[64, 32, 3, 3] = seeded(5, 0.05)\n"
    "param w5 : f32[24, 64, 3, 3] = seeded(6, 0.05)\n"
    "param s : f32[64, 1, 1] = seeded(7, 1)\n"
    "param w6 : f32[12, 96, 1, 1] = seeded(8, 0.1)\n"
    "c1 = conv(x, w1, b1) strides=[2, 2] pads=[3, 3, 3, 3] activation=relu\n"
    "p1 = max_pool(c1) kernel=[3, 3] strides=[2, 2] pads=[1, 1, 1, 1]\n"
    "c2 = conv(p1, w2) activation=relu\n"
    "c3 = conv(c2, w3) pads=[1, 1, 1, 1] groups=32\n"
    "c4 = conv(c3, w4) pads=[1, 1, 1, 1]\n"
    "c5 = add(c4, p1)\n"
    "m = mul(c5, s)\n"
    "si = silu(m)\n"
    "cc = concat(si, c3) axis=1\n"
    "c7 = conv(cc, w6) activation=sigmoid\n"
    "c8 = conv(si, w5) pads=[1, 1, 1, 1]\n"
    "g = reduce_mean(si) axes=[2, 3]\n"
    "output c7\noutput c8\noutput g\n";

static rlx_plan *plan_of(const char *text, uint32_t block, const char *left_out) {
    rlx_graph *graph = NULL;
    rlx_plan *plan = NULL;
    rlx_compile_options options = {.size = sizeof options};
    rlx_target target = rlx_cpu_target(rlx_cpu_find_level("cpu:scalar"), 2);
    target.channel_block = block;
    for (uint32_t i = 0; left_out != NULL && i < rlx_pass_count(); i++) {
        if (strcmp(rlx_pass_name(i), left_out) == 0) options.disabled_passes |= 1u << i;
    }
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_ok(rlx_compile(graph, &target, &options, NULL, &plan));
    rlx_graph_destroy(graph);
    assert_ok(rlx_plan_verify(plan));
    return plan;
}

static void run(rlx_plan *plan, float out[OUTPUTS][LARGEST]) {
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    static float x[3 * 33 * 35];
    uint64_t got;
    for (int i = 0; i < 3 * 33 * 35; i++)
        x[i] = (float)(i % 23) * 0.1f - 1;
    assert_ok(rlx_device_open("cpu:scalar", NULL, &device));
    assert_ok(rlx_program_create(device, plan, NULL, &program)); /* takes the plan over */
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(rlx_exec_set_input_f32(exec, 0, 0, x, 3 * 33 * 35));
    assert_ok(rlx_exec_run(exec, 0));
    for (uint32_t i = 0; i < OUTPUTS; i++)
        assert_ok(rlx_exec_read_output_f32(exec, 0, i, out[i], LARGEST, &got));
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
}

static uint32_t count_blocked(const rlx_plan *plan, uint32_t *out_convs) {
    uint32_t blocked = 0;
    *out_convs = 0;
    for (uint32_t i = plan->prepare_count; i < plan->steps.count; i++) {
        const rlx_plan_step *step = &plan->steps.items[i];
        if (step->op != RLX_OP_CONV) continue;
        ++*out_convs;
        blocked += ((const rlx_conv_attrs *)step->attrs)->channel_block != 0;
    }
    return blocked;
}

static void results_are_those_of_plain_channels(void **state) {
    static float plain[OUTPUTS][LARGEST], blocked[OUTPUTS][LARGEST];
    static const uint32_t counts[OUTPUTS] = {12 * 81, 24 * 81, 64};
    (void)state;
    run(plan_of(small_net, 8, "block_channels"), plain);
    for (uint32_t block = 8; block <= 16; block += 8) {
        run(plan_of(small_net, block, NULL), blocked);
        for (uint32_t i = 0; i < OUTPUTS; i++) {
            for (uint32_t k = 0; k < counts[i]; k++) {
                assert_true(fabsf(plain[i][k] - blocked[i][k]) <= 1e-4f * (1 + fabsf(plain[i][k])));
            }
        }
    }
}

static void every_conv_between_convs_gets_blocks(void **state) {
    uint32_t convs;
    (void)state;
    rlx_plan *plan = plan_of(small_net, 8, NULL);
    assert_int_equal(count_blocked(plan, &convs), 6);
    assert_int_equal(convs, 6);
    rlx_plan_destroy(plan);
}

static void without_packed_weights_channels_stay_plain(void **state) {
    uint32_t convs;
    (void)state;
    rlx_plan *plan = plan_of(small_net, 8, "pack_weights");
    assert_int_equal(count_blocked(plan, &convs), 0);
    rlx_plan_destroy(plan);
}

static void a_target_without_such_kernels_keeps_plain_channels(void **state) {
    uint32_t convs;
    (void)state;
    rlx_plan *plan = plan_of(small_net, 0, NULL);
    assert_int_equal(count_blocked(plan, &convs), 0);
    rlx_plan_destroy(plan);
}

/* Groups of 4 are taken as they are, two of 17 are merged, and those of 5 and 6 stay in planes. */
static const char narrow_groups[] =
    "rlx 1\n"
    "input x : f32[1, 3, 33, 35]\n"
    "param w1 : f32[32, 3, 3, 3] = seeded(1, 0.1)\n"
    "param w2 : f32[32, 4, 3, 3] = seeded(2, 0.2)\n"
    "param b2 : f32[32] = seeded(3, 0.2)\n"
    "param w3 : f32[34, 32, 1, 1] = seeded(4, 0.1)\n"
    "param w4 : f32[30, 17, 3, 3] = seeded(5, 0.1)\n"
    "param w5 : f32[36, 5, 3, 3] = seeded(6, 0.1)\n"
    "c1 = conv(x, w1) strides=[4, 4]\n"
    "c2 = conv(c1, w2, b2, c1) pads=[1, 1, 1, 1] groups=8 activation=relu\n"
    "c3 = conv(c2, w3)\n"
    "c4 = conv(c3, w4) groups=2 pads=[1, 1, 1, 1]\n"
    "c5 = conv(c4, w5) groups=6 dilations=[2, 2]\n"
    "g = reduce_mean(c2) axes=[2, 3]\n"
    "output c3\noutput c5\noutput g\n";

static void two_groups_are_merged_and_odd_ones_stay_plain(void **state) {
    static float apart[OUTPUTS][LARGEST], merged[OUTPUTS][LARGEST];
    uint32_t convs;
    (void)state;
    for (uint32_t block = 8; block <= 16; block += 8) {
        run(plan_of(narrow_groups, block, "split_groups"), apart);
        rlx_plan *plan = plan_of(narrow_groups, block, NULL);
        assert_int_equal(count_blocked(plan, &convs), 4);
        assert_int_equal(convs, 5);
        run(plan, merged);
        for (int i = 0; i < OUTPUTS; i++) {
            for (int k = 0; k < LARGEST; k++)
                assert_true(fabsf(apart[i][k] - merged[i][k]) <= 1e-4f * (1 + fabsf(apart[i][k])));
        }
    }
}

/* A branch and a loop's body have convs of their own; x and c come from outside as they are. The
 * branch's first weights are computed from others: that is done once. */
static const char bodies[] = "rlx 1\n"
                             "input x : f32[1, 3, 33, 35]\n"
                             "param w1 : f32[16, 3, 3, 3] = seeded(1, 0.1)\n"
                             "param w2 : f32[16, 16, 3, 3] = seeded(2, 0.1)\n"
                             "param s : f32[16, 1, 1, 1] = seeded(3, 1)\n"
                             "const none : f32[] = 0\n"
                             "const trips : i64[] = 2\n"
                             "const yes : bool[] = true\n"
                             "c = conv(x, w1) strides=[4, 4]\n"
                             "m = reduce_max(x) axes=[0, 1, 2, 3] keep_dims=false\n"
                             "go = less(none, m)\n"
                             "y = if(go) {\n"
                             "    w = mul(w1, s)\n"
                             "    a = conv(x, w) strides=[4, 4] activation=relu\n"
                             "    b = conv(a, w2) pads=[1, 1, 1, 1]\n"
                             "    yield b\n"
                             "} else {\n"
                             "    d = conv(c, w2) pads=[1, 1, 1, 1]\n"
                             "    yield d\n"
                             "}\n"
                             "z = loop(trips, yes, y) bound=2 (i, v) {\n"
                             "    e = conv(v, w2) pads=[1, 1, 1, 1]\n"
                             "    f = add(e, c)\n"
                             "    yield yes, f\n"
                             "}\n"
                             "g = reduce_mean(z) axes=[2, 3]\n"
                             "output y\noutput z\noutput g\n";

static void bodies_have_blocks_of_their_own(void **state) {
    static float plain[OUTPUTS][LARGEST], blocked[OUTPUTS][LARGEST];
    uint32_t convs;
    (void)state;
    run(plan_of(bodies, 8, "block_channels"), plain);
    for (uint32_t block = 8; block <= 16; block += 8) {
        rlx_plan *plan = plan_of(bodies, block, NULL);
        assert_int_equal(count_blocked(plan, &convs), 5);
        assert_int_equal(convs, 5);
        assert_true(plan->prepare_count >= 4); /* mul, and a pack for each of the weights */
        run(plan, blocked);
        for (int i = 0; i < OUTPUTS; i++) {
            for (int k = 0; k < LARGEST; k++)
                assert_true(fabsf(plain[i][k] - blocked[i][k]) <= 1e-4f * (1 + fabsf(plain[i][k])));
        }
    }
}

static void convs_of_16_bits_are_computed_in_32(void **state) {
    static const char text[] = "rlx 1\ninput x : f32[1, 3, 33, 35]\n"
                               "param w : f16[16, 3, 3, 3] = seeded(1, 0.3)\n"
                               "param b : f16[16] = seeded(2, 0.3)\n"
                               "param v : bf16[8, 16, 1, 1] = seeded(3, 0.3)\n"
                               "h = cast(x) to=f16\n"
                               "c = conv(h, w, b) strides=[4, 4] activation=relu\n"
                               "d = cast(c) to=bf16\n"
                               "e = conv(d, v)\n"
                               "y = cast(c) to=f32\nz = cast(e) to=f32\n"
                               "g = reduce_mean(z) axes=[2, 3]\n"
                               "output y\noutput z\noutput g\n";
    static float narrow[OUTPUTS][LARGEST], wide[OUTPUTS][LARGEST];
    uint32_t convs;
    (void)state;
    run(plan_of(text, 8, "widen_conv"), narrow);
    rlx_plan *plan = plan_of(text, 8, NULL);
    assert_int_equal(count_blocked(plan, &convs), 2);
    run(plan, wide);
    for (int i = 0; i < OUTPUTS; i++) { /* sums in another order: a last place of 8 bits */
        for (int k = 0; k < LARGEST; k++)
            assert_true(fabsf(narrow[i][k] - wide[i][k]) <= 0.008f * (1 + fabsf(wide[i][k])));
    }
}

/* Between integer convolutions, as models that were quantised node by node have them. */
static void largest_bytes_stay_in_blocks(void **state) {
    static const char text[] =
        "rlx 1\ninput x : f32[1, 3, 33, 35]\n"
        "param w : i16[16, 3, 3, 3] = seeded(1, 90)\nparam v : i16[8, 16, 1, 1] = seeded(2, 90)\n"
        "param s : f32[16] = seeded(3, 0.02)\nparam r : f32[8] = seeded(4, 0.02)\n"
        "param k : f32[1] = seeded(5, 60)\n"
        "a = abs(x)\nk2 = abs(k)\nm = mul(a, k2)\nq = cast(m) to=u8\n"
        "c = conv_quantised(q, w, s) strides=[3, 3] least=0.0 most=255.0 to=u8\n"
        "p = max_pool(c) kernel=[3, 3] strides=[2, 2] pads=[1, 1, 1, 1]\n"
        "d = conv_quantised(p, v, r) least=-100.0 most=100.0 to=f32\n"
        "y = cast(c) to=f32\nz = cast(p) to=f32\noutput y\noutput z\noutput d\n";
    static float plain[OUTPUTS][LARGEST], blocked[OUTPUTS][LARGEST];
    uint32_t pools = 0;
    (void)state;
    run(plan_of(text, 8, "block_channels"), plain);
    rlx_plan *plan = plan_of(text, 8, NULL);
    for (uint32_t i = plan->prepare_count; i < plan->steps.count; i++) {
        const rlx_plan_step *step = &plan->steps.items[i];
        if (step->op != RLX_OP_MAX_POOL) continue;
        pools += ((const rlx_pool_attrs *)step->attrs)->is_blocked;
    }
    assert_int_equal(pools, 1);
    run(plan, blocked);
    for (int i = 0; i < OUTPUTS; i++)
        assert_memory_equal(plain[i], blocked[i], sizeof plain[i]);
}

/* One product per output: conversions would cost more than the conv. */
static void a_conv_that_hardly_computes_stays_plain(void **state) {
    static const char text[] = "rlx 1\ninput x : f32[1, 16, 64, 64]\n"
                               "param w : f32[16, 1, 1, 1] = seeded(1, 0.1)\n"
                               "y = conv(x, w) groups=16\noutput y\n";
    uint32_t convs;
    (void)state;
    rlx_target target = rlx_cpu_target(rlx_cpu_find_level("cpu:scalar"), 1);
    rlx_graph *graph = NULL;
    rlx_plan *plan = NULL;
    target.channel_block = 8;
    target.flops_per_second = 40000000000u;
    target.bytes_per_second = 8000000000u;
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_ok(rlx_compile(graph, &target, NULL, NULL, &plan));
    assert_int_equal(count_blocked(plan, &convs), 0);
    assert_int_equal(convs, 1);
    rlx_plan_destroy(plan);
    rlx_graph_destroy(graph);
}

/* Plain and blocked results of a text agree, and `expected` of its convs are in blocks of 8. */
static void check_text(const char *text, uint32_t expected) {
    static float plain[OUTPUTS][LARGEST], blocked[OUTPUTS][LARGEST];
    uint32_t convs;
    memset(plain, 0, sizeof plain), memset(blocked, 0, sizeof blocked);
    run(plan_of(text, 8, "block_channels"), plain);
    rlx_plan *plan = plan_of(text, 8, NULL);
    assert_int_equal(count_blocked(plan, &convs), expected);
    run(plan, blocked);
    for (int i = 0; i < OUTPUTS; i++) {
        for (int k = 0; k < LARGEST; k++)
            assert_true(fabsf(plain[i][k] - blocked[i][k]) <= 1e-3f * (1 + fabsf(plain[i][k])));
    }
}

static void heads_of_few_channels_read_blocks_that_are_there(void **state) {
    (void)state;
    check_text("rlx 1\ninput x : f32[1, 3, 33, 35]\n"
               "param w : f32[20, 3, 3, 3] = seeded(1, 0.3)\n"
               "param v : f32[2, 20, 3, 3] = seeded(2, 0.3)\n"
               "param b : f32[2] = seeded(3, 0.3)\n"
               "c = conv(x, w) strides=[4, 4] activation=relu\n"
               "d = conv(c, v, b) pads=[1, 1, 1, 1] activation=sigmoid\n"
               "g = reduce_mean(d) axes=[2, 3]\noutput c\noutput d\noutput g\n",
               2);
}

/* Groups of 17 channels stay on planes; the depthwise conv behind their shuffle is worth two
 * conversions on so few pixels. */
static void small_depthwise_convs_between_planes_get_blocks(void **state) {
    (void)state;
    check_text("rlx 1\ninput x : f32[1, 3, 33, 35]\n"
               "param w : f32[34, 3, 3, 3] = seeded(1, 0.3)\n"
               "param v : f32[34, 17, 1, 1] = seeded(2, 0.3)\n"
               "param k : f32[34, 1, 3, 3] = seeded(3, 0.3)\n"
               "c = conv(x, w) strides=[4, 4] activation=relu\n"
               "d = conv(c, v) groups=2 activation=relu\n"
               "e = reshape(d) shape=[1, 2, 17, 8, 9]\nf = transpose(e) perm=[0, 2, 1, 3, 4]\n"
               "h = reshape(f) shape=[1, 34, 8, 9]\ni = conv(h, k) pads=[1, 1, 1, 1] groups=34\n"
               "j = conv(i, v, _, c) groups=2\n"
               "g = reduce_mean(j) axes=[2, 3]\ny = slice(i) axes=[1] starts=[0] ends=[24]\n"
               "z = slice(j) axes=[1] starts=[0] ends=[24]\noutput y\noutput z\noutput g\n",
               2);
}

static void pools_of_16_bits_stay_in_blocks(void **state) {
    (void)state;
    check_text("rlx 1\ninput x : f32[1, 3, 33, 35]\n"
               "param w : f32[16, 3, 3, 3] = seeded(1, 0.3)\n"
               "param v : f32[24, 16, 3, 3] = seeded(2, 0.1)\n"
               "c = conv(x, w) strides=[2, 2] activation=relu\nh = cast(c) to=f16\n"
               "p = max_pool(h) kernel=[3, 3] strides=[2, 2] pads=[1, 1, 1, 1]\n"
               "q = average_pool(p) kernel=[3, 3] pads=[1, 1, 1, 1]\n"
               "f = cast(q) to=f32\nd = conv(f, v) pads=[1, 1, 1, 1]\n"
               "g = reduce_mean(d) axes=[2, 3]\nr = cast(p) to=f32\n"
               "output d\noutput g\noutput r\n",
               2);
}

/* A repeated image, a slice of blocks, one of pixels and a pad: no step but convs, the moves
 * themselves and conversions at the ends. */
static void moves_along_pixels_stay_in_blocks(void **state) {
    static const char text[] =
        "rlx 1\ninput x : f32[1, 3, 33, 35]\n"
        "param w : f32[24, 3, 3, 3] = seeded(1, 0.3)\n"
        "param v : f32[8, 24, 3, 3] = seeded(2, 0.1)\n"
        "param u : f32[8, 16, 3, 3] = seeded(3, 0.1)\n"
        "param t : f32[8, 24, 3, 3] = seeded(4, 0.1)\n"
        "c = conv(x, w) strides=[8, 8] activation=relu\n"
        "r = reshape(c) shape=[1, 24, 4, 1, 5, 1]\ne = expand(r) shape=[1, 24, 4, 2, 5, 2]\n"
        "n = reshape(e) shape=[1, 24, 8, 10]\na = conv(n, v) pads=[1, 1, 1, 1]\n"
        "s = slice(c) axes=[-3, 2] starts=[8, 1] ends=[24, 4]\nb = conv(s, u) pads=[1, 1, 1, 1]\n"
        "p = pad(c) pads=[0, 0, 1, 2, 0, 0, 0, 1] mode=reflect\nd = conv(p, t)\n"
        "output a\noutput b\noutput d\n";
    uint32_t transposed = 0;
    (void)state;
    check_text(text, 4);
    rlx_plan *plan = plan_of(text, 8, NULL);
    for (uint32_t i = plan->prepare_count; i < plan->steps.count; i++)
        transposed += plan->steps.items[i].op == RLX_OP_COPY;
    assert_int_equal(transposed, 0); /* nothing goes into blocks again */
    rlx_plan_destroy(plan);
}

#define REST "p = relu(z)\nq = tanh(z)\noutput z\noutput p\noutput q\n"
/* What a strided conv_transpose leaves is woven in blocks, in one axis and in two, and so is depth
 * to space; outputs that do not fill blocks leave them. Small images have a conv for each phase. */
static void phases_are_woven_in_blocks(void **state) {
    static const char *const texts[] = {
        "rlx 1\ninput x : f32[1, 3, 33, 35]\nparam w : f32[16, 3, 3, 3] = seeded(1, 0.3)\n"
        "param t : f32[16, 24, 4, 3] = seeded(2, 0.1)\nparam b : f32[24] = seeded(3, 0.5)\n"
        "param u : f32[8, 24, 3, 3] = seeded(4, 0.1)\nc = conv(x, w) strides=[5, 5]\n"
        "y = conv_transpose(c, t, b) strides=[2, 3] pads=[1, 0, 1, 1]\nr = relu(y)\n"
        "z = conv(r, u)\n" REST,
        "rlx 1\ninput x : f32[1, 3, 1155]\nparam w : f32[16, 3, 3] = seeded(1, 0.3)\n"
        "param t : f32[16, 8, 4] = seeded(2, 0.1)\nparam u : f32[8, 8, 3] = seeded(4, 0.1)\n"
        "c = conv(x, w) strides=[16]\ny = conv_transpose(c, t) strides=[2]\nz = conv(y, u)\n" REST,
        "rlx 1\ninput x : f32[1, 3, 33, 35]\nparam w : f32[32, 3, 3, 3] = seeded(1, 0.3)\n"
        "param u : f32[8, 8, 3, 3] = seeded(4, 0.1)\nc = conv(x, w) strides=[5, 5]\n"
        "a = reshape(c) shape=[1, 2, 2, 8, 7, 7]\nt = transpose(a) perm=[0, 3, 4, 1, 5, 2]\n"
        "y = reshape(t) shape=[1, 8, 14, 14]\nz = conv(y, u)\n" REST,
        "rlx 1\ninput x : f32[1, 3, 33, 35]\nparam w : f32[16, 3, 3, 3] = seeded(1, 0.3)\n"
        "param t : f32[16, 6, 4, 4] = seeded(2, 0.1)\nparam u : f32[8, 6, 3, 3] = seeded(4, 0.1)\n"
        "c = conv(x, w) strides=[5, 5]\ny = conv_transpose(c, t) strides=[2, 2]\n"
        "z = conv(y, u)\n" REST,
        "rlx 1\ninput x : f32[1, 3, 33, 35]\nparam w : f32[16, 3, 3, 3] = seeded(1, 0.3)\n"
        "param t : f32[16, 16, 4, 4] = seeded(2, 0.1)\nparam b : f32[16] = seeded(3, 0.5)\n"
        "param u : f32[8, 16, 3, 3] = seeded(4, 0.1)\nc = conv(x, w) strides=[5, 5]\n"
        "y = conv_transpose(c, t, b) strides=[2, 2] pads=[1, 1, 1, 1]\nr = relu(y)\n"
        "z = conv(r, u)\n" REST,
    };
    static const uint32_t convs[] = {3, 3, 2, 3, 6};
    (void)state;
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint32_t copies = 0;
        check_text(texts[i], convs[i]);
        rlx_plan *plan = plan_of(texts[i], 8, NULL);
        for (uint32_t k = plan->prepare_count; k < plan->steps.count; k++)
            copies += plan->steps.items[k].op == RLX_OP_COPY;
        if (i != 3) assert_int_equal(copies, 0); /* nothing goes into blocks again */
        rlx_plan_destroy(plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_are_woven_in_blocks),
        cmocka_unit_test(results_are_those_of_plain_channels),
        cmocka_unit_test(every_conv_between_convs_gets_blocks),
        cmocka_unit_test(without_packed_weights_channels_stay_plain),
        cmocka_unit_test(a_target_without_such_kernels_keeps_plain_channels),
        cmocka_unit_test(two_groups_are_merged_and_odd_ones_stay_plain),
        cmocka_unit_test(bodies_have_blocks_of_their_own),
        cmocka_unit_test(convs_of_16_bits_are_computed_in_32),
        cmocka_unit_test(largest_bytes_stay_in_blocks),
        cmocka_unit_test(a_conv_that_hardly_computes_stays_plain),
        cmocka_unit_test(heads_of_few_channels_read_blocks_that_are_there),
        cmocka_unit_test(small_depthwise_convs_between_planes_get_blocks),
        cmocka_unit_test(pools_of_16_bits_stay_in_blocks),
        cmocka_unit_test(moves_along_pixels_stay_in_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
