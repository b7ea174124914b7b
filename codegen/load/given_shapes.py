"""Shapes that a user gives to inputs: `--shape name=1,576`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from ...analysis.errors import MALFORMED, FairhandError
from ...analysis.literals import one_line
from ...analysis.shapes.infer import infer
from ...rewrites.normalise import normalise
from .read_model import Loaded

Shapes = Mapping[str, Sequence[int | str | None]]  # a name or None for any size


def with_shapes(loaded: Loaded, shapes: Shapes) -> Loaded:
    """The model with these shapes for its inputs, of which the others have the rest.

    A number given to a named dimension holds for all inputs that have the name. Raises
    FairhandError for an input that isn't there, or a shape that doesn't suit it.
    """
    if not shapes:
        return loaded
    inputs = {value.name: value for value in loaded.model.graph.inputs}
    numbers: dict[str, int] = {}
    for name, sizes in shapes.items():
        value = inputs.get(name)
        if value is None:
            known = ", ".join(one_line(str(other), 40) for other in inputs)
            what = f"there is no input {one_line(name, 40)!r}"
            raise FairhandError(what, hint=f"inputs are {known}")
        declared = [None] * len(sizes) if value.shape is None else list(value.shape)
        if not _fits(sizes, declared):
            raise FairhandError(
                f"the shape {list(sizes)} doesn't suit input {one_line(name, 40)!r}",
                hint=f"the model declares {value.shape}",
            )
        for dim, size in zip(declared, sizes, strict=True):
            if isinstance(dim, ir.SymbolicDim) and dim.value and isinstance(size, int):
                numbers[dim.value] = size
        value.shape = ir.Shape(
            dim if size is None else size
            for dim, size in zip(declared, sizes, strict=True)
        )
    for value in inputs.values():
        if value.shape is not None:
            value.shape = ir.Shape(
                (
                    numbers.get(dim.value or "", dim)
                    if isinstance(dim, ir.SymbolicDim)
                    else dim
                )
                for dim in value.shape
            )
    given = repr(sorted((name, list(sizes)) for name, sizes in shapes.items()))
    outline = hashlib.sha256(f"{loaded.outline} {given}".encode()).hexdigest()
    return replace(loaded, outline=outline, shapes=dict(shapes))


def _fits(
    sizes: Sequence[int | str | None], declared: Sequence[int | ir.SymbolicDim | None]
) -> bool:
    if len(sizes) != len(declared):
        return False
    if any(isinstance(size, int) and size < 0 for size in sizes):
        return False
    return all(
        size is None or size == dim
        for size, dim in zip(sizes, declared, strict=True)
        if isinstance(dim, int) and dim >= 0
    )


_MOST_AXES = 5


def implied_ranks(
    model: ir.Model, given: Mapping[str, object]
) -> dict[str, list[None]]:
    """Shapes of open sizes for inputs that have none and aren't `given` one.

    An input gets one if it is with one number of axes alone that the nodes fit each
    other: a picture has as many as the kernels that go over it.
    """
    found: dict[str, list[None]] = {}
    for value in model.graph.inputs:
        name, is_tensor = str(value.name), isinstance(value.type, ir.TensorType)
        if value.shape is not None or not is_tensor or name in given:
            continue
        tried = [{**found, name: [None] * rank} for rank in range(_MOST_AXES + 1)]
        fitting = [shapes for shapes in tried if _fitting(model, shapes)]
        if len(fitting) == 1:
            (found,) = fitting
    return found


def _fitting(model: ir.Model, shapes: Mapping[str, Sequence[None]]) -> bool:
    copy = model.clone()
    for value in copy.graph.inputs:
        if (shape := shapes.get(str(value.name))) is not None:
            value.shape = ir.Shape(shape)
    try:
        infer(normalise(copy))
    except (FairhandError, *MALFORMED):
        return False
    return True
