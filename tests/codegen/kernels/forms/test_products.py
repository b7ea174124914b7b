"""Matrix products in Triton's interpreter, with what precedes and follows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.emitter_models import Graph, run_here
from torch._subclasses.fake_tensor import FakeTensorMode

import fairhand
from fairhand.codegen.kernels import kernel_set
from fairhand.codegen.verify import parity

pytest.importorskip("triton", reason="kernels are tested in Triton's interpreter")
from support.kernel_models.products import (
    EIGHT,
    FOUR,
    GROUPS,
    MIDDLE,
    Build,
    conv_of_lines,
    feed_for,
    gated_linear,
    gated_pixels,
    gemm_add,
    int8_linear,
    linear_gelu,
    model_of,
    named,
    pixel_conv,
    squeezed,
)
from support.triton_kernels import (
    check_sizes,
    close,
    compile_for_gpus,
    compiled,
    examples,
    oracle,
    products_of_bfloat16,
)

from fairhand.codegen.kernels.program.program import NoKernel

CONVS = [
    pixel_conv,
    gated_pixels,
    squeezed,
    conv_of_lines,
]  # PyTorch has none without pixels
SIZES = [(1, 1, 1), (3, 2, 7), (2, 1, 67), (3, 0, 5), (1, 17, 19)]


@pytest.mark.parametrize("build", GROUPS, ids=named)
def test_product_on_odd_sizes(build: Build, tmp_path: Path) -> None:
    sizes = [(0, 2, 3) if 0 in s and build in CONVS else s for s in SIZES]
    feeds = (feed_for(build, s) for s in sizes)
    check_sizes(model_of(build), feeds, tmp_path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("build", GROUPS, ids=named)
def test_product_in_half_precision(
    build: Build, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As good as float32 rounded once, where nothing is rounded before the product."""
    products_of_bfloat16(monkeypatch)
    kernel = compiled(model_of(build), tmp_path)

    def cast(x: torch.Tensor, to: torch.dtype) -> torch.Tensor:
        return x.to(to) if x.is_floating_point() else x

    kernel.constants = {n: cast(t, dtype) for n, t in kernel.constants.items()}
    feed = feed_for(build, (3, 2, 7))
    tensors = {name: torch.tensor(x).to(dtype) for name, x in feed.items()}
    got = kernel.kernel(tensors)
    kernel.constants = {n: cast(t, torch.float32) for n, t in kernel.constants.items()}
    wide = kernel.reference({name: t.float() for name, t in tensors.items()})
    rounded = build in (gated_linear, FOUR, EIGHT, MIDDLE, gemm_add, pixel_conv)
    rounded |= build is gated_pixels
    for a, b in zip(got, wide, strict=True):
        assert close(a, b.to(a.dtype), ulps=4 if rounded else 1)


def test_what_a_kernel_is_not_launched_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its twin computes on an old card, in float64, under autocast and the compiler's
    eyes; of tensors of several devices PyTorch says what is wrong."""
    kernels = compiled(model_of(linear_gelu), tmp_path).module
    cards = {torch.device("cuda", 0): (8, 0), torch.device("cuda", 1): (7, 5)}
    monkeypatch.setattr(torch.cuda, "get_device_capability", cards.__getitem__)
    with FakeTensorMode():
        x, old = (torch.empty(2, device=device) for device in cards)
        assert kernels.runs_triton(x, x)
        assert not kernels.runs_triton(old)
        assert not kernels.runs_triton(x, torch.empty(2))
        assert not kernels.runs_triton(x, old)
        assert not kernels.runs_triton(x.double())
        for module, name in (
            (torch, "is_autocast_enabled"),
            (torch.compiler, "is_compiling"),
        ):
            with monkeypatch.context() as on:
                on.setattr(module, name, lambda *device: True)
                assert not kernels.runs_triton(x)
            assert kernels.runs_triton(x)


@pytest.mark.slow
def test_products_compile_for_gpus(tmp_path: Path) -> None:
    compile_for_gpus({named(b): model_of(b) for b in GROUPS}, tmp_path)


@pytest.mark.parametrize("build", [linear_gelu, int8_linear, FOUR], ids=named)
def test_package_with_a_product(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verified in the interpreter; the layer still owns the weight."""
    monkeypatch.setattr(parity, "run_package", run_here)
    monkeypatch.setattr(kernel_set, "MIN_SAVED", 0.0)
    monkeypatch.setattr(kernel_set, "SMALL_PRODUCT", 0.0)
    monkeypatch.setattr(kernel_set, "SAVED_BYTES", 0.0)
    package = fairhand.compile(model_of(build), tmp_path / "net", target="triton")
    text = (package.path / "model.py").read_text("utf-8")
    assert "fc.weight" in text and "from .kernels import" in text
    (choice,) = package.report["target"]["groups"][0]["choices"]
    assert choice["choice"].startswith("kernel ")


@pytest.mark.parametrize(
    ("shape", "reason"),
    [([1, 3, 5, 4], "broadcast in part"), ([3, 2, 5, 4], "broadcast in part")],
)
def test_batches_broadcast_in_part_stay_pytorchs(
    shape: list[int], reason: str, tmp_path: Path
) -> None:
    g = Graph(x=[2, 1, 7, 5] if shape[0] > 1 else [2, 3, 7, 5], k=shape)
    model = g.model(y=g("Relu", g("MatMul", "x", "k")))
    if shape[0] > 1:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3
    with pytest.raises(NoKernel, match=reason):
        compiled(model, tmp_path)


def test_other_shapes_are_refused(tmp_path: Path) -> None:
    kernel = compiled(model_of(gemm_add), tmp_path)
    with pytest.raises(ValueError, match=r"r must have shape|residual must have shape"):
        kernel.kernel({"x": torch.ones(2, 5), "r": torch.ones(7)})


def test_factors_of_two_types_are_pytorchs(tmp_path: Path) -> None:
    """Which refuses them, but for torch.autocast."""
    kernel = compiled(model_of(gemm_add), tmp_path)
    feed = {"x": torch.ones(2, 5).half(), "r": torch.ones(2, 7)}
    with pytest.raises(RuntimeError, match="dtype"):
        kernel.kernel(feed)
    with torch.autocast("cpu", torch.bfloat16):
        kernel.kernel(feed)
    assert kernel.launches == [0]


UNARY = ["Abs", "Neg", "Relu", "Sigmoid", "Tanh"]
BINARY = ["Add", "Sub", "Mul", "Max"]


@st.composite
def random_product(draw: st.DrawFn) -> onnx.ModelProto:
    """Operators, a product, and operators, on tensors broadcast in some ways."""
    rows, depth, cols = (draw(st.integers(1, 20)) for _ in range(3))
    lead = [draw(st.integers(1, 3))] if draw(st.booleans()) else []
    batched = bool(lead) and draw(st.booleans())
    left, right = [*lead, rows, depth], [*(lead if batched else []), depth, cols]
    shapes = [[*lead, rows, cols], [cols], [*lead, rows, 1], [1]]
    g = Graph(
        x=left,
        w=right,
        u=draw(st.sampled_from([left, [depth], [*lead, rows, 1]])),
        v=draw(st.sampled_from(shapes)),
    )
    y = "x"
    for other in ("u", "v"):
        for _ in range(draw(st.integers(0, 2))):
            y = g(draw(st.sampled_from(UNARY)), y)
        if draw(st.booleans()):
            y = g(draw(st.sampled_from(BINARY)), y, other)
        if other == "u":
            y = g("MatMul", y, "w")
    return g.model(y=g("Neg", y))


@settings(max_examples=examples(10), derandomize=True, deadline=None, database=None)
@given(proto=random_product())
def test_random_products(
    proto: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kernel = compiled(proto, tmp_path_factory.mktemp("product"))
    random = np.random.default_rng(0)
    feed = {
        value.name: random.normal(
            0, 1, [d.dim_value for d in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in proto.graph.input
    }
    (got,) = kernel.kernel({name: torch.tensor(x) for name, x in feed.items()})
    assert kernel.launches == [1]
    assert close(got, torch.tensor(oracle(proto, feed)[0]), ulps=32)
