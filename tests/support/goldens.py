"""The goldens: one model for each kind of network, and where their texts are kept."""

from __future__ import annotations

from pathlib import Path

from support.golden_images import IMAGES
from support.golden_sequences import SEQUENCES

GOLDENS = Path(__file__).parents[1] / "goldens"
MODELS = {**IMAGES, **SEQUENCES}
