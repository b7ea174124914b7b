"""What a node computes, if that has a name: the entry of this folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

import numpy as np
import onnx_ir as ir

from ..language.exactness import Exactness
from ..language.operators.read_write import (
    WORDS,
    CannotWrite,
    Draft,
    Input,
    NewConstant,
)
from . import (
    attention,
    attention_arguments,
    cast_chains,
    gather_scatter,
    group_norm,
    movement_chains,
    normalised_sums,
    products,
)
from .denotation import MEANINGS, Reference, Term
from .recognition import Recognition
from .regions import Neighbourhoods, Region, regions
from .scalar_functions import FUNCTIONS, Found, scalar_function

# Binary digits of the numbers of an element type.
_PLACES = {"FLOAT": 24, "DOUBLE": 53, "FLOAT16": 11, "BFLOAT16": 8}

PROOF = "normal-form"  # what a certificate has in the place of a law's proof
STATEMENTS = {
    **{function.name: function.statement for function in FUNCTIONS},
    **normalised_sums.STATEMENTS,
    **attention.STATEMENTS,
    **attention_arguments.STATEMENTS,
    **products.STATEMENTS,
    "group_norm": group_norm.STATEMENT,
    "cast_of_cast": cast_chains.STATEMENT,
    "truth_of_cast": cast_chains.TRUTH,
    "movement_chain": movement_chains.STATEMENT,
    "scatter_of_places": gather_scatter.STATEMENT,
    "gather_of_column": gather_scatter.COLUMN,
}
CLASSES = {
    **dict.fromkeys(STATEMENTS, Exactness.ROUNDED),
    **dict.fromkeys(
        """cast_of_cast truth_of_cast attention_grouped movement_chain
        scatter_of_places gather_of_column""".split(),
        Exactness.BITWISE,
    ),
    "heads_added": Exactness.BITWISE,
    "einsum": Exactness.ORDER,
}


def recognitions(
    node: ir.Node, around: Neighbourhoods, wanted: Collection[str]
) -> Iterator[Recognition]:
    """What of these names ends at a node, the largest parts first.

    Nothing of a part is needed elsewhere. A factor that what is normalised has
    elsewhere too is no part of the norm. What can't be written is left out.
    """
    for names, recognised in _RECOGNISED.get(node.op_type, ()):
        if not names.isdisjoint(wanted):
            with suppress(CannotWrite):
                for found in recognised(node, around):
                    if found.name in wanted:
                        yield found


def _functions(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """Functions of one value's elements, and of its rows."""
    found = sorted(regions(node, around), key=lambda r: (_left(r), -len(r.nodes)))
    for region in found:
        dtype = region.root.dtype
        assert dtype is not None
        places = _PLACES.get(dtype.name)
        dims = [around.facts.dims(x) for x in (region.root, region.base)]
        if places is None or (dims[0] != dims[1] and _left(region)):
            continue  # a sum takes in no factor that is needed elsewhere
        if region.axes is not None:
            row = normalised_sums.normalised_sum(region, places, around.facts)
            if row is not None:
                evidence = f"{_steps(region.term)} has the normal form of {row.text}"
                yield Recognition(row.name, region.nodes, row.drafts, evidence)
        elif not region.constants:
            function = scalar_function(region.term, places)
            if function is not None:
                yield _of_scalar(region, function)


_Recognising = Callable[[ir.Node, Neighbourhoods], Iterator[Recognition]]

# What is recognised, at which operators, and how.
_WAYS: tuple[tuple[Collection[str], Collection[str], _Recognising], ...] = (
    (("cast_of_cast",), ("Cast",), cast_chains.cast_of_cast),
    (("truth_of_cast",), ("Equal",), cast_chains.truth_of_cast),
    (("einsum",), ("Einsum",), products.einsum),
    (("heads_added",), ("Add",), products.heads_added),
    (("movement_chain",), movement_chains.MOVEMENTS, movement_chains.movement_chains),
    (("group_norm", "layer_norm"), ("Reshape", "Mul", "Add"), group_norm.group_norm),
    (
        ("attention", attention.OPEN),
        ("MatMul", "Einsum", "ReduceSum", "Reshape"),
        attention.attention,
    ),
    (("gather_of_column",), ("GatherND",), gather_scatter.gather_of_column),
    (("scatter_of_places",), gather_scatter.SCATTERS, gather_scatter.scatter_of_places),
    (("attention_rescaled",), ("Attention",), attention.rescaled),
    (("attention_causal",), ("Attention",), attention_arguments.causal),
    (("attention_grouped",), ("Attention",), attention_arguments.shared_heads),
    ((*normalised_sums.STATEMENTS, *(f.name for f in FUNCTIONS)), MEANINGS, _functions),
)
_RECOGNISED = {
    op: [(frozenset(names), way) for names, ops, way in _WAYS if op in ops]
    for op in dict.fromkeys(op for _, ops, _ in _WAYS for op in ops)
}
OPERATORS = _RECOGNISED.keys()  # that a recognised part of a graph may end with


def _left(region: Region) -> int:
    """How many nodes of a region stay beside what takes its place."""
    inside = set(region.nodes)
    return sum(
        any(user not in inside for value in node.outputs for user, _ in value.uses())
        for node in region.nodes
        if node.outputs[0] is not region.root
    )


def _of_scalar(region: Region, found: Found) -> Recognition:
    function, parameters = found.function, dict(found.parameters)
    dtype = region.root.dtype
    assert dtype is not None
    inputs: list[Input] = [region.base]
    for bound in function.bounds:
        inputs.append(NewConstant(np.array(parameters.pop(bound), dtype.numpy())))
    word = WORDS.get(function.operator)
    draft = (
        Draft(function.operator, inputs, parameters)
        if word is None
        else word.write(inputs, parameters)
    )
    evidence = _equation(region.term, found)
    drafts = () if function.operator == "Identity" else (draft,)
    return Recognition(function.name, region.nodes, drafts, evidence, region.base)


def _equation(term: Term, found: Found) -> str:
    """Both sides, a step by its place and x by 0."""
    given = ", ".join(f"{k}={v}" for k, v in found.parameters.items())
    right = f"{found.function.operator}({given})"
    return f"{_steps(term)} has the normal form of {right}"


def _steps(term: Term) -> str:
    return "; ".join(
        f"#{k} = {step.operator}({', '.join(map(_shown, step.operands))})"
        for k, step in enumerate(term.steps, 1)
    )


def _shown(reference: Reference) -> str:
    if isinstance(reference, ir.Value):
        return reference.name or "a constant"
    return f"#{reference}" if isinstance(reference, int) else str(reference)
