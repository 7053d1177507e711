/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's stream: a stretch becomes an array of kernels with resolved operands, and submit walks
 * it. Small steps run on the caller; large ones are shared with the pool. A run allocates nothing
 * and looks nothing up. */
#include "backend/cpu/cpu.h"

#include "base/thread.h"
#include "driver/bind.h"

#include <string.h>

typedef struct cpu_op {
    rlx_kernel_fn run;
    rlx_kernel_args args; /* operands point into bound.tensors */
    int64_t items, chunk;
    bool is_shared;
    const rlx_kernel *kernel;
    const rlx_cpu_preparation *preparation; /* NULL: the kernel has none */
    void *prepared;                         /* what args.prepared points to */
    void (*start)(const rlx_kernel_args *); /* of the preparation */
    rlx_bound_step bound;
    uint64_t copy_bytes; /* copy steps: what args.attrs points to */
} cpu_op;

typedef struct cpu_stretch {
    rlx_stretch base;
    rlx_scratch memory; /* owned: everything below */
    cpu_op *ops;
} cpu_stretch;

typedef struct cpu_stream {
    rlx_stream base;
    rlx_cpu_device *device; /* borrowed */
} cpu_stream;

/* Copy steps move bytes in pieces of this size. */
enum { COPY_PIECE = 4096 };

static int64_t copy_items(const rlx_kernel_args *args) {
    uint64_t bytes = *(const uint64_t *)args->attrs;
    return (int64_t)(bytes / COPY_PIECE + (bytes % COPY_PIECE != 0));
}

static int64_t copy_cost(const rlx_kernel_args *args) {
    (void)args;
    return COPY_PIECE / 8;
}

static void copy_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    uint64_t bytes = *(const uint64_t *)args->attrs;
    uint64_t first = (uint64_t)begin * COPY_PIECE, last = (uint64_t)end * COPY_PIECE;
    if (last > bytes) last = bytes;
    if (args->in[0].data == args->out[0].data) return;
    memcpy((uint8_t *)args->out[0].data + first, (const uint8_t *)args->in[0].data + first,
           (size_t)(last - first));
}

static const rlx_kernel copy_kernel = {"copy", copy_run, copy_items, copy_cost, NULL};

static int64_t item_cost(const cpu_op *op) {
    int64_t elements;
    if (op->kernel->item_cost != NULL) return op->kernel->item_cost(&op->args);
    if (op->args.out_count == 0 || op->items < 1) return 1;
    elements = rlx_tensor_elements(&op->args.out[0]);
    return elements / op->items;
}

/* How the work is cut: from dims alone. */
static void cut(cpu_op *op) {
    int64_t cost;
    op->items = op->kernel->items(&op->args);
    cost = item_cost(op);
    op->chunk = rlx_pool_chunk(op->items, cost);
    op->is_shared = rlx_pool_is_worth(op->items, cost);
}

static void run_part(void *context, uint32_t worker, int64_t begin, int64_t end) {
    const cpu_op *op = context;
    rlx_kernel_args args = op->args;
    args.workspace = op->bound.workspace + worker * op->bound.workspace_stride;
    op->run(&args, begin, end);
}

static rlx_status run_op(cpu_op *op, rlx_pool *pool) {
    if (op->bound.extent_count != 0) {
        int64_t value = 0;
        if (!rlx_bound_refresh(&op->bound, &value)) {
            rlx_fault_raise(&op->args, RLX_FAULT_BOUND, value);
        }
        cut(op);
        if (op->prepared != NULL) op->preparation->make(&op->args, op->prepared);
    }
    if (op->start != NULL) op->start(&op->args);
    if (op->is_shared) {
        rlx_pool_job job = {run_part, op, op->items, op->chunk, op->bound.workers};
        return rlx_pool_run(pool, &job);
    }
    if (op->items > 0) op->run(&op->args, 0, op->items);
    return RLX_OK;
}

static rlx_status run_timed(cpu_op *op, rlx_pool *pool, rlx_step_time *time) {
    rlx_status status;
    time->start_ns = rlx_now_ns();
    status = run_op(op, pool);
    time->end_ns = rlx_now_ns();
    return status;
}

static rlx_status cpu_submit(rlx_stream *base, rlx_stretch *stretch, rlx_step_time *times) {
    cpu_stretch *self = (cpu_stretch *)stretch;
    rlx_pool *pool = ((cpu_stream *)base)->device->pool;
    rlx_fp_mode saved = rlx_fp_mode_enter();
    rlx_status status = RLX_OK;
    rlx_pool_begin(pool);
    for (uint32_t i = 0; status == RLX_OK && i < stretch->step_count; i++) {
        status =
            times == NULL ? run_op(&self->ops[i], pool) : run_timed(&self->ops[i], pool, &times[i]);
    }
    rlx_pool_end(pool);
    rlx_fp_mode_leave(saved);
    return status;
}

/* The kernel that the plan names; where this level does not have it, the level's own choice. */
static const rlx_kernel *find_kernel(const rlx_cpu_level *level, const rlx_target_query *query,
                                     const rlx_plan_step *step) {
    const rlx_kernel *kernel = rlx_cpu_find_kernel(level, query, step->kernel);
    return kernel != NULL ? kernel : rlx_cpu_choose(level, query);
}

static uint64_t workspace_need(const rlx_kernel *kernel, const rlx_kernel_args *args) {
    return kernel->workspace_bytes == NULL ? 0 : kernel->workspace_bytes(args);
}

/* A conv whose output lies in its first input needs a kernel that knows of it, and dims that stay
 * as they are. */
static bool fits_place(const rlx_cpu_level *level, const rlx_kernel *kernel, const cpu_op *op) {
    const rlx_kernel_args *args = &op->args;
    return args->op != RLX_OP_CONV || args->in[0].data != args->out[0].data ||
           rlx_tensor_elements(&args->in[0]) == 0 || rlx_tensor_elements(&args->out[0]) == 0 ||
           (op->bound.extent_count == 0 && rlx_cpu_overwrite_parts(level, kernel, args) > 0);
}

/* The kernel for the step; where it does not fit what was planned, scalar C. */
static rlx_status choose_kernel(const rlx_cpu_level *level, cpu_op *op) {
    const rlx_plan_step *step = op->bound.step;
    rlx_target_query query = {.op = step->op,
                              .attrs = step->attrs,
                              .in = op->args.in,
                              .out = op->args.out,
                              .in_count = op->args.in_count,
                              .out_count = op->args.out_count};
    op->kernel = find_kernel(level, &query, step);
    if (op->kernel == NULL) {
        return RLX_FAIL(RLX_UNSUPPORTED, "no kernel for op '%s' on level %s", rlx_op_name(step->op),
                        level->name);
    }
    if (workspace_need(op->kernel, &op->args) > step->workspace_bytes ||
        !fits_place(level, op->kernel, op)) {
        op->kernel = rlx_ref_kernel(step->op);
    }
    if (op->kernel == NULL || workspace_need(op->kernel, &op->args) > step->workspace_bytes) {
        return RLX_FAIL(
            RLX_MISMATCH, "kernel '%s' wants more workspace than the %" PRIu64 " bytes planned",
            op->kernel == NULL ? step->kernel : op->kernel->name, step->workspace_bytes);
    }
    if (!fits_place(level, op->kernel, op)) {
        return RLX_FAIL(RLX_MISMATCH,
                        "kernel '%s' cannot write over its input as the plan wants it",
                        op->kernel->name);
    }
    return RLX_OK;
}

static rlx_status prepare_copy(const rlx_plan *plan, cpu_op *op) {
    const rlx_plan_step *step = op->bound.step;
    uint64_t out_bytes = 0;
    if (step->input_count != 1 || step->output_count != 1 || op->args.in[0].data == NULL ||
        op->args.out[0].data == NULL) {
        return RLX_FAIL(RLX_INVALID_PLAN, "a copy step has one input and one output");
    }
    RLX_TRY(rlx_plan_slot_bytes(&plan->slots.items[plan->operands.items[step->operands_at]],
                                &op->copy_bytes));
    RLX_TRY(rlx_plan_slot_bytes(&plan->slots.items[plan->operands.items[step->operands_at + 1]],
                                &out_bytes));
    if (op->copy_bytes != out_bytes) {
        return RLX_FAIL(RLX_INVALID_PLAN, "a copy of %" PRIu64 " bytes into %" PRIu64,
                        op->copy_bytes, out_bytes);
    }
    op->args.attrs = &op->copy_bytes;
    op->kernel = &copy_kernel;
    op->bound.extent_count = 0; /* bytes are bytes, whatever the true size */
    return RLX_OK;
}

/* Lets the kernel work out ahead what it can. */
static rlx_status prepare_kernel(const rlx_cpu_level *level, rlx_scratch *memory, cpu_op *op) {
    enum { LINE = 64 };
    char *room = NULL;
    op->preparation = rlx_cpu_preparation_of(level, op->kernel);
    if (op->preparation == NULL) return RLX_OK;
    op->start = op->preparation->start;
    uint64_t bytes = rlx_cpu_prepared_bytes(op->preparation, &op->args);
    if (bytes == 0) return RLX_OK;
    RLX_TRY(rlx_scratch_array(memory, bytes + LINE, 1, (void **)&room));
    op->prepared = room + (-(uintptr_t)room & (LINE - 1));
    op->preparation->make(&op->args, op->prepared);
    op->args.prepared = op->prepared;
    return RLX_OK;
}

static rlx_status prepare_op(cpu_stream *stream, rlx_scratch *memory, uint32_t step,
                             rlx_tensor **tensors, rlx_bound_extent **extents, cpu_op *op) {
    rlx_arena *arena = stream->base.arena;
    const rlx_plan_step *row = &arena->plan->steps.items[step];
    RLX_TRY(rlx_bind_step(arena, step, tensors, extents, &op->bound));
    op->args = (rlx_kernel_args){.op = row->op,
                                 .step = step,
                                 .attrs = row->attrs,
                                 .in = op->bound.tensors,
                                 .out = op->bound.tensors + row->input_count,
                                 .in_count = row->input_count,
                                 .out_count = row->output_count,
                                 .workspace = op->bound.workspace,
                                 .workspace_bytes = row->workspace_bytes,
                                 .common = op->bound.workspace};
    op->args.fault = stream->base.fault;
    if (op->args.fault == NULL && arena->bytes[RLX_SEGMENT_SCRATCH] >= RLX_FAULT_BYTES) {
        op->args.fault = arena->address[RLX_SEGMENT_SCRATCH];
    }
    if (row->kind == RLX_STEP_COPY) {
        RLX_TRY(prepare_copy(arena->plan, op));
    } else {
        RLX_TRY(choose_kernel(stream->device->level, op));
    }
    op->run = op->kernel->run;
    cut(op);
    return prepare_kernel(stream->device->level, memory, op);
}

static void cpu_release(rlx_stream *base, rlx_stretch *stretch) {
    cpu_stretch *self = (cpu_stretch *)stretch;
    rlx_scratch_reset(&self->memory);
    rlx_free(&base->allocator, self);
}

static rlx_status fill_stretch(cpu_stream *stream, cpu_stretch *self) {
    const rlx_plan *plan = stream->base.arena->plan;
    uint64_t tensor_count = 0, extent_count = 0;
    rlx_tensor *tensors = NULL;
    rlx_bound_extent *extents = NULL;
    for (uint32_t i = 0; i < self->base.step_count; i++)
        rlx_bind_room(plan, self->base.first_step + i, &tensor_count, &extent_count);
    RLX_TRY(rlx_scratch_array(&self->memory, self->base.step_count, sizeof *self->ops,
                              (void **)&self->ops));
    RLX_TRY(rlx_scratch_array(&self->memory, tensor_count, sizeof *tensors, (void **)&tensors));
    RLX_TRY(rlx_scratch_array(&self->memory, extent_count, sizeof *extents, (void **)&extents));
    for (uint32_t i = 0; i < self->base.step_count; i++) {
        uint32_t step = self->base.first_step + i;
        RLX_TRY_WITH(prepare_op(stream, &self->memory, step, &tensors, &extents, &self->ops[i]),
                     "prepare step %u ('%s')", step, plan->steps.items[step].name);
    }
    return RLX_OK;
}

static rlx_status cpu_prepare(rlx_stream *base, uint32_t first_step, uint32_t step_count,
                              rlx_stretch **out_stretch) {
    cpu_stretch *self = NULL;
    rlx_status status;
    RLX_TRY(rlx_alloc_zero(&base->allocator, sizeof *self, (void **)&self));
    self->base = (rlx_stretch){base, first_step, step_count};
    self->memory.allocator = &base->allocator;
    status = fill_stretch((cpu_stream *)base, self);
    if (status != RLX_OK) {
        cpu_release(base, &self->base);
        return status;
    }
    *out_stretch = &self->base;
    return RLX_OK;
}

static void cpu_destroy(rlx_stream *base) {
    rlx_allocator allocator = base->allocator;
    rlx_free(&allocator, base);
}

static const rlx_stream_ops cpu_stream_ops = {
    .destroy = cpu_destroy, .prepare = cpu_prepare, .release = cpu_release, .submit = cpu_submit};

rlx_status rlx_cpu_create_stream(rlx_device *base, const rlx_allocator *allocator, rlx_arena *arena,
                                 rlx_stream **out_stream) {
    cpu_stream *self = NULL;
    if (allocator == NULL) allocator = rlx_default_allocator();
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *self, (void **)&self));
    self->base.ops = &cpu_stream_ops;
    self->base.allocator = *allocator;
    self->base.arena = arena;
    self->device = (rlx_cpu_device *)base;
    *out_stream = &self->base;
    return RLX_OK;
}
