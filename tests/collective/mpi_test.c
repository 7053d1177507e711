/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite under mpirun: `mpi_test mapped|network [CASE]`. Each rank is a process that
 * an MPI launcher started; every case has a heap of its own, made and left again. Rank 0 prints the
 * names. Without cmocka: the launcher starts many of it, and all must leave together. */
#include "conformance/transport_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* True when the case holds on this rank, and all ranks have come to its end. */
static bool run_case(const transport_case *item, const rlx_rank *who, bool network) {
    static const uint64_t patience_ns = UINT64_C(120) * 1000000000u;
    const rlx_transport_options options = {
        .size = sizeof options, .timeout_ns = patience_ns, .network = network};
    static transport_view view;
    memset(&view, 0, sizeof view);
    view.rank = who->rank;
    view.count = who->rank_count;
    if (transport_check(&view,
                        rlx_transport_create_mpi(NULL, who, TRANSPORT_HEAP_BYTES, &options,
                                                 &view.transport) == RLX_OK,
                        "the heap", __FILE__, __LINE__)) {
        item->body(&view);
        /* A rank that is through answers the others until all are. */
        rlx_transport_set_timeout_ns(view.transport, patience_ns);
        transport_check(&view, rlx_transport_barrier(view.transport) == RLX_OK, "the end", __FILE__,
                        __LINE__);
        transport_check(&view, strcmp(rlx_transport_name(view.transport), "mpi") == 0, "its name",
                        __FILE__, __LINE__);
        /* Only messages leave a peer's heap out of reach. */
        bool is_mapped = rlx_transport_address(view.transport, 1 - (who->rank != 0)) != NULL;
        transport_check(&view, who->rank_count == 1 || is_mapped == !network, "the path", __FILE__,
                        __LINE__);
    }
    rlx_transport_destroy(view.transport);
    if (view.has_failed) fprintf(stderr, "%s: %s\n", item->name, view.text);
    return !view.has_failed;
}

int main(int argc, char **argv) {
    bool network = argc > 1 && strcmp(argv[1], "network") == 0;
    const char *only = argc > 2 ? argv[2] : NULL;
    rlx_rank who;
    if (rlx_env_rank(&who) != RLX_OK || who.launcher != RLX_LAUNCHER_MPI) {
        fputs("start it with mpirun\n", stderr);
        return 1;
    }
    for (uint32_t i = 0; i < transport_case_count; ++i) {
        if (only != NULL && strcmp(only, transport_cases[i].name) != 0) continue;
        if (!run_case(&transport_cases[i], &who, network)) return 1;
        if (who.rank == 0) printf("%s: ok\n", transport_cases[i].name);
    }
    return 0;
}
