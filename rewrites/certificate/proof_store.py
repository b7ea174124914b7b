"""Which rules are proven: proofs.json, checked against the rules as they stand.

A verdict counts only for the law and the prover it was made with, told by their hashes.
Nothing here needs z3: `fairhand prove` writes the file, everybody else reads it.
Laws of the user's own have theirs beside them (rule_file.py).
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ..language.exactness import Exactness
from ..language.rule import Rule

REWRITES = Path(__file__).parents[1]
FILE = REWRITES / "proofs.json"

# What a verdict depends on besides the law: the language of laws, what decides whether
# one applies and what it then writes, and the prover. Folders count with all below
# them.
_TRUSTED = (
    "language",
    "proof",
    "engine/associative_chains.py",
    "engine/bindings.py",
    "engine/build.py",
    "engine/declarations.py",
    "engine/match.py",
    "engine/term_sizes.py",
)


@dataclass(frozen=True)
class Verdict:
    """What the prover found of one rule."""

    rule: str
    law: str  # hash of the law
    proved: bool
    level: str  # at which the proof closed
    exactness: str  # the class, see exactness.py
    why: str  # what failed, if it isn't proved
    mutants: dict[str, str]  # "refused", or what makes it a bad mutant
    kinds: tuple[str, ...] = ()  # of elements, that leaves which name none may have
    steps: tuple[str, ...] = ()

    @property
    def proof_id(self) -> str:
        """Names the proof: the law's hash and the kernel's."""
        return f"{self.law}-{kernel_hash()[:8]}"


@cache
def kernel_hash() -> str:
    """Of what is trusted: its code, whatever its comments and docstrings say.

    To read the syntax of all these files takes most of a second, which every compile
    would begin with: of files that are to the letter those that the verdicts were
    written beside, the hash is known."""
    texts, stored = _texts(), _shipped()
    if stored.get("sources") == _hash(texts):
        return str(stored["kernel"])
    return _hash({path: _code(text) for path, text in texts.items()})


def _texts() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in trusted_files()}


def _hash(texts: dict[Path, str]) -> str:
    digest = hashlib.sha256()
    for path, text in texts.items():
        digest.update(path.relative_to(REWRITES).as_posix().encode())
        digest.update(text.encode())
    return digest.hexdigest()[:16]


def _shipped() -> dict[str, Any]:
    """What proofs.json holds."""
    return json.loads(FILE.read_bytes()) if FILE.exists() else {}


def trusted_files() -> list[Path]:
    """The files that the verdicts depend on, in a fixed order."""
    found: list[Path] = []
    for name in _TRUSTED:
        path = REWRITES / name
        found += [path] if path.suffix else path.rglob("*.py")
    return sorted(found)


def _code(source: str) -> str:
    """The syntax tree as text, without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return _dumped(tree)


def _dumped(node: Any) -> str:
    """As ast.dump, but the same text in every version of Python: fields that newer ones
    add, and what is empty, are left out."""
    if isinstance(node, list):
        return f"[{', '.join(map(_dumped, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, getattr(node, name, None)) for name in node._fields)
    kept = [f"{n}={_dumped(v)}" for n, v in fields if v is not None and v != []]
    return f"{type(node).__name__}({', '.join(kept)})"


@cache
def load() -> dict[str, Verdict]:
    """The verdicts that were shipped, if the prover is still the same."""
    return stored_in(FILE)


def stored_in(file: Path) -> dict[str, Verdict]:
    """The verdicts of a file; none if another prover made them, or there is no file."""
    if not file.exists():
        return {}
    stored = json.loads(file.read_text(encoding="utf-8"))
    if stored["kernel"] != kernel_hash():
        return {}
    return {
        name: Verdict(
            rule=name,
            **{**row, "steps": tuple(row["steps"]), "kinds": tuple(row["kinds"])},
        )
        for name, row in stored["rules"].items()
    }


_OF_USERS: WeakKeyDictionary[Rule, Verdict | None] = WeakKeyDictionary()


def attach(rule: Rule, verdict: Verdict | None) -> None:
    """Say what was found of a law that isn't one of the catalogue."""
    _OF_USERS[rule] = verdict


def verdict_of(rule: Rule) -> Verdict | None:
    """What was found of this very law; None if it, or the prover, was another."""
    of_users = rule in _OF_USERS
    verdict = _OF_USERS[rule] if of_users else load().get(rule.name)
    return verdict if verdict is not None and verdict.law == rule.hash else None


def proven(rules: Iterable[Rule]) -> dict[str, Exactness]:
    """The exactness of those rules that have a valid proof."""
    found = {}
    for rule in rules:
        verdict = verdict_of(rule)
        if verdict is not None and verdict.proved:
            found[rule.name] = Exactness(verdict.exactness)
    return found


def unproved(rules: Iterable[Rule]) -> list[str]:
    """Rules that aren't applied: they have no verdict here, or one of another law or
    prover, or it is that they aren't proved."""
    proved = proven(kept := list(rules))
    return sorted(rule.name for rule in kept if rule.name not in proved)


def proved_kinds(rule: Rule) -> tuple[str, ...]:
    """What leaves that name no kind of element may be of: floats, if nobody knows."""
    verdict = verdict_of(rule)
    return ("float",) if verdict is None else verdict.kinds


def save(verdicts: Iterable[Verdict], z3_version: str, file: Path = FILE) -> None:
    """Write proofs.json, or the file of the user's own laws."""
    rules = {
        v.rule: {
            "law": v.law,
            "proved": v.proved,
            "level": v.level,
            "exactness": v.exactness,
            "why": v.why,
            "mutants": v.mutants,
            "kinds": list(v.kinds),
            "steps": list(v.steps),
        }
        for v in verdicts
    }
    content = {
        "kernel": kernel_hash(),
        "sources": _hash(_texts()),
        "z3": z3_version,
        "rules": rules,
    }
    file.write_text(
        json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
