"""Denotations run on concrete arrays.

The very functions that proofs are about, with Python ints for positions and sizes, so
that they can be compared with ONNX Runtime and laws can be tried on random instances.
Numbers are double precision, whatever the arrays hold; NaN, infinities and the sign of
zero follow IEEE 754.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fairhand.rewrites.proof.kernel.scalars import (
    All,
    Const,
    Element,
    FromInt,
    Guard,
    Ite,
    NegInf,
    NegZero,
    Op,
    Opaque,
    Red,
    Scalar,
    Symbol,
)
from fairhand.rewrites.proof.kernel.smt import IndexMap, Integer, integer, known
from fairhand.rewrites.proof.kernel.tensors import Context, Tensor, shape
from fairhand.rewrites.proof.semantics.index_maps import per_axis

Array = npt.NDArray[Any]


class IllFormed(Exception):
    """The operands break a condition of an operator; the message says which."""


class ConcreteContext(Context):
    """Checks each condition at once instead of collecting it."""

    def require(self, cond: Guard, what: str = "well-formedness") -> None:
        if not holds(cond):
            raise IllFormed(what)

    def assume(self, cond: Guard) -> None:
        self.require(cond, "the precondition")


def number(x: Integer) -> int:
    """A position or size that must be known."""
    value = integer(x)
    if not isinstance(value, int):
        raise TypeError(f"not a number: {x}")
    return value


def holds(condition: Guard) -> bool:
    """The value of a condition on known positions."""
    value = known(condition.formula() if isinstance(condition, All) else condition)
    if value is None:
        raise TypeError(f"not decided: {condition}")
    return value


def sizes_of(t: Tensor) -> tuple[int, ...]:
    return tuple(number(t.dim(k)) for k in range(number(t.rank)))


def leaf(name: str, sizes: Sequence[int]) -> Tensor:
    """A tensor given by an array of this name."""
    rank = len(sizes)
    return Tensor(
        rank, shape(*sizes), lambda i: Element(name, rank, i, extended=True), name
    )


_SHARED = np.float64(0.37)


def _sigma(*x: Any) -> Any:
    """Some function, for the functions a law leaves open."""
    return np.sin(_SHARED + sum((j + 1) * v for j, v in enumerate(x)))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


OPS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "acos": np.arccos, "add": np.add, "and": np.logical_and,
    "asin": np.arcsin, "atan": np.arctan, "ceil": np.ceil, "cos": np.cos,
    "cosh": np.cosh, "div": np.divide, "equal": np.equal, "erf": math.erf,
    "exp": np.exp, "floor": np.floor, "greater": np.greater,
    "isnan": np.isnan,
    "greater_equal": np.greater_equal, "less": np.less,
    "less_equal": np.less_equal, "log": np.log, "max": np.maximum,
    "min": np.minimum, "mul": np.multiply, "neg": np.negative,
    "not": np.logical_not, "or": np.logical_or, "pow": np.power, "pow2": np.exp2,
    "recip": lambda x: 1 / x, "relu": lambda x: np.maximum(x, 0.0),
    "round": np.rint, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": _sigmoid,
    "sign": np.sign, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt,
    "square": np.square, "sub": np.subtract, "tan": np.tan, "tanh": np.tanh,
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "shl": lambda x, s: x * 2.0**s, "shr": lambda x, s: np.floor(x / 2.0**s),
    "where": lambda c, a, b: a if c else b, "xor": np.logical_xor,
}  # fmt: skip

CONSTANTS = {":pi": math.pi, "e": math.e}

KINDS: dict[str, tuple[Callable[..., Any], float]] = {
    "sum": (np.add, 0.0),
    "prod": (np.multiply, 1.0),
    "max": (np.maximum, -math.inf),
    "min": (np.minimum, math.inf),
}


def _arg(pick: Callable[..., Any], last: bool) -> Callable[..., Array]:
    def run(x: Array, axis: Array) -> Array:
        k = int(axis)
        if last:
            return np.asarray(
                x.shape[k] - 1 - pick(np.flip(x, k), axis=k, keepdims=True)
            )
        return np.asarray(pick(x, axis=k, keepdims=True))

    return run


def _topk(values: bool) -> Callable[..., Array]:
    def run(x: Array, count: Array, axis: Array) -> Array:
        order = np.argsort(-x, axis=int(axis), kind="stable")
        order = np.take(order, range(int(count)), axis=int(axis))
        return np.asarray(np.take_along_axis(x, order, int(axis)) if values else order)

    return run


def _scatter_nd(data: Array, indices: Array, updates: Array) -> Array:
    result: Array = data.copy()
    for place in np.ndindex(*indices.shape[:-1]):
        result[tuple(indices[place].astype(int))] = updates[place]
    return result


# What opaque results are, for running them only: proofs know nothing of this.
OPAQUE: dict[str, Callable[..., Array]] = {
    "argmax": _arg(np.argmax, False),
    "argmin": _arg(np.argmin, False),
    "argmax_last": _arg(np.argmax, True),
    "argmin_last": _arg(np.argmin, True),
    "topk_values": _topk(True),
    "topk_indices": _topk(False),
    "scatter_nd": _scatter_nd,
}


@dataclass
class Evaluator:
    """Runs scalars and tensors on arrays by name; a family is a list of arrays."""

    arrays: Mapping[str, Array | Sequence[Array]] = field(default_factory=dict)
    symbols: Mapping[str, float] = field(default_factory=dict)
    _reduced: dict[int, tuple[Red, Any]] = field(default_factory=dict)
    _opaque: dict[tuple[str, tuple[int, ...]], tuple[Any, Array]] = field(
        default_factory=dict
    )

    def array(self, t: Tensor) -> Array:
        """All elements, as doubles or truth values."""
        sizes = sizes_of(t)
        elements = []
        with np.errstate(all="ignore"):
            for place in itertools.product(*map(range, sizes)):
                elements.append(self.scalar(t.at(per_axis(place))))
                self._reduced.clear()
        return np.array(elements, dtype=None if elements else float).reshape(sizes)

    def scalar(self, x: Scalar) -> Any:
        """The value of a term: a double or a truth value."""
        return _VALUES[type(x)](self, x)

    def _const(self, x: Const) -> Any:
        return np.float64(float(x.value))

    def _neg_zero(self, x: NegZero) -> Any:
        return np.float64(-0.0)

    def _neg_inf(self, x: NegInf) -> Any:
        return np.float64(-math.inf)

    def _from_int(self, x: FromInt) -> Any:
        return np.float64(number(x.value))

    def _symbol(self, x: Symbol) -> Any:
        value = self.symbols[x.name] if x.name in self.symbols else CONSTANTS[x.name]
        return np.float64(value)

    def _element(self, x: Element) -> Any:
        stored = self.arrays[x.tensor]
        if x.member is not None:
            stored = stored[number(x.member)]
        return _read(np.asarray(stored), x.index, number(x.rank), x.tensor)

    def _op(self, x: Op) -> Any:
        values = [self.scalar(a) for a in x.args]
        if x.name.startswith("sigma"):
            return _sigma(*values)
        if x.name.startswith("cast:"):
            _, source, target = x.name.split(":")
            return _cast(values[0], source, target)
        return OPS[x.name](*values)

    def _ite(self, x: Ite) -> Any:
        return self.scalar(x.a if holds(x.condition) else x.b)

    def _red(self, x: Red) -> Any:
        # Softmax takes the same maximum off each of its elements. The term is kept, as
        # it is known by its identity.
        if id(x) not in self._reduced:
            self._reduced[id(x)] = x, self._reduce(x)
        return self._reduced[id(x)][1]

    def _reduce(self, x: Red) -> Any:
        combine, of_nothing = KINDS[x.kind]
        values = map(self.scalar, self._bodies(x))
        # Starting from the first one keeps the sign of a zero.
        result = next(values, np.float64(of_nothing))
        for value in values:
            result = combine(result, value)
        return result

    def _bodies(self, x: Red) -> Any:
        if not x.vec:
            return (x.body(s) for s in range(number(x.size)))
        ranges = [
            range(number(x.size(k))) if holds(x.sel(k)) else range(1)
            for k in range(number(x.rank))
        ]
        return (x.body(per_axis(place)) for place in itertools.product(*ranges))

    def _opaque_element(self, x: Opaque) -> Any:
        key = (x.name, tuple(map(id, x.tensors)))
        if key not in self._opaque:
            operands = [self.array(t) for t in x.tensors]
            # The tensors are kept alive, as they are known by their identity.
            self._opaque[key] = (x.tensors, OPAQUE[x.name](*operands))
        result = self._opaque[key][1]
        return _read(result, x.index, result.ndim, x.name)


_VALUES: dict[type, Callable[[Evaluator, Any], Any]] = {
    Const: Evaluator._const,
    NegZero: Evaluator._neg_zero,
    NegInf: Evaluator._neg_inf,
    FromInt: Evaluator._from_int,
    Symbol: Evaluator._symbol,
    Element: Evaluator._element,
    Op: Evaluator._op,
    Ite: Evaluator._ite,
    Red: Evaluator._red,
    Opaque: Evaluator._opaque_element,
}


def _read(array: Array, index: IndexMap, rank: int, name: str) -> Any:
    place = tuple(number(index(k)) for k in range(rank))
    inside = all(0 <= i < n for i, n in zip(place, array.shape, strict=True))
    if not inside:
        raise IndexError(f"{name}{list(place)} of shape {list(array.shape)}")
    value = array[place]
    return value if array.dtype == bool else np.float64(value)


def _cast(value: Any, source: str, target: str) -> Any:
    """A conversion between NumPy's element types."""
    narrowed = np.asarray(value, source).astype(target)
    return bool(narrowed) if target == "bool" else np.float64(narrowed)
