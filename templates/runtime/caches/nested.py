"""Where forward takes or returns lists: NESTED of model.py."""

from __future__ import annotations

from ..session.nested import flat_network
from .caches import Network


def flat(model: Network) -> Network:
    """What takes inputs in the order of INPUTS, and returns them in that of OUTPUTS."""
    return flat_network(model)
