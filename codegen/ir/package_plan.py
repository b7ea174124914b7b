"""The frozen plan: everything the templates see. The planner decides, emit prints."""

from __future__ import annotations

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


@dataclass
class SourceNodes:
    """What is behind one line, by instance of its class ('' is the network)."""

    nodes: dict[str, list[str]] = field(default_factory=dict)  # of the ONNX file
    calls: dict[str, list[str]] = field(default_factory=dict)  # modules, by their path


@dataclass(frozen=True)
class MethodPlan:
    """What forward calls: `body` are finished lines."""

    name: str
    arguments: tuple[ArgumentPlan, ...]
    returns: str
    body: tuple[str, ...]
    body_sources: tuple[SourceNodes, ...] = ()


@dataclass(frozen=True)
class ClassPlan:
    """One nn.Module: `members` are finished lines of __init__, `body` of forward."""

    name: str
    parameters: tuple[ArgumentPlan, ...]
    members: tuple[str, ...]
    arguments: tuple[ArgumentPlan, ...]
    returns: str
    body: tuple[str, ...]
    # What is behind each of these lines, for report.json.
    member_sources: tuple[SourceNodes, ...] = ()
    body_sources: tuple[SourceNodes, ...] = ()
    lanes: tuple[MethodPlan, ...] = ()
    forks: tuple[tuple[str, ...], ...] = ()  # what each lane of each fork calls


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
class PackagePlan:
    """`model.py`, top to bottom."""

    title: str
    source: SourcePlan
    inputs: tuple[TensorPlan, ...]
    outputs: tuple[TensorPlan, ...]
    input_table: tuple[str, ...]  # entries of INPUTS
    output_table: tuple[str, ...]
    nested: tuple[str, ...]  # entries of NESTED
    signature: tuple[str, ...]  # the lines of the docstring's table
    imports: tuple[str, ...]
    abstract: tuple[str, ...]  # of collections.abc
    helpers: tuple[str, ...]
    classes: tuple[ClassPlan, ...]
    network: str
    rewrites: str  # "-O1: 9 proven rules applied 120 times, as report.json lists"
    parameters: int
    constants: bool  # some are no parameters, and not in state_dict
    filled: bool  # some weights hold one value throughout and are stored as that
    ties: tuple[list[str], ...]  # keys of one parameter, the stored one first
    lanes: str = ""  # "2 side by side, ..."; "" without any
    lane_count: int = 0
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
    make: object  # () -> np.ndarray
    constant: bool = False  # no parameter of the original network
    weight: Weight | None = None  # that it stores; nothing is decided by its content
    path: MemberPath = ()  # "layers", Item(0), "fc", "weight", in the network's class
    origin: str = ""  # of a layer's matrix: the initializer that it was made of

    def array(self) -> np.ndarray:
        """The tensor as it is stored."""
        made = self.make()  # type: ignore[operator]
        assert isinstance(made, np.ndarray)
        return made


def shape_text(dims: tuple[Dim, ...] | tuple[int | str | None, ...] | None) -> str:
    """[batch, 3, 224, 224]; untrusted names are cut to a printable line."""
    if dims is None:
        return "[...]"
    inner = ", ".join("?" if d is None else one_line(str(d), 24) for d in dims)
    return f"[{inner}]"
