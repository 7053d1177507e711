/* SPDX-License-Identifier: Apache-2.0 */
/* Whether threads have a core each. Virtual processors may be two halves of one core for seconds,
 * and two cores before and after: arithmetic of two threads is then that of one, while memory is as
 * fast as ever, so a limit of memory measured beside it does not tell. */
#include "bench.h"
#include "probe.h"

#include <time.h>

/* Rounds are about 50 us: shorter than what a system lets a thread run. */
enum { ROUNDS = 30000, LOOKS = 3, PAUSE_NS = 20000000 };
/* How long a trial waits, and all those of a topic. */
static const uint64_t trial_ns = UINT64_C(4000000000), topic_ns = UINT64_C(20000000000);
static const double least_share = 0.75;

static double work(void *user, uint32_t thread, uint32_t threads) {
    const probe_kernels *kernels = user;
    (void)thread, (void)threads;
    return kernels->multiply_add(ROUNDS);
}

/* Multiply-adds of `threads` threads over as many times those of one. */
static double share_of(uint32_t threads) {
    static rlx_bench_figures one, all;
    void *kernels = (void *)(uintptr_t)probe_best(); /* read only */
    if (!rlx_bench_rates(work, kernels, 1, LOOKS, &one) ||
        !rlx_bench_rates(work, kernels, threads, LOOKS, &all)) {
        return 1; /* said already */
    }
    return rlx_bench_most(&all) / (threads * rlx_bench_most(&one));
}

void rlx_bench_settle(rlx_bench_report *self, uint32_t threads) {
    uint64_t start = rlx_bench_now_ns(), waited = 0;
    if (threads < 2 || self->waited_ns >= topic_ns) return;
    while (share_of(threads) < least_share && waited < trial_ns) {
        struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL);
        waited = rlx_bench_now_ns() - start;
    }
    self->waited_ns += waited < trial_ns ? waited : topic_ns;
    if (self->waited_ns < topic_ns) return;
    self->is_judged = false;
    fprintf(stderr, "rlx bench: %u threads do not have a core each; not judged\n", threads);
}
