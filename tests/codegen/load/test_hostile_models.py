"""Models that ask too much of a compiler: each is compiled right, or refused in words.

Sums of 800 operands, chains of 1,200 operators, numbers that fault, strings that
double. None may end the process, nest too deep, or take a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.emitter_models import run_here

import fairhand
from fairhand.analysis.errors import FairhandError
from fairhand.codegen.verify import parity

FLT_MAX = float(np.finfo(np.float32).max)
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "run_package", run_here)


def model(text: str, opset: int = 20, **weights: object) -> onnx.ModelProto:
    head = f'<ir_version: 9, opset_import: ["" : {opset}]> g '
    parsed = onnx.parser.parse_model(head + text)
    for name, array in weights.items():
        tensor = numpy_helper.from_array(np.asarray(array), name)
        parsed.graph.initializer.append(tensor)
    return parsed


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def joined(op: str, count: int) -> onnx.ModelProto:
    names = ", ".join("xz"[i % 2] for i in range(count))
    return model(f"(float[n] x, float[n] z) => (float[n] y) {{ y = {op}({names}) }}")


def chain(count: int) -> onnx.ModelProto:
    ops = ("Abs", "Sigmoid", "Sin", "Neg", "Tanh")
    lines = [f"v{i + 1} = {ops[i % 5]}(v{i})" for i in range(count)]
    return model(f"(float[n] v0) => (float[n] v{count}) {{ {' '.join(lines)} }}")


def many_outputs(count: int) -> onnx.ModelProto:
    names = ", ".join(f"float[3] y{i}" for i in range(count))
    lines = " ".join(f"y{i} = Add(x, c{i})" for i in range(count))
    weights = {f"c{i}": np.float32(i) for i in range(count)}
    return model(f"(float[3] x) => ({names}) {{ {lines} }}", **weights)


def doubling(count: int) -> onnx.ModelProto:
    lines = [f"s{i + 1} = StringConcat(s{i}, s{i})" for i in range(count)]
    text = f"{' '.join(lines)} y = StringConcat(x, s{count})"
    word = np.array(["ab"], object)
    return model(f"(string[n] x) => (string[n] y) {{ {text} }}", s0=word)


def folded(op: str, a: int, b: int, dtype: str) -> onnx.ModelProto:
    text = f"({dtype}[n] x) => ({dtype}[n] y) {{ c = {op}(a, b) y = Add(x, c) }}"
    return model(text, a=np.array([a], dtype), b=np.array([b], dtype))


def attribute(text: str, value: float) -> onnx.ModelProto:
    found = model(f"(float[n, 3] x) => (float[n, 3] y) {{ y = {text}(x) }}")
    found.graph.node[0].attribute.append(helper.make_attribute("alpha", value))
    return found


def filled(value: object) -> onnx.ModelProto:
    text = "(float[n, 3] x) => (float[n, 3] y) { s = Shape(x) c = ConstantOfShape(s)"
    found = model(text + " y = Min(x, c) }")
    tensor = numpy_helper.from_array(np.array([value], np.float32))
    found.graph.node[1].attribute.append(helper.make_attribute("value", tensor))
    return found


def held(tensor: TensorProto, text: str) -> onnx.ModelProto:
    found = model(text)
    found.graph.initializer.append(tensor)
    return found


def words(*texts: bytes) -> TensorProto:
    return helper.make_tensor("w", TensorProto.STRING, [len(texts)], list(texts))


EQUALS = "(string[n] x) => (bool[n] y) { y = Equal(x, w) }"
PADS = (np.float32(0.02), np.uint8(128), np.float32(0.01), np.uint8(120))


def quantised_conv(pads: str) -> onnx.ModelProto:
    xs, xz, ws, wz = PADS
    text = "(uint8[n, 2, 6, 6] x) => (uint8[n, 3, a, b] y)"
    text += f" {{ y = QLinearConv<pads = [{pads}]>(x, xs, xz, w, ws, wz, ys, xz) }}"
    kernel = RNG.integers(0, 255, (3, 2, 3, 3)).astype(np.uint8)
    scale = np.float32(0.1)
    return model(text, xs=xs, xz=xz, ws=ws, wz=wz, ys=scale, w=kernel)


def twice() -> onnx.ModelProto:
    found = model("(float[n] x) => (float[n] y) { y = Relu(x) }")
    found.graph.output.append(found.graph.output[0])
    return found


def unimported(domain: str, op: str) -> onnx.ModelProto:
    found = model(f"(float[n, 3] x) => (float[n, 3] y) {{ y = {op}(x) }}")
    found.graph.node[0].domain = domain
    return found


TABLE = "(int64[n] i) => (float[n, 4] y) "
OPENS: dict[str, Callable[[], onnx.ModelProto]] = {
    "chain of 1,200": lambda: chain(1200),
    "Sum of 800": lambda: joined("Sum", 800),
    "Mean of 800": lambda: joined("Mean", 800),
    "Max of 800": lambda: joined("Max", 800),
    "400 outputs": lambda: many_outputs(400),
    "strings, 10 times doubled": lambda: doubling(10),
    "a modest quotient": lambda: folded("Div", -(2**31), 2, "int32"),
    "LeakyRelu": lambda: attribute("LeakyRelu", FLT_MAX),
    "Elu": lambda: attribute("Elu", -FLT_MAX),
    "ConstantOfShape": lambda: filled(-FLT_MAX),
    "ConstantOfShape, infinite": lambda: filled(np.inf),
    "a long word": lambda: held(words(b"a" * 5000, b"b"), EQUALS.replace("[n]", "[2]")),
    "pads with a zero point": lambda: quantised_conv("0, 0, 1, 1"),
    "negative indices": lambda: model(
        TABLE + "{ k = Constant<value_int = 8>() j = Sub(i, k) y = Gather(w, j) }",
        w=floats(8, 4),
    ),
    "an output listed twice": twice,
    "ai.onnx.ml without import": lambda: unimported("ai.onnx.ml", "Normalizer"),
    "com.microsoft without import": lambda: unimported("com.microsoft", "Gelu"),
    "one name in two branches": lambda: model("""(float[n] x, bool c) => (float[n] y) {
        y = If(c) <then_branch = t () => (r) { u = Relu(x) r = Neg(u) },
                   else_branch = e () => (r) { u = Sigmoid(x) r = Abs(u) }> }"""),
    "branches that read nothing": lambda: model("""(bool c) => (float[1] y) {
        y = If(c) <then_branch = t () => (r) { r = Constant<value_floats = [1.0]>() },
                   else_branch = e () => (q) { q = Constant<value_floats = [2.0]>() }>
        }"""),
    "a picture of any size, made to fit": lambda: model(
        """(float[1, 1, h, w] x) => (float[a, b, c, d] y) <int64[2] room = {7, 8}> {
        y = Resize<axes = [2, 3], keep_aspect_ratio_policy = "not_larger">(x, , , room)
        }"""
    ),
}


@pytest.mark.parametrize("case", OPENS)
def test_compiled(case: str, tmp_path: Path) -> None:
    package = fairhand.compile(OPENS[case](), tmp_path / "net", cache=False)
    assert package.report["verification"]["cases"]
    assert [path.name for path in tmp_path.iterdir()] == ["net"]


NOT_TEXT = "holds strings that are not UTF-8"
NO_SHAPE = "has an impossible shape"
WIDE = TensorProto(name="w", data_type=1, dims=[2**62, 0], raw_data=b"")
REFUSED: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "INT_MIN / -1": (lambda: folded("Div", -(2**31), -1, "int32"), "SIGFPE"),
    "INT_MIN % -1": (lambda: folded("Mod", -(2**63), -1, "int64"), "SIGFPE"),
    "strings, 34 times doubled": (lambda: doubling(34), "can't run this model"),
    "not UTF-8": (lambda: held(words(b"\xff\xfe"), EQUALS), NOT_TEXT),
    "2**62 by 0": (
        lambda: held(WIDE, "(float[n] x) => (float[a, b] y) { y = Add(x, w) }"),
        NO_SHAPE,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "available_memory", lambda: 1 << 29)
    make, text = REFUSED[case]
    with pytest.raises(FairhandError, match=text):
        fairhand.compile(make(), tmp_path / "net", cache=False)
    assert not list(tmp_path.iterdir())


IMAGE = "(float[1, 4, 8, 8] x) => (float[a, b, c, d] y) "
SQUARE = "(float[2, 3] x) => (float[a, b] y) "
WRONG = {
    "no groups": (IMAGE + "{ y = Conv<group = 0>(x, w) }", floats(4, 4, 3, 3)),
    "3 groups of 4": (IMAGE + "{ y = Conv<group = 3>(x, w) }", floats(4, 1, 3, 3)),
    "another kernel": (
        IMAGE + "{ y = Conv<kernel_shape = [5, 5]>(x, w) }",
        floats(4, 4, 3, 3),
    ),
    "other channels": (IMAGE + "{ y = Conv(x, w) }", floats(4, 5, 3, 3)),
    "axis 5": (SQUARE + "{ y = Softmax<axis = 5>(x) z = Identity(w) }", floats(1)),
    "axis 2**62": (
        SQUARE + f"{{ y = Softmax<axis = {2**62}>(x) z = Identity(w) }}",
        floats(1),
    ),
    "a size below 0": (
        "(float[1, 1, 2, 2] x) => (float[1, 1, 7, 7] y) { y = Resize<axes = [2, 3],"
        ' keep_aspect_ratio_policy = "not_larger">(x, , , w) }',
        np.array([2, -1]),
    ),
    "an axis of 2**31": (
        "(float[1, 1, 2, 2] x) => (float[1, 1, a, b] y) { y = Resize(x, , , w) }",
        np.array([1, 1, 2**31, 2**31]),
    ),
    "a pool beyond its input": (
        "(float[1, 1, 3, 1] x) => (float[1, 1, a, b] y) { z = Identity(w)"
        " y = MaxPool<kernel_shape = [3, 2], strides = [3, 3]>(x) }",
        floats(1),
    ),
    "a norm of order 0": (
        IMAGE + "{ y = GlobalLpPool<p = 0>(x) z = Identity(w) }",
        floats(1),
    ),
    "an axis twice": (SQUARE + "{ y = Slice(x, w, w, w) }", np.array([0, 0])),
    "an index too large": (SQUARE + "{ y = Gather(x, w) }", np.array([5])),
    "blocks of 0": (
        IMAGE + "{ y = DepthToSpace<blocksize = 0>(x) z = Identity(w) }",
        floats(1),
    ),
    "float and int64": (SQUARE + "{ y = Add(x, w) }", np.ones(3, np.int64)),
    "Not of a float": (SQUARE + "{ y = Not(x) z = Identity(w) }", floats(1)),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_without_being_run(case: str, tmp_path: Path) -> None:
    text, weight = WRONG[case]
    with pytest.raises(FairhandError):
        fairhand.compile(model(text, w=weight), tmp_path / "net", verify=False)


def test_what_is_counted_at_run_time_is_not_counted_before(tmp_path: Path) -> None:
    made = model(
        "(float[n] x) => (float[m] y) { r = Range(a, b, one) c = Cast<to = 1>(r)"
        " s = ReduceSum<keepdims = 0>(c) y = Add(x, s) }",
        **{"a": np.int64(0), "b": np.int64(2**60), "one": np.int64(1)},
    )
    fairhand.compile(made, tmp_path / "net", verify=False)
