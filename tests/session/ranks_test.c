/* SPDX-License-Identifier: Apache-2.0 */
/* One model on several ranks gives what it gives alone, and the same bits on every rank: collective
 * nodes one by one, MLPs and transformer stacks with K/V states, heads and widths that the ranks do
 * not divide. With the argument `shm` ranks are processes, else threads. */
#include "session/ranked_models.h"

#include <math.h>

static bool uses_processes;

static void run_ranks(const ranked_model *model, uint32_t ranks, ranked_outcome *outcomes) {
    (uses_processes ? ranked_shm : ranked_local)(model, ranks, outcomes);
}

/* One collective node: each rank's x has its rank in it. */
typedef struct one_node {
    rlx_op op;
    rlx_collective_attrs attrs;
    rlx_dtype dtype;
    int64_t rows;
    bool is_parameter; /* x is a weight and no input */
} one_node;

static rlx_status build_node(const void *user, rlx_graph **out_graph) {
    const one_node *self = user;
    static const float weight[64] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    rlx_source source = {.kind = RLX_SOURCE_MEMORY,
                         .memory = weight,
                         .bytes = (uint64_t)self->rows * 2 * sizeof(float)};
    rlx_shape shape = {2, {self->rows, 2}};
    rlx_graph *graph = NULL;
    rlx_value_id x, y;
    RLX_TRY(rlx_graph_create(NULL, &graph));
    rlx_status status = self->is_parameter
                            ? rlx_graph_add_parameter(graph, "x", self->dtype, shape, &source, &x)
                            : rlx_graph_add_input(graph, "x", self->dtype, shape, &x);
    if (status == RLX_OK) {
        status = rlx_graph_add_node(graph, self->op, &self->attrs, &x, 1, 1, &y);
    }
    if (status == RLX_OK) status = rlx_graph_add_output(graph, y, "y");
    if (status != RLX_OK) {
        rlx_graph_destroy(graph);
        return status;
    }
    *out_graph = graph;
    return RLX_OK;
}

static rlx_status run_node(const void *user, rlx_exec *exec, uint32_t rank, float *out,
                           uint32_t *out_count) {
    const one_node *self = user;
    float x[64];
    uint64_t count = 0;
    for (int64_t i = 0; i < self->rows * 2; i++)
        x[i] = (float)(i + 1 + 10 * rank);
    if (!self->is_parameter) {
        RLX_TRY(rlx_exec_set_f32(exec, 0, "x", x, (uint64_t)self->rows * 2));
    }
    RLX_TRY(rlx_exec_run(exec, 0));
    RLX_TRY(rlx_exec_read_f32(exec, 0, "y", out, RANKED_OUTPUTS, &count));
    *out_count = (uint32_t)count;
    return RLX_OK;
}

static ranked_model model_of_node(const one_node *self) {
    return (ranked_model){.build = build_node, .run = run_node, .user = self};
}

/* What element `index` of rank `rank` is after the op. */
static float expected_of(const one_node *self, uint32_t ranks, uint32_t rank, int64_t index) {
    int64_t per_rank = self->rows * 2 / (int64_t)ranks;
    double sum = 0, first = self->is_parameter ? 0 : 1;
    uint32_t from = rank;
    switch (self->op) {
    case RLX_OP_ALL_GATHER:
        from = (uint32_t)(index / (self->rows * 2));
        index %= self->rows * 2;
        break;
    case RLX_OP_BROADCAST:
        from = (uint32_t)self->attrs.root;
        break;
    case RLX_OP_ALL_TO_ALL:
        from = (uint32_t)(index / per_rank);
        index = index % per_rank + per_rank * (int64_t)rank;
        break;
    default:
        if (self->op == RLX_OP_REDUCE_SCATTER) index += per_rank * (int64_t)rank;
        for (uint32_t r = 0; r < ranks; r++)
            sum += first + (double)index + (self->is_parameter ? 0 : 10.0 * r);
        if (self->attrs.reduction == RLX_COMBINE_MEAN) sum /= ranks;
        if (self->attrs.reduction == RLX_COMBINE_MAX) sum = 1 + (double)index + 10.0 * (ranks - 1);
        return (float)sum;
    }
    return (float)(first + (double)index + 10.0 * from);
}

static void check_node(const one_node *self, uint32_t ranks) {
    ranked_model model = model_of_node(self);
    ranked_outcome *outcomes = ranked_outcomes();
    run_ranks(&model, ranks, outcomes);
    for (uint32_t r = 0; r < ranks; r++) {
        if (outcomes[r].status != RLX_OK) fail_msg("rank %u: %s", r, outcomes[r].text);
        for (uint32_t i = 0; i < outcomes[r].count; i++) {
            float expected = expected_of(self, ranks, r, i);
            if (outcomes[r].out[i] == expected) continue;
            fail_msg("%s, rank %u of %u, element %u: %g, expected %g", rlx_op_name(self->op), r,
                     ranks, i, (double)outcomes[r].out[i], (double)expected);
        }
        assert_true(outcomes[r].count != 0);
    }
    ranked_free(outcomes);
}

static void an_all_reduce_node_sums_what_the_ranks_have(void **state) {
    (void)state;
    for (uint32_t ranks = 1; ranks <= 4; ranks++) {
        check_node(&(one_node){.op = RLX_OP_ALL_REDUCE, .dtype = RLX_DTYPE_F32, .rows = 6}, ranks);
    }
    check_node(&(one_node){.op = RLX_OP_ALL_REDUCE,
                           .attrs = {.reduction = RLX_COMBINE_MAX, .ranks = 3},
                           .dtype = RLX_DTYPE_I32,
                           .rows = 6},
               3);
    check_node(&(one_node){.op = RLX_OP_ALL_REDUCE,
                           .attrs = {.reduction = RLX_COMBINE_MEAN},
                           .dtype = RLX_DTYPE_F16,
                           .rows = 1},
               2);
    check_node(
        &(one_node){
            .op = RLX_OP_ALL_REDUCE, .dtype = RLX_DTYPE_F32, .rows = 6, .is_parameter = true},
        2);
}

static void every_collective_node_does_what_its_name_says(void **state) {
    static const rlx_op ops[] = {RLX_OP_ALL_GATHER, RLX_OP_REDUCE_SCATTER, RLX_OP_BROADCAST,
                                 RLX_OP_ALL_TO_ALL};
    (void)state;
    for (uint32_t ranks = 1; ranks <= 4; ranks++) {
        for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++) {
            one_node node = {.op = ops[i],
                             .attrs = {.ranks = ranks, .root = ranks - 1},
                             .dtype = RLX_DTYPE_F32,
                             .rows = 12};
            check_node(&node, ranks);
            node.dtype = RLX_DTYPE_I64;
            check_node(&node, ranks);
        }
    }
}

/* The same config alone and split; all ranks to the bit, and near to what one computes. */
static void check_config(const ranked_config *config, uint32_t ranks, uint32_t splits,
                         double tolerance) {
    ranked_model model = ranked_of(config);
    ranked_outcome *alone = ranked_outcomes(), *outcomes = ranked_outcomes();
    ranked_local(&model, 1, alone);
    if (alone[0].status != RLX_OK) fail_msg("alone: %s", alone[0].text);
    run_ranks(&model, ranks, outcomes);
    for (uint32_t r = 0; r < ranks; r++) {
        if (outcomes[r].status != RLX_OK) fail_msg("rank %u: %s", r, outcomes[r].text);
        assert_int_equal(outcomes[r].count, alone[0].count);
        assert_memory_equal(outcomes[r].out, outcomes[0].out, alone[0].count * sizeof(float));
        if (splits != UINT32_MAX) assert_int_equal(outcomes[r].splits, splits);
    }
    assert_close_f32(alone[0].out, outcomes[0].out, alone[0].count, tolerance, tolerance);
    if (splits != 0 && splits != UINT32_MAX) {
        assert_true(outcomes[0].weights_bytes < alone[0].weights_bytes);
    }
    ranked_free(alone);
    ranked_free(outcomes);
}

static void an_mlp_is_split(void **state) {
    (void)state;
    ranked_config config = {.layers = 2, .width = 32, .hidden = 96};
    for (uint32_t ranks = 2; ranks <= 4; ranks++)
        check_config(&config, ranks, 4, 1e-4);
    config.has_bias = config.is_gated = true;
    check_config(&config, 3, 4, 1e-4);
    config.hidden = 37; /* nobody divides it */
    config.is_transposed = config.is_post_norm = true;
    check_config(&config, 4, 4, 1e-4);
    config.has_constants = config.is_activated = true; /* cut and filled up in the graph */
    check_config(&config, 3, 4, 1e-4);
}

static void a_decoder_with_a_cache_is_split(void **state) {
    (void)state;
    ranked_config config = {.layers = 2,
                            .width = 48,
                            .hidden = 80,
                            .heads = 4,
                            .kv_heads = 4,
                            .head = 8,
                            .is_gated = true,
                            .has_cache = true,
                            .has_rope = true};
    for (uint32_t ranks = 2; ranks <= 4; ranks++)
        check_config(&config, ranks, 8, 1e-4);
    config.kv_heads = 2; /* groups of heads, and ranks without any */
    check_config(&config, 2, 8, 1e-4);
    check_config(&config, 3, 8, 1e-4);
    config.is_fused = config.has_bias = true;
    check_config(&config, 2, 8, 1e-4);
}

static void an_encoder_with_biases_is_split(void **state) {
    (void)state;
    ranked_config config = {.layers = 2,
                            .width = 48,
                            .hidden = 96,
                            .heads = 6,
                            .kv_heads = 6,
                            .head = 8,
                            .has_bias = true,
                            .is_post_norm = true,
                            .is_transposed = true};
    for (uint32_t ranks = 2; ranks <= 4; ranks++)
        check_config(&config, ranks, 8, 1e-4);
}

static void small_and_quantised_weights_are_split_by_whole_blocks(void **state) {
    (void)state;
    ranked_config config = {.layers = 1,
                            .width = 64,
                            .hidden = 160,
                            .heads = 4,
                            .kv_heads = 2,
                            .head = 16,
                            .is_transposed = true,
                            .is_gated = true,
                            .has_cache = true,
                            .is_small = true,
                            .weights = RLX_DTYPE_Q8_0};
    check_config(&config, 2, 4, 2e-3);
    check_config(&config, 3, UINT32_MAX, 2e-3);
    config.weights = RLX_DTYPE_BF16;
    check_config(&config, 3, 4, 2e-3);
}

/* x / |x| and log |x| of columns: what fills a part up would be no number and infinite. */
static rlx_status build_wild(const void *user, rlx_graph **out_graph) {
    static const char text[] = "rlx 1\n"
                               "input x : f32[2, 8]\n"
                               "param a : f32[8, 3] = seeded(1, 0.5)\n"
                               "param b : f32[3, 8] = seeded(2, 0.5)\n"
                               "param c : f32[3, 8] = seeded(3, 0.5)\n"
                               "h = matmul(x, a)\n"
                               "m = abs(h)\n"
                               "d = div(h, m)\n"
                               "l = log(m)\n"
                               "y = matmul(d, b)\n"
                               "z = matmul(l, c)\n"
                               "s = add(y, z)\n"
                               "output s\n";
    (void)user;
    return rlx_graph_parse(NULL, text, sizeof text - 1, out_graph);
}

static rlx_status run_wild(const void *user, rlx_exec *exec, uint32_t rank, float *out,
                           uint32_t *out_count) {
    float x[16];
    uint64_t count = 0;
    (void)user, (void)rank;
    for (int i = 0; i < 16; i++)
        x[i] = (float)(i % 5) - 1.5f;
    RLX_TRY(rlx_exec_set_f32(exec, 0, "x", x, 16));
    RLX_TRY(rlx_exec_run(exec, 0));
    RLX_TRY(rlx_exec_read_f32(exec, 0, "s", out, RANKED_OUTPUTS, &count));
    *out_count = (uint32_t)count;
    return RLX_OK;
}

static void what_fills_a_part_up_reaches_no_result(void **state) {
    const ranked_model model = {.build = build_wild, .run = run_wild};
    ranked_outcome *one = ranked_outcomes(), *many = ranked_outcomes();
    (void)state;
    run_ranks(&model, 1, one);
    assert_int_equal(one->status, RLX_OK);
    for (uint32_t ranks = 2; ranks <= 5; ranks++) { /* of three columns */
        run_ranks(&model, ranks, many);
        for (uint32_t r = 0; r < ranks; r++) {
            if (many[r].status != RLX_OK) fail_msg("rank %u: %s", r, many[r].text);
            assert_int_equal(many[r].splits, 1);
            assert_int_equal(many[r].count, one->count);
            assert_memory_equal(many[r].out, many[0].out, one->count * sizeof(float));
            for (uint32_t i = 0; i < one->count; i++)
                assert_true(fabsf(many[r].out[i] - one->out[i]) <= 1e-4f);
        }
    }
    ranked_free(one);
    ranked_free(many);
}

static void random_models_are_split(void **state) {
    (void)state;
    rlx_test_random random = rlx_test_seed(77);
    for (uint32_t round = 0; round < 12; round++) {
        int64_t kv = 1 + (int64_t)rlx_test_below(&random, 4);
        ranked_config config = {.layers = 1 + (uint32_t)rlx_test_below(&random, 2),
                                .width = 8 + (int64_t)rlx_test_below(&random, 40),
                                .hidden = 4 + (int64_t)rlx_test_below(&random, 120),
                                .kv_heads = kv,
                                .heads = kv * (1 + (int64_t)rlx_test_below(&random, 3)),
                                .head = 2 * (1 + (int64_t)rlx_test_below(&random, 8)),
                                .is_gated = rlx_test_below(&random, 2) != 0,
                                .has_bias = rlx_test_below(&random, 2) != 0,
                                .has_cache = rlx_test_below(&random, 2) != 0,
                                .has_constants = rlx_test_below(&random, 2) != 0,
                                .is_activated = rlx_test_below(&random, 2) != 0,
                                .is_fused = rlx_test_below(&random, 2) != 0,
                                .has_rope = rlx_test_below(&random, 2) != 0,
                                .is_post_norm = rlx_test_below(&random, 2) != 0,
                                .is_transposed = rlx_test_below(&random, 2) != 0};
        check_config(&config, 2 + (uint32_t)rlx_test_below(&random, 4), UINT32_MAX, 2e-4);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_all_reduce_node_sums_what_the_ranks_have),
        cmocka_unit_test(every_collective_node_does_what_its_name_says),
        cmocka_unit_test(an_mlp_is_split),
        cmocka_unit_test(a_decoder_with_a_cache_is_split),
        cmocka_unit_test(an_encoder_with_biases_is_split),
        cmocka_unit_test(small_and_quantised_weights_are_split_by_whole_blocks),
        cmocka_unit_test(what_fills_a_part_up_reaches_no_result),
        cmocka_unit_test(random_models_are_split),
    };
    uses_processes = argc > 1 && strcmp(argv[1], "shm") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
