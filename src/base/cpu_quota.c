/* SPDX-License-Identifier: Apache-2.0 */
/* A control group limits CPU time to quota/period; every ancestor may limit it further. In a
 * container the path that the kernel reports may not exist below the mount; its ancestors are tried
 * all the same, and the mount itself is the container's own group. Missing files are no quota. */
#include "base/cpu_quota.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 4096, PATH_BYTES = 4096 };

/* Reads the start of a small file as text; false when there is none. */
static bool read_text(const char *path, char text[FILE_BYTES]) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;
    if (descriptor < 0) return false;
    got = read(descriptor, text, FILE_BYTES - 1);
    close(descriptor);
    if (got < 0) return false;
    text[got] = '\0';
    return true;
}

static bool read_file_of(const char *folder, const char *name, char text[FILE_BYTES]) {
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && length < PATH_BYTES && read_text(path, text);
}

static uint32_t whole_cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return UINT32_MAX; /* -1: no limit */
    quota /= period;
    if (quota < 1) return 1;
    return quota < UINT32_MAX ? (uint32_t)quota : UINT32_MAX;
}

/* "max 100000" or "150000 100000". */
static uint32_t quota_v2(const char *folder) {
    char text[FILE_BYTES];
    long long quota, period;
    if (!read_file_of(folder, "cpu.max", text)) return UINT32_MAX;
    if (sscanf(text, "%lld %lld", &quota, &period) != 2) return UINT32_MAX;
    return whole_cpus(quota, period);
}

static uint32_t quota_v1(const char *folder) {
    char quota[FILE_BYTES], period[FILE_BYTES];
    if (!read_file_of(folder, "cpu.cfs_quota_us", quota)) return UINT32_MAX;
    if (!read_file_of(folder, "cpu.cfs_period_us", period)) return UINT32_MAX;
    return whole_cpus(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/* The smallest quota of mount/sub/group and its ancestors up to mount/sub. */
static uint32_t quota_upwards(const char *mount, const char *sub, const char *group,
                              uint32_t (*quota_of)(const char *folder)) {
    char folder[PATH_BYTES];
    uint32_t least = UINT32_MAX;
    int length = snprintf(folder, sizeof folder, "%s%s%s", mount, sub, group);
    size_t top = strlen(mount) + strlen(sub);
    if (length <= 0 || length >= PATH_BYTES) return UINT32_MAX;
    for (;;) {
        uint32_t quota = quota_of(folder);
        char *slash = strrchr(folder, '/');
        if (quota < least) least = quota;
        if (slash == NULL || slash < folder + top) return least;
        *slash = '\0';
    }
}

/* "cpu" in "cpu,cpuacct"? */
static bool lists_cpu(const char *controllers) {
    while (controllers != NULL) {
        if (strncmp(controllers, "cpu", 3) == 0 && (controllers[3] == ',' || !controllers[3])) {
            return true;
        }
        controllers = strchr(controllers, ',');
        if (controllers != NULL) ++controllers;
    }
    return false;
}

/* One line "id:controllers:/group"; version 2 has no controllers. */
static uint32_t quota_of_line(char *line, const char *mount) {
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    uint32_t a, b;
    if (group == NULL) return UINT32_MAX;
    *group++ = '\0';
    if (*++controllers == '\0') {
        a = quota_upwards(mount, "", group, quota_v2);
        b = quota_upwards(mount, "/unified", group, quota_v2);
    } else if (lists_cpu(controllers)) {
        a = quota_upwards(mount, "/cpu", group, quota_v1);
        b = quota_upwards(mount, "/cpu,cpuacct", group, quota_v1);
    } else {
        return UINT32_MAX;
    }
    return a < b ? a : b;
}

uint32_t rlx_cpu_quota(const char *membership, const char *mount) {
    char text[FILE_BYTES];
    uint32_t least = UINT32_MAX;
    if (!read_text(membership, text)) return UINT32_MAX;
    for (char *line = text; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');
        uint32_t quota;
        if (end != NULL) *end = '\0';
        quota = quota_of_line(line, mount);
        if (quota < least) least = quota;
        line = end == NULL ? NULL : end + 1;
    }
    return least;
}
