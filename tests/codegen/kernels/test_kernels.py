"""Emitted Triton kernels under Triton's interpreter, beside their twins and ORT."""

from __future__ import annotations

import re
import subprocess
import sys
from inspect import signature
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from support.drawn import some
from support.emitter_models import Graph, run_here
from support.golden_images import IMAGES
from support.golden_sequences import SEQUENCES
from support.one_operator import arrays, one_node
from support.operator_cases import cases_of

import fairhand
from fairhand.analysis.errors import Unsupported
from fairhand.analysis.ops.registry import OPS
from fairhand.analysis.ops.triton.elementwise import POINTWISE
from fairhand.analysis.ops.triton.index_maps import MOVES
from fairhand.analysis.ops.triton.rows import ROWS
from fairhand.codegen.kernels import kernel_set
from fairhand.codegen.kernels.launch.launcher import KernelSource
from fairhand.codegen.kernels.program.program import NoKernel
from fairhand.codegen.verify import parity

pytest.importorskip("triton", reason="kernels are tested in Triton's interpreter")
from support.kernel_models.elements import (
    GROUPS,
    convolved,
    counted,
    embedded,
    feed_for,
    gated,
    group_model,
    normed,
    rotated,
    taken,
    turned,
)
from support.triton_kernels import (
    another,
    check_sizes,
    close,
    compile_for_gpus,
    compiled,
    examples,
    oracle,
    tensor,
)

INF, NAN = float("inf"), float("nan")
HALVES = [torch.float16, torch.bfloat16]


def with_special(name: str, feed: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """NaN, infinities and -0.0 among the numbers."""
    special = torch.tensor([NAN, INF, -INF, -0.0])
    # PyTorch makes NaN of inf on a CPU here; a whole number of either is anything.
    special = special[{"Gelu": [0, 3], "Cast": [3]}.get(name, [0, 1, 2, 3])]
    found, random = dict(feed), torch.Generator().manual_seed(0)
    weighted = name.endswith("Normalization")  # in another order in PyTorch
    for key, x in list(feed.items())[: 1 if weighted else None]:
        if x.is_floating_point():
            place = torch.randint(0, 3 * len(special), x.shape, generator=random)
            other = special[place % len(special)].to(x.dtype)
            found[key] = torch.where(place < len(special), other, x)
    return found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of what is special
@pytest.mark.parametrize("name", some((*POINTWISE, *ROWS, *MOVES), 6))
def test_operator_in_a_kernel(name: str, tmp_path: Path) -> None:
    """The cases of the operator's table entry that give a kernel of their own."""
    op, made = OPS["", name], set[KernelSource]()
    for i, case in enumerate(cases_of(op)):
        inputs = arrays(op, i)
        proto = one_node(op, case, inputs)
        feed = {f"x{j}": x for j, x in enumerate(inputs) if x is not None}
        try:
            kernel = another(proto, tmp_path, made, laid_out=not made)
        except (NoKernel, Unsupported):
            continue
        if kernel is None:
            continue
        tensors = {name: tensor(x) for name, x in feed.items()}
        if name == "GroupNormalization" and inputs[0].size == inputs[1].size:
            continue  # F.group_norm refuses groups of one number each
        full = all(t.numel() for n, t in tensors.items() if n in kernel.arguments)
        for feeds in (tensors, with_special(name, tensors)):
            wanted, got = kernel.reference(feeds), kernel.kernel(feeds)
            assert all(map(close, got, wanted)), (i, got, wanted)
        assert kernel.launches == [2 * int(full)]
    assert made or name == "SwiGLU", "no case of the table became a kernel"


# ---- several operators


SIZES = [(1, 1, 1), (3, 2, 7), (5, 3, 64), (2, 1, 1031), (3, 0, 5), (1, 3, 130)]


@pytest.mark.parametrize("start", [1, 3, 6])
def test_one_element_is_read_where_it_is(start: int, tmp_path: Path) -> None:
    """Of what is joined or padded, whose other tensors and border are not there."""
    g = Graph(x=[2])
    joined = g("Concat", g("Neg", "x"), "x", g("Abs", "x"), axis=0)
    padded = g("Pad", joined, g.ints(1, 1))
    one = g("Slice", padded, g.ints(start), g.ints(start + 1), g.ints(0))
    feed = {"x": np.array([3, 5], np.float32)}
    check_sizes(g.model(y=g("Mul", one, one), z=g("Tanh", one)), [feed], tmp_path)


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_one_element_of_what_is_repeated(mode: str, tmp_path: Path) -> None:
    g = Graph(x=[2])
    padded = g("Pad", "x", g.ints(1, 1), mode=mode)
    one = g("Slice", padded, g.ints(0), g.ints(1), g.ints(0))
    feed = {"x": np.array([3, 5], np.float32)}
    check_sizes(g.model(y=g("Mul", one, one)), [feed], tmp_path)


@pytest.mark.parametrize(("start", "end", "step"), [(0, 2, 2), (1, 2, 1)])
def test_one_element_of_an_axis_within(
    start: int, end: int, step: int, tmp_path: Path
) -> None:
    """The axes around it lie apart in the tensor, and together in the result."""
    g = Graph(x=["a", 2, "n"])
    places = map(g.ints, (start, end, 1, step))
    part = g("Slice", "x", *places)
    feed = {"x": np.arange(30, dtype=np.float32).reshape(3, 2, 5)}
    check_sizes(g.model(y=g("Mul", part, part)), [feed], tmp_path)


@pytest.mark.parametrize("build", GROUPS, ids=lambda build: build.__name__)
def test_group_on_odd_sizes(build: object, tmp_path: Path) -> None:
    feeds = (feed_for(build, sizes) for sizes in SIZES)
    check_sizes(group_model(build), feeds, tmp_path)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(
    "build",
    [b for b in GROUPS if b not in (counted, embedded)],  # of whole numbers
    ids=lambda b: b.__name__,
)
def test_group_in_half_precision(
    build: object, dtype: torch.dtype, tmp_path: Path
) -> None:
    """As good as float32 rounded once: all arithmetic is done in float32."""
    kernel = compiled(group_model(build), tmp_path)
    kernel.constants = {n: t.to(dtype) for n, t in kernel.constants.items()}
    feed = feed_for(build, (3, 2, 7))
    tensors = {name: torch.tensor(x).to(dtype) for name, x in feed.items()}
    got = kernel.kernel(tensors)
    kernel.constants = {n: t.float() for n, t in kernel.constants.items()}
    wide = kernel.reference({name: t.float() for name, t in tensors.items()})
    for a, b in zip(got, wide, strict=True):
        assert close(a, b.to(a.dtype), ulps=2 if build is normed else 1)


def test_nothing_is_read_outside_of_a_table(tmp_path: Path) -> None:
    kernel = compiled(group_model(embedded), tmp_path)
    ids = {"ids": torch.tensor([[[-1, 5, 2**40, 1]]]), "ids2": torch.zeros(1, 4).long()}
    inside = {name: x.clamp(0, 1) for name, x in ids.items()}
    got, wanted = kernel.kernel(ids)[0], kernel.reference(inside)[0]
    assert close(got[..., 3, :], wanted[..., 3, :])
    assert bool(got.isfinite().all())


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 3, 5), (7, 1, 67), (2, 0, 3)])
def test_elements_are_taken_at_places(
    sizes: tuple[int, int, int], tmp_path: Path
) -> None:
    """Which other tensors say; negative ones count from the end."""
    g = Graph(cells=["n", 4, 3], ids=("int64", ["a", "b"]), line=[3])
    kernel = compiled(g.model(**taken(g)), tmp_path)
    a, b, n = sizes
    ids = torch.randint(-4, 4, (a, b), generator=torch.Generator().manual_seed(a))
    feed = {"cells": torch.randn(n, 4, 3), "ids": ids, "line": torch.randn(3)}
    (got,), (wanted,) = kernel.kernel(feed), kernel.reference(feed)
    assert close(got, wanted) and kernel.launches == [int(b > 0)]
    if b:
        outside = kernel.kernel({**feed, "ids": torch.full((a, b), 2**40)})[0]
        assert not outside.any()  # nothing is read there


def test_results_have_the_type_of_what_is_multiplied_not_of_what_is_cast(
    tmp_path: Path,
) -> None:
    """Positions are whole numbers; the angles that they are multiplied to are not."""
    g = Graph(places=("int64", ["a", 1]), rates=[8])
    angle = g("Mul", g("Cast", "places", to=1), "rates")
    kernel = compiled(g.model(cos=g("Cos", angle), sin=g("Sin", angle)), tmp_path)
    feed = {"places": torch.arange(5)[:, None], "rates": torch.rand(8)}
    pairs = zip(kernel.kernel(feed), kernel.reference(feed), strict=True)
    assert all(close(got, wanted) for got, wanted in pairs)


def test_views_are_read_where_they_lie(tmp_path: Path) -> None:
    kernel = compiled(group_model(gated), tmp_path)
    x, u = torch.randn(7, 5).t(), torch.randn(5, 14)[:, ::2]
    (got,) = kernel.kernel({"x": x, "u": u})
    assert close(got, kernel.reference({"x": x, "u": u})[0])


def test_other_shapes_are_refused(tmp_path: Path) -> None:
    kernel = compiled(group_model(gated), tmp_path)
    with pytest.raises(ValueError, match=r"x must have shape \[2, 3\], got \[3\]"):
        kernel.kernel({"x": torch.ones(2, 3), "u": torch.ones(3)})


def test_sizes_that_stand_in_a_kernel_are_checked(tmp_path: Path) -> None:
    kernel = compiled(group_model(rotated), tmp_path)
    pairs, cos, sin = torch.ones(2, 2, 3, 4), torch.ones(2, 1, 3, 6), torch.ones(3, 6)
    with pytest.raises(ValueError, match=r"x must have shape \[2, 2, 3, 6\]"):
        kernel.kernel({"pairs": pairs, "cos": cos, "sin": sin})


def test_axes_of_one_size_stay_apart(tmp_path: Path) -> None:
    kernel = compiled(group_model(turned), tmp_path)
    feed = {"pixels": torch.randn(2, 5, 6, 3), "square": torch.randn(2, 3, 5, 6)}
    assert close(kernel.kernel(feed)[0], kernel.reference(feed)[0])


def test_a_convolution_of_other_windows_is_the_same_kernel(tmp_path: Path) -> None:
    """What differs between the blocks of a network is handed on by their layers."""
    kernel = compiled(group_model(convolved), tmp_path)
    for window, stride, padding in ((3, 1, 1), (5, 2, 2), (1, 1, 0)):
        kernel.constants["dw.weight"] = torch.randn(3, 1, window, window)
        kernel.numbers = [(stride, stride), (padding, padding * 2)]
        feed = {"planes": torch.randn(2, 3, 11, 9), "level": torch.randn(2, 3, 1, 1)}
        assert close(kernel.kernel(feed)[0], kernel.reference(feed)[0])
    assert kernel.launches == [3]


@pytest.mark.parametrize(("dims", "refused"), [([7, 5], True), ([5], False)])
def test_a_batch_of_one_may_have_to_stay_one(
    dims: list[int], refused: bool, tmp_path: Path
) -> None:
    """Of a tensor without it the kernel would read what lies behind the end."""
    g = Graph(x=[1, 7, 5], u=dims)
    kernel = compiled(g.model(y=g("Tanh", g("Add", "x", "u"))), tmp_path)
    feed = {"x": torch.randn(3, 7, 5), "u": torch.randn(dims)}
    if refused:
        with pytest.raises(ValueError, match=r"x must have shape \[1, 7, 5\]"):
            kernel.kernel(feed)
    else:
        assert close(kernel.kernel(feed)[0], kernel.reference(feed)[0])


@pytest.mark.parametrize(("rows", "wide"), [(70000, True), (50000, False)])
def test_a_part_of_a_large_tensor_has_wide_offsets(
    rows: int, wide: bool, tmp_path: Path
) -> None:
    """The result is small: that alone doesn't tell how far into the tensor it lies."""
    g = Graph(x=[rows, 40000])
    part = g("Slice", "x", g.ints(-3), g.ints(rows), g.ints(0))
    compiled(g.model(y=g("Exp", g("Neg", part))), tmp_path, laid_out=True)
    text = (tmp_path / "kernels.py").read_text("utf-8")
    assert ("tl.program_id(0).to(tl.int64) * BLOCK" in text) == wide


def test_gradients_take_the_twin(tmp_path: Path) -> None:
    kernel = compiled(group_model(gated), tmp_path)
    x = torch.ones(2, 3, requires_grad=True)
    (y,) = kernel.kernel({"x": x, "u": torch.ones(2, 3)})
    y.sum().backward()
    assert kernel.launches == [0] and x.grad is not None


# ---- what the interpreter doesn't tell: whether a GPU's compiler takes them


def unary(g: Graph) -> dict[str, str]:
    """All functions of one number, one after another."""
    y = "x"
    other = {"Cast", "Not", "Max", "Min", "Sum", "Swish"}  # the last is of opset 24
    for name, spelling in POINTWISE.items():
        if len(signature(spelling.spell).parameters) == 3 and name not in other:
            y = g(name, y)
    return {"y": g("Gelu", g("Cast", g("Cast", y, to=10), to=1), approximate="tanh")}


def binary(g: Graph) -> dict[str, str]:
    y = "x"
    for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Sum"):
        y = g(name, y, "u")
    power = g.weight("two", value=np.float32(2))
    low = g.weight("low", value=np.float32(-2))
    y = g("Clip", g("Pow", y, power), low, power)
    one = g("And", g("Less", y, "u"), g("Greater", y, "u"))
    two = g("Or", g("Equal", y, "u"), g("LessOrEqual", y, "u"))
    both = g("Xor", one, g("Not", g("And", two, g("GreaterOrEqual", y, "u"))))
    whole = g("Cast", g("Cast", y, to=7), to=9)
    return {"z": both, "y": g("Where", g("Or", both, whole), y, "u")}


def reductions(g: Graph) -> dict[str, str]:
    axes, y = g.ints(-1), "x"
    for name in ROWS:
        if name.startswith("Reduce"):
            y = g("Add", y, g(name, y, axes))
    y = g("Softmax", g("LogSoftmax", y, axis=-1), axis=-1)
    return {"y": y}


def long_rows(g: Graph) -> dict[str, str]:
    total = g("Add", "wide", "bias")
    normed = g("LayerNormalization", total, "weight", "bias", axis=-1)
    return {"total": total, "y": g("Softmax", g("Mul", normed, "scale"), axis=-1)}


LONG = 20011  # more than a program keeps on chip
COMPILED = {
    long_rows: {
        "wide": ["a", LONG],
        "bias": [LONG],
        "weight": [LONG],
        "scale": ["a", 1],
    },
    unary: {"x": ["n"]},
    binary: {"x": ["n"], "u": [1]},
    reductions: {"x": ["a", "n"]},
}


def test_long_rows_are_taken_in_parts(tmp_path: Path) -> None:
    model = group_model(long_rows, COMPILED)
    kernel = compiled(model, tmp_path, laid_out=True)
    text = (tmp_path / "kernels.py").read_text("utf-8")
    assert text.count("for start in range(0, n_cols, BLOCK)") == 5
    random = np.random.default_rng(0)
    shapes = {"wide": (3, LONG), "bias": (LONG,), "weight": (LONG,), "scale": (3, 1)}
    feed = {n: random.normal(0, 0.5, s).astype(np.float32) for n, s in shapes.items()}
    got = kernel.kernel({name: torch.tensor(x) for name, x in feed.items()})
    assert kernel.launches == [1]
    wanted = [torch.tensor(x) for x in oracle(model, feed)]
    assert all(map(close, got, wanted))


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_kernels_compile_for_gpus(every: int, tmp_path: Path) -> None:
    builds = {**GROUPS, **COMPILED}
    some = list(builds)[::every]
    models = {build.__name__: group_model(build, builds) for build in some}
    compile_for_gpus(models, tmp_path)


# ---- random groups

UNARY = ["Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Gelu", "HardSwish", "Softsign"]
BINARY = ["Add", "Sub", "Mul", "Max", "Min"]


def move(draw: st.DrawFn, g: Graph, x: str, dims: list[int]) -> tuple[str, list[int]]:
    """Transposed, a part of it, bordered, or joined with itself; and the sizes then."""
    kind = draw(st.sampled_from(["Transpose", "Slice", "Concat", "Pad", "Tile"]))
    if kind == "Transpose":
        order = draw(st.permutations(range(len(dims))))
        return g("Transpose", x, perm=order), [dims[i] for i in order]
    axis = draw(st.integers(0, len(dims) - 1))
    if kind == "Slice":
        start = draw(st.integers(0, dims[axis] - 1))
        step = draw(st.sampled_from([1, 2, -1]))
        end = 99 if step > 0 else -99
        size = len(range(dims[axis])[start:end:step])
        given = (g.ints(start), g.ints(end), g.ints(axis), g.ints(step))
        return g("Slice", x, *given), [*dims[:axis], size, *dims[axis + 1 :]]
    if kind == "Pad":
        mode = draw(st.sampled_from(["constant", "edge", "reflect"]))
        most = dims[axis] - 1 if mode == "reflect" else 2
        ends = [draw(st.integers(0, most)) for _ in range(2)]
        y = g("Pad", x, g.ints(*ends), "", g.ints(axis), mode=mode)
        return y, [*dims[:axis], dims[axis] + sum(ends), *dims[axis + 1 :]]
    if kind == "Tile":
        times = [draw(st.integers(1, 2)) for _ in dims]
        sizes = [a * b for a, b in zip(dims, times, strict=True)]
        return g("Tile", x, g.ints(*times)), sizes
    joined = g("Concat", g("Neg", x), x, axis=axis)
    return joined, [*dims[:axis], 2 * dims[axis], *dims[axis + 1 :]]


@st.composite
def random_moves(draw: st.DrawFn) -> onnx.ModelProto:
    dims = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(1, 3)))]
    g = Graph(x=dims)
    y = "x"
    for _ in range(draw(st.integers(1, 4))):
        y, dims = move(draw, g, y, dims)
        if draw(st.booleans()):
            y = g(draw(st.sampled_from(["Abs", "Sigmoid", "Neg"])), y)
    return g.model(y=g("Add", y, y))


@st.composite
def random_group(draw: st.DrawFn) -> onnx.ModelProto:
    """Elementwise operators on tensors that are broadcast to [a, b, c]."""
    full = [draw(st.integers(1, 5)) for _ in range(draw(st.integers(1, 4)))]
    inputs = {"x": full}
    for name in ("u", "v"):
        keep = [draw(st.booleans()) for _ in full]
        dims = [d if k else 1 for d, k in zip(full, keep, strict=True)]
        inputs[name] = dims[draw(st.integers(0, len(dims) - 1)) :]
    g = Graph(**inputs)
    values = list(inputs)
    result = "x"
    for _ in range(draw(st.integers(2, 7))):
        if draw(st.booleans()):
            result = g(draw(st.sampled_from(UNARY)), draw(st.sampled_from(values)))
        else:
            pair = [draw(st.sampled_from(values)), draw(st.sampled_from(values))]
            result = g(draw(st.sampled_from(BINARY)), *pair)
        values.append(result)
    return g.model(y=g("Add", result, "x"))


@settings(max_examples=examples(16), derandomize=True, deadline=None, database=None)
@given(proto=random_group() | random_moves())
def test_random_groups(
    proto: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory
) -> None:
    try:
        kernel = compiled(proto, tmp_path_factory.mktemp("group"))
    except NoKernel as why:
        assert "nothing of a tensor is left but what it was padded with" in str(why)
        reject()
    random = np.random.default_rng(0)
    feed = {
        value.name: random.normal(
            0, 2, [d.dim_value for d in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in proto.graph.input
    }
    tensors = {name: torch.tensor(x) for name, x in feed.items()}
    (got,), (wanted,) = kernel.kernel(tensors), kernel.reference(tensors)
    assert kernel.launches == [1]
    assert close(got, wanted, ulps=32)
    assert close(got, torch.tensor(oracle(proto, feed)[0]), ulps=32)


# ---- packages

NETWORKS = {**IMAGES, **SEQUENCES}
KERNELS = {
    "resnet": {"add_relu"},
    "senet": {"add_relu", "pointwise_conv_relu", "sigmoid_mul"},
    "densenet": {"relu_pointwise_conv", "relu_pointwise_conv_relu"},
    "plain_cnn": set(),
    "causal_decoder": {"embed_add", "linear_add", "add_layer_norm", "linear_gelu"},
    "encoder_torchscript": {"add_layer_norm"},
    "cached_decoder": {"add_layer_norm", "linear_add", "linear_gelu"},
    "llama_layers": {"add_rms_norm", "linear_silu_mul", "rotary_attention"},
    "masked_pool": {"cast_sum_max", "div_linear", "max_where", "where_sum"},
    "odd_ends": {"mul_add", "subtract_mul"},
}


def package_of(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, least: float = 0.0
) -> fairhand.Package:
    monkeypatch.setattr(parity, "run_package", run_here)
    monkeypatch.setattr(kernel_set, "MIN_SAVED", least)
    monkeypatch.setattr(kernel_set, "SMALL_PRODUCT", 0.0)
    monkeypatch.setattr(kernel_set, "SAVED_BYTES", 0.0)
    model = NETWORKS[name]()
    model.graph.name = name
    return fairhand.compile(model, folder / name, target="triton")


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_a_network(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verified against ONNX Runtime, in the interpreter where there are kernels."""
    package = package_of(name, tmp_path, monkeypatch)
    text = (package.path / "model.py").read_text("utf-8")
    assert ("from .kernels import" in text) == (package.path / "kernels.py").exists()
    session = (package.path / "session.py").read_text("utf-8")
    assert not KERNELS[name] or "channels_last" not in session
    groups = package.report["target"]["groups"]
    choices = [c for group in groups for c in group["choices"]]
    assert all(c["reason"] for c in choices)
    used = {c["choice"] for c in choices if c["choice"].startswith("kernel ")}
    imported = text.partition("from .kernels import ")[2].partition("\n\n")[0]
    assert {f"kernel {n}" for n in re.findall(r"\w+", imported)} == used
    assert {choice.removeprefix("kernel ") for choice in used} == KERNELS[name]


def test_groups_that_the_plan_parts_are_joined_where_it_saves_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan has no say in what a module is divided into: here it has none at all."""
    monkeypatch.setattr(kernel_set.KernelSet, "group_of", lambda self, step: step)
    package = package_of("llama_layers", tmp_path, monkeypatch)
    text = (package.path / "kernels.py").read_text("utf-8")
    assert all(f"\ndef {name}(" in text for name in KERNELS["llama_layers"])


def test_kernels_that_save_little_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = package_of("llama_layers", tmp_path, monkeypatch, least=1.0)
    assert not (package.path / "kernels.py").exists()
    reasons = {
        choice["reason"]
        for group in package.report["target"]["groups"]
        for choice in group["choices"]
    }
    assert any("it has to save" in reason for reason in reasons)


def test_names_of_nodes_stay_in_their_docstring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = 'x\\"""\nimport os\nos.abort()\n"""'
    monkeypatch.setattr(parity, "run_package", run_here)
    monkeypatch.setattr(kernel_set, "MIN_SAVED", 0.0)
    monkeypatch.setattr(kernel_set, "SMALL_PRODUCT", 0.0)
    monkeypatch.setattr(kernel_set, "SAVED_BYTES", 0.0)
    model = NETWORKS["odd_ends"]()
    for i, node in enumerate(model.graph.node):
        node.name = f"{hostile}{i}"
    package = fairhand.compile(model, tmp_path / "net", target="triton")
    text = (package.path / "kernels.py").read_text("utf-8")
    assert not re.search(r"^\s*os\.abort", text, re.MULTILINE)


def test_an_unknown_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fairhand.FairhandError, match="there is no target 'cuda'"):
        fairhand.compile(NETWORKS["odd_ends"](), tmp_path / "net", target="cuda")


def test_plain_target_has_no_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parity, "run_package", run_here)
    package = fairhand.compile(NETWORKS["llama_layers"](), tmp_path / "plain")
    assert not (package.path / "kernels.py").exists()
    assert "target" not in package.report


def test_package_needs_no_triton(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imported and run where `import triton` fails, and without the interpreter."""
    package = package_of("llama_layers", tmp_path, monkeypatch)
    code = (
        "import sys; sys.modules['triton'] = None; import torch;"
        f"sys.path.insert(0, {str(tmp_path)!r}); import llama_layers as p;"
        "from llama_layers import kernels; assert kernels.triton is None;"
        "m = p.Model(); print(sum(x.numel() for x in m.parameters()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == package.report["parameters"]


def test_a_kernel_reads_members_by_the_counter_of_a_loop(tmp_path: Path) -> None:
    """And a value that its round alone reads is none of its results."""
    g = Graph(x=[100_000, 64])
    x = "x"
    for i in range(3):
        y = g.linear(x, f"fc1.{i}", 64, 64, at=f"fc1.{i}")
        x = g("Add", x, y)
        y = g.norm(x, f"norms.{i}", 64, at=f"norms.{i}")
        x = g.linear(y, f"fc2.{i}", 64, 64, at=f"fc2.{i}")
    folder = tmp_path / "net"
    fairhand.compile(g.model(y=x), folder, target="triton", verify=False)
    text = (folder / "model.py").read_text()
    _, _, loop = text.partition("for i in range(3):\n")
    assert "self.norms[i].weight" in loop and "add_layer_norm(" in loop
    assert "_, " not in loop


def test_a_kernel_behind_a_loop_reads_what_its_last_round_made(tmp_path: Path) -> None:
    g = Graph(x=[100_000, 64])
    x = "x"
    for i in range(3):
        block = f"ffn.{i}"
        y = g.linear(x, f"{block}.a", 64, 64, at=f"{block}/a")
        y = g.linear(g("Tanh", y, at=block), f"{block}.b", 64, 64, at=f"{block}/b")
        x = g("Add", x, y, at=block)
    y = g("Relu", g.linear(x, "out", 64, 64, at="out"))
    folder = tmp_path / "net"
    fairhand.compile(g.model(y=y, x_=x), folder, target="triton", verify=False)
    text = (folder / "model.py").read_text()
    _, _, behind = text.partition("for block in self.ffn:\n")
    assert "x = block(x)" in behind and "linear_relu(x, self.out.weight" in behind
