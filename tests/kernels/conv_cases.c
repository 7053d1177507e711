/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions with channels in blocks of 8 or 16, as the compiler writes them, and plain ones. */
#include "kernels/families.h"

#include <stdio.h>

typedef struct conv_case {
    int64_t block, batch, groups, in, out; /* channels per group */
    int64_t height, width, kh, kw, sh, sw, dh, dw, pads[4];
} conv_case;

static conv_case pick_case(uint32_t index) {
    conv_case c = {.block = index % 2 == 0 ? 8 : 16, .batch = kernel_pick(index, 0, 1, 2)};
    c.groups = kernel_pick(index, 1, 0, 3) == 0 ? kernel_pick(index, 2, 2, 3) : 1;
    c.in = c.groups > 1 ? c.block * kernel_pick(index, 3, 1, 2) : kernel_pick(index, 3, 1, 70);
    c.out = c.groups > 1 ? 2 * c.block : kernel_pick(index, 4, 1, 70);
    c.kh = kernel_pick(index, 5, 1, 3), c.kw = kernel_pick(index, 6, 1, 4);
    c.sh = kernel_pick(index, 7, 1, 2), c.sw = kernel_pick(index, 8, 1, 2);
    c.dh = kernel_pick(index, 9, 1, 2), c.dw = kernel_pick(index, 10, 1, 2);
    for (uint32_t i = 0; i < 4; i++)
        c.pads[i] = kernel_pick(index, 11 + i, 0, 2);
    if (index % 5 == 0) {
        c.kh = c.kw = c.dh = c.dw = 1;
        c.pads[0] = c.pads[1] = c.pads[2] = c.pads[3] = 0;
    }
    if (index % 5 == 0 &&
        c.groups == 1) { /* a depth of several parts, pairs of panels and a rest */
        c.in = kernel_pick(index, 18, 1, 600), c.out = kernel_pick(index, 19, 1, 150);
    }
    if (index % 9 == 4) { /* a first layer */
        c.groups = 1, c.in = kernel_pick(index, 21, 1, 4);
        c.kh = kernel_pick(index, 22, 1, 7), c.kw = kernel_pick(index, 23, 1, 7);
    }
    c.height = (c.kh - 1) * c.dh + kernel_pick(index, 15, 1, 12);
    c.width = (c.kw - 1) * c.dw + kernel_pick(index, 16, 1, index % 7 == 0 ? 150 : 20);
    if (index % 6 == 5 || index % 6 == 2) { /* few outputs of rows that are long enough for tiles */
        c.groups = 1, c.out = kernel_pick(index, 20, 1, c.block / 2 - 1);
        c.in = kernel_pick(index, 18, 1, 70), c.width += 40;
    }
    return c;
}

/* Every third is what networks have: an odd kernel without dilation, as much padding as it needs.
 */
static conv_case pick_depthwise(uint32_t index) {
    conv_case c = {.block = index % 2 == 0 ? 8 : 16, .batch = kernel_pick(index, 0, 1, 2)};
    c.groups = kernel_pick(index, 2, 2, 40);
    c.in = c.out = 1;
    c.kh = kernel_pick(index, 5, 1, 7), c.kw = kernel_pick(index, 6, 1, 7);
    c.sh = kernel_pick(index, 7, 1, 3), c.sw = kernel_pick(index, 8, 1, 3);
    c.dh = c.dw = 1;
    for (uint32_t i = 0; i < 4; i++)
        c.pads[i] = kernel_pick(index, 11 + i, 0, (i % 2 == 0 ? c.kh : c.kw) + 1);
    if (index % 3 == 1) {
        c.dh = kernel_pick(index, 9, 1, 3), c.dw = kernel_pick(index, 10, 1, 3);
    } else if (index % 3 == 2) {
        c.kh = c.kw = 1 + 2 * kernel_pick(index, 9, 1, 3);
        c.sh = c.sw = kernel_pick(index, 10, 1, 2);
        c.pads[0] = c.pads[1] = c.pads[2] = c.pads[3] = c.kh / 2;
    }
    c.height = (c.kh - 1) * c.dh + kernel_pick(index, 15, 1, 12);
    c.width = (c.kw - 1) * c.dw + kernel_pick(index, 16, 1, index % 7 == 0 ? 150 : 30);
    if (index % 11 == 0) c.width = c.kw - 1; /* narrower than the kernel */
    if (c.width + c.pads[1] + c.pads[3] < (c.kw - 1) * c.dw + 1) c.width = (c.kw - 1) * c.dw + 1;
    return c;
}

static int write_attrs(const conv_case *c, uint32_t index, char *text, size_t bytes) {
    static const char *const activations[] = {
        "", " activation=relu", " activation=silu",
        " activation=clip activation_alpha=-0.5 activation_beta=0.75"};
    return snprintf(text, bytes,
                    "strides=[%d, %d] dilations=[%d, %d] pads=[%d, %d, %d, %d] groups=%d%s",
                    (int)c->sh, (int)c->sw, (int)c->dh, (int)c->dw, (int)c->pads[0],
                    (int)c->pads[1], (int)c->pads[2], (int)c->pads[3], (int)c->groups,
                    activations[kernel_pick(index, 17, 0, 3)]);
}

static int64_t window(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pads) {
    return (in + pads - (kernel - 1) * dilation - 1) / stride + 1;
}

/* A first layer, or groups that fill no panels. */
static bool is_taps(const conv_case *c) {
    if (c->groups == 1) return c->in < c->block;
    return c->in == c->out && c->in % (2 * c->block) != 0;
}

static const char *layout_of(const conv_case *c) {
    bool is_small = c->block == 8;
    if (c->groups > 1 && c->in == 1) return is_small ? "depthwise8" : "depthwise16";
    if (c->groups == 1 && 2 * c->out < c->block && c->in >= c->block)
        return is_small ? "channels8" : "channels16";
    if (is_taps(c)) return is_small ? "taps16" : "taps32";
    return is_small ? "panels8x16" : "panels16x32";
}

static void write_case(const conv_case *given, uint32_t index, char *text, uint32_t bytes) {
    conv_case c = *given;
    int b = (int)c.block;
    char attrs[256], x[96];
    bool is_first = c.groups == 1 && c.in < c.block;
    const char *layout = layout_of(&c);
    int64_t oh = window(c.height, c.kh, c.sh, c.dh, c.pads[0] + c.pads[2]);
    int64_t ow = window(c.width, c.kw, c.sw, c.dw, c.pads[1] + c.pads[3]);
    int blocks = (int)((c.in * c.groups + b - 1) / b);
    int out_blocks = (int)((c.out * c.groups + b - 1) / b);
    (void)write_attrs(&c, index, attrs, sizeof attrs);
    if (is_first || (index % 3 == 0 && (c.groups == 1 || c.in > 1))) {
        (void)snprintf(x, sizeof x, "f32[%d, %d, %d, %d]", (int)c.batch, (int)(c.in * c.groups),
                       (int)c.height, (int)c.width);
    } else {
        (void)snprintf(x, sizeof x, "f32[%d, %d, %d, %d, %d]", (int)c.batch, blocks, (int)c.height,
                       (int)c.width, b);
    }
    (void)snprintf(text, bytes,
                   "rlx 1\ninput x : %s\ninput w : f32[%d, %d, %d, %d]\ninput b : f32[%d]\n"
                   "input r : f32[%d, %d, %d, %d, %d]\np = pack(w) layout=%s\n"
                   "y = conv(x, p, %s, %s) %s channel_block=%d\noutput y\n",
                   x, (int)(c.out * c.groups), (int)c.in, (int)c.kh, (int)c.kw,
                   (int)(c.out * c.groups), (int)c.batch, out_blocks, (int)oh, (int)ow, b, layout,
                   index % 4 == 1 ? "_" : "b", index % 4 < 2 ? "_" : "r", attrs, b);
}

/* Groups of 2 channels, of half a block, of a block and of three. */
static void write_narrow(uint32_t index, char *text, uint32_t bytes) {
    conv_case c = pick_case(index);
    const int64_t sizes[] = {2, c.block / 2, c.block, 3 * c.block}, n = sizes[index / 2 % 4];
    c.in = c.out = n;
    c.groups = (n < c.block ? c.block / n : 2) * kernel_pick(index, 24, 1, 3);
    write_case(&c, index, text, bytes);
}

enum { BLOCKED_CASES = 120, NARROW_CASES = 96 };
static void write_blocked(uint32_t index, char *text, uint32_t bytes) {
    if (index >= BLOCKED_CASES) {
        write_narrow(index, text, bytes);
        return;
    }
    conv_case c = pick_case(index);
    if (index % 4 == 3 && c.groups == 1) c.out = kernel_pick(index, 4, 0, c.block / 2 - 1);
    write_case(&c, index, text, bytes);
}

enum { DEPTHWISE_CASES = 240, STRAY_CASES = 16, JOINED_CASES = 72 };

/* 3 x 3 of stride 1 whose rows go by several at once: every number of rows that is left over, from
 * the narrowest on, without residuals. */
static void write_joined(uint32_t index, char *text, uint32_t bytes) {
    conv_case c = {.block = index % 2 == 0 ? 8 : 16, .batch = 1 + index % 3 / 2};
    c.groups = c.block * kernel_pick(index, 0, 1, 3) - index % 5;
    c.in = c.out = c.sh = c.sw = c.dh = c.dw = 1;
    c.kh = c.kw = 3;
    c.pads[0] = c.pads[1] = c.pads[2] = c.pads[3] = 1;
    c.height = 1 + index / 2 % 9;
    c.width = index % 3 == 0 ? kernel_pick(index, 1, 1, 4) : kernel_pick(index, 1, 5, 30);
    write_case(&c, 4 * index + index % 2, text, bytes);
}

/* 3 x 3 with infinities and NaN here and there: logarithms of zeros. */
static void write_stray(uint32_t index, char *text, uint32_t bytes) {
    static const char *const activations[] = {"", " activation=relu", " activation=silu"};
    int b = index % 2 == 0 ? 8 : 16, groups = b * (int)kernel_pick(index, 0, 1, 2);
    char x[96];
    (void)snprintf(x, sizeof x, "f32[1, %d, %d, %d, %d]", groups / b,
                   (int)kernel_pick(index, 1, 3, 12), (int)kernel_pick(index, 2, 3, 20), b);
    (void)snprintf(text, bytes,
                   "rlx 1\ninput s : %s\ninput t : %s\ninput u : %s\ninput v : %s\n"
                   "input w : f32[%d, 1, 3, 3]\ninput b : f32[%d]\n"
                   "m = max(s, t)\nn = max(u, v)\no = max(m, n)\nk = relu(o)\nx = log(k)\n"
                   "p = pack(w) layout=depthwise%d\n"
                   "y = conv(x, p, b) pads=[1, 1, 1, 1] groups=%d channel_block=%d%s\noutput y\n",
                   x, x, x, x, groups, groups, b, groups, b,
                   activations[kernel_pick(index, 3, 0, 2)]);
}

static void write_depthwise(uint32_t index, char *text, uint32_t bytes) {
    if (index >= DEPTHWISE_CASES + STRAY_CASES) {
        write_joined(index, text, bytes);
        return;
    }
    if (index >= DEPTHWISE_CASES) {
        write_stray(index, text, bytes);
        return;
    }
    conv_case c = pick_depthwise(index);
    write_case(&c, index, text, bytes);
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[1, 8, 56, 56, 8]\ninput w : f32[64, 64, 3, 3]\np = pack(w) "
    "layout=panels8x16\ny = conv(x, p) pads=[1, 1, 1, 1] channel_block=8\noutput y\n",
    NULL,
};

const kernel_family kernel_conv = {"conv", 1e-4, BLOCKED_CASES + NARROW_CASES, write_blocked,
                                   timed};

static const char *const timed_depthwise[] = {
    "rlx 1\ninput x : f32[1, 8, 112, 112, 8]\ninput w : f32[64, 1, 3, 3]\np = pack(w) "
    "layout=depthwise8\ny = conv(x, p) pads=[1, 1, 1, 1] groups=64 channel_block=8\noutput y\n",
    "rlx 1\ninput x : f32[1, 64, 14, 14, 8]\ninput w : f32[512, 1, 3, 3]\np = pack(w) "
    "layout=depthwise8\ny = conv(x, p) pads=[1, 1, 1, 1] groups=512 channel_block=8\noutput y\n",
    NULL,
};

const kernel_family kernel_depthwise = {"depthwise", 1e-4,
                                        DEPTHWISE_CASES + STRAY_CASES + JOINED_CASES,
                                        write_depthwise, timed_depthwise};

/* conv_quantised: dense, grouped, first layers and depthwise in turns; weights of 9 bits, of 7 and
 * 6 that mostly are the largest, and some that have a few larger ones; every kind of output, with
 * and without scale, bias, zero point and residual. */
static void write_int8(uint32_t index, char *text, uint32_t bytes) {
    static const char *const to[] = {"u8", "i8", "f32", "i32"};
    static const char *const layouts[2][3] = {{"panels8x16x2", "taps16x2", "depthwise8"},
                                              {"panels16x32x2", "taps32x2", "depthwise16"}};
    conv_case c = index % 3 == 2 ? pick_depthwise(index) : pick_case(index);
    const char *x_dtype = index % 4 < 2 ? "u8" : "i8";
    static const int weights[] = {155, 64, 32, 68, 80};
    int kind = (int)kernel_pick(index, 20, 0, 3), b = (int)c.block;
    int most_weight = weights[kernel_pick(index, 23, 0, 4)];
    bool is_first = c.groups == 1 && c.in<c.block, is_depthwise = c.groups> 1 && c.in == 1;
    bool has_residual = kind != 3 && kernel_pick(index, 21, 0, 1) == 1;
    int out_blocks = (int)((c.out * c.groups + b - 1) / b),
        zero = (int)kernel_pick(index, 22, 3, 40);
    char x[96], attrs[256], last[192];
    int least = kind == 0 ? -zero : -128 - zero, most = kind == 0 ? 255 - zero : 127 - zero;
    (void)snprintf(attrs, sizeof attrs,
                   "strides=[%d, %d] dilations=[%d, %d] pads=[%d, %d, %d, %d] groups=%d", (int)c.sh,
                   (int)c.sw, (int)c.dh, (int)c.dw, (int)c.pads[0], (int)c.pads[1], (int)c.pads[2],
                   (int)c.pads[3], (int)c.groups);
    if (is_first) {
        (void)snprintf(x, sizeof x, "%s[%d, %d, %d, %d]", x_dtype, (int)c.batch, (int)c.in,
                       (int)c.height, (int)c.width);
    } else {
        (void)snprintf(x, sizeof x, "%s[%d, %d, %d, %d, %d]", x_dtype, (int)c.batch,
                       (int)((c.in * c.groups + b - 1) / b), (int)c.height, (int)c.width, b);
    }
    (void)snprintf(last, sizeof last, "least=%d most=%d y_zero=%d%s", least, most, zero,
                   has_residual ? " inner_scale=0.5 residual_scale=0.25 y_scale=0.375 "
                                  "residual_zero=3 y_least=-3 y_most=20"
                                : "");
    (void)snprintf(
        text, bytes,
        "rlx 1\ninput x : %s\ninput w8 : u8[%d, %d, %d, %d]\ninput s : f32[%d]\ninput b : f32[%d]\n"
        "input z : %s[]\ninput r : %s[%d, %d, %d, %d, %d]\nconst k : i16[] = -100\n"
        "const m : i16[] = %d\nconst u : i16[] = %d\nconst l : i16[] = %d\n"
        "const h : f32[] = 0.001\nt = mul(s, h)\nw16 = cast(w8) to=i16\nw9 = add(w16, k)\n"
        "wm = mul(w9, m)\nwu = min(wm, u)\nw = max(wu, l)\np = pack(w) layout=%s\n"
        "y = conv_quantised(x, p, %s, %s, %s, %s) %s channel_block=%d to=%s %s\noutput y\n",
        x, (int)(c.out * c.groups), (int)c.in, (int)c.kh, (int)c.kw, (int)(c.out * c.groups),
        (int)(c.out * c.groups), x_dtype, index % 5 < 2 ? "u8" : "i8", (int)c.batch, out_blocks,
        (int)window(c.height, c.kh, c.sh, c.dh, c.pads[0] + c.pads[2]),
        (int)window(c.width, c.kw, c.sw, c.dw, c.pads[1] + c.pads[3]), b, most_weight < 80 ? 4 : 1,
        most_weight, -most_weight,
        layouts[b == 16][is_depthwise ? 2
                         : is_first   ? 1
                                      : 0],
        index % 7 == 3 ? "h" : "t", index % 4 == 1 ? "_" : "b", index % 6 == 0 ? "_" : "z",
        has_residual ? "r" : "_", attrs, b, to[kind], last);
}

static const char *const timed_int8[] = {
    "rlx 1\ninput x : u8[1, 4, 56, 56, 8]\ninput w : i16[128, 32, 3, 3]\np = pack(w) "
    "layout=panels8x16x2\ny = conv_quantised(x, p) pads=[1, 1, 1, 1] channel_block=8 to=u8 "
    "most=255\noutput y\n",
    "rlx 1\ninput x : u8[1, 16, 56, 56, 8]\ninput w : i16[32, 128, 1, 1]\np = pack(w) "
    "layout=panels8x16x2\ny = conv_quantised(x, p) channel_block=8 to=u8 most=255\noutput y\n",
    "rlx 1\ninput x : u8[1, 8, 112, 112, 8]\ninput w : i16[64, 1, 3, 3]\np = pack(w) "
    "layout=depthwise8\ny = conv_quantised(x, p) pads=[1, 1, 1, 1] groups=64 channel_block=8 to=u8 "
    "most=255\noutput y\n",
    NULL,
};

const kernel_family kernel_conv_int8 = {"conv_int8", 0, 90, write_int8, timed_int8};

/* Channels in planes: one to three spatial axes, groups of any size, depthwise with one or several
 * outputs per channel, positions that fill no tile, depths of several parts. */
static void write_planes(uint32_t index, char *text, uint32_t bytes) {
    static const char turn[] = "t = slice(w) starts=[-1, -1] ends=[-9999, -9999] axes=[2, 3] "
                               "steps=[-1, -1]\n"; /* as of a transposed conv */
    conv_case c = index % 3 == 2 ? pick_depthwise(index) : pick_case(index);
    char attrs[256];
    int64_t per_input = 1;
    bool is_turned = index % 12 == 8 || index % 12 == 7;
    if (index % 3 == 2) {
        per_input = kernel_pick(index, 20, 1, 2);
        c.width += index % 5 == 0 ? 90 : 0;
        if (index % 9 == 8) { /* more padding between two rows than a vector has */
            c.dh = 2, c.dw = 11;
            c.pads[0] = c.pads[2] = c.kh / 2 * c.dh;
            c.pads[1] = c.pads[3] = c.kw / 2 * c.dw;
        }
    } else {
        c.groups = kernel_pick(index, 20, 1, 4);
        c.in = kernel_pick(index, 21, 1, index % 7 == 0 ? 400 : 40);
        c.out = kernel_pick(index, 22, 1, 27);
    }
    if (index % 4 == 0) { /* one tap, all inputs */
        c.kh = c.kw = c.sh = c.sw = 1;
        c.pads[0] = c.pads[1] = c.pads[2] = c.pads[3] = 0;
    }
    if (index % 16 == 4) c.height = 32, c.width = 16 * kernel_pick(index, 23, 1, 3); /* far apart */
    (void)write_attrs(&c, index, attrs, sizeof attrs);
    int oh = (int)window(c.height, c.kh, c.sh, c.dh, c.pads[0] + c.pads[2]);
    int ow = (int)window(c.width, c.kw, c.sw, c.dw, c.pads[1] + c.pads[3]);
    int in = (int)(c.in * c.groups), out = (int)(c.out * c.groups * per_input);
    (void)snprintf(text, bytes,
                   "rlx 1\ninput x : f32[%d, %d, %d, %d]\ninput w : f32[%d, %d, %d, %d]\n"
                   "input b : f32[%d]\ninput r : f32[%d, %d, %d, %d]\n"
                   "%sy = conv(x, %s, %s, %s) %s\noutput y\n",
                   (int)c.batch, in, (int)c.height, (int)c.width, out, (int)c.in, (int)c.kh,
                   (int)c.kw, out, (int)c.batch, out, oh, ow, is_turned ? turn : "",
                   is_turned ? "t" : "w", index % 4 == 1 ? "_" : "b", index % 5 < 3 ? "_" : "r",
                   attrs);
}

/* Three axes, and inputs whose channels lie side by side. */
static void write_volume(uint32_t index, char *text, uint32_t bytes) {
    int groups = (int)kernel_pick(index, 0, 1, 3), in = (int)kernel_pick(index, 1, 1, 9);
    int out = (int)kernel_pick(index, 2, 1, 9), k = (int)kernel_pick(index, 3, 1, 3);
    int pad = (int)kernel_pick(index, 4, 0, 1), stride = (int)kernel_pick(index, 5, 1, 2);
    int d = (int)kernel_pick(index, 6, 3, 6), h = (int)kernel_pick(index, 7, 3, 9);
    int w = (int)kernel_pick(index, 8, 3, 40);
    if (index % 2 == 0) {
        (void)snprintf(text, bytes,
                       "rlx 1\ninput x : f32[2, %d, %d, %d, %d]\ninput w : f32[%d, %d, %d, 3, %d]\n"
                       "y = conv(x, w) groups=%d strides=[%d, 1, %d] pads=[%d, 1, 0, %d, 0, %d]\n"
                       "output y\n",
                       in * groups, d, h, w, out * groups, in, k, k, groups, stride, stride, pad,
                       pad, pad);
        return;
    }
    (void)snprintf(text, bytes,
                   "rlx 1\ninput x : f32[2, %d, %d, %d]\ninput w : f32[%d, %d, %d, %d]\n"
                   "t = transpose(x) perm=[0, 3, 1, 2]\ny = conv(t, w) groups=%d strides=[%d, %d] "
                   "pads=[%d, %d, %d, %d]\noutput y\n",
                   h, w, in * groups, out * groups, in, k, k, groups, stride, stride, pad, pad, pad,
                   pad);
}

static void write_plane_or_volume(uint32_t index, char *text, uint32_t bytes) {
    (index % 6 == 5 ? write_volume : write_planes)(index, text, bytes);
}

static const char *const timed_planes[] = {
    "rlx 1\ninput x : f32[1, 272, 28, 28]\ninput w : f32[68, 68, 1, 1]\n"
    "y = conv(x, w) groups=4\noutput y\n",
    "rlx 1\ninput x : f32[1, 136, 14, 14]\ninput w : f32[544, 34, 1, 1]\n"
    "y = conv(x, w) groups=4\noutput y\n",
    "rlx 1\ninput x : f32[1, 64, 28, 28]\ninput w : f32[64, 1, 3, 3]\n"
    "y = conv(x, w) groups=64 pads=[1, 1, 1, 1]\noutput y\n",
    NULL,
};

const kernel_family kernel_conv_planes = {"conv_planes", 1e-4, 180, write_plane_or_volume,
                                          timed_planes};
