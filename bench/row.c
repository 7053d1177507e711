/* SPDX-License-Identifier: Apache-2.0 */
/* How every benchmark prints its rows. Names are ours and need no escaping. */
#include "bench.h"

void rlx_bench_head(FILE *out, bool json) {
    if (json) return;
    fputs("| name | value | unit | limit | ratio |\n|---|---|---|---|---|\n", out);
}

void rlx_bench_row(FILE *out, bool json, const char *name, double value, const char *unit,
                   double limit) {
    double ratio = limit > 0.0 ? value / limit : 0.0;
    if (json) {
        fprintf(out,
                "{\"name\": \"%s\", \"value\": %.10g, \"unit\": \"%s\", \"limit\": %.10g, "
                "\"ratio\": %.4f}\n",
                name, value, unit, limit, ratio);
    } else if (limit > 0.0) {
        fprintf(out, "| %s | %.7g | %s | %.7g | %.3f |\n", name, value, unit, limit, ratio);
    } else {
        fprintf(out, "| %s | %.7g | %s | - | - |\n", name, value, unit);
    }
    fflush(out);
}
