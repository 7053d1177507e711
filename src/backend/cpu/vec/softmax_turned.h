/* SPDX-License-Identifier: Apache-2.0 */
/* softmax and log_softmax of short rows of f32: lanes are rows. A strip of them is turned on its
 * way into the buffer and out of it, so that nothing is added across lanes and no row waits for
 * itself. */
#ifndef RLX_BACKEND_CPU_VEC_SOFTMAX_TURNED_H
#define RLX_BACKEND_CPU_VEC_SOFTMAX_TURNED_H

#include "backend/cpu/vec/softmax_strip.h"
#include "backend/cpu/vec/transpose.h"

enum { TURN = 8, LONGEST_TURNED = 56 /* above that turning takes longer than it saves */ };

/* The first n of TURN floats. */
VEC_INLINE vt4 load_turn(const float *from, int64_t n) {
    vt4 x = {0};
    if (n >= TURN) {
        memcpy(&x, from, sizeof x);
        return x;
    }
#if defined(__AVX512VL__)
    return (vt4)_mm256_maskz_loadu_ps((__mmask8)((1u << n) - 1u), from);
#elif defined(__AVX2__)
    return (vt4)_mm256_maskload_ps(from, vec_mask8(n));
#else
    memcpy(&x, from, (size_t)n * sizeof *from);
    return x;
#endif
}
VEC_INLINE void store_turn(float *to, vt4 x, int64_t n) {
    if (n >= TURN) {
        memcpy(to, &x, sizeof x);
        return;
    }
#if defined(__AVX512VL__)
    _mm256_mask_storeu_ps(to, (__mmask8)((1u << n) - 1u), (__m256)x);
#elif defined(__AVX2__)
    vec_store8_n(to, (__m256)x, n);
#else
    memcpy(to, &x, (size_t)n * sizeof *to);
#endif
}

/* Rows of n, so far apart. */
typedef struct turned_rows {
    const float *x;
    float *y;
    int64_t x_step, y_step, count, n;
} turned_rows;

/* Rows as lines of a strip that is as wide as there are rows; the last one fills it. The last
 * columns overlap others. */
OUTLINE void take_turned(const turned_rows *self, float *room, int64_t width) {
    const int64_t n = self->n, step = self->x_step, last = self->count - 1;
    for (int64_t r = 0; r < width; r += TURN) {
        for (int64_t c = 0; c < n; c += TURN) {
            int64_t at = n < TURN ? 0 : rlx_ref_least(c, n - TURN);
            const float *x = self->x + at;
            float *to = room + at * width + r;
            vt4 rows[TURN];
            VEC_UNROLLED for (int i = 0; i < TURN; i++) rows[i] =
                load_turn(x + rlx_ref_least(r + i, last) * step, n);
            vec_turn4(rows);
            VEC_UNROLLED for (int i = 0; i < TURN; i++, to += width) {
                if (i < n) memcpy(to, &rows[i], sizeof rows[i]);
            }
        }
    }
}

typedef float vec_eight __attribute__((vector_size(4 * TURN), aligned(4), may_alias));

/* What is in the buffer, times `factor` or less `most` and `factor`, back to rows. */
OUTLINE void put_turned(const turned_rows *self, const float *room, int64_t width,
                        const float *most, const float *factor, bool is_log) {
    const int64_t n = self->n, step = self->y_step, count = self->count;
    for (int64_t r = 0; r < count; r += TURN) {
        const vec_eight f = *(const vec_eight *)(factor + r), m = *(const vec_eight *)(most + r);
        for (int64_t c = 0; c < n; c += TURN) {
            int64_t at = n < TURN ? 0 : rlx_ref_least(c, n - TURN);
            const float *from = room + at * width + r;
            float *y = self->y + at + r * step;
            vt4 rows[TURN];
            VEC_UNROLLED for (int i = 0; i < TURN; i++) {
                vec_eight x = *(const vec_eight *)from;
                rows[i] = (vt4)(is_log ? x - m - f : x * f);
                if (i + 1 < n) from += width;
            }
            vec_turn4(rows);
            VEC_UNROLLED for (int i = 0; i < TURN; i++, y += step) {
                if (r + i < count) store_turn(y, rows[i], n);
            }
        }
    }
}

/* As many rows as a strip is wide at most. */
OUTLINE void do_turned(const turned_rows *self, bool is_log) {
    float room[STRIP * LONGEST_TURNED], exps[STRIP * LONGEST_TURNED];
    vf most[STRIP / VF] = {{0}}, sum[STRIP / VF] = {{0}};
    const int64_t lanes = VF, whole = lanes > TURN ? lanes : TURN; /* vectors and turned blocks */
    const int64_t n = self->n, width = (self->count + whole - 1) / whole * whole;
    const strip s = {.dtype = RLX_DTYPE_F32,
                     .x = (const char *)(self->x + (n - 1) * width),
                     .length = n,
                     .x_step = width * 4,
                     .width = width};
    take_turned(self, room, width);
    for (int64_t k = 0; k < width / VF; k++) {
        vf high = vf_set(-VEC_INFINITY);
        for (int64_t i = 0; i < n; i++)
            high = vf_max(vf_load(room + i * width + k * VF), high);
        most[k] = high;
    }
    strip_exp(&s, room, is_log ? exps : room, most, sum);
    for (int64_t k = 0; k < width / VF; k++)
        sum[k] = is_log ? log_biased(sum[k]) : 1.0f / sum[k];
    put_turned(self, room, width, (const float *)most, (const float *)sum, is_log);
}
#endif
