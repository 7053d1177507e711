/* SPDX-License-Identifier: Apache-2.0 */
/* Integer and bool instructions of the tile evaluator: the loops from elementwise_integer.inc once
 * for i64 and once for u64 lanes. */
#include "base/status.h"
#include "ref/elementwise.h"

#include <math.h>

/* The least integer has no positive twin: dividing by -1 is negation, which wraps. */
static inline int64_t divide(int64_t x, int64_t y) {
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static inline int64_t remainder_of(int64_t x, int64_t y) {
    return y == -1 ? 0 : x % y;
}

static inline int64_t floor_mod(int64_t x, int64_t y) {
    int64_t rest = remainder_of(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/* Shifting a negative number to the right keeps its sign in every compiler we build with; C leaves
 * it to them. */
#define T            int64_t
#define TILE_INTEGER rlx_tile_i64
#define DIVIDE       divide
#define FLOOR_MOD    floor_mod
#define REMAINDER    remainder_of
#include "ref/elementwise_integer.inc"
#undef T
#undef TILE_INTEGER
#undef DIVIDE
#undef FLOOR_MOD
#undef REMAINDER

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wtautological-unsigned-zero-compare"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wtype-limits"
#endif

#define T               uint64_t
#define TILE_INTEGER    rlx_tile_u64
#define DIVIDE(x, y)    ((x) / (y))
#define FLOOR_MOD(x, y) ((x) % (y))
#define REMAINDER(x, y) ((x) % (y))
#include "ref/elementwise_integer.inc"
