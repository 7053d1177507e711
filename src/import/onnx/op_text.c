/* SPDX-License-Identifier: Apache-2.0 */
/* TfIdfVectorizer over integers: formulae over constants. */
#include "import/onnx/ops.h"

#include <string.h>

/* The n-grams of a pool with one n: `count` of them, items[count][n]. */
typedef struct pool_part {
    const int64_t *items;
    int64_t n, count, first; /* first: its place among all n-grams */
} pool_part;

/* How often each n-gram of the part occurs with elements `skip` apart: f32 [batch][count]. */
static rlx_value_id count_grams(ox *o, rlx_value_id x, const pool_part *part, int64_t skip) {
    int64_t length = ox_dim(o, x, 1);
    int64_t windows = ox_plus(o, length, -ox_times(o, part->n - 1, skip + 1));
    int64_t axis = 1;
    rlx_value_id all = RLX_NONE;
    if (windows <= 0) return RLX_NONE;
    for (int64_t k = 0; k < part->n && ox_ok(o); k++) {
        const int64_t dims[] = {1, 1, part->count};
        int64_t *column = ox_memory(o, (uint64_t)part->count, sizeof *column);
        for (int64_t i = 0; i < part->count && ox_ok(o); i++)
            column[i] = part->items[i * part->n + k];
        if (!ox_ok(o)) break;
        rlx_value_id wanted =
            ox_constant(o, RLX_DTYPE_I64, dims, 3, column, (uint64_t)part->count * sizeof *column);
        rlx_value_id seen = ox_slice(o, x, 1, k * (skip + 1), k * (skip + 1) + windows, 1);
        rlx_value_id same = ox_binary(o, RLX_OP_EQUAL, ox_unsqueeze(o, seen, 2), wanted);
        all = all == RLX_NONE ? same : ox_binary(o, RLX_OP_AND, all, same);
    }
    return ox_reduce(o, RLX_OP_REDUCE_SUM, ox_cast(o, all, RLX_DTYPE_F32), &axis, 1, false);
}

static rlx_value_id count_part(ox *o, rlx_value_id x, const pool_part *part, int64_t most_skip) {
    rlx_value_id sum = RLX_NONE;
    for (int64_t skip = 0; skip <= (part->n == 1 ? 0 : most_skip) && ox_ok(o); skip++) {
        rlx_value_id more = count_grams(o, x, part, skip);
        if (more == RLX_NONE) break;
        sum = sum == RLX_NONE ? more : ox_binary(o, RLX_OP_ADD, sum, more);
    }
    if (sum != RLX_NONE || !ox_ok(o)) return sum;
    const int64_t dims[] = {ox_dim(o, x, 0), part->count};
    return ox_expand(o, ox_scalar(o, RLX_DTYPE_F32, 0), dims, 2);
}

/* Counts to their columns of the result, weighted as the mode says. */
static rlx_value_id weigh(ox *o, rlx_value_id counts, const rlx_onnx_attr *weights) {
    const char *mode = ox_text(o, "mode", "TF");
    rlx_value_id w = RLX_NONE;
    if (weights != NULL && weights->floats != NULL) {
        const int64_t dims[] = {weights->count};
        w = ox_constant(o, RLX_DTYPE_F32, dims, 1, weights->floats,
                        weights->count * sizeof *weights->floats);
    }
    if (strcmp(mode, "TF") == 0) return counts;
    if (strcmp(mode, "IDF") == 0) {
        rlx_value_id zero = ox_scalar(o, RLX_DTYPE_F32, 0);
        counts = ox_cast(o, ox_binary(o, RLX_OP_GREATER, counts, zero), RLX_DTYPE_F32);
    } else if (strcmp(mode, "TFIDF") != 0) {
        ox_invalid(o, "mode '%s' is not known", mode);
    }
    return w == RLX_NONE ? counts : ox_binary(o, RLX_OP_MUL, counts, w);
}

/* Column i of the counts goes to column places[i]. */
static rlx_value_id to_columns(ox *o, rlx_value_id counts, const rlx_onnx_attr *places) {
    int64_t width = 0;
    for (uint32_t i = 0; i < places->count; i++) {
        if (places->ints[i] >= width && places->ints[i] < INT64_MAX) width = places->ints[i] + 1;
        if (places->ints[i] < 0) ox_invalid(o, "ngram_indexes has %" PRId64, places->ints[i]);
    }
    if (width > OX_MOST_NUMBERS / (int64_t)(places->count + 1))
        ox_unsupported(o, "%" PRId64 " columns", width);
    const int64_t dims[] = {places->count, width};
    double *matrix = ox_memory(o, (uint64_t)(places->count * width), sizeof *matrix);
    for (uint32_t i = 0; i < places->count && ox_ok(o); i++)
        matrix[i * width + places->ints[i]] = 1;
    if (!ox_ok(o)) return RLX_NONE;
    return ox_matmul(o, counts, ox_doubles(o, RLX_DTYPE_F32, matrix, dims, 2));
}

void rlx_ox_tf_idf(ox *o) {
    const rlx_onnx_attr *pool = ox_attr(o, "pool_int64s"), *starts = ox_attr(o, "ngram_counts"),
                        *places = ox_attr(o, "ngram_indexes");
    int64_t least = ox_int(o, "min_gram_length", 1), most = ox_int(o, "max_gram_length", 1),
            skips = ox_int(o, "max_skip_count", 0), first = 0;
    rlx_value_id x = ox_in(o, 0), parts[16];
    uint32_t part_count = 0;
    if (skips < 0 || skips > 65536) ox_invalid(o, "max_skip_count %" PRId64, skips);
    if (ox_ok(o) && ox_rank(o, x) != 1 && ox_rank(o, x) != 2) ox_invalid(o, "it takes rank 1 or 2");
    if (ox_ok(o) && (pool == NULL || pool->ints == NULL))
        ox_unsupported(o, "a pool that holds no integers");
    if (ox_ok(o) && (starts == NULL || places == NULL || starts->ints == NULL ||
                     places->ints == NULL || starts->count > 16 || most > 16))
        ox_invalid(o, "ngram_counts and ngram_indexes are wanted");
    if (!ox_ok(o)) return;
    bool is_flat = ox_rank(o, x) == 1;
    x = ox_cast(o, is_flat ? ox_unsqueeze(o, x, 0) : x, RLX_DTYPE_I64);
    for (uint32_t g = 0; g < starts->count && ox_ok(o); g++) {
        int64_t end = g + 1 < starts->count ? starts->ints[g + 1] : pool->count;
        pool_part part = {pool->ints + starts->ints[g], g + 1, 0, first};
        if (starts->ints[g] < 0 || end > (int64_t)pool->count || end < starts->ints[g])
            ox_invalid(o, "ngram_counts has %" PRId64, starts->ints[g]);
        part.count = (end - starts->ints[g]) / part.n;
        if (part.count == 0 || !ox_ok(o)) continue;
        first += part.count;
        parts[part_count] = count_part(o, x, &part, skips);
        if (part.n < least || part.n > most)
            parts[part_count] =
                ox_binary(o, RLX_OP_MUL, parts[part_count], ox_scalar(o, RLX_DTYPE_F32, 0));
        part_count++;
    }
    if (ox_ok(o) && (part_count == 0 || first != (int64_t)places->count))
        ox_invalid(o, "%" PRId64 " n-grams, %u places", first, places->count);
    if (!ox_ok(o)) return;
    rlx_value_id counts = weigh(o, ox_concat(o, parts, part_count, 1), ox_attr(o, "weights"));
    rlx_value_id y = to_columns(o, counts, places);
    ox_give(o, 0, is_flat ? ox_squeeze(o, y, 0) : y);
}
