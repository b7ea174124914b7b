"""Which denotation an operator of the laws has.

A meaning takes the context, a tensor per input (None where one is left out) and the
parameters by the names of the vocabulary: an Int as an integer, an Fn, Perm, Axes or
Sizes as functions of the position, a Real as a scalar, words as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

Meaning: TypeAlias = Callable[..., Any]
M = TypeVar("M", bound=Meaning)

MEANINGS: dict[str, Meaning] = {}


def means(*names: str) -> Callable[[M], M]:
    """Enter a function as the meaning of an operator."""

    def register(meaning: M) -> M:
        for name in names:
            if name in MEANINGS:
                raise ValueError(f"{name} has two meanings")
            MEANINGS[name] = meaning
        return meaning

    return register
