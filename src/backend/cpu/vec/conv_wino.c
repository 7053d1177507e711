/* SPDX-License-Identifier: Apache-2.0 */
/* Dense 3 x 3 conv of stride 1 by Winograd's minimal filtering: x, y and residual have channels in
 * blocks, weights are points (conv with `winograd` set), [panel][point][input channel][PANEL].
 *
 * An item is a run of tiles (over the whole batch) and some panels of output channels. Its inputs
 * are turned to points, [point][tile][input channel], once for all its panels; then, panel by
 * panel, every point is a small product with the register tile of conv.c, and the products go back
 * to outputs while they are near. Items that differ in panels alone and follow each other share
 * their points.
 *
 * A tile's points mix all its inputs, so an infinity (or a sum that overflows) would reach outputs
 * that do not see it: results of a tile that are not finite are computed again, tap by tap. */
#include "backend/cpu/vec/conv_apart.h"
#include "backend/cpu/vec/conv_wino_tile.h"
#include "ref/access.h"

enum {
    NEAR_BYTES = 288 * 1024,       /* of an item's points: they stay in the second cache, */
    WIDE_NEAR_BYTES = 1024 * 1024, /* also as many where vectors are wide */
    LEAST_TILES = 2 * PIXELS,
    MOST_TILES = 48,
    WIDE_MOST_TILES = 64,
    RUN = 32,  /* channels in one go of the inner loop, which then asks for the next weights */
    ITEMS = 8, /* panels are cut where there are fewer items than this, */
    LEAST_PANELS = VF < 16 ? 4 : 2, /* but not into less than so many */
    SKEW = 64 / (int)sizeof(float), /* between points, so that they do not meet in the cache */
    TAPS = 9
};

/* What a step does, from dims alone. */
typedef struct wino_work {
    conv_view view;
    const float *weights;
    int edge;
    int64_t points;
    int64_t columns, image_tiles, tiles; /* tiles in a row, of an image, of the batch */
    int64_t panels, panel_items, tile_items, item_tiles;
    int64_t x_tile, x_point; /* from tile to tile and from point to point of the inputs' points */
    int64_t y_point;         /* and of the products; a tile has PANEL of them */
    bool is_bounded, is_activated; /* the activation is bounds, or something else */
    vf low, high;
} wino_work;

/* Of an item. Weights come from far away, once for every item, and those of small images are large:
 * where the second cache can hold it, such an image is one item. (Large images would only need
 * larger workspaces, while the arena is full.) */
static int64_t most_tiles(const wino_work *work) {
    const int64_t tile_bytes = work->points * work->x_tile * (int64_t)sizeof(float);
    const int64_t near = NEAR_BYTES / tile_bytes, wide = WIDE_NEAR_BYTES / tile_bytes;
    if (VF >= 16 && work->tiles <= WIDE_MOST_TILES && wide >= LEAST_TILES) {
        bool has_parts = work->panels >= 2 * LEAST_PANELS; /* for several threads */
        return conv_least(has_parts ? WIDE_MOST_TILES : work->tiles / 2 + 1, wide);
    }
    return conv_least(MOST_TILES, near < LEAST_TILES ? LEAST_TILES : near / PIXELS * PIXELS);
}

static wino_work work_of(const rlx_kernel_args *args) {
    const rlx_conv_attrs *attrs = args->attrs;
    wino_work work = {.view = conv_view_of(args), .weights = args->in[1].data};
    const conv_view *view = &work.view;
    int64_t edge = attrs->winograd;
    work.edge = (int)edge;
    work.points = (edge + 2) * (edge + 2);
    work.columns = conv_divide_up(view->w.out, edge);
    work.image_tiles = work.columns * conv_divide_up(view->h.out, edge);
    work.tiles = work.image_tiles * view->batch;
    work.panels = conv_divide_up(view->out_channels, PANEL);
    work.x_tile = conv_divide_up(view->in_channels, BLOCK) * BLOCK;
    work.tile_items = conv_even(conv_divide_up(work.tiles, most_tiles(&work)), work.tiles);
    work.item_tiles = conv_divide_up(work.tiles, work.tile_items);
    work.panel_items = conv_least(conv_divide_up(ITEMS, work.tile_items),
                                  conv_divide_up(work.panels, LEAST_PANELS));
    work.x_point = work.item_tiles * work.x_tile + SKEW;
    work.y_point = work.item_tiles * PANEL + SKEW;
    return work;
}

/* Relu and clip are bounds. */
static void set_activation(wino_work *work) {
    const rlx_activation *activation = &work->view.activation;
    bool is_clip = activation->op == RLX_OP_CLIP;
    work->is_bounded = is_clip || activation->op == RLX_OP_RELU;
    work->low = vf_set(is_clip ? (float)activation->alpha : 0.0f);
    work->high = vf_set(is_clip ? (float)activation->beta : VEC_INFINITY);
    work->is_activated = !work->is_bounded && activation->op != RLX_OP_NONE;
}

/* Where a tile is. */
typedef struct wino_spot {
    int64_t n, row, column;
    int64_t rows, columns; /* of its outputs that there are */
} wino_spot;

/* An item, or several that share their tiles. */
typedef struct wino_place {
    int64_t tile, tiles, panel, panel_end;
    float *x, *y; /* points of inputs, products of a panel */
    int64_t x_at[WIDE_MOST_TILES + 1], y_at[WIDE_MOST_TILES + 1];
    wino_spot spots[WIDE_MOST_TILES];
} wino_place;

static wino_spot spot_of(const wino_work *work, int64_t tile) {
    const conv_view *view = &work->view;
    int64_t at = tile % work->image_tiles;
    wino_spot spot = {.n = tile / work->image_tiles,
                      .row = at / work->columns * work->edge,
                      .column = at % work->columns * work->edge};
    spot.rows = conv_least(work->edge, view->h.out - spot.row);
    spot.columns = conv_least(work->edge, view->w.out - spot.column);
    return spot;
}

/* Inputs of a tile: [side][side][BLOCK] from `data` on, where the image is; `top` and `left` may
 * lie outside. */
typedef struct wino_inputs {
    const float *data; /* of row `top`, column `left` */
    int64_t top, left;
    bool is_inner; /* all are there */
} wino_inputs;

static wino_inputs inputs_of(const wino_work *work, const wino_spot *spot) {
    const conv_view *view = &work->view;
    wino_inputs in = {.top = spot->row - view->h.begin, .left = spot->column - view->w.begin};
    int64_t side = work->edge + 2;
    in.is_inner =
        in.top >= 0 && in.left >= 0 && in.top + side <= view->h.in && in.left + side <= view->w.in;
    in.data = view->x.data;
    if (in.is_inner) {
        in.data += spot->n * view->x.n + in.top * view->x.row + in.left * view->x.column;
    } else {
        in.data += spot->n * view->x.n;
    }
    return in;
}

/* The same with zeros outside; `image` is the block at row and column 0. */
static void copy_inputs(const wino_work *work, const wino_inputs *in, const float *image,
                        float *to) {
    const conv_view *view = &work->view;
    const int64_t side = work->edge + 2;
    for (int64_t i = 0; i < side; i++) {
        for (int64_t j = 0; j < side; j++, to += BLOCK) {
            int64_t row = in->top + i, column = in->left + j;
            bool is_there = row >= 0 && row < view->h.in && column >= 0 && column < view->w.in;
            const float *from =
                image + (is_there ? row * view->x.row + column * view->x.column : 0);
            for (int v = 0; v < BLOCK; v += VF)
                vf_store(to + v, is_there ? vf_load(from + v) : vf_set(0.0f));
        }
    }
}

static void in_2(const float *x, int64_t row, int64_t column, float *to, int64_t point) {
    wino_in(x, row, column, to, point, 2);
}
static void in_4(const float *x, int64_t row, int64_t column, float *to, int64_t point) {
    wino_in(x, row, column, to, point, 4);
}

/* Block by block, so that neighbours find the inputs that they share. */
static void transform_inputs(const wino_work *work, const wino_place *place) {
    const conv_view *view = &work->view;
    float copy[WINO_MOST_SIDE * WINO_MOST_SIDE * BLOCK];
    for (int64_t b = 0; b < work->x_tile / BLOCK; b += 2) {
        int64_t end = conv_least(b + 2, work->x_tile / BLOCK);
        for (int64_t t = 0; t < place->tiles; t++) {
            wino_inputs in = inputs_of(work, &place->spots[t]);
            for (int64_t c = b; c < end; c++) {
                const float *x = in.data + c * view->x.block;
                int64_t row = view->x.row, column = view->x.column;
                if (!in.is_inner) {
                    copy_inputs(work, &in, x, copy);
                    x = copy, column = BLOCK, row = (work->edge + 2) * BLOCK;
                }
                (work->edge == 2 ? in_2 : in_4)(
                    x, row, column, place->x + place->x_at[t] + c * BLOCK, work->x_point);
            }
        }
    }
}

static const float *weights_of(const wino_work *work, int64_t panel, int64_t point) {
    return work->weights + (panel * work->points + point) * work->view.in_channels * PANEL;
}

/* All points of a panel. */
static void multiply(const wino_work *work, const wino_place *place, int64_t panel) {
    const int64_t depth_channels = work->view.in_channels;
    const int64_t count = conv_divide_up(place->tiles, PIXELS), size = place->tiles / count,
                  larger = place->tiles % count;
    /* Asked for all at once, the weights of the next point would hold up everything else. */
    const int64_t rest = depth_channels % CONV_TURN, whole = depth_channels - rest;
    const bool is_cut = VF >= 16 && depth_channels % RUN == 0;
    int64_t offsets[CONV_TURN];
    for (int64_t i = 0; i < rest; i++)
        offsets[i] = whole + i;
    const conv_depth depth = {.run = is_cut ? RUN : whole,
                              .inner = is_cut ? whole / RUN : 1,
                              .middle = 1,
                              .outer = 1,
                              .offsets = offsets,
                              .singles = rest};
    for (int64_t p = 0; p < work->points; p++) {
        conv_tile tile = {.x = place->x + p * work->x_point,
                          .y = place->y + p * work->y_point,
                          .x_at = place->x_at,
                          .y_at = place->y_at,
                          .y_block = BLOCK,
                          .w = weights_of(work, panel, p)};
        tile.next = tile.w + depth_channels * PANEL;
        tile.next_piece = depth.run * PANEL / count;
        for (int64_t i = 0; i < count; i++) {
            int64_t now = size + (i < larger);
            VEC_SYMBOL(conv_tiles)[now - 1](&depth, &tile);
            tile.x_at += now, tile.y_at += now;
            tile.next += tile.next_piece * depth.inner;
        }
    }
}

static void out_2(const float *from, int64_t point, vf *y) {
    wino_out(from, point, y, 2);
}
static void out_4(const float *from, int64_t point, vf *y) {
    wino_out(from, point, y, 4);
}

/* A vector of output channels of one tile. */
typedef struct wino_lanes {
    const wino_spot *spot;
    int64_t panel, lane; /* the first one in its panel */
} wino_lanes;

static int64_t first_channel(const wino_lanes *lanes) {
    return lanes->panel * PANEL + lanes->lane;
}

/* Where the first output of the tile is, of those channels. */
static int64_t offset_in(const conv_image *image, const wino_lanes *lanes) {
    const wino_spot *spot = lanes->spot;
    return spot->n * image->n + first_channel(lanes) / BLOCK * image->block +
           spot->row * image->row + spot->column * image->column + lanes->lane % BLOCK;
}

/* The taps of an input channel, from its weights at points; where the last of these is NaN the taps
 * are there themselves. */
CONV_SELDOM void taps_of(const wino_work *work, const wino_lanes *lanes, int64_t c, vf *taps) {
    const int64_t step = work->view.in_channels * PANEL, side = work->edge + 2;
    const float *u = weights_of(work, lanes->panel, 0) + c * PANEL + lanes->lane;
    const vf first = vf_set((float)rlx_winograd_first(work->edge));
    const vf second = vf_set((float)rlx_winograd_second(work->edge));
    vf rows[3 * 4]; /* taps along rows, points along columns */
    for (int j = 0; j < 4; j++) {
        const float *at = u + (j == 3 ? side - 1 : j) * step;
        rows[j] = first * vf_load(at);
        rows[4 + j] = second * (vf_load(at + side * step) - vf_load(at + 2 * side * step));
        rows[8 + j] = vf_load(at + (side - 1) * side * step);
    }
    for (int i = 0; i < 3; i++) {
        taps[3 * i] = first * rows[4 * i];
        taps[3 * i + 1] = second * (rows[4 * i + 1] - rows[4 * i + 2]);
        taps[3 * i + 2] = rows[4 * i + 3];
    }
    const vf last = vf_load(u + (side * side - 1) * step);
    for (int k = 0; k < TAPS; k++)
        taps[k] = vf_select(last == last, taps[k], vf_load(u + (k / 3 * side + k % 3) * step));
}

/* One input channel, tap by tap. */
CONV_SELDOM void add_channel(const wino_work *work, const wino_lanes *lanes, int64_t c, vf *y) {
    const conv_view *view = &work->view;
    const wino_spot *spot = lanes->spot;
    const float *x = view->x.data + spot->n * view->x.n + c / BLOCK * view->x.block + c % BLOCK;
    vf taps[TAPS];
    taps_of(work, lanes, c, taps);
    for (int64_t i = 0; i < spot->rows; i++) {
        for (int64_t j = 0; j < spot->columns; j++) {
            for (int k = 0; k < TAPS; k++) {
                int64_t row = spot->row + i - view->h.begin + k / 3;
                int64_t column = spot->column + j - view->w.begin + k % 3;
                vf one = vf_set(conv_input_at(view, x, row, column));
                y[i * work->edge + j] = vf_fma(one, taps[k], y[i * work->edge + j]);
            }
        }
    }
}

/* What is not finite may come of an input that the output does not see: tap by tap it does not, and
 * neither does a group see another that it was merged with. Channels that there are not are 0. */
CONV_SELDOM void compute_again(const wino_work *work, const wino_lanes *lanes, vf *y) {
    const conv_view *view = &work->view;
    const int64_t inputs = view->in_channels / view->merged;
    int64_t first, end = conv_parts_of(view, first_channel(lanes), &first);
    for (int i = 0; i < work->edge * work->edge; i++)
        y[i] = vf_set(0.0f);
    for (int64_t part = first; part < end; part++) {
        const vi own = conv_lanes_of(view, first_channel(lanes), part);
        vf sums[WINO_MOST_EDGE * WINO_MOST_EDGE] = {{0}};
        for (int64_t c = part * inputs; c < (part + 1) * inputs; c++)
            add_channel(work, lanes, c, sums);
        for (int i = 0; i < work->edge * work->edge; i++)
            y[i] = vf_select(own, sums[i], y[i]);
    }
}

static bool is_finite(const vf *y, int64_t count) {
    vf rest = vf_set(0.0f);
    for (int64_t i = 0; i < count; i++)
        rest = vf_fma(y[i], vf_set(0.0f), rest);
    return vi_all((vi)(rest == rest));
}

/* Outputs [edge][edge] with residual and activation to where they belong. */
static void store(const wino_work *work, const wino_lanes *lanes, vf *y) {
    const conv_view *view = &work->view;
    const wino_spot *spot = lanes->spot;
    if (view->residual.data != NULL) {
        const float *from = view->residual.data + offset_in(&view->residual, lanes);
        for (int64_t i = 0; i < spot->rows; i++, from += view->residual.row) {
            for (int64_t j = 0; j < spot->columns; j++)
                y[i * work->edge + j] += vf_load(from + j * view->residual.column);
        }
    }
    if (work->is_activated) VEC_SYMBOL(activation)(&view->activation, y, work->edge * work->edge);
    float *to = view->y.data + offset_in(&view->y, lanes);
    for (int64_t i = 0; i < spot->rows; i++, to += view->y.row) {
        for (int64_t j = 0; j < spot->columns; j++) {
            vf one = y[i * work->edge + j];
            if (work->is_bounded) one = vf_min(work->high, vf_max(work->low, one));
            vf_store(to + j * view->y.column, one);
        }
    }
}

/* The products of a panel to outputs. */
static void finish(const wino_work *work, const wino_place *place, int64_t panel) {
    const int64_t blocks = conv_divide_up(work->view.out_channels, BLOCK);
    const int64_t lanes_end = conv_least(PANEL, blocks * BLOCK - panel * PANEL);
    const int outputs = work->edge * work->edge;
    vf bias[PANEL_VECTORS];
    for (int v = 0; v < PANEL_VECTORS; v++)
        bias[v] = conv_bias_of(&work->view, 0, panel * PANEL + v * VF);
    for (int64_t t = 0; t < place->tiles; t++) {
        const wino_spot *spot = &place->spots[t];
        for (int64_t lane = 0; lane < lanes_end; lane += VF) {
            vf y[WINO_MOST_EDGE * WINO_MOST_EDGE];
            const wino_lanes lanes = {.spot = spot, .panel = panel, .lane = lane};
            (work->edge == 2 ? out_2 : out_4)(place->y + place->y_at[t] + lane, work->y_point, y);
            if (!is_finite(y, outputs)) compute_again(work, &lanes, y);
            for (int i = 0; i < outputs; i++)
                y[i] += bias[lane / VF];
            store(work, &lanes, y);
        }
    }
}

/* Items from *item on that share their tiles are one place; *item moves behind them. */
static void next_place(const wino_work *work, wino_place *place, int64_t *item, int64_t end) {
    int64_t size, index = *item / work->panel_items, first = *item % work->panel_items;
    int64_t count = conv_least(work->panel_items - first, end - *item);
    place->panel = conv_part(work->panels, first, work->panel_items, &size);
    place->panel_end = conv_part(work->panels, first + count - 1, work->panel_items, &size);
    place->panel_end += size;
    place->tile = conv_part(work->tiles, index, work->tile_items, &place->tiles);
    for (int64_t t = 0; t < place->tiles; t++)
        place->spots[t] = spot_of(work, place->tile + t);
    *item += count;
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    wino_work work = work_of(args);
    wino_place place;
    set_activation(&work);
    place.x = args->workspace;
    place.y = place.x + work.points * work.x_point;
    for (int64_t t = 0; t < work.item_tiles; t++) {
        place.x_at[t] = t * work.x_tile;
        place.y_at[t] = t * PANEL;
    }
    for (int64_t item = begin; item < end;) {
        next_place(&work, &place, &item, end);
        transform_inputs(&work, &place);
        for (int64_t panel = place.panel; panel < place.panel_end; panel++) {
            multiply(&work, &place, panel);
            finish(&work, &place, panel);
        }
    }
}

static int64_t items(const rlx_kernel_args *args) {
    wino_work work = work_of(args);
    return work.tile_items * work.panel_items;
}

/* In steps of a vector. */
static int64_t item_cost(const rlx_kernel_args *args) {
    wino_work work = work_of(args);
    int64_t steps = work.item_tiles * conv_divide_up(work.panels, work.panel_items) * PANEL_VECTORS;
    return rlx_ref_cost(steps, work.points * work.view.in_channels);
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    wino_work work = work_of(args);
    return (uint64_t)(work.points * (work.x_point + work.y_point)) * sizeof(float);
}

static bool is_f32(const rlx_target_query *query, uint32_t input) {
    return query->in_count <= input || query->in[input].data == NULL ||
           query->in[input].dtype == RLX_DTYPE_F32;
}

/* The shape rule has seen to kernel, strides and groups. */
static bool takes(const rlx_target_query *query) {
    const rlx_tensor *x = &query->in[0], *w = &query->in[1], *y = &query->out[0];
    const rlx_conv_attrs *attrs = query->attrs;
    if (attrs->winograd == 0 || attrs->channel_block != BLOCK) return false;
    if (w->layout != (BLOCK == 8 ? RLX_LAYOUT_TAPS16 : RLX_LAYOUT_TAPS32)) return false;
    if (!conv_is_blocked(x, 2) || !conv_is_blocked(y, 2) || !is_f32(query, 1) || !is_f32(query, 2))
        return false;
    if (query->in_count > 3 && !conv_is_blocked(&query->in[3], 2)) return false;
    for (uint32_t i = 0; i < w->rank; i++) {
        if (w->dims[i] == 0 || y->dims[i] == 0) return false;
    }
    return true;
}

const rlx_cpu_override VEC_SYMBOL(conv_wino)[] = {
    {RLX_OP_CONV, 0, takes, {VEC_NAME("conv_wino"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
