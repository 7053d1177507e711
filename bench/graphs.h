/* SPDX-License-Identifier: Apache-2.0 */
/* Well-known network shapes, built with the public API and seeded weights: what memory and speed
 * are measured on. */
#ifndef RLX_BENCH_GRAPHS_H
#define RLX_BENCH_GRAPHS_H

#include <rlx/rlx.h>

typedef struct rlx_bench_graph {
    const char *name;
    rlx_status (*build)(rlx_graph **out_graph);
    uint64_t scratch_limit; /* bytes that the plan's scratch should stay below */
} rlx_bench_graph;

extern const rlx_bench_graph rlx_bench_graphs[];
extern const uint32_t rlx_bench_graph_count;

#endif
