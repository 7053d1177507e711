/* SPDX-License-Identifier: Apache-2.0 */
/* Windows, DFT, STFT and the mel matrix. A transform is a product with constant matrices, in f64:
 * the sums of f32 would not keep the digits that cancel. */
#include "import/onnx/ops.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N) */
static void give_window(ox *o, double a0, double a1, double a2) {
    int64_t size = ox_need_int(o, ox_in(o, 0));
    double count = ox_int(o, "periodic", 1) != 0 ? (double)size : (double)size - 1;
    rlx_dtype dtype = RLX_DTYPE_F32;
    if (!rlx_onnx_dtype(ox_int(o, "output_datatype", 1), &dtype)) ox_unsupported(o, "its type");
    if (ox_ok(o) && (size < 0 || size > OX_MOST_NUMBERS)) ox_invalid(o, "size %" PRId64, size);
    if (!ox_ok(o)) return;
    double *items = ox_memory(o, (uint64_t)size, sizeof *items);
    for (int64_t n = 0; n < size && ox_ok(o); n++) {
        double angle = count == 0 ? 0 : 2 * pi * (double)n / count;
        items[n] = a0 - a1 * cos(angle) + a2 * cos(2 * angle);
    }
    if (ox_ok(o)) ox_give(o, 0, ox_doubles(o, dtype, items, &size, 1));
}

void rlx_ox_hann(ox *o) {
    give_window(o, 0.5, 0.5, 0);
}

void rlx_ox_hamming(ox *o) {
    give_window(o, 25.0 / 46, 21.0 / 46, 0);
}

void rlx_ox_blackman(ox *o) {
    give_window(o, 0.42, 0.5, 0.08);
}

/* [in][out] of cosines or sines. */
static rlx_value_id table(ox *o, int64_t in, int64_t out, int64_t length, bool is_sine) {
    const int64_t dims[] = {in, out};
    if (in > 65536 || out > 65536 || in * out > OX_MOST_NUMBERS || length <= 0) {
        ox_unsupported(o, "a transform of length %" PRId64, length);
        return RLX_NONE;
    }
    double *items = ox_memory(o, (uint64_t)(in * out), sizeof *items);
    for (int64_t i = 0; i < in && ox_ok(o); i++) {
        for (int64_t k = 0; k < out; k++) {
            double angle = 2 * pi * (double)(i * k % length) / (double)length;
            items[i * out + k] = is_sine ? sin(angle) : cos(angle);
        }
    }
    return ox_ok(o) ? ox_doubles(o, RLX_DTYPE_F64, items, dims, 2) : RLX_NONE;
}

/* x: f64, real and imaginary (or RLX_NONE) part with time last. Gives [..][bins][2]. */
static rlx_value_id transform(ox *o, rlx_value_id real, rlx_value_id imaginary, int64_t length,
                              int64_t bins, bool is_inverse) {
    int64_t in = ox_dim(o, real, ox_rank(o, real) - 1);
    rlx_value_id c = table(o, in, bins, length, false), s = table(o, in, bins, length, true);
    if (is_inverse) s = ox_unary(o, RLX_OP_NEG, s); /* from here on: exp(-i) is (c, -s) */
    rlx_value_id re = ox_matmul(o, real, c), im = ox_matmul(o, real, ox_unary(o, RLX_OP_NEG, s));
    if (imaginary != RLX_NONE) {
        re = ox_binary(o, RLX_OP_ADD, re, ox_matmul(o, imaginary, s));
        im = ox_binary(o, RLX_OP_ADD, im, ox_matmul(o, imaginary, c));
    }
    if (is_inverse) {
        rlx_value_id scale = ox_scalar(o, RLX_DTYPE_F64, 1 / (double)length);
        re = ox_binary(o, RLX_OP_MUL, re, scale);
        im = ox_binary(o, RLX_OP_MUL, im, scale);
    }
    const rlx_value_id parts[] = {ox_unsqueeze(o, re, -1), ox_unsqueeze(o, im, -1)};
    return ox_concat(o, parts, 2, -1);
}

/* One part of a signal whose last axis is (real, imaginary?), as f64 with `axis` last. */
static rlx_value_id part_of(ox *o, rlx_value_id x, int64_t part, uint32_t axis, int64_t length) {
    int64_t perm[RLX_MAX_RANK];
    uint32_t rank = ox_rank(o, x) - 1, used = 0;
    x = ox_squeeze(o, ox_slice(o, x, -1, part, part + 1, 1), -1);
    x = ox_cast(o, ox_slice(o, x, axis, 0, length, 1), RLX_DTYPE_F64);
    for (uint32_t i = 0; i < rank; i++) {
        if (i != axis) perm[used++] = i;
    }
    perm[used] = axis;
    return ox_transpose(o, x, perm, rank);
}

void rlx_ox_dft(ox *o) {
    rlx_value_id x = ox_in(o, 0);
    uint32_t rank = ox_rank(o, x);
    bool is_inverse = ox_int(o, "inverse", 0) != 0, is_onesided = ox_int(o, "onesided", 0) != 0;
    int64_t axis_number = ox_int(o, "axis", 1), perm[RLX_MAX_RANK];
    if (o->since >= 20) axis_number = ox_has(o, 2) ? ox_need_int(o, ox_in(o, 2)) : -2;
    uint32_t axis = ox_axis(o, axis_number, rank), used = 0;
    if (ox_ok(o) && (rank < 2 || axis + 1 == rank)) ox_invalid(o, "axis %u of %u", axis, rank);
    if (!ox_ok(o)) return;
    int64_t length = ox_has(o, 1) ? ox_need_int(o, ox_in(o, 1)) : ox_dim(o, x, axis);
    int64_t parts = ox_dim(o, x, rank - 1), bins = is_onesided ? length / 2 + 1 : length;
    if (ox_ok(o) && is_onesided && is_inverse) ox_unsupported(o, "onesided and inverse");
    if (!ox_ok(o)) return;
    rlx_value_id real = part_of(o, x, 0, axis, length);
    rlx_value_id imaginary = parts == 2 ? part_of(o, x, 1, axis, length) : RLX_NONE;
    rlx_value_id y = transform(o, real, imaginary, length, bins, is_inverse);
    for (uint32_t i = 0; i < rank; i++) /* the axis goes back to its place */
        perm[i] = i == axis ? (int64_t)rank - 2 : i + 1 == rank ? (int64_t)rank - 1 : used++;
    ox_give(o, 0, ox_cast(o, ox_transpose(o, y, perm, rank), ox_dtype(o, x)));
}

/* Frames by a gather of constant places: [batch][frames][length]. */
static rlx_value_id frames_of(ox *o, rlx_value_id x, int64_t frames, int64_t length, int64_t step) {
    const int64_t dims[] = {frames, length};
    if (length >= OX_MOST_NUMBERS || frames > OX_MOST_NUMBERS / (length + 1))
        ox_unsupported(o, "%" PRId64 " frames", frames);
    if (!ox_ok(o)) return RLX_NONE;
    double *places = ox_memory(o, (uint64_t)(frames * length), sizeof *places);
    for (int64_t i = 0; i < frames * length && ox_ok(o); i++)
        places[i] = (double)(i / length * step + i % length);
    if (!ox_ok(o)) return RLX_NONE;
    return ox_gather(o, x, ox_doubles(o, RLX_DTYPE_I64, places, dims, 2), 1);
}

void rlx_ox_stft(ox *o) {
    rlx_value_id x = ox_in(o, 0), window = ox_maybe(o, 2);
    int64_t step = ox_need_int(o, ox_in(o, 1)), length = 0;
    uint32_t rank = ox_rank(o, x);
    if (ox_has(o, 3)) {
        length = ox_need_int(o, ox_in(o, 3));
    } else if (window != RLX_NONE) {
        length = ox_dim(o, window, 0);
    }
    if (ox_ok(o) && (rank < 2 || length <= 0 || step <= 0 || length > ox_dim(o, x, 1)))
        ox_invalid(o, "frames of %" PRId64 " every %" PRId64, length, step);
    if (!ox_ok(o)) return;
    int64_t frames = (ox_dim(o, x, 1) - length) / step + 1;
    bool is_complex = rank == 3 && ox_dim(o, x, 2) == 2;
    int64_t bins = ox_int(o, "onesided", 1) != 0 ? length / 2 + 1 : length;
    if (rank == 2) x = ox_unsqueeze(o, x, 2);
    rlx_value_id part[2] = {RLX_NONE, RLX_NONE};
    for (uint32_t i = 0; i < (is_complex ? 2u : 1u) && ox_ok(o); i++) {
        rlx_value_id one = ox_squeeze(o, ox_slice(o, x, -1, i, i + 1, 1), -1);
        part[i] = frames_of(o, ox_cast(o, one, RLX_DTYPE_F64), frames, length, step);
        if (window != RLX_NONE)
            part[i] = ox_binary(o, RLX_OP_MUL, part[i], ox_cast(o, window, RLX_DTYPE_F64));
    }
    rlx_value_id y = transform(o, part[0], part[1], length, bins, false);
    ox_give(o, 0, ox_cast(o, y, ox_dtype(o, x)));
}

/* 2595 log10(1 + f / 700) */
static rlx_value_id mel_of(ox *o, rlx_value_id hertz) {
    rlx_dtype dtype = ox_dtype(o, hertz);
    rlx_value_id x = ox_binary(o, RLX_OP_DIV, hertz, ox_scalar(o, dtype, 700));
    x = ox_unary(o, RLX_OP_LOG, ox_binary(o, RLX_OP_ADD, x, ox_scalar(o, dtype, 1)));
    return ox_binary(o, RLX_OP_MUL, x, ox_scalar(o, dtype, 2595 / log(10)));
}

/* The spectrogram bins of the mel edges, [bins + 2]. */
static rlx_value_id mel_edges(ox *o, int64_t bins, int64_t length) {
    const rlx_dtype f64 = RLX_DTYPE_F64;
    rlx_value_id in[3];
    for (uint32_t i = 0; i < 3; i++)
        in[i] = ox_reshape(o, ox_cast(o, ox_in(o, 2 + i), f64), NULL, 0);
    rlx_value_id low = mel_of(o, in[1]), high = mel_of(o, in[2]);
    rlx_value_id step = ox_binary(o, RLX_OP_DIV, ox_binary(o, RLX_OP_SUB, high, low),
                                  ox_scalar(o, f64, (double)(bins + 2)));
    rlx_value_id mel = ox_binary(o, RLX_OP_MUL, ox_range(o, f64, bins + 2), step);
    mel = ox_binary(o, RLX_OP_ADD, mel, low);
    mel = ox_binary(o, RLX_OP_MUL, mel, ox_scalar(o, f64, log(10) / 2595));
    rlx_value_id hertz =
        ox_binary(o, RLX_OP_SUB, ox_unary(o, RLX_OP_EXP, mel), ox_scalar(o, f64, 1));
    hertz = ox_binary(o, RLX_OP_MUL, hertz, ox_scalar(o, f64, 700.0 * (double)(length + 1)));
    return ox_unary(o, RLX_OP_FLOOR, ox_binary(o, RLX_OP_DIV, hertz, in[0]));
}

/* Triangles between neighbouring edges; only bins and length decide the shape. */
void rlx_ox_mel_weights(ox *o) {
    const rlx_dtype f64 = RLX_DTYPE_F64;
    int64_t bins = ox_need_int(o, ox_in(o, 0)), length = ox_need_int(o, ox_in(o, 1));
    rlx_dtype dtype = RLX_DTYPE_F32;
    if (!rlx_onnx_dtype(ox_int(o, "output_datatype", 1), &dtype)) ox_unsupported(o, "its type");
    if (ox_ok(o) && (bins < 0 || length < 0 || bins > OX_MOST_NUMBERS || length > OX_MOST_NUMBERS))
        ox_invalid(o, "%" PRId64 " bins", bins);
    if (!ox_ok(o)) return;
    const int64_t down[] = {length / 2 + 1, 1};
    rlx_value_id edges = mel_edges(o, bins, length), zero = ox_scalar(o, f64, 0);
    rlx_value_id lower = ox_slice(o, edges, 0, 0, bins, 1);
    rlx_value_id centre = ox_slice(o, edges, 0, 1, bins + 1, 1);
    rlx_value_id upper = ox_slice(o, edges, 0, 2, bins + 2, 1);
    rlx_value_id j = ox_reshape(o, ox_range(o, f64, length / 2 + 1), down, 2);
    rlx_value_id rise = ox_binary(o, RLX_OP_SUB, centre, lower);
    rlx_value_id fall = ox_binary(o, RLX_OP_SUB, upper, centre);
    rlx_value_id from_lower = ox_binary(o, RLX_OP_SUB, j, lower);
    rlx_value_id to_upper = ox_binary(o, RLX_OP_SUB, upper, j);
    rlx_value_id is_flat = ox_binary(o, RLX_OP_EQUAL, rise, zero);
    rlx_value_id at_centre = ox_cast(o, ox_binary(o, RLX_OP_EQUAL, j, centre), f64);
    rlx_value_id rises = ox_binary(o, RLX_OP_AND, ox_binary(o, RLX_OP_GREATER_EQUAL, j, lower),
                                   ox_binary(o, RLX_OP_LESS_EQUAL, j, centre));
    rlx_value_id falls = ox_binary(o, RLX_OP_AND, ox_binary(o, RLX_OP_GREATER_EQUAL, j, centre),
                                   ox_binary(o, RLX_OP_LESS, j, upper));
    rlx_value_id y = ox_where(o, rises, ox_binary(o, RLX_OP_DIV, from_lower, rise), zero);
    y = ox_where(o, is_flat, at_centre, y);
    y = ox_where(o, falls, ox_binary(o, RLX_OP_DIV, to_upper, fall), y);
    ox_give(o, 0, ox_cast(o, y, dtype));
}
