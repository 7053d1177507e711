/* SPDX-License-Identifier: Apache-2.0 */
/* Filling the inputs of an executable, and showing its outputs: shared by run, diff and bench. */
#ifndef RLX_TOOLS_INPUTS_H
#define RLX_TOOLS_INPUTS_H

#include "tool.h"

typedef struct tool_inputs {
    tool_list files;                     /* NAME=F.npy */
    bool is_model_input[TOOL_LIST_MOST]; /* set by tool_bind_from_files, per file */
    const char *fill;                    /* zeros, ramp, random:SEED; NULL: random:1 */
} tool_inputs;
#define TOOL_INPUT_OPTIONS(inputs)                                                                 \
    {"--input", TOOL_MANY, &(inputs).files, "NAME=F.npy", "an input from a file; again for more"}, \
    {                                                                                              \
        "--fill", TOOL_TEXT, &(inputs).fill, "HOW",                                                \
            "what others hold: zeros, ramp, random:SEED (random:1)"                                \
    }

/* Whether --input and --fill are well-formed; false with a message. */
bool tool_inputs_check(const char *verb, const tool_inputs *inputs);

/* Sets every input of the entry. On failure tool_fail has the reason. */
rlx_status tool_set_inputs(rlx_exec *exec, uint32_t entry, const tool_inputs *inputs);

/* Sizes of symbolic dims that follow from the shapes of --input files, added to the model's
 * bindings where they are not bound yet; the files are also offered as values that may decide
 * shapes. */
rlx_status tool_bind_from_files(tool_model *model, tool_inputs *inputs);

#endif
