/* SPDX-License-Identifier: Apache-2.0 */
/* Text files that the rlx command writes: they appear whole or not at all. */
#ifndef RLX_TOOLS_FILE_H
#define RLX_TOOLS_FILE_H

#include "tool.h"

typedef struct tool_file {
    FILE *stream; /* to print to */
    const char *path;
    char *beside; /* owned: renamed over `path` by commit; NULL: `path` itself is open, as it is a
                   * device or pipe */
} tool_file;

/* Interrupts are held until commit. On failure tool_fail has the reason. */
rlx_status tool_file_open(const char *path, tool_file *out_file);
rlx_status tool_file_commit(tool_file *file);

/* A whole text at once. */
rlx_status tool_file_write(const char *path, const char *text);

#endif
