"""If, Loop, Scan and SequenceMap as statements with bodies of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TypeAlias

import onnx_ir as ir

from ...analysis.errors import Unsupported
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.graph.traversal import all_nodes, bodies
from ...analysis.ops.module_form import ModuleForm
from ...analysis.ops.node_view import NodeView, describe
from ...analysis.spelling.expr import Expr, ExpressionList, Literal, renamed
from ..ir.assignment import Assignment
from ..ir.control_flow import Action, Block, Kind, laid_out
from .spell_nodes import Spelling

DEEPEST = 16  # blocks in each other; Python itself allows 20


def rename(steps: Iterable[Assignment], names: dict[ir.Value, Expr]) -> None:
    """Let the steps read other values, or numbers, in the place of some."""
    for step in laid_out(steps):
        step.expr = renamed(step.expr, names)


class BlockSpelling(Spelling):
    """Spells operators, and those whose attributes are graphs, by `writers`."""

    def __init__(
        self,
        model: ir.Model,
        shapes: ShapeFacts,
        faithful: bool,
        writers: Mapping[str, Writer],
    ) -> None:
        super().__init__(model, shapes, faithful)
        self.writers = writers
        self.depth = 0

    @cached_property
    def ends(self) -> dict[ir.Value, list[tuple[ir.Node | None, int]]]:
        """The graphs that give a value, as the nodes that they belong to, and where."""
        found: dict[ir.Value, list[tuple[ir.Node | None, int]]] = {}
        graphs: list[tuple[ir.Node | None, ir.Graph]] = [(None, self.model.graph)]
        for node in all_nodes(self.model.graph):
            graphs += [(node, body) for body in bodies(node)]
        for owner, graph in graphs:
            for place, value in enumerate(graph.outputs):
                found.setdefault(value, []).append((owner, place))
        return found

    def spell(
        self, node: ir.Node, form: ModuleForm | None, needed: set[ir.Value]
    ) -> list[Assignment]:
        write = self.writers.get(node.op_type) if node.domain == "" else None
        if write is None:
            return super().spell(node, form, needed)
        view = NodeView(node, self.shapes)
        wanted = tuple(out for out in node.outputs if out in needed)
        self.depth += 1
        try:
            if self.depth > DEEPEST:
                view.refuse(f"more than {DEEPEST} bodies in each other")
            builder = BlockBuilder(self, view)
            write(builder, view, wanted)
        except Unsupported as error:
            if not error.where:
                error = Unsupported(error.what, describe(node, self.shapes), error.hint)
            self.refused.append((node, error))
            return self.stand_in(node)
        finally:
            self.depth -= 1
        builder.block.outputs = wanted
        return [builder.block]


class BlockBuilder:
    """Collects the lines of one block: those before it, its bodies, those behind it."""

    def __init__(self, spelling: BlockSpelling, n: NodeView) -> None:
        self.spelling, self.t, self.shapes = spelling, spelling.t, spelling.shapes
        self.node, self.scopes = n.node, spelling.scopes[n.node]
        head = self.line("if", Literal(None))
        self.block = Block((), head.expr, n.node, self.scopes, head=head)
        self.here = self.block.entry

    def open(
        self, kind: Kind, expr: Expr, targets: Iterable[ir.Value | None] = ()
    ) -> None:
        """Begin the first body: `if expr`, `while expr` or `for targets in expr`."""
        self.block.head = self.line(kind, expr, targets)
        self.divide()

    def divide(self) -> None:
        """Begin the next body."""
        self.here = []
        self.block.bodies.append(self.here)

    def close(self) -> None:
        """What follows stands behind the block."""
        self.here = self.block.exit

    def line(
        self,
        kind: Kind,
        expr: Expr,
        targets: Iterable[ir.Value | None] = (),
        name: str = "",
    ) -> Action:
        """Append one action to the body that is being built, and return it."""
        outputs = tuple(targets)
        return Action(outputs, expr, self.node, self.scopes, False, name, kind=kind)

    def set(self, target: ir.Value, expr: Expr, name: str = "") -> None:
        """`target = expr`; `name` is what a reader would call it, if that is known."""
        self.here.append(self.line("set", expr, [target], name))

    def alias(self, target: ir.Value, expr: Expr) -> None:
        """`target` is what `expr` is: no variable of its own, if that can be."""
        self.here.append(Assignment((target,), expr, self.node, self.scopes))

    def call(self, expr: Expr) -> None:
        """A call whose result nobody wants."""
        self.here.append(self.line("call", self.spelling.anchored(expr)))

    def leave(self, expr: Expr) -> None:
        """Leave the loop if `expr` is true."""
        self.here.append(self.line("break", self.spelling.anchored(expr)))

    def copy(self, pairs: list[tuple[ir.Value, Expr]]) -> None:
        """Give the targets new values, all of them at once."""
        if pairs:
            targets, exprs = zip(*pairs, strict=True)
            expr = self.spelling.anchored(ExpressionList(*exprs))
            self.here.append(self.line("copy", expr, targets))

    def body(
        self,
        graph: ir.Graph,
        results: Iterable[ir.Value],
        names: dict[ir.Value, Expr] | None = None,
    ) -> None:
        """The steps of a body; `names` say what it reads for its inputs."""
        steps = self.spelling.run(graph, results)
        rename(steps, names or {})
        self.here += steps


Writer: TypeAlias = Callable[[BlockBuilder, NodeView, tuple[ir.Value, ...]], None]
