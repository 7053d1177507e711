/* SPDX-License-Identifier: Apache-2.0 */
/* act(alpha a b + bias + residual), or act(alpha a b + bias) * residual, over broadcast batches.
 * One item is one tile of the output. Operand tiles are copied to the stack in the accumulator's
 * type, which is where transposes, odd strides, 16-bit floats and weights in blocks are dealt with.
 */
#include "ref/matmul.h"
#include "ir/layout.h"
#include "ref/tile.h"

#include <string.h>

typedef enum accumulator { IN_F32, IN_F64, IN_U32, IN_U64, IN_U32_SCALED } accumulator;

/* The operands as [batch..][m][k] x [batch..][k][n]; strides in elements. */
typedef struct matmul {
    const rlx_tensor *a, *b, *bias, *residual, *out;
    const rlx_tensor *scale, *offset; /* of matmul_quantised */
    accumulator accumulator;
    int64_t m, n, k;
    bool is_b_transposed;
    int64_t tile_rows, depth;
    uint32_t batch_rank;
    int64_t batch_dims[RLX_MAX_RANK];
    int64_t a_batch[RLX_MAX_RANK], b_batch[RLX_MAX_RANK], out_batch[RLX_MAX_RANK];
    int64_t bias_batch[RLX_MAX_RANK], residual_batch[RLX_MAX_RANK];
    int64_t scale_batch[RLX_MAX_RANK], offset_batch[RLX_MAX_RANK];
    int64_t scale_m, scale_n, offset_m, offset_n, zero;
    int64_t a_m, a_k, b_k, b_n, out_m, out_n, bias_m, bias_n, residual_m, residual_n;
    double alpha;
    bool gated;
    rlx_layout_map b_map; /* of a packed b */
    rlx_activation activation;
} matmul;

/* Where a tile lies: its first row and column, its size, and the offsets of its batch. */
typedef struct tile_place {
    int64_t m, n, rows, columns;
    int64_t a, b, out, bias, residual, scale, offset;
} tile_place;

/* Element (k, n) of a packed b, without its batch. */
static int64_t packed_offset(const matmul *mm, int64_t k, int64_t n) {
    int64_t index[RLX_MAX_RANK] = {0};
    index[mm->b->rank - 2] = mm->is_b_transposed ? n : k;
    index[mm->b->rank - 1] = mm->is_b_transposed ? k : n;
    return rlx_layout_offset(&mm->b_map, index);
}

#define TYPE   float
#define SUFFIX f32
#define NATIVE RLX_DTYPE_F32
#define ROWS   RLX_TILE_ROWS
#define DEPTH  RLX_TILE_DEPTH_BLOCK
#include "ref/matmul_body.h"

#define TYPE   double
#define SUFFIX f64
#define NATIVE RLX_DTYPE_F64
#define ROWS   RLX_TILE_ROWS_WIDE
#define DEPTH  RLX_TILE_DEPTH
#include "ref/matmul_body.h"

#define TYPE   uint32_t
#define SUFFIX u32
#define NATIVE RLX_DTYPE_U32
#define ROWS   RLX_TILE_ROWS
#define DEPTH  RLX_TILE_DEPTH
#include "ref/matmul_body.h"

#define TYPE   uint64_t
#define SUFFIX u64
#define NATIVE RLX_DTYPE_U64
#define ROWS   RLX_TILE_ROWS_WIDE
#define DEPTH  RLX_TILE_DEPTH
#include "ref/matmul_body.h"

/* A row of sums of matmul_quantised. */
static void store_scaled(const matmul *mm, const tile_place *at, int64_t m, const uint32_t *sums) {
    const rlx_ref_scaled row = {
        {mm->offset, at->offset + m * mm->offset_m + at->n * mm->offset_n, mm->offset_n},
        {mm->scale, at->scale + m * mm->scale_m + at->n * mm->scale_n, mm->scale_n},
        {mm->bias, at->bias + m * mm->bias_m + at->n * mm->bias_n, mm->bias_n},
        {mm->residual, at->residual + m * mm->residual_m + at->n * mm->residual_n, mm->residual_n},
        {mm->out, at->out + m * mm->out_m + at->n * mm->out_n, mm->out_n},
        &mm->activation,
        mm->gated,
        mm->zero};
    rlx_ref_store_scaled(sums, at->columns, &row);
}

static void tile_scaled(const matmul *mm, const tile_place *at) {
    uint32_t acc[RLX_TILE_ROWS * RLX_TILE_COLUMNS] = {0};
    sums_u32(mm, at, acc);
    for (int64_t i = 0; i < at->rows; i++)
        store_scaled(mm, at, at->m + i, acc + i * RLX_TILE_COLUMNS);
}

static accumulator accumulator_of(rlx_op op, const rlx_tensor *a, const rlx_tensor *out) {
    if (op == RLX_OP_MATMUL_QUANTISED) return IN_U32_SCALED;
    if (rlx_dtype_row_of(a->dtype)->class_ == RLX_CLASS_FLOAT)
        return a->dtype == RLX_DTYPE_F64 ? IN_F64 : IN_F32;
    return rlx_dtype_block_bytes(out->dtype) == 8 ? IN_U64 : IN_U32;
}

void rlx_ref_batch_strides(const rlx_tensor *tensor, uint32_t batch_rank, int64_t *strides) {
    rlx_tensor batch = *tensor;
    batch.rank = tensor->rank > 2 ? tensor->rank - 2 : 0;
    rlx_ref_broadcast_strides(&batch, batch_rank, strides);
}

void rlx_ref_output_strides(const rlx_tensor *tensor, const rlx_tensor *out, bool has_m, bool has_n,
                            int64_t *batch, int64_t *m, int64_t *n) {
    int64_t strides[RLX_MAX_RANK];
    uint32_t rank = out->rank;
    rlx_ref_broadcast_strides(tensor, rank, strides);
    *n = has_n ? strides[--rank] : 0;
    *m = has_m ? strides[--rank] : 0;
    memcpy(batch, strides, rank * sizeof *batch);
}

/* b in panels: batches lie one after the other, elements of one are looked up. */
static void set_packed_b(matmul *mm) {
    uint32_t batch = mm->b->rank - 2;
    mm->b_map = rlx_layout_map_of(mm->b);
    for (uint32_t i = 0; i < batch; i++) {
        int64_t index[RLX_MAX_RANK] = {0}, *stride = &mm->b_batch[mm->batch_rank - batch + i];
        index[i] = 1;
        *stride = mm->b->dims[i] == 1 ? 0 : rlx_layout_offset(&mm->b_map, index);
    }
}

static void set_operands(matmul *mm, const rlx_matmul_attrs *attrs) {
    const rlx_tensor *a = mm->a, *b = mm->b;
    uint32_t am = a->rank - 2, ak = a->rank - 1, bk = b->rank - 2, bn = b->rank - 1;
    if (attrs->transpose_a) am = a->rank - 1, ak = a->rank - 2;
    if (attrs->transpose_b) bk = b->rank - 1, bn = b->rank - 2;
    if (a->rank == 1) {
        mm->m = 1, mm->a_m = 0, mm->k = a->dims[0], mm->a_k = a->strides[0];
    } else {
        mm->m = a->dims[am], mm->a_m = a->strides[am];
        mm->k = a->dims[ak], mm->a_k = a->strides[ak];
    }
    if (b->rank == 1) {
        mm->n = 1, mm->b_n = 0, mm->b_k = b->strides[0];
    } else {
        mm->n = b->dims[bn], mm->b_n = b->strides[bn], mm->b_k = b->strides[bk];
    }
}

static __attribute__((noinline)) matmul make_matmul(const rlx_kernel_args *args) {
    static const rlx_tensor absent = {0};
    const rlx_matmul_attrs *attrs = args->attrs;
    matmul mm = {.a = &args->in[0],
                 .b = &args->in[1],
                 .bias = args->in_count > 2 ? &args->in[2] : &absent,
                 .residual = args->in_count > 3 ? &args->in[3] : &absent,
                 .scale = args->in_count > 4 ? &args->in[4] : &absent,
                 .offset = args->in_count > 5 ? &args->in[5] : &absent,
                 .out = &args->out[0],
                 .zero = attrs->zero,
                 .alpha = attrs->alpha == 0 ? 1 : attrs->alpha,
                 .gated = attrs->gated,
                 .activation = attrs->activation};
    bool has_m = mm.a->rank > 1, has_n = mm.b->rank > 1;
    bool in_blocks = rlx_dtype_block_elements(mm.b->dtype) > 1;
    mm.accumulator = accumulator_of(args->op, mm.a, mm.out);
    set_operands(&mm, attrs);
    mm.batch_rank = mm.out->rank - has_m - has_n;
    memcpy(mm.batch_dims, mm.out->dims, sizeof mm.batch_dims);
    rlx_ref_batch_strides(mm.a, mm.batch_rank, mm.a_batch);
    rlx_ref_batch_strides(mm.b, mm.batch_rank, mm.b_batch);
    mm.is_b_transposed = attrs->transpose_b;
    if (mm.b->layout != RLX_LAYOUT_PLAIN) set_packed_b(&mm);
    rlx_ref_output_strides(mm.out, mm.out, has_m, has_n, mm.out_batch, &mm.out_m, &mm.out_n);
    rlx_ref_output_strides(mm.bias, mm.out, has_m, has_n, mm.bias_batch, &mm.bias_m, &mm.bias_n);
    rlx_ref_output_strides(mm.residual, mm.out, has_m, has_n, mm.residual_batch, &mm.residual_m,
                           &mm.residual_n);
    rlx_ref_output_strides(mm.scale, mm.out, has_m, has_n, mm.scale_batch, &mm.scale_m,
                           &mm.scale_n);
    rlx_ref_output_strides(mm.offset, mm.out, has_m, has_n, mm.offset_batch, &mm.offset_m,
                           &mm.offset_n);
    mm.depth = in_blocks ? RLX_TILE_DEPTH_BLOCK : RLX_TILE_DEPTH;
    mm.tile_rows = in_blocks || mm.accumulator == IN_F64 || mm.accumulator == IN_U64
                       ? RLX_TILE_ROWS_WIDE
                       : RLX_TILE_ROWS;
    return mm;
}

static void run_tile(const matmul *mm, int64_t item) {
    int64_t column_tiles = rlx_ref_divide_up(mm->n, RLX_TILE_COLUMNS);
    int64_t row_tiles = rlx_ref_divide_up(mm->m, mm->tile_rows);
    int64_t batch = item / (column_tiles * row_tiles);
    tile_place at = {.m = item / column_tiles % row_tiles * mm->tile_rows,
                     .n = item % column_tiles * RLX_TILE_COLUMNS};
    at.rows = rlx_ref_least(mm->tile_rows, mm->m - at.m);
    at.columns = rlx_ref_least(RLX_TILE_COLUMNS, mm->n - at.n);
    at.a = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->a_batch, batch);
    at.b = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->b_batch, batch);
    at.out = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->out_batch, batch);
    at.bias = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->bias_batch, batch);
    at.residual = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->residual_batch, batch);
    at.scale = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->scale_batch, batch);
    at.offset = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->offset_batch, batch);
    switch (mm->accumulator) {
    case IN_F32:
        tile_f32(mm, &at);
        break;
    case IN_F64:
        tile_f64(mm, &at);
        break;
    case IN_U32:
        tile_u32(mm, &at);
        break;
    case IN_U64:
        tile_u64(mm, &at);
        break;
    case IN_U32_SCALED:
        tile_scaled(mm, &at);
        break;
    }
}

static void run_matmul(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    matmul mm = make_matmul(args);
    for (int64_t item = begin; item < end; item++)
        run_tile(&mm, item);
}

static int64_t matmul_items(const rlx_kernel_args *args) {
    matmul mm = make_matmul(args);
    int64_t items =
        rlx_ref_divide_up(mm.n, RLX_TILE_COLUMNS) * rlx_ref_divide_up(mm.m, mm.tile_rows);
    for (uint32_t i = 0; i < mm.batch_rank; i++)
        items *= mm.batch_dims[i];
    return items;
}

static int64_t matmul_item_cost(const rlx_kernel_args *args) {
    matmul mm = make_matmul(args);
    return rlx_ref_cost(rlx_ref_least(mm.m, mm.tile_rows) * rlx_ref_least(mm.n, RLX_TILE_COLUMNS),
                        mm.k);
}

const rlx_ref_row rlx_ref_matmul_rows[] = {
    {RLX_OP_MATMUL, {"matmul_scalar", run_matmul, matmul_items, matmul_item_cost, NULL}},
    {RLX_OP_MATMUL_QUANTISED,
     {"matmul_quantised_scalar", run_matmul, matmul_items, matmul_item_cost, NULL}},
};
const uint32_t rlx_ref_matmul_count = 2;
