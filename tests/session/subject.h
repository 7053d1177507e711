/* SPDX-License-Identifier: Apache-2.0 */
/* Test graphs and what comes out of them: a subject is a model with bound sizes and the inputs of
 * one or more runs; it can be run by the oracle, or compiled by a session and run in many manners.
 * States carry on from run to run and are part of the outcome. */
#ifndef RLX_TESTS_SESSION_SUBJECT_H
#define RLX_TESTS_SESSION_SUBJECT_H

#include "support/oracle.h"
#include "support/support.h"

#include <rlx/rlx.h>

enum { SUBJECT_RUNS = 8, SUBJECT_ARRAYS = 32, SUBJECT_SYMBOLS = 16 };

typedef struct subject {
    char name[512]; /* of the file, or what it was made from */
    rlx_graph *graph;
    rlx_session *session;
    rlx_binding bindings[SUBJECT_SYMBOLS];
    uint32_t binding_count;
    rlx_test_array inputs[SUBJECT_RUNS][SUBJECT_ARRAYS];
    uint32_t run_count, input_count;
    double relative, absolute; /* tolerance, if has_tolerance; else that of each dtype */
    bool has_tolerance;
} subject;

/* All of them fail the test when the file or text is no good. Symbols of files are bound to 4, or
 * as a comment "# bind S=6" says; "# tolerance 0.01 0.02" is relative and absolute. Inputs are
 * seeded: floats in [-2, 2), integers 0 to 3. */
void subject_open_case(subject *self, const char *folder); /* with the inputs of tests/ops */
void subject_open_file(subject *self, const char *path);
void subject_open_text(subject *self, const char *name, const char *text);
void subject_close(subject *self);

/* How a subject is compiled and run; zeroed but for the device it is the plain way. */
typedef struct manner {
    rlx_device *device;
    uint64_t disabled_passes;
    bool without_reuse, poison, keep_inputs;
    const char *through_file; /* the program is saved here and loaded again; NULL: not */
    uint64_t weights_budget;  /* of the loaded program; 0: none */
    void (*before_run)(void); /* around rlx_exec_run alone; NULL: nothing */
    void (*after_run)(void);
    /* May change how the executable is made, knowing the program; NULL: nothing. */
    void (*prepare)(void *user, const rlx_program *program, rlx_exec_options *options);
    void *user;
} manner;

/* Outputs of each good run, states after the last, and how it ended. */
typedef struct outcome {
    rlx_status status;
    char text[RLX_ERROR_TEXT_BYTES];
    uint32_t run_count, output_count, state_count;
    rlx_test_array outputs[SUBJECT_RUNS][SUBJECT_ARRAYS];
    rlx_test_array states[SUBJECT_ARRAYS];
} outcome;

void subject_run(subject *self, const manner *how, outcome *out);
void subject_run_oracle(const subject *self, outcome *out);
void outcome_free(outcome *self);

/* Whether two outcomes are the same, to the bit or within the tolerance of each dtype; false prints
 * where they differ. Texts of errors are not compared. */
bool outcomes_equal(const subject *self, const outcome *a, const outcome *b, const char *what);
bool outcomes_close(const subject *self, const outcome *a, const outcome *b, const char *what);

/* Every op case, golden graph and graph of this folder. */
void subject_for_each(void (*visit)(subject *self, void *user), void *user);
/* Only the graphs of this folder. */
void subject_for_each_graph(void (*visit)(subject *self, void *user), void *user);

/* A processor with so many threads. */
rlx_device *subject_device(const char *name, uint32_t threads);
/* Every pass that there is; the needed ones stay on all the same. */
uint64_t subject_all_passes(void);

#endif
