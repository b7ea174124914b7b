"""Equalities that the proof kernel has to show, each at the level given."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import z3
from support.kernel_world import (
    A,
    B,
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
    number,
    op,
    over_axes,
    relu,
    s,
    sigma,
    sqrt,
    total,
    w,
    where,
    x,
    y,
    z,
)

from fairhand.rewrites.proof.kernel.scalars import (
    All,
    Const,
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
    Session,
    choose,
    fresh,
    proves,
    quotient,
    remainder,
    within,
)
from fairhand.rewrites.proof.kernel.tensors import Family, Tensor
from fairhand.rewrites.proof.semantics.concat_split import concat, split

LAWS: list[tuple[str, str, Build]] = []


def law(level: str) -> Any:
    def register(build: Build) -> Build:
        LAWS.append((build.__name__, level, build))
        return build

    return register


def scalar(level: str, name: str, left: Any, right: Any) -> None:
    LAWS.append((name, level, lambda world: (left, right)))


masked = Element("mask", 0, lambda k: 0, extended=True)
half = Fraction(1, 2)

scalar("struct", "where_where", where(c, where(c, x, y), z), where(c, x, z))
scalar("struct", "where_not", where(op("not")(c), x, y), where(c, y, x))
scalar(
    "struct",
    "where_or",
    where(op("or")(c, w), x, y),
    where(c, x, where(w, x, y)),
)
scalar("struct", "inside_where", sigma(where(c, x, y)), where(c, sigma(x), sigma(y)))
scalar("struct", "masked_where", where(c, where(c, x, NegInf()), y), where(c, x, y))
scalar("comm", "add_commutes", sigma(x + y), sigma(y + x))
scalar("comm", "infinite_add_commutes", masked + x, x + masked)
scalar("ring", "negative_zero", x * NegZero() + y, y)
scalar("ring", "distribute", (x + y) * (z - w), x * z - w * x + y * z - y * w)
scalar("ring", "square_of_sum", op("square")(x + y), x * x + 2 * x * y + y * y)
scalar("ring", "pow_three", op("pow")(x + 1, 3), x * x * x + 3 * x * x + 3 * x + 1)
scalar("ring", "shifted_left", op("shl")(x + y, s), op("shl")(x, s) + op("shl")(y, s))
scalar("ring", "masked_scores", s * (x * y) + masked, (s * x) * y + masked)
scalar(
    "ring",
    "masked_softmax",
    exp(s * (x * y) + masked - 3) / exp(masked),
    exp((s * x) * y + masked - 3) / exp(masked),
)
scalar("order", "relu_relu", relu(relu(x)), relu(x))
scalar("order", "relu_as_max", relu(x) - relu(-x), x)
scalar("order", "relu_scaled", relu(half * x), half * relu(x))
scalar("order", "max_associates", larger(x, larger(y, z)), larger(larger(z, x), y))
scalar("order", "abs_as_max", op("abs")(x), larger(x, -x))
scalar("order", "not_less", op("not")(less(x, y)), op("greater_equal")(x, y))
scalar("order", "max_by_where", where(less(x, y), y, x), larger(x, y))
scalar("order", "sign_times_two", op("sign")(2 * x), op("sign")(x))
scalar("order", "clip_by_max_min", op("clip")(x, 0, 6), op("min")(relu(x), 6))
scalar(
    "order",
    "inside_unknown",
    sigma(larger(x, larger(y, z))),
    sigma(larger(larger(x, y), z)),
)
scalar(
    "order",
    "de_morgan",
    op("not")(op("and")(a, b)),
    op("or")(op("not")(a), op("not")(b)),
)
scalar(
    "order",
    "leaky_relu_by_either_comparison",
    where(less(x, 0), s * x, x),
    where(op("greater")(x, 0), x, x * s),
)
scalar(
    "order",
    "elu_by_either_comparison",
    where(less(x, 0), s * (exp(x) - 1), x),
    where(op("greater")(x, 0), x, s * (exp(x) - 1)),
)
scalar(
    "order",
    "hard_swish_by_clip",
    x * op("clip")(x + 3, 0, 6) / 6,
    larger(0, op("min")(x * Fraction(1, 6) + half, 1)) * x,
)
scalar("order", "positive_already", relu(op("sigmoid")(x)), op("sigmoid")(x))
scalar("field", "quotients_add", x / y + z / w, (x * w + z * y) / (y * w))
scalar("field", "common_denominator", 1 / ((y + z) / x), x / (y + z))
scalar("field", "product_of_inverses", 1 / (x + y) / (x - y), 1 / (x * x - y * y))
scalar("field", "exp_of_sum", exp(x + y) * exp(-y), exp(x))
scalar("field", "log_of_inverse", log(1 / exp(x)), -x)
scalar("field", "root_squared", sqrt(x + y) * sqrt(y + x), x + y)
scalar("field", "rsqrt_squared", op("square")(op("rsqrt")(x * y)), 1 / (y * x))
scalar("field", "tanh_by_sigmoid", op("tanh")(x), 2 * op("sigmoid")(2 * x) - 1)
scalar("order", "min_of_negated", op("min")(-x, -y), -larger(y, x))


@law("struct")
def transpose_there_and_back(world: World) -> Any:
    r = world.size("r")
    p, q = world.permutation("p", r)
    tensor = world.tensor("x", r)
    return moved(moved(tensor, p, q), q, p), tensor


@law("struct")
def merged_axes_split_again(world: World) -> Any:
    n, m = world.size("n"), world.size("m", 1)
    i, j = fresh("i"), fresh("j")
    world.assume(z3.And(within(i, n), within(j, m)))
    place = i * m + j
    return X(quotient(place, m), remainder(place, m)), X(i, j)


@law("struct")
def padded_twice(world: World) -> Any:
    r = world.size("r")
    tensor = world.tensor("x", r)
    low, more = (world.per_axis(f, r, 0) for f in ("low", "more"))

    def pad(t: Tensor, by: Any) -> Tensor:
        def at(i: Any) -> Any:
            inside = All(r, lambda k: within(i(k) - by(k), t.dim(k)))
            return Ite(inside, t.at(lambda k: i(k) - by(k)), s)

        return Tensor(r, lambda k: t.dim(k) + by(k), at)

    return pad(pad(tensor, low), more), pad(tensor, lambda k: low(k) + more(k))


@law("struct")
def opaque_of_equal_tensors(world: World) -> Any:
    r = world.size("r")
    p, q = world.permutation("p", r)
    tensor = world.tensor("x", r)
    same = moved(moved(tensor, p, q), q, p)
    return tuple(
        Tensor(r, tensor.dim, lambda i, t=t: Opaque("topk", (t,), i, r))
        for t in (same, tensor)
    )


@law("struct")
def integers_equal_by_hypothesis(world: World) -> Any:
    n, m = world.size("n"), world.size("m")
    world.assume(n == m * m)
    return sigma(FromInt(n - m)), sigma(FromInt(m * (m - 1)))


@law("comm")
def maximum_over_permuted_axes(world: World) -> Any:
    r = world.size("r")
    p, q = world.permutation("p", r)
    axes, tensor = world.axes("axes"), world.tensor("x", r)
    left = over_axes(moved(tensor, p, q), axes, "max")
    return left, moved(over_axes(tensor, lambda k: axes(q(k)), "max"), p, q)


@law("ring")
def sum_over_permuted_axes(world: World) -> Any:
    r = world.size("r")
    p, q = world.permutation("p", r)
    axes, tensor = world.axes("axes"), world.tensor("x", r)
    left = over_axes(moved(tensor, p, q), axes, "sum")
    return left, moved(over_axes(tensor, lambda k: axes(q(k)), "sum"), p, q)


@law("order")
def clip_within_ordered_bounds(world: World) -> Any:
    world.context.scalar_facts.append(Op("less_equal", a, b))
    return op("min")(larger(x, a), b), larger(op("min")(x, b), a)


@law("order")
def maximum_of_equal_sums(world: World) -> Any:
    n = world.size("n")
    left, right = total(n, lambda k: X(k) * Y(k)), total(n, lambda k: Y(k) * X(k))
    return larger(left, right), left


@law("ring")
def product_of_matrices_associates(world: World) -> Any:
    n, m = world.size("n"), world.size("m")
    left = total(n, lambda u: total(m, lambda v: X(v) * A(v, u)) * Y(u))
    return left, total(m, lambda v: X(v) * total(n, lambda u: A(v, u) * Y(u)))


@law("ring")
def sum_shifted_and_reversed(world: World) -> Any:
    n = world.size("n")
    return total(n, lambda k: X(n + 2 - k)), total(n, lambda k: X(k + 3))


@law("ring")
def both_sums_shifted(world: World) -> Any:
    n = world.size("n")

    def window(low: int, u: Any, v: Any) -> Any:
        inside = z3.And(u >= low, u < n + low, v >= low, v < n + low)
        return Ite(inside, A(u - low, v - low) * B(u - low, v - low), 0)

    one = total(n + 1, lambda u: total(n + 1, lambda v: window(1, u, v)))
    return one, total(n, lambda u: total(n, lambda v: window(0, u, v)))


@law("ring")
def sum_over_two_ranges(world: World) -> Any:
    n, m = world.size("n"), world.size("m")
    joined = total(n + m, lambda k: Ite(k < n, X(k), Y(k - n)))
    return joined, total(n, X) + total(m, Y)


@law("ring")
def sum_of_equal_terms(world: World) -> Any:
    n, m = world.size("n"), world.size("m")
    left = total(n, lambda k: total(m, lambda j: X(k) - a))
    return left, FromInt(m) * total(n, X) - a * FromInt(m * n)


@law("ring")
def sum_of_one_element(world: World) -> Any:
    r = world.size("r")
    x, axes = world.tensor("x", r), world.axes("axes")
    world.assume(All(r, lambda k: z3.Implies(axes(k), x.dim(k) == 1)))
    return over_axes(x, axes, "sum"), x


@law("ring")
def integers_as_numbers(world: World) -> Any:
    n, m, k = (world.size(name) for name in "nmk")
    world.assume(n == m + k)
    return FromInt(n) * x, x * FromInt(k) + x * FromInt(m)


@law("ring")
def maxima_in_either_order(world: World) -> Any:
    n, m = world.size("n", 1), world.size("m", 1)
    one = total(n, lambda u: total(m, lambda v: A(u, v) * s, "max"), "max")
    return one, total(m, lambda v: total(n, lambda u: s * A(u, v), "max"), "max")


@law("ring")
def scores_with_a_mask(world: World) -> Any:
    n, m = world.size("n"), world.size("m")

    def mask(v: Any) -> Element:
        return Element("mask", 1, lambda k: v, extended=True)

    def attention(score: Any) -> Any:
        top = total(n, lambda v: score(v) + mask(v), "max")
        return total(n, lambda v: exp(score(v) + mask(v) - top) * Y(v))

    outside = attention(lambda v: total(m, lambda d: X(d) * A(v, d)) * s)
    return outside, attention(lambda v: total(m, lambda d: (X(d) * s) * A(v, d)))


@law("field")
def softmax_is_translation_invariant(world: World) -> Any:
    n = world.size("n", 1)

    def softmax(row: Any) -> Any:
        top = total(n, row, "max")
        return exp(row(0) - top) / total(n, lambda k: exp(row(k) - top))

    return softmax(lambda k: X(k) + a * b), softmax(X)


@law("field")
def log_of_softmax(world: World) -> Any:
    n = world.size("n", 1)
    top = total(n, X, "max")
    weights = exp(X(0) - top) / total(n, lambda k: exp(X(k) - top))
    return log(weights), X(0) - log(total(n, lambda k: exp(X(k))))


@law("field")
def mean_of_means(world: World) -> Any:
    n, m = world.size("n", 1), world.size("m", 1)
    inner = total(n, lambda u: total(m, lambda v: A(u, v)) / FromInt(m)) / FromInt(n)
    return inner, total(m, lambda v: total(n, lambda u: A(u, v))) / FromInt(m * n)


@law("field")
def product_of_exponentials(world: World) -> Any:
    n = world.size("n")
    return total(n, lambda k: 1 / exp(X(k)), "prod"), exp(-total(n, X))


@law("field")
def weights_add_up_to_one(world: World) -> Any:
    n = world.size("n", 1)
    whole = total(n, lambda k: exp(X(k)))
    return total(n, lambda k: exp(X(k)) / whole), 1 + 0 * x


@law("field")
def minimum_of_negated(world: World) -> Any:
    n = world.size("n", 1)
    return total(n, lambda k: s - X(k), "min"), s - total(n, X, "max")


@law("field")
def sum_divided_by_itself(world: World) -> Any:
    n = world.size("n")
    return op("square")(total(n, X)) / (1 + total(n, X) - 1), total(n, X)


@law("struct")
def concat_of_results(world: World) -> Any:
    rank, count = world.size("r", 1), world.size("n", 1)
    axis, members = world.axis("axis", rank), world.family("x", count, rank)
    left = applied("sigma", concat(world.context, members, axis))
    world.context.on_rhs = True
    mapped = Family(count, rank, members.dim, lambda j, i: sigma(members.at(j, i)))
    return left, concat(world.context, mapped, axis)


@law("struct")
def concat_of_split(world: World) -> Any:
    rank, count = world.size("r", 1), world.size("n", 1)
    axis, tensor = world.axis("axis", rank), world.tensor("x", rank)
    pieces = split(world.context, tensor, axis, world.per_axis("size", count), count)
    return concat(world.context, pieces, axis), tensor


@law("struct")
def split_of_concat(world: World) -> Any:
    rank, count = world.size("r", 1), world.size("n", 1)
    axis, members = world.axis("axis", rank), world.family("x", count, rank)
    joined = concat(world.context, members, axis)
    world.context.on_rhs = True
    sizes = members.dim
    return split(world.context, joined, axis, lambda j: sizes(j, axis), count), members


@law("struct")
def transpose_of_concat(world: World) -> Any:
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
    return left, concat(world.context, turned, q(axis))


@law("struct")
def reduction_of_a_chosen_branch(world: World) -> Any:
    n = world.size("n")
    left = Red("sum", n, lambda k: where(c, X(k), Y(k)))
    return where(c, left, b), where(c, total(n, X), b)


@pytest.mark.parametrize(
    ("level", "build"),
    [(level, build) for _, level, build in LAWS],
    ids=[n for n, _, _ in LAWS],
)
def test_equality_is_shown(level: str, build: Build) -> None:
    verdict = ask(build)
    assert (verdict.proved, verdict.level, verdict.why) == (True, level, "")


def test_conditions_on_the_values_are_among_the_steps() -> None:
    assert "domain: divisor is not 0" in ask(lambda world: (x / y * y, x)).steps
    root = ask(lambda world: (sqrt(x) * sqrt(x), x)).steps
    assert "domain: sqrt argument >= 0" in root


def test_verdict_does_not_depend_on_earlier_questions() -> None:
    first = ask(sum_over_two_ranges), Session.queries
    assert not ask(lambda world: (x, y)).proved
    assert (ask(sum_over_two_ranges), Session.queries) == first


def test_what_is_not_decided_in_the_limit_is_not_proved() -> None:
    n, m, k = z3.Ints("n m k")
    hard = n * n * n + m * m * m != k * k * k
    assert not proves([n > 0, m > 0, k > 0], hard, rlimit=10_000)
    assert not proves([n > m, m > k], n > k + 1, rlimit=1)
    assert proves([n > m, m > k], n > k + 1)


def test_python_numbers_stay_python_numbers() -> None:
    assert choose(2 < 3, 4, z3.Int("n")) == 4
    assert [quotient(7, 2), remainder(7, 2), within(2, 3)] == [3, 1, True]
    assert Op("add", 1, number("x")).args[0].value == Const(1).value
