/* SPDX-License-Identifier: Apache-2.0 */
/* The demo on one device, and the plain forward that it is compared with. */
#ifndef RLX_TOOLS_DEMO_DEVICE_H
#define RLX_TOOLS_DEMO_DEVICE_H

#include "demo_chat.h"

/* What all devices share. */
typedef struct demo_job {
    rlx_session *cached;   /* owned */
    rlx_session *uncached; /* owned */
    rlx_device *scalar;    /* owned; of the uncached forward */
    demo_chat reference;   /* logits of the uncached forward over its tokens */
    uint32_t generate;     /* tokens after the prompt */
    char folder[512];      /* of temporary files */
} demo_job;

typedef struct demo_result {
    char device[64];
    uint32_t threads;
    uint64_t planned_bytes, mapped_bytes;
    uint64_t weights_bytes, budget_bytes; /* of the run that streamed its weights */
    uint64_t read_bytes;                  /* by each of its tokens */
    double tokens_per_second;
    double difference; /* from the uncached forward */
    /* "" or what did not go on as the first conversation went. */
    char problem[96];
    demo_chat chat;
} demo_result;

extern const uint32_t demo_prompt_count;
/* Feeds the prompt to an empty conversation. */
rlx_status demo_chat_prompt(demo_chat *chat);

rlx_status demo_job_begin(demo_job *job, uint32_t generate);
void demo_job_end(demo_job *job);

/* Fills the result's difference from a plain forward over the tokens of its conversation. */
rlx_status demo_compare_with_uncached(demo_job *job, demo_result *result);
/* Decodes on the device with so many threads (0: all) and checks plan, clone, files and logits. */
rlx_status demo_run_device(demo_job *job, const char *device, uint32_t threads,
                           demo_result *out_result);

#endif
