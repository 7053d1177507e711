/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite on ranks of this host: `conformance_test local|shm`. */
#include "ranks.h"

#include "support/support.h"

#include <stdio.h>

static void (*run_ranks)(rank_body body, uint32_t count, uint64_t heap_bytes);

static void holds_on_1_to_4_ranks(void **state) {
    const transport_case *item = *state;
    for (uint32_t count = 1; count <= 4; ++count)
        run_ranks(item->body, count, TRANSPORT_HEAP_BYTES);
}

int main(int argc, char **argv) {
    struct CMUnitTest tests[64];
    run_ranks = argc > 1 && strcmp(argv[1], "shm") == 0 ? run_shm : run_local;
    for (uint32_t i = 0; i < transport_case_count; ++i) {
        tests[i] = (struct CMUnitTest){.name = transport_cases[i].name,
                                       .test_func = holds_on_1_to_4_ranks,
                                       .initial_state = (void *)(uintptr_t)&transport_cases[i]};
    }
    return _cmocka_run_group_tests("transport", tests, transport_case_count, NULL, NULL);
}
