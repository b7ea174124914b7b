"""The operator table. CONTRIBUTING.md shows an entry, which is all that it takes.

Emission, tests, the documentation table and the list of what is unsupported all iterate
over the table. Only the newest spelling of an operator is defined here;
rewrites/normalise.py brings older opsets to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from inspect import signature
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import onnx_ir as ir

from ..graph.dims import Dim
from ..graph.shape_facts import ContentResult, DimsResult, NodeFacts
from .facts import (
    cuts,
    fitting_sizes,
    flop_counts,
    index_functions,
    index_maps,
    sizes_elementwise,
    sizes_movement,
    sizes_windows,
    small_values,
    tiles,
)
from .facts.fitting_sizes import Fits
from .facts.index_maps import IndexMap
from .facts.requirements import Between, IndexOf, Requirement
from .facts.tiles import TileNeeds
from .module_form import ModuleForm
from .node_view import NodeView

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


ONE_TO_ONE = MappingType.ONE_TO_ONE
ONE_TO_MANY = MappingType.ONE_TO_MANY
MANY_TO_MANY = MappingType.MANY_TO_MANY
REORGANIZE = MappingType.REORGANIZE
SHUFFLE = MappingType.SHUFFLE
OPAQUE = MappingType.OPAQUE


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

    What an operator of ONNX's own domain leaves out is the function of its name in
    facts/ (`_of_its_name`), or else follows from its mapping type (`_defaults`):
    elementwise operators broadcast, and take one operation per element.

    Functions that end with `*dims` take the sizes of as many leading inputs as they
    have parameters for, and aren't asked where one is unknown.

    - `shape(node, *dims)`: sizes of the outputs; None leaves them to onnx, whose own
      inference `onnx_errs` in some cases.
    - `index_map(node, *dims)`: of what the results are put together, where elements are
      only moved; `shape`, `values`, `by_index`, `cut` and others are derived from it.
    - `values(node, *elements)`: elements of small integer tensors;
      `by_index(node)`: of any, as functions of their place.
    - `flops`: arithmetic operations, for each element of the result, or
      `flops(node, *dims)`.
    - `tile(node, *dims)`: what it needs whole of its inputs.
    - `cut(node, results, *dims)`: along which axes parts of it are computed from parts
      (facts/cuts.py).
    - `views`: the result looks at the memory of the first input.
    - `fresh`: the result is memory of its own, never an input or a view.
    - `traceable`: what it does depends on sizes and types, never on values.
    - `carries`: inputs whose elements, or some of them, come out unchanged.
    - `requires`: what elements of an input have to be like, by position.
    - `fits(node, *dims)`: what sizes of inputs have to be to each other.
    - `coarse`: the inputs to widen to float64, where ONNX Runtime's float32 is coarse.
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
    results: tuple[str, ...] = ()  # and of several those behind the first
    shape: Callable[..., DimsResult] | None = None
    onnx_errs: bool = False
    index_map: IndexMap | None = None
    values: Callable[..., ContentResult] | None = None
    by_index: index_functions.Rule | None = None
    flops: int | flop_counts.Count | None = None
    tile: Callable[..., TileNeeds | None] | None = None
    cut: cuts.Rule | None = None
    views: bool | None = None
    fresh: bool = False
    traceable: bool | None = None
    carries: Container[int] | None = None
    requires: Mapping[int, Requirement] = field(default_factory=dict)
    fits: Fits | None = None
    coarse: tuple[int, ...] = ()
    runs_until: int | None = None

    def __post_init__(self) -> None:
        for name, default in _defaults(self).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)

    def count_flops(self, node: NodeFacts) -> Dim | None:
        """How many arithmetic operations a node takes; None where that is unknown."""
        if isinstance(self.flops, int):
            return flop_counts.per_result(self.flops)(node)
        return None if self.flops is None else node.ask(self.flops)

    def takes(self, count: int) -> bool:
        """Whether the spelling can be called with so many operands."""
        if self.torch is None:
            return False
        try:
            signature(self.torch).bind(None, None, *[None] * count)
        except TypeError:
            return False
        return True


# Where the facts of each kind stand.
_FACTS: Mapping[str, tuple[ModuleType, ...]] = {
    "shape": (sizes_elementwise, sizes_movement, sizes_windows),
    "index_map": (index_maps,),
    "values": (small_values,),
    "by_index": (index_functions,),
    "flops": (flop_counts,),
    "tile": (tiles,),
    "cut": (cuts,),
    "fits": (fitting_sizes,),
}


def _of_its_name(operator: str, modules: tuple[ModuleType, ...]) -> Any:
    """The fact that is called as an operator: gather_nd, or range_ beside Python's."""
    word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operator).lower()
    found = (vars(m).get(name) for m in modules for name in (word, f"{word}_"))
    own = {module.__name__ for module in modules}
    return next((f for f in found if getattr(f, "__module__", "") in own), None)


def _defaults(op: OpDef) -> Mapping[str, Any]:
    """What the name and the mapping type of an operator of ONNX's own domain imply."""
    if op.domain:
        return {"views": False, "traceable": False, "carries": ()}
    moves = op.mapping in (REORGANIZE, SHUFFLE)
    named = {kind: _of_its_name(op.name, modules) for kind, modules in _FACTS.items()}
    index_map = op.index_map or named["index_map"]
    together = sizes_elementwise.broadcast_together
    shape = together if op.mapping is ONE_TO_ONE and index_map is None else None
    broadcasts = shape is not None and (op.shape or named["shape"]) in (None, shape)
    implied: dict[str, Any] = {
        "shape": shape,
        "fits": fitting_sizes.together if broadcasts else None,
        "flops": 1 if op.mapping is ONE_TO_ONE else 0 if moves else None,
        "views": op.mapping is REORGANIZE,
        "traceable": op.mapping is not OPAQUE,
        "carries": (0,) if moves else (),
        "cut": cuts.elementwise if broadcasts else None,
    }
    if index_map is not None:
        implied |= _derived(index_map)
    return implied | {kind: fact for kind, fact in named.items() if fact is not None}


@cache
def _derived(index_map: IndexMap) -> Mapping[str, Any]:
    """What is true of an operator that only moves elements, where it reads them so."""
    return {
        "shape": index_maps.sizes(index_map),
        "values": small_values.followed(index_map),
        "by_index": index_functions.followed(index_map),
        "cut": cuts.followed(index_map),
        "flops": 0,
        "carries": (0,),
    }


# What is required of inputs by operators that have no OpDef: they hold others, are
# lowered, or belong to opsets that are brought to a newer one; a model is looked at
# before any of that.
REQUIRES: Mapping[tuple[str, str], Mapping[int, Requirement]] = {
    ("", "Loop"): {0: Between(1, 4)},
    ("", "Scatter"): {1: IndexOf(0, "axis")},
    ("ai.onnx.ml", "ArrayFeatureExtractor"): {1: IndexOf(0, -1)},
    (DOMAIN, "EmbedLayerNormalization"): {0: IndexOf(2), 1: IndexOf(4), 8: IndexOf(3)},
    (DOMAIN, "RotaryEmbedding"): {1: IndexOf(2)},
}
OPS: dict[tuple[str, str], OpDef] = {}
registered: dict[tuple[str, str], OpDef] = {}  # by users

# What is true of an operator however it is spelled.
_OF_THE_OPERATOR = (
    "shape onnx_errs index_map values by_index flops tile cut carries requires"
    " coarse runs_until"
).split()


def define(op: OpDef) -> OpDef:
    """Enter a built-in operator into the table, and return what stands there.

    A user's stays where the package of its domain loads after it. Raises ValueError
    for a second definition.
    """
    key = (op.domain, op.name)
    if key in OPS and key not in registered:
        raise ValueError(f"{op.name} is defined twice")
    OPS[key] = _completed(registered[key], op) if key in registered else op
    return OPS[key]


_Facts = ParamSpec("_Facts")
_Spelling = TypeVar("_Spelling", bound=Spelling)


def _decorator(
    made: Callable[_Facts, OpDef],
) -> Callable[_Facts, Callable[[_Spelling], _Spelling]]:
    def facts(
        *args: _Facts.args, **options: _Facts.kwargs
    ) -> Callable[[_Spelling], _Spelling]:
        def enter(spelling: _Spelling) -> _Spelling:
            define(replace(made(*args, **options), torch=spelling))
            return spelling

        return enter

    return facts


# Takes what OpDef does, and enters the function below it as the spelling `torch`.
operator = _decorator(OpDef)


def register(op: OpDef) -> OpDef:
    """Enter a user's operator, and return what stands in the table.

    One of a built-in operator's name takes its place, with its own spelling and all
    that hangs on it (`torch`, `strings`, `module`, `views`, `fresh`, `traceable` ...).
    What it leaves out of the facts that hold for every spelling (`shape`, `values`,
    `flops`, `tile`, `requires` ...) stays as the built-in one has it.
    """
    key = (op.domain, op.name)
    registered[key] = op
    OPS[key] = _completed(op, OPS[key]) if key in OPS else op
    return OPS[key]


def _completed(op: OpDef, built_in: OpDef) -> OpDef:
    """A user's definition, with the facts of the built-in one that it leaves out."""
    bare = OpDef(op.name, op.since, op.mapping, domain=op.domain)
    left_out = (f for f in _OF_THE_OPERATOR if getattr(op, f) == getattr(bare, f))
    return replace(op, **{name: getattr(built_in, name) for name in left_out})


def lookup(node: ir.Node) -> OpDef | None:
    """The entry of a node's operator; None where there is none."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    return OPS.get((domain, node.op_type))
