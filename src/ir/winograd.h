/* SPDX-License-Identifier: Apache-2.0 */
/* The points of Winograd's minimal filtering with kernels of 3: an axis of e outputs is computed
 * from e + 2 products. With 2 outputs the points are 0, 1, -1 and infinity, with 4 they are 0, A,
 * -A, B, -B and infinity. A and B were chosen by measuring (docs/decisions); they and their
 * products are exact in f32. G takes 3 taps to their points. The way back needs four of them,
 * whatever e is: taps are FIRST * u[0], SECOND * (u[1] - u[2]) and u[e + 1]. */
#ifndef RLX_IR_WINOGRAD_H
#define RLX_IR_WINOGRAD_H

#include <stdint.h>

enum { RLX_WINOGRAD_SIDE = 6 }; /* at most: points of an axis */

#define RLX_WINOGRAD_A 0.625
#define RLX_WINOGRAD_B 1.5

static inline double rlx_winograd_first(int64_t edge) {
    const double a = RLX_WINOGRAD_A, b = RLX_WINOGRAD_B;
    return edge == 2 ? 1 : a * a * b * b;
}
static inline double rlx_winograd_second(int64_t edge) {
    const double a = RLX_WINOGRAD_A, b = RLX_WINOGRAD_B;
    return edge == 2 ? 1 : a * (a * a - b * b);
}

/* G, [edge + 2][3]. */
static inline void rlx_winograd_weights(int64_t edge, double g[RLX_WINOGRAD_SIDE][3]) {
    const double a = RLX_WINOGRAD_A, b = RLX_WINOGRAD_B, s = edge == 2 ? 1 : a;
    const double points[] = {0, s, -s, b, -b};
    const double at_s = edge == 2 ? 0.5 : 1 / (2 * a * a * (a * a - b * b));
    const double at_b = 1 / (2 * b * b * (b * b - a * a));
    const double scales[] = {1 / rlx_winograd_first(edge), at_s, at_s, at_b, at_b};
    for (int64_t i = 0; i <= edge; i++) {
        g[i][0] = scales[i];
        g[i][1] = scales[i] * points[i];
        g[i][2] = scales[i] * points[i] * points[i];
    }
    g[edge + 1][0] = g[edge + 1][1] = 0;
    g[edge + 1][2] = 1;
}

#endif
