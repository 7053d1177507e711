/* SPDX-License-Identifier: Apache-2.0 */
/* Chains and single ops over broadcast operands, all dtypes with loops of their own; casts; chains
 * of integers, which may fault. Results of floats are not compared in the chain: a last bit would
 * turn a truth. */
#include "kernels/families.h"

#include <stdio.h>
#include <string.h>

static const char *pick_name(const char *const *names, uint32_t count, uint32_t index,
                             uint32_t what) {
    return names[kernel_pick(index, what, 0, count - 1)];
}

/* The shape of an operand that broadcasts to [a, b, c]. */
static void write_shape(char *text, uint32_t bytes, int kind, int a, int b, int c) {
    switch (kind) {
    case 0:
        (void)snprintf(text, bytes, "[%d, %d, %d]", a, b, c);
        break;
    case 1:
        (void)snprintf(text, bytes, "[%d]", c);
        break;
    case 2:
        (void)snprintf(text, bytes, "[%d, 1]", b);
        break;
    case 3:
        (void)snprintf(text, bytes, "[%d, 1, %d]", a, c);
        break;
    default:
        (void)snprintf(text, bytes, "[]");
    }
}

static void write_inputs(uint32_t index, const char *dtype, char *text, uint32_t bytes) {
    int a = (int)kernel_pick(index, 0, 1, 4), b = (int)kernel_pick(index, 1, 1, 9);
    int c = (int)kernel_pick(index, 2, 1, 70);
    char y[64], z[64];
    if (index % 8 == 1) c = (int)kernel_pick(index, 3, 500, 1700);
    if (index % 8 == 3) { /* more rows than a tile holds, as beside channels in blocks */
        b = (int)kernel_pick(index, 3, 100, 400);
        c = index % 16 == 3 ? 8 : (int)kernel_pick(index, 6, 5, 20);
    }
    if (index % 16 == 7) a = 0;
    if (index % 8 == 5 ||
        index % 8 == 6) { /* columns where others have rows: short ones and long */
        b = (int)kernel_pick(index, 3, 1, 90);
        c = (int)kernel_pick(index, 6, 2, index % 16 < 8 ? 300 : 40);
        (void)snprintf(text, bytes,
                       "rlx 1\ninput x : %s[%d, %d, %d]\ninput turned : %s[%d, %d, %d]\n"
                       "y = transpose(turned) perm=[0, 2, 1]\ninput also : %s[%d, %d]\n"
                       "z = transpose(also) perm=[1, 0]\n",
                       dtype, a, b, c, dtype, a, c, b, dtype, c, b);
        return;
    }
    write_shape(y, sizeof y, (int)kernel_pick(index, 4, 0, 4), a, b, c);
    write_shape(z, sizeof z, (int)kernel_pick(index, 5, 0, 4), a, b, c);
    (void)snprintf(text, bytes, "rlx 1\ninput x : %s[%d, %d, %d]\ninput y : %s%s\ninput z : %s%s\n",
                   dtype, a, b, c, dtype, y, dtype, z);
}

static void write_floats(uint32_t index, char *text, uint32_t bytes) {
    static const char *const dtypes[] = {"f32", "f32", "f16", "bf16", "f64"};
    static const char *const unary[] = {"sigmoid", "tanh",   "relu",      "abs",  "silu", "gelu",
                                        "floor",   "square", "gelu_tanh", "mish", "erf",  "neg"};
    static const char *const binary[] = {"add", "mul", "sub", "min", "max", "prelu"};
    const char *rest = index % 8 < 4 ? "mod" : "fmod";
    const char *t = pick_name(dtypes, 5, index, 10);
    write_inputs(index, t, text, bytes);
    size_t at = strlen(text);
    (void)snprintf(text + at, bytes - at,
                   "r = chain(x, y, z) code=[%s mul($0, $1), %s %s(%%0, $2), %s %s(%%1), "
                   "%s %s(%%2, $0), bool less($0, $1), %s where(%%4, %%3, $2), "
                   "%s clip(%%5) alpha=-1.7 beta=2.3, %s add(%%6, $2)]\n"
                   "s = less_equal(x, y)\nu = %s(x, y)\nv = %s(z)\nw = is_nan(x)\n"
                   "k = %s(x, y)\noutput r\noutput s\noutput u\noutput v\noutput w\noutput k\n",
                   t, t, pick_name(binary, 6, index, 11), t, pick_name(unary, 12, index, 12), t,
                   pick_name(binary, 6, index, 13), t, t, t, pick_name(binary, 6, index, 14),
                   pick_name(unary, 12, index, 15), rest);
}

static void write_integers(uint32_t index, char *text, uint32_t bytes) {
    static const char *const dtypes[] = {"i32", "i64", "u8", "i8", "i16", "u32"};
    static const char *const binary[] = {"add", "mul",     "sub",    "min",
                                         "max", "bit_and", "bit_or", "bit_xor"};
    const char *t = pick_name(dtypes, 6, index, 10);
    write_inputs(index, t, text, bytes);
    size_t at = strlen(text);
    (void)snprintf(text + at, bytes - at,
                   "r = chain(x, y, z) code=[%s %s($0, $1), %s %s(%%0, $2), bool less(%%1, $0), "
                   "bool not(%%2), %s where(%%3, %%1, $1), %s clip(%%4) alpha=-3 beta=99.5, "
                   "bool equal(%%5, $2), bool xor(%%6, %%2), %s cast(%%7), %s add(%%8, %%5)]\n"
                   "s = div(x, y)\nu = %s(x, z)\noutput r\noutput s\noutput u\n",
                   t, pick_name(binary, 8, index, 11), t, pick_name(binary, 8, index, 12), t, t, t,
                   t, pick_name(binary, 8, index, 13));
}

static void write_casts(uint32_t index, char *text, uint32_t bytes) {
    static const char *const dtypes[] = {"f32", "f16", "bf16", "f64", "i8",  "u8",
                                         "i32", "i64", "bool", "u16", "i16", "f8e4m3fn"};
    static const char *const targets[] = {"f32", "f16", "bf16", "f64", "i8",  "u8",
                                          "i32", "i64", "bool", "u32", "i16", "f8e5m2"};
    const char *from = pick_name(dtypes, 12, index, 10), *to = pick_name(targets, 12, index, 11);
    write_inputs(index, "f32", text, bytes);
    size_t at = strlen(text);
    (void)snprintf(text + at, bytes - at,
                   "const k : f32[] = %d\nm = mul(x, k)\nd = div(m, z)\nf = cast(d) to=%s\n"
                   "t = cast(f) to=%s\n"
                   "q = chain(x, y) code=[f32 div($0, $1), f32 round(%%0), "
                   "f32 clip(%%1) alpha=-128 beta=127, i8 cast(%%2), f32 cast(%%3), "
                   "f32 mul(%%4, $1)]\noutput f\noutput t\noutput q\n",
                   index % 3 == 0 ? 3 : 3000, from, to);
}

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    switch (index % 4) {
    case 0:
        write_integers(index, text, bytes);
        break;
    case 1:
        write_casts(index, text, bytes);
        break;
    default:
        write_floats(index, text, bytes);
    }
}

#define LARGE "rlx 1\ninput x : f32[4096, 4096]\ninput s : f32[4096]\ninput r : f32[4096, 4096]\n"
static const char *const timed[] = {
    LARGE "y = add(x, r)\noutput y\n",
    LARGE "y = chain(x, s, r) code=[f32 mul($0, $1), f32 add(%0, $1), f32 sigmoid(%1), "
          "f32 mul(%2, $0), f32 clip(%3) alpha=-1 beta=1, f32 add(%4, $2)]\noutput y\n",
    "rlx 1\ninput x : f32[64, 1024]\na = exp(x)\nb = sigmoid(x)\nc = tanh(x)\nd = gelu(x)\n"
    "e = gelu_tanh(x)\nf = silu(x)\ng = erf(x)\nh = log(a)\ni = sin(x)\nj = cos(x)\nk = pow(a, x)\n"
    "l = softplus(x)\nm = mish(x)\nn = add(x, a)\no = cast(x) to=f16\np = cast(o) to=f32\n"
    "q = cast(x) to=i8\nt = cast(q) to=f32\nu = less(x, a)\nv = where(u, x, a)\nw = elu(x) "
    "alpha=1\n"
    "z = tan(x)\noutput b\noutput c\noutput d\noutput e\noutput f\noutput g\noutput h\noutput i\n"
    "output j\noutput k\noutput l\noutput m\noutput n\noutput p\noutput t\noutput v\noutput w\n"
    "output z\n",
    NULL,
};

const kernel_family kernel_elementwise = {"elementwise", 3e-6, 240, write_case, timed};
