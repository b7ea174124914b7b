"""A plan and its certificate, once more: nothing of the search or the emitter is here.

Each operator that the certificate names is evaluated in exact arithmetic at a few
places, on the whole of its inputs and on the parts that it is said to take: these have
to give the parts that it is said to give. Between operators, a value has to be cut
where it is taken as it was where it was given, or an exchange has to stand there; what
no claim is made of takes whole values. Last, parallel.py has to be what the certificate
speaks of: layers, bytes, numbers of exchanges, stages (check_package.py).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from math import prod
from typing import Any, NoReturn

import numpy as np
import onnx_ir as ir
import sympy

from ...analysis.errors import FairhandError
from ...analysis.graph.dims import plain
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.shapes.index_functions import Places as Elements
from ...rewrites.second_opinion import definitions, layers, sums  # noqa: F401
from ...rewrites.second_opinion.elementwise import BINARY, equal
from ...rewrites.second_opinion.operators import apply, pointwise
from ...rewrites.second_opinion.places import (
    INT64,
    Kind,
    Places,
    Tensor,
    Undefined,
    Unknown,
    mp,
    objects,
    stored,
)

DRAWS, PLACES = 2, 3
TOLERANCE = 1e-25
ROWS = 2  # that each device has of a batch
MOST = 8  # devices: laws of more are evaluated for 2
# Axis, pieces (or their sizes in proportion), component that counts places.
Cutting = tuple[int, int | tuple[int, ...], int | None]


@dataclass(frozen=True)
class Claim:
    """How a node is said to be cut: a word, a Cutting or None for each value."""

    given: tuple[Any, ...]
    made: tuple[Any, ...]


def read_pieces(found: Any) -> Any:
    """Pieces as a Cutting has them, of what JSON has."""
    return tuple(found) if isinstance(found, list) else found


def _read(entry: Any) -> Claim:
    def one(x: Any) -> Any:
        if isinstance(x, int):
            return (x, 1, None)
        return tuple([*map(read_pieces, x), None][:3]) if isinstance(x, list) else x

    given, made = (tuple(map(one, side)) for side in entry)
    words = {x for x in given if isinstance(x, str)} - {"once", "sizes", "words"}
    words |= {x for x in made if isinstance(x, str)} - {"sum"}
    if words:
        refuse(f"{min(words)!r} is no way to be cut")
    return Claim(given, made)


class ClaimedCuts:
    """The claims of one way to cut: over `degree` devices, of layers, or of rows where
    `rows` are the sizes of a batch."""

    def __init__(
        self,
        graph: ir.Graph,
        shapes: ShapeFacts,
        degree: int,
        rows: frozenset[sympy.Symbol],
        known: dict[Any, bool],
    ) -> None:
        self.graph, self.shapes, self.rows = graph, shapes, rows
        self.degree = degree if degree <= MOST else 2
        self.wanted = degree
        self.known = known  # claims that were evaluated, by all that they hang on
        self.compared = self.alone = 0  # claims, and those with no arithmetic here
        self.held: dict[ir.Value, Cutting] = {}  # how constants are cut
        self.equal = _equal_sizes(graph, shapes, rows)
        self.elements = Elements(shapes)

    def check(
        self,
        claims: Mapping[str, Any],
        exchanges: Mapping[str, str],
        parts: Mapping[str, int],
    ) -> None:
        """Raises FairhandError for the first operator that is not as is claimed;
        `parts` are the axes of inputs and results of the network that are cut."""
        ends = {value: 0 for value in self.graph.inputs if self.rows}
        for value in (*self.graph.inputs, *self.graph.outputs):
            if (name := value.name or "") in parts:
                ends[value] = parts[name]
        cut: dict[ir.Value, Any] = {
            v: (axis, 1, None) for v, axis in ends.items() if v.is_graph_input()
        }
        left, exchanged = dict(claims), dict(exchanges)
        lost: set[ir.Value] = set()
        whole = {x for x in self.graph.initializers.values()}
        for node in self.graph:
            name = node.outputs[0].name or ""
            entry = left.pop(name, None)
            if entry is None:
                bad = any(v in cut or v in lost for v in node.inputs)
                sizes = [n for v in node.outputs for n in self.shapes.dims(v) or ()]
                sized = all(self.shapes.content(v) is not None for v in node.outputs)
                if (bad or self._hang(sizes)) and not sized:
                    lost |= set(node.outputs)
                continue
            claim = _read(entry)
            self._taken(node, claim, cut, lost, whole)
            self._evaluate(node, claim)
            for value, place in zip(node.outputs, claim.made, strict=True):
                exchange = exchanged.pop(value.name or "", None)
                if place == "sum" or exchange:
                    if exchange != ("sum" if place == "sum" else "gather"):
                        refuse(f"{value.name} is {place}, exchanged by {exchange}")
                elif place is not None:
                    cut[value] = place
        if left or exchanged:
            name = next(iter([*left, *exchanged]))
            refuse(f"claims are made of {name}, which isn't there")
        for value in self.graph.outputs:
            place = cut.get(value)
            if value in lost or (place and place[1:] != (1, None)):
                refuse(f"the output {value.name} is not whole")
            content = self.shapes.content(value)
            if content is not None and self._hang(content.flat):
                refuse(f"the output {value.name} is no result for each row")
            wanted = ends.get(value)
            known = wanted is not None or not self.rows
            if known and (place and place[0]) != wanted:
                refuse(f"the output {value.name} is {place}, not {wanted}")

    def _hang(self, numbers: Iterable[Any]) -> bool:
        return any(
            not isinstance(n, int) and n.free_symbols & self.rows for n in numbers
        )

    def _taken(
        self,
        node: ir.Node,
        claim: Claim,
        cut: Mapping[ir.Value, Any],
        lost: set[ir.Value],
        whole: set[ir.Value],
    ) -> None:
        if len(claim.given) > len(node.inputs) or len(claim.made) != len(node.outputs):
            refuse(f"{node.name} has other inputs or outputs")
        given = [*claim.given, *[None] * (len(node.inputs) - len(claim.given))]
        for value, place in zip(node.inputs, given, strict=True):
            if value is None:
                continue
            is_cut, was = isinstance(place, tuple), cut.get(value)
            if is_cut and not 0 <= place[0] < (self.shapes.rank(value) or 0):
                refuse(f"{value.name} has no axis {place[0]}")
            if is_cut and place[2] is not None and value in whole:
                refuse(f"{value.name} counts no places")
            is_float = value.dtype is not None and value.dtype.is_floating_point()
            if place == "once" and not (is_float and claim.made == ("sum",)):
                refuse(f"{node.name} doesn't add {value.name} up")
            if value in whole and (is_cut or value in self.held):
                if self.held.setdefault(value, place) != place:
                    refuse(f"{value.name} is cut in two ways")
            elif value in lost or (was and was != place):
                refuse(f"{node.name} takes {value.name} as {place}, not {was}")
            elif is_cut and not was and (self.rows or place[2] is not None):
                refuse(f"{node.name} takes a part of {value.name}, which is whole")

    # ---- by values

    def _evaluate(self, node: ir.Node, claim: Claim) -> None:
        dims = [None if v is None else self.shapes.dims(v) for v in node.inputs]
        content = [None if v is None else self._content(v) for v in node.inputs]
        attributes = {name: a.value for name, a in node.attributes.items()}
        key = repr(
            (
                self.degree,
                self.wanted,
                bool(self.rows),
                node.op_identifier(),
                attributes,
                dims,
                content,
                claim,
                [*map(self.step, node.inputs, claim.given)],
                [*map(self.step, node.outputs, claim.made)],
                [self.shapes.dims(v) for v in node.outputs],
                [v and v.dtype for v in node.inputs],
            )
        )
        if key not in self.known:
            try:
                tries = [_ClaimedNode(self, node, claim, i) for i in range(DRAWS)]
                self.known[key] = any([each.compare() for each in tries])
            except Unknown:
                self.known[key] = False
        self.compared += self.known[key]
        self.alone += not self.known[key]

    def is_same(self, node: ir.Node) -> bool:
        """Whether a node gives its first input, by values; False where there is no
        arithmetic for it."""
        whole = Claim((), (None,))
        try:
            return all(
                _ClaimedNode(self, node, whole, draw).keeps() for draw in range(DRAWS)
            )
        except (Unknown, Undefined, FairhandError):
            return False

    def _content(self, value: ir.Value) -> Any:
        if value.const_value is not None and value.const_value.size <= 64:
            return value.const_value.numpy().tolist()
        content = self.shapes.content(value)
        return None if content is None else content.tolist()

    def step(self, value: ir.Value | None, place: Any) -> Any:
        """By how much a value that counts rows grows from one to the next."""
        if value is None or not isinstance(place, tuple) or place[2] is None:
            return 1
        return self.elements.step(value, place[0], place[2])

    def number(self, size: Any, part: bool = False) -> int:
        """What an open size is: of a batch, that of a part, or of the whole."""
        size = plain(size)
        if isinstance(size, int):
            return size
        size = size.subs(self.equal)
        rows = ROWS if part else ROWS * self.degree
        values = {
            s: rows if s in self.rows else 2 + zlib.crc32(str(s).encode()) % 3
            for s in size.free_symbols
        }
        found = size.subs(values)
        if not found.is_Integer or found < 0:
            raise Unknown(f"the size {size}")
        return int(found)


class _ClaimedNode:
    """One node with drawn elements, whole and in parts."""

    def __init__(
        self, cuts: ClaimedCuts, node: ir.Node, claim: Claim, draw: int
    ) -> None:
        self.cuts, self.node, self.claim, self.draw = cuts, node, claim, draw
        self.attributes = {name: a.value for name, a in node.attributes.items()}
        self.name = f"{node.op_type} {node.name or node.outputs[0].name}"

    def compare(self) -> bool:
        """Whether it could be compared; raises FairhandError where parts differ."""
        given = [*self.claim.given, *[None] * len(self.node.inputs)]
        pairs = list(zip(self.node.inputs, given, strict=False))
        whole = [
            None if v is None else self._whole(v, p, i)
            for i, (v, p) in enumerate(pairs)
        ]
        if any(p == "sizes" for _, p in pairs):
            self._check_sizes(whole, pairs)
        n = self.cuts.degree
        try:
            results = self._apply(whole)
            # Where there is no arithmetic for the whole, nothing is compared.
            for t in results:
                t.at(t.unraveled(np.zeros(min(t.size, 1), np.int64)), (min(t.size, 1),))
        except Undefined:
            return False
        try:
            parts = [self._part(whole, pairs, results, rank) for rank in range(n)]
            return self._same(results, parts)
        except (Unknown, Undefined) as reason:
            if isinstance(reason, Undefined) and self.draw % 2 == 0:
                return False  # as the root of a number drawn below zero
            self._wrong(str(reason))

    def keeps(self) -> bool:
        """Whether the first result is the first input; raises FairhandError, Unknown or
        Undefined where that can't be said."""
        inputs = [
            None if v is None else self._whole(v, None, i)
            for i, v in enumerate(self.node.inputs)
        ]
        first, (made, *_) = inputs[0], self._apply(inputs)
        if first is None or made.shape != first.shape:
            return False
        return self._same([first], [[made]])

    def _apply(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        op = self.node.op_type
        if self.node.domain:
            raise Unknown(f"{self.node.domain}.{op}")
        return apply(op, list(inputs), dict(self.attributes), len(self.node.outputs))

    def _whole(self, value: ir.Value, place: Any, index: int) -> Tensor:
        if value.dtype is None:
            raise Unknown("no type")
        kind = Kind.of(value.dtype)
        counted = isinstance(place, tuple) and place[2] is not None
        known = None if counted else self._known(value, kind)
        if known is not None:
            return known
        dims = self.cuts.shapes.dims(value)
        if dims is None:
            raise Unknown("no sizes")
        shape = tuple(self.cuts.number(n) for n in dims)
        if not counted and value.const_value is not None and prod(shape) <= 64:
            return stored(value.const_value.numpy(), kind)
        found = self._drawn(kind, shape, index)
        step = self.cuts.number(self.cuts.step(value, place))
        return self._counted(found, place, step) if counted else found

    def _known(self, value: ir.Value, kind: Kind, part: bool = False) -> Tensor | None:
        """What is known by sizes, those of a part or of the whole."""
        content = self.cuts.shapes.content(value)
        if content is None:
            return None
        listed = [self.cuts.number(n, part) for n in content.flat]
        return stored(np.array(listed, np.int64).reshape(content.shape), kind)

    def _drawn(self, kind: Kind, shape: tuple[int, ...], index: int) -> Tensor:
        """Numbers that follow from the place; whole ones index the first input."""
        axis = self.attributes.get("axis", 0)
        first = self.node.inputs[0]
        dims = (self.cuts.shapes.dims(first) if first is not None else None) or (2,)
        axis = axis if isinstance(axis, int) and -len(dims) <= axis < len(dims) else 0
        limit = self.cuts.number(dims[axis])
        if "batch_dims" in self.attributes:
            limit = min(map(self.cuts.number, dims))
        seed = 7919 * index + 104729 * self.draw + 1

        def compute(places: Places) -> np.ndarray:
            numbers = np.zeros(np.shape(places[0]) if places else (1,), np.int64)
            for place, size in zip(places, shape, strict=True):
                numbers = numbers * size + place
            mixed = (numbers + seed) * 2654435761 % 4294967296
            mixed = (mixed ^ mixed >> 15) * 2246822519 % 4294967296 >> 7
            if kind.name == "bool":
                return objects([bool(n & 1) for n in mixed])
            if kind.whole:
                return objects([int(n) % max(limit, 1) for n in mixed])
            signed = self.draw % 2 == 0
            return objects(
                [
                    (mp.mpf(int(n) % 61 + 1) / (int(n) // 61 % 17 + 8))
                    * (-1 if signed and n // 4096 & 1 else 1)
                    for n in mixed
                ]
            )

        return Tensor(kind, shape, compute)

    def _counted(self, x: Tensor, place: Cutting, step: int) -> Tensor:
        """Places that each part counts from its own first, as the whole counts them:
        `step` of them for a row."""
        axis, _, component = place
        rows = x.shape[axis] // self.cuts.degree

        def compute(at: Places) -> np.ndarray:
            own = x.at(at) % (rows * step)
            here = component == -1 or at[-1] == component
            return np.where(here, own + at[axis] // rows * rows * step, x.at(at))

        return Tensor(x.kind, x.shape, compute)

    def _part(
        self,
        whole: Sequence[Tensor | None],
        pairs: Sequence[tuple[ir.Value | None, Any]],
        results: Sequence[Tensor],
        rank: int,
    ) -> list[Tensor]:
        inputs: list[Tensor | None] = []
        shapes = [
            self._cut_shape(t.shape, place)
            for t, place in zip(results, self.claim.made, strict=True)
        ]
        mask = None
        for x, (value, place) in zip(whole, pairs, strict=True):
            if x is not None and value is not None and place == "sizes":
                x = stored(np.array(self._listed(shapes), np.int64), INT64)
            elif x is not None and value is not None and place == "once":
                x = pointwise(lambda n: n * 0, [x], x.kind) if rank else x
            elif x is not None and place == "words":
                x, mask = self._words(x, whole[0], rank)
            elif x is not None and isinstance(place, tuple):
                x = self.cut(x, place, rank, self.cuts.step(value, place))
            elif x is not None and value is not None and self.cuts.rows:
                x = self._known(value, x.kind, True) or x
            inputs.append(x)
        found = self._apply(inputs)
        if mask is not None:
            found = [_masked(t, mask, inputs[1]) for t in found]
        for t, shape in zip(found, shapes, strict=True):
            if t.shape != shape:
                self._wrong(f"a part is {t.shape}, not {shape}")
        return found

    def _cut_shape(self, shape: tuple[int, ...], place: Any) -> tuple[int, ...]:
        if not isinstance(place, tuple):
            return shape
        axis, pieces, _ = place
        shares = _shares(pieces, shape[axis]) if 0 <= axis < len(shape) else ()
        count = sum(shares)
        if min(shares, default=0) < 1:
            self._wrong(f"there is no axis {axis} of {pieces} pieces")
        if shape[axis] % (count * self.cuts.degree):
            self._wrong(
                f"{shape[axis]} has no {pieces} pieces of {self.cuts.degree} parts"
            )
        if not self.cuts.rows and shape[axis] % (count * self.cuts.wanted):
            self._wrong(f"{shape[axis]} has no {self.cuts.wanted} parts")
        return (*shape[:axis], shape[axis] // self.cuts.degree, *shape[axis + 1 :])

    def cut(self, x: Tensor, place: Cutting, rank: int, each: Any = 1) -> Tensor:
        """What the device of this number has of a tensor, which counts `each` a row."""
        shape = self._cut_shape(x.shape, place)
        axis, pieces, component = place
        shares = np.array(_shares(pieces, x.shape[axis]))
        steps = shares * (shape[axis] // sum(shares))
        ends, count = np.cumsum(steps), self.cuts.degree
        number = self.cuts.number(each)

        def compute(at: Places) -> np.ndarray:
            moved = list(at)
            piece = np.searchsorted(ends, at[axis], "right")
            step = steps[piece]
            moved[axis] = at[axis] + (ends - steps)[piece] * (count - 1) + rank * step
            values = x.at(moved)
            if component is None:
                return values
            here = component == -1 or at[-1] == component
            return np.where(here, values - rank * step * number, values)

        return Tensor(x.kind, shape, compute)

    def _listed(self, shapes: Sequence[tuple[int, ...]]) -> list[int]:
        """What says the sizes of results: all of one, or along which they differ."""
        axis = self.attributes.get("axis", 0)
        if len(shapes) == 1:
            return list(shapes[0])
        return [shape[int(axis) % max(len(shape), 1)] for shape in shapes]

    def _check_sizes(
        self, whole: Sequence[Any], pairs: Sequence[tuple[Any, Any]]
    ) -> None:
        """An operand of sizes has those of the result, or leaves them to be found."""
        wanted = self._listed([t.shape for t in self._apply(whole)])
        for x, (_, place) in zip(whole, pairs, strict=True):
            if place == "sizes":
                found = [int(n) for n in x.all()]
                if len(found) != len(wanted) or any(
                    n not in (m, 0, -1) for n, m in zip(found, wanted, strict=True)
                ):
                    self._wrong(f"{found} are not the sizes of the result")

    def _words(self, x: Tensor, table: Any, rank: int) -> tuple[Tensor, Any]:
        """Indices into a device's own words, and which are there."""
        step = table.shape[0] // self.cuts.degree
        own = pointwise(lambda n: int(n) - rank * step, [x], x.kind)
        kept = pointwise(lambda n: min(max(int(n), 0), step - 1), [own], x.kind)
        return kept, pointwise(lambda n: 0 <= int(n) < step, [own], Kind("bool"))

    def _same(self, results: Sequence[Tensor], parts: Sequence[list[Tensor]]) -> bool:
        for k, (whole, place) in enumerate(zip(results, self.claim.made, strict=True)):
            own = [found[k] for found in parts]
            if not own[0].size:
                continue
            random = np.random.default_rng(self.draw)
            numbers = np.unique(random.integers(0, own[0].size, PLACES))
            at = own[0].unraveled(numbers)
            shape = numbers.shape if at else (1,)
            values = [list(t.at(at, shape)) for t in own]
            if place == "sum":
                values = [[sum(x) for x in zip(*values, strict=True)]]
            for rank, row in enumerate(values):
                cut = isinstance(place, tuple)
                each = self.cuts.step(self.node.outputs[k], place)
                expected = self.cut(whole, place, rank, each) if cut else whole
                wanted = list(expected.at(at, shape))
                if not all(
                    equal(a, b, TOLERANCE) for a, b in zip(row, wanted, strict=True)
                ):
                    self._wrong(f"part {rank} of result {k} differs")
        return True

    def _wrong(self, text: str) -> NoReturn:
        given, made = list(self.claim.given), list(self.claim.made)
        refuse(f"{self.name} is not cut as {given} -> {made}: {text}")


def _equal_sizes(
    graph: ir.Graph, shapes: ShapeFacts, rows: frozenset[sympy.Symbol]
) -> dict[sympy.Symbol, sympy.Expr]:
    """Open sizes that are taken for others, along which a node spreads both."""
    found: dict[sympy.Symbol, sympy.Expr] = {}
    for node in graph:
        dims = [shapes.dims(v) or () for v in node.inputs if v is not None]
        spread = node.op_type in BINARY or node.op_type == "Where"
        for sizes in zip_longest(*map(reversed, dims if spread else ()), fillvalue=1):
            for pair in pairwise(n for n in dict.fromkeys(sizes) if n != 1):
                a, b = (sympy.sympify(n).subs(found) for n in pair)
                if not (a.is_Symbol and a not in rows):
                    a, b = b, a
                if a.is_Symbol and a not in rows and a not in b.free_symbols:
                    found = {s: size.subs(a, b) for s, size in found.items()} | {a: b}
    return found


def _shares(pieces: int | tuple[int, ...], size: int) -> tuple[int, ...]:
    """The sizes of pieces in proportion; below 0, that of each of them is given."""
    if isinstance(pieces, tuple):
        return pieces
    return (1,) * (pieces if pieces >= 0 else size // -pieces)


def _masked(t: Tensor, mask: Tensor, indices: Any) -> Tensor:
    rest = t.rank - mask.rank

    def compute(at: Places) -> np.ndarray:
        kept = mask.at(list(at[: len(at) - rest]), np.shape(at[0]) if at else (1,))
        return np.where(kept.astype(bool), t.at(at), mp.mpf(0))

    return Tensor(t.kind, t.shape, compute)


def refuse(what: str) -> NoReturn:
    """Raises FairhandError for a plan that is not right."""
    raise FairhandError(f"the plan for several devices is wrong: {what}")
