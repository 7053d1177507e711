/* SPDX-License-Identifier: Apache-2.0 */
/* The demo on several ranks: each is a thread with a session, a program and an executable of its
 * own, bound to one endpoint of a local transport. */
#include "demo_ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct member {
    uint32_t rank, ranks, generate;
    rlx_transport *transport; /* borrowed */
    rlx_status status;
    char text[96]; /* of its failure */
    uint64_t planned_bytes, mapped_bytes;
    demo_chat chat;
    pthread_t thread;
    bool is_started;
} member;

static rlx_compile_options options_of(uint32_t rank, uint32_t ranks) {
    return (rlx_compile_options){.size = sizeof(rlx_compile_options),
                                 .entries = demo_entries,
                                 .entry_count = 2,
                                 .rank = rank,
                                 .rank_count = ranks};
}

static rlx_status converse(member *self, rlx_program *program) {
    const rlx_exec_options options = {.size = sizeof options, .transport = self->transport};
    rlx_exec *exec = NULL;
    rlx_status status = rlx_exec_create(program, &options, &exec);
    self->planned_bytes = rlx_plan_arena_bytes(rlx_program_plan(program));
    if (status == RLX_OK) {
        self->mapped_bytes = rlx_arena_bytes(rlx_exec_arena(exec));
        status = demo_chat_begin(&self->chat, exec);
    }
    if (status == RLX_OK) status = demo_chat_prompt(&self->chat);
    if (status == RLX_OK) status = demo_chat_generate(&self->chat, self->generate);
    if (status != RLX_OK) snprintf(self->text, sizeof self->text, "%s", rlx_last_error());
    rlx_exec_destroy(exec);
    return status;
}

static rlx_status be_rank(member *self, rlx_session *session) {
    const rlx_device_options one_thread = {.size = sizeof one_thread, .threads = 1};
    const rlx_compile_options options = options_of(self->rank, self->ranks);
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    rlx_status status = rlx_device_open("cpu", &one_thread, &device);
    if (status == RLX_OK) {
        status = rlx_session_compile(session, device, &options, NULL, &program);
    }
    if (status == RLX_OK) status = converse(self, program);
    if (status != RLX_OK && self->text[0] == 0) {
        snprintf(self->text, sizeof self->text, "%s", rlx_last_error());
    }
    rlx_program_release(program);
    rlx_device_release(device);
    return status;
}

static void *serve(void *user) {
    member *self = user;
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    self->status = demo_model_build(true, &graph);
    if (self->status == RLX_OK) self->status = rlx_session_create(NULL, graph, &session);
    if (self->status == RLX_OK) {
        self->status = be_rank(self, session);
    } else {
        rlx_graph_destroy(graph);
    }
    rlx_session_destroy(session);
    /* What does not get as far as an executable is missed by its peers at once. */
    if (self->status != RLX_OK) rlx_transport_destroy(self->transport);
    if (self->status != RLX_OK) self->transport = NULL;
    return NULL;
}

static rlx_status heap_bytes(demo_job *job, uint32_t ranks, uint64_t *out_bytes) {
    const rlx_compile_options options = options_of(0, ranks);
    rlx_plan *plan = NULL;
    rlx_status status = rlx_session_plan(job->cached, "cpu", 1, &options, &plan);
    if (status == RLX_OK) *out_bytes = rlx_plan_heap_bytes(plan);
    rlx_plan_destroy(plan);
    return status;
}

static void judge(const member *members, uint32_t ranks, demo_result *result) {
    for (uint32_t i = 0; i < ranks; i++) {
        bool has_same_bits = false;
        if (members[i].status == RLX_OK) {
            (void)demo_chat_difference(&members[0].chat, &members[i].chat, &has_same_bits);
        }
        if (result->problem[0] != 0 || has_same_bits) continue;
        snprintf(result->problem, sizeof result->problem, "%.95s",
                 members[i].text[0] != 0 ? members[i].text : "ranks have different bits");
    }
    result->planned_bytes = members[0].planned_bytes;
    result->mapped_bytes = members[0].mapped_bytes;
    result->chat = members[0].chat;
    if (members[0].chat.decode_ns != 0) {
        result->tokens_per_second =
            1e9 * members[0].chat.decode_count / (double)members[0].chat.decode_ns;
    }
}

static rlx_status run_members(member *members, uint32_t ranks) {
    rlx_status status = RLX_OK;
    for (uint32_t i = 0; i < ranks; i++) {
        members[i].is_started = pthread_create(&members[i].thread, NULL, serve, &members[i]) == 0;
        if (!members[i].is_started) status = RLX_OUT_OF_MEMORY;
        if (status == RLX_OK) continue;
        rlx_transport_destroy(members[i].transport); /* the others need not wait for it */
        members[i].transport = NULL;
    }
    for (uint32_t i = 0; i < ranks; i++) {
        if (members[i].is_started) pthread_join(members[i].thread, NULL);
        rlx_transport_destroy(members[i].transport);
    }
    return status;
}

rlx_status demo_run_ranks(demo_job *job, uint32_t ranks, demo_result *out_result) {
    rlx_transport *endpoints[8] = {NULL};
    member *members = calloc(ranks, sizeof *members);
    uint64_t bytes = 0;
    memset(out_result, 0, sizeof *out_result);
    snprintf(out_result->device, sizeof out_result->device, "cpu, %u ranks", ranks);
    out_result->threads = 1;
    rlx_status status = members == NULL || ranks > 8 ? RLX_OUT_OF_MEMORY : RLX_OK;
    if (status == RLX_OK) status = heap_bytes(job, ranks, &bytes);
    if (status == RLX_OK) {
        status = rlx_transport_create_local(NULL, ranks, bytes, NULL, endpoints);
    }
    for (uint32_t i = 0; status == RLX_OK && i < ranks; i++) {
        members[i].rank = i;
        members[i].ranks = ranks;
        members[i].generate = job->generate;
        members[i].transport = endpoints[i];
    }
    if (status == RLX_OK) status = run_members(members, ranks);
    if (status == RLX_OK) judge(members, ranks, out_result);
    if (status == RLX_OK && out_result->problem[0] == 0) {
        status = demo_compare_with_uncached(job, out_result);
    }
    free(members);
    return status;
}
