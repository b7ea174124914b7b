"""Signal processing: DFT, STFT, MelWeightMatrix and the windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from ..facts import sizes_windows
from ..helpers import signal as helpers
from ..node_view import NodeView
from ..operands import front
from ..registry import MANY_TO_MANY, OPAQUE, operator
from .creation import scalar

# ---- windows

_ALPHA = 25 / 46  # of the Hamming window, which PyTorch rounds to 0.54


def _window(name: str, **options: float) -> Callable[..., Any]:
    def spell(t: Any, n: NodeView, size: Any) -> Any:
        periodic = bool(n.attr("periodic", 1))
        dtype = n.out_dtype()
        double = dtype == ir.DataType.DOUBLE
        given = {"periodic": periodic, **options} if options or not periodic else {}
        if double:  # ONNX Runtime has coefficients of single precision all the same
            given |= {word: float(np.float32(x)) for word, x in options.items()}
            given["dtype"] = t.float64
        make, count = getattr(t, name), scalar(n, 0, size)
        if periodic and n.ints(0) is None:  # PyTorch's own of one sample is 1
            made = make(count + 1, **given | {"periodic": False}, device=t.device)[:-1]
        else:
            made = make(count, **given, device=t.device)
        return made if double or dtype == ir.DataType.FLOAT else made.to(t.dtype(dtype))

    return spell


def _blackman(t: Any, n: NodeView, size: Any) -> Any:
    if n.out_dtype() == ir.DataType.DOUBLE:
        n.refuse(
            "BlackmanWindow in double precision is not supported",
            "cast one of float32: ONNX Runtime's coefficients are of single precision",
        )
    return _window("blackman_window")(t, n, size)


for _name, _spelling in (
    ("BlackmanWindow", _blackman),
    ("HannWindow", _window("hann_window")),
    ("HammingWindow", _window("hamming_window", alpha=_ALPHA, beta=1 - _ALPHA)),
):
    operator(
        _name,
        since=17,
        mapping=OPAQUE,
        shape=sizes_windows.window_function,
        result="window",
    )(_spelling)


# ---- transforms


@operator("DFT", since=20, mapping=MANY_TO_MANY, traceable=False, coarse=(0,))
def _dft(t: Any, n: NodeView, x: Any, length: Any = None, axis: Any = None) -> Any:
    dim = -2 if axis is None else scalar(n, 2, axis)
    if isinstance(dim, int):
        dim = front(dim, n.rank(0))
    options: dict[str, Any] = {}
    if length is not None:
        options["length"] = scalar(n, 1, length)
    options |= {name: True for name in ("inverse", "onesided") if n.attr(name, 0)}
    return t.helper(helpers.dft)(x, dim, **options)


@operator(
    "STFT",
    since=17,
    mapping=MANY_TO_MANY,
    onnx_errs=True,
    coarse=(0, 2),
    traceable=False,
)
def _stft(
    t: Any, n: NodeView, x: Any, step: Any, window: Any = None, length: Any = None
) -> Any:
    if length is not None:
        count = scalar(n, 3, length)
    elif window is not None:
        count = window.shape[0]
    else:
        n.refuse("STFT needs a window or the length of a frame")
    options: dict[str, Any] = {} if window is None else {"window": window}
    if not n.attr("onesided", 1):
        options["onesided"] = False
    return t.helper(helpers.stft)(x, scalar(n, 1, step), count, **options)


@operator(
    "MelWeightMatrix", since=17, mapping=OPAQUE, shape=sizes_windows.mel_weight_matrix
)
def _mel(t: Any, n: NodeView, *operands: Any) -> Any:
    numbers = [scalar(n, i, operand) for i, operand in enumerate(operands)]
    made = t.helper(helpers.mel_weight_matrix)(*numbers, t.device)
    dtype = n.out_dtype()
    return made if dtype == ir.DataType.FLOAT else made.to(t.dtype(dtype))
