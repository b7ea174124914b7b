"""A part of a graph of which is known what it computes."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ..language.operators.read_write import Draft, Input, Output


@dataclass(frozen=True)
class Recognition:
    """Nodes, the one that computes the result first, the drafts that compute the same,
    if any, of `source`, and what was found to be equal."""

    name: str
    nodes: tuple[ir.Node, ...]
    drafts: tuple[Draft, ...]
    evidence: str
    source: ir.Value | None = None
    measure: str = "weight"  # that it is less by

    @property
    def root(self) -> ir.Value:
        """What is computed."""
        return self.nodes[0].outputs[0]

    @property
    def result(self) -> Input:
        """What is to take its place."""
        return Output(self.drafts[-1]) if self.drafts else self.source
