"""What tells two classes apart that the file, or their paths, call alike.

A class that has a layer more is called after it, one that stands elsewhere after the
place, one that is made of other parts after them: `BlockWithShortcut`,
`EncoderAttention`, `LastLayer`. A number is the last resort.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from ...analysis.spelling.expr import Call, callees, nodes
from ..ir.identifiers import alike, class_name
from ..ir.module_call import ModuleCall
from ..ir.naming import PARTED, VIEWS
from .bodies import ACTIVATIONS

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+")


@dataclass
class Twin:
    """One of two classes: its calls, its members, and what each of those is made of."""

    calls: Sequence[ModuleCall]
    parts: Mapping[str, str]  # attribute -> class of a layer or block, "" of a tensor
    blocks: Set[str]  # attributes of blocks, and of rows with a block
    settings: Set[str]  # attributes that are numbers or functions

    @property
    def operators(self) -> list[str]:
        """What its statements call, in their order; what only moves elements last."""
        steps = self.calls[0].steps()
        called = [name for step in steps for name in callees(step.expr)]
        return sorted(called, key=(VIEWS | PARTED).__contains__)

    @property
    def options(self) -> list[str]:
        """The keywords that its statements pass, `is_causal` as `causal`."""
        steps = self.calls[0].steps()
        passed = [x.label for s in steps for x in nodes(s.expr) if isinstance(x, Call)]
        return [word.removeprefix("is_") for words in passed for word in words]


def names_apart(
    new: Twin, old: Twin, wish: str, network: str, paths: Set[str]
) -> Iterator[tuple[str, bool]]:
    """Names in the place of `wish`, the best first, and whether the new class takes it,
    and not the other."""
    sides = ((new, old, True), (old, new, False))
    for one, other, is_new in sides[::-1]:
        extra = one.parts.keys() - other.parts.keys()
        if one.parts.keys() > other.parts.keys() and len(extra) == 1:
            yield _with(wish, min(extra)), is_new
    for one, other, is_new in sides:
        if word := _word_of_place(one.calls, other.calls, wish):
            yield _in_front(wish, word, network), is_new
    rarest = sorted(sides, key=lambda side: len(side[0].calls))
    for one, other, is_new in rarest:
        word = _word_of_parts(one, other, wish)
        if word.startswith("With"):
            yield wish + word, is_new
        elif word:
            yield _in_front(wish, word, network), is_new
    for one, other, is_new in rarest:
        stems = {attr.rstrip("_0123456789") for attr in other.parts}
        for attr, kind in one.parts.items():
            stem = attr.rstrip("_0123456789")
            if kind and stem not in stems and class_name(stem) not in wish:
                yield _with(wish, stem), is_new
    for one, other, is_new in rarest:
        if word := _word_of_order(one.calls, other.calls, paths):
            yield _in_front(wish, word, network), is_new
    for one, other, is_new in rarest:
        for name in one.operators:
            given = "activation" in other.settings and name in ACTIVATIONS
            if name not in other.operators and not given:
                yield _with(wish, name.rpartition(".")[2]), is_new
        for word in one.options:
            if word not in other.options:
                yield _in_front(wish, word, network), is_new
    for one, other, is_new in rarest:
        if len(one.calls) == 1 and _stands_before(one.calls[0], other.calls):
            yield _in_front(wish, "First", network), is_new
    for one, other, is_new in rarest:
        for name in Counter(one.operators) - Counter(other.operators):
            if name in other.operators:  # which calls it, too, but not as often
                yield _with(wish, name.rpartition(".")[2]), is_new


def _with(wish: str, what: str) -> str:
    return f"{wish}{'And' if 'With' in wish else 'With'}{class_name(what)}"


def _in_front(wish: str, word: str, network: str) -> str:
    """WhisperEncoderAttention, in a network whose name begins with Whisper."""
    shared = alike([network, wish])
    starts = (n for n in range(shared, 0, -1) if wish[n:][:1].isupper())
    family = wish[: next((n for n in starts if not network[n:][:1].islower()), 0)]
    return family + class_name(word) + wish.removeprefix(family)


def _word_of_place(
    calls: Sequence[ModuleCall], others: Sequence[ModuleCall], name: str
) -> str:
    """A word, the innermost, that is in the paths of all calls, and of none of the
    others, and isn't in the name; "" if there is none."""
    mine, theirs = (  # vision, model, layers of vision_model.layers.0
        [re.findall("[a-z]{3,}", call.path.lower()) for call in given]
        for given in (calls, others)
    )
    found = (
        word
        for word in reversed(mine[0])
        if all(word in words for words in mine)
        and not any(word in words for words in theirs)
        and word not in name.lower()
    )
    return next(found, "")


def _word_of_parts(mine: Twin, theirs: Twin, name: str) -> str:
    """What a part's class has in its name that the other's part has not: Attention,
    of a layer whose block is an attention, where the other's is an Mlp; with the whole
    name, of a row in which there is a block, where the other has layers alone."""
    known = {*_WORDS.findall(name), "First", "Last"}  # in a list of its own
    for attr, kind in mine.parts.items():
        other = theirs.parts.get(attr, "")
        if kind and other and attr in mine.blocks ^ theirs.blocks:
            return f"With{kind}" if attr in mine.blocks else ""
        if kind and other and kind != other:
            words = [w for w in _WORDS.findall(kind) if w not in known]
            if said := [w for w in words if w not in _WORDS.findall(other)]:
                return "".join(said)
    return ""


def _word_of_order(
    calls: Sequence[ModuleCall], others: Sequence[ModuleCall], paths: Set[str]
) -> str:
    """First or Last, of a list in which all calls stand there and no other does."""
    for word, end in (("Last", max), ("First", min)):
        told = [_stands(call.path, paths, end is max) for call in calls]
        if all(told) and not any(_stands(c.path, paths, end is max) for c in others):
            return word
    return ""


def _stands_before(call: ModuleCall, others: Sequence[ModuleCall]) -> bool:
    """Whether a module is in the same list as all others, or in a list of the same
    lists, and in front of them."""
    (row, numbers), *after = (_numbered(c.path) for c in (call, *others))
    return all(row == other and numbers < behind for other, behind in after)


def _numbered(path: str) -> tuple[list[str], list[int]]:
    """The words of a path, and its numbers."""
    words = path.split(".")
    is_number = [re.fullmatch(r"\d{1,6}", word) is not None for word in words]
    numbers = [int(w) for w, yes in zip(words, is_number, strict=True) if yes]
    return ["" if yes else w for w, yes in zip(words, is_number, strict=True)], numbers


def _stands(path: str, paths: Set[str], last: bool) -> bool:
    """Whether a path's innermost number is the last, or the first, of a list."""
    found = re.fullmatch(r"(.*\.|)(\d{1,6})(\.\D.*)?", path)
    if found is None:
        return False
    before, number = found[1], int(found[2])
    next_one = f"{before}{number + 1}"
    further = any(p == next_one or p.startswith(f"{next_one}.") for p in paths)
    return not further and number > 0 if last else number == 0 and further
