"""Contractions: matrix products, Gemm, Einsum of two operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..kernel.scalars import All, Const, Red, Scalar
from ..kernel.smt import IndexMap, Integer, Truth, both, choose, either, implies
from ..kernel.tensors import Context, Tensor, shape
from .elementwise import Operand, add, mul, require_into, scalar
from .index_maps import larger_rank, simple
from .movement import expand
from .table import means


@means("MatMul")
def matmul(context: Context, a: Tensor, b: Tensor) -> Tensor:
    """[.., m, k] by [.., k, n]: at least two axes each, the others broadcast."""
    rank = larger_rank(context, a.rank, b.rank)
    context.require(both(a.rank >= 2, b.rank >= 2), "the ranks of a matrix product")
    inner = a.dim(a.rank - 1)
    context.require(inner == b.dim(b.rank - 2), "the inner sizes of a matrix product")
    row, column = simple(rank - 2), simple(rank - 1)
    shift_a, shift_b = simple(rank - a.rank), simple(rank - b.rank)
    size_a, size_b = _batch(a, shift_a), _batch(b, shift_b)

    def meets(k: Integer) -> Truth:
        sizes = either(size_a(k) == size_b(k), size_a(k) == 1, size_b(k) == 1)
        return implies(k < row, sizes)

    context.require(All(rank, meets), "the batch of a matrix product")

    def dim(k: Integer) -> Integer:
        batch = choose(size_a(k) == 1, size_b(k), size_a(k))
        matrix = choose(k == row, a.dim(a.rank - 2), b.dim(b.rank - 1))
        return choose(k < row, batch, matrix)

    def read(t: Tensor, shift: Integer, last_two: IndexMap, i: IndexMap) -> Scalar:
        def place(k: Integer) -> Integer:
            batch = choose(t.dim(k) == 1, 0, i(k + shift))
            return choose(k + shift >= row, last_two(k + shift), batch)

        return t.at(place)

    def at(i: IndexMap) -> Scalar:
        def product(s: Integer) -> Scalar:
            left = read(a, shift_a, lambda k: choose(k == row, i(row), s), i)
            right = read(b, shift_b, lambda k: choose(k == row, s, i(column)), i)
            return left * right

        return Red("sum", inner, product)

    return Tensor(rank, dim, at)


def _batch(t: Tensor, shift: Integer) -> IndexMap:
    if isinstance(shift, int) and shift == 0:
        return t.dim
    return lambda k: choose(k < shift, 1, t.dim(k - shift))


def swap_last(t: Tensor) -> Tensor:
    """The transposed matrices: the last two axes change places."""
    row, column = simple(t.rank - 2), simple(t.rank - 1)

    def swapped(f: IndexMap) -> IndexMap:
        return lambda k: choose(k == row, f(column), choose(k == column, f(row), f(k)))

    return Tensor(t.rank, swapped(t.dim), lambda i: t.at(swapped(i)))


def gemm(
    context: Context,
    a: Tensor,
    b: Tensor,
    c: Operand | None = None,
    alpha: Operand = 1,
    beta: Operand = 1,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """alpha * a b + beta * c of matrices; c broadcasts into the product's shape."""
    context.require(both(a.rank == 2, b.rank == 2), "matrices")
    a = swap_last(a) if transpose_a else a
    b = swap_last(b) if transpose_b else b
    product = matmul(context, a, b)
    if not _is_unit(alpha):
        product = mul(context, product, alpha)
    if c is None:
        return product
    require_into(context, c, product, "the shape of a bias")
    return add(context, product, c if _is_unit(beta) else mul(context, c, beta))


def _is_unit(factor: Operand) -> bool:
    return bool(factor.value == 1 if isinstance(factor, Const) else factor == 1)


def einsum(
    context: Context,
    a: Tensor,
    b: Tensor,
    a_axes: Sequence[str],
    b_axes: Sequence[str],
    out_axes: Sequence[str],
) -> Tensor:
    """The sum over all axes that aren't in the result; one letter per axis."""
    if len(set(out_axes)) < len(out_axes):
        raise ValueError("an Einsum whose result has an axis twice")
    context.require(both(a.rank == len(a_axes), b.rank == len(b_axes)), "Einsum's axes")
    sizes: dict[str, Integer] = {}
    for t, axes in ((a, a_axes), (b, b_axes)):
        for k, letter in enumerate(axes):
            size = sizes.setdefault(letter, t.dim(k))
            context.require(size == t.dim(k), f"the size of axis {letter}")
    summed = [letter for letter in sizes if letter not in out_axes]

    def product(place: dict[str, Integer]) -> Scalar:
        left = a.at(shape(*(place[letter] for letter in a_axes)))
        return left * b.at(shape(*(place[letter] for letter in b_axes)))

    def over(letters: Sequence[str], place: dict[str, Integer]) -> Scalar:
        if not letters:
            return product(place)
        first, rest = letters[0], letters[1:]
        return Red("sum", sizes[first], lambda s: over(rest, {**place, first: s}))

    return Tensor(
        len(out_axes),
        shape(*(sizes[letter] for letter in out_axes)),
        lambda i: over(summed, {letter: i(k) for k, letter in enumerate(out_axes)}),
    )


@means("Gemm")
def _gemm(
    context: Context,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: Any,
    beta: Any,
    transA: Any,
    transB: Any,
) -> Tensor:
    a, b = _flipped(a, transA), _flipped(b, transB)
    product = gemm(context, a, b, alpha=_plain(alpha))
    if c is None:
        return product
    # It is broadcast into the product, never the other way round.
    spread, factor = expand(context, c, product.rank, product.dim), _plain(beta)

    def at(i: IndexMap) -> Scalar:
        added = spread.at(i)
        return product.at(i) + (added if factor == 1 else added * factor)

    return Tensor(product.rank, product.dim, at)


def _plain(factor: Any) -> Any:
    """1 as a Python number, by which nothing is multiplied."""
    return 1 if isinstance(factor, Const) and factor.value == 1 else factor


def _flipped(t: Tensor, flag: Any) -> Tensor:
    """The matrix, transposed if the flag (0 or 1, perhaps a symbol) says so."""
    if isinstance(flag, int):
        return swap_last(t) if flag else t
    swapped = swap_last(t)
    return Tensor(
        t.rank,
        lambda k: choose(flag == 0, t.dim(k), swapped.dim(k)),
        lambda i: t.at(lambda k: choose(flag == 0, i(k), i(1 - k))),
    )


@means("Einsum")
def _einsum(context: Context, *tensors: Tensor, equation: str) -> Tensor:
    """Of one operand, or two; the equation as the vocabulary spells it."""
    inputs, _, output = equation.partition("->")
    if len(tensors) == 1:
        return einsum(context, tensors[0], scalar(1), inputs, "", output)
    a, b = tensors
    first, second = inputs.split(",")
    return einsum(context, a, b, first, second, output)
