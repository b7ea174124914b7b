"""One call of one module, and what makes two calls the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from ...analysis.graph.parameters import is_parameter
from ...analysis.ops.registry import ModuleForm
from ...analysis.spelling.expr import Expr, Leaf, Ref, render
from .assignment import Assignment, LayerRef


@dataclass(eq=False)
class ModuleCall:
    """One call of a module; `path` is its attribute path ('' = the network)."""

    path: str
    hint: str = ""
    items: list[Assignment | ModuleCall] = field(default_factory=list)
    constants: list[ir.Value] = field(default_factory=list)  # members read by steps
    inputs: list[ir.Value] = field(default_factory=list)
    outputs: list[ir.Value] = field(default_factory=list)
    shares: ModuleCall | None = None  # an earlier call of the same module
    sizes: list[ir.Value] = field(default_factory=list)  # passed as ints
    size_args: list[Expr] = field(default_factory=list)  # what the caller passes
    ints: list[ir.Value] = field(default_factory=list)  # every int variable of the body

    def steps(self) -> Iterator[Assignment]:
        for item in self.items:
            if isinstance(item, Assignment):
                yield item
            else:
                yield from item.steps()

    def sources(self) -> list[type]:
        """Classes of the layers that are not PyTorch's own."""
        found = (s.form.source for s in self.steps() if s.form is not None)
        return list(dict.fromkeys(source for source in found if source is not None))

    def runs(self) -> Iterator[ModuleCall]:
        return (item for item in self.items if isinstance(item, ModuleCall))


def weights_key(form: ModuleForm) -> tuple[tuple[str, str | None, str], ...]:
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
    for step in steps:
        text = render(step.expr, name)
        outs = tuple(
            None if out is None else numbers.setdefault(out, len(numbers))
            for out in step.outputs
        )
        key.append((text, outs))
    return tuple(key)
