/* SPDX-License-Identifier: Apache-2.0 */
/* What a compile asks about the hardware it plans for: plain data and pure functions, so a plan can
 * be made for a device that is not there. */
#ifndef RLX_PLAN_TARGET_H
#define RLX_PLAN_TARGET_H

#include "ir/tensor.h"

#include <rlx/base.h>

typedef enum rlx_placement {
    RLX_PLACED_UNSUPPORTED = 0,
    RLX_PLACED_NATIVE, /* a kernel of the device */
    RLX_PLACED_HOST    /* a host step: scalar C on mapped memory */
} rlx_placement;

/* A step to be. `data` of a present operand is not NULL, and must not be followed. */
typedef struct rlx_target_query {
    rlx_op op;
    const void *attrs;
    const rlx_tensor *in, *out;
    uint32_t in_count, out_count;
    /* Per operand, inputs then outputs: bit i says that the size of axis i is known in a run alone,
     * and dims[i] is its bound. NULL: nothing is known about that. */
    const uint8_t *extents;
} rlx_target_query;

enum { RLX_TARGET_LAYOUTS = 4 };

typedef struct rlx_target_choice {
    rlx_placement placement;
    const char *kernel;       /* static text */
    const char *reason;       /* static text */
    uint64_t workspace_bytes; /* per worker */
    uint32_t plain_inputs;    /* bit i: input i must be plain; the compiler inserts a copy */
    bool plain_outputs;       /* outputs must be plain */
    bool overwrites_first;    /* out[0] may, and should, lie in the memory of in[0] */
    /* Of the first inputs: the layout in which the target would rather have one that is known once
     * the weights are. From op, attributes and the operand itself, never from other operands' dims:
     * entries share their weights. */
    rlx_layout in_layouts[RLX_TARGET_LAYOUTS];
    uint64_t flops; /* for profiles */
} rlx_target_choice;

typedef struct rlx_target rlx_target;
struct rlx_target {
    char name[64];        /* "cpu/scalar" */
    uint64_t alignment;   /* of buffers */
    uint64_t block_bytes; /* no buffer lies across a multiple of it; 0: memory is in one piece */
    uint32_t workers;     /* threads that get workspace */
    uint64_t flops_per_second, bytes_per_second; /* rough, to cut stretches at about 100 ms */
    rlx_target_choice (*choose)(const rlx_target *target, const rlx_target_query *query);
    /* Channels of a block for which it has kernels of conv and pools (channel_block of ops.h); 0:
     * it has none. */
    uint32_t channel_block;
    const void *user; /* of the backend */
};

/* Groups of a conv that fill no panels of two blocks, but that kernels for f32 in blocks take as
 * they are: as many outputs as inputs, whole blocks of them or equal parts of one. */
static inline bool rlx_conv_is_narrow(int64_t block, int64_t in, int64_t out, int64_t groups) {
    return groups > 1 && in > 1 && in == out && in * groups % block == 0 &&
           (in % block == 0 ? in % (2 * block) != 0 : block % in == 0);
}

#endif
