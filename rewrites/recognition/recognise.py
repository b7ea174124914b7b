"""What a node computes, if that has a name: the entry of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..language.exactness import Exactness
from ..language.operators.read_write import (
    WORDS,
    Draft,
    Input,
    NewConstant,
    Output,
)
from .cast_chains import STATEMENT as CAST_STATEMENT
from .cast_chains import cast_of_cast
from .denotation import MEANINGS, Reference, Term
from .normalised_sums import STATEMENTS as ROW_STATEMENTS
from .normalised_sums import normalised_sum
from .regions import Neighbourhoods, Region, regions
from .scalar_functions import FUNCTIONS, Found, scalar_function

# Binary digits of the numbers of an element type.
_PLACES = {"FLOAT": 24, "DOUBLE": 53, "FLOAT16": 11, "BFLOAT16": 8}

PROOF = "normal-form"  # what a certificate has in the place of a law's proof
OPERATORS = frozenset(MEANINGS)  # that a recognised part of a graph may end with
STATEMENTS = {
    **{function.name: function.statement for function in FUNCTIONS},
    **ROW_STATEMENTS,
    "cast_of_cast": CAST_STATEMENT,
}
CLASSES = {
    **dict.fromkeys(STATEMENTS, Exactness.ROUNDED),
    "cast_of_cast": Exactness.BITWISE,
}


@dataclass(frozen=True)
class Recognition:
    """Nodes that compute `root`, the drafts that do the same, and the reason."""

    name: str
    root: ir.Value
    nodes: tuple[ir.Node, ...]
    drafts: tuple[Draft, ...]
    result: Input
    evidence: str  # what was found to be equal

    @property
    def exactness(self) -> Exactness:
        """The class of its kind."""
        return CLASSES[self.name]


def recognitions(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """What ends at a node: parts none of which is needed elsewhere, the largest first.

    A factor that what is normalised has elsewhere too is no part of the norm.
    """
    chain = cast_of_cast(node)
    if chain is not None:
        yield _of_casts(node, *chain)
    found = sorted(regions(node, around), key=lambda r: (_left(r), -len(r.nodes)))
    for region in found:
        dtype = region.root.dtype
        assert dtype is not None
        places = _PLACES.get(dtype.name)
        if places is None:
            continue
        if region.axes is not None:
            row = normalised_sum(region, places, around.facts)
            if row is not None:
                evidence = f"{_steps(region.term)} has the normal form of {row.text}"
                yield _recognition(row.name, region, row.drafts, evidence)
        elif not region.constants:
            function = scalar_function(region.term, places)
            if function is not None:
                yield _of_scalar(region, function)


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
    return _recognition(function.name, region, (draft,), _equation(region.term, found))


def _recognition(
    name: str, region: Region, drafts: tuple[Draft, ...], evidence: str
) -> Recognition:
    last = Output(drafts[-1])
    return Recognition(name, region.root, region.nodes, drafts, last, evidence)


def _of_casts(
    node: ir.Node, source: ir.Value, nodes: tuple[ir.Node, ...], to: int
) -> Recognition:
    evidence = f"{nodes[1].name} loses nothing of {source.name}"
    root = node.outputs[0]
    if source.dtype == to:
        return Recognition("cast_of_cast", root, nodes, (), source, evidence)
    draft = Draft("Cast", [source], {"to": to})
    return Recognition("cast_of_cast", root, nodes, (draft,), Output(draft), evidence)


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
