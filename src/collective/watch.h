/* SPDX-License-Identifier: Apache-2.0 */
/* Whether processes of this host still live. */
#ifndef RLX_COLLECTIVE_WATCH_H
#define RLX_COLLECTIVE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/* A process that is watched; begins as RLX_WATCH_NONE. */
typedef struct rlx_watch {
    int fd; /* its pidfd; -1: not opened yet; -2: the system has none */
} rlx_watch;
#define RLX_WATCH_NONE ((rlx_watch){-1})

/* True when the process has ended. */
bool rlx_watch_is_gone(rlx_watch *watch, int32_t process);
void rlx_watch_close(rlx_watch *watch);

#endif
