"""Cases of analysis/ops/onnx/images.py."""

from __future__ import annotations

import numpy as np
from support.operator_cases import case, cases

_PPM = np.frombuffer(b"P6 3 2 255\n" + bytes(range(0, 180, 10)), np.uint8)
cases(
    "ImageDecoder",
    case(_PPM),
    *[case(_PPM, pixel_format=name) for name in ("RGB", "BGR", "Grayscale")],
)
