/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as its kernels see it: sizes, strides, and which keys a query may see. Shared by the
 * scalar kernel and faster ones. */
#ifndef RLX_REF_ATTENTION_H
#define RLX_REF_ATTENTION_H

#include "ref/access.h"
#include "ref/kernel.h"

typedef struct rlx_attention {
    const rlx_tensor *q, *k, *v, *mask, *y; /* mask: data NULL when absent */
    int64_t mask_strides[4];
    int64_t group;         /* query heads per key head */
    int64_t queries, keys; /* S and T */
    int64_t depth, width;  /* D and Dv */
    int64_t row_count;     /* group * S: rows that share a key head */
    double scale, softcap;
    int64_t window;
    bool is_causal;
} rlx_attention;

/* One query: its offsets and the keys [first, end) that it may see. */
typedef struct rlx_query_row {
    int64_t q, y, mask;
    int64_t first, end;
} rlx_query_row;

rlx_attention rlx_ref_attention(const rlx_kernel_args *args);
/* Row `index` of those that share key head `head` of batch `b`. */
rlx_query_row rlx_ref_query_row(const rlx_attention *at, int64_t b, int64_t head, int64_t index);

#endif
