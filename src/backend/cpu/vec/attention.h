/* SPDX-License-Identifier: Apache-2.0 */
/* The two products of attention on one panel of rows and one tile of keys, register-blocked. */
#ifndef RLX_BACKEND_CPU_VEC_ATTENTION_H
#define RLX_BACKEND_CPU_VEC_ATTENTION_H

#include "backend/cpu/vec/convert.h"
#include "backend/cpu/vec/sum_four.h"
#include "backend/cpu/vec/vec_exp.h"
#include "backend/cpu/vec/vec_math.h"
#include "ref/attention.h"

#include <math.h>

/* Multiples of both panel widths, and of the 6 or 12 keys of a register block: rows of a block at
 * most, keys of a tile, of one for few rows, and of one that saves another with few keys. */
enum {
    BLOCK_ROWS = 96,
    TILE_KEYS = 96,
    LONG_KEYS = 288,
    MOST_KEYS = 132,
    EXP_GROUP = RLX_VEC_BYTES == 32 ? 2 : 4,
    LINE = 64,
    LINES = 2,
    FURTHER = 2048
};

/* Kept apart, so that registers are shared out for one product at a time. */
#define VEC_OUTLINE static __attribute__((noinline))
/* What runs for odd numbers only: small rather than fast. Callers count as seldom where they always
 * come here. */
#define VEC_SELDOM static __attribute__((noinline, cold))

/* Two turns in one: less to do beside the products, which counts where two threads share a core. */
#if defined(__clang__)
#define VEC_TWICE _Pragma("clang loop unroll_count(2)")
#else
#define VEC_TWICE _Pragma("GCC unroll 2")
#endif

/* How the rows of v lie. */
typedef enum value_kind { VALUES_F32, VALUES_F16, VALUES_BF16 } value_kind;

/* With 32 registers of 16 lanes sums of 8 keys x 3 vectors of rows fit, or of 6 rows x 4 vectors of
 * values; this is called wide. Where rows are few FEW_KEYS go by together, by chunks of their
 * depth, or SWAP_KEYS by vectors: attention_few.h. */
enum {
    IS_WIDE = VF >= 16,
    PANEL_VECTORS = IS_WIDE ? 3 : 2,
    FEW_KEYS = 12,
    FEW_CHUNK = 4,
    SWAP_KEYS = 4
};

/* How a call is cut: from dims and strides alone. */
typedef struct tiling {
    int64_t panel;               /* rows in the lanes: one to three vectors; 1: a row alone */
    int64_t chunk;               /* lanes of a row: 1 or FEW_CHUNK */
    int64_t keys;                /* of a tile but the last */
    int64_t block;               /* rows of a block but the last */
    int64_t rows;                /* the same in whole vectors or panels */
    int64_t padded_width;        /* Dv in whole vectors */
    bool k_in_place, v_in_place; /* the rows can be used as they lie */
    bool is_short;               /* one panel: memory is the limit */
    bool is_along;               /* and its scores are sums along the depth: see line_block */
    value_kind kind;             /* other than f32: decoded where they are used */
} tiling;

/* out[mr][nr vectors] = mr rows of keys times q[depth][nr vectors], rows of both `panel` apart. mr
 * and nr are constants of the caller, so the sums live in registers. Three rows share a pointer:
 * base + 0, 1, 2 strides are addresses of one instruction, and the compiler is kept from finding
 * more of them. */
VEC_INLINE void score_block(const float *k, int64_t stride, const float *q, int64_t panel,
                            int64_t depth, float *out, const int mr, const int nr) {
    const float *row[6];
    vf sum[16][3];
    for (int i = 0; i < mr; i += 3) {
        row[i / 3] = k + i * stride;
        __asm__("" : "+r"(row[i / 3]));
    }
    for (int i = 0; i < mr; i++)
        for (int j = 0; j < nr; j++)
            sum[i][j] = vf_set(0);
    for (int64_t d = 0; d < depth; d++, q += panel) {
        vf query[3];
        for (int j = 0; j < nr; j++)
            query[j] = vf_load(q + j * VF);
        for (int i = 0; i < mr; i++) {
            vf key = vf_set(row[i / 3][i % 3 * stride]);
            for (int j = 0; j < nr; j++)
                sum[i][j] = vf_fma(key, query[j], sum[i][j]);
        }
        for (int i = 0; i < mr; i += 3)
            row[i / 3]++;
    }
    for (int i = 0; i < mr; i++)
        for (int j = 0; j < nr; j++)
            vf_store(out + i * panel + j * VF, sum[i][j]);
}

/* Keys that fill no block of mr, or of `less` where there are no more, are done once more with some
 * before them: a few sums alone wait for each other. The score of a key is the same in every block.
 */
VEC_INLINE void score_blocks(const float *k, int64_t stride, const float *q, int64_t panel,
                             int64_t depth, int64_t count, float *out, const int mr, const int less,
                             const int nr) {
    int64_t t = 0;
    for (; count - t > less && count >= mr; t += mr) {
        if (t > count - mr) t = count - mr;
        score_block(k + t * stride, stride, q, panel, depth, out + t * panel, mr, nr);
    }
    for (; t < count && count >= less; t += less) {
        if (t > count - less) t = count - less;
        score_block(k + t * stride, stride, q, panel, depth, out + t * panel, less, nr);
    }
    for (; t < count; t++)
        score_block(k + t * stride, stride, q, panel, depth, out + t * panel, 1, nr);
}

#define MAKE_SCORES(nr, mr, less)                                                                \
    VEC_OUTLINE void make_scores_##nr(const float *k, int64_t stride, const float *q,            \
                                      int64_t panel, int64_t depth, int64_t count, float *out) { \
        score_blocks(k, stride, q, IS_WIDE ? panel : (nr)*VF, depth, count, out, mr, less, nr);  \
    }
MAKE_SCORES(1, IS_WIDE ? 16 : 12, 4)
MAKE_SCORES(2, IS_WIDE ? 8 : 6, IS_WIDE ? 4 : 3)
MAKE_SCORES(3, 8, 4)

/* out[count][nr vectors] = keys[count][depth] times q[depth][nr vectors]. */
static void make_scores(const float *k, int64_t stride, const float *q, int64_t panel,
                        int64_t depth, int64_t count, int64_t nr, float *out) {
    if (nr == 1) {
        make_scores_1(k, stride, q, panel, depth, count, out);
    } else if (nr == 2 || !IS_WIDE) {
        make_scores_2(k, stride, q, panel, depth, count, out);
    } else {
        make_scores_3(k, stride, q, panel, depth, count, out);
    }
}

/* sums[mr][nr vectors] = what they were + weights[count][panel], of which mr lanes, times
 * v[count][nr vectors]. */
VEC_INLINE void value_block(const float *weights, int64_t panel, const float *v, int64_t stride,
                            int64_t count, const float *from, int64_t from_width, float *sums,
                            int64_t width, const int mr, const int nr) {
    vf sum[8][3];
    for (int i = 0; i < mr; i++)
        for (int j = 0; j < nr; j++)
            sum[i][j] = vf_load(from + i * from_width + j * VF);
    VEC_TWICE for (int64_t t = 0; t < count; t++, weights += panel, v += stride) {
        vf value[3];
        for (int j = 0; j < nr; j++)
            value[j] = vf_load(v + j * VF);
        for (int i = 0; i < mr; i++)
            for (int j = 0; j < nr; j++)
                sum[i][j] = vf_fma(vf_set(weights[i]), value[j], sum[i][j]);
    }
    for (int i = 0; i < mr; i++)
        for (int j = 0; j < nr; j++)
            vf_store(sums + i * width + j * VF, sum[i][j]);
}

/* How many rows go together where `left` are left: sixes, since more sums do not wait for each
 * other, and fours. Fills up with rows of the panel that do not exist. */
VEC_INLINE int64_t rows_together(int64_t left) {
    return left == 5 || left == 6 || left > 8 ? 6 : 4;
}

#define VALUE_ROWS(mr, nr)                                                               \
    value_block(weights + r, panel, v, stride, count, from + r * from_width, from_width, \
                sums + r * width, width, mr, nr)
#define VALUE_COLUMNS(nr, most)                                                             \
    VEC_OUTLINE void value_columns_##nr(                                                    \
        const float *weights, int64_t panel, int64_t rows, const float *v, int64_t stride,  \
        int64_t count, const float *from, int64_t from_width, float *sums, int64_t width) { \
        for (int64_t r = 0; r < rows;) {                                                    \
            if ((most) == 8 ? VF >= 8 || rows - r > 4                                       \
                            : (most) == 6 && rows_together(rows - r) == 6) {                \
                VALUE_ROWS(most, nr);                                                       \
                r += (most);                                                                \
            } else {                                                                        \
                VALUE_ROWS(4, nr);                                                          \
                r += 4;                                                                     \
            }                                                                               \
        }                                                                                   \
    }
VALUE_COLUMNS(1, 8)
VALUE_COLUMNS(2, 6)
VALUE_COLUMNS(3, 4)

/* sums[rows][width] += weights^T v, or = where they begin; the columns of v go in as equal parts as
 * threes allow. */
static void add_values(const float *weights, int64_t panel, int64_t rows, const float *v,
                       int64_t stride, int64_t count, int64_t width, float *sums, bool begins) {
    static const float none[3 * VF];
    int64_t vectors = width / VF, parts = (vectors + 2) / 3, from_width = begins ? 0 : width;
    for (int64_t part = 0, j = 0; part < parts; part++) {
        int64_t n = (vectors - j + parts - part - 1) / (parts - part), at = j * VF;
        const float *from = begins ? none : sums + at;
        (n == 3   ? value_columns_3
         : n == 2 ? value_columns_2
                  : value_columns_1)(weights, panel, rows, v + at, stride, count, from, from_width,
                                     sums + at, width);
        j += n;
    }
}

VEC_INLINE vf value_load(const void *v, int64_t at, const value_kind kind) {
    if (kind == VALUES_F16) return vf_of_f16(vh_load((const uint16_t *)v + at));
    if (kind == VALUES_BF16) return vf_of_bf16(vh_load((const uint16_t *)v + at));
    return vf_load((const float *)v + at);
}

/* Rows that a loop asks for on its way: those of the next product come while this one is computed,
 * so both fit into the first cache. A turn of the loop is six multiply-adds long, so it asks
 * without looking whether a line is due: once more for a line that is there costs less than a
 * branch. */
typedef struct ahead {
    const char *at;  /* what comes next */
    int64_t step;    /* from row to row, or from turn to turn */
    int64_t further; /* what is asked for as well: about FURTHER on, or a line of the next tile */
    int64_t last;    /* where the last line of a row begins */
    const char *row; /* the first one, where each pass asks for one line of every row; else NULL */
    int64_t line;    /* of the next pass */
    int64_t passes;  /* until `further` is `then`; 0: never */
    int64_t then;
} ahead;

/* Rows side by side are asked for in equal steps over all passes. */
VEC_INLINE void begin_pass(ahead *next) {
    if (next->row == NULL) return;
    next->at = next->row + next->line;
    next->line = next->line < next->last ? next->line + LINE : 0;
    if (next->passes > 0 && --next->passes == 0) next->further = next->then;
}

/* A line, and one further on, for the second cache: the processor's own prefetches end with a page
 * of 4 KiB, and begin late in the next. */
VEC_INLINE void ask_line(const char *at, int64_t further) {
    __builtin_prefetch(at);
    if (IS_WIDE) __builtin_prefetch(at + further, 0, 2);
}

/* A whole row. */
VEC_INLINE void ask_row(ahead *next) {
    for (int64_t line = 0; line <= next->last; line += LINE)
        __builtin_prefetch(next->at + line);
    next->at += next->step;
}

/* sums[mr][nr vectors] += weights[count][panel] v[count][nr vectors], values decoded as they come.
 * Wide: the sums take their factor on the way. */
VEC_INLINE void short_block(const float *weights, int64_t panel, const float *factor, const void *v,
                            int64_t stride, int64_t count, float *sums, int64_t width, ahead *next,
                            const int mr, const int nr, const value_kind kind) {
    const char *asked;
    vf sum[8][4];
    begin_pass(next);
    asked = next->at;
    const int64_t step = next->step, further = next->further;
    for (int i = 0; i < mr; i++) {
        for (int j = 0; j < nr; j++) {
            sum[i][j] = vf_load(sums + i * width + j * VF);
            if (IS_WIDE) sum[i][j] *= factor[i];
        }
    }
    int64_t t = 0, at = 0;
    do { /* there is a key */
        vf value[4];
        ask_line(asked, further);
        asked += step;
        for (int j = 0; j < nr; j++)
            value[j] = value_load(v, at + j * VF, kind);
        for (int i = 0; i < mr; i++) {
            vf weight = vf_set(weights[i]);
            for (int j = 0; j < nr; j++)
                vf_add_product(&sum[i][j], weight, value[j]);
        }
        weights += panel, at += stride;
    } while (++t < count);
    for (int i = 0; i < mr; i++)
        for (int j = 0; j < nr; j++)
            vf_store(sums + i * width + j * VF, sum[i][j]);
    next->at = asked;
}

/* The weights of a panel's rows. */
typedef struct weighed {
    const float *weights; /* [count][panel] */
    const float *factor;  /* of the sums, a row each */
    int64_t panel, rows, count;
    bool is_same;                     /* all rows see `count` keys; else: */
    int32_t seen[PANEL_VECTORS * VF]; /* how many each of them sees */
} weighed;

/* Keys for `mr` rows from r on; the first one in any case, its weight is 0 where it is not seen. */
VEC_OUTLINE int64_t weighed_count(const weighed *by, int64_t r, int64_t mr) {
    int32_t most = 1;
    if (by->is_same) return by->count;
    for (int64_t i = r; i < r + mr && i < by->rows; i++)
        if (by->seen[i] > most) most = by->seen[i];
    return most;
}

/* All rows of a panel and nr vectors of columns. */
VEC_INLINE void short_columns(const weighed *by, const void *v, int64_t stride, float *sums,
                              int64_t width, ahead *next, const int nr, const value_kind kind) {
    const int more = kind == VALUES_F32 ? 6 : 8;
    int64_t r = 0;
    while (IS_WIDE && r < by->rows) {
        int64_t left = by->rows - r; /* with f32 more columns fit beside sixes */
        if (kind != VALUES_F32 ? left > 4 : rows_together(left) == more) {
            short_block(by->weights + r, by->panel, by->factor + r, v, stride,
                        weighed_count(by, r, more), sums + r * width, width, next, more, nr, kind);
            r += more;
        } else {
            short_block(by->weights + r, by->panel, by->factor + r, v, stride,
                        weighed_count(by, r, 4), sums + r * width, width, next, 4, nr, kind);
            r += 4;
        }
    }
    if (IS_WIDE) return;
    for (; r + 4 <= by->rows; r += 4)
        short_block(by->weights + r, by->panel, by->factor + r, v, stride, by->count,
                    sums + r * width, width, next, 4, nr, kind);
    for (; r < by->rows; r++)
        short_block(by->weights + r, by->panel, by->factor + r, v, stride, by->count,
                    sums + r * width, width, next, 1, nr, kind);
}

#define SHORT_VALUES(name, kind)                                                         \
    VEC_OUTLINE void name(const weighed *by, const void *v, int64_t stride, float *sums, \
                          int64_t width, int64_t nr, ahead *next) {                      \
        if (IS_WIDE && nr == 4 && (kind) == VALUES_F32) {                                \
            short_columns(by, v, stride, sums, width, next, 4, kind);                    \
        } else if ((!IS_WIDE || (kind) == VALUES_F32) && nr == 3) {                      \
            short_columns(by, v, stride, sums, width, next, 3, kind);                    \
        } else if (nr == 2) {                                                            \
            short_columns(by, v, stride, sums, width, next, 2, kind);                    \
        } else {                                                                         \
            short_columns(by, v, stride, sums, width, next, 1, kind);                    \
        }                                                                                \
    }
SHORT_VALUES(short_values_f32, VALUES_F32)
SHORT_VALUES(short_values_f16, VALUES_F16)
SHORT_VALUES(short_values_bf16, VALUES_BF16)

/* scores[count][panel], of which mr rows: keys are vectors along the depth and are decoded as they
 * come, once for mr rows of queries q[depth / VF][mr][VF]. mr is 8 with one key at a time or 4 with
 * two; depth is not 0: the first products begin the sums. */
VEC_INLINE void along_block(const void *k, int64_t stride, const float *q, int64_t depth,
                            int64_t count, int64_t panel, float *out, ahead next, const int mr,
                            const value_kind kind) {
    const int keys = 8 / mr;
    for (int64_t t = 0, at = 0; t < count; t += keys, at += keys * stride, out += keys * panel) {
        const float *query = q;
        float both[8];
        vf sum[8];
        int64_t second = mr == 4 && t + 1 < count ? stride : 0; /* past the end: the last again */
        vf key = value_load(k, at, kind), other = key;
        if (mr == 4) other = value_load(k, at + second, kind);
        for (int i = 0; i < 8; i++)
            sum[i] = (mr == 4 && i >= 4 ? other : key) * vf_load(query + i % mr * VF);
        for (int i = 0; i < keys; i++)
            ask_row(&next);
        for (int64_t d = VF; d < depth; d += VF) {
            query += mr * VF;
            key = other = value_load(k, at + d, kind);
            if (mr == 4) other = value_load(k, at + second + d, kind);
            for (int i = 0; i < 8; i++)
                sum[i] =
                    vf_fma(mr == 4 && i >= 4 ? other : key, vf_load(query + i % mr * VF), sum[i]);
        }
        if (mr == 8) {
            sum_eight(sum, out);
        } else {
            sum_eight(sum, both);
            memcpy(out, both, 4 * sizeof *out);
            if (second != 0) memcpy(out + panel, both + 4, 4 * sizeof *out);
        }
    }
}

/* Rows in the group of row r: eights, then fours. */
VEC_INLINE int64_t along_group(int64_t rows, int64_t r) {
    return r / 8 * 8 + 4 < rows ? 8 : 4;
}

#define ALONG_SCORES(name, kind)                                                                \
    VEC_OUTLINE void name(const void *k, int64_t stride, const float *q, int64_t depth,         \
                          int64_t rows, int64_t count, int64_t panel, float *out, ahead next) { \
        int64_t r = 0;                                                                          \
        for (; r + 4 < rows; r += 8)                                                            \
            along_block(k, stride, q + r * depth, depth, count, panel, out + r, next, 8, kind); \
        for (; r < rows; r += 4)                                                                \
            along_block(k, stride, q + r * depth, depth, count, panel, out + r, next, 4, kind); \
    }
ALONG_SCORES(along_scores_f32, VALUES_F32)
ALONG_SCORES(along_scores_f16, VALUES_F16)
ALONG_SCORES(along_scores_bf16, VALUES_BF16)

/* One row alone (panel 1): keys are vectors along the depth, scores lie side by side. */
VEC_INLINE vf value_load_n(const void *v, int64_t at, int64_t n, const value_kind kind) {
    if (kind == VALUES_F16) return vf_of_f16(vh_load_n((const uint16_t *)v + at, n));
    if (kind == VALUES_BF16) return vf_of_bf16(vh_load_n((const uint16_t *)v + at, n));
    return vf_load_n((const float *)v + at, n);
}

VEC_INLINE void line_scores_of(const void *k, int64_t stride, const float *q, int64_t depth,
                               int64_t count, float *out, ahead next, const value_kind kind) {
    for (int64_t t = 0; t < count; t += 4) {
        int64_t at[4], d = 0;
        vf sum[4];
        for (int i = 0; i < 4; i++)
            ask_row(&next);
        for (int i = 0; i < 4; i++) { /* past the end: the last key again */
            at[i] = (t + i < count ? t + i : count - 1) * stride;
            sum[i] = vf_set(0);
        }
        for (; d + VF <= depth; d += VF) {
            vf query = vf_load(q + d);
            for (int i = 0; i < 4; i++)
                sum[i] = vf_fma(value_load(k, at[i] + d, kind), query, sum[i]);
        }
        for (int i = 0; d < depth && i < 4; i++) {
            vf key = value_load_n(k, at[i] + d, depth - d, kind);
            sum[i] = vf_fma(key, vf_load_n(q + d, depth - d), sum[i]);
        }
        sum_four(sum, out + t);
    }
}

VEC_OUTLINE void line_scores(const void *k, int64_t stride, const float *q, int64_t depth,
                             int64_t count, float *out, ahead next, value_kind kind) {
    if (kind == VALUES_F16) {
        line_scores_of(k, stride, q, depth, count, out, next, VALUES_F16);
    } else if (kind == VALUES_BF16) {
        line_scores_of(k, stride, q, depth, count, out, next, VALUES_BF16);
    } else {
        line_scores_of(k, stride, q, depth, count, out, next, VALUES_F32);
    }
}

/* sums[nr vectors] += weights[count] v[count][nr vectors]. */
VEC_INLINE void line_block(const float *weights, const void *v, int64_t stride, int64_t count,
                           float *sums, ahead *next, const int nr, const value_kind kind) {
    ahead now = *next;
    vf sum[8];
    for (int j = 0; j < nr; j++)
        sum[j] = vf_load(sums + j * VF);
    for (int64_t t = 0, at = 0; t < count; t++, at += stride) {
        vf weight = vf_set(weights[t]);
        if (nr > 1) ask_row(&now);
        for (int j = 0; j < nr; j++)
            sum[j] = vf_fma(weight, value_load(v, at + j * VF, kind), sum[j]);
    }
    for (int j = 0; j < nr; j++)
        vf_store(sums + j * VF, sum[j]);
    next->at = now.at;
    next->last = -1; /* columns to come need not ask again */
}

VEC_INLINE void line_values_of(const float *weights, const void *v, int64_t stride, int64_t count,
                               float *sums, int64_t width, ahead next, const value_kind kind) {
    const char *from = v;
    int64_t i = 0, size = kind == VALUES_F32 ? 4 : 2;
    for (; i + 8 * VF <= width; i += 8 * VF)
        line_block(weights, from + i * size, stride, count, sums + i, &next, 8, kind);
    for (; i + VF <= width; i += VF)
        line_block(weights, from + i * size, stride, count, sums + i, &next, 1, kind);
    if (i == width) return;
    vf sum = vf_load(sums + i); /* padded */
    for (int64_t t = 0; t < count; t++)
        sum = vf_fma(vf_set(weights[t]), value_load_n(v, t * stride + i, width - i, kind), sum);
    vf_store(sums + i, sum);
}

VEC_OUTLINE void line_values(const float *weights, const void *v, int64_t stride, int64_t count,
                             float *sums, int64_t width, ahead next, value_kind kind) {
    if (kind == VALUES_F16) {
        line_values_of(weights, v, stride, count, sums, width, next, VALUES_F16);
    } else if (kind == VALUES_BF16) {
        line_values_of(weights, v, stride, count, sums, width, next, VALUES_BF16);
    } else {
        line_values_of(weights, v, stride, count, sums, width, next, VALUES_F32);
    }
}

#endif
