"""Laws of elementwise operators that fit on a line: two sides in a few operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from ..language.pattern import Leaf, Term, Var, leaves
from ..language.rule import Law, Rule, rule
from ..language.terms import Bool, Int, Real, eq, forall

Side: TypeAlias = Callable[..., Term]
Condition: TypeAlias = tuple[Callable[..., Bool], str]

KINDS = ("float", "int", "bool")

number = Law().number  # a new constant on a right side


def fits(small: Term, large: Term, rank: Int) -> Bool:
    """Whether one operand broadcasts into the other's shape."""
    return forall(rank, lambda k: eq(small.dim(k), 1) | eq(small.dim(k), large.dim(k)))


def equation(
    statement: str,
    operands: str,
    left: Side,
    right: Side,
    *,
    name: str,
    family: str,
    wrong: Mapping[str, Side],
    require: Condition | None = None,
    worthwhile: Condition | None = None,
    contained: Sequence[str] = (),
    sample: Mapping[str, Any] | None = None,
    **more: Any,
) -> Rule:
    """left = right, for operands of any rank that broadcast against each other.

    `operands` names them in the order in which both sides take them: `x` is any tensor,
    `x:tensor` one that has all axes of the result,
    `c:constant` and `k:scalar` don't depend on the model's inputs (a scalar has one
    element), `one:1` is that number throughout, `alpha:real` a parameter. A kind before
    the names ("float", "int" or "bool") holds for all but those like `two:2:any`. What
    occurs on the left alone must not enlarge the first operand, unless it is
    `contained`: the operator itself forbids it. `wrong` are mutants, right sides that
    aren't equal. `require` is a precondition in the operands with its reason;
    `worthwhile` one that the law would be true without.
    """
    kind, names = _kind(operands)
    probe = _declared(Law(), names, kind, exact=False)
    dropped = _dropped(left(*probe), right(*probe))

    def build(law: Law) -> None:
        terms = _declared(law, names, kind, exact=bool(dropped))
        rank: Int = law.symbols["r"]
        enlarging = [
            t
            for t in terms[1:]
            if isinstance(t, Var) and t.name in dropped and t.kind is not Leaf.SCALAR
        ]
        enlarging = [t for t in enlarging if t.name not in contained]
        if enlarging and not law.mutant("enlarging"):
            for term in enlarging:
                law.require(
                    fits(term, terms[0], rank), f"{term.name} enlarges {terms[0].name}"
                )
        if require is not None and not law.mutant("unconditional"):
            law.require(require[0](*terms), require[1])
        if worthwhile is not None:
            law.require(worthwhile[0](*terms), worthwhile[1])
        chosen = right
        for mutant, other in wrong.items():
            if law.mutant(mutant):
                chosen = other
        law.rewrite(left(*terms), chosen(*terms))

    given = {"r": 2, **_shapes(probe, dropped), **(sample or {})}
    return rule(family, name=name, statement=statement, samples=[given], **more)(build)


def _shapes(operands: list[Any], dropped: set[str]) -> dict[str, Any]:
    """A small instance for the tests."""
    shapes: dict[str, Any] = {}
    for term in operands:
        if not isinstance(term, Var):
            shapes[str(term)] = 0.25
        elif term.kind in (Leaf.SCALAR, Leaf.FILLED):
            shapes[term.name] = []
        else:
            shapes[term.name] = [3] if term.name in dropped else [2, 3]
    return shapes


def _kind(operands: str) -> tuple[str, list[str]]:
    names = operands.split()
    return (names[0], names[1:]) if names[0] in KINDS else ("", names)


def _declared(law: Law, names: list[str], kind: str, exact: bool) -> list[Any]:
    """The operands; the first has all the axes of the result where others go away."""
    rank = law.rank()
    return [
        _operand(law, spelled, rank, kind, exact and position == 0)
        for position, spelled in enumerate(names)
    ]


def _operand(law: Law, spelled: str, rank: Int, kind: str, exact: bool) -> Any:
    name, what, other = f"{spelled}::".split(":")[:3]
    if what == "real":
        return law.real(name)
    kinds = "" if other == "any" else kind
    if what == "tensor":
        return law.tensor(name, rank, kinds=kinds)
    if what == "constant":
        return law.constant_operand(name, rank, kinds=kinds)
    if what == "scalar":
        return law.scalar(name, rank, kinds=kinds)
    if what:
        return law.filled(name, rank, _number(what), kinds=kinds, kept=True)
    if exact:
        return law.tensor(name, rank, kinds=kinds)
    return law.operand(name, rank, kinds=kinds)


def _number(spelled: str) -> Real | Fraction:
    return Real("negative_zero") if spelled == "-0" else Fraction(spelled)


def _dropped(left: Term, right: Term) -> set[str]:
    kept = {leaf.name for leaf in leaves([right])}
    return {leaf.name for leaf in leaves([left])} - kept
