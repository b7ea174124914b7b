"""Operators that ONNX Runtime has for a few kinds of network: against its kernels.

Where it has none for a CPU, the expected result is the documented formula in NumPy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from support.contrib_models import Arrays, call, check, emitted, model, normal, session
from support.drawn_nodes import Known, by_operator, compared

import fairhand
from fairhand.analysis.errors import Unsupported
from fairhand.analysis.ops.helpers.recurrent import exact_weight, rounded_product

Case = tuple[onnx.NodeProto, Arrays, str]
RANDOM = np.random.default_rng(3)
X, ROWS, GATE = normal(2, 3, 8), normal(2, 3, 8), normal(2, 3, 1)
HALF = X.astype(np.float16)
PLACES = np.array([[[0, 1, 2]] * 2, [[0, 3, 1]] * 2, [[2, 2, 5]] * 2])
TABLES = {"c": normal(8, 4), "s": normal(8, 4)}
SECTIONS: dict[str, Any] = {"mrope_section": [2, 1, 1]}


def rotary(x: np.ndarray, text: str, **attrs: Any) -> Case:
    feeds = {"x": x, "p": PLACES, **TABLES}
    return call("MRotaryEmbedding", "x p c s", **SECTIONS, **attrs), feeds, text


def integers(*shape: int) -> np.ndarray:
    return RANDOM.integers(-128, 128, shape).astype(np.int8)


BERT: Arrays = {
    "i": np.array([[1, 2, 3]], np.int32),
    "t": np.array([[0, 1, 0]], np.int32),
    "w": integers(9, 8),
    "p": integers(6, 8),
    "u": integers(2, 8),
    "g": integers(8),
    "b": integers(8),
    "m": np.array([[1, 1, 0]], np.int32),
    **{f"{n}s": np.array(0.01 * k, np.float32) for k, n in enumerate("wpugb", 1)},
    **{f"{n}z": np.array(k - 2, np.int8) for k, n in enumerate("wpugb")},
}
SCALES, SHORT = "ws ps us gs bs wz pz uz gz bz", "ws ps _ gs bs wz pz _ gz bz"

CASES: dict[str, Case] = {
    "GatedAdd": (
        call("GatedAdd", "x r g"),
        {"x": X, "r": ROWS, "g": GATE},
        "x + r * g",
    ),
    "ScaledSiLU": (call("ScaledSiLU", "x"), {"x": X}, "F.silu(x)"),
    "ScaledSiLU-alpha": (call("ScaledSiLU", "x", alpha=0.5), {"x": X}, "F.silu(x * 0."),
    "ScaledSiLU-half": (
        call("ScaledSiLU", "x s"),
        {"x": HALF, "s": np.array(1.7, np.float32)},
        "F.silu(",
    ),
    "LinearAttentionGate": (
        call("LinearAttentionGate", "x b s", "y"),
        {"x": X, "b": normal(8), "s": -np.exp(normal(8))},
        "F.softplus(x + b) * s",
    ),
    "LinearAttentionGate-both": (
        call("LinearAttentionGate", "x b s r", "y z"),
        {"x": X, "b": normal(8), "s": -np.exp(normal(8)), "r": ROWS},
        "torch.sigmoid(r)",
    ),
    "GatedRMSNorm": (
        call("GatedRMSNorm", "x s g"),
        {"x": X, "s": normal(8), "g": ROWS},
        "F.silu(g)",
    ),
    "GatedRMSNorm-groups": (
        call("GatedRMSNorm", "x s g", activation="sigmoid", epsilon=1e-3),
        {"x": X, "s": normal(4), "g": ROWS},
        "torch.sigmoid(g)",
    ),
    "GatedRMSNorm-half": (
        call("GatedRMSNorm", "x s g"),
        {"x": HALF, "s": normal(4).astype(np.float16), "g": ROWS.astype(np.float16)},
        ".half()",
    ),
    "BranchwiseRMSNorm": (call("BranchwiseRMSNorm", "x"), {"x": X}, "nn.RMSNorm("),
    "BranchwiseRMSNorm-scales": (
        call("BranchwiseRMSNorm", "x s", num_branches=2, epsilon=1e-3),
        {"x": X, "s": normal(8)},
        "nn.RMSNorm(",
    ),
    "BranchwiseRMSNorm-one-scale": (
        call("BranchwiseRMSNorm", "x s", num_branches=2),
        {"x": X, "s": normal(4)},
        "nn.RMSNorm(",
    ),
    "MRotaryEmbedding": rotary(normal(2, 3, 16), "torch.cat(", num_heads=2),
    "MRotaryEmbedding-heads": rotary(normal(2, 2, 3, 8), "torch.cat("),
    "MRotaryEmbedding-part": rotary(
        normal(2, 3, 24), "torch.cat(", num_heads=2, rotary_embedding_dim=8
    ),
    "MRotaryEmbedding-mixed": rotary(
        normal(2, 3, 16), "torch.where(", mrope_layout=1, num_heads=2
    ),
    "MRotaryEmbedding-interleaved": rotary(
        normal(2, 2, 3, 8), "torch.where(", mrope_layout=1, interleaved=1
    ),
    "QEmbedLayerNormalization": (
        call("QEmbedLayerNormalization", f"i t w p u g b m {SCALES}", "y l"),
        BERT,
        "F.layer_norm(",
    ),
    "QEmbedLayerNormalization-short": (
        call("QEmbedLayerNormalization", f"i _ w p _ g b _ {SHORT}", "y l"),
        BERT,
        "F.layer_norm(",
    ),
    "MatMulInteger16": (
        call("MatMulInteger16", "a b"),
        {
            "a": RANDOM.integers(-900, 900, (2, 3, 4)).astype(np.int16),
            "b": RANDOM.integers(-900, 900, (4, 5)).astype(np.int16),
        },
        "a.int() @ b.int()",
    ),
    "SampleOp": (call("SampleOp", "x"), {"x": X}, "return x"),
}


def known(name: str) -> Known:
    node, feeds, _ = CASES[name]
    used = {v: x for v, x in feeds.items() if v in node.input}
    return model([node], used, None, " ".join(node.output)), used


@pytest.mark.parametrize("name", CASES)
def test_against_onnx_runtime(name: str, tmp_path: Path) -> None:
    assert CASES[name][2] in check(*known(name), tmp_path)


@pytest.mark.parametrize("attrs", [{}, {"strides": [2, 2]}])
def test_pads_that_are_an_input(attrs: dict[str, Any], tmp_path: Path) -> None:
    feeds = {"x": normal(1, 3, 4, 5)}
    weights = {"w": normal(3, 2, 3, 3), "b": normal(2), "p": np.array([1, 0, 1, 0])}
    node = call("ConvTransposeWithDynamicPads", "x w p b", **attrs)
    text = check(model([node], feeds, weights), feeds, tmp_path)
    assert "nn.ConvTranspose2d(3, 2, 3" in text


DRAWN = by_operator(map(known, CASES))
# Of a row of one number, repeated, a norm leaves what rounding does.
SIZES = {"QEmbedLayerNormalization": (2, 3, 5, 8)}


@pytest.mark.parametrize("op", DRAWN)
def test_drawn_nodes_compute_the_same(op: str, tmp_path: Path) -> None:
    assert compared(op, DRAWN[op], 4, tmp_path) == 4


@pytest.mark.slow
@pytest.mark.parametrize("op", DRAWN)
def test_many_drawn_nodes_compute_the_same(op: str, tmp_path: Path) -> None:
    sizes = SIZES.get(op, (1, 2, 3, 5, 8))
    assert compared(op, DRAWN[op], 200, tmp_path, sizes) >= 100


def softmax(x: np.ndarray) -> np.ndarray:
    shares = np.exp(x - x.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


ODD = np.where(X > 1.5, np.inf, X).astype(np.float32)
FORMULAS: dict[str, tuple[onnx.NodeProto, Arrays, list[np.ndarray]]] = {
    "BiasSoftmax": (
        call("BiasSoftmax", "x b", axis=2, is_inner_broadcast=0),
        {"x": X, "b": normal(1, 1, 8)},
        [],
    ),
    "BiasSoftmax-axes": (
        call("BiasSoftmax", "x b", axis=1, is_inner_broadcast=1),
        {"x": X, "b": ROWS},
        [],
    ),
    "BiasDropout": (
        call("BiasDropout", "x b r"),
        {"x": X, "b": GATE, "r": ROWS},
        [X + GATE + ROWS],
    ),
    "TorchEmbedding": (
        call("TorchEmbedding", "x i"),
        {"x": normal(5, 8), "i": np.array([[1, 4]])},
        [],
    ),
    "IsAllFinite": (
        call("IsAllFinite", "x z"),
        {"x": X, "z": ODD},
        [np.array(bool(np.isfinite(ODD).all()))],
    ),
    "IsAllFinite-nan": (
        call("IsAllFinite", "x z", isnan_only=1),
        {"x": X, "z": ODD},
        [np.array(True)],
    ),
}
FORMULAS["BiasSoftmax"][2].append(softmax(X + FORMULAS["BiasSoftmax"][1]["b"]))
FORMULAS["BiasSoftmax-axes"][2].append(
    softmax((X + ROWS).reshape(2, -1)).reshape(X.shape)
)
FORMULAS["TorchEmbedding"][2].append(FORMULAS["TorchEmbedding"][1]["x"][[[1, 4]]])


@pytest.mark.parametrize("name", FORMULAS)
def test_against_a_formula(name: str, tmp_path: Path) -> None:
    node, feeds, wanted = FORMULAS[name]
    check(model([node], feeds, None, "y"), feeds, tmp_path, wanted)


def test_gemm_fast_gelu(tmp_path: Path) -> None:
    """It is MatMul and FastGelu."""
    feeds, weights = {"x": X}, {"w": normal(8, 4), "b": normal(4)}
    nodes = [call("MatMul", "x w", "h", domain=""), call("FastGelu", "h b")]
    wanted = session(model(nodes, feeds, weights)).run(None, feeds)
    text = check(
        model([call("GemmFastGelu", "x w b")], feeds, weights), feeds, tmp_path, wanted
    )
    assert 'approximate="tanh"' in text and "nn.Linear(8, 4)" in text


def test_nhwc_fused_conv(tmp_path: Path) -> None:
    """FusedConv whose data, but not weight, have the channels last."""
    weights = {"w": normal(6, 4, 3, 3), "b": normal(6)}
    first = {"x": normal(1, 4, 6, 6), "z": normal(1, 6, 4, 4)}
    node = call("FusedConv", "x w b z", activation="Relu")
    (y,) = session(model([node], first, weights)).run(None, first)
    last = {name: np.moveaxis(x, 1, -1).copy() for name, x in first.items()}
    node = call("NhwcFusedConv", "x w b z", activation="Relu")
    wanted = [np.moveaxis(y, 1, -1)]
    text = check(model([node], last, weights), last, tmp_path, wanted)
    assert "nn.Conv2d(4, 6, 3)" in text


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (call("GatedRMSNorm", "x x x", activation="tanh"), "activation 'tanh' is not"),
        (call("MRotaryEmbedding", "x x x x", mrope_section=[1]), "three sections"),
        (call("IsAllFinite", "x", isinf_only=1, isnan_only=1), "asks for nothing"),
        (call("UnfoldTensor", "x", size=0), "a positive size"),
        (
            call(
                "LinearAttention",
                "x x x",
                q_num_heads=1,
                kv_num_heads=1,
                state_window=2,
            ),
            "states of several times",
        ),
        (call("CausalConvWithState", "x x", dilation=2), "with gaps"),
        (call("MaxpoolWithMask", "x x"), "com.microsoft.MaxpoolWithMask"),
    ],
    ids=lambda x: x.op_type if isinstance(x, onnx.NodeProto) else "",
)
def test_refused_by_name(node: onnx.NodeProto, words: str, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=words):
        emitted(model([node], {"x": X}), tmp_path)


def test_an_lstm_in_8_bits_verifies_for_batches(tmp_path: Path) -> None:
    """Of which ONNX Runtime's threads would round each its own share."""
    weights = {
        "w": integers(1, 3, 16),
        "r": integers(1, 4, 16),
        "b": normal(1, 32),
        "s": np.array([0.01], np.float32),
        "z": np.zeros(1, np.int8),
    }
    node = call("DynamicQuantizeLSTM", "x w r b _ _ _ _ s z s z", hidden_size=4)
    shapes = {"x": ["time", "batch", 3]}
    made = model([node], {"x": normal(5, 4, 3)}, weights, shapes=shapes)
    package = fairhand.compile(made, tmp_path / "net")
    cases = package.report["verification"]["cases"]
    assert len(cases) > 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_zeros_in_8_bits_are_0_in_any_type(dtype: torch.dtype) -> None:
    """As the first state is: they have no range, and no number stands for its step."""
    zeros, weight, scale = torch.zeros(1, 2, 3), torch.ones(1, 3, 4), torch.ones(1)
    try:
        torch.set_flush_denormal(True)
        assert not rounded_product(zeros.to(dtype), weight, scale).any()
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize("size", [514, 4096])
def test_products_of_8_bits_are_exact(size: int) -> None:
    """Fast in float32 up to what it holds, the same in float64 beyond."""
    rng = np.random.default_rng(0)
    weight = torch.from_numpy(rng.integers(100, 129, (size, 3)).astype(np.float64))
    x = torch.from_numpy(rng.integers(0, 256, (7, size)).astype(np.float32))
    x[:, 0], x[0], scale = 0, 255, torch.ones(1)
    weight[0] = weight[1] = 0
    made = exact_weight(weight)
    assert made.dtype == (torch.float32 if size == 514 else torch.float64)
    wanted = (x.double() @ weight).float()
    assert torch.equal(rounded_product(x, made, scale), wanted)
