"""ONNX model in, checked PyTorch package out: the stages, one after the other.

    load -> simplify -> statements -> modules -> classes -> plan -> emit -> verify

`compile` goes from a file to a package, `lower` is its middle: from the graph to all
that is to be written. No stage calls the next; what one hands on is named here.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from ..analysis.errors import VerificationError
from ..analysis.literals import one_line
from ..analysis.ops.trainable import mark_scales
from ..analysis.oracle.process import FORKS
from ..rewrites.certificate.graph_hash import digest
from ..rewrites.certificate.rule_file import read_rules
from ..rewrites.language.rule import Rule
from ..rewrites.simplify import Stage, no_garbage_collection, simplify
from .cache.entry import recall, remember
from .cache.store import key_of
from .classes.module_classes import ClassTable
from .emit.atomic_folder import check_target, empty, replacing
from .emit.kept_edits import keep_edits
from .emit.model_file import model_text
from .emit.package_files import note_files, write_report
from .emit.shared_runtime import check_beside, place, share
from .emit.weights import write_weights
from .engines.choose import engine_plan
from .generation.decoder import find_decoder
from .generation.generate_files import (
    GENERATION,
    Layout,
    first_layout,
    write_generation,
)
from .generation.room import confirm_layout, find_layout
from .ir.engine_plan import TRACED, EnginePlan
from .ir.identifiers import class_name, package_name
from .ir.package_plan import SourcePlan
from .lanes.plan_json import write_plan
from .load.given_shapes import Shapes, implied_ranks, with_shapes
from .load.read_model import Loaded, load
from .modules.module_tree import make_tree
from .modules.recover_modules import find_scopes
from .parallel.add import add_parallel, described
from .plan.body_styles import BodyWriters, body_style
from .plan.interface import interface_of
from .plan.make_plan import CompiledModel, make_plan, network_name, source_plan
from .profile.op_timings import measured_profile
from .profile.package_times import measured
from .request.choices import AUTO
from .request.options import CompileOptions, CompileRequest, Progress
from .statements.from_graph import make_steps
from .statements.symbolic_sizes import settle_dimensions
from .validate.reference import reference
from .validate.verdict import MODULES, Validation, kept, recalled
from .verify import parity
from .verify.debug_dump import stage_writer
from .verify.feeds import first_feed
from .verify.input_sizes import (
    dynamic_sizes,
    first_sizes,
    note_requirements,
    telling_sizes,
)
from .verify.package_report import make_report, note_verification
from .verify.parity import Verification, check_package, huge_value, refuse_huge
from .write_beside import write_beside


@dataclass(frozen=True)
class Package:
    """What compile() wrote: the folder, and the contents of its report.json.

    `cached`: but for the weights and the verification, it was made before. `edited` are
    files in which what a user changed was kept; what verified is the text without.
    """

    path: Path
    report: dict[str, Any]
    cached: bool = False
    edited: tuple[str, ...] = ()


def compile(
    model: str | Path | onnx.ModelProto | ir.Model,
    out: str | Path | None = None,
    *,
    verify: bool = True,
    inputs: str | Path | None = None,
    shapes: Shapes | None = None,
    debug: str | Path | None = None,
    level: int = 1,
    exactness: str = "real",
    engine: str = "auto",
    precision: str = "float32",
    rules: Sequence[Rule] | str | Path | None = None,
    lanes: int | str | None = None,
    profile: bool = False,
    target: str = "torch",
    autotune: bool = False,
    fusion: str | None = None,
    cache: bool = True,
    parallel: str | None = None,
    devices: str = "cpu",
    memory: float | None = None,
    shared_runtime: bool = False,
    progress: Progress = lambda stage: None,
) -> Package:
    """ONNX model in, checked PyTorch package out. Raises FairhandError.

    `out` is the package's folder (default: generated/<model>), replaced only by a
    package that verified; what was edited there is merged, or nothing is replaced.
    `inputs` are sample inputs (.npz, .pb) to verify with instead of random ones;
    `shapes` gives inputs of open size one; `debug` is a folder for the graph after each
    stage. `level` to `target` and `autotune` say what is written (CompileOptions).
    `engine` is what Session runs on: one of ENGINES (request/choices.py), or "auto" for
    what suits; `precision` may be "bf16", "fp16", or "int8" in linear layers;
    `parallel` is a plan ("tp=2") for `devices` of `memory` bytes. `shared_runtime`:
    packages beside each other read what Session is from one folder.
    """
    laws = read_rules(Path(rules)) if isinstance(rules, str | Path) else rules
    ways = lanes, profile, fusion, target, autotune
    options = CompileOptions(level, exactness, laws, *ways)
    besides = Path(inputs) if inputs else None, parallel, devices, memory
    request = CompileRequest(options, engine, precision, verify, *besides)
    if verify:
        FORKS.warm(MODULES)  # while this process lowers and emits
    loaded = _loaded(model, shapes, verify, progress)
    folder = Path(out or Path("generated") / package_name(loaded.name))
    check_target(folder)
    check_beside(folder, shared_runtime)
    key = key_of(loaded, request) if cache and debug is None else None
    stage = stage_writer(debug, progress)
    with replacing(folder) as draft:
        report = _recalled(key, loaded, request, draft, progress) if key else None
        cached = report is not None
        if report is None:
            report = _built(key, loaded, request, draft, stage, progress)
        edited = _finished(folder, draft, report, shared_runtime)
    return Package(folder, report, cached, tuple(edited))


def _loaded(
    model: str | Path | onnx.ModelProto | ir.Model,
    shapes: Shapes | None,
    verify: bool,
    progress: Progress,
) -> Loaded:
    progress("load")
    with no_garbage_collection():
        loaded, given = load(model), shapes or {}
        implied = implied_ranks(loaded.model, given)
        loaded = with_shapes(loaded, {**implied, **given})
        if not verify:
            parity.refuse_misfits(loaded)
    return loaded


def _finished(
    folder: Path, draft: Path, report: dict[str, Any], shared_runtime: bool
) -> list[str]:
    """Make a draft ready to take its place; the files in which edits were kept."""
    if shared_runtime:
        share(draft, report)
    note_files(draft, report)
    edited = keep_edits(folder, draft)
    if edited:  # verification and emission are of the text without them
        report["edited"] = edited
        write_report(draft, report)
    place(draft, folder, report)
    return edited


def parallel_plans(
    model: str | Path,
    wanted: str,
    devices: str,
    memory: float | None,
    annotated: Path | None = None,
    page: Path | None = None,
) -> tuple[str, list[dict[str, Any]]]:
    """Plans for several devices, as text and as data, best first; nothing is written
    but the model, with the best in it as ONNX's own annotations, where `annotated`, and
    the `page` of a picture.
    Raises FairhandError where there is none."""
    loaded = replace(load(model), digest=str)  # weights aren't read for a hash of them
    title = class_name(loaded.name)
    files = None if annotated is None else (Path(model), annotated)
    with no_garbage_collection():
        compiled = lower(loaded, CompileOptions(), source_plan(loaded), title)
        return described(compiled, wanted, devices, memory, loaded.placed, files, page)


def _built(
    key: str | None,
    loaded: Loaded,
    request: CompileRequest,
    draft: Path,
    stage: Stage,
    progress: Progress,
) -> dict[str, Any]:
    """Lower, emit and verify a package, and keep it under `key`; returns its report."""
    options = request.options
    with no_garbage_collection():
        stage("1-load", loaded.model)
        source, title = source_plan(loaded), class_name(loaded.name)
        compiled = lower(loaded, options, source, title, stage, progress)
        progress("emit")
        if compiled.plan.lanes:
            compiled = _lanes_if_worth_it(loaded, compiled, request, progress)
        report, chosen = _emitted(loaded, compiled, request, draft)
    unverified = deepcopy(report)
    if request.verify:
        progress("verify")
        found, engine, emission = _verified(loaded, compiled, request, draft, chosen)
        report["engine"] = unverified["engine"] = engine.as_dict()
        report["emission"] = emission
        unverified["emission"] = kept(emission, loaded.sha256)
        note_verification(report, found)
    generation = _generating(loaded, compiled, request, draft, report)
    report |= generation
    unverified |= generation | {"certificate": report["certificate"]}
    if request.parallel is not None:
        progress("parallel")
        write_report(draft, report)  # which is read
        report |= add_parallel(
            draft,
            compiled,
            request.parallel,
            request.devices,
            request.memory,
            request.verify,
            loaded.placed,
        )
    shapes = compiled.rewriting.shapes
    if key is not None and huge_value(compiled.graph, shapes) is None:
        remember(key, loaded, compiled, draft, unverified)
    return report


def lower(
    loaded: Loaded,
    options: CompileOptions,
    source: SourcePlan,
    title: str,
    stage: Stage = lambda name, model: None,
    progress: Progress = lambda stage: None,
) -> CompiledModel:
    """The middle of the pipeline: from a graph as loaded to all that is to be written.

    `source` and `title` are what model.py says of its file and calls its network.
    Raises Unsupported, listing all that can't be spelled.
    """
    graph = loaded.model.clone()  # the loaded one stays as the file has it
    faithful, kernels = options.level == 0, options.target == "triton"
    rewriting = simplify(graph, options.exactness, options.rules, stage, options.level)
    shapes = rewriting.shapes
    mark_scales(graph)
    if rewriting.required is not None:
        note_requirements(loaded.model, rewriting.required)
    progress("plan")
    measure = partial(measured_profile, progress=progress)
    style = body_style(graph, shapes, options, measure)
    statements = make_steps(graph, shapes, faithful, kernels)
    find_scopes(statements)
    interface = interface_of(graph)
    results, caches = interface.outputs, interface.caches
    root = make_tree(statements, results, faithful, caches, not kernels)
    settle_dimensions(root, interface.inputs, shapes)
    classes = ClassTable(root, network_name(graph, root, title), faithful)
    writers = BodyWriters(classes, graph, shapes, style)
    plan, weights = make_plan(
        source, title, loaded.model, rewriting, interface, classes, writers
    )
    if writers.divided is not None:
        progress(f"lanes: {writers.divided.reason}")
    return CompiledModel(
        graph, rewriting, plan, weights, classes, writers.divided, writers.collection
    )


def _engine(
    loaded: Loaded, compiled: CompiledModel, request: CompileRequest
) -> EnginePlan:
    """What Session runs on. Raises FairhandError for what the network can't run on."""
    sizes = first_sizes(loaded.model)
    return engine_plan(compiled, sizes, request.engine, request.precision)


def _emitted(
    loaded: Loaded, compiled: CompiledModel, request: CompileRequest, draft: Path
) -> tuple[dict[str, Any], EnginePlan]:
    """Write all files of a package; its report, not verified yet, and its engine."""
    text = model_text(compiled.plan)
    (draft / "model.py").write_text(text, encoding="utf-8", newline="\n")
    runs_on = _engine(loaded, compiled, request)
    write_beside(draft, compiled, runs_on)
    if compiled.divided is not None:
        write_plan(draft, compiled.plan, compiled.divided)
    size = write_weights(draft / "weights.safetensors", compiled.weights, loaded.sha256)
    graph = digest(compiled.graph)
    report = make_report(loaded, compiled, request.options, runs_on, text, size, graph)
    write_report(draft, report)
    return report, runs_on


_MORE_SEEDS = range(2, 8)  # of inputs, where validation finds other calls


def _verified(
    loaded: Loaded,
    compiled: CompiledModel,
    request: CompileRequest,
    draft: Path,
    runs_on: EnginePlan,
) -> tuple[Verification, EnginePlan, dict[str, Any]]:
    """Parity on the engine. Where a Session is to
    choose, on the network as it stands, and the engine that traces by itself is left
    out if it fails: it may crash. With it, what was found of model.py for all inputs.
    Where model.py makes other calls than the graph, which may be another spelling of
    the same, more inputs are tried. Raises VerificationError."""
    graph, given = compiled.graph, request.inputs
    refuse_huge(graph, compiled.rewriting.shapes)

    def build(other: Loaded, folder: Path) -> None:
        alike = replace(request, engine=runs_on.name)
        plan, options = compiled.plan, request.options
        likewise = lower(other, options, source_plan(other), plan.title)
        _emitted(other, likewise, alike, folder)

    shapes, sizes = compiled.rewriting.shapes, telling_sizes(loaded.model)
    table = reference(graph, shapes, sizes, request.options.level == 0)
    validation = Validation(draft, table)
    found = check_package(draft, loaded, graph, given, build, validation)
    if "differs" in validation.found and given is None:
        parity.verify(draft, loaded, None, _MORE_SEEDS)
    if runs_on.name == AUTO and TRACED in runs_on.candidates():
        try:
            parity.verify(draft, loaded, given, None if given else (0,), TRACED)
        except VerificationError as error:
            reason = one_line(error.what, 200)
            runs_on = replace(runs_on, failed=((TRACED, reason),))
            write_beside(draft, compiled, runs_on)
    return found, runs_on, validation.found


def _generating(
    loaded: Loaded,
    compiled: CompiledModel,
    request: CompileRequest,
    draft: Path,
    report: dict[str, Any],
) -> dict[str, Any]:
    """Write what generates tokens, of a decoder; returns what the report has of it,
    and enters into its certificate what generate.py counts on."""
    graph, plan = compiled.graph.graph, compiled.plan
    sizes = dynamic_sizes(loaded.model)
    decoder = find_decoder(graph, compiled.rewriting.shapes, sizes)
    if decoder is None:
        return {}
    nested = bool(plan.interface.nested)

    def write(layout: Layout) -> None:
        write_generation(draft, decoder, layout, nested)

    if not request.verify:
        layout = first_layout(decoder)
        write(layout)
        return {"generation": layout.as_dict()}
    inputs = first_feed(loaded.model, request.inputs)
    try:
        divided = request.parallel is not None
        layout = find_layout(draft, decoder, graph, inputs, write, divided)
    except VerificationError as error:
        for name in GENERATION:
            (draft / name).unlink(missing_ok=True)
        return {"generation": {"refused": error.what}}
    report["certificate"]["generation"] = layout.certificate
    return {"generation": layout.as_dict()}


def _lanes_if_worth_it(
    loaded: Loaded, compiled: CompiledModel, request: CompileRequest, progress: Progress
) -> CompiledModel:
    """The same, without its lanes where the package that has none is as good."""
    divided, plan, options = compiled.divided, compiled.plan, request.options
    assert divided is not None
    measures = request.verify and (options.lanes == "auto" or options.profile)
    if not (measures or options.lanes == "auto") and divided.settled() is divided:
        return compiled
    alone = lower(loaded, replace(options, lanes=None), plan.source, plan.title)
    divided = replace(divided, rival=_engine(loaded, alone, request).name)
    if measures:
        progress("measure lanes")
        refuse_huge(compiled.graph, compiled.rewriting.shapes)
        feed = first_feed(loaded.model, request.inputs)
        serial, lanes = (
            partial(_emitted, loaded, one, request) for one in (alone, compiled)
        )
        divided = measured(divided, serial, lanes, feed)
    divided = divided.settled()
    return replace(compiled if divided.forks else alone, divided=divided)


def _recalled(
    key: str, loaded: Loaded, request: CompileRequest, draft: Path, progress: Progress
) -> dict[str, Any] | None:
    """The report of a package that was written before, and now is with these weights;
    None if there is none, or it doesn't verify."""
    progress("recall")
    entry = recall(key, loaded)
    if entry is None:
        return None
    report = entry.write(draft)
    generation = report["certificate"].get("generation")
    untried = "generation" in report and (generation is not None) != request.verify
    found = report["emission"]
    if untried or (request.verify and (found is None or "differs" in found)):
        empty(draft)  # what was tried or compared isn't what is asked for
        return None
    report["emission"] = recalled(found, loaded.sha256) if request.verify else None
    write_report(draft, report)
    if request.verify:
        progress("verify")
        try:
            found = parity.verify(draft, loaded, request.inputs)
            if generation is not None:
                feed = first_feed(loaded.model, request.inputs)
                confirm_layout(draft, generation, feed)
        except VerificationError:
            empty(draft)
            return None
        note_verification(report, found)
    return report
