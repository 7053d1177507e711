/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions whose operands and result may differ in kind: cast and pow; and the choice of the
 * right loop for every instruction. */
#include "base/status.h"
#include "ref/elementwise.h"

#include <math.h>

int64_t rlx_float_to_integer(rlx_dtype dtype, double value) {
    uint32_t bits = rlx_dtype_bits(dtype);
    double whole = trunc(value);
    if (value != value) return 0;
    if (rlx_lane_of(dtype) == RLX_LANE_I64) {
        double limit = ldexp(1.0, (int)bits - 1);
        int64_t most = (int64_t)(UINT64_MAX >> (65 - bits));
        return whole >= limit ? most : whole < -limit ? -most - 1 : (int64_t)whole;
    }
    if (!(whole > 0)) return 0;
    if (whole >= ldexp(1.0, (int)bits)) return (int64_t)(UINT64_MAX >> (64 - bits));
    return (int64_t)(uint64_t)whole;
}

/* To double in round-to-odd, so that rounding once more is as good as rounding once. */
static double magnitude_to_f64_odd(uint64_t magnitude) {
    if (magnitude >> 53 == 0) return (double)magnitude;
    uint64_t kept = magnitude >> 11;
    kept |= (magnitude & 0x7ff) != 0;
    return (double)kept * 2048.0;
}

static double lane_to_f64_odd(rlx_lane lane, const void *in, uint32_t i) {
    switch (lane) {
    case RLX_LANE_F32:
        return (double)((const float *)in)[i];
    case RLX_LANE_F64:
        return ((const double *)in)[i];
    case RLX_LANE_I64: {
        int64_t value = ((const int64_t *)in)[i];
        double odd = magnitude_to_f64_odd(value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
        return value < 0 ? -odd : odd;
    }
    default:
        return magnitude_to_f64_odd(((const uint64_t *)in)[i]);
    }
}

static void cast_to_f32(const rlx_tile_op *op, rlx_lane from) {
    float *d = op->out;
    if (from == RLX_LANE_F32) {
        memmove(d, op->in[0], op->count * sizeof(float));
        return;
    }
    bool is_narrow = op->dtype != RLX_DTYPE_F32;
    for (uint32_t i = 0; i < op->count; i++) {
        double value = lane_to_f64_odd(from, op->in[0], i);
        d[i] = is_narrow ? rlx_f64_to_f32_odd(value) : (float)value;
    }
}

static void cast_to_f64(const rlx_tile_op *op, rlx_lane from) {
    double *d = op->out;
    const uint64_t *u = op->in[0];
    const int64_t *s = op->in[0];
    for (uint32_t i = 0; i < op->count; i++) {
        d[i] = from == RLX_LANE_I64   ? (double)s[i]
               : from == RLX_LANE_U64 ? (double)u[i]
                                      : lane_to_f64_odd(from, op->in[0], i);
    }
}

static void cast_to_bool(const rlx_tile_op *op, rlx_lane from) {
    uint64_t *d = op->out;
    const float *f = op->in[0];
    const double *g = op->in[0];
    const uint64_t *u = op->in[0];
    for (uint32_t i = 0; i < op->count; i++) {
        d[i] = from == RLX_LANE_F32 ? f[i] != 0 : from == RLX_LANE_F64 ? g[i] != 0 : u[i] != 0;
    }
}

static void cast_to_integer(const rlx_tile_op *op, rlx_lane from) {
    int64_t *d = op->out;
    if (from == RLX_LANE_I64 || from == RLX_LANE_U64) {
        memmove(d, op->in[0], op->count * sizeof(int64_t));
        return;
    }
    for (uint32_t i = 0; i < op->count; i++)
        d[i] = rlx_float_to_integer(op->dtype, lane_to_f64_odd(from, op->in[0], i));
}

void rlx_tile_cast(const rlx_tile_op *op) {
    rlx_lane from = rlx_lane_of(op->operands[0]);
    if (op->dtype == RLX_DTYPE_BOOL) {
        cast_to_bool(op, from);
        return;
    }
    switch (rlx_lane_of(op->dtype)) {
    case RLX_LANE_F32:
        cast_to_f32(op, from);
        return;
    case RLX_LANE_F64:
        cast_to_f64(op, from);
        return;
    default:
        cast_to_integer(op, from);
    }
}

static double lane_to_f64(rlx_lane lane, const void *in, uint32_t i) {
    if (lane == RLX_LANE_I64) return (double)((const int64_t *)in)[i];
    if (lane == RLX_LANE_U64) return (double)((const uint64_t *)in)[i];
    return lane_to_f64_odd(lane, in, i);
}

/* Exact modulo 2^64; the result is wrapped to its width later. */
static uint64_t integer_power(uint64_t base, uint64_t exponent) {
    uint64_t power = 1;
    for (; exponent != 0; exponent >>= 1) {
        if (exponent & 1) power *= base;
        base *= base;
    }
    return power;
}

/* 1 / x^n truncates to 0 unless x is 1 or -1. */
static uint64_t negative_power(int64_t base, int64_t exponent) {
    if (base == 1) return 1;
    if (base != -1) return 0;
    return exponent % 2 == 0 ? 1 : UINT64_MAX;
}

static void pow_integer(const rlx_tile_op *op, rlx_lane base, rlx_lane exponent) {
    const uint64_t *x = op->in[0], *y = op->in[1];
    uint64_t *d = op->out;
    for (uint32_t i = 0; i < op->count; i++) {
        if (exponent == RLX_LANE_F32 || exponent == RLX_LANE_F64) {
            double power = pow(lane_to_f64(base, x, i), lane_to_f64(exponent, y, i));
            d[i] = (uint64_t)rlx_float_to_integer(op->dtype, power);
        } else if (exponent == RLX_LANE_I64 && (int64_t)y[i] < 0) {
            bool is_one = base == RLX_LANE_U64;
            d[i] = is_one ? x[i] == 1 : negative_power((int64_t)x[i], (int64_t)y[i]);
        } else {
            d[i] = integer_power(x[i], y[i]);
        }
    }
}

void rlx_tile_pow(const rlx_tile_op *op) {
    rlx_lane base = rlx_lane_of(op->operands[0]), exponent = rlx_lane_of(op->operands[1]);
    if (base == RLX_LANE_F32 && exponent == RLX_LANE_F32) {
        const float *x = op->in[0], *y = op->in[1];
        float *d = op->out;
        for (uint32_t i = 0; i < op->count; i++)
            d[i] = powf(x[i], y[i]);
    } else if (base == RLX_LANE_F32) {
        float *d = op->out;
        for (uint32_t i = 0; i < op->count; i++)
            d[i] = (float)pow(lane_to_f64(base, op->in[0], i), lane_to_f64(exponent, op->in[1], i));
    } else if (base == RLX_LANE_F64) {
        double *d = op->out;
        for (uint32_t i = 0; i < op->count; i++)
            d[i] = pow(lane_to_f64(base, op->in[0], i), lane_to_f64(exponent, op->in[1], i));
    } else {
        pow_integer(op, base, exponent);
    }
}

void rlx_tile_run(const rlx_tile_op *op) {
    if (op->op == RLX_OP_CAST) {
        rlx_tile_cast(op);
        return;
    }
    if (op->op == RLX_OP_POW) {
        rlx_tile_pow(op);
        return;
    }
    switch (rlx_lane_of(op->operands[op->op == RLX_OP_WHERE ? 1 : 0])) {
    case RLX_LANE_F32:
        rlx_tile_f32(op);
        return;
    case RLX_LANE_F64:
        rlx_tile_f64(op);
        return;
    case RLX_LANE_I64:
        rlx_tile_i64(op);
        return;
    default:
        rlx_tile_u64(op);
    }
}
