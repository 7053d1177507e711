#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the elementwise cases: CASES/elementwise/<op>_<kind>/{model.rlx,data.rlx}, every op on every
dtype it takes.

Expected values follow the definitions in ops.def in exact integers, fractions or doubles, and are
rounded once to the dtype by the rounding below; nothing is shared with the library.
usage: gen_elementwise.py [CASES]   (default: cases beside this file)
"""
import math
import os
import struct
import sys
from fractions import Fraction

INF, NAN = math.inf, math.nan

# name: mantissa bits, exponent of the least normal number, largest number, what lies beyond it
FLOATS = {
    "f64": (52, -1022, sys.float_info.max, INF),
    "f32": (23, -126, (2 - 2.0**-23) * 2.0**127, INF),
    "f16": (10, -14, 65504.0, INF),
    "bf16": (7, -126, (2 - 2.0**-7) * 2.0**127, INF),
    "f8e4m3fn": (3, -6, 448.0, 448.0),
    "f8e4m3fnuz": (3, -7, 240.0, 240.0),
    "f8e5m2": (2, -14, 57344.0, INF),
    "f8e5m2fnuz": (2, -15, 57344.0, 57344.0),
}
SIGNED = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "i4": 4}
UNSIGNED = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "u4": 4}
INTEGERS = {**SIGNED, **UNSIGNED}
PLAIN = list(FLOATS) + list(INTEGERS) + ["bool"]


def rounded(dtype, value):
    """A float or Fraction to the nearest number of a float dtype, half to even."""
    bits, least, most, beyond = FLOATS[dtype]
    if isinstance(value, float):
        if math.isnan(value):
            return NAN
        if math.isinf(value):
            return math.copysign(beyond, value)
        if value == 0:
            return value
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2)**exponent > size:
        exponent -= 1
    unit = Fraction(2)**(max(exponent, least) - bits)
    result = round(size / unit) * unit  # round() of a Fraction is half to even
    result = beyond if result > Fraction(most) else float(result)
    return -result if exact < 0 else result


def wrapped(dtype, value):
    bits = INTEGERS[dtype]
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype in SIGNED and value >> (bits - 1) else value


def limits(dtype):
    bits = INTEGERS[dtype]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype in SIGNED else (0, (1 << bits) - 1)


def to_integer(dtype, value):
    """Truncates, saturates; NaN gives 0."""
    low, high = limits(dtype)
    if isinstance(value, float) and math.isnan(value):
        return 0
    if isinstance(value, float) and math.isinf(value):
        return high if value > 0 else low
    return min(max(int(value), low), high)


def shortest(dtype, value):
    """The shortest text that reads back as the same number of the dtype."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if math.isnan(value) or math.isinf(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if value == int(value) and 0 < abs(value) < 1e6:
        return str(int(value))
    for digits in range(1, 18):
        text = "%.*g" % (digits, value)
        if rounded(dtype, float(text)) == value:
            return text.replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return repr(value)


class Case:
    """Lines `y = op(x..)` with their data; an array is (dtype, values)."""

    def __init__(self, comment):
        self.comment, self.inputs, self.outputs, self.lines = comment, [], [], []

    def input(self, dtype, values):
        for i, (other, held) in enumerate(self.inputs):
            if other == dtype and repr(held) == repr(values):
                return "x%d" % i
        self.inputs.append((dtype, values))
        return "x%d" % (len(self.inputs) - 1)

    def line(self, op, arrays, dtype, values, attrs=""):
        names = [self.input(*array) for array in arrays]
        self.lines.append("y%d = %s(%s)%s" % (len(self.outputs), op, ", ".join(names), attrs))
        self.outputs.append((dtype, values))

    def write(self, folder, name):
        assert len(self.inputs) <= 32 and len(self.outputs) <= 32, name
        head = ["# SPDX-License-Identifier: Apache-2.0", "rlx 1"]
        model = [head[0], "# " + self.comment, head[1]]
        model += ["input x%d : %s[%d]" % (i, d, len(v)) for i, (d, v) in enumerate(self.inputs)]
        model += self.lines + ["output y%d" % i for i in range(len(self.outputs))]
        data = list(head)
        for kind, arrays in (("in", self.inputs), ("out", self.outputs)):
            data += ["const %s_%d : %s[%d] = [%s]"
                     % (kind, i, d, len(v), ", ".join(shortest(d, x) for x in v))
                     for i, (d, v) in enumerate(arrays)]
        path = os.path.join(folder, "elementwise", name)
        os.makedirs(path, exist_ok=True)
        for file, lines in (("model.rlx", model), ("data.rlx", data)):
            with open(os.path.join(path, file), "w") as out:
                out.write("\n".join(lines) + "\n")


def distinct(values):
    seen = []
    for value in values:
        if not any(repr(value) == repr(other) for other in seen):
            seen.append(value)
    return seen


def float_values(dtype, values):
    """Those that the dtype can hold, rounded to it."""
    top = FLOATS[dtype][2]
    kept = [v for v in values if math.isnan(v) or abs(v) <= top or FLOATS[dtype][3] == INF]
    fnuz = dtype.endswith("fnuz")
    return distinct(rounded(dtype, 0.0 if fnuz and v == 0 else v) for v in kept)


# Unary float ops, by their definitions.

def guarded(function):
    """Outside its domain a function is NaN; too large is infinity."""
    def call(x):
        if math.isnan(x):
            return NAN
        try:
            return function(x)
        except OverflowError:
            return INF
        except (ValueError, ZeroDivisionError):
            return NAN
    return call


def exponential(x):
    return INF if x > 709.78 else math.exp(x)


def logistic(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else exponential(x) / (1 + exponential(x))


def softplus(x):
    return x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))


def half_even(x):
    return x if math.isinf(x) else math.copysign(float(round(x)), x)


def whole(function):
    return lambda x: x if math.isinf(x) or x == 0 else float(function(x))


def normal_cdf(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def gelu_tanh(x):
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return x * logistic(2 * inner)


def signed_square(x):
    return Fraction(x) * Fraction(x) if math.isfinite(x) else INF


def reciprocal(x):
    if x == 0:
        return math.copysign(INF, x)
    return 1 / Fraction(x) if math.isfinite(x) else math.copysign(0.0, x)


def atanh(x):
    return math.copysign(INF, x) if abs(x) == 1 else math.atanh(x)


def root(x):
    """To 200 bits: a double root would be rounded twice."""
    if x < 0:
        return NAN
    if math.isinf(x) or x == 0:
        return x
    return Fraction(math.isqrt(int(Fraction(x) * 2**400 * 2**400)), 2**400)


def inverse_root(x):
    return INF if x == 0 else 0.0 if x == INF else NAN if x < 0 else 1 / root(x)


SPECIAL = [0.0, -0.0, INF, -INF, NAN]
COMMON = [0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.25, -7.0, 20.0, -30.0, 0.0078125]
FINITE = [0.0, -0.0, NAN] + COMMON + [90.0, -90.0]
UNARY = {  # op: function of a number that is not NaN, values, attributes
    "abs": (abs, SPECIAL + COMMON, ""),
    "neg": (lambda x: -x, SPECIAL + COMMON, ""),
    "sign": (lambda x: float((x > 0) - (x < 0)), SPECIAL + COMMON, ""),
    "floor": (whole(math.floor), SPECIAL + COMMON, ""),
    "ceil": (whole(math.ceil), SPECIAL + COMMON, ""),
    "round": (half_even, SPECIAL + COMMON, ""),
    "sqrt": (root, SPECIAL + COMMON + [2.0, 3.0, 7.0], ""),
    "rsqrt": (inverse_root, [0.0, INF, NAN] + COMMON + [2.0, 3.0], ""),
    "reciprocal": (reciprocal, SPECIAL + COMMON + [3.0, 7.0], ""),
    "square": (signed_square, SPECIAL + COMMON + [1.375], ""),
    "exp": (exponential, SPECIAL + COMMON + [88.0, -88.0], ""),
    "log": (lambda x: -INF if x == 0 else math.log(x), SPECIAL + COMMON + [2.0], ""),
    "sin": (math.sin, SPECIAL + COMMON, ""),
    "cos": (math.cos, SPECIAL + COMMON, ""),
    "tan": (math.tan, SPECIAL + COMMON, ""),
    "asin": (math.asin, SPECIAL + COMMON, ""),
    "acos": (math.acos, SPECIAL + COMMON, ""),
    "atan": (math.atan, SPECIAL + COMMON, ""),
    "sinh": (lambda x: math.copysign(INF, x) if abs(x) > 709 else math.sinh(x),
             SPECIAL + COMMON, ""),
    "cosh": (lambda x: INF if abs(x) > 709 else math.cosh(x), SPECIAL + COMMON, ""),
    "tanh": (math.tanh, SPECIAL + COMMON, ""),
    "asinh": (math.asinh, SPECIAL + COMMON, ""),
    "acosh": (math.acosh, [1.0, 2.0, INF, NAN] + COMMON, ""),
    "atanh": (atanh, SPECIAL + COMMON, ""),
    "erf": (math.erf, SPECIAL + COMMON, ""),
    "sigmoid": (logistic, SPECIAL + COMMON, ""),
    "relu": (lambda x: max(x, 0.0), SPECIAL + COMMON, ""),
    "leaky_relu": (lambda x: Fraction(0.1) * Fraction(x) if -INF < x < 0 else x,
                   SPECIAL + COMMON, " alpha=0.1"),
    "elu": (lambda x: x if x > 0 else 1.5 * math.expm1(x), SPECIAL + COMMON, " alpha=1.5"),
    "celu": (lambda x: max(0.0, x) + min(0.0, 2 * math.expm1(x / 2)) if x < 0 else x,
             SPECIAL + COMMON, " alpha=2"),
    "selu": (lambda x: 1.0507 * (x if x > 0 else 1.67326 * math.expm1(x)),
             SPECIAL + COMMON, " alpha=1.67326 beta=1.0507"),
    "gelu": (lambda x: x * normal_cdf(x), FINITE, ""),
    "gelu_tanh": (gelu_tanh, FINITE, ""),
    "silu": (lambda x: x * logistic(x), FINITE, ""),
    "mish": (lambda x: x * math.tanh(softplus(x)), FINITE, ""),
    "hard_sigmoid": (lambda x: min(max(0.2 * x + 0.5, 0.0), 1.0),
                     SPECIAL + COMMON, " alpha=0.2 beta=0.5"),
    "hard_swish": (lambda x: x * min(max(x / 6 + 0.5, 0.0), 1.0), FINITE, ""),
    "softplus": (softplus, SPECIAL + COMMON, ""),
    "softsign": (lambda x: Fraction(x) / (1 + abs(Fraction(x))), FINITE, ""),
    "thresholded_relu": (lambda x: x if x > 1 else 0.0, SPECIAL + COMMON, " alpha=1"),
    "shrink": (lambda x: x + 0.25 if x < -1 else x - 0.25 if x > 1 else 0.0,
               SPECIAL + COMMON, " alpha=1 beta=0.25"),
    "clip": (lambda x: min(max(x, -1.25), 2.0), SPECIAL + COMMON, " alpha=-1.25 beta=2"),
}


def float_unary(folder):
    for op, (function, values, attrs) in UNARY.items():
        case = Case("%s on every float dtype." % op)
        for dtype in FLOATS:
            x = float_values(dtype, values)
            case.line(op, [(dtype, x)], dtype, [rounded(dtype, guarded(function)(v)) for v in x],
                      attrs)
        case.write(folder, op + "_float")


# Binary float ops. Pairs of common numbers, then the special ones.

PAIRS = [(1.0, 3.0), (-7.0, 3.0), (7.0, -3.0), (5.5, 2.0), (-5.5, -2.0), (6.0, 3.0), (-6.0, 3.0),
         (0.1, 0.2), (100.0, 0.375), (-0.75, 12.0), (2.0, 0.5), (-2.0, 3.0), (-8.0, 0.5),
         (1.5, -2.0), (0.0, 2.0), (0.0, 0.0), (2.0, 0.0), (INF, 2.0), (2.0, INF), (-2.0, INF),
         (INF, -INF), (-INF, 3.0), (NAN, 1.0), (1.0, NAN), (220.0, 200.0)]


def both_finite(x, y):
    return math.isfinite(x) and math.isfinite(y)


def exactly(function):
    """Exact on numbers, doubles where one is infinite."""
    def call(x, y):
        if both_finite(x, y):
            result = function(Fraction(x), Fraction(y))
            return function(x, y) if result == 0 else result
        return function(x, y)
    return call


def divide(x, y):
    if y == 0:
        return NAN if x == 0 or math.isnan(x) else math.copysign(INF, x) * math.copysign(1, y)
    return x / y if not both_finite(x, y) or x == 0 else Fraction(x) / Fraction(y)


def fmod(x, y):
    return NAN if math.isinf(x) or y == 0 else math.fmod(x, y)


def floor_mod(x, y):
    rest = fmod(x, y)
    if math.isnan(rest) or rest == 0 or (rest < 0) == (y < 0):
        return rest
    return y if math.isinf(y) else Fraction(rest) + Fraction(y)


def power(x, y):
    try:
        return math.pow(x, y)
    except OverflowError:
        return INF
    except ValueError:
        return INF if x == 0 else NAN


def nan_first(function):
    return lambda x, y: NAN if math.isnan(x) or math.isnan(y) else function(x, y)


BINARY = {
    "add": exactly(lambda x, y: x + y),
    "sub": exactly(lambda x, y: x - y),
    "mul": exactly(lambda x, y: x * y),
    "div": nan_first(divide),
    "mod": nan_first(floor_mod),
    "fmod": nan_first(fmod),
    "pow": power,
    "min": nan_first(min),
    "max": nan_first(max),
    "prelu": exactly(lambda x, y: x * y if x < 0 else x),
}
COMPARE = {
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
}


def float_pairs(dtype):
    top, beyond = FLOATS[dtype][2], FLOATS[dtype][3]
    kept = [p for p in PAIRS if beyond == INF or all(math.isnan(v) or abs(v) <= top for v in p)]
    zero = 0.0 if dtype.endswith("fnuz") else -0.0
    kept.append((zero, 1.0))
    return [rounded(dtype, x) for x, _ in kept], [rounded(dtype, y) for _, y in kept]


def float_binary(folder):
    for op, function in BINARY.items():
        case = Case("%s on every float dtype." % op)
        for dtype in FLOATS:
            x, y = float_pairs(dtype)
            case.line(op, [(dtype, x), (dtype, y)], dtype,
                      [rounded(dtype, function(a, b)) for a, b in zip(x, y)])
        case.write(folder, op + "_float")


def compare(folder):
    for op, function in COMPARE.items():
        case = Case("%s on every float dtype and bool." % op)
        for dtype in FLOATS:
            x, y = float_pairs(dtype)
            x, y = x + y[:2], y + y[:2]
            case.line(op, [(dtype, x), (dtype, y)], "bool", [function(a, b) for a, b in zip(x, y)])
        x, y = [False, False, True, True], [False, True, False, True]
        case.line(op, [("bool", x), ("bool", y)], "bool", [function(a, b) for a, b in zip(x, y)])
        case.write(folder, op + "_float")
        case = Case("%s on every integer dtype." % op)
        for dtype in INTEGERS:
            x, y = integer_pairs(dtype)
            case.line(op, [(dtype, x), (dtype, y)], "bool", [function(a, b) for a, b in zip(x, y)])
        case.write(folder, op + "_integer")


# Integers: Python's are exact; the result is wrapped.

def integer_values(dtype):
    low, high = limits(dtype)
    return distinct(v for v in [0, 1, 2, 3, -1, -2, -5, 7, low, high, low + 1, high - 1, 100, -77]
                    if low <= v <= high)


def integer_pairs(dtype):
    low, high = limits(dtype)
    pairs = [(7, 3), (-7, 3), (7, -3), (-7, -3), (6, 3), (0, 5), (5, 5), (1, 2), (high, 1),
             (high, high), (low, 1), (low, high), (low, -1), (high, 2), (100, 100), (-1, 1),
             (3, 5), (2, 6)]
    kept = [p for p in pairs if all(low <= v <= high for v in p)]
    return [x for x, _ in kept], [y for _, y in kept]


def truncated(x, y):
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def integer_power(x, y):
    if y >= 0:
        return x**y if y < 100 else pow(x, y, 1 << 64)
    return 1 if x == 1 else (1 if y % 2 == 0 else -1) if x == -1 else 0


INTEGER_UNARY = {
    "abs": (abs, ""),
    "neg": (lambda x: -x, ""),
    "sign": (lambda x: (x > 0) - (x < 0), ""),
    "square": (lambda x: x * x, ""),
    "relu": (lambda x: max(x, 0), ""),
    "clip": (lambda x: min(max(x, -2), 5), " alpha=-2 beta=5"),
    "shrink": (lambda x: x + 1 if x < -2 else x - 1 if x > 2 else 0, " alpha=2 beta=1"),
    "bit_not": (lambda x: ~x, ""),
}
INTEGER_BINARY = {
    "add": lambda x, y, bits: x + y,
    "sub": lambda x, y, bits: x - y,
    "mul": lambda x, y, bits: x * y,
    "div": lambda x, y, bits: truncated(x, y),
    "mod": lambda x, y, bits: x % y,
    "fmod": lambda x, y, bits: x - y * truncated(x, y),
    "pow": lambda x, y, bits: integer_power(x, y),
    "min": lambda x, y, bits: min(x, y),
    "max": lambda x, y, bits: max(x, y),
    "prelu": lambda x, y, bits: x * y if x < 0 else x,
    "bit_and": lambda x, y, bits: x & y,
    "bit_or": lambda x, y, bits: x | y,
    "bit_xor": lambda x, y, bits: x ^ y,
    "shift_left": lambda x, y, bits: x << y if 0 <= y < bits else 0,
    "shift_right": lambda x, y, bits: x >> y if 0 <= y < bits else 0,
}


def integers(folder):
    for op, (function, attrs) in INTEGER_UNARY.items():
        case = Case("%s on every integer dtype." % op)
        for dtype in SIGNED if op == "neg" else INTEGERS:
            x = integer_values(dtype)
            case.line(op, [(dtype, x)], dtype, [wrapped(dtype, function(v)) for v in x], attrs)
        case.write(folder, op + "_integer")
    for op, function in INTEGER_BINARY.items():
        case = Case("%s on every integer dtype." % op)
        for dtype, bits in INTEGERS.items():
            x, y = integer_pairs(dtype)
            case.line(op, [(dtype, x), (dtype, y)], dtype,
                      [wrapped(dtype, function(a, b, bits)) for a, b in zip(x, y)])
        case.write(folder, op + "_integer")


def booleans(folder):
    x, y = [False, False, True, True], [False, True, False, True]
    case = Case("Logic on bool.")
    case.line("not", [("bool", x)], "bool", [not v for v in x])
    for op, function in (("and", lambda a, b: a and b), ("or", lambda a, b: a or b),
                         ("xor", lambda a, b: a != b)):
        case.line(op, [("bool", x), ("bool", y)], "bool", [function(a, b) for a, b in zip(x, y)])
    case.write(folder, "logic")
    case = Case("Predicates on every float dtype.")
    for dtype in FLOATS:
        x = float_values(dtype, SPECIAL + COMMON)
        case.line("is_nan", [(dtype, x)], "bool", [math.isnan(v) for v in x])
        case.line("is_inf", [(dtype, x)], "bool", [math.isinf(v) for v in x], " alpha=1 beta=1")
        case.line("is_inf", [(dtype, x)], "bool", [v == INF for v in x], " beta=1")
        case.line("is_inf", [(dtype, x)], "bool", [v == -INF for v in x], " alpha=1")
    case.write(folder, "predicates")


def where(folder):
    case = Case("where on every dtype.")
    for dtype in PLAIN:
        if dtype in FLOATS:
            x, y = float_pairs(dtype)
        elif dtype == "bool":
            x, y = [False, False, True, True], [False, True, False, True]
        else:
            x, y = integer_pairs(dtype)
        x, y = x[:4], y[:4]
        condition = [True, False, False, True]
        case.line("where", [("bool", condition), (dtype, x), (dtype, y)], dtype,
                  [a if c else b for c, a, b in zip(condition, x, y)])
        if len(case.inputs) > 28:
            case.write(folder, "where_first")
            case = Case("where on every dtype.")
    case.write(folder, "where_second")


def cast_one(to, value):
    if to == "bool":
        return value != 0
    if to in INTEGERS:
        return wrapped(to, int(value)) if isinstance(value, int) else to_integer(to, value)
    result = rounded(to, Fraction(value) if isinstance(value, int) else value)
    return 0.0 if to.endswith("fnuz") and result == 0 else result


def casts(folder):
    more = [0.1, 255.5, -129.0, 300.0, 1e-4, 65520.0, 1e10, -1e30]
    for dtype in PLAIN:
        if dtype in FLOATS:
            x = float_values(dtype, SPECIAL + COMMON[:8] + more)
        elif dtype == "bool":
            x = [False, True]
        else:
            x = integer_values(dtype)
        case = Case("%s to every dtype." % dtype)
        for to in PLAIN:
            case.line("cast", [(dtype, x)], to, [cast_one(to, v) for v in x], " to=" + to)
        case.write(folder, "cast_" + dtype)


def mixed_powers(folder):
    case = Case("pow with an exponent of another dtype.")
    x, y = [1.5, -2.0, 3.0, 10.0, 0.5], [3, 3, 0, 2, 4]
    for base in ("f32", "f64", "f16"):
        case.line("pow", [(base, x), ("i64", y)], base,
                  [rounded(base, math.pow(a, b)) for a, b in zip(x, y)])
        case.line("pow", [(base, x), ("u8", y)], base,
                  [rounded(base, math.pow(a, b)) for a, b in zip(x, y)])
    n, e = [4, 9, 10, 2, 27], [0.5, 0.5, 0.5, 3.0, -1.0]
    case.line("pow", [("i32", n), ("f32", e)], "i32",
              [to_integer("i32", math.pow(a, b)) for a, b in zip(n, e)])
    case.line("pow", [("i64", n), ("i8", y)], "i64", [a**b for a, b in zip(n, y)])
    case.line("pow", [("f32", x), ("f64", [float(v) for v in y])], "f32",
              [rounded("f32", math.pow(a, b)) for a, b in zip(x, y)])
    case.write(folder, "pow_mixed")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "cases")
    # The rounding against the one that Python itself has.
    for number in (0.1, 65519.9, 65504.0, 1e-7, 3e-8, 2.98e-8, 1.0009765625, 1.00048828125):
        assert struct.unpack("<e", struct.pack("<e", number))[0] == rounded("f16", number)
        assert struct.unpack("<f", struct.pack("<f", number))[0] == rounded("f32", number)
    for make in (float_unary, float_binary, compare, integers, booleans, where, casts,
                 mixed_powers):
        make(folder)


if __name__ == "__main__":
    main()
