"""Activation functions by what they compute, whatever their spelling.

The values at a few points propose a function and its parameters; that it is this
function is then proved on normal forms, for all real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from .algebra import Algebra, Beyond
from .denotation import Step, Term, computed, same_function

Read: TypeAlias = "Callable[[Term, np.ndarray], dict[str, Any] | None]"

POINTS = np.array([-11, -7.3, -2.9, -1.1, -0.37, 0.21, 0.83, 1.9, 3.7, 6.6, 11.0])
_SCALE = 1 + np.abs(POINTS)


@dataclass(frozen=True)
class Function:
    """A function that ONNX has an operator for.

    `read` gives the parameters that a term has if it is this function, from its values
    and its numbers; None if it can't be.
    """

    name: str
    operator: str
    statement: str
    read: Read
    bounds: tuple[str, ...] = ()  # parameters that the operator takes as inputs

    def term(self, parameters: dict[str, Any]) -> Term:
        """The function applied to the operand."""
        bounds = tuple(parameters[name] for name in self.bounds)
        return Term((Step(self.operator, parameters, (0, *bounds)),))


@dataclass(frozen=True)
class Found:
    """A function with its parameters."""

    function: Function
    parameters: dict[str, Any]


def _fixed(**parameters: Any) -> Read:
    return lambda term, values: parameters


def _at(term: Term, *points: float) -> np.ndarray:
    found = computed(term, points)
    if found is None:
        raise Beyond("a value that isn't finite")
    return found


def _is_x_above(values: np.ndarray) -> bool:
    """Whether the term is x at the largest points."""
    return bool(np.abs(values[-2:] / POINTS[-2:] - 1).max() < 1e-3)


def _swish(term: Term, values: np.ndarray) -> dict[str, float] | None:
    gates = values / POINTS
    if not ((gates >= -1e-3) & (gates <= 1 + 1e-3)).all():
        return None
    for point in (1.0, 0.125, 8.0, 0.01):
        gate = _at(term, point)[0] / point
        if 0.01 < gate < 0.99:
            return {"alpha": math.log(gate / (1 - gate)) / point}
    return None


def _leaky(term: Term, values: np.ndarray) -> dict[str, float] | None:
    if not _is_x_above(values):
        return None
    return {"alpha": -_at(term, -1.0)[0]}


def _elu(term: Term, values: np.ndarray) -> dict[str, float] | None:
    if not _is_x_above(values) or values[3] >= 0:
        return None
    return {"alpha": _at(term, -1.0)[0] / math.expm1(-1)}


def _celu(term: Term, values: np.ndarray) -> dict[str, float] | None:
    if not _is_x_above(values) or values[3] >= 0:
        return None
    return {"alpha": -_at(term, -1e6)[0]}


def _selu(term: Term, values: np.ndarray) -> dict[str, float] | None:
    gamma = values[-1] / POINTS[-1]
    if gamma <= 0 or values[3] >= 0 or not _is_x_above(values / gamma):
        return None
    return {"gamma": gamma, "alpha": _at(term, -1.0)[0] / (gamma * math.expm1(-1))}


def _hard_sigmoid(term: Term, values: np.ndarray) -> dict[str, float] | None:
    if values.min() < -1e-3 or values.max() > 1 + 1e-3:
        return None
    middle = _at(term, -0.125, 0.0, 0.125)
    if not 0 < middle[0] < middle[2] < 1:
        return None
    return {"alpha": float(middle[2] - middle[0]) * 4, "beta": float(middle[1])}


def _clip(term: Term, values: np.ndarray) -> dict[str, float] | None:
    low, high = _at(term, -1e6, 1e6)
    inside = (low < POINTS) & (high > POINTS)
    if low >= high or np.abs(values - POINTS)[inside].max(initial=0) > 1e-3:
        return None
    return {"low": float(low), "high": float(high)}


def _thresholded(term: Term, values: np.ndarray) -> dict[str, float] | None:
    if not ((values == 0) | (np.abs(values - POINTS) < 1e-3)).all():
        return None
    numbers = {x for s in term.steps for x in s.operands if isinstance(x, float)}
    for alpha in sorted(numbers):
        at, above = _at(term, alpha, alpha + 1e-3 * (1 + abs(alpha)))
        if abs(alpha) > 1e-6 and at == 0 and above != 0:
            return {"alpha": alpha}
    return None


# Those without parameters first: they are the more telling.
FUNCTIONS = (
    Function("identity", "Identity", "x", _fixed()),
    Function("gelu", "Gelu", "x (1 + erf(x / sqrt 2)) / 2", _fixed(approximate="none")),
    Function(
        "gelu_tanh",
        "Gelu",
        "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2",
        _fixed(approximate="tanh"),
    ),
    Function("silu", "Swish", "x sigmoid(x)", _fixed(alpha=1.0)),
    Function("sigmoid", "Sigmoid", "1 / (1 + exp(-x))", _fixed()),
    Function("tanh", "Tanh", "(exp(2 x) - 1) / (exp(2 x) + 1)", _fixed()),
    Function("softplus", "Softplus", "log(1 + exp(x))", _fixed()),
    Function("softsign", "Softsign", "x / (1 + |x|)", _fixed()),
    Function("mish", "Mish", "x tanh(softplus(x))", _fixed()),
    Function("relu", "Relu", "max(x, 0)", _fixed()),
    Function("abs", "Abs", "max(x, -x)", _fixed()),
    Function("hard_swish", "HardSwish", "x clip(x / 6 + 1/2, 0, 1)", _fixed()),
    Function("quick_gelu", "Swish", "x sigmoid(a x)", _swish),
    Function("leaky_relu", "LeakyRelu", "a x below 0, else x", _leaky),
    Function("elu", "Elu", "a (exp(x) - 1) below 0, else x", _elu),
    Function("celu", "Celu", "a (exp(x / a) - 1) below 0, else x", _celu),
    Function("selu", "Selu", "g a (exp(x) - 1) below 0, else g x", _selu),
    Function("hard_sigmoid", "HardSigmoid", "clip(a x + b, 0, 1)", _hard_sigmoid),
    Function("clip", "Clip", "min(max(x, a), b)", _clip, ("low", "high")),
    Function("thresholded_relu", "ThresholdedRelu", "x above a, else 0", _thresholded),
)


# The layers of a network repeat their functions.
@lru_cache(maxsize=1024)
def scalar_function(term: Term, places: int) -> Found | None:
    """The function that a term is, proved; None if none is known.

    `places` are the binary digits that the element type of its numbers has.
    """
    values = computed(term, POINTS)
    if values is None:
        return None
    for function in FUNCTIONS:
        try:
            read = function.read(term, values)
            if read is None:
                continue
            parameters = _stored(read)
            expected = _expected(function, tuple(parameters.items()))
            if not _alike(values, expected, places):
                continue
            candidate = function.term(parameters)
            if same_function(term, candidate, Algebra(places - 3)):
                return Found(function, parameters)
        except (Beyond, ArithmeticError, ValueError):
            continue
    return None


def _stored(parameters: dict[str, Any]) -> dict[str, Any]:
    """Attributes and new constants are float32."""
    with np.errstate(over="ignore"):  # to an infinity, which nothing is the same as
        return {
            k: float(np.float32(v)) if isinstance(v, float) else v
            for k, v in parameters.items()
        }


def _alike(a: np.ndarray, b: np.ndarray | None, places: int) -> bool:
    bound = 64 * 2.0**-places
    return b is not None and bool((np.abs(a - b) <= bound * _SCALE).all())


@lru_cache(maxsize=256)
def _expected(function: Function, parameters: Any) -> np.ndarray | None:
    return computed(function.term(dict(parameters)), POINTS)
