/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of the rlx command, and descriptors that the caller left closed. */
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t noted, is_held;
static rlx_exec *volatile held_exec;

static void note_interrupt(int number) {
    int saved = errno;
    if (!is_held) _exit(128 + number);
    noted = number;
    rlx_exec *exec = held_exec;
    if (exec != NULL) rlx_exec_cancel(exec);
    errno = saved;
}

/* The only file that we map and that others may cut is a program; nothing can be undone here. Every
 * thread of the pool may get here at once: one speaks, the others wait for the end. */
static void note_lost_map(int number) {
    static atomic_flag is_said = ATOMIC_FLAG_INIT;
    static const char text[] =
        "rlx: a mapped program file was cut short or cannot be read while it was in use\n";
    (void)number;
    while (atomic_flag_test_and_set(&is_said))
        pause();
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    _exit(1);
}

static void set_handler(int number, void (*handler)(int), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* What the caller told us to ignore (nohup) stays ignored. */
static void catch_interrupt(int number) {
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN) return;
    set_handler(number, note_interrupt, SA_RESTART);
}

/* open takes the lowest free number, so in order each closed one is filled with itself. Writing to
 * the one that stands for stdout fails, as it should. */
static void fill_closed(void) {
    for (int descriptor = 0; descriptor <= 2; descriptor++) {
        if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
        int opened = open("/dev/null", descriptor == 2 ? O_WRONLY : O_RDONLY);
        if (opened > 2) close(opened);
    }
}

void tool_signals_begin(void) {
    fill_closed();
    set_handler(SIGPIPE, SIG_IGN, 0);
    set_handler(SIGXFSZ, SIG_IGN, 0);
    set_handler(SIGBUS, note_lost_map, 0);
    catch_interrupt(SIGINT);
    catch_interrupt(SIGTERM);
    catch_interrupt(SIGHUP);
}

void tool_hold_interrupts(rlx_exec *exec) {
    if (exec != NULL) held_exec = exec;
    is_held++;
}

void tool_release_interrupts(void) {
    is_held--;
    if (is_held == 0) held_exec = NULL;
}

bool tool_was_interrupted(void) {
    return noted != 0;
}

int tool_interrupt_code(void) {
    return noted == 0 ? 0 : 128 + (int)noted;
}
