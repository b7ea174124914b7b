"""Networks in float16 on a CPU, which lacks the instructions for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.emitted import imported
from support.emitter_models import Graph
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import fairhand
from fairhand.codegen.emit.engines_file import engines_text
from fairhand.codegen.ir.engine_plan import EnginePlan
from fairhand.codegen.request.choices import AUTO

PRODUCTS = ("aten.convolution", "aten.conv2d", "aten.mm", "aten.bmm", "aten.addmm")


class Types(TorchDispatchMode):
    """What products are computed in, and how large the halves are that are widened."""

    def __init__(self) -> None:
        super().__init__()
        self.products: set[torch.dtype] = set()
        self.widened: list[int] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = function(*args, **(kwargs or {}))
        if str(function).rsplit(".", 1)[0] in PRODUCTS:
            self.products.add(args[0].dtype)
        wide = isinstance(found, Tensor) and found.dtype == torch.float32
        if wide and str(function).startswith("aten._to_copy"):
            self.widened.append(found.numel())
        return found


def image_and_products() -> Any:
    """A convolution, a product with a weight, and one of two results."""
    half = np.float16
    g = Graph(x=[1, 3, 8, 8])
    x = g("Cast", "x", to=10)
    w = g.weight("w", value=g.random.normal(0, 0.1, (70, 3, 3, 3)).astype(half))
    x = g("Reshape", g("Conv", x, w), g.ints(1, 70, 36))
    rows = g("Softmax", g("MatMul", g("Transpose", x, perm=[0, 2, 1]), x), axis=-1)
    weight = g.weight("v", value=g.random.normal(0, 0.1, (36, 50)).astype(half))
    return g.model(y=g("Cast", g("MatMul", rows, weight), to=1))


@pytest.mark.parametrize("lists", [False, True])
def test_results_in_lists_keep_their_types(lists: bool) -> None:
    """Their order is not that of the types that are declared."""
    plan = EnginePlan(AUTO, "", False, halves=True, rows=lists, lists=lists)
    text = engines_text(plan)
    assert ("Converted" in text) is not lists
    assert ("Widened" in text) is lists


def test_products_are_computed_in_float32_on_weights_that_are_converted_once(
    tmp_path: Path,
) -> None:
    fairhand.compile(image_and_products(), tmp_path / "a", engine="packed")
    module = imported(tmp_path / "a")
    plain, packed = module.Session(engine="eager"), module.Session()
    feed = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype("f")}
    wanted = plain.run(None, feed)
    np.testing.assert_allclose(packed.run(None, feed), wanted, atol=2e-3)
    with Types() as seen:
        again = packed.run(None, feed)
    np.testing.assert_allclose(again, wanted, atol=2e-3)
    assert seen.products <= {torch.float32}
    assert not {70 * 27, 36 * 50} & set(seen.widened)
