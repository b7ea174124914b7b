"""What an exported network takes and returns: names, types, sizes that stay open."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from ...analysis.errors import FairhandError
from ...analysis.lazy import lazy
from ..emit.package_files import is_package, read_report
from ..validate.network import filled, leaves
from ..verify.input_sizes import complete, dynamic_sizes, size_kinds
from .tables import MAPS

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

NUMBERS = "only tensors of numbers, and what zip_map makes of these, are exported"
Shape = tuple[int | str, ...]  # a name for a size that stays open


@dataclass(frozen=True)
class Interface:
    """Inputs by name, in the order of the file; outputs likewise, if they have names.

    `nested` are the arguments of forward that are lists of inputs, or of tuples of
    them. `report` is that of the package whose model.py, at `source`, has the module's
    class; both are empty for a module that came from nowhere.
    """

    shapes: Mapping[str, Shape]
    values: Mapping[str, Any]
    outputs: Mapping[str, Shape | None]
    types: Mapping[str, str] = field(default_factory=dict)  # of outputs, as said
    nested: Mapping[str, Sequence[str | Sequence[str]]] = field(default_factory=dict)
    source: Path | None = None
    report: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """One value for each input, as forward takes them."""
        inside = {*leaves([*self.nested.values()])}
        plain = [value for name, value in values.items() if name not in inside]
        rows = (r for r in self.nested.values() if leaves(r)[0] in values)
        return (*plain, *(filled(row, values) for row in rows))

    @property
    def taken(self) -> list[str]:
        """The inputs in the order of forward, which is not the file's where it has
        lists."""
        return leaves(self.arguments({name: name for name in self.shapes}))

    @property
    def is_as_written(self) -> bool:
        """Whether nobody edited the model.py that the module's class is of."""
        text = self.report.get("source_map", {}).get("text")
        return self.source is not None and text == self.source.read_text("utf-8")

    def in_order(self, result: Any) -> list[Any]:
        """What forward returned, lists opened, in the order of the outputs."""
        starts = {leaves(rows)[0]: rows for rows in self.nested.values()}
        listed = leaves([starts.get(name, name) for name in self.outputs])
        returned, made = list(dict.fromkeys(listed)), leaves(result)
        if len(made) != len(returned):
            return made
        named = dict(zip(returned, made, strict=True))
        return [named[name] for name in self.outputs]


def unnamed(name: str, axis: int) -> str:
    """What an open size without a name is called, as in `dynamic_sizes`."""
    return f"{name}#{axis}"


def interface_of(
    module: torch.nn.Module,
    inputs: Mapping[str, Any] | Sequence[Any] | None,
    shapes: Mapping[str, Sequence[int | str]] | None,
) -> Interface:
    """The interface of a module, by its package's tables or by its forward.

    `inputs` are values by name or in order, for a package's module None; `shapes` are
    those of inputs of which sizes stay open. Raises FairhandError where the two don't
    fit, or an input is missing.
    """
    page = sys.modules.get(type(module).__module__)
    table = getattr(page, "INPUTS", None)
    source = Path(getattr(page, "__file__", None) or "")
    if not (isinstance(table, dict) and is_package(source.parent)):
        return _plain(module, inputs, shapes or {})
    report = read_report(source.parent)
    known: dict[str, Shape] = {}
    outputs = getattr(page, "OUTPUTS", {})
    for where, rows in (("INPUTS", table), ("OUTPUTS", outputs)):
        if not all(map(_is_row, rows.values())):
            raise FairhandError(
                f"{where} is no table of types and shapes",
                str(source),
                'a line of it: "image": ("float32", ("batch", 3))',
            )
        for name, (kind, _) in rows.items():
            if not hasattr(torch, kind) and (rows is table or kind not in MAPS):
                what = f"{where[:-1].lower()} {name} is {kind}"
                raise FairhandError(what, hint=NUMBERS)
    for name, (_, dims) in table.items():
        if dims is None:
            raise FairhandError(
                f"input {name} has no rank", hint=f"give its shape in {source}"
            )
        open_sizes = [unnamed(name, axis) for axis in range(len(dims))]
        pairs = zip(dims, open_sizes, strict=True)
        known[name] = tuple(own if dim in (None, "") else dim for dim, own in pairs)
    known |= {name: tuple(dims) for name, dims in (shapes or {}).items()}
    made = Interface(
        known,
        _named(inputs, list(known)) if inputs is not None else {},
        {name: dims for name, (_, dims) in outputs.items()},
        {name: kind for name, (kind, _) in outputs.items()},
        getattr(page, "NESTED", {}),
        source,
        report,
    )
    if inputs is not None:
        return made
    rows = {n: (table[n][0], dims) for n, dims in known.items()}
    values = _examples(rows, report, lambda values: can_run(module, made, values))
    return replace(made, values=values)


def can_run(module: torch.nn.Module, known: Interface, values: dict[str, Any]) -> bool:
    """Whether a module takes one value for each input."""
    try:
        module(*known.arguments(values))
    except Exception:  # of whatever kind: a user may have written it
        return False
    return True


def _is_row(row: Any) -> bool:
    """Whether this is a type and a shape, or no shape."""
    if not isinstance(row, tuple) or len(row) != 2 or not isinstance(row[0], str):
        return False
    return row[1] is None or isinstance(row[1], tuple)


def _plain(
    module: torch.nn.Module,
    inputs: Mapping[str, Any] | Sequence[Any] | None,
    shapes: Mapping[str, Sequence[int | str]],
) -> Interface:
    if inputs is None:
        raise FairhandError(
            f"{type(module).__name__} stands in no package that says what it takes",
            hint="give inputs: fairhand.export(module, inputs, path)",
        )
    takes = inspect.signature(module.forward).parameters
    given = inputs if isinstance(inputs, Mapping) else [*takes][: len(inputs)]
    needed = [n for n, p in takes.items() if p.default is p.empty or n in given]
    values = _named(inputs, needed)
    known = {name: tuple(shapes.get(name, v.shape)) for name, v in values.items()}
    return Interface(known, values, {})


def _named(
    inputs: Mapping[str, Any] | Sequence[Any], names: Sequence[str]
) -> dict[str, Any]:
    """Tensors by name, in the order of the names."""
    if not isinstance(inputs, Mapping):
        inputs = dict(zip(names, leaves(inputs), strict=False))
    missing = [name for name in names if name not in inputs]
    unknown = [name for name in inputs if name not in names]
    if missing or unknown:
        what = (
            f"no input {unknown[0]!r}" if unknown else f"input {missing[0]} is missing"
        )
        raise FairhandError(what, hint=f"inputs are {', '.join(names)}")
    return {name: torch.as_tensor(inputs[name]) for name in names}


def _examples(
    table: Mapping[str, tuple[str, Shape]],
    report: Mapping[str, Any],
    fits: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """Tensors to trace with, in the sizes of a test, none of them 1 if that may be.

    Which `fits` the network: those that it was verified with, others, or one with room
    for all, as a mask over a cache and what is new. None is one of the others, a sum of
    two or a size that is fixed, where it may be more: what is equal by chance would
    have to be in the file.
    """
    values = [ir.Value(name=n, shape=ir.Shape(d)) for n, (_, d) in table.items()]
    model = ir.Model(ir.Graph(values, [], nodes=[]), ir_version=10)

    def made(sizes: Mapping[str, int]) -> dict[str, Any]:
        every = complete(model, dict(sizes))
        return {
            name: torch.zeros(
                [dim if isinstance(dim, int) else every[dim] for dim in dims],
                dtype=getattr(torch, dtype),
            )
            for name, (dtype, dims) in table.items()
        }

    plain, names = dynamic_sizes(model), sorted(size_kinds(model))
    verified = report.get("sizes", ())
    tried = (complete(model, sizes) for sizes in (*verified, *plain))
    every = [{name: sizes[name] for name in names} for sizes in tried]
    sure = every[: len(verified)]  # at others a network may run and mean nothing
    tries = sorted(every, key=lambda x: _telling(x, x in sure), reverse=True)
    tries += [{**tries[0], name: sum(tries[0].values())} for name in names]
    found = next((sizes for sizes in tries if fits(made(sizes))), tries[0])
    fixed = {dim for _, dims in table.values() for dim in dims if isinstance(dim, int)}
    for name in names:
        others = [size for other, size in found.items() if other != name]
        by_chance = {0, 1, *fixed, *others, *map(sum, combinations(others, 2))}
        more = next(n for n in count() if found[name] + n not in by_chance)
        # For it, or for one that has room for it, too.
        beside: list[dict[str, int]] = [{}]
        beside += [{o: found[o] + more} for o in names if found[o] > found[name]]
        moved = ({**found, name: found[name] + more, **o} for o in beside if more)
        found = next((sizes for sizes in moved if fits(made(sizes))), found)
    return made(found)


def _telling(sizes: Mapping[str, int], sure: bool) -> tuple[bool, bool, int, int]:
    """How well sizes show which are the same; torch.export takes 0 and 1 for fixed."""
    found = list(sizes.values())
    return min(found, default=2) > 1, sure, len(set(found)), -sum(found)
