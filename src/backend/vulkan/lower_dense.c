/* SPDX-License-Identifier: Apache-2.0 */
/* matmul, conv, conv_transpose and pools as dispatches. The layouts of their records stand at the
 * top of the shaders. */
#include "backend/vulkan/lower.h"
#include "ir/dtype.h"
#include "ir/window.h"

#include <string.h>

enum { OUTPUT = 10, SECOND_OUTPUT = 9, BATCH_AXES = 6 };

static bool is_there(const rlx_vk_lowering *self, uint32_t input) {
    return input < self->query->in_count && self->query->in[input].data != NULL;
}

/* One operand of a matmul: base, strides of its two axes and of the batch. */
static void set_matrix(rlx_vk_lowering *self, uint32_t number, uint32_t operand, int64_t first,
                       int64_t second, const int64_t *batch, uint32_t batch_rank) {
    uint32_t at = 19 + 8 * number;
    rlx_vk_set_base(self, 11 + number, operand, 0);
    rlx_vk_set(self, at, first);
    rlx_vk_set(self, at + 1, second);
    rlx_vk_set_all(self, at + 2, batch, batch_rank);
}

/* Something broadcast to the output: its strides cut into batch, row and column. */
static void set_like_output(rlx_vk_lowering *self, uint32_t number, uint32_t operand, bool has_m,
                            bool has_n) {
    uint32_t rank = self->query->out[0].rank;
    int64_t strides[RLX_MAX_RANK], m, n;
    rlx_vk_broadcast(rlx_vk_operand(self, operand), rank, strides);
    n = has_n ? strides[--rank] : 0;
    m = has_m ? strides[--rank] : 0;
    set_matrix(self, number, operand, m, n, strides, rank);
}

/* a or b: the strides of axis `row` and `column`, counted from the last two. */
static void set_factor(rlx_vk_lowering *self, uint32_t number, uint32_t operand, bool is_turned,
                       uint32_t batch_rank) {
    rlx_tensor tensor = *rlx_vk_operand(self, operand);
    int64_t batch[RLX_MAX_RANK] = {0}, row, column;
    uint32_t rank = tensor.rank;
    row = rank < 2 ? 0 : tensor.strides[rank - (is_turned ? 1 : 2)];
    column = rank < 2 ? tensor.strides[0] : tensor.strides[rank - (is_turned ? 2 : 1)];
    if (rank == 1 && operand == 1) { /* a column */
        row = tensor.strides[0];
        column = 0;
    }
    tensor.rank = rank > 2 ? rank - 2 : 0;
    rlx_vk_broadcast(&tensor, batch_rank, batch);
    set_matrix(self, number, operand, row, column, batch, batch_rank);
    rlx_vk_bind(self, operand + 1, operand, false);
}

static void set_sizes(rlx_vk_lowering *self, const rlx_matmul_attrs *attrs, uint32_t batch_rank) {
    const rlx_target_query *query = self->query;
    const rlx_tensor *a = &query->in[0], *b = &query->in[1];
    uint32_t output = query->in_count;
    bool has_m = a->rank > 1, has_n = b->rank > 1;
    rlx_vk_set(self, 1, batch_rank);
    for (uint32_t i = 0; i < batch_rank; i++)
        rlx_vk_set_dim(self, 2 + i, output, i);
    rlx_vk_set(self, 8, 1);
    rlx_vk_set(self, 9, 1);
    if (has_m) rlx_vk_set_dim(self, 8, output, batch_rank);
    if (has_n) rlx_vk_set_dim(self, 9, output, batch_rank + (has_m ? 1 : 0));
    /* The inner dim: where both have an extent they agree. */
    rlx_vk_set_dim(self, 10, 0, has_m && attrs->transpose_a ? a->rank - 2 : a->rank - 1);
}

static bool are_fours(const int64_t *strides, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (strides[i] % 4 != 0) return false;
    }
    return true;
}

/* Rows of 128-bit words: a [..][m][k], y [..][m][n], and b by rows or by columns. */
static bool is_in_fours(const rlx_vk_lowering *self, const rlx_matmul_attrs *attrs) {
    const rlx_target_query *query = self->query;
    const rlx_tensor *a = &query->in[0], *b = &query->in[1], *y = &query->out[0];
    uint64_t used = 3 | UINT64_C(1) << query->in_count;
    if (self->caps->is_plain || a->dtype != RLX_DTYPE_F32 || b->dtype != RLX_DTYPE_F32 ||
        y->dtype != RLX_DTYPE_F32 || a->rank < 2 || b->rank < 2 || attrs->transpose_a ||
        (self->unaligned & used) != 0) {
        return false;
    }
    if (query->extents != NULL && (query->extents[0] >> (a->rank - 1) & 1) != 0) return false;
    if (query->extents != NULL && query->extents[1] != 0) return false;
    return a->dims[a->rank - 1] % 4 == 0 && a->strides[a->rank - 1] == 1 &&
           y->strides[y->rank - 1] == 1 && b->strides[b->rank - 1] == 1 &&
           are_fours(a->strides, a->rank - 1) && are_fours(b->strides, b->rank - 1) &&
           are_fours(y->strides, y->rank - 1) && y->dims[y->rank - 1] % 4 == 0;
}

/* Software: a load is a loop over lanes, so that lanes share what they load. Measured on lavapipe:
 * half the time of the best matmul_vec4 or less. */
static bool is_shared_by_lanes(const rlx_vk_lowering *self, const rlx_matmul_attrs *attrs) {
    const rlx_vk_caps *caps = self->caps;
    const rlx_tensor *y = &self->query->out[0];
    uint32_t lanes = caps->subgroup_lanes;
    return caps->is_software && caps->has_broadcast && lanes >= 4 && lanes <= 16 &&
           16 % lanes == 0 && !attrs->transpose_b && y->dims[y->rank - 2] >= 8;
}

static uint64_t share_by_lanes(rlx_vk_lowering *self) {
    const rlx_tensor *y = &self->query->out[0];
    int64_t m = y->dims[y->rank - 2], rows = m >= 16 ? 16 : 8, tiles;
    self->now.shader = RLX_VK_MATMUL_LANES;
    self->now.constants[4] = (uint32_t)rows;
    self->now.constants[5] = self->caps->subgroup_lanes;
    tiles = (m + rows - 1) / rows * ((y->dims[y->rank - 1] / 4 + 15) / 16 * 16);
    for (uint32_t i = 0; i + 2 < y->rank; i++)
        tiles *= y->dims[i];
    return rlx_vk_groups(tiles);
}

/* GPUs: tiles in shared memory, where they are not mostly empty. */
static bool is_tiled(const rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_tensor *a = &query->in[0], *b = &query->in[1], *y = &query->out[0];
    return !self->caps->is_software && !self->caps->is_plain && rlx_vk_is_float(a->dtype) &&
           a->dtype != RLX_DTYPE_F64 && a->rank >= 2 && b->rank >= 2 &&
           y->dims[y->rank - 2] >= 16 && y->dims[y->rank - 1] >= 16;
}

static uint64_t choose_tiles(rlx_vk_lowering *self, const rlx_matmul_attrs *attrs) {
    enum { SIDE = 32 };
    const rlx_tensor *y = &self->query->out[0];
    int64_t m = y->dims[y->rank - 2], n = y->dims[y->rank - 1];
    int64_t tiles = (m + SIDE - 1) / SIDE * ((n + SIDE - 1) / SIDE);
    self->now.shader = RLX_VK_MATMUL_TILE;
    self->now.constants[3] = attrs->transpose_b;
    for (uint32_t i = 0; i + 2 < y->rank; i++)
        tiles *= y->dims[i];
    return (uint64_t)tiles;
}

/* Rows and vectors of columns per lane: as many as registers hold. Measured on lavapipe; GPUs want
 * more lanes with fewer registers each. */
static uint64_t choose_variant(rlx_vk_lowering *self, const rlx_matmul_attrs *attrs) {
    const rlx_tensor *y = &self->query->out[0];
    bool is_cpu = self->caps->is_software;
    int64_t m = y->dims[y->rank - 2], n = y->dims[y->rank - 1], rows, vectors = 1, tiles;
    if (is_shared_by_lanes(self, attrs)) return share_by_lanes(self);
    self->now.shader = RLX_VK_MATMUL_VEC4;
    rows = m < 4 ? m : 4;
    if (!attrs->transpose_b && is_cpu && n % 8 == 0) vectors = 2;
    if (!attrs->transpose_b && is_cpu && m >= 8) rows = 8;
    self->now.constants[3] = attrs->transpose_b;
    self->now.constants[4] = (uint32_t)rows;
    self->now.constants[5] = (uint32_t)vectors;
    tiles = (m + rows - 1) / (rows == 0 ? 1 : rows) * (n / (4 * vectors));
    for (uint32_t i = 0; i + 2 < y->rank; i++)
        tiles *= y->dims[i];
    return rlx_vk_groups(tiles);
}

/* What matmul.comp computes in f64. */
static bool is_f64_activation(rlx_op op) {
    return op == RLX_OP_NONE || op == RLX_OP_IDENTITY || op == RLX_OP_ABS || op == RLX_OP_NEG ||
           op == RLX_OP_TANH || op == RLX_OP_SIGMOID || op == RLX_OP_RELU;
}

void rlx_vk_lower_matmul(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_matmul_attrs *attrs = query->attrs;
    const rlx_tensor *y = &query->out[0];
    bool has_m = query->in[0].rank > 1, has_n = query->in[1].rank > 1;
    uint32_t output = query->in_count;
    uint32_t batch_rank = y->rank - (has_m ? 1u : 0u) - (has_n ? 1u : 0u);
    if (batch_rank > BATCH_AXES) RLX_VK_REFUSE(self, "more than 6 batch axes");
    rlx_vk_begin(self, RLX_VK_MATMUL);
    set_sizes(self, attrs, batch_rank);
    set_like_output(self, 0, output, has_m, has_n);
    set_factor(self, 1, 0, has_m && attrs->transpose_a, batch_rank);
    set_factor(self, 2, 1, has_n && attrs->transpose_b, batch_rank);
    for (uint32_t i = 2; i < 4; i++) {
        if (!is_there(self, i)) continue;
        set_like_output(self, i + 1, i, has_m, has_n);
        rlx_vk_bind(self, i + 1, i, false);
        self->now.constants[1] |= i - 1;
    }
    if (attrs->gated && is_there(self, 3)) self->now.constants[1] |= 4;
    rlx_vk_set_float(self, 16, attrs->alpha == 0 ? 1 : attrs->alpha);
    if (!rlx_vk_set_activation(self, &attrs->activation, 17) ||
        (self->now.shader == RLX_VK_MATMUL_F64 && !is_f64_activation(attrs->activation.op))) {
        RLX_VK_REFUSE(self, "no shader for this activation");
    }
    if (self->now.shader == RLX_VK_MATMUL_F64) {
        rlx_vk_set_double(self, 16, attrs->alpha == 0 ? 1 : attrs->alpha);
    }
    self->now.constants[2] = !rlx_vk_is_float(query->in[0].dtype);
    rlx_vk_bind(self, OUTPUT, output, true);
    for (uint32_t i = 0; i < query->in_count; i++)
        rlx_vk_cover(self, i);
    rlx_vk_limit_rounds(self, self->now.words[10]);
    if (rlx_tensor_elements(y) != 0 && is_tiled(self)) {
        rlx_vk_emit(self, choose_tiles(self, attrs));
        return;
    }
    rlx_vk_emit(self, is_in_fours(self, attrs) && rlx_tensor_elements(y) != 0
                          ? choose_variant(self, attrs)
                          : rlx_vk_groups(rlx_tensor_elements(y)));
}

/* Strides of [n][c][up to three spatial axes] from `word` on; missing axes come first. */
static void set_spatial(rlx_vk_lowering *self, uint32_t word, const rlx_tensor *tensor) {
    uint32_t spatial = tensor->rank - 2;
    rlx_vk_set(self, word, tensor->strides[0]);
    rlx_vk_set(self, word + 1, tensor->strides[1]);
    for (uint32_t i = 0; i < 3; i++) {
        bool is_missing = i < 3 - spatial;
        rlx_vk_set(self, word + 2 + i, is_missing ? 0 : tensor->strides[2 + i - (3 - spatial)]);
    }
}

/* A window as three axes, the missing ones of size 1 in front. */
static rlx_windows three_axes(const rlx_windows *windows) {
    rlx_windows all = {.count = 3};
    for (uint32_t i = 0; i < 3; i++) {
        all.axes[i] = (rlx_window){1, 1, 1, 1, 1, 0, 0};
        if (i >= 3 - windows->count) all.axes[i] = windows->axes[i - (3 - windows->count)];
    }
    return all;
}

static void set_windows(rlx_vk_lowering *self, uint32_t word, const rlx_windows *windows) {
    for (uint32_t i = 0; i < 3; i++) {
        const rlx_window *axis = &windows->axes[i];
        rlx_vk_set(self, word + i, axis->out);
        rlx_vk_set(self, word + 3 + i, axis->in);
        rlx_vk_set(self, word + 6 + i, axis->kernel);
        rlx_vk_set(self, word + 9 + i, axis->stride);
        rlx_vk_set(self, word + 12 + i, axis->dilation);
        rlx_vk_set(self, word + 15 + i, axis->begin);
    }
}

static rlx_status conv_windows(const rlx_target_query *query, rlx_windows *out) {
    const rlx_tensor *x = &query->in[0], *w = &query->in[1];
    return query->op == RLX_OP_CONV
               ? rlx_windows_conv(query->attrs, x->rank - 2, x->dims + 2, w->dims + 2, out)
               : rlx_windows_conv_transpose(query->attrs, x->rank - 2, x->dims + 2, w->dims + 2,
                                            out);
}

/* of conv_transpose the window counts from the output's side: what we call in is its out. */
static rlx_windows conv_axes(const rlx_vk_lowering *self, const rlx_windows *windows) {
    const rlx_tensor *x = &self->query->in[0], *y = &self->query->out[0];
    rlx_windows all = three_axes(windows);
    for (uint32_t i = 3 - windows->count; i < 3; i++) {
        all.axes[i].in = x->dims[2 + i - (3 - windows->count)];
        all.axes[i].out = y->dims[2 + i - (3 - windows->count)];
    }
    return all;
}

void rlx_vk_lower_conv(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_conv_attrs *attrs = query->attrs;
    const rlx_tensor *x = &query->in[0], *w = &query->in[1], *y = &query->out[0];
    int64_t groups = attrs->groups == 0 ? 1 : attrs->groups;
    bool is_transposed = query->op == RLX_OP_CONV_TRANSPOSE;
    rlx_windows windows;
    if (attrs->channel_block != 0) RLX_VK_REFUSE(self, "no shader for channels in blocks");
    if (attrs->merged > 1) RLX_VK_REFUSE(self, "no shader for merged groups");
    if (!rlx_vk_is_float(x->dtype)) RLX_VK_REFUSE(self, "no shader for this dtype");
    if (conv_windows(query, &windows) != RLX_OK) RLX_VK_REFUSE(self, "its windows do not fit");
    windows = conv_axes(self, &windows);
    rlx_vk_begin(self, RLX_VK_CONV);
    rlx_vk_set(self, 1, y->dims[0]);
    rlx_vk_set(self, 2, y->dims[1]);
    rlx_vk_set(self, 3, groups);
    rlx_vk_set(self, 4, x->dims[1] / groups);
    set_windows(self, 5, &windows);
    rlx_vk_set_base(self, 23, query->in_count, 0);
    rlx_vk_set_base(self, 24, 0, 0);
    rlx_vk_set_base(self, 25, 1, 0);
    if (is_there(self, 2)) {
        rlx_vk_set_base(self, 26, 2, 0);
        rlx_vk_set(self, 28, query->in[2].strides[0]);
        rlx_vk_bind(self, 3, 2, false);
        self->now.constants[1] |= 1;
    }
    if (is_there(self, 3)) {
        rlx_vk_set_base(self, 27, 3, 0);
        set_spatial(self, 46, &query->in[3]);
        rlx_vk_bind(self, 4, 3, false);
        self->now.constants[1] |= 2;
    }
    if (!rlx_vk_set_activation(self, &attrs->activation, 29)) {
        RLX_VK_REFUSE(self, "no shader for this activation");
    }
    self->now.constants[2] = is_transposed;
    set_spatial(self, 31, y);
    set_spatial(self, 36, x);
    set_spatial(self, 41, w);
    rlx_vk_bind(self, 1, 0, false);
    rlx_vk_bind(self, 2, 1, false);
    rlx_vk_bind(self, OUTPUT, query->in_count, true);
    rlx_vk_limit_rounds(self, windows.axes[0].kernel * windows.axes[1].kernel *
                                  windows.axes[2].kernel * (x->dims[1] / groups + 4));
    rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(y)));
}

void rlx_vk_lower_pool(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_pool_attrs *attrs = query->attrs;
    const rlx_tensor *x = &query->in[0], *y = &query->out[0];
    bool has_indices = query->out_count > 1 && query->out[1].data != NULL;
    rlx_windows windows;
    if (attrs->is_blocked) RLX_VK_REFUSE(self, "no shader for channels in blocks");
    if (query->op == RLX_OP_AVERAGE_POOL && !rlx_vk_is_float(x->dtype)) {
        RLX_VK_REFUSE(self, "no shader for this dtype");
    }
    if (rlx_windows_pool(attrs, x->rank - 2, x->dims + 2, &windows) != RLX_OK) {
        RLX_VK_REFUSE(self, "its windows do not fit");
    }
    windows = three_axes(&windows);
    rlx_vk_begin(self, RLX_VK_POOL);
    rlx_vk_set(self, 1, y->dims[0]);
    rlx_vk_set(self, 2, y->dims[1]);
    set_windows(self, 4, &windows);
    for (uint32_t i = 0; i < 3; i++)
        rlx_vk_set(self, 22 + i, windows.axes[i].end);
    rlx_vk_set_base(self, 25, 1, 0);
    rlx_vk_set_base(self, 26, 0, 0);
    set_spatial(self, 28, y);
    set_spatial(self, 33, x);
    if (has_indices) {
        rlx_vk_set_base(self, 27, 2, 0);
        set_spatial(self, 38, &query->out[1]);
    }
    self->now.constants[0] = query->op == RLX_OP_AVERAGE_POOL;
    self->now.constants[1] = attrs->count_include_pad;
    self->now.constants[2] = has_indices;
    rlx_vk_bind(self, 1, 0, false);
    rlx_vk_bind(self, OUTPUT, 1, true);
    if (has_indices) rlx_vk_bind(self, SECOND_OUTPUT, 2, true);
    rlx_vk_limit_rounds(self, windows.axes[0].kernel * windows.axes[1].kernel *
                                  windows.axes[2].kernel * 4);
    rlx_vk_emit(self, rlx_vk_groups(rlx_tensor_elements(y)));
}
