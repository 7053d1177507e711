/* SPDX-License-Identifier: Apache-2.0 */
/* Dense and grouped conv_quantised: y and residual are [N][C / BLOCK][H][W][BLOCK], x too, or plain
 * as the image of a first layer is; weights are in panels with channels in pairs.
 *
 * An item is a rectangle of output positions and some panels of output channels. The inputs under
 * it are copied to the workspace as 16-bit integers less their zero point, so that padding is 0 and
 * nothing is to be put right afterwards. A pair of 16-bit products cannot overflow 32 bits; the
 * 8-bit multiply-add of AVX2 would saturate. The depth is done in parts whose weights stay in the
 * first cache; sums wait in the workspace and become bytes when they are complete. */
#include "backend/cpu/vec/conv_int8.h"
#include "base/cpu.h"

enum {
    PART_BYTES = 16 * 1024, /* of the weights of a panel in one part of the depth */
    POSITIONS = 120,        /* of an item, about */
/* The level `wide` has the instruction in plain C, for the tests. */
#if defined(__AVX512F__)
    NEEDS = RLX_CPU_VNNI
#else
    NEEDS = 0
#endif
};

typedef struct int8_depth int8_depth;
typedef struct int8_tile int8_tile;
typedef void (*tile_fn)(const int8_depth *depth, const int8_tile *tile);

/* What a step does, from dims alone. */
typedef struct int8_work {
    int8_conv conv;
    conv_cut cut;
    const int16_t *weights;
    bool is_first;               /* few channels: depth is taps, then channels */
    int64_t taps, width;         /* 16-bit values per staged position: BLOCK, or all channels */
    int64_t blocks, part_blocks; /* of the depth */
    const tile_fn *tiles;
    int64_t tile_positions; /* of the highest of them */
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
    work.part_blocks =
        conv_divide_up(work.blocks, conv_divide_up(work.blocks, most > 1 ? most : 1));

    work.cut = conv_cut_of(view, POSITIONS, 1);
    return work;
}

/* Bytes less their zero point. */
static void widen(const uint8_t *from, int64_t count, uint8_t flip, int16_t zero, int16_t *to) {
    for (int64_t i = 0; i < count; i++)
        to[i] = (int16_t)((uint8_t)(from[i] ^ flip) - zero);
}

/* One row of inputs from `column` on; zeros outside. */
static void stage_row(const int8_work *work, const uint8_t *from, int64_t column, int16_t *to) {
    const conv_view *view = &work->conv.view;
    int64_t width = work->width, count = work->cut.stage_columns, step = view->x.column;
    int64_t first = column < 0 ? conv_least(-column, count) : 0;
    int64_t end = conv_least(count, view->w.in - column);
    int16_t zero = (int16_t)work->conv.zero;
    if (end < first) end = first;
    memset(to, 0, (size_t)(first * width) * sizeof *to);
    memset(to + end * width, 0, (size_t)((count - end) * width) * sizeof *to);
    from += (column + first) * step;
    to += first * width;
    if (view->is_blocked && step == BLOCK) {
        widen(from, (end - first) * BLOCK, work->conv.flip, zero, to);
    } else if (view->is_blocked) {
        for (int64_t i = first; i < end; i++, from += step, to += BLOCK)
            widen(from, BLOCK, work->conv.flip, zero, to);
    } else {
        for (int64_t i = first; i < end; i++, from += step, to += width) {
            to[width - 1] = 0;
            for (int64_t c = 0; c < view->in_channels; c++)
                widen(from + c * view->x.block, 1, work->conv.flip, zero, to + c);
        }
    }
}

/* The inputs under the rectangle, [blocks][stage rows][stage columns][width]. */
static void stage(const int8_work *work, const conv_place *at, int16_t *to) {
    const conv_view *view = &work->conv.view;
    int64_t row_elements = work->cut.stage_columns * work->width,
            rows = conv_reach(&view->h, at->rows);
    int64_t top = at->row * view->h.stride - view->h.begin;
    int64_t left = at->column * view->w.stride - view->w.begin;
    for (int64_t b = 0; b < work->blocks; b++) {
        const uint8_t *from = (const uint8_t *)view->x.data + at->n * view->x.n;
        int64_t channel = at->group * view->in_channels;
        from += (view->is_blocked ? channel / BLOCK + b : channel) * view->x.block;
        for (int64_t r = 0; r < rows; r++) {
            int16_t *row = to + (b * work->cut.stage_rows + r) * row_elements;
            if (top + r < 0 || top + r >= view->h.in) {
                memset(row, 0, (size_t)row_elements * sizeof *row);
            } else {
                stage_row(work, from + (top + r) * view->x.row, left, row);
            }
        }
    }
}

/* A part of the depth: blocks, rows of taps, taps, and in each a run of pairs side by side. */
struct int8_depth {
    int64_t blocks, block_stride, rows, row_stride, taps, tap_stride, run; /* in pairs */
};

static int8_depth depth_of(const int8_work *work) {
    const conv_view *view = &work->conv.view;
    int64_t pairs = work->width / 2, row = work->cut.stage_columns * pairs;
    bool is_run = view->w.dilation == 1;
    return (int8_depth){.block_stride = work->cut.stage_rows * row,
                        .rows = view->h.kernel,
                        .row_stride = view->h.dilation * row,
                        .taps = is_run ? 1 : view->w.kernel,
                        .tap_stride = view->w.dilation * pairs,
                        .run = is_run ? view->w.kernel * pairs : pairs};
}

/* Sums are variables, as in conv_tile.h. Pixel p has the sums a, b, c and d. */
struct int8_tile {
    const int32_t *x[PIXELS]; /* first pair of each position */
    const int32_t *w;
    int32_t *sums; /* [positions][PANEL] */
    bool is_first; /* nothing is in them */
};

/* *sum += the products of every pair. With VNNI it is one instruction, spelled out for the reason
 * that vf_add_product has. */
VEC_INLINE void add_products(vi *sum, vi a, vi b, bool is_vnni) {
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
    if (is_vnni) {
        __asm__("vpdpwssd %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
        return;
    }
#endif
    (void)is_vnni;
    *sum += vi_pair_products(a, b);
}

/* clang-format off */
#define STEP_PIXEL(p)                                       \
    if (P > p) {                                            \
        vi one = vi_set(x##p[i]);                           \
        add_products(&a##p, one, wide0, is_vnni);           \
        add_products(&b##p, one, wide1, is_vnni);           \
        if (PANEL_VECTORS > 2) add_products(&c##p, one, wide2, is_vnni); \
        if (PANEL_VECTORS > 2) add_products(&d##p, one, wide3, is_vnni); \
    }
#define LOAD_PIXEL(p)                                       \
    if (P > p && !tile->is_first) {                         \
        const int32_t *from = tile->sums + p * PANEL;       \
        a##p = vi_load(from);                               \
        b##p = vi_load(from + VF);                          \
        if (PANEL_VECTORS > 2) c##p = vi_load(from + 2 * VF); \
        if (PANEL_VECTORS > 2) d##p = vi_load(from + 3 * VF); \
    }
#define STORE_PIXEL(p)                                      \
    if (P > p) {                                            \
        int32_t *to = tile->sums + p * PANEL;               \
        vi_store(to, a##p);                                 \
        vi_store(to + VF, b##p);                            \
        if (PANEL_VECTORS > 2) vi_store(to + 2 * VF, c##p); \
        if (PANEL_VECTORS > 2) vi_store(to + 3 * VF, d##p); \
    }
/* clang-format on */
#define DECLARE_PIXEL(p)                          \
    vi a##p = {0}, b##p = a##p, c##p, d##p;       \
    const int32_t *x##p = tile->x[P > p ? p : 0]; \
    c##p = d##p = a##p;
#define MOVE_PIXEL(p) \
    if (P > p) x##p += step;

VEC_INLINE void run_tile(const int8_depth *depth, const int8_tile *tile, const int P,
                         const bool is_vnni) {
    const int32_t *w = tile->w;
    int64_t runs = depth->blocks * depth->rows * depth->taps, tap = 0, row = 0;
    int64_t row_step = depth->row_stride - depth->taps * depth->tap_stride;
    int64_t block_step = depth->block_stride - depth->rows * depth->row_stride;
    EACH_PIXEL(DECLARE_PIXEL)
    EACH_PIXEL(LOAD_PIXEL)
    for (; runs > 0; runs--) {
        int64_t step = depth->tap_stride;
        for (int64_t i = 0; i < depth->run; i++, w += PANEL) {
            vi wide0 = vi_load(w), wide1 = vi_load(w + VF), wide2 = wide0, wide3 = wide0;
            if (PANEL_VECTORS > 2) wide2 = vi_load(w + 2 * VF), wide3 = vi_load(w + 3 * VF);
            EACH_PIXEL(STEP_PIXEL)
            (void)wide2, (void)wide3;
        }
        if (++tap == depth->taps) {
            tap = 0, step += row_step;
            if (++row == depth->rows) row = 0, step += block_step;
        }
        EACH_PIXEL(MOVE_PIXEL)
    }
    EACH_PIXEL(STORE_PIXEL)
}

/* clang-format off */
#define EACH_COUNT(M) M(1) M(2) M(3) M(4) M(5) M(6)
#define DEFINE(count)                                                          \
    static void tile_##count(const int8_depth *depth, const int8_tile *tile) { \
        run_tile(depth, tile, count, false);                                   \
    }
EACH_COUNT(DEFINE)
#define NAME(count) tile_##count,
static const tile_fn tiles[] = {EACH_COUNT(NAME)};
/* Tiles are higher where there are registers for more, and multiply-adds that wait for loads. */
#if RLX_VEC_BYTES == 64
#define EACH_VNNI_COUNT(M) EACH_COUNT(M) M(7) M(8) M(9) M(10) M(11) M(12)
#define DEFINE_VNNI(count)                                                     \
    static void vnni_##count(const int8_depth *depth, const int8_tile *tile) { \
        run_tile(depth, tile, count, true);                                    \
    }
EACH_VNNI_COUNT(DEFINE_VNNI)
#define NAME_VNNI(count) vnni_##count,
static const tile_fn vnni_tiles[] = {EACH_VNNI_COUNT(NAME_VNNI)};
#endif
/* clang-format on */

/* One panel, one part of the depth, all positions. */
static void run_part(const int8_work *work, const conv_place *at, const int8_depth *depth,
                     const int32_t *x, const int16_t *w, bool is_first, int32_t *sums) {
    const conv_view *view = &work->conv.view;
    int64_t pairs = work->width / 2, positions = at->rows * at->columns;
    int64_t count = conv_divide_up(positions, work->tile_positions), row = 0, column = 0;
    int8_tile tile = {.w = (const int32_t *)(const void *)w, .is_first = is_first};
    for (int64_t t = 0, p = 0; t < count; t++) {
        int64_t size = conv_divide_up(positions - p, count - t);
        for (int64_t i = 0; i < size; i++) {
            tile.x[i] =
                x +
                (row * view->h.stride * work->cut.stage_columns + column * view->w.stride) * pairs;
            if (++column == at->columns) column = 0, row++;
        }
        tile.sums = sums + p * PANEL;
        work->tiles[size - 1](depth, &tile);
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

static void run_with(const rlx_kernel_args *args, int64_t begin, int64_t end, const tile_fn *with,
                     int64_t tile_positions) {
    int8_work work = work_of(args);
    work.tiles = with;
    work.tile_positions = tile_positions;
    int8_depth depth = depth_of(&work);
    int32_t *sums = args->workspace, *x = sums + sums_room(&work);
    int64_t block_weights = work.taps * work.width * PANEL;
    for (int64_t item = begin; item < end;) {
        conv_place at = conv_next_place(&work.conv.view, &work.cut, &item, end);
        stage(&work, &at, (int16_t *)(void *)x);
        for (int64_t panel = at.panel; panel < at.panel_end; panel++) {
            const int16_t *w =
                work.weights + (at.group * work.cut.panels + panel) * work.blocks * block_weights;
            for (int64_t b = 0; b < work.blocks; b += depth.blocks) {
                depth.blocks = conv_least(work.part_blocks, work.blocks - b);
                run_part(&work, &at, &depth, x + b * depth.block_stride, w + b * block_weights,
                         b == 0, sums);
            }
            finish_panel(&work, &at, panel, sums);
        }
    }
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    run_with(args, begin, end, tiles, sizeof tiles / sizeof *tiles);
}

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
    return (uint64_t)sums_room(&work) * sizeof(int32_t) +
           (uint64_t)(work.blocks * work.cut.stage_rows * work.cut.stage_columns * work.width) *
               sizeof(int16_t);
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

#if RLX_VEC_BYTES == 64
static void run_vnni(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    run_with(args, begin, end, vnni_tiles, sizeof vnni_tiles / sizeof *vnni_tiles);
}
#endif

const rlx_cpu_override VEC_SYMBOL(conv_int8)[] = {
#if RLX_VEC_BYTES == 64
    {RLX_OP_CONV_QUANTISED,
     NEEDS,
     takes,
     {VEC_NAME("conv_int8_vnni"), run_vnni, items, item_cost, workspace_bytes}},
#endif
    {RLX_OP_CONV_QUANTISED,
     0,
     takes,
     {VEC_NAME("conv_int8"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
