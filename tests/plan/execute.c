/* SPDX-License-Identifier: Apache-2.0 */
/* See execute.h. */
#include "execute.h"

#include "ref/kernel.h"

#include <stdlib.h>

enum { MOST_BYTES = 1 << 20, MOST_WORK = 1 << 18, MOST_OPERANDS = 64 };

typedef struct execution {
    const rlx_plan *plan;
    uint8_t **blocks; /* per buffer */
    rlx_fault fault;
} execution;

static uint64_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Small integers in every other buffer, so that positions and indices are often right; any bytes in
 * the rest. */
static void fill(uint8_t *block, uint64_t bytes, bool is_small, uint64_t *random) {
    for (uint64_t i = 0; i < bytes; i++) {
        uint64_t value = next_random(random);
        block[i] = (uint8_t)(!is_small ? value : i % 8 == 0 ? value % 4 : 0);
    }
}

static void free_blocks(execution *e) {
    for (uint32_t i = 0; e->blocks != NULL && i < e->plan->buffers.count; i++)
        free(e->blocks[i]);
    free(e->blocks);
}

static bool make_blocks(execution *e, uint64_t seed) {
    uint64_t sum = 0;
    e->blocks = calloc((size_t)e->plan->buffers.count + 1, sizeof *e->blocks);
    for (uint32_t i = 0; e->blocks != NULL && i < e->plan->buffers.count; i++) {
        uint64_t bytes = e->plan->buffers.items[i].bytes;
        void *block = NULL;
        if (bytes > MOST_BYTES || (sum += bytes) > MOST_BYTES) return false;
        if (posix_memalign(&block, 64, bytes == 0 ? 1 : bytes) != 0) return false;
        fill(block, bytes, i % 2 == 0, &seed);
        e->blocks[i] = block;
    }
    return e->blocks != NULL;
}

static rlx_tensor tensor_of(const execution *e, uint32_t slot) {
    rlx_tensor tensor = {0};
    if (slot == RLX_NONE) return tensor;
    const rlx_plan_slot *from = &e->plan->slots.items[slot];
    tensor = rlx_plan_tensor(from);
    tensor.data = e->blocks[from->buffer] + from->byte_offset;
    return tensor;
}

static bool is_output(const rlx_plan_step *step, const uint32_t *operands, uint32_t slot) {
    for (uint32_t i = 0; i < step->output_count; i++) {
        if (operands[step->input_count + i] == slot) return true;
    }
    return false;
}

/* As the runtime does: an extent that is no size of its dim counts as the planned one. */
static void apply_extents(const execution *e, const rlx_plan_step *step, const uint32_t *operands,
                          uint32_t slot, rlx_tensor *tensor) {
    if (slot == RLX_NONE) return;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        uint32_t extent = e->plan->slots.items[slot].extents[i];
        if (extent == RLX_NONE || is_output(step, operands, extent)) continue;
        rlx_tensor scalar = tensor_of(e, extent);
        int64_t value;
        memcpy(&value, scalar.data, sizeof value);
        if (value >= 0 && value <= tensor->dims[i]) tensor->dims[i] = value;
    }
}

/* Windows and pads come from attributes, not from dims. */
static bool has_short_windows(const rlx_plan_step *step) {
    const rlx_pool_attrs *pool = step->attrs;
    int64_t work = 1;
    if (step->op != RLX_OP_MAX_POOL && step->op != RLX_OP_AVERAGE_POOL) return true;
    for (uint32_t i = 0; i < pool->kernel.count; i++) {
        if (pool->kernel.items[i] > 64) return false;
        work *= pool->kernel.items[i] < 1 ? 1 : pool->kernel.items[i];
    }
    return work <= 4096;
}

static bool is_short(const rlx_kernel *kernel, const rlx_kernel_args *args, int64_t items) {
    int64_t work = 1;
    for (uint32_t i = 0; i < args->in_count + args->out_count; i++) {
        const rlx_tensor *tensor =
            i < args->in_count ? &args->in[i] : &args->out[i - args->in_count];
        if (tensor->data != NULL && rlx_tensor_elements(tensor) > work) {
            work = rlx_tensor_elements(tensor);
        }
    }
    if (items > MOST_WORK || work > MOST_WORK) return false;
    return kernel->item_cost == NULL || items == 0 || kernel->item_cost(args) <= MOST_WORK / items;
}

static bool run_kernel(execution *e, const rlx_plan_step *step, uint32_t index,
                       const rlx_tensor *tensors) {
    const rlx_kernel *kernel = rlx_ref_kernel(step->op);
    rlx_kernel_args args = {.op = step->op,
                            .step = index,
                            .attrs = step->attrs,
                            .in = tensors,
                            .out = tensors + step->input_count,
                            .in_count = step->input_count,
                            .out_count = step->output_count,
                            .fault = &e->fault};
    if (kernel == NULL || !has_short_windows(step)) return false;
    if (kernel->workspace_bytes != NULL) {
        /* The runtime refuses a step that was planned with less than its kernel wants. */
        uint64_t need = kernel->workspace_bytes(&args);
        if (need > step->workspace_bytes) return false;
        if (step->workspace != RLX_NONE) args.workspace = e->blocks[step->workspace];
    }
    int64_t items = kernel->items(&args);
    if (!is_short(kernel, &args, items)) return false;
    if (items > 0) kernel->run(&args, 0, items);
    return true;
}

static bool run_step(execution *e, uint32_t index) {
    const rlx_plan_step *step = &e->plan->steps.items[index];
    const uint32_t *operands = e->plan->operands.items + step->operands_at;
    rlx_tensor tensors[MOST_OPERANDS];
    uint32_t count = step->input_count + step->output_count;
    uint64_t bytes;
    if (step->kind == RLX_STEP_JUMP || count > MOST_OPERANDS) return false;
    for (uint32_t i = 0; i < count; i++) {
        tensors[i] = tensor_of(e, operands[i]);
        apply_extents(e, step, operands, operands[i], &tensors[i]);
    }
    if (step->kind != RLX_STEP_COPY) return run_kernel(e, step, index, tensors);
    if (rlx_plan_slot_bytes(&e->plan->slots.items[operands[0]], &bytes) != RLX_OK) return false;
    memmove(tensors[1].data, tensors[0].data, bytes);
    return true;
}

uint32_t execute_plan(const rlx_plan *plan, uint64_t seed) {
    execution e = {.plan = plan};
    uint32_t count = 0;
    if (make_blocks(&e, seed)) {
        for (uint32_t i = 0; i < plan->steps.count; i++)
            count += run_step(&e, i);
    }
    free_blocks(&e);
    return count;
}
