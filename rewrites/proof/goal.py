"""From a law to what the kernel is asked: the second reading of a rule.

The first reading is the matcher's. Both follow the same object, so a rule can't be
proved in one form and applied in another. Symbols become z3 symbols, or, on arrays,
numbers drawn at random: then both sides can be computed and compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import z3

from ..language.pattern import Apply, Chain, Leaf, Many, Node, Pointwise, Term, Var
from ..language.rule import Law
from ..language.terms import Axes, Fn, Int, Perm, Real, Sizes
from .added_axes import axes_conditions
from .kernel.scalars import Element, Scalar, Symbol
from .kernel.smt import both, fresh, new_session, term
from .kernel.tensors import Context, Family, Tensor, shape
from .semantics import (  # noqa: F401  they register meanings
    attention,
    casts,
    contraction,
    convolution,
    elementwise,
    gather,
    movement,
    normalization,
    reduction,
    reshape,
)
from .semantics.expressions import Expressions, PermMeaning, SizesMeaning
from .semantics.index_maps import Axes as DenotedAxes
from .semantics.table import MEANINGS, Meaning


class Semantics(Expressions):
    """The meaning of a law's symbols: here, z3 symbols nothing more is known of."""

    def __init__(self, law: Law) -> None:
        super().__init__()
        self.law = law
        self._tensors: dict[Any, Any] = {}
        self._kept: list[Tensor] = []
        self._members: dict[str, Any] = {}  # the member that a Many's form is taken of
        for name, symbol in law.symbols.items():
            self._symbols[name] = self._declare(name, symbol)

    # ---- symbols

    def _declare(self, name: str, symbol: Any) -> Any:
        if isinstance(symbol, Int):
            return self._integer(name, *symbol.args[1:])
        if isinstance(symbol, Real):
            return Symbol(name)
        if isinstance(symbol, Perm):
            return self._permutation(name, self.int(symbol.length))
        if isinstance(symbol, Fn):
            return self._function(name)
        if isinstance(symbol, Axes):
            return self._axes(symbol)
        if isinstance(symbol, Sizes):
            return self._sizes(name, self.int(symbol.rank))
        if isinstance(symbol, Pointwise):
            return symbol
        assert isinstance(symbol, Var)
        return None  # tensors are made when they are first used

    def _integer(self, name: str, low: Int | None, high: Int | None) -> Any:
        value = z3.Int(name)
        if low is not None:
            self.context.assume(value >= self.int(low))
        if high is not None:
            self.context.assume(value <= self.int(high))
        return value

    def _function(self, name: str) -> Any:
        f = z3.Function(name, z3.IntSort(), z3.IntSort())
        return lambda k: f(term(k))

    def _permutation(self, name: str, rank: Any) -> PermMeaning:
        forward, inverse = self._function(name), self._function(f"{name}:inverse")
        self.context.permutation(forward, inverse, rank)
        return PermMeaning(forward, inverse)

    def _sizes(self, name: str, rank: Any) -> SizesMeaning:
        dim = self._function(name)
        self.context.assume_each(rank, dim, lambda k: dim(k) >= 0)
        return SizesMeaning(rank, dim, name)

    def _axes(self, axes: Axes) -> DenotedAxes:
        name = axes.name
        member = z3.Function(name, z3.IntSort(), z3.BoolSort())
        rest, place = self._function(f"{name}:rest"), self._function(f"{name}:place")
        count = fresh(f"{name}:count")
        made = DenotedAxes(lambda k: member(term(k)), count, rest, place)
        self._symbols[name] = made  # the length may depend on the count
        length = self.int(axes.length)
        self.context.assume(both(count >= 0, count <= length))
        # Any set of axes can be numbered so: by its order.
        j, k = z3.Ints(f"{name}:j {name}:k")
        ordered = z3.Implies(
            z3.And(j >= 0, j < k, k < length - count), rest(j) < rest(k)
        )
        pattern = z3.MultiPattern(rest(j), rest(k))
        self.context.assume(z3.ForAll([j, k], ordered, patterns=[pattern]))
        return made

    # ---- tensors

    def tensor(self, t: Term) -> Tensor:
        """What a term denotes."""
        if isinstance(t, Var):
            key: Any = t
            member: Tensor | None = self._members.get(t.name)
            if member is not None:
                return member
        elif isinstance(t, Chain):
            if t.head.name not in _CHAINED:
                raise ValueError(f"a chain of {t.head.name}")
            first, *others = (self.tensor(part) for part in t.parts)
            for other in others:
                first = MEANINGS[t.head.name](self.context, first, other)
            return first
        else:
            assert isinstance(t, Apply)
            key = (t.node, self.context.on_rhs, tuple(map(id, self._members.values())))
        if key not in self._tensors:
            made = self._leaf(t) if isinstance(t, Var) else self._node(t.node)
            self._tensors[key] = made
        found: Any = self._tensors[key]
        if isinstance(t, Apply) and isinstance(found, Family):
            return found.member(t.output)
        result: Tensor = found[t.output] if isinstance(found, tuple) else found  # type: ignore[union-attr]
        return result

    def _node(self, node: Node) -> Any:
        name = node.operator.name
        _check_forms(node)
        if name == "pointwise":
            tensors = [self.tensor(x) for x in node.inputs if x is not None]
            f = node.parameters["f"]
            return self.meaning(name)(self.context, *tensors, f=f)
        operands: list[Any] = []
        for x in node.inputs:
            if isinstance(x, Many):
                operands.append(self.family(x))
            else:
                operands.append(None if x is None else self.tensor(x))
        parameters = {k: self.parameter(v) for k, v in node.parameters.items()}
        for x in node.parameters.values():
            if isinstance(x, Fn | Axes):
                self._check_length(x, node, operands[0].rank)
        if node.count > 1 and name == "Split":
            parameters["count"] = node.count
        return self.meaning(name)(self.context, *operands, **parameters)

    def _check_length(self, x: Fn | Axes, node: Node, rank: Any) -> None:
        """A parameter speaks of each axis, or it is read and written as another one.

        The matcher compares lists with their lengths, but a set of axes without.
        """
        if node.operator.name == "Unsqueeze":
            rank = rank + self.parameter(x).count
        wanted = node.count if node.operator.name == "Split" else rank
        on_rhs, self.context.on_rhs = self.context.on_rhs, isinstance(x, Axes)
        self.context.on_rhs |= on_rhs
        self.context.require(self.int(x.length) == wanted, "an entry for each axis")
        self.context.on_rhs = on_rhs

    def meaning(self, name: str) -> Meaning:
        """The denotation of an operator."""
        return MEANINGS[name]

    def family(self, many: Many) -> Family:
        """Any number of tensors of one form."""
        members = self._family_of(many)
        form = many.form

        def member(j: Any) -> Tensor:
            # Kept, since what is made of it is found again by its identity.
            self._kept.append(members.member(j))
            self._members[many.member.name] = self._kept[-1]
            try:
                return self.tensor(form)
            finally:
                del self._members[many.member.name]

        sample = member(fresh("member"))
        return Family(
            members.count,
            sample.rank,
            lambda j, k: member(j).dim(k),
            lambda j, i: member(j).at(i),
        )

    def _family_of(self, many: Many) -> Family:
        key = ("many", many.name)
        if key not in self._tensors:
            rank = self.int(many.length)
            count = z3.Int(f"{many.name}:count")
            self.context.assume(count >= 1)
            sizes = z3.Function(
                f"n:{many.name}", z3.IntSort(), z3.IntSort(), z3.IntSort()
            )
            j, k = z3.Ints(":j :k")
            self.context.assume(
                z3.ForAll([j, k], sizes(j, k) >= 0, patterns=[sizes(j, k)])
            )
            self._tensors[key] = Family(
                count,
                rank,
                lambda j, k: sizes(term(j), term(k)),
                lambda j, i: Element(many.name, rank, i, member=j),
            )
        found: Family = self._tensors[key]
        return found

    def _leaf(self, leaf: Var) -> Tensor:
        rank = self.int(leaf.length)
        if leaf.kind is Leaf.NUMBER:
            assert leaf.number is not None
            value = self.real(leaf.number)
            if leaf.shape is None:
                return Tensor(0, lambda k: 1, lambda i: value)
            sizes = self.parameter(leaf.shape)
            return Tensor(sizes.rank, sizes.dim, lambda i: value)
        dim = self._dims(leaf, rank)
        if leaf.kind is Leaf.SCALAR:
            element = self.scalar(leaf)
            return Tensor(rank, dim, lambda i: element, leaf.name)
        if leaf.number is not None:
            number = self.real(leaf.number)
            return Tensor(rank, dim, lambda i: number, leaf.name)
        return Tensor(
            rank,
            dim,
            lambda i: Element(leaf.name, rank, i, extended=leaf.extended),
            leaf.name,
        )

    def _dims(self, leaf: Var, rank: Any) -> Callable[[Any], Any]:
        if leaf.sizes is not None:
            return shape(*(self.int(size) for size in leaf.sizes))
        if leaf.kind in (Leaf.SCALAR, Leaf.FULL, Leaf.ABOUT):
            return lambda k: 1
        dim: Callable[[Any], Any] = self._function(f"n:{leaf.name}")
        self.context.assume_each(rank, dim, lambda k: dim(k) >= 0)
        return dim

    def scalar(self, leaf: Var) -> Scalar:
        return Element(leaf.name, 0, lambda k: 0)


# What the parameters of these names have to be, and what may be in their place.
_WORDS = {
    Axes: "a set of axes",
    Fn: "a number per axis",
    Int: "a whole number",
    Perm: "a permutation",
    Real: "a real number",
    Sizes: "a shape",
}
_FORMS = {
    **dict.fromkeys(("begin", "end", "step", "stride", "dilation", "kernel"), Fn),
    "axes": Axes,
    "axis": Int,
    "perm": Perm,
    "shape": Sizes,
}
# What else they may say: a meaning takes any other word for one of these.
_SAID: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys("keepdims transA transB ceil pads_count".split(), (0, 1)),
    **dict.fromkeys("exclusive reverse select_last_index".split(), (0, 1)),
    **dict.fromkeys("upper causal".split(), (0, 1)),
    "approximate": ("none", "tanh"),
    "direction": ("LEFT", "RIGHT"),
    "DepthToSpace mode": ("DCR", "CRD"),
    "Pad mode": ("constant", "edge", "reflect", "wrap"),
}


def _check_forms(node: Node) -> None:
    """Raises ValueError if an operand is no tensor, or a parameter of another form,
    or none that the operator has."""
    name = node.operator.name
    for x in node.inputs:
        if x is not None and not isinstance(x, Term):
            said = _WORDS.get(type(x), repr(x))
            raise ValueError(f"{name} of {x} takes tensors, and that is {said}")
    for parameter, x in node.parameters.items():
        allowed = _SAID.get(parameter) or _SAID.get(f"{name} {parameter}", (x,))
        if isinstance(x, int | str) and x not in allowed:
            raise ValueError(f"{name} with {x} as {parameter}")
        wanted = _FORMS.get(parameter)
        if wanted and type(x) in _WORDS and not isinstance(x, wanted):
            raise ValueError(
                f"{name} takes {_WORDS[wanted]} as {parameter}, "
                f"and {getattr(x, 'name', x)} is {_WORDS[type(x)]}"
            )


# Which operators a chain may consist of.
_CHAINED = frozenset("Add Mul Max Min And Or".split())


@dataclass
class Goal:
    """What has to be shown: each left side equals its right side."""

    pairs: list[tuple[Tensor, Tensor]]
    context: Context
    obligations: list[tuple[str, Any]] = field(default_factory=list)


def goal(law: Law, semantics: Semantics | None = None) -> Goal:
    """The kernel's question for a law."""
    new_session()
    semantics = semantics or Semantics(law)
    context = semantics.context
    # The meanings of the left side may use what the law requires.
    for condition in law.requires:
        semantics.assume(condition)
    left = [semantics.tensor(t) for t in law.left]
    context.on_rhs = True
    right = [semantics.tensor(t) for t in law.right]

    def rank(t: Term, on_left: bool) -> Any:
        context.on_rhs = not on_left
        return semantics.tensor(t).rank

    needed = list(axes_conditions(law, rank))
    context.on_rhs = True
    for condition in needed:
        if condition is not True:
            context.require(condition, "the axes that operands add")
    return Goal(list(zip(left, right, strict=True)), context, context.obligations)
