"""Inputs that ONNX Runtime accepts: given ones, or random ones that suit the graph.

Where it refuses those that were read off the graph, others are tried: sizes that its
message names, sizes of the weights, whole numbers that may be indices.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from ...analysis.errors import FairhandError, LoadError, VerificationError
from ...analysis.literals import message_line, one_line
from ...analysis.ops.node_view import sizes_option
from ...analysis.oracle.process import RunFailed, Session
from .input_sizes import complete, decoding_sizes, dynamic_sizes, free_inputs
from .inputs import elements, make_inputs, optional_inputs, read_given

SEEDS = (0, 1)
MOST_TEXT = 2000  # characters of a message of ONNX Runtime

_MOST_ELEMENTS = 2**24  # of a try that is not the first
_MOST_TRIES = 200
_OURS_S, _BY_THE_CLOCK_S = 30, 240  # of processor time, as a machine may be busy
_LONG_SIZES = (4096, 32768)  # what cuts a signal in windows, and those in others
_LARGEST_SIZE = 4096
_RANKS = (3, 4, 2, 1, 5)  # in the order of how common they are

Feed = Mapping[str, Any]
Sizes = dict[str, int]


@dataclass(frozen=True)
class Case:
    """One run of the model: what was fed, and what ONNX Runtime made of it."""

    label: str  # "seed 0, batch=2" or a file's name
    feed: Feed
    expected: list[Any]


@dataclass
class Cases:
    """The runs to compare, the sizes they have, and what ONNX Runtime refused."""

    runs: list[Case] = field(default_factory=list)
    sizes: list[Sizes] = field(default_factory=list)  # of random inputs
    skipped: list[str] = field(default_factory=list)

    def attempt(self, session: Session, label: str, feed: Feed) -> str:
        """Run a feed and keep what comes out; the message if it is refused."""
        try:
            self.runs.append(Case(label, feed, session.run(None, dict(feed))))
        except RunFailed as error:
            return message_line(str(error), MOST_TEXT)
        return ""


def find_cases(
    session: Session,
    model: ir.Model,
    given: Path | None,
    seeds: Sequence[int] | None = None,
) -> Cases:
    """Runs of the model on the inputs given, else on random ones at several sizes.

    Where both inputs and seeds are given, on both. Raises VerificationError where ONNX
    Runtime refuses the inputs given, or all random ones that were tried.
    """
    found = Cases()
    if given is not None:
        refused = found.attempt(session, given.name, _read(model, given))
        if refused:
            raise _refusal(given.name, refused, "--inputs FILE.npz has to suit it")
        if not seeds:
            return found
    seeds = seeds or SEEDS
    first, *others = dynamic_sizes(model)

    def refusal(seed: int, sizes: Sizes) -> str:
        label, feed = _label(seed, sizes), make_inputs(model, seed, sizes)
        return found.attempt(session, label, feed)

    refused = refusal(seeds[0], first)
    if refused:
        accepted = _search(found, session, model, seeds[0], refused)
        if accepted is None:
            raise _refusal(_label(seeds[0], first), refused, _advice(model))
        model, first = accepted
    found.sizes.append(first)
    feed = found.runs[-1].feed
    for name in optional_inputs(model):
        label = f"{_label(seeds[0], first)}, no {one_line(name)}"
        _skip(found, label, found.attempt(session, label, {**feed, name: None}))
    others += [
        sizes for sizes in decoding_sizes(model) if sizes not in (first, *others)
    ]
    plan = [(seed, first) for seed in seeds[1:]] + [(seeds[0], more) for more in others]
    for seed, sizes in plan:
        refused = refusal(seed, sizes)
        _skip(found, _label(seed, sizes), refused)
        if not refused and sizes not in found.sizes:
            found.sizes.append(sizes)
    return found


def case_at(session: Session, model: ir.Model, sizes: Sizes) -> Case | None:
    """A run at some sizes, the others being those of the first try; None where ONNX
    Runtime refuses it."""
    found, sizes = Cases(), complete(model, sizes)
    label = _label(SEEDS[0], sizes)
    found.attempt(session, label, make_inputs(model, SEEDS[0], sizes))
    return found.runs[0] if found.runs else None


def first_feed(model: ir.Model, given: Path | None) -> Feed:
    """The inputs that a package is verified on first, if they are not refused."""
    if given is not None:
        return _read(model, given)
    return make_inputs(model, SEEDS[0], dynamic_sizes(model)[0])


def _read(model: ir.Model, given: Path) -> Feed:
    names = [value.name or "" for value in free_inputs(model)]
    found = read_given(given, names)
    needed = [name for name in names if name not in optional_inputs(model)]
    if missing := [name for name in needed if name not in found]:
        raise LoadError(
            f"it holds {_listed(found)}, and not the inputs {_listed(missing)}",
            str(given),
            hint="call each array after its input",
        )
    return {name: found[name] for name in names if name in found}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(one_line, names)) or "nothing"


def _skip(found: Cases, label: str, refused: str) -> None:
    if refused:
        found.skipped.append(f"{label}: {refused}")


def _label(seed: int, sizes: Mapping[str, int]) -> str:
    text = ", ".join(f"{k}={v}" for k, v in sizes.items())
    return f"seed {seed}" + (f", {one_line(text)}" if text else "")


def _refusal(label: str, message: str, hint: str) -> VerificationError:
    return VerificationError(
        f"ONNX Runtime can't run this model on {label}: {message}", hint=hint
    )


def _advice(model: ir.Model) -> str:
    """What a user can do: name sizes where some are open, else give inputs."""
    rather = "give sensible inputs with --inputs FILE.npz, or --no-verify"
    option = sizes_option(free_inputs(model))
    return f"fix sizes with --shape {option}, or {rather}" if option else rather


def _search(
    found: Cases, session: Session, model: ir.Model, seed: int, refused: str
) -> tuple[ir.Model, Sizes] | None:
    """Shapes and sizes that ONNX Runtime accepts; None if none is found in time."""
    ours, end = time.process_time() + _OURS_S, time.monotonic() + _BY_THE_CLOCK_S
    for shaped, sizes, feed in islice(_attempts(model, seed, refused), _MOST_TRIES):
        if time.process_time() > ours or time.monotonic() > end:
            break
        if not found.attempt(session, _label(seed, sizes), feed):
            return shaped, sizes
    return None


def _attempts(
    model: ir.Model, seed: int, refused: str
) -> Iterator[tuple[ir.Model, Sizes, Feed]]:
    """Other sizes than the first; for some, and for 1, other whole numbers too."""
    tried_before = dynamic_sizes(model)[0]
    for shaped in _with_ranks(model):
        seen: list[Sizes] = []
        for tried in _other_sizes(shaped, refused):
            if tried in seen:
                continue
            seen.append(tried)
            if seen[1:] and elements(shaped, tried) > _MOST_ELEMENTS:
                continue
            try:
                feed = make_inputs(shaped, seed, tried)
            except FairhandError:  # too large to make, and no answer to the refusal
                continue
            if shaped is not model or tried != tried_before:
                yield shaped, tried, feed
            for number in (1, 0) if len(seen) <= 3 or {*tried.values()} == {1} else ():
                plain = {k: _whole(value, number) for k, value in feed.items()}
                if any(plain[k] is not feed[k] for k in feed):
                    yield shaped, tried, plain


def _with_ranks(model: ir.Model) -> Iterator[ir.Model]:
    """The model; if inputs declare no rank, also with each that they may have."""
    unknown = [v.name for v in free_inputs(model) if v.shape is None]
    for rank in _RANKS if unknown else ():
        shaped = model.clone()
        for value in shaped.graph.inputs:
            if value.name in unknown:
                value.shape = ir.Shape([None] * rank)
        yield shaped
    yield model


def _other_sizes(model: ir.Model, refused: str) -> Iterator[Sizes]:
    sizes, *others = dynamic_sizes(model)
    yield from (sizes, *others, *decoding_sizes(model))
    for number, key in product(_LONG_SIZES, sizes):
        yield complete(model, {**sizes, key: number})
    refused = re.sub(r"\.(cc|h):\d+", "", refused)  # a line of ONNX Runtime's source
    said = [
        int(number) for number in re.findall(r"(?<![\w.])\d{1,4}(?![\w.])", refused)
    ]
    for number in dict.fromkeys([*said, *_stored_sizes(model), 1]):
        if not 0 < number <= _LARGEST_SIZE:
            continue
        for key in sizes:
            if sizes[key] != number:
                yield complete(model, {**sizes, key: number})
        yield complete(model, dict.fromkeys(sizes, number))


def _stored_sizes(model: ir.Model) -> Iterable[int]:
    """The sizes that weights have."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    shapes = [tensor.shape.numpy() for tensor in tensors if tensor is not None]
    return dict.fromkeys(size for shape in shapes[:100] for size in shape)


def _whole(value: Any, number: int) -> Any:
    """The value, or if its elements are whole numbers, another of one number."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size:
        return np.full_like(value, number)
    return value
