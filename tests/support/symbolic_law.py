"""A law whose symbols are z3's: ranks, sizes, permutations, tensors of any shape."""

from __future__ import annotations

from typing import Any

import z3

from fairhand.rewrites.proof.kernel.scalars import All, Element, Symbol
from fairhand.rewrites.proof.kernel.smt import term
from fairhand.rewrites.proof.kernel.tensors import Context, Tensor, shape
from fairhand.rewrites.proof.semantics.gather import gather_index
from fairhand.rewrites.proof.semantics.index_maps import Axes

EPSILON = Symbol("epsilon")


def gathered(context: Context, t: Tensor, axis: Any, indices: Any, count: Any) -> Any:
    """Gather by a list: t[indices(j)] along an axis, j < count."""
    return gather_index(context, t, axis, 1, shape(count), lambda j: indices(j(0)))


class Law:
    """Symbols and what is known of them; then the right side."""

    def __init__(self) -> None:
        self.context = Context()

    def integer(self, name: str, low: Any = None, high: Any = None) -> Any:
        """low <= n <= high."""
        value = z3.Int(name)
        self.context.assume(low is None or value >= low)
        self.context.assume(high is None or value <= high)
        return value

    def rank(self, name: str = "r", low: int = 0) -> Any:
        return self.integer(name, low)

    def function(self, name: str, rank: Any = None) -> Any:
        """Per axis; not negative if a rank is given."""
        f = z3.Function(name, z3.IntSort(), z3.IntSort())
        if isinstance(rank, int):
            self.context.assume(All(rank, lambda k: f(term(k)) >= 0))
        elif rank is not None:
            self.context.assume_each(rank, f, lambda k: f(k) >= 0)
        return lambda k: f(term(k))

    def tensor(self, name: str, rank: Any, dim: Any = None, **more: bool) -> Tensor:
        sizes = dim or self.function(f"n_{name}", rank)
        return Tensor(rank, sizes, lambda i: Element(name, rank, i, **more), name)

    def vector(self, name: str, size: Any) -> Tensor:
        return self.tensor(name, 1, shape(size))

    def permutation(self, name: str, rank: Any) -> tuple[Any, Any]:
        p, inverse = self.function(name), self.function(f"{name}_inverse")
        self.context.permutation(p, inverse, rank)
        return p, inverse

    def axes(self, name: str) -> Axes:
        member = z3.Function(name, z3.IntSort(), z3.BoolSort())
        rest, place = self.function(f"{name}_rest"), self.function(f"{name}_place")
        return Axes(lambda k: member(term(k)), self.integer(f"{name}_n"), rest, place)

    def right(self) -> Context:
        self.context.on_rhs = True
        return self.context
