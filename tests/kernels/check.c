/* SPDX-License-Identifier: Apache-2.0 */
/* One node on every level, compared with what scalar C made of it. */
#include "kernels/kernels.h"
#include "kernels/levels.h"

#include "base/thread.h"
#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/layout.h"
#include "ir/op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { GUARD = 128, MAX_TENSORS = 64, GUARD_BYTE = 0xa5, FRESH_BYTE = 0xcd };

/* How the operands of a run lie in memory. */
typedef enum layout_mode {
    AS_GIVEN,
    PADDED_ROWS, /* gaps between rows, elements side by side */
    SPREAD,      /* gaps between elements too */
    OVERWRITING, /* the output is one of the operands */
    MODES
} layout_mode;
static const char *const mode_names[] = {"as given", "padded rows", "spread", "overwriting"};

typedef struct copy_of {
    rlx_tensor tensor;
    uint8_t *memory; /* owned; NULL: absent, or another copy's */
    uint64_t bytes;  /* between the guards */
} copy_of;

typedef struct trial {
    copy_of copies[MAX_TENSORS];
    uint32_t count;
    rlx_tensor bounds[MAX_TENSORS], tensors[MAX_TENSORS]; /* what `planned` and `args` point to */
    rlx_kernel_args planned, args;
    rlx_fault fault;
} trial;

/* A node: operands with the dims of this run, and with those of the plan. */
typedef struct node_args {
    const rlx_kernel_args *args, *planned;
} node_args;

static uint64_t dense_bytes(rlx_dtype dtype, int64_t elements) {
    uint64_t blocks = rlx_dtype_block_elements(dtype);
    return ((uint64_t)elements + blocks - 1) / blocks * rlx_dtype_block_bytes(dtype);
}

/* From the first element to the last. */
static uint64_t span_bytes(const rlx_tensor *tensor) {
    int64_t last = 0;
    uint64_t bytes = 0;
    if (tensor->layout != RLX_LAYOUT_PLAIN) {
        rlx_status status =
            rlx_layout_bytes(tensor->layout, tensor->dtype, tensor->rank, tensor->dims, &bytes);
        return status == RLX_OK ? bytes : 0;
    }
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->dims[i] == 0) return 0;
        last += (tensor->dims[i] - 1) * tensor->strides[i];
    }
    return dense_bytes(tensor->dtype, last + 1);
}

static bool has_single_elements(rlx_dtype dtype) {
    return rlx_dtype_block_elements(dtype) == 1;
}

/* Packed values and those in blocks move as they are. */
static bool has_strides(const rlx_tensor *tensor) {
    return has_single_elements(tensor->dtype) && tensor->layout == RLX_LAYOUT_PLAIN;
}

static void give_strides(rlx_tensor *tensor, layout_mode mode) {
    int64_t stride = mode == SPREAD ? 2 : 1;
    if (mode != PADDED_ROWS && mode != SPREAD) return;
    if (!has_strides(tensor)) return;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        tensor->strides[i] = stride;
        stride = stride * tensor->dims[i] + 3;
    }
}

/* The elements of two tensors of equal dims, in order and in runs with one step each: most of the
 * time of these tests goes here. */
typedef struct walk {
    const rlx_tensor *a, *b;
    uint32_t outer; /* dims that count runs */
    int64_t at[RLX_MAX_RANK], left;
    int64_t length, step_a, step_b, start_a, start_b; /* of a run */
} walk;

static walk walk_over(const rlx_tensor *a, const rlx_tensor *b) {
    walk self = {.a = a, .b = b, .outer = a->rank, .length = 1, .step_a = 1, .step_b = 1};
    int64_t elements = rlx_tensor_elements(a);
    if (elements == 0) return self;
    while (self.outer > 0 && a->strides[self.outer - 1] == self.length &&
           b->strides[self.outer - 1] == self.length)
        self.length *= a->dims[--self.outer];
    if (self.outer == a->rank && a->rank > 0) { /* elements with gaps */
        self.length = a->dims[--self.outer];
        self.step_a = a->strides[self.outer], self.step_b = b->strides[self.outer];
    }
    self.left = elements / self.length;
    return self;
}

static bool next_run(walk *self) {
    if (self->left-- == 0) return false;
    self->start_a = self->start_b = 0;
    for (uint32_t i = 0; i < self->outer; i++) {
        self->start_a += self->at[i] * self->a->strides[i];
        self->start_b += self->at[i] * self->b->strides[i];
    }
    for (uint32_t i = self->outer; i-- > 0 && ++self->at[i] == self->a->dims[i];)
        self->at[i] = 0;
    return true;
}

/* Sizes that the compiler knows are copied without a call. */
static void copy_element(uint8_t *to, const uint8_t *from, int64_t size) {
    switch (size) {
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, (size_t)size);
    }
}

/* Copies all elements between tensors of equal dims. */
static void copy_elements(const rlx_tensor *from, const rlx_tensor *to) {
    int64_t size = (int64_t)rlx_dtype_block_bytes(from->dtype);
    for (walk w = walk_over(from, to); next_run(&w);) {
        const uint8_t *source = (const uint8_t *)from->data + w.start_a * size;
        uint8_t *target = (uint8_t *)to->data + w.start_b * size;
        if (w.step_a == 1 && w.step_b == 1) {
            memcpy(target, source, (size_t)(w.length * size));
            continue;
        }
        for (int64_t i = 0; i < w.length; i++)
            copy_element(target + i * w.step_b * size, source + i * w.step_a * size, size);
    }
}

static bool is_same_place(const rlx_tensor *a, const rlx_tensor *b) {
    return a->data != NULL && a->data == b->data;
}

/* A copy with guards. `fills`: with the same elements, else with bytes that no kernel left. */
static bool make_copy(copy_of *copy, const rlx_tensor *from, layout_mode mode, bool fills) {
    *copy = (copy_of){.tensor = *from};
    if (from->data == NULL) return true;
    give_strides(&copy->tensor, mode);
    copy->bytes = span_bytes(&copy->tensor);
    copy->memory = aligned_alloc(64, ((size_t)copy->bytes + 2 * GUARD + 63) & ~(size_t)63);
    if (copy->memory == NULL) return false;
    memset(copy->memory, GUARD_BYTE, GUARD);
    memset(copy->memory + GUARD, FRESH_BYTE, (size_t)copy->bytes);
    memset(copy->memory + GUARD + copy->bytes, GUARD_BYTE, GUARD);
    copy->tensor.data = copy->memory + GUARD;
    if (!fills) return true;
    if (has_strides(from)) {
        copy_elements(from, &copy->tensor);
    } else {
        memcpy(copy->tensor.data, from->data, (size_t)copy->bytes);
    }
    return true;
}

static void free_trial(trial *self) {
    for (uint32_t i = 0; i < self->count; i++)
        free(self->copies[i].memory);
    free(self);
}

/* The arguments of a run on the copies: dims of the run with memory and strides of the bounds. */
static void point_to_copies(trial *self, const node_args *node) {
    const rlx_kernel_args *args = node->args;
    for (uint32_t i = 0; i < self->count; i++) {
        const rlx_tensor *now = i < args->in_count ? &args->in[i] : &args->out[i - args->in_count];
        self->bounds[i] = self->tensors[i] = self->copies[i].tensor;
        memcpy(self->tensors[i].dims, now->dims, sizeof now->dims);
    }
    self->planned = self->args = *args;
    self->planned.in = self->bounds, self->planned.out = self->bounds + args->in_count;
    self->args.in = self->tensors, self->args.out = self->tensors + args->in_count;
    self->planned.fault = self->args.fault = &self->fault;
}

/* The operands of a node again. Outputs that are operands (states) stay operands. */
static trial *make_trial(const node_args *node, layout_mode mode, uint32_t overwritten) {
    const rlx_kernel_args *args = node->planned;
    trial *self = calloc(1, sizeof *self);
    if (self == NULL) return NULL;
    bool ok = true;
    for (uint32_t i = 0; i < args->in_count; i++)
        ok = make_copy(&self->copies[self->count++], &args->in[i], mode, true) && ok;
    for (uint32_t i = 0; i < args->out_count; i++) {
        copy_of *copy = &self->copies[self->count++];
        const copy_of *shared = NULL;
        for (uint32_t n = 0; n < args->in_count; n++) {
            if (is_same_place(&args->out[i], &args->in[n])) shared = &self->copies[n];
        }
        if (mode == OVERWRITING && i == 0) shared = &self->copies[overwritten];
        if (shared == NULL) {
            ok = make_copy(copy, &args->out[i], mode, false) && ok;
        } else {
            *copy = (copy_of){.tensor = args->out[i], .bytes = shared->bytes};
            memcpy(copy->tensor.strides, shared->tensor.strides, sizeof copy->tensor.strides);
            copy->tensor.data = shared->tensor.data;
        }
    }
    point_to_copies(self, node);
    if (ok) return self;
    free_trial(self);
    return NULL;
}

static bool guards_hold(const uint8_t *memory, uint64_t bytes) {
    for (uint32_t i = 0; i < GUARD; i++) {
        if (memory[i] != GUARD_BYTE || memory[GUARD + bytes + i] != GUARD_BYTE) return false;
    }
    return true;
}

/* The items in pieces, the last piece first. */
static void run_pieces(const rlx_kernel *kernel, const rlx_kernel_args *args, uint64_t seed) {
    int64_t items = kernel->items(args);
    if (items <= 0) return;
    int64_t most = items < 64 ? items : items / 16;
    int64_t piece = 1 + (int64_t)(seed % (uint64_t)most);
    if (piece < items / 64) piece = items / 64;
    int64_t pieces = (items + piece - 1) / piece;
    for (int64_t p = pieces; p-- > 0;) {
        int64_t end = (p + 1) * piece;
        kernel->run(args, p * piece, end < items ? end : items);
    }
}

static const char *run_guarded(const rlx_cpu_level *level, const rlx_kernel *kernel,
                               rlx_kernel_args *args, const rlx_kernel_args *planned,
                               uint64_t seed) {
    const rlx_cpu_preparation *preparation = rlx_cpu_preparation_of(level, kernel);
    uint64_t bytes = kernel->workspace_bytes != NULL ? kernel->workspace_bytes(planned) : 0;
    if (kernel->item_cost != NULL) (void)kernel->item_cost(args);
    uint8_t *workspace = aligned_alloc(64, ((size_t)bytes + 2 * GUARD + 63) & ~(size_t)63);
    if (workspace == NULL) return "out of memory";
    memset(workspace, GUARD_BYTE, (size_t)bytes + 2 * GUARD);
    memset(workspace + GUARD, FRESH_BYTE, (size_t)bytes);
    args->workspace = args->common = workspace + GUARD;
    args->workspace_bytes = bytes;
    if (preparation != NULL && preparation->start != NULL) preparation->start(args);
    run_pieces(kernel, args, seed);
    bool holds = guards_hold(workspace, bytes);
    free(workspace);
    return holds ? NULL : "writes past its workspace";
}

static double step_of(rlx_dtype dtype) {
    switch (dtype) {
    case RLX_DTYPE_F16:
        return 0x1p-10;
    case RLX_DTYPE_BF16:
        return 0x1p-7;
    default:
        return 0;
    }
}

/* Sums of subnormal numbers are exact, products with others off by one in the last place each;
 * where results may be that small, nothing larger may differ. */
static double least_of(rlx_dtype dtype, kernel_values values) {
    return values == VALUES_TINY && dtype == RLX_DTYPE_F32 ? 0x1p-122 : 1;
}

/* Element `i`; f32 is what most tests compare. */
static double load(rlx_dtype dtype, const void *data, int64_t i) {
    return dtype == RLX_DTYPE_F32 ? (double)((const float *)data)[i] : rlx_load_f64(dtype, data, i);
}

static bool elements_agree(rlx_dtype dtype, const void *a, int64_t i, const void *b, int64_t j,
                           double tolerance, kernel_values values) {
    size_t size = rlx_dtype_block_bytes(dtype);
    if (dtype != RLX_DTYPE_F32 && memcmp((const uint8_t *)a + (size_t)i * size,
                                         (const uint8_t *)b + (size_t)j * size, size) == 0)
        return true;
    if (dtype != RLX_DTYPE_F32 && !rlx_dtype_is_float(dtype)) return false;
    double x = load(dtype, a, i), y = load(dtype, b, j);
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    if (isinf(x) || isinf(y)) return x == y;
    double step = step_of(dtype), least = least_of(dtype, values);
    return fabs(x - y) <= (tolerance > step ? tolerance : step) * (least + fabs(y));
}

/* The index of the first element that differs; -1: none. */
static int64_t first_difference(const kernel_checker *self, const rlx_tensor *made,
                                const rlx_tensor *truth) {
    rlx_dtype dtype = truth->dtype;
    int64_t size = (int64_t)rlx_dtype_block_bytes(dtype), before = 0;
    for (walk w = walk_over(made, truth); next_run(&w); before += w.length) {
        const uint8_t *a = (const uint8_t *)made->data + w.start_a * size;
        const uint8_t *b = (const uint8_t *)truth->data + w.start_b * size;
        bool is_dense = w.step_a == 1 && w.step_b == 1;
        if (is_dense && memcmp(a, b, (size_t)(w.length * size)) == 0) continue;
        for (int64_t i = 0; i < w.length; i++) {
            if (!elements_agree(dtype, a, i * w.step_a, b, i * w.step_b, self->tolerance,
                                self->values))
                return before + i;
        }
    }
    return -1;
}

/* Element number `n` of a tensor, for messages. */
static double element(const rlx_tensor *tensor, int64_t n) {
    int64_t at = 0;
    for (uint32_t d = tensor->rank; d-- > 0; n /= tensor->dims[d])
        at += n % tensor->dims[d] * tensor->strides[d];
    return rlx_load_f64(tensor->dtype, tensor->data, at);
}

static void report(kernel_checker *self, const rlx_kernel *kernel, layout_mode mode,
                   const char *what) {
    self->failed++;
    fprintf(stderr, "%s: %s (%s): %s\n", self->where, kernel->name, mode_names[mode], what);
}

/* Whether all bytes of a fresh output that belong to no element are as they were. */
static bool holes_hold(const copy_of *copy, const rlx_tensor *tensor) {
    static const uint8_t fresh[] = {FRESH_BYTE, FRESH_BYTE, FRESH_BYTE, FRESH_BYTE,
                                    FRESH_BYTE, FRESH_BYTE, FRESH_BYTE, FRESH_BYTE};
    uint64_t size = rlx_dtype_block_bytes(tensor->dtype);
    if (copy->memory == NULL || !has_strides(tensor)) return true;
    if ((uint64_t)rlx_tensor_elements(tensor) * size == copy->bytes) return true; /* no holes */
    uint8_t *bytes = malloc((size_t)copy->bytes + 1);
    if (bytes == NULL) return false;
    memcpy(bytes, copy->memory + GUARD, (size_t)copy->bytes);
    bytes[copy->bytes] = FRESH_BYTE;
    for (walk w = walk_over(tensor, tensor); next_run(&w);) {
        uint8_t *run = bytes + (uint64_t)w.start_a * size;
        if (w.step_a == 1) memset(run, FRESH_BYTE, (size_t)w.length * size);
        for (int64_t i = 0; i < w.length && w.step_a != 1; i++)
            copy_element(run + (uint64_t)(i * w.step_a) * size, fresh, (int64_t)size);
    }
    bool holds = bytes[0] == FRESH_BYTE && memcmp(bytes, bytes + 1, (size_t)copy->bytes) == 0;
    free(bytes);
    return holds;
}

/* What the run left, against scalar C: results, bytes around them, the fault. */
static void compare(kernel_checker *self, const rlx_kernel *kernel, layout_mode mode,
                    const rlx_kernel_args *truth, const trial *made) {
    char text[192];
    for (uint32_t i = 0; i < made->count; i++) {
        const copy_of *copy = &made->copies[i];
        if (copy->memory != NULL && !guards_hold(copy->memory, copy->bytes))
            report(self, kernel, mode, "writes outside its operands");
    }
    for (uint32_t i = 0; i < truth->out_count; i++) {
        if (truth->out[i].data == NULL || !has_strides(&truth->out[i])) continue;
        const rlx_tensor *out = &made->tensors[truth->in_count + i];
        if (!holes_hold(&made->copies[truth->in_count + i], out))
            report(self, kernel, mode, "writes between the elements of its output");
        int64_t at = first_difference(self, out, &truth->out[i]);
        if (at < 0) continue;
        (void)snprintf(
            text, sizeof text,
            "output %u differs first at element %" PRId64 " of %" PRId64 ": %.9g instead of %.9g",
            i, at, rlx_tensor_elements(out), element(out, at), element(&truth->out[i], at));
        report(self, kernel, mode, text);
    }
}

/* Runs with what the kernel has worked out ahead, where it does so. */
static const char *run_prepared(const rlx_cpu_level *level, const rlx_kernel *kernel,
                                rlx_kernel_args *args, const rlx_kernel_args *planned,
                                uint64_t seed) {
    const rlx_cpu_preparation *preparation = rlx_cpu_preparation_of(level, kernel);
    uint64_t bytes = preparation == NULL ? 0 : rlx_cpu_prepared_bytes(preparation, planned);
    if (bytes == 0) return run_guarded(level, kernel, args, planned, seed);
    uint8_t *memory = aligned_alloc(64, ((size_t)bytes + 2 * GUARD + 63) & ~(size_t)63);
    if (memory == NULL) return "out of memory";
    memset(memory, GUARD_BYTE, (size_t)bytes + 2 * GUARD);
    args->workspace_bytes = kernel->workspace_bytes != NULL ? kernel->workspace_bytes(planned) : 0;
    preparation->make(args, memory + GUARD);
    args->prepared = memory + GUARD;
    const char *broken = run_guarded(level, kernel, args, planned, seed);
    args->prepared = NULL;
    bool holds = guards_hold(memory, bytes);
    free(memory);
    return holds ? broken : "writes past what it has prepared";
}

/* Any split gives the same bits: another one, prepared, on copies of its own. */
static void compare_splits(kernel_checker *self, const rlx_cpu_level *level,
                           const rlx_kernel *kernel, const node_args *node, const trial *first) {
    trial *second = make_trial(node, AS_GIVEN, 0);
    if (second == NULL) return;
    const char *broken =
        run_prepared(level, kernel, &second->args, &second->planned, self->seed / 7 + 3);
    if (broken != NULL) report(self, kernel, AS_GIVEN, broken);
    for (uint32_t i = second->args.in_count; i < second->count; i++) {
        const copy_of *a = &first->copies[i], *b = &second->copies[i];
        if (b->tensor.data != NULL && memcmp(a->tensor.data, b->tensor.data, (size_t)b->bytes) != 0)
            report(self, kernel, AS_GIVEN, "another split of the items gives other bits");
    }
    free_trial(second);
}

static const rlx_kernel *kernel_for(const rlx_cpu_level *level, const rlx_kernel_args *args) {
    rlx_target_query query = {.op = args->op,
                              .attrs = args->attrs,
                              .in = args->in,
                              .out = args->out,
                              .in_count = args->in_count,
                              .out_count = args->out_count};
    const rlx_kernel *kernel = rlx_cpu_choose(level, &query);
    return kernel == rlx_ref_kernel(args->op) ? NULL : kernel;
}

static void check_mode(kernel_checker *self, const rlx_cpu_level *level, const node_args *given,
                       const rlx_kernel_args *truth, bool has_fault, layout_mode mode,
                       uint32_t overwritten) {
    trial *made = make_trial(given, mode, overwritten);
    if (made == NULL) return;
    const rlx_kernel *kernel = kernel_for(level, &made->planned);
    if (kernel != NULL) {
        const char *broken = run_guarded(level, kernel, &made->args, &made->planned, self->seed);
        self->compared++;
        if (broken != NULL) report(self, kernel, mode, broken);
        if ((made->fault.claim != 0) != has_fault) report(self, kernel, mode, "faults differ");
        if (!has_fault) compare(self, kernel, mode, truth, made);
        if (mode == AS_GIVEN) compare_splits(self, level, kernel, given, made);
    }
    free_trial(made);
}

static bool may_overwrite(const rlx_kernel_args *args, uint32_t input) {
    const rlx_tensor *in = &args->in[input], *out = &args->out[0];
    if (args->out_count != 1 || in->data == NULL || in->dtype != out->dtype ||
        in->rank != out->rank || !rlx_op_may_overwrite(args->op, input))
        return false;
    return memcmp(in->dims, out->dims, in->rank * sizeof in->dims[0]) == 0 &&
           memcmp(in->strides, out->strides, in->rank * sizeof in->strides[0]) == 0;
}

static void check_level(kernel_checker *self, const rlx_cpu_level *level, const node_args *given,
                        const rlx_kernel_args *truth, bool has_fault) {
    for (layout_mode mode = AS_GIVEN; mode <= SPREAD; mode++)
        check_mode(self, level, given, truth, has_fault, mode, 0);
    for (uint32_t i = 0; i < given->args->in_count; i++) {
        if (may_overwrite(given->planned, i) && may_overwrite(given->args, i))
            check_mode(self, level, given, truth, has_fault, OVERWRITING, i);
    }
}

/* Best of several runs of all items, in microseconds. */
static double time_kernel(const rlx_kernel *kernel, const rlx_kernel_args *given) {
    rlx_kernel_args args = *given;
    uint64_t best = UINT64_MAX, began = rlx_now_ns();
    for (uint32_t i = 0; i < 5 || (i < 1000 && rlx_now_ns() - began < 50000000); i++) {
        uint64_t start = rlx_now_ns();
        if (rlx_test_run_kernel(kernel, &args) != RLX_OK) return NAN;
        uint64_t time = rlx_now_ns() - start;
        if (time < best) best = time;
    }
    return (double)best / 1000;
}

static void print_times(const kernel_checker *self, const rlx_cpu_level *const *levels,
                        uint32_t count, const rlx_kernel_args *args) {
    double scalar = time_kernel(rlx_ref_kernel(args->op), args);
    printf("%-40s %-14s scalar %11.1f us", self->where, rlx_op_name(args->op), scalar);
    for (uint32_t i = 0; i < count; i++) {
        const rlx_kernel *kernel = kernel_for(levels[i], args);
        if (kernel == NULL) continue;
        double time = time_kernel(kernel, args);
        printf("  %s %11.1f us (%.1fx)", kernel->name, time, scalar / time);
    }
    printf("\n");
}

/* Scalar C says what is right; what it does not write is as fresh as in the copies. */
static rlx_status run_scalar(rlx_kernel_args *args, const trial *before) {
    for (uint32_t i = 0; i < args->out_count; i++) {
        const copy_of *copy = &before->copies[args->in_count + i];
        if (copy->memory != NULL) memset(args->out[i].data, FRESH_BYTE, (size_t)copy->bytes);
    }
    return rlx_test_run_kernel(rlx_ref_kernel(args->op), args);
}

rlx_status kernel_check(void *user, rlx_kernel_args *args, const rlx_kernel_args *planned) {
    kernel_checker *self = user;
    const rlx_cpu_level *levels[KERNEL_LEVELS];
    uint32_t count = kernel_levels(levels);
    if (args->in_count + args->out_count > MAX_TENSORS)
        return rlx_test_run_kernel(rlx_ref_kernel(args->op), args);
    if (self->is_timed) print_times(self, levels, count, args);
    /* Operands as they are before the run: states are written in place. */
    trial *before = make_trial(&(node_args){args, planned}, AS_GIVEN, 0);
    if (before == NULL) return RLX_FAIL(RLX_OUT_OF_MEMORY, "copies");
    node_args given = {&before->args, &before->planned};
    rlx_status status = run_scalar(args, before);
    self->seed = self->seed * 6364136223846793005u + 1442695040888963407u;
    for (uint32_t i = 0; i < count && !self->is_timed; i++)
        check_level(self, levels[i], &given, args, status != RLX_OK);
    free_trial(before);
    return status;
}
