/* SPDX-License-Identifier: Apache-2.0 */
/* Values with channels in blocks, [N][C / b][spatial..][b], and the nodes that make them: what
 * block_channels.c writes its rules with. */
#ifndef RLX_COMPILE_BLOCKER_H
#define RLX_COMPILE_BLOCKER_H

#include "compile/compile.h"

typedef struct rlx_blocker {
    rlx_pass_context *context;
    rlx_graph *graph;
    int64_t block;
    rlx_block_id body;     /* the block of the graph under way */
    uint32_t at;           /* the node under way, in the body's list */
    uint32_t count;        /* values there were at the start */
    rlx_value_id *blocked; /* per value: the same in blocks; RLX_NONE: there is none */
    uint8_t *feeds_conv;   /* per value: a conv takes it as x or residual */
    uint8_t *is_plain;     /* per value: of a chain that is faster on planes */
    uint8_t *is_wanted;    /* per value: a conv that needs blocks takes it, or what comes of it */
} rlx_blocker;

static inline const rlx_type *rlx_blocker_type(const rlx_blocker *self, rlx_value_id value) {
    return &self->graph->values.items[value].type;
}

static inline bool rlx_blocker_is_half(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F16 || dtype == RLX_DTYPE_BF16;
}

static inline bool rlx_blocker_has_whole(const rlx_blocker *self, rlx_value_id value) {
    return rlx_blocker_type(self, value)->shape.dims[1] % self->block == 0;
}

/* No axis is empty or known only at run time. */
bool rlx_blocker_is_exact(const rlx_type *type);
bool rlx_blocker_is_pixel(rlx_dtype dtype);
/* f32, f16, bf16 or quantised, [N][C] and one or two spatial axes, none empty, all known. */
bool rlx_blocker_is_image(const rlx_blocker *self, rlx_value_id value);
/* The value in blocks, if it was made in this body; RLX_NONE: there is none. */
rlx_value_id rlx_blocker_twin(const rlx_blocker *self, rlx_value_id value);
/* A node right before the one under way. `out_value` may be one of the inputs. */
RLX_WARN_UNUSED rlx_status rlx_blocker_put(rlx_blocker *self, rlx_op op, const void *attrs,
                                           const rlx_value_id *inputs, uint32_t input_count,
                                           const char *name, rlx_value_id *out_value);
RLX_WARN_UNUSED rlx_status rlx_blocker_reshape(rlx_blocker *self, rlx_value_id value,
                                               const int64_t *dims, uint32_t rank,
                                               rlx_value_id *out_value);
/* The value in blocks; converts it unless that was done before. */
RLX_WARN_UNUSED rlx_status rlx_blocker_convert(rlx_blocker *self, rlx_value_id value,
                                               rlx_value_id *out_value);
/* The node under way is no more; `op` on `input` makes its output from now on. */
RLX_WARN_UNUSED rlx_status rlx_blocker_take_over(rlx_blocker *self, rlx_node_id node, rlx_op op,
                                                 const void *attrs, rlx_value_id input);
/* `blocked` holds the output of the node under way: whoever wants it plain gets it from there. */
RLX_WARN_UNUSED rlx_status rlx_blocker_replace(rlx_blocker *self, rlx_node_id node,
                                               rlx_value_id blocked);
/* The name of the node's output with a mark, for profiles; NULL where that name is taken. */
const char *rlx_blocker_name(const rlx_blocker *self, rlx_node_id node, char *buffer, size_t bytes);
/* The same node on values in blocks, and what makes its output from now on. */
RLX_WARN_UNUSED rlx_status rlx_blocker_put_like(rlx_blocker *self, rlx_node_id node,
                                                const void *attrs, const rlx_value_id *inputs,
                                                uint32_t count);
/* slice, pad and reshape: the same in blocks where it moves pixels of what is in blocks already and
 * a conv wants it there. */
RLX_WARN_UNUSED rlx_status rlx_blocker_move(rlx_blocker *self, rlx_node_id node);

#endif
