/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of the rlx command: which one this process is, starting them, and files of one rank each.
 */
#ifndef RLX_TOOLS_RANKS_H
#define RLX_TOOLS_RANKS_H

#include "launch.h"
#include "tool.h"

/* Runs the body as the rank that a launcher made this process, as `ranks` processes of its own
 * (0 and 1: in this one), and gives the exit code: 0, or that of the first rank that failed. A
 * launcher's rank count that --ranks contradicts is a usage error. */
int tool_run_ranks(const char *verb, uint64_t ranks, launch_body body, void *user);

/* Makes `model` the one of this rank: its compile options, its part of the processors where nothing
 * was asked for, and PATH.RANK where that is a program that `rlx compile --ranks` wrote. */
void tool_model_rank(tool_model *model, const rlx_rank *who, bool is_verbose);

/* "PATH.RANK"; lives as long as the process. PATH itself where there is one rank, or no path. */
const char *tool_rank_path(const char *path, const rlx_rank *who);

#endif
