/* SPDX-License-Identifier: Apache-2.0 */
/* The container's CPU quota, read from the control-group files. */
#ifndef RLX_BASE_CPU_QUOTA_H
#define RLX_BASE_CPU_QUOTA_H

#include <stdint.h>

/* Whole CPUs that the quota allows, at least 1; UINT32_MAX without a quota. `membership` is
 * /proc/self/cgroup and `mount` is /sys/fs/cgroup, except in tests. */
uint32_t rlx_cpu_quota(const char *membership, const char *mount);

#endif
