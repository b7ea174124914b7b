"""Layers side by side that become one layer, with their biases.

Before those without: a product that has been merged leaves its parts' biases behind.
"""

from __future__ import annotations

from .horizontal_fusion import BIASED

RULES = BIASED
