/* SPDX-License-Identifier: Apache-2.0 */
/* What one panel of query rows, or a row alone, does with one tile of keys: scores, masks, the
 * running softmax, the product with the values. Part of attention.c; knows nothing of items. */
#ifndef RLX_BACKEND_CPU_VEC_ATTENTION_PANEL_H
#define RLX_BACKEND_CPU_VEC_ATTENTION_PANEL_H

#include "backend/cpu/vec/attention_block.h"

/* A tile in memory: keys [first, first + count) of one head. */
typedef struct tile {
    int64_t first, count;
    int64_t k_base, v_base; /* of the head */
    const float *keys, *values;
    int64_t k_stride, v_stride;
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
    int64_t panel = self->panel, step = IS_WIDE ? 16 : 12, stride;
    for (int64_t t = 0; t < seen; t += step) {
        int64_t count = rlx_ref_least(step, seen - t);
        const float *keys = tile_of(at->k, self->tiles->k_in_place, now->k_base, now->first + t,
                                    count, at->depth, self->key_room, &stride);
        make_scores(keys, stride, self->queries, panel, at->depth, count, panel / VF,
                    self->scores + t * panel);
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
    if (IS_WIDE && next.step > 0) next.further = rlx_ref_divide_up(FURTHER, next.step) * next.step;
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

/* Less keys than a block has, with zeros behind them. They lie where keys to come would. */
VEC_SELDOM const char *fill_up(const few_keys *keys, int64_t row) {
    char *room = (char *)(keys->room + FEW_KEYS * keys->depth);
    memset(room, 0, (size_t)(FEW_KEYS * row));
    for (int64_t i = 0; i < keys->count; i++)
        memcpy(room + i * row, keys->rows + i * keys->stride, (size_t)row);
    return room;
}

/* The same on wide levels: FEW_KEYS at a time, as f32. */
static void make_chunk_scores(const block *self, const tile *now, int64_t seen) {
    const rlx_attention *at = self->at;
    ahead next = rows_ahead(at->v, now->v_base, now->first, 0);
    int64_t stride = at->k->strides[2], size = rlx_dtype_block_bytes(at->k->dtype);
    few_keys keys = {.rows = (const char *)at->k->data + (now->k_base + now->first * stride) * size,
                     .stride = stride * size,
                     .count = seen,
                     .depth = at->depth,
                     .room = self->key_room};
    (void)find_kind(at->k, &keys.kind);
    if (seen < FEW_KEYS) {
        keys.rows = fill_up(&keys, at->depth * size);
        keys.stride = at->depth * size;
    }
    int64_t turn = self->panel == 8  ? SWAP_KEYS * VF
                   : self->panel > 8 ? 4 * FEW_CHUNK
                                     : FEW_KEYS * FEW_CHUNK;
    if (at->v->strides[2] == at->width) keys.asks = next.step * turn / at->depth;
    few_scores(&keys, self->queries, self->scores, self->panel, &next);
}

/* Keys of the next tile, or of the next head. */
static ahead next_keys(const block *self, const tile *now, int64_t passes) {
    const rlx_tensor *k = self->at->k;
    bool is_last = now->first + self->tiles->keys >= self->at->keys;
    return rows_ahead(k, now->k_base + (is_last ? k->strides[1] : 0),
                      is_last ? 0 : now->first + self->tiles->keys, passes);
}

/* Keys and values of the next tile or head, row by row beside the values of this one, which are
 * there: many rows want all of it in the second cache, where only the first of them has to wait. */
static ahead next_tile(const block *self, const tile *now) {
    const rlx_tensor *k = self->at->k, *v = self->at->v;
    const int64_t row = v->strides[2];
    bool is_last = now->first + now->count >= self->at->keys;
    ahead next = rows_ahead(v, now->v_base, now->first, 0);
    if (!self->tiles->k_in_place || !self->tiles->v_in_place || k->strides[2] != row)
        return (ahead){.at = next.at};
    int64_t keys = now->k_base + (is_last ? k->strides[1] : (now->first + now->count) * row);
    int64_t values = is_last ? v->strides[1] - now->first * row : now->count * row;
    next.row = next.at;
    next.further = (intptr_t)((const float *)k->data + keys) - (intptr_t)next.at;
    next.passes = 1 + rlx_ref_divide_up(self->at->depth, VF);
    next.then = values * (int64_t)sizeof(float);
    return next;
}

/* Values where they are, in columns of two or three vectors; the keys of the next tile or head come
 * meanwhile. */
static void add_few_values(const block *self, const tile *now, const weighed *by, float *sums) {
    const rlx_attention *at = self->at;
    const tiling *tiles = self->tiles;
    int64_t stride = at->v->strides[2], vectors = tiles->padded_width / VF;
    int64_t most = !IS_WIDE ? 3 : tiles->kind == VALUES_F32 ? 4 : 2;
    int64_t parts = rlx_ref_divide_up(vectors, most);
    int64_t groups = rlx_ref_divide_up(by->rows, !IS_WIDE ? 4 : tiles->kind == VALUES_F32 ? 6 : 8);
    int64_t size = rlx_dtype_block_bytes(at->v->dtype);
    const char *values = (const char *)at->v->data + (now->v_base + now->first * stride) * size;
    ahead next = {.at = values};
    if (now->values != NULL) {
        values = (const char *)now->values;
        stride = now->v_stride, size = sizeof(float);
    }
    if (tiles->is_short) next = next_keys(self, now, parts * groups);
    if (IS_WIDE && !tiles->is_short) next = next_tile(self, now);
    for (int64_t part = 0, j = 0, n; part < parts; part++, j += n) {
        n = (vectors - j + parts - part - 1) / (parts - part);
        (tiles->kind == VALUES_F32   ? short_values_f32
         : tiles->kind == VALUES_F16 ? short_values_f16
                                     : short_values_bf16)(
            by, values + j * VF * size, stride, sums + j * VF, tiles->padded_width, n, &next);
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

/* Values that are no numbers must not reach rows that do not see them: weights of 0 are skipped. */
VEC_SELDOM void add_seen_values(const block *self, const tile *now, int64_t r, int64_t row_count,
                                int64_t seen) {
    int64_t width = self->tiles->padded_width;
    for (int64_t row = 0; row < row_count; row++) {
        float *sums = self->sums + (r + row) * width;
        int64_t count = rlx_ref_least(seen, self->rows[r + row].end - now->first);
        for (int64_t t = 0; t < count; t++) {
            float weight = self->scores[t * self->panel + row];
            for (int64_t i = 0; weight != 0 && i < width; i += VF)
                vf_store(sums + i, vf_load(sums + i) + tile_value(self, now, t, i) * weight);
        }
    }
}

/* The keys that any row of a panel sees, and those that all see. */
typedef struct sight {
    int64_t first, end, common_first, common_end;
} sight;

static sight sight_of(const block *self, int64_t r, int64_t count) {
    sight seen = {self->seen_first, self->seen_end, self->common_first, self->common_end};
    if (seen.first == seen.common_first && seen.end == seen.common_end) return seen;
    seen = (sight){INT64_MAX, 0, 0, INT64_MAX};
    for (const rlx_query_row *row = self->rows + r; count > 0; row++, count--) {
        seen.first = rlx_ref_least(seen.first, row->first);
        seen.common_end = rlx_ref_least(seen.common_end, row->end);
        if (row->end > seen.end) seen.end = row->end;
        if (row->first > seen.common_first) seen.common_first = row->first;
    }
    return seen;
}

/* weigh() for a row alone. */
static void weigh_line(const block *self, int64_t r, int64_t count) {
    float *scores = self->scores, *most = self->most + r;
    int64_t vectors = rlx_ref_divide_up(count, VF);
    int64_t step = self->panel * VF; /* of one row; a constant would make copies of both */
    for (int64_t t = count; t < vectors * VF; t++)
        scores[t] = -INFINITY;
    float top = vf_highest(highest(scores, step, vectors, vf_set(*most)));
    vf base = vf_set(top == -INFINITY ? 0 : top);
    float factor = weight_of(vf_set(*most), base)[0];
    float total = vf_sum(exponentials(scores, step, vectors, base));
    *most = top;
    self->total[r] = self->total[r] * factor + total;
    self->factor[0] = factor;
}

/* Keys and values as a row alone has them. */
typedef struct line {
    const char *keys, *values;
    int64_t k_stride, v_stride, size;
    ahead next_values, next_keys;
} line;

/* Those of a tile that panels use are f32; else nothing is decoded ahead of its use. Asking for
 * what comes next makes f32 slower: it is as fast as memory. */
static line make_line(const block *self, const tile *now, int64_t skip) {
    const rlx_tensor *k = self->at->k, *v = self->at->v;
    int64_t size = self->tiles->kind == VALUES_F32 ? 4 : 2, from = now->first + skip;
    line to = {(const char *)now->keys,
               (const char *)now->values,
               now->k_stride,
               now->v_stride,
               size,
               rows_ahead(v, now->v_base, from, 0),
               next_keys(self, now, 0)};
    if (self->tiles->panel == 1) {
        to.k_stride = k->strides[2], to.v_stride = v->strides[2];
        to.keys = (const char *)k->data + (now->k_base + now->first * to.k_stride) * size;
        to.values = (const char *)v->data + (now->v_base + now->first * to.v_stride) * size;
    }
    if (size == 4) to.next_values.last = to.next_keys.last = -1;
    to.keys += skip * to.k_stride * size;
    to.values += skip * to.v_stride * size;
    return to;
}

/* Row r alone on one tile: its own range of keys. */
VEC_OUTLINE void do_line(block *self, const tile *now, int64_t r) {
    const rlx_attention *at = self->at;
    const rlx_query_row *row = &self->rows[r];
    int64_t skip = row->first > now->first ? row->first - now->first : 0;
    int64_t seen = rlx_ref_least(now->count, row->end - now->first) - skip;
    self->panel = 1;
    if (self->begins) clear_sums(self, r, 1);
    if (seen <= 0) return;
    line by = make_line(self, now, skip);
    line_scores(by.keys, by.k_stride, self->queries + r * at->depth, at->depth, seen, self->scores,
                by.next_values, self->tiles->kind);
    if (at->softcap > 0) cap_scores(self, seen);
    if (at->mask->data != NULL) add_mask(self, r, 1, now->first + skip, seen);
    weigh_line(self, r, seen);
    rescale(self, r, 1);
    /* Runs of keys that are seen: a mask may hide values that are no numbers. */
    for (int64_t t = 0, run = 0; t < seen; t += run) {
        run = 1;
        if (self->scores[t] == 0) continue;
        while (t + run < seen && self->scores[t + run] != 0)
            run++;
        line_values(self->scores + t, by.values + t * by.v_stride * by.size, by.v_stride, run,
                    self->sums + r * self->tiles->padded_width, at->width, by.next_keys,
                    self->tiles->kind);
        by.next_keys.at += run * by.next_keys.step;
    }
}

/* How many keys of a tile, of the first `seen`, any of `count` rows sees. */
VEC_OUTLINE int64_t count_seen(const block *self, const tile *now, int64_t r, int64_t count,
                               int64_t seen) {
    int64_t most = 0;
    for (; r < self->row_count && count > 0; r++, count--)
        if (self->rows[r].end - now->first > most) most = self->rows[r].end - now->first;
    return rlx_ref_least(most, seen);
}

/* Scores of a panel. Vectors of rows that see none of the last keys are left out of them. */
static void make_panel_scores(const block *self, const tile *now, int64_t r, int64_t seen,
                              const int64_t *counts) {
    const float *queries = self->queries + r * self->at->depth;
    int64_t panel = self->panel, vectors = panel / VF;
    for (int64_t t = 0, j = 0, end; t < seen; t = end) {
        while (counts[j] <= t)
            j++;
        end = seen - counts[j] < 8 ? seen : counts[j];
        make_scores(now->keys + t * now->k_stride, now->k_stride, queries + j * VF, panel,
                    self->at->depth, end - t, vectors - j, self->scores + t * panel + j * VF);
    }
}

/* One panel of rows, from `r` on, on one tile. */
static void do_panel(block *self, const tile *now, int64_t r, int64_t panel) {
    const rlx_attention *at = self->at;
    const tiling *tiles = self->tiles;
    self->panel = panel;
    int64_t row_count = rlx_ref_least(panel, self->row_count - r);
    sight sees = sight_of(self, r, row_count);
    int64_t seen = rlx_ref_least(now->count, sees.end - now->first), counts[PANEL_VECTORS];
    if (seen <= 0 || sees.first >= now->first + now->count) {
        if (self->begins) clear_sums(self, r, row_count);
        return;
    }
    bool is_hiding = sees.common_first > now->first || sees.common_end < now->first + seen;
    for (int64_t i = 0; i < PANEL_VECTORS; i++)
        counts[i] = IS_WIDE && is_hiding ? count_seen(self, now, r + i * VF, VF, seen) : seen;
    if (tiles->is_along) {
        (IS_WIDE ? make_chunk_scores : make_along_scores)(self, now, seen);
    } else if (tiles->is_short) {
        make_few_scores(self, now, seen);
    } else {
        make_panel_scores(self, now, r, seen, counts);
    }
    if (at->softcap > 0) cap_scores(self, seen);
    if (at->mask->data != NULL) add_mask(self, r, row_count, now->first, seen);
    if (is_hiding || (!IS_WIDE && tiles->is_along && row_count < panel))
        hide_keys(self, r, now->first, seen, counts);
    if (weigh(self, r, seen, counts) && !self->begins && (!IS_WIDE || self->skips_zeros))
        rescale(self, r, row_count);
    if (self->skips_zeros) {
        if (self->begins) clear_sums(self, r, row_count);
        add_seen_values(self, now, r, row_count, seen);
    } else if (IS_WIDE || tiles->kind != VALUES_F32 || (tiles->is_along && tiles->v_in_place)) {
        weighed by = {self->scores, self->factor, panel, row_count, seen, !is_hiding, {0}};
        for (int64_t i = 0; IS_WIDE && is_hiding && i < row_count; i++)
            by.seen[i] = (int32_t)count_seen(self, now, r + i, 1, seen);
        add_few_values(self, now, &by, self->sums + r * tiles->padded_width);
    } else {
        add_values(self->scores, panel, row_count, now->values, now->v_stride, seen,
                   tiles->padded_width, self->sums + r * tiles->padded_width, self->begins);
    }
}

#endif
