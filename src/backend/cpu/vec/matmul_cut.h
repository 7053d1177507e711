/* SPDX-License-Identifier: Apache-2.0 */
/* How a float product is cut into items, blocks and tiles, and what workspace that takes: from
 * shapes alone. For the one file that includes it. */
#ifndef RLX_BACKEND_CPU_VEC_MATMUL_CUT_H
#define RLX_BACKEND_CPU_VEC_MATMUL_CUT_H

#include "backend/cpu/vec/matmul_pack.h"
#include "backend/cpu/vec/matmul_tiles.h"
#include "ir/dtype.h"

enum {
    BLOCK_DEPTH = 256,    /* of k in a block, where there are several or weights in blocks */
    BLOCK_ROWS = 96,      /* rows of a block at most: their part of a stays in the second */
    PAIR_DEPTH = 512,     /* both for packed weights with two panels side by side, where b comes */
    PAIR_ROWS = 144,      /* from the second cache and sums go through memory less often */
    PAIR_DEPTH_ONE = 768, /* of k in their only block */
    BLOCK_COLUMNS = 512,  /* columns of a block at most */
    THIN_ROWS = 3 * MATMUL_ROWS, /* as many rows are few: an item is one panel, or two of many */
    MANY_PANELS = 64,            /* of them an item has 8, else 4 */
    WANTED_ITEMS = 16,           /* large products have at least so many items */
    LEAST_ITEM = 1 << 19,        /* but none is cut below so many multiply-adds */
    LEAST_FEW = 1 << 17,         /* the same while there are fewer than FEW_ITEMS and no b to */
    FEW_ITEMS = 4,               /* pack for each: enough for threads to share */
    TILE_STEPS = 5,              /* of k: what a tile takes besides */
    COPY_PANELS = 16,            /* rows of a are copied for so many panels at least */
    PAIR_PANELS = 16,            /* of few rows: enough items of two */
};

static matmul_kind kind_of(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F16 ? PANEL_F16 : dtype == RLX_DTYPE_BF16 ? PANEL_BF16 : PANEL_F32;
}

/* Nearly equal parts: the first `more` have one more than the others. Divided once, since that
 * takes as long as ten multiplications. */
typedef struct parts {
    int64_t each, more;
} parts;

static parts parts_of(int64_t whole, int64_t count) {
    return (parts){whole / count, whole % count};
}
static int64_t part_start(const parts *of, int64_t index) {
    return of->each * index + matmul_least(index, of->more);
}

/* How the output of one batch is cut: from shapes alone. */
typedef struct cut {
    int64_t row_blocks, column_blocks; /* columns are counted in panels */
    int64_t rows, panels;              /* of the largest block */
    int64_t depth_blocks;
    int64_t beside;        /* panels side by side in a tile */
    int64_t height;        /* of what blocks of rows consist of */
    parts heights, groups; /* of a block; groups are panels side by side */
    bool is_thin;
    bool is_along; /* a tile goes from panel to panel, not from rows to rows */
} cut;

/* Blocks of rows consist of whole tiles where there are several of both. Those of two panels take
 * as long per row with a row less, so that blocks may be equal. */
static cut with_parts(cut by, const matmul *mm) {
    const int64_t whole = matmul_up(mm->m, MATMUL_ROWS), panels = matmul_up(mm->n, MATMUL_COLUMNS);
    const bool is_equal = by.row_blocks < 2 || by.beside > 1 || whole < 2 * by.row_blocks;
    by.height = is_equal ? 1 : MATMUL_ROWS;
    by.heights = parts_of(is_equal ? mm->m : whole, by.row_blocks);
    by.groups = parts_of(matmul_up(panels, by.beside), by.column_blocks);
    return by;
}

static int64_t row_start(const matmul *mm, const cut *by, int64_t index) {
    return matmul_least(part_start(&by->heights, index) * by->height, mm->m);
}

/* To begin and to store a tile takes as long as some steps of k. */
static int64_t block_cost(const matmul *mm, int64_t rows, int64_t panels) {
    return rlx_ref_cost(rlx_ref_cost(rows, panels * MATMUL_COLUMNS), mm->k + TILE_STEPS);
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

/* All rows are one tile, through which b goes once: no part of it is to stay in a cache (levels of
 * 64 bytes; 32 have tiles of few rows only). */
static bool is_one_tile(const matmul *mm) {
    return VF >= 16 && mm->m > 0 && mm->m <= MATMUL_ROWS &&
           tiles[kind_of(mm->b->dtype)][mm->m] != NULL;
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

/* Where blocks are cut next. A b that is not packed is packed once per block of rows, an a that
 * lies the other way once per block of columns. Tiles that go along want panels; others want rows,
 * since they share what is fetched for the next panel. */
static bool cuts_columns(const matmul *mm, const cut *by) {
    enum { LOW = 24, MIDDLE = 48, HIGH = 96, MANY = 8 };
    if (!is_packed(mm))
        return by->panels > by->beside &&
               (is_direct(mm) || by->panels * MATMUL_COLUMNS >= by->rows);
    if (by->is_along) return by->panels > 1 && by->rows < LOW;
    return by->panels >= MANY || (by->panels > 2 * by->beside && by->rows < HIGH) ||
           (by->panels > by->beside && by->rows < (by->beside > 1 ? HIGH : MIDDLE));
}

static __attribute__((cold)) cut cut_of(const matmul *mm) {
    int64_t panels = matmul_up(mm->n, MATMUL_COLUMNS);
    depths deep = depths_of(mm);
    cut by = {.depth_blocks = mm->k <= deep.one ? 1 : matmul_up(mm->k, deep.many)};
    by.is_thin = is_packed(mm) && mm->m <= (is_direct(mm) ? THIN_ROWS : FEW_ROWS);
    if (by.is_thin && is_one_tile(mm)) by.depth_blocks = 1;
    by.is_along = by.depth_blocks == 1 && side_by_side(mm) == 1;
    if (by.is_thin) {
        by.row_blocks = 1, by.rows = mm->m;
        by.beside = panels < PAIR_PANELS ? 1 : side_by_side(mm);
        by.panels = mm->m > 1 ? 2 : VF < 16 || panels < MANY_PANELS ? 4 : 8;
        if (mm->m > FEW_ROWS) by.panels = by.beside;
        by.column_blocks = panels == 0 ? 1 : matmul_up(panels, by.panels);
        return with_parts(by, mm);
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
        const int64_t count = by.row_blocks * by.column_blocks * mm->batches;
        const int64_t least = is_packed(mm) && count < FEW_ITEMS ? LEAST_FEW : LEAST_ITEM;
        if (count >= WANTED_ITEMS || block_cost(mm, by.rows, by.panels) < 2 * least) break;
        if (cuts_columns(mm, &by)) {
            by.column_blocks *= 2;
        } else if (by.rows >= 2 * MATMUL_ROWS) {
            by.row_blocks *= 2;
        } else {
            break;
        }
        by.column_blocks = matmul_least(by.column_blocks, groups);
    }
    return with_parts(by, mm);
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

/* Tiles of a block's rows: `more` of them have a row more than the rest. On the way they fetch what
 * comes next, a piece each: the first `asking` of a panel, the others of the one beside it; `asks`
 * is in bytes per step of k. */
typedef struct tiling {
    int64_t rows, count, least, more, asking, asks[2];
} tiling;

static tiling tiling_in(int64_t rows, int64_t count, int64_t beside, matmul_kind kind) {
    const int64_t line = MATMUL_COLUMNS * matmul_kind_bytes(kind);
    const int64_t asking = beside > 1 ? (count + 1) / 2 : count, rest = count - asking;
    return (tiling){rows,         count,  rows / count,
                    rows % count, asking, {line / asking, rest < 1 ? line : line / rest}};
}

static tiling tiling_of(int64_t rows, int64_t beside, matmul_kind kind) {
    bool is_whole = beside == 1 && rows % MATMUL_ROWS == 0;
    bool is_one = beside == 1 && rows <= MATMUL_ROWS && tiles[kind][rows] != NULL;
    int64_t count = is_one     ? 1
                    : is_whole ? matmul_up(rows, MATMUL_ROWS)
                               : matmul_up(rows, SHORT_ROWS);
    return tiling_in(rows, count, beside, kind);
}

/* Tiles of half a panel have up to twice the rows; six and fewer are those of a whole one. Rows a
 * multiple of 4 KiB apart are no more than the ways of the first cache. */
static tiling half_tiling_of(int64_t rows, int64_t apart) {
    int64_t count = matmul_up(rows, apart % 1024 == 0 ? 8 : MATMUL_MOST_ROWS);
    return tiling_in(rows, count, 1, PANEL_F32);
}

static int64_t tile_rows(const tiling *by, int64_t tile) {
    return by->least + (tile < by->more);
}

#endif
