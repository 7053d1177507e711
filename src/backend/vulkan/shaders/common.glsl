// SPDX-License-Identifier: Apache-2.0
// What every shader stands on: operands as arrays of 32-bit words, elements of any dtype in them, the
// record of a step (p[]), and 64-bit integers as pairs of words. No optional feature of a device is
// used. Dtypes of bindings and the choices K0.. are specialisation constants: a driver folds them.
layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) readonly buffer Record { int p[]; };

// The order of rlx/dtypes.def.
const uint F64 = 0u, F32 = 1u, F16 = 2u, BF16 = 3u, F8E4M3FN = 4u, F8E4M3FNUZ = 5u, F8E5M2 = 6u, F8E5M2FNUZ = 7u, I8 = 8u, I16 = 9u, I32 = 10u, I64 = 11u, U8 = 12u, U16 = 13u, U32 = 14u,
           U64 = 15u, BOOL = 16u;

layout(constant_id = 20) const uint K0 = 0u;
layout(constant_id = 21) const uint K1 = 0u;
layout(constant_id = 22) const uint K2 = 0u;
layout(constant_id = 23) const uint K3 = 0u;
layout(constant_id = 24) const uint K4 = 0u;
layout(constant_id = 25) const uint K5 = 0u;

// A shader compiled with DOUBLE computes in f64, and all its floats are f64; they are bound as u64.
#ifdef DOUBLE
#define real double
real real_of(uvec2 value) { return packDouble2x32(value); }
uvec2 value_of_real(real x) { return unpackDouble2x32(x); }
bool is_float(uint dtype) { return dtype < I8 || dtype == U64; }
#else
#define real float
real real_of(uvec2 value) { return uintBitsToFloat(value.x); }
uvec2 value_of_real(real x) { return uvec2(floatBitsToUint(x), 0u); }
bool is_float(uint dtype) { return dtype < I8; }
#endif
bool is_signed(uint dtype) { return dtype >= I8 && dtype <= I64; }
uint bytes_of(uint dtype) {
    if (dtype == F32 || dtype == I32 || dtype == U32) return 4u;
    if (dtype == I64 || dtype == U64 || dtype == F64) return 8u;
    if (dtype == F16 || dtype == BF16 || dtype == I16 || dtype == U16) return 2u;
    return 1u;
}

float half_to_float(uint h) {
    uint sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) return uintBitsToFloat(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
    if (rest >= 0x400u) return uintBitsToFloat(sign | ((rest << 13) + 0x38000000u));
    float small = float(rest) * 5.9604644775390625e-8; // 2^-24
    return sign != 0u ? -small : small;
}
// Round to nearest even; too large is infinity; NaN stays NaN.
uint float_to_half(float value) {
    uint bits = floatBitsToUint(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return sign | 0x7e00u | (rest >> 13 & 0x3ffu);
    if (rest >= 0x477ff000u) return sign | 0x7c00u;
    if (rest >= 0x38800000u) {
        rest += 0xfffu + (rest >> 13 & 1u);
        return sign | ((rest - 0x38000000u) >> 13);
    }
    if (rest < 0x33000000u) return sign;
    uint shift = 126u - (rest >> 23), mantissa = (rest & 0x7fffffu) | 0x800000u;
    uint kept = mantissa >> shift, lost = mantissa & ((1u << shift) - 1u), half_way = 1u << (shift - 1u);
    return sign | (kept + uint(lost > half_way || (lost == half_way && (kept & 1u) == 1u)));
}
uint float_to_bf16(float value) {
    uint bits = floatBitsToUint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
float round_to(uint dtype, float value) {
    if (dtype == F16) return half_to_float(float_to_half(value));
    if (dtype == BF16) return uintBitsToFloat(float_to_bf16(value) << 16);
    return value;
}

#ifdef HAS_F8
// The kinds differ in bits of the mantissa, bias, and what they have instead of -0 and infinity ("fnuz": neither).
struct F8Kind { uint mantissa, bias, top, over; bool fnuz; };
F8Kind f8_kind(uint dtype) {
    bool five = dtype >= F8E5M2, fnuz = dtype == F8E4M3FNUZ || dtype == F8E5M2FNUZ;
    uint top = fnuz ? 0x7fu : five ? 0x7bu : 0x7eu;
    return F8Kind(five ? 2u : 3u, (five ? 15u : 7u) + uint(fnuz), top, five && !fnuz ? 0x7cu : top, fnuz);
}
float f8_to_float(uint dtype, uint code) {
    F8Kind kind = f8_kind(dtype);
    uint size = code & 0x7fu, cut = 23u - kind.mantissa, sign = (code & 0x80u) << 24;
    if (kind.fnuz && code == 0x80u) return uintBitsToFloat(0x7fc00000u);
    if (size > kind.top) return uintBitsToFloat(sign | 0x7f800000u | ((size << cut) & 0x7fffffu));
    if (size >= 1u << kind.mantissa) return uintBitsToFloat(sign | ((size << cut) + ((127u - kind.bias) << 23)));
    return uintBitsToFloat(sign | floatBitsToUint(float(size) * uintBitsToFloat((128u - kind.bias - kind.mantissa) << 23)));
}
// Round to nearest even; too large is the largest, or infinity where there is one.
uint float_to_f8(uint dtype, float value) {
    F8Kind kind = f8_kind(dtype);
    uint bits = floatBitsToUint(value), size = bits & 0x7fffffffu, cut = 23u - kind.mantissa, sign = bits >> 24 & 0x80u;
    uint rebase = (127u - kind.bias) << 23, anchor = (128u - kind.bias + cut) << 23, result;
    if (size > 0x7f800000u) {
        uint payload = (size & 0x7fffffu) >> cut;
        if (kind.over != kind.top) return sign | (payload == 0u ? 0x7eu : kind.over | payload);
        return sign | (kind.fnuz ? 0x80u : 0x7fu);
    }
    if (size < rebase + 0x800000u) {
        result = floatBitsToUint(uintBitsToFloat(size) + uintBitsToFloat(anchor)) - anchor;
    } else {
        uint rebased = size - rebase;
        result = (rebased + (1u << (cut - 1u)) - 1u + (rebased >> cut & 1u)) >> cut;
    }
    if (result > kind.top) result = kind.over;
    return kind.fnuz && result == 0u ? 0u : result | sign;
}
#endif

#ifdef DOUBLE
real round_to(uint dtype, real value) { return value; }
#endif

// 64-bit integers: x is the low word.
uvec2 add64(uvec2 a, uvec2 b) {
    uint low = a.x + b.x;
    return uvec2(low, a.y + b.y + uint(low < a.x));
}
uvec2 neg64(uvec2 a) { return add64(uvec2(~a.x, ~a.y), uvec2(1u, 0u)); }
uvec2 sub64(uvec2 a, uvec2 b) { return uvec2(a.x - b.x, a.y - b.y - uint(a.x < b.x)); }
uvec2 mul64(uvec2 a, uvec2 b) {
    uint high, low;
    umulExtended(a.x, b.x, high, low);
    return uvec2(low, high + a.x * b.y + a.y * b.x);
}
bool less_u64(uvec2 a, uvec2 b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }
bool less_s64(uvec2 a, uvec2 b) { return int(a.y) < int(b.y) || (a.y == b.y && a.x < b.x); }
bool is_negative(uvec2 a) { return int(a.y) < 0; }
uvec2 shl64(uvec2 a, uint n) {
    if (n == 0u) return a;
    if (n >= 64u) return uvec2(0u);
    return n >= 32u ? uvec2(0u, a.x << (n - 32u)) : uvec2(a.x << n, a.y << n | a.x >> (32u - n));
}
uvec2 shr64(uvec2 a, uint n, bool arithmetic) {
    uint fill = arithmetic && is_negative(a) ? 0xffffffffu : 0u;
    if (n == 0u) return a;
    if (n >= 64u) return uvec2(fill);
    uint high = arithmetic ? uint(int(a.y) >> min(n, 31u)) : a.y >> min(n, 31u);
    if (n >= 32u) {
        uint low = n == 32u ? a.y : (arithmetic ? uint(int(a.y) >> (n - 32u)) : a.y >> (n - 32u));
        return uvec2(low, fill);
    }
    return uvec2(a.x >> n | a.y << (32u - n), high);
}
// Quotient and remainder of unsigned numbers; b is not 0.
void divide64(uvec2 a, uvec2 b, out uvec2 quotient, out uvec2 remainder) {
    quotient = uvec2(0u);
    remainder = uvec2(0u);
    if (a.y == 0u && b.y == 0u) {
        quotient.x = a.x / b.x;
        remainder.x = a.x - quotient.x * b.x;
        return;
    }
    for (int i = 63; i >= 0; i--) {
        uint bit = i >= 32 ? a.y >> (i - 32) & 1u : a.x >> i & 1u;
        bool carry = is_negative(remainder);
        remainder = shl64(remainder, 1u);
        remainder.x |= bit;
        quotient = shl64(quotient, 1u);
        if (carry || !less_u64(remainder, b)) {
            remainder = sub64(remainder, b);
            quotient.x |= 1u;
        }
    }
}
// To the nearest float, ties to even.
float to_float64(uvec2 a, bool signed_) {
    bool negative = signed_ && is_negative(a);
    if (negative) a = neg64(a);
    if (a.y == 0u && a.x < 0x1000000u) return negative ? -float(a.x) : float(a.x);
    int top = a.y != 0u ? 32 + findMSB(a.y) : findMSB(a.x);
    uint cut = uint(top - 23);
    uvec2 kept = shr64(a, cut, false), lost = sub64(a, shl64(kept, cut)), half_way = shl64(uvec2(1u, 0u), cut - 1u);
    bool up = less_u64(half_way, lost) || (lost == half_way && (kept.x & 1u) == 1u);
    float value = float(kept.x + uint(up)) * uintBitsToFloat((cut + 127u) << 23);
    return negative ? -value : value;
}
// Towards zero, saturating to `bits`; NaN is 0.
uvec2 from_float64(float value, uint bits, bool signed_) {
    bool negative = value < 0.0;
    float size = abs(value);
    uvec2 limit = signed_ ? shl64(uvec2(1u, 0u), bits - 1u) : bits == 64u ? uvec2(0xffffffffu) : sub64(shl64(uvec2(1u, 0u), bits), uvec2(1u, 0u));
    if (value != value || (negative && !signed_)) return uvec2(0u);
    uvec2 whole = uvec2(0u);
    if (size >= 18446744073709551616.0) {
        whole = uvec2(0xffffffffu);
    } else if (size >= 1.0) {
        uint raw = floatBitsToUint(size), exponent = raw >> 23;
        uvec2 mantissa = uvec2((raw & 0x7fffffu) | 0x800000u, 0u);
        whole = exponent >= 150u ? shl64(mantissa, exponent - 150u) : uvec2(mantissa.x >> (150u - exponent), 0u);
    }
    if (signed_ && !negative) limit = sub64(limit, uvec2(1u, 0u));
    if (less_u64(limit, whole)) whole = limit;
    return negative ? neg64(whole) : whole;
}
// Cut to the width of an integer dtype and extended again.
uvec2 wrap_to(uint dtype, uvec2 v) {
    if (dtype == I8) { int n = bitfieldExtract(int(v.x), 0, 8); return uvec2(uint(n), uint(n >> 31)); }
    if (dtype == I16) { int n = bitfieldExtract(int(v.x), 0, 16); return uvec2(uint(n), uint(n >> 31)); }
    if (dtype == I32) return uvec2(v.x, uint(int(v.x) >> 31));
    if (dtype == U8) return uvec2(v.x & 0xffu, 0u);
    if (dtype == U16) return uvec2(v.x & 0xffffu, 0u);
    if (dtype == U32) return uvec2(v.x, 0u);
    if (dtype == BOOL) return uvec2(uint(v.x != 0u || v.y != 0u), 0u);
    return v;
}
uint bits_of(uint dtype) { return bytes_of(dtype) * 8u; }

// A value: floats as the bits of an f32, integers extended to 64 bits, bool as 0 or 1.
uvec2 value_of(uint dtype, uvec2 raw) {
    if (dtype == F32) return raw;
    if (dtype == F16) return uvec2(floatBitsToUint(half_to_float(raw.x)), 0u);
    if (dtype == BF16) return uvec2(raw.x << 16, 0u);
#ifdef HAS_F8
    if (dtype != F64 && is_float(dtype)) return uvec2(floatBitsToUint(f8_to_float(dtype, raw.x)), 0u);
#endif
    return wrap_to(dtype, raw);
}
uvec2 raw_of(uint dtype, uvec2 value) {
    if (dtype == F16) return uvec2(float_to_half(uintBitsToFloat(value.x)), 0u);
    if (dtype == BF16) return uvec2(float_to_bf16(uintBitsToFloat(value.x)), 0u);
#ifdef HAS_F8
    if (dtype > F32 && is_float(dtype)) return uvec2(float_to_f8(dtype, uintBitsToFloat(value.x)), 0u);
#endif
    if (dtype == BOOL) return uvec2(uint(value.x != 0u || value.y != 0u), 0u);
    return value;
}

// An operand that is read: raw_k, value_k, float_k of element i.
#define IN(k)                                                                              \
    layout(constant_id = k) const uint DT##k = 1u;                                         \
    layout(std430, set = 0, binding = k) readonly buffer Operand##k { uint w##k[]; };      \
    uvec2 raw_##k(int i) {                                                                 \
        if (bytes_of(DT##k) == 4u) return uvec2(w##k[i], 0u);                              \
        if (bytes_of(DT##k) == 8u) return uvec2(w##k[2 * i], w##k[2 * i + 1]);             \
        if (bytes_of(DT##k) == 2u) return uvec2(w##k[i >> 1] >> ((i & 1) * 16) & 0xffffu, 0u); \
        return uvec2(w##k[i >> 2] >> ((i & 3) * 8) & 0xffu, 0u);                           \
    }                                                                                      \
    uvec2 value_##k(int i) { return value_of(DT##k, raw_##k(i)); }                         \
    real float_##k(int i) { return real_of(value_##k(i)); }

// One that is written. Elements smaller than a word share it with others, who may be written by other
// lanes: they change by atomics.
#define OUT(k)                                                                             \
    layout(constant_id = k) const uint DT##k = 1u;                                         \
    layout(std430, set = 0, binding = k) buffer Operand##k { uint w##k[]; };               \
    void put_raw_##k(int i, uvec2 raw) {                                                   \
        if (bytes_of(DT##k) == 4u) {                                                       \
            w##k[i] = raw.x;                                                               \
        } else if (bytes_of(DT##k) == 8u) {                                                \
            w##k[2 * i] = raw.x;                                                           \
            w##k[2 * i + 1] = raw.y;                                                       \
        } else if (bytes_of(DT##k) == 2u) {                                                \
            int shift = (i & 1) * 16;                                                      \
            atomicAnd(w##k[i >> 1], ~(0xffffu << shift));                                  \
            atomicOr(w##k[i >> 1], (raw.x & 0xffffu) << shift);                            \
        } else {                                                                           \
            int shift = (i & 3) * 8;                                                       \
            atomicAnd(w##k[i >> 2], ~(0xffu << shift));                                    \
            atomicOr(w##k[i >> 2], (raw.x & 0xffu) << shift);                              \
        }                                                                                  \
    }                                                                                      \
    uvec2 get_raw_##k(int i) {                                                             \
        if (bytes_of(DT##k) == 4u) return uvec2(w##k[i], 0u);                              \
        if (bytes_of(DT##k) == 8u) return uvec2(w##k[2 * i], w##k[2 * i + 1]);             \
        if (bytes_of(DT##k) == 2u) return uvec2(w##k[i >> 1] >> ((i & 1) * 16) & 0xffffu, 0u); \
        return uvec2(w##k[i >> 2] >> ((i & 3) * 8) & 0xffu, 0u);                           \
    }                                                                                      \
    void put_##k(int i, uvec2 value) { put_raw_##k(i, raw_of(DT##k, value)); }             \
    void put_float_##k(int i, real value) { put_##k(i, value_of_real(value)); }

// The fault record: the first one wins. Codes as in ref/kernel.h.
#define FAULTS                                                                             \
    layout(std430, set = 0, binding = 11) buffer Fault { uint fault[]; };                  \
    void raise(uint code, uvec2 value) {                                                   \
        if (atomicCompSwap(fault[0], 0u, 1u) != 0u) return;                                \
        fault[1] = code;                                                                   \
        fault[2] = uint(p[0]);                                                             \
        fault[4] = value.x;                                                                \
        fault[5] = value.y;                                                                \
    }
const uint FAULT_INDEX = 1u, FAULT_DIVISION = 2u, FAULT_CAPACITY = 3u, FAULT_BOUND = 4u;

// Groups beyond a limit of x go on in y.
int group() { return int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x); }
int lane() { return int(gl_LocalInvocationID.x); }
int item() { return group() * 64 + lane(); }

int product(int dims, int rank) {
    int count = 1;
    for (int d = 0; d < rank; d++) count *= p[dims + d];
    return count;
}
// The offset of the row-major number `index` among the dims at p[dims], by the strides at p[strides].
int offset(int dims, int strides, int rank, int index) {
    int at = 0;
    for (int d = rank - 1; d > 0; d--) {
        int size = p[dims + d], rest = index / size;
        at += (index - rest * size) * p[strides + d];
        index = rest;
    }
    return rank > 0 ? at + index * p[strides] : at; // the first axis takes no division
}
float pf(int at) { return intBitsToFloat(p[at]); }

// A sum, a maximum over the 64 lanes of a group; every lane calls, every lane gets it.
shared real lanes[64];
real group_sum(real value) {
    barrier();
    lanes[lane()] = value;
    barrier();
    for (int n = 32; n > 0; n >>= 1) {
        if (lane() < n) lanes[lane()] += lanes[lane() + n];
        barrier();
    }
    return lanes[0];
}
real nan_max(real a, real b) { return a > b || a != a ? a : b; }
real group_max(real value) {
    barrier();
    lanes[lane()] = value;
    barrier();
    for (int n = 32; n > 0; n >>= 1) {
        if (lane() < n) lanes[lane()] = nan_max(lanes[lane()], lanes[lane() + n]);
        barrier();
    }
    return lanes[0];
}
