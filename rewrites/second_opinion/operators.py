"""What ONNX operators compute, at single places of tensors.

`OPERATORS` has a function for each, of its inputs and attributes; it gives the tensor,
or the list of tensors, that the node computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from .elementwise import BINARY, UNARY, result_kind
from .places import Kind, Places, Tensor, Unknown, mapped

Inputs = Sequence[Tensor | None]
Attributes = dict[str, Any]
OF_WHOLE = {"Identity", "Neg", "Abs", "Sign", "Relu", "Not"}
OPERATORS: dict[str, Callable[[list[Any], Attributes], Any]] = {}


def operator(*names: str) -> Callable[[Any], Any]:
    """Enter a function for operators of these names."""

    def enter(f: Any) -> Any:
        OPERATORS.update(dict.fromkeys(names, f))
        return f

    return enter


def apply(op: str, inputs: Inputs, attributes: Attributes, count: int) -> list[Tensor]:
    """The outputs of a node. Raises Unknown for an operator that isn't here."""
    if op in UNARY:
        (x,) = inputs[:1]
        assert x is not None
        if x.kind.whole and op not in OF_WHOLE:
            raise Unknown(f"{op} of whole numbers")
        kind = result_kind(op, x.kind)
        found: Any = pointwise(lambda a: UNARY[op](a, **attributes), [x], kind)
    elif op in BINARY:
        first = inputs[0]
        assert first is not None
        if any(x is None or x.kind != first.kind for x in inputs):
            raise Unknown(f"{op} of several types")
        kind = result_kind(op, first.kind)
        found = reduce(
            lambda a, b: pointwise(
                lambda x, y: BINARY[op](first.kind, x, y), [a, b], kind
            ),
            inputs,
        )
    elif op in OPERATORS:
        try:
            found = OPERATORS[op](list(inputs), {**attributes, "": count})
        except (IndexError, KeyError, TypeError, ValueError) as reason:
            raise Unknown(f"{op} of this form: {reason}") from None
    else:
        raise Unknown(f"the operator {op}")
    return found if isinstance(found, list) else [found]


def pointwise(f: Callable[..., Any], tensors: list[Any], kind: Kind) -> Tensor:
    """f of the elements of tensors that broadcast."""
    shape = np.broadcast_shapes(*(t.shape for t in tensors))

    def compute(places: Places) -> np.ndarray:
        return mapped(f, *(t.at(aligned(places, t), like(places)) for t in tensors))

    return Tensor(kind, shape, compute)


def aligned(places: Places, t: Tensor) -> Places:
    """The places of an operand that broadcasts."""
    last = places[len(places) - t.rank :]
    pairs = zip(last, t.shape, strict=True)
    return [place * (size != 1) for place, size in pairs]


def like(places: Places) -> tuple[int, ...]:
    """The shape of what is asked for at places."""
    return np.shape(places[0]) if places else (1,)


def moved(x: Tensor, shape: Sequence[int], place: Callable[[Places], Places]) -> Tensor:
    """Elements of x at other places."""
    return Tensor(x.kind, shape, lambda at: x.at(place(at), like(at)))


def integers(t: Tensor | None) -> list[int]:
    """The elements of a small tensor of whole numbers."""
    if t is None:
        raise Unknown("whole numbers that are left out")
    return [int(n) for n in t.all()]


def given(inputs: list[Any], k: int) -> Any:
    """An input that may be left out."""
    return inputs[k] if k < len(inputs) else None


def front(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis + rank if axis < 0 else axis
