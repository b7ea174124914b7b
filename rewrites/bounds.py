"""How far two sides that are equal over the reals can differ by rounding.

For an expression of +, -, *, sums and movements, with d the most roundings on the way
from an operand to the result (products add theirs up), the standard model of rounding
gives |computed - exact| <= g(d) M with g(d) = d u / (1 - d u), u half the distance of
the floats next to 1, and M the same expression of absolute values, - read as +
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). Both sides of a
rule have the same exact value, so they differ by at most (g(d_left) + g(d_right)) M, M
the larger of the two, barring overflow and underflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .evaluate import Binding, Undecided, evaluate, number
from .pattern import Apply, Chain, Leaf, Many, Node, Term, Var
from .rule import Law

Depth = int | None


def roundings(law: Law, at: Binding) -> tuple[int, int] | None:
    """(d_left, d_right) for one application; None where there is no such bound."""
    try:
        left = [_depth(term, at) for term in law.left]
        right = [_depth(term, at) for term in law.right]
    except Undecided:
        return None
    if None in left or None in right:
        return None
    return max(d or 0 for d in left), max(d or 0 for d in right)


def _depth(term: Term | None, at: Binding) -> Depth:
    if term is None:
        return 0
    if isinstance(term, Var):
        # A constant that a law writes out may not be a float.
        return 1 if term.kind in (Leaf.ABOUT, Leaf.NUMBER) else 0
    if isinstance(term, Chain):
        parts = [_depth(part, at) for part in term.parts]
        combine = _product if term.head.name == "Mul" else _sum
        return combine(parts, len(parts) - 1)
    if isinstance(term, Many):
        return _depth(term.form, at)
    assert isinstance(term, Apply)
    name = term.node.operator.name
    parts = [_depth(x, at) for x in term.node.inputs]
    if name in _DEPTHS:
        return _DEPTHS[name](parts, term.node, at)
    return None


def _sum(parts: list[Depth], additions: int) -> Depth:
    known = [d for d in parts if d is not None]
    return max(known) + additions if len(known) == len(parts) else None


def _product(parts: list[Depth], roundings_: int) -> Depth:
    known = [d for d in parts if d is not None]
    return sum(known) + roundings_ if len(known) == len(parts) else None


def _size(term: Any, axis: int, at: Binding) -> int:
    return number(at.dims(term)[axis])


def _matmul(parts: list[Depth], node: Node, at: Binding) -> Depth:
    terms = _size(node.inputs[0], -1, at)
    return _product(parts, max(terms, 1))


def _conv(parts: list[Depth], node: Node, at: Binding) -> Depth:
    weight = [number(n) for n in at.dims(node.inputs[1])]  # type: ignore[arg-type]
    return _sum([_product(parts[:2], math.prod(weight[1:])), parts[2]], 1)


def _reduced(parts: list[Depth], node: Node, at: Binding) -> Depth:
    dims = at.dims(node.inputs[0])  # type: ignore[arg-type]
    axes = evaluate(node.parameters["axes"], at)
    terms = math.prod(number(dims[axis]) for axis in axes)
    return _sum(parts, max(terms - 1, 0))


_MOVEMENTS = (
    "Transpose Reshape Flatten Squeeze Unsqueeze Expand Tile Slice Concat Split Gather "
    "Identity Neg"
).split()

_DEPTHS: dict[str, Callable[[list[Depth], Node, Binding], Depth]] = {
    **dict.fromkeys(_MOVEMENTS, lambda parts, node, at: _sum(parts, 0)),
    **dict.fromkeys(("Add", "Sub"), lambda parts, node, at: _sum(parts, 1)),
    "Mul": lambda parts, node, at: _product(parts, 1),
    "MatMul": _matmul,
    "Conv": _conv,
    "ReduceSum": _reduced,
}
