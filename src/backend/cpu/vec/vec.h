/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of one instruction-set level. Every kernel of this folder is written once against these
 * names and compiled once per level (CMakeLists.txt): RLX_VEC_BYTES is the width of a vector and
 * RLX_VEC_LEVEL the level's name. Arithmetic (+ - * / < & << ..) is the compiler's own on vector
 * types; here is what it has no operator for. Nothing is fused unless vf_fma is written.
 *
 * The level `wide` has 64-byte vectors made of pairs of AVX2 registers. It exists for the tests:
 * the source of the AVX-512 level, run on a machine without it. */
#ifndef RLX_BACKEND_CPU_VEC_H
#define RLX_BACKEND_CPU_VEC_H

#include "backend/cpu/table.h"
#include "base/cpu.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define VEC_JOIN_(a, b, c) a##b##_##c
#define VEC_JOIN(a, b, c)  VEC_JOIN_(a, b, c)
#define VEC_QUOTE_(a)      #a
#define VEC_QUOTE(a)       VEC_QUOTE_(a)
/* VEC_SYMBOL(softmax) is rlx_cpu_softmax_avx2; VEC_NAME("softmax") is "softmax_avx2". */
#define VEC_SYMBOL(name) VEC_JOIN(rlx_cpu_, name, RLX_VEC_LEVEL)
#define VEC_NAME(text)   text "_" VEC_QUOTE(RLX_VEC_LEVEL)
/* The same of the level whose code is used for what waits for memory (NARROW in families.def). */
#if RLX_VEC_BYTES == 64
#define VEC_NARROW_SYMBOL(name) VEC_JOIN(rlx_cpu_, name, avx2)
#else
#define VEC_NARROW_SYMBOL VEC_SYMBOL
#endif
#define VEC_INLINE static inline __attribute__((always_inline, unused))

/* A loop of few turns that stays one, or that goes away. */
#if defined(__clang__)
#define VEC_ROLLED        _Pragma("clang loop unroll(disable)")
#define VEC_UNROLLED      _Pragma("clang loop unroll(full)")
#define VEC_UNROLLED_MORE VEC_UNROLLED
#else
#define VEC_ROLLED        _Pragma("GCC unroll 1")
#define VEC_UNROLLED      _Pragma("GCC unroll 8")
#define VEC_UNROLLED_MORE _Pragma("GCC unroll 32")
#endif

#define VEC_INFINITY __builtin_inff()
#define VEC_NAN      __builtin_nanf("")

enum { VF = RLX_VEC_BYTES / 4 }; /* 32-bit lanes */

/* Which of two ways is fast at levels of 64 bytes. The stand-in of tests counts as Intel's. */
VEC_INLINE bool vec_is_intel(void) {
#if defined(__AVX512F__)
    return (rlx_cpu_flags() & RLX_CPU_INTEL) != 0;
#else
    return true;
#endif
}

/* Whether additions have units of their own beside those of multiply-adds, so that sums instead of
 * products pay. AMD's processors with vectors of 64 bytes. */
VEC_INLINE bool vec_adds_beside(void) {
    return !vec_is_intel();
}

typedef float vf __attribute__((vector_size(RLX_VEC_BYTES)));
typedef int32_t vi __attribute__((vector_size(RLX_VEC_BYTES)));
typedef uint32_t vu __attribute__((vector_size(RLX_VEC_BYTES)));
typedef uint16_t vh __attribute__((vector_size(RLX_VEC_BYTES / 2))); /* VF 16-bit values */
typedef float vf_loose __attribute__((vector_size(RLX_VEC_BYTES), aligned(4), may_alias));
typedef uint16_t vh_loose __attribute__((vector_size(RLX_VEC_BYTES / 2), aligned(2), may_alias));

VEC_INLINE vf vf_set(float x) {
    return x - (vf){0}; /* keeps -0 and NaN */
}
VEC_INLINE vi vi_set(int32_t x) {
    return x + (vi){0};
}
VEC_INLINE vf vf_load(const float *from) {
    return *(const vf_loose *)from;
}
VEC_INLINE void vf_store(float *to, vf x) {
    *(vf_loose *)to = x;
}
VEC_INLINE vh vh_load(const uint16_t *from) {
    return *(const vh_loose *)from;
}
VEC_INLINE void vh_store(uint16_t *to, vh x) {
    *(vh_loose *)to = x;
}

/* The registers of the machine that a vector is made of. */
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
typedef __m512 vec_native;
#elif defined(__AVX2__)
typedef __m256 vec_native;
#elif defined(__ARM_NEON)
typedef float32x4_t vec_native;
#else
#error "no vectors for this level"
#endif
enum { VEC_PIECES = RLX_VEC_BYTES / (int)sizeof(vec_native) };
typedef union vec_parts {
    vf v;
    vi i;
    vec_native n[RLX_VEC_BYTES / sizeof(vec_native)];
    float f[RLX_VEC_BYTES / 4];
} vec_parts;

/* Applies a function of native registers to all pieces. With one piece the union is no more than a
 * cast. */
#define VEC_MAP1(type, field, name, native)  \
    VEC_INLINE type name(type a) {           \
        vec_parts x = {.field = a}, r;       \
        for (int p = 0; p < VEC_PIECES; p++) \
            r.n[p] = native(x.n[p]);         \
        return r.field;                      \
    }
#define VEC_MAP2(name, native)               \
    VEC_INLINE vf name(vf a, vf b) {         \
        vec_parts x = {a}, y = {b}, r;       \
        for (int p = 0; p < VEC_PIECES; p++) \
            r.n[p] = native(x.n[p], y.n[p]); \
        return r.v;                          \
    }
#define VEC_MAP3(name, native)                       \
    VEC_INLINE vf name(vf a, vf b, vf c) {           \
        vec_parts x = {a}, y = {b}, z = {c}, r;      \
        for (int p = 0; p < VEC_PIECES; p++)         \
            r.n[p] = native(x.n[p], y.n[p], z.n[p]); \
        return r.v;                                  \
    }

#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
#define NATIVE_FMA(a, b, c)  _mm512_fmadd_ps(a, b, c)
#define NATIVE_FNMA(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define NATIVE_MIN(a, b)     _mm512_min_ps(a, b)
#define NATIVE_MAX(a, b)     _mm512_max_ps(a, b)
#define NATIVE_SQRT(a)       _mm512_sqrt_ps(a)
#define NATIVE_ROUND(a)      _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define NATIVE_FLOOR(a)      _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
#define NATIVE_CEIL(a)       _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)
#define NATIVE_TRUNC(a)      _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#elif defined(__AVX2__)
#define NATIVE_FMA(a, b, c)  _mm256_fmadd_ps(a, b, c)
#define NATIVE_FNMA(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define NATIVE_MIN(a, b)     _mm256_min_ps(a, b)
#define NATIVE_MAX(a, b)     _mm256_max_ps(a, b)
#define NATIVE_SQRT(a)       _mm256_sqrt_ps(a)
#define NATIVE_ROUND(a)      _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define NATIVE_FLOOR(a)      _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
#define NATIVE_CEIL(a)       _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)
#define NATIVE_TRUNC(a)      _mm256_round_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#else
#define NATIVE_FMA(a, b, c)  vfmaq_f32(c, a, b)
#define NATIVE_FNMA(a, b, c) vfmsq_f32(c, a, b)
#define NATIVE_MIN(a, b)     vbslq_f32(vcltq_f32(a, b), a, b)
#define NATIVE_MAX(a, b)     vbslq_f32(vcgtq_f32(a, b), a, b)
#define NATIVE_SQRT(a)       vsqrtq_f32(a)
#define NATIVE_ROUND(a)      vrndnq_f32(a)
#define NATIVE_FLOOR(a)      vrndmq_f32(a)
#define NATIVE_CEIL(a)       vrndpq_f32(a)
#define NATIVE_TRUNC(a)      vrndq_f32(a)
#endif

VEC_MAP3(vf_fma, NATIVE_FMA)   /* a * b + c, rounded once */
VEC_MAP3(vf_fnma, NATIVE_FNMA) /* c - a * b, rounded once */
VEC_MAP2(vf_min, NATIVE_MIN)   /* a < b ? a : b; so b where one is NaN */
VEC_MAP2(vf_max, NATIVE_MAX)   /* a > b ? a : b; so b where one is NaN */
VEC_MAP1(vf, v, vf_sqrt, NATIVE_SQRT)
VEC_MAP1(vf, v, vf_round, NATIVE_ROUND) /* to the nearest integer, ties to even */
VEC_MAP1(vf, v, vf_floor, NATIVE_FLOOR)
VEC_MAP1(vf, v, vf_ceil, NATIVE_CEIL)
VEC_MAP1(vf, v, vf_trunc, NATIVE_TRUNC)

/* *sum += a * b, rounded once, for inner loops that keep many sums in registers. Spelled out on
 * x86: left to itself gcc lets the sum take the place of a factor, moves the sums from register to
 * register and runs out of them. */
VEC_INLINE void vf_add_product(vf *sum, vf a, vf b) {
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
#elif defined(__AVX2__) && RLX_VEC_BYTES == 32
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b));
#else
    *sum = vf_fma(a, b, *sum);
#endif
}

/* mask lanes are all ones or all zeros, as comparisons give them. */
VEC_INLINE vf vf_select(vi mask, vf yes, vf no) {
#if defined(__AVX2__) && RLX_VEC_BYTES == 32
    return (vf)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
#else
    return (vf)(((vi)yes & mask) | ((vi)no & ~mask));
#endif
}
/* Whether every lane of a mask is set. */
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
VEC_INLINE bool vi_all(vi mask) {
    return _mm512_movepi32_mask((__m512i)mask) == 0xffff;
}
#elif defined(__AVX2__)
VEC_INLINE bool vi_all(vi mask) {
    vec_parts m = {.i = mask};
    int bits = 0xff;
    for (int p = 0; p < VEC_PIECES; p++)
        bits &= _mm256_movemask_ps(m.n[p]);
    return bits == 0xff;
}
#else
VEC_INLINE bool vi_all(vi mask) {
    return vminvq_u32((uint32x4_t)mask) == UINT32_MAX;
}
#endif
VEC_INLINE vf vf_abs(vf x) {
    return (vf)((vi)x & 0x7fffffff);
}
/* The magnitude of x with the sign of s. */
VEC_INLINE vf vf_copysign(vf x, vf s) {
    return (vf)(((vi)x & 0x7fffffff) | ((vi)s & INT32_MIN));
}
VEC_INLINE vf vf_of(vi x) {
    return __builtin_convertvector(x, vf);
}
/* Of lanes that hold integers in range. */
VEC_INLINE vi vi_of(vf x) {
    return __builtin_convertvector(x, vi);
}

/* Lane i is lane which[i] of x. Vectors of 32 bytes: one of the same 16 bytes. */
VEC_INLINE vf vf_pick(vf x, vi which) {
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
    return (vf)_mm512_permutexvar_ps((__m512i)which, (__m512)x);
#elif defined(__AVX2__) && RLX_VEC_BYTES == 32
    return (vf)_mm256_permutevar_ps((__m256)x, (__m256i)which);
#else
    vec_parts from = {x}, r;
    for (int i = 0; i < VF; i++)
        r.f[i] = from.f[which[i]];
    return r.v;
#endif
}

/* Sums and extremes of all lanes, in a fixed order: halves are folded until one is left. */
#if defined(__x86_64__)
VEC_INLINE __m256 vec_first_half(vf x, __m256 *high) {
#if RLX_VEC_BYTES == 64
    union {
        vf v;
        __m256 half[2];
    } both = {x};
    *high = both.half[1];
    return both.half[0];
#else
    *high = (__m256)x;
    return (__m256)x;
#endif
}
#define VEC_FOLD(name, op)                                                                    \
    VEC_INLINE float name(vf x) {                                                             \
        __m256 high, low = vec_first_half(x, &high);                                          \
        if (RLX_VEC_BYTES == 64) low = _mm256_##op##_ps(low, high);                           \
        __m128 r = _mm_##op##_ps(_mm256_castps256_ps128(low), _mm256_extractf128_ps(low, 1)); \
        r = _mm_##op##_ps(r, _mm_movehl_ps(r, r));                                            \
        r = _mm_##op##_ss(r, _mm_movehdup_ps(r));                                             \
        return _mm_cvtss_f32(r);                                                              \
    }
VEC_FOLD(vf_sum, add)
VEC_FOLD(vf_highest, max)
VEC_FOLD(vf_lowest, min)
#undef VEC_FOLD
#else
#define VEC_FOLD(name, expression)                \
    VEC_INLINE float name(vf x) {                 \
        vec_parts r = {x};                        \
        for (int n = VF / 2; n > 0; n /= 2) {     \
            for (int i = 0; i < n; i++) {         \
                float a = r.f[i], b = r.f[i + n]; \
                r.f[i] = (expression);            \
            }                                     \
        }                                         \
        return r.f[0];                            \
    }
VEC_FOLD(vf_sum, a + b)
VEC_FOLD(vf_highest, a > b ? a : b)
VEC_FOLD(vf_lowest, a < b ? a : b)
#undef VEC_FOLD
#endif

/* The first n lanes (0 <= n <= VF), no byte beyond them touched; other lanes load as zero. */
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
VEC_INLINE vf vf_load_n(const float *from, int64_t n) {
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), from);
}
VEC_INLINE void vf_store_n(float *to, vf x, int64_t n) {
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1u), (__m512)x);
}
#elif defined(__AVX2__)
VEC_INLINE __m256i vec_mask8(int64_t n) {
    static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    n = n < 0 ? 0 : n > 8 ? 8 : n;
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 8 - n));
}
VEC_INLINE vf vf_load_n(const float *from, int64_t n) {
    vec_parts r;
    for (int p = 0; p < VEC_PIECES; p++)
        r.n[p] = _mm256_maskload_ps(from + 8 * p, vec_mask8(n - 8 * p));
    return r.v;
}
/* Powers of two of them: a store with a mask takes 15 cycles on Zen 3, this 4 to 8. */
VEC_INLINE void vec_store8_n(float *to, __m256 x, int64_t n) {
    __m128 part = _mm256_castps256_ps128(x);
    if (n >= 8) {
        _mm256_storeu_ps(to, x);
        return;
    }
    if (n <= 0) return;
    if (n & 4) {
        _mm_storeu_ps(to, part);
        part = _mm256_extractf128_ps(x, 1);
        to += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)to, part);
        part = _mm_movehl_ps(part, part);
        to += 2;
    }
    if (n & 1) _mm_store_ss(to, part);
}
VEC_INLINE void vf_store_n(float *to, vf x, int64_t n) {
    vec_parts r = {x};
    for (int p = 0; p < VEC_PIECES; p++)
        vec_store8_n(to + 8 * p, r.n[p], n - 8 * p);
}
#else
VEC_INLINE vf vf_load_n(const float *from, int64_t n) {
    vec_parts r = {{0}};
    for (int64_t i = 0; i < n; i++)
        r.f[i] = from[i];
    return r.v;
}
VEC_INLINE void vf_store_n(float *to, vf x, int64_t n) {
    vec_parts r = {x};
    for (int64_t i = 0; i < n; i++)
        to[i] = r.f[i];
}
#endif
#if defined(__AVX512BW__) && RLX_VEC_BYTES == 64
VEC_INLINE vh vh_load_n(const uint16_t *from, int64_t n) {
    return (vh)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1u), from);
}
VEC_INLINE void vh_store_n(uint16_t *to, vh x, int64_t n) {
    _mm256_mask_storeu_epi16(to, (__mmask16)((1u << n) - 1u), (__m256i)x);
}
#else
VEC_INLINE vh vh_load_n(const uint16_t *from, int64_t n) {
    vh r = {0};
    for (int64_t i = 0; i < n; i++)
        r[i] = from[i];
    return r;
}
VEC_INLINE void vh_store_n(uint16_t *to, vh x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = x[i];
}
#endif

/* Past the caches, for results that are far larger than them. `to` is aligned to RLX_VEC_BYTES.
 * vec_stream_end comes before the results are handed over. */
#if defined(__x86_64__)
VEC_INLINE void vf_stream(float *to, vf x) {
    vec_parts r = {x};
    for (int p = 0; p < VEC_PIECES; p++) {
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
        _mm512_stream_ps(to + p * (int)sizeof(vec_native) / 4, r.n[p]);
#else
        _mm256_stream_ps(to + p * (int)sizeof(vec_native) / 4, r.n[p]);
#endif
    }
}
VEC_INLINE void vec_stream_end(void) {
    _mm_sfence();
}
#else
VEC_INLINE void vf_stream(float *to, vf x) {
    vf_store(to, x);
}
VEC_INLINE void vec_stream_end(void) {}
#endif

/* 16-bit floats. Rounding is to nearest even; NaN stays NaN. */
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
VEC_INLINE vu vu_of_vh(vh x) {
    return (vu)_mm512_cvtepu16_epi32((__m256i)x);
}
#elif defined(__AVX2__) && RLX_VEC_BYTES == 32
VEC_INLINE vu vu_of_vh(vh x) { /* left to itself gcc does it by halves */
    return (vu)_mm256_cvtepu16_epi32((__m128i)x);
}
#else
VEC_INLINE vu vu_of_vh(vh x) {
    return __builtin_convertvector(x, vu);
}
#endif
VEC_INLINE vf vf_of_bf16(vh x) {
    return (vf)(vu_of_vh(x) << 16);
}
/* Of lanes below 2^16. */
#if defined(__AVX2__) && RLX_VEC_BYTES == 32
VEC_INLINE vh vh_of_vu(vu x) {
    __m128i low = _mm256_castsi256_si128((__m256i)x);
    return (vh)_mm_packus_epi32(low, _mm256_extracti128_si256((__m256i)x, 1));
}
#else
VEC_INLINE vh vh_of_vu(vu x) {
    return __builtin_convertvector(x, vh);
}
#endif
VEC_INLINE vh bf16_of_vf(vf x) {
    vu bits = (vu)x, is_number = (vu)(x == x);
    vu even = bits + ((0x7fffu + ((bits >> 16) & 1u)) & is_number);
    return vh_of_vu((even | (~is_number & 0x400000u)) >> 16);
}
/* The same for many vectors at a time, with one question for all of them: where one may be NaN
 * (vf_are_numbers of each two, joined by &, is not all ones) they are made harmless first. */
VEC_INLINE vi vf_are_numbers(vf x, vf y) {
#if defined(__AVX2__) && RLX_VEC_BYTES == 32
    return (vi)_mm256_cmp_ps((__m256)x, (__m256)y, _CMP_ORD_Q);
#else
    return (x == x) & (y == y);
#endif
}
VEC_INLINE vf bf16_harmless(vf x) {
    return vf_select(x == x, x, (vf)(((vu)x | 0x400000u) & 0xffff0000u));
}
/* In the upper halves of the lanes. */
VEC_INLINE vu bf16_rounded(vf x) {
    vu bits = (vu)x;
    return bits + 0x7fffu + ((bits >> 16) & 1u);
}
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
VEC_INLINE vf vf_of_f16(vh x) {
    return (vf)_mm512_cvtph_ps((__m256i)x);
}
VEC_INLINE vh f16_of_vf(vf x) {
    return (vh)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(__AVX2__)
typedef union vec_half_parts {
    vh v;
    __m128i n[RLX_VEC_BYTES / 32];
} vec_half_parts;
VEC_INLINE vf vf_of_f16(vh x) {
    vec_half_parts h = {x};
    vec_parts r;
    for (int p = 0; p < VEC_PIECES; p++)
        r.n[p] = _mm256_cvtph_ps(h.n[p]);
    return r.v;
}
VEC_INLINE vh f16_of_vf(vf x) {
    vec_parts r = {x};
    vec_half_parts h;
    for (int p = 0; p < VEC_PIECES; p++)
        h.n[p] = _mm256_cvtps_ph(r.n[p], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return h.v;
}
#else
VEC_INLINE vf vf_of_f16(vh x) {
    return (vf)vcvt_f32_f16((float16x4_t)x);
}
VEC_INLINE vh f16_of_vf(vf x) {
    return (vh)vcvt_f16_f32((float32x4_t)x);
}
#endif

/* Two vectors of 16-bit values are a whole one. By instructions where there are some: halves that
 * are written one by one cannot be read as a whole right away. */
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
VEC_INLINE vf vh_joined(vh low, vh high) {
    return (vf)_mm512_inserti64x4(_mm512_castsi256_si512((__m256i)low), (__m256i)high, 1);
}
#elif defined(__AVX2__) && RLX_VEC_BYTES == 32
VEC_INLINE vf vh_joined(vh low, vh high) {
    return (vf)_mm256_inserti128_si256(_mm256_castsi128_si256((__m128i)low), (__m128i)high, 1);
}
#else
VEC_INLINE vf vh_joined(vh low, vh high) {
    union {
        vh halves[2];
        vf whole;
    } both = {{low, high}};
    return both.whole;
}
#endif
/* The upper halves of two vectors. */
VEC_INLINE vf vec_upper_halves(vu low, vu high) {
#if defined(__AVX2__) && RLX_VEC_BYTES == 32
    __m256i both = _mm256_packus_epi32((__m256i)(low >> 16), (__m256i)(high >> 16));
    return (vf)_mm256_permute4x64_epi64(both, 0xd8); /* it is packed within 16 bytes */
#else
    return vh_joined(vh_of_vu(low >> 16), vh_of_vu(high >> 16));
#endif
}

#endif
