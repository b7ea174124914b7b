"""Types of what operators give that onnx doesn't know, for onnx.shape_inference.

onnx stops at the first operator that it has no schema of: one of com.microsoft, or one
that ONNX has given up. While `known_to_onnx(model)` is entered, it has a schema for
each in RULES of the model's domains. Sizes that take arithmetic are left to `shape` of
their OpDefs, which knows symbols: here are the type and the rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any

import onnx
from onnx.defs import OpSchema

# The one that ONNX Runtime keeps in ONNX's own domain; no version of ONNX had it.
UNLISTED = "SimplifiedLayerNormalization"
# Those that it has there before ONNX: its optimiser writes the first in any opset.
EARLY = ("LayerNormalization", "MeanVarianceNormalization", "ThresholdedRelu")

Size = int | str | None  # a number, a name, or unknown


class InferenceSite:
    """A node, as onnx shows it during inference."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def attr(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; `default` where there is none."""
        found = self._context.get_attribute(name)
        return default if found is None else onnx.helper.get_attribute_value(found)

    def element(self, i: int) -> int:
        """The element type of input i, as onnx numbers it; 0 if unknown."""
        found = self._type(i)
        return 0 if found is None else found.elem_type

    def dims(self, i: int) -> list[Size] | None:
        """The sizes of input i: numbers, names or None; None if of unknown rank."""
        found = self._type(i)
        if found is None or not found.HasField("shape"):
            return None
        return [
            d.dim_value if d.HasField("dim_value") else d.dim_param or None
            for d in found.shape.dim
        ]

    def size(self, i: int, axis: int) -> Size:
        """One size of input i, where it is known."""
        dims = self.dims(i)
        return None if dims is None or axis >= len(dims) else dims[axis]

    def rank(self, i: int) -> int | None:
        """The rank of input i; None if unknown."""
        dims = self.dims(i)
        return None if dims is None else len(dims)

    def give(self, j: int, element: int, dims: Sequence[Size] | None) -> None:
        """Set the type of output j; sizes that are None are unknown."""
        if j >= self._context.get_num_outputs() or not element:
            return
        proto = onnx.TypeProto()
        proto.tensor_type.elem_type = element
        if dims is not None:
            proto.tensor_type.shape.SetInParent()
            for size in dims:
                added = proto.tensor_type.shape.dim.add()
                if isinstance(size, int):
                    added.dim_value = size
                elif size:
                    added.dim_param = size
        self._context.set_output_type(j, proto)

    def _type(self, i: int) -> Any:
        if i >= self._context.get_num_inputs() or not self._context.has_input(i):
            return None
        found = self._context.get_input_type(i)
        return None if found is None else found.tensor_type


Rule = Callable[[InferenceSite], None]
RULES: dict[tuple[str, str], Rule] = {}  # (domain, operator) -> rule


def type_rule(*ops: str, domain: str = "") -> Callable[[Rule], Rule]:
    """Registers the function that gives the types of some operators' outputs."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys([(domain, op) for op in ops], function))
        return function

    return register


@type_rule("Affine", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh")
def _like_first(n: InferenceSite) -> None:
    n.give(0, n.element(0), n.dims(0))


@type_rule("Crop", "DynamicSlice")
def _part(n: InferenceSite) -> None:
    dims = n.dims(0)
    n.give(0, n.element(0), dims and [None] * len(dims))


@type_rule(*EARLY, UNLISTED)
def normalization(n: InferenceSite) -> None:
    """A tensor like the first, its mean and deviation, and what was normalised."""
    dims = n.dims(0)
    n.give(0, n.element(0), dims)
    for j in (1, 2):
        n.give(j, onnx.TensorProto.FLOAT, dims and [*dims[:-1], 1])
    n.give(3, n.element(0), dims)


# ---- for the time of an inference


@cache
def _schema(domain: str, name: str, rule: Rule) -> OpSchema:
    """A schema of any inputs and outputs; what it is for is its inference."""
    many = OpSchema.FormalParameterOption.Variadic

    def parameter(label: str) -> OpSchema.FormalParameter:
        return OpSchema.FormalParameter(
            label, "T", param_option=many, is_homogeneous=False, min_arity=0
        )

    def infer(context: Any) -> None:
        try:
            rule(InferenceSite(context))
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return  # a malformed node, which its spelling will name

    anything = onnx.defs.get_schema("Identity").type_constraints[0].allowed_type_strs
    schema = OpSchema(
        name,
        domain,
        1,
        inputs=[parameter("x")],
        outputs=[parameter("y")],
        type_constraints=[("T", anything, "any")],
    )
    schema.set_type_and_shape_inference_function(infer)
    return schema


_LOCK = RLock()


@contextmanager
def known_to_onnx(model: onnx.ModelProto) -> Iterator[None]:
    """Lend onnx the schemas of a model's domains, which it keeps for all models."""
    imports = [
        *model.opset_import,
        *(i for f in model.functions for i in f.opset_import),
    ]
    domains = {"", *(entry.domain for entry in imports)}
    with _LOCK:
        schemas = [_schema(*key, r) for key, r in RULES.items() if key[0] in domains]
        lent = [s for s in schemas if not onnx.defs.has(s.name, 1, s.domain)]
        try:
            for schema in lent:
                onnx.defs.register_schema(schema)
            yield
        finally:
            for schema in lent:
                onnx.defs.deregister_schema(schema.name, 1, schema.domain)
