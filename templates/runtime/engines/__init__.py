"""engines.py of a package: base.py, and what else its network calls for."""

from .base import make_engine

__all__ = ["make_engine"]
