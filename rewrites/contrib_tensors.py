"""ONNX Runtime's own operators on tensors of any kind, spelled with ONNX's."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from .adapt import Site, extension
from .contrib import plain


@extension("Trilu", attrs="upper")
def trilu(site: Site) -> None:
    site.become("Trilu", site.inputs, **plain(site))


@extension("GatherND")
def gather_nd(site: Site) -> None:
    site.become("GatherND", site.inputs)


@extension("Range")
def range_(site: Site) -> None:
    """Each of the three may be a vector of one element."""
    bounds = [site.data, site.need(1), site.input(2)]
    scalars = [
        _scalar(site, x, name)
        for x, name in zip(bounds, ("start", "limit", "delta"), strict=True)
        if x is not None
    ]
    if len(scalars) == 2:
        if site.data.dtype is None:
            raise site.unsupported("the type of its bounds is unknown")
        scalars.append(site.constant("delta", np.array(1, site.data.dtype.numpy())))
    site.become("Range", scalars)


def _scalar(site: Site, x: ir.Value, name: str) -> ir.Value:
    if site.rank(x) == 0:
        return x
    return site.before("Reshape", [x, site.ints(f"{name}_shape", [])], name)


@extension("Unique")
def unique(site: Site) -> None:
    """In the order of first occurrence."""
    names = ("uniques", "first", "inverse", "counts")
    y, _, inverse, counts = site.parts("Unique", [site.data], names, sorted=0)
    for j, value in enumerate((y, inverse, counts)):
        site.give(j, value)


@extension("Pad", attrs="mode")
def pad(site: Site) -> None:
    pads, value = site.need(1), site.input(2)
    if site.rank(pads) == 2:
        pads = site.before("Reshape", [pads, site.ints("flat", [-1])], "pads")
    if value is not None:
        value = _scalar(site, value, "value")
    site.become("Pad", [site.data, pads, value], **plain(site))


@extension("ExpandDims")
def expand_dims(site: Site) -> None:
    axis = site.before("Cast", [site.need(1)], "axis", to=int(ir.DataType.INT64))
    axes = site.before("Reshape", [axis, site.ints("one", [1])], "axes")
    site.become("Unsqueeze", [site.data, axes])


_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@extension("GridSample", attrs="align_corners mode padding_mode")
def grid_sample(site: Site) -> None:
    mode = site.take_string("mode", "bilinear")
    options = plain(site) | {"mode": _MODES.get(mode, mode)}
    site.become("GridSample", site.inputs, **options)


# ---- what has no spelling in a module of tensors


@extension("WhisperBeamSearch", attrs=None)
def refused(site: Site) -> None:
    raise site.unsupported(
        "it is no function of tensors alone",
        "export the model that it calls, and write the loop over tokens beside it",
    )
