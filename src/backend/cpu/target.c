/* SPDX-License-Identifier: Apache-2.0 */
/* What a compile may ask about a CPU: which kernel, how much workspace, how many operations. Pure
 * functions of the level; opens nothing, so plans can be made for a CPU that is not here. */
#include "backend/cpu/cpu.h"

#include "base/size.h"
#include "ir/chain.h"

#include <stdio.h>

/* Products of counts. What is too much to count stays at 2^63 - 1. */
static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product;
    return rlx_mul_u64(a, b, &product) && product < INT64_MAX ? product : INT64_MAX;
}

static uint64_t elements(const rlx_tensor *tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        count = times(count, (uint64_t)tensor->dims[i]);
    return count;
}

/* The inner dimension of a matmul. */
static uint64_t inner(const rlx_target_query *query) {
    const rlx_matmul_attrs *attrs = query->attrs;
    const rlx_tensor *a = &query->in[0];
    if (a->rank == 0) return 1;
    if (a->rank >= 2 && attrs != NULL && attrs->transpose_a) return (uint64_t)a->dims[a->rank - 2];
    return (uint64_t)a->dims[a->rank - 1];
}

/* Elements of a weight per entry of its first axis. */
static uint64_t per_first(const rlx_tensor *weight) {
    uint64_t count = 1;
    for (uint32_t i = 1; i < weight->rank; i++)
        count = times(count, (uint64_t)weight->dims[i]);
    return count;
}

static uint64_t attention_flops(const rlx_target_query *query) {
    const rlx_tensor *k = &query->in[1], *v = &query->in[2];
    if (query->in[0].rank < 1 || k->rank < 2 || v->rank < 1) return 0;
    uint64_t scores = times(elements(&query->in[0]), (uint64_t)k->dims[k->rank - 2]);
    uint64_t sums = times(elements(&query->out[0]), (uint64_t)k->dims[k->rank - 2]);
    return times(2, scores + sums);
}

static bool is_winograd(const rlx_target_query *query) {
    return query->op == RLX_OP_CONV && ((const rlx_conv_attrs *)query->attrs)->winograd != 0;
}

/* A multiply and an add count as two. Rough for all but the dense ops. */
static uint64_t estimate_flops(const rlx_target_query *query) {
    uint64_t in = query->in_count == 0 || query->in[0].data == NULL ? 0 : elements(&query->in[0]);
    uint64_t out =
        query->out_count == 0 || query->out[0].data == NULL ? 0 : elements(&query->out[0]);
    switch (query->op) {
    case RLX_OP_MATMUL:
    case RLX_OP_MATMUL_QUANTISED:
        return times(2, times(out, inner(query)));
    case RLX_OP_CONV:
    case RLX_OP_CONV_QUANTISED: /* tap by tap, however it is computed */
        return times(2, times(out, is_winograd(query) ? times((uint64_t)query->in[1].dims[1], 9)
                                                      : per_first(&query->in[1])));
    case RLX_OP_CONV_TRANSPOSE:
        return times(2, times(in, per_first(&query->in[1])));
    case RLX_OP_ATTENTION:
        return attention_flops(query);
    case RLX_OP_RNN:
    case RLX_OP_GRU:
    case RLX_OP_LSTM: { /* each row of x, and of h, meets every weight of its direction */
        uint64_t rows = times((uint64_t)query->in[0].dims[0], (uint64_t)query->in[0].dims[1]);
        return times(2, times(rows, elements(&query->in[1]) + elements(&query->in[2])));
    }
    case RLX_OP_CHAIN: {
        const rlx_chain_attrs *attrs = query->attrs;
        return times(out, attrs->code.count / RLX_CHAIN_WORDS);
    }
    default:
        return in > out ? in : out;
    }
}

static bool has_extents(const rlx_target_query *query) {
    for (uint32_t i = 0; query->extents != NULL && i < query->in_count; i++) {
        if (query->extents[i] != 0) return true;
    }
    return false;
}

/* Whether the output should lie in the memory of the first input: where the kernel can do that for
 * dims that stay as they are, and all workers have about the same to do then. */
static bool overwrites_first(const rlx_cpu_level *level, const rlx_kernel *kernel,
                             const rlx_target_query *query, const rlx_kernel_args *args,
                             uint32_t workers) {
    int64_t parts = has_extents(query) ? 0 : rlx_cpu_overwrite_parts(level, kernel, args);
    if (workers == 0) workers = 1;
    return parts > 0 && (parts % workers == 0 || parts >= 4 * (int64_t)workers);
}

static rlx_target_choice cpu_choose(const rlx_target *target, const rlx_target_query *query) {
    const rlx_cpu_level *level = target->user;
    const rlx_kernel *kernel = rlx_cpu_choose(level, query);
    rlx_target_choice choice = {0};
    rlx_kernel_args args = {.op = query->op,
                            .attrs = query->attrs,
                            .in = query->in,
                            .out = query->out,
                            .in_count = query->in_count,
                            .out_count = query->out_count};
    if (kernel == NULL) {
        choice.kernel = "";
        choice.reason = "no CPU kernel for this op";
        return choice;
    }
    choice.placement = RLX_PLACED_NATIVE;
    choice.kernel = kernel->name;
    choice.reason = kernel == rlx_ref_kernel(query->op) ? "scalar C" : level->name;
    if (kernel->workspace_bytes != NULL) {
        /* Whole cache lines: each worker's part is aligned and nobody shares a line. What wraps
         * stays as it is and is refused where offsets are made. */
        choice.workspace_bytes = kernel->workspace_bytes(&args);
        (void)rlx_align_u64(choice.workspace_bytes, RLX_PLAN_ALIGNMENT, &choice.workspace_bytes);
    }
    choice.overwrites_first = overwrites_first(level, kernel, query, &args, target->workers);
    rlx_cpu_wanted_layouts(level, query, choice.in_layouts);
    choice.flops = estimate_flops(query);
    return choice;
}

rlx_target rlx_cpu_target(const rlx_cpu_level *level, uint32_t threads) {
    rlx_target target = {.alignment = RLX_PLAN_ALIGNMENT,
                         .workers = threads,
                         .flops_per_second = level->flops_per_second * threads,
                         .bytes_per_second = level->bytes_per_second,
                         .choose = cpu_choose,
                         .channel_block = level->channel_block,
                         .user = level};
    (void)snprintf(target.name, sizeof target.name, "%s", level->target);
    return target;
}
