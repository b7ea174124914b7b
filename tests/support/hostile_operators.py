"""Small networks of one operator, and each in every wrong way its schema tells of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

VAST, WIDE = 2**62, 2**31
FLOATS = "(float[2, 3, 8, 8] x) => (float[a, b, c, d] y)"
ROWS = "(float[4, 6] x) => (float[a, b] y)"
PLAIN = "(float[4, 6] x) => (float y)"
WEIGHTS: dict[str, Any] = {
    "k": np.ones((4, 3, 3, 3), np.float32),
    "kt": np.ones((3, 4, 3, 3), np.float32),
    "m": np.ones((6, 5), np.float32),
    "six": np.ones(6, np.float32),
    "three": np.ones(3, np.float32),
    "i": np.array([1, 0], np.int64),
    "two": np.array([2], np.int64),
    "one": np.array(1, np.int64),
    "sizes": np.array([1, 1, 2, 2], np.float32),
    "pads": np.array([0, 1, 0, 1], np.int64),
    "scale": np.array(0.1, np.float32),
    "zero": np.array(0, np.uint8),
    "lw": np.ones((1, 20, 6), np.float32),
    "lr": np.ones((1, 20, 5), np.float32),
}
# An operator's node, and the interface of the network around it.
SEEDS = {
    "y = Relu(x)": ROWS,
    "y = LeakyRelu<alpha = 0.1>(x)": ROWS,
    "y = Clip(x)": ROWS,
    "y = Add(x, six)": ROWS,
    "y = MatMul(x, m)": ROWS,
    "y = Gemm<alpha = 0.5, transA = 0>(x, m)": ROWS,
    'y = Einsum<equation = "ab,bc->ac">(x, m)': ROWS,
    "y = Conv<pads = [1, 1, 1, 1], group = 1>(x, k)": FLOATS,
    "y = ConvTranspose<strides = [2, 2]>(x, kt)": FLOATS,
    "y = MaxPool<kernel_shape = [2, 2]>(x)": FLOATS,
    "y = AveragePool<kernel_shape = [2, 2]>(x)": FLOATS,
    "y = LpPool<kernel_shape = [2, 2], p = 2>(x)": FLOATS,
    "y = GlobalAveragePool(x)": FLOATS,
    "y = LRN<size = 3>(x)": FLOATS,
    "y = InstanceNormalization(x, three, three)": FLOATS,
    "y = BatchNormalization(x, three, three, three, three)": FLOATS,
    "y = LayerNormalization(x, six)": ROWS,
    "y = GroupNormalization<num_groups = 3>(x, three, three)": FLOATS,
    "y = Softmax<axis = -1>(x)": ROWS,
    "y = Hardmax<axis = 1>(x)": ROWS,
    "y = ReduceSum<keepdims = 0>(x)": PLAIN,
    "y = ArgMax<axis = 1>(x)": "(float[4, 6] x) => (int64[a, b] y)",
    "y, t = TopK<axis = 1>(x, two)": ROWS,
    "y = CumSum(x, one)": ROWS,
    "y = Transpose<perm = [1, 0]>(x)": ROWS,
    "y = Reshape(x, i)": PLAIN,
    "y = Flatten<axis = 1>(x)": ROWS,
    "y = Squeeze(x)": PLAIN,
    "y = Unsqueeze(x, two)": PLAIN,
    "y = Concat<axis = 0>(x, x)": ROWS,
    "y, t = Split<axis = 1, num_outputs = 2>(x)": ROWS,
    "y = Slice(x, two, two)": ROWS,
    "y = Gather<axis = 1>(x, i)": ROWS,
    "y = GatherND<batch_dims = 0>(x, i)": PLAIN,
    "y = GatherElements<axis = 0>(x, j)": "(float[4, 6] x, int64[2, 2] j) => (float y)",
    "y = ScatterND(x, two, x)": PLAIN,
    'y = Pad<mode = "edge">(x, pads)': ROWS,
    "y = Expand(x, i)": PLAIN,
    "y = Tile(x, i)": ROWS,
    "y = Where(b, x, x)": "(float[4, 6] x, bool[4, 6] b) => (float y)",
    "y = Cast<to = 7>(x)": "(float[4, 6] x) => (int64 y)",
    "y = OneHot<axis = -1>(j, two, six)": "(int64[3] j) => (float y)",
    "y = Range(x, x, x)": "(float x) => (float[n] y)",
    'y = Resize<mode = "linear">(x, , sizes)': FLOATS,
    "y = DepthToSpace<blocksize = 1>(x)": FLOATS,
    "y = GridSample(x, g)": "(float[1, 3, 8, 8] x, float[1, 2, 2, 2] g) => (float y)",
    "y = LSTM<hidden_size = 5>(s, lw, lr)": "(float[3, 2, 6] s) => (float y)",
    "y = QuantizeLinear(x, scale, zero)": "(float[4, 6] x) => (uint8 y)",
    "y = Trilu<upper = 1>(x)": ROWS,
    "y = EyeLike<k = 1>(x)": ROWS,
    "y = NonZero(x)": "(float[4, 6] x) => (int64[a, b] y)",
    'y = BitShift<direction = "LEFT">(u, u)': "(uint8[3] u) => (uint8[3] y)",
    "y = Mod<fmod = 0>(j, j)": "(int64[3] j) => (int64[3] y)",
    "y = StringSplit<maxsplit = 2>(w)": "(string[3] w) => (string[a, b] y)",
}


def seed(node: str, interface: str = "", opset: int = 20) -> ModelProto:
    """A network of these nodes, with those of WEIGHTS that they take."""
    text = f'<ir_version: 9, opset_import: ["" : {opset}]> g '
    made = onnx.parser.parse_model(f"{text}{interface or SEEDS[node]} {{ {node} }}")
    taken = {name for each in made.graph.node for name in each.input}
    for name in sorted(taken & WEIGHTS.keys()):
        tensor = onnx.numpy_helper.from_array(WEIGHTS[name], name)
        made.graph.initializer.append(tensor)
    return made


# ---- one operator, in every wrong way that its schema tells of

BAD: dict[int, list[Any]] = {
    AttributeProto.INT: [-1, 0, 99, VAST, -VAST, 2**31, [1], "1", 0.5],
    AttributeProto.FLOAT: [float("nan"), float("inf"), -1e38, 3e38, 1, "x"],
    AttributeProto.STRING: ["", "nothing", "\0", b"\xff\xfe", "x" * 5000, 7, "'''\n"],
    AttributeProto.INTS: [[], [-1], [0, 0], [VAST] * 2, [1] * 9, [1, 1, 1, -VAST], 3],
    AttributeProto.FLOATS: [[], [float("nan")] * 2, 1.0],
    AttributeProto.STRINGS: [[], [""], ["\0", "x" * 5000], "x"],
}


def wrong_attributes(name: str) -> Iterator[tuple[str, ModelProto]]:
    """An operator of SEEDS with attributes of other types, sizes and values."""
    schema = onnx.defs.get_schema(seed(name).graph.node[0].op_type, 20)
    for key, attribute in sorted(schema.attributes.items()):
        for number, value in enumerate(BAD.get(int(attribute.type), [])):
            made = seed(name)
            _set(made.graph.node[0], key, value)
            yield f"{key}_{number}", made
    made = seed(name)
    _set(made.graph.node[0], "no_such_attribute", 1)
    yield "unknown_attribute", made
    made = seed(name)
    node = made.graph.node[0]
    node.attribute.extend([helper.make_attribute("axis", 0)] * 2)
    yield "attribute_twice", made
    made = seed(name)
    for attribute in made.graph.node[0].attribute:
        attribute.ref_attr_name = "outer"
    yield "attribute_of_no_function", made
    made = seed(name)
    made.graph.node[0].ClearField("attribute")
    yield "no_attributes", made


def _set(node: NodeProto, key: str, value: Any) -> None:
    kept = [each for each in node.attribute if each.name != key]
    node.ClearField("attribute")
    node.attribute.extend(kept)
    kind = AttributeProto.INTS if value == [] else None
    node.attribute.append(helper.make_attribute(key, value, attr_type=kind))


def wrong_values(name: str) -> Iterator[tuple[str, ModelProto]]:
    """An operator of SEEDS with other inputs and outputs, types and sizes."""
    changes: dict[str, Callable[[ModelProto], Any]] = {
        "no_inputs": lambda m: m.graph.node[0].ClearField("input"),
        "empty_input": lambda m: m.graph.node[0].input.__setitem__(0, ""),
        "many_inputs": lambda m: m.graph.node[0].input.extend(["x"] * 40),
        "many_outputs": lambda m: m.graph.node[0].output.extend(list("pqrstuv")),
        "no_outputs": lambda m: m.graph.node[0].ClearField("output"),
        "of_itself": lambda m: m.graph.node[0].input.__setitem__(0, "y"),
        "of_nothing": lambda m: m.graph.node[0].input.__setitem__(0, "nowhere"),
        "output_is_input": lambda m: m.graph.node[0].output.__setitem__(0, "x"),
        "domain": lambda m: setattr(m.graph.node[0], "domain", "a.b"),
        "operator": lambda m: setattr(m.graph.node[0], "op_type", "os.system('x')"),
    }
    for kind in ("STRING", "BOOL", "DOUBLE", "INT8", "COMPLEX64", "UNDEFINED", "INT4"):
        changes[f"takes_{kind}"] = partial(
            _retype, "input", TensorProto.DataType.Value(kind)
        )
        changes[f"gives_{kind}"] = partial(
            _retype, "output", TensorProto.DataType.Value(kind)
        )
    for label, sizes in {
        "empty": [0],
        "vast": [VAST],
        "wide": [WIDE, WIDE, WIDE],
        "negative": [-1],
        "one_more": [2, 3, 4, 5, 6, 7],
        "none": [],
    }.items():
        changes[f"takes_{label}"] = partial(_resize, "input", sizes)
        changes[f"gives_{label}"] = partial(_resize, "output", sizes)
    changes["all_empty"] = partial(_resize, "input", None)
    for label, change in changes.items():
        made = seed(name)
        change(made)
        yield label, made


def _retype(side: str, kind: int, made: ModelProto) -> None:
    getattr(made.graph, side)[0].type.tensor_type.elem_type = kind


def _resize(side: str, sizes: list[int] | None, made: ModelProto) -> None:
    for value in getattr(made.graph, side)[: None if sizes is None else 1]:
        dims = value.type.tensor_type.shape.dim
        if sizes is None or len(sizes) == 1:
            for dim in dims:
                dim.Clear()
                dim.dim_value = sizes[0] if sizes else 0
            continue
        value.type.tensor_type.shape.ClearField("dim")
        for size in sizes:
            value.type.tensor_type.shape.dim.add().dim_value = size
