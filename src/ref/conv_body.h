/* SPDX-License-Identifier: Apache-2.0 */
/* One output tile of a convolution for one accumulator type. Included by conv.c once per type, with
 * TYPE, SUFFIX and ROWS defined; not a header of its own. */
#define PASTE_(a, b)    a##b
#define PASTE(a, b)     PASTE_(a, b)
#define WITH_TYPE(name) PASTE(name, SUFFIX)

/* The inputs that a tap of channel `c` meets at the tile's positions; 0 in the padding. `met` has
 * one entry per segment. */
static void WITH_TYPE(pack_tap_)(const conv *cv, const conv_place *at, int64_t c,
                                 const meeting *met, TYPE *row) {
    TYPE some[RLX_TILE_COLUMNS];
    int64_t base = at->x + channel_offset(cv->x, cv->x_block, at->group * cv->group_in + c);
    memset(row, 0, RLX_TILE_COLUMNS * sizeof *row);
    for (int64_t i = 0; i < at->segment_count; i++) {
        TYPE *to = row + at->segments[i].column + met[i].first;
        if (met[i].count == 0) continue;
        if (met[i].step == 1) {
            WITH_TYPE(rlx_ref_read_)(cv->x, base + met[i].offset, met[i].stride, met[i].count, to);
            continue;
        }
        WITH_TYPE(rlx_ref_read_)(cv->x, base + met[i].offset, met[i].stride, met[i].count, some);
        for (int64_t j = 0; j < met[i].count; j++)
            to[j * met[i].step] = some[j];
    }
}

/* Weights [rows][depth] of depth steps [k, k + depth). */
static void WITH_TYPE(pack_weights_)(const conv *cv, const conv_place *at, int64_t k, int64_t depth,
                                     TYPE *tile) {
    for (int64_t i = 0; i < at->rows; i++) {
        if (at->m + i >= cv->group_out) {
            memset(tile + i * depth, 0, (size_t)depth * sizeof *tile);
            continue;
        }
        for (int64_t j = 0; j < depth;) {
            int64_t run = rlx_ref_least(depth - j, weight_run(cv, k + j));
            if (cv->winograd != 0) {
                tile[i * depth + j] = (TYPE)weight_of_points(cv, at->group, at->m + i, k + j);
                j++;
                continue;
            }
            WITH_TYPE(rlx_ref_read_)
            (cv->w, weight_offset(cv, at->group, at->m + i, k + j), 1, run, tile + i * depth + j);
            j += run;
        }
    }
}

static void WITH_TYPE(store_)(const conv *cv, const conv_place *at, TYPE *acc) {
    for (int64_t i = 0; i < at->rows; i++) {
        int64_t channel = at->group * cv->group_out + at->m + i;
        static const rlx_tensor none = {0};
        bool has_bias = at->m + i < cv->group_out;
        rlx_ref_addend bias = {has_bias ? cv->bias : &none, channel * cv->bias->strides[0], 0};
        for (int64_t s = 0; s < at->segment_count; s++) {
            const segment *part = &at->segments[s];
            TYPE *values = acc + i * RLX_TILE_COLUMNS + part->column;
            /* Channels past the last are 0, whatever the inputs are. */
            if (!has_bias) memset(values, 0, (size_t)part->count * sizeof *values);
            rlx_ref_addend residual = {
                cv->residual,
                output_offset(cv, cv->residual, cv->residual_strides, at->n, channel, part),
                cv->residual_strides[2]};
            WITH_TYPE(rlx_ref_finish_)(values, part->count, bias, residual, &cv->activation);
            WITH_TYPE(rlx_ref_write_)
            (cv->y, output_offset(cv, cv->y, cv->y_strides, at->n, channel, part), cv->y_strides[2],
             part->count, values);
        }
    }
}

static void WITH_TYPE(tile_)(const conv *cv, const conv_place *at) {
    TYPE acc[ROWS * RLX_TILE_COLUMNS] = {0};
    TYPE a[ROWS * RLX_TILE_DEPTH];
    TYPE b[RLX_TILE_DEPTH * RLX_TILE_COLUMNS];
    meeting all[MEETINGS];
    bool all_known = cv->taps <= MEETINGS / at->segment_count;
    int64_t c = 0, tap = 0;
    if (all_known) meet_all(cv, at, 0, cv->taps, all);
    for (int64_t k = 0; k < cv->depth; k += RLX_TILE_DEPTH) {
        int64_t depth = rlx_ref_least(RLX_TILE_DEPTH, cv->depth - k);
        WITH_TYPE(pack_weights_)(cv, at, k, depth, a);
        for (int64_t j = 0; j < depth; j++) {
            const meeting *met =
                all_known ? all + tap * at->segment_count : meet_all(cv, at, tap, 1, all);
            WITH_TYPE(pack_tap_)(cv, at, c, met, b + j * RLX_TILE_COLUMNS);
            if (++tap == cv->taps) tap = 0, c++;
        }
        WITH_TYPE(rlx_ref_tile_)(acc, a, depth, b, RLX_TILE_COLUMNS, at->rows, depth);
    }
    WITH_TYPE(store_)(cv, at, acc);
}

#undef PASTE_
#undef PASTE
#undef WITH_TYPE
#undef TYPE
#undef SUFFIX
#undef ROWS
