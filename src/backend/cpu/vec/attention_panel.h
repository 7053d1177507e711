/* SPDX-License-Identifier: Apache-2.0 */
/* What one panel of query rows, or a row alone, does with one tile of keys: scores, masks, the
 * running softmax, the product with the values. Part of attention.c; knows nothing of items. */
#ifndef RLX_BACKEND_CPU_VEC_ATTENTION_PANEL_H
#define RLX_BACKEND_CPU_VEC_ATTENTION_PANEL_H

#include "backend/cpu/vec/attention.h"

/* Where an item works. All in the worker's own workspace. */
typedef struct block {
    const tiling *tiles;
    const rlx_attention *at;
    int64_t unit; /* whose rows these are; their queries stay packed from part to part */
    rlx_query_row rows[BLOCK_ROWS];
    int64_t row_count;
    int64_t seen_first, seen_end; /* keys that any row sees */
    int64_t batch, head;
    float *queries; /* [panels][depth][panel] */
    float *scores;  /* [TILE_KEYS][panel] */
    float *sums;    /* [rows][padded_width] */
    float *most;    /* [rows]: the largest score so far */
    float *total;   /* [rows]: sum of the weights */
    float *factor;  /* [panel]: of the sums so far, when a larger score comes */
    float *key_room, *value_room;
} block;

/* Scaled queries in groups of 8 rows, or of 4 where there are no more, vectors along the depth of
 * all rows of a group side by side. */
VEC_OUTLINE void pack_along(block *self) {
    const rlx_attention *at = self->at;
    int64_t stride = at->q->strides[3];
    bool lies = at->q->dtype == RLX_DTYPE_F32 && stride == 1;
    float part[VF];
    for (int64_t r = 0; r < self->tiles->rows; r++) {
        int64_t group = along_group(self->row_count, r), first = r / group * group;
        float *to = self->queries + first * at->depth + (r - first) * VF;
        for (int64_t d = 0; d < at->depth; d += VF, to += group * VF) {
            const float *from = part;
            if (r >= self->row_count) {
                memset(part, 0, sizeof part);
            } else if (lies) {
                from = (const float *)at->q->data + self->rows[r].q + d;
            } else {
                vec_read_f32(at->q, self->rows[r].q + d * stride, stride, VF, part);
            }
            vf_store(to, vf_load(from) * (float)at->scale);
        }
    }
}

/* Scaled queries with the rows in the lanes. Rows that do not exist are zero. */
VEC_OUTLINE void pack_queries(block *self) {
    const rlx_attention *at = self->at;
    int64_t panel = self->tiles->panel;
    float part[TILE_KEYS];
    if (self->tiles->is_along) {
        pack_along(self);
        return;
    }
    for (int64_t r = 0; r < self->tiles->rows; r++) {
        float *to = self->queries + r / panel * panel * at->depth + r % panel;
        for (int64_t d = 0; d < at->depth; d += TILE_KEYS) {
            int64_t count = rlx_ref_least(TILE_KEYS, at->depth - d), stride = at->q->strides[3];
            memset(part, 0, sizeof part);
            if (r < self->row_count) {
                vec_read_f32(at->q, self->rows[r].q + d * stride, stride, count, part);
            }
            VEC_ROLLED for (int64_t i = 0; i < count; i++) {
                to[(d + i) * panel] = part[i] * (float)at->scale;
                __asm__ volatile(""); /* one by one: a vector would be taken apart, in 10 KB */
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
    const rlx_attention *at = self->at;
    int64_t panel = self->tiles->panel, stride = at->mask_strides[3];
    bool is_common = at->mask_strides[1] == 0 && at->mask_strides[2] == 0 && panel > 1;
    float part[TILE_KEYS];
    for (int64_t r = 0; r < (is_common ? 1 : row_count); r++) {
        int64_t offset = self->rows[first_row + r].mask + first * stride;
        vec_read_f32(at->mask, offset, stride, count, part);
        if (is_common) break;
        for (int64_t t = 0; t < count; t++)
            self->scores[t * panel + r] += part[t];
    }
    for (int64_t t = 0; is_common && t < count; t++) {
        for (int64_t i = 0; i < panel; i += VF) {
            float *score = self->scores + t * panel + i;
            vf_store(score, vf_load(score) + part[t]);
        }
    }
}

/* s -> cap tanh(s / cap), as 1 - 2 / (e^(2 s / cap) + 1). */
VEC_OUTLINE void cap_scores(const block *self, int64_t count) {
    float cap = (float)self->at->softcap, twice = 2 / cap;
    for (int64_t i = 0; i < count * self->tiles->panel; i += VF) {
        vf e = vf_exp(vf_load(self->scores + i) * twice);
        vf_store(self->scores + i, cap - 2 * cap / (e + 1.0f));
    }
}

/* Keys that a row may not see get minus infinity. */
VEC_OUTLINE void hide_keys(const block *self, int64_t first_row, int64_t first, int64_t count) {
    int64_t panel = self->tiles->panel;
    for (int64_t i = 0; i < panel; i += VF) {
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
    if (count >= EXP_GROUP) {
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
        vf weight = exp_or_zero(vf_load(scores + t * panel) - base);
        vf_store(scores + t * panel, weight);
        total += weight;
    }
    return total;
}

/* Scores become weights; the sums so far move to the new maximum. */
static bool weigh(const block *self, int64_t first_row, int64_t count) {
    int64_t panel = self->tiles->panel;
    vi is_same = ~(vi){0};
    for (int64_t i = 0; i < panel; i += VF) {
        float *most_at = self->most + first_row + i, *total_at = self->total + first_row + i;
        vf most = vf_load(most_at), top = highest(self->scores + i, panel, count, most);
        vf base =
            vf_select(top == -INFINITY, vf_set(0), top); /* nothing seen: no NaN of inf - inf */
        vf factor = exp_or_zero(most - base);
        vf total = exponentials(self->scores + i, panel, count, base);
        is_same &= top == most;
        vf_store(most_at, top);
        vf_store(total_at, vf_load(total_at) * factor + total);
        vf_store(self->factor + i, factor);
    }
    return !vi_all(is_same);
}

VEC_OUTLINE void rescale(const block *self, int64_t first_row, int64_t row_count) {
    int64_t width = self->tiles->padded_width;
    for (int64_t r = 0; r < row_count; r++) {
        float *sums = self->sums + (first_row + r) * width, factor = self->factor[r];
        for (int64_t i = 0; factor != 1 && i < width; i += VF)
            vf_store(sums + i, vf_load(sums + i) * factor);
    }
}

/* A tile in memory: keys [first, first + count) of one head. */
typedef struct tile {
    int64_t first, count;
    int64_t k_base, v_base; /* of the head */
    const float *keys, *values;
    int64_t k_stride, v_stride;
    enum { UNKNOWN, NUMBERS, OTHERS } content; /* of the values; asked for where keys are hidden */
} tile;

static tile make_tile(const block *self, int64_t first, int64_t count) {
    const rlx_attention *at = self->at;
    const tiling *tiles = self->tiles;
    tile now = {.first = first, .count = count};
    now.k_base = self->batch * at->k->strides[0] + self->head * at->k->strides[1];
    now.v_base = self->batch * at->v->strides[0] + self->head * at->v->strides[1];
    if (tiles->panel == 1) return now; /* used as they lie */
    if (!tiles->is_short) {
        now.keys = tile_of(at->k, tiles->k_in_place, now.k_base, first, count, at->depth,
                           self->key_room, &now.k_stride);
    }
    if (tiles->kind != VALUES_F32) return now;
    now.values = tile_of(at->v, tiles->v_in_place, now.v_base, first, count, tiles->padded_width,
                         self->value_room, &now.v_stride);
    return now;
}

/* Keys of few rows that are not used where they are become f32 as many at a time as a register
 * block takes. */
static void make_few_scores(const block *self, const tile *now, int64_t seen) {
    const rlx_attention *at = self->at;
    int64_t panel = self->tiles->panel, stride;
    for (int64_t t = 0; t < seen; t += 12) {
        int64_t count = rlx_ref_least(12, seen - t);
        const float *keys = tile_of(at->k, self->tiles->k_in_place, now->k_base, now->first + t,
                                    count, at->depth, self->key_room, &stride);
        make_scores(keys, stride, self->queries, at->depth, count, panel, self->scores + t * panel);
    }
}

/* Asks for rows of k or v from `first` on: whole rows, by ask_row, or in `passes` of a turn per
 * row. */
VEC_OUTLINE ahead rows_ahead(const rlx_tensor *tensor, int64_t base, int64_t first,
                             int64_t passes) {
    int64_t size = rlx_dtype_block_bytes(tensor->dtype), row = tensor->dims[3] * size;
    int64_t lines = row > LINE ? rlx_ref_divide_up(row, LINE) : 1;
    ahead next = {.at = (const char *)tensor->data + (base + first * tensor->strides[2]) * size,
                  .step = tensor->strides[2] * size,
                  .last = (lines - 1) * LINE};
    if (passes > 0 && next.step == row) {
        next.step = rlx_ref_divide_up(row, passes);
    } else if (passes > 0) {
        next.row = next.at;
    }
    return next;
}

/* Keys where they are; the values of this tile come meanwhile. */
static void make_along_scores(const block *self, const tile *now, int64_t seen) {
    const rlx_attention *at = self->at;
    int64_t stride = at->k->strides[2], size = rlx_dtype_block_bytes(at->k->dtype);
    const char *keys = (const char *)at->k->data + (now->k_base + now->first * stride) * size;
    ahead next = rows_ahead(at->v, now->v_base, now->first, 0);
    (size == 4                       ? along_scores_f32
     : at->k->dtype == RLX_DTYPE_F16 ? along_scores_f16
                                     : along_scores_bf16)(keys, stride, self->queries, at->depth,
                                                          self->row_count, seen, self->tiles->panel,
                                                          self->scores, next);
}

/* Keys of the next tile, or of the next head. */
static ahead next_keys(const block *self, const tile *now, int64_t passes) {
    const rlx_tensor *k = self->at->k;
    bool is_last = now->first + TILE_KEYS >= self->at->keys;
    return rows_ahead(k, now->k_base + (is_last ? k->strides[1] : 0),
                      is_last ? 0 : now->first + TILE_KEYS, passes);
}

/* Values where they are, in columns of two or three vectors; the keys of the next tile or head come
 * meanwhile. */
static void add_few_values(const block *self, const tile *now, int64_t seen) {
    const rlx_attention *at = self->at;
    const tiling *tiles = self->tiles;
    int64_t stride = at->v->strides[2], vectors = tiles->padded_width / VF;
    int64_t parts = (vectors + 2) / 3, fours = (self->row_count + 3) / 4;
    int64_t size = rlx_dtype_block_bytes(at->v->dtype);
    const char *values = (const char *)at->v->data + (now->v_base + now->first * stride) * size;
    ahead next = next_keys(self, now, parts * fours);
    for (int64_t part = 0, j = 0, n; part < parts; part++, j += n) {
        n = (vectors - j + parts - part - 1) / (parts - part);
        next = (tiles->kind == VALUES_F32   ? short_values_f32
                : tiles->kind == VALUES_F16 ? short_values_f16
                                            : short_values_bf16)(
            self->scores, tiles->panel, self->row_count, values + j * VF * size, stride, seen,
            self->sums + j * VF, tiles->padded_width, n, next);
    }
}

/* Vector i of value t of the tile. */
VEC_INLINE vf tile_value(const block *self, const tile *now, int64_t t, int64_t i) {
    const rlx_tensor *v = self->at->v;
    if (self->tiles->kind == VALUES_F32) return vf_load(now->values + t * now->v_stride + i);
    int64_t at = now->v_base + (now->first + t) * v->strides[2] + i;
    return self->tiles->kind == VALUES_F16 ? value_load(v->data, at, VALUES_F16)
                                           : value_load(v->data, at, VALUES_BF16);
}

/* Infinities and NaN times 0 are not 0. */
VEC_SELDOM bool has_only_numbers(const block *self, const tile *now) {
    vf sum = {0};
    for (int64_t t = 0; t < now->count; t++) {
        for (int64_t i = 0; i < self->tiles->padded_width; i += VF)
            sum += tile_value(self, now, t, i) * 0.0f;
    }
    return vf_sum(sum) == 0;
}

/* Values that are no numbers must not reach rows that do not see them: weights of 0 are skipped. */
VEC_SELDOM void add_seen_values(const block *self, const tile *now, int64_t r, int64_t row_count,
                                int64_t seen) {
    int64_t width = self->tiles->padded_width;
    for (int64_t row = 0; row < row_count; row++) {
        float *sums = self->sums + (r + row) * width;
        for (int64_t t = 0; t < seen; t++) {
            float weight = self->scores[t * self->tiles->panel + row];
            for (int64_t i = 0; weight != 0 && i < width; i += VF)
                vf_store(sums + i, vf_load(sums + i) + tile_value(self, now, t, i) * weight);
        }
    }
}

/* The keys that any row of a panel sees, and those that all see. */
typedef struct sight {
    int64_t first, end, common_first, common_end;
} sight;

static sight sight_of(const rlx_query_row *rows, int64_t count) {
    sight seen = {INT64_MAX, 0, 0, INT64_MAX};
    for (int64_t i = 0; i < count; i++) {
        seen.first = rlx_ref_least(seen.first, rows[i].first);
        seen.common_end = rlx_ref_least(seen.common_end, rows[i].end);
        if (rows[i].end > seen.end) seen.end = rows[i].end;
        if (rows[i].first > seen.common_first) seen.common_first = rows[i].first;
    }
    return seen;
}

/* weigh() for a row alone. */
static void weigh_line(const block *self, int64_t count) {
    float *scores = self->scores;
    int64_t vectors = rlx_ref_divide_up(count, VF);
    int64_t step = self->tiles->panel * VF; /* of one row; a constant would make copies of both */
    for (int64_t t = count; t < vectors * VF; t++)
        scores[t] = -INFINITY;
    float top = vf_highest(highest(scores, step, vectors, vf_set(self->most[0])));
    float base = top == -INFINITY ? 0 : top, factor = exp_or_zero(vf_set(self->most[0] - base))[0];
    float total = vf_sum(exponentials(scores, step, vectors, vf_set(base)));
    self->most[0] = top;
    self->total[0] = self->total[0] * factor + total;
    self->factor[0] = factor;
}

/* A row alone on one tile: its own range of keys, nothing decoded ahead of its use. */
static void do_line(const block *self, const tile *now) {
    const rlx_attention *at = self->at;
    const tiling *tiles = self->tiles;
    int64_t skip = self->rows[0].first > now->first ? self->rows[0].first - now->first : 0;
    int64_t from = now->first + skip;
    int64_t seen = rlx_ref_least(now->count, self->rows[0].end - now->first) - skip;
    int64_t size = tiles->kind == VALUES_F32 ? 4 : 2;
    ahead values = rows_ahead(at->v, now->v_base, from, 0), keys = next_keys(self, now, 0);
    if (seen <= 0) return;
    if (size == 4) values.last = keys.last = -1; /* as fast as memory; asking makes it slower */
    line_scores((const char *)at->k->data + (now->k_base + from * at->k->strides[2]) * size,
                at->k->strides[2], self->queries, at->depth, seen, self->scores, values,
                tiles->kind);
    if (at->softcap > 0) cap_scores(self, seen);
    if (at->mask->data != NULL) add_mask(self, 0, 1, from, seen);
    weigh_line(self, seen);
    rescale(self, 0, 1);
    /* Runs of keys that are seen: a mask may hide values that are no numbers. */
    for (int64_t t = 0, run = 0; t < seen; t += run) {
        run = 1;
        if (self->scores[t] == 0) continue;
        while (t + run < seen && self->scores[t + run] != 0)
            run++;
        line_values(self->scores + t,
                    (const char *)at->v->data +
                        (now->v_base + (from + t) * at->v->strides[2]) * size,
                    at->v->strides[2], run, self->sums, at->width, keys, tiles->kind);
        keys.at += run * keys.step;
    }
}

/* One panel of rows, from `r` on, on one tile. */
static void do_panel(const block *self, tile *now, int64_t r) {
    const rlx_attention *at = self->at;
    const tiling *tiles = self->tiles;
    int64_t panel = tiles->panel, row_count = rlx_ref_least(panel, self->row_count - r);
    sight sees = sight_of(self->rows + r, row_count);
    int64_t seen = rlx_ref_least(now->count, sees.end - now->first);
    if (seen <= 0 || sees.first >= now->first + now->count) return;
    if (tiles->is_along) {
        make_along_scores(self, now, seen);
    } else if (tiles->is_short) {
        make_few_scores(self, now, seen);
    } else {
        make_scores(now->keys, now->k_stride, self->queries + r * at->depth, at->depth, seen, panel,
                    self->scores);
    }
    if (at->softcap > 0) cap_scores(self, seen);
    if (at->mask->data != NULL) add_mask(self, r, row_count, now->first, seen);
    bool is_hiding = sees.common_first > now->first || sees.common_end < now->first + seen;
    if (is_hiding || row_count < panel) hide_keys(self, r, now->first, seen);
    if (weigh(self, r, seen)) rescale(self, r, row_count);
    if ((is_hiding || at->mask->data != NULL) && now->content == UNKNOWN)
        now->content = has_only_numbers(self, now) ? NUMBERS : OTHERS;
    if (now->content == OTHERS) {
        add_seen_values(self, now, r, row_count, seen);
    } else if (tiles->kind != VALUES_F32 || (tiles->is_along && tiles->v_in_place)) {
        add_few_values(self, now, seen);
    } else {
        add_values(self->scores, panel, row_count, now->values, now->v_stride, seen,
                   tiles->padded_width, self->sums + r * tiles->padded_width);
    }
}

#endif
