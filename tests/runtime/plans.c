/* SPDX-License-Identifier: Apache-2.0 */
/* Hand-made plans: see plans.h. */
#include "plans.h"

#define SCRATCH(hand, kind, name, dtype, ...) \
    hand_slot(hand, RLX_SEGMENT_SCRATCH, RLX_VALUE_##kind, name, RLX_DTYPE_##dtype, __VA_ARGS__)

/* The same with a place, and a life in steps of the entry. */
#define LIVING(hand, kind, name, dtype, dims, offset, first, last) \
    hand_slot_at(hand, RLX_VALUE_##kind, name, RLX_DTYPE_##dtype, dims, offset, first, last)

rlx_plan *plan_mlp(void) {
    static const float raw[4] = {1, 2, -1, -2}; /* transposed: {1, -1, 2, -2} */
    hand_plan hand;
    hand_begin(&hand, 1);
    uint32_t source = hand_slot(&hand, RLX_SEGMENT_SOURCE, RLX_VALUE_PARAMETER, "raw",
                                RLX_DTYPE_F32, HAND_DIMS(2, 2));
    uint32_t w = hand_slot(&hand, RLX_SEGMENT_WEIGHTS, RLX_VALUE_PARAMETER, "w", RLX_DTYPE_F32,
                           HAND_DIMS(2, 2));
    hand_source(&hand, source, raw, sizeof raw);
    hand_op(&hand, RLX_OP_TRANSPOSE, "w", HAND_SLOTS(source), HAND_SLOTS(w));
    hand_end_prepare(&hand);
    uint32_t x =
        hand_slot_at(&hand, RLX_VALUE_INPUT, "x", RLX_DTYPE_F32, HAND_DIMS(2, 2), 64, 0, 0);
    uint32_t h =
        hand_slot_at(&hand, RLX_VALUE_TEMPORARY, "h", RLX_DTYPE_F32, HAND_DIMS(2, 2), 128, 0, 1);
    uint32_t y =
        hand_slot_at(&hand, RLX_VALUE_TEMPORARY, "y", RLX_DTYPE_F32, HAND_DIMS(2, 2), 64, 1, 1);
    hand_op(&hand, RLX_OP_MATMUL, "h", HAND_SLOTS(x, w), HAND_SLOTS(h));
    hand_op(&hand, RLX_OP_RELU, "y", HAND_SLOTS(h), HAND_SLOTS(y));
    hand_end_entry(&hand, "main", HAND_PORTS(x), NULL, HAND_PORTS(y));
    return hand_finish(&hand);
}

/* What lives across the jump back (n, acc, i) lives to step 8 or longer; the rest shares memory.
 * 0 acc = x, 1 i = 0; 2 more = i < n; 3 leave unless more; 4 late = i >= most, 5 fault if late;
 * 6 acc = acc + acc; 7 i = i + 1; 8 back to 2; 9 y = acc. */
rlx_plan *plan_loop(void) {
    static const int64_t numbers[3] = {0, 1, 10};
    hand_plan hand;
    uint32_t constants[3];
    const char *names[3] = {"zero", "one", "most"};
    hand_begin(&hand, 1);
    for (uint32_t i = 0; i < 3; i++) {
        constants[i] = hand_slot(&hand, RLX_SEGMENT_WEIGHTS, RLX_VALUE_CONSTANT, names[i],
                                 RLX_DTYPE_I64, HAND_SCALAR);
        hand_source(&hand, constants[i], &numbers[i], sizeof numbers[i]);
    }
    hand_end_prepare(&hand);
    uint32_t x = LIVING(&hand, INPUT, "x", F32, HAND_DIMS(4), 64, 0, 0);
    uint32_t n = LIVING(&hand, INPUT, "n", I64, HAND_SCALAR, 128, 0, 8);
    uint32_t acc = LIVING(&hand, TEMPORARY, "acc", F32, HAND_DIMS(4), 192, 0, 9);
    uint32_t i = LIVING(&hand, TEMPORARY, "i", I64, HAND_SCALAR, 64, 1, 8);
    uint32_t more = LIVING(&hand, TEMPORARY, "more", BOOL, HAND_SCALAR, 256, 2, 3);
    uint32_t late = LIVING(&hand, TEMPORARY, "late", BOOL, HAND_SCALAR, 256, 4, 5);
    uint32_t y = LIVING(&hand, TEMPORARY, "y", F32, HAND_DIMS(4), 64, 9, 9);
    hand_step(&hand, RLX_STEP_COPY, RLX_OP_NONE, NULL, "acc", HAND_SLOTS(x), HAND_SLOTS(acc));
    hand_step(&hand, RLX_STEP_COPY, RLX_OP_NONE, NULL, "i", HAND_SLOTS(constants[0]),
              HAND_SLOTS(i));
    hand_op(&hand, RLX_OP_LESS, "more", HAND_SLOTS(i, n), HAND_SLOTS(more));
    hand_jump(&hand, 9, more, 0);
    hand_op(&hand, RLX_OP_GREATER_EQUAL, "late", HAND_SLOTS(i, constants[2]), HAND_SLOTS(late));
    hand_fail_if(&hand, late, RLX_FAULT_BOUND, i);
    hand_op(&hand, RLX_OP_ADD, "double", HAND_SLOTS(acc, acc), HAND_SLOTS(acc));
    hand_op(&hand, RLX_OP_ADD, "next", HAND_SLOTS(i, constants[1]), HAND_SLOTS(i));
    hand_jump(&hand, 2, RLX_NONE, 0);
    hand_step(&hand, RLX_STEP_COPY, RLX_OP_NONE, NULL, "y", HAND_SLOTS(acc), HAND_SLOTS(y));
    hand_end_entry(&hand, "main", HAND_PORTS(x, n), NULL, HAND_PORTS(y));
    return hand_finish(&hand);
}

rlx_plan *plan_extent(void) {
    hand_plan hand;
    hand_begin(&hand, 1);
    hand_end_prepare(&hand);
    uint32_t x = SCRATCH(&hand, INPUT, "x", F32, HAND_DIMS(8));
    uint32_t n = SCRATCH(&hand, INPUT, "n", I64, HAND_SCALAR);
    uint32_t y = SCRATCH(&hand, TEMPORARY, "y", F32, HAND_DIMS(8));
    hand_extent(&hand, x, 0, n);
    hand_extent(&hand, y, 0, n);
    hand_op(&hand, RLX_OP_RELU, "y", HAND_SLOTS(x), HAND_SLOTS(y));
    hand_end_entry(&hand, "main", HAND_PORTS(x, n), (const bool[]){true, true}, HAND_PORTS(y));
    return hand_finish(&hand);
}

rlx_plan *plan_nonzero(void) {
    hand_plan hand;
    hand_begin(&hand, 1);
    hand_end_prepare(&hand);
    uint32_t x = SCRATCH(&hand, INPUT, "x", F32, HAND_DIMS(2, 3));
    uint32_t places = SCRATCH(&hand, TEMPORARY, "places", I64, HAND_DIMS(2, 6));
    uint32_t count = SCRATCH(&hand, TEMPORARY, "count", I64, HAND_SCALAR);
    hand_extent(&hand, places, 1, count);
    hand_op(&hand, RLX_OP_NONZERO, "places", HAND_SLOTS(x), HAND_SLOTS(places, count));
    hand_end_entry(&hand, "main", HAND_PORTS(x), NULL, HAND_PORTS(places, count));
    return hand_finish(&hand);
}

rlx_plan *plan_gather(void) {
    rlx_axis_attrs axis = {0};
    hand_plan hand;
    hand_begin(&hand, 1);
    hand_end_prepare(&hand);
    uint32_t x = SCRATCH(&hand, INPUT, "x", F32, HAND_DIMS(4));
    uint32_t i = SCRATCH(&hand, INPUT, "i", I64, HAND_DIMS(2));
    uint32_t y = SCRATCH(&hand, TEMPORARY, "y", F32, HAND_DIMS(2));
    hand_step(&hand, RLX_STEP_KERNEL, RLX_OP_GATHER, &axis, "pick", HAND_SLOTS(x, i),
              HAND_SLOTS(y));
    hand_end_entry(&hand, "main", HAND_PORTS(x, i), (const bool[]){true, true}, HAND_PORTS(y));
    return hand_finish(&hand);
}

rlx_plan *plan_state(void) {
    rlx_state_write_attrs write = {0};
    rlx_reduce_attrs all = {0};
    hand_plan hand;
    hand_begin(&hand, 1);
    uint32_t k =
        hand_slot(&hand, RLX_SEGMENT_STATE, RLX_VALUE_STATE, "k", RLX_DTYPE_F32, HAND_DIMS(4, 2));
    hand_end_prepare(&hand);
    uint32_t rows = SCRATCH(&hand, INPUT, "rows", F32, HAND_DIMS(1, 2));
    uint32_t at = SCRATCH(&hand, INPUT, "at", I64, HAND_SCALAR);
    uint32_t length = SCRATCH(&hand, TEMPORARY, "length", I64, HAND_SCALAR);
    uint32_t after = hand_view(&hand, k, "k_after", 0, HAND_DIMS(4, 2), (const int64_t[]){2, 1});
    hand_extent(&hand, after, 0, length);
    hand_step(&hand, RLX_STEP_KERNEL, RLX_OP_STATE_WRITE, &write, "k_after",
              HAND_SLOTS(k, rows, at), HAND_SLOTS(after, length));
    hand_end_entry(&hand, "append", HAND_PORTS(rows, at), NULL, HAND_PORTS(after, length));
    uint32_t s = SCRATCH(&hand, INPUT, "s", F32, HAND_DIMS(1));
    uint32_t scaled = SCRATCH(&hand, TEMPORARY, "scaled", F32, HAND_DIMS(4, 2));
    uint32_t total = SCRATCH(&hand, TEMPORARY, "total", F32, HAND_SCALAR);
    hand_op(&hand, RLX_OP_MUL, "scaled", HAND_SLOTS(k, s), HAND_SLOTS(scaled));
    hand_step(&hand, RLX_STEP_KERNEL, RLX_OP_REDUCE_SUM, &all, "total", HAND_SLOTS(scaled),
              HAND_SLOTS(total));
    hand_end_entry(&hand, "sum", HAND_PORTS(s), (const bool[]){true}, HAND_PORTS(total));
    return hand_finish(&hand);
}

rlx_plan *plan_large(void) {
    enum { N = 160 };
    static float weights[N * N];
    rlx_axis_attrs axis = {.axis = -1};
    rlx_reduce_attrs reduce = {.axes = {.count = 1, .items = {1}}};
    rlx_test_random random = rlx_test_seed(7);
    hand_plan hand;
    rlx_test_fill_f32(&random, weights, N * N, -1, 1);
    hand_begin(&hand, 8);
    uint32_t w = hand_slot(&hand, RLX_SEGMENT_WEIGHTS, RLX_VALUE_CONSTANT, "w", RLX_DTYPE_F32,
                           HAND_DIMS(N, N));
    hand_source(&hand, w, weights, sizeof weights);
    hand_end_prepare(&hand);
    uint32_t x = SCRATCH(&hand, INPUT, "x", F32, HAND_DIMS(N, N));
    uint32_t a = SCRATCH(&hand, TEMPORARY, "a", F32, HAND_DIMS(N, N));
    uint32_t b = SCRATCH(&hand, TEMPORARY, "b", F32, HAND_DIMS(N, N));
    uint32_t c = SCRATCH(&hand, TEMPORARY, "c", F32, HAND_DIMS(N, N));
    uint32_t d = SCRATCH(&hand, TEMPORARY, "d", F32, HAND_DIMS(N, N));
    uint32_t y = SCRATCH(&hand, TEMPORARY, "y", F32, HAND_DIMS(N));
    hand_op(&hand, RLX_OP_MATMUL, "a", HAND_SLOTS(x, w), HAND_SLOTS(a));
    hand_step(&hand, RLX_STEP_KERNEL, RLX_OP_SOFTMAX, &axis, "b", HAND_SLOTS(a), HAND_SLOTS(b));
    hand_step(&hand, RLX_STEP_HOST, RLX_OP_GELU, NULL, "c", HAND_SLOTS(b), HAND_SLOTS(c));
    hand_op(&hand, RLX_OP_MATMUL, "d", HAND_SLOTS(c, w), HAND_SLOTS(d));
    hand_step(&hand, RLX_STEP_KERNEL, RLX_OP_REDUCE_SUM, &reduce, "y", HAND_SLOTS(d),
              HAND_SLOTS(y));
    hand_end_entry(&hand, "main", HAND_PORTS(x), (const bool[]){true}, HAND_PORTS(y, d));
    return hand_finish(&hand);
}

rlx_device *cpu_of(uint32_t threads) {
    rlx_device_options options = {.size = sizeof options, .threads = threads};
    rlx_device *device = NULL;
    assert_ok(rlx_device_open("cpu", &options, &device));
    return device;
}

rlx_program *program_of(rlx_device *device, rlx_plan *plan) {
    rlx_program *program = NULL;
    rlx_device *own = device == NULL ? cpu_of(2) : rlx_device_retain(device);
    assert_ok(rlx_program_create(own, plan, NULL, &program));
    rlx_device_release(own);
    return program;
}

rlx_exec *exec_of(rlx_plan *plan, const rlx_exec_options *options) {
    rlx_program *program = program_of(NULL, plan);
    rlx_exec *exec = NULL;
    assert_ok(rlx_exec_create(program, options, &exec));
    rlx_program_release(program);
    return exec;
}

uint32_t slot_of(const rlx_exec *exec, const char *name) {
    const rlx_plan *plan = exec->program->plan;
    for (uint32_t i = 0; i < plan->slots.count; i++) {
        if (strcmp(plan->slots.items[i].name, name) == 0) return i;
    }
    fail_msg("no slot '%s'", name);
    return RLX_NONE;
}
