/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives back to back, of random kind, size and place, with random delays, on 2 to 16 ranks,
 * each against the reference. `stress_test N [SEED]` does N in all, half on threads, half on
 * processes.
 */
#include "ranks.h"

#include "support/support.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

static uint64_t total_count = 10000;
static uint64_t round_count; /* of the crew */
static uint64_t crew_seed, first_seed;

/* Most are small; some take every way through. */
static uint64_t pick_count(rlx_test_random *random, uint32_t ranks) {
    uint64_t kind = rlx_test_below(random, 32);
    if (kind < 24) return rlx_test_below(random, 40);
    if (kind < 31) return rlx_test_below(random, 700);
    return rlx_test_below(random, 30000) / ranks;
}

static void delay(rlx_test_random *random) {
    uint64_t kind = rlx_test_below(random, 64);
    const struct timespec nap = {.tv_nsec = (long)rlx_test_below(random, 300000)};
    if (kind == 0) nanosleep(&nap, NULL);
    if (kind == 1) sched_yield();
}

static void collectives_back_to_back(transport_view *view) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_BF16, RLX_DTYPE_I32, RLX_DTYPE_F32};
    rlx_test_random shared = rlx_test_seed(crew_seed), own = rlx_test_seed(crew_seed + view->rank);
    for (uint64_t i = 0; i < round_count; ++i) {
        rlx_collective_request request = {
            .kind = (rlx_collective_kind)rlx_test_below(&shared, RLX_COLLECTIVE_KIND_COUNT),
            .reduction = (rlx_reduction)rlx_test_below(&shared, RLX_REDUCTION_COUNT),
            .dtype = dtypes[rlx_test_below(&shared, 3)],
            .root = (uint32_t)rlx_test_below(&shared, view->count)};
        transport_place place = (transport_place)rlx_test_below(&shared, TRANSPORT_PLACES);
        bool starts = rlx_test_below(&shared, 4) == 0;
        request.count = pick_count(&shared, view->count);
        delay(&own);
        transport_try(view, request, place, rlx_test_next(&shared), starts);
        if (view->has_failed) return;
    }
}

/* Large crews are slow where processors are few, and get fewer. */
static void run_all(void (*run)(rank_body body, uint32_t count, uint64_t heap_bytes)) {
    static const struct {
        uint32_t ranks, per_mille;
    } crews[] = {{2, 200}, {3, 150}, {4, 100}, {7, 35}, {16, 15}};
    for (size_t i = 0; i < sizeof crews / sizeof *crews; ++i) {
        crew_seed = first_seed + 77 * (i + 1);
        round_count = total_count * crews[i].per_mille / 1000;
        run(collectives_back_to_back, crews[i].ranks, TRANSPORT_HEAP_BYTES);
    }
}

static void threads_never_mix_two_calls(void **state) {
    (void)state;
    run_all(run_local);
}

static void processes_never_mix_two_calls(void **state) {
    (void)state;
    run_all(run_shm);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_never_mix_two_calls),
        cmocka_unit_test(processes_never_mix_two_calls),
    };
    if (argc > 1) total_count = strtoull(argv[1], NULL, 10);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests_name("stress", tests, NULL, NULL);
}
