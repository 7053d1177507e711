/* SPDX-License-Identifier: Apache-2.0 */
/* Convs as block_channels.c sees them, and the chains of them that stay plain. Some kinds have
 * kernels for planes that are nearly as fast as those for blocks: those of one tap, depthwise ones,
 * and groups narrower than a block. A chain is what such convs and all that passes blocks on hold
 * together. It stays plain where no other conv wants or gives blocks, and its convs lose less on
 * planes than the conversions at its ends would take. */
#include "compile/block_conv.h"

bool rlx_block_conv_of(const rlx_blocker *self, const rlx_node *node, rlx_block_conv *facts) {
    const rlx_conv_attrs *attrs = node->attrs;
    *facts = (rlx_block_conv){.x = node->inputs[0],
                              .w = node->inputs[1],
                              .residual = rlx_block_input(node, rlx_block_residual_at(node->op)),
                              .y = node->outputs[0],
                              .groups = attrs->groups == 0 ? 1 : attrs->groups,
                              .is_quantised = node->op == RLX_OP_CONV_QUANTISED};
    const rlx_type *w = rlx_blocker_type(self, facts->w);
    rlx_value_id bias = rlx_block_input(node, 2);
    if (attrs->channel_block != 0 || !rlx_blocker_is_image(self, facts->x) ||
        !rlx_blocker_is_image(self, facts->y) || !rlx_blocker_is_exact(w)) {
        return false;
    }
    if (!facts->is_quantised &&
        (w->dtype != RLX_DTYPE_F32 || rlx_blocker_type(self, facts->x)->dtype != RLX_DTYPE_F32 ||
         (bias != RLX_NONE && rlx_blocker_type(self, bias)->dtype != RLX_DTYPE_F32))) {
        return false;
    }
    facts->taps = 1;
    for (uint32_t i = 2; i < w->shape.rank; i++)
        facts->taps *= w->shape.dims[i];
    facts->in = w->shape.dims[1];
    facts->out = w->shape.dims[0] / facts->groups;
    facts->is_depthwise = facts->groups > 1 && facts->in == 1 && facts->out == 1;
    facts->is_first = facts->groups == 1 && facts->in < self->block;
    return true;
}

bool rlx_block_conv_is_narrow(const rlx_blocker *self, const rlx_block_conv *facts) {
    return !facts->is_quantised &&
           rlx_conv_is_narrow(self->block, facts->in, facts->out, facts->groups);
}

/* Groups of whole blocks and panels, narrow ones, or of one channel; far fewer outputs than a block
 * has only where the inputs are in blocks already, or are many: on planes each of them is copied
 * once per tap, and few outputs have little use of it. */
bool rlx_block_conv_fits(const rlx_blocker *self, const rlx_block_conv *facts) {
    if (facts->is_depthwise) return facts->groups >= self->block;
    if (rlx_block_conv_is_narrow(self, facts)) return true;
    if (2 * facts->out < self->block)
        return facts->groups == 1 && !facts->is_quantised &&
               (rlx_blocker_twin(self, facts->x) != RLX_NONE ||
                (facts->in >= self->block && facts->taps > 1));
    return facts->groups == 1 ||
           (facts->in % self->block == 0 && facts->out % (2 * self->block) == 0);
}

double rlx_block_bytes(const rlx_blocker *self, rlx_value_id value) {
    uint64_t bytes = 0;
    if (value == RLX_NONE || rlx_type_bytes(rlx_blocker_type(self, value), &bytes) != RLX_OK)
        return 0;
    return (double)bytes;
}

double rlx_block_flops_per_second(const rlx_blocker *self) {
    const rlx_target *target = self->context->target;
    return (double)(target->flops_per_second / (target->workers == 0 ? 1 : target->workers));
}

double rlx_block_flops(const rlx_blocker *self, const rlx_block_conv *conv) {
    return rlx_block_bytes(self, conv->y) / 2 * (double)(conv->in * conv->taps);
}

/* Whether a node passes on what its users want of its output. */
bool rlx_block_is_neutral(const rlx_node *node) {
    return rlx_block_is_conv(node->op) || node->op == RLX_OP_MAX_POOL ||
           node->op == RLX_OP_AVERAGE_POOL || node->op == RLX_OP_CONCAT ||
           node->op == RLX_OP_SLICE || node->op == RLX_OP_PAD ||
           (rlx_op_info_of(node->op)->flags & RLX_OPF_ELEMENTWISE) != 0;
}

/* chains */

typedef struct chain {
    rlx_value_id up;    /* one nearer to the value that stands for all of the chain, or itself */
    double loss, saved; /* seconds of the target, which are long for both */
    bool is_blocked, is_end;
} chain;

static rlx_value_id root_of(chain *chains, rlx_value_id value) {
    while (chains[value].up != value)
        value = chains[value].up = chains[chains[value].up].up;
    return value;
}

static void join(chain *chains, rlx_value_id a, rlx_value_id b) {
    if (a == RLX_NONE || b == RLX_NONE) return;
    a = root_of(chains, a), b = root_of(chains, b);
    if (a == b) return;
    chains[a].up = b;
    chains[b].loss += chains[a].loss;
    chains[b].is_blocked |= chains[a].is_blocked;
}

/* What a conv loses on planes; below 0: it does not work there. Measured beside conversions on
 * AVX2: one tap takes a little longer, a depthwise conv twice as long and more in small images.
 * Planes have code of 32 bytes at most. */
static double loss_of(const rlx_blocker *self, const rlx_block_conv *conv) {
    enum { LEAST_PIXELS = 32, PLANES_BLOCK = 8 };
    const rlx_shape *x = &rlx_blocker_type(self, conv->x)->shape;
    const rlx_shape *y = &rlx_blocker_type(self, conv->y)->shape;
    const double time = rlx_block_flops(self, conv) / rlx_block_flops_per_second(self);
    int64_t pixels = 1;
    bool is_point = conv->taps == 1; /* and meets every pixel */
    bool is_strided = false;
    for (uint32_t i = 2; i < y->rank; i++) {
        pixels *= y->dims[i];
        is_point &= x->dims[i] == y->dims[i];
        is_strided |= x->dims[i] >= 2 * y->dims[i];
    }
    if (conv->is_quantised) return -1;
    if (conv->is_depthwise) return time * (4.3 + 1200 / (double)pixels) * (is_strided ? 2 : 1);
    if (self->block != PLANES_BLOCK || pixels < LEAST_PIXELS) return -1;
    if (is_point) return time / 3;
    return rlx_block_conv_is_narrow(self, conv) && conv->in != self->block ? 0 : -1;
}

/* No constant, which many chains may share. */
static bool is_image_of_run(const rlx_blocker *self, rlx_value_id value) {
    rlx_value_kind kind = self->graph->values.items[value].kind;
    return (kind == RLX_VALUE_INPUT || kind == RLX_VALUE_TEMPORARY) &&
           rlx_blocker_is_image(self, value);
}

/* Whether the node would work in blocks; joins what is of one chain by it. */
static bool join_node(const rlx_blocker *self, const rlx_node *node, chain *chains) {
    rlx_value_id y = node->outputs[0];
    rlx_block_conv conv;
    if (!rlx_block_is_neutral(node) || !rlx_blocker_is_image(self, y)) return false;
    if (!rlx_block_is_conv(node->op)) {
        for (uint32_t i = 0; i < node->input_count; i++) {
            rlx_value_id input = node->inputs[i];
            if (input != RLX_NONE && is_image_of_run(self, input)) join(chains, input, y);
        }
        return true;
    }
    if (!rlx_block_conv_of(self, node, &conv) || !rlx_block_conv_fits(self, &conv)) return false;
    const double loss = loss_of(self, &conv);
    if (loss < 0) {
        chains[root_of(chains, conv.x)].is_blocked = true;
        chains[root_of(chains, y)].is_blocked = true;
        return true;
    }
    join(chains, conv.x, y);
    join(chains, conv.residual, y);
    chains[root_of(chains, y)].loss += loss;
    return true;
}

static void find_ends(const rlx_blocker *self, chain *chains) {
    const rlx_graph *graph = self->graph;
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rlx_node *node = &graph->nodes.items[n];
        if (node->is_dead || node->output_count == 0 || node->outputs[0] == RLX_NONE) continue;
        if (join_node(self, node, chains)) continue;
        for (uint32_t i = 0; i < node->input_count; i++)
            if (node->inputs[i] != RLX_NONE) chains[node->inputs[i]].is_end = true;
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] != RLX_NONE) chains[node->outputs[i]].is_end = true;
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        chains[graph->outputs.items[i].value].is_end = true;
}

/* Channels that fill no blocks are padded on the way, which is another copy. */
rlx_status rlx_block_find_plain(rlx_blocker *self) {
    chain *chains = NULL;
    RLX_TRY(rlx_scratch_array(self->context->scratch, self->count + 1u, sizeof *chains,
                              (void **)&chains));
    for (uint32_t v = 0; v < self->count; v++)
        chains[v] = (chain){.up = v};
    find_ends(self, chains);
    for (uint32_t v = 0; v < self->count; v++) {
        bool is_given = self->graph->values.items[v].producer == RLX_NONE;
        if ((!chains[v].is_end && !is_given) || !is_image_of_run(self, v)) continue;
        chains[root_of(chains, v)].saved += (rlx_blocker_has_whole(self, v) ? 2 : 4) *
                                            rlx_block_bytes(self, v) /
                                            (double)self->context->target->bytes_per_second;
    }
    for (uint32_t v = 0; v < self->count; v++) {
        const chain *whole = &chains[root_of(chains, v)];
        self->is_plain[v] = !whole->is_blocked && whole->loss <= whole->saved;
    }
    return RLX_OK;
}
