#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns ONNX node tests into cases: CASES/<family>/onnx_<name>/{model.rlx,in_N.npy,out_N.npy}.

The tests are those of Debian's libonnx-testdata (folders with model.onnx and test_data_set_0/*.pb).
Two tables say what to do: WANTED names the tests of each family, ROWS how an ONNX op becomes a line
of the text form. To add an op: a row in ROWS; to add a test: its name in WANTED.
usage: from_onnx.py [NODE_TESTS [CASES]]   (defaults: the package's folder, cases beside this file)
"""
import os
import struct
import sys

DTYPES = {  # ONNX number: rlx name, npy descr, struct code
    1: ("f32", "<f4", "f"), 2: ("u8", "|u1", "B"), 3: ("i8", "|i1", "b"), 4: ("u16", "<u2", "H"),
    5: ("i16", "<i2", "h"), 6: ("i32", "<i4", "i"), 7: ("i64", "<i8", "q"), 9: ("bool", "|b1", "?"),
    10: ("f16", "<f2", "e"), 11: ("f64", "<f8", "d"), 12: ("u32", "<u4", "I"),
    13: ("u64", "<u8", "Q")}


# Protocol buffers: just enough to read a model and a tensor.

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def fields(data):
    """Yields (number, value): int for varints, bytes for the rest."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def group(data):
    found = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def integers(values):
    """Repeated int64, packed or not."""
    out = []
    for value in values:
        if isinstance(value, int):
            out.append(signed(value))
            continue
        at = 0
        while at < len(value):
            item, at = varint(value, at)
            out.append(signed(item))
    return out


def packed(values, code):
    data = b"".join(values)
    return list(struct.unpack("<%d%s" % (len(data) // struct.calcsize(code), code), data))


class Tensor:
    def __init__(self, data):
        found = group(data)
        self.dims = integers(found.get(1, []))
        self.dtype, self.descr, self.code = DTYPES[found[2][0]]
        if 9 in found:
            self.raw = found[9][0]
            return
        if 4 in found:
            numbers = packed(found[4], "f")
        elif 10 in found:
            numbers = packed(found[10], "d")
        else:
            numbers = integers(found.get(5, found.get(7, found.get(11, []))))
        if self.dtype == "f16":
            self.raw = struct.pack("<%dH" % len(numbers), *numbers)
        else:
            self.raw = struct.pack("<%d%s" % (len(numbers), self.code), *numbers)

    def values(self):
        return list(struct.unpack("<%d%s" % (len(self.raw) // struct.calcsize(self.code), self.code),
                                  self.raw))

    def type(self):
        return "%s[%s]" % (self.dtype, ", ".join(str(dim) for dim in self.dims))

    def npy(self):
        shape = "(%s)" % "".join("%d, " % dim for dim in self.dims).rstrip()
        header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (self.descr, shape)
        header += " " * (-(len(header) + 11) % 64) + "\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + self.raw


def attribute(data):
    found = group(data)
    name = found[1][0].decode()
    kind = found.get(20, [0])[0]
    if kind == 1:
        return name, struct.unpack("<f", found[2][0])[0]
    if kind == 2:
        return name, signed(found[3][0])
    if kind == 3:
        return name, found[4][0].decode()
    if kind == 4:
        return name, Tensor(found[5][0])
    if kind == 6:
        return name, packed(found.get(7, []), "f")
    if kind == 7:
        return name, integers(found.get(8, []))
    raise ValueError("attribute %s of kind %d" % (name, kind))


class Node:
    """The one node of a test: its attributes, and the tensor (or None) of each input."""

    def __init__(self, folder):
        with open(os.path.join(folder, "model.onnx"), "rb") as file:
            graph = group(group(file.read())[7][0])
        if len(graph[1]) != 1:
            raise ValueError("%d nodes" % len(graph[1]))
        found = group(graph[1][0])
        self.op = found[4][0].decode()
        self.attrs = dict(attribute(a) for a in found.get(5, []))
        self.opset_inputs = [n.decode() for n in found.get(1, [])]
        self.output_names = [n.decode() for n in found.get(2, [])]
        names = [group(v)[1][0].decode() for v in graph.get(11, [])]
        given = {}
        for i, name in enumerate(names):
            given[name] = load(os.path.join(folder, "test_data_set_0", "input_%d.pb" % i))
        self.inputs = [given.get(name) for name in self.opset_inputs]
        wanted = [group(v)[1][0].decode() for v in graph.get(12, [])]
        self.outputs = [load(os.path.join(folder, "test_data_set_0", "output_%d.pb" % i))
                        for i in range(len(wanted))]
        self.wanted = wanted

    def get(self, name, default=None):
        return self.attrs.get(name, default)

    def constant(self, index, default=None):
        """The values of an input that rlx takes as an attribute."""
        if index >= len(self.inputs) or self.inputs[index] is None:
            return default
        return self.inputs[index].values()


def load(path):
    with open(path, "rb") as file:
        return Tensor(file.read())


# The text form.

def word(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(word(item) for item in value)
    return repr(value) if isinstance(value, float) else str(value)


class Body:
    """Lines that use inputs by ONNX number, {0}, {1}..; results are y0, y1... `keeps` lists the
    inputs that stay inputs."""

    def __init__(self, keeps, lines):
        self.keeps, self.lines = keeps, lines


def call(node, op, keeps, attrs, before=(), text=None):
    """y0, .. = op({0}, ..) attrs; attributes that are None are left out."""
    results = ["y%d" % node.wanted.index(n) if n in node.wanted else "_"
               for n in node.output_names]
    while results[-1] == "_":
        results.pop()
    last = max([k for k in keeps], default=-1)
    args = text or ", ".join("{%d}" % i if i in keeps else "_" for i in range(last + 1))
    line = "%s = %s(%s)" % (", ".join(results), op, args)
    for name, value in attrs.items():
        if value is not None:
            line += " %s=%s" % (name, word(value))
    return Body(keeps, list(before) + [line])


def present(node, most=99):
    return [i for i, tensor in enumerate(node.inputs[:most]) if tensor is not None]


def plain(op, **attrs):
    """A row for an op with the same inputs; attrs: rlx name = ONNX name or function of the node."""
    def row(node):
        found = {name: how(node) if callable(how) else node.get(how)
                 for name, how in attrs.items()}
        return call(node, op, present(node), found)
    return row


def flag(name, default=0):
    return lambda node: bool(node.get(name, default)) or None


def auto_pad(node):
    mode = node.get("auto_pad", "NOTSET")
    return None if mode == "NOTSET" else mode.lower()


def conv_transpose(node):
    """An output_shape becomes pads, or output_padding where it asks for more."""
    attrs = dict((name, how(node) if callable(how) else node.get(how))
                 for name, how in CONV.items())
    attrs["output_padding"] = node.get("output_padding")
    shape = node.get("output_shape")
    if shape is not None:
        x, w = node.inputs[0].dims[2:], node.inputs[1].dims[2:]
        begins, ends, extras = [], [], []
        for i, size in enumerate(shape):
            stride = node.get("strides", [1] * len(shape))[i]
            extra = node.get("output_padding", [0] * len(shape))[i]
            total = stride * (x[i] - 1) + extra + w[i] - size
            extras.append(extra + max(-total, 0))
            total = max(total, 0)
            begins.append(total // 2 if attrs["auto_pad"] == "same_upper" else total - total // 2)
            ends.append(total - begins[-1])
        attrs.update(pads=begins + ends, output_padding=extras, auto_pad=None)
    return call(node, "conv_transpose", present(node), attrs)


CONV = dict(strides="strides", dilations="dilations", pads="pads", groups="group",
            auto_pad=auto_pad)
POOL = dict(kernel="kernel_shape", strides="strides", dilations="dilations", pads="pads",
            auto_pad=auto_pad, ceil_mode=flag("ceil_mode"))


def gemm(node):
    keeps, before = present(node), []
    attrs = dict(transpose_a=flag("transA")(node), transpose_b=flag("transB")(node),
                 alpha=node.get("alpha"))
    text = ", ".join("{%d}" % i for i in keeps)
    if 2 in keeps and node.get("beta", 1.0) != 1.0:
        before = ["const beta : f32[1] = [%r]" % node.get("beta"), "scaled = mul({2}, beta)"]
        text = "{0}, {1}, scaled"
    return call(node, "matmul", keeps, attrs, before, text)


def reduction(op):
    def row(node):
        axes = node.get("axes") or node.constant(1)
        if not axes and node.get("noop_with_empty_axes", 0):
            return call(node, "identity", [0], {})
        keep = bool(node.get("keepdims", 1)) or None
        return call(node, op, [0], dict(axes=axes or None, keep_dims=keep))
    return row


def argument(op):
    return plain(op, axis=lambda n: n.get("axis", 0), keep_dims=flag("keepdims", 1),
                 select_last=flag("select_last_index"))


def top_k(node):
    return call(node, "top_k", [0], dict(
        k=node.constant(1)[0], axis=node.get("axis", -1),
        smallest=None if node.get("largest", 1) else True))


def cumsum(node):
    return call(node, "cumsum", [0], dict(
        axis=node.constant(1)[0], exclusive=flag("exclusive")(node), reverse=flag("reverse")(node)))


def global_pool(op):
    return plain(op, kernel=lambda n: n.inputs[0].dims[2:])


def axis_or_last(node):
    return node.get("axis", -1)


def layer_norm(node):
    node.output_names = node.output_names[:1]
    node.outputs = node.outputs[:1]
    return call(node, "layer_norm", present(node),
                dict(axis=node.get("axis", -1), epsilon=node.get("epsilon", 1e-5)))


def attribute_or_input(name, index):
    """Lists that were attributes before they became inputs."""
    return lambda node: node.get(name) if node.get(name) is not None else node.constant(index)


def moved(op, **attrs):
    """A row for an op whose inputs beyond the first become attributes."""
    def row(node):
        return call(node, op, [0], {name: how(node) for name, how in attrs.items()})
    return row


def scatter(op):
    modes = {"none": None, "add": "add", "mul": "mul", "min": "min", "max": "max"}
    return plain(op, axis=lambda n: n.get("axis") if op == "scatter_elements" else None,
                 mode=lambda n: modes[n.get("reduction", "none")])


def pad(node):
    value = node.constant(2, [None])[0]
    mode = node.get("mode", "constant")
    return call(node, "pad", [0], dict(pads=node.get("pads") or node.constant(1), mode=mode,
                                       value=value))


def nonzero(node):
    return Body([0], ["y0, _count = nonzero({0})"])


def nms(node):
    attrs = " center_point=true" if node.get("center_point_box", 0) else ""
    inputs = ", ".join("{%d}" % i for i in range(len(node.inputs)))
    return Body(present(node), ["y0, _count = nms(%s)%s" % (inputs, attrs)])


def unique(node):
    attrs = "" if node.get("axis") is None else " by_axis=true axis=%d" % node.get("axis")
    if not node.get("sorted", 1):
        attrs += " unsorted=true"
    wanted = node.output_names + [""] * (4 - len(node.output_names))
    names = ["y%d" % node.wanted.index(name) if name in node.wanted else "_" for name in wanted]
    return Body([0], ["%s, _count = unique({0})%s" % (", ".join(names), attrs)])


def reshape(node):
    """With allowzero, a 0 that is no copy stands as -1: there is only one in the tests."""
    shape = node.constant(1)
    if node.get("allowzero", 0):
        shape = [-1 if dim == 0 else dim for dim in shape]
    return call(node, "reshape", [0], dict(shape=shape))


def recurrent(op):
    return plain(op, direction=lambda n: None if n.get("direction", "forward") == "forward"
                 else n.get("direction"), batch_first=flag("layout"),
                 linear_before_reset=flag("linear_before_reset"),
                 input_forget=flag("input_forget"), clip="clip")


ROWS = {
    "MatMul": plain("matmul"),
    "Gemm": gemm,
    "MatMulInteger": None,  # has zero points
    "Conv": plain("conv", **CONV),
    "ConvTranspose": conv_transpose,
    "MaxPool": plain("max_pool", **POOL),
    "AveragePool": plain("average_pool", count_include_pad=flag("count_include_pad"), **POOL),
    "GlobalMaxPool": global_pool("max_pool"),
    "GlobalAveragePool": global_pool("average_pool"),
    "ReduceSum": reduction("reduce_sum"),
    "ReduceMean": reduction("reduce_mean"),
    "ReduceMax": reduction("reduce_max"),
    "ReduceMin": reduction("reduce_min"),
    "ReduceProd": reduction("reduce_prod"),
    "ReduceL1": reduction("reduce_l1"),
    "ReduceL2": reduction("reduce_l2"),
    "ReduceLogSum": reduction("reduce_log_sum"),
    "ReduceLogSumExp": reduction("reduce_log_sum_exp"),
    "ReduceSumSquare": reduction("reduce_sum_square"),
    "ArgMax": argument("arg_max"),
    "ArgMin": argument("arg_min"),
    "TopK": top_k,
    "CumSum": cumsum,
    "Softmax": plain("softmax", axis=axis_or_last),
    "LogSoftmax": plain("log_softmax", axis=axis_or_last),
    "LayerNormalization": layer_norm,
    "BatchNormalization": plain("batch_norm", epsilon=lambda n: n.get("epsilon", 1e-5)),
    "InstanceNormalization": plain("instance_norm", epsilon=lambda n: n.get("epsilon", 1e-5)),
    "Gather": plain("gather", axis="axis"),
    "GatherElements": plain("gather_elements", axis=lambda n: n.get("axis", 0)),
    "GatherND": plain("gather_nd", batch_dims="batch_dims"),
    "Scatter": scatter("scatter_elements"),
    "ScatterElements": scatter("scatter_elements"),
    "ScatterND": scatter("scatter_nd"),
    "Slice": moved("slice", starts=attribute_or_input("starts", 1),
                   ends=attribute_or_input("ends", 2), axes=attribute_or_input("axes", 3),
                   steps=attribute_or_input("steps", 4)),
    "Concat": plain("concat", axis="axis"),
    "Split": moved("split", axis=lambda n: n.get("axis", 0),
                   sizes=attribute_or_input("split", 1)),
    "Pad": pad,
    "Transpose": plain("transpose", perm="perm"),
    "Reshape": reshape,
    "Squeeze": moved("squeeze", axes=attribute_or_input("axes", 1)),
    "Unsqueeze": moved("unsqueeze", axes=attribute_or_input("axes", 1)),
    "Flatten": plain("flatten", axis=lambda n: n.get("axis", 1)),
    "Expand": moved("expand", shape=attribute_or_input("shape", 1)),
    "Tile": moved("tile", shape=attribute_or_input("repeats", 1)),
    "NonZero": nonzero,
    "NonMaxSuppression": nms,
    "RoiAlign": None,  # its data is rounded to four digits
    "Unique": unique,
    "RNN": recurrent("rnn"),
    "GRU": recurrent("gru"),
    "LSTM": recurrent("lstm"),
}

WANTED = {
    "detect": """nonmaxsuppression_center_point_box_format nonmaxsuppression_flipped_coordinates
        nonmaxsuppression_identical_boxes nonmaxsuppression_limit_output_size
        nonmaxsuppression_single_box nonmaxsuppression_suppress_by_IOU
        nonmaxsuppression_suppress_by_IOU_and_scores nonmaxsuppression_two_batches
        nonmaxsuppression_two_classes
        unique_not_sorted_without_axis unique_sorted_with_axis unique_sorted_with_axis_3d
        unique_sorted_with_negative_axis unique_sorted_without_axis""",
    "recurrent": """gru_batchwise gru_defaults gru_seq_length gru_with_initial_bias lstm_batchwise
        lstm_defaults lstm_with_initial_bias lstm_with_peepholes rnn_seq_length
        simple_rnn_batchwise simple_rnn_defaults simple_rnn_with_initial_bias""",
    "matmul": """matmul_2d matmul_3d matmul_4d gemm_all_attributes gemm_alpha gemm_beta
        gemm_default_matrix_bias gemm_default_no_bias gemm_default_scalar_bias
        gemm_default_single_elem_vector_bias gemm_default_vector_bias gemm_transposeA
        gemm_transposeB""",
    "conv": """basic_conv_with_padding basic_conv_without_padding conv_with_autopad_same
        conv_with_strides_and_asymmetric_padding conv_with_strides_no_padding
        conv_with_strides_padding convtranspose convtranspose_1d convtranspose_3d
        convtranspose_autopad_same convtranspose_dilations convtranspose_kernel_shape
        convtranspose_output_shape convtranspose_pad convtranspose_pads
        convtranspose_with_kernel""",
    "pool": """averagepool_2d_ceil averagepool_2d_precomputed_pads
        averagepool_2d_precomputed_pads_count_include_pad averagepool_2d_precomputed_same_upper
        averagepool_2d_precomputed_strides averagepool_1d_default globalaveragepool_precomputed
        globalmaxpool_precomputed maxpool_1d_default maxpool_2d_ceil maxpool_2d_dilations
        maxpool_2d_precomputed_pads maxpool_2d_precomputed_same_upper
        maxpool_2d_precomputed_strides maxpool_2d_uint8 maxpool_with_argmax_2d_precomputed_pads
        maxpool_2d_same_lower""",
    "reduce": """reduce_l1_do_not_keepdims_example reduce_l1_negative_axes_keep_dims_random
        reduce_l2_default_axes_keepdims_example reduce_l2_do_not_keepdims_random
        reduce_log_sum reduce_log_sum_asc_axes reduce_log_sum_default
        reduce_log_sum_exp_default_axes_keepdims_random
        reduce_log_sum_exp_negative_axes_keepdims_example reduce_max_do_not_keepdims_example
        reduce_max_keepdims_random reduce_mean_default_axes_keepdims_example
        reduce_mean_negative_axes_keepdims_random reduce_min_do_not_keepdims_random
        reduce_min_negative_axes_keepdims_example reduce_prod_do_not_keepdims_example
        reduce_prod_keepdims_random reduce_sum_default_axes_keepdims_random
        reduce_sum_do_not_keepdims_example reduce_sum_empty_axes_input_noop_example
        reduce_sum_negative_axes_keepdims_random reduce_sum_square_do_not_keepdims_example
        reduce_sum_square_negative_axes_keepdims_random""",
    "sort": """argmax_default_axis_example argmax_default_axis_example_select_last_index
        argmax_negative_axis_keepdims_random argmax_no_keepdims_random
        argmin_keepdims_random_select_last_index argmin_no_keepdims_example_select_last_index
        argmin_negative_axis_keepdims_example top_k top_k_negative_axis top_k_smallest
        cumsum_1d cumsum_1d_exclusive cumsum_1d_reverse cumsum_1d_reverse_exclusive
        cumsum_2d_axis_0 cumsum_2d_axis_1 cumsum_2d_negative_axis""",
    "softmax": """softmax_axis_0 softmax_axis_1 softmax_axis_2 softmax_default_axis softmax_example
        softmax_large_number softmax_negative_axis logsoftmax_axis_0 logsoftmax_axis_1
        logsoftmax_example_1 logsoftmax_large_number logsoftmax_negative_axis""",
    "norm": """layer_normalization_2d_axis0 layer_normalization_2d_axis_negative_1
        layer_normalization_3d_axis1_epsilon layer_normalization_3d_axis_negative_3_epsilon
        layer_normalization_4d_axis2 layer_normalization_default_axis batchnorm_epsilon
        batchnorm_example instancenorm_epsilon instancenorm_example""",
    "gather": """gather_0 gather_1 gather_2d_indices gather_negative_indices gather_elements_0
        gather_elements_1 gather_elements_negative_indices gathernd_example_float32
        gathernd_example_int32 gathernd_example_int32_batch_dim1""",
    "scatter": """scatter_elements_with_axis scatter_elements_with_duplicate_indices
        scatter_elements_with_negative_indices scatter_elements_without_axis scatternd
        scatternd_add scatternd_multiply""",
    "move": """concat_1d_axis_0 concat_1d_axis_negative_1 concat_2d_axis_0 concat_2d_axis_1
        concat_2d_axis_negative_2 concat_3d_axis_1 concat_3d_axis_2 concat_3d_axis_negative_3
        constant_pad edge_pad reflect_pad expand_dim_changed expand_dim_unchanged flatten_axis0
        flatten_axis1 flatten_axis2 flatten_axis3 flatten_default_axis flatten_negative_axis1
        flatten_negative_axis4 nonzero_example reshape_allowzero_reordered reshape_extended_dims
        reshape_negative_dim reshape_negative_extended_dims reshape_one_dim reshape_reduced_dims
        reshape_reordered_all_dims reshape_reordered_last_dims reshape_zero_and_negative_dim
        reshape_zero_dim slice slice_default_axes slice_default_steps slice_end_out_of_bounds
        slice_neg slice_neg_steps slice_negative_axes slice_start_out_of_bounds
        split_equal_parts_1d split_equal_parts_2d split_equal_parts_default_axis
        split_variable_parts_1d split_variable_parts_2d split_variable_parts_default_axis
        split_zero_size_splits squeeze squeeze_negative_axes tile_precomputed
        transpose_all_permutations_0 transpose_all_permutations_1 transpose_all_permutations_2
        transpose_all_permutations_3 transpose_all_permutations_4 transpose_all_permutations_5
        transpose_default unsqueeze_axis_0 unsqueeze_axis_1 unsqueeze_axis_2 unsqueeze_axis_3
        unsqueeze_negative_axes unsqueeze_three_axes unsqueeze_two_axes unsqueeze_unsorted_axes""",
}


def write_case(folder, node, body):
    os.makedirs(folder, exist_ok=True)
    names = {}
    lines = ["rlx 1"]
    for i, index in enumerate(body.keeps):
        names[index] = "x%d" % i
        lines.append("input x%d : %s" % (i, node.inputs[index].type()))
    places = [names.get(i, "_") for i in range(len(node.inputs))]
    lines += [line.format(*places) for line in body.lines]
    lines += ["output y%d" % i for i in range(len(node.outputs))]
    with open(os.path.join(folder, "model.rlx"), "w") as file:
        file.write("\n".join(lines) + "\n")
    kept = [node.inputs[index] for index in body.keeps]
    for prefix, tensors in (("in", kept), ("out", node.outputs)):
        for i, tensor in enumerate(tensors):
            with open(os.path.join(folder, "%s_%d.npy" % (prefix, i)), "wb") as file:
                file.write(tensor.npy())


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    source = sys.argv[1] if len(sys.argv) > 1 else "/usr/share/libonnx-testdata/data/node"
    target = sys.argv[2] if len(sys.argv) > 2 else os.path.join(here, "cases")
    count = 0
    for family, names in WANTED.items():
        for name in names.split():
            node = Node(os.path.join(source, "test_" + name))
            body = ROWS[node.op](node)
            write_case(os.path.join(target, family, "onnx_" + name), node, body)
            count += 1
    print("%d cases" % count)


if __name__ == "__main__":
    main()
