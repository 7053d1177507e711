/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum: operands are brought to the axes of all letters, multiplied, and summed over the letters
 * that the result does not have. Two operands that share summed letters become a matrix product. */
#include "import/onnx/ops.h"

#include <string.h>

enum { MOST_TERMS = 8 };

/* Letters of one term; '.' stands for each dim of an ellipsis. */
typedef struct term {
    char letters[RLX_MAX_RANK + 1];
    uint32_t count;
} term;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* One term up to a comma, an arrow or the end. Digits stand for the dims of an ellipsis. */
static const char *read_term(ox *o, const char *at, uint32_t dots, term *out_term) {
    term read = {{0}, 0};
    while (*at != 0 && *at != ',' && *at != '-' && ox_ok(o)) {
        uint32_t more = 1;
        if (*at == '.') {
            if (strncmp(at, "...", 3) != 0) ox_invalid(o, "a single dot");
            more = dots;
        } else if (*at == ' ') {
            at++;
            continue;
        } else if (!is_letter(*at)) {
            ox_invalid(o, "'%c' is no letter", *at);
        }
        if (read.count + more > RLX_MAX_RANK)
            ox_unsupported(o, "a term of more than %d dims", RLX_MAX_RANK);
        if (!ox_ok(o)) break;
        for (uint32_t i = 0; i < more; i++)
            read.letters[read.count++] = *at == '.' ? (char)('0' + i + 10 - dots) : *at;
        at += *at == '.' ? 3 : 1;
    }
    *out_term = read;
    return at;
}

/* The dims that an ellipsis stands for in an operand of this rank. */
static uint32_t dots_of(const char *at, uint32_t rank) {
    uint32_t letters = 0;
    bool has = false;
    for (; *at != 0 && *at != ',' && *at != '-'; at++) {
        letters += is_letter(*at);
        has = has || *at == '.';
    }
    return has && rank > letters ? rank - letters : 0;
}

static void add_letter(term *all, char letter) {
    if (strchr(all->letters, letter) != NULL || all->count == RLX_MAX_RANK) return;
    all->letters[all->count++] = letter;
}

/* The diagonal of a letter that comes twice: equal places survive, the rest is summed away. */
static rlx_value_id take_diagonals(ox *o, rlx_value_id x, term *letters) {
    for (uint32_t i = 0; i < letters->count && ox_ok(o); i++) {
        char *again = strchr(letters->letters + i + 1, letters->letters[i]);
        if (again == NULL) continue;
        uint32_t other = (uint32_t)(again - letters->letters);
        int64_t dims[RLX_MAX_RANK], size = ox_dim(o, x, i), axis = other;
        rlx_value_id places = ox_range(o, RLX_DTYPE_I64, size);
        int64_t down[] = {size, 1};
        rlx_value_id same = ox_binary(o, RLX_OP_EQUAL, places, ox_reshape(o, places, down, 2));
        for (uint32_t d = 0; d < letters->count; d++)
            dims[d] = d == i || d == other ? size : 1;
        same = ox_cast(o, ox_reshape(o, same, dims, letters->count), ox_dtype(o, x));
        x = ox_reduce(o, RLX_OP_REDUCE_SUM, ox_binary(o, RLX_OP_MUL, x, same), &axis, 1, false);
        memmove(again, again + 1, strlen(again));
        letters->count--;
        i--;
    }
    return x;
}

/* Axes in the order of `all`, with 1 where the operand has none. */
static rlx_value_id spread(ox *o, rlx_value_id x, const term *own, const term *all) {
    int64_t perm[RLX_MAX_RANK], dims[RLX_MAX_RANK];
    uint32_t used = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        const char *at = strchr(own->letters, all->letters[i]);
        dims[i] = at == NULL ? 1 : ox_dim(o, x, (uint32_t)(at - own->letters));
        if (at != NULL) perm[used++] = at - own->letters;
    }
    return ox_reshape(o, ox_transpose(o, x, perm, used), dims, all->count);
}

/* Letters of a product of two operands, by who has them. */
typedef struct product {
    term batch, left, right, summed;
} product;

static int64_t size_of(const ox *o, rlx_value_id x, const term *own, char letter) {
    const char *at = strchr(own->letters, letter);
    return at == NULL ? 1 : ox_dim(o, x, (uint32_t)(at - own->letters));
}

/* An operand as [batch.., rows, columns], both merged from several letters. */
static rlx_value_id as_matrix(ox *o, rlx_value_id x, const term *own, const term *batch,
                              const term *rows, const term *columns) {
    term all = {{0}, 0};
    const term *parts[] = {batch, rows, columns};
    int64_t dims[3] = {1, 1, 1};
    for (uint32_t p = 0; p < 3; p++) {
        for (uint32_t i = 0; i < parts[p]->count; i++) {
            add_letter(&all, parts[p]->letters[i]);
            dims[p] = ox_times(o, dims[p], size_of(o, x, own, parts[p]->letters[i]));
        }
    }
    return ox_reshape(o, spread(o, x, own, &all), dims, 3);
}

/* Whether the letters have one size on both sides: then no broadcast stands in the way. */
static bool sorts(const ox *o, const rlx_value_id *x, const term *own, const term *result,
                  const term *all, product *out_product) {
    product found = {0};
    for (uint32_t i = 0; i < all->count; i++) {
        char c = all->letters[i];
        bool a = strchr(own[0].letters, c) != NULL, b = strchr(own[1].letters, c) != NULL;
        bool stays = strchr(result->letters, c) != NULL;
        if (a && b && size_of(o, x[0], &own[0], c) != size_of(o, x[1], &own[1], c)) return false;
        if (!stays && !(a && b)) return false;
        add_letter(!stays   ? &found.summed
                   : a && b ? &found.batch
                   : a      ? &found.left
                            : &found.right,
                   c);
    }
    *out_product = found;
    return found.summed.count != 0;
}

static rlx_value_id multiply(ox *o, const rlx_value_id *x, const term *own, const term *result,
                             const product *p) {
    term order = {{0}, 0};
    int64_t dims[RLX_MAX_RANK], perm[RLX_MAX_RANK];
    rlx_value_id y = ox_matmul(o, as_matrix(o, x[0], &own[0], &p->batch, &p->left, &p->summed),
                               as_matrix(o, x[1], &own[1], &p->batch, &p->summed, &p->right));
    const term *parts[] = {&p->batch, &p->left, &p->right};
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t i = 0; i < parts[t]->count; i++) {
            char c = parts[t]->letters[i];
            int64_t a = size_of(o, x[0], &own[0], c), b = size_of(o, x[1], &own[1], c);
            dims[order.count] = a == 1 ? b : a;
            add_letter(&order, c);
        }
    }
    y = ox_reshape(o, y, dims, order.count);
    for (uint32_t i = 0; i < result->count; i++)
        perm[i] = strchr(order.letters, result->letters[i]) - order.letters;
    return ox_transpose(o, y, perm, result->count);
}

static rlx_value_id sum_product(ox *o, const rlx_value_id *x, const term *own, uint32_t count,
                                const term *result, const term *all) {
    term order = *result;
    int64_t axes[RLX_MAX_RANK];
    uint32_t summed = 0;
    for (uint32_t i = 0; i < all->count; i++)
        add_letter(&order, all->letters[i]);
    for (uint32_t i = result->count; i < order.count; i++)
        axes[summed++] = i;
    rlx_value_id y = spread(o, x[0], &own[0], &order);
    for (uint32_t i = 1; i < count; i++)
        y = ox_binary(o, RLX_OP_MUL, y, spread(o, x[i], &own[i], &order));
    return summed == 0 ? y : ox_reduce(o, RLX_OP_REDUCE_SUM, y, axes, summed, false);
}

/* Without an arrow the result has the letters that come once, in order. */
static void implied(const term *own, uint32_t count, const term *all, term *result) {
    for (char c = '0'; c <= 'z'; c++) {
        uint32_t seen = 0;
        if (strchr(all->letters, c) == NULL) continue;
        for (uint32_t t = 0; t < count; t++) {
            for (uint32_t i = 0; i < own[t].count; i++)
                seen += own[t].letters[i] == c;
        }
        if (seen == 1 || c <= '9') add_letter(result, c);
    }
}

void rlx_ox_einsum(ox *o) {
    const char *at = ox_text(o, "equation", "");
    term own[MOST_TERMS] = {{{0}, 0}}, all = {{0}, 0}, result = {{0}, 0};
    rlx_value_id x[MOST_TERMS];
    product found;
    uint32_t most_dots = 0;
    if (o->in_count == 0 || o->in_count > MOST_TERMS)
        ox_unsupported(o, "%u operands; at most %d", o->in_count, MOST_TERMS);
    for (uint32_t i = 0; i < o->in_count && ox_ok(o); i++) {
        x[i] = ox_in(o, i);
        uint32_t dots = dots_of(at, ox_rank(o, x[i]));
        if (dots > most_dots) most_dots = dots;
        if (dots > 9) ox_unsupported(o, "an ellipsis of %u dims", dots);
        at = read_term(o, at, dots, &own[i]);
        if (ox_ok(o) && own[i].count != ox_rank(o, x[i]))
            ox_invalid(o, "term %u has %u letters, the operand %u dims", i, own[i].count,
                       ox_rank(o, x[i]));
        for (uint32_t c = 0; c < own[i].count && ox_ok(o); c++) {
            uint32_t before = all.count;
            add_letter(&all, own[i].letters[c]);
            if (all.count == before && strchr(all.letters, own[i].letters[c]) == NULL)
                ox_unsupported(o, "more than %d letters", RLX_MAX_RANK);
        }
        if (*at == ',') at++;
    }
    if (!ox_ok(o)) return;
    if (*at == '-' && at[1] == '>') {
        read_term(o, at + 2, most_dots, &result);
    } else {
        implied(own, o->in_count, &all, &result);
    }
    for (uint32_t i = 0; i < result.count && ox_ok(o); i++) {
        if (strchr(all.letters, result.letters[i]) == NULL)
            ox_invalid(o, "the result's '%c' is in no operand", result.letters[i]);
    }
    for (uint32_t i = 0; i < o->in_count && ox_ok(o); i++)
        x[i] = take_diagonals(o, x[i], &own[i]);
    if (!ox_ok(o)) return;
    bool is_product = o->in_count == 2 && sorts(o, x, own, &result, &all, &found);
    ox_give(o, 0,
            is_product ? multiply(o, x, own, &result, &found)
                       : sum_product(o, x, own, o->in_count, &result, &all));
}
