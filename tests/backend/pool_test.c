/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool: every item exactly once, from many callers at once, with a clean floating-point
 * mode, and no nesting. Threads count what they see; the test thread checks. */
#include "backend/cpu/pool.h"
#include "base/thread.h"
#include "support/support.h"

#include <fenv.h>

enum { ITEMS = 10007, ROUNDS = 300, CALLERS = 4 };

typedef struct tally {
    _Atomic uint32_t seen[ITEMS];
    _Atomic uint32_t workers; /* bit per worker number that took part */
    _Atomic uint32_t crooked; /* chunks that ran with another rounding mode */
    uint32_t limit;           /* worker numbers stay below */
    _Atomic uint32_t past;    /* that did not */
} tally;

static void count_items(void *context, uint32_t worker, int64_t begin, int64_t end) {
    tally *t = context;
    volatile float one = 1, tiny = 0x1p-26f;
    if (worker >= t->limit) atomic_fetch_add(&t->past, 1);
    if (one + tiny != one) atomic_fetch_add(&t->crooked, 1); /* rounded upwards */
    atomic_fetch_or(&t->workers, 1u << (worker & 31));
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add_explicit(&t->seen[i], 1, memory_order_relaxed);
}

static uint32_t wrong_counts(const tally *t, uint32_t expected) {
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < ITEMS; i++)
        wrong += atomic_load(&t->seen[i]) != expected;
    return wrong;
}

static void chunks_cover_every_item_once(void **state) {
    const int64_t chunks[] = {1, 7, 64, 5000, ITEMS - 1, ITEMS, ITEMS + 1};
    (void)state;
    for (uint32_t threads = 1; threads <= 8; threads++) {
        rlx_pool *pool = NULL;
        assert_ok(rlx_pool_create(NULL, threads, &pool));
        assert_int_equal(rlx_pool_threads(pool), threads);
        for (uint32_t i = 0; i < 7; i++) {
            static tally t;
            memset(&t, 0, sizeof t);
            t.limit = threads;
            rlx_pool_job job = {count_items, &t, ITEMS, chunks[i], UINT32_MAX};
            assert_ok(rlx_pool_run(pool, &job));
            assert_int_equal(wrong_counts(&t, 1), 0);
        }
        rlx_pool_destroy(pool);
    }
}

/* Bit i: a chunk begins at item i. */
static void note_begin(void *context, uint32_t worker, int64_t begin, int64_t end) {
    (void)worker, (void)end;
    atomic_fetch_or((_Atomic uint32_t *)context, 1u << begin);
}

/* Where the chunks of a job begin, of two threads. */
static uint32_t begins_of(int64_t items, int64_t chunk) {
    _Atomic uint32_t begins = 0;
    rlx_pool *pool = NULL;
    rlx_pool_job job = {note_begin, &begins, items, chunk, 2};
    assert_ok(rlx_pool_create(NULL, 2, &pool));
    assert_ok(rlx_pool_run(pool, &job));
    rlx_pool_destroy(pool);
    return atomic_load(&begins);
}

static void few_chunks_are_cut_evenly(void **state) {
    (void)state;
    /* Two parts of five items: large items one by one, small ones at once. */
    assert_int_equal(begins_of(10, 1), 0x3ff);
    assert_int_equal(begins_of(10, 2), 1 << 0 | 1 << 5);
    assert_int_equal(begins_of(16, 2), 1 << 0 | 1 << 8);
    /* More than four chunks are as many as have two items or more. */
    assert_int_equal(begins_of(22, 2),
                     1 << 0 | 1 << 3 | 1 << 6 | 1 << 9 | 1 << 11 | 1 << 14 | 1 << 17 | 1 << 20);
}

/* Workers find the next job while they look out, while they fall asleep, and asleep. */
static void jobs_of_a_run_may_have_pauses_between_them(void **state) {
    const uint64_t pauses_ns[] = {0, 5000, 20000, 60000, 100000, 300000};
    rlx_pool *pool = NULL;
    (void)state;
    assert_ok(rlx_pool_create(NULL, 3, &pool));
    for (uint32_t i = 0; i < 60; i++) {
        static tally t;
        uint64_t start = rlx_now_ns();
        memset(&t, 0, sizeof t);
        t.limit = 3;
        rlx_pool_job job = {count_items, &t, ITEMS, 100, UINT32_MAX};
        if (i % 20 == 0) rlx_pool_begin(pool);
        assert_ok(rlx_pool_run(pool, &job));
        assert_int_equal(wrong_counts(&t, 1), 0);
        if (i % 20 == 12) rlx_pool_end(pool);
        while (rlx_now_ns() - start < pauses_ns[i % 6])
            rlx_cpu_relax();
    }
    rlx_pool_destroy(pool);
}

static void worker_numbers_stay_below_the_limit(void **state) {
    rlx_pool *pool = NULL;
    static tally t;
    (void)state;
    memset(&t, 0, sizeof t);
    t.limit = 2;
    assert_ok(rlx_pool_create(NULL, 6, &pool));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        rlx_pool_job job = {count_items, &t, ITEMS, 16, 2};
        assert_ok(rlx_pool_run(pool, &job));
    }
    rlx_pool_destroy(pool);
    assert_int_equal(atomic_load(&t.past), 0);
    assert_int_equal(wrong_counts(&t, ROUNDS), 0);
}

static void an_empty_job_does_nothing(void **state) {
    rlx_pool *pool = NULL;
    static tally t;
    (void)state;
    assert_ok(rlx_pool_create(NULL, 3, &pool));
    assert_ok(rlx_pool_run(pool, &(rlx_pool_job){count_items, &t, 0, 1, 8}));
    assert_int_equal(wrong_counts(&t, 0), 0);
    rlx_pool_destroy(pool);
}

typedef struct caller {
    rlx_pool *pool;
    tally *t;
    uint32_t failures;
    uint32_t pause_every;
} caller;

static void *call_often(void *argument) {
    caller *c = argument;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        rlx_pool_job job = {count_items, c->t, ITEMS, 1 + (int64_t)(i % 97), UINT32_MAX};
        if (rlx_pool_run(c->pool, &job) != RLX_OK) c->failures++;
        /* Let the workers fall asleep now and then, so that waking is tried too. */
        if (c->pause_every != 0 && i % c->pause_every == 0) {
            _Atomic uint32_t never = 0;
            rlx_futex_wait(&never, 0, 200000);
        }
    }
    return NULL;
}

static void many_callers_share_one_pool(void **state) {
    static tally tallies[CALLERS];
    caller callers[CALLERS];
    pthread_t threads[CALLERS];
    rlx_pool *pool = NULL;
    (void)state;
    assert_ok(rlx_pool_create(NULL, 4, &pool));
    for (uint32_t i = 0; i < CALLERS; i++) {
        memset(&tallies[i], 0, sizeof tallies[i]);
        tallies[i].limit = 4;
        callers[i] = (caller){pool, &tallies[i], 0, i == 0 ? 0 : 10 * i};
        assert_ok(rlx_thread_start(&threads[i], call_often, &callers[i]));
    }
    for (uint32_t i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    rlx_pool_destroy(pool);
    for (uint32_t i = 0; i < CALLERS; i++) {
        assert_int_equal(callers[i].failures, 0);
        assert_int_equal(atomic_load(&tallies[i].past), 0);
        assert_int_equal(wrong_counts(&tallies[i], ROUNDS), 0);
    }
}

typedef struct nested {
    rlx_pool *pool;
    _Atomic uint32_t busy, other;
} nested;

static void run_inside(void *context, uint32_t worker, int64_t begin, int64_t end) {
    nested *n = context;
    static tally unused;
    rlx_pool_job job = {count_items, &unused, 10, 1, 8};
    (void)worker;
    (void)begin;
    (void)end;
    if (rlx_pool_run(n->pool, &job) == RLX_BUSY) {
        atomic_fetch_add(&n->busy, 1);
    } else {
        atomic_fetch_add(&n->other, 1);
    }
}

static void use_from_inside_a_kernel_is_an_error(void **state) {
    nested n = {0};
    (void)state;
    assert_ok(rlx_pool_create(NULL, 3, &n.pool));
    assert_ok(rlx_pool_run(n.pool, &(rlx_pool_job){run_inside, &n, 20, 1, 8}));
    assert_ok(rlx_pool_run(n.pool, &(rlx_pool_job){run_inside, &n, 1, 1, 8})); /* alone, too */
    rlx_pool_destroy(n.pool);
    assert_int_equal(atomic_load(&n.busy), 21);
    assert_int_equal(atomic_load(&n.other), 0);
}

/* A worker inherits the mode of whoever made the pool; a job must not see it. */
static void workers_have_the_default_floating_point_mode(void **state) {
    rlx_pool *pool = NULL;
    static tally t;
    (void)state;
    memset(&t, 0, sizeof t);
    t.limit = 8;
    fesetround(FE_UPWARD);
    rlx_status made = rlx_pool_create(NULL, 4, &pool);
    fesetround(FE_TONEAREST);
    assert_ok(made);
    for (uint32_t i = 0; i < ROUNDS; i++)
        assert_ok(rlx_pool_run(pool, &(rlx_pool_job){count_items, &t, ITEMS, 50, 8}));
    rlx_pool_destroy(pool);
    assert_int_equal(atomic_load(&t.crooked), 0);
}

/* A crew that starts a thread per part but the last, which it runs itself. */
typedef struct part_call {
    void (*part)(void *context, uint32_t index);
    void *context;
    uint32_t index;
} part_call;

static void *call_part(void *argument) {
    part_call *c = argument;
    c->part(c->context, c->index);
    return NULL;
}

static void run_on_threads(void *user, uint32_t count, void (*part)(void *, uint32_t),
                           void *context) {
    pthread_t threads[8];
    part_call calls[8];
    atomic_fetch_add((_Atomic uint32_t *)user, count);
    for (uint32_t i = 0; i < count; i++) {
        calls[i] = (part_call){part, context, i};
        if (i + 1 < count) pthread_create(&threads[i], NULL, call_part, &calls[i]);
    }
    call_part(&calls[count - 1]);
    for (uint32_t i = 0; i + 1 < count; i++)
        pthread_join(threads[i], NULL);
}

/* A crew that does not do what it is asked to. */
static void run_nothing(void *user, uint32_t count, void (*part)(void *, uint32_t), void *context) {
    (void)part;
    (void)context;
    atomic_fetch_add((_Atomic uint32_t *)user, count);
}

static void the_caller_may_bring_threads(void **state) {
    _Atomic uint32_t parts = 0;
    const rlx_pool_crew crews[] = {{run_on_threads, &parts}, {run_nothing, &parts}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rlx_pool *pool = NULL;
        static tally t;
        memset(&t, 0, sizeof t);
        t.limit = 3;
        assert_ok(rlx_pool_create_crew(NULL, 3, &crews[i], &pool));
        assert_int_equal(rlx_pool_threads(pool), 3);
        for (uint32_t round = 0; round < 20; round++)
            assert_ok(rlx_pool_run(pool, &(rlx_pool_job){count_items, &t, ITEMS, 50, 8}));
        assert_ok(rlx_pool_run(pool, &(rlx_pool_job){count_items, &t, ITEMS, ITEMS, 8}));
        rlx_pool_destroy(pool);
        assert_int_equal(wrong_counts(&t, 21), 0);
        assert_int_equal(atomic_load(&t.past), 0);
    }
    assert_int_equal(atomic_load(&parts), 2 * 20 * 3);
}

/* More threads that want to run than there are processors: jobs end all the same, whoever does
 * them. */
static void *want_to_run(void *argument) {
    while (atomic_load((_Atomic uint32_t *)argument) == 0)
        rlx_cpu_relax();
    return NULL;
}

static void jobs_end_on_a_crowded_machine(void **state) {
    _Atomic uint32_t stop = 0;
    pthread_t crowd[6];
    rlx_pool *pool = NULL;
    static tally t;
    (void)state;
    memset(&t, 0, sizeof t);
    t.limit = 3;
    assert_ok(rlx_pool_create(NULL, 3, &pool));
    for (int i = 0; i < 6; i++)
        assert_ok(rlx_thread_start(&crowd[i], want_to_run, &stop));
    uint32_t rounds = 0;
    for (uint64_t start = rlx_now_ns(); rounds < 5 || rlx_now_ns() - start < 300000000; rounds++)
        assert_ok(rlx_pool_run(pool, &(rlx_pool_job){count_items, &t, ITEMS, 50, 8}));
    atomic_store(&stop, 1);
    for (int i = 0; i < 6; i++)
        pthread_join(crowd[i], NULL);
    rlx_pool_destroy(pool);
    assert_int_equal(wrong_counts(&t, rounds), 0);
}

/* Small and large jobs in turns, and workers that come late to both: a large one must not be taken
 * for the rest of a small one. */
static void jobs_of_changing_sizes_run_every_item_once(void **state) {
    rlx_pool *pool = NULL;
    static tally t;
    (void)state;
    memset(&t, 0, sizeof t);
    t.limit = 6;
    assert_ok(rlx_pool_create(NULL, 6, &pool));
    uint32_t rounds = 0;
    for (uint64_t start = rlx_now_ns(); rounds < 5 || rlx_now_ns() - start < 300000000; rounds++) {
        assert_ok(rlx_pool_run(pool, &(rlx_pool_job){count_items, &t, 12, 2, 8}));
        for (uint32_t i = 0; i < 12; i++)
            atomic_fetch_sub(&t.seen[i], 1);
        assert_ok(rlx_pool_run(pool, &(rlx_pool_job){count_items, &t, ITEMS, 50, 8}));
    }
    rlx_pool_destroy(pool);
    assert_int_equal(wrong_counts(&t, rounds), 0);
}

static void work_is_cut_by_cost_alone(void **state) {
    (void)state;
    assert_int_equal(rlx_pool_chunk(1500000, 1), 1500000 / 64);
    assert_int_equal(rlx_pool_chunk(10000000, 1), 32768);
    assert_int_equal(rlx_pool_chunk(100000, 1), 16384);
    assert_int_equal(rlx_pool_chunk(100, 1), 100);
    assert_int_equal(rlx_pool_chunk(64, 1000000), 1);
    assert_int_equal(rlx_pool_chunk(0, 5), 1);
    assert_int_equal(rlx_pool_chunk(10, 0), 10);
    assert_false(rlx_pool_is_worth(1, INT64_MAX));
    assert_false(rlx_pool_is_worth(1000, 1));
    assert_true(rlx_pool_is_worth(2, 1000000));
    assert_true(rlx_pool_is_worth(INT64_MAX, 1));
}

static rlx_status make_and_destroy(const rlx_allocator *allocator, void *argument) {
    rlx_pool *pool = NULL;
    (void)argument;
    rlx_pool_crew crew = {run_nothing, NULL};
    RLX_TRY(rlx_pool_create(allocator, 3, &pool));
    rlx_pool_destroy(pool);
    RLX_TRY(rlx_pool_create_crew(allocator, 3, &crew, &pool));
    rlx_pool_destroy(pool);
    return RLX_OK;
}

static void creation_survives_every_failed_allocation(void **state) {
    (void)state;
    assert_int_equal(rlx_test_every_allocation_fails(make_and_destroy, NULL), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_cover_every_item_once),
        cmocka_unit_test(few_chunks_are_cut_evenly),
        cmocka_unit_test(jobs_of_a_run_may_have_pauses_between_them),
        cmocka_unit_test(worker_numbers_stay_below_the_limit),
        cmocka_unit_test(an_empty_job_does_nothing),
        cmocka_unit_test(many_callers_share_one_pool),
        cmocka_unit_test(use_from_inside_a_kernel_is_an_error),
        cmocka_unit_test(workers_have_the_default_floating_point_mode),
        cmocka_unit_test(the_caller_may_bring_threads),
        cmocka_unit_test(jobs_end_on_a_crowded_machine),
        cmocka_unit_test(jobs_of_changing_sizes_run_every_item_once),
        cmocka_unit_test(work_is_cut_by_cost_alone),
        cmocka_unit_test(creation_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
