/* SPDX-License-Identifier: Apache-2.0 */
/* Dense and grouped conv of f32 with channels in blocks: y, residual and x are [N][C / BLOCK][H][W]
 * [BLOCK], weights are in panels. x may also be plain, as the image of a first layer is.
 *
 * An item is a rectangle of output positions and some panels of output channels. The depth (input
 * channels x taps) is done in parts whose weights stay in the first cache while they meet all
 * positions of the item; sums wait in y between two parts, and the first part takes the residual
 * along, so it may lie in the same memory. Inputs that have padding or are plain are first copied
 * to the workspace, a part at a time, with the padding written out. */
#include "backend/cpu/vec/conv_view.h"
#include "ref/access.h"

enum {
    PART_BYTES = 16 * 1024, /* of the weights of a panel in one part of the depth */
    POSITIONS = 100,        /* of an item, about */
    POSITIONS_FIRST = 400,  /* where there is only one part and x is copied */
    ITEMS = 16              /* channels are cut where there are fewer items than this */
};

/* How an item is cut and walked: from dims alone. */
typedef struct conv_cut {
    conv_view view;
    const float *weights;
    bool is_interleaved;         /* depth order of a first layer: taps, then channels */
    bool is_staged;              /* x goes through the workspace */
    int64_t taps, depth_blocks;  /* of the whole depth: channel blocks (1 if interleaved) */
    int64_t part_blocks;         /* of a part */
    int64_t panels, item_panels; /* per group */
    int64_t rows, columns;       /* of an item's rectangle */
    int64_t row_items, column_items, panel_items;
    int64_t stage_rows, stage_columns; /* inputs under a rectangle */
    int64_t stage_width;               /* values per staged position: BLOCK, or all channels */
} conv_cut;

/* A rectangle of about `most` positions: whole rows, or a part of one. */
static void cut_rectangle(conv_cut *cut, int64_t most) {
    int64_t height = cut->view.h.out, width = cut->view.w.out;
    cut->rows = conv_least(height, most / width > 1 ? most / width : 1);
    cut->row_items = conv_divide_up(height, cut->rows);
    cut->rows = conv_divide_up(height, cut->row_items);
    cut->column_items = conv_divide_up(width, most + most / 4);
    cut->columns = conv_divide_up(width, cut->column_items);
}

static void cut_panels(conv_cut *cut) {
    int64_t others = cut->view.batch * cut->view.groups * cut->row_items * cut->column_items;
    cut->panels = conv_divide_up(cut->view.out_channels, PANEL);
    cut->panel_items = conv_least(cut->panels, conv_divide_up(ITEMS, others > 0 ? others : 1));
    cut->item_panels = conv_divide_up(cut->panels, cut->panel_items);
    cut->panel_items = conv_divide_up(cut->panels, cut->item_panels);
}

static void cut_depth(conv_cut *cut) {
    int64_t width = cut->is_interleaved ? cut->view.in_channels : BLOCK;
    int64_t block_bytes = cut->taps * width * PANEL * (int64_t)sizeof(float);
    int64_t most = PART_BYTES / block_bytes > 1 ? PART_BYTES / block_bytes : 1;
    cut->stage_width = width;
    cut->depth_blocks = cut->is_interleaved ? 1 : conv_divide_up(cut->view.in_channels, BLOCK);
    int64_t parts = conv_divide_up(cut->depth_blocks, most);
    cut->part_blocks = conv_divide_up(cut->depth_blocks, parts);
}

static conv_cut make_cut(const rlx_kernel_args *args) {
    conv_cut cut = {.view = conv_view_of(args), .weights = args->in[1].data};
    conv_view *view = &cut.view;
    cut.is_interleaved = args->in[1].layout == (BLOCK == 8 ? RLX_LAYOUT_TAPS16 : RLX_LAYOUT_TAPS32);
    cut.is_staged = !view->is_blocked || conv_is_padded(&view->h) || conv_is_padded(&view->w);
    if (view->is_blocked) conv_join_rows(view);
    cut.taps = view->h.kernel * view->w.kernel;
    cut_depth(&cut);
    cut_rectangle(&cut, cut.is_staged && cut.part_blocks == cut.depth_blocks ? POSITIONS_FIRST
                                                                             : POSITIONS);
    cut_panels(&cut);
    cut.stage_rows = conv_reach(&view->h, cut.rows);
    cut.stage_columns = conv_reach(&view->w, cut.columns);
    return cut;
}

/* A rectangle of outputs and the inputs under it. */
typedef struct conv_place {
    int64_t n, group, panel, panel_end;
    int64_t row, rows, column, columns;
    const float *x; /* first input of the rectangle, of the part's first block */
    int64_t x_block, x_row, x_column;
    int64_t block, blocks; /* the part of the depth */
    const float *next;     /* weights that will be wanted next; NULL: not known */
} conv_place;

/* Copies `count` columns from `column` on of one row of inputs; zeros outside. */
static void stage_row(const conv_cut *cut, const float *from, int64_t column, int64_t channels,
                      float *to) {
    const conv_image *x = &cut->view.x;
    int64_t width = cut->stage_width, in = cut->view.w.in, count = cut->stage_columns;
    int64_t first = column < 0 ? conv_least(-column, count) : 0;
    int64_t end = in - column < count ? (in - column > first ? in - column : first) : count;
    memset(to, 0, (size_t)(first * width) * sizeof *to);
    memset(to + end * width, 0, (size_t)((count - end) * width) * sizeof *to);
    from += (column + first) * x->column;
    to += first * width;
    if (cut->view.is_blocked) {
        if (x->column == BLOCK) {
            memcpy(to, from, (size_t)((end - first) * BLOCK) * sizeof *to);
            return;
        }
        for (int64_t i = first; i < end; i++, from += x->column, to += BLOCK)
            memcpy(to, from, BLOCK * sizeof *to);
        return;
    }
    for (int64_t c = 0; c < width; c++) {
        for (int64_t i = 0; i < end - first; i++)
            to[i * width + c] = c < channels ? from[c * x->block + i * x->column] : 0.0f;
    }
}

/* The inputs under the rectangle, [blocks][stage rows][stage columns][stage width]. */
static void stage(const conv_cut *cut, conv_place *at, float *to) {
    const conv_view *view = &cut->view;
    int64_t row_elements = cut->stage_columns * cut->stage_width;
    int64_t rows = conv_reach(&view->h, at->rows);
    int64_t top = at->row * view->h.stride - view->h.begin;
    int64_t left = at->column * view->w.stride - view->w.begin;
    at->x = to;
    at->x_block = cut->stage_rows * row_elements;
    at->x_row = row_elements;
    at->x_column = cut->stage_width;
    for (int64_t b = 0; b < at->blocks; b++) {
        int64_t channel = (at->block + b) * BLOCK;
        const float *from = view->x.data + at->n * view->x.n;
        from += view->is_blocked
                    ? (at->group * view->in_channels / BLOCK + at->block + b) * view->x.block
                    : (at->group * view->in_channels + channel) * view->x.block;
        for (int64_t r = 0; r < rows; r++) {
            float *row = to + b * at->x_block + r * row_elements;
            if (top + r < 0 || top + r >= view->h.in) {
                memset(row, 0, (size_t)row_elements * sizeof *row);
            } else {
                stage_row(cut, from + (top + r) * view->x.row, left, view->in_channels - channel,
                          row);
            }
        }
    }
}

/* The inputs where they are. */
static void aim(const conv_cut *cut, conv_place *at) {
    const conv_view *view = &cut->view;
    at->x = view->x.data + at->n * view->x.n +
            (at->group * view->in_channels / BLOCK + at->block) * view->x.block +
            at->row * view->h.stride * view->x.row + at->column * view->w.stride * view->x.column;
    at->x_block = view->x.block;
    at->x_row = view->x.row;
    at->x_column = view->x.column;
}

static conv_depth depth_of(const conv_cut *cut, const conv_place *at) {
    const conv_view *view = &cut->view;
    bool is_run = view->w.dilation == 1 && at->x_column == cut->stage_width;
    return (conv_depth){.blocks = at->blocks,
                        .block_stride = at->x_block,
                        .rows = view->h.kernel,
                        .row_stride = view->h.dilation * at->x_row,
                        .taps = is_run ? 1 : view->w.kernel,
                        .tap_stride = view->w.dilation * at->x_column,
                        .run = is_run ? view->w.kernel * cut->stage_width : cut->stage_width};
}

/* clang-format off */
#define EACH_COUNT(M) M(1) M(2) M(3) M(4) M(5) M(6)
#if RLX_VEC_BYTES == 64
#define EACH_WIDE_COUNT(M) M(7) M(8) M(9) M(10) M(11) M(12)
#else
#define EACH_WIDE_COUNT(M)
#endif
/* clang-format on */
#define DEFINE(count)                                                          \
    static void tile_##count(const conv_depth *depth, const conv_tile *tile) { \
        conv_tile_run(depth, tile, count, PANEL_VECTORS);                      \
    }
#define DEFINE_NARROW(count)                                                          \
    static void narrow_tile_##count(const conv_depth *depth, const conv_tile *tile) { \
        conv_tile_run(depth, tile, count, PANEL_VECTORS / 2);                         \
    }
EACH_COUNT(DEFINE)
EACH_WIDE_COUNT(DEFINE)
EACH_COUNT(DEFINE_NARROW)
#undef DEFINE
#undef DEFINE_NARROW
typedef void (*tile_fn)(const conv_depth *depth, const conv_tile *tile);
#define NAME(count)        tile_##count,
#define NARROW_NAME(count) narrow_tile_##count,
/* By the number of positions: a panel, or its first block alone. */
static const tile_fn tiles[] = {EACH_COUNT(NAME) EACH_WIDE_COUNT(NAME)};
static const tile_fn narrow_tiles[] = {EACH_COUNT(NARROW_NAME)};
enum { NARROW_PIXELS = sizeof narrow_tiles / sizeof *narrow_tiles };
#undef NAME
#undef NARROW_NAME

/* Fills a tile with positions [p, p + count) of the rectangle. */
static void aim_tile(const conv_cut *cut, const conv_place *at, int64_t p, int64_t count, float *y,
                     const float *start, const conv_image *start_image, conv_tile *tile) {
    const conv_view *view = &cut->view;
    int64_t row = p / at->columns, column = p % at->columns;
    for (int64_t i = 0; i < count; i++) {
        tile->x[i] =
            at->x + row * view->h.stride * at->x_row + column * view->w.stride * at->x_column;
        tile->y[i] = y + row * view->y.row + column * view->y.column;
        tile->start[i] =
            start == NULL ? NULL : start + row * start_image->row + column * start_image->column;
        if (++column == at->columns) column = 0, row++;
    }
}

static const float *panel_bias(const conv_view *view, const conv_place *at, int64_t channel,
                               float *values) {
    if (view->bias == NULL || at->block != 0) return NULL;
    for (int64_t i = 0; i < PANEL; i++) {
        values[i] =
            channel + i < view->out_channels
                ? view->bias[(at->group * view->out_channels + channel + i) * view->bias_stride]
                : 0.0f;
    }
    return values;
}

static const float *weights_of(const conv_cut *cut, const conv_place *at, int64_t panel,
                               int64_t block) {
    return cut->weights + ((at->group * cut->panels + panel) * cut->depth_blocks + block) *
                              cut->taps * cut->stage_width * PANEL;
}

/* Piece `index` of `count` of the next weights: they come while these are worked on. */
static void fetch_next(const conv_cut *cut, const conv_place *at, int64_t index, int64_t count) {
    int64_t floats = cut->part_blocks * cut->taps * cut->stage_width * PANEL;
    int64_t first = floats * index / count, end = floats * (index + 1) / count;
    if (at->next == NULL) return;
    for (int64_t i = first; i < end; i += 16)
        __builtin_prefetch(at->next + i, 0, 2);
}

/* One panel, one part of the depth, all positions of the rectangle in tiles of nearly equal size.
 */
static void run_panel(const conv_cut *cut, const conv_place *at, const conv_depth *depth,
                      int64_t panel) {
    const conv_view *view = &cut->view;
    float bias[PANEL];
    int64_t channel = panel * PANEL, block = (at->group * view->out_channels + channel) / BLOCK;
    bool is_narrow = view->out_channels - channel <= BLOCK;
    const conv_image *start_image = at->block == 0 ? &view->residual : &view->y;
    int64_t y_at = at->n * view->y.n + block * view->y.block + at->row * view->y.row +
                   at->column * view->y.column;
    const float *start = start_image->data;
    conv_tile tile = {.y_block = view->y.block, .start_block = start_image->block};
    if (start != NULL) {
        start += at->n * start_image->n + block * start_image->block + at->row * start_image->row +
                 at->column * start_image->column;
    }
    tile.w = weights_of(cut, at, panel, at->block);
    tile.bias = panel_bias(view, at, channel, bias);
    tile.activation = at->block + at->blocks == cut->depth_blocks ? &view->activation : NULL;
    int64_t positions = at->rows * at->columns,
            count = conv_divide_up(positions, is_narrow ? NARROW_PIXELS : PIXELS);
    for (int64_t i = 0, p = 0; i < count; i++) {
        int64_t size = conv_divide_up(positions - p, count - i);
        fetch_next(cut, at, i, count);
        aim_tile(cut, at, p, size, view->y.data + y_at, start, start_image, &tile);
        tile_fn run_tile = is_narrow ? narrow_tiles[size - 1] : tiles[size - 1];
        run_tile(depth, &tile);
        p += size;
    }
}

/* What this item reads after the weights of `panel` in its part of the depth. */
static const float *next_weights(const conv_cut *cut, const conv_place *at, int64_t panel) {
    if (panel + 1 < at->panel_end) return weights_of(cut, at, panel + 1, at->block);
    if (at->block + at->blocks < cut->depth_blocks) {
        return weights_of(cut, at, at->panel, at->block + at->blocks);
    }
    return NULL;
}

static conv_place place_of(const conv_cut *cut, int64_t item) {
    const conv_view *view = &cut->view;
    conv_place at = {0};
    at.panel = item % cut->panel_items * cut->item_panels;
    at.panel_end = conv_least(at.panel + cut->item_panels, cut->panels);
    item /= cut->panel_items;
    at.column = item % cut->column_items * cut->columns;
    at.columns = conv_least(cut->columns, view->w.out - at.column);
    item /= cut->column_items;
    at.row = item % cut->row_items * cut->rows;
    at.rows = conv_least(cut->rows, view->h.out - at.row);
    item /= cut->row_items;
    at.group = item % view->groups;
    at.n = item / view->groups;
    return at;
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    conv_cut cut = make_cut(args);
    for (int64_t item = begin; item < end; item++) {
        conv_place at = place_of(&cut, item);
        for (; at.block < cut.depth_blocks; at.block += at.blocks) {
            at.blocks = conv_least(cut.part_blocks, cut.depth_blocks - at.block);
            if (cut.is_staged) {
                stage(&cut, &at, args->workspace);
            } else {
                aim(&cut, &at);
            }
            conv_depth depth = depth_of(&cut, &at);
            for (int64_t panel = at.panel; panel < at.panel_end; panel++) {
                at.next = next_weights(&cut, &at, panel);
                run_panel(&cut, &at, &depth, panel);
            }
        }
    }
}

static int64_t items(const rlx_kernel_args *args) {
    conv_cut cut = make_cut(args);
    return cut.view.batch * cut.view.groups * cut.row_items * cut.column_items * cut.panel_items;
}

/* In steps of a vector. */
static int64_t item_cost(const rlx_kernel_args *args) {
    conv_cut cut = make_cut(args);
    int64_t steps = cut.rows * cut.columns * cut.item_panels * PANEL_VECTORS;
    return rlx_ref_cost(steps, cut.taps * cut.view.in_channels);
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    conv_cut cut = make_cut(args);
    if (!cut.is_staged) return 0;
    return (uint64_t)(cut.part_blocks * cut.stage_rows * cut.stage_columns * cut.stage_width) *
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
