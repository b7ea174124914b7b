"""The sizes of what a law's term stands for, right sides included.

A term of the left side has those of the node it matched. Of others they follow from
the operands' by the operator, as far as error bounds ask for them (rounding_bounds.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...analysis.graph.dims import Dim, Dims, broadcast, simplify
from ..language.pattern import Apply, Chain, Leaf, Many, Node, Term, Var
from .bindings import Binding, Undecided, evaluate, number

Operands = list[Dims]


def sizes(term: Term | None, at: Binding) -> Dims:
    """The size of each axis; raises Undecided where they aren't known."""
    if isinstance(term, Chain):
        return broadcast(*(sizes(part, at) for part in term.parts))
    if isinstance(term, Var) and term.kind is Leaf.NUMBER:
        return () if term.shape is None else tuple(evaluate(term.shape, at))
    if isinstance(term, Var) or (isinstance(term, Apply) and term.node in at.nodes):
        return at.dims(term)
    if not isinstance(term, Apply) or term.output or term.node.count > 1:
        raise Undecided(f"the sizes of {term!r}")
    return _SIZES.get(term.node.operator.name, _elementwise)(term.node, at)


def members(many: Many, at: Binding) -> list[Binding]:
    """What the symbols of the law stand for in each member."""
    found = []
    for member in at.members[many.name]:
        both = member.copy()
        both.symbols = {**at.symbols, **member.symbols}
        both.values = {**at.values, **member.values}
        found.append(both)
    return found


_ELEMENTWISE = frozenset(
    "Add Sub Mul Div Neg Abs Max Min Relu Clip Where Sqrt Reciprocal Identity Sign "
    "Exp Log Sigmoid Tanh Erf Pow".split()
)


def _operands(node: Node, at: Binding) -> Operands:
    found: Operands = []
    for x in node.inputs:
        if isinstance(x, Many):
            found += [sizes(x.form, member) for member in members(x, at)]
        elif x is not None:
            found.append(sizes(x, at))
    return found


def _elementwise(node: Node, at: Binding) -> Dims:
    if node.operator.name not in _ELEMENTWISE:
        raise Undecided(f"the sizes of {node.operator.name}")
    return broadcast(*_operands(node, at))


def _parameter(node: Node, name: str, at: Binding) -> Any:
    return evaluate(node.parameters[name], at)


def _transposed(node: Node, at: Binding) -> Dims:
    (dims,) = _operands(node, at)
    return tuple(dims[axis] for axis in _parameter(node, "perm", at))


def _shaped(node: Node, at: Binding) -> Dims:
    return tuple(_parameter(node, "shape", at))


def _expanded(node: Node, at: Binding) -> Dims:
    return broadcast(*_operands(node, at), _shaped(node, at))


def _concatenated(node: Node, at: Binding) -> Dims:
    parts = _operands(node, at)
    axis = number(_parameter(node, "axis", at))
    total: Dim = 0
    for dims in parts:
        total = simplify(total + dims[axis])
    return (*parts[0][:axis], total, *parts[0][axis + 1 :])


def _squeezed(node: Node, at: Binding) -> Dims:
    (dims,) = _operands(node, at)
    axes = _parameter(node, "axes", at)
    return tuple(d for k, d in enumerate(dims) if k not in axes)


def _unsqueezed(node: Node, at: Binding) -> Dims:
    (dims,) = _operands(node, at)
    axes, rest = _parameter(node, "axes", at), iter(dims)
    rank = len(dims) + len(axes)
    return tuple(1 if k in axes else next(rest) for k in range(rank))


def _product(node: Node, at: Binding) -> Dims:
    a, b = _operands(node, at)
    if min(len(a), len(b)) < 2:
        raise Undecided("a product of vectors")
    return (*broadcast(a[:-2], b[:-2]), a[-2], b[-1])


def _reduced(node: Node, at: Binding) -> Dims:
    (dims,) = _operands(node, at)
    axes = _parameter(node, "axes", at)
    keep = number(_parameter(node, "keepdims", at))
    if keep:
        return tuple(1 if k in axes else d for k, d in enumerate(dims))
    return tuple(d for k, d in enumerate(dims) if k not in axes)


_SIZES: dict[str, Callable[[Node, Binding], Dims]] = {
    "Transpose": _transposed,
    "Reshape": _shaped,
    "Expand": _expanded,
    "Concat": _concatenated,
    "Squeeze": _squeezed,
    "Unsqueeze": _unsqueezed,
    "MatMul": _product,
    **dict.fromkeys(
        ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"), _reduced
    ),
}
