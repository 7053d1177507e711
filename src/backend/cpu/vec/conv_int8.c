/* SPDX-License-Identifier: Apache-2.0 */
/* Dense and grouped conv_quantised: y and residual are [N][C / BLOCK][H][W][BLOCK], x too, or plain
 * as the image of a first layer is; weights are in panels with channels in pairs.
 *
 * An item is a rectangle of output positions and some panels of output channels. The inputs under
 * it are copied to the workspace as 16-bit integers less their zero point, so that padding is 0 and
 * nothing is to be put right afterwards. A pair of 16-bit products cannot overflow 32 bits. The
 * depth is done in parts whose weights stay in the
 * first cache; sums wait in the workspace and become bytes when they are complete.
 *
 * VNNI multiplies four bytes at once, and so does AVX2 where weights are so small that 16 bits hold
 * the sums: inputs stay bytes there, with the zero point as padding, and the weights of a part are
 * made bytes on the way, where all of them fit; what the zero point adds is taken out before the
 * first product. */
#include "backend/cpu/vec/conv_int8_tile.h"
#include "base/cpu.h"

enum {
    PART_BYTES = 16 * 1024, /* of the weights of a panel in one part of the depth */
    /* Of an item, about: weights that are made bytes are to be used often. */
    POSITIONS = HAS_FOURS ? 180 : 120,
/* The level `wide` has VNNI in plain C, for the tests. */
#if defined(__AVX512F__)
    NEEDS = RLX_CPU_VNNI
#else
    NEEDS = 0
#endif
};

/* What a step does, from dims alone. */
typedef struct int8_work {
    int8_conv conv;
    conv_cut cut;
    const int16_t *weights;
    bool is_first;               /* few channels: depth is taps, then channels */
    int64_t taps, width;         /* 16-bit values per staged position: BLOCK, or all channels */
    int64_t blocks, part_blocks; /* of the depth */
    int64_t most_blocks;         /* that a part can have */
} int8_work;

static int8_work work_of(const rlx_kernel_args *args) {
    int8_work work = {.conv = int8_conv_of(args), .weights = args->in[1].data};
    conv_view *view = &work.conv.view;
    work.is_first = args->in[1].layout == (BLOCK == 8 ? RLX_LAYOUT_TAPS16X2 : RLX_LAYOUT_TAPS32X2);
    if (view->is_blocked) conv_join_rows(view);
    work.taps = view->h.kernel * view->w.kernel;
    work.width = work.is_first ? view->in_channels + view->in_channels % 2 : BLOCK;
    work.blocks = work.is_first ? 1 : conv_divide_up(view->in_channels, BLOCK);
    int64_t most = PART_BYTES / (work.taps * work.width * PANEL * (int64_t)sizeof(int16_t));
    work.most_blocks = conv_least(work.blocks, most > 1 ? most : 1);
    work.part_blocks = conv_divide_up(work.blocks, conv_divide_up(work.blocks, work.most_blocks));
    work.cut = conv_cut_of(view, POSITIONS, 1);
    return work;
}

/* How inputs and weights of a part are multiplied: in words of two shorts, or of four bytes. */
typedef struct int8_way {
    bool is_bytes;
    int64_t words; /* per staged position */
    const tile_fn *tiles;
    int64_t tile_positions; /* of the highest of them */
    int32_t *x;             /* staged inputs */
} int8_way;

/* Bytes less their zero point, or as they are. */
static void put(const int8_conv *conv, const uint8_t *from, int64_t count, bool is_bytes,
                uint8_t *to) {
    int16_t *shorts = (int16_t *)(void *)to, zero = (int16_t)conv->zero;
    const uint8_t flip = conv->flip;
    for (int64_t i = 0; is_bytes && i < count; i++)
        to[i] = from[i] ^ flip;
    for (int64_t i = 0; !is_bytes && i < count; i++)
        shorts[i] = (int16_t)((uint8_t)(from[i] ^ flip) - zero);
}

/* The same of one channel of a plain image, `width` bytes apart. */
static void put_channel(const int8_conv *conv, const uint8_t *from, int64_t count, bool is_bytes,
                        uint8_t *to, int64_t width) {
    const int64_t step = conv->view.x.column;
    const uint8_t flip = conv->flip;
    for (int64_t i = 0; i < count; i++, from += step, to += width) {
        int16_t value = (int16_t)((uint8_t)(*from ^ flip) - conv->zero);
        if (is_bytes) {
            *to = *from ^ flip;
        } else {
            memcpy(to, &value, sizeof value);
        }
    }
}

/* One row of inputs from `column` on; the zero point outside. */
static void stage_row(const int8_work *work, const int8_way *way, const uint8_t *from,
                      int64_t column, uint8_t *to) {
    const conv_view *view = &work->conv.view;
    int64_t count = work->cut.stage_columns, step = view->x.column;
    int64_t first = column < 0 ? conv_least(-column, count) : 0;
    int64_t end = conv_least(count, view->w.in - column), size = way->is_bytes ? 1 : 2;
    const int64_t width = way->words * (int64_t)sizeof *way->x; /* in bytes */
    const int outside = way->is_bytes ? work->conv.zero : 0;
    if (end < first) end = first;
    memset(to, outside, (size_t)(first * width));
    memset(to + end * width, outside, (size_t)((count - end) * width));
    from += (column + first) * step;
    to += first * width;
    if (view->is_blocked && step == BLOCK) {
        put(&work->conv, from, (end - first) * BLOCK, way->is_bytes, to);
    } else if (view->is_blocked) {
        for (int64_t i = first; i < end; i++, from += step, to += width)
            put(&work->conv, from, BLOCK, way->is_bytes, to);
    } else {
        memset(to, 0, (size_t)((end - first) * width));
        for (int64_t c = 0; c < view->in_channels; c++)
            put_channel(&work->conv, from + c * view->x.block, end - first, way->is_bytes,
                        to + c * size, width);
    }
}

/* The inputs under the rectangle, [blocks][stage rows][stage columns][words]. */
static void stage(const int8_work *work, const int8_way *way, const conv_place *at) {
    const conv_view *view = &work->conv.view;
    int64_t row_words = work->cut.stage_columns * way->words, rows = conv_reach(&view->h, at->rows);
    int64_t top = at->row * view->h.stride - view->h.begin;
    int64_t left = at->column * view->w.stride - view->w.begin;
    for (int64_t b = 0; b < work->blocks; b++) {
        const uint8_t *from = (const uint8_t *)view->x.data + at->n * view->x.n;
        int64_t channel = at->group * view->in_channels;
        from += (view->is_blocked ? channel / BLOCK + b : channel) * view->x.block;
        for (int64_t r = 0; r < rows; r++) {
            int32_t *row = way->x + (b * work->cut.stage_rows + r) * row_words;
            if (top + r < 0 || top + r >= view->h.in) {
                memset(row, way->is_bytes ? work->conv.zero : 0, (size_t)row_words * sizeof *row);
            } else {
                stage_row(work, way, from + (top + r) * view->x.row, left, (uint8_t *)row);
            }
        }
    }
}

static int8_depth depth_of(const int8_work *work, int64_t words) {
    const conv_view *view = &work->conv.view;
    int64_t row = work->cut.stage_columns * words;
    bool is_run = view->w.dilation == 1;
    return (int8_depth){.block_stride = work->cut.stage_rows * row,
                        .rows = view->h.kernel,
                        .row_stride = view->h.dilation * row,
                        .taps = is_run ? 1 : view->w.kernel,
                        .tap_stride = view->w.dilation * words,
                        .run = is_run ? view->w.kernel * words : words};
}

/* One panel, one part of the depth, all positions. */
static void run_part(const int8_work *work, const int8_way *way, const conv_place *at,
                     const int8_depth *depth, const int32_t *x, int8_tile *tile, int32_t *sums) {
    const conv_view *view = &work->conv.view;
    int64_t positions = at->rows * at->columns;
    int64_t count = conv_divide_up(positions, way->tile_positions), row = 0, column = 0;
    const int64_t least = positions / count, more = positions % count;
    for (int64_t t = 0, p = 0; t < count; t++) {
        int64_t size = least + (t < more);
        for (int64_t i = 0; i < size; i++) {
            tile->x[i] =
                x + (row * view->h.stride * work->cut.stage_columns + column * view->w.stride) *
                        way->words;
            if (++column == at->columns) column = 0, row++;
        }
        tile->sums = sums + p * PANEL;
        way->tiles[size - 1](depth, tile);
        p += size;
    }
}

static void finish_panel(const int8_work *work, const conv_place *at, int64_t panel,
                         const int32_t *sums) {
    const conv_view *view = &work->conv.view;
    const conv_image *y = &view->y, *residual = &view->residual;
    float scale[PANEL], bias[PANEL];
    int64_t first = at->group * view->out_channels, channel = first + panel * PANEL;
    int8_factors(&work->conv, channel, PANEL, first + view->out_channels, scale, bias);
    for (int64_t lane = 0; lane < PANEL; lane += VF) {
        int64_t block = channel / BLOCK + lane / BLOCK;
        if (panel * PANEL + lane / BLOCK * BLOCK >= view->out_channels) break;
        for (int64_t r = 0; r < at->rows; r++) {
            int64_t row = at->row + r;
            int8_finish(&work->conv, sums + r * at->columns * PANEL + lane, PANEL, at->columns,
                        scale + lane, bias + lane,
                        at->n * residual->n + block * residual->block + row * residual->row +
                            at->column * residual->column + lane % BLOCK,
                        at->n * y->n + block * y->block + row * y->row + at->column * y->column +
                            lane % BLOCK);
        }
    }
}

static int64_t sums_room(const int8_work *work) {
    return work->cut.rows * work->cut.columns * PANEL;
}

static int64_t staged_positions(const int8_work *work) {
    return work->blocks * work->cut.stage_rows * work->cut.stage_columns;
}

static int8_way pairs_way(const int8_work *work, int32_t *x) {
    return (int8_way){false, work->width / 2, pairs_tiles, sizeof pairs_tiles / sizeof *pairs_tiles,
                      x};
}

#if !HAS_FOURS
static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    int8_work work = work_of(args);
    int32_t *sums = args->workspace, none[PANEL] = {0};
    int8_way way = pairs_way(&work, sums + sums_room(&work));
    int8_depth depth = depth_of(&work, way.words);
    int64_t block_weights = work.taps * work.width * PANEL;
    for (int64_t item = begin; item < end;) {
        conv_place at = conv_next_place(&work.conv.view, &work.cut, &item, end);
        stage(&work, &way, &at);
        for (int64_t panel = at.panel; panel < at.panel_end; panel++) {
            const int16_t *w =
                work.weights + (at.group * work.cut.panels + panel) * work.blocks * block_weights;
            for (int64_t b = 0; b < work.blocks; b += depth.blocks) {
                const int16_t *part = w + b * block_weights;
                int8_tile tile = {
                    .w = (const int32_t *)(const void *)part, .start = none, .is_first = b == 0};
                depth.blocks = conv_least(work.part_blocks, work.blocks - b);
                run_part(&work, &way, &at, &depth, way.x + b * depth.block_stride, &tile, sums);
            }
            finish_panel(&work, &at, panel, sums);
        }
    }
}
#endif

static int64_t items(const rlx_kernel_args *args) {
    int8_work work = work_of(args);
    return conv_items(&work.conv.view, &work.cut);
}

/* In steps of a vector. */
static int64_t item_cost(const rlx_kernel_args *args) {
    int8_work work = work_of(args);
    int64_t steps = work.cut.rows * work.cut.columns * work.cut.item_panels * PANEL_VECTORS;
    return rlx_ref_cost(steps, work.taps * work.conv.view.in_channels) / 2;
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    int8_work work = work_of(args);
    return (uint64_t)(sums_room(&work) + staged_positions(&work) * work.width / 2) *
           sizeof(int32_t);
}

static bool takes(const rlx_target_query *query) {
    const rlx_tensor *x = &query->in[0], *w = &query->in[1];
    const rlx_conv_quantised_attrs *attrs = query->attrs;
    int64_t groups = attrs->conv.groups == 0 ? 1 : attrs->conv.groups;
    bool is_small = BLOCK == 8, is_plain = x->rank == w->rank;
    if (!int8_takes(query)) return false;
    if (is_plain) return w->layout == (is_small ? RLX_LAYOUT_TAPS16X2 : RLX_LAYOUT_TAPS32X2);
    if (w->layout != (is_small ? RLX_LAYOUT_PANELS8X16X2 : RLX_LAYOUT_PANELS16X32X2)) return false;
    if (!int8_is_blocked(x, w->rank - 2)) return false;
    return groups == 1 || (w->dims[1] % BLOCK == 0 && w->dims[0] / groups % PANEL == 0);
}

#if HAS_VNNI || HAS_FOURS
static int64_t fours(const int8_work *work) {
    return conv_divide_up(work->width, 4);
}
/* Words of a part's weights as bytes. */
static int64_t narrow_room(const int8_work *work) {
    return work->most_blocks * work->taps * fours(work) * PANEL;
}

/* The inputs of a place as bytes and as shorts; each is staged when the first part wants it. */
typedef struct int8_ways {
    int8_way way[2]; /* shorts, bytes */
    bool is_staged[2];
    int32_t *weights; /* of a part, as bytes */
    int64_t luck;     /* with weights that were tried: a few that stay shorts, and no more are */
} int8_ways;

static int8_ways ways_of(const int8_work *work, int32_t *workspace) {
    int32_t *x = workspace + narrow_room(work);
    int8_way bytes = {true, fours(work), fours_tiles, BYTES_POSITIONS, x};
    int8_way pairs = pairs_way(work, x + staged_positions(work) * bytes.words);
    return (int8_ways){{pairs, bytes}, {false, false}, workspace, 2};
}

/* The weights of a part as bytes, where there is a way for them. */
static int8_kind try_bytes(const int8_work *work, const conv_place *at, int8_ways *ways,
                           const int16_t *w, int64_t blocks, int64_t run, int32_t *start) {
    if (at->rows * at->columns < LEAST_POSITIONS || ways->luck < 1) return INT8_PAIRS;
    int8_kind kind =
        narrow(w, blocks * work->taps, work->width / 2, run, work->conv.zero, ways->weights, start);
    ways->luck += kind != INT8_PAIRS ? 1 : -2;
    if (HAS_VNNI || ways->luck > 16) ways->luck = 16;
    return kind;
}

/* The parts of one panel; those whose weights fit by bytes. */
static void run_panel_bytes(const int8_work *work, const conv_place *at, int8_ways *ways,
                            const int16_t *w, int32_t *sums) {
    int8_depth depths[2] = {depth_of(work, ways->way[0].words), depth_of(work, ways->way[1].words)};
    int64_t block_weights = work->taps * work->width * PANEL;
    for (int64_t b = 0; b < work->blocks;
         b += work->part_blocks, w += block_weights * work->part_blocks) {
        int32_t start[PANEL];
        int64_t blocks = conv_least(work->part_blocks, work->blocks - b);
        int8_kind kind = try_bytes(work, at, ways, w, blocks, depths[1].run, start);
        const int is_bytes = kind != INT8_PAIRS;
        int8_way *way = &ways->way[is_bytes];
        int8_tile tile = {.w = ways->weights, .start = start, .is_first = b == 0};
        if (!ways->is_staged[is_bytes]) stage(work, way, at);
        ways->is_staged[is_bytes] = true;
        if (is_bytes) way->tiles = bytes_tiles(kind);
        if (!is_bytes) {
            memset(start, 0, sizeof start);
            tile.w = (const int32_t *)(const void *)w;
        }
        depths[is_bytes].blocks = blocks;
        run_part(work, way, at, &depths[is_bytes], way->x + b * depths[is_bytes].block_stride,
                 &tile, sums);
    }
}

static void run_bytes(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    int8_work work = work_of(args);
    int32_t *sums = args->workspace;
    int8_ways ways = ways_of(&work, sums + sums_room(&work));
    int64_t panel_weights = work.blocks * work.taps * work.width * PANEL;
    for (int64_t item = begin; item < end;) {
        conv_place at = conv_next_place(&work.conv.view, &work.cut, &item, end);
        ways.is_staged[0] = ways.is_staged[1] = false;
        for (int64_t panel = at.panel; panel < at.panel_end; panel++) {
            run_panel_bytes(&work, &at, &ways,
                            work.weights + (at.group * work.cut.panels + panel) * panel_weights,
                            sums);
            finish_panel(&work, &at, panel, sums);
        }
    }
}

static uint64_t workspace_both(const rlx_kernel_args *args) {
    int8_work work = work_of(args);
    return workspace_bytes(args) +
           (uint64_t)(narrow_room(&work) + staged_positions(&work) * fours(&work)) *
               sizeof(int32_t);
}
#endif

const rlx_cpu_override VEC_SYMBOL(conv_int8)[] = {
#if HAS_FOURS
    {RLX_OP_CONV_QUANTISED,
     0,
     takes,
     {VEC_NAME("conv_int8"), run_bytes, items, item_cost, workspace_both}},
#else
#if HAS_VNNI
    {RLX_OP_CONV_QUANTISED,
     NEEDS,
     takes,
     {VEC_NAME("conv_int8_vnni"), run_bytes, items, item_cost, workspace_both}},
#endif
    {RLX_OP_CONV_QUANTISED,
     0,
     takes,
     {VEC_NAME("conv_int8"), run, items, item_cost, workspace_bytes}},
#endif
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
