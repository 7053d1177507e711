/* SPDX-License-Identifier: Apache-2.0 */
/* Ours against a limit, measured in turns, and how a bar is judged: the best of each meets it, and
 * the median of the pairs is within 1.25 x of it. On a busy machine rows are printed, not judged.
 */
#include "bench.h"

#include <time.h>

static const double tolerance = 1.25;
/* How long a topic waits for a machine that is not busy, and between two looks. */
static const uint64_t patience_ns = UINT64_C(10000000000);
enum { PAUSE_NS = 500000000 };

uint32_t rlx_bench_trials(double bar) {
    return bar > 0 ? RLX_BENCH_JUDGED_TRIALS : RLX_BENCH_TRIALS;
}

static double wait_for_quiet(uint32_t processors) {
    uint64_t start = rlx_bench_now_ns();
    double busy = rlx_bench_busy(processors);
    if (busy > RLX_BENCH_BUSY_LIMIT)
        fprintf(stderr, "rlx bench: the machine is busy (%.0f %%), waiting\n", busy * 100);
    while (busy > RLX_BENCH_BUSY_LIMIT && rlx_bench_now_ns() - start < patience_ns) {
        struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL);
        busy = rlx_bench_busy(processors);
    }
    return busy;
}

rlx_bench_report rlx_bench_report_begin(FILE *out, bool json, uint32_t processors) {
    double busy = wait_for_quiet(processors);
    rlx_bench_report report = {.out = out, .json = json};
    report.is_judged = busy <= RLX_BENCH_BUSY_LIMIT && rlx_bench_threads() >= processors;
    if (!report.is_judged) fputs("rlx bench: the machine is too busy to judge\n", stderr);
    rlx_bench_head(out, json);
    rlx_bench_row(out, json, "busy: processor time not to be had", busy * 100, "%",
                  RLX_BENCH_BUSY_LIMIT * 100);
    return report;
}

int rlx_bench_report_end(const rlx_bench_report *self, bool is_done) {
    if (self->met + self->missed + self->unjudged > 0)
        fprintf(stderr, "rlx bench: bars: %u met, %u missed, %u not judged\n", self->met,
                self->missed, self->unjudged);
    return is_done && self->missed == 0 ? self->code : 1;
}

static void print_row(const rlx_bench_report *self, const char *name, const char *more,
                      double value, const char *unit, double limit, rlx_bench_bar bar) {
    char full[200];
    snprintf(full, sizeof full, "%s%s", name, more);
    rlx_bench_row_with(self->out, self->json, full, value, unit, limit, bar);
}

void rlx_bench_report_row(const rlx_bench_report *self, const char *name, const char *more,
                          double value, const char *unit, double limit) {
    rlx_bench_bar none = {.verdict = self->is_judged ? NULL : "not judged"};
    print_row(self, name, more, value, unit, limit, none);
}

/* The verdict, counted. */
static const char *judge(rlx_bench_report *self, bool is_met) {
    if (!self->is_judged) return self->unjudged++, "not judged";
    if (!is_met) return self->missed++, "missed";
    return self->met++, "met";
}

void rlx_bench_report_least(rlx_bench_report *self, const char *name, const char *more,
                            double value, const char *unit, double limit, double bar, bool is_met) {
    rlx_bench_bar least = {bar, false, judge(self, is_met)};
    print_row(self, name, more, value, unit, limit, least);
}

void rlx_bench_report_most(rlx_bench_report *self, const char *name, const char *more, double value,
                           const char *unit, double limit, double bar, bool is_met) {
    rlx_bench_bar most = {bar, true, judge(self, is_met)};
    print_row(self, name, more, value, unit, limit, most);
}

void rlx_bench_pair(rlx_bench_pairs *pairs, double limit_ns, double ours_ns) {
    uint32_t at = pairs->limit.count;
    pairs->limit.items[at] = limit_ns;
    pairs->ours.items[at] = ours_ns;
    pairs->ratio.items[at] = limit_ns / ours_ns;
    pairs->limit.count = pairs->ours.count = pairs->ratio.count = at + 1;
}

void rlx_bench_pairs_begin(rlx_bench_pairs *pairs) {
    pairs->limit.count = pairs->ours.count = pairs->ratio.count = 0;
}

void rlx_bench_report_rates(rlx_bench_report *self, const char *name, double ours, double limit,
                            const char *unit, double median, double bar) {
    if (bar > 0) {
        bool is_met = ours >= bar * limit && median * tolerance >= bar;
        rlx_bench_report_least(self, name, "", ours, unit, limit, bar, is_met);
    } else {
        rlx_bench_report_row(self, name, "", ours, unit, limit);
    }
    rlx_bench_report_row(self, name, ", median of pairs", median, "of 1", 1.0);
}

void rlx_bench_report_pairs(rlx_bench_report *self, const char *name, const rlx_bench_pairs *pairs,
                            double amount, const char *unit, double bar) {
    double ours = rlx_bench_least(&pairs->ours), limit = rlx_bench_least(&pairs->limit);
    double median = rlx_bench_median(&pairs->ratio);
    if (amount > 0) {
        rlx_bench_report_rates(self, name, amount / ours, amount / limit, unit, median, bar);
    } else {
        rlx_bench_report_rates(self, name, limit / ours, 1.0, "of 1", median, bar);
    }
}
