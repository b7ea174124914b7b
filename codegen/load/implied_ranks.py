"""How many axes inputs have that declare no shape, where what reads them says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ...analysis.errors import MALFORMED, FairhandError
from ...analysis.shapes.infer import infer
from ...rewrites.normalise import normalise

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
        fitting = [shapes for shapes in tried if _fits(model, shapes)]
        if len(fitting) == 1:
            (found,) = fitting
    return found


def _fits(model: ir.Model, shapes: Mapping[str, Sequence[None]]) -> bool:
    copy = model.clone()
    for value in copy.graph.inputs:
        if (shape := shapes.get(str(value.name))) is not None:
            value.shape = ir.Shape(shape)
    try:
        infer(normalise(copy))
    except (FairhandError, *MALFORMED):
        return False
    return True
