/* SPDX-License-Identifier: Apache-2.0 */
/* One ONNX backend test: a folder with model.onnx and test_data_set_N/{input,output}_K.pb. */
#ifndef RLX_TOOLS_CHECK_CASE_H
#define RLX_TOOLS_CHECK_CASE_H

#include "tool.h"

typedef enum check_outcome {
    CHECK_NOT_RUN = 0,
    CHECK_PASSED,
    CHECK_UNSUPPORTED, /* the model cannot be compiled */
    CHECK_DIFFERS,
    CHECK_FAILED, /* anything else */
    CHECK_CRASHED
} check_outcome;

typedef struct check_result {
    check_outcome outcome;
    char reason[600];
    char bound[200];     /* inputs that were constants while compiling, "a, b" */
    uint32_t steps;      /* of the last data set's program that a run goes through */
    uint32_t host;       /* of these, how many the device leaves to the host */
    char first_host[64]; /* op of the first of them */
} check_result;

typedef struct check_options {
    const char *device;
    double relative, absolute;
} check_options;

/* Runs every data set of the folder. */
void check_case_run(const char *folder, const check_options *options, check_result *out_result);

#endif
