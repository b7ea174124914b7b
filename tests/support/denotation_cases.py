"""Random instances of operators: what ONNX Runtime is given, and what denotes it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fairhand.rewrites.proof.goal  # noqa: F401  it registers meanings
from fairhand.rewrites.proof.kernel.tensors import Context, Tensor
from fairhand.rewrites.proof.semantics import elementwise as e
from fairhand.rewrites.proof.semantics.table import MEANINGS

SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0]


class Draw:
    """Random sizes, axes and values. Values are special now and then."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.values = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def flag(self) -> bool:
        return self.random.random() < 0.5

    def choice(self, of: Sequence[Any]) -> Any:
        return self.random.choice(of)

    def sizes(self, least: int = 0, most: int = 4, low: int = 0) -> list[int]:
        """A shape; small enough to be computed element by element."""
        rank = self.integer(least, most)
        high = 3 if rank < 4 else 2
        smallest = low if self.random.random() < 0.3 else max(low, 1)
        return [self.integer(smallest, high) for _ in range(rank)]

    def array(self, sizes: Sequence[int], special: bool = True) -> np.ndarray:
        found = self.values.standard_normal(tuple(sizes)).astype(np.float32)
        if special and self.flag():
            mask = self.values.random(found.shape) < 0.25
            chosen = self.values.choice(SPECIAL, found.shape).astype(np.float32)
            found = np.where(mask, chosen, found)
        return np.asarray(found, np.float32)

    def booleans(self, sizes: Sequence[int]) -> np.ndarray:
        return self.values.random(tuple(sizes)) < 0.5

    def broadcastable(self, sizes: Sequence[int]) -> list[int]:
        """A shape that broadcasts into this one."""
        kept = [n if self.random.random() < 0.7 else 1 for n in sizes]
        return kept[self.integer(0, len(kept)) :] if self.flag() else kept

    def subset(self, count: int) -> list[int]:
        return [k for k in range(count) if self.flag()]


@dataclass
class Case:
    """An operator on inputs, and its denotation on tensors of the same names.

    exact: no arithmetic happens, so every bit has to agree. outputs: how many the node
    has; the denotation of several is a tuple. operands: how many inputs are the node's
    own, where its branches read the others.
    """

    operator: str
    inputs: list[np.ndarray | None]
    denote: Callable[..., Tensor | tuple[Tensor, ...]]
    attributes: dict[str, Any] = field(default_factory=dict)
    exact: bool = False
    outputs: int = 1
    operands: int | None = None


CASES: dict[str, Callable[[Draw], Case]] = {}


def case(name: str) -> Callable[[Callable[[Draw], Case]], Callable[[Draw], Case]]:
    """Enter a generator of instances."""

    def register(make: Callable[[Draw], Case]) -> Callable[[Draw], Case]:
        assert name not in CASES
        CASES[name] = make
        return make

    return register


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


UNARY = (
    "Abs Ceil Cos Erf Exp Floor Log Neg Reciprocal Relu Round Sigmoid Sign Sin Sqrt "
    "Tan Tanh"
).split()
BINARY = (
    "Add Sub Mul Div Pow Max Min Equal Less LessOrEqual Greater GreaterOrEqual"
).split()


def _pointwise(name: str, arity: int, boolean: bool = False) -> None:
    def make(draw: Draw) -> Case:
        sizes = draw.sizes()
        shapes = [draw.broadcastable(sizes) for _ in range(arity)]
        shapes[draw.integer(0, arity - 1)] = sizes
        values = draw.booleans if boolean else draw.array
        inputs = [values(s) for s in shapes]
        exact = name in ("Abs", "Neg", "Ceil", "Floor")
        return Case(name, inputs, lambda c, *x: e.pointwise(c, name, *x), exact=exact)

    case(name)(make)


for _name in UNARY:
    _pointwise(_name, 1)
for _name in BINARY:
    _pointwise(_name, 2)
for _name in ("And", "Or", "Xor"):
    _pointwise(_name, 2, boolean=True)
_pointwise("Not", 1, boolean=True)


@case("Max of three")
def _max_of_three(draw: Draw) -> Case:
    sizes = draw.sizes()
    inputs = [draw.array(draw.broadcastable(sizes)) for _ in range(3)]
    return Case("Max", inputs, lambda c, *x: e.pointwise(c, "Max", *x))


@case("Where")
def _where(draw: Draw) -> Case:
    sizes = draw.sizes()
    shapes = [draw.broadcastable(sizes) for _ in range(3)]
    values = [draw.booleans(shapes[0]), draw.array(shapes[1]), draw.array(shapes[2])]
    return Case("Where", values, e.where)  # ONNX Runtime's turns -0.0 into 0.0


@case("Clip")
def _clip(draw: Draw) -> Case:
    low, high = draw.values.standard_normal(2)
    bounds = [None if draw.integer(0, 4) == 0 else np.float32(x) for x in (low, high)]
    # An absent bound is the largest finite float to ONNX Runtime.
    x = draw.array(draw.sizes(), special=None not in bounds)
    return Case("Clip", [x, *bounds], e.clip)


def _with_numbers(name: str, denote: Callable[..., Tensor], **defaults: float) -> None:
    def make(draw: Draw) -> Case:
        attributes = {k: float(np.float32(draw.values.random())) for k in defaults}
        x = draw.array(draw.sizes())
        return Case(name, [x], lambda c, t: denote(c, t, **attributes), attributes)

    case(name)(make)


_with_numbers("LeakyRelu", e.leaky_relu, alpha=0.01)
_with_numbers("HardSigmoid", e.hard_sigmoid, alpha=0.2, beta=0.5)
_with_numbers("Elu", e.elu, alpha=1.0)
_with_numbers("HardSwish", e.hard_swish)
_with_numbers("Mish", e.mish)
_with_numbers("Softplus", e.softplus)


@case("Swish")
def _swish(draw: Draw) -> Case:
    alpha = float(np.float32(draw.values.random() + 0.5))
    x = draw.array(draw.sizes())
    return Case("Swish", [x], lambda c, t: e.swish(c, t, alpha), {"alpha": alpha})


@case("PRelu")
def _prelu(draw: Draw) -> Case:
    sizes = draw.sizes()
    return Case(
        "PRelu", [draw.array(sizes), draw.array(draw.broadcastable(sizes))], e.prelu
    )


@case("Gelu")
def _gelu(draw: Draw) -> Case:
    mode = {"approximate": draw.choice(["none", "tanh"])}
    x = draw.array(draw.sizes())
    return Case("Gelu", [x], lambda c, t: e.gelu(c, t, mode["approximate"]), mode)


@case("Cast")
def _cast(draw: Draw) -> Case:
    # Floats that fit: the rest ONNX leaves open.
    target = draw.choice(["FLOAT16", "INT32", "BOOL", "DOUBLE"])
    x = 20 * draw.array(draw.sizes(), special=target in ("FLOAT16", "DOUBLE"))
    to = {"FLOAT16": 10, "INT32": 6, "BOOL": 9, "DOUBLE": 11}[target]

    def denote(c: Context, t: Tensor) -> Tensor:
        return MEANINGS["Cast"](c, t, source="FLOAT", to=target)

    return Case("Cast", [x], denote, {"to": to}, True)


@case("BitShift")
def _bit_shift(draw: Draw) -> Case:
    sizes, direction = draw.sizes(), draw.choice(["LEFT", "RIGHT"])
    x = np.asarray(draw.values.integers(0, 1 << 20, sizes)).astype(np.uint32)
    by = np.asarray(draw.values.integers(0, 8, draw.broadcastable(sizes)))

    def denote(c: Context, *t: Tensor) -> Tensor:
        return MEANINGS["BitShift"](c, *t, direction)

    inputs = [x, by.astype(np.uint32)]
    return Case("BitShift", inputs, denote, {"direction": direction}, exact=True)


@case("Trilu")
def _trilu(draw: Draw) -> Case:
    offset, upper = draw.integer(-2, 2), draw.flag()
    x = draw.array(draw.sizes(2))
    return Case(
        "Trilu",
        [x, np.int64(offset)],
        lambda c, t, _: e.trilu(c, t, offset, upper),
        {"upper": int(upper)},
        exact=True,
    )
