/* SPDX-License-Identifier: Apache-2.0 */
/* One model on several ranks, as threads over `local` or as processes over `shm`, and alone. What
 * the ranks saw comes back as values, and the test's own thread asserts on it. */
#ifndef RLX_TESTS_RANKED_H
#define RLX_TESTS_RANKED_H

#include "support/support.h"

#include <rlx/rlx.h>

enum { RANKED_OUTPUTS = 4096, RANKED_MOST = 8 };

typedef struct ranked_model {
    /* The graph; every rank makes its own. */
    rlx_status (*build)(const void *user, rlx_graph **out_graph);
    /* Runs what there is to run; `rank` of the executable, outputs to `out`. */
    rlx_status (*run)(const void *user, rlx_exec *exec, uint32_t rank, float *out,
                      uint32_t *out_count);
    const void *user;
    const char *device; /* NULL: "cpu" */
    rlx_compile_options options;
    uint64_t timeout_ns;  /* of the transport; 0: as it is */
    uint32_t executables; /* that the heap has room for; 0: one */
    /* What is wrong with the last rank. */
    uint64_t last_disabled;
    const char *last_device;
    bool last_is_first;    /* it has the program of rank 0 */
    bool has_no_transport; /* of all ranks */
} ranked_model;

typedef struct ranked_outcome {
    rlx_status status;
    uint32_t count;         /* of outputs */
    uint32_t splits, whole; /* products: groups that are split, products that are not */
    uint64_t weights_bytes;
    float out[RANKED_OUTPUTS];
    char text[512];
} ranked_outcome;

/* `outcomes` has one row per rank. With one rank there is no transport. */
void ranked_local(const ranked_model *model, uint32_t ranks, ranked_outcome *outcomes);
void ranked_shm(const ranked_model *model, uint32_t ranks, ranked_outcome *outcomes);

/* Memory for outcomes that processes share; freed by ranked_free. */
ranked_outcome *ranked_outcomes(void);
void ranked_free(ranked_outcome *outcomes);

#endif
