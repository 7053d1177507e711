/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions on i8, u8, i32, i64 and bool, and those that only move cells: identity and where.
 * Other integers, divisions and shifts are left to scalar C: rare, and code has a size. */
#include "backend/cpu/vec/elementwise.h"
#include "ref/elementwise.h"

#include <math.h>

#define VEC_LOOP RLX_TILE_LOOP
#define LOOP(name, types, expression)                                                     \
    static void name(const vec_step *step, const void *const *in, void *out, int64_t n) { \
        types;                                                                            \
        (void)step;                                                                       \
        VEC_LOOP for (int64_t i = 0; i < n; i++) {                                        \
            expression;                                                                   \
        }                                                                                 \
    }
#define UNARY(op, expression) \
    LOOP(NAME(op), const T *a = in[0]; T *d = out, T x = a[i]; d[i] = (T)(expression))
#define BINARY(op, expression)                                                                 \
    LOOP(NAME(op), const T *a = in[0]; const T *b = in[1]; T *d = out, T x = a[i]; T y = b[i]; \
         d[i] = (T)(expression))
#define TRUTH(op, expression)                                                            \
    LOOP(NAME(op), const T *a = in[0]; const T *b = in[1]; uint8_t *d = out, T x = a[i]; \
         T y = b[i]; d[i] = (expression))
#define ROW(op)       \
    case RLX_OP_##op: \
        return NAME(op);

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wtautological-unsigned-zero-compare"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wtype-limits"
#endif

/* W is unsigned and not promoted to int. */
#define T        int8_t
#define U        uint8_t
#define W        uint32_t
#define NAME(op) i8_##op
#include "backend/cpu/vec/elementwise_integer.inc"
#undef T
#undef U
#undef W
#undef NAME
#define T        uint8_t
#define U        uint8_t
#define W        uint32_t
#define NAME(op) u8_##op
#include "backend/cpu/vec/elementwise_integer.inc"
#undef T
#undef U
#undef W
#undef NAME
#define T        int32_t
#define U        uint32_t
#define W        uint32_t
#define NAME(op) i32_##op
#include "backend/cpu/vec/elementwise_integer.inc"
#undef T
#undef U
#undef W
#undef NAME
#define T        int64_t
#define U        uint64_t
#define W        uint64_t
#define NAME(op) i64_##op
#include "backend/cpu/vec/elementwise_integer.inc"
#undef T
#undef U
#undef W
#undef NAME

/* Bools: any byte but 0 is true; results are 0 and 1. */
#define T        uint8_t
#define NAME(op) bool_##op
UNARY(IDENTITY, x != 0)
UNARY(NOT, x == 0)
BINARY(AND, (x != 0) & (y != 0))
BINARY(OR, (x != 0) | (y != 0))
BINARY(XOR, (x != 0) ^ (y != 0))
BINARY(EQUAL, (x != 0) == (y != 0))
BINARY(NOT_EQUAL, (x != 0) != (y != 0))
#undef T
#undef NAME

static vec_run choose_bool(rlx_op op) {
#define NAME(op) bool_##op
    switch (op) {
        ROW(IDENTITY)
        ROW(NOT)
        ROW(AND)
        ROW(OR)
        ROW(XOR)
        ROW(EQUAL)
        ROW(NOT_EQUAL)
    default:
        return NULL;
    }
#undef NAME
}

/* By the width alone. */
#define MOVES(T, width)                                                                   \
    LOOP(identity_##width, const T *a = in[0]; T *d = out, d[i] = a[i])                   \
    LOOP(where_##width, const uint8_t *c = in[0]; const T *a = in[1]; const T *b = in[2]; \
         T *d = out, T x = a[i]; T y = b[i]; d[i] = c[i] != 0 ? x : y)
MOVES(uint8_t, 1)
MOVES(uint16_t, 2)
MOVES(uint32_t, 4)
MOVES(uint64_t, 8)

/* Of bools the chosen byte may be any. */
static void where_bool(const vec_step *step, const void *const *in, void *out, int64_t n) {
    where_1(step, in, out, n);
    bool_IDENTITY(step, (const void *const[]){out}, out, n);
}

static vec_run choose_move(rlx_op op, rlx_dtype cell) {
    if (cell == RLX_DTYPE_BOOL) return op == RLX_OP_WHERE ? where_bool : bool_IDENTITY;
    switch (rlx_dtype_block_bytes(cell)) {
    case 1:
        return op == RLX_OP_WHERE ? where_1 : identity_1;
    case 2:
        return op == RLX_OP_WHERE ? where_2 : identity_2;
    case 4:
        return op == RLX_OP_WHERE ? where_4 : identity_4;
    default:
        return op == RLX_OP_WHERE ? where_8 : identity_8;
    }
}

vec_run vec_choose_integer(const vec_step *step) {
    rlx_dtype cell = vec_cell_of(step->dtype);
    if (step->op == RLX_OP_WHERE || step->op == RLX_OP_IDENTITY) return choose_move(step->op, cell);
    switch (vec_cell_of(step->operands[0])) {
    case RLX_DTYPE_BOOL:
        return choose_bool(step->op);
    case RLX_DTYPE_I8:
        return i8_choose(step->op);
    case RLX_DTYPE_U8:
        return u8_choose(step->op);
    case RLX_DTYPE_I32:
        return i32_choose(step->op);
    case RLX_DTYPE_I64:
        return i64_choose(step->op);
    default:
        return NULL;
    }
}
