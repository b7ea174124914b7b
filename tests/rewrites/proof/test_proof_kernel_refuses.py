"""Equalities that are false, or true only in some worlds: the kernel refuses them all.

Most are a step of the kernel applied where it doesn't hold: a captured variable, a
range off by one, a maximum over nothing, a division by what is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import z3
from support.kernel_world import (
    A,
    Build,
    World,
    X,
    Y,
    a,
    applied,
    ask,
    b,
    c,
    exp,
    larger,
    less,
    log,
    moved,
    op,
    over_axes,
    relu,
    s,
    sigma,
    sqrt,
    t,
    total,
    w,
    where,
    x,
    y,
    z,
)

from fairhand.rewrites.proof.kernel import smt
from fairhand.rewrites.proof.kernel.scalars import (
    All,
    Element,
    FromInt,
    Ite,
    NegInf,
    NegZero,
    Op,
    Opaque,
    Red,
)
from fairhand.rewrites.proof.kernel.smt import (
    choose,
    fresh,
    quotient,
    remainder,
    term,
    within,
)
from fairhand.rewrites.proof.kernel.tensors import Family, Tensor
from fairhand.rewrites.proof.semantics.concat_split import concat, split

WRONG: list[tuple[str, Build]] = []


def wrong(build: Build) -> Build:
    WRONG.append((build.__name__, build))
    return build


def scalar(name: str, left: Any, right: Any) -> None:
    WRONG.append((name, lambda world: (left, right)))


masked = Element("mask", 0, lambda k: 0, extended=True)
half = Fraction(1, 2)

scalar("another_tensor", x, y)
scalar("subtraction_commutes", x - y, y - x)
scalar("branches_swapped", where(c, x, y), where(c, y, x))
scalar("inner_branch_kept", where(c, where(w, x, y), z), where(c, x, z))
scalar("not_dropped", where(op("not")(c), x, y), where(c, x, y))
scalar("and_for_or", where(op("and")(c, w), x, y), where(op("or")(c, w), x, y))
scalar("condition_as_number", where(c, x, y), c * x + (1 - c) * y)
scalar("infinite_cancels", masked - masked, 0 * x)
scalar("infinite_times_zero", 0 * masked, 0 * x)
scalar("infinite_reassociates", (masked + x) - x, masked)
scalar("infinite_maximum", larger(masked, larger(x, masked)), larger(x, masked))
scalar("minus_infinity_absorbs", NegInf() + x, NegInf())
scalar("minus_infinities_cancel", NegInf() - NegInf(), 0 * x)
scalar("minus_infinity_loses", larger(NegInf(), x), x)
scalar("zero_by_infinity", exp(NegInf()), 0 * x)
scalar("extended_is_not_plain", masked, Element("mask", 0, lambda k: 0))
scalar("relu_dropped", relu(x), x)
scalar("relu_of_product", relu(x * y), x * relu(y))
scalar("relu_scaled_by_negative", relu(-half * x), -half * relu(x))
scalar("maximum_is_first", larger(x, y), x)
scalar("maximum_by_sign", larger(x, y), where(op("greater")(x, 0), x, y))
scalar("tensors_of_other_ranks", X(0), X(0, 0))
scalar("not_less_is_greater", op("not")(less(x, y)), op("greater")(x, y))
scalar("less_both_ways", less(x, y), less(y, x))
scalar(
    "clip_bounds_in_any_order", op("min")(larger(x, a), b), larger(op("min")(x, b), a)
)
scalar("abs_of_sum", op("abs")(x + y), op("abs")(x) + op("abs")(y))
scalar("sign_of_zero", op("sign")(x) * op("sign")(x), 1 + 0 * x)
scalar("another_function", sigma(larger(x, y)), op("tau")(larger(y, x)))
scalar("square_of_sum", op("square")(x + y), x * x + y * y)
scalar("another_power", op("pow")(x, 3), x * x)
scalar("shifted_right", op("shr")(x + y, s), op("shr")(x, s) + op("shr")(y, s))
scalar("function_of_sum", sigma(x + y), sigma(x) + sigma(y))
scalar("root_of_square", sqrt(x * x), x)
scalar("exp_of_product", exp(x * y), exp(x) * exp(y))
scalar("log_of_inverse", log(1 / exp(x)), x)
scalar("log_of_product", log(x * y), log(x) + log(y))
scalar("log_of_inverse_square", log(1 / (x * x)), -log(x))
scalar("log_of_square", log(x * x), 2 * log(x))
scalar("tanh_may_be_negative", relu(op("tanh")(x)), op("tanh")(x))
scalar("exp_is_not_above_two", where(less(exp(x), 2), y, z), where(less(x, 1), y, z))
scalar("sum_of_inverses", 1 / (x + y), 1 / x + 1 / y)
scalar("zero_by_zero", (x - x) / (y - y), 1 + 0 * x)
scalar("zero_divides_all", 1 / (x - x) + y, 1 / (x - x) + z)
scalar("hidden_zero_divides", y / (x * z - z * x), w / ((x + z) - (z + x)))
scalar("numerator_divides", x / (y + z), 1 / ((y + z) / x))
scalar("half_is_third", half * x, Fraction(1, 3) * x)


@wrong
def permutations_in_the_other_order(world: World) -> Any:
    r = world.size("r")
    p, p_inverse = world.permutation("p", r)
    q, q_inverse = world.permutation("q", r)
    x = world.tensor("x", r, lambda k: term(5))
    left = moved(moved(x, p, p_inverse), q, q_inverse)
    return left, moved(moved(x, q, q_inverse), p, p_inverse)


@wrong
def inverse_for_permutation(world: World) -> Any:
    r = world.size("r")
    p, q = world.permutation("p", r)
    x = world.tensor("x", r, lambda k: term(5))
    return moved(x, p, q), moved(x, q, p)


@wrong
def different_shapes(world: World) -> Any:
    n, m = world.size("n"), world.size("m")
    return tuple(Tensor(1, lambda k, d=d: d, lambda i: x) for d in (n, m))


@wrong
def different_ranks(world: World) -> Any:
    r = world.size("r")
    return tuple(Tensor(m, lambda k: 1, lambda i: x) for m in (r, r + 1))


@wrong
def obligation_that_does_not_hold(world: World) -> Any:
    n = world.size("n")
    world.context.on_rhs = True
    world.context.require(n >= 1, "something to reduce")
    return x, x


@wrong
def divided_the_other_way(world: World) -> Any:
    n, m = world.size("n"), world.size("m", 1)
    i, j = fresh("i"), fresh("j")
    world.assume(z3.And(within(i, n), within(j, m)))
    place = i * m + j
    return X(remainder(place, m), quotient(place, m)), X(i, j)


@wrong
def divided_with_a_large_remainder(world: World) -> Any:
    m, i, j = world.size("m", 1), fresh("i"), fresh("j")
    world.assume(z3.And(i >= 0, j >= 0))
    place = i * m + j
    return X(quotient(place, m), remainder(place, m)), X(i, j)


@wrong
def halved_and_doubled(world: World) -> Any:
    return 2 * FromInt(quotient(world.size("n"), 2)), FromInt(z3.Int("n"))


@wrong
def pad_with_the_guard_off_by_one(world: World) -> Any:
    r = world.size("r")
    x, by = world.tensor("x", r), world.per_axis("by", r, 0)

    def padded(least: int) -> Tensor:
        def at(i: Any) -> Any:
            inside = All(
                r, lambda k: z3.And(i(k) - by(k) >= least, i(k) - by(k) < x.dim(k))
            )
            return Ite(inside, x.at(lambda k: i(k) - by(k)), 0)

        return Tensor(r, lambda k: x.dim(k) + by(k), at)

    return padded(0), padded(1)


@wrong
def guard_at_fewer_positions(world: World) -> Any:
    r, n = world.size("r", 1), world.size("n")
    f = world.per_axis("f", r)
    return tuple(
        total(n, lambda k, m=m: Ite(All(m, lambda j: f(j) > k), X(k), 0))
        for m in (r, r - 1)
    )


@wrong
def negated_guards_of_different_ranks(world: World) -> Any:
    r, n = world.size("r", 1), world.size("n")
    f = world.per_axis("f", r)
    return tuple(
        total(n, lambda k, m=m: Ite(All(m, lambda j: f(j) > k), 0, X(k)))
        for m in (r, r - 1)
    )


@wrong
def sum_one_longer(world: World) -> Any:
    n = world.size("n")
    return total(n, X), total(n + 1, X)


@wrong
def sum_shifted_within_its_range(world: World) -> Any:
    n = world.size("n")
    return total(n, lambda k: X(k + 1)), total(n, X)


@wrong
def sum_reversed_off_by_one(world: World) -> Any:
    n = world.size("n")
    return total(n, lambda k: X(n - k)), total(n, X)


@wrong
def sum_over_even_positions(world: World) -> Any:
    n = world.size("n")
    return total(n, lambda k: X(2 * k)), total(n, X)


@wrong
def sum_of_one_element_or_none(world: World) -> Any:
    n = world.size("n")
    world.assume(n <= 1)
    return total(n, X), X(0)


@wrong
def sum_over_half_the_range(world: World) -> Any:
    n = world.size("n")
    return total(n, X), total(quotient(n + 1, 2), lambda k: X(2 * k))


@wrong
def sum_guard_off_by_one(world: World) -> Any:
    n = world.size("n")
    return tuple(
        total(n, lambda k, most=most: Ite(k <= most, X(k), 0)) for most in (3, 4)
    )


@wrong
def product_of_sums_is_sum_of_products(world: World) -> Any:
    n = world.size("n")
    return total(n, X) * total(n, Y), total(n, lambda k: X(k) * Y(k))


@wrong
def square_of_sum_is_sum_of_squares(world: World) -> Any:
    n = world.size("n")
    return op("square")(total(n, X)), total(n, lambda k: X(k) * X(k))


@wrong
def square_of_sum_takes_one_variable_for_both(world: World) -> Any:
    n = world.size("n")
    return op("pow")(total(n, X), 2), FromInt(n) * total(n, lambda k: X(k) * X(k))


@wrong
def nested_sum_becomes_one(world: World) -> Any:
    n = world.size("n")
    return total(n, lambda u: total(n, lambda v: A(u, v))), total(n, lambda u: A(u, u))


@wrong
def swapped_sums_of_different_ranges(world: World) -> Any:
    n, m = world.size("n"), world.size("m")
    return tuple(
        total(n, lambda u, f=f: total(m, lambda v: f(u, v)))
        for f in (A, lambda u, v: A(v, u))
    )


@wrong
def swapped_vector_sums_of_different_ranges(world: World) -> Any:
    r = world.size("r")
    sizes = [world.per_axis(name, r, 0) for name in ("n", "m")]

    def double(element: Callable[[Any, Any], Any]) -> Any:
        def inner(u: Any) -> Any:
            return Red("sum", sizes[1], lambda v: element(u, v), vec=True, rank=r)

        return Red("sum", sizes[0], inner, vec=True, rank=r)

    def product(u: Any, v: Any) -> Any:
        return Element("x", r, u) * Element("y", r, v)

    return double(product), double(lambda u, v: product(v, u))


@wrong
def two_shifts_that_are_no_bijection(world: World) -> Any:
    n = world.size("n")
    return tuple(
        total(n, lambda u, f=f: total(n, lambda v: f(u, v)))
        for f in (lambda u, v: A(u + v, u + v), lambda u, v: A(u, v))
    )


@wrong
def triangle_is_a_square(world: World) -> Any:
    n = world.size("n")
    return tuple(
        total(n, lambda u, square=square: total(n if square else u, lambda v: A(u, v)))
        for square in (True, False)
    )


@wrong
def triangle_of_equal_terms(world: World) -> Any:
    n = world.size("n")
    return total(n, lambda u: total(u, lambda v: x)), FromInt(n) * FromInt(n) * x


@wrong
def number_of_terms_of_a_negative_size(world: World) -> Any:
    n = z3.Int("n")
    return total(n, lambda k: x), FromInt(n) * x


@wrong
def integers_off_by_one(world: World) -> Any:
    n = world.size("n")
    return FromInt(n) * x + x, FromInt(n + 2) * x


@wrong
def sum_over_axes_not_moved(world: World) -> Any:
    r = world.size("r")
    p, q = world.permutation("p", r)
    axes, x = world.axes("axes"), world.tensor("x", r, lambda k: term(5))
    left = over_axes(moved(x, p, q), axes, "sum")
    right = moved(over_axes(x, lambda k: axes(q(k)), "sum"), p, q)
    bare = over_axes(x, axes, "sum")
    return left, Tensor(r, right.dim, bare.at)


@wrong
def permutation_of_other_positions(world: World) -> Any:
    r = world.size("r", 2)
    p, _ = world.permutation("p", r - 1)

    def sizes(k: Any) -> Any:
        return term(5)

    def at(place: Any) -> Any:
        return Red("sum", sizes, lambda u: Element("x", r, place(u)), vec=True, rank=r)

    return at(lambda u: u), at(lambda u: lambda k: u(p(k)))


@wrong
def index_read_outside_its_positions(world: World) -> Any:
    r = world.size("r", 1)
    p, _ = world.permutation("p", r)

    def at(place: Any) -> Any:
        return Red(
            "sum",
            lambda k: term(5),
            lambda u: Element("x", 1, lambda k: u(place(r + 7))),
            vec=True,
            rank=r,
        )

    return at(lambda k: k), at(p)


@wrong
def maximum_shifted_within_its_range(world: World) -> Any:
    n = world.size("n", 1)
    return total(n, lambda k: X(k + 1), "max"), total(n, X, "max")


@wrong
def maximum_of_sums_is_sum_of_maxima(world: World) -> Any:
    n = world.size("n", 1)
    both = total(n, lambda k: X(k) + Y(k), "max")
    return both, total(n, X, "max") + total(n, Y, "max")


@wrong
def translated_maximum_over_nothing(world: World) -> Any:
    n = world.size("n")
    top = total(n, X, "max")
    return total(n, lambda k: X(k) + a, "max") - top, a


@wrong
def maximum_of_a_constant_over_nothing(world: World) -> Any:
    return total(world.size("n"), lambda k: a, "max"), a


@wrong
def maximum_cancels_over_nothing(world: World) -> Any:
    top = total(world.size("n"), X, "max")
    return larger(top, x) - top + top, larger(x, top)


@wrong
def maximum_over_a_triangle(world: World) -> Any:
    n = world.size("n", 1)
    left = total(n, lambda u: total(u, lambda v: X(0)), "max")
    return left, total(n, lambda v: X(0))


@wrong
def maximum_of_minima_either_way(world: World) -> Any:
    n, m = world.size("n", 1), world.size("m", 1)
    left = total(n, lambda u: total(m, lambda v: A(u, v), "min"), "max")
    return left, total(m, lambda v: total(n, lambda u: A(u, v), "max"), "min")


@wrong
def product_of_maxima_is_a_product(world: World) -> Any:
    n, m = world.size("n", 1), world.size("m", 1)
    left = total(n, lambda u: total(m, lambda v: A(u, v), "max"), "prod")
    return left, total(n, lambda u: total(m, lambda v: A(u, v), "prod"), "prod")


@wrong
def sum_for_product(world: World) -> Any:
    n = world.size("n")
    return total(n, X), total(n, X, "prod")


@wrong
def exponential_leaves_its_sum(world: World) -> Any:
    n = world.size("n")
    left = total(n, lambda k: exp(X(k) + Y(k)))
    return left, total(n, lambda k: exp(X(k))) * total(n, lambda k: exp(Y(k)))


@wrong
def product_of_inverse_exponentials(world: World) -> Any:
    n = world.size("n")
    return total(n, lambda k: 1 / exp(X(k)), "prod"), exp(total(n, X))


@wrong
def softmax_scaled(world: World) -> Any:
    n = world.size("n", 1)
    return tuple(exp(f * X(0)) / total(n, lambda k, f=f: exp(f * X(k))) for f in (s, t))


@wrong
def weights_of_nothing_add_up_to_one(world: World) -> Any:
    n = world.size("n")
    whole = total(n, lambda k: exp(X(k)))
    return total(n, lambda k: exp(X(k)) / whole), 1 + 0 * x


@wrong
def division_met_in_one_case_only(world: World) -> Any:
    n = world.size("n")
    part = total(n, lambda k: Ite(k < 2, X(k) / total(n, X), 0))
    return part + total(n, Y) * total(n, X) / total(n, X), part + total(n, X)


@wrong
def mean_over_another_count(world: World) -> Any:
    n, m = world.size("n", 1), world.size("m", 1)
    return total(n, X) / FromInt(n), total(n, X) / FromInt(m)


@wrong
def count_multiplies_for_divides(world: World) -> Any:
    n = world.size("n", 1)
    return x / FromInt(n) / FromInt(n), x * FromInt(n) / FromInt(n)


@wrong
def another_opaque_result(world: World) -> Any:
    tensor = world.tensor("x", 1)
    return tuple(Opaque(name, (tensor,), lambda k: 0, 1) for name in ("top", "low"))


@wrong
def opaque_results_of_other_tensors(world: World) -> Any:
    tensors = world.tensor("x", 1), world.tensor("y", 1, lambda k: z3.Int("n"))
    return tuple(Opaque("top", (f,), lambda k: 0, 1) for f in tensors)


@wrong
def opaque_results_of_a_longer_tensor(world: World) -> Any:
    n = world.size("n")
    return tuple(
        Opaque("top", (world.tensor("x", 1, lambda k, d=d: d),), lambda k: 0, 1)
        for d in (n, n + 1)
    )


@wrong
def opaque_results_at_other_places(world: World) -> Any:
    tensor = world.tensor("x", 1)
    return tuple(Opaque("top", (tensor,), lambda k, j=j: j, 1) for j in (0, 1))


@wrong
def empty_tensor_proves_nothing_else(world: World) -> Any:
    empty = Tensor(1, lambda k: 0, lambda i: X(i(0)))
    other = Tensor(1, lambda k: 0, lambda i: Y(i(0)))
    left, right = (Opaque("top", (f,), lambda k: 0, 1) for f in (empty, other))
    return left + x, right + y


@wrong
def empty_tensor_leaves_no_facts(world: World) -> Any:
    f, g = world.per_axis("f", 1), world.per_axis("g", 1)
    sides = []
    for place in (f, g):
        empty = Tensor(1, lambda k: 0, lambda i, place=place: X(place(i(0))))
        sides.append(Opaque("top", (empty,), lambda k: 0, 1) + A(place(0)))
    return tuple(sides)


@wrong
def concat_of_other_results(world: World) -> Any:
    rank, count = world.size("r", 1), world.size("n", 1)
    axis, members = world.axis("axis", rank), world.family("x", count, rank)
    left = applied("sigma", concat(world.context, members, axis))
    mapped = Family(count, rank, members.dim, lambda j, i: op("tau")(members.at(j, i)))
    return left, concat(world.context, mapped, axis)


@wrong
def concat_of_members_in_reverse(world: World) -> Any:
    rank, count = world.size("r", 1), world.size("n", 1)
    axis, members = world.axis("axis", rank), world.family("x", count, rank)
    world.assume(All(count, lambda j: members.dim(j, axis) == 5))
    reverse = Family(
        count,
        rank,
        lambda j, k: members.dim(count - 1 - j, k),
        lambda j, i: members.at(count - 1 - j, i),
    )
    return tuple(concat(world.context, f, axis) for f in (members, reverse))


@wrong
def split_from_another_offset(world: World) -> Any:
    rank, count = world.size("r", 1), world.size("n", 1)
    axis, members = world.axis("axis", rank), world.family("x", count, rank)
    joined = concat(world.context, members, axis)
    parts = split(world.context, joined, axis, lambda j: members.dim(j, axis), count)
    shifted = Family(
        count,
        rank,
        parts.dim,
        lambda j, i: parts.at(j, lambda k: choose(k == axis, i(k) + 1, i(k))),
    )
    return shifted, members


@wrong
def split_along_the_wrong_axis(world: World) -> Any:
    rank, count = world.size("r", 1), world.size("n", 1)
    axis, other = world.axis("axis", rank), world.axis("other", rank)
    tensor = world.tensor("x", rank)
    pieces = split(world.context, tensor, axis, world.per_axis("size", count), count)
    world.context.on_rhs = True
    return concat(world.context, pieces, other), tensor


@wrong
def negative_sizes_on_the_right(world: World) -> Any:
    count, tensor = z3.Int("n"), world.tensor("x", 1)
    sizes = world.per_axis("size", count)
    world.assume(z3.And(count == 2, sizes(1) >= 0))
    world.assume(sizes(0) + sizes(1) == tensor.dim(0))
    world.context.on_rhs = True
    pieces = split(world.context, tensor, 0, sizes, count)
    return tensor, concat(world.context, pieces, 0)


@wrong
def transpose_of_concat_along_the_old_axis(world: World) -> Any:
    rank, count = world.size("r", 1), world.size("n", 1)
    axis, members = world.axis("axis", rank), world.family("x", count, rank)
    p, q = world.permutation("p", rank)
    left = moved(concat(world.context, members, axis), p, q)
    world.context.on_rhs = True
    turned = Family(
        count,
        rank,
        lambda j, k: members.dim(j, p(k)),
        lambda j, i: members.at(j, lambda k: i(q(k))),
    )
    return left, concat(world.context, turned, axis)


@wrong
def products_of_reals_are_a_factor_apart(world: World) -> Any:
    world.context.scalar_facts += [less(x, y), Op("less_equal", 0, z)]
    return where(op("less_equal")(x * z + z, y * z), a, b), a


@wrong
def fact_about_other_numbers(world: World) -> Any:
    world.context.scalar_facts.append(Op("less_equal", a, b))
    return larger(x, y), y


@pytest.mark.parametrize("build", [f for _, f in WRONG], ids=[n for n, _ in WRONG])
def test_inequality_is_refused(build: Build) -> None:
    verdict = ask(build)
    assert (verdict.proved, verdict.level) == (False, None)
    assert verdict.why


BITWISE = ("struct", "comm")


@pytest.mark.parametrize(
    ("left", "right", "levels"),
    [
        (x + NegZero(), x + 0, BITWISE),
        (x + 0, x, BITWISE),
        ((x + y) + z, x + (y + z), BITWISE),
        (x * (y + z), x * y + x * z, (*BITWISE, "order")),
        (less(x, y), op("not")(op("greater_equal")(x, y)), BITWISE),
        (larger(x, larger(x, y)), larger(x, y), (*BITWISE, "ring")),
        (x / y * y, x, (*BITWISE, "order", "ring")),
        (exp(x) * exp(y), exp(x + y), (*BITWISE, "order", "ring")),
    ],
    ids=repr,
)
def test_exact_levels_refuse_what_only_the_reals_know(
    left: Any, right: Any, levels: tuple[str, ...]
) -> None:
    assert not ask(lambda world: (left, right), levels).proved
    assert ask(lambda world: (left, right)).proved


def test_a_goal_is_given_up_after_so_much_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of questions and of what answering them takes, whatever the clock says."""

    def build(world: World) -> Any:
        return x / y * y, x

    assert ask(build).proved
    monkeypatch.setattr(smt, "WORK", -1)
    verdict = ask(build)
    assert not verdict.proved
    assert verdict.why == "not shown: that takes too much work"
