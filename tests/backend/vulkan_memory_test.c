/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the Vulkan backend: blocks, heaps that are too small, the least limits, and a pretended
 * discrete GPU. */
#include "backend/vulkan_shim.h"

#include <stdio.h>

/* Layers whose weights and values are each about a third of a block. */
static const char layers[] =
    "rlx 1\ninput x : f32[50, 100]\n"
    "param a : f32[100, 100] = seeded(1, 0.2)\nparam b : f32[100, 100] = seeded(2, 0.2)\n"
    "param c : f32[100, 100] = seeded(3, 0.2)\nstate s : f32[50, 100]\nstate t : f32[50, 100]\n"
    "const zero : i64[] = [0]\n"
    "p = matmul(x, a)\nq = matmul(p, b)\nr = matmul(q, c)\nu = add(p, q)\nv = add(u, r)\n"
    "sw, sn = state_write(s, v, zero) axis=0\ntw, tn = state_write(t, r, zero) axis=0\n"
    "y = add(v, x)\noutput y\noutput sn\noutput tn\n";
enum { LAYERS = 50 * 100 };

static rlx_status run_layers(rlx_device_memory memory, float *out, uint64_t *out_scratch) {
    rlx_device_options options = {.size = sizeof options, .memory = memory};
    float x[LAYERS];
    rlx_device *device = NULL;
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    for (uint32_t i = 0; i < LAYERS; i++)
        x[i] = (float)(i % 19) * 0.125f - 1.0f;
    rlx_status status = rlx_device_open(SOFTWARE, &options, &device);
    if (status == RLX_OK) status = rlx_graph_parse(NULL, layers, strlen(layers), &graph);
    if (status == RLX_OK) status = rlx_session_create(NULL, graph, &session);
    if (status == RLX_OK) status = rlx_session_compile(session, device, NULL, NULL, &program);
    if (status == RLX_OK) status = rlx_exec_create(program, NULL, &exec);
    if (status == RLX_OK) status = rlx_exec_set_f32(exec, 0, "x", x, LAYERS);
    if (status == RLX_OK) status = rlx_exec_run(exec, 0);
    if (status == RLX_OK) status = rlx_exec_read_output_f32(exec, 0, 0, out, LAYERS, NULL);
    if (status == RLX_OK) {
        *out_scratch = rlx_plan_segment_bytes(rlx_program_plan(program), RLX_SEGMENT_SCRATCH);
    }
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_session_destroy(session);
    rlx_device_release(device);
    return status;
}

static void memory_in_many_blocks_gives_the_same_bits(void **state) {
    static const rlx_device_memory modes[] = {RLX_DEVICE_MEMORY_DIRECT, RLX_DEVICE_MEMORY_STAGED};
    static float whole[LAYERS], cut[LAYERS];
    uint64_t scratch = 0;
    (void)state;
    assert_ok(run_layers(RLX_DEVICE_MEMORY_DIRECT, whole, &scratch));
    shim.allocation_bytes = 65536;
    for (uint32_t i = 0; i < 2; i++) {
        shim.largest_allocation = 0;
        assert_ok(run_layers(modes[i], cut, &scratch));
        assert_true(shim.largest_allocation <= 65536);
        assert_true(scratch > 65536);
        assert_memory_equal(whole, cut, sizeof whole);
    }
    shim.allocation_bytes = 32768; /* a weight of 40000 bytes fits nowhere */
    assert_status(RLX_DOES_NOT_FIT, run_layers(RLX_DEVICE_MEMORY_DIRECT, cut, &scratch));
    assert_error_has("a buffer of 40000 bytes: the device has blocks of 32768");
}

static void an_arena_above_the_heap_is_refused_with_bytes(void **state) {
    static float out[LAYERS];
    uint64_t scratch = 0;
    (void)state;
    shim.pretends_discrete = true;
    shim.heap_bytes = 50000;
    assert_status(RLX_DOES_NOT_FIT, run_layers(RLX_DEVICE_MEMORY_AUTO, out, &scratch));
    assert_error_has("bytes of memory, its heap has 50000");
    assert_int_equal(shim.heap_used, 0);
    shim.heap_bytes = 1 << 20;
    assert_ok(run_layers(RLX_DEVICE_MEMORY_AUTO, out, &scratch));
    assert_int_equal(shim.heap_used, 0);
}

/* There is room for one executable and not for two: the first goes on, and gives its room back. */
static void a_full_heap_is_a_status_and_the_others_go_on(void **state) {
    decoder one;
    rlx_exec *second = NULL;
    (void)state;
    shim.pretends_discrete = true;
    assert_ok(decoder_open(&one, SOFTWARE, RLX_DEVICE_MEMORY_AUTO));
    shim.heap_bytes = shim.heap_used + 256;
    assert_status(RLX_OUT_OF_MEMORY, rlx_exec_create(one.program, NULL, &second));
    assert_error_has("bytes");
    assert_error_has("vkAllocateMemory");
    assert_null(second);
    assert_ok(decoder_run(&one));
    rlx_exec_destroy(one.exec);
    one.exec = NULL;
    assert_ok(rlx_exec_create(one.program, NULL, &second));
    one.exec = second;
    assert_ok(decoder_run(&one));
    decoder_close(&one);
}

static void the_least_limits_of_vulkan_are_enough(void **state) {
    static float whole[LAYERS], least[LAYERS];
    uint64_t scratch = 0;
    (void)state;
    assert_ok(run_layers(RLX_DEVICE_MEMORY_STAGED, whole, &scratch));
    shim.has_least_limits = true;
    assert_ok(run_layers(RLX_DEVICE_MEMORY_STAGED, least, &scratch));
    assert_memory_equal(whole, least, sizeof whole);
}

/* Five states of 36 MiB: the last rows of each are written and read far above 128 MiB. */
static void an_arena_above_128_mib_works(void **state) {
    static const rlx_device_memory modes[] = {RLX_DEVICE_MEMORY_DIRECT, RLX_DEVICE_MEMORY_STAGED};
    enum { ROWS = 147456, STATES = 5 };
    char text[1024] = "rlx 1\ninput y0 : f32[1, 64]\ninput at : i64[]\ninput row : i64[1]\n";
    float x[64], y[64];
    int64_t at = ROWS - 1;
    (void)state;
    for (int i = 0; i < STATES; i++) {
        size_t end = strlen(text);
        snprintf(text + end, sizeof text - end, "state s%d : f32[%d, 64]\n", i, ROWS);
    }
    for (int i = 0; i < STATES; i++) {
        size_t end = strlen(text);
        snprintf(text + end, sizeof text - end,
                 "w%d, n%d = state_write(s%d, y%d, at) axis=0\ny%d = gather(w%d, row) axis=0\n", i,
                 i, i, i, i + 1, i);
    }
    snprintf(text + strlen(text), sizeof text - strlen(text), "output y%d\n", STATES);
    for (uint32_t i = 0; i < 64; i++)
        x[i] = (float)i * 0.5f - 3.0f;
    for (uint32_t i = 0; i < 2; i++) {
        rlx_device_options options = {.size = sizeof options, .memory = modes[i]};
        rlx_device *device = NULL;
        rlx_graph *graph = NULL;
        rlx_session *session = NULL;
        rlx_program *program = NULL;
        rlx_exec *exec = NULL;
        assert_ok(rlx_device_open(SOFTWARE, &options, &device));
        assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
        assert_ok(rlx_session_create(NULL, graph, &session));
        assert_ok(rlx_session_compile(session, device, NULL, NULL, &program));
        assert_true(rlx_plan_segment_bytes(rlx_program_plan(program), RLX_SEGMENT_STATE) >
                    UINT64_C(128) << 20);
        assert_ok(rlx_exec_create(program, NULL, &exec));
        assert_ok(rlx_exec_set_f32(exec, 0, "y0", x, 64));
        assert_ok(rlx_exec_set(exec, 0, "at", &at, sizeof at));
        assert_ok(rlx_exec_set(exec, 0, "row", &at, sizeof at));
        assert_ok(rlx_exec_run(exec, 0));
        assert_ok(rlx_exec_read_output_f32(exec, 0, 0, y, 64, NULL));
        assert_memory_equal(x, y, sizeof x);
        rlx_exec_destroy(exec);
        rlx_program_release(program);
        rlx_session_destroy(session);
        rlx_device_release(device);
    }
}

static void a_discrete_gpu_is_staged_and_gives_the_same_bits(void **state) {
    decoder direct, discrete;
    (void)state;
    assert_ok(decoder_open(&direct, SOFTWARE, RLX_DEVICE_MEMORY_DIRECT));
    assert_ok(decoder_run(&direct));
    shim.pretends_discrete = true;
    assert_ok(decoder_open(&discrete, SOFTWARE, RLX_DEVICE_MEMORY_AUTO));
    assert_ok(decoder_run(&discrete));
    assert_true(shim.hidden_count > 0); /* and none of it was mapped */
    assert_true(shim.flushes > 0);      /* host memory was not coherent */
    assert_memory_equal(direct.logits, discrete.logits, sizeof direct.logits);
    decoder_close(&discrete);
    decoder_close(&direct);
}

static rlx_vk_caps caps_of(VkPhysicalDeviceType type, uint64_t local, uint64_t window) {
    rlx_vk_caps caps = {
        .type = type, .allocation_bytes = UINT64_C(1) << 32, .buffer_bytes = UINT64_C(1) << 32};
    caps.memory.memoryTypeCount = 3;
    caps.memory.memoryHeapCount = 3;
    caps.memory.memoryHeaps[0].size = local;
    caps.memory.memoryHeaps[1].size = UINT64_C(1) << 34;
    caps.memory.memoryHeaps[2].size = window;
    caps.memory.memoryTypes[0] = (VkMemoryType){VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
    caps.memory.memoryTypes[1] = (VkMemoryType){
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 1};
    caps.memory.memoryTypes[2] =
        (VkMemoryType){VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                           VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                       2};
    return caps;
}

static void memory_is_mapped_where_it_is_shared_or_wholly_visible(void **state) {
    const uint64_t gib = UINT64_C(1) << 30;
    rlx_vk_caps small_window = caps_of(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 8 * gib, gib / 4);
    rlx_vk_caps large_window = caps_of(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 8 * gib, 8 * gib);
    rlx_vk_caps shared = caps_of(VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, 4 * gib, gib);
    rlx_vk_policy policy;
    (void)state;
    assert_ok(rlx_vk_policy_of(&small_window, RLX_DEVICE_MEMORY_AUTO, &policy));
    assert_true(policy.is_staged);
    assert_int_equal(policy.arena_type, 0);
    assert_int_equal(policy.upload_type, 1);
    assert_ok(rlx_vk_policy_of(&large_window, RLX_DEVICE_MEMORY_AUTO, &policy));
    assert_false(policy.is_staged);
    assert_int_equal(policy.arena_type, 2);
    assert_ok(rlx_vk_policy_of(&shared, RLX_DEVICE_MEMORY_AUTO, &policy));
    assert_false(policy.is_staged);
    assert_ok(rlx_vk_policy_of(&shared, RLX_DEVICE_MEMORY_STAGED, &policy));
    assert_true(policy.is_staged);
    assert_ok(rlx_vk_policy_of(&small_window, RLX_DEVICE_MEMORY_DIRECT, &policy));
    assert_false(policy.is_staged);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(memory_in_many_blocks_gives_the_same_bits, shim_begin),
        cmocka_unit_test_setup(an_arena_above_the_heap_is_refused_with_bytes, shim_begin),
        cmocka_unit_test_setup(a_full_heap_is_a_status_and_the_others_go_on, shim_begin),
        cmocka_unit_test_setup(the_least_limits_of_vulkan_are_enough, shim_begin),
        cmocka_unit_test_setup(an_arena_above_128_mib_works, shim_begin),
        cmocka_unit_test_setup(a_discrete_gpu_is_staged_and_gives_the_same_bits, shim_begin),
        cmocka_unit_test_setup(memory_is_mapped_where_it_is_shared_or_wholly_visible, shim_begin),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* one test, or a pattern */
    if (!shim_install()) return SKIPPED;
    return cmocka_run_group_tests_name("vulkan_memory", tests, NULL, NULL);
}
