/* SPDX-License-Identifier: Apache-2.0 */
/* Models for ranks: MLPs and transformer stacks of any width, with weights by seed. */
#ifndef RLX_TESTS_RANKED_MODELS_H
#define RLX_TESTS_RANKED_MODELS_H

#include "session/ranked.h"

enum { RANKED_PROMPT = 5, RANKED_STEPS = 3, RANKED_CAPACITY = 16 };

typedef struct ranked_config {
    uint32_t layers;
    int64_t width, hidden;
    int64_t heads, kv_heads, head;                /* heads 0: no attention, an MLP */
    bool is_gated, has_bias, has_cache, is_fused; /* fused: q, k and v are one product */
    bool has_rope, is_post_norm, is_transposed;   /* transposed: weights are [outputs][inputs] */
    bool has_constants;                           /* biases stand in the graph */
    bool is_activated; /* the last product of an MLP has an activation, behind the sum */
    bool is_small;     /* weights have another dtype than f32: */
    rlx_dtype weights; /* f16, bf16, or q8_0 (which needs is_transposed) */
} ranked_config;

/* A graph with input x [1][S][width] (and i64 first [] with a cache) and output y. */
rlx_status ranked_build(const void *config, rlx_graph **out_graph);
/* Prefill, then token by token. Entry 0 has S = RANKED_PROMPT, entry 1 has S = 1. */
rlx_status ranked_run(const void *config, rlx_exec *exec, uint32_t rank, float *out,
                      uint32_t *out_count);
ranked_model ranked_of(const ranked_config *config);

#endif
