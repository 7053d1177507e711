// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// Regions of a feature map cut to one size: a lane per result, the mean or the largest of points between pixels.
// p: step; regions, channels, rows, columns of y; batches, rows, columns of x; x: base, 4 strides; regions: base, 2
// strides; batch numbers: base, stride; y: base, 4 strides; samples per bin and axis (0: as many as it has pixels);
// scale. K0: pixel centers are at 0.5; K1: the largest.
#include "common.glsl"
#include "math.glsl"
IN(1) IN(2) IN(3)
OUT(10)
FAULTS
const float MOST_POINTS = 4096.0;
float corner(int region, int i) {
    precise float at = float_2(p[13] + region * p[14] + i * p[15]) * pf(24) - (K0 != 0u ? 0.5 : 0.0);
    return at;
}
int count_points(float pixels) {
    float count = ceil(pixels);
    if (p[23] > 0) return p[23];
    if (count <= MOST_POINTS) return max(int(count), 0);
    raise(FAULT_BOUND, from_float64(count, 64u, true));
    return 0;
}
// Two places and how much the second counts; false: outside.
bool side(float at, int length, out ivec2 places, out float part) {
    places = ivec2(0);
    part = 0.0;
    if (!(at >= -1.0 && at <= float(length))) return false;
    if (at < 0.0) at = 0.0;
    int low = int(at);
    places = ivec2(low, low + 1);
    part = at - float(low);
    if (low >= length - 1) {
        places = ivec2(length - 1);
        part = 0.0;
    }
    return true;
}
vec4 parts(int base, float row, float column) {
    ivec2 y, x;
    float v, u;
    bool inside = side(row, p[6], y, v);
    inside = side(column, p[7], x, u) && inside;
    if (!inside) return vec4(0.0);
    return vec4((1.0 - v) * (1.0 - u) * float_1(base + y.x * p[11] + x.x * p[12]), (1.0 - v) * u * float_1(base + y.x * p[11] + x.y * p[12]),
                v * (1.0 - u) * float_1(base + y.y * p[11] + x.x * p[12]), v * u * float_1(base + y.y * p[11] + x.y * p[12]));
}
float pool(int base, float top, float left, float height, float width) {
    int rows = count_points(height), columns = count_points(width), count = rows * columns;
    float sum = 0.0, best = -INF;
    for (int i = 0; i < count; i++) {
        float row = (float(i / columns) + 0.5) / float(rows), column = (float(i % columns) + 0.5) / float(columns);
        vec4 four = parts(base, top + row * height, left + column * width);
        sum += four.x + four.y + four.z + four.w;
        best = max(best, max(max(four.x, four.y), max(four.z, four.w)));
    }
    if (count <= 0) return 0.0;
    return K1 != 0u ? best : sum / float(count);
}
void main() {
    int i = item();
    if (i >= p[1] * p[2] * p[3] * p[4]) return;
    int column = i % p[4], row = i / p[4] % p[3], channel = i / (p[4] * p[3]) % p[2], region = i / (p[4] * p[3] * p[2]);
    float x0 = corner(region, 0), y0 = corner(region, 1), width = corner(region, 2) - x0, height = corner(region, 3) - y0;
    if (K0 == 0u) {
        width = width < 1.0 ? 1.0 : width;
        height = height < 1.0 ? 1.0 : height;
    }
    width /= float(p[4]);
    height /= float(p[3]);
    uvec2 batch = value_3(p[16] + region * p[17]);
    bool inside = batch.y == 0u && batch.x < uint(p[5]);
    if (!inside) raise(FAULT_INDEX, batch);
    float value = 0.0;
    if (inside && p[6] > 0 && p[7] > 0) {
        value = pool(p[8] + int(batch.x) * p[9] + channel * p[10], y0 + float(row) * height, x0 + float(column) * width, height, width);
    }
    put_float_10(p[18] + region * p[19] + channel * p[20] + row * p[21] + column * p[22], value);
}
