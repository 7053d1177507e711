/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, futexes, the clock, the CPU count and the floating-point mode. */
#include "support/support.h"

#include "base/thread.h"

#include <fenv.h>
#include <sched.h>
#include <signal.h>

typedef struct {
    bool blocks_interrupt;
    bool blocks_terminate;
    bool blocks_its_own_faults;
} mask_seen;

static void *look_at_mask(void *argument) {
    mask_seen *seen = argument;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    seen->blocks_interrupt = sigismember(&mask, SIGINT) == 1;
    seen->blocks_terminate = sigismember(&mask, SIGTERM) == 1;
    seen->blocks_its_own_faults = sigismember(&mask, SIGBUS) == 1;
    return argument;
}

static void a_thread_starts_with_signals_blocked_and_ours_stay(void **state) {
    mask_seen seen = {0};
    pthread_t thread;
    void *returned = NULL;
    sigset_t mask;
    (void)state;
    assert_ok(rlx_thread_start(&thread, look_at_mask, &seen));
    assert_int_equal(pthread_join(thread, &returned), 0);
    assert_ptr_equal(returned, &seen);
    assert_true(seen.blocks_interrupt && seen.blocks_terminate);
    assert_false(seen.blocks_its_own_faults);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGINT), 0);
}

static void waiting_on_a_changed_word_returns_at_once(void **state) {
    _Atomic uint32_t word = 1;
    (void)state;
    rlx_futex_wait(&word, 0, UINT64_MAX);
}

static void waiting_on_an_equal_word_ends_by_timeout(void **state) {
    _Atomic uint32_t word = 0;
    (void)state;
    rlx_futex_wait(&word, 0, 1000000);
    rlx_futex_wait(&word, 0, 0);
}

typedef struct {
    _Atomic uint32_t turn;
    uint32_t plain; /* guarded by turn */
} ping_pong;

enum { ROUNDS = 2000 };

static void take_turns(ping_pong *game, uint32_t parity) {
    for (uint32_t i = parity; i < ROUNDS; i += 2) {
        uint32_t turn;
        while ((turn = atomic_load(&game->turn)) != i) {
            rlx_cpu_relax();
            rlx_futex_wait(&game->turn, turn, UINT64_MAX);
        }
        ++game->plain;
        atomic_store(&game->turn, i + 1);
        rlx_futex_wake(&game->turn, 1);
    }
}

static void *play_odd(void *argument) {
    take_turns(argument, 1);
    return NULL;
}

static void two_threads_wake_each_other(void **state) {
    ping_pong game = {0};
    pthread_t thread;
    (void)state;
    assert_ok(rlx_thread_start(&thread, play_odd, &game));
    take_turns(&game, 0);
    pthread_join(thread, NULL);
    assert_int_equal(game.plain, ROUNDS);
}

static void the_clock_never_runs_backwards(void **state) {
    uint64_t last = rlx_now_ns();
    (void)state;
    for (int i = 0; i < 1000; ++i) {
        uint64_t now = rlx_now_ns();
        assert_true(now >= last);
        last = now;
    }
}

static void the_cpu_count_follows_the_affinity_mask(void **state) {
    cpu_set_t saved, one;
    size_t cpu = 0;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof saved, &saved), 0);
    assert_true(rlx_cpu_count() >= 1);
    assert_true(rlx_cpu_count() <= (uint32_t)CPU_COUNT(&saved));
    while (!CPU_ISSET(cpu, &saved))
        ++cpu;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) skip(); /* not allowed here */
    assert_int_equal(rlx_cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof saved, &saved), 0);
}

static void a_thread_leaves_a_processor_and_keeps_its_affinity(void **state) {
    (void)state;
    cpu_set_t before, after, one;
    int here = sched_getcpu();
    assert_int_equal(0, sched_getaffinity(0, sizeof before, &before));
    bool has_others = CPU_COUNT(&before) > 1;
    assert_int_equal(has_others, rlx_thread_leave_cpu(0, here));
    assert_int_equal(0, sched_getaffinity(0, sizeof after, &after));
    assert_true(CPU_EQUAL(&before, &after));

    CPU_ZERO(&one);
    CPU_SET((size_t)here, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) skip(); /* not allowed here */
    assert_false(rlx_thread_leave_cpu(0, here));
    assert_false(rlx_thread_leave_cpu(0, -1));
    assert_false(rlx_thread_leave_cpu(0, 1 << 20));
    assert_int_equal(here, sched_getcpu());
    assert_int_equal(0, sched_setaffinity(0, sizeof before, &before));
}

typedef struct waiter {
    _Atomic int32_t number;
    _Atomic bool may_end;
} waiter;
static void *wait_for_the_end(void *user) {
    waiter *self = user;
    atomic_store(&self->number, rlx_thread_number());
    while (!atomic_load(&self->may_end))
        rlx_cpu_relax();
    return NULL;
}

static void another_thread_is_moved_and_keeps_its_affinity(void **state) {
    (void)state;
    waiter other = {0};
    pthread_t thread;
    cpu_set_t before, after;
    assert_int_equal(0, sched_getaffinity(0, sizeof before, &before));
    assert_int_equal(RLX_OK, rlx_thread_start(&thread, wait_for_the_end, &other));
    while (atomic_load(&other.number) == 0)
        sched_yield();
    int32_t number = atomic_load(&other.number);
    assert_int_equal(CPU_COUNT(&before) > 1, rlx_thread_leave_cpu(number, sched_getcpu()));
    assert_int_equal(0, sched_getaffinity(number, sizeof after, &after));
    assert_true(CPU_EQUAL(&before, &after));
    atomic_store(&other.may_end, true);
    pthread_join(thread, NULL);
    assert_false(rlx_thread_leave_cpu(INT32_MAX, sched_getcpu())); /* nobody's number */
}

static void entering_sets_nearest_and_leaving_restores(void **state) {
    volatile float one = 1.0f, tiny = 0x1p-30f, smallest = 0x1p-149f;
    rlx_fp_mode saved;
    (void)state;
    fesetround(FE_UPWARD);
    assert_true(one + tiny > 1.0f);
    saved = rlx_fp_mode_enter();
    assert_true(one + tiny == 1.0f);
    assert_true(smallest * one > 0.0f); /* no flush to zero */
    rlx_fp_mode_leave(saved);
    assert_true(one + tiny > 1.0f);
    fesetround(FE_TONEAREST);
}

#if defined(__SSE2__)
#include <immintrin.h>
static void flush_to_zero_is_switched_off_inside(void **state) {
    volatile float smallest = 0x1p-149f, one = 1.0f;
    uint32_t before = _mm_getcsr();
    rlx_fp_mode saved;
    (void)state;
    _mm_setcsr(before | 0x8040u); /* flush results and operands */
    assert_true(smallest * one == 0.0f);
    saved = rlx_fp_mode_enter();
    assert_true(smallest * one > 0.0f);
    rlx_fp_mode_leave(saved);
    assert_true(smallest * one == 0.0f);
    _mm_setcsr(before);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_starts_with_signals_blocked_and_ours_stay),
        cmocka_unit_test(waiting_on_a_changed_word_returns_at_once),
        cmocka_unit_test(waiting_on_an_equal_word_ends_by_timeout),
        cmocka_unit_test(two_threads_wake_each_other),
        cmocka_unit_test(the_clock_never_runs_backwards),
        cmocka_unit_test(the_cpu_count_follows_the_affinity_mask),
        cmocka_unit_test(a_thread_leaves_a_processor_and_keeps_its_affinity),
        cmocka_unit_test(another_thread_is_moved_and_keeps_its_affinity),
        cmocka_unit_test(entering_sets_nearest_and_leaving_restores),
#if defined(__SSE2__)
        cmocka_unit_test(flush_to_zero_is_switched_off_inside),
#endif
    };
    return cmocka_run_group_tests_name("base/thread", tests, NULL, NULL);
}
