/* SPDX-License-Identifier: Apache-2.0 */
/* What a compile may ask about a Vulkan device: whether there is a shader. The same lowering that
 * records a step answers, so a plan never promises what the stream cannot do. */
#include "backend/vulkan/device.h"

#include "base/size.h"
#include "ir/chain.h"
#include "ref/kernel.h"

#include <stdio.h>

static const char *const shader_names[] = {
#define RLX_VK_SHADER(upper, lower) #lower,
#include "backend/vulkan/pipelines.def"
#undef RLX_VK_SHADER
};

static rlx_status note_shader(void *user, const rlx_vk_dispatch *dispatch) {
    *(const char **)user = shader_names[dispatch->shader];
    return RLX_OK;
}

static uint64_t elements(const rlx_tensor *tensor) {
    uint64_t count = 1;
    if (tensor->data == NULL) return 0;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (!rlx_mul_u64(count, (uint64_t)tensor->dims[i], &count)) return INT64_MAX;
    }
    return count;
}

static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product;
    return rlx_mul_u64(a, b, &product) && product < INT64_MAX ? product : INT64_MAX;
}

/* A multiply and an add count as two; rough for all but the dense ops. */
static uint64_t estimate_flops(const rlx_target_query *query) {
    uint64_t out = query->out_count == 0 ? 0 : elements(&query->out[0]);
    const rlx_tensor *a = query->in_count == 0 ? NULL : &query->in[0];
    uint64_t in = a == NULL ? 0 : elements(a);
    if (query->op == RLX_OP_MATMUL && a->rank > 0) {
        const rlx_matmul_attrs *attrs = query->attrs;
        bool is_turned = a->rank > 1 && attrs->transpose_a;
        return times(2 * out, (uint64_t)a->dims[a->rank - (is_turned ? 2 : 1)]);
    }
    if (query->op == RLX_OP_CONV && query->in[1].dims[0] != 0) {
        return times(2 * out, elements(&query->in[1]) / (uint64_t)query->in[1].dims[0]);
    }
    if (query->op == RLX_OP_ATTENTION) {
        return times(4 * out, (uint64_t)query->in[1].dims[2]);
    }
    return in > out ? in : out;
}

/* Scalar C on mapped memory, with the workspace it wants. */
static void choose_host(const rlx_target_query *query, rlx_target_choice *choice) {
    const rlx_kernel *kernel = rlx_ref_kernel(query->op);
    rlx_kernel_args args = {.op = query->op,
                            .attrs = query->attrs,
                            .in = query->in,
                            .out = query->out,
                            .in_count = query->in_count,
                            .out_count = query->out_count};
    if (kernel == NULL) return;
    choice->placement = RLX_PLACED_HOST;
    choice->kernel = kernel->name;
    if (kernel->workspace_bytes != NULL) choice->workspace_bytes = kernel->workspace_bytes(&args);
}

static rlx_target_choice vk_choose(const rlx_target *target, const rlx_target_query *query) {
    const char *shader = "nothing to do";
    rlx_target_choice choice = {.kernel = "", .flops = estimate_flops(query)};
    rlx_vk_lowering lowering = {
        .caps = target->user, .query = query, .emit = note_shader, .user = &shader};
    rlx_vk_lower(&lowering);
    if (lowering.why == NULL) {
        choice.placement = RLX_PLACED_NATIVE;
        choice.kernel = shader;
        choice.reason = "shader";
        choice.workspace_bytes = lowering.workspace_bytes;
        return choice;
    }
    choice.reason = lowering.why;
    choose_host(query, &choice);
    return choice;
}

/* Rough speeds, to cut stretches at about 100 ms. */
static void guess_speed(VkPhysicalDeviceType type, rlx_target *target) {
    target->flops_per_second = UINT64_C(2000000000);
    target->bytes_per_second = UINT64_C(4000000000);
    if (type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU) {
        target->flops_per_second = UINT64_C(200000000000);
        target->bytes_per_second = UINT64_C(20000000000);
    } else if (type != VK_PHYSICAL_DEVICE_TYPE_CPU) {
        target->flops_per_second = UINT64_C(1000000000000);
        target->bytes_per_second = UINT64_C(100000000000);
    }
}

rlx_target rlx_vk_target(const rlx_vk_caps *caps) {
    rlx_target target = {.alignment = RLX_VK_ALIGNMENT,
                         .block_bytes = rlx_vk_block_bytes(caps),
                         .workers = 1,
                         .choose = vk_choose,
                         .user = caps};
    guess_speed(caps->type, &target);
    (void)snprintf(target.name, sizeof target.name, "vulkan/%s",
                   caps->type == VK_PHYSICAL_DEVICE_TYPE_CPU ? "cpu" : "gpu");
    return target;
}
