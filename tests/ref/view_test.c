/* SPDX-License-Identifier: Apache-2.0 */
/* Views as copies: slice, split, transpose, expand, reshape and its family, copy, against plain
 * index arithmetic on random shapes, layouts and dtypes. */
#include "ref/moves.h"

enum { ROUNDS = 120 };

/* A random input, and an output of these dims. */
static void make_pair(rlx_test_random *random, uint32_t rank, const int64_t *dims, case_tensor *in,
                      uint32_t out_rank, const int64_t *out_dims, case_tensor *out) {
    rlx_dtype dtype = any_dtype(random);
    case_input(in, random, dtype, rank, dims, coin(random));
    case_output(out, random, dtype, out_rank, out_dims, coin(random));
}

static void finish(rlx_test_random *random, rlx_op op, const void *attrs, case_tensor *in,
                   case_tensor *out) {
    case_check_rule(op, attrs, in, 1, out, 1);
    rlx_fault fault = case_run(random, op, attrs, in, 1, out, 1);
    assert_int_equal(RLX_FAULT_NONE, fault.code);
    case_free(in);
    case_free(out);
}

/* Python's rule for one axis: the elements of range(dim)[start:end:step]. */
static int64_t sliced(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *out_first) {
    int64_t count = 0, at = start < 0 ? start + dim : start, stop = end < 0 ? end + dim : end;
    if (at < 0) at = step > 0 ? 0 : -1;
    if (at >= dim) at = step > 0 ? dim : dim - 1;
    if (step < 0 && start < -dim) at = 0; /* ONNX cuts the start to the first element */
    if (stop < 0) stop = step > 0 ? 0 : -1;
    if (stop > dim) stop = dim;
    *out_first = at;
    for (; step > 0 ? at < stop : at > stop && at < dim && dim > 0; at += step)
        count++;
    return count;
}

static void slices_take_any_start_end_and_step(void **state) {
    rlx_test_random random = rlx_test_seed(1);
    (void)state;
    for (int round = 0; round < 3 * ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], out_dims[RLX_MAX_RANK], first[RLX_MAX_RANK] = {0};
        uint32_t rank = (uint32_t)pick(&random, 1, 5);
        rlx_slice_attrs attrs = {0};
        case_tensor in, out;
        case_dims(&random, rank, dims);
        attrs.starts.count = attrs.ends.count = attrs.steps.count = attrs.axes.count = rank;
        for (uint32_t i = 0; i < rank; i++) {
            uint32_t axis = rank - 1 - i;
            int64_t step = pick(&random, 1, 3) * (coin(&random) ? 1 : -1);
            attrs.axes.items[i] = coin(&random) ? (int64_t)axis : (int64_t)axis - (int64_t)rank;
            attrs.steps.items[i] = step;
            attrs.starts.items[i] = pick(&random, -dims[axis] - 2, dims[axis] + 2);
            attrs.ends.items[i] = pick(&random, -dims[axis] - 2, dims[axis] + 2);
            if (rlx_test_below(&random, 8) == 0) attrs.ends.items[i] = INT64_MAX;
            if (rlx_test_below(&random, 8) == 0) attrs.ends.items[i] = INT64_MIN;
            out_dims[axis] =
                sliced(dims[axis], attrs.starts.items[i], attrs.ends.items[i], step, &first[axis]);
        }
        make_pair(&random, rank, dims, &in, rank, out_dims, &out);
        place p = {0};
        bool more = !case_is_empty(rank, out_dims);
        for (; more; more = case_next(rank, out_dims, &p)) {
            place from = {0};
            for (uint32_t i = 0; i < rank; i++) {
                uint32_t axis = rank - 1 - i;
                from.at[axis] = first[axis] + p.at[axis] * attrs.steps.items[i];
            }
            case_set(&out.expected, &p, case_get(&in.tensor, &from));
        }
        finish(&random, RLX_OP_SLICE, &attrs, &in, &out);
    }
}

static void a_step_that_is_never_taken_may_be_anything(void **state) {
    rlx_test_random random = rlx_test_seed(2);
    rlx_slice_attrs attrs = {
        .starts = {1, {4}}, .ends = {1, {INT64_MIN}}, .steps = {1, {INT64_MIN}}};
    case_tensor in, out;
    (void)state;
    case_input(&in, &random, RLX_DTYPE_F32, 1, (int64_t[]){6}, false);
    case_output(&out, &random, RLX_DTYPE_F32, 1, (int64_t[]){1}, false);
    case_set(&out.expected, &(place){{0}}, case_get(&in.tensor, &(place){{4}}));
    finish(&random, RLX_OP_SLICE, &attrs, &in, &out);
}

static void transposes_follow_their_permutation(void **state) {
    rlx_test_random random = rlx_test_seed(3);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], out_dims[RLX_MAX_RANK];
        uint32_t rank = (uint32_t)pick(&random, 0, 8);
        rlx_transpose_attrs attrs = {.perm = {.count = rank}};
        case_tensor in, out;
        case_dims(&random, rank, dims);
        for (uint32_t i = 0; i < rank; i++)
            attrs.perm.items[i] = rank - 1 - i;
        for (uint32_t i = rank; i > 1 && round % 8 != 0; i--) {
            uint64_t j = rlx_test_below(&random, i);
            int64_t axis = attrs.perm.items[j];
            attrs.perm.items[j] = attrs.perm.items[i - 1];
            attrs.perm.items[i - 1] = axis;
        }
        for (uint32_t i = 0; i < rank; i++)
            out_dims[i] = dims[attrs.perm.items[i]];
        make_pair(&random, rank, dims, &in, rank, out_dims, &out);
        place p = {0};
        bool more = !case_is_empty(rank, out_dims);
        for (; more; more = case_next(rank, out_dims, &p)) {
            place from = {0};
            for (uint32_t i = 0; i < rank; i++)
                from.at[attrs.perm.items[i]] = p.at[i];
            case_set(&out.expected, &p, case_get(&in.tensor, &from));
        }
        if (round % 8 == 0) attrs.perm.count = 0; /* reversed is the default */
        finish(&random, RLX_OP_TRANSPOSE, &attrs, &in, &out);
    }
}

/* The same elements in the same order. */
static void expect_same_order(case_tensor *in, case_tensor *out) {
    place p = {0}, q = {0};
    bool more = !case_is_empty(in->tensor.rank, in->tensor.dims);
    while (more) {
        case_set(&out->expected, &q, case_get(&in->tensor, &p));
        more = case_next(in->tensor.rank, in->tensor.dims, &p);
        assert_int_equal(more, case_next(out->tensor.rank, out->tensor.dims, &q));
    }
}

static void reshapes_keep_the_order(void **state) {
    rlx_test_random random = rlx_test_seed(4);
    (void)state;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK] = {0}, out_dims[RLX_MAX_RANK] = {0};
        uint32_t rank = (uint32_t)pick(&random, 0, 5), out_rank = 0;
        int64_t held = 1;
        case_tensor in, out;
        case_dims(&random, rank, dims);
        /* Join neighbours at random, and break some apart again. */
        for (uint32_t i = 0; i < rank; i++) {
            held *= dims[i];
            if (coin(&random) && i + 1 < rank) continue;
            if (held % 2 == 0 && held > 0 && coin(&random) && out_rank < 6) {
                out_dims[out_rank++] = held / 2;
                held = 2;
            }
            out_dims[out_rank++] = held;
            held = 1;
        }
        rlx_reshape_attrs attrs = {.shape = {.count = out_rank}};
        uint32_t free_dim = out_rank;
        for (uint32_t i = 0; i < out_rank; i++) {
            attrs.shape.items[i] = i < rank && out_dims[i] == dims[i] ? 0 : out_dims[i];
            if (attrs.shape.items[i] != 0 && free_dim == out_rank) free_dim = i;
        }
        bool is_empty = case_is_empty(rank, dims);
        for (uint32_t i = 0; i < out_rank && is_empty; i++) /* 0 would copy a dim */
            if (out_dims[i] == 0 && (i >= rank || dims[i] != 0)) attrs.shape.items[i] = -1;
        if (!is_empty && free_dim < out_rank) attrs.shape.items[free_dim] = -1;
        uint32_t inferred = 0;
        for (uint32_t i = 0; i < out_rank; i++)
            inferred += attrs.shape.items[i] == -1;
        if (is_empty && inferred > 0) continue; /* -1 beside 0 has no answer, or two */
        make_pair(&random, rank, dims, &in, out_rank, out_dims, &out);
        expect_same_order(&in, &out);
        finish(&random, RLX_OP_RESHAPE, &attrs, &in, &out);
    }
}

static void squeeze_and_unsqueeze_undo_each_other(void **state) {
    rlx_test_random random = rlx_test_seed(5);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t narrow[RLX_MAX_RANK], wide[RLX_MAX_RANK];
        uint32_t rank = (uint32_t)pick(&random, 0, 5), wide_rank = 0, next = 0;
        uint32_t added = (uint32_t)pick(&random, 0, 3);
        rlx_axes_attrs attrs = {.axes = {0}};
        case_tensor in, out;
        case_dims(&random, rank, narrow);
        while (wide_rank < rank + added) {
            bool must_add = rank - next == 0, can_add = attrs.axes.count < added;
            if (can_add && (must_add || coin(&random))) {
                attrs.axes.items[attrs.axes.count++] =
                    coin(&random) ? (int64_t)wide_rank
                                  : (int64_t)wide_rank - (int64_t)(rank + added);
                wide[wide_rank++] = 1;
            } else if (next < rank) {
                wide[wide_rank++] = narrow[next++];
            }
        }
        make_pair(&random, rank, narrow, &in, wide_rank, wide, &out);
        expect_same_order(&in, &out);
        finish(&random, RLX_OP_UNSQUEEZE, &attrs, &in, &out);
        if (attrs.axes.count == 0) continue; /* would remove every dim of 1 */
        make_pair(&random, wide_rank, wide, &in, rank, narrow, &out);
        expect_same_order(&in, &out);
        finish(&random, RLX_OP_SQUEEZE, &attrs, &in, &out);
    }
}

static void squeeze_without_axes_removes_every_one(void **state) {
    rlx_test_random random = rlx_test_seed(6);
    case_tensor in, out;
    (void)state;
    make_pair(&random, 4, (int64_t[]){1, 3, 1, 2}, &in, 2, (int64_t[]){3, 2}, &out);
    expect_same_order(&in, &out);
    finish(&random, RLX_OP_SQUEEZE, &(rlx_axes_attrs){{0}}, &in, &out);
}

static void flatten_gives_two_dims(void **state) {
    rlx_test_random random = rlx_test_seed(7);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], out_dims[2] = {1, 1};
        uint32_t rank = (uint32_t)pick(&random, 0, 6);
        int64_t axis = pick(&random, 0, rank);
        case_tensor in, out;
        case_dims(&random, rank, dims);
        for (uint32_t i = 0; i < rank; i++)
            out_dims[i < axis ? 0 : 1] *= dims[i];
        rlx_axis_attrs attrs = {axis < rank && coin(&random) ? axis - rank : axis};
        make_pair(&random, rank, dims, &in, 2, out_dims, &out);
        expect_same_order(&in, &out);
        finish(&random, RLX_OP_FLATTEN, &attrs, &in, &out);
    }
}

static void expand_repeats_dims_of_one(void **state) {
    rlx_test_random random = rlx_test_seed(8);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], out_dims[RLX_MAX_RANK];
        uint32_t rank = (uint32_t)pick(&random, 0, 4), out_rank = (uint32_t)pick(&random, rank, 6);
        rlx_reshape_attrs attrs = {.shape = {.count = out_rank}};
        case_tensor in, out;
        case_dims(&random, out_rank, out_dims);
        for (uint32_t i = 0; i < out_rank; i++) {
            attrs.shape.items[i] = out_dims[i];
            if (i + rank < out_rank) continue;
            bool is_one = coin(&random);
            dims[i + rank - out_rank] = is_one ? 1 : out_dims[i];
            if (!is_one && coin(&random)) attrs.shape.items[i] = 1; /* the input has the larger */
        }
        make_pair(&random, rank, dims, &in, out_rank, out_dims, &out);
        place p = {0};
        bool more = !case_is_empty(out_rank, out_dims);
        for (; more; more = case_next(out_rank, out_dims, &p)) {
            place from = {0};
            for (uint32_t i = 0; i < rank; i++)
                from.at[i] = dims[i] == 1 ? 0 : p.at[i + out_rank - rank];
            case_set(&out.expected, &p, case_get(&in.tensor, &from));
        }
        finish(&random, RLX_OP_EXPAND, &attrs, &in, &out);
    }
}

static void split_cuts_one_axis(void **state) {
    rlx_test_random random = rlx_test_seed(9);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], sizes[4], start = 0;
        uint32_t rank = (uint32_t)pick(&random, 1, 4), count = (uint32_t)pick(&random, 1, 4);
        uint32_t axis = (uint32_t)rlx_test_below(&random, rank);
        rlx_dtype dtype = any_dtype(&random);
        case_tensor in, out[4];
        case_dims(&random, rank, dims);
        dims[axis] = 0;
        bool is_equal = coin(&random);
        int64_t part = pick(&random, 1, 4);
        for (uint32_t k = 0; k < count; k++) {
            sizes[k] = is_equal ? part : pick(&random, 0, 4);
            if (is_equal && k + 1 == count && count > 1) sizes[k] = pick(&random, 1, part);
            dims[axis] += sizes[k];
        }
        rlx_split_attrs attrs = {.axis = axis, .sizes = {is_equal ? 0 : count, sizes}};
        case_input(&in, &random, dtype, rank, dims, coin(&random));
        for (uint32_t k = 0; k < count; k++) {
            int64_t out_dims[RLX_MAX_RANK];
            memcpy(out_dims, dims, sizeof out_dims);
            out_dims[axis] = sizes[k];
            case_output(&out[k], &random, dtype, rank, out_dims, coin(&random));
            place p = {0};
            bool more = !case_is_empty(rank, out_dims);
            for (; more; more = case_next(rank, out_dims, &p)) {
                place from = p;
                from.at[axis] += start;
                case_set(&out[k].expected, &p, case_get(&in.tensor, &from));
            }
            start += sizes[k];
        }
        /* Equal parts are rounded up, so the sizes above need not be what the rule picks. */
        int64_t rounded = (dims[axis] + count - 1) / count;
        if (!is_equal ||
            (rounded == part && dims[axis] - rounded * (count - 1) == sizes[count - 1])) {
            case_check_rule(RLX_OP_SPLIT, &attrs, &in, 1, out, count);
            case_run(&random, RLX_OP_SPLIT, &attrs, &in, 1, out, count);
        }
        case_free(&in);
        for (uint32_t k = 0; k < count; k++)
            case_free(&out[k]);
    }
}

static void copy_keeps_everything(void **state) {
    rlx_test_random random = rlx_test_seed(10);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK];
        uint32_t rank = (uint32_t)pick(&random, 0, 8);
        case_tensor in, out;
        case_dims(&random, rank, dims);
        make_pair(&random, rank, dims, &in, rank, dims, &out);
        expect_same_order(&in, &out);
        case_run(&random, RLX_OP_COPY, &(rlx_none_attrs){0}, &in, 1, &out, 1);
        case_free(&in);
        case_free(&out);
    }
}

/* Three rows of two q8_0 blocks, turned over the outer axes: blocks move whole. */
static void blocks_move_whole(void **state) {
    enum { BLOCK = 34, COLUMNS = 64 };
    uint8_t data[2 * 3 * 2 * BLOCK], got[sizeof data];
    rlx_transpose_attrs attrs = {.perm = {3, {1, 0, 2}}};
    rlx_tensor in = {
        data, RLX_DTYPE_Q8_0, 3, {2, 3, COLUMNS}, {3 * COLUMNS, COLUMNS, 1}, RLX_LAYOUT_PLAIN};
    rlx_tensor out = {
        got, RLX_DTYPE_Q8_0, 3, {3, 2, COLUMNS}, {2 * COLUMNS, COLUMNS, 1}, RLX_LAYOUT_PLAIN};
    rlx_kernel_args args = {.op = RLX_OP_TRANSPOSE,
                            .attrs = &attrs,
                            .in = &in,
                            .out = &out,
                            .in_count = 1,
                            .out_count = 1};
    const rlx_kernel *kernel = rlx_ref_kernel(RLX_OP_TRANSPOSE);
    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + i / 34);
    kernel->run(&args, 0, kernel->items(&args));
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < 3; j++)
            assert_memory_equal(got + (j * 2 + i) * 2 * BLOCK, data + (i * 3 + j) * 2 * BLOCK,
                                2 * BLOCK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_take_any_start_end_and_step),
        cmocka_unit_test(a_step_that_is_never_taken_may_be_anything),
        cmocka_unit_test(transposes_follow_their_permutation),
        cmocka_unit_test(reshapes_keep_the_order),
        cmocka_unit_test(squeeze_and_unsqueeze_undo_each_other),
        cmocka_unit_test(squeeze_without_axes_removes_every_one),
        cmocka_unit_test(flatten_gives_two_dims),
        cmocka_unit_test(expand_repeats_dims_of_one),
        cmocka_unit_test(split_cuts_one_axis),
        cmocka_unit_test(copy_keeps_everything),
        cmocka_unit_test(blocks_move_whole),
    };
    return cmocka_run_group_tests_name("ref_view", tests, NULL, NULL);
}
