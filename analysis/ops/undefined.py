"""What is required of inputs by operators that have no OpDef.

They hold other operators, are lowered, or belong to opsets that are brought to a newer
one; a model is looked at before any of that.
"""

from __future__ import annotations

from collections.abc import Mapping

from .facts.requirements import Between, IndexOf, Requirement
from .registry import DOMAIN

REQUIRES: Mapping[tuple[str, str], Mapping[int, Requirement]] = {
    ("", "Loop"): {0: Between(1, 4)},
    ("", "Scatter"): {1: IndexOf(0, "axis")},
    ("ai.onnx.ml", "ArrayFeatureExtractor"): {1: IndexOf(0, -1)},
    (DOMAIN, "EmbedLayerNormalization"): {0: IndexOf(2), 1: IndexOf(4), 8: IndexOf(3)},
    (DOMAIN, "RotaryEmbedding"): {1: IndexOf(2)},
}
