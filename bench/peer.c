/* SPDX-License-Identifier: Apache-2.0 */
/* Our end of a peer: lines of text through two pipes. */
#include "peer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const peer_names[] = {"openblas", "onednn"};

/* The peer program beside this one. */
static bool find_program(char *path, size_t bytes) {
    ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
    if (length <= 0) return false;
    path[length] = 0;
    char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash + 1 - path) + sizeof "rlx-bench-peer" > bytes) return false;
    memcpy(slash + 1, "rlx-bench-peer", sizeof "rlx-bench-peer");
    return access(path, X_OK) == 0;
}

static void close_all(int *ends) {
    for (int i = 0; i < 4; i++) {
        if (ends[i] >= 0) close(ends[i]);
    }
}

static bool tell(peer *self, const char *line) {
    size_t length = strlen(line);
    return self->process > 0 && write(self->to, line, length) == (ssize_t)length;
}

/* One line of an answer. */
static bool hear(peer *self, char *line, size_t bytes) {
    size_t length = 0;
    while (length + 1 < bytes && read(self->from, line + length, 1) == 1) {
        if (line[length] == '\n') {
            line[length] = 0;
            return true;
        }
        length++;
    }
    return false;
}

/* Until it stands still: its first thread has to get a processor to hear of it, and meanwhile
 * others look out for work on one that we count on. */
static void stop(const peer *self) {
    int status;
    kill(self->process, SIGSTOP);
    while (waitpid(self->process, &status, WUNTRACED) < 0 && errno == EINTR) {
    }
}

static bool ask(peer *self, const char *line, char *answer, size_t bytes) {
    if (self->process <= 0) return false;
    kill(self->process, SIGCONT);
    bool is_heard = tell(self, line) && hear(self, answer, bytes);
    stop(self);
    return is_heard;
}

bool peer_start(peer *self, const char *library) {
    char path[4096], answer[64];
    int ends[4] = {-1, -1, -1, -1};
    *self = (peer){0, -1, -1};
    if (!find_program(path, sizeof path)) return false;
    if (pipe(ends) != 0 || pipe(ends + 2) != 0) {
        close_all(ends);
        return false;
    }
    signal(SIGPIPE, SIG_IGN);
    pid_t process = fork();
    if (process == 0) {
        dup2(ends[0], 0);
        dup2(ends[3], 1);
        close_all(ends);
        execl(path, path, library, (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    close(ends[3]);
    *self = (peer){process, ends[1], ends[2]};
    if (process > 0 && ask(self, "hello\n", answer, sizeof answer) && strcmp(answer, "ok") == 0)
        return true;
    peer_end(self);
    return false;
}

bool peer_set(peer *self, int m, int k, int n, uint32_t threads) {
    char line[96], answer[64];
    snprintf(line, sizeof line, "set %d %d %d %u\n", m, k, n, threads);
    return ask(self, line, answer, sizeof answer) && strcmp(answer, "ok") == 0;
}

double peer_run(peer *self, uint32_t runs) {
    char line[64], answer[64];
    snprintf(line, sizeof line, "run %u\n", runs);
    if (!ask(self, line, answer, sizeof answer)) return -1;
    return strtod(answer, NULL);
}

void peer_end(peer *self) {
    if (self->process > 0) {
        kill(self->process, SIGKILL);
        waitpid(self->process, NULL, 0);
    }
    if (self->to >= 0) close(self->to);
    if (self->from >= 0) close(self->from);
    *self = (peer){0, -1, -1};
}
