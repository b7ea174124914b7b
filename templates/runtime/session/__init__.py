"""session.py of a package: session.py here, and what else its values call for."""

from .session import Session

__all__ = ["Session"]
