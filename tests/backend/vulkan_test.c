/* SPDX-License-Identifier: Apache-2.0 */
/* Runs on the Vulkan backend, on a software driver: results, what is recorded and submitted, what
 * is moved. Skipped with a word where there is no driver. */
#include "backend/vulkan/record.h"
#include "backend/vulkan_shim.h"
#include "driver/device.h"
#include "plan/plan.h"

#include <stdio.h>

static void a_decoder_agrees_with_the_cpu_and_staged_with_direct(void **state) {
    decoder cpu, direct, staged;
    (void)state;
    assert_ok(decoder_open(&cpu, "cpu:scalar", RLX_DEVICE_MEMORY_AUTO));
    assert_ok(decoder_run(&cpu));
    assert_ok(decoder_open(&direct, SOFTWARE, RLX_DEVICE_MEMORY_DIRECT));
    assert_ok(decoder_run(&direct));
    assert_ok(decoder_open(&staged, SOFTWARE, RLX_DEVICE_MEMORY_STAGED));
    assert_ok(decoder_run(&staged));
    assert_close_f32(&cpu.logits[0][0], &direct.logits[0][0], TOKENS * VOCABULARY, 1e-5, 1e-5);
    assert_memory_equal(direct.logits, staged.logits, sizeof direct.logits);
    decoder_close(&cpu);
    decoder_close(&direct);
    decoder_close(&staged);
}

static void a_run_records_nothing_and_submits_once(void **state) {
    decoder d;
    (void)state;
    assert_ok(decoder_open(&d, SOFTWARE, RLX_DEVICE_MEMORY_DIRECT));
    assert_ok(decoder_step(&d, d.exec, 0));
    shim.records = shim.submits = shim.dispatches = shim.pipelines = shim.copied_bytes = 0;
    for (int64_t i = 1; i < TOKENS; i++)
        assert_ok(decoder_step(&d, d.exec, i));
    assert_int_equal(shim.records, 0);
    assert_int_equal(shim.dispatches, 0);
    assert_int_equal(shim.pipelines, 0);
    assert_int_equal(shim.submits, TOKENS - 1);
    assert_int_equal(shim.copied_bytes, 0);
    decoder_close(&d);
}

static void warming_up_dispatches_each_pipeline_and_changes_nothing(void **state) {
    decoder cold, warm;
    (void)state;
    assert_ok(decoder_open(&cold, SOFTWARE, RLX_DEVICE_MEMORY_STAGED));
    assert_ok(decoder_run(&cold));
    shim.pipelines = 0;
    assert_ok(decoder_open(&warm, SOFTWARE, RLX_DEVICE_MEMORY_STAGED));
    uint64_t pipelines = shim.pipelines;
    shim.dispatches = shim.submits = 0;
    assert_ok(rlx_exec_warm_up(warm.exec));
    assert_int_equal(shim.dispatches, pipelines);
    assert_int_equal(shim.submits, 1);
    assert_ok(rlx_exec_warm_up(warm.exec)); /* once is enough */
    assert_int_equal(shim.dispatches, pipelines);
    assert_ok(decoder_run(&warm));
    assert_int_equal(shim.dispatches, pipelines); /* a run records nothing */
    assert_memory_equal(cold.logits, warm.logits, sizeof cold.logits);
    decoder_close(&cold);
    decoder_close(&warm);
}

static void a_token_moves_itself_and_its_logits_only(void **state) {
    enum { FAULT_RECORD = 24 };
    decoder d;
    (void)state;
    assert_ok(decoder_open(&d, SOFTWARE, RLX_DEVICE_MEMORY_STAGED));
    assert_ok(decoder_step(&d, d.exec, 0));
    shim.copied_bytes = 0;
    assert_ok(decoder_step(&d, d.exec, 1));
    /* Token, position, logits, and a look at the fault record. */
    assert_int_equal(shim.copied_bytes, 8 + 8 + VOCABULARY * sizeof(float) + FAULT_RECORD);
    decoder_close(&d);
}

static void a_clone_goes_on_where_the_first_stands(void **state) {
    decoder d, whole;
    rlx_exec *twin = NULL;
    (void)state;
    assert_ok(decoder_open(&whole, SOFTWARE, RLX_DEVICE_MEMORY_STAGED));
    assert_ok(decoder_run(&whole));
    assert_ok(decoder_open(&d, SOFTWARE, RLX_DEVICE_MEMORY_STAGED));
    for (int64_t i = 0; i < 3; i++)
        assert_ok(decoder_step(&d, d.exec, i));
    assert_ok(rlx_exec_clone(d.exec, 0, &twin));
    for (int64_t i = 3; i < TOKENS; i++)
        assert_ok(decoder_step(&d, twin, i));
    assert_memory_equal(d.logits, whole.logits, sizeof d.logits);
    rlx_exec_destroy(twin);
    decoder_close(&d);
    decoder_close(&whole);
}

static void a_fault_in_a_shader_names_its_node(void **state) {
    static const rlx_device_memory modes[] = {RLX_DEVICE_MEMORY_DIRECT, RLX_DEVICE_MEMORY_STAGED};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        decoder d;
        int64_t token = VOCABULARY + 5, position = 0;
        assert_ok(decoder_open(&d, SOFTWARE, modes[i]));
        assert_ok(rlx_exec_set(d.exec, 0, "tokens", &token, sizeof token));
        assert_ok(rlx_exec_set(d.exec, 0, "position", &position, sizeof position));
        assert_status(RLX_FAULT, rlx_exec_run(d.exec, 0));
        assert_error_has("node 'rows' (gather): index out of range: 37");
        assert_ok(rlx_exec_reset_state(d.exec));
        assert_ok(decoder_run(&d)); /* and it goes on */
        decoder_close(&d);
    }
}

/* Products that every variant can take, with odd tails; f16 where loads are generic. */
static const char products[] =
    "rlx 1\ninput x : f32[2, 21, 20]\ninput z : f32[2, 21, 36]\n"
    "param w : f32[20, 36] = seeded(1, 1)\nparam v : f32[36, 20] = seeded(3, 1)\n"
    "param b : f32[36] = seeded(2, 1)\nparam h : f16[36, 28] = seeded(4, 1)\n"
    "y = matmul(x, w)\nyb = add(y, b)\nyr = relu(yb)\nyz = add(yr, z)\nq = matmul(yz, v)\n"
    "qt = matmul(q, v) transpose_b=true\nr = cast(qt) to=f16\no = matmul(r, h)\n"
    "of = cast(o) to=f32\noutput qt\noutput of\n";
enum { PRODUCTS = 2 * 21 * 36 + 2 * 21 * 28 };

static void run_products(const char *device, uint32_t flags, float *out) {
    rlx_device_options options = {.size = sizeof options, .flags = flags};
    float x[2 * 21 * 20], z[2 * 21 * 36];
    rlx_device *opened = NULL;
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    for (uint32_t i = 0; i < 2 * 21 * 36; i++) {
        z[i] = (float)(i % 7) * 0.25f - 0.5f;
        if (i < 2 * 21 * 20) x[i] = (float)(i % 11) * 0.125f - 0.5f;
    }
    assert_ok(rlx_device_open(device, &options, &opened));
    assert_ok(rlx_graph_parse(NULL, products, strlen(products), &graph));
    assert_ok(rlx_session_create(NULL, graph, &session));
    assert_ok(rlx_session_compile(session, opened, NULL, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    for (uint32_t i = 0; i < 3; i++) { /* the same each time */
        assert_ok(rlx_exec_set_f32(exec, 0, "x", x, 2 * 21 * 20));
        assert_ok(rlx_exec_set_f32(exec, 0, "z", z, 2 * 21 * 36));
        assert_ok(rlx_exec_run(exec, 0));
    }
    assert_ok(rlx_exec_read_output_f32(exec, 0, 0, out, 2 * 21 * 36, NULL));
    assert_ok(rlx_exec_read_output_f32(exec, 0, 1, out + 2 * 21 * 36, 2 * 21 * 28, NULL));
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_session_destroy(session);
    rlx_device_release(opened);
}

static void every_variant_of_a_product_agrees_with_the_cpu(void **state) {
    static const uint32_t flags[] = {0, RLX_DEVICE_PLAIN_SHADERS, RLX_DEVICE_GPU_SHADERS};
    float expected[PRODUCTS], actual[PRODUCTS];
    (void)state;
    run_products("cpu:scalar", 0, expected);
    for (uint32_t i = 0; i < 3; i++) {
        run_products(SOFTWARE, flags[i], actual);
        assert_close_f32(expected, actual, PRODUCTS, 2e-2, 2e-3); /* the last one is f16 */
    }
}

static void a_replayed_run_is_a_recorded_one_to_the_bit(void **state) {
    float replayed[PRODUCTS], recorded[PRODUCTS];
    (void)state;
    run_products(SOFTWARE, 0, replayed);
    shim.records = 0;
    run_products(SOFTWARE, RLX_DEVICE_RECORD_ALWAYS, recorded);
    assert_true(shim.records >= 4); /* once ahead, and in each of three runs */
    assert_memory_equal(replayed, recorded, sizeof replayed);
}

/* Drivers end submits that take too long: none is planned for much more than 100 ms, by the speed
 * that a plan assumes of the device. A step alone may be longer. */
static void a_submit_is_bounded_in_time(void **state) {
    enum { CHAINED = 40 };
    char text[4096] = "rlx 1\ninput y0 : f32[256, 256]\nparam w : f32[256, 256] = seeded(1, 1)\n";
    rlx_compile_options how = {.size = sizeof how};
    rlx_device *device = NULL;
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    (void)state;
    for (int i = 0; i < CHAINED; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "y%d = matmul(y%d, w)\n", i + 1,
                 i);
    snprintf(text + strlen(text), sizeof text - strlen(text), "output y%d\n", CHAINED);
    assert_ok(rlx_device_open(SOFTWARE, NULL, &device));
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_ok(rlx_session_create(NULL, graph, &session));
    assert_ok(rlx_session_compile(session, device, &how, NULL, &program));
    const rlx_plan *plan = rlx_program_plan(program);
    assert_true(plan->stretches.count > 4 && plan->stretches.count < CHAINED);
    for (uint32_t i = 0; i < plan->stretches.count; i++) {
        const rlx_plan_stretch *stretch = &plan->stretches.items[i];
        double seconds = 0, longest = 0;
        for (uint32_t s = 0; s < stretch->step_count; s++) {
            const rlx_plan_step *step = &plan->steps.items[stretch->first_step + s];
            double one = (double)step->flops / (double)device->target.flops_per_second;
            seconds += one;
            longest = one > longest ? one : longest;
        }
        assert_true(stretch->step_count == 1 || seconds <= 0.1 + longest);
    }
    rlx_program_release(program);
    rlx_session_destroy(session);
    rlx_device_release(device);
}

/* More rounds than Mesa's software driver lets a lane go through in one dispatch. */
static void many_updates_all_arrive(void **state) {
    enum { ROWS = 120, COLUMNS = 100, COUNT = ROWS * COLUMNS };
    static const char text[] = "rlx 1\ninput x : f32[120, 100]\ninput at : i64[12000, 2]\n"
                               "input u : f32[12000]\ny = scatter_nd(x, at, u)\noutput y\n";
    static float x[COUNT], u[COUNT], y[COUNT];
    static int64_t at[COUNT][2];
    rlx_device *device = NULL;
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        int place = (int)((int64_t)i * 7 % COUNT);
        at[i][0] = place / COLUMNS;
        at[i][1] = place % COLUMNS;
        u[i] = (float)place;
    }
    assert_ok(rlx_device_open(SOFTWARE, NULL, &device));
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_ok(rlx_session_create(NULL, graph, &session));
    assert_ok(rlx_session_compile(session, device, NULL, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(rlx_exec_set_f32(exec, 0, "x", x, COUNT));
    assert_ok(rlx_exec_set_f32(exec, 0, "u", u, COUNT));
    assert_ok(rlx_exec_set(exec, 0, "at", at, sizeof at));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_output_f32(exec, 0, 0, y, COUNT, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == (float)i);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_session_destroy(session);
    rlx_device_release(device);
}

/* Barriers, without a device. */
static rlx_vk_command command(uint32_t step, uint64_t read_at, uint64_t write_at) {
    rlx_vk_command one = {.kind = RLX_VK_DISPATCH, .step = step};
    VkBuffer buffer;
    uintptr_t some = 1;
    memcpy(&buffer, &some, sizeof buffer);
    one.ranges[1] = (rlx_vk_range){buffer, read_at, 256, false};
    one.ranges[10] = (rlx_vk_range){buffer, write_at, 256, true};
    return one;
}

static void barriers_stand_where_bytes_conflict_and_the_verifier_misses_none(void **state) {
    /* 1 reads what 0 wrote; 2 is apart; 3 writes what 2 reads; 4 writes what 3 wrote. */
    const uint64_t at[][2] = {{0, 256}, {256, 512}, {1024, 1280}, {2048, 1024}, {2048, 1024}};
    rlx_vk_commands commands = {0};
    uint32_t barriers = 0;
    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        rlx_vk_command one = command(i, at[i][0], at[i][1]);
        assert_ok(rlx_vk_commands_add(NULL, &commands, &one));
    }
    for (uint32_t i = 0; i < commands.list.count; i++)
        barriers += commands.list.items[i].kind == RLX_VK_BARRIER;
    assert_int_equal(barriers, 3);
    assert_ok(rlx_vk_commands_verify(&commands));
    for (uint32_t i = 0; i < commands.list.count; i++) { /* each one dropped is noticed */
        rlx_vk_command saved = commands.list.items[i];
        if (saved.kind != RLX_VK_BARRIER) continue;
        commands.list.items[i] = (rlx_vk_command){.kind = RLX_VK_DISPATCH};
        assert_status(RLX_INVALID_PLAN, rlx_vk_commands_verify(&commands));
        assert_error_has("without a barrier");
        commands.list.items[i] = saved;
    }
    commands.list.items[3].ranges[1].offset = 512; /* a shifted range: 2 reads what 1 writes */
    assert_status(RLX_INVALID_PLAN, rlx_vk_commands_verify(&commands));
    rlx_vec_free(NULL, &commands.list);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_decoder_agrees_with_the_cpu_and_staged_with_direct, shim_begin),
        cmocka_unit_test_setup(a_run_records_nothing_and_submits_once, shim_begin),
        cmocka_unit_test_setup(warming_up_dispatches_each_pipeline_and_changes_nothing, shim_begin),
        cmocka_unit_test_setup(a_token_moves_itself_and_its_logits_only, shim_begin),
        cmocka_unit_test_setup(a_clone_goes_on_where_the_first_stands, shim_begin),
        cmocka_unit_test_setup(a_fault_in_a_shader_names_its_node, shim_begin),
        cmocka_unit_test_setup(every_variant_of_a_product_agrees_with_the_cpu, shim_begin),
        cmocka_unit_test_setup(a_replayed_run_is_a_recorded_one_to_the_bit, shim_begin),
        cmocka_unit_test_setup(a_submit_is_bounded_in_time, shim_begin),
        cmocka_unit_test_setup(many_updates_all_arrive, shim_begin),
        cmocka_unit_test_setup(barriers_stand_where_bytes_conflict_and_the_verifier_misses_none,
                               shim_begin),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* one test, or a pattern */
    if (!shim_install()) return SKIPPED;
    return cmocka_run_group_tests_name("vulkan", tests, NULL, NULL);
}
