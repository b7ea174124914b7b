"""Rotary position embeddings, as a call: q = apply_rotary(q, cos, sin)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, product
from typing import Any, TypeAlias

import onnx_ir as ir

from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.ops.helpers import rotary
from ...analysis.ops.registry import ONE_TO_MANY, REORGANIZE, SHUFFLE, lookup
from ...analysis.spelling.expr import (
    Attribute,
    Call,
    Expr,
    HelperRef,
    Leaf,
    Printing,
    Ref,
    Subscript,
    Unary,
    callee,
    leaves,
    nodes,
    same,
    substitute,
)
from ..ir.assignment import Assignment
from .combine import Flow, axis_of, does, is_binary, size_of, without

_T = Printing()
# Two slices, one of them negated, two new axes, the join and its flattening.
_STEPS_OF_PAIRS = 7
_MOVES = (REORGANIZE, SHUFFLE, ONE_TO_MANY)
_RESHAPES = frozenset({".flatten", ".reshape", ".unflatten"})


def moves(step: Assignment) -> bool:
    """Whether a step may stand between a cosine and the product with it."""
    op = lookup(step.node) if step.node is not None else None
    return (op is not None and op.mapping in _MOVES) or does(step, "Cast", "Slice")


@dataclass
class _Turned:
    """What is made of `x` before it is multiplied by the sines, and by which helper."""

    x: ir.Value
    helper: Callable[..., Any]
    steps: list[Assignment]


def _angles(step: Assignment) -> Iterator[tuple[str, ir.Value]]:
    """What helpers take as the cosines and sines, or as tables of them."""
    for node in nodes(step.expr):
        both: Sequence[Expr] = ()
        match node:
            case Call((HelperRef() as helper, _, cos, sin, *_), _) if (
                "rotary" in helper.function.__name__
            ):
                both = cos, sin
            case Call((_, *given), keywords) if "rotary" in keywords:
                options = dict(zip(keywords[::-1], given[::-1], strict=False))
                both = options["rotary"].operands
        for word, x in zip(("cos", "sin"), both, strict=False):
            while isinstance(x, Subscript):
                x = x.operands[0]
            if isinstance(x, Ref):
                yield word, x.value


_Rotation: TypeAlias = tuple[_Turned, ir.Value, ir.Value]  # and cosines, and sines


class Rotations:
    """`x * cos + turned(x) * sin`: rotary position embeddings.

    No rule of rewrites makes an operator of them. ONNX's RotaryEmbedding takes angles
    of every batch, and one for two elements; files have them once for all batches and
    twice for the elements, so that they would be repeated and cut. The helpers do what
    the file does, operator by operator.
    """

    def __init__(
        self, steps: list[Assignment], shapes: ShapeFacts, results: set[ir.Value]
    ) -> None:
        self.steps, self.shapes = steps, shapes
        self.flow = Flow(steps, results)
        self.only = self.flow.only

    def run(self, named_alone: bool) -> list[Assignment]:
        """`named_alone`: only the angles are given their names."""
        gone: dict[Assignment, Assignment] = {}
        for step in self.steps:
            for word, value in _angles(step):
                self.name(value, word)
            found = self.turned_halves(step) or next(self.rotations(step), None)
            if found is None:
                continue
            turned, cos, sin = found
            self.name(cos, "cos")
            self.name(sin, "sin")
            if turned.steps and not named_alone:
                step.expr = HelperRef(turned.helper)(Ref(turned.x), Ref(cos), Ref(sin))
                gone.update(dict.fromkeys(turned.steps, step))
        return without(self.steps, gone)

    def name(self, value: ir.Value, word: str) -> None:
        """Call a value so, what it comes from, and the angles that it is of."""
        value.meta.setdefault("word", word)
        step = self.flow.makers.get(value)
        while step and (moves(step) or does(step, "Cos", "Sin")):
            word = "angles" if does(step, "Cos", "Sin") else word
            value = step.reads()[0]
            value.meta.setdefault("word", word)
            step = self.flow.makers.get(value)
        halves = [value]
        if step is not None and word == "angles" and does(step, "Concat"):
            halves = step.reads()
            for half in halves:
                half.meta.setdefault("word", word)
        step = self.flow.makers.get(self.seen(halves[0])[-1])
        if step is not None and word == "angles" and does(step, "MatMul", "Mul"):
            for views in map(self.seen, step.reads()):
                for view in views if views[-1].is_initializer() else ():
                    view.meta.setdefault("word", "inv_freq")

    def seen(self, value: ir.Value) -> list[ir.Value]:
        """A value, and what it is a view of, that one last."""
        found = [value]
        while (step := self.flow.makers.get(found[-1])) is not None and moves(step):
            found.append(step.reads()[0])
        return found

    def products(
        self, step: Assignment, label: str
    ) -> Iterator[tuple[Assignment, Assignment]]:
        """The makers of what a step joins, in both orders, if they are products."""
        made = [self.only(v) for v in step.reads()] if is_binary(step, label) else []
        first, second = made if len(made) == 2 else (None, None)
        if first and second and is_binary(first, "*") and is_binary(second, "*"):
            yield first, second
            yield second, first

    def rotations(self, step: Assignment) -> Iterator[_Rotation]:
        """What is turned, cos and sin of x * cos + turned(x) * sin."""
        for first, second in self.products(step, "+"):
            for value in second.reads():
                turned = self.halves(value) or self.apart(value) or self.pairs(value)
                if turned is None or turned.x not in first.reads():
                    continue
                cos = [v for v in first.reads() if v is not turned.x]
                sin = [v for v in second.reads() if v is not value]
                if len(cos) == len(sin) == 1:
                    turned.steps += first, second
                    yield turned, cos[0], sin[0]

    def turned_halves(self, step: Assignment) -> _Rotation | None:
        """The same of Concat(a cos - b sin, b cos + a sin), a and b the halves of x; of
        others, whatever stands beside, without steps."""
        parts = step.reads() if does(step, "Concat") else []
        for less, more in pairwise(map(self.only, parts)):
            if less is None or more is None:
                continue
            less_of = islice(self.products(less, "-"), 1)
            for (first, second), third in product(less_of, self.products(more, "+")):
                pairs = product(first.reads(), second.reads())
                for a, b in pairs:
                    cos, sin = _factor(first, a), _factor(second, b)
                    both = _factor(third[0], b), _factor(third[1], a)
                    if cos is None or sin is None or both != (cos, sin):
                        continue
                    split, x = self.flow.maker(a, "Split"), a
                    steps = list[Assignment]()
                    halves = split and split.outputs == (a, b) and len(parts) == 2
                    if split and halves and self.in_halves(split, step, 2):
                        x = split.reads()[0]
                        steps = [split, less, more, first, second, *third]
                    return _Turned(x, rotary.apply_half_rotary, steps), cos, sin
        return None

    def apart(self, value: ir.Value) -> _Turned | None:
        """Neighbours that an axis of their own takes apart, turned there."""
        joined = self.only(value)
        turned = self.halves(joined.reads()[0]) if joined and joined.reads() else None
        parted = self.only(turned.x) if turned else None
        if joined is None or turned is None or parted is None:
            return None
        if not {callee(joined.expr), callee(parted.expr)} <= _RESHAPES:
            return None
        x, (*before, _, two) = parted.reads()[0], self.shapes.dims(turned.x) or (0, 0)
        dims = self.shapes.dims(x)
        if not dims or [*dims[:-1], 2] != [*before, two]:
            return None
        helper = rotary.apply_interleaved_rotary
        found = _Turned(x, helper, [*turned.steps, joined, parted])
        return found if self.shapes.dims(value) == dims else None

    def halves(self, value: ir.Value) -> _Turned | None:
        """Concat(-x2, x1), where x1 and x2 are the halves of x."""
        join = self.only(value, "Concat")
        if join is None or len(join.reads()) != 2:
            return None
        negated, first = join.reads()
        negation, split = self.only(negated), self.only(first, "Split")
        match negation.expr if negation else None:
            case Unary((Ref() as negative,), "-") if negation and split:
                second, (x,) = negative.value, split.reads()
            case _:
                return None
        if split.outputs != (first, second) or not self.in_halves(split, join):
            return None
        return _Turned(x, rotary.apply_rotary, [join, negation, split])

    def in_halves(self, split: Assignment, join: Assignment, reads: int = 1) -> bool:
        """Whether the last axis is parted into two, read so often, and joined."""
        x, parts = split.reads()[0], [v for v in split.outputs if v is not None]
        dims = self.shapes.dims(x)
        if not dims or len(parts) != 2:
            return False
        last = len(dims) - 1
        sizes = {2 * size_of(self.shapes.dims(part) or (0,), -1) for part in parts}
        axes = {axis_of(step, len(dims)) for step in (join, split)}
        often = {self.flow.uses[part] for part in parts}
        return axes == {last} and often == {reads} and sizes == {size_of(dims, last)}

    def pairs(self, value: ir.Value) -> _Turned | None:
        """Neighbours x1, x2 in the last axis as -x2, x1, laid out as x is."""
        parts: list[Assignment] = []

        def inlined(leaf: Leaf) -> Expr | None:
            made = self.only(leaf.value) if isinstance(leaf, Ref) else None
            if made is None or len(parts) == _STEPS_OF_PAIRS:
                return None
            parts.append(made)
            return substitute(made.expr, inlined)

        match substitute(Ref(value), inlined):
            case Call((Attribute((turned,), "flatten" | "reshape"), *_)):
                sources = {x.value for x in leaves(turned) if isinstance(x, Ref)}
            case _:
                return None
        (x,) = sources if len(sources) == 1 else (value,)
        dims = self.shapes.dims(x) or ()
        places: tuple[tuple[object, ...], ...] = (...,), (slice(None),) * len(dims[1:])
        found = any(same(turned, _negated(Ref(x), before)) for before in places)
        alike = dims == self.shapes.dims(value)
        helper = rotary.apply_interleaved_rotary
        return _Turned(x, helper, parts) if found and alike else None


def _factor(product: Assignment, of: ir.Value | None) -> ir.Value | None:
    """What a value is multiplied by."""
    others = [v for v in product.reads() if v is not of]
    return others[0] if len(others) == 1 else None


def _negated(x: Ref, before: tuple[object, ...]) -> Expr:
    """The neighbours, before they are flattened; `before` are the places before."""
    odd, even = ((*before, slice(first, None, 2)) for first in (1, None))
    return _T.cat([(-x[odd]).unsqueeze(-1), x[even].unsqueeze(-1)], dim=-1)
