"""`fairhand prove`: the rules are proved again, and their mutants refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console

from ...analysis.errors import FairhandError
from ...analysis.lazy import lazy
from ...rewrites.certificate.proof_store import FILE, Verdict, save, stored_in
from ...rewrites.certificate.rule_file import place_of, read_rules
from ...rewrites.language.rule import Rule
from ...rewrites.rules.catalogue import RULES

# It needs z3, which isn't installed everywhere.
if TYPE_CHECKING:
    from ...rewrites import counterexample
    from ...rewrites.proof import prove
else:
    counterexample = lazy("...rewrites.counterexample", __package__)
    prove = lazy("...rewrites.proof.prove", __package__)


@dataclass(frozen=True)
class Proving:
    """How rules are proved: `write` stores the verdicts, `check` asks that these are
    stored. Those of the laws in `own` are stored unless they are to be checked."""

    jobs: int = 2
    write: bool = False
    check: bool = False
    own: Path | None = None


def prove_rules(names: list[str], how: Proving, out: Console) -> None:
    """Prove rules; raises FairhandError if one fails, or a mutant is proved."""
    if find_spec("z3") is None:
        raise FairhandError("proving needs z3", hint='pip install "fairhand[prove]"')
    own = read_rules(how.own) if how.own is not None else None
    everything: Sequence[Rule] = own.rules if own else RULES
    file = own.proofs if own else FILE
    chosen = [
        r for r in everything if not names or r.name in names or r.family in names
    ]
    if not chosen:
        raise FairhandError(f"no rule or family is called {' or '.join(names)}")
    verdicts, wrong = _verdicts(chosen, how, out)
    stored = stored_in(file)
    if how.write or (own and not how.check):
        kept = {v.rule: v for v in (*(stored.values() if names else ()), *verdicts)}
        rows = [kept[r.name] for r in everything if r.name in kept]
        save(rows, prove.z3_version(), file)
        stored = stored_in(file)
    stale = [v.rule for v in verdicts if stored.get(v.rule) != v] if how.check else []
    if stale:
        again = "fairhand prove " + (f"--rules {how.own}" if own else "--write")
        raise FairhandError(
            f"stored otherwise, or not at all: {', '.join(stale)}", hint=again
        )
    if wrong:
        places = (
            (place_of(own.path, r) for r in own.rules if r.name in wrong) if own else ()
        )
        where = "; ".join(places)
        raise FairhandError(f"not proved, or too easily: {', '.join(wrong)}", where)
    out.print(f"{len(verdicts)} rules proved, all mutants refused")


def _verdicts(
    chosen: list[Rule], how: Proving, out: Console
) -> tuple[list[Verdict], list[str]]:
    """The verdicts, and the names of the rules that aren't as they should be."""
    verdicts, wrong = [], []
    began, spent = monotonic(), Counter[str]()
    found = prove.prove_all(chosen, how.jobs, how.own)
    for rule in chosen:
        verdict, seconds = next(found)
        spent.update(seconds)
        verdicts.append(verdict)
        loose = [m for m, said in verdict.mutants.items() if said != "refused"]
        if not verdict.proved or loose:
            wrong.append(rule.name)
        said = f"{verdict.level} {verdict.exactness}" if verdict.proved else verdict.why
        example = "" if verdict.proved else counterexample.counterexample(rule.law)
        said = f"false where {example}" if example else said
        said += "".join(f"; mutant {m}: {verdict.mutants[m]}" for m in loose)
        out.print(f"{verdict.rule:36} {said}", soft_wrap=True)
    split = ", ".join(f"{what} {seconds:.0f}" for what, seconds in spent.items())
    out.print(
        f"{sum(spent.values()):.0f} CPU seconds ({split}) in {how.jobs} processes,"
        f" {monotonic() - began:.0f} s in all"
    )
    return verdicts, wrong
