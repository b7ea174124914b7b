"""What a node computes, if that has a name: the entry of this folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..language.exactness import Exactness
from ..language.operators.read_write import WORDS, Draft, Input, NewConstant, Output
from .attention import OPEN, attention, rescaled, shared_heads
from .attention import STATEMENTS as ATTENTION_STATEMENTS
from .cast_chains import STATEMENT as CAST_STATEMENT
from .cast_chains import cast_of_cast
from .denotation import MEANINGS, Reference, Term
from .group_norm import STATEMENT as GROUP_STATEMENT
from .group_norm import group_norm
from .movement_chains import MOVEMENTS, movement_chains
from .movement_chains import STATEMENT as MOVEMENT_STATEMENT
from .normalised_sums import STATEMENTS as ROW_STATEMENTS
from .normalised_sums import normalised_sum
from .regions import Neighbourhoods, Region, regions
from .scalar_functions import FUNCTIONS, Found, scalar_function

# Binary digits of the numbers of an element type.
_PLACES = {"FLOAT": 24, "DOUBLE": 53, "FLOAT16": 11, "BFLOAT16": 8}

PROOF = "normal-form"  # what a certificate has in the place of a law's proof
STATEMENTS = {
    **{function.name: function.statement for function in FUNCTIONS},
    **ROW_STATEMENTS,
    **ATTENTION_STATEMENTS,
    "group_norm": GROUP_STATEMENT,
    "cast_of_cast": CAST_STATEMENT,
    "movement_chain": MOVEMENT_STATEMENT,
}
CLASSES = {
    **dict.fromkeys(STATEMENTS, Exactness.ROUNDED),
    **dict.fromkeys(
        ("cast_of_cast", "attention_grouped", "movement_chain"), Exactness.BITWISE
    ),
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


def recognitions(
    node: ir.Node, around: Neighbourhoods, wanted: Collection[str]
) -> Iterator[Recognition]:
    """What of these names ends at a node, the largest parts first.

    Nothing of a part is needed elsewhere. A factor that what is normalised has
    elsewhere too is no part of the norm.
    """
    for names, recognised in _RECOGNISED.get(node.op_type, ()):
        if not names.isdisjoint(wanted):
            for found in recognised(node, around):
                if found.name in wanted:
                    yield found


def _casts(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    chain = cast_of_cast(node)
    if chain is not None:
        yield _of_casts(node, *chain)


def _movements(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    for row in movement_chains(node, around.facts):
        evidence = f"each element of {row.source.name} comes to the same place"
        yield Recognition(
            "movement_chain",
            node.outputs[0],
            row.nodes,
            row.drafts,
            row.result,
            evidence,
        )


def _groups(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    groups = group_norm(node, around.facts)
    if groups is not None:
        x, nodes, draft = groups
        evidence = f"{nodes[1].name} normalises groups of {x.name}"
        yield _recognition("group_norm", node.outputs[0], nodes, (draft,), evidence)


def _attention(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    for name, recognised in (
        ("attention", attention),
        ("attention_rescaled", rescaled),
    ):
        whole = recognised(node, around.facts)
        if whole is not None:
            root, name = node.outputs[0], OPEN if whole.is_open else name
            yield _recognition(name, root, whole.nodes, whole.drafts, whole.evidence)


def _heads(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    shared = shared_heads(node, around.facts)
    if shared is not None:
        nodes, draft = shared
        evidence = "keys and values are copied, head by head"
        root = node.outputs[0]
        yield _recognition("attention_grouped", root, nodes, (draft,), evidence)


def _functions(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """Functions of one value's elements, and of its rows."""
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
                root, nodes = region.root, region.nodes
                yield _recognition(row.name, root, nodes, row.drafts, evidence)
        elif not region.constants:
            function = scalar_function(region.term, places)
            if function is not None:
                yield _of_scalar(region, function)


_Recognising = Callable[[ir.Node, Neighbourhoods], Iterator[Recognition]]

# What is recognised, at which operators, and how.
_WAYS: tuple[tuple[Collection[str], Collection[str], _Recognising], ...] = (
    (("cast_of_cast",), ("Cast",), _casts),
    (("movement_chain",), MOVEMENTS, _movements),
    (("group_norm",), ("Reshape",), _groups),
    (("attention", OPEN, "attention_rescaled"), ("MatMul", "Attention"), _attention),
    (("attention_grouped",), ("Attention",), _heads),
    ((*ROW_STATEMENTS, *(f.name for f in FUNCTIONS)), MEANINGS, _functions),
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
    return _recognition(function.name, region.root, region.nodes, (draft,), evidence)


def _recognition(
    name: str,
    root: ir.Value,
    nodes: tuple[ir.Node, ...],
    drafts: tuple[Draft, ...],
    evidence: str,
) -> Recognition:
    return Recognition(name, root, nodes, drafts, Output(drafts[-1]), evidence)


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
