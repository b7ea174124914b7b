"""What a runtime computes: a second denotation, of operators that aren't their formula.

To the prover Softplus(x) is log(exp(x) + 1). ONNX Runtime and PyTorch compute it in a
way of their own, so here it is a function of x of which nothing is known. A law that
holds for these denotations too leaves such operators as they are. Sound as long as what
has no meaning below is computed from the operations that its denotation is made of:
sums in any order, the rest one by one.

`at_best` says what structurally equal terms leave to the runtime: the zero that comes
out of max(0, -0), the order of a sum, and the last place of an elementary function,
which may depend on where in a vector register an element stands (measured on ONNX
Runtime: Log, Sin, Cos, Softplus).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..language.exactness import Exactness, weakest
from ..language.pattern import Node
from ..language.rule import Law
from .goal import Semantics
from .kernel.equality import Equality
from .kernel.scalars import Const, Element, FromInt, Ite, Op, Opaque, Red, Scalar
from .kernel.smt import Integer, every, fresh, fresh_function, implies, within
from .kernel.tensors import Context, Tensor
from .machine.arithmetic import LOGICAL
from .machine.bitwise_decision import DECIDED, Classification, classify
from .machine.element_types import Format
from .machine.operators import COMPARISONS
from .semantics import reduction
from .semantics.elementwise import POINTWISE, elementwise, scalar
from .semantics.gather import opaque
from .semantics.table import MEANINGS, Meaning

ELEMENTWISE = {
    *POINTWISE,
    *"BitShift Cast Clip DequantizeLinear Elu Gelu HardSigmoid HardSwish".split(),
    *"Identity IsNaN LeakyRelu Mish PRelu QuantizeLinear Softplus Softsign".split(),
    *"Swish pointwise".split(),
}
# Either zero may come out where zeros of both signs, or one of either, go in.
TIES = frozenset("max min relu clip saturated where".split())
# Rounded once, or not at all: the same for an element wherever it stands.
EXACT = {
    *TIES,
    *LOGICAL,
    *COMPARISONS,
    *"add sub mul div neg abs recip square floor ceil round sign shl shr".split(),
}
# These tell the zeros apart by more than the sign of a zero.
DIVIDE = frozenset("div recip".split())


class RuntimeSemantics(Semantics):
    """`differs`: an operator of the law has another denotation than in Semantics."""

    differs = False
    moves = False  # elements may stand elsewhere than before

    def __init__(self, law: Law, whole: bool = False) -> None:
        self._kernels = {**_KERNELS, **_OF_WHOLE} if whole else _KERNELS
        super().__init__(law)

    def _node(self, node: Node) -> Any:
        self.moves |= node.operator.name not in ELEMENTWISE
        return super()._node(node)

    def meaning(self, name: str) -> Meaning:
        self.differs |= name in self._kernels
        return self._kernels.get(name) or super().meaning(name)


def _function(name: str) -> Meaning:
    """Elementwise, of operands and parameters."""

    def meaning(context: Context, *operands: Any, **parameters: Any) -> Tensor:
        words = [p for p in parameters.values() if isinstance(p, str)]
        numbers = [p for p in parameters.values() if not isinstance(p, str)]
        head = ":".join(["kernel", name, *words])
        return elementwise(context, lambda *a: Op(head, *a), *operands, *numbers)

    return meaning


def _result(name: str) -> Meaning:
    """A function of whole tensors and of parameters."""

    def meaning(context: Context, *operands: Any, **parameters: Any) -> Tensor:
        formula = MEANINGS[name](context, *operands, **parameters)
        given = [x for x in operands if x is not None]
        given += [_parameter(p) for p in parameters.values()]
        head = f"kernel:{name}:{[x is not None for x in operands]}"
        return opaque(head, formula.rank, formula.dim, tuple(given))

    return meaning


def _parameter(p: Any) -> Tensor:
    return scalar(p if isinstance(p, Scalar) else FromInt(p))


def _after(name: str, head: str) -> Meaning:
    """A function of what another operator gives."""

    def meaning(context: Context, *operands: Any, **parameters: Any) -> Tensor:
        given = MEANINGS[name](context, *operands, **parameters)
        return elementwise(context, lambda a: Op(head, a), given)

    return meaning


def _of_the_row(name: str) -> Meaning:
    """A function of an element and of what is added up along the axis."""

    def meaning(context: Context, x: Tensor, axis: Integer) -> Tensor:
        row = reduction.reduce(context, "sum", x, axis)
        return elementwise(context, lambda *a: Op(f"kernel:{name}", *a), x, row)

    return meaning


def _clip(
    context: Context, x: Tensor, low: Tensor | None, high: Tensor | None
) -> Tensor:
    """ONNX Runtime puts the largest numbers in the place of absent bounds."""
    if low is not None and high is not None:
        return elementwise(context, lambda *a: Op("clip", *a), x, low, high)
    if low is not None:
        x = elementwise(context, lambda *a: Op("max", *a), x, low)
    x = elementwise(context, lambda a: Op("saturated", a), x)
    if high is not None:
        x = elementwise(context, lambda *a: Op("min", *a), x, high)
    return x


def _pointwise(context: Context, *tensors: Tensor, f: Any) -> Tensor:
    return elementwise(context, lambda *x: Op(f"sigma:{f.name}", *x), *tensors)


def _named(make: Callable[[str], Meaning], names: str) -> dict[str, Meaning]:
    return {name: make(name) for name in names.split()}


_OF_THE_SUM = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
_KERNELS: dict[str, Meaning] = {
    **_named(_function, "Elu Gelu HardSigmoid HardSwish Mish Softplus Softsign Swish"),
    **_named(_function, "IsNaN"),
    **_named(_result, "Attention BatchNormalization GroupNormalization"),
    **_named(_result, "InstanceNormalization LayerNormalization RMSNormalization"),
    # What is added up in some order.
    **{name: _after("ReduceSum", f"kernel:{name}") for name in _OF_THE_SUM},
    # ONNX Runtime starts from the lowest number, where all may be minus infinity.
    **{name: _after(name, "saturated") for name in ("MaxPool", "GlobalMaxPool")},
    **_named(_of_the_row, "Softmax LogSoftmax"),
    "Clip": _clip,
    "pointwise": _pointwise,
}


# Powers of whole numbers are computed as those of floats.
_OF_WHOLE: dict[str, Meaning] = {"Pow": _function("Pow")}


def at_best(term: Scalar, moves: bool) -> Exactness:
    """The class of two terms that are structurally equal to this one.

    `moves`: the elements may stand at other places of a vector.
    """
    if isinstance(term, Red):
        body = term.body(fresh_function() if term.vec else fresh())
        own = Exactness.ORDER if adds_up(term) else Exactness.ZERO_SIGN
        return weakest(own, at_best(body, moves))
    if isinstance(term, Ite):
        return weakest(at_best(term.a, moves), at_best(term.b, moves))
    if isinstance(term, Opaque):
        return weakest(*(_whole(t, moves) for t in term.tensors))
    if isinstance(term, Op):
        return _applied(term, moves)
    return Exactness.BITWISE


def _whole(t: Tensor, moves: bool) -> Exactness:
    """Of an operand that something unknown is made of."""
    found = at_best(t.at(fresh_function()), moves)
    return Exactness.REAL if found is Exactness.ZERO_SIGN else found


def _applied(op: Op, moves: bool) -> Exactness:
    args = [at_best(a, moves) for a in op.args]
    found = weakest(*args)
    exact = op.name in EXACT or op.name.partition(":")[0] in _CONVERSIONS
    known = exact and not (op.name in DIVIDE and args[-1] is Exactness.ZERO_SIGN)
    if found is Exactness.ZERO_SIGN and not known:
        return Exactness.REAL
    if op.name in TIES:
        return weakest(found, Exactness.ZERO_SIGN)
    return weakest(found, Exactness.ORDER) if moves and not exact else found


_CONVERSIONS = {"cast", "quantize", "dequantize"}


def adds_up(term: Scalar) -> bool:
    """Whether it takes more than two numbers together, in an order left open."""
    if isinstance(term, Red):
        if term.kind in ("sum", "prod"):
            return True
        return adds_up(term.body(fresh_function() if term.vec else fresh()))
    if isinstance(term, Op):
        return any(map(adds_up, term.args))
    return isinstance(term, Ite) and (adds_up(term.a) or adds_up(term.b))


# For one question to z3. More finds stronger classes for a few laws, in minutes each.
_EFFORT = 1_500_000


def decided_by_bits(
    context: Context,
    a: Scalar,
    b: Scalar,
    place: tuple[Tensor, Any],
    formats: Sequence[Format] = DECIDED,
) -> Classification:
    """How much of a = b z3 shows of machine numbers.

    `place`: the result whose elements they are, and the index at which. What a law
    requires of numbers holds exactly: of their sums and products, and of attributes, no
    machine number tells, so such facts are left out.
    """
    result, index = place
    equality = Equality(context, 0)  # the lowest level: the same operations

    def in_range(k: Any) -> Any:
        return implies(within(k, result.rank), within(index(k), result.dim(k)))

    k = fresh("k")
    hypotheses = (*context.hypotheses, every(k, in_range(k), index(k)))
    equality.schemas.append(in_range)

    def same(x: Scalar, y: Scalar) -> bool:
        return x is y or bool(equality.equal(x, y, hypotheses))

    exact = (Const, Element, FromInt)
    facts = [
        fact
        for fact in context.scalar_facts
        if isinstance(fact, Op) and all(isinstance(x, exact) for x in fact.args)
    ]
    for n in (*_integers(a), *_integers(b)):
        if equality.proves(hypotheses, n.value >= 0):
            facts.append(Op("greater_equal", n, Const(0)))
    return classify(a, b, facts, same, _EFFORT, formats)


def _integers(scalar: Scalar) -> Iterator[FromInt]:
    """Sizes and indices among the operands."""
    if isinstance(scalar, FromInt) and not isinstance(scalar.value, int):
        yield scalar
    elif isinstance(scalar, Op):
        for x in scalar.args:
            yield from _integers(x)
    elif isinstance(scalar, Ite):
        yield from _integers(scalar.a)
        yield from _integers(scalar.b)
