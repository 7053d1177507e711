/* SPDX-License-Identifier: Apache-2.0 */
/* The block of query rows that an item works on: queries as the products want them, keys and values
 * as f32, masks, and the way from scores to weights. */
#ifndef RLX_BACKEND_CPU_VEC_ATTENTION_BLOCK_H
#define RLX_BACKEND_CPU_VEC_ATTENTION_BLOCK_H

#include "backend/cpu/vec/attention_few.h"

/* Where an item works. All in the worker's own workspace. */
typedef struct block {
    const tiling *tiles;
    const rlx_attention *at;
    int64_t unit; /* whose rows these are; their queries stay packed from part to part */
    rlx_query_row rows[BLOCK_ROWS];
    int64_t row_count;
    int64_t panel;                    /* rows of the panel at hand */
    int64_t seen_first, seen_end;     /* keys that any row sees */
    int64_t common_first, common_end; /* keys that all rows see */
    int64_t batch, head;
    bool begins;      /* the sums: nothing is there to add to, and they are not cleared */
    bool skips_zeros; /* weights of 0 are not multiplied: slow, but values may be no numbers */
    float *queries;   /* [panels][depth][panel] */
    float *scores;    /* [keys of a tile][panel] */
    float *sums;      /* [rows][padded_width] */
    float *most;      /* [rows]: the largest score so far */
    float *total;     /* [rows]: sum of the weights */
    float *factor;    /* [panel]: of the sums so far, when a larger score comes */
    float *key_room, *value_room;
} block;

/* k and v as they lie, for few rows: f32 or a 16-bit type, elements side by side. */
static bool find_kind(const rlx_tensor *tensor, value_kind *out_kind) {
    *out_kind = tensor->dtype == RLX_DTYPE_F16    ? VALUES_F16
                : tensor->dtype == RLX_DTYPE_BF16 ? VALUES_BF16
                                                  : VALUES_F32;
    return tensor->strides[3] == 1 && (*out_kind != VALUES_F32 || tensor->dtype == RLX_DTYPE_F32);
}

/* Rows in the lanes for the panel that begins with row r: no more vectors than there are rows for.
 * Up to LINES rows beyond them go one by one. */
static int64_t panel_at(const block *self, int64_t r) {
    int64_t panel = self->tiles->panel, left = self->row_count - r, rest = left % VF;
    if (panel <= VF || left >= panel) return panel;
    if (rest > LINES || self->tiles->is_short) left += VF - 1;
    return left >= VF ? left / VF * VF : 1;
}

/* The row that is in lane r of a block: where there are no more the last one again. */
static const rlx_query_row *row_at(const block *self, int64_t r) {
    return &self->rows[rlx_ref_least(r, self->row_count - 1)];
}

/* Scaled queries for sums along the depth. Groups of 8 rows, or of 4 where there are no more, with
 * vectors of all rows of a group side by side; on wide levels chunks of all rows of a panel, or as
 * swap_in has them. Rows missing at the end are the last row again. */
VEC_OUTLINE void pack_along(const block *self) {
    const rlx_attention *at = self->at;
    int64_t stride = at->q->strides[3], length = IS_WIDE ? FEW_CHUNK : VF;
    bool lies = at->q->dtype == RLX_DTYPE_F32 && stride == 1;
    bool is_swapped = IS_WIDE && self->tiles->panel == 8;
    float part[VF];
    for (int64_t r = 0; r < self->tiles->rows; r++) {
        int64_t group = IS_WIDE ? self->tiles->panel : along_group(self->row_count, r);
        int64_t first = r / group * group, q = row_at(self, r)->q;
        float *to = self->queries + first * at->depth + (r - first) * length;
        float *room = self->key_room + r * at->depth; /* keys come later */
        for (int64_t d = 0; d < at->depth; d += VF) {
            const float *from = lies ? (const float *)at->q->data + q + d : part;
            if (!lies) vec_read_f32(at->q, q + d * stride, stride, VF, part);
            vf_store(is_swapped ? room + d : part, vf_load(from) * (float)at->scale);
            for (int64_t i = 0; i < VF && !is_swapped; i += length, to += group * length)
                memcpy(to, part + i, (size_t)length * sizeof *to);
        }
    }
    if (is_swapped) swap_in(self->key_room, at->depth, self->queries);
}

/* to[count][VF], vectors `apart`: `count` numbers of q, scaled, or of the mask for a vector of rows
 * from r on, `skip` elements behind where each begins. */
VEC_OUTLINE void turn_in(const block *self, const rlx_tensor *tensor, int64_t r, int64_t skip,
                         int64_t stride, int64_t count, float *to, int64_t apart) {
    int is_query = tensor == self->at->q;
    float scale = is_query ? (float)self->at->scale : 1;
    bool lies = tensor->dtype == RLX_DTYPE_F32 && stride == 1 && count >= VF;
    float part[VF][MOST_KEYS], turned[VF * VF];
    const float *from[VF];
    VEC_ROLLED for (int64_t i = 0; i < VF; i++) {
        const rlx_query_row *row = row_at(self, r + i);
        __asm__ volatile("" : "+r"(is_query)); /* one by one, and one loop for both */
        int64_t at = (is_query ? row->q : row->mask) + skip;
        from[i] = (const float *)tensor->data + at;
        if (lies) continue;
        from[i] = part[i];
        vec_read_f32(tensor, at, stride, count, part[i]);
    }
    float *into = count < VF ? turned : to; /* what lies beyond is anything */
    int64_t step = count < VF ? VF : apart;
    for (int64_t i = 0; i < count; i += VF) { /* the last ones once more with some before them */
        if (i > count - VF && count >= VF) i = count - VF;
        turn_rows(from, i, scale, into + i * step, step);
    }
    VEC_ROLLED for (int64_t i = 0; i < count && count < VF; i++)
        vf_store(to + i * apart, vf_load(turned + i * VF));
}

/* Scaled queries of a row alone. */
static void pack_line(const block *self, int64_t r) {
    const rlx_attention *at = self->at;
    float *to = self->queries + r * at->depth;
    vec_read_f32(at->q, self->rows[r].q, at->q->strides[3], at->depth, to);
    VEC_ROLLED for (int64_t d = 0; d < at->depth; d++) {
        to[d] *= (float)at->scale;
        __asm__ volatile(""); /* few: one by one */
    }
}

/* Scaled queries as the product with the keys wants them. */
VEC_OUTLINE void pack_queries(block *self) {
    const rlx_attention *at = self->at;
    int64_t stride = at->q->strides[3];
    if (self->tiles->is_along) {
        pack_along(self);
        return;
    }
    for (int64_t r = 0, panel; r < self->row_count; r += panel) {
        float *to = self->queries + r * at->depth;
        panel = panel_at(self, r);
        if (panel == 1) pack_line(self, r);
        for (int64_t i = 0; i + VF <= panel; i += VF) {
            for (int64_t d = 0; d < at->depth; d += TILE_KEYS) {
                turn_in(self, at->q, r + i, d * stride, stride,
                        rlx_ref_least(TILE_KEYS, at->depth - d), to + d * panel + i, panel);
            }
        }
    }
}

/* Rows [first, first + count) of k or v as f32, side by side, `padded` apart. */
VEC_OUTLINE void decode_rows(const rlx_tensor *tensor, int64_t base, int64_t first, int64_t count,
                             int64_t padded, float *out) {
    int64_t length = tensor->dims[3];
    bool is_half = tensor->strides[3] == 1 &&
                   (tensor->dtype == RLX_DTYPE_F16 || tensor->dtype == RLX_DTYPE_BF16);
    for (int64_t t = 0; t < count; t++, out += padded) {
        int64_t at = base + (first + t) * tensor->strides[2], i = 0;
        const uint16_t *from = (const uint16_t *)tensor->data + at;
        if (is_half && tensor->dtype == RLX_DTYPE_F16) {
            for (; i + VF <= length; i += VF)
                vf_store(out + i, vf_of_f16(vh_load(from + i)));
        } else if (is_half) {
            for (; i + VF <= length; i += VF)
                vf_store(out + i, vf_of_bf16(vh_load(from + i)));
        } else if (tensor->dtype == RLX_DTYPE_F32 && tensor->strides[3] == 1) {
            for (; i + VF <= length; i += VF)
                vf_store(out + i, vf_load((const float *)tensor->data + at + i));
        }
        if (i < length) {
            vec_read_f32(tensor, at + i * tensor->strides[3], tensor->strides[3], length - i,
                         out + i);
        }
        for (i = length; i < padded; i++)
            out[i] = 0;
    }
}

/* A tile of k or v: rows of f32, `stride` apart. */
static const float *tile_of(const rlx_tensor *tensor, bool in_place, int64_t base, int64_t first,
                            int64_t count, int64_t padded, float *room, int64_t *out_stride) {
    if (in_place) {
        *out_stride = tensor->strides[2];
        return (const float *)tensor->data + base + first * tensor->strides[2];
    }
    decode_rows(tensor, base, first, count, padded, room);
    *out_stride = padded;
    return room;
}

/* The additive mask of `count` keys from `first` on. */
VEC_OUTLINE void add_mask(const block *self, int64_t first_row, int64_t row_count, int64_t first,
                          int64_t count) {
    const rlx_tensor *mask = self->at->mask;
    const int64_t *strides = self->at->mask_strides;
    int64_t panel = self->panel, skip = first * strides[3];
    bool is_common = strides[1] == 0 && strides[2] == 0;
    float part[MOST_KEYS * VF];
    int64_t apart = VF;
    __asm__("" : "+r"(apart)); /* a constant would make a copy of turn_in */
    for (int64_t r = 0; r < row_count && panel < VF; r++) {
        vec_read_f32(mask, self->rows[first_row + r].mask + skip, strides[3], count, part);
        VEC_ROLLED for (int64_t t = 0; t < count; t++) {
            self->scores[t * panel + r] += part[t];
            __asm__ volatile(""); /* one by one: a vector would be taken apart */
        }
    }
    for (int64_t i = 0; i < row_count && panel >= VF; i += VF) {
        if (!is_common) {
            turn_in(self, mask, first_row + i, skip, strides[3], count, part, apart);
        } else if (i == 0) {
            vec_read_f32(mask, row_at(self, first_row)->mask + skip, strides[3], count, part);
        }
        VEC_ROLLED for (int64_t t = 0; t < count; t++) {
            float *score = self->scores + t * panel + i;
            vf more = is_common ? vf_set(part[t]) : vf_load(part + t * VF);
            vf_store(score, vf_load(score) + more);
        }
    }
}

/* s -> cap tanh(s / cap), as 1 - 2 / (e^(2 s / cap) + 1). */
VEC_OUTLINE void cap_scores(const block *self, int64_t count) {
    float cap = (float)self->at->softcap, twice = 2 / cap;
    for (int64_t i = 0; i < count * self->panel; i += VF) {
        vf e = vf_exp(vf_load(self->scores + i) * twice);
        vf_store(self->scores + i, cap - 2 * cap / (e + 1.0f));
    }
}

/* Keys that a row may not see get minus infinity. counts: the keys that any row of a vector of rows
 * sees; scores beyond them are not looked at. */
VEC_OUTLINE void hide_keys(const block *self, int64_t first_row, int64_t first, int64_t seen,
                           const int64_t *counts) {
    int64_t panel = self->panel;
    for (int64_t r = 0; IS_WIDE && panel < VF && first_row + r < self->row_count; r++) {
        const rlx_query_row *row = &self->rows[first_row + r];
        for (int64_t t = 0; t < seen; t++)
            if (first + t < row->first || first + t >= row->end)
                self->scores[t * panel + r] = -INFINITY;
    }
    for (int64_t i = 0; i + VF <= panel; i += VF) {
        int64_t count = counts[i / VF];
        union {
            vi v;
            int32_t lane[VF];
        } from, to;
        for (int64_t lane = 0; lane < VF; lane++) {
            const rlx_query_row *row = &self->rows[first_row + i + lane];
            int64_t low = row->first - first, high = row->end - first;
            from.lane[lane] = (int32_t)(low < 0 ? 0 : low > count ? count : low);
            to.lane[lane] = (int32_t)(high < 0 ? 0 : high > count ? count : high);
        }
        for (int64_t t = 0; t < count; t++) {
            float *score = self->scores + t * panel + i;
            vi now = vi_set((int32_t)t), is_seen = (now >= from.v) & (now < to.v);
            vf_store(score, vf_select(is_seen, vf_load(score), vf_set(-INFINITY)));
        }
    }
}

/* The largest of `count` scores `panel` apart, lane by lane, and of `top`. */
VEC_OUTLINE vf highest(const float *scores, int64_t panel, int64_t count, vf top) {
    vf a = top, b = top, c = top;
    int64_t t = 0;
    for (; t + 4 <= count; t += 4) {
        top = vf_max(vf_load(scores + t * panel), top);
        a = vf_max(vf_load(scores + (t + 1) * panel), a);
        b = vf_max(vf_load(scores + (t + 2) * panel), b);
        c = vf_max(vf_load(scores + (t + 3) * panel), c);
    }
    for (; t < count; t++)
        top = vf_max(vf_load(scores + t * panel), top);
    return vf_max(vf_max(top, a), vf_max(b, c));
}

/* scores = e^(scores - base); their sum. While one group is brought to its end the next one begins:
 * instructions of one exponential wait for each other. */
VEC_OUTLINE vf exponentials(float *scores, int64_t panel, int64_t count, vf base) {
    vf total = {0};
    exp_parts part[EXP_GROUP];
    int64_t t = 0;
    for (; IS_WIDE && t + EXP_GROUP <= count; t += EXP_GROUP) {
        VEC_UNROLLED for (int i = 0; i < EXP_GROUP; i++) {
            vf weight = weight_of(vf_load(scores + (t + i) * panel), base);
            vf_store(scores + (t + i) * panel, weight);
            total += weight;
        }
    }
    if (!IS_WIDE && count >= EXP_GROUP) {
        VEC_UNROLLED for (int i = 0; i < EXP_GROUP; i++) part[i] =
            exp_begin(vf_load(scores + i * panel) - base, EXP_ZERO, 0);
        for (bool is_last = false; !is_last; t += EXP_GROUP) {
            is_last = t + 2 * EXP_GROUP > count;
            const float *next = scores + (is_last ? t : t + EXP_GROUP) * panel;
            VEC_UNROLLED for (int i = 0; i < EXP_GROUP; i++) {
                vf weight = exp_end(part[i].r, part[i].scale);
                vf_store(scores + (t + i) * panel, weight);
                total += weight;
                part[i] = exp_begin(vf_load(next + i * panel) - base, EXP_ZERO, 0);
            }
        }
    }
    for (; t < count; t++) {
        vf weight = weight_of(vf_load(scores + t * panel), base);
        vf_store(scores + t * panel, weight);
        total += weight;
    }
    return total;
}

/* Scores become weights; the sums so far move to the new maximum. Where a panel is less than a
 * vector, several keys lie in one. */
static bool weigh(const block *self, int64_t first_row, int64_t seen, const int64_t *counts) {
    int64_t panel = self->panel, step = panel < VF ? VF : panel;
    vi is_same = ~(vi){0};
    for (int64_t i = 0; i < panel; i += VF) {
        float *most_at = self->most + first_row + i, *total_at = self->total + first_row + i;
        int64_t count = counts[i / VF];
        for (int64_t t = count; t < seen && panel >= VF; t++) /* rows beside them may see these */
            vf_store(self->scores + t * panel + i, vf_set(0));
        if (panel < VF) {
            count = rlx_ref_divide_up(seen * panel, VF);
            for (int64_t t = seen * panel; t < count * VF; t++)
                self->scores[t] = -INFINITY;
        }
        vf most = vf_load(most_at);
        vf top = few_highest(highest(self->scores + i, step, count, most), panel);
        /* nothing seen: no NaN of inf - inf */
        vf base = vf_select(top == -INFINITY, vf_set(0), top);
        vf factor = weight_of(most, base);
        vf total = few_sum(exponentials(self->scores + i, step, count, base), panel);
        is_same &= top == most;
        vf_store(most_at, top);
        vf_store(total_at, vf_load(total_at) * factor + total);
        vf_store(self->factor + i, factor);
    }
    return !vi_all(is_same);
}

/* Whether the first product with values makes sums from nothing. */
static bool begins_sums(const tiling *tiles) {
    return !IS_WIDE && !tiles->is_short;
}

static void clear_sums(const block *self, int64_t first_row, int64_t rows) {
    int64_t width = self->tiles->padded_width;
    memset(self->sums + first_row * width, 0, (size_t)(rows * width) * sizeof(float));
}

/* What is nothing beside a larger score counts as a weight of 0 does: not at all. */
VEC_OUTLINE void rescale(const block *self, int64_t first_row, int64_t row_count) {
    int64_t width = self->tiles->padded_width;
    for (int64_t r = 0; r < row_count; r++) {
        float *sums = self->sums + (first_row + r) * width, factor = self->factor[r];
        for (int64_t i = 0; factor != 1 && i < width; i += VF)
            vf_store(sums + i, factor == 0 ? vf_set(0) : vf_load(sums + i) * factor);
    }
}

#endif
