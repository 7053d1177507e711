/* SPDX-License-Identifier: Apache-2.0 */
/* Dense and grouped conv_quantised: y and residual are [N][C / BLOCK][H][W][BLOCK], x too, or plain
 * as the image of a first layer is; weights are in panels with channels in pairs.
 *
 * An item is a rectangle of output positions and some panels of output channels. The inputs under
 * it are copied to the workspace as 16-bit integers less their zero point, so that padding is 0 and
 * nothing is to be put right afterwards. A pair of 16-bit products cannot overflow 32 bits; the
 * 8-bit multiply-add of AVX2 would saturate. The depth is done in parts whose weights stay in the
 * first cache; sums wait in the workspace and become bytes when they are complete.
 *
 * VNNI multiplies four bytes at once: inputs stay bytes there, with the zero point as padding, and
 * the weights of a part are made bytes on the way, where all of them fit; what the zero point adds
 * is taken out before the first product. */
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

/* A part of the depth: blocks, rows of taps, taps, and in each a run of words side by side. */
struct int8_depth {
    int64_t blocks, block_stride, rows, row_stride, taps, tap_stride, run; /* in words */
};

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

/* Sums are variables, as in conv_tile.h. Pixel p has the sums a, b, c and d. */
struct int8_tile {
    const int32_t *x[PIXELS]; /* first word of each position */
    const int32_t *w, *start; /* [PANEL]: what is added once */
    int32_t *sums;            /* [positions][PANEL] */
    bool is_first;            /* nothing is in them */
};

/* *sum += the products of every word. VNNI is spelled out for the reason that vf_add_product has;
 * the level `wide` has it in plain C, for the tests. */
VEC_INLINE void add_products(vi *sum, vi a, vi b, bool is_bytes) {
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
    if (is_bytes) {
        __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
        return;
    }
#endif
    if (!is_bytes) *sum += vi_pair_products(a, b);
    for (int i = 0; is_bytes && i < 4; i++)
        *sum += (vi)((vu)a >> (8 * i) & 0xff) * ((b << (24 - 8 * i)) >> 24);
}

/* clang-format off */
#define STEP_PIXEL(p)                                       \
    if (P > p) {                                            \
        vi one = vi_set(x##p[i]);                           \
        add_products(&a##p, one, wide0, is_bytes);           \
        add_products(&b##p, one, wide1, is_bytes);           \
        if (PANEL_VECTORS > 2) add_products(&c##p, one, wide2, is_bytes); \
        if (PANEL_VECTORS > 2) add_products(&d##p, one, wide3, is_bytes); \
    }
#define LOAD_PIXEL(p)                                       \
    if (P > p && !tile->is_first) {                         \
        const int32_t *from = tile->sums + p * PANEL;       \
        a##p += vi_load(from);                              \
        b##p += vi_load(from + VF);                         \
        if (PANEL_VECTORS > 2) c##p += vi_load(from + 2 * VF); \
        if (PANEL_VECTORS > 2) d##p += vi_load(from + 3 * VF); \
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
#define DECLARE_PIXEL(p)                                               \
    vi a##p = vi_load(tile->start), b##p = vi_load(tile->start + VF);  \
    vi c##p = vi_load(tile->start + (PANEL_VECTORS > 2 ? 2 * VF : 0)); \
    vi d##p = vi_load(tile->start + (PANEL_VECTORS > 2 ? 3 * VF : 0)); \
    const int32_t *x##p = tile->x[P > p ? p : 0];
#define MOVE_PIXEL(p) \
    if (P > p) x##p += step;

VEC_INLINE void run_tile(const int8_depth *depth, const int8_tile *tile, const int P,
                         const bool is_bytes) {
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
/* Higher where there are registers for more, and half as many multiply-adds for a load. */
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

#if RLX_VEC_BYTES == 64
/* Four shorts of every lane as bytes, those of a first. */
VEC_INLINE vi bytes_of(vi a, vi b) {
#if defined(__AVX512F__)
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    return (vi)_mm512_shuffle_epi8(_mm512_packs_epi16((__m512i)a, (__m512i)b), order);
#else
    return (a & 0xff) | (a >> 8 & 0xff00) | (b & 0xff) << 16 | (vi)((vu)b >> 16 << 24);
#endif
}

/* Weights of `taps` taps, [pairs][PANEL] of two shorts, as [(pairs + 1) / 2][PANEL] of four bytes;
 * `start` is what takes the zero point out of their sums. False: some do not fit a byte. */
static bool narrow(const int16_t *from, int64_t taps, int64_t pairs, int32_t zero, int32_t *to,
                   int32_t *start) {
    vi sums[PANEL_VECTORS] = {{0}}, wild = {0}, ones = vi_set(0x01010101);
    const int32_t *w = (const int32_t *)(const void *)from;
    for (int64_t tap = 0; tap < taps; tap++) {
        for (int64_t j = 0; j < pairs; j += 2, w += 2 * PANEL, to += PANEL) {
            const bool is_two = j + 1 < pairs;
            for (int v = 0; v < PANEL_VECTORS; v++) {
                vi a = vi_load(w + v * VF), b = {0};
                if (is_two) b = vi_load(w + PANEL + v * VF);
                /* The upper nine bits of what fits are equal. */
                wild |= (a ^ a << 1) | (b ^ b << 1);
                vi bytes = bytes_of(a, b);
                add_products(&sums[v], ones, bytes, true);
                vi_store(to + v * VF, bytes);
            }
            if (!is_two) w -= PANEL;
        }
    }
    for (int v = 0; v < PANEL_VECTORS; v++)
        vi_store(start + v * VF, sums[v] * -zero);
    return vi_all((wild & (int32_t)0xff00ff00) == 0);
}
#endif

/* One panel, one part of the depth, all positions. */
static void run_part(const int8_work *work, const int8_way *way, const conv_place *at,
                     const int8_depth *depth, const int32_t *x, int8_tile *tile, int32_t *sums) {
    const conv_view *view = &work->conv.view;
    int64_t positions = at->rows * at->columns;
    int64_t count = conv_divide_up(positions, way->tile_positions), row = 0, column = 0;
    for (int64_t t = 0, p = 0; t < count; t++) {
        int64_t size = conv_divide_up(positions - p, count - t);
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
    return (int8_way){false, work->width / 2, tiles, sizeof tiles / sizeof *tiles, x};
}

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

#if RLX_VEC_BYTES == 64
static int64_t fours(const int8_work *work) {
    return conv_divide_up(work->width, 4);
}
/* Words of a part's weights as bytes. */
static int64_t narrow_room(const int8_work *work) {
    return work->most_blocks * work->taps * fours(work) * PANEL;
}

/* The parts of one panel; shorts are staged where weights do not fit bytes. */
static void run_panel_vnni(const int8_work *work, const conv_place *at, const int8_way *way,
                           const int8_way *other, bool *has_other, const int16_t *w, int32_t *bytes,
                           int32_t *sums) {
    int8_depth depths[2] = {depth_of(work, way->words), depth_of(work, other->words)};
    int64_t block_weights = work->taps * work->width * PANEL;
    int32_t start[PANEL];
    for (int64_t b = 0; b < work->blocks;
         b += work->part_blocks, w += block_weights * work->part_blocks) {
        int64_t blocks = conv_least(work->part_blocks, work->blocks - b);
        bool fits = narrow(w, blocks * work->taps, work->width / 2, work->conv.zero, bytes, start);
        int8_depth depth = depths[!fits];
        int8_tile tile = {.w = bytes, .start = start, .is_first = b == 0};
        depth.blocks = blocks;
        if (!fits) {
            if (!*has_other) stage(work, other, at);
            *has_other = true;
            memset(start, 0, sizeof start);
            tile.w = (const int32_t *)(const void *)w;
        }
        run_part(work, fits ? way : other, at, &depth,
                 (fits ? way : other)->x + b * depth.block_stride, &tile, sums);
    }
}

static void run_vnni(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    int8_work work = work_of(args);
    int32_t *sums = args->workspace, *bytes = sums + sums_room(&work);
    int32_t *x = bytes + narrow_room(&work);
    int8_way way = {true, fours(&work), vnni_tiles, sizeof vnni_tiles / sizeof *vnni_tiles, x};
    int8_way other = pairs_way(&work, x + staged_positions(&work) * way.words);
    int64_t panel_weights = work.blocks * work.taps * work.width * PANEL;
    for (int64_t item = begin; item < end;) {
        conv_place at = conv_next_place(&work.conv.view, &work.cut, &item, end);
        bool has_other = false;
        stage(&work, &way, &at);
        for (int64_t panel = at.panel; panel < at.panel_end; panel++) {
            run_panel_vnni(&work, &at, &way, &other, &has_other,
                           work.weights + (at.group * work.cut.panels + panel) * panel_weights,
                           bytes, sums);
            finish_panel(&work, &at, panel, sums);
        }
    }
}

static uint64_t workspace_vnni(const rlx_kernel_args *args) {
    int8_work work = work_of(args);
    return workspace_bytes(args) +
           (uint64_t)(narrow_room(&work) + staged_positions(&work) * fours(&work)) *
               sizeof(int32_t);
}
#endif

const rlx_cpu_override VEC_SYMBOL(conv_int8)[] = {
#if RLX_VEC_BYTES == 64
    {RLX_OP_CONV_QUANTISED,
     NEEDS,
     takes,
     {VEC_NAME("conv_int8_vnni"), run_vnni, items, item_cost, workspace_vnni}},
#endif
    {RLX_OP_CONV_QUANTISED,
     0,
     takes,
     {VEC_NAME("conv_int8"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
