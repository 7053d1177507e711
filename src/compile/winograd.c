/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd: dense 3 x 3 convolutions of stride 1 with channels in blocks are computed on tiles of 2
 * x 2 or 4 x 4 outputs, with 16 / 4 or 36 / 16 products per output instead of 9 (Winograd's minimal
 * filtering; backend/cpu/vec/conv_wino.c). Their weights become larger, 16 / 9 or 4 times; they are
 * turned by a product that is written here and done once, when they are prepared. Kernels with taps
 * that are not finite, which points would lose, keep their taps. All convs of a kernel are decided
 * together, from their shapes alone: by what it saves, and what it takes of memory.
 *
 * Taps that are d apart see every d-th row and column: such a conv is d x d convs on images a d-th
 * as large, which become images of the batch and are woven again behind it. Where sizes or padding
 * are no multiples of d the image is padded until they are, and what that adds is cut off again. */
#include "ir/winograd.h"
#include "compile/rewrite.h"
#include "ir/window.h"

#include <math.h>
#include <string.h>

enum { TAPS = 3, KERNEL = TAPS * TAPS };

/* One conv, in whole blocks of channels. */
typedef struct conv_shape {
    int64_t block, batch, height, width; /* of the output */
    int64_t in, out, out_lanes;          /* channels; those that are computed */
    int64_t apart;                       /* taps; the sizes above are those of the phases */
    rlx_ints pads;                       /* of a phase */
    int64_t before[2], behind[2];        /* rows and columns that the image needs more */
    bool is_padded;                      /* so, or its output is not whole */
} conv_shape;

static int64_t divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

/* To take an image apart and to weave it, in steps of one vector (measured). */
static double cost_of_phases(const conv_shape *shape) {
    const double steps = shape->is_padded ? 32 : 16;
    double blocks = (double)(divide_up(shape->in, shape->block) + shape->out_lanes / shape->block);
    if (shape->apart == 1) return 0;
    return steps * blocks * (double)shape->batch * (double)shape->height * (double)shape->width;
}

/* Outputs of a tile per axis; 0: tap by tap. */
static const int64_t edges[] = {0, 2, 4};
enum { EDGES = sizeof edges / sizeof *edges };

/* What weights are worth, in steps of one vector, whoever has to hold and to fetch them. */
static double cost_of_weights(const conv_shape *shape, int64_t edge) {
    const double bytes_per_step = shape->block > 8 ? 1.0 : 0.7; /* a step must save so many bytes */
    double points = edge == 0 ? KERNEL : (double)((edge + 2) * (edge + 2));
    return points * (double)shape->in * (double)shape->out_lanes * (double)sizeof(float) /
           bytes_per_step;
}

/* What a conv costs in steps of one vector: multiply-adds, and the way to points and back per tile
 * and block of channels (measured). */
static double cost_of(const conv_shape *shape, int64_t edge) {
    /* Wide vectors do more in a step: the way to points and back takes more of them, most of it is
     * loads and stores. */
    const bool is_wide = shape->block > 8;
    const double in_steps = is_wide ? (edge == 2 ? 250 : 700) : (edge == 2 ? 60 : 170);
    const double out_steps = is_wide ? (edge == 2 ? 250 : 700) : (edge == 2 ? 60 : 150);
    double steps = (double)shape->in * (double)(shape->out_lanes / shape->block);
    if (edge == 0)
        return KERNEL * steps * (double)shape->batch * (double)shape->height * (double)shape->width;
    double points = (double)((edge + 2) * (edge + 2));
    double tiles = (double)shape->batch * (double)divide_up(shape->height, edge) *
                   (double)divide_up(shape->width, edge);
    double turned = (double)divide_up(shape->in, shape->block) * in_steps +
                    (double)(shape->out_lanes / shape->block) * out_steps;
    return tiles * (points * steps + turned) + cost_of_phases(shape);
}

/* A kernel and all convs that have it, as the heads of a detector share theirs. */
typedef struct shared_kernel {
    double costs[EDGES];
    uint32_t convs;      /* that could be turned */
    rlx_value_id points; /* the kernel for all of them, once the first is turned */
} shared_kernel;

/* For all convs; whoever else reads the weights wants their taps: they would be held twice. */
static int64_t best_edge(const shared_kernel *kernel, uint32_t uses) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < EDGES && kernel->convs == uses; i++) {
        if (kernel->costs[i] < kernel->costs[best]) best = i;
    }
    return edges[best];
}

/* The phases of a conv whose taps are equally far apart in both directions. */
static bool read_phases(const rlx_conv_attrs *attrs, const rlx_shape *x, conv_shape *shape) {
    const int64_t kernel[] = {TAPS, TAPS};
    rlx_windows windows = {0};
    if (rlx_windows_conv(attrs, 2, x->dims + 2, kernel, &windows) != RLX_OK) return false;
    const rlx_window *axes = windows.axes;
    const int64_t d = axes[0].dilation;
    if (axes[1].dilation != d) return false;
    shape->apart = d;
    shape->pads.count = 4;
    for (uint32_t i = 0; i < 2; i++) {
        const int64_t in = axes[i].in, begin = axes[i].begin, end = axes[i].end;
        if (begin < 0 || end < 0) return false;
        shape->before[i] = begin % d;
        shape->behind[i] = divide_up(in + shape->before[i], d) * d - in - shape->before[i];
        shape->pads.items[i] = begin / d;
        if (end > shape->behind[i]) shape->pads.items[2 + i] = divide_up(end - shape->behind[i], d);
        shape->is_padded |= in % d != 0 || begin % d != 0 || end % d != 0;
    }
    shape->batch *= d * d;
    shape->height = divide_up(axes[0].out, d);
    shape->width = divide_up(axes[1].out, d);
    return true;
}

/* A conv in blocks with a 3 x 3 kernel that this pass can turn. */
static bool read_shape(const rlx_rewrite *rewrite, rlx_node_id root, conv_shape *out_shape) {
    /* Nothing in the body of a loop is prepared. */
    if (rlx_rewrite_op(rewrite, root) != RLX_OP_CONV ||
        rewrite->graph->nodes.items[root].block != 0)
        return false;
    const rlx_conv_attrs *attrs = rlx_rewrite_attrs(rewrite, root);
    const rlx_value_id w = rlx_rewrite_input(rewrite, root, 1);
    const rlx_type *x = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 0));
    const rlx_type *weights = rlx_rewrite_type(rewrite, w);
    const rlx_shape *y = &rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root))->shape;
    if (attrs->channel_block < 1 || attrs->winograd != 0 || attrs->groups > 1 ||
        !rlx_ints_are_one(&attrs->strides)) {
        return false;
    }
    if (x->shape.rank != 5 || weights->shape.rank != 4 || x->dtype != RLX_DTYPE_F32 ||
        weights->dtype != RLX_DTYPE_F32 || weights->layout != RLX_LAYOUT_PLAIN ||
        weights->shape.dims[2] != TAPS || weights->shape.dims[3] != TAPS) {
        return false;
    }
    if (!rlx_rewrite_fact(rewrite, w)->is_prepared) return false;
    *out_shape = (conv_shape){.block = attrs->channel_block,
                              .batch = y->dims[0],
                              .in = weights->shape.dims[1],
                              .out = weights->shape.dims[0]};
    if (!read_phases(attrs, &x->shape, out_shape)) return false;
    out_shape->out_lanes = divide_up(out_shape->out, 2 * out_shape->block) * 2 * out_shape->block;
    return out_shape->in >= out_shape->block && 2 * out_shape->out >= out_shape->block;
}

/* [TAPS x TAPS][points]: column (i, j) takes a kernel to point (i, j). */
static rlx_status add_matrix(rlx_rewrite *rewrite, int64_t edge, rlx_value_id *out_value) {
    enum { MOST = RLX_WINOGRAD_SIDE * RLX_WINOGRAD_SIDE };
    double g[RLX_WINOGRAD_SIDE][3];
    float matrix[KERNEL * MOST];
    int64_t side = edge + 2, at = 0;
    rlx_winograd_weights(edge, g);
    for (int k = 0; k < KERNEL; k++) {
        for (int64_t i = 0; i < side; i++) {
            for (int64_t j = 0; j < side; j++)
                matrix[at++] = (float)(g[i][k / TAPS] * g[j][k % TAPS]);
        }
    }
    return rlx_rewrite_matrix(rewrite, matrix, KERNEL, side * side, out_value);
}

/* The taps of all kernels, [kernels][KERNEL], in the first rows and columns of their points. */
static rlx_status spread_taps(rlx_rewrite *rewrite, rlx_node_id root, int64_t edge,
                              rlx_value_id *taps) {
    const int64_t kernels = rlx_rewrite_type(rewrite, *taps)->shape.dims[0], side = edge + 2;
    const int64_t square[] = {kernels, TAPS, TAPS}, row[] = {kernels, side * side};
    const rlx_pad_attrs fill = {.pads = {6, {0, 0, 0, 0, side - TAPS, side - TAPS}}, .value = NAN};
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, *taps, square, 3, taps));
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_PAD, &fill, taps, 1, taps));
    return rlx_rewrite_reshaped(rewrite, root, *taps, row, 2, taps);
}

/* Points [kernels][points] where all of a kernel's are finite: 0 times all of them is 0. Else its
 * taps. */
static rlx_status keep_taps(rlx_rewrite *rewrite, rlx_node_id root, int64_t edge, rlx_value_id taps,
                            rlx_value_id *points) {
    static const float zeros[RLX_WINOGRAD_SIDE * RLX_WINOGRAD_SIDE];
    const rlx_matmul_attrs product = {0};
    rlx_value_id sum[2] = {*points}, either[3];
    RLX_TRY(rlx_rewrite_matrix(rewrite, zeros, (edge + 2) * (edge + 2), 1, &sum[1]));
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_MATMUL, &product, sum, 2, &sum[0]));
    RLX_TRY(rlx_rewrite_matrix(rewrite, zeros, 1, 1, &sum[1]));
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_EQUAL, NULL, sum, 2, &either[0]));
    either[1] = *points, either[2] = taps;
    RLX_TRY(spread_taps(rewrite, root, edge, &either[2]));
    return rlx_rewrite_insert(rewrite, root, RLX_OP_WHERE, NULL, either, 3, points);
}

/* Adds rows and columns to an image in blocks. */
static rlx_status pad_image(rlx_rewrite *rewrite, rlx_node_id root, const int64_t *before,
                            const int64_t *behind, rlx_value_id *value) {
    const rlx_pad_attrs attrs = {
        .pads = {10, {0, 0, before[0], before[1], 0, 0, 0, behind[0], behind[1], 0}}};
    return rlx_rewrite_insert(rewrite, root, RLX_OP_PAD, &attrs, value, 1, value);
}

/* An image in blocks as d x d images of the batch, [N x d x d][C][H / d][W / d][block]. */
static rlx_status take_apart(rlx_rewrite *rewrite, rlx_node_id root, int64_t d,
                             rlx_value_id *value) {
    const int64_t *dims = rlx_rewrite_type(rewrite, *value)->shape.dims;
    const int64_t n = dims[0], c = dims[1], h = dims[2] / d, w = dims[3] / d, block = dims[4];
    const int64_t apart[] = {n, c, h, d, w, d, block}, images[] = {n * d * d, c, h, w, block};
    const rlx_transpose_attrs order = {.perm = {7, {0, 3, 5, 1, 2, 4, 6}}};
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, *value, apart, 7, value));
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_TRANSPOSE, &order, value, 1, value));
    return rlx_rewrite_reshaped(rewrite, root, *value, images, 5, value);
}

/* The residual goes with the phases of the output. */
static rlx_status take_residual_apart(rlx_rewrite *rewrite, rlx_node_id root,
                                      const conv_shape *shape, rlx_value_id *value) {
    if (*value == RLX_NONE) return RLX_OK;
    const int64_t *dims = rlx_rewrite_type(rewrite, *value)->shape.dims, none[2] = {0, 0};
    const int64_t behind[] = {shape->height * shape->apart - dims[2],
                              shape->width * shape->apart - dims[3]};
    if (shape->is_padded) RLX_TRY(pad_image(rewrite, root, none, behind, value));
    return take_apart(rewrite, root, shape->apart, value);
}

/* Phases [N x d x d][C][H][W][block] as the output of `root`. */
static rlx_status weave(rlx_rewrite *rewrite, rlx_node_id root, const conv_shape *shape,
                        rlx_value_id phases) {
    const rlx_shape y = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root))->shape;
    const int64_t d = shape->apart, h = shape->height, w = shape->width;
    const int64_t apart[] = {y.dims[0], d, d, y.dims[1], h, w, y.dims[4]};
    const int64_t whole[] = {y.dims[0], y.dims[1], h * d, w * d, y.dims[4]};
    const rlx_transpose_attrs order = {.perm = {7, {0, 3, 4, 1, 5, 2, 6}}};
    const rlx_slice_attrs cut = {
        .starts = {2, {0, 0}}, .ends = {2, {y.dims[2], y.dims[3]}}, .axes = {2, {2, 3}}};
    rlx_reshape_attrs image = {.shape = {.count = y.rank}};
    memcpy(image.shape.items, y.dims, y.rank * sizeof *y.dims);
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, phases, apart, 7, &phases));
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_TRANSPOSE, &order, &phases, 1, &phases));
    if (!shape->is_padded)
        return rlx_rewrite_node(rewrite, root, RLX_OP_RESHAPE, &image, &phases, 1, NULL);
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, phases, whole, 5, &phases));
    return rlx_rewrite_node(rewrite, root, RLX_OP_SLICE, &cut, &phases, 1, NULL);
}

/* The conv on phases; `root` becomes the image that they are woven to. */
static rlx_status turn_phases(rlx_rewrite *rewrite, rlx_node_id root, const conv_shape *shape,
                              rlx_conv_attrs *attrs, rlx_value_id *inputs, uint32_t count) {
    attrs->pads = shape->pads;
    attrs->auto_pad = RLX_AUTO_PAD_EXPLICIT;
    attrs->dilations.count = 0;
    if (shape->is_padded)
        RLX_TRY(pad_image(rewrite, root, shape->before, shape->behind, &inputs[0]));
    RLX_TRY(take_apart(rewrite, root, shape->apart, &inputs[0]));
    if (count > 3) RLX_TRY(take_residual_apart(rewrite, root, shape, &inputs[3]));
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_CONV, attrs, inputs, count, &inputs[0]));
    return weave(rewrite, root, shape, inputs[0]);
}

/* The kernel of `root` as points, [out][in][edge + 2][edge + 2]. */
static rlx_status add_points(rlx_rewrite *rewrite, rlx_node_id root, const conv_shape *shape,
                             int64_t edge, rlx_value_id *out_points) {
    const int64_t rows[] = {shape->out * shape->in, KERNEL};
    const int64_t points[] = {shape->out, shape->in, edge + 2, edge + 2};
    const rlx_matmul_attrs product = {0};
    rlx_value_id pair[2];
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, rlx_rewrite_input(rewrite, root, 1), rows, 2,
                                 &pair[0]));
    RLX_TRY(add_matrix(rewrite, edge, &pair[1]));
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_MATMUL, &product, pair, 2, &pair[1]));
    RLX_TRY(keep_taps(rewrite, root, edge, pair[0], &pair[1]));
    return rlx_rewrite_reshaped(rewrite, root, pair[1], points, 4, out_points);
}

static rlx_status weigh(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    shared_kernel *kernels = user; /* per value */
    conv_shape shape;
    if (!read_shape(rewrite, root, &shape)) return RLX_OK;
    shared_kernel *kernel = &kernels[rlx_rewrite_input(rewrite, root, 1)];
    for (uint32_t i = 0; i < EDGES; i++) {
        if (kernel->convs == 0) kernel->costs[i] = cost_of_weights(&shape, edges[i]);
        kernel->costs[i] += cost_of(&shape, edges[i]);
    }
    kernel->convs++;
    kernel->points = RLX_NONE;
    return RLX_OK;
}

static rlx_status turn(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    shared_kernel *kernels = user; /* per value */
    conv_shape shape;
    rlx_value_id inputs[4];
    if (!read_shape(rewrite, root, &shape)) return RLX_OK;
    const rlx_value_id w = rlx_rewrite_input(rewrite, root, 1);
    shared_kernel *kernel = &kernels[w];
    /* Convs that are turned use the weights no more, and their points do. */
    bool is_first = kernel->points == RLX_NONE;
    int64_t edge = best_edge(kernel, is_first ? rlx_rewrite_fact(rewrite, w)->uses : kernel->convs);
    if (edge == 0) return RLX_OK;
    rlx_conv_attrs attrs = *(const rlx_conv_attrs *)rlx_rewrite_attrs(rewrite, root);
    uint32_t count = rewrite->graph->nodes.items[root].input_count;
    for (uint32_t i = 0; i < count; i++)
        inputs[i] = rlx_rewrite_input(rewrite, root, i);
    if (is_first) RLX_TRY(add_points(rewrite, root, &shape, edge, &kernel->points));
    inputs[1] = kernel->points;
    attrs.winograd = edge;
    if (shape.apart > 1) return turn_phases(rewrite, root, &shape, &attrs, inputs, count);
    return rlx_rewrite_node(rewrite, root, RLX_OP_CONV, &attrs, inputs, count, NULL);
}

rlx_status rlx_pass_winograd(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    shared_kernel *kernels = NULL;
    if (context->target == NULL || context->target->channel_block == 0) return RLX_OK;
    if (!rlx_pass_is_on(context->options, "pack_weights")) return RLX_OK; /* kernels want panels */
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_scratch_array(context->scratch, rewrite.graph->values.count + 1u, sizeof *kernels,
                              (void **)&kernels));
    RLX_TRY(rlx_rewrite_walk(&rewrite, weigh, kernels));
    RLX_TRY(rlx_rewrite_walk(&rewrite, turn, kernels));
    return rlx_rewrite_finish(&rewrite);
}
