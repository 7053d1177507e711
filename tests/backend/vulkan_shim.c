/* SPDX-License-Identifier: Apache-2.0 */
/* What the backend calls instead of the driver: counts, fails on demand, and pretends. */
#include "backend/vulkan_shim.h"

#include <stdio.h>
#include <stdlib.h>

vulkan_shim shim;

/* The driver's tables. */
static rlx_vk_functions real;
static rlx_vk_instance real_instance;

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

int shim_begin(void **state) {
    (void)state;
    memset(&shim, 0, sizeof shim);
    shim.fail_at = UINT64_MAX;
    shim.failure = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    return 0;
}

bool shim_install(void) {
    rlx_device *device = NULL;
    if (rlx_device_open(SOFTWARE, NULL, &device) != RLX_OK) {
        printf("skipped: %s\n", rlx_last_error());
        return false;
    }
    rlx_device_release(device);
    rlx_vk_set_shim(install);
    return true;
}

rlx_status decoder_open(decoder *self, const char *device, rlx_device_memory memory) {
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

rlx_status decoder_step(decoder *self, rlx_exec *exec, int64_t position) {
    int64_t token = (position * 7 + 3) % VOCABULARY;
    RLX_TRY(rlx_exec_set(exec, 0, "tokens", &token, sizeof token));
    RLX_TRY(rlx_exec_set(exec, 0, "position", &position, sizeof position));
    RLX_TRY(rlx_exec_run(exec, 0));
    return rlx_exec_read_output_f32(exec, 0, 0, self->logits[position], VOCABULARY, NULL);
}

rlx_status decoder_run(decoder *self) {
    for (int64_t i = 0; i < TOKENS; i++)
        RLX_TRY(decoder_step(self, self->exec, i));
    return RLX_OK;
}

void decoder_close(decoder *self) {
    rlx_exec_destroy(self->exec);
    rlx_program_release(self->program);
    rlx_session_destroy(self->session);
    rlx_device_release(self->device);
    self->exec = NULL;
}
