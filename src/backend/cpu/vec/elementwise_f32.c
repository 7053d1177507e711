/* SPDX-License-Identifier: Apache-2.0 */
/* Ops on cells of f32: every link is one function of vec_unary.h or one line here. A link does
 * eight vectors and hands them to the next link in registers. */
#include "backend/cpu/vec/elementwise.h"
#include "backend/cpu/vec/vec_pow.h"
#include "backend/cpu/vec/vec_unary.h"

#include <math.h>

#define VALUES vf a, vf b, vf c, vf d, vf e, vf f, vf g, vf h
/* M(value, its number) for each vector of a block. */
#define EACH(M)    M(a, 0) M(b, 1) M(c, 2) M(d, 3) M(e, 4) M(f, 5) M(g, 6) M(h, 7)
#define LINK(name) static void name(const vec_link *link, int64_t at, VALUES)
/* To the next link. Told that the address may be any, gcc takes two instructions for it, not four:
 * a chain has one of these per op and block. */
#define PASS_ON               \
    link++;                   \
    __asm__("" : "+r"(link)); \
    link->run(link, at, a, b, c, d, e, f, g, h)

VEC_INLINE void *memory_at(const vec_link *link, int64_t at) {
    return link->memory + at * link->step;
}
VEC_INLINE float *floats_at(const vec_link *link, int64_t at) {
    return memory_at(link, at);
}

/* clang-format off */
/* Ops of a few instructions, on values where they are. */
#define CHEAP_OPS(OP)                                                                        \
    OP(IDENTITY) OP(ABS) OP(NEG) OP(FLOOR) OP(CEIL) OP(ROUND) OP(SQRT) OP(SQUARE) OP(RELU)   \
    OP(CLIP) OP(RECIPROCAL) OP(HARD_SWISH)
/* Functions of two parts: the argument reduced, the rest. */
#define LONG_OPS(OP)                                                                         \
    OP(EXP, exp, AS_IT_LIKES) OP(SIGMOID, sigmoid, IN_TURN) OP(TANH, tanh, AS_IT_LIKES)      \
    OP(SILU, silu, AS_IT_LIKES) OP(GELU, gelu, AS_IT_LIKES)                                  \
    OP(GELU_TANH, gelu_tanh, AS_IT_LIKES) OP(ERF, erf, IN_TURN)
/* The others go value by value. */
#define OTHER_OPS(OP)                                                                        \
    OP(SIGN) OP(RSQRT) OP(LOG) OP(SIN) OP(COS) OP(LEAKY_RELU) OP(ELU) OP(CELU) OP(SELU)      \
    OP(MISH) OP(HARD_SIGMOID) OP(SOFTPLUS) OP(SOFTSIGN) OP(THRESHOLDED_RELU)
/* clang-format on */

#define CHEAP(name)                                          \
    LINK(unary_##name) {                                     \
        const double alpha = link->alpha, beta = link->beta; \
        (void)alpha, (void)beta;                             \
        EACH(CHEAP_ONE_##name)                               \
        PASS_ON;                                             \
    }
#define ONE(name, x)                       x = vec_unary(RLX_OP_##name, x, alpha, beta);
#define CHEAP_ONE_IDENTITY(x, i)           ONE(IDENTITY, x)
#define CHEAP_ONE_ABS(x, i)                ONE(ABS, x)
#define CHEAP_ONE_NEG(x, i)                ONE(NEG, x)
#define CHEAP_ONE_FLOOR(x, i)              ONE(FLOOR, x)
#define CHEAP_ONE_CEIL(x, i)               ONE(CEIL, x)
#define CHEAP_ONE_ROUND(x, i)              ONE(ROUND, x)
#define CHEAP_ONE_SQRT(x, i)               ONE(SQRT, x)
#define CHEAP_ONE_SQUARE(x, i)             ONE(SQUARE, x)
#define CHEAP_ONE_RELU(x, i)               ONE(RELU, x)
#define CHEAP_ONE_CLIP(x, i)               ONE(CLIP, x)
#define CHEAP_ONE_RECIPROCAL(x, i)         ONE(RECIPROCAL, x)
#define CHEAP_ONE_HARD_SWISH(x, i)         ONE(HARD_SWISH, x)
#define CHEAP_ONE_LEAKY_SHORT(x, i)        x = vec_leaky_short(x, (float)alpha);
#define CHEAP_ONE_HARD_SIGMOID_SHORT(x, i) x = vec_hard_sigmoid_short(x, (float)alpha, (float)beta);
CHEAP_OPS(CHEAP)
/* Where the numbers of a step allow it. */
CHEAP(LEAKY_SHORT)
CHEAP(HARD_SIGMOID_SHORT)

/* What comes before this line is done before what comes after it, and powers rest in memory until
 * they are multiplied by. Left to itself gcc mixes the instructions of eight vectors, runs out of
 * registers and moves values to and fro. */
#if defined(__AVX2__) && RLX_VEC_BYTES == 32
#define IN_TURN(x, power) __asm__ volatile("" : "+x"(x), "+m"(power))
#else
#define IN_TURN(x, power) (void)0
#endif
#define AS_IT_LIKES(x, power) (void)0

/* In two loops. Instructions of one vector wait for each other, and the processor looks only so far
 * ahead: two loops of half the length keep twice as many vectors going. */
#define TO_ARRAY(value, i)   x[i] = value;
#define FROM_ARRAY(value, i) value = x[i];
/* The block in it is over before the next link is called: with memory in use that would be a call,
 * not a jump. */
#define LONG(name, function, order)                                               \
    LINK(unary_##name) {                                                          \
        vf x[8];                                                                  \
        EACH(TO_ARRAY);                                                           \
        {                                                                         \
            vf r[8], power[8];                                                    \
            VEC_UNROLLED for (int i = 0; i < 8; i++) {                            \
                vec_reduced z = vec_##function##_begin(x[i]);                     \
                r[i] = z.r, power[i] = z.power;                                   \
                order(r[i], power[i]);                                            \
            }                                                                     \
            VEC_UNROLLED for (int i = 0; i < 8; i++) {                            \
                x[i] = vec_##function##_end(x[i], (vec_reduced){r[i], power[i]}); \
                order(x[i], power[i]);                                            \
            }                                                                     \
        }                                                                         \
        EACH(FROM_ARRAY)                                                          \
        PASS_ON;                                                                  \
    }
LONG_OPS(LONG)
/* Shorter where the result has 16 bits. */
LONG(SILU_HALF, silu_half, IN_TURN)
LONG(GELU_TANH_HALF, gelu_tanh_half, IN_TURN)
#if RLX_VEC_BYTES == 64
/* Where divisions are quick. */
LONG(SIGMOID_QUOTIENT, sigmoid_quotient, IN_TURN)
#endif

#define OTHER(name)                                                                                \
    LINK(unary_##name) {                                                                           \
        const double alpha = link->alpha, beta = link->beta;                                       \
        vf x[8];                                                                                   \
        (void)alpha, (void)beta;                                                                   \
        EACH(TO_ARRAY)                                                                             \
        VEC_ROLLED for (int i = 0; i < 8; i++) x[i] = vec_unary(RLX_OP_##name, x[i], alpha, beta); \
        EACH(FROM_ARRAY)                                                                           \
        PASS_ON;                                                                                   \
    }
OTHER_OPS(OTHER)

VEC_INLINE vf add(vf x, vf y) {
    return x + y;
}
VEC_INLINE vf subtract(vf x, vf y) {
    return x - y;
}
VEC_INLINE vf multiply(vf x, vf y) {
    return x * y;
}
VEC_INLINE vf divide(vf x, vf y) {
    return x / y;
}
VEC_INLINE vf least(vf x, vf y) {
    return vf_select(x != x, x, vf_min(x, y));
}
VEC_INLINE vf most(vf x, vf y) {
    return vf_select(x != x, x, vf_max(x, y));
}
VEC_INLINE vf prelu(vf x, vf y) {
    return vf_select(x < 0.0f, x * y, x);
}
#define BINARY_OF(name, function, T, get) \
    LINK(binary_##name) {                 \
        const T *m = memory_at(link, at); \
        a = function(a, get(m));          \
        b = function(b, get(m + VF));     \
        c = function(c, get(m + 2 * VF)); \
        d = function(d, get(m + 3 * VF)); \
        e = function(e, get(m + 4 * VF)); \
        f = function(f, get(m + 5 * VF)); \
        g = function(g, get(m + 6 * VF)); \
        h = function(h, get(m + 7 * VF)); \
        PASS_ON;                          \
    }
#define BINARY(name, function) BINARY_OF(name, function, float, vf_load)
#define REVERSED(name, function)                    \
    VEC_INLINE vf reversed_##function(vf x, vf y) { \
        return function(y, x);                      \
    }                                               \
    BINARY(reversed_##name, reversed_##function)
BINARY(ADD, add)
BINARY(SUB, subtract)
BINARY(MUL, multiply)
BINARY(DIV, divide)
BINARY(MIN, least)
BINARY(MAX, most)
BINARY(PRELU, prelu)
REVERSED(SUB, subtract)
REVERSED(DIV, divide)

/* With one number for all of a span: read once per block. */
#define WITH_NUMBER(name, function)                                                     \
    LINK(number_##name) {                                                               \
        const vf m = vf_load(floats_at(link, 0));                                       \
        a = function(a, m), b = function(b, m), c = function(c, m), d = function(d, m); \
        e = function(e, m), f = function(f, m), g = function(g, m), h = function(h, m); \
        PASS_ON;                                                                        \
    }
WITH_NUMBER(ADD, add)
WITH_NUMBER(SUB, subtract)
WITH_NUMBER(MUL, multiply)

VEC_INLINE vf get_f16(const uint16_t *from) {
    return vf_of_f16(vh_load(from));
}
VEC_INLINE vf get_bf16(const uint16_t *from) {
    return vf_of_bf16(vh_load(from));
}
/* The ops that 16-bit models are made of read them where they are. */
BINARY_OF(ADD_F16, add, uint16_t, get_f16)
BINARY_OF(SUB_F16, subtract, uint16_t, get_f16)
BINARY_OF(MUL_F16, multiply, uint16_t, get_f16)
BINARY_OF(ADD_BF16, add, uint16_t, get_bf16)
BINARY_OF(SUB_BF16, subtract, uint16_t, get_bf16)
BINARY_OF(MUL_BF16, multiply, uint16_t, get_bf16)

LINK(binary_POW) {
    const float *m = floats_at(link, at);
    vf x[8];
    EACH(TO_ARRAY)
    VEC_ROLLED for (int i = 0; i < 8; i++) x[i] = vf_pow(x[i], vf_load(m + i * VF));
    EACH(FROM_ARRAY)
    PASS_ON;
}

/* The rest of |x| / |y|, exact: a quotient of less than 2^22 is off by one at most, and x - q y is
 * a number of f32. Other lanes go to scalar C. */
VEC_INLINE vf rest_of(vf x, vf y, vi *out_is_known) {
    vf ax = vf_abs(x), ay = vf_abs(y), quotient = ax / ay, q = vf_trunc(quotient);
    vf rest = vf_fnma(q, ay, ax);
    q -= vf_select(rest < 0.0f, vf_set(1.0f), vf_set(0.0f));
    q += vf_select(rest >= ay, vf_set(1.0f), vf_set(0.0f));
    *out_is_known = (quotient < 0x1p22f) & (ay < VEC_INFINITY);
    return vf_copysign(vf_fnma(q, ay, ax), x);
}
static __attribute__((noinline)) void slow_rests(float *x, const float *y) {
    for (int i = 0; i < VF; i++)
        x[i] = fmodf(x[i], y[i]);
}
VEC_INLINE vf remainder_of(vf x, const float *divisors, bool is_floored) {
    vi is_known;
    vf y = vf_load(divisors), rest = rest_of(x, y, &is_known);
    if (__builtin_expect(!vi_all(is_known), 0)) {
        vec_parts all = {x};
        slow_rests(all.f, divisors);
        rest = all.v;
    }
    if (!is_floored) return rest;
    vi is_other = (rest < 0.0f) ^ (y < 0.0f);
    return vf_select(rest == 0.0f, vf_copysign(rest, y), vf_select(is_other, rest + y, rest));
}
#define REMAINDER(name, is_floored)                                                               \
    LINK(binary_##name) {                                                                         \
        const float *m = floats_at(link, at);                                                     \
        vf x[8];                                                                                  \
        EACH(TO_ARRAY)                                                                            \
        VEC_ROLLED for (int i = 0; i < 8; i++) x[i] = remainder_of(x[i], m + i * VF, is_floored); \
        EACH(FROM_ARRAY)                                                                          \
        PASS_ON;                                                                                  \
    }
REMAINDER(MOD, true)
REMAINDER(FMOD, false)

/* A shorter link for the same op, where there is one. */
static vec_link_run short_link(const vec_step *step) {
    bool is_half = step->dtype == RLX_DTYPE_F16 || step->dtype == RLX_DTYPE_BF16;
    switch (step->op) {
#if RLX_VEC_BYTES == 64
    case RLX_OP_SIGMOID:
        return vec_is_intel() ? NULL : unary_SIGMOID_QUOTIENT;
#endif
    case RLX_OP_SILU:
        return is_half ? unary_SILU_HALF : NULL;
    case RLX_OP_GELU_TANH:
        return is_half ? unary_GELU_TANH_HALF : NULL;
    case RLX_OP_LEAKY_RELU:
        return vec_leaky_is_short(step->alpha) ? unary_LEAKY_SHORT : NULL;
    case RLX_OP_HARD_SIGMOID:
        return vec_hard_sigmoid_is_short(step->alpha, step->beta) ? unary_HARD_SIGMOID_SHORT : NULL;
    default:
        return NULL;
    }
}

vec_link_run vec_link_of_unary(const vec_step *step) {
    vec_link_run quick = short_link(step);
    if (quick != NULL) return quick;
    switch (step->op) {
#define OP(name)        \
    case RLX_OP_##name: \
        return unary_##name;
        CHEAP_OPS(OP)
        OTHER_OPS(OP)
#undef OP
#define OP(name, function, order) \
    case RLX_OP_##name:           \
        return unary_##name;
        LONG_OPS(OP)
#undef OP
    default:
        return NULL;
    }
}

vec_link_run vec_link_of_binary(rlx_op op, bool is_reversed) {
    switch (op) {
    case RLX_OP_ADD:
        return binary_ADD;
    case RLX_OP_MUL:
        return binary_MUL;
    case RLX_OP_SUB:
        return is_reversed ? binary_reversed_SUB : binary_SUB;
    case RLX_OP_DIV:
        return is_reversed ? binary_reversed_DIV : binary_DIV;
    case RLX_OP_MIN:
        return is_reversed ? NULL : binary_MIN;
    case RLX_OP_MAX:
        return is_reversed ? NULL : binary_MAX;
    case RLX_OP_PRELU:
        return is_reversed ? NULL : binary_PRELU;
    case RLX_OP_POW:
        return is_reversed ? NULL : binary_POW;
    case RLX_OP_MOD:
        return is_reversed ? NULL : binary_MOD;
    case RLX_OP_FMOD:
        return is_reversed ? NULL : binary_FMOD;
    default:
        return NULL;
    }
}

vec_link_run vec_link_of_number(rlx_op op, bool is_reversed) {
    if (op == RLX_OP_ADD) return number_ADD;
    if (op == RLX_OP_MUL) return number_MUL;
    return op == RLX_OP_SUB && !is_reversed ? number_SUB : vec_link_of_binary(op, is_reversed);
}

vec_link_run vec_link_of_half(rlx_op op, bool is_reversed, rlx_dtype dtype) {
    bool is_f16 = dtype == RLX_DTYPE_F16;
    if (!is_f16 && dtype != RLX_DTYPE_BF16) return NULL;
    if (op == RLX_OP_ADD) return is_f16 ? binary_ADD_F16 : binary_ADD_BF16;
    if (op == RLX_OP_MUL) return is_f16 ? binary_MUL_F16 : binary_MUL_BF16;
    if (op != RLX_OP_SUB || is_reversed) return NULL;
    return is_f16 ? binary_SUB_F16 : binary_SUB_BF16;
}

typedef int8_t small __attribute__((vector_size(VF)));
typedef uint8_t small_unsigned __attribute__((vector_size(VF)));
/* gcc takes bytes apart one by one if it is not told. */
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
VEC_INLINE vf vf_of_i8(const int8_t *from) {
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)from);
    return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x));
}
VEC_INLINE vf vf_of_u8(const uint8_t *from) {
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)from);
    return (vf)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(x));
}
#elif defined(__AVX2__) && RLX_VEC_BYTES == 32
VEC_INLINE vf vf_of_i8(const int8_t *from) {
    __m128i x = _mm_loadl_epi64((const __m128i *)(const void *)from);
    return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x));
}
VEC_INLINE vf vf_of_u8(const uint8_t *from) {
    __m128i x = _mm_loadl_epi64((const __m128i *)(const void *)from);
    return (vf)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(x));
}
#else
VEC_INLINE vf vf_of_i8(const int8_t *from) {
    small x;
    memcpy(&x, from, sizeof x);
    return __builtin_convertvector(x, vf);
}
VEC_INLINE vf vf_of_u8(const uint8_t *from) {
    small_unsigned x;
    memcpy(&x, from, sizeof x);
    return __builtin_convertvector(x, vf);
}
#endif
/* Memory to the value. */
#define LOAD(name, T, get)                                                                  \
    LINK(load_##name) {                                                                     \
        const T *m = memory_at(link, at);                                                   \
        (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;             \
        a = get(m), b = get(m + VF), c = get(m + 2 * VF), d = get(m + 3 * VF);              \
        e = get(m + 4 * VF), f = get(m + 5 * VF), g = get(m + 6 * VF), h = get(m + 7 * VF); \
        PASS_ON;                                                                            \
    }
LOAD(F32, float, vf_load)
LOAD(F16, uint16_t, get_f16)
LOAD(BF16, uint16_t, get_bf16)
LOAD(I8, int8_t, vf_of_i8)
LOAD(U8, uint8_t, vf_of_u8)

vec_link_run vec_link_of_load(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F32    ? load_F32
           : dtype == RLX_DTYPE_F16  ? load_F16
           : dtype == RLX_DTYPE_BF16 ? load_BF16
           : dtype == RLX_DTYPE_I8   ? load_I8
           : dtype == RLX_DTYPE_U8   ? load_U8
                                     : NULL;
}

/* 16-bit memory to a block of f32, whose address is the next link's memory. */
#define WIDEN(name, convert)                                     \
    LINK(widen_##name) {                                         \
        const uint16_t *m = memory_at(link, at);                 \
        float *to = (float *)(void *)link[1].memory;             \
        for (int i = 0; i < 8; i++)                              \
            vf_store(to + i * VF, convert(vh_load(m + i * VF))); \
        link[2].run(link + 2, at, a, b, c, d, e, f, g, h);       \
    }
WIDEN(F16, vf_of_f16)
WIDEN(BF16, vf_of_bf16)

vec_link_run vec_link_of_widen(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F16 ? widen_F16 : widen_BF16;
}

#define ROUND_F16(x, i)  x = vf_of_f16(f16_of_vf(x));
#define ROUND_BF16(x, i) x = (vf)(bf16_rounded(x) & 0xffff0000u);
#define HARMLESS(x, i)   x = bf16_harmless(x);
/* NaN is rare: one question for a block. */
#define TAME_BF16                                                              \
    if (__builtin_expect(!vi_all(vf_are_numbers(a, b) & vf_are_numbers(c, d) & \
                                 vf_are_numbers(e, f) & vf_are_numbers(g, h)), \
                         0)) {                                                 \
        EACH(HARMLESS)                                                         \
    }
LINK(round_F16) {
    EACH(ROUND_F16)
    PASS_ON;
}
LINK(round_BF16) {
    TAME_BF16
    EACH(ROUND_BF16)
    PASS_ON;
}
#define ROUND_I8(x, i) x = vf_of(vec_cut(x, -128.0f, 127.0f));
#define ROUND_U8(x, i) x = vf_of(vec_cut(x, 0.0f, 255.0f));
LINK(round_I8) {
    EACH(ROUND_I8)
    PASS_ON;
}
LINK(round_U8) {
    EACH(ROUND_U8)
    PASS_ON;
}

vec_link_run vec_link_of_round(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F16    ? round_F16
           : dtype == RLX_DTYPE_BF16 ? round_BF16
           : dtype == RLX_DTYPE_I8   ? round_I8
                                     : round_U8;
}

#define PUT(x, i)    vf_store(m + i * VF, x);
#define STREAM(x, i) vf_stream(m + i * VF, x);
LINK(keep) {
    float *m = floats_at(link, at);
    EACH(PUT)
    PASS_ON;
}

vec_link_run vec_link_of_keep(void) {
    return keep;
}

/* A block of f32 has eight lines, one of bytes two. */
#define FETCH(bytes)                                                              \
    LINK(fetch_##bytes) {                                                         \
        const char *m = link->memory + at * (bytes);                              \
        VEC_UNROLLED for (int i = 0; i < 256 && i < VEC_BLOCK * (bytes); i += 64) \
            __builtin_prefetch(m + i, 0, 3);                                      \
        PASS_ON;                                                                  \
    }
FETCH(1)
FETCH(2)
FETCH(4)
vec_link_run vec_link_of_fetch(uint32_t bytes) {
    return bytes == 1 ? fetch_1 : bytes == 2 ? fetch_2 : fetch_4;
}

LINK(store_F32) {
    float *m = floats_at(link, at);
    EACH(PUT)
}
LINK(past_F32) {
    float *m = floats_at(link, at);
    EACH(STREAM)
}

/* Into memory that is aligned to its own elements only. */
VEC_INLINE void put_small(float *to, vf x) {
    memcpy((void *)to, &x, sizeof x);
}
#define STORE_HALVES(name, pair, kind, put) \
    LINK(kind##_##name) {                   \
        float *m = memory_at(link, at);     \
        TAME_##name put(m, pair(a, b));     \
        put(m + VF, pair(c, d));            \
        put(m + 2 * VF, pair(e, f));        \
        put(m + 3 * VF, pair(g, h));        \
    }
#define TAME_F16
VEC_INLINE vf pair_f16(vf x, vf y) {
    return vh_joined(f16_of_vf(x), f16_of_vf(y));
}
VEC_INLINE vf pair_bf16(vf x, vf y) {
    return vec_upper_halves(bf16_rounded(x), bf16_rounded(y));
}
STORE_HALVES(F16, pair_f16, store, put_small)
STORE_HALVES(F16, pair_f16, past, vf_stream)
STORE_HALVES(BF16, pair_bf16, store, put_small)
STORE_HALVES(BF16, pair_bf16, past, vf_stream)

/* Four vectors of bytes are one. */
#if defined(__AVX2__) && RLX_VEC_BYTES == 32
VEC_INLINE vf packed(vi a, vi b, vi c, vi d, bool is_signed) {
    __m256i low = _mm256_packs_epi32((__m256i)a, (__m256i)b);
    __m256i high = _mm256_packs_epi32((__m256i)c, (__m256i)d);
    __m256i bytes = is_signed ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
    return (vf)_mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
#else
VEC_INLINE vf packed(vi a, vi b, vi c, vi d, bool is_signed) {
    union {
        small bytes[4];
        vf whole;
    } all = {{__builtin_convertvector(a, small), __builtin_convertvector(b, small),
              __builtin_convertvector(c, small), __builtin_convertvector(d, small)}};
    (void)is_signed;
    return all.whole;
}
#endif
#define STORE_BYTES(name, least, most, is_signed, kind, put)                                     \
    LINK(kind##_##name) {                                                                        \
        float *m = memory_at(link, at);                                                          \
        put(m, packed(vec_cut(a, least, most), vec_cut(b, least, most), vec_cut(c, least, most), \
                      vec_cut(d, least, most), is_signed));                                      \
        put(m + VF, packed(vec_cut(e, least, most), vec_cut(f, least, most),                     \
                           vec_cut(g, least, most), vec_cut(h, least, most), is_signed));        \
    }
STORE_BYTES(I8, -128.0f, 127.0f, true, store, put_small)
STORE_BYTES(I8, -128.0f, 127.0f, true, past, vf_stream)
STORE_BYTES(U8, 0.0f, 255.0f, false, store, put_small)
STORE_BYTES(U8, 0.0f, 255.0f, false, past, vf_stream)

vec_link_run vec_link_of_store(rlx_dtype dtype, bool is_past_caches) {
    switch (dtype) {
#define ROW(name)          \
    case RLX_DTYPE_##name: \
        return is_past_caches ? past_##name : store_##name;
        ROW(F32)
        ROW(F16)
        ROW(BF16)
        ROW(I8)
        ROW(U8)
#undef ROW
    default:
        return NULL;
    }
}

/* An op as a step between tiles: loaded, done, stored. What is left is done in a block of its own.
 */
static void run_links(const vec_step *step, const void *const *in, void *out, int64_t n) {
    union {
        const void *fixed;
        char *memory;
    } first = {in[0]}, second = {step->in_count > 1 ? in[1] : NULL};
    bool is_binary = step->in_count > 1;
    vec_link_run run = is_binary ? vec_link_of_binary(step->op, false) : vec_link_of_unary(step);
    vec_link links[] = {{load_F32, first.memory, 4, 0, 0},
                        {run, second.memory, 4, step->alpha, step->beta},
                        {store_F32, out, 4, 0, 0}};
    _Alignas(64) float rest[3][VEC_BLOCK];
    vf zero = {0};
    int64_t i = 0;
    for (; i + VEC_BLOCK <= n; i += VEC_BLOCK)
        load_F32(links, i, zero, zero, zero, zero, zero, zero, zero, zero);
    if (i == n) return;
    size_t left = (size_t)(n - i) * sizeof(float);
    memset(rest, 0, sizeof rest);
    memcpy(rest[0], (const float *)in[0] + i, left);
    if (is_binary) memcpy(rest[1], (const float *)in[1] + i, left);
    for (int k = 0; k < 3; k++)
        links[k].memory = (char *)rest[k];
    load_F32(links, 0, zero, zero, zero, zero, zero, zero, zero, zero);
    memcpy((float *)out + i, rest[2], left);
}

/* To bool: the compiler makes vectors of these. */
#define TRUTH_LOOP(name, expression)                                                      \
    static void name(const vec_step *step, const void *const *in, void *out, int64_t n) { \
        const float *a = in[0], *b = in[1];                                               \
        uint8_t *d = out;                                                                 \
        (void)step, (void)b;                                                              \
        for (int64_t i = 0; i < n; i++)                                                   \
            d[i] = (expression);                                                          \
    }
TRUTH_LOOP(truth_IS_NAN, a[i] != a[i])
TRUTH_LOOP(truth_EQUAL, a[i] == b[i])
TRUTH_LOOP(truth_NOT_EQUAL, a[i] != b[i])
TRUTH_LOOP(truth_LESS, a[i] < b[i])
TRUTH_LOOP(truth_LESS_EQUAL, a[i] <= b[i])
TRUTH_LOOP(truth_GREATER, a[i] > b[i])
TRUTH_LOOP(truth_GREATER_EQUAL, a[i] >= b[i])

vec_run vec_choose_f32(const vec_step *step) {
    switch (step->op) {
#define ROW(name)       \
    case RLX_OP_##name: \
        return truth_##name;
        ROW(IS_NAN)
        ROW(EQUAL)
        ROW(NOT_EQUAL)
        ROW(LESS)
        ROW(LESS_EQUAL)
        ROW(GREATER)
        ROW(GREATER_EQUAL)
#undef ROW
    default:
        break;
    }
    bool has_link = step->in_count > 1 ? vec_link_of_binary(step->op, false) != NULL
                                       : vec_link_of_unary(step) != NULL;
    return has_link ? run_links : NULL;
}
