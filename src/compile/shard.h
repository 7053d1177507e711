/* SPDX-License-Identifier: Apache-2.0 */
/* One model on several ranks: what the files of the sharding pass share. shard.c finds groups of
 * nodes that can be split, shard_rules.c says per op what a split operand means for the others,
 * shard_attrs.c what it means for sizes in attributes, shard_weights.c cuts weights, shard_apply.c
 * rewrites the graph. */
#ifndef RLX_COMPILE_SHARD_H
#define RLX_COMPILE_SHARD_H

#include "compile/lower.h"

enum { RLX_SHARD_SEGMENTS = 8, RLX_SHARD_OPERANDS = 16, RLX_SHARD_REASON = 160 };

/* How a value is split: along one axis, whose elements are one or several segments behind each
 * other (q, k and v of one product). Each segment is split alike: of `units` equal units each rank
 * has some, and keeps the parts of all segments behind each other. */
typedef struct rlx_shard_label {
    uint32_t axis; /* RLX_NONE: not split, the same on every rank */
    uint32_t segment_count;
    int64_t segments[RLX_SHARD_SEGMENTS]; /* elements */
} rlx_shard_label;

/* Nodes that are split together, from the products that make the split values to those that sum
 * over them. */
typedef struct rlx_shard_group {
    int64_t units;        /* every segment of every label is a multiple of it */
    int64_t most;         /* units of the rank that has most: what memory is planned for */
    int64_t first, count; /* units of this rank */
    int64_t granule;      /* units come in so many at once, but for the last */
    rlx_node_id seed;
    uint32_t sinks;
    bool is_masked;        /* its sums read zeros beyond this rank's part */
    uint64_t weight_bytes; /* of the split weights, whole */
} rlx_shard_group;

typedef struct rlx_sharder {
    rlx_pass_context *context;
    rlx_graph *graph;
    uint32_t rank, rank_count;
    uint32_t value_count, node_count; /* of the beginning */
    uint8_t *is_prepared;             /* per value */
    uint8_t *is_kept;                 /* per value: an output or a yield, so it stays whole */
    uint32_t *uses_at, *uses;         /* per value: the nodes that read it */
    rlx_shard_label *labels;          /* per value */
    uint32_t *value_group;            /* per value with a label */
    uint32_t *node_group;             /* per node; RLX_NONE: runs whole on every rank */
    uint8_t *is_sink;                 /* per node: sums over the split axis */
    RLX_VEC(rlx_shard_group) groups;
    /* Of the group that is being looked at. */
    rlx_value_id *touched;
    rlx_node_id *visited, *queue;
    uint32_t touched_count, visited_count, queue_count;
    uint8_t *is_queued;
    char reason[RLX_SHARD_REASON]; /* why it cannot be split */
} rlx_sharder;

/* The labels of one node's operands. */
typedef struct rlx_shard_node {
    rlx_shard_label in[RLX_SHARD_OPERANDS], out[RLX_SHARD_OPERANDS];
    bool is_sink;   /* output 0 is a part of a sum */
    bool is_source; /* a product that makes a split value of a whole one */
} rlx_shard_node;

static inline bool rlx_shard_is_split(const rlx_shard_label *label) {
    return label->axis != RLX_NONE;
}
/* Whether an axis of an attribute, from the end where negative, is the one that is meant. */
static inline bool rlx_shard_is_axis(int64_t axis, uint32_t rank, uint32_t wanted) {
    return (axis < 0 ? axis + (int64_t)rank : axis) == (int64_t)wanted;
}

/* Completes the labels of a node from those that its operands have. False, with the reason: it
 * cannot work on split operands like these. */
bool rlx_shard_rule(rlx_sharder *self, rlx_node_id node, rlx_shard_node *out_node);
/* Attributes that hold a size of the split axis, for the planned part. */
RLX_WARN_UNUSED rlx_status rlx_shard_attrs(rlx_sharder *self, rlx_node_id node,
                                           const rlx_shard_node *labels,
                                           const rlx_shard_group *group);
/* Elements of the split axis that memory is planned for. */
int64_t rlx_shard_extent(const rlx_shard_label *label, const rlx_shard_group *group);
bool rlx_shard_label_equal(const rlx_shard_label *a, const rlx_shard_label *b);

/* This rank's part of a weight. */
RLX_WARN_UNUSED rlx_status rlx_shard_weight(rlx_sharder *self, rlx_value_id weight,
                                            const rlx_shard_label *label,
                                            const rlx_shard_group *group, rlx_value_id *out_value);

/* shard_fill.c: whether some rank's part is smaller than what is planned, and filled up; */
bool rlx_shard_is_filled(const rlx_sharder *self, const rlx_shard_group *group);
/* whether a node of such a group may make infinities of zeros, or cannot run on them at all; */
bool rlx_shard_needs_mask(const rlx_sharder *self, rlx_node_id node, bool is_sink);
bool rlx_shard_may_fault(const rlx_sharder *self, rlx_node_id node, const rlx_shard_node *labels);
/* and the zeros that a sum reads beyond this rank's part. `position` is the sink's in its block. */
RLX_WARN_UNUSED rlx_status rlx_shard_mask(rlx_sharder *self, rlx_node_id sink, uint32_t position);

/* Rewrites the graph by the labels. */
RLX_WARN_UNUSED rlx_status rlx_shard_apply(rlx_sharder *self);

/* For reports. */
RLX_WARN_UNUSED rlx_status rlx_shard_report(rlx_sharder *self, char *const *reasons);

static inline const rlx_type *rlx_shard_type(const rlx_sharder *self, rlx_value_id value) {
    return &self->graph->values.items[value].type;
}

#endif
