"""How exact a law about single elements is, decided bit by bit.

`classify` reads the scalar terms that were proved equal over the reals as IEEE-754
arithmetic and asks z3 how much of the equality is left. It is sound as long as:

- add, sub, mul, div and recip round once, to nearest even, and subnormals are kept. So
  do ONNX Runtime and PyTorch on a CPU (float16 and bfloat16 included: float32 has the
  2p + 2 digits with which rounding twice is rounding once); a fast-math kernel doesn't.
- max, min, relu and clip pass NaN on. Where a zero meets one of the other sign, each
  occurrence takes either: both runtimes pick by the tensor's length and order.
- where may turn a -0 into 0, as ONNX Runtime's does (its issue 32191).
- saturated, a clip without a bound, may make an infinity the largest number.
- clip with a NaN bound is anything: ONNX Runtime ignores the bound, PyTorch returns it.
- sign(NaN) is NaN or 0: ONNX Runtime has both, by element type.
- sqrt, the elementary functions and sigma* are functions nothing else is known of
  (PyTorch's float32 square root is off by one unit in the last place now and then).
- two leaves (elements, symbols, sums) share a variable only if `same` holds of them;
  unrelated ones are independent, which can only lose a proof.

Every query has a resource limit instead of a time limit, and a context of its own, so a
verdict depends neither on the machine nor on what was asked before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import z3

from ..kernel.scalars import Scalar
from .arithmetic import Reading, Same, same_leaf
from .element_types import FLOATS, Format, Refused, float_of, format_named

DECIDED = tuple(FLOATS[name] for name in ("float16", "bfloat16", "float32"))
WHOLE = tuple(format_named(f"{u}int{n}") for n in (8, 16, 32, 64) for u in ("", "u"))
# float32 arithmetic is a large circuit: leaving that type undecided is allowed, and
# reported. Proofs that z3 finds there take less than this, so more would be in vain.
MAY_BE_UNDECIDED = "float32"
RESOURCE_LIMIT = 25_000_000
FLOAT32_LIMIT = 6_000_000

# Strongest first: what is given up of bitwise equality.
EXACTNESS: dict[str, frozenset[str]] = {
    "bitwise": frozenset(),
    "zero-sign": frozenset({"zero sign"}),
    "finite": frozenset({"not finite"}),
    "finite-zero-sign": frozenset({"not finite", "zero sign"}),
}


@dataclass(frozen=True)
class Classification:
    """How exact a law is.

    `name` is a key of EXACTNESS: "bitwise" is equal but for the payload of NaN,
    "zero-sign" but for the sign of zero too, "finite" where no element is infinite or
    NaN. None: the sides round differently, or nothing was decided. `formats` are the
    element types it was decided for; `witness` are elements of which the sides differ
    bit by bit, or the reason why nothing was decided.
    """

    name: str | None
    formats: tuple[str, ...] = ()
    witness: str = ""


def classify(
    left: Scalar,
    right: Scalar,
    facts: Sequence[Scalar] = (),
    same: Same = same_leaf,
    limit: int = RESOURCE_LIMIT,
    formats: Sequence[Format] = DECIDED,
) -> Classification:
    """The strongest exactness of left = right, where the boolean facts hold.

    It holds for float16, bfloat16 and, where listed in the result, float32; or for
    other `formats`, such as all of whole numbers; or for the one combination of types
    that the casts in the law allow. `same` tells whether two leaves are the same
    element; `limit` is the most z3 may spend on one question.
    """
    sides = left, right
    try:
        readings = [Reading(sides, facts, same, default) for default in formats]
    except Refused as reason:
        return Classification(None, (), f"undecided: {reason}")
    if not readings[0].uses_default:
        readings = readings[:1]
    # Most laws round differently, which the weakest question shows at once.
    proved, witness = decide(readings[0], list(EXACTNESS.values())[-1], limit)
    if proved is False:
        return Classification(None, (), witness)
    witness, refuted = "", False
    for name, relaxed in EXACTNESS.items():
        decided: list[str] = []
        for reading in readings:
            proved, text = decide(reading, relaxed, limit)
            if text and not refuted:
                witness, refuted = text, proved is False
            if proved:
                decided += reading.formats
            elif proved is False or reading.formats != (MAY_BE_UNDECIDED,):
                break
        else:
            if decided:
                return Classification(name, tuple(decided), witness)
    return Classification(None, (), witness)


def decide(
    reading: Reading, relaxed: frozenset[str], limit: int = RESOURCE_LIMIT
) -> tuple[bool | None, str]:
    """Whether the sides are equal but for what is relaxed, and if not, a witness.

    None: z3 ran out of resources, or the hypotheses hold nowhere.
    """
    left, right = reading.left, reading.right
    hypotheses = list(reading.hypotheses)
    floats = [x for _, kind, x in reading.variables.values() if kind.kind == "float"]
    if "not finite" in relaxed:
        infinite = [z3.Or(z3.fpIsNaN(x), z3.fpIsInf(x)) for x in floats]
        hypotheses += [z3.Not(x) for x in infinite]
    goal = left == right
    if "zero sign" in relaxed and reading.result.kind == "float":
        both = z3.And(z3.fpIsNaN(left), z3.fpIsNaN(right))
        goal = z3.Or(z3.fpEQ(left, right), both)
    skippable = reading.formats == (MAY_BE_UNDECIDED,)
    limit = min(FLOAT32_LIMIT, limit) if skippable else limit
    found, solver = _solve([*hypotheses, z3.Not(goal)], limit)
    if found == z3.sat:
        return False, _witness(reading, solver.model())
    if found == z3.unknown:
        return None, f"undecided for {' '.join(reading.formats)}"
    # Nothing follows from hypotheses that contradict each other.
    if hypotheses and _solve(hypotheses, limit)[0] != z3.sat:
        return None, "undecided: the facts hold nowhere"
    return True, ""


def _solve(
    assertions: Sequence[z3.BoolRef], limit: int
) -> tuple[z3.CheckSatResult, z3.Solver]:
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.set("rlimit", limit)
    solver.add(*(assertion.translate(context) for assertion in assertions))
    return solver.check(), solver


def _witness(reading: Reading, model: z3.ModelRef) -> str:
    """`float16: x = -0.0; left 0.0, right -0.0`."""
    values = reading.variables.values()
    elements = [f"{name} = {_text(model, x, kind)}" for name, kind, x in values]
    left, right = (
        _text(model, side, reading.result) for side in (reading.left, reading.right)
    )
    return (
        f"{' '.join(reading.formats)}: {', '.join(elements)}; "
        f"left {left}, right {right}"
    )


def _text(model: z3.ModelRef, x: z3.ExprRef, kind: Format) -> str:
    def value(expression: z3.ExprRef) -> z3.ExprRef:
        # Built here, then translated: z3's constructors for floats assume the main
        # context, and corrupt memory when handed a term of another one.
        return model.eval(expression.translate(model.ctx), model_completion=True)

    if kind.kind == "bool":
        return str(z3.is_true(value(x)))
    if kind.kind == "float":
        if z3.is_true(value(z3.fpIsNaN(x))):
            return "nan"
        return repr(float_of(value(z3.fpToIEEEBV(x)).as_long(), kind))
    number = value(x)
    return str(number.as_signed_long() if kind.kind == "int" else number.as_long())
