"""Certificates that say something else than was done.

What a certificate says is true if the laws that it lists, with these proofs, apply one
after the other to the graph of the model file at these places, for these reasons and
with these numbers, and lead to the graph whose hash it has. To put two applications
that don't depend on each other in another order leaves that true, and so is no
corruption; to put a stronger `level` or a weaker `exactness` than were asked neither.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

from fairhand.rewrites.rules.catalogue import RULES

Step = dict[str, Any]
Certificate = dict[str, Any]


def corrupted(certificate: Certificate, number: int) -> Certificate:
    """The certificate with one thing changed: the way, and the place, by number."""
    draw = random.Random(number)
    way = WAYS[number % len(WAYS)]
    while True:
        found = copy.deepcopy(certificate)
        way(found, draw)
        if json.dumps(found) != json.dumps(certificate):
            return found
        way = draw.choice(WAYS)  # one that this certificate has a place for


def _at_a_step(change: Callable[[Step, random.Random], None]) -> Any:
    def changed(found: Certificate, draw: random.Random) -> None:
        change(draw.choice(found["applications"]), draw)

    return changed


def _of_another(key: str) -> Any:
    """What another application says of this."""

    def changed(found: Certificate, draw: random.Random) -> None:
        step = draw.choice(found["applications"])
        others = [s[key] for s in found["applications"] if s.get(key) != step.get(key)]
        if others:
            step[key] = copy.deepcopy(draw.choice(others))

    return changed


def _with(**fields: Callable[[Any, random.Random], Any]) -> Any:
    def changed(step: Step, draw: random.Random) -> None:
        for key, change in fields.items():
            step[key] = change(step.get(key), draw)

    return _at_a_step(changed)


def _whole(key: str, change: Callable[[Any, random.Random], Any]) -> Any:
    def changed(found: Certificate, draw: random.Random) -> None:
        found[key] = change(found.get(key), draw)

    return changed


def _other_law(name: str, draw: random.Random) -> str:
    return draw.choice([rule.name for rule in RULES if rule.name != name])


def _other_class(of: str, draw: random.Random) -> str:
    return draw.choice([c for c in "BEVFOZRA" if c != of])


def _hash(bits: int) -> Callable[[Any, random.Random], str]:
    return lambda _, draw: f"{draw.getrandbits(bits):0{bits // 4}x}"


def _proof(_: str, draw: random.Random) -> str:
    return f"{draw.getrandbits(64):016x}-{draw.getrandbits(32):08x}"


def _other_symbol(symbols: dict[str, str], draw: random.Random) -> dict[str, str]:
    name = draw.choice([*symbols, "more"])
    said = symbols.get(name, "")
    return {**symbols, name: f"{said}1" if draw.random() < 0.5 else f"[{said}]"}


def _fewer_symbols(symbols: dict[str, str], draw: random.Random) -> dict[str, str]:
    gone = draw.choice([*symbols]) if symbols else ""
    return {k: v for k, v in symbols.items() if k != gone}


def _longer(names: list[str], draw: random.Random) -> list[str]:
    return [*names, f"{names[0] if names else 'node'}_{draw.randrange(100)}"]


def _shorter(names: list[str], draw: random.Random) -> list[str]:
    return names[: draw.randrange(len(names))] if names else names


def _dropped(found: Certificate, draw: random.Random) -> None:
    del found["applications"][draw.randrange(len(found["applications"]))]


def _twice(found: Certificate, draw: random.Random) -> None:
    steps = found["applications"]
    place = draw.randrange(len(steps))
    steps.insert(place, copy.deepcopy(steps[place]))


def _too_early(found: Certificate, draw: random.Random) -> None:
    """An application before the one whose nodes it takes away."""
    steps = found["applications"]
    made = [{name.split(" ", 1)[1] for name in step["after"]} for step in steps]
    pairs = [
        (i, j)
        for j, step in enumerate(steps)
        for i in range(j)
        if made[i].intersection(step["before"])
    ]
    if pairs:
        i, j = draw.choice(pairs)
        steps.insert(i, steps.pop(j))


def _in_other_words(found: Certificate, draw: random.Random) -> None:
    """Numbers and truth values that Python takes for the same."""
    step = draw.choice(found["applications"])
    places = [(found, key) for key in ("level", "sweeps")] + [(step, "sweep")]
    where, key = draw.choice(
        [*places, *((found["classes"], k) for k in found["classes"])]
    )
    where[key] = bool(where[key]) if where[key] in (0, 1) else float(where[key])


def _nothing_done(found: Certificate, draw: random.Random) -> None:
    found["applications"] = []


WAYS: list[Callable[[Certificate, random.Random], None]] = [
    _with(rule=_other_law),
    _with(proof=_proof),
    _with(exactness=_other_class),
    _with(before=_longer),
    _with(before=_shorter),
    _with(after=_longer),
    _with(after=_shorter),
    _with(results=_longer),
    _with(results=_shorter),
    _with(symbols=_other_symbol),
    _with(symbols=_fewer_symbols),
    _with(evidence=_longer),
    _with(evidence=lambda reasons, draw: [f"not {x}" for x in reasons]),
    _with(phase=lambda name, draw: f"{name}r"),
    _with(sweep=lambda sweep, draw: sweep + draw.randrange(1, 5)),
    _with(sweep=lambda sweep, draw: -1 - sweep),
    _with(reordered=lambda before, draw: not before),
    _with(roundings=lambda before, draw: [draw.randrange(9), 1000]),
    _with(symbols=lambda symbols, draw: [*symbols, "r"]),
    *map(_of_another, ("rule", "proof", "before", "after", "results", "symbols")),
    *map(_of_another, ("evidence", "exactness", "phase")),
    _dropped,
    _twice,
    _too_early,
    _in_other_words,
    _nothing_done,
    _whole("graph", _hash(128)),
    _whole("kernel", _hash(64)),
    _whole("sweeps", lambda sweeps, draw: sweeps + draw.choice([2, 10**12])),
    _whole("sweeps", lambda sweeps, draw: 0),
    _whole("level", lambda level, draw: draw.choice([-1, 3, "2", None])),
    _whole("exactness", lambda word, draw: draw.choice(["", "exact", None, 1])),
    _whole("classes", lambda classes, draw: {**classes, "B": 1 + 10**6}),
    _whole("unproved", lambda names, draw: [_other_law("", draw)]),
    _whole("cost", lambda cost, draw: {**cost, "after": cost["before"] | {"nodes": 1}}),
    _whole("rules", lambda name, draw: "my_rules.py"),
    _whole("more", lambda before, draw: True),
    _whole("more", lambda before, draw: None),
    _with(more=lambda before, draw: None),
]
