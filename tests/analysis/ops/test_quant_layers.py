"""Layers that stand for the pairs that quantisers put around operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file
from support.emitter_models import run_here

import fairhand
from fairhand.codegen.verify import parity

HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'
PAIR = "q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, {s}, {z})"


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "run_package", run_here)


def compiled(text: str, folder: Path, **arrays: Any) -> tuple[str, dict[str, Any]]:
    """The verified module's text, and its weights."""
    model = onnx.parser.parse_model(HEAD + text)
    given = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()]
    model.graph.initializer.extend(given)
    package = fairhand.compile(model, folder / "net")
    text = (package.path / "model.py").read_text("utf-8")
    return text.partition("class G(")[2], load_file(
        package.path / "weights.safetensors"
    )


def pair(folder: Path, again: str = "s", zero: str = "z", dtype: Any = np.uint8) -> str:
    """A rounding by `s` and `z`, read back by what is named."""
    text = f"g (float[3, 4] x) => (float[3, 4] y) {{ {PAIR.format(s=again, z=zero)} }}"
    numbers = {"s": np.float32(0.1), "z": dtype(3), "t": np.float32(0.2)}
    used = {n: a for n, a in numbers.items() if n in ("s", "z", again)}
    return compiled(text, folder, **used, **({"v": dtype(4)} if zero == "v" else {}))[0]


@pytest.mark.parametrize(("dtype", "text"), [(np.uint8, ""), (np.int8, "signed=True")])
def test_a_rounding_is_a_layer(dtype: Any, text: str, tmp_path: Path) -> None:
    body = pair(tmp_path, dtype=dtype)
    assert f"self.round = FakeQuantize({text})" in body and "linear(" not in body


@pytest.mark.parametrize(("again", "zero"), [("t", "z"), ("s", "v")])
def test_other_numbers_are_no_rounding(again: str, zero: str, tmp_path: Path) -> None:
    assert "FakeQuantize" not in pair(tmp_path, again, zero)


def test_sixteen_bits_are_no_rounding_to_eight(tmp_path: Path) -> None:
    assert "FakeQuantize" not in pair(tmp_path, dtype=np.uint16)


def product(folder: Path, form: str, shape: Any, axis: int = 0, **more: Any) -> Any:
    """A product with an integer weight; `form` is "sizes|text" of x, d and e."""
    sizes, _, body = form.partition("|")
    rng = np.random.default_rng(0)
    weight = rng.integers(-99, 99, shape).astype(np.int8)
    zero = ", z" if "z" in more else ""
    body = f"d = DequantizeLinear<axis = {axis}>(w, s{zero})  {body}"
    body = f"e = DequantizeLinear(b, t)  {body}"
    text = f"g (float[2, {sizes}] x) => (float y) {{ {body} }}"
    return compiled(text, folder, w=weight, **more)


SCALES = np.float32([0.1, 0.2, 0.3])
BIAS = {"b": np.int32([7, -300, 20]), "t": np.float32(0.01)}
CONVOLUTION, GEMM = "2, 5, 5|y = Conv(x, d, e)", "4|y = Gemm<transB = 1>(x, d, e)"


@pytest.mark.parametrize(
    ("form", "shape", "axis", "layer"),
    [
        (CONVOLUTION, (3, 2, 3, 3), 0, "QuantizedConv2d(2, 3, 3, per_channel=True)"),
        (GEMM, (3, 4), 0, "QuantizedLinear(4, 3, per_channel=True)"),
        ("4|m = MatMul(x, d) y = Add(m, e)", (4, 3), 1, "QuantizedLinear(4, 3"),
    ],
)
def test_weights_stay_integers(
    form: str, shape: tuple[int, ...], axis: int, layer: str, tmp_path: Path
) -> None:
    body, weights = product(tmp_path, form, shape, s=SCALES, axis=axis, **BIAS)
    assert layer in body
    kinds = {
        name.rpartition(".")[2]: array.dtype.name for name, array in weights.items()
    }
    assert kinds == {"weight": "int8", "scale": "float32", "bias": "float32"}


def test_one_scale_for_all(tmp_path: Path) -> None:
    body, _ = product(tmp_path, GEMM, (3, 4), s=np.float32(0.1), **BIAS)
    assert "QuantizedLinear(4, 3)" in body


def test_a_zero_point_is_spelled_out(tmp_path: Path) -> None:
    zero = np.int8([1, 0, 2])
    body, _ = product(tmp_path, GEMM, (3, 4), s=SCALES, z=zero, **BIAS)
    assert "Quantized" not in body and "dequantize_linear(" in body


def test_a_shared_weight_is_spelled_out(tmp_path: Path) -> None:
    form = "4|m = Gemm<transB = 1>(x, d, e) k = Gemm(m, d) y = Neg(k)"
    body, _ = product(tmp_path, form, (3, 4), s=SCALES, **BIAS)
    assert "Quantized" not in body


def test_a_sum_stands_in_the_module_whose_result_and_input_it_adds() -> None:
    text = (
        Path(__file__).parents[2] / "goldens" / "quantized_qoperator.py"
    ).read_text()
    assert "self.blocks = nn.Sequential(Block(), Block())" in text
    assert "return self.add(features, x)" in text


def test_floats_of_which_integers_are_made_are_not_summed_otherwise(
    tmp_path: Path,
) -> None:
    """(x + c) + (y + d) is x + y + (c + d) elsewhere: one addition less."""
    text = """g (float[3] x, float[3] y) => (OUT) <float[3] c = {0.1, 0.2, 0.3},
        float[3] d = {0.3, 0.2, 0.7}> {
        a = Add(x, c)  b = Add(y, d)  s = Add(a, b) END }"""
    plain = text.replace("OUT", "float[3] s").replace("END", "")
    assert compiled(plain, tmp_path / "plain")[0].count(" + ") == 2
    rounded = text.replace("OUT", "uint8[3] q, float t, uint8 z")
    rounded = rounded.replace("END", "q, t, z = DynamicQuantizeLinear(s)")
    assert compiled(rounded, tmp_path / "rounded")[0].count(" + ") == 3


def test_integers_that_a_layer_makes_for_itself_may_be_given_too(
    tmp_path: Path,
) -> None:
    """Scale and zero point are the layer's alone then: one of the three is named."""
    text = """g (float[n, 4] x) => (float[n, 3] y, uint8[n, 4] q) {
        q, s, z = DynamicQuantizeLinear(x)  m = MatMulInteger(q, w, z)
        f = Cast<to = 1>(m)  k = Mul(s, t)  y = Mul(f, k) }"""
    weight = np.arange(12, dtype=np.int8).reshape(4, 3)
    body, _ = compiled(text, tmp_path, w=weight, t=np.float32(0.02))
    assert "q = dynamic_quantize_linear(x)[0]" in body and "self.linear(x)" in body


@pytest.mark.parametrize(
    ("sizes", "is_layer"),
    [((), True), ((1, 1, 1), True), ((1, 8, 1, 1), True), ((8,), False)],
)
def test_a_scale_along_the_rows_of_an_image_is_none_of_its_filters(
    sizes: tuple[int, ...], is_layer: bool, tmp_path: Path
) -> None:
    text = """g (float[1, 2, 8, 8] x) => (float[1, 8, 8, 8] y) {
        q, a, z = DynamicQuantizeLinear(x)  c = ConvInteger(q, w, z)
        f = Cast <to = 1> (c)  m = Mul(a, s)  y = Mul(f, m) }"""
    rng = np.random.default_rng(0)
    scale = rng.random(sizes).astype(np.float32)
    w = rng.integers(-127, 128, (8, 2, 1, 1)).astype(np.int8)
    body, _ = compiled(text, tmp_path, w=w, s=scale)
    assert ("DynamicQuantizedConv2d(" in body) == is_layer
