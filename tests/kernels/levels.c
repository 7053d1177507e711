/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/levels.h"

#include "base/cpu.h"

/* clang-format off */
#if defined(RLX_HAS_WIDE)
#define FAMILY(family) extern const rlx_cpu_override rlx_cpu_##family##_wide[];
#define NARROW(family)
#include "backend/cpu/vec/families.def"
#undef FAMILY
static const rlx_cpu_override *const wide_families[] = {
#define FAMILY(family) rlx_cpu_##family##_wide,
#define NARROW(family)
#include "backend/cpu/vec/families.def"
#undef FAMILY
    NULL};
#define FAMILY(family) extern const rlx_cpu_preparation rlx_cpu_##family##_preparation_wide;
#define NARROW(family)
#include "backend/cpu/vec/prepared.def"
#undef FAMILY
static const rlx_cpu_preparation *const wide_preparations[] = {
#define FAMILY(family) &rlx_cpu_##family##_preparation_wide,
#define NARROW(family)
#include "backend/cpu/vec/prepared.def"
#undef FAMILY
    NULL};
static const rlx_cpu_level wide = {.name = "wide", .device = "cpu:wide", .target = "cpu/wide",
    .flags = RLX_CPU_AVX2 | RLX_CPU_F16C, .families = wide_families,
    .preparations = wide_preparations};
#endif
/* clang-format on */

uint32_t kernel_levels(const rlx_cpu_level *out[KERNEL_LEVELS]) {
    uint32_t count = 0, flags = rlx_cpu_flags();
    for (uint32_t i = 1; i < rlx_cpu_level_count; i++) {
        if ((rlx_cpu_levels[i].flags & ~flags) == 0) out[count++] = &rlx_cpu_levels[i];
    }
#if defined(RLX_HAS_WIDE)
    if ((wide.flags & ~flags) == 0) out[count++] = &wide;
#endif
    return count;
}
