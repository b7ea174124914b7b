"""The certificate in report.json: which proven laws led from the file to the code."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...analysis.cost.graph_cost import GraphCost
from ...analysis.graph.dims import text
from ...rewrites.certificate.proof_store import kernel_hash, load
from ...rewrites.simplify import Rewriting


def make_certificate(done: Rewriting, exactness: str, graph: str) -> dict[str, Any]:
    """What `fairhand check` repeats: each application with its proof and evidence.

    `graph` is the digest of the one they led to.
    """
    proofs = {name: verdict.proof_id for name, verdict in load().items()}
    classes = Counter(a.exactness.value for a in done.history)
    return {
        "level": done.level,
        "exactness": exactness,
        "classes": dict(sorted(classes.items())),
        "kernel": kernel_hash(),
        "sweeps": done.sweeps,
        "applications": [a.as_dict(proofs[a.rule]) for a in done.history],
        "graph": graph,
        "cost": {"before": _cost(done.before), "after": _cost(done.after)},
    }


def _cost(cost: GraphCost | None) -> dict[str, Any]:
    """Counts; those that depend on dynamic sizes as formulas of their names."""
    assert cost is not None
    found: dict[str, Any] = {"nodes": cost.nodes}
    for name, count in (
        ("operations", cost.flops),
        ("intermediate_bytes", cost.intermediate_bytes),
    ):
        found[name] = count if isinstance(count, int) else text(count)
    return found
