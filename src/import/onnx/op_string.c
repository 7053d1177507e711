/* SPDX-License-Identifier: Apache-2.0 */
/* Ops on strings, which are rows of bytes filled up with zeros (OX_STRINGS): comparisons of rows,
 * and letters of ASCII. Nothing is left in the graph but ops on bytes. */
#include "import/onnx/ops.h"

#include <string.h>

static ox_item strings_of(rlx_value_id bytes) {
    return (ox_item){.kind = OX_STRINGS, .value = bytes};
}

static int64_t width_of(ox *o, rlx_value_id x) {
    return ox_ok(o) ? ox_dim(o, x, ox_rank(o, x) - 1) : 0;
}

/* Rows of `width` bytes, which is not less than they have. */
static rlx_value_id to_width(ox *o, rlx_value_id x, int64_t width) {
    int64_t dims[RLX_MAX_RANK];
    uint32_t rank = ox_rank(o, x);
    if (!ox_ok(o) || width_of(o, x) == width) return x;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = ox_dim(o, x, i);
    dims[rank - 1] = width - dims[rank - 1];
    const rlx_value_id parts[] = {x, ox_expand(o, ox_scalar(o, RLX_DTYPE_U8, 0), dims, rank)};
    return ox_concat(o, parts, 2, -1);
}

/* i32: 1 where all along `axis` are, or with MAX where any is. */
static rlx_value_id over(ox *o, rlx_op op, rlx_value_id x, int64_t axis) {
    return ox_reduce(o, op, ox_cast(o, x, RLX_DTYPE_I32), &axis, 1, false);
}

static rlx_value_id is_zero(ox *o, rlx_value_id x) {
    return ox_binary(o, RLX_OP_EQUAL, x, ox_scalar(o, ox_dtype(o, x), 0));
}

/* Whether rows of bytes are equal; what lies before the bytes is broadcast. */
static rlx_value_id equal_rows(ox *o, rlx_value_id a, rlx_value_id b) {
    int64_t width = width_of(o, a) > width_of(o, b) ? width_of(o, a) : width_of(o, b);
    rlx_value_id same = ox_binary(o, RLX_OP_EQUAL, to_width(o, a, width), to_width(o, b, width));
    return over(o, RLX_OP_REDUCE_MIN, same, -1);
}

void rlx_ox_equal(ox *o) {
    if (!ox_has(o, 0) || o->in[0].kind != OX_STRINGS) {
        rlx_ox_binary(o);
        return;
    }
    rlx_value_id same = equal_rows(o, ox_strings(o, 0), ox_strings(o, 1));
    ox_give(o, 0, ox_cast(o, same, RLX_DTYPE_BOOL));
}

/* Letters from `first` to `first` + 25 moved by 32 bytes up or down. */
static rlx_value_id change_case(ox *o, rlx_value_id x, bool is_upper) {
    rlx_value_id first = ox_scalar(o, RLX_DTYPE_U8, is_upper ? 'a' : 'A');
    rlx_value_id last = ox_scalar(o, RLX_DTYPE_U8, is_upper ? 'z' : 'Z');
    rlx_value_id from = ox_binary(o, RLX_OP_GREATER_EQUAL, x, first);
    rlx_value_id is_letter =
        ox_binary(o, RLX_OP_AND, from, ox_binary(o, RLX_OP_LESS_EQUAL, x, last));
    rlx_value_id step = ox_scalar(o, RLX_DTYPE_U8, 32);
    return ox_where(o, is_letter, ox_binary(o, is_upper ? RLX_OP_SUB : RLX_OP_ADD, x, step), x);
}

/* Texts of an attribute as u8 [count][width]; those that are longer are left out. */
static rlx_value_id texts(ox *o, const rlx_onnx_attr *attr, int64_t width, uint32_t *out_count) {
    uint32_t count = 0;
    if (ox_times(o, attr->count, width) > OX_MOST_NUMBERS)
        ox_unsupported(o, "%u words of %" PRId64 " bytes", attr->count, width);
    uint8_t *rows = ox_memory(o, ox_ok(o) ? attr->count * (uint64_t)width : 0, 1);
    for (uint32_t i = 0; i < attr->count && ox_ok(o); i++) {
        const rlx_onnx_text *text = &attr->strings[i];
        if (text->length > (uint64_t)width) continue;
        memcpy(rows + count++ * (uint64_t)width, text->data, text->length);
    }
    const int64_t dims[] = {count, width};
    *out_count = count;
    if (count == 0 || !ox_ok(o)) return RLX_NONE;
    return ox_constant(o, RLX_DTYPE_U8, dims, 2, rows, count * (uint64_t)width);
}

/* Rows [C][W] without those that are stop words, or one empty row where none is left. `compared`
 * is what is held against the words. */
static rlx_value_id without(ox *o, rlx_value_id rows, rlx_value_id compared, rlx_value_id words) {
    const int64_t blank[] = {1, width_of(o, rows)};
    rlx_value_id found[2];
    rlx_value_id is_word = equal_rows(o, ox_unsqueeze(o, compared, 1), words); /* [C][words] */
    rlx_value_id stays = is_zero(o, over(o, RLX_OP_REDUCE_MAX, is_word, 1));
    rlx_value_id any = ox_unsqueeze(o, over(o, RLX_OP_REDUCE_MAX, stays, 0), 0);
    const rlx_value_id kept[] = {stays, is_zero(o, any)};
    const rlx_value_id all[] = {rows, ox_expand(o, ox_scalar(o, RLX_DTYPE_U8, 0), blank, 2)};
    rlx_value_id chosen = ox_concat(o, kept, 2, 0);
    ox_nodes(o, RLX_OP_NONZERO, NULL, &chosen, 1, found, 2);
    return ox_gather(o, ox_concat(o, all, 2, 0), ox_squeeze(o, found[0], 0), 0);
}

void rlx_ox_string_normalizer(ox *o) {
    const char *action = ox_text(o, "case_change_action", "NONE");
    const rlx_onnx_attr *stop = ox_attr(o, "stopwords");
    bool is_exact = ox_int(o, "is_case_sensitive", 0) != 0, is_upper = strcmp(action, "UPPER") == 0;
    bool changes = is_upper || strcmp(action, "LOWER") == 0;
    rlx_value_id rows = ox_strings(o, 0), words = RLX_NONE;
    uint32_t rank = ox_rank(o, rows), count = 0;
    if (ox_ok(o) && !changes && strcmp(action, "NONE") != 0)
        ox_invalid(o, "case_change_action '%s' is not known", action);
    if (ox_ok(o) && rank != 2 && (rank != 3 || ox_dim(o, rows, 0) != 1))
        ox_invalid(o, "it takes [C] or [1][C] strings");
    if (!ox_ok(o)) return;
    if (rank == 3) rows = ox_squeeze(o, rows, 0);
    if (stop != NULL && stop->strings != NULL) words = texts(o, stop, width_of(o, rows), &count);
    rlx_value_id changed = changes ? change_case(o, rows, is_upper) : rows;
    if (count != 0 && ox_dim(o, rows, 0) != 0) {
        rlx_value_id compared = is_exact ? rows : change_case(o, rows, false);
        if (!is_exact) words = change_case(o, words, false);
        changed = without(o, changed, compared, words);
    } else if (ox_dim(o, rows, 0) == 0) {
        const int64_t blank[] = {1, width_of(o, rows)};
        changed = ox_expand(o, ox_scalar(o, RLX_DTYPE_U8, 0), blank, 2);
    }
    ox_give_item(o, 0, strings_of(rank == 3 ? ox_unsqueeze(o, changed, 0) : changed));
}
