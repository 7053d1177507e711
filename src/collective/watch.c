/* SPDX-License-Identifier: Apache-2.0 */
/* A process by its pidfd, which no other process can come to have; by its number where the system
 * has no pidfd. */
#include "collective/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOT_YET = -1, NO_PIDFD = -2 };

bool rlx_watch_is_gone(rlx_watch *watch, int32_t process) {
    struct pollfd look = {.events = POLLIN};
    if (watch->fd == NOT_YET) {
        watch->fd = (int)syscall(SYS_pidfd_open, process, 0);
        if (watch->fd < 0 && errno == ESRCH) {
            watch->fd = NOT_YET;
            return true;
        }
        if (watch->fd < 0) watch->fd = NO_PIDFD;
    }
    if (watch->fd == NO_PIDFD) return kill(process, 0) != 0 && errno == ESRCH;
    look.fd = watch->fd;
    return poll(&look, 1, 0) == 1;
}

void rlx_watch_close(rlx_watch *watch) {
    if (watch->fd >= 0) close(watch->fd);
    *watch = RLX_WATCH_NONE;
}
