/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks write, line by line with the rank before it, so that lines of two ranks do not mix. */
#include "launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 4096 };

typedef struct line {
    char text[LINE_BYTES];
    size_t length;
} line;

struct launch_lines {
    line items[2]; /* per rank: stdout, stderr */
};

launch_lines *launch_lines_create(uint32_t count) {
    return calloc(count, sizeof(launch_lines));
}

void launch_lines_destroy(launch_lines *lines) {
    free(lines);
}

static void print(line *self, uint32_t rank, int which, size_t length) {
    FILE *out = which == 0 ? stdout : stderr;
    fprintf(out, "[%u] %.*s\n", rank, (int)length, self->text);
    fflush(out);
}

/* Prints the whole lines, keeps the rest. A line that is too long is cut in two. */
static void print_lines(line *self, uint32_t rank, int which) {
    size_t begin = 0;
    for (;;) {
        char *end = memchr(self->text + begin, '\n', self->length - begin);
        if (end == NULL) break;
        fprintf(which == 0 ? stdout : stderr, "[%u] %.*s\n", rank,
                (int)(end - self->text - (ptrdiff_t)begin), self->text + begin);
        begin = (size_t)(end - self->text) + 1;
    }
    if (begin != 0) fflush(which == 0 ? stdout : stderr);
    memmove(self->text, self->text + begin, self->length - begin);
    self->length -= begin;
    if (self->length == LINE_BYTES) {
        print(self, rank, which, self->length);
        self->length = 0;
    }
}

bool launch_lines_take(launch_lines *lines, uint32_t rank, int which, int descriptor) {
    line *self = &lines[rank].items[which];
    ssize_t got = read(descriptor, self->text + self->length, LINE_BYTES - self->length);
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    self->length += (size_t)got;
    print_lines(self, rank, which);
    if (got != 0) return true;
    if (self->length != 0) print(self, rank, which, self->length);
    self->length = 0;
    return false;
}
