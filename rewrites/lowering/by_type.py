"""Lowerings: operators that are spelled as arithmetic once types are known.

A scaler is a subtraction and a product, a linear model a Gemm, an SVM a kernel and a
Gemm. Spelled so, they read as what they are, and the rules for them apply. Where the
specification is silent, ONNX Runtime's kernels are followed. What is no arithmetic,
such as a tree or a table of words, keeps its operator
(analysis/ops/ml/labels_and_maps.py). Gradient becomes arithmetic in the same way.

An extension (opset_adapters.py) changes its node in place, once, whatever the model's
opset. A lowering asks for types that onnx can tell only behind the lowerings before it,
and onnx is asked again and again: for that every other node must be in its newest
spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from ...analysis.errors import MALFORMED, malformed
from ...analysis.graph.traversal import all_nodes
from ...analysis.ops.registry import OWN
from ..adapters.opset_adapters import TARGET_OPSET, AdapterSite
from ..adapters.unique_names import UniqueNames

ML = "ai.onnx.ml"

# Gives the new value of each output, None for one that the node leaves out.
Lowering = Callable[["LoweringSite"], Sequence[ir.Value]]


LOWERINGS: dict[tuple[str, str], Lowering] = {}


def lowering(op: str, domain: str = ML) -> Callable[[Lowering], Lowering]:
    """Register the function for an operator."""

    def register(apply: Lowering) -> Lowering:
        LOWERINGS[domain, op] = apply
        return apply

    return register


class LoweringSite(AdapterSite):
    """A node of ai.onnx.ml that is about to be replaced."""

    def floats(self, name: str) -> np.ndarray:
        """A list of floats; of length 0 if it is left out."""
        return np.array(self.node.attributes.get_floats(name, ()), np.float32)

    def integers(self, name: str) -> np.ndarray:
        """An attribute of integers, empty if absent; shape [n]."""
        return np.array(self.node.attributes.get_ints(name, ()), np.int64)

    def words(self, name: str) -> list[str]:
        """An attribute of strings; empty if absent."""
        return list(self.node.attributes.get_strings(name, ()))

    def text(self, name: str, default: str) -> str:
        """An attribute that is a string."""
        return self.node.attributes.get_string(name, default)

    def integer(self, name: str, default: int) -> int:
        """An attribute that is an integer."""
        return self.node.attributes.get_int(name, default)

    @property
    def data_rank(self) -> int:
        """The rank of the data: 2 where nothing else is known, rows of features."""
        return 2 if self.data.shape is None else len(self.data.shape)

    def labels(self, suffix: str, labels: Sequence[int] | Sequence[str]) -> ir.Value:
        """A new initializer of integers or strings."""
        if not isinstance(labels[0], str):
            return self.constant(suffix, np.array(labels, np.int64))
        name = self._names.value(f"{self.node.name}_{suffix}")
        shape, words = ir.Shape([len(labels)]), [str(w).encode() for w in labels]
        tensor = ir.StringTensor(words, shape=shape, name=name)
        value = ir.val(name, const_value=tensor)
        self._main.register_initializer(value)
        return value

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """The value in another type, or itself."""
        if value.dtype == dtype:
            return value
        return self.before("Cast", [value], dtype.name.lower(), to=dtype.value)

    def encoder(self, attributes: dict[str, object]) -> ir.Value:
        """A LabelEncoder of the newest version on the data."""
        made = self.before("LabelEncoder", [self.data], "codes", **attributes)
        node = made.producer()
        assert node is not None
        node.domain, made.type = ML, self.node.outputs[0].type
        made.shape = self.data.shape
        return made

    def rows(self, value: ir.Value | None = None) -> ir.Value:
        """The data as float32 rows; a list of features is one row."""
        found = self.cast(value or self.data, ir.DataType.FLOAT)
        if self.data_rank == 1:
            return self.before("Reshape", [found, self.ints("row", [1, -1])], "row")
        if self.data_rank != 2:
            raise self.unsupported("data that is neither a row nor rows of features")
        return found


def lower(model: ir.Model, names: UniqueNames, infer: Callable[[], None]) -> None:
    """Replace the nodes of ai.onnx.ml that have a lowering.

    `infer` fills in types. onnx tells none behind some operators, so that it is asked
    again where a type is missing.
    """
    imports = model.graph.opset_imports
    version = imports.get(ML, 1)
    waiting = [n for n in all_nodes(model.graph) if (n.domain, n.op_type) in LOWERINGS]
    if waiting:
        # The newest forms that the lowered nodes are spelled in.
        imports.update({ML: max(version, 4), OWN: 1, "": TARGET_OPSET})
    while waiting:
        infer()
        ready = [n for n in waiting if n.inputs[0] is None or n.inputs[0].dtype]
        for node in ready or waiting[:1]:
            _replace(LoweringSite(node, node.version or version, model.graph, names))
        done = set(ready or waiting[:1])
        waiting = [n for n in waiting if n not in done]


def _replace(site: LoweringSite) -> None:
    node = site.node
    try:
        made = LOWERINGS[node.domain, node.op_type](site)
    except MALFORMED as error:  # such as bytes that are no text
        raise site.unsupported(malformed(error)) from None
    for old, new in zip(node.outputs, made, strict=False):
        if new.producer() is None or new.is_graph_output() or new.uses():
            new = site.before("Identity", [new], "copy")
        if old.type is None:
            old.type = new.type
        new.type, new.shape = new.type or old.type, new.shape or old.shape
        name = old.name
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        old.name, new.name = f"{new.name}", name
    assert node.graph is not None
    node.graph.remove(node, safe=True)
