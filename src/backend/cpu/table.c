/* SPDX-License-Identifier: Apache-2.0 */
/* The levels and their override lists: the families of vec/, once per instruction set. */
#include "backend/cpu/table.h"

#include "base/cpu.h"
#include "ref/conv_place.h"

#include <string.h>

/* clang-format off */
#if defined(__x86_64__)
#define FAMILY(family) extern const rlx_cpu_override rlx_cpu_##family##_avx2[];
#include "backend/cpu/vec/families.def"
#undef FAMILY
static const rlx_cpu_override *const avx2_families[] = {
#define FAMILY(family) rlx_cpu_##family##_avx2,
#include "backend/cpu/vec/families.def"
#undef FAMILY
    NULL};
#define FAMILY(family) extern const rlx_cpu_preparation rlx_cpu_##family##_preparation_avx2;
#include "backend/cpu/vec/prepared.def"
#undef FAMILY
static const rlx_cpu_preparation *const avx2_preparations[] = {
#define FAMILY(family) &rlx_cpu_##family##_preparation_avx2,
#include "backend/cpu/vec/prepared.def"
#undef FAMILY
    NULL};
#if defined(RLX_HAS_AVX512)
#define FAMILY(family) extern const rlx_cpu_override rlx_cpu_##family##_avx512[];
#define NARROW(family)
#include "backend/cpu/vec/families.def"
#undef FAMILY
static const rlx_cpu_override *const avx512_families[] = {
#define FAMILY(family) rlx_cpu_##family##_avx512,
#define NARROW(family) rlx_cpu_##family##_avx2,
#include "backend/cpu/vec/families.def"
#undef FAMILY
    NULL};
#define FAMILY(family) extern const rlx_cpu_preparation rlx_cpu_##family##_preparation_avx512;
#define NARROW(family)
#include "backend/cpu/vec/prepared.def"
#undef FAMILY
static const rlx_cpu_preparation *const avx512_preparations[] = {
#define FAMILY(family) &rlx_cpu_##family##_preparation_avx512,
#define NARROW(family) &rlx_cpu_##family##_preparation_avx2,
#include "backend/cpu/vec/prepared.def"
#undef FAMILY
    NULL};
#endif
#elif defined(__aarch64__)
#define FAMILY(family) extern const rlx_cpu_override rlx_cpu_##family##_neon[];
#include "backend/cpu/vec/families.def"
#undef FAMILY
static const rlx_cpu_override *const neon_families[] = {
#define FAMILY(family) rlx_cpu_##family##_neon,
#include "backend/cpu/vec/families.def"
#undef FAMILY
    NULL};
#define FAMILY(family) extern const rlx_cpu_preparation rlx_cpu_##family##_preparation_neon;
#include "backend/cpu/vec/prepared.def"
#undef FAMILY
static const rlx_cpu_preparation *const neon_preparations[] = {
#define FAMILY(family) &rlx_cpu_##family##_preparation_neon,
#include "backend/cpu/vec/prepared.def"
#undef FAMILY
    NULL};
#endif
static const rlx_cpu_preparation *const no_preparations[] = {NULL};
static const rlx_cpu_override *const no_families[] = {NULL};

const rlx_cpu_level rlx_cpu_levels[] = {
    {"scalar", "cpu:scalar", "cpu/scalar", 0, no_families, 1000000000u, 4000000000u, 0, no_preparations},
#if defined(__x86_64__)
    {"avx2", "cpu:avx2", "cpu/avx2", RLX_CPU_AVX2 | RLX_CPU_F16C, avx2_families,
     40000000000u, 8000000000u, 8, avx2_preparations},
#if defined(RLX_HAS_AVX512)
    {"avx512", "cpu:avx512", "cpu/avx512", RLX_CPU_AVX2 | RLX_CPU_F16C | RLX_CPU_AVX512,
     avx512_families, 80000000000u, 8000000000u, 16, avx512_preparations},
    {"vnni", "cpu:vnni", "cpu/vnni", RLX_CPU_AVX2 | RLX_CPU_F16C | RLX_CPU_AVX512 | RLX_CPU_VNNI,
     avx512_families, 80000000000u, 8000000000u, 16, avx512_preparations},
#endif
#elif defined(__aarch64__)
    {"neon", "cpu:neon", "cpu/neon", RLX_CPU_NEON, neon_families, 10000000000u, 4000000000u, 8,
     neon_preparations},
#endif
};
/* clang-format on */
const uint32_t rlx_cpu_level_count = sizeof rlx_cpu_levels / sizeof rlx_cpu_levels[0];

const rlx_cpu_level *rlx_cpu_best_level(void) {
    uint32_t flags = rlx_cpu_flags(), best = 0;
    for (uint32_t i = 1; i < rlx_cpu_level_count; i++) {
        if ((rlx_cpu_levels[i].flags & ~flags) == 0) best = i;
    }
    return &rlx_cpu_levels[best];
}

const rlx_cpu_level *rlx_cpu_find_level(const char *device) {
    if (strcmp(device, "cpu") == 0) return rlx_cpu_best_level();
    for (uint32_t i = 0; i < rlx_cpu_level_count; i++) {
        if (strcmp(device, rlx_cpu_levels[i].device) == 0) return &rlx_cpu_levels[i];
    }
    return NULL;
}

static bool takes(const rlx_cpu_override *row, const rlx_cpu_level *level,
                  const rlx_target_query *query) {
    return row->op == query->op && (row->flags & ~level->flags) == 0 &&
           (row->takes == NULL || row->takes(query));
}

const rlx_kernel *rlx_cpu_choose(const rlx_cpu_level *level, const rlx_target_query *query) {
    for (uint32_t i = 0; level->families[i] != NULL; i++) {
        for (const rlx_cpu_override *row = level->families[i]; row->op != RLX_OP_NONE; row++) {
            if (takes(row, level, query)) return &row->kernel;
        }
    }
    return rlx_ref_kernel(query->op);
}

const rlx_kernel *rlx_cpu_find_kernel(const rlx_cpu_level *level, const rlx_target_query *query,
                                      const char *name) {
    const rlx_kernel *scalar = rlx_ref_kernel(query->op);
    for (uint32_t i = 0; level->families[i] != NULL; i++) {
        for (const rlx_cpu_override *row = level->families[i]; row->op != RLX_OP_NONE; row++) {
            if (takes(row, level, query) && strcmp(row->kernel.name, name) == 0) {
                return &row->kernel;
            }
        }
    }
    return scalar != NULL && strcmp(scalar->name, name) == 0 ? scalar : NULL;
}

const rlx_cpu_preparation *rlx_cpu_preparation_of(const rlx_cpu_level *level,
                                                  const rlx_kernel *kernel) {
    if (level->preparations == NULL) return NULL;
    for (uint32_t i = 0; level->preparations[i] != NULL; i++) {
        if (level->preparations[i]->run == kernel->run) return level->preparations[i];
    }
    return NULL;
}

int64_t rlx_cpu_overwrite_parts(const rlx_cpu_level *level, const rlx_kernel *kernel,
                                const rlx_kernel_args *args) {
    const rlx_cpu_preparation *preparation = rlx_cpu_preparation_of(level, kernel);
    if (kernel == rlx_ref_kernel(RLX_OP_CONV))
        return rlx_ref_conv_overwrites(args) ? rlx_ref_conv_place_items(args) : 0;
    return preparation == NULL || preparation->overwrites == NULL ? 0
                                                                  : preparation->overwrites(args);
}
