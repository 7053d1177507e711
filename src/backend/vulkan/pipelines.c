/* SPDX-License-Identifier: Apache-2.0 */
/* Shaders and the pipelines made from them. A pipeline is made when the first stretch needs it and
 * kept as long as the device. */
#include "backend/vulkan/device.h"

#include "backend/vulkan/chain.h"
#include "base/hash.h"

#include <string.h>

/* SPIR-V, compiled by glslc while rlx was built. */
#define RLX_VK_SHADER(upper, lower) static const uint32_t lower##_words[] =
#include <shader_words.inc>
#undef RLX_VK_SHADER

static const struct {
    const uint32_t *words;
    uint32_t count;
    const char *name;
} shaders[] = {
#define RLX_VK_SHADER(upper, lower) \
    {lower##_words, sizeof lower##_words / sizeof(uint32_t), #lower},
#include "backend/vulkan/pipelines.def"
#undef RLX_VK_SHADER
};

uint64_t rlx_vk_shaders_hash(void) {
    uint64_t value = RLX_HASH_SEED;
    for (uint32_t i = 0; i < sizeof shaders / sizeof *shaders; i++)
        value = rlx_hash(value, shaders[i].words, shaders[i].count * sizeof(uint32_t));
    return value;
}

/* Of what a chain computes; its inputs' dtypes are in the key already. */
static uint64_t hash_code(const rlx_vk_dispatch *dispatch) {
    uint64_t value = RLX_HASH_SEED;
    for (uint32_t i = 0; i < dispatch->code_count; i++) {
        int64_t words[RLX_CHAIN_WORDS];
        rlx_chain_encode(&dispatch->code[i], words);
        value = rlx_hash(value, words, sizeof words);
    }
    return value;
}

static rlx_vk_key key_of(const rlx_vk_dispatch *dispatch, const rlx_dtype *dtypes) {
    rlx_vk_key key;
    memset(&key, 0, sizeof key); /* keys are compared as bytes */
    key.shader = (uint32_t)dispatch->shader;
    key.code = dispatch->code == NULL ? 0 : hash_code(dispatch);
    for (uint32_t i = 0; i < RLX_VK_BINDINGS; i++)
        key.dtypes[i] = (uint32_t)dtypes[i];
    memcpy(key.constants, dispatch->constants, sizeof key.constants);
    return key;
}

/* The bindings that a module names: what is decorated with one. */
static uint32_t named_bindings(const uint32_t *words, uint32_t count) {
    enum { HEADER_WORDS = 5, OP_FUNCTION = 54, OP_DECORATE = 71, BINDING = 33 };
    uint32_t found = 0;
    for (uint32_t at = HEADER_WORDS; at < count && (words[at] & 0xffff) != OP_FUNCTION;
         at += words[at] >> 16) {
        if ((words[at] & 0xffff) == OP_DECORATE && words[at + 2] == BINDING) {
            found |= 1u << words[at + 3];
        }
    }
    return found;
}

/* The least layout that has what a dispatch uses. A chain uses what it loads. */
static uint32_t layout_of(const rlx_vk_dispatch *dispatch) {
    uint32_t used = 1, layout = 0;
    for (uint32_t i = 1; i < RLX_VK_BINDINGS && dispatch->code != NULL; i++)
        used |= (uint32_t)(dispatch->operands[i] != RLX_NONE) << i;
    if (dispatch->faults) used |= 1u << RLX_VK_FAULT_BINDING;
    if (dispatch->code == NULL) {
        used = named_bindings(shaders[dispatch->shader].words, shaders[dispatch->shader].count);
    }
    while ((used & ~rlx_vk_layout_bindings(layout)) != 0)
        layout++;
    return layout;
}

static rlx_status create_module(rlx_vk_device *device, const uint32_t *words, uint32_t count,
                                VkShaderModule *out_module) {
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = count * sizeof(uint32_t),
                                     .pCode = words};
    return rlx_vk_check(device,
                        device->vk.CreateShaderModule(device->handle, &info, NULL, out_module),
                        "vkCreateShaderModule");
}

/* The module of a dispatch: a chain is put together first. */
static rlx_status make_module(rlx_vk_device *device, const rlx_vk_dispatch *dispatch,
                              const rlx_dtype *dtypes, VkShaderModule *out_module) {
    const uint32_t *words = shaders[dispatch->shader].words;
    uint32_t count = shaders[dispatch->shader].count;
    rlx_vk_code code = {0};
    rlx_status status;
    if (dispatch->code == NULL) return create_module(device, words, count, out_module);
    RLX_TRY(rlx_vk_chain_assemble(&device->base.allocator, words, count, dispatch->code,
                                  dispatch->code_count, dtypes + 1, &code));
    status = create_module(device, code.items, code.count, out_module);
    rlx_vec_free(&device->base.allocator, &code);
    return status;
}

static rlx_status create_pipeline(rlx_vk_device *device, VkShaderModule module,
                                  rlx_vk_pipeline *made) {
    enum { FIRST_CONSTANT = 20 };
    uint32_t data[RLX_VK_BINDINGS + RLX_VK_CONSTANTS];
    VkSpecializationMapEntry entries[RLX_VK_BINDINGS + RLX_VK_CONSTANTS];
    const rlx_vk_key *key = &made->key;
    uint32_t count = 0;
    for (uint32_t i = 0; i < RLX_VK_BINDINGS; i++, count++) {
        data[count] = key->dtypes[i];
        entries[count] = (VkSpecializationMapEntry){i, count * 4, 4};
    }
    for (uint32_t i = 0; i < RLX_VK_CONSTANTS; i++, count++) {
        data[count] = key->constants[i];
        entries[count] = (VkSpecializationMapEntry){FIRST_CONSTANT + i, count * 4, 4};
    }
    VkSpecializationInfo special = {count, entries, sizeof data, data};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &special},
        .layout = device->layouts[made->layout].pipeline};
    return rlx_vk_check(device,
                        device->vk.CreateComputePipelines(device->handle, device->cache, 1, &info,
                                                          NULL, &made->handle),
                        "vkCreateComputePipelines");
}

static rlx_status find_locked(rlx_vk_device *device, const rlx_vk_dispatch *dispatch,
                              const rlx_dtype *dtypes, rlx_vk_pipeline *out_pipeline) {
    rlx_vk_pipeline made = {.key = key_of(dispatch, dtypes), .layout = layout_of(dispatch)};
    VkShaderModule module = VK_NULL_HANDLE;
    rlx_status status;
    for (uint32_t i = 0; i < device->pipelines.count; i++) {
        if (memcmp(&device->pipelines.items[i].key, &made.key, sizeof made.key) != 0) continue;
        *out_pipeline = device->pipelines.items[i];
        return RLX_OK;
    }
    RLX_TRY(
        rlx_vec_reserve(&device->base.allocator, &device->pipelines, device->pipelines.count + 1));
    RLX_TRY_WITH(make_module(device, dispatch, dtypes, &module), "shader '%s'",
                 shaders[dispatch->shader].name);
    status = create_pipeline(device, module, &made);
    device->vk.DestroyShaderModule(device->handle, module, NULL);
    if (status != RLX_OK) {
        return rlx_fail_context(status, "shader '%s'", shaders[dispatch->shader].name);
    }
    device->pipelines.items[device->pipelines.count++] = made;
    atomic_fetch_add(&device->pipelines_made, 1);
    *out_pipeline = made;
    return RLX_OK;
}

rlx_status rlx_vk_find_pipeline(rlx_vk_device *device, const rlx_vk_dispatch *dispatch,
                                const rlx_dtype *dtypes, VkPipeline *out_pipeline,
                                uint32_t *out_layout) {
    rlx_vk_pipeline found = {0};
    rlx_status status;
    pthread_mutex_lock(&device->lock);
    status = find_locked(device, dispatch, dtypes, &found);
    pthread_mutex_unlock(&device->lock);
    if (status != RLX_OK) return status;
    *out_pipeline = found.handle;
    *out_layout = found.layout;
    return RLX_OK;
}
