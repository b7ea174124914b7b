"""From a module, or a package as it is now, to a checked ONNX file."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir

from ...analysis.errors import FairhandError, VerificationError
from ...analysis.lazy import lazy
from ...analysis.literals import message_line
from ..emit.kept_edits import STORED
from ..emit.package_files import WEIGHTS, read_report
from ..load.read_model import load
from ..verify.feeds import Case, case_at, find_cases
from ..verify.parity import oracle
from ..verify.rounding_noise import allowance, own_noise
from ..verify.tolerances import coarsest, compare_values
from .interface import Interface, can_run, interface_of
from .origins import restore_names
from .program import Sizes, in_opset, run_on, traced
from .tables import MAPS

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

LARGEST_FILE = 2**31 - 2**20  # protobuf ends at 2 GiB; the rest is for the graph
_UNKNOWN_VERSION = 2**63 - 1  # what ONNX Runtime reports where a file gives none
_NEWEST = 20  # the opset of a module that came from no file
_numbers = count()


@dataclass(frozen=True)
class Exported:
    """A file that was written, and how far ONNX Runtime is from the module on it."""

    path: Path
    opset: int
    wanted: int  # the opset that was asked for, or is the original's
    nodes: int
    restored: int  # nodes that have the names they had in the original file
    external: bool
    worst: float
    runs: int
    was_training: bool  # some part of the module; the file holds what it evaluates to


def imported(folder: Path) -> ModuleType:
    """An emitted package, by its place, under a name that no other has."""
    name = f"fairhand_package_{next(_numbers)}_{folder.name}"
    spec = importlib.util.spec_from_file_location(name, folder / "__init__.py")
    if spec is None or spec.loader is None:
        raise FairhandError(f"{folder} is no package")
    sys.modules[name] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


def export(
    module: torch.nn.Module | str | Path,
    inputs: Mapping[str, Any] | Sequence[Any] | None,
    path: str | Path,
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    opset: int | None = None,
) -> Exported:
    """Write a module as an ONNX file that agrees with it on ONNX Runtime.

    `module` may be the folder of a package, which is taken as it is now. `inputs` are
    example tensors, by name or in order; of a package's module they may be None.
    `shapes` gives inputs sizes that stay open, by name: {"image": ("batch", 3)}.
    A package's module has those of INPUTS, the names and metadata of its file and,
    unless `opset` is given, the opset. A module in training mode is exported as it
    evaluates, and `was_training` of what is returned says so. The file takes its place
    at once, after it verified. Raises FairhandError for what can't be exported,
    VerificationError for a file that disagrees.
    """
    path = Path(path)
    if isinstance(module, str | Path):
        module = _loaded(Path(module).resolve())
    if path.suffix != ".onnx" or path.is_dir():
        raise FairhandError(f"{path} is no place for an ONNX file", hint="-o new.onnx")
    if opset is not None and opset > (newest := onnx.defs.onnx_opset_version()):
        raise FairhandError(f"there is no opset {opset}", hint=f"{newest} is the last")
    training = any(part.training for part in module.modules())
    with _evaluating(module):
        known = interface_of(module, inputs, shapes)
        source = known.report.get("source", {})
        wanted = opset or source.get("opset", _NEWEST)
        model, beyond = traced(module, known, wanted)
        restored = restore_names(model.graph, module, known)
        in_opset(model, wanted)
        _restore_metadata(model, known.report.get("meta", {}))
        large = sum(
            value.const_value.nbytes
            for value in model.graph.initializers.values()
            if value.const_value is not None
        )
        external = large > LARGEST_FILE or bool(source.get("external_data"))
        with _taking_place(path, external) as (draft, data):
            ir.save(model, draft, external_data=data)
            _declare_maps(draft, known)
            worst, runs = _parity(module, known, draft, beyond)
    version = model.opset_imports[""]
    nodes = sum(1 for _ in model.graph.all_nodes())
    counts = (nodes, restored, external, worst, runs)
    return Exported(path, version, wanted, *counts, training)


def _loaded(folder: Path) -> torch.nn.Module:
    read_report(folder)
    try:
        module: torch.nn.Module = imported(folder).load()
    except Exception as error:  # of whatever kind: a user may have written it
        reason = message_line(" ".join(str(error).split()), 400)
        raise FairhandError(
            f"the package can't be loaded: {type(error).__name__}: {reason}",
            str(folder / "model.py"),
            STORED if "state_dict" in reason or WEIGHTS in reason else "",
        ) from error
    for name, part in module.named_modules():
        held = {**vars(part), **dict(part.named_buffers(recurse=False))}
        for key, value in held.items():
            if isinstance(value, torch.Tensor) and value.is_meta:
                raise FairhandError(
                    f"{f'{name}.{key}'.strip('.')} has no values: load() builds the"
                    f" network on the meta device, and {WEIGHTS} doesn't hold it",
                    str(folder / "model.py"),
                    "make it a persistent buffer and store it there, or in forward",
                )
    return module


@contextmanager
def _evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Without dropout or batch statistics, whatever it was about to do."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def _declare_maps(file: Path, known: Interface) -> None:
    """The types of outputs that are maps, which the graph library has not."""
    maps = {name: kind for name, kind in known.types.items() if kind in MAPS}
    if maps:
        proto = onnx.load(file, load_external_data=False)
        for output in proto.graph.output:
            if output.name in maps:
                output.type.CopyFrom(MAPS[maps[output.name]])
        onnx.save(proto, file)


def _restore_metadata(model: ir.Model, meta: Mapping[str, Any]) -> None:
    """What the original file said of itself."""
    if not meta:
        return
    model.producer_name = meta["producer_name"] or None
    model.domain = meta["domain"] or None
    model.doc_string = meta["description"] or None
    model.graph.name = meta["graph_name"] or None
    model.graph.doc_string = meta["graph_description"] or None
    if meta["version"] != _UNKNOWN_VERSION:
        model.model_version = meta["version"]
    model.metadata_props.clear()
    model.metadata_props.update(meta["custom_metadata_map"])


@contextmanager
def _taking_place(path: Path, external: bool) -> Iterator[tuple[Path, str | None]]:
    """A draft of a file, and the name of its weights' file if it has one, that take
    their places when the block ends well. A file that holds its weights elsewhere keeps
    them until the new one, with weights under another name, stands in its place."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    names = (f"{path.name}{'' if i == 0 else f'.{i}'}.data" for i in count())
    data = next(name for name in names if not (path.parent / name).exists())
    with TemporaryDirectory(prefix=".fairhand-", dir=path.parent) as folder:
        draft = Path(folder) / path.name
        yield draft, data if external else None
        before = _weights_of(path)
        if external:
            os.replace(draft.with_name(data), path.with_name(data))
        os.replace(draft, path)
        for old in before:
            (path.parent / old).unlink(missing_ok=True)


def _weights_of(path: Path) -> list[str]:
    """Files of weights that a model at this place, if there is one, has for its own."""
    if not path.exists():
        return []
    try:
        held = load(path).external_data
    except FairhandError:
        return []
    own = {path.name} | {f"{path.name}.{i}" for i in range(100)}
    return [name for name in held if name.removesuffix(".data") in own]


def _parity(
    module: torch.nn.Module, known: Interface, path: Path, beyond: Sequence[Sizes]
) -> tuple[float, int]:
    """The largest error of ONNX Runtime on a file beside the module that it was made
    of, and the number of runs. Raises VerificationError.

    Sizes are those that the module runs at, of any and of those `beyond` which the
    file wasn't traced for.
    """
    model, source = load(path).model, str(path)
    try:
        session = oracle(source)
        found = find_cases(session, model, None).runs
    except FairhandError as error:
        raise FairhandError(error.what, error.where, "nothing was written") from error
    allowed, coarse, worst = allowance(model), coarsest(model), 0.0
    names = [tensor.name for tensor in session.get_outputs()]
    found += filter(None, (case_at(session, model, sizes) for sizes in beyond))
    # A file may take more than its module: TopK of fewer than k.
    runs = [case for case in found if can_run(module, known, _fed(known, case))]
    for case in runs or found[:1]:
        made = known.in_order(run_on(module, known, _fed(known, case)))
        kinds = torch.Tensor, *([list] if {*known.types.values()} & {*MAPS} else ())
        other = next((x for x in made if not isinstance(x, kinds)), None)
        if other is not None:
            raise FairhandError(
                f"forward returns a {type(other).__name__}",
                str(known.source or ""),
                "return a tensor, or a tuple of them",
            )
        got = [x if isinstance(x, list) else x.numpy(force=True) for x in made]
        noise: dict[str, float] = {}
        for name, theirs, ours in zip(names, case.expected, got, strict=True):
            distance, reason = compare_values(theirs, ours)
            if reason and np.isfinite(distance):
                noise = noise or dict(
                    zip(names, _noise(module, known, path, case, made), strict=True)
                )
                most = max(coarse[name], allowed.of(noise[name]))
                reason = "" if distance <= most else reason
            if reason:
                again = known.in_order(run_on(module, known, _fed(known, case)))
                if not all(map(_are_equal, made, again)):
                    raise FairhandError(
                        "the network returns something else each time that it runs",
                        str(known.source or ""),
                        "nothing was written: no file can be checked against it",
                    )
                raise VerificationError(
                    f"output {name} of the exported file differs from the module's on"
                    f" {case.label}: {reason}",
                    hint="nothing was written",
                )
            worst = max(worst, distance)
    return worst, len(runs)


def _noise(
    module: torch.nn.Module, known: Interface, path: Path, case: Case, made: list[Any]
) -> Iterator[float]:
    """How far each result moves: the file's with last bits, or the module's that it
    `made` from what it gives in double precision, if it can be run so."""
    source = str(path)
    theirs = own_noise(source, oracle(source), oracle, case.feed, case.expected)
    feed = _fed(known, case)
    double = {k: x.double() if x.is_floating_point() else x for k, x in feed.items()}
    try:
        exact = known.in_order(run_on(deepcopy(module).double(), known, double))
    except FairhandError:  # some networks are of one type
        exact = made
    for noise, one, other in zip(theirs.values(), made, exact, strict=True):
        is_number = isinstance(one, torch.Tensor) and one.is_floating_point()
        got = (x.to(one.dtype).numpy(force=True) for x in (other, one) if is_number)
        distance = compare_values(*got)[0] if is_number else 0.0
        yield max(noise, distance if np.isfinite(distance) else 0.0)


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two results of the same run are one, to the rounding of any order."""
    if isinstance(one, list):
        return bool(one == other)
    return torch.allclose(one, other, equal_nan=True)


def _fed(known: Interface, case: Case) -> dict[str, Any]:
    return {name: torch.from_numpy(case.feed[name].copy()) for name in known.shapes}
