/* SPDX-License-Identifier: Apache-2.0 */
/* One output tile of a matmul for one accumulator type. Included by matmul.c once per type, with
 * TYPE, SUFFIX, NATIVE (its dtype), ROWS and DEPTH defined; not a header of its own. */
#define PASTE_(a, b)    a##b
#define PASTE(a, b)     PASTE_(a, b)
#define WITH_TYPE(name) PASTE(name, SUFFIX)

/* b's tile as [depth][COLUMNS], columns past the end zero. */
static void WITH_TYPE(pack_b_)(const matmul *mm, int64_t base, int64_t columns, int64_t depth,
                               TYPE *tile) {
    TYPE rows[4][DEPTH];
    if (mm->b_k != 1 || depth == 1) {
        for (int64_t k = 0; k < depth; k++) {
            TYPE *row = tile + k * RLX_TILE_COLUMNS;
            WITH_TYPE(rlx_ref_read_)(mm->b, base + k * mm->b_k, mm->b_n, columns, row);
            for (int64_t j = columns; j < RLX_TILE_COLUMNS; j++)
                row[j] = 0;
        }
        return;
    }
    for (int64_t j = 0; j < RLX_TILE_COLUMNS; j += 4) {
        for (int64_t r = 0; r < 4; r++) {
            if (j + r < columns) {
                WITH_TYPE(rlx_ref_read_)(mm->b, base + (j + r) * mm->b_n, mm->b_k, depth, rows[r]);
            } else {
                memset(rows[r], 0, sizeof rows[r]);
            }
        }
        for (int64_t k = 0; k < depth; k++) {
            for (int64_t r = 0; r < 4; r++)
                tile[k * RLX_TILE_COLUMNS + j + r] = rows[r][k];
        }
    }
}

/* The same of a packed b. */
static void WITH_TYPE(unpack_b_)(const matmul *mm, const tile_place *at, int64_t first,
                                 int64_t depth, TYPE *tile) {
    for (int64_t k = 0; k < depth; k++) {
        for (int64_t j = 0; j < RLX_TILE_COLUMNS; j++) {
            TYPE *to = &tile[k * RLX_TILE_COLUMNS + j];
            *to = 0;
            if (j >= at->columns) continue;
            WITH_TYPE(rlx_ref_read_)
            (mm->b, at->b + packed_offset(mm, first + k, at->n + j), 1, 1, to);
        }
    }
}

static void WITH_TYPE(store_)(const matmul *mm, const tile_place *at, TYPE *acc) {
    for (int64_t i = 0; i < at->rows; i++) {
        TYPE *row = acc + i * RLX_TILE_COLUMNS;
        int64_t m = at->m + i;
        rlx_ref_addend bias = {mm->bias, at->bias + m * mm->bias_m + at->n * mm->bias_n,
                               mm->bias_n};
        rlx_ref_addend residual = {mm->residual,
                                   at->residual + m * mm->residual_m + at->n * mm->residual_n,
                                   mm->residual_n};
        if (mm->alpha != 1) {
            for (int64_t j = 0; j < at->columns; j++)
                row[j] *= (TYPE)mm->alpha;
        }
        if (mm->gated) {
            TYPE factors[RLX_TILE_COLUMNS];
            rlx_ref_addend none = {0};
            WITH_TYPE(rlx_ref_finish_)(row, at->columns, bias, none, &mm->activation);
            WITH_TYPE(rlx_ref_read_)
            (residual.tensor, residual.offset, residual.stride, at->columns, factors);
            for (int64_t j = 0; j < at->columns; j++)
                row[j] *= factors[j];
        } else {
            WITH_TYPE(rlx_ref_finish_)(row, at->columns, bias, residual, &mm->activation);
        }
        WITH_TYPE(rlx_ref_write_)
        (mm->out, at->out + m * mm->out_m + at->n * mm->out_n, mm->out_n, at->columns, row);
    }
}

/* Few rows: no tile of b is made. What is not of TYPE is decoded four columns at a time. */
static void WITH_TYPE(thin_columns_)(const matmul *mm, const tile_place *at, int64_t base,
                                     const TYPE *a, int64_t depth, TYPE *acc) {
    TYPE room[4][DEPTH];
    const TYPE *columns[4];
    for (int64_t j = 0; j < at->columns; j += 4) {
        for (int64_t r = 0; r < 4; r++) {
            /* Past the end the last column is used again; its sums are not stored. */
            int64_t from = base + rlx_ref_least(j + r, at->columns - 1) * mm->b_n;
            columns[r] = room[r];
            if (mm->b->dtype == NATIVE) {
                columns[r] = (const TYPE *)mm->b->data + from;
            } else {
                WITH_TYPE(rlx_ref_read_)(mm->b, from, 1, depth, room[r]);
            }
        }
        WITH_TYPE(rlx_ref_columns_)(acc + j, a, depth, columns, at->rows, depth);
    }
}

/* acc[ROWS][COLUMNS] += the products of a tile. */
static __attribute__((noinline)) void WITH_TYPE(sums_)(const matmul *mm, const tile_place *at,
                                                       TYPE *acc) {
    TYPE a[ROWS * RLX_TILE_DEPTH];
    TYPE b[DEPTH * RLX_TILE_COLUMNS];
    bool is_thin = at->rows <= 4;
    for (int64_t k = 0; k < mm->k; k += mm->depth) {
        int64_t depth = rlx_ref_least(mm->depth, mm->k - k);
        int64_t base = at->b + k * mm->b_k + at->n * mm->b_n;
        for (int64_t i = 0; i < at->rows; i++) {
            WITH_TYPE(rlx_ref_read_)
            (mm->a, at->a + (at->m + i) * mm->a_m + k * mm->a_k, mm->a_k, depth, a + i * depth);
        }
        if (mm->b->layout != RLX_LAYOUT_PLAIN) {
            WITH_TYPE(unpack_b_)(mm, at, k, depth, b);
            WITH_TYPE(rlx_ref_tile_)(acc, a, depth, b, RLX_TILE_COLUMNS, at->rows, depth);
        } else if (is_thin && mm->b_k == 1) {
            WITH_TYPE(thin_columns_)(mm, at, base, a, depth, acc);
        } else if (is_thin && mm->b_n == 1 && mm->b->dtype == NATIVE &&
                   at->columns == RLX_TILE_COLUMNS) {
            WITH_TYPE(rlx_ref_tile_)
            (acc, a, depth, (const TYPE *)mm->b->data + base, mm->b_k, at->rows, depth);
        } else {
            WITH_TYPE(pack_b_)(mm, base, at->columns, depth, b);
            WITH_TYPE(rlx_ref_tile_)(acc, a, depth, b, RLX_TILE_COLUMNS, at->rows, depth);
        }
    }
}

static void WITH_TYPE(tile_)(const matmul *mm, const tile_place *at) {
    TYPE acc[ROWS * RLX_TILE_COLUMNS] = {0};
    WITH_TYPE(sums_)(mm, at, acc);
    WITH_TYPE(store_)(mm, at, acc);
}

#undef PASTE_
#undef PASTE
#undef WITH_TYPE
#undef TYPE
#undef SUFFIX
#undef NATIVE
#undef ROWS
#undef DEPTH
