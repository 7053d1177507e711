/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of reductions: n arrays become one, in the order of the list, written to m places.
 */
#ifndef RLX_COLLECTIVE_FOLD_H
#define RLX_COLLECTIVE_FOLD_H

#include <rlx/collective.h>

typedef struct rlx_fold_table rlx_fold_table;
/* The loops for this processor. */
const rlx_fold_table *rlx_fold_best(void);

/* targets[..][i] = sources[0][i] op sources[1][i] op .. A target may be one of the sources; other
 * overlaps are not allowed. All are aligned to their elements. The dtype is one that collectives
 * take; source_count and target_count are at least 1. */
void rlx_fold_with(const rlx_fold_table *table, rlx_dtype dtype, rlx_reduction reduction,
                   const void *const *sources, uint32_t source_count, void *const *targets,
                   uint32_t target_count, uint64_t count);

/* One level's loop for a dtype and reduction. `scale` is what a mean divides by, else 1. */
typedef void (*rlx_fold_loop)(const void *const *sources, uint32_t source_count,
                              void *const *targets, uint32_t target_count, uint64_t count,
                              uint32_t scale);
typedef enum rlx_fold_type {
    RLX_FOLD_F32,
    RLX_FOLD_F64,
    RLX_FOLD_F16,
    RLX_FOLD_BF16,
    RLX_FOLD_I32,
    RLX_FOLD_I64,
    RLX_FOLD_U8,
    RLX_FOLD_TYPES
} rlx_fold_type;
struct rlx_fold_table {
    rlx_fold_loop loops[RLX_FOLD_TYPES][RLX_REDUCTION_COUNT];
};
extern const rlx_fold_table rlx_fold_plain;
extern const rlx_fold_table rlx_fold_avx2; /* x86: AVX2 and F16C */

#endif
