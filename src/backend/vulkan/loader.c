/* SPDX-License-Identifier: Apache-2.0 */
/* Opens libvulkan and fills function tables. See loader.h. */
#include "backend/vulkan/loader.h"

#include <dlfcn.h>
#include <string.h>

static const char library_name[] = "libvulkan.so.1";
static rlx_vk_shim the_shim;

void rlx_vk_set_shim(rlx_vk_shim shim) {
    the_shim = shim;
}

/* Function pointers from a driver come as PFN_vkVoidFunction; ISO C has no other way than this to
 * store them in members of many types. */
static void store(void *member, PFN_vkVoidFunction function) {
    memcpy(member, &function, sizeof function);
}

static rlx_status open_library(rlx_vk_instance *self) {
    void *symbol;
    self->library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (self->library == NULL) {
        return RLX_FAIL(RLX_UNSUPPORTED, "no Vulkan loader (%s) on this machine", library_name);
    }
    symbol = dlsym(self->library, "vkGetInstanceProcAddr");
    memcpy(&self->get, &symbol, sizeof symbol);
    if (self->get == NULL) {
        return RLX_FAIL(RLX_UNSUPPORTED, "%s has no vkGetInstanceProcAddr", library_name);
    }
    return RLX_OK;
}

static rlx_status load_global(rlx_vk_instance *self) {
    PFN_vkVoidFunction function;
#define VK_GLOBAL(name)                                                                   \
    function = self->get(NULL, "vk" #name);                                               \
    if (function == NULL) return RLX_FAIL(RLX_UNSUPPORTED, "the loader has no vk" #name); \
    store(&self->name, function);
#define VK_INSTANCE(name)
#define VK_DEVICE(name)
#include "backend/vulkan/entry.def"
#undef VK_GLOBAL
#undef VK_INSTANCE
#undef VK_DEVICE
    return RLX_OK;
}

static rlx_status load_instance(rlx_vk_instance *self) {
    PFN_vkVoidFunction function;
#define VK_GLOBAL(name)
#define VK_INSTANCE(name)                                                                   \
    function = self->get(self->handle, "vk" #name);                                         \
    if (function == NULL) return RLX_FAIL(RLX_UNSUPPORTED, "the instance has no vk" #name); \
    store(&self->name, function);
#define VK_DEVICE(name)
#include "backend/vulkan/entry.def"
#undef VK_GLOBAL
#undef VK_INSTANCE
#undef VK_DEVICE
    return RLX_OK;
}

static rlx_status create_instance(rlx_vk_instance *self) {
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .pApplicationName = "rlx",
                                     .pEngineName = "rlx",
                                     .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &application};
    uint32_t version = 0;
    VkResult result = self->EnumerateInstanceVersion(&version);
    if (result != VK_SUCCESS) return rlx_vk_fail(result, "vkEnumerateInstanceVersion");
    if (version < VK_API_VERSION_1_2) {
        return RLX_FAIL(RLX_UNSUPPORTED, "the Vulkan loader is of version %u.%u, 1.2 is needed",
                        VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    }
    result = self->CreateInstance(&info, NULL, &self->handle);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
        return RLX_FAIL(RLX_UNSUPPORTED, "no Vulkan driver on this machine");
    }
    return result == VK_SUCCESS ? RLX_OK : rlx_vk_fail(result, "vkCreateInstance");
}

static rlx_status open_instance(rlx_vk_instance *self) {
    RLX_TRY(open_library(self));
    RLX_TRY(load_global(self));
    if (the_shim != NULL) the_shim(self, NULL);
    RLX_TRY(create_instance(self));
    RLX_TRY(load_instance(self));
    if (the_shim != NULL) the_shim(self, NULL);
    return RLX_OK;
}

rlx_status rlx_vk_instance_open(rlx_vk_instance *out_instance) {
    rlx_vk_instance self = {0};
    rlx_status status = open_instance(&self);
    if (status != RLX_OK) {
        rlx_vk_instance_close(&self);
        return status;
    }
    *out_instance = self;
    return RLX_OK;
}

void rlx_vk_instance_close(rlx_vk_instance *instance) {
    if (instance->handle != NULL && instance->DestroyInstance != NULL) {
        instance->DestroyInstance(instance->handle, NULL);
    }
    if (instance->library != NULL) (void)dlclose(instance->library);
    memset(instance, 0, sizeof *instance);
}

rlx_status rlx_vk_load_device(const rlx_vk_instance *instance, VkDevice device,
                              rlx_vk_functions *out_functions) {
    rlx_vk_functions table;
    PFN_vkVoidFunction function;
#define VK_GLOBAL(name)
#define VK_INSTANCE(name)
#define VK_DEVICE(name)                                                                   \
    function = instance->GetDeviceProcAddr(device, "vk" #name);                           \
    if (function == NULL) return RLX_FAIL(RLX_UNSUPPORTED, "the driver has no vk" #name); \
    store(&table.name, function);
#include "backend/vulkan/entry.def"
#undef VK_GLOBAL
#undef VK_INSTANCE
#undef VK_DEVICE
    *out_functions = table;
    if (the_shim != NULL) the_shim(NULL, out_functions);
    return RLX_OK;
}

rlx_status rlx_vk_fail(VkResult result, const char *what) {
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return RLX_FAIL(RLX_OUT_OF_MEMORY, "%s: the driver is out of host memory", what);
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        return RLX_FAIL(RLX_OUT_OF_MEMORY, "%s: out of device memory", what);
    case VK_ERROR_DEVICE_LOST:
        return RLX_FAIL(RLX_DEVICE, "%s: the device is lost", what);
    case VK_TIMEOUT:
        return RLX_FAIL(RLX_TIMEOUT, "%s: the device takes too long", what);
    default:
        return RLX_FAIL(RLX_DEVICE, "%s: VkResult %d", what, (int)result);
    }
}
