"""Rotary position embeddings, as a call: q = apply_rotary(q, cos, sin)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from ...analysis.shapes.infer import ShapeFacts
from ...analysis.spelling.expr import (
    Expr,
    HelperRef,
    Leaf,
    Ref,
    leaves,
    render,
    substitute,
)
from ..ir.assignment import Assignment
from .combine import axis_of, does, size_of, without

# What may stand between a cosine and the product with it, whose name it shares.
_MOVES = frozenset(
    "Cast Expand Gather Reshape Slice Squeeze Transpose Unsqueeze".split()
)
# Neighbours x1, x2 in the last axis that became -x2, x1, and the operators of that.
_EVERY_OTHER = r"x\[(?:\.\.\.|:(?:, :)*), {}::2\]"
_PAIRS = re.compile(
    rf"torch\.cat\(\[\(-{_EVERY_OTHER.format(1)}\)\.unsqueeze\(-1\), "
    rf"{_EVERY_OTHER.format('')}\.unsqueeze\(-1\)\], dim=-1\)\.(flatten|reshape)\(.*\)"
)
_OF_PAIRS = ("Reshape", "Concat", "Unsqueeze", "Unsqueeze", "Neg", "Slice", "Slice")


@dataclass
class _Turned:
    """What is made of `x` before it is multiplied by the sines, and how."""

    x: ir.Value
    interleaved: bool
    steps: list[Assignment]


def _helper(turned: _Turned) -> Callable[..., Any]:
    from ...analysis.ops.helpers import rotary as helpers_rotary  # which loads PyTorch

    if turned.interleaved:
        return helpers_rotary.apply_interleaved_rotary
    return helpers_rotary.apply_rotary


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
        self.uses = Counter(value for step in steps for value in step.reads())
        self.uses.update(results)
        self.makers = {out: step for step in steps for out in step.outputs}

    def run(self, named_alone: bool) -> list[Assignment]:
        """`named_alone`: only the angles are given their names."""
        gone: dict[Assignment, Assignment] = {}
        for step in self.steps:
            for first, second in self.operands(step, "Add", "Mul"):
                found = self.rotation(first, second)
                if found is None:
                    continue
                turned, cos, sin = found
                self.name(cos, "cos")
                self.name(sin, "sin")
                if named_alone:
                    break
                call = HelperRef(_helper(turned))
                step.expr = call(Ref(turned.x), Ref(cos), Ref(sin))
                parts = [first, second, *turned.steps]
                gone.update(dict.fromkeys(parts, step))
                break
        return without(self.steps, gone)

    def name(self, value: ir.Value, word: str) -> None:
        """Call a value so, what it comes from, and the angles that it is of."""
        value.meta.setdefault("word", word)
        step = self.makers.get(value)
        while step is not None and (does(step, *_MOVES) or does(step, "Cos", "Sin")):
            word = "angles" if does(step, "Cos", "Sin") else word
            value = step.reads()[0]
            value.meta.setdefault("word", word)
            step = self.makers.get(value)
        if step is not None and word == "angles" and does(step, "Concat"):
            for half in step.reads():
                half.meta.setdefault("word", word)

    def operands(
        self, step: Assignment, op: str, of: str
    ) -> Iterator[tuple[Assignment, Assignment]]:
        """The makers of what a step joins, in both orders, if they are these."""
        made = [self.only(v, of) for v in step.reads()] if does(step, op) else []
        if len(made) == 2 and made[0] is not None and made[1] is not None:
            yield made[0], made[1]
            yield made[1], made[0]

    def only(self, value: ir.Value, *ops: str) -> Assignment | None:
        """The step that makes a value, if it does one of these for one reader."""
        step = self.makers.get(value)
        found = step is not None and does(step, *ops)
        return step if found and self.uses[value] == 1 else None

    def rotation(
        self, first: Assignment, second: Assignment
    ) -> tuple[_Turned, ir.Value, ir.Value] | None:
        """What is turned, cos and sin of x * cos + turned(x) * sin."""
        for value in second.reads():
            turned = self.halves(value) or self.pairs(value)
            if turned is None or turned.x not in first.reads():
                continue
            cos = [v for v in first.reads() if v is not turned.x]
            sin = [v for v in second.reads() if v is not value]
            if len(cos) == len(sin) == 1:
                return turned, cos[0], sin[0]
        return None

    def halves(self, value: ir.Value) -> _Turned | None:
        """Concat(-x2, x1), where x1 and x2 are the halves of x."""
        join = self.only(value, "Concat")
        if join is None or len(join.reads()) != 2:
            return None
        negated, first = join.reads()
        negation, split = self.only(negated, "Neg"), self.only(first, "Split")
        if negation is None or split is None:
            return None
        (second,), (x,) = negation.reads(), split.reads()
        dims, part = self.shapes.dims(x) or (), self.shapes.dims(first) or ()
        last = len(dims) - 1
        axes = {axis_of(step, len(dims)) for step in (join, split)} if dims else ()
        if axes != {last} or not 2 * size_of(part, last) == size_of(dims, last) > 0:
            return None
        if split.outputs != (first, second) or self.uses[second] > 1:
            return None
        return _Turned(x, False, [join, negation, split])

    def pairs(self, value: ir.Value) -> _Turned | None:
        """What _PAIRS says, laid out as x is."""
        parts: list[Assignment] = []

        def inlined(leaf: Leaf) -> Expr | None:
            made = self.only(leaf.value, *_OF_PAIRS) if isinstance(leaf, Ref) else None
            if made is None or len(parts) > len(_OF_PAIRS):
                return None
            parts.append(made)
            return substitute(made.expr, inlined)

        whole = substitute(Ref(value), inlined)
        sources = {leaf.value for leaf in leaves(whole) if isinstance(leaf, Ref)}
        text = render(whole, lambda leaf: "x" if isinstance(leaf, Ref) else "n")
        if len(sources) != 1 or not _PAIRS.fullmatch(text):
            return None
        (x,) = sources
        same = self.shapes.dims(x) == self.shapes.dims(value)
        return _Turned(x, True, parts) if same else None
