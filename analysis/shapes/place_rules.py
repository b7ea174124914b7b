"""What index functions are made of, for the engine."""

from __future__ import annotations

from ..ops.facts.index_functions import Count, Natural

__all__ = ["Count", "Natural"]
