"""Do nodes compute the same after an application as before it?

Both are evaluated at a few places, for drawn elements: exactly, in the element types
that stand there. That shows no law, but a wrong one gives itself away. A value that
neither side computes from others stands for any tensor of its sizes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
import sympy

from ...analysis.graph.dims import Dim, Dims, plain
from . import definitions, layers, sums  # noqa: F401  they enter operators
from .elementwise import BINARY, UNARY, equal
from .operators import OPERATORS, apply
from .places import INT64, Kind, Tensor, Undefined, Unknown, drawn, stored

ANCESTORS = 300  # nodes above a result that are remembered
DRAWS = 6
ENOUGH = 2  # where all elements are floats, which know no extremes
PLACES = 3  # of a result that are compared in each draw
EXACT, ROUNDED = 1e-25, 2e-5  # relative differences

# What stands for any tensor even where it is known how it is computed.
_LAYERS = frozenset(
    "Attention BatchNormalization Conv ConvTranspose Einsum Gather Gemm MatMul Softmax"
    " LayerNormalization RMSNormalization".split()
)

DimsOf: TypeAlias = Callable[[ir.Value], Dims | None]
ContentOf: TypeAlias = Callable[[ir.Value], Any]


@dataclass(frozen=True)
class Step:
    """A node as it was: its operator, inputs, outputs and attributes."""

    name: str
    op: str
    inputs: tuple[ir.Value | None, ...]
    outputs: tuple[ir.Value, ...]
    attributes: dict[str, Any]


def _above(values: Iterable[ir.Value]) -> dict[ir.Value, Step]:
    """How values are computed: the nodes above them, the nearest first."""
    found, todo = dict[ir.Value, Step](), list(values)
    for _ in range(ANCESTORS):
        if not todo:
            break
        node = todo.pop(0).producer()
        if node is None or node.outputs[0] in found:
            continue
        step = _step(node)
        found.update(dict.fromkeys(step.outputs, step))
        todo += [x for x in step.inputs if x is not None]
    return found


def _step(node: ir.Node) -> Step:
    op = node.op_type if not node.domain else f"{node.domain}.{node.op_type}"
    attributes = {name: a.value for name, a in node.attributes.items()}
    return Step(
        node.name or "", op, tuple(node.inputs), tuple(node.outputs), attributes
    )


@dataclass
class Difference(Exception):
    """Where the two sides differ."""

    text: str

    def __str__(self) -> str:
        return self.text


class Sides:
    """A result as it was computed, and as it is now.

    `named` are the nodes that the certificate names; what they read stands for any
    tensor.
    """

    def __init__(
        self,
        results: Sequence[ir.Value],
        named: Collection[str],
        sizes: DimsOf,
        content: ContentOf,
    ) -> None:
        self.results, self._sizes, self._content = list(results), sizes, content
        self.before = _above(results)
        own = {x: s for x, s in self.before.items() if s.name in set(named)}
        read = [x for step in own.values() for x in step.inputs if x is not None]
        self.read = {x for x in read if x not in own}
        heavy = (x for x, s in self.before.items() if s.op in _LAYERS)
        self.far = {x for x in heavy if x not in own}
        self._dims = {x: sizes(x) for x in (*self.before, *self.read, *results)}
        self._known = {x: content(x) for x in self._dims}

    def check(self, now: Sequence[ir.Value], rounded: bool) -> bool:
        """Compare with what stands for the results now.

        Returns False if nothing could be compared; raises Difference.
        """
        after = _above(now)
        for x in after:
            self._dims.setdefault(x, self._sizes(x))
            self._known.setdefault(x, self._content(x))
        compared = 0
        for draw in range(DRAWS):
            try:
                compared += self._compare(now, after, draw, self.read, rounded)
            except Difference:
                # What is read may be known: a mask, the places of a range.
                compared += self._compare(now, after, draw, self.far, rounded)
            if compared == ENOUGH and self._of_floats():
                break
        return compared > 0

    def _of_floats(self) -> bool:
        """Whether whole numbers, with their extremes, have no part in it."""
        types = [x.dtype for x in (*self.read, *self.results)]
        return all(t is not None and t.is_floating_point() for t in types)

    def _compare(
        self,
        now: Sequence[ir.Value],
        after: Mapping[ir.Value, Step],
        draw: int,
        leaves: Collection[ir.Value],
        rounded: bool,
    ) -> bool:
        numbers = _Numbers(draw)
        left = _Values(self, self.before, leaves, numbers)
        right = _Values(self, after, leaves, numbers)
        for old, new in zip(self.results, now, strict=True):
            try:
                before = left.tensor(old)
                was, places = _sampled(before, draw)
            except (Undefined, Unknown):
                return False
            try:
                found = right.tensor(new)
                if found.shape != before.shape:
                    raise Difference(f"{old.name} is {before.shape}, now {found.shape}")
                if found.kind != before.kind:
                    raise Difference(f"{old.name} has another element type now")
                values = list(found.at(places, (len(was),))) if was else []
            except Undefined as reason:
                raise Difference(f"{old.name} is undefined now: {reason}") from None
            except Unknown:
                return False
            tolerance = ROUNDED if rounded else EXACT
            for a, b in zip(was, values, strict=True):
                if not equal(a, b, tolerance):
                    raise Difference(f"{old.name} is {_shown(a)}, now {_shown(b)}")
        return True


def _shown(x: Any) -> str:
    return str(x) if isinstance(x, bool | int) else f"{float(x):.9g}"


def _sampled(t: Tensor, draw: int) -> tuple[list[Any], list[np.ndarray]]:
    """Some elements, and where they stand."""
    if not t.size:
        return [], []
    random = np.random.default_rng(draw)
    numbers = np.unique(random.integers(0, t.size, PLACES))
    places = t.unraveled(numbers)
    shape = numbers.shape if places else (1,)
    return list(t.at(places, shape)), places


class _Numbers:
    """What sizes that a run tells are, in one draw."""

    def __init__(self, draw: int) -> None:
        self.draw = draw
        self._sizes: dict[sympy.Symbol, int] = {}

    def size(self, n: Dim) -> int:
        n = plain(n)
        if isinstance(n, int):
            return n
        for symbol in sorted(n.free_symbols, key=str):
            place = zlib.crc32(str(symbol).encode()) + self.draw
            self._sizes.setdefault(symbol, (2, 3, 4, 5)[place % 4])
        found = n.subs(self._sizes)
        if not found.is_Integer or found < 0:
            raise Unknown(f"the size {n}")
        return int(found)


class _Values:
    """The tensors that the values of one side are, in one draw."""

    def __init__(
        self,
        sides: Sides,
        computed: Mapping[ir.Value, Step],
        leaves: Collection[ir.Value],
        numbers: _Numbers,
    ) -> None:
        self._sides, self._steps, self._leaves = sides, computed, leaves
        self._numbers = numbers
        self._made: dict[ir.Value, Tensor] = {}

    def tensor(self, value: ir.Value) -> Tensor:
        """What a value is."""
        if value not in self._made:
            step = self._steps.get(value)
            if value.const_value is not None:
                array = value.const_value.numpy()
                self._made[value] = stored(array, Kind.of(value.const_value.dtype))
            elif value in self._leaves or step is None:
                self._made[value] = self._leaf(value)
            elif not _is_known(step.op):
                if value in self._sides.results:
                    raise Unknown(f"the operator {step.op}")
                self._made[value] = self._leaf(value)
            else:
                inputs = [None if x is None else self.tensor(x) for x in step.inputs]
                self._shaped(step, inputs)
                found = apply(step.op, inputs, step.attributes, len(step.outputs))
                self._made.update(zip(step.outputs, found, strict=False))
        return self._made[value]

    def _leaf(self, value: ir.Value) -> Tensor:
        """Any tensor of these sizes; small ones of whole numbers may be known."""
        content = self._sides._known.get(value)
        if content is not None:
            listed = [self._numbers.size(n) for n in content.flat]
            return stored(np.array(listed, np.int64).reshape(content.shape), INT64)
        dims = self._sides._dims.get(value)
        if dims is None or value.dtype is None:
            raise Unknown(f"the sizes or the type of {value.name}")
        shape = [self._numbers.size(n) for n in dims]
        name = zlib.crc32((value.name or "").encode())
        return drawn(Kind.of(value.dtype), shape, name, self._numbers.draw)

    def _shaped(self, step: Step, inputs: list[Any]) -> None:
        """A target shape that is read from elsewhere is the one that comes out."""
        if step.op not in ("Reshape", "Expand") or step.inputs[1] not in self._leaves:
            return
        dims = self._sides._dims.get(step.outputs[0])
        if dims is not None:
            sizes = [self._numbers.size(n) for n in dims]
            inputs[1] = stored(np.array(sizes, np.int64), INT64)


def _is_known(op: str) -> bool:
    return op in UNARY or op in BINARY or op in OPERATORS
