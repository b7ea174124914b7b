"""One assignment of the program to be written, and what stands behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import onnx_ir as ir

from ...analysis.ops.module_form import ModuleForm
from ...analysis.spelling.expr import (
    Attribute,
    Call,
    Expr,
    Leaf,
    Name,
    Ref,
    exchange,
    leaves,
    nodes,
)


@dataclass(frozen=True)
class Scope:
    """One module on the way from the network to a node; `path` is absolute."""

    path: str
    class_hint: str = ""


class LayerRef(Leaf):
    """The layer that owns an operator's parameters, printed `self.conv1`."""

    __slots__ = ("form",)

    def __init__(self, form: ModuleForm) -> None:
        self.form = form

    @property
    def meant(self) -> object:
        return self.form


def sized(expr: Expr) -> Expr:
    """An expression without the values that it only asks for size, type and place."""

    def asked(e: Expr) -> Expr | None:
        is_asked = isinstance(e, Attribute) and e.label in ("shape", "dtype", "device")
        return Name(e.label) if is_asked else None

    return exchange(expr, asked)


def is_plain_call(expr: Expr) -> bool:
    """Whether an expression calls a layer on one value, and does no more."""
    match expr:
        case Call((LayerRef(), Ref()), ()):
            return True
    return False


@dataclass(eq=False)
class Assignment:
    """`outputs = expr`; None stands for an output that nobody reads."""

    outputs: tuple[ir.Value | None, ...]
    expr: Expr
    node: ir.Node | None
    scopes: tuple[Scope, ...] = ()
    inlines: bool = True
    result: str = ""
    form: ModuleForm | None = None
    path: str = ""  # attribute path of `form`, where names tell it
    optional: bool = False  # some instances of the module lack this layer
    lacks: Any = None  # this one does: the layer or module of the others
    absorbed: tuple[ir.Node, ...] = ()  # nodes of other steps whose work it does
    off: bool = False  # what other instances of the module do, and this one doesn't

    def work(self) -> list[ir.Node]:
        """The nodes of the graph whose work it does; none of a step that is off."""
        if self.off:
            return []
        absorbed = self.form.absorbs if self.form is not None else self.absorbed
        return [*absorbed, *([self.node] if self.node is not None else [])]

    def reads(self) -> list[ir.Value]:
        """The graph values that `expr` reads, from left to right, with repeats."""
        return [leaf.value for leaf in leaves(self.expr) if isinstance(leaf, Ref)]

    def operands(self) -> list[ir.Value]:
        """What it reads, but for that of which it takes the type alone."""
        every = self.reads()
        for part in nodes(self.expr):
            if isinstance(part, Attribute) and part.label == "dtype":
                (asked,) = part.operands
                every.remove(asked.value) if isinstance(asked, Ref) else None
        return every


Readers: TypeAlias = dict[ir.Value | None, list[Assignment]]


def readers_of(steps: Iterable[Assignment]) -> Readers:
    """The steps that read each value, in their order."""
    found: Readers = {}
    for step in steps:
        for value in dict.fromkeys(step.reads()):
            found.setdefault(value, []).append(step)
    return found
