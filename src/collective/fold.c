/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the loop of a fold by dtype, reduction and processor. */
#include "collective/fold.h"

#include "base/cpu.h"

static const uint8_t types[RLX_DTYPE_COUNT] = {
    [RLX_DTYPE_F32] = RLX_FOLD_F32, [RLX_DTYPE_F64] = RLX_FOLD_F64,
    [RLX_DTYPE_F16] = RLX_FOLD_F16, [RLX_DTYPE_BF16] = RLX_FOLD_BF16,
    [RLX_DTYPE_I32] = RLX_FOLD_I32, [RLX_DTYPE_I64] = RLX_FOLD_I64,
    [RLX_DTYPE_U8] = RLX_FOLD_U8,
};

void rlx_fold_with(const rlx_fold_table *table, rlx_dtype dtype, rlx_reduction reduction,
                   const void *const *sources, uint32_t source_count, void *const *targets,
                   uint32_t target_count, uint64_t count) {
    uint32_t scale = reduction == RLX_REDUCTION_MEAN ? source_count : 1;
    table->loops[types[dtype]][reduction](sources, source_count, targets, target_count, count,
                                          scale);
}

const rlx_fold_table *rlx_fold_best(void) {
#if defined(RLX_FOLD_AVX2)
    const uint32_t wanted = RLX_CPU_AVX2 | RLX_CPU_F16C;
    if ((rlx_cpu_flags() & wanted) == wanted) return &rlx_fold_avx2;
#endif
    return &rlx_fold_plain;
}
