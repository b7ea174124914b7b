"""One call of one module, and what makes two calls the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import onnx_ir as ir

from ...analysis.graph.parameters import is_parameter
from ...analysis.ops.module_form import ModuleForm
from ...analysis.spelling.expr import Expr, Leaf, Ref, nodes, render
from .assignment import Assignment, LayerRef
from .control_flow import Action, Block, laid_out


@dataclass(eq=False)
class ModuleCall:
    """One call of a module; `path` is its attribute path ('' = the network).

    `items` are what it does in order, a tree where there are blocks.
    """

    path: str
    hint: str = ""
    items: list[Item] = field(default_factory=list)
    constants: list[ir.Value] = field(default_factory=list)  # members read by steps
    inputs: list[ir.Value] = field(default_factory=list)
    outputs: list[ir.Value] = field(default_factory=list)
    shares: ModuleCall | None = None  # an earlier call of the same module
    sizes: list[ir.Value] = field(default_factory=list)  # passed as ints; and a device
    size_args: list[Expr] = field(default_factory=list)  # what the caller passes
    optional: bool = False  # some instances of the module around it lack it
    whole: bool = False  # an nn.Sequential whose operators are layers
    ints: list[ir.Value] = field(default_factory=list)  # every int variable of the body

    def contents(self) -> list[Item]:
        """The items in order, the lines of blocks in the place of the blocks.

        An item's position says what it is in other calls of the same class, too.
        """
        return list(laid_out(self.items))

    def exchange(self, new: Callable[[Item], list[Item]]) -> None:
        """Put what `new` returns in each item's place, in the bodies of blocks too."""
        todo = [self.items]
        while todo:
            body = todo.pop()
            for item in body:
                todo += item.bodies if isinstance(item, Block) else ()
            body[:] = [x for item in body for x in new(item)]

    def steps(self) -> Iterator[Assignment]:
        """Every assignment, those of inner calls included."""
        for item in laid_out(self.items):
            if isinstance(item, Assignment):
                yield item
            else:
                yield from item.steps()

    def sources(self) -> list[type]:
        """Classes of the layers that are not PyTorch's own."""
        found = (s.form.source for s in self.steps() if s.form is not None)
        return list(dict.fromkeys(source for source in found if source is not None))

    def calls(self) -> Iterator[ModuleCall]:
        """The calls of modules that it makes itself."""
        return (x for x in laid_out(self.items) if isinstance(x, ModuleCall))

    def all_calls(self) -> Iterator[ModuleCall]:
        """Those calls, each followed by all that it makes."""
        for call in self.calls():
            yield call
            yield from call.all_calls()


Item: TypeAlias = Assignment | ModuleCall


class ModuleRef(Leaf):
    """A block of the module tree, printed `self.attention`.

    In a loop it stands for the `others` of its list, too.
    """

    __slots__ = ("call", "others", "text")

    def __init__(
        self, call: ModuleCall, text: str, others: tuple[ModuleCall, ...] = ()
    ) -> None:
        self.call, self.text, self.others = call, text, others

    @property
    def meant(self) -> object:
        return self.call.shares or self.call


class ListItem(Expr):
    """A member of a list, as a loop over it reaches it: `layer`, `self.norms[i]`.

    The label is the leaf of the first one.
    """

    __slots__ = ()

    def _text(self, operands: list[str]) -> str:
        return operands[0]


def member(expr: Expr) -> LayerRef | ModuleRef | None:
    """The layer or block that an expression is, in a loop the first of its list."""
    leaf = expr.label if isinstance(expr, ListItem) else expr
    return leaf if isinstance(leaf, LayerRef | ModuleRef) else None


def members(expr: Expr) -> list[LayerRef | ModuleRef]:
    """The layers and blocks that an expression calls, from left to right."""
    return [found for node in nodes(expr) if (found := member(node)) is not None]


def weights_key(form: ModuleForm) -> tuple[tuple[str, str | None, str], ...]:
    """Equal for layers with the same initializers, converted alike."""
    return tuple((k, w.value.name, w.how) for k, w in form.weights.items())


def owned_matrices(step: Assignment) -> tuple[str, ...]:
    """Names of the parameters of two axes or more that a step reads."""
    values = [v for v in step.reads() if is_parameter(v)]
    if step.form is not None:
        values = [weight.value for weight in step.form.weights.values()]
    return tuple(
        v.name or ""
        for v in values
        if v.const_value is not None and len(v.const_value.shape) >= 2
    )


def layer_key(form: ModuleForm) -> tuple[object, ...]:
    """Equal for layers with the same constructor call."""
    return (form.layer, form.positional, tuple(sorted(form.keywords.items())))


_Keys = tuple[tuple[str, tuple[int | None, ...]], ...]


def sequence_key(steps: list[Assignment]) -> _Keys:
    """Equal for two calls of the same module: same work, same weights, same wiring.

    Scopes don't count: TorchScript numbers the calls (`activation`, `activation_1`).
    """
    numbers: dict[object, int] = {}

    def name(leaf: Leaf) -> str:
        if isinstance(leaf, LayerRef):
            return repr((layer_key(leaf.form), weights_key(leaf.form)))
        if isinstance(leaf, Ref):
            if leaf.value.const_value is not None:
                return f"const {leaf.value.name}"
            return f"v{numbers.setdefault(leaf.value, len(numbers))}"
        return type(leaf).__name__ + str(getattr(leaf, "dim", ""))

    key = []
    for step in laid_out(steps):
        text = render(step.expr, name)
        if isinstance(step, Action):
            text = f"{step.kind} {text}"
        outs = tuple(
            None if out is None else numbers.setdefault(out, len(numbers))
            for out in step.outputs
        )
        key.append((text, outs))
    return tuple(key)
