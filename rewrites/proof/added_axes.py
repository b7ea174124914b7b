"""Whether operands that broadcast add the same axes to both sides of a law.

The proof takes an operand that may have fewer axes than r for one of r axes, the first
of them of size 1. So it shows that the sides are equal once axes of size 1 are put in
front of them, and leaves open whether they have one rank: that of x + 0 is the larger
of two, that of x isn't. Here each term has the rank that the proof takes it to have, or
the largest of some operands, and then these have to be the same on both sides.

Sound, as long as an operator that isn't elementwise counts axes of its first operand
(of all, for those in `_COUNTED`), and further ones broadcast or have as many as the
operator says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..language.operators.elementwise import BINARY, UNARY
from ..language.pattern import Apply, Chain, Leaf, Many, Term, Var
from ..language.rule import Law
from ..language.terms import Axes, Fn, Sizes
from .kernel.smt import either

_BROADCASTING = BINARY | UNARY | {"Where", "PRelu", "Identity", "pointwise"}
_NUMBERED = frozenset(["Clip", "PRelu"])  # whose further operands add no axes
_COUNTED = frozenset("MatMul Concat Gather GatherND ScatterND Einsum Attention".split())

RankOf: TypeAlias = Callable[[Term, bool], Any]


@dataclass(frozen=True)
class _Rank:
    """The largest of some operands' ranks; of none: what the proof takes it to be."""

    of: frozenset[Var] = frozenset()
    where: tuple[Any, ...] = ()  # conditions for that


def axes_conditions(law: Law, rank_of: RankOf) -> Iterator[Any]:
    """What has to hold for both sides of a law to have the same number of axes.

    `rank_of`: a term, and whether it stands on the left.
    """
    for left, right in zip(law.left, law.right, strict=True):
        sides = _Side(law, rank_of, True), _Side(law, rank_of, False)
        a, b = sides[0].rank(left), sides[1].rank(right)
        yield a.of == b.of
        for conditions in (a.where, b.where, *(side.needed for side in sides)):
            yield from conditions


class _Side:
    def __init__(self, law: Law, rank_of: RankOf, on_left: bool) -> None:
        self._law, self._rank_of, self._on_left = law, rank_of, on_left
        self.needed: list[Any] = []

    def rank(self, term: Term) -> _Rank:
        """The rank of a term; `needed` are conditions for its parts."""
        if isinstance(term, Var):
            if term.aligned and term.kind is not Leaf.NUMBER:
                return self._decided(frozenset([term]))
            return _Rank()
        if isinstance(term, Many):
            self._count(self.rank(term.form))
            return _Rank()
        if isinstance(term, Chain):
            return self._largest(term.parts)
        assert isinstance(term, Apply)
        name, inputs = term.node.operator.name, term.node.inputs
        if name in _BROADCASTING:
            return self._largest(inputs[:1] if name in _NUMBERED else inputs)
        # Expand broadcasts too: its result has the rank of its sizes.
        counted = 0 if name == "Expand" else len(inputs) if name in _COUNTED else 1
        for place, x in enumerate(inputs):
            found = None if x is None else self.rank(x)
            if found is not None and place < counted:
                self._count(found)
        return _Rank()

    def _count(self, rank: _Rank) -> None:
        self.needed += [not rank.of, *rank.where]

    def _largest(self, terms: Sequence[Term | None]) -> _Rank:
        """Of operands that broadcast; a number has no axes of its own."""
        numbers = [t for t in terms if isinstance(t, Var) and t.kind is Leaf.NUMBER]
        plain = [t for t in terms if t is not None and t not in numbers]
        plain += [t for t in numbers if t.shape is not None]
        found = [(t, self.rank(t)) for t in plain]
        leaves: frozenset[Var] = frozenset().union(*[rank.of for _, rank in found])
        conditions = tuple(c for _, rank in found for c in rank.where)
        exact = [t for t, rank in found if not rank.of]
        if not exact:
            return self._decided(leaves, conditions)
        for leaf in leaves:  # has no more axes than one of those
            length = self._height(leaf)
            high = [self._height(t) >= length for t in exact]
            conditions = (*conditions, either(*high))
        return _Rank(where=conditions)

    def _height(self, term: Term) -> Any:
        return self._rank_of(term, self._on_left)

    def _decided(
        self, leaves: frozenset[Var], conditions: tuple[Any, ...] = ()
    ) -> _Rank:
        """The law's rank, if that stands for the largest of just these.

        So it is bound where no other tensor, list or set has that many entries.
        """
        lengths = {repr(x.length) for x in leaves}
        own = len(lengths) == 1
        for symbol in self._law.symbols.values():
            if isinstance(symbol, Var):
                own = own and (repr(symbol.length) not in lengths or symbol in leaves)
            else:
                own = own and not isinstance(symbol, Many | Axes | Fn | Sizes)
        return _Rank(frozenset() if own else leaves, conditions)
