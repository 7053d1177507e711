/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled pipelines in a file between runs of a program. Its name has the driver, the device and
 * our shaders in it, and its head says how long it is and what it sums up to: a file of anybody
 * else, or a broken one, is ignored and written anew. A cache that cannot be written is no error:
 * everything works without one. */
#include "backend/vulkan/device.h"

#include "base/hash.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 256 << 20 };
static const char magic[8] = "rlxvk 1";

typedef struct head {
    char magic[8];
    uint64_t bytes, sum;
} head;

/* False: the folder's name is too long. */
static bool name_file(const rlx_vk_device *device, const char *folder, char *path, size_t bytes) {
    char uuid[2 * VK_UUID_SIZE + 1];
    for (uint32_t i = 0; i < VK_UUID_SIZE; i++)
        (void)snprintf(uuid + 2 * i, 3, "%02x", device->caps.cache_uuid[i]);
    int length = snprintf(path, bytes, "%s/vulkan-%04x-%04x-%08x-%s-%016" PRIx64, folder,
                          device->caps.vendor, device->caps.device, device->caps.driver_version,
                          uuid, rlx_vk_shaders_hash());
    return length > 0 && (size_t)length < bytes;
}

/* The payload, owned by the caller; NULL: there is none to believe. */
static void *read_payload(const rlx_allocator *allocator, FILE *file, uint64_t *out_bytes) {
    head top;
    void *data = NULL;
    if (fread(&top, sizeof top, 1, file) != 1) return NULL;
    if (memcmp(top.magic, magic, sizeof magic) != 0 || top.bytes > MOST_BYTES) return NULL;
    if (rlx_alloc_zero(allocator, top.bytes + 1, &data) != RLX_OK) return NULL;
    if (fread(data, 1, (size_t)top.bytes, file) != top.bytes || fgetc(file) != EOF ||
        rlx_hash(RLX_HASH_SEED, data, (size_t)top.bytes) != top.sum) {
        rlx_free(allocator, data);
        return NULL;
    }
    *out_bytes = top.bytes;
    return data;
}

rlx_status rlx_vk_cache_create(rlx_vk_device *device, const char *folder) {
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    const rlx_allocator *allocator = &device->base.allocator;
    FILE *file = NULL;
    void *data = NULL;
    uint64_t bytes = 0;
    VkResult result;
    if (folder != NULL &&
        name_file(device, folder, device->cache_path, sizeof device->cache_path)) {
        file = fopen(device->cache_path, "rb");
    } else {
        device->cache_path[0] = 0;
    }
    if (file != NULL) {
        data = read_payload(allocator, file, &bytes);
        (void)fclose(file);
    }
    info.initialDataSize = (size_t)bytes;
    info.pInitialData = data;
    result = device->vk.CreatePipelineCache(device->handle, &info, NULL, &device->cache);
    rlx_free(allocator, data);
    return rlx_vk_check(device, result, "vkCreatePipelineCache");
}

/* Under a name of our own first: readers see the old file or the new one, never half of it. */
static bool write_file(const char *path, const head *top, const void *data) {
    char other[560];
    FILE *file;
    bool is_written;
    (void)snprintf(other, sizeof other, "%s.%ld", path, (long)getpid());
    file = fopen(other, "wb");
    if (file == NULL) return false;
    is_written = fwrite(top, sizeof *top, 1, file) == 1 &&
                 fwrite(data, 1, (size_t)top->bytes, file) == top->bytes;
    is_written = fclose(file) == 0 && is_written;
    if (is_written && rename(other, path) == 0) return true;
    (void)remove(other);
    return false;
}

void rlx_vk_cache_save(rlx_vk_device *device) {
    const rlx_allocator *allocator = &device->base.allocator;
    head top = {.bytes = 0};
    size_t bytes = 0;
    void *data = NULL;
    if (device->cache_path[0] == 0 || device->cache == VK_NULL_HANDLE ||
        atomic_load(&device->pipelines_made) == 0 || atomic_load(&device->is_lost) != 0) {
        return;
    }
    if (device->vk.GetPipelineCacheData(device->handle, device->cache, &bytes, NULL) !=
            VK_SUCCESS ||
        bytes == 0 || bytes > MOST_BYTES || rlx_alloc_zero(allocator, bytes, &data) != RLX_OK) {
        return;
    }
    if (device->vk.GetPipelineCacheData(device->handle, device->cache, &bytes, data) ==
        VK_SUCCESS) {
        memcpy(top.magic, magic, sizeof magic);
        top.bytes = bytes;
        top.sum = rlx_hash(RLX_HASH_SEED, data, bytes);
        if (!write_file(device->cache_path, &top, data)) {
            rlx_log(RLX_LOG_INFO, "pipelines of %s are not kept: cannot write '%s'", device->name,
                    device->cache_path);
        }
    }
    rlx_free(allocator, data);
}
