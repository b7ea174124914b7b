"""Small tensors and scalars for questions to the proof kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3

from fairhand.rewrites.proof.kernel.equality import Verdict, prove_equal
from fairhand.rewrites.proof.kernel.questions import LEVELS
from fairhand.rewrites.proof.kernel.scalars import Element, Op, Red, Scalar, Symbol
from fairhand.rewrites.proof.kernel.smt import INT, choose, term
from fairhand.rewrites.proof.kernel.tensors import Context, Family, Tensor, shape

Build = Callable[["World"], tuple[Any, Any]]
TRUTH = z3.BoolSort()


class World:
    """A context, and terms by name. Sizes are >= 0 unless said otherwise."""

    def __init__(self) -> None:
        self.context = Context()
        self.assume = self.context.assume

    def size(self, name: str, least: int = 0) -> Any:
        n = z3.Int(name)
        self.assume(n >= least)
        return n

    def axis(self, name: str, rank: Any) -> Any:
        axis = z3.Int(name)
        self.assume(z3.And(axis >= 0, axis < rank))
        return axis

    def per_axis(self, name: str, rank: Any, least: int | None = None) -> Any:
        f = z3.Function(name, INT, INT)
        if least is not None:
            self.context.assume_each(rank, f, lambda k: f(k) >= least)
        return lambda k: f(term(k))

    def axes(self, name: str) -> Any:
        f = z3.Function(name, INT, TRUTH)
        return lambda k: f(term(k))

    def permutation(self, name: str, rank: Any) -> tuple[Any, Any]:
        p, q = z3.Function(name, INT, INT), z3.Function(f"{name}_inverse", INT, INT)
        self.context.permutation(lambda k: p(term(k)), lambda k: q(term(k)), rank)
        return self.context.permutations[-1]

    def tensor(self, name: str, rank: Any, dim: Any = None, **more: Any) -> Tensor:
        dim = dim or self.per_axis(f"n_{name}", rank, 0)
        return Tensor(rank, dim, lambda i: Element(name, rank, i, **more), name)

    def family(self, name: str, count: Any, rank: Any) -> Family:
        sizes = z3.Function(f"n_{name}", INT, INT, INT)
        j, k = z3.Ints("j k")
        self.assume(z3.ForAll([j, k], sizes(j, k) >= 0, patterns=[sizes(j, k)]))
        return Family(
            count,
            rank,
            lambda j, k: sizes(term(j), term(k)),
            lambda j, i: Element(name, rank, i, member=j),
        )


def number(name: str) -> Scalar:
    """An element of a tensor without axes."""
    return Element(name, 0, lambda k: 0)


def vector(name: str) -> Callable[..., Scalar]:
    """The elements of a tensor, by their positions."""
    return lambda *at: Element(name, len(at), shape(*at))


def total(size: Any, body: Callable[[Any], Scalar], kind: str = "sum") -> Scalar:
    return Red(kind, size, body)


def op(name: str) -> Callable[..., Scalar]:
    return lambda *args: Op(name, *args)


def over_axes(t: Tensor, axes: Any, kind: str) -> Tensor:
    """A reduction over a set of axes, which keep size 1."""

    def at(i: Any) -> Scalar:
        def body(s: Any) -> Scalar:
            return t.at(lambda k: choose(axes(k), s(k), i(k)))

        return Red(kind, t.dim, body, vec=True, rank=t.rank, sel=axes)

    return Tensor(t.rank, lambda k: choose(axes(k), 1, t.dim(k)), at)


def moved(t: Tensor, p: Any, inverse: Any) -> Tensor:
    """Transpose: axis k of the result is axis p(k)."""
    return Tensor(
        t.rank, lambda k: t.dim(p(k)), lambda i: t.at(lambda k: i(inverse(k)))
    )


def applied(name: str, t: Tensor) -> Tensor:
    return Tensor(t.rank, t.dim, lambda i: Op(name, t.at(i)))


def as_tensor(x: Any) -> Any:
    return Tensor(0, lambda k: 1, lambda i: x) if isinstance(x, Scalar) else x


def ask(build: Build, levels: tuple[str, ...] = LEVELS) -> Verdict:
    world = World()
    left, right = build(world)
    return prove_equal(as_tensor(left), as_tensor(right), world.context, levels)


a, b, c, x, y, z, w = (number(name) for name in "abcxyzw")
A, B, X, Y = (vector(name) for name in "ABXY")
s, t = Symbol("s"), Symbol("t")
exp, log, sqrt, relu, sigma = (op(n) for n in "exp log sqrt relu sigma".split())
larger, less, where = op("max"), op("less"), op("where")
