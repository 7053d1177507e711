/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups: what limits a container, read from the files of versions 1 and 2. */
#ifndef RLX_BASE_CGROUP_H
#define RLX_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

enum { RLX_CGROUP_TEXT_BYTES = 4096 };

/* The start of a small file as text; false when there is none. */
bool rlx_cgroup_read(const char *folder, const char *name, char text[RLX_CGROUP_TEXT_BYTES]);

/* One controller's limit in a group's folder; UINT64_MAX: none. */
typedef uint64_t (*rlx_cgroup_limit)(const char *folder);
typedef struct rlx_cgroup_controller {
    const char *name;       /* "cpu" */
    const char *folders[2]; /* of version 1 below the mount: "/cpu", "/cpu,cpuacct" */
    rlx_cgroup_limit version_1, version_2;
} rlx_cgroup_controller;

/* The smallest limit of the groups of this process and of their ancestors. `membership` is
 * /proc/self/cgroup and `mount` is /sys/fs/cgroup, except in tests. */
uint64_t rlx_cgroup_least(const rlx_cgroup_controller *controller, const char *membership,
                          const char *mount);

#endif
