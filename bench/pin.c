/* SPDX-License-Identifier: Apache-2.0 */
/* On which processor one thread runs. Virtual processors are not alike: somebody may have the other
 * half of one core for minutes. So both sides of a comparison run on the same one, and the trials
 * take turns on all of them. */
#include "bench.h"

rlx_bench_pin rlx_bench_pin_begin(void) {
    rlx_bench_pin self;
    if (sched_getaffinity(0, sizeof self.all, &self.all) != 0) CPU_ZERO(&self.all);
    return self;
}

void rlx_bench_pin_to(const rlx_bench_pin *self, uint32_t index, pid_t process) {
    uint32_t count = (uint32_t)CPU_COUNT(&self->all), seen = 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && count > 0; cpu++) {
        if (CPU_ISSET(cpu, &self->all) && seen++ == index % count) CPU_SET(cpu, &one);
    }
    if (CPU_COUNT(&one) == 1) (void)sched_setaffinity(process, sizeof one, &one);
}

void rlx_bench_pin_end(const rlx_bench_pin *self, pid_t process) {
    if (CPU_COUNT(&self->all) > 0) (void)sched_setaffinity(process, sizeof self->all, &self->all);
}
