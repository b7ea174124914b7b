"""What an expression prints is what a person would write."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from support.running import Running

from fairhand.analysis.graph.dims import symbol
from fairhand.analysis.spelling.expr import (
    TORCH_DTYPES,
    Attribute,
    Binary,
    Call,
    Conditional,
    DeviceOf,
    DimOf,
    Expr,
    ExpressionList,
    HelperRef,
    List,
    Literal,
    Name,
    Printing,
    Ref,
    Unary,
    callee,
    depth,
    exchange,
    generalised,
    leaves,
    nodes,
    render,
    spell,
    substitute,
)

X, Y, Z = Name("x"), Name("y"), Name("z")
V, W = Ref(ir.Value(name="v")), Ref(ir.Value(name="w"))


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((V, V, V, V), "[v] * 4"),
        ((V, V, V), "[v, v, v]"),
        ((V, V, V, W), "[v, v, v, w]"),
    ],
)
def test_a_list_of_one_value_is_said_once(row: tuple[Expr, ...], text: str) -> None:
    assert render(List(*row), lambda leaf: str(leaf.meant.name)) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (-(X**2), "-x ** 2"),
        ((-X) ** 2, "(-x) ** 2"),
        (X**-Y, "x ** -y"),
        ((X**Y) ** Z, "(x ** y) ** z"),
        (X ** (Y**Z), "x ** y ** z"),
        (2**X, "2 ** x"),
        ((-2) ** X, "(-2) ** x"),
        (X**-2, "x ** -2"),
        (operator.neg(-X), "--x"),
        (-X * Y, "-x * y"),
        (-(X * Y), "-(x * y)"),
        (X - (Y - Z), "x - (y - z)"),
        (X - Y - Z, "x - y - z"),
        (X + (Y + Z), "x + (y + z)"),  # rounding: not the same as x + y + z
        (1 - X, "1 - x"),
        (X - -1, "x - -1"),
        (X / (Y * Z), "x / (y * z)"),
        (X * Y / Z, "x * y / z"),
        (X % Y // Z, "x % y // z"),
        (np.float32(0.1) * X, "0.1 * x"),
        ((X < Y) < Z, "(x < y) < z"),
        (operator.lt(X, Y < Z), "x < (y < z)"),
        (operator.lt(2, X), "x > 2"),
        ((X == Y) & (Y != Z), "(x == y) & (y != z)"),
        ((X & Y) == Z, "x & y == z"),
        (X & Y | Z ^ X, "x & y | z ^ x"),
        (~(X & Y), "~(x & y)"),
        (X << (Y + Z), "x << y + z"),
        ((X + Y).sum(dim=(1, 2)), "(x + y).sum(dim=(1, 2))"),
        ((-X).exp(), "(-x).exp()"),
        (-X.exp(), "-x.exp()"),
        (X.T @ Y, "x.T @ y"),
        ((X @ Y)[0], "(x @ y)[0]"),
        (X[:, None, ..., 1:], "x[:, None, ..., 1:]"),
        (X[::2, -1, Y : Z + 1 : -1], "x[::2, -1, y:z + 1:-1]"),
        (X[Y + 1], "x[y + 1]"),
        (X[[0, 2]], "x[[0, 2]]"),
        (X((1,), [], ()), "x((1,), [], ())"),
        (X(Y, -1, p=Z + 1), "x(y, -1, p=z + 1)"),
        (X(dim=0), "x(dim=0)"),
        (X((Y, Z)).a.b(1)[0].c, "x((y, z)).a.b(1)[0].c"),
        (Conditional(X + 1, X < Y, spell(0)), "x + 1 if x < y else 0"),
        (
            Conditional(X, Conditional(X, Y, Z), Z) + 1,
            "(x if (x if y else z) else z) + 1",
        ),
        (
            Unary(Binary(X, spell(None), label="is not"), label="not "),
            "not x is not None",
        ),
        (Unary(Binary(X, Y, label="or"), label="not "), "not (x or y)"),
        (Binary(Binary(X, Y, label="or"), Z, label="and"), "(x or y) and z"),
        (List(X, Unary(Y + 1, label="*")), "[x, *y + 1]"),
        (ExpressionList(X, Y), "x, y"),
        (spell(("a", None, True)), '("a", None, True)'),
        (spell(-1.5), "-1.5"),
    ],
)
def test_text(expr: Expr, text: str) -> None:
    assert render(expr) == text


def test_an_expression_decides_nothing() -> None:
    """A spelling that branches on a run-time value fails, instead of printing one."""
    with pytest.raises(TypeError, match="no truth value"):
        bool(X < Y)
    with pytest.raises(TypeError, match="no truth value"):
        _ = X < Y < Z
    with pytest.raises(TypeError, match="can't be unpacked"):
        _, _ = X
    with pytest.raises(AttributeError):
        _ = X._private


def test_depth_counts_calls_in_calls_only() -> None:
    assert depth(X.T @ -Y[0] ** 2) == 0
    assert depth(X(Y(1)) + Z(2)) == 2
    assert depth(X.sum().exp()) == 2  # a chain reads inside out too


def test_substitution_keeps_what_nobody_exchanges() -> None:
    expr = X + V
    assert substitute(X, lambda leaf: Y) is X
    assert render(substitute(expr, lambda leaf: None), lambda leaf: "v") == "x + v"


def test_axes_are_added_in_the_brackets_of_a_slice() -> None:
    def inlined(inner: Expr, outer: Expr) -> str:
        return render(substitute(outer, lambda leaf: inner), lambda leaf: "x")

    cut = X[:, :3]
    assert inlined(cut, V[:, None, :]) == "x[:, None, :3]"
    assert inlined(cut, V[None]) == "x[None, :, :3]"
    assert inlined(cut, V[:, 0]) == "x[:, :3][:, 0]"
    assert inlined(X[:, 0], V[:, None]) == "x[:, 0][:, None]"


def test_questions_are_put_to_the_tree() -> None:
    t = Printing()
    expr = t.F.scaled_dot_product_attention(X, V, Y, scale=0.5).roll(-1, dims=(1,))
    assert callee(expr) == ".roll" and callee(X + Y) == callee(V) == ""
    assert callee(HelperRef(double)(X)) == "double"
    match expr:
        case Call((Attribute((Call((Name(function), x, *_, Literal(scale))),)), *_)):
            assert function == "F.scaled_dot_product_attention"
            assert x is X and scale == 0.5
        case _:
            pytest.fail(f"not seen in {render(expr, lambda leaf: 'v')}")
    called = [callee(node) for node in nodes(expr) if isinstance(node, Call)]
    assert called == [".roll", "F.scaled_dot_product_attention"]


def test_the_least_general_expression_has_holes_where_others_part() -> None:
    parts: list[tuple[str, ...]] = []

    def hole(column: tuple[Expr, ...]) -> Expr | None:
        parts.append(tuple(map(render, column)))
        return Name("hole") if parts[-1] != ("x", "sum(x)") else None

    f, x = Name("f"), Name("x")
    found = generalised([f(x, 1) + 2, f(x, 3) + 2], hole)
    assert found is not None and render(found) == "f(x, hole) + 2"
    found = generalised([f(x), f(x, 1)], hole)
    assert found is not None and render(found) == "hole"
    same = f(x)[0]
    assert generalised([same, same], hole) is same
    assert generalised([f(x), f(Name("sum")(x))], hole) is None
    assert parts == [("1", "3"), ("f(x)", "f(x, 1)"), ("x", "sum(x)")]


def test_exchange_sees_what_is_outside_first() -> None:
    expr = X(X[0] + 1, [2, Y])

    def other(node: Expr) -> Expr | None:
        if isinstance(node, List):
            return Z
        return Literal(5) if isinstance(node, Literal) else None

    assert render(exchange(expr, other)) == "x(x[5] + 5, z)"
    assert exchange(expr, lambda node: None) is expr


# ---- kinds of leaves, and the two meanings of `t`


def double(x: Any) -> Any:
    return x * 2


def test_leaves_are_named_by_the_caller_but_for_helpers() -> None:
    expr = HelperRef(double)(V, DimOf(symbol("batch")), DeviceOf())
    assert render(HelperRef(double)(X)) == "double(x)"
    with pytest.raises(ValueError, match="no name yet"):
        render(expr)
    kinds = [type(leaf).__name__ for leaf in leaves(expr)]
    assert kinds == ["HelperRef", "Ref", "DimOf", "DeviceOf"]
    assert leaves(expr) is leaves(expr)  # dozens of passes ask for them
    assert (
        render(expr, lambda leaf: type(leaf).__name__) == "double(Ref, DimOf, DeviceOf)"
    )


def test_printing_and_running_mean_the_same() -> None:
    printing, running = Printing(), Running()
    for dtype, name in TORCH_DTYPES.items():
        assert render(printing.dtype(dtype)) == f"torch.{name}"
        assert running.dtype(dtype) is getattr(torch, name)
    assert render(printing.relu(X)) == "torch.relu(x)"
    assert (
        render(printing.F.gelu(X, approximate="tanh"))
        == 'F.gelu(x, approximate="tanh")'
    )
    assert render(printing.math.sqrt(2)) == "math.sqrt(2)"
    assert running.relu is torch.relu and running.F is torch.nn.functional
    assert running.math.sqrt(4) == 2
    assert (
        running.helper(double) is double and printing.helper(double).function is double
    )
    assert running.device == "cpu" and isinstance(printing.device, DeviceOf)
