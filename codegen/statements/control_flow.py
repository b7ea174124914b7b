"""If, Loop, Scan and SequenceMap as statements with bodies of their own.

A body becomes steps between marks: a mark opens, divides or closes a block, or assigns
what leaves it. While modules are grouped a whole block is one step; then it is laid
out, so that members, constants and interfaces are found as in code without branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir as ir

from ...analysis.errors import Unsupported
from ...analysis.ops.registry import ModuleForm, NodeView, describe
from ...analysis.shapes.infer import ShapeFacts
from ...analysis.spelling.expr import LOWEST, Expr, Leaf, Ref, leaves, substitute
from ..ir.assignment import Assignment
from ..ir.module_call import ModuleCall
from .group_by_scope import group, hoist, sink
from .idioms import spell_idioms
from .spell_nodes import Spelling, unsupported
from .splits import flat_splits

DEEPEST = 16  # blocks in each other; Python itself allows 20


@dataclass(eq=False)
class Mark(Assignment):
    """`if`, `else`, `for`, `while`, `end`; `copy`, `do` and `break` inside of them.

    A copy gives all its outputs new values at once; `do` is a call and no assignment.
    """

    kind: str = ""


@dataclass(eq=False)
class Block(Assignment):
    """A whole statement, marks and the steps between them; `expr` has what it reads."""

    parts: list[Mark | list[Assignment]] = field(default_factory=list)

    def seal(self) -> None:
        steps = list(laid_out([self]))
        made = {out for step in steps for out in step.outputs}
        reads = dict.fromkeys(v for step in steps for v in step.reads())
        assert self.node is not None
        outer = [Ref(value) for value in reads if value not in made]
        self.expr = Expr(self.node.op_type)(*outer)


def inside(step: Assignment) -> Iterator[Assignment]:
    """The step itself, and all that is in it if it is a block."""
    yield step
    for part in step.parts if isinstance(step, Block) else ():
        for inner in [part] if isinstance(part, Mark) else part:
            yield from inside(inner)


def laid_out(steps: Iterable[Assignment]) -> Iterator[Assignment]:
    """The steps in order, those of blocks in the place of the blocks."""
    whole = (inner for step in steps for inner in inside(step))
    return (step for step in whole if not isinstance(step, Block))


def group_blocks(
    steps: list[Assignment], depth: int = 0
) -> list[Assignment | ModuleCall]:
    """Steps to runs, and blocks laid out in the runs they stand in."""

    def expand(
        items: list[Assignment | ModuleCall], depth: int
    ) -> list[Assignment | ModuleCall]:
        found: list[Assignment | ModuleCall] = []
        for item in items:
            if isinstance(item, ModuleCall):
                item.items = expand(item.items, depth + 1)
            elif isinstance(item, Block):
                for part in item.parts:
                    found += (
                        [part] if isinstance(part, Mark) else group_blocks(part, depth)
                    )
                continue
            found.append(item)
        return found

    return expand(group(hoist(sink(steps)), depth), depth)


# --------------------------------------------------------------------------- spelling


def make_steps(
    model: ir.Model, shapes: ShapeFacts, faithful: bool = False, kernels: bool = False
) -> list[Assignment]:
    """The steps in the file's own order; one Unsupported for all that is missing.

    If `faithful`, no layer holds a named weight otherwise than the file does. `kernels`
    are going to be made of the steps.
    """
    spelling = BlockSpelling(model, shapes, faithful)
    steps = spelling.run(model.graph, model.graph.outputs)
    if spelling.missing or spelling.refused:
        raise unsupported(model, spelling.missing, spelling.own_faults())
    results = set(model.graph.outputs)
    steps = flat_splits(_without_aliases(steps, results, {}), shapes, results)
    return spell_idioms(steps, shapes, results, kernels)


def _without_aliases(
    steps: list[Assignment], results: set[ir.Value], same: dict[ir.Value, Expr]
) -> list[Assignment]:
    """Drop `y = x`, which operators spell that do nothing, such as a Pad by zero."""
    kept: list[Assignment] = []
    for step in steps:
        if isinstance(step, Block):
            for i, part in enumerate(step.parts):
                if isinstance(part, Mark):
                    rename([part], same)
                else:
                    step.parts[i] = _without_aliases(part, results, same)
            step.seal()
            kept.append(step)
            continue
        rename([step], same)
        out = step.outputs[0]
        if isinstance(step.expr, Ref) and out is not None and out not in results:
            same[out] = step.expr
        else:
            kept.append(step)
    return kept


def rename(steps: Iterable[Assignment], names: dict[ir.Value, Expr]) -> None:
    """Let the steps read other values, or numbers, in the place of some."""

    def replace(leaf: Leaf) -> Expr | None:
        return names.get(leaf.value) if isinstance(leaf, Ref) else None

    for step in laid_out(steps):
        if any(isinstance(x, Ref) and x.value in names for x in leaves(step.expr)):
            step.expr = substitute(step.expr, replace)


class BlockSpelling(Spelling):
    """Spells operators, and those whose attributes are graphs."""

    depth = 0

    @cached_property
    def ends(self) -> dict[ir.Value, list[tuple[ir.Node | None, int]]]:
        """The graphs that give a value, as the nodes that they belong to, and where."""
        found: dict[ir.Value, list[tuple[ir.Node | None, int]]] = {}
        graphs: list[tuple[ir.Node | None, ir.Graph]] = [(None, self.model.graph)]
        for node in self.model.graph.all_nodes():
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    graphs.append((node, attribute.as_graph()))
        for owner, graph in graphs:
            for place, value in enumerate(graph.outputs):
                found.setdefault(value, []).append((owner, place))
        return found

    def spell(
        self, node: ir.Node, form: ModuleForm | None, needed: set[ir.Value]
    ) -> list[Assignment]:
        from .control_flow_spellings import BODIES

        write = BODIES.get(node.op_type) if node.domain == "" else None
        if write is None:
            return super().spell(node, form, needed)
        view = NodeView(node, self.shapes)
        wanted = tuple(out for out in node.outputs if out in needed)
        self.depth += 1
        try:
            if self.depth > DEEPEST:
                view.refuse(f"more than {DEEPEST} bodies in each other")
            parts = Parts(self, view)
            write(parts, view, wanted)
        except Unsupported as error:
            if not error.where:
                error = Unsupported(error.what, describe(node, self.shapes), error.hint)
            self.refused.append((node, error))
            return self.stand_in(node)
        finally:
            self.depth -= 1
        block = Block(wanted, Expr("None"), node, self.scopes[node], parts=parts.made)
        block.seal()
        return [block]


class Parts:
    """Collects the parts of one block."""

    def __init__(self, spelling: BlockSpelling, n: NodeView) -> None:
        self.spelling, self.t, self.shapes = spelling, spelling.t, spelling.shapes
        self.node, self.scopes = n.node, spelling.scopes[n.node]
        self.made: list[Mark | list[Assignment]] = []

    def mark(
        self, kind: str, expr: Expr | str, targets: Iterable[ir.Value | None] = ()
    ) -> None:
        text = self.spelling.anchored(expr if isinstance(expr, Expr) else Expr(expr))
        step = Mark(tuple(targets), text, self.node, self.scopes, False, kind=kind)
        self.made.append(step)

    def assign(self, target: ir.Value, expr: Expr, name: str = "") -> None:
        """`target = expr`; `name` is what a reader would call it, if that is known."""
        step = Mark((target,), expr, self.node, self.scopes, False, name, kind="set")
        self.made.append(step)

    def alias(self, target: ir.Value, expr: Expr) -> None:
        self.made.append([Assignment((target,), expr, self.node, self.scopes)])

    def copy(self, pairs: list[tuple[ir.Value, Expr]]) -> None:
        """Give the targets new values, all of them at once."""
        if pairs:
            pieces: list[str | tuple[Expr, int]] = []
            for i, (_, expr) in enumerate(pairs):
                pieces += [", " if i else "", (expr, LOWEST)]
            self.mark("copy", Expr(*pieces), [target for target, _ in pairs])

    def body(
        self,
        graph: ir.Graph,
        results: Iterable[ir.Value],
        names: dict[ir.Value, Expr] | None = None,
    ) -> None:
        """The steps of a body; `names` say what it reads for its inputs."""
        steps = self.spelling.run(graph, results)
        rename(steps, names or {})
        for step in steps:
            if isinstance(step, Block):
                step.seal()
        self.made.append(steps)


Writer = Callable[[Parts, NodeView, tuple[ir.Value, ...]], None]
