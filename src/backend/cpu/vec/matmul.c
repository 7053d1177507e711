/* SPDX-License-Identifier: Apache-2.0 */
/* matmul of f32, f16 and bf16 in f32: b in panels (packed weights) or in any strides, then packed
 * block by block on the way. An item is a block of the output with all of k; its workspace holds a
 * block of a, of b where b is not packed, and of sums where k has several blocks. With few rows of
 * a there is nothing to pack, and an item is one panel. */
#include "backend/cpu/vec/matmul_cut.h"

enum {
    SMALL_ROOM = 4096,                            /* floats of workspace that fit the stack */
    HERE = 4 * MATMUL_MOST_ROWS * MATMUL_COLUMNS, /* sums at a time, where they have an epilogue */
    ASKED_WEIGHTS = 4 << 20,                      /* so many may lie in the last cache */
};

/* Bytes that a tile with all rows of a asks ahead for. On Intel's processors what is asked for
 * further ahead leaves the first cache again; others want more where a line takes longer. */
static int64_t stream_ahead(const matmul *mm) {
    return 8192 + (vec_is_intel() ? 0 : 1024 * mm->m);
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
static __attribute__((noinline)) void store_rows(const matmul *mm, const matmul_batch *at,
                                                 int64_t m, int64_t n, int64_t rows, const float *c,
                                                 int64_t pitch) {
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

/* How far apart panels are, in bytes. */
static int64_t panels_apart(const block *self, int64_t depth) {
    return (is_packed(self->mm) ? self->mm->k : depth) * MATMUL_COLUMNS *
           matmul_kind_bytes(self->kind);
}

/* After the last panels come the first ones of the next block of k, of the next block of rows, or
 * of the next block of columns. */
static const uint8_t *next_panel(const block *self, int64_t panel, int64_t k, int64_t depth) {
    if (panel < self->panels) return panel_of(self, panel, k, depth);
    if (k + depth < self->mm->k) return panel_of(self, 0, k + depth, depth);
    return panel_of(self, self->by->row_blocks > 1 ? 0 : self->panels, 0, depth);
}

static float *out_of(const block *self, int64_t first, int64_t n) {
    return (float *)self->mm->out->data + self->at.out + (self->m + first) * self->mm->out_m + n;
}

/* `count` tiles of one height below each other, on one panel or two side by side. */
typedef struct stack {
    int64_t first, rows, count;
    int64_t panel, beside;
    bool is_half;        /* of a panel */
    const uint8_t *next; /* what is fetched, `next_step` bytes per step of k */
    int64_t next_step;
} stack;

/* What the tiles from `index` on fetch of the panels at `next`. */
static void fetch(const tiling *by, const uint8_t *next, int64_t apart, int64_t index,
                  int64_t depth, stack *now) {
    const int side = index >= by->asking;
    now->next_step = by->asks[side];
    now->next = next + side * apart + (index - side * by->asking) * depth * now->next_step;
}

static void call_tiles(const block *self, const stack *by, int64_t first, int64_t k, int64_t depth,
                       const matmul_sums *c) {
    const float *a = rows_of(self, first, k);
    const uint8_t *b = panel_of(self, by->panel, k, depth);
    if (by->beside > 1) {
        pairs[by->rows](a, self->a_row, b, panels_apart(self, depth), depth, c);
    } else if (by->is_half && halves[by->rows] != NULL) {
        halves[by->rows](a, self->a_row, b, depth, c);
    } else {
        tiles[self->kind][by->rows](a, self->a_row, b, depth, c);
    }
}

/* What is no whole vector or has an epilogue goes through sums, some tiles at a time. */
static void run_stack(const block *self, const stack *by, int64_t k, int64_t depth) {
    const matmul *mm = self->mm;
    const int64_t columns = by->beside * MATMUL_COLUMNS, area = by->rows * columns;
    const bool is_first = k == 0, is_last = k + depth >= mm->k, is_only = is_first && is_last;
    const int64_t n = (self->first_panel + by->panel) * MATMUL_COLUMNS;
    const int64_t width = by->is_half && halves[by->rows] != NULL ? VF : columns;
    const bool is_bare = is_last && mm->is_bare && mm->n - n >= width;
    const int64_t most = is_only && !is_bare ? HERE / area : by->count;
    float here[HERE];
    for (int64_t t = 0, count; t < by->count; t += count) {
        const int64_t first = by->first + t * by->rows;
        float *sums = self->sums + by->panel * self->tiles.rows * MATMUL_COLUMNS + first * columns;
        if (is_only) sums = here;
        count = matmul_least(most, by->count - t);
        matmul_sums c = {.from = is_first ? NULL : sums,
                         .to = is_bare ? out_of(self, first, n) : sums,
                         .from_row = columns,
                         .to_row = is_bare ? mm->out_m : columns,
                         .next = by->next + t * depth * by->next_step,
                         .next_step = by->next_step,
                         .count = count,
                         .a_step = by->rows * self->a_row};
        c.to_step = by->rows * c.to_row;
        call_tiles(self, by, first, k, depth, &c);
        for (int64_t j = 0; is_last && !is_bare && j < columns; j += MATMUL_COLUMNS)
            store_rows(mm, &self->at, self->m + first, n + j, count * by->rows, sums + j, columns);
    }
}

static bool is_half(const block *self, int64_t panel) {
    int64_t n = (self->first_panel + panel) * MATMUL_COLUMNS;
    return halves[MATMUL_MOST_ROWS] != NULL && self->mm->n - n <= VF && self->kind == PANEL_F32;
}

/* One panel, or two side by side. Where there is no other, the tiles fetch the rows that come
 * next. */
static void run_panels(const block *self, int64_t panel, int64_t count, int64_t k, int64_t depth) {
    stack now = {.panel = panel, .beside = count, .is_half = is_half(self, panel)};
    const tiling by = now.is_half ? half_tiling_of(self->tiles.rows, self->a_row) : self->tiles;
    const uint8_t *next = next_panel(self, panel + count, k, depth);
    for (int64_t t = 0; t < by.count; t += now.count, now.first += now.count * now.rows) {
        int64_t end = t < by.more ? by.more : by.count;
        if (t < by.asking) end = matmul_least(end, by.asking);
        now.rows = tile_rows(&by, t);
        now.count = end - t;
        fetch(&by, next, panels_apart(self, depth), t, depth, &now);
        if (self->panels == 1 && self->a_row == depth) {
            now.next = (const uint8_t *)rows_of(self, now.first + now.rows, k);
            now.next_step = now.rows * (int64_t)sizeof(float);
        }
        run_stack(self, &now, k, depth);
    }
}

/* All of k at once: a tile goes from panel to panel, so that the output is written along its rows.
 * The last panel, if it is not whole, comes last. */
static void run_along(const block *self, int64_t depth) {
    const matmul *mm = self->mm;
    const tiling *by = &self->tiles;
    const int64_t n = self->first_panel * MATMUL_COLUMNS;
    const int64_t whole = matmul_least((mm->n - n) / MATMUL_COLUMNS, self->panels);
    float here[HERE];
    const int64_t ahead = is_one_tile(mm) ? stream_ahead(mm) : 0; /* 0: b is in a near cache */
    matmul_sums c = {.next_step = ahead > 0 ? by->asks[0] : 0, .b_step = panels_apart(self, depth)};
    for (int64_t t = 0, first = 0, rows; t < by->count; t++, first += rows) {
        rows = tile_rows(by, t);
        const int64_t area = rows * MATMUL_COLUMNS, most = mm->is_bare ? whole : HERE / area;
        c.to_row = mm->is_bare ? mm->out_m : MATMUL_COLUMNS;
        c.to_step = mm->is_bare ? MATMUL_COLUMNS : area;
        for (int64_t p = 0; p < whole; p += c.count) {
            c.to = mm->is_bare ? out_of(self, first, n) : here;
            c.count = matmul_least(most, whole - p);
            c.next = panel_of(self, p, 0, depth) + ahead;
            tiles[self->kind][rows](rows_of(self, first, 0), self->a_row,
                                    panel_of(self, p, 0, depth), depth, &c);
            for (int64_t i = 0; i < c.count && !mm->is_bare; i++)
                store_rows(mm, &self->at, self->m + first, n + (p + i) * MATMUL_COLUMNS, rows,
                           here + i * area, MATMUL_COLUMNS);
        }
    }
    if (whole < self->panels) run_panels(self, whole, 1, 0, depth);
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
        if (self->by->is_along) run_along(self, depth);
        for (int64_t p = 0; !self->by->is_along && p < self->panels; p += self->by->beside)
            run_panels(self, p, matmul_least(self->by->beside, self->panels - p), k, depth);
    }
}

/* Other processors than Intel's are asked for lines where weights may lie in the last cache, for
 * which two threads wait; from memory they read ahead better by themselves. */
static bool is_asked(const block *self) {
    const matmul *mm = self->mm;
    return VF >= 16 && mm->m == 1 && self->kind == PANEL_F32 && !vec_is_intel() &&
           rlx_ref_cost(mm->k, mm->n) <= ASKED_WEIGHTS;
}

/* Several panels for one to three rows of a. */
static void run_few(const block *self) {
    const matmul *mm = self->mm;
    const bool asks = is_asked(self);
    const int64_t most = vec_is_intel() ? FEW_PANELS : asks ? FEW_NEAR : FEW_OTHERS;
    float sums[FEW_ROWS * FEW_PANELS * MATMUL_COLUMNS];
    const float *a = (const float *)mm->a->data + self->at.a;
    int64_t a_row = is_direct(mm) ? mm->a_m : matmul_up(mm->k, 16) * 16;
    for (int64_t i = 0; i < mm->m && !is_direct(mm); i++)
        vec_read_f32(mm->a, self->at.a + i * mm->a_m, mm->a_k, mm->k, self->a + i * a_row);
    if (!is_direct(mm)) a = self->a;
    int64_t apart = mm->k * MATMUL_COLUMNS * matmul_kind_bytes(self->kind);
    for (int64_t p = 0, count; p < self->panels; p += count) {
        const few_fn *of = fews[self->kind][mm->m - 1];
        for (count = most; of[count] == NULL || count > self->panels - p;)
            count--;
        const int64_t n = (self->first_panel + p) * MATMUL_COLUMNS;
        const bool is_bare = mm->m == 1 && mm->is_bare && mm->n - n >= count * MATMUL_COLUMNS;
        float *to = is_bare ? (float *)mm->out->data + self->at.out + n : sums;
        const few_fn fn = asks && count == FEW_NEAR ? few_asking : of[count];
        fn(a, a_row, panel_of(self, p, 0, 0), apart, mm->k, to);
        for (int64_t i = 0; i < count && !is_bare; i++)
            store_tile(mm, &self->at, 0, (self->first_panel + p + i) * MATMUL_COLUMNS, mm->m,
                       sums + i * mm->m * MATMUL_COLUMNS);
    }
}

/* So many items that follow each other are one. Blocks of rows, for fewer and higher tiles; items
 * of one row, for more streams; of few with all of k in a block, since such an item is small. */
static int64_t together(const matmul *mm, const cut *by) {
    const int64_t rows = (by->heights.each + (by->heights.more > 0)) * by->height;
    if (!by->is_thin) return rows < 1 || rows > most_rows(mm) ? 1 : most_rows(mm) / rows;
    if (mm->m == 1) return by->column_blocks;
    return by->depth_blocks > 1 ? 1 : BLOCK_COLUMNS / MATMUL_COLUMNS / by->panels;
}

/* What hangs on shapes alone: worked out once, since a small product takes as long. */
typedef struct ready {
    matmul mm;
    cut by;
    room at;
    int64_t together; /* items that follow each other and are run as one, at most */
} ready;

static __attribute__((noinline, cold)) ready make_ready(const rlx_kernel_args *args) {
    ready self = {.mm = matmul_make(args)};
    self.by = cut_of(&self.mm);
    self.at = room_of(&self.mm);
    self.together = together(&self.mm, &self.by);
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

/* `count` items: of few rows beside each other, else below each other. */
static void run_items(block *self, int64_t row, int64_t column, int64_t count) {
    const matmul *mm = self->mm;
    const cut *by = self->by;
    const int64_t end = part_start(&by->groups, column + (by->is_thin ? count : 1)) * by->beside;
    self->m = row_start(mm, by, row);
    self->first_panel = part_start(&by->groups, column) * by->beside;
    self->panels = matmul_least(end, matmul_up(mm->n, MATMUL_COLUMNS)) - self->first_panel;
    const int64_t rows = row_start(mm, by, row + (by->is_thin ? 1 : count)) - self->m;
    if (rows != self->tiles.rows) self->tiles = tiling_of(rows, by->beside, self->kind);
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
    const int64_t per_batch = by->row_blocks * by->column_blocks, most = from->together;
    int64_t batch = begin / per_batch, rest = begin % per_batch;
    int64_t row = rest % by->row_blocks, column = rest / by->row_blocks;
    self.at = rlx_cpu_matmul_batch_at(mm, batch);
    for (int64_t item = begin, count; item < end; item += count) {
        int64_t left = by->is_thin ? by->column_blocks - column : by->row_blocks - row;
        count = matmul_least(matmul_least(end - item, left), most);
        if (by->is_thin && mm->m <= FEW_ROWS) {
            run_thin(&self, column, count);
        } else {
            run_items(&self, row, column, count);
        }
        row += count; /* items of few rows have one block of them */
        if (row < by->row_blocks) continue;
        row = 0, column += by->is_thin ? count : 1;
        if (column < by->column_blocks || item + count >= end) continue;
        column = 0;
        self.at = rlx_cpu_matmul_batch_at(mm, ++batch);
    }
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
const rlx_cpu_preparation VEC_SYMBOL(matmul_preparation) = {
    .run = run, .size = sizeof(ready), .make = make};
