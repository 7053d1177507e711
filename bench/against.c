/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled model against a limit of the machine: see against.h. */
#include "against.h"

#include <string.h>
#include <sys/mman.h>

bool against_begin(against *self, FILE *out, bool json) {
    *self = (against){.kernels = probe_best()};
    void *memory =
        mmap(NULL, AGAINST_READ_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "rlx bench: no memory for %zu bytes\n", AGAINST_READ_BYTES);
        return false;
    }
#if defined(MADV_HUGEPAGE)
    (void)madvise(memory, AGAINST_READ_BYTES, MADV_HUGEPAGE);
#endif
    self->memory = memory;
    memset(memory, 1, AGAINST_READ_BYTES);
    self->report = rlx_bench_report_begin(out, json, rlx_bench_threads());
    return true;
}

int against_end(against *self, bool is_done) {
    if (self->memory != NULL) munmap(self->memory, AGAINST_READ_BYTES);
    return rlx_bench_report_end(&self->report, is_done);
}

double against_multiply_add(void *user, uint32_t thread, uint32_t threads) {
    const against *self = user;
    (void)thread;
    return probe_amount(self->kernels->multiply_add, self->amount / threads);
}

double against_multiply_bytes(void *user, uint32_t thread, uint32_t threads) {
    const against *self = user;
    (void)thread;
    return probe_amount(self->kernels->multiply_bytes, self->amount / threads);
}

double against_read(void *user, uint32_t thread, uint32_t threads) {
    const against *self = user;
    size_t part = AGAINST_READ_BYTES / threads / 512 * 512;
    volatile uint64_t sink = self->kernels->read(self->memory + part * thread, part);
    (void)sink;
    return (double)part;
}

uint32_t against_repeats(double amount) {
    return amount < 1e7 ? 64 : amount < 1e8 ? 16 : amount < 1e9 ? 2 : 1;
}

double against_best_run(ready *model, uint32_t runs) {
    double best = ready_run(model);
    for (uint32_t i = 1; best >= 0 && i < runs; i++) {
        double ns = ready_run(model);
        if (ns < best) best = ns;
    }
    return best;
}

bool against_measure(against *self, const subject *what, ready *model) {
    static rlx_bench_pairs pairs;
    rlx_bench_figures one;
    uint32_t repeats = against_repeats(what->amount);
    char name[120];
    rlx_bench_pin pin = rlx_bench_pin_begin();
    bool is_done = true;
    rlx_bench_pairs_begin(&pairs);
    self->amount = what->amount;
    for (uint32_t trial = 0; is_done && trial <= rlx_bench_trials(what->bar); trial++) {
        rlx_bench_settle(&self->report, what->threads);
        if (what->threads == 1) rlx_bench_pin_to(&pin, trial, 0);
        is_done = rlx_bench_rates(what->limit, self, what->threads, 1, &one);
        double ns = is_done ? against_best_run(model, repeats) : -1;
        is_done = ns >= 0;
        if (is_done && trial > 0) /* the first one warms up */
            rlx_bench_pair(&pairs, what->amount * 1e9 / one.items[0], ns);
    }
    rlx_bench_pin_end(&pin, 0);
    if (!is_done) return false;
    snprintf(name, sizeof name, "%s, %u thread%s", what->name, what->threads,
             what->threads == 1 ? "" : "s");
    rlx_bench_report_pairs(&self->report, name, &pairs, what->amount, what->unit, what->bar);
    return true;
}
