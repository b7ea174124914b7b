"""Reductions along any axes, apart from each other too, in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.emitter_models import Graph

pytest.importorskip("triton", reason="kernels are tested in Triton's interpreter")
from support.triton_kernels import (
    check_sizes,
    close,
    compile_for_gpus,
    compiled,
    named,
    oracle,
    random_feed,
)

from fairhand.analysis.shapes.infer import infer
from fairhand.codegen.kernels.kernel_set import KernelSet
from fairhand.codegen.kernels.program.build import make_program
from fairhand.codegen.kernels.program.program import NoKernel, Surroundings
from fairhand.codegen.statements.from_graph import make_steps

Build = Callable[[Graph], dict[str, str]]


def batch_norm(g: Graph) -> dict[str, str]:
    """Statistics of a batch, channel by channel, and what they are for."""
    axes = g.ints(0, 2, 3)
    mean = g("ReduceMean", "image", axes)
    centred = g("Sub", "image", mean)
    variance = g("ReduceMean", g("Mul", centred, centred), axes)
    spread = g("Sqrt", g("Add", variance, g.weight("eps", value=np.float32(1e-5))))
    y = g("Mul", g("Div", centred, spread), "c")
    return {"mean": mean, "y": g("Add", y, "image")}


def batch_norm_of_known_size(g: Graph) -> dict[str, str]:
    return batch_norm(g)


def bias_gradient(g: Graph) -> dict[str, str]:
    """What is added to channels gets the sum of all that they pass on."""
    return {"y": g("ReduceSum", g("Mul", "image", "m"), g.ints(0, 2, 3), keepdims=0)}


def masked_extremes(g: Graph) -> dict[str, str]:
    """A tensor has a part of a row's axes, another a part of the others."""
    axes = g.ints(1, 3)
    total = g("Add", g("Mul", "image", "line"), "per")
    spread = g("Sub", g("ReduceMax", total, axes), g("ReduceMin", total, axes))
    return {"spread": spread, "y": g("Mul", total, spread)}


def columns_apart(g: Graph) -> dict[str, str]:
    """Neighbours in memory are not reduced."""
    axes = g.ints(0, 2)
    mean = g("ReduceMean", g("Mul", "image", "per"), axes)
    return {"mean": mean, "y": g("Sub", "image", mean)}


def rows_of_turned(g: Graph) -> dict[str, str]:
    """Heads put together, and a norm of each word: a row is one of memory no more."""
    words = g("Transpose", "image", perm=[0, 2, 1, 3])
    y = g("ReduceL2", g("Add", words, "line"), g.ints(2, 3))
    y = g("Div", words, y)
    return {"words": words, "y": g("Transpose", g("Tanh", y), perm=[0, 2, 1, 3])}


def logarithms(g: Graph) -> dict[str, str]:
    axes = g.ints(0, 2, 3)
    logs = g("ReduceLogSumExp", "image", axes)
    sizes = g("ReduceLogSum", g("Mul", "image", "image"), axes)
    y = g("Sub", g("ReduceL1", g("Sub", "image", logs), axes), sizes)
    return {"logs": logs, "y": g("Mul", "image", y)}


def total(g: Graph) -> dict[str, str]:
    """Of all elements, with a tensor that has a part of the axes."""
    mean = g("ReduceMean", g("Sub", "image", "per"), keepdims=0)
    return {"y": g("Sqrt", g("Abs", mean))}


def one_element(g: Graph) -> dict[str, str]:
    """Axes of one element are neither between others, nor behind them."""
    y = g("ReduceSum", "thin", g.ints(0, 2))
    return {"y": g("Mul", "thin", g("Sigmoid", y))}


ANY: list[object] = ["a", 3, "b", "n"]
KNOWN: list[object] = [2, 3, 5, 7]
KINDS: dict[Build, dict[str, list[object]]] = {
    batch_norm: {"image": ANY, "c": [3, 1, 1]},
    batch_norm_of_known_size: {"image": KNOWN, "c": [3, 1, 1]},
    bias_gradient: {"image": ANY, "m": ["a", 1, 1, "n"]},
    masked_extremes: {"image": KNOWN, "line": [7], "per": [2, 3, 1, 1]},
    columns_apart: {"image": ANY, "per": [3, "b", 1]},
    rows_of_turned: {"image": ANY, "line": [3, "n"]},
    logarithms: {"image": ANY},
    total: {"image": ANY, "per": ["a", 1, 1, "n"]},
    one_element: {"thin": ["a", 1, "b", 1]},
}
OF_KNOWN_SIZE = (batch_norm_of_known_size, masked_extremes)
IN_ONE_PASS = (*OF_KNOWN_SIZE, columns_apart, one_element)
SIZES = [(1, 2, 1), (3, 2, 7), (2, 3, 67), (3, 0, 2), (1, 13, 11)]


def model_of(build: Build) -> onnx.ModelProto:
    g = Graph(**KINDS[build])  # type: ignore[arg-type]
    return g.model(**build(g))


def feed_for(build: Build, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return random_feed(KINDS[build], sizes)


@pytest.mark.parametrize("build", KINDS, ids=named)
def test_axes_apart_on_odd_sizes(build: Build, tmp_path: Path) -> None:
    some = SIZES[:1] if build in OF_KNOWN_SIZE else SIZES
    feeds = [feed_for(build, sizes) for sizes in some]
    check_sizes(model_of(build), feeds, tmp_path, laid_out=True)
    text = (tmp_path / "kernels.py").read_text("utf-8")
    assert ("BLOCK=PART" in text) == (build not in IN_ONE_PASS)
    assert ("MAX_DEPTH" in text) == (build is columns_apart)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("build", KINDS, ids=named)
def test_axes_apart_in_half_precision(
    build: Build, dtype: torch.dtype, tmp_path: Path
) -> None:
    kernel = compiled(model_of(build), tmp_path)
    feed = feed_for(build, (2, 5, 7))
    tensors = {name: torch.tensor(x).to(dtype) for name, x in feed.items()}
    got = kernel.kernel(tensors)
    wide = kernel.reference({name: t.float() for name, t in tensors.items()})
    for a, b in zip(got, wide, strict=True):
        assert close(a, b.to(a.dtype), ulps=2)


def test_many_are_reduced_in_parts(tmp_path: Path) -> None:
    kernel = compiled(model_of(batch_norm), tmp_path)
    random = torch.Generator().manual_seed(0)
    feed = {"image": torch.randn(5, 3, 40, 89, generator=random)}
    feed["c"] = torch.randn(3, 1, 1, generator=random)
    for got, wanted in zip(kernel.kernel(feed), kernel.reference(feed), strict=True):
        assert close(got, wanted, ulps=16)
    assert kernel.launches == [1]


def test_products_of_many(tmp_path: Path) -> None:
    g = Graph(image=["a", 2, "n"])
    y = g("ReduceProd", g("Mul", "image", "image"), g.ints(0, 2))
    kernel = compiled(g.model(y=g("Mul", "image", y)), tmp_path)
    image = 1 + 0.01 * torch.arange(2 * 2 * 2111).sin().reshape(2, 2, 2111)
    feed = {"image": image}
    assert close(kernel.kernel(feed)[0], kernel.reference(feed)[0], ulps=256)
    assert kernel.launches == [1]


def test_running_sums_of_one_part_alone(tmp_path: Path) -> None:
    for width, found in ((9, True), (20011, False)):
        g = Graph(x=["a", width])
        sums = g("CumSum", g("Mul", "x", "x"), g.weight("axis", value=np.int64(-1)))
        proto = g.model(y=g("Sqrt", sums))
        if found:
            feed = {"x": np.linspace(-1, 1, 27, dtype=np.float32).reshape(3, 9)}
            check_sizes(proto, [feed], tmp_path)
        else:
            with pytest.raises(NoKernel, match="of more than one part"):
                compiled(proto, tmp_path)


def test_other_shapes_are_refused(tmp_path: Path) -> None:
    kernel = compiled(model_of(one_element), tmp_path)
    with pytest.raises(ValueError, match=r"must have shape \[2, 1, 3, 1\]"):
        kernel.kernel({"thin": torch.ones(2, 4, 3, 1)})


def test_a_part_of_the_columns_is_read_where_it_is(tmp_path: Path) -> None:
    g = Graph(x=["a", "b", "c", "n"], m=["a", 1, "c", "n"])
    mean = g("ReduceMean", g("Mul", "x", "m"), g.ints(1, 2))
    feed = {"x": (2, 3, 4, 7), "m": (2, 1, 4, 7)}
    random = np.random.default_rng(0)
    given = {n: random.normal(0, 1, s).astype(np.float32) for n, s in feed.items()}
    check_sizes(g.model(y=g("Mul", "x", mean)), [given], tmp_path)


def test_a_number_of_each_column_is_not_reduced_again(tmp_path: Path) -> None:
    g = Graph(x=["a", 3, "n"])
    y = g("ReduceSum", g("ReduceMean", "x", g.ints(1)), g.ints(1))
    with pytest.raises(NoKernel, match="rows of different sizes"):
        compiled(g.model(y=g("Mul", "x", y)), tmp_path)


@pytest.mark.parametrize(
    "axes, worth",
    [((2,), True), ((0, 2), True), ((0, 1), True), ((1, 2), False), ((0, 1, 2), False)],
    ids=str,
)
def test_few_rows_are_not_worth_a_kernel(axes: tuple[int, ...], worth: bool) -> None:
    """One program goes over each, beside which all else of a GPU has nothing to do."""
    g = Graph(x=[4, 512, 2048])
    proto = g.model(y=g("ReduceMean", g("Exp", "x"), g.ints(*axes)))
    model = ir.from_proto(proto)
    shapes = infer(model)
    steps = make_steps(model, shapes, kernels=True)
    made = {v for step in steps for v in step.outputs if v is not None}
    around = Surroundings(shapes, made)
    program = make_program(steps, set(model.graph.outputs), around)
    assert (KernelSet(model, shapes).saved(program) > 0) == worth


@st.composite
def random_axes(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, list[int]]]:
    """Some axes, of sizes known or not, are reduced; transposes are around it."""
    rank = draw(st.integers(2, 4))
    dims = [draw(st.sampled_from([1, 2, 3, 5])) for _ in range(rank)]
    axes = draw(st.sets(st.integers(0, rank - 1), min_size=1))
    part = [d if draw(st.booleans()) else 1 for d in dims]
    shapes = {"x": dims, "part": part}
    known = draw(st.booleans())
    given = {
        name: [d if d == 1 or known else f"n{i}" for i, d in enumerate(shape)]
        for name, shape in shapes.items()
    }
    g = Graph(**given)  # type: ignore[arg-type]
    y, order = g("Add", "x", "part"), list(range(rank))
    if draw(st.booleans()):
        order = draw(st.permutations(order))
        y = g("Transpose", y, perm=order)
    kept = draw(st.booleans())
    own = g.ints(*sorted(order.index(a) for a in axes))
    kind = draw(st.sampled_from(["ReduceSum", "ReduceL2", "ReduceMean"]))
    reduced = g(kind, y, own, keepdims=int(kept))
    if not kept:
        return g.model(y=g("Tanh", reduced)), shapes
    y = g(draw(st.sampled_from(["Add", "Mul"])), y, reduced)
    if draw(st.booleans()):
        y = g("Transpose", y, perm=[order.index(a) for a in range(rank)])
        y = g("Sub", y, "x")
    return g.model(y=g("Tanh", y)), shapes


@settings(max_examples=30, derandomize=True, deadline=None, database=None)
@given(case=random_axes())
def test_random_axes(
    case: tuple[onnx.ModelProto, dict[str, list[int]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """All have a kernel but those that have nothing to reduce."""
    proto, shapes = case
    random = np.random.default_rng(0)
    feed = {n: random.normal(0, 1, s).astype(np.float32) for n, s in shapes.items()}
    try:
        kernel = compiled(proto, tmp_path_factory.mktemp("axes"))
    except NoKernel as error:
        assert "one element" in str(error)
        return
    (got,) = kernel.kernel({n: torch.tensor(x) for n, x in feed.items()})
    assert kernel.launches == [1]
    assert close(got, torch.tensor(oracle(proto, feed)[0]), ulps=32)


@pytest.mark.slow
def test_axes_apart_compile_for_gpus(tmp_path: Path) -> None:
    compile_for_gpus({named(b): model_of(b) for b in KINDS}, tmp_path)
