/* SPDX-License-Identifier: Apache-2.0 */
/* The pass that packs weights, with a target that wants every b of a matmul and the kernels of
 * every conv in panels: packed once, not held twice, left alone where somebody wants rows, and the
 * same results on scalar C. */
#include "backend/cpu/cpu.h"
#include "compile/compile.h"
#include "support/support.h"

#include <rlx/exec.h>
#include <rlx/program.h>

#include <stdio.h>
#include <string.h>

static rlx_target inner; /* scalar C */

static rlx_target_choice choose_panels(const rlx_target *target, const rlx_target_query *query) {
    rlx_target_choice choice = inner.choose(&inner, query);
    (void)target;
    if (query->op == RLX_OP_MATMUL && query->in[1].rank >= 2) {
        const rlx_matmul_attrs *attrs = query->attrs;
        choice.in_layouts[1] = attrs->transpose_b ? RLX_LAYOUT_ROWS16 : RLX_LAYOUT_COLUMNS32;
    }
    if (query->op == RLX_OP_CONV) choice.in_layouts[1] = RLX_LAYOUT_TAPS16;
    return choice;
}

static rlx_plan *plan_of(const char *text, bool is_packed) {
    rlx_graph *graph = NULL;
    rlx_plan *plan = NULL;
    rlx_compile_options options = {.size = sizeof options};
    inner = rlx_cpu_target(rlx_cpu_find_level("cpu:scalar"), 2);
    rlx_target target = inner;
    target.choose = choose_panels;
    for (uint32_t i = 0; !is_packed && i < rlx_pass_count(); i++) {
        if (strcmp(rlx_pass_name(i), "pack_weights") == 0) options.disabled_passes |= 1u << i;
    }
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_ok(rlx_compile(graph, &target, &options, NULL, &plan));
    rlx_graph_destroy(graph);
    return plan;
}

static uint32_t count_packs(const rlx_plan *plan, uint32_t *out_prepared) {
    uint32_t count = 0;
    *out_prepared = 0;
    for (uint32_t i = 0; i < plan->steps.count; i++) {
        if (plan->steps.items[i].op != RLX_OP_PACK) continue;
        count++;
        *out_prepared += i < plan->prepare_count;
    }
    return count;
}

static rlx_program *program_of(rlx_plan *plan) {
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    assert_ok(rlx_device_open("cpu:scalar", NULL, &device));
    assert_ok(rlx_program_create(device, plan, NULL, &program));
    rlx_device_release(device);
    return program;
}

static void run(rlx_program *program, float *out, uint64_t count) {
    rlx_exec *exec = NULL;
    float x[64];
    uint64_t got;
    for (int i = 0; i < 64; i++)
        x[i] = (float)(i % 7) - 2;
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(rlx_exec_set_input_f32(exec, 0, 0, x, 40));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_output_f32(exec, 0, 0, out, count, &got));
    assert_int_equal(got, count);
    rlx_exec_destroy(exec);
}

static const char both_ways[] = "rlx 1\n"
                                "input x : f32[2, 20]\n"
                                "param v : f32[20, 30] = seeded(1, 1)\n"
                                "param w : f32[11, 30] = seeded(2, 1)\n"
                                "h = matmul(x, v)\n"
                                "y = matmul(h, w) transpose_b=true\n"
                                "output y\n";

static void weights_are_packed_and_not_held_twice(void **state) {
    uint32_t prepared;
    (void)state;
    rlx_plan *plan = plan_of(both_ways, true);
    assert_int_equal(count_packs(plan, &prepared), 2);
    assert_int_equal(prepared, 2);
    assert_int_equal(plan->segment_bytes[RLX_SEGMENT_WEIGHTS], (20 * 32 + 16 * 30) * 4);
    rlx_plan_destroy(plan);
}

static void packed_and_plain_weights_give_the_same_bits(void **state) {
    float packed[22], plain[22], loaded[22];
    rlx_test_folder folder;
    rlx_device *device = NULL;
    rlx_program *program = program_of(plan_of(both_ways, true));
    (void)state;
    rlx_test_folder_create(&folder);
    run(program, packed, 22);
    const char *path = rlx_test_path(&folder, "packed.rlxp");
    assert_ok(rlx_program_save(program, path));
    rlx_program_release(program);
    program = program_of(plan_of(both_ways, false));
    run(program, plain, 22);
    rlx_program_release(program);
    assert_memory_equal(packed, plain, sizeof packed);
    assert_ok(rlx_device_open("cpu:scalar", NULL, &device));
    assert_ok(rlx_program_load(device, path, NULL, &program));
    run(program, loaded, 22);
    assert_memory_equal(packed, loaded, sizeof packed);
    rlx_program_release(program);
    rlx_device_release(device);
    rlx_test_folder_remove(&folder);
}

/* 8.8 MB cut along its columns, from a file, and 13.2 MB along its rows. */
static const char large[] = "rlx 1\n"
                            "input x : f32[2, 20]\n"
                            "param v : f32[20, 110011] = file(\"%s\", 4)\n"
                            "param w : f32[30, 110011] = seeded(2, 1)\n"
                            "h = matmul(x, v)\n"
                            "y = matmul(h, w) transpose_b=true\n"
                            "output y\n";

static void write_ramp(const char *path, uint32_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (uint32_t i = 0; i < count; i++) {
        float value = (float)(i % 1013) / 512 - 1;
        assert_int_equal(fwrite(&value, sizeof value, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
}

static void large_weights_are_packed_in_slices(void **state) {
    float sliced[60], plain[60];
    char text[1024];
    uint32_t prepared;
    rlx_test_folder folder;
    (void)state;
    rlx_test_folder_create(&folder);
    const char *path = rlx_test_path(&folder, "v.bin");
    write_ramp(path, 20 * 110011 + 1);
    (void)snprintf(text, sizeof text, large, path);
    rlx_plan *plan = plan_of(text, true);
    assert_in_range(count_packs(plan, &prepared), 6, 20);
    assert_in_range(plan->segment_bytes[RLX_SEGMENT_SOURCE], 1 << 20, 8 << 20);
    rlx_program *program = program_of(plan);
    run(program, sliced, 60);
    rlx_program_release(program);
    program = program_of(plan_of(text, false));
    run(program, plain, 60);
    rlx_program_release(program);
    assert_memory_equal(sliced, plain, sizeof sliced);
    rlx_test_folder_remove(&folder);
}

/* Bytes with a scale per row and a zero point, gathered from and multiplied by: 8.8 MB of floats.
 */
static const char bytes[] = "rlx 1\n"
                            "input x : f32[2, 20]\n"
                            "param t : u8[110011, 20] = seeded(1, 1)\n"
                            "param s : f32[110011, 1] = seeded(2, 1)\n"
                            "param z : u8[] = seeded(3, 1)\n"
                            "param v : f32[110011, 4] = seeded(4, 1)\n"
                            "const i : i64[] = [110010]\n"
                            "row = gather(t, i) axis=0\n"
                            "f = cast(t) to=f32\n"
                            "c = cast(z) to=f32\n"
                            "d = sub(f, c)\n"
                            "w = mul(d, s)\n"
                            "h = matmul(x, w) transpose_b=true\n"
                            "o = matmul(h, v)\n"
                            "r = cast(row) to=f32\n"
                            "p = matmul(x, r)\n"
                            "q = unsqueeze(p) axes=[1]\n"
                            "y = add(o, q)\n"
                            "output y\n";

static void what_is_made_of_weights_is_packed_in_slices(void **state) {
    float sliced[8], plain[8];
    uint32_t prepared;
    (void)state;
    rlx_plan *plan = plan_of(bytes, true);
    assert_in_range(count_packs(plan, &prepared), 5, 20);
    assert_in_range(plan->segment_bytes[RLX_SEGMENT_SOURCE], 1 << 20, 8 << 20);
    rlx_program *program = program_of(plan);
    run(program, sliced, 8);
    rlx_program_release(program);
    program = program_of(plan_of(bytes, false));
    run(program, plain, 8);
    rlx_program_release(program);
    assert_memory_equal(sliced, plain, sizeof sliced);
}

static void a_weight_that_somebody_wants_in_rows_stays_in_rows(void **state) {
    static const char *const texts[] = {
        /* added, too */
        "rlx 1\ninput x : f32[20, 20]\nparam w : f32[20, 20] = seeded(1, 1)\n"
        "h = matmul(x, w)\ny = add(h, w)\noutput y\n",
        /* two directions */
        "rlx 1\ninput x : f32[20, 20]\nparam w : f32[20, 20] = seeded(1, 1)\n"
        "h = matmul(x, w)\ny = matmul(h, w) transpose_b=true\noutput y\n",
        /* also an output */
        "rlx 1\ninput x : f32[20, 20]\nparam w : f32[20, 20] = seeded(1, 1)\n"
        "y = matmul(x, w)\noutput y\noutput w\n",
        /* no weight */
        "rlx 1\ninput x : f32[20, 20]\ninput w : f32[20, 20]\ny = matmul(x, w)\noutput y\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint32_t prepared;
        rlx_plan *plan = plan_of(texts[i], true);
        assert_int_equal(count_packs(plan, &prepared), 0);
        rlx_plan_destroy(plan);
    }
}

/* One that is computed, one that the body of a loop computes, and one that is added too: it is
 * packed for the convolution alone. */
static const char kernels[] = "rlx 1\n"
                              "input x : f32[1, 5, 2, 4]\n"
                              "const n : i64[] = [3]\nconst go : bool[] = [true]\n"
                              "s = reshape(x) shape=[4, 5, 2, 1]\n"
                              "v = sigmoid(s)\n"
                              "h = conv(x, v)\n"
                              "y = loop(n, go, h) bound=3 (i, c) {\n"
                              "    t = slice(c) starts=[0] ends=[1] axes=[3]\n"
                              "    r = reshape(t) shape=[4, 1, 1, 1]\n"
                              "    w = tanh(r)\n"
                              "    a = conv(c, w) groups=4\n"
                              "    u = tanh(a)\n"
                              "    k = slice(u) starts=[1] ends=[2] axes=[3]\n"
                              "    m = reshape(k) shape=[4, 1, 1, 1]\n"
                              "    p = neg(m)\n"
                              "    b = conv(u, p) groups=4\n"
                              "    z = squeeze(p) axes=[1]\n"
                              "    o = add(b, z)\n"
                              "    yield go, o\n}\n"
                              "output y\n";

static void kernels_of_a_run_are_packed_in_the_run(void **state) {
    float packed[16], plain[16];
    uint32_t prepared;
    (void)state;
    rlx_plan *plan = plan_of(kernels, true);
    assert_int_equal(count_packs(plan, &prepared), 3);
    assert_int_equal(prepared, 0);
    rlx_program *program = program_of(plan);
    run(program, packed, 16);
    rlx_program_release(program);
    program = program_of(plan_of(kernels, false));
    run(program, plain, 16);
    rlx_program_release(program);
    assert_memory_equal(packed, plain, sizeof packed);
}

static void weights_are_packed_for_loops_and_behind_other_prepare_steps(void **state) {
    uint32_t prepared;
    (void)state;
    rlx_plan *plan = plan_of("rlx 1\ninput x : f32[2, 20]\n"
                             "param w : f32[20, 20] = seeded(1, 1)\n"
                             "param s : f32[20, 20] = seeded(2, 1)\n"
                             "const n : i64[] = [3]\nconst go : bool[] = [true]\n"
                             "scaled = mul(w, s)\n"
                             "y = loop(n, go, x) bound=3 (i, c) {\n"
                             "    next = matmul(c, scaled)\n    yield go, next\n}\n"
                             "output y\n",
                             true);
    assert_int_equal(count_packs(plan, &prepared), 1);
    assert_int_equal(prepared, 1);
    rlx_plan_destroy(plan);
}

static void the_host_sees_packed_weights_in_logical_order(void **state) {
    float packed[600], plain[600];
    (void)state;
    for (int is_packed = 0; is_packed < 2; is_packed++) {
        rlx_program *program = program_of(plan_of(both_ways, is_packed));
        const rlx_plan *plan = rlx_program_plan(program);
        rlx_exec *exec = NULL;
        float *out = is_packed ? packed : plain;
        uint32_t slot = 0, slots = rlx_plan_slot_count(plan);
        assert_ok(rlx_exec_create(program, NULL, &exec));
        while (slot < slots && !(plan->slots.items[slot].dims[0] == 20 &&
                                 plan->buffers.items[plan->slots.items[slot].buffer].segment ==
                                     RLX_SEGMENT_WEIGHTS))
            slot++;
        rlx_arena *arena = rlx_exec_arena(exec);
        assert_int_equal(rlx_arena_slot_elements(arena, slot), 600);
        assert_int_equal(rlx_arena_slot_bytes(arena, slot), is_packed ? 20 * 32 * 4 : 2400);
        assert_ok(rlx_arena_read_f32(arena, slot, 0, out, 600, 0, NULL));
        rlx_exec_destroy(exec);
        rlx_program_release(program);
    }
    assert_memory_equal(packed, plain, sizeof packed);
}

static rlx_status compile_with(const rlx_allocator *allocator, void *user) {
    rlx_plan *plan = NULL;
    inner = rlx_cpu_target(rlx_cpu_find_level("cpu:scalar"), 2);
    rlx_target target = inner;
    target.choose = choose_panels;
    RLX_TRY(rlx_compile(user, &target, NULL, allocator, &plan));
    rlx_plan_destroy(plan);
    return RLX_OK;
}

/* Four weights of 160, 320, 1280 and 640 bytes; three of them are scaled before they are packed. */
static const char several[] = "rlx 1\n"
                              "input x : f32[2, 20]\n"
                              "param a : f32[20, 2] = seeded(1, 1)\n"
                              "param b : f32[2, 40] = seeded(2, 1)\n"
                              "param c : f32[40, 8] = seeded(3, 1)\n"
                              "param d : f32[8, 20] = seeded(4, 1)\n"
                              "param s : f32[] = seeded(5, 1)\n"
                              "a2 = mul(a, s)\n"
                              "b2 = add(b, s)\n"
                              "c2 = add(c, s)\n"
                              "c3 = mul(c2, s)\n"
                              "h = matmul(x, a2)\n"
                              "i = matmul(h, b2)\n"
                              "j = matmul(i, c3)\n"
                              "y = matmul(j, d)\n"
                              "output y\n";

static void raw_weights_have_memory_one_after_the_other(void **state) {
    rlx_compile_options options = {.size = sizeof options, .without_reuse = true};
    rlx_target target = rlx_cpu_target(rlx_cpu_find_level("cpu:scalar"), 2);
    rlx_graph *graph = NULL;
    rlx_plan *own = NULL, *plan = plan_of(several, true);
    float with_reuse[40], without[40];
    int64_t last = INT64_MAX;
    (void)state;
    /* The largest and the number that all share; what is made of a weight takes its place. */
    assert_int_equal(plan->segment_bytes[RLX_SEGMENT_SOURCE], 64 + 1280);
    for (uint32_t i = 0; i < plan->prepare_count; i++) { /* the largest first */
        const rlx_plan_step *step = &plan->steps.items[i];
        const rlx_plan_slot *in = &plan->slots.items[plan->operands.items[step->operands_at]];
        if (step->op != RLX_OP_PACK) continue;
        assert_true(in->dims[0] * in->dims[1] <= last);
        last = in->dims[0] * in->dims[1];
    }
    assert_ok(rlx_graph_parse(NULL, several, strlen(several), &graph));
    assert_ok(rlx_compile(graph, &target, &options, NULL, &own));
    rlx_graph_destroy(graph);
    rlx_program *program = program_of(plan), *other = program_of(own);
    run(program, with_reuse, 40);
    run(other, without, 40);
    assert_memory_equal(with_reuse, without, sizeof without);
    rlx_program_release(program);
    rlx_program_release(other);
}

/* One weight, packed in slices. */
static const char cut[] =
    "rlx 1\ninput x : f32[2, 3000]\nparam w : f32[3000, 1000] = seeded(1, 1)\n"
    "y = matmul(x, w)\noutput y\n";

static void every_allocation_may_fail(void **state) {
    rlx_graph *graph = NULL;
    (void)state;
    assert_ok(rlx_graph_parse(NULL, several, strlen(several), &graph));
    rlx_test_every_allocation_fails(compile_with, graph);
    rlx_graph_destroy(graph);
    assert_ok(rlx_graph_parse(NULL, cut, strlen(cut), &graph));
    rlx_test_every_allocation_fails(compile_with, graph);
    rlx_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_packed_and_not_held_twice),
        cmocka_unit_test(packed_and_plain_weights_give_the_same_bits),
        cmocka_unit_test(large_weights_are_packed_in_slices),
        cmocka_unit_test(what_is_made_of_weights_is_packed_in_slices),
        cmocka_unit_test(a_weight_that_somebody_wants_in_rows_stays_in_rows),
        cmocka_unit_test(kernels_of_a_run_are_packed_in_the_run),
        cmocka_unit_test(weights_are_packed_for_loops_and_behind_other_prepare_steps),
        cmocka_unit_test(the_host_sees_packed_weights_in_logical_order),
        cmocka_unit_test(raw_weights_have_memory_one_after_the_other),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
