"""What was rewritten, where and why: one record per application."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir

from ..adapters.provenance import Origins
from ..language.exactness import Exactness
from ..language.rule import Rule
from ..recognition.recognise import CLASSES
from ..recognition.recognition import Recognition
from .bindings import spelled
from .match import Match
from .rounding_bounds import roundings

# The phase of steps that are weighed together, see layout.py.
LAYOUT = "layout"


@dataclass(frozen=True)
class Application:
    """One application of a rule, as the certificate lists it."""

    rule: str
    hash: str
    exactness: Exactness
    before: tuple[str, ...]  # names of the nodes that the left side stood for
    results: tuple[str, ...]  # names of the values that were replaced
    after: tuple[str, ...]  # operator and name of each new node
    symbols: dict[str, str]
    evidence: tuple[str, ...]  # each precondition, as it was found to hold
    reordered: bool  # a chain stood in another order than in the law
    roundings: tuple[int, int] | None = None  # of both sides, see rounding_bounds.py
    sweep: int = 0  # the catalogue is gone through until nothing applies
    phase: str = ""
    # Of `before`, see provenance.py.
    origins: Origins = field(default_factory=Origins, compare=False)

    def as_dict(self, proof: str) -> dict[str, Any]:
        """As it stands in the certificate; `proof` names the proof of the law."""
        found: dict[str, Any] = {
            "rule": self.rule,
            "proof": proof,
            "sweep": self.sweep,
            "phase": self.phase,
            "exactness": self.exactness.value,
            "before": list(self.before),
            "results": list(self.results),
            "after": list(self.after),
            "symbols": self.symbols,
            "evidence": list(self.evidence),
        }
        if self.reordered:
            found["reordered"] = True
        if self.roundings is not None:
            found["roundings"] = list(self.roundings)
        return found


def describe(
    match: Match,
    exactness: Exactness,
    nodes: tuple[Sequence[ir.Node], Sequence[ir.Node]],
    origins: Origins,
    when: tuple[int, str],
) -> Application:
    """The record of an application.

    `nodes` are those matched and the new ones, `when` is the sweep and the phase.
    """
    (matched, new), (sweep, phase) = nodes, when
    binding, law = match.binding, match.rule.law
    if binding.reassociated and exactness in _STRONGER_THAN_RING:
        exactness = Exactness.RING
    return Application(
        rule=match.rule.name,
        hash=match.rule.hash,
        exactness=exactness,
        before=tuple(node.name or "" for node in matched),
        results=tuple(root.name or "" for root in match.roots),
        after=tuple(f"{node.op_type} {node.name}" for node in new),
        symbols={
            name: _shown(binding.symbols[name])
            for name in law.symbols
            if name in binding.symbols
        },
        evidence=_evidence(match.rule),
        reordered=binding.reassociated,
        roundings=_roundings(match) if exactness in _BOUNDED else None,
        sweep=sweep,
        phase=phase,
        origins=origins,
    )


def describe_recognised(
    found: Recognition,
    nodes: tuple[Sequence[ir.Node], Sequence[ir.Node]],
    origins: Origins,
    when: tuple[int, str],
) -> Application:
    """The record of an operator that took the place of its definition."""
    (matched, new), (sweep, phase) = nodes, when
    return Application(
        rule=found.name,
        hash="",
        exactness=CLASSES[found.name],
        before=tuple(node.name or "" for node in matched),
        results=(found.root.name or "",),
        after=tuple(f"{node.op_type} {node.name}" for node in new),
        symbols={},
        evidence=(found.evidence,),
        reordered=False,
        sweep=sweep,
        phase=phase,
        origins=origins,
    )


def _roundings(match: Match) -> tuple[int, int] | None:
    known = match.binding.facts.roundings
    if match.question is not None and match.question in known:
        return known[match.question]
    found = roundings(match.rule.law, match.binding)
    if match.question is not None and not match.binding.looked:
        known[match.question] = found
    return found


_BOUNDED = {Exactness.ORDER, Exactness.RING, Exactness.REAL}
_STRONGER_THAN_RING = {
    Exactness.BITWISE,
    Exactness.ZERO_SIGN,
    Exactness.FINITE,
    Exactness.FINITE_ZERO_SIGN,
    Exactness.ORDER,
}


def _shown(symbol: Any) -> str:
    if isinstance(symbol, int | str):
        return str(symbol)
    if isinstance(symbol, frozenset):
        return str(sorted(symbol))
    if isinstance(symbol, tuple):
        return "[" + ", ".join(map(str, symbol)) + "]"
    if isinstance(symbol, ir.Node):
        return symbol.op_type
    return str(float(symbol) if isinstance(symbol, np.floating) else symbol)


@cache
def _evidence(rule: Rule) -> tuple[str, ...]:
    return tuple(
        f"{_recounted(spelled(each))} holds for the sizes and constants of the graph"
        for each in rule.law.requires
    )


def _recounted(text: str) -> str:
    """A condition whose bound places are k0, k1 ...: what they are counted from is how
    many laws were read before."""
    names: dict[str, str] = {}
    return re.sub(r"\bk:\d+", lambda k: names.setdefault(k[0], f"k{len(names)}"), text)
