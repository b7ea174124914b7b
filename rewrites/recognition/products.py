"""MatMul and Einsum as sums of products over one axis, by the letters of their axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from string import ascii_letters, digits
from types import MappingProxyType
from typing import TypeGuard

import onnx_ir as ir

from ...analysis.graph.dims import Dim, Dims, product, same
from ..language.facts import Facts
from ..language.operators.read_write import (
    WORDS,
    Draft,
    Input,
    NoReading,
    Output,
    ints,
    reading,
)
from .recognition import Recognition
from .regions import Neighbourhoods

STATEMENTS = {
    "einsum": "a sum over axes, or over some of products of two tensors = ReduceSum,"
    " MatMul",
    "heads_added": "Reshape(x @ w, heads) + b = Reshape(x @ w + the row of b, heads)",
}


@dataclass(frozen=True)
class Factor:
    """An operand: the letters of its axes, and the one that it alone has."""

    value: ir.Value
    letters: str
    own: str


@dataclass(frozen=True)
class Product:
    """The sum over one axis of the products of two tensors."""

    node: ir.Node
    factors: tuple[Factor, Factor]
    over: str
    result: str
    within: tuple[ir.Node, ...] = ()  # what the node is the sum of

    def transposed(self, perm: Sequence[int]) -> Product:
        """With the axes of the result in another order."""
        return replace(self, result="".join(self.result[k] for k in perm))


def order(letters: str, wanted: Iterable[str]) -> list[int]:
    """The permutation that brings axes to an order, but for axes that there aren't."""
    return [letters.index(x) for x in wanted if x in letters]


def product_of(node: ir.Node, facts: Facts) -> Product | None:
    """What a node computes, if each operand has one axis of its own, and all others
    but one are the result's too."""
    if node.domain or node.op_type not in ("MatMul", "Einsum"):
        return _spread(node, facts) if node.op_type == "ReduceSum" else None
    dims = [None if x is None else facts.dims(x) for x in node.inputs]
    a, b = (*dims, None)[:2]
    found = None if len(dims) != 2 or not a or not b else _letters(node, a, b)
    return None if found is None else _product(node, node.inputs, found)


def _product(
    node: ir.Node, values: Sequence[ir.Value | None], letters: tuple[str, str, str]
) -> Product | None:
    one, other, result = letters
    own = result[-2:] if node.op_type == "MatMul" else ""
    own = own or _own(one, other, result) + _own(other, one, result)
    over = "".join({*one} & {*other} - {*result})
    everywhere = {*one, *other} - {*own, *over} <= {*result}
    if len(own) != 2 or len(over) != 1 or not everywhere:
        return None
    if own[0] not in one or own[1] not in other or not {*own} <= {*result}:
        return None
    factors = [
        Factor(x, term, letter)
        for x, term, letter in zip(values, (one, other), own, strict=True)
        if x is not None
    ]
    return Product(node, (factors[0], factors[1]), over, result)


def _spread(node: ir.Node, facts: Facts) -> Product | None:
    """A sum over an axis of products of tensors, each with new axes for the other's."""
    product = None if node.inputs[0] is None else node.inputs[0].producer()
    if product is None or (product.op_type, product.domain) != ("Mul", ""):
        return None
    nodes = [product]
    values: list[ir.Value] = []
    terms: list[str] = []
    letters = ascii_letters[: len(facts.dims(product.outputs[0]) or ())]
    sizes: dict[str, Dim] = {}
    try:
        summed = reading(node, facts).parameters
        for x in filter(None, product.inputs):
            seen, new = x.producer(), frozenset[int]()
            if seen and (seen.op_type, seen.domain) == ("Unsqueeze", ""):
                x, new = seen.inputs[0] or x, reading(seen, facts).parameters["axes"]
                nodes.append(seen)
            dims = facts.dims(x) or ()
            seen_as = letters[len(letters) - len(dims) - len(new) :]
            values.append(x)
            terms.append("".join(c for k, c in enumerate(seen_as) if k not in new))
            for letter, size in zip(terms[-1], dims, strict=True):
                if same(sizes.setdefault(letter, size), size) is not True:
                    return None
    except NoReading:
        return None
    result = "".join(c for k, c in enumerate(letters) if k not in summed["axes"])
    found = _product(node, values, (terms[0], terms[1], result))
    here = all(inner.graph is node.graph for inner in nodes)
    if found is None or summed["keepdims"] or not here:
        return None
    return replace(found, within=tuple(nodes))


def _own(one: str, other: str, result: str) -> str:
    """An operand's own letter; of several, which are heads, that of the last axes."""
    own = {*one} - {*other}
    return "".join(own if len(own) == 1 else own & {*result[-2:]})


def _letters(node: ir.Node, a: Dims, b: Dims) -> tuple[str, str, str] | None:
    """Those of the axes of both operands and of the result, no letter twice in one."""
    if node.op_type != "MatMul":
        found = _equation(node, (a, b))
    else:
        short = min(len(a), len(b)) < 2
        found = [] if short else _axes("...ik,...kj->...ij", (a, b))
    return (found[0], found[1], found[2]) if len(found) == 3 else None


def _equation(node: ir.Node, dims: Sequence[Dims | None]) -> list[str]:
    """The letters of the axes of each operand of an Einsum and of its result."""
    return _axes(node.attributes["equation"].as_string().replace(" ", ""), dims)


def _axes(equation: str, dims: Sequence[Dims | None]) -> list[str]:
    """The letters that an equation gives to axes of these sizes, and the result's.

    Of axes that stand for "..." they are digits, the last one's 9. None where a letter
    stands twice in one, or the letters are not as many as the axes.
    """
    terms, arrow, result = equation.partition("->")
    found = []
    for term, sizes in zip(terms.split(","), dims, strict=True):
        named = term.replace("...", "")
        count = 0 if sizes is None or named == term else len(sizes) - len(named)
        found.append(term.replace("...", digits[10 - count :] if count > 0 else ""))
        if sizes is None or len(found[-1]) != len(sizes) or count > 10:
            return []
    rest = max((sorted({*x} & {*digits}) for x in found), key=len)
    if not arrow:
        letters = "".join(found)
        result = "..." + "".join(sorted(x for x in letters if letters.count(x) == 1))
        result = "".join(x for x in result if x not in digits)
    found.append(result.replace("...", "".join(rest)))
    alike = any(len({*x}) < len(x) or not (x + "0").isalnum() for x in found)
    return [] if alike else found


def einsum(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """An Einsum as MatMul, if two tensors at most are to be turned for it, or as sums
    of elements."""
    facts = around.facts
    found = product_of(node, facts)
    sums = _as_sums(node, facts) or _with_vector(node, facts)
    if sums:
        yield Recognition("einsum", (node,), sums, "sums over axes")
    if found is None and (drafts := _in_groups(node, facts)):
        yield Recognition("einsum", (node,), drafts, "the sum over the same axes")
    if _is_matmul(found) and _meet(
        [(f.letters, f.value) for f in found.factors], facts
    ):
        drafts = min((_as_product(found, f) for f in (1, -1)), key=len)
        if len(drafts) <= 3:
            yield Recognition("einsum", (node,), drafts, "the sum over one axis")


def _is_matmul(found: Product | None) -> TypeGuard[Product]:
    """Whether a product is of matrices, of which each of a batch has its own or all
    have the same."""
    given = [{*f.letters} - {f.own} for f in found.factors] if found else []
    return found is not None and (given[0] == given[1] or {found.over} in given)


def _meet(operands: Iterable[tuple[str, ir.Value | None]], facts: Facts) -> bool:
    """Whether a letter has one size throughout, and none of 1 where it has another."""
    sizes: dict[str, Dim] = {}
    return all(
        same(sizes.setdefault(letter, size), size) is True
        for letters, x in operands
        for letter, size in zip(letters, (x and facts.dims(x)) or (), strict=True)
    )


def _as_sums(node: ir.Node, facts: Facts) -> tuple[Draft, ...]:
    """Of one tensor, or of two that have the same axes; () if it is of others."""
    dims = [None if x is None else facts.dims(x) for x in node.inputs]
    *terms, result = _equation(node, dims) or ["", ""]
    one, *others = terms
    if not one or len(others) > 1 or {*others} - {one} or {*result} - {*one}:
        return ()
    if dims[:1] * len(dims) != dims:
        return ()
    drafts = [Draft("Mul", [*node.inputs])] if others else []
    left = [letter for letter in one if letter in result]
    axes = [k for k, letter in enumerate(one) if letter not in result]
    if axes:
        summed = Output(drafts[-1]) if drafts else node.inputs[0]
        drafts.append(Draft("ReduceSum", [summed, ints(axes)], {"keepdims": 0}))
    if left != [*result]:
        made = Output(drafts[-1]) if drafts else node.inputs[0]
        perm = order("".join(left), result)
        drafts.append(Draft("Transpose", [made], {"perm": perm}))
    return tuple(drafts)


def _with_vector(node: ir.Node, facts: Facts) -> tuple[Draft, ...]:
    """Of a tensor's last axis with a vector; () if it is of others."""
    dims = [None if x is None else facts.dims(x) for x in node.inputs]
    *terms, result = _equation(node, dims) or [""]
    given = list(zip(terms, node.inputs, strict=False))
    for (one, x), (other, v) in (given, given[::-1]) if len(given) == 2 else ():
        if not one or other != one[-1] or result != one[:-1]:
            continue
        sizes = [(facts.dims(y) or ())[-1] for y in (x, v) if y is not None]
        if len(sizes) == 2 and result and same(*sizes) is True:
            return (Draft("MatMul", [x, v]),)
    return ()


def _in_groups(node: ir.Node, facts: Facts) -> tuple[Draft, ...]:
    """With axes that stand side by side everywhere as one: the heads of a weight and
    their features, or both of what is summed over; () if that is no product of
    matrices."""
    dims = [None if x is None else facts.dims(x) for x in node.inputs]
    found, made = _equation(node, dims), facts.dims(node.outputs[0])
    if len(found) != 3 or made is None:
        return ()
    terms = _grouped(
        found, [x is not None and facts.is_constant(x) for x in node.inputs]
    )
    letters = tuple("".join(group[0] for group in term) for term in terms)
    whole = _product(node, node.inputs, (letters[0], letters[1], letters[2]))
    operands = zip(found, node.inputs, strict=False)
    if letters == tuple(found) or not _is_matmul(whole) or not _meet(operands, facts):
        return ()
    drafts: list[Draft] = []
    seen: dict[ir.Value, Input] = {}
    for x, sizes, term in zip(node.inputs, dims, terms, strict=False):
        if x is not None and sizes is not None and len(term) < len(sizes):
            drafts.append(_reshaped(x, _sizes(term, sizes), sizes))
            seen[x] = Output(drafts[-1])
    matmul = min((_as_product(whole, f, seen) for f in (1, -1)), key=len)
    drafts += matmul
    if len(letters[2]) < len(made):
        drafts.append(_reshaped(Output(drafts[-1]), made, _sizes(terms[2], made)))
    return tuple(drafts) if len(drafts) <= 4 else ()


def _grouped(terms: Sequence[str], stored: Sequence[bool]) -> list[list[str]]:
    """The letters of operands and result, as groups that are one axis: those that are
    summed over, or that a stored operand has, where they stand together everywhere."""
    found = [[*term] for term in terms]
    kept = [t for t, is_stored in zip(terms, stored, strict=False) if is_stored]
    while True:
        for a, b in sorted({pair for term in found for pair in pairwise(term)}):
            summed = not {*a, *b} & {*terms[-1]}
            of_one = any({*a, *b} <= {*term} for term in kept)
            pairs = [(a in t, b in t, (a, b) in pairwise(t)) for t in found]
            if (summed or of_one) and all(len({*pair}) == 1 for pair in pairs):
                break
        else:
            return found
        for term in found:
            if a in term:
                term[term.index(a) : term.index(b) + 1] = [a + b]


def _sizes(groups: Sequence[str], sizes: Dims) -> Dims:
    """Of axes that are taken together."""
    left = iter(sizes)
    return tuple(product(next(left) for _ in group) for group in groups)


def _reshaped(x: Input, shape: Dims, sizes: Dims) -> Draft:
    return WORDS["Reshape"].write([x], {"shape": shape, "sizes": sizes})


def heads_added(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """A bias that has heads, as the row that it is beside a product before these."""
    facts = around.facts
    for b, y in (node.inputs, node.inputs[::-1]):
        above = None if y is None else y.producer()
        if b is None or not facts.is_constant(b) or above is None or above.domain:
            continue
        x = above.inputs[0] if above.op_type == "Reshape" else None
        maker = None if x is None else x.producer()
        if x is None or maker is None or maker.op_type not in ("MatMul", "Gemm"):
            continue
        own, rows, heads = (facts.dims(v) or () for v in (b, x, above.outputs[0]))
        own = own[next((k for k, n in enumerate(own) if n != 1), len(own)) :]
        count = len(own)
        if (
            count < 2
            or own != heads[-count:]
            or not rows
            or above.graph is not node.graph
        ):
            continue
        if same(product(own), rows[-1]) is not True:
            continue
        row = _reshaped(b, rows[-1:], facts.dims(b) or ())
        added = Draft("Add", [x, Output(row)])
        given = {name: a.value for name, a in above.attributes.items()}
        seen = Draft("Reshape", [Output(added), *above.inputs[1:]], given)
        drafts = (row, added, seen)
        evidence = f"{b.name} is a row of {rows[-1]}, seen as heads"
        yield Recognition(
            "heads_added", (node, above), drafts, evidence, measure="order"
        )


def _as_product(
    found: Product, step: int, seen: Mapping[ir.Value, Input] = MappingProxyType({})
) -> tuple[Draft, ...]:
    """With the factors in their order, or the other way round, and as they are seen."""
    x, y = found.factors[::step]
    lead = [letter for letter in found.result if letter not in (x.own, y.own)]
    drafts: list[Draft] = []

    def turned(value: Input, perm: list[int]) -> Input:
        if perm == sorted(perm):
            return value
        drafts.append(Draft("Transpose", [value], {"perm": perm}))
        return Output(drafts[-1])

    left = turned(
        seen.get(x.value, x.value), order(x.letters, [*lead, x.own, found.over])
    )
    right = turned(
        seen.get(y.value, y.value), order(y.letters, [*lead, found.over, y.own])
    )
    drafts.append(Draft("MatMul", [left, right]))
    made = "".join([*lead, x.own, y.own])
    turned(Output(drafts[-1]), order(made, found.result))
    return tuple(drafts)
