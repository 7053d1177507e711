/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding: one model on several ranks. For every product with a weight that sums over an axis the
 * pass asks whether that axis can be split: the labels of shard_rules.c are spread from there
 * through the graph, backwards to the products that make the axis (their weights are split by
 * columns) and forwards to all that sum over it (split by rows, and summed by an all_reduce). What
 * they reach is a group: a gated MLP, or attention with its heads and K/V states. A group that
 * meets something that cannot be split stays whole on every rank. Found by structure alone; the
 * rule and what it leaves out: docs/decisions, one-model-on-many-ranks. */
#include "compile/shard.h"

#include <stdio.h>
#include <string.h>

static bool is_product(const rlx_sharder *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    return !node->is_dead && node->op == RLX_OP_MATMUL && node->block == 0 &&
           node->inputs[1] != RLX_NONE && self->is_prepared[node->inputs[1]] &&
           !self->is_prepared[node->outputs[0]];
}

static void enqueue(rlx_sharder *self, rlx_node_id node) {
    if (self->is_queued[node]) return;
    self->is_queued[node] = 1;
    self->queue[self->queue_count++] = node;
}

static bool refuse(rlx_sharder *self, const char *why, rlx_value_id value) {
    snprintf(self->reason, sizeof self->reason, "'%.80s' %s", self->graph->values.items[value].name,
             why);
    return false;
}

/* Gives a value a label, or checks that it has that one. All its neighbours are asked again. */
static bool set_label(rlx_sharder *self, rlx_value_id value, const rlx_shard_label *label) {
    const rlx_value *row = &self->graph->values.items[value];
    rlx_shard_label *current = &self->labels[value];
    if (rlx_shard_label_equal(current, label)) return true;
    if (current->axis != RLX_NONE) return refuse(self, "would be split in two ways", value);
    if (row->kind == RLX_VALUE_INPUT) return refuse(self, "is an input", value);
    if (self->is_kept[value]) return refuse(self, "is an output", value);
    if (row->kind == RLX_VALUE_TEMPORARY && row->producer == RLX_NONE) {
        return refuse(self, "belongs to control flow", value);
    }
    if (row->type.extents[label->axis] != RLX_NONE) {
        return refuse(self, "has a size that only a run knows", value);
    }
    *current = *label;
    self->touched[self->touched_count++] = value;
    if (row->producer != RLX_NONE) enqueue(self, row->producer);
    for (uint32_t i = self->uses_at[value]; i < self->uses_at[value + 1]; i++)
        enqueue(self, self->uses[i]);
    return true;
}

/* One node of the group: what its rule says about its operands. */
static bool visit(rlx_sharder *self, rlx_node_id id, rlx_shard_node *labels) {
    const rlx_node *node = &self->graph->nodes.items[id];
    if (self->node_group[id] != RLX_NONE) {
        return refuse(self, "is split in another group", node->outputs[0]);
    }
    if (!rlx_shard_rule(self, id, labels)) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] == RLX_NONE || self->is_prepared[node->inputs[i]]) continue;
        if (!set_label(self, node->inputs[i], &labels->in[i])) return false;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == RLX_NONE) continue;
        if (!set_label(self, node->outputs[i], &labels->out[i])) return false;
    }
    return true;
}

static int64_t gcd(int64_t a, int64_t b) {
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void join_units(rlx_shard_group *group, const rlx_shard_label *label) {
    for (uint32_t i = 0; label->axis != RLX_NONE && i < label->segment_count; i++)
        group->units = gcd(label->segments[i], group->units);
}

/* Blocks of a weight stay whole: how many units have to stay together. */
static void join_blocks(const rlx_sharder *self, rlx_shard_group *group, rlx_value_id weight,
                        const rlx_shard_label *label) {
    const rlx_type *type = rlx_shard_type(self, weight);
    int64_t block = (int64_t)rlx_dtype_block_elements(type->dtype);
    if (label->axis + 1 != type->shape.rank) return;
    for (uint32_t i = 0; i < label->segment_count; i++) {
        int64_t unit = label->segments[i] / group->units;
        int64_t together = block / gcd(block, unit);
        group->granule = group->granule / gcd(group->granule, together) * together;
    }
}

enum { COLUMNS = 16 }; /* of a wide axis go together, so that kernels get whole vectors */

/* Who gets how many units: as even as can be, the first ranks the larger parts. */
static void share_units(const rlx_sharder *self, rlx_shard_group *group) {
    int64_t ranks = (int64_t)self->rank_count, rank = (int64_t)self->rank;
    if (group->units >= COLUMNS * ranks && group->granule < COLUMNS) {
        group->granule = group->granule / gcd(group->granule, COLUMNS) * COLUMNS;
    }
    int64_t pieces = (group->units + group->granule - 1) / group->granule;
    int64_t each = pieces / ranks, more = pieces % ranks;
    int64_t first = (rank * each + (rank < more ? rank : more)) * group->granule;
    int64_t end = first + (each + (rank < more)) * group->granule;
    int64_t most = (each + (more != 0)) * group->granule;
    group->first = first < group->units ? first : group->units;
    group->count = (end < group->units ? end : group->units) - group->first;
    group->most = most < group->units ? most : group->units;
}

static uint64_t bytes_of(const rlx_sharder *self, rlx_value_id value) {
    uint64_t bytes = 0;
    return rlx_type_bytes(rlx_shard_type(self, value), &bytes) == RLX_OK ? bytes : 0;
}

/* Some rank computes on zeros: which is no number must not get into a sum, and what faults there
 * cannot be split. */
static bool check_filled(rlx_sharder *self, rlx_shard_group *group) {
    rlx_shard_node labels;
    for (uint32_t n = 0; n < self->visited_count; n++) {
        rlx_node_id id = self->visited[n];
        rlx_value_id y = self->graph->nodes.items[id].outputs[0];
        if (!rlx_shard_rule(self, id, &labels)) return false;
        if (rlx_shard_may_fault(self, id, &labels)) {
            return refuse(self, "divides integers, and parts are filled up with 0", y);
        }
        if (rlx_shard_needs_mask(self, id, labels.is_sink)) group->is_masked = true;
    }
    return true;
}

/* Adds up what the group is, once its labels are complete. */
static bool measure(rlx_sharder *self, rlx_shard_group *group) {
    uint32_t sources = 0;
    rlx_shard_node labels;
    for (uint32_t n = 0; n < self->visited_count; n++) {
        const rlx_node *node = &self->graph->nodes.items[self->visited[n]];
        if (!rlx_shard_rule(self, self->visited[n], &labels)) return false;
        sources += labels.is_source;
        group->sinks += labels.is_sink;
        for (uint32_t i = 0; i < node->input_count; i++)
            join_units(group, &labels.in[i]);
        for (uint32_t i = 0; i < node->output_count; i++)
            join_units(group, &labels.out[i]);
    }
    if (sources == 0) return refuse(self, "is split by no product", self->touched[0]);
    if (group->units < 2) return refuse(self, "cannot be cut into equal units", self->touched[0]);
    for (uint32_t n = 0; n < self->visited_count; n++) {
        const rlx_node *node = &self->graph->nodes.items[self->visited[n]];
        if (!rlx_shard_rule(self, self->visited[n], &labels)) return false;
        for (uint32_t i = 0; i < node->input_count; i++) {
            rlx_value_id input = node->inputs[i];
            if (labels.in[i].axis == RLX_NONE || !self->is_prepared[input]) continue;
            join_blocks(self, group, input, &labels.in[i]);
            group->weight_bytes += bytes_of(self, input);
        }
    }
    share_units(self, group);
    if (group->most == group->units) {
        return refuse(self, "has blocks too large to share", self->touched[0]);
    }
    return !rlx_shard_is_filled(self, group) || check_filled(self, group);
}

static void forget(rlx_sharder *self) {
    for (uint32_t i = 0; i < self->touched_count; i++)
        self->labels[self->touched[i]].axis = RLX_NONE;
}

/* Spreads labels until nothing changes. A node that gets a new label is asked again. */
static bool spread(rlx_sharder *self) {
    rlx_shard_node labels;
    for (uint32_t n = 0; n < self->queue_count; n++) {
        rlx_node_id id = self->queue[n];
        if (!visit(self, id, &labels)) return false;
    }
    for (uint32_t n = 0; n < self->queue_count; n++) {
        uint32_t before = self->touched_count;
        if (!visit(self, self->queue[n], &labels)) return false;
        if (self->touched_count != before) n = UINT32_MAX; /* from the first again */
    }
    return true;
}

/* Tries to split what `seed` sums over. */
static rlx_status try_group(rlx_sharder *self, rlx_node_id seed) {
    const rlx_node *node = &self->graph->nodes.items[seed];
    const rlx_matmul_attrs *attrs = node->attrs;
    rlx_value_id x = node->inputs[0];
    const rlx_shape *shape = &rlx_shard_type(self, x)->shape;
    rlx_shard_group group = {.granule = 1, .seed = seed};
    self->touched_count = self->visited_count = self->queue_count = 0;
    self->reason[0] = 0;
    if (shape->rank < 2 || self->is_prepared[x]) return RLX_OK;
    rlx_shard_label label = {.segment_count = 1};
    label.axis = attrs->transpose_a ? shape->rank - 2 : shape->rank - 1;
    label.segments[0] = shape->dims[label.axis];
    bool is_good = label.segments[0] > 1 && set_label(self, x, &label) && spread(self);
    self->visited_count = self->queue_count;
    for (uint32_t i = 0; i < self->visited_count; i++) {
        self->visited[i] = self->queue[i];
        self->is_queued[self->queue[i]] = 0;
    }
    if (!is_good || !measure(self, &group)) {
        forget(self);
        return RLX_OK;
    }
    for (uint32_t i = 0; i < self->visited_count; i++)
        self->node_group[self->visited[i]] = self->groups.count;
    for (uint32_t i = 0; i < self->touched_count; i++)
        self->value_group[self->touched[i]] = self->groups.count;
    return rlx_vec_push(self->graph->allocator, &self->groups, group);
}

static void count_uses(rlx_sharder *self) {
    const rlx_graph *graph = self->graph;
    for (uint32_t n = 0; n < self->node_count; n++) {
        const rlx_node *node = &graph->nodes.items[n];
        for (uint32_t i = 0; !node->is_dead && i < node->input_count; i++) {
            if (node->inputs[i] != RLX_NONE) self->uses_at[node->inputs[i] + 1]++;
        }
    }
    for (uint32_t v = 0; v < self->value_count; v++)
        self->uses_at[v + 1] += self->uses_at[v];
}

static void list_uses(rlx_sharder *self, uint32_t *next) {
    const rlx_graph *graph = self->graph;
    for (uint32_t v = 0; v < self->value_count; v++)
        next[v] = self->uses_at[v];
    for (uint32_t n = 0; n < self->node_count; n++) {
        const rlx_node *node = &graph->nodes.items[n];
        for (uint32_t i = 0; !node->is_dead && i < node->input_count; i++) {
            if (node->inputs[i] != RLX_NONE) self->uses[next[node->inputs[i]]++] = n;
        }
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        self->is_kept[graph->outputs.items[i].value] = 1;
    for (uint32_t b = 0; b < graph->blocks.count; b++) {
        for (uint32_t i = 0; i < graph->blocks.items[b].yield_count; i++)
            self->is_kept[graph->blocks.items[b].yields[i]] = 1;
    }
}

static rlx_status begin(rlx_sharder *self) {
    rlx_scratch *scratch = self->context->scratch;
    uint64_t values = self->value_count + 2u, nodes = self->node_count + 1u;
    uint32_t *next = NULL;
    RLX_TRY(rlx_scratch_array(scratch, values, 1, (void **)&self->is_prepared));
    RLX_TRY(rlx_scratch_array(scratch, values, 1, (void **)&self->is_kept));
    RLX_TRY(rlx_scratch_array(scratch, values, sizeof *next, (void **)&self->uses_at));
    RLX_TRY(rlx_scratch_array(scratch, values, sizeof *next, (void **)&next));
    RLX_TRY(rlx_scratch_array(scratch, values, sizeof *self->labels, (void **)&self->labels));
    RLX_TRY(rlx_scratch_array(scratch, values, sizeof *next, (void **)&self->value_group));
    RLX_TRY(rlx_scratch_array(scratch, values, sizeof *next, (void **)&self->touched));
    RLX_TRY(rlx_scratch_array(scratch, nodes, sizeof *next, (void **)&self->node_group));
    RLX_TRY(rlx_scratch_array(scratch, nodes, sizeof *next, (void **)&self->visited));
    RLX_TRY(rlx_scratch_array(scratch, nodes, sizeof *next, (void **)&self->queue));
    RLX_TRY(rlx_scratch_array(scratch, nodes, 1, (void **)&self->is_queued));
    count_uses(self);
    RLX_TRY(rlx_scratch_array(scratch, self->uses_at[self->value_count] + 1u, sizeof *next,
                              (void **)&self->uses));
    list_uses(self, next);
    for (uint32_t v = 0; v < self->value_count; v++)
        self->labels[v].axis = self->value_group[v] = RLX_NONE;
    for (uint32_t n = 0; n < self->node_count; n++)
        self->node_group[n] = RLX_NONE;
    const rlx_block *block = &self->graph->blocks.items[0];
    rlx_mark_prepared(self->graph, block->nodes.items, block->nodes.count, self->is_prepared);
    return RLX_OK;
}

/* In the order of the block, so that of a row of products the first two make a pair. */
static rlx_status find_groups(rlx_sharder *self, char **reasons) {
    for (uint32_t i = 0; i < self->graph->blocks.items[0].nodes.count; i++) {
        rlx_node_id id = self->graph->blocks.items[0].nodes.items[i];
        if (!is_product(self, id) || self->node_group[id] != RLX_NONE) continue;
        RLX_TRY(try_group(self, id));
        if (self->node_group[id] != RLX_NONE) continue;
        size_t bytes = strlen(self->reason) + 1;
        RLX_TRY(rlx_scratch_alloc(self->context->scratch, bytes, (void **)&reasons[id]));
        memcpy(reasons[id], self->reason, bytes);
    }
    return RLX_OK;
}

rlx_status rlx_pass_shard(rlx_pass_context *context) {
    rlx_graph *graph = context->graph;
    rlx_sharder self = {.context = context,
                        .graph = graph,
                        .rank = context->options->rank,
                        .rank_count = context->options->rank_count,
                        .value_count = graph->values.count,
                        .node_count = graph->nodes.count};
    char **reasons = NULL;
    if (self.rank_count <= 1) return RLX_OK;
    RLX_TRY(begin(&self));
    RLX_TRY(rlx_scratch_array(context->scratch, self.node_count + 1u, sizeof *reasons,
                              (void **)&reasons));
    rlx_status status = find_groups(&self, reasons);
    if (status == RLX_OK) status = rlx_shard_report(&self, reasons);
    if (status == RLX_OK) status = rlx_shard_apply(&self);
    rlx_vec_free(graph->allocator, &self.groups);
    return status;
}
