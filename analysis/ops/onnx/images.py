"""ImageDecoder, for which the emitted module needs Pillow."""

from __future__ import annotations

from typing import Any

from ..helpers import images as helpers
from ..node_view import NodeView
from ..registry import OPAQUE, operator

_FORMATS: dict[str, dict[str, Any]] = {
    "RGB": {},
    "BGR": {"reverse": True},
    "Grayscale": {"mode": "L"},
}


@operator("ImageDecoder", since=20, mapping=OPAQUE, result="image")
def _decode(t: Any, n: NodeView, data: Any) -> Any:
    name = n.attr("pixel_format", "RGB")
    if name not in _FORMATS:
        n.refuse(f"ImageDecoder with pixel format {name!r} is not supported")
    return t.helper(helpers.decode_image)(data, **_FORMATS[name])
