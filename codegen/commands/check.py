"""`fairhand check`: the rewrites that a report certifies, once more."""

from __future__ import annotations

from pathlib import Path

from ...analysis.errors import FairhandError
from ...rewrites.certificate.rule_file import read_rules
from ...rewrites.replay import replay
from ..emit.package_files import of_package, read_report, require_weights
from ..generation.room import confirm_layout
from ..load.read_model import load
from ..parallel.check_package import check_parallel
from ..verify.feeds import first_feed


def check(report: Path, model: Path, rules: Path | None = None) -> str:
    """Replay the certificate of a package, try what generate.py counts on, and look at
    the plan of parallel.py; raises FairhandError where one of them fails.

    `rules` is the file of own laws that the package was compiled with.
    """
    own = read_rules(rules) if rules is not None else None
    folder = report.parent if report.name == "report.json" else report
    found = read_report(folder)
    loaded = load(model)
    loaded = of_package(folder, loaded)
    certificate = found.get("certificate")
    if not isinstance(certificate, dict):
        raise FairhandError(
            f"{folder} has no certificate", hint="compile the model again"
        )
    graph = loaded.model.clone()
    count, compared = replay(graph, certificate, own)
    names = {step["rule"] for step in certificate["applications"]}
    text = (
        f"{count} applications of {len(names)} proven rules lead from {model.name} to "
        f"graph {certificate['graph'][:12]}: checked, {compared} of them by values too"
    )
    # What was never run counts on laws of which nothing is known, and nothing is said.
    tried = found.get("verification") is not None
    if (folder / "generate.py").exists() and (tried or "generation" in certificate):
        require_weights(folder)
        feed = first_feed(loaded.model, None)
        text += "; " + confirm_layout(folder, certificate.get("generation"), feed)
    if (folder / "parallel.py").exists():
        require_weights(folder)
        claims = found.get("parallel", {}).get("certificate", {})
        text += "; " + check_parallel(folder, graph, claims)
    return text
