/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of up to a vector of rows with all lanes at work (wide levels): a vector has four rows
 * with FEW_CHUNK lanes each, a chunk of a key goes to all rows at once, and what is left to add up
 * at the end is a chunk, not a vector. Loads are the limit: an Ice Lake does
 * little more than one per turn of its two multiply-add units, and a chunk of one or two lanes
 * needs as many loads as products. Panels of eight rows, most of decode, have a way of their own:
 * swap_scores. */
#ifndef RLX_BACKEND_CPU_VEC_ATTENTION_FEW_H
#define RLX_BACKEND_CPU_VEC_ATTENTION_FEW_H

#include "backend/cpu/vec/attention.h"
#include "backend/cpu/vec/transpose.h"

/* Keys of a tile as they lie, and how they become scores. */
typedef struct few_keys {
    const char *rows; /* `count` of them, and where there are less than FEW_KEYS this many */
    int64_t stride;   /* bytes */
    int64_t count, depth;
    value_kind kind;
    float *room;  /* of two blocks of keys */
    int64_t asks; /* bytes that are asked for per turn; 0: rows that lie apart */
} few_keys;

#if RLX_VEC_BYTES == 64
#define FEW_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* The chunk at `k` for all rows. */
VEC_INLINE vf few_spread(const float *k) {
#if defined(__AVX512F__)
    return (vf)_mm512_broadcast_f32x4(_mm_loadu_ps(k));
#else
    vec_parts all;
    for (int i = 0; i < VF; i++)
        all.f[i] = k[i % FEW_CHUNK];
    return all.v;
#endif
}

/* Neighbours of a, then of b, added up; four lanes of the result are of the same four of both. */
VEC_INLINE vf few_fold(vf a, vf b) {
    return FEW_SHUFFLE(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
           FEW_SHUFFLE(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
}

/* out[4 keys][4 nr rows] of sum[4 keys][nr], where nr is 1 or 4. */
VEC_INLINE void few_store(vf sum[][4], float *out, const int nr) {
    vf z[4], y[4];
    for (int j = 0; j < nr; j++) /* a row's four keys side by side */
        z[j] = few_fold(few_fold(sum[0][j], sum[1][j]), few_fold(sum[2][j], sum[3][j]));
    if (nr == 1) {
        vf_store(out,
                 FEW_SHUFFLE(z[0], z[0], 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
        return;
    }
    for (int j = 0; j < nr; j += 2) {
        y[j] =
            FEW_SHUFFLE(z[j], z[j + 1], 0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
        y[j + 1] =
            FEW_SHUFFLE(z[j], z[j + 1], 2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
    }
    for (int i = 0; i < 2; i++) {
        vf_store(out + 2 * i * VF, FEW_SHUFFLE(y[i], y[i + 2], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18,
                                               19, 20, 21, 22, 23));
        vf_store(out + (2 * i + 1) * VF, FEW_SHUFFLE(y[i], y[i + 2], 8, 9, 10, 11, 12, 13, 14, 15,
                                                     24, 25, 26, 27, 28, 29, 30, 31));
    }
}

/* `count` vectors of f32, one of each row from `from` on. */
VEC_INLINE void few_decode(const char *from, int64_t stride, value_kind kind, float *to,
                           const int count) {
    __asm__("" : "+r"(kind)); /* or there would be a copy of the loop around for every kind */
    if (kind == VALUES_F16) {
        VEC_UNROLLED for (int i = 0; i < count; i++)
            vf_store(to + i * VF, value_load(from + i * stride, 0, VALUES_F16));
    } else if (kind == VALUES_BF16) {
        VEC_UNROLLED for (int i = 0; i < count; i++)
            vf_store(to + i * VF, value_load(from + i * stride, 0, VALUES_BF16));
    } else {
        VEC_UNROLLED for (int i = 0; i < count; i++)
            vf_store(to + i * VF, value_load(from + i * stride, 0, VALUES_F32));
    }
}

/* out[keys][4 nr] = k[depth / VF][keys][VF] times q[depth / 4][nr][4 rows][4]. The keys to come,
 * from `from` on, are decoded to `to` meanwhile. */
VEC_INLINE void few_block(const few_keys *self, const float *k, const float *q, float *out,
                          const char *from, float *to, ahead *next, const int keys, const int nr) {
    const char *asked = next->at;
    int64_t step = self->asks, stride = self->stride;
    int64_t back = (self->kind == VALUES_F32 ? 4 : 2) * VF - keys * stride;
    vf sum[FEW_KEYS][4];
    VEC_UNROLLED_MORE for (int i = 0; i < keys; i++) {
        for (int j = 0; j < nr; j++)
            sum[i][j] = vf_set(0);
    }
    for (int i = 0; i < keys && step == 0; i++)
        ask_row(next);
    for (int64_t d = 0; d < self->depth; d += VF, k += (keys - 1) * VF, from += back) {
        VEC_ROLLED for (int part = 0; part < VF; part += FEW_CHUNK) {
            vf query[4];
            for (int64_t line = 0; line < step; line += LINE)
                ask_line(asked + line, FURTHER);
            asked += step;
            few_decode(from, stride, self->kind, to, keys / 4);
            for (int j = 0; j < nr; j++)
                query[j] = vf_load(q + j * VF);
            VEC_UNROLLED_MORE for (int i = 0; i < keys; i++) {
                vf key = few_spread(k + i * VF);
                for (int j = 0; j < nr; j++)
                    vf_add_product(&sum[i][j], key, query[j]);
            }
            k += FEW_CHUNK, q += nr * VF;
            from += keys / 4 * stride, to += keys / 4 * VF;
        }
    }
    VEC_UNROLLED_MORE for (int i = 0; i < keys; i += 4) few_store(sum + i, out + i * nr * 4, nr);
    if (step != 0) next->at = asked;
}

/* All keys, `keys` at a time. The last ones are done once more with some before them. */
VEC_INLINE void few_blocks(const few_keys *self, const float *q, float *out, ahead *next,
                           const int keys, const int nr) {
    float *now = self->room, *then = now + keys * self->depth;
    const char *from = self->rows;
    for (int64_t d = 0, size = self->kind == VALUES_F32 ? 4 : 2; d < self->depth; d += VF)
        VEC_ROLLED for (int i = 0; i < keys; i++) few_decode(
            from + i * self->stride + d * size, 0, self->kind, now + d * keys + i * VF, 1);
    for (int64_t t = 0, following; t < self->count; t = following) {
        float *other = now;
        following = t + keys;
        if (following < self->count && following > self->count - keys)
            following = self->count - keys;
        if (following < self->count) from = self->rows + following * self->stride;
        few_block(self, now, q, out + t * nr * 4, from, then, next, keys, nr);
        now = then, then = other;
    }
}

/* Lane l ^ by is lane l of x. */
#define FEW_SWAP(x, by)                                                                     \
    FEW_SHUFFLE(x, x, 0 ^ (by), 1 ^ (by), 2 ^ (by), 3 ^ (by), 4 ^ (by), 5 ^ (by), 6 ^ (by), \
                7 ^ (by), 8 ^ (by), 9 ^ (by), 10 ^ (by), 11 ^ (by), 12 ^ (by), 13 ^ (by),   \
                14 ^ (by), 15 ^ (by))

/* Sums of eight rows: lane l of sum[j] is of row l ^ 2 j. */
VEC_INLINE vf few_eight(const vf *sum) {
    vf low = sum[0] + FEW_SWAP(sum[1], 2), high = sum[2] + FEW_SWAP(sum[3], 2);
    return low + FEW_SWAP(high, 4);
}

/* Queries rows[8][depth] for swap_scores, eight vectors for one of each row: lane l of vector n is
 * of row (l & 7) ^ (n & 6), and odd ones have neighbours swapped. */
VEC_INLINE void swap_in(const float *rows, int64_t depth, float *to) {
    const vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
    for (int64_t d = 0; d < depth; d += VF, to += 8 * VF) {
        vf x[8];
        VEC_UNROLLED for (int n = 0; n < 8; n++) x[n] = vf_load(rows + n * depth + d);
        VEC_UNROLLED for (int bit = 1; bit < 8; bit *= 2) {
            vi changes = (lane & bit) != 0;
            VEC_UNROLLED for (int n = 0; n < 8; n++) {
                vf a = x[n & ~bit], b = x[n | bit];
                if ((n & bit) != 0) continue;
                x[n] = vf_select(changes, b, a);
                x[n | bit] = vf_select(changes, a, b);
            }
        }
        VEC_UNROLLED for (int n = 0; n < 8; n++)
            vf_store(to + n * VF, n % 2 == 0 ? x[n] : FEW_SWAP(x[n], 1));
    }
}

/* A vector of each of SWAP_KEYS keys. */
VEC_INLINE void swap_load(vf *key, const char *k, int64_t stride, int64_t thrice, value_kind kind) {
    __asm__("" : "+r"(kind), "+r"(k));
    if (kind == VALUES_F16) {
        VEC_UNROLLED for (int i = 0; i < SWAP_KEYS; i++) key[i] =
            value_load(k + (i == 3 ? thrice : i * stride), 0, VALUES_F16);
    } else if (kind == VALUES_BF16) {
        VEC_UNROLLED for (int i = 0; i < SWAP_KEYS; i++) key[i] =
            value_load(k + (i == 3 ? thrice : i * stride), 0, VALUES_BF16);
    } else {
        VEC_UNROLLED for (int i = 0; i < SWAP_KEYS; i++) key[i] =
            value_load(k + (i == 3 ? thrice : i * stride), 0, VALUES_F32);
    }
}

/* out[count][8] of keys as they lie, SWAP_KEYS at a time; the last ones are done once more
 * with some before them. A vector of a key meets all rows twice, as it is and with neighbours
 * swapped: loads are of queries only, one for four products, and sums are of two lanes each to
 * begin with. */
VEC_OUTLINE void swap_scores(const few_keys *self, const float *queries, float *out, ahead *next) {
    const int64_t stride = self->stride, thrice = 3 * stride, step = self->asks;
    const int64_t size = self->kind == VALUES_F32 ? 4 : 2;
    const char *k = self->rows, *asked = next->at;
    vf key[SWAP_KEYS];
    swap_load(key, k, stride, thrice, self->kind);
    for (int64_t left = self->count, by; left > 0; left -= by, out += by * 8) {
        const float *q = queries;
        const char *end = k + self->depth * size;
        vf sum[SWAP_KEYS][4];
        by = left <= SWAP_KEYS ? left : left < 2 * SWAP_KEYS ? left - SWAP_KEYS : SWAP_KEYS;
        const char *following =
            left <= SWAP_KEYS ? k : k + by * stride; /* any keys after the last */
        if (step == 0) {
            for (int i = 0; i < SWAP_KEYS; i++)
                ask_row(next);
            asked = next->at;
        }
        VEC_UNROLLED for (int i = 0; i < SWAP_KEYS; i++) {
            for (int j = 0; j < 4; j++)
                sum[i][j] = vf_set(0);
        }
        VEC_ROLLED while (k != end) {
            vf then[SWAP_KEYS];
            for (int64_t line = 0; line < step; line += LINE)
                ask_line(asked + line, FURTHER);
            asked += step;
            k += VF * size;
            swap_load(then, k == end ? following : k, stride, thrice, self->kind);
            VEC_UNROLLED for (int j = 0; j < 4; j++) {
                vf query = vf_load(q + 2 * j * VF);
                for (int i = 0; i < SWAP_KEYS; i++)
                    vf_add_product(&sum[i][j], key[i], query);
            }
            for (int i = 0; i < SWAP_KEYS; i++)
                key[i] = FEW_SWAP(key[i], 1);
            VEC_UNROLLED for (int j = 0; j < 4; j++) {
                vf query = vf_load(q + (2 * j + 1) * VF);
                for (int i = 0; i < SWAP_KEYS; i++)
                    vf_add_product(&sum[i][j], key[i], query);
            }
            for (int i = 0; i < SWAP_KEYS; i++)
                key[i] = then[i];
            q += 8 * VF;
        }
        k = following;
        for (int i = 0; i < SWAP_KEYS; i += 2) {
            vf a = few_eight(sum[i]), b = few_eight(sum[i + 1]);
            vf_store(out + i * 8,
                     FEW_SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31) +
                         FEW_SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                                     23));
        }
    }
    next->at = asked;
}

/* out[count][panel]; there is room for whole blocks of keys. */
VEC_OUTLINE void few_scores(const few_keys *self, const float *q, float *out, int64_t panel,
                            ahead *next) {
    if (panel == 8) {
        swap_scores(self, q, out, next);
    } else if (panel == 4) {
        few_blocks(self, q, out, next, FEW_KEYS, 1);
    } else {
        few_blocks(self, q, out, next, 4, 4);
    }
}

/* The largest, or the sum, of lanes `panel` (4, 8 or VF) apart, in all of them. */
VEC_INLINE vf few_highest(vf x, int64_t panel) {
    if (panel <= 8)
        x = vf_max(FEW_SHUFFLE(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7), x);
    if (panel <= 4)
        x = vf_max(FEW_SHUFFLE(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11), x);
    return x;
}
VEC_INLINE vf few_sum(vf x, int64_t panel) {
    if (panel <= 8) x += FEW_SHUFFLE(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    if (panel <= 4) x += FEW_SHUFFLE(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    return x;
}

/* Lane i of row j changes places with lane j of row i. */
VEC_INLINE void turn(vf *a) {
    vf b[VF];
    /* Four times every row is interleaved with the one half the block away. */
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < VF / 2; i++) {
            b[2 * i] = FEW_SHUFFLE(a[i], a[i + VF / 2], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                   22, 7, 23);
            b[2 * i + 1] = FEW_SHUFFLE(a[i], a[i + VF / 2], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                       13, 29, 14, 30, 15, 31);
        }
        memcpy(a, b, sizeof b);
    }
}
#else
/* The next two are never called, and there is nothing for two more to do. */
VEC_INLINE void swap_in(const float *rows, int64_t depth, float *to) {
    (void)rows, (void)depth, (void)to;
}
VEC_INLINE void few_scores(const few_keys *self, const float *q, float *out, int64_t panel,
                           ahead *next) {
    (void)self, (void)q, (void)out, (void)panel, (void)next;
}
VEC_INLINE vf few_highest(vf x, int64_t panel) {
    (void)panel;
    return x;
}
VEC_INLINE vf few_sum(vf x, int64_t panel) {
    (void)panel;
    return x;
}
/* As above. */
VEC_INLINE void turn(vf *a) {
#if RLX_VEC_BYTES == 32
    vt4 b[VF];
    VEC_UNROLLED for (int i = 0; i < VF; i++) b[i] = (vt4)a[i];
    vec_turn4(b);
    VEC_UNROLLED for (int i = 0; i < VF; i++) a[i] = (vf)b[i];
#else
    vf b[VF];
    for (int i = 0; i < VF; i++)
        for (int j = 0; j < VF; j++)
            b[i][j] = a[j][i];
    memcpy(a, b, sizeof b);
#endif
}
#endif

/* VF numbers, scaled, of each of VF rows; number i of all rows is vector i of `to`, `into` apart.
 */
VEC_INLINE void turn_rows(const float *const *from, int64_t at, float scale, float *to,
                          int64_t into) {
    vf a[VF];
    VEC_UNROLLED_MORE for (int i = 0; i < VF; i++) a[i] = vf_load(from[i] + at) * scale;
    turn(a);
    VEC_UNROLLED_MORE for (int i = 0; i < VF; i++) vf_store(to + i * into, a[i]);
}

#endif
