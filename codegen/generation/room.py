"""How generate.py may call a decoder's network: laws that are tried, not proved.

Whether a network keeps to LAWS hangs on all that it computes from lengths, masks and
batches. So files are written that count on all of them, then on fewer, until they have
the scores that the network has with joined caches, of each row alone, read at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from ...analysis.errors import VerificationError
from ...analysis.graph.quantization import quantises
from ...analysis.graph.traversal import all_nodes, bodies
from ...analysis.literals import one_line
from ...analysis.oracle.process import Apart, Limits, RunFailed
from ..verify.parity import TIME_LIMIT_S
from ..verify.rounding_noise import LEAPING
from ..verify.tolerances import TOLERANCES
from .decoder import PLACES, Decoder
from .generate_files import Layout, first_layout

LAWS = {
    "in place": "Concat(Slice(c, 0, n), x) = Slice(Scatter(c, n, x), 0, n + 1)",
    "masked": "Attention(q, Slice(k), Slice(v), m) = Attention(q, k, v, Pad(m, -inf))",
    "in parts": "step(a + b, c)[behind a + b] = step(b, cache of step(a, c))[behind b]",
    "by rows": "step(rows) = [step(row) for row in rows]",
}
_LIMITS = Limits(TIME_LIMIT_S)
_TRIAL = "fairhand.codegen.generation.trial:trial"
_NOISE = "fairhand.codegen.generation.trial:noise"


def find_layout(
    package: Path,
    decoder: Decoder,
    graph: ir.Graph,
    inputs: Mapping[str, Any],
    write: Callable[[Layout], None],
    divided: bool = False,
) -> Layout:
    """The first layout whose files, which `write` puts into a package's folder, have
    the network's own scores, or are off by no more than is allowed of the largest:
    where activations become integers, by what a bit of its weights moves them too.

    `graph` is what the package was written from, `inputs` are some of its network.
    Where it is `divided` among devices, what it is given are plain tensors, and no
    places that aren't in use stand behind those that are. Raises VerificationError
    where there is none.
    """
    for value in graph.inputs:
        name = value.name or ""
        if name in decoder.given and value.shape is not None and not value.shape:
            raise VerificationError(
                f"tokens can't be generated: {one_line(name)} is one number for all"
                " rows, which generate.py doesn't feed"
            )
    failed: list[tuple[float, str]] = []  # by how far scores are off, and why
    given = {"package": str(package), "inputs": {**inputs}, "sized": decoder.sized}
    leaps = any(map(quantises, all_nodes(graph)))
    try:
        with Apart(package, "eager", _LIMITS) as running:
            for layout in _layouts(decoder, graph):
                if divided and layout.room in ("behind", "counted"):
                    continue
                if divided and not layout.room:
                    layout = replace(layout, reason="several devices share it")
                write(layout)
                try:
                    tried = _tried(running, given, leaps)
                except RunFailed as error:
                    if error.fatal:
                        raise
                    failed.append((inf, one_line(str(error), 200)))
                    continue
                if _fits(tried):
                    return replace(layout, certificate=tried)
                failed.append((tried["error"], _off(tried)))
    except RunFailed as error:
        failed = [(inf, one_line(str(error), 200))]
    raise _refused(min(failed, key=itemgetter(0))[1])


def confirm_layout(
    package: Path, certificate: object, inputs: Mapping[str, Any]
) -> str:
    """Try again what a package's files count on; a line about it.

    `certificate` says what was found before, `inputs` are some of its network. Raises
    VerificationError where scores are off, or something else was said.
    """
    said = certificate if isinstance(certificate, dict) else {}
    try:
        with Apart(package, "eager", _LIMITS) as running:
            given = {"package": str(package), "inputs": {**inputs}, "sized": {}}
            tried = _tried(running, given, "noise" in said)
    except RunFailed as error:
        raise _refused(one_line(str(error), 200)) from None
    if not _fits(tried):
        raise _refused(_off(tried))
    if _claims(said) != _claims(tried):
        raise _refused("the certificate doesn't say what is counted on")
    prompts = " and ".join(map(str, tried["prompts"]))
    return (
        f"generate.py counts on {', '.join(tried['laws'])}: tried, not proved, on"
        f" prompts of {prompts} tokens and {tried['steps']} steps, off by"
        f" {tried['error']:.1e}"
    )


def _counted_on(how: Mapping[str, Any]) -> dict[str, str]:
    """Those of LAWS without which files that call a network so would be wrong."""
    spared = {
        "in place": how["returned"],
        "masked": not how["room"],
        "in parts": how["chunk"] == 0,
        "by rows": how["rows"] == 1,
    }
    return {name: law for name, law in LAWS.items() if not spared.get(name)}


def _claims(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of any machine: of errors, that they are small enough."""
    match certificate:
        case {"error": float(error), "allowed": float()} if isinstance(
            certificate.get("noise", 0.0), float
        ):
            found = {**certificate, "error": error >= 0 and _fits(certificate)}
            return {name: value for name, value in found.items() if name != "noise"}
    return {}


def _fits(tried: Mapping[str, Any]) -> bool:
    """Whether an error is allowed, if not as any network's, as this one's own noise."""
    allowed = max(tried["allowed"], LEAPING.of(tried.get("noise", 0.0)))
    return bool(tried["error"] <= allowed)


def _tried(running: Apart, given: dict[str, Any], leaps: bool) -> dict[str, Any]:
    found = running.call(_TRIAL, given)
    alone, shown = found["alone"], found["shown"]
    if not np.isfinite(alone).all():
        what = "the network's own scores of tokens drawn at random aren't all numbers"
        raise VerificationError(f"tokens can't be generated: {what}")
    with np.errstate(invalid="ignore"):
        distance = np.abs(alone - shown) / np.abs(alone).max()
    error = float(np.nan_to_num(distance, nan=np.inf).max())
    allowed = TOLERANCES.get(found["type"], 0.0)
    tried = {
        "laws": _counted_on(found["how"]),
        "evidence": "tried",
        "prompts": found["prompts"],
        "steps": alone.shape[1] - 1,
        "error": float(f"{error:.1e}"),
        "allowed": allowed,
    }
    if leaps:
        close = allowed < error <= LEAPING.worst
        tried |= running.call(_NOISE, given) if close else {"noise": 0.0}
    return tried


def _off(tried: Mapping[str, Any]) -> str:
    return f"scores are off by {tried['error']:.1e}"


def _refused(reason: str) -> VerificationError:
    return VerificationError(
        "tokens can't be generated: what the network computes at once is not what it"
        f" computes by its caches: {reason}"
    )


def _layouts(decoder: Decoder, graph: ir.Graph) -> Iterator[Layout]:
    """Those that count on all laws, then on fewer."""
    first = replace(
        first_layout(decoder), together=not any(cache.shape for cache in decoder.cross)
    )
    placed = any(PLACES in cache.shape for cache in decoder.caches)
    reason = "with more, its scores differ" if placed else "its caches are states"
    chosen = [node.inputs for node in all_nodes(graph) if bodies(node)]
    if any([x and x.name for x in by] != [decoder.branch] for by in chosen):
        reason = "it has branches or loops, which may hang on lengths"
    elif placed:
        rooms = ["before", "behind", "counted"] if decoder.mask else ["counted"]
        rooms = rooms if decoder.written is None else ["placed"]
        # Some take one token behind others, and prompts that have none before them.
        for chunk in dict.fromkeys([first.chunk, decoder.chunk]):
            for room in rooms:
                yield replace(first, chunk=chunk, room=room, reason="")
            if first.together:
                yield replace(
                    first, chunk=chunk, room=rooms[-1], together=False, reason=""
                )
    if first.together and not placed:
        yield replace(first, reason=reason)
    apart = replace(first, together=False, reason=reason)
    for returned in (False,) if decoder.grows else (False, True):
        if returned:
            apart = replace(apart, returned=True, reason="it drops some, as windows do")
        yield apart
        if not decoder.chunk:
            yield replace(apart, chunk=0)
        if not decoder.rows:
            yield replace(apart, chunk=decoder.chunk, rows=1)
