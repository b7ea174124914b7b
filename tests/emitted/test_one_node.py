"""Models of one node that once were refused, stopped, or gave another result.

Found by building models from the schemas of all operators, versions and types: see
test_operators.py for those that a case of the table can hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.contrib_models import assert_close, emitted, session

import fairhand
from fairhand.analysis.errors import Unsupported

Arrays = dict[str, Any]


def one_node(
    op: str,
    opset: int,
    feeds: Arrays,
    weights: Arrays | None = None,
    shapes: dict[str, list[Any]] | None = None,
    outputs: str = "y",
    **attrs: Any,
) -> onnx.ModelProto:
    names = sorted({*feeds, *(weights or {})})
    node = helper.make_node(op, names, outputs.split(), **attrs)
    inputs = [
        helper.make_tensor_value_info(
            name,
            (
                onnx.TensorProto.STRING
                if x.dtype == object
                else helper.np_dtype_to_tensor_dtype(x.dtype)
            ),
            (shapes or {}).get(name, x.shape),
        )
        for name, x in feeds.items()
    ]
    constants = [numpy_helper.from_array(x, n) for n, x in (weights or {}).items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs.split()]
    graph = helper.make_graph([node], "one", inputs, results, constants)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check(model: onnx.ModelProto, feeds: Arrays, folder: Path) -> str:
    made, text = emitted(model, folder)
    assert_close(made.run(None, feeds), session(model).run(None, feeds))
    return text


def test_a_cast_to_a_type_that_is_a_word(tmp_path: Path) -> None:
    """As before opset 6; the inputs that a check would draw hang on the type."""
    x = {"x": np.array([1, 2, 300], np.int32)}
    for word, dtype in (("FLOAT", np.float32), ("BOOL", np.bool_)):
        made, _ = emitted(one_node("Cast", 1, x, to=word), tmp_path / word)
        assert_close(made.run(None, x), [x["x"].astype(dtype)])


def test_places_of_fewer_elements_than_the_data(tmp_path: Path) -> None:
    """The elements of both are known when the model is compiled."""
    x = {"a": np.arange(24).reshape(2, 3, 4)}
    places = {"b": np.array([[[3], [-1]]])}
    model = one_node("GatherElements", 13, {}, x | places, axis=-1)
    check(model, {}, tmp_path)


def test_bounds_of_unknown_number(tmp_path: Path) -> None:
    feeds = {
        "a": np.arange(24.0).reshape(2, 3, 4),
        "b": np.array([0, 1]),
        "c": np.array([9, 3]),
    }
    shapes: dict[str, list[Any]] = {"b": ["n"], "c": ["n"]}
    text = check(one_node("Slice", 13, feeds, shapes=shapes), feeds, tmp_path)
    assert "slice_axes(a, b.tolist(), c.tolist())" in text


@pytest.mark.parametrize("op", ["Size", "Shape"])
def test_sizes_of_strings(op: str, tmp_path: Path) -> None:
    feeds = {"x": np.array([["a", "b", "c"]], object)}
    check(one_node(op, 21, feeds), feeds, tmp_path)


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_sequences_of_no_steps(op: str, tmp_path: Path) -> None:
    """Their last state is not the first one that is given, but zeros."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    random = np.random.default_rng(1).standard_normal
    shapes = {"a": (3, 2, 1), "b": (2, gates * 2, 1), "c": (2, gates * 2, 2)}
    shapes |= {"d": (2, gates * 4), "f": (2, 2, 2)}
    shapes |= {"g": (2, 2, 2)} if op == "LSTM" else {}
    given = {name: random(s).astype(np.float32) for name, s in shapes.items()}
    given["e"] = np.array([0, 2], np.int32)
    feeds = {name: given[name] for name in ("a", "e")}
    weights = {name: x for name, x in given.items() if name not in feeds}
    outputs = "y h c_" if op == "LSTM" else "y h"
    attrs: Arrays = {"hidden_size": 2, "direction": "bidirectional"}
    model = one_node(op, 14, feeds, weights, None, outputs, **attrs)
    check(model, feeds, tmp_path)


MALFORMED: dict[str, tuple[str, Arrays, Arrays, dict[str, Any]]] = {
    "there is no type 99": ("Cast", {"a": np.ones(2)}, {}, {"to": 99}),
    "Unsqueeze.*more than once": (
        "Unsqueeze",
        {"a": np.ones(2)},
        {"b": np.array([0, 0])},
        {},
    ),
    "Range: its attributes": (
        "Range",
        {},
        {"a": np.array(0), "b": np.array(5), "c": np.array(0)},
        {},
    ),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_malformed(what: str, tmp_path: Path) -> None:
    op, feeds, weights, attrs = MALFORMED[what]
    with pytest.raises(fairhand.FairhandError, match=what):
        model = one_node(op, 20, feeds, weights, **attrs)
        fairhand.compile(model, tmp_path / "net", verify=False)


COMPLEX = np.array([[1 + 2j, 3]], np.complex64)
REFUSED: dict[str, tuple[str, Arrays, Arrays, dict[str, Any]]] = {
    "Pad with a complex number": (
        "Pad",
        {"a": COMPLEX},
        {"b": np.array([0, 1, 0, 1]), "c": np.array(1j, np.complex64)},
        {},
    ),
    "Pad on type string": (
        "Pad",
        {"a": np.array(["x"], object)},
        {"b": np.array([0, 1]), "c": np.array("-", object)},
        {},
    ),
    "without channels": (
        "BatchNormalization",
        {"a": np.zeros((2, 0), np.float32)},
        dict.fromkeys("bcde", np.zeros(0, np.float32)),
        {},
    ),
    "to no elements": (
        "Resize",
        {"a": np.ones((1, 1, 1, 4), np.float32)},
        {"b": np.zeros(0, np.float32), "c": np.array([1, 1, 0.3, 1], np.float32)},
        {"mode": "cubic"},
    ),
    "Unique of complex": ("Unique", {"a": COMPLEX}, {}, {"axis": 0}),
    "Col2Im of uint16": (
        "Col2Im",
        {"a": np.ones((1, 4, 1), np.uint16)},
        {"b": np.array([2, 2]), "c": np.array([2, 2])},
        {},
    ),
    "reduction max on type complex64": (
        "ScatterElements",
        {"a": COMPLEX, "b": np.array([[0]]), "c": COMPLEX[:, :1]},
        {},
        {"reduction": "max", "axis": 1},
    ),
    "over a single element": (
        "AffineGrid",
        {"a": np.ones((1, 2, 3), np.float32)},
        {"b": np.array([1, 1, 1, 4])},
        {"align_corners": 1},
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str, tmp_path: Path) -> None:
    op, feeds, weights, attrs = REFUSED[what]
    model = one_node(op, 20, feeds, weights, **attrs)
    with pytest.raises(Unsupported, match=what):
        fairhand.compile(model, tmp_path / "net", verify=False)


def test_a_call_that_leaves_out_the_last_input_and_output(tmp_path: Path) -> None:
    body = [
        helper.make_node("Clip", ["a", "low"], ["b"]),
        helper.make_node("Neg", ["a"], ["c"]),
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    function = helper.make_function(
        "own", "Both", ["a", "low"], ["b", "c"], body, opsets[:1]
    )
    x = np.array([1, -2], np.float32)
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    graph = helper.make_graph(
        [helper.make_node("Both", ["x"], ["y"], domain="own")],
        "call",
        [info],
        [onnx.ValueInfoProto(name="y")],
    )
    model = helper.make_model(
        graph, functions=[function], opset_imports=opsets, ir_version=8
    )
    made, _ = emitted(model, tmp_path)
    assert_close(made.run(None, {"x": x}), [x])


def test_a_condition_longer_than_its_axis_of_open_size(tmp_path: Path) -> None:
    x = {"a": np.arange(6.0), "b": np.array([1, 0, 1, 0, 1, 0, 1, 1], np.bool_)}
    model = one_node("Compress", 11, x, shapes={"a": ["N"], "b": ["M"]})
    check(model, x, tmp_path)


def test_an_inverse_of_pooling_of_open_size(tmp_path: Path) -> None:
    x: Arrays = {"a": np.ones((1, 1, 2, 3), np.float32)}
    x["b"] = np.arange(6).reshape(1, 1, 2, 3) * 2
    open_size = {"a": [1, 1, "H", "W"], "b": [1, 1, "H", "W"]}
    windows = {"kernel_shape": [2, 2], "strides": [2, 2]}
    check(one_node("MaxUnpool", 11, x, shapes=open_size, **windows), x, tmp_path)


def test_a_switch_that_is_on_at_one_alone(tmp_path: Path) -> None:
    x = {"x": np.array([1, 500, -1e6, np.inf], np.float32)}
    model = one_node("Cast", 19, x, outputs="q", to=17, saturate=-1)
    model.graph.node.append(helper.make_node("Cast", ["q"], ["y"], to=1))
    model.graph.output[0].name = "y"
    check(model, x, tmp_path)


def test_classes_of_characters_are_of_ascii(tmp_path: Path) -> None:
    x = {"x": np.array(["ab_1", "é", "٣", "a b"], object)}
    model = one_node("RegexFullMatch", 20, x, pattern=r"\w+|\d")
    assert "(?a)" in check(model, x, tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_whole_numbers_are_resized_and_cut_off(dtype: str, tmp_path: Path) -> None:
    x = {"a": np.arange(-5, 13).reshape(1, 2, 3, 3).astype(dtype)}
    twice = {"c": np.array([1, 1, 2, 2], np.float32)}
    model = one_node("Resize", 19, x, twice, mode="linear")
    model.graph.node[0].input.insert(1, "")
    check(model, x, tmp_path)
