/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process can still get: what the machine has, and what its container allows.
 */
#ifndef RLX_BASE_MEMORY_LIMIT_H
#define RLX_BASE_MEMORY_LIMIT_H

#include <stdint.h>

/* Bytes; UINT64_MAX when the system does not tell. The paths are /proc/self/cgroup, /sys/fs/cgroup
 * and /proc/meminfo, except in tests. */
uint64_t rlx_memory_free(const char *membership, const char *mount, const char *meminfo);

#endif
