"""Tensors that are computed at single places, in exact arithmetic.

Elements of floats are numbers of 60 digits, which stand for the reals that they are
close to; whole numbers wrap around as their type does. Nothing is computed but the
places that are asked for, each once: sizes may be those of a real network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import mpmath  # type: ignore[import-untyped]
import numpy as np

Places: TypeAlias = list[np.ndarray]  # of each axis, all of one length
Compute: TypeAlias = Callable[[Places], np.ndarray]

mp = mpmath.mp.clone()
mp.dps = 60
LIMIT = 1 << 17  # places of one tensor at a time


class Undefined(Exception):
    """The drawn numbers are none that an operator is defined for; says which."""


class Unknown(Exception):
    """Something that this file has no arithmetic for; says what."""


@dataclass(frozen=True)
class Kind:
    """An element type: float, int, uint or bool, and the bits of whole numbers."""

    name: str
    bits: int = 0

    @classmethod
    def of(cls, dtype: Any) -> Kind:
        """That of an ONNX element type. Raises Unknown of text and the like."""
        name = dtype.name.lower()
        if name == "bool":
            return cls("bool")
        for start in ("uint", "int"):
            if name.startswith(start) and name[len(start) :].isdigit():
                return cls(start, int(name[len(start) :]))
        if dtype.is_floating_point():
            return cls("float")
        raise Unknown(f"elements of type {name}")

    @property
    def whole(self) -> bool:
        """Whether they are whole numbers."""
        return self.name in ("int", "uint")

    def wrapped(self, x: Any) -> Any:
        """The number as this type has it. Raises Undefined of NaN."""
        if self.name == "bool":
            return bool(x)
        if self.name == "float":
            if x != x:
                raise Undefined("NaN")
            return x if isinstance(x, mp.mpf) else mp.mpf(x)
        x = int(x) % (1 << self.bits)
        return x - (1 << self.bits) if self.name == "int" and x >> self.bits - 1 else x


FLOAT, BOOL, INT64 = Kind("float"), Kind("bool"), Kind("int", 64)


class Tensor:
    """Sizes, the kind of element, and what computes the elements at places."""

    def __init__(self, kind: Kind, shape: Sequence[int], compute: Compute) -> None:
        self.kind, self.shape, self._compute = kind, tuple(shape), compute
        self._known: dict[int, Any] = {}

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def at(self, places: Places, like: tuple[int, ...] | None = None) -> np.ndarray:
        """The elements at these places, an array of objects of the places' shape."""
        shape = np.shape(places[0]) if places else (like or ())
        if prod(shape) > LIMIT:
            raise Unknown(f"{prod(shape)} places at once")
        flat = np.zeros(shape, np.int64)
        for place, size in zip(places, self.shape, strict=True):
            flat = flat * size + place
        wanted, back = np.unique(flat, return_inverse=True)
        missing = np.array([n for n in wanted if int(n) not in self._known], np.int64)
        if missing.size:
            found = self._compute(self.unraveled(missing))
            for n, x in zip(
                missing, np.broadcast_to(found, missing.shape), strict=True
            ):
                self._known[int(n)] = self.kind.wrapped(x)
        values = np.empty(wanted.shape, object)
        values[:] = [self._known[int(n)] for n in wanted]
        return values[back.reshape(-1)].reshape(shape)

    def unraveled(self, numbers: np.ndarray) -> Places:
        """The places of elements by their numbers."""
        return list(np.unravel_index(numbers, self.shape)) if self.shape else []

    def all(self) -> list[Any]:
        """All elements, in their order."""
        if not self.rank:
            return [self.at([]).item()]
        numbers = np.arange(self.size)
        return list(self.at(self.unraveled(numbers), numbers.shape))


def stored(array: np.ndarray, kind: Kind) -> Tensor:
    """A constant."""

    def compute(places: Places) -> np.ndarray:
        picked = np.atleast_1d(array[tuple(places)] if places else array)
        number = float if kind.name == "float" else int
        return objects([number(x) for x in picked.reshape(-1)])

    return Tensor(kind, array.shape, compute)


def objects(values: Sequence[Any]) -> np.ndarray:
    """A row of Python numbers."""
    found = np.empty(len(values), object)
    found[:] = values
    return found


def mapped(f: Callable[..., Any], *rows: np.ndarray) -> np.ndarray:
    """f of the elements."""
    shaped = np.broadcast_arrays(*rows)
    flat = objects(
        [f(*xs) for xs in zip(*(r.reshape(-1) for r in shaped), strict=True)]
    )
    return flat.reshape(shaped[0].shape)


def drawn(kind: Kind, shape: Sequence[int], name: int, draw: int) -> Tensor:
    """Any tensor: numbers that follow from its name, the place and the draw alone."""

    def compute(places: Places) -> np.ndarray:
        numbers = np.zeros(np.shape(places[0]) if places else (1,), np.int64)
        for place, size in zip(places, shape, strict=True):
            numbers = numbers * size + place
        return objects([_number(kind, name, int(n), draw) for n in numbers])

    return Tensor(kind, shape, compute)


def _number(kind: Kind, name: int, place: int, draw: int) -> Any:
    random = np.random.default_rng((name, place, draw))
    if kind.name == "bool":
        return bool(random.integers(2))
    if kind.name == "float":
        number = mp.mpf(int(random.integers(1, 65))) / int(random.integers(8, 25))
        return -number if draw % 2 == 0 and random.integers(2) else number
    if draw % 3 == 2:
        return int(random.integers(0, 2))  # an index, or a count
    if draw % 3 == 0:
        return int(random.integers(1, 12))
    low = -(1 << kind.bits - 1) if kind.name == "int" else 0
    high = low + (1 << kind.bits) - 1
    anywhere = low + int(random.integers(0, 1 << 62)) % (high - low + 1)
    return (low, high, 0, 1, anywhere, anywhere)[int(random.integers(6))]
