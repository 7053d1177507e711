/* SPDX-License-Identifier: Apache-2.0 */
/* Plans made by hand, for the tests of src/plan. Each add call returns the index of its row. The
 * first failure (out of memory) sticks in `status`, and later calls do nothing. */
#ifndef RLX_TESTS_PLAN_BUILD_H
#define RLX_TESTS_PLAN_BUILD_H

#include "plan/plan.h"

typedef struct plan_builder {
    rlx_plan *plan; /* owned by whoever reads it out */
    rlx_status status;
} plan_builder;

void builder_begin(plan_builder *builder, const rlx_allocator *allocator);
uint32_t builder_buffer(plan_builder *builder, uint32_t segment, uint32_t entry, uint64_t offset,
                        uint64_t bytes, uint32_t first_step, uint32_t last_step);
/* A plain slot; dims end with -1. */
uint32_t builder_slot(plan_builder *builder, const char *name, uint32_t kind, uint32_t buffer,
                      uint64_t byte_offset, rlx_dtype dtype, const int64_t *dims);
#define DIMS(...) ((const int64_t[]){__VA_ARGS__, -1})
#define SCALAR    ((const int64_t[]){-1})
uint32_t builder_step(plan_builder *builder, uint32_t kind, rlx_op op, const char *name,
                      const void *attrs, const uint32_t *inputs, uint32_t input_count,
                      const uint32_t *outputs, uint32_t output_count);
uint32_t builder_jump(plan_builder *builder, uint32_t target, uint32_t condition, uint32_t jump_if);
void builder_stretch(plan_builder *builder, uint32_t first_step, uint32_t step_count);
uint32_t builder_port(plan_builder *builder, const char *name, uint32_t slot, bool survives);
void builder_source(plan_builder *builder, uint32_t slot, rlx_source source, bool is_constant);

/* Two entries over one weight and one state; prepare copies the raw weight. See build.c for the
 * table of its rows, which the mutation tests refer to. */
enum {
    B_RAW,
    B_W,
    B_K,
    B_X,
    B_H,
    B_Y,
    B_WORK,
    B_POSITION,
    B_LENGTH,
    B_X1,
    B_Y1,
    B_CONSTANT,
    B_COUNT
};
enum {
    S_RAW,
    S_W,
    S_K,
    S_X,
    S_H,
    S_Y,
    S_POSITION,
    S_LENGTH,
    S_K_AFTER,
    S_X1,
    S_Y1,
    S_CONSTANT,
    S_COUNT
};
enum { T_PREPARE, T_MATMUL, T_SOFTMAX, T_STATE, T_ONE, T_COUNT };
rlx_status build_two_entries(const rlx_allocator *allocator, rlx_plan **out_plan);

/* One entry with a loop over steps 1 to 3: matmul, softmax, jump back; a copy after it. */
rlx_status build_loop(const rlx_allocator *allocator, rlx_plan **out_plan);

/* `count` copies in a row, each from the last one's buffer to a new one, two buffers alive at a
 * time; for sizes. */
rlx_status build_chain(const rlx_allocator *allocator, uint32_t count, rlx_plan **out_plan);

/* `count` steps like a network's, placed by rlx_place; for pictures (network.c). */
rlx_status build_network(const rlx_allocator *allocator, uint32_t count, rlx_plan **out_plan);

/* One plan per family of ops (families.c); index below family_count(). */
uint32_t family_count(void);
rlx_status build_family(const rlx_allocator *allocator, uint32_t index, rlx_plan **out_plan);

#endif
