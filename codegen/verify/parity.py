"""Parity: the emitted package against ONNX Runtime with optimisation off.

The package runs in a fresh process that imports it alone. Inputs are given files first,
then random ones that suit the graph, at several sizes where dimensions are dynamic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.inliner import inline_local_functions

from ...analysis.errors import LoadError, VerificationError
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.graph.traversal import all_nodes
from ...analysis.graph.weightless import quiet, skeleton, to_proto
from ...analysis.literals import message_line, one_line
from ...analysis.ops.type_rules import known_to_onnx
from ...analysis.oracle.child import OUT_OF_MEMORY
from ...analysis.oracle.int8_overflow import NOTE, without_overflow
from ...analysis.oracle.process import (
    Apart,
    Limits,
    RunFailed,
    Session,
    available_memory,
)
from ...rewrites.folding.island import size_of
from ..emit.package_files import read_report
from ..load.random_outputs import drawn_outputs
from ..load.read_model import TEXTUAL, Loaded
from ..request.choices import AUTO
from .bisect import first_difference
from .feeds import MOST_TEXT, Case, find_cases
from .ill_conditioned import same_text, weight_noise, with_drawn_weights
from .rounding_noise import CONTINUOUS, Allowance, allowance, noise_text, own_noise
from .tolerances import COARSE, coarsest, compare_values

DRAWN = "output {}: drawn at random: only its type and shape were compared"
_CANNOT_LOAD = (
    "ONNX Runtime can't load this model, so there is nothing to compare with: "
)
TIME_LIMIT_S = 900
MOST_BYTES = 2**36  # of one value of a model that is run


@dataclass(frozen=True)
class CaseResult:
    """One run: the error of each output, relative to the largest magnitude."""

    inputs: str  # "seed 0, batch=2" or a file's name
    errors: tuple[tuple[str, float], ...]
    noise: tuple[tuple[str, float], ...] = ()  # of the model itself, where it mattered


@dataclass(frozen=True)
class Verification:
    """That a package agrees with ONNX Runtime: on what inputs, and how closely."""

    cases: tuple[CaseResult, ...]
    skipped: tuple[str, ...]  # sizes that ONNX Runtime refuses, random outputs
    allowance: Allowance = CONTINUOUS  # for the model's own noise
    coarse: Mapping[str, float] = field(default_factory=dict)  # allowed a float output
    # What outputs may be off that are ill-conditioned, and parity with other weights.
    unsteady: Mapping[str, float] = field(default_factory=dict)
    drawn_weights: Verification | None = None
    sizes: tuple[Mapping[str, int], ...] = ()  # of random inputs

    def tolerance(self, name: str, plain: float) -> float:
        """What was allowed for an output: `plain`, or more for a noisy model."""
        noise = max((dict(case.noise).get(name, 0.0) for case in self.cases), default=0)
        coarse = self.coarse.get(name, 0.0) if plain else 0.0
        return max(plain, coarse, self.allowance.of(noise))

    @property
    def worst(self) -> float:
        """The largest error of all, relative to the largest magnitude."""
        return max((e for case in self.cases for _, e in case.errors), default=0.0)

    def as_dict(self) -> dict[str, Any]:
        """As report.json has it."""
        unsteady: dict[str, Any] = {}
        if self.drawn_weights is not None:
            unsteady["unsteady"] = _rounded(self.unsteady.items())
            unsteady["with_drawn_weights"] = self.drawn_weights.as_dict()
        return {
            "oracle": f"onnxruntime {version('onnxruntime')}, optimisation off",
            "worst_relative_error": float(f"{self.worst:.3g}"),
            "cases": [
                {
                    "inputs": case.inputs,
                    "errors": _rounded(case.errors),
                    **({"noise": _rounded(case.noise)} if case.noise else {}),
                }
                for case in self.cases
            ],
            "skipped": list(self.skipped),
        } | unsteady


def summary(found: Mapping[str, Any] | None) -> str:
    """A line about the verification of a report."""
    if found is None:
        return "not verified (--no-verify)"
    drawn = found.get("with_drawn_weights")
    note = ", with drawn weights: its own leave the result to rounding" if drawn else ""
    runs = f"{len(found['cases'])} runs against {found['oracle']}"
    worst = (drawn or found)["worst_relative_error"]
    return f"{runs}: worst relative error {worst}{note}"


def _rounded(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    return {name: float(f"{value:.3g}") for name, value in pairs}


def oracle(model: str | bytes, threads: int = 0) -> Session:
    """ONNX Runtime on the CPU, every optimisation off, in a process of its own.

    Raises VerificationError for what it can't load.
    """
    try:
        return Session(model, threads, _limits())
    except RunFailed as error:
        raise VerificationError(
            f"{_CANNOT_LOAD}{message_line(str(error), MOST_TEXT)}",
            hint="compile with --no-verify to write the package unchecked",
        ) from None


def refuse_misfits(loaded: Loaded) -> None:
    """Raise LoadError for types or sizes that don't fit each other: onnx says so, and
    ONNX Runtime doesn't load the model either."""
    found = misfit(loaded.model)
    if found:
        try:
            oracle(oracle_source(loaded))
        except VerificationError as error:
            refusal = error.what.removeprefix(_CANNOT_LOAD)
            raise LoadError(
                "the model's types or sizes don't fit each other",
                f"{found}; ONNX Runtime: {refusal}",
            ) from None


def _limits() -> Limits:
    available = available_memory()
    return Limits(TIME_LIMIT_S, None if available is None else available // 2)


def verify(
    package: Path,
    loaded: Loaded,
    given: Path | None = None,
    seeds: Sequence[int] | None = None,
    engine: str = "",
    unsteady: Mapping[str, float] | None = None,
    then: Sequence[Then | None] = (),
) -> Verification:
    """Compare a package with its ONNX file.

    `given` is a file of inputs, `seeds` are those of random ones (two, where neither is
    given), `engine` is the package's own unless named. Of outputs that are drawn at
    random, types and shapes are compared. `unsteady` is how far an output may be off
    since its weights make it hang on their last bits (ill_conditioned.py), by default
    as the report says; `then` runs in the package's process. Raises VerificationError.
    """
    model = loaded.model
    drawn, allowed = drawn_outputs(model), allowance(model)
    report = read_report(package)
    if report["engine"]["name"] == AUTO:  # which compares all others with this one
        engine = engine or "eager"
    coarse, load = _coarse(report, model), _oracle_for(model)
    if unsteady is None:
        unsteady = (report["verification"] or {}).get("unsteady", {})
    source, session, changed = _opened(loaded, load)
    cases = find_cases(session, model, given, seeds)
    try:
        results = run_package(package, [c.feed for c in cases.runs], engine, then)
    except VerificationError as error:
        error.feed, error.expected = cases.runs[0].feed, cases.runs[0].expected
        raise
    names = [tensor.name for tensor in session.get_outputs()]
    skipped = [*cases.skipped, *changed] + [
        DRAWN.format(one_line(name)) for name in names if name in drawn
    ]
    found, hanging = [], dict[str, float]()
    for case, actual in zip(cases.runs, results, strict=True):
        errors, noise = list[tuple[str, float]](), dict[str, float]()
        feed, expected = case.feed, case.expected
        for name, got, want in zip(names, actual, expected, strict=True):
            if name in drawn and np.shape(got) == np.shape(want):
                want = got.astype(np.asarray(want).dtype)
            distance, reason = compare_values(*_of_one_type(got, want))
            if reason and np.isfinite(distance):
                noise = noise or own_noise(source, session, load, feed, expected)
                most = max(coarse[name], allowed.of(noise[name]))
                if most < distance <= unsteady.get(name, 0):
                    hanging[name] = most = unsteady[name]
                note = f"{reason}; {noise_text(noise[name], most)}"
                reason = "" if distance <= most else note
            if reason:
                raise _mismatch(case, name, distance, reason)
            if name not in drawn:
                errors.append((name, distance))
        found.append(CaseResult(case.label, tuple(errors), tuple(noise.items())))
    _refuse_only_nan(cases.runs)
    return Verification(
        tuple(found), tuple(skipped), allowed, coarse, hanging, sizes=tuple(cases.sizes)
    )


def _of_one_type(got: Any, want: Any) -> tuple[Any, Any]:
    """What NumPy has no type for, a Session gives as bits, or wider (types.py)."""
    kind = want.dtype if isinstance(want, np.ndarray) else None
    if kind is None or kind.isbuiltin != 2 or not isinstance(got, np.ndarray):
        return got, want
    if got.dtype.kind == "u" and not kind.name.startswith("u"):
        return got.view(kind), want
    return got, want.astype(got.dtype)


def _refuse_only_nan(cases: Sequence[Case]) -> None:
    """What is wrong gives NaN too: where all is NaN, nothing was compared."""
    values = [x for case in cases for x in case.expected]
    floats = (x for x in values if isinstance(x, np.ndarray) and x.dtype.kind == "f")
    if 0 < sum(bool(x.size and np.isnan(x).all()) for x in floats) == len(values):
        labels = ", ".join(one_line(case.label) for case in cases)
        raise VerificationError(
            f"ONNX Runtime's results are nothing but NaN on {labels}",
            hint="give inputs with numbers: --inputs FILE.npz",
        )


def _opened(
    loaded: Loaded, load: Callable[[str | bytes], Session]
) -> tuple[str | bytes, Session, tuple[str, ...]]:
    """What ONNX Runtime runs, a session of it, and what is to be said of that."""
    exact = without_overflow(loaded.model)
    if exact is not None:
        with suppress(VerificationError):  # not all of its versions take all of these
            return exact, load(exact), (NOTE,)
    source = oracle_source(loaded)
    try:
        return source, load(source), ()
    except VerificationError:
        refuse_misfits(loaded)
        raise


def _mismatch(case: Case, name: str, distance: float, reason: str) -> VerificationError:
    where = f"output {one_line(name)} differs from ONNX Runtime on {case.label}"
    error = VerificationError(f"{where}: {reason}")
    error.feed, error.expected, error.off = case.feed, case.expected, {name: distance}
    return error


def oracle_source(loaded: Loaded) -> str | bytes:
    """What ONNX Runtime loads: the file, or a model that is in memory or text alone."""
    if loaded.path is not None and loaded.path.suffix != TEXTUAL:
        return str(loaded.path)
    return to_proto(loaded.model).SerializeToString()


def _oracle_for(model: ir.Model) -> Callable[[str | bytes], Session]:
    """With one thread where each would round its share of a batch by its own range."""
    kinds = {node.op_type for node in all_nodes(model.graph)}
    return partial(oracle, threads=1) if "DynamicQuantizeLSTM" in kinds else oracle


Build = Callable[[Loaded, Path], object]
Then = Callable[[Apart, Sequence[Mapping[str, Any]]], None]


def _coarse(report: Mapping[str, Any], model: ir.Model) -> dict[str, float]:
    """What each output is allowed for the bits that it is computed in."""
    chosen = COARSE.get(report.get("engine", {}).get("precision"), 0.0)
    return {name: max(chosen, own) for name, own in coarsest(model).items()}


def check_package(
    package: Path,
    loaded: Loaded,
    graph: ir.Model,
    inputs: Path | None,
    build: Build,
    then: Then | None = None,
) -> Verification:
    """Compare a package with its model; `build` writes one of another model likewise.

    `graph` is the rewritten one that the package was written from, `inputs` a file of
    sample inputs, `then` as in `verify`. Raises VerificationError, which names the
    first node that differs.
    """
    try:
        return verify(package, loaded, inputs, then=[then])
    except VerificationError as error:
        if error.feed is None or isinstance(error, OutOfMemory):
            raise
        with suppress(Exception):  # the mismatch itself is what the user must hear of
            found = _with_drawn_weights(package, loaded, inputs, build, error)
            if found is not None:
                return found
        where = first_difference(graph, error.feed, error.expected)
        if not where:
            raise
        raise VerificationError(error.what, where, error.hint) from None


def _with_drawn_weights(
    package: Path,
    loaded: Loaded,
    inputs: Path | None,
    build: Build,
    error: VerificationError,
) -> Verification | None:
    """Parity with other weights, where the model's own forbid it; else None."""
    assert error.feed is not None
    noise = weight_noise(loaded, oracle, error.feed, error.expected)
    if not any(noise[name] >= off for name, off in error.off.items() if name in noise):
        return None
    other = with_drawn_weights(loaded)
    assert other is not None
    with TemporaryDirectory() as folder:
        build(other, Path(folder))
        if not same_text(Path(folder) / "model.py", package / "model.py"):
            return None
        drawn = verify(Path(folder), other)
    return replace(verify(package, loaded, inputs, unsteady=noise), drawn_weights=drawn)


def refuse_huge(model: ir.Model, shapes: ShapeFacts) -> None:
    """Raise VerificationError for what would take all memory, were it run."""
    found = huge_value(model, shapes)
    if found is not None:
        name, size = found
        raise VerificationError(
            f"'{one_line(name or '?')}' alone takes {size:,.0f} bytes, "
            "too much to run the model and compare",
            hint="compile with --no-verify to write the package unchecked",
        )


def huge_value(model: ir.Model, shapes: ShapeFacts) -> tuple[str | None, float] | None:
    """A value of known, absurd size, and its bytes; None if there is none."""
    made = [out for node in model.graph for out in node.outputs]
    for value in [*model.graph.initializers.values(), *made]:
        dims = shapes.dims(value) or ()
        if value.dtype is None or not all(isinstance(d, int) for d in dims):
            continue
        size = size_of(value.dtype, tuple(map(int, dims)))
        if size > MOST_BYTES:
            return value.name, size
    return None


class PackageFailed(VerificationError):
    """A package can't be loaded, or can't run."""


class OutOfMemory(VerificationError):
    """There is too little memory to run a package, which says nothing of it."""


def run_package(
    package: Path,
    feeds: list[Mapping[str, Any]],
    engine: str = "",
    then: Sequence[Then | None] = (),
) -> list[list[Any]]:
    """Outputs of the package's Session for each feed, from a fresh process, in which
    more is done `then`. Raises VerificationError.
    """
    try:
        with Apart(package, engine, _limits()) as running:
            results = [running.run(list(feed.values())) for feed in feeds]
            for each in filter(None, then):
                each(running, feeds)
            return results
    except RunFailed as error:
        fault = "this is a fault in fairhand, not in the model; please report it"
        smaller = "try smaller inputs with --inputs FILE.npz"
        text = " ".join(str(error).split())  # PyTorch's lines
        if text == OUT_OF_MEMORY:
            raise OutOfMemory(
                "too little memory is free to run the emitted package and compare",
                hint="free some, or compile with --no-verify to write it unchecked",
            ) from None
        raise PackageFailed(
            f"the emitted package can't run: {message_line(text, 300)}",
            hint=smaller if error.fatal else fault,
        ) from None


_LARGE = 1024  # bytes of a tensor that decides nothing
_LONGEST = 300
_NUMBERS = [t for t in ir.DataType if t.is_floating_point() or t.is_integer()]
_NARROW = [t for t in _NUMBERS if t.bitwidth < 8 + t.is_floating_point()]


def misfit(model: ir.Model) -> str:
    """What onnx says of types or sizes that don't fit each other, and of which node; ""
    if they do. Its rules err in some places.

    onnx and ONNX Runtime refuse moving elements of types that NumPy lacks, which
    packages do: of files that take any, nothing is said.
    """
    if any(value.dtype in _NARROW for value in model.graph.inputs):
        return ""
    try:
        proto, _ = skeleton(model, _LARGE, noted=False)
        with quiet(), known_to_onnx(proto):
            for node in proto.graph.node:
                node.name = node.name or f"none, computes {', '.join(node.output)}"
            onnx.shape_inference.infer_shapes(
                inline_local_functions(proto) if proto.functions else proto,
                check_type=True,
                strict_mode=True,
            )
    except Exception as error:  # protobuf's, onnx's and the graph library's
        return one_line(str(error).strip(), _LONGEST)
    return ""
