"""ONNX Runtime's own operators, spelled in ONNX's: emitted code against ONNX Runtime.

Where it has no kernel for a CPU, the expected result is its documented formula, in
NumPy or as a model of ONNX's operators.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.contrib_models import Arrays, call, check, emitted, model, normal, session
from support.drawn_nodes import Known, by_operator, compared

import fairhand
from fairhand.analysis.errors import Unsupported
from fairhand.analysis.ops.registry import OPS
from fairhand.analysis.ops.type_rules import RULES, known_to_onnx
from fairhand.rewrites.adapters.opset_adapters import EXTENSIONS
from fairhand.rewrites.lowering import load_all

load_all()
X, NORM = normal(2, 5, 8), {"g": normal(8), "b": normal(8), "c": normal(8)}
IMAGE, KERNEL = normal(1, 4, 6, 6), {"w": normal(8, 4, 3, 3), "b": normal(8)}
TABLES = {"w": normal(9, 8), "p": normal(6, 8), "t": normal(2, 8), **NORM}
IDS = {
    "i": np.array([[1, 2, 3]], np.int32),
    "s": np.array([[0, 1, 0]], np.int32),
    "m": np.array([[1, 1, 0]], np.int32),
}
Case = tuple[onnx.NodeProto, Arrays, Arrays, str]


def conv(activation: str, *params: float) -> Case:
    attrs: dict[str, Any] = {"activation": activation, "pads": [1, 1, 1, 1]}
    attrs["activation_params"] = list(params)
    return call("FusedConv", "x w b", **attrs), {"x": IMAGE}, KERNEL, "self.conv(x)"


def matmul(a: np.ndarray, b: np.ndarray, text: str, **attrs: Any) -> Case:
    return call("FusedMatMul", "a b", **attrs), {"a": a, "b": b}, {}, text


CASES: dict[str, Case] = {
    "FusedMatMul": matmul(
        X, normal(2, 4, 8), "a @ b.transpose(1, 2) * 0.125", transB=1, alpha=0.125
    ),
    "FusedMatMul-transA": matmul(
        normal(3, 5, 8),
        normal(3, 5, 4),
        "a.transpose(1, 2) @ b * 2.0",
        transA=1,
        alpha=2.0,
    ),
    "FusedMatMul-batch": matmul(
        normal(5, 3, 8),
        normal(4, 3, 8),
        "a.transpose(0, 1) @ b.permute(1, 2, 0)",
        transBatchA=1,
        transBatchB=1,
        transB=1,
    ),
    "FusedMatMul-vector": matmul(normal(8), normal(8, 4), "a @ b", transA=1),
    "FusedMatMul-by-a-vector": matmul(normal(2, 8, 8), normal(8), "a @ b", transA=1),
    "FusedConv-Relu": conv("Relu"),
    "FusedConv-Sigmoid": conv("Sigmoid"),
    "FusedConv-Tanh": conv("Tanh"),
    "FusedConv-LeakyRelu": conv("LeakyRelu", 0.2),
    "FusedConv-Clip": conv("Clip", 0.0, 1.0),
    "FusedConv-HardSigmoid": conv("HardSigmoid", 0.2, 0.4),
    "FusedConv-sum": (
        call("FusedConv", "x w b z", activation="Relu"),
        {"x": IMAGE, "z": normal(1, 8, 4, 4)},
        KERNEL,
        "F.relu(self.conv(x) + z)",
    ),
    "FusedGemm": (
        call(
            "FusedGemm", "x w b", activation="LeakyRelu", activation_alpha=0.3, transB=1
        ),
        {"x": normal(3, 4)},
        {"w": normal(8, 4), "b": normal(8)},
        "F.leaky_relu(self.linear(x), 0.3)",
    ),
    "NhwcMaxPool": (
        call("NhwcMaxPool", "x", kernel_shape=[2, 2]),
        {"x": np.arange(48, dtype=np.uint8).reshape(1, 4, 4, 3)},
        {},
        "F.max_pool2d(",
    ),
    "SkipLayerNormalization": (
        call("SkipLayerNormalization", "x s g b c", "y _ _ t", epsilon=1e-5),
        {"x": X, "s": normal(2, 5, 8)},
        NORM,
        "nn.LayerNorm(8)",
    ),
    "SkipLayerNormalization-rows": (
        call("SkipLayerNormalization", "x s g"),
        {"x": X, "s": normal(5, 8)},
        {"g": NORM["g"]},
        "nn.LayerNorm(8, eps=1e-12, bias=False)",
    ),
    "SkipSimplifiedLayerNormalization": (
        call("SkipSimplifiedLayerNormalization", "x s g c", "y _ _ t", epsilon=1e-5),
        {"x": X, "s": normal(2, 5, 8)},
        NORM,
        "nn.RMSNorm(8, eps=1e-5)",
    ),
    "SimplifiedLayerNormalization": (
        call("SimplifiedLayerNormalization", "x g", domain="", epsilon=1e-5),
        {"x": X},
        NORM,
        "nn.RMSNorm(8, eps=1e-5)",
    ),
    "EmbedLayerNormalization": (
        call("EmbedLayerNormalization", "i s w p t g b m", "y l e", epsilon=1e-5),
        IDS,
        TABLES,
        "nn.LayerNorm(8)",
    ),
    "EmbedLayerNormalization-positions": (
        call("EmbedLayerNormalization", "i _ w p _ g b m s", "y l"),
        IDS,
        TABLES,
        "nn.LayerNorm(8, eps=1e-12)",
    ),
    "Gelu": (call("Gelu", "x"), {"x": X}, {}, "return F.gelu(x)"),
    "QuickGelu": (call("QuickGelu", "x"), {"x": X}, {}, "torch.sigmoid(1.702 * x)"),
    "FastGelu": (call("FastGelu", "x"), {"x": X}, {}, 'F.gelu(x, approximate="tanh")'),
    "FastGelu-bias": (call("FastGelu", "x b"), {"x": X}, NORM, 'approximate="tanh")'),
    "BiasGelu": (call("BiasGelu", "x b"), {"x": X}, NORM, "F.gelu(x + self.bias)"),
    "Trilu": (call("Trilu", "x k", upper=0), {"x": X}, {"k": np.array(1)}, "x.tril(1)"),
    "GatherND": (
        call("GatherND", "x i"),
        {"x": normal(2, 3), "i": np.array([[0, 1], [1, 2]])},
        {},
        "x[i.unbind(-1)]",
    ),
    "Range": (
        call("Range", "a b c"),
        {"a": np.array([1]), "b": np.array(7), "c": np.array(2)},
        {},
        "torch.arange(",
    ),
    "Range-step": (
        call("Range", "a b"),
        {"a": np.array(1), "b": np.array([7])},
        {},
        "range_of(a.item(),",
    ),
    "Unique": (
        call("Unique", "x", "y i c"),
        {"x": np.array([3, 1, 1, 3, 2], np.float32)},
        {},
        "unique(x, in_order=False)",
    ),
    "Pad": (
        call("Pad", "x p v"),
        {"x": normal(2, 3)},
        {"p": np.array([[0, 1, 1, 0]]), "v": np.array([1.5], np.float32)},
        "F.pad(x, (1, 0, 0, 1), value=1.5)",
    ),
    "ExpandDims": (
        call("ExpandDims", "x a"),
        {"x": X},
        {"a": np.array(-1, np.int32)},
        "x.unsqueeze(-1)",
    ),
    **{
        f"GridSample-{mode}": (
            call("GridSample", "x g", mode=mode, padding_mode="border"),
            {"x": normal(1, 2, 5, 5), "g": np.tanh(normal(1, 3, 4, 2))},
            {},
            "F.grid_sample(",
        )
        for mode in ("bilinear", "nearest", "bicubic")
    },
}


def known(name: str) -> Known:
    node, feeds, weights, _ = CASES[name]
    used = {v: x for v, x in feeds.items() if v in node.input}
    stored = {v: x for v, x in weights.items() if v in node.input}
    return model([node], used, stored, " ".join(filter(None, node.output))), used


@pytest.mark.parametrize("name", CASES)
def test_against_onnx_runtime(name: str, tmp_path: Path) -> None:
    assert CASES[name][3] in check(*known(name), tmp_path)


def test_the_bias_goes_back_to_its_layer(tmp_path: Path) -> None:
    """The optimiser moves the bias of a layer into the sum and norm behind it."""
    nodes = [
        call("MatMul", "x w", "h", domain=""),
        call("SkipLayerNormalization", "h x g b c", epsilon=1e-5),
    ]
    weights = NORM | {"w": normal(8, 8)}
    text = check(model(nodes, {"x": X}, weights), {"x": X}, tmp_path)
    assert "nn.Linear(8, 8)" in text
    assert "return self.norm(self.linear(x) + x)" in text


DRAWN = by_operator(map(known, CASES))


@pytest.mark.parametrize("op", DRAWN)
def test_drawn_nodes_compute_the_same(op: str, tmp_path: Path) -> None:
    assert compared(op, DRAWN[op], 4, tmp_path) == 4


@pytest.mark.slow
@pytest.mark.parametrize("op", DRAWN)
def test_many_drawn_nodes_compute_the_same(op: str, tmp_path: Path) -> None:
    assert compared(op, DRAWN[op], 200, tmp_path) >= 100


# ---- without a kernel in ONNX Runtime


def gelu(x: np.ndarray) -> np.ndarray:
    from math import erf

    return (x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2).astype(np.float32)


def group_norm(x: np.ndarray, groups: int, silu: bool) -> np.ndarray:
    """Of [batch, height, width, channels]."""
    parts = x.reshape(*x.shape[:3], groups, -1)
    mean = parts.mean(axis=(1, 2, 4), keepdims=True)
    variance = parts.var(axis=(1, 2, 4), keepdims=True)
    y = ((parts - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape)
    y = y * NORM["g"] + NORM["b"]
    return y / (1 + np.exp(-y)) if silu else y


MAP, WIDE, SKIP = normal(2, 3, 4, 8), normal(2, 5, 8), normal(2, 8)
SUM = MAP + SKIP[:, None, None] + NORM["c"]


@pytest.mark.parametrize(
    ("node", "feeds", "wanted"),
    [
        (call("BiasAdd", "x b s"), {"x": X, "s": WIDE}, [X + NORM["b"] + WIDE]),
        (
            call("BiasSplitGelu", "x b"),
            {"x": X},
            [(X + NORM["b"])[..., :4] * gelu((X + NORM["b"])[..., 4:])],
        ),
        (
            call("GroupNorm", "x g b", groups=2, activation=1),
            {"x": MAP},
            [group_norm(MAP, 2, True)],
        ),
        (
            call("SkipGroupNorm", "x g b s c", "y t", groups=4, activation=0),
            {"x": MAP, "s": SKIP},
            [group_norm(SUM, 4, False), SUM],
        ),
    ],
    ids=lambda x: x.op_type if isinstance(x, onnx.NodeProto) else "",
)
def test_against_a_formula(
    node: onnx.NodeProto, feeds: Arrays, wanted: list[np.ndarray], tmp_path: Path
) -> None:
    weights = {v: x for v, x in NORM.items() if v in node.input}
    made = model([node], feeds, weights, " ".join(node.output))
    check(made, feeds, tmp_path, wanted)


def test_channels_last(tmp_path: Path) -> None:
    """NhwcConv is Conv with the channels last, in the data and in the weight."""
    first = {"x": IMAGE}
    (y,) = session(model([call("Conv", "x w b", domain="")], first, KERNEL)).run(
        None, first
    )
    last = {"x": np.moveaxis(IMAGE, 1, -1).copy()}
    weights = {"w": np.moveaxis(KERNEL["w"], 1, -1).copy(), "b": KERNEL["b"]}
    made = model([call("NhwcConv", "x w b")], last, weights)
    text = check(made, last, tmp_path, [np.moveaxis(y, 1, -1)])
    assert "nn.Conv2d(4, 8, 3)" in text


# ---- what is refused


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (call("FusedMatMul", "x x", gamma=1.0), "its attribute 'gamma' is not known"),
        (call("FusedConv", "x x", activation="Magic"), "activation 'Magic' is not"),
        (call("GreedySearch", "x x"), "it has no decoder"),
        (call("BiasGelu", "x"), "input 1 is missing"),
        (call("QuickGelu", "x", alpha="much"), "'alpha' has to be FLOAT"),
        (call("FusedMatMul", "x x", transA="x"), "'transA' has to be INT"),
        (call("MultiHeadAttention", "x x x", num_heads=0), "a positive number of"),
        (call("MatMulBnb4", "x x x", K="8"), "the attribute 'K' as it is"),
        (call("MoE", "x x x _ x", k=-1), "a positive k"),
        (call("MoE", "x x x"), "MoE with 3 inputs"),
        (call("CDist", "_ x"), "needs input 0, which is absent"),
        (call("Inverse", "x x"), "Inverse with 2 inputs"),
        (call("SkipLayerNormalization", "x x x", "y m"), "mean and deviation as"),
        (call("RotaryEmbedding", "x x x x", scale=2.0), "scale other than 1"),
        (call("MatMulNBits", "x x x", K=8, N=5, bits=3, block_size=16), "2, 4 or 8"),
        (call("NoSuchOperator", "x"), "com.microsoft.NoSuchOperator"),
    ],
    ids=lambda x: x.op_type if isinstance(x, onnx.NodeProto) else "",
)
def test_refused_by_name(node: onnx.NodeProto, words: str, tmp_path: Path) -> None:
    made = model([node], {"x": X}, {}, " ".join(node.output))
    with pytest.raises(fairhand.FairhandError) as caught:
        emitted(made, tmp_path)
    assert words in str(caught.value) and node.op_type in str(caught.value)
    assert not (tmp_path / "net").exists()


# ---- types


def test_onnx_knows_the_operators_only_for_a_while() -> None:
    assert not onnx.defs.has("FusedMatMul", "com.microsoft")
    model = onnx.ModelProto(
        opset_import=[onnx.OperatorSetIdProto(domain="com.microsoft")]
    )
    with known_to_onnx(model), known_to_onnx(model):
        assert onnx.defs.has("FusedMatMul", "com.microsoft")
    assert not onnx.defs.has("FusedMatMul", "com.microsoft")


def test_every_operator_has_a_rule_of_types() -> None:
    own = {name for domain, name in [*OPS, *EXTENSIONS] if domain == "com.microsoft"}
    generate = {"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"}
    assert own - {name for _, name in RULES} == generate | {"GatherND", "Tokenizer"}


@pytest.mark.parametrize("opset", [11, 13, 16])
def test_layer_normalization_before_onnx_had_it(opset: int, tmp_path: Path) -> None:
    """As ONNX Runtime's optimiser writes it; what follows knows its type."""
    node = call("LayerNormalization", "x g b", "h", domain="", axis=-1, epsilon=1e-5)
    feeds = {"x": normal(2, 3, 8)}
    weights = {"g": normal(8), "b": normal(8)}
    nodes = [node, call("FusedMatMul", "h h", transB=1)]
    made = model(nodes, feeds, weights, opset=opset, shapes={"x": ["n", "s", 8]})
    text = check(made, feeds, tmp_path)
    assert "nn.LayerNorm(8)" in text and '("n", "s", "s")' in text


def test_sizes_go_on_behind_an_operator(tmp_path: Path) -> None:
    """Dynamic sizes keep their names, and what follows knows its type and rank."""
    nodes = [call("FusedMatMul", "a b", "h", transB=1), call("Relu", "h", domain="")]
    feeds = {"a": X, "b": normal(2, 4, 8)}
    shapes = {"a": ["n", "s", 8], "b": ["n", "t", 8]}
    text = check(model(nodes, feeds, shapes=shapes), feeds, tmp_path)
    assert '("n", "s", "t")' in text


def test_a_file_for_one_processor_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """What ONNX Runtime saves at its level "all"."""
    node = onnx.helper.make_node(
        "Conv", ["x", "w"], ["y"], domain="com.microsoft.nchwc"
    )
    info = onnx.helper.make_tensor_value_info
    ends = [info(name, 1, [1, 8, 4, 4]) for name in ("x", "w", "y")]
    graph = onnx.helper.make_graph([node], "g", ends[:2], ends[2:])
    opsets = [onnx.helper.make_opsetid("", 20)]
    opsets.append(onnx.helper.make_opsetid("com.microsoft.nchwc", 1))
    model_ = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    with pytest.raises(Unsupported, match="up to the level 'extended'"):
        fairhand.compile(model_, tmp_path / "net", verify=False)
