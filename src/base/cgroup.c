/* SPDX-License-Identifier: Apache-2.0 */
/* Every ancestor of a control group may limit it further. In a container the path that the kernel
 * reports may not exist below the mount; its ancestors are tried all the same, and the mount itself
 * is the container's own group. Missing files are no limit. */
#include "base/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static bool read_text(const char *path, char text[RLX_CGROUP_TEXT_BYTES]) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;
    if (descriptor < 0) return false;
    got = read(descriptor, text, RLX_CGROUP_TEXT_BYTES - 1);
    close(descriptor);
    if (got < 0) return false;
    text[got] = '\0';
    return true;
}

bool rlx_cgroup_read(const char *folder, const char *name, char text[RLX_CGROUP_TEXT_BYTES]) {
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && length < PATH_BYTES && read_text(path, text);
}

/* The smallest limit of mount/sub/group and its ancestors up to mount/sub. */
static uint64_t least_upwards(const char *mount, const char *sub, const char *group,
                              rlx_cgroup_limit limit_of) {
    char folder[PATH_BYTES];
    uint64_t least = UINT64_MAX;
    int length = snprintf(folder, sizeof folder, "%s%s%s", mount, sub, group);
    size_t top = strlen(mount) + strlen(sub);
    if (length <= 0 || length >= PATH_BYTES) return UINT64_MAX;
    for (;;) {
        uint64_t limit = limit_of(folder);
        char *slash = strrchr(folder, '/');
        if (limit < least) least = limit;
        if (slash == NULL || slash < folder + top) return least;
        *slash = '\0';
    }
}

/* "cpu" in "cpu,cpuacct"? */
static bool lists(const char *controllers, const char *name) {
    size_t length = strlen(name);
    while (controllers != NULL) {
        if (strncmp(controllers, name, length) == 0 &&
            (controllers[length] == ',' || controllers[length] == '\0')) {
            return true;
        }
        controllers = strchr(controllers, ',');
        if (controllers != NULL) ++controllers;
    }
    return false;
}

/* One line "id:controllers:/group"; version 2 has no controllers. */
static uint64_t least_of_line(const rlx_cgroup_controller *controller, char *line,
                              const char *mount) {
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    uint64_t a, b;
    if (group == NULL) return UINT64_MAX;
    *group++ = '\0';
    if (*++controllers == '\0') {
        a = least_upwards(mount, "", group, controller->version_2);
        b = least_upwards(mount, "/unified", group, controller->version_2);
    } else if (lists(controllers, controller->name)) {
        a = least_upwards(mount, controller->folders[0], group, controller->version_1);
        b = least_upwards(mount, controller->folders[1], group, controller->version_1);
    } else {
        return UINT64_MAX;
    }
    return a < b ? a : b;
}

uint64_t rlx_cgroup_least(const rlx_cgroup_controller *controller, const char *membership,
                          const char *mount) {
    char text[RLX_CGROUP_TEXT_BYTES];
    uint64_t least = UINT64_MAX;
    if (!read_text(membership, text)) return UINT64_MAX;
    for (char *line = text; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');
        uint64_t limit;
        if (end != NULL) *end = '\0';
        limit = least_of_line(controller, line, mount);
        if (limit < least) least = limit;
        line = end == NULL ? NULL : end + 1;
    }
    return least;
}
