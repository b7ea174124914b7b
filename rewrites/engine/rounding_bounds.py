"""How far two sides that are equal over the reals can differ by rounding.

With d the most roundings on the way from an operand to the result (products and
quotients add theirs up), the standard model of rounding gives |computed - exact| <=
g(d) M with g(d) = d u / (1 - d u), u half the distance of the floats next to 1, and M
the same expression of absolute values, - read as + (Higham, Accuracy and Stability of
Numerical Algorithms, sections 3.1 and 3.4). A divisor, and what a root is taken of, has
to be free of sums, which may cancel. Both sides of a rule have the same exact value, so
they differ by at most `difference`, barring overflow and underflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..language.pattern import Apply, Chain, Leaf, Many, Node, Term, Var
from ..language.rule import Law
from .bindings import Binding, Undecided, evaluate, number
from .term_sizes import members, sizes

Depth = int | None


def roundings(law: Law, at: Binding) -> tuple[int, int] | None:
    """(d_left, d_right) for one application; None where there is no such bound."""
    try:
        left = _sum([_depth(term, at) for term in law.left])
        right = _sum([_depth(term, at) for term in law.right])
    except Undecided:
        return None
    return None if left is None or right is None else (left, right)


def growth(d: int, u: float) -> float:
    """g(d); u is 2^-24 for float32."""
    if d * u >= 1:
        raise ValueError(f"no bound for {d} roundings")
    return d * u / (1 - d * u)


def difference(d: tuple[int, int], majorants: tuple[Any, Any], u: float) -> Any:
    """The most the sides differ by, from their roundings and their M."""
    (left, right), (m_left, m_right) = d, majorants
    return growth(left, u) * m_left + growth(right, u) * m_right


def _depth(term: Term | None, at: Binding) -> Depth:
    if term is None:
        return 0
    if isinstance(term, Var):
        return _leaf(term)
    if isinstance(term, Chain):
        parts = [_depth(part, at) for part in term.parts]
        if term.head.name in ("Mul", "Add"):
            combine = _product if term.head.name == "Mul" else _sum
            return combine(parts, len(parts) - 1)
        return _sum(parts) if term.head.name in _STEADY else None
    if isinstance(term, Many):
        return _sum([_depth(term.form, member) for member in members(term, at)])
    assert isinstance(term, Apply)
    found = _DEPTHS.get(term.node.operator.name)
    if found is None:
        return None
    return found([_depth(x, at) for x in term.node.inputs], term.node, at)


def _leaf(leaf: Var) -> Depth:
    """A number that a law writes out may not be a float, nor be computed exactly."""
    if leaf.kind is not Leaf.NUMBER:
        return 2 if leaf.kind is Leaf.ABOUT else 0
    assert leaf.number is not None
    return 1 if leaf.number.head == "number" else 2


def _sum(parts: Sequence[Depth], additions: int = 0) -> Depth:
    known = [d for d in parts if d is not None]
    return max(known, default=0) + additions if len(known) == len(parts) else None


def _product(parts: Sequence[Depth], roundings_: int) -> Depth:
    known = [d for d in parts if d is not None]
    return sum(known) + roundings_ if len(known) == len(parts) else None


def _size(term: Any, axis: int, at: Binding) -> int:
    return number(sizes(term, at)[axis])


def _quotient(parts: list[Depth], node: Node, at: Binding) -> Depth:
    return _product(parts, 1) if _one_term(node.inputs[-1]) else None


_FACTORS = frozenset(
    "Mul Div Reciprocal Neg Abs Sqrt Identity Expand Reshape Transpose Squeeze "
    "Unsqueeze Slice Flatten".split()
)


def _one_term(term: Term | Many | None) -> bool:
    """Whether it is a product of leaves and their inverses, with roundings alike."""
    if isinstance(term, Chain):
        return term.head.name == "Mul" and all(map(_one_term, term.parts))
    if isinstance(term, Apply):
        known = term.node.operator.name in _FACTORS
        return known and all(map(_one_term, term.node.inputs))
    return term is None or isinstance(term, Var)


def _matmul(parts: list[Depth], node: Node, at: Binding) -> Depth:
    return _product(parts, max(_size(node.inputs[0], -1, at), 1))


def _gemm(parts: list[Depth], node: Node, at: Binding) -> Depth:
    """alpha A B + beta C: a factor each, and as many additions as there are terms."""
    across = number(evaluate(node.parameters["transA"], at))
    terms = _size(node.inputs[0], 0 if across else -1, at)
    product, more = _product(parts[:2], 2), _product(parts[2:], 1)
    return _sum([product, more], terms)


def _conv(parts: list[Depth], node: Node, at: Binding) -> Depth:
    terms = math.prod(number(n) for n in sizes(node.inputs[1], at)[1:])
    return _sum([_product(parts[:2], terms), *parts[2:]], 1)


def _conv_transpose(parts: list[Depth], node: Node, at: Binding) -> Depth:
    """At most each place of the window over the channels of a group is added."""
    channels, _, *window = (number(n) for n in sizes(node.inputs[1], at))
    terms = channels // number(evaluate(node.parameters["group"], at))
    product = _product(parts[:2], max(terms * math.prod(window), 1))
    return _sum([product, *parts[2:]], 1)


def _einsum(parts: list[Depth], node: Node, at: Binding) -> Depth:
    operands, _, result = str(node.parameters["equation"]).partition("->")
    known: dict[str, int] = {}
    for letters, x in zip(operands.split(","), node.inputs, strict=True):
        known.update(zip(letters, map(number, sizes(x, at)), strict=True))
    terms = math.prod(n for letter, n in known.items() if letter not in result)
    return _product(parts, len(parts) - 1 + max(terms - 1, 0))


def _average(parts: list[Depth], node: Node, at: Binding) -> Depth:
    window = evaluate(node.parameters["kernel"], at)
    return _sum(parts, math.prod(map(number, window[2:])) + 1)


def _count(node: Node, at: Binding) -> int:
    dims = sizes(node.inputs[0], at)
    if "axes" not in node.parameters:  # global pooling
        return math.prod(map(number, dims[2:]))
    return math.prod(number(dims[k]) for k in evaluate(node.parameters["axes"], at))


def _added(parts: list[Depth], node: Node, at: Binding) -> Depth:
    return _sum(parts, max(_count(node, at) - 1, 0))


def _mean(parts: list[Depth], node: Node, at: Binding) -> Depth:
    """Divided by the number of terms, or multiplied by its rounded inverse."""
    return _sum(parts, _count(node, at) + 1)


def _squares(parts: list[Depth], node: Node, at: Binding) -> Depth:
    return _product([*parts, *parts], max(_count(node, at), 1))


def _multiplied(parts: list[Depth], node: Node, at: Binding) -> Depth:
    terms = _count(node, at)
    return _product(parts * terms, max(terms - 1, 0))


def _cumulated(parts: list[Depth], node: Node, at: Binding) -> Depth:
    axis = number(evaluate(node.parameters["axis"], at))
    return _sum(parts, max(_size(node.inputs[0], axis, at) - 1, 0))


def _chosen(parts: list[Depth], node: Node, at: Binding) -> Depth:
    """By a condition that rounding doesn't change."""
    return _sum(parts) if isinstance(node.inputs[0], Var) else None


def _root(parts: list[Depth], node: Node, at: Binding) -> Depth:
    return _product(parts, 1) if _one_term(node.inputs[0]) else None


# These round nothing; none of them makes the difference of two operands larger.
_STEADY = (
    "Transpose Reshape Flatten Squeeze Unsqueeze Expand Tile Slice Concat Split "
    "Gather GatherND Pad DepthToSpace SpaceToDepth Trilu Identity Neg Abs Relu Max "
    "Min ReduceMax ReduceMin MaxPool GlobalMaxPool"
).split()

_DEPTHS: dict[str, Callable[[list[Depth], Node, Binding], Depth]] = {
    **dict.fromkeys(_STEADY, lambda parts, node, at: _sum(parts)),
    **dict.fromkeys(("Add", "Sub"), lambda parts, node, at: _sum(parts, 1)),
    "Mul": lambda parts, node, at: _product(parts, 1),
    **dict.fromkeys(("Div", "Reciprocal"), _quotient),
    "Sqrt": _root,
    "Where": _chosen,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
    "AveragePool": _average,
    "ReduceSum": _added,
    "ReduceL1": _added,
    **dict.fromkeys(("ReduceMean", "GlobalAveragePool"), _mean),
    "ReduceSumSquare": _squares,
    "ReduceProd": _multiplied,
    "CumSum": _cumulated,
}
