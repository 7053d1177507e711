#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes cases of ops whose results are as many as are found (nms, nonzero, unique) and of roi_align:
CASES/detect/<case>/{model.rlx,in_N.npy,out_N.npy}.

Expected values come from plain loops by the definitions in ops.def; nothing is shared with the library. More elements
than a group of a GPU has lanes, and what is special about NaN, zero and equals. Seeded: the same files everywhere.
usage: gen_detect.py [CASES]   (default: cases beside this file)
"""
import math
import os
import random
import sys

import gen_nn
from gen_nn import Array, Cases, places

RANDOM = random.Random(11)
gen_nn.NPY["bool"] = ("|b1", "?")


def filled(dtype, *shape, low=0.0, high=1.0):
    return Array(dtype, shape, [RANDOM.uniform(low, high) for _ in range(math.prod(shape))])


def overlap(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if not (width > 0 and height > 0):
        return 0.0
    both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return width * height / (both - width * height)


def nms(boxes, scores, most, threshold, least):
    rows = []
    for batch, class_ in places(scores.shape[:2]):
        corners = [[boxes[batch, i, k] for k in range(4)] for i in range(boxes.shape[1])]
        corners = [(min(b, d), min(a, c), max(b, d), max(a, c)) for a, b, c, d in corners]
        candidates = [(-scores[batch, class_, i], i) for i in range(scores.shape[2])
                      if scores[batch, class_, i] == scores[batch, class_, i] and (least is None or scores[batch, class_, i] > least)]
        taken = []
        for _, i in sorted(candidates):
            if len(taken) < most and all(overlap(corners[i], corners[j]) <= threshold for j in taken):
                taken.append(i)
        rows += [(batch, class_, i) for i in taken]
    return rows


def nms_cases(cases):
    def case(name, boxes, scores, most, threshold, least=None, **attrs):
        numbers = [Array("i64", [1], [most]), Array("f32", [1], [threshold])]
        rows = nms(boxes, scores, most, numbers[1].values[0], least)
        cases.write("detect", name, "nms", [boxes, scores] + numbers + ([] if least is None else [Array("f32", [1], [least])]), attrs,
                    [Array("i64", [len(rows), 3], [v for row in rows for v in row]), Array("i64", [], [len(rows)])])

    def boxes(batches, count):
        values = []
        for _ in range(batches * count):
            y, x = RANDOM.randint(0, 60), RANDOM.randint(0, 60)
            values += [y, x, y + RANDOM.randint(1, 20), x + RANDOM.randint(1, 20)]
        return Array("f32", [batches, count, 4], values)
    case("nms_many_boxes", boxes(2, 150), filled("f32", 2, 3, 150), 40, 0.3, 0.25)
    case("nms_bound", boxes(1, 70), filled("f32", 1, 2, 70), 9, 0.5, bound=20)
    few = Array("f32", [1, 1, 80], [RANDOM.randint(0, 5) / 5 for _ in range(80)])
    few.values[3] = few.values[66] = math.nan
    case("nms_equal_scores_and_nan", boxes(1, 80), few, 100, 0.1)
    case("nms_nothing_is_good_enough", boxes(1, 5), filled("f32", 1, 1, 5), 3, 0.5, 2.0)


def nonzero_cases(cases):
    for dtype in ("f32", "f64", "f16", "i64", "u8", "bool"):
        shape = (5, 7, 6)
        values = [RANDOM.choice((0, 0, 1, 3)) for _ in range(210)]
        if dtype[0] == "f":
            values[:4] = [-0.0, math.nan, -math.inf, 6e-5]
        x = Array(dtype, shape, values)
        if dtype == "bool":
            x.values = [bool(v) for v in x.values]
        found = [place for place in places(shape) if x[place] != 0]
        cases.write("detect", "nonzero_" + dtype, "nonzero", [x], {},
                    [Array("i64", [3, len(found)], [place[d] for d in range(3) for place in found]), Array("i64", [], [len(found)])])


def unique_cases(cases):
    def case(name, x, axis=None, unsorted=False):
        if axis is None:
            slices = [(x[place],) for place in places(x.shape)]
        else:
            others = [place for place in places(x.shape) if place[axis] == 0]
            slices = [tuple(x[place[:axis] + (i,) + place[axis + 1:]] for place in others) for i in range(x.shape[axis])]
        keys = [tuple((1, 0.0) if v != v else (0, v + 0) for v in one) for one in slices]
        order = sorted(set(keys), key=keys.index if unsorted else None)
        first = [keys.index(key) for key in order]
        if axis is None:
            values = Array(x.dtype, [len(order)], [slices[i][0] for i in first])
        else:
            shape = x.shape[:axis] + (len(order),) + x.shape[axis + 1:]
            values = gen_nn.made(x.dtype, shape, lambda p: x[p[:axis] + (first[p[axis]],) + p[axis + 1:]])
        attrs = {} if axis is None else {"by_axis": True, "axis": axis}
        if unsorted:
            attrs["unsorted"] = True
        cases.write("detect", name, "unique", [x], attrs, [
            values, Array("i64", [len(order)], first), Array("i64", [len(keys)], [order.index(key) for key in keys]),
            Array("i64", [len(order)], [keys.count(key) for key in order]), Array("i64", [], [len(order)])])

    def few(dtype, *shape):
        return Array(dtype, shape, [RANDOM.randint(-4, 4) for _ in range(math.prod(shape))])
    x = few("f32", 9, 20)
    x.values[5] = x.values[70] = math.nan
    x.values[6] = -0.0
    case("unique_floats_and_nan", x)
    case("unique_i64_unsorted", few("i64", 150), unsorted=True)
    case("unique_rows", few("i32", 90, 2), axis=0)
    case("unique_columns_unsorted", few("f16", 2, 70), axis=1, unsorted=True)


def roi_align(x, regions, batches, height, width, samples, scale, half_pixel, largest):
    def points(r, c, bin_h, bin_w):
        rows, columns = samples or math.ceil(bin_h), samples or math.ceil(bin_w)
        for i in range(rows):
            for j in range(columns):
                yield r + (i + 0.5) / rows * bin_h, c + (j + 0.5) / columns * bin_w

    def corners(batch, channel, y, z):
        rows, columns = x.shape[2:]
        if not (-1 <= y <= rows and -1 <= z <= columns):
            return [0.0] * 4
        y, z = max(y, 0.0), max(z, 0.0)
        low, left = min(int(y), rows - 1), min(int(z), columns - 1)
        high, right = min(low + 1, rows - 1), min(left + 1, columns - 1)
        v, u = (y - low if low < high else 0.0), (z - left if left < right else 0.0)
        return [(1 - v) * (1 - u) * x[batch, channel, low, left], (1 - v) * u * x[batch, channel, low, right],
                v * (1 - u) * x[batch, channel, high, left], v * u * x[batch, channel, high, right]]

    def value(place):
        region, channel, row, column = place
        shift = 0.5 if half_pixel else 0.0
        x0, y0, x1, y1 = (regions[region, i] * scale - shift for i in range(4))
        bin_w, bin_h = x1 - x0, y1 - y0
        if not half_pixel:
            bin_w, bin_h = max(bin_w, 1.0), max(bin_h, 1.0)
        bin_w, bin_h = bin_w / width, bin_h / height
        found = [corners(batches[(region,)], channel, y, z)
                 for y, z in points(y0 + row * bin_h, x0 + column * bin_w, bin_h, bin_w)]
        if not found:
            return 0.0
        return max(max(four) for four in found) if largest else sum(sum(four) for four in found) / len(found)
    return gen_nn.made(x.dtype, (regions.shape[0], x.shape[1], height, width), value)


def roi_align_cases(cases):
    def case(name, dtype, samples, half_pixel=False, largest=False):
        x, regions = filled(dtype, 2, 3, 12, 10, low=-1.0), []
        for _ in range(5):
            left, top = RANDOM.uniform(-2, 12), RANDOM.uniform(-2, 15)
            regions += [left, top, left + RANDOM.uniform(0.5, 14), top + RANDOM.uniform(0.5, 14)]
        regions = Array(dtype, [5, 4], regions)
        batches = Array("i64", [5], [RANDOM.randint(0, 1) for _ in range(5)])
        attrs = {"height": 3, "width": 4, "samples": samples, "scale": 0.75}
        attrs.update({key: True for key, given in (("half_pixel", half_pixel), ("largest", largest)) if given})
        cases.write("detect", name, "roi_align", [x, regions, batches], attrs,
                    [roi_align(x, regions, batches, 3, 4, samples, 0.75, half_pixel, largest)])
    case("roi_align", "f32", 2)
    case("roi_align_half_pixel", "f32", 3, half_pixel=True)
    case("roi_align_largest", "f32", 2, largest=True)
    case("roi_align_as_many_points_as_pixels", "f32", 0, half_pixel=True)
    case("roi_align_f16", "f16", 2)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    cases = Cases(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "cases"))
    for make in (nms_cases, nonzero_cases, unique_cases, roi_align_cases):
        make(cases)
    print("%d cases" % cases.count)


if __name__ == "__main__":
    main()
