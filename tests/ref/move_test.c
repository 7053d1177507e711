/* SPDX-License-Identifier: Apache-2.0 */
/* concat, tile, pad and nonzero against plain index arithmetic. */
#include "ref/moves.h"

enum { ROUNDS = 120 };

static void concat_joins_along_one_axis(void **state) {
    rlx_test_random random = rlx_test_seed(1);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], start = 0;
        uint32_t rank = (uint32_t)pick(&random, 1, 5), count = (uint32_t)pick(&random, 1, 4);
        uint32_t axis = (uint32_t)rlx_test_below(&random, rank);
        rlx_axis_attrs attrs = {coin(&random) ? (int64_t)axis : (int64_t)axis - (int64_t)rank};
        rlx_dtype dtype = any_dtype(&random);
        case_tensor in[4], out;
        case_dims(&random, rank, dims);
        int64_t total = 0;
        for (uint32_t k = 0; k < count; k++) {
            dims[axis] = pick(&random, 0, 5);
            total += dims[axis];
            case_input(&in[k], &random, dtype, rank, dims, coin(&random));
        }
        dims[axis] = total;
        case_output(&out, &random, dtype, rank, dims, coin(&random));
        for (uint32_t k = 0; k < count; k++) {
            place p = {0};
            bool more = !case_is_empty(rank, in[k].tensor.dims);
            for (; more; more = case_next(rank, in[k].tensor.dims, &p)) {
                place to = p;
                to.at[axis] += start;
                case_set(&out.expected, &to, case_get(&in[k].tensor, &p));
            }
            start += in[k].tensor.dims[axis];
        }
        case_check_rule(RLX_OP_CONCAT, &attrs, in, count, &out, 1);
        case_run(&random, RLX_OP_CONCAT, &attrs, in, count, &out, 1);
        for (uint32_t k = 0; k < count; k++)
            case_free(&in[k]);
        case_free(&out);
    }
}

static void tile_repeats_every_axis(void **state) {
    rlx_test_random random = rlx_test_seed(2);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], out_dims[RLX_MAX_RANK];
        uint32_t rank = (uint32_t)pick(&random, 0, 4);
        rlx_reshape_attrs attrs = {.shape = {.count = rank}};
        rlx_dtype dtype = any_dtype(&random);
        case_tensor in, out;
        case_dims(&random, rank, dims);
        for (uint32_t i = 0; i < rank; i++) {
            attrs.shape.items[i] = pick(&random, rlx_test_below(&random, 20) == 0 ? 0 : 1, 3);
            out_dims[i] = dims[i] * attrs.shape.items[i];
        }
        case_input(&in, &random, dtype, rank, dims, coin(&random));
        case_output(&out, &random, dtype, rank, out_dims, coin(&random));
        place p = {0};
        bool more = !case_is_empty(rank, out_dims);
        for (; more; more = case_next(rank, out_dims, &p)) {
            place from = {0};
            for (uint32_t i = 0; i < rank; i++)
                from.at[i] = p.at[i] % dims[i];
            case_set(&out.expected, &p, case_get(&in.tensor, &from));
        }
        case_check_rule(RLX_OP_TILE, &attrs, &in, 1, &out, 1);
        case_run(&random, RLX_OP_TILE, &attrs, &in, 1, &out, 1);
        case_free(&in);
        case_free(&out);
    }
}

/* Walks to the source one step at a time, as a ball between walls, rather than by a formula. */
static int64_t pad_from(rlx_pad_mode mode, int64_t size, int64_t at) {
    if (at >= 0 && at < size) return at;
    if (mode == RLX_PAD_CONSTANT) return -1;
    if (mode == RLX_PAD_EDGE || size == 1) return at < 0 ? 0 : size - 1;
    if (mode == RLX_PAD_WRAP) {
        while (at < 0)
            at += size;
        while (at >= size)
            at -= size;
        return at;
    }
    int64_t ball = at < 0 ? 0 : size - 1, step = at < 0 ? 1 : -1;
    int64_t steps = at < 0 ? -at : at - (size - 1);
    for (; steps > 0; steps--) {
        ball += step;
        if (ball == 0 || ball == size - 1) step = -step;
    }
    return ball;
}

static void pad_fills_reflects_clamps_wraps_and_crops(void **state) {
    rlx_test_random random = rlx_test_seed(3);
    (void)state;
    for (int round = 0; round < 3 * ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], out_dims[RLX_MAX_RANK];
        int64_t crop[RLX_MAX_RANK], lead[RLX_MAX_RANK], left[RLX_MAX_RANK];
        uint32_t rank = (uint32_t)pick(&random, 0, 4);
        rlx_pad_attrs attrs = {.pads = {.count = 2 * rank}, .value = (double)pick(&random, 0, 1)};
        rlx_dtype dtype = any_dtype(&random);
        case_tensor in, out;
        attrs.mode = (rlx_pad_mode)rlx_test_below(&random, 4);
        case_dims(&random, rank, dims);
        for (uint32_t i = 0; i < rank; i++) {
            int64_t before = pick(&random, -2, 5), after = pick(&random, -2, 5);
            left[i] = dims[i] + (before < 0 ? before : 0) + (after < 0 ? after : 0);
            if (left[i] < 1) before = after = 0, left[i] = dims[i];
            crop[i] = before < 0 ? -before : 0;
            lead[i] = before > 0 ? before : 0;
            attrs.pads.items[i] = before;
            attrs.pads.items[rank + i] = after;
            out_dims[i] = dims[i] + before + after;
        }
        case_input(&in, &random, dtype, rank, dims, coin(&random));
        case_output(&out, &random, dtype, rank, out_dims, coin(&random));
        place p = {0};
        bool more = !case_is_empty(rank, out_dims);
        for (; more; more = case_next(rank, out_dims, &p)) {
            place from = {0};
            bool is_constant = false;
            for (uint32_t i = 0; i < rank; i++) {
                int64_t source = pad_from(attrs.mode, left[i], p.at[i] - lead[i]);
                is_constant = is_constant || source < 0;
                from.at[i] = source + crop[i];
            }
            if (is_constant) {
                case_set_number(&out.expected, &p, attrs.value);
            } else {
                case_set(&out.expected, &p, case_get(&in.tensor, &from));
            }
        }
        case_check_rule(RLX_OP_PAD, &attrs, &in, 1, &out, 1);
        case_run(&random, RLX_OP_PAD, &attrs, &in, 1, &out, 1);
        case_free(&in);
        case_free(&out);
    }
}

static void nonzero_lists_places_in_order(void **state) {
    rlx_test_random random = rlx_test_seed(4);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], bound = 1, found = 0;
        uint32_t rank = (uint32_t)pick(&random, 0, 4);
        rlx_dtype dtype = any_dtype(&random);
        case_tensor in, out[2];
        case_dims(&random, rank, dims);
        for (uint32_t i = 0; i < rank; i++)
            bound *= dims[i];
        case_input(&in, &random, dtype, rank, dims, coin(&random));
        place p = {0};
        bool more = bound > 0;
        for (; more; more = case_next(rank, dims, &p))
            if (coin(&random)) case_set(&in.tensor, &p, 0);
        case_output(&out[0], &random, RLX_DTYPE_I64, 2, (int64_t[]){rank, bound}, coin(&random));
        case_output(&out[1], &random, RLX_DTYPE_I64, 0, NULL, false);
        p = (place){0};
        more = bound > 0;
        for (; more; more = case_next(rank, dims, &p)) {
            bool is_minus_zero = dtype == RLX_DTYPE_F16 && case_get(&in.tensor, &p) == 0x8000;
            if (case_get(&in.tensor, &p) == 0 || is_minus_zero) continue;
            for (uint32_t i = 0; i < rank; i++)
                case_set(&out[0].expected, &(place){{i, found}}, (uint64_t)p.at[i]);
            found++;
        }
        case_set(&out[1].expected, &(place){{0}}, (uint64_t)found);
        case_check_rule(RLX_OP_NONZERO, NULL, &in, 1, out, 2);
        out[0].tensor.dims[1] = pick(&random, 0, bound); /* the extent of an earlier run */
        case_run(&random, RLX_OP_NONZERO, &(rlx_none_attrs){0}, &in, 1, out, 2);
        case_free(&in);
        case_free(&out[0]);
        case_free(&out[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concat_joins_along_one_axis),
        cmocka_unit_test(tile_repeats_every_axis),
        cmocka_unit_test(pad_fills_reflects_clamps_wraps_and_crops),
        cmocka_unit_test(nonzero_lists_places_in_order),
    };
    return cmocka_run_group_tests_name("ref_move", tests, NULL, NULL);
}
