"""Adapters for opsets before 7, the first with the broadcasting of today."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from .opset_adapters import AdapterSite, adapter, constant_array
from .opset_inputs import clip, dropout, pad, split_by_attribute
from .opset_nn import batch_normalization, upsample

_ARITHMETIC = ("Add", "Div", "Mul", "Sub")
_IN_PLACE = (
    *("Abs", "Ceil", "Elu", "Exp", "Floor", "HardSigmoid", "InstanceNormalization"),
    *("LeakyRelu", "Log", "Max", "Mean", "Min", "Neg", "Reciprocal", "Relu"),
    *("Sigmoid", "Sqrt", "Sum", "Tanh"),
)


@adapter(*_IN_PLACE, until=5)
def consumed_inputs(site: AdapterSite) -> None:
    """`consumed_inputs` allowed to work in place; it never changed a result."""
    site.take("consumed_inputs")


@adapter(*_ARITHMETIC, "And", "Equal", "Greater", "Less", until=6, types=True)
@adapter("Or", "Pow", "Xor", until=6, types=True)
def broadcast(site: AdapterSite) -> None:
    """The second operand used to be aligned with the axes of the first from `axis` on.

    Without `axis` it is aligned with the last ones, as it always is now.
    """
    consumed_inputs(site)
    site.take("broadcast")
    axis = site.take("axis")
    if axis is not None and (other := site.input(1)) is not None:
        _align(site, other, axis.as_int())


@adapter("PRelu", until=6, types=True)
def prelu(site: AdapterSite) -> None:
    """A slope per channel stood for axis 1 whatever its shape."""
    consumed_inputs(site)
    slope = site.input(1)
    if slope is None or slope.shape is None:
        raise site.unsupported("the shape of its slope must be known before opset 7")
    if len(slope.shape) == 1 and slope.shape[0] != 1:
        _align(site, slope, 1)


def _align(site: AdapterSite, other: ir.Value, axis: int) -> None:
    """Give the second input axes of size 1 behind its own."""
    if site.data.shape is None or other.shape is None:
        raise site.unsupported(
            "the ranks of its operands must be known before opset 7",
            "give the model's inputs a shape, or export with opset 7 or newer",
        )
    rank, own = len(site.data.shape), len(other.shape)
    missing = rank - own - (axis + rank if axis < 0 else axis)
    if missing > 0:
        axes = site.ints("axes", list(range(own, own + missing)))
        aligned = site.before("Unsqueeze", [other, axes], "aligned")
        site.node.replace_input_with(1, aligned)


@adapter("Gemm", until=6)
def gemm(site: AdapterSite) -> None:
    """C is broadcast wherever it can be."""
    site.take("broadcast")


@adapter("BatchNormalization", until=6)
def batch_normalization_6(site: AdapterSite) -> None:
    """Whether it trains showed in the number of its outputs already."""
    consumed_inputs(site)
    site.take("is_test")
    batch_normalization(site)


@adapter("Dropout", until=6)
def dropout_6(site: AdapterSite) -> None:
    """Training was the default."""
    consumed_inputs(site)
    if site.take_int("is_test", 0) == 0:
        raise site.unsupported(
            "training mode is not supported before opset 12",
            "export the model in evaluation mode",
        )
    dropout(site)


@adapter("Cast", until=5)
def cast(site: AdapterSite) -> None:
    """The type was a name."""
    name = site.take_string("to", "")
    if name not in ir.DataType.__members__:
        raise site.unsupported("its type has no known name")
    site.set("to", ir.DataType[name].value)


@adapter("Clip", until=5, types=True)
def _clip_5(site: AdapterSite) -> None:
    consumed_inputs(site)
    clip(site)


@adapter("Concat", until=3)
def concat(site: AdapterSite) -> None:
    """The axis was 1 by default."""
    site.set("axis", site.take_int("axis", 1))


@adapter("GRU", "LSTM", "RNN", until=6)
def recurrent(site: AdapterSite) -> None:
    """`output_sequence` said whether to give the first output, which may be left out.

    The default direction of the first GRU was misspelled.
    """
    site.take("output_sequence")
    direction = site.take_string("direction", "forward")
    site.set("direction", "forward" if direction == "foward" else direction)


@adapter("GlobalLpPool", "LpPool", until=1)
def lp_pool(site: AdapterSite) -> None:
    """The norm was any number, but only whole ones are left."""
    p = site.take_float("p", 2.0)
    if p != int(p):
        raise site.unsupported(f"a norm of order {p} is not supported")
    site.set("p", int(p))


@adapter("Pad", until=1, types=True)
def pad_1(site: AdapterSite) -> None:
    """`pads` was called `paddings`."""
    site.set("pads", site.take_ints("paddings") or [])
    pad(site)


@adapter("Reshape", until=4)
def reshape(site: AdapterSite) -> None:
    """The shape became an input."""
    consumed_inputs(site)
    shape = site.ints("shape", site.take_ints("shape") or [])
    site.set_inputs([site.data, shape])


@adapter("Selu", until=5)
def selu(site: AdapterSite) -> None:
    """The defaults had five digits."""
    consumed_inputs(site)
    site.set("alpha", site.take_float("alpha", 1.6732))
    site.set("gamma", site.take_float("gamma", 1.0507))


@adapter("Split", until=1)
def split(site: AdapterSite) -> None:
    """The sizes could be an input of the type of the data."""
    if site.input(1) is not None:
        raise site.unsupported("sizes given as an input are not supported in opset 1")
    split_by_attribute(site)


@adapter("Tile", until=5, types=True)
def tile(site: AdapterSite) -> None:
    """One axis was repeated; now there is a count for each."""
    count, axis = (constant_array(site.input(i)) for i in (1, 2))
    shape = site.data.shape
    if count is None or axis is None or shape is None:
        raise site.unsupported(
            "tiles and axis must be constants, and the rank known, before opset 6"
        )
    repeats = np.ones(len(shape), np.int64)
    repeats[int(axis.reshape(-1)[0])] = int(count.reshape(-1)[0])
    site.set_inputs([site.data, site.constant("repeats", repeats)])


@adapter("Upsample", until=6)
def upsample_1(site: AdapterSite) -> None:
    """Only height and width had factors."""
    factors = [site.take_float(f"{side}_scale", 1.0) for side in ("height", "width")]
    attribute = ir.AttrFloat32s("scales", [1.0, 1.0, *factors])
    site.node.attributes["scales"] = attribute
    upsample(site)
