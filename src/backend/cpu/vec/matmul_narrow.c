/* SPDX-License-Identifier: Apache-2.0 */
/* matmul to few columns (heads, scores of pooling), or of one row with a b that is no weight and
 * lies along k (scores of a query): a panel would be padding for the most part, or made for one
 * row. So lanes run along k, rows of a are read where they are, and the columns of b lie as rows
 * beside each other. Each lane sums its part of k; the lanes are added last. An item is some rows
 * of the output with all of k. */
#include "backend/cpu/vec/matmul.h"
#include "backend/cpu/vec/rows.h"
#include "backend/cpu/vec/sum_four.h"
#include "backend/cpu/vec/transpose.h"

enum {
    MOST_COLUMNS = VF < 8 ? 4 : MATMUL_NARROW_COLUMNS, /* a vector at most */
    LEAST_DEPTH = MATMUL_NARROW_DEPTH, /* of k per column: sums across lanes cost as much as that */
    BLOCK_DEPTH = 4096,                /* of k at a time; a tile's rows are read along */
    COPIED_DEPTH = 256,                /* the same where they are copied */
    APART = 16,              /* between columns: not all in the same places of the cache */
    TILE_ROWS = 4,           /* at most */
    TILE_SUMS = 12,          /* at most */
    ITEM_ROWS = 96,          /* at most; whole tiles */
    TURNED_ROWS = 48,        /* at least, where an item turns b */
    ITEM_PRODUCTS = 1 << 17, /* about */
};

/* Rows of the output and a block of k. */
typedef struct block {
    const matmul *mm;
    matmul_batch at;
    int64_t m, rows, depth;
    const float *a, *b; /* a row of a after the other, a column of b after the other */
    int64_t a_row, b_row;
    float *sums; /* [rows][columns], rows `pitch` apart */
    int64_t pitch;
    bool is_only; /* block of k: sums are set, not added to */
} block;

/* One step of k, `count` numbers of it where that is not a whole vector. */
VEC_INLINE void dots_step(const float *a, int64_t a_row, const float *b, int64_t b_row,
                          int64_t count, vf *sum, const int rows, const int columns) {
    vf x[TILE_ROWS], y;
    VEC_UNROLLED for (int i = 0; i < rows; i++) x[i] =
        count >= VF ? vf_load(a + i * a_row) : vf_load_n(a + i * a_row, count);
    VEC_UNROLLED for (int j = 0; j < columns; j++) {
        y = count >= VF ? vf_load(b + j * b_row) : vf_load_n(b + j * b_row, count);
        VEC_UNROLLED for (int i = 0; i < rows; i++) vf_add_product(&sum[i * columns + j], x[i], y);
    }
}

/* sums += a b for a tile in registers, but its first `skip` rows, which have been added before.
 * `rows` and `columns` are constants, their product whole fours. */
VEC_INLINE void dots(const block *self, int64_t first, int64_t skip, int64_t column, const int rows,
                     const int columns) {
    const float *a = self->a + first * self->a_row, *b = self->b + column * self->b_row;
    const int64_t a_row = self->a_row, b_row = self->b_row, depth = self->depth;
    float flat[TILE_SUMS], *to = self->sums + first * self->pitch + column;
    const bool is_only = self->is_only;
    vf sum[TILE_SUMS];
    int64_t k = 0;
    VEC_UNROLLED_MORE for (int i = 0; i < rows * columns; i++) sum[i] = vf_set(0);
    for (; k + VF <= depth; k += VF, a += VF, b += VF) {
        dots_step(a, a_row, b, b_row, VF, sum, rows, columns);
    }
    if (k < depth) dots_step(a, a_row, b, b_row, depth - k, sum, rows, columns);
    VEC_UNROLLED for (int i = 0; i < rows * columns; i += 4) sum_four(sum + i, flat + i);
    for (int64_t i = skip; i < rows; i++) {
        for (int j = 0; j < columns; j++)
            to[i * self->pitch + j] =
                flat[i * columns + j] + (is_only ? 0 : to[i * self->pitch + j]);
    }
}

/* One row and one column: k is taken in turns by four sums. */
static void dot(const block *self, int64_t row, int64_t column) {
    const float *a = self->a + row * self->a_row, *b = self->b + column * self->b_row;
    float parts[4];
    vf sum[4] = {{0}};
    int64_t k = 0, depth = self->depth;
    for (; k + 4 * VF <= depth; k += 4 * VF) {
        VEC_UNROLLED for (int i = 0; i < 4; i++) sum[i] =
            vf_fma(vf_load(a + k + i * VF), vf_load(b + k + i * VF), sum[i]);
    }
    for (; k < depth; k += VF) {
        int64_t count = matmul_least(VF, depth - k);
        sum[0] = vf_fma(vf_load_n(a + k, count), vf_load_n(b + k, count), sum[0]);
    }
    sum_four(sum, parts);
    float *to = self->sums + row * self->pitch + column;
    *to = (self->is_only ? 0 : *to) + (parts[0] + parts[1] + (parts[2] + parts[3]));
}

/* All rows of a block, a tile of them at a time; the last one goes back to be whole. */
#define COLUMNS(name, tile, columns)                                 \
    static void name(const block *self, int64_t column) {            \
        for (int64_t m = 0; m < self->rows; m += (tile)) {           \
            int64_t first = matmul_least(m, self->rows - (tile));    \
            dots(self, first, m - first, column, (tile), (columns)); \
        }                                                            \
    }
COLUMNS(one_column, TILE_ROWS, 1)
COLUMNS(two_columns, TILE_ROWS, 2)
COLUMNS(three_columns, TILE_ROWS, 3)
COLUMNS(four_columns, 3, 4)

static void add_block(const block *self, int64_t columns) {
    static void (*const adders[])(const block *, int64_t) = {one_column, two_columns, three_columns,
                                                             four_columns};
    int64_t parts = matmul_up(columns, 4);
    for (int64_t j = 0; self->rows < TILE_ROWS && j < columns; j++) {
        for (int64_t i = 0; i < self->rows; i++)
            dot(self, i, j);
    }
    for (int64_t part = 0; self->rows >= TILE_ROWS && part < parts; part++) {
        int64_t j = matmul_part_start(columns, parts, part);
        adders[matmul_part_start(columns, parts, part + 1) - j - 1](self, j);
    }
}

static bool is_direct(const matmul *mm) {
    return mm->a->dtype == RLX_DTYPE_F32 && mm->a_k == 1;
}
static bool is_turned(const matmul *mm) {
    return mm->b->dtype == RLX_DTYPE_F32 && (mm->b_k == 1 || mm->k == 1);
}

/* Of k in a block, and how far apart columns that an item turns are. */
static int64_t depth_of(const matmul *mm) {
    return matmul_least(mm->k, is_direct(mm) ? BLOCK_DEPTH : COPIED_DEPTH);
}
static int64_t turned_row(const matmul *mm) {
    return matmul_up(depth_of(mm), APART) * APART + APART;
}

/* Columns of b from k on, side by side each. Where they lie beside each other, eight rows of
 * b at a time; what is read behind a row belongs to the next ones. */
static void turn_b(const matmul *mm, int64_t base, int64_t k, int64_t depth, float *to) {
    int64_t pitch = turned_row(mm), from = base + k * mm->b_k, done = 0,
            length = (mm->k - 1 - k) * mm->b_k + mm->n;
    bool lies = mm->b->dtype == RLX_DTYPE_F32 && mm->b_n == 1;
    const float *rows = (const float *)mm->b->data + from;
    for (; lies && done + 8 <= depth && (done + 7) * mm->b_k + 8 <= length; done += 8) {
        vt4 r[8];
        for (int i = 0; i < 8; i++)
            memcpy(&r[i], rows + (done + i) * mm->b_k, sizeof r[i]);
        vec_turn4(r);
        for (int64_t j = 0; j < mm->n; j++)
            memcpy(to + j * pitch + done, &r[j], sizeof r[j]);
    }
    for (int64_t j = 0; j < mm->n; j++)
        vec_read_f32(mm->b, from + done * mm->b_k + j * mm->b_n, mm->b_k, depth - done,
                     to + j * pitch + done);
}

/* `room` has the columns of b, then rows of a. */
static void run_rows(block *self, float *room) {
    const matmul *mm = self->mm;
    int64_t most = depth_of(mm);
    float *a_room = room + (is_turned(mm) ? 0 : MOST_COLUMNS * turned_row(mm));
    for (int64_t k = 0; k < mm->k; k += most) {
        int64_t from = self->at.a + self->m * mm->a_m + k * mm->a_k;
        self->depth = matmul_least(most, mm->k - k);
        self->a = (const float *)mm->a->data + from, self->a_row = mm->a_m;
        self->b = (const float *)mm->b->data + self->at.b + k, self->b_row = mm->b_n;
        if (!is_turned(mm)) {
            turn_b(mm, self->at.b, k, self->depth, room);
            self->b = room, self->b_row = turned_row(mm);
        }
        for (int64_t i = 0; i < self->rows && !is_direct(mm); i++)
            vec_read_f32(mm->a, from + i * mm->a_m, mm->a_k, self->depth, a_room + i * most);
        if (!is_direct(mm)) self->a = a_room, self->a_row = most;
        add_block(self, mm->n);
    }
}

/* Rows of an item: from shapes alone. */
static int64_t item_rows(const matmul *mm) {
    int64_t rows = ITEM_PRODUCTS / (mm->n * mm->k > 0 ? mm->n * mm->k : 1);
    int64_t least = is_turned(mm) ? TILE_ROWS : TURNED_ROWS;
    rows = rows < least ? least : rows > ITEM_ROWS ? ITEM_ROWS : rows / 12 * 12;
    return rows < TILE_ROWS ? TILE_ROWS : rows;
}

/* A product as it is summed and as it is stored. */
typedef struct narrow {
    matmul mm, to;
    bool is_row;  /* mm has one column, which is a row of `to` */
    int64_t rows; /* of them: more than planned where b has fewer batches */
} narrow;

/* A row times columns that lie side by side each is those columns times the row. */
static void swap(matmul *mm) {
    const matmul from = *mm;
    mm->a = from.b, mm->b = from.a;
    mm->m = from.n, mm->n = 1;
    mm->a_m = from.b_n, mm->a_k = from.b_k;
    mm->b_n = from.a_m, mm->b_k = from.a_k;
    memcpy(mm->a_batch, from.b_batch, sizeof mm->a_batch);
    memcpy(mm->b_batch, from.a_batch, sizeof mm->b_batch);
}

/* Columns at any distance: one, or 0 where all rows have the same addend. */
static bool is_even(int64_t stride) {
    return stride == 0 || stride == 1;
}

static narrow narrow_of(const rlx_kernel_args *args) {
    narrow self = {.mm = matmul_make(args), .rows = 1};
    matmul *mm = &self.mm;
    self.to = *mm;
    if (mm->n > MOST_COLUMNS) {
        swap(mm);
        self.is_row = true, self.rows = self.to.m;
    } else if (mm->n == 1 && mm->is_simple && mm->out_m == 1 && is_even(mm->bias_m) &&
               is_even(mm->residual_m)) {
        self.to.bias_n = mm->bias_m, self.to.residual_n = mm->residual_m;
        self.is_row = true;
    }
    return self;
}

static void store(const narrow *by, const block *self, int64_t row) {
    const matmul *to = &by->to;
    for (int64_t i = 0; i < self->rows; i += by->is_row ? VF : 1) {
        int64_t at = self->m + i, m = by->is_row ? row : at, n = by->is_row ? at : 0;
        int64_t count = by->is_row ? matmul_least(VF, self->rows - i) : to->n;
        float *sums = self->sums + i * self->pitch;
        if (to->is_simple) {
            matmul_store_vector(to, &self->at, m, n, vf_load(sums), count);
        } else {
            matmul_store_row(to, &self->at, m, n, sums, count);
        }
    }
}

/* It hangs on shapes alone, and a small product takes as long. */
static void make(const rlx_kernel_args *args, void *memory) {
    *(narrow *)memory = narrow_of(args);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    float sums[ITEM_ROWS * MATMUL_COLUMNS + VF];
    narrow now;
    const narrow *by = args->prepared;
    if (by == NULL) now = narrow_of(args), by = &now;
    const matmul *mm = &by->mm;
    int64_t per_batch = matmul_up(mm->m, item_rows(mm));
    bool is_only = mm->k <= depth_of(mm) && mm->k > 0, is_bare = is_only && by->to.is_bare;
    for (int64_t item = begin; item < end; item++) {
        int64_t index = item % per_batch, m = matmul_part_start(mm->m, per_batch, index);
        block self = {.mm = mm,
                      .at = rlx_cpu_matmul_batch_at(mm, item / per_batch),
                      .m = m,
                      .rows = matmul_part_start(mm->m, per_batch, index + 1) - m,
                      .sums = sums,
                      .pitch = by->is_row ? 1
                               : is_bare  ? by->to.out_m
                                          : MATMUL_COLUMNS,
                      .is_only = is_only};
        for (int64_t row = 0; row < by->rows; row++, self.at.b += by->to.a_m) {
            if (is_bare) {
                self.sums = (float *)by->to.out->data + self.at.out +
                            (by->is_row ? row * by->to.out_m + m : m * by->to.out_m);
                run_rows(&self, args->workspace);
                continue;
            }
            memset(sums, 0, (size_t)(self.rows * self.pitch + VF) * sizeof *sums);
            run_rows(&self, args->workspace);
            store(by, &self, row);
        }
    }
}

static int64_t items(const rlx_kernel_args *args) {
    matmul mm = narrow_of(args).mm;
    if (mm.m == 0 || mm.n == 0) return 0;
    return mm.batches * matmul_up(mm.m, item_rows(&mm));
}

/* Vectors of multiply-adds; reading a is what takes time, and the sums across lanes. */
static int64_t item_cost(const rlx_kernel_args *args) {
    enum { SUMS = 64 };
    matmul mm = narrow_of(args).mm;
    return rlx_ref_cost(matmul_least(mm.m, item_rows(&mm)) * (1 + mm.n) / 4, mm.k + SUMS) / 2;
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    matmul mm = narrow_of(args).mm;
    int64_t floats = is_turned(&mm) ? 0 : MOST_COLUMNS * turned_row(&mm);
    if (!is_direct(&mm)) floats += ITEM_ROWS * depth_of(&mm);
    return (uint64_t)floats * sizeof(float);
}

/* Not where rows of a lie apart: whole blocks of them are turned elsewhere. */
static bool takes(const rlx_target_query *query) {
    const rlx_matmul_attrs *attrs = query->attrs;
    const rlx_tensor *a = &query->in[0], *b = &query->in[1];
    if (!vec_is_float(a->dtype) || !vec_is_float(b->dtype) || !vec_is_float(query->out[0].dtype) ||
        a->layout != RLX_LAYOUT_PLAIN || a->rank < 2 || b->rank < 2 || attrs->transpose_a) {
        return false;
    }
    int64_t k = a->dims[a->rank - 1], n = query->out[0].dims[query->out[0].rank - 1];
    bool is_plain = b->layout == RLX_LAYOUT_PLAIN;
    if (is_plain && attrs->transpose_b && k >= LEAST_DEPTH && rlx_cpu_matmul_rows_per_b(query) == 1)
        return true;
    return (is_plain || b->layout == RLX_LAYOUT_TURNED) && n <= MOST_COLUMNS &&
           k >= LEAST_DEPTH * n;
}

const rlx_cpu_override VEC_SYMBOL(matmul_narrow)[] = {
    {RLX_OP_MATMUL, 0, takes, {VEC_NAME("matmul_narrow"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
const rlx_cpu_preparation VEC_SYMBOL(matmul_narrow_preparation) = {
    .run = run, .size = sizeof(narrow), .make = make};
