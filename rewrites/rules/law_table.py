"""Laws of elementwise operators that fit on a line: the statement is what is proved."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

from ..language.operators import elementwise
from ..language.pattern import Chain, Leaf, Operator, Term, Var, leaves
from ..language.rule import Law, Rule, rule
from ..language.terms import Bool, Int, Real, eq, forall

Side: TypeAlias = Callable[..., Term]
Condition: TypeAlias = tuple[Callable[..., Bool], str]
Layer = TypeVar("Layer")
Build: TypeAlias = Callable[[Law, Layer], None]  # a law about a layer

KINDS = ("float", "int", "bool")

number = Law().number  # a new constant on a right side

_SIGNS = {
    ast.Add: elementwise.Add,
    ast.Sub: elementwise.Sub,
    ast.Mult: elementwise.Mul,
    ast.Div: elementwise.Div,
    ast.USub: elementwise.Neg,
}


def fits(small: Term, large: Term, rank: Int) -> Bool:
    """Whether one operand broadcasts into the other's shape."""
    return forall(rank, lambda k: eq(small.dim(k), 1) | eq(small.dim(k), large.dim(k)))


def equation(
    statement: str,
    operands: str,
    left: Side | None = None,
    right: Side | None = None,
    *,
    name: str,
    family: str,
    wrong: str | Mapping[str, Side | str],
    require: Condition | None = None,
    worthwhile: Condition | None = None,
    contained: Sequence[str] = (),
    sample: Mapping[str, Any] | None = None,
    **more: Any,
) -> Rule:
    """left = right, for operands of any rank that broadcast against each other.

    The sides are those of the statement, "x / c = x * (1 / c)": operands, +, -, *, /,
    elementwise operators by ONNX's names, Sum for any order and association, numbers,
    which are new constants unless an operand is that number; or functions of the
    operands. `wrong` is a mutant, or more by name: right sides that aren't equal.

    `operands` names them in the order in which functions take them: `x` is any tensor,
    `x:tensor` one that has all axes of the result, `c:constant` and `k:scalar` don't
    depend on the model's inputs (a scalar has one element), `one:1` is that number
    throughout, `alpha:real` a parameter. A kind before the names ("float", "int" or
    "bool") holds for all but those like `two:2:any` and `c::bool`. What occurs on the
    left alone must not enlarge the first operand, unless it is `contained`: that the
    operator itself forbids. `require` is a precondition in the operands with a reason,
    and `worthwhile` one that the law would be true without.
    """
    mutants = {"wrong": wrong} if isinstance(wrong, str) else wrong
    kind, names = _kind(operands)
    if left is None or right is None:
        left, right = (_side(text, names) for text in statement.split(" = "))
    probe = _declared(Law(), names, kind, exact=False)
    dropped = _dropped(left(*probe), right(*probe))

    def build(law: Law) -> None:
        terms = _declared(law, names, kind, exact=bool(dropped))
        rank: Int = law.symbols["r"]
        others = (t for t in terms[1:] if isinstance(t, Var) and t.name in dropped)
        free = (t for t in others if t.name not in contained)
        enlarging = [t for t in free if t.kind is not Leaf.SCALAR]
        if enlarging and not law.mutant("enlarging"):
            for t in enlarging:
                why = f"{t.name} enlarges {terms[0].name}"
                law.require(fits(t, terms[0], rank), why)
        if require and not law.mutant("unconditional"):
            law.require(require[0](*terms), require[1])
        if worthwhile:
            law.require(worthwhile[0](*terms), worthwhile[1])
        made = right
        for mutant, other in mutants.items():
            if law.mutant(mutant):
                made = _side(other, names) if isinstance(other, str) else other
        law.rewrite(left(*terms), made(*terms))

    given = {"r": 2, **_shapes(probe, dropped), **(sample or {})}
    return rule(family, name=name, statement=statement, samples=[given], **more)(build)


def variant(
    function: Build[Layer],
    layer: Callable[[Law], Layer],
    samples: Sequence[dict[str, Any]],
    bias: bool,
    named: tuple[str, str] = ("", ""),
    said: tuple[str, str] = ("", ""),
) -> Rule:
    """A law of a layer with weights for one form of it, with a bias c or without.

    `named` and `said` are what stands in the name and in the statement, and for what.
    """

    def build(law: Law) -> None:
        function(law, layer(law))

    build.__module__ = function.__module__
    statement = (function.__doc__ or "").strip().split("\n")[0].replace(*said)
    name = function.__name__.replace(*named, 1)
    return rule(
        "fusion",
        name=f"{name}_biased" if bias else name,
        statement=statement if bias else statement.replace(", c)", ")"),
        samples=samples,
    )(build)


def _side(text: str, names: list[str]) -> Side:
    """A side as a function of the operands; where it is called, ValueError if it has
    other names."""
    spelled = [name.split(":") for name in names]

    def term(node: ast.expr, known: Mapping[str, Term]) -> Any:
        match node:
            case _ if (found := known.get(ast.unparse(node))) is not None:
                return found
            case ast.Constant(int() | None as value):
                return None if value is None else number(value)
            case ast.BinOp(a, sign, b) if type(sign) in _SIGNS:
                return _SIGNS[type(sign)](term(a, known), term(b, known))
            case ast.UnaryOp(sign, a) if type(sign) in _SIGNS:
                return _SIGNS[type(sign)](term(a, known))
            case ast.Call(ast.Name("Sum"), [_, _, *_] as given, []):
                terms = tuple(term(each, known) for each in given)
                return Chain(elementwise.Add, terms)
            case ast.Call(ast.Name(head), given, []):
                operator = vars(elementwise).get(head)
                if isinstance(operator, Operator):
                    return operator(*(term(each, known) for each in given))
        raise ValueError(
            f"{ast.unparse(node)} in the statement {text!r} has no meaning"
        )

    def side(*operands: Term) -> Term:
        known = dict(zip((name for name, *_ in spelled), operands, strict=True))
        for (_, *what), operand in zip(spelled, operands, strict=True):
            if what and what[0][-1:].isdigit():
                known[ast.unparse(ast.parse(what[0], mode="eval").body)] = operand
        found: Term = term(ast.parse(text, mode="eval").body, known)
        return found

    return side


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
    kinds = "" if other == "any" else other or kind
    if what == "tensor":
        return law.tensor(name, rank, kinds=kinds)
    if what == "constant":
        return law.constant_operand(name, rank, kinds=kinds)
    if what == "scalar":
        return law.scalar(name, rank, kinds=kinds)
    if what:
        number = Real("negative_zero") if what == "-0" else Fraction(what)
        return law.filled(name, rank, number, kinds=kinds, kept=True)
    if exact:
        return law.tensor(name, rank, kinds=kinds)
    return law.operand(name, rank, kinds=kinds)


def _dropped(left: Term, right: Term) -> set[str]:
    kept = {leaf.name for leaf in leaves([right])}
    return {leaf.name for leaf in leaves([left])} - kept
