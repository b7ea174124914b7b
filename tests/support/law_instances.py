"""Instances of a law, drawn from its samples: shapes, ranks and element types.

An axis becomes two like it, sizes give way to others (0 and 1 among them), an operand
broadcasts, a number changes. What comes out may be no instance of the law, or no model
at all: the matcher and ONNX Runtime tell.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from fairhand.rewrites.language.pattern import Leaf, Var, leaves
from fairhand.rewrites.language.rule import Rule
from fairhand.rewrites.language.terms import Axes, Int, Perm

FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
WHOLES = tuple(np.dtype(f"{u}int{n}").type for n in (64, 32, 16, 8) for u in ("", "u"))
TYPES = {"float": FLOATS, "int": WHOLES, "bool": (np.bool_,)}
SIZES = (0, 1, 1, 2, 3, 5)


def element_types(rule: Rule, kinds: tuple[str, ...]) -> list[Any]:
    """The element types that a law admits; `kinds`: of leaves that name none."""
    named = {x.kinds for x in leaves(rule.law.left) if x.kind is not Leaf.NUMBER}
    if "" in named:
        return [t for kind in kinds for t in TYPES[kind]]
    main = next(kind for kind in TYPES if kind in named)
    return list(TYPES[main])


def dtypes(main: Any, draw: random.Random) -> dict[str, Any]:
    """The element type of each kind of leaf in an instance of which one is `main`."""
    kind = next(kind for kind, types in TYPES.items() if main in types)
    others = {
        "float": np.float32,
        "int": draw.choice([np.int64, np.int32]),
        "bool": np.bool_,
    }
    return {**others, kind: main, "": main}


def varied(rule: Rule, draw: random.Random) -> dict[str, Any]:
    """A sample of the law, changed a few times."""
    sample = dict(draw.choice(rule.samples))
    changes: list[Callable[..., dict[str, Any]]] = [_grown, _resized, _resized]
    changes += [_broadcast, _renumbered, _fewer]
    for _ in range(draw.choice([0, 1, 1, 2, 2, 3])):
        sample = draw.choice(changes)(rule, sample, draw)
    return sample


def shapes(sample: dict[str, Any]) -> dict[str, list[int]]:
    """The leaves that are given by a shape."""
    return {
        k: v
        for k, v in sample.items()
        if isinstance(v, list) and all(type(n) is int for n in v)
    }


def _grown(rule: Rule, sample: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """One axis more, in front: all that is said of an axis is said of it, too."""
    rank = sample.get("r", max((len(v) for v in shapes(sample).values()), default=0))
    if not isinstance(rank, int) or not rank:
        return sample
    like = draw.randrange(rank)
    found = dict(sample)
    for name, given in sample.items():
        symbol = rule.law.symbols.get(name)
        if name == "r":
            found[name] = rank + 1
        elif isinstance(symbol, Perm):
            found[name] = (0, *(k + 1 for k in given))
        elif isinstance(symbol, Axes):
            found[name] = type(given)(
                [*([0] if like in given else []), *(k + 1 for k in given)]
            )
        elif isinstance(symbol, Int) and _is_axis(symbol):
            found[name] = given + 1
        elif isinstance(given, tuple | list) and len(given) == rank:
            found[name] = type(given)([given[like], *given])
        elif isinstance(given, list) and given and isinstance(given[0], list):
            found[name] = [[v[like], *v] if len(v) == rank else v for v in given]
    return found


def _is_axis(symbol: Int) -> bool:
    return symbol.args[2] is not None and "r" in repr(symbol.args[2])


def _resized(rule: Rule, sample: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """One size in the place of another, wherever it stands."""
    sizes = sorted({n for shape in shapes(sample).values() for n in shape})
    if not sizes:
        return sample
    old, new = draw.choice(sizes), draw.choice(SIZES)

    def changed(x: Any) -> Any:
        if isinstance(x, list | tuple):
            return type(x)([changed(y) for y in x])
        return new if type(x) is int and x == old else x

    everywhere = draw.random() < 0.5 and old > 1
    return {
        k: changed(v) if isinstance(v, list) or (everywhere and k != "r") else v
        for k, v in sample.items()
    }


def _broadcast(
    rule: Rule, sample: dict[str, Any], draw: random.Random
) -> dict[str, Any]:
    """One axis of one leaf has size 1."""
    names = [k for k, v in shapes(sample).items() if v]
    if not names:
        return sample
    name = draw.choice(names)
    shape = list(sample[name])
    shape[draw.randrange(len(shape))] = 1
    return {**sample, name: shape}


def _fewer(rule: Rule, sample: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A leaf that broadcasts has an axis less, or as many as the others."""
    names = [
        k
        for k in shapes(sample)
        if isinstance(rule.law.symbols.get(k), Var) and rule.law.symbols[k].aligned
    ]
    if not names:
        return sample
    name = draw.choice(names)
    longest = max(shapes(sample).values(), key=len)
    return {**sample, name: draw.choice([sample[name][1:], list(longest)])}


def _renumbered(
    rule: Rule, sample: dict[str, Any], draw: random.Random
) -> dict[str, Any]:
    """One number of the law is another."""
    names = [
        k
        for k, v in sample.items()
        if type(v) in (int, float) or (isinstance(v, tuple) and v and type(v[0]) is int)
        if k != "r" and not isinstance(rule.law.symbols.get(k), Var)
    ]
    if not names:
        return sample
    name = draw.choice(names)
    given = sample[name]
    if isinstance(given, float):  # such as float32 has
        return {**sample, name: draw.choice([0.5, 0.25, 2.0**-10])}
    if isinstance(given, int):
        return {**sample, name: given + draw.choice([-1, 1, 2])}
    changed = list(given)
    if isinstance(rule.law.symbols.get(name), Perm):
        draw.shuffle(changed)
    else:
        changed[draw.randrange(len(changed))] += draw.choice([-1, 1, 2])
    return {**sample, name: tuple(changed)}


@dataclass(frozen=True)
class Range:
    """Which elements are drawn."""

    nan: bool = True
    infinite: bool = True
    huge: bool = True  # finite, but not its square
    positive: bool = False  # whole numbers above 0
    small: bool = (
        False  # whole numbers of few bits: sums of their products don't overflow
    )


def elements(
    values: np.random.Generator, among: Range
) -> Callable[[tuple[int, ...], Any], np.ndarray]:
    """Draws a tensor of a shape and element type: ordinary numbers, and odd ones."""

    def drawn(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        kind = np.dtype(dtype)
        if kind == np.bool_:
            return np.asarray(values.random(shape) < 0.5)
        if kind.kind in "iu":
            return _wholes(values, shape, kind, among)
        odd = _odd(kind, among)
        plain = values.standard_normal(shape).astype(kind)
        return _mixed(values, odd, plain)

    return drawn


def _mixed(values: np.random.Generator, odd: Any, plain: np.ndarray) -> np.ndarray:
    chosen = values.choice(odd, plain.shape)
    return np.where(values.random(plain.shape) < 0.3, chosen, plain)


def _wholes(
    values: np.random.Generator, shape: Any, kind: Any, among: Range
) -> np.ndarray:
    """Extremes and ordinary numbers, or such as are indices."""
    limits = np.iinfo(kind)
    if values.random() < 0.5:
        return values.integers(int(among.positive), 2, shape, kind, endpoint=True)
    low, high = limits.min, limits.max
    if among.small:
        high = 2 ** (2 * kind.itemsize)
        low = max(low, -high)
    low = 1 if among.positive else low
    odd = np.array([low, high, high // 2 + 1, int(among.positive), 1], kind)
    return _mixed(values, odd, values.integers(low, high, shape, kind, endpoint=True))


def _odd(kind: Any, among: Range) -> np.ndarray:
    limits = ml_dtypes.finfo(kind)
    found = [0.0, -0.0, 1.0, -1.0, 0.5]
    if among.huge:
        found += [limits.max, limits.min, limits.smallest_subnormal]
    if among.infinite:
        found += [np.inf, -np.inf]
    return np.array([*found, *[np.nan] * among.nan], kind)
