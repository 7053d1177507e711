/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers and scatters against plain index arithmetic, with indices that count from the end, that
 * repeat, and that lie outside. */
#include "ref/moves.h"

#include <rlx/dtype.h>

enum { ROUNDS = 150 };

/* What a test expects of the fault record. */
typedef struct faults {
    bool happened;
} faults;

/* An index tensor of either dtype, plain or with gaps; its entries are set afterwards. */
static void make_index(rlx_test_random *random, case_tensor *index, uint32_t rank,
                       const int64_t *dims) {
    case_input(index, random, coin(random) ? RLX_DTYPE_I32 : RLX_DTYPE_I64, rank, dims, false);
    if (coin(random)) { /* another layout: gaps on every axis */
        case_free(index);
        case_output(index, random, index->tensor.dtype, rank, dims, true);
    }
}

/* An entry in [-dim, dim); now and then one outside when `may_fault`. */
static void set_index(rlx_test_random *random, case_tensor *index, const place *at, int64_t dim,
                      bool may_fault) {
    int64_t value = dim > 0 ? pick(random, -dim, dim - 1) : 0;
    if (may_fault && rlx_test_below(random, 6) == 0) value = coin(random) ? dim + 3 : -dim - 1;
    case_set_number(&index->tensor, at, (double)value);
}

/* The place an index means, or -1. */
static int64_t meant(const case_tensor *index, const place *at, int64_t dim, faults *seen) {
    int64_t value = (int64_t)case_number(&index->tensor, at);
    if (value < 0) value += dim;
    if (value >= 0 && value < dim) return value;
    seen->happened = true;
    return -1;
}

static void check_fault(rlx_fault fault, faults seen) {
    assert_int_equal(seen.happened ? RLX_FAULT_INDEX : RLX_FAULT_NONE, fault.code);
    if (seen.happened) assert_int_equal(7, fault.step);
}

static void gather_picks_along_one_axis(void **state) {
    rlx_test_random random = rlx_test_seed(1);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], index_dims[RLX_MAX_RANK], out_dims[RLX_MAX_RANK];
        uint32_t rank = (uint32_t)pick(&random, 1, 4), index_rank = (uint32_t)pick(&random, 0, 3);
        uint32_t axis = (uint32_t)rlx_test_below(&random, rank), out_rank = 0;
        rlx_axis_attrs attrs = {coin(&random) ? (int64_t)axis : (int64_t)axis - (int64_t)rank};
        rlx_dtype dtype = any_dtype(&random);
        bool may_fault = round % 3 == 0;
        faults seen = {0};
        case_tensor in[2], out;
        case_dims(&random, rank, dims);
        if (dims[axis] == 0) dims[axis] = 1;
        case_dims(&random, index_rank, index_dims);
        for (uint32_t i = 0; i < axis; i++)
            out_dims[out_rank++] = dims[i];
        for (uint32_t i = 0; i < index_rank; i++)
            out_dims[out_rank++] = index_dims[i];
        for (uint32_t i = axis + 1; i < rank; i++)
            out_dims[out_rank++] = dims[i];
        case_input(&in[0], &random, dtype, rank, dims, coin(&random));
        make_index(&random, &in[1], index_rank, index_dims);
        case_output(&out, &random, dtype, out_rank, out_dims, coin(&random));
        place p = {0};
        bool more = !case_is_empty(index_rank, index_dims);
        for (; more; more = case_next(index_rank, index_dims, &p))
            set_index(&random, &in[1], &p, dims[axis], may_fault);
        p = (place){0};
        more = !case_is_empty(out_rank, out_dims);
        for (; more; more = case_next(out_rank, out_dims, &p)) {
            place at = {0}, from = {0};
            for (uint32_t i = 0; i < index_rank; i++)
                at.at[i] = p.at[axis + i];
            for (uint32_t i = 0; i < rank; i++)
                from.at[i] = i < axis ? p.at[i] : i > axis ? p.at[i + index_rank - 1] : 0;
            from.at[axis] = meant(&in[1], &at, dims[axis], &seen);
            case_set(&out.expected, &p, from.at[axis] < 0 ? 0 : case_get(&in[0].tensor, &from));
        }
        case_check_rule(RLX_OP_GATHER, &attrs, in, 2, &out, 1);
        check_fault(case_run(&random, RLX_OP_GATHER, &attrs, in, 2, &out, 1), seen);
        case_free(&in[0]);
        case_free(&in[1]);
        case_free(&out);
    }
}

static void gather_elements_picks_single_ones(void **state) {
    rlx_test_random random = rlx_test_seed(2);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], out_dims[RLX_MAX_RANK];
        uint32_t rank = (uint32_t)pick(&random, 1, 4);
        uint32_t axis = (uint32_t)rlx_test_below(&random, rank);
        rlx_axis_attrs attrs = {axis};
        rlx_dtype dtype = any_dtype(&random);
        faults seen = {0};
        case_tensor in[2], out;
        case_dims(&random, rank, dims);
        if (dims[axis] == 0) dims[axis] = 1;
        for (uint32_t i = 0; i < rank; i++)
            out_dims[i] = i == axis ? pick(&random, 0, 9) : pick(&random, dims[i] / 2, dims[i]);
        case_input(&in[0], &random, dtype, rank, dims, coin(&random));
        make_index(&random, &in[1], rank, out_dims);
        case_output(&out, &random, dtype, rank, out_dims, coin(&random));
        place p = {0};
        bool more = !case_is_empty(rank, out_dims);
        for (; more; more = case_next(rank, out_dims, &p)) {
            set_index(&random, &in[1], &p, dims[axis], round % 3 == 0);
            place from = p;
            from.at[axis] = meant(&in[1], &p, dims[axis], &seen);
            case_set(&out.expected, &p, from.at[axis] < 0 ? 0 : case_get(&in[0].tensor, &from));
        }
        case_check_rule(RLX_OP_GATHER_ELEMENTS, &attrs, in, 2, &out, 1);
        check_fault(case_run(&random, RLX_OP_GATHER_ELEMENTS, &attrs, in, 2, &out, 1), seen);
        case_free(&in[0]);
        case_free(&in[1]);
        case_free(&out);
    }
}

/* Reads one tuple: false when an index is outside. Each tuple stops at its first bad index. */
static bool tuple_at(const case_tensor *index, place at, uint32_t tuple, const int64_t *dims,
                     int64_t *out_places, faults *seen) {
    for (uint32_t t = 0; t < tuple; t++) {
        at.at[index->tensor.rank - 1] = t;
        out_places[t] = meant(index, &at, dims[t], seen);
        if (out_places[t] < 0) return false;
    }
    return true;
}

static void fill_tuples(rlx_test_random *random, case_tensor *index, const int64_t *dims,
                        bool may_fault) {
    place p = {0};
    uint32_t rank = index->tensor.rank;
    bool more = !case_is_empty(rank, index->tensor.dims);
    for (; more; more = case_next(rank, index->tensor.dims, &p))
        set_index(random, index, &p, dims[p.at[rank - 1]], may_fault);
}

static void gather_nd_picks_rows_by_tuples(void **state) {
    rlx_test_random random = rlx_test_seed(3);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], index_dims[RLX_MAX_RANK], out_dims[RLX_MAX_RANK];
        uint32_t rank = (uint32_t)pick(&random, 1, 4), prefix = (uint32_t)pick(&random, 0, 3);
        uint32_t batch = (uint32_t)pick(&random, 0, prefix < rank ? prefix : rank - 1);
        uint32_t tuple = (uint32_t)pick(&random, 0, rank - batch), out_rank = 0;
        rlx_gather_nd_attrs attrs = {batch};
        rlx_dtype dtype = any_dtype(&random);
        faults seen = {0};
        case_tensor in[2], out;
        case_dims(&random, rank, dims);
        for (uint32_t i = 0; i < tuple; i++)
            if (dims[batch + i] == 0) dims[batch + i] = 2;
        case_dims(&random, prefix, index_dims);
        for (uint32_t i = 0; i < batch; i++)
            index_dims[i] = dims[i];
        index_dims[prefix] = tuple;
        for (uint32_t i = 0; i < prefix; i++)
            out_dims[out_rank++] = index_dims[i];
        for (uint32_t i = batch + tuple; i < rank; i++)
            out_dims[out_rank++] = dims[i];
        case_input(&in[0], &random, dtype, rank, dims, coin(&random));
        make_index(&random, &in[1], prefix + 1, index_dims);
        case_output(&out, &random, dtype, out_rank, out_dims, coin(&random));
        fill_tuples(&random, &in[1], dims + batch, round % 3 == 0);
        place p = {0};
        bool more = !case_is_empty(out_rank, out_dims);
        for (; more; more = case_next(out_rank, out_dims, &p)) {
            place at = {0}, from = {0};
            for (uint32_t i = 0; i < prefix; i++)
                at.at[i] = p.at[i];
            for (uint32_t i = 0; i < batch; i++)
                from.at[i] = p.at[i];
            for (uint32_t i = batch + tuple; i < rank; i++)
                from.at[i] = p.at[prefix + i - batch - tuple];
            bool ok = tuple_at(&in[1], at, tuple, dims + batch, from.at + batch, &seen);
            case_set(&out.expected, &p, ok ? case_get(&in[0].tensor, &from) : 0);
        }
        case_check_rule(RLX_OP_GATHER_ND, &attrs, in, 2, &out, 1);
        check_fault(case_run(&random, RLX_OP_GATHER_ND, &attrs, in, 2, &out, 1), seen);
        case_free(&in[0]);
        case_free(&in[1]);
        case_free(&out);
    }
}

/* Small numbers that every dtype holds exactly, so that sums and products are exact too. */
static void fill_numbers(rlx_test_random *random, case_tensor *tensor, bool is_output) {
    rlx_tensor *target = is_output ? &tensor->expected : &tensor->tensor;
    place p = {0};
    bool more = !case_is_empty(target->rank, target->dims);
    for (; more; more = case_next(target->rank, target->dims, &p))
        case_set_number(target, &p, (double)pick(random, 0, 2));
}

static double combined(rlx_scatter_mode mode, double old, double update) {
    switch (mode) {
    case RLX_SCATTER_ADD:
        return old + update;
    case RLX_SCATTER_MUL:
        return old * update;
    case RLX_SCATTER_MIN:
        return old < update ? old : update;
    case RLX_SCATTER_MAX:
        return old > update ? old : update;
    default:
        return update;
    }
}

static void expect_copy(case_tensor *in, case_tensor *out) {
    place p = {0};
    bool more = !case_is_empty(in->tensor.rank, in->tensor.dims);
    for (; more; more = case_next(in->tensor.rank, in->tensor.dims, &p))
        case_set(&out->expected, &p, case_get(&in->tensor, &p));
}

static void free_scatter(case_tensor *in, case_tensor *out) {
    for (int i = 0; i < 3; i++)
        case_free(&in[i]);
    case_free(out);
}

static void scatter_elements_applies_in_order(void **state) {
    const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F16, RLX_DTYPE_I64, RLX_DTYPE_U8};
    rlx_test_random random = rlx_test_seed(4);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], index_dims[RLX_MAX_RANK];
        uint32_t rank = (uint32_t)pick(&random, 1, 4);
        uint32_t axis = (uint32_t)rlx_test_below(&random, rank);
        rlx_scatter_attrs attrs = {(int64_t)axis - (int64_t)rank,
                                   (rlx_scatter_mode)rlx_test_below(&random, 5)};
        rlx_dtype dtype = dtypes[rlx_test_below(&random, 4)];
        faults seen = {0};
        case_tensor in[3], out;
        case_dims(&random, rank, dims);
        for (uint32_t i = 0; i < rank; i++) {
            index_dims[i] = pick(&random, dims[i] / 2, dims[i]);
            if (i == axis) index_dims[i] = dims[i] == 0 ? 0 : pick(&random, 0, 4);
        }
        case_input(&in[0], &random, dtype, rank, dims, coin(&random));
        make_index(&random, &in[1], rank, index_dims);
        case_input(&in[2], &random, dtype, rank, index_dims, coin(&random));
        case_output(&out, &random, dtype, rank, dims, coin(&random));
        fill_numbers(&random, &in[0], false);
        fill_numbers(&random, &in[2], false);
        expect_copy(&in[0], &out);
        place p = {0};
        bool more = !case_is_empty(rank, index_dims);
        for (; more; more = case_next(rank, index_dims, &p)) {
            set_index(&random, &in[1], &p, dims[axis], round % 3 == 0);
            place to = p;
            to.at[axis] = meant(&in[1], &p, dims[axis], &seen);
            if (to.at[axis] < 0) continue;
            case_set_number(&out.expected, &to,
                            combined(attrs.mode, case_number(&out.expected, &to),
                                     case_number(&in[2].tensor, &p)));
        }
        case_check_rule(RLX_OP_SCATTER_ELEMENTS, &attrs, in, 3, &out, 1);
        check_fault(case_run(&random, RLX_OP_SCATTER_ELEMENTS, &attrs, in, 3, &out, 1), seen);
        free_scatter(in, &out);
    }
}

static void scatter_nd_applies_in_order(void **state) {
    const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_BF16, RLX_DTYPE_I32, RLX_DTYPE_U4};
    rlx_test_random random = rlx_test_seed(5);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t dims[RLX_MAX_RANK], index_dims[RLX_MAX_RANK], update_dims[RLX_MAX_RANK];
        uint32_t rank = (uint32_t)pick(&random, 1, 3), prefix = (uint32_t)pick(&random, 0, 2);
        uint32_t tuple = (uint32_t)pick(&random, 0, rank), update_rank = 0;
        rlx_scatter_attrs attrs = {.mode = (rlx_scatter_mode)rlx_test_below(&random, 5)};
        rlx_dtype dtype = dtypes[rlx_test_below(&random, 4)];
        faults seen = {0};
        case_tensor in[3], out;
        if (dtype == RLX_DTYPE_U4 && attrs.mode == RLX_SCATTER_MUL) attrs.mode = RLX_SCATTER_SET;
        case_dims(&random, rank, dims);
        for (uint32_t i = 0; i < rank; i++)
            if (dims[i] == 0) dims[i] = 2;
        for (uint32_t i = 0; i < prefix; i++)
            index_dims[i] = update_dims[update_rank++] = pick(&random, 0, 2);
        index_dims[prefix] = tuple;
        for (uint32_t i = tuple; i < rank; i++)
            update_dims[update_rank++] = dims[i];
        case_input(&in[0], &random, dtype, rank, dims, coin(&random));
        make_index(&random, &in[1], prefix + 1, index_dims);
        case_input(&in[2], &random, dtype, update_rank, update_dims, coin(&random));
        case_output(&out, &random, dtype, rank, dims, coin(&random));
        fill_numbers(&random, &in[0], false);
        fill_numbers(&random, &in[2], false);
        fill_tuples(&random, &in[1], dims, round % 3 == 0);
        expect_copy(&in[0], &out);
        place p = {0};
        bool more = !case_is_empty(update_rank, update_dims);
        for (; more; more = case_next(update_rank, update_dims, &p)) {
            place at = {0}, to = {0};
            for (uint32_t i = 0; i < prefix; i++)
                at.at[i] = p.at[i];
            for (uint32_t i = tuple; i < rank; i++)
                to.at[i] = p.at[prefix + i - tuple];
            if (!tuple_at(&in[1], at, tuple, dims, to.at, &seen)) continue;
            case_set_number(&out.expected, &to,
                            combined(attrs.mode, case_number(&out.expected, &to),
                                     case_number(&in[2].tensor, &p)));
        }
        case_check_rule(RLX_OP_SCATTER_ND, &attrs, in, 3, &out, 1);
        check_fault(case_run(&random, RLX_OP_SCATTER_ND, &attrs, in, 3, &out, 1), seen);
        free_scatter(in, &out);
    }
}

/* NaN on either side stays; unsigned 64-bit numbers compare as such. */
static void scatter_compares_as_the_dtype_does(void **state) {
    int64_t indices[] = {0, 1, 2};
    uint64_t numbers[] = {1, UINT64_MAX, 5}, updates[] = {UINT64_MAX, 1, 5}, got[3];
    rlx_scatter_attrs attrs = {.axis = 0, .mode = RLX_SCATTER_MIN};
    rlx_tensor in[] = {{numbers, RLX_DTYPE_U64, 1, {3}, {1}, RLX_LAYOUT_PLAIN},
                       {indices, RLX_DTYPE_I64, 1, {3}, {1}, RLX_LAYOUT_PLAIN},
                       {updates, RLX_DTYPE_U64, 1, {3}, {1}, RLX_LAYOUT_PLAIN}};
    rlx_tensor out = {got, RLX_DTYPE_U64, 1, {3}, {1}, RLX_LAYOUT_PLAIN};
    rlx_kernel_args args = {.op = RLX_OP_SCATTER_ELEMENTS,
                            .attrs = &attrs,
                            .in = in,
                            .out = &out,
                            .in_count = 3,
                            .out_count = 1};
    const rlx_kernel *kernel = rlx_ref_kernel(RLX_OP_SCATTER_ELEMENTS);
    (void)state;
    kernel->run(&args, 0, kernel->items(&args));
    assert_int_equal(1, got[0]);
    assert_int_equal(1, got[1]);
    double nan = (double)__builtin_nan(""), floats[] = {nan, 2, 3}, new_floats[] = {1, nan, 1};
    double mixed[3];
    in[0] = (rlx_tensor){floats, RLX_DTYPE_F64, 1, {3}, {1}, RLX_LAYOUT_PLAIN};
    in[2] = (rlx_tensor){new_floats, RLX_DTYPE_F64, 1, {3}, {1}, RLX_LAYOUT_PLAIN};
    out = (rlx_tensor){mixed, RLX_DTYPE_F64, 1, {3}, {1}, RLX_LAYOUT_PLAIN};
    kernel->run(&args, 0, kernel->items(&args));
    assert_true(mixed[0] != mixed[0]);
    assert_true(mixed[1] != mixed[1]);
    assert_true(mixed[2] == 1);
}

/* An embedding table of q8_0 rows: what gather gives is what the decoder gives. */
static void rows_of_block_types_come_out_as_f32(void **state) {
    enum { ROWS = 5, COLUMNS = 64, ROW_BYTES = 68 };
    uint8_t table[ROWS * ROW_BYTES];
    float numbers[ROWS * COLUMNS], decoded[ROWS * COLUMNS], got[2][2 * COLUMNS];
    int32_t indices[] = {-1, 2};
    rlx_test_random random = rlx_test_seed(6);
    rlx_axis_attrs attrs = {0};
    rlx_tensor in[] = {{table, RLX_DTYPE_Q8_0, 2, {ROWS, COLUMNS}, {COLUMNS, 1}, RLX_LAYOUT_PLAIN},
                       {indices, RLX_DTYPE_I32, 1, {2}, {1}, RLX_LAYOUT_PLAIN}};
    rlx_tensor out = {got, RLX_DTYPE_F32, 2, {2, COLUMNS}, {2 * COLUMNS, 2}, RLX_LAYOUT_PLAIN};
    rlx_kernel_args args = {
        .op = RLX_OP_GATHER, .attrs = &attrs, .in = in, .out = &out, .in_count = 2, .out_count = 1};
    const rlx_kernel *kernel = rlx_ref_kernel(RLX_OP_GATHER);
    (void)state;
    rlx_test_fill_f32(&random, numbers, ROWS * COLUMNS, -1, 1);
    assert_ok(rlx_convert_from_f32(RLX_DTYPE_Q8_0, table, numbers, ROWS * COLUMNS));
    assert_ok(rlx_convert_to_f32(RLX_DTYPE_Q8_0, decoded, table, ROWS * COLUMNS));
    kernel->run(&args, 0, kernel->items(&args));
    for (int i = 0; i < COLUMNS; i++) {
        assert_true(got[0][2 * i] == decoded[4 * COLUMNS + i]);
        assert_true(got[1][2 * i] == decoded[2 * COLUMNS + i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gather_picks_along_one_axis),
        cmocka_unit_test(gather_elements_picks_single_ones),
        cmocka_unit_test(gather_nd_picks_rows_by_tuples),
        cmocka_unit_test(scatter_elements_applies_in_order),
        cmocka_unit_test(scatter_nd_applies_in_order),
        cmocka_unit_test(scatter_compares_as_the_dtype_does),
        cmocka_unit_test(rows_of_block_types_come_out_as_f32),
    };
    return cmocka_run_group_tests_name("ref_gather", tests, NULL, NULL);
}
