// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// One output per lane, any strides, any dtype: act(alpha a b + bias + residual), or the residual multiplies.
// p: step; batch rank, 6 batch dims; m, n, k; bases of out, a, b, bias, residual (11..15); alpha, and alpha and
// beta of the activation (16..18); then for out, a, b, bias, residual from 19 on 8 words each: strides of m (k
// for b), n (k for a), and of 6 batch axes.
// Of f64 alpha is at 16 and 17, and activations are few. K0: activation; K1: 1 bias, 2 residual, 4 gated; K2: integers.
#include "common.glsl"
#include "math.glsl"
#ifdef DOUBLE
#include "math64.glsl"
real activate(uint op, real x) {
    if (op == 0u) return abs(x);
    if (op == 1u) return -x;
    if (op == 20u) return tanh_(x);
    if (op == 25u) return sigmoid_(x);
    if (op == 26u) return x < 0.0 ? 0.0 : x;
    return x;
}
#endif
IN(1) IN(2) IN(3) IN(4)
OUT(10)
void main() {
    int index = item(), m = p[8], n = p[9], batches = product(2, p[1]);
    if (index >= m * n * batches) return;
    int j = index % n, i = index / n % m, batch = index / n / m;
    int to = p[11] + i * p[19] + j * p[20] + offset(2, 21, p[1], batch);
    int a = p[12] + i * p[27] + offset(2, 29, p[1], batch), b = p[13] + j * p[36] + offset(2, 37, p[1], batch);
    int bias = p[14] + i * p[43] + j * p[44] + offset(2, 45, p[1], batch);
    int residual = p[15] + i * p[51] + j * p[52] + offset(2, 53, p[1], batch);
    int a_k = p[28], b_k = p[35], depth = p[10];
    if (K2 != 0u) {
        uvec2 sum = uvec2(0u);
        for (int k = 0; k < depth; k++) sum = add64(sum, mul64(value_1(a + k * a_k), value_2(b + k * b_k)));
        if ((K1 & 1u) != 0u) sum = add64(sum, value_3(bias));
        if ((K1 & 2u) != 0u) sum = (K1 & 4u) != 0u ? mul64(sum, value_4(residual)) : add64(sum, value_4(residual));
        put_10(to, sum);
        return;
    }
    real sum = 0.0;
    for (int k = 0; k < depth; k++) sum += float_1(a + k * a_k) * float_2(b + k * b_k);
#ifdef DOUBLE
    sum *= packDouble2x32(uvec2(p[16], p[17]));
#else
    sum *= pf(16);
#endif
    if ((K1 & 1u) != 0u) sum += float_3(bias);
    if ((K1 & 6u) == 2u) sum += float_4(residual);
#ifdef DOUBLE
    sum = activate(K0, sum);
#else
    if (K0 != NO_ACTIVATION) sum = activate(K0, sum, pf(17), pf(18));
#endif
    if ((K1 & 4u) != 0u) sum *= float_4(residual);
    put_float_10(to, sum);
}
