/* SPDX-License-Identifier: Apache-2.0 */
/* One model on several ranks: see ranked.h. */
#include "session/ranked.h"

#include "base/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t outcome_bytes = RANKED_MOST * sizeof(ranked_outcome);

ranked_outcome *ranked_outcomes(void) {
    void *memory =
        mmap(NULL, outcome_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

void ranked_free(ranked_outcome *outcomes) {
    munmap(outcomes, outcome_bytes);
}

static rlx_compile_options options_of(const ranked_model *model, uint32_t rank, uint32_t ranks) {
    rlx_compile_options options = model->options;
    options.size = sizeof options;
    options.rank = rank;
    options.rank_count = ranks;
    if (rank + 1 == ranks) options.disabled_passes |= model->last_disabled;
    if (rank + 1 == ranks && model->last_is_first) options.rank = 0;
    return options;
}

static rlx_status heap_bytes(const ranked_model *model, uint32_t ranks, uint64_t *out_bytes) {
    rlx_compile_options options = options_of(model, 0, ranks);
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    RLX_TRY(model->build(model->user, &graph));
    rlx_status status = rlx_session_create(NULL, graph, &session);
    if (status == RLX_OK) status = rlx_session_plan(session, model->device, 1, &options, &plan);
    if (status == RLX_OK) *out_bytes = rlx_plan_heap_bytes(plan);
    if (model->executables != 0) *out_bytes *= model->executables;
    rlx_plan_destroy(plan);
    if (session == NULL) rlx_graph_destroy(graph);
    rlx_session_destroy(session);
    return status;
}

static rlx_status run_program(const ranked_model *model, rlx_program *program,
                              rlx_transport *transport, ranked_outcome *outcome) {
    rlx_exec_options options = {.size = sizeof options,
                                .transport = model->has_no_transport ? NULL : transport};
    const rlx_plan *plan = rlx_program_plan(program);
    rlx_exec *exec = NULL;
    for (uint32_t i = 0; i < rlx_plan_split_count(plan); i++) {
        rlx_split_info info;
        RLX_TRY(rlx_plan_split_at(plan, i, &info));
        *(info.is_split ? &outcome->splits : &outcome->whole) += 1;
    }
    outcome->weights_bytes = rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS);
    RLX_TRY(rlx_exec_create(program, &options, &exec));
    rlx_status status =
        model->run(model->user, exec, rlx_plan_rank(plan), outcome->out, &outcome->count);
    if (status != RLX_OK) snprintf(outcome->text, sizeof outcome->text, "%s", rlx_last_error());
    rlx_exec_destroy(exec);
    return status;
}

static rlx_status be_rank(const ranked_model *model, uint32_t rank, uint32_t ranks,
                          rlx_transport *transport, ranked_outcome *outcome) {
    rlx_compile_options options = options_of(model, rank, ranks);
    rlx_device_options one = {.size = sizeof one, .threads = 1};
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    RLX_TRY(model->build(model->user, &graph));
    rlx_status status = rlx_session_create(NULL, graph, &session);
    const char *name =
        rank + 1 == ranks && model->last_device != NULL ? model->last_device : model->device;
    if (status == RLX_OK) status = rlx_device_open(name, &one, &device);
    if (status == RLX_OK) status = rlx_session_compile(session, device, &options, NULL, &program);
    if (status == RLX_OK) status = run_program(model, program, transport, outcome);
    if (status != RLX_OK && outcome->text[0] == 0) {
        snprintf(outcome->text, sizeof outcome->text, "%s", rlx_last_error());
    }
    rlx_program_release(program);
    rlx_device_release(device);
    if (session == NULL) rlx_graph_destroy(graph);
    rlx_session_destroy(session);
    return status;
}

typedef struct member {
    const ranked_model *model;
    rlx_transport *transport;
    ranked_outcome *outcome;
    uint32_t rank, ranks;
    pthread_t thread;
} member;

static void *serve(void *user) {
    member *self = user;
    self->outcome->status =
        be_rank(self->model, self->rank, self->ranks, self->transport, self->outcome);
    return NULL;
}

void ranked_local(const ranked_model *model, uint32_t ranks, ranked_outcome *outcomes) {
    rlx_transport *endpoints[RANKED_MOST] = {NULL};
    rlx_transport_options options = {.size = sizeof options, .timeout_ns = model->timeout_ns};
    member members[RANKED_MOST];
    uint64_t bytes = 0;
    memset(outcomes, 0, outcome_bytes);
    assert_ok(heap_bytes(model, ranks, &bytes));
    if (ranks > 1) assert_ok(rlx_transport_create_local(NULL, ranks, bytes, &options, endpoints));
    for (uint32_t i = 0; i < ranks; i++) {
        members[i] = (member){model, endpoints[i], &outcomes[i], i, ranks, 0};
        assert_ok(rlx_thread_start(&members[i].thread, serve, &members[i]));
    }
    for (uint32_t i = 0; i < ranks; i++)
        pthread_join(members[i].thread, NULL);
    for (uint32_t i = 0; i < ranks; i++)
        rlx_transport_destroy(endpoints[i]);
}

static void be_process(const ranked_model *model, rlx_rank *who, uint32_t ranks, uint32_t rank,
                       uint64_t bytes, ranked_outcome *outcome) {
    rlx_transport_options options = {.size = sizeof options, .timeout_ns = model->timeout_ns};
    rlx_transport *transport = NULL;
    rlx_ranks_keep(who, ranks, rank);
    rlx_status status = rlx_transport_create_shm(NULL, &who[rank], bytes, &options, &transport);
    if (status == RLX_OK) {
        status = be_rank(model, rank, ranks, transport, outcome);
    } else {
        snprintf(outcome->text, sizeof outcome->text, "%s", rlx_last_error());
    }
    outcome->status = status;
    rlx_transport_destroy(transport);
    _exit(0);
}

void ranked_shm(const ranked_model *model, uint32_t ranks, ranked_outcome *outcomes) {
    rlx_rank who[RANKED_MOST];
    pid_t children[RANKED_MOST];
    uint64_t bytes = 0;
    memset(outcomes, 0, outcome_bytes);
    assert_ok(heap_bytes(model, ranks, &bytes));
    assert_ok(rlx_ranks_create(ranks, who));
    for (uint32_t i = 0; i < ranks; i++) {
        outcomes[i].status = RLX_TRANSPORT; /* unless it comes back */
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) be_process(model, who, ranks, i, bytes, &outcomes[i]);
    }
    rlx_ranks_close(who, ranks);
    for (uint32_t i = 0; i < ranks; i++)
        assert_int_equal(waitpid(children[i], NULL, 0), children[i]);
}
