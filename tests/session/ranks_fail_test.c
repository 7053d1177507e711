/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that do not fit together, that fail alone, and that die: every other rank gets an error
 * that says what happened, and the group goes on where it can. With the argument `shm` ranks are
 * processes, else threads. */
#include "session/ranked_models.h"

#include <signal.h>
#include <unistd.h>

static bool uses_processes;
static const ranked_config small = {.layers = 1,
                                    .width = 32,
                                    .hidden = 64,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .head = 8,
                                    .has_cache = true};

static void run_ranks(const ranked_model *model, uint32_t ranks, ranked_outcome *outcomes) {
    (uses_processes ? ranked_shm : ranked_local)(model, ranks, outcomes);
}

static void expect(const ranked_outcome *outcome, rlx_status status, const char *part) {
    if (outcome->status != status) {
        fail_msg("status %d, expected %d: %s", (int)outcome->status, (int)status, outcome->text);
    }
    assert_text_has(outcome->text, part);
}

static uint64_t pass_bit(const char *name) {
    uint32_t pass = 0;
    while (strcmp(rlx_pass_name(pass), name) != 0)
        pass++;
    return UINT64_C(1) << pass;
}

static void ranks_that_were_compiled_differently_are_told_so(void **state) {
    ranked_model model = ranked_of(&small);
    ranked_outcome *outcomes = ranked_outcomes();
    (void)state;
    model.last_disabled = pass_bit("shard");
    run_ranks(&model, 3, outcomes);
    for (uint32_t r = 0; r < 3; r++)
        expect(&outcomes[r], RLX_MISMATCH, "rank 2 has another bytes of state");
    model.last_disabled = 0;
    model.last_device = "cpu:scalar";
    run_ranks(&model, 2, outcomes);
    for (uint32_t r = 0; r < 2; r++)
        expect(&outcomes[r], RLX_MISMATCH, "rank 1 has another target");
    ranked_free(outcomes);
}

static void a_rank_with_the_program_of_another_is_named(void **state) {
    ranked_model model = ranked_of(&small);
    ranked_outcome *outcomes = ranked_outcomes();
    (void)state;
    model.last_is_first = true;
    run_ranks(&model, 2, outcomes);
    for (uint32_t r = 0; r < 2; r++)
        expect(&outcomes[r], RLX_MISMATCH, "rank 1 has another rank (0, expected 1)");
    ranked_free(outcomes);
}

/* The last rank is cancelled once; then all run as if nothing had been. */
static rlx_status run_cancelled(const void *user, rlx_exec *exec, uint32_t rank, float *out,
                                uint32_t *out_count) {
    if (rank == 1) rlx_exec_cancel(exec);
    rlx_status status = ranked_run(user, exec, rank, out, out_count);
    rlx_status wanted = rank == 1 ? RLX_CANCELLED : RLX_MISMATCH;
    if (status != wanted) return RLX_FAIL(RLX_INTERNAL, "%s", rlx_last_error());
    RLX_TRY(rlx_exec_reset_state(exec));
    return ranked_run(user, exec, rank, out, out_count);
}

static void a_run_that_is_cancelled_on_one_rank_fails_on_all_and_can_be_repeated(void **state) {
    ranked_model model = ranked_of(&small);
    ranked_outcome *alone = ranked_outcomes(), *outcomes = ranked_outcomes();
    (void)state;
    ranked_local(&model, 1, alone);
    model.run = run_cancelled;
    run_ranks(&model, 2, outcomes);
    for (uint32_t r = 0; r < 2; r++) {
        expect(&outcomes[r], RLX_OK, "");
        assert_close_f32(alone[0].out, outcomes[r].out, alone[0].count, 1e-4, 1e-4);
    }
    ranked_free(alone);
    ranked_free(outcomes);
}

/* A clone goes on like the original, on every rank. */
static rlx_status run_clone(const void *user, rlx_exec *exec, uint32_t rank, float *out,
                            uint32_t *out_count) {
    rlx_exec *twin = NULL;
    RLX_TRY(rlx_exec_clone(exec, 0, &twin));
    rlx_status status = ranked_run(user, twin, rank, out, out_count);
    rlx_exec_destroy(twin);
    return status;
}

static void an_executable_of_ranks_can_be_cloned(void **state) {
    ranked_model model = ranked_of(&small);
    ranked_outcome *alone = ranked_outcomes(), *outcomes = ranked_outcomes();
    (void)state;
    ranked_local(&model, 1, alone);
    model.run = run_clone;
    model.executables = 2;
    run_ranks(&model, 2, outcomes);
    for (uint32_t r = 0; r < 2; r++) {
        expect(&outcomes[r], RLX_OK, "");
        assert_close_f32(alone[0].out, outcomes[r].out, alone[0].count, 1e-4, 1e-4);
    }
    model.executables = 1; /* no room for two */
    run_ranks(&model, 2, outcomes);
    for (uint32_t r = 0; r < 2; r++)
        expect(&outcomes[r], RLX_DOES_NOT_FIT, "state and scratch");
    ranked_free(alone);
    ranked_free(outcomes);
}

static rlx_status run_and_die(const void *user, rlx_exec *exec, uint32_t rank, float *out,
                              uint32_t *out_count) {
    RLX_TRY(ranked_run(user, exec, rank, out, out_count));
    RLX_TRY(rlx_exec_reset_state(exec));
    if (rank == 1) raise(SIGKILL);
    return ranked_run(user, exec, rank, out, out_count);
}

static void a_rank_that_dies_during_a_run_is_an_error_on_the_others(void **state) {
    ranked_model model = ranked_of(&small);
    ranked_outcome *outcomes = ranked_outcomes();
    (void)state;
    if (!uses_processes) skip();
    model.run = run_and_die;
    ranked_shm(&model, 3, outcomes);
    expect(&outcomes[0], RLX_TRANSPORT, "rank 1");
    expect(&outcomes[2], RLX_TRANSPORT, "rank 1");
    ranked_free(outcomes);
}

static void a_program_of_several_ranks_needs_a_transport(void **state) {
    ranked_model model = ranked_of(&small);
    ranked_outcome *outcomes = ranked_outcomes();
    (void)state;
    model.has_no_transport = true;
    ranked_local(&model, 2, outcomes);
    for (uint32_t r = 0; r < 2; r++)
        expect(&outcomes[r], RLX_INVALID_ARGUMENT, "for 2 ranks: the executable needs a transport");
    ranked_free(outcomes);
}

static void ranks_that_make_no_sense_are_refused(void **state) {
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    ranked_model model = ranked_of(&small);
    rlx_compile_options options = model.options;
    (void)state;
    options.size = sizeof options;
    assert_ok(ranked_build(&small, &graph));
    assert_ok(rlx_session_create(NULL, graph, &session));
    options.rank = 2;
    options.rank_count = 2;
    assert_status(RLX_INVALID_ARGUMENT, rlx_session_plan(session, NULL, 1, &options, &plan));
    assert_error_has("rank 2 of 2");
    options.rank_count = 1000;
    assert_status(RLX_INVALID_ARGUMENT, rlx_session_plan(session, NULL, 1, &options, &plan));
    rlx_session_destroy(session);
}

/* A node for another number of ranks than the compile's. */
static void a_node_for_other_ranks_is_named(void **state) {
    static const char text[] = "rlx 1\ninput x : f32[4]\n"
                               "y = all_gather(x) ranks=2\noutput y\n";
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    rlx_compile_options options = {.size = sizeof options, .rank_count = 3};
    (void)state;
    assert_ok(rlx_graph_parse(NULL, text, sizeof text - 1, &graph));
    assert_ok(rlx_session_create(NULL, graph, &session));
    assert_status(RLX_INVALID_GRAPH, rlx_session_plan(session, NULL, 1, &options, &plan));
    assert_error_has("node 'y' (all_gather) is for 2 ranks, the compile for 3");
    rlx_session_destroy(session);
}

static rlx_status plan_once(const rlx_allocator *allocator, void *argument) {
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    ranked_model model = ranked_of(argument);
    rlx_compile_options options = model.options;
    options.size = sizeof options;
    options.rank = 1;
    options.rank_count = 3;
    options.entry_count = 1;
    RLX_TRY(ranked_build(argument, &graph));
    rlx_status status = rlx_session_create(allocator, graph, &session);
    if (status == RLX_OK) status = rlx_session_plan(session, NULL, 1, &options, &plan);
    rlx_plan_destroy(plan);
    if (session == NULL) rlx_graph_destroy(graph);
    rlx_session_destroy(session);
    return status;
}

static void sharding_survives_every_allocation_failure(void **state) {
    ranked_config config = small;
    (void)state;
    config.is_fused = config.has_bias = true;
    assert_true(rlx_test_every_allocation_fails(plan_once, &config) > 10);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_were_compiled_differently_are_told_so),
        cmocka_unit_test(a_rank_with_the_program_of_another_is_named),
        cmocka_unit_test(a_run_that_is_cancelled_on_one_rank_fails_on_all_and_can_be_repeated),
        cmocka_unit_test(an_executable_of_ranks_can_be_cloned),
        cmocka_unit_test(a_rank_that_dies_during_a_run_is_an_error_on_the_others),
        cmocka_unit_test(a_program_of_several_ranks_needs_a_transport),
        cmocka_unit_test(ranks_that_make_no_sense_are_refused),
        cmocka_unit_test(a_node_for_other_ranks_is_named),
        cmocka_unit_test(sharding_survives_every_allocation_failure),
    };
    uses_processes = argc > 1 && strcmp(argv[1], "shm") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
