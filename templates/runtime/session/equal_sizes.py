"""Where operators need sizes to be equal that the file has several names for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..model import INPUTS
from ..ort_interface import invalid
from . import session

EQUAL_SIZES = [[("an input", 0)]]


class Session(session.Session):
    def under_settings(self, call: Callable[..., Any], feeds: Sequence[Any]) -> Any:
        """As everywhere, of inputs that fit: PyTorch's attention reads past the end."""
        fed = dict(zip(INPUTS, feeds, strict=True))
        for places in EQUAL_SIZES:
            sizes = {(name, axis): fed[name].shape[axis] for name, axis in places}
            if len({*sizes.values()}) > 1:
                raise invalid(f"sizes of (input, axis) must be equal: {sizes}")
        return super().under_settings(call, feeds)
