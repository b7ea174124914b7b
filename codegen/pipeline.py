"""The whole road, as one function that reads like the README."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
import onnx_ir as ir

from ..analysis.cost.peak_memory import peak_memory
from ..analysis.errors import FairhandError, VerificationError
from ..analysis.graph.weightless import to_proto
from ..rewrites.certificate.graph_hash import Digested, digest_steps, finished
from ..rewrites.language.rule import Rule
from ..rewrites.simplify import Stage, no_garbage_collection
from .cache.entry import recall, remember
from .cache.store import key_of
from .commands.plan_json import parts_report, write_plan
from .emit.atomic_folder import check_target, empty, replacing
from .emit.beside import write_beside
from .emit.model_file import model_text
from .emit.source_map import source_map
from .emit.weights import write_weights
from .engines.choose import engine_plan
from .ir.engine_plan import EnginePlan
from .ir.identifiers import class_name, package_name
from .load.read_model import Loaded, load
from .plan.compiled_model import CompiledModel, Progress, planned, source_of
from .profile.engine_times import fastest, measure
from .profile.lane_times import measured
from .request.choices import PROFILE
from .request.options import CompileOptions, CompileRequest
from .verify.certificate import make_certificate
from .verify.debug_dump import stages
from .verify.ill_conditioned import same_text, weight_noise, with_drawn_weights
from .verify.inputs import dynamic_sizes
from .verify.package_report import make_report, write_report
from .verify.parity import Verification, feeds, oracle, refuse_huge, verify


@dataclass(frozen=True)
class Package:
    """What compile() wrote: the folder, and the contents of its report.json.

    `cached`: but for the weights and the verification, it was made before.
    """

    path: Path
    report: dict[str, Any]
    cached: bool = False


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
    precision: str = "float32",
    rules: Sequence[Rule] | None = None,
    lanes: int | str | None = None,
    profile: bool = False,
    target: str = "torch",
    autotune: bool = False,
    fusion: str | None = None,
    cache: bool = True,
    progress: Progress = lambda stage: None,
) -> Package:
    """ONNX model in, checked PyTorch package out. Raises FairhandError.

    `out` is the package's folder (default: generated/<model>), replaced only by a
    package that verified. `inputs` are sample inputs (.npz, .pb) to verify with first;
    `debug` is a folder for the graph after each stage. What is written follows from
    `level` to `target` and from `autotune` (Options). `engine` is what Session runs on:
    "eager", "packed", "onednn", "compile", or "auto" for what suits the network;
    `precision` "bf16" or "fp16" computes in these, "int8" multiplies in integers where
    layers are linear. `profile` measures here which engine is the fastest. `cache` lets
    a package serve again, with the weights of this model.
    """
    progress("load")
    with no_garbage_collection():
        loaded = load(model)
    folder = Path(out or Path("generated") / package_name(loaded.name))
    check_target(folder)
    wanted = PROFILE if profile and engine == "auto" and lanes is None else engine
    options = CompileOptions(
        level, exactness, rules, lanes, profile, fusion, target, autotune
    )
    given = Path(inputs) if inputs is not None else None
    asked = CompileRequest(options, wanted, precision, verify, given)
    told = asked.key() if cache and debug is None else None
    key = None if told is None else key_of(loaded, told)
    with replacing(folder) as draft:
        if key is not None:
            report = _recalled(key, loaded, draft, asked, progress)
            if report is not None:
                return Package(folder, report, cached=True)
        with stages(debug, progress) as stage:
            stage("1-load", loaded.model)
            report = _written(draft, loaded, asked, key, stage, progress)
    return Package(folder, report)


def _written(
    draft: Path,
    loaded: Loaded,
    asked: CompileRequest,
    key: str | None,
    stage: Stage,
    progress: Progress,
) -> dict[str, Any]:
    """Write and check a package; returns its report."""
    options, title = asked.options, class_name(loaded.name)
    with no_garbage_collection():
        made = planned(loaded, source_of(loaded), title, options, stage, progress)
        progress("emit")
        if made.plan.lanes:
            made = _settled(loaded, made, asked, progress)
        report, runs_on, digested = _write(loaded, made, asked, draft)
    plain, chosen = deepcopy(report), runs_on
    if asked.verify:
        progress("verify")
        found, runs_on = _checked(draft, loaded, made, asked, runs_on)
        report["engine"] = plain["engine"] = runs_on.as_dict()
        _note(report, found)
        write_report(draft, report)
    # An engine that failed on these weights may do for others.
    sure = asked.engine == PROFILE or runs_on == chosen
    if key is not None and sure and _is_runnable(made):
        remember(key, loaded, draft, plain, made.weights, *digested)
    return report


def _write(
    loaded: Loaded, made: CompiledModel, asked: CompileRequest, draft: Path
) -> tuple[dict[str, Any], EnginePlan, Digested]:
    """All files of a package that has not been verified."""
    text = model_text(made.plan)
    (draft / "model.py").write_text(text, encoding="utf-8", newline="\n")
    runs_on = _engine(loaded, made, asked)
    write_beside(draft, made, runs_on)
    if made.divided is not None:
        write_plan(draft, made.plan, made.divided)
    size = write_weights(draft / "weights.safetensors", made.weights, loaded.sha256)
    digested = digest_steps(made.graph)
    report = make_report(loaded, made.plan, made.done.counts(), size)
    report |= _additions(loaded, made, asked.options, text, runs_on)
    certified = finished(*digested)
    exactness = asked.options.exactness
    report["certificate"] = make_certificate(made.done, exactness, certified)
    write_report(draft, report)
    return report, runs_on, digested


def _settled(
    loaded: Loaded, made: CompiledModel, asked: CompileRequest, progress: Progress
) -> CompiledModel:
    """Without lanes if they aren't worth it beside the package that has none."""
    divided, plan, options = made.divided, made.plan, asked.options
    assert divided is not None
    measures = asked.verify and (options.lanes == "auto" or options.profile)
    if not (measures or options.lanes == "auto") and divided.settled() is divided:
        return made
    alone = planned(loaded, plan.source, plan.title, replace(options, lanes=None))
    divided = replace(divided, rival=_engine(loaded, alone, asked).name)
    if measures:
        progress("measure lanes")
        refuse_huge(made.graph, made.done.shapes)
        _, feed, _ = next(iter(feeds(loaded.model, asked.inputs)))
        serial, lanes = (partial(_write, loaded, x, asked) for x in (alone, made))
        divided = measured(divided, serial, lanes, feed)
    divided = divided.settled()
    return replace(made if divided.forks else alone, divided=divided)


def _recalled(
    key: str, loaded: Loaded, draft: Path, asked: CompileRequest, progress: Progress
) -> dict[str, Any] | None:
    """The report of a package that was written before, and now is with these weights;
    None if there is none, or it doesn't verify."""
    progress("recall")
    found = recall(key, loaded)
    if found is None:
        return None
    report = found.write(draft)
    write_report(draft, report)
    if asked.verify:
        progress("verify")
        try:
            checked = verify(draft, loaded.model, _oracle(loaded), asked.inputs)
        except VerificationError:
            empty(draft)
            return None
        _note(report, checked)
        write_report(draft, report)
    return report


def _is_runnable(made: CompiledModel) -> bool:
    try:
        refuse_huge(made.graph, made.done.shapes)
    except VerificationError:
        return False
    return True


def _engine(loaded: Loaded, made: CompiledModel, asked: CompileRequest) -> EnginePlan:
    if asked.engine == PROFILE and not asked.verify:
        raise FairhandError("only engines that verified are measured")
    shapes, cost = made.done.shapes, made.done.after
    sizes = (dynamic_sizes(loaded.model) or [{}])[0]
    return engine_plan(
        made.graph, shapes, made.plan, cost, sizes, asked.engine, asked.precision
    )


def _additions(
    loaded: Loaded,
    made: CompiledModel,
    options: CompileOptions,
    text: str,
    runs_on: EnginePlan,
) -> dict[str, Any]:
    """What the report says of how the text came about, and of what runs it."""
    graph, done, collection = made.graph, made.done, made.collection
    sizes = (dynamic_sizes(loaded.model) or [{}])[0]  # the first of the report's
    peak = peak_memory(graph, done.shapes, sizes)
    found: dict[str, Any] = {
        "engine": runs_on.as_dict(),
        "activations": None if peak is None else {"sizes": sizes, **asdict(peak)},
        "source_map": source_map(text, made.plan, graph, done.history),
        **parts_report(made.divided, options.lanes, options.profile, options.fusion),
    }
    return found | (collection.report() if collection is not None else {})


def _note(report: dict[str, Any], found: Verification) -> None:
    """What verification found, and the tolerances that the package's test keeps."""
    report["verification"] = found.as_dict()
    for name, plain in list(report["tolerance"].items()):
        if name in found.unsteady:
            del report["tolerance"][name]  # not compared, as what is drawn at random
        else:
            report["tolerance"][name] = found.tolerance(name, plain)


def _checked(
    draft: Path,
    loaded: Loaded,
    made: CompiledModel,
    asked: CompileRequest,
    runs_on: EnginePlan,
) -> tuple[Verification, EnginePlan]:
    """Parity on the engine; on the eager one where our choice fails."""
    wanted, given = asked.engine, asked.inputs
    refuse_huge(made.graph, made.done.shapes)
    if wanted == PROFILE:
        runs_on = _measured(draft, loaded, made, given, runs_on)
    try:
        return _verified(draft, loaded, made, asked, runs_on), runs_on
    except VerificationError:
        if wanted != "auto" or runs_on.name == "eager":
            raise
    reason = f"{runs_on.name} did not pass verification"
    runs_on = replace(runs_on, name="eager", refused=reason)
    write_beside(draft, made, runs_on)
    return _verified(draft, loaded, made, asked, runs_on), runs_on


def _measured(
    draft: Path,
    loaded: Loaded,
    made: CompiledModel,
    given: Path | None,
    runs_on: EnginePlan,
) -> EnginePlan:
    """The engine that is the fastest here, and the package with it."""
    _, first, _ = next(iter(feeds(loaded.model, given)))
    table = measure(
        draft,
        runs_on.candidates(),
        first,
        lambda engine: verify(
            draft, loaded.model, _oracle(loaded), given, (0,), engine
        ),
    )
    refused = runs_on.refused or "it is the fastest"
    name = fastest(table) or "eager"  # whose failure is then reported
    runs_on = replace(runs_on, name=name, measured=table)
    if name == "eager":
        runs_on = replace(runs_on, refused=refused)
    write_beside(draft, made, runs_on)
    return runs_on


def _oracle(loaded: Loaded) -> str | bytes:
    """What ONNX Runtime loads."""
    if loaded.path is not None:
        return str(loaded.path)
    return to_proto(loaded.model).SerializeToString()


def _verified(
    draft: Path,
    loaded: Loaded,
    made: CompiledModel,
    asked: CompileRequest,
    runs_on: EnginePlan,
) -> Verification:
    try:
        return verify(draft, loaded.model, _oracle(loaded), asked.inputs)
    except VerificationError as error:
        if error.feed is None:
            raise
        with suppress(Exception):  # the mismatch itself is what the user must hear of
            alike = replace(asked, engine=runs_on.name)
            found = _steadied(draft, loaded, alike, error)
            if found is not None:
                return found
        from .verify.bisect import (
            first_difference,  # needs torch, which is slow to load
        )

        where = first_difference(made.graph, error.feed, error.expected)
        if not where:
            raise
        raise VerificationError(error.what, where, error.hint) from None


def _steadied(
    draft: Path, loaded: Loaded, asked: CompileRequest, error: VerificationError
) -> Verification | None:
    """Parity with other weights, where its own forbid it (ill_conditioned.py)."""
    assert error.feed is not None
    noise = weight_noise(loaded, oracle, error.feed, error.expected)
    if not any(noise[name] >= off for name, off in error.off.items() if name in noise):
        return None
    other = with_drawn_weights(loaded)
    assert other is not None
    made = planned(other, source_of(other), class_name(other.name), asked.options)
    with TemporaryDirectory() as folder:
        _write(other, made, asked, Path(folder))
        if not same_text(Path(folder) / "model.py", draft / "model.py"):
            return None
        drawn = verify(Path(folder), other.model, _oracle(other))
    found = verify(draft, loaded.model, _oracle(loaded), asked.inputs, unsteady=noise)
    return replace(found, drawn_weights=drawn)
