/* SPDX-License-Identifier: Apache-2.0 */
/* RotaryEmbedding and GroupQueryAttention of com.microsoft, as decoders of language models have
 * them: a cache of keys and values in which each sequence has a length of its own. */
#include "import/onnx/attention.h"
#include "import/onnx/extent.h"

#include <float.h>
#include <string.h>

/* Pairs of x [B][N][S][H] turned by angles whose cosines and sines are [B or 1][1][S][half]; what
 * is behind 2 half channels passes. */
static rlx_value_id rotated(ox *o, rlx_value_id x, rlx_value_id cosine, rlx_value_id sine,
                            bool is_interleaved) {
    rlx_value_id first, second, parts[3];
    rlx_type type = ox_type(o, x);
    int64_t half = ox_dim(o, cosine, 3), size = ox_dim(o, x, 3);
    if (ox_ok(o) && 2 * half > size)
        ox_invalid(o, "%" PRId64 " angles for %" PRId64 " channels", half, size);
    if (!ox_ok(o)) return RLX_NONE;
    rlx_value_id turning = 2 * half == size ? x : ox_slice(o, x, 3, 0, 2 * half, 1);
    if (is_interleaved) {
        const int64_t dims[] = {type.shape.dims[0], type.shape.dims[1], type.shape.dims[2], half,
                                2};
        rlx_value_id pairs = ox_reshape(o, turning, dims, 5);
        first = ox_squeeze(o, ox_slice(o, pairs, 4, 0, 1, 1), 4);
        second = ox_squeeze(o, ox_slice(o, pairs, 4, 1, 2, 1), 4);
    } else {
        first = ox_slice(o, turning, 3, 0, half, 1);
        second = ox_slice(o, turning, 3, half, 2 * half, 1);
    }
    parts[0] = ox_binary(o, RLX_OP_SUB, ox_binary(o, RLX_OP_MUL, first, cosine),
                         ox_binary(o, RLX_OP_MUL, second, sine));
    parts[1] = ox_binary(o, RLX_OP_ADD, ox_binary(o, RLX_OP_MUL, second, cosine),
                         ox_binary(o, RLX_OP_MUL, first, sine));
    if (is_interleaved) {
        const int64_t dims[] = {type.shape.dims[0], type.shape.dims[1], type.shape.dims[2],
                                2 * half};
        parts[0] = ox_unsqueeze(o, parts[0], 4);
        parts[1] = ox_unsqueeze(o, parts[1], 4);
        parts[0] = ox_reshape(o, ox_concat(o, parts, 2, 4), dims, 4);
        parts[1] = ox_slice(o, x, 3, 2 * half, size, 1);
        return 2 * half == size ? parts[0] : ox_concat(o, parts, 2, 3);
    }
    if (2 * half != size) parts[2] = ox_slice(o, x, 3, 2 * half, size, 1);
    return ox_concat(o, parts, 2 * half == size ? 2 : 3, 3);
}

/* Rows of a table [places][half] at positions [B][S], [S], or `first` .. where those are absent; as
 * [B or 1][1][S][half]. */
static rlx_value_id angles(ox *o, rlx_value_id table, rlx_value_id positions, int64_t first,
                           int64_t length) {
    if (ox_ok(o) && ox_rank(o, table) != 2) ox_invalid(o, "a table of rank %u", ox_rank(o, table));
    if (!ox_ok(o)) return RLX_NONE;
    int64_t half = ox_dim(o, table, 1), places = ox_dim(o, table, 0);
    if (positions == RLX_NONE && length > places - first)
        ox_invalid(o, "positions %" PRId64 " .. %" PRId64 " of %" PRId64, first, first + length,
                   places);
    if (!ox_ok(o)) return RLX_NONE;
    rlx_value_id rows = positions == RLX_NONE ? ox_slice(o, table, 0, first, first + length, 1)
                                              : ox_gather(o, table, positions, 0);
    const int64_t dims[] = {ox_rank(o, rows) == 3 ? ox_dim(o, rows, 0) : 1, 1, length, half};
    return ox_reshape(o, rows, dims, 4);
}

/* Positions [B][S], or [1]: the first of them all. */
static rlx_value_id read_positions(ox *o, rlx_value_id positions, int64_t length) {
    if (!ox_ok(o) || ox_rank(o, positions) != 1) return positions;
    return ox_binary(o, RLX_OP_ADD, ox_range(o, ox_dtype(o, positions), length), positions);
}

void rlx_ox_rotary_embedding(ox *o) {
    static const int64_t perm[] = {0, 2, 1, 3};
    rlx_value_id x = ox_in(o, 0), cosine = ox_in(o, 2), sine = ox_in(o, 3);
    int64_t heads = ox_int(o, "num_heads", 0), width = ox_int(o, "rotary_embedding_dim", 0);
    uint32_t rank = ox_rank(o, x);
    ox_only_int(o, "is_packed_batching", 0);
    if (ox_ok(o) && ox_float(o, "scale", 1) != 1) ox_unsupported(o, "a scale");
    if (ox_ok(o) && rank != 3 && rank != 4) ox_invalid(o, "input has rank %u", rank);
    if (ox_ok(o) && (ox_rank(o, cosine) != 2 || ox_dim(o, cosine, 1) == 0))
        ox_invalid(o, "a table of rank %u", ox_rank(o, cosine));
    if (ox_ok(o) && width > 0 && ox_dim(o, cosine, 1) != width / 2)
        ox_invalid(o, "rotary_embedding_dim %" PRId64 " with %" PRId64 " angles", width,
                   ox_dim(o, cosine, 1));
    if (!ox_ok(o)) return;
    if (rank == 3 && (width == 0 || heads == 0))
        heads = ox_dim(o, x, 2) / ox_times(o, 2, ox_dim(o, cosine, 1));
    rlx_value_id turned = rank == 3 ? ox_heads(o, x, heads) : x;
    int64_t length = ox_dim(o, turned, 2);
    rlx_value_id positions = read_positions(o, ox_in(o, 1), length);
    turned = rotated(o, turned, angles(o, cosine, positions, 0, length),
                     angles(o, sine, positions, 0, length), ox_int(o, "interleaved", 0) != 0);
    if (rank == 3) turned = ox_reshape_like(o, ox_transpose(o, turned, perm, 4), x);
    ox_give(o, 0, turned);
}

/* A cache and what is new. The lengths of the sequences so far are one number, known now, or one
 * per sequence, known at run time. */
typedef struct cache {
    int64_t batch, length; /* of the queries, which are all new */
    int64_t total, room;   /* keys at most, and what the result has room for */
    int64_t past;
    rlx_value_id pasts; /* i64 [B][1][1][1], or RLX_NONE: `past` */
    rlx_value_id held;  /* of one sequence whose cache is a state: its rows (growth.h); RLX_NONE */
} cache;

static cache read_cache(ox *o, rlx_value_id q, rlx_value_id past_key) {
    cache c = {.batch = ox_dim(o, q, 0), .length = ox_dim(o, q, 2)};
    c.pasts = c.held = RLX_NONE;
    if (!ox_ok(o)) return c;
    if (past_key != RLX_NONE) c.held = ox_type(o, past_key).extents[2];
    if (c.held != RLX_NONE && c.batch != 1)
        ox_unsupported(o, "caches of %" PRId64 " sequences that grow", c.batch);
    if (c.held != RLX_NONE) {
        c.total = c.room = ox_dim(o, past_key, 2);
        return c;
    }
    c.total = ox_need_int(o, ox_in(o, 6));
    if (!ox_ok(o)) return c;
    int64_t old = past_key == RLX_NONE ? 0 : ox_dim(o, past_key, 2);
    c.room = c.total > old ? c.total : old;
    c.past = c.total - c.length;
    if (c.past < 0 || c.past > old)
        ox_invalid(o, "total_sequence_length %" PRId64 " with %" PRId64 " new and %" PRId64 " old",
                   c.total, c.length, old);
    if (c.past == 0 || c.batch == 1 || !ox_ok(o)) return c;
    const int64_t dims[] = {c.batch, 1, 1, 1};
    rlx_value_id lengths = ox_cast(o, ox_in(o, 5), RLX_DTYPE_I64);
    lengths =
        ox_binary(o, RLX_OP_ADD, lengths, ox_scalar(o, RLX_DTYPE_I64, (double)(1 - c.length)));
    c.pasts = ox_reshape(o, lengths, dims, 4);
    return c;
}

/* Each sequence's new rows behind its own past: row by row, as there are few. */
static rlx_value_id extended_each(ox *o, const cache *c, rlx_value_id past, rlx_value_id now) {
    enum { MOST_ROWS = 16 };
    const int64_t column[] = {1, 1, c->room, 1};
    rlx_value_id place = ox_reshape(o, ox_range(o, RLX_DTYPE_I64, c->room), column, 4);
    rlx_value_id behind = ox_binary(o, RLX_OP_SUB, place, c->pasts);
    rlx_value_id y = ox_scalar(o, ox_dtype(o, now), 0);
    rlx_pad_attrs pad = {.pads = {8, {0}}};
    if (c->length > MOST_ROWS)
        ox_unsupported(o, "%" PRId64 " new rows for %" PRId64 " sequences of different lengths",
                       c->length, c->batch);
    if (!ox_ok(o)) return RLX_NONE;
    pad.pads.items[6] = c->room - ox_dim(o, past, 2);
    if (pad.pads.items[6] > 0) past = ox_node(o, RLX_OP_PAD, &pad, &past, 1);
    for (int64_t i = c->length; i-- > 0;) {
        rlx_value_id at = ox_scalar(o, RLX_DTYPE_I64, (double)i);
        y = ox_where(o, ox_binary(o, RLX_OP_EQUAL, behind, at), ox_slice(o, now, 2, i, i + 1, 1),
                     y);
    }
    rlx_value_id zero = ox_scalar(o, RLX_DTYPE_I64, 0);
    return ox_where(o, ox_binary(o, RLX_OP_LESS, behind, zero), past, y);
}

static rlx_value_id extended(ox *o, const cache *c, rlx_value_id past, rlx_value_id now) {
    rlx_value_id parts[] = {past, now};
    if (!ox_ok(o)) return RLX_NONE;
    if (c->held != RLX_NONE) return ox_join(o, parts, 2, 2);
    if (c->pasts != RLX_NONE) return extended_each(o, c, past, now);
    if (c->past > 0 && c->past < ox_dim(o, past, 2)) parts[0] = ox_slice(o, past, 2, 0, c->past, 1);
    rlx_value_id y = c->past == 0 ? now : ox_concat(o, parts, 2, 2);
    if (c->room == c->total) return y;
    const rlx_pad_attrs pad = {.pads = {8, {0, 0, 0, 0, 0, 0, c->room - c->total, 0}}};
    return ox_node(o, RLX_OP_PAD, &pad, &y, 1);
}

/* Key t is seen by query i where t <= past + i, and not further back than the window. */
static rlx_value_id mask_of_pasts(ox *o, const cache *c, int64_t window, rlx_dtype dtype) {
    const int64_t row[] = {1, 1, 1, c->room}, column[] = {1, 1, c->length, 1};
    rlx_value_id key = ox_reshape(o, ox_range(o, RLX_DTYPE_I64, c->room), row, 4);
    rlx_value_id query = ox_reshape(o, ox_range(o, RLX_DTYPE_I64, c->length), column, 4);
    rlx_value_id last = ox_binary(o, RLX_OP_ADD, c->pasts, query);
    rlx_value_id sees = ox_binary(o, RLX_OP_LESS_EQUAL, key, last);
    if (window > 0) {
        rlx_value_id reach = ox_scalar(o, RLX_DTYPE_I64, (double)window);
        rlx_value_id near =
            ox_binary(o, RLX_OP_GREATER, key, ox_binary(o, RLX_OP_SUB, last, reach));
        sees = ox_binary(o, RLX_OP_AND, sees, near);
    }
    return ox_mask_of(o, sees, dtype, dtype == RLX_DTYPE_F16 ? -65504 : -(double)FLT_MAX);
}

/* q, k and v as heads; packed: side by side in the first input. */
static void read_heads(ox *o, int64_t heads, int64_t kv_heads, rlx_value_id *out) {
    rlx_value_id in[] = {ox_in(o, 0), ox_maybe(o, 1), ox_maybe(o, 2)};
    if (ox_ok(o) && (heads <= 0 || kv_heads <= 0 || heads % kv_heads != 0))
        ox_invalid(o, "%" PRId64 " heads of %" PRId64 " groups", heads, kv_heads);
    if (ox_ok(o) && ox_rank(o, in[0]) != 3) ox_invalid(o, "query has rank %u", ox_rank(o, in[0]));
    if (ox_ok(o) && (in[1] == RLX_NONE) != (in[2] == RLX_NONE))
        ox_invalid(o, "a key without a value");
    if (!ox_ok(o)) return;
    if (in[1] == RLX_NONE) {
        int64_t parts = ox_plus(o, heads, ox_times(o, 2, kv_heads)), width = ox_dim(o, in[0], 2);
        if (ox_ok(o) && width % parts != 0)
            ox_invalid(o, "%" PRId64 " channels in %" PRId64 " heads", width, parts);
        if (!ox_ok(o)) return;
        const int64_t size = width / parts;
        const int64_t sizes[] = {heads * size, kv_heads * size, kv_heads * size};
        ox_split(o, in[0], 2, sizes, 3, in);
    }
    for (uint32_t i = 0; i < 3; i++)
        out[i] = ox_heads(o, in[i], i == 0 ? heads : kv_heads);
}

/* Turns queries and keys by their positions in the cache, or by those that are given. */
static void rotate_both(ox *o, const cache *c, rlx_value_id *qk) {
    rlx_value_id cosine = ox_in(o, 7), sine = ox_in(o, 8), positions = ox_maybe(o, 9);
    bool is_interleaved = ox_int(o, "rotary_interleaved", 0) != 0;
    if (positions == RLX_NONE && c->pasts != RLX_NONE) {
        const int64_t column[] = {c->batch, 1};
        positions = ox_binary(o, RLX_OP_ADD, ox_reshape(o, c->pasts, column, 2),
                              ox_range(o, RLX_DTYPE_I64, c->length));
    }
    if (positions == RLX_NONE && c->held != RLX_NONE)
        positions = ox_binary(o, RLX_OP_ADD, ox_range(o, RLX_DTYPE_I64, c->length), c->held);
    cosine = angles(o, cosine, positions, c->past, c->length);
    sine = angles(o, sine, positions, c->past, c->length);
    for (uint32_t i = 0; i < 2; i++)
        qk[i] = rotated(o, qk[i], cosine, sine, is_interleaved);
}

static void refuse_rest(ox *o) {
    static const char *const none = "NONE";
    ox_only_int(o, "smooth_softmax", 0);
    ox_only_int(o, "qk_output", 0);
    ox_only_int(o, "kv_cache_bit_width", 0);
    if (strcmp(ox_text(o, "k_quant_type", none), none) != 0 ||
        strcmp(ox_text(o, "v_quant_type", none), none) != 0)
        ox_unsupported(o, "a quantised cache");
    for (uint32_t i = 11; i < o->in_count; i++) {
        if (ox_has(o, i)) ox_unsupported(o, "input %u (head_sink and later ones)", i);
    }
    if (ox_wants(o, 3)) ox_unsupported(o, "the scores as an output");
}

void rlx_ox_group_query_attention(ox *o) {
    rlx_attention_attrs attrs = {
        .scale = ox_float(o, "scale", 0), .softcap = ox_float(o, "softcap", 0), .causal = true};
    int64_t heads = ox_int(o, "num_heads", 0), kv_heads = ox_int(o, "kv_num_heads", 0);
    int64_t window = ox_int(o, "local_window_size", -1);
    rlx_value_id qkv[3] = {RLX_NONE, RLX_NONE, RLX_NONE}, bias = ox_maybe(o, 10);
    refuse_rest(o);
    read_heads(o, heads, kv_heads, qkv);
    cache c = read_cache(o, qkv[0], ox_maybe(o, 3));
    if (!ox_ok(o)) return;
    if (ox_int(o, "do_rotary", 0) != 0) rotate_both(o, &c, qkv);
    rlx_value_id k = extended(o, &c, ox_maybe(o, 3), qkv[1]);
    rlx_value_id v = extended(o, &c, ox_maybe(o, 4), qkv[2]);
    ox_give(o, 1, k);
    ox_give(o, 2, v);
    if (c.pasts != RLX_NONE) {
        attrs.causal = false;
        bias = ox_add_masks(o, mask_of_pasts(o, &c, window, ox_dtype(o, qkv[0])), bias);
    } else {
        if (window > 0) attrs.window = window;
        if (c.room != c.total) k = ox_slice(o, k, 2, 0, c.total, 1);
        if (c.room != c.total) v = ox_slice(o, v, 2, 0, c.total, 1);
    }
    ox_give(o, 0, ox_attend(o, &attrs, qkv[0], k, v, bias));
}
