/* SPDX-License-Identifier: Apache-2.0 */
/* Determinants and inverses of small matrices, written out. */
#include "import/onnx/ops.h"

enum { MOST_DET = 6, MOST_INVERSE = 4 };

static rlx_value_id element(ox *o, rlx_value_id x, uint32_t row, uint32_t column) {
    return ox_slice(o, ox_slice(o, x, -2, row, row + 1, 1), -1, column, column + 1, 1);
}

/* Of the rows and columns whose bits are set, as many of the one as of the other: by the first row.
 * 1 of none. */
static rlx_value_id determinant(ox *o, rlx_value_id x, uint32_t rows, uint32_t columns) {
    rlx_value_id sum = RLX_NONE;
    bool is_minus = false;
    uint32_t row = 0;
    if (rows == 0) return ox_scalar(o, ox_dtype(o, x), 1);
    while ((rows >> row & 1) == 0)
        row++;
    uint32_t others = rows & ~(1u << row);
    for (uint32_t c = 0; columns >> c != 0 && ox_ok(o); c++) {
        if ((columns >> c & 1) == 0) continue;
        rlx_value_id one = element(o, x, row, c);
        if (others != 0)
            one = ox_binary(o, RLX_OP_MUL, one, determinant(o, x, others, columns & ~(1u << c)));
        if (sum != RLX_NONE) one = ox_binary(o, is_minus ? RLX_OP_SUB : RLX_OP_ADD, sum, one);
        sum = one;
        is_minus = !is_minus;
    }
    return sum;
}

/* How many rows the square matrices of x have. */
static uint32_t square_rows(ox *o, rlx_value_id x, int64_t most) {
    uint32_t rank = ox_rank(o, x);
    if (ox_ok(o) && (rank < 2 || ox_dim(o, x, rank - 1) != ox_dim(o, x, rank - 2)))
        ox_invalid(o, "the matrices are not square");
    if (!ox_ok(o)) return 0;
    int64_t size = ox_dim(o, x, rank - 1);
    if (size < 1 || size > most)
        ox_unsupported(o, "a matrix of %" PRId64 " rows; at most %" PRId64, size, most);
    return ox_ok(o) ? (uint32_t)size : 0;
}

void rlx_ox_det(ox *o) {
    rlx_value_id x = ox_in(o, 0);
    uint32_t size = square_rows(o, x, MOST_DET), all = (1u << size) - 1;
    if (!ox_ok(o)) return;
    rlx_value_id y = determinant(o, x, all, all);
    ox_give(o, 0, ox_squeeze(o, ox_squeeze(o, y, -1), -1));
}

/* Cofactors over the determinant. */
void rlx_ox_inverse(ox *o) {
    rlx_value_id x = ox_in(o, 0), rows[MOST_INVERSE], items[MOST_INVERSE];
    uint32_t size = square_rows(o, x, MOST_INVERSE), all = (1u << size) - 1;
    if (!ox_ok(o)) return;
    rlx_dtype dtype = ox_dtype(o, x);
    if (dtype != RLX_DTYPE_F64) x = ox_cast(o, x, RLX_DTYPE_F32);
    rlx_value_id whole = determinant(o, x, all, all);
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t k = 0; k < size; k++) {
            items[k] = ox_binary(o, RLX_OP_DIV,
                                 determinant(o, x, all & ~(1u << k), all & ~(1u << i)), whole);
            if ((i + k) % 2 != 0) items[k] = ox_unary(o, RLX_OP_NEG, items[k]);
        }
        rows[i] = ox_concat(o, items, size, -1);
    }
    ox_give(o, 0, ox_cast(o, ox_concat(o, rows, size, -2), dtype));
}
