/* SPDX-License-Identifier: Apache-2.0 */
/* Showing and writing the outputs of a run. */
#ifndef RLX_TOOLS_OUTPUTS_H
#define RLX_TOOLS_OUTPUTS_H

#include "tool.h"

/* Prints shape, dtype and a summary of every output of the entry's last run and, with a folder,
 * writes each as FOLDER/NAME.npy. On failure tool_fail has the reason. */
rlx_status tool_give_outputs(rlx_exec *exec, uint32_t entry, const char *folder,
                             const tool_common *common);

/* "key":value with a comma before it; numbers that JSON does not have become null. */
void tool_json_number(FILE *out, const char *key, double value);

#endif
