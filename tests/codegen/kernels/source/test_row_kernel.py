"""Norms of channels, and places in rows, in Triton's interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from support.emitter_models import Graph

pytest.importorskip("triton", reason="kernels are tested in Triton's interpreter")
from support.kernel_models.rows import (
    KINDS,
    Build,
    New,
    feed_for,
    group_norm,
    instance_norm,
    model_of,
    one_group,
)
from support.triton_kernels import (
    check_sizes,
    close,
    compile_for_gpus,
    compiled,
    named,
)

from fairhand.analysis.errors import Unsupported
from fairhand.codegen.kernels.program.program import NoKernel

# Means over single elements are refused by PyTorch, so `n` is 2 or more.
SIZES = [(1, 1, 2), (3, 2, 7), (2, 5, 131), (0, 3, 5)]


@pytest.mark.parametrize("build", KINDS, ids=named)
def test_rows_on_odd_sizes(build: Build, tmp_path: Path) -> None:
    """PyTorch's instance_norm, the twin, fails on an empty batch."""
    sizes = SIZES[:-1] if build is instance_norm else SIZES
    check_sizes(model_of(build), (feed_for(build, s) for s in sizes), tmp_path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("build", [group_norm, one_group, instance_norm], ids=named)
def test_norms_in_half_precision(
    build: Build, dtype: torch.dtype, tmp_path: Path
) -> None:
    kernel = compiled(model_of(build), tmp_path)
    kernel.constants = {n: t.to(dtype) for n, t in kernel.constants.items()}
    feed = feed_for(build, (3, 2, 7))
    small = {name: torch.tensor(x).to(dtype) for name, x in feed.items()}
    (got,) = kernel.kernel(small)
    kernel.constants = {n: t.float() for n, t in kernel.constants.items()}
    (wanted,) = kernel.reference({name: x.float() for name, x in small.items()})
    assert close(got, wanted.to(dtype), ulps=1)


def test_another_number_of_channels_is_refused(tmp_path: Path) -> None:
    """The kernel has it as a number."""
    kernel = compiled(model_of(instance_norm), tmp_path)
    with pytest.raises(ValueError, match=r"x must have shape \[2, 6, 4\]"):
        kernel.kernel({"image": torch.ones(2, 12, 4)})


def test_rows_are_taken_in_parts(tmp_path: Path) -> None:
    """Groups of images, and words of which the likeliest is looked for."""
    for name, build, feed in (
        ("norm", group_norm, {"image": (1, 6, 90, 93), "step": (1, 6, 1, 1)}),
        ("place", long_place, {"x": (2, 20011)}),
    ):
        folder = tmp_path / name
        folder.mkdir()
        kernel = compiled(KINDS_LONG[build], folder, laid_out=True)
        random = np.random.default_rng(0)
        tensors = {
            n: torch.tensor(random.integers(-9, 9, s).astype(np.float32))
            for n, s in feed.items()
        }
        assert "BLOCK=PART" in (folder / "kernels.py").read_text("utf-8")
        assert close(kernel.kernel(tensors)[0], kernel.reference(tensors)[0], ulps=16)
        assert kernel.launches == [1]


def long_place(g: Graph) -> dict[str, str]:
    return {"y": g("ArgMin", g("Neg", "x"), axis=-1)}


def _long() -> dict[Build, onnx.ModelProto]:
    g = Graph(x=["a", 20011])
    return {group_norm: model_of(group_norm), long_place: g.model(**long_place(g))}


KINDS_LONG = _long()
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "row",
    [
        [1, 3, 3, 2, 3],
        [-INF, -INF, -INF, -INF, -INF],
        [1, INF, NAN, 2, NAN],
        [-1, -0.0, 0.0, -INF, -0.0],
    ],
    ids=["ties", "nothing", "nan", "zeros"],
)
def test_every_place_is_in_the_row(row: list[float], tmp_path: Path) -> None:
    """The first of equals first, and none twice, whatever the row holds."""
    g = New(x=["a", 5])
    y = g("Neg", g("Neg", "x"))
    values, indices = g("TopK", y, g.ints(4), axis=-1, outputs=2)
    best = g("ArgMax", y, axis=-1, keepdims=1)
    kernel = compiled(g.model(i=indices, v=values, best=best), tmp_path)
    x = torch.tensor([row, [5, 4, 3, 2, 1]])
    got, found, first = kernel.kernel({"x": x})
    keys = [[(v != v, 0 if v != v else v) for v in row] for row in x.tolist()]
    order = [
        sorted(range(5), key=lambda i, k=k: (k[i], -i), reverse=True)[:4] for k in keys
    ]
    assert found.tolist() == order
    assert first.tolist() == [[o[0]] for o in order]
    assert torch.equal(got.nan_to_num(7), x.gather(1, found).nan_to_num(7))


def test_what_no_kernel_finds(tmp_path: Path) -> None:
    for count, width, why in ((17, 40, "up to 16"), (2, "n", "only at run time")):
        g = New(x=["a", width])
        values, indices = g("TopK", "x", g.ints(count), axis=-1, outputs=2)
        with pytest.raises((NoKernel, Unsupported), match=why):
            compiled(g.model(v=values, i=indices), tmp_path)


@pytest.mark.slow
def test_rows_compile_for_gpus(tmp_path: Path) -> None:
    compile_for_gpus({named(b): model_of(b) for b in KINDS}, tmp_path)
