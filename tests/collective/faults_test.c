/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that die, stall or leave: every survivor gets an error that names the rank, nobody hangs,
 * and nothing is left behind. `faults_test N` kills N times. */
#include "ranks.h"

#include "base/thread.h"
#include "support/support.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MOST = 4, HEAP = 1 << 20, SECOND_NS = 1000000000 };
static uint32_t kill_count = 12;

/* What a survivor saw. */
typedef struct outcome {
    rlx_status first, again; /* the failing call, and the one after it */
    uint32_t rank;           /* that the error names */
    char text[256];
} outcome;
typedef struct board {
    _Atomic uint32_t rounds[RANKS_MOST]; /* calls that each rank has done */
    outcome outcomes[RANKS_MOST];
} board;

/* Collectives of every kind, size and place; returns after so many, or when one fails. */
static rlx_status work(rlx_transport *transport, uint32_t most, _Atomic uint32_t *rounds,
                       float *room) {
    static const uint64_t counts[] = {2, 256, 20000, 60000};
    uint32_t rank = rlx_transport_rank(transport), n = rlx_transport_rank_count(transport);
    uint8_t *heap = rlx_transport_address(transport, rank);
    for (uint32_t i = 0; i < most; ++i) {
        bool is_symmetric = i / 24 % 2 != 0;
        rlx_collective_request request = {.kind = (rlx_collective_kind)(i % 6),
                                          .dtype = RLX_DTYPE_F32,
                                          .count = counts[i / 6 % 4],
                                          .root = i % n};
        if (i % 6 == 5) {
            RLX_TRY(rlx_transport_barrier(transport));
        } else {
            bool is_wide = request.kind == RLX_COLLECTIVE_ALL_GATHER ||
                           request.kind == RLX_COLLECTIVE_ALL_TO_ALL;
            if (is_wide) request.count /= n;
            request.input = is_symmetric ? (void *)heap : (void *)room;
            request.output = is_symmetric ? (void *)(heap + HEAP / 2) : (void *)(room + HEAP / 8);
            RLX_TRY(rlx_collective_run(transport, &request));
        }
        atomic_fetch_add(rounds, 1);
    }
    return RLX_OK;
}

static void note_outcome(rlx_transport *transport, rlx_status status, outcome *out) {
    out->first = status;
    out->rank = rlx_last_error_detail()->rank;
    snprintf(out->text, sizeof out->text, "%s", rlx_last_error());
    out->again = rlx_transport_barrier(transport);
}

static _Noreturn void be_rank(rlx_rank *ranks, uint32_t count, uint32_t rank, board *shared,
                              uint64_t timeout_ns) {
    const rlx_transport_options options = {.size = sizeof options, .timeout_ns = timeout_ns};
    rlx_transport *transport = NULL;
    float *room = calloc(1, HEAP);
    rlx_ranks_keep(ranks, count, rank);
    if (room == NULL ||
        rlx_transport_create_shm(NULL, &ranks[rank], HEAP, &options, &transport) != RLX_OK) {
        _exit(9);
    }
    note_outcome(transport, work(transport, UINT32_MAX, &shared->rounds[rank], room),
                 &shared->outcomes[rank]);
    rlx_transport_destroy(transport);
    _exit(0);
}

typedef struct crew {
    board *shared;
    pid_t children[RANKS_MOST];
    uint32_t count;
} crew;

static void start_crew(crew *self, uint32_t count, uint64_t timeout_ns) {
    rlx_rank ranks[RANKS_MOST];
    self->count = count;
    self->shared =
        mmap(NULL, sizeof *self->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(self->shared != MAP_FAILED);
    assert_ok(rlx_ranks_create(count, ranks));
    for (uint32_t i = 0; i < count; ++i) {
        self->children[i] = fork();
        assert_true(self->children[i] >= 0);
        if (self->children[i] == 0) be_rank(ranks, count, i, self->shared, timeout_ns);
    }
    rlx_ranks_close(ranks, count);
}

static void nap(uint64_t ns) {
    const struct timespec time = {.tv_sec = (time_t)(ns / SECOND_NS),
                                  .tv_nsec = (long)(ns % SECOND_NS)};
    nanosleep(&time, NULL);
}

/* Until the rank is in the middle of its work. */
static void await_work(const crew *self, uint32_t rank, uint32_t rounds) {
    for (uint32_t i = 0; i < 20000 && atomic_load(&self->shared->rounds[rank]) < rounds; ++i)
        nap(1000000);
    assert_true(atomic_load(&self->shared->rounds[rank]) >= rounds);
}

static void check_survivors(const crew *self, uint32_t victim, rlx_status expected) {
    for (uint32_t i = 0; i < self->count; ++i) {
        const outcome *seen = &self->shared->outcomes[i];
        int status = 0;
        if (i == victim) continue;
        assert_int_equal(waitpid(self->children[i], &status, 0), self->children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        if (seen->first != expected || seen->rank != victim) {
            fail_msg("rank %u: %s, names rank %u: %s", i, rlx_status_text(seen->first), seen->rank,
                     seen->text);
        }
        assert_int_equal(seen->again, expected);
    }
}

static unsigned shm_entries(void) {
    return access("/dev/shm", R_OK) == 0 ? rlx_test_entry_count("/dev/shm") : 0;
}

static void a_rank_that_is_killed_is_named_on_every_survivor(void **state) {
    rlx_test_random random = rlx_test_seed(11);
    unsigned before = shm_entries();
    (void)state;
    for (uint32_t i = 0; i < kill_count; ++i) {
        uint32_t count = 2 + i % (RANKS_MOST - 1);
        uint32_t victim = (uint32_t)rlx_test_below(&random, count);
        crew self;
        start_crew(&self, count, 0);
        await_work(&self, victim, 1 + (uint32_t)rlx_test_below(&random, 400));
        nap(rlx_test_below(&random, 300000));
        kill(self.children[victim], SIGKILL);
        waitpid(self.children[victim], NULL, 0);
        check_survivors(&self, victim, RLX_TRANSPORT);
        munmap(self.shared, sizeof *self.shared);
    }
    assert_int_equal(shm_entries(), before);
}

/* Without a deadline the error comes all the same. */
static void survivors_do_not_wait_for_the_deadline(void **state) {
    crew self;
    (void)state;
    start_crew(&self, 3, UINT64_MAX);
    await_work(&self, 1, 20);
    kill(self.children[1], SIGKILL);
    waitpid(self.children[1], NULL, 0);
    check_survivors(&self, 1, RLX_TRANSPORT);
    munmap(self.shared, sizeof *self.shared);
}

static void a_rank_that_stalls_is_a_timeout(void **state) {
    crew self;
    (void)state;
    start_crew(&self, 3, SECOND_NS / 4);
    await_work(&self, 2, 20);
    kill(self.children[2], SIGSTOP);
    check_survivors(&self, 2, RLX_TIMEOUT);
    kill(self.children[2], SIGKILL);
    waitpid(self.children[2], NULL, 0);
    munmap(self.shared, sizeof *self.shared);
}

/* local -----------------------------------------------------------------------------------------
 */

typedef struct thread_rank {
    rlx_transport *transport;
    uint32_t rounds; /* calls before it ends; 0: works on */
    float *room;     /* for calls of every kind; NULL: of one */
    _Atomic uint32_t done;
    bool destroys;
    rlx_status status, again;
    uint32_t named;
} thread_rank;

static void *be_thread(void *user) {
    thread_rank *self = user;
    self->status = RLX_OK;
    if (self->room != NULL) {
        self->status = work(self->transport, self->rounds != 0 ? self->rounds : UINT32_MAX,
                            &self->done, self->room);
    }
    for (uint32_t i = 0;
         self->room == NULL && self->status == RLX_OK && (self->rounds == 0 || i < self->rounds);
         ++i) {
        int32_t one = 1;
        self->status =
            rlx_all_reduce(self->transport, &one, &one, 1, RLX_DTYPE_I32, RLX_REDUCTION_SUM);
    }
    if (self->status != RLX_OK) {
        self->named = rlx_last_error_detail()->rank;
        self->again = rlx_transport_barrier(self->transport);
    }
    if (self->destroys) rlx_transport_destroy(self->transport);
    return NULL;
}

static void check_thread(const thread_rank *rank, uint32_t victim) {
    assert_int_equal(rank->status, RLX_TRANSPORT);
    assert_int_equal(rank->again, RLX_TRANSPORT);
    assert_int_equal(rank->named, victim);
}

static void end_one_thread(bool destroys) {
    rlx_transport *endpoints[3];
    thread_rank ranks[3];
    pthread_t threads[3];
    assert_ok(rlx_transport_create_local(NULL, 3, 4096, NULL, endpoints));
    for (uint32_t i = 0; i < 3; ++i) {
        ranks[i] = (thread_rank){.transport = endpoints[i]};
        if (i == 1) ranks[i].rounds = 100, ranks[i].destroys = destroys;
        assert_ok(rlx_thread_start(&threads[i], be_thread, &ranks[i]));
    }
    for (uint32_t i = 0; i < 3; ++i)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < 3; ++i) {
        if (i != 1 || !destroys) rlx_transport_destroy(endpoints[i]);
        if (i == 1) continue;
        check_thread(&ranks[i], 1);
    }
}

/* One of `count` threads ends after so many calls. */
static void end_thread_after(uint32_t count, uint32_t victim, uint32_t rounds) {
    rlx_transport *endpoints[RANKS_MOST];
    thread_rank ranks[RANKS_MOST];
    pthread_t threads[RANKS_MOST];
    assert_ok(rlx_transport_create_local(NULL, count, HEAP, NULL, endpoints));
    for (uint32_t i = 0; i < count; ++i) {
        ranks[i] = (thread_rank){
            .transport = endpoints[i], .room = calloc(1, HEAP), .rounds = i == victim ? rounds : 0};
        assert_non_null(ranks[i].room);
        assert_ok(rlx_thread_start(&threads[i], be_thread, &ranks[i]));
    }
    for (uint32_t i = 0; i < count; ++i) {
        pthread_join(threads[i], NULL);
        free(ranks[i].room);
    }
    for (uint32_t i = 0; i < count; ++i) {
        rlx_transport_destroy(endpoints[i]);
        if (i != victim) check_thread(&ranks[i], victim);
    }
}

/* A quarter of a second each: often in the full tier only. */
static void a_thread_may_end_at_any_call(void **state) {
    rlx_test_random random = rlx_test_seed(12);
    uint32_t times = kill_count < 100 ? 2 : kill_count;
    (void)state;
    for (uint32_t i = 0; i < times; ++i) {
        uint32_t count = 2 + i % (RANKS_MOST - 1);
        uint32_t victim = (uint32_t)rlx_test_below(&random, count);
        end_thread_after(count, victim, 1 + (uint32_t)rlx_test_below(&random, 400));
    }
}

static void a_thread_that_ends_is_named(void **state) {
    (void)state;
    end_one_thread(false);
}

static void a_rank_that_leaves_is_named(void **state) {
    (void)state;
    end_one_thread(true);
}

static void a_rank_may_go_on_in_another_thread(void **state) {
    rlx_transport *endpoints[2];
    thread_rank ranks[2];
    pthread_t threads[2];
    (void)state;
    assert_ok(rlx_transport_create_local(NULL, 2, 4096, NULL, endpoints));
    for (uint32_t round = 0; round < 3; ++round) {
        for (uint32_t i = 0; i < 2; ++i) {
            ranks[i] = (thread_rank){.transport = endpoints[i], .rounds = 50};
            assert_ok(rlx_thread_start(&threads[i], be_thread, &ranks[i]));
        }
        for (uint32_t i = 0; i < 2; ++i) {
            pthread_join(threads[i], NULL);
            assert_int_equal(ranks[i].status, RLX_OK);
        }
    }
    for (uint32_t i = 0; i < 2; ++i)
        rlx_transport_destroy(endpoints[i]);
}

static void a_thread_that_does_not_come_is_a_timeout(void **state) {
    const rlx_transport_options options = {.size = sizeof options, .timeout_ns = 30000000};
    rlx_transport *endpoints[2];
    (void)state;
    assert_ok(rlx_transport_create_local(NULL, 2, 4096, &options, endpoints));
    assert_status(RLX_TIMEOUT, rlx_transport_barrier(endpoints[0]));
    assert_error_has("rank 1 did not come");
    assert_error_has("barrier");
    assert_int_equal(rlx_last_error_detail()->rank, 1);
    assert_status(RLX_TIMEOUT, rlx_transport_barrier(endpoints[1]));
    assert_status(RLX_TIMEOUT, rlx_transport_check(endpoints[1]));
    rlx_transport_destroy(endpoints[0]);
    rlx_transport_destroy(endpoints[1]);
}

/* creation ----------------------------------------------------------------------------------------
 */

static void one_endpoint_alone_reaches_every_rank(void **state) {
    rlx_transport *endpoints[4];
    uint64_t value = 7, back = 0;
    (void)state;
    assert_ok(rlx_transport_create_local(NULL, 4, 64, NULL, endpoints));
    for (uint32_t i = 0; i < 4; ++i) {
        rlx_symmetric_buffer at = {i, 56, 8};
        assert_ok(rlx_transport_put(endpoints[0], at, &value, 8));
        assert_ok(rlx_transport_get(endpoints[3], at, &back, 8));
        assert_int_equal(back, 7);
    }
    for (uint32_t i = 0; i < 4; ++i)
        rlx_transport_destroy(endpoints[i]);
}

static rlx_status make_and_destroy(const rlx_allocator *allocator, void *argument) {
    rlx_transport *endpoints[3];
    (void)argument;
    RLX_TRY(rlx_transport_create_local(allocator, 3, 100, NULL, endpoints));
    for (uint32_t i = 0; i < 3; ++i)
        rlx_transport_destroy(endpoints[i]);
    return RLX_OK;
}

static rlx_status make_alone(const rlx_allocator *allocator, void *argument) {
    const rlx_rank who = {.rank_count = 1, .socket = -1};
    rlx_transport *transport = NULL, *part = NULL;
    uint64_t offset;
    rlx_status status;
    (void)argument;
    RLX_TRY(rlx_transport_create_shm(allocator, &who, 4096, NULL, &transport));
    status = rlx_symmetric_allocate(transport, 100, 0, &offset);
    if (status == RLX_OK) status = rlx_transport_split(transport, 0, 0, &part);
    rlx_transport_destroy(part);
    rlx_transport_destroy(transport);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    rlx_test_every_allocation_fails(make_and_destroy, NULL);
    rlx_test_every_allocation_fails(make_alone, NULL);
}

static void heaps_that_cannot_be_are_refused_with_numbers(void **state) {
    const rlx_rank alone = {.rank_count = 1, .socket = -1}, lost = {.rank_count = 2, .socket = -1};
    rlx_transport *transport = NULL, *endpoints[4];
    (void)state;
    assert_status(RLX_DOES_NOT_FIT,
                  rlx_transport_create_shm(NULL, &alone, UINT64_C(1) << 50, NULL, &transport));
    assert_true(rlx_last_error_detail()->bytes >= UINT64_C(1) << 50);
    assert_true(rlx_last_error_detail()->limit < UINT64_C(1) << 50);
    assert_error_has("are free");
    assert_status(RLX_OUT_OF_MEMORY,
                  rlx_transport_create_shm(NULL, &alone, UINT64_MAX - 5, NULL, &transport));
    assert_status(RLX_OUT_OF_MEMORY,
                  rlx_transport_create_local(NULL, 4, UINT64_MAX / 4, NULL, endpoints));
    assert_status(RLX_INVALID_ARGUMENT, rlx_transport_create_local(NULL, 0, 8, NULL, endpoints));
    assert_status(RLX_INVALID_ARGUMENT, rlx_transport_create_local(NULL, 257, 8, NULL, endpoints));
    assert_status(RLX_INVALID_ARGUMENT,
                  rlx_transport_create_shm(NULL, &lost, 4096, NULL, &transport));
    assert_error_has("rlx launch");
    assert_null(transport);
}

/* Rank 1 asks for another size than rank 0 made. */
static void different_heaps_are_an_error_on_every_rank(void **state) {
    rlx_rank ranks[2];
    rlx_transport *transport = NULL;
    int status = 0;
    pid_t child;
    (void)state;
    assert_ok(rlx_ranks_create(2, ranks));
    child = fork();
    assert_true(child >= 0);
    rlx_ranks_keep(ranks, 2, child == 0 ? 1 : 0);
    if (child == 0) {
        _exit(rlx_transport_create_shm(NULL, &ranks[1], 8192, NULL, &transport) == RLX_MISMATCH
                  ? 0
                  : 1);
    }
    assert_status(RLX_TRANSPORT, rlx_transport_create_shm(NULL, &ranks[0], 4096, NULL, &transport));
    assert_error_has("rank 1 could not join");
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
    close(ranks[0].socket);
}

static void a_first_rank_that_dies_early_is_noticed(void **state) {
    rlx_rank ranks[2];
    rlx_transport *transport = NULL;
    (void)state;
    assert_ok(rlx_ranks_create(2, ranks));
    close(ranks[0].socket);
    assert_status(RLX_TRANSPORT, rlx_transport_create_shm(NULL, &ranks[1], 4096, NULL, &transport));
    assert_error_has("rank 0 has died");
    close(ranks[1].socket);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_killed_is_named_on_every_survivor),
        cmocka_unit_test(survivors_do_not_wait_for_the_deadline),
        cmocka_unit_test(a_rank_that_stalls_is_a_timeout),
        cmocka_unit_test(a_thread_that_ends_is_named),
        cmocka_unit_test(a_thread_may_end_at_any_call),
        cmocka_unit_test(a_rank_that_leaves_is_named),
        cmocka_unit_test(a_rank_may_go_on_in_another_thread),
        cmocka_unit_test(a_thread_that_does_not_come_is_a_timeout),
        cmocka_unit_test(one_endpoint_alone_reaches_every_rank),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(heaps_that_cannot_be_are_refused_with_numbers),
        cmocka_unit_test(different_heaps_are_an_error_on_every_rank),
        cmocka_unit_test(a_first_rank_that_dies_early_is_noticed),
    };
    if (argc > 1) kill_count = (uint32_t)strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
