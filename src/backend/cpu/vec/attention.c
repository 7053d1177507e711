/* SPDX-License-Identifier: Apache-2.0 */
/* attention in tiles. An item is a block of query rows that share one head of k and v. Keys come in
 * tiles of about TILE_KEYS; for each tile the rows go by in panels of one or two vectors, side by
 * side in the lanes: scores = k q is a product with the keys as broadcast operand, the running
 * softmax works lane by lane and needs no sum across lanes, and the weights are the broadcast
 * operand of the product with v. The scores of one panel and tile stay in the first cache. Other
 * dtypes than f32 and odd strides become f32 rows once per tile. Tiles are the same for all blocks,
 * so what a row gives does not hang on its block.
 *
 * Where there are few blocks of few rows (decode), an item is one part of a block's keys. What it
 * finds stays in a slot that all workers see, and who finishes the last part of a block puts them
 * together in order. The parts depend on dims alone. */
#include "backend/cpu/vec/attention_panel.h"
#include "backend/cpu/vec/finite.h"

#include <stdatomic.h>

/* Items that parts of the keys make at most, the tiles of a part at least, and where there would be
 * few items; items that are few; elements from one row to the next that are many. */
enum {
    PART_ITEMS = 64,
    PART_TILES = IS_WIDE ? 4 : 2,
    LEAST_TILES = 2,
    FEW_ITEMS = 8,
    LINE_FLOATS = LINE / (int)sizeof(float),
    APART = 512
};

/* A count of floats in whole vectors. */
static int64_t whole_vectors(int64_t count) {
    return rlx_ref_divide_up(count, VF) * VF;
}

/* Rows that see nothing have a total of 0, and sums of 0. */
VEC_OUTLINE void write_rows(const block *self) {
    const rlx_tensor *y = self->at->y;
    int64_t width = self->tiles->padded_width;
    bool lies = y->dtype == RLX_DTYPE_F32 && y->strides[3] == 1 && width == self->at->width;
    for (int64_t r = 0; r < self->tiles->rows; r += VF) {
        vf total = vf_load(self->total + r);
        vf_store(self->total + r, vf_select(total == 0, total, 1 / total));
    }
    for (int64_t r = 0; r < self->row_count; r++) {
        float *sums = self->sums + r * width, factor = self->total[r];
        float *to = lies ? (float *)y->data + self->rows[r].y : sums;
        VEC_ROLLED for (int64_t i = 0; i < width; i += VF)
            vf_store(to + i, vf_load(sums + i) * factor);
        if (!lies) vec_write_f32(y, self->rows[r].y, y->strides[3], self->at->width, sums);
    }
}

/* The rows of a block and the keys that any of them, and that all of them see; packs the queries.
 */
VEC_OUTLINE void take_rows(block *self, int64_t index) {
    const rlx_attention *at = self->at;
    int64_t first = index * self->tiles->block, left = 0;
    rlx_query_row row = {0};
    self->seen_first = at->keys, self->seen_end = 0;
    self->common_first = 0, self->common_end = at->keys;
    self->row_count = rlx_ref_least(self->tiles->block, at->row_count - first);
    for (int64_t r = 0; r < self->row_count; r++) {
        if (left == 0 || at->is_causal) {
            row = rlx_ref_query_row(at, self->batch, self->head, first + r);
            left = at->queries - (first + r) % at->queries;
        } else { /* of the same head, and it sees the same keys */
            row.q += at->q->strides[2];
            row.y += at->y->strides[2];
            row.mask += at->mask_strides[2];
        }
        left--;
        self->rows[r] = row;
        self->seen_first = rlx_ref_least(self->seen_first, row.first);
        self->common_end = rlx_ref_least(self->common_end, row.end);
        if (row.end > self->seen_end) self->seen_end = row.end;
        if (row.first > self->common_first) self->common_first = row.first;
    }
    for (int64_t r = self->row_count; r < self->tiles->rows; r++)
        self->rows[r] = (rlx_query_row){0};
    pack_queries(self);
}

/* The rows on keys [first, end): tiles begin with the first. */
VEC_OUTLINE void do_tiles(block *self, int64_t first, int64_t end) {
    int64_t step = self->tiles->keys;
    if (self->seen_first > first) first += (self->seen_first - first) / step * step;
    end = rlx_ref_least(self->seen_end, end);
    for (int64_t r = 0; r < self->tiles->rows; r += VF) {
        vf_store(self->most + r, vf_set(-INFINITY));
        vf_store(self->total + r, vf_set(0));
    }
    self->begins = begins_sums(self->tiles) && first < end;
    if (!self->begins) clear_sums(self, 0, self->tiles->rows);
    for (int64_t t = first; t < end; t += step) {
        tile now = make_tile(self, t, rlx_ref_least(step, end - t));
        for (int64_t r = 0, panel; r < self->row_count; r += panel) {
            panel = panel_at(self, r);
            if (panel == 1) {
                do_line(self, &now, r);
            } else {
                do_panel(self, &now, r, panel);
            }
        }
        self->begins = false;
    }
}

/* Sums that are no numbers are done again: a score of minus infinity hides a value that is none,
 * but multiplies it with 0 in panels. */
static void do_block(block *self, int64_t first, int64_t end) {
    int64_t count = self->row_count * self->tiles->padded_width;
    self->skips_zeros = false;
    do_tiles(self, first, end);
    if (self->tiles->panel == 1 || vec_is_finite(self->sums, count)) return;
    self->skips_zeros = true;
    do_tiles(self, first, end);
}

/* Rows that are a multiple of 2 KiB apart, as 16 or 32 heads side by side make them, fight for the
 * same few places of a cache: copying a tile costs little beside what several panels do with it.
 * Looks at strides alone: they are those of the plan. */
static bool is_apart(const rlx_tensor *tensor) {
    return tensor->strides[2] > 0 && tensor->strides[2] % APART == 0;
}

/* Tiles of few keys cost as much beside their products as others: where there would be one they are
 * larger, and all as large as each other. */
static int64_t tile_keys(int64_t keys) {
    if (keys <= MOST_KEYS) return MOST_KEYS;
    int64_t count = keys / TILE_KEYS;
    if (rlx_ref_divide_up(keys, count) > MOST_KEYS) count++;
    return rlx_ref_divide_up(rlx_ref_divide_up(keys, count), 12) * 12;
}

/* Rows of a block: about the same in all of them, and less where that makes enough items to share.
 */
static int64_t block_rows(const rlx_attention *at, int64_t panel) {
    int64_t count = rlx_ref_divide_up(at->row_count, BLOCK_ROWS);
    int64_t heads = at->k->dims[0] * at->k->dims[1];
    int64_t more = heads > 0 ? rlx_ref_divide_up(FEW_ITEMS, heads) : 1;
    more = rlx_ref_least(more, at->row_count / (2 * panel));
    if (more > count) count = more;
    return rlx_ref_divide_up(rlx_ref_divide_up(at->row_count, count), panel) * panel;
}

/* Rows in whole vectors or panels. */
static int64_t whole_rows(int64_t rows, int64_t panel) {
    return panel > VF ? whole_vectors(rows) : rlx_ref_divide_up(rows, panel) * panel;
}

VEC_OUTLINE tiling make_tiling(const rlx_attention *at) {
    tiling tiles = {.panel = at->row_count <= VF ? VF : PANEL_VECTORS * VF, .chunk = 1};
    value_kind key_kind, kind;
    bool k_lies = find_kind(at->k, &key_kind), v_lies = find_kind(at->v, &kind);
    if (at->row_count == 1 && k_lies && v_lies && key_kind == kind) tiles.panel = 1;
    tiles.padded_width =
        at->width > INT64_MAX - VF ? at->width : rlx_ref_divide_up(at->width, VF) * VF;
    tiles.is_short = at->row_count <= 2 * VF;
    tiles.k_in_place = k_lies && key_kind == VALUES_F32 && (tiles.is_short || !is_apart(at->k));
    tiles.v_in_place =
        v_lies && kind == VALUES_F32 && at->width % VF == 0 && (tiles.is_short || !is_apart(at->v));
    tiles.is_along = (IS_WIDE ? at->row_count <= VF : tiles.is_short) && tiles.panel > 1 &&
                     k_lies && at->depth > 0 && at->depth % VF == 0;
    if (IS_WIDE && tiles.is_along) {
        tiles.panel = at->row_count <= 4 ? 4 : at->row_count <= 8 ? 8 : VF;
        tiles.chunk = FEW_CHUNK;
    }
    tiles.block = tiles.is_short ? BLOCK_ROWS : block_rows(at, tiles.panel);
    tiles.keys = tiles.is_short ? TILE_KEYS : tile_keys(at->keys);
    tiles.rows = whole_rows(rlx_ref_least(at->row_count, tiles.block), tiles.panel);
    if (tiles.panel == 1 || (tiles.is_short && v_lies && at->width % VF == 0)) tiles.kind = kind;
    /* What a tile costs beside its products counts where rows are few. Rows that lie apart fight
     * for the same few places of the first cache. Seen on Zen 5 only. */
    if (tiles.chunk > 1 && tiles.panel < VF && tiles.kind != VALUES_F32 && !vec_is_intel() &&
        at->k->strides[2] == at->depth && at->v->strides[2] == at->width) {
        tiles.keys = LONG_KEYS;
    }
    return tiles;
}

/* Keys that there is room for, and scores. */
static int64_t room_keys(const tiling *tiles) {
    return tiles->is_short ? TILE_KEYS : MOST_KEYS;
}
static int64_t room_scores(const tiling *tiles) {
    return IS_WIDE && tiles->is_short ? LONG_KEYS : room_keys(tiles);
}

/* Floats of a worker's own room: see place_own. Less rows or keys than planned may make larger
 * blocks or tiles, so there is room for the largest. */
static bool own_floats(const rlx_attention *at, const tiling *tiles, uint64_t *out_count) {
    int64_t most = whole_rows(rlx_ref_least(at->row_count, BLOCK_ROWS), tiles->panel);
    uint64_t rows = (uint64_t)most, per_depth = rows, per_width = rows, a, b;
    uint64_t lanes = (uint64_t)whole_vectors(tiles->panel), keys = (uint64_t)room_keys(tiles);
    if (!tiles->k_in_place) {
        per_depth += keys;
    } else if (IS_WIDE) {
        per_depth += 2 * FEW_KEYS; /* of few rows; in other runs there may be few */
    }
    if (!tiles->v_in_place) per_width += keys;
    uint64_t scores = lanes * (uint64_t)(room_scores(tiles) + 1);
    if (IS_WIDE && scores < (LONG_KEYS + 1) * VF) scores = (LONG_KEYS + 1) * VF;
    return rlx_mul_u64((uint64_t)at->depth, per_depth, &a) &&
           rlx_mul_u64((uint64_t)tiles->padded_width, per_width, &b) && rlx_add_u64(a, b, &a) &&
           rlx_add_u64(a, 2 * (uint64_t)whole_vectors(most) + scores, out_count);
}

/* How blocks and their keys become items. */
typedef struct cutting {
    int64_t blocks;    /* of a head */
    int64_t units;     /* blocks of all heads */
    int64_t parts;     /* of the keys of a block; 1: items share nothing */
    int64_t part_keys; /* of all parts but the last */
    /* In floats. What items share lies in front of the first worker's own room: how many parts of
     * each unit are still to come, and a slot for what each part leaves: most, total, sums. */
    uint64_t counters, slot, shared;
    uint64_t bytes; /* of a worker: shared and own; UINT64_MAX: more than there can be */
} cutting;

static bool measure(const rlx_attention *at, const tiling *tiles, cutting *self) {
    uint64_t rows = (uint64_t)whole_vectors(tiles->rows), count;
    self->bytes = UINT64_MAX;
    self->shared = 0;
    if (!own_floats(at, tiles, &count)) return false;
    if (self->parts > 1) { /* there is own room for `rows` of padded_width: no product wraps */
        self->counters = (uint64_t)self->units * LINE_FLOATS;
        self->slot = (uint64_t)tiles->padded_width * (uint64_t)tiles->rows + 2 * rows;
        if (!rlx_align_u64(self->slot, LINE_FLOATS, &self->slot) ||
            !rlx_mul_u64(self->slot, (uint64_t)(self->units * self->parts), &self->shared) ||
            !rlx_add_u64(self->shared, self->counters, &self->shared) ||
            !rlx_add_u64(count, self->shared, &count)) {
            return false;
        }
    }
    self->bytes = rlx_ref_bytes(count, sizeof(float));
    return self->bytes != UINT64_MAX;
}

/* Parts of the keys where they fit into `room` bytes; what was planned for larger dims may have
 * less for them. */
VEC_OUTLINE cutting cut(const rlx_attention *at, const tiling *tiles, uint64_t room) {
    int64_t count = rlx_ref_divide_up(at->keys, TILE_KEYS), part = count;
    cutting self = {.blocks = rlx_ref_divide_up(at->row_count, tiles->block), .parts = 1};
    self.units = at->k->dims[0] * at->k->dims[1] * self.blocks;
    if (self.units > 0 && self.units <= PART_ITEMS / 2 && tiles->is_short) {
        int64_t parts = rlx_ref_least(count / PART_TILES, PART_ITEMS / self.units);
        if (parts * self.units < FEW_ITEMS) {
            parts = rlx_ref_least(count / LEAST_TILES, rlx_ref_divide_up(FEW_ITEMS, self.units));
        }
        if (parts > 1) part = rlx_ref_divide_up(count, parts);
        if (parts > 1) self.parts = rlx_ref_divide_up(count, part);
    }
    if (!measure(at, tiles, &self) || self.bytes > room) {
        self.parts = 1, part = count;
        (void)measure(at, tiles, &self);
    }
    self.part_keys = part * TILE_KEYS;
    return self;
}

/* What a part finds lies in one piece. */
static void place_found(block *self, float *room) {
    int64_t rows = whole_vectors(self->tiles->rows);
    self->most = room;
    self->total = room + rows;
    self->sums = room + 2 * rows;
}

static void place_own(block *self, float *room) {
    const tiling *tiles = self->tiles;
    place_found(self, room);
    self->factor = self->sums + tiles->rows * tiles->padded_width;
    self->scores = self->factor + whole_vectors(tiles->panel);
    self->queries = self->scores + room_scores(tiles) * whole_vectors(tiles->panel);
    self->value_room = self->queries + tiles->rows * self->at->depth;
    self->key_room =
        self->value_room + (tiles->v_in_place ? 0 : room_keys(tiles) * tiles->padded_width);
}

/* The sums of all parts become those of the first. A part that is nothing beside the others is left
 * out: its sums may be no numbers. */
static void join_sums(const block *self, const cutting *cuts) {
    int64_t width = self->tiles->padded_width, slot = (int64_t)cuts->slot;
    for (int64_t r = 0; r < self->row_count; r++) {
        for (int64_t i = 0; i < width; i += VF) {
            float *sums = self->sums + r * width + i;
            const float *factor = self->most + r;
            vf sum = {0};
            for (int64_t p = 0; p < cuts->parts; p++) {
                if (factor[p * slot] != 0)
                    sum = vf_fma(vf_set(factor[p * slot]), vf_load(sums + p * slot), sum);
            }
            vf_store(sums, sum);
        }
    }
}

/* Puts the parts of a unit together, from the slot of the first on. */
VEC_OUTLINE void join_parts(block *self, const cutting *cuts, float *slots) {
    int64_t slot = (int64_t)cuts->slot;
    place_found(self, slots);
    for (int64_t i = 0; i < self->tiles->rows; i += VF) {
        vf top = vf_set(-INFINITY), total = {0};
        for (int64_t p = 0; p < cuts->parts; p++)
            top = vf_max(vf_load(self->most + p * slot + i), top);
        vf base = vf_select(top == -INFINITY, vf_set(0), top);
        for (int64_t p = 0; p < cuts->parts; p++) {
            vf factor = weight_of(vf_load(self->most + p * slot + i), base);
            vf_store(self->most + p * slot + i, factor);
            total = vf_fma(factor, vf_load(self->total + p * slot + i), total);
        }
        vf_store(self->total + i, total);
    }
    join_sums(self, cuts);
}

/* Leaves what a part has found to whoever finishes the last one: false, it was not this. Sums are
 * made in the worker's own room: that of a slot has to come from another cache first. */
static bool leave_part(block *self, const cutting *cuts, float *shared, int64_t part) {
    _Atomic uint32_t *left = (_Atomic uint32_t *)(void *)shared + self->unit * LINE_FLOATS;
    int64_t slot = (int64_t)cuts->slot;
    float *slots = shared + cuts->counters + self->unit * cuts->parts * slot;
    memcpy(slots + part * slot, self->most, (size_t)(self->factor - self->most) * sizeof(float));
    if (atomic_fetch_sub_explicit(left, 1, memory_order_acq_rel) != 1) return false;
    join_parts(self, cuts, slots);
    return true;
}

static void do_item(block *self, const cutting *cuts, float *shared, int64_t item) {
    int64_t part = item % cuts->parts, unit = item / cuts->parts, heads = self->at->k->dims[1];
    int64_t first = part * cuts->part_keys;
    float *own = self->most;
    self->head = unit / cuts->blocks % heads;
    self->batch = unit / cuts->blocks / heads;
    if (unit != self->unit) take_rows(self, unit % cuts->blocks);
    self->unit = unit;
    do_block(self, first, rlx_ref_least(first + cuts->part_keys, self->at->keys));
    if (cuts->parts == 1 || leave_part(self, cuts, shared, part)) write_rows(self);
    place_found(self, own);
}

/* What hangs on shapes alone. */
typedef struct ready {
    rlx_attention at;
    tiling tiles;
    cutting cuts;
} ready;

VEC_OUTLINE ready make_ready(const rlx_kernel_args *args, uint64_t room) {
    ready self = {.at = rlx_ref_attention(args)};
    self.tiles = make_tiling(&self.at);
    self.cuts = cut(&self.at, &self.tiles, room);
    return self;
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    ready now;
    const ready *from = args->prepared;
    if (from == NULL) now = make_ready(args, args->workspace_bytes), from = &now;
    block self; /* clearing its rows would take as long as a few keys */
    self.tiles = &from->tiles;
    self.at = &from->at;
    self.unit = -1;
    self.panel = from->tiles.panel;
    place_own(&self, (float *)args->workspace + from->cuts.shared);
    for (int64_t item = begin; item < end; item++)
        do_item(&self, &from->cuts, args->common, item);
}

static cutting cut_args(const rlx_kernel_args *args, uint64_t room) {
    return make_ready(args, room).cuts;
}

static void make(const rlx_kernel_args *args, void *memory) {
    *(ready *)memory = make_ready(args, args->workspace_bytes);
}

static void start(const rlx_kernel_args *args) {
    const ready *from = args->prepared;
    cutting cuts = from != NULL ? from->cuts : cut_args(args, args->workspace_bytes);
    _Atomic uint32_t *left = args->common;
    for (int64_t i = 0; cuts.parts > 1 && i < cuts.units; i++)
        atomic_store_explicit(&left[i * LINE_FLOATS], (uint32_t)cuts.parts, memory_order_relaxed);
}

static int64_t items(const rlx_kernel_args *args) {
    cutting cuts = cut_args(args, args->workspace_bytes);
    return cuts.units * cuts.parts;
}

static int64_t item_cost(const rlx_kernel_args *args) {
    ready now = make_ready(args, args->workspace_bytes);
    int64_t depth = now.at.depth, width = now.at.width;
    int64_t per_key = rlx_ref_least(depth, INT32_MAX) + rlx_ref_least(width, INT32_MAX) + 16;
    return rlx_ref_cost(per_key * rlx_ref_least(now.tiles.block, now.at.row_count),
                        rlx_ref_least(now.cuts.part_keys, now.at.keys));
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    cutting cuts = cut_args(args, UINT64_MAX);
    return cuts.units == 0 ? 0 : cuts.bytes;
}

static bool takes(const rlx_target_query *query) {
    return query->in[0].dtype != RLX_DTYPE_F64;
}

const rlx_cpu_override VEC_SYMBOL(attention)[] = {
    {RLX_OP_ATTENTION, 0, takes, {VEC_NAME("attention"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
const rlx_cpu_preparation VEC_SYMBOL(attention_preparation) = {
    .run = run, .size = sizeof(ready), .make = make, .start = start};
