"""The frozen plan: all that templates see. make_plan.py fills it in, emit prints it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from ...analysis.graph.dims import Dim
from ...analysis.literals import one_line
from ...analysis.ops.module_form import Weight


@dataclass(frozen=True)
class ArgumentPlan:
    """One argument of a method, as source; no default is ""."""

    name: str
    annotation: str
    default: str = ""

    def __str__(self) -> str:
        """As it stands behind `self`: ", depth: int = 3"."""
        default = f" = {self.default}" if self.default else ""
        return f", {self.name}: {self.annotation}{default}"


@dataclass
class SourceNodes:
    """What is behind one line, by instance of its class ('' is the network)."""

    nodes: dict[str, list[str]] = field(default_factory=dict)  # of the ONNX file
    calls: dict[str, list[str]] = field(default_factory=dict)  # modules, by their path


@dataclass(frozen=True)
class MethodPlan:
    """A method: `body` are finished lines, `sources` what is behind each."""

    name: str
    arguments: tuple[ArgumentPlan, ...]
    returns: str
    body: tuple[str, ...]
    sources: tuple[SourceNodes, ...] = ()


@dataclass(frozen=True)
class ClassPlan:
    """One nn.Module: `constructor` is its own part of __init__, without super's."""

    name: str
    constructor: MethodPlan
    forward: MethodPlan
    lanes: tuple[MethodPlan, ...] = ()
    forks: tuple[tuple[str, ...], ...] = ()  # what each lane of each fork calls
    named: str = ""  # the class that the file says of all its calls

    @property
    def methods(self) -> tuple[MethodPlan, ...]:
        """All of them, in the order of the page."""
        return self.constructor, self.forward, *self.lanes


@dataclass(frozen=True)
class TensorPlan:
    """An input or output of the model, under its ONNX name (untrusted text)."""

    name: str
    dtype: str  # NumPy's name, or ONNX's type of what is no tensor: seq(float32)
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class SourcePlan:
    """Where the module came from; every text is one printable ASCII line."""

    file: str
    opset: int
    nodes: int
    sha256: str
    version: str


@dataclass(frozen=True)
class InterfacePlan:
    """What model.py takes and returns: as data, and as lines of its page."""

    inputs: tuple[TensorPlan, ...]
    outputs: tuple[TensorPlan, ...]
    input_table: tuple[str, ...]  # entries of INPUTS
    output_table: tuple[str, ...]
    nested: tuple[str, ...]  # entries of NESTED
    signature: tuple[str, ...]  # the lines of the docstring's table
    equal_sizes: str = ""  # entries of EQUAL_SIZES

    @property
    def tensors(self) -> tuple[TensorPlan, ...]:
        """Inputs, then outputs."""
        return self.inputs + self.outputs


@dataclass(frozen=True)
class StatePlan:
    """What load() has to know of the tensors in weights.safetensors."""

    parameters: int  # how many numbers they are
    constants: bool  # some are no parameters, and not in state_dict
    unwritten: bool  # the constructor reads constants from the file
    filled: bool  # some hold one value throughout and are stored as that
    ties: tuple[list[str], ...]  # keys of one tensor, the stored one first
    two_names: bool  # some modules have


@dataclass(frozen=True)
class PackagePlan:
    """`model.py`, top to bottom."""

    title: str
    source: SourcePlan
    rewrites: str  # "-O1: 9 proven rules applied 120 times, as report.json lists"
    interface: InterfacePlan
    helpers: tuple[str, ...]
    classes: tuple[ClassPlan, ...]
    network: str  # the name of its class
    state: StatePlan
    lanes: int = 0  # how many stand side by side; 0 without any
    kernels: tuple[str, ...] = ()  # functions of kernels.py that forward calls


class Variable(str):
    """The variable of a loop, in the place of a key."""


class Item(NamedTuple):
    """`[key]` in a path: a place in a list, the key of a dictionary, a variable."""

    key: int | str


# From the network to what it owns, by attributes and items.
MemberPath: TypeAlias = tuple[str | Item, ...]


def path_text(path: MemberPath) -> str:
    """self.layers[0].fc.weight"""
    text = "self"
    for part in path:
        if isinstance(part, str):
            text += f".{part}"
        elif isinstance(part.key, str) and not isinstance(part.key, Variable):
            text += f'["{part.key}"]'
        else:
            text += f"[{part.key}]"
    return text


@dataclass(frozen=True)
class WeightPlan:
    """One tensor of weights.safetensors, made when it is written."""

    key: str
    make: Callable[[], np.ndarray]
    constant: bool = False  # no parameter of the original network
    weight: Weight | None = None  # that it stores; nothing is decided by its content
    path: MemberPath = ()  # "layers", Item(0), "fc", "weight", in the network's class
    origin: str = ""  # of a parameter: the one initializer that it was made of
    layer: tuple[object, ...] = ()  # of PyTorch's, that has it: its constructor call

    def array(self) -> np.ndarray:
        """The tensor as it is stored."""
        return self.make()


def shape_text(dims: tuple[Dim | str | None, ...] | None) -> str:
    """[batch, 3, 224, 224]; untrusted names are cut to a printable line."""
    if dims is None:
        return "[...]"
    inner = ", ".join("?" if d is None else one_line(str(d), 24) for d in dims)
    return f"[{inner}]"
