"""Types of few bits: what PyTorch lacks of them, in weights, casts and at the edges."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors import safe_open
from support.emitted import imported

import fairhand
from fairhand.analysis.ops.helpers.casts import power_of_two, round_float
from fairhand.codegen.verify.parity import oracle

NARROW = ["int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float6_e2m3fn"]
NARROW += ["float6_e3m2fn", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"]


def array_of(name: str) -> np.ndarray:
    low, high = (-2, 2) if name.startswith("int") else (1, 3)
    return np.arange(low, high, dtype=np.float32).astype(getattr(ml_dtypes, name))


@pytest.mark.parametrize("name", NARROW)
def test_weights_and_edges_of_narrow_types(name: str, tmp_path: Path) -> None:
    values = array_of(name)
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Concat", ["x", "weight"], ["same"], axis=0),
        helper.make_node("Cast", ["same"], ["wide"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes,
        "narrow",
        [info("x", kind, ["n"])],
        [info("same", kind, ["m"]), info("wide", TensorProto.FLOAT, ["m"])],
        [numpy_helper.from_array(values, "weight")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)])
    fairhand.compile(proto, tmp_path / "narrow", verify=False)
    module = imported(tmp_path / "narrow")
    same, wide = module.Session().run(None, {"x": values})
    wanted = np.concatenate([values, values]).astype(np.float32)
    assert wide.tolist() == wanted.tolist()
    if name.startswith("float8"):  # as bits, which NumPy has
        same = same.view(values.dtype)
    assert same.astype(np.float32).tolist() == wanted.tolist()
    onnx_name = name.replace("_", "").removesuffix("fnu")
    onnx_name = onnx_name if "float8" in name else onnx_name.removesuffix("fn")
    assert module.Session().get_inputs()[0].type.startswith(f"tensor({onnx_name[:8]}")
    with pytest.raises(TypeError, match="must be"):
        module.Session().run(None, {"x": wanted.astype(np.float64)})


def test_weights_that_safetensors_lacks_are_refused(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info("y", TensorProto.COMPLEX128, ["n"])
    weight = numpy_helper.from_array(np.array([1 + 2j, 3]), "w")
    node = helper.make_node("Concat", ["w", "x"], ["y"], axis=0)
    x = helper.make_tensor_value_info("x", TensorProto.COMPLEX128, ["m"])
    graph = helper.make_graph([node], "complex", [x], [info], [weight])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(fairhand.Unsupported, match="weights of type complex128"):
        fairhand.compile(proto, tmp_path / "complex", verify=False)
    assert not list(tmp_path.iterdir())


def test_large_weights_of_4_bits_stay_small_and_quantised(tmp_path: Path) -> None:
    codes = (np.arange(64 * 32) % 16 - 8).reshape(64, 32).astype(ml_dtypes.int4)
    text = """<ir_version: 10, opset_import: ["" : 21]>
    linear (float[n, 64] x) => (float[n, 32] y)
    {
        w = DequantizeLinear <axis = 0, block_size = 32> (codes, scale)
        y = MatMul(x, w)
    }"""
    proto = onnx.parser.parse_model(text)
    scale = np.linspace(0.1, 1, 64, dtype=np.float32).reshape(2, 32)
    for array, name in ((codes, "codes"), (scale, "scale")):
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    fairhand.compile(proto, tmp_path / "linear")
    source = (tmp_path / "linear" / "model.py").read_text("utf-8")
    assert "dequantize_linear(self.codes, self.scale.repeat_interleave(32, dim=0)" in (
        " ".join(source.split()).replace("( ", "(")
    )
    with safe_open(tmp_path / "linear" / "weights.safetensors", "pt") as file:
        assert file.get_tensor("codes").dtype == torch.int8
        assert file.get_tensor("codes").tolist() == codes.astype(int).tolist()


@pytest.mark.parametrize(
    ("mode", "saturate", "found"),
    [
        ("up", True, [2**-127, np.nan, 2**127, 2**127, 2**-127, 2.0, 2.0]),
        ("nearest", False, [np.nan, np.nan, np.nan, np.nan, np.nan, 1.0, 2.0]),
        ("down", True, [2**-127, np.nan, 2**127, 2**127, 2**-127, 1.0, 1.0]),
    ],
)
def test_powers_of_two_as_the_specification_has_them(
    mode: str, saturate: bool, found: list[float]
) -> None:
    x = torch.tensor([0, np.nan, np.inf, 1e39, 1e-39, 1.2, 1.5], dtype=torch.float64)
    y = power_of_two(x, mode, saturate).float().numpy()
    np.testing.assert_array_equal(y, np.float32(found))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("float4_e2m1fn", (1, 1.0, 6.0)),
        ("float6_e2m3fn", (3, 1.0, 7.5)),
        ("float6_e3m2fn", (2, 0.25, 28.0)),
    ],
)
def test_small_floats_round_as_ml_dtypes(
    name: str, parameters: tuple[int, float, float]
) -> None:
    x = np.concatenate([np.linspace(-40, 40, 6401), np.linspace(-1, 1, 4097)])
    x = np.float32(x)
    y = round_float(torch.from_numpy(x), *parameters).float().numpy()
    wanted = x.astype(getattr(ml_dtypes, name)).astype(np.float32)
    np.testing.assert_array_equal(y, wanted)
    assert np.array_equal(np.signbit(y), np.signbit(wanted))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_are_moved(dtype: type, tmp_path: Path) -> None:
    """What ONNX allows for them; ONNX Runtime has no kernels."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Concat", ["t", "t"], ["c"], axis=0),
        helper.make_node("Slice", ["c", "start", "end"], ["d"]),
        helper.make_node("Gather", ["d", "index"], ["e"], axis=1),
        helper.make_node("Reshape", ["e", "shape"], ["y"]),
    ]
    numbers = {"start": [1], "end": [5], "index": [0, 0], "shape": [-1]}
    graph = helper.make_graph(
        nodes,
        "complex",
        [helper.make_tensor_value_info("x", kind, ["n", 3])],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.array(x), name) for name, x in numbers.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    package = fairhand.compile(model, tmp_path / "net", verify=False)
    x = (np.arange(6).reshape(2, 3) + 1j).astype(dtype)
    (found,) = imported(package.path).Session().run(None, {"x": x})
    wanted = np.concatenate([x.T, x.T])[1:5][:, [0, 0]].reshape(-1)
    assert found.dtype == dtype and np.array_equal(found, wanted)


HALVES = [-9.2, -2.5, -0.5, 0.4, 0.49999997, 0.5, 1.5, 2.5, 7.6, 15.5, 255.5]


@pytest.mark.parametrize("few", ["int4", "uint4"])
def test_halves_are_rounded_away_from_zero(few: str, tmp_path: Path) -> None:
    to = onnx.TensorProto.DataType.Value(few.upper())
    """onnx's reference truncates."""
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
        net (float[n] x) => (float[n] y)
        {{ q = Cast <to = {to}> (x)
           y = Cast <to = 1> (q) }}"""
    model = onnx.parser.parse_model(text)
    fairhand.compile(model, tmp_path / "net", verify=False)
    feed = {"x": np.array(HALVES, np.float32)}
    (wanted,) = oracle(model.SerializeToString()).run(None, feed)
    (y,) = imported(tmp_path / "net").Session().run(None, feed)
    assert y.tolist() == wanted.tolist()
