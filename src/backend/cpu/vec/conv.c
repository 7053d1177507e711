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
#include "backend/cpu/vec/conv_stage.h"
#include "ref/access.h"

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

static void set_spread(conv_depth *depth, int64_t inputs) {
    depth->spread = inputs;
    for (int64_t i = 0; i < VF && inputs > 0; i++)
        depth->first_of[i] = (int32_t)(i & -inputs); /* a power of two */
}

static conv_depth depth_of(const conv_work *work, const conv_part_at *at) {
    const conv_view *view = &work->view;
    bool is_run = view->w.dilation == 1 && at->x_column == BLOCK;
    conv_depth depth = {.inner = 1, .middle = 1, .outer = 1};
    if (work->is_first) {
        depth.offsets = at->offsets, depth.singles = work->taps * work->width;
        return depth;
    }
    /* Weights of narrow groups are in the order taps, then channels. */
    bool is_blocks_first = work->narrow > BLOCK;
    if (is_blocks_first) is_run = false;
    if (work->narrow < BLOCK) set_spread(&depth, work->narrow);
    depth.run = is_run ? view->w.kernel * BLOCK : BLOCK;
    int level = 0;
    int64_t reach = depth.run;
    if (is_blocks_first) add_level(&depth, &level, &reach, at->blocks, at->x_block);
    if (!is_run) add_level(&depth, &level, &reach, view->w.kernel, view->w.dilation * at->x_column);
    add_level(&depth, &level, &reach, view->h.kernel, view->h.dilation * at->x_row);
    if (!is_blocks_first) add_level(&depth, &level, &reach, at->blocks, at->x_block);
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
        conv_tile_run(depth, tile, count, PANEL_VECTORS, false, false);        \
    }
#define DEFINE_NARROW(count)                                                          \
    static void narrow_tile_##count(const conv_depth *depth, const conv_tile *tile) { \
        conv_tile_run(depth, tile, count, PANEL_VECTORS / 2, false, false);           \
    }
#define DEFINE_SPREAD(count)                                                          \
    static void spread_tile_##count(const conv_depth *depth, const conv_tile *tile) { \
        conv_tile_run(depth, tile, count, 1, false, true);                            \
    }
#define DEFINE_PAIR(count)                                                          \
    static void pair_tile_##count(const conv_depth *depth, const conv_tile *tile) { \
        conv_tile_run(depth, tile, count, PAIR_VECTORS, true, false);               \
    }
EACH_COUNT(DEFINE)
EACH_WIDE_COUNT(DEFINE)
DEFINE_NARROW(6)
DEFINE_NARROW(12)
DEFINE_SPREAD(12)
EACH_PAIR_COUNT(DEFINE_PAIR)
#undef DEFINE
#undef DEFINE_NARROW
#undef DEFINE_SPREAD
#undef DEFINE_PAIR
#define NAME(count)      tile_##count,
#define PAIR_NAME(count) pair_tile_##count,
/* By the number of positions: a panel, or two of a 1 x 1 kernel. */
const conv_tile_fn VEC_SYMBOL(conv_tiles)[] = {EACH_COUNT(NAME) EACH_WIDE_COUNT(NAME)};
static const conv_tile_fn pair_tiles[] = {EACH_PAIR_COUNT(PAIR_NAME) NULL};
/* The first block of a panel alone, of 6 or 12 positions: fewer take as long as 6. Spread inputs
 * have 12 alone, which is less code. */
enum { NARROW_PIXELS = 12 };
static const conv_tile_fn narrow_tiles[] = {narrow_tile_6, narrow_tile_12};
#undef NAME
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
    if (work->narrow != 0) {
        int64_t group = at->place.group;
        return work->weights + group / 2 * work->taps * work->narrow * PANEL + group % 2 * BLOCK;
    }
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

/* The last tile of a place with one block of channels: what is left of it is its last position,
 * once more. */
static void fill_tile(conv_tile *tile, int64_t count, int64_t ends[3][NARROW_PIXELS]) {
    const int64_t **at[] = {&tile->x_at, &tile->y_at, &tile->start_at};
    for (int i = 0; i < 3; i++) {
        for (int64_t p = 0; p < NARROW_PIXELS; p++)
            ends[i][p] = (*at[i])[conv_least(p, count - 1)];
        *at[i] = ends[i];
    }
}

/* All positions of a place for one block of channels; of spread inputs for a vector of them after
 * the other. */
static void run_narrow(const conv_depth *depth, conv_tile tile, int64_t positions) {
    int64_t ends[3][NARROW_PIXELS];
    const bool is_spread = depth->spread != 0;
    const int64_t lanes = is_spread ? VF : BLOCK;
    for (int64_t left = positions; left > 0;) {
        const bool is_long = is_spread || left > NARROW_PIXELS / 2;
        const conv_tile_fn fn = is_spread ? spread_tile_12 : narrow_tiles[is_long];
        const int64_t now = is_long ? NARROW_PIXELS : NARROW_PIXELS / 2;
        if (left < now) fill_tile(&tile, left, ends);
        conv_tile part = tile;
        for (int64_t lane = 0; lane < BLOCK; lane += lanes) {
            fn(depth, &part);
            part.x += lanes, part.y += lanes, part.w += lanes;
            if (part.start != NULL) part.start += lanes;
            if (part.bias != NULL) part.bias += lanes;
        }
        tile.x_at += now, tile.y_at += now, tile.start_at += now, left -= now;
        tile.next += tile.next_piece * depth->inner * depth->middle * depth->outer;
    }
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
    const int32_t used = (int32_t)(view->out_channels % BLOCK);
    const int64_t positions = at->place.rows * at->place.columns;
    y += (view->out_channels - panel * PANEL) / BLOCK * view->y.block;
    for (int32_t lane = used / VF * VF; lane < BLOCK; lane += VF) {
        vec_parts is_used;
        for (int32_t i = 0; i < VF; i++)
            is_used.i[i] = lane + i < used ? -1 : 0;
        for (int64_t p = 0; p < positions; p++) {
            float *to = y + at->y_at[p] + lane;
            const vf x = vf_load(to);
            vf_store(to, (vf)((vi)x & (is_used.i | (x == x))));
        }
    }
}

/* One panel or two, one part of the depth, all positions of the rectangle in tiles of nearly equal
 * size: the first ones are one position larger. The first half of the tiles fetches the weights of
 * the next panel, the second those of the panel after it, where there are two. */
static void run_panels(const conv_work *work, const conv_part_at *at, const conv_depth *depth,
                       int64_t panel, int64_t panels) {
    float bias[2 * PANEL];
    const bool is_narrow = work->view.out_channels - panel * PANEL <= BLOCK;
    const conv_tile_fn *fns = panels == 2 ? pair_tiles : VEC_SYMBOL(conv_tiles);
    int64_t most = panels == 2 ? PAIR_PIXELS : is_narrow ? NARROW_PIXELS : PIXELS;
    int64_t positions = at->place.rows * at->place.columns;
    conv_tile tile = tile_of(work, at, panel, panels, bias);
    int64_t count = conv_divide_up(positions, most), size = positions / count,
            larger = positions % count, runs = depth->inner * depth->middle * depth->outer,
            floats = panels * work->part_blocks * work->taps * work->width * PANEL;
    if (at->next != NULL) tile.next_piece = conv_divide_up(floats, count * runs);
    if (is_narrow) run_narrow(depth, tile, positions);
    for (int64_t i = 0; i < count && !is_narrow; i++) {
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

/* Where there are others behind the panels of a place but none before, they are done from the last
 * one down: processors that have seen one panel after the other ask for the next two, and whoever
 * works on those would have to fetch them back. */
static bool is_downwards(const conv_work *work, const conv_place *place) {
    return work->unit == 1 && place->panel == 0 && place->panel_end < work->cut.panels;
}

/* Weights that are wanted behind those of `panel`, of `panels` at once: of another panel, or of the
 * next part of the depth. */
static const float *next_weights(const conv_work *work, const conv_part_at *at, int64_t panel,
                                 int64_t panels) {
    const conv_place *place = &at->place;
    const bool is_down = is_downwards(work, place);
    const int64_t next = is_down ? panel - 1 : panel + panels,
                  first = is_down ? place->panel_end - 1 : place->panel;
    if (!at->fetches || work->narrow != 0) return NULL;
    if (next >= place->panel && next < place->panel_end)
        return weights_of(work, at, next, at->block);
    if (at->block + at->blocks < work->depth_blocks)
        return weights_of(work, at, first, at->block + at->blocks);
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
        int64_t first = at->place.panel, last = at->place.panel_end - 1;
        for (int64_t p = first, panels; p <= last; p += panels) {
            const int64_t panel = is_downwards(work, &at->place) ? first + last - p : p;
            panels = panels_at(work, at, p);
            at->next = next_weights(work, at, panel, panels);
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

static bool is_narrow_groups(const rlx_tensor *w, int64_t groups) {
    return groups > 1 && rlx_conv_is_narrow(BLOCK, w->dims[1], w->dims[0] / groups, groups);
}

/* Blocked y and residual; x blocked too, or plain; groups of whole blocks and panels, or narrow. */
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
    return groups == 1 || (w->dims[1] % BLOCK == 0 && w->dims[0] / groups % PANEL == 0) ||
           is_narrow_groups(w, groups);
}

/* The weights of a first layer have few channels: taps, then channels, without padding. */
static rlx_layout wanted_layout(const rlx_tensor *w, int64_t groups) {
    if (w->dims[1] < BLOCK || is_narrow_groups(w, groups))
        return BLOCK == 8 ? RLX_LAYOUT_TAPS16 : RLX_LAYOUT_TAPS32;
    return BLOCK == 8 ? RLX_LAYOUT_PANELS8X16 : RLX_LAYOUT_PANELS16X32;
}

static bool takes_packed(const rlx_target_query *query) {
    const rlx_tensor *x = &query->in[0], *w = &query->in[1];
    int64_t groups = ((const rlx_conv_attrs *)query->attrs)->groups;
    if (!takes(query) || w->layout != wanted_layout(w, groups)) return false;
    return x->rank == w->rank || w->dims[1] >= BLOCK || groups > 1;
}

const rlx_cpu_override VEC_SYMBOL(conv)[] = {
    {RLX_OP_CONV, 0, takes_packed, {VEC_NAME("conv"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
