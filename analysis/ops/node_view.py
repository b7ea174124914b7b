"""What the spelling of an operator may ask about its node."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, NoReturn

import numpy as np
import onnx_ir as ir

from ..errors import Unsupported, malformed
from ..graph.dims import Dim, is_size
from ..graph.shape_facts import ShapeFacts
from ..graph.traversal import bodies, is_used
from ..literals import one_line
from ..spelling.expr import TORCH_DTYPES, DimOf, Expr


class NodeView:
    """What a spelling may ask about its node: attributes, static facts, constants.

    Input and output positions count from 0 as in the ONNX specification. Everything
    here is known when the module is written; run-time values are the operands.
    """

    def __init__(
        self,
        node: ir.Node,
        shapes: ShapeFacts,
        needed: Container[ir.Value] | None = None,
    ) -> None:
        self.node, self.shapes = node, shapes
        self._needed = needed  # outputs that layers don't do the work of; None: all

    # ---- attributes

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute as int, float, str, list or ndarray; `default` when absent.

        Floats come as np.float32, their type in ONNX, so that they print as written.
        """
        found = self.node.attributes.get(name)
        if found is None or found.value is None:
            return default
        if found.type == ir.AttributeType.FLOAT:
            return np.float32(found.as_float())
        if found.type == ir.AttributeType.FLOATS:
            return [np.float32(x) for x in found.as_floats()]
        if found.type == ir.AttributeType.TENSOR:
            return found.as_tensor().numpy()
        if found.type in (ir.AttributeType.INTS, ir.AttributeType.STRINGS):
            return list(found.value)
        return found.value

    # ---- inputs

    @property
    def arity(self) -> int:
        """The number of inputs, absent ones included."""
        return len(self.node.inputs)

    def has(self, i: int) -> bool:
        """Whether input i is given."""
        return i < len(self.node.inputs) and self.node.inputs[i] is not None

    def value(self, i: int) -> ir.Value:
        """Input i. Raises Unsupported where it is absent."""
        found = self.node.inputs[i] if i < len(self.node.inputs) else None
        if found is None:
            self.refuse(f"{self.node.op_type} needs input {i}, which is absent")
        return found

    def const(self, i: int) -> np.ndarray | None:
        """The constant given to input i; None when it is computed at run time."""
        if not self.has(i):
            return None
        return constant(self.value(i), self.shapes)

    def ints(self, i: int) -> list[int | Expr] | None:
        """The elements of a small integer input, flat: numbers, or sizes to read off.

        None when they are known only at run time.
        """
        content = self.shapes.content(self.value(i))
        if content is None:
            array = self.const(i)
            if array is None or array.dtype.kind not in "iub":
                return None
            return [int(x) for x in array.flatten()]
        return [x if isinstance(x, int) else DimOf(x) for x in content.flatten()]

    def sizes(self, i: int) -> list[int | Expr] | None:
        """Like `ints`, of floats too: those that are sizes, brought to their type."""
        elements = self.shapes.elements(self.value(i))
        if elements is None or not all(is_size(e) for e in elements.flat):
            return self.ints(i)
        return [DimOf(e) for e in elements.flat]

    def known_ints(self, i: int, what: str) -> list[int]:
        """Like `ints`, but refuses the node unless every element is a number."""
        found = self.ints(i)
        numbers = [x for x in found or () if isinstance(x, int)]
        if found is None or len(numbers) != len(found):
            self.refuse(
                f"{self.node.op_type} with {what} known only at run time"
                " is not supported",
                f"make {what} a constant of the model",
            )
        return numbers

    def dims(self, i: int) -> tuple[Dim, ...]:
        """The sizes of input i. Raises Unsupported where its rank is unknown."""
        found = self.shapes.dims(self.value(i))
        if found is None:
            self.refuse(
                f"{self.node.op_type} needs the rank of input {i}, which is unknown",
                why_unknown(self.value(i), self.shapes),
            )
        return found

    def rank(self, i: int) -> int:
        """How many axes input i has. Raises Unsupported where that is unknown."""
        return len(self.dims(i))

    def size(self, i: int, axis: int, what: str = "size") -> int:
        """A dimension that must be a number, e.g. the channels of a convolution."""
        found = self.dims(i)[axis]
        if not isinstance(found, int):
            self.refuse(f"{self.node.op_type} with a dynamic {what} is not supported")
        return found

    def dtype(self, i: int) -> ir.DataType:
        """The element type of input i. Raises Unsupported where it is unknown, or
        one that PyTorch lacks.
        """
        return self._dtype(self.value(i), f"input {i}")

    def is_float(self, i: int) -> bool:
        """Whether the elements of input i are floating-point numbers."""
        return self.dtype(i).is_floating_point()

    # ---- outputs

    @property
    def outputs(self) -> int:
        """The number of outputs, those without a reader included."""
        return len(self.node.outputs)

    def used(self, j: int) -> bool:
        """Whether output j is read by a node or returned by the graph."""
        outputs, known = self.node.outputs[j : j + 1], self._needed
        return any(is_used(x) and (known is None or x in known) for x in outputs)

    def out_dims(self) -> tuple[Dim, ...]:
        """The sizes of output 0. Raises Unsupported where its rank is unknown."""
        found = self.shapes.dims(self.node.outputs[0])
        if found is None:
            self.refuse(f"the rank of {self.node.op_type}'s output 0 is unknown")
        return found

    def out_dtype(self, j: int = 0) -> ir.DataType:
        """The element type of output j; raises as `dtype` does."""
        return self._dtype(self.node.outputs[j], f"output {j}")

    def _dtype(self, value: ir.Value, which: str) -> ir.DataType:
        if value.dtype is None:
            self.refuse(f"the type of {self.node.op_type}'s {which} is unknown")
        if value.dtype not in TORCH_DTYPES:
            self.refuse(
                f"{self.node.op_type} on type {value.dtype.name.lower()} "
                "is not supported: PyTorch has no such type"
            )
        return value.dtype

    # ---- the graph around

    def only_user(self, j: int = 0) -> ir.Node | None:
        """The one node that reads output j; None when returned or read elsewhere."""
        return self.only_reader(self.node.outputs[j])

    def only_reader(self, value: ir.Value) -> ir.Node | None:
        """The one node of the same graph that reads the elements of a value, if alone.

        Its sizes may be read elsewhere, as far as they are known without it.
        """
        known = self.shapes.dims(value) is not None
        users = [
            use.node
            for use in value.uses()
            if not (known and use.node.op_type == "Shape")
        ]
        if value.is_graph_output() or len(users) != 1:
            return None
        return users[0] if users[0].graph is self.node.graph else None

    def refuse(self, what: str, hint: str = "") -> NoReturn:
        """Give up on this node with a message a user can act on."""
        raise Unsupported(what, describe(self.node, self.shapes), hint)


def constant(value: ir.Value, shapes: ShapeFacts | None = None) -> np.ndarray | None:
    """The array of an initializer, or of integers whose values are proven."""
    if value.const_value is not None:
        return value.const_value.numpy()
    content = shapes.content(value) if shapes is not None else None
    if content is None or value.dtype is None or value.is_graph_input():
        return None
    if not all(isinstance(x, (int, bool)) for x in content.flatten()):
        return None
    return content.astype(value.dtype.numpy())


def describe(node: ir.Node, shapes: ShapeFacts | None = None) -> str:
    """`node '/up/Resize' (Resize, opset 19), inputs x [1, 3, 8, 8], roi [8]`."""
    version = f", opset {node.version}" if node.version else ""
    kind = one_line(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
    text = f"node '{one_line(node.name or '?')}' ({kind}{version})"
    inputs = []
    for value in node.inputs:
        if value is not None:
            dims = shapes.dims(value) if shapes is not None else None
            size = "" if dims is None else f" [{', '.join(map(str, dims))}]"
            inputs.append(f"{one_line(value.name or '?', 40)}{one_line(size)}")
    return f"{text}, inputs {', '.join(inputs)}" if inputs else text


def placed(error: Exception, node: ir.Node, shapes: ShapeFacts) -> Unsupported:
    """The refusal of a node, for what its spelling ran into."""
    where = describe(node, shapes)
    if not isinstance(error, Unsupported):
        return Unsupported(f"{node.op_type}: {malformed(error)}", where)
    return error if error.where else Unsupported(error.what, where, error.hint)


def of_strings(node: ir.Node) -> bool:
    """Whether an input or output of a node is a tensor of strings."""
    values = [*node.inputs, *node.outputs]
    return any(v is not None and v.dtype == ir.DataType.STRING for v in values)


def sizes_option(inputs: Iterable[ir.Value]) -> str:
    """What `--shape` takes for the first input of no rank, else of open sizes."""
    for value in sorted(inputs, key=lambda value: value.shape is not None):
        dims = list(value.shape or ())
        if value.shape is None or any(not isinstance(d, int) or d < 0 for d in dims):
            known = (str(d) if isinstance(d, int) and d > 0 else "1" for d in dims)
            return f"{one_line(value.name or '?', 40)}={','.join(known) or '1,3'}"
    return ""


def why_unknown(value: ir.Value, shapes: ShapeFacts) -> str:
    """What left the rank of a value unknown, and what to do about it.

    That is where the way back to the inputs first meets a known one: an input without a
    shape, an If whose branches give different ranks, an operator that runs decide on.
    """
    option, node = sizes_option(shapes.inputs), value.producer()
    fix = f"fix sizes with --shape {option}" if option else "no input has an open size"
    while node is not None:
        before = [v for v in node.inputs if v is not None and shapes.dims(v) is None]
        if not before:
            break
        value, node = before[0], before[0].producer()
    name = one_line(value.name or "?", 40)
    if node is None and value in shapes.inputs:
        return f"input {name} has no shape: give it one with --shape {name}=1,3"
    if node is None:
        return f"{name}, which a body takes, has no rank that stays: {fix}"
    called = f"{node.op_type} {one_line(node.name or '?', 60)!r}"
    if node.op_type == "If":
        ends = [shapes.rank(body.outputs[value.index() or 0]) for body in bodies(node)]
        said = "" if None in ends else f", {' and '.join(map(str, ends))}"
        return f"the branches of {called} give {name} different ranks{said}: {fix}"
    return f"{called} leaves the rank of {name} to what it runs on: {fix}"
