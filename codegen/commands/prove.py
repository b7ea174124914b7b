"""`fairhand prove`: the rules are proved again, and their mutants refused."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console

from ...analysis.errors import FairhandError
from ...analysis.lazy import lazy
from ...rewrites.certificate.proof_store import load, save
from ...rewrites.rules.catalogue import FALSE_RULES, RULES

# It needs z3, which isn't installed everywhere.
if TYPE_CHECKING:
    from ...rewrites.proof import prove
else:
    prove = lazy("...rewrites.proof.prove", __package__)


def prove_rules(
    names: list[str], jobs: int, write: bool, out: Console, check: bool = False
) -> None:
    """Prove rules; raises FairhandError if one fails, or a mutant is proved.

    `write` stores the verdicts; `check` asks that these are stored.
    """
    if find_spec("z3") is None:
        raise FairhandError("proving needs z3", hint='pip install "fairhand[prove]"')
    everything = (*RULES, *FALSE_RULES)
    chosen = [
        r for r in everything if not names or r.name in names or r.family in names
    ]
    if not chosen:
        raise FairhandError(f"no rule or family is called {' or '.join(names)}")
    verdicts, wrong = [], []
    refused = {rule.name for rule in FALSE_RULES}
    began, spent = monotonic(), Counter[str]()
    for verdict, seconds in prove.prove_all(chosen, jobs):
        spent.update(seconds)
        verdicts.append(verdict)
        loose = [m for m, said in verdict.mutants.items() if said != "refused"]
        if verdict.proved == (verdict.rule in refused) or loose:
            wrong.append(verdict.rule)
        said = f"{verdict.level} {verdict.exactness}" if verdict.proved else verdict.why
        extra = f"; proved the mutants {', '.join(loose)}" if loose else ""
        out.print(f"{verdict.rule:36} {said}{extra}", soft_wrap=True)
    if write:
        kept = {} if not names else {v.rule: v for v in load().values()}
        kept.update({v.rule: v for v in verdicts})
        save([kept[r.name] for r in everything if r.name in kept], prove.z3_version())
    split = ", ".join(f"{what} {seconds:.0f}" for what, seconds in spent.items())
    out.print(
        f"{sum(spent.values()):.0f} CPU seconds ({split}) in {jobs} processes,"
        f" {monotonic() - began:.0f} s in all"
    )
    stored = load()
    stale = [v.rule for v in verdicts if stored.get(v.rule) != v] if check else []
    if stale:
        raise FairhandError(
            f"stored otherwise, or not at all: {', '.join(stale)}",
            hint="fairhand prove --write",
        )
    if wrong:
        raise FairhandError(f"not proved, or too easily: {', '.join(wrong)}")
    false = sum(verdict.rule in refused for verdict in verdicts)
    out.print(
        f"{len(verdicts) - false} rules proved, all mutants and {false} false rules"
        " refused"
    )
