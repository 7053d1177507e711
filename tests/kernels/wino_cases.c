/* SPDX-License-Identifier: Apache-2.0 */
/* 3 x 3 convolutions with weights at the points of Winograd's minimal filtering, tiles of 2 and 4
 * outputs, as the compiler writes them. Scalar C goes back to taps, so it agrees only if points and
 * kernels do. Weights whose points are not finite keep their taps. Some inputs have a column of
 * infinities, which must not reach outputs that do not see it, or numbers whose differences
 * overflow. */
#include "ir/winograd.h"
#include "kernels/families.h"

#include <stdio.h>

typedef struct wino_case {
    int block, edge, batch, in, out, height, width, pads[4];
} wino_case;

static wino_case pick_case(uint32_t index) {
    wino_case c = {.block = index % 2 == 0 ? 8 : 16,
                   .edge = index / 2 % 2 == 0 ? 2 : 4,
                   .batch = (int)kernel_pick(index, 0, 1, 3)};
    c.in = (int)kernel_pick(index, 1, c.block, 70);
    c.out = (int)kernel_pick(index, 2, 1, index % 5 == 0 ? 150 : 70);
    for (uint32_t i = 0; i < 4; i++)
        c.pads[i] = (int)kernel_pick(index, 3 + i, 0, index % 7 == 0 ? 4 : 1);
    c.height = (int)kernel_pick(index, 8, 3, 14);
    c.width = (int)kernel_pick(index, 9, 3, index % 6 == 0 ? 60 : 20);
    return c;
}

/* G as the text of a constant g. */
static void write_matrix(int edge, char *text, size_t bytes) {
    double g[RLX_WINOGRAD_SIDE][3];
    int side = edge + 2, at = snprintf(text, bytes, "const g : f32[%d, 3] = [", side);
    rlx_winograd_weights(edge, g);
    for (int i = 0; i < side * 3; i++) {
        at +=
            snprintf(text + at, bytes - (size_t)at, "%s%.9g", i == 0 ? "" : ", ", g[i / 3][i % 3]);
    }
    (void)snprintf(text + at, bytes - (size_t)at, "]\n");
}

/* A factor per column: 1, and infinity in one of them; or one factor for all. */
static void write_factor(const wino_case *c, uint32_t index, char *text, size_t bytes) {
    int special = (int)kernel_pick(index, 10, 0, c->width - 1);
    int at = snprintf(text, bytes, "const f : f32[%d, 1] = [", c->width);
    for (int i = 0; i < c->width; i++) {
        const char *number = index / 4 % 4 == 1                   ? "2e38"
                             : index / 4 % 4 == 3 && i == special ? "inf"
                                                                  : "1";
        at += snprintf(text + at, bytes - (size_t)at, "%s%s", i == 0 ? "" : ", ", number);
    }
    (void)snprintf(text + at, bytes - (size_t)at, "]\nconst d : f32[] = %s\n",
                   index / 4 % 4 == 1 ? "1e-32" : "0.125"); /* sums of about 1, as networks have */
}

static void write(uint32_t index, char *text, uint32_t bytes) {
    static const char *const activations[] = {
        "", " activation=relu", " activation=silu",
        " activation=clip activation_alpha=-0.5 activation_beta=0.75"};
    const wino_case c = pick_case(index);
    char matrix[1024], factor[1024];
    write_matrix(c.edge, matrix, sizeof matrix);
    write_factor(&c, index, factor, sizeof factor);
    (void)snprintf(
        text, bytes,
        "rlx 1\ninput x : f32[%d, %d, %d, %d, %d]\ninput w : f32[%d, %d, 3, 3]\n"
        "input b : f32[%d]\ninput r : f32[%d, %d, %d, %d, %d]\n%s%sz = mul(x, f)\nv = mul(w, d)\n"
        "h = matmul(g, v)\nu = matmul(h, g) transpose_b=true\nconst n : f32[] = 0\nt = mul(u, n)\n"
        "s = reduce_sum(t) axes=[2, 3] keep_dims=true\nq = equal(s, n)\n"
        "k = pad(v) pads=[0, 0, 0, 0, 0, 0, %d, %d] value=nan\no = where(q, u, k)\n"
        "p = pack(o) layout=%s\n"
        "y = conv(z, p, %s, %s) pads=[%d, %d, %d, %d] channel_block=%d winograd=%d%s\noutput y\n",
        c.batch, (c.in + c.block - 1) / c.block, c.height, c.width, c.block, c.out, c.in, c.out,
        c.batch, (c.out + c.block - 1) / c.block, c.height + c.pads[0] + c.pads[2] - 2,
        c.width + c.pads[1] + c.pads[3] - 2, c.block, matrix, factor, c.edge - 1, c.edge - 1,
        c.block == 8 ? "taps16" : "taps32", index % 4 == 1 ? "_" : "b", index % 3 == 0 ? "_" : "r",
        c.pads[0], c.pads[1], c.pads[2], c.pads[3], c.block, c.edge, activations[index / 3 % 4]);
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[1, 8, 56, 56, 8]\ninput u : f32[64, 64, 4, 4]\np = pack(u) "
    "layout=taps16\ny = conv(x, p) pads=[1, 1, 1, 1] channel_block=8 winograd=2\noutput y\n",
    "rlx 1\ninput x : f32[1, 8, 56, 56, 8]\ninput u : f32[64, 64, 6, 6]\np = pack(u) "
    "layout=taps16\ny = conv(x, p) pads=[1, 1, 1, 1] channel_block=8 winograd=4\noutput y\n",
    NULL,
};

const kernel_family kernel_wino = {"wino", 1e-4, 120, write, timed};
