/* SPDX-License-Identifier: Apache-2.0 */
/* The inner product of matmul and conv: small tiles of operands, already in the accumulator's type,
 * and what is done to a finished row of results. Sums run over k in index order, one accumulator
 * per output element, so neither tile sizes nor the split of work change a bit. */
#ifndef RLX_REF_TILE_H
#define RLX_REF_TILE_H

#include "ref/access.h"

/* A tile is [rows][RLX_TILE_COLUMNS]; its sides keep all buffers of a kernel below 64 KiB. */
enum {
    RLX_TILE_COLUMNS = 32,
    RLX_TILE_ROWS = 32,      /* 4-byte accumulators */
    RLX_TILE_ROWS_WIDE = 16, /* 8-byte accumulators, and weights in blocks */
    RLX_TILE_DEPTH = 128,
    RLX_TILE_DEPTH_BLOCK = 256 /* a whole number of blocks of every block type */
};

/* acc[rows][COLUMNS] += a[rows][a_stride] * b[depth][b_stride], of which the first COLUMNS count.
 * Unsigned: modulo 2^32 or 2^64. */
void rlx_ref_tile_f32(float *acc, const float *a, int64_t a_stride, const float *b,
                      int64_t b_stride, int64_t rows, int64_t depth);
void rlx_ref_tile_f64(double *acc, const double *a, int64_t a_stride, const double *b,
                      int64_t b_stride, int64_t rows, int64_t depth);
void rlx_ref_tile_u32(uint32_t *acc, const uint32_t *a, int64_t a_stride, const uint32_t *b,
                      int64_t b_stride, int64_t rows, int64_t depth);
void rlx_ref_tile_u64(uint64_t *acc, const uint64_t *a, int64_t a_stride, const uint64_t *b,
                      int64_t b_stride, int64_t rows, int64_t depth);

/* For few rows and columns that lie along k, columns[j][k], four of them: acc[rows][COLUMNS] +=
 * a columns, the same sums in the same order as a tile's, without bringing the columns together. */
void rlx_ref_columns_f32(float *acc, const float *a, int64_t a_stride, const float *const *columns,
                         int64_t rows, int64_t depth);
void rlx_ref_columns_f64(double *acc, const double *a, int64_t a_stride,
                         const double *const *columns, int64_t rows, int64_t depth);
void rlx_ref_columns_u32(uint32_t *acc, const uint32_t *a, int64_t a_stride,
                         const uint32_t *const *columns, int64_t rows, int64_t depth);
void rlx_ref_columns_u64(uint64_t *acc, const uint64_t *a, int64_t a_stride,
                         const uint64_t *const *columns, int64_t rows, int64_t depth);

/* An addend of a row of results: element i is at offset + i * stride. data NULL: none. */
typedef struct rlx_ref_addend {
    const rlx_tensor *tensor;
    int64_t offset, stride;
} rlx_ref_addend;

/* values[i] = act(values[i] + bias[i] + residual[i]) for at most RLX_TILE_COLUMNS values, each
 * addition rounded to the accumulator's type. */
void rlx_ref_finish_f32(float *values, int64_t count, rlx_ref_addend bias, rlx_ref_addend residual,
                        const rlx_activation *activation);
void rlx_ref_finish_f64(double *values, int64_t count, rlx_ref_addend bias, rlx_ref_addend residual,
                        const rlx_activation *activation);
void rlx_ref_finish_u32(uint32_t *values, int64_t count, rlx_ref_addend bias,
                        rlx_ref_addend residual, const rlx_activation *activation);
void rlx_ref_finish_u64(uint64_t *values, int64_t count, rlx_ref_addend bias,
                        rlx_ref_addend residual, const rlx_activation *activation);

/* Where a row of matmul_quantised gets what it is made with, and where it goes. */
typedef struct rlx_ref_scaled {
    rlx_ref_addend offset, scale, bias, residual, out;
    const rlx_activation *activation;
    bool gated;
    int64_t zero;
} rlx_ref_scaled;

/* Of at most RLX_TILE_COLUMNS sums. */
void rlx_ref_store_scaled(const uint32_t *sums, int64_t count, const rlx_ref_scaled *row);

/* Integers modulo 2^32 and 2^64, like rlx_ref_read_f32 and its kin. */
void rlx_ref_read_u32(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                      uint32_t *out);
void rlx_ref_read_u64(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                      uint64_t *out);
void rlx_ref_write_u32(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                       const uint32_t *values);
void rlx_ref_write_u64(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                       const uint64_t *values);

#endif
