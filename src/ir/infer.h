/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules. A rule sees the input types with every dim known (a number >= 0), and writes the
 * output types; extents of the outputs start as RLX_NONE and a rule carries along what it can. A
 * rule that cannot carry an extent it would need to fails with RLX_UNSUPPORTED. */
#ifndef RLX_IR_INFER_H
#define RLX_IR_INFER_H

#include "ir/op.h"
#include "ir/type.h"

struct rlx_node;

typedef struct rlx_infer {
    const struct rlx_graph *graph; /* control flow only: its blocks; else may be NULL */
    const struct rlx_node *node;   /* control flow only */
    const rlx_value_id *in_ids;    /* for rules that make an input the extent of an output */
    const rlx_value_id *out_ids;   /* for rules whose outputs are extents of others */
    rlx_op op;
    const void *attrs;
    uint32_t in_count, out_count;
    const rlx_type *const *in; /* NULL entries: absent */
    rlx_type *out;             /* out_count of them */
} rlx_infer;

/* Runs the op's rule, once every input is in a layout that the op takes. */
RLX_WARN_UNUSED rlx_status rlx_infer_types(rlx_infer *infer);

/* Helpers for rules. */
static inline bool rlx_infer_has(const rlx_infer *infer, uint32_t input) {
    return input < infer->in_count && infer->in[input] != NULL;
}
/* axis in [-rank, rank) to [0, rank); RLX_INVALID_GRAPH with the numbers otherwise. */
RLX_WARN_UNUSED rlx_status rlx_infer_axis(int64_t axis, uint32_t rank, uint32_t *out_axis);
/* Numpy broadcasting of dims and extents (a dim of 1 takes the other's extent). */
RLX_WARN_UNUSED rlx_status rlx_infer_broadcast(const rlx_type *a, const rlx_type *b,
                                               rlx_type *out_type);
/* Fails with RLX_UNSUPPORTED when any dim of the input has an extent. */
RLX_WARN_UNUSED rlx_status rlx_infer_no_extent(const rlx_infer *infer, uint32_t input);
bool rlx_dtype_is_float(rlx_dtype dtype);   /* f64 .. f8 */
bool rlx_dtype_is_integer(rlx_dtype dtype); /* signed or unsigned, not bool */

/* One rule per family of ops.def. */
/* clang-format off */
#define RLX_RULES(X)                                                                              \
    X(unary) X(logical_unary) X(predicate) X(cast) X(binary) X(power) X(logical) X(compare)       \
    X(where) X(chain) X(matmul) X(conv) X(conv_quantised) X(pool) X(reduce) X(arg) X(top_k)       \
    X(cumsum) X(softmax)                                                                          \
    X(norm) X(channel_norm) X(attention) X(rope) X(gather) X(gather_elements) X(gather_nd)        \
    X(scatter) X(slice) X(concat) X(split) X(pad) X(transpose) X(reshape) X(squeeze) X(expand)    \
    X(tile) X(nonzero) X(limit) X(state_write) X(flow) X(recurrent) X(pack) X(collective)      \
    X(nms) X(roi_align) X(unique) X(gather_sum)
/* clang-format on */
#define X(family) RLX_WARN_UNUSED rlx_status rlx_infer_##family(rlx_infer *infer);
RLX_RULES(X)
#undef X

#endif
