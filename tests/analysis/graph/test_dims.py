"""Sizes that are numbers or sympy expressions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import sympy

from fairhand.analysis.errors import FairhandError
from fairhand.analysis.graph.dims import (
    Dim,
    agrees,
    at_least,
    broadcast,
    ceildiv,
    floordiv,
    invented,
    is_bulky,
    maximum,
    minimum,
    parse,
    plain,
    product,
    quotient,
    same,
    simplify,
    spell,
    symbol,
)

B, S, T = symbol("b"), symbol("s"), symbol("t")
FRESH = invented("fresh")
MIN_OF_S = sympy.Min(512, S)
SMALL = range(6)


def at(dim: Dim | None, **sizes: int) -> int:
    """The size with numbers put in for its symbols."""
    assert dim is not None
    return dim if isinstance(dim, int) else int(dim.subs(sizes_of(**sizes)))


def sizes_of(**sizes: int) -> dict[sympy.Symbol, int]:
    return {symbol(name): size for name, size in sizes.items()}


def test_numbers_stay_plain_ints() -> None:
    results = [
        simplify(S + 3 - S),
        product([2, 3, 4]),
        floordiv(7, 2),
        ceildiv(7, 2),
        quotient([B, S, 64], [B, S]),
        minimum(3, 4),
        maximum(S, S + 2) - S,
    ]
    assert [type(simplify(r)) for r in results if r is not None] == [int] * 7
    assert [simplify(r) for r in results] == [3, 24, 3, 4, 64, 3, 2]


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (2, 2, True),
        (2, 3, False),
        (S, S, True),
        (S, T, None),
        (S, S + 1, False),
        (2 * S + 1, 0, False),
        (S * (T + 1), S * T + S, True),
        (symbol("2 + 1"), 3, None),
    ],
)
def test_same_has_three_answers(a: Dim, b: Dim, equal: bool | None) -> None:
    assert same(a, b) is equal
    assert same(b, a) is equal


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        (3, 2, True),
        (S, 0, True),
        (S, 1, None),
        (S + 1, 1, True),
        (-1, S, False),
        (S, S + T, None),
        (S + T, S, True),
        (S, sympy.Min(S, 512), True),
        (sympy.Max(S, 4), S, True),
        (S - 7 * sympy.floor(S / 7), 0, True),
        (sympy.floor(S / 4) - 2 * sympy.floor(S / 8), 0, True),
        (sympy.floor(S / 4) - 2 * sympy.floor(S / 8), 1, None),
    ],
)
def test_at_least_has_three_answers(a: Dim, b: Dim, answer: bool | None) -> None:
    assert at_least(a, b) is answer


DIVISIONS: list[Callable[[Dim], Dim]] = [
    lambda s: floordiv(s, 3),
    lambda s: ceildiv(s, 3),
    lambda s: floordiv(floordiv(s - 1, 2) + 4, 3),
    lambda s: ceildiv(ceildiv(s, 2), 2),
    lambda s: floordiv(2 * floordiv(s, 2) + s, 5),
    lambda s: floordiv(6 * s + 3, 3),
    lambda s: floordiv(5 - s, 4),
    lambda s: ceildiv(-s, 4),
    lambda s: floordiv(-3 * floordiv(s, 2) - 7, 4),
    lambda s: floordiv(s - 9, 4),
]


@pytest.mark.parametrize("formula", DIVISIONS)
def test_symbolic_division_agrees_with_numbers(formula: Callable[[Dim], Dim]) -> None:
    symbolic = formula(S)
    assert [at(symbolic, s=n) for n in range(40)] == [formula(n) for n in range(40)]


def test_strided_sizes_stay_flat() -> None:
    size: Dim = S
    for _ in range(4):
        size = simplify(floordiv(simplify(size - 1), 2) + 1)
    assert str(size) == "floor(s/16 + 15/16)"


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"),
    [
        ([B, S, 768], [B, S, 12], "64"),
        ([B, S + 1, 64], [B, 64], "s + 1"),
        ([simplify(B * (S + 1)), 64], [B, 32], "2*s + 2"),
        ([S, 7], [2], "floor(7*s/2)"),
        ([4, 6], [0], "None"),
        ([S], [T], "None"),
    ],
)
def test_quotient(numerator: list[Dim], denominator: list[Dim], expected: str) -> None:
    assert str(quotient(numerator, denominator)) == expected


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(2, 3), (3,)], "[2, 3]"),
        ([(B, 1, S), (4, 1)], "[b, 4, s]"),
        ([(S,), (5,)], "[5]"),
        ([(S,), (0,)], "[0]"),
        ([(S,), (T + 2,)], "[t + 2]"),
        ([(S,), (T,)], "[s]"),
        ([(S + T,), (T,)], "[s + t]"),
        ([(S,), (S + T,)], "[s + t]"),
        ([(FRESH,), (S,)], "[s]"),
        ([(MIN_OF_S,), (S,)], "[s]"),
        ([(), (B,), (1, 1)], "[1, b]"),
        ([], "[]"),
    ],
)
def test_broadcast(shapes: list[tuple[Dim, ...]], expected: str) -> None:
    assert spell(broadcast(*shapes)) == expected


def test_what_may_be_either_size_is_neither() -> None:
    dims = broadcast((B, S, 5, 1), (B, T + 2, T, T)) + broadcast((S,), (MIN_OF_S,))
    assert dims == tuple(map(plain, dims))
    one, size = broadcast((B, S), (1, T))
    assert (one, plain(size)) == (B, S) and size not in (S, T)
    assert same(size, S) is same(size, T) is None
    assert broadcast((T,), (S,)) == broadcast((size,), (T,)) == (size,)


def test_broadcast_is_certain_unless_it_says_so() -> None:
    dims: list[Dim] = [0, 1, 2, S, T, S + 1, T + 2, 2 * S, MIN_OF_S, sympy.Min(T, S)]
    for a, b in itertools.product(dims, dims):
        try:
            (out,) = broadcast((a,), (b,))
        except FairhandError:
            continue
        for s, t in itertools.product((*SMALL, 600), SMALL):
            x, y = at(a, s=s, t=t), at(b, s=s, t=t)
            if x != y and 1 not in (x, y):
                continue  # not a model that runs
            truth = y if x == 1 else x
            is_sure = plain(out) == out
            assert not is_sure or at(out, s=s, t=t) == truth, (a, b, out, s, t)


def test_a_clash_names_both_shapes() -> None:
    with pytest.raises(FairhandError) as caught:
        broadcast((B, 3), (4,))
    assert str(caught.value) == (
        "shapes [b, 3] and [4] do not broadcast: sizes 3 and 4 do not match"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("past + 1", "past + 1"),
        ("2*past", "2*past"),
        ("(past + 7)//8", "floor(past/8 + 7/8)"),
        ("past - other", "None"),
        ("past ** 9", "None"),
        ("__import__('os')", "None"),
        ("past.real", "None"),
        ("past +", "None"),
        ("past\x00", "None"),
        ("(" * 150, "None"),
        ("past + " * 99 + "1", "None"),
    ],
)
def test_parse_reads_sums_of_known_sizes_and_nothing_else(
    text: str, expected: str
) -> None:
    assert str(parse(text, {"past": symbol("past")})) == expected


def test_names_are_never_read_as_expressions() -> None:
    odd = symbol("__import__('os').system('true') + 1")
    assert odd.name == "__import__('os').system('true') + 1"
    assert simplify(odd + 1 - odd) == 1
    assert symbol("a") is symbol("a")
    assert invented("a") != symbol("a")


def test_long_expressions_are_bulky() -> None:
    long = sum(symbol(f"n{i}") * symbol(f"m{i}") for i in range(30))
    assert is_bulky(long)
    assert not is_bulky(S * T + 1)
    assert not is_bulky(10**30)


def test_what_is_left_of_places_that_go_beyond_a_number_is_a_minimum() -> None:
    """As PyTorch's exporter counts the places of a window."""
    beyond = maximum(0, simplify(S - 5))
    left = simplify(T + maximum(0, simplify(S - beyond)))
    assert left == T + minimum(S, 5)
    both = simplify(S + T - maximum(0, simplify(S + T - 5)))
    assert both == minimum(simplify(S + T), 5)
    for size in (S - maximum(0, simplify(S + T - 5)), 2 * S - beyond, S - beyond):
        for s, t in itertools.product(SMALL, SMALL):
            assert at(simplify(size), s=2 * s, t=t) == at(size, s=2 * s, t=t)


def test_sizes_that_broadcast_are_equal_where_both_are_1_at_once() -> None:
    w, s, t = map(symbol, "wst")
    window = minimum(w, 15)
    for a, b in ((window + s, w + s), (minimum(w, 512), w), (w, w), (w + s, s + w)):
        assert agrees(a, b) and agrees(b, a)
    for a, b in (
        (w, s),  # one of which may be 1
        (minimum(w, 1) + s, w + s),
        (window + s, minimum(t, 15) + s),
        (w + s, w + 2 * s),
        (w * s, w * s + w),
        (w, 1),
    ):
        assert not agrees(a, b) and not agrees(b, a)
