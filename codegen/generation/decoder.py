"""What of a network is a decoder: tokens, logits, and the caches between its steps.

A cache is an input of which an output is the next: the one that is nearest to the
output in the graph and is of its type and rank. Where a size is open, it counts places
of tokens, and the output has those of this step behind the others; where none is, it is
a state. One that has as many places behind a step, which is told numbers of places, is
a buffer that is written there. Names decide between inputs that are equally near, and
where the graph can't tell: which integers are positions, and which output an encoder's
keys come from in a file whose branches are merged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from ...analysis.graph.dims import Dim
from ...analysis.graph.element_types import is_whole
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.graph.traversal import bodies
from ..verify.index_limits import index_limits, length_limits

ROWS, PLACES = "rows", "places"
_MOST_VALUES = 4000  # that are looked at behind one output


@dataclass(frozen=True)
class Cache:
    """An input and the output that is fed to it in the next step.

    `shape` has ROWS for the axis of a batch and PLACES for that of tokens, if any.
    """

    input: str
    output: str
    shape: tuple[int | str, ...]

    def of(self, old: int | str, new: int | str) -> Cache:
        """The same, where the axis of one size has another."""
        once = self.shape.count(old) == 1
        found = tuple(new if once and size == old else size for size in self.shape)
        return replace(self, shape=found)


@dataclass(frozen=True)
class Decoder:
    """The parts of a network's interface that generating has to know; "" for none."""

    ids: str
    logits: str
    mask: str
    positions: str
    branch: str  # whether there is a past, as merged files ask
    caches: tuple[Cache, ...]
    cross: tuple[Cache, ...]  # an encoder's: those of the first step stay; numbers
    # that are handed on, and that nothing reads
    given: tuple[str, ...]  # what else is fed, the same in every step
    vocabulary: int
    rows: int  # that the file fixes; 0 for any
    chunk: int  # tokens that a step may take; 0 for any
    most: int  # places that tables of positions have; 0 for any
    grows: bool  # whether each has a place more for each token, as far as is known
    written: int | None = None  # places of buffers that are written at some; 0: any
    at: tuple[str, ...] = ()  # numbers of places, the same for all rows
    # The axis of a state that may have any size.
    sized: Mapping[str, int] = field(default_factory=dict)


def find_decoder(
    graph: ir.Graph, shapes: ShapeFacts, sizes: Sequence[Mapping[str, int]]
) -> Decoder | None:
    """The decoder that a rewritten graph is; None if it has no tokens or no cache.

    `sizes` are those of dynamic_sizes: a dimension that never varies there is fixed.
    """
    inputs = [v for v in graph.inputs if v.name not in graph.initializers]
    tables = {v: rows for v in inputs if (rows := _table_rows(v, shapes))}
    parts = _ids_and_logits(tables, graph.outputs, shapes)
    if parts is None:
        return None
    ids, logits, vocabulary = parts
    fixed = {key: n for key, n in sizes[0].items() if all(s[key] == n for s in sizes)}
    reader = _Interface(shapes, ids, fixed if len(sizes) > 1 else {})
    others = [v for v in graph.outputs if v is not logits]
    pairs = reader.pairs([v for v in inputs if v is not ids], others)
    caches = reader.caches(pairs)
    if not caches or None in caches:
        return None
    rest = [v for v in inputs if v is not ids and v not in pairs]
    left = [v for v in others if v not in pairs.values()]
    crossing = {v: o for v in rest for o in left if _alike(v, o, shapes)}
    made = {v: [x for node in v.consumers() for x in node.outputs] for v in crossing}
    read = [v for v in crossing if not {*others}.issuperset(made[v])]
    crossing = {v: o for v, o in crossing.items() if v not in read or shapes.rank(v)}
    cross = reader.caches(crossing)
    mask, positions, branch, at = reader.roles([v for v in rest if v not in crossing])
    known = {mask, positions, branch, *at, *crossing}
    lengths, batch = (shapes.dims(logits) or ())[1:-1], reader.batch
    size = reader.length if isinstance(reader.length, int) else int(lengths == (1,))
    open_ = {str(n) for v in pairs for n in shapes.dims(v) or () if n != batch}
    # An index of one row, as of a batch, says nothing of places.
    tables_of_places = [
        *(size for value in (positions, *at) for size in _limits(value)),
        *(rows for size, rows in length_limits(graph).items() if size in open_),
    ]
    limits = [size for size in tables_of_places if size > 1]
    seen = shapes.dims(mask) or () if mask else ()
    told = [*limits, *seen[-1:]] if mask or positions or at else []
    stays, grows = reader.growth(pairs)
    settled, written, sized = _settled([*filter(None, caches)], stays, told, sizes[0])
    return Decoder(
        _name(ids),
        _name(logits),
        _name(mask),
        _name(positions),
        _name(branch),
        tuple(settled),
        tuple(c for c in cross if c),
        tuple(_name(v) for v in rest if v not in known),
        vocabulary,
        batch if isinstance(batch, int) else 0,
        size,
        min([*limits, written] if written else limits, default=0),
        grows,
        written,
        tuple(map(_name, at)),
        sized,
    )


def _settled(
    caches: list[Cache],
    stays: Mapping[str, str],
    told: Sequence[Dim],
    sizes: Mapping[str, int],
) -> tuple[list[Cache], int | None, dict[str, int]]:
    """Caches whose open sizes are places alone, and Decoder.written and .sized.

    `stays` are open sizes that a step doesn't change: of places, if it is told any.
    """
    grow = any(PLACES in c.shape and c.input not in stays for c in caches)
    known = [size for c in caches for size in c.shape if isinstance(size, int)]
    fixed = [0] if stays else [n for n in known if n in told]
    if told and fixed and not grow:
        return [c.of(fixed[0], PLACES) for c in caches], fixed[0], {}
    sized = {c.input: c.shape.index(PLACES) for c in caches if c.input in stays}
    each = (sizes.get(stays.get(c.input, ""), PLACES) for c in caches)
    settled = [c.of(PLACES, n) for c, n in zip(caches, each, strict=True)]
    return settled, None, sized


def _name(value: ir.Value | None) -> str:
    return (value.name or "") if value is not None else ""


def _table_rows(value: ir.Value, shapes: ShapeFacts) -> int:
    """The rows of the table that integers [rows, tokens] are looked up in, or 0."""
    looks_up = is_whole(value) and shapes.rank(value) == 2
    return max(_limits(value), default=0) if looks_up else 0


def _limits(value: ir.Value | None) -> list[int]:
    found = index_limits(value) if value is not None else []
    return [size - offset for offset, size in found if isinstance(size, int)]


def _ids_and_logits(
    tables: Mapping[ir.Value, int], outputs: Sequence[ir.Value], shapes: ShapeFacts
) -> tuple[ir.Value, ir.Value, int] | None:
    """Tokens, and the floats that there are as many of as of tokens."""
    last = {v: dims[-1] for v in outputs if (dims := shapes.dims(v))}
    scores = {
        v: size for v, size in last.items() if v.dtype and v.dtype.is_floating_point()
    }
    by_name = sorted(scores, key=lambda v: "logits" not in (v.name or ""))
    for ids in sorted(tables, key=lambda v: "input_ids" not in (v.name or "")):
        for logits in by_name:
            if scores[logits] == tables[ids] and shapes.rank(logits) in (2, 3):
                return ids, logits, tables[ids]
    named = [v for v in by_name if "logits" in (v.name or "")]
    if tables and named:  # some heads are wider than the table, padded
        ids = max(tables, key=lambda v: tables[v])
        return ids, named[0], tables[ids]
    return None


@dataclass(frozen=True)
class _Interface:
    shapes: ShapeFacts
    ids: ir.Value
    fixed: Mapping[str, int]

    @property
    def batch(self) -> object:
        """The size of a batch."""
        return (self.shapes.dims(self.ids) or (0,))[0]

    @property
    def length(self) -> Dim:
        """How many tokens a step takes."""
        return (self.shapes.dims(self.ids) or (0, 0))[1]

    def pairs(
        self, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]
    ) -> dict[ir.Value, ir.Value]:
        """Inputs that hold what was computed, and the outputs that are the next."""
        found: dict[ir.Value, ir.Value] = {}
        for output in outputs:
            fitting = {
                v for v in inputs if v not in found and _fit(v, output, self.shapes)
            }
            nearest, word = _nearest(output, fitting), _place(output)
            called = {v for v in fitting if word and _place(v) == word}
            likely = [v for v in nearest if v in called or not called]
            if likely:
                found[likely[0]] = output
        return found

    def caches(self, pairs: Mapping[ir.Value, ir.Value]) -> list[Cache | None]:
        """Their shapes; None for one with sizes that nothing tells."""
        found: list[Cache | None] = []
        for value, output in pairs.items():
            shape = self._shape(value, output)
            known = (
                (ROWS in shape or not shape)
                and shape.count(PLACES) < 2
                and "" not in shape
            )
            cache = Cache(value.name or "", output.name or "", shape)
            found.append(cache if known else None)
        return found

    def _shape(self, value: ir.Value, output: ir.Value) -> tuple[int | str, ...]:
        dims = self.shapes.dims(value) or ()
        after = self.shapes.dims(output) or dims
        batch = [i for i, size in enumerate(dims) if size == self.batch]
        rows = batch[0] if batch else 0
        shape: list[int | str] = []
        for axis, size in enumerate(dims):
            grows = _declared(value, axis) != _declared(output, axis)
            known = "" if grows else self.fixed.get(str(size), "")
            sizes = (n for n in (size, after[axis]) if isinstance(n, int))
            number = next(sizes, known)
            open_ = number == "" and axis != 0
            shape.append(ROWS if axis == rows else PLACES if open_ else number)
        return tuple(shape)

    def growth(self, pairs: Mapping[ir.Value, ir.Value]) -> tuple[dict[str, str], bool]:
        """The open size of each that has it behind a step too; whether all have as many
        places more as a step has tokens."""
        stays, grows = {}, True
        for value, output in pairs.items():
            before, after = (self.shapes.dims(v) or () for v in (value, output))
            for axis, size in enumerate(self._shape(value, output)):
                if size == PLACES:
                    more = after[axis] == before[axis] + self.length
                    told = _declared(value, axis) == _declared(output, axis)
                    grows &= more
                    if before[axis] == after[axis] or (told and not more):
                        stays[_name(value)] = str(before[axis])
        return stays, grows

    def roles(
        self, rest: Sequence[ir.Value]
    ) -> tuple[ir.Value | None, ir.Value | None, ir.Value | None, list[ir.Value]]:
        """The mask of all places, the positions of new tokens, the branch, and numbers
        of places."""
        mask = positions = branch = None
        at = []
        places = self.shapes.dims(self.ids) or ()
        sizes = [self.shapes.dims(value) or () for value in rest]
        lengths = {self.length, *(dims[1] for dims in sizes if len(dims) == 3)}
        for value in rest:
            name, dims = (value.name or "").lower(), self.shapes.dims(value) or ()
            by_axes = dims[1:] == places and isinstance(dims[0], int)  # of images
            if value.dtype is ir.DataType.BOOL and len(dims) < 2:
                branch = value
            elif "position" in name and (
                by_axes or (dims[1:], len(dims)) == (places[1:], 2)
            ):
                positions = value
            elif is_whole(value) and (
                dims in ((), (1,)) or ("position" in name and dims == places[1:])
            ):
                at.append(value)
            elif (
                "mask" in name
                and "encoder" not in name
                and (len(dims) == 2 or dims[1:-1] in ((self.length,), (1, self.length)))
                and dims[-1] not in lengths  # a mask of states that are given
                and (len(dims) > 2 or not isinstance(dims[1], int))
            ):
                mask = value
        return mask, positions, branch, at


def _fit(value: ir.Value, output: ir.Value, shapes: ShapeFacts) -> bool:
    """Whether one may be fed where the other came from: sizes that are known agree."""
    before, after = shapes.dims(value), shapes.dims(output)
    if before is None or after is None or value.dtype != output.dtype:
        return False
    return 1 < len(before) == len(after) and not any(
        isinstance(a, int) and isinstance(b, int) and a != b
        for a, b in zip(before, after, strict=True)
    )


def _declared(value: ir.Value, axis: int) -> str:
    """A size as the file has it."""
    shape = value.shape
    return str(shape[axis]) if shape is not None and axis < len(shape) else ""


def _alike(value: ir.Value, output: ir.Value, shapes: ShapeFacts) -> bool:
    """Whether an output that no cache is the past of is called as an input is."""
    word = _place(value)
    return bool(word) and word == _place(output) and value.dtype == output.dtype


def _place(value: ir.Value) -> str:
    """What tells a tensor from others of its kind: 3.key, k3."""
    found = re.search(r"[a-z]*[0-9].*", (value.name or "").lower())
    return found[0] if found else ""


def _nearest(output: ir.Value, wanted: set[ir.Value]) -> list[ir.Value]:
    """Those of `wanted` that the fewest nodes lead from to `output`, in their order."""
    level, seen = [output], {output}
    while level and len(seen) < _MOST_VALUES:
        found = [value for value in level if value in wanted]
        if found:
            return found
        behind = dict.fromkeys(v for value in level for v in _behind(value))
        level = [value for value in behind if value not in seen]
        seen.update(level)
    return []


def _behind(value: ir.Value) -> Iterator[ir.Value]:
    """What a value is computed from by one node, in each of its bodies too."""
    node = value.producer()
    if node is None:
        return
    yield from (v for v in node.inputs if v is not None)
    place = value.index() or 0
    for body in bodies(node):
        if place < len(body.outputs):
            yield body.outputs[place]
