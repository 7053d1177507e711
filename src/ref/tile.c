/* SPDX-License-Identifier: Apache-2.0 */
/* Tile products and epilogues for the four accumulator types. The product is written as row, k,
 * column with a constant number of columns: compilers keep it in vector registers. */
#include "ref/tile.h"

#include "ref/unary.h"

#include <math.h>
#include <string.h>

#define DEFINE_TILE(suffix, type)                                                               \
    void rlx_ref_tile_##suffix(type *restrict acc, const type *restrict a, int64_t a_stride,    \
                               const type *restrict b, int64_t b_stride, int64_t rows,          \
                               int64_t depth) {                                                 \
        for (int64_t i = 0; i < rows; i++) {                                                    \
            for (int64_t k = 0; k < depth; k++) {                                               \
                type x = a[i * a_stride + k];                                                   \
                for (int64_t j = 0; j < RLX_TILE_COLUMNS; j++)                                  \
                    acc[i * RLX_TILE_COLUMNS + j] += x * b[k * b_stride + j];                   \
            }                                                                                   \
        }                                                                                       \
    }                                                                                           \
    void rlx_ref_columns_##suffix(type *restrict acc, const type *restrict a, int64_t a_stride, \
                                  const type *const *columns, int64_t rows, int64_t depth) {    \
        const type *c0 = columns[0], *c1 = columns[1], *c2 = columns[2], *c3 = columns[3];      \
        for (int64_t i = 0; i < rows; i++) {                                                    \
            type *to = acc + i * RLX_TILE_COLUMNS;                                              \
            type s0 = to[0], s1 = to[1], s2 = to[2], s3 = to[3];                                \
            for (int64_t k = 0; k < depth; k++) {                                               \
                type x = a[i * a_stride + k];                                                   \
                s0 += x * c0[k];                                                                \
                s1 += x * c1[k];                                                                \
                s2 += x * c2[k];                                                                \
                s3 += x * c3[k];                                                                \
            }                                                                                   \
            to[0] = s0, to[1] = s1, to[2] = s2, to[3] = s3;                                     \
        }                                                                                       \
    }                                                                                           \
    static void add_##suffix(type *values, int64_t count, rlx_ref_addend addend) {              \
        type more[RLX_TILE_COLUMNS];                                                            \
        if (addend.tensor == NULL || addend.tensor->data == NULL) return;                       \
        rlx_ref_read_##suffix(addend.tensor, addend.offset, addend.stride, count, more);        \
        for (int64_t i = 0; i < count; i++)                                                     \
            values[i] += more[i];                                                               \
    }

DEFINE_TILE(f32, float)
DEFINE_TILE(f64, double)
DEFINE_TILE(u32, uint32_t)
DEFINE_TILE(u64, uint64_t)

void rlx_ref_finish_f32(float *values, int64_t count, rlx_ref_addend bias, rlx_ref_addend residual,
                        const rlx_activation *activation) {
    add_f32(values, count, bias);
    add_f32(values, count, residual);
    if (activation->op == RLX_OP_NONE) return;
    rlx_ref_unary_run_f32(activation->op, values, count, activation->alpha, activation->beta);
}

void rlx_ref_finish_f64(double *values, int64_t count, rlx_ref_addend bias, rlx_ref_addend residual,
                        const rlx_activation *activation) {
    add_f64(values, count, bias);
    add_f64(values, count, residual);
    if (activation->op == RLX_OP_NONE) return;
    rlx_ref_unary_run_f64(activation->op, values, count, activation->alpha, activation->beta);
}

/* The shape rules leave integers without activation. */
void rlx_ref_finish_u32(uint32_t *values, int64_t count, rlx_ref_addend bias,
                        rlx_ref_addend residual, const rlx_activation *activation) {
    (void)activation;
    add_u32(values, count, bias);
    add_u32(values, count, residual);
}

void rlx_ref_finish_u64(uint64_t *values, int64_t count, rlx_ref_addend bias,
                        rlx_ref_addend residual, const rlx_activation *activation) {
    (void)activation;
    add_u64(values, count, bias);
    add_u64(values, count, residual);
}

static void times(float *values, int64_t count, rlx_ref_addend factor) {
    float factors[RLX_TILE_COLUMNS];
    if (factor.tensor->data == NULL) return;
    rlx_ref_read_f32(factor.tensor, factor.offset, factor.stride, count, factors);
    for (int64_t i = 0; i < count; i++)
        values[i] *= factors[i];
}

/* round(v) + zero as 8 bits: what round, add, clip and cast make of it one after the other. */
static void write_bytes(const rlx_ref_scaled *row, int64_t count, const float *values) {
    const float least = row->out.tensor->dtype == RLX_DTYPE_I8 ? -128 : 0, most = least + 255;
    uint8_t *to = (uint8_t *)row->out.tensor->data + row->out.offset;
    for (int64_t i = 0; i < count; i++) {
        float value = rintf(values[i]) + (float)row->zero;
        value = value < least ? least : value > most ? most : value;
        to[i * row->out.stride] = isnan(value) ? 0 : (uint8_t)(int32_t)value;
    }
}

void rlx_ref_store_scaled(const uint32_t *sums, int64_t count, const rlx_ref_scaled *row) {
    const rlx_ref_addend none = {0}, *out = &row->out;
    float values[RLX_TILE_COLUMNS];
    uint32_t exact[RLX_TILE_COLUMNS];
    memcpy(exact, sums, (size_t)count * sizeof *exact);
    add_u32(exact, count, row->offset);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(int32_t)exact[i];
    times(values, count, row->scale);
    rlx_ref_finish_f32(values, count, row->bias, row->gated ? none : row->residual,
                       row->activation);
    if (row->gated) times(values, count, row->residual);
    if (out->tensor->dtype == RLX_DTYPE_F32) {
        rlx_ref_write_f32(out->tensor, out->offset, out->stride, count, values);
    } else {
        write_bytes(row, count, values);
    }
}

#define READ_AS(kind)                                     \
    do {                                                  \
        const kind *from = tensor->data;                  \
        for (int64_t i = 0; i < count; i++)               \
            out[i] = (uint32_t)from[offset + i * stride]; \
    } while (0)

void rlx_ref_read_u32(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                      uint32_t *out) {
    if (tensor->dtype == RLX_DTYPE_I8) {
        READ_AS(int8_t);
    } else if (tensor->dtype == RLX_DTYPE_U8) {
        READ_AS(uint8_t);
    } else if (tensor->dtype == RLX_DTYPE_I32) {
        READ_AS(int32_t);
    } else {
        for (int64_t i = 0; i < count; i++)
            out[i] = (uint32_t)rlx_load_i64(tensor->dtype, tensor->data, offset + i * stride);
    }
}

void rlx_ref_read_u64(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                      uint64_t *out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = (uint64_t)rlx_load_i64(tensor->dtype, tensor->data, offset + i * stride);
}

void rlx_ref_write_u32(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                       const uint32_t *values) {
    for (int64_t i = 0; i < count; i++)
        rlx_store_i64(tensor->dtype, tensor->data, offset + i * stride, values[i]);
}

void rlx_ref_write_u64(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                       const uint64_t *values) {
    for (int64_t i = 0; i < count; i++)
        rlx_store_i64(tensor->dtype, tensor->data, offset + i * stride, (int64_t)values[i]);
}
