"""Sequences are Python lists, and optionals are values that may be None.

A list is never changed in place: every operator gives a new one.
"""

from __future__ import annotations

import builtins
from typing import Any

import onnx_ir as ir

from ...spelling.expr import Binary, List, Literal, Name, Printing, Unary, spell
from ..helpers import sequences as helpers
from ..node_view import NodeView
from ..operands import front
from ..registry import OPAQUE, REORGANIZE, operator


def _call(t: Any, name: str, *args: Any) -> Any:
    """len(x), int(x), list(x): Python's own functions."""
    return (Name(name) if isinstance(t, Printing) else getattr(builtins, name))(*args)


def _list(t: Any, *parts: Any, spread: tuple[int, ...] = ()) -> Any:
    """[a, *b]: the parts at the places in `spread` are lists."""
    if not isinstance(t, Printing):
        rows = (part if i in spread else [part] for i, part in enumerate(parts))
        return [item for row in rows for item in row]
    items = map(spell, parts)
    return List(
        *(Unary(x, label="*") if i in spread else x for i, x in enumerate(items))
    )


def _position(t: Any, n: NodeView, i: int, operand: Any) -> Any:
    found = n.ints(i)
    return found[0] if found else _call(t, "int", operand)


operator("SequenceEmpty", since=11, mapping=OPAQUE)(lambda t, n: _list(t))
operator("SequenceConstruct", since=11, mapping=OPAQUE)(
    lambda t, n, *items: _list(t, *items)
)


@operator("SequenceInsert", since=11, mapping=OPAQUE)
def _insert(t: Any, n: NodeView, items: Any, x: Any, position: Any = None) -> Any:
    if position is None:
        return _list(t, items, x, spread=(0,))
    i = _position(t, n, 2, position)
    if isinstance(i, int) and i == 0:
        return _list(t, x, items, spread=(1,))
    if n.ints(2):
        return _list(t, items[:i], x, items[i:], spread=(0, 2))
    return t.helper(helpers.insert_item)(items, x, i)


@operator("SequenceErase", since=11, mapping=OPAQUE)
def _erase(t: Any, n: NodeView, items: Any, position: Any = None) -> Any:
    i = -1 if position is None else _position(t, n, 1, position)
    if isinstance(i, int) and i in (0, -1):
        return items[:-1] if i else items[1:]
    return t.helper(helpers.erase_item)(items, i)


@operator("SequenceAt", since=11, mapping=OPAQUE)
def _at(t: Any, n: NodeView, items: Any, position: Any) -> Any:
    return items[_position(t, n, 1, position)]


operator("SequenceLength", since=11, mapping=OPAQUE)(
    lambda t, n, items: t.tensor(_call(t, "len", items), device=t.device)
)


@operator("SplitToSequence", since=24, mapping=REORGANIZE, views=False, traceable=False)
def _split(t: Any, n: NodeView, x: Any, sizes: Any = None) -> Any:
    axis = front(int(n.attr("axis", 0)), n.rank(0))
    if not n.attr("keepdims", 1) and (sizes is None or n.rank(1) == 0):
        return _call(t, "list", x.unbind(axis) if axis else x)
    parts: Any = 1
    if sizes is not None:
        parts = n.ints(1)
        if parts is None:
            parts = sizes.tolist()
        elif n.rank(1) == 0:
            parts = parts[0]
    return _call(t, "list", x.split(parts, axis) if axis else x.split(parts))


@operator(
    "ConcatFromSequence", since=11, mapping=REORGANIZE, views=False, traceable=False
)
def _concat(t: Any, n: NodeView, items: Any) -> Any:
    text = n.node.outputs[0].dtype == ir.DataType.STRING
    of, name = (t.np, "axis") if text else (t, "dim")
    join = of.stack if n.attr("new_axis", 0) else of.concatenate if text else of.cat
    axis = int(n.attr("axis", 0))
    return join(items, **{name: axis}) if axis else join(items)


@operator("Optional", since=15, mapping=OPAQUE)
def _optional(t: Any, n: NodeView, x: Any = None) -> Any:
    return Literal(None) if x is None and isinstance(t, Printing) else x


@operator("OptionalHasElement", since=18, mapping=OPAQUE)
def _has_element(t: Any, n: NodeView, x: Any = None) -> Any:
    known: Any = x is not None
    may_lack = known and isinstance(n.value(0).type, ir.OptionalType)
    if may_lack and isinstance(t, Printing):
        known = Binary(x, Literal(None), label="is not")
    return t.tensor(known, device=t.device)


operator("OptionalGetElement", since=18, mapping=OPAQUE)(lambda t, n, x: x)
