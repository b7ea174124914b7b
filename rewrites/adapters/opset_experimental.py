"""Operators that ONNX tried out before opset 10, in the words of those that stayed.

Converters of Core ML models wrote them, and ONNX Runtime runs them still. No version of
onnx that is in use lists them.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from .opset_adapters import AdapterSite, adapter, extension

OLD = "consumed_inputs"  # said once which inputs may be overwritten; it changes nothing


def _number(
    site: AdapterSite, name: str, default: float | None = None
) -> ir.Value | None:
    """An attribute as a constant of the data's type; None if it is its default."""
    if default is None and name not in site.node.attributes:
        raise site.unsupported(f"it needs the attribute {name!r}")
    found = site.take_float(name, 0.0 if default is None else default)
    if found == default:
        return None
    return site.constant(name, _cast(site, np.array(found, np.float32)))


def _cast(site: AdapterSite, array: np.ndarray) -> np.ndarray:
    if site.data.dtype is None:
        raise site.unsupported("the type of its input is unknown")
    return array.astype(site.data.dtype.numpy())


def _scaled(
    site: AdapterSite, x: ir.Value, factor: ir.Value | None, word: str
) -> ir.Value:
    return x if factor is None else site.before("Mul", [x, factor], word)


@extension("Affine", attrs=f"alpha beta {OLD}", domain="")
def _affine(site: AdapterSite) -> None:
    x = _scaled(site, site.data, _number(site, "alpha", 1.0), "scaled")
    beta = _number(site, "beta", 0.0)
    site.become(
        "Identity" if beta is None else "Add", [x] if beta is None else [x, beta]
    )


@extension("Scale", attrs=f"scale {OLD}", domain="")
def _scale(site: AdapterSite) -> None:
    factor = _number(site, "scale", 1.0)
    operands = [site.data] if factor is None else [site.data, factor]
    site.become("Identity" if factor is None else "Mul", operands)


@extension("ParametricSoftplus", "ScaledTanh", attrs=f"alpha beta {OLD}", domain="")
def _scaled_function(site: AdapterSite) -> None:
    kind = site.node.op_type.removeprefix("Parametric").removeprefix("Scaled")
    alpha, beta = _number(site, "alpha"), _number(site, "beta")
    inner = _scaled(site, site.data, beta, "scaled")
    site.become("Mul", [site.before(kind, [inner], kind.lower()), alpha])


@extension("ImageScaler", attrs=f"bias scale {OLD}", domain="")
def image_scaler(site: AdapterSite) -> None:
    """A factor for the image, and a number to be added to each channel."""
    x = _scaled(site, site.data, _number(site, "scale", 1.0), "scaled")
    bias = site.take("bias")
    if bias is None:
        raise site.unsupported("it needs the attribute 'bias'")
    channels = np.array(list(bias.as_floats()), np.float32).reshape(-1, 1, 1)
    site.become("Add", [x, site.constant("bias", _cast(site, channels))])


@extension("Crop", attrs=f"border scale {OLD}", domain="")
def crop(site: AdapterSite) -> None:
    """Without its borders, left, top, right, bottom; or so many rows and columns."""
    left, top, right, bottom = site.take_ints("border") or [-1] * 4
    starts, scale = [top, left], site.take_ints("scale")
    ends = [-bottom or 2**31 - 1, -right or 2**31 - 1]
    if scale is not None:
        rows, columns = scale
        ends = [top + rows, left + columns]
    if min(*starts, bottom, right, *(scale or ())) < 0:
        raise site.unsupported("no borders, or a size below 0")
    spans = [("starts", starts), ("ends", ends), ("axes", [2, 3])]
    bounds = [site.ints(name, numbers) for name, numbers in spans]
    site.become("Slice", [site.data, *bounds])


@extension("DynamicSlice", domain="", types=False)
def _dynamic_slice(site: AdapterSite) -> None:
    site.become("Slice", site.inputs)


@adapter("LayerNormalization", until=16)
@adapter("ThresholdedRelu", until=9)
def as_later(site: AdapterSite) -> None:
    """What ONNX Runtime calls so means what ONNX has called so since."""


@adapter("MeanVarianceNormalization", until=8, types=True)
def early_mean_variance(site: AdapterSite) -> None:
    """Over all channels or within each; the deviation may stay as it is."""
    axes = [0, 1, 2, 3] if site.take_int("across_channels", 0) else [0, 2, 3]
    if site.take_int("normalize_variance", 1):
        site.set("axes", axes)
        return
    over = site.ints("axes", [axis for axis in axes if axis < site.rank(site.data)])
    mean = site.before("ReduceMean", [site.data, over], "mean")
    site.become("Sub", [site.data, mean])
