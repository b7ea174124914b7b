"""Sizes for dynamic dimensions that fit each other, as the operators require.

What has to be equal becomes one unknown; then every unknown takes the number nearest to
the one preferred that all that is required of it alone allows, and several that are
bound together take equal ones, or are searched for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, product

import onnx_ir as ir
import sympy

from ...analysis.errors import FairhandError
from ...analysis.graph.dims import Dim, Invented, simplify
from ...analysis.ops.facts.fitting_sizes import Fit, Relation
from ...analysis.shapes.infer import infer
from ...analysis.shapes.requirements import Requirements, requirements
from ...rewrites.normalise import normalise

_LARGEST = 4096  # size that is tried
_MOST_TRIES = 20_000  # of several unknowns together

Sizes = dict[sympy.Symbol, int]


class Unknowns:
    """The dynamic dimensions of a model, and what the operators require of them."""

    def __init__(self, model: ir.Model, known: Requirements | None = None) -> None:
        self.symbols: dict[str, Dim] = {}  # by the keys of dynamic_dims
        self.fits: list[Fit] = []
        keys = {
            (str(value.name), axis): key
            for value in model.graph.inputs
            for axis, key in dynamic_dims(value)
        }
        if keys and known is None:
            with suppress(FairhandError, ValueError, RuntimeError, TypeError):
                copy = model.clone()
                normalise(copy)
                known = requirements(copy, infer(copy))
        if keys and known is not None:
            self._read(keys, known)

    def _read(self, keys: Mapping[tuple[str, int], str], known: Requirements) -> None:
        for name, dims in known.inputs.items():
            for axis, size in enumerate(dims):
                if (name, axis) in keys:
                    self.symbols.setdefault(keys[name, axis], size)
        given = {s for dim in self.symbols.values() for s in _symbols(dim)}
        self.fits = [
            fit
            for fit in known.fits
            if given >= _symbols(fit.a) | _symbols(fit.b) != set()
        ]

    def solve(self, preferred: Mapping[str, int]) -> dict[str, int]:
        """Sizes that fit, as near to those preferred as is found soon; by key."""
        start: Sizes = {}
        for key, number in preferred.items():
            dim = self.symbols.get(key)
            if isinstance(dim, sympy.Symbol):
                start.setdefault(dim, number)
        sizes = _solved(self.fits, start)
        found = dict(preferred)
        for key, dim in self.symbols.items():
            if isinstance(dim, sympy.Symbol) and dim in sizes and key in found:
                found[key] = sizes[dim]
        return found


def dynamic_dims(value: ir.Value) -> Iterator[tuple[int, str]]:
    """(axis, key in `sizes`) of each dynamic dimension."""
    for axis, dim in enumerate(value.shape or ()):
        if not isinstance(dim, int):
            yield axis, dim.value or f"{value.name}#{axis}"
        elif dim < 0:  # some exporters write -1
            yield axis, f"{value.name}#{axis}"


def _symbols(dim: Dim) -> set[sympy.Symbol]:
    return set() if isinstance(dim, int) else dim.free_symbols


def _solved(fits: Sequence[Fit], preferred: Mapping[sympy.Symbol, int]) -> Sizes:
    values: dict[sympy.Symbol, Dim] = {}  # unknowns that others stand for
    checks = list(fits)
    while True:
        found = next(_substitutions(checks), None)
        if found is None:
            break
        old, new = found
        values = {s: _put(dim, old, new) for s, dim in values.items()} | {old: new}
        checks = [
            Fit(f.relation, _put(f.a, old, new), _put(f.b, old, new)) for f in checks
        ]
        checks = [f for f in dict.fromkeys(checks) if f.a != f.b]
    free = [s for s in preferred if s not in values]
    sizes = _searched(free, checks, preferred)
    for symbol, dim in values.items():
        number = dim if isinstance(dim, int) else dim.subs(sizes)
        if number == int(number) and number >= 0:
            sizes[symbol] = int(number)
    return sizes


def _substitutions(fits: Iterable[Fit]) -> Iterator[tuple[sympy.Symbol, Dim]]:
    """(unknown, what equals it); numbers before others, what must before what may."""
    for wanted in (int, object):
        for relation in (Relation.EQUAL, Relation.BROADCAST):
            for fit in fits:
                if fit.relation is not relation:
                    continue
                for old, new in ((fit.a, fit.b), (fit.b, fit.a)):
                    plain = isinstance(old, sympy.Symbol) and isinstance(new, wanted)
                    invented = any(isinstance(x, Invented) for x in _symbols(new))
                    size = not isinstance(new, int) or new >= 0
                    if plain and size and old not in _symbols(new) and not invented:
                        yield old, new


def _put(dim: Dim, old: sympy.Symbol, new: Dim) -> Dim:
    if old not in _symbols(dim):
        return dim
    assert not isinstance(dim, int)
    return simplify(dim.subs(old, new))


def _searched(
    free: Sequence[sympy.Symbol],
    fits: Sequence[Fit],
    preferred: Mapping[sympy.Symbol, int],
) -> Sizes:
    """Numbers for the unknowns that are left: one by one, then those bound together."""
    sizes: Sizes = dict(preferred)
    tests = [(_symbols(fit.a) | _symbols(fit.b), _test(fit)) for fit in fits]
    for symbol in free:
        alone = [test for symbols, test in tests if symbols == {symbol}]
        for number in _near(preferred[symbol]) if alone else ():
            if all(test({symbol: number}) for test in alone):
                sizes[symbol] = number
                break
    for symbols, test in tests:
        if len(symbols) > 1 and symbols <= set(free) and not test(sizes):
            bound = [t for others, t in tests if others <= symbols]
            sizes.update(_together(sorted(symbols, key=str), bound, sizes))
    return sizes


def _together(
    symbols: Sequence[sympy.Symbol],
    tests: Sequence[Callable[[Mapping[sympy.Symbol, int]], bool]],
    sizes: Mapping[sympy.Symbol, int],
) -> Sizes:
    """Equal numbers for all if some do, else any, the nearest of each first."""
    around = [_around(sizes[symbol]) for symbol in symbols]
    equal = ((number,) * len(symbols) for number in _near(sizes[symbols[0]]))
    for numbers in (*equal, *islice(product(*around), _MOST_TRIES)):
        tried = dict(zip(symbols, numbers, strict=True))
        if all(test(tried) for test in tests):
            return tried
    return {}


def _near(number: int) -> Iterator[int]:
    """The number, those above it, then those below."""
    yield from range(max(number, 1), _LARGEST + 1)
    yield from range(min(number, _LARGEST) - 1, 0, -1)


def _around(number: int) -> list[int]:
    """Some hundred numbers above and below, the nearest first."""
    near = range(max(number - 300, 1), number + 300)
    return sorted(near, key=lambda other: (abs(other - number), -other))


def _test(fit: Fit) -> Callable[[Mapping[sympy.Symbol, int]], bool]:
    symbols = sorted(_symbols(fit.a) | _symbols(fit.b), key=str)
    value = sympy.lambdify(symbols, [fit.a, fit.b], modules=["math", _FUNCTIONS])

    def test(sizes: Mapping[sympy.Symbol, int]) -> bool:
        a, b = value(*(sizes[symbol] for symbol in symbols))
        if fit.relation is Relation.EQUAL:
            return bool(a == b)
        if fit.relation is Relation.AT_LEAST:
            return bool(a >= b)
        if fit.relation is Relation.MULTIPLE:
            return b == 0 or a % b == 0
        return a == b or 1 in (a, b)

    return test


_FUNCTIONS = {"Max": max, "Min": min}
