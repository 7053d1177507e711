/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, MultiHeadAttention and QAttention of com.microsoft: projections, heads and masks
 * around the graph's own attention. Caches are concatenated, as standard ops would. */
#include "import/onnx/attention.h"
#include "import/onnx/extent.h"
#include "import/onnx/quant.h"

/* Splits one axis into heads and puts them before the sequence. */
rlx_value_id ox_heads(ox *o, rlx_value_id x, int64_t heads) {
    static const int64_t perm[] = {0, 2, 1, 3};
    if (ox_ok(o) && (ox_rank(o, x) != 3 || heads <= 0 || ox_dim(o, x, 2) % heads != 0))
        ox_invalid(o, "rank %u with %" PRId64 " channels is not %" PRId64 " heads", ox_rank(o, x),
                   ox_dim(o, x, 2), heads);
    if (!ox_ok(o)) return RLX_NONE;
    const int64_t dims[] = {ox_dim(o, x, 0), ox_dim(o, x, 1), heads, ox_dim(o, x, 2) / heads};
    return ox_transpose(o, ox_reshape(o, x, dims, 4), perm, 4);
}

rlx_value_id ox_attend(ox *o, const rlx_attention_attrs *attrs, rlx_value_id q, rlx_value_id k,
                       rlx_value_id v, rlx_value_id mask) {
    static const int64_t perm[] = {0, 2, 1, 3};
    const rlx_value_id inputs[] = {q, k, v, mask};
    rlx_value_id y = ox_node(o, RLX_OP_ATTENTION, attrs, inputs, mask == RLX_NONE ? 3 : 4);
    if (!ox_ok(o)) return RLX_NONE;
    const int64_t dims[] = {ox_dim(o, y, 0), ox_dim(o, y, 2),
                            ox_times(o, ox_dim(o, y, 1), ox_dim(o, y, 3))};
    return ox_reshape(o, ox_transpose(o, y, perm, 4), dims, 3);
}

rlx_value_id ox_add_masks(ox *o, rlx_value_id a, rlx_value_id b) {
    if (a == RLX_NONE || b == RLX_NONE) return a == RLX_NONE ? b : a;
    return ox_binary(o, RLX_OP_ADD, a, b);
}

rlx_value_id ox_mask_of(ox *o, rlx_value_id keeps, rlx_dtype dtype, double low) {
    return ox_where(o, keeps, ox_scalar(o, dtype, 0), ox_scalar(o, dtype, low));
}

/* What the node says about its scores, and the sizes at hand. */
typedef struct facts {
    int64_t batch, length, total; /* of queries; of keys */
    int64_t heads;
    rlx_dtype dtype;
    double low; /* what is added where a mask is 0 */
    rlx_attention_attrs attrs;
} facts;

static facts read_facts(ox *o) {
    facts f = {.heads = ox_int(o, "num_heads", 0), .low = ox_float(o, "mask_filter_value", -10000)};
    f.attrs.causal = ox_int(o, "unidirectional", 0) != 0;
    f.attrs.scale = ox_float(o, "scale", 0);
    if (ox_ok(o) && f.heads <= 0) ox_invalid(o, "num_heads is %" PRId64, f.heads);
    ox_only_int(o, "do_rotary", 0);
    ox_only_int(o, "past_present_share_buffer", 0);
    return f;
}

static rlx_value_id column(ox *o, rlx_value_id x, int64_t batch) {
    const int64_t dims[] = {batch, 1, 1, 1};
    return ox_reshape(o, x, dims, 4);
}

/* Lengths [B], or ends and then starts [2 B]. */
static rlx_value_id mask_of_lengths(ox *o, const facts *f, rlx_value_id mask) {
    const int64_t row[] = {1, 1, 1, f->total};
    rlx_value_id place = ox_reshape(o, ox_range(o, ox_dtype(o, mask), f->total), row, 4);
    rlx_value_id ends = ox_slice(o, mask, 0, 0, f->batch, 1);
    rlx_value_id keeps = ox_binary(o, RLX_OP_LESS, place, column(o, ends, f->batch));
    if (ox_dim(o, mask, 0) == 2 * f->batch) {
        rlx_value_id starts = column(o, ox_slice(o, mask, 0, f->batch, 2 * f->batch, 1), f->batch);
        keeps = ox_binary(o, RLX_OP_AND, keeps, ox_binary(o, RLX_OP_GREATER_EQUAL, place, starts));
    }
    return ox_mask_of(o, keeps, f->dtype, f->low);
}

/* A mask of integers, 0 where a key is not seen: [B][T], [B][S][T] or [B][1][M][M]. */
static rlx_value_id mask_of_numbers(ox *o, const facts *f, rlx_value_id mask) {
    uint32_t rank = ox_rank(o, mask);
    if (rank == 4) { /* of the longest sequence: the rows and columns at hand */
        mask = ox_slice(o, mask, 2, f->total - f->length, f->total, 1);
        mask = ox_slice(o, mask, 3, 0, f->total, 1);
    } else {
        const int64_t dims[] = {ox_dim(o, mask, 0), 1, rank == 3 ? ox_dim(o, mask, 1) : 1,
                                ox_dim(o, mask, rank - 1)};
        mask = ox_reshape(o, mask, dims, 4);
    }
    rlx_value_id zero = ox_scalar(o, ox_dtype(o, mask), 0);
    return ox_mask_of(o, ox_binary(o, RLX_OP_GREATER, mask, zero), f->dtype, f->low);
}

static rlx_value_id read_mask(ox *o, const facts *f, rlx_value_id mask) {
    if (mask == RLX_NONE || !ox_ok(o)) return mask;
    uint32_t rank = ox_rank(o, mask);
    if (rank >= 2 && rank <= 4) return mask_of_numbers(o, f, mask);
    if (rank == 1 && (ox_dim(o, mask, 0) == f->batch || ox_dim(o, mask, 0) == 2 * f->batch))
        return mask_of_lengths(o, f, mask);
    ox_unsupported(o, "a mask of rank %u with %" PRId64 " elements for %" PRId64 " sequences", rank,
                   ox_elements(o, mask), f->batch);
    return RLX_NONE;
}

/* Keys or values of before, then the new ones; both [B][N][..][H]. */
static rlx_value_id joined(ox *o, rlx_value_id past, rlx_value_id now) {
    const rlx_value_id parts[] = {past, now};
    if (past == RLX_NONE || !ox_ok(o)) return now;
    return ox_has_extent(o, past) ? ox_join(o, parts, 2, 2) : ox_concat(o, parts, 2, 2);
}

/* q, k and v side by side, [B][S][D + D + Dv], and a cache [2][B][N][P][H]. */
static void attend_projected(ox *o, rlx_value_id product, rlx_value_id mask, rlx_value_id past,
                             rlx_value_id bias) {
    facts f = read_facts(o);
    rlx_ints sizes = {0};
    rlx_value_id parts[3] = {RLX_NONE, RLX_NONE, RLX_NONE}, old[2] = {RLX_NONE, RLX_NONE};
    if (ox_ok(o) && ox_rank(o, product) != 3) ox_invalid(o, "input has no rank of 3");
    if (!ox_ok(o)) return;
    int64_t width = ox_dim(o, product, 2);
    if (!ox_ints(o, "qkv_hidden_sizes", &sizes) || sizes.count == 0)
        sizes = (rlx_ints){3, {width / 3, width / 3, width / 3}};
    if (sizes.count != 3) ox_invalid(o, "qkv_hidden_sizes has %u items", sizes.count);
    ox_split(o, product, 2, sizes.items, 3, parts);
    for (uint32_t i = 0; i < 3; i++)
        parts[i] = ox_heads(o, parts[i], f.heads);
    for (int64_t i = 0; i < 2 && past != RLX_NONE; i++)
        old[i] = ox_squeeze(o, ox_slice(o, past, 0, i, i + 1, 1), 0);
    rlx_value_id k = joined(o, old[0], parts[1]), v = joined(o, old[1], parts[2]);
    f.batch = ox_dim(o, product, 0);
    f.length = ox_dim(o, product, 1);
    f.total = ox_dim(o, k, 2);
    f.dtype = ox_dtype(o, product);
    mask = ox_add_masks(o, read_mask(o, &f, mask), bias);
    ox_give(o, 0, ox_attend(o, &f.attrs, parts[0], k, v, mask));
    if (!ox_wants(o, 1)) return;
    const rlx_value_id both[] = {ox_unsqueeze(o, k, 0), ox_unsqueeze(o, v, 0)};
    ox_give(o, 1, ox_concat(o, both, 2, 0));
}

void rlx_ox_attention(ox *o) {
    rlx_value_id product = ox_matmul(o, ox_in(o, 0), ox_in(o, 1)), bias = ox_maybe(o, 2);
    if (bias != RLX_NONE) product = ox_binary(o, RLX_OP_ADD, product, bias);
    if (ox_has(o, 6)) ox_unsupported(o, "past_sequence_length");
    attend_projected(o, product, ox_maybe(o, 3), ox_maybe(o, 4), ox_maybe(o, 5));
}

/* The projection is a product of bytes. */
void rlx_ox_qattention(ox *o) {
    rlx_value_id a_zero = ox_maybe(o, 6), b_zero = ox_maybe(o, 7);
    rlx_value_id sum = ox_integer_product(o, ox_in(o, 0), a_zero, ox_in(o, 1), b_zero);
    rlx_value_id scale = ox_binary(o, RLX_OP_MUL, ox_in(o, 3), ox_in(o, 4));
    rlx_value_id product = ox_binary(o, RLX_OP_MUL, ox_cast(o, sum, RLX_DTYPE_F32), scale);
    product = ox_binary(o, RLX_OP_ADD, product, ox_in(o, 2));
    attend_projected(o, product, ox_maybe(o, 5), ox_maybe(o, 8), RLX_NONE);
}

/* Of [B][S][N][count][H] the tensor `index`, as [B][N][S][H]. */
static rlx_value_id unpacked(ox *o, rlx_value_id x, int64_t index) {
    static const int64_t perm[] = {0, 2, 1, 3};
    return ox_transpose(o, ox_squeeze(o, ox_slice(o, x, 3, index, index + 1, 1), 3), perm, 4);
}

/* q, k and v as heads, from one to three inputs, with their parts of the bias. */
static void read_qkv(ox *o, int64_t heads, rlx_value_id *out) {
    rlx_value_id in[] = {ox_in(o, 0), ox_maybe(o, 1), ox_maybe(o, 2)}, bias = ox_maybe(o, 3);
    uint32_t rank = ox_rank(o, in[0]), key_rank = in[1] == RLX_NONE ? 0 : ox_rank(o, in[1]);
    int64_t start = 0;
    if (ox_ok(o) && bias != RLX_NONE && (rank != 3 || key_rank == 5))
        ox_unsupported(o, "a bias of packed inputs");
    if (rank == 5 && key_rank == 0) {
        for (uint32_t i = 0; i < 3; i++)
            out[i] = unpacked(o, in[0], i);
        return;
    }
    if (ox_ok(o) && (rank != 3 || key_rank < 3 || (key_rank != 5 && in[2] == RLX_NONE)))
        ox_invalid(o, "query of rank %u with a key of rank %u", rank, key_rank);
    for (uint32_t i = 0; i < 3 && ox_ok(o); i++) {
        if (i > 0 && key_rank == 5) {
            out[i] = unpacked(o, in[1], i - 1);
            continue;
        }
        out[i] = in[i];
        if (i > 0 && key_rank == 4) continue;
        int64_t width = ox_dim(o, in[i], 2);
        if (bias != RLX_NONE)
            out[i] = ox_binary(o, RLX_OP_ADD, in[i], ox_slice(o, bias, 0, start, start + width, 1));
        start = ox_plus(o, start, width);
        out[i] = ox_heads(o, out[i], heads);
    }
}

void rlx_ox_multi_head_attention(ox *o) {
    facts f = read_facts(o);
    rlx_value_id qkv[3] = {RLX_NONE, RLX_NONE, RLX_NONE};
    read_qkv(o, f.heads, qkv);
    if (ox_has(o, 8)) ox_unsupported(o, "past_sequence_length");
    if (ox_has(o, 9)) ox_unsupported(o, "cache_indirection");
    if (ox_wants(o, 3)) ox_unsupported(o, "the scores as an output");
    rlx_value_id k = joined(o, ox_maybe(o, 6), qkv[1]), v = joined(o, ox_maybe(o, 7), qkv[2]);
    if (!ox_ok(o)) return;
    f.batch = ox_dim(o, qkv[0], 0);
    f.length = ox_dim(o, qkv[0], 2);
    f.total = ox_dim(o, k, 2);
    f.dtype = ox_dtype(o, qkv[0]);
    rlx_value_id mask = ox_add_masks(o, read_mask(o, &f, ox_maybe(o, 4)), ox_maybe(o, 5));
    ox_give(o, 0, ox_attend(o, &f.attrs, qkv[0], k, v, mask));
    ox_give(o, 1, k);
    ox_give(o, 2, v);
}
