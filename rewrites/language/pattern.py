"""Tensor terms: the two sides of a law.

A term is a leaf (any tensor, a constant, a constant of a known value) or an ONNX
operator applied to terms. The matcher looks for the left side in a graph, the builder
makes nodes of the right side, the prover takes both for the functions they denote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any

from .terms import Int, IntLike, Real, Sizes, integer, real


class Term:
    """A tensor-valued expression."""

    @property
    def rank(self) -> Int:
        """How many axes the term has."""
        return Int("rank", self)

    def dim(self, k: IntLike) -> Int:
        """The size at axis position k."""
        return Int("dim", self, integer(k))


class Leaf(Enum):
    """What a leaf may stand for in a graph."""

    TENSOR = "tensor"  # any value
    CONSTANT = "constant"  # a value that doesn't depend on the model's inputs
    SCALAR = "scalar"  # a constant with one element
    FULL = "full"  # a constant with one element, a given number
    FILLED = "filled"  # a constant of any shape that is a given number throughout
    ABOUT = "about"  # one element: a given number, to the last place of its type
    NUMBER = "number"  # right sides only: a new constant, a given number throughout


@dataclass(eq=False)
class Var(Term):
    """A leaf. `aligned` leaves may have fewer axes than `length`: they broadcast.

    NumPy's broadcasting aligns shapes at the last axis and takes missing axes for
    size 1, so the prover takes such a leaf for a tensor of rank `length`; the matcher
    sees to it that it is an operand of elementwise operators alone.
    """

    name: str
    kind: Leaf
    length: Int
    aligned: bool = False
    number: Real | None = None  # of FULL, FILLED, ABOUT and NUMBER
    kinds: str = ""  # element types: "" any, "float", "int", "bool"
    sizes: tuple[Int, ...] | None = None  # of each axis, where the rank is a number
    kept: bool = False  # a vector that the file holds is a parameter, and stays
    extended: bool = False  # may hold infinities (masks), which algebra doesn't cover
    shape: Sizes | None = None  # of a NUMBER that isn't one element

    @property
    def value(self) -> Real:
        """The element of a scalar."""
        return Real("value", self)

    def element(self, *place: IntLike) -> Int:
        """An element of whole numbers, an operand of no or of one axis."""
        return Int("element", self, *map(integer, place))

    def __repr__(self) -> str:
        if self.number is None:
            return self.name
        more = "" if self.shape is None else f", {self.shape}"
        if self.kind is Leaf.NUMBER and self.kinds:
            more += f", {self.kinds}"
        name = "" if self.kind is Leaf.NUMBER else f"{self.name}: "
        return f"{self.kind.value}({name}{self.number}{more})"


@dataclass(eq=False)
class Operator:
    """An ONNX operator as laws use it; see operators/ for its reading and writing."""

    name: str
    parameters: tuple[str, ...] = ()
    commutative: bool = False
    outputs: int = 1
    domain: str = ""

    def __call__(self, *inputs: Term | None, **parameters: Any) -> Apply:
        """The operator on these inputs; of several outputs the first (see `all`)."""
        return Apply(Node(self, inputs, self._complete(parameters)), 0)

    def all(
        self, *inputs: Term | None, count: int = 0, **parameters: Any
    ) -> tuple[Apply, ...]:
        """All outputs of one node."""
        node = Node(self, inputs, self._complete(parameters), count or self.outputs)
        return tuple(Apply(node, i) for i in range(node.count))

    def _complete(self, parameters: dict[str, Any]) -> dict[str, Any]:
        if set(parameters) != set(self.parameters):
            raise TypeError(f"{self.name} takes {self.parameters}, not {parameters}")
        return {
            name: real(value) if isinstance(value, float | Fraction) else value
            for name, value in parameters.items()
        }

    def __repr__(self) -> str:
        return self.name


@dataclass(eq=False)
class Node:
    """One application of an operator."""

    operator: Operator
    inputs: tuple[Term | None, ...]
    parameters: dict[str, Any] = field(default_factory=dict)
    count: int = 1  # outputs

    def __repr__(self) -> str:
        inputs = ["-" if x is None else repr(x) for x in self.inputs]
        named = [f"{name}={value!r}" for name, value in self.parameters.items()]
        return f"{self.operator}({', '.join(inputs + named)})"


@dataclass(eq=False)
class Apply(Term):
    """One output of a node."""

    node: Node
    output: int = 0

    def __repr__(self) -> str:
        return (
            f"{self.node!r}[{self.output}]" if self.node.count > 1 else repr(self.node)
        )


@dataclass(eq=False)
class Pointwise:
    """Any elementwise operator with `arity` tensor operands, as one symbol.

    Its other operands, such as the bounds of Clip, are constants with one element.
    `family` narrows it: "unary", "monotone" (never decreasing), "zero" (f(0) = 0),
    "binary".
    """

    name: str
    arity: int = 1
    family: str = "unary"

    def __call__(self, *inputs: Term) -> Apply:
        return Apply(Node(_ANY, tuple(inputs), {"f": self}), 0)

    def __repr__(self) -> str:
        return f"{self.name}:{self.family}"


_ANY = Operator("pointwise", ("f",))


@dataclass(eq=False)
class Chain(Term):
    """A product or sum of several factors in any order and association.

    In a graph it is a tree of Mul (or Add, Max, Min) nodes; the tree may stand in any
    shape. `head` is the ONNX operator.
    """

    head: Operator
    parts: tuple[Term, ...]

    def __repr__(self) -> str:
        return f"chain {self.head}({', '.join(map(repr, self.parts))})"


@dataclass(eq=False)
class Many(Term):
    """Any number (at least one) of terms of one form: the inputs of a Concat.

    `each(x)` is the form, applied to a member; None for the member as it is. On a
    right side the same members appear in another form.
    """

    name: str
    length: Int  # rank of the members
    each: Any = None  # Callable[[Term], Term]
    member: Var = None  # type: ignore[assignment]

    def map(self, each: Any) -> Many:
        """The same members in another form."""
        return Many(self.name, self.length, each, self.member)

    @property
    def form(self) -> Term:
        """The term that each member is matched with."""
        return self.each(self.member) if self.each else self.member

    def __repr__(self) -> str:
        return f"{self.form!r}..."


def leaves(terms: Sequence[Term | None]) -> list[Var]:
    """The distinct leaves of some terms, in order of appearance."""
    found: dict[Var, None] = {}
    stack: list[Any] = list(reversed(terms))
    while stack:
        term = stack.pop()
        if isinstance(term, Var):
            found.setdefault(term)
        elif isinstance(term, Apply):
            stack.extend(reversed(term.node.inputs))
        elif isinstance(term, Chain):
            stack.extend(reversed(term.parts))
        elif isinstance(term, Many):
            stack.append(term.form)
    return list(found)
