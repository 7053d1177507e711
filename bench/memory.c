/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench memory`: scratch bytes of the graphs of graphs.c, workspaces included. The plans are
 * those for two threads on any machine, since workspaces grow with the number of threads. */
#include "bench.h"
#include "graphs.h"

enum { THREADS = 2 };

static rlx_status plan_graph(const rlx_bench_graph *row, rlx_plan **out_plan) {
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_status status = row->build(&graph);
    if (status != RLX_OK) return status;
    status = rlx_session_create(NULL, graph, &session);
    if (status != RLX_OK) {
        rlx_graph_destroy(graph); /* consumed on success only */
        return status;
    }
    status = rlx_session_plan(session, "cpu", THREADS, NULL, out_plan);
    rlx_session_destroy(session);
    return status;
}

static rlx_status print_graph(FILE *out, bool json, const rlx_bench_graph *row, int *out_code) {
    rlx_plan *plan = NULL;
    rlx_entry_info entry;
    char name[96];
    rlx_status status = plan_graph(row, &plan);
    if (status == RLX_OK) status = rlx_plan_verify(plan);
    if (status == RLX_OK) status = rlx_plan_entry_at(plan, 0, &entry);
    if (status == RLX_OK) {
        uint64_t scratch = rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH);
        snprintf(name, sizeof name, "%s scratch", row->name);
        rlx_bench_bar most = {1, true, scratch <= row->scratch_limit ? "met" : "missed"};
        rlx_bench_row_with(out, json, name, (double)scratch, "bytes", (double)row->scratch_limit,
                           most);
        snprintf(name, sizeof name, "%s scratch against the lower bound", row->name);
        rlx_bench_row(out, json, name, (double)scratch, "bytes", (double)entry.lower_bound);
        if (scratch > row->scratch_limit) *out_code = 1;
    }
    rlx_plan_destroy(plan);
    return status;
}

int rlx_bench_memory(FILE *out, bool json) {
    int code = 0;
    rlx_bench_head(out, json);
    for (uint32_t i = 0; i < rlx_bench_graph_count; i++) {
        if (print_graph(out, json, &rlx_bench_graphs[i], &code) == RLX_OK) continue;
        fprintf(stderr, "rlx bench: %s: %s\n", rlx_bench_graphs[i].name, rlx_last_error());
        code = 1;
    }
    return code;
}
