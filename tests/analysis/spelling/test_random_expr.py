"""Over random expressions: what is printed computes the same, without a needless pair
of parentheses, and can be taken apart and put together."""

from __future__ import annotations

import ast
import io
import operator
import tokenize
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.running import Running

from fairhand.analysis.spelling.expr import (
    Leaf,
    Name,
    Printing,
    Ref,
    depth,
    leaves,
    render,
    substitute,
)

QUICK = settings(derandomize=True, deadline=None, max_examples=200, database=None)
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **{"+": operator.add, "-": operator.sub, "*": operator.mul},
    **{"/": operator.truediv, "//": operator.floordiv, "%": operator.mod},
    **{"@": operator.matmul, "**": operator.pow},
    **{"&": operator.and_, "|": operator.or_, "^": operator.xor},
    **{"<<": operator.lshift, ">>": operator.rshift},
    **{"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge},
    **{"==": operator.eq, "!=": operator.ne},
}
UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "~": operator.invert}
NAMES = ("a", "b", "c")


class Term:
    """Remembers what was done to it: equal trees mean the same computation."""

    __array_ufunc__ = None  # as Expr: NumPy's numbers leave the operator to us

    def __init__(self, tree: Any) -> None:
        self.tree = tree

    def __getattr__(self, name: str) -> Term:
        if name.startswith("_"):
            raise AttributeError(name)
        return Term((".", self.tree, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Term:
        return Term(("()", self.tree, tree_of(args), tree_of(list(kwargs.items()))))

    def __getitem__(self, key: Any) -> Term:
        return Term(("[]", self.tree, tree_of(key)))


def _both_ways(symbol: str) -> tuple[Callable[..., Term], Callable[..., Term]]:
    return (
        lambda self, other: Term((symbol, self.tree, tree_of(other))),
        lambda self, other: Term((symbol, tree_of(other), self.tree)),
    )


for _symbol, _function in BINARY.items():
    _name = _function.__name__.rstrip("_")
    _forward, _backward = _both_ways(_symbol)
    setattr(Term, f"__{_name}__", _forward)
    if _symbol[0] not in "<>=!" or _symbol in ("<<", ">>"):
        setattr(Term, f"__r{_name}__", _backward)
for _symbol, _function in UNARY.items():
    _name = _function.__name__.rstrip("_")
    setattr(Term, f"__{_name}__", lambda self, s=_symbol: Term((s, self.tree)))


def tree_of(value: Any) -> Any:
    if isinstance(value, Term):
        return value.tree
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, *map(tree_of, value))
    if isinstance(value, slice):
        return ("slice", *map(tree_of, (value.start, value.stop, value.step)))
    return str(value) if isinstance(value, np.generic) else repr(value)


# ---- recipes: functions from named operands to what is made of them

Recipe = Callable[[dict[str, Any]], Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]
NUMBERS = st.integers(-9, 9) | st.sampled_from([0.5, -2.5, np.float32(0.1), None])
INDICES = st.none() | st.integers(-3, 3)


def operand(name: str) -> Recipe:
    return lambda e: e[name]


def index(draw: Draw, inner: Recipe) -> Recipe:
    """One place of a subscript: `...`, a number, None, an expression or a slice."""
    form = draw(st.sampled_from(["...", "number", "expression", "slice", "slice"]))
    if form == "...":
        return lambda e: ...
    number, other, step = (draw(INDICES) for _ in range(3))
    if form == "number":
        return lambda e: number
    if form == "expression":
        return inner
    first = draw(st.booleans())
    return lambda e: slice(inner(e) if first else number, other, step)


def grown(draw: Draw, size: int) -> Recipe:
    """A random recipe of about `size` operands."""
    if size < 2:
        return operand(draw(st.sampled_from(NAMES)))
    x, y = grown(draw, size // 2), grown(draw, size - size // 2)
    number = draw(NUMBERS)
    form = draw(st.sampled_from("joined number_right number_left unary attr".split()
                                + "call method items key".split()))  # fmt: skip
    if form in ("joined", "number_right", "number_left"):
        join = BINARY[draw(st.sampled_from(sorted(BINARY)))]
        if form == "joined":
            return lambda e: join(x(e), y(e))
        if form == "number_right":
            return lambda e: join(x(e), number)
        return lambda e: join(number, x(e))
    if form == "unary":
        unary = UNARY[draw(st.sampled_from("-~"))]
        return lambda e: unary(x(e))
    if form == "call":
        return lambda e: e["f"]((x(e), number), y(e), [number])
    if form == "method":
        return lambda e: x(e).sum(number, dim=y(e))
    if form == "items":
        return lambda e: e["f"]((x(e),), dim=[x(e), y(e)])
    if form == "attr":
        return lambda e: x(e).size
    places = [index(draw, y) for _ in range(draw(st.integers(1, 3)))]
    if len(places) == 1:
        return lambda e: x(e)[places[0](e)]
    return lambda e: x(e)[tuple(place(e) for place in places)]


@st.composite
def recipes(draw: Draw) -> Recipe:
    return grown(draw, draw(st.integers(1, 8)))


RECIPES = recipes()
REFS = {name: Ref(ir.Value(name=name)) for name in NAMES}
PRINTED: dict[str, Any] = {**REFS, "f": Name("f")}
TERMS: dict[str, Any] = {name: Term(name) for name in (*NAMES, "f")}


def name_of(leaf: Leaf) -> str:
    assert isinstance(leaf, Ref)
    return str(leaf.value.name)


@QUICK
@given(recipe=RECIPES)
def test_what_is_printed_is_what_was_written(recipe: Recipe) -> None:
    text = render(recipe(PRINTED), name_of)
    space = {"torch": torch, "__builtins__": {}}
    assert tree_of(eval(text, {**space, **TERMS})) == tree_of(recipe(TERMS)), text


def grouping(text: str) -> Iterator[str]:
    """The text without each pair of parentheses that only groups, in turn."""
    lines = io.StringIO(text).readline
    tokens = [t for t in tokenize.generate_tokens(lines) if t.string]
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        called = before and (before.type == tokenize.NAME or before.string in ")]")
        if token.string != "(" or called:
            continue
        level, commas = 0, 0
        for other in tokens[i:]:
            level += (other.string in "([") - (other.string in ")]")
            commas += other.string == "," and level == 1
            if level == 0:
                break
        inside = text[token.start[1] + 1 : other.start[1]]
        if inside and not commas:
            yield text[: token.start[1]] + inside + text[other.start[1] + 1 :]


def dumped(text: str) -> str:
    try:
        return ast.dump(ast.parse(text, mode="eval"))
    except SyntaxError:
        return ""


def test_grouping_finds_the_pairs_that_may_go() -> None:
    assert list(grouping("(a + b) * f((1, 2), (c)).g()[(d)]")) == [
        "a + b * f((1, 2), (c)).g()[(d)]",
        "(a + b) * f((1, 2), c).g()[(d)]",
        "(a + b) * f((1, 2), (c)).g()[d]",
    ]


@QUICK
@given(recipe=RECIPES)
def test_every_parenthesis_is_needed(recipe: Recipe) -> None:
    text = render(recipe(PRINTED), name_of)
    for shorter in grouping(text):
        assert dumped(shorter) != dumped(text), f"{text}  is  {shorter}"


# ---- on numbers and tensors

SAFE = ("+", "-", "*", "&", "|", "^", "<", "<=", "==", "!=", ">", ">=")


def tensor_recipe(draw: Draw, size: int) -> Recipe:
    """Like `grown`, of what integer tensors of shape [2, 3] can do."""
    if size < 2:
        return operand(draw(st.sampled_from(NAMES)))
    x, y = tensor_recipe(draw, size // 2), tensor_recipe(draw, size - size // 2)
    number = draw(st.integers(-4, 4))
    join = BINARY[draw(st.sampled_from(SAFE))]
    unary = UNARY[draw(st.sampled_from("-~"))]
    forms: list[Recipe] = [
        # Comparisons give truth values, which `-` refuses: long() makes them numbers.
        lambda e: join(x(e), y(e)).long(),
        lambda e: join(x(e), number).long(),
        lambda e: number - x(e) * (number + y(e)),
        lambda e: unary(x(e)),
        lambda e: x(e).pow(2).flip(-1),
        lambda e: x(e)[..., ::2].sum(dim=-1, keepdim=True),
        lambda e: x(e)[:, None].expand(-1, 2, -1)[:, 1],
        lambda e: e["torch"].where(x(e) > 0, x(e), -y(e)),
    ]
    return draw(st.sampled_from(forms))


@st.composite
def tensor_recipes(draw: Draw) -> Recipe:
    return tensor_recipe(draw, draw(st.integers(1, 6)))


@QUICK
@given(recipe=tensor_recipes())
def test_printed_and_run_on_tensors(recipe: Recipe) -> None:
    values = {n: torch.arange(i, i + 6).reshape(2, 3) for i, n in enumerate(NAMES)}
    text = render(recipe({**REFS, "torch": Printing()}), name_of)
    printed = eval(text, {"torch": torch, **values})
    ran = recipe({**values, "torch": Running()})
    assert printed.dtype == ran.dtype and torch.equal(printed, ran), text


def int_recipe(draw: Draw, size: int) -> Recipe:
    if size < 2:
        return operand(draw(st.sampled_from(NAMES)))
    x, y = int_recipe(draw, size // 2), int_recipe(draw, size - size // 2)
    if draw(st.booleans()) and size < 4:
        return lambda e: -x(e)
    symbol = draw(st.sampled_from(["+", "-", "*", "//", "%", "**", "&", ">>", "<"]))
    return lambda e: BINARY[symbol](x(e), y(e))


@st.composite
def int_recipes(draw: Draw) -> Recipe:
    return int_recipe(draw, draw(st.integers(1, 6)))


@QUICK
@given(recipe=int_recipes(), sizes=st.tuples(*[st.integers(1, 3)] * 3))
def test_printed_and_run_on_ints(recipe: Recipe, sizes: tuple[int, int, int]) -> None:
    values = dict(zip(NAMES, sizes, strict=True))
    try:
        ran = recipe(values)
    except (ArithmeticError, ValueError):
        return  # a division by zero, a shift by a negative number
    text = render(recipe(PRINTED), name_of)
    assert eval(text, dict(values)) == ran, text


# ---- leaves, substitution, nesting


@QUICK
@given(recipe=RECIPES)
def test_leaves_stand_in_the_order_of_the_text(recipe: Recipe) -> None:
    expr = recipe(PRINTED)
    names = [
        token.string
        for token in tokenize.generate_tokens(
            io.StringIO(render(expr, name_of)).readline
        )
        if token.type == tokenize.NAME and token.string in NAMES
    ]
    assert [name_of(leaf) for leaf in leaves(expr)] == names


@QUICK
@given(outer=RECIPES, inner=RECIPES)
def test_substitution_is_evaluation_in_another_place(
    outer: Recipe, inner: Recipe
) -> None:
    """With brackets only where the exchanged leaf's surroundings ask for them."""
    other = inner(PRINTED)
    expr = outer(PRINTED)
    before = render(expr, name_of)
    swapped = substitute(expr, lambda leaf: other if leaf is REFS["a"] else None)
    wanted = outer({**TERMS, "a": inner(TERMS)})
    text = render(swapped, name_of)
    assert tree_of(eval(text, {"torch": torch, **TERMS})) == tree_of(wanted), text
    assert all(dumped(shorter) != dumped(text) for shorter in grouping(text)), text
    assert render(expr, name_of) == before


def nesting(node: ast.AST) -> int:
    inner = max(map(nesting, ast.iter_child_nodes(node)), default=0)
    return inner + isinstance(node, ast.Call)


@QUICK
@given(recipe=RECIPES)
def test_depth_counts_calls_in_calls(recipe: Recipe) -> None:
    expr = recipe(PRINTED)
    assert depth(expr) == nesting(ast.parse(render(expr, name_of), mode="eval"))
