/* SPDX-License-Identifier: Apache-2.0 */
/* The copy engine of memory that is not mapped: the conformance suite of copy engines with
 * destinations on the device and on the host; a queue that stands still shows what is issued
 * without waiting; a transfer queue of its own family, pretended by a shim. Staged memory, too,
 * works on one stage while the queue copies the other. Skipped where there is no driver. */
#include "backend/vulkan/device.h"
#include "conformance/copy_suite.h"
#include "support/support.h"

#include <rlx/rlx.h>

#include <stdio.h>
#include <stdlib.h>

enum { TILES = 24 << 20 };

static rlx_device *device;
static rlx_arena *arena;
static rlx_plan *plan;

/* The shim: a log of submits and waits, a queue that can be held, a family for transfers. */
static rlx_vk_functions real;
static rlx_vk_instance real_instance;
static struct {
    bool holds, has_family;
    _Atomic uint32_t submits, other_queue;
    VkSemaphore gate; /* held submits wait for its value 1 */
    VkQueue copy_queue;
    char log[64];
    _Atomic uint32_t logged;
    pthread_mutex_t lock; /* of the one queue there really is */
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note(char what) {
    uint32_t at = atomic_fetch_add(&shim.logged, 1);
    if (at < sizeof shim.log - 1) shim.log[at] = what;
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_QueueSubmit(VkQueue queue, uint32_t count,
                                                       const VkSubmitInfo *info, VkFence fence) {
    const uint64_t one = 1;
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkSubmitInfo held = *info;
    VkTimelineSemaphoreSubmitInfo values = *(const VkTimelineSemaphoreSubmitInfo *)info->pNext;
    note('s');
    if (queue == shim.copy_queue) {
        atomic_fetch_add(&shim.other_queue, 1);
        if (shim.holds) {
            values.waitSemaphoreValueCount = held.waitSemaphoreCount = 1;
            values.pWaitSemaphoreValues = &one;
            held.pNext = &values;
            held.pWaitSemaphores = &shim.gate;
            held.pWaitDstStageMask = &all;
        }
    }
    pthread_mutex_lock(&shim.lock);
    VkResult result = real.QueueSubmit(queue, count, &held, fence);
    pthread_mutex_unlock(&shim.lock);
    atomic_fetch_add(&shim.submits, 1);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_WaitSemaphores(VkDevice d, const VkSemaphoreWaitInfo *i,
                                                          uint64_t timeout_ns) {
    note('w');
    return real.WaitSemaphores(d, i, timeout_ns);
}

/* The driver has one family; the second is an illusion. */
static VKAPI_ATTR void VKAPI_CALL shim_GetPhysicalDeviceQueueFamilyProperties(
    VkPhysicalDevice d, uint32_t *count, VkQueueFamilyProperties *out) {
    real_instance.GetPhysicalDeviceQueueFamilyProperties(d, count, out);
    if (!shim.has_family || out == NULL) return;
    out[1] = out[0];
    out[1].queueFlags = VK_QUEUE_TRANSFER_BIT;
    *count = 2;
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_CreateDevice(VkPhysicalDevice d,
                                                        const VkDeviceCreateInfo *i,
                                                        const VkAllocationCallbacks *c,
                                                        VkDevice *out) {
    VkDeviceCreateInfo info = *i;
    if (shim.has_family) {
        assert_int_equal(i->queueCreateInfoCount, 2);
        assert_int_equal(i->pQueueCreateInfos[1].queueFamilyIndex, 1);
    }
    info.queueCreateInfoCount = 1;
    return real_instance.CreateDevice(d, &info, c, out);
}

static VKAPI_ATTR void VKAPI_CALL shim_GetDeviceQueue(VkDevice d, uint32_t family, uint32_t index,
                                                      VkQueue *out) {
    real.GetDeviceQueue(d, 0, index, out);
    (void)family;
    shim.copy_queue = *out;
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_CreateCommandPool(VkDevice d,
                                                             const VkCommandPoolCreateInfo *i,
                                                             const VkAllocationCallbacks *c,
                                                             VkCommandPool *out) {
    VkCommandPoolCreateInfo info = *i;
    info.queueFamilyIndex = 0;
    return real.CreateCommandPool(d, &info, c, out);
}

static uint32_t concurrent_buffers;
static VKAPI_ATTR VkResult VKAPI_CALL shim_CreateBuffer(VkDevice d, const VkBufferCreateInfo *i,
                                                        const VkAllocationCallbacks *c,
                                                        VkBuffer *out) {
    VkBufferCreateInfo info = *i;
    concurrent_buffers +=
        i->sharingMode == VK_SHARING_MODE_CONCURRENT && i->queueFamilyIndexCount == 2;
    info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    return real.CreateBuffer(d, &info, c, out);
}

#define TAKE(name) functions->name = shim_##name
static void install(rlx_vk_instance *instance, rlx_vk_functions *functions) {
    if (instance != NULL) {
        real_instance = *instance;
        instance->GetPhysicalDeviceQueueFamilyProperties =
            shim_GetPhysicalDeviceQueueFamilyProperties;
        instance->CreateDevice = shim_CreateDevice;
        return;
    }
    real = *functions;
    TAKE(QueueSubmit);
    TAKE(WaitSemaphores);
    TAKE(GetDeviceQueue);
    TAKE(CreateCommandPool);
    TAKE(CreateBuffer);
}

/* A staged device with an arena that has tiles and nothing else. */
static rlx_status open_all(void) {
    rlx_device_options options = {.size = sizeof options, .memory = RLX_DEVICE_MEMORY_STAGED};
    rlx_arena_request request = {.segments = 1u << RLX_SEGMENT_TILES};
    RLX_TRY(rlx_device_open("vulkan:llvmpipe", &options, &device));
    RLX_TRY(rlx_plan_create(NULL, &plan));
    plan->segment_bytes[RLX_SEGMENT_TILES] = TILES;
    request.plan = plan;
    return rlx_device_create_arena(device, &request, &arena);
}

static void close_all(void) {
    rlx_arena_destroy(arena);
    rlx_plan_destroy(plan);
    rlx_device_release(device);
    arena = NULL;
    plan = NULL;
    device = NULL;
}

static rlx_status create(const rlx_allocator *allocator, const rlx_copy_options *options,
                         rlx_copy_engine **out_engine) {
    return rlx_device_create_copy_engine(device, arena, allocator, options, out_engine);
}

static uint8_t *tiles(void) {
    return arena->stand_in[RLX_SEGMENT_TILES];
}

/* One room at a time, beginning somewhere. */
static void *room(size_t bytes) {
    assert_true(bytes <= TILES - 4096);
    return tiles() + 3;
}

static void look(const void *from, void *out, size_t bytes) {
    uint64_t offset = (uint64_t)((const uint8_t *)from - tiles());
    if (bytes == 0) return;
    if (arena->ops->read(arena, RLX_SEGMENT_TILES, offset, out, bytes) != RLX_OK) abort();
}

static void put(void *to, const void *source, size_t bytes) {
    uint64_t offset = (uint64_t)((const uint8_t *)to - tiles());
    if (arena->ops->write(arena, RLX_SEGMENT_TILES, offset, source, bytes) != RLX_OK) abort();
}

static const copy_maker makers[] = {
    {"copy engine vulkan", create, 0, true, false, true, 200, room, look, put},
    {"copy engine vulkan, to host memory", create, 0, true, false, true, 200, NULL, NULL, NULL},
};

static int setup(void **state) {
    (void)state;
    return open_all() == RLX_OK ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    close_all();
    return 0;
}

static uint8_t *bytes_of(size_t count) {
    rlx_test_random random = rlx_test_seed(5);
    uint8_t *bytes = malloc(count);
    assert_non_null(bytes);
    for (size_t i = 0; i < count; i += 8) {
        uint64_t word = rlx_test_next(&random);
        memcpy(bytes + i, &word, 8);
    }
    return bytes;
}

/* Held: two stages are on the queue, nothing is done, and nobody had to wait to find out. */
static void copies_are_issued_while_the_queue_stands_still(void **state) {
    enum { BYTES = 5 * RLX_VK_STAGE_BYTES };
    rlx_vk_device *vulkan = (rlx_vk_device *)device;
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    PFN_vkSignalSemaphore signal;
    PFN_vkVoidFunction found = real_instance.GetDeviceProcAddr(vulkan->handle, "vkSignalSemaphore");
    uint8_t *bytes = bytes_of(BYTES);
    rlx_copy_engine *engine = NULL;
    rlx_copy_token tokens[2];
    bool done = true;
    (void)state;
    memcpy(&signal, &found, sizeof found);
    assert_int_equal(real.CreateSemaphore(vulkan->handle, &info, NULL, &shim.gate), VK_SUCCESS);
    assert_ok(create(NULL, NULL, &engine));
    assert_string_equal(rlx_copy_engine_name(engine), "vulkan");
    atomic_store(&shim.submits, 0);
    shim.holds = true;
    assert_ok(rlx_copy_issue(engine, (rlx_copy_source){.memory = bytes}, tiles(), BYTES - 64,
                             &tokens[0]));
    assert_ok(rlx_copy_issue(engine, (rlx_copy_source){.memory = bytes + BYTES - 64},
                             tiles() + BYTES - 64, 64, &tokens[1]));
    while (atomic_load(&shim.submits) < RLX_VK_STAGES) {
        assert_ok(rlx_copy_poll(engine, tokens[0], &done));
        assert_false(done);
    }
    assert_status(RLX_TIMEOUT, rlx_copy_wait_for(engine, tokens[0], 1000000));
    assert_int_equal(atomic_load(&shim.submits), RLX_VK_STAGES); /* the third has no stage */
    assert_ok(rlx_copy_poll(engine, tokens[1], &done));
    assert_false(done);
    assert_int_equal(
        signal(vulkan->handle,
               &(VkSemaphoreSignalInfo){.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                        .semaphore = shim.gate,
                                        .value = 1}),
        VK_SUCCESS);
    assert_ok(rlx_copy_wait(engine, tokens[1])); /* and so the first: in order */
    assert_ok(rlx_copy_poll(engine, tokens[0], &done));
    assert_true(done);
    assert_true(copy_room_holds(&makers[0], tiles(), bytes, BYTES));
    rlx_copy_engine_destroy(engine);
    shim.holds = false;
    real.DestroySemaphore(vulkan->handle, shim.gate, NULL);
    free(bytes);
}

static void a_copy_past_the_tiles_is_refused(void **state) {
    rlx_copy_engine *engine = NULL;
    rlx_copy_token token;
    uint8_t bytes[64] = {0};
    (void)state;
    assert_ok(create(NULL, NULL, &engine));
    assert_status(RLX_OUT_OF_BOUNDS, rlx_copy_issue(engine, (rlx_copy_source){.memory = bytes},
                                                    tiles() + TILES - 63, 64, &token));
    assert_error_has("past the device's memory");
    rlx_copy_engine_destroy(engine);
}

/* The host fills a stage while the queue copies another: two submits before the first wait. */
static void staged_memory_goes_through_a_ring(void **state) {
    enum { BYTES = 5 * RLX_VK_STAGE_BYTES };
    uint8_t *bytes = bytes_of(BYTES);
    (void)state;
    memset(shim.log, 0, sizeof shim.log);
    atomic_store(&shim.logged, 0);
    put(tiles(), bytes, BYTES);
    assert_string_equal(shim.log, "sswswswsw");
    memset(shim.log, 0, sizeof shim.log);
    atomic_store(&shim.logged, 0);
    assert_true(copy_room_holds(&makers[0], tiles(), bytes, BYTES));
    assert_string_equal(shim.log, "sswswswsww");
    free(bytes);
}

/* Six layers of 64 KiB in a budget of two and a half. */
static const char layers[] =
    "rlx 1\ninput x : f32[3, 128]\nparam a : f32[128, 128] = seeded(1, 0.2)\n"
    "param b : f32[128, 128] = seeded(2, 0.2)\nparam c : f32[128, 128] = seeded(3, 0.2)\n"
    "param d : f32[128, 128] = seeded(4, 0.2)\nparam e : f32[128, 128] = seeded(5, 0.2)\n"
    "p = matmul(x, a)\nq = matmul(p, b)\nr = matmul(q, c)\ns = matmul(r, d)\nt = matmul(s, e)\n"
    "y = matmul(t, a)\noutput y\n";
enum { LAYER = 3 * 128 };

static void run_budget(const char *path, uint64_t budget, float *out) {
    rlx_program_options options = {.size = sizeof options, .weights_budget = budget};
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    float x[LAYER];
    for (uint32_t i = 0; i < LAYER; i++)
        x[i] = (float)(i % 13) * 0.25f - 1.5f;
    assert_ok(rlx_program_load(device, path, &options, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    for (uint32_t run = 0; run < 3; run++) { /* the same each time */
        assert_ok(rlx_exec_set_f32(exec, 0, "x", x, LAYER));
        assert_ok(rlx_exec_run(exec, 0));
    }
    assert_ok(rlx_exec_read_output_f32(exec, 0, 0, out, LAYER, NULL));
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

static void weights_under_a_budget_have_the_same_bits(void **state) {
    rlx_test_folder folder;
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    float resident[LAYER], streamed[LAYER];
    (void)state;
    rlx_test_folder_create(&folder);
    const char *path = rlx_test_path(&folder, "program");
    assert_ok(rlx_graph_parse(NULL, layers, strlen(layers), &graph));
    assert_ok(rlx_session_create(NULL, graph, &session));
    assert_ok(rlx_session_compile(session, device, NULL, NULL, &program));
    assert_ok(rlx_program_save(program, path));
    rlx_program_release(program);
    rlx_session_destroy(session);
    run_budget(path, 0, resident);
    atomic_store(&shim.submits, 0);
    run_budget(path, 160 << 10, streamed);
    assert_memory_equal(resident, streamed, sizeof resident);
    assert_true(atomic_load(&shim.submits) > 3 * 6); /* reads among them */
    rlx_test_folder_remove(&folder);
}

static int setup_family(void **state) {
    shim.has_family = true;
    return setup(state);
}

static int teardown_family(void **state) {
    shim.has_family = false;
    return teardown(state);
}

static void a_transfer_family_of_its_own_is_used(void **state) {
    rlx_vk_device *vulkan = (rlx_vk_device *)device;
    uint8_t *bytes = bytes_of(RLX_VK_STAGE_BYTES + 4096);
    rlx_copy_engine *engine = NULL;
    rlx_copy_token token;
    (void)state;
    assert_int_equal(vulkan->caps.transfer_family, 1);
    assert_true(concurrent_buffers > 0); /* both queues may touch them */
    atomic_store(&shim.other_queue, 0);
    assert_ok(create(NULL, NULL, &engine));
    assert_ok(rlx_copy_issue(engine, (rlx_copy_source){.memory = bytes}, tiles() + 5,
                             RLX_VK_STAGE_BYTES + 4096, &token));
    assert_ok(rlx_copy_wait(engine, token));
    assert_int_equal(atomic_load(&shim.other_queue), 2);
    assert_true(copy_room_holds(&makers[0], tiles() + 5, bytes, RLX_VK_STAGE_BYTES + 4096));
    rlx_copy_engine_destroy(engine);
    free(bytes);
}

int main(int argc, char **argv) {
    enum { SKIPPED = 77 };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_issued_while_the_queue_stands_still),
        cmocka_unit_test(a_copy_past_the_tiles_is_refused),
        cmocka_unit_test(staged_memory_goes_through_a_ring),
        cmocka_unit_test(weights_under_a_budget_have_the_same_bits),
    };
    const struct CMUnitTest family[] = {
        cmocka_unit_test(a_transfer_family_of_its_own_is_used),
        cmocka_unit_test(weights_under_a_budget_have_the_same_bits),
    };
    int failed = 0;
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* one test, or a pattern */
    rlx_vk_set_shim(install);
    if (open_all() != RLX_OK) {
        printf("skipped: %s\n", rlx_last_error());
        return SKIPPED;
    }
    for (uint32_t i = 0; i < sizeof makers / sizeof *makers; i++)
        failed += copy_suite_run(&makers[i]);
    close_all();
    failed += cmocka_run_group_tests_name("copies of a device", tests, setup, teardown);
    failed += cmocka_run_group_tests_name("a family for transfers", family, setup_family,
                                          teardown_family);
    return failed;
}
