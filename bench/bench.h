/* SPDX-License-Identifier: Apache-2.0 */
/* The topics of `rlx bench`. Each prints rows of name, value, unit, limit and ratio, as a markdown
 * table or as JSON lines, and returns 0, or 1 when a row misses its limit. */
#ifndef RLX_BENCH_BENCH_H
#define RLX_BENCH_BENCH_H

#include <stdbool.h>
#include <stdio.h>

/* The memory placer: benchmark files within their capacity, when the folder with test data is there
 * ($RLX_TEST_DATA, else ../shared), and 5,000 and 50,000 generated buffers. */
int rlx_bench_place(FILE *out, bool json);

/* The head of a markdown table; nothing for JSON. */
void rlx_bench_head(FILE *out, bool json);
/* One row; ratio is value / limit. A limit of 0 means there is none. */
void rlx_bench_row(FILE *out, bool json, const char *name, double value, const char *unit,
                   double limit);

#endif
