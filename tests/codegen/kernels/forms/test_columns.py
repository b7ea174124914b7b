"""Reductions along other axes than the last, in Triton's interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.emitter_models import Graph

pytest.importorskip("triton", reason="kernels are tested in Triton's interpreter")
from support.kernel_models.columns import (
    GROUPS,
    Build,
    feed_for,
    model_of,
    norm_of_channels,
    to_rows,
)
from support.triton_kernels import (
    check_sizes,
    close,
    compile_for_gpus,
    compiled,
    named,
    oracle,
)

# `b` is 2 or more: along an axis of one element the extremes are equal.
SIZES = [(1, 2, 1), (3, 2, 7), (2, 3, 67), (3, 2, 0), (1, 5, 13)]


@pytest.mark.parametrize("build", GROUPS, ids=named)
def test_columns_on_odd_sizes(build: Build, tmp_path: Path) -> None:
    feeds = (feed_for(build, sizes) for sizes in SIZES)
    check_sizes(model_of(build), feeds, tmp_path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("build", GROUPS, ids=named)
def test_columns_in_half_precision(
    build: Build, dtype: torch.dtype, tmp_path: Path
) -> None:
    kernel = compiled(model_of(build), tmp_path)
    kernel.constants = {n: t.to(dtype) for n, t in kernel.constants.items()}
    tensors = {
        name: torch.tensor(x).to(dtype)
        for name, x in feed_for(build, (3, 2, 7)).items()
    }
    got = kernel.kernel(tensors)
    kernel.constants = {n: t.float() for n, t in kernel.constants.items()}
    wide = kernel.reference({name: t.float() for name, t in tensors.items()})
    for a, b in zip(got, wide, strict=True):
        assert close(a, b.to(a.dtype), ulps=2 if build is to_rows else 1)


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 1, 3, 2), (3, 1, 0, 2)])
def test_images_are_read_where_they_lie(order: tuple[int, ...], tmp_path: Path) -> None:
    """Channels innermost, as convolutions hand them on; a copy where it has to be."""
    kernel = compiled(model_of(norm_of_channels), tmp_path)
    sizes = [(3, 5, 2, 7)[axis] for axis in order]
    back = [order.index(axis) for axis in range(4)]
    image = torch.randn(sizes).permute(back)
    (got,), (wanted,) = kernel.kernel({"image": image}), kernel.reference(
        {"image": image}
    )
    assert kernel.launches == [1] and got.is_contiguous() and close(got, wanted)


def test_deep_columns_take_the_twin(tmp_path: Path) -> None:
    g = Graph(image=["a", "n", "b"])
    kernel = compiled(g.model(**softmax_of(g)), tmp_path)
    x = torch.randn(1, 2049, 2)
    (got,) = kernel.kernel({"image": x})
    assert kernel.launches == [0] and close(got, torch.softmax(-x, 1))


def softmax_of(g: Graph) -> dict[str, str]:
    return {"y": g("Softmax", g("Neg", "image"), axis=1)}


@pytest.mark.slow
def test_columns_compile_for_gpus(tmp_path: Path) -> None:
    compile_for_gpus({named(b): model_of(b) for b in GROUPS}, tmp_path)


@st.composite
def random_columns(draw: st.DrawFn) -> onnx.ModelProto:
    """A reduction of some axes that lie together, with transposes around it."""
    rank = draw(st.integers(2, 4))
    dims = [draw(st.integers(2, 5)) for _ in range(rank)]
    start = draw(st.integers(0, rank - 2))
    end = draw(st.integers(start + 1, rank - 1))
    g = Graph(x=dims)
    y, order = "x", list(range(rank))
    if draw(st.booleans()):
        groups = [order[:start], order[start:end], order[end:]]
        order = [a for group in draw(st.permutations(groups)) for a in group]
        y = g("Transpose", y, perm=order)
    axes = g.ints(*(order.index(a) for a in range(start, end)))
    kind = draw(st.sampled_from(["ReduceSum", "ReduceMax", "ReduceL2", "ReduceMean"]))
    y = g(draw(st.sampled_from(["Add", "Mul"])), y, g(kind, y, axes))
    if draw(st.booleans()):
        y = g("Transpose", y, perm=[order.index(a) for a in range(rank)])
        y = g("Sub", y, "x")
    return g.model(y=g("Tanh", y))


@settings(max_examples=25, derandomize=True, deadline=None, database=None)
@given(proto=random_columns())
def test_random_columns(
    proto: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kernel = compiled(proto, tmp_path_factory.mktemp("columns"))
    random = np.random.default_rng(0)
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    feed = {"x": random.normal(0, 1, shape).astype(np.float32)}
    (got,) = kernel.kernel({"x": torch.tensor(feed["x"])})
    assert kernel.launches == [1]
    assert close(got, torch.tensor(oracle(proto, feed)[0]), ulps=32)
