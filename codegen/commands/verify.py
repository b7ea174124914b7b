"""`fairhand verify`: a package is compared with its model again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...analysis.errors import FairhandError, VerificationError
from ...analysis.literals import shown
from ...rewrites.certificate.rule_file import RuleFile, read_rules
from ...rewrites.simplify import simplify
from ..compare.status import missing_files, model_of
from ..emit.kept_edits import MODEL, STORED, edited_files, edited_places
from ..emit.package_files import WEIGHTS, of_package, read_report
from ..engines.choose import takes_images
from ..export.onnx_file import export
from ..load.read_model import Loaded, load
from ..validate.reference import Reference, reference
from ..validate.verdict import (
    Results,
    Validation,
    difference,
    emission_line,
    is_of_fewer_sizes,
)
from ..verify import parity
from ..verify.input_sizes import complete, decoding_sizes, dynamic_sizes, telling_sizes
from ..verify.inputs import make_inputs

_SEEDS = 2  # of inputs of each size that results are compared on


def verify_again(
    package: Path,
    model: Path | None,
    inputs: Path | None,
    seeds: int | None,
    rules: Path | None = None,
    by_results: bool = False,
) -> list[str]:
    """What was compared, line by line, with so many random inputs of each size, and the
    verdict for all inputs.

    `model` and `rules` as for `verify_all_inputs`. An edited model.py whose calls are
    other ones is accepted `by_results` that are as before (results.py). Raises
    VerificationError where the two differ, FairhandError for another model.
    """
    loaded = _loaded(package, model)
    own = read_report(package).get("certificate", {}).get("rules")
    validation = None
    if own is None or rules is not None:
        is_edited = MODEL in edited_files(package)
        validation = _validation(package, loaded, rules, is_edited)
    images = validation is not None and validation.reference.images
    results = _results(package, loaded, images)
    drawn = range(seeds) if seeds else None
    with _laid_to_edits(package):
        then = validation, results if by_results else None
        found = parity.verify(package, loaded, inputs, drawn, then=then)
        if results is not None and by_results:
            results.refuse_others()
        if validation is not None:
            if results is not None:
                _settle(package, validation, results)
            _refuse_others(package, validation, found, None if by_results else results)
    lines = []
    for case in found.cases:
        worst = max((e for _, e in case.errors), default=0.0)
        lines.append(f"{case.inputs}: relative error {worst:.3g}")
    lines += [f"skipped, ONNX Runtime refuses {text}" for text in found.skipped]
    lines.append(emission_line(None if validation is None else validation.found))
    lines += [results.line] if results is not None and results.agree else []
    if MODEL in edited_files(package):
        lines.append("in evaluation mode: what runs in training alone isn't compared")
    return [*lines, f"worst relative error {found.worst:.3g}: verified"]


def _text_as_written(package: Path) -> str:
    text = read_report(package).get("source_map", {}).get("text")
    if text is None:
        raise FairhandError(f"the report of {package} has no text of model.py")
    return str(text)


def _results(package: Path, loaded: Loaded, images: bool) -> Results | None:
    """A comparison of what is computed now with what was as written, if model.py was
    edited: at sizes that are tried elsewhere, and at one and none of each."""
    if MODEL not in edited_files(package):
        return None
    model, feeds = loaded.model, {}
    first, *others = [*dynamic_sizes(model), *decoding_sizes(model)]
    ends = [dict.fromkeys(first, 1)]
    ends += [complete(model, {**first, name: 0}) for name in first]
    for seed in range(_SEEDS):
        for sizes in (first, *others, *ends):
            text = ", ".join(f"{name}={size}" for name, size in sizes.items())
            feed = make_inputs(model, seed, sizes)
            feeds[f"seed {seed}, {text}"] = list(feed.values())
    return Results(package, _text_as_written(package), feeds, images)


def _settle(package: Path, validation: Validation, results: Results) -> None:
    """Of an edited model.py that makes other calls than the graph: what results say of
    it and, where they agree, whether model.py as written is both the graph and what
    proven laws make of what PyTorch exports of it as it is now. If so, that is what
    `validation` has found: for the sizes at which it was written, as the edit, which
    was followed with symbols for them, decides by no more of them."""
    if not validation.found["validated"] and not results.found:
        parity.run_package(package, [], then=[results])
    where = validation.found.get("differs", {}).get("where")
    agree = results.agree and not results.found["keeps"]
    if where is None or not agree or WEIGHTS in edited_files(package):
        return
    right, text = validation.reference, _text_as_written(package)
    try:
        with TemporaryDirectory() as folder:
            export(package, None, path := Path(folder) / "edited.onnx")
            now = _reference(load(path), read_report(package).get("certificate", {}))
        both = [Validation(package, each, written=text) for each in (right, now)]
        parity.run_package(package, [], then=both)
    except FairhandError:
        return  # it can't be exported, or not spelled again
    before, after = (each.found for each in both)
    if not before["validated"] or not after["validated"] or now.inputs != right.inputs:
        return
    known = {*before["where"], *before["takes"]}
    if known.issuperset(where) and not is_of_fewer_sizes(after, before):
        validation.found = {**before, "by_laws": True}


def _refuse_others(
    package: Path,
    validation: Validation,
    found: parity.Verification | None = None,
    results: Results | None = None,
) -> None:
    """Raise VerificationError where model.py makes other calls than the graph, or, as
    edited, can't be followed any more, or is it at fewer sizes. That `found` agrees is
    enough without `results`, which were compared else."""
    before = read_report(package).get("emission") or {}
    now, was_shown = validation.found, before.get("validated")
    edited = edited_files(package)
    if MODEL not in edited and (found is None or "differs" not in before):
        validation.refuse_other_calls()
    if results and ("differs" in now or (was_shown and not now["validated"])):
        what = "it can't be followed: " + now.get("reason", "")
        if "differs" in now:
            what = f"it makes other calls than the graph: {difference(now['differs'])}"
        if not results.agree:
            raise VerificationError(f"model.py {results.others}; {what}")
        raise VerificationError(
            f"not decided of model.py: {what}",
            hint=f"results agree on {results.found['inputs']} inputs: it may be another"
            " spelling of the same, and --by-results takes their word for it",
        )
    if edited and now["validated"] and was_shown and is_of_fewer_sizes(now, before):
        since = f"; {now['since']}" if "since" in now else ""
        raise VerificationError(
            f"model.py is the graph at some sizes alone: {emission_line(now)}{since}",
            hint="as written, it made them at all sizes",
        )


@contextmanager
def _laid_to_edits(package: Path) -> Iterator[None]:
    """Say where a package was edited, if it no longer is what was verified."""
    try:
        yield
    except VerificationError as error:
        places = edited_places(package)
        if not places:
            raise
        hint = error.hint
        if isinstance(error, parity.PackageFailed):
            hint = STORED if WEIGHTS in places else "it ran as it was written"
        elif not hint or "fault in fairhand" in hint:
            hint = (
                "results that were meant to change can't agree: fairhand diff says"
                " what the edit did"
            )
        where = f"{package}, edited: {places}"
        raise VerificationError(error.what, where, hint) from None


def verify_all_inputs(
    package: Path, model: Path | None, rules: Path | None = None
) -> str:
    """The verdict on model.py, as it is now, for all inputs, in a line.

    `model` is the package's, by default the file of its name in the package's folder or
    the two above; `rules` is the file of own laws that it was compiled with. An edited
    model.py also runs, on few inputs: it may do something else where nobody records it.
    Raises VerificationError where model.py makes other calls than the model's graph, or
    has other results, FairhandError for another model.
    """
    loaded = _loaded(package, model)
    validation = _validation(package, loaded, rules, True)
    results = _results(package, loaded, validation.reference.images)
    with _laid_to_edits(package):
        parity.run_package(package, [], then=(validation, results))
        if results is not None:
            _settle(package, validation, results)
        _refuse_others(package, validation, None, results)
        if results is not None:
            results.refuse_others()
    others = [name for name in edited_files(package) if name not in (MODEL, WEIGHTS)]
    beside = f"; not compared, and edited: {', '.join(others)}" if others else ""
    return emission_line(validation.found) + beside


def _loaded(package: Path, model: Path | None) -> Loaded:
    source = read_report(package)["source"]
    model = model or model_of(package, source)
    if model is None:
        raise FairhandError(
            f"{shown(source['file'])} isn't near {package}",
            hint="give the model as well: fairhand verify PACKAGE MODEL",
        )
    if missing := missing_files(package):
        raise FairhandError(
            f"{package} lacks {', '.join(missing)}",
            hint="compile its model again: that writes what is missing",
        )
    return of_package(package, load(model))


def _validation(
    package: Path, loaded: Loaded, rules: Path | None, ends: bool
) -> Validation:
    certificate = read_report(package).get("certificate", {})
    if "rules" in certificate and rules is None:
        raise FairhandError(
            f"{package} was compiled with the laws of {certificate['rules']}",
            hint="give them: --rules FILE",
        )
    own = read_rules(rules) if rules is not None else None
    table = _reference(loaded, certificate, own)
    written = _text_as_written(package) if MODEL in edited_files(package) else ""
    return Validation(package, table, ends, written)


def _reference(
    loaded: Loaded, certificate: Mapping[str, Any], own: RuleFile | None = None
) -> Reference:
    """What a model stands for, rewritten as a package's certificate says."""
    level, graph = certificate.get("level", 1), loaded.model.clone()
    exactness = certificate.get("exactness", "real")
    shapes = simplify(graph, exactness, own, level=level).shapes
    table = reference(graph, shapes, telling_sizes(loaded.model), level == 0)
    table.images = takes_images(graph, shapes)
    return table
