/* SPDX-License-Identifier: Apache-2.0 */
/* The Vulkan backend on a software driver, with a shim between it and us: what is recorded and
 * submitted, failing calls, lost devices, and a pretended discrete GPU. Skipped with a word where
 * there is no driver. */
#include "backend/vulkan/caps.h"
#include "backend/vulkan/record.h"
#include "driver/device.h"
#include "plan/plan.h"
#include "support/support.h"

#include <rlx/rlx.h>

#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 6, VOCABULARY = 32 };

/* The shim. `real` is the driver's table. */
static rlx_vk_functions real;
static rlx_vk_instance real_instance;
static struct {
    uint64_t calls, fail_at; /* of calls that can fail */
    VkResult failure;
    uint64_t records, submits, dispatches, copied_bytes, pipelines, flushes;
    bool pretends_discrete;
    bool validates; /* modules, by spirv-val */
    uint32_t modules, wrong_modules;
    uint64_t allocation_bytes; /* lowered maxMemoryAllocationSize; 0: as it is */
    uint64_t largest_allocation;
    bool has_least_limits;     /* what every device of Vulkan has */
    VkDeviceMemory hidden[64]; /* not mappable */
    uint64_t hidden_bytes[64];
    uint32_t hidden_count;
    uint64_t heap_bytes, heap_used; /* of a discrete GPU; 0: as large as the driver's */
} shim;

static bool fails(void) {
    return shim.calls++ == shim.fail_at;
}

#define CAN_FAIL(name, parameters, arguments)                      \
    static VKAPI_ATTR VkResult VKAPI_CALL shim_##name parameters { \
        return fails() ? shim.failure : real.name arguments;       \
    }
#define ALLOCATION const VkAllocationCallbacks *c
CAN_FAIL(CreateBuffer, (VkDevice d, const VkBufferCreateInfo *i, ALLOCATION, VkBuffer *o),
         (d, i, c, o))
CAN_FAIL(BindBufferMemory, (VkDevice d, VkBuffer b, VkDeviceMemory m, VkDeviceSize o), (d, b, m, o))
CAN_FAIL(CreatePipelineCache,
         (VkDevice d, const VkPipelineCacheCreateInfo *i, ALLOCATION, VkPipelineCache *o),
         (d, i, c, o))
CAN_FAIL(CreatePipelineLayout,
         (VkDevice d, const VkPipelineLayoutCreateInfo *i, ALLOCATION, VkPipelineLayout *o),
         (d, i, c, o))
CAN_FAIL(CreateDescriptorSetLayout,
         (VkDevice d, const VkDescriptorSetLayoutCreateInfo *i, ALLOCATION,
          VkDescriptorSetLayout *o),
         (d, i, c, o))
CAN_FAIL(CreateDescriptorPool,
         (VkDevice d, const VkDescriptorPoolCreateInfo *i, ALLOCATION, VkDescriptorPool *o),
         (d, i, c, o))
CAN_FAIL(AllocateDescriptorSets,
         (VkDevice d, const VkDescriptorSetAllocateInfo *i, VkDescriptorSet *o), (d, i, o))
CAN_FAIL(CreateCommandPool,
         (VkDevice d, const VkCommandPoolCreateInfo *i, ALLOCATION, VkCommandPool *o), (d, i, c, o))
CAN_FAIL(AllocateCommandBuffers,
         (VkDevice d, const VkCommandBufferAllocateInfo *i, VkCommandBuffer *o), (d, i, o))
CAN_FAIL(EndCommandBuffer, (VkCommandBuffer b), (b))
CAN_FAIL(CreateSemaphore, (VkDevice d, const VkSemaphoreCreateInfo *i, ALLOCATION, VkSemaphore *o),
         (d, i, c, o))
CAN_FAIL(WaitSemaphores, (VkDevice d, const VkSemaphoreWaitInfo *i, uint64_t t), (d, i, t))

/* spirv-val judges a module; false: it is not valid. */
static bool is_valid(const VkShaderModuleCreateInfo *info) {
    char path[] = "/tmp/rlx-module-XXXXXX", command[96];
    int descriptor = mkstemp(path);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (file == NULL) return false;
    bool is_written = fwrite(info->pCode, 1, info->codeSize, file) == info->codeSize;
    is_written = fclose(file) == 0 && is_written;
    snprintf(command, sizeof command, "spirv-val --target-env vulkan1.2 %s", path);
    bool result = is_written && system(command) == 0;
    remove(path);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_CreateShaderModule(VkDevice d,
                                                              const VkShaderModuleCreateInfo *i,
                                                              ALLOCATION, VkShaderModule *o) {
    if (shim.validates) {
        shim.modules++;
        shim.wrong_modules += !is_valid(i);
    }
    return fails() ? shim.failure : real.CreateShaderModule(d, i, c, o);
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_BeginCommandBuffer(VkCommandBuffer b,
                                                              const VkCommandBufferBeginInfo *i) {
    shim.records++;
    return fails() ? shim.failure : real.BeginCommandBuffer(b, i);
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_CreateComputePipelines(
    VkDevice d, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *i,
    const VkAllocationCallbacks *a, VkPipeline *o) {
    shim.pipelines++;
    return fails() ? shim.failure : real.CreateComputePipelines(d, c, n, i, a, o);
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_QueueSubmit(VkQueue q, uint32_t n, const VkSubmitInfo *i,
                                                       VkFence f) {
    shim.submits++;
    return fails() ? shim.failure : real.QueueSubmit(q, n, i, f);
}

static VKAPI_ATTR void VKAPI_CALL shim_CmdDispatch(VkCommandBuffer b, uint32_t x, uint32_t y,
                                                   uint32_t z) {
    shim.dispatches++;
    real.CmdDispatch(b, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL shim_CmdCopyBuffer(VkCommandBuffer b, VkBuffer from, VkBuffer to,
                                                     uint32_t n, const VkBufferCopy *regions) {
    for (uint32_t i = 0; i < n; i++)
        shim.copied_bytes += regions[i].size;
    real.CmdCopyBuffer(b, from, to, n, regions);
}

/* A discrete GPU: type 0 is its own memory, type 1 the host's, which is not coherent. The driver
 * has only one type. */
static VKAPI_ATTR VkResult VKAPI_CALL shim_AllocateMemory(VkDevice d, const VkMemoryAllocateInfo *i,
                                                          const VkAllocationCallbacks *c,
                                                          VkDeviceMemory *o) {
    VkMemoryAllocateInfo info = *i;
    if (i->allocationSize > shim.largest_allocation) shim.largest_allocation = i->allocationSize;
    if (fails()) return shim.failure;
    bool is_hidden = shim.pretends_discrete && i->memoryTypeIndex == 0;
    if (is_hidden && shim.heap_bytes != 0 && i->allocationSize > shim.heap_bytes - shim.heap_used) {
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    if (shim.pretends_discrete) info.memoryTypeIndex = 0;
    VkResult result = real.AllocateMemory(d, &info, c, o);
    if (result == VK_SUCCESS && is_hidden && shim.hidden_count < 64) {
        shim.heap_used += i->allocationSize;
        shim.hidden_bytes[shim.hidden_count] = i->allocationSize;
        shim.hidden[shim.hidden_count++] = *o;
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_MapMemory(VkDevice d, VkDeviceMemory m, VkDeviceSize o,
                                                     VkDeviceSize s, VkMemoryMapFlags f, void **p) {
    if (fails()) return shim.failure;
    for (uint32_t i = 0; i < shim.hidden_count; i++) {
        if (shim.hidden[i] == m) return VK_ERROR_MEMORY_MAP_FAILED;
    }
    return real.MapMemory(d, m, o, s, f, p);
}

static VKAPI_ATTR void VKAPI_CALL shim_FreeMemory(VkDevice d, VkDeviceMemory m, ALLOCATION) {
    for (uint32_t i = 0; i < shim.hidden_count; i++) {
        if (shim.hidden[i] != m) continue;
        shim.heap_used -= shim.hidden_bytes[i];
        shim.hidden[i] = shim.hidden[--shim.hidden_count];
        shim.hidden_bytes[i] = shim.hidden_bytes[shim.hidden_count];
    }
    real.FreeMemory(d, m, c);
}

static VKAPI_ATTR void VKAPI_CALL shim_GetBufferMemoryRequirements(VkDevice d, VkBuffer b,
                                                                   VkMemoryRequirements *o) {
    real.GetBufferMemoryRequirements(d, b, o);
    if (shim.pretends_discrete) o->memoryTypeBits = 3;
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_FlushMappedMemoryRanges(VkDevice d, uint32_t n,
                                                                   const VkMappedMemoryRange *r) {
    shim.flushes++;
    return real.FlushMappedMemoryRanges(d, n, r);
}

static VKAPI_ATTR void VKAPI_CALL
shim_GetPhysicalDeviceMemoryProperties(VkPhysicalDevice d, VkPhysicalDeviceMemoryProperties *o) {
    real_instance.GetPhysicalDeviceMemoryProperties(d, o);
    if (!shim.pretends_discrete) return;
    o->memoryTypeCount = o->memoryHeapCount = 2;
    o->memoryTypes[0] = (VkMemoryType){VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
    o->memoryTypes[1] =
        (VkMemoryType){VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 1};
    o->memoryHeaps[1] = (VkMemoryHeap){o->memoryHeaps[0].size, 0};
    if (shim.heap_bytes != 0) o->memoryHeaps[0].size = shim.heap_bytes;
}

static VKAPI_ATTR void VKAPI_CALL
shim_GetPhysicalDeviceProperties2(VkPhysicalDevice d, VkPhysicalDeviceProperties2 *o) {
    real_instance.GetPhysicalDeviceProperties2(d, o);
    if (shim.pretends_discrete) o->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    for (VkBaseOutStructure *at = o->pNext; at != NULL; at = at->pNext) {
        if (at->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES) continue;
        if (shim.allocation_bytes == 0) continue;
        ((VkPhysicalDeviceMaintenance3Properties *)(void *)at)->maxMemoryAllocationSize =
            shim.allocation_bytes;
    }
    if (!shim.has_least_limits) return;
    VkPhysicalDeviceLimits *limits = &o->properties.limits;
    limits->maxStorageBufferRange = 1u << 27;
    limits->maxPerStageDescriptorStorageBuffers = 12; /* more than the 4 of Vulkan: ours */
    limits->maxDescriptorSetStorageBuffers = 24;
    limits->maxComputeSharedMemorySize = 16384;
    limits->maxComputeWorkGroupInvocations = limits->maxComputeWorkGroupSize[0] = 128;
    limits->minStorageBufferOffsetAlignment = limits->nonCoherentAtomSize = 256;
}

#define TAKE(name) functions->name = shim_##name
static void install(rlx_vk_instance *instance, rlx_vk_functions *functions) {
    if (instance != NULL) {
        real_instance = *instance;
        instance->GetPhysicalDeviceMemoryProperties = shim_GetPhysicalDeviceMemoryProperties;
        instance->GetPhysicalDeviceProperties2 = shim_GetPhysicalDeviceProperties2;
        return;
    }
    real = *functions;
    TAKE(CreateBuffer);
    TAKE(BindBufferMemory);
    TAKE(CreateShaderModule);
    TAKE(CreatePipelineCache);
    TAKE(CreatePipelineLayout);
    TAKE(CreateDescriptorSetLayout);
    TAKE(CreateDescriptorPool);
    TAKE(AllocateDescriptorSets);
    TAKE(CreateCommandPool);
    TAKE(AllocateCommandBuffers);
    TAKE(EndCommandBuffer);
    TAKE(CreateSemaphore);
    TAKE(WaitSemaphores);
    TAKE(BeginCommandBuffer);
    TAKE(CreateComputePipelines);
    TAKE(QueueSubmit);
    TAKE(CmdDispatch);
    TAKE(CmdCopyBuffer);
    TAKE(AllocateMemory);
    TAKE(MapMemory);
    TAKE(FreeMemory);
    TAKE(GetBufferMemoryRequirements);
    TAKE(FlushMappedMemoryRanges);
}

static int begin(void **state) {
    (void)state;
    memset(&shim, 0, sizeof shim);
    shim.fail_at = UINT64_MAX;
    shim.failure = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    return 0;
}

/* A decoder with K/V on a device, token by token. */
typedef struct decoder {
    rlx_device *device;
    rlx_session *session;
    rlx_program *program;
    rlx_exec *exec;
    float logits[TOKENS][VOCABULARY];
} decoder;

static rlx_status decoder_open(decoder *self, const char *device, rlx_device_memory memory) {
    rlx_device_options options = {.size = sizeof options, .memory = memory};
    rlx_binding binding = {"S", 1};
    rlx_entry_spec entry = {.bindings = &binding, .binding_count = 1};
    rlx_compile_options how = {.size = sizeof how, .entries = &entry, .entry_count = 1};
    memset(self, 0, sizeof *self);
    RLX_TRY(rlx_device_open(device, &options, &self->device));
    RLX_TRY(rlx_session_open(NULL, "../session/graphs/decoder.rlx", &self->session));
    RLX_TRY(rlx_session_compile(self->session, self->device, &how, NULL, &self->program));
    return rlx_exec_create(self->program, NULL, &self->exec);
}

static rlx_status decoder_step(decoder *self, rlx_exec *exec, int64_t position) {
    int64_t token = (position * 7 + 3) % VOCABULARY;
    RLX_TRY(rlx_exec_set(exec, 0, "tokens", &token, sizeof token));
    RLX_TRY(rlx_exec_set(exec, 0, "position", &position, sizeof position));
    RLX_TRY(rlx_exec_run(exec, 0));
    return rlx_exec_read_output_f32(exec, 0, 0, self->logits[position], VOCABULARY, NULL);
}

static rlx_status decoder_run(decoder *self) {
    for (int64_t i = 0; i < TOKENS; i++)
        RLX_TRY(decoder_step(self, self->exec, i));
    return RLX_OK;
}

static void decoder_close(decoder *self) {
    rlx_exec_destroy(self->exec);
    rlx_program_release(self->program);
    rlx_session_destroy(self->session);
    rlx_device_release(self->device);
    self->exec = NULL;
}

static const char software[] = "vulkan:llvmpipe";

static void a_decoder_agrees_with_the_cpu_and_staged_with_direct(void **state) {
    decoder cpu, direct, staged;
    (void)state;
    assert_ok(decoder_open(&cpu, "cpu:scalar", RLX_DEVICE_MEMORY_AUTO));
    assert_ok(decoder_run(&cpu));
    assert_ok(decoder_open(&direct, software, RLX_DEVICE_MEMORY_DIRECT));
    assert_ok(decoder_run(&direct));
    assert_ok(decoder_open(&staged, software, RLX_DEVICE_MEMORY_STAGED));
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
    assert_ok(decoder_open(&d, software, RLX_DEVICE_MEMORY_DIRECT));
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
    assert_ok(decoder_open(&cold, software, RLX_DEVICE_MEMORY_STAGED));
    assert_ok(decoder_run(&cold));
    shim.pipelines = 0;
    assert_ok(decoder_open(&warm, software, RLX_DEVICE_MEMORY_STAGED));
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
    assert_ok(decoder_open(&d, software, RLX_DEVICE_MEMORY_STAGED));
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
    assert_ok(decoder_open(&whole, software, RLX_DEVICE_MEMORY_STAGED));
    assert_ok(decoder_run(&whole));
    assert_ok(decoder_open(&d, software, RLX_DEVICE_MEMORY_STAGED));
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
        assert_ok(decoder_open(&d, software, modes[i]));
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
        run_products(software, flags[i], actual);
        assert_close_f32(expected, actual, PRODUCTS, 2e-2, 2e-3); /* the last one is f16 */
    }
}

static void a_replayed_run_is_a_recorded_one_to_the_bit(void **state) {
    float replayed[PRODUCTS], recorded[PRODUCTS];
    (void)state;
    run_products(software, 0, replayed);
    shim.records = 0;
    run_products(software, RLX_DEVICE_RECORD_ALWAYS, recorded);
    assert_true(shim.records >= 4); /* once ahead, and in each of three runs */
    assert_memory_equal(replayed, recorded, sizeof replayed);
}

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
    rlx_status status = rlx_device_open(software, &options, &device);
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
    assert_ok(decoder_open(&one, software, RLX_DEVICE_MEMORY_AUTO));
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
        assert_ok(rlx_device_open(software, &options, &device));
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
    assert_ok(rlx_device_open(software, NULL, &device));
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
    assert_ok(rlx_device_open(software, NULL, &device));
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

static void every_module_is_valid_spir_v(void **state) {
    static const struct {
        const char *path;
        rlx_binding binding;
    } graphs[] = {{"../session/graphs/decoder.rlx", {"S", 3}},
                  {"../session/graphs/doubles.rlx", {NULL, 0}},
                  {"../session/graphs/integers.rlx", {NULL, 0}}};
    (void)state;
    if (system("spirv-val --version >/dev/null 2>&1") != 0) skip();
    shim.validates = true;
    for (uint32_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        rlx_entry_spec entry = {.bindings = &graphs[i].binding,
                                .binding_count = graphs[i].binding.symbol != NULL};
        rlx_compile_options how = {.size = sizeof how, .entries = &entry, .entry_count = 1};
        rlx_device *device = NULL;
        rlx_session *session = NULL;
        rlx_program *program = NULL;
        rlx_exec *exec = NULL;
        assert_ok(rlx_device_open(software, NULL, &device));
        assert_ok(rlx_session_open(NULL, graphs[i].path, &session));
        assert_ok(rlx_session_compile(session, device, &how, NULL, &program));
        assert_ok(rlx_exec_create(program, NULL, &exec)); /* records, and so makes its modules */
        rlx_exec_destroy(exec);
        rlx_program_release(program);
        rlx_session_destroy(session);
        rlx_device_release(device);
    }
    assert_true(shim.modules > 10);
    assert_int_equal(shim.wrong_modules, 0);
}

/* A cache of a broken, a foreign and a good file: never in the way. */
static void pipelines_are_kept_in_a_file_that_may_be_broken(void **state) {
    char folder[] = "/tmp/rlx-cache-XXXXXX", command[460];
    rlx_device_options options = {.size = sizeof options};
    (void)state;
    assert_non_null(mkdtemp(folder));
    options.cache_folder = folder;
    for (uint32_t round = 0; round < 4; round++) {
        decoder d = {0};
        rlx_binding binding = {"S", 1};
        rlx_entry_spec entry = {.bindings = &binding, .binding_count = 1};
        rlx_compile_options how = {.size = sizeof how, .entries = &entry, .entry_count = 1};
        assert_ok(rlx_device_open(software, &options, &d.device));
        assert_ok(rlx_session_open(NULL, "../session/graphs/decoder.rlx", &d.session));
        assert_ok(rlx_session_compile(d.session, d.device, &how, NULL, &d.program));
        assert_ok(rlx_exec_create(d.program, NULL, &d.exec));
        assert_ok(decoder_step(&d, d.exec, 0));
        decoder_close(&d);
        snprintf(command, sizeof command, "ls %s/vulkan-* >/dev/null 2>&1", folder);
        assert_int_equal(system(command), 0); /* there is one file, and only one */
        const char *spoil[] = {"truncate -s 20", "truncate -s 0", "tee", "true"};
        snprintf(command, sizeof command, "for f in %s/*; do echo 1 | %s \"$f\" >/dev/null; done",
                 folder, spoil[round]);
        assert_int_equal(system(command), 0);
    }
    snprintf(command, sizeof command, "test $(ls %s | wc -l) = 1 && rm -r %s", folder, folder);
    assert_int_equal(system(command), 0);
}

static bool is_whole; /* every call fails once, not a sample */

static void every_call_may_fail(void **state) {
    uint64_t n;
    (void)state;
    for (n = 0; n < 10000; n++) {
        decoder d;
        shim.calls = 0;
        shim.fail_at = n;
        rlx_status status = decoder_open(&d, software, RLX_DEVICE_MEMORY_STAGED);
        if (status == RLX_OK) status = rlx_exec_warm_up(d.exec);
        if (status == RLX_OK) status = decoder_step(&d, d.exec, 0);
        bool was_reached = shim.calls > n;
        decoder_close(&d);
        if (!was_reached) {
            assert_int_equal(status, RLX_OK);
            break;
        }
        assert_int_not_equal(status, RLX_OK);
        assert_true(strlen(rlx_last_error()) > 0);
        if (n > 24 && !is_whole) n += 16; /* the calls repeat themselves */
    }
    assert_true(n > 100);
}

static void a_lost_device_is_lost_and_can_be_opened_again(void **state) {
    decoder d, other;
    (void)state;
    assert_ok(decoder_open(&other, software, RLX_DEVICE_MEMORY_DIRECT));
    assert_ok(decoder_open(&d, software, RLX_DEVICE_MEMORY_DIRECT));
    assert_ok(decoder_step(&d, d.exec, 0));
    shim.failure = VK_ERROR_DEVICE_LOST;
    shim.fail_at = shim.calls; /* the next submit */
    assert_status(RLX_DEVICE, decoder_step(&d, d.exec, 1));
    assert_error_has("steps 0 to");
    assert_status(RLX_DEVICE, decoder_step(&d, d.exec, 1)); /* every later call too */
    assert_error_has("was lost");
    assert_ok(decoder_step(&other, other.exec, 0)); /* no other device is */
    decoder_close(&d);
    assert_ok(decoder_open(&d, software, RLX_DEVICE_MEMORY_DIRECT));
    assert_ok(decoder_run(&d));
    decoder_close(&d);
    decoder_close(&other);
}

static void a_discrete_gpu_is_staged_and_gives_the_same_bits(void **state) {
    decoder direct, discrete;
    (void)state;
    assert_ok(decoder_open(&direct, software, RLX_DEVICE_MEMORY_DIRECT));
    assert_ok(decoder_run(&direct));
    shim.pretends_discrete = true;
    assert_ok(decoder_open(&discrete, software, RLX_DEVICE_MEMORY_AUTO));
    assert_ok(decoder_run(&discrete));
    assert_true(shim.hidden_count > 0); /* and none of it was mapped */
    assert_true(shim.flushes > 0);      /* host memory was not coherent */
    assert_memory_equal(direct.logits, discrete.logits, sizeof direct.logits);
    decoder_close(&discrete);
    decoder_close(&direct);
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

static void software_is_never_taken_unasked(void **state) {
    rlx_device *device = NULL;
    (void)state;
    assert_status(RLX_UNSUPPORTED, rlx_device_open("vulkan", NULL, &device));
    assert_error_has("only software");
    assert_status(RLX_NOT_FOUND, rlx_device_open("vulkan:99", NULL, &device));
    assert_status(RLX_NOT_FOUND, rlx_device_open("vulkan:no such name", NULL, &device));
    assert_ok(rlx_device_open("vulkan:0", NULL, &device));
    rlx_device_release(device);
}

int main(int argc, char **argv) {
    enum { SKIPPED = 77 };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_decoder_agrees_with_the_cpu_and_staged_with_direct, begin),
        cmocka_unit_test_setup(a_run_records_nothing_and_submits_once, begin),
        cmocka_unit_test_setup(warming_up_dispatches_each_pipeline_and_changes_nothing, begin),
        cmocka_unit_test_setup(a_token_moves_itself_and_its_logits_only, begin),
        cmocka_unit_test_setup(a_clone_goes_on_where_the_first_stands, begin),
        cmocka_unit_test_setup(a_fault_in_a_shader_names_its_node, begin),
        cmocka_unit_test_setup(every_variant_of_a_product_agrees_with_the_cpu, begin),
        cmocka_unit_test_setup(a_replayed_run_is_a_recorded_one_to_the_bit, begin),
        cmocka_unit_test_setup(memory_in_many_blocks_gives_the_same_bits, begin),
        cmocka_unit_test_setup(an_arena_above_the_heap_is_refused_with_bytes, begin),
        cmocka_unit_test_setup(a_full_heap_is_a_status_and_the_others_go_on, begin),
        cmocka_unit_test_setup(the_least_limits_of_vulkan_are_enough, begin),
        cmocka_unit_test_setup(an_arena_above_128_mib_works, begin),
        cmocka_unit_test_setup(a_submit_is_bounded_in_time, begin),
        cmocka_unit_test_setup(many_updates_all_arrive, begin),
        cmocka_unit_test_setup(pipelines_are_kept_in_a_file_that_may_be_broken, begin),
        cmocka_unit_test_setup(every_module_is_valid_spir_v, begin),
        cmocka_unit_test_setup(every_call_may_fail, begin),
        cmocka_unit_test_setup(a_lost_device_is_lost_and_can_be_opened_again, begin),
        cmocka_unit_test_setup(a_discrete_gpu_is_staged_and_gives_the_same_bits, begin),
        cmocka_unit_test_setup(barriers_stand_where_bytes_conflict_and_the_verifier_misses_none,
                               begin),
        cmocka_unit_test_setup(memory_is_mapped_where_it_is_shared_or_wholly_visible, begin),
        cmocka_unit_test_setup(software_is_never_taken_unasked, begin),
    };
    rlx_device *device = NULL;
    is_whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    if (is_whole) cmocka_set_test_filter("every_call_may_fail");
    if (argc > 1 && !is_whole) cmocka_set_test_filter(argv[1]); /* one test, or a pattern */
    if (rlx_device_open(software, NULL, &device) != RLX_OK) {
        printf("skipped: %s\n", rlx_last_error());
        return SKIPPED;
    }
    rlx_device_release(device);
    rlx_vk_set_shim(install);
    return cmocka_run_group_tests_name("vulkan", tests, NULL, NULL);
}
