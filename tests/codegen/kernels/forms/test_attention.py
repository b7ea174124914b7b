"""Attention kernels in Triton's interpreter, beside their twins and ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from support.emitter_models import run_here

import fairhand
from fairhand.codegen.kernels import kernel_set
from fairhand.codegen.kernels.program.program import NoKernel
from fairhand.codegen.verify import parity

pytest.importorskip("triton", reason="kernels are tested in Triton's interpreter")
from support.kernel_models.attention import (
    KINDS,
    Build,
    New,
    causal,
    decoded,
    feed_for,
    model_of,
    named,
    padded,
    plain,
    rotary,
    scaled,
)
from support.triton_kernels import (
    check_sizes,
    close,
    compile_for_gpus,
    compiled,
    products_of_bfloat16,
)

# Batches, queries, keys: one, a decoder's step, tails of tiles, none.
SIZES = [(1, 1, 1), (2, 1, 67), (2, 7, 5), (1, 19, 130), (2, 0, 3)]


@pytest.mark.parametrize("build", KINDS, ids=named)
def test_attention_on_odd_sizes(build: Build, tmp_path: Path) -> None:
    feeds = (feed_for(build, sizes) for sizes in SIZES)
    check_sizes(model_of(build), feeds, tmp_path, ulps=16)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("build", KINDS, ids=named)
def test_attention_in_half_precision(
    build: Build, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are rounded before they are multiplied, as PyTorch's kernels do."""
    products_of_bfloat16(monkeypatch)
    kernel = compiled(model_of(build), tmp_path)
    tensors = {name: torch.tensor(x) for name, x in feed_for(build, (2, 7, 70)).items()}
    small = {n: x.to(dtype) if x.is_floating_point() else x for n, x in tensors.items()}
    (got,) = kernel.kernel(small)
    wide = {n: x.float() if x.is_floating_point() else x for n, x in small.items()}
    (wanted,) = kernel.reference(wide)
    assert close(got, wanted.to(dtype), ulps=2)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_parts_of_a_cache(parts: int, tmp_path: Path) -> None:
    """However many there are, and where one of them has no key that counts."""
    kernel = compiled(model_of(decoded), tmp_path)
    feed = feed_for(decoded, (2, 1, 300))
    feed["mask"][:, :, :, 64:128] = -np.inf
    each = -(-300 // parts // 64) * 64
    kernel.module.key_parts = lambda heads, keys: (-(-keys // each), each)
    tensors = {name: torch.tensor(x) for name, x in feed.items()}
    (got,) = kernel.kernel(tensors)
    assert close(got, kernel.reference(tensors)[0], ulps=16)


def test_a_cache_is_divided_to_fill_a_gpu(tmp_path: Path) -> None:
    """All keys are in a part, and none is in two; a short cache has one part."""
    parts = compiled(model_of(decoded), tmp_path).module.key_parts
    assert parts(8, 100) == (1, 128) and parts(300, 10**6) == (1, 1000000)
    for heads, keys in ((8, 4096), (4, 70000), (1, 257), (13, 5000)):
        count, each = parts(heads, keys)
        assert (count - 1) * each < keys <= count * each and each % 64 == 0


def test_heads_are_read_where_they_lie(tmp_path: Path) -> None:
    """No copy of what a projection gives: only strides say where a head is."""
    kernel = compiled(model_of(plain), tmp_path)
    rows = {name: torch.randn(2, 5, heads * width) for name, heads, width in WIDTHS}
    views = {
        name: rows[name].unflatten(2, (heads, width)).transpose(1, 2)
        for name, heads, width in WIDTHS
    }
    (got,) = kernel.kernel(views)
    assert close(got, kernel.reference(views)[0], ulps=16)
    assert got.transpose(1, 2).is_contiguous()


WIDTHS = [("q", 4, 8), ("k", 2, 8), ("v", 2, 20)]


def test_query_that_no_key_counts_for(tmp_path: Path) -> None:
    kernel = compiled(model_of(padded), tmp_path)
    tensors = {
        name: torch.tensor(x) for name, x in feed_for(padded, (1, 3, 70)).items()
    }
    tensors["mask"][1] = False
    (got,) = kernel.kernel(tensors)
    assert bool((got[:, :, 1] == 0).all())
    assert close(got, kernel.reference(tensors)[0], ulps=16)


def test_other_shapes_are_refused(tmp_path: Path) -> None:
    kernel = compiled(model_of(plain), tmp_path)
    q, k = torch.ones(1, 4, 3, 8), torch.ones(1, 2, 5, 8)
    with pytest.raises(ValueError, match=r"q must have shape \[1, 6, 3, 8\]"):
        kernel.kernel(
            {"q": q, "k": torch.ones(1, 3, 5, 8), "v": torch.ones(1, 3, 5, 20)}
        )
    with pytest.raises(ValueError, match=r"k must have shape \[1, 2, 6, 8\]"):
        kernel.kernel({"q": q, "k": k, "v": torch.ones(1, 2, 6, 20)})


@pytest.mark.parametrize(
    ("name", "shape", "why"),
    [
        ("q", [2, 3, 5, 8], r"q must have shape \[2, 3, 4, 8\]"),
        ("q", [1, 3, 4, 8], r"k must have shape \[1, 3, 2, 8\]"),
        ("k", [2, 3, 3, 8], r"k must have shape \[2, 3, 2, 8\]"),
        ("k", [2, 2, 2, 8], r"k must have shape \[2, 3, 2, 8\]"),
        ("v", [2, 2, 4, 20], r"v must have shape \[2, 2, 3, 20\]"),
        ("v", [1, 2, 3, 20], r"v must have shape \[2, 2, 3, 20\]"),
        ("cos", [1, 1, 2, 8], r"must have shape \[1, 1, 3, 8\]"),
    ],
)
def test_what_is_turned_has_the_sizes_of_the_rest(
    name: str, shape: list[int], why: str, tmp_path: Path
) -> None:
    kernel = compiled(model_of(rotary), tmp_path)
    feed = {n: torch.tensor(x) for n, x in feed_for(rotary, (2, 3, 3)).items()}
    kernel.kernel(feed)
    with pytest.raises(ValueError, match=why):
        kernel.kernel({**feed, name: torch.ones(shape)})
    assert kernel.launches == [1]


def test_one_tensor_as_queries_and_keys_is_pytorchs(tmp_path: Path) -> None:
    g = New(x=["b", 2, "m", 8], v=["b", 2, "m", 8])
    x = g("Mul", "x", "x")
    with pytest.raises(NoKernel, match="can't be told apart"):
        compiled(g.model(y=g("Attention", x, x, "v")), tmp_path)


@pytest.mark.slow
def test_attention_compiles_for_a_gpu(tmp_path: Path) -> None:
    models = {named(b): model_of(b) for b in KINDS}
    models |= {f"wide_{named(b)}": model_of(b, wide=True) for b in KINDS}
    compile_for_gpus(models, tmp_path)


def test_grouped_queries_take_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch would compute them step by step; without groups it has a fused call."""
    monkeypatch.setattr(parity, "run_package", run_here)
    monkeypatch.setattr(kernel_set, "MIN_SAVED", 0.0)
    monkeypatch.setattr(kernel_set, "SMALL_PRODUCT", 0.0)
    monkeypatch.setattr(kernel_set, "SAVED_BYTES", 0.0)
    for build, taken in ((scaled, True), (causal, False)):
        folder = tmp_path / named(build)
        package = fairhand.compile(model_of(build), folder, target="triton")
        (choice,) = package.report["target"]["groups"][0]["choices"]
        assert choice["choice"] == ("kernel masked_attention" if taken else "SDPA")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of what is special
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("build", [scaled, causal, decoded], ids=named)
def test_what_is_not_finite_gets_through(
    build: Build, value: float, tmp_path: Path
) -> None:
    """In each operand: the queries that read it have the twin's numbers."""
    kernel = compiled(model_of(build), tmp_path)
    feed = {n: torch.tensor(x) for n, x in feed_for(build, (2, 5, 70)).items()}
    for name, x in feed.items():
        x = x.clone()
        x[0, 0, 0, 3] = value
        some = {**feed, name: x}
        (got,), (wanted,) = kernel.kernel(some), kernel.reference(some)
        assert close(got, wanted, ulps=16), name
