/* SPDX-License-Identifier: Apache-2.0 */
/* A model in text form, compiled and ready to run with so many threads. Messages go to stderr. */
#ifndef RLX_BENCH_READY_H
#define RLX_BENCH_READY_H

#include <rlx/rlx.h>

typedef struct ready {
    rlx_device *device;
    rlx_session *session;
    rlx_program *program;
    rlx_exec *exec;
} ready;

/* `is_plain`: nothing is fused, so that every node is a step. Inputs survive runs
 * and hold a pattern of small numbers. False with a message; free it in any case. */
bool ready_make(ready *self, const char *text, uint32_t threads, bool is_plain);
/* The same on any device, opened with these options. */
bool ready_make_on(ready *self, const char *text, const char *device,
                   const rlx_device_options *options, bool is_plain);
/* Nanoseconds of one run; negative with a message when it failed. */
double ready_run(ready *self);
void ready_free(ready *self);

#endif
