/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes of this host: see launch.h. The launcher is no rank itself. It sleeps until a
 * rank ends, writes, or a signal comes; a rank that fails is reported at once, and the others get a
 * moment to notice by themselves. */
#include "launch.h"

#include "signals.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const uint64_t kill_after_ns = 1000000000; /* between SIGTERM and SIGKILL */
static int child_pipe[2] = {-1, -1};              /* a byte per SIGCHLD */

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void note_child(int number) {
    int saved = errno;
    ssize_t ignored = write(child_pipe[1], "", 1);
    (void)ignored, (void)number;
    errno = saved;
}

static bool watch_children(void) {
    struct sigaction action;
    if (pipe2(child_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return false;
    memset(&action, 0, sizeof action);
    action.sa_handler = note_child;
    action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
    return sigaction(SIGCHLD, &action, NULL) == 0;
}

static void stop_watching(void) {
    signal(SIGCHLD, SIG_DFL);
    close(child_pipe[0]);
    close(child_pipe[1]);
}

static void signal_all(const launch *self, int number) {
    for (uint32_t i = 0; i < self->count; i++) {
        if (self->ranks[i].process > 0 && !self->ranks[i].has_ended) {
            kill(self->ranks[i].process, number);
        }
    }
}

/* The rank's own process: signals as a program expects them, outputs to the pipes, and an end when
 * the launcher is gone. */
static _Noreturn void be_rank(launch_body body, void *user, rlx_rank *ranks, uint32_t count,
                              uint32_t rank, const int outputs[2], pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(TOOL_FAILED);
    stop_watching();
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    rlx_ranks_keep(ranks, count, rank);
    for (int which = 0; which < 2; which++) {
        if (outputs[which] >= 0) dup2(outputs[which], which + 1);
    }
    int code = body(user, &ranks[rank]);
    fflush(NULL);
    _exit(code);
}

static bool make_pipes(launch_rank *rank, bool prefixes, int out_ends[2]) {
    out_ends[0] = out_ends[1] = rank->outputs[0] = rank->outputs[1] = -1;
    for (int which = 0; prefixes && which < 2; which++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) return false;
        rank->outputs[which] = ends[0];
        out_ends[which] = ends[1];
    }
    return true;
}

static bool start_rank(launch *self, launch_body body, void *user, rlx_rank *ranks, uint32_t rank,
                       bool prefixes) {
    pid_t parent = getpid();
    int ends[2];
    bool is_ready = make_pipes(&self->ranks[rank], prefixes, ends);
    fflush(NULL);
    pid_t process = is_ready ? fork() : -1;
    if (process == 0) be_rank(body, user, ranks, self->count, rank, ends, parent);
    for (int which = 0; which < 2; which++) {
        if (ends[which] >= 0) close(ends[which]);
    }
    self->ranks[rank].process = process;
    return process > 0;
}

bool launch_start(launch *self, launch_body body, void *user, bool prefixes) {
    rlx_rank ranks[RLX_RANKS_MOST];
    uint32_t started = 0;
    self->failed = RLX_RANKS_MOST;
    if (rlx_ranks_create(self->count, ranks) != RLX_OK) {
        fprintf(stderr, "rlx %s: %s\n", self->verb, rlx_last_error());
        return false;
    }
    tool_hold_interrupts(NULL);
    bool is_well = watch_children();
    while (is_well && started < self->count) {
        is_well = start_rank(self, body, user, ranks, started, prefixes);
        if (is_well) started++;
    }
    rlx_ranks_close(ranks, self->count);
    if (is_well) return true;
    fprintf(stderr, "rlx %s: cannot start rank %u: %s\n", self->verb, started, strerror(errno));
    signal_all(self, SIGKILL);
    for (uint32_t i = 0; i < started; i++)
        waitpid(self->ranks[i].process, NULL, 0);
    stop_watching();
    tool_release_interrupts();
    return false;
}

static bool is_failure(int status) {
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void report(const launch *self, uint32_t rank, int status) {
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "rlx %s: rank %u of %u was killed by signal %d (%s)\n", self->verb, rank,
                self->count, WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        fprintf(stderr, "rlx %s: rank %u of %u ended with exit code %d\n", self->verb, rank,
                self->count, WEXITSTATUS(status));
    }
}

/* Takes the ends of ranks; how many still run. */
static uint32_t reap(launch *self) {
    uint32_t running = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        launch_rank *rank = &self->ranks[i];
        if (!rank->has_ended && waitpid(rank->process, &rank->status, WNOHANG) == rank->process) {
            rank->has_ended = true;
            if (is_failure(rank->status)) {
                report(self, i, rank->status);
                if (self->failed == RLX_RANKS_MOST) self->failed = i;
            }
        }
        running += !rank->has_ended;
    }
    return running;
}

/* Sleeps until something happens or `until_ns`; takes what ranks wrote. True while a pipe is open.
 */
static bool sleep_and_copy(launch *self, launch_lines *lines, uint64_t until_ns) {
    struct pollfd looks[1 + 2 * RLX_RANKS_MOST];
    uint32_t owners[1 + 2 * RLX_RANKS_MOST];
    uint32_t count = 1;
    uint64_t now = now_ns();
    uint64_t left = until_ns > now ? (until_ns - now) / 1000000 + 1 : 0;
    char byte;
    looks[0] = (struct pollfd){.fd = child_pipe[0], .events = POLLIN};
    for (uint32_t i = 0; i < 2 * self->count; i++) {
        if (self->ranks[i / 2].outputs[i % 2] < 0) continue;
        looks[count] = (struct pollfd){.fd = self->ranks[i / 2].outputs[i % 2], .events = POLLIN};
        owners[count++] = i;
    }
    if (poll(looks, count, left < 500 ? (int)left : 500) > 0) {
        for (uint32_t i = 1; i < count; i++) {
            uint32_t rank = owners[i] / 2, which = owners[i] % 2;
            if (looks[i].revents == 0) continue;
            if (launch_lines_take(lines, rank, (int)which, looks[i].fd)) continue;
            close(looks[i].fd);
            self->ranks[rank].outputs[which] = -1;
        }
    }
    while (read(child_pipe[0], &byte, 1) == 1) {
    }
    return count > 1;
}

/* A rank has failed, or somebody wants us to stop: SIGTERM after the grace, then SIGKILL. */
static void press(const launch *self, uint64_t *end_ns, int *stage) {
    uint64_t now = now_ns();
    if (self->failed == RLX_RANKS_MOST) return;
    if (*stage == 0) {
        *end_ns = now + self->grace_ns;
        *stage = 1;
    } else if (now >= *end_ns && *stage < 3) {
        signal_all(self, *stage == 1 ? SIGTERM : SIGKILL);
        *end_ns = now + kill_after_ns;
        *stage += 1;
    }
}

static int exit_code(const launch *self) {
    if (self->failed == RLX_RANKS_MOST) return TOOL_OK;
    int status = self->ranks[self->failed].status;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int launch_wait(launch *self) {
    launch_lines *lines = launch_lines_create(self->count);
    uint64_t end_ns = UINT64_MAX;
    int stage = 0, handed_on = 0;
    bool has_output = true;
    while (reap(self) != 0 || has_output) {
        int interrupt = tool_interrupt_code();
        if (interrupt != 0 && handed_on == 0) {
            handed_on = interrupt - 128;
            signal_all(self, handed_on);
        }
        press(self, &end_ns, &stage);
        has_output = lines != NULL && sleep_and_copy(self, lines, end_ns);
    }
    launch_lines_destroy(lines);
    stop_watching();
    tool_release_interrupts();
    return handed_on != 0 ? 128 + handed_on : exit_code(self);
}
