/* SPDX-License-Identifier: Apache-2.0 */
/* Any text that parses, compiled: refused with a message, or a plan that verifies. No weight is
 * read and nothing runs, so sizes do not matter. */
#include "fuzz/fuzz.h"

#include <rlx/session.h>

#include <stdio.h>
#include <stdlib.h>

static void broken(const char *what) {
    fprintf(stderr, "%s: %s\n", what, rlx_last_error());
    abort();
}

static void compile(rlx_session *session, uint64_t disabled_passes) {
    rlx_plan *plan = NULL;
    rlx_compile_options options = {.size = sizeof options, .disabled_passes = disabled_passes};
    rlx_status status = rlx_session_plan(session, "cpu:scalar", 1, &options, &plan);
    if (status == RLX_INVALID_PLAN || status == RLX_INTERNAL) broken("the compiler's own mistake");
    if (status != RLX_OK && rlx_last_error()[0] == 0) broken("refused without a message");
    if (status == RLX_OK && rlx_plan_verify(plan) != RLX_OK) broken("the plan does not verify");
    rlx_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    uint64_t all = (UINT64_C(1) << rlx_pass_count()) - 1;
    if (rlx_graph_parse(NULL, (const char *)data, size, &graph) != RLX_OK) return 0;
    if (rlx_session_create(NULL, graph, &session) != RLX_OK) {
        rlx_graph_destroy(graph);
        return 0;
    }
    compile(session, 0);
    compile(session, all);
    rlx_session_destroy(session);
    return 0;
}
