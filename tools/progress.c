/* SPDX-License-Identifier: Apache-2.0 */
/* The progress bar of the rlx command. */
#include "progress.h"

#include "signals.h"
#include "tool.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR_CELLS = 24, LINE_CELLS = 79 };
static const double FIRST_SECONDS = 1.0, NEXT_SECONDS = 0.1;

static struct {
    bool is_allowed, is_drawn;
    const char *what;
    double began, drawn;
} bar;

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void tool_progress_allow(bool is_allowed) {
    bar.is_allowed = is_allowed && isatty(STDERR_FILENO);
}

void tool_progress_begin(const char *what) {
    tool_progress_end();
    bar.what = what;
    bar.began = now_seconds();
    bar.drawn = 0;
}

void tool_progress_show(uint64_t done, uint64_t total, const char *note) {
    char cells[BAR_CELLS + 1], line[LINE_CELLS + 1];
    if (!bar.is_allowed || bar.what == NULL) return;
    double now = now_seconds(), share = total == 0 ? 0 : (double)done / (double)total;
    if (now - bar.began < FIRST_SECONDS || now - bar.drawn < NEXT_SECONDS) return;
    if (share > 1) share = 1;
    size_t full = (size_t)(share * BAR_CELLS);
    memset(cells, '#', full);
    memset(cells + full, '-', BAR_CELLS - full);
    cells[BAR_CELLS] = 0;
    snprintf(line, sizeof line, "%.20s [%s] %3.0f%%  %.27s", bar.what, cells, 100 * share,
             note == NULL ? "" : note);
    fprintf(stderr, "\r%-*s", LINE_CELLS, line);
    fflush(stderr);
    bar.drawn = now;
    bar.is_drawn = true;
}

void tool_progress_end(void) {
    if (bar.is_drawn) {
        fprintf(stderr, "\r%*s\r", LINE_CELLS, "");
        fflush(stderr);
    }
    bar.is_drawn = false;
    bar.what = NULL;
}

bool tool_progress_bytes(void *user, uint64_t done_bytes, uint64_t total_bytes) {
    char note[64];
    (void)user;
    snprintf(note, sizeof note, "%s of %s", tool_bytes(done_bytes), tool_bytes(total_bytes));
    tool_progress_show(done_bytes, total_bytes, note);
    return !tool_was_interrupted();
}
