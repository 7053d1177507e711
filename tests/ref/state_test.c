/* SPDX-License-Identifier: Apache-2.0 */
/* state_write: only the rows change, in place; past the capacity nothing does, unless it wraps. */
#include "ref/moves.h"

enum { ROUNDS = 150 };

typedef struct write_case {
    int64_t dims[RLX_MAX_RANK], row_dims[RLX_MAX_RANK];
    uint32_t rank, axis;
    int64_t capacity, rows, position;
    rlx_state_write_attrs attrs;
    case_tensor in[3], out[2];
} write_case;

static void make(write_case *self, rlx_test_random *random, rlx_dtype dtype, rlx_dtype row_dtype) {
    *self = (write_case){.rank = (uint32_t)pick(random, 1, 5)};
    self->axis = (uint32_t)rlx_test_below(random, self->rank);
    case_dims(random, self->rank, self->dims);
    self->capacity = self->dims[self->axis] = pick(random, 1, 9);
    memcpy(self->row_dims, self->dims, sizeof self->dims);
    self->rows = self->row_dims[self->axis] = pick(random, 0, self->capacity);
    self->position = pick(random, -1, 2 * self->capacity);
    self->attrs = (rlx_state_write_attrs){(int64_t)self->axis - (int64_t)self->rank, coin(random)};
    case_output(&self->out[0], random, dtype, self->rank, self->dims, coin(random));
    case_output(&self->out[1], random, RLX_DTYPE_I64, 0, NULL, false);
    case_input(&self->in[1], random, row_dtype, self->rank, self->row_dims, coin(random));
    case_input(&self->in[2], random, RLX_DTYPE_I64, 0, NULL, false);
    case_set(&self->in[2].tensor, &(place){{0}}, (uint64_t)self->position);
    self->in[0] = self->out[0]; /* the same memory */
}

/* Length and fault as ops.def says; true: the rows are written. */
static bool expect_length(write_case *self, rlx_fault_code *out_code) {
    int64_t end = self->position + self->rows, length = end;
    bool fits = self->position >= 0 && (self->attrs.wrap || end <= self->capacity);
    if (fits && length > self->capacity) length = self->capacity;
    if (!fits) length = self->position < 0 ? 0 : self->position;
    if (length > self->capacity) length = self->capacity;
    case_set(&self->out[1].expected, &(place){{0}}, (uint64_t)length);
    *out_code = fits ? RLX_FAULT_NONE : RLX_FAULT_CAPACITY;
    return fits;
}

static void check(write_case *self, rlx_test_random *random, rlx_fault_code code) {
    case_check_rule(RLX_OP_STATE_WRITE, &self->attrs, self->in, 3, self->out, 2);
    rlx_fault fault = case_run(random, RLX_OP_STATE_WRITE, &self->attrs, self->in, 3, self->out, 2);
    assert_int_equal(code, fault.code);
    if (code != RLX_FAULT_NONE) assert_int_equal(self->position, fault.value);
    case_free(&self->in[1]);
    case_free(&self->in[2]);
    case_free(&self->out[0]);
    case_free(&self->out[1]);
}

static void rows_go_to_their_position_and_nowhere_else(void **state) {
    rlx_test_random random = rlx_test_seed(1);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        write_case self;
        rlx_fault_code code;
        rlx_dtype dtype = case_dtypes[rlx_test_below(&random, case_dtype_count)];
        make(&self, &random, dtype, dtype);
        place p = {0};
        bool more = expect_length(&self, &code) && !case_is_empty(self.rank, self.row_dims);
        for (; more; more = case_next(self.rank, self.row_dims, &p)) {
            place to = p;
            to.at[self.axis] = (self.position + p.at[self.axis]) % self.capacity;
            case_set(&self.out[0].expected, &to, case_get(&self.in[1].tensor, &p));
        }
        check(&self, &random, code);
    }
}

static void rows_of_another_float_type_are_rounded(void **state) {
    const rlx_dtype state_dtypes[] = {RLX_DTYPE_F16, RLX_DTYPE_BF16, RLX_DTYPE_F32};
    const rlx_dtype row_dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_F16};
    rlx_test_random random = rlx_test_seed(2);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        write_case self;
        rlx_fault_code code;
        make(&self, &random, state_dtypes[round % 3], row_dtypes[round / 3 % 3]);
        place p = {0};
        bool more = !case_is_empty(self.rank, self.row_dims);
        for (; more; more = case_next(self.rank, self.row_dims, &p))
            case_set_number(&self.in[1].tensor, &p, (double)rlx_test_uniform(&random, -2, 2));
        p = (place){0};
        more = expect_length(&self, &code) && !case_is_empty(self.rank, self.row_dims);
        for (; more; more = case_next(self.rank, self.row_dims, &p)) {
            place to = p;
            to.at[self.axis] = (self.position + p.at[self.axis]) % self.capacity;
            case_set_number(&self.out[0].expected, &to, case_number(&self.in[1].tensor, &p));
        }
        check(&self, &random, code);
    }
}

static void positions_at_the_edge_of_i64_are_harmless(void **state) {
    rlx_test_random random = rlx_test_seed(3);
    const int64_t positions[] = {INT64_MAX, INT64_MIN, INT64_MAX - 1};
    (void)state;
    for (int round = 0; round < 3; round++) {
        write_case self;
        make(&self, &random, RLX_DTYPE_F32, RLX_DTYPE_F32);
        self.attrs.wrap = false;
        self.position = positions[round];
        case_set(&self.in[2].tensor, &(place){{0}}, (uint64_t)self.position);
        case_set(&self.out[1].expected, &(place){{0}},
                 self.position < 0 ? 0 : (uint64_t)self.capacity);
        check(&self, &random, RLX_FAULT_CAPACITY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_to_their_position_and_nowhere_else),
        cmocka_unit_test(rows_of_another_float_type_are_rounded),
        cmocka_unit_test(positions_at_the_edge_of_i64_are_harmless),
    };
    return cmocka_run_group_tests_name("ref_state", tests, NULL, NULL);
}
