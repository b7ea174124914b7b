"""Which models each law is there for: the first file that it fires on, law by law.

python -m tests.tools.law_witnesses --write          the repository's models, node tests
python -m tests.tools.law_witnesses ~/models --write          and every file of a folder

tests/goldens/law_witnesses.json names one witness for each law: a model that it fires
on, or where none at hand has it, an exporter that writes it (a test's graph, or of
what), an optimiser that has a pass to take it away, or a paper. Those stay as they are
with --write, unless it fires on a model now.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from fairhand.analysis.errors import FairhandError
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.rules.catalogue import RULES
from fairhand.rewrites.simplify import simplify

from .emitted_bytes import ROOT, model_at, tasks

KEPT = ROOT / "tests" / "goldens" / "law_witnesses.json"
FIRES = "fires on:"
KINDS = (FIRES, "writes:", "takes away:", "paper:")  # what a witness may be
LEVELS = {"": 1, "-O2": 2}


def fired(source: str, level: int) -> set[str]:
    """The laws that apply to a model; none to one that is refused."""
    try:
        found = simplify(load(model_at(source)).model, level=level)
    except FairhandError:
        return set()
    return {application.rule for application in found.history}


def witnesses(folders: list[Path], wanted: Iterable[str]) -> dict[str, str]:
    """By law, the first model that it fires on."""
    left, found = set(wanted), dict[str, str]()
    seen = {}
    for key, source, _ in tasks([], True, True):
        seen.setdefault(source, key.rpartition(" ")[0])
    for folder in folders:
        for _, source, _ in tasks([folder], False, False):
            seen.setdefault(source, f"{folder.name}/{Path(source).stem}")
    for source, name in seen.items():
        for told, level in LEVELS.items() if left else ():
            fires = f"{FIRES} {name} at {told}" if told else f"{FIRES} {name}"
            found.update(dict.fromkeys(fired(source, level) & left, fires))
            left.difference_update(found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    names = sorted(rule.name for rule in RULES)
    kept = json.loads(KEPT.read_text("utf-8"))
    found = witnesses(asked.folders, names)
    told = {name: found.get(name) or kept.get(name, "") for name in names}
    print("\n".join(f"{n} fires on no model here" for n in names if n not in found))
    if asked.write:
        KEPT.write_text(json.dumps(told, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
