"""GroupNormalization: an image seen as groups, each of them normalised, seen as before.

A group is some channels in a row, so it is a part of the image's elements as they lie;
whatever the sizes are by which a Reshape spells the groups, and whichever operator
normalises all that is behind them. Parts that are the last axes are rows of these; a
scale and a bias of each channel may stand at any of those sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as ir

from ...analysis.graph.dims import Dim, Dims, product, same
from ..language.facts import Facts
from ..language.operators.read_write import (
    WORDS,
    CannotWrite,
    Draft,
    Input,
    NewConstant,
    NoReading,
    Output,
    Reading,
    ints,
    reading,
    whole,
)
from .recognition import Recognition
from .regions import Neighbourhoods, number

STATEMENT = "groups of channels normalised, scaled and shifted = GroupNormalization(x)"
STEPS = 8  # between a norm and its end, at most
_NORMS = ("InstanceNormalization", "GroupNormalization", "LayerNormalization")


def group_norm(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """What is normalised as groups."""
    facts = around.facts
    nodes = _down_to_norm(node, facts)
    if not nodes:
        return
    *users, normal = nodes
    x = normal.inputs[0]
    grouping = None if x is None else x.producer()
    if grouping is not None and (grouping.op_type, grouping.domain) == ("Reshape", ""):
        x, nodes = grouping.inputs[0], [*nodes, grouping]
    if x is None or x.dtype is None or not x.dtype.is_floating_point():
        return
    dims = facts.dims(x)
    if dims is None or dims != facts.dims(node.outputs[0]):
        return
    try:
        read = reading(normal, facts)
        drafts = _of_groups(x, dims, read, users[::-1], facts) if len(dims) > 2 else ()
        name = "group_norm"
        if not drafts and [n.op_type for n in nodes[::2]] == ["Reshape"] * 2:
            name, drafts = "layer_norm", _of_rows(x, dims, read, facts)
    except (CannotWrite, NoReading):
        return
    if drafts:
        evidence = f"{normal.name} normalises parts of {x.name} as they lie"
        yield Recognition(name, tuple(nodes), drafts, evidence)


def _down_to_norm(node: ir.Node, facts: Facts) -> list[ir.Node]:
    """A node and what computes it, as far as a norm, each with constants alone."""
    nodes: list[ir.Node] = []
    for _ in range(STEPS):
        given = [x for x in node.inputs[:2] if x and not facts.is_constant(x)]
        if node.domain or node.op_type not in ("Reshape", "Mul", "Add", *_NORMS):
            return []
        nodes.append(node)
        if node.op_type in _NORMS:
            return nodes if len(nodes) > 1 else []
        above = given[0].producer() if given else None
        several = node.op_type != "Reshape" and len(given) > 1
        if several or above is None or above.graph is not node.graph:
            return []
        node = above
    return []


def _of_groups(
    x: ir.Value, dims: Dims, read: Reading, users: Sequence[ir.Node], facts: Facts
) -> tuple[Draft, ...]:
    """Of channels, if what is computed from them until the end is of each channel."""
    rows, channels = _rows(read, facts), dims[1]
    groups = _groups(rows, dims, read)
    if not (isinstance(groups, int) and isinstance(channels, int)) or x.dtype is None:
        return ()
    if groups < 1 or channels % groups:
        return ()
    drafts: list[Draft] = []

    def made(op: str, *inputs: Input) -> Input:
        drafts.append(Draft(op, [*inputs]))
        return Output(drafts[-1])

    scale: Input = None
    bias: Input = None
    at = rows if "axis" in read.parameters else rows[:2]
    own = zip(("Mul", "Add"), read.inputs[1:], (at, at), strict=True)
    for op, given, view in (*own, *_applied(users, facts)):
        neutral = 1 if op == "Mul" else 0
        if given is None or number(given, facts) == neutral:
            continue
        if not _is_by_channel(facts.dims(given), view, dims):
            if facts.uniform(given) == neutral:
                continue
            return ()
        vector: Input = given
        if facts.dims(given) != (channels,):
            vector = made("Reshape", given, ints([channels]))
        if op == "Mul":
            scale = vector if scale is None else made("Mul", scale, vector)
            bias = None if bias is None else made("Mul", bias, vector)
        else:
            bias = vector if bias is None else made("Add", bias, vector)
    if scale is bias is None and groups == channels and len(dims) == 3:
        return ()  # that is a row of the last axis, too
    filled = [
        NewConstant(np.full(channels, n, x.dtype.numpy())) if given is None else given
        for given, n in ((scale, 1), (bias, 0))
    ]
    parameters = {"epsilon": read.parameters["epsilon"]}
    operator = "InstanceNormalization"
    # What exporters see as groups to normalise it is groups, be they one channel each.
    if groups < channels or len(rows) != len(dims) or "groups" in read.parameters:
        operator, parameters["groups"] = "GroupNormalization", groups
    return (*drafts, WORDS[operator].write([x, *filled], parameters))


def _rows(read: Reading, facts: Facts) -> Dims:
    """The sizes of what is normalised."""
    x = read.inputs[0]
    return () if x is None else facts.dims(x) or ()


def _groups(rows: Dims, dims: Dims, read: Reading) -> Dim | None:
    """How many parts of an image are normalised, each by itself."""
    axis, total = read.parameters.get("axis", 2), product(dims[1:])
    part = product(rows[axis:])
    if "groups" not in read.parameters and isinstance(total, int):
        whole_parts = isinstance(part, int) and part > 0 and total % part == 0
        return total // part if whole_parts else None
    if axis != 2 or len(rows) < 3 or same(rows[0], dims[0]) is not True:
        return None
    return read.parameters.get("groups", rows[1])


def _applied(
    users: Sequence[ir.Node], facts: Facts
) -> Iterator[tuple[str, ir.Value | None, Dims]]:
    """What is multiplied and added, one after another, and the sizes it has there."""
    for user in users:
        sizes = facts.dims(user.outputs[0]) or ()
        if user.op_type != "Reshape":
            first, second = user.inputs
            turned = first is not None and facts.is_constant(first)
            yield user.op_type, first if turned else second, sizes


def _is_by_channel(sizes: Dims | None, view: Dims, dims: Dims) -> bool:
    """Whether a constant has a number for each channel of an image that is seen as
    `view`, and all of the image's elements stay."""
    if sizes is None or len(sizes) > len(view) or same(view[0], dims[0]) is not True:
        return False
    filled = (1,) * (len(view) - len(sizes)) + sizes
    return any(
        product(view[1:k]) == dims[1]
        and filled == (1, *view[1:k], *[1] * (len(view) - k))
        for k in range(2, len(view) + 1)
    )


def _of_rows(x: ir.Value, dims: Dims, read: Reading, facts: Facts) -> tuple[Draft, ...]:
    """Of the last axes, if a part has as many elements as these."""
    if "groups" in read.parameters or any(
        given is not None and facts.uniform(given) != n
        for given, n in zip(read.inputs[1:], (1, 0), strict=True)
    ):
        return ()
    row = _rows(read, facts)[read.parameters.get("axis", 2) :]
    for first in range(1, len(dims)):
        sizes = dims[first:]
        if same(product(sizes), product(row)) is True and x.dtype is not None:
            scale = NewConstant(np.ones(whole(sizes), x.dtype.numpy()))
            parameters = {"axis": first, "epsilon": read.parameters["epsilon"]}
            return (WORDS["LayerNormalization"].write([x, scale, None], parameters),)
    return ()
