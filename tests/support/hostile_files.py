"""ONNX files that are wrong, or ask too much: made from small ones, by name.

`cases()` gives them all: each is what writes one file into a folder. Some load, most
don't; none may be compiled wrong, end a process, or take its time or memory.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

from .hostile_operators import (
    FLOATS,
    PLAIN,
    ROWS,
    SEEDS,
    VAST,
    seed,
    wrong_attributes,
    wrong_values,
)

Case = Callable[[Path], Path]  # writes into a folder, and tells which file is the model

# ---- graphs that are none


def _graphs() -> Iterator[tuple[str, ModelProto]]:
    def two(change: Callable[[Any], Any]) -> ModelProto:
        made = seed("a = Relu(x) b = Neg(a) y = Add(a, b)", ROWS)
        change(made.graph)
        return made

    node = helper.make_node
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6])
    far = helper.make_tensor_value_info("a", TensorProto.INT64, [9, 9, 9])
    changes: dict[str, Callable[[Any], Any]] = {
        "cycle": lambda g: g.node[0].input.__setitem__(0, "b"),
        "backwards": lambda g: g.node.insert(0, g.node.pop()),
        "output_twice": lambda g: g.node[1].output.__setitem__(0, "a"),
        "node_twice": lambda g: g.node.append(g.node[0]),
        "input_twice": lambda g: g.input.append(value),
        "weight_made": lambda g: g.initializer.append(_tensor("a", [4, 6])),
        "weight_fed": lambda g: g.initializer.append(_tensor("x", [9, 9])),
        "weight_twice": lambda g: g.initializer.extend([_tensor("w", [1])] * 2),
        "weight_unnamed": lambda g: g.initializer.append(_tensor("", [1])),
        "no_nodes": lambda g: g.ClearField("node"),
        "no_outputs": lambda g: g.ClearField("output"),
        "no_inputs": lambda g: g.ClearField("input"),
        "output_of_nothing": lambda g: setattr(g.output[0], "name", "nowhere"),
        "output_unnamed": lambda g: setattr(g.output[0], "name", ""),
        "output_untyped": lambda g: g.output[0].ClearField("type"),
        "input_untyped": lambda g: g.input[0].ClearField("type"),
        "input_sequence": lambda g: g.input[0].type.sequence_type.elem_type.Clear(),
        "input_map": lambda g: setattr(g.input[0].type.map_type, "key_type", 1),
        "lies_between": lambda g: g.value_info.append(far),
        "unnamed_node": lambda g: setattr(g.node[0], "op_type", ""),
        "constant_of_nothing": lambda g: g.node.append(node("Constant", [], ["c"])),
    }
    for label, change in changes.items():
        yield label, two(change)


def _tensor(name: str, dims: list[int]) -> TensorProto:
    return helper.make_tensor(
        name, TensorProto.FLOAT, dims, np.zeros(dims).ravel().tolist()
    )


def _tensors() -> Iterator[tuple[str, ModelProto]]:
    """Weights whose parts disagree."""
    changes: dict[str, Callable[[TensorProto], Any]] = {
        "short": lambda t: setattr(t, "raw_data", t.raw_data[:-1]),
        "long": lambda t: setattr(t, "raw_data", t.raw_data * 2),
        "none": lambda t: setattr(t, "raw_data", b""),
        "both": lambda t: t.float_data.extend([1.0] * 6),
        "negative": lambda t: t.dims.__setitem__(0, -6),
        "vast": lambda t: t.dims.extend([VAST, VAST]),
        "overflowing": lambda t: t.dims.extend([2**32, 2**32]),
        "empty_vast": lambda t: t.dims.extend([VAST, 0]),
        "untyped": lambda t: setattr(t, "data_type", 0),
        "unknown_type": lambda t: setattr(t, "data_type", 999),
        "string": lambda t: setattr(t, "data_type", TensorProto.STRING),
        "int4": lambda t: setattr(t, "data_type", TensorProto.INT4),
        "complex": lambda t: setattr(t, "data_type", TensorProto.COMPLEX128),
        "segment": lambda t: setattr(t.segment, "begin", 5),
    }
    for label, change in changes.items():
        made = seed("y = Add(x, six)")
        change(made.graph.initializer[0])
        yield label, made
    for label, dims, places in (
        ("vast", [VAST, VAST], [0]),
        ("outside", [2, 3], [7]),
        ("negative", [2, 3], [-1]),
        ("unsorted", [2, 3], [4, 1]),
        ("twice", [2, 3], [1, 1]),
    ):
        made = seed("y = Add(x, s)", ROWS)
        sparse = made.graph.sparse_initializer.add(dims=dims)
        sparse.values.CopyFrom(
            helper.make_tensor("s", 1, [len(places)], [1.0] * len(places))
        )
        sparse.indices.CopyFrom(helper.make_tensor("i", 7, [len(places)], places))
        yield f"sparse_{label}", made


def _opsets() -> Iterator[tuple[str, ModelProto]]:
    for version in (-1, 0, 1, 6, 999, VAST):
        made = seed("y = Clip(x)")
        made.opset_import[0].version = version
        yield f"opset_{version}", made
    for version in (0, 1, 99, 2**31):
        made = seed("y = Clip(x)")
        made.ir_version = version & 0x7FFFFFFF
        yield f"ir_{version}", made
    made = seed("y = Clip(x)")
    made.ClearField("opset_import")
    yield "no_opset", made
    made = seed("y = Clip(x)")
    made.opset_import.append(helper.make_opsetid("", 7))
    yield "two_opsets", made
    made = seed("y = Clip(x)")
    made.opset_import.append(helper.make_opsetid("__import__('os')", 7))
    yield "opset_of_a_strange_domain", made
    for node, opset in (
        ('y = Upsample<mode = "nearest">(x, sizes)', 20),
        ("y = Clip<min = 0.0, max = 1.0>(x)", 20),
        ("y = Gelu(x)", 9),
        ("y = Squeeze<axes = [0]>(x)", 20),
        ("y = Dropout<ratio = 0.5>(x)", 20),
        ("y = Scan(x)", 8),
        ("y = Attention(x, x, x)", 20),
    ):
        yield f"{node.split()[2][:12]}_{opset}", seed(node, FLOATS, opset)


# ---- bodies and functions


def _bodies() -> Iterator[tuple[str, ModelProto]]:
    """If, Loop, Scan: names of other scopes, and values that don't fit."""
    head = "(float[4, 6] x, bool c) => (float[a, b] y)"
    same = "t () => (float[4, 6] {0}) {{ {0} = Relu({1}) }}"
    for label, then, other in (
        ("else_names_then", same.format("p", "x"), same.format("q", "p")),
        ("then_names_itself", same.format("p", "p"), same.format("q", "x")),
        ("one_name", same.format("p", "x"), same.format("p", "x")),
        ("outer_name", same.format("x", "x"), same.format("q", "x")),
        ("name_of_the_result", same.format("y", "x"), same.format("q", "x")),
        ("two_results", same.format("p", "x"), "t () => () { q = Relu(x) }"),
        (
            "other_type",
            same.format("p", "x"),
            "t () => (int64[2] q) { q = Shape(x) }",
        ),
        (
            "takes_inputs",
            "t (float z) => (float p) { p = Relu(z) }",
            same.format("q", "x"),
        ),
    ):
        node = f"y = If(c)<then_branch = {then}, else_branch = {other}>"
        try:
            yield f"if_{label}", seed(node, head)
        except onnx.parser.ParseError:
            node = f"y = If <then_branch = {then}, else_branch = {other}> (c)"
            yield f"if_{label}", seed(node, head)
    yield "if_without_branches", seed("y = If(c)", head)
    takes, counts = "int64 i, bool k, float", "b (int64 i, bool k, float v) =>"
    negated = "(bool k, float w) { w = Neg(v) }"
    for label, body, count in (
        ("vast", f"{counts} {negated}", VAST),
        ("negative", f"{counts} {negated}", -5),
        ("few_inputs", "b (int64 i) => (bool k) { k = Cast<to = 9>(i) }", 2),
        ("few_results", f"{counts} (bool k) {{ q = Neg(v) }}", 2),
        (
            "many_results",
            f"{counts} (bool k, float v, float v, float v) {{ q = Neg(v) }}",
            2,
        ),
        (
            "growing",
            f"b ({takes}[n] v) => (bool k, float[m] w) "
            "{ w = Concat<axis = 0>(v, v) }",
            60,
        ),
        ("condition_of_float", f"{counts} (float v, float w) {{ w = Neg(v) }}", 2),
    ):
        made = seed(
            f"y = Loop <body = {body}> (n, , x)", "(float[1] x) => (float[a] y)"
        )
        made.graph.initializer.append(helper.make_tensor("n", 7, [], [count]))
        yield f"loop_{label}", made
    for inputs, axes in (
        (0, "[0]"),
        (5, "[0]"),
        (-1, "[0]"),
        (1, "[9]"),
        (VAST, "[0]"),
    ):
        body = "b (float[6] v) => (float[6] w) { w = Neg(v) }"
        given = f"num_scan_inputs = {inputs}, scan_input_axes = {axes}"
        node = f"y = Scan <body = {body}, {given}> (x)"
        yield f"scan_{inputs}_{axes[1]}", seed(node, ROWS)
    deep = "p = Relu(x)"
    for level in range(12):
        branch = f"{{0}}{level} () => (float[4, 6] {{1}}) {{{{ {{2}} }}}}"
        then = branch.format("t", "p", deep)
        other = branch.format("e", "q", "q = Neg(x)")
        deep = f"p = If <then_branch = {then}, else_branch = {other}> (c)"
    made = seed(deep, "(float[4, 6] x, bool c) => (float[a, b] p)")
    yield "deep_branches", made


def _functions() -> Iterator[tuple[str, ModelProto]]:
    def function(name: str, nodes: list[NodeProto], inputs: str = "x") -> Any:
        imports = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
        return helper.make_function("own", name, list(inputs), ["y"], nodes, imports)

    def calling(name: str, functions: list[Any]) -> ModelProto:
        made = seed(f"y = {name}(x)", ROWS)
        made.graph.node[0].domain = "own"
        made.opset_import.append(helper.make_opsetid("own", 1))
        made.functions.extend(functions)
        return made

    def call(name: str, inputs: list[str], output: str, **given: Any) -> NodeProto:
        return helper.make_node(name, inputs, [output], domain="own", **given)

    plain = helper.make_node("Relu", ["x"], ["y"])
    yield "recursive", calling("f", [function("f", [call("f", ["x"], "y")])])
    yield "mutual", calling(
        "f",
        [
            function("f", [call("g", ["x"], "y")]),
            function("g", [call("f", ["x"], "y")]),
        ],
    )
    for depth in (12, 40):
        doubling = [
            function(
                f"f{i + 1}",
                [call(f"f{i}", ["x"], "a"), call(f"f{i}", ["a"], "y")],
            )
            for i in range(depth)
        ]
        yield (
            f"doubling_{depth}",
            calling(f"f{depth}", [function("f0", [plain]), *doubling]),
        )
    chain = [function(f"f{i + 1}", [call(f"f{i}", ["x"], "y")]) for i in range(300)]
    yield "long_chain", calling("f300", [function("f0", [plain]), *chain])
    yield "twice", calling("f", [function("f", [plain])] * 2)
    yield "of_nothing", calling("f", [])
    yield "many_inputs", calling("f", [function("f", [plain], "xabc")])
    yield "no_result", calling("f", [function("f", [])])
    yield "captures", calling(
        "f", [function("f", [helper.make_node("Add", ["x", "w"], ["y"])])]
    )
    shadow = function("f", [plain])
    shadow.domain, shadow.name = "", "Relu"
    made = seed("y = Relu(x)")
    made.functions.append(shadow)
    yield "shadows_an_operator", made
    unbound = helper.make_node("LeakyRelu", ["x"], ["y"])
    unbound.attribute.add(name="alpha", ref_attr_name="gone", type=AttributeProto.FLOAT)
    yield "attribute_of_nothing", calling("f", [function("f", [unbound])])


# ---- little files that ask for much


def _bombs() -> Iterator[tuple[str, ModelProto]]:
    def big(node: str, interface: str = PLAIN, **constants: Any) -> ModelProto:
        made = seed(node, interface)
        for name, array in constants.items():
            tensor = onnx.numpy_helper.from_array(np.asarray(array), name)
            made.graph.initializer.append(tensor)
        return made

    ends = (np.int64(0), np.int64(2**40), np.int64(1))
    twenty = " ".join(f"c{i + 1} = Concat<axis = 0>(c{i}, c{i})" for i in range(40))
    squares = " ".join(f"c{i + 1} = Mul(c{i}, c{i})" for i in range(70))
    yield "fill", big("c = ConstantOfShape(n) y = Add(x, c)", n=[2**36])
    yield "fill_2", big("c = ConstantOfShape(n) y = Add(x, c)", n=[2**20, 2**20])
    yield "fill_negative", big("c = ConstantOfShape(n) y = Add(x, c)", n=[-1])
    yield "range", big(
        "r = Range(a, b, c) f = Cast<to = 1>(r) y = Add(x, f)",
        **dict(zip("abc", ends, strict=True)),
    )
    yield "range_of_no_steps", big(
        "r = Range(a, b, c) f = Cast<to = 1>(r) y = Add(x, f)",
        a=np.int64(0),
        b=np.int64(9),
        c=np.int64(0),
    )
    yield "tile", big("c = Tile(six, n) y = Add(x, c)", n=[2**38])
    yield "expand", big("c = Expand(six, n) y = Add(x, c)", n=[2**20, 2**20, 6])
    yield "one_hot", big(
        "c = OneHot(i, n, v) y = Add(x, c)", n=np.int64(2**40), v=np.float32([0, 1])
    )
    yield "pad", big("c = Pad(six, n) y = Add(x, c)", n=[2**40, 2**40])
    yield "resize", big(
        "c = Resize(w, , n) y = Add(x, c)",
        n=np.float32([1e9]),
        w=np.ones(6, np.float32),
    )
    yield "concat", big(f"{twenty} y = Add(x, c40)", c0=np.ones(6, np.float32))
    yield "outer", big(
        "a = Unsqueeze(w, k0) b = MatMul(a, v) c = MatMul(b, b) y = Add(x, c)",
        w=np.ones(100_000, np.float32),
        k0=[1],
        v=np.ones((1, 100_000), np.float32),
    )
    yield "powers", big(
        f"{squares} y = Cast<to = 1>(c70)", "(int64 x) => (float y)", c0=np.int64(3)
    )
    yield "eye", big("c = EyeLike(w) y = Add(x, c)", w=np.ones((1, 1), np.float32))
    parts = ", ".join(f"s{i}" for i in range(3000))
    yield "split", big(
        f"{parts} = Split<axis = 0>(w, n) y = Add(x, s0)",
        w=np.ones(3000, np.float32),
        n=np.ones(3000, np.int64),
    )
    for op, a, b in (
        ("Div", 5, 0),
        ("Mod", 5, 0),
        ("Div", -(2**63), -1),
        ("Mod", -(2**63), -1),
        ("Pow", 3, 10**9),
    ):
        yield f"{op}_{a}_{b}", big(
            f"c = {op}(p, q) y = Add(x, c)",
            "(int64[3] x) => (int64[3] y)",
            p=np.int64([a]),
            q=np.int64([b]),
        )
    for value in (float("nan"), float("inf"), 1e30):
        yield f"cast_{value}", big(
            "c = Cast<to = 7>(p) y = Add(x, c)",
            "(int64[3] x) => (int64[3] y)",
            p=np.float32([value]),
        )
    yield "conv_vast_dilation", big(
        "y = Conv<dilations = [1000000000, 1000000000]>(x, k)", FLOATS
    )
    yield "pool_vast_kernel", big(
        "y = AveragePool<kernel_shape = [100000, 100000], pads = [99999, 99999, 99999,"
        " 99999]>(x)",
        FLOATS,
    )
    yield "einsum_of_all", big(
        'y = Einsum<equation = "ab,cd,ef,gh->abcdefgh">(x, x, x, x)', PLAIN
    )
    nested = " ".join(f"v{i + 1} = Transpose(v{i})" for i in range(3000))
    yield "long", big(nested, "(float[4, 6] v0) => (float[4, 6] v3000)")
    wide = " ".join(f"v{i} = Neg(x)" for i in range(3000))
    yield "wide", big(
        f"{wide} y = Max({', '.join(f'v{i}' for i in range(3000))})", ROWS
    )
    double = " ".join(f"v{i + 1} = Add(v{i}, v{i})" for i in range(200))
    yield "paths", big(double, "(float[4] v0) => (float[4] v200)")


# ---- names


TEXTS = {
    "quotes": "\"\"\"'''",
    "newline": "a\nimport os\n",
    "null": "a\0b",
    "dots": "../../etc/passwd",
    "format": "{self.__class__}%s",
    "jinja": "{{ 7 * 7 }}{% raw %}",
    "right_to_left": "a\u202eb\u2066",
    "keyword": "lambda",
    "builtin": "torch",
    "long": "n" * 20_000,
    "blank": " ",
    "number": "1.5",
    "emoji": "\U0001f600",
    "comment": "x # noqa",
    "escape": "\\N{BELL}\\",
}


def _names() -> Iterator[tuple[str, ModelProto]]:
    for label, text in TEXTS.items():
        made = seed("y = Add(x, six)")
        made.graph.input[0].name = made.graph.node[0].input[0] = text
        made.graph.node[0].name = made.graph.name = text
        made.graph.output[0].name = made.graph.node[0].output[0] = f"{text}!"
        made.graph.initializer[0].name = made.graph.node[0].input[1] = f"{text}w"
        yield f"all_{label}", made
        made = seed("y = Relu(x)")
        made.doc_string = made.producer_name = made.graph.doc_string = text
        made.domain = made.producer_version = text
        made.metadata_props.add(key=text, value=text)
        made.graph.node[0].doc_string = text
        yield f"docs_{label}", made
        made = seed("y = Relu(x)")
        for value in (*made.graph.input, *made.graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = text
        yield f"size_{label}", made


# ---- bytes


def _bytes() -> Iterator[tuple[str, bytes]]:
    whole = seed("y = Conv<pads = [1, 1, 1, 1], group = 1>(x, k)").SerializeToString()
    for place in range(0, min(len(whole), 160), 2):
        yield f"cut_{place}", whole[:place]
        for number in (0, 0x7F, 0xFF):
            changed = bytearray(whole)
            changed[place] = number
            yield f"byte_{place}_{number}", bytes(changed)
    yield "twice", whole * 2
    yield "behind", whole + b"\xff" * 11
    yield "vast_length", b"\x3a\xff\xff\xff\xff\x7f" + whole
    yield "groups", b"\x0b" * 50_000
    nested = b""
    for _ in range(500):  # graphs in attributes of nodes of graphs
        attribute = b"\x32" + _varint(len(nested)) + nested
        node = b"\x2a" + _varint(len(attribute)) + attribute
        nested = b"\x0a" + _varint(len(node)) + node
    yield "nested", b"\x3a" + _varint(len(nested)) + nested
    yield "empty", b""
    yield "zeros", bytes(100_000)
    yield "text", b"ir_version: 9"
    yield "zip", b"PK\x03\x04" + bytes(100)
    yield "pickle", b"\x80\x04\x95" + bytes(50)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


# ---- weights in other files

OUTSIDE: dict[str, dict[str, str]] = {
    "absolute": {"location": "/etc/passwd"},
    "above": {"location": "../../../../etc/passwd"},
    "inside_out": {"location": "sub/../../x"},
    "device": {"location": "/dev/zero", "length": "24"},
    "folder": {"location": "."},
    "itself": {"location": "m.onnx"},
    "missing": {"location": "gone"},
    "unnamed": {"location": ""},
    "null": {"location": "a\0b"},
    "long": {"location": "n" * 5000},
    "link": {"location": "link"},
    "pipe": {"location": "pipe"},
    "negative": {"location": "w", "offset": "-8"},
    "vast_offset": {"location": "w", "offset": str(VAST)},
    "vast_length": {"location": "w", "length": str(VAST)},
    "short": {"location": "w", "length": "4"},
    "no_number": {"location": "w", "offset": "0x10"},
    "minus_zero": {"location": "w", "offset": "-0"},
    "exponent": {"location": "w", "offset": "1e3"},
    "behind_the_end": {"location": "w", "offset": "4090", "length": "24"},
    "unaligned": {"location": "w", "offset": "3", "length": "24"},
    "wrong_sum": {"location": "w", "checksum": "00"},
    "more_keys": {"location": "w", "basepath": "/etc"},
    "nowhere": {},
}


def _outside(given: dict[str, str], folder: Path) -> Path:
    made = seed("y = Add(x, six)")
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in given.items():
        tensor.external_data.add(key=key, value=value)
    (folder / "w").write_bytes(bytes(4096))
    if given.get("location") == "link":
        (folder / "link").symlink_to("/etc/hosts")
    if given.get("location") == "pipe":
        os.mkfifo(folder / "pipe")
    return _written(made, folder)


def _written(made: ModelProto | bytes, folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    return path


def cases() -> dict[str, Case]:
    """All of them, by their names."""
    found: dict[str, Case] = {}
    families: dict[str, Iterator[tuple[str, ModelProto]]] = {
        "graph": _graphs(),
        "tensor": _tensors(),
        "opset": _opsets(),
        "body": _bodies(),
        "function": _functions(),
        "bomb": _bombs(),
        "name": _names(),
    }
    for name in SEEDS:
        op = seed(name).graph.node[0].op_type
        families[op] = itertools.chain(wrong_attributes(name), wrong_values(name))
    for family, made in families.items():
        for label, model in made:
            found[f"{family}.{label}"] = partial(_written, model)
    for label, data in _bytes():
        found[f"bytes.{label}"] = partial(_written, data)
    for label, given in OUTSIDE.items():
        found[f"outside.{label}"] = partial(_outside, given)
    return found
