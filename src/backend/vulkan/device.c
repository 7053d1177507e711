/* SPDX-License-Identifier: Apache-2.0 */
/* Vulkan devices: found once per process, opened by index, name or UUID. "vulkan" alone is the best
 * GPU; a software driver is never taken unasked. */
#include "backend/vulkan/device.h"

#include "backend/vulkan/vulkan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 16 };

static const char *const type_names[] = {"other device", "integrated GPU", "discrete GPU",
                                         "virtual GPU", "software"};

/* What was found; filled once. Texts live as long as the process. */
static pthread_mutex_t found_lock = PTHREAD_MUTEX_INITIALIZER;
static bool was_searched;
static uint32_t found_count;
static rlx_vk_caps found[MOST_DEVICES];
static char found_names[MOST_DEVICES][24];
static char found_texts[MOST_DEVICES][VK_MAX_PHYSICAL_DEVICE_NAME_SIZE + 64];
static char why_none[256];

static const char *type_name(VkPhysicalDeviceType type) {
    return (uint32_t)type < sizeof type_names / sizeof *type_names ? type_names[type] : "device";
}

static rlx_status list_handles(const rlx_vk_instance *instance, VkPhysicalDevice *handles,
                               uint32_t *out_count) {
    uint32_t count = MOST_DEVICES;
    VkResult result = instance->EnumeratePhysicalDevices(instance->handle, &count, handles);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
        return rlx_vk_fail(result, "vkEnumeratePhysicalDevices");
    }
    if (count == 0) return RLX_FAIL(RLX_UNSUPPORTED, "no Vulkan device on this machine");
    *out_count = count;
    return RLX_OK;
}

static void describe(const rlx_vk_caps *caps, char *text, size_t bytes) {
    (void)snprintf(text, bytes, "%.200s (%s), Vulkan %u.%u", caps->name, type_name(caps->type),
                   VK_API_VERSION_MAJOR(caps->api_version),
                   VK_API_VERSION_MINOR(caps->api_version));
}

static rlx_status search(void) {
    rlx_vk_instance instance;
    VkPhysicalDevice handles[MOST_DEVICES];
    uint32_t count = 0;
    rlx_status status;
    RLX_TRY(rlx_vk_instance_open(&instance));
    status = list_handles(&instance, handles, &count);
    for (uint32_t i = 0; status == RLX_OK && i < count; i++) {
        rlx_vk_query(&instance, handles[i], &found[i]);
        (void)snprintf(found_names[i], sizeof found_names[i], "vulkan:%u", i);
        describe(&found[i], found_texts[i], sizeof found_texts[i]);
    }
    rlx_vk_instance_close(&instance);
    found_count = count;
    return status;
}

/* How many there are; asks the drivers the first time. */
static uint32_t find_all(void) {
    uint32_t count;
    pthread_mutex_lock(&found_lock);
    if (!was_searched) {
        if (search() != RLX_OK) {
            (void)snprintf(why_none, sizeof why_none, "%s", rlx_last_error());
        }
        was_searched = true;
    }
    count = found_count;
    pthread_mutex_unlock(&found_lock);
    return count;
}

/* Without any device one row says why. */
static uint32_t vk_count(void) {
    uint32_t count = find_all();
    return count == 0 ? 1 : count;
}

static uint64_t memory_bytes(const rlx_vk_caps *caps) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < caps->memory.memoryHeapCount; i++) {
        if ((caps->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0 &&
            caps->memory.memoryHeaps[i].size > most) {
            most = caps->memory.memoryHeaps[i].size;
        }
    }
    return most;
}

static void vk_at(uint32_t index, rlx_device_info *out_info) {
    *out_info = (rlx_device_info){
        .name = "vulkan", .kind = "vulkan", .description = "", .target = "", .missing = why_none};
    if (index >= find_all()) return;
    *out_info = (rlx_device_info){.name = found_names[index],
                                  .kind = "vulkan",
                                  .description = found_texts[index],
                                  .target = "",
                                  .missing = rlx_vk_missing(&found[index]),
                                  .memory_bytes = memory_bytes(&found[index]),
                                  .alignment = RLX_VK_ALIGNMENT};
    if (out_info->missing[0] != 0) return;
    out_info->is_available = true;
    out_info->target =
        found[index].type == VK_PHYSICAL_DEVICE_TYPE_CPU ? "vulkan/cpu" : "vulkan/gpu";
}

static bool has_part(const char *text, const char *part) {
    size_t length = strlen(part);
    for (; *text != 0; text++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == length) return true;
    }
    return false;
}

/* "00112233-4455-..." or the same without dashes. */
static bool is_uuid(const char *text, const uint8_t *uuid) {
    char digits[2 * VK_UUID_SIZE + 1], wanted[2 * VK_UUID_SIZE + 1];
    size_t count = 0;
    for (; *text != 0; text++) {
        if (*text == '-') continue;
        if (!isxdigit((unsigned char)*text) || count == 2 * VK_UUID_SIZE) return false;
        wanted[count++] = (char)tolower((unsigned char)*text);
    }
    wanted[count] = 0;
    for (uint32_t i = 0; i < VK_UUID_SIZE; i++)
        (void)snprintf(digits + 2 * i, 3, "%02x", uuid[i]);
    return strcmp(digits, wanted) == 0;
}

/* Discrete before integrated before virtual; software never. */
static uint32_t best_gpu(void) {
    static const VkPhysicalDeviceType order[] = {VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                                                 VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
                                                 VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU};
    for (uint32_t k = 0; k < sizeof order / sizeof *order; k++) {
        for (uint32_t i = 0; i < found_count; i++) {
            if (found[i].type == order[k] && rlx_vk_missing(&found[i])[0] == 0) return i;
        }
    }
    return UINT32_MAX;
}

static uint32_t find_by_text(const char *text) {
    char *end = NULL;
    unsigned long index = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == 0) {
        return index < found_count ? (uint32_t)index : UINT32_MAX;
    }
    for (uint32_t i = 0; i < found_count; i++) {
        if (is_uuid(text, found[i].uuid)) return i;
    }
    for (uint32_t i = 0; text[0] != 0 && i < found_count; i++) {
        if (has_part(found[i].name, text)) return i;
    }
    return UINT32_MAX;
}

static rlx_status find_device(const char *name, uint32_t *out_index) {
    const char *colon = strchr(name, ':');
    uint32_t index, count = find_all();
    if (count == 0) return RLX_FAIL(RLX_UNSUPPORTED, "device '%s': %s", name, why_none);
    index = colon == NULL ? best_gpu() : find_by_text(colon + 1);
    if (index == UINT32_MAX && colon == NULL) {
        return RLX_FAIL(RLX_UNSUPPORTED,
                        "no GPU, only software: ask for it by number, name or UUID ('%s': %s)",
                        found_names[0], found[0].name);
    }
    if (index == UINT32_MAX) {
        return RLX_FAIL(RLX_NOT_FOUND, "no Vulkan device '%s' (have %u)", colon + 1, count);
    }
    if (rlx_vk_missing(&found[index])[0] != 0) {
        return RLX_FAIL(RLX_UNSUPPORTED, "device '%s': %s", name, rlx_vk_missing(&found[index]));
    }
    *out_index = index;
    return RLX_OK;
}

static rlx_status vk_target(const char *name, uint32_t threads, rlx_target *out_target) {
    uint32_t index = 0;
    (void)threads;
    RLX_TRY(find_device(name, &index));
    *out_target = rlx_vk_target(&found[index]);
    return RLX_OK;
}

static void destroy_handles(rlx_vk_device *self) {
    const rlx_vk_functions *vk = &self->vk;
    VkDevice handle = self->handle;
    (void)vk->DeviceWaitIdle(handle);
    rlx_vk_cache_save(self);
    for (uint32_t i = 0; i < self->pipelines.count; i++)
        vk->DestroyPipeline(handle, self->pipelines.items[i].handle, NULL);
    rlx_vk_ring_destroy(self, &self->up);
    rlx_vk_ring_destroy(self, &self->down);
    if (self->cache != VK_NULL_HANDLE) vk->DestroyPipelineCache(handle, self->cache, NULL);
    for (uint32_t i = 0; i < RLX_VK_LAYOUTS; i++) {
        const rlx_vk_layout *one = &self->layouts[i];
        if (one->pipeline != VK_NULL_HANDLE) vk->DestroyPipelineLayout(handle, one->pipeline, NULL);
        if (one->set != VK_NULL_HANDLE) vk->DestroyDescriptorSetLayout(handle, one->set, NULL);
    }
    if (self->pool != VK_NULL_HANDLE) vk->DestroyCommandPool(handle, self->pool, NULL);
    if (self->timeline != VK_NULL_HANDLE) vk->DestroySemaphore(handle, self->timeline, NULL);
    vk->DestroyDevice(handle, NULL);
}

static void vk_destroy(rlx_device *base) {
    rlx_vk_device *self = (rlx_vk_device *)base;
    rlx_allocator allocator = base->allocator;
    if (self->vk.DestroyDevice != NULL) destroy_handles(self);
    rlx_vec_free(&allocator, &self->pipelines);
    rlx_vk_instance_close(&self->instance);
    pthread_mutex_destroy(&self->lock);
    pthread_mutex_destroy(&self->copy_lock);
    rlx_free(&allocator, self);
}

static void vk_describe(const rlx_device *base, rlx_device_info *out_info) {
    const rlx_vk_device *self = (const rlx_vk_device *)base;
    *out_info = (rlx_device_info){.name = self->name,
                                  .kind = "vulkan",
                                  .description = self->description,
                                  .target = base->target.name,
                                  .missing = "",
                                  .is_available = true,
                                  .memory_bytes = memory_bytes(&self->caps),
                                  .alignment = base->target.alignment};
}

static void vk_read_work(rlx_device *base, rlx_device_work *out_work) {
    rlx_vk_device *self = (rlx_vk_device *)base;
    *out_work = (rlx_device_work){.recordings = atomic_load(&self->recordings),
                                  .submits = atomic_load(&self->submits),
                                  .pipelines = atomic_load(&self->pipelines_made),
                                  .upload_bytes = atomic_load(&self->upload_bytes),
                                  .download_bytes = atomic_load(&self->download_bytes)};
}

static const rlx_device_ops vk_ops = {.kind = "vulkan",
                                      .destroy = vk_destroy,
                                      .describe = vk_describe,
                                      .create_arena = rlx_vk_create_arena,
                                      .create_stream = rlx_vk_create_stream,
                                      .read_work = vk_read_work,
                                      .create_copy_engine = rlx_vk_create_copy_engine};

static rlx_status create_device(rlx_vk_device *self, VkPhysicalDevice physical) {
    float priority = 1;
    const uint32_t families[] = {self->caps.compute_family, self->caps.transfer_family};
    VkDeviceQueueCreateInfo queues[2];
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
        .timelineSemaphore = VK_TRUE};
    VkPhysicalDeviceFeatures features = {.shaderFloat64 = self->caps.has_f64};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &timeline,
                               .pEnabledFeatures = &features,
                               .queueCreateInfoCount = families[0] == families[1] ? 1 : 2,
                               .pQueueCreateInfos = queues};
    for (uint32_t i = 0; i < 2; i++) {
        queues[i] = (VkDeviceQueueCreateInfo){.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                              .queueFamilyIndex = families[i],
                                              .queueCount = 1,
                                              .pQueuePriorities = &priority};
    }
    VkResult result = self->instance.CreateDevice(physical, &info, NULL, &self->handle);
    if (result != VK_SUCCESS) return rlx_vk_fail(result, "vkCreateDevice");
    RLX_TRY(rlx_vk_load_device(&self->instance, self->handle, &self->vk));
    self->vk.GetDeviceQueue(self->handle, families[0], 0, &self->queue);
    self->vk.GetDeviceQueue(self->handle, families[1], 0, &self->copy_queue);
    return RLX_OK;
}

uint32_t rlx_vk_layout_bindings(uint32_t layout) {
    static const uint32_t bindings[RLX_VK_LAYOUTS] = {1u | 1u << 1 | 1u << 10, 0xfu | 1u << 10,
                                                      (1u << RLX_VK_BINDINGS) - 1};
    return bindings[layout];
}

static rlx_status create_layout(rlx_vk_device *self, uint32_t wanted, rlx_vk_layout *one) {
    VkDescriptorSetLayoutBinding bindings[RLX_VK_BINDINGS];
    VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .pBindings = bindings};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pSetLayouts = &one->set};
    for (uint32_t i = 0; i < RLX_VK_BINDINGS; i++) {
        if ((wanted >> i & 1) == 0) continue;
        bindings[set.bindingCount++] =
            (VkDescriptorSetLayoutBinding){.binding = i,
                                           .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                           .descriptorCount = 1,
                                           .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    }
    RLX_TRY(rlx_vk_check(self,
                         self->vk.CreateDescriptorSetLayout(self->handle, &set, NULL, &one->set),
                         "vkCreateDescriptorSetLayout"));
    return rlx_vk_check(self,
                        self->vk.CreatePipelineLayout(self->handle, &layout, NULL, &one->pipeline),
                        "vkCreatePipelineLayout");
}

static rlx_status create_layouts(rlx_vk_device *self) {
    for (uint32_t i = 0; i < RLX_VK_LAYOUTS; i++)
        RLX_TRY(create_layout(self, rlx_vk_layout_bindings(i), &self->layouts[i]));
    return RLX_OK;
}

static rlx_status create_queue_objects(rlx_vk_device *self) {
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                       .pNext = &type};
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = self->caps.compute_family};
    VkCommandBufferAllocateInfo buffer = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                          .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                          .commandBufferCount = 1};
    RLX_TRY(rlx_vk_check(self,
                         self->vk.CreateSemaphore(self->handle, &semaphore, NULL, &self->timeline),
                         "vkCreateSemaphore"));
    RLX_TRY(rlx_vk_check(self, self->vk.CreateCommandPool(self->handle, &pool, NULL, &self->pool),
                         "vkCreateCommandPool"));
    buffer.commandPool = self->pool;
    return rlx_vk_check(self,
                        self->vk.AllocateCommandBuffers(self->handle, &buffer, &self->transfer),
                        "vkAllocateCommandBuffers");
}

static rlx_status fill_device(rlx_vk_device *self, uint32_t index,
                              const rlx_device_options *options) {
    VkPhysicalDevice handles[MOST_DEVICES];
    uint32_t count = 0;
    RLX_TRY(rlx_vk_instance_open(&self->instance));
    RLX_TRY(list_handles(&self->instance, handles, &count));
    if (index >= count) return RLX_FAIL(RLX_DEVICE, "Vulkan device %u is gone", index);
    rlx_vk_query(&self->instance, handles[index], &self->caps);
    if (rlx_vk_missing(&self->caps)[0] != 0) {
        return RLX_FAIL(RLX_UNSUPPORTED, "%s", rlx_vk_missing(&self->caps));
    }
    RLX_TRY(rlx_vk_policy_of(&self->caps, options->memory, &self->policy));
    self->caps.is_plain = (options->flags & RLX_DEVICE_PLAIN_SHADERS) != 0;
    if ((options->flags & RLX_DEVICE_GPU_SHADERS) != 0) self->caps.is_software = false;
    self->records_always = (options->flags & RLX_DEVICE_RECORD_ALWAYS) != 0;
    describe(&self->caps, self->description, sizeof self->description);
    self->base.target = rlx_vk_target(&self->caps);
    RLX_TRY(create_device(self, handles[index]));
    RLX_TRY(create_layouts(self));
    RLX_TRY(create_queue_objects(self));
    RLX_TRY(rlx_vk_cache_create(self, options->cache_folder));
    if (!self->policy.is_staged) return RLX_OK;
    RLX_TRY(rlx_vk_ring_create(self, self->pool, RLX_VK_UPLOAD, &self->up));
    return rlx_vk_ring_create(self, self->pool, RLX_VK_READBACK, &self->down);
}

static rlx_status vk_open(const char *name, const rlx_device_options *options,
                          rlx_device **out_device) {
    const rlx_allocator *allocator =
        options->allocator != NULL ? options->allocator : rlx_default_allocator();
    rlx_vk_device *self = NULL;
    uint32_t index = 0;
    rlx_status status;
    RLX_TRY(find_device(name, &index));
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *self, (void **)&self));
    self->base.ops = &vk_ops;
    self->base.allocator = *allocator;
    atomic_init(&self->base.owners, 1);
    pthread_mutex_init(&self->lock, NULL);
    pthread_mutex_init(&self->copy_lock, NULL);
    (void)snprintf(self->name, sizeof self->name, "vulkan:%u", index);
    status = fill_device(self, index, options);
    if (status != RLX_OK) {
        vk_destroy(&self->base);
        return rlx_fail_context(status, "device '%s'", name);
    }
    *out_device = &self->base;
    return RLX_OK;
}

const rlx_backend rlx_vulkan_backend = {"vulkan", vk_count, vk_at, vk_target, vk_open};
