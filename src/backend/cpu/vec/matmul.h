/* SPDX-License-Identifier: Apache-2.0 */
/* What the matmul kernels of this folder share: the operands of a step as [batch..][m][k] x
 * [batch..][k][n], how the output is cut into items, and the store of a finished tile. Sums run
 * over k in index order, one accumulator per output element (fused multiply-adds, blocks of k one
 * after the other), so no split of the items changes a bit. */
#ifndef RLX_BACKEND_CPU_VEC_MATMUL_H
#define RLX_BACKEND_CPU_VEC_MATMUL_H

#include "backend/cpu/matmul_operands.h"
#include "backend/cpu/vec/activation.h"
#include "backend/cpu/vec/convert.h"
#include "ref/access.h"

enum {
    MATMUL_COLUMNS = 2 * VF, /* of a tile and of a panel: two vectors */
    MATMUL_ROWS = VF < 16 ? 6 : 12,
    MATMUL_MOST_ROWS = 12, /* of a tile of half a panel */
};

VEC_INLINE int64_t matmul_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
VEC_INLINE int64_t matmul_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Where part `index` of `count` nearly equal ones begins. */
VEC_INLINE int64_t matmul_part_start(int64_t whole, int64_t count, int64_t index) {
    return whole / count * index + matmul_least(index, whole % count);
}

static inline matmul matmul_make(const rlx_kernel_args *args) {
    return rlx_cpu_matmul_make(args, MATMUL_COLUMNS);
}

/* Some numbers of an f32 addend: a vector side by side, or one for all. */
VEC_INLINE vf matmul_addend(const float *from, int64_t stride, int64_t count) {
    if (stride == 0) return vf_set(*from);
    return count >= VF ? vf_load(from) : vf_load_n(from, count);
}

/* One vector of results of row m from column n on, `count` of them wanted. */
VEC_INLINE void matmul_store_vector(const matmul *mm, const matmul_batch *at, int64_t m, int64_t n,
                                    vf x, int64_t count) {
    float *to = (float *)mm->out->data + at->out + m * mm->out_m + n;
    vf more = {0};
    if (mm->alpha != 1) x *= mm->alpha;
    if (mm->bias->data != NULL) {
        const float *bias = (const float *)mm->bias->data + at->bias + m * mm->bias_m;
        x += matmul_addend(bias + n * mm->bias_n, mm->bias_n, count);
    }
    if (mm->residual->data != NULL) {
        const float *residual =
            (const float *)mm->residual->data + at->residual + m * mm->residual_m;
        more = matmul_addend(residual + n * mm->residual_n, mm->residual_n, count);
        if (!mm->gated) x += more;
    }
    x = vf_activation(&mm->activation, x);
    if (mm->gated) x *= more;
    if (count >= VF) {
        vf_store(to, x);
    } else {
        vf_store_n(to, x, count);
    }
}

/* The same for any dtypes and strides: a row of `count` results (at most MATMUL_COLUMNS). */
static __attribute__((noinline, unused)) void matmul_store_row(const matmul *mm,
                                                               const matmul_batch *at, int64_t m,
                                                               int64_t n, float *row,
                                                               int64_t count) {
    float more[MATMUL_COLUMNS];
    if (mm->alpha != 1) {
        for (int64_t i = 0; i < count; i++)
            row[i] *= mm->alpha;
    }
    if (mm->bias->data != NULL) {
        vec_read_f32(mm->bias, at->bias + m * mm->bias_m + n * mm->bias_n, mm->bias_n, count, more);
        for (int64_t i = 0; i < count; i++)
            row[i] += more[i];
    }
    if (mm->residual->data != NULL) {
        vec_read_f32(mm->residual, at->residual + m * mm->residual_m + n * mm->residual_n,
                     mm->residual_n, count, more);
        for (int64_t i = 0; !mm->gated && i < count; i++)
            row[i] += more[i];
    }
    vec_activation_run(&mm->activation, row, count);
    for (int64_t i = 0; mm->gated && i < count; i++)
        row[i] *= more[i];
    vec_write_f32(mm->out, at->out + m * mm->out_m + n * mm->out_n, mm->out_n, count, row);
}

/* A finished row of a tile: two vectors. */
VEC_INLINE void matmul_store(const matmul *mm, const matmul_batch *at, int64_t m, int64_t n, vf x,
                             vf y, int64_t count) {
    if (mm->is_simple) {
        matmul_store_vector(mm, at, m, n, x, count);
        if (count > VF) matmul_store_vector(mm, at, m, n + VF, y, count - VF);
    } else {
        float row[MATMUL_COLUMNS];
        vf_store(row, x);
        vf_store(row + VF, y);
        matmul_store_row(mm, at, m, n, row, matmul_least(count, MATMUL_COLUMNS));
    }
}

#endif
