/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of conv_quantised: positions x a panel of output channels in registers, over a
 * depth of words of two shorts or of four bytes; and weights of shorts as bytes. Knows no tensors.
 *
 * VNNI multiplies any bytes. On AVX2 the products of two bytes are added in 16 bits, which saturate
 * unless the two weights have no more than 128 between them; where the four weights of two words
 * have no more, their sums are added in 16 bits as well. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_INT8_TILE_H
#define RLX_BACKEND_CPU_VEC_CONV_INT8_TILE_H

#include "backend/cpu/vec/conv_int8.h"

#if RLX_VEC_BYTES == 64
#define HAS_VNNI  1
#define HAS_FOURS 0
#elif defined(__AVX2__)
#define HAS_VNNI  0
#define HAS_FOURS 1
#else
#define HAS_VNNI  0
#define HAS_FOURS 0
#endif

/* Words of shorts; of bytes one by one; of bytes two by two. */
typedef enum int8_kind { INT8_PAIRS, INT8_FOURS, INT8_EIGHTS } int8_kind;

/* A part of the depth: blocks, rows of taps, taps, and in each a run of words side by side. */
typedef struct int8_depth {
    int64_t blocks, block_stride, rows, row_stride, taps, tap_stride, run; /* in words */
} int8_depth;

/* Sums are variables, as in conv_tile.h. Pixel p has the sums a, b, c and d. */
typedef struct int8_tile {
    const int32_t *x[PIXELS]; /* first word of each position */
    const int32_t *w, *start; /* [PANEL]: what is added once */
    int32_t *sums;            /* [positions][PANEL] */
    bool is_first;            /* nothing is in them */
} int8_tile;
typedef void (*tile_fn)(const int8_depth *depth, const int8_tile *tile);

/* *sum += the products of every word. VNNI is spelled out for the reason that vf_add_product has;
 * the level `wide` has it in plain C, for the tests. */
VEC_INLINE void add_products(vi *sum, vi a, vi b, int8_kind kind) {
    if (kind == INT8_PAIRS) {
        *sum += vi_pair_products(a, b);
        return;
    }
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
#elif HAS_FOURS
    const __m256i ones = _mm256_set1_epi16(1);
    *sum += (vi)_mm256_madd_epi16(_mm256_maddubs_epi16((__m256i)a, (__m256i)b), ones);
#else
    for (int i = 0; i < 4; i++)
        *sum += (vi)((vu)a >> (8 * i) & 0xff) * ((b << (24 - 8 * i)) >> 24);
#endif
}

/* The same of two words. */
VEC_INLINE void add_both(vi *sum, vi a0, vi b0, vi a1, vi b1) {
#if HAS_FOURS
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i shorts = _mm256_add_epi16(_mm256_maddubs_epi16((__m256i)a0, (__m256i)b0),
                                      _mm256_maddubs_epi16((__m256i)a1, (__m256i)b1));
    *sum += (vi)_mm256_madd_epi16(shorts, ones);
#else
    add_products(sum, a0, b0, INT8_FOURS);
    add_products(sum, a1, b1, INT8_FOURS);
#endif
}

/* clang-format off */
#define STEP_PIXEL(p)                                       \
    if (P > p) {                                            \
        vi one = vi_set(x##p[i]);                           \
        add_products(&a##p, one, wide0, kind);              \
        add_products(&b##p, one, wide1, kind);              \
        if (PANEL_VECTORS > 2) add_products(&c##p, one, wide2, kind); \
        if (PANEL_VECTORS > 2) add_products(&d##p, one, wide3, kind); \
    }
#define STEP_BOTH(p)                                        \
    if (P > p) {                                            \
        vi one = vi_set(x##p[i]), two = vi_set(x##p[i + 1]); \
        add_both(&a##p, one, wide0, two, wide2);            \
        add_both(&b##p, one, wide1, two, wide3);            \
    }
#define LOAD_PIXEL(p)                                       \
    if (P > p && !tile->is_first) {                         \
        const int32_t *from = tile->sums + p * PANEL;       \
        a##p += vi_load(from);                              \
        b##p += vi_load(from + VF);                         \
        if (PANEL_VECTORS > 2) c##p += vi_load(from + 2 * VF); \
        if (PANEL_VECTORS > 2) d##p += vi_load(from + 3 * VF); \
    }
#define STORE_PIXEL(p)                                      \
    if (P > p) {                                            \
        int32_t *to = tile->sums + p * PANEL;               \
        vi_store(to, a##p);                                 \
        vi_store(to + VF, b##p);                            \
        if (PANEL_VECTORS > 2) vi_store(to + 2 * VF, c##p); \
        if (PANEL_VECTORS > 2) vi_store(to + 3 * VF, d##p); \
    }
/* clang-format on */
#define DECLARE_PIXEL(p)                                               \
    vi a##p = vi_load(tile->start), b##p = vi_load(tile->start + VF);  \
    vi c##p = vi_load(tile->start + (PANEL_VECTORS > 2 ? 2 * VF : 0)); \
    vi d##p = vi_load(tile->start + (PANEL_VECTORS > 2 ? 3 * VF : 0)); \
    const int32_t *x##p = tile->x[P > p ? p : 0];
#define MOVE_PIXEL(p) \
    if (P > p) x##p += step;

VEC_INLINE void run_tile(const int8_depth *depth, const int8_tile *tile, const int P,
                         const int8_kind kind) {
    const int32_t *w = tile->w;
    int64_t runs = depth->blocks * depth->rows * depth->taps, tap = 0, row = 0;
    int64_t row_step = depth->row_stride - depth->taps * depth->tap_stride;
    int64_t block_step = depth->block_stride - depth->rows * depth->row_stride;
    EACH_PIXEL(DECLARE_PIXEL)
    EACH_PIXEL(LOAD_PIXEL)
    for (; runs > 0; runs--) {
        int64_t step = depth->tap_stride, i = 0;
        for (; kind == INT8_EIGHTS && i + 1 < depth->run; i += 2, w += 2 * PANEL) {
            vi wide0 = vi_load(w), wide1 = vi_load(w + VF);
            vi wide2 = vi_load(w + PANEL), wide3 = vi_load(w + PANEL + VF);
            EACH_PIXEL(STEP_BOTH)
        }
        for (; i < depth->run; i++, w += PANEL) {
            vi wide0 = vi_load(w), wide1 = vi_load(w + VF), wide2 = wide0, wide3 = wide0;
            if (PANEL_VECTORS > 2) wide2 = vi_load(w + 2 * VF), wide3 = vi_load(w + 3 * VF);
            EACH_PIXEL(STEP_PIXEL)
            (void)wide2, (void)wide3;
        }
        if (++tap == depth->taps) {
            tap = 0, step += row_step;
            if (++row == depth->rows) row = 0, step += block_step;
        }
        EACH_PIXEL(MOVE_PIXEL)
    }
    EACH_PIXEL(STORE_PIXEL)
}

/* clang-format off */
#define DEFINE(name, kind, count)                                                     \
    static void name##_##count(const int8_depth *depth, const int8_tile *tile) {      \
        run_tile(depth, tile, count, kind);                                           \
    }
#define DEFINE_PAIRS(count)  DEFINE(pairs, INT8_PAIRS, count)
#define DEFINE_FOURS(count)  DEFINE(fours, INT8_FOURS, count)
#define DEFINE_EIGHTS(count) DEFINE(eights, INT8_EIGHTS, count)
#define NAME_PAIRS(count)    [count - 1] = pairs_##count,
#define NAME_FOURS(count)    [count - 1] = fours_##count,
#define NAME_EIGHTS(count)   [count - 1] = eights_##count,
#define EACH_COUNT(M) M(1) M(2) M(3) M(4) M(5) M(6)
EACH_COUNT(DEFINE_PAIRS)
static const tile_fn pairs_tiles[] = {EACH_COUNT(NAME_PAIRS)};
/* Of VNNI higher: there are registers for more, and half as many multiply-adds for a load. Four
 * positions keep the ports of the multiplications of AVX2 busy, and LEAST_POSITIONS and more are
 * made of threes and fours. */
#if HAS_VNNI
#define EACH_BYTES_COUNT(M) EACH_COUNT(M) M(7) M(8) M(9) M(10) M(11) M(12)
#else
#define EACH_BYTES_COUNT(M) M(3) M(4)
#endif
enum { LEAST_POSITIONS = HAS_VNNI ? 1 : 20 };
#if HAS_VNNI || HAS_FOURS
EACH_BYTES_COUNT(DEFINE_FOURS)
static const tile_fn fours_tiles[] = {EACH_BYTES_COUNT(NAME_FOURS)};
#endif
#if HAS_FOURS
EACH_BYTES_COUNT(DEFINE_EIGHTS)
static const tile_fn eights_tiles[] = {EACH_BYTES_COUNT(NAME_EIGHTS)};
#endif
/* clang-format on */

#if HAS_VNNI || HAS_FOURS
enum { BYTES_POSITIONS = sizeof fours_tiles / sizeof *fours_tiles };

static const tile_fn *bytes_tiles(int8_kind kind) {
#if HAS_FOURS
    if (kind == INT8_EIGHTS) return eights_tiles;
#endif
    (void)kind;
    return fours_tiles;
}
#endif

#if HAS_VNNI || HAS_FOURS
/* Four shorts of every lane as bytes, those of a first. */
VEC_INLINE vi bytes_of(vi a, vi b) {
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    return (vi)_mm512_shuffle_epi8(_mm512_packs_epi16((__m512i)a, (__m512i)b), order);
#elif HAS_FOURS
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    return (vi)_mm256_shuffle_epi8(_mm256_packs_epi16((__m256i)a, (__m256i)b), order);
#else
    return (a & 0xff) | (a >> 8 & 0xff00) | (b & 0xff) << 16 | (vi)((vu)b >> 16 << 24);
#endif
}

/* What the weights of a part were seen to be. */
typedef struct int8_seen {
    vi sums[PANEL_VECTORS];
    vi wild;                /* bits that only weights of more than a byte have */
    vi last[PANEL_VECTORS]; /* sizes of the word before, two by two */
    vi most_two, most_four; /* sizes of two and four weights, 16 bits each */
} int8_seen;

/* A vector of words: `is_second` with the word before it. */
VEC_INLINE void see(int8_seen *seen, int v, vi a, vi b, vi bytes, bool is_second) {
#if HAS_FOURS
    const __m256i middle = _mm256_set1_epi16(128);
    seen->wild |= (vi)_mm256_or_si256(_mm256_add_epi16((__m256i)a, middle),
                                      _mm256_add_epi16((__m256i)b, middle));
    const __m256i ones = _mm256_set1_epi8(1), size = _mm256_abs_epi8((__m256i)bytes);
    __m256i sizes = _mm256_maddubs_epi16(size, ones);
    __m256i sums = _mm256_maddubs_epi16(ones, (__m256i)bytes);
    seen->most_two = (vi)_mm256_max_epi16((__m256i)seen->most_two, sizes);
    seen->sums[v] += (vi)_mm256_madd_epi16(sums, _mm256_set1_epi16(1));
    if (is_second) {
        __m256i four = _mm256_add_epi16(sizes, (__m256i)seen->last[v]);
        seen->most_four = (vi)_mm256_max_epi16((__m256i)seen->most_four, four);
    }
    seen->last[v] = (vi)sizes;
#else
    /* The upper nine bits of what fits are equal. */
    seen->wild |= (a ^ a << 1) | (b ^ b << 1);
    add_products(&seen->sums[v], vi_set(0x01010101), bytes, INT8_FOURS);
    (void)is_second;
#endif
}

/* The best way for weights like these. */
static int8_kind kind_of(const int8_seen *seen) {
    if (!vi_all((seen->wild & (int32_t)0xff00ff00) == 0)) return INT8_PAIRS;
#if HAS_FOURS
    const __m256i limit = _mm256_set1_epi16(128);
    __m256i two = _mm256_cmpgt_epi16((__m256i)seen->most_two, limit);
    __m256i four = _mm256_cmpgt_epi16((__m256i)seen->most_four, limit);
    if (!_mm256_testz_si256(two, two)) return INT8_PAIRS;
    return _mm256_testz_si256(four, four) ? INT8_EIGHTS : INT8_FOURS;
#else
    return INT8_FOURS;
#endif
}

/* Weights of `taps` taps, [pairs][PANEL] of two shorts, as [(pairs + 1) / 2][PANEL] of four bytes,
 * which are walked in runs of `run` words; `start` is what takes the zero point out of their sums.
 * INT8_PAIRS: they have to stay shorts. */
static int8_kind narrow(const int16_t *from, int64_t taps, int64_t pairs, int64_t run, int32_t zero,
                        int32_t *to, int32_t *start) {
    const int32_t *w = (const int32_t *)(const void *)from;
    int8_seen seen = {0};
    int64_t at = 0;
    for (int64_t tap = 0; tap < taps; tap++) {
        for (int64_t j = 0; j < pairs; j += 2, w += 2 * PANEL, to += PANEL) {
            const bool is_two = j + 1 < pairs;
            for (int v = 0; v < PANEL_VECTORS; v++) {
                vi a = vi_load(w + v * VF), b = {0};
                if (is_two) b = vi_load(w + PANEL + v * VF);
                vi bytes = bytes_of(a, b);
                see(&seen, v, a, b, bytes, at % 2 == 1);
                vi_store(to + v * VF, bytes);
            }
            if (++at == run) at = 0;
            if (!is_two) w -= PANEL;
        }
    }
    for (int v = 0; v < PANEL_VECTORS; v++)
        vi_store(start + v * VF, seen.sums[v] * -zero);
    return kind_of(&seen);
}
#endif

#endif
