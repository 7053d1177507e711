// SPDX-License-Identifier: Apache-2.0
// Functions of f64, which Vulkan has none of: by series on a short interval. NaN and infinity behave as in C. Devices
// without shaderFloat64 never see a module that has them (chain.c leaves them out).
#define DINF packDouble2x32(uvec2(0u, 0x7ff00000u))
#define DNAN packDouble2x32(uvec2(0u, 0x7ff80000u))
const double LN2_HIGH = 0.693147180369123816490lf, LN2_LOW = 1.90821492927058770002e-10lf, LN2 = 0.693147180559945309417lf;

// Half to even; Mesa's own rounds 1.5 to 1.
double round_(double x) {
    double low = floor(x), rest = x - low;
    if (rest > 0.5lf || (rest == 0.5lf && floor(low * 0.5lf) * 2.0lf != low)) low += 1.0lf;
    uvec2 bits = unpackDouble2x32(low);
    return packDouble2x32(uvec2(bits.x, (bits.y & 0x7fffffffu) | (unpackDouble2x32(x).y & 0x80000000u)));
}
double power_of_two(int k) { return packDouble2x32(uvec2(0u, uint(k + 1023) << 20)); }
// The sum of r^i / i! from i = 1 on, for |r| < 0.36.
double small_exp(double r) {
    double sum = 1.0lf;
    for (int i = 15; i > 1; i--) sum = 1.0lf + sum * r / double(i);
    return sum * r;
}
double exp_(double x) {
    if (x != x) return x;
    if (x > 709.8lf) return DINF;
    if (x < -746.0lf) return 0.0lf;
    double n = floor(x * 1.44269504088896340736lf + 0.5lf);
    double e = 1.0lf + small_exp((x - n * LN2_HIGH) - n * LN2_LOW);
    int k = int(n), a = k / 2;
    return e * power_of_two(a) * power_of_two(k - a);
}
double expm1_(double x) { return abs(x) > 0.35lf ? exp_(x) - 1.0lf : small_exp(x); }
double log_(double x) {
    if (x != x || x < 0.0lf) return DNAN;
    if (x == 0.0lf) return -DINF;
    if (x == DINF) return x;
    int k = 0;
    if (x < 2.2250738585072014e-308lf) {
        x *= 18014398509481984.0lf; // 2^54
        k = -54;
    }
    uvec2 bits = unpackDouble2x32(x);
    k += int(bits.y >> 20) - 1023;
    double m = packDouble2x32(uvec2(bits.x, (bits.y & 0xfffffu) | 0x3ff00000u));
    if (m > 1.41421356237309505lf) {
        m *= 0.5lf;
        k++;
    }
    // 2 atanh(s)
    double s = (m - 1.0lf) / (m + 1.0lf), z = s * s, sum = 0.0lf;
    for (int i = 27; i > 1; i -= 2) sum = z * (sum + 1.0lf / double(i));
    return double(k) * LN2_HIGH + (2.0lf * s * (1.0lf + sum) + double(k) * LN2_LOW);
}
double log1p_(double x) {
    double u = 1.0lf + x;
    if (u == 1.0lf) return x;
    return u == DINF ? u : log_(u) * (x / (u - 1.0lf));
}
double tanh_(double x) {
    double a = abs(x);
    if (x != x) return x;
    if (a > 22.0lf) return x < 0.0lf ? -1.0lf : 1.0lf;
    double e = expm1_(2.0lf * a), y = e / (e + 2.0lf);
    return x < 0.0lf ? -y : y;
}
double sinh_(double x) {
    double a = abs(x), e = expm1_(a), half_e = exp_(0.5lf * a), y = a < 22.0lf ? 0.5lf * (e + e / (e + 1.0lf)) : (0.5lf * half_e) * half_e;
    if (x != x) return x;
    return x < 0.0lf ? -y : y;
}
double cosh_(double x) {
    double e = exp_(0.5lf * abs(x)), y = 0.5lf * e * e;
    return abs(x) < 22.0lf ? y + 0.5lf / (e * e) : y;
}
double sigmoid_(double x) {
    double e = exp_(-abs(x));
    return (x < 0.0lf ? e : 1.0lf) / (1.0lf + e);
}
double softplus_(double x) { return (x > 0.0lf ? x : 0.0lf) + log1p_(exp_(-abs(x))); }
double asinh_(double x) {
    double m = abs(x), y = m > 1e150lf ? log_(m) + LN2 : log1p_(m + m * m / (1.0lf + sqrt(m * m + 1.0lf)));
    return x < 0.0lf ? -y : y;
}
double acosh_(double x) {
    if (x < 1.0lf) return DNAN;
    double t = x - 1.0lf;
    return x > 1e150lf ? log_(x) + LN2 : log1p_(t + sqrt(2.0lf * t + t * t));
}
double atanh_(double x) {
    double m = abs(x), y = m == 1.0lf ? DINF : 0.5lf * log1p_(2.0lf * m / (1.0lf - m));
    if (m > 1.0lf) return DNAN;
    return x < 0.0lf ? -y : y;
}
double pow_(double x, double y) {
    if (y == 0.0lf || x == 1.0lf) return 1.0lf;
    if (x != x || y != y) return DNAN;
    double a = abs(x), half_y = 0.5lf * y, sign = 1.0lf;
    bool whole = floor(y) == y;
    if (abs(y) == DINF) return a == 1.0lf ? 1.0lf : (a > 1.0lf) == (y > 0.0lf) ? DINF : 0.0lf;
    if (whole && floor(half_y) != half_y && int(unpackDouble2x32(x).y) < 0) sign = -1.0lf;
    if (a == 0.0lf || a == DINF) return (a == 0.0lf) == (y > 0.0lf) ? sign * 0.0lf : sign * DINF;
    if (x < 0.0lf && !whole) return DNAN;
    double size = abs(y), part = size - floor(size);
    if (size <= 1024.0lf && floor(4.0lf * part) == 4.0lf * part) { // by products and roots: exact where the result is
        double b = a, root = sqrt(a), r = part >= 0.5lf ? root : 1.0lf;
        if (part == 0.25lf || part == 0.75lf) r *= sqrt(root);
        for (int n = int(abs(y)); n > 0; n >>= 1) {
            if ((n & 1) != 0) r *= b;
            b *= b;
        }
        return sign * (y < 0.0lf ? 1.0lf / r : r);
    }
    return sign * exp_(y * log_(a));
}
double remainder_(double x, double y) {
    double m = abs(y), r = abs(x);
    if (x != x || y != y || r == DINF || m == 0.0lf) return DNAN;
    if (m == DINF) return x;
    for (int i = 0; i < 2200 && r >= m; i++) {
        uint steps = (unpackDouble2x32(r).y >> 20) - (unpackDouble2x32(m).y >> 20);
        double t = steps > 0u ? m * power_of_two(int(min(steps, 1000u))) : m;
        if (t > r) t *= 0.5lf;
        r -= t;
    }
    return int(unpackDouble2x32(x).y) < 0 ? -r : r;
}
double floor_mod(double x, double y) {
    double r = remainder_(x, y);
    if (r == 0.0lf) return packDouble2x32(uvec2(0u, unpackDouble2x32(y).y & 0x80000000u));
    return (r < 0.0lf) != (y < 0.0lf) ? r + y : r;
}
// To f32 so that rounding once more is as good as rounding once: what is lost makes the last bit odd.
uint float_odd(double x) {
    float near = float(x);
    uint bits = floatBitsToUint(near);
    if (x != x || double(near) == x) return bits;
    if (abs(double(near)) > abs(x)) bits--;
    return bits | 1u;
}
double from_whole(uvec2 a, bool signed_) {
    bool negative = signed_ && int(a.y) < 0;
    if (negative) a = neg64(a);
    double value = double(a.y) * 4294967296.0lf + double(a.x);
    return negative ? -value : value;
}
// Towards zero, saturating to `bits`; NaN is 0.
uvec2 to_whole(double x, int bits, bool signed_) {
    double size = floor(abs(x)), limit = power_of_two(signed_ ? bits - 1 : bits);
    bool negative = x < 0.0lf;
    if (x != x || (negative && !signed_)) return uvec2(0u);
    uvec2 most = bits == 64 ? uvec2(0xffffffffu) : uvec2(0xffffffffu >> (bits < 32 ? 32 - bits : 0), 0u);
    if (signed_) most = shr64(most, 1u, false);
    if (size >= limit) return negative ? uvec2(~most.x, ~most.y) : most;
    double high = floor(size * 2.3283064365386962890625e-10lf);
    uvec2 whole = uvec2(uint(size - high * 4294967296.0lf), uint(high));
    return negative ? neg64(whole) : whole;
}
