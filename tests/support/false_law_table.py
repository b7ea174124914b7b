"""Laws on a line each: their notation stands at the head of false_laws.txt."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from fairhand.rewrites.language import operators, terms
from fairhand.rewrites.language.pattern import Chain, Operator, Term
from fairhand.rewrites.language.rule import Law
from fairhand.rewrites.language.terms import eq, forall

FILE = Path(__file__).parents[1] / "rewrites" / "proof" / "false_laws.txt"
_KINDS = {"float": "float", "int": "int", "bool": "bool", "any": ""}


def _vocabulary() -> dict[str, Any]:
    """The operators, and what expressions are made of."""
    names = {name: getattr(terms, name) for name in dir(terms) if name[0] != "_"}
    for path in sorted(Path(operators.__file__).parent.glob("[a-z]*.py")):
        module = importlib.import_module(f"{operators.__name__}.{path.stem}")
        found = {k: v for k, v in vars(module).items() if isinstance(v, Operator)}
        names.update(found)
    return {**names, "Chain": Chain, "LEFT": "LEFT", "RIGHT": "RIGHT", "F": Fraction}


VOCABULARY = _vocabulary()


def laws_in(file: Path = FILE) -> Iterator[tuple[str, str]]:
    """The name and the rest of each line."""
    for line in file.read_text("utf-8").splitlines():
        if line and line[0] not in "#=":
            name, _, said = line.partition(": ")
            yield name, said


def law_of(said: str, identity: bool = False) -> Law:
    """The law that a line says; with `identity` its left side equal to itself."""
    declared, left, right, *conditions = (part.strip() for part in said.split(" | "))
    law = Law()
    names = _declare(law, declared.split())

    def read(text: str) -> Any:
        return eval(text, dict(names))

    for condition in ";".join(conditions).split(";"):
        if condition.strip():
            law.require(read(condition.strip()))
    law.rewrite(read(left), read(left if identity else right))
    return law


def _declare(law: Law, words: list[str]) -> dict[str, Any]:
    lows = [int(word[3:]) for word in words if word.startswith("r>=")]
    names: dict[str, Any] = {**VOCABULARY, "law": law, "number": law.number}
    rank = names["r"] = law.rank(low=lows[0] if lows else 0)
    kind, first = "", None
    for word in words:
        if word in _KINDS:
            kind = _KINDS[word]
        elif not word.startswith("r>="):
            name = re.match(r"\w+", word)
            assert name is not None, word
            symbol = _symbol(law, word, rank, kind, names)
            names[name[0]] = symbol
            if word.isidentifier():  # a tensor of one shape with the others
                if first is not None:
                    law.require(_one_shape(rank, first, symbol))
                first = first or symbol
    return names


def _one_shape(rank: Any, a: Term, b: Term) -> Any:
    return forall(rank, lambda k: eq(a.dim(k), b.dim(k)))


def _symbol(law: Law, word: str, rank: Any, kind: str, names: dict[str, Any]) -> Any:
    def value(text: str) -> Any:
        return eval(text, dict(names))

    if found := re.fullmatch(r"(\w+)=(.+)", word):
        return law.full(found[1], rank, _number(found[2]), kinds=kind)
    if found := re.fullmatch(r"(\w+)~(.+)", word):
        return law.filled(found[1], rank, _number(found[2]), kinds=kind)
    if found := re.fullmatch(r"(\w+)<(.+)>", word):
        sizes = [value(text) for text in found[2].split(",")]
        return law.shaped(found[1], *sizes, kinds=kind)
    if found := re.fullmatch(r"(\w+)#(-?\w+)?(?:\.\.(.+))?", word):
        low, high = (
            None if text is None else value(text) for text in found.groups()[1:]
        )
        return law.int(found[1], low, high)
    if found := re.fullmatch(r"(\w+)&(\w+)", word):
        arity = 2 if found[2] == "binary" else 1
        return law.pointwise(found[1], arity, found[2])
    name, suffix = re.fullmatch(r"(\w+)(.*)", word).groups()  # type: ignore[union-attr]
    makers: dict[str, Any] = {
        "": lambda: law.tensor(name, rank, kinds=kind),
        "*": lambda: law.tensor(name, rank, kinds=kind),
        "?": lambda: law.operand(name, rank, kinds=kind),
        "^": lambda: law.tensor(name, rank, kinds=kind, extended=True),
        ":c": lambda: law.constant_operand(name, rank, kinds=kind),
        ":s": lambda: law.scalar(name, rank, kinds=kind),
        "@": lambda: law.axis(name, rank),
        "%": lambda: law.perm(name, rank),
        "{}": lambda: law.axes(name, rank),
        "[]": lambda: law.fn(name, rank),
        "()": lambda: law.sizes(name, rank),
        "$": lambda: law.real(name),
        "!": lambda: law.word(name),
        "...": lambda: law.many(name, rank),
    }
    return makers[suffix]()


def _number(text: str) -> Any:
    return terms.Real("negative_zero") if text == "-0" else Fraction(text)
