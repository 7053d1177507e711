#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the backend tests of ONNX 1.12 do not have: ops and forms of opsets 18 to 21, and some of before. Each graph is
written twice, with the op and with ops or numbers that say what it means; both must give the same.

usage: newer_test.py RLX [NAME..]
       newer_test.py RLX --ort RUNNER LIBRARY [NAME..]   (also against ONNX Runtime; RUNNER is rlx_onnx_runner)
"""
import math
import sys

import contrib_test
from contrib_test import as_f32, case
from graphs import field

contrib_test.CASES.clear()


@case(atol=0, opset=18)
def center_crop_pad(g, is_plain):
    x = g.given("x", "f32", [2, 6, 9, 7])
    if not is_plain:
        return [g.CenterCropPad(x, g.ints(5, 12), axes=[2, -1]), g.CenterCropPad(x, g.ints(2, 3, 14, 7))]
    return [g.Pad(g.Slice(x, g.ints(2), g.ints(7), g.ints(2)), g.ints(0, 0, 0, 2, 0, 0, 0, 3)),
            g.Pad(g.Slice(x, g.ints(1), g.ints(4), g.ints(1)), g.ints(0, 0, 2, 0, 0, 0, 3, 0))]


def col2im(name, image, block, **attrs):
    """A transposed convolution that puts each element of a block at its place."""
    def make(g, is_plain):
        spatial, count = len(image), math.prod(block)
        pads, strides, far = (attrs.get(k, [d] * n) for k, d, n in
                              (("pads", 0, 2 * spatial), ("strides", 1, spatial), ("dilations", 1, spatial)))
        steps = [(image[i] + pads[i] + pads[i + spatial] - far[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(spatial)]
        x = g.given("x", "f32", [2, 3 * count, math.prod(steps)])
        if not is_plain:
            return [g.Col2Im(x, g.ints(*image), g.ints(*block), **attrs)]
        eye = [1.0 if i // count == i % count else 0.0 for i in range(count * count)]
        wide = [(steps[i] - 1) * strides[i] + far[i] * (block[i] - 1) + 1 for i in range(spatial)]
        y = g.ConvTranspose(g.Reshape(x, g.ints(6, count, *steps)), g.const("f32", [count, 1] + block, eye),
                            strides=strides, dilations=far)
        cut = [0] * (4 + 2 * spatial)
        for i in range(spatial):
            cut[2 + i], cut[4 + spatial + i] = -pads[i], image[i] + pads[i] - wide[i]
        return [g.Reshape(g.Pad(y, g.ints(*cut)), g.ints(2, 3, *image))]
    contrib_test.CASES[name] = (make, {"atol": 1e-6, "opset": 18})


col2im("columns_apart", [6, 8], [2, 4], strides=[2, 4])
col2im("columns_over_each_other", [5, 7], [3, 2], pads=[1, 0, 1, 1], strides=[1, 2])
col2im("columns_with_dilations", [7, 9], [2, 3], dilations=[3, 2])
col2im("columns_of_volumes", [4, 3, 5], [2, 2, 2], pads=[1, 0, 0, 0, 1, 1])


@case(atol=1e-5, opset=20)
def affine_grid(g, is_plain):
    sizes, outputs = {4: [2, 3, 4, 5], 5: [2, 1, 3, 2, 4]}, []
    for rank, size in sizes.items():
        axes = rank - 2
        theta = g.given("theta%d" % rank, "f32", [2, axes, axes + 1])
        for align in (0, 1):
            if not is_plain:
                outputs.append(g.AffineGrid(theta, g.ints(*size), align_corners=align))
                continue
            points, count = [], math.prod(size[2:])
            for i in range(count):
                for length in reversed(size[2:]):
                    points.append(2 * (i % length) / (length - 1) - 1 if align else (2 * (i % length) + 1) / length - 1)
                    i //= length
                points.append(1.0)
            y = g.MatMul(g.const("f32", [count, axes + 1], points), g.Transpose(theta, perm=[0, 2, 1]))
            outputs.append(g.Reshape(y, g.ints(2, *size[2:], axes)))
    return outputs


@case(atol=1e-5, opset=19)
def deform_conv_that_does_not_move(g, is_plain):
    x, w, b = g.given("x", "f32", [2, 4, 7, 8]), g.weight(6, 2, 3, 2), g.weight(6)
    attrs = {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2], "group": 2}
    if is_plain:
        return [g.Conv(x, w, b, **attrs)]
    zeros = g.const("f32", [2, 24, 4, 7], [0.0] * 1344)
    return [g.DeformConv(x, w, zeros, b, offset_group=2, **attrs)]


def sampled(plane, height, width, y, x):
    """Between four pixels; nothing lies outside."""
    top, left, total = math.floor(y), math.floor(x), 0.0
    for row, down in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, across in ((left, 1 - (x - left)), (left + 1, x - left)):
            if 0 <= row < height and 0 <= column < width:
                total += plane[row * width + column] * down * across
    return total


@case(atol=1e-5, opset=19)
def deform_conv_with_a_mask(g, is_plain):
    x, moved, mask = (g.given(n, "f32", d, scale=s) for n, d, s in (
        ("x", [1, 4, 5, 6], 1.0), ("moved", [1, 16, 5, 6], 3.0), ("mask", [1, 8, 5, 6], 1.0)))
    w = g.numbers.floats(3 * 4 * 4)
    if not is_plain:
        return [g.DeformConv(x, g.const("f32", [3, 4, 2, 2], w), moved, "", mask, offset_group=2, pads=[1, 0, 0, 1])]
    pixels, moves, masks = (data[3] for data in g.data)
    out = []
    for output in range(3):
        for at in range(30):
            total = 0.0
            for channel in range(4):
                for tap in range(4):
                    part = channel // 2 * 4 + tap
                    y = at // 6 + tap // 2 - 1 + moves[2 * part * 30 + at]
                    column = at % 6 + tap % 2 + moves[(2 * part + 1) * 30 + at]
                    total += (w[(output * 4 + channel) * 4 + tap] * masks[part * 30 + at]
                              * sampled(pixels[channel * 30:channel * 30 + 30], 5, 6, y, column))
            out.append(total)
    return [g.Add(g.const("f32", [1, 3, 5, 6], out), g.Mul(g.ReduceSum(x, keepdims=0), g.scalar(0.0)))]


@case(atol=1e-5, opset=20)
def grid_sample_of_a_volume(g, is_plain):
    x, grid = g.given("x", "f32", [1, 2, 3, 4, 5]), g.given("grid", "f32", [1, 2, 3, 2, 3], scale=1.3)
    if not is_plain:
        return [g.GridSample(x, grid, align_corners=1)]
    pixels, points = (data[3] for data in g.data)
    out = []
    for channel in range(2):
        for at in range(12):
            z, y, column = ((points[3 * at + 2 - i] + 1) * (size - 1) / 2 for i, size in enumerate((3, 4, 5)))
            low = math.floor(z)
            out.append(sum(part * sampled(pixels[(channel * 3 + layer) * 20:][:20], 4, 5, y, column)
                           for layer, part in ((low, 1 - (z - low)), (low + 1, z - low)) if 0 <= layer < 3))
    return [g.Add(g.const("f32", [1, 2, 2, 3, 2], out), g.Mul(g.ReduceSum(x, keepdims=0), g.scalar(0.0)))]


def four_bits(g, kind, dims, values):
    """A tensor of INT4 (22) or UINT4 (21)."""
    name, raw = g.name() + "_c", bytes(values[i] & 15 | (values[i + 1] & 15) << 4 for i in range(0, len(values), 2))
    g.initializers.append(b"".join(field(1, dim) for dim in dims) + field(2, kind) + field(8, name) + field(9, raw))
    return name


def in_blocks(name, dims, axis, size, dtype="i8", has_zero=True):
    """A product with weights that have a scale per block."""
    def make(g, is_plain):
        few = [-(-d // size) if i == axis else d for i, d in enumerate(dims)]
        low = 0 if dtype[0] == "u" else -8
        q, zeros = ([low + int(8 + 7.9 * v) for v in g.numbers.floats(count)] for count in (math.prod(dims), math.prod(few)))
        zeros = zeros if has_zero else [0] * len(zeros)
        scales = [0.01 + 0.02 * abs(v) for v in g.numbers.floats(math.prod(few))]
        x = g.given("x", "f32", [3, dims[0]])
        if is_plain:
            pick = [(i // dims[1] // (size if axis == 0 else 1)) * few[1] + i % dims[1] // (size if axis == 1 else 1)
                    for i in range(len(q))]
            return [g.MatMul(x, g.const("f32", dims, [(v - zeros[k]) * scales[k] for v, k in zip(q, pick)]))]
        kind = {"i4": 22, "u4": 21}.get(dtype)
        make_tensor = (lambda d, v: four_bits(g, kind, d, v)) if kind else (lambda d, v: g.const(dtype, d, v))
        inputs = [make_tensor(dims, q), g.const("f32", few, scales)] + ([make_tensor(few, zeros)] if has_zero else [])
        return [g.MatMul(x, g.DequantizeLinear(*inputs, axis=axis - 2, block_size=size))]
    # ONNX Runtime makes MatMulNBits of them, which quantises x.
    contrib_test.CASES[name] = (make, {"atol": 1e-5, "opset": 21, "ort": False})


in_blocks("blocks_of_bytes", [64, 16], 0, 16)
in_blocks("blocks_of_columns", [12, 48], 1, 16, "u8")
in_blocks("blocks_of_four_bits", [64, 16], 0, 32, "i4", False)
in_blocks("blocks_of_four_bits_with_zero_points", [64, 10], 0, 16, "u4")
in_blocks("a_last_block_that_is_shorter", [40, 6], 0, 16)


@case(atol=1e-6, opset=21)
def quantise_in_blocks(g, is_plain):
    x = g.given("x", "f32", [6, 4], scale=3.0)
    scales, zeros = [0.02, 0.05, 0.03, 0.04, 0.02, 0.06, 0.05, 0.03], [3, -4, 0, 9, 1, 2, -7, 0]
    if not is_plain:
        s, z = g.const("f32", [2, 4], scales), g.const("i8", [2, 4], zeros)
        return [as_f32(g, g.QuantizeLinear(x, s, z, axis=0, block_size=3))]
    s, z = (g.const("f32", [6, 4], [float(v[i // 12 * 4 + i % 4]) for i in range(24)]) for v in (scales, zeros))
    return [g.Clip(g.Add(g.Round(g.Div(x, s)), z), g.scalar(-128.0), g.scalar(127.0))]


@case(atol=0, opset=10)
def resize_of_version_10_rounds_up_where_it_shrinks(g, is_plain):
    x = g.given("x", "f32", [1, 2, 9, 9])
    if not is_plain:
        return [g.Resize(x, g.const("f32", [4], [1, 1, 0.6, 2.0]))]
    rows, columns = g.ints(*(math.ceil(i / 0.6) for i in range(5))), g.ints(*(i // 2 for i in range(18)))
    return [g.Gather(g.Gather(x, rows, axis=2), columns, axis=3)]


@case(atol=1e-5)
def the_size_of_an_image_as_floats(g, is_plain):
    """Segment Anything's masks: the original size is an input of floats, and decides what is cut and resized."""
    x, size = g.given("x", "f32", [1, 2, 8, 8]), g.given("size", "f32", [2], [11.0, 15.0])
    linear = {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}
    y = g.Resize(x, "", "", g.ints(1, 2, 32, 32), **linear)
    if is_plain:
        y = g.Slice(y, g.ints(0, 0), g.ints(23, 32), g.ints(2, 3))
        return [g.Add(g.Resize(y, "", "", g.ints(1, 2, 11, 15), **linear), g.Mul(g.ReduceSum(size, keepdims=0), g.scalar(0.0)))]
    whole = g.Cast(size, to=7)
    scale = g.Div(g.scalar(32.0), g.Cast(g.ReduceMax(whole, keepdims=0), to=1))
    seen = g.Cast(g.Floor(g.Add(g.Mul(scale, size), g.scalar(0.5))), to=7)
    y = g.Slice(y, g.ints(0, 0), seen, g.ints(2, 3))
    return [g.Resize(y, "", "", g.Concat(g.ints(1, 2), whole, axis=0), **linear)]


@case(atol=0)
def a_range_from_a_position(g, is_plain):
    """The position stays an input; how many there are is a number."""
    x, place = g.given("x", "f32", [3, 4]), g.given("place", "i64", [], [5])
    table = g.weight(16, 4)
    if is_plain:
        rows = g.Slice(table, g.ints(5), g.ints(8), g.ints(0))
        return [g.Add(x, g.Add(rows, g.Cast(g.Mul(place, g.scalar(0, "i64")), to=1)))]
    steps = g.Range(place, g.Add(place, g.scalar(3, "i64")), g.scalar(1, "i64"))
    return [g.Add(x, g.Gather(table, steps))]


if __name__ == "__main__":
    sys.exit(contrib_test.main())
