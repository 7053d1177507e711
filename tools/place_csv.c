/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes the tables of `rlx place`. Whatever is wrong with a table is said with file and
 * line; a column that would change the meaning of a row is refused, not skipped. */
#include "place_csv.h"

#include "file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID, LOWER, UPPER, SIZE, OFFSET, COLUMN_KINDS, MOST_COLUMNS = 16 };
static const char *const column_names[COLUMN_KINDS] = {"id", "lower", "upper", "size", "offset"};

typedef struct reader {
    const char *path;
    char *at; /* rest of the text */
    uint32_t line;
    int kinds[MOST_COLUMNS]; /* of the columns, from the header */
    int column_count;
} reader;

static bool complain(const reader *self, const char *what, const char *got) {
    fprintf(stderr, "rlx place: %s:%" PRIu32 ": %s", self->path, self->line, what);
    if (got != NULL) fprintf(stderr, ", got '%.60s'", got);
    fputc('\n', stderr);
    return false;
}

static bool read_whole(const char *path, char **out_text) {
    FILE *file = fopen(path, "rb");
    size_t length = 0, capacity = 1 << 16;
    char *text = file == NULL ? NULL : malloc(capacity);
    while (text != NULL) {
        length += fread(text + length, 1, capacity - length - 1, file);
        if (length + 1 < capacity) break;
        char *larger = realloc(text, capacity *= 2);
        if (larger == NULL) free(text);
        text = larger;
    }
    bool is_read = text != NULL && ferror(file) == 0;
    if (!is_read) fprintf(stderr, "rlx place: %s: %s\n", path, strerror(errno));
    if (file != NULL) fclose(file);
    if (is_read && memchr(text, 0, length) != NULL) {
        fprintf(stderr, "rlx place: %s: a zero byte: not a text file\n", path);
        is_read = false;
    }
    if (is_read) {
        text[length] = 0;
        *out_text = text;
    } else {
        free(text);
    }
    return is_read;
}

/* Cuts the next line that is not blank out of the text. NULL at the end. */
static char *next_line(reader *self) {
    while (*self->at != 0) {
        char *line = self->at, *end = line + strcspn(line, "\n");
        self->at = *end == 0 ? end : end + 1;
        if (end > line && end[-1] == '\r') --end;
        *end = 0;
        ++self->line;
        if (line[strspn(line, " \t")] != 0) return line;
    }
    return NULL;
}

/* Cuts the next cell out of the line, without blanks around it. */
static char *next_cell(char **line) {
    char *cell = *line + strspn(*line, " \t"), *end = cell + strcspn(cell, ",");
    *line = *end == 0 ? NULL : end + 1;
    *end = 0;
    while (end > cell && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = 0;
    return cell;
}

static bool read_header(reader *self) {
    char *line = next_line(self);
    bool has[COLUMN_KINDS] = {false};
    if (line == NULL) {
        self->line = 1;
        return complain(self, "empty; expected a header id,lower,upper,size", NULL);
    }
    if (strncmp(line, "\xef\xbb\xbf", 3) == 0) line += 3; /* byte order mark */
    while (line != NULL) {
        char *name = next_cell(&line);
        int kind = 0;
        while (kind < COLUMN_KINDS && strcmp(name, column_names[kind]) != 0)
            ++kind;
        if (kind == COLUMN_KINDS) {
            return complain(self, "expected the columns id, lower, upper, size", name);
        }
        if (has[kind] || self->column_count == MOST_COLUMNS) {
            return complain(self, "column named twice", name);
        }
        has[kind] = true;
        self->kinds[self->column_count++] = kind;
    }
    for (int kind = ID; kind <= SIZE; ++kind) {
        if (!has[kind]) return complain(self, "the header lacks a column", column_names[kind]);
    }
    return true;
}

static bool parse_number(const reader *self, const char *cell, uint64_t *out_value) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(cell, &end, 10);
    if (cell[0] < '0' || cell[0] > '9' || *end != 0) {
        return complain(self, "expected a whole number", cell);
    }
    if (errno == ERANGE || value > UINT64_MAX) {
        return complain(self, "number above 18446744073709551615", cell);
    }
    *out_value = value;
    return true;
}

static bool read_row(reader *self, char *line, const char **out_id, rlx_place_item *out_item) {
    uint64_t numbers[COLUMN_KINDS] = {0};
    for (int column = 0; column < self->column_count; ++column) {
        if (line == NULL) return complain(self, "fewer cells than the header has columns", NULL);
        char *cell = next_cell(&line);
        int kind = self->kinds[column];
        if (kind == ID) {
            *out_id = cell;
        } else if (kind != OFFSET && !parse_number(self, cell, &numbers[kind])) {
            return false;
        }
    }
    if (line != NULL) return complain(self, "more cells than the header has columns", line);
    *out_item = (rlx_place_item){numbers[LOWER], numbers[UPPER], numbers[SIZE]};
    if (out_item->lower > out_item->upper) return complain(self, "lower is above upper", NULL);
    return true;
}

static uint32_t count_lines(const char *text) {
    uint64_t count = 1;
    for (; *text != 0; ++text)
        count += *text == '\n';
    return count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
}

bool place_csv_read(const char *path, place_csv *out_csv) {
    place_csv csv = {0};
    reader self = {.path = path};
    if (!read_whole(path, &csv.text)) return false;
    uint32_t most = count_lines(csv.text);
    csv.ids = calloc(most, sizeof *csv.ids);
    csv.items = calloc(most, sizeof *csv.items);
    self.at = csv.text;
    bool is_read = csv.ids != NULL && csv.items != NULL;
    if (!is_read) fprintf(stderr, "rlx place: %s: out of memory\n", path);
    is_read = is_read && read_header(&self);
    for (char *line; is_read && (line = next_line(&self)) != NULL; ++csv.count) {
        is_read = read_row(&self, line, &csv.ids[csv.count], &csv.items[csv.count]);
    }
    if (is_read) {
        *out_csv = csv;
    } else {
        place_csv_free(&csv);
    }
    return is_read;
}

static void print_rows(FILE *file, const place_csv *csv, const uint64_t *offsets) {
    fputs("id,lower,upper,size,offset\n", file);
    for (uint32_t i = 0; i < csv->count; ++i) {
        const rlx_place_item *item = &csv->items[i];
        fprintf(file, "%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", csv->ids[i],
                item->lower, item->upper, item->bytes, offsets[i]);
    }
}

bool place_csv_write(const char *path, const place_csv *csv, const uint64_t *offsets) {
    tool_file file;
    if (strcmp(path, "-") == 0) {
        print_rows(stdout, csv, offsets);
        return true; /* whether stdout took it is seen when the command ends */
    }
    rlx_status status = tool_file_open(path, &file);
    if (status == RLX_OK) {
        print_rows(file.stream, csv, offsets);
        status = tool_file_commit(&file);
    }
    if (status != RLX_OK) tool_fail("place", status);
    return status == RLX_OK;
}

void place_csv_free(place_csv *csv) {
    free(csv->text);
    free(csv->ids);
    free(csv->items);
    *csv = (place_csv){0};
}
