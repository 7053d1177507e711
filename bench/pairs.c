/* SPDX-License-Identifier: Apache-2.0 */
/* Ours against a limit, measured in turns, and how a bar is judged: the best of each meets it, and
 * the median of the pairs is within 1.25 x of it. On a busy machine rows are printed, not judged.
 */
#include "bench.h"

static const double tolerance = 1.25;

rlx_bench_report rlx_bench_report_begin(FILE *out, bool json, uint32_t processors) {
    double busy = rlx_bench_busy(processors);
    rlx_bench_report report = {.out = out, .json = json};
    report.is_judged = busy <= RLX_BENCH_BUSY_LIMIT && rlx_bench_threads() >= processors;
    if (!report.is_judged) fputs("rlx bench: the machine is too busy to judge\n", stderr);
    rlx_bench_head(out, json);
    rlx_bench_row(out, json, "busy: processor time not to be had", busy * 100, "%",
                  RLX_BENCH_BUSY_LIMIT * 100);
    return report;
}

void rlx_bench_report_row(const rlx_bench_report *self, const char *name, const char *more,
                          double value, const char *unit, double limit) {
    char full[200];
    snprintf(full, sizeof full, "%s%s%s", name, more, self->is_judged ? "" : " (not judged)");
    rlx_bench_row(self->out, self->json, full, value, unit, limit);
}

void rlx_bench_report_judge(rlx_bench_report *self, bool is_met) {
    if (self->is_judged && !is_met) self->code = 1;
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

void rlx_bench_report_pairs(rlx_bench_report *self, const char *name, const rlx_bench_pairs *pairs,
                            double amount, const char *unit, double bar) {
    double ours = rlx_bench_least(&pairs->ours), limit = rlx_bench_least(&pairs->limit);
    double median = rlx_bench_median(&pairs->ratio);
    if (amount > 0) {
        rlx_bench_report_row(self, name, "", amount / ours, unit, amount / limit);
    } else {
        rlx_bench_report_row(self, name, "", limit / ours, "of 1", 1.0);
    }
    rlx_bench_report_row(self, name, ", median of pairs", median, "of 1", 1.0);
    rlx_bench_report_judge(self, limit / ours >= bar && median * tolerance >= bar);
}
