/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes of this host: starting them, waiting for them, saying which one failed. */
#ifndef RLX_TOOLS_LAUNCH_H
#define RLX_TOOLS_LAUNCH_H

#include <rlx/transport.h>

#include <sys/types.h>

typedef struct launch_rank {
    pid_t process;
    bool has_ended;
    int status;     /* of waitpid */
    int outputs[2]; /* pipes of its stdout and stderr; -1: passed through, or closed */
} launch_rank;

typedef struct launch {
    const char *verb; /* for messages */
    uint32_t count;
    uint64_t grace_ns; /* for the others, once a rank has failed */
    launch_rank ranks[RLX_RANKS_MOST];
    uint32_t failed; /* the first rank that failed; RLX_RANKS_MOST: none */
} launch;

/* What a rank's process does after the fork; what it returns is its exit code. */
typedef int (*launch_body)(void *user, const rlx_rank *who);

/* Forks `count` ranks. With `prefixes`, each line they write comes out as "[rank] line". False with
 * a message when it cannot; then none is left running. */
bool launch_start(launch *self, launch_body body, void *user, bool prefixes);
/* Waits until all have ended: hands signals on to them, reports the first that fails, ends the rest
 * after the grace. The exit code: 0, that of the first rank that failed, or 128 + its signal. */
int launch_wait(launch *self);

/* launch_output.c: copies whole lines with a prefix. */
typedef struct launch_lines launch_lines;
launch_lines *launch_lines_create(uint32_t count); /* NULL without memory */
void launch_lines_destroy(launch_lines *lines);
/* Takes what there is on a rank's pipe (0: stdout, 1: stderr); false at its end. */
bool launch_lines_take(launch_lines *lines, uint32_t rank, int which, int descriptor);

#endif
