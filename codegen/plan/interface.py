"""What a module takes and returns, as its docstring and tables say it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir
import sympy

from ...analysis.errors import Unsupported
from ...analysis.graph.dims import Dim, Dims, is_invented
from ...analysis.graph.map_types import map_type, type_text
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.literals import one_line, short_literal
from ...analysis.spelling.expr import TORCH_DTYPES
from ..ir.cache_arguments import CacheArgument, find_families, in_its_words
from ..ir.package_plan import InterfacePlan, TensorPlan, shape_text

_Sizes = tuple[Dim | str, ...]
_Row = tuple[TensorPlan, _Sizes | None, str]


@dataclass(frozen=True)
class Interface:
    """What a network takes and returns; numbered caches are lists of pairs in it."""

    inputs: list[ir.Value]
    outputs: list[ir.Value]
    taken: list[CacheArgument]
    returned: list[CacheArgument]

    @property
    def caches(self) -> frozenset[ir.Value]:
        """The inputs that come in lists."""
        return frozenset(v for cache in self.taken for row in cache.rows for v in row)


def interface_of(model: ir.Model) -> Interface:
    """The interface of a rewritten graph."""
    inputs, outputs = list(model.graph.inputs), list(model.graph.outputs)
    taken = find_families(inputs)
    return Interface(inputs, outputs, taken, find_families(outputs, taken))


def interface_plan(
    interface: Interface, declared: ir.Model, shapes: ShapeFacts
) -> InterfacePlan:
    """What model.py says of it; `declared` is the model as the file has it. Raises
    Unsupported for types that PyTorch lacks."""
    inputs, outputs = _tensor_plans(interface, declared, shapes)
    return InterfacePlan(
        inputs,
        outputs,
        input_table=_table(inputs, interface.taken),
        output_table=_table(outputs, interface.returned),
        nested=_nested([*interface.taken, *interface.returned]),
        signature=_signature(interface, inputs, outputs, shapes),
        equal_sizes=", ".join(_equal_sizes(interface, inputs, shapes)),
    )


def _equal_sizes(
    interface: Interface, inputs: Sequence[TensorPlan], shapes: ShapeFacts
) -> Iterator[str]:
    """Where sizes stand that operators need to be equal, and the file doesn't."""
    found: dict[Dim, dict[str, int | str]] = {}
    for value, tensor in zip(interface.inputs, inputs, strict=True):
        sizes = () if "(" in tensor.dtype else tensor.shape or ()
        for axis, size in enumerate(shapes.dims(value) or () if sizes else ()):
            place = f"({short_literal(tensor.name)}, {axis})"
            found.setdefault(size, {})[place] = sizes[axis] or place
    for size, places in found.items():
        if isinstance(size, sympy.Symbol) and len({*places.values()}) > 1:
            yield f"[{', '.join(places)}]"


def _tensor_plans(
    interface: Interface, declared: ir.Model, shapes: ShapeFacts
) -> tuple[tuple[TensorPlan, ...], tuple[TensorPlan, ...]]:
    """Inputs and outputs of the model, as ONNX Runtime reports them."""
    known = {v.name: v for v in (*declared.graph.inputs, *declared.graph.outputs)}
    takes, gives = (
        [(v, known.get(v.name, v)) for v in side]
        for side in (interface.inputs, interface.outputs)
    )
    inputs = tuple(_tensor_plan(v, told, shapes) for v, told in takes)
    names = {size for tensor in inputs for size in tensor.shape or ()}
    return inputs, tuple(_tensor_plan(v, told, shapes, names) for v, told in gives)


def _tensor_plan(
    value: ir.Value,
    declared: ir.Value,
    shapes: ShapeFacts,
    names: Container[int | str | None] | None = None,
) -> TensorPlan:
    """An input's sizes are as declared. So are those of an output, where inputs have
    `names`; but what an exporter made a name up for may be known to be a number, and
    what it left open to be one of the names."""
    shape: tuple[int | str | None, ...] | None = None
    inferred = shapes.dims(value)
    found = [d if isinstance(d, int) else str(d) for d in inferred or ()]
    if declared.shape is not None:
        shape = tuple(d if isinstance(d, int) else d.value for d in declared.shape)
    elif inferred is not None:
        shape = tuple(found) if names is None else (None,) * len(found)
    if names is not None and shape is not None and len(shape) == len(found):
        shape = tuple(
            told if told in names else size if isinstance(size, int) else told or name
            for told, size in zip(shape, found, strict=True)
            for name in (size if size in names else None,)
        )
    kind = map_type(value)
    if kind is not None:
        return TensorPlan(value.name or "", type_text(kind), ())
    dtype = _dtype_text(value.type)
    if not dtype:
        raise Unsupported(
            f"'{one_line(value.name or '?')}' is not a tensor of a type PyTorch has",
            f"the model's inputs and outputs: {one_line(str(value.type))}",
        )
    held = value.type
    if isinstance(held, ir.OptionalType):
        held = held.elem_type
    is_list = isinstance(held, ir.SequenceType)
    return TensorPlan(value.name or "", dtype, None if is_list else shape)


def _dtype_text(type_: ir.TypeProtocol | None) -> str:
    """float32, seq(float32), optional(seq(float32)); '' for what PyTorch lacks."""
    if isinstance(type_, ir.OptionalType):
        inner = _dtype_text(type_.elem_type)
        return f"optional({inner})" if inner else ""
    if isinstance(type_, ir.SequenceType) and isinstance(
        type_.elem_type, ir.TensorType
    ):
        inner = _dtype_text(type_.elem_type)
        return f"seq({inner})" if inner else ""
    if not isinstance(type_, ir.TensorType):
        return ""
    if type_.dtype == ir.DataType.STRING:
        return "object"
    return type_.dtype.numpy().name if type_.dtype in TORCH_DTYPES else ""


def _signature(
    interface: Interface,
    inputs: Sequence[TensorPlan],
    outputs: Sequence[TensorPlan],
    shapes: ShapeFacts,
) -> tuple[str, ...]:
    """Aligned lines `name dtype shape input`, long lists cut in the middle."""
    values = [*interface.inputs, *interface.outputs]
    dims = map(_told, map(shapes.dims, values), (*inputs, *outputs))
    roles = ["input"] * len(inputs) + ["output"] * len(outputs)
    rows = list(zip((*inputs, *outputs), dims, roles, strict=True))
    folded = list(_folded(rows, [*interface.taken, *interface.returned]))
    names = [name for name, _ in folded]
    wide = max(map(len, names), default=0)
    types = max((len(row[0].dtype) for _, row in folded), default=0)
    room = min(40, 74 - wide - types)  # of 88, beside margins and "output"
    sizes = [one_line(shape_text(row[1]), room) for _, row in folded]
    spans = max(map(len, sizes), default=0)
    lines = [
        f"{name:{wide}} {row[0].dtype:{types}} {shape:{spans}}  {row[2]}"
        for name, (_, row), shape in zip(names, folded, sizes, strict=True)
    ]
    if len(lines) > 16:
        cut = f"... {len(lines) - 12} more of the kind ..."
        lines = [*lines[:6], cut, *lines[-6:]]
    return tuple(lines)


def _told(dims: Dims | None, tensor: TensorPlan) -> _Sizes | None:
    """What is known of sizes; of those that nothing is, the names that a file has."""
    if dims is None or tensor.shape is None or len(tensor.shape) != len(dims):
        return dims
    pairs = zip(dims, tensor.shape, strict=True)
    return tuple(name if name and is_invented(size) else size for size, name in pairs)


def _folded(
    rows: Sequence[_Row], families: Sequence[CacheArgument]
) -> Iterator[tuple[str, _Row]]:
    """A family's members of one kind share a line: past_k0 ... past_k11, or where that
    is long past_key_values.{i}.key."""
    said = {row[0].name: _with_name(row[0], "") for row in rows}
    first = {
        value.name: (column[0].name, column[-1].name, template)
        for family in families
        for column, template in zip(family.columns, family.templates, strict=True)
        for value in column
        if len({said[v.name or ""] for v in column}) == 1
    }
    for row in rows:
        ends = first.get(row[0].name)
        if ends is None:
            yield one_line(row[0].name, 30), row
        elif row[0].name == ends[0]:
            start, end, template = ends
            shown = f"{start} ... {end}"
            yield one_line(shown if len(shown) <= 30 else template, 30), row


def _table(
    tensors: Sequence[TensorPlan], families: Sequence[CacheArgument]
) -> tuple[str, ...]:
    """The entries of INPUTS or OUTPUTS; a family is a comprehension, if it can be."""
    starts = {family.rows[0][0].name: family for family in families}
    lines, covered = [], set[str]()
    for i, tensor in enumerate(tensors):
        family = starts.get(tensor.name)
        size = len(family.rows) * len(family.templates) if family else 0
        entry = _comprehension(family, tensors[i : i + size]) if family else ""
        if entry:
            lines.append(entry)
            covered |= {member.name for member in tensors[i : i + size]}
        elif tensor.name not in covered:
            lines.append(
                f"{short_literal(tensor.name)}: {_with_name(tensor, tensor.name)},"
            )
    return tuple(lines)


def _comprehension(family: CacheArgument, tensors: Sequence[TensorPlan]) -> str:
    """The entries of a family in one, "" where its members don't follow each other by
    rows or by columns, or differ in more than those tell."""
    count, width, pattern = len(family.rows), len(family.templates), family.pattern
    names = [tensor.name for tensor in tensors]
    by_rows = [v.name for row in family.rows for v in row]
    by_columns = [v.name for column in family.columns for v in column]
    if names not in (by_rows, by_columns) or "{i}" in "".join(family.fillings):
        return ""
    pattern = family.templates[0] if width == 1 else pattern
    said = [_with_name(tensor, pattern) for tensor in tensors]
    entry, parts = said[0], list(map(short_literal, family.fillings))
    if len(set(said)) > 1:
        step = 1 if names == by_rows else count
        firsts = said[: width * step : step]
        again = (
            firsts * count if step == 1 else [x for x in firsts for _ in range(count)]
        )
        if said != again or 'f"' in "".join(said):
            return ""
        parts = [f"({part}, {said})" for part, said in zip(parts, firsts, strict=True)]
        entry = "told"
    word = "part, told" if entry == "told" else "part"
    rounds = [f"for i in range({count})", f"for {word} in ({', '.join(parts)})"]
    if names != by_rows:
        rounds.reverse()
    return f'**{{f"{pattern}": {entry} {" ".join(rounds[: min(width, 2)])}}},'


def _with_name(tensor: TensorPlan, pattern: str) -> str:
    """An entry, in which sizes named after their tensor are made like its name."""
    entry = f"({short_literal(tensor.dtype)}, {short_literal(tensor.shape)})"
    for size in set(tensor.shape or ()):
        made = in_its_words(str(size), tensor.name, pattern)
        if isinstance(size, str) and made != size:
            entry = entry.replace(short_literal(size), f'f"{made}"')
    return entry


def _nested(families: Sequence[CacheArgument]) -> tuple[str, ...]:
    """The entries of NESTED: an argument and the inputs it takes, in rows."""
    lines = []
    for family in families:
        names = ", ".join(f'f"{template}"' for template in family.templates)
        row = f"({names})" if len(family.templates) > 1 else names
        lines.append(f'"{family.name}": [{row} for i in range({len(family.rows)})],')
    return tuple(lines)
