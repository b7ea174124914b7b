"""The whole road, as one function that reads like the README."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from .. import __version__
from ..analysis.errors import FairhandError, VerificationError
from ..analysis.literals import one_line
from ..rewrites.rule import Rule
from ..rewrites.simplify import Rewriting, Stage, simplify
from ..rewrites.skeleton import to_proto
from .certificate import make_certificate
from .divide import Divided, cost_lanes
from .emit import write_python
from .engines import EnginePlan, engine_plan
from .inputs import dynamic_sizes
from .interface import session_needs
from .kernels.library import Library
from .kernels.page import write_kernels
from .load import Loaded, load, save_stage
from .names import class_name, package_name
from .plan import ModulePlan, SourcePlan, WeightPlan
from .plan_file import lanes_report, write_plan
from .planner import make_plan
from .report import is_package, make_report, write_report
from .verify import Verification, refuse_huge, verify
from .weights import write_weights
from .where import source_map

# What a package is made of; anything else in its folder belongs to the user.
_FILES = (
    "__init__.py model.py session.py engines.py kernels.py lanes.py plan.json "
    "weights.safetensors report.json test_parity.py __pycache__"
).split()

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Package:
    """What compile() wrote: the folder, and the contents of its report.json."""

    path: Path
    report: dict[str, Any]


def compile(
    model: str | Path | onnx.ModelProto | ir.Model,
    out: str | Path | None = None,
    *,
    verify: bool = True,
    inputs: str | Path | None = None,
    debug: str | Path | None = None,
    level: int = 1,
    exactness: str = "real",
    engine: str = "auto",
    rules: Sequence[Rule] | None = None,
    lanes: int | str | None = None,
    profile: bool = False,
    target: str = "torch",
    progress: Progress = lambda stage: None,
) -> Package:
    """ONNX model in, checked PyTorch package out.

    `out` is the package's folder (default: generated/<model>), replaced only by a
    package that verified. `inputs` are sample inputs (.npz, .pb) to verify with first;
    `debug` is a folder for the graph after each stage. Of the proven rules, those that
    `exactness` admits are applied ("bitwise", "order" or "real"; fairhand.rewrites has
    the catalogue, which `rules` narrows). `level` 0 is faithful: no stored weight
    changes, and state_dict has the original's keys; 2 also merges layers. `engine` is
    what Session runs the network on: "eager", "onednn", "compile", or "auto" for what
    suits it; `lanes` is how many parts of it may run side by side, or "auto". `profile`
    measures on this machine what operators take. With "triton" for `target`, operators
    that fuse become kernels. Raises FairhandError.
    """
    progress("load")
    loaded = load(model)
    folder = Path(out or Path("generated") / package_name(loaded.name))
    _check_target(folder)
    with _stages(debug, progress) as stage:
        stage("1-load", loaded.model)
        title = class_name(loaded.name)
        options = Options(level, exactness, rules, lanes, profile, target)
        made = planned(loaded, source_of(loaded), title, options, stage, progress)
        graph, done, plan = made.graph, made.done, made.plan
        with _replacing(folder) as draft:
            progress("emit")
            text = write_python(draft / "model.py", "model.py.jinja", plan=plan)
            runs_on = engine_plan(
                graph, done.shapes, plan, done.after, _sizes(loaded), engine
            )
            _write_beside(draft, made, runs_on)
            size = write_weights(
                draft / "weights.safetensors", made.weights, loaded.sha256
            )
            report = make_report(loaded, plan, done.counts(), size)
            report |= _additions(made, options, text, runs_on)
            write_report(draft, report)
            if verify:
                progress("verify")
                found, runs_on = _checked(draft, loaded, made, inputs, runs_on, engine)
                report["engine"] = runs_on.as_dict()
                _note(report, found)
                write_report(draft, report)
    return Package(folder, report)


def _sizes(loaded: Loaded) -> dict[str, int]:
    """Of a typical run."""
    return (dynamic_sizes(loaded.model) or [{}])[0]


def _write_beside(draft: Path, made: Planned, runs_on: EnginePlan) -> None:
    """The files that hardly depend on the model, and plan.json."""
    plan, divided = made.plan, made.divided
    needs = session_needs(plan)
    if runs_on.channels_last:
        needs.add("channels_last")
    write_python(
        draft / "session.py",
        "session.py.jinja",
        needs=needs,
        engine=runs_on.name,
        refused=runs_on.refused,
    )
    if runs_on.refused:
        (draft / "engines.py").unlink(missing_ok=True)
    else:
        write_python(draft / "engines.py", "engines.py.jinja")
    title, network = plan.title, plan.network
    write_python(
        draft / "__init__.py", "package.py.jinja", title=title, network=network
    )
    write_python(draft / "test_parity.py", "test_parity.py.jinja")
    if plan.lanes:
        write_python(draft / "lanes.py", "lanes.py.jinja")
    if divided is not None:
        write_plan(draft, plan, divided)
    if made.library is not None and plan.kernels:
        write_kernels(
            draft / "kernels.py", made.library.taken, plan.title, plan.source.file
        )


def _additions(
    made: Planned, options: Options, text: str, runs_on: EnginePlan
) -> dict[str, Any]:
    """What the report says of how the text came about, and of what runs it."""
    graph, done, library = made.graph, made.done, made.library
    found: dict[str, Any] = {
        "certificate": make_certificate(graph, done, options.exactness),
        "engine": runs_on.as_dict(),
        "source_map": source_map(text, made.plan, graph, done.history),
        **lanes_report(made.divided),
    }
    if library is not None:
        found["target"] = {"name": options.target, "groups": library.table()}
    return found


def _note(report: dict[str, Any], found: Verification) -> None:
    """What verification found, and the tolerances that the package's test keeps."""
    report["verification"] = found.as_dict()
    for name, plain in report["tolerance"].items():
        report["tolerance"][name] = found.tolerance(name, plain)


@dataclass(frozen=True)
class Planned:
    """The rewritten graph, what was done to it, and what there is to write."""

    graph: ir.Model
    done: Rewriting
    plan: ModulePlan
    weights: list[WeightPlan]
    divided: Divided | None = None
    library: Library | None = None  # of kernels


@dataclass(frozen=True)
class Options:
    """What is to be written, as `compile` has it."""

    level: int = 1
    exactness: str = "real"
    rules: Sequence[Rule] | None = None
    lanes: int | str | None = None
    profile: bool = False
    target: str = "torch"


def planned(
    loaded: Loaded,
    source: SourcePlan,
    title: str,
    options: Options,
    stage: Stage = lambda name, model: None,
    progress: Progress = lambda stage: None,
) -> Planned:
    """Everything but the files."""
    if options.lanes is not None and options.target != "torch":
        raise FairhandError(
            f"lanes are not written for target {options.target}",
            hint="leave out one of --lanes and --target",
        )
    graph = loaded.model.clone()  # the loaded one stays as the file has it
    done = simplify(graph, options.exactness, options.rules, stage, options.level)
    progress("plan")
    applied = done.counts()
    costed = cost_lanes(graph, done.shapes, options.lanes, options.profile, progress)
    library = Library(graph, done.shapes) if options.target == "triton" else None
    plan, weights, divided = make_plan(
        graph,
        done.shapes,
        source,
        title,
        loaded.model,
        applied,
        options.level,
        costed,
        library,
    )
    if divided is not None:
        progress(f"lanes: {divided.reason}")
    return Planned(graph, done, plan, weights, divided, library)


def _checked(
    draft: Path,
    loaded: Loaded,
    made: Planned,
    inputs: str | Path | None,
    runs_on: EnginePlan,
    wanted: str,
) -> tuple[Verification, EnginePlan]:
    """Parity on the engine; on the eager one where our choice fails."""
    given = Path(inputs) if inputs is not None else None
    refuse_huge(made.graph, made.done.shapes)
    try:
        return _verified(draft, loaded, made.graph, given), runs_on
    except VerificationError:
        if wanted != "auto" or runs_on.name == "eager":
            raise
    reason = f"{runs_on.name} did not pass verification"
    runs_on = replace(runs_on, name="eager", refused=reason)
    _write_beside(draft, made, runs_on)
    return _verified(draft, loaded, made.graph, given), runs_on


def _verified(
    draft: Path, loaded: Loaded, graph: ir.Model, given: Path | None
) -> Verification:
    source: str | bytes
    source = (
        str(loaded.path) if loaded.path else to_proto(loaded.model).SerializeToString()
    )
    try:
        return verify(draft, loaded.model, source, given)
    except VerificationError as error:
        if error.feed is None:
            raise
        from .bisect import first_difference  # needs torch, which is slow to load

        found = first_difference(graph, error.feed, error.expected)
        if not found:
            raise
        raise VerificationError(error.what, found, error.hint) from None


def source_of(loaded: Loaded) -> SourcePlan:
    file = loaded.path.name if loaded.path is not None else loaded.name
    return SourcePlan(
        file=one_line(file),
        opset=loaded.opset,
        nodes=loaded.node_count,
        sha256=loaded.sha256,
        version=__version__,
    )


@contextmanager
def _stages(
    debug: str | Path | None, progress: Progress
) -> Iterator[Callable[[str, ir.Model], None]]:
    """Announces each stage and, under --debug, writes its graph."""

    def stage(name: str, model: ir.Model) -> None:
        if debug is not None:
            Path(debug).mkdir(parents=True, exist_ok=True)
            save_stage(model, Path(debug) / f"{name}.onnx")
        progress(name.partition("-")[2])

    yield stage


def _check_target(folder: Path) -> None:
    """Refuse to replace anything that isn't an emitted package, or where we stand."""
    if Path.cwd().is_relative_to(folder.resolve()):
        raise FairhandError(
            f"{folder} is the current folder, or one around it",
            hint="name a folder of its own with -o",
        )
    if not folder.exists() or is_package(folder):
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise FairhandError(
            f"{folder} exists and is not a package that fairhand wrote",
            hint="choose another folder with -o",
        )


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """A draft beside `folder` that takes its place when the block ends well.

    What a user put beside an older package's files stays there.
    """
    folder = folder.resolve()
    parent = folder.parent
    made = [p for p in (parent, *parent.parents) if not p.exists()]
    parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".fairhand-", dir=parent) as temporary:
            draft = Path(temporary) / folder.name
            draft.mkdir()
            yield draft
            shutil.rmtree(draft / "__pycache__", ignore_errors=True)
            if folder.exists():
                shutil.copytree(
                    folder,
                    draft,
                    symlinks=True,
                    ignore=lambda at, _: _FILES if Path(at) == folder else (),
                    dirs_exist_ok=True,
                )
                folder.rename(Path(temporary) / "replaced")
            draft.rename(folder)
    except BaseException:
        for empty in made:
            with suppress(OSError):
                empty.rmdir()
        raise
