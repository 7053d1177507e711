/* SPDX-License-Identifier: Apache-2.0 */
/* What block_channels.c asks about a conv, and which convs do better with channels in planes. */
#ifndef RLX_COMPILE_BLOCK_CONV_H
#define RLX_COMPILE_BLOCK_CONV_H

#include "compile/blocker.h"

typedef struct rlx_block_conv {
    rlx_value_id x, w, residual, y;
    int64_t groups, in, out; /* channels, of a group */
    int64_t taps;
    bool is_depthwise, is_first, is_quantised;
} rlx_block_conv;

static inline bool rlx_block_is_conv(rlx_op op) {
    return op == RLX_OP_CONV || op == RLX_OP_CONV_QUANTISED;
}

/* Where a conv has its residual. */
static inline uint32_t rlx_block_residual_at(rlx_op op) {
    return op == RLX_OP_CONV ? 3 : 5;
}

static inline rlx_value_id rlx_block_input(const rlx_node *node, uint32_t index) {
    return index < node->input_count ? node->inputs[index] : RLX_NONE;
}

/* Whether a node passes on what its users want of its output. */
bool rlx_block_is_neutral(const rlx_node *node);
bool rlx_block_conv_of(const rlx_blocker *self, const rlx_node *node, rlx_block_conv *conv);
bool rlx_block_conv_is_narrow(const rlx_blocker *self, const rlx_block_conv *conv);
/* Whether there are kernels for it in blocks that it has use of. */
bool rlx_block_conv_fits(const rlx_blocker *self, const rlx_block_conv *conv);
double rlx_block_bytes(const rlx_blocker *self, rlx_value_id value);
double rlx_block_flops(const rlx_blocker *self, const rlx_block_conv *conv);
double rlx_block_flops_per_second(const rlx_blocker *self); /* of one thread */
/* Fills is_plain. */
RLX_WARN_UNUSED rlx_status rlx_block_find_plain(rlx_blocker *self);

#endif
