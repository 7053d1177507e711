/* SPDX-License-Identifier: Apache-2.0 */
/* matmul of f32, f16 and bf16 in f32: b in panels (packed weights) or in any strides, then packed
 * block by block on the way. An item is a block of the output with all of k; its workspace holds a
 * block of a, of b where b is not packed, and of sums where k has several blocks. With few rows of
 * a there is nothing to pack, and an item is one panel. */
#include "backend/cpu/vec/matmul_pack.h"
#include "backend/cpu/vec/matmul_tile.h"
#include "ir/dtype.h"

enum {
    BLOCK_DEPTH = 256,    /* of k in a block, where there are several or weights in blocks */
    BLOCK_ROWS = 96,      /* rows of a block at most: their part of a stays in the second */
    PAIR_DEPTH = 512,     /* both for packed weights with two panels side by side, where b comes */
    PAIR_ROWS = 144,      /* from the second cache and sums go through memory less often */
    PAIR_DEPTH_ONE = 768, /* of k in their only block */
    BLOCK_COLUMNS = 512,  /* columns of a block at most */
    THIN_ROWS = 3 * MATMUL_ROWS,   /* as many rows are few: an item is one panel, or two of many */
    FEW_ROWS = 3,                  /* even fewer: an item is several panels side by side */
    FEW_PANELS = VF < 16 ? 4 : 12, /* at once, of one row */
    MANY_PANELS = 64,              /* of them an item has 8, else 4 */
    SMALL_ROOM = 4096,             /* floats of workspace that fit the stack */
    WANTED_ITEMS = 16,             /* large products have at least so many items */
    LEAST_ITEM = 1 << 19,          /* but none is cut below so many multiply-adds */
    COPY_PANELS = 16,              /* rows of a are copied for so many panels at least */
    PAIR_PANELS = 16,              /* of few rows: enough items of two */
    SHORT_ROWS = 6,                /* of a tile at most, where it has two panels or is not full */
};

/* clang-format off */
#define TILE(name, kind, rows)                                                            \
    static void name(const float *a, int64_t row, const uint8_t *b, int64_t depth,        \
                     const matmul_sums *c) {                                              \
        matmul_tile(rows, kind, a, row, b, depth, c);                                     \
    }
#define TILES_6(suffix, kind)                                                             \
    TILE(tile_1_##suffix, kind, 1) TILE(tile_2_##suffix, kind, 2)                         \
    TILE(tile_3_##suffix, kind, 3) TILE(tile_4_##suffix, kind, 4)                         \
    TILE(tile_5_##suffix, kind, 5) TILE(tile_6_##suffix, kind, 6)
#define NAMES_6(suffix) NULL, tile_1_##suffix, tile_2_##suffix, tile_3_##suffix,          \
    tile_4_##suffix, tile_5_##suffix, tile_6_##suffix
TILES_6(f32, PANEL_F32)
TILES_6(f16, PANEL_F16)
TILES_6(bf16, PANEL_BF16)
#if RLX_VEC_BYTES == 64
/* Taller tiles are of full height, or all rows of a product that reads its weights but once. */
#define NAMES(suffix) NAMES_6(suffix), NULL, NULL, NULL, NULL, NULL, tile_12_##suffix
TILE(tile_7_f32, PANEL_F32, 7) TILE(tile_8_f32, PANEL_F32, 8) TILE(tile_9_f32, PANEL_F32, 9)
TILE(tile_10_f32, PANEL_F32, 10) TILE(tile_11_f32, PANEL_F32, 11)
TILE(tile_12_f32, PANEL_F32, 12) TILE(tile_12_f16, PANEL_F16, 12) TILE(tile_12_bf16, PANEL_BF16, 12)
/* Two f32 panels side by side: 10 loads for 24 multiply-adds instead of 14. */
#define PAIR(rows)                                                                        \
    static void pair_##rows(const float *a, int64_t row, const uint8_t *b, int64_t apart, \
                            int64_t depth, const matmul_sums *c) {                        \
        matmul_tile_of(rows, 4, PANEL_F32, a, row, b, apart, depth, c);                   \
    }
PAIR(4) PAIR(5) PAIR(6)
static const matmul_pair_fn pairs[SHORT_ROWS + 1] = {NULL, NULL, NULL, NULL, pair_4, pair_5, pair_6};
static const matmul_tile_fn tiles[PANEL_KINDS][MATMUL_ROWS + 1] = {
    {NAMES_6(f32), tile_7_f32, tile_8_f32, tile_9_f32, tile_10_f32, tile_11_f32, tile_12_f32},
    {NAMES(f16)}, {NAMES(bf16)}};
#else
static const matmul_pair_fn pairs[SHORT_ROWS + 1];
static const matmul_tile_fn tiles[PANEL_KINDS][MATMUL_ROWS + 1] = {
    {NAMES_6(f32)}, {NAMES_6(f16)}, {NAMES_6(bf16)}};
#endif
#if RLX_VEC_BYTES == 32
/* Of a last panel that is half empty or more: one vector of it. */
#define HALF(rows)                                                                        \
    static void half_##rows(const float *a, int64_t row, const uint8_t *b, int64_t depth, \
                            const matmul_sums *c) {                                       \
        matmul_tile_of(rows, 1, PANEL_F32, a, row, b, 0, depth, c);                       \
    }
HALF(7) HALF(8) HALF(9) HALF(10) HALF(11) HALF(12)
static const matmul_tile_fn halves[MATMUL_MOST_ROWS + 1] = {
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, half_7, half_8, half_9, half_10, half_11, half_12};
#else
static const matmul_tile_fn halves[MATMUL_MOST_ROWS + 1];
#endif

/* One to three rows of a and up to FEW_PANELS panels. */
#define FEW(suffix, kind, rows, panels)                                                   \
    static void few_##rows##_##panels##_##suffix(const float *a, int64_t row,             \
        const uint8_t *b, int64_t apart, int64_t depth, float *to) {                      \
        matmul_few(rows, panels, panels > 1 ? 1 : rows == 1 ? 4 : 2, kind, a, row, b,     \
                   apart, depth, to);                                                     \
    }
#define FEWS(suffix, kind)                                                                \
    FEW(suffix, kind, 1, 1) FEW(suffix, kind, 1, 2) FEW(suffix, kind, 1, 4)               \
    FEW(suffix, kind, 2, 1) FEW(suffix, kind, 2, 2)                                       \
    FEW(suffix, kind, 3, 1) FEW(suffix, kind, 3, 2)
#define FEW_NAMES(suffix, wide)                                                           \
    {[1] = few_1_1_##suffix, [2] = few_1_2_##suffix, [4] = few_1_4_##suffix wide},        \
    {[1] = few_2_1_##suffix, [2] = few_2_2_##suffix},                                     \
    {[1] = few_3_1_##suffix, [2] = few_3_2_##suffix}
FEWS(f32, PANEL_F32)
FEWS(f16, PANEL_F16)
FEWS(bf16, PANEL_BF16)
#if RLX_VEC_BYTES == 64
FEW(f32, PANEL_F32, 1, 8) FEW(f32, PANEL_F32, 1, 12)
#define WIDE , [8] = few_1_8_f32, [12] = few_1_12_f32
#else
#define WIDE
#endif
typedef void (*few_fn)(const float *a, int64_t row, const uint8_t *b, int64_t apart,
                       int64_t depth, float *to);
static const few_fn fews[PANEL_KINDS][FEW_ROWS][FEW_PANELS + 1] = {
    {FEW_NAMES(f32, WIDE)}, {FEW_NAMES(f16, )}, {FEW_NAMES(bf16, )}};
/* clang-format on */

static matmul_kind kind_of(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F16 ? PANEL_F16 : dtype == RLX_DTYPE_BF16 ? PANEL_BF16 : PANEL_F32;
}

/* How the output of one batch is cut: from shapes alone. */
typedef struct cut {
    int64_t row_blocks, column_blocks; /* columns are counted in panels */
    int64_t rows, panels;              /* of the largest block */
    int64_t depth_blocks;
    int64_t beside; /* panels side by side in a tile */
    bool is_thin;
} cut;

/* Where a block of rows begins. Where there are many, of many tiles, they consist of whole ones. */
static int64_t row_start(const matmul *mm, const cut *by, int64_t index) {
    int64_t whole = matmul_up(mm->m, MATMUL_ROWS), many = 4;
    if (by->row_blocks < many || whole < many * by->row_blocks)
        return matmul_part_start(mm->m, by->row_blocks, index);
    return matmul_least(matmul_part_start(whole, by->row_blocks, index) * MATMUL_ROWS, mm->m);
}

static int64_t block_cost(const matmul *mm, int64_t rows, int64_t panels) {
    return rlx_ref_cost(rlx_ref_cost(rows, panels * MATMUL_COLUMNS), mm->k);
}

static bool is_packed(const matmul *mm) {
    return mm->b->layout != RLX_LAYOUT_PLAIN;
}

/* f32 with k side by side: tiles read rows of a where they are. */
static bool is_direct(const matmul *mm) {
    return mm->a->dtype == RLX_DTYPE_F32 && mm->a_k == 1;
}

static bool is_in_blocks(const matmul *mm) {
    return rlx_dtype_block_elements(mm->b->dtype) > 1;
}

/* f16 and bf16 would be decoded twice as often. */
static bool may_pair(const matmul *mm) {
    return VF >= 16 && (!is_packed(mm) || mm->b->dtype == RLX_DTYPE_F32);
}

/* As many panels go side by side in a tile. Where one tile has all rows, b would be read twice
 * instead of once; blocks of more rows have tiles of four to six. */
static int64_t side_by_side(const matmul *mm) {
    return may_pair(mm) && mm->m > MATMUL_ROWS ? 2 : 1;
}

/* Of k in a block where there are several, and in the only one. */
typedef struct depths {
    int64_t many, one;
} depths;

static depths depths_of(const matmul *mm) {
    if (is_in_blocks(mm)) return (depths){BLOCK_DEPTH, BLOCK_DEPTH};
    if (is_packed(mm) && side_by_side(mm) > 1) return (depths){PAIR_DEPTH, PAIR_DEPTH_ONE};
    return (depths){BLOCK_DEPTH, MATMUL_DEPTH};
}

static int64_t most_rows(const matmul *mm) {
    return !is_packed(mm) ? 2 * BLOCK_ROWS : may_pair(mm) ? PAIR_ROWS : BLOCK_ROWS;
}

/* Where block `index` of k begins: on a whole block of every block type. */
static int64_t depth_start(const matmul *mm, int64_t blocks, int64_t index) {
    if (is_in_blocks(mm)) return matmul_least(index * BLOCK_DEPTH, mm->k);
    return matmul_part_start(mm->k, blocks, index);
}

static cut cut_of(const matmul *mm) {
    int64_t panels = matmul_up(mm->n, MATMUL_COLUMNS);
    depths deep = depths_of(mm);
    cut by = {.depth_blocks = mm->k <= deep.one ? 1 : matmul_up(mm->k, deep.many)};
    by.is_thin = is_packed(mm) && mm->m <= (is_direct(mm) ? THIN_ROWS : FEW_ROWS);
    if (by.is_thin) {
        by.row_blocks = 1, by.rows = mm->m;
        by.beside = panels < PAIR_PANELS ? 1 : side_by_side(mm);
        by.panels = mm->m > 1 ? 2 : VF < 16 || panels < MANY_PANELS ? 4 : 8;
        if (mm->m > FEW_ROWS) by.panels = by.beside;
        by.column_blocks = matmul_up(panels, by.panels);
        return by;
    }
    by.row_blocks = matmul_up(mm->m, most_rows(mm));
    by.column_blocks = matmul_up(panels, BLOCK_COLUMNS / MATMUL_COLUMNS);
    by.beside = side_by_side(mm);
    const int64_t groups = matmul_up(panels, by.beside);
    if (by.row_blocks < 1) by.row_blocks = 1;
    if (by.column_blocks < 1) by.column_blocks = 1;
    for (;;) {
        by.rows = matmul_up(mm->m, by.row_blocks);
        by.panels = matmul_up(groups, by.column_blocks) * by.beside;
        if (by.row_blocks * by.column_blocks * mm->batches >= WANTED_ITEMS) break;
        if (block_cost(mm, by.rows, by.panels) < 2 * LEAST_ITEM) break;
        if (by.panels >= 8 || (by.panels > by.beside && by.rows < 4 * MATMUL_ROWS)) {
            by.column_blocks *= 2;
        } else if (by.rows >= 2 * MATMUL_ROWS) {
            by.row_blocks *= 2;
        } else {
            break;
        }
        by.column_blocks = matmul_least(by.column_blocks, groups);
    }
    return by;
}

/* Rows of a that cannot be used where they are. Those a multiple of 4 KiB apart could, but fight
 * for the same few places of a cache: copying them costs as much as a quarter of a panel, and pays
 * for many. The few rows of a tile of two panels find room. */
static bool is_copied(const matmul *mm, const cut *by) {
    if (!is_direct(mm)) return true;
    if (may_pair(mm)) return false;
    return !by->is_thin && mm->k > MATMUL_DEPTH && by->panels >= COPY_PANELS && mm->a_m % 1024 == 0;
}

/* Where the parts of a worker's workspace begin, in floats. Sizes grow with every dim, since a run
 * may have smaller ones than the plan. */
typedef struct room {
    int64_t b, sums, all;
} room;

static room room_of(const matmul *mm) {
    const int64_t least = is_in_blocks(mm) ? BLOCK_DEPTH : MATMUL_DEPTH; /* with fewer rows */
    const int64_t deepest = is_packed(mm) && may_pair(mm) ? PAIR_DEPTH_ONE : MATMUL_DEPTH;
    int64_t rows = matmul_least(mm->m, most_rows(mm));
    int64_t columns =
        matmul_least(matmul_up(mm->n, MATMUL_COLUMNS) * MATMUL_COLUMNS, BLOCK_COLUMNS);
    int64_t depth = matmul_least(mm->k, deepest);
    bool may_copy = !may_pair(mm) && mm->k > MATMUL_DEPTH &&
                    columns >= COPY_PANELS * MATMUL_COLUMNS &&
                    !(is_packed(mm) && mm->m <= THIN_ROWS);
    room at = {.b = 0};
    if (!is_direct(mm) || may_copy) at.b = rows * (matmul_up(depth, 16) * 16 + 16);
    if (!is_direct(mm) && is_packed(mm)) { /* whole rows, where there are few */
        int64_t few = matmul_least(mm->m, FEW_ROWS) * matmul_up(mm->k, 16) * 16;
        if (few > at.b) at.b = few;
    }
    at.sums = at.b + (is_packed(mm) ? 0 : columns * depth);
    at.all = at.sums + (mm->k > least ? rows * columns : 0);
    return at;
}

/* Tiles of a block's rows: `more` of them have a row more than the rest. */
typedef struct tiling {
    int64_t rows, count, least, more;
} tiling;

static tiling tiling_of(int64_t rows, int64_t beside, matmul_kind kind) {
    bool is_whole = beside == 1 && rows % MATMUL_ROWS == 0;
    bool is_one = beside == 1 && rows <= MATMUL_ROWS && tiles[kind][rows] != NULL;
    int64_t count = is_one ? 1 : matmul_up(rows, is_whole ? MATMUL_ROWS : SHORT_ROWS);
    return (tiling){rows, count, rows / count, rows % count};
}

/* Tiles of half a panel have up to twice the rows; six and fewer are those of a whole one. */
static tiling half_tiling_of(int64_t rows) {
    int64_t count = matmul_up(rows, MATMUL_MOST_ROWS);
    return (tiling){rows, count, rows / count, rows % count};
}

static int64_t tile_rows(const tiling *by, int64_t tile) {
    return by->least + (tile < by->more);
}

/* At most MATMUL_ROWS whole rows with a bias, a residual and an activation: what does not change
 * from row to row is looked up once. */
static void store_whole(const matmul *mm, const matmul_batch *at, int64_t m, int64_t n,
                        int64_t rows, const float *c, int64_t pitch) {
    const rlx_activation *activation = &mm->activation;
    const float *bias = mm->bias->data, *residual = mm->residual->data;
    const bool is_row = mm->bias_n == 0, is_column = mm->residual_n == 0;
    float *to = (float *)mm->out->data + at->out + m * mm->out_m + n;
    vf sums[MATMUL_ROWS][2];
    if (bias != NULL) bias += at->bias + m * mm->bias_m + n * mm->bias_n;
    if (residual != NULL) residual += at->residual + m * mm->residual_m + n * mm->residual_n;
    for (int64_t i = 0; i < rows; i++, c += pitch) {
        vf x = vf_load(c), y = vf_load(c + VF);
        if (bias != NULL) {
            x += is_row ? vf_set(*bias) : vf_load(bias);
            y += is_row ? vf_set(*bias) : vf_load(bias + VF);
            bias += mm->bias_m;
        }
        if (residual != NULL) {
            x += is_column ? vf_set(*residual) : vf_load(residual);
            y += is_column ? vf_set(*residual) : vf_load(residual + VF);
            residual += mm->residual_m;
        }
        sums[i][0] = x;
        sums[i][1] = y;
    }
    if (activation->op != RLX_OP_NONE) VEC_SYMBOL(activation)(activation, *sums, 2 * rows);
    for (int64_t i = 0; i < rows; i++, to += mm->out_m) {
        vf_store(to, sums[i][0]);
        vf_store(to + VF, sums[i][1]);
    }
}

/* Rows of one panel's sums, `pitch` apart. */
static void store_rows(const matmul *mm, const matmul_batch *at, int64_t m, int64_t n, int64_t rows,
                       const float *c, int64_t pitch) {
    int64_t count = matmul_least(mm->n - n, MATMUL_COLUMNS);
    if (mm->is_bare && count == MATMUL_COLUMNS) {
        float *to = (float *)mm->out->data + at->out + m * mm->out_m + n;
        for (int64_t i = 0; i < rows; i++, c += pitch, to += mm->out_m) {
            vf_store(to, vf_load(c));
            vf_store(to + VF, vf_load(c + VF));
        }
        return;
    }
    if (mm->is_bare) {
        float *to = (float *)mm->out->data + at->out + m * mm->out_m + n;
        for (int64_t i = 0; i < rows; i++, c += pitch, to += mm->out_m) {
            vf_store_n(to, vf_load(c), matmul_least(count, VF));
            if (count > VF) vf_store_n(to + VF, vf_load(c + VF), count - VF);
        }
        return;
    }
    if (mm->is_simple && mm->alpha == 1 && !mm->gated && count == MATMUL_COLUMNS) {
        for (int64_t i = 0; i < rows; i += MATMUL_ROWS)
            store_whole(mm, at, m + i, n, matmul_least(rows - i, MATMUL_ROWS), c + i * pitch,
                        pitch);
        return;
    }
    for (int64_t i = 0; i < rows; i++, c += pitch)
        matmul_store(mm, at, m + i, n, vf_load(c), vf_load(c + VF), count);
}

static void store_tile(const matmul *mm, const matmul_batch *at, int64_t m, int64_t n, int64_t rows,
                       const float *c) {
    store_rows(mm, at, m, n, rows, c, MATMUL_COLUMNS);
}

/* One block of the output, on its way over the blocks of k. */
typedef struct block {
    const matmul *mm;
    const cut *by;
    matmul_batch at;
    matmul_kind kind;
    int64_t m, first_panel, panels;
    tiling tiles;
    bool is_copied;      /* rows of a are in the workspace */
    int64_t a_row;       /* how far apart rows of a are */
    float *a, *b, *sums; /* workspace */
} block;

/* The panel's part for this block of k. */
static const uint8_t *panel_of(const block *self, int64_t panel, int64_t k, int64_t depth) {
    const matmul *mm = self->mm;
    if (!is_packed(mm)) {
        float *to = self->b + panel * depth * MATMUL_COLUMNS;
        return (const uint8_t *)to;
    }
    int64_t element = self->at.b + ((self->first_panel + panel) * mm->k + k) * MATMUL_COLUMNS;
    return (const uint8_t *)mm->b->data + element * matmul_kind_bytes(self->kind);
}

/* Rows `first` on of this block of a, as `tiles` want them. */
static const float *rows_of(const block *self, int64_t first, int64_t k) {
    const matmul *mm = self->mm;
    if (self->is_copied) return self->a + first * self->a_row;
    return (const float *)mm->a->data + self->at.a + (self->m + first) * mm->a_m + k;
}

/* The tiles fetch what comes next, a piece each: first of a panel, then of the one beside it. */
typedef struct fetching {
    const uint8_t *next[2];
    int64_t tiles, step[2]; /* of the first panel; bytes per step of k */
} fetching;

static fetching fetching_of(const block *self, const uint8_t *next, int64_t apart, int64_t count) {
    const int64_t line = MATMUL_COLUMNS * matmul_kind_bytes(self->kind);
    int64_t first = matmul_up(count, self->by->beside), rest = count - first;
    return (fetching){{next, next + apart}, first, {line / first, line / (rest < 1 ? 1 : rest)}};
}

static void fetch(const fetching *from, matmul_sums *c, int64_t depth, int64_t index) {
    const int side = index >= from->tiles;
    c->next_step = from->step[side];
    c->next = from->next[side] + (index - side * from->tiles) * depth * c->next_step;
}

/* After the last panels come the first ones of the next block of k, of the next block of rows, or
 * of the next block of columns. */
static const uint8_t *next_panel(const block *self, int64_t panel, int64_t k, int64_t depth) {
    if (panel < self->panels) return panel_of(self, panel, k, depth);
    if (k + depth < self->mm->k) return panel_of(self, 0, k + depth, depth);
    return panel_of(self, self->by->row_blocks > 1 ? 0 : self->panels, 0, depth);
}

/* One panel, or two side by side. */
static void run_panels(const block *self, int64_t panel, int64_t count, int64_t k, int64_t depth) {
    const matmul *mm = self->mm;
    const uint8_t *b = panel_of(self, panel, k, depth);
    const int64_t apart =
        (is_packed(mm) ? mm->k : depth) * MATMUL_COLUMNS * matmul_kind_bytes(self->kind);
    const int64_t columns = count * MATMUL_COLUMNS;
    bool is_first = k == 0, is_last = k + depth >= mm->k;
    int64_t n = (self->first_panel + panel) * MATMUL_COLUMNS;
    bool is_bare = is_last && mm->is_bare && mm->n - n >= columns;
    bool is_half = halves[MATMUL_MOST_ROWS] != NULL && mm->n - n <= VF && self->kind == PANEL_F32;
    const tiling by = is_half ? half_tiling_of(self->tiles.rows) : self->tiles;
    float here[MATMUL_MOST_ROWS * MATMUL_COLUMNS];
    const fetching from =
        fetching_of(self, next_panel(self, panel + count, k, depth), apart, by.count);
    for (int64_t t = 0, first = 0, rows; t < by.count; t++, first += rows) {
        rows = tile_rows(&by, t);
        float *sums = is_first && is_last ? here
                                          : self->sums + panel * self->tiles.rows * MATMUL_COLUMNS +
                                                first * columns;
        matmul_sums c = {is_first ? NULL : sums, sums, columns, columns, NULL, 0};
        if (is_bare) {
            c.to_row = mm->out_m;
            c.to = (float *)mm->out->data + self->at.out + (self->m + first) * mm->out_m + n;
        }
        fetch(&from, &c, depth, t);
        if (count > 1) {
            pairs[rows](rows_of(self, first, k), self->a_row, b, apart, depth, &c);
        } else if (is_half && halves[rows] != NULL) {
            halves[rows](rows_of(self, first, k), self->a_row, b, depth, &c);
        } else {
            tiles[self->kind][rows](rows_of(self, first, k), self->a_row, b, depth, &c);
        }
        for (int64_t i = 0; is_last && !is_bare && i < columns; i += MATMUL_COLUMNS)
            store_rows(mm, &self->at, self->m + first, n + i, rows, sums + i, columns);
    }
}

static void run_block(block *self) {
    const matmul *mm = self->mm;
    for (int64_t d = 0; d < self->by->depth_blocks; d++) {
        int64_t k = depth_start(mm, self->by->depth_blocks, d);
        int64_t depth = depth_start(mm, self->by->depth_blocks, d + 1) - k;
        self->a_row = self->is_copied ? matmul_up(depth, 16) * 16 + 16 : mm->a_m;
        if (self->is_copied)
            pack_a(mm, self->at.a, self->m, self->tiles.rows, k, depth, self->a_row, self->a);
        for (int64_t p = 0; p < self->panels && !is_packed(mm); p++) {
            int64_t n = (self->first_panel + p) * MATMUL_COLUMNS;
            pack_b_panel(mm, self->at.b, n, matmul_least(mm->n - n, MATMUL_COLUMNS), k, depth,
                         self->b + p * depth * MATMUL_COLUMNS);
        }
        for (int64_t p = 0; p < self->panels; p += self->by->beside)
            run_panels(self, p, matmul_least(self->by->beside, self->panels - p), k, depth);
    }
}

/* Several panels for one to three rows of a. */
static void run_few(const block *self) {
    const matmul *mm = self->mm;
    float sums[FEW_ROWS * FEW_PANELS * MATMUL_COLUMNS];
    const float *a = (const float *)mm->a->data + self->at.a;
    int64_t a_row = is_direct(mm) ? mm->a_m : matmul_up(mm->k, 16) * 16;
    for (int64_t i = 0; i < mm->m && !is_direct(mm); i++)
        vec_read_f32(mm->a, self->at.a + i * mm->a_m, mm->a_k, mm->k, self->a + i * a_row);
    if (!is_direct(mm)) a = self->a;
    int64_t apart = mm->k * MATMUL_COLUMNS * matmul_kind_bytes(self->kind);
    for (int64_t p = 0, count; p < self->panels; p += count) {
        const few_fn *of = fews[self->kind][mm->m - 1];
        for (count = FEW_PANELS; of[count] == NULL || count > self->panels - p;)
            count--;
        of[count](a, a_row, panel_of(self, p, 0, 0), apart, mm->k, sums);
        for (int64_t i = 0; i < count; i++)
            store_tile(mm, &self->at, 0, (self->first_panel + p + i) * MATMUL_COLUMNS, mm->m,
                       sums + i * mm->m * MATMUL_COLUMNS);
    }
}

/* What hangs on shapes alone: worked out once, since a small product takes as long. */
typedef struct ready {
    matmul mm;
    cut by;
    room at;
} ready;

static ready make_ready(const rlx_kernel_args *args) {
    ready self = {.mm = matmul_make(args)};
    self.by = cut_of(&self.mm);
    self.at = room_of(&self.mm);
    return self;
}

/* Few rows: `count` items from `column` on. */
static void run_thin(block *self, int64_t column, int64_t count) {
    const cut *by = self->by;
    self->first_panel = column * by->panels;
    self->panels = matmul_least(by->panels * count,
                                matmul_up(self->mm->n, MATMUL_COLUMNS) - self->first_panel);
    run_few(self);
}

static void run_item(block *self, int64_t row, int64_t column) {
    const matmul *mm = self->mm;
    const cut *by = self->by;
    int64_t panels = matmul_up(mm->n, MATMUL_COLUMNS), groups = matmul_up(panels, by->beside);
    int64_t end_group = matmul_part_start(groups, by->column_blocks, column + 1);
    self->m = row_start(mm, by, row);
    self->first_panel = matmul_part_start(groups, by->column_blocks, column) * by->beside;
    self->panels = matmul_least(end_group * by->beside, panels) - self->first_panel;
    self->tiles = tiling_of(row_start(mm, by, row + 1) - self->m, by->beside, self->kind);
    self->is_copied = is_copied(mm, by);
    run_block(self);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    ready now;
    const ready *from = args->prepared;
    if (from == NULL) now = make_ready(args), from = &now;
    const matmul *mm = &from->mm;
    const cut *by = &from->by;
    _Alignas(64) float here[SMALL_ROOM];
    float *workspace = from->at.all <= SMALL_ROOM ? here : args->workspace;
    block self = {.mm = mm, .by = by, .kind = is_packed(mm) ? kind_of(mm->b->dtype) : PANEL_F32};
    self.a = workspace, self.b = workspace + from->at.b, self.sums = workspace + from->at.sums;
    for (int64_t item = begin, per_batch = by->row_blocks * by->column_blocks; item < end; item++) {
        int64_t rest = item % per_batch;
        int64_t row = rest % by->row_blocks, column = rest / by->row_blocks;
        self.at = rlx_cpu_matmul_batch_at(mm, item / per_batch);
        if (by->is_thin && mm->m <= FEW_ROWS) {
            /* One row: items that follow each other are one, of more streams. */
            int64_t count = mm->m == 1 ? matmul_least(end - item, by->column_blocks - column) : 1;
            item += count - 1;
            run_thin(&self, column, count);
            continue;
        }
        run_item(&self, row, column);
    }
}

static uint64_t ready_bytes(const rlx_kernel_args *args) {
    (void)args;
    return sizeof(ready);
}

static void make(const rlx_kernel_args *args, void *memory) {
    *(ready *)memory = make_ready(args);
}

static int64_t items(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    cut by = cut_of(&mm);
    if (mm.m == 0 || mm.n == 0) return 0;
    return mm.batches * by.row_blocks * by.column_blocks;
}

/* Vectors of multiply-adds; with few rows reading b is what takes time. */
static int64_t item_cost(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    cut by = cut_of(&mm);
    return block_cost(&mm, by.rows, by.panels) / (by.is_thin ? 2 : 8);
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    int64_t floats = room_of(&mm).all;
    return floats <= SMALL_ROOM ? 0 : (uint64_t)floats * sizeof(float);
}

static bool is_small_float(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F32 || dtype == RLX_DTYPE_F16 || dtype == RLX_DTYPE_BF16;
}

static bool takes_floats(const rlx_target_query *query) {
    return is_small_float(query->in[0].dtype) && is_small_float(query->out[0].dtype) &&
           query->in[0].layout == RLX_LAYOUT_PLAIN;
}

static bool takes_packed(const rlx_target_query *query) {
    if (VF < 8) return false; /* there are no panels so narrow */
    rlx_layout columns = VF < 16 ? RLX_LAYOUT_COLUMNS16 : RLX_LAYOUT_COLUMNS32;
    rlx_layout rows = VF < 16 ? RLX_LAYOUT_ROWS16 : RLX_LAYOUT_ROWS32;
    const rlx_tensor *b = &query->in[1];
    return takes_floats(query) && is_small_float(b->dtype) &&
           (b->layout == columns || b->layout == rows);
}

static bool takes_plain(const rlx_target_query *query) {
    const rlx_tensor *b = &query->in[1];
    return takes_floats(query) && b->layout == RLX_LAYOUT_PLAIN &&
           (is_small_float(b->dtype) || rlx_dtype_row_of(b->dtype)->class_ == RLX_CLASS_BLOCK);
}

const rlx_cpu_override VEC_SYMBOL(matmul)[] = {
    {RLX_OP_MATMUL,
     0,
     takes_packed,
     {VEC_NAME("matmul_packed"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_MATMUL, 0, takes_plain, {VEC_NAME("matmul"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
const rlx_cpu_preparation VEC_SYMBOL(matmul_preparation) = {run, ready_bytes, make, NULL};
