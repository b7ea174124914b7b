"""MatMul and Einsum as sums of products over one axis, by the letters of their axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from string import ascii_letters, digits

import onnx_ir as ir

from ...analysis.graph.dims import Dim, Dims, same
from ..language.facts import Facts
from ..language.operators.read_write import (
    Draft,
    Input,
    NoReading,
    Output,
    ints,
    reading,
)
from .recognition import Recognition
from .regions import Neighbourhoods

STATEMENT = (
    "a sum over axes, or over one of products of two tensors = ReduceSum, MatMul"
)


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
    given = [{*f.letters} - {f.own} for f in found.factors] if found else []
    if found is None or (given[0] != given[1] and {found.over} not in given):
        return  # a matrix is the same one for all of a batch, or each has its own
    sizes: dict[str, Dim] = {}
    for factor in found.factors:
        for letter, size in zip(
            factor.letters, facts.dims(factor.value) or (), strict=True
        ):
            if same(sizes.setdefault(letter, size), size) is not True:
                return
    drafts = min((_as_product(found, f) for f in (1, -1)), key=len)
    if len(drafts) <= 3:
        yield Recognition("einsum", (node,), drafts, "the sum over one axis")


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


def _as_product(found: Product, step: int) -> tuple[Draft, ...]:
    """With the factors in their order, or the other way round."""
    x, y = found.factors[::step]
    lead = [letter for letter in found.result if letter not in (x.own, y.own)]
    drafts: list[Draft] = []

    def turned(value: Input, perm: list[int]) -> Input:
        if perm == sorted(perm):
            return value
        drafts.append(Draft("Transpose", [value], {"perm": perm}))
        return Output(drafts[-1])

    left = turned(x.value, order(x.letters, [*lead, x.own, found.over]))
    right = turned(y.value, order(y.letters, [*lead, found.over, y.own]))
    drafts.append(Draft("MatMul", [left, right]))
    made = "".join([*lead, x.own, y.own])
    turned(Output(drafts[-1]), order(made, found.result))
    return tuple(drafts)
