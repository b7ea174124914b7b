"""The operator table: the one place where an operator is added.

    define(OpDef("Celu", since=12, mapping=ONE_TO_ONE,
                 torch=lambda t, n, x: t.F.celu(x, alpha=n.attr("alpha", 1.0)),
                 cases=[case([2, 3]), case([4], alpha=0.5)]))

That is the whole change: emission, tests, the documentation table and the list of what
is unsupported all iterate over the table. Only the newest spelling of
an operator is defined here; rewrites/normalise.py brings older opsets to it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from inspect import signature
from typing import Any, NoReturn

import numpy as np
import onnx_ir as ir

from ..errors import Unsupported, malformed
from ..graph.dims import Dim
from ..graph.shape_facts import ContentResult, DimsResult, NodeFacts, ShapeFacts
from ..graph.weight_access import glance, note_read
from ..literals import one_line
from ..spelling.expr import TORCH_DTYPES, DimOf, Expr
from .facts import flop_counts, index_functions
from .facts.requirements import Requirement
from .facts.sizes_elementwise import broadcast_together
from .facts.tiles import TileNeeds

DOMAIN = "com.microsoft"
OWN = "fairhand"  # the domain of operators that only this package has


class MappingType(Enum):
    """The five mapping types of DNNFusion's Table 2, and what can't be classified."""

    ONE_TO_ONE = "One-to-One"
    ONE_TO_MANY = "One-to-Many"
    MANY_TO_MANY = "Many-to-Many"
    REORGANIZE = "Reorganize"
    SHUFFLE = "Shuffle"
    OPAQUE = "Opaque"


class Pattern(IntEnum):
    """TVM's OpPatternKind, from simple to complex."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    OUT_ELEMWISE_FUSABLE = 4
    OPAQUE = 8


ONE_TO_ONE = MappingType.ONE_TO_ONE
ONE_TO_MANY = MappingType.ONE_TO_MANY
MANY_TO_MANY = MappingType.MANY_TO_MANY
REORGANIZE = MappingType.REORGANIZE
SHUFFLE = MappingType.SHUFFLE
OPAQUE = MappingType.OPAQUE


class NodeView:
    """What a spelling may ask about its node: attributes, static facts, constants.

    Input and output positions count from 0 as in the ONNX specification. Everything
    here is known when the module is written; run-time values are the operands.
    """

    def __init__(self, node: ir.Node, shapes: ShapeFacts) -> None:
        self.node = node
        self.shapes = shapes

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
        return i < len(self.node.inputs) and self.node.inputs[i] is not None

    def value(self, i: int) -> ir.Value:
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
        found = self.shapes.dims(self.value(i))
        if found is None:
            self.refuse(
                f"{self.node.op_type} needs the rank of input {i}, which is unknown",
                "give the model's inputs a shape (sizes may stay dynamic)",
            )
        return found

    def rank(self, i: int) -> int:
        return len(self.dims(i))

    def size(self, i: int, axis: int, what: str = "size") -> int:
        """A dimension that must be a number, e.g. the channels of a convolution."""
        found = self.dims(i)[axis]
        if not isinstance(found, int):
            self.refuse(f"{self.node.op_type} with a dynamic {what} is not supported")
        return found

    def dtype(self, i: int) -> ir.DataType:
        return self._dtype(self.value(i), f"input {i}")

    def is_float(self, i: int) -> bool:
        return self.dtype(i).is_floating_point()

    # ---- outputs

    @property
    def outputs(self) -> int:
        return len(self.node.outputs)

    def used(self, j: int) -> bool:
        """Whether output j is read by a node or returned by the graph."""
        if j >= len(self.node.outputs):
            return False
        out = self.node.outputs[j]
        return bool(out.uses()) or out.is_graph_output()

    def out_dims(self, j: int = 0) -> tuple[Dim, ...]:
        found = self.shapes.dims(self.node.outputs[j])
        if found is None:
            self.refuse(f"the rank of {self.node.op_type}'s output {j} is unknown")
        return found

    def out_dtype(self, j: int = 0) -> ir.DataType:
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
        out = self.node.outputs[j]
        uses = list(out.uses())
        if out.is_graph_output() or len(uses) != 1:
            return None
        user = uses[0].node
        return user if user.graph is self.node.graph else None

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


@dataclass(frozen=True)
class Weight:
    """A parameter of a layer: a constant of the graph, converted when it is stored."""

    value: ir.Value
    convert: Callable[[np.ndarray], np.ndarray] | None = None
    how: str = ""  # names `convert`, e.g. "transposed": equal names mean equal results

    def array(self) -> np.ndarray:
        note_read(self.value.const_value)
        return self.glance()

    def glance(self) -> np.ndarray:
        """The array, for who decides nothing by its content (weight_access.py)."""
        assert self.value.const_value is not None
        array = glance(self.value.const_value)
        return array if self.convert is None else self.convert(array)


@dataclass(frozen=True, eq=False)
class ModuleForm:
    """An operator as a layer that owns its parameters, e.g. nn.Conv2d(3, 64, 7).

    `keywords` holds (value, default) pairs; a keyword at its default is not printed.
    `call(t, layer, *operands)` spells the use of the layer on the operands for
    `inputs`; the default is layer(x). `absorbs` are nodes whose work the layer does
    too (the Add of a bias); `outputs` are then the values the call gives. `source` is
    the class of a layer that is not PyTorch's own, to be copied like a helper.
    """

    layer: str
    positional: tuple[Any, ...]
    keywords: Mapping[str, tuple[Any, Any]]
    weights: Mapping[str, Weight]
    inputs: tuple[ir.Value, ...]
    outputs: tuple[ir.Value, ...]
    call: Callable[..., Any] | None = None
    absorbs: tuple[ir.Node, ...] = ()
    source: type | None = None


@dataclass(frozen=True)
class Case:
    """One test of an operator: NumPy inputs (None = absent) and attributes.

    `constants` are the positions given as initializers. Inputs are made from a seed by
    tests/; a shape stands for standard normal float32, an array for itself.
    """

    inputs: tuple[Any, ...]
    attrs: Mapping[str, Any]
    constants: tuple[int, ...] = ()
    outputs: int = 1


def case(
    *inputs: Any, constants: Sequence[int] = (), outputs: int = 1, **attrs: Any
) -> Case:
    return Case(inputs, attrs, tuple(constants), outputs)


Spelling = Callable[..., Any]


@dataclass(frozen=True)
class OpDef:
    """One operator in its newest spelling, and all that is said of it.

    `torch(t, n, *inputs)` is the spelling with two readings
    (analysis/spelling/expr.py). Of several outputs it returns the first alone when no
    other is used; else a tuple with None for what isn't, or one expression that gives
    all of them. `strings(t, n, *inputs)` is the same where some input or output is of
    strings, which are NumPy arrays of str objects: torch has none. `module(n)` gives
    the layer form, or None where it doesn't apply. `scalars` lists inputs that may be
    printed as Python numbers when they are constants of one element. `inlines` says
    that the result is cheap and clear enough to stand inside another expression.

    What an operator of ONNX's own domain leaves out follows from its mapping type
    (`_defaults`): elementwise operators broadcast, and take one operation per element.

    - `shape(node, *dims)`: sizes of the outputs; None leaves them to onnx, whose own
      inference `onnx_errs` in some cases.
    - `values(node, *elements)`: elements of small integer tensors;
      `by_index(node)`: of any, as functions of their place.
    - `flops`: arithmetic operations, for each element of the result or by a function.
    - `tile`: what it needs whole of its inputs. `pattern`: TVM's class of it.
    - `views`: the result looks at the memory of the first input.
    - `fresh`: the result is memory of its own, never an input or a view.
    - `traceable`: what it does depends on sizes and types, never on values.
    - `carries`: inputs whose elements, or some of them, come out unchanged.
    - `requires`: what elements of an input have to be like, by position.
    - `runs_until`: the last opset of whose version ONNX Runtime has a kernel, if there
      is a newer one that differs in element types or additions alone.
    """

    name: str
    since: int
    mapping: MappingType
    torch: Callable[..., Any] | None = None
    strings: Callable[..., Any] | None = None
    module: Callable[[NodeView], ModuleForm | None] | None = None
    domain: str = ""
    scalars: tuple[int, ...] = ()
    inlines: bool = True
    result: str = ""  # what a reader calls the result where nothing better is known
    shape: Callable[..., DimsResult] | None = None
    onnx_errs: bool = False
    values: Callable[..., ContentResult] | None = None
    by_index: index_functions.Rule | None = None
    flops: int | flop_counts.Count | None = None
    tile: Callable[[NodeFacts], TileNeeds | None] | None = None
    pattern: Pattern | None = None
    views: bool | None = None
    fresh: bool = False
    traceable: bool | None = None
    carries: Container[int] | None = None
    requires: Mapping[int, Requirement] = field(default_factory=dict)
    runs_until: int | None = None
    cases: Sequence[Case] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for name, default in _defaults(self).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)

    def count_flops(self, node: NodeFacts) -> Dim | None:
        """How many arithmetic operations a node takes; None where that is unknown."""
        if isinstance(self.flops, int):
            return flop_counts.per_result(self.flops)(node)
        return None if self.flops is None else self.flops(node)

    def takes(self, count: int) -> bool:
        """Whether the spelling can be called with so many operands."""
        if self.torch is None:
            return False
        try:
            signature(self.torch).bind(None, None, *[None] * count)
        except TypeError:
            return False
        return True


def _defaults(op: OpDef) -> Mapping[str, Any]:
    """What the mapping type implies for an operator of ONNX's own domain."""
    if op.domain:
        return {"views": False, "traceable": False, "carries": ()}
    moves = op.mapping in (REORGANIZE, SHUFFLE)
    return {
        "shape": broadcast_together if op.mapping is ONE_TO_ONE else None,
        "flops": 1 if op.mapping is ONE_TO_ONE else 0 if moves else None,
        "views": op.mapping is REORGANIZE,
        "traceable": op.mapping is not OPAQUE,
        "carries": (0,) if moves else (),
    }


def of_strings(node: ir.Node) -> bool:
    """Whether an input or output of a node is a tensor of strings."""
    values = [*node.inputs, *node.outputs]
    return any(v is not None and v.dtype == ir.DataType.STRING for v in values)


OPS: dict[tuple[str, str], OpDef] = {}
registered: list[OpDef] = []  # by users


def define(op: OpDef, override: bool = False) -> OpDef:
    """Enter an operator into the table; a second definition must say it overrides.

    A user's stays where the package of its domain loads after it. Raises ValueError
    for a second definition that doesn't override.
    """
    key = (op.domain, op.name)
    if OPS.get(key) in registered and not override:
        return op
    if key in OPS and not override:
        raise ValueError(
            f"{op.name} is defined twice; pass override=True to replace it"
        )
    OPS[key] = op
    return op


def lookup(node: ir.Node) -> OpDef | None:
    domain = "" if node.domain == "ai.onnx" else node.domain
    return OPS.get((domain, node.op_type))
