/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the loop of a fold by dtype, reduction and processor. */
#include "collective/fold.h"

#include "base/cpu.h"

static rlx_fold_type type_of(rlx_dtype dtype) {
    switch (dtype) {
    case RLX_DTYPE_F64:
        return RLX_FOLD_F64;
    case RLX_DTYPE_F16:
        return RLX_FOLD_F16;
    case RLX_DTYPE_BF16:
        return RLX_FOLD_BF16;
    case RLX_DTYPE_I32:
        return RLX_FOLD_I32;
    case RLX_DTYPE_I64:
        return RLX_FOLD_I64;
    case RLX_DTYPE_U8:
        return RLX_FOLD_U8;
    default:
        return RLX_FOLD_F32;
    }
}

void rlx_fold_with(const rlx_fold_table *table, rlx_dtype dtype, rlx_reduction reduction,
                   const void *const *sources, uint32_t source_count, void *const *targets,
                   uint32_t target_count, uint64_t count) {
    uint32_t scale = reduction == RLX_REDUCTION_MEAN ? source_count : 1;
    table->loops[type_of(dtype)][reduction](sources, source_count, targets, target_count, count,
                                            scale);
}

static const rlx_fold_table *best_table(void) {
#if defined(RLX_FOLD_AVX2)
    const uint32_t wanted = RLX_CPU_AVX2 | RLX_CPU_F16C;
    if ((rlx_cpu_flags() & wanted) == wanted) return &rlx_fold_avx2;
#endif
    return &rlx_fold_plain;
}

void rlx_fold(rlx_dtype dtype, rlx_reduction reduction, const void *const *sources,
              uint32_t source_count, void *const *targets, uint32_t target_count, uint64_t count) {
    rlx_fold_with(best_table(), dtype, reduction, sources, source_count, targets, target_count,
                  count);
}
