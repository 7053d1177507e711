/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of every CPU kernel, scalar or not: a pure function over a range of work items. No
 * threads, no allocation, no status: shapes, strides and dtypes were settled when the plan was
 * made. What only data can tell goes to the fault record, and the kernel does something harmless.
 */
#ifndef RLX_REF_KERNEL_H
#define RLX_REF_KERNEL_H

#include "ir/tensor.h"

#include <stdatomic.h>

typedef enum rlx_fault_code {
    RLX_FAULT_NONE = 0,
    RLX_FAULT_INDEX,    /* an index outside its axis; value = the index */
    RLX_FAULT_DIVISION, /* integer division by zero; value = the dividend */
    RLX_FAULT_CAPACITY, /* a state written past its end; value = position */
    RLX_FAULT_BOUND,    /* a loop or extent past its bound; value = the count */
    RLX_FAULT_CODES
} rlx_fault_code;

/* Lies in the arena, 8-byte aligned. The first fault wins: `claim` goes from 0 to 1 once. */
typedef struct rlx_fault {
    _Atomic uint32_t claim;
    uint32_t code;
    uint32_t step;
    uint32_t unused;
    int64_t value;
} rlx_fault;

typedef struct rlx_kernel_args {
    rlx_op op;
    uint32_t step; /* for the fault record */
    const void *attrs;
    const rlx_tensor *in;
    /* data NULL: an optional output that nobody wants. A dim whose extent is another output of this
     * same step (nonzero, state_write) still has its bound here. */
    const rlx_tensor *out;
    uint32_t in_count, out_count;
    rlx_fault *fault;
    void *workspace; /* this worker's own; as many bytes as the target asked for */
    uint64_t workspace_bytes;
    /* The workspace of the first worker, for kernels whose items share something and that clear it
     * before (cpu/table.h); scalar kernels have no use for it. */
    void *common;
    /* What the kernel itself has worked out ahead from these args (but for the workspace); only
     * kernels that can be prepared look at it, and NULL is always allowed. */
    const void *prepared;
} rlx_kernel_args;

/* Does items [begin, end) of the `items` of these args. Items are independent: any split gives the
 * same bits. */
typedef void (*rlx_kernel_fn)(const rlx_kernel_args *args, int64_t begin, int64_t end);

typedef struct rlx_kernel {
    const char *name; /* "matmul_scalar": shown by rlx plan and profiles */
    rlx_kernel_fn run;
    /* How many items there are: from dims alone, never from the number of threads. */
    int64_t (*items)(const rlx_kernel_args *args);
    /* About how many elementary operations one item costs, to decide whether and how to share. */
    int64_t (*item_cost)(const rlx_kernel_args *args); /* NULL: elements of out[0] / items */
    /* Workspace per worker; NULL: none. */
    uint64_t (*workspace_bytes)(const rlx_kernel_args *args);
} rlx_kernel;

/* The scalar kernel of an op; NULL for control flow. Accepts any dims (0 included) and any strides
 * on inputs and outputs; elementwise ops also in place (an input that is exactly the output). */
const rlx_kernel *rlx_ref_kernel(rlx_op op);

void rlx_fault_raise(const rlx_kernel_args *args, rlx_fault_code code, int64_t value);

/* Families register their kernels in one table each: rows {op, kernel}. */
typedef struct rlx_ref_row {
    rlx_op op;
    rlx_kernel kernel;
} rlx_ref_row;
extern const rlx_ref_row rlx_ref_elementwise_rows[], rlx_ref_matmul_rows[], rlx_ref_conv_rows[],
    rlx_ref_conv_quantised_rows[], rlx_ref_pool_rows[], rlx_ref_reduce_rows[],
    rlx_ref_softmax_rows[], rlx_ref_norm_rows[], rlx_ref_attention_rows[], rlx_ref_gather_rows[],
    rlx_ref_scatter_rows[], rlx_ref_move_rows[], rlx_ref_pack_rows[], rlx_ref_sort_rows[],
    rlx_ref_state_rows[], rlx_ref_recurrent_rows[], rlx_ref_detect_rows[], rlx_ref_unique_rows[];
extern const uint32_t rlx_ref_elementwise_count, rlx_ref_matmul_count, rlx_ref_conv_count,
    rlx_ref_conv_quantised_count, rlx_ref_pool_count, rlx_ref_reduce_count, rlx_ref_softmax_count,
    rlx_ref_norm_count, rlx_ref_attention_count, rlx_ref_gather_count, rlx_ref_scatter_count,
    rlx_ref_move_count, rlx_ref_pack_count, rlx_ref_sort_count, rlx_ref_state_count,
    rlx_ref_recurrent_count, rlx_ref_detect_count, rlx_ref_unique_count;

#endif
