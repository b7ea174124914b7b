"""A rule: one object that is matched, built, proved and mutated.

    @rule("movement", mutants=...)
    def transpose_transpose(law):
        "Transpose(Transpose(x, p), q) = Transpose(x, q after p)"
        r = law.rank()
        x = law.tensor("x", r)
        p, q = law.perm("p", r), law.perm("q", r)
        pq = p.after(q) if law.mutant("swap") else q.after(p)
        law.rewrite(Transpose(Transpose(x, perm=p), perm=q), Transpose(x, perm=pq))

The function runs once when the module is imported, and once per mutant when the rule is
proved: `law.mutant(name)` is true in that mutant alone, and every mutant has to be
rejected by the prover.
"""

from __future__ import annotations

import builtins
import hashlib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

from .pattern import Leaf, Many, Pointwise, Term, Var
from .terms import (
    Axes,
    Bool,
    BoolLike,
    Fn,
    Int,
    IntLike,
    Perm,
    Real,
    RealLike,
    Sizes,
    integer,
    real,
    truth,
)

S = TypeVar("S")


@dataclass
class Law:
    """What a rule function builds: symbols, preconditions and the two sides."""

    active: str = ""  # the mutant that is on
    mutants: list[str] = field(default_factory=list)
    symbols: dict[str, Any] = field(default_factory=dict)
    requires: list[Bool] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    left: tuple[Term, ...] = ()
    right: tuple[Term, ...] = ()

    def _new(self, name: str, symbol: S) -> S:
        if name in self.symbols:
            raise ValueError(f"{name!r} is declared twice")
        if not name.isidentifier():  # what the prover makes has other names
            raise ValueError(f"{name!r} is no name for a symbol")
        self.symbols[name] = symbol
        return symbol

    # ---- symbols

    def int(
        self, name: str, low: IntLike | None = None, high: IntLike | None = None
    ) -> Int:
        """A whole number, low <= n <= high."""
        bounds = [None if b is None else integer(b) for b in (low, high)]
        return self._new(name, Int("symbol", name, *bounds))

    def rank(self, name: str = "r", low: builtins.int = 0) -> Int:
        """A number of axes, at least `low`."""
        return self.int(name, low)

    def axis(self, name: str, rank: IntLike) -> Int:
        """An axis position, 0 <= a < rank."""
        return self.int(name, 0, integer(rank) - 1)

    def real(self, name: str) -> Real:
        """A real parameter of an operator, such as epsilon."""
        return self._new(name, Real("symbol", name))

    def fn(self, name: str, length: IntLike) -> Fn:
        """A whole number per axis."""
        return self._new(name, Fn(length, name))

    def perm(self, name: str, rank: IntLike) -> Perm:
        """A permutation of this many axes."""
        return self._new(name, Perm(rank, name))

    def axes(self, name: str, rank: IntLike) -> Axes:
        """A set of axes."""
        return self._new(name, Axes(rank, name))

    def new_axes(self, name: str, rank: IntLike) -> Axes:
        """A set of axes that Unsqueeze adds to a tensor of `rank` axes."""
        added = self.axes(name, 0)
        added.length = integer(rank) + added.count
        return added

    def sizes(self, name: str, rank: IntLike) -> Sizes:
        """A shape, as the parameter of Reshape or Expand."""
        return self._new(name, Sizes(rank, name))

    def word(self, name: str) -> Int:
        """A parameter that laws carry along unread, such as a mode or a flag."""
        return self._new(name, Int("symbol", name, None, None))

    # ---- leaves

    def tensor(self, name: str, rank: IntLike, **more: Any) -> Var:
        """Any tensor of exactly `rank` axes."""
        return self._new(name, Var(name, Leaf.TENSOR, integer(rank), **more))

    def shaped(self, name: str, *sizes: IntLike, **more: Any) -> Var:
        """Any tensor of these sizes: symbols that other tensors may share, or 1."""
        listed = tuple(integer(size) for size in sizes)
        return self.tensor(name, len(listed), sizes=listed, **more)

    def operand(self, name: str, rank: IntLike, **more: Any) -> Var:
        """An operand of elementwise operators that may have fewer axes than `rank`."""
        return self.tensor(name, rank, aligned=True, **more)

    def constant(self, name: str, rank: IntLike, **more: Any) -> Var:
        """A tensor of exactly `rank` axes that doesn't depend on the model's inputs."""
        return self._new(name, Var(name, Leaf.CONSTANT, integer(rank), **more))

    def constant_operand(self, name: str, rank: IntLike, **more: Any) -> Var:
        """A constant that may have fewer axes than `rank`."""
        return self.constant(name, rank, aligned=True, **more)

    def scalar(self, name: str, rank: IntLike, **more: Any) -> Var:
        """A constant with one element, as an operand of elementwise operators."""
        kind = Leaf.SCALAR
        return self._new(name, Var(name, kind, integer(rank), aligned=True, **more))

    def full(self, name: str, rank: IntLike, number: RealLike, **more: Any) -> Var:
        """A constant operand with one element, which is `number`."""
        var = Var(name, Leaf.FULL, integer(rank), True, real(number), **more)
        return self._new(name, var)

    def filled(self, name: str, rank: IntLike, number: RealLike, **more: Any) -> Var:
        """A constant operand of any shape that is `number` throughout."""
        var = Var(name, Leaf.FILLED, integer(rank), True, real(number), **more)
        return self._new(name, var)

    def about(self, name: str, rank: IntLike, number: RealLike) -> Var:
        """As `full`, right to the last place of its element type.

        `number` is what the exporter meant: Real("sqrt", real(2)), say. It may depend
        on sizes of operands that stand to the left of the leaf.
        """
        var = Var(name, Leaf.ABOUT, integer(rank), True, real(number), "float")
        return self._new(name, var)

    def number(
        self, value: RealLike | Int, shape: Sizes | None = None, kinds: str = ""
    ) -> Var:
        """Right sides only: a constant with one element, or of a shape.

        kinds: "int" or "bool" where it has another element type than the operands.
        """
        rank = integer(0) if shape is None else shape.rank
        name = f"number({real(value)})"
        number = real(value)
        return Var(name, Leaf.NUMBER, rank, shape is None, number, kinds, shape=shape)

    def many(self, name: str, rank: IntLike, each: Any = None) -> Many:
        """One or more inputs of one form, for variadic operators."""
        member = self.tensor(name, rank)
        return Many(name, integer(rank), each, member)

    def pointwise(
        self, name: str, arity: builtins.int = 1, family: str = ""
    ) -> Pointwise:
        """Any elementwise operator; see Pointwise for the families."""
        chosen = family or ("unary" if arity == 1 else "binary")
        return self._new(name, Pointwise(name, arity, chosen))

    # ---- what the law says

    def require(self, condition: BoolLike, why: str = "") -> None:
        """A precondition; `why` is shown when it keeps the rule from applying."""
        self.requires.append(truth(condition))
        self.reasons.append(why)

    def mutant(self, name: str) -> bool:
        """Whether this mutant of the law is the one being built."""
        if name not in self.mutants:
            self.mutants.append(name)
        return self.active == name

    def rewrite(
        self, left: Term | Sequence[Term], right: Term | Sequence[Term]
    ) -> None:
        """left = right, and the engine replaces left by right."""
        self.left = (left,) if isinstance(left, Term) else tuple(left)
        self.right = (right,) if isinstance(right, Term) else tuple(right)
        if len(self.left) != len(self.right):
            raise ValueError("the two sides have different numbers of results")

    def text(self) -> str:
        """The law in a canonical spelling, for its hash."""
        parts = [
            ", ".join(map(repr, self.left)),
            ", ".join(map(repr, self.right)),
            *(repr(condition) for condition in self.requires),
            *(_declared(name, symbol) for name, symbol in self.symbols.items()),
        ]
        return _renumbered("\n".join(parts))


def _declared(name: str, symbol: Any) -> str:
    if isinstance(symbol, Var):
        return (
            f"{name}: {symbol.kind.value} {symbol.length} {symbol.aligned} "
            f"{symbol.number} {symbol.kinds} {symbol.sizes} {symbol.extended}"
        )
    if isinstance(symbol, Int):
        return f"{name}: {symbol.args}"
    length = getattr(symbol, "length", getattr(symbol, "rank", ""))
    return f"{name}: {type(symbol).__name__} {length}"


def _renumbered(text: str) -> str:
    """Bound positions are numbered as Python made them; here, as they appear."""
    seen: dict[str, str] = {}
    return re.sub(
        r"\bk:\d+\b", lambda m: seen.setdefault(m.group(), f"k:{len(seen)}"), text
    )


@dataclass(eq=False)
class Rule:
    """A law with its place in the catalogue."""

    name: str
    family: str
    build: Callable[[Law], None]
    law: Law
    statement: str
    measure: str = "weight"  # what strictly falls; see measure.py
    # "always"; "search": where the search for fewer FLOPs chooses it; "layout": where a
    # plan for fewer Transposes does, of steps that are weighed together; "asked": where
    # the caller asks for it by name, as it costs readability (merged layers).
    when: str = "always"
    # Small instances for the tests: numbers for the symbols, shapes (or elements, for
    # constants) for the leaves. See tests/support/rule_samples.py.
    samples: tuple[dict[str, Any], ...] = ()
    line: int = 0  # of the module that makes it, see `rule`

    @property
    def mutants(self) -> list[str]:
        """The names of its wrong variants."""
        return self.law.mutants

    def mutated(self, mutant: str) -> Law:
        """The law with one mutant on."""
        law = Law(active=mutant)
        self.build(law)
        return law

    @cached_property
    def hash(self) -> str:
        """Of the law alone; a verdict is keyed by this and the kernel's hash."""
        return hashlib.sha256(self.law.text().encode()).hexdigest()[:16]


def rule(
    family: str, *, name: str = "", statement: str = "", **more: Any
) -> Callable[[Callable[[Law], None]], Rule]:
    """Make a rule of a function; its docstring's first line is the law."""

    def make(build: Callable[[Law], None]) -> Rule:
        law = Law()
        build(law)
        said = statement or (build.__doc__ or "").strip().split("\n")[0]
        if "samples" in more:
            more["samples"] = tuple(more["samples"])
        made = Rule(name or build.__name__, family, build, law, said, **more)
        made.line = _line_of_module()
        return made

    return make


def _line_of_module() -> int:
    """Where the module that is being imported has come to; 0 if none is."""
    frame = sys._getframe()
    while frame.f_code.co_name != "<module>":
        if frame.f_back is None:
            return 0
        frame = frame.f_back
    return frame.f_lineno


__all__ = ["Fraction", "Law", "Rule", "rule"]
