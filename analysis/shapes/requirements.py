"""What a model's operators require of the sizes of its values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import onnx_ir as ir
import sympy

from ..graph.dims import Dim, Dims, plain, simplify, text
from ..graph.shape_facts import NodeFacts, ShapeFacts
from ..graph.traversal import bodies
from ..ops import lookup
from ..ops.facts.fitting_sizes import Fit, Relation


@dataclass(frozen=True)
class Requirements:
    """The sizes of a model's inputs, by their names, and which sizes have to fit."""

    inputs: dict[str, Dims]
    fits: list[Fit]


def requirements(model: ir.Model, shapes: ShapeFacts) -> Requirements:
    """What is required whatever the inputs are."""
    inputs = {str(v.name): shapes.dims(v) or () for v in model.graph.inputs}
    return Requirements(inputs, list(dict.fromkeys(required(model.graph, shapes))))


def required(graph: ir.Graph, shapes: ShapeFacts) -> Iterator[Fit]:
    """Which sizes have to fit each other, as far as they are known."""
    for node in graph:
        for fit in required_by(node, shapes):
            fit = Fit(fit.relation, plain(fit.a), plain(fit.b))
            free = fit.relation is Relation.BROADCAST and 1 in (fit.a, fit.b)
            if fit.a != fit.b and not free:
                yield fit
        inside = [list(required(body, shapes)) for body in bodies(node)]
        if node.op_type == "If" and inside:  # one of the two runs
            inside = [[fit for fit in inside[0] if fit in inside[-1]]]
        for fits in inside:
            yield from fits


def required_by(node: ir.Node, shapes: ShapeFacts) -> Iterator[Fit]:
    """What one node requires, beside what is in its bodies."""
    op = lookup(node)
    if op is not None and op.fits is not None:
        with suppress(ValueError, TypeError, IndexError, AssertionError):
            yield from NodeFacts(node, shapes).ask(op.fits) or ()


def name_equal_sizes(model: ir.Model, shapes: ShapeFacts) -> bool:
    """Give inputs' sizes that have to be equal the name of the first, or the number
    that they have to be; return whether there are such, and `shapes` is out of date.

    An exporter that is told nothing names each axis: "s15" places in a cache of keys,
    "s90" in one of values. Not asked are nodes in bodies, which may not run, of other
    domains, whose kernels take more than is written, and Reshape: 0 is another size.
    """
    inputs = {v: shapes.dims(v) or () for v in model.graph.inputs}
    sizes = [d for dims in inputs.values() for d in dims if isinstance(d, sympy.Symbol)]
    found: dict[sympy.Symbol, Dim] = {}

    def put(size: Dim) -> Dim:
        return size if isinstance(size, int) else simplify(size.subs(found))

    for node in model.graph:
        for relation, a, b in required_by(node, shapes):
            asked = relation is Relation.EQUAL and node.op_type != "Reshape"
            if not asked or node.domain or plain(a) != a or plain(b) != b:
                continue
            rest = sympy.sympify(put(simplify(sympy.sympify(a) - b)))
            free = sorted(rest.free_symbols & {*sizes}, key=sizes.index)
            if not free:
                continue
            last, known = free[-1], free[:-1]
            other = simplify(last - rest.coeff(last) * rest)
            if other in known or (isinstance(other, int) and other > 0):
                found[last] = other
                found = {size: put(to) for size, to in found.items()}
    for value, dims in inputs.items():
        # What computes with names, as "2*k", is a name to ONNX Runtime, and stays one.
        told = [found.get(d, d) if isinstance(d, sympy.Symbol) else d for d in dims]
        if told != [*dims]:
            value.shape = ir.Shape(d if isinstance(d, int) else text(d) for d in told)
    return bool(found)
