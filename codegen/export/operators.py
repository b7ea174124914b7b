"""Helpers of a package that are operators of ONNX: traced as these, and not as what
they do, of which ONNX Runtime may lack a part, and PyTorch's exporter too."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ...analysis.lazy import lazy
from .integers import INTEGERS, node
from .interface import Interface
from .tables import CODES, MAP, TREES, of_tables

if TYPE_CHECKING:
    import torch
    from torch.onnx import ops
else:
    torch, ops = lazy("torch"), lazy("torch.onnx.ops")


@contextmanager
def as_operators(module: torch.nn.Module, known: Interface) -> Iterator[None]:
    """In here, helpers that no one edited call for their operators."""
    text = known.report.get("source_map", {}).get("text", "")
    page = sys.modules[type(module).__module__]
    with ExitStack() as entered:
        for name, call in _HELPERS.items():
            helper: Any = getattr(page, name, None) if text else None
            if helper is not None and inspect.getsource(helper) in text:
                is_layer = isinstance(helper, type)
                owner, key = (helper, "forward") if is_layer else (page, name)
                called = _called(call, getattr(owner, key))
                entered.enter_context(patch.object(owner, key, called))
        yield


def _called(call: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    """The operator, of types that each of its versions has; else what was written."""

    def called(*given: Any, **options: Any) -> Any:
        layer = given[0] if isinstance(given[0], torch.nn.Module) else torch.nn.Module()
        held = [*given, *layer.parameters(), *layer.buffers()]
        kinds = {x.dtype for x in held if isinstance(x, torch.Tensor)}
        if kinds.isdisjoint({torch.float64, torch.float16, torch.bfloat16}):
            return call(own, *given, **options)
        return own(*given, **options)

    return called


def _boxes(own: Any, boxes: Any, scores: Any, *rest: Any, **given: Any) -> Any:
    if rest:
        return own(boxes, scores, *rest, **given)
    limits = [given.get("max_per_class", 0), float(given.get("iou_threshold", 0))]
    limits += [given[key] for key in ("score_threshold",) if given.get(key) is not None]
    some = scores.nonzero()  # as many rows of three, which only a run knows
    inputs = [boxes, scores, *map(torch.tensor, limits)]
    centers = int(given.get("centers", False))
    return node("NonMaxSuppression", inputs, some, center_point_box=centers)


def _lp(own: Any, x: Any, dim: int, p: int = 2) -> Any:
    known = p in (1, 2)
    return node("LpNormalization", [x], x, axis=dim, p=p) if known else own(x, dim, p)


def _largest(own: Any, x: Any, k: Any, dim: int = -1, largest: bool = True) -> Any:
    shape, dtypes = [*x.shape], (x.dtype, torch.int64)
    shape[dim] = k
    inputs, options = [x, torch.tensor([k])], {"axis": dim, "largest": int(largest)}
    return ops.symbolic_multi_out(
        "TopK", inputs, {**options}, dtypes=dtypes, shapes=(shape, shape)
    )


def _walked(own: Any, layer: Any, x: Any) -> Any:
    like = x.new_empty(x.shape[0], layer.targets)
    reduce = {"amin": "MIN", "amax": "MAX"}.get(layer.reduce, "SUM")
    options = {"n_targets": layer.targets, "reduce": reduce}
    return node(of_tables(TREES), [x, *layer.buffers()], like, **options)


def _found(own: Any, x: Any, keys: Any) -> Any:
    if x.dtype != keys.dtype or x.dtype not in (torch.int64, torch.float32):
        return own(x, keys)
    return node(of_tables(CODES), [x, keys], x.to(torch.int64))


def _mapped(own: Any, scores: Any, keys: list[Any]) -> Any:
    kind = "strings" if isinstance(keys[0], str) else "int64s"
    return node(of_tables(MAP), [scores], scores, **{f"classlabels_{kind}": keys})


_HELPERS: dict[str, Callable[..., Any]] = {
    **INTEGERS,
    "non_max_suppression": _boxes,
    "lp_normalize": _lp,
    "top_k": _largest,
    "Trees": _walked,
    "MixedTrees": _walked,
    "find_numbers": _found,
    "zip_map": _mapped,
}
