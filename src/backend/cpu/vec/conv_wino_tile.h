/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's minimal filtering of 3 x 3 kernels, one tile of EDGE x EDGE outputs at a time: inputs
 * to points, products of points to outputs. A kernel g, inputs d and outputs y of one axis are
 * polynomials; their product is found from its values at EDGE + 1 points and at infinity. 2 outputs
 * take the points 0, 1, -1; 4 outputs 0, A, -A, B, -B. What G does to the weights is
 * compile/winograd.c; the three must agree. Lanes are channels. Knows no tensors. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_WINO_TILE_H
#define RLX_BACKEND_CPU_VEC_CONV_WINO_TILE_H

#include "backend/cpu/vec/conv_view.h"
#include "ir/winograd.h"

enum { WINO_MOST_SIDE = 6, WINO_MOST_EDGE = 4 };

#define WINO_A ((float)RLX_WINOGRAD_A)
#define WINO_B ((float)RLX_WINOGRAD_B)

VEC_INLINE void wino_in2(const vf *d, vf *p) {
    p[0] = d[0] - d[2];
    p[1] = d[1] + d[2];
    p[2] = d[2] - d[1];
    p[3] = d[1] - d[3];
}

VEC_INLINE void wino_in4(const vf *d, vf *p) {
    const vf a = vf_set(WINO_A), b = vf_set(WINO_B);
    const vf a2 = vf_set(WINO_A * WINO_A), b2 = vf_set(WINO_B * WINO_B);
    const vf sum = vf_set(WINO_A * WINO_A + WINO_B * WINO_B);
    const vf product = vf_set(WINO_A * WINO_A * WINO_B * WINO_B);
    const vf even_a = vf_fnma(b2, d[2], d[4]), odd_a = vf_fnma(b2, d[1], d[3]);
    const vf even_b = vf_fnma(a2, d[2], d[4]), odd_b = vf_fnma(a2, d[1], d[3]);
    p[0] = vf_fma(product, d[0], vf_fnma(sum, d[2], d[4]));
    p[1] = vf_fma(a, odd_a, even_a);
    p[2] = vf_fnma(a, odd_a, even_a);
    p[3] = vf_fma(b, odd_b, even_b);
    p[4] = vf_fnma(b, odd_b, even_b);
    p[5] = vf_fma(product, d[1], vf_fnma(sum, d[3], d[5]));
}

VEC_INLINE void wino_out2(const vf *p, vf *y) {
    y[0] = p[0] + p[1] + p[2];
    y[1] = p[1] - p[2] - p[3];
}

VEC_INLINE void wino_out4(const vf *p, vf *y) {
    const vf even_a = p[1] + p[2], odd_a = p[1] - p[2], even_b = p[3] + p[4], odd_b = p[3] - p[4];
    const vf a = vf_set(WINO_A), b = vf_set(WINO_B);
    const vf a2 = vf_set(WINO_A * WINO_A), b2 = vf_set(WINO_B * WINO_B);
    const vf a3 = vf_set(WINO_A * WINO_A * WINO_A), b3 = vf_set(WINO_B * WINO_B * WINO_B);
    y[0] = p[0] + even_a + even_b;
    y[1] = vf_fma(b, odd_b, a * odd_a);
    y[2] = vf_fma(b2, even_b, a2 * even_a);
    y[3] = vf_fma(b3, odd_b, vf_fma(a3, odd_a, p[5]));
}

/* BLOCK lanes of inputs [side][side] to points that are `point` floats apart. */
VEC_INLINE void wino_in(const float *x, int64_t row, int64_t column, float *to, int64_t point,
                        const int EDGE) {
    enum { MOST = WINO_MOST_SIDE };
    const int side = EDGE + 2;
    for (int v = 0; v < BLOCK; v += VF) {
        vf half[MOST * MOST], d[MOST], p[MOST];
        VEC_ROLLED for (int j = 0; j < side; j++) {
            VEC_UNROLLED for (int i = 0; i < side; i++) d[i] =
                vf_load(x + i * row + j * column + v);
            if (EDGE == 2) wino_in2(d, p);
            if (EDGE == 4) wino_in4(d, p);
            VEC_UNROLLED for (int i = 0; i < side; i++) half[i * side + j] = p[i];
        }
        VEC_ROLLED for (int i = 0; i < side; i++) {
            if (EDGE == 2) wino_in2(half + i * side, p);
            if (EDGE == 4) wino_in4(half + i * side, p);
            VEC_UNROLLED for (int j = 0; j < side; j++)
                vf_store(to + (i * side + j) * point + v, p[j]);
        }
    }
}

/* One vector of products of points, `point` floats apart, to outputs [EDGE][EDGE]. */
VEC_INLINE void wino_out(const float *from, int64_t point, vf *y, const int EDGE) {
    enum { MOST = WINO_MOST_SIDE };
    const int side = EDGE + 2;
    vf half[WINO_MOST_EDGE * MOST], p[MOST], one[WINO_MOST_EDGE];
    VEC_ROLLED for (int j = 0; j < side; j++) {
        VEC_UNROLLED for (int i = 0; i < side; i++) p[i] = vf_load(from + (i * side + j) * point);
        if (EDGE == 2) wino_out2(p, one);
        if (EDGE == 4) wino_out4(p, one);
        VEC_UNROLLED for (int i = 0; i < EDGE; i++) half[i * side + j] = one[i];
    }
    VEC_ROLLED for (int i = 0; i < EDGE; i++) {
        if (EDGE == 2) wino_out2(half + i * side, y + i * EDGE);
        if (EDGE == 4) wino_out4(half + i * side, y + i * EDGE);
    }
}

#endif
