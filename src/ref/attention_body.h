/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of one block of query rows for one accumulator type. Included by attention.c once per
 * type, with TYPE, SUFFIX, EXP and TANH defined; not a header of its own. */
#define PASTE_(a, b)    a##b
#define PASTE(a, b)     PASTE_(a, b)
#define WITH_TYPE(name) PASTE(name, SUFFIX)

/* One row of k or v: where it lies if it can be used as it is, else decoded into `room`. */
static const TYPE *WITH_TYPE(row_)(const rlx_tensor *tensor, int64_t b, int64_t h, int64_t t,
                                   TYPE *room) {
    int64_t offset = b * tensor->strides[0] + h * tensor->strides[1] + t * tensor->strides[2];
    if (tensor->dtype == NATIVE && tensor->strides[3] == 1)
        return (const TYPE *)tensor->data + offset;
    WITH_TYPE(rlx_ref_read_)(tensor, offset, tensor->strides[3], tensor->dims[3], room);
    return room;
}

/* Scores of key t against every row that sees it; minus infinity for the others. */
static void WITH_TYPE(score_)(const rlx_attention *at, const rlx_query_row *rows, int64_t row_count,
                              const TYPE *queries, const TYPE *key, int64_t t, TYPE *scores) {
    for (int64_t r = 0; r < row_count; r++) {
        TYPE score = -INFINITY;
        if (t >= rows[r].first && t < rows[r].end) {
            TYPE more;
            score =
                WITH_TYPE(rlx_ref_dot_)(queries + r * at->depth, key, at->depth) * (TYPE)at->scale;
            if (at->softcap > 0) score = (TYPE)at->softcap * TANH(score / (TYPE)at->softcap);
            if (at->mask->data != NULL) {
                WITH_TYPE(rlx_ref_read_)
                (at->mask, rows[r].mask + t * at->mask_strides[3], 1, 1, &more);
                score += more;
            }
        }
        scores[r * KEYS] = score;
    }
}

/* Turns a row's scores of `count` keys into weights and moves the row's sums to the new maximum. */
static void WITH_TYPE(weigh_)(TYPE *scores, int64_t count, TYPE *most, TYPE *sum, TYPE *acc,
                              int64_t width) {
    TYPE top = *most;
    for (int64_t i = 0; i < count; i++) {
        if (scores[i] > top || scores[i] != scores[i]) top = scores[i];
    }
    if (top == -INFINITY) { /* nothing seen so far */
        for (int64_t i = 0; i < count; i++)
            scores[i] = 0;
        return;
    }
    if (top != *most) {
        TYPE factor = EXP(*most - top);
        *sum *= factor;
        for (int64_t i = 0; i < width; i++)
            acc[i] = factor == 0 ? 0 : acc[i] * factor; /* as weights of 0 do not count */
        *most = top;
    }
    for (int64_t i = 0; i < count; i++) {
        scores[i] = EXP(scores[i] - top);
        *sum += scores[i];
    }
}

static void WITH_TYPE(block_)(const rlx_attention *at, const rlx_query_row *rows, int64_t row_count,
                              int64_t b, int64_t head, TYPE *room) {
    TYPE scores[ROWS * KEYS], most[ROWS], sum[ROWS] = {0};
    TYPE *queries = room, *acc = queries + ROWS * at->depth;
    TYPE *key_room = acc + ROWS * at->width, *value_room = key_room + at->depth;
    int64_t first = at->keys, end = 0;
    for (int64_t r = 0; r < row_count; r++) {
        most[r] = -INFINITY;
        WITH_TYPE(rlx_ref_read_)
        (at->q, rows[r].q, at->q->strides[3], at->depth, queries + r * at->depth);
        if (rows[r].first < first) first = rows[r].first;
        if (rows[r].end > end) end = rows[r].end;
    }
    for (int64_t i = 0; i < row_count * at->width; i++)
        acc[i] = 0;
    /* Tiles of keys start at multiples of KEYS, so a row's order does not hang on its block. */
    for (int64_t t = first / KEYS * KEYS; t < end; t += KEYS) {
        int64_t count = rlx_ref_least(KEYS, end - t);
        for (int64_t i = 0; i < count; i++) {
            const TYPE *key = WITH_TYPE(row_)(at->k, b, head, t + i, key_room);
            WITH_TYPE(score_)(at, rows, row_count, queries, key, t + i, scores + i);
        }
        for (int64_t r = 0; r < row_count; r++)
            WITH_TYPE(weigh_)
        (scores + r * KEYS, count, &most[r], &sum[r], acc + r * at->width, at->width);
        for (int64_t i = 0; i < count; i++) {
            const TYPE *value = WITH_TYPE(row_)(at->v, b, head, t + i, value_room);
            for (int64_t r = 0; r < row_count; r++) {
                TYPE weight = scores[r * KEYS + i], *out = acc + r * at->width;
                if (weight == 0) continue;
                for (int64_t d = 0; d < at->width; d++)
                    out[d] += weight * value[d];
            }
        }
    }
    for (int64_t r = 0; r < row_count; r++) {
        TYPE *out = acc + r * at->width;
        for (int64_t d = 0; d < at->width; d++)
            out[d] = sum[r] == 0 ? 0 : out[d] / sum[r];
        WITH_TYPE(rlx_ref_write_)(at->y, rows[r].y, at->y->strides[3], at->width, out);
    }
}

#undef PASTE_
#undef PASTE
#undef WITH_TYPE
#undef TYPE
#undef SUFFIX
#undef NATIVE
#undef EXP
#undef TANH
