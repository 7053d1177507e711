/* SPDX-License-Identifier: Apache-2.0 */
/* What AMD's compiler makes of our shaders. Mesa's driver for AMD compiles for a GPU that is not
 * there when RADV_FORCE_FAMILY names one; it has no memory and runs nothing. A shim stands in for
 * both: op cases and graphs are compiled and recorded, and every pipeline they need is compiled for
 * that GPU. None may spill registers, and products must leave room for enough waves.
 *
 *     test_vulkan_amd [quick|whole]
 *
 * prints a row per shader. quick: no elementwise op cases, most of which have a pipeline of their
 * own. Skipped where the driver or
 * RADV_FORCE_FAMILY is missing. */
#include "backend/vulkan/device.h"
#include "ops/case.h"
#include "ops/engine.h"
#include "support/support.h"

#include <rlx/rlx.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What is real of the driver: shaders, layouts and pipelines. */
static rlx_vk_functions real;
static rlx_vk_instance real_instance;
static VkDevice opened;

typedef struct shader_row {
    uint32_t pipelines, waves, vgprs, lds;
    uint64_t spills, code_bytes;
} shader_row;

static const char *const shader_names[] = {
#define RLX_VK_SHADER(upper, lower) #lower,
#include "backend/vulkan/pipelines.def"
#undef RLX_VK_SHADER
};
static shader_row rows[RLX_VK_SHADER_COUNT];

/* Handles of things that are only ours. */
#define MADE_UP(type, name, parameters)                                 \
    static VKAPI_ATTR VkResult VKAPI_CALL shim_##name parameters {      \
        void *made = malloc(1);                                         \
        memcpy(out, &made, sizeof made);                                \
        return made == NULL ? VK_ERROR_OUT_OF_HOST_MEMORY : VK_SUCCESS; \
    }
#define DROPPED(type, name)                                                         \
    static VKAPI_ATTR void VKAPI_CALL shim_##name(VkDevice d, type handle,          \
                                                  const VkAllocationCallbacks *c) { \
        void *made;                                                                 \
        (void)d, (void)c;                                                           \
        memcpy(&made, &handle, sizeof made);                                        \
        free(made);                                                                 \
    }
#define IGNORED(name, parameters) \
    static VKAPI_ATTR void VKAPI_CALL shim_##name parameters {}
#define GRANTED(name, parameters)                                  \
    static VKAPI_ATTR VkResult VKAPI_CALL shim_##name parameters { \
        return VK_SUCCESS;                                         \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
MADE_UP(VkDescriptorPool, CreateDescriptorPool,
        (VkDevice d, const VkDescriptorPoolCreateInfo *i, const VkAllocationCallbacks *c,
         VkDescriptorPool *out))
MADE_UP(VkCommandPool, CreateCommandPool,
        (VkDevice d, const VkCommandPoolCreateInfo *i, const VkAllocationCallbacks *c,
         VkCommandPool *out))
MADE_UP(VkSemaphore, CreateSemaphore,
        (VkDevice d, const VkSemaphoreCreateInfo *i, const VkAllocationCallbacks *c,
         VkSemaphore *out))
DROPPED(VkDescriptorPool, DestroyDescriptorPool)
DROPPED(VkCommandPool, DestroyCommandPool)
DROPPED(VkSemaphore, DestroySemaphore)
DROPPED(VkDeviceMemory, FreeMemory)
GRANTED(BindBufferMemory, (VkDevice d, VkBuffer b, VkDeviceMemory m, VkDeviceSize o))
GRANTED(BeginCommandBuffer, (VkCommandBuffer b, const VkCommandBufferBeginInfo *i))
GRANTED(EndCommandBuffer, (VkCommandBuffer b))
GRANTED(QueueSubmit, (VkQueue q, uint32_t n, const VkSubmitInfo *i, VkFence f))
GRANTED(WaitSemaphores, (VkDevice d, const VkSemaphoreWaitInfo *i, uint64_t t))
GRANTED(DeviceWaitIdle, (VkDevice d))
IGNORED(UpdateDescriptorSets, (VkDevice d, uint32_t n, const VkWriteDescriptorSet *w, uint32_t m,
                               const VkCopyDescriptorSet *k))
IGNORED(CmdBindPipeline, (VkCommandBuffer b, VkPipelineBindPoint p, VkPipeline l))
IGNORED(CmdBindDescriptorSets,
        (VkCommandBuffer b, VkPipelineBindPoint p, VkPipelineLayout l, uint32_t f, uint32_t n,
         const VkDescriptorSet *s, uint32_t m, const uint32_t *o))
IGNORED(CmdDispatch, (VkCommandBuffer b, uint32_t x, uint32_t y, uint32_t z))
IGNORED(CmdPipelineBarrier,
        (VkCommandBuffer b, VkPipelineStageFlags s, VkPipelineStageFlags t, VkDependencyFlags f,
         uint32_t n, const VkMemoryBarrier *m, uint32_t k, const VkBufferMemoryBarrier *p,
         uint32_t l, const VkImageMemoryBarrier *i))
IGNORED(CmdCopyBuffer,
        (VkCommandBuffer b, VkBuffer from, VkBuffer to, uint32_t n, const VkBufferCopy *r))
IGNORED(CmdFillBuffer, (VkCommandBuffer b, VkBuffer to, VkDeviceSize o, VkDeviceSize s, uint32_t w))

static VKAPI_ATTR VkResult VKAPI_CALL shim_AllocateDescriptorSets(
    VkDevice d, const VkDescriptorSetAllocateInfo *i, VkDescriptorSet *out) {
    for (uint32_t k = 0; k < i->descriptorSetCount; k++)
        memcpy(&out[k], &i->descriptorPool, sizeof out[k]); /* nobody looks into it */
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_AllocateCommandBuffers(
    VkDevice d, const VkCommandBufferAllocateInfo *i, VkCommandBuffer *out) {
    memcpy(out, &i->commandPool, sizeof *out);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_AllocateMemory(VkDevice d, const VkMemoryAllocateInfo *i,
                                                          const VkAllocationCallbacks *c,
                                                          VkDeviceMemory *out) {
    void *made = calloc(1, (size_t)i->allocationSize);
    memcpy(out, &made, sizeof made);
    return made == NULL ? VK_ERROR_OUT_OF_DEVICE_MEMORY : VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_MapMemory(VkDevice d, VkDeviceMemory m, VkDeviceSize o,
                                                     VkDeviceSize s, VkMemoryMapFlags f,
                                                     void **out) {
    memcpy(out, &m, sizeof m);
    return VK_SUCCESS;
}
#pragma GCC diagnostic pop

static VKAPI_ATTR void VKAPI_CALL shim_GetBufferMemoryRequirements(VkDevice d, VkBuffer b,
                                                                   VkMemoryRequirements *out) {
    real.GetBufferMemoryRequirements(d, b, out);
    out->memoryTypeBits = 1;
}

static VKAPI_ATTR void VKAPI_CALL
shim_GetPhysicalDeviceMemoryProperties(VkPhysicalDevice d, VkPhysicalDeviceMemoryProperties *out) {
    (void)d;
    memset(out, 0, sizeof *out);
    out->memoryTypeCount = out->memoryHeapCount = 1;
    out->memoryHeaps[0] = (VkMemoryHeap){UINT64_C(1) << 34, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
    out->memoryTypes[0].propertyFlags =
        VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
}

/* The device with statistics of its pipelines. */
static VKAPI_ATTR VkResult VKAPI_CALL shim_CreateDevice(VkPhysicalDevice d,
                                                        const VkDeviceCreateInfo *i,
                                                        const VkAllocationCallbacks *c,
                                                        VkDevice *out) {
    static const char *const extensions[] = {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR wanted = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pipelineExecutableInfo = VK_TRUE};
    VkDeviceCreateInfo info = *i;
    memcpy(&wanted.pNext, &i->pNext, sizeof wanted.pNext);
    info.pNext = &wanted;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = extensions;
    VkResult result = real_instance.CreateDevice(d, &info, c, out);
    if (result == VK_SUCCESS) opened = *out;
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL shim_CreateComputePipelines(
    VkDevice d, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *i,
    const VkAllocationCallbacks *a, VkPipeline *o) {
    VkComputePipelineCreateInfo info = *i;
    info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    return real.CreateComputePipelines(d, c, n, &info, a, o);
}

#define TAKE(name) functions->name = shim_##name
static void install(rlx_vk_instance *instance, rlx_vk_functions *functions) {
    if (instance != NULL) {
        real_instance = *instance;
        instance->GetPhysicalDeviceMemoryProperties = shim_GetPhysicalDeviceMemoryProperties;
        instance->CreateDevice = shim_CreateDevice;
        return;
    }
    real = *functions;
    TAKE(CreateDescriptorPool);
    TAKE(CreateCommandPool);
    TAKE(CreateSemaphore);
    TAKE(DestroyDescriptorPool);
    TAKE(DestroyCommandPool);
    TAKE(DestroySemaphore);
    TAKE(FreeMemory);
    TAKE(BindBufferMemory);
    TAKE(BeginCommandBuffer);
    TAKE(EndCommandBuffer);
    TAKE(QueueSubmit);
    TAKE(WaitSemaphores);
    TAKE(DeviceWaitIdle);
    TAKE(UpdateDescriptorSets);
    TAKE(CmdBindPipeline);
    TAKE(CmdBindDescriptorSets);
    TAKE(CmdDispatch);
    TAKE(CmdPipelineBarrier);
    TAKE(CmdCopyBuffer);
    TAKE(CmdFillBuffer);
    TAKE(AllocateDescriptorSets);
    TAKE(AllocateCommandBuffers);
    TAKE(AllocateMemory);
    TAKE(MapMemory);
    TAKE(GetBufferMemoryRequirements);
    TAKE(CreateComputePipelines);
}

/* One pipeline's statistics, added to the row of its shader. */
static rlx_status take_statistics(const rlx_vk_pipeline *pipeline) {
    enum { MOST = 32 };
    PFN_vkGetPipelineExecutableStatisticsKHR get;
    PFN_vkVoidFunction found =
        real_instance.GetDeviceProcAddr(opened, "vkGetPipelineExecutableStatisticsKHR");
    VkPipelineExecutableInfoKHR which = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                         .pipeline = pipeline->handle};
    VkPipelineExecutableStatisticKHR items[MOST];
    uint32_t count = MOST, waves = 0;
    shader_row *row = &rows[pipeline->key.shader];
    memcpy(&get, &found, sizeof found);
    memset(items, 0, sizeof items);
    for (uint32_t i = 0; i < MOST; i++)
        items[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    if (get == NULL || get(opened, &which, &count, items) != VK_SUCCESS) {
        return RLX_FAIL(RLX_UNSUPPORTED, "the driver has no statistics of pipelines");
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value = items[i].value.u64;
        if (strstr(items[i].name, "Spilled") != NULL) row->spills += value;
        if (strstr(items[i].name, "Scratch") != NULL) row->spills += value;
        if (strcmp(items[i].name, "Code size") == 0) row->code_bytes += value;
        if (strcmp(items[i].name, "VGPRs") == 0 && value > row->vgprs) row->vgprs = (uint32_t)value;
        if (strcmp(items[i].name, "LDS size") == 0 && value > row->lds) row->lds = (uint32_t)value;
        if (strcmp(items[i].name, "Subgroups per SIMD") == 0) waves = (uint32_t)value;
    }
    if (waves == 0) return RLX_FAIL(RLX_UNSUPPORTED, "the driver does not say how many waves");
    if (row->pipelines++ == 0 || waves < row->waves) row->waves = waves;
    return RLX_OK;
}

typedef struct tally {
    bool is_quick;
    uint32_t cases, failed, seen; /* pipelines */
} tally;

/* Statistics of what was compiled since the last time. */
static rlx_status take_new(rlx_engine *engine, tally *all) {
    rlx_vk_device *device = (rlx_vk_device *)rlx_engine_device(engine);
    for (; all->seen < device->pipelines.count; all->seen++)
        RLX_TRY(take_statistics(&device->pipelines.items[all->seen]));
    return RLX_OK;
}

static rlx_status compile_case(const rlx_case *self, tally *all) {
    rlx_test_array inputs[RLX_CASE_MAX_ARRAYS] = {0};
    rlx_type types[RLX_CASE_MAX_ARRAYS];
    rlx_engine *engine = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < self->model->values.count && count < RLX_CASE_MAX_ARRAYS; i++) {
        if (self->model->values.items[i].kind == RLX_VALUE_INPUT)
            types[count++] = self->model->values.items[i].type;
    }
    RLX_TRY(rlx_case_arrays(self, true, 0, types, count, inputs));
    rlx_status status = rlx_engine_create("vulkan:0", self->model, inputs, count, &engine);
    rlx_case_free_arrays(inputs, count);
    if (status != RLX_OK) return status;
    status = take_new(engine, all);
    rlx_engine_destroy(engine);
    return status;
}

static rlx_status compile_text(const char *text, tally *all) {
    rlx_graph *graph = NULL;
    rlx_engine *engine = NULL;
    RLX_TRY(rlx_graph_parse(NULL, text, strlen(text), &graph));
    rlx_status status = rlx_engine_create("vulkan:0", graph, NULL, 0, &engine);
    if (status == RLX_OK) status = take_new(engine, all);
    rlx_engine_destroy(engine);
    rlx_graph_destroy(graph);
    return status;
}

/* Products of every float dtype, with rows for tiles and for single tokens, b by rows and by
 * columns, with everything that may be fused behind them. */
static void try_products(tally *all) {
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    static const int sides[] = {64, 24, 3, 1};
    static const char *const behind[] = {"y = identity(p)\n", "q = add(p, b)\ny = gelu(q)\n",
                                         "q = add(p, b)\ny = add(q, z)\n",
                                         "q = silu(p)\ny = mul(q, z)\n"};
    char text[640];
    for (uint32_t i = 0; i < 3 * 4 * 4 * 2; i++) {
        const char *dtype = dtypes[i % 3];
        int side = sides[i / 3 % 4];
        snprintf(text, sizeof text,
                 "rlx 1\ninput x : %s[%d, 64]\ninput z : %s[%d, 64]\n"
                 "param w : %s[64, 64] = seeded(1, 1)\nparam b : %s[64] = seeded(2, 1)\n"
                 "p = matmul(x, w)%s\n%soutput y\n",
                 dtype, side, dtype, side, dtype, dtype, i / 48 == 0 ? "" : " transpose_b=true",
                 behind[i / 12 % 4]);
        rlx_status status = compile_text(text, all);
        if (status != RLX_OK) printf("%s%s\n", text, rlx_last_error());
        all->failed += status != RLX_OK;
        all->cases++;
    }
}

static void try_case(const char *folder, tally *all) {
    rlx_case self = {0};
    rlx_status status = rlx_case_open(folder, &self);
    /* What must fail has nothing to compile. */
    if (status == RLX_OK && self.error[0] == 0) {
        status = compile_case(&self, all);
        all->cases++;
    }
    if (status != RLX_OK) printf("%s: %s\n", folder, rlx_last_error());
    all->failed += status != RLX_OK;
    rlx_case_close(&self);
}

/* Folders with a model are cases; others hold cases. */
static void walk(const char *folder, uint32_t depth, tally *all) {
    char path[1024];
    struct dirent **entries = NULL;
    snprintf(path, sizeof path, "%s/model.rlx", folder);
    if (access(path, R_OK) == 0) {
        if (!all->is_quick || strstr(folder, "/elementwise/") == NULL) try_case(folder, all);
        return;
    }
    int count = depth < 4 ? scandir(folder, &entries, NULL, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && entries[i]->d_type == DT_DIR)
            walk(path, depth + 1, all);
        free(entries[i]);
    }
    free(entries);
}

static bool is_product(uint32_t shader) {
    return shader == RLX_VK_MATMUL || shader == RLX_VK_MATMUL_TILE || shader == RLX_VK_MATMUL_VEC4;
}

/* The waves that products must leave room for. */
static uint32_t wanted_waves(const char *family) {
    if (strcmp(family, "NAVI21") == 0) return 8;
    return strcmp(family, "VEGA10") == 0 ? 4 : 1;
}

static uint32_t judge(const char *family) {
    uint32_t bad = 0;
    printf("%-14s %9s %6s %6s %6s %7s\n", family, "pipelines", "spills", "VGPRs", "waves", "LDS");
    for (uint32_t i = 0; i < RLX_VK_SHADER_COUNT; i++) {
        const shader_row *row = &rows[i];
        bool is_slow = is_product(i) && row->pipelines > 0 && row->waves < wanted_waves(family);
        if (row->pipelines == 0) continue;
        printf("%-14s %9u %6u %6u %6u %7u%s\n", shader_names[i], row->pipelines,
               (uint32_t)row->spills, row->vgprs, row->waves, row->lds,
               row->spills > 0 ? "  spills"
               : is_slow       ? "  too few waves"
                               : "");
        bad += row->spills > 0 || is_slow;
    }
    return bad;
}

int main(int argc, char **argv) {
    enum { SKIPPED = 77 };
    const char *family = getenv("RADV_FORCE_FAMILY");
    tally all = {.is_quick = argc > 1 && strcmp(argv[1], "quick") == 0};
    rlx_vk_set_shim(install);
    if (family == NULL || rlx_engine_probe("vulkan:0") != RLX_OK) {
        printf("skipped: %s\n",
               family == NULL ? "RADV_FORCE_FAMILY names no GPU" : rlx_last_error());
        return SKIPPED;
    }
    try_products(&all);
    walk("../ops/cases", 0, &all);
    uint32_t bad = judge(family);
    rlx_engine_release_devices();
    printf("%u cases, %u not compiled, %u pipelines, %u shaders below the mark\n", all.cases,
           all.failed, all.seen, bad);
    return all.cases == 0 || all.failed > 0 || bad > 0;
}
