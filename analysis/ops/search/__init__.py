"""Steps of in-graph search."""

from . import decoding_steps  # noqa: F401
