/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles that there are of each kind of panel, by their height: instances of matmul_tile.h. For
 * the one file that includes it. */
#ifndef RLX_BACKEND_CPU_VEC_MATMUL_TILES_H
#define RLX_BACKEND_CPU_VEC_MATMUL_TILES_H

#include "backend/cpu/vec/matmul_tile.h"

enum {
    FEW_ROWS = 3,                  /* even fewer: an item is several panels side by side */
    FEW_PANELS = VF < 16 ? 4 : 12, /* at once, of one row */
    FEW_OTHERS = 4,                /* the same where few streams are as fast, or faster, */
    FEW_NEAR = 2,                  /* and there of weights that may lie in the last cache */
    SHORT_ROWS = 6,                /* of a tile at most, where it has two panels or is not full */
};

/* clang-format off */
#define TILE(name, kind, rows)                                                            \
    static void name(const float *a, int64_t row, const uint8_t *b, int64_t depth,        \
                     const matmul_sums *c) {                                              \
        matmul_tile_of(rows, 2, kind, a, row, b, 0, depth, c);                            \
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
        matmul_few(rows, panels, panels > 1 ? 1 : rows == 1 ? 4 : 2, panels > 4, kind, a, \
                   row, b, apart, depth, to);                                             \
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
/* FEW_NEAR panels of one row, for levels of 64 bytes. */
static void few_asking(const float *a, int64_t row, const uint8_t *b, int64_t apart, int64_t depth,
                       float *to) {
    matmul_few(1, FEW_NEAR, 1, true, PANEL_F32, a, row, b, apart, depth, to);
}
typedef void (*few_fn)(const float *a, int64_t row, const uint8_t *b, int64_t apart,
                       int64_t depth, float *to);
static const few_fn fews[PANEL_KINDS][FEW_ROWS][FEW_PANELS + 1] = {
    {FEW_NAMES(f32, WIDE)}, {FEW_NAMES(f16, )}, {FEW_NAMES(bf16, )}};
/* clang-format on */

#endif
