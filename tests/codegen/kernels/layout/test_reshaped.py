"""Axes of run-time sizes that are merged, in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from support.emitter_models import Graph

pytest.importorskip("triton", reason="kernels are tested in Triton's interpreter")
from support.triton_kernels import check_sizes, close, compile_for_gpus, compiled

Build = Callable[[Graph], dict[str, str]]


def words_of_image(g: Graph) -> dict[str, str]:
    """Pixels become words, as in a vision transformer of images of any size."""
    y = g("Transpose", g("Mul", "image", "image"), perm=[0, 2, 3, 1])
    y = g.reshape(y, g.size("image", 0), g.ints(-1), g.ints(3))
    return {"y": g("Add", g("Sigmoid", y), "line")}


def words_of_images(g: Graph) -> dict[str, str]:
    """Of two, which have to be of one size; and the words are turned again."""
    words = []
    for name in ("image", "other"):
        turned = g("Transpose", g("Tanh", name), perm=[0, 2, 3, 1])
        words.append(g.reshape(turned, g.ints(0), g.ints(-1), g.ints(3)))
    y = g("Mul", g("Add", *words), "line")
    return {"y": g("Exp", g("Transpose", y, perm=[0, 2, 1]))}


def batches_merged(g: Graph) -> dict[str, str]:
    """All axes go into two, those of one beside those of the other."""
    y = g("Transpose", "image", perm=[2, 0, 3, 1])
    y = g.reshape(g("Neg", y), g.ints(-1), g.ints(3))
    return {"y": g("Relu", g("Mul", y, "line"))}


def taken_of_any(g: Graph) -> dict[str, str]:
    """Places along an axis of any size; some are outside, or from the end."""
    return {"y": g("Neg", g("Gather", g("Exp", "image"), "places", axis=3))}


ANY: list[object] = ["a", 3, "b", "n"]
KINDS: dict[Build, dict[str, list[object]]] = {
    words_of_image: {"image": ANY, "line": [3]},
    words_of_images: {"image": ANY, "other": ANY, "line": [3]},
    batches_merged: {"image": ANY, "line": [3]},
    taken_of_any: {"image": ANY, "places": ["m"]},
}
SIZES = [(1, 1, 1), (3, 2, 7), (2, 13, 67), (3, 0, 2)]


def graph_of(build: Build) -> Graph:
    kinds = {n: ("int64", s) if n == "places" else s for n, s in KINDS[build].items()}
    return Graph(**kinds)  # type: ignore[arg-type]


def model_of(build: Build) -> onnx.ModelProto:
    g = graph_of(build)
    return g.model(**build(g))


def feed_for(build: Build, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    numbers = {**dict(zip("abn", sizes, strict=True)), "m": 5}
    random = np.random.default_rng(sum(sizes))
    feed = {}
    for name, shape in KINDS[build].items():
        dims = [numbers.get(d, d) for d in shape]  # type: ignore[call-overload]
        feed[name] = random.normal(0, 2, dims).astype(np.float32)
        if name == "places":
            feed[name] = random.integers(-sizes[2], sizes[2], dims)
    return feed


def named(build: Build) -> str:
    return build.__name__


@pytest.mark.parametrize("build", KINDS, ids=named)
def test_reshaped_on_odd_sizes(build: Build, tmp_path: Path) -> None:
    feeds = [feed_for(build, sizes) for sizes in SIZES]
    check_sizes(model_of(build), feeds, tmp_path, laid_out=True)
    text = (tmp_path / "kernels.py").read_text("utf-8")
    assert "  # of axis 3 of x\n" in text


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("build", KINDS, ids=named)
def test_reshaped_in_half_precision(
    build: Build, dtype: torch.dtype, tmp_path: Path
) -> None:
    kernel = compiled(model_of(build), tmp_path)
    feed = {n: torch.tensor(x) for n, x in feed_for(build, (3, 2, 7)).items()}
    small = {n: x.to(dtype) if x.is_floating_point() else x for n, x in feed.items()}
    (got,) = kernel.kernel(small)
    wide = {n: x.float() if x.is_floating_point() else x for n, x in small.items()}
    (wanted,) = kernel.reference(wide)
    assert close(got, wanted.to(dtype), ulps=2)


def test_sizes_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    """Whichever of the tensors the others' sizes are read off."""
    kernel = compiled(model_of(words_of_images), tmp_path)
    feed = {n: torch.tensor(x) for n, x in feed_for(words_of_images, (3, 2, 7)).items()}
    for name in ("image", "other"):
        wrong = {**feed, name: torch.ones(3, 3, 2, 6)}
        with pytest.raises(ValueError, match="must have shape"):
            kernel.kernel(wrong)


@pytest.mark.slow
def test_reshaped_compile_for_gpus(tmp_path: Path) -> None:
    compile_for_gpus({named(b): model_of(b) for b in KINDS}, tmp_path)
