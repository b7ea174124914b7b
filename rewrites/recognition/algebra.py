"""Normal forms of scalars: quotients of polynomials, equal if their difference is 0.

A polynomial is a sum of products of powers of atoms. Atoms are what terms are made of:
an operand, exp, erf, log and square roots of normal forms, and means along rows. They
count as independent of each other, so that terms with one normal form are equal and
others may be; what is equal for another reason is not recognised, never wrongly.

    exp(p + q) = exp(p) exp(q)     a product of powers of exp(monomial)
    log(p q) = log p + log q       for factors that are positive
    sqrt(p)^2 = p
    erf(-p) = -erf(p)

Numbers are what the file stores, right to the last places of their element type: two
that differ by no more are one number from then on. So sqrt(2) as a float32 is sqrt(2),
and 1.7021 isn't 1.702. All of it is bounded by `TERMS`: a file can't make it run on.
"""

from __future__ import annotations

import math
from typing import TypeAlias

Monomial: TypeAlias = "tuple[tuple[int, float], ...]"  # atoms and powers, by atom
Polynomial: TypeAlias = "dict[Monomial, float]"
Key: TypeAlias = "tuple[tuple[Monomial, float], ...]"
ONE: Monomial = ()
TERMS = 96  # of a polynomial at most
POWER = 12  # that a polynomial is taken to, at most


class Beyond(Exception):
    """A term has no normal form here, or too large a one."""


class Quotient:
    """A polynomial over another one that isn't 0."""

    __slots__ = ("above", "below")

    def __init__(self, above: Polynomial, below: Polynomial) -> None:
        self.above, self.below = above, below

    def __bool__(self) -> bool:
        return bool(self.above)


class Algebra:
    """Arithmetic of normal forms, for numbers right to `places` binary digits."""

    def __init__(self, places: int) -> None:
        self.tolerance = 2.0**-places
        self._numbers: dict[tuple[int, int], list[float]] = {}
        self._atoms: dict[tuple[object, ...], int] = {}
        self.names: list[tuple[object, ...]] = []
        for n in (1.0, 2.0, 3.0, 4.0, 6.0, 0.5, 0.25):
            self.number(n)

    # ---- numbers

    def number(self, x: float) -> float:
        """The first number that was met within the tolerance of x."""
        if x == 0 or not math.isfinite(x):
            if x == 0:
                return 0.0
            raise Beyond("a number that isn't finite")
        size = abs(x)
        near = (size, size * (1 - self.tolerance), size * (1 + self.tolerance))
        places = [self._bucket(y) for y in near]
        for place in dict.fromkeys(places):
            for known in self._numbers.get(place, ()):
                if abs(known - size) <= self.tolerance * size:
                    return math.copysign(known, x)
        self._numbers.setdefault(places[0], []).append(size)
        return x

    def _bucket(self, x: float) -> tuple[int, int]:
        fraction, exponent = math.frexp(x)
        return exponent, int(fraction / self.tolerance / 2)

    def _sum(self, x: float, y: float) -> float:
        total = x + y
        if abs(total) <= 2 * self.tolerance * max(abs(x), abs(y)):
            return 0.0
        return self.number(total)

    # ---- atoms

    def atom(self, *name: object) -> int:
        """The number of an atom."""
        found = self._atoms.get(name)
        if found is None:
            found = self._atoms[name] = len(self.names)
            self.names.append(name)
        return found

    def single(self, atom: int, power: float = 1.0) -> Quotient:
        """An atom as a term."""
        return Quotient({((atom, power),): 1.0}, {ONE: 1.0})

    def constant(self, x: float) -> Quotient:
        """A number as a term."""
        value = self.number(x)
        return Quotient({ONE: value} if value else {}, {ONE: 1.0})

    # ---- polynomials

    def plus(self, p: Polynomial, q: Polynomial, sign: float = 1.0) -> Polynomial:
        """p + sign * q"""
        out = dict(p)
        for monomial, number in q.items():
            total = self._sum(out.get(monomial, 0.0), sign * number)
            if total:
                out[monomial] = total
            else:
                out.pop(monomial, None)
        return _bounded(out)

    def times(self, p: Polynomial, q: Polynomial) -> Polynomial:
        """The product, roots squared multiplied out."""
        if len(p) * len(q) > TERMS * 4:
            raise Beyond("a product of too many terms")
        out: Polynomial = {}
        rooted: list[tuple[Polynomial, Polynomial]] = []
        for a, x in p.items():
            for b, y in q.items():
                monomial, number = self._merged(a, b), self.number(x * y)
                squares = [
                    (atom, n) for atom, n in monomial if n >= 2 and self._is_root(atom)
                ]
                if squares:
                    rest = tuple(f for f in monomial if f not in squares)
                    for atom, n in squares:
                        odd = ((atom, 1.0),) if n % 2 else ()
                        rest = self._merged(rest, odd)
                    inside: Polynomial = {ONE: 1.0}
                    for atom, n in squares:
                        power = self.power(self.inside(atom), int(n // 2))
                        inside = self.times(inside, power)
                    rooted.append(({rest: number}, inside))
                    continue
                total = self._sum(out.get(monomial, 0.0), number)
                if total:
                    out[monomial] = total
                else:
                    out.pop(monomial, None)
        for left, right in rooted:
            out = self.plus(out, self.times(left, right))
        return _bounded(out)

    def _merged(self, a: Monomial, b: Monomial) -> Monomial:
        if not a or not b:
            return a or b
        powers = dict(a)
        for atom, n in b:
            powers[atom] = self._sum(powers.get(atom, 0.0), n)
        return tuple(sorted((atom, n) for atom, n in powers.items() if n))

    def _is_root(self, atom: int) -> bool:
        return self.names[atom][0] == "sqrt"

    def inside(self, atom: int) -> Polynomial:
        """What an atom is a function of."""
        key: Key = self.names[atom][1]  # type: ignore[assignment]
        return dict(key)

    def power(self, p: Polynomial, n: int) -> Polynomial:
        """p^n, for n >= 0."""
        if n > POWER:
            raise Beyond("too high a power")
        out: Polynomial = {ONE: 1.0}
        for _ in range(n):
            out = self.times(out, p)
        return out

    # ---- quotients

    def add(self, a: Quotient, b: Quotient, sign: float = 1.0) -> Quotient:
        """a + sign * b"""
        if a.below == b.below:
            return self.quotient(self.plus(a.above, b.above, sign), a.below)
        above = self.plus(
            self.times(a.above, b.below), self.times(b.above, a.below), sign
        )
        return self.quotient(above, self.times(a.below, b.below))

    def mul(self, a: Quotient, b: Quotient) -> Quotient:
        """a * b"""
        return self.quotient(self.times(a.above, b.above), self.times(a.below, b.below))

    def div(self, a: Quotient, b: Quotient) -> Quotient:
        """a / b; raises Beyond where b is 0."""
        return self.mul(a, self.quotient(b.below, b.above))

    def quotient(self, above: Polynomial, below: Polynomial) -> Quotient:
        """above / below, with a divisor of one term taken into `above`."""
        if not below:
            raise Beyond("a division by 0")
        if not above:
            return Quotient({}, {ONE: 1.0})
        first = min(below)
        roots = tuple((atom, 1.0) for atom, _ in first if self._is_root(atom))
        if len(below) == 1 and roots:
            above, below = (self.times(p, {roots: 1.0}) for p in (above, below))
            return self.quotient(above, below)
        if len(below) == 1:
            inverse = {tuple((a, -n) for a, n in first): 1 / below[first]}
            return Quotient(self.times(above, inverse), {ONE: 1.0})
        if below[first] != 1.0:
            scale = {ONE: 1 / below[first]}
            above, below = self.times(above, scale), self.times(below, scale)
        if above == below:
            return Quotient({ONE: 1.0}, {ONE: 1.0})
        return Quotient(above, below)

    def same(self, a: Quotient, b: Quotient) -> bool:
        """Whether two normal forms are equal."""
        if a.below == b.below:
            return not self.plus(a.above, b.above, -1.0)
        left, right = self.times(a.above, b.below), self.times(b.above, a.below)
        return not self.plus(left, right, -1.0)

    def whole(self, a: Quotient) -> Polynomial:
        """A quotient that is a polynomial."""
        if a.below != {ONE: 1.0}:
            raise Beyond("a function of a quotient")
        return a.above

    def number_of(self, a: Quotient) -> float | None:
        """The number that a term is; None if it depends on atoms."""
        if not a.above:
            return 0.0
        if a.below == {ONE: 1.0} and a.above.keys() == {ONE}:
            return a.above[ONE]
        return None

    # ---- functions

    def exp(self, a: Quotient) -> Quotient:
        """The exponential, log undone where it stands with a whole factor or a half."""
        out = self.constant(1.0)
        for monomial, number in self.whole(a).items():
            if monomial == ONE:
                if abs(number) > 700:
                    raise Beyond("a number that isn't finite")
                out = self.mul(out, self.constant(math.exp(number)))
                continue
            (atom, n), *others = monomial
            known = self.names[atom]
            twice = 2 * number
            if known[0] == "log" and n == 1 and not others and twice == int(twice):
                inside = Quotient(self.inside(atom), {ONE: 1.0})
                out = self.mul(out, self.raised(inside, number))
                continue
            out = self.mul(out, self.single(self.atom("exp", monomial), number))
        return out

    def log(self, a: Quotient) -> Quotient:
        """The logarithm, exponentials taken out."""
        return self.add(self._log(a.above), self._log(a.below), -1.0)

    def _log(self, p: Polynomial) -> Quotient:
        if not p:
            raise Beyond("the logarithm of 0")
        lowest = self._common_exponentials(p)
        inverse = {tuple((atom, -n) for atom, n in lowest): 1.0}
        rest = self.times(p, inverse)
        first = min(rest)
        if rest[first] <= 0:
            raise Beyond("the logarithm of what may be negative")
        out = self.constant(math.log(rest[first]))
        rest = self.times(rest, {ONE: 1 / rest[first]})
        for atom, n in lowest:
            monomial: Monomial = self.names[atom][1]  # type: ignore[assignment]
            out = self.add(out, Quotient({monomial: n}, {ONE: 1.0}))
        if rest == {ONE: 1.0}:
            return out
        sign = 1.0
        if len(rest) == 1 and all(n < 0 for monomial in rest for _, n in monomial):
            ((monomial, _),) = rest.items()
            rest, sign = {tuple((atom, -n) for atom, n in monomial): 1.0}, -1.0
        return self.add(out, self.single(self.atom("log", _key(rest))), sign)

    def _common_exponentials(self, p: Polynomial) -> Monomial:
        """The least power of each exponential over all terms."""
        atoms = {a for m in p for a, _ in m if self.names[a][0] == "exp"}
        powers = [dict(m) for m in p]
        lowest = [(a, min(d.get(a, 0.0) for d in powers)) for a in sorted(atoms)]
        return tuple((a, n) for a, n in lowest if n)

    def erf(self, a: Quotient) -> Quotient:
        """The error function, of an argument whose first term is positive."""
        p = self.whole(a)
        if not p:
            return self.constant(0.0)
        sign = math.copysign(1.0, p[min(p)])
        inside = {m: sign * n for m, n in p.items()}
        return Quotient({((self.atom("erf", _key(inside)), 1.0),): sign}, {ONE: 1.0})

    def sqrt(self, a: Quotient) -> Quotient:
        """The square root; exponentials halve, other squares aren't taken out."""
        return self.div(self._root(a.above), self._root(a.below))

    def _root(self, p: Polynomial) -> Quotient:
        if not p:
            return self.constant(0.0)
        first = min(p)
        if p[first] <= 0:
            first = max(p, key=p.__getitem__)
        if p[first] <= 0:
            raise Beyond("the root of what is negative")
        factor = self.constant(math.sqrt(p[first]))
        rest = self.times(p, {ONE: 1 / p[first]})
        if len(rest) == 1 and first and all(n < 0 for _, n in first):
            return self.div(factor, self._root({tuple((a, -n) for a, n in first): 1.0}))
        if len(rest) == 1 and all(self.names[a][0] == "exp" for a, _ in first):
            halves = tuple((a, n / 2) for a, n in first)
            return self.mul(factor, Quotient({halves: 1.0}, {ONE: 1.0}))
        return self.mul(factor, self.single(self.atom("sqrt", _key(rest))))

    def raised(self, a: Quotient, n: float) -> Quotient:
        """a^n, where 2n is whole."""
        if 2 * n != int(2 * n) or abs(n) > POWER:
            raise Beyond("an odd power")
        out = self.constant(1.0)
        for _ in range(int(abs(n))):
            out = self.mul(out, a)
        if abs(n) != int(abs(n)):
            out = self.mul(out, self.sqrt(a))
        return out if n >= 0 else self.div(self.constant(1.0), out)


def _bounded(p: Polynomial) -> Polynomial:
    if len(p) > TERMS:
        raise Beyond("too many terms")
    return p


def _key(p: Polynomial) -> Key:
    return tuple(sorted(p.items()))


class Operators:
    """Operators on normal forms of an operand x."""

    key = staticmethod(_key)

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self._x = algebra.atom("x")
        self.operand = algebra.single(self._x)
        self.number = algebra.constant
        self.add, self.mul, self.div = algebra.add, algebra.mul, algebra.div
        self.exp, self.log, self.erf = algebra.exp, algebra.log, algebra.erf

    def sub(self, a: Quotient, b: Quotient) -> Quotient:
        """a - b"""
        return self.algebra.add(a, b, -1.0)

    def power_of(self, a: Quotient, n: Quotient) -> Quotient:
        """a^n, where one of them is a number."""
        exponent, base = map(self.algebra.number_of, (n, a))
        if exponent is not None:
            return self.power(a, exponent)
        if base is None or base <= 0:
            raise Beyond("a power that isn't a number")
        return self.exp(self.mul(n, self.number(math.log(base))))

    def power(self, a: Quotient, n: float) -> Quotient:
        """a^n"""
        return self.algebra.raised(a, n)
