"""What a package is measured beside that isn't an engine of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Call = Callable[[], list[Any]]


def onnx2torch(model: Path, feed: dict[str, Any]) -> Call:
    """A call of the first spelling that it converts: it knows operators of opset 16.

    Raises what the conversion raised, where it converts none.
    """
    import torch
    from onnx2torch import convert

    reason = None
    for spelling in spellings(model):
        try:
            made = convert(spelling).eval()
        except Exception as error:  # of any kind, in someone else's code
            reason = reason or error
        else:
            return called(made, lambda: map(torch.from_numpy, feed.values()))
    raise reason or FileNotFoundError(model)


def spellings(model: Path) -> Iterator[Any]:
    """The model and, where it is beside it, what TorchScript's exporter made; each as
    it is and as onnx's own converter writes it in opset 16."""
    import onnx
    from onnx.version_converter import convert_version

    for path in (model, model.with_suffix(".legacy.onnx")):
        if path.exists():
            made = onnx.load(str(path))
            yield made
            try:
                yield convert_version(made, 16)
            except Exception:  # it asserts; older spellings are all that is lost
                continue


def called(run: Callable[..., Any], given: Callable[[], Iterable[Any]]) -> Call:
    """From NumPy to NumPy, as a Session."""
    import torch

    def call() -> list[Any]:
        with torch.inference_mode():
            return [leaf.numpy() for leaf in flat(run(*given()))]

    return call


def flat(found: Any) -> list[Any]:
    if isinstance(found, list | tuple):
        return [leaf for each in found for leaf in flat(each)]
    return [found]
