/* SPDX-License-Identifier: Apache-2.0 */
/* A control group limits CPU time to quota/period; every ancestor may limit it further. */
#include "base/cpu_quota.h"

#include "base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t whole_cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return UINT64_MAX; /* -1: no limit */
    quota /= period;
    return quota < 1 ? 1 : (uint64_t)quota;
}

/* "max 100000" or "150000 100000". */
static uint64_t quota_v2(const char *folder) {
    char text[RLX_CGROUP_TEXT_BYTES];
    long long quota, period;
    if (!rlx_cgroup_read(folder, "cpu.max", text)) return UINT64_MAX;
    if (sscanf(text, "%lld %lld", &quota, &period) != 2) return UINT64_MAX;
    return whole_cpus(quota, period);
}

static uint64_t quota_v1(const char *folder) {
    char quota[RLX_CGROUP_TEXT_BYTES], period[RLX_CGROUP_TEXT_BYTES];
    if (!rlx_cgroup_read(folder, "cpu.cfs_quota_us", quota)) return UINT64_MAX;
    if (!rlx_cgroup_read(folder, "cpu.cfs_period_us", period)) return UINT64_MAX;
    return whole_cpus(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

uint32_t rlx_cpu_quota(const char *membership, const char *mount) {
    static const rlx_cgroup_controller cpu = {"cpu", {"/cpu", "/cpu,cpuacct"}, quota_v1, quota_v2};
    uint64_t least = rlx_cgroup_least(&cpu, membership, mount);
    return least < UINT32_MAX ? (uint32_t)least : UINT32_MAX;
}
