/* SPDX-License-Identifier: Apache-2.0 */
/* Narrow groups that were merged into one, as the compiler writes them: weights of 0 between them,
 * and infinite inputs in one channel and column, which no other group may see. Channels in blocks,
 * in planes, and at the points of Winograd's filtering. */
#include "ir/winograd.h"
#include "kernels/families.h"

#include <stdio.h>

typedef enum form { BLOCKS, FIRST, POINTS, PLANES, FORMS } form;

typedef struct merged_case {
    form form;
    int block, batch, groups, merged, in, out; /* channels of a narrow group */
    int height, width, kernel, stride, pad;
} merged_case;

static merged_case pick_case(uint32_t index) {
    merged_case c = {.form = (form)(index % FORMS), .block = index / FORMS % 2 == 0 ? 8 : 16};
    const int of_block = (int)kernel_pick(index, 0, 0, 2); /* narrow groups of a block: 2, 4, 8 */
    c.batch = (int)kernel_pick(index, 1, 1, 2);
    c.groups =
        c.form != POINTS && c.form != FIRST && c.block == 8 ? (int)kernel_pick(index, 2, 1, 2) : 1;
    c.merged = 2 << of_block;
    c.in = c.block / c.merged, c.out = 2 * c.block / c.merged;
    if (c.groups == 1) { /* blocks that are not full, groups that lie across them */
        c.merged = (int)kernel_pick(index, 3, 2, 5);
        c.in = (int)kernel_pick(index, 4, 1, 5), c.out = (int)kernel_pick(index, 5, 1, 5);
        if (c.form == FIRST) c.merged = 2, c.in = 2;
        while (c.form != FIRST && c.in * c.merged < c.block)
            c.in++;
        while (2 * c.out * c.merged < c.block)
            c.out++;
    }
    c.kernel = c.form == POINTS ? 3 : (int)kernel_pick(index, 6, 1, 3);
    c.stride = c.form == POINTS ? 1 : (int)kernel_pick(index, 7, 1, 2);
    c.pad = (int)kernel_pick(index, 8, 0, c.kernel / 2);
    c.height = (int)kernel_pick(index, 9, 3, 12);
    c.width = (int)kernel_pick(index, 10, 3, index % 3 == 0 ? 60 : 15);
    return c;
}

/* `count` numbers, of which number `at` is 1e30 and the others are 0. */
static int write_one(char *text, size_t bytes, const char *name, const char *shape, int count,
                     int at) {
    int length = snprintf(text, bytes, "const %s : f32[%s] = [", name, shape);
    for (int i = 0; i < count; i++)
        length += snprintf(text + length, bytes - (size_t)length, "%s%s", i == 0 ? "" : ", ",
                           i == at ? "1e30" : "0");
    return length + snprintf(text + length, bytes - (size_t)length, "]\n");
}

/* h: infinite where a channel (or a lane of each block) and a column meet, else 0. */
static int write_infinity(const merged_case *c, uint32_t index, char *text, size_t bytes) {
    const bool is_blocked = c->form == BLOCKS || c->form == POINTS;
    const int channels = is_blocked ? c->block : c->in * c->merged * c->groups;
    char shape[32], columns[32];
    (void)snprintf(shape, sizeof shape, is_blocked ? "%d" : "%d, 1, 1", channels);
    (void)snprintf(columns, sizeof columns, is_blocked ? "%d, 1" : "%d", c->width);
    int at =
        write_one(text, bytes, "f", shape, channels, (int)kernel_pick(index, 11, 0, channels - 1));
    at += write_one(text + at, bytes - (size_t)at, "e", columns, c->width,
                    (int)kernel_pick(index, 12, -1, c->width - 1));
    return at + snprintf(text + at, bytes - (size_t)at, "h = mul(e, f)\nz = add(x, h)\n");
}

/* v: the weights, 0 for the channels of other groups. */
static int write_weights(const merged_case *c, char *text, size_t bytes) {
    const int rows = c->groups * c->merged * c->out, columns = c->merged * c->in;
    int at = snprintf(text, bytes, "input w : f32[%d, %d, %d, %d]\nconst k : f32[%d, %d, 1, 1] = [",
                      rows, columns, c->kernel, c->kernel, rows, columns);
    for (int i = 0; i < rows * columns; i++) {
        bool is_own = i / columns / c->out % c->merged == i % columns / c->in;
        at += snprintf(text + at, bytes - (size_t)at, "%s%d", i == 0 ? "" : ", ", is_own);
    }
    return at + snprintf(text + at, bytes - (size_t)at,
                         "]\nconst n : f32[] = 0\n"
                         "m = greater(k, n)\nv = where(m, w, n)\n");
}

/* p: the same at points, in the layout of the kernels. */
static int write_layout(const merged_case *c, int edge, char *text, size_t bytes) {
    double g[RLX_WINOGRAD_SIDE][3];
    int at = 0;
    if (c->form == PLANES) return snprintf(text, bytes, "p = identity(v)\n");
    if (c->form != POINTS) {
        return snprintf(text, bytes, "p = pack(v) layout=%s\n",
                        c->form == FIRST ? (c->block == 8 ? "taps16" : "taps32")
                        : c->block == 8  ? "panels8x16"
                                         : "panels16x32");
    }
    rlx_winograd_weights(edge, g);
    at = snprintf(text, bytes, "const g : f32[%d, 3] = [", edge + 2);
    for (int i = 0; i < 3 * (edge + 2); i++)
        at +=
            snprintf(text + at, bytes - (size_t)at, "%s%.9g", i == 0 ? "" : ", ", g[i / 3][i % 3]);
    return at + snprintf(text + at, bytes - (size_t)at,
                         "]\no = matmul(g, v)\nu = matmul(o, g) transpose_b=true\nt = mul(u, n)\n"
                         "s = reduce_sum(t) axes=[2, 3] keep_dims=true\nq = equal(s, n)\n"
                         "a = pad(v) pads=[0, 0, 0, 0, 0, 0, %d, %d] value=nan\n"
                         "c = where(q, u, a)\np = pack(c) layout=%s\n",
                         edge - 1, edge - 1, c->block == 8 ? "taps16" : "taps32");
}

/* A value like x or y: channels in blocks or in planes. */
static void write_shape(const merged_case *c, bool is_blocked, int channels, int height, int width,
                        char *text, size_t bytes) {
    if (is_blocked) {
        (void)snprintf(text, bytes, "f32[%d, %d, %d, %d, %d]", c->batch,
                       (channels + c->block - 1) / c->block, height, width, c->block);
    } else {
        (void)snprintf(text, bytes, "f32[%d, %d, %d, %d]", c->batch, channels, height, width);
    }
}

static void write(uint32_t index, char *text, uint32_t bytes) {
    static const char *const activations[] = {"", " activation=relu", " activation=silu"};
    const merged_case c = pick_case(index);
    const int outputs = c.groups * c.merged * c.out, edge = index / FORMS % 3 == 0 ? 2 : 4;
    const int height = (c.height + 2 * c.pad - c.kernel) / c.stride + 1;
    const int width = (c.width + 2 * c.pad - c.kernel) / c.stride + 1;
    char x[96], r[96], extra[64] = "";
    write_shape(&c, c.form == BLOCKS || c.form == POINTS, c.groups * c.merged * c.in, c.height,
                c.width, x, sizeof x);
    write_shape(&c, c.form != PLANES, outputs, height, width, r, sizeof r);
    if (c.form != PLANES) (void)snprintf(extra, sizeof extra, " channel_block=%d", c.block);
    int at = snprintf(text, bytes, "rlx 1\ninput x : %s\ninput b : f32[%d]\ninput r : %s\n", x,
                      outputs, r);
    at += write_weights(&c, text + at, bytes - (size_t)at);
    at += write_infinity(&c, index, text + at, bytes - (size_t)at);
    at += write_layout(&c, edge, text + at, bytes - (size_t)at);
    (void)snprintf(text + at, bytes - (size_t)at,
                   "y = conv(z, p, %s, %s) groups=%d merged=%d strides=[%d, %d] pads=[%d, %d, %d, "
                   "%d]%s%s%s\noutput y\n",
                   index % 3 == 1 ? "_" : "b", index % 5 < 2 ? "_" : "r", c.groups, c.merged,
                   c.stride, c.stride, c.pad, c.pad, c.pad, c.pad, extra,
                   c.form == POINTS ? (edge == 2 ? " winograd=2" : " winograd=4") : "",
                   activations[index % 3]);
}

static const char *const timed[] = {NULL};

const kernel_family kernel_merged = {"merged", 1e-4, 160, write, timed};
