/* SPDX-License-Identifier: Apache-2.0 */
/* Probes for x86-64: AVX2 with FMA, and AVX-512. Each function names the instructions it uses, so
 * that the rest of the program runs anywhere. */
#include "probe.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* Twelve sums: more than latency times units of any core, fewer than there are registers. They
 * start from different numbers, or the compiler would keep only one. */
#define TWELVE(use) \
    use(0) use(1) use(2) use(3) use(4) use(5) use(6) use(7) use(8) use(9) use(10) use(11)
#define AVX2       __attribute__((target("avx2,fma")))
#define AVX512     __attribute__((target("avx512f,avx512bw")))
#define AVXVNNI    __attribute__((target("avx2,avxvnni")))
#define AVX512VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))

AVX2 static double avx2_multiply_add(uint64_t rounds) {
    __m256 x = _mm256_set1_ps(0.999F), y = _mm256_set1_ps(1e-6F), sum = _mm256_setzero_ps();
    volatile float sink;
#define START(n) __m256 s##n = _mm256_set1_ps(n);
#define STEP(n)  s##n = _mm256_fmadd_ps(s##n, x, y);
#define JOIN(n)  sum = _mm256_add_ps(sum, s##n);
    TWELVE(START)
    for (uint64_t i = 0; i < rounds; i++) {
        TWELVE(STEP)
    }
    TWELVE(JOIN)
#undef START
#undef STEP
#undef JOIN
    sink = _mm256_cvtss_f32(sum);
    (void)sink;
    return (double)rounds * 12 * 8 * 2;
}

AVX512 static double avx512_multiply_add(uint64_t rounds) {
    __m512 x = _mm512_set1_ps(0.999F), y = _mm512_set1_ps(1e-6F), sum = _mm512_setzero_ps();
    volatile float sink;
#define START(n) __m512 s##n = _mm512_set1_ps(n);
#define STEP(n)  s##n = _mm512_fmadd_ps(s##n, x, y);
#define JOIN(n)  sum = _mm512_add_ps(sum, s##n);
    TWELVE(START)
    for (uint64_t i = 0; i < rounds; i++) {
        TWELVE(STEP)
    }
    TWELVE(JOIN)
#undef START
#undef STEP
#undef JOIN
    sink = _mm512_cvtss_f32(sum);
    (void)sink;
    return (double)rounds * 12 * 16 * 2;
}

/* Bytes that were widened to 16 bits: pairs are multiplied and added, then added to a sum. Spelled
 * out: of the intrinsics gcc would compute one product for all sums, and with VNNI it moves every
 * sum to another register and back, in the place of multiply-adds. Six products, then six sums: one
 * after the other is 5 % slower on Zen 3 (1.66 of 2 a cycle, this 1.71: additions go to the units
 * of the multiplications too), and products of the sums themselves wait for each other. An Ice Lake
 * has three units for both with 32 bytes, two with 64: 1.5 and 1 a cycle. */
#define PRODUCT(n) "vpmaddwd %12, %12, %" #n "\n\t"
#define SUM(n, to) "vpaddd %" #n ", %" #to ", %" #to "\n\t"
#define SIX_PAIRS(type, r, a, b, c, d, e, f)                                                    \
    {                                                                                           \
        type p0, p1, p2, p3, p4, p5;                                                            \
        __asm__(PRODUCT(6) PRODUCT(7) PRODUCT(8) PRODUCT(9) PRODUCT(10) PRODUCT(11) SUM(6, 0)   \
                    SUM(7, 1) SUM(8, 2) SUM(9, 3) SUM(10, 4) SUM(11, 5)                         \
                : "+" r(s##a), "+" r(s##b), "+" r(s##c), "+" r(s##d), "+" r(s##e), "+" r(s##f), \
                  "=&" r(p0), "=&" r(p1), "=&" r(p2), "=&" r(p3), "=&" r(p4), "=&" r(p5)        \
                : r(x));                                                                        \
    }
#define BYTES(name, tier, type, prefix, bits, lanes)                                  \
    tier static double name(uint64_t rounds) {                                        \
        type x = prefix##_set1_epi16((short)rounds), sum = prefix##_setzero_##bits(); \
        volatile int sink;                                                            \
        TWELVE(START)                                                                 \
        for (uint64_t i = 0; i < rounds; i++) {                                       \
            STEPS                                                                     \
        }                                                                             \
        TWELVE(JOIN)                                                                  \
        sink = LOW(sum);                                                              \
        (void)sink;                                                                   \
        return (double)rounds * 12 * (lanes)*2;                                       \
    }
#define JOIN(n)  sum = _mm256_add_epi32(sum, s##n);
#define LOW(sum) _mm256_extract_epi32(sum, 0)
#define START(n) __m256i s##n = _mm256_set1_epi32(n);
/* Twelve sums and their products would be more than there are registers: of six, twice. */
#define STEPS                                 \
    SIX_PAIRS(__m256i, "x", 0, 1, 2, 3, 4, 5) \
    SIX_PAIRS(__m256i, "x", 0, 1, 2, 3, 4, 5)
BYTES(avx2_bytes, AVX2, __m256i, _mm256, si256, 16)
#undef STEPS
#define STEP(n) __asm__("%{vex%} vpdpbusd %1, %1, %0" : "+x"(s##n) : "x"(x));
#define STEPS   TWELVE(STEP)
BYTES(avxvnni_bytes, AVXVNNI, __m256i, _mm256, si256, 32)
#undef STEPS
#undef STEP
#undef JOIN
#undef LOW
#undef START
#define JOIN(n)  sum = _mm512_add_epi32(sum, s##n);
#define LOW(sum) _mm_cvtsi128_si32(_mm512_castsi512_si128(sum))
#define START(n) __m512i s##n = _mm512_set1_epi32(n);
#define STEPS                                 \
    SIX_PAIRS(__m512i, "v", 0, 1, 2, 3, 4, 5) \
    SIX_PAIRS(__m512i, "v", 6, 7, 8, 9, 10, 11)
BYTES(avx512_bytes, AVX512, __m512i, _mm512, si512, 32)
#undef STEPS
#define STEP(n) __asm__("vpdpbusd %1, %1, %0" : "+v"(s##n) : "v"(x));
#define STEPS   TWELVE(STEP)
BYTES(avx512vnni_bytes, AVX512VNNI, __m512i, _mm512, si512, 64)
#undef STEPS
#undef STEP
#undef JOIN
#undef LOW
#undef START

AVX2 static uint64_t avx2_read(const void *from, size_t bytes) {
    const __m256i *at = from;
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (size_t i = 0; i < bytes / sizeof *at; i += 8) {
        a = _mm256_xor_si256(a, _mm256_xor_si256(at[i], at[i + 1]));
        b = _mm256_xor_si256(b, _mm256_xor_si256(at[i + 2], at[i + 3]));
        c = _mm256_xor_si256(c, _mm256_xor_si256(at[i + 4], at[i + 5]));
        d = _mm256_xor_si256(d, _mm256_xor_si256(at[i + 6], at[i + 7]));
    }
    a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
    uint64_t parts[4];
    _mm256_storeu_si256((__m256i *)parts, a);
    return parts[0] ^ parts[1] ^ parts[2] ^ parts[3];
}

AVX512 static uint64_t avx512_read(const void *from, size_t bytes) {
    const __m512i *at = from;
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (size_t i = 0; i < bytes / sizeof *at; i += 8) {
        a = _mm512_xor_si512(a, _mm512_xor_si512(at[i], at[i + 1]));
        b = _mm512_xor_si512(b, _mm512_xor_si512(at[i + 2], at[i + 3]));
        c = _mm512_xor_si512(c, _mm512_xor_si512(at[i + 4], at[i + 5]));
        d = _mm512_xor_si512(d, _mm512_xor_si512(at[i + 6], at[i + 7]));
    }
    a = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d));
    uint64_t parts[8], all = 0;
    _mm512_storeu_si512(parts, a);
    for (int i = 0; i < 8; i++)
        all ^= parts[i];
    return all;
}

AVX2 static void avx2_stream(void *to, const void *from, size_t bytes) {
    const __m256i *at = from;
    __m256i *into = to;
    for (size_t i = 0; i < bytes / sizeof *at; i += 4) {
        __m256i a = at[i], b = at[i + 1], c = at[i + 2], d = at[i + 3];
        _mm256_stream_si256(&into[i], a);
        _mm256_stream_si256(&into[i + 1], b);
        _mm256_stream_si256(&into[i + 2], c);
        _mm256_stream_si256(&into[i + 3], d);
    }
    _mm_sfence();
}

AVX512 static void avx512_stream(void *to, const void *from, size_t bytes) {
    const __m512i *at = from;
    __m512i *into = to;
    for (size_t i = 0; i < bytes / sizeof *at; i += 4) {
        __m512i a = at[i], b = at[i + 1], c = at[i + 2], d = at[i + 3];
        _mm512_stream_si512(&into[i], a);
        _mm512_stream_si512(&into[i + 1], b);
        _mm512_stream_si512(&into[i + 2], c);
        _mm512_stream_si512(&into[i + 3], d);
    }
    _mm_sfence();
}

static const probe_kernels avx2 = {"avx2",         8,          2,         avx2_multiply_add,
                                   "16-bit pairs", avx2_bytes, avx2_read, avx2_stream};
static const probe_kernels avx2_vnni = {
    "avx2", 8, 2, avx2_multiply_add, "VNNI", avxvnni_bytes, avx2_read, avx2_stream};
static const probe_kernels avx512 = {"avx512",       16,           2,           avx512_multiply_add,
                                     "16-bit pairs", avx512_bytes, avx512_read, avx512_stream};
static const probe_kernels avx512_vnni = {
    "avx512", 16, 2, avx512_multiply_add, "VNNI", avx512vnni_bytes, avx512_read, avx512_stream};

/* AVX-VNNI, which __builtin_cpu_supports does not know everywhere: leaf 7.1, eax bit 4. */
static int has_avxvnni(void) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4) != 0;
}

const probe_kernels *probe_x86(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bw"))
        return __builtin_cpu_supports("avx512vnni") ? &avx512_vnni : &avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return has_avxvnni() ? &avx2_vnni : &avx2;
    return NULL;
}

#else

const probe_kernels *probe_x86(void) {
    return NULL;
}

#endif
