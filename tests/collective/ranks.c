/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks for tests: see ranks.h. */
#include "ranks.h"

#include "base/thread.h"
#include "support/support.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct member {
    transport_view view;
    rank_body body;
    pthread_t thread;
} member;

static void *serve(void *user) {
    member *self = user;
    self->body(&self->view);
    return NULL;
}

void run_local(rank_body body, uint32_t count, uint64_t heap_bytes) {
    rlx_transport *endpoints[RLX_RANKS_MOST];
    member *members = calloc(count, sizeof *members);
    assert_non_null(members);
    assert_ok(rlx_transport_create_local(NULL, count, heap_bytes, NULL, endpoints));
    for (uint32_t i = 0; i < count; ++i) {
        members[i].view = (transport_view){.transport = endpoints[i], .rank = i, .count = count};
        members[i].body = body;
        assert_ok(rlx_thread_start(&members[i].thread, serve, &members[i]));
    }
    for (uint32_t i = 0; i < count; ++i)
        pthread_join(members[i].thread, NULL);
    for (uint32_t i = 0; i < count; ++i)
        rlx_transport_destroy(endpoints[i]);
    bool has_failed = false;
    for (uint32_t i = 0; i < count; ++i) {
        if (members[i].view.has_failed) print_error("%s\n", members[i].view.text);
        has_failed = has_failed || members[i].view.has_failed;
    }
    free(members);
    assert_false(has_failed);
}

/* A rank's process: what it saw goes to the pipe. */
static void be_rank(rank_body body, rlx_rank *ranks, uint32_t count, uint32_t rank,
                    uint64_t heap_bytes, int out) {
    static transport_view view;
    rlx_ranks_keep(ranks, count, rank);
    view.rank = rank;
    view.count = count;
    if (transport_check(&view,
                        rlx_transport_create_shm(NULL, &ranks[rank], heap_bytes, NULL,
                                                 &view.transport) == RLX_OK,
                        "the heap", __FILE__, __LINE__)) {
        body(&view);
    }
    rlx_transport_destroy(view.transport);
    if (view.has_failed && write(out, view.text, strlen(view.text)) < 0) _exit(3);
    _exit(view.has_failed ? 1 : 0);
}

void run_shm(rank_body body, uint32_t count, uint64_t heap_bytes) {
    rlx_rank ranks[RLX_RANKS_MOST];
    pid_t children[RLX_RANKS_MOST];
    char text[4096];
    int pipes[2];
    ssize_t got;
    bool is_well = true;
    assert_ok(rlx_ranks_create(count, ranks));
    assert_int_equal(pipe(pipes), 0);
    for (uint32_t i = 0; i < count; ++i) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] != 0) continue;
        close(pipes[0]);
        be_rank(body, ranks, count, i, heap_bytes, pipes[1]);
    }
    rlx_ranks_close(ranks, count);
    close(pipes[1]);
    for (uint32_t i = 0; i < count; ++i) {
        int status = 0;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) is_well = false;
    }
    got = read(pipes[0], text, sizeof text - 1);
    text[got > 0 ? got : 0] = '\0';
    close(pipes[0]);
    if (!is_well || got > 0) fail_msg("%s", got > 0 ? text : "a rank ended by itself");
}
