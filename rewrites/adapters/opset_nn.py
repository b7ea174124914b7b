"""Adapters for normalisations, softmax and resampling, whose meaning changed."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from .opset_adapters import AdapterSite, adapter, constant_array


@adapter("Softmax", "LogSoftmax", "Hardmax", until=12, types=True)
def softmax(site: AdapterSite) -> None:
    """All axes from `axis` on used to count as one; now it is `axis` alone.

    The two agree when at most one of those axes is longer than 1. Otherwise, or if the
    shape is not known, the axes are made one and put back.
    """
    axis = site.take_int("axis", 1)
    shape = site.data.shape
    if shape is not None and -len(shape) <= axis < len(shape):
        axis %= len(shape)
        longer = [i for i in range(axis, len(shape)) if shape[i] != 1]
        if len(longer) <= 1:
            site.set("axis", longer[0] if longer else axis)
            return
    if shape is not None and not -len(shape) <= axis <= len(shape):
        raise site.unsupported(f"axis {axis} is outside a tensor of rank {len(shape)}")
    data = site.data
    site.set("axis", -1)
    site.set_inputs([site.before("Flatten", [data], "flat", axis=axis)])
    size = site.before("Shape", [data], "shape")
    site.after("Reshape", lambda y: [y, size], "flat", allowzero=1)


@adapter("BatchNormalization", until=13)
def batch_normalization(site: AdapterSite) -> None:
    """Training was a matter of how many outputs there are; `spatial` is gone.

    With spatial=0, every element of a sample counted as a channel.
    """
    if any(output.name for output in site.node.outputs[1:]):
        raise site.unsupported(
            "training mode is not supported (the node has more than one output)",
            "export the model in evaluation mode",
        )
    site.node.resize_outputs(1)
    if site.take_int("spatial", 1) == 1 or site.version >= 9:
        return
    data, flat = site.data, site.ints("flat", [-1])
    size = site.before("Shape", [data], "shape")
    parameters = [
        site.before("Reshape", [parameter, flat], f"flat_{i}")
        for i, parameter in enumerate(site.inputs[1:])
    ]
    site.set_inputs([site.before("Flatten", [data], "flat", axis=1), *parameters])
    site.after("Reshape", lambda y: [y, size], "rows", allowzero=1)


@adapter("GroupNormalization", until=20, types=True)
def group_normalization(site: AdapterSite) -> None:
    """Scale and bias used to be one per group; now they are one per channel."""
    found = site.node.attributes.get("num_groups")
    if found is None or len(site.inputs) != 3:
        raise site.unsupported("it needs three inputs and the number of groups")
    groups = found.as_int()
    given = (x.shape for x in site.inputs[1:] if x is not None and x.shape is not None)
    if any(len(n) != 1 or (isinstance(n[0], int) and n[0] != groups) for n in given):
        raise site.unsupported(f"scale and bias need {groups} numbers, one per group")
    shape = site.data.shape
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    if isinstance(channels, int) and groups > 0:
        repeat = site.ints("repeat", [1, channels // groups])
    else:
        size = site.before("Shape", [site.data], "channels", start=1, end=2)
        per_group = site.before("Div", [size, site.ints("groups", [groups])], "size")
        one = site.ints("one", [1])
        repeat = site.before("Concat", [one, per_group], "repeat", axis=0)
    column, flat = site.ints("column", [-1, 1]), site.ints("flat", [-1])
    spread: list[ir.Value] = []
    for name, parameter in zip(("scale", "bias"), site.inputs[1:3], strict=True):
        tall = site.before("Reshape", [parameter, column], f"{name}_column")
        wide = site.before("Tile", [tall, repeat], f"{name}_tiled")
        spread.append(site.before("Reshape", [wide, flat], name))
    site.set_inputs([site.data, *spread])


@adapter("Upsample", until=9)
def upsample(site: AdapterSite) -> None:
    """Upsample became Resize, which says how coordinates are computed."""
    factors = site.take("scales")
    scales = site.input(1)
    if factors is not None:
        array = np.array(factors.as_floats(), np.float32)
        scales = site.constant("scales", array)
    site.node.op_type = "Resize"
    _resize_by(site, scales, shrinks=False)


@adapter("Resize", until=10)
def resize_10(site: AdapterSite) -> None:
    """Resize by factors only, from the corner; now it can be told otherwise.

    To the nearest pixel means: down when growing, up when shrinking, each axis for
    itself. With known factors that is one Resize, or two where both occur.
    """
    scales = site.input(1)
    mode = site.node.attributes.get("mode")
    if mode is not None and mode.as_string() != "nearest":
        _resize_by(site, scales, shrinks=False)
        return
    factors = constant_array(scales)
    if factors is None:
        raise site.unsupported(
            "to the nearest pixel by computed factors is not supported before opset 11",
            "export the model with opset 11 or newer",
        )
    grown, shrunk = np.maximum(factors, 1), np.minimum(factors, 1)
    if (grown > 1).any() and (shrunk < 1).any():
        # ONNX Runtime gives a tensor as it is where a Resize keeps all of its sizes.
        shape = site.data.shape or (None,) * factors.size
        sizes = np.array([n if isinstance(n, int) else 2 for n in shape], np.float32)
        kept = (np.floor(sizes * grown) == sizes).all()
        if kept and (sizes[grown > 1] > 1).any():
            raise site.unsupported(
                "to the nearest pixel by factors of which some shrink, and others may"
                " be too small to grow, is not supported before opset 11",
                "export the model with opset 11 or newer",
            )
        data = site.before(
            "Resize",
            [site.data, None, site.constant("shrink", shrunk.astype(np.float32))],
            "shrunk",
            coordinate_transformation_mode="asymmetric",
            mode="nearest",
            nearest_mode="ceil",
        )
        site.node.replace_input_with(0, data)
        scales = site.constant("grow", grown.astype(np.float32))
        _resize_by(site, scales, shrinks=False)
    else:
        _resize_by(site, scales, shrinks=bool((shrunk < 1).any()))


def _resize_by(site: AdapterSite, scales: ir.Value | None, shrinks: bool) -> None:
    site.set_inputs([site.data, None, scales])
    site.set("coordinate_transformation_mode", "asymmetric")
    site.set("nearest_mode", "ceil" if shrinks else "floor")


@adapter("Resize", until=18)
def resize(site: AdapterSite) -> None:
    """Inputs that don't count had to be there, empty; one odd mode is gone."""
    kept: list[ir.Value | None] = list(site.inputs[:4])
    for i in range(1, len(kept)):
        array = constant_array(kept[i])
        if array is not None and not array.size:
            kept[i] = None
    attributes = site.node.attributes
    transformation = attributes.get("coordinate_transformation_mode")
    if transformation is None or transformation.as_string() != "tf_crop_and_resize":
        kept[1:2] = [None]
    site.set_inputs(kept)
    if transformation is None or transformation.as_string() != "tf_half_pixel_for_nn":
        return
    # floor((x + 0.5) / scale) is the nearest to (x + 0.5) / scale - 0.5, ties upwards.
    mode, nearest = attributes.get("mode"), attributes.get("nearest_mode")
    if mode is not None and mode.as_string() != "nearest":
        raise site.unsupported(
            "mode 'tf_half_pixel_for_nn' is supported for nearest neighbours only"
        )
    if nearest is None or nearest.as_string() != "floor":
        raise site.unsupported(
            "mode 'tf_half_pixel_for_nn' is supported with nearest_mode 'floor' only"
        )
    site.set("coordinate_transformation_mode", "half_pixel")
    site.set("nearest_mode", "round_prefer_ceil")
