/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of a float product on the way into its workspace: rows of a side by side, columns of b
 * as panels. For the one file that includes it; knows nothing of blocks, tiles or stores. */
#ifndef RLX_BACKEND_CPU_VEC_MATMUL_PACK_H
#define RLX_BACKEND_CPU_VEC_MATMUL_PACK_H

#include "backend/cpu/vec/matmul.h"

/* Of k at most in a block: a panel's part stays in the first cache. */
enum { MATMUL_DEPTH = 320 };

#if defined(__AVX2__)
/* Eight rows of eight, turned. They stay in registers only where all loops are unrolled. */
VEC_INLINE void turn8(__m256 *r) {
    __m256 s[8];
    VEC_UNROLLED for (int i = 0; i < 8; i += 4) {
        __m256 t0 = _mm256_unpacklo_ps(r[i], r[i + 1]), t1 = _mm256_unpackhi_ps(r[i], r[i + 1]);
        __m256 t2 = _mm256_unpacklo_ps(r[i + 2], r[i + 3]);
        __m256 t3 = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
        s[i] = _mm256_shuffle_ps(t0, t2, 0x44), s[i + 1] = _mm256_shuffle_ps(t0, t2, 0xee);
        s[i + 2] = _mm256_shuffle_ps(t1, t3, 0x44), s[i + 3] = _mm256_shuffle_ps(t1, t3, 0xee);
    }
    VEC_UNROLLED for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x31);
    }
}

/* Eight rows from `from` on, of which `lines` are there; ALL: they all are. */
VEC_INLINE void turn_square(const float *from, int64_t stride, int64_t lines, int64_t pitch,
                            float *to, const bool ALL) {
    __m256 r[8];
    VEC_UNROLLED for (int i = 0; i < 8; i++) r[i] =
        ALL || i < lines ? _mm256_loadu_ps(from + i * stride) : _mm256_setzero_ps();
    turn8(r);
    VEC_UNROLLED for (int i = 0; i < 8; i++) _mm256_storeu_ps(to + i * pitch, r[i]);
}

/* Up to eight lines of `depth` numbers, `stride` apart, as eight columns whose rows are `pitch`
 * apart; columns without a line are zero. Returns how many numbers of each line are done. */
static int64_t turn_lines(const float *from, int64_t stride, int64_t lines, int64_t depth,
                          int64_t pitch, float *to) {
    int64_t j = 0;
    for (; lines == 8 && j + 8 <= depth; j += 8)
        turn_square(from + j, stride, lines, pitch, to + j * pitch, true);
    for (; j + 8 <= depth; j += 8)
        turn_square(from + j, stride, lines, pitch, to + j * pitch, false);
    return j;
}
#else
static int64_t turn_lines(const float *from, int64_t stride, int64_t lines, int64_t depth,
                          int64_t pitch, float *to) {
    (void)from, (void)stride, (void)lines, (void)depth, (void)pitch, (void)to;
    return 0;
}
#endif

/* Rows of a that lie along m. `pitch` leaves room for eight numbers behind a row. */
static void turn_a(const float *from, int64_t stride, int64_t rows, int64_t depth, int64_t pitch,
                   float *to) {
    for (int64_t j = 0; j < depth; j += 8, from += 8 * stride) {
        int64_t lines = matmul_least(8, depth - j);
        for (int64_t i = turn_lines(from, stride, lines, rows, pitch, to + j); i < rows; i++) {
            for (int64_t l = 0; l < lines; l++)
                to[i * pitch + j + l] = from[l * stride + i];
        }
    }
}

/* Rows [m, m + rows) of a from k on, side by side and `pitch` apart. */
static void pack_a(const matmul *mm, int64_t base, int64_t m, int64_t rows, int64_t k,
                   int64_t depth, int64_t pitch, float *to) {
    const int64_t from = base + m * mm->a_m + k * mm->a_k;
    if (mm->a->dtype == RLX_DTYPE_F32 && mm->a_m == 1) {
        turn_a((const float *)mm->a->data + from, mm->a_k, rows, depth, pitch, to);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        vec_read_f32(mm->a, from + i * mm->a_m, mm->a_k, depth, to + i * pitch);
}

/* A panel of columns that lie along k. Weights in blocks come decoded. */
static void pack_b_lines(const matmul *mm, int64_t from, int64_t columns, int64_t depth,
                         float *to) {
    float line[MATMUL_DEPTH];
    for (int64_t i = 0; i < MATMUL_COLUMNS; i += 8) {
        int64_t lines = columns - i < 0 ? 0 : matmul_least(8, columns - i), done = 0;
        if (mm->b->dtype == RLX_DTYPE_F32) {
            done = turn_lines((const float *)mm->b->data + from + i * mm->b_n, mm->b_n, lines,
                              depth, MATMUL_COLUMNS, to + i);
        }
        for (int64_t l = 0; l < 8 && done < depth; l++) {
            if (l < lines) {
                vec_read_f32(mm->b, from + (i + l) * mm->b_n + done, 1, depth - done, line);
            } else {
                memset(line, 0, (size_t)(depth - done) * sizeof *line);
            }
            for (int64_t j = done; j < depth; j++)
                to[j * MATMUL_COLUMNS + i + l] = line[j - done];
        }
    }
}

/* Columns [n, n + columns) of a b that is not packed, as a panel [depth][MATMUL_COLUMNS]; columns
 * past the end are zero. */
static void pack_b_panel(const matmul *mm, int64_t base, int64_t n, int64_t columns, int64_t k,
                         int64_t depth, float *to) {
    int64_t from = base + n * mm->b_n + k * mm->b_k;
    if (mm->b_k == 1 && mm->b_n != 1) {
        pack_b_lines(mm, from, columns, depth, to);
        return;
    }
    if (mm->b->dtype == RLX_DTYPE_F32 && mm->b_n == 1) {
        const float *row = (const float *)mm->b->data + from;
        for (int64_t j = 0; j < depth; j++, to += MATMUL_COLUMNS, row += mm->b_k) {
            bool is_whole = columns == MATMUL_COLUMNS;
            vf_store(to, is_whole ? vf_load(row) : vf_load_n(row, matmul_least(columns, VF)));
            if (is_whole) {
                vf_store(to + VF, vf_load(row + VF));
            } else {
                vf_store(to + VF, vf_load_n(row + VF, columns > VF ? columns - VF : 0));
            }
        }
        return;
    }
    for (int64_t j = 0; j < depth; j++, to += MATMUL_COLUMNS) {
        vec_read_f32(mm->b, from + j * mm->b_k, mm->b_n, columns, to);
        for (int64_t i = columns; i < MATMUL_COLUMNS; i++)
            to[i] = 0;
    }
}

#endif
