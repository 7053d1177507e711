/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on stderr: only when stderr is a terminal and nobody said -q, and only for work
 * that takes more than a second. One at a time. Uses no escape codes. */
#ifndef RLX_TOOLS_PROGRESS_H
#define RLX_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether bars may be shown at all (not with -q). Off until said. */
void tool_progress_allow(bool is_allowed);

/* Begins a piece of work ("reading weights"); the text is kept as a pointer. */
void tool_progress_begin(const char *what);
/* Says how far it is. Cheap: it draws a few times a second at most. `note` may be NULL. */
void tool_progress_show(uint64_t done, uint64_t total, const char *note);
/* Wipes the bar. */
void tool_progress_end(void);

/* For rlx_program_options: draws, and cancels when the user interrupted. */
bool tool_progress_bytes(void *user, uint64_t done_bytes, uint64_t total_bytes);

#endif
