/* SPDX-License-Identifier: Apache-2.0 */
/* Dense and grouped conv of f32 with channels in blocks: y, residual and x are [N][C / BLOCK][H][W]
 * [BLOCK], weights are in panels. x may also be plain, as the image of a first layer is.
 *
 * An item is a rectangle of output positions and some panels of output channels; those of a 1 x 1
 * kernel are done two at a time, so that an input that is fetched meets twice the channels. The
 * depth (input channels x taps) is done in parts whose weights stay in the first cache while they
 * meet all positions of the item; sums wait in y between two parts, and the first part takes the
 * residual along, so it may lie in the same memory. Inputs that have padding or are plain are first
 * copied to the workspace, a part at a time, with the padding written out. */
#include "backend/cpu/vec/conv_apart.h"
#include "ref/access.h"

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
} conv_work;

static void cut_depth(conv_work *work) {
    int64_t width = work->is_first ? work->view.in_channels : BLOCK;
    int64_t block_bytes = work->taps * width * PANEL * (int64_t)sizeof(float);
    int64_t most = PART_BYTES / (block_bytes * work->unit);
    if (most < 1) most = 1;
    work->width = width;
    work->depth_blocks = work->is_first ? 1 : conv_divide_up(work->view.in_channels, BLOCK);
    int64_t parts = conv_divide_up(work->depth_blocks, most);
    work->part_blocks = conv_divide_up(work->depth_blocks, parts);
}

/* Of an item, about. Small images are done whole, so that weights are read once. */
static int64_t positions_of(const conv_work *work) {
    int64_t all = work->view.h.out * work->view.w.out;
    if (work->is_staged && work->part_blocks == work->depth_blocks) return POSITIONS_FIRST;
    return all <= 2 * POSITIONS ? all : POSITIONS;
}

static conv_work work_of(const rlx_kernel_args *args) {
    conv_work work = {.view = conv_view_of(args), .weights = args->in[1].data};
    conv_view *view = &work.view;
    work.is_first = args->in[1].layout == (BLOCK == 8 ? RLX_LAYOUT_TAPS16 : RLX_LAYOUT_TAPS32);
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
    at->x = to;
    for (int64_t b = 0; b < (work->is_first ? work->width : at->blocks); b++) {
        int64_t channel = work->is_first ? b : (at->block + b) * BLOCK;
        const float *from = view->x.data + place->n * view->x.n;
        from += view->is_blocked
                    ? (place->group * view->in_channels / BLOCK + at->block + b) * view->x.block
                    : (place->group * view->in_channels + channel) * view->x.block;
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
            (place->group * view->in_channels / BLOCK + at->block) * view->x.block +
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

/* Appends a level around those that are there; one that is walked once is none. `reach` is what
 * the levels within have moved by. */
static void add_level(conv_depth *depth, int *level, int64_t *reach, int64_t count,
                      int64_t stride) {
    int64_t *counts[] = {&depth->inner, &depth->middle, &depth->outer};
    int64_t *steps[] = {&depth->inner_step, &depth->middle_step, &depth->outer_step};
    if (count == 1) return;
    *counts[*level] = count;
    *steps[*level] = stride - *reach;
    *reach = count * stride;
    ++*level;
}

static conv_depth depth_of(const conv_work *work, const conv_part_at *at) {
    const conv_view *view = &work->view;
    bool is_run = view->w.dilation == 1 && at->x_column == BLOCK;
    conv_depth depth = {.inner = 1, .middle = 1, .outer = 1};
    if (work->is_first) {
        depth.offsets = at->offsets, depth.singles = work->taps * work->width;
        return depth;
    }
    depth.run = is_run ? view->w.kernel * BLOCK : BLOCK;
    int level = 0;
    int64_t reach = depth.run;
    if (!is_run) add_level(&depth, &level, &reach, view->w.kernel, view->w.dilation * at->x_column);
    add_level(&depth, &level, &reach, view->h.kernel, view->h.dilation * at->x_row);
    add_level(&depth, &level, &reach, at->blocks, at->x_block);
    depth.fetches_inputs = work->taps == 1;
    return depth;
}

/* clang-format off */
#define EACH_COUNT(M) M(1) M(2) M(3) M(4) M(5) M(6)
#if RLX_VEC_BYTES == 32
#define EACH_PAIR_COUNT(M) M(1) M(2) M(3)
#else
#define EACH_PAIR_COUNT(M)
#endif
#if RLX_VEC_BYTES == 64
#define EACH_WIDE_COUNT(M) M(7) M(8) M(9) M(10) M(11) M(12)
#else
#define EACH_WIDE_COUNT(M)
#endif
/* clang-format on */
#define DEFINE(count)                                                          \
    static void tile_##count(const conv_depth *depth, const conv_tile *tile) { \
        conv_tile_run(depth, tile, count, PANEL_VECTORS, false);               \
    }
#define DEFINE_NARROW(count)                                                          \
    static void narrow_tile_##count(const conv_depth *depth, const conv_tile *tile) { \
        conv_tile_run(depth, tile, count, PANEL_VECTORS / 2, false);                  \
    }
#define DEFINE_PAIR(count)                                                          \
    static void pair_tile_##count(const conv_depth *depth, const conv_tile *tile) { \
        conv_tile_run(depth, tile, count, PAIR_VECTORS, true);                      \
    }
EACH_COUNT(DEFINE)
EACH_WIDE_COUNT(DEFINE)
EACH_COUNT(DEFINE_NARROW)
EACH_PAIR_COUNT(DEFINE_PAIR)
#undef DEFINE
#undef DEFINE_NARROW
#undef DEFINE_PAIR
#define NAME(count)        tile_##count,
#define NARROW_NAME(count) narrow_tile_##count,
#define PAIR_NAME(count)   pair_tile_##count,
/* By the number of positions: a panel, its first block alone, or two panels of a 1 x 1 kernel. */
const conv_tile_fn VEC_SYMBOL(conv_tiles)[] = {EACH_COUNT(NAME) EACH_WIDE_COUNT(NAME)};
static const conv_tile_fn narrow_tiles[] = {EACH_COUNT(NARROW_NAME)};
static const conv_tile_fn pair_tiles[] = {EACH_PAIR_COUNT(PAIR_NAME) NULL};
enum { NARROW_PIXELS = sizeof narrow_tiles / sizeof *narrow_tiles };
#undef NAME
#undef NARROW_NAME
#undef PAIR_NAME

/* Of `count` panels. */
static const float *panel_bias(const conv_work *work, const conv_part_at *at, int64_t panel,
                               int64_t count, float *values) {
    const conv_view *view = &work->view;
    int64_t channel = panel * PANEL, first = at->place.group * view->out_channels;
    if (view->bias == NULL || at->block != 0) return NULL;
    for (int64_t i = 0; i < count * PANEL; i++) {
        values[i] = channel + i < view->out_channels
                        ? view->bias[(first + channel + i) * view->bias_stride]
                        : 0.0f;
    }
    return values;
}

static const float *weights_of(const conv_work *work, const conv_part_at *at, int64_t panel,
                               int64_t block) {
    int64_t before = at->place.group * work->cut.panels + panel;
    return work->weights + (before * work->depth_blocks + block) * work->taps * work->width * PANEL;
}

/* Where the outputs of a panel are in y or the residual. */
static int64_t panel_offset(const conv_work *work, const conv_part_at *at, int64_t panel,
                            const conv_image *image) {
    const conv_place *place = &at->place;
    int64_t block = (place->group * work->view.out_channels + panel * PANEL) / BLOCK;
    return place->n * image->n + block * image->block + place->row * image->row +
           place->column * image->column;
}

/* Relu and clip are bounds. */
static void set_activation(const rlx_activation *activation, conv_tile *tile) {
    bool is_clip = activation->op == RLX_OP_CLIP;
    tile->is_bounded = is_clip || activation->op == RLX_OP_RELU;
    tile->low = vf_set(is_clip ? (float)activation->alpha : 0.0f);
    tile->high = vf_set(is_clip ? (float)activation->beta : VEC_INFINITY);
    tile->is_activated = !tile->is_bounded && activation->op != RLX_OP_NONE;
}

/* What all tiles of a panel, or of two, have in common. */
static conv_tile tile_of(const conv_work *work, const conv_part_at *at, int64_t panel,
                         int64_t panels, float *bias) {
    const conv_view *view = &work->view;
    bool is_first = at->block == 0;
    const conv_image *start = is_first ? &view->residual : &view->y;
    conv_tile tile = {.x = at->x,
                      .y = view->y.data + panel_offset(work, at, panel, &view->y),
                      .x_at = at->x_at,
                      .y_at = at->y_at,
                      .start_at = is_first ? at->residual_at : at->y_at,
                      .y_block = view->y.block,
                      .start_block = start->block,
                      .w = weights_of(work, at, panel, at->block),
                      .next = at->next == NULL ? work->weights : at->next,
                      .bias = panel_bias(work, at, panel, panels, bias)};
    tile.pair = weights_of(work, at, panel + 1, at->block) - tile.w;
    if (start->data != NULL) tile.start = start->data + panel_offset(work, at, panel, start);
    if (at->block + at->blocks == work->depth_blocks) set_activation(&view->activation, &tile);
    return tile;
}

/* Which tiles a panel has, or two; `most` positions at once. */
static const conv_tile_fn *tiles_of(const conv_work *work, int64_t panel, int64_t panels,
                                    int64_t *most) {
    bool is_narrow = work->view.out_channels - panel * PANEL <= BLOCK;
    *most = panels == 2 ? PAIR_PIXELS : is_narrow ? NARROW_PIXELS : PIXELS;
    return panels == 2 ? pair_tiles : is_narrow ? narrow_tiles : VEC_SYMBOL(conv_tiles);
}

/* Activations that are not bounds, while the results are near. */
static void activate(const conv_work *work, const conv_part_at *at, int64_t panel, int64_t panels,
                     float *y) {
    const conv_view *view = &work->view;
    int64_t channels = conv_least(panels * PANEL, view->out_channels - panel * PANEL);
    int64_t runs = view->y.column == BLOCK ? 1 : at->place.columns;
    int64_t vectors = at->place.columns / runs * (BLOCK / VF);
    for (int64_t c = 0; c < channels; c += BLOCK, y += view->y.block) {
        for (int64_t i = 0; i < at->place.rows * runs; i++) {
            float *to = y + i / runs * view->y.row + i % runs * view->y.column;
            VEC_SYMBOL(activation)(&view->activation, to, vectors);
        }
    }
}

/* Channels that only fill the last block: 0 times an infinite input is no number, and the next conv
 * multiplies that with its own 0. */
static void settle_rest(const conv_work *work, const conv_part_at *at, int64_t panel, float *y) {
    const conv_view *view = &work->view;
    y += (view->out_channels - panel * PANEL) / BLOCK * view->y.block;
    for (int64_t p = 0; p < at->place.rows * at->place.columns; p++) {
        float *to = y + at->y_at[p];
        for (int64_t i = view->out_channels % BLOCK; i < BLOCK; i++)
            to[i] = to[i] == to[i] ? to[i] : 0.0f;
    }
}

/* One panel or two, one part of the depth, all positions of the rectangle in tiles of nearly equal
 * size: the first ones are one position larger. The first half of the tiles fetches the weights of
 * the next panel, the second those of the panel after it, where there are two. */
static void run_panels(const conv_work *work, const conv_part_at *at, const conv_depth *depth,
                       int64_t panel, int64_t panels) {
    float bias[2 * PANEL];
    int64_t most, positions = at->place.rows * at->place.columns;
    const conv_tile_fn *fns = tiles_of(work, panel, panels, &most);
    conv_tile tile = tile_of(work, at, panel, panels, bias);
    int64_t count = conv_divide_up(positions, most), size = positions / count,
            larger = positions % count, runs = depth->inner * depth->middle * depth->outer,
            floats = panels * work->part_blocks * work->taps * work->width * PANEL;
    if (at->next != NULL) tile.next_piece = conv_divide_up(floats, count * runs);
    for (int64_t i = 0; i < count; i++) {
        int64_t now = size + (i < larger);
        if (panels == 2 && i == count / 2 && at->next != NULL) tile.next = at->next + tile.pair;
        fns[now - 1](depth, &tile);
        tile.x_at += now, tile.y_at += now, tile.start_at += now;
        tile.next += tile.next_piece * runs;
    }
    if (tile.is_activated) activate(work, at, panel, panels, tile.y);
    if (work->view.out_channels % BLOCK != 0 &&
        (panel + panels) * PANEL > work->view.out_channels &&
        at->block + at->blocks == work->depth_blocks)
        settle_rest(work, at, panel, tile.y);
}

/* What this place reads in its part of the depth before `panel`, or after all panels. */
static const float *next_weights(const conv_work *work, const conv_part_at *at, int64_t panel) {
    if (!at->fetches) return NULL;
    if (panel < at->place.panel_end) return weights_of(work, at, panel, at->block);
    if (at->block + at->blocks < work->depth_blocks) {
        return weights_of(work, at, at->place.panel, at->block + at->blocks);
    }
    return NULL;
}

/* Two where two are whole enough. */
static int64_t panels_at(const conv_work *work, const conv_part_at *at, int64_t panel) {
    bool is_pair = work->unit == 2 && panel + 1 < at->place.panel_end &&
                   work->view.out_channels - (panel + 1) * PANEL > BLOCK;
    return is_pair ? 2 : 1;
}

/* Merged groups under an input that is not finite: none of them may see another's. */
CONV_SELDOM void run_apart(const conv_work *work, const conv_part_at *at) {
    const conv_view *view = &work->view;
    const int64_t inputs = work->is_first ? view->in_channels : BLOCK;
    conv_apart apart = {
        .view = view, .place = &at->place, .inputs = inputs, .block = work->taps * inputs * PANEL};
    for (int64_t panel = at->place.panel; panel < at->place.panel_end; panel++) {
        for (int64_t lane = 0; lane < PANEL; lane += VF) {
            apart.w = weights_of(work, at, panel, 0) + lane;
            apart.channel = panel * PANEL + lane;
            if (apart.channel < conv_divide_up(view->out_channels, BLOCK) * BLOCK)
                conv_run_apart(&apart);
        }
    }
}

static void run_place(const conv_work *work, conv_part_at *at, float *workspace) {
    if (work->view.merged > 1 && !conv_is_finite(&work->view, &at->place)) {
        run_apart(work, at);
        return;
    }
    aim_positions(work, at);
    for (at->block = 0; at->block < work->depth_blocks; at->block += at->blocks) {
        at->blocks = conv_least(work->part_blocks, work->depth_blocks - at->block);
        if (work->is_staged) {
            stage(work, at, workspace);
        } else {
            aim(work, at);
        }
        conv_depth depth = depth_of(work, at);
        for (int64_t panel = at->place.panel, panels; panel < at->place.panel_end;
             panel += panels) {
            panels = panels_at(work, at, panel);
            at->next = next_weights(work, at, panel + panels);
            run_panels(work, at, &depth, panel, panels);
        }
    }
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    conv_work now;
    const conv_work *work = args->prepared;
    if (work == NULL) now = work_of(args), work = &now;
    int64_t panel_bytes =
        work->depth_blocks * work->taps * work->width * PANEL * (int64_t)sizeof(float);
    conv_part_at at;
    at.aimed_rows = at.aimed_columns = 0;
    set_strides(work, &at);
    set_offsets(work, &at, args->workspace);
    for (int64_t item = begin; item < end;) {
        at.fetches = item == begin;
        at.place = conv_next_place(&work->view, &work->cut, &item, end);
        if ((at.place.panel_end - at.place.panel) * panel_bytes > NEAR_BYTES) at.fetches = true;
        run_place(work, &at, (float *)args->workspace + offset_floats(work));
    }
}

/* What hangs on shapes alone: as long as the work of a small chunk. */
static void make_work(const rlx_kernel_args *args, void *memory) {
    *(conv_work *)memory = work_of(args);
}

const rlx_cpu_preparation VEC_SYMBOL(conv_preparation) = {
    .run = run, .size = sizeof(conv_work), .make = make_work};

static int64_t items(const rlx_kernel_args *args) {
    conv_work work = work_of(args);
    return conv_items(&work.view, &work.cut);
}

/* In steps of a vector. */
static int64_t item_cost(const rlx_kernel_args *args) {
    conv_work work = work_of(args);
    int64_t steps = work.cut.rows * work.cut.columns * work.cut.item_panels * PANEL_VECTORS;
    return rlx_ref_cost(steps, work.taps * work.view.in_channels);
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    conv_work work = work_of(args);
    if (!work.is_staged) return 0;
    return (uint64_t)offset_floats(&work) * sizeof(float) +
           (uint64_t)(work.part_blocks * work.cut.stage_rows * work.cut.stage_columns *
                      work.width) *
               sizeof(float);
}

static bool is_f32(const rlx_tensor *tensor) {
    return tensor->data == NULL || tensor->dtype == RLX_DTYPE_F32;
}

/* Blocked y and residual; x blocked too, or plain; groups of whole blocks and panels. */
static bool takes(const rlx_target_query *query) {
    const rlx_tensor *x = &query->in[0], *w = &query->in[1];
    const rlx_conv_attrs *attrs = query->attrs;
    uint32_t spatial = w->rank - 2;
    int64_t groups = attrs->groups == 0 ? 1 : attrs->groups;
    if (attrs->winograd != 0) return false;
    if (spatial > 2 || attrs->channel_block != BLOCK || !is_f32(x) || !is_f32(w)) return false;
    if (x->rank > w->rank && !conv_is_blocked(x, spatial)) return false;
    if (!conv_is_blocked(&query->out[0], spatial)) return false;
    if (query->in_count > 2 && !is_f32(&query->in[2])) return false;
    if (query->in_count > 3 && !conv_is_blocked(&query->in[3], spatial)) return false;
    for (uint32_t i = 0; i < w->rank; i++) {
        if (w->dims[i] == 0 || query->out[0].dims[i] == 0) return false;
    }
    return groups == 1 || (w->dims[1] % BLOCK == 0 && w->dims[0] / groups % PANEL == 0);
}

/* The weights of a first layer have few channels: taps, then channels, without padding. */
static rlx_layout wanted_layout(const rlx_tensor *w) {
    if (w->dims[1] < BLOCK) return BLOCK == 8 ? RLX_LAYOUT_TAPS16 : RLX_LAYOUT_TAPS32;
    return BLOCK == 8 ? RLX_LAYOUT_PANELS8X16 : RLX_LAYOUT_PANELS16X32;
}

static bool takes_packed(const rlx_target_query *query) {
    const rlx_tensor *x = &query->in[0], *w = &query->in[1];
    if (!takes(query) || w->layout != wanted_layout(w)) return false;
    return x->rank == w->rank || w->dims[1] >= BLOCK;
}

const rlx_cpu_override VEC_SYMBOL(conv)[] = {
    {RLX_OP_CONV, 0, takes_packed, {VEC_NAME("conv"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
