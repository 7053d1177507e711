/* SPDX-License-Identifier: Apache-2.0 */
/* What the convolutions in blocks (conv.c) do before they multiply: how the depth and the positions
 * of a step are cut, and where the inputs of a place are. Those that have padding or are plain are
 * copied to the workspace, with the padding written out. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_STAGE_H
#define RLX_BACKEND_CPU_VEC_CONV_STAGE_H

#include "backend/cpu/vec/conv_view.h"
#include "backend/cpu/vec/transpose.h"

enum {
    PART_BYTES = 20 * 1024, /* of the weights of a panel or pair in one part of the depth */
    POSITIONS = 100,        /* of an item, about */
    POSITIONS_FIRST = 400,  /* where there is only one part and x is copied */
    MOST_POSITIONS = POSITIONS_FIRST + POSITIONS_FIRST / 4,
    NEAR_BYTES = 128 * 1024 /* weights that stay in the second cache */
};

/* What a step does, from dims alone. */
typedef struct conv_work {
    conv_view view;
    conv_cut cut;
    const float *weights;
    bool is_first;              /* few plain inputs; depth order taps, then channels */
    bool is_staged;             /* x goes through the workspace */
    int64_t unit;               /* panels that are done at once: 1 or 2 */
    int64_t taps, depth_blocks; /* of the whole depth: channel blocks (1 of a first layer) */
    int64_t part_blocks;        /* of a part */
    int64_t width;              /* channels of a block of the depth: BLOCK, or all there are */
    int64_t narrow;             /* channels of a group that fills no panel; 0: it is none */
} conv_work;

/* Groups that fill no panels: every block of outputs counts as a group. Several of them may share
 * their inputs, or a block of inputs has those of several groups. */
static void set_narrow(conv_work *work) {
    conv_view *view = &work->view;
    work->narrow = view->in_channels;
    view->groups = view->groups * view->out_channels / BLOCK;
    view->out_channels = BLOCK;
    if (view->in_channels < BLOCK) view->in_channels = BLOCK;
}

/* Of the inputs of a group. */
static int64_t first_block(const conv_work *work, int64_t group) {
    if (work->narrow > BLOCK) group = group * BLOCK / work->narrow;
    return group * work->view.in_channels / BLOCK;
}

static void cut_depth(conv_work *work) {
    int64_t width = work->is_first ? work->view.in_channels : BLOCK;
    int64_t block_bytes = work->taps * width * PANEL * (int64_t)sizeof(float);
    int64_t most = PART_BYTES / (block_bytes * work->unit);
    if (most < 1) most = 1;
    if (work->narrow != 0) most = work->view.in_channels;
    work->width = width;
    work->depth_blocks = work->is_first ? 1 : conv_divide_up(work->view.in_channels, BLOCK);
    int64_t parts = conv_divide_up(work->depth_blocks, most);
    work->part_blocks = conv_divide_up(work->depth_blocks, parts);
}

/* Of an item, about. Small images are done whole, so that weights are read once. */
static int64_t positions_of(const conv_work *work) {
    int64_t all = work->view.h.out * work->view.w.out;
    if ((work->is_staged || work->narrow != 0) && work->part_blocks == work->depth_blocks)
        return POSITIONS_FIRST;
    return all <= 2 * POSITIONS ? all : POSITIONS;
}

static conv_work work_of(const rlx_kernel_args *args) {
    conv_work work = {.view = conv_view_of(args), .weights = args->in[1].data};
    conv_view *view = &work.view;
    work.is_first = args->in[1].layout == (BLOCK == 8 ? RLX_LAYOUT_TAPS16 : RLX_LAYOUT_TAPS32);
    if (work.is_first && view->groups > 1) set_narrow(&work), work.is_first = false;
    work.is_staged = !view->is_blocked || conv_is_padded(&view->h) || conv_is_padded(&view->w);
    if (view->is_blocked) conv_join_rows(view);
    work.taps = view->h.kernel * view->w.kernel;
    bool has_pairs = HAS_PAIRS && work.taps == 1 && !work.is_first;
    work.unit = has_pairs && view->out_channels > PANEL + BLOCK ? 2 : 1;
    cut_depth(&work);
    work.cut = conv_cut_of(view, positions_of(&work), work.unit);
    return work;
}

/* A place under way: the part of the depth at hand, and where its positions are. */
typedef struct conv_part_at {
    conv_place place;
    const float *x; /* first input of the rectangle, of the part's first block */
    int64_t x_block, x_row, x_column;
    int64_t block, blocks;             /* the part of the depth */
    const int64_t *offsets;            /* of a first layer's depth */
    bool fetches;                      /* weights that are wanted next are far away */
    const float *next;                 /* these; NULL: not known */
    int64_t aimed_rows, aimed_columns; /* of the place that these are for: */
    /* Per position: from x, y and the residual at the rectangle's first one. */
    int64_t x_at[MOST_POSITIONS + 1]; /* and once more the first: the next panel starts there */
    int64_t y_at[MOST_POSITIONS], residual_at[MOST_POSITIONS];
} conv_part_at;

/* Floats of a staged position: a first layer stays in planes. */
static int64_t stage_width(const conv_work *work) {
    return work->is_first ? 1 : BLOCK;
}

/* Pixels of BLOCK planes become blocks, eight channels of eight pixels at a time; the last ones
 * overlap those before them. At least eight pixels. */
static __attribute__((noinline)) void stage_planes(const float *from, int64_t plane, int64_t count,
                                                   float *to) {
    enum { SIDE = 8 };
    for (int64_t i = 0; i < count; i += SIDE) {
        const int64_t first = conv_least(i, count - SIDE);
        for (int64_t c = 0; c < BLOCK; c += SIDE) {
            vt4 r[SIDE];
            VEC_UNROLLED for (int k = 0; k < SIDE; k++)
                memcpy(&r[k], from + (c + k) * plane + first, sizeof r[k]);
            vec_turn4(r);
            VEC_UNROLLED for (int k = 0; k < SIDE; k++)
                memcpy(to + (first + k) * BLOCK + c, &r[k], sizeof r[k]);
        }
    }
}

/* Copies `count` columns from `column` on of one row of inputs; zeros outside. */
static void stage_row(const conv_work *work, const float *from, int64_t column, int64_t channels,
                      float *to) {
    const conv_image *x = &work->view.x;
    int64_t width = stage_width(work), in = work->view.w.in, count = work->cut.stage_columns;
    int64_t first = column < 0 ? conv_least(-column, count) : 0;
    int64_t end = in - column < count ? (in - column > first ? in - column : first) : count;
    memset(to, 0, (size_t)(first * width) * sizeof *to);
    memset(to + end * width, 0, (size_t)((count - end) * width) * sizeof *to);
    from += (column + first) * x->column;
    to += first * width;
    if ((work->view.is_blocked || work->is_first) && x->column == width) {
        memcpy(to, from, (size_t)((end - first) * width) * sizeof *to);
        return;
    }
    if (work->view.is_blocked) {
        for (int64_t i = first; i < end; i++, from += x->column, to += BLOCK)
            memcpy(to, from, BLOCK * sizeof *to);
        return;
    }
    if (x->column == 1 && channels >= BLOCK && end - first >= 8) {
        stage_planes(from, x->block, end - first, to);
        return;
    }
    for (int64_t c = 0; c < width; c++) {
        for (int64_t i = 0; i < end - first; i++)
            to[i * width + c] = c < channels ? from[c * x->block + i * x->column] : 0.0f;
    }
}

/* Where staged inputs are, or those that stay where they are. */
static void set_strides(const conv_work *work, conv_part_at *at) {
    const conv_image *x = &work->view.x;
    at->x_column = work->is_staged ? stage_width(work) : x->column;
    at->x_row = work->is_staged ? work->cut.stage_columns * at->x_column : x->row;
    at->x_block = work->is_staged ? work->cut.stage_rows * at->x_row : x->block;
}

/* The inputs under the rectangle, [blocks][stage rows][stage columns][BLOCK], or of a first layer
 * [channels][stage rows][stage columns]. */
static void stage(const conv_work *work, conv_part_at *at, float *to) {
    const conv_view *view = &work->view;
    const conv_place *place = &at->place;
    int64_t rows = conv_reach(&view->h, place->rows);
    int64_t top = place->row * view->h.stride - view->h.begin;
    int64_t left = place->column * view->w.stride - view->w.begin;
    int64_t first = first_block(work, place->group);
    at->x = to;
    for (int64_t b = 0; b < (work->is_first ? work->width : at->blocks); b++) {
        int64_t channel = work->is_first ? b : (at->block + b) * BLOCK;
        const float *from = view->x.data + place->n * view->x.n;
        from += view->is_blocked ? (first + at->block + b) * view->x.block
                                 : (first * BLOCK + channel) * view->x.block;
        for (int64_t r = 0; r < rows; r++) {
            float *row = to + b * at->x_block + r * at->x_row;
            if (top + r < 0 || top + r >= view->h.in) {
                memset(row, 0, (size_t)at->x_row * sizeof *row);
            } else {
                stage_row(work, from + (top + r) * view->x.row, left, view->in_channels - channel,
                          row);
            }
        }
    }
}

/* The inputs where they are. */
static void aim(const conv_work *work, conv_part_at *at) {
    const conv_view *view = &work->view;
    const conv_place *place = &at->place;
    at->x = view->x.data + place->n * view->x.n +
            (first_block(work, place->group) + at->block) * view->x.block +
            place->row * view->h.stride * view->x.row +
            place->column * view->w.stride * view->x.column;
}

/* The positions of a place, once for all its panels and parts of the depth, and for all places of
 * its size. */
static void aim_positions(const conv_work *work, conv_part_at *at) {
    const conv_view *view = &work->view;
    if (at->place.rows == at->aimed_rows && at->place.columns == at->aimed_columns) return;
    at->aimed_rows = at->place.rows, at->aimed_columns = at->place.columns;
    int64_t x_row = view->h.stride * at->x_row, x_column = view->w.stride * at->x_column, p = 0;
    for (int64_t row = 0; row < at->place.rows; row++) {
        for (int64_t column = 0; column < at->place.columns; column++, p++) {
            at->x_at[p] = row * x_row + column * x_column;
            at->y_at[p] = row * view->y.row + column * view->y.column;
            at->residual_at[p] = row * view->residual.row + column * view->residual.column;
        }
    }
    at->x_at[p] = 0;
}

/* Floats of the workspace that hold the offsets of a first layer's inputs. */
static int64_t offset_floats(const conv_work *work) {
    return work->is_first ? work->taps * work->width * 2 : 0;
}

/* A first layer has runs of a few inputs: they are found by their offsets, in the order of w. */
static void set_offsets(const conv_work *work, conv_part_at *at, float *workspace) {
    const conv_view *view = &work->view;
    int64_t *to = (int64_t *)(void *)workspace;
    at->offsets = to;
    for (int64_t i = 0; i < offset_floats(work) / 2; i++) {
        int64_t tap = i / work->width, row = tap / view->w.kernel, column = tap % view->w.kernel;
        to[i] = i % work->width * at->x_block + row * view->h.dilation * at->x_row +
                column * view->w.dilation;
    }
}

#endif
