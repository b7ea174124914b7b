"""Operators as layers that own their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph.weight_access import glance, note_read
from ..spelling.expr import Expr, Name


def unusual(keywords: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """The keywords, of (value, default) pairs, that are not at their defaults."""
    return {name: value for name, (value, usual) in keywords.items() if value != usual}


@dataclass(frozen=True)
class Weight:
    """A parameter of a layer: a constant of the graph, converted when it is stored."""

    value: ir.Value
    convert: Callable[[np.ndarray], np.ndarray] | None = None
    how: str = ""  # names `convert`, e.g. "transposed": equal names mean equal results

    def array(self) -> np.ndarray:
        """The array as it is stored; the cache notes that its content was read."""
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

    def constructed(self) -> Expr:
        """The call that makes the layer."""
        return Name(self.layer)(*self.positional, **unusual(self.keywords))
