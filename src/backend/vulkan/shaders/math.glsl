// SPDX-License-Identifier: Apache-2.0
// The float functions, written out where a driver's own may be coarse (Vulkan allows sin and cos an
// error of 2^-11). NaN and infinity behave as in C.
#define INF uintBitsToFloat(0x7f800000u)
#define NAN uintBitsToFloat(0x7fc00000u)
const float PI = 3.14159265358979;

float exp_(float x) {
    if (x != x) return x;
    if (x > 88.8) return INF;
    if (x < -104.0) return 0.0;
    float n = roundEven(x * 1.44269504088896);
    float r = x - n * 0.693145751953125;
    r = r - n * 1.42860682030941723212e-6;
    float e = 1.0 + r * (1.0 + r * (0.5 + r * (0.166666666666 + r * (0.0416666667 + r * (0.00833333377 + r * (0.00138887875 + r * 0.000198412701))))));
    int k = int(n), a = k / 2, b = k - a;
    return e * uintBitsToFloat(uint(a + 127) << 23) * uintBitsToFloat(uint(b + 127) << 23);
}
// exp(x) - 1 without loss near 0.
float expm1_(float x) {
    if (abs(x) > 0.35) return exp_(x) - 1.0;
    return x * (1.0 + x * (0.5 + x * (0.166666666666 + x * (0.0416666667 + x * (0.00833333377 + x * (0.00138888877 + x * 0.000198412701))))));
}
// log(1 + x) for x > -1.
float log_(float x) {
    if (x != x || x < 0.0) return NAN;
    if (x == 0.0) return -INF;
    if (x == INF) return INF;
    float scale = 0.0;
    if (x < 1.17549435e-38) { x *= 8388608.0; scale = -23.0; }
    uint bits = floatBitsToUint(x), at = bits - 0x3f3504f3u;
    int k = int(at) >> 23;
    float m = uintBitsToFloat(bits - uint(k << 23)), f = m - 1.0;
    float s = f / (2.0 + f), z = s * s;
    float r = z * (0.66666662693 + z * (0.40000972152 + z * (0.28498786688 + z * 0.24279078841)));
    float h = 0.5 * f * f, n = float(k) + scale;
    return n * 0.693359375 - ((h - (s * (h + r))) - n * -2.12194440e-4 - f);
}
float log1p_(float x) {
    float u = 1.0 + x;
    if (u == 1.0) return x;
    return u == INF ? INF : log_(u) * (x / (u - 1.0));
}
// sin and cos of a turn: t is the angle as a fraction of 2^32, w the rest of it (a fraction of 2^32 units).
vec2 turn(uint t) {
    uint octant = (t + 0x10000000u) >> 29; // nearest eighth, two per quadrant
    uint quadrant = (t + 0x20000000u) >> 30;
    int rest = int(t - (quadrant << 30));
    float x = float(rest) * 1.46291807926716e-9; // 2 pi / 2^32
    float z = x * x;
    float s = x + x * z * (-0.166666657 + z * (0.00833303268 + z * -0.000195152956));
    float c = 1.0 + z * (-0.5 + z * (0.0416666456 + z * (-0.00138873163 + z * 2.44331571e-5)));
    quadrant &= 3u;
    if (quadrant == 1u) return vec2(c, -s);
    if (quadrant == 2u) return vec2(-s, -c);
    if (quadrant == 3u) return vec2(-c, s);
    return vec2(s, c);
}
// An f32 as turns: its mantissa times 2/pi.. in 96 bits, so that large angles are exact too.
vec2 sincos_(float x) {
    if (x != x || abs(x) == INF) return vec2(NAN);
    uint bits = floatBitsToUint(abs(x));
    int exponent = int(bits >> 23) - 150;
    uint mantissa = (bits & 0x7fffffu) | 0x800000u;
    if (abs(x) < 0.7853) {
        float z = x * x;
        return vec2(x + x * z * (-0.166666657 + z * (0.00833303268 + z * -0.000195152956)),
                    1.0 + z * (-0.5 + z * (0.0416666456 + z * (-0.00138873163 + z * 2.44331571e-5))));
    }
    // Bits of 1 / (2 pi) behind the point, from bit 0 (2^-1) on.
    const uint digits[8] = uint[8](0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau, 0xf7aef158u);
    // mantissa * 2^exponent * d: the turn is what is left behind the point.
    int start = max(exponent, 0);
    int word = start >> 5, shift = start & 31;
    uint d0 = digits[word], d1 = digits[word + 1], d2 = digits[word + 2], d3 = digits[min(word + 3, 7)];
    if (shift > 0) {
        d0 = d0 << shift | d1 >> (32 - shift);
        d1 = d1 << shift | d2 >> (32 - shift);
        d2 = d2 << shift | d3 >> (32 - shift);
    }
    uint high1, low1, high2, low2;
    umulExtended(mantissa, d1, high1, low1);
    umulExtended(mantissa, d2, high2, low2);
    uint middle = low1 + high2;
    uint carry = uint(middle < low1);
    uint top = mantissa * d0 + high1 + carry; // whole turns fall off
    if (exponent < 0) {
        // mantissa * d / 2^-exponent: take whole turns into account by a 64-bit shift.
        uint high0, low0;
        umulExtended(mantissa, digits[0], high0, low0);
        uint m1 = low0 + high1;
        high0 += uint(m1 < low0);
        uint m2 = m1 + carry;
        high0 += uint(m2 < m1);
        int n = -exponent; // 1 .. 24
        top = m2 >> n | high0 << (32 - n);
    }
    vec2 sc = turn(top);
    return x < 0.0 ? vec2(-sc.x, sc.y) : sc;
}
float erfc_tail(float x) { // erfc for x >= 0.5, relative error of a few ulp
    float t = 1.0 / (1.0 + 0.5 * x);
    float y = t * exp_(-x * x - 1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277)))))))));
    return y;
}
float erf_(float x) {
    if (x != x) return x;
    float a = abs(x);
    float y;
    if (a < 1.0) {
        float z = x * x;
        return x * (1.12837916709551 + z * (-0.376126389031838 + z * (0.112837916709551 + z * (-0.0268661706451313 + z * (0.00522397762544219 + z * (-0.000854832702345085 + z * (0.000120553329817896 + z * -0.0000149256503584063)))))));
    }
    y = 1.0 - erfc_tail(a);
    return x < 0.0 ? -y : y;
}
float erfc_(float x) {
    if (x < 1.0) return 1.0 - erf_(x);
    return erfc_tail(x);
}
float atan_(float x) {
    float a = abs(x), base = 0.0;
    if (a > 2.414213562373095) {
        base = 1.5707963267949;
        a = -1.0 / a;
    } else if (a > 0.4142135623730950) {
        base = 0.785398163397448;
        a = (a - 1.0) / (a + 1.0);
    }
    float z = a * a;
    float y = base + (((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1) * z * a + a;
    return x < 0.0 ? -y : y;
}
float asin_(float x) {
    float a = abs(x);
    if (!(a <= 1.0)) return NAN;
    bool far = a > 0.5;
    float z = far ? 0.5 * (1.0 - a) : a * a, s = far ? sqrt(z) : a;
    float y = ((((4.2163199048e-2 * z + 2.4181311049e-2) * z + 4.5470025998e-2) * z + 7.4953002686e-2) * z + 1.6666752422e-1) * z * s + s;
    if (far) y = 1.57079632679490 - 2.0 * y;
    return x < 0.0 ? -y : y;
}
float acos_(float x) {
    if (!(abs(x) <= 1.0)) return NAN;
    if (x > 0.5) return 2.0 * asin_(sqrt(0.5 * (1.0 - x)));
    if (x < -0.5) return PI - 2.0 * asin_(sqrt(0.5 * (1.0 + x)));
    return 1.57079632679490 - asin_(x);
}
float tanh_(float x) {
    if (x != x) return x;
    float a = abs(x);
    if (a > 10.0) return x < 0.0 ? -1.0 : 1.0;
    float e = expm1_(2.0 * a), y = e / (e + 2.0);
    return x < 0.0 ? -y : y;
}
float sinh_(float x) {
    float a = abs(x), y;
    if (a < 1.0) { float e = expm1_(a); y = 0.5 * (e + e / (e + 1.0)); }
    else if (a < 88.0) { float e = exp_(a); y = 0.5 * (e - 1.0 / e); }
    else { float e = exp_(0.5 * a); y = (0.5 * e) * e; }
    return x < 0.0 ? -y : y;
}
float cosh_(float x) {
    float a = abs(x);
    if (a < 88.0) { float e = exp_(a); return 0.5 * (e + 1.0 / e); }
    float e = exp_(0.5 * a);
    return (0.5 * e) * e;
}
float sigmoid_(float x) {
    float e = exp_(-abs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
float softplus_(float x) { return (x > 0.0 ? x : 0.0) + log1p_(exp_(-abs(x))); }
float pow_(float x, float y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    if (x != x || y != y) return NAN;
    bool whole = roundEven(y) == y, odd = whole && abs(y) < 16777216.0 && (int(y) & 1) != 0;
    float a = abs(x);
    if (abs(y) == INF) { if (a == 1.0) return 1.0; return (a > 1.0) == (y > 0.0) ? INF : 0.0; }
    float sign = (x < 0.0 || (x == 0.0 && floatBitsToUint(x) != 0u)) && odd ? -1.0 : 1.0;
    if (a == 0.0) return y > 0.0 ? sign * 0.0 : sign * INF;
    if (a == INF) return y > 0.0 ? sign * INF : sign * 0.0;
    if (x < 0.0 && !whole) return NAN;
    if (whole && abs(y) <= 64.0) {
        float r = 1.0, b = a;
        for (int n = int(abs(y)); n > 0; n >>= 1) { if ((n & 1) != 0) r *= b; b *= b; }
        return sign * (y < 0.0 ? 1.0 / r : r);
    }
    // log2 in two parts: exponent and mantissa, so that y times it keeps its bits.
    uint bits = floatBitsToUint(a);
    float extra = 0.0;
    if (a < 1.17549435e-38) { bits = floatBitsToUint(a * 8388608.0); extra = -23.0; }
    int k = int(bits - 0x3f3504f3u) >> 23;
    float m = uintBitsToFloat(bits - uint(k << 23));
    float n = (float(k) + extra) * y, whole_n = roundEven(n);
    float r = (n - whole_n) * 0.693147180559945 + y * log_(m);
    float t = roundEven(r * 1.44269504088896);
    float power = clamp(whole_n + t, -300.0, 300.0);
    float e = exp_(r - t * 0.693147180559945);
    int q = int(power), h = q / 3;
    float s = uintBitsToFloat(uint(h + 127) << 23);
    return sign * (e * s * s * uintBitsToFloat(uint(q - 2 * h + 127) << 23));
}

// The unary ops abs .. clip of ops.def, numbered from abs; a and b are their alpha and beta.
float f_abs(float x, float a, float b) { return abs(x); }
float f_neg(float x, float a, float b) { return uintBitsToFloat(floatBitsToUint(x) ^ 0x80000000u); }
float f_sign(float x, float a, float b) { return x != x ? x : float(int(x > 0.0) - int(x < 0.0)); }
float f_floor(float x, float a, float b) { return floor(x); }
float f_ceil(float x, float a, float b) { return ceil(x); }
float f_round(float x, float a, float b) { return roundEven(x); }
float f_sqrt(float x, float a, float b) { return x < 0.0 ? NAN : x == INF ? INF : sqrt(x); }
float f_rsqrt(float x, float a, float b) { return x < 0.0 ? NAN : x == INF ? 0.0 : 1.0 / sqrt(x); }
float f_reciprocal(float x, float a, float b) { return 1.0 / x; }
float f_square(float x, float a, float b) { return x * x; }
float f_exp(float x, float a, float b) { return exp_(x); }
float f_log(float x, float a, float b) { return log_(x); }
float f_sin(float x, float a, float b) { return sincos_(x).x; }
float f_cos(float x, float a, float b) { return sincos_(x).y; }
float f_tan(float x, float a, float b) { vec2 t = sincos_(x); return t.x / t.y; }
float f_asin(float x, float a, float b) { return asin_(x); }
float f_acos(float x, float a, float b) { return acos_(x); }
float f_atan(float x, float a, float b) { return atan_(x); }
float f_sinh(float x, float a, float b) { return sinh_(x); }
float f_cosh(float x, float a, float b) { return cosh_(x); }
float f_tanh(float x, float a, float b) { return tanh_(x); }
float f_asinh(float x, float a, float b) {
    float m = abs(x), y = m > 1e9 ? log_(m) + 0.693147180559945 : log1p_(m + m * m / (1.0 + sqrt(m * m + 1.0)));
    return x < 0.0 ? -y : y;
}
float f_acosh(float x, float a, float b) {
    if (x < 1.0) return NAN;
    float t = x - 1.0;
    return x > 1e9 ? log_(x) + 0.693147180559945 : log1p_(t + sqrt(2.0 * t + t * t));
}
float f_atanh(float x, float a, float b) {
    float m = abs(x), y = 0.5 * log1p_(2.0 * m / (1.0 - m));
    if (m > 1.0) return NAN;
    if (m == 1.0) y = INF;
    return x < 0.0 ? -y : y;
}
float f_erf(float x, float a, float b) { return erf_(x); }
float f_sigmoid(float x, float a, float b) { return sigmoid_(x); }
float f_relu(float x, float a, float b) { return x < 0.0 ? 0.0 : x; }
float f_leaky_relu(float x, float a, float b) { return x < 0.0 ? a * x : x; }
float f_elu(float x, float a, float b) { return x > 0.0 ? x : a * expm1_(x); }
float f_celu(float x, float a, float b) {
    float low = a * expm1_(x / a);
    return (x > 0.0 ? x : 0.0) + (low > 0.0 ? 0.0 : low);
}
float f_selu(float x, float a, float b) { return b * (x > 0.0 ? x : a * expm1_(x)); }
float f_gelu(float x, float a, float b) { return 0.5 * x * erfc_(-x * 0.707106781186548); }
float f_gelu_tanh(float x, float a, float b) {
    return x * sigmoid_(2.0 * 0.797884560802865 * (x + 0.044715 * x * x * x));
}
float f_silu(float x, float a, float b) { return x * sigmoid_(x); }
float f_mish(float x, float a, float b) { return x * tanh_(softplus_(x)); }
float f_clip(float x, float a, float b) { float t = x < a ? a : x; return t > b ? b : t; }
float f_hard_sigmoid(float x, float a, float b) { return f_clip(a * x + b, 0.0, 1.0); }
float f_hard_swish(float x, float a, float b) { return x * f_clip(x / 6.0 + 0.5, 0.0, 1.0); }
float f_softplus(float x, float a, float b) { return softplus_(x); }
float f_softsign(float x, float a, float b) { return x / (1.0 + abs(x)); }
float f_thresholded_relu(float x, float a, float b) { return x > a || x != x ? x : 0.0; }
float f_shrink(float x, float a, float b) { return x < -a ? x + b : x > a ? x - b : x != x ? x : 0.0; }

const uint NO_ACTIVATION = 99u;
float activate(uint op, float x, float a, float b) {
    switch (op) {
    case 0u: return f_abs(x, a, b);
    case 1u: return f_neg(x, a, b);
    case 2u: return f_sign(x, a, b);
    case 3u: return f_floor(x, a, b);
    case 4u: return f_ceil(x, a, b);
    case 5u: return f_round(x, a, b);
    case 6u: return f_sqrt(x, a, b);
    case 7u: return f_rsqrt(x, a, b);
    case 8u: return f_reciprocal(x, a, b);
    case 9u: return f_square(x, a, b);
    case 10u: return f_exp(x, a, b);
    case 11u: return f_log(x, a, b);
    case 12u: return f_sin(x, a, b);
    case 13u: return f_cos(x, a, b);
    case 14u: return f_tan(x, a, b);
    case 15u: return f_asin(x, a, b);
    case 16u: return f_acos(x, a, b);
    case 17u: return f_atan(x, a, b);
    case 18u: return f_sinh(x, a, b);
    case 19u: return f_cosh(x, a, b);
    case 20u: return f_tanh(x, a, b);
    case 21u: return f_asinh(x, a, b);
    case 22u: return f_acosh(x, a, b);
    case 23u: return f_atanh(x, a, b);
    case 24u: return f_erf(x, a, b);
    case 25u: return f_sigmoid(x, a, b);
    case 26u: return f_relu(x, a, b);
    case 27u: return f_leaky_relu(x, a, b);
    case 28u: return f_elu(x, a, b);
    case 29u: return f_celu(x, a, b);
    case 30u: return f_selu(x, a, b);
    case 31u: return f_gelu(x, a, b);
    case 32u: return f_gelu_tanh(x, a, b);
    case 33u: return f_silu(x, a, b);
    case 34u: return f_mish(x, a, b);
    case 35u: return f_hard_sigmoid(x, a, b);
    case 36u: return f_hard_swish(x, a, b);
    case 37u: return f_softplus(x, a, b);
    case 38u: return f_softsign(x, a, b);
    case 39u: return f_thresholded_relu(x, a, b);
    case 40u: return f_shrink(x, a, b);
    case 41u: return f_clip(x, a, b);
    }
    return x;
}
