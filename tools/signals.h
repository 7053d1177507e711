/* SPDX-License-Identifier: Apache-2.0 */
/* What the rlx command does about signals. An interrupt ends the process at once with 128 + its
 * number (130 for Ctrl-C), except while something is under way that must be ended by itself: there
 * it is noted, and the work asks. */
#ifndef RLX_TOOLS_SIGNALS_H
#define RLX_TOOLS_SIGNALS_H

#include <rlx/exec.h>

/* Once, before anything is opened. A closed stdin, stdout or stderr is replaced, so that no file we
 * open takes its number; writes to a closed pipe and past a file size limit become errors; a file
 * that shrinks under its map ends the process with a message. */
void tool_signals_begin(void);

/* From now on interrupts are only noted, until released as often as held. `exec` (may be NULL) is
 * cancelled too. */
void tool_hold_interrupts(rlx_exec *exec);
void tool_release_interrupts(void);

bool tool_was_interrupted(void);
/* 128 + the signal that was noted; 0: none was. */
int tool_interrupt_code(void);

#endif
