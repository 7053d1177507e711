/* SPDX-License-Identifier: Apache-2.0 */
/* A control group limits memory, pages of files included; those can be given back and count as
 * free. */
#include "base/memory_limit.h"

#include "base/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file of one number; "max" and what is no number is UINT64_MAX. */
static uint64_t read_number(const char *folder, const char *name) {
    char text[RLX_CGROUP_TEXT_BYTES], *end;
    unsigned long long number;
    if (!rlx_cgroup_read(folder, name, text)) return UINT64_MAX;
    errno = 0;
    number = strtoull(text, &end, 10);
    return end == text || errno != 0 ? UINT64_MAX : number;
}

/* The number behind "name " at the start of a line; 0 without one. */
static uint64_t row_of(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        if (*line == '\n') ++line;
        if (strncmp(line, name, length) == 0) return strtoull(line + length, NULL, 10);
    }
    return 0;
}

static uint64_t left(uint64_t limit, uint64_t used, uint64_t files) {
    if (limit == UINT64_MAX || used == UINT64_MAX) return UINT64_MAX;
    used = used > files ? used - files : 0;
    return limit > used ? limit - used : 0;
}

static uint64_t left_v2(const char *folder) {
    char text[RLX_CGROUP_TEXT_BYTES];
    uint64_t limit = read_number(folder, "memory.max"), files = 0;
    if (limit == UINT64_MAX) return UINT64_MAX;
    if (rlx_cgroup_read(folder, "memory.stat", text)) {
        files = row_of(text, "inactive_file ") + row_of(text, "active_file ");
    }
    return left(limit, read_number(folder, "memory.current"), files);
}

static uint64_t left_v1(const char *folder) {
    char text[RLX_CGROUP_TEXT_BYTES];
    uint64_t limit = read_number(folder, "memory.limit_in_bytes"), files = 0;
    if (limit >= UINT64_C(1) << 62) return UINT64_MAX; /* how version 1 writes "no limit" */
    if (rlx_cgroup_read(folder, "memory.stat", text)) {
        files = row_of(text, "total_inactive_file ") + row_of(text, "total_active_file ");
    }
    return left(limit, read_number(folder, "memory.usage_in_bytes"), files);
}

static uint64_t machine_free(const char *meminfo) {
    char line[256];
    unsigned long long kib, found = UINT64_MAX >> 10;
    FILE *file = fopen(meminfo, "re");
    if (file == NULL) return UINT64_MAX;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) found = kib;
    }
    fclose(file);
    return found == UINT64_MAX >> 10 ? UINT64_MAX : (uint64_t)found << 10;
}

uint64_t rlx_memory_free(const char *membership, const char *mount, const char *meminfo) {
    static const rlx_cgroup_controller memory = {
        "memory", {"/memory", "/memory"}, left_v1, left_v2};
    uint64_t group = rlx_cgroup_least(&memory, membership, mount);
    uint64_t machine = machine_free(meminfo);
    return group < machine ? group : machine;
}
